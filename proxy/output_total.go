package proxy

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"redlockd/redlock/resp"
)

// outputMax bounds what waits for one client to read it, and its commands in flight. Limits of their own
// bound what it has sent of a command, and what its session keeps: a transaction, subscriptions. Thousands
// of clients together could still take gigabytes, so OutputTotal bounds all that for all of them. Beyond
// that bound connections are closed: of the user with the most waiting, the connection with the most. So
// no user loses a connection while another has more waiting, and no share has to be configured for each.
//
// Before that, clients that publish are slowed down (slowDown), because messages are what other clients
// get unasked, and clients with many commands in flight (fullLocked).
//
// What the kernel takes at once is not counted, and costs no counting.

// memoryLocked is what is kept for the client: replies and messages that wait for it, commands that are
// in flight or have not come whole, and what its session keeps. A message that waits for many clients is
// there once, and counts for each of them, because each alone may keep it there.
func (conn *connection) memoryLocked() int {
	return conn.queued + conn.kept + conn.writerMemory + conn.outMemory + conn.inMemory + conn.sessionMemory
}

// countedFrom is the least change of a client's memory that is counted at once. It keeps the counts, which
// all clients share, out of the way of a few short commands.
const countedFrom = 2 << 10

// countOutputLocked brings the counts of the account and of the server up to date with memoryLocked, to
// within countedFrom. It is called after each send, and where something is added that cannot be sent. A
// closed connection counts for nothing: its memory will be free in a moment.
func (conn *connection) countOutputLocked() {
	n := 0
	if !conn.closed.Load() {
		n = conn.memoryLocked()
	}
	if more := int64(n - conn.counted); more >= countedFrom || more <= -countedFrom || n == 0 && more != 0 {
		conn.counted = n
		conn.session.account().output.Add(more)
		conn.server.output.Add(more)
	}
}

// countIn brings the counts up to date with what the connection's reader keeps while it waits. Called by
// that.
func (srv *Server) countIn(conn *connection) {
	conn.mu.Lock()
	conn.countInLocked()
	conn.countOutputLocked()
	conn.mu.Unlock()
	srv.relieve()
}

// relieve closes clients as long as more than OutputTotal waits. It is called after countOutputLocked,
// with no lock held.
func (srv *Server) relieve() {
	for srv.output.Load() > int64(srv.live().OutputTotal) && srv.relieving.TryLock() {
		closed := srv.closeLargest()
		srv.relieving.Unlock()
		if closed == 0 {
			return
		}
	}
}

// backlogs are the connections of one account that have something waiting.
type backlogs struct {
	total   int       // the sum over clients
	clients []backlog // the largest first
}

// backlog is what waited for one client when backlogs looked.
type backlog struct {
	conn  *connection
	bytes int
}

// closeLargest closes clients until an eighth of OutputTotal is free, so that it does not run for each
// message. It returns how many it has closed.
func (srv *Server) closeLargest() (closed int) {
	total, accounts := srv.backlogs()
	for total > srv.live().OutputTotal-srv.live().OutputTotal/8 {
		var most *backlogs
		for _, b := range accounts {
			if most == nil || b.total > most.total {
				most = b
			}
		}
		largest := most.clients[0]
		most.clients = most.clients[1:]
		most.total -= largest.bytes
		total -= largest.bytes
		srv.evict(largest)
		closed++
	}
	return closed
}

// backlogs lists what waits, by account.
func (srv *Server) backlogs() (total int, accounts map[*account]*backlogs) {
	accounts = make(map[*account]*backlogs)
	for _, conn := range srv.clients() {
		conn.mu.Lock()
		a, n := conn.session.account(), conn.counted
		conn.mu.Unlock()
		if n == 0 {
			continue
		}
		if accounts[a] == nil {
			accounts[a] = new(backlogs)
		}
		b := accounts[a]
		b.clients = append(b.clients, backlog{conn, n})
		b.total += n
		total += n
	}
	for _, b := range accounts {
		slices.SortFunc(b.clients, func(x, y backlog) int { return cmp.Compare(y.bytes, x.bytes) })
	}
	return total, accounts
}

// evict closes a client. The log says which user it was, because the cause is mostly a service that has
// stopped reading. A client that no reply waits for is told why it is closed, unless it speaks TLS, where
// that could block.
func (srv *Server) evict(b backlog) {
	conn := b.conn
	srv.counters[countEvicted].Add(1)
	what, toDo := "too much waits for clients to read it, and most for this one", "have the client read its replies"
	conn.mu.Lock()
	switch {
	case conn.kept > b.bytes/2:
		what, toDo = "too much is kept of commands that are not answered yet, and most for this one", "have the client send fewer commands at a time"
	case conn.inMemory+conn.sessionMemory > b.bytes/2:
		what, toDo = "too much is kept of handshakes, commands in part, transactions and subscriptions, and most for this one",
			"have the client send its commands whole, end its transactions, and subscribe to less"
	}
	if conn.raw != nil && conn.head == nil && conn.unsentLocked() == 0 && !conn.executing.Load() {
		conn.appendLocked(appendError(nil, resp.ProtocolError(fmt.Sprintf("%s: all clients can take %d bytes (output_total)", what, srv.live().OutputTotal))))
		conn.sendLocked()
	}
	conn.mu.Unlock()
	srv.slowReaders.Log(srv.log, slog.LevelWarn, time.Now(), "client closed: "+what,
		"client", conn.id, "addr", conn.addr, "user", conn.session.username(), "bytes", b.bytes, "output_total", srv.live().OutputTotal,
		"to_do", toDo+"; raise output_total if there is memory")
	conn.close(what + " (output_total)")
}

// tooSlow closes a client for which more than outputMax would wait.
func (conn *connection) tooSlow() {
	srv := conn.server
	srv.counters[countOutputLimited].Add(1)
	srv.slowReaders.Log(srv.log, slog.LevelWarn, time.Now(), "client closed: it reads its messages too slowly",
		"client", conn.id, "addr", conn.addr, "user", conn.session.username(), "output_max", srv.bounds.outputMax,
		"to_do", "have the client read its messages")
	conn.close("it does not read its messages (output_max)")
}

const (
	// publishPause is the longest that a client waits after a message that it has published.
	publishPause = 100 * time.Millisecond
	// publishPoll is how often it is checked whether the wait can end.
	publishPoll = 5 * time.Millisecond
)

// outputHigh reports whether so much waits for the clients of the account that its clients that publish
// must wait. Only clients of the same user count, so that nobody can slow down another user by not reading.
func (srv *Server) outputHigh(a *account) bool {
	return a.output.Load() > int64(srv.live().OutputTotal/2)
}

// flightMax is how much may be kept for the clients of one account, and of all, before those with deep
// pipelines must wait: a quarter and half of OutputTotal, at which clients are closed. Where the engine
// queues less of one user, it is a quarter and all of that, because commands beyond it are refused. One
// takes up to one and a half times there what its slot counts here.
func (srv *Server) flightMax() (one, all int64) {
	most := srv.live().OutputTotal
	return int64(min(most, srv.queueMax) / 4), int64(min(most/2, srv.queueMax))
}

// flightHigh reports whether more than flightMax is kept for the clients of the account, or for all and
// more than its part for these. So nobody slows down a user of whom little is kept.
func (srv *Server) flightHigh(a *account) bool {
	one, all := srv.flightMax()
	kept := a.output.Load()
	return kept > one || srv.output.Load() > all && kept > srv.partOfAll(all)
}

// partOf is what the commands in flight of one client of the account may take while flightHigh: a quarter
// of flightMax, divided by the clients of the account, or by all accounts and then by its clients.
func (srv *Server) partOf(a *account) int {
	one, all := srv.flightMax()
	part := one / 4
	if srv.output.Load() > all {
		part = min(part, srv.partOfAll(all))
	}
	return int(part / max(1, a.connections.Load()))
}

// partOfAll is the part of one account of what all may still take when they have that much.
func (srv *Server) partOfAll(all int64) int64 { return all / 4 / int64(1+len(srv.live().Users)) }

// afterPublish is called when a message of the session was passed on, by any goroutine.
func (s *session) afterPublish(a *account) {
	if s.server.outputHigh(a) {
		s.mustSlowDown.Store(true)
	}
}

// slowDown makes a client that has published wait before its next command, until its user's clients
// have read some of what waits for them. It waits for publishPause at most: the lock of another may
// depend on the next message, and clients that never read are closed in the end.
func (s *session) slowDown() error {
	s.mustSlowDown.Store(false)
	return s.conn.sendAnd(func() error {
		for waited := time.Duration(0); waited < publishPause && s.server.outputHigh(s.account()); waited += publishPoll {
			if s.conn.closed.Load() {
				return errClosed
			}
			time.Sleep(publishPoll)
		}
		return nil
	})
}
