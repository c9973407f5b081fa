package proxy

import "time"

// One goroutine closes the connections of all clients that have used up command_timeout or
// idle_timeout. It looks at each of them several times within the shorter of the two, so no command
// pays for a deadline of its own, and a timeout is late by a quarter at most.

// runTimeouts is that goroutine. It ends when the server is closed.
func (srv *Server) runTimeouts() {
	pause := time.NewTimer(srv.live().timeoutsPause())
	defer pause.Stop()
	for {
		select {
		case <-srv.done:
			return
		case <-pause.C:
			srv.closeTimedOut()
			pause.Reset(srv.live().timeoutsPause())
		}
	}
}

// timeoutsPause is the pause between two looks at all connections. It is a second at most, after which
// other timeouts of a reload count.
func (o *Options) timeoutsPause() time.Duration {
	shortest := o.CommandTimeout
	if idle := o.IdleTimeout; idle > 0 {
		shortest = min(shortest, idle)
	}
	return min(max(shortest/4, 5*time.Millisecond), time.Second)
}

// closeTimedOut looks at every connection once. It takes the mu of those alone whose idle_timeout is over.
func (srv *Server) closeTimedOut() {
	now := srv.now()
	for _, conn := range srv.clients() {
		if why := conn.timedOut(now); why != "" {
			srv.log.Info("client closed", "client", conn.id, "addr", conn.addr, "why", why)
			conn.close(why)
		}
	}
}

// timedOut names the timeout that the client has used up, or returns "". Called by the goroutine of the
// timeouts.
func (conn *connection) timedOut(now int64) string {
	opts := conn.server.live()
	if half := conn.incompleteSince.Load(); half != 0 && now-half > int64(opts.CommandTimeout) {
		return "half a command, and no more within command_timeout"
	}
	if opts.IdleTimeout == 0 || now-conn.lastUsed.Load() <= int64(opts.IdleTimeout) {
		return ""
	}
	// A client that waits for a reply is not idle, and one that does not read its replies has write_timeout.
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if conn.head != nil || conn.unsentLocked() > 0 {
		return ""
	}
	return "idle_timeout"
}
