package memmaster

import (
	"syscall"
	"time"
)

// Freeze models SIGSTOP, a swapping host or a virtual machine that is not scheduled: nothing is
// executed, connections stay open, new ones are accepted by the kernel, and what clients send piles up.
// The master's clock runs on. A command that is being executed is finished first.
func (m *Master) Freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = true
}

// Thaw models SIGCONT. What piled up is executed now, connection after connection in the order in which
// their first bytes arrived, as the kernel reports them to Redis; also what a client sent that has
// given up and hung up since. Only a connection that one of the earlier ones kills (CLIENT KILL) loses
// what it sent.
func (m *Master) Thaw() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = false
	m.thawed.Signal()
}

// awaitThaw waits, with mu held, while the master is frozen, and after Thaw for those that waited
// longer.
func (m *Master) awaitThaw() {
	if !m.frozen && m.awaitingThaw == 0 {
		return
	}
	m.awaitingThaw++
	m.thawed.Wait()
	for m.frozen {
		m.thawed.Wait()
	}
	m.awaitingThaw--
}

// wakeNextThawed lets the next one through.
func (m *Master) wakeNextThawed() {
	if m.awaitingThaw > 0 && !m.frozen {
		m.thawed.Signal()
	}
}

// SetCost gives commands a price: the master does nothing else for as long as cost says of each, and
// replies to what a client has pipelined after the sum. Nil, as at first: they take no time. The cost
// is called with the master's lock held.
func (m *Master) SetCost(cost func(args [][]byte) time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cost = cost
}

// awaitIdle waits, with mu held, until the commands of other connections have had their time.
func (m *Master) awaitIdle() {
	for left := time.Until(m.busyUntil); left > 0; left = time.Until(m.busyUntil) {
		m.mu.Unlock()
		time.Sleep(left)
		m.mu.Lock()
	}
}

// spend has the master do nothing else for that time. It is called with mu held.
func (m *Master) spend(cost time.Duration) {
	if cost > 0 {
		m.busyUntil = time.Now().Add(cost)
		m.mu.Unlock()
		time.Sleep(cost)
		m.mu.Lock()
	}
}

// Crash models kill -9: the process ends, its connections are closed, dials are refused until Restart.
// With keepData everything that was acknowledged is on disk (appendfsync always), without it nothing is
// (no persistence). For what lies between (appendfsync everysec loses the last second) see Rollback.
func (m *Master) Crash(keepData bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endProcess()
	if !keepData {
		m.data.reset()
	}
}

// Restart starts the process again after Crash, or ends a running one first as Crash(true) does. The
// new process has a new run_id, numbers its clients from 1 again, and has lost the script cache and
// what CONFIG SET changed. It does nothing after Close.
func (m *Master) Restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.endProcess()
	m.startProcess()
}

// SetReachable with false models a host that answers with RST: dials are refused, connections that
// stand go on (see Cut). With true, which is the start, dials succeed.
func (m *Master) SetReachable(reachable bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unreachable = !reachable
}

// Cut breaks every connection now, at both ends, with ECONNRESET; see Link.Cut.
func (m *Master) Cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.allClients() {
		c.pipe.cut(syscall.ECONNRESET)
	}
}

// StepClock models a step of the host's wall clock (NTP, an operator): d is added to what TIME says.
// Keys expire by an absolute time, so a step forward ends them early and one backward makes them last
// longer.
func (m *Master) StepClock(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock.step(d)
}

// SetClockRate models a drifting oscillator: from now on the master's clock runs by ppm millionths
// faster (or slower, if negative) than the process's monotonic clock. The start is 0.
func (m *Master) SetClockRate(ppm float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock.setRate(time.Now(), ppm)
}

// SetFull models a memory that is full, under maxmemory-policy noeviction: what needs memory is refused
// with OOM. A script that has written goes on, as in Redis. A restart ends it.
func (m *Master) SetFull(full bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.full = full
}

// Evict models a memory that is full, under a maxmemory-policy volatile-*: of the keys that expire,
// those go that chosen names. INFO counts them, and clients that track them are told. It does nothing,
// and returns false, while the policy forbids it, or the process does not run.
func (m *Master) Evict(chosen func(key string) bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down || m.frozen || m.config["maxmemory"] == "0" || m.config["maxmemory-policy"] == "noeviction" {
		return false
	}
	m.readClock()
	for _, key := range m.data.keys() {
		if e := m.data.entries[key]; e.expireAt != 0 && chosen(key) {
			m.data.remove(e)
			m.evicted++
		}
	}
	return true
}

// Snapshot is the data of a master at one time; see Rollback.
type Snapshot struct {
	data   store
	lastID int64
}

// Snapshot copies the master's data, to be given to Rollback as often as you like.
func (m *Master) Snapshot() *Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Snapshot{data: m.data.clone(), lastID: m.lastID}
}

// Rollback models a virtual machine that is set back to a snapshot: the same process (same run_id) with
// the data of the past; the next client gets an id that another had since. Connections are closed,
// scripts forgotten; the clock goes on. Between Crash(true) and Restart it models a disk that has not
// got the writes since the snapshot: appendfsync everysec, or a volume restored from a backup.
func (m *Master) Rollback(to *Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	down := m.down
	m.endProcess()
	m.down = down
	data := to.data.clone()
	data.changed = m.data.changed
	m.data, m.lastID = data, to.lastID
	m.scripts, m.tracked = newScripting(m), map[string][]trackerID{}
}
