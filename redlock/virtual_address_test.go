package redlock

// Goal: a membership is that of one database of its masters, and nobody locks beside it in another one by mistake. Method: the real
// clients in virtual time, with settings and changes that name other databases.

import (
	"strings"
	"testing"
	"time"
)

// database is an option of a client: it reaches these masters, or all, in another database.
func database(db int, masters ...int) func(*Options) {
	return func(o *Options) {
		for i := range o.Masters {
			o.Masters[i].DB = db
		}
		for _, i := range masters {
			o.Masters[i].DB = 1 - db
		}
	}
}

// joinsNothing expects that the client knows no membership after a while, grants nothing, and says why.
func (p *proxy) joinsNothing(want string) {
	p.s.Helper()
	time.Sleep(2*p.opts.MaxTTL + 10*time.Second)
	p.notHeld("settings that name another database")
	if got := p.Membership(); got.Known || !strings.Contains(got.Problem, want) {
		p.s.Errorf("got %+v, want no membership, and a problem with %q", got, want)
	}
}

// The settings name the masters of a fleet, and another database than it has.
func TestSettingsWithAnotherDatabase(t *testing.T) {
	for _, tt := range []struct{ fleet, settings string }{{"0", "1"}, {"1", "0"}} {
		inVirtualTime(t, 5, func(s *stage) {
			number := map[string]int{"0": 0, "1": 1}
			s.found(briefly, database(number[tt.fleet]))
			want := "its database " + tt.fleet + " has the membership of a fleet, whose masters are m1, m2, m3, m4, m5, and database " + tt.settings +
				" has none: a Redis serves one fleet; write db = " + tt.fleet
			p := s.start(briefly, database(number[tt.settings]))
			p.joinsNothing(want)
			if err := Bootstrap(s.Context(), p.opts); err == nil || !strings.Contains(err.Error(), want) {
				s.Errorf("bootstrap: got %v, want it refused: %s", err, want)
			}
			if reports, _ := ProbeAll(s.Context(), p.opts, time.Second); reports[0].Votes() || !strings.Contains(reports[0].Problems[0].Reason, want) {
				s.Errorf("check: got %+v, want no vote: %s", reports[0], want)
			}
			// The fleet is as it was.
			fleet := s.open(briefly, database(number[tt.fleet]))
			if got, want := fleet.Membership().Seats[2].Addr, map[string]string{"0": "m3", "1": "m3/1"}[tt.fleet]; got != want {
				s.Errorf("address of the third seat: got %s, want %s", got, want)
			}
			fleet.lockable("r")
		})
	}
}

// The settings name one or most of the masters in another database than the membership.
func TestSettingsWithTwoDatabases(t *testing.T) {
	for _, others := range [][]int{{2}, {2, 3, 4}} {
		inVirtualTime(t, 5, func(s *stage) {
			s.found(briefly)
			p := s.start(briefly, database(0, others...))
			const want = "the membership has m3 (m3) in database 0, and the settings say db = 1: locks in two databases do not exclude each other; write db = 0 for it"
			p.joinsNothing(want)
			if reports, _ := ProbeAll(s.Context(), p.opts, time.Second); reports[0].Votes() || !strings.Contains(reports[0].Problems[0].Reason, want) {
				s.Errorf("check: got %+v, want no vote: %s", reports[0], want)
			}
		})
	}
}

// A change names a database, or leaves it to the settings. All follow it there.
func TestChangeNamesADatabase(t *testing.T) {
	withSpares(t, 3, 3, func(s *stage) {
		s.found(briefly)
		p, other := s.open(briefly), s.open(briefly, func(o *Options) { o.Common.DB = 1 })
		for i, tt := range []struct {
			by     *proxy
			change MemberChange
			want   string
		}{
			{p, MemberChange{Replace: "m1", Addr: "m4/1"}, "m4/1"},
			{p, MemberChange{Replace: "m2", Addr: "m5"}, "m5"},
			{other, MemberChange{Add: "m7", Addr: "m6"}, "m6/1"},
		} {
			tt.by.change(tt.change)
			tt.by.change(tt.change) // it is so already
			for _, one := range []*proxy{p, other} {
				s.until("it follows", func() bool { return one.Membership().Version == tt.by.Membership().Version })
				one.allUp()
				if got := one.Membership().Seats[[]int{0, 1, 3}[i]].Addr; got != tt.want {
					s.Errorf("%+v: got the address %s, want %s", tt.change, got, tt.want)
				}
			}
		}
		p.lock(one("r", time.Second)).want(s, "LOCK", "held", 0)
		other.lock(one("r", time.Second)).want(s, "LOCK of a held one", "no", 0)
		p.refuses(MemberChange{Add: "m8", Addr: "m4"}, "m4 is the address of m1")
		p.refuses(MemberChange{Replace: "m3", Addr: "m3/1"}, "its database 0 has the membership of a fleet")
	})
}

// A master whose other database belongs to another fleet is not seated.
func TestMasterWithAFleetInAnotherDatabaseIsNotSeated(t *testing.T) {
	withSpares(t, 3, 1, func(s *stage) {
		beside := s.proxy().options()
		beside.Masters = []Master{{Addr: addrOf(3), DB: 1, Dialer: s.proxy().dial}}
		if err := Bootstrap(s.Context(), beside); err != nil {
			s.Fatal(err)
		}
		p := s.open(briefly)
		const want = "the master at m4 cannot be seated: refused: its database 1 has the membership of a fleet, whose masters are m4"
		p.refuses(MemberChange{Replace: "m2", Addr: addrOf(3)}, want)
		p.refuses(MemberChange{Add: "m4", Addr: addrOf(3)}, want)
	})
}
