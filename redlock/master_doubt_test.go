package redlock

// Goal: clocks that are out of step grant no lock twice, and a clock that is wrong stops as few as possible: a master's clock that master,
// a proxy's clock that proxy. Method: virtual time; masters' clocks step and run fast, and the clocks of single proxies are made to stand
// still, to be ahead, and to be suspended.

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/clock"
	"redlockd/redlock/lua"
	"redlockd/redlock/redisproc"
)

// withFaults opens a client whose own clocks can go wrong.
func withFaults(o *Options) { o.clockFaults = &clock.Faults{} }

// pause has this client's monotonic clock stand still, as if the machine were paused without anybody saying so.
func (p *proxy) pauseClock(d time.Duration) { p.opts.clockFaults.StoodStill.Add(int64(d)) }

// passes has time pass for all masters and these clients, as it does while the machine of another client is paused: that one's clock stands still.
// It is for less than a wait, in which the others would have read the clocks.
func (s *stage) passes(d time.Duration, others ...*proxy) {
	for _, p := range others {
		p.pauseClock(-d)
	}
	for _, m := range s.masters {
		m.StepClock(d)
	}
}

// suspend does the same to a machine that says so.
func (p *proxy) suspend(d time.Duration) {
	p.opts.clockFaults.Suspended.Add(int64(d))
	p.opts.clockFaults.StoodStill.Add(int64(d))
}

// memories name what the masters remember: one that is lost gets another name.
func (s *stage) memories() string {
	var all []string
	for _, v := range strings.Split(s.memberships(), "\n") {
		memory, _, _ := strings.Cut(v, " ")
		all = append(all, memory)
	}
	return strings.Join(all, "\n")
}

// memberships are what the masters show: a memory that is lost changes it, and so does a step.
func (s *stage) memberships() string {
	var all []string
	for i := range s.masters {
		all = append(all, fmt.Sprint(s.do(i, "HGET", lua.MembersKey, "v")))
	}
	return strings.Join(all, "\n")
}

// briefly is a short max_ttl, for tests that wait for it.
func briefly(o *Options) { o.MaxTTL = 4 * time.Second }

// betrayed has a lock on masters 1, 2 and 3 only.
func (s *stage) betrayed(p *proxy, resource string) *call {
	s.Helper()
	s.freeze(3, 4)
	held := p.lock(one(resource, p.opts.MaxTTL))
	held.want(s, "LOCK on a bare quorum", "held", held.took)
	s.thaw(3, 4)
	p.allUp()
	s.doOn([]int{3, 4}, "DEL", resource)
	return held
}

// nobodyElse tries to lock through these clients until the lease ends.
func (s *stage) nobodyElse(held *call, resource string, clients ...*proxy) {
	s.Helper()
	for time.Now().Before(held.Until) {
		for i, p := range clients {
			if c := p.lock(one(resource, 100*ms)); c.Held && time.Now().Before(held.Until) {
				s.Fatalf("client %d was granted the lock %v before the end of the lease", i, time.Until(held.Until))
			}
		}
		time.Sleep(7 * ms)
	}
}

// A master whose clock stepped forward has lost the locks it voted for. Its votes count neither for those that watched it nor for those
// that begin then; and no memory is lost.
func TestClockThatStepsHasNoVote(t *testing.T) {
	for _, masters := range redisproc.Some(1, [][]int{{0, 1}, {0}, {0, 1, 2}}) {
		for _, lost := range []bool{false, true} {
			inVirtualTime(t, 5, func(s *stage) {
				p, other := s.open(briefly), s.open(briefly)
				held := s.betrayed(p, "r")
				before := s.memories()
				s.stepClocks(20*time.Second, masters...)
				req := one("r", time.Second)
				if lost { // the batch takes two pipelines, and the first one shows the gain
					req.Fence = true
					s.doAll("SCRIPT", "FLUSH")
				}
				if other.lock(req).Held {
					s.Fatalf("%d clocks step, scripts lost: %v: another proxy was granted the lock at once", len(masters), lost)
				}
				s.nobodyElse(held, "r", other, s.start(briefly))
				if after := s.memories(); after != before {
					s.Errorf("memories: got\n%s\nwant what they were before the step,\n%s", after, before)
				}
				for _, x := range []*proxy{p, other} {
					x.allUp()
					x.lockable("r")
				}
			})
		}
	}
}

// A batch whose scripts are lost takes two pipelines. What the first one finds counts for both: the second one's is judged by what is known by then.
func TestSecondPipelineExcusesNothing(t *testing.T) {
	for _, lost := range []bool{false, true} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(briefly, withFaults)
			time.Sleep(5 * time.Second)
			p.suspend(2 * time.Second)
			req := one("r", 4*time.Second)
			if req.Fence = true; lost {
				s.doAll("SCRIPT", "FLUSH")
			}
			if c := p.lock(req); c.Held {
				s.Errorf("scripts lost: %v: got held, with votes of a batch that showed that this machine was suspended", lost)
			}
		})
	}
}

// The answer that shows a gain may have taken long. The clock may have stepped at its end, so that the wait begins there.
func TestClockThatStepsBeforeALateAnswer(t *testing.T) {
	for _, d := range []time.Duration{300 * ms, 900 * ms} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(briefly), s.open(briefly)
			other.holdRequests(0, 1, 2)
			time.Sleep(d)
			held := s.betrayed(p, "r")
			s.stepClocks(20*time.Second, 0, 1, 2)
			other.heal(0, 1, 2)
			s.nobodyElse(held, "r", other)
			other.allUp()
			other.lockable("r")
		})
	}
}

// Three of five step back and keep keys too long: no second holder, no lost vote; the way forward again is a gain.
func TestClocksGoBackAndForth(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(briefly), s.open(briefly)
		time.Sleep(time.Second)
		back := func(d time.Duration) { s.stepClocks(d, 0, 1, 2) }
		back(-10 * time.Second)
		time.Sleep(300 * ms)
		p.wantStates("uuuuu")
		other.wantStates("uuuuu")
		held := s.betrayed(p, "r")
		other.lock(one("r", time.Second)).want(s, "LOCK of what is held on clocks that went back", "no", 0)
		back(10 * time.Second)
		s.nobodyElse(held, "r", other)
	})
}

// Clocks that run 2 % or 8.3 % fast, as chrony's slew makes them, are found under a constant load as when idle, and end no lock early.
func TestFastClocks(t *testing.T) {
	for _, ppm := range redisproc.Some(1, []float64{20_000, 83_000}) {
		for _, busy := range redisproc.Some(1, []bool{false, true}) {
			inVirtualTime(t, 5, func(s *stage) {
				p, other := s.open(briefly), s.open(briefly)
				what := fmt.Sprintf("%v ppm, busy: %v", ppm, busy)
				load := func(d time.Duration) {
					if !busy {
						time.Sleep(d)
						return
					}
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(ms) {
						for _, x := range []*proxy{p, other} {
							if c := x.lock(one("load", 100*ms)); c.Held {
								x.unlock(c.Token, "load")
							}
						}
					}
				}
				load(time.Second)
				s.setClockRates(ppm, 0, 1, 2)
				held := p.lock(one("r", 4*time.Second))
				held.want(s, what+": LOCK", "held", 0)
				load(1200 * ms)
				p.wantStates("ooouu")
				other.wantStates("ooouu")
				for time.Now().Before(held.Until) {
					if c := other.lock(one("r", 100*ms)); c.Held && time.Now().Before(held.Until) {
						s.Fatalf("%s: another was granted the lock %v before its end", what, time.Until(held.Until))
					}
					load(10 * ms)
				}
				load(4 * time.Second)
				p.wantStates("ooouu") // they still run fast
				s.setClockRates(0, 0, 1, 2)
				p.allUp()
				other.allUp()
			})
		}
	}
}

// A proxy whose own clock is wrong stops itself, and nobody else: nothing on the masters changes. Beside another one it is told that the masters'
// clocks are in step, and goes on. Alone it stops in proportion to a pause, and for a wait where its wall clock is wrong.
func TestOwnClockIsWrong(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pause  time.Duration // of a client that runs
		start  func(o *Options)
		reason string
		most   time.Duration // alone
	}{
		{name: "it stood still for 25 ms", pause: 25 * ms, reason: "ms on this machine's: it stepped, or this machine was paused", most: 3 * time.Second},
		{name: "it stood still for 3 s", pause: 3 * time.Second, reason: "its clock gained 3", most: time.Minute},
		{name: "its wall clock is 1.5 s ahead", start: func(o *Options) { o.clockFaults.Ahead.Store(int64(1500 * ms)) }, reason: "this machine's clock agrees with too few masters (clock_skew_max); from this one's it differs by 1.5s", most: time.Minute},
		{name: "its wall clock is 1.5 s behind", start: func(o *Options) { o.clockFaults.Ahead.Store(-int64(1500 * ms)) }, reason: "it differs by -1.5s", most: time.Minute},
	} {
		for _, alone := range []bool{false, true} {
			inVirtualTime(t, 5, func(s *stage) {
				logged := &journal{}
				other := s.open(briefly, withFaults)
				before := s.memberships()
				if alone {
					other.Close(context.Background())
				}
				var p *proxy
				if tt.pause > 0 {
					p = s.open(briefly, withFaults, logged.option)
					time.Sleep(time.Second)
					s.passes(tt.pause, other)
				} else {
					p = s.start(briefly, withFaults, tt.start, logged.option)
				}
				wrong := time.Now()
				time.Sleep(600 * ms)
				if alone {
					p.wantStates("ooooo")
					for _, m := range p.Masters() {
						if !strings.Contains(m.Reason, tt.reason) || m.Left <= 0 {
							s.Errorf("%s: %s: got %q for another %v, want %q", tt.name, m.Addr, m.Reason, m.Left, tt.reason)
						}
					}
					p.lock(one("r", time.Second)).want(s, tt.name+": LOCK through it", "doubted for another ", 0)
				}
				p.allUp()
				took, most := time.Since(wrong), min(tt.most, p.fleet.view.Load().wait*34/33)+2*p.opts.Heartbeat
				if !alone {
					most = time.Second
					other.wantStates("uuuuu")
				}
				if took > most {
					s.Errorf("%s, alone %v: it stopped for %v, want %v at most", tt.name, alone, took, most)
				}
				if after := s.memberships(); after != before {
					s.Errorf("%s: memberships: got\n%s\nwant what they were before,\n%s", tt.name, after, before)
				}
				p.lockable("r")
				lines := strings.Count(logged.String(), "level=WARN")
				if alone && (lines != 1 || !strings.Contains(logged.String(), "to_do")) {
					s.Errorf("%s: the log has %d lines about it, want one with what to do:\n%s", tt.name, lines, logged.String())
				}
			})
		}
	}
}

// A client that stands still for a moment sees clocks gain: those of masters that answer fast enough to show it. That takes their votes from nobody
// else, and from no client that starts then; and another one that did not stand still tells it in a moment that they are in step.
func TestOwnPauseTakesNoVotesFromOthers(t *testing.T) {
	redisproc.NotRaced(t)
	for _, tt := range []struct{ pause, away time.Duration }{ // how far masters 3, 4 and 5 are
		{50 * ms, 0}, {50 * ms, 6 * ms}, {15 * ms, 6 * ms}, {15 * ms, 100 * time.Microsecond}, {3 * time.Second, 0},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(briefly), s.open(briefly, withFaults)
			p.delay(tt.away, tt.away, 2, 3, 4)
			time.Sleep(p.fleet.view.Load().wait + time.Second) // the ring of its readings has none that was faster
			before := s.memberships()
			s.passes(tt.pause, other)
			paused := time.Now()
			s.until("it sees that", func() bool { return !strings.HasPrefix(p.states(), "uu") })
			s.until("it is told", func() bool { return p.states() == "uuuuu" })
			if took := time.Since(paused); took > 4*p.opts.Heartbeat {
				s.Errorf("it stood still for %v, and is told after %v, want four heartbeats at most", tt.pause, took)
			}
			s.passes(tt.pause, other)
			later := s.start(briefly)
			s.until("one that starts is told", func() bool { return later.states() == "uuuuu" })
			if took := time.Since(later.opened); took > 2*p.opts.Heartbeat {
				s.Errorf("one that starts then counts all after %v, want two heartbeats at most", took)
			}
			s.until("the other has connected since", func() bool { return other.states() == "uuuuu" })
			for range 12 {
				later.wantStates("uuuuu")
				other.wantStates("uuuuu")
				other.lockable("r")
				if after := s.memberships(); after != before {
					s.Fatalf("it stood still for %v: memberships: got\n%s\nwant what they were before,\n%s", tt.pause, after, before)
				}
				time.Sleep(p.fleet.view.Load().wait / 10)
			}
			p.wantStates("uuuuu")
		})
	}
}

// A machine that was suspended and says so goes on at once. What was under way is not granted.
func TestSuspendedMachineGoesOn(t *testing.T) {
	for _, asleep := range []time.Duration{100 * ms, 3 * time.Second, time.Hour} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(briefly, withFaults, uncopied)
			time.Sleep(time.Second)
			p.align()
			p.suspend(asleep)
			if c := p.lock(one("r", time.Second)); c.Held {
				s.Errorf("asleep for %v: a LOCK in the batches that show it was granted", asleep)
			}
			s.masters[1].StepClock(asleep) // no suspension excuses another gain, before the next heartbeat …
			p.lock(one("another", time.Second))
			time.Sleep(600 * ms)
			p.wantStates("uouuu")
			p.lockable("r")
			s.masters[0].StepClock(asleep) // … and after it
			time.Sleep(600 * ms)
			p.wantStates("oouuu")
		})
	}
}

// A suspension of which the masters show nothing, for they stood still with us, excuses no step that comes later.
func TestSuspensionThatDidNotShow(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly, withFaults, uncopied)
		p.opts.clockFaults.Suspended.Add(int64(3 * time.Second))
		time.Sleep(600 * ms)
		s.stepClocks(2*time.Second, 0, 1, 2)
		time.Sleep(600 * ms)
		p.wantStates("ooouu")
	})
}

// A round that was under way while the machine was suspended is not granted, though its votes tell nothing of that: the masters may have
// voted before, and their clocks went on.
func TestRoundOverASuspensionIsNotGranted(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(withFaults, func(o *Options) {
			for i := range o.Masters {
				o.Masters[i].SameClock = true // so that only the round itself can tell
			}
		})
		p.delay(10*ms, 10*ms, 0, 1, 2)
		for name, begin := range map[string]func() *call{
			"LOCK":   func() *call { return p.begin(one("r", time.Second)) },
			"SET NX": func() *call { return p.beginCommit(setNX("other", longValue, time.Second)) },
		} {
			c := begin()
			time.Sleep(15 * ms)
			p.suspend(10 * time.Second)
			p.finish(c)
			if c.Held || c.Err == nil {
				s.Errorf("%s over a suspension: got %+v, want an error", name, c.Result)
			}
		}
		time.Sleep(time.Second)
		p.lockable("r")
	})
}

// Masters inside this process stand still with it, whatever happens to its clock.
func TestMastersOfThisProcessAreNotDoubted(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly, withFaults, func(o *Options) {
			o.clockFaults.Ahead.Store(int64(time.Hour))
			for i := range o.Masters {
				o.Masters[i].SameClock = true
			}
		})
		p.pauseClock(-time.Minute) // the process was suspended, and Go's clock says nothing of it
		time.Sleep(600 * ms)
		p.wantStates("uuuuu")
		p.pauseClock(2 * time.Minute)
		p.lock(one("r", time.Second)).want(s, "LOCK behind it", "held", 0)
		time.Sleep(600 * ms)
		p.wantStates("uuuuu")
	})
}

// A client that has just started does not have to watch: as soon as a quorum of masters agrees with its clock, their votes count.
func TestQuorumVouches(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.found(briefly)
		s.freeze(1, 3)
		p := s.start(briefly)
		s.until("ready", func() bool { return p.states() == "ududu" })
		if took := time.Since(p.opened); took > 0 {
			s.Errorf("three of five masters were believed after %v, want at once", took)
		}
		p.lock(one("r", time.Second)).want(s, "LOCK at once", "held", 0)
		s.thaw(1, 3)
		p.allUp()

		s.freeze(1, 2, 3)
		few := s.start(briefly)
		time.Sleep(2 * time.Second)
		few.wantStates("qdddq") // they are too few to say what the membership is
		s.thaw(1, 2, 3)
		few.allUp()
	})
}

// After a time without a connection that is longer than a wait, nobody has watched the clock: it has to be vouched for again.
func TestClockThatNobodyWatched(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly, withFaults)
		time.Sleep(5 * time.Second)
		p.cut(0, 1, 2, 3, 4)
		p.opts.clockFaults.Ahead.Store(int64(time.Minute)) // nobody can vouch for anybody
		time.Sleep(20 * time.Second)
		p.heal(0, 1, 2, 3, 4)
		s.until("connected again", func() bool { return p.states() == "ooooo" })
		p.opts.clockFaults.Ahead.Store(0)
		time.Sleep(300 * ms)
		p.wantStates("uuuuu")
	})
}

// Shortening keys leaves alone what a lease may count on, and redlockd's own.
func TestClampCutsNoLockShort(t *testing.T) {
	inVirtualTime(t, 1, func(s *stage) {
		p := s.open(briefly)
		wait := p.fleet.view.Load().wait.Milliseconds()
		s.do(0, "SET", "longer", "T", "PX", 3*wait)
		s.do(0, "SET", "for ever", "T")
		s.do(0, "SET", "redlockd:longer", "T", "PX", 3*wait)
		for n := range 3 * foldMax {
			s.do(0, "SET", fmt.Sprint("many ", n), "T", "PX", 100*wait)
		}
		s.masters[0].StepClock(-time.Second)
		time.Sleep(time.Duration(wait) * ms)
		s.do(0, "SET", "longest", "T", "PX", p.fleet.view.Load().longestMs)
		time.Sleep(600 * ms) // heartbeats
		for key, want := range map[string]int64{"longest": p.fleet.view.Load().longestMs - 600, "longer": wait, "for ever": -1, "redlockd:longer": 2*wait + 400, "many 700": wait} {
			if got := s.do(0, "PTTL", key).(int64); got > want || got < want-600 && want > 0 {
				s.Errorf("%s lives for %d ms, want %d or little less", key, got, want)
			}
		}
	})
}

// A clock goes back and forth while a client is cut off from its master, so that client finds no gain when it is back. What was locked before must
// still be there then: another client that has seen the clock go back shortens keys only when nobody can count on them.
func TestClampWaitsForWhoDidNotWatch(t *testing.T) {
	inVirtualTime(t, 1, func(s *stage) {
		p, blind := s.open(briefly), s.open(briefly)
		held := p.lock(one("r", 2*time.Second))
		held.want(s, "LOCK", "held", 0)
		blind.paths[0].Partition()
		s.masters[0].StepClock(-time.Minute)
		time.Sleep(600 * ms) // heartbeats
		s.masters[0].StepClock(time.Minute)
		blind.heal(0)
		for time.Now().Before(held.Until) {
			if c := blind.lock(one("r", time.Second)); c.Held && time.Now().Before(held.Until) {
				s.Fatalf("granted to another %v before the end", time.Until(held.Until))
			}
			time.Sleep(10 * ms)
		}
	})
}

// A reader that comes behind one whose key lives too long, because clocks went back, keeps its place when that key is shortened.
func TestClampCutsNoReaderShort(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly)
		before := p.lock(one("r", 2*time.Second).sharing())
		s.stepClocks(-time.Hour, 0, 1, 2, 3, 4)
		reader := p.lock(one("r", time.Second).sharing())
		reader.want(s, "LOCK SHARED behind the step", "held", 0)
		for until := time.Now().Add(p.fleet.view.Load().wait + 600*ms); time.Now().Before(until); time.Sleep(300 * ms) {
			p.extend(reader.Token, time.Second, "r").want(s, "EXTEND of the reader", "held", 0)
		}
		if left := s.do(0, "PTTL", "r").(int64); left > p.fleet.view.Load().wait.Milliseconds() {
			s.Errorf("the key lives for %d ms, want it shortened to the wait", left)
		}
		p.unlock(before.Token, "r")
		p.lock(one("r", time.Second)).want(s, "LOCK beside a reader", "no", 0)
		p.extend(reader.Token, time.Second, "r").want(s, "EXTEND of the reader", "held", 0)
		time.Sleep(1100 * ms)
		p.lock(one("r", time.Second)).want(s, "LOCK behind the reader", "held", 0)
	})
}

// Three of five clocks step by less than clock_skew_max, so a client that has just started cannot tell: they agree with its own. One that has
// watched them says so on the masters.
func TestNewClientDoesNotVouchForAClockThatStepped(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly)
		held := p.lock(one("r", 2*time.Second))
		held.want(s, "LOCK", "held", 0)
		s.stepClocks(800*ms, 0, 1, 2)
		time.Sleep(600 * ms) // heartbeats
		q := s.start(briefly)
		for time.Now().Before(held.Until) {
			if c := q.lock(one("r", time.Second)); c.Held && time.Now().Before(held.Until) {
				s.Fatalf("granted to another %v before the end", time.Until(held.Until))
			}
			time.Sleep(10 * ms)
		}
		q.allUp()
		q.lockable("r")
	})
}

// All masters' clocks step at once, so that no master's clock tells that it was no pause. A client that has watched them knows by its own wall clock,
// and says so: one that starts then finds clocks that agree, and must not believe them.
func TestNewClientDoesNotVouchForCommonSteps(t *testing.T) {
	redisproc.NotRaced(t)
	for _, tt := range []struct {
		name string
		step time.Duration
		with bool // our own wall clock steps, too
	}{
		{"all clocks were 10 s behind", 10 * time.Second, true},
		{"all clocks were 800 ms behind", 800 * ms, true},
		{"the masters were 10 s behind", 10 * time.Second, false},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			s.stepClocks(-tt.step, 0, 1, 2, 3, 4)
			p := s.open(briefly, withFaults, func(o *Options) {
				if tt.with {
					o.clockFaults.Ahead.Store(-int64(tt.step))
				}
			})
			held := p.lock(one("r", 3*time.Second))
			held.want(s, "LOCK", "held", 0)
			s.stepClocks(tt.step, 0, 1, 2, 3, 4)
			p.opts.clockFaults.Ahead.Store(0)
			time.Sleep(600 * ms)                                  // heartbeats
			if got := p.states(); strings.Trim(got, "oq") != "" { // q: it was seen to step before the others were
				s.Errorf("states of the masters: got %s, want no vote", got)
			}
			q := s.start(briefly)
			s.nobodyElse(held, "r", q)
			q.allUp()
			q.lockable("r")
		})
	}
}

// What one clockGuard makes of readings, one behind the other. The master's clock is an hour and ahead away.
func TestClockGuardJudges(t *testing.T) {
	f := &clock.Faults{}
	own := &clock.Own{Faults: f}
	own.Start(time.Now())
	drift, wait := clock.Drift{Factor: 0.01, StepMax: 10 * ms}, 10*time.Second
	k := newClockGuard(own, false)
	k.good = true
	k.ring.Add(clock.ReadingOf(0, 0, time.Hour), drift.Rate(), wait)
	for _, tt := range []struct {
		what         string
		at, ahead    time.Duration
		asleep       time.Duration // of this machine before
		counts       bool
		gain, before time.Duration
		unwatched    bool
		begins       bool // a new ring, from here
	}{
		{what: "within the tolerance", at: time.Second, ahead: 5 * ms, counts: true},
		{what: "a wait later", at: 11 * time.Second, ahead: 5 * ms, counts: true},
		{what: "longer than a wait later", at: 22 * time.Second, ahead: 5 * ms, unwatched: true, begins: true},
		{what: "a gain", at: 23 * time.Second, ahead: time.Second, gain: 995 * ms, before: 22 * time.Second},
		{what: "it is still out of step", at: 24 * time.Second, ahead: time.Second, gain: 995 * ms, before: 23 * time.Second},
		{what: "it went back", at: 25 * time.Second, ahead: 5 * ms, gain: 980 * ms, before: 24 * time.Second, begins: true},
		{what: "behind it", at: 26 * time.Second, ahead: 5 * ms, counts: true},
		{what: "a suspension", at: 27 * time.Second, ahead: 2005 * ms, asleep: 2 * time.Second},
		{what: "behind it", at: 28 * time.Second, ahead: 2005 * ms, counts: true},
		{what: "a long suspension", at: 29 * time.Second, ahead: 14 * time.Second, asleep: 12 * time.Second, unwatched: true, begins: true},
		{what: "a gain beside a suspension", at: 30 * time.Second, ahead: 20 * time.Second, asleep: time.Second, gain: 5 * time.Second, before: 29 * time.Second, begins: true},
		{what: "a suspension, and longer than a wait later", at: 41 * time.Second, ahead: 21 * time.Second, asleep: time.Second, unwatched: true},
	} {
		f.Suspended.Add(int64(tt.asleep))
		now := clock.ReadingOf(tt.at, tt.at, time.Hour+tt.at+tt.ahead)
		got := k.judge(now, own, drift, wait)
		if got.counts != tt.counts || got.unwatched != tt.unwatched || (got.gain-tt.gain).Abs() > 30*ms || got.before != tt.before {
			t.Errorf("%s: got %+v, want %+v", tt.what, got, tt)
		}
		if tt.begins {
			k.ring = clock.Ring{}
			k.ring.Add(now, drift.Rate(), wait)
		}
	}
	first := newClockGuard(own, false)
	if first.good = true; first.judge(clock.ReadingOf(time.Minute, time.Minute, time.Hour), own, drift, wait).counts {
		t.Error("a clock counts of whose past nobody knows")
	}
	if k.fresh.Begun || first.fresh.Begun {
		t.Error("a reading has begun a watch: that is for a heartbeat")
	}
	same := newClockGuard(own, true)
	if same.beat(clock.ReadingOf(time.Minute, time.Minute, time.Hour), own, drift); same.last != (clock.Reading{}) {
		t.Errorf("a clock of our own is watched: got %+v", same)
	}
}

// The same of single readings, of a clock that has been read a second ago, with a ring and a fresh one.
func TestClockGuardJudgesAtItsLimits(t *testing.T) {
	const wait, most = 10 * time.Second, 10*ms + time.Microsecond // TIME is precise to a microsecond, which may be no gain
	for _, tt := range []struct {
		what          string
		gained        time.Duration
		later         time.Duration // than a second
		asleep        time.Duration
		doubted       bool // before, and out of step
		inStep        bool // doubted, but in step
		counts        bool
		gain          time.Duration // that is told
		unwatched     bool
		fresh, stands bool // the fresh ring goes on, and the clock is in step
	}{
		{what: "as much as the tolerance", gained: most, counts: true, fresh: true, stands: true},
		{what: "a bit more", gained: most + 1, gain: 10*ms + 1 + 7500*time.Microsecond},
		{what: "as much as the tolerance, beside a suspension that does not show", gained: most, asleep: 2 * time.Second, counts: true, fresh: true, stands: true},
		{what: "a suspension", gained: 2 * time.Second, asleep: 2 * time.Second, fresh: true, stands: true},
		{what: "a suspension of a wait", gained: wait, asleep: wait, fresh: true, stands: true},
		{what: "a longer one", gained: wait + ms, asleep: wait + ms, unwatched: true},
		{what: "a gain, long after the reading before", gained: 2 * time.Second, later: 8 * time.Second, gain: 2*time.Second + 67500*time.Microsecond},
		{what: "a gain of a clock whose votes do not count yet", inStep: true, gained: time.Second, gain: time.Second + 7500*time.Microsecond},
		{what: "a gain of a clock that is out of step", doubted: true, gained: time.Second},
	} {
		f := &clock.Faults{}
		own := &clock.Own{Faults: f}
		own.Start(time.Now())
		drift := clock.Drift{Factor: 0.01, StepMax: 10 * ms}
		k := newClockGuard(own, false)
		k.good, k.inStep, k.first = !tt.doubted && !tt.inStep, !tt.doubted, 7
		k.ring.Add(clock.ReadingOf(0, 0, time.Hour), drift.Rate(), wait)
		k.fresh.Add(clock.ReadingOf(0, 0, time.Hour), drift.Rate(), wait)
		f.Suspended.Store(int64(tt.asleep))
		at := time.Second + tt.later
		got := k.judge(clock.ReadingOf(at, at, time.Hour+at+tt.gained), own, drift, wait)
		if got.counts != tt.counts || got.unwatched != tt.unwatched || (got.gain-tt.gain).Abs() > 2*time.Microsecond || k.inStep != tt.stands {
			t.Errorf("%s: got %+v, in step %v, want %+v", tt.what, got, k.inStep, tt)
		}
		if k.fresh.Begun != tt.fresh || !tt.unwatched && (k.first == 7) != tt.fresh || !tt.fresh && !tt.unwatched && k.first != 0 {
			t.Errorf("%s: the fresh ring goes on: %v, before beat %d, want %v", tt.what, k.fresh.Begun, k.first, tt.fresh)
		}
		if gain := max(0, k.gain); !tt.unwatched && (gain > drift.StepMax) == tt.stands {
			t.Errorf("%s: it has gained %v by now, and is in step: %v", tt.what, gain, tt.stands)
		}
	}
	own, _, drift := guardStage()
	for _, tt := range []struct {
		back time.Duration
		want bool
	}{{0, false}, {clock.Noise, false}, {clock.Noise + ms, true}} {
		k := newClockGuard(own, false)
		k.last = clock.ReadingOf(time.Second, time.Second, time.Hour)
		if k.beat(clock.ReadingOf(time.Second, time.Second, time.Hour-tt.back), own, drift); k.clamp.due != tt.want {
			t.Errorf("a clock that went back by %v: keys are shortened: %v, want %v", tt.back, k.clamp.due, tt.want)
		}
	}
}

// A gain costs votes in proportion, is told once, and what is read behind it begins the fresh ring anew where that gains, too.
func TestClockGuardDoubtsInProportion(t *testing.T) {
	own, _, drift := guardStage()
	const wait = 24 * time.Hour
	for _, tt := range []struct{ step, want time.Duration }{
		{550 * ms, 50 * ms * 400 / 3}, {1500 * ms, 133 * time.Second}, {time.Hour, 24*time.Hour + 45*time.Minute},
	} {
		k := newClockGuard(own, false)
		k.good = true
		told, counts := 0, time.Duration(0)
		for at := time.Duration(0); at < 25*time.Hour; at += max(time.Second, tt.want/200) {
			now := clock.ReadingOf(at, at, time.Hour+at)
			if at > 0 {
				now = clock.ReadingOf(at, at, time.Hour+at+tt.step)
			}
			if at == 0 {
				k.ring.Add(now, drift.Rate(), wait)
			}
			got := k.judge(now, own, drift, wait)
			if got.gain > 0 {
				told++
				k.doubt(got, time.Now(), own, drift, wait)
				k.begin(now, 7, drift, wait)
			}
			k.stated = 7
			if k.trust(clockStatements{stored: true}, "", false, false, true, time.Now(), own, drift, wait); at > 0 && k.good {
				counts = at
				break
			}
			k.last = now
		}
		if told != 1 || (counts-tt.want).Abs() > tt.want/50+2*time.Second || k.fresh.Begun {
			t.Errorf("a step of %v: told %d times, its votes count again after %v, want %v", tt.step, told, counts, tt.want)
		}
	}
	k := newClockGuard(own, false)
	for _, tt := range []struct {
		at, ahead time.Duration
		beat      int64
		first     int64
	}{
		{time.Second, 0, 0, 0}, // its memory is full: it counts no beat
		{2 * time.Second, 0, 5, 5},
		{3 * time.Second, 0, 6, 5},
		{4 * time.Second, time.Minute, 7, 7},
		{5 * time.Second, time.Minute, 8, 7},
	} {
		now := clock.ReadingOf(tt.at, tt.at, time.Hour+tt.at+tt.ahead)
		k.judge(now, own, drift, wait)
		if k.begin(now, tt.beat, drift, wait); k.first != tt.first || !k.fresh.Begun {
			t.Errorf("at %v: the fresh ring begins before beat %d, want %d", tt.at, k.first, tt.first)
		}
	}
}

// guardStage is what a clock guard is tested with: this machine's clock, now, and how much clocks may gain.
func guardStage() (own *clock.Own, now time.Time, drift clock.Drift) {
	own, now = &clock.Own{Faults: &clock.Faults{}}, time.Now()
	own.Start(now)
	return own, now, clock.Drift{Factor: 0.01, StepMax: 500 * ms}
}

// What others state and what was read since are too much together: the watch begins anew. A master that was given its locks meanwhile
// counts without what others state.
func TestGainThatIsTooMuchTogether(t *testing.T) {
	own, now, drift := guardStage()
	const wait, began = 10 * time.Second, 5 * time.Second
	for _, given := range []bool{false, true} {
		k := clockGuard{last: clock.ReadingOf(began+ms, began+ms, began+401*ms)}
		k.fresh.Add(clock.ReadingOf(began, began, began), 0, wait)
		k.fresh.Add(k.last, 0, wait)
		if k.first = 7; given {
			k.given, k.givenMemory = began, "m"
		}
		k.trust(clockStatements{covered: true, first: 7, gain: 200 * ms, watched: true}, "m", false, false, true, now, own, drift, wait)
		if k.inStep != given || k.fresh.Begun || k.first != 0 {
			t.Errorf("given its locks: %v: got in step %v, a watch that goes on %v, from beat %d; want in step %v, none", given, k.inStep, k.fresh.Begun, k.first, given)
		}
	}
	// What a standstill of ours has left is no gain to others. A gain of the clock is, which leaves nothing to go on with.
	for _, tt := range []struct {
		what string
		said clockStatements
		want bool
	}{
		{"of a clock that gained much", clockStatements{covered: true, first: 7, gain: drift.StepMax - clock.Noise, watched: true}, true},
		{"of a clock that gained too much", clockStatements{covered: true, first: 7, gain: drift.StepMax - clock.Noise + 1, watched: true}, false},
		{"of an earlier beat", clockStatements{covered: true, first: 6, gain: 200 * ms, watched: true}, false},
		{"of none", clockStatements{first: 7, gain: 200 * ms, watched: true}, false},
	} {
		k := clockGuard{last: clock.ReadingOf(began+ms, began+ms, began+401*ms)}
		k.fresh.Add(clock.ReadingOf(began, began, began), 0, wait)
		k.fresh.Add(k.last, 0, wait)
		k.first = 7
		if again := k.trust(tt.said, "m", false, false, true, now, own, drift, wait); again != tt.want || k.fresh.Begun == tt.want || (k.first == 0) != tt.want || k.inStep {
			t.Errorf("a statement %s: got a watch that begins anew %v, want %v: %+v", tt.what, again, tt.want, k)
		}
	}
}

// A first reading begins the watch, and the beat that was counted behind it is the one that others are asked about.
func TestWatchBegins(t *testing.T) {
	_, _, drift := guardStage()
	front := clock.ReadingOf(time.Second, time.Second, time.Hour)
	for _, tt := range []struct {
		what   string
		change func(k *clockGuard)
		begun  bool
		first  int64
	}{
		{"nothing was read", func(k *clockGuard) {}, true, 9},
		{"nothing was read since a gain", func(k *clockGuard) { k.first = 7 }, true, 9},
		{"it was read, and no beat counted", func(k *clockGuard) { k.fresh.Add(front, 0, time.Minute) }, true, 9},
		{"it was read", func(k *clockGuard) { k.fresh.Add(front, 0, time.Minute); k.first = 7 }, true, 7},
		{"it is in step", func(k *clockGuard) { k.inStep = true }, false, 0},
		{"it is our own", func(k *clockGuard) { k.same = true }, false, 0},
	} {
		var k clockGuard
		tt.change(&k)
		if k.begin(front, 9, drift, time.Minute); k.fresh.Begun != tt.begun || k.first != tt.first {
			t.Errorf("%s: got a watch %v, from beat %d; want %v, %d", tt.what, k.fresh.Begun, k.first, tt.begun, tt.first)
		}
	}
}

// What a heartbeat states of the clock, and what it requests.
func TestWhatAHeartbeatStates(t *testing.T) {
	l := standing(t, newMemMaster(t)).lane
	k, pad := &l.guard.clock, paddingOf(l.fleet.drift)
	for _, tt := range []struct {
		what                 string
		leaving, inStep      bool
		stated               int64
		gain                 time.Duration
		first                int64
		wantStated, wantGain int64
		wantFirst            int64
	}{
		{what: "in step", inStep: true, stated: 9, gain: 1500 * time.Nanosecond, first: 7, wantStated: 9, wantGain: 2},
		{what: "in step, and has not gained", inStep: true, stated: 9, wantStated: 9},
		{what: "not in step", gain: 3 * time.Microsecond, first: 7, wantGain: 3, wantFirst: 7},
		{what: "not watched", wantFirst: -1},
		{what: "leaving", leaving: true, inStep: true, stated: 9, first: 7, wantStated: -1},
	} {
		k.inStep, k.stated, k.statedGain, k.first = tt.inStep, tt.stated, tt.gain, tt.first
		args, first := l.watchArgs(tt.leaving)
		if want := []any{l.fleet.id, tt.wantStated, tt.wantGain, tt.wantFirst, pad, time.Minute.Milliseconds()}; !reflect.DeepEqual(args, want) || first != tt.wantFirst {
			t.Errorf("%s: got %v, %d, want %v", tt.what, args, first, want)
		}
	}
	l.fleet.opts.Heartbeat = time.Hour
	if args, _ := l.watchArgs(false); args[5] != (2 * time.Hour).Milliseconds() {
		t.Errorf("a heartbeat of an hour: a statement is deleted after %v ms, want two hours", args[5])
	}
}

// What another client states is heard for two heartbeats behind its last change, and for as long as the answers take. Since when the clock was read is
// known of a watch only.
func TestStatementGoesStale(t *testing.T) {
	l := standing(t, newMemMaster(t)).lane
	k, f := &l.guard.clock, l.fleet
	f.opts.Heartbeat = time.Hour
	for _, tt := range []struct {
		what          string
		before, now   string
		age           time.Duration
		inStep, begun bool
		unknown       bool // whether somebody watches, because the memory is full
		watched       bool
	}{
		{what: "new", now: "1", age: 9 * time.Hour, inStep: true, begun: true, watched: true},
		{what: "another one", before: "1", now: "2", age: 9 * time.Hour, begun: true, watched: true},
		{what: "of a moment ago", before: "1", now: "1", age: 4*time.Hour - time.Minute, watched: true},
		{what: "stale", before: "1", now: "1", age: 4*time.Hour + time.Minute},
		{what: "stale, and the memory is full", before: "1", now: "1", age: 5 * time.Hour, unknown: true, watched: true},
		{what: "none any more", before: "1", age: time.Minute},
	} {
		at := f.own.At(time.Now())
		k.good, k.inStep, k.activity, k.activeAt = false, tt.inStep, tt.before, at-tt.age
		k.last.Sent, k.last.Received = at-time.Hour, at
		k.ring, k.fresh = clock.Ring{Begun: true, Began: 7}, clock.Ring{Begun: tt.begun, Began: 8}
		l.trustClock(clockStatements{activity: tt.now, watched: tt.unknown}, 7)
		if k.watched != tt.watched || k.activity != tt.now || (k.activeAt >= at) != (tt.before != tt.now) {
			t.Errorf("%s: got that somebody watches %v, want %v; %q of %v ago", tt.what, k.watched, tt.watched, k.activity, at-k.activeAt)
		}
		if known := map[bool]time.Duration{true: 7, false: 8}[tt.inStep]; tt.inStep || tt.begun {
			if k.began != known {
				t.Errorf("%s: got that it was read since %v, want %v", tt.what, k.began, known)
			}
		} else if k.began < at {
			t.Errorf("%s: got that it was read for %v, and there is no watch", tt.what, at-k.began)
		}
	}
}

// A client that leaves has each lane say so once, and waits for those whose master takes work.
func TestLeavingIsSaidOnce(t *testing.T) {
	l := standing(t, newMemMaster(t)).lane
	for _, tt := range []struct {
		what          string
		state         laneState
		leaving, left bool
		due, done     bool
	}{
		{what: "it takes work", state: laneIdle, due: true},
		{what: "it was told", state: laneIdle, leaving: true},
		{what: "it has said so", state: laneIdle, leaving: true, left: true, done: true},
		{what: "its master is down", state: laneConnecting, done: true},
	} {
		l.state, l.leaving, l.left, l.heartbeatDue = tt.state, tt.leaving, tt.left, false
		if done := l.leave(); done != tt.done || l.heartbeatDue != tt.due || l.leaving != (tt.leaving || tt.due) {
			t.Errorf("%s: got done %v, a heartbeat due %v, leaving %v; want %v, %v", tt.what, done, l.heartbeatDue, l.leaving, tt.done, tt.due)
		}
	}
}

func TestClockGuardTrusts(t *testing.T) {
	own, now, drift := guardStage()
	const wait, began = 10 * time.Second, 5 * time.Second
	told, speaks := clockStatements{covered: true, first: 7, gain: 200 * ms, watched: true}, clockStatements{watched: true}
	for _, tt := range []struct {
		name                  string
		watched               time.Duration
		gained, unread        bool
		said                  clockStatements
		given                 time.Duration
		of                    string
		nobody, agrees, alone bool
		few                   bool
		want                  bool
		reason                string // of its doubt
	}{
		{name: "watched", watched: wait, gained: true, said: speaks, want: true},
		{name: "watched for less", watched: wait - 1, gained: true, nobody: true, agrees: true, reason: "before"},
		{name: "told", said: told, want: true},
		{name: "told of a gain that leaves too little", said: clockStatements{covered: true, first: 7, gain: 501 * ms, watched: true}, reason: "another redlockd watches its clock"},
		{name: "told of what it asked before the ring began anew", said: clockStatements{covered: true, first: 6, watched: true}, reason: "another redlockd watches its clock"},
		{name: "told behind a gain", gained: true, said: told, want: true},
		{name: "told by one who pads otherwise", watched: wait, said: clockStatements{watched: true, padding: "clock_step_max=10ms,drift_factor=0.01"}, nobody: true, agrees: true,
			reason: "another redlockd has clock_step_max=10ms,drift_factor=0.01, and this one clock_step_max=500ms,drift_factor=0.01"},
		{name: "told of what was not read", said: told, unread: true, reason: "before"},
		{name: "given", given: began, of: "m", gained: true, want: true},
		{name: "given before it was read", given: began - 1, of: "m", gained: true, reason: "before"},
		{name: "another memory was given", given: began, of: "another", gained: true, reason: "before"},
		{name: "nobody can know", nobody: true, agrees: true, want: true},
		{name: "somebody can know", agrees: true, reason: "another redlockd watches other masters' clocks"},
		{name: "somebody knows", nobody: true, agrees: true, said: speaks, reason: "another redlockd watches its clock"},
		{name: "nobody can know, and it gained", nobody: true, agrees: true, gained: true, reason: "before"},
		{name: "too few to compare", nobody: true, few: true, reason: reasonUnwatched},
		{name: "we are alone", nobody: true, alone: true, reason: "agrees with too few masters"},
		{name: "it differs", nobody: true, reason: "its clock differs by 2s from"},
	} {
		k := clockGuard{reason: "before", logged: true}
		if k.skew = time.Minute; !tt.gained {
			k.gained = time.Minute // when the one before was there
		}
		k.agrees, k.given, k.givenMemory = tt.agrees, tt.given, tt.of
		k.last = clock.ReadingOf(began+tt.watched, began+tt.watched, own.Wall(now)+2*time.Second)
		k.last.Offset = clock.Interval{Low: own.Wall(now) + 2*time.Second, High: own.Wall(now) + 2*time.Second}
		if first := clock.ReadingOf(began, began, own.Wall(now)+2*time.Second+began); !tt.unread {
			k.fresh.Add(first, 0, wait)
		}
		if tt.gained {
			k.ring.Add(clock.ReadingOf(0, 0, 0), 0, wait)
			k.gained = time.Hour
		}
		k.first = 7
		again := k.trust(tt.said, "m", tt.nobody, tt.alone, !tt.few, now, own, drift, wait)
		if k.good || k.inStep != tt.want {
			t.Errorf("%s: got good %v before others were told, in step %v, want %v", tt.name, k.good, k.inStep, tt.want)
		}
		if tt.want { // its votes count when the master was told
			if k.trust(clockStatements{stored: true}, "m", false, false, true, now, own, drift, wait); k.good {
				t.Errorf("%s: good before there was anything to tell", tt.name)
			}
			k.stated = 7
			if k.trust(clockStatements{}, "m", false, false, true, now, own, drift, wait); k.good {
				t.Errorf("%s: good before the master was told", tt.name)
			}
			again = again && k.trust(clockStatements{stored: true}, "m", false, false, true, now, own, drift, wait)
		}
		switch {
		case k.good != tt.want || again != tt.want:
			t.Errorf("%s: got good %v, again %v, want %v", tt.name, k.good, again, tt.want)
		case again && (k.gained != 0 || k.reason != "" || k.logged || k.skew != 0 || k.fresh.Begun || k.first != 0 || !k.ring.Watched(began, wait) && tt.watched == 0):
			t.Errorf("%s: what was doubted stays: %+v", tt.name, k)
		case again && k.ring.Gain(clock.ReadingOf(began, began, own.Wall(now)+2*time.Second+began+300*ms), 0) > 300*ms != tt.said.covered:
			t.Errorf("%s: what others have seen it gain is not added", tt.name)
		case !tt.want && !strings.Contains(k.reason, tt.reason):
			t.Errorf("%s: got the reason %q, want %q", tt.name, k.reason, tt.reason)
		case !tt.want && (k.skew == 2*time.Second) != (tt.alone || tt.reason == "its clock differs by 2s from") || k.skew != 0 && k.skew != 2*time.Second:
			t.Errorf("%s: got that it is ahead by %v", tt.name, k.skew)
		case !tt.want && tt.reason != "before" && tt.said.padding == "" && (k.gained != 0 || k.until != now.Add(wait-tt.watched)):
			t.Errorf("%s: got a gain of %v, a doubt for %v, want %v", tt.name, k.gained, k.until.Sub(now), wait-tt.watched)
		case tt.said.padding != "" && k.until != now.Add(wait):
			t.Errorf("%s: got a doubt for %v, want a wait", tt.name, k.until.Sub(now))
		case tt.want && k.trust(clockStatements{}, "m", false, false, true, now, own, drift, wait):
			t.Errorf("%s: it votes again twice", tt.name)
		}
	}
}

// What a lane does when a clock is doubted: a gain has the leases looked at, and all masters asked.
func TestLaneDoubtsAClock(t *testing.T) {
	l := standing(t, newMemMaster(t)).lane
	k, c := &l.guard.clock, l.client
	c.leases.all = make([]*lease, 1)
	for _, tt := range []struct {
		what   string
		found  clockResult
		gained bool
		reason string
	}{
		{"nobody watched", clockResult{unwatched: true}, false, reasonUnwatched},
		{"a gain", clockResult{gain: time.Second, before: time.Minute}, true, "its clock gained 1s"},
		{"a gain, and nobody watched", clockResult{gain: time.Second, unwatched: true}, true, "its clock gained 1s"},
	} {
		long := time.Now().Add(-time.Hour)
		l.state, l.since, l.heartbeatDue, c.audits.doubts = laneIdle, long, false, 0
		k.good, k.gained, k.logged = true, time.Hour, true
		l.toResolve = guardResult{clock: tt.found}
		if err := l.resolve(t.Context(), nil); err != nil || k.good || k.logged || l.toResolve.unresolved() || !strings.HasPrefix(k.reason, tt.reason) || k.before != tt.found.before && !tt.found.unwatched {
			t.Errorf("%s: got %v, good %v, to resolve %+v, %s", tt.what, err, k.good, l.toResolve, k.reason)
		}
		if l.since.Equal(long) || !l.heartbeatDue || (c.audits.doubts > 0) != tt.gained || (k.gained > 0) != tt.gained {
			t.Errorf("%s: got since %v, a heartbeat due %v, %d leases to look at, a gain of %v", tt.what, l.since, l.heartbeatDue, c.audits.doubts, k.gained)
		}
	}
	for _, runID := range []string{"another", l.identity.RunID} {
		same := runID == l.identity.RunID
		l.heartbeatDue, k.reported = false, nil
		if l.saw(runID, clock.Reading{Sent: 7}); l.heartbeatDue != same || (len(k.reported) == 1) != same {
			t.Errorf("a gain that a copy has seen of %q: got %+v, a heartbeat due %v", runID, k.reported, l.heartbeatDue)
		}
	}
}

// A heartbeat judges what a copy has read, once, and shortens the keys of a clock that went back.
func TestHeartbeatTakesTheGainOfACopy(t *testing.T) {
	m := newMemMaster(t)
	b := standing(t, m)
	l, k := b.lane, &b.lane.guard.clock
	if err := l.heartbeat(t.Context(), b.conn); err != nil || !k.good {
		t.Fatalf("before: got %v, %+v", err, k)
	}
	seen := k.last
	seen.Offset.Low, seen.Offset.High = seen.Offset.Low+time.Minute, seen.Offset.High+time.Minute
	l.state = laneIdle
	l.saw(l.identity.RunID, seen)
	if err := l.heartbeat(t.Context(), b.conn); err != nil || k.good || (k.gained-time.Minute).Abs() > time.Second || k.reported != nil || l.toResolve.unresolved() {
		t.Fatalf("got %v, %+v", err, k)
	}
	for k.ring = (clock.Ring{}); !k.good; { // as a client that starts
		if err := l.heartbeat(t.Context(), b.conn); err != nil {
			t.Fatal(err)
		}
	}
	m.StepClock(time.Minute)
	if err := l.heartbeat(t.Context(), b.conn); err != nil || k.good || k.before >= k.last.Sent {
		t.Errorf("the clock stepped: got %v, %+v, want that it was last read before this heartbeat", err, k.clockView)
	}
	k.clamp = clamp{due: true, back: -time.Hour}
	if err := l.heartbeat(t.Context(), b.conn); err != nil || k.clamp.due {
		t.Errorf("a heartbeat later: got %v, %+v", err, k)
	}
}

// Keys are shortened within the budget, one wait after the clock went back, and what fails is told and tried again.
func TestClampRuns(t *testing.T) {
	const wait = time.Minute
	for _, tt := range []struct {
		what   string
		hook   redis.Hook
		now    time.Duration
		budget time.Duration
		due    bool
		err    string
	}{
		{what: "a wait later", now: wait, budget: time.Second},
		{what: "earlier", now: wait - 1, budget: time.Second, due: true},
		{what: "without time", now: wait, due: true},
		{what: "SCAN fails", hook: fails("scan", errors.New("ERR no")), now: wait, budget: time.Second, due: true, err: "SCAN after a clock that went back: ERR no"},
		{what: "the script fails", hook: fails("evalsha", errors.New("ERR no")), now: wait, budget: time.Second, due: true, err: "shorten keys after a clock that went back: ERR no"},
	} {
		b := standing(t, newMemMaster(t))
		do := b.conn.Redis.Do
		if err := do(t.Context(), "SET", "r", "x", "PX", time.Hour.Milliseconds()).Err(); err != nil {
			t.Fatal(err)
		}
		if tt.hook != nil {
			b.conn.Redis.AddHook(tt.hook)
		}
		k := clamp{due: true}
		changed, err := k.run(t.Context(), b.conn, b.lane.guard.shown, tt.now, wait, tt.budget)
		if k.due != tt.due || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%s: got due %v, %v, want %v, %q", tt.what, k.due, err, tt.due, tt.err)
		}
		left, _ := do(t.Context(), "PTTL", "r").Int64()
		if shortened := left <= wait.Milliseconds(); shortened == tt.due {
			t.Errorf("%s: the key lives for %d ms", tt.what, left)
		} else if shortened && !changed {
			t.Errorf("%s: it is not told that keys were changed", tt.what)
		}
	}
}

// SCAN names many keys in parts, the last of which may have one alone: all are shortened.
func TestClampShortensAllKeys(t *testing.T) {
	const wait = time.Minute
	b := standing(t, newMemMaster(t))
	do := b.conn.Redis.Do
	names := make([]string, foldMax) // and the membership
	for i := range names {
		names[i] = fmt.Sprintf("z%04d", i)
		if err := do(t.Context(), "SET", names[i], "x", "PX", time.Hour.Milliseconds()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	k := clamp{due: true}
	for range 10 {
		if _, err := k.run(t.Context(), b.conn, b.lane.guard.shown, wait, wait, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		if left, _ := do(t.Context(), "PTTL", name).Int64(); k.due || left > wait.Milliseconds() {
			t.Fatalf("%s lives for %d ms, want %v; it goes on: %v", name, left, wait, k.due)
		}
	}
}

// A heartbeat that finds a clock in step has those look again whose clocks it vouches for, if that can end their doubt.
func TestHeartbeatVouchesForOthers(t *testing.T) {
	b := standing(t, newMemMaster(t))
	l, f := b.lane, b.lane.fleet
	second, third := newLane(f, 1, l.master), newLane(f, 2, l.master)
	f.set(newView([]*lane{l, second, third}, l.guard.record, f))
	wall := l.guard.clock.last.Offset
	hour := clock.Interval{Low: wall.Low + time.Hour, High: wall.High + time.Hour}
	for _, tt := range []struct {
		what   string
		change func(k *clockGuard) // of the second
		own    clock.Interval      // the first's
		due    bool
		reason string // of the first's doubt
	}{
		{"it is not watched", func(k *clockGuard) {}, wall, true, ""},
		{"it is good", func(k *clockGuard) { k.good = true }, wall, false, ""},
		{"it has gained", func(k *clockGuard) { k.gained = time.Second }, wall, false, ""},
		{"somebody speaks for it", func(k *clockGuard) { k.watched = true }, wall, false, ""},
		{"it is an hour ahead", func(k *clockGuard) { k.wall = hour }, wall, false, ""},
		{"the first is an hour ahead", func(k *clockGuard) {}, hour, true, "its clock differs by"},
		{"both are", func(k *clockGuard) { k.wall = hour }, hour, false, "this machine's clock agrees with too few masters"},
	} {
		for _, other := range []*lane{second, third} {
			other.state, other.heartbeatDue = laneIdle, false
			other.guard.clock = clockGuard{clockView: clockView{wall: wall, known: true, asked: time.Hour}}
		}
		tt.change(&second.guard.clock)
		k := &l.guard.clock
		k.good, k.gained, k.last.Offset, k.inStep = false, 0, tt.own, false
		k.ring, k.fresh = clock.Ring{}, clock.Ring{}
		k.fresh.Add(k.last, 0, time.Hour)
		k.stated = 7
		l.trustClock(clockStatements{}, 7)
		k.good = k.inStep
		if second.heartbeatDue != tt.due || k.good != (tt.reason == "") || !strings.HasPrefix(k.reason, tt.reason) || k.agrees != k.good {
			t.Errorf("%s: a heartbeat is due %v, want %v; the first is good %v, agrees %v: %s", tt.what, second.heartbeatDue, tt.due, k.good, k.agrees, k.reason)
		}
	}
	l.guard.clock.same, l.guard.clock.known = true, false
	if l.trustClock(clockStatements{}, 7); l.guard.clock.known {
		t.Error("a clock of our own is compared")
	}
}

// A gain costs votes in proportion to what it is above the tolerance: what it has ended early is over the sooner the smaller it was. It never costs
// more than a wait, from when it was found.
func TestDoubtLastsInProportion(t *testing.T) {
	const wait = time.Minute
	drift := clock.Drift{Factor: 0.01, StepMax: 100 * ms}
	for _, tt := range []struct{ gain, since, want time.Duration }{
		{100*ms + 75*ms, 0, 10 * time.Second},
		{100*ms + 75*ms, 55 * time.Second, 5 * time.Second},
		{100 * ms, 0, 0},
		{50 * ms, 0, 0},
		{time.Hour, 0, wait},
		{time.Hour, 10 * time.Second, wait - 10*time.Second},
		{time.Hour, 2 * wait, 0},
	} {
		k := clockGuard{gain: tt.gain}
		k.ring.Add(clock.ReadingOf(time.Hour, time.Hour, time.Hour), drift.Rate(), wait)
		k.found, k.last.Received = time.Hour, time.Hour+tt.since
		if got := k.left(drift, wait); (got - tt.want).Abs() > ms {
			t.Errorf("a gain of %v, found %v ago: got %v, want %v", tt.gain, tt.since, got, tt.want)
		}
	}
	own, now, _ := guardStage()
	for _, since := range []time.Duration{0, 10 * time.Second} { // nobody vouches for what was before
		k := clockGuard{last: clock.ReadingOf(time.Hour+since, time.Hour+since, time.Hour)}
		if got := k.left(drift, wait); got != wait {
			t.Errorf("a clock that nobody has read: got %v, want %v", got, wait)
		}
		k.fresh.Add(clock.ReadingOf(time.Hour, time.Hour, time.Hour), drift.Rate(), wait)
		if got, want := k.left(drift, wait), wait-since; got != want {
			t.Errorf("a clock that has been read for %v: got %v, want %v", since, got, want)
		}
		for _, gain := range []time.Duration{0, time.Second} {
			k.good, k.logged, k.gained = true, true, time.Hour
			gained := k.doubt(clockResult{gain: gain, before: 7}, now, own, drift, wait)
			if gained != (gain > 0) || k.good || k.logged || k.gained != gain || k.until != now.Add(wait-since) || (k.before == 7) != gained || (k.reason == reasonUnwatched) == gained {
				t.Errorf("in doubt for a gain of %v: got %v, %+v", gain, gained, k)
			}
			k.before = 0
		}
	}
}
