package admin

// Goal: a probe names everything that keeps a master from voting, and invents nothing. Method: real redis-server
// processes in the states that matter (fine, replica, cluster node, evicting, locked by a password, restricted by an ACL,
// frozen, gone), and INFO texts as other servers and accidents write them.

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/redisproc"
)

// probeTimeout is for masters that answer, however busy the machine is.
const probeTimeout = time.Minute

func startRedis(t *testing.T, args ...string) *redisproc.Server {
	t.Helper()
	return redisproc.StartForTest(t, 1, args...)[0]
}

// cli runs a command with redis-cli, so that what the probe is tried on is not set up by the probe's own library, and returns what it
// prints.
func cli(t *testing.T, addr string, args ...string) string {
	t.Helper()
	redisproc.Need(t, "redis-cli")
	host, port, _ := net.SplitHostPort(addr)
	out, err := exec.Command("redis-cli", append([]string{"-h", host, "-p", port}, args...)...).CombinedOutput()
	if err != nil || strings.HasPrefix(string(out), "ERR") {
		t.Fatalf("redis-cli %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// problems prints what a probe found.
func problems(r MasterReport) string {
	var lines []string
	for _, p := range r.Problems {
		lines = append(lines, fmt.Sprintf("%s: %s", p.Severity, p.Reason))
	}
	return strings.Join(lines, "\n")
}

func TestProbeFindsNothingOnAFineMaster(t *testing.T) {
	s := startRedis(t)
	r := probe(t.Context(), conn.Master{Addr: s.Addr}, member.Options{ConnectTimeout: probeTimeout, ReadOnly: true})
	if got := problems(r); got != "" {
		t.Errorf("problems: got %q, want none", got)
	}
	if !r.Reachable || !r.Votes() || r.Role != "master" || r.RunID == "" || r.MaxMemoryPolicy != "noeviction" || r.AOF || r.Save != "" {
		t.Errorf("report: got %+v, want a reachable master that votes, with a run_id, noeviction, no persistence", r)
	}
	if r.Version != s.Version() || !strings.HasPrefix(r.OS, "Linux") {
		t.Errorf("version %q, os %q: want %q and Linux…", r.Version, r.OS, s.Version())
	}
	// Both ends read the same clock, so the difference must lie within the error that the probe claims for it.
	if r.RTT <= 0 || r.ClockErr != r.RTT/2 || r.ClockDiff.Abs() > r.ClockErr+time.Microsecond {
		t.Errorf("rtt %v, clock difference %v ± %v: want a difference within ± half the round trip", r.RTT, r.ClockDiff, r.ClockErr)
	}
	if keys := cli(t, s.Addr, "DBSIZE"); keys != "0" {
		t.Errorf("keys after the probe: got %q, want 0", keys)
	}
}

// A master that breaks off before it has shown the membership is not told as one that can vote.
func TestProbeCannotReadTheMembership(t *testing.T) {
	fleettest.InVirtualTime(t, 1, func(s *fleettest.Fleet) {
		o := s.Options(s.Links())
		r := MasterReport{Addr: o.Masters[0].Addr, Role: "master", shown: member.Report{Master: o.Masters[0]}}
		l, err := conn.Dial(s.Context(), o.Masters[0], o.ConnectTimeout)
		if err != nil {
			s.Fatal(err)
		}
		defer l.Close()
		r.shown.Conn = l
		l.Socket.Close()
		r.readMembership(s.Context(), o)
		if got := problems(r); r.Votes() || !strings.HasPrefix(got, "no vote: its membership could not be read: ") {
			s.Errorf("votes %v, problems %q: want that the membership could not be read", r.Votes(), got)
		}
	})
}

// A master that breaks off while commands are tried is told so, once, whichever command it was, and not as one that lacks permissions.
func TestProbeOfAMasterThatBreaksOff(t *testing.T) {
	for _, command := range []string{"SET", "UNLINK", "PUBLISH", "SUBSCRIBE"} {
		fleettest.InVirtualTime(t, 1, func(s *fleettest.Fleet) {
			links := s.Links()
			o := s.Options(links)
			w := watch(&o)
			w.onWrite = func(_ string, b []byte) {
				if strings.Contains(string(b), "\r\n"+command+"\r\n") {
					links[0].Cut()
				}
			}
			o.ReadOnly = true
			r := probe(s.Context(), o.Masters[0], o)
			if got := problems(r); r.Votes() || len(r.Problems) != 1 || !strings.HasPrefix(got, "no vote: broke off while its permissions were tried: ") || len(r.Lacks) > 0 {
				s.Errorf("at %s: got %q, and %q is not allowed; want that it broke off", command, got, r.Lacks)
			}
		})
	}
}

// A master that stops now and then is seen. On a slow machine it may stop after the probe, so there
// are several.
func TestProbeFindsAPause(t *testing.T) {
	s := startRedis(t)
	for range 10 {
		done := make(chan struct{})
		paused := make(chan struct{})
		go func() {
			defer close(paused)
			for !strings.Contains(cli(t, s.Addr, "CLIENT", "LIST"), "cmd=time") {
				select {
				case <-done:
					return
				default:
				}
			}
			cli(t, s.Addr, "CLIENT", "PAUSE", "700", "ALL")
		}()
		r := probe(t.Context(), conn.Master{Addr: s.Addr}, member.Options{ConnectTimeout: probeTimeout, ReadOnly: true})
		close(done)
		<-paused
		if r.RTTWorst > 300*time.Millisecond && r.RTT < r.RTTWorst/2 {
			return
		}
		t.Logf("round trips from %v to %v, want one above 300ms", r.RTT, r.RTTWorst)
	}
	t.Error("no probe has seen a pause of 700ms")
}

var notAllowed = regexp.MustCompile(`its ACL does not allow ([A-Z ]+)[,:]`)

func TestProbeNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string   // of redis-server
		setup  [][]string // redis-cli commands
		master conn.Master
		want   []string // beginnings of the problems, in order; there may be more
		only   bool     // there are no more
		votes  bool
	}{
		{
			name: "replica",
			args: []string{"--replicaof", "127.0.0.1", "1"},
			want: []string{"no vote: is a replica: it takes no writes"},
		}, {
			name: "cluster node",
			args: []string{"--cluster-enabled", "yes"},
			want: []string{"no vote: is a node of a Redis Cluster"},
		}, {
			name: "evicting",
			args: []string{"--maxmemory", "10mb", "--maxmemory-policy", "volatile-lru"},
			want: []string{"no vote: maxmemory-policy is volatile-lru: at the limit of memory it would throw away locks that are held"},
		}, {
			name:  "would evict if it had a limit",
			args:  []string{"--maxmemory-policy", "allkeys-lru"},
			want:  []string{"warning: maxmemory-policy is allkeys-lru: it loses its vote as soon as maxmemory is set"},
			votes: true,
		}, {
			name: "out of memory",
			args: []string{"--maxmemory", "1"},
			want: []string{"no vote: its memory is full (OOM), so it takes no new locks, only releases"},
			only: true,
		}, {
			name:  "little memory left",
			args:  []string{"--maxmemory", "50mb"},
			setup: [][]string{{"SETRANGE", "large", "40000000", "x"}},
			want:  []string{"warning: uses 8"},
			votes: true,
		}, {
			name: "it wants replicas",
			args: []string{"--min-replicas-to-write", "1"},
			want: []string{"no vote: it refuses all writes because too few replicas are connected (NOREPLICAS)"},
			only: true,
		}, {
			name:  "append only, everysec, snapshots",
			args:  []string{"--appendonly", "yes", "--save", "60", "1"},
			want:  []string{"note: appendfsync everysec can lose acknowledged locks", "note: writes snapshots (save 60 1)"},
			votes: true,
		}, {
			name:  "append only, always",
			args:  []string{"--appendonly", "yes", "--appendfsync", "always"},
			votes: true,
		}, {
			name: "no password given",
			args: []string{"--requirepass", "s3cret"},
			want: []string{"no vote: it wants a password: set password in [master], or in its own [[masters]] table (NOAUTH Authentication required.)"},
			only: true,
		}, {
			name:   "wrong password",
			args:   []string{"--requirepass", "s3cret"},
			master: conn.Master{Password: "guess"},
			want:   []string{"no vote: it refuses the user or the password: correct username and password in [master], or in its own [[masters]] table (WRONGPASS invalid"},
			only:   true,
		}, {
			name:   "right password",
			args:   []string{"--requirepass", "s3cret"},
			master: conn.Master{Password: "s3cret"},
			votes:  true,
		}, {
			name:   "permissions that lack some commands",
			setup:  [][]string{{"ACL", "SETUSER", "locks", "on", ">pw", "~*", "+@all", "-client|kill", "-script|load", "-pexpire", "-hset", "-scan", "-hgetall", "-dbsize"}},
			master: conn.Master{Username: "locks", Password: "pw"},
			want: []string{
				"no vote: its ACL does not allow PEXPIRE: NOPERM",
				"no vote: its ACL does not allow HGETALL: NOPERM",
				"no vote: its ACL does not allow HSET: NOPERM",
				"no vote: its ACL does not allow DBSIZE: NOPERM",
				"no vote: its ACL does not allow SCAN: NOPERM",
				"no vote: its ACL does not allow SCRIPT LOAD: NOPERM",
				"no vote: its ACL does not allow CLIENT KILL: NOPERM",
			},
		}, {
			name:   "permissions that lack what those who wait need",
			setup:  [][]string{{"ACL", "SETUSER", "locks", "on", ">pw", "~*", "resetchannels", "+@all", "-client|tracking"}},
			master: conn.Master{Username: "locks", Password: "pw"},
			votes:  true,
			want: []string{
				"warning: its ACL does not allow CLIENT TRACKING, so who waits for a lock, and other redlockds, are told late: NOPERM",
				"warning: its ACL does not allow PUBLISH, so who waits for a lock, and other redlockds, are told late: NOPERM",
				"warning: its ACL does not allow SUBSCRIBE, so who waits for a lock, and other redlockds, are told late: NOPERM",
			},
		}, {
			name:   "permissions that lack our own keys",
			setup:  [][]string{{"ACL", "SETUSER", "locks", "on", ">pw", "~lock:*", "+@all"}},
			master: conn.Master{Username: "locks", Password: "pw"},
			want:   []string{"no vote: its ACL does not allow SET: NOPERM", "no vote: its ACL does not allow GET: NOPERM"},
		}, {
			name:   "permissions without INFO and CONFIG",
			setup:  [][]string{{"ACL", "SETUSER", "locks", "on", ">pw", "~*", "+@all", "-info", "-config"}},
			master: conn.Master{Username: "locks", Password: "pw"},
			want:   []string{"no vote: its ACL does not allow INFO: NOPERM"},
		}, {
			name:  "another key in the place of the membership",
			setup: [][]string{{"SET", lua.MembersKey, "x"}},
			want:  []string{"no vote: its redlockd:members is no membership"},
		}, {
			name: "a command renamed away",
			args: []string{"--rename-command", "EVALSHA", ""},
			want: []string{"no vote: does not know the command EVALSHA"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startRedis(t, c.args...)
			for _, command := range c.setup {
				if command[0] == "ACL" {
					s.LeaveOutBefore(t, 6, 0, "ACL")
				}
				if slices.Contains(command, "-client|kill") {
					s.LeaveOutBefore(t, 7, 0, "an ACL that takes away a subcommand")
				}
				cli(t, s.Addr, command...)
			}
			c.master.Addr = s.Addr
			r := probe(t.Context(), c.master, member.Options{ConnectTimeout: probeTimeout, ReadOnly: true})
			got := strings.Split(problems(r), "\n")
			for i, want := range c.want {
				if s.Before(6, 0) {
					want = strings.Replace(want, "WRONGPASS invalid username-password pair", "ERR invalid password", 1)
				}
				if i >= len(got) || !strings.HasPrefix(got[i], want) {
					t.Errorf("problem %d: got\n%s\nwant one that begins with %q", i, strings.Join(got, "\n"), want)
				}
			}
			if c.want == nil && got[0] != "" {
				t.Errorf("got %q, want no problem", got)
			}
			if c.only && len(got) > len(c.want) {
				t.Errorf("got\n%s\nwant only %q", strings.Join(got, "\n"), c.want)
			}
			var lacks []string
			for _, found := range notAllowed.FindAllStringSubmatch(problems(r), -1) {
				lacks = append(lacks, found[1])
			}
			if !slices.Equal(r.Lacks, lacks) {
				t.Errorf("got %q as commands that are not allowed, want those of the problems, %q", r.Lacks, lacks)
			}
			if !r.Reachable || r.Votes() != c.votes {
				t.Errorf("reachable %v, votes %v: want true, %v", r.Reachable, r.Votes(), c.votes)
			}
		})
	}
}

func TestProbeAllComparesTheMasters(t *testing.T) {
	fine := startRedis(t)
	_, port, _ := net.SplitHostPort(fine.Addr)
	reports, _ := ProbeAll(t.Context(), member.Options{ClockSkewMax: time.Minute, Masters: []conn.Master{
		{Addr: fine.Addr},
		{Addr: "127.0.0.1:1"},       // where nobody listens
		{Addr: "localhost:" + port}, // the same process by another name
	}}, probeTimeout)
	for i, want := range []string{
		"",
		"no vote: cannot connect: connection refused",
		"no vote: is the same Redis as " + fine.Addr + " (same run_id): one process would vote twice",
	} {
		got := problems(reports[i])
		if !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: got %q, want %q", reports[i].Addr, got, want)
		}
		if wantVote := want == ""; reports[i].Votes() != wantVote {
			t.Errorf("%s: votes %v, want %v", reports[i].Addr, !wantVote, wantVote)
		}
	}
	if strings.Contains(problems(reports[1]), "attempts") {
		t.Errorf("got %q: want the reason, not the library's story of its attempts", problems(reports[1]))
	}
}

// A master that hangs is given up after the timeout, and the reports of the others do not suffer.
func TestProbeOfAMasterThatHangs(t *testing.T) {
	fleettest.InVirtualTime(t, 3, func(s *fleettest.Fleet) {
		admitAll(s)
		s.Masters[1].Freeze()
		began := time.Now()
		reports, _ := ProbeAll(s.Context(), s.Options(s.Links()), 2*time.Second)
		if took := time.Since(began); took != 2*time.Second {
			s.Errorf("took %v, want the timeout of 2 s", took)
		}
		for i, want := range []string{"", "no vote: no answer while connecting", ""} {
			if got := problems(reports[i]); got != want || reports[i].Votes() != (want == "") {
				s.Errorf("%s: got %q, votes %v, want %q", reports[i].Addr, got, reports[i].Votes(), want)
			}
		}
	})
}

// A probe that praises a master which the engine then refuses would be worse than none.
func TestJudgeAgreesWithTheEngine(t *testing.T) {
	for _, text := range []string{
		"redis_version:7.0.15\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction",
		"redis_version:7.0.15\r\nrole:slave\r\nmaster_host:h\r\nmaster_port:1",
		"redis_version:7.0.15\r\nrole:master\r\ncluster_enabled:1",
		"redis_version:7.0.15\r\nredis_mode:sentinel",
		"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nserver_mode:sentinel", "redict_version:7.3.6\r\nredict_mode:sentinel",
		"redis_version:7.0.15\r\nrole:master\r\nmaxmemory:100\r\nmaxmemory_policy:allkeys-lru",
		"redis_version:7.0.15\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru",
		"redis_version:7.0.15\r\nrole:master\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction",
		"redis_version:4.0.14\r\nrole:master", "redis_version:5.0.0\r\nrole:master", "redis_version:4.0.14\r\nvalkey_version:8.1.1\r\nrole:master", "redis_version:10.1\r\nrole:master",
		"redis_version:unstable\r\nrole:master", "role:master", "",
	} {
		info := conn.ParseInfo(text)
		var r MasterReport
		r.fill(info)
		r.judge()
		refused := conn.Refusal(info)
		if r.Votes() != (refused == "") {
			t.Errorf("INFO %q: the engine says %q, the probe %q", text, refused, problems(r))
		}
		if sentinel := strings.Contains(text, "_mode:sentinel"); sentinel != strings.Contains(refused, "it is a Sentinel") || sentinel != strings.Contains(problems(r), "is a Sentinel") {
			t.Errorf("INFO %q: the engine says %q, the probe %q: want that it is a Sentinel: %v", text, refused, problems(r), sentinel)
		}
	}
}

// The scripts run with the permissions of the user.
func TestProbeTriesEveryCommandOfTheScripts(t *testing.T) {
	tried := make(map[string]bool)
	for _, c := range commandsNeeded {
		tried[c[0].(string)] = true
	}
	called := regexp.MustCompile(`redis\.call\('(\w+)'`)
	for _, s := range lua.Loaded {
		for _, call := range called.FindAllStringSubmatch(s.Text, -1) {
			if name := strings.ToUpper(call[1]); name != "TIME" && !tried[name] { // TIME is how the clock is read
				t.Errorf("the script %s calls %s: want it among commandsNeeded", s.Name, name)
			}
		}
	}
}

// What no server here can be made to be is judged from reports made by hand.
func TestJudge(t *testing.T) {
	fine := MasterReport{Version: "Redis 7.0.15", Role: "master", MaxMemoryPolicy: "noeviction"}
	for _, c := range []struct {
		name   string
		change func(*MasterReport)
		want   string
	}{
		{"fine", func(*MasterReport) {}, ""},
		{"old", func(r *MasterReport) { r.Version = "Redis 4.0.14" }, "no vote: Redis 4.0.14 is too old: 5.0 is the first with all commands that are needed"},
		{"two digits", func(r *MasterReport) { r.Version = "Redis 10.0.1" }, ""},
		{"no version", func(r *MasterReport) { r.Version = "" }, ""},
		{"sentinel", func(r *MasterReport) { r.Role = "sentinel" }, "no vote: is a Sentinel: it keeps no data"},
		{"strange role", func(r *MasterReport) { r.Role = "observer" }, `no vote: has the role "observer"`},
		{"loading", func(r *MasterReport) { r.Loading = true }, "no vote: is still loading its data from the disk"},
		{"replicas", func(r *MasterReport) { r.Replicas = 2 }, "warning: has 2 replicas"},
	} {
		r := fine
		c.change(&r)
		r.judge()
		if got := problems(r); !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// The engine gives no vote at first to a master whose clock is far from ours; the probe says so beforehand.
func TestProbeAllComparesTheClocks(t *testing.T) {
	o := member.Options{Masters: []conn.Master{{Addr: "a:1"}}, ClockSkewMax: 500 * time.Millisecond}
	for _, c := range []struct {
		diff, err time.Duration
		want      string
	}{
		{0, 0, ""},
		{-510 * time.Millisecond, 10 * time.Millisecond, ""}, // may be 500 ms
		{511 * time.Millisecond, 10 * time.Millisecond, "warning: its clock is 511ms from this machine's (± 10ms), further than clock_skew_max = 500ms"},
		{-3 * time.Second, time.Millisecond, "warning: its clock is -3s from this machine's (± 1ms), further than clock_skew_max = 500ms"},
	} {
		reports := []MasterReport{{Addr: "a:1", ClockDiff: c.diff, ClockErr: c.err}}
		compare(reports, nil, nil, "", o)
		if got := problems(reports[0]); !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") || !reports[0].Votes() {
			t.Errorf("%v ± %v: got %q, votes %v; want %q, true", c.diff, c.err, got, reports[0].Votes(), c.want)
		}
	}
}

func TestProbeEndsWithItsContext(t *testing.T) {
	frozen := startRedis(t)
	if err := frozen.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	r := probe(ctx, conn.Master{Addr: frozen.Addr}, member.Options{ConnectTimeout: time.Hour, ReadOnly: true})
	if r.Reachable || r.Votes() {
		t.Errorf("got %+v, want a master that was not reached", r)
	}
}

// A second try would be counted as an answer of a master that breaks off, and hide that it does.
func TestProbeTriesOnce(t *testing.T) {
	var dials atomic.Int32
	r := probe(t.Context(), conn.Master{
		Addr: "broken",
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				var request [1024]byte
				theirs.Read(request[:])
				theirs.Write([]byte("-ERR unknown command 'HELLO'\r\n"))
				theirs.Read(request[:])
			}()
			return ours, nil
		},
	}, member.Options{ConnectTimeout: probeTimeout, ReadOnly: true})
	if got := dials.Load(); got != 1 || r.Reachable {
		t.Errorf("connections: got %d, want 1; reachable: got %v, want false", got, r.Reachable)
	}
}

func TestUnreachable(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{context.DeadlineExceeded, "no vote: gives no answer within 1m0s"},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "no vote: gives no answer within 1m0s"},
		{syscall.EPIPE, "no vote: cannot be reached: broken pipe"},
		{&conn.ConnectError{Reason: "cannot connect: no route to host", Fix: "see the network between"}, "no vote: cannot connect: no route to host"},
	} {
		var r MasterReport
		r.unreachable(t.Context(), c.err, probeTimeout)
		if got := problems(r); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}

func TestClockDiff(t *testing.T) {
	sent := time.Unix(1000, 0)
	for _, c := range []struct{ there, rtt, want time.Duration }{
		{0, 0, 0},
		{5 * time.Millisecond, 10 * time.Millisecond, 0}, // read halfway: in step
		{10 * time.Millisecond, 10 * time.Millisecond, 5 * time.Millisecond},
		{0, 10 * time.Millisecond, -5 * time.Millisecond},
		{-time.Hour, 2 * time.Second, -time.Hour - time.Second},
	} {
		if got := clockDiff(sent, sent.Add(c.there), c.rtt); got != c.want {
			t.Errorf("there +%v, round trip %v: got %v, want %v", c.there, c.rtt, got, c.want)
		}
	}
}
