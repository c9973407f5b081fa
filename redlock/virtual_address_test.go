package redlock

// Goal: a membership is that of one database of its masters, and nobody locks beside it in another one by mistake. And a password
// goes to no address by the word of a master. Method: the real clients in virtual time, with settings and changes that name other
// databases or addresses; what is sent to each address is recorded.

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"redlockd/redlock/member/coordinator"
	"redlockd/redlock/memmaster"
	"redlockd/redlock/redisproc"
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
	for _, others := range redisproc.Some(1, [][]int{{2}, {2, 3, 4}}) {
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
			change coordinator.Change
			want   string
		}{
			{p, coordinator.Change{Replace: "m1", Addr: "m4/1"}, "m4/1"},
			{p, coordinator.Change{Replace: "m2", Addr: "m5"}, "m5"},
			{other, coordinator.Change{Add: "m7", Addr: "m6"}, "m6/1"},
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
		p.refuses(coordinator.Change{Add: "m8", Addr: "m4"}, "m4 is the address of m1")
		p.refuses(coordinator.Change{Replace: "m3", Addr: "m3/1"}, "its database 0 has the membership of a fleet")
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
		p.refuses(coordinator.Change{Replace: "m2", Addr: addrOf(3)}, want)
		p.refuses(coordinator.Change{Add: "m4", Addr: addrOf(3)}, want)
	})
}

// sent records what a client sends to each address.
type sent struct {
	mu sync.Mutex
	to map[string]*bytes.Buffer
}

// record is an option of a client.
func (r *sent) record(o *Options) {
	r.to = make(map[string]*bytes.Buffer)
	for i := range o.Masters {
		dial := o.Masters[i].Dialer
		o.Masters[i].Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return &recordedConn{conn, r, addr}, err
		}
	}
}

// has tells whether a text was sent to an address.
func (r *sent) has(addr, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.to[addr] != nil && bytes.Contains(r.to[addr].Bytes(), []byte(text))
}

type recordedConn struct {
	net.Conn
	sent *sent
	addr string
}

func (c *recordedConn) Write(b []byte) (int, error) {
	c.sent.mu.Lock()
	if c.sent.to[c.addr] == nil {
		c.sent.to[c.addr] = new(bytes.Buffer)
	}
	c.sent.to[c.addr].Write(b)
	c.sent.mu.Unlock()
	return c.Conn.Write(b)
}

// Each master has a password of its own, and the membership gets another address for one of them. Its password goes there only where the settings
// name that address.
func TestPasswordsStayAtTheAddressesOfTheSettings(t *testing.T) {
	password := func(i int) string { return "password-of-" + addrOf(i) }
	for _, tt := range redisproc.Some(2, []struct {
		name    string
		options func(o *Options)
		sent    string // to the new address
		votes   bool
	}{
		{"the settings name the old address", func(*Options) {}, "", false},
		{"all have another password in common", func(o *Options) { o.Common.Password = "in-common" }, "in-common", false},
		{"all have the new master's password in common", func(o *Options) { o.Common.Password = password(5) }, password(5), true},
		{"the settings of an operator who names the new address", func(o *Options) { o.Masters[0].Password, o.Masters[0].NewAddr = password(5), "m6" }, password(5), true},
		{"the settings name the new address", func(o *Options) {
			o.Masters[0] = Master{Name: "m1", Addr: "m6", Password: password(5), Dialer: o.Masters[0].Dialer}
		}, password(5), true},
		{"the settings have no names, and name the new address", func(o *Options) { o.Masters[0].Addr, o.Masters[0].Password = "m6", password(5) }, password(5), true},
	}) {
		masters := make([]memmaster.Options, 6)
		for i := range masters {
			masters[i].Password = password(i)
		}
		onMasters(t, masters, func(s *stage) {
			s.named = 5
			own := func(o *Options) {
				for i := range o.Masters {
					o.Masters[i].Password = password(i)
				}
			}
			s.found(briefly, own)
			before := s.open(briefly, own)
			operator := s.open(briefly, own, func(o *Options) { o.Common.Password = password(5) })
			var sent sent
			// Who starts with the address already is at the new one; everybody else follows.
			var p *proxy
			if tt.votes {
				operator.change(coordinator.Change{Replace: "m1", Addr: "m6"})
				p = s.start(briefly, own, tt.options, sent.record)
			} else {
				p = s.start(briefly, own, tt.options, sent.record)
				p.allUp()
				p.refuses(coordinator.Change{Replace: "m1", Addr: "m6"}, "its own password was not sent, because the settings have m1 at m1: if m6 is right")
				operator.change(coordinator.Change{Replace: "m1", Addr: "m6"})
			}
			operator.allUp()
			s.until("it follows", func() bool { return p.Membership().Version == operator.Membership().Version && p.Membership().Settled })
			time.Sleep(5 * time.Second)
			for i := range 6 {
				if i != 5 && sent.has("m6", password(i)) {
					s.Errorf("%s: the password of m%d was sent to m6", tt.name, i+1)
				}
				if i < 5 && i > 0 && !sent.has(addrOf(i), password(i)) {
					s.Errorf("%s: the password of m%d was not sent to it", tt.name, i+1)
				}
			}
			if tt.sent != "" && !sent.has("m6", tt.sent) {
				s.Errorf("%s: %s was not sent to m6", tt.name, tt.sent)
			}
			if tt.votes {
				p.allUp()
			} else {
				p.wantStates("ruuuu")
				if got := p.Membership().Seats[0].Reason; !strings.Contains(got, "its own password was not sent, because the settings have m1 at m1: if m6 is right, write it into config.toml") {
					s.Errorf("%s: got %q, want why m6 lets nobody in", tt.name, got)
				}
				p.lockable("r")
			}
			before.kill()
		})
	}
}

// A seat is called after the address of its first master, and has got another one. Settings without names that have the present
// addresses say the same as the membership; where only the master at the new address remembers it, a client that starts
// with them founds the same fleet anew, and waits as long as that one says.
func TestPresentAddressesLeadToTheFleet(t *testing.T) {
	withSpares(t, 3, 1, func(s *stage) {
		s.found(maxTTL(20 * time.Second))
		p := s.open(maxTTL(20 * time.Second))
		p.change(coordinator.Change{Replace: "m1", Addr: "m4"})
		p.allUp()
		present := func(o *Options) { o.MaxTTL, o.Masters[0].Addr = 20*time.Second, "m4" }
		other := s.open(present)
		if got := other.Membership().Differences; got != "" {
			s.Errorf("got the differences %q, want none", got)
		}
		before, fleet := p.Membership(), s.membership(1).Fleet()
		p.kill()
		other.kill()
		s.masters[1].Restart()
		s.masters[2].Restart()
		late := s.start(present, func(o *Options) { o.MaxTTL, o.FoundingWait = time.Second, 10*ms })
		s.until("it founds", func() bool { return late.Membership().Known })
		if got := late.Membership(); !strings.HasPrefix(got.Lineage, "2-") || s.membership(1).Fleet() != fleet || got.MaxTTL != before.MaxTTL || got.Wait < before.Wait {
			s.Errorf("founded with %+v, want a second founding of %s, its max_ttl, and a wait of %v at least", got, before.Lineage, before.Wait)
		}
	})
}
