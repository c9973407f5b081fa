package redlock

// Goal: batches in flight to a far master cost no operation a round trip in the queue, and change nothing else. Method: masters 10 ms
// away in virtual time, operations that begin while others are on their way.

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// openFar opens a client whose masters are 20 ms away, there and back.
func (s *stage) openFar(change ...func(*Options)) *proxy {
	s.Helper()
	p := s.open(change...)
	p.delay(10*ms, 10*ms, 0, 1, 2, 3, 4)
	p.lockable("warm")
	time.Sleep(500 * ms)
	for _, l := range p.fleet.view.Load().lanes {
		if l.rttMin != 20*ms {
			s.Fatalf("distance of %s: got %v, want 20ms", l.master.Addr, l.rttMin)
		}
	}
	p.align()
	return p
}

func TestFarMasterIsNotWaitedFor(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.openFar()
		a := p.begin(one("a", time.Second))
		time.Sleep(5 * ms)
		b := p.begin(one("b", time.Second))
		time.Sleep(ms)
		c, d := p.begin(one("c", time.Second)), p.begin(one("d", time.Second))
		p.finish(a).want(s, "a", "held", 20*ms)
		p.finish(b).want(s, "b, while a is on its way", "held", 20*ms)
		p.finish(c).want(s, "c, 1 ms behind b", "held", 20*ms+20*ms/spacing-ms)
		p.finish(d).want(s, "d, with c", "held", 20*ms+20*ms/spacing-ms)
		p.unlock(b.Token, "b").want(s, "unlock", "held", 20*ms)
	})
}

func TestNearMasterIsWaitedFor(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.delay(pipelineFrom/2-time.Microsecond, pipelineFrom/2, 0, 1, 2, 3, 4)
		p.lockable("warm")
		rtt := pipelineFrom - time.Microsecond
		a := p.begin(one("a", time.Second))
		time.Sleep(rtt / 2)
		b := p.begin(one("b", time.Second))
		p.finish(a).want(s, "a", "held", rtt)
		p.finish(b).want(s, "b, in the next batch", "held", rtt-rtt/2+rtt)
	})
}

// A master turns out to be near while votes are still delivered. Both goroutines deliver votes with what belongs to the lane: the next batch must
// not be read by the other one.
func TestDistanceStaysWhileVotesAreDelivered(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.openFar()
		p.delay(pipelineFrom/4, pipelineFrom/4, 0, 1, 2, 3, 4)
		delivering := func() (n int) {
			for _, l := range p.fleet.view.Load().lanes {
				l.mu.Lock()
				if l.delivering {
					n++
					if !l.pipelined {
						s.Errorf("%s: the distance has changed while votes are delivered", l.master.Addr)
					}
				}
				l.mu.Unlock()
			}
			return n
		}
		begun := make(chan *call, 1)
		a := new(call)
		a.after = func() { // on the goroutine of the lane that decides
			b := p.begin(one("b", time.Second))
			time.Sleep(ms)
			if delivering() == 0 {
				s.Errorf("no votes are delivered")
			}
			begun <- b
		}
		p.StartLock(&a.Op, one("a", time.Second), a)
		if b := p.finish(<-begun); !b.Held {
			s.Errorf("b: got %+v, want held", b.Result)
		}
		time.Sleep(ms)
		p.finish(p.begin(one("c", time.Second)))
		for _, l := range p.fleet.view.Load().lanes {
			l.mu.Lock()
			if l.pipelined {
				s.Errorf("%s is still far", l.master.Addr)
			}
			l.mu.Unlock()
		}
	})
}

// No more than inflightMax batches are in flight, whatever comes.
func TestInflightIsBounded(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.openFar(func(o *Options) { o.MasterTimeout = time.Second })
		s.freeze(0, 1, 2, 3, 4)
		var calls []*call
		for range 3 * inflightMax {
			calls = append(calls, p.begin(one("r"+string(rune('A'+len(calls))), time.Minute)))
			time.Sleep(3 * ms)
		}
		for _, l := range p.fleet.view.Load().lanes {
			l.mu.Lock()
			if len(l.out) != inflightMax || len(l.queue) != 2*inflightMax {
				s.Errorf("%s: got %d batches in flight and %d rounds queued, want %d and %d", l.master.Addr, len(l.out), len(l.queue), inflightMax, 2*inflightMax)
			}
			l.mu.Unlock()
		}
		s.thaw(0, 1, 2, 3, 4)
		for _, c := range calls {
			if p.finish(c); !c.Held {
				s.Errorf("after the thaw: got %+v, want held", c.Result)
			}
		}
		if n := len(p.fleet.view.Load().lanes[0].spare); n > inflightMax {
			s.Errorf("batches kept: got %d, want at most %d", n, inflightMax)
		}
	})
}

// slowToBound is a connection on which it takes a moment to set a deadline, once slow is true: as if the goroutine that sends had to wait there.
type slowToBound struct {
	net.Conn
	slow *atomic.Bool
}

func (c slowToBound) SetDeadline(t time.Time) error {
	if c.slow.Load() {
		time.Sleep(ms)
	}
	return c.Conn.SetDeadline(t)
}

// Behind a pause that is longer than the deadline of the batch before, the reader does not meet that one.
func TestDeadlineOfBefore(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		var slow atomic.Bool
		p := s.openFar(func(o *Options) {
			o.Heartbeat = 10 * time.Second
			for i := range o.Masters {
				dial := o.Masters[i].Dialer
				o.Masters[i].Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := dial(ctx, network, addr)
					return slowToBound{conn, &slow}, err
				}
			}
		})
		slow.Store(true)
		time.Sleep(2 * p.opts.ConnectTimeout)
		p.lock(one("r", time.Second)).want(s, "LOCK behind a pause", "held", 21*ms)
		synctest.Wait()
		p.wantStates("uuuuu")
	})
}

// The masters' clocks step while two batches are on their way. The step shows in the first; in the second the clock is in step
// with the first, and the key that it was granted had a holder.
func TestNoVoteCountsBehindAFinding(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		short := func(o *Options) { o.MaxTTL = 10 * time.Second }
		p := s.openFar(short, func(o *Options) { o.Heartbeat = 5 * time.Second }) // none now: it would find the step
		q := s.open(short)
		p.align()
		q.lock(one("r", 2*time.Second)).want(s, "the holder", "held", 0)
		a := p.begin(one("a", time.Second))
		time.Sleep(5 * ms)
		b := p.begin(one("r", time.Second))
		time.Sleep(3 * ms)
		s.stepClocks(4*time.Second, 0, 1, 2)
		if p.finish(a); a.Held {
			s.Errorf("a, in the batch that shows the step: got %+v, want no grant", a.Result)
		}
		if p.finish(b); b.Held {
			s.Errorf("r, which another holds, in the batch behind it: got %+v, want no grant", b.Result)
		}
		time.Sleep(100 * ms)
		p.wantStates("ooouu")
		s.until("trusted again", func() bool { return p.states() == "uuuuu" })
		p.lockable("r")
	})
}

// The watch gives up all that is in flight to a silent master, not only what it has waited for longest.
func TestSilentFarMasters(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.openFar()
		s.freeze(0, 1, 2)
		a := p.begin(one("a", time.Second))
		time.Sleep(10 * ms)
		b := p.begin(one("b", time.Second))
		p.finish(a).want(s, "a", "2 of 5 masters voted", giveUpNeeded)
		p.finish(b).want(s, "b", "2 of 5 masters voted", giveUpNeeded-10*ms)
		p.wantStates("ddduu")
		s.thaw(0, 1, 2)
		p.allUp()
		p.lockable("a")
		p.lockable("b")
		time.Sleep(time.Second)
		s.wantNoLocks()
	})
}

// That a master answers one batch is no reason to wait longer for the next: each has MasterTimeout from when it was sent.
func TestTricklingFarMasters(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.openFar()
		a := p.begin(one("a", time.Second))
		time.Sleep(4 * ms)
		b := p.begin(one("b", time.Second))
		time.Sleep(8 * ms) // a is executed and being answered, b is not
		p.delay(10*ms, 500*ms, 0, 1, 2)
		p.finish(a).want(s, "a", "held", 20*ms)
		p.finish(b).want(s, "b, whose answer takes long", "2 of 5 masters voted", giveUpNeeded-4*ms)
	})
}

// Scripts are lost while batches are in flight: to repeat a command then would put it behind its own release.
func TestScriptsLostInFlight(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.openFar()
		a := p.begin(several(time.Minute, "a", "a too")) // by a script
		time.Sleep(5 * ms)
		s.do(0, "SCRIPT", "FLUSH")
		b := p.begin(several(time.Minute, "b", "b too"))
		p.finish(a).want(s, "a", "held", 20*ms)
		p.unlock(a.Token, "a", "a too").want(s, "unlock of a", "held", 20*ms)
		p.finish(b).want(s, "b", "held", 20*ms)
		p.allUp()
		p.unlock(b.Token, "b", "b too")
		time.Sleep(time.Second)
		s.wantNoLocks()

		// All of them at once. Nothing may be left behind, and the next LOCK finds them with their scripts.
		s.doAll("SCRIPT", "FLUSH")
		c := p.begin(several(time.Minute, "c", "c too"))
		time.Sleep(5 * ms)
		d := p.begin(several(time.Minute, "d", "d too"))
		p.finish(c)
		p.finish(d)
		p.allUp()
		if c.Held {
			p.unlock(c.Token, "c", "c too")
		}
		if d.Held {
			p.unlock(d.Token, "d", "d too")
		}
		p.lockable("c")
		p.lockable("d")
		time.Sleep(time.Second)
		s.wantNoLocks()
	})
}

// A connection that breaks leaves all in flight unknown: it may have been executed, and is cleared up.
func TestCutWithBatchesInFlight(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.openFar()
		a := p.begin(one("a", time.Minute))
		time.Sleep(5 * ms)
		b := p.begin(one("b", time.Minute))
		time.Sleep(7 * ms) // a is executed, b is not
		for i := range 3 {
			s.masters[i].Cut()
		}
		for _, c := range []*call{a, b} {
			if p.finish(c); c.Held || !errors.As(c.Err, new(*NoQuorumError)) {
				s.Errorf("cut on its way: got %+v, want that no quorum answered", c.Result)
			}
		}
		p.allUp()
		time.Sleep(time.Second)
		s.wantNoLocks()
		p.lockable("a")
		p.lockable("b")
	})
}
