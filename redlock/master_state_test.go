package redlock

// Goal: a lane's state changes as the table says, and every change of the table is made by what the table names. Method: for each row a
// scenario on masters in this process, in virtual time, that ends with the change; all changes of all lanes are recorded.

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/redisproc"
)

// laneStage is a client of five masters whose changes of state are recorded.
type laneStage struct {
	*stage
	*proxy
	mu    sync.Mutex
	seen  map[[2]laneState]bool // changes of the first lane since forget
	write func(write func() error) error
}

// laneStart opens a client. The scenarios do what they do to its first master.
func laneStart(s *stage, change ...func(*Options)) *laneStage {
	st := &laneStage{stage: s, seen: make(map[[2]laneState]bool)}
	st.proxy = s.start(append(change, func(o *Options) {
		o.onLaneState = func(master int, from, to laneState) {
			if master == 0 {
				st.mu.Lock()
				st.seen[[2]laneState{from, to}] = true
				st.mu.Unlock()
			}
		}
		dial := o.Masters[0].Dialer
		o.Masters[0].Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			return &oddWriter{c, st}, err
		}
	})...)
	return st
}

// laneOpen is laneStart that waits until all masters have a vote.
func laneOpen(s *stage, change ...func(*Options)) *laneStage {
	st := laneStart(s, change...)
	st.allUp()
	st.align()
	return st
}

// laneFrozen is laneStart with a first master that hangs.
func laneFrozen(s *stage, change ...func(*Options)) *laneStage {
	s.found()
	s.freeze(0)
	return laneStart(s, change...)
}

// laneQuiet is laneOpen without heartbeats.
func laneQuiet(s *stage, change ...func(*Options)) *laneStage {
	return laneOpen(s, append(change, func(o *Options) { o.Heartbeat = 10 * time.Second })...)
}

// laneFar is laneQuiet with masters that are 20 ms away, there and back.
func laneFar(s *stage, change ...func(*Options)) *laneStage {
	st := laneQuiet(s, change...)
	st.delay(10*ms, 10*ms, 0, 1, 2, 3, 4)
	st.lockable("warm")
	time.Sleep(500 * ms)
	st.lockable("warm again")
	st.align()
	return st
}

// oddWriter is a connection whose Write a scenario can replace.
type oddWriter struct {
	net.Conn
	st *laneStage
}

func (c *oddWriter) Write(b []byte) (n int, err error) {
	c.st.mu.Lock()
	odd := c.st.write
	c.st.mu.Unlock()
	write := func() error {
		n, err = c.Conn.Write(b)
		return err
	}
	if odd == nil || !strings.Contains(string(b), "odd") {
		return n, write()
	}
	err = odd(write)
	return len(b), err
}

// oddWrites has writes of batches that name a resource with "odd" in it done by f.
func (st *laneStage) oddWrites(f func(write func() error) error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.write = f
}

// wants waits for a change. What was before the last call of forget does not count.
func (st *laneStage) wants(from, to laneState) {
	st.stage.Helper()
	st.until(from.String()+" → "+to.String(), func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.seen[[2]laneState{from, to}]
	})
}

func (st *laneStage) forget() {
	st.mu.Lock()
	defer st.mu.Unlock()
	clear(st.seen)
}

// isIn checks the state of the first lane.
func (st *laneStage) isIn(want laneState) {
	st.stage.Helper()
	synctest.Wait()
	l := st.fleet.view.Load().lanes[0]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != want {
		st.Errorf("state: got %v, want %v", l.state, want)
	}
	if (l.downReason == nil) != want.takesWork() {
		st.Errorf("%v: why it takes no work: got %v", want, l.downReason)
	}
}

// laneScenario walks a row of laneTransitions: it is to make the change after it has called forget.
type laneScenario struct {
	open func(*stage, ...func(*Options)) *laneStage
	walk func(*laneStage)
}

var laneScenarios = map[[2]laneState]laneScenario{
	{laneConnecting, laneIdle}: {laneStart, func(*laneStage) {}},
	{laneConnecting, laneClosed}: {laneFrozen, func(st *laneStage) {
		time.Sleep(10 * ms)
		st.isIn(laneConnecting)
		st.Close(context.Background())
		st.isIn(laneClosed)
	}},
	{laneIdle, laneSending}: {laneOpen, func(st *laneStage) {
		st.forget()
		st.isIn(laneIdle)
		st.lockable("a")
	}},
	{laneSending, laneWaiting}: {laneOpen, func(st *laneStage) {
		st.delay(ms, ms, 0)
		st.forget()
		st.begin(one("a", time.Minute))
		st.isIn(laneWaiting)
	}},
	{laneSending, laneIdle}: {laneFar, func(st *laneStage) {
		st.oddWrites(func(write func() error) error {
			err := write()
			time.Sleep(30 * ms)
			return err
		})
		st.forget()
		st.begin(one("odd", time.Minute))
		st.isIn(laneSending)
		time.Sleep(25 * ms)
		st.isIn(laneSending)
	}},
	{laneWaiting, laneSending}: {laneFar, func(st *laneStage) {
		st.begin(one("a", time.Minute))
		st.forget()
		time.Sleep(10 * ms)
		st.begin(one("b", time.Minute))
		st.isIn(laneWaiting)
	}},
	{laneWaiting, laneIdle}: {laneQuiet, func(st *laneStage) {
		st.delay(ms, ms, 0)
		st.begin(one("a", time.Minute))
		st.forget()
		time.Sleep(2 * ms)
	}},
	{laneIdle, laneMaintaining}: {laneOpen, func(st *laneStage) {
		st.forget()
		st.delay(ms, ms, 0)
		time.Sleep(st.opts.Heartbeat)
	}},
	{laneMaintaining, laneIdle}: {laneOpen, func(st *laneStage) {
		st.forget()
		st.freeze(0)
		st.wants(laneIdle, laneMaintaining)
		st.forget()
		st.isIn(laneMaintaining)
		st.thaw(0)
	}},
	{laneSending, laneTimedOut}: {laneQuiet, func(st *laneStage) {
		st.oddWrites(func(write func() error) error {
			time.Sleep(100 * ms)
			return write()
		})
		st.forget()
		st.begin(one("odd", time.Minute))
		st.isIn(laneSending)
	}},
	{laneWaiting, laneTimedOut}: {laneQuiet, func(st *laneStage) {
		st.freeze(0)
		st.begin(one("a", time.Minute))
		st.isIn(laneWaiting)
		st.forget()
		time.Sleep(giveUp)
		st.isIn(laneTimedOut)
	}},
	{laneMaintaining, laneTimedOut}: {laneOpen, func(st *laneStage) {
		st.forget()
		st.freeze(0)
		st.wants(laneIdle, laneMaintaining)
		st.forget()
	}},
	{laneTimedOut, laneIdle}: {laneQuiet, func(st *laneStage) {
		st.freeze(0)
		st.begin(one("a", time.Minute))
		time.Sleep(giveUp)
		st.isIn(laneTimedOut)
		st.forget()
		st.thaw(0)
	}},
	{laneIdle, laneBroken}: {laneOpen, func(st *laneStage) {
		st.forget()
		st.Close(context.Background())
	}},
	{laneSending, laneBroken}: {laneFar, func(st *laneStage) {
		st.oddWrites(func(write func() error) error {
			time.Sleep(30 * ms)
			return errors.New("cut")
		})
		st.begin(one("a", time.Minute))
		time.Sleep(5 * ms)
		st.forget()
		st.begin(one("odd", time.Minute))
		st.isIn(laneSending)
		st.masters[0].Cut()
	}},
	{laneWaiting, laneBroken}: {laneQuiet, func(st *laneStage) {
		st.freeze(0)
		st.begin(one("a", time.Minute))
		st.forget()
		st.masters[0].Cut()
	}},
	{laneMaintaining, laneBroken}: {laneOpen, func(st *laneStage) {
		st.forget()
		st.freeze(0)
		st.wants(laneIdle, laneMaintaining)
		st.forget()
		st.masters[0].Cut()
	}},
	{laneTimedOut, laneBroken}: {laneOpen, func(st *laneStage) {
		st.forget()
		st.freeze(0)
		st.wants(laneMaintaining, laneTimedOut)
		st.forget()
	}},
	{laneBroken, laneConnecting}: {laneQuiet, func(st *laneStage) {
		st.freeze(0)
		st.begin(one("a", time.Minute))
		st.forget()
		st.masters[0].Cut()
	}},
}

func TestLaneTransitions(t *testing.T) {
	for _, row := range redisproc.SomeRaced(4, laneTransitions[:]) {
		t.Run(row.from.String()+" to "+row.to.String(), func(t *testing.T) {
			scenario, ok := laneScenarios[[2]laneState{row.from, row.to}]
			if !ok {
				t.Fatal("no scenario")
			}
			inVirtualTime(t, 5, func(s *stage) {
				st := scenario.open(s)
				scenario.walk(st)
				st.wants(row.from, row.to)
				s.thaw(0)
				if row.from != laneConnecting && !st.draining { // whatever it was, the lane recovers
					st.oddWrites(nil)
					st.delay(0, 0, 0, 1, 2, 3, 4)
					st.allUp()
					st.lockable("recovered")
				}
			})
		})
	}
	if len(laneScenarios) != len(laneTransitions) {
		t.Errorf("scenarios: got %d, want one for each of the %d changes", len(laneScenarios), len(laneTransitions))
	}
}

// A change that the table does not have ends the process, even where panics are survived.
func TestLaneStateOutsideTheTable(t *testing.T) {
	for from := range laneStates {
		for to := range laneStates {
			listed := false
			for _, row := range laneTransitions {
				listed = listed || row.from == from && row.to == to
			}
			l := newLane(&idleClient().fleet, 0, Master{Addr: "m"})
			l.state = from
			var bug any
			func() {
				defer func() { bug = recover() }()
				conn.RecoverPanic(func() error { l.setStateLocked(to, nil); return nil })
			}()
			if _, panicked := bug.(conn.Bug); panicked == listed {
				t.Errorf("%v → %v: in the table: %v, panic: %v", from, to, listed, bug)
			}
		}
	}
}
