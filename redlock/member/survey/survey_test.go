package survey

// Goal: a survey waits for masters as long as it was asked to, and what it says of each is what that shows now. Method: masters in memory, in
// virtual time: where nothing delays, a survey takes no time.

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/memmaster"
)

// A survey ends when all have answered; when enough have, and grace is over, counted from then; when fewer have, and it is late; or when who is told
// of each answer says so. It ends after ConnectTimeout in any case.
func TestPatienceOfASurvey(t *testing.T) {
	const (
		step = 50 * time.Millisecond
		none = 99
	)
	took := func(s *fleettest.Fleet, p Patience, slow, hung []int) (time.Duration, *Masters) {
		links := s.Links()
		for _, i := range slow {
			links[i].SetDelay(func() time.Duration { return step / 10 }, func() time.Duration { return 0 })
		}
		for _, i := range hung {
			links[i].Partition()
			defer links[i].Heal()
		}
		o := s.Options(links)
		began := time.Now()
		all := Ask(s.Context(), o.Places(), p, o)
		return time.Since(began), all
	}
	fleettest.InVirtualTime(t, 4, func(s *fleettest.Fleet) {
		found(s)
		answer, all := took(s, Patience{Enough: none}, []int{3}, nil) // of a slow one
		all.Close()
		if answer <= 0 || answer > time.Second/4 {
			s.Fatalf("a slow master answers after %v", answer)
		}
		told := 0
		for _, tt := range []struct {
			name       string
			p          Patience
			slow, hung []int
			want       time.Duration
			answered   int
		}{
			{"all answer", Patience{Enough: none}, nil, nil, 0, 4},
			{"one hangs, and all are wanted", Patience{Enough: 4}, nil, []int{3}, time.Second, 3},
			{"one hangs, and three are enough", Patience{Enough: 3, Grace: step}, nil, []int{3}, step, 3},
			{"one hangs, and three are enough at once", Patience{Enough: 3}, nil, []int{3}, 0, 3},
			{"grace runs from when they were enough", Patience{Enough: 3, Grace: step}, []int{2}, []int{3}, answer + step, 3},
			{"and not from each further answer", Patience{Enough: 2, Grace: answer + step}, []int{2}, []int{3}, answer + step, 3},
			{"one hangs, and it is late for three", Patience{Enough: 4, Fewer: 3, Late: 3 * step}, nil, []int{3}, 3 * step, 3},
			{"late runs from when they were as many", Patience{Enough: 4, Fewer: 3, Late: step}, []int{2}, []int{3}, answer + step, 3},
			{"and not from each further answer, too", Patience{Enough: 4, Fewer: 2, Late: answer + step}, []int{2}, []int{3}, answer + step, 3},
			{"late for one", Patience{Enough: 4, Fewer: 1, Late: step}, nil, []int{1, 2, 3}, step, 1},
			{"late for nobody", Patience{Enough: 4, Fewer: 0, Late: step}, nil, []int{1, 2, 3}, time.Second, 1},
			{"too few for either", Patience{Enough: 4, Grace: step, Fewer: 3, Late: step}, nil, []int{2, 3}, time.Second, 2},
			{"who is told has heard enough", Patience{Enough: none, Answered: func(s *member.Survey, f *member.Report) bool { told++; return len(s.Reports) == 2 }}, nil, []int{3}, 0, -1},
			{"who is told has not", Patience{Enough: none, Answered: func(*member.Survey, *member.Report) bool { return false }}, nil, []int{3}, time.Second, 3},
		} {
			got, all := took(s, tt.p, tt.slow, tt.hung)
			if got != tt.want {
				s.Errorf("%s: got an end after %v, want %v", tt.name, got, tt.want)
			}
			if n := all.Count((*member.Report).OK); n != tt.answered && tt.answered >= 0 {
				s.Errorf("%s: %d have answered, want %d", tt.name, n, tt.answered)
			}
			for i, f := range all.Reports {
				if f.Place != i || len(all.Reports) != 4 {
					s.Errorf("%s: report %d of %d is of place %d", tt.name, i, len(all.Reports), f.Place)
				}
			}
			all.Close()
		}
		if told != 4 {
			s.Errorf("who is told of each answer was told of %d, want 4: also of those that were broken off", told)
		}
	})
}

// Close ends what still waits for an answer, and returns when nobody uses the connections any more. None is left open.
func TestCloseEndsWhatIsAsked(t *testing.T) {
	fleettest.InVirtualTime(t, 3, func(s *fleettest.Fleet) {
		links, open := s.Links(), new(atomic.Int64)
		o := s.Options(links)
		for i := range o.Masters {
			o.Masters[i].Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if i == 2 {
					return nil, fleettest.ErrAway
				}
				c, err := links[i].Dial(ctx, network, addr)
				open.Add(1)
				return &closing{c, func() { open.Add(-1) }}, err
			}
		}
		all := Ask(s.Context(), o.Places(), Patience{Enough: 3}, o)
		if n := open.Load(); n != 2 || all.Reports[2].Conn != nil || all.Reports[2].Err != fleettest.ErrAway {
			s.Errorf("got %d connections open, and %v of the third", n, all.Reports[2].Err)
		}
		links[0].HoldReplies()
		defer links[0].Heal()
		ended := false
		all.Go(func() {
			all.Reports[0].Conn.Redis.Time(context.Background())
			time.Sleep(time.Millisecond)
			ended = true
		})
		synctest.Wait()
		began := time.Now()
		all.Close()
		if took := time.Since(began); took != time.Millisecond || !ended || open.Load() != 0 {
			s.Errorf("closed after %v, the question has ended: %v, %d connections are open; want all ended, and none", took, ended, open.Load())
		}
		for _, f := range all.Reports {
			if f.Conn != nil {
				s.Errorf("place %d still has a connection", f.Place)
			}
		}
		all.Close()
	})
}

// closing tells when it is closed first.
type closing struct {
	net.Conn
	closed func()
}

func (c *closing) Close() error {
	if c.closed != nil {
		c.closed()
		c.closed = nil
	}
	return c.Conn.Close()
}

// What one master shows, and what is said of it.
func TestWhatAMasterShows(t *testing.T) {
	const key = lua.MembersKey
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	for _, tt := range []struct {
		name     string
		prepare  func(s *fleettest.Fleet)
		readOnly bool
		err      string // how the error begins; "": none
		want     string // of the rest
	}{
		{"new", func(s *fleettest.Fleet) { s.Do(0, "DEL", key) }, false, "", "fresh, 0 keys, says it has no membership: it is new, has restarted without its data, or was flushed"},
		{"new, and it is only read", func(s *fleettest.Fleet) { s.Do(0, "DEL", key) }, true, "", "fresh, 0 keys, not named"},
		{"new, with a lock", func(s *fleettest.Fleet) { s.Do(0, "DEL", key); s.Do(0, "SET", "lock", "x") }, true, "", "fresh, 1 keys, not named"},
		{"a member", func(s *fleettest.Fleet) {}, false, "", "settled, 0 keys"},
		{"a member, and it is only read", func(s *fleettest.Fleet) {}, true, "", "settled, 0 keys"},
		{"a member with two locks", func(s *fleettest.Fleet) { s.Do(0, "SET", "lock", "x"); s.Do(0, "SET", "lock2", "x") }, false, "", "settled, 2 keys"},
		{"one field and a lock", func(s *fleettest.Fleet) {
			s.Do(0, "DEL", key)
			s.Do(0, "HSET", key, "beat", 1)
			s.Do(0, "SET", "lock", "x")
		}, true, "", "fresh, 1 keys, not named"},
		{"it has restarted", func(s *fleettest.Fleet) { s.Masters[0].Crash(true); s.Masters[0].Restart() }, false, "", "fresh, of version 0 before, 0 keys, says its membership is of another run"},
		{"it has lost its name", func(s *fleettest.Fleet) { s.Do(0, "HDEL", key, "v") }, true, "", "fresh, of version 0 before, 0 keys, says it has no membership"},
		{"another key in its place", func(s *fleettest.Fleet) { s.Do(0, "DEL", key); s.Do(0, "SET", key, "x") }, false, "refused: its " + key + " is no membership", ""},
		{"the state of a newer version", func(s *fleettest.Fleet) {
			s.Do(0, "HSET", key, "v", s.Do(0, "HGET", key, "v").(string)+" newer")
		}, false, "refused: the field v of " + key, ""},
		{"a floor beyond belief", func(s *fleettest.Fleet) { s.Do(0, "SET", lua.FloorKey, "9007199254740991") }, false, "refused: its " + lua.FloorKey, ""},
		{"a floor", func(s *fleettest.Fleet) { s.Do(0, "SET", lua.FloorKey, "4711") }, false, "", "settled, 1 keys, fences to 4711"},
		{"it may evict", func(s *fleettest.Fleet) {
			s.Do(0, "CONFIG", "SET", "maxmemory", "1000000", "maxmemory-policy", "allkeys-lru")
		}, false, "refused: it may evict locks", ""},
	} {
		fleettest.InVirtualTime(t, 1, func(s *fleettest.Fleet) {
			found(s)
			tt.prepare(s)
			o := s.Options(s.Links())
			o.ReadOnly = tt.readOnly
			all := Ask(s.Context(), o.Places(), Patience{Enough: 1}, o)
			defer all.Close()
			f := all.Reports[0]
			if got := text(f.Err); got != tt.err && (tt.err == "" || !strings.HasPrefix(got, tt.err)) {
				s.Errorf("%s: got the error %q, want %q", tt.name, got, tt.err)
			}
			if tt.err != "" {
				return
			}
			got := "settled"
			if f.State.Fresh {
				got = "fresh"
			}
			if f.Before != nil {
				got += fmt.Sprintf(", of version %d before", f.Before.Version)
			}
			got += fmt.Sprintf(", %d keys", f.Keys)
			if f.High > 0 {
				got += fmt.Sprint(", fences to ", f.High)
			}
			if why, _ := s.Do(0, "HGET", key, "why").(string); why != "" {
				got += ", says " + why
			} else if s.Do(0, "HGET", key, "v") == nil {
				got += ", not named"
			}
			if !strings.HasPrefix(got, tt.want) || !strings.HasPrefix(f.State.Memory, f.RunID+":") {
				s.Errorf("%s: got %s, with the memory %s; want %s", tt.name, got, f.State.Memory, tt.want)
			}
		})
	}
}

// The clock of a master was read between when it was asked and when it answered: waits are reckoned from that.
func TestWhenTheClockWasRead(t *testing.T) {
	fleettest.InVirtualTime(t, 1, func(s *fleettest.Fleet) {
		found(s)
		links := s.Links()
		links[0].SetDelay(func() time.Duration { return 20 * time.Millisecond }, func() time.Duration { return 30 * time.Millisecond })
		s.Masters[0].StepClock(time.Hour)
		o := s.Options(links)
		all := Ask(s.Context(), o.Places(), Patience{Enough: 1}, o)
		defer all.Close()
		f := all.Reports[0]
		if f.Err != nil || f.Received.Sub(f.Sent) != 50*time.Millisecond || f.Clock.Sub(f.Sent) != time.Hour+20*time.Millisecond || !f.Received.Equal(time.Now()) && time.Since(f.Received) > time.Second {
			s.Errorf("got %v, asked at %v, answered at %v, its clock %v", f.Err, f.Sent, f.Received, f.Clock)
		}
	})
}

// Two addresses of one Redis would vote twice: the second one is refused.
func TestTwinIsRefused(t *testing.T) {
	fleettest.InVirtualTime(t, 2, func(s *fleettest.Fleet) {
		o := s.Options(s.Links())
		masters := map[int]conn.Master{0: o.Masters[0], 1: o.Masters[1], 2: {Addr: "alias", Dialer: o.Masters[0].Dialer}}
		all := Ask(s.Context(), masters, Patience{Enough: 3}, o)
		defer all.Close()
		if err := all.Reports[2].Err; !conn.IsRefused(err) || !strings.Contains(err.Error(), "it is the same Redis as m1: each vote must come from a master of its own") || all.Count((*member.Report).OK) != 2 {
			s.Errorf("got %v, and %d that are fit", err, all.Count((*member.Report).OK))
		}
	})
}

// A Redis serves one fleet: it is refused where another of its databases has the membership of one, with a seat there. Where that has got there by
// SWAPDB, or is none, it is not.
func TestFleetInAnotherDatabase(t *testing.T) {
	for _, tt := range []struct {
		name    string
		addr    string // of the seat in the membership of database 1; "": there is none
		here    int    // the database that is meant
		record  bool   // the text is one
		once    bool   // the Redis takes no second connection
		refused bool
		dials   int64
	}{
		{"nothing there", "", 0, true, false, false, 1},
		{"a fleet there", "m1/1", 0, true, false, true, 2},
		{"a fleet there, and no second connection", "m1/1", 0, true, true, false, 2},
		{"in its own", "m1/1", 1, true, false, false, 1},
		{"it was swapped there", "m1", 0, true, false, false, 2},
		{"no record", "m1/1", 0, false, false, false, 2},
	} {
		fleettest.InVirtualTime(t, 1, func(s *fleettest.Fleet) {
			links, open, dials := s.Links(), new(atomic.Int64), new(atomic.Int64)
			o := s.Options(links)
			o.Masters[0].Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if dials.Add(1) > 1 && tt.once {
					return nil, fleettest.ErrAway
				}
				c, err := links[0].Dial(ctx, network, addr)
				open.Add(1)
				return &closing{c, func() { open.Add(-1) }}, err
			}
			in := func(db int, args ...any) {
				all := Ask(s.Context(), map[int]conn.Master{0: {Addr: "m1", Dialer: links[0].Dial}}, Patience{Enough: 1}, o)
				defer all.Close()
				pipe := all.Reports[0].Conn.Redis.Pipeline()
				pipe.Select(s.Context(), db)
				reply := pipe.Do(s.Context(), args...)
				if pipe.Exec(s.Context()); reply.Err() != nil {
					s.Fatal(reply.Err())
				}
			}
			if tt.addr != "" {
				r := &member.Record{Generation: 1, Lineage: "0123456789abcdef", MaxTTL: time.Minute, Ceiling: time.Minute, Wait: 2 * time.Minute,
					Seats: []member.Seat{{Name: "m1", Addr: tt.addr, Memory: "run:0123456789abcdef", State: member.Learner}}}
				text := r.Seal().Text
				if !tt.record {
					text = "x"
				}
				in(1, "HSET", lua.MembersKey, "r", text)
			}
			s.Do(0, "DEL", lua.MembersKey)
			s.Do(0, "SET", "lock", "x")
			o.ReadOnly = true
			o.Masters[0].DB = tt.here
			all := Ask(s.Context(), o.Places(), Patience{Enough: 1}, o)
			err := all.Reports[0].Err
			if got := err != nil && strings.HasPrefix(err.Error(), "refused: its database 1 has the membership of a fleet, whose masters are m1"); got != tt.refused || !tt.refused && err != nil {
				s.Errorf("%s: got %v, want it refused: %v", tt.name, err, tt.refused)
			}
			all.Close()
			if n := open.Load(); n != 0 || dials.Load() != tt.dials {
				s.Errorf("%s: of %d connections %d are left open, want %d, and none", tt.name, dials.Load(), n, tt.dials)
			}
		})
	}
}

// A name that was not given is an error, which says what was tried.
func TestNameThatIsNotGiven(t *testing.T) {
	fleettest.InVirtualTime(t, 1, func(s *fleettest.Fleet) {
		o := s.Options(s.Links())
		all := Ask(s.Context(), o.Places(), Patience{Enough: 1}, o)
		defer all.Close()
		f := all.Reports[0]
		if err := NameMemory(s.Context(), f.Conn, f.V, member.NewMemory(f.RunID), "why"); err != nil {
			s.Error(err)
		}
		f.Conn.Socket.Close()
		if err := NameMemory(s.Context(), f.Conn, f.V, member.NewMemory(f.RunID), "why"); err == nil || !strings.HasPrefix(err.Error(), "name the memory in "+lua.MembersKey) {
			s.Errorf("over a broken connection: got %v", err)
		}
	})
}

// A key that tries whether a master takes it is gone at once, and would be gone soon in any case.
func TestTryWriting(t *testing.T) {
	fleettest.InVirtualTime(t, 1, func(s *fleettest.Fleet) {
		found(s)
		o := s.Options(s.Links())
		all := Ask(s.Context(), o.Places(), Patience{Enough: 1}, o)
		defer all.Close()
		var sets []string
		s.Masters[0].SetObserver(func(e *memmaster.Executed) {
			if strings.EqualFold(string(e.Args[0]), "SET") {
				var words []string
				for _, a := range e.Args {
					words = append(words, strings.ToUpper(string(a)))
				}
				sets = append(sets, strings.Join(words, " "))
			}
		})
		if err := TryWriting(s.Context(), all.Reports[0]); err != nil || len(sets) != 1 || !strings.HasSuffix(sets[0], " EX 1") {
			s.Errorf("got %v, and it was sent %q; want one SET, for a second", err, sets)
		}
		if keys := s.Masters[0].Keys(); strings.Contains(fmt.Sprint(keys), "probe") {
			s.Errorf("it has %q", keys)
		}
		s.Masters[0].SetFull(true)
		if err := TryWriting(s.Context(), all.Reports[0]); err == nil {
			s.Error("its memory is full: got no error")
		}
	})
}
