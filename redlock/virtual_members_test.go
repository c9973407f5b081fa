package redlock

// Attacks on the membership, in virtual time: names that come to mean other masters, settings that differ, masters that forget at the worst
// moment, proxies that are behind. Each test is one story, and says which rule it is about.

import (
	"context"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/coordinator"
	"redlockd/redlock/member/survey"
	"redlockd/redlock/redisproc"
)

// withSpares runs a test with masters that the options name, which vote at once, and spare ones.
func withSpares(t *testing.T, named, spare int, test func(s *stage)) {
	t.Helper()
	inVirtualTime(t, named+spare, func(s *stage) {
		s.named = named
		test(s)
	})
}

// maxTTL is an option of a client.
func maxTTL(d time.Duration) func(*Options) { return func(o *Options) { o.MaxTTL = d } }

// kill ends the client at once.
func (p *proxy) kill() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	p.Close(ended)
}

// change makes a change of the membership that must succeed.
func (p *proxy) change(change coordinator.Change) {
	p.s.Helper()
	if _, err := p.ChangeMembers(p.s.Context(), change, false); err != nil {
		p.s.Fatalf("%+v: %v", change, err)
	}
}

// wait is the wait in force.
func (p *proxy) wait() time.Duration { return p.Membership().Wait }

// lockableWithin waits until the resource can be locked, and fails if that takes longer.
func (p *proxy) lockableWithin(limit time.Duration, resource string) {
	p.s.Helper()
	began := time.Now()
	p.lockable(resource)
	if took := time.Since(began); took > limit {
		p.s.Errorf("%s could be locked after %v, want within %v", resource, took, limit)
	}
}

// Three of five forget. A proposer seats one of them again, and dies when one master has accepted its child: a quorum of those that the child lists
// is there. The founding must not take that child over: too few of those that could choose it are.
func TestFoundingOverAnAcceptedChild(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(2 * time.Second))
		child := p.fleet.view.Load().record.Child()
		for i := 2; i < 5; i++ {
			s.do(i, "FLUSHALL")
		}
		dead := s.proposer()
		child.Seats[4].Memory, child.Seats[4].State, child.Seats[4].Since = dead.found(4)[0].State.Memory, member.Learner, child.Version
		dead.prepare(firstBallot, 0)
		dead.accept(firstBallot, child.Seal(), 0)
		p.lockableWithin(p.wait()+2*time.Second, "r")
		p.allUp()
		if got := p.Membership().Lineage; !strings.HasPrefix(got, "2-") {
			s.Errorf("got the lineage %s, want that of a second founding", got)
		}
	})
}

// A proxy is cut off while three of five seats get other masters, at other addresses. When it is back it finds the record in force, although the
// masters that it knows are no majority any more.
func TestProxyThatMissedThreeReplacements(t *testing.T) {
	withSpares(t, 5, 3, func(s *stage) {
		p, other := s.open(maxTTL(2*time.Second)), s.open(maxTTL(2*time.Second))
		for _, path := range p.paths {
			path.Partition()
		}
		for i := 2; i < 5; i++ {
			other.change(coordinator.Change{Replace: addrOf(i), Addr: addrOf(i + 3)})
			other.allUp()
			s.masters[i].Crash(false) // it is switched off
		}
		for _, path := range p.paths {
			path.Heal()
		}
		p.lockableWithin(3*time.Second, "r")
		if got, want := p.Membership().Version, other.Membership().Version; got != want {
			s.Errorf("version of the membership: got %d, want %d", got, want)
		}
	})
}

// A master stays connected and takes no new connections. The addresses of the others must be made sure of all the same: their votes count.
func TestMasterThatTakesNoNewConnections(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(2 * time.Second))
		hung := s.masters[4].Link()
		hung.Partition()
		p.exchangePath(4, hung)
		missed, began := 0, time.Now()
		for time.Since(began) < 20*time.Second {
			c := p.lock(one("r", time.Second))
			if !c.Held {
				missed++
			} else {
				p.unlock(c.Token, "r")
			}
			time.Sleep(100 * ms)
		}
		if missed > 0 {
			s.Errorf("%d of 200 LOCKs were refused, want none", missed)
		}
		hung.Heal()
	})
}

// promiseAll has all masters promise a ballot that nobody can outbid: no step is chosen until forgetPromises.
func (s *stage) promiseAll() {
	for i := range s.masters {
		s.do(i, "HSET", lua.MembersKey, "p", "99999999.ffffffffffffffff")
	}
}

func (s *stage) forgetPromises() {
	for i := range s.masters {
		s.do(i, "HDEL", lua.MembersKey, "p")
	}
}

// A seat that is called after its first address gets another one, and the settings of some redlockds say so by now. Back at the first address,
// these would look for its master where it was meanwhile.
func TestSeatDoesNotReturnToItsName(t *testing.T) {
	withSpares(t, 3, 1, func(s *stage) {
		p := s.open(maxTTL(time.Second))
		p.change(coordinator.Change{Replace: addrOf(2), Addr: addrOf(2)}) // it is there
		p.change(coordinator.Change{Replace: addrOf(2), Addr: addrOf(3)})
		p.allUp()
		s.do(2, "FLUSHALL")
		before := p.Membership().Version
		_, err := p.ChangeMembers(s.Context(), coordinator.Change{Replace: addrOf(2), Addr: addrOf(2)}, false)
		if err == nil || !strings.Contains(err.Error(), "add a seat of another name at m3") {
			s.Errorf("got %v, want that it is refused, and what to do", err)
		}
		if got := p.Membership().Version; got != before {
			s.Errorf("version of the membership: got %d, want %d as before", got, before)
		}
	})
}

// A change that its caller has given up is not made later.
func TestChangeThatWasGivenUpIsNotMade(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(2 * time.Second))
		s.promiseAll()
		ctx, cancel := context.WithTimeout(s.Context(), 3*time.Second)
		defer cancel()
		if _, err := p.ChangeMembers(ctx, coordinator.Change{SetMaxTTL: 10 * time.Second}, false); err == nil {
			s.Error("a change while no step can be chosen: got no error")
		}
		s.forgetPromises()
		time.Sleep(10 * time.Second)
		if got := p.MaxTTL(); got != 2*time.Second {
			s.Errorf("max_ttl: got %v, want it as it was", got)
		}
	})
}

// Two ask for changes through one client while no step can be chosen. Both are told how theirs ended.
func TestTwoChangesThroughOneClient(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(2 * time.Second))
		s.promiseAll()
		done := make(chan error, 2)
		for i := range 2 {
			go func() {
				time.Sleep(time.Duration(i) * time.Second)
				_, err := p.ChangeMembers(s.Context(), coordinator.Change{SetMaxTTL: time.Duration(4+i) * time.Second}, false)
				done <- err
			}()
		}
		time.Sleep(5 * time.Second)
		s.forgetPromises()
		for range 2 {
			select {
			case err := <-done:
				if err != nil {
					s.Error(err)
				}
			case <-time.After(time.Minute):
				s.Fatal("a caller has not been told within a minute how its change ended")
			}
		}
		if got := p.MaxTTL(); got != 5*time.Second {
			s.Errorf("max_ttl: got %v, want that of the second change, 5s", got)
		}
	})
}

// All masters forget while a change waits. The founding is not the change: its caller is not told that it was made.
func TestFoundingIsNotTheChange(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(2 * time.Second))
		s.promiseAll()
		ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := p.ChangeMembers(ctx, coordinator.Change{SetMaxTTL: 4 * time.Second}, false)
			done <- err
		}()
		time.Sleep(time.Second)
		for i := range s.masters {
			s.do(i, "FLUSHALL")
		}
		if err := <-done; err == nil && p.MaxTTL() != 4*time.Second {
			s.Errorf("the change was reported as made, and max_ttl is %v", p.MaxTTL())
		}
		p.lockable("r")
	})
}

// A founding that came to nothing: one master has accepted it, its founder is gone, and a quorum of the masters still remembers. The step that
// ends it is a child without a change.
func TestFoundingThatCameToNothing(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(2 * time.Second))
		dead := s.proposer()
		r := p.fleet.view.Load().record.Child()
		r.Generation, r.Lineage, r.Version, r.Parent = r.Generation+1, r.Lineage[:member.FleetLen]+member.Nonce()[member.FleetLen:], 0, ""
		for i := range r.Seats {
			r.Seats[i].Since = 0
			if i > 1 {
				r.Seats[i].Memory = member.NewMemory("elsewhere")
			}
			r.Seats[i].State = member.Learner
		}
		if _, err := member.ParseRecord(r.Seal().Text); err != nil {
			s.Fatal(err)
		}
		dead.accept(firstBallot, r, 0)
		time.Sleep(2 * time.Second)
		p.wantStates("uuuuu")
		if got := s.do(0, "HGET", lua.MembersKey, "v").(string); strings.Contains(got, " ? ") {
			s.Errorf("m1 shows %q after 2 s, want it settled", got)
		}
	})
}

// A proxy that was cut off while max_ttl was raised, and comes back when all masters have forgotten, does not know how long locks may live. It
// waits for founding_wait. While it may still go by the membership of before, nobody gets a longer lock.
func TestFoundingByAProxyThatWasCutOff(t *testing.T) {
	redisproc.NotRaced(t)
	inVirtualTime(t, 5, func(s *stage) {
		slow := func(o *Options) { o.MaxTTL, o.FoundingWait = 2*time.Second, 30*time.Second }
		s.found(maxTTL(2 * time.Second))
		p, other := s.open(slow), s.open(slow)
		for _, path := range p.paths {
			path.Partition()
		}
		time.Sleep(5 * time.Second)
		other.change(coordinator.Change{SetMaxTTL: 20 * time.Second})
		held := other.lock(one("r", 20*time.Second).waits(time.Minute))
		wantHeld(s, "LOCK", held)
		other.kill()
		for i := range s.masters {
			s.do(i, "FLUSHALL")
		}
		for _, path := range p.paths {
			path.Heal()
		}
		for time.Now().Before(held.Until) {
			if c := p.lock(one("r", time.Second)); c.Held && time.Now().Before(held.Until) {
				s.Fatalf("another got the resource %v before the end of the first lease", time.Until(held.Until))
			}
			time.Sleep(50 * ms)
		}
		p.lockable("r")
	})
}

// Masters are removed from a client that has run for a while. It goes on looking at those that stay: at their clocks, and whether they evict.
func TestHeartbeatsGoOnAfterARemoval(t *testing.T) {
	inVirtualTime(t, 7, func(s *stage) {
		p := s.open(maxTTL(time.Second))
		time.Sleep(time.Minute)
		for range 2 {
			seats := p.Membership().Seats
			p.change(coordinator.Change{Remove: seats[len(seats)-1].Name})
			s.until("it is removed", func() bool { return len(p.Membership().Seats) < len(seats) })
		}
		for i := range 5 {
			before := s.do(i, "HGET", lua.MembersKey, "beat")
			time.Sleep(2 * p.opts.Heartbeat)
			if after := s.do(i, "HGET", lua.MembersKey, "beat"); after == before {
				s.Errorf("master %d: its beat was %v before two heartbeats, and is %v", i+1, before, after)
			}
		}
		p.lock(one("r", time.Second)).want(s, "LOCK", "held", 0)
	})
}

// A proxy that is some records behind hears a master that its record lists, and another one by now does not. That must not keep those who know better from a
// founding for ever.
func TestProxyThatIsBehindVetoesNothing(t *testing.T) {
	withSpares(t, 5, 1, func(s *stage) {
		s.found(maxTTL(2 * time.Second))
		p, behind := s.open(maxTTL(2*time.Second)), s.open(maxTTL(2*time.Second))
		behind.cut(0, 1, 2, 3, 4)
		p.exchangePath(0, s.masters[5].Link()).Cut()
		before := p.Membership().Seats[0].Memory
		s.until("the first seat has another master", func() bool { return p.Membership().Seats[0].Memory != before })
		p.allUp()
		// The name means the first machine again, and three others forget.
		p.exchangePath(0, s.masters[0].Link()).Cut()
		for i := 1; i < 4; i++ {
			s.masters[i].Crash(false)
			s.masters[i].Restart()
		}
		behind.heal(0, 1, 2, 3, 4)
		for _, x := range []*proxy{p, behind} {
			x.allUp()
			x.lockable("r")
		}
	})
}

// A seat gets another master. The one that it had is among those that chose that, and forgets; the client that asked for it dies when it has told two of
// the others. Nobody is left who knows, and neither record has a quorum: the newer one was chosen, or nobody would have been told.
func TestStepThatFewWereToldOf(t *testing.T) {
	for _, known := range []bool{false, true} {
		withSpares(t, 5, 1, func(s *stage) {
			const ballot = "00000001.0000000000000000"
			s.found(maxTTL(2 * time.Second))
			next := func(o *Options) { o.Masters[4].Name, o.Masters[4].Addr = addrOf(4), addrOf(5) }
			p := s.proxy() // only to name the memory of the sixth master
			one := survey.Ask(s.Context(), map[int]Master{4: {Addr: addrOf(5), Dialer: p.dial}}, survey.Patience{Enough: 1}, p.options().withDefaults().members())
			memory := one.Reports[0].State.Memory
			one.Close()
			var behind *proxy
			if known {
				behind = s.open(maxTTL(2 * time.Second))
				behind.cut(0, 1, 2, 3, 4)
			}
			dead := s.proposer()
			child := dead.parent.Child()
			seat := child.Seat(4)
			seat.Addr, seat.Memory, seat.State, seat.Since = addrOf(5), memory, member.Learner, child.Version
			child.Seal()
			dead.prepare(ballot, 0, 1, 4)
			dead.accept(ballot, child, 0, 1, 4)
			dead.survey.Teach(s.Context(), dead.found(0, 1), child)
			s.do(4, "FLUSHALL")
			clients := []*proxy{behind}
			if known {
				behind.heal(0, 1, 2, 3, 4)
			} else {
				clients[0] = s.start(maxTTL(2*time.Second), next)
			}
			for _, x := range clients {
				s.until("the sixth master votes", func() bool { return x.Membership().Version == child.Version+1 })
				x.allUp()
				x.lockable("r")
				if got := x.Membership(); got.Version != child.Version+1 || got.Seats[4].Memory != memory {
					s.Errorf("known before: %v: got %+v, want the sixth master in the fifth seat", known, got)
				}
			}
		})
	}
}
