package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// builtDir is empty until built has run.
var builtDir string

// built makes redlockd once for all tests.
var built = sync.OnceValues(func() (*bench, error) {
	dir, err := os.MkdirTemp("", "redlockd-bench-test-")
	if err != nil {
		return nil, err
	}
	builtDir = dir
	log, err := os.Create(filepath.Join(dir, logName))
	if err != nil {
		return nil, err
	}
	b := &bench{log: log, progress: &progress{out: log}}
	if b.program, err = findProxy(context.Background(), b.options, dir, log); err != nil {
		return nil, err
	}
	b.program.environ = append(b.program.environ, "REDLOCKD_MASTER_TIMEOUT=2s") // a slow test machine is no hung master
	return b, nil
})

// builtBench is a bench with programs, and options of its own.
func builtBench(t *testing.T) *bench {
	t.Helper()
	redisproc.Need(t, "redis-server")
	shared, err := built()
	if err != nil {
		t.Fatal(err)
	}
	b := *shared
	b.options = options{warmup: 20 * time.Millisecond, duration: 100 * time.Millisecond, rounds: 1}
	return &b
}

// Goal: every target locks and unlocks without an error and leaves nothing behind. Method: the whole scenario on real
// servers, 100 ms each; etcd only where it is installed.
func TestEveryTarget(t *testing.T) {
	b := builtBench(t)
	b.callers, b.targets = []int{4}, targetNames
	if _, err := exec.LookPath(etcdProgram); err != nil {
		b.targets = keep(targetNames, func(name string) bool { return name != targetEtcd })
	}
	var r report
	if err := runUncontended(t.Context(), b, &r); err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Uncontended {
		if row.PairsPerSec == 0 || row.Failures.Count > 0 {
			t.Errorf("%s: got %v pairs/s, failures %v, want some pairs and no failure", row.Target, row.PairsPerSec, row.Failures)
		}
		if native := traitsOf[row.Target].native; (native != "") != (row.ToNative.PairsPerSec > 0) {
			t.Errorf("%s: got a ratio to native of %v, its native target is %q", row.Target, row.ToNative.PairsPerSec, native)
		}
	}
}

// Goal: a target that is listed is described everywhere. Method: look.
func TestTraits(t *testing.T) {
	for _, name := range targetNames {
		if made := traitsOf[name]; made.meaning == "" || made.color == nil {
			t.Errorf("%s: got %+v, want a meaning and a colour", name, made)
		}
	}
}

// Goal: the limit comes from all masters and refuses to measure errors. Method: two masters; then a command that does not
// exist.
func TestLimit(t *testing.T) {
	redisproc.Need(t, "redis-server", redisBenchmark)
	c, err := startCluster(t.Context(), 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if _, err := benchmarkAll(t.Context(), c, 1000, "SET", "k", "v"); err != nil {
		t.Error(err)
	}
	_, err = benchmarkAll(t.Context(), c, 1000, "ABACUS")
	wantErr(t, err, "unknown command")

	_, err = runLimitRound(t.Context(), c, 1000) // the script was not loaded
	wantErr(t, err, "NOSCRIPT")
}
