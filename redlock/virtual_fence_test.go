package redlock

// Goal: fences grow from grant to grant, whichever proxy grants, however far apart their clocks are, and whatever the masters forget,
// as long as a quorum of them remembers. Method: virtual time, proxies that believe to live in the future.

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"redlockd/redlock/fence"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
)

// fenced is a LOCK with a fence, and its UNLOCK.
func (p *proxy) fenced(resources ...string) int64 {
	p.s.Helper()
	c := p.lock(LockRequest{Resources: resources, TTL: time.Second, Fence: true})
	if !c.Held || c.Fence <= 0 || c.Fence >= 1<<53 {
		p.s.Fatalf("LOCK with a fence: got %+v, want held with a fence below 2^53", c.Result)
	}
	p.unlock(c.Token, resources...)
	return c.Fence
}

// ahead sets the proxy's clock for fences ahead of everybody's.
func (p *proxy) ahead(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fences.Observe(fence.Time(time.Now().Add(d)), time.Now())
}

// A fence must be above every mark on the masters that grant, also where only one of them remembers it.
func TestOneMasterRemembersTheFence(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.ahead(time.Hour)
		for i := 3; i < 5; i++ {
			p.paths[i].Partition()
			p.paths[i].Cut()
		}
		fence := p.fenced("r") // on masters 1, 2, 3
		for i := range 2 {
			other.paths[i].Partition()
			other.paths[i].Cut()
		}
		if got := other.fenced("r"); got <= fence { // on masters 3, 4, 5
			s.Errorf("got the fence %d, and before %d", got, fence)
		}
	})
}

// A master that has forgotten its marks gets a floor from those that have not, before it votes again.
func TestFenceSurvivesAmnesia(t *testing.T) {
	for _, f := range forgetting {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(func(o *Options) { o.MaxTTL = time.Second })
			other := s.open(func(o *Options) { o.MaxTTL = time.Second })
			before := s.remember()
			time.Sleep(2 * time.Second)
			p.ahead(time.Hour)
			for i := 3; i < 5; i++ {
				p.paths[i].Partition()
				p.paths[i].Cut()
			}
			fence := p.fenced("r") // on masters 1, 2, 3
			for i := 3; i < 5; i++ {
				p.paths[i].Heal()
			}
			p.allUp()
			f.forget(s, 0, before)
			s.until("quarantine", func() bool { return p.Masters()[0].State == MasterQuarantined })
			p.allUp()
			other.allUp()
			for i := 1; i < 3; i++ { // those that remember are out of reach
				other.paths[i].Partition()
				other.paths[i].Cut()
			}
			if got := other.fenced("r"); got <= fence {
				s.Errorf("%s: got the fence %d, and before %d", f.name, got, fence)
			}
		})
	}
}

// When all masters forget, the floor is above the fences of a proxy whose clock is ahead by as much as clocks may differ, and that
// keeps as much ahead again. The log says so; it cannot tell masters that have forgotten from new ones.
func TestColdFloorIsAboveEveryFence(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		brief := func(o *Options) { o.MaxTTL, o.ClockSkewMax = 200*ms, 10*time.Second }
		var log journal
		p, other := s.open(brief, log.option), s.open(brief, log.option)
		p.fences.Ahead = 2 * p.fences.AheadMax
		lock := func(p *proxy) int64 {
			c := p.lock(LockRequest{Resources: []string{"r"}, TTL: 200 * ms, Fence: true})
			if !c.Held {
				s.Fatalf("LOCK with a fence: got %+v, want held", c.Result)
			}
			p.unlock(c.Token, "r")
			return c.Fence
		}
		fence := lock(p)
		for i := range s.masters {
			s.do(i, "FLUSHALL")
		}
		s.until("quarantine", func() bool { return other.states() == "qqqqq" })
		other.allUp()
		if got := lock(other); got <= fence {
			s.Errorf("got the fence %d, and before %d", got, fence)
		}
		if lines := log.take("fences trust clocks once"); len(lines) == 0 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "to_do=") {
			s.Errorf("the log says %q, want a warning that fences trust clocks once, and what to do", lines)
		}
	})
}

// Marks are bounded. A resource whose mark was pushed out is held against the floor.
func TestForgottenMarksRaiseTheFloor(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.FenceMarks = 10 })
		other := s.open()
		p.ahead(time.Hour)
		first := p.fenced("first")
		for i := range 10 + 2*fenceSlack {
			p.fenced("r" + string(rune('a'+i%26)) + string(rune('a'+i/26)))
		}
		if n := s.do(0, "ZCARD", lua.MarksKey).(int64); n > 10+fenceSlack {
			s.Errorf("marks: got %d, want at most %d", n, 10+fenceSlack)
		}
		if mark := s.do(0, "ZSCORE", lua.MarksKey, "first"); mark != nil {
			s.Fatalf("the oldest mark is still there: %v", mark)
		}
		if got := other.fenced("first"); got <= first {
			s.Errorf("got the fence %d for a resource that was forgotten, and before %d", got, first)
		}
	})
}

// A master compares a fence with the marks that it has forgotten; then another proxy admits it, and raises its floor; then it executes the
// checks at the end of the same pipeline, which show the new record. The vote must not count.
func TestFenceComparedBeforeTheAdmission(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		brief := func(o *Options) {
			o.MaxTTL, o.MasterTimeout, o.Heartbeat, o.noCopy = 20*time.Second, 500*ms, 10*ms, true
		}
		other := s.open(brief)
		hold := make(chan struct{})
		release := sync.OnceFunc(func() { close(hold) })
		s.Cleanup(release)
		p := s.open(brief, func(o *Options) {
			dial := o.Masters[0].Dialer
			o.Masters[0].Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				return &split{conn, hold}, err
			}
			o.Heartbeat = 10 * time.Second
		})
		other.ahead(time.Hour)
		other.paths[2].Partition()
		other.paths[2].Cut()
		s.until("one down", func() bool { return other.states() == "uud" })
		last := other.fenced("r") // on masters 1 and 2
		other.paths[2].Heal()
		other.allUp()

		s.do(0, "FLUSHALL")
		s.until("quarantine", func() bool { return other.states() == "quu" })
		p.lock(one("x", time.Second)) // p sees it too
		s.until("quarantine", func() bool { return p.states() == "quu" })
		time.Sleep(other.Masters()[0].Left - 20*ms)
		c := p.begin(LockRequest{Resources: []string{"r"}, TTL: time.Second, Fence: true})
		if _, _, ok := s.masters[0].Get("r"); !ok || s.do(0, "GET", lua.FloorKey) != nil {
			s.Fatalf("the first master has %q, want the lock, and no floor yet", s.masters[0].Keys())
		}
		s.until("admitted", func() bool { return other.states() == "uuu" })
		if c.done.Load() {
			s.Fatalf("LOCK ended before the checks of the first master were executed: %+v", c.Result)
		}
		release()
		p.finish(c)
		// The step may have ended the round; what must not be is a grant with a fence that is too low.
		if c.Held && c.Fence <= last {
			s.Errorf("got %+v, want a fence above %d, which another has", c.Result, last)
		}
	})
}

// split holds back the checks behind a fence until it may send them.
type split struct {
	net.Conn
	hold chan struct{}
}

func (c *split) Write(b []byte) (int, error) {
	checks := bytes.Index(b, member.TrailerCommands)
	if checks < 0 || !bytes.Contains(b, []byte(lua.Acquire.SHA)) {
		return c.Conn.Write(b)
	}
	n, err := c.Conn.Write(b[:checks])
	if err != nil {
		return n, err
	}
	<-c.hold
	rest, err := c.Conn.Write(b[checks:])
	return n + rest, err
}
