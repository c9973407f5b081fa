package member

// Goal: every redlockd finds the same master at the seat that the membership means, in the database that it means, and no password goes to an
// address that the settings do not name. Method: tables.

import (
	"fmt"
	"testing"

	"redlockd/redlock/conn"
)

// named are settings: two masters that have names, in two databases, and two that have none.
func named() Options {
	return Options{
		Common: conn.Master{Username: "common", Password: "of all", DB: 7},
		Masters: []conn.Master{
			{Name: "a", Addr: "10.0.0.1:6379", DB: 3, Username: "u", Password: "of a", NewAddr: "10.0.0.9:6379"},
			{Name: "b", Addr: "10.0.0.2:6379", Username: "u", Password: "of b", SameClock: true},
			{Addr: "10.0.0.3:6379", Username: "common", Password: "of all"},
			{Addr: "10.0.0.4:6379", Username: "u", Password: "of the fourth"},
		},
	}
}

// A master that has a name in the settings is found by it alone. One that has none is the one at that address; else the one after whose first
// address the seat is called.
func TestMasterOfASeat(t *testing.T) {
	o := named()
	for _, tt := range []struct {
		name, addr string
		want       int // among the masters; -1: none
	}{
		{"a", "a/3", 0},
		{"a", "elsewhere:6379", 0},
		{"b", "10.0.0.1:6379", 1}, // the name counts, whatever stands at the address
		{"10.0.0.3:6379", "10.0.0.3:6379", 2},
		{"10.0.0.3:6379", "10.0.0.3:6379/5", 2},
		{"10.0.0.3:6379", "elsewhere:6379", 2},  // it is called after its first address
		{"10.0.0.3:6379", "10.0.0.4:6379/1", 3}, // and has another one by now, which the settings follow
		{"c", "10.0.0.4:6379", 3},
		{"c", "10.0.0.1:6379", -1}, // a's, which has a name
		{"10.0.0.1:6379", "elsewhere:6379", -1},
		{"c", "elsewhere:6379", -1},
	} {
		got := -1
		for i := range o.Masters {
			if o.MasterOf(tt.name, tt.addr) == &o.Masters[i] {
				got = i
			}
		}
		if got != tt.want {
			t.Errorf("the seat %s at %s: got the master %d of the settings, want %d", tt.name, tt.addr, got, tt.want)
		}
	}
}

// The same rule the other way round.
func TestSeatOfAMaster(t *testing.T) {
	r := &Record{Seats: []Seat{{Name: "a", Addr: "a/3"}, {Number: 1, Name: "b", Addr: "10.0.0.3:6379"}, {Number: 2, Name: "10.0.0.4:6379", Addr: "10.0.0.5:6379/1"}}}
	for _, tt := range []struct {
		m    conn.Master
		want string // "": none
	}{
		{conn.Master{Name: "a", Addr: "10.0.0.1:6379"}, "a"},
		{conn.Master{Name: "c", Addr: "10.0.0.3:6379"}, ""}, // it has another name than the seat at its address
		{conn.Master{Addr: "10.0.0.3:6379"}, "b"},
		{conn.Master{Addr: "10.0.0.5:6379"}, "10.0.0.4:6379"},
		{conn.Master{Addr: "10.0.0.4:6379"}, "10.0.0.4:6379"}, // called after it
		{conn.Master{Addr: "10.0.0.6:6379"}, ""},
	} {
		got := ""
		if s := r.SeatOf(tt.m); s != nil {
			got = s.Name
		}
		if got != tt.want {
			t.Errorf("%s at %s: got the seat %q, want %q", tt.m.Name, tt.m.Addr, got, tt.want)
		}
	}
}

// An address that an operator gives without a database means the database of the settings for that seat, or of all.
func TestDatabaseOfAnAddress(t *testing.T) {
	o := named()
	for _, tt := range []struct{ name, addr, want string }{
		{"a", "new:6379", "new:6379/3"},
		{"b", "new:6379", "new:6379"},
		{"10.0.0.3:6379", "new:6379", "new:6379"},
		{"c", "new:6379", "new:6379/7"},
		{"a", "new:6379/0", "new:6379"},
		{"a", "new:6379/5", "new:6379/5"},
		{"c", "/run/redis.sock", "/run/redis.sock/7"},
	} {
		if got := o.SeatAddrOf(tt.name, tt.addr); got != tt.want {
			t.Errorf("%s at %s: got %s, want %s", tt.name, tt.addr, got, tt.want)
		}
	}
	for _, tt := range []struct {
		addr string
		want bool
	}{{"10.0.0.4:6379", true}, {"10.0.0.4:6379/1", true}, {"10.0.0.5:6379", false}} {
		if got := IsNameOf(tt.addr, &Seat{Name: "10.0.0.4:6379"}); got != tt.want {
			t.Errorf("%s is what the seat is called after: got %v", tt.addr, got)
		}
	}
}

// Whoever can write to the masters can name an address there. A password of the settings goes to an address of the settings only; elsewhere the
// common one must do, and it is said which one was not sent.
func TestPasswordOfASeat(t *testing.T) {
	o := named()
	for _, tt := range []struct {
		name, addr string
		want       string // address, user, password
	}{
		{"a", "a/3", "10.0.0.1:6379/3 u of a"},
		{"a", "10.0.0.1:6379/2", "10.0.0.1:6379/2 u of a"},
		{"a", "10.0.0.9:6379", "10.0.0.9:6379 u of a"}, // which the settings announce
		{"a", "evil:6379", "evil:6379 common of all, withheld"},
		{"c", "evil:6379", "evil:6379 common of all"},
		{"c", "10.0.0.4:6379", "10.0.0.4:6379 u of the fourth"},
		{"b", "10.0.0.1:6379", "10.0.0.1:6379 u of a"}, // the password belongs to the address
		{"b", "b", "10.0.0.2:6379 u of b"},
		{"10.0.0.3:6379", "evil:6379", "evil:6379 common of all"}, // it has no password of its own
		{"10.0.0.4:6379", "evil:6379", "evil:6379 common of all, withheld"},
	} {
		m := o.MasterAt(tt.name, tt.addr)
		got := fmt.Sprint(m.FullAddr(), " ", m.Username, " ", m.Password)
		if isWithheld(m) {
			got += ", withheld"
		}
		if got != tt.want || m.Name != tt.name {
			t.Errorf("the seat %s at %s: got %q of %s, want %q", tt.name, tt.addr, got, m.Name, tt.want)
		}
		if clock := tt.name == "b"; m.SameClock != clock {
			t.Errorf("the seat %s: it uses our clock: %v", tt.name, m.SameClock)
		}
	}
	only := named()
	only.Masters[3].Username, only.Masters[3].Password = "u", "of all"
	if !isWithheld(only.MasterAt("10.0.0.4:6379", "evil:6379")) {
		t.Error("another user with the same password: it is not said that it was withheld")
	}
}

// isWithheld tells whether a password of the settings is noted as not sent.
func isWithheld(m conn.Master) bool {
	without := m
	without.Withhold("")
	return fmt.Sprintf("%+v", without) != fmt.Sprintf("%+v", m)
}

// Locks in two databases of a Redis do not exclude each other.
func TestSettingsThatNameAnotherDatabase(t *testing.T) {
	o := named()
	for addr, other := range map[string]bool{"a/3": false, "a": true, "10.0.0.1:6379/3": false, "10.0.0.1:6379": true, "10.0.0.9:6379": false, "elsewhere:6379": false} {
		if got := o.OtherDB(&Record{Seats: []Seat{{Name: "b", Addr: "b"}, {Number: 1, Name: "a", Addr: addr}}}); (got != "") != other {
			t.Errorf("a is at %s: got %q, want that it is another database: %v", addr, got, other)
		}
	}
	const want = "the membership has a (10.0.0.1:6379) in database 0, and the settings say db = 3: locks in two databases do not exclude each other; write db = 0 for it"
	if got := o.OtherDB(&Record{Seats: []Seat{{Name: "a", Addr: "10.0.0.1:6379"}}}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
