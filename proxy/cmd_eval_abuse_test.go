package proxy

// Goal: whatever comes by EVAL gets Redis's own words where Redis has some, ends within bounds, and changes nothing for other clients.
// Method: the same lines to a real redis-server and to redlockd; scripts that would not end there to redlockd alone, with other
// clients beside them; and scripts at random (fuzzing), after which the server must serve as before.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/sandbox"
)

// scriptDialogues are lines that Redis 7.0 and redlockd answer alike.
var scriptDialogues = map[string]string{
	"numkeys": `
		EVAL
		EVAL "return 1"
		EVAL "return 1" 0
		EVAL "return 1" -1
		EVAL "return 1" 99999999999999999999
		EVAL "return 1" 1000000
		EVAL "return 1" 1
		EVAL "return 1" 3 a b
		EVAL "return 1" x a
		EVAL "return 1" "" a
		EVAL "return 1" 1.5 a
		EVAL "return 1" 01 a
		EVALSHA ffff 0
		EVALSHA ffff x
		EVALSHA ffffffffffffffffffffffffffffffffffffffff 0
		EVALSHA FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF 1 a
		EVALSHA "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz" 0
		EVALSHA
		EVALSHA_RO
		EVAL_RO "return KEYS[1]" 1 a
		EVAL "return {KEYS, ARGV}" 2 a b c d`,
	"script": `
		SCRIPT
		SCRIPT foo
		SCRIPT LOAD
		SCRIPT LOAD "return 1"
		SCRIPT LOAD "return 1" x
		SCRIPT EXISTS
		SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db x E0E1F9FABFC9D4800C877A703B823AC0578FF8DB
		EVALSHA E0E1F9fabfc9d4800c877a703b823ac0578ff8db 0
		SCRIPT FLUSH x
		SCRIPT FLUSH SYNC x
		SCRIPT KILL
		SCRIPT KILL x`,
	"errors": `
		EVAL "return foo" 0
		EVAL "x = 1" 0
		EVAL "KEYS = 1" 0
		EVAL "_G.x = 1" 0
		EVAL "string.x = 1" 0
		EVAL "redis.call = 1" 0
		EVAL "table.insert(redis, 1)" 0
		EVAL "rawset(_G, 'x', 1)" 0
		EVAL "setmetatable(_G, {})" 0
		EVAL "getmetatable('').__index = {}" 0
		EVAL "error('boo')" 0
		EVAL "error({err='MY boo'})" 0
		EVAL "return redis.error_reply('MY boo')" 0
		EVAL "return redis.error_reply('boo')" 0
		EVAL "return {err='two\\r\\nlines'}" 0
		EVAL "return {ok='two\\r\\nlines'}" 0
		EVAL "return redis.call()" 0
		EVAL "return redis.call('nosuch')" 0
		EVAL "return redis.pcall('nosuch')" 0
		EVAL "return redis.call('get')" 0
		EVAL "return redis.pcall('set', KEYS[1], 'x', 'PX', 'soon')" 1 a
		EVAL "return redis.call('get', {})" 0
		EVAL "return redis.pcall('get', KEYS[1], 'x')" 1 a
		EVAL "local function f(n) return 1 + f(n + 1) end return f(1)" 0
		EVAL "return pcall(error, 'x')" 0
		EVAL "os.exit(1)" 0
		EVAL "io.open('/etc/passwd')" 0
		EVAL "require('x')" 0
		EVAL "dofile('x')" 0
		EVAL "print('x')" 0
		EVAL "#!python\nx" 0
		EVAL "#!lua foo=bar\nx" 0
		EVAL "#!lua flags=foo\nreturn 1" 0
		EVAL "#!lua flags=no-writes\nreturn redis.call('del', KEYS[1])" 1 a`,
	"read-only": `
		EVAL_RO "return redis.call('set', KEYS[1], 'x')" 1 k
		EVAL_RO "return redis.pcall('del', KEYS[1])" 1 k
		EVAL_RO "return redis.pcall('publish', KEYS[1], 'x')" 1 k
		EVAL_RO "return redis.pcall('getex', KEYS[1])" 1 k
		EVAL_RO "return redis.pcall('set', KEYS[1])" 1 k
		EVAL_RO "return {redis.call('get', KEYS[1]), redis.call('pttl', KEYS[1]), redis.call('exists', KEYS[1])}" 1 k`,
}

func TestScriptsSameWordsAsRedis(t *testing.T) {
	redis := startRedis(t)
	ours := serve(t)
	compareAll(t, redis.Addr, ours.addr, scriptDialogues)
}

// runaways would not end in Redis, or take all of its memory.
var runaways = []string{
	`while true do end`,
	`while true do pcall(function() while true do end end) end`,
	`local s = 'x' while true do s = s .. s end`,
	`return string.rep('x', 1e9)`,
	`local t = {} while true do t[#t+1] = {} end`,
	`return ('x'):rep(40000):find(('.-'):rep(40) .. 'y')`,
	`return ('a'):rep(5000):match(('a*'):rep(50) .. 'b')`,
	`local function f(...) return f(1, ...) end return f()`,
	`while true do redis.call('get', KEYS[1]) end`,
	`while true do redis.pcall('set', KEYS[1], 'x', 'nx', 'px', 1000) end`,
	`if redis.call('get', KEYS[1]) then return 1 end while true do end`,
	`return cjson.decode(('['):rep(100000))`,
	`local t = {} for i = 1, 1e9 do t[i] = i end return #t`,
	`return table.concat(setmetatable({}, {__index = function() return 'x' end}), '', 1, 1e9)`,
}

// A script that does not end is stopped; others are served meanwhile, and nothing of it has happened.
func TestRunaways(t *testing.T) {
	srv := serve(t)
	done := make(chan struct{})
	for i := range 4 {
		c := srv.dial()
		go func() {
			defer func() { done <- struct{}{} }()
			for n := range len(runaways) {
				source := runaways[(n+i)%len(runaways)]
				c.send("EVAL", source, "1", "runaway")
				c.conn.SetReadDeadline(time.Now().Add(time.Minute))
				if text, err := readReply(c.r); err != nil || text[0] != '-' {
					t.Errorf("%s: got %.100s, %v, want an error", source, text, err)
				}
			}
		}()
	}
	c := srv.dial()
	served := 0
	for left := 4; left > 0; {
		select {
		case <-done:
			left--
		default:
			c.do("EVAL", acquireScript, "1", "k", token, "60000").is("+OK")
			c.do("EVAL", releaseScript, "1", "k", token).is(":1")
			served++
		}
	}
	t.Logf("%d pairs meanwhile", served)
	c.do("GET", "runaway").is("$nil")
	c.do("EVAL", `while true do end`, "1", "k").err("ERR the script was stopped: script stopped after")
	c.do("EVAL", "return '"+strings.Repeat("x", sandbox.SourceMax)+"'", "0").err("ERR the script has ")
	c.do("EVAL", "return", "0", strings.Repeat("x", 500<<10)).is("$nil")
	srv.noKeys()
}

// A script that swaps its token and what the key holds compares them as Lua does: it does not release the lock of another.
func TestSwapReleasesNoOthersLock(t *testing.T) {
	c := serve(t).dial()
	c.do("SET", "k", "holder", "NX", "PX", "20000").is("+OK")
	c.do("EVAL", `local a,b=redis.call('get',KEYS[1]),ARGV[1] a,b=b,a if a==b then return redis.call('del',KEYS[1]) end return 0`, "1", "k", "WRONG").is(":0")
	c.do("GET", "k").is(`"holder"`)
	c.do("EVAL", `local a,b=redis.call('get',KEYS[1]),ARGV[1] a,b=b,a if a==b then return redis.call('del',KEYS[1]) end return 0`, "1", "k", "holder").is(":1")
}

// What one script does to the globals, another does not see.
func TestScriptsLeaveNothing(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.do("EVAL", `math.randomseed(7) local t = KEYS t[1] = 'changed' ARGV[1] = nil redis.setresp(2) return 1`, "1", "k", "v").is(":1")
	c.do("EVAL", `return {KEYS[1], ARGV[1], pcall(redis.setresp, 5) and 1 or 0}`, "1", "k", "v").is(`["k" "v" :0]`)
	c.do("EVAL", `local ok = pcall(function() redis.call = nil end) return {ok and 1 or 0, type(redis.call)}`, "0").is(`[:0 "function"]`)
}

func TestScriptsInTransactions(t *testing.T) {
	c := serve(t).dial()
	for _, line := range [][]string{{"EVAL", "return 1", "0"}, {"EVALSHA", sandbox.SHA("return 1"), "0"}, {"SCRIPT", "LOAD", "return 1"}, {"EVAL", "return 1"}} {
		c.do("MULTI").is("+OK")
		c.do("SET", "k", "v", "NX", "PX", "1000").is("+QUEUED")
		c.do(line...).err("ERR ")
		c.do("EXEC").is("-EXECABORT Transaction discarded because of previous errors.")
		c.do("GET", "k").is("$nil")
	}
	c.do("EVAL", `return redis.pcall('multi')`, "0").err("ERR the script calls MULTI, and is refused as a whole")
	// WATCH sees what a script changes.
	c.do("WATCH", "k").is("+OK")
	c.do("EVAL", acquireScript, "1", "k", token, "20000").is("+OK")
	c.do("MULTI").is("+OK")
	c.do("DEL", "k").is("+QUEUED")
	c.do("EXEC").is("*nil")
	c.do("EVAL", releaseScript, "1", "k", token).is(":1")
}

// redlockd's own commands are no part of a script or a transaction. What stood beside them has changed nothing.
func TestOwnCommandsInsideOthers(t *testing.T) {
	c := serve(t).dial()
	c.do("LOCK", "held", "20s", "TOKEN", "t").granted(1, 20_000)
	for _, line := range [][]string{
		{"LOCK", "a", "20s"}, {"lock", "a", "20s", "JUSTTOKEN"}, {"UNLOCK", "held", "t"}, {"EXTEND", "held", "t", "20s"}, {"MLOCK", "1", "a", "20s"},
		{"MUNLOCK", "1", "held", "t"}, {"MEXTEND", "1", "held", "t", "20s"}, {"HOLD", "held", "t", "20s"}, {"MHOLD", "1", "held", "t", "20s"},
		{"KEEPALIVE"}, {"LOCKINFO", "held"}, {"LOCKS"}, {"LOCK"},
	} {
		for _, how := range []string{"call", "pcall"} {
			script := `redis.call('set', KEYS[1], 'v', 'NX', 'PX', 20000) return redis.` + how + `(unpack(ARGV))`
			c.do(append([]string{"EVAL", script, "1", "beside"}, line...)...).matches(`-ERR the script calls [A-Z]+, and is refused as a whole: that cannot run inside a script, which is one change of keys\. ` +
				`Send it by itself; or have the script lock as on one Redis: SET key token NX PX ms, and GET to compare the token before DEL or PEXPIRE`)
		}
		if len(line) == 1 && line[0] == "LOCK" {
			continue // MULTI refuses its arity first
		}
		c.do("MULTI").is("+OK")
		c.do("SET", "beside", "v", "NX", "PX", "20000").is("+QUEUED")
		c.do(line...).matches(`-ERR ([A-Z]+) cannot be queued: a transaction here is one change of locks, made of commands on keys\. Send [A-Z]+ by itself, before MULTI or after EXEC.*`)
		c.do("EXEC").err("EXECABORT")
	}
	c.do("EXISTS", "beside", "a").is(":0")
	c.do("UNLOCK", "held", "t").is(":1")
}

// FuzzEVAL: whatever the script, its numkeys and arguments, the answer is one reply, and the server goes on.
func FuzzEVAL(f *testing.F) {
	for _, source := range append(append(libraryScripts, runaways...), "return {1, {2}}", "redis.setresp(3) return 1") {
		f.Add(source, "1", "k", token, "1000")
		f.Add(source, "2", "k", "k", token)
	}
	srv := serve(f)
	c, other := srv.dial(), srv.dial()
	f.Fuzz(func(t *testing.T, source, numkeys, a, b, d string) {
		c.t, other.t = t, t
		c.send("EVAL", source, numkeys, a, b, d)
		c.send("ECHO", "behind")
		first := c.read()
		if second := c.read(); second.text != `"behind"` {
			t.Fatalf("got %s and %s, want one reply", first.text, second.text)
		}
		other.do("LOCK", "other's", "60000", "TOKEN", "x").granted(1, 60000)
		other.do("UNLOCK", "other's", "x").is(":1")
		if strings.HasPrefix(first.text, "-ERR internal") {
			t.Fatal(fmt.Sprint(first.text, source))
		}
	})
}
