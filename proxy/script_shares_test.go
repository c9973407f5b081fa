package proxy

// Goal: scripts of one user, or of one connection, do not hold up those of others, nor LOCK; what scripts publish is bounded. Method:
// the turns of waiting calls by themselves; and clients that send what would take all, with others beside them.

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/sandbox"
)

// TestScriptTurns: with one run at a time, users take turns, and the connections of a user.
func TestScriptTurns(t *testing.T) {
	sh := newScriptShares(1)
	one, other := new(account), new(account)
	sh.acquireRun(one, 0)
	var order []string
	ran := make(chan struct{})
	waiting := 0
	wait := func(u *account, name string, connection int64) {
		go func() {
			sh.acquireRun(u, connection)
			order = append(order, fmt.Sprint(name, connection))
			sh.releaseRun()
			ran <- struct{}{}
		}()
		waiting++
		eventually(t, "it waits", func() bool {
			sh.mu.Lock()
			defer sh.mu.Unlock()
			n := 0
			for _, u := range sh.users {
				for _, c := range u.connections {
					n += len(c.calls)
				}
			}
			return n == waiting
		})
	}
	for range 3 {
		wait(one, "one", 1)
	}
	wait(one, "one", 2)
	for range 2 {
		wait(other, "other", 3)
	}
	sh.releaseRun()
	for range waiting {
		<-ran
	}
	if want := []string{"one1", "other3", "one2", "other3", "one1", "one1"}; !slices.Equal(order, want) {
		t.Errorf("got the turns %v, want %v", order, want)
	}
	if sh.running != 0 || len(sh.waiting) != 0 || len(sh.users[one].connections) != 0 {
		t.Errorf("%d runs and %d users are left", sh.running, len(sh.waiting))
	}
}

// TestScriptRunsLeaveAProcessor: all runs together have a bound of memory, and one processor is left to the engine.
func TestScriptRunsLeaveAProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for procs, want := range map[int]int{1: 1, 2: 1, 4: 3, 64: runBytesMax / sandbox.DefaultLimits.Bytes} {
		runtime.GOMAXPROCS(procs)
		if got := runsMax(); got != want {
			t.Errorf("with %d processors %d scripts run at a time, want %d", procs, got, want)
		}
	}
}

// TestCompilingWaitsItsTurn: a new text is compiled when it is the turn of its connection, and a known one runs then.
func TestCompilingWaitsItsTurn(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	for range srv.shares.max {
		srv.shares.acquireRun(srv.anonymous, -1)
	}
	c.send("SCRIPT", "LOAD", "return 1")
	waits := func() bool {
		srv.shares.mu.Lock()
		defer srv.shares.mu.Unlock()
		return len(srv.shares.waiting) == 1
	}
	eventually(t, "the compiler waits", waits)
	other := srv.dial()
	other.do("LOCK", "r", "60000", "TOKEN", "x").granted(1, 60000)
	other.do("UNLOCK", "r", "x").is(":1")
	for range srv.shares.max {
		srv.shares.releaseRun()
	}
	if got := c.read(); got.text != `"`+sandbox.SHA("return 1")+`"` {
		t.Errorf("got %s", got.text)
	}
}

// TestPublishedByScripts: one call publishes so much at most, and all calls of a user so much per second; nothing of what is refused has
// happened.
func TestPublishedByScripts(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	const many = `redis.call('set', KEYS[1], 'x', 'nx', 'px', 20000) for i = 1, ARGV[1] do redis.call('publish', 'ch', ARGV[2]) end return 1`
	c.do("EVAL", many, "1", "k", "900", strings.Repeat("x", 30<<10)).err("ERR the script publishes more than 64 messages, or 65536 bytes")
	c.do("EVAL", many, "1", "k", "65", "x").err("ERR the script publishes more than 64 messages")
	c.do("GET", "k").is("$nil")
	now := time.Now()
	sh := newScriptShares(1)
	u := new(account)
	for range messageRate / messageBytesMax {
		if refusal := sh.chargeMessages(u, messageBytesMax, now); refusal != nil {
			t.Fatal(refusal)
		}
	}
	if refusal := sh.chargeMessages(u, 1, now); !strings.HasPrefix(fmt.Sprint(refusal), "ERR the scripts of this user publish too much") {
		t.Errorf("after a second's worth: got %q, want a refusal", refusal)
	}
	if refusal := sh.chargeMessages(new(account), messageBytesMax, now); refusal != nil {
		t.Errorf("another user: %s", refusal)
	}
	if refusal := sh.chargeMessages(u, messageRate/2, now.Add(time.Second/2)); refusal != nil {
		t.Errorf("half a second later: %s", refusal)
	}
	// The whole way: a script that publishes too much changes nothing.
	srv.shares.chargeMessages(srv.anonymous, messageRate, time.Now().Add(time.Hour)) // until an hour has passed nothing comes in
	c.do("EVAL", many, "1", "k", "1", "x").err("ERR the scripts of this user publish too much: at most 1048576 bytes per second")
	c.do("GET", "k").is("$nil")
}

// TestScriptsTurnedOff: with scripts = false all that runs scripts is refused, and nothing else.
func TestScriptsTurnedOff(t *testing.T) {
	srv := newTestServer(t)
	srv.live().NoScripts = true
	srv.serveClients()
	c := srv.dial()
	for _, line := range []string{"EVAL|return 1|0", "EVAL_RO|return 1|0", "EVALSHA|" + sandbox.SHA("return 1") + "|0", "EVALSHA_RO|x|0",
		"SCRIPT|LOAD|return 1", "SCRIPT|EXISTS|x", "FCALL|f|0", "FCALL_RO|f|0", "FUNCTION|LIST"} {
		args := strings.Split(line, "|")
		if got := c.do(args...).text; !strings.Contains(got, args[0]) || !strings.Contains(got, "scripts = false in [compat]") {
			t.Errorf("%s: got %s", line, got)
		}
	}
	c.do("SET", "k", token, "NX", "PX", "20000").is("+OK")
	c.do("DELEX", "k", "IFEQ", token).is(":1")
}
