package main

// Goal: one master that shows what nobody has chosen, one wrong name in the settings, and an operator who removes masters while others are dead do
// not stop the fleet, and give no lock twice. Method: as in attacks_test.go. The same in virtual time: redlock/virtual_trust_test.go.

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/masters"
	"redlockd/redlock/redisproc"
)

// forgeSuccessor has a master show a record that is some versions ahead of the one in force, and whose only seat is this master.
func forgeSuccessor(t *testing.T, master *redisproc.Server, versions int) {
	t.Helper()
	digest := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:16])
	}
	text := redisCLI(t, master.Addr, "HGET", "redlockd:members", "r")
	memory, shown, _ := strings.Cut(redisCLI(t, master.Addr, "HGET", "redlockd:members", "v"), " ")
	lineage, _, _ := strings.Cut(shown, ".")
	fields := strings.Split(text, ";")
	version, err := strconv.Atoi(fields[2])
	seats := strings.Split(fields[len(fields)-1], "|")
	own := slices.IndexFunc(seats, func(seat string) bool { return strings.Contains(seat, ","+memory+",") })
	if err != nil || len(seats) < 2 || own < 0 {
		t.Fatalf("a master shows %q: got error %v, seat %d, want a version, and its own among several seats", text, err, own)
	}
	fields[2], fields[3], fields[len(fields)-1] = strconv.Itoa(version+versions), digest(text), seats[own]
	forged := strings.Join(fields, ";")
	redisCLI(t, master.Addr, "HSET", "redlockd:members", "r", forged, "v", fmt.Sprintf("%s %s.%d %s", memory, lineage, version+versions, digest(forged)))
}

// waitMembers waits until the table is as it should be.
func waitMembers(t *testing.T, addrs, what string, match func(now masters.MembersTable) bool) {
	t.Helper()
	until(t, what, func() bool { return match(membersOf(t, addrs)) })
}

// One of five masters shows a record by which it is the whole fleet: of the next version, and then of a later one. Redlockds that run, and one that
// starts then, keep to what the others show, and the master votes again after the wait.
func TestAttackForgedRecord(t *testing.T) {
	attackSettings(t, "2s")
	servers, addrs := startMasters(t, 5)
	p := launch(t, "--masters", addrs, "--bootstrap")
	q := launch(t, "--masters", addrs)
	c := startContest(t, 500*time.Millisecond)
	c.join(p)
	c.join(q)
	for _, versions := range []int{1, 10} {
		c.granted("at first", p)
		before := membersOf(t, addrs)
		forgeSuccessor(t, servers[4], versions)
		starts := launch(t, "--masters", addrs)
		c.join(starts)
		waitMembers(t, addrs, "the master votes again", func(now masters.MembersTable) bool {
			return now.Voters == 5 && now.Unreached == 0 && len(now.Seats) == 5 && now.Seats[4].Memory != before.Seats[4].Memory
		})
		if after := membersOf(t, addrs); after.Lineage != before.Lineage || seatsOf(after) != seatsOf(before) {
			t.Errorf("%d versions ahead: before %+v, after %+v: want the same seats", versions, before, after)
		}
		c.granted("who ran", p)
		c.granted("who ran, too", q)
		c.granted("who started then", starts)
	}
	c.end()
}

// One of the five masters in the settings belongs to another fleet, in each place of the list: one of a single master, or one of three. Who starts
// with such a list joins the fleet of the other four, says so, and grants nothing that this one holds.
func TestAttackWrongNameOfFive(t *testing.T) {
	attackSettings(t, "2s")
	servers, addrs := startMasters(t, 5)
	staging, _ := startMasters(t, 4)
	for _, fleet := range [][]*redisproc.Server{staging[:1], staging[1:]} {
		launch(t, "--masters", addrsOf(fleet), "--bootstrap")
	}
	p := launch(t, "--masters", addrs, "--bootstrap")
	c := startContest(t, 500*time.Millisecond)
	c.join(p)
	c.granted("at first", p)
	want := membersOf(t, addrs)
	for place := range servers {
		other := []*redisproc.Server{staging[0], staging[1+place/2]}[place%2]
		list := addrsOf(slices.Insert(slices.Clone(servers[:4]), place, other))
		wrong := launch(t, "--masters", list)
		if line := wrong.waitLog("the settings differ from the membership"); !strings.Contains(line, other.Addr+" is no member, the settings name it") {
			t.Errorf("a wrong name in place %d: got %s, want that %s is no member", place, line, other.Addr)
		}
		c.join(wrong)
		c.granted(fmt.Sprintf("who has a wrong name in place %d", place), wrong)
		if got := membersOf(t, list); got.Lineage != want.Lineage || seatsOf(got) != seatsOf(want) {
			t.Errorf("a wrong name in place %d: got %+v, want the fleet of the other four, %+v", place, got, want)
		}
	}
	c.granted("in the end", p)
	c.end()
}

// As many masters as may be are dead. An operator removes a living one, and then the dead ones: whatever the command says, locks are granted afterwards.
func TestMembersRemoveWithDeadMasters(t *testing.T) {
	for _, seats := range []int{5, 3} {
		t.Run(fmt.Sprint(seats), func(t *testing.T) {
			s, addrs := startMembers(t, seats, 0)
			p := launch(t, "--masters", addrs)
			living, dead := s[:(seats+1)/2], s[(seats+1)/2:]
			for _, one := range dead {
				one.Kill()
			}
			grants := func(when string) {
				t.Helper()
				for _, one := range []*program{p, launch(t, "--masters", addrs)} {
					conn := one.dial()
					until(t, "a lock "+when, func() bool { return strings.HasPrefix(conn.do("LOCK r 1000 TOKEN t"), "[t ") })
					conn.want("UNLOCK r t", "1")
				}
			}
			grants("with dead masters")
			code, stdout, stderr := runBinary(t, "members", "--masters", addrs, "remove", living[0].Addr)
			t.Logf("removal of a living one: exit code %d\n%s%s", code, stdout, stderr)
			grants("after the removal of a living one")
			for _, one := range dead {
				change(t, addrs, "remove", one.Addr)
				grants("after the removal of a dead one")
			}
			want := voters(living...)
			if code == cli.ExitOK {
				want = voters(living[1:]...)
			}
			if got := membersOf(t, addrs); seatsOf(got) != want || got.Unreached != 0 {
				t.Errorf("in the end: got %+v, want %s", got, want)
			}
			if seats == 5 {
				change(t, addrs, "remove", living[2].Addr)
				grants("after the removal of a living one, with none dead")
			}
		})
	}
}
