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

	"redlockd/redlock/conn"
	"redlockd/redlock/quorum"
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

// When the next batch may be sent, and what goes into it.
func TestWhatDepartsWithABatch(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		time.Sleep(time.Minute)
		inFlight := func(n int) (out []*batch) {
			for range n {
				out = append(out, &batch{})
			}
			return out
		}
		for name, tt := range map[string]struct {
			rttMin  time.Duration
			change  func(l *lane)
			wait    time.Duration
			open    bool
			departs int // of rounds that cost 2 each
			far     bool
		}{
			"a near master":                  {rttMin: pipelineFrom - 1, change: func(l *lane) {}, open: true, departs: 5},
			"a far master":                   {rttMin: pipelineFrom, change: func(l *lane) {}, open: true, departs: 5, far: true},
			"one is in flight to a near one": {change: func(l *lane) { l.out = inFlight(1) }},
			"one is in flight to a far one": {rttMin: 16 * ms, change: func(l *lane) {
				l.out, l.pipelined, l.lastSent = inFlight(1), true, time.Now().Add(-400*time.Microsecond)
			}, open: true, wait: 600 * time.Microsecond, departs: 5, far: true},
			"to one that is not so far":     {rttMin: ms, change: func(l *lane) { l.out, l.pipelined, l.lastSent = inFlight(1), true, time.Now() }, open: true, wait: spacingMin, departs: 5, far: true},
			"the reader has the connection": {rttMin: 16 * ms, change: func(l *lane) { l.out, l.pipelined, l.paused = inFlight(1), true, true }},
			"nearly as many as may be":      {rttMin: 16 * ms, change: func(l *lane) { l.out, l.pipelined, l.lastSent = inFlight(inflightMax-1), true, time.Now() }, open: true, wait: ms, departs: 5, far: true},
			"as many as may be":             {rttMin: 16 * ms, change: func(l *lane) { l.out, l.pipelined = inFlight(inflightMax), true }},
			"as much as may be":             {rttMin: 16 * ms, change: func(l *lane) { l.out, l.pipelined, l.outCost = inFlight(1), true, 10 }},
			"nearly as much as may be":      {rttMin: 16 * ms, change: func(l *lane) { l.out, l.pipelined, l.outCost, l.lastSent = inFlight(1), true, 9, time.Now() }, open: true, wait: ms, departs: 1, far: true},
			"some are in flight":            {rttMin: 16 * ms, change: func(l *lane) { l.out, l.pipelined, l.outCost, l.lastSent = inFlight(1), true, 4, time.Now() }, open: true, wait: ms, departs: 3, far: true},
			"a small window":                {change: func(l *lane) { l.window.limit = 7 }, open: true, departs: 4},
			"the window is one batch":       {change: func(l *lane) { l.window.limit = 8 }, open: true, departs: 4},
			"flows take turns":              {change: func(l *lane) { l.window.limit = 100; p.admission.turn.Store(6) }, open: true, departs: 3},
			"votes are being delivered":     {rttMin: 16 * ms, change: func(l *lane) { l.delivering = true }, open: true, departs: 5},
		} {
			p.admission.turn.Store(costMax)
			l := p.idleLane()
			l.rttMin, l.window.limit, l.ticks = tt.rttMin, 10, 7
			for range 6 {
				l.queue, l.queueCost = append(l.queue, &round{cost: 2}), l.queueCost+2
			}
			tt.change(l)
			if len(l.out) > 0 {
				l.state = laneWaiting
			}
			wait, open := l.windowLocked()
			if open != tt.open || open && len(l.out) > 0 && wait != tt.wait {
				s.Errorf("%s: open %t, after %v; want %t, %v", name, open, wait, tt.open, tt.wait)
			}
			if !tt.open {
				continue
			}
			before, queue, cost := l.outCost, l.queue, l.outCost+2*tt.departs
			b := l.departLocked(&conn.Conn{})
			if len(b.rounds) != tt.departs || b.cost != 2*tt.departs || b.inFlight != cost || l.outCost != before+b.cost || l.queueCost != 12-b.cost || len(l.queue) != 6-tt.departs || l.out[len(l.out)-1] != b {
				s.Errorf("%s: %d rounds of a cost of %d depart, with %d in flight, %d are left; want %d", name, len(b.rounds), b.cost, b.inFlight, len(l.queue), tt.departs)
			}
			if l.pipelined != tt.far || tt.far && l.lastSent != time.Now() || !tt.far && !l.lastSent.IsZero() || l.state != laneSending || len(l.out) == 1 && l.oldestSentTick != 7 {
				s.Errorf("%s: pipelined %t, sent at %v, state %v", name, l.pipelined, l.lastSent, l.state)
			}
			for _, r := range queue[len(l.queue):6] {
				if r != nil {
					s.Errorf("%s: a round that has departed is kept in the queue's memory", name)
					break
				}
			}
		}
		p.admission.turn.Store(costMax)
	})
}

// The connection is the reader's alone while at most its own batch is in flight; and nothing is behind a batch that is the last.
func TestReaderHasTheConnection(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		l := s.open().idleLane()
		a, b := &batch{}, &batch{}
		if !l.pause() || !l.paused || !l.last(a) {
			s.Error("nothing is in flight: the reader has not the connection, or something is behind a batch")
		}
		if l.out = []*batch{a}; !l.pause() || !l.last(a) {
			s.Error("its own is in flight: the reader has not the connection, or something is behind it")
		}
		if l.out = []*batch{a, b}; l.pause() || l.paused || l.last(a) || !l.last(b) {
			s.Error("two are in flight: the reader has the connection, or the first is the last")
		}
		l.out = nil
		l.pause()
		if l.resume(); l.paused {
			s.Error("the reader is done: it has the connection still")
		}
	})
}

// What a lane takes note of when a batch was answered, and when it was not.
func TestWhatAnAnsweredBatchLeaves(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		failed := errors.New("connection reset")
		for name, tt := range map[string]struct {
			err       error
			abandoned bool
			vote      quorum.Vote
			kept      int
		}{
			"answered":             {vote: quorum.Granted},
			"not answered":         {err: failed, vote: quorum.Unknown, kept: 1},
			"refused":              {vote: quorum.Abstained, kept: 1},
			"answered too late":    {abandoned: true, vote: quorum.Granted},
			"abandoned, no answer": {err: failed, abandoned: true, vote: quorum.Unknown, kept: 1},
		} {
			l := p.idleLane()
			l.state = laneWaiting
			began := time.Now()
			time.Sleep(3 * ms)
			r := &round{verb: verbRelease, keepFor: quorum.All, keys: []string{"r"}, token: "T", start: began, view: p.fleet.view.Load()}
			set := &round{verb: verbSet, token: longValue, view: r.view, answers: make([]answer, 3)}
			set.attempt = newAttempt(set, 3)
			replied := errors.New("BUSY")
			b := &batch{lane: l, rounds: []*round{r, set}, votes: []quorum.Vote{tt.vote, quorum.Denied}, cost: 5, sent: began, abandoned: tt.abandoned, err: replied, inFlight: 5,
				sets: []setKey{{round: 1, at: 77}}, readings: []reading{{round: set, answer: answer{value: "read"}}}}
			other := &batch{sentTick: 4}
			l.out, l.outCost, l.rttMin, l.ops, l.batches = []*batch{b, other}, 8, 2*ms, 10, 2
			l.deliverVotes(b, tt.err)
			if l.ops != 12 || l.batches != 3 || len(l.out) != 1 || l.out[0] != other || l.outCost != 3 || l.oldestSentTick != 4 || !l.delivering || l.replyErr != replied || b.err != nil || len(l.pending) != tt.kept {
				s.Errorf("%s: %d operations in %d batches, %d in flight of a cost of %d, sent at tick %d, replied %v, %d releases kept", name, l.ops, l.batches, len(l.out), l.outCost, l.oldestSentTick, l.replyErr, len(l.pending))
			}
			if answered := tt.err == nil; (l.rtt == 3*ms) != answered || l.rttMin != 2*ms {
				s.Errorf("%s: the round trip is %v, the shortest %v", name, l.rtt, l.rttMin)
			}
			counts := !tt.abandoned
			if voted := quorum.Votes(r.votes.Load()).Of(l.index) == tt.vote && tt.vote != quorum.Pending; voted != counts || (set.answers[l.index].value == "read") != counts || (set.attempt.setAt[l.index] == 77) != (counts && tt.err == nil) {
				s.Errorf("%s: voted %t, read %q, set at %d", name, voted, set.answers[l.index].value, set.attempt.setAt[l.index])
			}
			if b.rounds[0] != nil || b.readings[0].round != nil {
				s.Errorf("%s: the batch keeps its rounds in memory", name)
			}
			l.delivering = false
			b = &batch{lane: l, sent: time.Now().Add(-ms)}
			l.out = []*batch{b}
			if l.deliverVotes(b, nil); l.state != laneIdle || l.rttMin != ms {
				s.Errorf("%s: then all is answered: the lane is %v, the shortest round trip %v", name, l.state, l.rttMin)
			}
		}
		l := p.idleLane()
		a, b := &batch{rounds: []*round{{}, {}}}, &batch{rounds: []*round{{}}, abandoned: true}
		l.out = []*batch{a, b}
		if got := l.abandonLocked(); len(got) != 2 || !a.abandoned || len(l.abandonLocked()) != 0 {
			s.Errorf("abandoned: %d rounds, want the two of the batch that was not yet", len(got))
		}
	})
}
