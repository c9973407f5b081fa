package redlock

// Goal: a commit of what was watched is made only if nobody has changed it since, as far as each master knows, and by a quorum. Method: keys
// that are changed behind the reading, on all masters or on some, at the very moment or later, and masters that do not answer; virtual time.

import (
	"testing"
	"time"
)

// watch reads keys as WATCH does, for the second time if before is what was read the first time.
func (p *proxy) watch(before []State, keys ...string) []State {
	p.s.Helper()
	c := &call{began: time.Now()}
	StartWatch(p.Client, &c.Op, keys, before, c)
	if p.finish(c); c.Err != nil {
		p.s.Fatal(c.Err)
	}
	return c.States
}

// watched is what the masters say of keys in both readings.
func (p *proxy) watched(keys ...string) []State {
	p.s.Helper()
	first := p.watch(nil, keys...)
	time.Sleep(WatchPause)
	return p.watch(first, keys...)
}

func TestWatchedKeys(t *testing.T) {
	drop := func(st State) Change {
		return Change{Resource: "r", Was: WasValue, Value: "v", Seen: st.Seen, Do: Delete}
	}
	again := func(s *stage, masters ...int) { // released, and set by another with the same value and TTL
		s.doOn(masters, "DEL", "r")
		s.doOn(masters, "SET", "r", "v", "PX", "10000")
	}
	all := []int{0, 1, 2, 3, 4}
	for name, tt := range map[string]struct {
		between func(s *stage)
		result  string
		left    string // the masters that hold it afterwards
	}{
		"nobody has changed it":                      {func(*stage) {}, "held", "00000"},
		"it was set again at the moment":             {func(s *stage) { again(s, all...) }, "no", "11111"},
		"it was set again on a majority":             {func(s *stage) { again(s, 0, 1, 2) }, "no", "11100"},
		"it was set again on a minority":             {func(s *stage) { again(s, 0, 4) }, "held", "10001"},
		"it was set again for less":                  {func(s *stage) { s.doAll("DEL", "r"); s.doAll("SET", "r", "v", "PX", "9000") }, "no", "11111"},
		"its end was moved":                          {func(s *stage) { s.doAll("PEXPIRE", "r", "20000") }, "no", "11111"},
		"it never ends now":                          {func(s *stage) { s.doAll("SET", "r", "v") }, "no", "11111"},
		"another holds it":                           {func(s *stage) { s.doAll("SET", "r", "w", "PX", "10000") }, "no", "00000"},
		"it is gone":                                 {func(s *stage) { s.doAll("DEL", "r") }, "no", "00000"},
		"it is gone on a minority":                   {func(s *stage) { s.doOn([]int{1, 2}, "DEL", "r") }, "held", "00000"},
		"two masters are silent, and others changed": {func(s *stage) { s.freeze(3, 4); again(s, 0) }, "masters voted", "10011"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			s.doAll("SET", "r", "v", "PX", "10000")
			states := p.watched("r")
			tt.between(s)
			c := p.commit(drop(states[0]))
			got := "no"
			if c.Held {
				got = "held"
			}
			if c.Err != nil {
				got = "masters voted"
			}
			if got != tt.result {
				s.Errorf("%s: got %s (%v), want %s", name, got, c.Err, tt.result)
			}
			time.Sleep(ms)
			if left := s.on("r", "v"); left != tt.left {
				s.Errorf("%s: masters that hold it then: %s, want %s", name, left, tt.left)
			}
		})
	}
	// What is changed between the two readings counts as changed, though it ends at another time in the second one and from then on.
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doAll("SET", "r", "v", "PX", "10000")
		first := p.watch(nil, "r")
		time.Sleep(WatchPause)
		again(s, 0, 1, 2, 3, 4)
		p.commit(drop(p.watch(first, "r")[0])).want(s, "a commit behind a change between the readings", "no", 0)
		s.wantOn("r", "v", "11111")
		// A master that has not answered both does not take part, and one that has, late, does.
		s.freeze(3)
		p.delay(0, 2*ms, 4)
		states := p.watched("r")
		s.thaw(3)
		p.delay(0, 0, 4)
		time.Sleep(10 * ms)
		if seen := states[0].Seen; seen(4) == endUnknown || seen(3) != endUnknown || seen(5) != endUnknown {
			t.Errorf("the ends on the masters: %d on the fifth, %d on the fourth, %d on none", seen(4), seen(3), seen(5))
		}
		p.commit(drop(states[0])).want(s, "a commit", "held", 0)
		s.wantOn("r", "v", "00010")
		if n := p.Stats(); n.Released != 1 || n.Granted != 0 || n.Denied != 0 {
			s.Errorf("%d are counted as released, %d as granted, %d as denied; want 1, 0, 0", n.Released, n.Granted, n.Denied)
		}
	})
}

// A master that is slower than the others takes part, too.
func TestSlowMastersTakePart(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.delay(0, 20*ms, 3)
		began := time.Now()
		if p.watched("free"); time.Since(began) != WatchPause {
			s.Errorf("a free key was watched within %v, want no wait for the slow one", time.Since(began))
		}
		s.doAll("SET", "r", "v", "PX", "10000")
		states := p.watched("r")
		c := p.commit(Change{Resource: "r", Was: WasValue, Value: "v", Seen: states[0].Seen, Do: Delete})
		time.Sleep(50 * ms)
		if left := s.on("r", "v"); !c.Held || left != "00000" {
			s.Errorf("got %+v, masters that hold it then: %s, want none", c.Result, left)
		}
	})
}
