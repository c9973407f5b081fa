package redlock

// Bugs that the simulation, or the reading that came with writing it, has found: each as the shortest story that shows it. See the
// track record in sim_test.go.

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/member/coordinator"
)

// A LOCK repeated with its token finds the lock on the masters it has, one of them silent, and another's leftover on the rest. That is no
// quorum for anybody, and the lock that the caller has must stay.
func TestContendedRepetitionKeepsTheLock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doOn([]int{3, 4}, "SET", "r", "another", "PX", 60_000)
		p.lock(one("r", 30*time.Second).as("T")).want(s, "LOCK on a bare quorum", "held", 0)
		s.freeze(0)
		p.align()
		again := p.lock(one("r", 30*time.Second).as("T"))
		if again.Held {
			s.Errorf("LOCK again, with one of its masters silent: got held, want no or unknown")
		}
		s.thaw(0)
		p.allUp()
		s.wantOn("r", "T", "11100")
	})
}

// The promise of an EXTEND without a quorum is that the lease as it was before runs on. A shorter TTL must not cut it short on the
// masters that did hear.
func TestShorterExtendWithoutQuorum(t *testing.T) {
	testShorterWithoutQuorum(t, func(p *proxy) *call { return p.extend("T", time.Second, "r") })
}

// The same with a LOCK that is repeated with a shorter TTL.
func TestShorterRepetitionWithoutQuorum(t *testing.T) {
	testShorterWithoutQuorum(t, func(p *proxy) *call { return p.lock(one("r", time.Second).as("T")) })
}

func testShorterWithoutQuorum(t *testing.T, shorten func(*proxy) *call) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		held := p.lock(one("r", 10*time.Second).as("T"))
		p.holdReplies(0, 1, 2)
		p.align()
		shorten(p).want(s, "a shorter TTL, whose replies are lost", "2 of 5 masters voted", giveUpNeeded)
		time.Sleep(2 * time.Second)
		if c := other.lock(one("r", time.Second)); c.Held && time.Now().Before(held.Until) {
			s.Errorf("another got the resource %v before the end of the first lease", time.Until(held.Until))
		}
	})
}

// A caller leaves while its LOCK is under way and comes back with the same token: what is undone for the first must not take away what
// the second was granted.
func TestRepetitionSurvivesTheUndoOfTheFirst(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.delay(ms, ms, 0, 1, 2, 3, 4)
		first := p.begin(one("r", 10*time.Second).as("T").waits(time.Second))
		p.Unblock(&first.Op, context.Canceled)
		second := p.lock(one("r", 10*time.Second).as("T").waits(time.Second))
		time.Sleep(10 * ms)
		if !second.Held {
			s.Fatalf("LOCK again: got %+v, want held", second.Result)
		}
		s.wantOn("r", "T", "11111")
		if c := other.lock(one("r", time.Second)); c.Held {
			s.Error("another got the resource while the repeated lock was valid")
		}
	})
}

// The same when the first was granted, and the caller could not be told.
func TestRepetitionSurvivesAbandon(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.delay(ms, ms, 0, 1, 2, 3, 4)
		first := p.lock(one("r", 10*time.Second).as("T"))
		second := p.begin(one("r", 10*time.Second).as("T"))
		p.Abandon(&first.Op)
		p.finish(second)
		time.Sleep(10 * ms)
		if second.Held {
			s.wantOn("r", "T", "11111")
		}
	})
}

// The same when the first is denied, and has by then reached masters that the second holds.
func TestRepetitionSurvivesTheFailureOfTheFirst(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doOn([]int{2, 3, 4}, "SET", "r", "another", "PX", 5)
		p.delay(20*ms, 0, 0, 1)
		p.delay(0, 20*ms, 4)
		// Three masters deny the first, the last of them is heard when the second is on its way.
		first := p.begin(one("r", 10*time.Second).as("T"))
		time.Sleep(8 * ms)
		second := p.lock(one("r", 10*time.Second).as("T"))
		p.finish(first).want(s, "first LOCK", "no", 20*ms)
		time.Sleep(100 * ms)
		if !second.Held {
			s.Fatalf("second LOCK: got %+v, want held", second.Result)
		}
		s.wantOn("r", "T", "11111")
	})
}

// Or when it names what it locks in another order.
func TestRepetitionInAnotherOrder(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doOn([]int{2, 3, 4}, "SET", "a", "another", "PX", 5)
		p.delay(20*ms, 0, 0, 1)
		p.delay(0, 20*ms, 4)
		first := p.begin(several(10*time.Second, "a", "b").as("T"))
		time.Sleep(8 * ms)
		p.lock(several(10*time.Second, "b", "a").as("T")).want(s, "second LOCK", "held", 32*ms)
		p.finish(first).want(s, "first LOCK", "no", 20*ms)
		time.Sleep(100 * ms)
		for _, key := range []string{"a", "b"} {
			s.wantOn(key, "T", "11111")
		}
		p.unlock("T", "a", "b").want(s, "UNLOCK", "held", 20*ms)
		time.Sleep(100 * ms)
		s.wantNoLocks()
	})
}

// EXTEND finds the lock lost, while the caller takes it anew under the same token.
func TestLockAgainWhileExtendFindsItLost(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.delay(ms, ms, 0, 1, 2, 3, 4)
		p.startExtend(madeToken, time.Second, "r")
		synctest.Wait()
		time.Sleep(ms)
		held := p.lock(one("r", 10*time.Second).as(madeToken))
		time.Sleep(10 * ms)
		if held.Held {
			s.wantOn("r", madeToken, "11111")
			if c := other.lock(one("r", time.Second)); c.Held {
				s.Error("another got the resource while the lock was valid")
			}
		}
	})
}

// While an EXTEND is under way its lock is released and taken again with the same token. Then the EXTEND is found to have come too late:
// that is no word about the lock which was taken since.
func TestLockAgainBehindUnlock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		s.do(2, "SET", "r", madeToken, "PX", 30_000) // what is left of an earlier lock
		p.delay(0, 20*ms, 3, 4)
		extended := p.startExtend(madeToken, 10*time.Second, "r")
		released := p.startUnlock(madeToken, "r")
		p.lock(one("r", 10*time.Second).as(madeToken)).want(s, "LOCK again", "held", 0)
		p.finish(released).want(s, "UNLOCK", "held", 0)
		p.finish(extended).want(s, "EXTEND", "no", 20*ms)
		s.wantOn("r", madeToken, "11111")
		if n := p.Stats().Leases; n != 1 {
			s.Errorf("got %d leases here, want that of the second LOCK", n)
		}
		other.lock(one("r", 10*time.Second)).want(s, "LOCK by another", "no", 0)
	})
}

// A LOCK whose fence is too low is tried again with a higher one, but not behind the UNLOCK of its token: a client that has sent that, to be
// sure after a lost connection, has no more use for the lock.
func TestFenceIsNotTriedAgainBehindUnlock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, fast := s.open(), s.open()
		fast.ahead(500 * ms)
		fast.fenced("r")
		p.delay(ms, ms, 0, 1, 2, 3, 4)
		req := one("r", 10*time.Second).as("T")
		req.Fence = true
		locked := p.begin(req)
		p.unlock("T", "r").want(s, "UNLOCK", "no", 4*ms)
		p.finish(locked).want(s, "LOCK", "no", 2*ms)
		time.Sleep(10 * ms)
		s.wantNoLocks()
		p.lock(req).want(s, "LOCK after the UNLOCK", "held", 2*ms)
	})
}

// The same with a LOCK that is found to be denied when it has been released and sent again.
func TestLockAgainBehindUnlockOfADeniedLock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doOn([]int{1, 2, 3, 4}, "SET", "r", "X", "PX", 30_000)
		p.delay(0, 20*ms, 3, 4)
		first := p.begin(one("r", 10*time.Second).as("T"))
		p.unlock("T", "r").want(s, "UNLOCK", "held", 0)
		s.doOn([]int{1, 2, 3, 4}, "DEL", "r")
		p.lock(one("r", 10*time.Second).as("T")).want(s, "LOCK again", "held", 0)
		p.finish(first).want(s, "first LOCK", "no", 20*ms)
		s.wantOn("r", "T", "11111")
	})
}

// And with a LOCK of several of which the resource is the last, which is still under way when the first is found to be denied.
func TestLockOfSeveralBehindUnlockOfADeniedLock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doOn([]int{1, 2, 3, 4}, "SET", "r", "X", "PX", 30_000)
		p.delay(0, 20*ms, 2, 3, 4)
		first := p.begin(one("r", 10*time.Second).as("T"))
		p.startUnlock("T", "r")
		synctest.Wait()
		s.doOn([]int{1, 2, 3, 4}, "DEL", "r")
		second := p.begin(several(10*time.Second, "q", "r").as("T"))
		p.finish(first).want(s, "LOCK", "no", 20*ms)
		p.finish(second).want(s, "LOCK of several", "held", second.took)
		time.Sleep(20 * ms)
		s.wantOn("r", "T", "11111")
	})
}

// A LOCK repeated with its token, which a quorum holds, while one of the masters that hold it is silent: what the others say does not make
// the lock another's.
func TestRepetitionIsNotDeniedByAMinority(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doOn([]int{3, 4}, "SET", "r", "X", "PX", 30_000)
		req := one("r", 30*time.Second).as("T")
		p.lock(req).want(s, "LOCK of the last free quorum", "held", 0)
		s.freeze(2)
		p.align()
		p.lock(req).want(s, "LOCK again", "4 of 5 masters voted and disagree", giveUp)
		s.wantOn("r", "T", "11100")
		s.thaw(2)
		p.allUp()
		p.lock(req).want(s, "LOCK a third time", "held", 0)
	})
}

// A LOCK repeated with its token while a master is away: that master still holds the key of the first grant, and the release is kept for it.
func TestRepetitionRemembersWhoHolds(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		req := one("r", 30*time.Second).as(madeToken)
		p.lock(req).want(s, "LOCK", "held", 0)
		s.freeze(4)
		p.align()
		p.lock(req).want(s, "LOCK again", "held", 0)
		time.Sleep(100 * ms) // the frozen master is given up
		p.lock(req).want(s, "LOCK a third time", "held", 0)
		time.Sleep(2 * time.Second) // and its connection, with what was under way
		p.paths[4].Cut()
		p.unlock(madeToken, "r").want(s, "UNLOCK", "held", 0)
		s.thaw(4)
		p.allUp()
		s.wantNoLocks()
	})
}

// What was locked together is released one by one, and the other way round, while a master is away: the release is kept for it all the same, and
// no lease is left here, for which a server that drains would wait.
func TestReleaseInOtherParts(t *testing.T) {
	together, alone := [][]string{{"a", "b"}}, [][]string{{"a"}, {"b"}}
	commit := func(p *proxy, resources []string) *call {
		var changes []Change
		for _, r := range resources {
			changes = append(changes, setNX(r, madeToken, 30*time.Second))
		}
		return p.commit(changes...)
	}
	lock := func(p *proxy, resources []string) *call {
		return p.lock(several(30*time.Second, resources...).as(madeToken))
	}
	for _, tt := range []struct {
		name           string
		lock           func(p *proxy, resources []string) *call
		locks, unlocks [][]string
	}{
		{"locked together, released one by one", lock, together, alone},
		{"locked one by one, released together", lock, alone, together},
		{"committed together, released together", commit, together, together},
		{"committed together, released one by one", commit, together, alone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open()
				for _, resources := range tt.locks {
					tt.lock(p, resources).want(s, "LOCK", "held", 0)
				}
				s.freeze(4)
				p.align()
				for _, resources := range tt.unlocks {
					p.unlock(madeToken, resources...).want(s, "UNLOCK", "held", 0)
				}
				if got := p.Stats().Leases; got != 0 {
					s.Errorf("got %d leases after the release, want none", got)
				}
				p.paths[4].Cut()
				s.thaw(4)
				p.allUp()
				s.wantNoLocks()
			})
		})
	}
}

// It is released one by one before the LOCK is answered. A master that is away has the LOCK before it and the releases not yet.
func TestReleaseInOtherPartsBehindTheLock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.freeze(4)
		p.delay(ms, ms, 0, 1, 2, 3)
		p.align()
		locked := p.begin(several(30*time.Second, "a", "b").as(madeToken))
		var released [2]*call
		for i, resource := range []string{"a", "b"} {
			released[i] = &call{began: time.Now()}
			p.StartUnlock(&released[i].Op, []string{resource}, madeToken, released[i])
		}
		p.finish(locked).want(s, "LOCK", "held", 2*ms)
		for _, c := range released {
			p.finish(c).want(s, "UNLOCK", "held", 4*ms)
		}
		time.Sleep(100 * ms) // the frozen master is given up
		s.thaw(4)
		p.allUp()
		s.wantNoLocks()
	})
}

// What was locked one by one is locked again together while a master is away that holds it: the release is kept for it.
func TestLockAgainInOtherParts(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.lock(one("a", 30*time.Second).as(madeToken)).want(s, "LOCK", "held", 0)
		p.lock(one("b", 30*time.Second).as(madeToken)).want(s, "LOCK", "held", 0)
		s.freeze(4)
		p.align()
		another := p.lock(one("c", 30*time.Second))
		another.want(s, "LOCK of another", "held", 0)
		p.unlock(another.Token, "c").want(s, "UNLOCK of another", "held", 0)
		time.Sleep(100 * ms) // the frozen master is given up
		p.lock(several(30*time.Second, "a", "b").as(madeToken)).want(s, "MLOCK", "held", 0)
		p.unlock(madeToken, "a", "b").want(s, "MUNLOCK", "held", 0)
		s.thaw(4)
		p.allUp()
		s.wantNoLocks()
	})
}

// MaxHold counts from the first grant, however the lock is renewed.
func TestRepetitionIsNoWayAroundMaxHold(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxTTL, o.MaxHold = 10*time.Second, time.Minute })
		p.lock(one("r", 10*time.Second).as("T")).want(s, "LOCK", "held", 0)
		for range 11 {
			time.Sleep(5 * time.Second)
			p.lock(one("r", 10*time.Second).as("T"))
		}
		p.extend("T", 10*time.Second, "r").want(s, "EXTEND 55 s after the first grant", "(max_hold)", 0)
	})
}

// FLUSHALL of an idle master is found by the heartbeat, and the operator is told what it was.
func TestFlushIsCalledByItsName(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.do(4, "FLUSHALL")
		s.until("quarantine", func() bool { return p.Masters()[4].State == MasterQuarantined })
		if reason := p.Masters()[4].Reason; !strings.Contains(reason, "flushed") {
			s.Errorf("reason: got %q, want one that says that it was flushed", reason)
		}
	})
}

// Close ends with its context, also when a master hangs.
func TestCloseEndsWithItsContext(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.freeze(4)
		p.lock(one("r", time.Second)).want(s, "LOCK", "held", 0)
		ctx, cancel := context.WithTimeout(s.Context(), 100*ms)
		defer cancel()
		began := time.Now()
		err := p.Close(ctx)
		if took := time.Since(began); took > 200*ms {
			s.Errorf("Close with 100 ms and a frozen master: took %v (%v), want little more than 100 ms", took, err)
		}
	})
}

// A clock steps while the only client that knew it is down: its successor has never seen the clock before.
func TestClockStepBehindARestart(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxTTL = 10 * time.Second })
		s.freeze(3, 4)
		held := p.lock(one("r", 10*time.Second))
		held.want(s, "LOCK on a bare quorum", "held", 0)
		s.thaw(3, 4)
		p.allUp()
		s.doOn([]int{3, 4}, "DEL", "r")
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		p.Close(ctx)
		s.masters[0].StepClock(20 * time.Second)
		next := s.start(func(o *Options) { o.MaxTTL = 10 * time.Second })
		if err := next.Ready(s.Context()); err != nil {
			s.Fatal(err)
		}
		for time.Now().Before(held.Until) {
			if c := next.lock(one("r", time.Second)); c.Held && time.Now().Before(held.Until) {
				s.Fatalf("another got the resource %v before the end of the first lease", time.Until(held.Until))
			}
			time.Sleep(100 * ms)
		}
	})
}

// A clock that is set back renews every lock on the master, far beyond what anybody asked for.
func TestClockSetBackLengthensNoLock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxTTL = 2 * time.Second })
		p.lock(one("r", time.Second)).want(s, "LOCK", "held", 0)
		s.stepClocks(-time.Hour, 0, 1, 2, 3, 4)
		time.Sleep(20 * time.Second)
		p.allUp()
		p.lock(one("r", time.Second)).want(s, "LOCK 20 s later", "held", 0)
	})
}

// The connection breaks while the keys are being shortened: that goes on with the next one.
func TestClockSetBackIsTakenBackOnTheNextConnection(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxTTL = 2 * time.Second })
		held := p.lock(one("r", time.Second))
		p.delay(10*ms, 0, 0)
		s.masters[0].StepClock(-time.Hour)
		time.Sleep(270 * ms) // the heartbeat is back, and the keys are being read
		p.paths[0].Cut()
		time.Sleep(20 * time.Second)
		p.delay(0, 0, 0)
		p.allUp()
		s.wantOn("r", held.Token, "00000")
	})
}

// A proxy is cut off while it shortens the keys of a master whose clock was set back, and what it sent arrives much later. It must not cut short a lock that counts on that master by an EXTEND.
func TestLateRewindCutsNoLockShort(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		brief := func(o *Options) { o.MaxTTL = 2 * time.Second }
		late, holder, other := s.open(brief), s.open(brief), s.open(brief)
		lose := func(p *proxy, masters ...int) {
			for _, i := range masters {
				p.paths[i].Partition()
				p.paths[i].Cut()
			}
		}
		lose(holder, 4)
		lose(other, 1, 2)
		held := holder.lock(one("r", 2*time.Second))
		holder.paths[0].Partition()
		other.paths[0].Partition()
		late.delay(100*ms, 0, 0)
		s.masters[0].StepClock(-time.Hour)
		time.Sleep(400 * ms) // the late one has seen it: the others see nothing
		late.delay(8*time.Second, 0, 0)
		holder.paths[0].Heal()
		other.paths[0].Heal()
		for range 60 {
			time.Sleep(200 * ms)
			if holder.states() == "uuuud" { // from now on it needs the one that was set back
				lose(holder, 3)
			}
			if other.lock(one("r", time.Second)).Held {
				s.Fatalf("another got the resource %v before the end of the lease", time.Until(held.Until))
			}
			if held = holder.extend(held.Token, 2*time.Second, "r"); !held.Held {
				s.Fatalf("EXTEND: got %+v, want held", held.Result)
			}
		}
		if got := holder.states(); got != "uuudd" {
			s.Errorf("states of the masters: got %s, want uuudd", got)
		}
	})
}

// What a batch has found is not forgotten with the connection on which it was to be settled: a gain is seen once, and the membership is
// still as it was.
func TestFindingOutlivesTheConnection(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.lockable("r") // the clocks were seen just now
		p.delay(10*ms, 0, 0)
		s.masters[0].StepClock(time.Hour)
		p.lock(one("r", time.Second))
		time.Sleep(10*ms - 1)
		p.paths[0].HoldReplies()
		time.Sleep(time.Nanosecond) // the batch is executed
		p.paths[0].Heal()
		p.paths[0].Cut()
		s.until("connected again", func() bool { return p.states()[0] != 'd' })
		if m := p.Masters()[0]; m.State != MasterDoubted || !strings.Contains(m.Reason, "1h0m0s") {
			s.Errorf("master 1 after a step of an hour: got %s, %q, want doubted", m.State, m.Reason)
		}
	})
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.fenced("r")
		time.Sleep(600 * ms) // heartbeats have seen the fence
		p.delay(10*ms, 0, 0)
		s.do(0, "DEL", lua.MarksKey, lua.FloorKey)
		s.until("found", func() bool {
			l := p.fleet.view.Load().lanes[0]
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.toResolve.suspicion != ""
		})
		p.paths[0].Cut() // while the membership is being read
		s.until("connected again", func() bool { return p.states()[0] != 'd' })
		if m := p.Masters()[0]; m.State != MasterQuarantined || !strings.Contains(m.Reason, "its fences went back") {
			s.Errorf("master 1 whose fences were deleted: got %s, %q, want quarantined, its fences went back", m.State, m.Reason)
		}
	})
}

// A step that a batch has found is settled once, and not again with every heartbeat for as long as no other batch comes.
func TestIdleMasterIsAdmittedAfterAStep(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxTTL = time.Second })
		held := p.lock(one("r", time.Second))
		s.masters[0].StepClock(-100 * ms)
		p.unlock(held.Token, "r").want(s, "UNLOCK", "held", 0) // its batch finds the step, and is the last for a while
		time.Sleep(5 * time.Second)
		p.wantStates("uuuuu")
	})
}

// EXTEND finds a hole, and UNLOCK comes right behind it: the hole must not be filled any more. So it is with an UNLOCK of any one of several
// resources that are extended together.
func TestExtendDoesNotRefillWhatIsReleased(t *testing.T) {
	for released, resources := range map[string][]string{"r": {"r"}, "the first": {"the first", "the other"}, "the last": {"another", "the last"}} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			held := p.lock(several(10*time.Second, resources...))
			s.do(4, "DEL", resources[0], resources[len(resources)-1])
			p.delay(ms, ms, 0, 1, 2, 3, 4)
			p.startExtend(held.Token, 10*time.Second, resources...)
			synctest.Wait()
			p.finish(p.startUnlock(held.Token, released)).want(s, "UNLOCK of "+released, "held", 4*ms)
			time.Sleep(20 * ms)
			s.wantOn(released, held.Token, "00000")
			if n := p.Stats().Leases; n != 0 {
				s.Errorf("%s: leases: got %d, want 0", released, n)
			}
		})
	}
}

// While a quarantine is over and the fences are still being relearned, nobody is told of a time that is negative.
func TestNoNegativeQuarantine(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxTTL = time.Second })
		s.doAll("FLUSHALL")
		for range 3000 {
			time.Sleep(ms)
			synctest.Wait()
			for _, m := range p.Masters() {
				if m.Left < 0 {
					s.Fatalf("%s: %s, %v left, want no less than 0", m.Addr, m.State, m.Left)
				}
			}
			if reason := p.fleet.view.Load().lanes[0].reason(time.Now()).Error(); strings.Contains(reason, "another -") {
				s.Fatalf("reason: %s", reason)
			}
		}
	})
}

// A LOCK is refused while an EXTEND of the same token is in flight, which then finds no quorum. The EXTEND has moved the ends of the keys that
// the LOCK has set, so they end with their TTL: another client might have been granted what it asked for.
func TestRefusedLockBehindAnExtend(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(uncopied)
		s.doOn([]int{3, 4}, "SET", "r", "another", "PX", 60_000)
		s.do(0, "FLUSHALL") // its vote is unknown from now on
		s.until("quarantine", func() bool { return p.Masters()[0].State == MasterQuarantined })
		p.align()
		locked := p.startLock(one("r", 10*time.Second).as("T"))
		extended := p.startExtend("T", 10*time.Second, "r")
		p.finish(locked).want(s, "LOCK with two of four", "no", 0)
		if p.finish(extended); extended.Held {
			s.Error("EXTEND right behind it: got granted")
		}
		s.wantOn("r", "T", "11100")
		time.Sleep(padded(10*time.Second) + 20*ms)
		s.wantOn("r", "T", "00000")
	})
}

// Memories that are set back under open connections are caught in the reply that carries their votes, not with the next heartbeat.
func TestRollbackIsCaughtWithTheVote(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		time.Sleep(time.Second) // some heartbeats
		p.align()
		p.lock(one("r", 10*time.Second)).want(s, "LOCK", "held", 0)
		for i := range 3 {
			s.do(i, "HSET", lua.MembersKey, "beat", 1)
			s.do(i, "DEL", "r")
		}
		p.lock(one("r", 10*time.Second)).want(s, "LOCK with three that were set back", "masters voted, 3 needed", 0)
	})
}

// A LOCK with the caller's own token is denied, and its undo does not reach a master that is silent; the LOCK is sent again, and granted
// without that master. Another proxy extends it, with the key that the first attempt has left there. When the master is back
// with the first proxy, the old undo must not take that key away: it carries the lease.
func TestNoReleaseOfAnEarlierAttempt(t *testing.T) {
	for _, again := range []time.Duration{0, giveUp + ms} { // before and after the silent master is given up
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(), s.open()
			p.align()
			s.doOn([]int{2, 3, 4}, "SET", "r", "X", "PX", 60_000)
			p.paths[1].HoldReplies()
			p.delay(0, ms, 2, 3, 4) // or the undo could travel to the silent master together with the LOCK
			p.lock(one("r", 10*time.Second).as("T")).want(s, "LOCK while held", "no", ms)
			s.wantOn("r", "T", "01000")
			p.delay(0, 0, 2, 3, 4)
			s.doOn([]int{2, 3, 4}, "DEL", "r")
			time.Sleep(again)
			p.lock(one("r", 10*time.Second).as("T")).want(s, "LOCK again", "held", 0)
			time.Sleep(giveUp + ms)
			for _, i := range []int{0, 2} {
				other.paths[i].Partition()
			}
			other.extend("T", 10*time.Second, "r").want(s, "EXTEND through another proxy", "held", 0)
			p.paths[1].Heal()
			p.allUp()
			time.Sleep(100 * ms)
			s.wantOn("r", "T", "11111")
		})
	}
}

// A rotation finds a step of the membership, is made on all masters without a vote that counts, and is to begin once more. Before its first round is
// taken back, another client reads the new value, and counts on it.
func TestRotationInAStepThatSomebodyCountsOn(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(maxTTL(10*time.Second)), s.open(maxTTL(10*time.Second))
		p.commit(setNX("r", longValue, 5*time.Second)).want(s, "SET NX", "held", 0)
		other.change(coordinator.Change{SetMaxTTL: 20 * time.Second})
		p.delay(0, 10*ms, 0, 1, 2, 3, 4)
		rotated := &call{began: time.Now()}
		p.StartCommit(&rotated.Op, []Change{rotate("r", longValue, otherValue, 5*time.Second)}, rotated)
		time.Sleep(5 * ms)
		s.wantOn("r", otherValue, "11111")
		other.commit(compareAndExpire("r", otherValue, 5*time.Second)).want(s, "PEXPIRE of the new value", "held", 0)
		p.finish(rotated)
		s.wantOn("r", otherValue, "11111")
		if !rotated.Held && rotated.Err == nil {
			s.Error("a rotation was answered as if it had not been made, and all masters have the new value")
		}
	})
}
