package main

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Goal: masters that are restarted vote again, and every held lock stays. Method: the scenario on real servers with few locks, 1200 so that there are
// several batches, and two restarts. Others may be refused while the machine is busy, so only their grants are looked for.
func TestRecovery(t *testing.T) {
	b := builtBench(t)
	b.recoveryHeld, b.recoveryRestarts, b.recoveryClients, b.recoveryRounds, b.recoveryQuiet = []int{1200}, 2, 4, 1, 200*time.Millisecond
	var r report
	if err := runRecovery(t.Context(), b, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Recovery) != 1 || len(r.Recovery[0].Rounds) != 1 {
		t.Fatalf("got %+v, want one row of one round", r.Recovery)
	}
	row := r.Recovery[0]
	if row.Checked != 1200 || row.Lost != 0 || row.Twice != 0 {
		t.Errorf("got %d checked, %d lost, %d granted twice, want 1200, 0, 0", row.Checked, row.Lost, row.Twice)
	}
	if len(row.VoteMs) != 2 || row.VoteMs[0] <= 0 || row.TotalMs < row.VoteMs[0]+row.VoteMs[1] {
		t.Errorf("got votes after %v ms, %v ms in all, want two, and all of their time", row.VoteMs, row.TotalMs)
	}
	for i, keys := range row.Keys {
		if keys < 1200 {
			t.Errorf("restarted master %d has %v keys when it votes, want 1200 locks and more", i+1, keys)
		}
	}
	if row.QuietUs.P50 == 0 || row.RestartUs.P50 == 0 || len(row.Rounds[0].Timeline) == 0 {
		t.Errorf("got %+v, want LOCKs of others before and during the restarts", row)
	}
	if votes := column(row.Rounds[0].Votes, func(c voteChange) int { return c.Votes }); !reflect.DeepEqual(votes, []int{5, 4, 5, 4, 5}) {
		t.Errorf("got votes %v, want 5 4 5 4 5", votes)
	}
}

// Goal: locks that are lost or granted to another are counted, and so the check can fail. Method: of 20 locks, one is released and another one is
// released and taken by somebody else.
func TestHeldLocksAreChecked(t *testing.T) {
	b := builtBench(t)
	c, err := startCluster(t.Context(), 1, b.program.with(leaveAtOnce, "REDLOCKD_LOCKS_MAX_TTL="+recoveryMaxTTL.String()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	locks := newHeldLocks(c.proxies[0].addr, 20)
	defer locks.close()
	if err := locks.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]any{
		{"UNLOCK", heldName(3), heldToken(3)},
		{"UNLOCK", heldName(7), heldToken(7)},
		{"LOCK", heldName(7), 60_000, "TOKEN", "thief"},
	} {
		if err := locks.client.Do(t.Context(), command...).Err(); err != nil {
			t.Fatalf("%v: %v", command, err)
		}
	}
	// Lock 3 is granted to the intruder, lock 7 is held by the thief: neither can be extended.
	checked, lost, twice, err := locks.check(t.Context())
	if checked != 20 || lost != 2 || twice != 1 || err != nil {
		t.Errorf("got %d checked, %d lost, %d granted twice (%v), want 20, 2, 1", checked, lost, twice, err)
	}
	locks.taken = locks.taken.Add(-recoveryMaxTTL)
	_, _, _, err = locks.check(t.Context())
	wantErr(t, err, "hold fewer")
}

// Goal: a master counts as a voter only by a record that lists the memory that it shows. Method: texts as they stand on masters.
func TestVotesOf(t *testing.T) {
	const head = "2;1-36c797db5599d2eb;2;0123456789abcdef0123456789abcdef;600000;612000;0;0;"
	seats := func(states string) string {
		var all []string
		for i, state := range states {
			n := string(rune('0' + i))
			all = append(all, n+",127.0.0.1:1000"+n+",127.0.0.1:1000"+n+",run"+n+":00000000000000aa,"+string(state)+",0")
		}
		return strings.Join(all, "|")
	}
	const v = "run4:00000000000000aa 1-36c797db5599d2eb.2 fedcba9876543210fedcba9876543210"
	for _, tt := range []struct {
		name, shown, record string
		voters              int
		votes               bool
	}{
		{"nothing yet", "", "", 0, false},
		{"fresh", "run4:00000000000000aa -", "", 0, false},
		{"a learner", v, head + seats("vvvvl"), 4, false},
		{"a voter", v, head + seats("vvvvv"), 5, true},
		{"a voter that has accepted a child", v + " ? 00000001.0123456789abcdef 00", head + seats("vvlvv"), 4, true},
		{"the memory before", "run4:00000000000000bb 1-36c797db5599d2eb.2 fe", head + seats("vvvvv"), 5, false},
		{"a hint in a fresh memory", "run4:00000000000000bb -", head + seats("vvvvv"), 5, false},
		{"a record of nobody", "", head + "4,m,m,,v,0", 0, false},
		{"cut short", v, head[:40], 0, false},
	} {
		if voters, votes := votesOf(tt.shown, tt.record); voters != tt.voters || votes != tt.votes {
			t.Errorf("%s: got %d voters, votes %v, want %d, %v", tt.name, voters, votes, tt.voters, tt.votes)
		}
	}
}

// Goal: LOCKs of the others count for the phase in which they were due, and refused ones are no latencies. Method: samples by hand, restarts from 200 ms
// to 400 ms.
func TestAnalyzeRecovery(t *testing.T) {
	const ms = time.Millisecond
	var r recoveryRound
	r.analyze([]lockSample{
		{350 * ms, 4 * ms, lockGranted}, {-50 * ms, 90 * ms, lockGranted}, {-50 * ms, 90 * ms, lockRefused}, // warm-up: not counted
		{50 * ms, 1 * ms, lockGranted}, {150 * ms, 2 * ms, lockGranted}, {199 * ms, 8 * ms, lockGranted},
		{200 * ms, 3 * ms, lockGranted}, {210 * ms, 500 * ms, lockRefused}, {220 * ms, 500 * ms, lockFailed},
		{450 * ms, 70 * ms, lockGranted}, // afterwards
	}, 200*ms, 400*ms)
	if r.QuietPerSec != 15 || r.RestartPerSec != 10 || r.Refused != 1 {
		t.Errorf("got %v/s, then %v/s, %d refused, want 15, 10, 1", r.QuietPerSec, r.RestartPerSec, r.Refused)
	}
	if r.QuietUs.Max < 8000 || r.QuietUs.Max > 8010 || r.RestartUs.Max < 4000 || r.RestartUs.Max > 4010 {
		t.Errorf("got longest LOCKs of %v and %v µs, want 8000 and 4000", r.QuietUs.Max, r.RestartUs.Max)
	}
	if len(r.Timeline) != 5 || r.Timeline[2].Refused != 1 || int(r.Timeline[2].P50Us)/10 != 300 || r.Timeline[4].P50Us < 70_000 {
		t.Errorf("got the time line %+v, want 5 steps, in the third 3 ms and one refusal, in the last 70 ms", r.Timeline)
	}
}

func TestOutcomeOf(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want lockOutcome
	}{
		{nil, lockGranted},
		{errGaveUp, lockRefused},
		{errors.New("LOCK: NOQUORUM 1 of 5 masters voted, 3 needed"), lockRefused},
		{redis.ErrClosed, lockFailed},
	} {
		if got := outcomeOf(tt.err); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.err, got, tt.want)
		}
	}
}
