// Goal: commands that the differential test cannot send to a real server, or not at random:
// authentication, connections that kill each other, tracking, Redis 8.4's conditions. Method: dialogues
// in raw RESP.
package memmaster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/resp"
	"redlockd/redlock/sandbox"
)

func TestAuth(t *testing.T) {
	m := newMaster(t, Options{Password: "secret"})
	c := dial(t, m)
	c.expect("get a", "-NOAUTH Authentication required.|")
	c.expect("nope", "-ERR unknown command 'nope', with args beginning with: |")
	c.expect("hello 2", "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time|")
	c.expect("hello 2 auth default wrong", "-WRONGPASS invalid username-password pair or user is disabled.|")
	c.expect("auth wrong", "-WRONGPASS invalid username-password pair or user is disabled.|")
	c.expect("auth bob secret", "-WRONGPASS invalid username-password pair or user is disabled.|")
	c.expect("auth default secret x", "-ERR syntax error|")
	c.expect("hello 2 auth bob secret", "-WRONGPASS invalid username-password pair or user is disabled.|")
	c.expect("get a", "-NOAUTH Authentication required.|")
	if got := c.Do("hello", "2", "auth", "default", "secret"); !strings.HasPrefix(got, "*14\r\n") {
		t.Errorf("HELLO 2 AUTH: got %q, want an array of 14", got)
	}
	c.expect("get a", "$-1|")
}

func TestDeleteIfEqual(t *testing.T) {
	m := newMaster(t, Options{IFEQ: true})
	c := dial(t, m)
	c.expect("set a new", "+OK|")
	c.expect("delex a ifeq wrong", ":0|")
	c.expect("delex a ifne wrong", "-ERR Invalid condition. Use IFEQ|")
	c.expect("delex a ifeq new", ":1|")
	c.expect("delex a ifeq new", ":0|")
	c.expect("zadd z 1 a", ":1|")
	c.expect("delex z ifeq 1", "-WRONGTYPE Operation against a key holding the wrong kind of value|")
	if got := c.Do("info", "server"); !strings.Contains(got, "redis_version:8.4.0\r\n") {
		t.Errorf("INFO server: got %q, want redis_version:8.4.0", got)
	}

	c = dial(t, newMaster(t, Options{}))
	c.expect("delex a ifeq x", "-ERR unknown command 'delex', with args beginning with: 'a' 'ifeq' 'x' |")
	c.expect("delifeq a x", "-ERR unknown command 'delifeq', with args beginning with: 'a' 'x' |")

	c = dial(t, newMaster(t, Options{DELIFEQ: true}))
	c.expect("set a 1", "+OK|")
	c.expect("delifeq a x", ":0|")
	c.expect("delifeq a 1", ":1|")
	c.expect("delifeq a 1", ":0|")
}

func TestClientKill(t *testing.T) {
	m := newMaster(t, Options{})
	a, b := dial(t, m), dial(t, m)
	a.expect("client id", ":1|")
	b.expect("client id", ":2|")
	b.expect("client kill id 1", ":1|")
	a.expectClosed()
	b.expect("client kill id 1", ":0|")
	b.expect("client kill id 2", ":0|") // itself
}

// What redlockd refuses a master for can be brought about, and a restart forgets it.
func TestInfo(t *testing.T) {
	m := newMaster(t, Options{})
	c := dial(t, m)
	info := func() map[string]string {
		info := map[string]string{}
		for line := range strings.Lines(c.Do("info")) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			info[name] = value
		}
		return info
	}
	c.expect("config set maxmemory-policy allkeys-lru maxmemory 2147483648", "+OK|")
	c.expect("config set maxmemory 5 maxmemory-policy no-such", "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy')|")
	got := info()
	for name, want := range map[string]string{
		"redis_version": "7.0.15", "redis_mode": "standalone", "run_id": m.runID, "role": "master", "cluster_enabled": "0",
		"maxmemory": "2147483648", "maxmemory_policy": "allkeys-lru",
	} {
		if got[name] != want {
			t.Errorf("INFO %s: got %q, want %q", name, got[name], want)
		}
	}
	if len(m.runID) != 40 {
		t.Errorf("run_id: got %q, want 40 digits", m.runID)
	}
	c.expect("replicaof localhost 1", "+OK|")
	if got := info()["role"]; got != "slave" {
		t.Errorf("INFO role of a replica: got %q, want slave", got)
	}
	m.Restart()
	c = dial(t, m)
	if got := info(); got["maxmemory"] != "0" || got["maxmemory_policy"] != "noeviction" {
		t.Errorf("after a restart: got maxmemory %q, %q, want 0, noeviction", got["maxmemory"], got["maxmemory_policy"])
	}
}

func TestProtocolErrorAfterGoodCommands(t *testing.T) {
	m := newMaster(t, Options{})
	c := dial(t, m)
	c.Conn.Write([]byte("PING\r\n\r\n*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n*1\r\n$9223372036854775807\r\nPING\r\n"))
	c.expectPush("+PONG|")
	c.expectPush("+PONG|")
	c.expectPush("-ERR Protocol error: too big bulk length string: a header line is at most 16 bytes|")
	c.expectClosed()
}

func TestSlowSubscriberIsCutOff(t *testing.T) {
	m := newMaster(t, Options{})
	a, b := dial(t, m), dial(t, m)
	a.expect("subscribe x", "*3|$9|subscribe|$1|x|:1|")
	message := strings.Repeat("x", streamBytesMax/4)
	for i := range 10 {
		if got := b.Do("publish", "x", message); got == ":0\r\n" {
			return
		} else if i == 9 {
			t.Errorf("publish %d: got %q, want :0 as the subscriber reads nothing", i, got)
		}
	}
}

func TestTracking(t *testing.T) {
	m := newMaster(t, Options{})
	sub, lane, other := dial(t, m), dial(t, m), dial(t, m)
	sub.expect("subscribe __redis__:invalidate", "*3|$9|subscribe|$20|__redis__:invalidate|:1|")
	lane.expect("client tracking on redirect 99", "-ERR The client ID you want redirect to does not exist|")
	lane.expect("client tracking on redirect 1 noloop", "+OK|")
	invalid := func(key string) { sub.expectPush("*3|$7|message|$20|__redis__:invalidate|*1|$1|" + key + "|") }

	lane.expect("get a", "$-1|")
	other.expect("set a 1", "+OK|")
	invalid("a")
	other.expect("set a 2", "+OK|") // told once per read
	lane.expect("mget b c", "*2|$-1|$-1|")
	lane.expect("set b 1", "+OK|") // NOLOOP
	lane.expectArgs("$-1|", "eval", "return redis.call('get', KEYS[1])", "1", "d")
	other.expect("set c 1", "+OK|")
	other.expect("set d 1", "+OK|")
	invalid("c")
	invalid("d")
	lane.expect("get a", "$1|2|")
	other.expect("flushall", "+OK|")
	sub.expectPush("*3|$7|message|$20|__redis__:invalidate|$-1|")

	// A failed SET NX reads nothing; PEXPIRE is a change; so is expiry.
	other.expect("set a 1", "+OK|")
	lane.expect("set a 2 nx", "$-1|")
	other.expect("del a", ":1|")
	lane.expect("get a", "$-1|")
	other.expect("set a 1", "+OK|")
	invalid("a")
	lane.expect("get a", "$1|1|")
	other.expect("pexpire a 60000", ":1|")
	invalid("a")
	lane.expect("get a", "$1|1|")
	m.StepClock(60001 * time.Millisecond)
	other.expect("ping", "+PONG|") // the sweep of any command
	invalid("a")
}

func TestScriptLimits(t *testing.T) {
	m := newMaster(t, Options{})
	c := dial(t, m)
	got := c.Do("eval", "while true do pcall(function() while true do end end) end", "0")
	if want := "-ERR script stopped after 2000000 instructions script: "; !strings.HasPrefix(got, want) {
		t.Errorf("endless loop: got %q, want %q…", got, want)
	}
	c.expectArgs(":1|", "eval", "return 1", "0") // nothing is left of it
	keys := make([]string, 5000)
	for i := range keys {
		keys[i] = "k"
	}
	got = c.Do(append([]string{"eval", "return #redis.call('mget', unpack(KEYS))", "5000"}, keys...)...)
	if got != ":5000\r\n" {
		t.Errorf("unpack of 5000 keys: got %q, want :5000", got)
	}
	for i := range scriptsMax {
		m.mu.Lock()
		m.scripts.load("return " + strings.Repeat(" ", i))
		m.mu.Unlock()
	}
	c.expect("evalsha e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", "-NOSCRIPT No matching script. Please use EVAL.|") // "return 1", the oldest
	if got, want := len(m.scripts.cached), scriptsMax; got != want {
		t.Errorf("cached scripts: got %d, want %d", got, want)
	}
}

// What masters of a process share of scripts is bounded, and no master executes what it was not sent.
func TestScriptsAreCompiledOnce(t *testing.T) {
	one, other := newMaster(t, Options{}), newMaster(t, Options{})
	load := func(m *Master, text string) *sandbox.Script {
		m.mu.Lock()
		defer m.mu.Unlock()
		_, script, err := m.scripts.load(text)
		if err != nil {
			t.Fatal(err)
		}
		return script
	}
	const text = "return 'compiled once'"
	first := load(one, text)
	dial(t, other).expect("evalsha "+sandbox.SHA(text)+" 0", "-NOSCRIPT No matching script. Please use EVAL.|")
	if load(other, text) != first {
		t.Error("the other master has compiled it again")
	}
	for i := range compiledMax + 1 {
		load(one, fmt.Sprint("return ", i))
	}
	if n := len(compiled.scripts); n > compiledMax {
		t.Errorf("%d compiled scripts are kept, more than %d", n, compiledMax)
	}
}

// SCAN names each key once, in steps of any size, and none that has expired or come behind the cursor.
func TestScanInSteps(t *testing.T) {
	m := newMaster(t, Options{})
	c := dial(t, m)
	for i := range 20 {
		c.expectArgs("+OK|", "set", fmt.Sprint("key", i), "v")
	}
	c.expectArgs("+OK|", "set", "short", "v", "px", "1")
	m.StepClock(time.Second)
	for _, count := range []string{"1", "3", "20", "1000"} {
		times, cursor := map[string]int{}, "0"
		for range 30 {
			reply, _ := resp.CutValue([]byte(c.Do("scan", cursor, "count", count)))
			for _, key := range reply.Elems[1].Elems {
				times[key.Text]++
			}
			if cursor = reply.Elems[0].Text; cursor == "0" {
				break
			}
		}
		for i := range 20 {
			if name := fmt.Sprint("key", i); times[name] != 1 {
				t.Errorf("count %s: %s is named %d times", count, name, times[name])
			}
		}
		if len(times) != 20 || cursor != "0" {
			t.Errorf("count %s: %d keys, and the cursor is %s at the end", count, len(times), cursor)
		}
	}
}
