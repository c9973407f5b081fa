package proxy

// Goal: the keys that a library keeps beside its locks can be changed without a comparison with the settings that there are by default, also
// behind a reload; what is no such key cannot, whatever its name. Method: dialogues with the commands and scripts that Redisson sends.

import (
	"fmt"
	"testing"
	"time"

	"redlockd/proxy/access"
)

const (
	hold  = "{report}:id:1:rwlock_timeout:1"
	latch = "redisson_unlock_latch:{report}:id"
)

// latchScript is the part of an unlock that leaves its answer.
const latchScript = `redis.call('set', KEYS[1], 1, 'px', ARGV[1]) return 1`

func TestHelperKeysNeedNoSetting(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	check := func() {
		t.Helper()
		c.do("EVAL", "redis.call('set', KEYS[1], 1) redis.call('pexpire', KEYS[1], ARGV[1])", "1", hold, "9000").is("$nil")
		c.do("EVAL", "return redis.call('pexpire', KEYS[1], ARGV[1])", "1", hold, "20000").is(":1")
		c.do("PTTL", hold).within(10_000, 20_000)
		c.do("EVAL", "return redis.call('del', KEYS[1])", "1", hold).is(":1")
		c.do("EVAL", latchScript, "1", latch, "9000").is(":1")
		c.do("EVAL", latchScript, "1", latch, "9000").is(":1")
		c.do("DEL", latch).is(":1")
		c.do("DEL", latch).is(":0")
	}
	check()
	srv.reload(Options{AllowUnguarded: []string{"other:*"}})
	check()
}

// A lock can have the name of a helper key. It holds a token, so nobody ends it who does not compare that.
func TestLockNamedAsAHelperKey(t *testing.T) {
	c := serve(t).dial()
	for _, key := range []string{hold, latch} {
		c.do("LOCK", key, "20000", "TOKEN", "mine").granted(1, 20000)
		wantHeld := func() {
			t.Helper()
			c.do("GET", key).is(`"mine"`)
			c.do("PTTL", key).within(10_000, 20_000)
		}
		refusal := fmt.Sprintf(`ERR the script changes key "%s" without comparing what it holds, and so could change another's lock: compare the token, or set allow_unguarded in [compat]`, key)
		for _, command := range [][]string{{"DEL", key}, {"PEXPIRE", key, "100"}, {"SET", key, "1", "PX", "100"}, {"GETDEL", key}, {"GETSET", key, "1"}, {"UNLINK", key}} {
			c.do(command...).err("ERR " + command[0] + " is refused")
			wantHeld()
		}
		for _, script := range []string{"return redis.call('del', KEYS[1])", "return redis.call('pexpire', KEYS[1], 100)", "return redis.call('set', KEYS[1], 1, 'px', 100)"} {
			c.do("EVAL", script, "1", key).err(refusal)
			wantHeld()
		}
		c.do("MULTI").is("+OK")
		c.do("DEL", key).is("+QUEUED")
		c.do("EXEC").err("ERR DEL is refused")
		wantHeld()
		c.do("UNLOCK", key, "mine").is(":1")
	}
	// Nor does a lock get less time than its holder asked for.
	c.do("SET", latch, "mine", "NX", "PX", "301000").err("ERR ttl of 301000 ms is above the most")
	c.do("SET", "{report}:latch", "1", "NX", "PX", "20000").is("+OK")
	c.do("DEL", "{report}:latch").err("ERR DEL is refused")
}

// The TTL of a latch follows from the timeouts of the client: an unlock must not fail because that is above a limit of locks.
func TestTTLOfALatchIsShortened(t *testing.T) {
	srv := serve(t, limited(access.User{MaxTTL: 20 * time.Second}), policies(access.Policy{Prefix: "*policy*", MaxTTL: 10 * time.Second}))
	for _, test := range []struct {
		user, key string
		most      int
	}{{"root", latch, 300_000}, {"app", latch + "2", 20_000}, {"root", latch + "policy", 10_000}} {
		c := srv.dialAs(test.user)
		c.do("EVAL", latchScript, "1", test.key, "301000").is(":1")
		c.do("PTTL", test.key).within(test.most/2, test.most)
		c.do("EVAL", latchScript, "1", hold, "301000").err("ERR ttl of 301000 ms")
	}
}
