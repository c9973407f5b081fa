package proxy

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redlockd/proxy/fleet"
	"redlockd/proxy/status"
	"redlockd/redlock/loglimit"
)

// Server serves the Redis protocol in front of a lock engine. Make one with New, pass it listeners with
// Serve, end it with Shutdown.
//
// This file accepts connections, and ends the server. Server also has what all clients share: the
// command table, the counters, the subscribers, the known scripts, and the bounds that hold for all
// clients together.
//
// A server ends in three stages:
//
//	Leave     nothing changes but /readyz, so that load balancers send new clients elsewhere
//	Shutdown  drains: no new lock, but locks that are held can be released; then it closes
//	Close     ends all connections at once
type Server struct {
	// Set once by New.
	opts    lastingOptions
	log     *slog.Logger
	table   *commandTable
	bounds  bounds
	started time.Time // the zero of the clock now

	leaving  atomic.Bool // Leave was called
	draining atomic.Bool // Shutdown was called

	// mu guards the fields up to done. It is never held together with a connection's mu.
	mu          sync.Mutex
	listeners   map[net.Listener]struct{}
	connections map[int64]*connection // by id
	preauth     list.List             // connections that have not authenticated yet, oldest first
	lastID      int64                 // of a connection
	timeoutsRun bool                  // the goroutine of runTimeouts was started
	closed      bool                  // Close was called
	done        chan struct{}         // closed with closed

	// goroutines are all but the audit's; Close waits for them. Add one only from a goroutine that is
	// counted itself, or with mu held while closed is false.
	goroutines sync.WaitGroup

	subscribers subscribers
	tracking    tracking
	scripts     scriptCache
	shares      *scriptShares // bounds the scripts that run at one time, in rotation over the users
	keyQueue    keyQueue
	listing     chan struct{} // holds an element while a LOCKS is being answered
	asking      chan struct{} // holds an element while a LOCKS ALL is under way, and for askEvery at least
	fleet       *fleet.Fleet  // the other redlockds over the same masters

	reloading sync.Mutex                  // held by Reload
	current   atomic.Pointer[liveOptions] // see live
	anonymous *account                    // of clients that have not logged in, and of all clients where no users are configured
	// userMemory is what the locks of a user without a max_memory may take of each master. See shareMemory.
	userMemory atomic.Int64

	// output is what is kept for clients (memoryLocked), over all accounts. It is at most OutputTotal and
	// what came since relieve ran last.
	output atomic.Int64
	// queueMax is what the engine queues of the commands of one user, in bytes.
	queueMax int
	// relieving is held while clients are closed because output is above OutputTotal. It is only ever
	// tried: a goroutine of the engine that finds it held goes on.
	relieving sync.Mutex

	// counters never fall: metrics are read as rates. stats has their values at CONFIG RESETSTAT.
	counters [counterCount]atomic.Uint64
	stats    *stats
	audit    *audit

	status     *status.Status // of HTTPHandler
	statusOnce sync.Once      // makes it

	cpu    *semaphore // bounds what clients compute before they have authenticated, or have sent much
	logins logins     // slows down clients that try passwords

	// Limiters of log lines about events that clients can cause as often as they like. Each event still
	// counts in counters.
	failedLogins     loglimit.Limiter
	failedHandshakes loglimit.Limiter
	refusedClients   loglimit.Limiter
	protocolErrors   loglimit.Limiter
	slowReaders      loglimit.Limiter
}

// counterID names one of the numbers that are counted since the start of the server. To add one: a line
// here, and a row in metricTable (metrics.go), which INFO reads, too.
type counterID int

const (
	countConnections      counterID = iota // accepted
	countRejected                          // connections refused because of MaxClients
	countCommands                          // executed
	countEvicted                           // clients closed because of OutputTotal
	countOutputLimited                     // subscribers closed because of outputMax
	countProtocolErrors                    // connections ended because what came was no command
	countLoginsFailed                      // by a wrong name or password
	countHandshakesFailed                  // of TLS
	countRepliesLost                       // locks released because their grant could not reach the client
	countBytesIn                           // from clients
	countBytesOut                          // to clients
	countErrors                            // error replies
	counterCount
)

// now is the server's clock: nanoseconds since New, monotonic. It is never 0, so that 0 can stand for
// "never". A number instead of a time.Time, so that other goroutines can read lastUsed and the like
// without a mutex.
func (srv *Server) now() int64 { return max(1, int64(time.Since(srv.started))) }

// After each acceptBurst connections, a listener accepts none for acceptPause. Go looks at the network
// when no goroutine can run, which a flood of connections prevents. Measured on two processors: 8 500
// connections a second, and 14 000 without pauses, but a p99 of 15 ms for another client's LOCK, not 7.
const (
	acceptBurst = 24
	acceptPause = time.Millisecond
)

// Serve accepts connections from l until Shutdown or Close, and returns nil then. If accepting fails
// for good, it returns that error. It closes l. It may be called for several listeners at the same
// time.
func (srv *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !srv.listen(l) {
		return nil
	}
	var pause time.Duration
	for n := 1; ; n++ {
		conn, err := l.Accept()
		if err == nil {
			pause = 0
			srv.accepted(conn)
			if n%acceptBurst == 0 {
				time.Sleep(acceptPause)
			}
			continue
		}
		srv.mu.Lock()
		_, listening := srv.listeners[l]
		srv.mu.Unlock()
		if !listening {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		// Mostly the process is out of file descriptors, which passes. Accepting again at once would
		// burn a core until then.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		srv.log.Warn("accept failed", "addr", l.Addr(), "err", err, "pause", pause,
			"to_do", "if too many files are open, raise the limit (ulimit -n, LimitNOFILE=) or lower max_clients")
		select {
		case <-time.After(pause):
		case <-srv.done:
			return nil
		}
	}
}

// listen registers a listener. With the first it starts runTimeouts, and what says to the other
// redlockds that this one is here. It returns false if the server is closed or draining.
func (srv *Server) listen(l net.Listener) bool {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.closed || srv.draining.Load() {
		return false
	}
	srv.listeners[l] = struct{}{}
	if !srv.timeoutsRun {
		srv.timeoutsRun = true
		srv.goroutines.Go(srv.runTimeouts)
		srv.fleet.Listens(l.Addr())
		srv.goroutines.Go(srv.fleet.Run)
	}
	return true
}

// accepted serves a connection on a goroutine of its own, or refuses it. At MaxClients (and
// adminPlaces, before a login or a handshake), a new connection takes the place of the oldest one that
// has not authenticated, so that connections without a login cannot keep clients out. If all have
// authenticated, the new one is refused.
//
// The goroutine takes the connection out of everything that knows it when the reader has ended. Until
// then the commands of other clients find it, unless it was evicted.
func (srv *Server) accepted(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		noticeVanished(t)
	}
	most := srv.live().MaxClients
	if srv.usesTLS(c) || len(srv.live().Users) > 0 {
		most += adminPlaces // who it is is known later, see authenticated
	}
	srv.mu.Lock()
	full := len(srv.connections) >= most
	var evicted *connection
	if full && !srv.closed {
		evicted = srv.evictPreauthLocked()
	}
	if (!full || evicted != nil) && !srv.closed {
		srv.lastID++
		conn := newConnection(srv, c, srv.lastID)
		srv.connections[conn.id] = conn
		srv.live().enter(conn.session.account())
		if srv.usesTLS(c) || !conn.session.authenticated() {
			srv.addPreauthLocked(conn)
		}
		srv.goroutines.Go(func() {
			conn.serve()
			srv.subscribers.forget(conn.session)
			srv.tracking.forget(conn.session)
			conn.session.account().leave()
			srv.mu.Lock()
			srv.removePreauthLocked(conn)
			delete(srv.connections, conn.id)
			srv.mu.Unlock()
		})
		srv.mu.Unlock()
		srv.counters[countConnections].Add(1)
		if evicted != nil {
			srv.refused(evicted.addr, "it has not logged in")
			evicted.close("another came, and it has not logged in")
		}
		return
	}
	srv.mu.Unlock()
	if full {
		srv.refused(c.RemoteAddr().String(), "all others have logged in")
		// With TLS no text is sent: the client could not read it before a handshake. A new socket takes
		// the text at once, whether its client reads or not. The deadline is for connections that do not,
		// which must not keep the server from accepting others. It is not short: on a busy machine it
		// would pass before the write, and the client would not learn why it is closed.
		if !srv.usesTLS(c) {
			c.SetWriteDeadline(time.Now().Add(time.Second))
			c.Write(appendError(nil, errMaxClients))
		}
	}
	c.Close()
}

// usesTLS reports whether the client must use TLS. On a unix socket it must not: nothing leaves the
// machine, and the mode of the file says who may connect.
func (srv *Server) usesTLS(c net.Conn) bool {
	_, local := c.(*net.UnixConn)
	return srv.opts.TLSConfig != nil && !local
}

// refused counts and logs that a client was not accepted, or was evicted, because of MaxClients.
func (srv *Server) refused(addr, why string) {
	srv.counters[countRejected].Add(1)
	srv.refusedClients.Log(srv.log, slog.LevelWarn, time.Now(), "client refused", "addr", addr, "max_clients", srv.live().MaxClients, "why", why,
		"to_do", "raise max_clients, or find out who connects so often: CLIENT LIST")
}

// Leave makes /readyz and the metric redlockd_ready say that the server is about to drain. Nothing else
// changes: it accepts connections and grants locks until Shutdown. The time between the two is for load
// balancers to notice.
func (srv *Server) Leave() { srv.leaving.Store(true) }

// Shutdown drains the server, then closes it. While it drains, no connection is accepted, no lock is
// granted (LEAVING), and waiters are answered; locks that were granted can be released and extended on
// the connections that exist.
//
// Draining ends when every command is answered and no lock granted here is held, or when no client is
// left who could release one. It also ends with ctx, and Shutdown returns the error of ctx then. Locks
// under HOLD are renewed to the end and not released, so that their clients can take them over
// elsewhere.
func (srv *Server) Shutdown(ctx context.Context) error {
	srv.draining.Store(true)
	srv.closeListeners()
	srv.opts.Engine.Drain()
	// Polled: an event for "the last client has its last reply" would have to be raised by every command.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var err error
	for err == nil && !srv.quiet() {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-srv.done:
			return nil
		case <-tick.C:
		}
	}
	srv.renewHeld()
	srv.Close()
	return err
}

// quiet reports whether draining is over: no client waits for a reply or holds a lock. Preauth
// connections do not count: they can have no lock, and anybody could keep a server from ending with
// one.
func (srv *Server) quiet() bool {
	srv.mu.Lock()
	clients := make([]*connection, 0, len(srv.connections))
	for _, conn := range srv.connections {
		if conn.preauthElem == nil {
			clients = append(clients, conn)
		}
	}
	srv.mu.Unlock()
	if len(clients) > 0 && srv.opts.Engine.Stats().Leases > 0 {
		return false
	}
	for _, conn := range clients {
		conn.mu.Lock()
		// All three under one lock: a reply moves from batch to the queue or to out with mu held, and
		// is seen in one of them.
		quiet := conn.head == nil && conn.unsentLocked() == 0 && !conn.executing.Load()
		conn.mu.Unlock()
		if !quiet {
			return false
		}
	}
	return true
}

// Close closes all listeners and connections, and waits for the goroutines of the server. Waits are
// ended, and locks whose grant is not sent are released, except those under a token that the client
// chose (see lockCall.replyLost). The engine is not closed. Close may be called more than once.
func (srv *Server) Close() error {
	srv.closeListeners()
	srv.mu.Lock()
	if !srv.closed {
		srv.closed = true
		close(srv.done)
	}
	srv.mu.Unlock()
	for _, conn := range srv.clients() {
		conn.close("the server is closed")
	}
	srv.goroutines.Wait()
	srv.audit.close()
	return nil
}

// begin runs f on a goroutine of its own, for which Close waits. It returns false if the server is
// closed; f does not run then.
func (srv *Server) begin(f func()) bool {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if !srv.closed {
		srv.goroutines.Go(f)
	}
	return !srv.closed
}

// closeListeners makes every Serve return nil: a listener not in listeners was closed on purpose.
func (srv *Server) closeListeners() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for l := range srv.listeners {
		delete(srv.listeners, l)
		l.Close()
	}
}

// Clients is how many connections there are, those that have not logged in among them.
func (srv *Server) Clients() int {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return len(srv.connections)
}

// client returns the client with this id, or nil. Its connection may be closed already.
func (srv *Server) client(id int64) *connection {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return srv.connections[id]
}

// clients lists those that are there now, in order of id. It copies, so that the caller can take the mu
// of each without srv.mu, which is never held together with it.
func (srv *Server) clients() []*connection {
	srv.mu.Lock()
	all := slices.AppendSeq(make([]*connection, 0, len(srv.connections)), maps.Values(srv.connections))
	srv.mu.Unlock()
	slices.SortFunc(all, func(a, b *connection) int { return cmp.Compare(a.id, b.id) })
	return all
}
