package proxy

// Goal: what a client sends is done in its order although scripts may take several rounds, others are not held up, and a session or a
// server that ends in the middle leaves nothing behind: no goroutine, no lock that nobody knows of.
// Method: scripts that need a look before they can change anything, sent in one write with what follows; masters that are frozen
// between the rounds.

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/sandbox"
)

// slowExtend needs what is left of the TTL, so a look comes first: two rounds.
const slowExtend = `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + ARGV[2])`

// slowTake likewise: no guess is right about both its keys.
const slowTake = `if redis.call('get', KEYS[2]) ~= 'open' then return -1 end return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', 50000) and 1 or 0`

// take is a call of slowTake.
func take(key, token string) []string { return []string{"EVAL", slowTake, "2", key, "gate", token} }

// open puts the second key of slowTake on the masters.
func (srv *testServer) open() { srv.put("gate", "open", time.Minute, 0, 1, 2, 3, 4) }

func TestScriptsInOrder(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		srv.open()
		c := srv.dial()
		for _, source := range []string{slowTake, slowExtend, releaseScript} {
			c.do("SCRIPT", "LOAD", source)
		}
		eval := func(source, key string, args ...string) string {
			if source == slowTake {
				return frameOf(take(key, token)...)
			}
			return frameOf(append([]string{"EVALSHA", sandbox.SHA(source), "1", key, token}, args...)...)
		}
		for range 10 {
			var input strings.Builder
			var want []string
			for _, step := range []struct{ frame, want string }{
				{eval(slowTake, "k"), ":1"}, {eval(slowTake, "other"), ":1"}, {eval(slowExtend, "k", "1000"), ":1"},
				{frameOf("GET", "k"), `"` + token + `"`}, {frameOf("UNLOCK", "k", token), ":1"},
				{eval(slowTake, "k"), ":1"}, {frameOf("PING"), `\+PONG`}, {frameOf("DELEX", "k", "IFEQ", token), ":1"},
				{eval(slowTake, "k"), ":1"}, {frameOf("EXTEND", "k", token, "9000"), `:\d+`}, {eval(releaseScript, "k"), ":1"}, {eval(releaseScript, "k"), ":0"},
				{eval(slowTake, "k"), ":1"}, {frameOf("WATCH", "k"), `\+OK`}, {frameOf("MULTI"), `\+OK`}, {frameOf("DEL", "k"), `\+QUEUED`}, {frameOf("EXEC"), `\[:1\]`},
				{frameOf("LOCK", "k", "20000", "TOKEN", "native"), `\["native" :\d+\]`}, {eval(slowTake, "k"), ":0"}, {frameOf("UNLOCK", "k", "native"), ":1"},
				{eval(releaseScript, "other"), ":1"},
			} {
				input.WriteString(step.frame)
				want = append(want, step.want)
			}
			c.raw(input.String())
			for _, want := range want {
				c.read().matches(want)
			}
		}
		srv.onAll(":1", "DEL", "gate")
		srv.noKeys()
	})
}

// A command that waits for a script of the same client does so on the reader: what ends the session must end that too, and nothing is
// locked of which nobody would know. (That the client has closed is not noticed before the reader reads on.)
func TestScriptsOfASessionThatEnds(t *testing.T) {
	seconds := map[string]string{
		"EVAL": frameOf(take("k", "second")...), "SET": frameOf("SET", "k", "second", "NX", "PX", "60000"), "SET GET": frameOf("SET", "k", "second", "NX", "GET", "PX", "60000"),
		"LOCK": frameOf("LOCK", "k", "60000", "TOKEN", "second"), "LOCK WAIT": frameOf("LOCK", "k", "60000", "TOKEN", "second", "WAIT", "5000"),
		"MLOCK": frameOf("MLOCK", "2", "k", "l", "60000", "TOKEN", "second"),
	}
	for _, end := range []struct {
		name string
		how  func(srv *testServer, c *client, id string)
	}{
		{"it is killed", func(srv *testServer, _ *client, id string) { srv.dial().do("CLIENT", "KILL", "ID", id).is(":1") }},
		{"CLIENT UNBLOCK", func(srv *testServer, _ *client, id string) {
			srv.dial().do("CLIENT", "UNBLOCK", id).is(":0")
			srv.dial().do("CLIENT", "KILL", "ID", id).is(":1")
		}},
	} {
		for name, second := range seconds {
			t.Run(end.name+", "+name, func(t *testing.T) {
				srv := serve(t)
				srv.open()
				c := srv.dial()
				id := c.do("CLIENT", "ID").matches(`:(\d+)`)[0]
				srv.freeze()
				c.raw(frameOf(take("k", token)...) + second + frameOf("SET", "k", "third", "NX", "PX", "60000") + frameOf("PING"))
				eventually(t, "the second waits for the first", func() bool {
					return slices.ContainsFunc(srv.clients(), func(conn *connection) bool { return conn.order.length.Load() > 0 && conn.inFlight.Load() > 1 })
				})
				end.how(srv, c, id)
				srv.thaw()
				eventually(t, "the session is gone", func() bool { return len(srv.clients()) <= 2 })
				other := srv.dial()
				eventually(t, "nothing is locked for nobody", func() bool { return other.do("EXISTS", "k", "l").text == ":0" })
				other.do(take("k", "other's")...).is(":1")
			})
		}
	}
}

// A session can be killed, and its scripts end, after the reader has looked whether it lives and before the command is carried out.
func TestSessionThatEndedBeforeItsCommand(t *testing.T) {
	for _, command := range [][]string{
		take("k", "late"), {"SET", "k", "late", "NX", "PX", "60000"}, {"SET", "k", "late", "NX", "GET", "PX", "60000"},
		{"LOCK", "k", "60000", "TOKEN", "late"}, {"MLOCK", "2", "k", "l", "60000", "TOKEN", "late"},
	} {
		t.Run(command[0], func(t *testing.T) {
			srv := serve(t)
			srv.open()
			c := srv.dial()
			id := c.do("CLIENT", "ID").matches(`:(\d+)`)[0]
			conn := srv.clients()[0]
			other := srv.dial()
			other.do("CLIENT", "KILL", "ID", id).is(":1")
			eventually(t, "its reader has ended", func() bool { return len(srv.clients()) == 1 })

			conn.batch = getChunk()
			args := make([][]byte, len(command))
			for i, arg := range command {
				args[i] = []byte(arg)
			}
			conn.session.dispatch(args)
			eventually(t, "it is answered", func() bool { return conn.inFlight.Load() == 0 })
			eventually(t, "nothing is locked for nobody", func() bool { return other.do("EXISTS", "k", "l").text == ":0" })
		})
	}
}

// The masters answer when the server is closed: the script is not run.
func TestScriptsWhenTheServerCloses(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		srv.open()
		srv.freeze()
		srv.dial().send(take("k", token)...)
		synctest.Wait()
		conn := srv.clients()[0]
		if n := conn.inFlight.Load(); n != 1 {
			t.Fatalf("%d commands are in flight, want the script", n)
		}
		srv.Close()
		srv.thaw()
		eventually(t, "the script is answered", func() bool { return conn.inFlight.Load() == 0 })
		if keys := srv.keysOf("k"); len(keys) != 0 || srv.shares.running != 0 {
			t.Errorf("locked for nobody: %q; %d scripts run", keys, srv.shares.running)
		}
	})
}

// What drains grants no lock to a script, and lets one release.
func TestScriptsWhileDraining(t *testing.T) {
	srv := serve(t)
	srv.open()
	c := srv.dial()
	c.do(take("k", token)...).is(":1")
	c.do("EVAL", releaseScript, "1", "other", token).is(":0")
	done := make(chan error)
	go func() { done <- srv.Shutdown(t.Context()) }()
	eventually(t, "it drains", func() bool {
		return strings.HasPrefix(c.do("EVAL", acquireScript, "1", "another", token, "1000").text, "-LEAVING")
	})
	c.do(take("free", token)...).err("LEAVING")
	c.do("EVAL", slowExtend, "1", "k", token, "1000").is(":1")
	c.do("EVAL", releaseScript, "1", "k", token).is(":1")
	if err := <-done; err != nil {
		t.Error(err)
	}
}
