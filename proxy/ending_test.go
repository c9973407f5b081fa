package proxy

// Goal: who sleeps for the TTL of a lock does not spin while the lock is there only as padding for drift, and the holder is not told
// that it has time that is not sure. Method: keys on the masters that have less than the drift to live, which is long here.

import (
	"strings"
	"testing"
	"time"

	"redlockd/redlock"
)

func TestTTLOfAKeyThatEnds(t *testing.T) {
	const holder = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pttl', KEYS[1]) end return -3`
	const waiter = `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 3000) then return 'mine' end return redis.call('pttl', KEYS[1])`
	const looks = `return {redis.call('get', KEYS[1]), redis.call('pttl', KEYS[1])}`
	for _, c := range []struct {
		name string
		// ask has a GET in front and one reply of its own.
		ask  string
		want string
	}{
		{"PTTL", frameOf("PTTL", "k"), ":-2"},
		{"TTL", frameOf("TTL", "k"), ":-2"},
		{"PEXPIRETIME", frameOf("PEXPIRETIME", "k"), ":-2"},
		{"a holder's script", frameOf("EVAL", holder, "1", "k", "theirs"), ":-3"},
		{"a waiter's script", frameOf("EVAL", waiter, "1", "k", "ours"), `"mine"`},
		{"a script that only looks", frameOf("EVAL_RO", looks, "1", "k"), "[$nil :-2]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				srv := serveWith(t, func(o *redlock.Options) { o.ClockStepMax = 60 * time.Millisecond; o.MinTTL = 200 * time.Millisecond })
				conn := srv.dial()
				srv.onAll("+OK", "SET", "k", "theirs", "PX", "50")
				conn.raw(frameOf("GET", "k") + c.ask)
				conn.read().is(`"theirs"`)
				conn.read().is(c.want)
			})
		})
	}
}

// With a long drift the wait is bounded: a client that asks in a loop does not spin.
func TestTTLOfAKeyThatEndsLate(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serveWith(t, func(o *redlock.Options) {
			o.ClockStepMax = 8 * time.Second
			o.MinTTL = 20 * time.Second
			o.MaxTTL = time.Minute
		})
		srv.onAll("+OK", "SET", "k", "theirs", "PX", "7000")
		conn := srv.dial()
		if got := srv.rounds(func() { conn.do("PTTL", "k").is(":1") }); got < 2 {
			t.Errorf("got %d readings, want a second one behind the wait", got)
		}
		// What is written does not wait, and what is watched is looked at again.
		conn.do("EVAL", `redis.call('pttl', KEYS[1]) return redis.call('pexpire', KEYS[1], 25000)`, "1", "k").err("ERR the script changes key")
		conn.do("WATCH", "k").is("+OK")
		conn.do("MULTI").is("+OK")
		conn.do("PTTL", "k").is("+QUEUED")
		if got := conn.do("EXEC").text; !strings.HasPrefix(got, "[:1") {
			t.Errorf("EXEC: got %s", got)
		}
	})
}
