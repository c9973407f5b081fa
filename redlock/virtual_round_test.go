package redlock

// Goal: what a round makes of masters that are silent, late, or deaf, and what it leaves behind on them. Method: virtual time,
// exact durations.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/member/coordinator"
	"redlockd/redlock/quorum"
)

// An error that comes before all have answered says that the others were not waited for.
func TestErrorBeforeAllHaveAnswered(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.delay(ms, ms, 3, 4)
		for i := range 3 {
			s.masters[i].Crash(true)
		}
		s.until("three down", func() bool { return p.states() == "ddduu" })
		c := p.lock(one("r", time.Second))
		c.want(s, "LOCK with three down", "0 of 5 masters voted, 3 needed; out: m1: down for ", 0)
		c.want(s, "LOCK with three down", "; 2 more could not have made a quorum and were not waited for", 0)
	})
}

func TestSilentMasters(t *testing.T) {
	for _, tt := range []struct {
		silent []int
		result string
		took   time.Duration
	}{
		{nil, "held", 2 * ms},
		{[]int{4}, "held", 2 * ms},
		{[]int{3, 4}, "held", 2 * ms},
		{[]int{2, 3, 4}, "2 of 5 masters voted, 3 needed; out: m3: ", giveUpNeeded},
		{[]int{0, 1, 2, 3, 4}, "0 of 5 masters voted, 3 needed", giveUpNeeded},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			p.delay(ms, ms, 0, 1, 2, 3, 4)
			s.freeze(tt.silent...)
			first := p.lock(one("r", 30*time.Second))
			first.want(s, "first LOCK", tt.result, tt.took)
			if want := 30*time.Second - 2*ms; first.Held && first.Validity != want {
				s.Errorf("validity with %d silent: got %v, want %v", len(tt.silent), first.Validity, want)
			}
			// By now they are known to be silent, and nobody waits for them any more.
			time.Sleep(100 * ms)
			p.align()
			took := tt.took
			if len(tt.silent) >= 3 {
				took = 0
				s.wantNoLocks() // a frozen master has not even seen it
			}
			if got := p.lock(one("other", 30*time.Second)); got.took != took {
				s.Errorf("second LOCK with %d silent: took %v, want %v", len(tt.silent), got.took, took)
			} else if got.Held {
				p.unlock(got.Token, "other")
			}
			if first.Held {
				p.unlock(first.Token, "r").want(s, "UNLOCK", "held", tt.took)
			}
			s.thaw(tt.silent...)
			p.allUp()
			time.Sleep(20 * ms)
			s.wantNoLocks()
			if pending := p.Masters()[4].PendingReleases; pending != 0 {
				s.Errorf("releases still pending: got %d, want 0", pending)
			}
		})
	}
}

func TestLateReplies(t *testing.T) {
	for _, tt := range []struct {
		name           string
		ttl, way, back time.Duration
		result         string
		took, validity time.Duration
	}{
		{"within the timeout", 30 * time.Second, 20 * ms, 20 * ms, "held", 40 * ms, 30*time.Second - 40*ms},
		{"beyond the timeout, of masters that are needed", 30 * time.Second, 20 * ms, 80 * ms, "held", 100 * ms, 30*time.Second - 100*ms},
		{"much later", 30 * time.Second, 20 * ms, 230 * ms, "2 of 5 masters voted", giveUpNeeded, 0},
		{"so late that nothing is left", 40 * ms, 20 * ms, 20 * ms, "a quorum granted only after 40ms, when nothing was left of the TTL", 40 * ms, 0},
		{"so late that less than a millisecond is left, of which a reply would say 0", 40*ms + 500*time.Microsecond, 20 * ms, 20 * ms, "a quorum granted only after 40ms, when nothing was left of the TTL", 40 * ms, 0},
		{"just in time", 41 * ms, 20 * ms, 20 * ms, "held", 40 * ms, ms},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			p.delay(tt.way, tt.back, 2, 3, 4)
			c := p.lock(one("r", tt.ttl))
			c.want(s, tt.name, tt.result, tt.took)
			if c.Validity != tt.validity {
				s.Errorf("%s: validity: got %v, want %v", tt.name, c.Validity, tt.validity)
			}
			if c.Err != nil {
				time.Sleep(time.Second) // the masters that were given up have answered and are open again
				s.wantNoLocks()
			}
			// A late answer is no broken connection.
			if ids := s.do(4, "CLIENT", "ID").(int64); ids > 7 {
				s.Errorf("%s: connections that master 5 has seen: got %d, want no new one", tt.name, ids)
			}
		})
	}
}

// A reply that is lost leaves a key behind. It must be removed as soon as the master is reached again, long before its TTL.
func TestLostReplies(t *testing.T) {
	for _, tt := range []struct {
		name   string
		lose   func(p *proxy, i int)
		repair func(p *proxy, i int)
		set    string // masters that executed the SET although nobody heard of it
	}{
		{"replies late", func(p *proxy, i int) { p.paths[i].HoldReplies() }, func(p *proxy, i int) { p.paths[i].Heal() }, "00111"},
		{"replies lost", func(p *proxy, i int) { p.paths[i].HoldReplies() }, func(p *proxy, i int) { p.paths[i].Cut(); p.paths[i].Heal() }, "00111"},
		{"requests late", func(p *proxy, i int) { p.paths[i].HoldRequests() }, func(p *proxy, i int) { p.paths[i].Heal() }, "00000"},
		{"requests lost", func(p *proxy, i int) { p.paths[i].HoldRequests() }, func(p *proxy, i int) { p.paths[i].Cut(); p.paths[i].Heal() }, "00000"},
		{"partitioned", func(p *proxy, i int) { p.paths[i].Partition() }, func(p *proxy, i int) { p.paths[i].Heal() }, "00000"},
	} {
		for _, away := range []time.Duration{100 * ms, 5 * time.Second} { // the connection survives, and is given up
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open()
				for i := 2; i < 5; i++ {
					tt.lose(p, i)
				}
				p.lock(one("r", 30*time.Second)).want(s, tt.name, "2 of 5 masters voted", giveUpNeeded)
				s.wantSet("r", tt.set)
				time.Sleep(away)
				for i := 2; i < 5; i++ {
					tt.repair(p, i)
				}
				p.allUp()
				s.wantNoLocks()
			})
		}
	}
}

// The path to a master breaks down with a SET under way, the next connection takes another path, and then the first path
// delivers: the SET must not be executed behind the release that undoes it.
func TestOldConnectionIsKilled(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		old := p.reroute(4)
		old.HoldRequests()
		c := p.lock(one("r", 30*time.Second).as("T"))
		c.want(s, "LOCK", "held", 0)
		p.unlock("T", "r").want(s, "UNLOCK", "held", 0)
		p.s.until("the connection is given up", func() bool { return p.Masters()[4].State == MasterDown })
		p.allUp()
		old.Heal()
		s.wantNoLocks()
	})
}

// A master answers so late that it was given up, and has granted: it holds the key like the others, and must be released like them.
func TestLateGrantIsReleased(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.delay(0, 80*ms, 4)
		held := p.lock(one("r", 30*time.Second))
		held.want(s, "LOCK", "held", 0)
		p.allUp()
		time.Sleep(200 * ms)
		s.wantOn("r", held.Token, "11111")
		p.paths[4].Partition()
		p.paths[4].Cut()
		p.unlock(held.Token, "r").want(s, "UNLOCK", "held", 0)
		p.paths[4].Heal()
		p.allUp()
		s.wantNoLocks()
	})
}

func TestUnlockIsOwed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		lose   func(s *stage, p *proxy, i int)
		repair func(s *stage, p *proxy, i int)
	}{
		{"frozen", func(s *stage, p *proxy, i int) { s.masters[i].Freeze() }, func(s *stage, p *proxy, i int) { s.masters[i].Thaw() }},
		{"cut off", func(s *stage, p *proxy, i int) { p.paths[i].Partition(); p.paths[i].Cut() }, func(s *stage, p *proxy, i int) { p.paths[i].Heal() }},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(), s.open()
			held := p.lock(one("r", 30*time.Second))
			for i := range 3 {
				tt.lose(s, p, i)
			}
			p.align()
			c := p.unlock(held.Token, "r")
			if !errors.Is(c.Err, ErrNoQuorum) {
				s.Errorf("%s: UNLOCK: got %v, want no quorum", tt.name, c.Err)
			}
			s.wantOn("r", held.Token, "11100")
			time.Sleep(3 * time.Second)
			for i := range 3 {
				tt.repair(s, p, i)
			}
			p.allUp()
			s.wantNoLocks()
			other.allUp()
			other.lock(one("r", 30*time.Second)).want(s, "LOCK by another proxy", "held", 0)
		})
	}
}

// A lease of a bare quorum: exactly these masters must be told of the release.
func TestReleaseOwedOnlyWhereTheKeyMayBe(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doOn([]int{3, 4}, "SET", "r", "somebody", "PX", 100)
		p.delay(0, ms, 0, 1, 2) // the masters that deny answer first: one that has not answered at the grant may hold the key
		held := p.lock(one("r", 30*time.Second))
		held.want(s, "LOCK of the last free quorum", "held", ms)
		s.freeze(0, 1, 2, 3, 4)
		p.align()
		p.unlock(held.Token, "r").want(s, "UNLOCK", "0 of 5 masters voted, 3 needed", giveUpNeeded)
		var pending [5]int
		for i, m := range p.Masters() {
			pending[i] = m.PendingReleases
		}
		if pending != [5]int{1, 1, 1, 0, 0} {
			s.Errorf("releases pending: got %v, want one for each master that granted", pending)
		}
	})
}

// A lock that another client was granted may be on a master that was away when it was extended here.
func TestReleaseOwedWhereAnotherHasLocked(t *testing.T) {
	for name, extend := range map[string]func(p *proxy, token string) *call{
		"EXTEND":  func(p *proxy, token string) *call { return p.extend(token, 30*time.Second, "r") },
		"PEXPIRE": func(p *proxy, token string) *call { return p.commit(compareAndExpire("r", token, 30*time.Second)) },
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(), s.open()
			held := other.lock(one("r", 30*time.Second))
			p.cut(4)
			s.until("one is away", func() bool { return p.states() == "uuuud" })
			extend(p, held.Token).want(s, name, "held", 0)
			p.unlock(held.Token, "r").want(s, "UNLOCK", "held", 0)
			p.heal(4)
			p.allUp()
			s.wantNoLocks()
		})
	}
}

// The validity ends before the keys do, and no sooner than that anybody else gets the resource.
func TestExpiry(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		held := p.lock(one("r", time.Second))
		if want := held.began.Add(time.Second); !held.Until.Equal(want) {
			s.Errorf("until: got %v after the LOCK was sent, want %v", held.Until.Sub(held.began), want.Sub(held.began))
		}
		waiter := other.lock(one("r", time.Second).waits(5 * time.Second))
		if waiter.Result.Err != nil || !waiter.Held {
			s.Fatalf("LOCK that waits for the expiry: got %+v, want held", waiter.Result)
		}
		if waiter.took < time.Second || waiter.took > time.Second+100*ms {
			s.Errorf("LOCK that waits for the expiry: took %v, want no less than the TTL and little more", waiter.took)
		}
	})
}

// A master that says no does it with a vote, and an attempt that came too late everywhere takes nothing away from the holder.
func TestSplitVotesAreUndone(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doOn([]int{0, 1}, "SET", "r", "A", "PX", 60_000)
		s.do(2, "SET", "r", "B", "PX", 60_000)
		p.lock(one("r", 30*time.Second)).want(s, "LOCK with 2 of 5 free", "no", 0)
		s.wantOn("r", "A", "11000")
		s.wantOn("r", "B", "00100")
		for i := 3; i < 5; i++ {
			if _, _, ok := s.masters[i].Get("r"); ok {
				s.Errorf("master %d keeps the key of an attempt that failed", i+1)
			}
		}
	})
}

func TestExtend(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.delay(ms, ms, 0, 1, 2, 3, 4)
		held := p.lock(one("r", time.Second))
		time.Sleep(900 * ms)
		c := p.extend(held.Token, 2*time.Second, "r")
		c.want(s, "EXTEND", "held", 2*ms)
		if want := c.began.Add(2 * time.Second); !c.Until.Equal(want) {
			s.Errorf("until: got %v after EXTEND was sent, want 2s", c.Until.Sub(c.began))
		}
		time.Sleep(1900 * ms)
		s.wantOn("r", held.Token, "11111")
		p.delay(20*ms, 20*ms, 0, 1, 2, 3, 4)
		p.extend(held.Token, 40*ms, "r").want(s, "EXTEND of which nothing is left", "a quorum granted only after 40ms", 40*ms)
	})
}

// A master that has lost the key of a lease gets it back with the next EXTEND, and counts from then on.
func TestExtendFillsHoles(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.do(4, "SET", "r", "another", "PX", 1000)
		held := p.lock(one("r", 10*time.Second))
		s.do(1, "DEL", "r")
		time.Sleep(time.Second + ms) // master 5 is known to have denied it
		p.delay(0, ms, 0, 1, 2, 3)   // what master 5 says is known before the decision
		p.extend(held.Token, 20*time.Second, "r").want(s, "EXTEND", "held", ms)
		p.delay(0, 0, 0, 1, 2, 3)
		s.wantOn("r", held.Token, "11111")
		if _, ttl, _ := s.masters[4].Get("r"); ttl != padded(20*time.Second) {
			s.Errorf("TTL of the key that was given back: got %v, want %v", ttl, padded(20*time.Second))
		}
		p.cut(4)
		s.until("one is away", func() bool { return p.states() == "uuuud" })
		p.unlock(held.Token, "r").want(s, "UNLOCK", "held", 0)
		p.heal(4)
		p.allUp()
		s.wantNoLocks()
	})
}

// A master whose answer comes after the decision is filled too, unless the lock was released meanwhile.
func TestExtendFillsLateHoles(t *testing.T) {
	for _, released := range []bool{false, true} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			held := p.lock(one("r", 10*time.Second))
			s.do(4, "DEL", "r")
			p.delay(0, 20*ms, 4)
			p.extend(held.Token, 20*time.Second, "r").want(s, "EXTEND", "held", 0)
			s.wantOn("r", held.Token, "11110")
			want := "11111"
			if released {
				p.unlock(held.Token, "r").want(s, "UNLOCK", "held", 0)
				want = "00000"
			}
			time.Sleep(100 * ms)
			s.wantOn("r", held.Token, want)
		})
	}
}

// A master says that it has lost the key when the EXTEND is decided and its lease is not there yet.
func TestExtendFillsHolesFoundBesideTheDecision(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.onQuorum = func(r *round, _ quorum.Votes) {
			if r.verb == verbExtend {
				time.Sleep(2 * ms) // the lane that has the deciding vote
			}
		}
		held := p.lock(one("r", 10*time.Second))
		s.do(4, "DEL", "r")
		p.delay(0, ms, 4)
		p.extend(held.Token, 20*time.Second, "r").want(s, "EXTEND", "held", 2*ms)
		time.Sleep(10 * ms)
		s.wantOn("r", held.Token, "11111")
	})
}

// What is left of a lost lock on a minority keeps nobody out, and ends with its TTL.
func TestExtendOfALostLock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		held := p.lock(one("r", 10*time.Second))
		s.doOn([]int{0, 1, 2}, "DEL", "r")
		p.extend(held.Token, 10*time.Second, "r").want(s, "EXTEND", "no", 0)
		s.wantOn("r", held.Token, "00011")
		if n := p.Stats().Leases; n != 0 {
			s.Errorf("%d leases, want none", n)
		}
		next := p.lock(one("r", time.Second))
		next.want(s, "LOCK by another", "held", 0)
		s.wantOn("r", next.Token, "11100")
		time.Sleep(11 * time.Second)
		s.wantNoLocks()
	})
}

// Who is granted a resource ends the leases of those before, of which nobody has told.
func TestNextLockEndsTheLeases(t *testing.T) {
	for _, shared := range []bool{false, true} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			req := one("r", 10*time.Second)
			req.Shared = shared
			p.lock(req).want(s, "LOCK", "held", 0)
			s.doAll("DEL", "r")
			p.lock(one("r", 10*time.Second)).want(s, "the next LOCK", "held", 0)
			if list := p.Leases(func([]string) bool { return true }, 9); p.Stats().Leases != 1 {
				s.Errorf("leases, shared %v: got %+v, want that of the next LOCK", shared, list)
			}
		})
	}
}

// An EXTEND without a quorum leaves the lease as it was, and on the masters it can be released as ever.
func TestExtendWithoutQuorum(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		held := p.lock(one("r", 10*time.Second))
		s.freeze(0, 1, 2)
		p.align()
		p.extend(held.Token, 10*time.Second, "r").want(s, "EXTEND with 3 frozen", "2 of 5 masters voted", giveUpNeeded)
		s.wantOn("r", held.Token, "11111")
		s.thaw(0, 1, 2)
		p.allUp()
		p.extend(held.Token, 10*time.Second, "r").want(s, "EXTEND", "held", 0)
		p.unlock(held.Token, "r").want(s, "UNLOCK", "held", 0)
		s.wantNoLocks()
	})
}

func TestMaxHold(t *testing.T) {
	for _, token := range []string{"", "T"} { // one made here, which carries its birth, and a caller's own
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(func(o *Options) { o.MaxTTL, o.MaxHold = 10*time.Second, time.Minute })
			held := p.lock(one("r", 10*time.Second).as(token))
			for range 10 {
				time.Sleep(5 * time.Second)
				p.extend(held.Token, 10*time.Second, "r").want(s, "EXTEND", "held", 0)
			}
			time.Sleep(ms)
			p.extend(held.Token, 10*time.Second, "r").want(s, "EXTEND beyond a minute in all", "(max_hold)", 0)
			p.extend(held.Token, 9*time.Second, "r").want(s, "EXTEND within a minute in all", "held", 0)
		})
	}
}

// The caller repeats a LOCK because its reply was lost: the lock is its own, and is granted again.
func TestSameTokenIsGrantedAgain(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		req := one("r", time.Second).as("T")
		p.lock(req).want(s, "LOCK", "held", 0)
		p.lock(one("r", time.Second).as("U")).want(s, "LOCK with another token", "no", 0)
		time.Sleep(500 * ms)
		again := p.lock(req)
		again.want(s, "LOCK with the same token", "held", 0)
		if again.Validity != time.Second {
			s.Errorf("validity: got %v, want that of a new lock", again.Validity)
		}
		other.lock(req).want(s, "LOCK with the same token through another proxy", "held", 0)
		// Not behind those who wait for the end of this very lock.
		waiter := p.begin(one("r", time.Second).waits(10 * time.Second))
		p.lock(req.waits(5*time.Second)).want(s, "LOCK with the same token and a waiter", "held", 0)
		p.unlock("T", "r").want(s, "UNLOCK", "held", 0)
		p.finish(waiter).want(s, "the waiter", "held", 0)
	})
}

// A repetition that finds no quorum must not take away what the caller has.
func TestFailedRepetitionKeepsTheLock(t *testing.T) {
	for _, silent := range [][]int{{0, 1, 2}, {0, 1, 2, 3, 4}} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(), s.open()
			req := one("r", 10*time.Second).as("T")
			held := p.lock(req)
			s.freeze(silent...)
			p.align()
			p.lock(req).want(s, "LOCK with the same token", " of 5 masters voted, 3 needed", giveUpNeeded)
			s.thaw(silent...)
			p.allUp()
			other.allUp()
			s.wantOn("r", "T", "11111")
			for time.Now().Before(held.Until) {
				if c := other.lock(one("r", 10*time.Second)); c.Held {
					s.Fatalf("another got the resource %v before the end of the validity", time.Until(held.Until))
				}
				time.Sleep(500 * ms)
			}
		})
	}
}

// An operation is over when a quorum has answered; it still waits in the lanes of slow masters then. A caller that uses its
// slice of resources again must not change what these are told.
func TestSliceOfResourcesIsTheCallers(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		reused := []string{"a", "b"}
		overwrite := func() { copy(reused, []string{"x", "y"}) }
		inSlowLanes := func(start func(c *call)) *call {
			s.freeze(3, 4)
			p.begin(one("another "+time.Now().String(), time.Second)) // in flight: what comes now stays in the queue of the slow ones
			copy(reused, []string{"a", "b"})
			c := &call{began: time.Now()}
			start(c)
			p.finish(c).want(s, "the operation", "held", 0)
			overwrite()
			s.thaw(3, 4)
			synctest.Wait()
			return c
		}
		held := inSlowLanes(func(c *call) { p.StartLock(&c.Op, several(10*time.Second, reused...).as("T"), c) })
		s.wantOn("a", held.Token, "11111")
		s.wantOn("b", held.Token, "11111")
		inSlowLanes(func(c *call) { p.StartExtend(&c.Op, reused, "T", 20*time.Second, c) })
		if _, ttl, _ := s.masters[4].Get("a"); ttl < 15*time.Second {
			s.Errorf("what is left of the key on a slow master after EXTEND: got %v, want 20 s", ttl)
		}
		p.lock(several(10*time.Second, "b", "a").as("T")).want(s, "LOCK with the same token", "held", 0)
		inSlowLanes(func(c *call) { p.StartUnlock(&c.Op, reused, "T", c) })
		s.wantOn("a", "T", "00000")
		s.wantOn("b", "T", "00000")

		overwrite()
		lease, err := p.Acquire(s.Context(), several(10*time.Second, reused...))
		if err != nil {
			s.Fatal(err)
		}
		copy(reused, []string{"a", "b"})
		if err := lease.Unlock(s.Context()); err != nil {
			s.Errorf("Unlock of a lease whose caller has used the slice again: %v", err)
		}
	})
}

func TestCallersContext(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		if _, err := p.TryLock(ctx, "r", time.Second); !errors.Is(err, context.Canceled) {
			s.Errorf("TryLock with a context that is over: got %v, want context.Canceled", err)
		}
		p.lock(one("r", time.Minute))
		ctx, cancel = context.WithTimeout(s.Context(), 300*ms)
		defer cancel()
		began := time.Now()
		if _, err := p.Lock(ctx, "r", time.Second); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 300*ms {
			s.Errorf("Lock of a held resource: got %v after %v, want the context's error after 300ms", err, time.Since(began))
		}
		// A round that is under way is waited for, and its grant is not lost.
		p.delay(10*ms, 10*ms, 0, 1, 2, 3, 4)
		ctx, cancel = context.WithTimeout(s.Context(), 5*ms)
		defer cancel()
		lease, err := p.TryLock(ctx, "free", time.Second)
		if err != nil {
			s.Fatalf("TryLock whose context ends under way: got %v, want the lease", err)
		}
		if err := lease.Unlock(s.Context()); err != nil {
			s.Error(err)
		}
		time.Sleep(50 * ms)
		synctest.Wait()
		if got := s.on("free", lease.Token); got != "00000" {
			s.Errorf("after Unlock: still on %s", got)
		}
	})
}

// The watch gives a master up in the moment in which its lane has come back and is about to wait for work: the lane must not wait,
// for nothing is queued and no heartbeat asked for while the master counts as away.
func TestGivenUpBeforeItWaits(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		l := newLane(&p.Client.fleet, 0, p.opts.Masters[0])
		l.state = laneTimedOut
		took := make(chan bool, 1)
		go func() {
			b, ok := l.next(nil, nil)
			took <- ok && b == nil
		}()
		synctest.Wait()
		select {
		case nothing := <-took:
			if !nothing {
				s.Error("next of a lane that was given up: got work or its end, want nothing")
			}
		default:
			s.Error("next of a lane that was given up waits for ever")
			l.end()
			<-took
		}
	})
}

// What a master replied to something else before is not why its vote does not count now.
func TestReasonIsNotOfAnEarlierTime(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.do(0, "ZADD", "set", 1, "value")
		if info, err := p.Inspect(s.Context(), "set"); err != nil || info.Votes[0].Err == nil || !strings.Contains(info.Votes[0].Err.Error(), "WRONGTYPE") {
			s.Fatalf("Inspect of a sorted set: got %+v, %v, want WRONGTYPE from the first master", info, err)
		}
		for _, m := range s.masters[3:] {
			m.Crash(true)
		}
		s.until("down", func() bool { return p.states() == "uuudd" })
		p.delay(10*ms, 0, 0) // its vote decides
		s.do(0, "FLUSHALL")
		c := p.commit(compareAndDelete("other", longValue), setNX("r", longValue, time.Second))
		c.want(s, "a commit", "2 of 5 masters voted, 3 needed; out: m1: its vote came too late or does not count, m4: down for ", 10*ms)
	})
}

// Enough masters have voted, and it is the one that is away that would decide: the error does not say that too few have voted.
func TestMastersThatDisagree(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		held := p.lock(one("r", 30*time.Second))
		s.do(0, "DEL", "r")
		s.do(1, "DEL", "r")
		s.masters[4].Crash(false)
		s.until("down", func() bool { return p.states() == "uuuud" })
		p.extend(held.Token, 30*time.Second, "r").want(s, "EXTEND", "4 of 5 masters voted and disagree, 3 must agree; out: m5: down for ", 0)
	})
}

// A master that answers after it was given up has voted already. The round is not decided yet, because the other masters are busy with an
// earlier batch: a second vote would make another one of the first.
func TestLateVoteIsNotCountedAgain(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.align()
		p.delay(0, 45*ms, 1, 2, 3, 4)
		first := p.begin(one("first", 30*time.Second))
		time.Sleep(ms)
		p.delay(0, 75*ms, 0)
		second := p.begin(one("second", 30*time.Second))
		p.finish(first).want(s, "LOCK that keeps four masters busy", "held", 45*ms)
		p.finish(second).want(s, "LOCK that one master answers too late", "held", 89*ms)
		p.paths[0].Partition()
		p.paths[0].Cut()
		p.unlock(second.Token, "second")
		p.unlock(first.Token, "first")
		p.delay(0, 0, 0, 1, 2, 3, 4)
		p.paths[0].Heal()
		p.allUp()
		time.Sleep(time.Second) // the releases that came behind the quorum
		s.wantNoLocks()
	})
}

// Who has not voted yet is said to be under way only if it can still answer.
func TestPendingMasterThatIsDown(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.masters[4].Crash(true)
		s.until("down", func() bool { return p.states() == "uuuud" })
		v := p.fleet.view.Load()
		if e := v.noQuorumError(time.Now(), v.Gaps, v.Quorum(), 0); e.Pending != 4 || len(e.Out) != 1 || e.Out[0].Addr != "m5" {
			s.Errorf("nobody has voted, and m5 is down: got %+v, want 4 to be waited for, and m5 out", e)
		}
	})
}

// A place that nobody has any more is no master whose vote is waited for.
func TestVotesBesideAGap(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(time.Second))
		for range 2 {
			seats := p.Membership().Seats
			p.change(coordinator.Change{Remove: seats[1].Name})
			s.until("it is removed", func() bool { return p.fleet.view.Load().Count < len(seats) })
		}
		p.allUp()
		s.freeze(4)
		time.Sleep(600 * ms) // it is known, so it is not waited for
		held := p.lock(one("r", time.Second))
		held.want(s, "LOCK, which two of three grant", "held", 0)
		p.extend(held.Token, time.Second, "r").want(s, "EXTEND", "held", 0)
		p.unlock(held.Token, "r").want(s, "UNLOCK", "held", 0)
	})
}

// An EXTEND is refused for what is wrong with its resources or its token as for its TTL.
func TestExtendIsChecked(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		p.extend("", time.Second, "r").want(s, "EXTEND without a token", "the token is empty", 0)
		p.extend("T", time.Second).want(s, "EXTEND of nothing", "no resource is named", 0)
		p.extend("T", 2*p.opts.MaxTTL, "r").want(s, "EXTEND for too long", "ttl", 0)
	})
}

// An EXTEND counts by its outcome. One that too few masters answered was not late.
func TestOutcomesOfExtensions(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		want := func(what, counts string) {
			s.Helper()
			st := p.Stats()
			if got := fmt.Sprint(st.Extended, st.ExtendLost, st.ExtendFail); got != counts {
				s.Errorf("%s: got %s extended, lost, failed, want %s", what, got, counts)
			}
		}
		held := p.lock(one("r", time.Second))
		p.extend(held.Token, time.Minute, "r")
		want("one that is held", "1 0 0")
		p.extend("another's", time.Minute, "r")
		want("one that another holds", "1 1 0")
		s.freeze(0, 1, 2)
		p.align()
		c := p.extend(held.Token, time.Minute, "r")
		want("without a quorum", "1 1 1")
		if e := (*NoQuorumError)(nil); !errors.As(c.Err, &e) || e.Late != 0 {
			s.Errorf("without a quorum: got %+v, want that it was not late", c.Err)
		}
	})
}

// A client that extends what another one has granted knows who holds it, and since when as far as the token tells.
func TestExtendOfALockFromElsewhere(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		born := time.Now()
		token := other.lock(one("r", time.Minute)).Token
		s.doAll("SET", "own", "T", "PX", 60_000)
		ahead := p.tokens.make(time.Now().Add(time.Hour))
		s.doAll("SET", "ahead", ahead, "PX", 60_000)
		time.Sleep(10 * time.Second)
		for _, tt := range []struct {
			resource, token string
			born            time.Time
		}{{"r", token, born}, {"own", "T", time.Time{}}, {"ahead", ahead, time.Time{}}} {
			if tt.born.IsZero() {
				tt.born = time.Now() // the first EXTEND
			}
			for range 2 {
				c := &call{Op: Op{Note: &HolderNote{Text: "a job"}}, began: time.Now()}
				p.StartExtend(&c.Op, []string{tt.resource}, tt.token, time.Minute, c)
				p.finish(c).want(s, "EXTEND", "held", 0)
				p.mu.Lock()
				l := p.leases.entries[tt.resource].lease
				if got := l.born.Sub(tt.born); got > 0 || got <= -ms || l.note == nil || l.note.Text != "a job" {
					s.Errorf("%s: born %v after its grant, as far as that is known, with the note %+v", tt.resource, got, l.note)
				}
				p.mu.Unlock()
				time.Sleep(ms)
			}
		}
	})
}
