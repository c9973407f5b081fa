package redlock

// Goal: no change that an operator asks for takes the quorum away, and one that would is refused with the numbers and changes nothing.
// Method: masters that are dead, wait for their vote, or belong to another fleet, in virtual time.

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/member"
	"redlockd/redlock/member/coordinator"
	"redlockd/redlock/memmaster"
)

// refuses asks for a change, first in a dry run, and expects both to be refused with this text, and the membership to stay as it is.
func (p *proxy) refuses(change coordinator.Change, want string) {
	p.s.Helper()
	before := p.Membership()
	for _, dryRun := range []bool{true, false} {
		if what, err := p.ChangeMembers(p.s.Context(), change, dryRun); err == nil || !strings.Contains(err.Error(), want) {
			p.s.Errorf("%+v, dry run %v: got %q, %v; want it refused: %s", change, dryRun, what, err, want)
		}
	}
	if after := p.Membership(); after.Version != before.Version || after.Lineage != before.Lineage {
		p.s.Errorf("%+v: the membership was version %d of %s, and is version %d of %s", change, before.Version, before.Lineage, after.Version, after.Lineage)
	}
}

// crash has masters die, and waits until the client knows.
func (p *proxy) crash(masters ...int) {
	p.s.Helper()
	for _, i := range masters {
		p.s.masters[i].Crash(false)
	}
	p.s.until("they are down", func() bool {
		for _, i := range masters {
			if p.Masters()[i].State != MasterDown {
				return false
			}
		}
		return true
	})
}

// Masters are dead, and without one more there would be no quorum, for locks as for records.
func TestChangesWithDeadMasters(t *testing.T) {
	t.Run("two of five", func(t *testing.T) {
		withSpares(t, 5, 2, func(s *stage) {
			p := s.open(maxTTL(2*time.Second), uncopied)
			p.crash(3, 4)
			const numbers = "3 of 5 masters vote now, m4 is not reached, m5 is not reached; without m1, 2 would vote and 3 are needed: bring back a master that does not vote, wait for its vote, or replace it first"
			p.refuses(coordinator.Change{Remove: "m1"}, numbers)
			p.refuses(coordinator.Change{Replace: "m1", Addr: addrOf(5)}, numbers)
			p.refuses(coordinator.Change{Add: "m6", Addr: addrOf(5)},
				"3 of 5 masters vote now, m4 is not reached, m5 is not reached; with m6, which does not vote at once, 3 would vote and 4 are needed: bring back a master that does not vote, wait for its vote, or replace it first")
			p.lock(one("r", time.Second)).want(s, "LOCK", "held", 0)
			// The dead ones can be replaced and removed.
			what, err := p.ChangeMembers(s.Context(), coordinator.Change{Replace: "m4", Addr: addrOf(5)}, false)
			if err != nil || strings.Contains(what, "fewer") {
				s.Fatalf("replace: got %q, %v; want it done, without a master fewer that may fail", what, err)
			}
			p.lock(one("r2", time.Second)).want(s, "LOCK while the new master waits", "held", 0)
			p.refuses(coordinator.Change{Remove: "m1"}, "3 of 5 masters vote now, m4 waits for its vote, m5 is not reached; without m1, 2 would vote and 3 are needed: "+
				"bring back a master that does not vote, wait for its vote, or replace it first")
			p.change(coordinator.Change{Remove: "m5"})
			s.until("the dead one is removed", func() bool { return len(p.Membership().Seats) == 4 })
			p.allUp()
			p.change(coordinator.Change{Remove: "m1"})
			p.lockable("r3")
		})
	})
	t.Run("one of three", func(t *testing.T) {
		withSpares(t, 3, 1, func(s *stage) {
			p := s.open(maxTTL(2*time.Second), uncopied)
			p.crash(2)
			p.refuses(coordinator.Change{Remove: "m1"}, "2 of 3 masters vote now, m3 is not reached; without m1, 1 would vote and 2 are needed: bring back a master that does not vote, wait for its vote, or replace it first")
			p.refuses(coordinator.Change{Add: "m4", Addr: addrOf(3)},
				"2 of 3 masters vote now, m3 is not reached; with m4, which does not vote at once, 2 would vote and 3 are needed: bring back a master that does not vote, wait for its vote, or replace it first")
			p.lock(one("r", time.Second)).want(s, "LOCK", "held", 0)
			p.change(coordinator.Change{Replace: "m3", Addr: addrOf(3)})
			p.allUp()
			p.lock(one("r2", time.Second)).want(s, "LOCK", "held", 0)
		})
	})
	t.Run("one that may not vote", func(t *testing.T) {
		inVirtualTime(t, 3, func(s *stage) {
			p := s.open(maxTTL(2*time.Second), uncopied)
			s.do(2, "CONFIG", "SET", "maxmemory", "1000000", "maxmemory-policy", "allkeys-lru")
			p.refuses(coordinator.Change{Remove: "m1"}, "2 of 3 masters vote now, m3 is refused: it may evict locks when its memory is full: maxmemory-policy is allkeys-lru, set noeviction; "+
				"without m1, 1 would vote and 2 are needed: bring back a master that does not vote, wait for its vote, or replace it first")
		})
	})
	t.Run("the only one", func(t *testing.T) {
		withSpares(t, 1, 1, func(s *stage) {
			p := s.open(maxTTL(2*time.Second), uncopied)
			p.refuses(coordinator.Change{Replace: "m1", Addr: addrOf(1)}, "1 of 1 masters vote now; without m1, 0 would vote and 1 are needed: one master cannot be replaced")
			p.refuses(coordinator.Change{Remove: "m1"}, "m1 is the only seat")
		})
	})
}

// Masters that have restarted wait for their vote. They are no help until then.
func TestChangesWhileMastersWait(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(2*time.Second), uncopied)
		p.crash(3, 4)
		s.masters[3].Restart()
		s.masters[4].Restart()
		s.until("they are learners", func() bool {
			seats := p.Membership().Seats
			return seats[3].State == member.Learner && seats[4].State == member.Learner && p.Membership().Settled
		})
		p.refuses(coordinator.Change{Remove: "m1"}, "3 of 5 masters vote now, m4 waits for its vote, m5 waits for its vote; without m1, 2 would vote and 3 are needed: bring back a master that does not vote, wait for its vote, or replace it first")
		p.allUp()
		p.change(coordinator.Change{Remove: "m1"})
		p.change(coordinator.Change{Remove: "m2"})
		p.refuses(coordinator.Change{Remove: "m3"}, "3 of 5 masters vote now, m1 is leaving, m2 is leaving; without m3, 2 would vote and 3 are needed: bring back a master that does not vote, wait for its vote, or replace it first")
	})
}

// Two of five are dead. One of them is removed, although the other one cannot be told of the fences of before; a quorum that it is in when it is
// back has a member that was told.
func TestRemovalBesideADeadVoter(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(2 * time.Second))
		p.ahead(time.Hour)
		p.cut(3, 4)
		last := p.fenced("r") // on masters 1, 2, 3
		p.change(coordinator.Change{Remove: "m5"})
		s.until("it is removed", func() bool { return len(p.Membership().Seats) == 4 })
		p.heal(3)
		p.allUp()
		p.cut(0)
		if got := p.fenced("r"); got <= last {
			s.Errorf("got the fence %d, and before %d", got, last)
		}
	})
}

// Until a new master votes, one master fewer may fail: where the quorum grows with the seat, and where another one's vote has ended for it.
func TestFewerMayFailUntilANewMasterVotes(t *testing.T) {
	withSpares(t, 3, 2, func(s *stage) {
		p := s.open(maxTTL(2 * time.Second))
		fewer := func(change coordinator.Change, want bool) {
			s.Helper()
			what, err := p.ChangeMembers(s.Context(), change, true)
			if got := strings.Contains(what, fmt.Sprintf("%v; until it votes, one master fewer may fail", p.wait())); err != nil || got != want {
				s.Errorf("%d seats, %+v: got %q, %v; want that one fewer may fail: %v", len(p.Membership().Seats), change, what, err, want)
			}
		}
		fewer(coordinator.Change{Add: "new", Addr: addrOf(3)}, true)
		fewer(coordinator.Change{Replace: "m2", Addr: addrOf(3)}, true)
		p.change(coordinator.Change{Add: "new", Addr: addrOf(3)})
		p.allUp()
		fewer(coordinator.Change{Add: "newer", Addr: addrOf(4)}, false)
		p.crash(1)
		fewer(coordinator.Change{Replace: "m2", Addr: addrOf(4)}, false)
	})
}

// A client that has just started and whose masters are far away waits for all of them before it says that some are not reached.
func TestChangeWaitsForFarMasters(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		far := func(o *Options) { o.MaxTTL, o.MasterTimeout, o.ConnectTimeout = 10*time.Second, 500*ms, 5*time.Second }
		s.found(far)
		p := s.start(far)
		p.delay(40*ms, 40*ms, 3, 4)
		s.until("the membership is known", func() bool { return p.Membership().Settled })
		p.change(coordinator.Change{Remove: "m1"})
	})
}

// A dry run only reads from the new master, and the change itself leaves no key of its own there.
func TestDryRunWritesNothing(t *testing.T) {
	withSpares(t, 3, 2, func(s *stage) {
		p := s.open(maxTTL(2 * time.Second))
		for _, dryRun := range []bool{true, false} {
			var sent []string
			s.masters[3].SetObserver(func(e *memmaster.Executed) { sent = append(sent, strings.ToUpper(string(e.Args[0]))) })
			what, err := p.ChangeMembers(s.Context(), coordinator.Change{Replace: "m2", Addr: addrOf(3)}, dryRun)
			s.masters[3].SetObserver(nil)
			if err != nil || !strings.HasPrefix(what, "m2 is the master at m4") {
				s.Fatalf("dry run %v: got %q, %v", dryRun, what, err)
			}
			if writes := slices.Contains(sent, "SET") || slices.Contains(sent, "EVAL"); writes == dryRun {
				s.Errorf("dry run %v: the new master was sent %v", dryRun, sent)
			}
			for _, key := range s.masters[3].Keys() {
				if dryRun || strings.Contains(key, "probe") {
					s.Errorf("dry run %v: the new master has the key %s", dryRun, key)
				}
			}
		}
		p.allUp()
	})
}

// A master that shows anything of another fleet is not seated, also where that fleet is idle, and where the master has restarted since.
func TestMasterOfAnotherFleetIsNotSeated(t *testing.T) {
	withSpares(t, 3, 3, func(s *stage) {
		other := s.proxy().options()
		other.Masters = nil
		for i := 3; i < 6; i++ {
			other.Masters = append(other.Masters, Master{Addr: addrOf(i), Dialer: s.proxy().dial})
		}
		if err := Bootstrap(s.Context(), other); err != nil {
			s.Fatal(err)
		}
		p := s.open(maxTTL(2 * time.Second))
		both := func(want string) {
			s.Helper()
			want = "the master at m4 cannot be seated: " + want
			p.refuses(coordinator.Change{Replace: "m2", Addr: addrOf(3)}, want)
			p.refuses(coordinator.Change{Add: "m7", Addr: addrOf(3)}, want)
		}
		both("it belongs to another fleet, whose masters are m4, m5, m6: name another master, or, if that fleet is gone, run FLUSHALL on this one")
		s.masters[3].Crash(true)
		s.masters[3].Restart()
		both("before it restarted it belonged to another fleet, whose masters are m4, m5, m6: name another master")
		s.do(3, "FLUSHALL")
		p.change(coordinator.Change{Replace: "m2", Addr: addrOf(3)})
	})
}

// Two operators change the membership at the same time. Whoever has decided before the other's change is told of that.
func TestChangeBesideAnotherOperator(t *testing.T) {
	withSpares(t, 5, 1, func(s *stage) {
		p, other := s.open(maxTTL(2*time.Second)), s.open(maxTTL(2*time.Second))
		for _, tt := range []struct {
			change coordinator.Change
			want   string
		}{
			{coordinator.Change{SetMaxTTL: 3 * time.Second}, "max_ttl is 3s now"},
			{coordinator.Change{Replace: "m2", Addr: addrOf(5)}, "m2 is at m6 now"},
			{coordinator.Change{Remove: "m4"}, "m4 is leaving"},
		} {
			p.allUp()
			s.promiseAll()
			done := make(chan error, 1)
			go func() {
				_, err := p.ChangeMembers(s.Context(), coordinator.Change{Remove: "m5"}, false)
				done <- err
			}()
			time.Sleep(time.Second) // it is decided, and cannot be chosen
			p.cut(0, 1, 2, 3, 4)
			s.forgetPromises()
			other.change(tt.change)
			p.heal(0, 1, 2, 3, 4)
			if err := <-done; err == nil || !strings.HasPrefix(err.Error(), tt.want+": somebody else has changed the membership meanwhile") {
				s.Errorf("%+v: got %v, want %s", tt.change, err, tt.want)
			}
			if got := p.Membership().Seats[4].State; got == member.Leaving {
				s.Errorf("%+v: m5 is %s, want that the refusal has changed nothing", tt.change, got)
			}
		}
	})
}

// A step was chosen and nobody has told the masters, or only some: those that show something else do not vote.
func TestProbeOfMastersThatAreBehind(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.found()
		dead := s.proposer()
		members := func(want string) {
			s.Helper()
			reports, membership := ProbeAll(s.Context(), dead.options(), 3*time.Second)
			var got []string
			for i := range reports {
				got = append(got, reports[i].Member)
			}
			if strings.Join(got, " ") != want || membership.Unreached() != 0 {
				s.Errorf("got %s, %d voters that are not reached; want %s, none", got, membership.Unreached(), want)
			}
		}
		const ballot = "00000001.0000000000000000"
		child := dead.demotes(4)
		dead.prepare(ballot, 0, 1, 2)
		dead.accept(ballot, child, 0, 1, 2)
		members("behind behind behind voter voter") // a vote beside an accepted child does not count
		dead.survey.Teach(s.Context(), dead.found(0, 1, 2), child)
		members("voter voter voter behind behind")
	})
}
