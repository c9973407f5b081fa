package proxy

// Goal: LOCK … SLOTS keeps its contract: who holds which slot, replies in both protocol versions, and users who may not use a slot. What is refused
// is in TestNativeCommandsRefuse. Method: dialogues with a server over five masters in this process.

import (
	"strconv"
	"testing"

	"redlockd/proxy/access"
)

// slot is the name of the slot in a reply [token, validity, slot, …].
func (r reply) slot() string { return r.matches(`\["[^"]+" :\d+ "([^"]+)".*\]`)[0] }

func TestSLOTS(t *testing.T) {
	srv := serve(t)
	c, other := srv.dial(), srv.dial()

	tokens := map[string]string{}
	for _, token := range []string{"t1", "t2", "t3"} {
		tokens[c.do("LOCK", "jobs", "20000", "slots", "3", "TOKEN", token).slot()] = token
	}
	for _, slot := range []string{"jobs#0", "jobs#1", "jobs#2"} {
		if tokens[slot] == "" {
			t.Fatalf("the slots of three LOCKs: got %v, want jobs#0 to jobs#2", tokens)
		}
	}
	other.do("LOCK", "jobs", "20000", "SLOTS", "3").is("*nil")
	other.do("LOCK", "jobs", "20000", "SLOTS", "3", "WAIT", "20").is("*nil")
	c.do("LOCK", "jobs", "20000", "TOKEN", tokens["jobs#1"], "SLOTS", "3").matches(`\["t." :\d+ "jobs#1"\]`) // again: the reply may have been lost
	other.do("HELLO", "3")
	other.do("LOCK", "jobs", "20000", "SLOTS", "3").is("_nil")
	other.do("HELLO", "2")

	// A slot is a resource like any other.
	other.do("LOCK", "jobs#1", "20000").is("*nil")
	other.do("EXTEND", "jobs#1", tokens["jobs#1"], "30000").matches(`:\d+`)
	other.do("LOCKINFO", "jobs#1").matches(`\["resource" "jobs#1" "held" :1 .*\]`)
	other.do("UNLOCK", "jobs#1", tokens["jobs#2"]).is(":0")
	c.do("LOCK", "jobs", "20000").granted(1, 20000) // the resource itself is another one

	// A released slot goes to who waits for one.
	other.send("LOCK", "jobs", "20000", "SLOTS", "3", "WAIT", "20000", "TOKEN", "waits")
	srv.waiting(1)
	c.do("LOCKS", "PATTERN", "jobs#*").matches(`.*\["jobs#\*"\].*`)
	c.do("UNLOCK", "jobs#2", tokens["jobs#2"]).is(":1")
	other.read().matches(`\["waits" :\d+ "jobs#2"\]`)
}

// With FENCE, the fence comes behind the slot.
func TestSLOTSWithAFence(t *testing.T) {
	c := serve(t).dial()
	last := map[string]int{}
	for range 6 {
		got := c.do("LOCK", "jobs", "20000", "FENCE", "SLOTS", "2", "TOKEN", "mine").matches(`\["mine" :\d+ "(jobs#[01])" :(\d+)\]`)
		slot := got[0]
		fence, _ := strconv.Atoi(got[1])
		if fence <= last[slot] {
			t.Fatalf("%s: got the fence %d after %d, want a greater one", slot, fence, last[slot])
		}
		last[slot] = fence
		c.do("UNLOCK", slot, "mine").is(":1")
	}
}

// What a user may not use is refused also where it is a slot: it could be granted one that it may not release.
func TestSLOTSOfAConfinedUser(t *testing.T) {
	srv := serve(t, confine)
	c := srv.dialAs("billing")
	slot := c.do("LOCK", "billing:jobs", "20000", "SLOTS", "3", "TOKEN", token).slot()
	c.do("UNLOCK", slot, token).is(":1")
	c.do("LOCK", "orders:1", "20000", "SLOTS", "3").err(noResource)
	c.do("LOCK", "shared", "20000", "SLOTS", "3").err("NOPERM this user has no permissions to access the resource 'shared#0'")
	c.do("LOCKS").is("[]")
}

// Limits of a user count a slot as one lock; its max_ttl holds, too.
func TestSLOTSWithinTheLimitsOfAUser(t *testing.T) {
	srv := serve(t, func(o *Options) { o.Users = []access.User{{Name: "u", Password: "u", MaxLocks: 2, MaxTTL: 30e9}} })
	c := srv.dialAs("u")
	c.do("LOCK", "jobs", "20000", "SLOTS", "8").slot()
	c.do("LOCK", "jobs", "20000", "SLOTS", "8").slot()
	c.do("LOCK", "jobs", "20000", "SLOTS", "8").err("ERR max number of locks of user u reached (max_locks = 2 in [auth])")
	c.do("LOCK", "jobs", "40000", "SLOTS", "8").err("ERR ttl of 40000 ms is above the most, 30000 ms (max_ttl of user u in [auth])")
}

// With HOLD, the slot is renewed while the connection stands, and goes to who waits when it ends.
func TestSLOTSWithHOLD(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		c, waits := srv.dial(), srv.dial()
		slot := c.do("LOCK", "jobs", "6s", "SLOTS", "1", "HOLD", "RELEASE").slot()
		waits.send("LOCK", "jobs", "20s", "SLOTS", "1", "WAIT", "20s")
		srv.waiting(1)
		eventually(t, "the slot is renewed", func() bool { return srv.opts.Engine.Stats().Extended > 0 })
		c.do("KEEPALIVE").matches(kept(`[1-9]\d*`, 1, "", "0"))
		c.do("LOCKS", "PATTERN", slot).matches(`.*"bound" :1 .*`)
		c.do("QUIT").is("+OK")
		waits.read().matches(`\["[^"]+" :\d+ "jobs#0"\]`)
	})
}
