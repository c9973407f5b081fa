package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"redlockd/redlock/member/coordinator"
	"redlockd/redlock/redisproc"
)

// stepLoad sends operations of every kind through a client, one after the other, until it is stopped, on resources of that name. Each must be
// answered as if the membership did not change.
func (p *proxy) stepLoad(name string, stop <-chan struct{}, load *sync.WaitGroup) {
	const ttl = 200 * ms
	kinds := map[string]func(ctx context.Context, n int) error{
		"lease": func(ctx context.Context, n int) error {
			lease, err := p.TryLock(ctx, name+" lease", ttl)
			if err == nil {
				err = lease.Extend(ctx, ttl)
			}
			if err == nil {
				err = lease.Unlock(ctx)
			}
			return err
		},
		"own token": func(ctx context.Context, n int) error {
			token := fmt.Sprint("token ", n)
			if err := p.done(ctx, func(op *Op, to Completer) { p.StartLock(op, one(name+" own", ttl).as(token), to) }); err != nil {
				return err
			}
			return p.done(ctx, func(op *Op, to Completer) { p.StartUnlock(op, []string{name + " own"}, token, to) })
		},
		"fence": func(ctx context.Context, n int) error {
			req := one(name+" fence", ttl)
			req.Fence = true
			result, err := p.Client.wait(ctx, func(op *Op, to Completer) { p.StartLock(op, req, to) })
			if err != nil {
				return err
			}
			return p.done(ctx, func(op *Op, to Completer) { p.StartUnlock(op, req.Resources, result.Token, to) })
		},
		"commit": func(ctx context.Context, n int) error {
			value := fmt.Sprint("a value of its own ", n)
			for _, change := range []Change{setNX(name+" commit", value, ttl), compareAndExpire(name+" commit", value, ttl), compareAndDelete(name+" commit", value)} {
				if err := p.done(ctx, func(op *Op, to Completer) { p.StartCommit(op, []Change{change}, to) }); err != nil {
					return err
				}
			}
			return nil
		},
		"held": func(ctx context.Context, n int) error {
			o := p.holder()
			defer p.EndHolder(o.Holder, true)
			err := p.done(ctx, func(op *Op, to Completer) { p.StartLock(op, one(name+" held", ttl).heldBy(o).released(), to) })
			for range 3 {
				if err == nil {
					err = p.done(ctx, func(op *Op, to Completer) { p.StartKeepAlive(op, o.Holder, to) })
				}
			}
			return err
		},
		"read": func(ctx context.Context, n int) error {
			_, err := p.Client.wait(ctx, func(op *Op, to Completer) { p.StartRead(op, []string{name + " read"}, to) })
			return err
		},
	}
	for kind, work := range kinds {
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := work(p.s.Context(), n); err != nil {
					p.s.Errorf("%s %d: %v", kind, n, err)
					return
				}
			}
		})
	}
}

// done runs an operation that must do what it was started for.
func (p *proxy) done(ctx context.Context, start func(*Op, Completer)) error {
	result, err := p.Client.wait(ctx, start)
	if err == nil && !result.Held {
		return ErrNotHeld
	}
	return err
}

// Members and max_ttl change through one client while others work. Those find each step with a batch whose votes do not count, and have to
// follow it; no caller sees that.
func TestNoStepCostsAnAnswer(t *testing.T) {
	for _, way := range redisproc.Some(1, []time.Duration{5 * ms, ms}) {
		t.Run(way.String(), func(t *testing.T) {
			withSpares(t, 3, 3, func(s *stage) {
				s.found(maxTTL(300 * ms))
				operator := s.open(maxTTL(300*ms), uncopied)
				var load sync.WaitGroup
				stop := make(chan struct{})
				for _, name := range []string{"first", "second"} {
					p := s.open(maxTTL(300*ms), uncopied)
					for i := range s.masters {
						p.delay(way/2, way/2, i)
					}
					p.stepLoad(name, stop, &load)
				}
				for _, change := range []coordinator.Change{
					{Replace: addrOf(0), Addr: addrOf(3)},
					{SetMaxTTL: time.Second},
					{Add: "m5", Addr: addrOf(4)},
					{Add: "m6", Addr: addrOf(5)},
					{SetMaxTTL: 300 * ms},
					{Remove: addrOf(1)},
					{Remove: addrOf(2)},
				} {
					operator.change(change)
					s.until("the change is made", func() bool { m := operator.Membership(); return m.Voters() == len(m.Seats) && !m.Lowering })
				}
				close(stop)
				load.Wait()
			})
		})
	}
}

// Masters restart one after the other, and each is a learner, and a voter again, within a second. No caller sees that.
func TestNoRestartCostsAnAnswer(t *testing.T) {
	for _, way := range redisproc.Some(1, []time.Duration{5 * ms, ms}) {
		t.Run(way.String(), func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				s.found(maxTTL(time.Hour))
				var load sync.WaitGroup
				stop := make(chan struct{})
				var all []*proxy
				for _, name := range []string{"first", "second"} {
					p := s.open(maxTTL(time.Hour))
					jitter := func() time.Duration { return way/4 + rand.N(way/2) }
					for _, path := range p.paths {
						path.SetDelay(jitter, jitter)
					}
					all = append(all, p)
					for i := range 2 {
						p.stepLoad(fmt.Sprint(name, i), stop, &load)
					}
				}
				for i := range s.masters {
					s.restart(i)
					for _, p := range all {
						s.until("it has no vote", func() bool { return p.states()[i] != 'u' })
					}
					for _, p := range all {
						s.until("it votes", func() bool { return p.states() == "uuuuu" })
					}
				}
				close(stop)
				load.Wait()
			})
		})
	}
}

// The same where a master hangs: a client that follows the step need not wait for it.
func TestNoStepCostsAnAnswerBesideAMasterThatHangs(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.found(maxTTL(time.Second))
		operator, p := s.open(maxTTL(time.Second)), s.open(maxTTL(time.Second))
		p.delay(ms, ms, 0, 1, 2, 3)
		s.freeze(4)
		s.until("it is given up", func() bool { return p.states() == "uuuud" })
		var load sync.WaitGroup
		stop := make(chan struct{})
		p.stepLoad("r", stop, &load)
		for _, to := range []time.Duration{2 * time.Second, 3 * time.Second} {
			operator.change(coordinator.Change{SetMaxTTL: to})
			s.until("it is followed", func() bool { return p.MaxTTL() == to })
		}
		close(stop)
		load.Wait()
	})
}

// beginStep has all masters accept a step of a proposer that dies then. Any client can finish it that outbids the ballot.
func (s *stage) beginStep(ballot string) {
	dead := s.proposer()
	child := dead.demotes(1)
	dead.prepare(ballot)
	dead.accept(ballot, child)
}

const firstBallot, lastBallot = "00000001.0000000000000000", "99999999.ffffffffffffffff"

// Where a step does not end, an operation is told so, and what comes behind it as well.
func TestStepThatDoesNotEnd(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly)
		s.beginStep(lastBallot)
		hold, tick := stepHold*p.opts.MasterTimeout, p.opts.MasterTimeout/watchTicks
		first := p.begin(one("r", time.Second))
		behind := p.begin(one("other", time.Second))
		for what, c := range map[string]*call{"the one that finds it": first, "one behind it": behind} {
			if p.finish(c); c.Held || c.Err == nil || c.took > hold+2*tick {
				s.Errorf("%s: got %+v after %v, want no quorum within %v", what, c.Result, c.took, hold+2*tick)
			}
		}
		if c := p.lock(one("r", time.Second)); c.Held || c.Err == nil || c.took > tick {
			s.Errorf("later: got %+v after %v, want no quorum at once", c.Result, c.took)
		}
	})
}

// A LOCK that begins once more would overtake the UNLOCK that its caller has sent behind it.
func TestNotBegunAgainBehindTheUnlock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly)
		var locked *call
		for range 3 { // the step may have ended before the LOCK begins
			s.beginStep(firstBallot)
			unlocked := &call{began: time.Now()}
			locked = p.startLock(one("r", time.Second).as("token"))
			p.StartUnlock(&unlocked.Op, []string{"r"}, "token", unlocked)
			p.finish(locked)
			p.finish(unlocked)
			s.wantNoLocks()
			if !locked.Held {
				break
			}
			p.allUp()
		}
		if locked.Held || locked.Err == nil {
			s.Errorf("LOCK: got %+v, want no quorum", locked.Result)
		}
	})
}

// A commit begins once more when all that its first round has set is taken back: SET NX is not denied by itself, and a rotation finds the old
// value. One that deletes does not, for what is deleted is not put back.
func TestCommitsInAStep(t *testing.T) {
	tests := map[string]struct {
		changes []Change
		want    string
	}{
		"SET NX, and UNLOCK behind it": {[]Change{setNX("new", otherValue, time.Second)}, "0 of 5 masters voted"},
		"SET NX":                       {[]Change{setNX("new", otherValue, time.Second)}, "held"},
		"SET NX of what is held":       {[]Change{setNX("r", otherValue, time.Second)}, "no"},
		"rotation":                     {[]Change{rotate("r", longValue, otherValue, time.Second)}, "held"},
		"deletion":                     {[]Change{compareAndDelete("r", longValue), setNX("new", otherValue, time.Second)}, "0 of 5 masters voted"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open(briefly)
				p.commit(setNX("r", longValue, time.Second)).want(s, "SET NX", "held", 0)
				s.beginStep(firstBallot)
				p.delay(0, 10*ms, 3, 4) // these vote when the step has ended
				c := p.beginCommit(tt.changes...)
				if strings.Contains(name, "UNLOCK") {
					p.unlock(otherValue, "new")
				}
				p.finish(c).want(s, name, tt.want, c.took)
			})
		})
	}
}

// A record may be adopted between the moment when a lane judges its master by the one before and the moment when it takes note of that.
func TestRecordAdoptedWhileALaneLooks(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(briefly)
		l := p.fleet.view.Load().masters[0]
		l.mu.Lock()
		l.guard.seenBy = nil
		l.toResolve.clock.unwatched = true
		l.wake.Signal()
		l.mu.Unlock()
		s.until("the lane looks once more", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.guard.seenBy == p.fleet.view.Load().record
		})
	})
}

// outOfStep has the lanes see that masters show something else than this client knows, or not.
func (p *proxy) outOfStep(is bool, masters ...int) {
	for _, i := range masters {
		l := p.fleet.view.Load().masters[i]
		l.mu.Lock()
		l.toResolve.recheck = is
		l.mu.Unlock()
	}
}

// A round ran ahead of its record if it was launched soon after that was adopted, and a quorum has done what it asks for, whether the votes count or not.
func TestWhatRanAheadOfItsRecord(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		v, soon := p.fleet.view.Load(), stepHold*p.opts.MasterTimeout
		for _, tt := range []struct {
			after time.Duration
			votes string
			want  bool
		}{
			{0, "ddd..", true}, {ms, "GdddU", true}, {soon, "ddd..", true}, {soon + 1, "ddd..", false}, {time.Hour, "ddddd", false}, {0, "dd...", false},
			{ms, "GdUUD", false}, {0, ".....", false},
		} {
			r := &round{view: v, start: v.since.Add(tt.after)}
			r.votes.Store(uint64(votesOf(tt.votes)))
			if got := p.ranAheadLocked(r); got != tt.want {
				s.Errorf("%s, %v after the record was adopted: ran ahead %t, want %t", tt.votes, tt.after, got, tt.want)
			}
		}
	})
}

// What finds no quorum begins once more for each of three reasons, unless it was released, or has begun once more under this record.
func TestWhatAStepHasStopped(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		now := p.fleet.view.Load()
		before := *now
		record := *now.record
		before.record = &record
		for name, tt := range map[string]struct {
			view      *view
			votes     string
			outOfStep []int
			op        Op
			released  bool
			want      bool
		}{
			"nothing has happened":                       {view: now, votes: "GU..."},
			"another record is in force":                 {view: &before, votes: "GU...", want: true},
			"a quorum is not in step":                    {view: now, votes: "GU...", outOfStep: []int{0, 1, 2}, want: true},
			"two masters are not in step":                {view: now, votes: "GU...", outOfStep: []int{0, 1}},
			"it ran ahead":                               {view: now, votes: "ddd..", want: true},
			"it was released":                            {view: &before, votes: "ddd..", released: true},
			"it has begun once more":                     {view: &before, votes: "ddd..", op: Op{againFrom: before.record}},
			"it has begun once more under another":       {view: &before, votes: "GU...", op: Op{againFrom: now.record}, want: true},
			"it has begun once more, and a step goes on": {view: now, votes: "GU...", outOfStep: []int{0, 1, 2}, op: Op{againFrom: now.record}},
		} {
			r := &round{view: tt.view, start: now.since, op: &tt.op, released: tt.released}
			r.votes.Store(uint64(votesOf(tt.votes)))
			p.outOfStep(true, tt.outOfStep...)
			p.mu.Lock()
			if got := p.stoppedByStepLocked(r); got != tt.want {
				s.Errorf("%s: stopped %t, want %t", name, got, tt.want)
			}
			p.mu.Unlock()
			p.outOfStep(false, tt.outOfStep...)
		}
	})
}

// An operation begins once more at once, unless the step goes on: then it waits as if masters had no room.
func TestWhenAnOperationBeginsOnceMore(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		v := p.fleet.view.Load()
		for waits, masters := range map[bool][]int{true: {0, 1, 2}, false: {0, 1}} {
			begun, op := 0, &Op{}
			p.outOfStep(true, masters...)
			d := p.enter()
			p.beginAgainLocked(&round{view: v, op: op}, 0, func(*Client, *Op, *deferred) { begun++ }, d)
			if full := p.admission.full.Load(); (begun == 0) != waits || full != waits || op.againFrom != v.record {
				s.Errorf("%d masters out of step: begun %d times, others wait %t; want waiting: %t", len(masters), begun, full, waits)
			}
			p.leave(d)
			p.outOfStep(false, masters...)
			if p.admit(); begun != 1 {
				s.Errorf("%d masters out of step: begun %d times in the end, want 1", len(masters), begun)
			}
		}
	})
}
