package redlock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/member/coordinator"
)

// Goal: no TTL is told of which no time is sure. Method: what one master of one says, by how much of the key is left there.
func TestTTLOfAStateIsSureOrEnding(t *testing.T) {
	d := clock.Drift{Factor: 0.01, StepMax: 10 * time.Millisecond}
	for _, tt := range []struct{ left, elapsed, ttl, ending time.Duration }{
		{left: 60 * time.Second, ttl: 59388 * ms},
		{left: 60 * time.Second, elapsed: 5 * ms, ttl: 59383 * ms},
		{left: padded(time.Minute), ttl: time.Minute}, // no more than was asked for
		{left: 619 * ms, ttl: 600 * ms},               // the TTL of 60 s is over: what remains is padding, and most of it is sure
		{left: 14 * ms, ttl: 1 * ms},
		{left: 13 * ms, ttl: 1 * ms, ending: 14 * ms},
		{left: 12 * ms, ttl: 1 * ms, ending: 13 * ms},
		{left: 100 * ms, elapsed: 95 * ms, ttl: 1 * ms, ending: 101 * ms},
		{left: 3 * ms, elapsed: 50 * ms, ttl: 1 * ms, ending: 4 * ms},
		{left: -1 * ms, ttl: -1},
		{left: 0, ttl: 1 * ms, ending: 1 * ms},
	} {
		a := &answer{keys: []answer{{kind: "string", value: "v", found: true, ttl: tt.left}}}
		s, is := mergeStates([]*answer{a}, 0, 1, 0, tt.elapsed, d)
		if is != mergeDone || !s.Found || s.TTL != tt.ttl || s.Ending != tt.ending {
			t.Errorf("%v left, %v elapsed: got TTL %v ending %v, want %v ending %v", tt.left, tt.elapsed, s.TTL, s.Ending, tt.ttl, tt.ending)
		}
	}
}

// A key may end between the two commands of a script that tell its type and its TTL: it is gone, as the latter says.
func TestKeyThatEndsWhileItIsRead(t *testing.T) {
	for pttl, want := range map[int64]bool{-2: false, -1: true, 0: true, 5: true} {
		a := answer{kind: "string", value: "v"}
		if a.lives(conn.Reply{Kind: ':', N: pttl}); a.found != want || a.ttl != time.Duration(pttl)*ms {
			t.Errorf("a string with a PTTL of %d: got %+v, want it found: %v", pttl, a, want)
		}
	}
}

// Moving the end of a key gives it some milliseconds more than the longest TTL has. Nobody counts on these, and who gives a lock the end that was
// read must not be refused. A lock of a max_ttl that was lowered since is told in full.
func TestNoTTLBeyondTheLongest(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		longest := p.MaxTTL()
		p.commit(setNX("r", "v", longest)).want(s, "SET NX", "held", 0)
		p.commit(compareAndExpire("r", "v", longest)).want(s, "EXPIRE, which moves the end", "held", 0)
		for range 2 {
			read := p.states1("r").States[0]
			if got := read.TTL + read.Spread; read.Value != "v" || got > longest || got < longest-10*ms {
				s.Errorf("got %+v, want v with %v and nothing beyond", read, longest)
			}
			p.commit(compareAndExpire("r", "v", read.TTL+read.Spread)).want(s, "EXPIRE with what was read", "held", 0)
		}
		s.doAll("PEXPIRE", "r", (longest + time.Minute).Milliseconds())
		if read := p.states1("r").States[0]; read.TTL < longest+50*time.Second {
			s.Errorf("of a library with a longer TTL: got %+v, want its TTL", read)
		}

		p.commit(setNX("longer", "v", longest)).want(s, "SET NX", "held", 0)
		began := time.Now()
		p.change(coordinator.Change{SetMaxTTL: longest / 2})
		time.Sleep(time.Until(began.Add(longest/2 + 300*ms))) // the key lives for as long as its padding is more
		if read := p.states1("longer").States[0]; read.TTL <= longest/2 || read.TTL > longest/2+10*ms {
			s.Errorf("of a longer max_ttl: got %+v, want more than %v, and up to 10 ms", read, longest/2)
		}
	})
}

// A TTL that is asked for once more within endMove moves the end beyond it. The client is told no more than it asked for last, where that is
// known; what others have set is told as it is.
func TestNoTTLBeyondWhatWasAskedFor(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		const ttl = 5 * time.Second
		told := func(p *proxy, most time.Duration) {
			t.Helper()
			if st := p.states1("r").States[0]; st.TTL > most || st.TTL < most-ms {
				t.Errorf("got %+v, want a TTL of %v", st, most)
			}
		}
		p.commit(setNX("r", "v", ttl)).want(s, "SET NX", "held", 0)
		told(p, ttl)
		for range 5 {
			p.commit(compareAndExpire("r", "v", ttl)).want(s, "PEXPIRE", "held", 0)
			told(p, ttl)
			time.Sleep(ms)
		}
		told(p, ttl-ms)
		other.commit(compareAndExpire("r", "v", 2*ttl)).want(s, "PEXPIRE elsewhere", "held", 0)
		told(p, 2*ttl)
		other.commit(Change{Resource: "r", Was: WasValue, Value: "v", Do: Expire, TTL: ttl, Delay: ttl}).want(s, "PEXPIRE with a delay", "held", 0)
		told(other, 2*ttl)
	})
}

// A caller who keeps what he has read is told when another client changes it, by each master that holds it; who does not keep it is not.
func TestOnChange(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.allUp()
		var mu sync.Mutex
		told := map[string]int{}
		OnChange(p.Client, func(resource string) {
			mu.Lock()
			defer mu.Unlock()
			told[resource]++
		})
		other.commit(setNX("kept", "v", 20*time.Second)).want(s, "SET NX", "held", 0)
		other.commit(setNX("read", "v", 20*time.Second)).want(s, "SET NX", "held", 0)
		for _, kept := range []bool{true, false} {
			name := map[bool]string{true: "kept", false: "read"}[kept]
			if _, err := p.Client.wait(context.Background(), func(op *Op, to Completer) {
				op.Tracked = kept
				p.StartRead(op, []string{name}, to)
			}); err != nil {
				s.Fatal(err)
			}
			time.Sleep(100 * ms)
			other.commit(compareAndDelete(name, "v")).want(s, "DELEX", "held", 0)
		}
		time.Sleep(100 * ms)
		mu.Lock()
		defer mu.Unlock()
		if told["kept"] != 5 || len(told) != 1 {
			s.Errorf("told of %v, want 5 times of the one that is kept", told)
		}
	})
}

// What is told of the ends of a key, of which the masters know different ones, leaves out the time that the reading took, the drift, and what is less
// than a millisecond.
func TestEndsThatDiffer(t *testing.T) {
	d := clock.Drift{Factor: 0.01, StepMax: 10 * ms}
	for _, tt := range []struct {
		ends        []time.Duration
		ttl, spread time.Duration
	}{
		{[]time.Duration{9 * time.Second, 9 * time.Second, time.Second, time.Second}, 877 * ms, 8797*ms - 877*ms},
		{[]time.Duration{9 * time.Second, 9 * time.Second, 50 * ms, 50 * ms}, ms, 8797*ms - ms},
		{[]time.Duration{-ms, -ms, 9 * time.Second, 9 * time.Second}, 8797 * ms, 0},
		{[]time.Duration{50 * ms, 50 * ms, 20 * ms, 20 * ms}, ms, 0},
	} {
		var all []*answer
		for _, end := range tt.ends {
			all = append(all, &answer{keys: []answer{{kind: "string", value: "v", found: true, ttl: end}}})
		}
		if s, is := mergeStates(all, 0, 5, 0, 100*ms+ms/2, d); is != mergeDone || !s.Sure || s.TTL != tt.ttl || s.Spread != tt.spread {
			t.Errorf("%v: got %+v, want a TTL of %v and a spread of %v", tt.ends, s, tt.ttl, tt.spread)
		}
	}
}

// The hint is the string that most masters hold, and of two the first in order, whichever way a map is gone through.
func TestHintIsWhatMostHold(t *testing.T) {
	for held, want := range map[string]string{"ww.v.": "w", "vww..": "w", "ww..vv": "v", "vvww..": "v"} {
		var all []*answer
		for _, letter := range held {
			one := answer{kind: "string", value: string(letter), found: true, ttl: time.Second}
			if letter == '.' {
				one = answer{kind: "none"}
			}
			all = append(all, &answer{keys: []answer{one}})
		}
		for range 50 {
			if s, _ := mergeStates(all, 0, len(all), 0, 0, clock.Drift{}); s.Hint != want {
				t.Fatalf("%s: got the hint %q, want %q", held, s.Hint, want)
			}
		}
	}
}

// Only what moving an end may have added is taken back, and not while locks of a longer max_ttl may live.
func TestWhatIsBeyondTheCeiling(t *testing.T) {
	const ceiling = 10 * time.Second
	for _, tt := range []struct {
		ttl, spread         time.Duration
		lowering            bool
		wantTTL, wantSpread time.Duration
	}{
		{ttl: ceiling + 3*ms, wantTTL: ceiling},
		{ttl: ceiling + 16*ms, wantTTL: ceiling},
		{ttl: ceiling + 17*ms, wantTTL: ceiling + 17*ms},
		{ttl: ceiling + 3*ms, lowering: true, wantTTL: ceiling + 3*ms},
		{ttl: ceiling - time.Second, spread: time.Second + 3*ms, wantTTL: ceiling - time.Second, wantSpread: time.Second},
		{ttl: ceiling - time.Second, spread: time.Second + 17*ms, wantTTL: ceiling - time.Second, wantSpread: time.Second + 17*ms},
		{ttl: ceiling + 2*ms, spread: 3 * ms, wantTTL: ceiling},
		{ttl: ceiling, wantTTL: ceiling},
		{ttl: ceiling - time.Second, spread: 5 * ms, wantTTL: ceiling - time.Second, wantSpread: 5 * ms},
		{ttl: -1, wantTTL: -1},
	} {
		s := State{TTL: tt.ttl, Spread: tt.spread}
		if s.capAt(&view{ceiling: ceiling, lowering: tt.lowering}); s.TTL != tt.wantTTL || s.Spread != tt.wantSpread {
			t.Errorf("%+v: got %v and a spread of %v", tt, s.TTL, s.Spread)
		}
	}
}

// Only what moving an end may have added to the TTL of a lease that runs is taken back, and the spread grows by it.
func TestWhatIsBeyondTheLease(t *testing.T) {
	inVirtualTime(t, 1, func(s *stage) {
		p := s.open()
		const lasts = 5 * time.Second
		for _, tt := range []struct {
			what                string
			value               string
			left, ttl, spread   time.Duration // left of the lease
			wantTTL, wantSpread time.Duration
		}{
			{"moved", "v", lasts, lasts + 3*ms, 0, lasts, 3 * ms},
			{"moved, with a spread", "v", lasts, lasts + 3*ms, 2 * ms, lasts, 5 * ms},
			{"a lease that ends within a millisecond", "v", lasts + ms/2, lasts + 3*ms, 0, lasts, 3 * ms},
			{"as long as the lease", "v", lasts, lasts, 0, lasts, 0},
			{"shorter than the lease", "v", lasts, lasts - 5*ms, 0, lasts - 5*ms, 0},
			{"moved twice", "v", lasts, lasts + 15*ms, 0, lasts, 15 * ms},
			{"extended elsewhere", "v", lasts, lasts + 16*ms, 0, lasts + 16*ms, 0},
			{"the lease ends now", "v", 0, 3 * ms, 0, 3 * ms, 0},
			{"the lease has ended", "v", -5 * ms, 3 * ms, 0, 3 * ms, 0},
			{"of another", "w", lasts, lasts + 3*ms, 0, lasts + 3*ms, 0},
			{"no end", "v", lasts, -1, 0, -1, 0},
			{"no end, and no lease", "v", -5 * ms, -1, 0, -1, 0},
		} {
			now := time.Now()
			p.mu.Lock()
			p.leases.entries["r"] = &entry{resource: "r", lease: &lease{token: "v", validUntil: now.Add(tt.left)}}
			p.mu.Unlock()
			st := State{Found: true, Value: tt.value, TTL: tt.ttl, Spread: tt.spread}
			if p.capByLease("r", &st, now); st.TTL != tt.wantTTL || st.Spread != tt.wantSpread {
				s.Errorf("%s: got %v and a spread of %v, want %v and %v", tt.what, st.TTL, st.Spread, tt.wantTTL, tt.wantSpread)
			}
		}
		p.mu.Lock()
		delete(p.leases.entries, "r")
		p.mu.Unlock()
	})
}

// Known tells of leases that run, and of nothing else that this client has heard of.
func TestWhatIsKnownWithoutAsking(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, other := s.open(), s.open()
		held := p.lock(one("held", 10*time.Second))
		p.lock(one("ended", time.Second))
		time.Sleep(time.Second)
		other.lock(one("awaited", 10*time.Second))
		p.begin(one("awaited", time.Second).waits(time.Minute))
		before := State{Type: "what was there before"}
		got := p.Known([]State{before}, []string{"ended", "held", "awaited", "free"})
		none := State{Type: "none"}
		want := []State{before, none, {Found: true, Type: "string", Value: held.Token, TTL: 9 * time.Second, Hint: held.Token}, none, none}
		if !reflect.DeepEqual(got, want) {
			s.Errorf("got %+v, want %+v", got, want)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.leases.entries["ended"] == nil || p.leases.entries["awaited"] == nil {
			s.Error("nothing is remembered of what has ended, or of what somebody waits for: the test shows nothing")
		}
	})
}

// An end counts as seen if the master has told it in both readings, whatever others joined in between.
func TestEndsThatAreSeenTwice(t *testing.T) {
	earlier := func(ends ...int64) string {
		var b []byte
		for _, end := range ends {
			b = binary.BigEndian.AppendUint64(b, uint64(end))
		}
		return string(b)
	}
	for name, tt := range map[string]struct {
		before string
		votes  string
		ends   [2][]int64 // of each key on each master
		want   [2][]int64
	}{
		"the first reading": {"", "GGUG",
			[2][]int64{{100, 200, 300, 400}, {110, 210, 310, 0}},
			[2][]int64{{100, 200, endUnknown, 400}, {110, 210, endUnknown, 0}}},
		"the second one": {earlier(100, 200, 300, 110, 210, 310), "GGUG",
			[2][]int64{{100, 201, 300, 110}, {110, 210, 310, 100}},
			[2][]int64{{100, endUnknown, endUnknown, endUnknown}, {110, 210, endUnknown, endUnknown}}},
		"one master has told it before": {earlier(100, 110), "GGGG",
			[2][]int64{{100, 200, 300, 400}, {111, 210, 310, 410}},
			[2][]int64{{100, endUnknown, endUnknown, endUnknown}, {endUnknown, endUnknown, endUnknown, endUnknown}}},
		"it was not told before": {earlier(endUnknown, 200, 110, endUnknown), "GGGG",
			[2][]int64{{100, 200, 300, 400}, {110, 210, 310, 410}},
			[2][]int64{{endUnknown, 200, endUnknown, endUnknown}, {110, endUnknown, endUnknown, endUnknown}}},
	} {
		r := &round{keys: []string{"a", "b"}, token: tt.before, answers: make([]answer, 4)}
		r.votes.Store(uint64(votesOf(tt.votes)))
		for i := range r.answers {
			r.answers[i].keys = []answer{{ends: tt.ends[0][i]}, {ends: tt.ends[1][i]}}
		}
		for key, want := range tt.want {
			seen, got := r.seen(key), []int64{}
			for place := range r.answers {
				got = append(got, seen(place))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, key %d: got the ends %d, want %d", name, key, got, want)
			}
		}
	}
	r := &round{keys: []string{"a"}, token: earlier(100), answers: []answer{{keys: []answer{{ends: 101}}}}}
	r.votes.Store(uint64(votesOf("G")))
	if got := r.seen(0)(0); got != endUnknown {
		t.Errorf("the one master of a fleet has told another end before: got %d", got)
	}
}

// A reading is answered when a quorum has told what decides, and nothing else can come.
func TestReadingIsAnsweredWhenItIsCertain(t *testing.T) {
	before := versionOf("a", 7, "held")
	next := NextVersion([VersionLen]byte{}, before)
	values := map[rune]string{'v': "v", 'w': "w", 'b': before, 'n': VersionMark + "h" + string(next[:])}
	for _, tt := range []struct {
		votes   string
		holds   string // each master: a letter for a value, . for nothing
		watches bool
		want    string
		helps   bool // a change that others have begun is looked at
	}{
		{"GGG..", "vvv..", false, "v", false},
		{"GG...", "vv...", false, "under way", false},
		{"GGUU.", "vv...", false, "under way", false},
		{"GGUUU", "vv...", false, "2 of 5", false},
		{"GGGUU", "vw...", false, "3 of 5", false},
		{"GGG..", "vvv..", true, "under way", false},
		{"GGGUU", "vvv..", true, "v, seen", false},
		{"GGGGG", ".....", true, "none, seen", false},
		{"GGG..", ".....", true, "none, seen", false},
		{"GG...", ".....", false, "under way", false},
		{"GGU.", "....", false, "under way", false},
		{"GGG.", "....", false, "none", false},
		{"GGUU", "....", false, "2 of 4", false},
		{"GGGGG", "bbnn.", false, "none", true},
		{"GGGGG", "vvbn.", false, "none", false},
		{"GGGGG", "vvww.", false, "none", false},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			d := &deferred{now: time.Now()}
			v := p.fleet.view.Load()
			v = newView(v.lanes[:len(tt.votes)], v.record, &p.Client.fleet)
			r := &round{verb: verbRead, keys: []string{"r"}, view: v, start: d.now, op: &Op{}, answers: make([]answer, len(tt.votes))}
			r.op.againFrom = r.view.record // once is enough
			if tt.watches {
				r.flags.Or(flagWatches)
			}
			for i, letter := range tt.holds {
				one := answer{kind: "none"}
				if letter != '.' {
					one = answer{kind: "string", value: values[letter], found: true, ttl: time.Second}
				}
				r.answers[i].keys = []answer{one}
			}
			r.votes.Store(uint64(votesOf(tt.votes)))
			p.readAnswered(r, votesOf(tt.votes), d)
			p.readAnswered(r, votesOf(tt.votes), d) // its answer is told once
			got := "under way"
			if len(d.results) > 0 {
				result := d.results[0].result
				if few, ok := errors.AsType[*NoQuorumError](result.Err); ok {
					got = fmt.Sprintf("%d of %d", few.Voted, few.Masters)
					if few.Late != 0 || few.Needed != len(tt.votes)/2+1 {
						s.Errorf("%s %s: got the error %+v", tt.votes, tt.holds, few)
					}
				} else if st := result.States[0]; st.Found {
					got = st.Value
				} else {
					got = st.Type
				}
				if result.Err == nil && result.States[0].Seen != nil {
					got += ", seen"
				}
			}
			if got != tt.want || len(d.results) > 1 {
				s.Errorf("%s %s: got %q, %d times, want %q", tt.votes, tt.holds, got, len(d.results), tt.want)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if _, helps := p.settling.found["r"]; helps != tt.helps {
				s.Errorf("%s %s: a change that others have begun is looked at: %t, want %t", tt.votes, tt.holds, helps, tt.helps)
			}
		})
	}
}

// A reading is no release, whatever its Op was for before: it is refused where a release is still queued.
func TestReadingIsNoRelease(t *testing.T) {
	inVirtualTime(t, 1, func(s *stage) {
		p := s.open()
		for name, start := range map[string]func(c *call){
			"a reading": func(c *call) { p.StartRead(&c.Op, []string{"r"}, c) },
			"a watch":   func(c *call) { StartWatch(p.Client, &c.Op, []string{"r"}, nil, c) },
		} {
			c := p.unlock("token", "r")
			c.done.Store(false)
			if start(c); c.onlyReleases {
				s.Errorf("%s behind an UNLOCK: it counts as a release", name)
			}
			p.finish(c)
		}
	})
}
