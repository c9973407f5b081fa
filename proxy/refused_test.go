package proxy

// Goal: what this endpoint refuses is seen by the operator, by name, and named once for each client library and reason, although the
// library may hide it. Method: dialogues, INFO, the metrics and the log.

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"redlockd/proxy/access"
	"redlockd/redlock"
	"redlockd/redlock/sandbox"
)

// refusedMetric is what a scrape says of refused commands, by name: the sum over the reasons.
func (srv *testServer) refusedMetric() map[string]int {
	srv.t.Helper()
	metrics := make(chan prometheus.Metric, 10_000)
	srv.Collect(metrics)
	close(metrics)
	counts := make(map[string]int)
	for m := range metrics {
		if !strings.Contains(m.Desc().String(), `"redlockd_refused_commands_total"`) {
			continue
		}
		var one dto.Metric
		if err := m.Write(&one); err != nil {
			srv.t.Fatal(err)
		}
		counts[one.Label[0].GetValue()] += int(one.Counter.GetValue())
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
	c.do("LOCK", "k", "10m").err("ERR ttl of 600000 ms is above the most, 300000 ms (max_ttl): ask for less, or raise it with redlockd members set max_ttl")
	c.do("EXTEND", "k", "token", "1ms").err("ERR ttl of 1 ms is below the least")
	c.do("MLOCK", "1", "short:k", "6s").err("ERR ttl of 6000 ms is above the most, 5000 ms (max_ttl of policy short:*)")
	c.do("SET", "k", "v", "NX", "PX", "600000").err("ERR ttl of 600000 ms is above the most")
	c.do("SET", "k", "v", "NX", "PX", "600000").err("ERR ttl of 600000 ms is above the most")
	// Mistakes, and what Redis of this version does not have either, are none.
	c.do("NOSUCH").err("ERR unknown command")
	c.do("GET").err("ERR wrong number")
	c.do("SET", "k", "v", "NX", "PX", "soon").err("ERR")

	want := map[string]string{"lpush": "count=2,queue=2", "del": "count=1,unguarded=1", "set": "count=3,no_ttl=1,ttl_too_long=2", "rpush": "count=1,queue=1",
		"eval": "count=2,no_ttl=1,transaction=1", "hset": "count=1,data=1", "lock": "count=1,ttl_too_long=1", "extend": "count=1,ttl_too_short=1", "mlock": "count=1,ttl_too_long=1"}
	shown, scraped := map[string]string{}, srv.refusedMetric()
	for field, value := range c.info("refusedstats") {
		if name, ok := strings.CutPrefix(field, "refusedstat_"); ok {
			shown[name] = value
		}
	}
	if !maps.Equal(shown, want) {
		t.Errorf("got %v in INFO, want %v", shown, want)
	}
	if len(scraped) != len(want) {
		t.Errorf("got %v in the metrics, want those of %v", scraped, want)
	}
	for name, value := range want {
		if !strings.HasPrefix(value+",", fmt.Sprintf("count=%d,", scraped[name])) {
			t.Errorf("%s: got %d in the metrics, want %s", name, scraped[name], value)
		}
	}
	c.do("CONFIG", "RESETSTAT").is("+OK")
	c.do("LPUSH", "list", "v").err("ERR LPUSH is not served")
	if got := c.info("refusedstats"); got["refusedstat_lpush"] != "count=1,queue=1" || got["refusedstat_del"] != "" {
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
	for _, part := range []string{"command=lpush", "counted_as=queue", "counted_as=ttl_too_short", "library=some-library", "version=4.7.0", `reason="ERR LPUSH is not served`, `to_do="run redlockd check --library`, "cmd/redlockd/libraries.md"} {
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
	now := time.Now()
	st := newStats(now)
	const full, room = false, true
	count := func(user, library, command string, why reason, words string, allowed bool) bool {
		if allowed {
			now = now.Add(time.Second)
		} else { // somebody takes all lines
			for range 16 {
				st.countRefused(user, refuser{fmt.Sprint(now.UnixNano()), refusedKind{"flood", reasonScript}}, "one", true, now)
				now = now.Add(1)
			}
		}
		_, first := st.countRefused(user, refuser{library, refusedKind{command, why}}, words, true, now)
		return first
	}
	for i, c := range []struct {
		library, command string
		reason           reason
		words            string
		room             bool
		want             bool
	}{{"a", "del", reasonUnguarded, "one", full, false}, {"a", "del", reasonUnguarded, "one", room, true}, {"a", "del", reasonUnguarded, "one", room, false},
		{"a", "set", reasonUnguarded, "one", room, true}, {"", "del", reasonUnguarded, "one", room, true}, {"", "del", reasonUnguarded, "one", room, false},
		{"b", "del", reasonUnguarded, "one", room, true}, {"a", "del", reasonUnguarded, "another", full, false}, {"a", "del", reasonUnguarded, "another", room, true},
		{"a", "del", reasonUnguarded, "another", room, false}, {"a", "del", reasonUnguarded, "one", room, false}, {"a", "del", reasonNoTTL, "one", room, true}} {
		if first := count("u", c.library, c.command, c.reason, c.words, c.room); first != c.want {
			t.Errorf("refusal %d, of %q: got %v, want %v", i, c.library, first, c.want)
		}
	}
	if !count("v", "a", "del", reasonUnguarded, "one", room) {
		t.Error("the lines that one user takes hide the refusals of another")
	}
	// Wordings are bounded, too: a script can put anything into its error. They hide no other reason.
	few := 0
	for i := range 2 * wordsMax {
		if count("u", "c", "eval", reasonScript, strings.Repeat("x", i), room) {
			few++
		}
	}
	if few != wordsMax {
		t.Errorf("%d lines of one library, command and reason, want %d", few, wordsMax)
	}
	if !count("u", "c", "eval", reasonNoTTL, "one", room) {
		t.Error("the wordings of one reason hide another")
	}
	named := len(st.logged["u"].words)
	lines := 0
	for i := range 2 * refusersMax {
		if count("u", fmt.Sprint("pod-", i), "del", reasonUnguarded, "one", room) {
			lines++
		}
	}
	if lines != refusersMax-named || len(st.logged["u"].words) != refusersMax {
		t.Errorf("got %d lines of %d, want %d, %d", lines, len(st.logged["u"].words), refusersMax-named, refusersMax)
	}
	if n, most := st.refused[refusedKind{"del", reasonUnguarded}], uint64(2*refusersMax+11); n != most {
		t.Errorf("got %d refusals of DEL, want %d", n, most)
	}
	if !count("v", "b", "del", reasonUnguarded, "one", room) {
		t.Error("the names that one user has made up hide the refusals of another")
	}
}

// What an attacker names and sends is neither kept nor logged as it is: names of any length and with any bytes, errors that scripts make up.
func TestRefusalsOfStrangeClients(t *testing.T) {
	var log testLog
	srv := serve(t, log.keep)
	for i := range 300 {
		c := srv.dial()
		c.do("CLIENT", "SETINFO", "LIB-NAME", fmt.Sprint("x", i, strings.Repeat("n", 1000))).is("+OK")
		c.do("LPUSH", "list\x00\r\n", "v").err("ERR LPUSH is not served")
		c.do("EVAL", fmt.Sprintf("return no_such_%d()", i), "0").err("ERR")
	}
	srv.stats.mu.Lock()
	defer srv.stats.mu.Unlock()
	for by := range srv.stats.logged[defaultUser].words {
		if len(by.library) > libraryNameMax {
			t.Fatalf("a name of %d bytes is kept, want at most %d", len(by.library), libraryNameMax)
		}
	}
	if n := len(log.String()); n > 300_000 || strings.Contains(log.String(), strings.Repeat("n", libraryNameMax+1)) {
		t.Errorf("the log has %d bytes; want few, and no long name", n)
	}
	for kind := range srv.stats.refused {
		if _, known := refusalOf[kind.command]; !known && srv.table.byName[kind.command] == nil {
			t.Errorf("the command %q is counted, which is none of this server's", kind.command)
		}
	}
}

// Each refusal of what is no lock says in one sentence what the application asks for, and what to do.
func TestRefusalsNameWhatIsAskedFor(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.do("LOCK", "held", "20s").granted(1, 20_000)
	const onlyLocks = "and redlockd keeps locks only: point only the connection for locks at it, and keep the rest at a Redis of its own"
	large := strings.Repeat("x", redlock.MaxTokenLen+1)
	script := func(source string) []string { return []string{"EVAL", source, "1", "k"} }
	queue := "local rcall = redis.call rcall('RENAME', KEYS[1], KEYS[1] .. 'x') rcall(\"LPUSH\", KEYS[1], 1)"
	for _, test := range []struct {
		asks string
		args []string
	}{
		{"a queue", []string{"LPUSH", "queue:default", "job"}},                             // Sidekiq, RQ, Celery
		{"a queue", []string{"BRPOP", "queue:default", "queue:low", "2"}},                  //
		{"a queue", []string{"LLEN", "queue:default"}},                                     //
		{"a queue", []string{"ZPOPMIN", "schedule"}},                                       //
		{"a queue", script("return redis.call('lpush', KEYS[1], 'v')")},                    //
		{"a queue", script(queue)},                                                         // BullMQ: what it calls first is no command of a queue
		{"a queue", script("cmsgpack.unpack(ARGV[1]) redis.call(\"XADD\", KEYS[1], '*')")}, //
		{"a queue", script(queue + strings.Repeat("-- a script like those of BullMQ\n", 800))},
		{"a queue", []string{"SCRIPT", "LOAD", queue + strings.Repeat(" ", sandbox.SourceMax)}},
		{"a stream", []string{"XADD", "events", "*", "f", "v"}},
		{"a stream", []string{"XREADGROUP", "GROUP", "g", "c", "STREAMS", "events", ">"}},
		{"a list", []string{"LRANGE", "list", "0", "-1"}},
		{"a list", script("return redis.call('lindex', KEYS[1], 0)")},
		{"a counter", []string{"INCR", "hits"}},
		{"a counter", []string{"DECRBY", "hits", "2"}},
		{"a counter", []string{"SET", "hits", "0"}},
		{"a counter", []string{"INCRBYFLOAT", "hits", "1.5"}},
		{"a counter", script("return redis.call('incr', KEYS[1])")},
		{"a cache entry", []string{"SET", "page", "<html>"}},
		{"a cache entry", []string{"GETSET", "page", "<html>"}},
		{"a cache entry", []string{"MSET", "page", "<html>"}},
		{"a cache entry", []string{"GETEX", "page"}},
		{"a cache entry", []string{"APPEND", "page", "<html>"}},
		{"a cache entry", []string{"SET", "page", large, "EX", "30"}},
		{"a cache entry", []string{"SET", "page", strings.Repeat("x", redlock.MaxValueLen+1), "NX", "EX", "30"}}, // Django's cache.add
		{"a cache entry", []string{"SETEX", "page", "30", large}},
		{"a cache entry", script("return redis.call('set', KEYS[1], string.rep('x', 1025), 'EX', 30)")},
		{"other data than locks", []string{"GEOADD", "k", "1", "2", "m"}},
		{"other data than locks", []string{"SINTER", "a", "b"}},
	} {
		got := c.do(test.args...).err("ERR ").text
		if !strings.Contains(got, test.asks) || !strings.Contains(got, onlyLocks) || strings.Contains(got, ". ") {
			t.Errorf("%.60q: got\n%s\nwant one sentence that names %s and says %s", test.args, got, test.asks, onlyLocks)
		}
	}
	// A value that another put in the place of a lock may be a cache entry, too.
	for _, line := range []string{"SET held v EX 30", "SETEX held 30 v", "GETSET held v"} {
		c.do(strings.Fields(line)...).err("ERR " + strings.Fields(line)[0] + " is refused, for it does not compare the token and could change another's lock: take a lock with SET key token NX PX ms or LOCK, " +
			"extend it with SET key token IFEQ token PX ms or EXTEND, and keep cache entries at a Redis of its own; or set allow_unguarded in [compat]")
	}
	c.do("SET", "page", strings.Repeat("x", redlock.MaxValueLen), "NX", "EX", "30").is("+OK") // the largest value that a lock may have
	// Those of locks that are too long, or cannot run, are no queues.
	c.do(script("return 1 " + strings.Repeat(" ", sandbox.SourceMax))...).err("ERR the script has 16393 bytes, more than the limit of 16384: scripts of locks are shorter")
	c.do(script("return cmsgpack.pack({})")...).err("ERR the script cannot run here: cmsgpack is not available")
	if got := c.info("refusedstats")["refusedstat_eval"]; !strings.Contains(got, ",script=2") || !strings.Contains(got, "queue=") {
		t.Errorf("INFO refusedstats counts %q for EVAL", got)
	}
}

// Finding out what a script asks for takes no time that a client could use up, whatever the source.
func TestScriptAsks(t *testing.T) {
	for _, test := range []struct {
		source string
		want   bool
	}{
		{"", false}, {"'", false}, {"lpush", false}, {"'lpush", false}, {"''lpush''", true}, {"'lpush\"", false}, {"'LPush'", true}, {`"xadd"`, true}, {"'llen''", true},
		{"'set' 'get' 'lindex' 'rename'", false}, {"'\x00' \"brpop\"", true},
		{strings.Repeat("'", scriptSearched) + "'lpush'", false}, {strings.Repeat("' ", 100) + "'lpush'", true}, {strings.Repeat(" ", scriptSearched) + "'lpush'", false},
	} {
		if got := scriptAsks(test.source); got != test.want {
			t.Errorf("%.40q: got %v, want %v", test.source, got, test.want)
		}
	}
}

// All that redlockd refuses is counted for one of its reasons.
func TestEveryRefusalHasAReason(t *testing.T) {
	for name, refused := range refusalOf {
		if refused.reason == "" || refused.use == "" || strings.HasPrefix(refused.why(), "; ") {
			t.Errorf("%s: got %+v, want a reason, and what to use", name, refused)
		}
	}
}
