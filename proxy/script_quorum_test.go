package proxy

// Goal: no reply of a script says more than a quorum of masters has confirmed.
// Method: keys are put on single masters, behind the server's back, in states that a script takes for "held by me" wherever it
// sees them; then the script is asked. The reply "held" must only come with a quorum.

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"redlockd/redlock"
)

// put sets a key on some masters.
func (srv *testServer) put(key, value string, ttl time.Duration, masters ...int) {
	srv.t.Helper()
	for _, i := range masters {
		srv.onMaster(i, "SET", key, value, "PX", strconv.FormatInt(ttl.Milliseconds(), 10)).is("+OK")
	}
}

// onMaster sends a command to one master.
func (srv *testServer) onMaster(i int, args ...string) reply {
	srv.t.Helper()
	conn, err := srv.masters[i].Dial(srv.t.Context(), "", "")
	if err != nil {
		srv.t.Fatal(err)
	}
	defer conn.Close()
	return newClient(srv.t, conn).do(args...)
}

// onAll sends a command to all masters, and wants the same reply from each.
func (srv *testServer) onAll(want string, args ...string) {
	srv.t.Helper()
	for i := range srv.masters {
		srv.onMaster(i, args...).is(want)
	}
}

func (srv *testServer) freeze() {
	for _, m := range srv.masters {
		m.Freeze()
	}
}

func (srv *testServer) thaw() {
	for _, m := range srv.masters {
		m.Thaw()
	}
}

func (srv *testServer) crash(masters ...int) {
	for _, i := range masters {
		srv.masters[i].Crash(false)
	}
}

// away cuts masters off and waits until the server knows.
func (srv *testServer) away(masters ...int) {
	srv.t.Helper()
	for _, i := range masters {
		srv.masters[i].SetReachable(false)
		srv.masters[i].Cut()
	}
	eventually(srv.t, "masters are away", func() bool {
		for _, i := range masters {
			if srv.opts.Engine.Masters()[i].State != "down" {
				return false
			}
		}
		return true
	})
}

// serveFast is serve for tests that wait for masters to be given up.
func serveFast(t *testing.T) *testServer {
	return serveWith(t, func(o *redlock.Options) { o.MasterTimeout = time.Second })
}

const (
	ensureScript = `local v = redis.call('get', KEYS[1])
if v == ARGV[1] then return 'held' end
if not v then redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) return 'held' end
return 'of another'`
	mineScript = `if redis.call('get', KEYS[1]) == ARGV[1] then return 'held' end return 'not mine'`
)

// A minority holds my token, another stands in the way of the rest: a script that is shown the minority's value says "held".
func TestScriptTakesNoMinoritysWord(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		for _, token := range []string{"mine", "mine, and long enough to be unique"} {
			srv := serveFast(t)
			c := srv.dial()
			srv.put("k", token, 20*time.Second, 0, 1)
			srv.put("k", "another's", 20*time.Second, 2)
			c.do("EVAL", ensureScript, "1", "k", token, "20000").is(`"of another"`)
			c.do("EVAL", mineScript, "1", "k", token).is(`"not mine"`)
		}
	})
}

// What one try of an unlock has left in its latch on a single master answers no other try, and stands in nobody's way: the lock is held by a
// quorum.
func TestLatchOfAMinority(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		c := srv.dial()
		for i := range 10 { // which masters a reading hears first differs
			k, latch := fmt.Sprint("k", i), fmt.Sprint(latch, i)
			c.do("SET", k, "mine, once", "NX", "PX", "20000").is("+OK")
			srv.put(k, "mine, twice", 20*time.Second, 1, 2, 3, 4) // through another redlockd; a master has missed it
			srv.put(latch, "0", 20*time.Second, 0)
			c.do("EVAL", `local answer = redis.call('get', KEYS[2])
if answer then return tonumber(answer) end
local held = redis.call('get', KEYS[1])
if held ~= ARGV[1] and held ~= ARGV[2] then return nil end
redis.call('set', KEYS[1], ARGV[1], 'px', 20000)
redis.call('set', KEYS[2], 0, 'px', 9000)
return 0`, "2", k, latch, "mine, once", "mine, twice").is(":0")
		}
	})
}

// A script that takes whatever is there for a lock of its own kind.
func TestScriptThatTakesAnybodysWord(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		srv.put("k", "another's", 20*time.Second, 0, 1, 2)
		srv.onMaster(2, "DEL", "k").is(":1")
		srv.put("k", "a third's", 20*time.Second, 2)
		srv.dial().do("EVAL", `if redis.call('exists', KEYS[1]) == 0 then redis.call('set', KEYS[1], ARGV[1], 'px', 20000) end return 'held'`, "1", "k", "t").
			err("ERR the keys of the script changed 8 times")
	})
}

// The reply tells the value that is in the way, and never the client's own.
func TestScriptToldWhoIsInTheWay(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		const who = `return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) or redis.call('get', KEYS[1])`
		srv := serveFast(t)
		srv.put("k", "another's", 20*time.Second, 0, 1)
		srv.put("k", "a third's", 20*time.Second, 2)
		srv.dial().do("EVAL", who, "1", "k", "mine", "20000").matches(`"another's"|"a third's"`)
		srv.put("l", "mine", 20*time.Second, 0, 1)
		srv.put("l", "a third's", 20*time.Second, 2)
		srv.dial().do("EVAL", who, "1", "l", "mine", "20000").matches(`"a third's"|-ERR the keys of the script changed 8 times.*`)
	})
}

// So it is for SET NX GET: a client that gets its own token takes itself for the holder.
func TestSetGetToldWhoIsInTheWay(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		const mine = "a token of mine, unique" // of two that as many masters hold, the first in order is told
		srv := serveFast(t)
		c := srv.dial()
		srv.put("k", "another's", 20*time.Second, 0, 1)
		srv.put("k", "a third's", 20*time.Second, 2)
		srv.masters[3].Freeze()
		srv.masters[4].Freeze()
		c.send("SET", "k", mine, "NX", "GET", "PX", "20000")
		eventually(t, "it is denied", func() bool { return srv.opts.Engine.Stats().Denied == 1 })
		srv.masters[3].Thaw() // and does now what it was asked for before the look
		srv.masters[4].Thaw()
		c.read().matches(`"another's"|"a third's"|-NOQUORUM .*`) // whom of the two depends on who has answered in time

		srv = serveFast(t)
		srv.put("k", mine, 20*time.Second, 0, 1) // what is left of an earlier lock
		srv.put("k", "a third's", 20*time.Second, 2)
		srv.dial().do("SET", "k", mine, "NX", "GET", "PX", "20000").matches(`"a third's"|-ERR the key changed 8 times.*|-NOQUORUM .*`)

		srv = serveFast(t)
		srv.put("k", mine, 20*time.Second, 0, 1, 2)
		srv.dial().do("SET", "k", mine, "NX", "GET", "PX", "20000").is(strconv.Quote(mine))

		// A transaction answers with what a quorum holds, or not at all.
		srv.put("l", "another's", 20*time.Second, 0, 1)
		srv.put("l", "a third's", 20*time.Second, 2)
		c = srv.dial()
		c.do("MULTI").is("+OK")
		c.do("SET", "l", mine, "NX", "GET", "PX", "20000").is("+QUEUED")
		c.do("EXEC").matches(`-ERR the key changed 8 times.*|-NOQUORUM .*`)
	})
}

// A key that a script only compares must hold on a quorum what it was compared with, also where the script deletes another:
// for a release alone one master would do.
func TestScriptGuardBesideDelete(t *testing.T) {
	const source = `if redis.call('get', KEYS[1]) == ARGV[1] and redis.call('get', KEYS[2]) == ARGV[1] then redis.call('del', KEYS[2]) return 'held' end return 'not mine'`
	srv := serve(t)
	c := srv.dial()
	srv.put("lock", "mine", 20*time.Second, 0)
	srv.put("queue", "mine", 20*time.Second, 0, 1, 2, 3, 4)
	c.do("EVAL", source, "2", "lock", "queue", "mine").is(`"not mine"`)
	// Other keys: a master that was not needed for the reply may execute the first script only now.
	srv.put("lock2", "mine", 20*time.Second, 0, 1, 2)
	srv.put("queue2", "mine", 20*time.Second, 0, 1, 2, 3, 4)
	c.do("EVAL", source, "2", "lock2", "queue2", "mine").is(`"held"`)
}

// Two of three masters that answer hold the key, and two do not answer: they may hold it, and nobody knows.
func TestReadsWhatNobodyConfirms(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	srv.put("k", "mine", 20*time.Second, 0, 1)
	srv.put("all", "mine", 20*time.Second, 0, 1, 2)
	c.do("EVAL", mineScript, "1", "k", "mine").is(`"not mine"`)
	c.do("GET", "k").is("$nil")
	srv.away(3, 4)
	for name, want := range map[string]string{"k": "-NOQUORUM .*", "all": `"mine"`, "none": `\$nil`} {
		c.do("GET", name).matches(want)
	}
	c.do("EXISTS", "k").err("NOQUORUM")
	c.do("EVAL", mineScript, "1", "k", "mine").err("NOQUORUM")
	c.do("EVAL", `return redis.call('exists', KEYS[1])`, "1", "k").err("NOQUORUM")
	c.do("EVAL", mineScript, "1", "all", "mine").is(`"held"`)
	c.do("EVAL", mineScript, "1", "none", "mine").is(`"not mine"`)
	c.do("EVAL", `return 'nothing of ' .. KEYS[1]`, "1", "k").is(`"nothing of k"`)
	// What changes the key is confirmed by the change.
	c.do("EVAL", `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 5000) end return -1`, "1", "k", "mine").err("NOQUORUM")
}
