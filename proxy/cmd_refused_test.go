package proxy

// Goal: what this endpoint refuses is seen by the operator, by name, and named once for each client library, although the library may
// hide it. Method: dialogues, INFO, the metrics and the log.

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// refusedMetric is what a scrape says of refused commands, by name.
func (srv *testServer) refusedMetric() map[string]float64 {
	srv.t.Helper()
	metrics := make(chan prometheus.Metric, 10_000)
	srv.Collect(metrics)
	close(metrics)
	counts := make(map[string]float64)
	for m := range metrics {
		if !strings.Contains(m.Desc().String(), `"redlockd_refused_commands_total"`) {
			continue
		}
		var one dto.Metric
		if err := m.Write(&one); err != nil {
			srv.t.Fatal(err)
		}
		counts[one.Label[0].GetValue()] = one.Counter.GetValue()
	}
	return counts
}

func TestRefusedCommandsAreCounted(t *testing.T) {
	var text bytes.Buffer
	out := &locked{w: &text}
	srv := serve(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(out, nil)) })
	c := srv.dial()
	c.do("CLIENT", "SETINFO", "LIB-NAME", "some-library").is("+OK")
	c.do("CLIENT", "SETINFO", "LIB-VER", "4.7.0").is("+OK")
	c.do("LPUSH", "list", "v").err("ERR LPUSH is not served")
	c.do("lpush", "list", "v").err("ERR LPUSH is not served")
	c.do("DEL", "k").err("ERR DEL is refused")
	c.do("SET", "k", "v", "NX").err("ERR a lock without a TTL")
	c.do("EVAL", "return redis.call('rpush', KEYS[1], 'v')", "1", "k").err("ERR the script calls RPUSH")
	c.do("EVAL", "return redis.call('set', KEYS[1], 'v', 'NX')", "1", "k").err("ERR a lock without a TTL")
	c.do("HSET", "k", "f", strings.Repeat("x", 20_000)).err(`ERR key "k" would take`)
	c.do("MULTI").is("+OK")
	c.do("EVAL", "return 1", "0").err("ERR EVAL cannot be queued")
	c.do("DISCARD").is("+OK")
	// Mistakes, and what Redis of this version does not have either, are none.
	c.do("NOSUCH").err("ERR unknown command")
	c.do("GET").err("ERR wrong number")
	c.do("SET", "k", "v", "NX", "PX", "soon").err("ERR")

	want := map[string]int{"lpush": 2, "del": 1, "set": 1, "rpush": 1, "eval": 2, "hset": 1}
	shown, scraped := map[string]string{}, srv.refusedMetric()
	for field, value := range c.info("refusedstats") {
		if name, ok := strings.CutPrefix(field, "refusedstat_"); ok {
			shown[name] = value
		}
	}
	if len(shown) != len(want) || len(scraped) != len(want) {
		t.Errorf("got %v in INFO, %v in the metrics, want %v", shown, scraped, want)
	}
	for name, n := range want {
		if shown[name] != fmt.Sprintf("count=%d", n) || scraped[name] != float64(n) {
			t.Errorf("%s: got %q in INFO, %v in the metrics, want %d", name, shown[name], scraped[name], n)
		}
	}
	c.do("CONFIG", "RESETSTAT").is("+OK")
	c.do("LPUSH", "list", "v").err("ERR LPUSH is not served")
	if got := c.info("refusedstats"); got["refusedstat_lpush"] != "count=1" || got["refusedstat_del"] != "" {
		t.Errorf("INFO after CONFIG RESETSTAT: got %v", got)
	}
	if got := srv.refusedMetric()["lpush"]; got != 3 {
		t.Errorf("the metric after CONFIG RESETSTAT: got %v, want 3", got)
	}

	out.mu.Lock()
	defer out.mu.Unlock()
	if n := strings.Count(text.String(), "command refused"); n != 1 {
		t.Errorf("the log has %d lines of one library, want 1:\n%s", n, text.String())
	}
	for _, part := range []string{"command=lpush", "library=some-library", "version=4.7.0", `reason="ERR LPUSH is not served`, "to_do="} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the log does not say %s:\n%s", part, text.String())
		}
	}
}

// Clients that name no library are told apart by their machine, and those that have not logged in are only counted.
func TestRefusalsOfClientsWithoutNames(t *testing.T) {
	var text bytes.Buffer
	out := &locked{w: &text}
	srv := serve(t, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(out, nil))
		o.Users = []User{{Name: "default", Password: "secret"}}
	})
	lines := func() string {
		out.mu.Lock()
		defer out.mu.Unlock()
		return text.String()
	}
	c := srv.dial()
	c.do("LPUSH", "list", "v").err("ERR LPUSH is not served")
	if got := lines(); strings.Contains(got, "command refused") || srv.refusedMetric()["lpush"] != 1 {
		t.Errorf("before the login: got %v counted and\n%s", srv.refusedMetric(), got)
	}
	c.do("AUTH", "secret").is("+OK")
	for _, c := range []*client{c, srv.dial()} {
		c.do("AUTH", "secret").is("+OK")
		c.do("RPUSH", "list", "v").err("ERR RPUSH is not served")
	}
	if got := lines(); strings.Count(got, "command refused") != 1 || !strings.Contains(got, "addr=127.0.0.1:") {
		t.Errorf("after the login: got\n%s", got)
	}
}

// The first line that finds room names a library, and no crowd of names fills the memory or the log.
func TestLibrariesOfRefusalsAreBounded(t *testing.T) {
	var st stats
	st.refused, st.refusedLibraries = make(map[string]uint64), make(map[string]struct{})
	full := func() (int64, bool) { return 0, false }
	room := func() (int64, bool) { return 3, true }
	for i, c := range []struct {
		library string
		allow   func() (int64, bool)
		want    bool
	}{{"a", full, false}, {"a", room, true}, {"a", room, false}, {"", room, true}, {"", room, false}, {"b", room, true}} {
		if dropped, first := st.countRefused("del", c.library, c.allow); first != c.want || first && dropped != 3 {
			t.Errorf("refusal %d, of %q: got %v, %d left out, want %v", i, c.library, first, dropped, c.want)
		}
	}
	lines := 0
	for i := range 1000 {
		if _, first := st.countRefused("del", fmt.Sprint("pod-", i), room); first {
			lines++
		}
	}
	if lines != librariesMax-3 || len(st.refusedLibraries) != librariesMax || st.refused["del"] != 1006 {
		t.Errorf("got %d lines, %d libraries, %d refusals, want %d, %d, 1006", lines, len(st.refusedLibraries), st.refused["del"], librariesMax-3, librariesMax)
	}
}
