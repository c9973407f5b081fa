package redlock

// Goal: silence is no amnesia. What hangs for less than the wait costs no more than the hang, whatever else has forgotten meanwhile; what is lost
// for good costs two waits, or an operator's word. Method: in virtual time, masters hang beside those that forget or leave.

import (
	"strings"
	"testing"
	"time"

	"redlockd/redlock/member/coordinator"
	"redlockd/redlock/redisproc"
)

// founding is the number of the founding whose membership is in force.
func (p *proxy) founding() string {
	number, _, _ := strings.Cut(p.Membership().Lineage, "-")
	return number
}

// wantProblem waits until the membership has a problem with this text, and returns it.
func (p *proxy) wantProblem(want string) string {
	p.s.Helper()
	p.s.until("a problem is told: "+want, func() bool { return strings.Contains(p.Membership().Problem, want) })
	return p.Membership().Problem
}

// A seat leaves, and counts in the quorum until it has left. A master hangs meanwhile: three of four seats are needed, and two are there. That is no
// loss, so the held lock stays, and locks are granted again when the master is back.
func TestHangBesideARemoval(t *testing.T) {
	for _, hang := range []time.Duration{2 * time.Second, 6 * time.Second, 30 * time.Second} {
		withSpares(t, 3, 1, func(s *stage) {
			p := s.open()
			p.change(coordinator.Change{Add: "m4", Addr: addrOf(3)})
			p.allUp()
			held := p.lock(one("held", time.Minute))
			held.want(s, "LOCK", "held", 0)
			p.change(coordinator.Change{Remove: "m4"})
			s.freeze(0)
			time.Sleep(hang)
			s.thaw(0)
			p.lockableWithin(time.Second, "r")
			if got := p.founding(); got != "1" {
				s.Errorf("a hang of %v: the membership is of founding %s, want the first", hang, got)
			}
			if c := p.extend(held.Token, time.Minute, "held"); !c.Held {
				s.Errorf("a hang of %v: EXTEND of what was held got %+v", hang, c.Result)
			}
		})
	}
}

// One of three hangs, and another one restarts empty.
func TestHangBesideARestart(t *testing.T) {
	for _, hang := range []time.Duration{2 * time.Second, 7 * time.Second, 18 * time.Second} {
		inVirtualTime(t, 3, func(s *stage) {
			p := s.open(maxTTL(20 * time.Second))
			time.Sleep(p.wait() + time.Second) // it has heard all for longer than that
			held := p.lock(one("held", 20*time.Second))
			held.want(s, "LOCK", "held", 0)
			s.freeze(0)
			s.restart(1)
			p.wantProblem("some are silent that may: m1 (since ")
			time.Sleep(hang)
			s.thaw(0)
			p.lockableWithin(time.Second, "r")
			if got := p.founding(); got != "1" {
				s.Errorf("a hang of %v: the membership is of founding %s, want the first", hang, got)
			}
			p.extend(held.Token, 20*time.Second, "held").want(s, "EXTEND of what was held", "held", 0)
		})
	}
}

// What does not come back costs the wait before the founding, and the founding's. A client that has just started has heard nobody yet.
func TestSilenceForGood(t *testing.T) {
	redisproc.NotRaced(t)
	for name, starts := range map[string]bool{"a client that runs": false, "one that starts": true} {
		inVirtualTime(t, 3, func(s *stage) {
			p := s.open(maxTTL(20 * time.Second))
			s.freeze(0)
			s.restart(1)
			wait, began := p.wait(), time.Now()
			if starts {
				p.kill()
				p = s.start(maxTTL(20 * time.Second))
			}
			p.wantProblem("`redlockd members refound` ends this at once; unless they come back, the membership is founded anew, in ")
			s.until("it is founded anew", func() bool { return p.founding() == "2" })
			if took := time.Since(began); took < wait-2*time.Second || took > wait+10*time.Second {
				s.Errorf("%s: founded anew after %v, want about the wait of %v", name, took, wait)
			}
			p.lockable("r")
			if took := time.Since(began); took > 2*wait+15*time.Second {
				s.Errorf("%s: locks are granted after %v, want about twice the wait of %v", name, took, wait)
			}
		})
	}
}

// A client that cannot reach a master goes on to the record that needs fewer of them, and whose quorum it reaches.
func TestRemovalBesideAMasterOutOfReach(t *testing.T) {
	removalOutOfReach(t, func(s *stage, p *proxy) { p.lockable("r") })
}

// A client was cut off from a master for longer than a wait, and others were not. When that hangs, its silence begins.
func TestSilenceHeardByOthers(t *testing.T) {
	removalOutOfReach(t, func(s *stage, p *proxy) {
		s.freeze(3)
		s.restart(0)
		time.Sleep(p.wait() / 2)
		if got := p.founding(); got != "1" {
			s.Errorf("the membership is of founding %s, want the first", got)
		}
	})
}

// removalOutOfReach removes m3 of m1 to m4 while p cannot reach m4.
func removalOutOfReach(t *testing.T, then func(s *stage, p *proxy)) {
	withSpares(t, 3, 1, func(s *stage) {
		p := s.open(maxTTL(20*time.Second), uncopied)
		other := s.open(maxTTL(20*time.Second), uncopied)
		p.change(coordinator.Change{Add: "m4", Addr: addrOf(3)})
		p.allUp()
		p.cut(3)
		time.Sleep(p.wait() + time.Second)
		other.change(coordinator.Change{Remove: "m3"})
		s.until("m3 is removed", func() bool { return len(p.Membership().Seats) == 3 })
		then(s, p)
	})
}

// An operator knows that the silent one is gone.
func TestRefoundEndsTheSilence(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(maxTTL(20 * time.Second))
		s.lose(0)
		s.restart(1)
		p.wantProblem("m1 (since ")
		if plan := s.refound(0, 1, 2); plan.Already {
			s.Errorf("got that it is so already")
		}
		s.until("it is founded anew", func() bool { return p.founding() == "2" })
		wait := p.wait()
		p.lockableWithin(wait+time.Second, "r")
	})
}

// Where so many have forgotten that there can be no quorum any more, nobody is waited for.
func TestAmnesiaOfAMajorityIsNoSilence(t *testing.T) {
	for name, lose := range map[string]func(s *stage){
		"all restart empty":                      func(s *stage) { s.restartAll() },
		"three of five, and two hang":            func(s *stage) { s.freeze(3, 4); s.restart(0); s.restart(1); s.restart(2) },
		"two of five, and a third one leaves":    func(s *stage) { s.freeze(4); s.restart(0); s.restart(1) },
		"a learner that hangs, and three forget": func(s *stage) { s.restart(3); s.freeze(3); s.restart(0); s.restart(1); s.restart(2) },
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(uncopied)
			if strings.Contains(name, "leaves") {
				p.change(coordinator.Change{Remove: "m5"})
			}
			began := time.Now()
			lose(s)
			s.until("it is founded anew", func() bool { return p.founding() == "2" })
			if took := time.Since(began); took > 5*time.Second {
				s.Errorf("%s: founded anew after %v, want at once", name, took)
			}
		})
	}
}

func (s *stage) restartAll() {
	for i := range s.masters {
		s.restart(i)
	}
}

// A first founding wants all masters that the settings name, for as long as it would take: a wrong address is shown, and can be corrected,
// before anything is written.
func TestFirstFoundingWantsAll(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		s.founded = true // by nobody
		p := s.start(maxTTL(20*time.Second), func(o *Options) { o.Masters[2].Addr = "typo" })
		problem := p.wantProblem("not all masters that the settings name are there: start typo (since ")
		if !strings.Contains(problem, "`redlockd bootstrap --anyway`") {
			s.Errorf("got %q, want what to do", problem)
		}
		time.Sleep(18 * time.Second)
		if got := s.memberships(); strings.Contains(got, ".0 ") || p.Membership().Known {
			s.Errorf("founded without one of three:\n%s", got)
		}
		p.kill()
		right := s.start(maxTTL(20 * time.Second))
		s.until("founded with all", func() bool { return right.Membership().Known })
		if took := time.Since(right.opened); took > 5*time.Second {
			s.Errorf("all are there, and it is founded after %v", took)
		}

	})
	inVirtualTime(t, 3, func(s *stage) {
		s.founded = true // by nobody
		s.freeze(2)
		p := s.start(maxTTL(20 * time.Second))
		p.lockable("r") // unattended
		if took, wait := time.Since(p.opened), p.wait(); took > 2*wait+10*time.Second {
			s.Errorf("locks are granted after %v, want about twice the wait of %v", took, wait)
		}
	})
}
