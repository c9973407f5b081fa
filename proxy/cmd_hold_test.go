package proxy

// Goal: a lock under HOLD lives as long as its connection, and its client learns of each loss. Method: dialogues with a server over five
// masters in this process.

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock"
)

// kept is what KEEPALIVE answers, in RESP2.
func kept(validity string, held int, lost, leaving string) string {
	return `\["validity" :` + validity + ` "held" :` + strconv.Itoa(held) + ` "lost" \[` + lost + `\] "leaving" :` + leaving + `\]`
}

// until repeats a command until its reply matches, and returns that one.
func (c *client) until(pattern string, args ...string) reply {
	c.t.Helper()
	full := regexp.MustCompile("^(?:" + pattern + ")$")
	var got reply
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if got = c.do(args...); full.MatchString(got.text) {
			return got
		}
	}
	c.t.Fatalf("%q: got %s, want %s", args, got.text, pattern)
	return got
}

func TestHOLD(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		c, other := srv.dial(), srv.dial()

		c.do("KEEPALIVE").matches(kept("0", 0, "", "0"))
		token := c.do("LOCK", "a", "20000", "HOLD").granted(1, 20000)
		c.do("MLOCK", "2", "b", "c", "6s", "hold", "release", "WAIT", "1s").granted(1, 6000)
		c.do("KEEPALIVE").matches(kept(`\d+`, 2, "", "0"))
		c.do("CLIENT", "LIST").matches(`".* bound=2\\n.*"`)
		c.do("LOCKS", "PATTERN", "a").matches(`.*"bound" :1 .*`)
		eventually(t, "the lock is renewed", func() bool { return srv.opts.Engine.Stats().Extended > 0 })
		c.do("KEEPALIVE").matches(kept(`[1-9]\d*`, 2, "", "0"))
		other.do("LOCK", "b", "6s").is("*nil")

		fresh := other.do("HOLD", "a", token, "10s", "RELEASE").granted(1, 10_000)
		if fresh == token {
			t.Error("HOLD keeps the token")
		}
		other.do("HOLD", "a", token, "10s").is("*nil")
		c.do("UNLOCK", "a", token).is(":0")
		c.until(kept("0", 1, `"a"`, "0"), "KEEPALIVE")
		c.do("QUIT").is("+OK")
		other.do("LOCK", "b", "20s", "WAIT", "20s").granted(1, 20_000)
		other.do("UNLOCK", "a", fresh).is(":1")
		other.do("KEEPALIVE").matches(kept("0", 0, "", "0"))
	})
}

func TestHOLDRefusals(t *testing.T) {
	c := serve(t).dial()
	c.do("LOCK", "a", "1s", "RELEASE").is("-ERR RELEASE needs HOLD")
	c.do("LOCK", "a", "1s", "HOLD", "HOLD").is("-ERR syntax error: HOLD is given twice")
	c.do("LOCK", "a", "1s", "HOLD", "RELEASE", "TOKEN", "mine").is("-ERR RELEASE needs a token that is made here: leave TOKEN out")
	c.do("LOCK", "a", "20s", "HOLD", "TOKEN", "lyxqp5mBW7nQwTkQYLr3F_WfVx0.mwpqrck8").is("-ERR the token was made by redlockd: take the lock over with HOLD resource token ttl")
	c.do("HOLD", "a", "token", "1s", "NOW").is("-ERR syntax error: 'NOW' is no option of HOLD; RELEASE, NOTE text and JUSTTOKEN are")
	c.do("HOLD", "a", "token", "1s", "HOLD").is("-ERR syntax error: 'HOLD' is no option of HOLD; RELEASE, NOTE text and JUSTTOKEN are")
	c.do("HOLD", "a", "token", "soon").matches(`-ERR ttl 'soon' is no time.*`)
	c.do("HOLD", "a", "no token", "20s").is("*nil")
	c.do("KEEPALIVE", "5").is("-ERR a silence of 5 ms is outside 1000 … 86400000 ms")
	c.do("KEEPALIVE", "10s", "x").is("-ERR wrong number of arguments for 'keepalive' command: KEEPALIVE [silence]")
	c.do("MULTI").is("+OK")
	c.do("LOCK", "a", "1s", "HOLD").matches("-ERR .*")
	c.do("DISCARD").is("+OK")
	c.do("PUBLISH", redlock.LostChannel, "a").matches("-ERR channels that begin with redlockd: .*")
	c.send("CLIENT", "REPLY", "OFF")
	c.send("LOCK", "a", "1s", "HOLD")
	c.send("CLIENT", "REPLY", "ON")
	c.read().is("+OK")
	c.do("LOCK", "a", "20s").granted(1, 20_000)
	c.do("LOCK", "b", "5s", "HOLD").matches("-ERR ttl of 5000 ms is too short .*")
}

func TestNOTE(t *testing.T) {
	c := serve(t).dial()
	c.do("CLIENT", "SETNAME", "billing").is("+OK")
	token := c.do("LOCK", "a", "20s", "NOTE", "nightly run ü").granted(1, 20_000)
	note := `\["client" "billing" "addr" "127.0.0.1:\d+" "user" "default" "note" "nightly run ü" "since" :\d{10} "held-ms" :\d+\]`
	c.do("LOCKS").matches(`.*"holder" ` + note + `.*`)
	c.do("LOCKINFO", "a").matches(`.*"holders" \[` + note + `\].*`)
	c.do("HOLD", "a", token, "20s", "NOTE", "by hand", "RELEASE").granted(1, 20_000)
	c.do("LOCKS").matches(`.*"note" "by hand".*`)
	c.do("LOCK", "b", "20s", "NOTE").is("-ERR syntax error: NOTE lacks its value")
	c.do("LOCK", "b", "20s", "NOTE", "a", "note", "b").is("-ERR syntax error: note is given twice")
	c.do("LOCK", "b", "20s", "NOTE", "").is("-ERR the note has 0 bytes, it must have 1 … 200")
	c.do("LOCK", "b", "20s", "NOTE", strings.Repeat("x", 201)).is("-ERR the note has 201 bytes, it must have 1 … 200")
	for _, text := range []string{"a\nb", "\x1b[31m", "\xff"} {
		c.do("LOCK", "b", "20s", "NOTE", text).is("-ERR the note has characters that cannot be printed")
	}
}

// A client that has never sent KEEPALIVE goes by its connection.
func TestLossClosesTheConnection(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		subscriber, kind, plain := srv.dial(), srv.dial(), srv.dial()
		subscriber.do("SUBSCRIBE", redlock.LostChannel).matches(`.*"subscribe".*`)
		kind.do("KEEPALIVE").matches(kept("0", 0, "", "0"))
		kind.do("MLOCK", "2", "a", "x", "20s", "HOLD").granted(1, 20_000)
		plain.do("MLOCK", "2", "b", "y", "20s", "HOLD").granted(1, 20_000)
		for i := range srv.masters {
			srv.onMaster(i, "DEL", "a", "b").matches(`:\d`) // a late SET of one of the last two changes nothing
		}
		plain.closed()
		kind.until(kept("0", 0, `"a" "x"`, "0"), "KEEPALIVE")
		got := ""
		for range 4 {
			got += subscriber.read().text
		}
		for _, resource := range []string{"a", "x", "b", "y"} {
			if !strings.Contains(got, `"redlockd:lost" "`+resource+`"`) {
				t.Errorf("messages: got %s, want one of %s", got, resource)
			}
		}
	})
}

// A client that waits for a lock is not silent.
func TestHolderThatWaits(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		c, other := srv.dial(), srv.dial()
		c.do("KEEPALIVE", "10s").matches(kept("0", 0, "", "0"))
		conn := srv.Server.client(1)
		conn.mu.Lock()
		held := conn.session.held
		conn.mu.Unlock()
		eventually(t, "the client is idle", func() bool { return held.Idle() > 0 })
		token := other.do("LOCK", "a", "20s").granted(1, 20_000)
		c.send("LOCK", "a", "20s", "WAIT", "1m")
		eventually(t, "the client waits", conn.order.waits)
		if idle := held.Idle(); idle != 0 {
			t.Errorf("a client that waits is idle for %v", idle)
		}
		other.do("UNLOCK", "a", token).is(":1")
		c.read().granted(1, 20_000)
	})
}

// How a connection ends decides what becomes of what it holds with RELEASE.
func TestHeldLocksAtTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name     string
		end      func(c, other *client)
		released bool
	}{
		{"closed by the client", func(c, _ *client) { c.conn.Close() }, true},
		{"QUIT", func(c, _ *client) { c.do("QUIT").is("+OK") }, true},
		{"killed", func(_, other *client) { other.do("CLIENT", "KILL", "TYPE", "normal").is(":1") }, false},
		{"RESET", func(c, _ *client) { c.do("RESET").is("+RESET") }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				srv := serve(t)
				c, other := srv.dial(), srv.dial()
				c.do("LOCK", "a", "1h", "HOLD", "RELEASE").matches("-ERR ttl .*")
				c.do("LOCK", "a", "50s", "HOLD", "RELEASE").granted(1, 50_000)
				tt.end(c, other)
				eventually(t, "nothing is bound", func() bool { return srv.opts.Engine.Stats().Bound == 0 })
				if tt.released {
					other.do("LOCK", "a", "20s", "WAIT", "20s").granted(1, 20_000)
				} else {
					other.do("LOCK", "a", "1s").is("*nil")
				}
			})
		})
	}
}

// A drain leaves held locks to their clients, with their whole TTL.
func TestDrainLeavesHeldLocks(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		c := srv.dial()
		token := c.do("LOCK", "a", "50s", "HOLD", "RELEASE").granted(1, 50_000)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- srv.Shutdown(ctx) }()
		c.until(kept(`[1-9]\d*`, 1, "", "1"), "KEEPALIVE")
		c.until("-LEAVING .*", "LOCK", "free", "1s") // the engine is told behind that
		c.do("HOLD", "a", token, "20s").matches("-LEAVING .*")
		extended := srv.opts.Engine.Stats().Extended
		cancel()
		if err := <-ended; err == nil {
			t.Error("Shutdown: got nil, want the error of its context")
		}
		c.closed()
		if n := srv.opts.Engine.Stats().Extended; n == extended {
			t.Error("the lock was not renewed at the end of the drain")
		}
		held := 0
		for _, m := range srv.masters {
			if value, _, ok := m.Get("a"); ok && value == token {
				held++
			}
		}
		if held < 3 {
			t.Errorf("%d masters hold the lock when the drain is over, want a quorum", held)
		}
	})
}

// Users with a list of resources hear of the losses of these.
func TestLostChannelOfConfinedUsers(t *testing.T) {
	srv := serve(t, func(o *Options) {
		o.Users = []access.User{{Name: "all", Password: "a"}, {Name: "few", Password: "f", Resources: []string{"mine:*"}}}
	})
	few, all := srv.dialAs("few"), srv.dialAs("all")
	few.do("SUBSCRIBE", redlock.LostChannel).matches(`.*"subscribe".*`)
	all.do("KEEPALIVE").matches(kept("0", 0, "", "0"))
	for _, resource := range []string{"theirs:1", "mine:1"} {
		token := all.do("MLOCK", "2", resource, resource+"b", "20s", "HOLD").granted(1, 20_000) // of which a part is taken over
		srv.dialAs("all").do("HOLD", resource, token, "20s").granted(1, 20_000)
	}
	few.read().matches(`.*"redlockd:lost" "mine:1".*`)
}
