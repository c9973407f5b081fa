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

	"redlockd/redlock/loglimit"
	"redlockd/redlock/resp"
)

// Server serves the Redis protocol in front of a lock engine. Make one with New.
type Server struct {
	opts    Options
	log     *slog.Logger
	table   *commandTable
	limits  resp.Limits
	started time.Time

	leaving  atomic.Bool // Leave was called
	draining atomic.Bool // Shutdown was called

	mu          sync.Mutex
	listeners   map[net.Listener]struct{}
	connections map[int64]*connection
	preauth     list.List // sessions that have not authenticated yet, oldest first
	lastID      int64
	timeoutsRun bool
	closed      bool
	done        chan struct{} // closed with closed

	goroutines sync.WaitGroup // readers, writers and runTimeouts. One is added only while its session or Serve is counted, or with mu held and not closed

	subscribers subscribers
	scripts     scriptCache
	shares      *scriptShares // of the users in their runs
	listing     chan struct{} // holds one while a LOCKS is being answered

	accounts  []*account // of the users, in their order
	anonymous *account   // of all others

	output    atomic.Int64 // of all accounts
	relieving sync.Mutex   // held while clients are closed because of it

	counters [counterCount]atomic.Uint64
	stats    *stats

	preauthCPU *semaphore // bounds what clients compute before they have authenticated
	logins     logins
	input      inputTotal

	failedLogins, failedHandshakes, refusedClients, protocolErrors loglimit.Limiter
	shortTTLs, slowReaders                                         loglimit.Limiter
}

// counterID names one of the numbers that are counted since the start of the server, for INFO and metrics.
type counterID int

const (
	countConnections      counterID = iota // accepted
	countRejected                          // connections refused because of MaxClients
	countCommands                          // executed
	countEvicted                           // clients closed because of OutputTotal
	countOutputLimited                     // subscribers closed because of OutputMax
	countProtocolErrors                    // connections ended because what came was no command
	countLoginsFailed                      // by a wrong name or password
	countHandshakesFailed                  // of TLS
	countRepliesLost                       // locks released because their grant could not reach the client
	countBytesIn                           // from clients
	countBytesOut                          // to clients
	countErrors                            // error replies
	counterCount
)

// New makes a server. It reports what is wrong with the options.
func New(opts Options) (*Server, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	started := time.Now()
	srv := &Server{
		opts:        opts,
		log:         opts.Logger,
		table:       newCommandTable(commandRows),
		limits:      resp.Limits{Args: opts.ArgsMax, Bulk: opts.BulkMax, Command: opts.CommandMax},
		started:     started,
		stats:       newStats(started),
		shares:      newScriptShares(runsMax()),
		listing:     make(chan struct{}, 1),
		listeners:   make(map[net.Listener]struct{}),
		connections: make(map[int64]*connection),
		done:        make(chan struct{}),
		preauthCPU:  newSemaphore(),
		input:       inputTotal{max: max(opts.InputTotal, 2*opts.CommandMax+4*chunkSize)}, // a chunk grows by doubling
		shortTTLs:   loglimit.Limiter{Interval: time.Minute},                              // they are no fault
	}
	srv.accounts, srv.anonymous = newAccounts(opts.Users)
	opts.Engine.OnMessage(func(channel, payload string) { srv.subscribers.deliver(channel, payload) })
	return srv, nil
}

// now is the server's clock: nanoseconds since it was made, never 0, and never stepping.
func (srv *Server) now() int64 { return max(1, int64(time.Since(srv.started))) }

// Serve accepts connections from l until Shutdown or Close, and returns nil then; or it returns the error that ended the
// accepting. It closes l. It may be called for several listeners at the same time.
func (srv *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !srv.listen(l) {
		return nil
	}
	var pause time.Duration
	for {
		conn, err := l.Accept()
		if err == nil {
			pause = 0
			srv.accepted(conn)
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
		// Out of file descriptors, mostly: it passes. Asking again at once would burn a core until then.
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

// listen registers a listener, and starts runTimeouts with the first.
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
	}
	return true
}

// keepAlive finds a peer that vanished without a word within half a minute: it may stand first in a line of waiters.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

func (srv *Server) accepted(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetKeepAliveConfig(keepAlive)
	}
	srv.mu.Lock()
	full := len(srv.connections) >= srv.opts.MaxClients
	var evicted *connection
	if full && !srv.closed {
		evicted = srv.evictPreauthLocked()
	}
	if (!full || evicted != nil) && !srv.closed {
		srv.lastID++
		conn := newConnection(srv, c, srv.lastID)
		srv.connections[conn.id] = conn
		conn.session.account.enter()
		if srv.opts.TLSConfig != nil || !conn.session.authenticated() {
			srv.addPreauthLocked(conn)
		}
		srv.goroutines.Go(func() {
			conn.serve()
			srv.subscribers.forget(conn.session)
			conn.session.account.leave()
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
		if srv.opts.TLSConfig == nil {
			c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			c.Write(resp.AppendError(nil, "ERR max number of clients reached"))
		}
	}
	c.Close()
}

// refused counts and tells that a client was not taken, or not kept, because of MaxClients.
func (srv *Server) refused(addr, why string) {
	srv.counters[countRejected].Add(1)
	srv.refusedClients.Log(srv.log, slog.LevelWarn, time.Now(), "client refused", "addr", addr, "max_clients", srv.opts.MaxClients, "why", why,
		"to_do", "raise max_clients, or find out who connects so often: CLIENT LIST")
}

// Leave tells those who balance servers (/readyz, the metric redlockd_ready) that the server is about to drain. Nothing else changes:
// it accepts connections and grants locks until Shutdown. Between the two is their time to notice.
func (srv *Server) Leave() { srv.leaving.Store(true) }

// Shutdown drains the server: no connection is accepted and no lock is granted any more (LEAVING), waiters are answered,
// but locks that were granted can be released and prolonged on the connections that are there. It ends when all is answered and no lock
// granted here is held, or no client is left who could release it; or with ctx. Then everything is closed. The error is that of ctx
// if it ended the draining.
func (srv *Server) Shutdown(ctx context.Context) error {
	srv.draining.Store(true)
	srv.closeListeners()
	srv.opts.Engine.Drain()
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
	srv.Close()
	return err
}

// quiet tells whether no client of this server has anything to expect from it. Preauth connections have not.
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
		quiet := conn.head == nil && conn.unsentLocked() == 0 && !conn.executing.Load()
		conn.mu.Unlock()
		if !quiet {
			return false
		}
	}
	return true
}

// Close closes all listeners and connections, and waits for the goroutines of the server. Waits are ended; locks whose grant is
// not sent are released. The engine goes on.
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
	return nil
}

// begin runs f on a goroutine of its own, which Close waits for. It returns false when the server is closed.
func (srv *Server) begin(f func()) bool {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if !srv.closed {
		srv.goroutines.Go(f)
	}
	return !srv.closed
}

func (srv *Server) closeListeners() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for l := range srv.listeners {
		delete(srv.listeners, l)
		l.Close()
	}
}

// client returns the client with this id, or nil.
func (srv *Server) client(id int64) *connection {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return srv.connections[id]
}

// clients lists those that are there now, in order of id.
func (srv *Server) clients() []*connection {
	srv.mu.Lock()
	all := slices.AppendSeq(make([]*connection, 0, len(srv.connections)), maps.Values(srv.connections))
	srv.mu.Unlock()
	slices.SortFunc(all, func(a, b *connection) int { return cmp.Compare(a.id, b.id) })
	return all
}
