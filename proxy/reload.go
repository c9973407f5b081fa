package proxy

// Reload puts other options into force: Audit, AuditLocks, Users, Policies, AllowUnguarded, NoScripts,
// DefaultTTL, HTTPHosts, MaxClients, IdleTimeout and OutputTotal. It ignores the others. If an option
// is not valid it changes nothing, and returns the error of Validate.
//
// Limits count for what clients do from now on: nobody loses a connection or a lock because a limit is
// lower. A user who is not there any more, whose password is another one, or who may do less than
// before loses its connections, and so do all clients when the first users are configured or the last
// are taken away (redlockd's own reload refuses that). For locks, this is as if these clients had left.
// Reload returns how many connections it has closed.
func (srv *Server) Reload(opts Options) (closed int, err error) {
	opts.Engine, opts.Logger, opts.TLSConfig, opts.MemoryLimit = srv.opts.Engine, srv.log, srv.opts.TLSConfig, srv.opts.MemoryLimit
	if err := opts.Validate(); err != nil {
		return 0, err
	}
	srv.reloading.Lock()
	defer srv.reloading.Unlock()
	before := srv.live()
	live := newLiveOptions(opts.withDefaults(), before)
	for i, a := range live.accounts {
		a.current.Store(&live.Users[i])
	}
	srv.limitUsers(live, srv.memoryShare(live))
	srv.current.Store(live)
	srv.audit.setOutput(opts.Audit, opts.AuditLocks)
	for _, p := range live.policies {
		srv.opts.Engine.SetLimits(p.waiters(), 0, 0, p.MaxWaiters)
	}
	srv.shares.keepUsers(func(a *account) bool { return a == srv.anonymous || live.knows(a) })

	everybody := (len(before.Users) == 0) != (len(live.Users) == 0)
	for _, conn := range srv.clients() {
		a := conn.session.account()
		if stays := !everybody && (a == srv.anonymous || live.knows(a)); stays || conn.session.asksForReload.Load() {
			continue
		}
		conn.close("its user was changed or removed")
		closed++
	}
	return closed, nil
}
