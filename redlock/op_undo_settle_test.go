package redlock

// Goal: what a client does about a change of a version that has failed is decided by the votes that it has, each once, and by nothing else. Method: the
// decisions alone, with votes and readings made here; masters in memory where something is sent. version_test.go has what users see of it.

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"redlockd/redlock/quorum"
)

// votesOf reads votes of masters: G granted, D denied, A absent, O a hole, d done without a vote that counts, U unknown, . pending.
func votesOf(word string) (v quorum.Votes) {
	kinds := map[rune]quorum.Vote{'G': quorum.Granted, 'D': quorum.Denied, 'A': quorum.Absent, 'O': quorum.Hole, 'd': quorum.Done, 'U': quorum.Unknown, '.': quorum.Pending}
	for i, kind := range word {
		v |= quorum.Cast(i, kinds[kind])
	}
	return v
}

// maskOf reads a set of masters.
func maskOf(bits string) (m quorum.Mask) {
	for i, bit := range bits {
		if bit == '1' {
			m = m.With(i)
		}
	}
	return m
}

func TestWhatGoesForward(t *testing.T) {
	version, next := versionOf("a", 7, "held"), versionOf("a", 8, "next")
	latch, sameAgain := setNX("latch", "1", time.Second), rotate("r", version, version, time.Second)
	for name, tt := range map[string]struct {
		changes               []Change
		leaves, comes, onward bool
	}{
		"a version is deleted":           {[]Change{compareAndDelete("r", version)}, true, false, true},
		"a token is deleted":             {[]Change{compareAndDelete("r", longValue)}, false, false, false},
		"a holder leaves":                {[]Change{leaves("r", version, next, time.Second)}, true, false, true},
		"a holder comes":                 {[]Change{rotate("r", version, next, time.Second)}, false, true, false},
		"a holder comes first":           {[]Change{setNX("r", version, time.Second)}, false, true, false},
		"a token becomes a version":      {[]Change{rotate("r", longValue, version, time.Second)}, false, true, false},
		"the same value, another end":    {[]Change{sameAgain}, false, false, false},
		"only another end":               {[]Change{compareAndExpire("r", version, time.Second)}, false, false, false},
		"only a latch":                   {[]Change{latch}, false, false, false},
		"the first leaves, one comes":    {[]Change{compareAndDelete("r", version), setNX("s", version, time.Second)}, true, true, false},
		"one comes, the second leaves":   {[]Change{setNX("s", version, time.Second), compareAndDelete("r", version)}, true, true, false},
		"a latch, and the second leaves": {[]Change{latch, compareAndDelete("r", version)}, true, false, true},
	} {
		gotLeaves, gotComes := anyChange(tt.changes, (*Change).leaves), anyChange(tt.changes, (*Change).comes)
		if gotLeaves != tt.leaves || gotComes != tt.comes || goesForward(tt.changes) != tt.onward {
			t.Errorf("%s: leaves %t, comes %t, goes forward %t; want %t, %t, %t", name, gotLeaves, gotComes, goesForward(tt.changes), tt.leaves, tt.comes, tt.onward)
		}
	}
}

// Votes that come after the decision are counted for their own change, if it goes forward, whichever place it has among those to settle.
func TestLateVotesOfAChangeThatGoesForward(t *testing.T) {
	mine, other := new(commit), new(commit)
	for name, tt := range map[string]struct {
		all   []*unsettled
		taken bool
	}{
		"alone":           {[]*unsettled{{commit: mine, forward: true}}, true},
		"behind another":  {[]*unsettled{{commit: other, forward: true}, {commit: mine, forward: true}}, true},
		"before another":  {[]*unsettled{{commit: mine, forward: true}, {commit: other, forward: true}}, true},
		"it goes back":    {[]*unsettled{{commit: other, forward: true}, {commit: mine}}, false},
		"another's alone": {[]*unsettled{{commit: other, forward: true}}, false},
		"nothing":         {nil, false},
	} {
		s := settling{all: tt.all}
		for _, u := range s.all {
			u.open = maskOf("11111")
		}
		if got := s.late(mine, votesOf("G..U."), 5); got != tt.taken {
			t.Errorf("%s: taken in %t, want %t", name, got, tt.taken)
		}
		for i, u := range s.all {
			want := unsettled{open: maskOf("11111")}
			if u.commit == mine && tt.taken {
				want = unsettled{open: maskOf("01111"), answered: maskOf("10000"), made: true}
			}
			if u.open != want.open || u.answered != want.answered || u.made != want.made {
				t.Errorf("%s: the change at %d is open on %05b, answered by %05b, made %t; want %05b, %05b, %t", name, i, u.open, u.answered, u.made, want.open, want.answered, want.made)
			}
		}
	}
}

// A change is made when one master has made it, whatever the next ones say; those that hold nothing, or something else, have answered.
func TestVotesOfAnUnsettledChange(t *testing.T) {
	u := &unsettled{open: maskOf("11111")}
	for _, tt := range []struct {
		votes, open, answered string
		made                  bool
	}{
		{"A....", "01111", "10000", false},
		{".O.U.", "00111", "11000", false},
		{"..d..", "00011", "11100", true},
		{"...D.", "00001", "11110", true},
		{"....G", "00000", "11111", true},
	} {
		if u.count(votesOf(tt.votes), 5); u.open != maskOf(tt.open) || u.answered != maskOf(tt.answered) || u.made != tt.made {
			t.Errorf("%s: open on %05b, answered by %05b, made %t; want (from the left) %s, %s, %t", tt.votes, u.open, u.answered, u.made, tt.open, tt.answered, tt.made)
		}
	}
}

// Only a change that may have set a version is to be taken back, and once: another silent master is one more to ask.
func TestWhatSilentMastersMayHaveSet(t *testing.T) {
	version, next := versionOf("a", 7, "held"), versionOf("a", 8, "next")
	for name, tt := range map[string]struct {
		changes []Change
		silent  string
		want    bool
	}{
		"a version in the place of another": {[]Change{rotate("r", version, next, time.Second)}, "00011", true},
		"a version where nothing was":       {[]Change{setNX("s", "1", time.Second), setNX("r", version, time.Second)}, "00010", true},
		"nobody is silent":                  {[]Change{setNX("r", version, time.Second)}, "00000", false},
		"a token":                           {[]Change{setNX("r", longValue, time.Second)}, "00011", false},
		"the same version, another end":     {[]Change{rotate("r", version, version, time.Second)}, "00011", false},
		"a deletion beside a token":         {[]Change{compareAndDelete("r", version), setNX("s", longValue, time.Second)}, "00011", false},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			p.mu.Lock()
			defer p.mu.Unlock()
			d := &deferred{now: time.Now()}
			other, r := &unsettled{commit: new(commit)}, &round{commit: &commit{changes: tt.changes}, keys: []string{"r"}}
			p.settling.takeBackLocked(r, maskOf(tt.silent), d)
			if !tt.want {
				if len(p.settling.all) != 0 {
					s.Errorf("%s: it is to be taken back, want nothing", name)
				}
				return
			}
			p.settling.takeBackLocked(r, maskOf("10000"), d)
			p.settling.all = append([]*unsettled{other}, p.settling.all...)
			p.settling.takeBackLocked(r, maskOf("01000"), d)
			if len(p.settling.all) != 2 || other.open != 0 {
				s.Fatalf("%s: %d are to settle, want two, and the other one has %05b open, want none", name, len(p.settling.all), other.open)
			}
			if u := p.settling.all[1]; u.commit != r.commit || u.forward || u.open != maskOf(tt.silent).With(0).With(1) || u.expiresAt.Before(d.now.Add(p.opts.MaxTTL)) {
				s.Errorf("%s: got %+v", name, u)
			}
			p.settling.all = nil
		})
	}
}

// The watchdog asks about what is open, not before it is time, and not while it asks already; what has ended is forgotten.
func TestWhatIsUnsettledIsAskedAboutAgain(t *testing.T) {
	held := versionOf("a", 7, "held")
	for name, tt := range map[string]struct {
		change func(u *unsettled, now time.Time)
		asked  bool
		kept   bool
	}{
		"open":                {func(*unsettled, time.Time) {}, true, true},
		"asked already":       {func(u *unsettled, _ time.Time) { u.asking = 1 }, false, true},
		"asked lately":        {func(u *unsettled, now time.Time) { u.next = now.Add(time.Second) }, false, true},
		"nothing is open":     {func(u *unsettled, _ time.Time) { u.open = 0 }, false, false},
		"not a master":        {func(u *unsettled, _ time.Time) { u.open = maskOf("0000001") }, false, false},
		"the keys have ended": {func(u *unsettled, now time.Time) { u.expiresAt = now.Add(-ms) }, false, false},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			s.doAll("SET", "r", held, "PX", "10000")
			d := &deferred{now: time.Now()}
			u := &unsettled{commit: &commit{changes: []Change{compareAndDelete("r", held)}}, keys: []string{"r"}, forward: true, open: maskOf("00101"), expiresAt: d.now.Add(time.Minute)}
			tt.change(u, d.now)
			p.mu.Lock()
			p.settling.add(u)
			p.mu.Unlock()
			p.settling.again(d)
			p.mu.Lock()
			kept := slices.Contains(p.settling.all, u)
			p.settling.all = nil // the watchdog would ask again
			p.mu.Unlock()
			time.Sleep(5 * ms)
			s.wantOn("r", held, map[bool]string{true: "11010", false: "11111"}[tt.asked])
			if kept != tt.kept {
				s.Errorf("%s: kept %t, want %t", name, kept, tt.kept)
			}
		})
	}
}

// A master that is away does not keep the others from being asked once more.
func TestAskingAgainEndsWhereAMasterIsAway(t *testing.T) {
	held := versionOf("a", 7, "held")
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.freeze(4)
		s.until("a master is away", func() bool { return p.states() == "uuuud" })
		d := &deferred{now: time.Now()}
		u := &unsettled{commit: &commit{changes: []Change{compareAndDelete("r", held)}}, keys: []string{"r"}, forward: true, open: maskOf("00001"), expiresAt: d.now.Add(time.Minute)}
		p.mu.Lock()
		p.settling.add(u)
		p.mu.Unlock()
		p.settling.again(d)
		p.mu.Lock()
		defer p.mu.Unlock()
		if u.asking != 0 || u.open != maskOf("00001") {
			s.Errorf("%d rounds are under way to a master that is away, want none; %05b is open, want that master", u.asking, u.open)
		}
	})
}

// What goes forward is asked about before what is launched next, if that is about one of its keys.
func TestWhatGoesForwardIsAskedAboutFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		u    unsettled
		want int
	}{
		"a key of it":       {unsettled{forward: true, keys: []string{"a", "r"}}, 1},
		"another key":       {unsettled{forward: true, keys: []string{"a", "b"}}, 0},
		"it does not go so": {unsettled{keys: []string{"a", "r"}}, 0},
	} {
		inVirtualTime(t, 3, func(s *stage) {
			p := s.open()
			p.mu.Lock()
			defer p.mu.Unlock()
			d := &deferred{now: time.Now()}
			tt.u.commit, tt.u.open = &commit{changes: []Change{compareAndDelete("r", versionOf("a", 7, "held"))}}, maskOf("111")
			p.settling.add(&tt.u)
			p.settling.firstLocked([]string{"q", "r"}, d)
			if tt.u.asking != tt.want || len(p.settling.rounds) != tt.want {
				s.Errorf("%s: asked %d times in %d rounds, want %d", name, tt.u.asking, len(p.settling.rounds), tt.want)
			}
			clear(p.settling.rounds)
			p.settling.all = nil
		})
	}
}

// The caller is told once that its release is made after all: when a master has made it, and a quorum holds it no more.
func TestCallerIsToldOfALateRelease(t *testing.T) {
	for name, tt := range map[string]struct {
		made     bool
		answered string
		votes    string
		want     int
	}{
		"a quorum has made it":                    {false, "00000", "GGG..", 1},
		"one has made it, the others had lost it": {false, "00000", "GAO..", 1},
		"a quorum, by an earlier vote":            {false, "11000", "..G..", 1},
		"made earlier, and a quorum now":          {true, "11000", "..A..", 1},
		"two of five":                             {false, "00000", "GG...", 0},
		"nobody has made it":                      {false, "11000", "..AAA", 0},
		"a silent one does not count":             {true, "11000", "..UUU", 0},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			told := &lateCall{}
			u := &unsettled{commit: new(commit), forward: true, to: told, open: maskOf("11111"), made: tt.made, answered: maskOf(tt.answered), asking: 2}
			r := &round{verb: verbSettle, view: p.fleet.view.Load()}
			p.mu.Lock()
			p.settling.rounds[r] = u
			p.mu.Unlock()
			settleDecided(p.Client, r, quorum.Yes, votesOf(tt.votes), &deferred{now: time.Now()})
			settleDecided(p.Client, r, quorum.Yes, votesOf(tt.votes), &deferred{now: time.Now()}) // this round was decided before
			if told.late != tt.want || u.asking != 1 {
				s.Errorf("%s: told %d times, want %d; %d rounds of two are under way, want 1", name, told.late, tt.want, u.asking)
			}
		})
	}
}

// A version goes from masters that were silent, when no quorum can have it, and from no other.
func TestVersionGoesWhereNoQuorumCanHaveIt(t *testing.T) {
	held, next := versionOf("a", 7, "held"), versionOf("a", 8, "next")
	change := rotate("r", held, next, 10*time.Second)
	for name, tt := range map[string]struct {
		change Change
		open   string // the masters whose answers were missing
		votes  string // of the reading
		holds  string // the masters that hold the new value
		asks   bool   // for the value to be put back
		left   string // the masters that are still open
	}{
		"two of the silent have it":               {change, "00111", "GGGGG", "00011", true, "00011"},
		"all silent ones are without":             {change, "00111", "GGGGG", "00000", false, "00000"},
		"a quorum has it":                         {change, "00111", "GGGGG", "00111", false, "00000"},
		"more than a quorum has it":               {change, "00111", "GGGGG", "01111", false, "00000"},
		"a quorum may have it":                    {change, "00111", "GGGGU", "00110", false, "00111"},
		"more than a quorum may have it":          {change, "00111", "GGGUU", "01100", false, "00111"},
		"one has it, one is silent":               {change, "00111", "GGGGU", "00010", true, "00011"},
		"one has it, and its vote does not count": {change, "00111", "GGGdG", "00010", true, "00010"},
		"one has it that was never silent":        {change, "00111", "GGGGG", "10000", false, "00000"},
		"a version that is the same":              {rotate("r", next, next, time.Second), "00111", "GGGGG", "00011", false, "00000"},
		"a token":                                 {rotate("r", held, longValue, time.Second), "00111", "GGGGG", "00011", false, "00000"},
		"the value is new":                        {setNX("r", next, time.Second), "00111", "GGGGG", "00011", true, "00011"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			u := &unsettled{commit: &commit{changes: []Change{setNX("other", "1", time.Second), tt.change}}, open: maskOf(tt.open), asking: 1}
			r := &round{verb: verbSettleRead, view: p.fleet.view.Load(), answers: make([]answer, 5)}
			for i := range r.answers {
				r.answers[i].keys = []answer{{value: "1"}, {value: held}}
				if tt.holds[i] == '1' {
					r.answers[i].keys[1].value = tt.change.NewValue
					s.do(i, "SET", "r", tt.change.NewValue, "PX", "60000")
				}
			}
			d := &deferred{now: time.Now()}
			p.mu.Lock()
			p.settling.rounds[r] = u
			p.mu.Unlock()
			settleRead(p.Client, r, quorum.Yes, votesOf(tt.votes), d)
			p.mu.Lock()
			asks := len(p.settling.rounds) == 1
			if u.open != maskOf(tt.left) || asks != tt.asks || (u.asking == 1) != tt.asks {
				s.Errorf("%s: %05b is open, want (from the left) %s; asks %t with %d under way, want %t", name, u.open, tt.left, asks, u.asking, tt.asks)
			}
			p.mu.Unlock()
			p.runDeferred(d)
			time.Sleep(5 * ms)
			if tt.asks {
				before := map[bool]string{true: held, false: ""}[tt.change.rotates()]
				for i := range s.masters {
					if value, _, ok := s.masters[i].Get("r"); tt.holds[i] == '1' && tt.votes[i] != 'U' && (value != before || ok != tt.change.rotates()) {
						s.Errorf("%s: master %d has %q, want %q", name, i+1, value, before)
					}
				}
			} else {
				s.wantOn("r", tt.change.NewValue, tt.holds)
			}
		})
	}
}

// What is found begun is made when it is found once more, and has been there for long; of several the one that most masters have.
func TestBegunChangeIsFoundTwice(t *testing.T) {
	random := [VersionLen]byte([]byte("0123456789abcdef"))
	successor := func(was, name string) string {
		version := NextVersion(random, was)
		return VersionMark + "h" + string(version[:]) + "|" + name
	}
	held := versionOf("a", 7, "held")
	first, second := successor(held, "1"), successor(held, "2")
	for name, tt := range map[string]struct {
		on    []string
		votes string
		want  string // what is found; "": nothing
		ttl   time.Duration
	}{
		"one master has it":              {[]string{first, held, held, "", ""}, "GGGGG", first, 9 * time.Second},
		"two of it, one of the other":    {[]string{second, first, second, held, ""}, "GGGGG", second, 9 * time.Second},
		"one of each":                    {[]string{second, first, held, held, ""}, "GGGGG", first, 4 * time.Second},
		"its master has not answered":    {[]string{first, held, held, "", ""}, "UGGGG", "", 0},
		"the first has not answered":     {[]string{held, held, held, "", ""}, "GGGGG", "", 0},
		"tokens":                         {[]string{longValue, held, "", "", ""}, "GGGGG", "", 0},
		"what it was made of is nowhere": {[]string{first, first, "", "", ""}, "GGGGG", "", 0},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			r := &round{view: p.fleet.view.Load(), answers: make([]answer, 5)}
			r.setKeys("r")
			for i, value := range tt.on {
				ttl := []time.Duration{9, 4, 7, 5, 3}[i] * time.Second
				r.answers[i].keys = []answer{{value: value, ttl: ttl}}
				if value != "" {
					s.do(i, "SET", "r", value, "PX", ttl.Milliseconds())
				}
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			all := &p.settling
			help := func(after time.Duration) {
				d := &deferred{now: time.Now().Add(after)}
				all.helpLocked(r, 0, votesOf(tt.votes), d)
				p.mu.Unlock()
				p.runDeferred(d)
				p.mu.Lock()
			}
			all.found["r"] = found{to: "another", since: time.Now().Add(-time.Hour)}
			help(0)
			if all.found["r"].to != tt.want || len(all.rounds) != 0 {
				s.Fatalf("%s: found %q, want %q; %d rounds, want none", name, all.found["r"].to, tt.want, len(all.rounds))
			}
			if tt.want == "" {
				if _, ok := all.found["r"]; ok {
					s.Errorf("%s: nothing is found, and it is kept", name)
				}
				return
			}
			long := helpAfter * p.opts.MasterTimeout
			if help(long - ms); len(all.rounds) != 0 {
				s.Fatalf("%s: it is made before it has been there for %v", name, long)
			}
			if help(long); len(all.rounds) != 1 || len(all.found) != 0 {
				s.Fatalf("%s: %d rounds make it, want one; %d are found, want none", name, len(all.rounds), len(all.found))
			}
			for r := range all.rounds {
				want := Change{Resource: "r", Was: WasValue, Value: held, Do: Set, NewValue: tt.want, Longer: true, TTL: tt.ttl}
				if !reflect.DeepEqual(r.commit.changes[0], want) {
					s.Errorf("%s: it makes %+v, want %+v", name, r.commit.changes[0], want)
				}
			}
		})
	}
}

// When too many changes are found begun, all are forgotten, and found again.
func TestFoundChangesAreBounded(t *testing.T) {
	random := [VersionLen]byte([]byte("0123456789abcdef"))
	held := versionOf("a", 7, "held")
	version := NextVersion(random, held)
	next := VersionMark + "h" + string(version[:]) + "|next"
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		p.mu.Lock()
		defer p.mu.Unlock()
		find := func(resource string) int {
			r := &round{view: p.fleet.view.Load(), answers: []answer{{keys: []answer{{value: next}}}, {keys: []answer{{value: held}}}, {keys: []answer{{}}}}}
			r.setKeys(resource)
			p.settling.helpLocked(r, 0, votesOf("GGG"), &deferred{now: time.Now()})
			return len(p.settling.found)
		}
		for i := range foundMax {
			if n := find(fmt.Sprint("r", i)); n != i+1 {
				s.Fatalf("%d changes are found, want %d", n, i+1)
			}
		}
		if n := find("another"); n != 1 {
			s.Errorf("%d changes are found, want the last alone", n)
		}
	})
}
