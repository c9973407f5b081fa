package proxy

// Goal: commands of Redis by which libraries lock work here as in Redis, and none takes another's lock unless the settings allow it.
// Method: dialogues with a server over five masters in this process, and the same lines to a real redis-server.

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/keyspace"
	"redlockd/redlock"
	"redlockd/redlock/redisproc"
)

func permissive(o *Options) { o.AllowUnguarded, o.DefaultTTL = everyKey, 20*time.Second }

// everyKey is Options.AllowUnguarded for all keys.
var everyKey = []string{"*"}

func TestSET(t *testing.T) {
	c := serve(t).dial()
	for _, line := range []string{
		"SET k tok NX PX 50000", "set k tok px 50000 nx", "SET k tok EX 50 NX", "SET k tok nx ex 50", "Set k tok Nx Px 50000",
		"SET k tok NX PXAT " + strconv.FormatInt(time.Now().Add(50*time.Second).UnixMilli(), 10),
		"SET k tok EXAT " + strconv.FormatInt(time.Now().Add(51*time.Second).Unix(), 10) + " NX",
	} {
		c.do(strings.Fields(line)...).is("+OK")
		c.do(strings.Fields(line)...).is("$nil") // the same token is as good as any other
		c.do("LOCK", "k", "1000").is("*nil")
		c.do("PTTL", "k").within(20_000, 51_000)
		c.do("UNLOCK", "k", "tok").is(":1")
	}

	// With GET.
	c.do("SET", "k", "one", "NX", "GET", "PX", "50000").is("$nil")
	c.do("SET", "k", "two", "NX", "GET", "PX", "50000").is(`"one"`)
	// Rotation, and renewing by the same token.
	c.do("SET", "k", "two", "IFEQ", "wrong", "PX", "50000").is("$nil")
	c.do("SET", "k", "two", "IFEQ", "one", "PX", "49000").is("+OK")
	c.do("SET", "k", "two", "PX", "48000", "IFEQ", "two").is("+OK")
	c.do("GET", "k").is(`"two"`)
	c.do("SET", "k", "three", "IFEQ", "two", "GET", "PX", "50000").is(`"two"`)
	c.do("SET", "k", "four", "IFEQ", "two", "GET", "PX", "50000").is(`"three"`)
	c.do("SET", "k", "four", "IFEQ", "three", "KEEPTTL").is("+OK")
	c.do("DELEX", "k", "IFEQ", "four").is(":1")

	// Any bytes, and none.
	for _, token := range []string{"\x00\r\n\xff", ""} {
		c.do("SET", "k", token, "NX", "PX", "50000").is("+OK")
		c.do("GET", "k").is(strconv.Quote(token))
		c.do("STRLEN", "k").is(":" + strconv.Itoa(len(token)))
		c.do("DELIFEQ", "k", "x").is(":0")
		c.do("DELIFEQ", "k", token).is(":1")
	}
	c.do("HELLO", "3")
	c.do("SET", "k", "tok", "NX", "PX", "50000").is("+OK")
	c.do("SET", "k", "tok", "NX", "PX", "50000").is("_nil")
	c.do("SET", "k", "tok", "NX", "GET", "PX", "50000").is(`"tok"`)
	c.do("GET", "other").is("_nil")
}

// Goal: the command table and package keyspace agree. Method: each row whose handler is cmdKeys is looked up there.
func TestRowsOfKeyspace(t *testing.T) {
	rows := 0
	for _, cmd := range newCommandTable(commandRows).all {
		isKeys := reflect.ValueOf(cmd.handler).Pointer() == reflect.ValueOf(cmdKeys).Pointer()
		d := keyspace.Lookup(cmd.name)
		if !isKeys && d == nil {
			continue
		}
		rows++
		if !isKeys && cmd.name != "set" || d == nil || cmd.flags&flagInMulti == 0 || d.Arity != cmd.arity || d.Writes != (cmd.flags&flagWrite != 0) || d.Writes == (cmd.flags&flagReadOnly != 0) {
			t.Errorf("%s: the row has the arity %d and the flags %b, keyspace has %+v", cmd.name, cmd.arity, cmd.flags, d)
		}
	}
	if rows < 20 {
		t.Errorf("only %d rows have keys", rows)
	}
}

// What does not compare is refused, and the error says what to use.
func TestUnguardedIsRefused(t *testing.T) {
	c := serve(t).dial()
	c.do("LOCK", "k", "20000", "TOKEN", "mine").granted(1, 20000)
	for _, test := range []struct{ line, want string }{
		{"SET k v PX 1000", "ERR SET is refused, for it does not compare the token and could change another's lock: take a lock with SET key token NX PX ms or LOCK"},
		{"SET k v XX PX 1000", "ERR SET is refused"},
		{"SET k v KEEPTTL", "ERR SET is refused"},
		{"SETEX k 10 v", "ERR SETEX is refused"},
		{"PSETEX k 1000 v", "ERR PSETEX is refused"},
		{"DEL k", "ERR DEL is refused, for it does not compare the token and could change another's lock: release a lock with UNLOCK key token, DELEX key IFEQ token, or a script that compares first; or set allow_unguarded in [compat]"},
		{"UNLINK k", "ERR UNLINK is refused"},
		{"DELEX k", "ERR DELEX is refused"},
		{"GETDEL k", "ERR GETDEL is refused"},
		{"EXPIRE k 10", "ERR EXPIRE is refused"},
		{"PEXPIRE k 30000 GT", "ERR PEXPIRE is refused"},
		{"PEXPIRE k 10 LT", "ERR PEXPIRE is refused"},
		{"EXPIREAT k 10", "ERR EXPIREAT is refused"},
		{"PEXPIREAT k 10", "ERR PEXPIREAT is refused"},
		{"PERSIST k", "ERR PERSIST is refused"},
		{"GETSET k v", "ERR GETSET is refused"},
		{"SET k v NX", "ERR a lock without a TTL would be held for ever if its owner dies: give it one (SET key token NX PX ms, or PEXPIRE in the same script), or set default_ttl in [compat]"},
		{"SET k v NX KEEPTTL", "ERR a lock without a TTL"},
		{"SETNX k v", "ERR a lock without a TTL"},
		{"MSETNX k v", "ERR a lock without a TTL"},
		{"MSETNX k v k", "ERR wrong number of arguments for 'msetnx' command"},
		{"SET k v NX PX 9000000000000000000", "ERR ttl of 9223372036854 ms or more is above the most, 300000 ms (max_ttl): ask for less, or raise it with redlockd members set max_ttl"},
		{"SET k v NX PXAT 1", "ERR ttl of -"},
		{"SET k v NX EX 3600", "ERR ttl of 3600000 ms is above the most, 300000 ms (max_ttl)"},
		{"SET redlockd:epoch v NX PX 1000", "ERR resource names that begin with redlockd: are kept for redlockd itself"},
		{"GET redlockd:epoch", "ERR resource names that begin with redlockd:"},
		{"GETEX k", "ERR GETEX is not served"},
		{"DELEX k IFNE v", "ERR DELEX is refused"},
		{"ZRANGE other - + BYLEX", "ERR BYLEX is not served: this endpoint serves locks only"},
		{"DELEX k FOO v", "ERR Invalid condition. Use IFEQ or IFNE"},
		{"DELEX k IFEQ", "ERR wrong number of arguments for 'delex' command"},
		{"SET k v IFNE other PX 0", "ERR invalid expire time in 'set' command"},
		{"SET k v IFNE other PX 1000", "ERR SET is refused"},
		{"SET k v IFEQ mine IFEQ mine PX 1000", "ERR syntax error"},
	} {
		c.do(strings.Fields(test.line)...).err(test.want)
		c.do("GET", "k").is(`"mine"`)
	}
	const noTTL = "-ERR a lock without a TTL would be held for ever if its owner dies: give it one (SET key token NX PX ms, or PEXPIRE in the same script), or set default_ttl in [compat]"
	c.do("SET", "free", "v", "NX").is(noTTL)
	c.do("SET", "free", "7", "NX").is(noTTL + ". Numbers that must never fall back are those of LOCK with FENCE")
	c.do("SADD", "free", "v").is(noTTL + ". A semaphore is LOCK with SLOTS; what has no end is data: keep it at a Redis of its own")
	c.do("INCR", "free").is("-ERR this asks for a counter without a TTL, and " + onlyLocks +
		"; or give it a TTL in the same script or transaction, or set default_ttl in [compat]; numbers that must never fall back are those of LOCK with FENCE")
	c.do("SET", "free", "v").is("-ERR a value that is set without NX and without a TTL asks for a cache entry, and " + onlyLocks +
		"; a lock is SET key token NX PX ms; or set default_ttl in [compat]")
}

// Many tasks may share a connection, so that it has set a key is no proof of whose the key is now. What does not compare is refused from it,
// too, and the error says what helps. Where it is allowed, as in Redis, a task that has paused ends the lock of another one.
func TestOwnConnectionMayNotEndALockBare(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		c := serve(t, func(o *Options) { o.AllowUnguarded = []string{"as-in-redis:*"} }).dial() // of all tasks
		// hand has task 1 lock the key and stand still until it has ended, and task 2 lock it.
		hand := func(key, first, second string) {
			c.do("SET", key, first, "NX", "PX", "2000").is("+OK")
			time.Sleep(4 * time.Second)
			c.do("SET", key, second, "NX", "PX", "30000").is("+OK")
		}
		const ends, extends, takes = "release a lock with UNLOCK key token, DELEX key IFEQ token, or a script that compares first",
			"extend a lock with EXTEND key token ms, SET key token IFEQ token PX ms, or a script that compares first", "extend it with SET key token IFEQ token PX ms or EXTEND"
		for _, first := range []string{"task-1", "task-2"} { // the latter: all sign with one value
			for _, test := range []struct{ bare, helps string }{
				{"DEL k", ends}, {"UNLINK k", ends}, {"GETDEL k", ends}, {"EXPIRE k 10", extends}, {"PSETEX k 10000 v", takes}, {"SETEX k 10 v", takes}, {"SET k v XX PX 10000", takes},
			} {
				hand("k", first, "task-2")
				words := strings.Fields(test.bare)
				got := c.do(words...).err("ERR " + words[0] + " is refused, for it does not compare the token and could change another's lock: ").text
				if !strings.Contains(got, test.helps) || !strings.Contains(got, "set allow_unguarded in [compat]") {
					t.Errorf("%s: got %s\nwant in it: %s, and allow_unguarded", test.bare, got, test.helps)
				}
				c.do("SET", "k", "a-third", "NX", "PX", "30000").is("$nil")
				c.do("DELEX", "k", "IFEQ", "task-2").is(":1") // what helps
			}
			hand("as-in-redis:k", first, "task-2")
			c.do("DEL", "as-in-redis:k").is(":1")
			c.do("SET", "as-in-redis:k", "a-third", "NX", "PX", "30000").is("+OK")
			c.do("DEL", "as-in-redis:k").is(":1")
		}
	})
}

// Patterns allow it for the keys that match one of them, and for no others beside these.
func TestUnguardedIsAllowedByPattern(t *testing.T) {
	c := serve(t, func(o *Options) { o.AllowUnguarded = []string{"latch:*", "job-?"} }).dial()
	for _, key := range []string{"latch:1", "job-1", "k", "job-10"} {
		c.do("SET", key, "v", "NX", "PX", "20000").is("+OK")
	}
	c.do("DEL", "latch:1", "k").err("ERR DEL is refused")
	c.do("PEXPIRE", "job-10", "9000").err("ERR PEXPIRE is refused")
	c.do("DEL", "latch:1", "latch:2").is(":1")
	c.do("PEXPIRE", "job-1", "9000").is(":1")
	const del = "return redis.call('del', unpack(KEYS))"
	c.do("EVAL", del, "2", "job-1", "k").err(`ERR the script changes key "k" without comparing`)
	c.do("EVAL", del, "2", "k", "job-1").err(`ERR the script changes key "k" without comparing`)
	c.do("EVAL", del, "2", "job-1", "latch:2").is(":1")
	c.do("EXISTS", "k", "job-10", "job-1").is(":2")
	// Behind WATCH, a key is watched or matches.
	c.do("SET", "job-1", "v", "NX", "PX", "20000").is("+OK")
	c.do("WATCH", "k").is("+OK")
	c.do("MULTI").is("+OK")
	c.do("DEL", "k", "job-1", "job-10").is("+QUEUED")
	c.do("EXEC").err("ERR DEL is refused")
	c.do("WATCH", "k").is("+OK")
	c.do("MULTI").is("+OK")
	c.do("DEL", "k", "job-1").is("+QUEUED")
	c.do("EXEC").is("[:2]")
}

func TestUnguardedIsAllowed(t *testing.T) {
	srv := serve(t, permissive)
	c, other := srv.dial(), srv.dial()
	c.do("SETNX", "k", "v").is(":1")
	c.do("SETNX", "k", "v").is(":0")
	c.do("PTTL", "k").within(10_000, 20_000) // default_ttl
	c.do("LOCK", "k", "1000").is("*nil")
	c.do("MSETNX", "a", "1", "k", "2").is(":0")
	c.do("EXISTS", "a", "k", "k").is(":2")
	c.do("MSETNX", "a", "1", "b", "2").is(":1")
	c.do("MGET", "a", "nothing", "b").is(`["1" $nil "2"]`)
	c.do("DEL", "a", "b", "nothing").is(":2")

	// ShedLock: SET XX, DEL. Laravel: SET NX, forceRelease by DEL.
	c.do("SET", "k", "shed", "XX", "PX", "50000").is("+OK")
	c.do("SET", "nothing", "shed", "XX", "PX", "50000").is("$nil")
	c.do("PEXPIRE", "k", "49000").is(":1")
	c.do("PERSIST", "k").is(":1")
	waiting := frameOf("LOCK", "k", "60000", "TOKEN", "next", "WAIT", "60000")
	other.raw(waiting)
	srv.waiting(1)
	c.do("DEL", "k").is(":1")
	other.read().granted(1, 60000)
	c.do("DEL", "k").is(":1")
	c.do("DEL", "k").is(":0")
	c.do("SET", "k", "v", "IFNE", "w", "PX", "50000").is("+OK")
	c.do("SET", "k", "w", "IFNE", "v", "PX", "50000").is("$nil")
	c.do("DELEX", "k", "IFNE", "w").is(":1")
	c.do("EXPIRE", "k", "5").is(":0")

	// Sent together, they are executed one behind the other.
	c.raw(frameOf("SET", "k", "1", "PX", "50000") + frameOf("SET", "k", "2", "KEEPTTL", "GET") + frameOf("GET", "k") + frameOf("DEL", "k") + frameOf("GET", "k") +
		frameOf("SETNX", "k", "3") + frameOf("GETDEL", "k") + frameOf("EXISTS", "k"))
	for _, want := range []string{"+OK", `"1"`, `"2"`, ":1", "$nil", ":1", `"3"`, ":0"} {
		c.read().is(want)
	}
	srv.noKeys()
}

// All databases share their keys, so that locks exclude each other whatever their clients have selected.
func TestDatabasesShareKeys(t *testing.T) {
	srv := serve(t)
	a, b := srv.dial(), srv.dial()
	a.do("SELECT", "1").is("+OK")
	a.do("SET", "k", "v", "NX", "PX", "20000").is("+OK")
	b.do("SELECT", "15").is("+OK")
	b.do("SET", "k", "w", "NX", "PX", "20000").is("$nil")
	b.do("LOCK", "k", "20000").is("*nil")
	b.do("GET", "k").is(`"v"`)
}

func TestTransaction(t *testing.T) {
	srv := serve(t)
	c, other := srv.dial(), srv.dial()
	script := func(lines ...string) {
		t.Helper()
		for i := 0; i < len(lines); i += 2 {
			if got := c.do(strings.Fields(lines[i])...).text; got != lines[i+1] {
				t.Fatalf("%s: got  %s\nwant %s", lines[i], got, lines[i+1])
			}
		}
	}
	// StackExchange.Redis: LockRelease and LockExtend.
	script("SET k tok NX PX 50000", "+OK",
		"WATCH k", "+OK", "GET k", `"tok"`, "MULTI", "+OK", "PEXPIRE k 49000", "+QUEUED", "EXEC", "[:1]",
		"WATCH k", "+OK", "GET k", `"tok"`, "MULTI", "+OK", "EXPIRE k 49", "+QUEUED", "GET k", "+QUEUED", "EXEC", `[:1 "tok"]`,
		"WATCH k", "+OK", "GET k", `"tok"`, "MULTI", "+OK", "DEL k", "+QUEUED", "EXEC", "[:1]",
		"GET k", "$nil",
		// Absent: the lock may be taken if it still is.
		"WATCH k", "+OK", "EXISTS k", ":0", "MULTI", "+OK", "SET k new PX 50000", "+QUEUED", "SET k2 of-both PX 50000 NX", "+QUEUED", "EXEC", "[+OK +OK]",
		"WATCH k k k2", "+OK", "MULTI", "+OK", "DEL k k2", "+QUEUED", "EXISTS k", "+QUEUED", "EXEC", "[:2 :0]",
		"MULTI", "+OK", "SET k a NX PX 50000", "+QUEUED", "SET k b NX PX 50000", "+QUEUED", "GET k", "+QUEUED", "PTTL k", "+QUEUED", "EXEC", `[+OK $nil "a" :50000]`,
		"MULTI", "+OK", "EXEC", "[]",
		"MULTI", "+OK", "UNWATCH", "+QUEUED", "EXEC", "[+OK]",
		// A MULTI that only looks.
		"MULTI", "+OK", "GET k", "+QUEUED", "EXISTS k x", "+QUEUED", "EXEC", `["a" :1]`,
	)

	// Somebody else was faster.
	script("WATCH k", "+OK", "GET k", `"a"`, "MULTI", "+OK", "DEL k", "+QUEUED")
	other.do("SET", "k", "b", "IFEQ", "a", "PX", "50000").is("+OK")
	script("EXEC", "*nil", "GET k", `"b"`)
	script("WATCH k x", "+OK", "MULTI", "+OK", "GET x", "+QUEUED", "SET y v NX PX 50000", "+QUEUED")
	other.do("DELEX", "k", "IFEQ", "b").is(":1")
	script("EXEC", "*nil", "EXISTS y", ":0")
	script("WATCH k", "+OK", "MULTI", "+OK", "GET k", "+QUEUED")
	other.do("SET", "k", "c", "NX", "PX", "50000").is("+OK")
	script("EXEC", "*nil")
	// Forgotten: UNWATCH, DISCARD, EXEC, RESET.
	for _, forget := range []string{"UNWATCH", "MULTI DISCARD", "MULTI EXEC", "RESET"} {
		script("WATCH k", "+OK")
		for _, word := range strings.Fields(forget) {
			c.do(word)
		}
		script("MULTI", "+OK")
		// Nobody sees what is read before EXEC, so it compares nothing.
		script("GET k", "+QUEUED", "DEL k", "+QUEUED")
		c.do("EXEC").err("ERR DEL is refused")
		c.do("GET", "k").is(`"c"`)
	}
	// What is no change of a lock is refused by name.
	script("MULTI", "+OK")
	c.do("PING").is("-ERR PING cannot be queued: a transaction here is one change of locks, made of commands on keys")
	c.do("CLIENT", "ID").err("ERR CLIENT ID cannot be queued")
	c.do("LOCK", "a", "1000").is("-ERR LOCK cannot be queued: a transaction here is one change of locks, made of commands on keys. Send LOCK by itself, before MULTI or after EXEC; MLOCK takes several locks as one")
	c.do("NOSUCH").err("ERR unknown command")
	c.do("GET").err("ERR wrong number")
	c.do("EXEC").err("EXECABORT")
	c.do("EXEC").is("-ERR EXEC without MULTI")
	script("PING", "+PONG", "MULTI", "+OK", "RESET", "+RESET", "PING", "+PONG", "HELLO 3", c.do("HELLO", "3").text, "WATCH k", "+OK", "MULTI", "+OK", "DEL k", "+QUEUED")
	other.do("DELIFEQ", "k", "c").is(":1")
	script("EXEC", "_nil")
	for range queuedMax {
		if c.do("MULTI"); c.do("GET", "k").text != "+QUEUED" {
			break
		}
	}
	c.do("MULTI")
	for range queuedMax {
		c.do("GET", "k")
	}
	c.do("GET", "k").err("ERR at most 128 commands can be queued")
	c.do("DISCARD").is("+OK")

	// Nor their bytes: a queue is kept as long as the client likes.
	c.do("MULTI")
	large := strings.Repeat("x", 500_000)
	c.do("SET", "k", large, "NX", "PX", "1000").is("+QUEUED")
	c.do("SET", "k", large, "NX", "PX", "1000").is("+QUEUED")
	c.do("SET", "k", large, "NX", "PX", "1000").err("ERR the queued commands have 1500036 bytes, the limit is 1048576")
	c.do("EXEC").err("EXECABORT")
	c.do("MULTI")
	c.do("GET", large).is("+QUEUED")
	c.do("DISCARD").is("+OK")

	// Nor what a reading answers of one key again and again.
	line := append([]string{"MGET"}, slices.Repeat([]string{"k"}, redlock.MaxResources+1)...)
	c.do(line...).err("ERR 65 resources are named, at most 64 are possible")
	c.do(line[:redlock.MaxResources+1]...).is("[" + strings.Repeat("_nil ", redlock.MaxResources-1) + "_nil]")
}

func TestDropInNoQuorum(t *testing.T) {
	srv := serve(t, permissive)
	c := srv.dial()
	c.do("SET", "k", "a token that is unique", "NX", "PX", "5000").is("+OK")
	srv.away(0, 1, 2)
	for _, line := range []string{"GET k", "SET k v NX PX 1000", "DELEX k IFEQ v", "SET k v IFEQ v PX 1000", "DEL k", "EXPIRE k 1", "WATCH k", "PTTL k"} {
		c.do(strings.Fields(line)...).err("NOQUORUM")
	}
}

func TestDropInOtherTypes(t *testing.T) {
	srv := serve(t, permissive)
	c := srv.dial()
	srv.onAll(":1", "ZADD", "h", "1", "v")
	c.do("TYPE", "h").is("+zset")
	c.do("EXISTS", "h").is(":1")
	c.do("TTL", "h").is(":-1")
	c.do("MGET", "h").is("[$nil]")
	c.do("SET", "h", "v", "NX", "PX", "1000").is("$nil")
	c.do("DELEX", "h", "IFEQ", "v").is(":0")
	c.do("SET", "h", "v", "IFEQ", "v", "PX", "1000").is("$nil")
	c.do("SETNX", "h", "v").is(":0")
	c.do("MSETNX", "free", "v", "h", "v").is(":0")
	for _, line := range []string{"GET h", "STRLEN h", "SET h v PX 1000", "SET h v XX KEEPTTL", "SETEX h 1 v", "GETDEL h", "GETSET h v", "SET h v NX GET PX 1000"} {
		c.do(strings.Fields(line)...).err("WRONGTYPE Operation against a key holding the wrong kind of value")
	}
	c.do("DEL", "h").is(":0")
	c.do("DELEX", "h").is(":0")
	c.do("DELIFEQ", "h", "").is(":0")
	srv.onAll(":1", "PEXPIRE", "h", "30000")
	c.do("EXPIRE", "h", "5").is(":0")
	c.do("PERSIST", "h").is(":0")
	c.do("TTL", "h").matches(":[12]\\d|:30")
	// Beside others in a transaction.
	for _, line := range []string{"MULTI", "SET k v NX PX 5000", "GET h", "DEL h k", "TYPE h", "EXISTS h k"} {
		c.do(strings.Fields(line)...)
	}
	c.do("EXEC").is("[+OK -WRONGTYPE Operation against a key holding the wrong kind of value :1 +zset :1]")
	c.do("EVAL", "return redis.call('get', KEYS[1])", "1", "h").err(keyspace.ErrForeign)
	for _, line := range []string{"ZSCORE h v", "HSET h f v", "ZADD h 1 w", "ZREM h v"} {
		c.do(strings.Fields(line)...).is("-" + keyspace.ErrForeign)
	}
	c.do("SETEX", "h", "9", "w").is("-" + keyspace.ErrWrongType)
	c.do("ZRANGE", "h", "0", "-1").is("-" + keyspace.ErrForeign)
	c.do("EXISTS", "k", "h").is(":1")
}

// What would have no TTL has default_ttl, from the moment of the command on. What would have ended already is refused, and nothing is
// removed for it as a script would do.
func TestClientsTTL(t *testing.T) {
	c := serve(t, permissive).dial()
	for _, line := range []string{"SET k v", "SET k w KEEPTTL", "SET k v NX", "SET k v NX KEEPTTL", "SETNX k v", "MSETNX k v", "GETSET k v"} {
		c.do("MULTI")
		c.do(strings.Fields(line)...).is("+QUEUED")
		c.do("PTTL", "k")
		c.do("PEXPIRE", "k", "9000")
		c.do("SET", "k", "x", "KEEPTTL")
		c.do("PTTL", "k")
		c.do("PERSIST", "k")
		c.do("PTTL", "k")
		c.do("DEL", "k")
		c.do("EXEC").matches(`\[.* :20000 :1 \+OK :9000 :1 :20000 :1\]`)
	}
	c.do("SET", "k", "v", "NX", "PX", "9000").is("+OK")
	c.do("PERSIST", "k").is(":1")
	c.do("PTTL", "k").within(10_000, 20_000) // default_ttl
	for _, line := range []string{"SET k w PXAT 1", "SET k w EXAT 1 GET", "SET k w IFEQ v PXAT 1", "SET x w NX PXAT 1", "SET x w NX GET PXAT 1"} {
		c.do(strings.Fields(line)...).err("ERR ttl of -")
		c.do("MGET", "k", "x").is(`["v" $nil]`)
	}
	c.do("SET", "k", "v", "KEEPTTL").is("+OK")
	c.do("PEXPIREAT", "k", "1").is(":1")
	c.do("GET", "k").is("$nil")

	c = serve(t, func(o *Options) { o.AllowUnguarded = everyKey }).dial() // and no default_ttl
	c.do("SET", "k", "v", "KEEPTTL").err("ERR a value that is set without NX and without a TTL")
}

// dropInDialogues are answered alike by Redis 7.0 and by a redlockd that allows all it can. Numbers of ms and seconds that
// are left are masked. What each command does to a counter, a hash or a set is compared in package keyspace.
var dropInDialogues = map[string]string{
	"set": `
		SET k v NX PX 10000
		SET k v NX PX 10000
		GET k
		STRLEN k
		TYPE k
		EXISTS k k x
		TTL k
		SET k w XX EX 20
		TTL k
		SET k w NX GET PX 10000
		SET k u XX GET KEEPTTL
		TTL k
		SET x u XX PX 10000
		SET x u XX GET PX 10000
		SET x "" NX EX 5
		GET x
		STRLEN x
		DEL x k y
		DEL k
		GET k
		PTTL k
		TTL k
		EXPIRETIME k
		PEXPIRETIME k
		TYPE k
		STRLEN k`,
	"set syntax": `
		SET
		SET k
		SET k v NX XX PX 1000
		SET k v XX NX PX 1000
		SET k v PX
		SET k v PX x NX
		SET k v PX 0 NX
		SET k v EX -1
		SET k v PX 1000 EX 1
		SET k v EX 1 KEEPTTL
		SET k v KEEPTTL PX 1
		SET k v EX 9223372036854775807
		SET k v PX 9223372036854775807
		SET k v PXAT 0
		SET k v EXAT x
		SET k v FOO
		SET k v PX 1000 PX 1000
		SET k v EX 01
		SETEX k 0 v
		SETEX k x v
		PSETEX k -1 v
		PSETEX k 99999999999999999999 v
		SETEX k 1
		SETNX k
		MSETNX a
		MSETNX a 1 b
		GET
		GET a b
		EXISTS
		MGET`,
	"setex": `
		SETEX k 10 v
		TTL k
		PSETEX k 20000 w
		TTL k
		GET k
		GETDEL k
		GETDEL k
		UNLINK k
		MGET k k`,
	"expire": `
		SET k v NX EX 10
		EXPIRE k 20
		TTL k
		PEXPIRE k 30000
		TTL k
		EXPIRE x 10
		EXPIRE k 5 GT
		EXPIRE k 40 GT
		EXPIRE k 50 LT
		EXPIRE k 5 LT
		EXPIRE k 5 NX
		EXPIRE k 25 XX
		EXPIRE k 25 NX XX
		EXPIRE k 25 GT LT
		EXPIRE k 25 FOO
		EXPIRE k x
		EXPIRE k 9223372036854775807
		EXPIRE k -9223372036854775807
		PEXPIRE k 9223372036854775807
		PEXPIREAT x -9223372036854775808
		EXPIRE k 5 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
		EXPIRE k
		TTL k
		PEXPIREAT k 1
		EXISTS k
		SET k v NX EX 10
		EXPIRE k 0
		EXISTS k
		SET k v NX EX 10
		EXPIRE k -1
		GET k
		SET k v NX EX 10
		PEXPIRE k -9223372036854775808
		GET k
		SET k v NX EX 10
		PEXPIREAT k -9223372036854775807
		GET k
		PERSIST k`,
	"collections": `
		INCR k
		EXPIRE k 20
		DECRBY k 9
		TTL k
		HSET k a 1
		INCR k x
		DEL k
		HSET k a 1 b 2
		EXPIRE k 20
		HINCRBY k a -5
		TTL k
		GET k
		SET k v NX EX 10
		HGETALL k
		HDEL k a b
		EXISTS k
		SADD k a b a
		TYPE k
		SREM k b x
		SMEMBERS k
		SREM k a
		ZADD k 1 a 2.5 b
		ZRANGE k 0 -1 WITHSCORES
		SET k v EX 10
		TYPE k
		DEL k`,
	"watch": `
		SET k v PX 50000
		WATCH k
		GET k
		MULTI
		DEL k
		EXEC
		SET k v PX 50000
		WATCH k
		EVAL "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end" 1 k v
		SET k v NX PX 50000
		MULTI
		DEL k
		EXEC
		GET k
		WATCH k
		EXPIRE k 40
		MULTI
		DEL k
		EXEC
		WATCH k other
		SET k v XX PX 30000
		MULTI
		SET other v NX EX 10
		EXEC
		EXISTS other
		WATCH k
		SET k w NX PX 30000
		MULTI
		GET k
		EXEC
		WATCH k
		DEL k
		MULTI
		EXEC
		WATCH k
		SET k v NX PX 30000
		MULTI
		GET k
		EXEC
		WATCH k
		WATCH k
		UNWATCH
		EXPIRE k 20
		MULTI
		DEL k
		EXEC
		INCR n
		EXPIRE n 50
		WATCH n
		INCR n
		DECR n
		MULTI
		GET n
		EXEC
		DEL n`,
	"transaction": `
		EXEC
		DISCARD
		UNWATCH
		WATCH
		SET k v NX EX 10
		WATCH k
		GET k
		MULTI
		MULTI
		WATCH k
		DEL k
		EXISTS k
		EXEC
		MULTI
		SET k v NX EX 10
		GET k
		TTL k
		EXPIRE k 20
		TTL k
		SET k w XX EX 5
		GETDEL k
		GET k
		EXEC
		MULTI
		GET
		EXEC
		MULTI
		NOSUCH
		GET k
		EXEC
		MULTI
		DISCARD
		WATCH k
		MULTI
		EXEC
		WATCH k x
		SET x y NX EX 10
		MULTI
		DEL x
		EXEC
		GET x
		DEL x`,
}

func TestDropInSameAsRedis(t *testing.T) {
	redis := startRedis(t)
	ours := serve(t, permissive)
	compareAll(t, redis.Addr, ours.addr, dropInDialogues)
	// What is left in ms, within a tolerance.
	for _, addr := range []string{redis.Addr, ours.addr} {
		began := time.Now()
		got := replies(t, addr, "SET ms v NX PX 20000\nPTTL ms\nPEXPIRETIME ms\nEXPIRETIME ms\nDEL ms")
		left, _ := strconv.ParseInt(strings.TrimPrefix(got[1], ":"), 10, 64)
		until, _ := strconv.ParseInt(strings.TrimPrefix(got[2], ":"), 10, 64)
		seconds, _ := strconv.ParseInt(strings.TrimPrefix(got[3], ":"), 10, 64)
		least := max(1, 20000-time.Since(began).Milliseconds()-10)
		if left > 20000 || left < least || until > time.Now().UnixMilli()+20000 || until < began.UnixMilli()+20000-10 || seconds < until/1000-1 || seconds > until/1000+1 {
			t.Errorf("%s: got %q, want about 20 s left", addr, got)
		}
	}
}

// Goal: no command, known here or not, changes a lock that it does not compare, however it is sent. Method: every command of the table, and
// every one that is refused by name, with arguments that do not name what the holder has: by itself, behind MULTI, and from a script. Then
// the lock is what it was, and a third client does not get it.
func TestAnothersLockStandsWhateverIsSent(t *testing.T) {
	srv := serve(t)
	holder, other, third := srv.dial(), srv.dial(), srv.dial()
	const permits = `redis.call('zadd', KEYS[1], 4e12, 'holder') return redis.call('pexpire', KEYS[1], 50000)`
	locks := []struct{ take, show string }{
		{"LOCK $ 50s TOKEN 7", "GET $"},
		{"SET $ 7 NX PX 50000", "GET $"},
		{"EVAL reentrant 1 $ holder 50000", "HGET $ holder"},
		{"EVAL permits 1 $", "ZSCORE $ holder"},
		{"LOCK $ 50s SHARED TOKEN 7", "TYPE $"},
	}
	names := slices.Sorted(maps.Keys(refusalOf))
	for _, cmd := range newCommandTable(commandRows).all {
		if reflect.ValueOf(cmd.handler).Pointer() == reflect.ValueOf(cmdKeys).Pointer() || cmd.name == "set" {
			names = append(names, cmd.name)
		}
	}
	more := []string{"1", "8", "mine", "-1", "100"}
	for i, lock := range redisproc.Some(2, locks) {
		key := fmt.Sprint("k", i)
		line := func(text string) []string {
			return strings.Fields(strings.ReplaceAll(text, "$", key))
		}
		take, show := line(lock.take), line(lock.show)
		switch take[1] {
		case "reentrant":
			take[1] = reentrantScript
		case "permits":
			take[1] = permits
		}
		holder.do(take...)
		want := holder.do(show...).text
		left := func() {
			t.Helper()
			third.do("LOCK", key, "20s", "TOKEN", "8").is("*nil")
			third.do("PTTL", key).within(20_000, 50_000)
		}
		left()
		for _, name := range names {
			least := 2
			if d := keyspace.Lookup(name); d != nil {
				least = max(d.Arity, -d.Arity)
			}
			for n := least - 2; n <= least; n++ {
				args := append([]string{name, key}, more[:n]...)
				other.do(args...)
				other.do("MULTI").is("+OK")
				other.do("GET", key).is("+QUEUED")
				other.do(args...)
				other.do("EXEC")
				other.do(append([]string{"EVAL", "return redis.pcall(ARGV[1], KEYS[1], unpack(ARGV, 3))", "1", key}, args...)...)
				if got := third.do(show...).text; got != want {
					t.Fatalf("%q on what %q has taken: it was %s, and is %s", args, lock.take, want, got)
				}
			}
			left()
		}
	}
}

// Goal: EXEC does nothing once a watched key was changed, also if it holds the same value again, and does its work if it was not. Method: what
// others may do between WATCH and EXEC, through the same redlockd and through another one, in no time at all.
func TestWatchIsAboutChanges(t *testing.T) {
	for _, value := range redisproc.Some(1, []string{"v", "a-token-that-is-long-enough-to-be-unique"}) {
		for _, test := range []struct {
			between string
			changed bool
		}{
			{"GET k; PTTL k; EXISTS k", false},
			{"SET k other NX PX 20000; LOCK k 20s; DELEX k IFEQ other", false},
			{"DELEX k IFEQ $; SET k $ NX PX 20000", true},
			{"DELEX k IFEQ $; LOCK k 20s TOKEN $", true},
			{"UNLOCK k $; SET k $ NX PX 20000", true},
			{"SET k other IFEQ $ PX 20000; SET k $ IFEQ other PX 20000", true},
			{"EXTEND k $ 20s", true},
			{"SET k $ IFEQ $ PX 30000", true},
			{"DELEX k IFEQ $", true},
		} {
			inVirtualTime(t, func(t *testing.T) {
				srv := serve(t)
				c := srv.dial()
				for _, other := range []*client{srv.dial(), srv.twin().dial()} {
					for _, queued := range []string{"DEL k", "PEXPIRE k 9000", "GET k", "SET k new PX 9000", "SET l new NX PX 9000"} {
						c.do("SET", "k", value, "NX", "PX", "20000").is("+OK")
						c.do("WATCH", "k").is("+OK")
						c.do("GET", "k").is(`"` + value + `"`)
						for line := range strings.SplitSeq(test.between, "; ") {
							other.do(strings.Fields(strings.ReplaceAll(line, "$", value))...)
						}
						want := other.do("GET", "k").text
						c.do("MULTI").is("+OK")
						c.do(strings.Fields(queued)...).is("+QUEUED")
						got := c.do("EXEC").text
						if changed := got == "*nil"; changed != test.changed {
							t.Errorf("%s; between WATCH and EXEC of %s: got %s, want that it does nothing: %v", test.between, queued, got, test.changed)
						}
						if after := other.do("GET", "k").text; test.changed && after != want {
							t.Errorf("%s; between WATCH and EXEC of %s: k was %s, and is %s", test.between, queued, want, after)
						}
						if n := srv.longLived("k"); test.changed && want != "$nil" && n < 3 {
							t.Errorf("%s; between WATCH and EXEC of %s: k lives on for more than 9 s on %d masters, want on a quorum", test.between, queued, n)
						}
						for _, key := range []string{"k", "l"} {
							held := strings.Trim(c.do("GET", key).text, `"`)
							c.do("DELEX", key, "IFEQ", held)
						}
						time.Sleep(time.Second) // until what was missed is cleared up
					}
				}
			})
		}
	}
}

// longLived is how many masters keep a key for more than 9 s. A master that has missed what another client has just done keeps the end that an
// EXEC has set in vain, so PTTL, which counts on the first answers, may tell that one.
func (srv *testServer) longLived(key string) (n int) {
	for _, m := range srv.masters {
		if _, left, _ := m.Get(key); left > 9100*time.Millisecond {
			n++
		}
	}
	return n
}
