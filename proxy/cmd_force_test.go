package proxy

// Goal: UNLOCK … FORCE is for administrators, says what it has done, and ends a lock through whichever redlockd it is held. Method:
// dialogues; the engine's own tests have the races.

import (
	"strings"
	"testing"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock"
)

func TestUnlockForce(t *testing.T) {
	srv := serve(t)
	c, admin := srv.dial(), srv.dial()
	c.do("LOCK", "r", "20000", "TOKEN", token).granted(1, 20000)
	admin.do("UNLOCK", "r", "FORCE", "stuck since noon").matches(
		`\["released" :1 "masters" :5 "of" :5 "another" :0 "renewed" :0 "readers" :0 "fence" :\d+ "token-digests" \["` + redlock.TokenDigest(srv.opts.Engine, token) + `"\]\]`)
	c.do("EXTEND", "r", token, "20000").is(":0")
	c.do("UNLOCK", "r", token).is(":0")
	admin.do("UNLOCK", "r", "force", "once more").matches(`\["released" :0 .* "token-digests" \[\]\]`)
	admin.do("HELLO", "3")
	admin.do("UNLOCK", "r", "FORCE", "as a map").matches(`\{"released": :0 .*\}`)
	srv.noKeys()

	// FORCE without a reason is no token, so nobody locks with it.
	c.do("SET", "r", "FORCE", "NX", "PX", "20000").is("+OK")
	for _, word := range []string{"FORCE", "force"} {
		c.do("UNLOCK", "r", word).is("-ERR FORCE needs a reason, which the log and the audit keep: UNLOCK resource FORCE reason")
		c.do("LOCK", "r", "20000", "TOKEN", word).is("-ERR the token is FORCE, which is a word of UNLOCK: choose another")
		c.do("MLOCK", "1", "r", "20000", "TOKEN", word).is("-ERR the token is FORCE, which is a word of UNLOCK: choose another")
	}
	c.do("UNLOCK", "r", "FORCE", "set by a library").matches(`\["released" :1 .*`)

	for args, want := range map[string]string{
		"r token reason":             "ERR syntax error: behind the token of UNLOCK nothing may stand; UNLOCK resource FORCE reason releases without it",
		"r FORCE because he said so": "ERR wrong number of arguments for 'unlock' command: UNLOCK resource token|FORCE reason",
		"r":                          "ERR wrong number of arguments for 'unlock' command",
		"redlockd:r FORCE reason":    "ERR resource names that begin with redlockd: are kept for redlockd itself",
	} {
		c.do(append([]string{"UNLOCK"}, strings.Fields(args)...)...).err(want)
	}
	c.do("UNLOCK", "r", "FORCE", "").err("ERR the reason has 0 bytes, it must have 1 … 200")
	c.do("UNLOCK", "r", "FORCE", strings.Repeat("x", 201)).err("ERR the reason has 201 bytes, it must have 1 … 200")
	c.do("UNLOCK", "r", "FORCE", "a\nb").err("ERR the reason has characters that cannot be printed")
}

// The locks of libraries are values that scripts and SET NX have written.
func TestUnlockForceOfALibrarysLock(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.do("SET", "r", "1", "NX", "PX", "20000").is("+OK")
	c.do("UNLOCK", "r", "FORCE", "stuck").matches(`\["released" :1 .*`)
	c.do("EVAL", "redis.call('hincrby', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], 20000) return redis.call('hlen', KEYS[1])", "1", "r", "client").is(":1")
	c.do("UNLOCK", "r", "FORCE", "stuck").matches(`\["released" :1 .*`)
	c.do("EXISTS", "r").is(":0")
	c.do("LOCK", "r", "20000", "SLOTS", "2").matches(`\[".*" :\d+ "r#[01]"\]`)
	c.do("UNLOCK", "r#0", "FORCE", "stuck")
	c.do("UNLOCK", "r#1", "FORCE", "stuck")
	srv.noKeys()
}

// The slots of a semaphore are resources of their own: a force of its name releases none of them, and says which are held.
func TestUnlockForceOfASemaphore(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.do("LOCK", "jobs", "20000", "SLOTS", "2", "TOKEN", token).matches(`\[".*" :\d+ "jobs#[01]"\]`)
	one := ` \(token ` + redlock.TokenDigest(srv.opts.Engine, token) + `\)`
	c.do("UNLOCK", "jobs", "FORCE", "stuck").matches(`-ERR nobody holds "jobs", but slots of it: jobs#[01]` + one + `\. Nothing was released: name the slot in its place`)
	c.do("SET", "jobs#31", "1", "NX", "PX", "20000").is("+OK")
	c.do("UNLOCK", "jobs", "FORCE", "stuck").matches(`-ERR nobody holds "jobs", but slots of it: jobs#[01]` + one + `, jobs#31 \(token [0-9a-f]{16}\)\. .*`)

	// Where somebody holds the name itself, that is released.
	c.do("LOCK", "jobs", "20000").matches(`\[".*" :\d+\]`)
	c.do("UNLOCK", "jobs", "FORCE", "stuck").matches(`\["released" :1 .*`)
	for _, slot := range []string{"jobs#0", "jobs#1", "jobs#31"} {
		c.do("UNLOCK", slot, "FORCE", "stuck")
	}
	c.do("UNLOCK", "jobs", "FORCE", "stuck").matches(`\["released" :0 .*`)
	for n := redlock.MaxResourceLen - 3; n <= redlock.MaxResourceLen; n++ {
		c.do("UNLOCK", strings.Repeat("x", n), "FORCE", "stuck").matches(`\["released" :0 .*`)
	}
	srv.noKeys()
}

func TestWhoMayForce(t *testing.T) {
	yes, no := true, false
	srv := serve(t, func(o *Options) {
		o.Users = []access.User{
			{Name: "root", Password: "r"},
			{Name: "service", Password: "s", Admin: &no},
			{Name: "billing", Password: "b", Resources: []string{"billing:*"}},
			{Name: "lead", Password: "l", Resources: []string{"billing:*"}, Admin: &yes},
		}
	})
	root, service, billing, lead := srv.dialAs("root"), srv.dialAs("service"), srv.dialAs("billing"), srv.dialAs("lead")
	const noForce = "NOPERM this user has no permissions to run UNLOCK with FORCE: it ends the locks of others, and is for users to whom [auth] gives admin = true"
	const noAdmin = "NOPERM this user has no permissions to run the 'client|list' command: to user "
	lock := func() {
		t.Helper()
		root.do("LOCK", "billing:1", "20000", "TOKEN", token).granted(1, 20000)
	}
	lock()
	service.do("UNLOCK", "billing:1", "FORCE", "stuck").err(noForce)
	billing.do("UNLOCK", "billing:1", "FORCE", "stuck").err(noForce)
	lead.do("UNLOCK", "orders:1", "FORCE", "stuck").err("NOPERM this user has no permissions to access the resource 'orders:1'")
	lead.do("UNLOCK", "billing:1", "FORCE", "stuck").matches(`\["released" :1 .*`)
	lock()
	root.do("UNLOCK", "billing:1", "FORCE", "stuck").matches(`\["released" :1 .*`)

	root.do("CLIENT", "LIST").matches(`(?s)".*"`)
	for _, c := range []*client{service, billing, lead} {
		c.do("CLIENT", "LIST").err(noAdmin)
	}
	service.do("LOCK", "orders:1", "20000").matches(`\[.*\]`)
}

// The lock is held for a connection to another redlockd: that one's client is told, and renewal ends.
func TestUnlockForceThroughAnotherServer(t *testing.T) {
	_, servers := serversOverMasters(t, 2, redlock.Options{MasterTimeout: 10 * time.Second})
	holder, subscriber, admin := servers[0].dial(), servers[0].dial(), servers[1].dial()
	subscriber.do("SUBSCRIBE", redlock.LostChannel).matches(`\["subscribe" "redlockd:lost" :1\]`)
	holder.do("KEEPALIVE").matches(`.*"held" :0.*`)
	holder.do("LOCK", "r", "30000", "HOLD").matches(`\[".*" :\d+\]`)
	admin.do("UNLOCK", "r", "FORCE", "stuck").matches(`\["released" :1 "masters" :5 .*`)
	subscriber.read().is(`["message" "redlockd:lost" "r"]`)
	holder.do("KEEPALIVE").is(`["validity" :0 "held" :0 "lost" ["r"] "leaving" :0]`)
	admin.do("LOCK", "r", "30000").matches(`\[".*" :\d+\]`)
}
