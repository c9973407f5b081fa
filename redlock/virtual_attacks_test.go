package redlock

// Goal: attacks that gave two clients one lock while masters were known by their names, settings by an agreement among proxies, and quarantines
// by each proxy for itself. Method: the real clients in virtual time. Two or more contend for one resource all the time, each with what it is
// shown of the masters, and no lease may begin while another one runs.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/member"
	"redlockd/redlock/member/coordinator"
	"redlockd/redlock/redisproc"
)

// contest is what clients were granted that want the same resource.
type contest struct {
	s      *stage
	ttl    time.Duration // of their LOCKs
	holder *call
	by     int // who holds it
	grants map[*proxy]int
}

func (s *stage) contest(ttl time.Duration) *contest {
	return &contest{s: s, ttl: ttl, grants: make(map[*proxy]int)}
}

// round has every client try once, and keep what it gets until the lease ends.
func (c *contest) round(clients ...*proxy) {
	c.s.Helper()
	for i, p := range clients {
		lock := p.lock(one("r", min(c.ttl, p.MaxTTL())))
		switch {
		case !lock.Held:
			continue
		case c.holder != nil && time.Now().Before(c.holder.Until):
			c.s.Fatalf("client %d was granted the lock %v before the end of the lease of client %d; masters are %s and %s",
				i, time.Until(c.holder.Until), c.by, p.states(), clients[c.by].states())
		}
		c.holder, c.by = lock, i
		c.grants[p]++
	}
}

// last has them try for some time.
func (c *contest) last(length time.Duration, clients ...*proxy) {
	c.s.Helper()
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(7 * ms) {
		c.round(clients...)
	}
}

// outlast has them try until the lease ends that runs now.
func (c *contest) outlast(clients ...*proxy) {
	c.s.Helper()
	for end := c.holder.Until; time.Now().Before(end); time.Sleep(7 * ms) {
		c.round(clients...)
	}
}

func (c *contest) wantGrants(what string, p *proxy) {
	c.s.Helper()
	if c.grants[p] == 0 {
		c.s.Errorf("%s was granted nothing: the contest proves nothing", what)
	}
	clear(c.grants)
}

// The fifth name comes to mean another Redis while one client stays connected to the one of before. Each client has two of the remaining four.
// The votes of the machine of before end before the one behind the name can get any.
func TestNameThatMovesUnderAConnection(t *testing.T) {
	withSpares(t, 5, 1, func(s *stage) {
		s.found(briefly)
		stays, moved := s.open(briefly), s.open(briefly)
		stays.exchangePath(4, s.masters[5].Link()) // its connection stands
		moved.exchangePath(4, s.masters[5].Link()).Cut()
		stays.cut(2, 3)
		moved.cut(0, 1)
		c := s.contest(500 * ms)
		c.last(member.RecheckWithin(stays.wait())/2, stays, moved)
		c.wantGrants("who stays connected", stays)
		c.last(4*stays.wait(), stays, moved)
		stays.heal(2, 3)
		moved.heal(0, 1)
		for _, p := range []*proxy{stays, moved} {
			p.allUp()
			c.last(time.Second, p)
			c.wantGrants("each one in the end", p)
			if got, want := p.Membership().Seats[4].Memory, s.memory(5); got != want {
				s.Errorf("the fifth seat lists %s, want who is at its address now, %s", got, want)
			}
		}
	})
}

// The fifth name means one Redis to one client, and another one to the other, for good. The one that is heard stays a member, and the client that
// cannot reach it says so.
func TestNameThatMeansTwoMasters(t *testing.T) {
	withSpares(t, 5, 1, func(s *stage) {
		s.found(briefly)
		stays, moved := s.open(briefly), s.open(briefly)
		version := s.membership(0).Version
		time.Sleep(time.Second) // they tell the masters whom they hear
		moved.exchangePath(4, s.masters[5].Link()).Cut()
		c := s.contest(200 * ms)
		c.last(3*stays.wait(), moved, stays)
		c.wantGrants("who moved", moved)
		c.last(time.Second, stays)
		c.wantGrants("who stays", stays)
		moved.wantStates("uuuuq")
		if got := moved.Membership().Problem; !strings.Contains(got, "m5 is heard by another redlockd and shows another memory here") {
			s.Errorf("who moved: got the problem %q, want that the fifth master is another one here", got)
		}
		stays.wantStates("uuuuu")
		if got := s.membership(0); got.Version != version || got.Seat(4).Memory != s.memory(4) {
			s.Errorf("got version %d with %s in the fifth seat, want %d with who is heard", got.Version, got.Seat(4).Memory, version)
		}
	})
}

// A client was granted a lock by the machine of before, and moves when the one behind the new name has its vote, which it has had for others.
// What it learns there at once must not be enough for a second lease.
func TestClientThatMovesLater(t *testing.T) {
	for _, at := range []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second} {
		withSpares(t, 5, 1, func(s *stage) {
			s.found(briefly)
			p, other := s.open(briefly), s.open(briefly)
			other.exchangePath(4, s.masters[5].Link()).Cut()
			p.cut(2, 3)
			c := s.contest(p.opts.MaxTTL)
			c.round(p)
			c.wantGrants("who moves later", p)
			s.wantOn("r", c.holder.Token, "110010")
			c.last(at, other)
			p.exchangePath(4, s.masters[5].Link()).Cut()
			p.heal(2, 3)
			p.cut(0, 1)
			other.cut(0, 1)
			c.outlast(p, other)
			p.heal(0, 1)
			other.heal(0, 1)
			p.allUp()
			other.allUp()
			for _, x := range []*proxy{p, other} {
				if got, want := x.Membership().Seats[4].Memory, s.memory(5); got != want {
					s.Errorf("%v: the fifth seat lists %s, want who is at its address now, %s", at, got, want)
				}
			}
		})
	}
}

// only are the masters that a client is told of, by number.
func only(masters ...int) func(*Options) {
	return func(o *Options) {
		var some []Master
		for _, i := range masters {
			some = append(some, o.Masters[i])
		}
		o.Masters = some
	}
}

// One client knows five masters, and is cut off from two of them for longer than any TTL. Another one has three in its settings, and reaches
// those two. It follows the membership.
func TestTwoListsOfMasters(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.found(briefly)
		five := s.open(briefly)
		c := s.contest(time.Second)
		five.cut(3, 4)
		c.last(2*five.wait(), five)
		c.wantGrants("who knows five", five)

		three := s.start(briefly, only(2, 3, 4))
		three.cut(0, 1, 2)
		c.last(2*five.wait(), five, three)
		if got := c.grants[three]; got > 0 {
			s.Errorf("who reaches two of five was granted %d locks", got)
		}
		c.wantGrants("who knows five", five)
		three.heal(0, 1, 2)
		c.last(2*five.wait(), three, five)
		c.wantGrants("who was told of three", three)
		if got := three.Membership(); len(got.Seats) != 5 || got.Needed != 3 || !strings.Contains(got.Differences, "m1 (m1) is a member, the settings do not name it") {
			s.Errorf("who was told of three: got %+v, want five seats and a difference from its settings", got)
		}
		five.heal(3, 4)
		five.allUp()
		three.allUp()
	})
}

// The same, and those three masters forget everything: they are new to who was told of them alone. It waits, founds a fleet of its own, and
// the other client says that they are of another one.
func TestTwoListsOfMastersThatForget(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.found(briefly)
		five := s.open(briefly)
		c := s.contest(five.opts.MaxTTL)
		five.cut(3, 4)
		c.round(five)
		c.wantGrants("who knows five", five)
		for i := 2; i < 5; i++ {
			s.restart(i)
		}
		three := s.start(briefly, only(2, 3, 4))
		three.cut(0, 1)
		five.cut(2)
		c.outlast(three, five)
		c.last(2*five.wait(), three, five)
		c.wantGrants("who was told of three", three)
		five.heal(2, 3, 4)
		c.last(2*five.wait(), five, three)
		if c.grants[five] > 0 {
			s.Errorf("who knows five was granted %d locks beside the other fleet", c.grants[five])
		}
		if got := five.Membership().Problem; !strings.Contains(got, "belongs to another fleet") {
			s.Errorf("who knows five: got the problem %q, want that three belong to another fleet", got)
		}
	})
}

// Masters restart while long locks run, and all clients that know of those are gone or told of a shorter max_ttl. The wait is that of the
// membership as long as it is remembered, and else founding_wait.
func TestMaxTTLLoweredWhileMastersRestart(t *testing.T) {
	const long, short = 20 * time.Second, 2 * time.Second
	settings := func(max time.Duration) func(*Options) {
		return func(o *Options) { o.MaxTTL, o.FoundingWait, o.ClockSkewMax = max, long+time.Second, 100*ms }
	}
	type testCase struct {
		name     string
		byChange bool          // or by the settings of new clients alone
		apart    time.Duration // pause between two masters that restart
		withData bool
		survives bool // the client of before
	}
	for _, tt := range redisproc.Some(2, []testCase{
		{"settings, one after the other", false, 3 * time.Second, false, false},
		{"change, quickly, with their data", true, 300 * ms, true, true},
		{"settings, one after the other, with their data", false, 3 * time.Second, true, false},
		{"settings, all at once", false, 0, false, false},
		{"settings, all at once, with their data", false, 0, true, false},
		{"settings, all at once, beside one that knows", false, 0, false, true},
		{"settings, quickly", false, 300 * ms, false, false},
		{"change, one after the other", true, 3 * time.Second, false, false},
		{"change, all at once", true, 0, false, false},
		{"change, all at once, beside one that knows", true, 0, false, true},
	}) {
		inVirtualTime(t, 5, func(s *stage) {
			before := s.open(settings(long))
			held := before.lock(one("r", long))
			held.want(s, "LOCK", "held", 0)
			clients := []*proxy{s.open(settings(short))}
			if got := clients[0].Membership(); got.MaxTTL != long || !strings.Contains(got.Differences, "max_ttl is 20s, the settings say 2s") {
				s.Errorf("%s: got %+v, want that the membership has another max_ttl than the settings", tt.name, got)
			}
			if tt.byChange {
				clients[0].change(coordinator.Change{SetMaxTTL: short})
				if got := clients[0].MaxTTL(); got != short {
					s.Errorf("%s: max_ttl is %v, want %v", tt.name, got, short)
				}
			}
			if tt.survives {
				clients = append(clients, before)
			} else {
				before.kill()
			}
			c := s.contest(short)
			c.holder = held
			for i, m := range s.masters {
				m.Crash(tt.withData)
				m.Restart()
				c.last(tt.apart, clients...)
				if i == 2 { // and one that knows nothing but its settings
					clients = append(clients, s.start(settings(short)))
				}
			}
			c.outlast(clients...)
			for i, p := range clients {
				p.allUp()
				c.last(short, p)
				c.wantGrants(fmt.Sprintf("%s: client %d, in the end,", tt.name, i), p)
				c.outlast()
			}
		})
	}
}

// What is wrong with the membership is told with its true cause: a master that may evict is no other memory, and neither is one that only
// this client cannot reach. The log has the end, too.
func TestProblemsOfTheMembershipNameTheCause(t *testing.T) {
	for _, tt := range []struct {
		name         string
		happen, undo func(s *stage, p *proxy)
		want         string
	}{
		{"a policy that evicts", func(s *stage, _ *proxy) {
			s.do(3, "CONFIG", "SET", "maxmemory", "100000000", "maxmemory-policy", "allkeys-lru")
		}, func(s *stage, _ *proxy) { s.do(3, "CONFIG", "SET", "maxmemory-policy", "noeviction") },
			"m4 gets no vote: it may evict locks when its memory is full: maxmemory-policy is allkeys-lru, set noeviction"},
		{"cut off", func(_ *stage, p *proxy) { p.paths[3].Partition() }, func(_ *stage, p *proxy) { p.paths[3].Heal() },
			"m4 is heard by another redlockd and cannot be reached from here (no answer while connecting): see the network between"},
		{"frozen", func(s *stage, _ *proxy) { s.freeze(3) }, func(s *stage, _ *proxy) { s.thaw(3) }, ""},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			var log journal
			p := s.open(maxTTL(2*time.Second), log.option)
			s.open(maxTTL(2 * time.Second))
			tt.happen(s, p)
			time.Sleep(20 * time.Second)
			if got := p.Membership().Problem; !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				s.Errorf("%s: got the problem %q, want %q", tt.name, got, tt.want)
			}
			tt.undo(s, p)
			time.Sleep(20 * time.Second)
			lines := log.take("problem=")
			if got := p.Membership().Problem; got != "" {
				s.Errorf("%s: got the problem %q, want none when it is over", tt.name, got)
			}
			if tt.want != "" && (len(lines) != 2 || !strings.Contains(lines[0], "problem=\""+tt.want) || !strings.Contains(lines[1], `msg="membership problem is resolved"`)) ||
				tt.want == "" && len(lines) > 0 {
				s.Errorf("%s: log: got\n%s\nwant the problem, and its end", tt.name, strings.Join(lines, ""))
			}
		})
	}
}
