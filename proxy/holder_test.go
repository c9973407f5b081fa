package proxy

// Goal: LOCKS and LOCKINFO show who holds a lock and who waits for it, however the lock was taken; a confined user sees of other users no more
// than what is written for it. Method: dialogues.

import "testing"

func TestWhoHolds(t *testing.T) {
	srv := serve(t)
	a, b := srv.dial(), srv.dial()
	a.do("CLIENT", "SETNAME", "a1").is("+OK")
	b.do("HELLO", "2", "SETNAME", "b1").matches(".*")
	who := func(client string) string {
		return `\["client" "` + client + `" "addr" "127.0.0.1:\d+" "user" "default" "note" \$nil `
	}
	holds := func(resource, client string) {
		t.Helper()
		a.do("LOCKS", "PATTERN", resource).matches(`.*"holder" ` + who(client) + `"since" :\d{10} "held-ms" :\d+\].*`)
		a.do("LOCKINFO", resource).matches(`.*"holders" \[` + who(client) + `"since" :\d{10} "held-ms" :\d+\]\].*`)
	}
	a.do("LOCK", "plain", "20s", "TOKEN", "mine").granted(1, 20_000)
	holds("plain", "a1")
	b.do("SET", "dropin", "theirs", "NX", "PX", "20000").is("+OK")
	holds("dropin", "b1")
	b.do("EVAL", "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 20000)", "1", "script", "theirs").is("+OK")
	holds("script", "b1")
	b.do("LOCK", "jobs", "20s", "SLOTS", "2", "TOKEN", "theirs").matches(`.*"jobs#0".*|.*"jobs#1".*`)
	b.do("MLOCK", "2", "m1", "m2", "20s").granted(1, 20_000)
	holds("m2", "b1")

	// A name that a client gives itself later is not that of its earlier locks.
	a.do("CLIENT", "SETNAME", "a2").is("+OK")
	holds("plain", "a1")
	a.do("LOCK", "later", "20s").granted(1, 20_000)
	holds("later", "a2")
	a.do("EXTEND", "plain", "mine", "20s").matches(":1.*")
	holds("plain", "a1")

	b.send("LOCK", "plain", "20s", "WAIT", "1m", "NOTE", "nightly")
	srv.waiting(1)
	queue := `.*"waiters" :1 "queue" \[\["client" "b1" "addr" "127.0.0.1:\d+" "user" "default" "note" "nightly" "waited-ms" :\d+ "mode" "exclusive"\]\].*`
	a.do("LOCKS", "PATTERN", "plain").matches(queue)
	a.do("LOCKINFO", "plain").matches(queue)
	a.do("UNLOCK", "plain", "mine").is(":1")
	b.read().granted(1, 20_000)
	a.do("LOCKS", "PATTERN", "plain").matches(`.*"holder" \["client" "b1" .* "note" "nightly" .*`)
}

// What a confined user sees of others is what they have written into a NOTE, without their address, and how many wait.
func TestConfinedUserSeesItsOwnHolders(t *testing.T) {
	srv := serve(t, confine)
	root, c, other := srv.dialAs("root"), srv.dialAs("billing"), srv.dialAs("billing")
	for _, c := range []*client{c, other} {
		c.do("CLIENT", "SETNAME", "bill").is("+OK")
	}
	root.do("LOCK", "billing:1", "20s").granted(1, 20_000)
	root.do("LOCK", "billing:2", "20s", "NOTE", "for all").granted(1, 20_000)
	other.do("LOCK", "billing:3", "20s").granted(1, 20_000)
	other.send("LOCK", "billing:1", "20s", "WAIT", "1m")
	srv.waiting(1)
	srv.dialAs("root").send("LOCK", "billing:1", "20s", "WAIT", "1m")
	srv.waiting(2)

	own := `\["client" "bill" "addr" "127.0.0.1:\d+" "user" "billing" "note" \$nil `
	queue := `"waiters" :2 "queue" \[` + own + `"waited-ms" :\d+ "mode" "exclusive"\]\] "delay-ms" :0 "minority" \$nil`
	c.do("LOCKS", "PATTERN", "billing:1").matches(`.*"holder" \$nil ` + queue + `\]\]`)
	c.do("LOCKINFO", "billing:1").matches(`.*"holders" \[\] ` + queue + `\]`)
	noted := `\["client" \$nil "addr" \$nil "user" "root" "note" "for all" "since" :\d{10} "held-ms" :\d+\]`
	c.do("LOCKS", "PATTERN", "billing:2").matches(`.*"holder" ` + noted + `.*`)
	c.do("LOCKINFO", "billing:2").matches(`.*"holders" \[` + noted + `\].*`)
	c.do("LOCKS", "PATTERN", "billing:3").matches(`.*"holder" ` + own + `"since" :\d{10} "held-ms" :\d+\].*`)
	root.do("LOCKS", "PATTERN", "billing:1").matches(`.*"holder" \["client" \$nil "addr" "127.0.0.1:\d+" "user" "root" .*"client" "bill".*"user" "root".*`)

	// A client that logs in as another user is shown as that for what it locks from then on.
	c.do("AUTH", "root", "r").is("+OK")
	c.do("LOCK", "orders:9", "20s").granted(1, 20_000)
	root.do("LOCKS", "PATTERN", "orders:9").matches(`.*"client" "bill" .*"user" "root".*`)
}
