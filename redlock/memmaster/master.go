package memmaster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// Options is how a master is set up. The zero value is a Redis 7.0 with its defaults: no password, no
// persistence, never evicting.
type Options struct {
	// Password is what AUTH and HELLO … AUTH demand of the user "default". Empty demands nothing.
	Password string

	// IFEQ adds DELEX … IFEQ, which is new in Redis 8.4, and makes redis_version say 8.4.0.
	IFEQ bool

	// DELIFEQ adds DELIFEQ, which is new in Valkey 9.
	DELIFEQ bool
}

// Master is a Redis master in this process, made by New. Any goroutine may call its methods.
type Master struct {
	options Options
	link    *Link // of Master.Dial
	wg      sync.WaitGroup

	// mu is what Redis's single thread is: it is held while the commands of one read of one connection
	// are executed. It guards everything below.
	mu       sync.Mutex
	clock    clock
	unixNano int64 // the master's clock at the start of the running command
	data     store

	// The process: new with every start.
	runID string
	// lastID is the id of the client that came last. A restarted Redis counts from 1 again.
	lastID int64
	// config is what CONFIG SET can change.
	config map[string]string
	// evicted counts the keys that Evict has removed.
	evicted int
	// replicaOf is the host and port of another master; nil for a master.
	replicaOf []string
	// full: SetFull.
	full    bool
	scripts *scripting

	clients map[int64]*client
	// running is the client whose command is being executed; nil between two batches.
	running *client
	// channels has the subscribers of each channel in the order of their subscription, and of delivery.
	channels map[string][]*client
	// tracked says who is told of the next change of a key, once each.
	tracked map[string][]trackerID

	// Faults.
	frozen bool
	// cost is what a command takes; see SetCost. nil: no time.
	cost func(args [][]byte) time.Duration
	// observer is told of each command; see SetObserver. nil: nobody is.
	observer func(*Executed)
	// busyUntil is when the commands of other connections have had their time; see awaitIdle.
	busyUntil time.Time
	// down: the process has crashed, or is closed.
	down bool
	// closed: the process never comes back.
	closed bool
	// unreachable: dials are refused, while connections that stand go on.
	unreachable bool
	// thawed wakes the connections that have commands for a frozen master, one by one after Thaw. Its
	// lock is mu.
	thawed sync.Cond
	// awaitingThaw is how many connections wait for thawed.
	awaitingThaw int
}

// New starts a master with no data, a fresh run_id and a clock in step with the process's. Close it.
func New(o Options) *Master {
	m := &Master{options: o, clock: newClock(time.Now())}
	m.link = m.Link()
	m.thawed.L = &m.mu
	m.data.reset()
	m.data.changed = m.keyChanged
	m.startProcess()
	return m
}

// startProcess is what a process does when it begins. The data is there already.
func (m *Master) startProcess() {
	m.readClock()
	m.runID, m.lastID = newRunID(), 0
	m.config = map[string]string{"maxmemory": "0", "maxmemory-policy": "noeviction"}
	m.replicaOf, m.full, m.scripts, m.evicted = nil, false, newScripting(m), 0
	m.clients = map[int64]*client{}
	m.channels = map[string][]*client{}
	m.tracked = map[string][]trackerID{}
	m.down = false
}

// newRunID is 40 hexadecimal digits, as in Redis. redlockd knows a process by it.
func newRunID() string {
	var b [20]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// readClock sets the time that the next command sees.
func (m *Master) readClock() {
	m.unixNano = m.clock.at(time.Now())
	m.data.now = m.unixNano / int64(time.Millisecond)
}

// Dial connects to the master over a link that no fault of a Link touches; see Link.Dial.
func (m *Master) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return m.link.Dial(ctx, network, addr)
}

// accept makes a connection, or reports false where a kernel would refuse it.
func (m *Master) accept(l *Link) (*pipe, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down || m.unreachable {
		return nil, false
	}
	p := l.newPipe()
	m.lastID++
	c := newClient(m, m.lastID, p)
	m.clients[c.id] = c
	m.wg.Go(c.serve)
	return p, true
}

// Close ends the master for good: connections are closed, and every goroutine has ended when it
// returns. What Get and Keys report stays. A second Close does nothing.
func (m *Master) Close() {
	m.mu.Lock()
	m.closed = true
	m.endProcess()
	m.mu.Unlock()
	m.wg.Wait()
}

// endProcess is the death of the process: its connections are closed by the kernel.
func (m *Master) endProcess() {
	m.down = true
	for _, c := range m.allClients() {
		m.drop(c)
	}
	m.frozen = false
	m.thawed.Broadcast()
}

// allClients lists the clients by id, so that no fault depends on the order of a map.
func (m *Master) allClients() []*client {
	return slices.SortedFunc(maps.Values(m.clients), func(a, b *client) int { return cmp.Compare(a.id, b.id) })
}

// drop closes a client's connection and forgets it. Nothing of what it sent is executed any more; what
// was answered still reaches it.
func (m *Master) drop(c *client) {
	if c.gone {
		return
	}
	c.gone = true
	delete(m.clients, c.id)
	c.unsubscribeAll()
	c.pipe.server.Close()
}

// Keys lists the keys that have not expired, sorted. It is for tests that look at a master from
// outside: it works also while the master is frozen, crashed or closed, and changes nothing.
func (m *Master) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readClock()
	return m.data.keys()
}

// Get returns a string and the time it has left by the master's clock, -1 ns if it never expires. ok is
// false if the key is absent, has expired, or holds no string. Like Keys it changes nothing.
func (m *Master) Get(key string) (value string, pttl time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readClock()
	e := m.data.entries[key]
	if e == nil || e.kind != isString || m.data.expired(e) {
		return "", 0, false
	}
	if e.expireAt == 0 {
		return e.str, -1, true
	}
	return e.str, time.Duration(m.data.ttl(e)) * time.Millisecond, true
}
