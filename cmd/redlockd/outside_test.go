package main

// Goal: a Go program of somebody else can import package redlock, and has all the names with which one begins. Method: a module outside of the tree,
// over real masters.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// output runs a program, and returns what it prints.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// outsideProgram has the names with which a Go program begins, see the documentation of package redlock.
const outsideProgram = `package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"redlockd/redlock"
)

func main() {
	ctx := context.Background()
	var opts redlock.Options
	for _, addr := range strings.Split(os.Args[1], ",") {
		opts.Masters = append(opts.Masters, redlock.Master{Addr: addr})
	}
	opts.MasterTimeout, opts.ConnectTimeout = time.Second, 10*time.Second
	must(redlock.Bootstrap(ctx, opts))
	client, err := redlock.Open(opts)
	must(err)
	defer client.Close(ctx)
	must(client.Ready(ctx))

	lease, err := client.Lock(ctx, "invoices", 30*time.Second)
	must(err)
	if _, err := client.TryLock(ctx, "invoices", 30*time.Second); !errors.Is(err, redlock.ErrHeld) {
		must(fmt.Errorf("TryLock: %v", err))
	}
	must(lease.KeepAlive(ctx).Err())
	must(lease.Unlock(ctx))
	if err := lease.Unlock(ctx); !errors.Is(err, redlock.ErrNotHeld) || errors.Is(err, redlock.ErrNoQuorum) {
		must(fmt.Errorf("Unlock: %v", err))
	}
	several, err := client.Acquire(ctx, redlock.LockRequest{Resources: []string{"a", "b"}, TTL: 30 * time.Second, Fence: true})
	must(err)
	held, working, err := client.Hold(ctx, "held", 30*time.Second)
	must(err)
	must(working.Err())
	must(held.Unlock(ctx))
	fmt.Println(several.Fence > 0)
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
`

func TestLibraryInAnotherModule(t *testing.T) {
	_, addrs := startMasters(t, 3)
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sums, err := os.ReadFile(top + "/go.sum")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir+"/go.mod", "module outside\n\ngo 1.26.0\n\nrequire redlockd v0.0.0\n\nreplace redlockd => "+top+"\n", 0o600)
	writeFile(t, dir+"/go.sum", string(sums), 0o600)
	writeFile(t, dir+"/main.go", outsideProgram, 0o600)
	if got := output(t, dir, "go", "run", "-mod=mod", ".", addrs); got != "true\n" {
		t.Errorf("got %q, want true", got)
	}
}
