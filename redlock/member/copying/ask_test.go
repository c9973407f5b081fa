package copying

// Goal: a copy goes by masters that remember, whose clocks are in step, and that answer in time; it is told of those that it goes on without. Method: virtual time;
// answers that the test makes, and masters in memory for what goes over connections.

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/member/survey"
)

// sourcesOf has a copy from n sources, to a learner that nobody asks, of which a quorum of three must be left.
func sourcesOf(n int) *Copy {
	c := &Copy{Copier: &Copier{Opts: member.Options{Logger: slog.New(slog.DiscardHandler)}}, quorum: 3, learner: &Place{Name: "learner"}, survey: &survey.Masters{Survey: &member.Survey{}}}
	var sources []*Place
	for i := range n {
		sources = append(sources, &Place{number: i, Name: fmt.Sprint("m", i)})
	}
	c.setSources(sources)
	return c
}

func namesOf(places []*Place) string {
	var names []string
	for _, p := range places {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

// A copy waits for its learner, and for the sources that it needs; for others a while longer, which is some times what those have taken. Who fails is left out, as long
// as a quorum is left.
func TestHowLongACopyWaits(t *testing.T) {
	const ms, hangs, fails = time.Millisecond, time.Hour, -1
	for _, tt := range []struct {
		name    string
		sources []time.Duration // how long each takes
		learner time.Duration   // 0: it is not asked
		took    time.Duration
		want    string // who has answered, in the order of the places; or the error
		out     string // who is left out
	}{
		{"all answer, the last first", []time.Duration{3 * ms, 2 * ms, 1 * ms}, 0, 3 * ms, "m0 m1 m2", ""},
		{"two of five hang", []time.Duration{10 * ms, 10 * ms, 10 * ms, hangs, hangs}, 0, 110 * ms, "m0 m1 m2", "m3 m4"},
		{"all are slow, and one hangs", []time.Duration{200 * ms, 200 * ms, 200 * ms, 900 * ms, hangs}, 0, 1000 * ms, "m0 m1 m2 m3", "m4"},
		{"who comes meanwhile gives the rest no more time", []time.Duration{10 * ms, 10 * ms, 10 * ms, 100 * ms, 300 * ms}, 0, 110 * ms, "m0 m1 m2 m3", "m4"},
		{"one is fast, and the others are needed", []time.Duration{10 * ms, 200 * ms, 200 * ms, 200 * ms, 200 * ms}, 0, 200 * ms, "m0 m1 m2 m3 m4", ""},
		{"the learner is needed", []time.Duration{10 * ms, 10 * ms, 10 * ms, 10 * ms}, 10 * time.Second, 10 * time.Second, "m0 m1 m2 m3 learner", ""},
		{"one fails", []time.Duration{10 * ms, fails, 10 * ms, 10 * ms, 10 * ms}, 0, 10 * ms, "m0 m2 m3 m4", "m1"},
		{"a quorum is left", []time.Duration{10 * ms, fails, 10 * ms, fails, 10 * ms}, 0, 10 * ms, "m0 m2 m4", "m1 m3"},
		{"too few are left", []time.Duration{10 * ms, fails, fails, fails, 10 * ms}, 0, 0, "the master is away", "two"},
		{"the learner fails", []time.Duration{10 * ms, 10 * ms, 10 * ms}, fails, 0, "learner: the master is away", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := sourcesOf(len(tt.sources))
			places, waits := slices.Clone(c.Sources), slices.Clone(tt.sources)
			if tt.learner != 0 {
				places, waits = append(places, c.learner), append(waits, tt.learner)
			}
			began := time.Now()
			got, err := c.ask(places, func(p *Place) (a copyAnswer, err error) {
				wait := waits[slices.Index(places, p)]
				if wait == fails {
					return a, fleettest.ErrAway
				}
				time.Sleep(wait)
				return a, nil
			})
			if took := time.Since(began); took != tt.took {
				t.Errorf("%s: took %v, want %v", tt.name, took, tt.took)
			}
			var answered, out []*Place
			for _, a := range got {
				answered = append(answered, a.place)
			}
			for _, one := range c.LeftOut {
				out = append(out, one.Place)
			}
			slices.SortFunc(out, func(a, b *Place) int { return a.number - b.number })
			switch {
			case err != nil:
				if !strings.Contains(err.Error(), tt.want) || (len(out) == 2) != (tt.out == "two") {
					t.Errorf("%s: got %v, and %s left out, want %s", tt.name, err, namesOf(out), tt.want)
				}
			case namesOf(answered) != tt.want || namesOf(out) != tt.out || len(c.Sources) != len(tt.sources)-len(out):
				t.Errorf("%s: got answers of %s, and %s left out, want %s, and %s", tt.name, namesOf(answered), namesOf(out), tt.want, tt.out)
			}
			c.survey.Close()
		})
	}
}

// Of a source that is left out nothing more is waited for, and it is told with the reason, in a line of which a master cannot make a page.
func TestSourceThatIsLeftOut(t *testing.T) {
	for _, f := range []*member.Report{nil, {}, {Conn: &conn.Conn{}}} {
		c := sourcesOf(5)
		p := c.Sources[2]
		var theirs net.Conn
		if p.f = f; f != nil && f.Conn != nil {
			f.Conn.Socket, theirs = net.Pipe()
		}
		if err := c.fails(p, errors.New("broken"+strings.Repeat("!", 10_000))); err != nil {
			t.Fatal(err)
		}
		if namesOf(c.Sources) != "m0 m1 m3 m4" || c.Progress().From != "m0,m1,m3,m4" {
			t.Errorf("got the sources %s, for others %s", namesOf(c.Sources), c.Progress().From)
		}
		if one := c.LeftOut[0]; len(c.LeftOut) != 1 || one.Place != p || one.Learner != "learner" || !strings.HasPrefix(one.Why.Error(), "broken") || len(one.Why.Error()) > conn.ErrorTextMax+len("…") {
			t.Errorf("got %d left out, the first %s, beside %s: %d bytes", len(c.LeftOut), one.Name, one.Learner, len(one.Why.Error()))
		}
		if theirs != nil {
			theirs.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) && fmt.Sprint(err) != "EOF" {
				t.Errorf("its connection: got %v, want that it is closed", err)
			}
		}
	}
}

// seeing is a host that writes down whose gains it is told of.
type seeing struct {
	Host
	saw  []int
	last clock.Reading
}

func (h *seeing) Saw(place int, _ string, now clock.Reading) {
	h.saw, h.last = append(h.saw, place), now
}

// stage is a copy from the first masters of a fleet to the last one, over connections that are there.
type stage struct {
	*fleettest.Fleet
	*Copy
	host *seeing
	log  bytes.Buffer
	r    *member.Record
	cut  func(place int)                    // its connections break
	slow func(place int, way time.Duration) // a request and a reply take so long each
}

func onMasters(t *testing.T, n int, test func(s *stage)) {
	t.Helper()
	fleettest.InVirtualTime(t, n, func(fleet *fleettest.Fleet) {
		links := fleet.Links()
		s := &stage{Fleet: fleet, host: &seeing{}, cut: func(place int) { links[place].Cut() }}
		s.slow = func(place int, way time.Duration) {
			delay := func() time.Duration { return way }
			links[place].SetDelay(delay, delay)
		}
		o := s.Options(links)
		o.Logger = slog.New(slog.NewTextHandler(&s.log, nil))
		found := survey.Ask(fleet.Context(), o.Places(), survey.Patience{Enough: n}, o)
		fleet.Cleanup(found.Close)
		s.r = votersOf("a1", "b1", "c1", "d1", "e1")
		s.r.Seats = s.r.Seats[:n]
		for i, f := range found.Reports {
			if f.Err != nil {
				fleet.Fatal(f.Err)
			}
			s.r.Seats[i].Memory = f.State.Memory
		}
		s.r.Seats[n-1].State, s.r.Seats[n-1].Since = member.Learner, s.r.Version
		s.r.Seal()
		own := &clock.Own{}
		own.Start(time.Now())
		s.Copy = &Copy{Copier: &Copier{Own: own, Opts: o, Current: func() *member.Record { return s.r }, Host: s.host}, quorum: n/2 + 1, under: s.r.ID(), survey: found,
			minority: minorityLocks{named: make(map[string]member.MinorityLock)}, count: copyCount, seen: newSeenNames(), noted: time.Now()}
		var all []*Place
		for i, f := range found.Reports {
			all = append(all, &Place{number: i, Name: fmt.Sprint("m", i), memory: f.State.Memory, f: f})
			s.shows(i, s.r)
			if err := f.Conn.Load(fleet.Context()); err != nil {
				fleet.Fatal(err)
			}
		}
		s.setSources(all[:n-1])
		s.learner = all[n-1]
		test(s)
	})
}

// shows has a master show a record.
func (s *stage) shows(i int, r *member.Record) {
	s.Do(i, "HSET", lua.MembersKey, "v", r.ShownBy(s.r.Seats[i].Memory), "r", r.Text, "beat", 10)
}

func (s *stage) wantOf(what string, p *Place, want string) {
	s.Helper()
	err := s.pipe(s.Context(), p, func(pipe redis.Pipeliner) {})
	if got := fmt.Sprint(err); (want == "" && err != nil) || !strings.Contains(got, want) {
		s.Errorf("%s: got %s, want %q", what, got, want)
	}
}

// Whatever a master replies counts only if it remembers, its clock has gained nothing, and it is not behind. The learner may be behind: it is written to only where it
// shows what it has to. A gain is handed on, because other copies and votes go by that clock, too.
func TestMastersOfACopyAreJudged(t *testing.T) {
	onMasters(t, 3, func(s *stage) {
		before := *s.r
		before.Version--
		before.Seal()
		source := s.Sources[0]
		source.ring = &clock.Ring{}
		now := s.Own.Reading(time.Now())
		source.ring.Add(now, fleettest.Drift.Rate(), time.Hour)
		s.slow(0, 5*time.Millisecond)
		s.wantOf("a source", source, "")
		s.wantOf("the learner", s.learner, "")
		if len(s.host.saw) != 0 {
			s.Errorf("got gains of %v, want none", s.host.saw)
		}
		s.Masters[1].StepClock(time.Hour)
		s.wantOf("one whose clock nobody has watched", s.Sources[1], "")
		if ahead := s.Sources[1].ahead; ahead < time.Hour-time.Second || ahead > time.Hour+time.Second {
			s.Errorf("its clock is an hour ahead: got %v", ahead)
		}
		s.Masters[0].StepClock(100 * time.Millisecond)
		s.wantOf("a source whose clock has gained", source, "its clock gained")
		if !slices.Equal(s.host.saw, []int{0}) {
			s.Errorf("got gains of %v, want of m0", s.host.saw)
		}
		if took := s.host.last.Received - s.host.last.Sent; took != 10*time.Millisecond {
			s.Errorf("the clock was read within %v, want the 10ms that the round trip takes", took)
		}
		s.shows(1, &before)
		s.wantOf("a source that is behind", s.Sources[1], "it shows an older membership")
		s.shows(2, &before)
		s.wantOf("a learner that is behind", s.learner, "")
		s.Do(2, "HSET", lua.MembersKey, "v", s.r.ShownBy(member.NewMemory("another")))
		s.wantOf("a learner that has forgotten", s.learner, errForgotten.Error())
		s.Do(1, "DEL", lua.MembersKey)
		s.Do(1, "SET", lua.MembersKey, "a text")
		s.wantOf("a source whose membership is something else", s.Sources[1], "is no membership")
		s.cut(1)
		if err := s.pipe(s.Context(), s.Sources[1], func(redis.Pipeliner) {}); err == nil || errors.Is(err, errForgotten) {
			s.Errorf("a connection that is cut: got %v, want that", err)
		}
	})
}

// What a source holds is of no account if it has forgotten by the end of its reply.
func TestSourceThatForgetsWhileItIsRead(t *testing.T) {
	onMasters(t, 5, func(s *stage) {
		for i := range 4 {
			s.Do(i, "SET", "a", "v", "PX", 60_000)
		}
		s.Do(1, "HSET", lua.MembersKey, "v", s.r.ShownBy(member.NewMemory("another")))
		entries, err := s.read(s.Context(), s.Sources, []string{"a", "b"})
		if err != nil || len(entries) != 3 || namesOf(s.Sources) != "m0 m2 m3" || len(s.LeftOut) != 1 || !errors.Is(s.LeftOut[0].Why, errForgotten) {
			s.Fatalf("got %d entries, %v, and the sources %s, want those of three, without m1", len(entries), err, namesOf(s.Sources))
		}
		for i, of := range entries {
			if a, b := of[0], of[1]; a.value != "v" || a.left < 59_000 || a.left > 60_000 || b.kind != copyNothing {
				s.Errorf("%s: got %+v and %+v, want a minute of v, and nothing", s.Sources[i].Name, a, b)
			}
		}
		var cmd *redis.Cmd
		if err := s.pipe(s.Context(), s.Sources[0], func(pipe redis.Pipeliner) { cmd = s.readCommand(s.Context(), pipe, []string{"a"}, false) }); err != nil {
			s.Fatal(err)
		}
		if got, err := s.entriesOf(s.Sources[0], cmd, 1); err != nil || got[0].value != "v" || got[0].left != 0 {
			s.Errorf("without ends: got %+v, %v, want v, and no end", got, err)
		}
	})
}

// What a minority held is read once more at the end. The learner tells of what is so then, and of nothing that was so before; so does the log.
func TestMinorityIsTold(t *testing.T) {
	onMasters(t, 5, func(s *stage) {
		told := func(want string, logs ...string) {
			s.Helper()
			s.log.Reset()
			if err := s.tellMinority(s.Context()); err != nil {
				s.Fatal(err)
			}
			tells := s.Do(4, "HGET", lua.MembersKey, member.MinorityField)
			if text, is := tells.(string); is != (want != "") || !strings.Contains(text, want) {
				s.Errorf("the learner tells %q, want %s", tells, want)
			}
			for _, log := range logs {
				if !strings.Contains(s.log.String(), log) {
					s.Errorf("got the log %q, want %q in it", s.log.String(), log)
				}
			}
			if len(logs) == 0 && s.log.Len() > 0 {
				s.Errorf("got the log %q, want none", s.log.String())
			}
		}
		told("")
		for _, i := range []int{0, 1} { // two of four sources: no quorum
			s.Do(i, "SET", "a", "v", "PX", 60_000)
		}
		s.minority.named["a"] = member.MinorityLock{}
		told(`"m0,m1" "a"`, "locks=1", "resources=a")
		s.minority.others = 1
		told(`"m0,m1" "a"`, "locks=2", "resources=a")
		s.minority.others = 0
		for i := range 5 {
			s.Do(i, "DEL", "a")
		}
		told("")
		s.minority.named["a"] = member.MinorityLock{}
		for i := range 3 {
			s.cut(i)
		}
		s.log.Reset()
		if err := s.tellMinority(s.Context()); err == nil || strings.Contains(s.log.String(), "fewer than a quorum") {
			s.Errorf("too few sources are left: got %v, and the log %q", err, s.log.String())
		}
	})
	onMasters(t, 5, func(s *stage) {
		s.minority.others = 1
		s.cut(4)
		if err := s.tellMinority(s.Context()); err == nil || s.log.Len() > 0 {
			s.Errorf("the learner cannot be told: got %v, and the log %q", err, s.log.String())
		}
	})
}
