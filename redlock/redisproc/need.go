package redisproc

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// tools are the programs that tests of this repository may need, `make tools` installs them.
var tools = []string{"redis-server", "redis-cli", "redis-benchmark", "sqlite3", "gcc", "ip", "chromium", "promtool", "prometheus", "groff", "zsh", "fish", "dpkg-deb", "jq", "openssl", "systemd-analyze"}

// extent is the environment variable that says which tests run:
//   - none, as in `go test ./...`: those that take seconds, and for which this machine has the tools;
//   - all, as in `make test-all`: also those that take long, all cases of each. A tool that is missing
//     fails its tests;
//   - release, as in `make test-release`: also those that take minutes, about what rarely changes.
const extent = "REDLOCK_TESTS"

// All reports whether tests run with all their cases.
func All() bool { return os.Getenv(extent) == "all" || release() }

// SomeOf is how many cases a long test runs: all, or few of them where not all are wanted, and under the race detector, with which
// everything takes ten times as long. ENGINE and ENGINE_PROXY in the Makefile name the tests of which `make test-all` runs all
// cases without it.
func SomeOf[N uint64 | int64 | int](few, all N) N {
	if raced || !All() {
		return few
	}
	return all
}

// Some are the first few cases of a long test, or all, as SomeOf says.
func Some[T any](few int, all []T) []T { return all[:SomeOf(few, len(all))] }

// SomeRaced are the first few cases of a test that is long under the race detector alone, or all.
func SomeRaced[T any](few int, all []T) []T {
	if raced {
		return all[:few]
	}
	return all
}

// NotRaced leaves a test out under the race detector: it plays minutes of heartbeats, and what it executes others execute there.
func NotRaced(t testing.TB) {
	t.Helper()
	if raced {
		Skip(t, "runs without the race detector (ENGINE in the Makefile)")
	}
}

func release() bool { return os.Getenv(extent) == "release" }

// Long leaves out a test that takes long, unless all are wanted.
func Long(t testing.TB) {
	t.Helper()
	if !All() {
		Skip(t, "takes long: `make test-all` runs it")
	}
}

// Release leaves out a test that is for releases.
func Release(t testing.TB) {
	t.Helper()
	if !release() {
		Skip(t, "takes minutes: `make test-release` runs it")
	}
}

// Need leaves a test out if a tool that it needs is not installed, and says so once per test program.
func Need(t testing.TB, needed ...string) {
	t.Helper()
	for _, tool := range needed {
		if _, err := exec.LookPath(tool); err != nil {
			LeaveOut(t, tool+" is not installed: "+toInstall(tool))
		}
	}
}

// toInstall says what to type to get a tool.
func toInstall(tool string) string {
	if strings.HasPrefix(tool, "redis-") {
		return "apt-get install redis-server redis-tools, dnf install redis or brew install redis"
	}
	return "`make tools` installs it"
}

// LeaveOut skips a test, or fails it where nothing may be left out.
func LeaveOut(t testing.TB, reason string) {
	t.Helper()
	if All() {
		t.Fatal(reason)
	}
	leftOut()
	Skip(t, reason)
}

// skipped is the environment variable that names the file to which Skip adds a line: the gate shows it at its end.
const skipped = "REDLOCK_SKIPPED"

// Skip leaves out a test that this run does not have, and says why.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if name := os.Getenv(skipped); name != "" {
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatalf("%s: %v", skipped, err)
		}
		defer file.Close()
		if _, err := fmt.Fprintf(file, "%s: %s\n", t.Name(), strings.Join(strings.Fields(reason), " ")); err != nil {
			t.Fatalf("%s: %v", skipped, err)
		}
	}
	t.Skip(reason)
}

// leftOut says in one line that this test program leaves tests out.
var leftOut = sync.OnceFunc(func() {
	var missing []string
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	what, how := "lock libraries of other languages", "`make test-all` installs all and runs all"
	if len(missing) > 0 {
		what = strings.Join(missing, ", ")
	}
	if slices.Contains(missing, "redis-server") { // most tests need it
		how = toInstall("redis-server") + "; " + how
	}
	say(fmt.Sprintf("%s: left out the tests that need %s (%s)\n", filepath.Base(os.Args[0]), what, how))
})

// say writes a line to where `go test` itself writes its errors, if the system lets it: it hides what a program prints
// whose tests pass.
func say(line string) {
	out, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/2", os.Getppid()), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		out = os.Stderr
	}
	fmt.Fprint(out, line)
}

// Seed is that of a test with random cases: what the environment variable says, one that nobody has
// tried if it says random, or else usual.
func Seed(t testing.TB, variable string, usual uint64) uint64 {
	t.Helper()
	switch text := os.Getenv(variable); text {
	case "":
		return usual
	case "random":
		return rand.Uint64()
	default:
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
		return seed
	}
}

// StartForTest runs n servers as StartN does, until the test ends. It leaves the test out where
// redis-server, or redis-cli, which Debian installs with it, is missing.
func StartForTest(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	Need(t, "redis-server", "redis-cli")
	servers, err := StartN(n, args...)
	if os.Getenv("REDLOCK_SERVERS") != "" && err != nil && (strings.Contains(err.Error(), "Bad directive") || strings.Contains(err.Error(), "TLS support")) {
		leaveOut(t, fmt.Sprintf("%v: it is built without %s", err, args[0]))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		t.Cleanup(s.Close)
	}
	return servers
}
