package redlock

// Attacks on the ceiling of TTLs, in virtual time: it rises for who asks for longer locks, and falls; masters forget right after it has risen, and
// proxies found that were cut off. member/ceiling.go has the rules.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/coordinator"
	"redlockd/redlock/quorum"
	"redlockd/redlock/redisproc"
)

// low is a ceiling of two seconds that may rise to half a minute.
func low(o *Options) { o.firstCeiling, o.MaxTTL = 2*time.Second, 30*time.Second }

const long = 20 * time.Second

// wantCeiling is for the ceiling and the wait that a client knows of.
func (p *proxy) wantCeiling(what string, ceiling, least, most time.Duration) {
	p.s.Helper()
	if got := p.Membership(); got.Ceiling != ceiling || got.Wait < least || got.Wait > most {
		p.s.Errorf("%s: the ceiling is %v with a wait of %v, want %v and %v to %v", what, got.Ceiling, got.Wait, ceiling, least, most)
	}
}

func wantHeld(s *stage, what string, c *call) {
	s.Helper()
	if !c.Held {
		s.Errorf("%s: got %+v, want held", what, c.Result)
	}
}

// forgetAll has all masters forget at once.
func (s *stage) forgetAll() {
	for i := range s.masters {
		s.do(i, "FLUSHALL")
	}
}

// grantedBefore asks for the resource until the lease is over, and fails if that is granted before.
func (p *proxy) grantedBefore(held *call, resource string) {
	p.s.Helper()
	for time.Now().Before(held.Until) {
		if c := p.lock(one(resource, time.Second)); c.Held && time.Now().Before(held.Until) {
			p.s.Fatalf("another got %s %v before the end of the first lease", resource, time.Until(held.Until))
		}
		time.Sleep(200 * ms)
	}
}

func TestCeilingRisesForALongerLock(t *testing.T) {
	for name, ask := range map[string]func(p *proxy) *call{
		"LOCK":            func(p *proxy) *call { return p.lock(one("r", long)) },
		"LOCK that waits": func(p *proxy) *call { return p.lock(one("r", long).waits(time.Minute)) },
		"EXTEND":          func(p *proxy) *call { return p.extend(p.lock(one("r", time.Second)).Token, long, "r") },
		"a commit": func(p *proxy) *call {
			return p.commit(Change{Resource: "r", Was: WasAbsent, Do: Set, NewValue: "v", TTL: long})
		},
		"a lock with a delay": func(p *proxy) *call {
			c := &call{Op: Op{Terms: &Terms{Delay: 3 * time.Second}}, began: time.Now()}
			p.StartLock(&c.Op, one("r", time.Second), c)
			p.finish(c)
			return c
		},
		"an EXTEND with a delay, whose caller goes on to use the slice": func(p *proxy) *call {
			token := p.lock(one("r", time.Second)).Token
			c := &call{Op: Op{Terms: &Terms{Delay: 3 * time.Second}}, began: time.Now()}
			resources := []string{"r"}
			p.StartExtend(&c.Op, resources, token, time.Second, c)
			resources[0] = "another"
			p.finish(c)
			return c
		},
	} {
		for _, proxies := range []int{1, 3} {
			t.Run(fmt.Sprint(name, ", of ", proxies, " proxies"), func(t *testing.T) {
				inVirtualTime(t, 5, func(s *stage) {
					p := s.open(low)
					for range proxies - 1 {
						s.open(low)
					}
					p.wantCeiling("at first", 2*time.Second, 2*time.Second, 4*time.Second)
					began := time.Now()
					c := ask(p)
					wantHeld(s, name, c)
					took := time.Since(began)
					p.wantCeiling("then", 30*time.Second, 30*time.Second, 40*time.Second)
					if most := p.opts.Heartbeat; took > most {
						s.Errorf("it took %v, want less than a heartbeat, %v", took, most)
					}
					before := p.Membership().Version
					wantHeld(s, "the next", p.lock(one("other", long)))
					if after := p.Membership().Version; after != before {
						s.Errorf("a lock below the ceiling has made version %d of %d", after, before)
					}
				})
			})
		}
	}
}

// It falls when nothing long was asked for during one wait, and the wait follows when another one has passed.
func TestCeilingFallsAgain(t *testing.T) {
	redisproc.NotRaced(t)
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(low), s.open(low)
		wantHeld(s, "LOCK", p.lock(one("r", long)))
		for i := range 10 { // one proxy asks again and again, and the other hears of that
			time.Sleep(long)
			p.wantCeiling("while it is used", 30*time.Second, 30*time.Second, 40*time.Second)
			wantHeld(s, "LOCK", p.lock(one(fmt.Sprint("r", i), long)))
		}
		wait := other.Membership().Wait
		held := p.lock(one("last", 29*time.Second))
		time.Sleep(wait + 3*time.Second)
		p.wantCeiling("a wait later", 2*time.Second, 30*time.Second, 40*time.Second)
		time.Sleep(wait + 3*time.Second)
		p.wantCeiling("two waits later", 2*time.Second, 2*time.Second, 4*time.Second)
		wantHeld(s, "the last", held)
		// And again.
		wantHeld(s, "LOCK", other.lock(one("r", long)))
	})
}

// An idle fleet of long locks waits as shortly as one of short ones when its masters have all restarted empty.
func TestIdleFleetWaitsForItsCeiling(t *testing.T) {
	redisproc.NotRaced(t)
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(low, func(o *Options) { o.MaxTTL = 24 * time.Hour })
		s.open(low, func(o *Options) { o.MaxTTL = 24 * time.Hour })
		time.Sleep(time.Minute)
		s.forgetAll()
		began := time.Now()
		s.until("a lock is granted", func() bool { return p.lock(one("r", time.Second)).Held })
		if took := time.Since(began); took > 8*time.Second {
			s.Errorf("granted after %v, want the wait of 2s", took)
		}
	})
}

// All masters forget at once, just behind a long lock, and who has raised the ceiling for it dies. Whoever founds waits for that lock.
func TestMastersForgetRightAfterTheCeilingRose(t *testing.T) {
	for _, later := range redisproc.Some(1, []time.Duration{5 * ms, 0, ms, 20 * ms, 100 * ms, time.Second}) {
		t.Run(later.String(), func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p, other := s.open(low), s.open(low)
				held := p.lock(one("r", long))
				wantHeld(s, "LOCK", held)
				time.Sleep(later)
				s.forgetAll()
				p.kill()
				other.grantedBefore(held, "r")
				other.lockable("r")
			})
		})
	}
}

// A proxy is cut off from all masters, or stands still, and its ceiling is old when all have forgotten. While it may still count as a follower, the
// ceiling does not rise; after that, it waits for max_ttl.
func TestFoundingWithAnOldCeiling(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(low), s.open(low)
		other.cut(0, 1, 2, 3, 4)
		c := p.lock(one("r", long))
		var refused *CeilingError
		if c.Held || !errors.As(c.Err, &refused) || !errors.Is(c.Err, ErrNoQuorum) {
			s.Fatalf("while another proxy may follow the membership of before: got %+v", c.Result)
		}
		for _, want := range []string{"ttl of 20000 ms is above what may run at present, 2000 ms", "1 other redlockd may go by the membership of before"} {
			if !strings.Contains(c.Err.Error(), want) {
				s.Errorf("got %q, want it to say %q", c.Err, want)
			}
		}
		wantHeld(s, "a shorter lock", p.lock(one("short", time.Second)))
		held := p.lock(one("r", long).waits(time.Minute))
		wantHeld(s, "LOCK that waits", held)
		s.forgetAll()
		p.kill()
		other.heal(0, 1, 2, 3, 4)
		other.grantedBefore(held, "r")
		other.lockable("r")
	})
}

// Masters forget one after the other, and are given what the others know: also who follows the membership of before.
func TestFollowersAreHandedOver(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, other := s.open(low), s.open(low)
		other.cut(0, 1, 2)
		for i := range 3 {
			before := p.Membership().Seats[i].Memory
			s.do(i, "FLUSHALL")
			s.until("it has forgotten", func() bool { return p.Membership().Seats[i].Memory != before })
			p.allUp()
		}
		for i := range 3 {
			fields := s.do(i, "HKEYS", lua.MembersKey).([]any)
			if !slices.ContainsFunc(fields, func(f any) bool { return f == "f:"+other.fleet.follower() }) {
				s.Errorf("master %d was not told who follows the membership: it has %v", i+1, fields)
			}
		}
	})
}

// What a caller sends behind a lock that waits for the ceiling is executed behind it.
func TestOrderOfAFlowAtTheCeiling(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(low)
		s.open(low)
		flow := &Flow{}
		lock := &call{Op: Op{Flow: flow}, began: time.Now()}
		p.StartLock(&lock.Op, one("r", long).as("chosen by its caller"), lock)
		unlock := &call{Op: Op{Flow: flow}, began: time.Now()}
		p.StartUnlock(&unlock.Op, []string{"r"}, "chosen by its caller", unlock)
		other := &call{Op: Op{Flow: &Flow{}}, began: time.Now()}
		p.StartLock(&other.Op, one("other", time.Second), other)
		p.finish(other)
		wantHeld(s, "LOCK of another", other)
		p.finish(lock)
		p.finish(unlock)
		wantHeld(s, "LOCK", lock)
		wantHeld(s, "UNLOCK behind it", unlock)
		p.unlock(other.Token, "other")
		s.wantNoLocks()
	})
}

// A LOCK that was given up raises no ceiling, and what is behind one that cannot be granted goes on.
func TestCeilingThatCannotRise(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(low)
		s.promiseAll()
		flow := &Flow{}
		lock := &call{Op: Op{Flow: flow}, began: time.Now()}
		p.StartLock(&lock.Op, one("r", long), lock)
		behind := &call{Op: Op{Flow: flow}, began: time.Now()}
		p.StartLock(&behind.Op, one("other", time.Second), behind)
		waits := p.begin(one("third", long).waits(time.Minute))
		p.finish(lock)
		if lock.Held || !errors.Is(lock.Err, ErrNoQuorum) {
			s.Errorf("got %+v, want that the ceiling cannot rise", lock.Result)
		}
		p.finish(behind)
		wantHeld(s, "LOCK behind it", behind)
		p.Unblock(&waits.Op, nil)
		p.finish(waits)
		s.forgetPromises()
		time.Sleep(10 * time.Second)
		p.wantCeiling("nobody waits for more", 2*time.Second, 2*time.Second, 4*time.Second)
	})
}

// max_ttl says what may be asked for, whatever the ceiling is.
func TestMaxTTLBoundsTheCeiling(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(low)
		if c := p.lock(one("r", 31*time.Second)); !errors.Is(c.Err, ErrBadRequest) || !strings.Contains(c.Err.Error(), "above the most, 30000 ms (max_ttl)") {
			s.Errorf("above max_ttl: got %+v", c.Result)
		}
		wantHeld(s, "LOCK", p.lock(one("r", long)))
		p.change(coordinator.Change{SetMaxTTL: 5 * time.Second})
		p.wantCeiling("max_ttl below the ceiling", 5*time.Second, 30*time.Second, 40*time.Second)
		p.change(coordinator.Change{SetMaxTTL: time.Hour})
		p.wantCeiling("max_ttl above it", 5*time.Second, 30*time.Second, 40*time.Second)
		p.change(coordinator.Change{SetMaxTTL: time.Second})
		p.change(coordinator.Change{SetMaxTTL: time.Hour})
		s.until("the ceiling is the lowest again", func() bool { return p.Membership().Ceiling == 2*time.Second })
	})
}

// A note counts that a quorum of the voters has.
func TestFollowedByAQuorum(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(low)
		time.Sleep(2 * p.opts.Heartbeat)
		if ago := time.Since(p.fleet.followedAt()); ago > 2*p.opts.Heartbeat {
			s.Errorf("followed %v ago, want lately", ago)
		}
		p.cut(0, 1, 2, 3)
		cut := time.Now()
		time.Sleep(5 * time.Second)
		if at := p.fleet.followedAt(); at.After(cut) {
			s.Errorf("followed %v behind the moment when four of five were cut off", at.Sub(cut))
		}
	})
}

// A founding may be chosen without its founder being told. What it has noted before stays as it was.
func TestFounderTakesAnotherName(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(low)
		time.Sleep(time.Second)
		s.until("what it goes by is noted", func() bool { return !p.fleet.followedAt().IsZero() }) // a heartbeat behind the last change
		before := p.fleet.follower()
		s.forgetAll()
		p.lockable("r")
		if after := p.fleet.follower(); after == before {
			s.Errorf("it notes under the name %s, as before", after)
		}
	})
}

// Ten users who ask for long locks at once, through two proxies, have the ceiling raised once.
func TestTenUsersRaiseTheCeiling(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		proxies := []*proxy{s.open(low), s.open(low)}
		before := proxies[0].Membership().Version
		var calls []*call
		for i := range 10 {
			c := &call{Op: Op{Share: &Share{}, Flow: &Flow{}}, began: time.Now()}
			proxies[i%2].StartLock(&c.Op, one(fmt.Sprint("r", i), time.Duration(3+i)*time.Second), c)
			calls = append(calls, c)
		}
		for i, c := range calls {
			proxies[i%2].finish(c)
			wantHeld(s, fmt.Sprint("user ", i), c)
		}
		if steps := proxies[0].Membership().Version - before; steps != 2 {
			s.Errorf("the membership made %d steps, want 2", steps)
		}
	})
}

// A wait ends when its time is over, also at the ceiling: its caller is told.
func TestWaitAtTheCeilingEnds(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(low), s.open(low)
		other.cut(0, 1, 2, 3, 4)
		c := p.lock(one("r", long).waits(3 * time.Second))
		if _, is := errors.AsType[*CeilingError](c.Err); !is || c.took < 3*time.Second || c.took > 4*time.Second {
			s.Errorf("got %+v after %v, want that the ceiling has not risen, after 3s", c.Result, c.took)
		}
		p.lockable("short")
	})
}

// The last attempt of a wait does not begin to wait for the ceiling.
func TestLastAttemptOfAWaitAtTheCeiling(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(low)
		held := p.lock(one("r", time.Second))
		c := p.begin(one("r", time.Second).waits(time.Minute))
		s.until("it waits", func() bool { return p.Stats().Waiters == 1 })
		d := p.enter()
		c.Op.waiter.last = true
		if p.ceiling.fits(&c.Op, long, d, nil) {
			s.Error("a lock above the ceiling fits")
		}
		p.leave(d)
		p.finish(c)
		if _, is := errors.AsType[*CeilingError](c.Err); !is {
			s.Errorf("got %+v, want that the ceiling has not risen", c.Result)
		}
		p.unlock(held.Token, "r")
	})
}

// When the ceiling has risen, only who still waits, is the head, and does not ask already goes on; and one that has reserved all that it wants asks for it.
func TestWhoGoesOnAboveTheCeiling(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		for _, resource := range []string{"a", "b", "c", "x"} {
			other.lock(one(resource, time.Minute))
		}
		raised := func(c *call) (asks uint64) {
			before := p.Stats().Attempts
			d := p.enter()
			p.waiting.raisedLocked(&c.Op, d)
			p.leave(d)
			return p.Stats().Attempts - before
		}
		left := p.begin(one("a", time.Minute).waits(time.Minute))
		head, behind := p.begin(one("b", time.Minute).waits(time.Minute)), p.begin(one("b", time.Minute).waits(time.Minute))
		reserved := p.begin(several(time.Minute, "x", "y").waits(time.Minute))
		time.Sleep(10 * ms)
		p.Unblock(&left.Op, nil)
		p.delay(5*ms, 5*ms, 0, 1, 2, 3, 4)
		asking := p.begin(one("c", time.Minute).waits(time.Minute))
		for what, tt := range map[string]struct {
			c    *call
			want uint64
		}{"one that has left": {left, 0}, "the head": {head, 1}, "one behind the head": {behind, 0}, "one that asks": {asking, 0}} {
			if got := raised(tt.c); got != tt.want {
				s.Errorf("%s: %d attempts, want %d", what, got, tt.want)
			}
		}
		p.mu.Lock()
		w := reserved.waiter
		w.reservation.token, w.reservation.held = "reserved", 2
		p.mu.Unlock()
		raised(reserved)
		p.mu.Lock()
		if w.attempt == nil || w.attempt.verb != verbAcquire {
			s.Errorf("all are reserved: got %+v, want an attempt for all", w.attempt)
		}
		p.mu.Unlock()
	})
}

// Who closes a client is not kept waiting, and what waited for the ceiling is answered.
func TestCloseWhileTheCeilingIsWaitedFor(t *testing.T) {
	for _, killed := range []bool{false, true} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(low), s.open(low)
			other.cut(0, 1, 2, 3, 4)
			c := p.begin(one("r", long))
			if killed {
				p.kill()
			} else if err := p.Close(s.Context()); err != nil {
				s.Error(err)
			}
			p.finish(c)
			if c.Held || c.took > 3*time.Second {
				s.Errorf("killed: %v: got %+v after %v", killed, c.Result, c.took)
			}
		})
	}
}

// Who leaves counts on its notes no more: nobody waits for it from then on.
func TestWhoLeavesFollowsNoMore(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(low)
		time.Sleep(2 * p.opts.Heartbeat)
		s.until("all masters are told", p.fleet.leave)
		if at := p.fleet.followedAt(); !at.IsZero() {
			s.Errorf("it counts on notes of %v ago", time.Since(at))
		}
		for i := range s.masters {
			if note := s.do(i, "HGET", lua.MembersKey, "f:"+p.fleet.follower()); note != nil {
				s.Errorf("master %d has the note %v", i+1, note)
			}
		}
	})
}

// What may run by now goes on, whenever masters get room: while admit looks for it, too.
func TestWhatMayRunIsNotForgotten(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(low)
		lanes := p.fleet.view.Load().masters
		var stop atomic.Bool
		var flips sync.WaitGroup
		flips.Go(func() { // two of three masters are in step, and are not, and are …
			for on := true; !stop.Load(); on = !on {
				for _, l := range lanes[1:] {
					l.mu.Lock()
					l.toResolve.recheck = on
					l.mu.Unlock()
				}
			}
		})
		for range 20_000 {
			p.mu.Lock()
			p.ceiling.waits = []aboveCeiling{{op: new(Op), ttl: time.Second, again: func(*deferred) {}}}
			p.admission.full.Store(true)
			p.mu.Unlock()
			p.admit()
			p.mu.Lock()
			forgotten := !p.admission.full.Load() && len(p.ceiling.waits) > 0
			p.ceiling.waits = nil
			p.mu.Unlock()
			if forgotten {
				s.Error("nobody will call admit, and an operation waits for it")
				break
			}
		}
		stop.Store(true)
		flips.Wait()
		p.fleet.recheck()
	})
}

// Whatever is asked for that may run under this ceiling alone, with its delay, is noted: the ceiling stays for it. What was launched under a higher
// ceiling than there is now is cut, or sent to nobody.
func TestWhatNeedsTheCeilingIsNoted(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(low)
		held := p.lock(one("r", long))
		needs := func(what string, c *call, want bool) {
			s.Helper()
			wantHeld(s, what, c)
			p.mu.Lock()
			defer p.mu.Unlock()
			if _, got := p.ceiling.used[30*time.Second]; got != want {
				s.Errorf("%s: it needs the ceiling: %v, want %v", what, got, want)
			}
			clear(p.ceiling.used)
		}
		needs("LOCK", held, true)
		needs("LOCK of as much as runs under the step below", p.lock(one("short", 2*time.Second)), false)
		delayed := &call{Op: Op{Terms: &Terms{Delay: time.Second}}, began: time.Now()}
		p.StartLock(&delayed.Op, one("delayed", 1500*ms), delayed)
		needs("LOCK with a delay", p.finish(delayed), true)
		s.do(0, "DEL", "r") // EXTEND gives it back there, in a round of its own that nobody waits for
		needs("EXTEND", p.extend(held.Token, long, "r"), true)
		s.wantOn("r", held.Token, "11111")
		needs("a commit of all that may run", p.commit(setNX("set", "v", 30*time.Second)), true)
		needs("a commit of as much as runs under the step below", p.commit(setNX("other", "v", 2*time.Second)), false)
		needs("a commit that deletes", p.commit(compareAndDelete("set", "v")), false)

		d := deferred{now: time.Now()}
		p.mu.Lock()
		p.rounds.launch(commitRound(verbCommitSet, []Change{setNX("late", "v", 31*time.Second)}, d.now, p.drift, 5), quorum.All, &d)
		p.mu.Unlock()
		if len(d.abstentions) != 1 || d.abstentions[0].masters != 1<<5-1 {
			s.Errorf("a commit above the ceiling: got %+v, want all masters to abstain", d.abstentions)
		}
		view := *p.fleet.view.Load()
		view.ceiling = 10 * time.Second
		for delay, want := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Second: 9 * time.Second} {
			r := &round{op: &Op{ttl: long, Terms: &Terms{Delay: delay}}, view: &view, start: d.now}
			if _, got := p.validityOf(r, &d); got != want {
				s.Errorf("a LOCK of %v that a ceiling of 10s has cut, with a delay of %v: valid for %v, want %v", long, delay, got, want)
			}
		}
	})
}

// A LOCK of a slot that is repeated does not wait behind those who wait for its slot, also where its TTL needs a higher ceiling.
func TestRepeatedLockOfASlotAtTheCeiling(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(low), s.open(low)
		mine := p.lock(one("jobs", 2*time.Second).of(1).as("mine"))
		waiter := other.begin(one("jobs", time.Second).of(1).waits(time.Minute))
		again := other.lock(one("jobs", long).of(1).as("mine").waits(time.Minute))
		if !again.Held || again.Slot != mine.Slot || again.took > time.Second || waiter.done.Load() {
			s.Errorf("LOCK again beside a waiter: got %+v after %v, and the waiter is done: %v; want %s at once", again.Result, again.took, waiter.done.Load(), mine.Slot)
		}
	})
}

// What is as long as the ceiling needs no higher one.
func TestTTLOfTheCeiling(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(low)
		before := p.Membership()
		held := p.lock(one("r", before.Ceiling))
		held.want(s, "LOCK", "held", 0)
		p.extend(held.Token, before.Ceiling, "r").want(s, "EXTEND", "held", 0)
		p.commit(setNX("other", longValue, before.Ceiling)).want(s, "SET NX", "held", 0)
		if after := p.Membership(); after.Version != before.Version {
			s.Errorf("the ceiling has risen from %v to %v", before.Ceiling, after.Ceiling)
		}
	})
}

// Who asks for more than may run waits, once; what no ceiling helps does not. A waiter keeps nothing of its flow waiting.
func TestWhoWaitsForTheCeiling(t *testing.T) {
	for name, tt := range map[string]struct {
		ttl        time.Duration
		op         Op
		noRecord   bool
		waits      bool
		holdsFlow  bool
		aboveAsked bool // it waits already
	}{
		"max_ttl":               {ttl: 30 * time.Second, waits: true},
		"above max_ttl":         {ttl: 30*time.Second + 1},
		"no record is known":    {ttl: long, noRecord: true},
		"an operation":          {ttl: long, op: Op{Flow: &Flow{}}, waits: true, holdsFlow: true},
		"a waiter":              {ttl: long, op: Op{Flow: &Flow{}, waiter: new(waiter)}, waits: true},
		"a waiter that is told": {ttl: long, op: Op{Flow: &Flow{}, waiter: &waiter{aboveCeiling: true}}, aboveAsked: true},
	} {
		inVirtualTime(t, 3, func(s *stage) {
			p := s.open(low)
			before := p.fleet.view.Load()
			v := *before
			if tt.noRecord {
				v.record = nil
			}
			d := p.enter()
			defer p.leave(d)
			p.fleet.set(&v)
			fits := p.ceiling.fits(&tt.op, tt.ttl, d, nil)
			p.fleet.set(before)
			if fits != (!tt.waits && !tt.aboveAsked) || len(p.ceiling.waits) != map[bool]int{true: 1}[tt.waits] {
				s.Errorf("%s: may be asked for %t, %d wait; want it to wait: %t", name, fits, len(p.ceiling.waits), tt.waits)
			}
			if f := tt.op.Flow; f != nil && f.held != tt.holdsFlow {
				s.Errorf("%s: its flow waits with it %t, want %t", name, f.held, tt.holdsFlow)
			}
			if w := tt.op.waiter; w != nil && !w.aboveCeiling {
				s.Errorf("%s: it is not known that it waits for the ceiling", name)
			}
			if tt.waits && p.ceiling.waits[0].until != d.now.Add(ceilingHold) {
				s.Errorf("%s: it waits until %v, want for %v", name, p.ceiling.waits[0].until, ceilingHold)
			}
			p.ceiling.waits = nil
		})
	}
}

// What may run by now goes on, and what no ceiling helps any more; the rest waits on.
func TestWhatGoesOnWhenTheCeilingIsLookedAt(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(low)
		var on []string
		d := p.enter()
		defer p.leave(d)
		flow, w := &Flow{held: true}, &waiter{aboveCeiling: true}
		behind := &waiter{aboveCeiling: true}
		for _, tt := range []struct {
			name string
			ttl  time.Duration
			op   Op
		}{
			{"the ceiling", 2 * time.Second, Op{Flow: flow}}, {"above it", 2*time.Second + 1, Op{}}, {"a waiter", time.Second, Op{waiter: w}},
			{"max_ttl", 30 * time.Second, Op{waiter: behind}}, {"above max_ttl", 30*time.Second + 1, Op{}},
		} {
			p.ceiling.waits = append(p.ceiling.waits, aboveCeiling{op: &tt.op, ttl: tt.ttl, again: func(*deferred) { on = append(on, tt.name) }})
		}
		p.ceiling.goOnLocked(d)
		if want := []string{"the ceiling", "a waiter", "above max_ttl"}; !slices.Equal(on, want) || len(p.ceiling.waits) != 2 {
			s.Errorf("%q go on, and %d wait; want %q, and 2", on, len(p.ceiling.waits), want)
		}
		if flow.held || w.aboveCeiling || !behind.aboveCeiling {
			s.Errorf("its flow waits %t, who goes on waits for the ceiling %t, who waits %t; want false, false, true", flow.held, w.aboveCeiling, behind.aboveCeiling)
		}
		p.ceiling.waits = nil
	})
}

// What has waited for too long is told so, each once and by what it is; what may run by now is not, and a waiter has an end of its own. What is behind
// it in its flow begins.
func TestWhatIsGivenUpAtTheCeiling(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(low)
		flow := &Flow{}
		now := time.Now()
		none := func(*deferred) { s.Error("what is given up goes on") }
		lock, extend, left, waits, fits := new(call), new(call), new(call), new(call), new(call)
		for c, op := range map[*call]Op{
			lock: {kind: plainLock{}, Flow: flow}, extend: {}, fits: {kind: plainLock{}},
			left: {kind: plainLock{}, waiter: &waiter{answered: true}}, waits: {kind: plainLock{}, waiter: new(waiter)},
		} {
			c.Op, c.began = op, now
			c.Op.to = c
		}
		d := &deferred{now: now.Add(-ceilingHold)}
		p.mu.Lock()
		for _, c := range []*call{lock, extend, left, waits} {
			p.ceiling.fits(&c.Op, long, d, none)
		}
		young, goesOn := new(Op), 0
		p.ceiling.fits(young, long, &deferred{now: now.Add(1 - ceilingHold)}, none)
		p.ceiling.fits(&fits.Op, 2*time.Second, d, func(*deferred) { goesOn++ })
		before := p.stats.NoQuorum
		p.mu.Unlock()
		behind := &call{Op: Op{Flow: flow}, began: now}
		p.StartLock(&behind.Op, one("behind", time.Second), behind)
		if len(flow.queued) != 1 {
			s.Fatal("what is behind one that waits begins")
		}
		d.now = now
		p.ceiling.giveUp(d)
		p.mu.Lock()
		for what, c := range map[string]*call{"LOCK": lock, "EXTEND": extend} {
			if _, is := errors.AsType[*CeilingError](c.Err); !is || !c.done.Load() {
				s.Errorf("%s: got %+v, want that the ceiling has not risen", what, c.Result)
			}
		}
		var still []*Op
		for _, w := range p.ceiling.waits {
			still = append(still, w.op)
		}
		if want := []*Op{&waits.Op, young}; !slices.Equal(still, want) || left.done.Load() || waits.done.Load() {
			s.Errorf("%d wait still, want the one whose wait goes on, and the one that came later", len(still))
		}
		if goesOn != 1 || fits.done.Load() {
			s.Errorf("what may run goes on %d times, and is told %v", goesOn, fits.Err)
		}
		if got := p.stats.NoQuorum - before; got != 1 {
			s.Errorf("%d LOCKs are counted as without a quorum, want 1", got)
		}
		if len(flow.queued) != 0 {
			s.Error("what was behind one that is given up has not begun")
		}
		p.ceiling.waits = nil
		p.mu.Unlock()
		wantHeld(s, "LOCK behind it", p.finish(behind))
	})
}

// The coordinator is told of the longest that somebody waits for, of who is the first, and of what was asked for lately.
func TestWhatTheCeilingIsWantedFor(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(low, func(o *Options) { o.MaxTTL = time.Hour })
		h := host{p.Client}
		ann, ben := &HolderNote{User: "ann"}, &HolderNote{User: "ben"}
		gone := aboveCeiling{op: &Op{Note: ann, waiter: &waiter{answered: true}}, ttl: 20 * time.Minute}
		waits := aboveCeiling{op: &Op{Note: ben, waiter: new(waiter)}, ttl: 5 * time.Minute}
		one := aboveCeiling{op: &Op{Note: ann}, ttl: 4 * time.Minute}
		for _, tt := range []struct {
			waits  []aboveCeiling
			wanted time.Duration
			by     string
		}{
			{nil, 0, ""}, {[]aboveCeiling{gone}, 0, ""}, {[]aboveCeiling{gone, waits, one}, 5 * time.Minute, "user ben asked for 5m"},
			{[]aboveCeiling{one, waits}, 5 * time.Minute, "user ann asked for 4m"},
		} {
			p.mu.Lock()
			p.ceiling.waits = tt.waits
			p.mu.Unlock()
			wanted, _ := h.TTLs(time.Second)
			if by := h.WantedBy(); wanted != tt.wanted || (by == "") != (tt.by == "") || !strings.HasPrefix(by, tt.by) {
				s.Errorf("%d wait: %v is wanted by %q, want %v by %q", len(tt.waits), wanted, by, tt.wanted, tt.by)
			}
		}
		p.mu.Lock()
		p.ceiling.waits, p.ceiling.used = nil, nil
		v, now := p.fleet.view.Load(), time.Now()
		p.ceiling.use(10*time.Minute, v, now.Add(-10*time.Second))
		p.ceiling.use(30*time.Second, v, now.Add(-time.Second))
		p.mu.Unlock()
		for within, want := range map[time.Duration]time.Duration{time.Second: 0, time.Second + 1: time.Minute, 10 * time.Second: time.Minute, 10*time.Second + 1: 15 * time.Minute} {
			if _, inUse := h.TTLs(within); inUse != want {
				s.Errorf("within %v: %v is in use, want %v", within, inUse, want)
			}
		}
	})
}

// What a quorum of the masters has noted, and about this record, is what this client counts on: since the latest note that a quorum has.
func TestNotesThatAQuorumHas(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(low)
		v, began := p.fleet.view.Load(), time.Now()
		for notes, want := range map[string]int{ // when each master has noted it; o: another record, .: nothing
			"51423": 3, "12345": 3, "54321": 3, "4.2.3": 2, ".915.": 1, "9..8.": 0, "o918o": 1, "o9o8.": 0, ".....": 0, "77777": 7,
		} {
			for i, l := range v.masters {
				switch note := notes[i]; note {
				case '.':
					l.followed.Store(nil)
				case 'o':
					l.followed.Store(&followed{new(member.Record), began.Add(9)})
				default:
					l.followed.Store(&followed{v.record, began.Add(time.Duration(note - '0'))})
				}
			}
			at := p.fleet.followedAt()
			if want == 0 && !at.IsZero() || want > 0 && at.Sub(began) != time.Duration(want) {
				s.Errorf("%s: got %v, want %d", notes, at.Sub(began), want)
			}
		}
	})
}

// A lane notes on its master what this client goes by, where the master votes under that.
func TestWhatALaneNotes(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(low)
		v := p.fleet.view.Load()
		l := v.masters[0]
		other := *v
		other.record = new(member.Record)
		unknown := other
		unknown.record = nil
		synctest.Wait()
		for what, v := range map[string]*view{"another record": &other, "no record": &unknown} {
			if args := l.followArgs(v, false); args != nil {
				s.Errorf("%s: notes %v, want nothing", what, args)
			}
		}
		for _, leaving := range []bool{false, true} {
			l.followed.Store(&followed{v.record, time.Now()})
			args := l.followArgs(v, leaving)
			if len(args) != 4 || args[0] != p.fleet.follower() || (args[2] == "") != leaving || (l.followed.Load() == nil) != leaving {
				s.Errorf("leaving %t: notes %v", leaving, args)
			}
		}
	})
}
