package admin

// Goal: a bootstrap ends with votes whatever a redlockd has founded before in which nobody has ever voted, or changes nothing and says what to
// do. Method: masters in memory, and a first founding through other options than the bootstrap has.

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/member/survey"
)

// first founds a membership as a redlockd does by itself, with the masters at these places, in this order. Those that are −1 are addresses
// at which nobody is.
func first(s *fleettest.Fleet, places ...int) *member.Record {
	s.Helper()
	return firstOf(s, s.OptionsOf(places...))
}

// firstOf is first with these options.
func firstOf(s *fleettest.Fleet, o member.Options) *member.Record {
	s.Helper()
	all := survey.Ask(s.Context(), o.Places(), survey.Patience{Enough: len(o.Masters)}, o)
	defer all.Close()
	f, why := all.Founding(nil, o)
	if f == nil {
		s.Fatalf("no founding: %s", why)
	}
	chosen, err := all.Step(s.Context(), nil, f)
	if err != nil {
		s.Fatal(err)
	}
	all.Teach(s.Context(), chosen.Among(all.Reports), chosen)
	return chosen
}

// admitAll has all masters vote.
func admitAll(s *fleettest.Fleet) {
	s.Helper()
	if _, err := Bootstrap(s.Context(), s.Options(s.Links()), false); err != nil {
		s.Fatal(err)
	}
}

// wantAllVote compares what the masters show that the options name, and looks whether a client finds them by the membership.
func wantAllVote(s *fleettest.Fleet, name string, o member.Options) *member.Record {
	s.Helper()
	all := survey.Ask(s.Context(), o.Places(), survey.Patience{Enough: len(o.Masters)}, o)
	defer all.Close()
	r := all.Prevailing()
	if r == nil {
		s.Fatalf("%s: no membership is in force", name)
	}
	for _, f := range all.Reports {
		if at := r.Lists(f.State.Memory); at == nil || at.State != member.Voter || f.State.Record != r.ID() || f.State.Child != "" {
			s.Errorf("%s: %s is no voter that shows the membership: %s", name, f.Master.Addr, r.Text)
		}
	}
	if r.Voters() != len(o.Masters) || r.Wait != r.Needed(o.Drift) {
		s.Errorf("%s: %d of %d vote, with a wait of %v: %s", name, r.Voters(), len(o.Masters), r.Wait, r.Text)
	}
	found := survey.Ask(s.Context(), o.PlacesOf(r), survey.Patience{Enough: len(o.Masters)}, o)
	defer found.Close()
	for _, f := range found.Reports {
		if !f.Shows(r) {
			s.Errorf("%s: at %s a client finds %s (%v), and the membership says %s", name, f.Master.Addr, f.State.Memory, f.Err, r.Text)
		}
	}
	return r
}

// watched are the connections of some options.
type watched struct {
	mu              sync.Mutex
	dials, closes   map[string]int // by address
	open            int
	onDial, onClose func(addr string, nth int)
	onWrite         func(addr string, b []byte)
}

// connections is how many are open.
func (w *watched) connections() int {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

// watch has the options make connections that are watched.
func watch(o *member.Options) *watched {
	w := &watched{dials: make(map[string]int), closes: make(map[string]int)}
	for i := range o.Masters {
		dial := o.Masters[i].Dialer
		o.Masters[i].Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			w.mu.Lock()
			w.dials[addr]++
			nth := w.dials[addr]
			w.mu.Unlock()
			if w.onDial != nil {
				w.onDial(addr, nth)
			}
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			w.mu.Lock()
			w.open++
			w.mu.Unlock()
			return &watchedConn{c, w, addr, sync.OnceFunc(func() {
				w.mu.Lock()
				w.open--
				w.closes[addr]++
				nth := w.closes[addr]
				w.mu.Unlock()
				if w.onClose != nil {
					w.onClose(addr, nth)
				}
			})}, nil
		}
	}
	return w
}

// watchedConn is one of them.
type watchedConn struct {
	net.Conn
	*watched
	addr   string
	closed func()
}

func (c *watchedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

func (c *watchedConn) Write(b []byte) (int, error) {
	if c.onWrite != nil {
		c.onWrite(c.addr, b)
	}
	return c.Conn.Write(b)
}

func TestBootstrapGoesOnWithAFirstFounding(t *testing.T) {
	for _, tt := range []struct {
		name    string
		masters int
		before  func(s *fleettest.Fleet) // what has happened
		places  []int                    // that are named now
		version int64                    // of the membership in the end: one step for each master without a seat, and the last one
		called  bool                     // the masters have names
	}{
		{"nothing", 3, func(s *fleettest.Fleet) {}, []int{0, 1, 2}, 0, false},
		{"all were there", 3, func(s *fleettest.Fleet) { first(s, 0, 1, 2) }, []int{0, 1, 2}, 1, false},
		{"one came later", 3, func(s *fleettest.Fleet) { s.Masters[2].Crash(true); first(s, 0, 1, 2); s.Masters[2].Restart() }, []int{0, 1, 2}, 2, false},
		{"two of five came later", 5, func(s *fleettest.Fleet) {
			s.Masters[1].Crash(true)
			s.Masters[4].Crash(true)
			first(s, 0, 1, 2, 3, 4)
			s.Masters[1].Restart()
			s.Masters[4].Restart()
		}, []int{0, 1, 2, 3, 4}, 3, false},
		{"another order", 3, func(s *fleettest.Fleet) { s.Masters[0].Crash(true); first(s, 2, 0, 1); s.Masters[0].Restart() }, []int{0, 1, 2}, 2, false},
		{"a typo", 3, func(s *fleettest.Fleet) { first(s, 0, -1, 2) }, []int{0, 1, 2}, 2, false},
		{"a typo, in another order", 3, func(s *fleettest.Fleet) { first(s, -1, 2, 0) }, []int{0, 1, 2}, 2, false},
		{"two typos of five", 5, func(s *fleettest.Fleet) { first(s, -1, 1, 2, -2, 4) }, []int{0, 1, 2, 3, 4}, 3, false},
		{"another Redis", 4, func(s *fleettest.Fleet) { first(s, 0, 1, 3) }, []int{0, 1, 2}, 2, false},
		{"another Redis, which is off by now", 4, func(s *fleettest.Fleet) { first(s, 0, 1, 3); s.Masters[3].Crash(true) }, []int{0, 1, 2}, 2, false},
		{"a replica", 3, func(s *fleettest.Fleet) {
			s.Do(2, "REPLICAOF", "elsewhere", "6379")
			first(s, 0, 1, 2)
			s.Do(2, "REPLICAOF", "NO", "ONE")
		}, []int{0, 1, 2}, 2, false},
		{"a replica of the first one", 3, func(s *fleettest.Fleet) {
			s.Do(2, "REPLICAOF", "elsewhere", "6379")
			r := first(s, 0, 1, 2)
			s.Do(2, "REPLICAOF", "NO", "ONE")
			s.Do(2, "HSET", "redlockd:members", "v", s.Do(0, "HGET", "redlockd:members", "v"), "r", r.Text)
		}, []int{0, 1, 2}, 2, false},
		{"one came later, and was seated", 3, func(s *fleettest.Fleet) {
			s.Masters[2].Crash(true)
			first(s, 0, 1, 2)
			s.Masters[2].Restart()
			seat(s, 2)
		}, []int{0, 1, 2}, 2, false},
		{"one was called otherwise", 3, func(s *fleettest.Fleet) {
			o := s.OptionsOf(0, 1, 2)
			o.Masters[1].Addr = "alias2"
			firstOf(s, o)
		}, []int{0, 1, 2}, 1, false},
		{"one was called otherwise, and has forgotten since", 3, func(s *fleettest.Fleet) {
			o := s.OptionsOf(0, 1, 2)
			o.Masters[1].Addr = "alias2"
			firstOf(s, o)
			s.Do(1, "FLUSHALL")
		}, []int{0, 1, 2}, 2, false},
		{"one was called otherwise, and came later", 3, func(s *fleettest.Fleet) {
			o := s.OptionsOf(0, 1, 2)
			o.Masters[1].Addr = "alias2"
			s.Masters[1].Crash(true)
			firstOf(s, o)
			s.Masters[1].Restart()
		}, []int{0, 1, 2}, 2, false},
		{"a bootstrap was killed before it told all", 3, func(s *fleettest.Fleet) {
			tell(s, seatOfATypo(s), 0)
		}, []int{0, 1, 2}, 2, false},
		{"a bootstrap was killed before it told the first", 3, func(s *fleettest.Fleet) {
			tell(s, seatOfATypo(s), 1, 2)
		}, []int{0, 1, 2}, 2, false},
		{"names", 3, func(s *fleettest.Fleet) {
			s.Masters[1].Crash(true)
			firstOf(s, called(s.OptionsOf(0, 1, 2)))
			s.Masters[1].Restart()
		}, []int{0, 1, 2}, 2, true},
		{"one was named twice", 3, func(s *fleettest.Fleet) {
			o := s.OptionsOf(0, 0, 2)
			o.Masters[0].Addr = "alias1"
			firstOf(s, o)
		}, []int{0, 1, 2}, 2, false},
		{"one is far behind, and another Redis", 4, func(s *fleettest.Fleet) {
			r := first(s, 0, 1, -1).Child()
			at := r.Seat(2)
			at.Addr, at.Memory, at.State, at.Since = "m4", memoryOf(s, 3), member.Learner, r.Version
			r = r.Seal().Child().Seal()
			for _, i := range []int{1, 3} {
				s.Do(i, "HSET", lua.MembersKey, "v", r.ShownBy(memoryOf(s, i)), "r", r.Text)
			}
		}, []int{0, 1, 2}, 4, false},
	} {
		fleettest.InVirtualTime(t, tt.masters, func(s *fleettest.Fleet) {
			tt.before(s)
			o := s.OptionsOf(tt.places...)
			if tt.called {
				o = called(o)
			}
			w, began := watch(&o), time.Now()
			reports, err := Bootstrap(s.Context(), o, false)
			if err != nil {
				s.Errorf("%s: %v", tt.name, err)
				return
			}
			if took := time.Since(began); took > 0 {
				s.Errorf("%s: took %v, want no pause", tt.name, took)
			}
			if n := w.connections(); n > 0 {
				s.Errorf("%s: %d connections are left open", tt.name, n)
			}
			for i, r := range reports {
				if !r.Admitted || r.Problem != nil || r.Addr != o.Masters[i].Addr {
					s.Errorf("%s: master %d: got %+v, want that it is admitted", tt.name, i+1, r)
				}
			}
			r := wantAllVote(s, tt.name, o)
			if r.Version != tt.version {
				s.Errorf("%s: version %d, want %d: %s", tt.name, r.Version, tt.version, r.Text)
			}
			if tt.name == "another Redis" {
				if v := fmt.Sprint(s.Do(3, "HGET", lua.MembersKey, "v")); !strings.Contains(v, ".0 ") {
					s.Errorf("%s: m4 shows %s, want that it was told of nothing", tt.name, v)
				}
			}
		})
	}
}

// memoryOf is the memory of a master, which gets one.
func memoryOf(s *fleettest.Fleet, place int) string {
	s.Helper()
	o := s.OptionsOf(place)
	all := survey.Ask(s.Context(), o.Places(), survey.Patience{Enough: 1}, o)
	defer all.Close()
	return all.Reports[0].State.Memory
}

// called gives the masters names.
func called(o member.Options) member.Options {
	for i := range o.Masters {
		o.Masters[i].Name = "name-" + o.Masters[i].Addr
	}
	return o
}

// seatOfATypo founds a membership with a typo, and has m2 take that seat; nobody is told of that.
func seatOfATypo(s *fleettest.Fleet) *member.Record {
	s.Helper()
	first(s, 0, -1, 2)
	o := s.OptionsOf(0, 1, 2)
	all, named := surveyNamed(s.Context(), o)
	defer all.Close()
	parent := all.Prevailing()
	next, err := bootstrapStep(o, parent, named, "")
	if err == nil {
		next, err = all.Step(s.Context(), parent, next.Seal())
	}
	if err != nil {
		s.Fatal(err)
	}
	return next
}

// tell tells masters of a record.
func tell(s *fleettest.Fleet, r *member.Record, places ...int) {
	s.Helper()
	o := s.Options(s.Links())
	all := survey.Ask(s.Context(), o.Places(), survey.Patience{Enough: len(o.Masters)}, o)
	defer all.Close()
	all.Teach(s.Context(), fleettest.ReportsAt(all.Survey, places...), r)
}

// seat has a learner take its seat, as a redlockd does that finds it.
func seat(s *fleettest.Fleet, place int) {
	o := s.Options(s.Links())
	all := survey.Ask(s.Context(), o.Places(), survey.Patience{Enough: len(o.Masters)}, o)
	defer all.Close()
	parent := all.Prevailing()
	child := parent.Child()
	one := child.Seat(place)
	one.Memory, one.State, one.Since = all.At(place).State.Memory, member.Learner, child.Version
	chosen, err := all.Step(s.Context(), parent, child.Seal())
	if err != nil {
		s.Fatal(err)
	}
	all.Teach(s.Context(), all.Reports, chosen)
}

// hadTheAddressOfAnother founds a membership with a typo instead of m1, while the address m2 leads to that.
func hadTheAddressOfAnother(s *fleettest.Fleet) {
	o := s.OptionsOf(-1, 1, 2)
	o.Masters[1].Dialer = s.Masters[0].Dial
	firstOf(s, o)
}

// What a bootstrap cannot go on with it leaves as it is, and says what to do.
func TestBootstrapSaysWhatToDo(t *testing.T) {
	for _, tt := range []struct {
		name    string
		masters int
		before  func(s *fleettest.Fleet)
		places  []int
		anyway  bool
		want    string
		change  func(o *member.Options) // nil: nothing
	}{
		{"more masters than at first", 5, func(s *fleettest.Fleet) { first(s, 0, 1, -1) }, []int{0, 1, 2, 3, 4}, false,
			"a redlockd has founded the membership with m1, m2, typo1, and the settings name m1, m2, m3, m4, m5. Nobody has ever voted in it: run FLUSHALL on m1, m2, and repeat this", nil},
		{"fewer masters than at first", 5, func(s *fleettest.Fleet) { first(s, 0, 1, 2, 3, 4) }, []int{0, 1, 2}, false, "run FLUSHALL on m1, m2, m3", nil},
		{"one is away", 3, func(s *fleettest.Fleet) { s.Masters[2].Crash(true) }, []int{0, 1, 2}, false, "m3: cannot connect: connection refused", nil},
		{"two are away, anyway", 3, func(s *fleettest.Fleet) { s.Masters[1].Crash(true); s.Masters[2].Crash(true) }, []int{0, 1, 2}, true, "1 of 3 masters can be admitted, 2 are needed", nil},
		{"one has a key, anyway", 3, func(s *fleettest.Fleet) { s.Do(2, "SET", "r", "T") }, []int{0, 1, 2}, true, "m3: it holds 1 keys: it is not new", nil},
		{"too many have forgotten", 3, func(s *fleettest.Fleet) { first(s, 0, 1, 2); s.Do(1, "FLUSHALL"); s.Do(2, "FLUSHALL") }, []int{0, 1, 2}, false,
			"if no redlockd runs, run FLUSHALL on m1, and repeat this", nil},
		{"two memberships in which nobody has voted", 5, func(s *fleettest.Fleet) { first(s, 0, 1, -1); first(s, 2, -1, 3) }, []int{0, 1, 3}, false,
			"m4: it has another membership than the others (of m3, typo1, m4), in which nobody has ever voted: run FLUSHALL on it", nil},
		{"one Redis by two names", 3, func(s *fleettest.Fleet) { first(s, 0, 1, -1) }, []int{0, 1, 0}, false, "alias1: refused: it is the same Redis as m1: each vote must come from a master of its own",
			func(o *member.Options) { o.Masters[2].Addr = "alias1" }},
		{"a replica that was called otherwise", 3, func(s *fleettest.Fleet) {
			o := s.OptionsOf(0, 1, 2)
			o.Masters[2].Addr = "alias3"
			s.Do(2, "REPLICAOF", "elsewhere", "6379")
			firstOf(s, o)
		}, []int{0, 1, 2}, false, "m3: refused: it is a slave of elsewhere:6379", nil},
		{"one had the address of another, which came later", 3, hadTheAddressOfAnother, []int{0, 1, 2}, false, "run FLUSHALL on m1, m3, and repeat this (version 1 of the membership: two seats have the address m2", nil},
		{"one had the address of another, which came later, in another order", 3, hadTheAddressOfAnother, []int{1, 0, 2}, false, "run FLUSHALL on m1, m3, and repeat this", nil},
		{"a name that nobody had at first", 3, func(s *fleettest.Fleet) {
			o := called(s.OptionsOf(0, -1, 2))
			firstOf(s, o)
		}, []int{0, 1, 2}, false, "a redlockd has founded the membership with name-m1, name-typo1, name-m3, and the settings name name-m1, name-m2, name-m3. Nobody has ever voted in it: run FLUSHALL on m1, m3, and repeat this",
			func(o *member.Options) { *o = called(*o) }},
		{"the seat that is free is leaving", 3, func(s *fleettest.Fleet) {
			r := *first(s, 0, -1, 2)
			r.Seats[1].State = member.Leaving
			for _, i := range []int{0, 2} {
				s.Do(i, "HSET", lua.MembersKey, "v", r.Seal().ShownBy(r.Seats[i].Memory), "r", r.Text)
			}
		}, []int{0, 1, 2}, false, "run FLUSHALL on m1, m3, and repeat this (version 1 of the membership: seat 1 (typo1) is leaving and becomes learner", nil},
		{"one took a seat since, and another has forgotten", 3, func(s *fleettest.Fleet) { tell(s, seatOfATypo(s), 0, 1, 2); s.Do(0, "FLUSHALL") }, []int{0, 1, 2}, false,
			"run FLUSHALL on m2, m3, and repeat this (too few of its seats are as they were at first)", nil},
		{"two are away", 3, func(s *fleettest.Fleet) { s.Masters[1].Crash(true); s.Masters[2].Crash(true) }, []int{0, 1, 2}, false, "m2: cannot connect: connection refused\nm3: cannot connect: connection refused", nil},
		{"it votes", 3, func(s *fleettest.Fleet) { admitAll(s) }, []int{0, 1, 2}, false, "m1: it has a membership (version 0): it is not new", nil},
		{"one restarted that was a member", 3, func(s *fleettest.Fleet) {
			first(s, 0, 1, 2)
			v := s.Do(2, "HGET", "redlockd:members", "v").(string)
			s.Do(2, "HSET", "redlockd:members", "v", "another"+v)
			s.Do(0, "FLUSHALL")
			s.Do(1, "FLUSHALL")
		}, []int{0, 1, 2}, false, "m3: it has a membership (version 0 before it was restarted): it is not new", nil},
	} {
		fleettest.InVirtualTime(t, tt.masters, func(s *fleettest.Fleet) {
			tt.before(s)
			shown := func() (text string) {
				for i := range s.Masters {
					if !strings.Contains(tt.name, "away") {
						text += fmt.Sprint(s.Do(i, "HGET", "redlockd:members", "r"), " ")
					}
				}
				return text
			}
			before := shown()
			o := s.OptionsOf(tt.places...)
			if tt.change != nil {
				tt.change(&o)
			}
			_, err := Bootstrap(s.Context(), o, tt.anyway)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "bootstrap: nothing was changed: ") {
				s.Errorf("%s: got %v, want that nothing was changed, and %q", tt.name, err, tt.want)
			}
			if text := fmt.Sprint(err); strings.Contains(text, "can be admitted") && !strings.Contains(tt.want, "can be admitted") {
				s.Errorf("%s: got %s, want only what is in the way of each master", tt.name, text)
			}
			if after := shown(); after != before {
				s.Errorf("%s: got %s, want what was before, %s", tt.name, after, before)
			}
		})
	}
}

// Where an operator says so, a majority is admitted, and the seats of the others wait for their masters.
func TestBootstrapAnyway(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(s *fleettest.Fleet)
		places []int
		want   string // states of the seats
	}{
		{"one is away", func(s *fleettest.Fleet) { s.Masters[2].Crash(true) }, []int{0, 1, 2}, "vv-"},
		{"a typo", func(s *fleettest.Fleet) {}, []int{0, -1, 2}, "v-v"},
		{"a replica", func(s *fleettest.Fleet) { s.Do(0, "REPLICAOF", "elsewhere", "6379") }, []int{0, 1, 2}, "-vv"},
		{"one is away, and was founded without", func(s *fleettest.Fleet) { s.Masters[2].Crash(true); first(s, 0, 1, 2) }, []int{0, 1, 2}, "vv-"},
		{"one is away by now", func(s *fleettest.Fleet) { first(s, 0, 1, 2); s.Masters[2].Crash(true) }, []int{0, 1, 2}, "vvl"},
		{"two typos, one of which is corrected", func(s *fleettest.Fleet) { first(s, 0, -1, 2, 3, -2) }, []int{0, 1, 2, 3, -3}, "vvvv-"},
		{"all are there", func(s *fleettest.Fleet) {}, []int{0, 1, 2}, "vvv"},
		{"another Redis, and two are away by now", func(s *fleettest.Fleet) {
			first(s, 0, 1, 2, 3, 5)
			s.Masters[2].Crash(true)
			s.Masters[3].Crash(true)
		}, []int{0, 1, 2, 3, 4}, "vvllv"},
		{"the membership has another address, and two are away by now", func(s *fleettest.Fleet) {
			r := *first(s, 0, 1, 2, 3, 4)
			r.Seats[4].Name = "alias6"
			r.Seal()
			for i := range r.Seats {
				s.Do(i, "HSET", lua.MembersKey, "v", r.ShownBy(r.Seats[i].Memory), "r", r.Text)
			}
			s.Masters[2].Crash(true)
			s.Masters[3].Crash(true)
		}, []int{0, 1, 2, 3, 5}, "vvllv"},
	} {
		fleettest.InVirtualTime(t, 6, func(s *fleettest.Fleet) {
			tt.before(s)
			o := s.OptionsOf(tt.places...)
			if strings.HasPrefix(tt.name, "the membership has another address") {
				o.Masters[4].Addr = "alias6"
			}
			reports, err := Bootstrap(s.Context(), o, true)
			if err != nil {
				s.Errorf("%s: %v", tt.name, err)
				return
			}
			all := survey.Ask(s.Context(), o.Places(), survey.Patience{Enough: len(o.Masters)}, o)
			defer all.Close()
			letters := ""
			for _, one := range all.Prevailing().Seats {
				letters += map[member.SeatState]string{member.Voter: "v", member.Learner: "l", member.Vacant: "-"}[one.State]
			}
			if letters != tt.want {
				s.Errorf("%s: got %s, want %s", tt.name, letters, tt.want)
			}
			for i, r := range reports {
				if letter := tt.want[i : i+1]; r.Admitted != (letter == "v") || r.Missing == r.Admitted {
					s.Errorf("%s: master %d: got %+v, want that it is admitted or missing, as %s says", tt.name, i+1, r, tt.want)
				}
			}
		})
	}
}

// A bootstrap that ends between two steps says that not all is done, and who was admitted until then: nobody. The same again goes on from there.
func TestBootstrapThatStopsHalfway(t *testing.T) {
	for _, tt := range []struct {
		name string
		stop func(w *watched, s *fleettest.Fleet, cancel func())
		want string
		away string // the master that the report says is missing
	}{
		{"a master goes away", func(w *watched, s *fleettest.Fleet, _ func()) {
			w.onDial = func(addr string, nth int) {
				if addr == "m3" && nth == 3 { // each try takes two
					s.Masters[2].SetReachable(false)
				}
			}
		}, "m3: cannot connect: connection refused", "m3"},
		{"the operator gives up", func(w *watched, _ *fleettest.Fleet, cancel func()) {
			w.onClose = func(addr string, nth int) {
				if addr == "m1" && nth == 2 {
					cancel()
				}
			}
		}, "context canceled", ""},
	} {
		fleettest.InVirtualTime(t, 3, func(s *fleettest.Fleet) {
			first(s, 0, -1, 2)
			o := s.OptionsOf(0, 1, 2)
			w := watch(&o)
			ctx, cancel := context.WithCancel(s.Context())
			defer cancel()
			tt.stop(w, s, cancel)
			reports, err := Bootstrap(ctx, o, false)
			if got := fmt.Sprint(err); got != "bootstrap: not all is done: repeat this: "+tt.want {
				s.Errorf("%s: got %s, want that not all is done, and %s", tt.name, got, tt.want)
			}
			for _, r := range reports {
				if r.Admitted || r.Missing != (r.Addr == tt.away) || (r.Problem != nil) != r.Missing {
					s.Errorf("%s: got %+v, want that nobody is admitted, and %q missing", tt.name, r, tt.away)
				}
			}
			if n := w.connections(); n > 0 {
				s.Errorf("%s: %d connections are left open", tt.name, n)
			}
			s.Masters[2].SetReachable(true)
			o = s.OptionsOf(0, 1, 2)
			if _, err := Bootstrap(s.Context(), o, false); err != nil {
				s.Errorf("%s: again: %v", tt.name, err)
				return
			}
			wantAllVote(s, tt.name, o)
		})
	}
}

// Somebody else makes a step, or a founding, at the same time: the bootstrap tries again, after a pause, and is not held up by it.
func TestBootstrapBesideAnother(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(s *fleettest.Fleet, w *watched)
	}{
		{"a step is outrun", func(s *fleettest.Fleet, w *watched) {
			first(s, 0, 1, 2)
			steps := 0
			w.onWrite = func(_ string, b []byte) {
				if !strings.Contains(string(b), lua.Prepare.Text) {
					return
				}
				w.mu.Lock()
				steps++
				one := steps == 1
				w.mu.Unlock()
				for i := range s.Masters {
					if one {
						s.Do(i, "HSET", lua.MembersKey, "p", fmt.Sprintf("%08d.%016x", 7, 1))
					}
				}
			}
		}},
		{"a founding is not told yet", func(s *fleettest.Fleet, _ *watched) {
			o := s.OptionsOf(0, 1, 2)
			all := survey.Ask(s.Context(), o.Places(), survey.Patience{Enough: len(o.Masters)}, o)
			defer all.Close()
			f, _ := all.Founding(nil, o)
			tells := func(places ...int) {
				for _, i := range places {
					s.Do(i, "HSET", lua.MembersKey, "v", f.ShownBy(all.At(i).State.Memory), "r", f.Text)
				}
			}
			tells(0)
			time.AfterFunc(100*time.Millisecond, func() { tells(1, 2) })
		}},
	} {
		fleettest.InVirtualTime(t, 3, func(s *fleettest.Fleet) {
			o := s.OptionsOf(0, 1, 2)
			w, began := watch(&o), time.Now()
			tt.before(s, w)
			if _, err := Bootstrap(s.Context(), o, false); err != nil {
				s.Errorf("%s: %v", tt.name, err)
				return
			}
			if took := time.Since(began); took == 0 || took > 200*time.Millisecond {
				s.Errorf("%s: took %v, want a pause or some, of %v at most", tt.name, took, bootstrapPause)
			}
			w.onWrite = nil
			wantAllVote(s, tt.name, o)
		})
	}
}

// The masters of a first founding are asked once more, with the others of that. What has changed meanwhile counts, and nothing is founded or
// admitted over it.
func TestBootstrapSeesWhatChanges(t *testing.T) {
	for _, tt := range []struct {
		name     string
		before   func(s *fleettest.Fleet)
		places   []int
		meantime func(s *fleettest.Fleet)
		want     string // why nothing was changed; "": all vote
	}{
		{"a key comes", func(s *fleettest.Fleet) { first(s, 0, 1, 2) }, []int{0, 1, 2}, func(s *fleettest.Fleet) { s.Do(2, "SET", "r", "T") }, "m3: it holds 1 keys: it is not new"},
		{"all forget", func(s *fleettest.Fleet) { first(s, 2, 0, 1) }, []int{0, 1, 2}, func(s *fleettest.Fleet) {
			for i := range 3 {
				s.Do(i, "FLUSHALL")
			}
		}, ""},
		{"all forget, and the settings have another order than the places", func(s *fleettest.Fleet) { first(s, 2, 0, -1) }, []int{0, 1, 2}, func(s *fleettest.Fleet) {
			for i := range 3 {
				s.Do(i, "FLUSHALL")
			}
		}, ""},
		{"the one that has voted goes away", func(s *fleettest.Fleet) { admitAll(s); s.Do(0, "FLUSHALL"); s.Do(1, "FLUSHALL") }, []int{0, 1, 2}, func(s *fleettest.Fleet) {
			s.Masters[2].SetReachable(false)
		}, "m3: it has a membership (version 0): it is not new"},
	} {
		fleettest.InVirtualTime(t, 3, func(s *fleettest.Fleet) {
			tt.before(s)
			o := s.OptionsOf(tt.places...)
			w := watch(&o)
			meantime := sync.OnceFunc(func() { tt.meantime(s) })
			w.onClose = func(string, int) { meantime() }
			w.onDial = func(_ string, nth int) {
				if nth > 1 {
					meantime()
				}
			}
			_, err := Bootstrap(s.Context(), o, true)
			w.onClose, w.onDial = nil, nil
			s.Masters[2].SetReachable(true)
			switch {
			case tt.want != "":
				if got := fmt.Sprint(err); got != "bootstrap: nothing was changed: "+tt.want {
					s.Errorf("%s: got %s, want that nothing was changed, and %s", tt.name, got, tt.want)
				}
			case err != nil:
				s.Errorf("%s: %v", tt.name, err)
			default:
				wantAllVote(s, tt.name, o)
			}
		})
	}
}

// Who is behind is told of the membership in force before the next step: a master that is full cannot take part in that.
func TestBootstrapTellsWhoIsBehind(t *testing.T) {
	fleettest.InVirtualTime(t, 3, func(s *fleettest.Fleet) {
		tell(s, seatOfATypo(s), 1, 2)
		s.Masters[2].SetFull(true)
		o := s.OptionsOf(0, 1, 2)
		if _, err := Bootstrap(s.Context(), o, false); err != nil {
			s.Fatal(err)
		}
		s.Masters[2].SetFull(false)
		r, err := member.ParseRecord(s.Do(0, "HGET", lua.MembersKey, "r").(string))
		if err != nil {
			s.Fatal(err)
		}
		tell(s, r, 2)
		wantAllVote(s, "one was full", o)
	})
}

// One Redis that has two names in the settings is admitted once.
func TestBootstrapOfOneRedisWithTwoNames(t *testing.T) {
	fleettest.InVirtualTime(t, 3, func(s *fleettest.Fleet) {
		o := s.OptionsOf(0, 1, 2, 0)
		o.Masters[3].Addr = "alias1"
		reports, err := Bootstrap(s.Context(), o, true)
		if err != nil {
			s.Fatal(err)
		}
		for i, r := range reports {
			if twin := i == 3; r.Admitted == twin || r.Missing != twin {
				s.Errorf("%s: got %+v, want that it is admitted: %v", r.Addr, r, !twin)
			}
		}
	})
}

// What a bootstrap says of one master, by what it shows, and what is in the way.
func TestBootstrapReport(t *testing.T) {
	const memory = "run1:0000000000000001"
	record := func(change func(r *member.Record)) *member.Record {
		r := &member.Record{Generation: 1, Lineage: "0123456789abcdef", Version: 1, Parent: strings.Repeat("5a", member.DigestLen/2), MaxTTL: time.Minute, Ceiling: time.Minute, Wait: 70 * time.Second}
		for i := range 3 {
			r.Seats = append(r.Seats, member.Seat{Number: i, Name: fmt.Sprint("m", i+1), Addr: fmt.Sprint("m", i+1), State: member.Vacant})
		}
		change(r)
		return r.Seal()
	}
	same := func(*member.Record) {}
	another := func(r *member.Record) { r.Lineage = "01234567fedcba98" }
	voted := func(r *member.Record) { r.Seats[0].State, r.Seats[0].Memory = member.Voter, memory }
	later := func(r *member.Record) { r.Version = 2 }
	parent := record(same)
	settled := func(r *member.Record) func(f *member.Report) {
		return func(f *member.Report) { f.State, f.Record = member.State{Memory: memory, Record: r.ID()}, r }
	}
	was := func(r *member.Record) func(f *member.Report) { return func(f *member.Report) { f.Before = r } }
	for _, tt := range []struct {
		name        string
		change      func(f *member.Report)
		parent      *member.Record
		shows, want string // want: why it is not admitted
	}{
		{"new", func(*member.Report) {}, nil, "nothing", ""},
		{"new, beside a first founding", func(*member.Report) {}, parent, "nothing", ""},
		{"a key", func(f *member.Report) { f.Keys = 1 }, nil, "nothing", "it holds 1 keys: it is not new"},
		{"a first founding", settled(parent), parent, "founded, waits", ""},
		{"a first founding, and a key", func(f *member.Report) { settled(parent)(f); f.Keys = 2 }, parent, "founded, waits", "it holds 2 keys: it is not new"},
		{"a first founding that a majority does not know", settled(parent), nil, "founded, waits", ""},
		{"another first founding", settled(record(another)), parent, "founded, waits",
			"it has another membership than the others (of m1, m2, m3), in which nobody has ever voted: run FLUSHALL on it"},
		{"somebody has voted", settled(record(voted)), nil, "version 1", "it has a membership (version 1): it is not new"},
		{"the text is gone", func(f *member.Report) { settled(parent)(f); f.Record = nil }, parent, "version 1", member.RecordIsGone},
		{"it was a member", was(parent), nil, "version 1 before it was restarted", "it has a membership (version 1 before it was restarted): it is not new"},
		{"it was a member of this one", was(parent), parent, "version 1 before it was restarted", ""},
		{"it was a member of this one, and a later version", was(record(later)), parent, "version 2 before it was restarted", "it has a membership (version 2 before it was restarted): it is not new"},
		{"it was a member of another one", was(record(another)), parent, "version 1 before it was restarted", "it has a membership (version 1 before it was restarted): it is not new"},
	} {
		f := &member.Report{RunID: "run1", Version: "Redis 7", State: member.State{Memory: memory, Fresh: true}}
		tt.change(f)
		got := bootstrapReportOf(f, tt.parent)
		problem := ""
		if got.Problem != nil {
			problem = got.Problem.Error()
		}
		if got.Shows != tt.shows || problem != tt.want || got.Missing || got.Keys != f.Keys || got.RunID != "run1" || got.Version != "Redis 7" {
			t.Errorf("%s: got %+v, want that it shows %q, and the problem %q", tt.name, got, tt.shows, tt.want)
		}
	}
	if got := bootstrapReportOf(&member.Report{Err: fleettest.ErrAway, Keys: 7}, nil); !got.Missing || got.Problem != fleettest.ErrAway || got.Keys != -1 || got.Shows != "" {
		t.Errorf("away: got %+v", got)
	}
}
