package proxy

import (
	"crypto/tls"
	"slices"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock"
)

// A running server takes other users and limits with Reload. All options that it can change are one
// immutable liveOptions, which Reload replaces as a whole. A command that is under way may see the old
// and the new ones.
//
// To make a further option changeable: take it out of lastingOptions or of what New copies, read it by
// Server.live wherever it is used, name it in the comment of Reload, and let config say that its
// setting can change (Setting.Live).

// lastingOptions are those that Reload does not change.
type lastingOptions struct {
	Engine       *redlock.Client
	Version      string
	Embedded     bool
	TLSConfig    *tls.Config
	Certificates func() []Certificate
	Settings     func() []Setting
	Reload       func() (changed string, err error)
	MemoryLimit  int64
}

// liveOptions are the options in force. They do not change once they are stored.
type liveOptions struct {
	Options
	accounts  []*account      // accounts[i] is that of Users[i]
	passwords []access.Digest // passwords[i] is that of Users[i]
	policies  []*policy       // policies[i] is that of Policies[i]
}

// live returns the options in force. Two calls can return different ones.
func (srv *Server) live() *liveOptions { return srv.current.Load() }

// newLiveOptions makes liveOptions of valid options. before are those in force until now, or nil.
func newLiveOptions(opts Options, before *liveOptions) *liveOptions {
	opts.Users = slices.Clone(opts.Users)
	opts.fitMemory()
	live := &liveOptions{Options: opts, passwords: access.Digests(opts.Users)}
	var policies []*policy
	if before != nil {
		policies = before.policies
	}
	live.policies = newPolicies(opts.Policies, policies)
	for i := range opts.Users {
		u := &opts.Users[i]
		same := before.accountNamed(u.Name)
		if same == nil || same.user().LosesBy(u) {
			same = newAccount(u, same)
		}
		live.accounts = append(live.accounts, same)
	}
	return live
}

// What one client takes while it is idle, see Options.MemoryLimit. Measured: 5 KB, and 14 KB with TLS.
const (
	clientMemory    = 8 << 10
	tlsClientMemory = 16 << 10
)

// fitMemory lowers what clients may take of the process to its part of MemoryLimit. A quarter is for idle
// clients, an eighth for what is kept for them, and the rest for locks and the program, for what waits in
// the engine, and for garbage: near the limit, the collector cannot keep up with floods.
func (o *Options) fitMemory() {
	if o.MemoryLimit <= 0 {
		return
	}
	each := int64(clientMemory)
	if o.TLSConfig != nil {
		each = tlsClientMemory
	}
	clients := max(1, o.MemoryLimit/4/each)
	output := max(int64(o.bounds.outputTotalMin()), o.MemoryLimit/8)
	if clients >= int64(o.MaxClients) && output >= int64(o.OutputTotal) {
		return
	}
	o.MaxClients, o.OutputTotal = int(min(clients, int64(o.MaxClients))), int(min(output, int64(o.OutputTotal)))
	o.Logger.Warn("the limit of memory lowers what clients may take", "memory_limit", o.MemoryLimit, "max_clients", o.MaxClients, "output_total", o.OutputTotal,
		"to_do", "give redlockd more memory (the container's limit, or GOMEMLIMIT), or lower max_clients and output_total")
}

// maxConnections is how many connections the user may have; 0: as many as the server takes. Where there
// are several users, none takes more than half of MaxClients unless its own limit says so.
func (o *liveOptions) maxConnections(u *access.User) int {
	switch {
	case u == nil:
		return 0
	case u.MaxConnections > 0 || len(o.Users) < 2:
		return u.MaxConnections
	}
	return max(1, o.MaxClients/2)
}

// enter counts a connection of the account, or returns the error if that would be one too many. Each enter
// is followed by one leave.
func (o *liveOptions) enter(a *account) (refusal error) {
	for {
		n := a.connections.Load()
		if refusal := o.checkConnections(a, int(n)); refusal != nil {
			a.refused.connections.Add(1)
			return refusal
		}
		if a.connections.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

// checkConnections refuses a connection more for an account that has n. Without a limit of its own, a user
// has at most maxConnections, and of the last eighth of MaxClients nothing beyond MaxClients divided by
// the users: a few users who take all that they can keep no other user out. adminPlaces are kept beside
// that. Connections that log in at one moment may each find the same places free.
func (o *liveOptions) checkConnections(a *account, n int) (refusal error) {
	u := a.user()
	most := o.maxConnections(u)
	switch {
	case u != nil && u.MaxConnections > 0 && n >= most:
		return a.reached("ERR", "connections", most)
	case most > 0 && n >= most:
		return errorf("ERR max number of connections of user %s reached (%d, half of max_clients: its max_connections in [auth] says another number)", u.Name, most)
	case most == 0 || u.MaxConnections > 0 || n == 0 || n < o.MaxClients/len(o.Users):
		return nil
	}
	taken := int64(0)
	for _, other := range o.accounts {
		taken += other.connections.Load()
	}
	if taken < int64(o.MaxClients-o.MaxClients/8) {
		return nil
	}
	return errorf("ERR max number of connections of user %s reached: it has %d, and the last %d of max_clients are for users who have fewer than %d",
		u.Name, n, o.MaxClients/8, o.MaxClients/len(o.Users))
}

// accountNamed returns the account of the user of this name, or nil.
func (o *liveOptions) accountNamed(name string) *account {
	if o != nil {
		for i := range o.Users {
			if o.Users[i].Name == name {
				return o.accounts[i]
			}
		}
	}
	return nil
}

// accountOf returns the account of the user with this name and password, or nil.
func (o *liveOptions) accountOf(name, password []byte) *account {
	if i := access.LogIn(o.Users, o.passwords, name, password); i >= 0 {
		return o.accounts[i]
	}
	return nil
}

// knows reports whether connections on this account may stay.
func (o *liveOptions) knows(a *account) bool { return slices.Contains(o.accounts, a) }

// accountOfCN returns the account of the user whom a certificate with this common name logs in, or nil.
func (o *liveOptions) accountOfCN(name string) *account {
	if name != "" {
		for i := range o.Users {
			if o.Users[i].CertCN == name {
				return o.accounts[i]
			}
		}
	}
	return nil
}

// limitUsers puts the limits of all users into force, with this share of the masters' memory.
func (srv *Server) limitUsers(live *liveOptions, share int64) {
	srv.userMemory.Store(share)
	for _, a := range live.accounts {
		u := a.user()
		srv.opts.Engine.SetLimits(a.share, u.MaxLocks, srv.maxMemory(u), u.MaxWaiters)
	}
}

// shareMemory computes what a user without a max_memory may take of the masters, and puts it into force.
// It is called once a second: maxmemory and the number of redlockds change.
func (srv *Server) shareMemory() {
	srv.reloading.Lock()
	defer srv.reloading.Unlock()
	live := srv.live()
	if share := srv.memoryShare(live); share != srv.userMemory.Load() {
		srv.limitUsers(live, share)
	}
}

// memoryShare is the share of a user without a max_memory; 0: there is no limit, as one user alone has none.
func (srv *Server) memoryShare(live *liveOptions) int64 {
	if len(live.Users) < 2 {
		return 0
	}
	return memoryShare(srv.fleet.Size(time.Now()), srv.opts.Engine.Masters())
}

// maxMemory is what the locks of the user may take of each master, in bytes; 0: there is no limit.
func (srv *Server) maxMemory(u *access.User) int {
	if u.MaxMemory > 0 {
		return u.MaxMemory
	}
	return int(srv.userMemory.Load())
}
