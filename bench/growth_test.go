package main

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Goal: every part of the growth measures what it says, on real servers. Method: the smallest numbers, 100 ms a cell.
func TestGrowth(t *testing.T) {
	b := builtBench(t)
	b.growthMasters, b.growthHeld, b.growthWaiters, b.growthDepths = []int{1, 3}, []int{10, 1200}, []int{20}, []int{1, 8}
	b.growthRounds, b.growthDuration = 1, 100*time.Millisecond
	var r report
	if err := runGrowth(t.Context(), b, &r); err != nil {
		t.Fatal(err)
	}
	for axis, points := range map[string][]growthPoint{"masters": r.Growth.Masters, "held": r.Growth.Held, "depth": r.Growth.Depth} {
		if len(points) != 2 {
			t.Errorf("%s: got %d points, want 2", axis, len(points))
		}
		for _, p := range points {
			if p.PairsPerSec == 0 || p.Failures.Count > 0 || p.RedlockdMB < 1 || p.MasterMB < 1 {
				t.Errorf("%s %d: got %+v, want pairs, memory, no failure", axis, p.N, p)
			}
		}
	}
	if len(r.Growth.Waiters) != 2 || r.Growth.Waiters[0].Resources != 1 || r.Growth.Waiters[1].Resources != 20 {
		t.Fatalf("got waiters %+v, want 20 on one resource and 20 on 20", r.Growth.Waiters)
	}
	for _, p := range r.Growth.Waiters {
		if p.RedlockdMB < 1 || p.CommandsPerSec < 0 { // none, if the masters are to announce the release
			t.Errorf("%d waiters on %d: got %+v, want memory, and commands or none", p.Waiters, p.Resources, p)
		}
	}
}

// Goal: a crowd that is not served is an error, not a figure. Method: a server that takes fewer connections; a resource that
// somebody holds.
func TestCrowdErrors(t *testing.T) {
	b := builtBench(t)
	c, err := startCluster(t.Context(), 1, b.program.with("REDLOCKD_SERVER_MAX_CLIENTS=5"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	crowd, err := dialCrowd(t.Context(), c.proxies[0].addr, 9)
	if crowd != nil {
		crowd.close()
	}
	wantErr(t, err, "of 9")
	if err := hold(t.Context(), c.proxies[0].addr, "bench:test:", 0, 3, waiterTTL); err != nil {
		t.Error(err)
	}
	wantErr(t, hold(t.Context(), c.proxies[0].addr, "bench:test:", 2, 4, waiterTTL), "hold bench:test:2 to 3")
	wantErr(t, requireFiles(1<<40), "raise it, or ask for fewer")
}

// Goal: locks that would not fit are refused before anything is started. Method: more than any machine has, and a few.
func TestHeldLocksNeedMemory(t *testing.T) {
	wantErr(t, requireMemory(1<<40), "1099511627776 held locks need 2147483904 MB")
	wantErr(t, requireMemory(10), "")
}

// Goal: filling goes on when a quorum was late, and only then. Method: replies to one batch, sent for the first time and again.
func TestHoldAgain(t *testing.T) {
	quorum, stranger := errors.New("NOQUORUM 1 of 5 masters voted"), errors.New("ERR something else")
	for _, tt := range []struct {
		replies []error
		again   bool
		late    bool
		want    error
	}{
		{replies: []error{nil, nil}},
		{replies: []error{nil, redis.Nil}, want: redis.Nil},
		{replies: []error{nil, redis.Nil}, again: true},
		{replies: []error{quorum, nil}, late: true, want: quorum},
		{replies: []error{quorum, redis.Nil}, want: redis.Nil},
		{replies: []error{redis.Nil, quorum}, again: true, late: true, want: quorum},
		{replies: []error{quorum, stranger}, again: true, want: stranger},
	} {
		var commands []redis.Cmder
		for _, err := range tt.replies {
			c := redis.NewCmd(t.Context())
			c.SetErr(err)
			commands = append(commands, c)
		}
		late, err := refusedOf(commands, tt.again)
		if late != tt.late || !errors.Is(err, tt.want) {
			t.Errorf("%v, again %v: got %v, %v, want %v, %v", tt.replies, tt.again, late, err, tt.late, tt.want)
		}
	}
}
