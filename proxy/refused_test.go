package proxy

// Goal: what this endpoint refuses is seen by the operator, by name, and named once for each client library and reason, although the
// library may hide it. Method: dialogues, INFO, the metrics and the log.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"redlockd/proxy/access"
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
	var log testLog
	srv := serve(t, log.keep, policies(access.Policy{Prefix: "short:*", MaxTTL: 5 * time.Second}))
	c := srv.dial()
	c.do("CLIENT", "SETINFO", "LIB-NAME", "some-library").is("+OK")
	c.do("CLIENT", "SETINFO", "LIB-VER", "4.7.0").is("+OK")
	c.do("LPUSH", "list", "v").err("ERR LPUSH is not served")
	c.do("lpush", "list", "v").err("ERR LPUSH is not served")
	srv.dial().do("LOCK", "held", "20s").granted(1, 20_000)
	c.do("DEL", "held").err("ERR DEL is refused")
	c.do("SET", "k", "v", "NX").err("ERR a lock without a TTL")
	c.do("EVAL", "return redis.call('rpush', KEYS[1], 'v')", "1", "k").err("ERR the script calls RPUSH")
	c.do("EVAL", "return redis.call('set', KEYS[1], 'v', 'NX')", "1", "k").err("ERR a lock without a TTL")
	c.do("HSET", "k", "f", strings.Repeat("x", 20_000)).err(`ERR key "k" would take`)
	c.do("MULTI").is("+OK")
	c.do("EVAL", "return 1", "0").err("ERR EVAL cannot be queued")
	c.do("DISCARD").is("+OK")
	c.do("LOCK", "k", "5m").err("ERR ttl of 300000 ms is above the most, 60000 ms (max_ttl): ask for less, or raise it with redlockd members set max_ttl")
	c.do("EXTEND", "k", "token", "1ms").err("ERR ttl of 1 ms is below the least")
	c.do("MLOCK", "1", "short:k", "6s").err("ERR ttl of 6000 ms is above the most, 5000 ms (max_ttl of policy short:*)")
	c.do("SET", "k", "v", "NX", "PX", "300000").err("ERR ttl of 300000 ms is above the most")
	c.do("SET", "k", "v", "NX", "PX", "300000").err("ERR ttl of 300000 ms is above the most")
	// Mistakes, and what Redis of this version does not have either, are none.
	c.do("NOSUCH").err("ERR unknown command")
	c.do("GET").err("ERR wrong number")
	c.do("SET", "k", "v", "NX", "PX", "soon").err("ERR")

	want := map[string]int{"lpush": 2, "del": 1, "set": 3, "rpush": 1, "eval": 2, "hset": 1, "lock": 1, "extend": 1, "mlock": 1}
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

	// Each reason once, whatever the key or the TTL.
	c.do("SET", "k", "v", "NX", "PX", "400000").err("ERR ttl of 400000 ms is above the most")
	c.do("HSET", "other", "f", strings.Repeat("x", 19_000)).err(`ERR key "other" would take`)
	for name := range want {
		n := 1
		if name == "set" || name == "eval" {
			n = 2
		}
		if got := strings.Count(log.String(), `"command refused" command=`+name+" "); got != n {
			t.Errorf("the log has %d lines of one library and %s, want %d:\n%s", got, name, n, log.String())
		}
	}
	for _, part := range []string{"command=lpush", "library=some-library", "version=4.7.0", `reason="ERR LPUSH is not served`, `to_do="run redlockd check --library`, "cmd/redlockd/libraries.md"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log does not say %s:\n%s", part, log.String())
		}
	}
}

// Clients that name no library are told apart by their machine, and those that have not logged in are only counted.
func TestRefusalsOfClientsWithoutNames(t *testing.T) {
	var log testLog
	srv := serve(t, log.keep, func(o *Options) {
		o.Users = []access.User{{Name: "default", Password: "secret", MaxTTL: time.Minute}}
	})
	c := srv.dial()
	c.do("LPUSH", "list", "v").err("ERR LPUSH is not served")
	if got := log.String(); strings.Contains(got, "command refused") || srv.refusedMetric()["lpush"] != 1 {
		t.Errorf("before the login: got %v counted and\n%s", srv.refusedMetric(), got)
	}
	c.do("AUTH", "secret").is("+OK")
	for _, c := range []*client{c, srv.dial()} {
		c.do("AUTH", "secret").is("+OK")
		c.do("RPUSH", "list", "v").err("ERR RPUSH is not served")
		c.do("LOCK", "k", "61s").err("ERR ttl of 61000 ms is above the most, 60000 ms (max_ttl of user default in [auth])")
	}
	if got := srv.refusedMetric()["lock"]; got != 2 {
		t.Errorf("TTLs above the user's: %v are counted, want 2", got)
	}
	if got := log.String(); strings.Count(got, "command refused") != 2 || !strings.Contains(got, "addr=127.0.0.1:") {
		t.Errorf("after the login: got\n%s", got)
	}
}

// The first line that finds room names a library, and no crowd of names fills the memory or the log.
func TestRefusersAreBounded(t *testing.T) {
	var st stats
	st.refused, st.refusers = make(map[string]uint64), make(map[refuser][]uint64)
	full := func() (int64, bool) { return 0, false }
	room := func() (int64, bool) { return 3, true }
	for i, c := range []struct {
		library, command, reason string
		allow                    func() (int64, bool)
		want                     bool
	}{{"a", "del", "one", full, false}, {"a", "del", "one", room, true}, {"a", "del", "one", room, false}, {"a", "set", "one", room, true},
		{"", "del", "one", room, true}, {"", "del", "one", room, false}, {"b", "del", "one", room, true},
		{"a", "del", "another", full, false}, {"a", "del", "another", room, true}, {"a", "del", "another", room, false}, {"a", "del", "one", room, false}} {
		if dropped, first := st.countRefused(refuser{c.library, c.command}, c.reason, c.allow); first != c.want || first && dropped != 3 {
			t.Errorf("refusal %d, of %q: got %v, %d left out, want %v", i, c.library, first, dropped, c.want)
		}
	}
	// Reasons are bounded, too: a script can put anything into its error.
	few := 0
	for i := range 2 * reasonsMax {
		if _, first := st.countRefused(refuser{"c", "eval"}, strings.Repeat("x", i), room); first {
			few++
		}
	}
	if few != reasonsMax {
		t.Errorf("%d lines of one library and command, want %d", few, reasonsMax)
	}
	lines := 0
	for i := range 2 * refusersMax {
		if _, first := st.countRefused(refuser{fmt.Sprint("pod-", i), "del"}, "one", room); first {
			lines++
		}
	}
	if most := uint64(2*refusersMax + 10); lines != refusersMax-5 || len(st.refusers) != refusersMax || st.refused["del"] != most {
		t.Errorf("got %d lines of %d, %d refusals, want %d, %d, %d", lines, len(st.refusers), st.refused["del"], refusersMax-5, refusersMax, most)
	}
}
