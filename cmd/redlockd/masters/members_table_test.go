package masters

// Goal: the table of the members and the lines for config.toml say what an operator needs. Method:
// memberships made by hand, and the exact texts. TestMembersChange and others run the command on real
// masters.

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/redlock"
)

// The table says of a learner how far it has got what the others remember, and what stands in the way. A change that waits says the same.
func TestMembersSayWhatLearnersAreGiven(t *testing.T) {
	learner := func(name string, c *redlock.Copying) redlock.Seat {
		return redlock.Seat{Name: name, Addr: name + ":1", State: redlock.SeatLearner, Left: 58900 * time.Millisecond, Copying: c}
	}
	seats := []redlock.Seat{{Name: "m1", State: redlock.SeatVoter}, learner("m2", &redlock.Copying{From: "m1,m4,m5", Given: 41200, Percent: 63}),
		learner("m3", &redlock.Copying{Problem: "2 of 3 masters that could give it its locks are there: m5 cannot"}), learner("m6", nil)}
	const m2 = "m2 is being given what m1, m4, m5 remember: 41200 locks so far (63 %); it votes when that is done, or in 59s"
	const m3 = "m3 votes in 59s; nothing is copied to it at present: 2 of 3 masters that could give it its locks are there: m5 cannot"
	printed := func(now redlock.Membership, json string) string {
		var out strings.Builder
		m := memberCommand{Call: &cli.Call{Process: cli.Process{Stdout: &out}, Given: map[string]string{"json": json}}}
		if err := m.print(now, config.Default()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got, want := printed(redlock.Membership{Seats: seats}, "false"), "\n"+m2+".\n"+m3+".\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant at its end\n%s", got, want)
	}
	// Where nobody votes, nobody has anything to give, and that each says so is of no use.
	if got := printed(redlock.Membership{Seats: seats[1:]}, "false"); strings.Contains(got, "copied") || strings.Contains(got, "given") {
		t.Errorf("without a voter: got\n%s\nwant no word about copies", got)
	}
	var table MembersTable
	if err := json.Unmarshal([]byte(printed(redlock.Membership{Seats: seats}, "true")), &table); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"<nil>", "&{[m1 m4 m5] 41200 63 }", "&{[] 0 0 2 of 3 masters that could give it its locks are there: m5 cannot}", "<nil>"} {
		if got := fmt.Sprint(table.Seats[i].Copying); got != want {
			t.Errorf("--json: seat %d: got %s, want %s", i, got, want)
		}
	}
	for name, want := range map[string]string{"m1": "", "m2": m2, "m3": m3, "m6": "m6 votes when it was given what the others remember, or in 59s"} {
		m := memberCommand{change: redlock.MemberChange{Replace: name, Addr: "other:1"}}
		if got := m.rest(redlock.Membership{Seats: seats}); got != want {
			t.Errorf("after replace %s: got %q, want %q", name, got, want)
		}
	}
}

// The lines for config.toml have what differs, and no more. Names of seats are there where the settings
// have names.
func TestLinesForTheSettings(t *testing.T) {
	named, plain := []redlock.Master{{Name: "m1", Addr: "b:1"}}, []redlock.Master{{Addr: "b:1"}}
	const file = "Write this into config.toml everywhere now. The file counts again if all masters forget while no redlockd runs:\n\n"
	for _, tt := range []struct {
		now  redlock.Membership
		file []redlock.Master
		db   int
		want string
	}{
		{redlock.Membership{MaxTTL: 2e9, Seats: []redlock.Seat{{Name: "a:1", Addr: "a:1"}, {Name: "b:1", Addr: "b:1", State: redlock.SeatLeaving}}}, plain, 0,
			file + "masters = [\"a:1\"]\n[locks]\nmax_ttl = \"2s\"\n"},
		{redlock.Membership{MaxTTL: 2e9, Lowering: true, WaitLeft: 59e9, Seats: []redlock.Seat{{Name: "a:1", Addr: "a:1"}}}, plain, 0,
			strings.Replace(file, "now", "in 59s, when longer locks have ended", 1) + "masters = [\"a:1\"]\n[locks]\nmax_ttl = \"2s\"\n"},
		{redlock.Membership{MaxTTL: 60e9, Seats: []redlock.Seat{{Name: "m1", Addr: "a:1"}}}, plain, 0, file + "masters = [\"a:1\"]\n"},
		{redlock.Membership{MaxTTL: 60e9, Seats: []redlock.Seat{{Name: "m1", Addr: "a:1"}}}, named, 0, file + "[[masters]]\nname = \"m1\"\naddr = \"a:1\"\n"},
		{redlock.Membership{Seats: []redlock.Seat{{Name: "a:1", Addr: "a:1"}, {Name: "b:1", Addr: "b:1"}}}, plain, 0,
			"The lines for config.toml follow when the number of seats is odd: there are 2. Add or remove one.\n"},
		{redlock.Membership{MaxTTL: 60e9, Seats: []redlock.Seat{{Name: "a:1", Addr: "a:1"}, {Name: "b:1", Addr: "b:1/2"}, {Name: "c:1", Addr: "c:1/3"}}}, plain, 2,
			file + "masters = [\"a:1/0\", \"b:1\", \"c:1/3\"]\n"},
		{redlock.Membership{Seats: []redlock.Seat{{Name: "a:1", Addr: "a:1"}, {Name: "b:1", State: redlock.SeatLearner}, {Name: "c:1", State: redlock.SeatVacant}}}, plain, 0,
			"The lines for config.toml follow when all seats vote that stay: not yet b:1 and c:1.\n"},
		{redlock.Membership{ToDo: "run this", Seats: []redlock.Seat{{Name: "a:1", State: redlock.SeatLearner, NeverVoted: true}}}, plain, 0, "To do: run this.\n"},
		{redlock.Membership{MaxTTL: 60e9, Seats: []redlock.Seat{{Name: "m1", Addr: "a:1/3"}}}, named, 0, file + "[[masters]]\nname = \"m1\"\naddr = \"a:1\"\ndb = 3\n"},
	} {
		o := redlock.Options{MaxTTL: time.Minute, Masters: tt.file, Common: redlock.Master{DB: tt.db}}
		if got := settingsOf(tt.now, o); got != tt.want {
			t.Errorf("%+v: got\n%s\nwant\n%s", tt.now, got, tt.want)
		}
	}
}

// A seat is meant by its name, or by the address that its master has now.
func TestFindSeat(t *testing.T) {
	now := redlock.Membership{Seats: []redlock.Seat{{Name: "a:1", Addr: "d:1"}, {Name: "b:1", Addr: "a:1"}, {Name: "m3", Addr: "c:1"}}}
	for _, tt := range []struct {
		change redlock.MemberChange
		want   string // the seat
		err    string
	}{
		{redlock.MemberChange{Replace: "m3", Addr: "e:1"}, "m3", ""},
		{redlock.MemberChange{Replace: "c:1", Addr: "e:1"}, "m3", ""},
		{redlock.MemberChange{Remove: "c:1"}, "m3", ""},
		{redlock.MemberChange{Remove: "d:1"}, "a:1", ""},
		{redlock.MemberChange{Replace: "before:1", Addr: "c:1"}, "m3", ""},
		{redlock.MemberChange{Replace: "m9", Addr: "e:1"}, "m9", ""},
		{redlock.MemberChange{Remove: "m9"}, "m9", ""},
		{redlock.MemberChange{Add: "m4", Addr: "c:1"}, "", ""},
		{redlock.MemberChange{Remove: "a:1"}, "a:1", "a:1 is the name of the seat at d:1, and the address of the seat b:1: name the address of the one, or the name of the other"},
	} {
		m := memberCommand{change: tt.change}
		err := m.findSeat(now)
		if got := m.change.Replace + m.change.Remove; got != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%+v: got %q, %v, want %q, %q", tt.change, got, err, tt.want, tt.err)
		}
	}
}
