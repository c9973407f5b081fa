package redlock

// Goal: a master that has missed changes of a value is given the one that counts, and what may count, or come to, is never replaced. Method: masters
// that hold something else when a change is made; virtual time. Versions.tla has the orders of events.

import (
	"encoding/binary"
	"math"
	"testing"
	"time"
)

// versionOf is a value of this lineage and generation; name tells it from others.
func versionOf(lineage string, generation uint16, name string) string {
	b := append([]byte(VersionMark+"h"), (lineage + "       ")[:7]...)
	b = binary.BigEndian.AppendUint16(b, generation)
	return string(append(b, (name + "       ")[:7]...)) + "|" + name
}

func TestMissedChangesAreMadeUp(t *testing.T) {
	held := versionOf("a", 257, "held")
	made := versionOf("a", 258, "made")
	for name, tt := range map[string]struct {
		holds string
		late  bool // its answer comes after the decision
		want  string
	}{
		"the same generation":             {versionOf("a", 258, "rival"), false, made},
		"a lower generation":              {versionOf("a", 255, "missed"), false, made},
		"a lower generation, late":        {versionOf("a", 255, "missed"), true, made},
		"a higher generation":             {versionOf("a", 259, "later"), false, versionOf("a", 259, "later")},
		"a higher generation, first byte": {versionOf("a", 513, "later"), false, versionOf("a", 513, "later")},
		"another lineage":                 {versionOf("b", 3, "other"), false, versionOf("b", 3, "other")},
		"another lineage, late":           {versionOf("b", 3, "other"), true, versionOf("b", 3, "other")},
		"a token":                         {longValue, false, longValue},
		"the beginning of a version":      {VersionMark + "ha", false, VersionMark + "ha"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			s.doAll("SET", "r", held, "PX", "10000")
			s.do(1, "SET", "r", tt.holds, "PX", "10000")
			s.do(3, "SET", "r", tt.holds, "PX", "10000")
			if tt.late {
				p.delay(0, 2*ms, 1, 3)
			}
			p.commit(rotate("r", held, made, 20*time.Second)).want(s, name, "held", 0)
			time.Sleep(5 * ms)
			s.wantOn("r", made, map[bool]string{true: "11111", false: "10101"}[tt.want == made])
			if value, left, _ := s.masters[1].Get("r"); value != tt.want || tt.want == made && left < 15*time.Second {
				s.Errorf("%s: the master has %q for %v, want %q", name, value, left, tt.want)
			}
		})
	}
}

// A new end of the same value is a change too.
func TestNewEndMakesUpForMissedChanges(t *testing.T) {
	held := versionOf("a", 7, "held")
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doAll("SET", "r", held, "PX", "10000")
		s.do(4, "SET", "r", versionOf("a", 5, "missed"), "PX", "10000")
		p.commit(compareAndExpire("r", held, 20*time.Second)).want(s, "EXPIRE", "held", 0)
		time.Sleep(ms)
		s.wantOn("r", held, "11111")
	})
}

// What was released meanwhile is not given to anybody.
func TestReleasedVersionIsNotGiven(t *testing.T) {
	held, made := versionOf("a", 7, "held"), versionOf("a", 8, "made")
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doAll("SET", "r", held, "PX", "10000")
		s.do(4, "SET", "r", versionOf("a", 5, "missed"), "PX", "10000")
		p.delay(0, 5*ms, 4)
		p.commit(rotate("r", held, made, 20*time.Second)).want(s, "change", "held", 0)
		p.commit(compareAndDelete("r", made)).want(s, "DEL", "held", 0)
		time.Sleep(20 * ms)
		s.wantOn("r", made, "00000")
	})
}

// Nothing that is over keeps others out: on a master that hangs for longer than master_timeout while a version is set, changed or released
// on the others.
func TestHangingMasterKeepsNoVersion(t *testing.T) {
	first, second := versionOf("a", 0, "first"), versionOf("a", 1, "second")
	rival := versionOf("b", 0, "rival")
	for name, run := range map[string]func(s *stage, p *proxy){
		"released": func(s *stage, p *proxy) {
			p.commit(setNX("r", first, 10*time.Second)).want(s, "SET NX", "held", 0)
			s.freeze(4)
			p.commit(compareAndDelete("r", first)).want(s, "DEL", "held", 0)
		},
		"released with another key": func(s *stage, p *proxy) {
			p.commit(setNX("r", first, 10*time.Second)).want(s, "SET NX", "held", 0)
			s.freeze(4)
			p.commit(compareAndDelete("r", first), setNX("latch", "1", 5*time.Second)).want(s, "DEL", "held", 0)
			p.commit(compareAndDelete("latch", "1")).want(s, "DEL", "held", 0)
		},
		"changed": func(s *stage, p *proxy) {
			p.commit(setNX("r", first, 10*time.Second)).want(s, "SET NX", "held", 0)
			s.freeze(4)
			p.commit(rotate("r", first, second, 10*time.Second)).want(s, "change", "held", 0)
			p.commit(compareAndDelete("r", second)).want(s, "DEL", "held", 0)
		},
		"denied": func(s *stage, p *proxy) {
			s.doOn([]int{0, 1, 2}, "SET", "r", rival, "PX", "50")
			s.freeze(4)
			p.commit(setNX("r", first, 10*time.Second)).want(s, "SET NX", "no", 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open()
				run(s, p)
				time.Sleep(4 * p.opts.MasterTimeout)
				s.thaw(4)
				p.allUp()
				time.Sleep(4 * p.opts.MasterTimeout)
				s.wantOn("r", first, "00000")
				s.wantOn("r", second, "00000")
			})
		})
	}
}

// A change whose answers are missing may have been made, and its caller may find it and extend it through another redlockd. What that one was
// told must stay true.
func TestVersionThatMayCountStays(t *testing.T) {
	value := versionOf("a", 0, "value")
	for _, denying := range []int{0, 1} {
		inVirtualTime(t, 5, func(s *stage) {
			p, q := s.open(), s.open()
			silent := []int{2, 3, 4}[denying:]
			for i := range denying {
				s.do(2+i, "SET", "r", longValue, "PX", "60000")
			}
			p.delay(0, time.Second, silent...)
			first := p.beginCommit(setNX("r", value, 10*time.Second))
			q.commit(compareAndExpire("r", value, 20*time.Second)).want(s, "EXPIRE elsewhere", "held", 0)
			if p.finish(first); first.Held {
				s.Errorf("SET NX with two votes: got %+v", first.Result)
			}
			p.delay(0, 0, silent...)
			p.allUp()
			time.Sleep(4 * p.opts.MasterTimeout)
			s.wantOn("r", value, []string{"11111", "11011"}[denying])
		})
	}
}

// The last generation is followed by another lineage.
func TestNextVersion(t *testing.T) {
	random := [VersionLen]byte([]byte("0123456789abcdef"))
	for _, tt := range []struct{ was, want string }{
		{"", "0123456\x00\x009abcdef"},
		{"a token of 64 bytes, which is none of a hash, a set or a sorted set", "0123456\x00\x009abcdef"},
		{versionOf("lineage", 0, ""), "lineage\x00\x019abce;\x85"},
		{versionOf("lineage", 255, ""), "lineage\x01\x009abc}[\xe4"},
		{versionOf("lineage", math.MaxUint16, ""), "0123456\x00\x009abcdef"},
	} {
		if got := NextVersion(random, tt.was); string(got[:]) != tt.want {
			t.Errorf("after %q: got %q, want %q", tt.was, got, tt.want)
		}
	}
}
