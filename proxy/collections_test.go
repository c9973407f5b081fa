package proxy

// Goal: locks that are kept in hashes, sets and sorted sets exclude, count and end as on one Redis, and where masters hold different
// versions of one, nobody is told a wrong answer. Method: scripts in the manner of Redisson and redis-semaphore through two redlockds,
// and values put on single masters behind their backs.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/keyspace"
	"redlockd/redlock"
)

// What takes one round for a token takes one for a hash: the first of its kind, and what this redlockd has granted.
func TestRoundsOfReentrantLock(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serveQuiet(t)
		c := srv.dial()
		for _, source := range []string{reentrantScript, reentrantReleaseScript} { // the first call would store it
			c.do("SCRIPT", "LOAD", source)
		}
		for i, step := range []struct {
			source, want string
			rounds       int
		}{
			{reentrantScript, "$nil", 1}, {reentrantScript, "$nil", 1}, {reentrantReleaseScript, ":0", 1},
			{reentrantReleaseScript, ":1", 2}, // it publishes, too
		} {
			if got := srv.rounds(func() { c.do("EVAL", step.source, "1", "k", "one", "20000").is(step.want) }); got != step.rounds {
				t.Errorf("step %d: got %d rounds, want %d", i, got, step.rounds)
			}
		}
		c.do("EXISTS", "k").is(":0")
	})
}

// No master tells which of two versions counts: then nobody is told that it holds the lock, or that it does not.
func TestSplitCollections(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		c := srv.dial()
		version := func(n int) string {
			return strings.Replace(collectionOf("hset", "one", fmt.Sprint(n)), string(make([]byte, 16)), fmt.Sprintf("nonce%011d", n), 1)
		}
		srv.put("k", version(1), 20*time.Second, 0, 1)
		srv.put("k", version(2), 20*time.Second, 2, 3)
		for _, command := range [][]string{
			{"HGET", "k", "one"}, {"EXISTS", "k"}, {"HDEL", "k", "one"}, {"HSET", "k", "two", "1"}, {"GET", "k"},
			{"EVAL", reentrantScript, "1", "k", "one", "20000"}, {"EVAL", `return redis.call('hexists', KEYS[1], ARGV[1])`, "1", "k", "one"},
		} {
			c.do(command...).matches(`-(NOQUORUM|TRYAGAIN nothing was changed:) the masters hold different values of key "k".*`)
		}
		// It excludes all the same.
		c.do("SET", "k", "v", "NX", "PX", "20000").is("$nil")
		c.do("LOCK", "k", "20000").is("*nil")
		// A change that is undone meanwhile is waited for.
		c.send("HGET", "k", "one")
		srv.put("k", version(1), 20*time.Second, 2, 3)
		c.read().matches(`"1"|-NOQUORUM .*`)
		c.do("HGET", "k", "one").is(`"1"`)
		// What a minority holds is not held, and not in the way.
		srv.put("l", version(1), 20*time.Second, 0, 1)
		c.do("HGET", "l", "one").is("$nil")
		c.do("SET", "l", "v", "NX", "GET", "PX", "20000").is("$nil")
		c.do("GET", "l").is(`"v"`)
	})
}

// Scripts in the manner of Redisson's read lock: each hold of a reader has a key of its own, whose name the script makes. The arguments
// are the reader and a TTL in ms.
const (
	readLockScript = `if redis.call('hget', KEYS[1], 'mode') == 'write' then return redis.call('pttl', KEYS[1]) > 0 and 'held' end
	redis.call('hset', KEYS[1], 'mode', 'read')
	local hold = KEYS[1] .. ':' .. ARGV[1] .. ':' .. redis.call('hincrby', KEYS[1], ARGV[1], 1)
	redis.call('set', hold, 1, 'NX', 'PX', ARGV[2]) redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), ARGV[2])) return nil`
	readReleaseScript = `if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
	local n = redis.call('hincrby', KEYS[1], ARGV[1], -1)
	if n == 0 then redis.call('hdel', KEYS[1], ARGV[1]) end
	local hold, longest = KEYS[1] .. ':' .. ARGV[1] .. ':' .. (n + 1), -3
	if redis.call('get', hold) then redis.call('del', hold) end
	if redis.call('hlen', KEYS[1]) > 1 then
		for _, reader in ipairs(redis.call('hkeys', KEYS[1])) do
			for i = tonumber(redis.call('hget', KEYS[1], reader)) or 0, 1, -1 do
				longest = math.max(longest, redis.call('pttl', KEYS[1] .. ':' .. reader .. ':' .. i))
			end
		end
		if longest > 0 then redis.call('pexpire', KEYS[1], longest) return 0 end
	end
	redis.call('del', KEYS[1]) return 1`
)

// Keys that a script names and has not declared count as those that it has.
func TestKeysThatScriptsMake(t *testing.T) {
	srv := serve(t)
	a, b := srv.dial(), srv.twin().dial()
	read := func(c *client, reader string) reply { return c.do("EVAL", readLockScript, "1", "k", reader, "20000") }
	leave := func(c *client, reader string) reply { return c.do("EVAL", readReleaseScript, "1", "k", reader) }
	read(a, "one").is("$nil")
	a.settle()
	read(b, "two").is("$nil")
	read(b, "two").is("$nil")
	b.settle()
	a.do("MGET", "k:one:1", "k:two:1", "k:two:2", "k:two:3").is(`["1" "1" "1" $nil]`)
	a.do("HMGET", "k", "mode", "one", "two").is(`["read" "1" "2"]`)
	a.do("LOCK", "k", "20000").is("*nil")
	a.do("SET", "k", "v", "NX", "PX", "20000").is("$nil")
	a.do("DEL", "k").err("ERR DEL is refused")
	a.do("EVAL", `return redis.call('del', KEYS[1])`, "1", "k").err(`ERR the script changes key "k" without comparing`)
	leave(a, "one").is(":0")
	leave(a, "one").is("$nil")
	a.settle()
	leave(b, "two").is(":0")
	leave(b, "two").is(":1")
	srv.noKeys()
	// What they hold is compared as ever: somebody else's key cannot be deleted by a name that a script makes.
	a.do("LOCK", "k:other", "20000", "TOKEN", "t").granted(1, 20000)
	a.do("EVAL", `return redis.call('del', KEYS[1] .. ':other')`, "1", "k").err(`ERR the script changes key "k:other" without comparing`)
	a.do("EVAL", `return redis.call('get', 'k:other') == ARGV[1] and redis.call('del', 'k:other')`, "0", "t").is(":1")
	// Names that depend on what was found under others.
	a.do("SET", "first", "second", "NX", "PX", "20000").is("+OK")
	a.do("SET", "second", "third", "NX", "PX", "20000").is("+OK")
	a.do("EVAL", `return redis.call('get', redis.call('get', redis.call('get', 'first') or '?') or '!')`, "0").is("$nil")
	a.do("EVAL", `return redis.call('get', redis.call('get', 'first') or '?')`, "0").is(`"third"`)
}

// A reader that leaves gives the lock the longest of the others' ends, as far as it can read them. A renewal that some masters missed, and that
// a reading does not show therefore, is not taken back.
func TestLeavingReaderCutsNobodyShort(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		const renewScript = `if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
	redis.call('pexpire', KEYS[1], ARGV[2])
	local hold = KEYS[1] .. ':' .. ARGV[1] .. ':1'
	if redis.call('get', hold) then redis.call('pexpire', hold, ARGV[2]) end return 1`
		srv := serveFast(t)
		c := srv.dial()
		c.do("EVAL", readLockScript, "1", "k", "one", "20000").is("$nil")
		c.do("EVAL", readLockScript, "1", "k", "two", "20000").is("$nil")
		c.do("EVAL", renewScript, "1", "k", "two", "50000").is(":1")
		c.settle()
		for _, i := range []int{3, 4} { // they have missed the renewal of the hold; the lock was given back to them since
			srv.onMaster(i, "PEXPIRE", "k:two:1", "20000").is(":1")
		}
		srv.away(0)
		c.do("EVAL", readReleaseScript, "1", "k", "one").is(":0")
		c.settle()
		for _, i := range []int{1, 2, 3, 4} {
			srv.onMaster(i, "PTTL", "k").matches(`:(4|5)\d{4}`)
		}
	})
}

// A script that asks for less than min_ttl gets that, as Symfony's for a key that it never looks at again, and so does a change that leaves a
// key its end. A command that asks for less is refused, as LOCK is.
func TestTTLBelowTheLeast(t *testing.T) {
	srv := serveWith(t, func(o *redlock.Options) { o.MinTTL = 20 * time.Second }, func(o *Options) { o.AllowUnguarded = []string{"short"} })
	c := srv.dial()
	for range 2 { // the second one finds the key of the first
		c.do("EVAL", `redis.call('TIME') redis.call('SET', KEYS[1], '1', 'PX', 1) return 1`, "1", "check").is(":1")
	}
	c.do("EVAL", `redis.call('hset', KEYS[1], 'f', 1) return redis.call('pexpire', KEYS[1], 5)`, "1", "hash").is(":1")
	c.settle()
	c.do("SET", "short", "v", "NX", "PX", "30000").is("+OK")
	for _, command := range []string{
		"LOCK k 5", "LOCK k 5s HOLD", "EXTEND short v 5", "SET k v NX PX 5", "SET k v NX EX 5", "SET k v NX GET PX 5", "SET short w IFEQ v PX 5", "SET short v PX 5",
		"PEXPIRE short 5", "EXPIRE short 5",
	} {
		c.do(strings.Fields(command)...).matches(`-ERR ttl of (5|5000|4999) ms is below the least, 20000 ms \(min_ttl\): (did you mean 5s\? If not, )?ask for more, or lower min_ttl in \[locks\]`)
	}
	c.do("EXISTS", "k").is(":0")
	srv.onAll("+OK", "SET", "ends", "v", "PX", "9000")
	c.do("SET", "ends", "w", "IFEQ", "v", "KEEPTTL").is("+OK")
	for _, key := range []string{"check", "hash", "ends"} {
		c.do("PTTL", key).matches(`:(1\d|20)\d\d\d`)
	}
	c.do("GET", "short").is(`"v"`)
}

// Goal: readers and a writer, and the holders of a semaphore, that a library keeps in sets and sorted sets (DistributedLock of .NET
// does), are told what one Redis tells them. Method: the same dialogue with both. The scripts are in the manner of that library.
func TestReadersAndSemaphores(t *testing.T) {
	const (
		read = `if redis.call('exists', KEYS[2]) == 1 then return 0 end
			redis.call('sadd', KEYS[1], ARGV[1])
			if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end return 1`
		keepReading = `if redis.call('sismember', KEYS[1], ARGV[1]) == 0 then return 0 end
			if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end return 1`
		stopReading = `redis.call('srem', KEYS[1], ARGV[1])`
		write       = `local writer = redis.call('get', KEYS[2])
			if not writer or writer == ARGV[1] .. '_WAITS' then
				if redis.call('scard', KEYS[1]) == 0 then redis.call('set', KEYS[2], ARGV[1], 'px', ARGV[2]) return 1 end
				if writer then redis.call('pexpire', KEYS[2], ARGV[2]) end
			end return 0`
		enter = `redis.replicate_commands() local t = redis.call('time') local now = tonumber(t[1]) * 1000.0 + tonumber(t[2]) / 1000.0
			redis.call('zremrangebyscore', KEYS[1], '-inf', now)
			if redis.call('zcard', KEYS[1]) < 2 then
				redis.call('zadd', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
				if redis.call('pttl', KEYS[1]) < 3 * tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], 3 * tonumber(ARGV[2])) end return 1
			end return 0`
		stay = `local t = redis.call('time') local now = tonumber(t[1]) * 1000.0 + tonumber(t[2]) / 1000.0
			local n = redis.call('zadd', KEYS[1], 'XX', 'CH', now + tonumber(ARGV[2]), ARGV[1])
			if redis.call('pttl', KEYS[1]) < 3 * tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], 3 * tonumber(ARGV[2])) end return n`
	)
	redis := startRedis(t)
	theirs, ours := dialTo(t, redis.Addr), serve(t).dial()
	for i, step := range [][]string{
		{read, "one"}, {read, "two"}, {read, "two"}, {write, "w"}, {keepReading, "one"}, {keepReading, "three"}, {stopReading, "one"}, {stopReading, "one"},
		{write, "w"}, {"SET", "writer", "w_WAITS", "NX", "PX", "20000"}, {read, "three"}, {write, "x"}, {write, "w"}, {stopReading, "two"}, {keepReading, "two"},
		{write, "x"}, {write, "w"}, {read, "one"}, {"GET", "writer"}, {releaseScript, "w"}, {"SCARD", "readers"}, {"TYPE", "readers"},
		{enter, "one"}, {enter, "two"}, {enter, "three"}, {stay, "two"}, {stay, "three"}, {"ZCARD", "seats"}, {"ZREM", "seats", "one"}, {"ZREM", "seats", "one"},
		{enter, "three"}, {"ZREM", "seats", "two", "three"}, {stay, "two"}, {"EXISTS", "seats"},
	} {
		command := step
		switch step[0] {
		case read, keepReading, stopReading, write:
			command = []string{"EVAL", step[0], "2", "readers", "writer", step[1], "20000"}
		case releaseScript:
			command = []string{"EVAL", step[0], "1", "writer", step[1]}
		case enter, stay:
			command = []string{"EVAL", step[0], "1", "seats", step[1], "20000"}
		}
		if got, want := ours.do(command...).text, theirs.do(command...).text; got != want {
			t.Fatalf("step %d: %q: got %s, Redis %s", i, command, got, want)
		}
	}
}

// Goal: a hash that Redisson has made on the masters themselves, while a fleet moves to redlockd one service at a time, is never overwritten and
// never taken for free. Method: real masters; the hash on a quorum, then on one of them alone; everything that takes a lock, and everything that
// would change it; after each the hash is what it was.
func TestHashOfAnotherClient(t *testing.T) {
	masters, servers := serversOverMasters(t, 1, redlock.Options{MasterTimeout: 10 * time.Second})
	c := servers[0].dial()
	var direct []*client
	for _, m := range masters {
		direct = append(direct, dialTo(t, m.Addr))
	}

	for name, holders := range map[string]int{"all": 5, "most": 3} {
		for _, d := range direct[:holders] {
			d.do("HSET", name, "uuid:1", "1").is(":1")
			d.do("PEXPIRE", name, "600000").is(":1")
		}
		for _, line := range []string{
			"LOCK $ 20000", "LOCK $ 20000 TOKEN uuid:1", "LOCK $ 20000 WAIT 20", "MLOCK 2 $ other 20000", "SET $ v NX PX 20000", "SET $ w NX GET PX 20000", "SETNX $ v",
			"UNLOCK $ uuid:1", "EXTEND $ uuid:1 20000", "SET $ v IFEQ uuid:1 PX 20000", "DELEX $ IFEQ uuid:1",
			"HSETNX $ uuid:2 1", "HSET $ uuid:2 1", "HINCRBY $ uuid:1 1", "HDEL $ uuid:1", "HGET $ uuid:1", "HEXISTS $ uuid:1", "SADD $ m", "ZADD $ 1 m", "GET $", "INCR $", "GETSET $ v", "DEL $", "PEXPIRE $ 1",
		} {
			got := c.do(strings.Fields(strings.ReplaceAll(line, "$", name))...).text
			if denied := got == "$nil" || got == "*nil" || got == ":0" || strings.HasPrefix(got, "-"); !denied || strings.HasPrefix(got, "-NOQUORUM") {
				t.Errorf("%s with the hash on %s: got %s, want a refusal", line, name, got)
			}
		}
		for _, script := range []string{reentrantScript, reentrantReleaseScript} {
			for _, owner := range []string{"uuid:1", "uuid:2"} {
				c.do("EVAL", script, "1", name, owner, "20000").err(keyspace.ErrForeign)
			}
		}
		c.do("EXISTS", name).is(":1")
		c.do("TYPE", name).is("+hash")
		for i, d := range direct {
			if want := `["uuid:1" "1"]`; i < holders {
				d.do("HGETALL", name).is(want)
				d.do("PTTL", name).matches(`:5\d{5}|:600000`)
			} else {
				eventually(t, "what was refused is gone again", func() bool { return d.do("EXISTS", name).text == ":0" })
			}
		}
	}
	// What one master alone holds is no lock of Redisson's RedLock. It keeps that master's vote, and stays as it is.
	direct[0].do("HSET", "one", "uuid:1", "1").is(":1")
	c.do("EVAL", reentrantScript, "1", "one", "uuid:2", "20000").is("$nil")
	c.do("HGETALL", "one").is(`["uuid:2" "1"]`)
	c.do("EVAL", reentrantReleaseScript, "1", "one", "uuid:2", "20000").is(":1")
	token := c.do("LOCK", "one", "20000").granted(1, 20000)
	c.do("UNLOCK", "one", token).is(":1")
	direct[0].do("HGETALL", "one").is(`["uuid:1" "1"]`)
}
