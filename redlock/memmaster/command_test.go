// Goal: commands that the differential test cannot send to a real server, or not at random: authentication, RESP3,
// connections that kill each other, tracking, Redis 8.4's conditions. Method: dialogues in raw RESP.
package memmaster

import (
	"strings"
	"testing"
	"time"
)

func TestAuth(t *testing.T) {
	m := newMaster(t, Options{Password: "secret", Users: map[string]string{"ann": "hers"}})
	c := dial(t, m)
	c.expect("get a", "-NOAUTH Authentication required.|")
	c.expect("nope", "-ERR unknown command 'nope', with args beginning with: |")
	c.expect("hello 2", "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time|")
	c.expect("auth wrong", "-WRONGPASS invalid username-password pair or user is disabled.|")
	c.expect("auth bob hers", "-WRONGPASS invalid username-password pair or user is disabled.|")
	c.expect("get a", "-NOAUTH Authentication required.|")
	c.expect("auth secret", "+OK|")
	c.expect("get a", "$-1|")
	c.expect("reset", "+RESET|")
	c.expect("get a", "-NOAUTH Authentication required.|")
	c.expect("auth ann hers", "+OK|")
	c.expect("get a", "$-1|")

	c = dial(t, m)
	if got := c.do("hello", "3", "auth", "ann", "hers", "setname", "x"); !strings.HasPrefix(got, "%7\r\n") {
		t.Errorf("HELLO 3 AUTH: got %q, want a map of 7", got)
	}
	c.expect("client getname", "$1|x|")
}

func TestUnauthenticatedTransaction(t *testing.T) {
	// A refused command must spoil the transaction that it came in.
	m := newMaster(t, Options{})
	c := dial(t, m)
	c.expect("multi", "+OK|")
	c.expect("get", "-ERR wrong number of arguments for 'get' command|")
	c.expect("set a 1", "+QUEUED|")
	c.expect("exec", "-EXECABORT Transaction discarded because of previous errors.|")
	c.expect("exists a", ":0|")
}

func TestIFEQ(t *testing.T) {
	m := newMaster(t, Options{IFEQ: true})
	c := dial(t, m)
	c.expect("set a new ifeq old", "$-1|") // absent: equal to nothing
	c.expect("exists a", ":0|")
	c.expect("set a old ifne x px 60000", "+OK|")
	c.expect("set a new ifeq wrong", "$-1|")
	c.expect("set a new ifeq old keepttl get", "$3|old|")
	c.expect("get a", "$3|new|")
	if _, pttl, _ := m.Get("a"); pttl <= 0 {
		t.Errorf("PTTL after KEEPTTL: got %v, want > 0", pttl)
	}
	c.expect("set a x ifeq new nx", "-ERR syntax error|")
	c.expect("set a x ifeq", "-ERR syntax error|")
	c.expect("delex a ifeq wrong", ":0|")
	c.expect("delex a ifne new", ":0|")
	c.expect("delex a ifeq new", ":1|")
	c.expect("delex a ifeq new", ":0|")
	c.expect("hset h a 1", ":1|")
	c.expect("set h x ifeq 1", "-WRONGTYPE Operation against a key holding the wrong kind of value|")
	c.expect("delex h ifeq 1", "-WRONGTYPE Operation against a key holding the wrong kind of value|")
	c.expect("delex h", ":1|")
	if got := c.do("info", "server"); !strings.Contains(got, "redis_version:8.4.0\r\n") {
		t.Errorf("INFO server: got %q, want redis_version:8.4.0", got)
	}

	c = dial(t, newMaster(t, Options{}))
	c.expect("set a 1 ifeq x", "-ERR syntax error|")
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
	b.expect("client kill id 2", ":0|") // SKIPME is the default
	b.expect("client kill id 2 skipme no", ":1|")
	b.expectClosed()
}

func TestQuitExecutesNothingMore(t *testing.T) {
	m := newMaster(t, Options{})
	c := dial(t, m)
	c.conn.Write([]byte("set a 1\r\nquit\r\nset b 1\r\n"))
	c.expectPush("+OK|")
	c.expectPush("+OK|")
	c.expectClosed()
	if got := m.Keys(); len(got) != 1 {
		t.Errorf("keys: got %q, want only a", got)
	}
}

func TestProtocolErrorAfterGoodCommands(t *testing.T) {
	m := newMaster(t, Options{})
	c := dial(t, m)
	c.conn.Write([]byte("PING\r\n\r\n*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n*1\r\n$9223372036854775807\r\nPING\r\n"))
	c.expectPush("+PONG|")
	c.expectPush("+PONG|")
	c.expectPush("-ERR Protocol error: invalid bulk length|")
	c.expectClosed()
}

func TestPubSub(t *testing.T) {
	m := newMaster(t, Options{})
	a, b, c := dial(t, m), dial(t, m), dial(t, m)
	a.expect("subscribe x", "*3|$9|subscribe|$1|x|:1|")
	if got := b.do("hello", "3"); got[0] != '%' {
		t.Fatalf("HELLO 3: got %q", got)
	}
	b.expect("subscribe x", ">3|$9|subscribe|$1|x|:1|")
	c.expect("publish x hello", ":2|")
	a.expectPush("*3|$7|message|$1|x|$5|hello|")
	b.expectPush(">3|$7|message|$1|x|$5|hello|")
	b.expect("unsubscribe", ">3|$11|unsubscribe|$1|x|:0|")
	b.expect("get x", "_|")
}

func TestSlowSubscriberIsCutOff(t *testing.T) {
	m := newMaster(t, Options{})
	a, b := dial(t, m), dial(t, m)
	a.expect("subscribe x", "*3|$9|subscribe|$1|x|:1|")
	message := strings.Repeat("x", streamBytesMax/4)
	for i := range 10 {
		if got := b.do("publish", "x", message); got == ":0\r\n" {
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
	lane.expect("client tracking on bcast", "-ERR CLIENT TRACKING bcast is not supported here; REDIRECT, NOLOOP and OPTIN are|")
	invalid := func(key string) { sub.expectPush("*3|$7|message|$20|__redis__:invalidate|*1|$1|" + key + "|") }

	lane.expect("get a", "$-1|")
	other.expect("set a 1", "+OK|")
	invalid("a")
	other.expect("set a 2", "+OK|") // told once per read
	lane.expect("mget b c", "*2|$-1|$-1|")
	lane.expect("set b 1", "+OK|") // NOLOOP
	lane.expectArgs("$-1|", "eval", "return redis.call('get', KEYS[1])", "1", "d")
	other.expect("multi", "+OK|")
	other.expect("set c 1", "+QUEUED|")
	other.expect("set d 1", "+QUEUED|")
	other.expect("exec", "*2|+OK|+OK|")
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

func TestTrackingPush(t *testing.T) {
	m := newMaster(t, Options{})
	c := dial(t, m)
	c.do("hello", "3")
	c.expect("client tracking on", "+OK|")
	c.expect("get a", "_|")
	c.expect("set a 1", "+OK|")
	c.expectPush(">2|$10|invalidate|*1|$1|a|")
	c.expect("client tracking off", "+OK|")
	c.expect("get a", "$1|1|")
	c.expect("set a 1", "+OK|")
	c.expect("ping", "+PONG|") // and no push before it
}

func TestReplica(t *testing.T) {
	m := newMaster(t, Options{})
	c := dial(t, m)
	c.expect("set a 1", "+OK|")
	c.expect("replicaof 10.0.0.1 6379", "+OK|")
	c.expect("get a", "$1|1|")
	c.expect("set a 2", "-READONLY You can't write against a read only replica.|")
	if got := c.do("eval", "return redis.call('del', KEYS[1])", "1", "a"); !strings.HasPrefix(got, "-READONLY You can't write against a read only replica. script: ") {
		t.Errorf("script that writes: got %q, want READONLY", got)
	}
	c.expect("role", "*5|$5|slave|$8|10.0.0.1|:6379|$7|connect|:-1|")
	if got := c.do("info", "replication"); !strings.Contains(got, "\r\nrole:slave\r\n") {
		t.Errorf("INFO replication: got %q, want role:slave", got)
	}
	c.expect("replicaof no one", "+OK|")
	c.expect("set a 2", "+OK|")
}

func TestConfig(t *testing.T) {
	m := newMaster(t, Options{Config: map[string]string{"maxmemory": "1mb", "appendonly": "yes"}})
	c := dial(t, m)
	c.expect("config get maxmemory", "*2|$9|maxmemory|$7|1048576|")
	c.expect("config set maxmemory-policy allkeys-lru maxmemory 2gb", "+OK|")
	c.expect("config set maxmemory 5 maxmemory-policy no-such", "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction|")
	c.expect("config get maxmemory*", "*4|$9|maxmemory|$10|2147483648|$16|maxmemory-policy|$11|allkeys-lru|")
	info := c.do("info", "memory", "persistence")
	for _, want := range []string{"maxmemory:2147483648\r\n", "maxmemory_policy:allkeys-lru\r\n", "aof_enabled:1\r\n"} {
		if !strings.Contains(info, want) {
			t.Errorf("INFO: got %q, want %q in it", info, want)
		}
	}
	m.Restart()
	c = dial(t, m)
	c.expect("config get maxmemory*", "*4|$9|maxmemory|$7|1048576|$16|maxmemory-policy|$10|noeviction|")
}

func TestInfo(t *testing.T) {
	m := newMaster(t, Options{})
	c := dial(t, m)
	dial(t, m).expect("set a 1 px 60000", "+OK|")
	c.expect("select 2", "+OK|")
	c.expect("set b 1", "+OK|")
	m.StepClock(90 * time.Second)
	info := map[string]string{}
	for line := range strings.Lines(c.do("info")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	for name, want := range map[string]string{
		"redis_version": "7.0.15", "redis_mode": "standalone", "run_id": m.runID, "tcp_port": "0",
		"uptime_in_seconds": "90", // a step of the wall clock moves it, as in Redis
		"connected_clients": "2", "maxmemory": "0", "maxmemory_policy": "noeviction", "loading": "0", "aof_enabled": "0",
		"role": "master", "cluster_enabled": "0", "db2": "keys=1,expires=0,avg_ttl=0",
	} {
		if info[name] != want {
			t.Errorf("INFO %s: got %q, want %q", name, info[name], want)
		}
	}
	if _, ok := info["db0"]; ok { // its only key has expired
		t.Errorf("INFO db0: got %q, want no line", info["db0"])
	}
	if len(m.runID) != 40 {
		t.Errorf("run_id: got %q, want 40 digits", m.runID)
	}
}

func TestHandshakeLeftovers(t *testing.T) {
	m := newMaster(t, Options{})
	c := dial(t, m)
	c.expect("client setinfo lib-name go-redis", "+OK|")
	c.expect("client setinfo lib-ver 9.1", "+OK|")
	c.expect("client setinfo nope 9.1", "-ERR Unrecognized option 'nope'|")
	c.expect("client maint_notifications on", "-ERR unknown subcommand 'maint_notifications'. Try CLIENT HELP.|")
	c.expect("command info get nope", "*2|*6|$3|get|:2|*1|+readonly|:1|:1|:1|*-1|")
	c.expect("command docs get", "*0|")
	count, all := c.do("command", "count"), c.do("command")
	if got, want := strings.SplitN(all, "\r\n", 2)[0], "*"+strings.TrimSpace(count[1:]); got != want {
		t.Errorf("COMMAND: got %s elements, want %s", got, want)
	}
}

func TestOptionsThatRedisRefuses(t *testing.T) {
	for _, config := range []map[string]string{{"no-such": "1"}, {"maxmemory": "much"}, {"maxmemory": "bk"}, {"databases": "3"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("New with Config %v: got a master, want a panic", config)
				}
			}()
			New(Options{Config: config}).Close()
		}()
	}
}

func TestScriptLimits(t *testing.T) {
	m := newMaster(t, Options{})
	c := dial(t, m)
	got := c.do("eval", "while true do pcall(function() while true do end end) end", "0")
	if want := "-ERR user_script:1: script stopped after 2000000 instructions script: "; !strings.HasPrefix(got, want) {
		t.Errorf("endless loop: got %q, want %q…", got, want)
	}
	c.expectArgs(":1|", "eval", "return 1", "0") // the state is of use again
	got = c.do("eval", "local function f() return 1 + f() end return f()", "0")
	if !strings.HasPrefix(got, "-ERR ") {
		t.Errorf("endless recursion: got %q, want an error", got)
	}
	keys := make([]string, 5000)
	for i := range keys {
		keys[i] = "k"
	}
	got = c.do(append([]string{"eval", "return #redis.call('mget', unpack(KEYS))", "5000"}, keys...)...)
	if got != ":5000\r\n" {
		t.Errorf("unpack of 5000 keys: got %q, want :5000", got)
	}
	for i := range scriptsMax {
		m.mu.Lock()
		m.scripts.load("return " + strings.Repeat(" ", i))
		m.mu.Unlock()
	}
	c.expect("script exists e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "*1|:0|") // "return 1", the oldest
	if got, want := len(m.scripts.cached), scriptsMax; got != want {
		t.Errorf("cached scripts: got %d, want %d", got, want)
	}
}

func TestGlob(t *testing.T) {
	for _, test := range []struct {
		glob, s string
		want    bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"a*c", "abbc", true}, {"a*c", "ab", false},
		{"**a", "ba", true}, {"a?c", "abc", true}, {"a?c", "ac", false}, {"?", "", false}, {"[a-c]x", "bx", true},
		{"[c-a]x", "bx", true}, {"[^a-c]x", "bx", false}, {"[^a-c]x", "dx", true}, {"[ab", "b", true}, {"[", "a", false},
		{`[\]]`, "]", true}, {`\*`, "*", true}, {`\*`, "a", false}, {`a\`, `a\`, true}, {"h*llo*d", "hello world", true},
	} {
		if got := globMatch(test.glob, test.s); got != test.want {
			t.Errorf("globMatch(%q, %q): got %v, want %v", test.glob, test.s, got, test.want)
		}
	}
}
