package proxy

import (
	"fmt"
	"time"
)

// One goroutine closes the connections of all clients that have used up commandTimeout or
// idle_timeout. It looks at each of them several times within the shorter of the two, so no command
// pays for a deadline of its own, and a timeout is late by a quarter at most.

// runTimeouts is that goroutine. Once a second it also shares the masters' memory out among the users. It
// ends when the server is closed.
func (srv *Server) runTimeouts() {
	pause, second := time.NewTimer(srv.timeoutsPause()), time.NewTicker(time.Second)
	defer pause.Stop()
	defer second.Stop()
	for {
		select {
		case <-srv.done:
			return
		case <-second.C:
			srv.shareMemory()
		case <-pause.C:
			srv.closeTimedOut()
			pause.Reset(srv.timeoutsPause())
		}
	}
}

// timeoutsPause is the pause between two looks at all connections. It is a second at most, after which
// other timeouts of a reload count.
func (srv *Server) timeoutsPause() time.Duration {
	shortest := srv.bounds.commandTimeout
	if idle := srv.live().IdleTimeout; idle > 0 {
		shortest = min(shortest, idle)
	}
	return min(max(shortest/4, 5*time.Millisecond), time.Second)
}

// closeTimedOut looks at every connection once. It takes the mu of those alone whose idle_timeout is
// over.
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
	most := conn.server.bounds.commandTimeout
	if half := conn.incompleteSince.Load(); half != 0 && now-half > int64(most) {
		return fmt.Sprintf("half a command, and no more within %v", most)
	}
	idle := conn.server.live().IdleTimeout
	if idle == 0 || now-conn.lastUsed.Load() <= int64(idle) {
		return ""
	}
	// A client that waits for a reply is not idle, and one that does not read its replies has
	// writeTimeout.
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if conn.head != nil || conn.unsentLocked() > 0 {
		return ""
	}
	return "idle_timeout"
}
