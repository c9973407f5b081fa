package redlock

// Goal: a floor or a mark that no proxy has given, on a minority of masters, ends no fences, is not copied to other masters, and is
// repaired as the reason says. Method: virtual time, and values that are written to a master from outside; one run with real servers.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/fence"
	"redlockd/redlock/lua"
	"redlockd/redlock/redisproc"

	"github.com/redis/go-redis/v9"
)

// falseFence is what somebody writes to a master.
var falseFence = []struct {
	name string
	args []any
	says string // in the reason
}{
	{"a floor above all", []any{"SET", lua.FloorKey, int64(1<<53 - 1)}, "its redlockd:floor is 9007199254740991, which no proxy has given"},
	{"a floor that is no number", []any{"SET", lua.FloorKey, "abc"}, "its redlockd:floor is abc, which no proxy has given"},
	{"a floor beyond 64 bits", []any{"SET", lua.FloorKey, "99999999999999999999"}, "its redlockd:floor is 99999999999999999999,"},
	{"a floor that is a sorted set", []any{"ZADD", lua.FloorKey, 1, "b"}, "its redlockd:floor is no string,"},
	{"a mark above all", []any{"ZADD", lua.MarksKey, int64(1<<53 - 1), "r"}, "its highest mark in redlockd:marks is 9007199254740991,"},
	{"a mark without a bound", []any{"ZADD", lua.MarksKey, "inf", "r"}, "its highest mark in redlockd:marks is +Inf,"},
	{"marks that are a string", []any{"SET", lua.MarksKey, "abc"}, "its redlockd:marks is no sorted set,"},
}

func TestFalseFencesAreNotBelieved(t *testing.T) {
	for _, f := range falseFence {
		inVirtualTime(t, 5, func(s *stage) {
			change := func(o *Options) { o.MaxTTL = time.Second }
			p, other := s.open(change), s.open(change)
			last := p.fenced("r")
			s.do(0, "DEL", lua.FloorKey, lua.MarksKey)
			s.do(0, f.args...)
			spoiled := time.Now()

			// Before a heartbeat has seen it. The other proxy's clock is ahead, so a fence of p is too low on the good masters too.
			other.ahead(time.Hour)
			for _, who := range []*proxy{other, p} {
				who.delay(0, ms, 1, 2, 3, 4) // the master whose fences are false answers first
				number := who.fenced("r")
				who.delay(0, 0, 1, 2, 3, 4)
				if number <= last || number > fence.Time(time.Now().Add(2*time.Hour)) {
					s.Errorf("%s: got the fence %d, want more than %d and no more than two hours ahead", f.name, number, last)
				}
				last = number
			}

			// A heartbeat refuses the master.
			s.until("refused", func() bool { return p.states() == "ruuuu" && other.states() == "ruuuu" })
			if since := p.Masters()[0].Since; since.Before(spoiled) {
				s.Errorf("%s: refused since %v before its fences were false", f.name, spoiled.Sub(since))
			}
			if reason := p.Masters()[0].Reason; !strings.Contains(reason, f.says) || !strings.Contains(reason, "DEL redlockd:floor redlockd:marks redlockd:members") {
				s.Errorf("%s: the reason is %q, want it to say %q, and what to do", f.name, reason, f.says)
			}

			// It is not copied to one that has forgotten.
			s.do(1, "FLUSHALL")
			s.until("quarantine", func() bool { return p.states()[1] == 'q' && other.states()[1] == 'q' })
			s.until("admitted", func() bool { return p.states() == "ruuuu" && other.states() == "ruuuu" })
			if floor, _ := redis.NewCmdResult(s.do(1, "GET", lua.FloorKey), nil).Int64(); floor != last {
				s.Errorf("%s: the floor of a master that has forgotten is %d, want %d", f.name, floor, last)
			}
			for _, who := range []*proxy{p, other, s.start(change)} {
				s.until("4 masters up", func() bool { return who.states() == "ruuuu" })
				number := who.fenced("r")
				if number <= last || number > fence.Time(time.Now().Add(2*time.Hour)) {
					s.Errorf("%s: got the fence %d, want more than %d and no more than two hours ahead", f.name, number, last)
				}
				last = number
			}

			// The operator does as he is told.
			s.do(0, "DEL", lua.FloorKey, lua.MarksKey, lua.MembersKey)
			p.allUp()
			other.allUp()
			for i := 1; i < 3; i++ { // the repaired master is needed now
				p.paths[i].Partition()
				p.paths[i].Cut()
			}
			s.until("two down", func() bool { return p.states() == "udduu" })
			if fence := p.fenced("r"); fence <= last {
				s.Errorf("%s: repaired: got the fence %d, and before %d", f.name, fence, last)
			}
		})
	}
}

// An operator who only deletes what is false deletes what is true with it: the master learns it anew.
func TestFalseFloorDeletedWithoutTheMembership(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxTTL = time.Second })
		p.fenced("r")
		time.Sleep(time.Second)
		s.do(0, "SET", lua.FloorKey, int64(1<<53-1))
		s.until("refused", func() bool { return p.states() == "ruu" })
		s.do(0, "DEL", lua.FloorKey, lua.MarksKey)
		s.until("quarantine", func() bool { return p.states() == "quu" })
		p.allUp()
		if mark := s.do(0, "GET", lua.FloorKey); mark == nil {
			s.Error("it has no floor, want the highest mark of the others")
		}
	})
}

// A floor within the bound is believed, and fences go on above it.
func TestFloorWithinADayIsBelieved(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, other := s.open(), s.open()
		last := p.fenced("r")
		floor := fence.Time(time.Now().Add(23 * time.Hour))
		s.doOn([]int{0, 1}, "SET", lua.FloorKey, floor)
		for i := range 10 {
			who := []*proxy{p, other}[i%2]
			fence := who.fenced("r")
			if fence <= last || fence <= floor {
				s.Fatalf("grant %d: got the fence %d, want more than %d and than the floor %d", i, fence, last, floor)
			}
			last = fence
			time.Sleep(time.Second)
		}
		p.wantStates("uuu")
	})
}

// A proxy whose clock is two days ahead founds the membership: the masters do not take the floor that follows from its clock. A proxy whose clock
// is right has them vote, and fences are given.
func TestFloorOfAWrongClockIsRefused(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.founded = true // by nobody
		wrong := s.start(brief, withFaults, func(o *Options) { o.clockFaults.Ahead.Store(int64(48 * time.Hour)) })
		floors := func() {
			for i := range s.masters {
				if floor, _ := redis.NewCmdResult(s.do(i, "GET", lua.FloorKey), nil).Int64(); floor > fence.Time(time.Now().Add(fence.AheadMax)) {
					s.Fatalf("master %d: its floor %d is %v ahead of its clock", i+1, floor, fenceSpan(floor-fence.Time(time.Now())))
				}
			}
		}
		const words = "fences of before, and these are more than 24h0m0s ahead of its clock. The clock of this machine less that of m5 is 48h0m0s: correct"
		s.until("it says what is wrong", func() bool { return strings.Contains(wrong.Membership().Problem, words) })
		time.Sleep(time.Minute)
		floors()
		right := s.start(brief)
		right.allUp()
		floors()
		last := int64(0)
		for range 3 {
			number := right.fenced("r")
			if number <= last || number > fence.Time(time.Now().Add(time.Hour)) {
				s.Errorf("got the fence %d, want more than %d and no more than an hour ahead", number, last)
			}
			last = number
		}
		if problem := right.Membership().Problem; problem != "" {
			s.Errorf("the proxy whose clock is right complains: %s", problem)
		}
	})
}

// A master whose clock is two days behind can give no fence above those of before. It gets no vote, and the others do.
func TestOneClockThatIsBehindKeepsNobodyFromVoting(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.founded = true // by nobody
		s.masters[2].StepClock(-48 * time.Hour)
		p := s.start(brief)
		s.until("four vote", func() bool { return strings.Count(p.states(), "u") == 4 })
		s.until("it says why", func() bool { return strings.Contains(p.Membership().Problem, "m3 gets no vote from here") })
		p.fenced("r")
		s.masters[2].StepClock(48 * time.Hour)
		p.allUp()
	})
}

// fenceSpan is a difference of fences as time.
func fenceSpan(fences int64) time.Duration { return time.Duration(fences>>fence.CounterBits) * ms }

// Between what is believed and what is refused, a master abstains from fences: proxies whose clocks differ do not refuse each other's.
func TestFloorOfAnotherClockIsNotRefused(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, other := s.open(), s.open()
		p.delay(ms, ms, 1, 2) // so that what the first master says is known when the others have answered
		other.delay(ms, ms, 1, 2)
		s.do(0, "SET", lua.FloorKey, fence.Time(time.Now().Add(fence.AheadMax)))
		time.Sleep(p.opts.ClockSkewMax / 2)
		p.wantStates("uuu")
		other.ahead(time.Hour)
		for _, who := range []*proxy{other, p} { // the fence of p is too low on all three, and it has to go above that of the other
			if number := who.fenced("r"); number > fence.Time(time.Now().Add(2*time.Hour)) {
				s.Errorf("got the fence %d, want it above those of the other masters only", number)
			}
		}
		p.paths[1].Partition()
		p.paths[1].Cut()
		s.until("the clock has passed it", func() bool {
			c := p.lock(LockRequest{Resources: []string{"r"}, TTL: time.Second, Fence: true})
			p.unlock(c.Token, "r")
			return c.Held && c.Fence > fence.Time(time.Now().Add(20*time.Hour))
		})
	})
}

// LOCKINFO shows no mark that cannot be.
func TestFalseMarkIsNotShown(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(func(o *Options) { o.Heartbeat = 10 * time.Second })
		fence := p.fenced("r")
		for _, score := range []any{int64(1<<53 - 1), "inf", "-inf", -1} {
			s.do(0, "ZADD", lua.MarksKey, score, "r")
			info, err := p.Inspect(context.Background(), "r")
			if err != nil || info.Fence != fence {
				s.Errorf("mark %v: got the fence %d, %v, want %d", score, info.Fence, err, fence)
			}
			if err := info.Votes[0].Err; err == nil || !strings.Contains(err.Error(), "mark in redlockd:marks is") {
				s.Errorf("mark %v: the master says %v, want that its mark is false", score, err)
			}
		}
	})
}

// A proxy whose own clock was years ahead gives fences again when that is mended.
func TestFenceClockThatWasAhead(t *testing.T) {
	var f fence.Clock
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if got, want := f.Next(now.AddDate(5, 0, 0)), fence.Time(now.AddDate(5, 0, 0)); got != want {
		t.Fatalf("got %d, want %d", got, want)
	}
	if got, want := f.Next(now), fence.Time(now); got != want {
		t.Errorf("five years back: got %d, want %d", got, want)
	}
	f.Observe(fence.HighestBelieved(now, time.Second), now)
	if got, want := f.Next(now), fence.HighestBelieved(now, time.Second)+1; got != want {
		t.Errorf("above a mark that is believed: got %d, want %d", got, want)
	}
}

func TestRealFalseFloor(t *testing.T) {
	servers := redisproc.StartForTest(t, 3)
	a, b := openReal(t, servers, brief), openReal(t, servers, brief)
	allUp(t, a)
	allUp(t, b)
	ctx := context.Background()
	outside := dialServer(t, servers[0].Addr)
	last := fencedPair(t, a, "k")
	if err := outside.Set(ctx, lua.FloorKey, int64(1<<53-1), 0).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "contended", func() error { // a busy machine may hold up masters, or let the first lock run out
		req := LockRequest{Resources: []string{"k"}, TTL: time.Second, Fence: true}
		held, err := a.Acquire(ctx, req)
		if err != nil {
			return fmt.Errorf("the first: %w", err)
		}
		second, err := b.Acquire(ctx, req)
		switch {
		case err == nil && held.Validity() > 0:
			t.Errorf("contended: the second got the lock %v before the end of the first one", held.Validity())
		case err == nil:
			second.Unlock(ctx)
			return errors.New("the first lock has run out")
		case !errors.Is(err, ErrHeld):
			return fmt.Errorf("the second: got %w, want %w", err, ErrHeld)
		}
		held.Unlock(ctx)
		return nil
	})
	refused := func(c *Client) {
		t.Helper()
		eventually(t, "one refused", func() error {
			if m := c.Masters()[0]; m.State != MasterRefused {
				return errors.New(string(m.State) + m.Reason)
			}
			return nil
		})
	}
	refused(a)
	refused(b)
	var opts Options
	for _, s := range servers {
		opts.Masters = append(opts.Masters, Master{Addr: s.Addr})
	}
	opts.MaxTTL = time.Second
	reports, _ := ProbeAll(ctx, opts, time.Minute)
	if report := reports[0]; report.Votes() || !strings.Contains(report.Problems[len(report.Problems)-1].Reason, "its redlockd:floor is 9007199254740991") {
		t.Errorf("a probe says %+v, want that its floor is false", report.Problems)
	}
	fresh := openReal(t, servers, brief)
	for _, c := range []*Client{a, b, fresh} {
		number := fencedPair(t, c, "k")
		if number <= last || number > fence.Time(time.Now().Add(time.Hour)) {
			t.Errorf("got the fence %d, want more than %d and no more than an hour ahead", number, last)
		}
		last = number
	}
	if err := outside.Del(ctx, lua.FloorKey, lua.MarksKey, lua.MembersKey).Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Client{a, b, fresh} {
		allUp(t, c)
	}
	servers[1].Kill() // the repaired master is needed now
	if fence := fencedPair(t, a, "k"); fence <= last {
		t.Errorf("repaired: got the fence %d, and before %d", fence, last)
	}
}
