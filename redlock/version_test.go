package redlock

// Goal: a master that has missed changes of a value is given the one that counts, and what may count, or come to, is never replaced. Method: masters
// that hold something else when a change is made; virtual time. Versions.tla has the orders of events.

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
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

// lateCall is a call whose caller is told of what comes later.
type lateCall struct {
	call
	late int
}

func (c *lateCall) DoneLate() { c.late++ }

// commitToldLate is commit for such a caller.
func (p *proxy) commitToldLate(changes ...Change) *lateCall {
	c := &lateCall{call: call{began: time.Now()}}
	p.StartCommit(&c.Op, changes, c)
	p.finish(&c.call)
	return c
}

// leaves is a change of a version by which a holder leaves.
func leaves(resource, was, becomes string, ttl time.Duration) Change {
	ch := rotate(resource, was, becomes, ttl)
	ch.Leaves = true
	return ch
}

// A change that too few masters have made goes on if it takes holders out, and is taken back otherwise.
func TestFailedChangeOfAVersionIsSettled(t *testing.T) {
	held, next := versionOf("a", 7, "held"), versionOf("a", 8, "next")
	latch := setNX("latch", "1", 5*time.Second)
	for name, tt := range map[string]struct {
		changes []Change
		held    string // the masters that hold the value of before in the end
		next    string
		latch   string
		late    int
	}{
		"deleted":                {[]Change{compareAndDelete("r", held)}, "00000", "00000", "00000", 1},
		"deleted beside a latch": {[]Change{compareAndDelete("r", held), latch}, "00000", "00000", "11111", 1},
		"one of several leaves":  {[]Change{leaves("r", held, next, 10*time.Second), latch}, "00000", "11111", "11111", 1},
		"somebody comes in":      {[]Change{rotate("r", held, next, 10*time.Second), latch}, "11111", "00000", "00000", 0},
		"another comes in":       {[]Change{compareAndDelete("r", held), setNX("latch", versionOf("b", 0, "came"), 5*time.Second)}, "11100", "00000", "00000", 0},
		"two are deleted":        {[]Change{compareAndDelete("r", held), compareAndDelete("latch", longValue)}, "00000", "00000", "00000", 1},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open()
				s.doAll("SET", "r", held, "PX", "10000")
				if len(tt.changes) == 2 && tt.changes[1].Do == Delete {
					s.doAll("SET", "latch", longValue, "PX", "10000")
				}
				s.freeze(0, 1, 2)
				c := p.commitToldLate(tt.changes...)
				c.want(s, name, "masters voted", c.took)
				time.Sleep(100 * ms)
				s.thaw(0, 1, 2)
				p.allUp()
				time.Sleep(200 * ms)
				s.wantOn("r", held, tt.held)
				s.wantOn("r", next, tt.next)
				s.wantOn("latch", "1", tt.latch)
				if c.late != tt.late {
					s.Errorf("%s: the caller was told %d times that it is made after all, want %d", name, c.late, tt.late)
				}
				if n := len(p.settling.all) + len(p.settling.rounds); n != 0 {
					s.Errorf("%s: %d are still to settle", name, n)
				}
			})
		})
	}
}

// What a newer change holds by then is left alone.
func TestReleaseThatGoesOnSparesLaterVersions(t *testing.T) {
	held, next := versionOf("a", 7, "held"), versionOf("a", 8, "next")
	inVirtualTime(t, 5, func(s *stage) {
		p, q := s.open(), s.open()
		s.doAll("SET", "r", held, "PX", "10000")
		p.delay(time.Second, 0, 0, 1, 2)
		c := p.commitToldLate(compareAndDelete("r", held))
		c.want(s, "DEL", "masters voted", c.took)
		q.commit(rotate("r", held, next, 10*time.Second)).want(s, "a change through another redlockd", "held", 0)
		p.delay(0, 0, 0, 1, 2)
		p.allUp()
		time.Sleep(200 * ms)
		s.wantOn("r", next, "11111")
	})
}

// Who reads behind a release that goes on does not find what was released.
func TestReleaseThatGoesOnComesFirst(t *testing.T) {
	held := versionOf("a", 7, "held")
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doAll("SET", "r", held, "PX", "10000")
		s.freeze(0, 1, 2)
		c := p.commitToldLate(compareAndDelete("r", held))
		c.want(s, "DEL", "masters voted", c.took)
		s.thaw(0, 1, 2)
		for p.states() != "uuuuu" {
			time.Sleep(100 * time.Microsecond)
		}
		if read := p.states1("r"); read.Err != nil || read.States[0].Found {
			s.Errorf("reading: got %+v, want nothing", read.Result)
		}
	})
}

// What masters have set whose answers are lost goes when no quorum can have it.
func TestVersionOfSilentMastersGoes(t *testing.T) {
	held, next := versionOf("a", 7, "held"), versionOf("a", 8, "next")
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doAll("SET", "r", held, "PX", "10000")
		s.doOn([]int{1, 2}, "SET", "r", longValue, "PX", "10000")
		p.delay(0, time.Second, 3, 4)
		c := p.commitToldLate(rotate("r", held, next, 10*time.Second))
		c.want(s, "a change", "masters voted", c.took)
		p.delay(0, 0, 3, 4)
		p.allUp()
		time.Sleep(300 * ms)
		s.wantOn("r", next, "00000")
		s.wantOn("r", held, "10011")
	})
}

// While so many of them are silent that a quorum may have it, it stays: somebody may have been told that he holds it.
func TestVersionThatAQuorumMayHaveStays(t *testing.T) {
	value := versionOf("a", 0, "value")
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.delay(0, time.Second, 2, 3, 4)
		c := p.commitToldLate(setNX("r", value, 10*time.Second))
		c.want(s, "SET NX", "masters voted", c.took)
		p.delay(0, 0, 2)
		s.until("one of the silent is back", func() bool { return p.states() == "uuudd" })
		time.Sleep(300 * ms)
		s.wantOn("r", value, "00111")
		p.delay(0, 0, 3, 4)
		p.allUp()
		time.Sleep(300 * ms)
		s.wantOn("r", value, "00111")
	})
}

// Where it is known that too few masters can vote, nothing is begun; what is to go goes.
func TestVersionIsNotSetWithoutAQuorum(t *testing.T) {
	held := versionOf("a", 0, "held")
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doAll("SET", "held", held, "PX", "10000")
		s.freeze(0, 1, 2)
		s.until("three masters are away", func() bool { return p.states() == "ddduu" })
		c := p.commitToldLate(setNX("r", versionOf("b", 0, "new"), 10*time.Second))
		c.want(s, "SET NX", "masters voted", 0)
		if few, ok := errors.AsType[*NoQuorumError](c.Err); !ok || !few.Unchanged {
			s.Errorf("SET NX: got %#v, want that nothing was changed", c.Err)
		}
		s.wantSet("r", "00000")
		p.commitToldLate(compareAndDelete("held", held)).want(s, "DEL", "masters voted", 0)
		s.wantSet("held", "11100")
	})
}

// A change that is found begun is made by others, and nothing else is replaced.
func TestBegunChangeIsMadeByOthers(t *testing.T) {
	held := versionOf("a", 7, "held")
	random := [VersionLen]byte([]byte("0123456789abcdef"))
	successor := func(was string) string {
		version := NextVersion(random, was)
		return VersionMark + "h" + string(version[:]) + "|next"
	}
	next, rival := successor(held), versionOf("a", 8, "rival")
	for name, tt := range map[string]struct {
		on   []string // what masters hold
		want string   // the masters that hold the first of these in the end
	}{
		"the change and what it was made of":    {[]string{next, held, next, held, ""}, "11110"},
		"one that was made of something else":   {[]string{rival, held, rival, held, ""}, "10100"},
		"what came of one that does not count":  {[]string{successor(rival), held, successor(rival), held, ""}, "10100"},
		"the change and a later one of another": {[]string{next, rival, next, rival, ""}, "10100"},
		"two begun, and what they were made of": {[]string{next, successor(held) + "2", next, held, ""}, "10110"},
		"most masters have nothing":             {[]string{next, held, "", "", ""}, "11000"},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open()
				for i, value := range tt.on {
					if value != "" {
						s.do(i, "SET", "r", value, "PX", []string{"10000", "5000", "8000", "5000", "8000"}[i])
					}
				}
				p.delay(0, ms, 2, 3, 4) // what is told when these have nothing depends on who answers first
				p.states1("r")
				time.Sleep(3 * p.opts.MasterTimeout)
				p.states1("r")
				s.wantOn("r", held, placesOf(tt.on, held))
				time.Sleep(2 * p.opts.MasterTimeout)
				p.states1("r")
				time.Sleep(ms)
				s.wantOn("r", tt.on[0], tt.want)
				if _, left, _ := s.masters[1].Get("r"); tt.want[1] == '1' && left < 9*time.Second {
					s.Errorf("%s: the master has it for %v, want as long as where it is longest", name, left)
				}
			})
		})
	}
}

// placesOf tells which of the values are this one.
func placesOf(values []string, value string) string {
	b := []byte("00000")
	for i := range values {
		if values[i] == value {
			b[i] = '1'
		}
	}
	return string(b)
}

// A client that has many changes to settle forgets the oldest.
func TestUnsettledChangesAreBounded(t *testing.T) {
	var s settling
	var all []*unsettled
	for range unsettledMax + 1 {
		all = append(all, new(unsettled))
		s.add(all[len(all)-1])
	}
	if len(s.all) != unsettledMax || s.all[0] != all[1] || s.all[unsettledMax-1] != all[unsettledMax] {
		t.Errorf("got %d changes, want the %d newest", len(s.all), unsettledMax)
	}
}

// A value tells its version if all of it is there.
func TestWhatIsAVersion(t *testing.T) {
	held := versionOf("lineage", 7, "held")
	for value, want := range map[string]bool{
		"": false, VersionMark: false, held: true, held[:versionEnd]: true, held[:versionEnd-1]: false, "x" + held: false, strings.Repeat("x", 64): false,
	} {
		if isVersion(value) != want {
			t.Errorf("%q: is a version %t, want %t", value, !want, want)
		}
	}
}

// What was made in the place of a value has its lineage, the next generation, and its sum.
func TestWhatFollowsAVersion(t *testing.T) {
	random := [VersionLen]byte([]byte("0123456789abcdef"))
	made := func(was string, generation uint16, lineage string) string {
		v := NextVersion(random, was)
		binary.BigEndian.PutUint16(v[generationAt-lineageAt:], generation)
		copy(v[:], lineage)
		return VersionMark + "h" + string(v[:])
	}
	held := versionOf("lineage", 255, "held")
	next := made(held, 256, "lineage")
	for name, tt := range map[string]struct {
		version, was string
		want         bool
	}{
		"the next":                   {next, held, true},
		"the next, and what it says": {next + "|next", held, true},
		"another lineage":            {made(held, 256, "another"), held, false},
		"the same generation":        {made(held, 255, "lineage"), held, false},
		"the generation after next":  {made(held, 257, "lineage"), held, false},
		"made of another":            {next, versionOf("lineage", 255, "rival"), false},
		"the value itself":           {held, held, false},
		"a token":                    {strings.Repeat("x", 64), held, false},
		"nothing":                    {"", held, false},
		"the beginning of the next":  {next[:len(next)-1], held, false},
		"made of a token":            {next, strings.Repeat("x", 64), false},
		"made of nothing":            {next, "", false},
	} {
		if got := follows(tt.version, tt.was); got != tt.want {
			t.Errorf("%s: follows %t, want %t", name, got, tt.want)
		}
	}
}
