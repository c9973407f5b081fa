package redlock

// Goal: the membership outlives whatever happens to masters and clients, nobody votes who may not, and what is wrong is said by name.
// Method: the real client in virtual time; masters forget, move, and come back, and clients come and go.

import (
	"context"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/coordinator"
	"redlockd/redlock/redisproc"
)

// membership is the record that a master has settled on.
func (s *stage) membership(master int) *member.Record {
	s.Helper()
	text, _ := s.do(master, "HGET", lua.MembersKey, "r").(string)
	r, err := member.ParseRecord(text)
	if err != nil {
		s.Fatalf("the record of master %d: %v", master+1, err)
	}
	return r
}

// memory names what a master remembers.
func (s *stage) memory(master int) string {
	s.Helper()
	v, _ := s.do(master, "HGET", lua.MembersKey, "v").(string)
	state, ok := member.ParseState(v)
	if !ok {
		s.Fatalf("master %d shows %q", master+1, v)
	}
	return state.Memory
}

// first are the first masters only; those behind are elsewhere, for tests in which an address moves.
func first(n int) func(*Options) { return func(o *Options) { o.Masters = o.Masters[:n] } }

// cut has the proxy neither reach these masters nor stay connected to them.
func (p *proxy) cut(masters ...int) {
	for _, i := range masters {
		p.paths[i].Partition()
		p.paths[i].Cut()
	}
}

func (p *proxy) heal(masters ...int) {
	for _, i := range masters {
		p.paths[i].Heal()
	}
}

// notHeld tries to lock, and wants that too few vote.
func (p *proxy) notHeld(what string) *call {
	p.s.Helper()
	c := p.lock(one("r", 100*ms))
	if c.Held {
		p.s.Errorf("%s: LOCK was granted", what)
	}
	return c
}

// An address comes to mean another Redis while the connection to the one before lives on. Its votes end with the next look at the address.
func TestAddressThatMoves(t *testing.T) {
	inVirtualTime(t, 6, func(s *stage) {
		s.found(first(5), briefly)
		p := s.open(first(5), briefly)
		p.exchangePath(0, s.masters[5].Link())
		s.until("the move is seen", func() bool { return p.states()[0] != 'u' })
		if took := time.Since(p.opened); took > member.RecheckWithin(p.fleet.view.Load().wait) {
			s.Errorf("seen after %v, want within %v", took, member.RecheckWithin(p.fleet.view.Load().wait))
		}
		s.freeze(3, 4)
		p.notHeld("with the vote of who is elsewhere")
		s.thaw(3, 4)
		p.allUp()
		if got, want := s.membership(1).Seat(0).Memory, s.memory(5); got != want {
			s.Errorf("the first seat lists %s, want who is at its address now, %s", got, want)
		}
	})
}

// A process that may evict locks stands at the address of a master. The lane drops its connection to the process of before with the next
// survey, as for any other process, and the reason that it names is the one that somebody can mend.
func TestAddressThatMovesToARefusedMaster(t *testing.T) {
	inVirtualTime(t, 6, func(s *stage) {
		s.found(first(5), briefly)
		s.do(5, "CONFIG", "SET", "maxmemory", "1000000", "maxmemory-policy", "allkeys-lru")
		p := s.open(first(5), briefly)
		p.exchangePath(0, s.masters[5].Link())
		s.until("it has no vote", func() bool { return p.states()[0] != 'u' })
		if took := time.Since(p.opened); took > member.RecheckWithin(p.fleet.view.Load().wait) {
			s.Errorf("seen after %v, want within %v", took, member.RecheckWithin(p.fleet.view.Load().wait))
		}
		s.until("the reason is named", func() bool { return strings.Contains(p.Masters()[0].Reason, "evict") })
		p.lockable("r")
		s.freeze(3, 4)
		p.notHeld("with the vote of who is elsewhere")
		s.thaw(3, 4)
		s.do(5, "CONFIG", "SET", "maxmemory-policy", "noeviction")
		p.allUp()
	})
}

// Nobody can make sure of an address. The connection lives on, and its votes count no longer than others may take to find that somebody else
// is there. So it is for the whole time that a founding waits.
func TestAddressThatCannotBeMadeSureOf(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly)
		for i := range 3 {
			path := s.masters[i].Link()
			path.Partition()
			p.exchangePath(i, path)
		}
		time.Sleep(member.RecheckWithin(p.fleet.view.Load().wait) / 4)
		p.lockable("r")
		time.Sleep(member.RecheckWithin(p.fleet.view.Load().wait))
		c := p.notHeld("when the time is over in which an address must be made sure of")
		if c.Err != nil && !strings.Contains(c.Err.Error(), "no new connection") {
			s.Errorf("got %v, want an error that says why they do not vote", c.Err)
		}
		for i := range 3 {
			if m := p.Masters()[i]; m.State == MasterUp {
				s.Errorf("master %d is %s, want that it has no vote", i+1, m.State)
			}
		}
		p.heal(0, 1, 2)
		p.allUp()
		p.lockable("r")
	})
}

// Two masters whose addresses are exchanged show the right record, each with a memory that it lists for another seat.
func TestMastersThatExchangeTheirAddresses(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly)
		version := s.membership(2).Version
		p.exchangePath(0, s.masters[1].Link())
		p.exchangePath(1, s.masters[0].Link())
		for i := range 2 {
			s.masters[i].Cut()
		}
		time.Sleep(time.Second)
		if got := p.states(); strings.HasPrefix(got, "u") || got[1] == 'u' {
			s.Errorf("states of the masters: got %s, want no vote of the first two", got)
		}
		s.freeze(4)
		p.notHeld("with a vote of who is elsewhere")
		s.thaw(4)
		if r := s.membership(2); r.Version != version {
			s.Errorf("got version %d of the membership, want none but %d", r.Version, version)
		}
	})
}

// A memory that was lost comes back: the machine was reset to what it was before. It does not vote, and its name is not used again, because
// somebody may still go by a record that lists it.
func TestMemoryOfBeforeDoesNotComeBack(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(briefly), s.open(briefly)
		snapshot, lost := s.masters[0].Snapshot(), s.memory(0)
		s.do(0, "FLUSHALL")
		s.until("quarantine", func() bool { return p.states()[0] == 'q' })
		p.allUp()
		other.allUp()
		second := s.memory(0)
		p.cut(3, 4)
		held := p.lock(one("r", p.opts.MaxTTL))
		s.wantOn("r", held.Token, "11100")
		s.masters[0].Rollback(snapshot)
		s.nobodyElse(held, "r", other, s.start(briefly))
		p.heal(3, 4)
		p.allUp()
		other.lockable("r")
		if third := s.memory(0); third == lost || third == second {
			s.Errorf("the memories were %s, %s and %s, want three", lost, second, third)
		}
	})
}

// A step that a client cannot finish is under way: the master that has accepted it has no vote.
func TestNoVoteBesideAnAcceptedChild(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly)
		s.freeze(3, 4) // the others are too few to end what the first has accepted
		p.align()
		v := s.do(0, "HGET", lua.MembersKey, "v").(string)
		s.freeze(3, 4)
		s.do(0, "HSET", lua.MembersKey, "v", v+" ? 00000001.0000000000000000 "+strings.Repeat("c4", member.DigestLen/2), "a", "nonsense")
		s.until("found", func() bool { return p.states()[0] == 'q' })
		if m := p.Masters()[0]; m.Reason != "a change of the membership is under way" {
			s.Errorf("got the reason %q", m.Reason)
		}
		p.notHeld("with a vote beside an accepted child")
		s.thaw(3, 4)
		p.lockable("r")
	})
}

// A proxy dies in the middle of a step. Another one finds it with its next batch, and finishes it at once.
func TestStepOfADeadProxyIsFinished(t *testing.T) {
	for accepted := range 6 {
		inVirtualTime(t, 5, func(s *stage) {
			const ballot = "00000001.0000000000000000"
			p := s.open(briefly)
			dead := s.proposer()
			child := dead.demotes(1)
			dead.prepare(ballot)
			dead.accept(ballot, child, []int{-1, 0, 1, 2, 3, 4}[:accepted+1]...)
			began := time.Now()
			c := p.lock(one("r", time.Second)) // its batch finds what is under way
			if accepted == 0 {
				c.want(s, "LOCK beside nothing but promises", "held", 0)
				return
			}
			s.until("the step is finished", func() bool { return s.membership(4).Version == 1 })
			if took := time.Since(began); took > 20*ms {
				s.Errorf("%d have accepted: finished after %v, want at once", accepted, took)
			}
			state := member.Voter // what fewer than a quorum have accepted was not chosen
			if accepted >= 3 {
				state = member.Learner
			}
			if got := p.Membership(); got.Version != 1 || got.Seats[1].State != state {
				s.Errorf("%d have accepted: got %+v, want version 1, in which the second master is a %s", accepted, got, state)
			}
		})
	}
}

// A change was chosen, and who made it has told nobody, or a few. Who asks then is not told of the membership before it as one that is settled.
func TestChosenChangeIsSettledBeforeItIsShown(t *testing.T) {
	for told := range 5 {
		inVirtualTime(t, 5, func(s *stage) {
			const ballot = "00000001.0000000000000000"
			s.found(briefly)
			dead := s.proposer()
			child := dead.demotes(1)
			dead.prepare(ballot)
			dead.accept(ballot, child, 0, 1, 2)
			dead.survey.Teach(s.Context(), dead.found(0, 1, 2, 3, 4)[:told], child)
			asks := s.start(briefly)
			s.until("it is settled", func() bool { return asks.Membership().Settled })
			if got := asks.Membership(); got.Version != 1 || got.Seats[1].State != member.Learner {
				s.Errorf("%d were told: got %+v, want the change", told, got)
			}
		})
	}
}

// A wait goes on while nobody watches it: what the masters were told when it began is enough for a proxy that comes later, where a majority of
// all clocks agree. Where they do not, it waits by its own clock.
func TestWaitOutlivesWhoWatchesIt(t *testing.T) {
	for _, off := range []int{0, 2, 3} { // how many clocks are
		inVirtualTime(t, 5, func(s *stage) {
			disagree := off > 2
			change := func(o *Options) { o.MaxTTL, o.ClockSkewMax = 10*time.Second, 500*ms }
			s.found(change)
			for i := range off {
				s.masters[4-i].StepClock(-2 * time.Second)
			}
			p := s.open(change, uncopied)
			wait := p.fleet.view.Load().wait
			forgot := time.Now()
			s.do(0, "FLUSHALL")
			time.Sleep(wait / 2)
			p.Close(s.Context())
			time.Sleep(wait / 4)
			next := s.start(change, uncopied)
			began := time.Now()
			s.until("the first master votes", func() bool { return next.states()[0] == 'u' })
			took, most := time.Since(forgot), wait+2*next.opts.ClockSkewMax+4*next.opts.Heartbeat
			switch {
			case took < wait:
				s.Errorf("it votes %v after it has forgotten, want not before %v", took, wait)
			case disagree && time.Since(began) < wait:
				s.Errorf("three clocks disagree: it votes %v after the only proxy has come, want not before %v", time.Since(began), wait)
			case !disagree && took > most:
				s.Errorf("%d clocks disagree: it votes %v after it has forgotten, want at most %v: the wait has begun anew", off, took, most)
			}
		})
	}
}

// Nobody lives for as long as a wait: one process after the other asks for a lock, and gives up.
func TestShortLivedProxiesGetTheirLock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.founded = true // by nobody
		change := func(o *Options) { o.MaxTTL, o.ClockSkewMax, o.FoundingWait = 10*time.Second, 500*ms, 10*time.Second }
		began := time.Now()
		for time.Since(began) < 25*time.Second {
			p := s.start(change)
			c := p.lock(one("r", time.Second).waits(2 * time.Second))
			p.Close(s.Context())
			if c.Held {
				if took := time.Since(began); took < 10*time.Second {
					s.Errorf("granted after %v, want not before the wait of new masters", took)
				}
				return
			}
		}
		s.Error("nobody was granted the lock, want somebody to be after one wait")
	})
}

// Three of five forget at once, which the next heartbeat finds if nothing else does. Locks are granted again after the wait and two heartbeats more. Where
// the processes are others, it may be that the addresses are, too: then it takes recheckWithin longer.
func TestRecoveryAfterAmnesiaOfThree(t *testing.T) {
	for _, restarted := range redisproc.SomeRaced(1, []bool{false, true}) {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()                                                                                     // with the max_ttl that is the default
			most := p.opts.Heartbeat + p.wait() + member.RecheckWithin(p.wait()) + 2*p.opts.Heartbeat + 10*ms // two pauses between looks
			for i := range 3 {
				if restarted {
					s.masters[i].Crash(false)
					s.masters[i].Restart()
				} else {
					s.do(i, "FLUSHALL")
				}
			}
			began := time.Now()
			time.Sleep(p.opts.MaxTTL)
			p.notHeld("before a lock of before must have ended")
			p.lockable("r")
			if took := time.Since(began); took > most {
				s.Errorf("restarted: %v: locks are granted after %v, want within %v", restarted, took, most)
			}
		})
	}
}

// The log has a problem once, however long it lasts. What is left of it is asked for.
func TestProblemIsLoggedOnce(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		var log journal
		p := s.open(briefly, log.option)
		p.cut(3, 4)
		s.do(0, "FLUSHALL")
		s.do(1, "FLUSHALL")
		s.until("founded anew", func() bool { return s.membership(2).Generation == 2 })
		if got := log.take("the membership is founded anew"); len(got) != 1 {
			s.Errorf("got %d lines of a founding to come, want 1:\n%s", len(got), strings.Join(got, ""))
		}
	})
}

// Too few masters remember the membership, and others may only be slow: a founding has patience.
func TestFoundingHasPatience(t *testing.T) {
	for _, back := range redisproc.SomeRaced(1, []bool{true, false}) {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(briefly)
			wait := p.fleet.view.Load().wait
			p.cut(3, 4)
			forgot := time.Now()
			s.do(0, "FLUSHALL")
			s.do(1, "FLUSHALL")
			s.until("a founding is ahead", func() bool { return strings.Contains(p.Membership().Problem, "the membership is founded anew, in") })
			if back {
				p.heal(3, 4)
				p.allUp()
				if r := s.membership(2); r.Generation != 1 {
					s.Errorf("got generation %d, want no founding", r.Generation)
				}
				return
			}
			s.until("founded anew", func() bool { return s.membership(2).Generation == 2 })
			if took := time.Since(forgot); took < wait-time.Second {
				s.Errorf("founded anew after %v, want not before two have been silent for %v", took, wait)
			}
			p.notHeld("just founded")
			s.until("three vote", func() bool { return strings.HasPrefix(p.states(), "uuu") })
			if took := time.Since(forgot); took < p.opts.MaxTTL {
				s.Errorf("votes after %v, want not before max_ttl", took)
			}
			p.heal(3, 4)
			p.allUp()
			if r := s.membership(4); r.Generation != 2 {
				s.Errorf("the others: got generation %d, want 2", r.Generation)
			}
		})
	}
}

// A membership was chosen, and one master of five was told of it, when a client starts. It has no reason to found another one: the
// others are told in a moment.
func TestFoundingBesideOneThatIsBeingTold(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.found(briefly)
		r := s.membership(0)
		for i := 1; i < 5; i++ {
			s.do(i, "HSET", lua.MembersKey, "v", r.Seats[i].Memory+" - ? "+firstBallot+" "+r.Digest, "a", r.Text)
			s.do(i, "HDEL", lua.MembersKey, "r")
		}
		p := s.start(briefly)
		s.until("it has asked them", func() bool { return p.Membership().Problem != "" })
		for i := 1; i < 5; i++ {
			s.do(i, "HSET", lua.MembersKey, "v", r.ShownBy(r.Seats[i].Memory), "r", r.Text)
		}
		p.allUp()
		if got := s.membership(2); got.Generation != 1 {
			s.Errorf("got generation %d, want that of the membership that was chosen", got.Generation)
		}
	})
}

// To one proxy three addresses mean other machines. It must not found a membership of its own while another proxy hears those that are listed.
func TestFoundingIsVetoedByWhoHears(t *testing.T) {
	redisproc.NotRaced(t)
	inVirtualTime(t, 8, func(s *stage) {
		s.found(first(5), briefly)
		other := s.open(first(5), briefly)
		p := s.open(first(5), briefly)
		for i := 2; i < 5; i++ {
			p.exchangePath(i, s.masters[i+3].Link()).Cut()
		}
		for range 20 {
			time.Sleep(time.Second)
			p.notHeld("with the votes of others' machines")
			other.lockable("r")
		}
		if r := s.membership(0); r.Generation != 1 {
			s.Errorf("got generation %d, want no founding", r.Generation)
		}
		if got := p.Membership().Problem; !strings.Contains(got, "is heard by another redlockd and shows another memory here") {
			s.Errorf("got the problem %q, want that another proxy hears them", got)
		}
		// Nobody hears them any more.
		ended, cancel := context.WithCancel(s.Context())
		cancel()
		other.Close(ended)
		p.allUp()
		if r := s.membership(0); r.Generation != 2 {
			s.Errorf("got generation %d, want a founding", r.Generation)
		}
	})
}

// A lock that waits while max_ttl is lowered is granted no longer than the new one.
func TestLockThatWaitedWhileMaxTTLWasLowered(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxTTL = 10 * time.Second })
		held := p.lock(one("r", 10*time.Second))
		c := p.begin(one("r", 10*time.Second).waits(time.Minute))
		if _, err := p.ChangeMembers(s.Context(), coordinator.Change{SetMaxTTL: 2 * time.Second}, false); err != nil {
			s.Fatal(err)
		}
		p.unlock(held.Token, "r")
		p.finish(c)
		if !c.Held || time.Until(c.Until) > 2*time.Second {
			s.Errorf("got %+v, valid for %v, want held for no more than 2s", c.Result, time.Until(c.Until))
		}
		for i, m := range s.masters {
			if _, left, ok := m.Get("r"); ok && left > padded(2*time.Second) {
				s.Errorf("master %d keeps it for %v, want no more than %v", i+1, left, padded(2*time.Second))
			}
		}
		// Locks of before may still live: the wait is as long as it was until they have ended.
		if got := p.Membership(); got.MaxTTL != 2*time.Second || got.Wait < 10*time.Second || got.WaitLeft == 0 {
			s.Errorf("just lowered: got %+v, want the wait of before", got)
		}
		time.Sleep(11 * time.Second)
		if got := p.Membership(); got.Wait > 3*time.Second || got.WaitLeft != 0 {
			s.Errorf("when they have ended: got %+v, want a shorter wait", got)
		}
	})
}

// Removing two of five makes the quorum smaller: two of those that stay must not grant a fence that is below one of before.
func TestFencesGrowOverARemoval(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(briefly), s.open(briefly)
		p.ahead(time.Hour)
		p.cut(3, 4)
		last := p.fenced("r") // on masters 1, 2, 3
		p.heal(3, 4)
		p.allUp()
		for _, name := range []string{"m1", "m2"} {
			if _, err := p.ChangeMembers(s.Context(), coordinator.Change{Remove: name}, false); err != nil {
				s.Fatal(err)
			}
		}
		for _, x := range []*proxy{p, other} {
			s.until("removed", func() bool { return len(x.Membership().Seats) == 3 })
			x.allUp()
		}
		other.cut(2)
		if got := other.fenced("r"); got <= last { // on masters 4 and 5
			s.Errorf("got the fence %d, and before %d", got, last)
		}
	})
}

// A master shows what a newer redlockd may have written: its process lives, and somebody may count on it. It is refused until it shows something
// else, or is another process. What does not name its process is of nobody who lives.
func TestStateOfANewerVersionIsRefused(t *testing.T) {
	for _, form := range redisproc.SomeRaced(1, []func(v string) string{
		func(v string) string { return v + " newer" },
		func(v string) string { return "2 " + v },
		func(v string) string { return v + strings.Repeat(" ", member.StateMax) },
	}) {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(briefly, uncopied)
			v := s.do(0, "HGET", lua.MembersKey, "v").(string)
			newer := form(v)
			s.do(0, "HSET", lua.MembersKey, "v", newer)
			s.until("refused", func() bool { return p.states() == "ruuuu" })
			other := s.start(briefly, uncopied)
			s.until("refused by another one", func() bool { return other.states() == "ruuuu" })
			for _, x := range []*proxy{p, other} {
				if reason := x.Masters()[0].Reason; !strings.Contains(reason, conn.Sanitize(newer)) || !strings.Contains(reason, "if a newer redlockd uses this master, run its version here too") {
					s.Errorf("got the reason %q, want what it shows, and what to do", reason)
				}
			}
			if reports, _ := ProbeAll(s.Context(), p.options(), time.Second); reports[0].Votes() || reports[0].New {
				s.Errorf("a probe says %+v, want that it does not vote", reports[0].Problems)
			}
			time.Sleep(10 * time.Second)
			p.lockable("r")
			if got := s.do(0, "HGET", lua.MembersKey, "v"); got != newer {
				s.Errorf("it shows %q, want that nothing was written over %q", got, newer)
			}
			s.do(0, "HSET", lua.MembersKey, "v", v)
			p.allUp()
			other.allUp()
			s.do(0, "HSET", lua.MembersKey, "v", newer)
			s.until("refused", func() bool { return p.states() == "ruuuu" })
			s.masters[0].Crash(true) // the text stays, and its process is gone
			s.masters[0].Restart()
			p.allUp()
			s.do(0, "HSET", lua.MembersKey, "v", "nonsense")
			s.until("its memory is lost", func() bool { return p.states() == "quuuu" })
			p.allUp()
		})
	}
}

// The text of the record on one master cannot be read: it is named, votes go on, and the next change writes it anew.
func TestRecordThatCannotBeReadIsNamed(t *testing.T) {
	for _, forge := range []func(r *member.Record) string{
		func(*member.Record) string { return "nonsense" },
		func(r *member.Record) string { return r.Text + strings.Repeat(" ", member.RecordMax) },
		func(r *member.Record) string {
			return changed(r, func(r *member.Record) { r.Seats[0].Addr = "elsewhere:1" }).Text
		},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(briefly)
			s.do(0, "HSET", lua.MembersKey, "r", forge(s.membership(0)))
			s.until("it is named", func() bool {
				return strings.HasPrefix(p.Membership().Problem, "m1: the field r of its redlockd:members, the text of the membership, cannot be read: ")
			})
			p.wantStates("uuuuu")
			s.do(4, "FLUSHALL")
			s.until("it is written anew", func() bool { return p.states() == "uuuuq" && s.membership(0) != nil && p.Membership().Problem == "" })
			p.allUp()
		})
	}
}

// What a master shows that cannot be true is named, and nothing is changed because of it.
func TestMembershipOfOneMasterOnly(t *testing.T) {
	for _, tt := range []struct {
		name  string
		forge func(r *member.Record)
		want  string
	}{
		{"another fleet", func(r *member.Record) { r.Lineage = otherLineage }, "m1: it belongs to another fleet, whose masters are m1, m2, m3, m4, m5"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(briefly)
			digest := s.membership(1).Digest
			forged := changed(s.membership(0), tt.forge)
			s.do(0, "HSET", lua.MembersKey, "v", forged.ShownBy(s.memory(0)), "r", forged.Text)
			time.Sleep(3 * time.Second)
			if got := p.Membership().Problem; !strings.Contains(got, tt.want) {
				s.Errorf("%s: got the problem %q, want %q", tt.name, got, tt.want)
			}
			if got := p.states(); got != "quuuu" {
				s.Errorf("%s: states of the masters: got %s, want quuuu", tt.name, got)
			}
			if r := s.membership(1); r.Digest != digest {
				s.Errorf("%s: the others: got version %d of the membership, want what it was", tt.name, r.Version)
			}
			if r := s.membership(0); r.Digest != forged.Digest {
				s.Errorf("%s: the master itself shows %s, want what it did", tt.name, r.ID())
			}
			p.lockable("r")
		})
	}
}

// A key of another type in the place of the membership is named, until it is gone. Then the master has forgotten, and votes after the wait.
func TestMembershipOfAnotherType(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(briefly)
		s.do(0, "DEL", lua.MembersKey)
		s.do(0, "SET", lua.MembersKey, "x")
		s.until("it is refused", func() bool { return p.states() == "ruu" })
		const want = "its redlockd:members is no membership"
		if got := p.Masters()[0].Reason; !strings.Contains(got, want) {
			s.Errorf("got the reason %q, want %q", got, want)
		}
		digest := s.membership(1).Digest
		time.Sleep(3 * time.Second)
		if got := s.do(0, "GET", lua.MembersKey); got != "x" || s.membership(1).Digest != digest {
			s.Errorf("the key is %v, the membership of the others %q; want that nothing was changed", got, s.membership(1).Digest)
		}
		if err := Bootstrap(s.Context(), s.proxy().options()); err == nil || !strings.Contains(err.Error(), want) {
			s.Errorf("bootstrap: got %v, want %q", err, want)
		}
		p.lockable("r")
		s.do(0, "DEL", lua.MembersKey)
		p.allUp()
	})
}

// Masters that somebody has founded and that wait are as good as new. What is not new stays as it is.
func TestBootstrapOfMastersThatSomebodyWaitsFor(t *testing.T) {
	nobody := func(s *stage) { s.founded = true }
	waits := func(o *Options) { o.FoundingWait = time.Minute }
	flush := func(s *stage) { s.doAll("FLUSHALL") }
	for _, tt := range []struct {
		name  string
		start func(s *stage) (waiting *proxy)
		want  string // "": it is done
	}{
		{"new, and one waits", func(s *stage) *proxy { nobody(s); return s.start(uncopied) }, ""},
		{"new, and two wait", func(s *stage) *proxy { nobody(s); s.start(waits); return s.start(uncopied) }, ""},
		{"known before", func(s *stage) *proxy { p := s.open(uncopied); flush(s); return p }, "it has a membership (version 0): it is not new"},
		{"in force", func(s *stage) *proxy { return s.open(uncopied) }, "it has a membership (version 0): it is not new"},
		{"a lock", func(s *stage) *proxy {
			nobody(s)
			p := s.start(uncopied)
			time.Sleep(2 * time.Second)
			s.do(1, "SET", "r", "T")
			return p
		}, "m2: it holds 1 keys: it is not new"},
		{"a fence", func(s *stage) *proxy {
			nobody(s)
			p := s.start(uncopied)
			time.Sleep(2 * time.Second)
			p.lock(LockRequest{Resources: []string{"r"}, TTL: time.Second, Fence: true})
			return p
		}, "m1: it holds 1 keys: it is not new"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := tt.start(s)
			time.Sleep(3 * time.Second)
			before := s.memberships()
			err := Bootstrap(s.Context(), s.proxy().options())
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "nothing was changed") {
					s.Errorf("%s: got %v, want an error with %q, and that nothing was changed", tt.name, err, tt.want)
				}
				if after := s.memberships(); after != before {
					s.Errorf("%s: memberships: got\n%s\nwant what they were before,\n%s", tt.name, after, before)
				}
				return
			}
			if err != nil {
				s.Fatalf("%s: %v", tt.name, err)
			}
			began := time.Now()
			p.allUp()
			if took := time.Since(began); took > time.Second {
				s.Errorf("%s: who waits has all masters after %v, want soon", tt.name, took)
			}
			p.lockable("r")
		})
	}
}

// The wait of new masters is founding_wait where that is longer than max_ttl needs.
func TestNewMastersWaitForFoundingWait(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.founded = true // by nobody
		p := s.start(func(o *Options) { o.MaxTTL, o.FoundingWait = 2*time.Second, 8*time.Second })
		began := time.Now()
		if err := p.Ready(s.Context()); err != nil {
			s.Fatal(err)
		}
		least, most := 8*time.Second, 8*time.Second+member.RecheckWithin(8*time.Second)+time.Second
		if took := time.Since(began); took < least || took > most {
			s.Errorf("they vote after %v, want from %v to %v", took, least, most)
		}
	})
}
