package proxy

// Goal: EVAL, EVALSHA and SCRIPT answer as Redis does for the scripts of locks, at the price of native commands, and whatever a client
// sends by them costs the others nothing.
// Method: dialogues with a server over five masters in this process; what the server sends to the masters is counted at its
// lanes, where nothing else goes on.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/memmaster"
	"redlockd/redlock/sandbox"
)

const (
	acquireScript = `return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2])`
	releaseScript = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`
	extendScript  = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`
	lookScript    = `return {redis.call('get', KEYS[1]), redis.call('pttl', KEYS[1])}`
	token         = "0123456789abcdef0123"
)

func TestEVAL(t *testing.T) {
	srv := serve(t)
	a, b := srv.dial(), srv.dial()
	a.do("EVAL", acquireScript, "1", "k", token, "20000").is("+OK")
	b.do("EVAL", acquireScript, "1", "k", "another's", "20000").is("$nil")
	b.do("EVAL", releaseScript, "1", "k", "another's").is(":0")
	b.do("EVAL", extendScript, "1", "k", "another's", "30000").is(":0")
	b.do("LOCK", "k", "1000").is("*nil")
	a.do("EVAL", extendScript, "1", "k", token, "30000").is(":1")
	if ms, _ := strconv.Atoi(b.do("EVAL", lookScript, "1", "k").matches(`\["` + token + `" :(\d+)\]`)[0]); ms < 25_000 || ms > 30_000 {
		t.Errorf("PTTL: got %d, want about 30000", ms)
	}
	a.do("EVAL", releaseScript, "1", "k", token).is(":1")
	a.do("EVAL", releaseScript, "1", "k", token).is(":0")
	a.do("EVAL", lookScript, "1", "k").is("[$nil :-2]")

	// Nothing to do with keys.
	a.do("EVAL", "return {1, 2, {3, 'a'}, false, true, ARGV[2]}", "0", "x", "y").is(`[:1 :2 [:3 "a"] $nil :1 "y"]`)
	a.do("EVAL", "return KEYS[1] .. KEYS[2] .. #KEYS", "2", "k", "k").is(`"kk2"`)

	// The same key twice, and many keys.
	a.do("EVAL", `redis.call('set', KEYS[1], ARGV[1], 'px', 50000, 'nx') return redis.call('get', KEYS[2])`, "2", "k", "k", token).is(`"` + token + `"`)
	a.do("EVAL", `local n = 0 for _, k in ipairs(KEYS) do if redis.call('get', k) == ARGV[1] then n = n + redis.call('del', k) end end return n`, "2", "k", "k", token).is(":1")
	many := []string{"EVAL", `for _, k in ipairs(KEYS) do if redis.call('exists', k) == 1 then return k end end for _, k in ipairs(KEYS) do redis.call('psetex', k, 50000, ARGV[1]) end return #KEYS`, "64"}
	for i := range 64 {
		many = append(many, fmt.Sprint("key:", i))
	}
	a.do(append(many, token)...).is(":64")
	b.do(append(many, "another's")...).is(`"key:0"`)
	many[1] = `for _, k in ipairs(KEYS) do if redis.call('get', k) ~= ARGV[1] then return 0 end end return redis.call('del', unpack(KEYS))`
	a.do(append(many, token)...).is(":64")
	srv.noKeys()

	// Writes before an error stay.
	a.do("EVAL", `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 50000) then error({err='MY words'}) end`, "1", "k", token).err("MY words")
	a.do("GET", "k").is(`"` + token + `"`)
	a.do("EVAL", `if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) return redis.call('get') end`, "1", "k", token).err("ERR Wrong number of args calling Redis command from script")
	a.do("GET", "k").is("$nil")
	a.do("EVAL", `return redis.error_reply('MY words')`, "0").is("-MY words")

	// Another type.
	srv.onAll(":1", "ZADD", "h", "1", "v")
	a.do("EVAL", lookScript, "1", "h").err("WRONGTYPE Operation against a key holding the wrong kind of value")
	a.do("EVAL", releaseScript, "1", "h", token).err("WRONGTYPE")
	a.do("EVAL", acquireScript, "1", "h", token, "1000").err("WRONGTYPE")
	a.do("TYPE", "h").is("+zset")

	// RESP3.
	a.do("HELLO", "3")
	a.do("EVAL", lookScript, "1", "k").is("[_nil :-2]")
	a.do("EVAL", "return false", "0").is("_nil")
	a.do("EVAL", "return {true, false}", "0").is("[:1 _nil]")
	a.do("EVAL", acquireScript, "1", "k", token, "50000").is("+OK")
	a.do("EVAL", acquireScript, "1", "k", token, "50000").is("_nil")
	a.do("EVAL", releaseScript, "1", "k", token).is(":1")
}

// What would make another's lock free, or a lock that never ends, is refused, and the error says what to do.
func TestEVALRefuses(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) { // a busy machine stops no script
		srv := serve(t)
		c := srv.dial()
		c.do("LOCK", "k", "20000", "TOKEN", "holder").granted(1, 20000)
		for _, test := range []struct {
			source, want string
			args         []string
		}{
			{`return redis.call('del', KEYS[1])`, `ERR the script changes key "k" without comparing what it holds, and so could change another's lock: compare the token, or set allow_unguarded in [compat]`, nil},
			{`return redis.call('pexpire', KEYS[1], 1000)`, `ERR the script changes key "k" without comparing`, nil},
			{`return redis.call('set', KEYS[1], 'x', 'PX', 1000)`, `ERR the script changes key "k" without comparing`, nil},
			{`if redis.call('exists', KEYS[1]) == 1 then return redis.call('del', KEYS[1]) end`, `ERR the script changes key "k" without comparing`, nil},
			{`if redis.call('get', KEYS[1]) then return redis.call('persist', KEYS[1]) end`, `ERR a lock without a TTL`, nil},
			{`return redis.call('set', KEYS[2], 'x', 'NX')`, "ERR a lock without a TTL", nil},
			{`return redis.call('set', KEYS[2], 'x', 'NX', 'EX', 3600)`, "ERR ttl of 3600000 ms is above the most, 300000 ms (max_ttl)", nil},
			{`return redis.call('set', KEYS[2], 'x', 'NX', 'PX', '288230376151712744')`, "ERR ttl of 9223372036854 ms or more is above the most", nil}, // 1000 + 1<<58
			{`return redis.call('set', KEYS[2], string.rep('x', 1025), 'NX', 'EX', 5)`, `ERR key "free" would hold a string of 1025 bytes, at most 1024 are possible`, nil},
			{`return redis.call('lpush', KEYS[1], 'v')`, "ERR the script calls LPUSH, and is refused as a whole: it asks for a queue, and redlockd keeps locks only: point only the connection for locks at it, and keep the rest at a Redis of its own; scripts can use keys that hold a string, a counter, or a small hash, set or sorted set, and have a TTL; a semaphore is LOCK with SLOTS", nil},
			{`return redis.call('hset', KEYS[2], 'f', 'v')`, "ERR a lock without a TTL would be held for ever if its owner dies: give it one (SET key token NX PX ms, or PEXPIRE in the same script), or set default_ttl in [compat]. A semaphore is LOCK with SLOTS; what has no end is data: keep it at a Redis of its own", nil},
			{`return redis.call('incr', KEYS[2])`, "ERR this asks for a counter without a TTL, and redlockd keeps locks only", nil},
			{`redis.call('set', KEYS[2], 'x', 'NX', 'PX', 9000) return redis.pcall('zpopmin', KEYS[1])`, "ERR the script calls ZPOPMIN, and is refused as a whole", nil},
			{`pcall(redis.call, 'append', KEYS[1], 'x') return 1`, "ERR the script calls APPEND, and is refused as a whole", nil},
			{`return redis.call('eval', 'return 1', 0)`, "ERR the script calls EVAL, and is refused as a whole", nil},
			{`return cmsgpack.pack({})`, "ERR the script cannot run here: cmsgpack is not available", nil},
			{`redis.call('set', KEYS[2], 'x', 'NX', 'PX', 9000) return redis.call('zrange', 'sorted', '-', '+', 'BYLEX')`, "ERR BYLEX is not served: this endpoint serves locks only", nil},
			{`for i = 1, 65 do redis.pcall('hset', KEYS[2], i, 1) end return 1`, `ERR key "free" would have 65 fields, at most 64 are possible`, nil},
			{`for i = 1, 65 do pcall(redis.call, 'zadd', KEYS[2], 1, i) end return 1`, `ERR key "free" would have 65 members, at most 64 are possible`, nil},
			{`redis.pcall('sadd', KEYS[2], string.rep('x', 9000), string.rep('y', 9000)) return 1`, `ERR key "free" would take 18039 bytes with all its members, at most 16384 are possible`, nil},
			{`return redis.call('get', 'redlockd:epoch')`, `ERR the script uses the key "redlockd:epoch": names that begin with redlockd: are redlockd's own`, nil},
			{`for i = 1, 127 do redis.pcall('set', 'k' .. i, 'v', 'NX', 'PX', 9000) end return 1`, `ERR the script uses more than 128 keys, which is the most that is possible: "k127" is one too many`, nil},
			{`return redis.call('get', '')`, "ERR a resource name is empty", nil},
			{`redis.call('set', 'made', 'x', 'NX', 'PX', 9000) return redis.call('del', 'k')`, `ERR the script changes key "k" without comparing`, []string{"0"}},
			{`return redis.call('get', KEYS[1])`, "ERR resource names that begin with redlockd: are kept for redlockd itself", []string{"1", "redlockd:epoch"}},
			{`return redis.call('get', KEYS[1])`, "ERR a resource name is empty", []string{"1", ""}},
			{`return redis.call('get', KEYS[1])`, "ERR a resource name has", []string{"1", strings.Repeat("k", redlock.MaxResourceLen+1)}},
			{`return 1`, "ERR the script has 129 keys: scripts here can have 128", append([]string{"129"}, strings.Split(strings.Repeat("k", 129), "")...)},
		} {
			args := test.args
			if args == nil {
				args = []string{"2", "k", "free"}
			}
			c.do(append([]string{"EVAL", test.source}, args...)...).err(test.want)
			c.do("MGET", "k", "free").is(`["holder" $nil]`)
		}
		permissive := serve(t, permissive).dial()
		permissive.do("LOCK", "k", "20000", "TOKEN", "holder").granted(1, 20000)
		permissive.do("EVAL", `return redis.call('del', KEYS[1])`, "1", "k").is(":1")
		permissive.do("EVAL", `return redis.call('setnx', KEYS[1], 'x')`, "1", "k").is(":1")
		permissive.do("EVAL", `redis.call('set', KEYS[1], 'y') return redis.call('getset', KEYS[1], 'z')`, "1", "k").is(`"y"`)
		permissive.do("EVAL", lookScript, "1", "k").matches(`\["z" :(1\d|20)\d\d\d\]`)
		permissive.do("EVAL", `return redis.call('persist', KEYS[1])`, "1", "k").is(":1") // it has default_ttl then
	})
}

func TestReadOnlyScripts(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.do("LOCK", "k", "20000", "TOKEN", "holder").granted(1, 20000)
	sha := sandbox.SHA(lookScript)
	c.do("EVALSHA_RO", sha, "1", "k").is("-" + string(errNoScript))
	c.do("EVAL_RO", lookScript, "1", "k").matches(`\["holder" :\d+\]`)
	c.do("EVALSHA_RO", sha, "1", "k").matches(`\["holder" :\d+\]`)
	const denied = "ERR Write commands are not allowed from read-only scripts."
	for _, source := range []string{releaseScript, acquireScript, extendScript, `return redis.call('publish', KEYS[1], 'x')`, `return redis.call('getex', KEYS[1])`} {
		want := denied + " script: " + sandbox.SHA(source) + ", on @user_script:1."
		c.do("EVAL_RO", source, "1", "k", "holder", "5000").is("-" + want)
		c.do("EVALSHA_RO", sandbox.SHA(source), "1", "k", "holder", "5000").is("-" + want)
	}
	c.do("EVAL_RO", `return redis.pcall('del', KEYS[1]).err`, "1", "k").is(strconv.Quote(denied))
	c.do("EVAL", "#!lua flags=no-writes\nreturn redis.call('del', KEYS[1])", "1", "k").err(denied)
	c.do("EVAL", releaseScript, "1", "k", "holder").is(":1")
}

// serveQuiet is serve, where little but what clients ask for goes to the masters: see rounds.
func serveQuiet(t *testing.T) *testServer {
	t.Helper()
	srv := serveWith(t, func(o *redlock.Options) { o.Heartbeat = 10 * time.Second })
	synctest.Wait() // it has said to the fleet that it is there, in a round of its own
	return srv
}

// settleRounds is 2, for an answer that comes late can have a round follow it.
const settleRounds = 2

// settle waits until all masters have done what the server has sent them so far. A command that is answered does not wait for the
// slowest masters; LOCKINFO does, behind all that was sent before.
func (c *client) settle() {
	c.t.Helper()
	for range settleRounds {
		c.do("LOCKINFO", "k")
	}
}

// rounds counts the rounds to the masters during f, those to clear up included. The engine looks at its leases now and then, which
// does not count.
func (srv *testServer) rounds(f func()) (most int) {
	srv.t.Helper()
	c := srv.dial()
	defer c.conn.Close()
	engine := srv.opts.Engine
	count := func() (all []int, looks int) { // of each master, and those of settle
		for {
			audits := engine.Stats().Audits
			c.settle()
			looks += settleRounds
			all = nil
			for _, m := range engine.Masters() {
				all = append(all, int(m.Ops-audits))
			}
			if engine.Stats().Audits == audits { // else one may be under way, and nobody knows to how many masters it has come
				return all, looks
			}
		}
	}
	before, _ := count()
	f()
	after, looks := count()
	for i := range after {
		most = max(most, after[i]-before[i]-looks)
	}
	return most
}

// A script costs as many rounds as the native command.
func TestScriptRounds(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serveQuiet(t)
		c, other := srv.dial(), srv.dial()
		for _, source := range []string{acquireScript, releaseScript, extendScript, lookScript} {
			c.do("SCRIPT", "LOAD", source).is(strconv.Quote(sandbox.SHA(source)))
		}
		steps := func(when string, first int, steps ...func()) {
			t.Helper()
			for i, step := range steps {
				if got := srv.rounds(step); got != first {
					t.Errorf("%s, step %d: got %d rounds, want %d", when, i, got, first)
				}
			}
		}
		call := func(c *client, want, source string, args ...string) func() {
			return func() {
				t.Helper()
				c.do(append([]string{"EVALSHA", sandbox.SHA(source), "1", "k"}, args...)...).is(want)
			}
		}
		for _, when := range []string{"first", "again"} {
			steps(when, 1, call(c, "+OK", acquireScript, token, "20000"), call(c, ":1", extendScript, token, "25000"), call(c, ":1", releaseScript, token))
			steps(when+", no lock", 2, call(c, ":0", releaseScript, token))
			steps(when+", no lock", 2, call(c, ":0", extendScript, token, "25000"))
			steps(when+", by SET", 1, func() { c.do("SET", "k", token, "NX", "PX", "20000").is("+OK") }, call(c, ":1", releaseScript, token))
			steps(when+", native", 1, func() { c.do("LOCK", "k", "20000", "TOKEN", token).granted(1, 20000) },
				func() { c.do("EVALSHA", sandbox.SHA(lookScript), "1", "k").matches(`\["` + token + `" :\d+\]`) },
				call(other, "$nil", acquireScript, "another's", "20000"), call(other, ":0", releaseScript, "another's"), call(c, ":1", releaseScript, token))
		}
		// Through another redlockd, which does not know of the lease.
		b := serve(t, func(o *Options) {
			o.Engine = openEngine(t, srv.masters, func(o *redlock.Options) { o.Heartbeat = 10 * time.Second })
		})
		synctest.Wait() // as in serveQuiet
		for range 3 {
			steps("granted elsewhere", 1, func() { c.do("EVAL", acquireScript, "1", "k", token, "20000").is("+OK") })
			for source, want := range map[string]int{extendScript: 1, lookScript: 1, acquireScript: 2} {
				b.dial().do("EVAL", source, "1", "k", token, "20000") // it shares the script
				if got := b.rounds(func() { b.dial().do("EVAL", source, "1", "k", token, "20000") }); got > want {
					t.Errorf("through another redlockd: %s: got %d rounds, want %d", source, got, want)
				}
			}
			steps("released", 1, call(c, ":1", releaseScript, token))
		}
	})
}

// TestScriptsOfSeveralKinds: calls of one script that only look do not spoil the assumptions for those that lock and release.
func TestScriptsOfSeveralKinds(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serveQuiet(t)
		c := srv.dial()
		const source = `if ARGV[2] == 'look' then return redis.call('get', KEYS[1]) end
if ARGV[2] == 'take' then return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', 20000) end
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end`
		c.do("EVAL", source, "1", "k", token, "look") // it shares the script
		for i := range 10 {
			for _, what := range []string{"look", "take", "give", "look"} {
				if got := srv.rounds(func() { c.do("EVAL", source, "1", "k", token, what) }); got != 1 {
					t.Errorf("%s %d: got %d rounds, want 1", what, i, got)
				}
			}
		}
	})
}

// SCRIPT LOAD on one redlockd, EVALSHA on another, and after both were restarted.
func TestScriptsAreShared(t *testing.T) {
	a := serve(t)
	b := a.twin()
	sha := sandbox.SHA(acquireScript)
	c := b.dial()
	c.do("EVALSHA", sha, "1", "k", token, "20000").is("-NOSCRIPT No matching script. Please use EVAL.")
	a.dial().do("SCRIPT", "LOAD", acquireScript).is(strconv.Quote(sha))
	eventually(t, "the script is shared", func() bool { return len(a.keysOf("redlockd:shared:")) == 5 })
	c.do("SCRIPT", "EXISTS", sha, "x").is("[:0 :0]")
	c.do("EVALSHA", strings.ToUpper(sha), "1", "k", token, "20000").is("+OK")
	c.do("SCRIPT", "EXISTS", sha, strings.ToUpper(sha)).is("[:1 :1]")
	// A script that came by EVAL.
	c.do("EVAL", releaseScript, "1", "k", "another's").is(":0")
	eventually(t, "the script is shared", func() bool { return len(a.keysOf("redlockd:shared:")) == 10 })
	again := a.twin()
	again.dial().do("EVALSHA", sandbox.SHA(releaseScript), "1", "k", token).is(":1")

	// The longest one.
	long := "return 1 --" + strings.Repeat("x", sandbox.SourceMax-11)
	a.dial().do("EVAL", long, "0").is(":1")
	eventually(t, "the script is shared", func() bool { return len(a.keysOf("redlockd:shared:")) == 15 })
	c.do("EVALSHA", sandbox.SHA(long), "0").is(":1")
}

// SCRIPT FLUSH through one redlockd: no other has them either, also not one that was away, and starts again, or finds the scripts on
// a master that was away.
func TestScriptFlushForgetsEverywhere(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		a := serveFast(t)
		b := a.twin()
		a.heard(2)
		here, there := a.dial(), b.dial()
		acquire, release := sandbox.SHA(acquireScript), sandbox.SHA(releaseScript)
		const none = "-" + string(errNoScript)
		loaded := func() {
			here.do("SCRIPT", "LOAD", acquireScript)
			there.do("SCRIPT", "LOAD", releaseScript)
			eventually(t, "the scripts are stored", func() bool { return len(a.keysOf("redlockd:shared:")) == 10 })
		}
		loaded()
		if got := here.info("memory")["number_of_cached_scripts"]; got != "1" {
			t.Errorf("INFO: got %s cached scripts, want 1", got)
		}
		here.do("SCRIPT", "FLUSH").is("+OK")
		here.do("SCRIPT", "FLUSH", "async").is("+OK")
		eventually(t, "the other redlockd has forgotten", func() bool { return there.do("SCRIPT", "EXISTS", release).text == "[:0]" })
		for _, c := range []*client{here, there} {
			c.do("EVALSHA", acquire, "1", "k", token, "20000").is(none)
			c.do("EVALSHA", release, "1", "k", token).is(none)
		}
		if got := here.info("memory")["number_of_cached_scripts"]; got != "0" {
			t.Errorf("INFO: got %s cached scripts, want 0", got)
		}
		again := a.twin().dial()
		again.do("EVALSHA", acquire, "1", "k", token, "20000").is(none)

		// A master that has not heard of it holds an old script.
		for i := range a.masters[1:] {
			a.onMaster(i+1, "DEL", "redlockd:shared:"+acquire).is(":1")
		}
		a.onMaster(0, "DEL", "redlockd:scripts-flushed").is(":1")
		again.do("EVALSHA", acquire, "1", "k", token, "20000").is(none)

		// What is sent behind it is known, and found by the others.
		time.Sleep(2 * time.Millisecond) // the flush has a TTL in ms
		here.do("EVAL", acquireScript, "1", "k", token, "20000").is("+OK")
		eventually(t, "the script is found", func() bool { return there.do("EVALSHA", acquire, "1", "k", token, "20000").text == "$nil" })
		// No client flushes without the permission to.
		there.do("PUBLISH", scriptFlushChannel, "").err("ERR channels that begin with redlockd:")
		there.do("EVAL", "return redis.pcall('publish', ARGV[1], '')", "0", scriptFlushChannel).err("ERR channels that begin with redlockd:")
		here.do("EVALSHA", acquire, "1", "k2", token, "20000").is("+OK")
	})
}

// Masters that hold nonsense under the SHA1, or do not answer, are no reason to run it, or to wait for long.
func TestScriptFetchFails(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serveFast(t)
		c := srv.dial()
		sha := sandbox.SHA(releaseScript)
		name := "redlockd:shared:" + sha
		for i, value := range []string{"return 'evil'", "", "syntax error here", "return 'evil'"} {
			srv.onMaster(i, "SET", name, value).is("+OK")
		}
		srv.onMaster(4, "ZADD", name, "1", "v").is(":1")
		c.do("EVALSHA", sha, "1", "k", token).is("-" + string(errNoScript))
		c.do("PING").is("+PONG")
		srv.onMaster(3, "SET", name, releaseScript).is("+OK")
		c.do("EVALSHA", sha, "1", "k", token).is(":0")
		for _, m := range srv.masters[1:] {
			m.Freeze()
		}
		defer srv.thaw()
		c.raw(frameOf("EVALSHA", sandbox.SHA(acquireScript), "1", "k", token, "1000") + frameOf("PING"))
		c.read().is("-" + string(errNoScript))
		c.read().is("+PONG")
		srv.masters[0].Freeze()
		c.do("EVALSHA", sandbox.SHA(acquireScript), "1", "k", token, "1000").is("-" + string(errNoScript))
		c.do("EVAL", acquireScript, "1", "k", token, "1000").err("NOQUORUM")
	})
}

// The cache forgets what was not used for longest, and never grows beyond its bounds.
func TestScriptCacheBounds(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.do("EVAL", releaseScript, "1", "k", token).is(":0")
	for i := range scriptsMax + 100 {
		if _, err := srv.scripts.addSource(fmt.Sprint("return ", i), srv.now()); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			c.do("EVALSHA", sandbox.SHA(releaseScript), "1", "k", token).is(":0")
		}
	}
	if n := len(srv.scripts.scripts); n != scriptsMax {
		t.Errorf("got %d scripts, want %d", n, scriptsMax)
	}
	c.do("SCRIPT", "EXISTS", sandbox.SHA(releaseScript), sandbox.SHA("return 0"), sandbox.SHA(fmt.Sprint("return ", scriptsMax+99))).is("[:1 :0 :1]")
	for i := range 200 {
		if _, err := srv.scripts.addSource(fmt.Sprint("return ", i, " --", strings.Repeat("x", sandbox.SourceMax/2)), srv.now()); err != nil {
			t.Fatal(err)
		}
		if srv.scripts.bytes > scriptBytesMax {
			t.Fatalf("%d bytes of scripts, want at most %d", srv.scripts.bytes, scriptBytesMax)
		}
	}
	if n := len(srv.keysOf("redlockd:shared:")); n > 5 {
		t.Errorf("got %d shared scripts, want at most one on each master", n)
	}
}

// keysOf lists the keys of all masters with this prefix.
func (srv *testServer) keysOf(prefix string) (keys []string) {
	for _, m := range srv.masters {
		for _, key := range m.Keys() {
			if strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// noKeys fails the test unless the masters get rid of all keys that are not redlockd's own.
func (srv *testServer) noKeys() {
	srv.t.Helper()
	eventually(srv.t, "no master has a key", func() bool {
		return !slices.ContainsFunc(srv.masters, func(m *memmaster.Master) bool {
			return slices.ContainsFunc(m.Keys(), func(key string) bool { return !strings.HasPrefix(key, redlock.ReservedPrefix) })
		})
	})
}
