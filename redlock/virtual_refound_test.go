package redlock

// Goal: where a majority of the masters is lost for good, an operator's list founds the membership
// anew, no lock of before lives beside a new one, and what speaks against it is said and changes
// nothing. Method: masters that die for good and spare ones, in virtual time.

import (
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/admin"
	"redlockd/redlock/member/coordinator"
)

// refounds are the options of an operator who names these masters.
func (s *stage) refounds(masters ...int) Options {
	p := s.proxy()
	o := p.options()
	o.MaxTTL, o.Masters = 2*time.Second, nil
	for _, i := range masters {
		o.Masters = append(o.Masters, Master{Addr: addrOf(i), Dialer: p.dial})
	}
	return o
}

// refound must succeed.
func (s *stage) refound(masters ...int) *admin.Refounding {
	s.Helper()
	plan, err := Refound(s.Context(), s.refounds(masters...), false)
	if err != nil {
		s.Fatal(err)
	}
	return plan
}

// lose has masters die for good.
func (s *stage) lose(masters ...int) {
	for _, i := range masters {
		s.masters[i].Crash(false)
	}
}

// shown is which keys each master has, and what it shows.
func (s *stage) shown() string {
	text := ""
	for i, m := range s.masters {
		keys := m.Keys()
		if text += fmt.Sprintf("m%d %q ", i+1, keys); slices.Contains(keys, lua.MembersKey) {
			text += fmt.Sprint(s.do(i, "HGET", lua.MembersKey, "v"), " ")
		}
	}
	return text
}

func addrsOf(seats []member.SeatInfo) string {
	var all []string
	for _, s := range seats {
		all = append(all, s.Addr+" "+string(s.State))
	}
	return strings.Join(all, ", ")
}

// Three of five are lost. A redlockd that runs grants nothing, follows to the new masters by itself,
// and grants after the wait, as one does that starts with the new list. The fences grow.
func TestRefound(t *testing.T) {
	withSpares(t, 5, 1, func(s *stage) {
		old := s.open(maxTTL(2 * time.Second))
		last, before, digest := old.fenced("r"), s.membership(0), TokenDigest(old.Client, "token")
		c := old.lock(one("held", 2*time.Second))
		c.want(s, "LOCK of before", "held", 0)
		s.lose(2, 3, 4)
		dry, err := Refound(s.Context(), s.refounds(0, 1, 5), true)
		if err != nil {
			s.Fatal(err)
		}
		if got := s.masters[5].Keys(); len(got) > 0 {
			s.Errorf("the dry run has left %q on the new master", got)
		}
		if got := s.membership(0); got.Digest != before.Digest {
			s.Errorf("the dry run: got version %d of lineage %s", got.Version, got.Lineage)
		}
		old.notHeld("a majority is lost")
		began := time.Now()
		plan := s.refound(0, 1, 5)
		const members, lost = "m1 learner, m2 learner, m6 learner", "m3 voter, m4 voter, m5 voter"
		for _, p := range []*admin.Refounding{dry, plan} {
			if addrsOf(p.Members) != members || addrsOf(p.Lost) != lost || p.Already || p.Wait != before.Wait+member.RecheckWithin(before.Wait) {
				s.Errorf("got members %s, lost %s, wait %v; want %s, lost %s, wait %v", addrsOf(p.Members), addrsOf(p.Lost), p.Wait, members, lost,
					before.Wait+member.RecheckWithin(before.Wait))
			}
		}
		if r := s.membership(5); r.Fleet() != before.Fleet() || r.Generation != before.Generation+1 || r.Ceiling != before.Ceiling || r.Roster != before.Roster+1 {
			s.Errorf("got %s, want the next founding of %s", r.Text, before.Text)
		}
		next := s.start(func(o *Options) { o.MaxTTL, o.Masters = 2*time.Second, s.refounds(0, 1, 5).Masters })
		for time.Since(began) < plan.Wait {
			old.notHeld("the redlockd of before, in the wait")
			next.notHeld("the new one, in the wait")
			time.Sleep(50 * ms)
		}
		for _, p := range []*proxy{old, next} {
			p.lockableWithin(3*time.Second, "held")
			p.allUp()
			if got := addrsOf(p.Membership().Seats); got != "m1 voter, m2 voter, m6 voter" {
				s.Errorf("got %s", got)
			}
			if got := p.fenced("r"); got <= last {
				s.Errorf("got the fence %d, and before %d", got, last)
			}
		}
		if a, b := TokenDigest(old.Client, "token"), TokenDigest(next.Client, "token"); a != b || a == digest {
			s.Errorf("the digests %s and %s, and before %s: want those of one fleet, with another key", a, b, digest)
		}
		if plan := s.refound(0, 1, 5); !plan.Already {
			s.Errorf("again: got %+v, want that it is so already", plan)
		}
	})
}

// A redlockd that reaches none of the masters that are left grants nothing. When it reaches one again, it
// follows, although every seat has another number.
func TestRefoundBesideARedlockdThatIsCutOff(t *testing.T) {
	withSpares(t, 5, 4, func(s *stage) {
		old := s.open(maxTTL(2 * time.Second))
		s.lose(1, 2, 3, 4)
		old.cut(0)
		began := time.Now()
		plan := s.refound(5, 6, 0, 7, 8)
		next := s.start(func(o *Options) { o.MaxTTL, o.Masters = 2*time.Second, s.refounds(5, 6, 0, 7, 8).Masters })
		next.slowly("r")
		if took := time.Since(began); took < plan.Wait {
			s.Errorf("granted %v after, want no less than %v", took, plan.Wait)
		}
		for range 20 {
			old.notHeld("the redlockd of before")
			time.Sleep(500 * ms)
		}
		old.heal(0)
		old.lockable("r")
	})
}

// What speaks against it is said, with numbers and names, and nothing is changed.
func TestRefoundRefusals(t *testing.T) {
	for _, tt := range []struct {
		name    string
		before  func(s *stage)
		masters []int
		want    string
	}{
		{"a majority is there", func(s *stage) { s.lose(3, 4) }, []int{0, 1, 5},
			"3 of 5 masters of the membership can be reached, which is a majority: m1, m2, m3. Change it with `redlockd members replace`"},
		{"a majority has restarted empty", func(s *stage) {
			s.lose(1, 2, 3, 4)
			s.masters[1].Restart()
			s.masters[2].Restart()
		}, []int{0, 5, 6}, "3 of 5 masters of the membership can be reached, which is a majority: m1, m2, m3. Change it with `redlockd members replace` and `remove`; if so many have forgotten that no lock is granted, name m1, m2, m3, m4, m5: that founds it anew at once"},
		{"too few of the new ones", func(s *stage) { s.lose(2, 3, 4, 5, 6) }, []int{0, 1, 3, 5, 6},
			"2 of 5 masters can be reached and may be members, 3 are needed: start them, or name others"},
		{"one is refused", func(s *stage) {
			s.lose(1, 2, 3, 4)
			s.do(5, "CONFIG", "SET", "maxmemory", "1000000", "maxmemory-policy", "allkeys-lru")
			s.do(6, "CONFIG", "SET", "maxmemory", "1000000", "maxmemory-policy", "allkeys-lru")
		}, []int{0, 5, 6}, "1 of 3 masters can be reached and may be members, 2 are needed (m6, m7: refused: it may evict"},
		{"nobody has a membership", func(s *stage) { s.lose(0, 1, 2, 3, 4) }, []int{0, 5, 6}, "2 of 3 masters can be reached, and none shows a membership: redlockd bootstrap"},
		{"two fleets", func(s *stage) {
			o := s.refounds(5)
			if err := Bootstrap(s.Context(), o); err != nil {
				s.Fatal(err)
			}
			s.lose(2, 3, 4)
		}, []int{0, 1, 5}, "the masters belong to different fleets: "},
		{"keys of somebody else", func(s *stage) {
			s.lose(2, 3, 4)
			s.do(5, "SET", "k", "v")
		}, []int{0, 1, 5}, "m6 holds 1 keys, and was no member: name another master, or run FLUSHALL on it"},
		{"a master that is left has missed where the others went", func(s *stage) {
			p := s.open(maxTTL(2 * time.Second))
			p.cut(1)
			p.change(coordinator.Change{Replace: addrOf(2), Addr: addrOf(5)})
			p.allBut(1)
			p.change(coordinator.Change{Replace: addrOf(3), Addr: addrOf(6)})
			p.allBut(1)
			s.lose(2, 3, 4)
			p.kill()
		}, []int{1, 7, 8}, "m1, m2, m3, m4. Change it with"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withSpares(t, 5, 4, func(s *stage) {
				s.found(maxTTL(2 * time.Second))
				tt.before(s)
				before := s.shown()
				for _, dryRun := range []bool{true, false} {
					if plan, err := Refound(s.Context(), s.refounds(tt.masters...), dryRun); err == nil || !strings.Contains(err.Error(), tt.want) || plan != nil {
						s.Errorf("dry run %v: got %+v, %v; want it refused: %s", dryRun, plan, err, tt.want)
					}
				}
				if after := s.shown(); after != before {
					s.Errorf("got %s, want that nothing was changed: %s", after, before)
				}
			})
		})
	}
}

// allBut waits until all masters vote but this one.
func (p *proxy) allBut(place int) {
	p.s.Helper()
	p.s.until("the others vote", func() bool {
		states := []byte(p.states())
		states[place] = 'u'
		return string(states) == strings.Repeat("u", len(states))
	})
}

// A master that is named is not there, and another one is left out that is. The first one becomes a
// member when it comes, and the seats of lost masters that are named by their old addresses are given
// up all the same.
func TestRefoundWithMastersThatAreMissing(t *testing.T) {
	withSpares(t, 5, 3, func(s *stage) {
		s.found(maxTTL(2 * time.Second))
		s.lose(2, 3, 4, 7)
		plan := s.refound(0, 5, 6, 7, 4)
		if got, want := addrsOf(plan.Members), "m1 learner, m6 learner, m7 learner, m8 vacant, m5 vacant"; got != want || plan.Members[3].Reason == "" {
			s.Errorf("members: got %s, %+v, want %s and a reason", got, plan.Members[3], want)
		}
		if got, want := addrsOf(plan.Lost), "m2 voter, m3 voter, m4 voter, m5 voter"; got != want {
			s.Errorf("lost: got %s, want %s", got, want)
		}
		p := s.start(func(o *Options) { o.MaxTTL, o.Masters = 2*time.Second, s.refounds(0, 5, 6, 7, 4).Masters })
		p.lockable("r")
		s.masters[7].Restart()
		s.masters[4].Restart()
		p.allUp()
	})
}

// A name of before is given to another machine: every redlockd looks for it there, whatever its
// settings say of the name.
func TestRefoundGivesANameToAnotherMachine(t *testing.T) {
	withSpares(t, 3, 4, func(s *stage) {
		named := func(o *Options) {
			for i := range o.Masters {
				o.Masters[i].Name = fmt.Sprintf("name%d", i+1)
			}
		}
		s.found(named, maxTTL(2*time.Second))
		p := s.open(named, maxTTL(2*time.Second))
		p.change(coordinator.Change{Replace: "name2", Addr: addrOf(3)})
		p.allUp()
		s.lose(2, 3)
		o := s.refounds(0, 4, 5)
		named(&o)
		o.Masters[2].Name = "name4"
		if _, err := Refound(s.Context(), o, false); err != nil {
			s.Fatal(err)
		}
		if got := s.membership(0); got.SeatNamed("name1").Addr != "name1" || got.SeatNamed("name2").Addr != "m5" || got.SeatNamed("name4").Addr != "name4" {
			s.Errorf("got %s, want an address of its own for name2 only, m5", got.Text)
		}
	})
}

// A seat is called after its first address, and has moved since: settings that know that call another machine so. A refounding that names its first
// address gives that another name.
func TestRefoundedSeatDoesNotReturnToItsName(t *testing.T) {
	withSpares(t, 3, 3, func(s *stage) {
		p := s.open(maxTTL(2 * time.Second))
		p.change(coordinator.Change{Replace: addrOf(1), Addr: addrOf(3)})
		p.allUp()
		p.kill()
		knows := s.start(maxTTL(2*time.Second), func(o *Options) { o.Masters[1].Name, o.Masters[1].Addr = addrOf(1), addrOf(3) })
		knows.allUp()
		s.lose(2, 3)
		s.do(1, "FLUSHALL")
		s.refound(0, 1, 4)
		if plan := s.refound(0, 1, 4); !plan.Already {
			s.Errorf("again: got %+v, want that it is so already", plan)
		}
		next := s.start(func(o *Options) { o.MaxTTL, o.Masters = 2*time.Second, s.refounds(0, 1, 4).Masters })
		for _, p := range []*proxy{knows, next} {
			p.slowly("r")
			p.allUp()
			if got := addrsOf(p.Membership().Seats); got != "m1 voter, m2 voter, m5 voter" {
				s.Errorf("got %s", got)
			}
		}
		if got := next.Membership().Differences; got != "" {
			s.Errorf("the settings name the fleet, and differ: %s", got)
		}
	})
}

// slowly waits until the resource can be locked, as lockable does, with fewer attempts.
func (p *proxy) slowly(resource string) {
	p.s.Helper()
	for began := time.Now(); !p.lock(one(resource, 100*ms)).Held; time.Sleep(50 * ms) {
		if time.Since(began) > time.Minute {
			p.s.Fatalf("%s cannot be locked within a minute: %+v", resource, p.Membership())
		}
	}
}

// dying is a path to masters that ends for good when this many more writes have been sent: the last one
// is executed, and its reply is lost.
type dying struct {
	left  atomic.Int64
	mu    sync.Mutex
	conns []net.Conn
}

func (d *dying) dialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		d.conns = append(d.conns, c)
		d.mu.Unlock()
		return &dyingConn{c, d}, nil
	}
}

type dyingConn struct {
	net.Conn
	d *dying
}

func (c *dyingConn) Write(b []byte) (n int, err error) {
	left := c.d.left.Add(-1)
	if left >= 0 {
		n, err = c.Conn.Write(b)
	}
	if left <= 0 {
		c.d.mu.Lock()
		defer c.d.mu.Unlock()
		for _, one := range c.d.conns {
			one.Close()
		}
		return 0, net.ErrClosed
	}
	return n, err
}

// The operator's command is killed after each write to a master, and repeated. In the end all go by one
// membership, and it grants after the wait.
func TestRefoundKilledAnywhere(t *testing.T) {
	first, ended, already := int64(0), false, 0
	for at := int64(math.MaxInt32); !ended && !t.Failed(); at++ {
		withSpares(t, 5, 2, func(s *stage) {
			s.found(maxTTL(2 * time.Second))
			s.lose(1, 2, 3, 4)
			list, path := []int{0, 5, 6}, new(dying)
			killed := s.refounds(list...)
			path.left.Store(at)
			for i := range killed.Masters {
				killed.Masters[i].Dialer = path.dialer(killed.Masters[i].Dialer)
			}
			if first == 0 { // what a dry run sends changes nothing
				_, err := Refound(s.Context(), killed, true)
				first = at - path.left.Load()
				if at = first; err != nil {
					s.Error(err)
				}
				return
			}
			_, err := Refound(s.Context(), killed, false)
			ended = path.left.Load() > 0
			began := time.Now()
			if err != nil && s.refound(list...).Already {
				already++
			}
			next := s.start(func(o *Options) { o.MaxTTL, o.Masters = 2*time.Second, s.refounds(list...).Masters })
			next.slowly("r")
			if took := time.Since(began); took < next.wait() {
				s.Errorf("killed after %d writes (%v): granted after %v, want no less than %v", at, err, took, next.wait())
			}
			next.allUp()
			for _, i := range list {
				if got, want := s.membership(i).Lineage, s.membership(0).Lineage; got != want {
					s.Errorf("killed after %d writes (%v): m%d is of lineage %s, and m1 of %s", at, err, i+1, got, want)
				}
			}
		})
	}
	if already == 0 {
		t.Error("it was never killed when some masters had been told, want that, too")
	}
}
