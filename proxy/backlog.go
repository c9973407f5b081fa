package proxy

import (
	"cmp"
	"log/slog"
	"slices"
	"time"
)

// What waits for clients to read it is memory that the clients choose to take. OutputMax bounds it for each of them, but thousands
// together would take gigabytes; OutputTotal bounds it for all. Beyond that bound the client with the most is closed: of the user who
// has the most waiting, its largest connection. So no user loses a connection while another has more waiting, and no share has to be
// set for each.
//
// Before that, whoever publishes is slowed down, for messages are what clients get without having asked: see slowDown.
//
// What the kernel takes at once is not counted, and costs no counting.

// memoryLocked is the memory that replies and messages take which wait for the client. A message that waits for many is there once,
// and counted for each, for each alone may keep it there.
func (s *session) memoryLocked() int {
	return s.queued + cap(s.pushed) + s.writerHolds + s.outHolds
}

// countOutputLocked brings the counts up to date with memoryLocked. It is called after each try to send. A session that is dead counts
// for nothing: its memory is as good as free.
func (s *session) countOutputLocked() {
	n := 0
	if !s.dead.Load() {
		n = s.memoryLocked()
	}
	if more := int64(n - s.counted); more != 0 {
		s.counted = n
		s.account.output.Add(more)
		s.server.output.Add(more)
	}
}

// relieve closes clients as long as more than OutputTotal waits. Whoever has counted something calls it, with no lock held.
func (srv *Server) relieve() {
	for srv.output.Load() > int64(srv.opts.OutputTotal) && srv.relieving.TryLock() {
		closed := srv.closeLargest()
		srv.relieving.Unlock()
		if closed == 0 {
			return
		}
	}
}

// backlogs are the connections of one account that have something waiting.
type backlogs struct {
	total   int
	clients []backlog // the largest first
}

type backlog struct {
	s     *session
	bytes int
}

// closeLargest closes clients until an eighth of OutputTotal is free, so that the search is not needed for each message. It returns how
// many.
func (srv *Server) closeLargest() (closed int) {
	total, accounts := srv.backlogs()
	for total > srv.opts.OutputTotal-srv.opts.OutputTotal/8 {
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
	for _, s := range srv.clients() {
		s.mu.Lock()
		a, n := s.account, s.counted
		s.mu.Unlock()
		if n == 0 {
			continue
		}
		if accounts[a] == nil {
			accounts[a] = new(backlogs)
		}
		b := accounts[a]
		b.clients = append(b.clients, backlog{s, n})
		b.total += n
		total += n
	}
	for _, b := range accounts {
		slices.SortFunc(b.clients, func(x, y backlog) int { return cmp.Compare(y.bytes, x.bytes) })
	}
	return total, accounts
}

func (srv *Server) evict(b backlog) {
	s := b.s
	srv.counters.evicted.Add(1)
	srv.slowReaders.Log(srv.log, slog.LevelWarn, time.Now(), "client closed: too much waits for clients to read it, and most for this one",
		"client", s.id, "addr", s.addr, "user", s.username(), "bytes", b.bytes, "output_total", srv.opts.OutputTotal,
		"to_do", "have the client read its replies; raise output_total if there is memory")
	s.die("it reads too slowly (output_total)")
}

// tooSlow closes a client for which more than OutputMax would wait.
func (s *session) tooSlow() {
	srv := s.server
	srv.counters.outputLimited.Add(1)
	srv.slowReaders.Log(srv.log, slog.LevelWarn, time.Now(), "client closed: it reads its messages too slowly",
		"client", s.id, "addr", s.addr, "user", s.username(), "output_max", srv.opts.OutputMax,
		"to_do", "have the client read its messages, or raise output_max")
	s.die("it does not read its messages (output_max)")
}

const (
	// publishPause is the longest wait after a message, and publishLook how often is looked whether it can end.
	publishPause = 100 * time.Millisecond
	publishLook  = 5 * time.Millisecond
)

// outputHigh tells whether so much waits for the clients of the account that those of its clients who publish must wait. Only
// their own user's clients count: nobody can slow down another user by not reading.
func (s *session) outputHigh(a *account) bool {
	return a.output.Load() > int64(s.server.opts.OutputTotal/2)
}

// afterPublish is called after a message of the session was passed on, on any goroutine.
func (s *session) afterPublish(a *account) {
	if s.outputHigh(a) {
		s.slowed.Store(true)
	}
}

// slowDown has a client that has published wait before its next command until its user's clients have read some, but not for longer than
// publishPause: the lock of another may depend on the next message, and those who never read are closed in the end.
func (s *session) slowDown() error {
	s.slowed.Store(false)
	return s.betweenBatches(func() error {
		for waited := time.Duration(0); waited < publishPause && s.outputHigh(s.account); waited += publishLook {
			if s.dead.Load() {
				return errDead
			}
			time.Sleep(publishLook)
		}
		return nil
	})
}
