package main

// Goal: redlockd members shows who the masters are, and changes that while a redlockd serves; what
// cannot be changed is refused by name, and nothing changes. Method: the program as a process, on real
// redis-server processes.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/masters"
	"redlockd/redlock/redisproc"
)

// startMembers starts masters, the spare ones outside of the membership, and founds it, with a max_ttl
// for which a test can wait.
func startMembers(t *testing.T, seats, spare int) (servers []*redisproc.Server, addrs string) {
	t.Helper()
	t.Setenv("REDLOCKD_LOCKS_MAX_TTL", cmp.Or(os.Getenv("REDLOCKD_LOCKS_MAX_TTL"), "2s"))
	t.Setenv("REDLOCKD_MASTER_FOUNDING_WAIT", "10ms")
	servers, _ = startMasters(t, seats+spare)
	addrs = addrsOf(servers[:seats])
	wantRun(t, cli.ExitOK, "admitted", "", "bootstrap", "--masters", addrs)
	return servers, addrs
}

// membersOf is the table.
func membersOf(t *testing.T, addrs string) masters.MembersTable {
	t.Helper()
	return membersSeen(t, "--masters", addrs)
}

// membersSeen is the table that these flags lead to.
func membersSeen(t *testing.T, flags ...string) (table masters.MembersTable) {
	t.Helper()
	if err := json.Unmarshal([]byte(wantRun(t, cli.ExitOK, "{", "", append([]string{"members", "--json"}, flags...)...)), &table); err != nil {
		t.Fatal(err)
	}
	return table
}

// seatsOf is the table in one line: "a:1 voter, b:2 learner".
func seatsOf(m masters.MembersTable) string {
	var all []string
	for _, s := range m.Seats {
		all = append(all, s.Addr+" "+string(s.State))
	}
	return strings.Join(all, ", ")
}

func voters(servers ...*redisproc.Server) string {
	return strings.Join(redisproc.Addrs(servers), " voter, ") + " voter"
}

// change runs a command that must end well, and returns what it prints.
func change(t *testing.T, addrs string, args ...string) string {
	t.Helper()
	code, stdout, stderr := runBinary(t, append([]string{"members", "--masters", addrs}, args...)...)
	if code != cli.ExitOK {
		t.Fatalf("members %v: exit code %d, errors %q, output\n%s", args, code, stderr, stdout)
	}
	return stdout
}

// A master is replaced, the number of masters grows to five and falls back to three, and max_ttl rises
// and falls. The simulation has clients that lock meanwhile.
func TestMembersChange(t *testing.T) {
	s, addrs := startMembers(t, 3, 4)
	p := launch(t, "--masters", addrs)

	// A living one.
	text := change(t, addrs, "replace", s[2].Addr, s[3].Addr)
	if want := fmt.Sprintf("masters = [%q, %q, %q]\n", s[0].Addr, s[1].Addr, s[3].Addr); !strings.Contains(text, want) || !strings.Contains(text, "switch it off") {
		t.Errorf("replace: got\n%s\nwant %q in it, and to switch the other one off", text, want)
	}
	if got, want := seatsOf(membersOf(t, addrs)), voters(s[0], s[1], s[3]); got != want {
		t.Fatalf("after replace: got %s, want %s", got, want)
	}
	s[2].Kill()
	for _, seat := range []string{s[2].Addr, s[3].Addr, "mistyped:1"} { // it is there, whatever it is called
		if text := change(t, addrs, "replace", seat, s[3].Addr); !strings.HasPrefix(text, "Nothing to change") {
			t.Errorf("once more, as %s: got\n%s\nwant that nothing is to change", seat, text)
		}
	}

	// A dead one.
	s[1].Kill()
	change(t, addrs, "replace", s[1].Addr, s[4].Addr)
	if got, want := seatsOf(membersOf(t, addrs)), voters(s[0], s[4], s[3]); got != want {
		t.Fatalf("after the second replace: got %s, want %s", got, want)
	}

	// To five.
	if text := change(t, addrs, "add", "m4", s[5].Addr); !strings.Contains(text, "Add or remove one") {
		t.Errorf("a fourth: got\n%s\nwant that the number is even", text)
	}
	change(t, addrs, "add", "m5", s[6].Addr)
	if got, want := membersOf(t, addrs), voters(s[0], s[4], s[3], s[5], s[6]); seatsOf(got) != want || got.Needed != 3 {
		t.Fatalf("with five: got %s, %d needed, want %s and 3", seatsOf(got), got.Needed, want)
	}

	// max_ttl.
	if text := change(t, addrs, "set", "max_ttl", "3s"); !strings.Contains(text, "Write this into config.toml everywhere now. The file counts again if all masters forget") || !strings.Contains(text, "[locks]\nmax_ttl = \"3s\"\n") {
		t.Errorf("raised: got\n%s\nwant the line for config.toml, and why", text)
	}
	if got := membersOf(t, addrs); got.MaxTTLMs != 3000 || got.WaitMs < 3000 {
		t.Errorf("raised: got %+v, want 3 s and a wait that is no shorter", got)
	}
	client := p.dial()
	client.eventually("LOCK long 2500", func(got string) bool { return strings.HasPrefix(got, "[") }) // with the first batch after the change at the latest
	client.want("CONFIG GET locks.max_ttl", "[locks.max_ttl 3s]")
	if text := change(t, addrs, "set", "max_ttl", "2s"); !strings.Contains(text, "Done.") {
		t.Errorf("lowered: got\n%s", text)
	}
	if got := membersOf(t, addrs); got.MaxTTLMs != 2000 || got.WaitMs >= 3500 || got.WaitLeftMs != 0 {
		t.Errorf("lowered: got %+v, want 2 s and a wait for that", got)
	}

	// And back to three.
	if text := change(t, addrs, "remove", "m4"); !strings.Contains(text, "m4 is no member: switch it off") {
		t.Errorf("remove: got\n%s\nwant that it is to be switched off", text)
	}
	if text := change(t, addrs, "remove", s[0].Addr); !strings.Contains(text, fmt.Sprintf("%q]", s[6].Addr)) {
		t.Errorf("remove: got\n%s\nwant the lines for config.toml", text)
	}
	if got, want := seatsOf(membersOf(t, s[3].Addr)), voters(s[4], s[3], s[6]); got != want {
		t.Errorf("with three: got %s, want %s", got, want)
	}
}

// What is wrong with a change is said by name, and nothing is changed.
func TestMembersRefusals(t *testing.T) {
	s, addrs := startMembers(t, 3, 8)
	full, replica, foreign, dead, ahead, another, noMemory, evicts := s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10]
	redisCLI(t, full.Addr, "SET", "k", "v")
	redisCLI(t, replica.Addr, "REPLICAOF", "127.0.0.1", "1")
	wantRun(t, cli.ExitOK, "admitted", "", "bootstrap", "--masters", foreign.Addr)
	dead.Kill()
	// It shows a later version than the masters do.
	_, runID, _ := strings.Cut(redisCLI(t, ahead.Addr, "INFO", "server"), "run_id:")
	_, record, _ := strings.Cut(redisCLI(t, s[0].Addr, "HGET", "redlockd:members", "v"), " ")
	redisCLI(t, ahead.Addr, "HSET", "redlockd:members", "v", strings.Fields(runID)[0]+":0123456789abcdef "+strings.Replace(record, ".0 ", ".99 ", 1))
	redisCLI(t, another.Addr, "SET", "redlockd:members", "x")
	redisCLI(t, noMemory.Addr, "CONFIG", "SET", "maxmemory", "1")
	redisCLI(t, evicts.Addr, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	redisCLI(t, evicts.Addr, "CONFIG", "SET", "maxmemory", "100mb")
	_, port, _ := strings.Cut(s[0].Addr, ":")
	before := membersOf(t, addrs)
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string // of standard error
	}{
		{"a seat that does not exist", []string{"replace", "m9", s[3].Addr}, cli.ExitFailed, "there is no seat m9: the seats are " + s[0].Addr},
		{"another that does not exist", []string{"remove", "m9"}, cli.ExitFailed, "there is no seat m9: the seats are " + s[0].Addr},
		{"a name that is taken", []string{"add", s[1].Addr, foreign.Addr}, cli.ExitFailed, "there is a seat " + s[1].Addr + " already"},
		{"the address of another seat", []string{"replace", s[0].Addr, s[1].Addr}, cli.ExitFailed, s[1].Addr + " is the address of " + s[1].Addr},
		{"the machine of another seat", []string{"replace", s[1].Addr, "localhost:" + port}, cli.ExitFailed, "is the same Redis as " + s[0].Addr},
		{"a master with keys", []string{"replace", s[1].Addr, full.Addr}, cli.ExitFailed, full.Addr + " holds 1 keys: give it to nobody else"},
		{"a replica", []string{"add", "m4", replica.Addr}, cli.ExitFailed, replica.Addr + " cannot be seated: refused: it is a slave of 127.0.0.1:1"},
		{"a master of another fleet", []string{"replace", s[1].Addr, foreign.Addr}, cli.ExitFailed, foreign.Addr + " cannot be seated: it belongs to another fleet, whose masters are " + foreign.Addr + ": name another master, or, if"},
		{"a master with a version ahead", []string{"replace", s[1].Addr, ahead.Addr}, cli.ExitFailed, ahead.Addr + " cannot be seated: it shows version 99 of the membership, and the masters have version 0: run FLUSHALL on it"},
		{"a master with another key in the place of the membership", []string{"replace", s[1].Addr, another.Addr}, cli.ExitFailed,
			another.Addr + " cannot be seated: refused: its redlockd:members is no membership"},
		{"a master without memory", []string{"add", "m4", noMemory.Addr}, cli.ExitFailed, noMemory.Addr + " cannot be seated: refused: its memory is full (OOM), so it takes no new locks, only releases: raise maxmemory"},
		{"a master that may evict", []string{"add", "m4", evicts.Addr}, cli.ExitFailed, evicts.Addr + " cannot be seated: refused: it may evict locks when its memory is full: maxmemory-policy is allkeys-lru"},
		{"a dead one", []string{"replace", s[1].Addr, dead.Addr}, cli.ExitFailed, dead.Addr + " cannot be seated: cannot connect: connection refused"},
		{"no address", []string{"add", "m4", "nowhere"}, cli.ExitFailed, "nowhere"},
		{"a max_ttl that is too long", []string{"set", "max_ttl", "48h"}, cli.ExitFailed, "48h is outside 10ms … 24h"},
		{"a max_ttl that is no duration", []string{"set", "max_ttl", "5"}, cli.ExitUsage, `max_ttl: "5" is no duration`},
		{"another setting", []string{"set", "min_ttl", "5s"}, cli.ExitUsage, `the membership has no setting "min_ttl"`},
		{"no such change", []string{"swap", "a", "b"}, cli.ExitUsage, `unknown change "swap"`},
		{"too few words", []string{"replace", "a"}, cli.ExitUsage, "replace needs SEAT ADDR"},
		{"--yes without refound", []string{"remove", s[1].Addr, "--yes"}, cli.ExitUsage, "--yes is for refound"},
		{"refound with a list", []string{"refound", s[1].Addr}, cli.ExitUsage, "refound takes its masters from --masters or config.toml"},
		{"refound while a majority is there", []string{"refound", "--yes", "--masters", s[0].Addr}, cli.ExitFailed, "3 of 3 masters of the membership can be reached, which is a majority: " + s[0].Addr},
		{"--dry-run of nothing", []string{"--dry-run"}, cli.ExitUsage, "--dry-run and --no-wait are for changes"},
	} {
		t.Log(tt.name)
		wantRun(t, tt.code, "", tt.want, append([]string{"members", "--masters", addrs}, tt.args...)...)
	}
	if text := change(t, addrs, "remove", s[1].Addr, "--dry-run"); !strings.HasPrefix(text, "Would change: "+s[1].Addr) {
		t.Errorf("--dry-run: got\n%s\nwant what would change", text)
	}
	fresh, _ := startMasters(t, 1)
	text := change(t, addrs, "replace", s[1].Addr, fresh[0].Addr, "--dry-run")
	if got := redisCLI(t, fresh[0].Addr, "DBSIZE"); !strings.HasPrefix(text, "Would change: "+s[1].Addr+" is the master at "+fresh[0].Addr) || got != "0" {
		t.Errorf("--dry-run with a new master: got\n%s\nand %s keys there, want none", text, got)
	}
	if after := membersOf(t, addrs); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("it was %+v, and is %+v: want no change", before, after)
	}
	// What a dry run has found is done right after it.
	if again := change(t, addrs, "replace", s[1].Addr, fresh[0].Addr, "--no-wait"); !strings.HasPrefix(again, strings.Replace(text, "Would change", "Changed", 1)) {
		t.Errorf("after the dry run: got\n%s\nwant what that has said", again)
	}
}

// A command that is killed half way has changed what it has said; the same one again goes on where it
// was.
func TestMembersInterrupted(t *testing.T) {
	t.Setenv("REDLOCKD_LOCKS_MAX_TTL", "6s") // for as long it can be interrupted
	_, addrs := startMembers(t, 3, 0)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		p := begin(t, "members", "--masters", addrs, "set", "max_ttl", "2s")
		p.waitLog("the wait follows in ") // the change is chosen
		p.signal(sig)
		if code := p.exitCode(); sig == syscall.SIGINT && code != cli.ExitSignal+int(sig) {
			t.Errorf("exit code %d, want %d:\n%s", code, cli.ExitSignal+int(sig), p.log())
		}
		if sig == syscall.SIGINT {
			p.waitLog("Any redlockd over these masters finishes it")
		}
	}
	if text := change(t, addrs, "set", "max_ttl", "2s"); !strings.HasPrefix(text, "Nothing to change") || !strings.Contains(text, "Done.") {
		t.Errorf("again: got\n%s\nwant that nothing is to change, and that it is done", text)
	}
	if got := membersOf(t, addrs); got.MaxTTLMs != 2000 || got.WaitMs >= 3500 || got.WaitLeftMs != 0 {
		t.Errorf("got %+v, want a max_ttl of 2s and its wait", got)
	}
}

// A seat has a password of its own. The command uses it at the address that it is told; nobody else
// does, until config.toml names that address.
func TestMembersWithPasswordsOfTheirOwn(t *testing.T) {
	s, _ := startMembers(t, 3, 1)
	for _, one := range s {
		password := one.Addr
		if one == s[3] {
			password = s[0].Addr // the seat's, at its new master
		}
		redisCLI(t, one.Addr, "CONFIG", "SET", "requirepass", password)
	}
	text := ""
	for _, one := range s[:3] {
		text += fmt.Sprintf("[[masters]]\naddr = %q\npassword = %q\n", one.Addr, one.Addr)
	}
	file := configFile(t, text)
	if code, stdout, stderr := runBinary(t, "members", "--config", file, "replace", s[0].Addr, s[3].Addr); code != cli.ExitOK || !strings.Contains(stdout, "Done.") {
		t.Fatalf("exit code %d, errors %q, output\n%s\nwant that the new master votes", code, stderr, stdout)
	}
	want := "its own password was not sent, because the settings have " + s[0].Addr + " at " + s[0].Addr + ": if " + s[3].Addr + " is right, write it into config.toml"
	if _, stdout, _ := runBinary(t, "members", "--config", file); !strings.Contains(stdout, want) {
		t.Errorf("got\n%s\nwant %s", stdout, want)
	}
}

// The machines of three of five are gone for good. Every command names the way out: the two that are
// left and a new one. Nothing is changed before somebody has agreed. TestRefound of package redlock has
// what the redlockds do meanwhile.
func TestMajorityIsLostForGood(t *testing.T) {
	redisproc.Long(t)
	s, addrs := startMembers(t, 5, 1)
	for _, one := range s[2:5] {
		one.Kill()
	}
	left := strings.Join([]string{s[0].Addr, s[1].Addr, s[5].Addr}, ",")
	for _, args := range [][]string{{"members", "--masters", addrs, "replace", s[2].Addr, s[5].Addr}, {"members", "--masters", left}} {
		wantRun(t, cli.ExitFailed, "", "2 of 5 masters can be reached and may be members, 3 are needed", args...)
		wantRun(t, cli.ExitFailed, "", "redlockd check says what is wrong with each; if a majority is lost for good, redlockd members refound", args...)
	}
	wantRun(t, cli.ExitFailed, "its membership is not in force: 2 of its 5 masters can be reached, 2 of them remember it, and 3 are needed ("+strings.ReplaceAll(addrs, ",", ", ")+")", "", "check", "--masters", left)
	shows := redisCLI(t, s[0].Addr, "HGET", "redlockd:members", "v")
	lost := fmt.Sprintf("Given up for lost: %s, %s, %s.\n", s[2].Addr, s[3].Addr, s[4].Addr)
	wantRun(t, cli.ExitFailed, lost, "it asks first, and there is no terminal; with --yes", "members", "refound", "--masters", left)
	wantRun(t, cli.ExitOK, lost, "", "members", "refound", "--masters", left, "--dry-run")
	if got := redisCLI(t, s[0].Addr, "HGET", "redlockd:members", "v"); got != shows {
		t.Errorf("before anybody has agreed %s shows %s, want %s as before", s[0].Addr, got, shows)
	}
	if text := change(t, left, "refound", "--yes"); !strings.Contains(text, lost) || !strings.Contains(text, "Refounded. Locks are granted again ") {
		t.Errorf("refound: got\n%s", text)
	}
	launch(t, "--masters", left)
	if got, want := seatsOf(membersOf(t, addrs)), voters(s[0], s[1], s[5]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if text := change(t, left, "refound", "--yes"); !strings.HasPrefix(text, "Nothing to refound") {
		t.Errorf("again: got\n%s\nwant that there is nothing to do", text)
	}
}

// On a terminal refound asks, and does nothing but for a yes.
func TestRefoundAsks(t *testing.T) {
	s, _ := startMembers(t, 3, 0)
	s[1].Kill()
	s[2].Kill()
	for _, tt := range []struct {
		typed string
		code  int
		want  string
	}{
		{"no\n", cli.ExitFailed, "refound: nothing was changed"},
		{"\n", cli.ExitFailed, "refound: nothing was changed"},
		{"\x03", cli.ExitFailed, "refound: stopped by interrupt: nothing was changed"},
		{"yes\n", cli.ExitOK, "Refounded. Locks are granted again "},
	} {
		user, terminal := openTerminal(t)
		cmd := exec.Command(binary(t), "members", "refound", "--masters", s[0].Addr)
		before := redisCLI(t, s[0].Addr, "HGET", "redlockd:members", "v")
		startOn(t, terminal, cmd)
		terminal.Close()
		shown := readUntil(user, func(text string) bool { return strings.Contains(text, "Type yes") })
		user.WriteString(tt.typed)
		shown += readUntil(user, func(string) bool { return false })
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(shown, "Type yes") || !strings.Contains(shown, tt.want) {
			t.Errorf("%q: exit code %d, it has shown\n%s\nwant %d, and %q", tt.typed, code, shown, tt.code, tt.want)
		}
		if after := redisCLI(t, s[0].Addr, "HGET", "redlockd:members", "v"); (after == before) != (tt.code != cli.ExitOK) {
			t.Errorf("%q: the master has shown %s, and shows %s", tt.typed, before, after)
		}
	}
}

// Two of five masters are dead. The removal of a living master is refused with the numbers, and members
// and check say how many are reached. With three dead, check fails.
func TestMembersWithDeadMasters(t *testing.T) {
	s, addrs := startMembers(t, 5, 0)
	s[3].Kill()
	s[4].Kill()
	before := membersOf(t, addrs)
	numbers := fmt.Sprintf("3 of 5 masters vote now, %s is not reached, %s is not reached; without %s, 2 would vote and 3 are needed", s[3].Addr, s[4].Addr, s[0].Addr)
	wantRun(t, cli.ExitFailed, "", numbers, "members", "--masters", addrs, "remove", s[0].Addr)
	if after := membersOf(t, addrs); after.Version != before.Version || seatsOf(after) != seatsOf(before) || after.Voters != 5 || after.Unreached != 2 ||
		!after.Seats[2].Reached || after.Seats[3].Reached {
		t.Errorf("before %+v, after %+v; want no change, and two of five voters that are not reached", before, after)
	}
	without := "Without a vote now: " + s[3].Addr + " cannot be reached, " + s[4].Addr + " cannot be reached."
	for _, command := range []string{"members", "check"} {
		wantRun(t, cli.ExitOK, without, "", command, "--masters", addrs)
	}
	if v := checkJSON(t, cli.ExitOK, addrs); !v.Quorum || v.Voting != 3 || v.Membership == nil || v.Membership.Voters != 5 || v.Membership.Unreached != 2 {
		t.Errorf("check: got %+v; want a quorum, 3 voting, 2 of 5 voters not reached", v)
	}
	s[1].Kill()
	if v := checkJSON(t, cli.ExitFailed, addrs); v.Quorum || v.Voting >= 3 {
		t.Errorf("check with three of five dead: got %+v; want no quorum", v)
	}
	checkJSON(t, cli.ExitFailed, s[2].Addr) // a list of one, with three of five dead
}

// The lines for config.toml are read as they are printed, and make the difference go away.
func TestMembersSettings(t *testing.T) {
	s, addrs := startMembers(t, 3, 1)
	text := change(t, addrs, "replace", s[0].Addr, s[3].Addr)
	_, lines, found := strings.Cut(text, "while no redlockd runs:\n\n")
	if !found {
		t.Fatalf("got\n%s\nwant the lines for config.toml", text)
	}
	file := configFile(t, lines)
	code, stdout, stderr := runBinary(t, "members", "--config", file)
	if code != cli.ExitOK || strings.Contains(stdout, "config.toml") || !strings.Contains(stdout, "3 of 3 seats vote, 2 are needed: 1 may fail; max_ttl 2s") {
		t.Errorf("exit code %d, errors %q, output\n%s\nwant no difference", code, stderr, stdout)
	}
}

// An operator writes the present addresses as a plain list, each with its own password, after a
// replacement. Nothing differs from the membership, and a server starts with the list.
func TestMembersByPresentAddresses(t *testing.T) {
	s, addrs := startMembers(t, 3, 1)
	change(t, addrs, "replace", s[1].Addr, s[3].Addr)
	s[1].Kill()
	text := "masters = ["
	for _, one := range []*redisproc.Server{s[0], s[3], s[2]} {
		redisCLI(t, one.Addr, "CONFIG", "SET", "requirepass", "of"+one.Addr[len(one.Addr)-5:])
		text += fmt.Sprintf("\"redis://:of%s@%s\", ", one.Addr[len(one.Addr)-5:], one.Addr)
	}
	file := configFile(t, text+"]\n")
	for _, command := range []string{"members", "check"} {
		code, stdout, stderr := runBinary(t, command, "--config", file)
		if code != cli.ExitOK || strings.Contains(stdout, "differ") || !strings.Contains(stdout, "3 of 3 ") {
			t.Errorf("%s: exit code %d, errors %q, output\n%s\nwant three voters, and no difference", command, code, stderr, stdout)
		}
	}
	p := launch(t, "--config", file)
	client := p.dial()
	if info := client.do("INFO"); !strings.Contains(info, "membership_differences:\r\n") || !strings.Contains(info, "membership_voters:3\r\n") {
		t.Errorf("INFO: got\n%s\nwant three voters, and no differences", info)
	}
	if log := p.log(); strings.Contains(log, "differ") {
		t.Errorf("log: got\n%s\nwant no differences", log)
	}
}

// A master wants a password while redlockd serves: first only of new connections, then of all. That,
// and what to do, stands in the log, INFO, members, check and the errors of clients.
func TestMasterWantsAPassword(t *testing.T) {
	t.Setenv("REDLOCKD_MASTER_CONNECT_TIMEOUT", "500ms") // members waits for a few of these
	s, addrs := startMembers(t, 3, 0)
	p := launch(t, "--masters", addrs)
	client := p.dial()
	const wants, wrong = "it wants a password: set password in [master]", "it refuses the user or the password: correct username and password in [master]"
	noquorum := func(want string) {
		t.Helper()
		client.eventually("LOCK r 1000", func(got string) bool { return strings.HasPrefix(got, "NOQUORUM ") && strings.Contains(got, want) })
	}
	redisCLI(t, s[0].Addr, "CONFIG", "SET", "requirepass", "x")
	p.waitLog(`"master quarantined","master":"` + s[0].Addr + `","reason":"no new connection has reached it for `)
	p.waitLog("may have its address by now: " + wants)
	client.eventually("INFO", func(got string) bool { return strings.Contains(got, wants) })
	for _, command := range []string{"members", "check"} {
		wantRun(t, cli.ExitOK, wants, "", command, "--masters", addrs)
	}
	redisCLI(t, s[1].Addr, "CONFIG", "SET", "requirepass", "x")
	noquorum("by now: " + wants)
	for _, one := range s[:2] {
		redisCLI(t, one.Addr, "-a", "x", "CLIENT", "KILL", "TYPE", "normal")
	}
	p.waitLog(`"master refused","master":"` + s[1].Addr + `","reason":"` + wants)
	noquorum(s[1].Addr + ": refused: " + wants)
	client.eventually("INFO", func(got string) bool {
		return strings.Contains(got, "membership_problem:1 of 3 masters can be reached and may be members; 2 are needed ("+s[0].Addr)
	})
	wantRun(t, cli.ExitFailed, "", wants, "members", "--masters", addrs)
	wantRun(t, cli.ExitFailed, wants, "", "check", "--masters", addrs)
	t.Setenv("REDLOCKD_MASTER_PASSWORD", "wrong")
	wantRun(t, cli.ExitFailed, "", wrong, "members", "--masters", addrs)
	wantRun(t, cli.ExitFailed, wrong, "", "check", "--masters", addrs)
	t.Setenv("REDLOCKD_MASTER_PASSWORD", "x")
	redisCLI(t, s[2].Addr, "CONFIG", "SET", "requirepass", "x")
	wantRun(t, cli.ExitOK, "3 of 3 seats vote, 2 are needed: 1 may fail", "", "members", "--masters", addrs)
}

// Settings that name masters of two fleets lead to none, as a server that starts with them says. So check says that no lock is granted.
func TestCheckOfTwoFleets(t *testing.T) {
	ours, theirs := []*redisproc.Server(nil), []*redisproc.Server(nil)
	for _, fleet := range []*[]*redisproc.Server{&ours, &theirs} {
		*fleet, _ = startMembers(t, 3, 0)
	}
	lone, _ := startMasters(t, 1)
	addrs := strings.Join([]string{ours[0].Addr, theirs[0].Addr, lone[0].Addr}, ",")
	code, stdout, stderr := runBinary(t, "check", "--masters", addrs)
	if want := "the masters that the settings name lead to no fleet"; code != cli.ExitFailed || stderr != "" || !strings.Contains(stdout, want) || !strings.Contains(stdout, "No quorum is available") {
		t.Errorf("exit code %d, errors %q, output\n%s\nwant exit code 1, and %q", code, stderr, stdout, want)
	}
	addrs = strings.Join([]string{ours[0].Addr, ours[1].Addr, theirs[0].Addr}, ",")
	if code, stdout, _ := runBinary(t, "check", "--masters", addrs); code != cli.ExitOK || !strings.Contains(stdout, "3 of 3 masters vote") {
		t.Errorf("two of three lead to one fleet: exit code %d, output\n%s\nwant that fleet", code, stdout)
	}
}

// What may fail is what may fail now, and why a master has no vote is said by evidence, alike by every command: a seat that is leaving, one that
// waits for its vote, a master of another fleet, one that was flushed, and those that wait because of a founding and have forgotten nothing.
func TestNumbersAndCausesAreTrue(t *testing.T) {
	servers, _ := startMasters(t, 6)
	three := addrsOf(servers[:3])
	with := func(command ...string) []string { return append(command, "--masters", three, "--max-ttl", "1h") }
	wantRun(t, cli.ExitOK, "3 of 3 masters admitted.", "", "bootstrap", "--masters", three, "--max-ttl", "1h")
	p := launch(t, "--masters", three, "--max-ttl", "1h", "--http-listen", "127.0.0.1:0")

	// One of the three belongs to another fleet by now, and is emptied then. The server must not seat it before.
	p.signal(syscall.SIGSTOP)
	redisCLI(t, servers[2].Addr, "FLUSHALL")
	wantRun(t, cli.ExitOK, "3 of 3 masters admitted.", "", "bootstrap", "--masters", addrsOf([]*redisproc.Server{servers[2], servers[4], servers[5]}))
	p.signal(syscall.SIGCONT)
	out := wantRun(t, cli.ExitOK, "A quorum is available, but none may fail: 2 of 3 masters vote, 2 are needed. Fix "+servers[2].Addr+".", "", with("check")...)
	const foreign = "it shows a membership of another fleet"
	if !strings.Contains(out, "no vote: "+foreign+"\n    to fix it: run FLUSHALL on it if that fleet is gone") {
		t.Errorf("check: got\n%s\nwant what to do about the other fleet", out)
	}
	wantRun(t, cli.ExitOK, foreign, "", with("members")...)
	redisCLI(t, servers[2].Addr, "FLUSHALL")
	until(t, "it votes again", func() bool {
		_, text := p.web().get("/readyz")
		return strings.Contains(text, "3 of 3 masters have a vote, and 2 are needed; 1 may fail")
	})

	// One is added, and removed.
	wantRun(t, cli.ExitOK, "Done.", "votes when", with("members", "add", servers[3].Addr, servers[3].Addr)...)
	wantRun(t, cli.ExitOK, "4 of 4 seats vote, 3 are needed: 1 may fail", "", with("members")...)
	wantRun(t, cli.ExitOK, "Not waiting", "", with("members", "remove", servers[3].Addr, "--no-wait")...)
	wantRun(t, cli.ExitOK, "3 of 4 seats vote, 3 are needed: none may fail", "", with("members")...)
	wantRun(t, cli.ExitOK, "Without a vote now: "+servers[3].Addr+" is leaving.", "", with("members")...)
	out = wantRun(t, cli.ExitOK, "A quorum is available, but none may fail: 3 of 4 masters vote, 3 are needed.", "", with("check")...)
	if !strings.Contains(out, "its seat is leaving") || !strings.Contains(out, "Restart no master now") {
		t.Errorf("check: got\n%s\nwant that a seat is leaving, and that no master may be restarted", out)
	}
	until(t, "/readyz says that none may fail", func() bool {
		_, text := p.web().get("/readyz")
		return strings.Contains(text, "3 of 4 masters have a vote, and 3 are needed; 0 may fail")
	})

	// Two are emptied: too few remember, and the fleet is founded anew.
	redisCLI(t, servers[2].Addr, "FLUSHALL")
	redisCLI(t, servers[1].Addr, "FLUSHALL")
	p.waitLog("\"change\":\"founded")
	const anew = "the fleet was founded anew, because too many had forgotten: all wait, those as well that remember"
	for _, command := range []string{"check", "members"} {
		code := cli.ExitFailed
		if command == "members" {
			code = cli.ExitOK
		}
		out = wantRun(t, code, anew, "", with(command)...)
		if strings.Contains(out, "restarted") {
			t.Errorf("%s: got\n%s\nwant no word of restarts", command, out)
		}
	}
}
