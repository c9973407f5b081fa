package serve

// Goal: the parts of serve that need no process. TestServe… in process_test.go run the whole.

import (
	"errors"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"redlockd/cmd/redlockd/config"
	"redlockd/redlock"
)

func TestTuneRuntimeHeedsTheEnvironment(t *testing.T) {
	before, procs := debug.SetGCPercent(100), runtime.GOMAXPROCS(0)
	defer debug.SetGCPercent(before)
	defer runtime.GOMAXPROCS(procs)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for _, c := range []struct {
		environ []string
		want    int
	}{
		{[]string{"GOGC=50"}, 100}, // the runtime has read it itself: hands off
		{[]string{"GOGC=off", "HOME=/"}, 100},
		{[]string{"HOME=/", "MYGOGC=5"}, 400},
		{nil, 400},
	} {
		debug.SetGCPercent(100)
		tuneRuntime(slog.New(slog.DiscardHandler), c.environ)
		if got := debug.SetGCPercent(100); got != c.want {
			t.Errorf("environment %q: GC percent %d, want %d", c.environ, got, c.want)
		}
	}
	for _, c := range []struct {
		environ   string
		all, want int
	}{
		{"GOMAXPROCS=8", 8, 8}, {"HOME=/", 8, 4}, {"HOME=/", 5, 3}, {"HOME=/", 3, 2}, {"HOME=/", 2, 2}, {"HOME=/", 1, 1},
	} {
		runtime.GOMAXPROCS(c.all)
		tuneRuntime(slog.New(slog.DiscardHandler), []string{c.environ, "GOGC=50"})
		if got := runtime.GOMAXPROCS(0); got != c.want {
			t.Errorf("environment %q, %d processors: GOMAXPROCS %d, want %d", c.environ, c.all, got, c.want)
		}
	}
}

// A limit that is in force is left alone if the environment has it, and is what the front goes by.
func TestMemoryLimitHeedsTheEnvironment(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(123 << 20))
	if got := tuneRuntime(slog.New(slog.DiscardHandler), []string{"GOMEMLIMIT=123MiB"}); got != 123<<20 {
		t.Errorf("got a limit of %d, want %d", got, 123<<20)
	}
	debug.SetMemoryLimit(math.MaxInt64)
	if got := tuneRuntime(slog.New(slog.DiscardHandler), []string{"GOMEMLIMIT=off"}); got != 0 {
		t.Errorf("got a limit of %d, want none", got)
	}
}

func TestMissing(t *testing.T) {
	for _, c := range []struct {
		masters []redlock.MasterStatus
		want    string
	}{
		{nil, ""},
		{[]redlock.MasterStatus{{Addr: "a:1", State: redlock.MasterUp}}, ""},
		{[]redlock.MasterStatus{
			{Addr: "a:1", State: redlock.MasterUp},
			{Addr: "b:1", State: redlock.MasterDown, Reason: "connection refused"},
			{Addr: "c:1", State: redlock.MasterQuarantined, Reason: "it is new", Left: 61210 * time.Millisecond},
			{Addr: "d:1", State: redlock.MasterDown},
		}, "b:1 (down: connection refused), c:1 (quarantined for another 1m1.21s: it is new), d:1 (down)"},
	} {
		if got := missing(c.masters); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestListenErrors(t *testing.T) {
	c, err := config.Load(map[string]string{"config": os.DevNull}, []string{"REDLOCKD_SERVER_LISTEN=127.0.0.1:80"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		err  error
		want string
	}{
		{syscall.EADDRINUSE, "127.0.0.1:80 (REDLOCKD_SERVER_LISTEN) is in use by another process: end that one, or choose another address with --listen"},
		{syscall.EACCES, "127.0.0.1:80 (REDLOCKD_SERVER_LISTEN): this user may not listen there: choose a port above 1023 with --listen, or give the process CAP_NET_BIND_SERVICE"},
		{syscall.EADDRNOTAVAIL, "127.0.0.1:80 (REDLOCKD_SERVER_LISTEN) is no address of this machine: choose one with --listen, or :port for all of them"},
		{errors.New("no such address"), "listen on 127.0.0.1:80 (REDLOCKD_SERVER_LISTEN): no such address"},
	} {
		if got := listenError(c.Find("server.listen"), c.Listen[0], e.err).Error(); got != e.want {
			t.Errorf("%v: got %q, want %q", e.err, got, e.want)
		}
	}
}

func TestWarnOfFewFiles(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for _, clients := range []int{1, 10_000, 10_000_000} {
		var log strings.Builder
		c := config.Default()
		c.Front.MaxClients = clients
		warnOfFewFiles(slog.New(slog.NewTextHandler(&log, nil)), c)
		got, want := strings.Contains(log.String(), "the limit of open files is too low"), limit.Cur < uint64(clients+64+httpConnsMax)
		if got != want {
			t.Errorf("max_clients %d, limit %d: log %q, want a warning: %v", clients, limit.Cur, log.String(), want)
		}
	}
}

func TestLogLevelAndFormat(t *testing.T) {
	for _, c := range []struct{ level, format, want string }{
		{"debug", "text", "DEBUG INFO WARN ERROR"},
		{"info", "text", "INFO WARN ERROR"},
		{"warn", "json", "WARN ERROR"},
		{"error", "json", "ERROR"},
	} {
		var out strings.Builder
		log := newLogger(&out, &config.Config{LogLevel: c.level, LogFormat: c.format}, new(slog.LevelVar))
		for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			log.Log(t.Context(), level, "x")
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			if isJSON := strings.HasPrefix(line, "{"); isJSON != (c.format == "json") {
				t.Errorf("format %s: got %s", c.format, line)
			}
			for _, level := range []string{"DEBUG", "INFO", "WARN", "ERROR"} {
				if strings.Contains(line, level) {
					got = append(got, level)
				}
			}
		}
		log.Error("x", "for", 61*time.Second)
		if !strings.Contains(out.String(), "1m1s") {
			t.Errorf("format %s: want a duration with its unit, got %s", c.format, out.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("level %s: got %v, want %s", c.level, got, c.want)
		}
	}
}
