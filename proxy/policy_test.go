package proxy

// Goal: the limits of a policy hold for its resources, by whatever command they would be passed, and for no others; a refusal names the
// policy, the limit and what to do, and is counted; a reload changes them. Method: dialogues. What the engine does with the delay is
// tested there, in virtual time.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock"
)

func policies(all ...access.Policy) func(*Options) {
	return func(o *Options) { o.Policies = all }
}

// ttlCommands give key the ttl, in ms, by every command that can. key is held by token where held is set.
var ttlCommands = []struct {
	held    bool
	command func(key, ttl string) []string
}{
	{false, func(key, ttl string) []string { return []string{"LOCK", key, ttl} }},
	{false, func(key, ttl string) []string { return []string{"LOCK", key, ttl, "HOLD"} }},
	{false, func(key, ttl string) []string { return []string{"LOCK", key, ttl, "SHARED"} }},
	{false, func(key, ttl string) []string { return []string{"LOCK", key, ttl, "SLOTS", "3"} }},
	{false, func(key, ttl string) []string { return []string{"MLOCK", "2", "other of " + key, key, ttl} }},
	{false, func(key, ttl string) []string { return []string{"SET", key, token, "NX", "PX", ttl} }},
	{false, func(key, ttl string) []string { return []string{"SET", key, token, "NX", "GET", "PX", ttl} }},
	{false, func(key, ttl string) []string { return []string{"EVAL", acquireScript, "1", key, token, ttl} }},
	{true, func(key, ttl string) []string { return []string{"LOCK", key, ttl, "TOKEN", token} }},
	{true, func(key, ttl string) []string { return []string{"EXTEND", key, token, ttl} }},
	{true, func(key, ttl string) []string { return []string{"MEXTEND", "1", key, token, ttl} }},
	{true, func(key, ttl string) []string { return []string{"HOLD", key, token, ttl} }},
	{true, func(key, ttl string) []string { return []string{"PEXPIRE", key, ttl} }},
	{true, func(key, ttl string) []string { return []string{"EVAL", extendScript, "1", key, token, ttl} }},
}

func TestMaxTTLOfAPolicy(t *testing.T) {
	srv := serve(t, policies(access.Policy{Prefix: "billing:*", MaxTTL: 20 * time.Second}), func(o *Options) { o.AllowUnguarded = everyKey })
	c := srv.dial()
	const refusal = "-ERR ttl of 20001 ms is above the most, 20000 ms (max_ttl of policy billing:*): ask for a shorter ttl, or change the limit in [[policy]]"
	for i, tt := range ttlCommands {
		key, other := fmt.Sprint("billing:", i), fmt.Sprint("shipping:", i)
		if tt.held {
			c.do("LOCK", key, "20000", "TOKEN", token).granted(1, 20000)
			c.do("LOCK", other, "20000", "TOKEN", token).granted(1, 20000)
		}
		c.do(tt.command(key, "20001")...).is(refusal)
		if reply := c.do(tt.command(other, "20001")...); reply.text[0] == '-' {
			t.Errorf("%q: got %s for a resource without a policy", tt.command(other, "20001"), reply.text)
		}
		if reply := c.do(tt.command(key, "20000")...); reply.text[0] == '-' || reply.text == "*nil" || reply.text == ":0" {
			t.Errorf("%q: got %s for what the policy allows", tt.command(key, "20000"), reply.text)
		}
	}
	c.do("SET", "billing:watched", token, "NX", "PX", "20000").is("+OK")
	c.do("WATCH", "billing:watched").is("+OK")
	c.do("MULTI").is("+OK")
	c.do("PEXPIRE", "billing:watched", "20001").is("+QUEUED")
	c.do("EXEC").is(refusal)
	c.do("UNLOCK", "billing:watched", token).is(":1")
	want := fmt.Sprint(len(ttlCommands) + 1)
	srv.wantMetric(`redlockd_policy_refused_total{limit="max_ttl",prefix="billing:*"}`, want)
}

// A lock that is taken without a TTL gets no longer one than the policy allows.
func TestDefaultTTLUnderAPolicy(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, policies(access.Policy{Prefix: "billing:*", MaxTTL: 10 * time.Second}), func(o *Options) { o.DefaultTTL = 30 * time.Second })
		c := srv.dial()
		c.do("SETNX", "billing:1", token).is(":1")
		c.do("EVAL", `return redis.call('setnx', KEYS[1], ARGV[1])`, "1", "billing:2", token).is(":1")
		for _, key := range []string{"billing:1", "billing:2"} {
			eventually(t, "the first master has "+key+" with the TTL of the policy", func() bool {
				_, ttl, ok := srv.masters[0].Get(key)
				return ok && ttl <= 11*time.Second
			})
		}
	})
}

func TestMaxWaitOfAPolicy(t *testing.T) {
	srv := serve(t, policies(access.Policy{Prefix: "billing:*", MaxWait: 10 * time.Second}))
	c := srv.dial()
	const refusal = "-ERR WAIT of 10001 ms is above the most, 10000 ms (max_wait of policy billing:*): wait for less, or raise it in [[policy]]"
	c.do("LOCK", "billing:1", "20000", "WAIT", "10001").is(refusal)
	c.do("MLOCK", "2", "a", "billing:1", "20000", "WAIT", "10001").is(refusal)
	c.do("LOCK", "billing:1", "20000", "WAIT", "10001", "SLOTS", "2").is(refusal)
	c.do("LOCK", "shipping:1", "20000", "WAIT", "10001").granted(1, 20000)
	c.do("LOCK", "billing:1", "20000", "WAIT", "10000").granted(1, 20000)
	srv.wantMetric(`redlockd_policy_refused_total{limit="max_wait",prefix="billing:*"}`, "3")
}

func TestMaxWaitersOfAPolicy(t *testing.T) {
	billing := access.Policy{Prefix: "billing:*", MaxWaiters: 2}
	users := []access.User{{Name: "app", Password: "a", MaxWaiters: 2}, {Name: "batch", Password: "b"}}
	srv := serve(t, policies(billing), func(o *Options) { o.Users = users })
	c := srv.dialAs("batch")
	for _, key := range []string{"billing:1", "billing:2", "free"} {
		c.do("LOCK", key, "20000").granted(1, 20000)
	}
	for i, key := range []string{"billing:1", "billing:2"} {
		srv.dialAs("app").send("LOCK", key, "20000", "WAIT", "20000")
		srv.waiting(i + 1)
	}
	const refusal = "-BUSYWAIT max number of waiters of policy billing:* reached (max_waiters = 2): try again later, or raise it in [[policy]]"
	c.do("LOCK", "billing:1", "20000", "WAIT", "20000").is(refusal)
	c.do("MLOCK", "2", "a", "billing:2", "20000", "WAIT", "20000").is(refusal)
	c.do("LOCK", "billing:1", "20000").is("*nil")
	srv.dialAs("app").do("LOCK", "free", "20000", "WAIT", "20000").is("-BUSYWAIT max number of waiters of user app reached (max_waiters = 2 in [auth])")
	for name, want := range map[string]string{`policy_refused_total{limit="max_waiters",prefix="billing:*"}`: "2", `policy_waiters{prefix="billing:*"}`: "2"} {
		srv.wantMetric("redlockd_"+name, want)
	}
	// Those who wait already go on counting after a reload.
	billing.MaxWaiters = 3
	srv.reload(Options{Users: users, Policies: []access.Policy{{Prefix: "x", MaxWaiters: 1}, billing}})
	srv.dialAs("batch").send("LOCK", "billing:1", "20000", "WAIT", "20000")
	srv.waiting(3)
	c.do("LOCK", "billing:1", "20000", "WAIT", "20000").err("BUSYWAIT max number of waiters of policy billing:* reached (max_waiters = 3)")
	srv.reload(Options{Users: users})
	srv.dialAs("batch").send("LOCK", "billing:1", "20000", "WAIT", "20000")
	srv.waiting(4)
}

func TestMaxHoldOfAPolicy(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, policies(access.Policy{Prefix: "billing:*", MaxTTL: 6 * time.Second, MaxHold: 6 * time.Second}), func(o *Options) { o.AllowUnguarded = everyKey })
		c := srv.dial()
		const refusal = `-ERR the lock was first granted .* ago and may be held for 6s in all \(max_hold of policy billing:\*\): release it, or ask for a shorter ttl`
		for i, extend := range []func(key, token string) []string{
			func(key, token string) []string { return []string{"EXTEND", key, token, "6000"} },
			func(key, token string) []string { return []string{"MEXTEND", "1", key, token, "6000"} },
			func(key, token string) []string { return []string{"HOLD", key, token, "6000"} },
			func(key, token string) []string { return []string{"LOCK", key, "6000", "TOKEN", token} },
			func(key, token string) []string { return []string{"PEXPIRE", key, "6000"} },
			func(key, token string) []string { return []string{"EVAL", extendScript, "1", key, token, "6000"} },
		} {
			key := fmt.Sprint("billing:", i)
			held := c.do("LOCK", key, "6000").granted(1, 6000)
			time.Sleep(2 * time.Millisecond) // a lock that is extended in the millisecond of its grant is held no longer
			c.do(extend(key, held)...).matches(refusal)
		}
		held := c.do("LOCK", "shipping:1", "6000").granted(1, 6000)
		c.do("EXTEND", "shipping:1", held, "6000").matches(`:[1-9]\d*`)
		srv.wantMetric(`redlockd_policy_refused_total{limit="max_hold",prefix="billing:*"}`, "6")
	})
}

func TestFenceAlways(t *testing.T) {
	srv := serve(t, func(o *Options) { o.AllowUnguarded = everyKey })
	c := srv.dial()
	c.do("SET", "billing:before", token, "NX", "PX", "20000").is("+OK")
	c.do("SET", "billing:released", token, "NX", "PX", "20000").is("+OK")
	srv.reload(Options{Policies: []access.Policy{{Prefix: "billing:*", Fence: access.FenceAlways}}, AllowUnguarded: []string{"*"}})

	const fenced = `\["([^"]+)" :\d+ :(\d+)\]`
	first := c.do("LOCK", "billing:1", "20000").matches(fenced)
	c.do("UNLOCK", "billing:1", first[0]).is(":1")
	second := c.do("LOCK", "billing:1", "20000", "FENCE").matches(fenced)
	if len(second[1]) != len(first[1]) || second[1] <= first[1] {
		t.Errorf("the fences are %s and %s, want them to grow", first[1], second[1])
	}
	c.do("MLOCK", "2", "free", "billing:2", "20000").matches(fenced)
	c.do("LOCK", "billing:3", "20000", "SLOTS", "2").matches(`\["[^"]+" :\d+ "billing:3#[01]" :\d+\]`)
	c.do("LOCK", "billing:4", "20000", "SHARED").granted(1, 20000)
	c.do("LOCK", "billing:5", "20000", "HOLD").matches(fenced)
	const noPlace = "-ERR JUSTTOKEN has no place for the fence that fence = \"always\" of policy billing:* gives this lock: leave JUSTTOKEN out, or change it in [[policy]]"
	c.do("LOCK", "billing:6", "20000", "JUSTTOKEN").is(noPlace)
	c.do("MLOCK", "2", "free", "billing:6", "20000", "JUSTTOKEN", "WAIT", "20").is(noPlace)
	c.do("LOCK", "billing:7", "20000", "SHARED", "JUSTTOKEN").justToken()
	srv.wantMetric(`redlockd_policy_refused_total{limit="fence",prefix="billing:*"}`, "2")
	c.do("EXTEND", "billing:1", second[0], "20000").matches(`:[1-9]\d*`)

	const refusal = "-ERR this command takes a lock without a fence, and fence = \"always\" of policy billing:* wants one: take the lock with LOCK, or change it in [[policy]]"
	for _, command := range [][]string{
		{"SET", "billing:6", token, "NX", "PX", "20000"},
		{"SET", "billing:6", token, "NX", "GET", "PX", "20000"},
		{"SET", "billing:6", token, "PX", "20000"},
		{"SET", "billing:before", "another", "IFEQ", token, "PX", "20000"},
		{"EVAL", acquireScript, "1", "billing:6", token, "20000"},
		{"EVAL", `return redis.call('hset', KEYS[1], ARGV[1], 1) + redis.call('pexpire', KEYS[1], 20000)`, "1", "billing:6", token},
	} {
		if got := c.do(command...).text; got != refusal {
			t.Errorf("%q: got  %s\nwant %s", command, got, refusal)
		}
	}
	c.do("SET", "free:1", token, "NX", "PX", "20000").is("+OK")
	// What was taken before can be extended and released.
	c.do("EVAL", extendScript, "1", "billing:before", token, "20000").is(":1")
	c.do("EVAL", releaseScript, "1", "billing:before", token).is(":1")
	c.do("UNLOCK", "billing:released", token).is(":1")
	srv.wantMetric(`redlockd_policy_refused_total{limit="fence",prefix="billing:*"}`, "8")
}

// The first policy that matches counts; slots have that of their resource; a lock of several resources keeps to all.
func TestWhichPolicyCounts(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, policies(
			access.Policy{Prefix: "billing:small:*", MaxTTL: 10 * time.Second},
			access.Policy{Prefix: "billing:*", MaxTTL: 20 * time.Second, LockDelay: time.Second},
			access.Policy{Prefix: "jobs", MaxTTL: 5 * time.Second},
			access.Policy{Prefix: "*#1", MaxTTL: 7 * time.Second},
			access.Policy{Prefix: "waits:*", MaxWait: time.Second},
		))
		c := srv.dial()
		for _, tt := range []struct {
			command string
			refusal string // "": none
		}{
			{"LOCK billing:small:1 11s", "max_ttl of policy billing:small:*"},
			{"LOCK billing:1 11s", ""},
			{"LOCK billing:2 21s", "max_ttl of policy billing:*"},
			{"MLOCK 2 billing:small:2 billing:3 11s", "max_ttl of policy billing:small:*"},
			{"MLOCK 2 billing:4 waits:1 21s", "max_ttl of policy billing:*"},
			{"MLOCK 2 billing:4 waits:1 20s WAIT 2s", "max_wait of policy waits:*"},
			{"LOCK jobs 6s SLOTS 2", "max_ttl of policy jobs"},
			{"EXTEND jobs#0 token 6s", "max_ttl of policy jobs"},
			{"EXTEND jobs#1 token 6s", "max_ttl of policy jobs"},
			{"LOCK jobs#40 6s", ""},
			{"LOCK others 8s SLOTS 2", "max_ttl of policy *#1"},
			{"LOCK others 8s SLOTS 1", ""},
			{"LOCK free 60s", ""},
		} {
			reply := c.do(strings.Fields(tt.command)...)
			if tt.refusal == "" && reply.text[0] != '[' || !strings.Contains(reply.text, tt.refusal) {
				t.Errorf("%s: got %s, want %q", tt.command, reply.text, tt.refusal)
			}
		}
		for _, keys := range [][]string{{"free:a", "billing:9"}, {"billing:10", "waits:a"}, {"waits:b", "billing:11"}, {"billing:12", "free:b"}} {
			c.do("MLOCK", "2", keys[0], keys[1], "10000", "TOKEN", token).granted(1, 10000)
			for _, key := range keys {
				eventually(t, "the first master keeps "+key+" for the delay of its neighbour, too", func() bool {
					_, ttl, _ := srv.masters[0].Get(key)
					return ttl > 10*time.Second
				})
			}
		}
	})
}

func TestReloadOfPolicies(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.do("LOCK", "billing:1", "20000", "TOKEN", token).granted(1, 20000)
	billing := access.Policy{Prefix: "billing:*", MaxTTL: 10 * time.Second, LockDelay: 5 * time.Second}
	srv.reload(Options{Policies: []access.Policy{billing}})
	c.do("EXTEND", "billing:1", token, "20000").err("ERR ttl of 20000 ms is above the most, 10000 ms (max_ttl of policy billing:*)")
	for _, bad := range []access.Policy{{Prefix: "x"}, {MaxTTL: time.Second}, {Prefix: "x", MaxTTL: -1}} {
		if _, err := srv.Reload(Options{Policies: []access.Policy{bad}}); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	billing.MaxTTL = 15 * time.Second
	srv.reload(Options{Policies: []access.Policy{billing}})
	c.do("EXTEND", "billing:1", token, "20000").err("ERR ttl of 20000 ms is above the most, 15000 ms (max_ttl of policy billing:*)")
	c.do("EXTEND", "billing:1", token, "15000").matches(`:[1-9]\d*`)
	srv.wantMetric(`redlockd_policy_refused_total{limit="max_ttl",prefix="billing:*"}`, "2")
	srv.reload(Options{})
	c.do("EXTEND", "billing:1", token, "20000").matches(`:[1-9]\d*`)
}

// twoUnder starts two servers of the same masters under the policies.
func twoUnder(t *testing.T, all ...access.Policy) (a, b *testServer) {
	unguarded := func(o *Options) { o.AllowUnguarded = everyKey }
	a = serve(t, policies(all...), unguarded)
	return a, a.twin(policies(all...), unguarded)
}

// field is the value of a field of a reply of names and values.
func (r reply) field(name string) string {
	r.t.Helper()
	return r.matches(`(?s).*"` + name + `" ("[^"]*"|\S+?)[ \]].*`)[0]
}

func TestLockDelay(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		a, b := twoUnder(t, access.Policy{Prefix: "billing:*", MaxTTL: 20 * time.Second, LockDelay: 20 * time.Second})
		holder, other := a.dial(), b.dial()
		other.do("LOCK", "billing:0", "41000").err("ERR ttl of 41000 ms is above the most, 20000 ms (max_ttl of policy billing:*)")

		// A holder that releases.
		holder.do("LOCK", "billing:1", "20000", "TOKEN", token).granted(15000, 20000)
		info := other.do("LOCKINFO", "billing:1")
		if ms := info.field("validity-ms"); len(ms) > 6 || ms > ":20000" {
			t.Errorf("got validity-ms %s of another redlockd, want none of the delay in it", ms)
		}
		if got := info.field("delay-ms"); got != ":0" {
			t.Errorf("got delay-ms %s while it is held, want 0", got)
		}
		holder.do("UNLOCK", "billing:1", token).is(":1")
		other.do("LOCK", "billing:1", "20000").granted(1, 20000)

		// Holders that vanish.
		for i, take := range []func(key string) []string{
			func(key string) []string { return []string{"LOCK", key, "100", "TOKEN", token} },
			func(key string) []string { return []string{"LOCK", key, "100", "TOKEN", token, "FENCE"} },
			func(key string) []string { return []string{"LOCK", key, "100", "TOKEN", token, "SHARED"} },
			func(key string) []string { return []string{"SET", key, token, "NX", "PX", "100"} },
			func(key string) []string { return []string{"SET", key, token, "NX", "GET", "PX", "100"} },
			func(key string) []string { return []string{"EVAL", acquireScript, "1", key, token, "100"} },
		} {
			key := fmt.Sprint("billing:lost:", i)
			gone := a.dial()
			if reply := gone.do(take(key)...).text; reply[0] == '-' || reply == "*nil" {
				t.Fatalf("%q: got %s", take(key), reply)
			}
			gone.conn.Close()
			eventually(t, key+" is in its delay", func() bool { return other.do("LOCKINFO", key).field("delay-ms") != ":0" })
			if got := other.do("LOCKINFO", key).field("validity-ms"); got != ":0" {
				t.Errorf("%q: got validity-ms %s in the delay", take(key), got)
			}
			eventually(t, "LOCKS shows that "+key+" is in its delay", func() bool {
				list := holder.do("LOCKS", "PATTERN", key)
				return list.text != "[]" && list.field("delay-ms") != ":0" && list.field("validity-ms") == ":0"
			})
			other.do("LOCK", key, "100").is("*nil")
			other.do("SET", key, "another", "NX", "PX", "100").is("$nil")
			if take(key)[len(take(key))-1] == "SHARED" {
				other.do("LOCK", key, "100", "SHARED").granted(1, 100) // readers do not keep readers out
				continue
			}
			// The token still holds it, and a release ends the delay.
			other.do("EXTEND", key, token, "50").matches(`:[1-9]\d*`)
			other.do("UNLOCK", key, token).is(":1")
			other.do("LOCK", key, "100").granted(1, 100)
		}

		// One who waits through another redlockd is woken by the release.
		holder.do("LOCK", "billing:wait", "100", "TOKEN", token).granted(1, 100)
		eventually(t, "it is in its delay", func() bool { return holder.do("LOCKINFO", "billing:wait").field("delay-ms") != ":0" })
		waiting := b.dial()
		waiting.send("LOCK", "billing:wait", "100", "WAIT", "20000")
		b.waiting(1)
		waiting.silent(100 * time.Millisecond)
		holder.do("UNLOCK", "billing:wait", token).is(":1")
		waiting.read().granted(1, 100)

		// RELEASE: the client ends its connection.
		held := a.dial()
		held.do("LOCK", "billing:held", "6000", "HOLD", "RELEASE").granted(1, 6000)
		held.do("QUIT").is("+OK")
		eventually(t, "it is released at once", func() bool { return other.do("LOCK", "billing:held", "100").text != "*nil" })
	})
}

// A shorter delay ends by itself.
func TestLockDelayEnds(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		a, b := twoUnder(t, access.Policy{Prefix: "*", LockDelay: 300 * time.Millisecond})
		a.dial().do("LOCK", "r", "100").granted(1, 100)
		b.dial().do("LOCK", "r", "100", "WAIT", "20000").granted(1, 100)
		c := a.dial()
		c.do("LOCK", "x", "299701").is("-ERR ttl of 299701 ms is above the most, 299700 ms (max_ttl less the lock_delay of policy *): ask for a shorter ttl, or change the limit in [[policy]]")
		c.do("LOCK", "x", "299700").granted(1, 299700)
	})
}

// Clients that read how long a key lives are told nothing of its delay.
func TestTTLsWithoutTheDelay(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, policies(access.Policy{Prefix: "billing:*", MaxTTL: 20 * time.Second, LockDelay: 30 * time.Second}), func(o *Options) { o.AllowUnguarded = everyKey })
		c := srv.dial()
		c.do("SET", "billing:1", token, "NX", "PX", "20000").is("+OK")
		for _, command := range [][]string{{"PTTL", "billing:1"}, {"EVAL", `return redis.call('pttl', KEYS[1])`, "1", "billing:1"}} {
			c.do(command...).matches(`:(1\d{4}|20000)`)
		}
		c.do("WATCH", "billing:1").is("+OK")
		c.do("MULTI").is("+OK")
		c.do("PTTL", "billing:1").is("+QUEUED")
		c.do("EXEC").matches(`\[:(1\d{4}|20000)\]`)
		// What keeps the end that a key has is not refused, and does not move it.
		c.do("SET", "billing:1", "other", "IFEQ", token, "KEEPTTL").is("+OK")
		c.do("PTTL", "billing:1").matches(`:(1\d{4}|20000)`)
		eventually(t, "the first master keeps it for the TTL and the delay", func() bool {
			_, ttl, _ := srv.masters[0].Get("billing:1")
			return ttl > 40*time.Second && ttl <= 51*time.Second
		})
		// Nor is it where the engine has moved the end, to tell attempts apart.
		for i := range 10 {
			key := fmt.Sprint("billing:moved:", i)
			c.do("SET", key, token, "NX", "PX", "20000").is("+OK")
			c.do("EVAL", extendScript, "1", key, token, "20000").is(":1")
			c.do("SET", key, "other", "IFEQ", token, "KEEPTTL").is("+OK")
		}
		// In the delay the end is near, whatever is left of the delay.
		c.do("SET", "billing:2", token, "NX", "PX", "100").is("+OK")
		eventually(t, "it is in its delay", func() bool { return c.do("LOCKINFO", "billing:2").field("delay-ms") != ":0" })
		c.do("PTTL", "billing:2").is(":1")
		c.do("GET", "billing:2").is(fmt.Sprintf("%q", token))
		c.do("EVAL", releaseScript, "1", "billing:2", token).is(":1")
		c.do("SET", "billing:2", "another", "NX", "PX", "100").is("+OK")
	})
}

// A command under a policy allocates no more than one without.
func TestPoliciesAllocateNothing(t *testing.T) {
	live := newLiveOptions(Options{Engine: new(redlock.Client), Policies: somePolicies(access.PoliciesMax)}, nil)
	changes := []redlock.Change{{Resource: "invoice:1", Was: redlock.WasAbsent, Do: redlock.Set, NewValue: token, TTL: time.Second}}
	resources, slot, both := []string{"invoice:1"}, []string{"invoice:1#3"}, []string{"invoice:1", "free", "invoice:2"}
	states := []redlock.State{{Found: true, TTL: time.Second}}
	for what, do := range map[string]func(){
		"LOCK": func() {
			live.termsFor(resources, time.Second, 0)
			live.fencedBy(&redlock.LockRequest{Resources: resources})
		},
		"a slot":     func() { live.termsFor(slot, time.Second, 0) },
		"MLOCK":      func() { live.termsFor(both, time.Second, 0) },
		"SET":        func() { live.termsOfCommit(changes) },
		"a reading":  func() { live.withoutDelays(resources, states) },
		"DefaultTTL": func() { live.shortened(time.Second, resources) },
	} {
		if terms, _ := live.termsFor(resources, time.Second, 0); terms == nil {
			t.Fatal("no policy matches")
		}
		if n := testing.AllocsPerRun(100, do); n > 0 {
			t.Errorf("%s: got %v allocations, want none", what, n)
		}
	}
}
