package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/redisproc"

	"github.com/redis/go-redis/v9"
)

// wholeBench has the test binary run as the bench itself.
const wholeBench = "bench"

// The test binary is its own load generator, as the bench is.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == loadCommand {
		os.Exit(loadMain())
	}
	if len(os.Args) >= 2 && os.Args[1] == wholeBench {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		main()
		os.Exit(0)
	}
	status := m.Run()
	if builtDir != "" {
		os.RemoveAll(builtDir)
	}
	os.Exit(status)
}

// Goal: the whole way of a cell works: servers, load generator process, figures, CPU, keys left. Method: one real
// master, the target that needs nothing else, 100 ms.
func TestCellOnARealMaster(t *testing.T) {
	redisproc.Need(t, "redis-server")
	ctx := t.Context()
	c, err := startCluster(ctx, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()

	var f loadFigures
	_, err = c.measured(ctx, loadSpec{
		Scenario: scenarioUncontended,
		Target:   targetSingle,
		Callers:  4,
		Warmup:   20 * time.Millisecond,
		Duration: 100 * time.Millisecond,
		Prefix:   "bench:test:",
	}, &f)
	if err != nil {
		t.Fatal(err)
	}
	if f.Pairs == 0 || f.LockUs.P50 == 0 || f.PairUs.P50 < f.LockUs.P50 || f.CPU <= 0 || f.PairsPerSec > 10*float64(f.Pairs) {
		t.Errorf("got %+v, want pairs, a lock and a longer pair latency, CPU time, the rate of at least 100 ms", f)
	}
	if f.Failures.Count != 0 {
		t.Errorf("got failures %v, want none", f.Failures)
	}
	wantKeysLeft(t, c, 0)

	// A key that stays is found, what redlockd keeps for itself is not one.
	client := redis.NewClient(&redis.Options{Addr: c.masters[0].Addr})
	defer client.Close()
	if err := client.MSet(ctx, "orphan", "t", "redlockd:epoch", "e").Err(); err != nil {
		t.Fatal(err)
	}
	wantKeysLeft(t, c, 1)
}

func wantKeysLeft(t *testing.T, c *cluster, want int) {
	t.Helper()
	left, err := c.keysLeft(t.Context())
	if err != nil || len(left) != 1 || left[0] != want {
		t.Errorf("keys left: got %v (%v), want [%d]", left, err, want)
	}
}

// Goal: Ctrl-C leaves no load generator behind. Method: one with a minute of work, its context cancelled.
func TestGeneratorEndsWithItsContext(t *testing.T) {
	redisproc.Need(t, "redis-server")
	c, err := startCluster(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	ctx, cancel := context.WithCancel(t.Context())
	g, err := startGenerator(ctx, c.spec(loadSpec{
		Scenario: scenarioUncontended,
		Target:   targetSingle,
		Callers:  1,
		Warmup:   time.Millisecond,
		Duration: time.Minute,
		Prefix:   "bench:test:",
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	if err := g.say(sayGo); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := g.await(ctx, sayDone, time.Minute); err == nil {
		t.Error("the load generator said it was done, want an error")
	}
	g.close()
	if g.process.ProcessState == nil {
		t.Error("the process still runs, want it ended")
	}
}

// Goal: a child that cannot work says why through its parent. Method: a target that does not exist.
func TestGeneratorTellsWhyItEnded(t *testing.T) {
	_, err := startGenerator(t.Context(), loadSpec{Scenario: scenarioUncontended, Target: "abacus", Warmup: time.Millisecond})
	wantErr(t, err, `unknown target "abacus"`)
}

// Goal: what was measured is not lost when a later scenario cannot go on, and the run is a failure all the same. Method: a redlockd
// that ends at once, and a scenario before it that needs none.
func TestReportOfARunThatFails(t *testing.T) {
	out := t.TempDir()
	o, err := parseOptions(strings.Fields("--scenarios uncontended,proxies --targets single --callers 1 --rounds 1 --duration 50ms "+
		"--warmup 10ms --redlockd /bin/false --out "+out), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, run(t.Context(), o), "scenario proxies: redlockd bootstrap: exit status 1")
	text, err := os.ReadFile(filepath.Join(out, reportText))
	if err != nil || !strings.Contains(string(text), "1        single") {
		t.Errorf("got %v and the report:\n%s\nwant the figures of single", err, text)
	}
}

// Goal: the report names what redlockd inherits from our environment, and no password. Method: an environment by hand.
func TestSettings(t *testing.T) {
	got := settingsOf([]string{"HOME=/", "GOGC=50", "REDLOCKD_LOCKS_MAX_TTL=5s", "REDLOCKD_AUTH_USERS=a:b", "REDLOCKD_FOO_PASSWORD=b", "XGOGC=1", "GOGC=400"})
	slices.Sort(got)
	if want := []string{"GOGC=400", "REDLOCKD_AUTH_USERS=…", "REDLOCKD_FOO_PASSWORD=…", "REDLOCKD_LOCKS_MAX_TTL=5s"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
