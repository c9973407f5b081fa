package proxy

// Goal: LOCK … SHARED keeps its contract: readers beside each other, never beside a writer, whichever command that came with. What is refused is
// in TestNativeCommandsRefuse. Method: dialogues with a server over five masters in this process.

import (
	"fmt"
	"strings"
	"testing"
)

func TestSHARED(t *testing.T) {
	srv := serve(t)
	c, other := srv.dial(), srv.dial()
	for i, client := range []*client{c, other} {
		client.do("LOCK", "file", "20000", "shared", "TOKEN", fmt.Sprint("t", i)).granted(1, 20000)
	}
	c.do("LOCK", "file", "20000", "SHARED").granted(1, 20000)
	c.do("LOCK", "file", "20000").is("*nil")
	c.do("LOCK", "file", "20000", "WAIT", "20").is("*nil")
	c.do("MLOCK", "2", "a", "file", "20000").is("*nil")
	c.do("SET", "file", "w", "NX", "PX", "20000").is("$nil")
	c.do("GET", "file").matches(`-WRONGTYPE .*`)
	c.do("EVAL", "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end", "1", "file", "nobody").matches(`-WRONGTYPE .* readers of LOCK … SHARED.*`)

	c.do("LOCKINFO", "file").matches(`\["resource" "file" "held" :1 "validity-ms" :1\d\d\d\d "token-digest" \$nil "votes" \[.*"readers" :3.*\] .*"mode" "shared" "readers" :3 .* "waiters" :0 .*\]`)
	if n := strings.Count(c.do("LOCKS", "PATTERN", "file").text, `"mode" "shared"`); n != 3 {
		t.Errorf("LOCKS lists %d readers, want 3", n)
	}
	other.do("EXTEND", "file", "t0", "30000").matches(`:\d+`)
	other.do("UNLOCK", "file", "t0").is(":1")
	other.do("UNLOCK", "file", "t0").is(":0")
	other.do("EXTEND", "file", "t0", "30000").is(":0")
	other.do("UNLOCK", "file", "t1").is(":1")
	c.do("LOCKINFO", "file").matches(`.* "mode" "shared" "readers" :1 .*\]`)

	// A writer waits for the readers that there are, and new ones for the writer.
	other.send("LOCK", "file", "20000", "WAIT", "20000", "TOKEN", "writer")
	srv.waiting(1)
	eventually(t, "readers are kept out", func() bool {
		r := c.do("LOCK", "file", "1000", "SHARED", "TOKEN", "late").text
		if r != "*nil" {
			c.do("UNLOCK", "file", "late")
		}
		return r == "*nil"
	})
	reader := srv.dial()
	reader.send("LOCK", "file", "20000", "SHARED", "WAIT", "20000", "TOKEN", "behind")
	srv.waiting(2)
	c.do("LOCKINFO", "file").matches(`.* "waiters" :2 .*`)
}

// A reader's lock is renewed as any lock is, and UNLOCK ends it.
func TestSHAREDUnderHOLD(t *testing.T) {
	srv := serve(t)
	first, second, writer := srv.dial(), srv.dial(), srv.dial()
	own := first.do("LOCK", "file", "60000", "SHARED", "HOLD", "NOTE", "report").granted(1, 60000)
	held := second.do("LOCK", "file", "60000", "SHARED", "HOLD").matches(`\["([^"]+)" :\d+\]`)[0]
	first.do("KEEPALIVE").matches(`\["validity" :[345]\d\d\d\d "held" :1 .*\]`)
	second.do("LOCK", "file", "60000", "SHARED", "TOKEN", held, "HOLD").err("ERR the token was made by redlockd: take the lock over with HOLD resource token ttl")
	held = second.do("HOLD", "file", held, "60000").granted(1, 60000)
	writer.send("LOCK", "file", "20000", "WAIT", "60000", "TOKEN", "writer")
	srv.waiting(1)
	first.do("UNLOCK", "file", own).is(":1")
	second.do("UNLOCK", "file", held).is(":1")
	writer.read().granted(1, 20000) // in time: the TTLs of the readers are beyond the patience of the test
}
