package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"redlockd/redlock/redisproc"
)

// The client program in Go is this program.
func TestMain(m *testing.M) {
	logging.Disable()
	if len(os.Args) > 1 && os.Args[1] == clientCommand {
		if err := runGoClient(os.Args[2:]); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// canTorture skips a test that needs what is not there.
func canTorture(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		redisproc.Skip(t, "the torture takes root, for its network namespaces")
	}
	redisproc.Need(t, "redis-server", "gcc", "ip", "javac")
	if _, err := clientCommands(languages, "../..", t.TempDir(), ""); err != nil {
		redisproc.LeaveOut(t, err.Error())
	}
	if n, err := newNetwork([]string{"host"}, 1); err != nil {
		redisproc.LeaveOut(t, err.Error())
	} else {
		n.close()
	}
}

// torture plays one and returns its report, and the report's text.
func torture(t *testing.T, args ...string) (*report, string) {
	t.Helper()
	o, err := parseOptions(append(args, "--out", t.TempDir()), nil)
	if err != nil {
		t.Fatal(err)
	}
	var progress bytes.Buffer
	r, err := run(context.Background(), o, &progress)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(o.out, "servers.log"))
		t.Fatalf("%v\n%s%s", err, &progress, log)
	}
	if err := r.write(o.out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(o.out, reportFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.verdict())
	return r, string(text)
}

// A torture that finds nothing proves something only if it finds what is there: two bugs of different kinds, in a minute each.
func TestTortureFindsPlantedBugs(t *testing.T) {
	for _, p := range plants { // a rule that has moved is named without root, too
		if _, err := p.apply("../.."); err != nil {
			t.Error(err)
		}
	}
	canTorture(t)
	if testing.Short() {
		redisproc.Skip(t, "takes two minutes")
	}
	for _, name := range []string{"quorum", "token"} {
		t.Run(name, func(t *testing.T) {
			if r, text := torture(t, "--for", "60s", "--every", "1s", "--planted", name); !r.good() {
				t.Errorf("no two holders were found\n%s", text)
			}
		})
	}
}

// What moves the clocks of redlockds must fit the Go that builds it, and do what it says.
func TestClocksOfARedlockd(t *testing.T) {
	edits := clockEdits(goroot())
	if len(edits) == 0 {
		redisproc.Skip(t, "the clocks of a redlockd are moved on amd64 alone")
	}
	for _, e := range edits {
		if _, err := e.apply("../.."); err != nil {
			t.Error(err)
		}
	}
	c, err := newOwnClock(t.TempDir(), "r")
	if err != nil {
		t.Fatal(err)
	}
	shown := func() int64 { // as the changed runtime reads it
		page, err := os.ReadFile(c.path)
		if err != nil || len(page) != 24 {
			t.Fatal(len(page), err)
		}
		number := func(i int) int64 { return int64(binary.NativeEndian.Uint64(page[8*i:])) }
		return min(monotonic()-number(1), number(0))
	}
	last := shown()
	for range 3 {
		if err := c.stand(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
		stood := shown()
		time.Sleep(5 * time.Millisecond)
		if again := shown(); again != stood || stood < last {
			t.Errorf("the clock shows %d, then %d, then %d: want that it stands still", last, stood, again)
		}
		if err := c.goOn(); err != nil {
			t.Fatal(err)
		}
		if last = shown(); last < stood || last > monotonic() {
			t.Errorf("the clock went on from %d at %d", stood, last)
		}
	}
}

// Everything at once, for a few seconds: what is tried here is the torture itself, more than redlockd.
func TestTorture(t *testing.T) {
	canTorture(t)
	r, text := torture(t, "--for", "6s", "--every", "600ms")
	if !r.good() || len(r.nemesis.strikes) == 0 {
		t.Errorf("%s: want leases, faults and accesses, and no violation\n%s", r.verdict(), text)
	}
	for _, s := range r.nemesis.strikes {
		if s.ended == 0 || s.ended > r.faultsEnded {
			t.Errorf("%s was not undone before the faults ended", s)
		}
	}
	for _, want := range []string{"violations = 0", "redis-py", "ioredis", "go-redis", "Redisson", "--seed", "Commit ", "longest time without a grant was ", "| java | ", timelineFile, "| FLUSHALL |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	drawn, err := os.ReadFile(filepath.Join(r.options.out, timelineFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(drawn, []byte("<path class")); got != len(familyColors)+len(r.nemesis.strikes) {
		t.Errorf("%d faults are drawn, legend included, want %d", got, len(familyColors)+len(r.nemesis.strikes))
	}
}

func TestParseOptions(t *testing.T) {
	var help bytes.Buffer
	if _, err := parseOptions([]string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) || !strings.Contains(help.String(), "-seed") {
		t.Errorf("--help: got %v, %q", err, &help)
	}
	o, err := parseOptions(nil, nil)
	if err != nil || o.length != 10*time.Minute || o.seed == 0 {
		t.Errorf("no flags: got %+v, %v; want 10 minutes and a seed", o, err)
	}
	for _, args := range []string{"--for 1ms", "--every 0s", "--sessions 0", "--pace 0s", "--seed x", "--only nothing", "--languages cobol", "--planted weeds", "--planted quorum --redlockd x", "--languages go,go", "--languages ,", "--for soon", "--seed -1", "more"} {
		if _, err := parseOptions(strings.Fields(args), nil); err == nil {
			t.Errorf("%s: got no error", args)
		}
	}
}

// A reset must be what TCP believes: the right ports, numbers and sums.
func TestResets(t *testing.T) {
	sent := segment([]byte{10, 77, 0, 10}, []byte{10, 77, 0, 11}, []byte{1, 2}, []byte{3, 4}, 100, 200, 16)
	back, on := resets(sent)
	for _, tt := range []struct {
		name      string
		got, want []byte
	}{
		{"back", back, segment([]byte{10, 77, 0, 11}, []byte{10, 77, 0, 10}, []byte{3, 4}, []byte{1, 2}, 200, 0, 4)},
		{"on", on, segment([]byte{10, 77, 0, 10}, []byte{10, 77, 0, 11}, []byte{1, 2}, []byte{3, 4}, 100, 0, 4)},
	} {
		if !bytes.Equal(tt.got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, tt.got, tt.want)
		}
		if sum := checksum(0, tt.got[:20]); sum != 0 {
			t.Errorf("%s: the sum of the header is off by %d", tt.name, sum)
		}
	}
	if back, _ := resets(on); back != nil {
		t.Error("a reset was answered by a reset")
	}
}
