package masters

// Goal: the findings of a probe become a table that lines up, a verdict that is right at each count of
// masters, and JSON. Method: reports made by hand, and the exact output. TestCheck runs the command on
// real masters.

import (
	"strings"
	"testing"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/proxy"
	"redlockd/redlock"
)

func fineReport(addr string) redlock.MasterReport {
	return redlock.MasterReport{
		Addr: addr, Reachable: true, RTT: 210 * time.Microsecond, RTTWorst: 1230 * time.Microsecond, ClockDiff: -1300 * time.Microsecond, ClockErr: 105 * time.Microsecond,
		Version: "Redis 7.0.15", OS: "Linux", RunID: "id-" + addr, Role: "master", MaxMemoryPolicy: "noeviction",
	}
}

func without(r redlock.MasterReport, s redlock.Severity, reason, fix string) redlock.MasterReport {
	r.Problems = append(r.Problems, redlock.Problem{Severity: s, Reason: reason, Fix: fix})
	return r
}

func TestReport(t *testing.T) {
	replica := without(fineReport("10.0.0.3:6379"), redlock.NoVote, "is a replica", "name a master")
	replica.Role, replica.AOF, replica.AppendFsync, replica.Save = "slave", true, "everysec", "60 1"
	fine := fineReport("a:1")
	fine.Member = "voter"
	v := verdictOf([]redlock.MasterReport{
		fine,
		without(redlock.MasterReport{Addr: "10.0.0.2:6379"}, redlock.NoVote, "cannot be reached", ""),
		replica,
	}, 50*time.Millisecond)
	const want = `MASTER         MEMBER  VOTE  ROUND TRIP    SERVER        ROLE    CLOCK          MAXMEMORY-POLICY  PERSISTENCE
a:1            voter   yes   0.21-1.23 ms  Redis 7.0.15  master  -1.3 ± 0.1 ms  noeviction        none
10.0.0.2:6379  -       no    -             -             -       -              -                 -
10.0.0.3:6379  -       no    0.21-1.23 ms  Redis 7.0.15  slave   -1.3 ± 0.1 ms  noeviction        aof everysec, snapshots

10.0.0.2:6379
  no vote: cannot be reached

10.0.0.3:6379
  no vote: is a replica
    to fix it: name a master

No quorum is available: 1 of 3 masters can vote, 2 are needed. Fix 10.0.0.2:6379 and 10.0.0.3:6379.
`
	var got strings.Builder
	if err := v.print(&got); err != nil {
		t.Fatal(err)
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
}

func TestPoliciesInTheReport(t *testing.T) {
	fine := fineReport("a:1")
	fine.Member = "voter"
	v := verdictOf([]redlock.MasterReport{fine}, 50*time.Millisecond)
	v.compare(redlock.Membership{Known: true, Version: 3, MaxTTL: 30 * time.Second, Wait: 31 * time.Second})
	v.judgePolicies([]proxy.Policy{
		{Prefix: "a:*", MaxTTL: 20 * time.Second, LockDelay: 10 * time.Second},
		{Prefix: "b:*", MaxTTL: 30 * time.Second, LockDelay: time.Second, Fence: "always"},
		{Prefix: "c", MaxWaiters: 3},
	})
	const want = `
Policies of these settings; the first that matches a resource counts:
  {prefix = "a:*", max_ttl = "20s", lock_delay = "10s"}
  {prefix = "b:*", max_ttl = "30s", lock_delay = "1s", fence = "always"}
    warning: its max_ttl and lock_delay are together 31s, and the max_ttl of the membership is 30s: longer locks are refused
    to fix it: shorten them, or raise the other with redlockd members set max_ttl
  {prefix = "c", max_waiters = 3}
`
	var got strings.Builder
	if err := v.print(&got); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.String(), want) {
		t.Errorf("got\n%s\nwant in it\n%s", &got, want)
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		masters, down int
		quorum        bool
		want          string
	}{
		{5, 0, true, "A quorum is available: 5 of 5 masters vote, 3 are needed; 2 may fail."},
		{5, 1, true, "A quorum is available: 4 of 5 masters vote, 3 are needed; 1 more may fail. Fix m1."},
		{5, 2, true, "A quorum is available, but none may fail: 3 of 5 masters vote, 3 are needed. Fix m1 and m2."},
		{5, 3, false, "No quorum is available: 2 of 5 masters can vote, 3 are needed. Fix m1, m2 and m3."},
		{5, 5, false, "No quorum is available: 0 of 5 masters can vote, 3 are needed. Fix m1, m2, m3, m4 and m5."},
		{3, 1, true, "A quorum is available, but none may fail: 2 of 3 masters vote, 2 are needed. Fix m1."},
		{1, 0, true, "A quorum of one master is available: when it fails, no lock is granted, and when it forgets, locks are lost. Name five."},
		{1, 1, false, "No quorum is available: 0 of 1 masters can vote, 1 are needed. Fix m1."},
	} {
		var reports []redlock.MasterReport
		for i := range c.masters {
			r := fineReport("m" + string(rune('1'+i)))
			r.Member = "voter"
			if i < c.down {
				r = without(r, redlock.NoVote, "x", "")
			} else {
				r = without(r, redlock.Warning, "y", "") // a warning takes no vote away
			}
			reports = append(reports, r)
		}
		v := verdictOf(reports, 50*time.Millisecond)
		if got := v.sentence(); got != c.want || v.Quorum != c.quorum {
			t.Errorf("%d of %d down: quorum %v, %q; want %v, %q", c.down, c.masters, v.Quorum, got, c.quorum, c.want)
		}
	}
}

// TestRestartNext: the next master may be restarted as long as the voters without it are a quorum.
func TestRestartNext(t *testing.T) {
	for _, c := range []struct {
		voters, learners, down int
		want                   bool
	}{
		{5, 0, 0, true},
		{4, 1, 0, true},
		{4, 0, 1, true},
		{3, 2, 0, false}, // the two have restarted just now: without a third there is no quorum
		{3, 0, 2, false},
		{0, 5, 0, false},
	} {
		var reports []redlock.MasterReport
		add := func(n int, member string, change func(redlock.MasterReport) redlock.MasterReport) {
			for range n {
				r := fineReport("m" + string(rune('1'+len(reports))))
				r.Member = member
				reports = append(reports, change(r))
			}
		}
		same := func(r redlock.MasterReport) redlock.MasterReport { return r }
		add(c.voters, "voter", same)
		add(c.learners, "learner", same)
		add(c.down, "", func(r redlock.MasterReport) redlock.MasterReport { return without(r, redlock.NoVote, "x", "") })
		v := verdictOf(reports, 50*time.Millisecond)
		if none := strings.HasPrefix(v.restartSentence(), "No lock is granted yet"); none != (c.voters < v.Needed) {
			t.Errorf("%d voters of %d: got %q", c.voters, len(reports), v.restartSentence())
		}
		if want := c.voters >= v.Needed; v.Quorum != want || v.Voting != c.voters || v.CanVote != c.voters+c.learners {
			t.Errorf("%d voters, %d learners, %d down: quorum %v, %d vote, %d can; want %v", c.voters, c.learners, c.down, v.Quorum, v.Voting, v.CanVote, want)
		}
		var table strings.Builder
		v.print(&table)
		if n := strings.Count(table.String(), "not yet "); n != c.learners {
			t.Errorf("%d learners: %d rows say not yet:\n%s", c.learners, n, table.String())
		}
		if v.Restart != c.want || strings.HasPrefix(v.restartSentence(), "The next master may be restarted") != c.want {
			t.Errorf("%d voters, %d learners, %d down: got %v, %q, want %v", c.voters, c.learners, c.down, v.Restart, v.restartSentence(), c.want)
		}
	}
}

func TestRoundTripIsJudgedAgainstTheTimeout(t *testing.T) {
	for _, c := range []struct {
		rtt, worst time.Duration
		want       string
	}{
		{0, 0, ""},
		{12500 * time.Microsecond, 0, ""},
		{time.Millisecond, 49 * time.Millisecond, ""},
		{time.Millisecond, 50 * time.Millisecond, "warning: a round trip took 50.00 ms, which is not below master.timeout = 50ms: now and then its votes come too late"},
		{12501 * time.Microsecond, 0, "warning: its round trip of 12.50 ms takes more than a quarter of master.timeout = 50ms: under load its votes come too late"},
		{50 * time.Millisecond, 60 * time.Millisecond, "no vote: its round trip of 50.00 ms is not below master.timeout = 50ms: its votes come too late"},
	} {
		v := verdictOf([]redlock.MasterReport{{RTT: c.rtt, RTTWorst: c.worst}}, 50*time.Millisecond)
		got := ""
		for _, p := range v.Masters[0].Problems {
			got += string(p.Severity) + ": " + p.Reason
		}
		if got != c.want {
			t.Errorf("%v: got %q, want %q", c.rtt, got, c.want)
		}
	}
}

func TestJSONLeavesOutWhatIsNotKnown(t *testing.T) {
	v := verdictOf([]redlock.MasterReport{without(redlock.MasterReport{Addr: "a:1"}, redlock.NoVote, "x < y", "")}, time.Second)
	var out strings.Builder
	if err := cli.PrintJSON(&out, v); err != nil {
		t.Fatal(err)
	}
	const want = `{
  "quorum": false,
  "safe_to_restart_next": false,
  "needed": 1,
  "voting": 0,
  "can_vote": 0,
  "may_fail": 0,
  "masters": [
    {
      "addr": "a:1",
      "votes": false,
      "reachable": false,
      "rtt_ms": null,
      "clock_diff_ms": null,
      "clock_err_ms": null,
      "cluster_node": false,
      "used_memory_bytes": 0,
      "maxmemory_bytes": 0,
      "aof": false,
      "problems": [
        {
          "severity": "no vote",
          "reason": "x < y"
        }
      ]
    }
  ]
}
`
	if out.String() != want {
		t.Errorf("got %s\nwant %s", &out, want)
	}
}

// What all masters have in common is told once.
func TestReportOfWhatAllHaveInCommon(t *testing.T) {
	var reports []redlock.MasterReport
	for _, addr := range []string{"a:1", "b:1", "c:1"} {
		r := without(fineReport(addr), redlock.Note, "writes snapshots", "save less")
		if addr == "b:1" {
			r = without(r, redlock.Warning, "has 1 replicas", "do not promote it")
		}
		r.New = true
		reports = append(reports, r)
	}
	v := verdictOf(reports, 50*time.Millisecond)
	var b strings.Builder
	if err := v.print(&b); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(b.String(), "\n\n")
	const want = `b:1
  warning: has 1 replicas
    to fix it: do not promote it

all masters
  note: writes snapshots
    to fix it: save less

Once they are admitted, a quorum is available: 3 of 3 masters can vote, 2 are needed; 1 may fail.
No lock is granted yet: the masters look new. A redlockd that runs admits them after the wait (max_ttl, at least founding_wait, and a bit), because masters that have just forgotten locks look the same; if no client can still hold a lock, redlockd bootstrap admits them at once.
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What may fail is what may fail now: a seat that is leaving counts in the quorum and has no vote, and a learner has none yet.
func TestWhatMayFailNow(t *testing.T) {
	for _, c := range []struct {
		members string
		want    string
	}{
		{"voter voter voter leaving", "A quorum is available, but none may fail: 3 of 4 masters vote, 3 are needed."},
		{"voter voter voter voter voter leaving", "A quorum is available: 5 of 6 masters vote, 4 are needed; 1 may fail."},
		{"voter voter voter voter learner", "A quorum is available: 4 of 5 masters vote, 3 are needed; 1 may fail."},
		{"voter voter voter behind learner", "A quorum is available, but none may fail: 3 of 5 masters vote, 3 are needed."},
		{"voter voter voter voter voter none", "A quorum is available: 5 of 5 masters vote, 3 are needed; 2 may fail."},
		{"voter voter learner leaving", "Once they are admitted, a quorum is available, but none may fail: 3 of 4 masters can vote, 3 are needed."},
		{"voter voter leaving leaving", "No quorum is available: 2 of 4 masters can vote, 3 are needed."},
	} {
		var reports []redlock.MasterReport
		for i, member := range strings.Fields(c.members) {
			r := fineReport("m" + string(rune('1'+i)))
			r.Member = member
			reports = append(reports, r)
		}
		v := verdictOf(reports, time.Second)
		if got := v.sentence(); got != c.want {
			t.Errorf("%s: got %q, want %q", c.members, got, c.want)
		}
	}
}

// Seats without a vote are named, with the reason.
func TestSeatsWithoutAVote(t *testing.T) {
	m := redlock.Membership{Known: true, Seats: []redlock.Seat{
		{Name: "m1", State: redlock.SeatVoter, Reached: true, Votes: true}, {Name: "m2", State: redlock.SeatVoter},
		{Name: "m3", State: redlock.SeatLearner, Reached: true}, {Name: "m4", State: redlock.SeatLeaving, Reached: true}, {Name: "m5", State: redlock.SeatVacant},
		{Name: "m6", State: redlock.SeatVoter, Reached: true}}}
	const without = "m2 cannot be reached, m3 waits for its vote, m4 is leaving, m5 has no master, m6 is reached, and does not vote"
	if got := m.WithoutVote(); got != without {
		t.Errorf("got %q, want %q", got, without)
	}
	if got, want := m.Standing().String(), "1 of 6 seats vote, 4 are needed: no lock is granted"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	v := verdictOf([]redlock.MasterReport{fineReport("a:1")}, time.Second)
	v.compare(m)
	var out strings.Builder
	v.print(&out)
	if !strings.Contains(out.String(), " Without a vote now: "+without+".\n") {
		t.Errorf("got\n%s\nwant in it %q", &out, without)
	}
}
