package proxy

// Goal: the native commands keep their contract: replies, options, errors, in both protocol versions.
// Method: dialogues with a server over five masters in this process.

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/redlock"
)

func TestLOCK(t *testing.T) {
	c := serve(t).dial()

	token := c.do("LOCK", "a", "20000").granted(1, 20000)
	if len(token) < 20 || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.Errorf("the token made here is %q, want 20 bytes or more of visible text", token)
	}
	c.do("LOCK", "a", "20000").is("*nil")
	c.do("UNLOCK", "a", "not the token").is(":0")
	c.do("UNLOCK", "a", token).is(":1")
	c.do("UNLOCK", "a", token).is(":0")

	c.do("lock", "a", "20000", "token", "mine").granted(1, 20000)
	c.do("LOCK", "a", "20000", "Token", "mine").granted(1, 20000) // again: the reply may have been lost
	c.do("LOCK", "a", "20000", "TOKEN", "other").is("*nil")
	c.do("LOCK", "a", "20000", "wAIT", "20", "TOKEN", "other").is("*nil")
	c.do("UNLOCK", "a", "mine").is(":1")

	c.do("LOCK", "a", "20000", "WAIT", "5000", "TOKEN", "\x00\r\n\xff").matches(`\["\\x00\\r\\n\\xff" :\d+\]`)
	c.do("UNLOCK", "a", "\x00\r\n\xff").is(":1")
}

// A ttl and a WAIT may have a unit, in all commands that take one.
func TestTimesWithUnits(t *testing.T) {
	c := serve(t).dial()
	c.do("LOCK", "a", "20s", "TOKEN", "mine").granted(1, 20000)
	c.do("LOCK", "a", "20s", "WAIT", "20ms").is("*nil")
	c.do("EXTEND", "a", "mine", "1m").within(40_000, 60_000)
	c.do("UNLOCK", "a", "mine").is(":1")
	c.do("MLOCK", "2", "a", "b", "20000ms", "TOKEN", "mine", "WAIT", "1h").granted(1, 20000)
	c.do("MEXTEND", "2", "a", "b", "mine", "40s").matches(`:3\d\d\d\d`)
}

// Who mistypes a command of redlockd's own is told which was meant. The words of Redis come first: libraries look for them.
func TestMistypedCommands(t *testing.T) {
	c := serve(t).dial()
	c.do("LOKC", "a", "20000").is("-ERR unknown command 'LOKC', with args beginning with: 'a' '20000' Did you mean LOCK?")
	c.do("unlockall").is("-ERR unknown command 'unlockall', with args beginning with: Did you mean UNLOCK?")
	c.do("LOCK_INFO", "a").is("-ERR unknown command 'LOCK_INFO', with args beginning with: 'a' Did you mean LOCKINFO?")
	c.do("NOSUCH").is("-ERR unknown command 'NOSUCH', with args beginning with: ")
	c.do(strings.Repeat("LOCK", 9)).err("ERR unknown command 'LOCKLOCK")
	c.do("SET", "a").is("-ERR wrong number of arguments for 'set' command") // Redis's own: its words and no others
}

func TestLOCKInRESP3(t *testing.T) {
	c := serve(t).dial()
	c.do("LOCK", "a", "20000", "TOKEN", "mine").granted(1, 20000)
	c.do("LOCK", "a", "20000").is("*nil")
	c.do("HELLO", "3")
	c.do("LOCK", "a", "20000").is("_nil")
	c.do("LOCKINFO", "a").matches(`{"resource": "a" "held": :1 .*}`)

	// A reply is in the version that was spoken when its command was sent.
	c.raw(frameOf("HELLO", "2") + frameOf("LOCK", "a", "20000", "WAIT", "20") + frameOf("HELLO", "3") + frameOf("LOCK", "a", "20000"))
	c.read()
	c.read().is("*nil")
	c.read()
	c.read().is("_nil")
}

// FENCE gives an integer that grows from one grant to the next.
func TestFENCE(t *testing.T) {
	c := serve(t).dial()
	last := ""
	for i := range 5 {
		fence := c.do("LOCK", "a", "20000", "fence", "TOKEN", "mine").matches(`\["mine" :\d+ :(\d+)\]`)[0]
		if len(fence) < len(last) || len(fence) == len(last) && fence <= last {
			t.Fatalf("got fence %s after %s, want a greater one", fence, last)
		}
		last = fence
		if i == 0 {
			c.do("LOCKINFO", "a").matches(`\[.* "fence" :` + fence + ` .*\]`)
		}
		c.do("UNLOCK", "a", "mine").is(":1")
	}
	c.do("MLOCK", "2", "a", "b", "20000", "FENCE").matches(`\["[^"]+" :\d+ :\d+\]`)
}

func TestEXTEND(t *testing.T) {
	c := serve(t).dial()
	c.do("EXTEND", "a", "mine", "20000").is(":0")
	c.do("LOCK", "a", "20000", "TOKEN", "mine").granted(1, 20000)
	c.do("EXTEND", "a", "mine", "40000").within(30_000, 40_000)
	c.do("EXTEND", "a", "other", "20000").is(":0")
	c.do("UNLOCK", "a", "mine").is(":1")
	c.do("EXTEND", "a", "mine", "20000").is(":0")
}

func TestMLOCK(t *testing.T) {
	c := serve(t).dial()
	c.do("MLOCK", "2", "a", "b", "20000", "TOKEN", "mine").granted(1, 20000)
	c.do("LOCK", "b", "20000").is("*nil")
	c.do("MLOCK", "2", "b", "c", "20000").is("*nil")
	c.do("LOCK", "c", "20000", "TOKEN", "of c").granted(1, 20000) // nothing of the one that failed is left
	c.do("MEXTEND", "2", "a", "b", "mine", "40000").matches(`:3\d\d\d\d`)
	c.do("MUNLOCK", "2", "a", "b", "other").is(":0")
	c.do("MUNLOCK", "2", "a", "b", "mine").is(":1")
	c.do("MLOCK", "2", "a", "b", "20000", "WAIT", "30000").granted(1, 20000)

	names := strings.Split(strings.Repeat("x", 64), "")
	for i := range names {
		names[i] = strings.Repeat("n", i+1)
	}
	c.do(append(append([]string{"MLOCK", "64"}, names...), "20000")...).granted(1, 20000)
}

func TestNativeCommandsRefuse(t *testing.T) {
	c := serve(t).dial()
	long := strings.Repeat("x", 1025)
	for _, test := range []struct {
		command string // words; ~ is an empty one, LONG one of 1025 bytes
		want    string
	}{
		{"LOCK a", "ERR wrong number of arguments for 'lock' command: LOCK resource ttl [TOKEN token] [WAIT ms] [FENCE] [SHARED] [SLOTS k]"},
		{"UNLOCK a", "ERR wrong number of arguments for 'unlock' command: UNLOCK resource token"},
		{"EXTEND a t 1000 more", "ERR wrong number of arguments for 'extend' command: EXTEND resource token ttl"},
		{"LOCKINFO", "ERR wrong number of arguments for 'lockinfo' command: LOCKINFO resource"},
		{"LOCK a ten", "ERR ttl 'ten' is no time: whole milliseconds are needed, or a whole number with a unit, as 500ms, 30s, 5m or 1h"},
		{"LOCK a 1.5", "ERR ttl '1.5' is no time"},
		{"LOCK a 99999999999999999999", "ERR ttl '99999999999999999999' is no time"},
		{"LOCK a 1.5s", "ERR ttl '1.5s' is no time"},
		{"LOCK a 1m30s", "ERR ttl '1m30s' is no time"},
		{"LOCK a 30S", "ERR ttl '30S' is no time"},
		{"LOCK a 030s", "ERR ttl '030s' is no time"},
		{"LOCK a s", "ERR ttl 's' is no time"},
		{"LOCK a 30sms", "ERR ttl '30sms' is no time"},
		{"LOCK a 99999999999999999999h", "ERR ttl '99999999999999999999h' is no time"},
		{"LOCK a 9223372036854775807h", "ERR ttl '9223372036854775807h' is out of range: no time is longer than 24h"},
		{"LOCK a -9223372036854775807m", "ERR ttl '-9223372036854775807m' is out of range: no time is longer than 24h"},
		{"LOCK a 6m", "ERR ttl of 360000 ms is above the most, 300000 ms (max_ttl)"},
		{"EXTEND a t 5ms", "ERR ttl of 5 ms is below the least, 20 ms (min_ttl): did you mean 5s? If not, ask for more, or lower min_ttl in [locks]"},
		{"MLOCK 1 a 1h", "ERR ttl of 3600000 ms is above the most, 300000 ms (max_ttl)"},
		{"MEXTEND 1 a t 1h", "ERR ttl of 3600000 ms is above the most, 300000 ms (max_ttl)"},
		{"LOCK a 1s WAIT 0s", "ERR WAIT of 0 ms is below the least, 1 ms; leave it out to not wait"},
		{"LOCK a 1s WAIT 2h", "ERR WAIT of 7200000 is outside 0 … 3600000 ms (max_wait)"},
		{"LOCK a 0", "ERR ttl of 0 ms is below the least, 20 ms (min_ttl): ask for more, or lower min_ttl in [locks]"},
		{"LOCK a -1", "ERR ttl of -1 ms is below the least, 20 ms (min_ttl): ask for more, or lower min_ttl in [locks]"},
		{"LOCK a 9", "ERR ttl of 9 ms is below the least, 20 ms (min_ttl): did you mean 9s? If not, ask for more, or lower min_ttl in [locks]"},
		{"LOCK a 300001", "ERR ttl of 300001 ms is above the most, 300000 ms (max_ttl): ask for less, or raise it with redlockd members set max_ttl"},
		{"LOCK a 9223372036854775807", "ERR ttl '9223372036854775807' is out of range: no time is longer than 24h"},
		{"EXTEND a t 9", "ERR ttl of 9 ms is below the least, 20 ms (min_ttl): did you mean 9s? If not, ask for more, or lower min_ttl in [locks]"},
		{"EXTEND a t x", "ERR ttl 'x' is no time"},
		{"LOCK a 1000 WAIT", "ERR syntax error: WAIT lacks its value"},
		{"LOCK a 1000 TOKEN", "ERR syntax error: TOKEN lacks its value"},
		{"LOCK a 1000 TOKEN t token t", "ERR syntax error: token is given twice"},
		{"LOCK a 1000 WAIT 1 WAIT 1", "ERR syntax error: WAIT is given twice"},
		{"LOCK a 1000 WAIT 0", "ERR WAIT of 0 ms is below the least, 1 ms; leave it out to not wait"},
		{"LOCK a 1000 WAIT -5", "ERR WAIT of -5 ms is below the least, 1 ms"},
		{"LOCK a 1000 WAIT long", "ERR WAIT 'long' is no time"},
		{"LOCK a 1000 WAIT 3600001", "ERR WAIT of 3600001 is outside 0 … 3600000 ms (max_wait)"},
		{"LOCK a 1000 WAITS 5", "ERR syntax error: 'WAITS' is no option of LOCK"},
		{"LOCK a 1000 NX", "ERR syntax error: 'NX' is no option of LOCK; TOKEN token, WAIT ms, FENCE, SHARED, SLOTS k, HOLD, RELEASE, NOTE text and JUSTTOKEN are"},
		{"LOCK a 1000 SHARED SHARED", "ERR syntax error: SHARED is given twice"},
		{"LOCK a 1000 SHARED FENCE", "ERR SHARED and FENCE do not go together: readers write nothing that a fence would keep in order"},
		{"LOCK a 1000 SLOTS 3 SHARED", "ERR SHARED and SLOTS do not go together: a slot has one holder"},
		{"MLOCK 2 a b 1000 SHARED", "ERR SHARED is an option of LOCK alone: readers take their resources one after the other, in the order of their names"},
		{"LOCK a 1 SHARED", "ERR ttl of 1 ms is below the least, 20 ms (min_ttl): did you mean 1s? If not, ask for more, or lower min_ttl in [locks]"},
		{"LOCK a 1000 SLOTS 0", "ERR SLOTS '0' is not an integer from 1 to 32"},
		{"LOCK a 1000 SLOTS 33", "ERR SLOTS '33' is not an integer from 1 to 32"},
		{"LOCK a 1000 SLOTS -1", "ERR SLOTS '-1' is not an integer from 1 to 32"},
		{"LOCK a 1000 SLOTS three", "ERR SLOTS 'three' is not an integer from 1 to 32"},
		{"LOCK a 1000 SLOTS ~", "ERR SLOTS '' is not an integer from 1 to 32"},
		{"LOCK a 1000 SLOTS", "ERR syntax error: SLOTS lacks its value"},
		{"LOCK a 1000 SLOTS 3 slots 3", "ERR syntax error: slots is given twice"},
		{"LOCK " + long[2:] + " 1000 SLOTS 3", "ERR the resource name has 1023 bytes, and its slots add 2: at most 1024 are possible"},
		{"LOCK a 300001 SLOTS 3", "ERR ttl of 300001 ms is above the most, 300000 ms (max_ttl)"},
		{"LOCK redlockd:a 1000 SLOTS 3", "ERR resource names that begin with redlockd:"},
		{"MLOCK 1 a 1000 SLOTS 3", "ERR SLOTS is an option of LOCK alone"},
		{"MLOCK 2 a b 1000 SLOTS 3", "ERR SLOTS is an option of LOCK alone"},
		{"LOCK a 1000 FENCE fence", "ERR syntax error: fence is given twice"},
		{"LOCK a 1000 JUSTTOKEN justtoken", "ERR syntax error: justtoken is given twice"},
		{"LOCK a 1000 JUSTTOKEN mine", "ERR syntax error: 'mine' is no option of LOCK"},
		{"LOCK a 1000 JUST TOKEN", "ERR syntax error: 'JUST' is no option of LOCK"},
		{"LOCK a JUSTTOKEN", "ERR ttl 'JUSTTOKEN' is no time"},
		{"LOCK a 1000 FENCE JUSTTOKEN", "ERR JUSTTOKEN and FENCE do not go together: the reply would lack the fence"},
		{"LOCK a 1000 JUSTTOKEN WAIT 5s FENCE", "ERR JUSTTOKEN and FENCE do not go together: the reply would lack the fence"},
		{"MLOCK 2 a b 1000 JUSTTOKEN FENCE", "ERR JUSTTOKEN and FENCE do not go together: the reply would lack the fence"},
		{"LOCK a 1000 SLOTS 3 JUSTTOKEN", "ERR JUSTTOKEN and SLOTS do not go together: the reply would lack the name of the slot, without which UNLOCK cannot release it"},
		{"HOLD a t 1000 JUSTTOKEN JUSTTOKEN", "ERR syntax error: JUSTTOKEN is given twice"},
		{"HOLD a t 1000 JUSTTOKEN FENCE", "ERR syntax error: 'FENCE' is no option of HOLD"},
		{"EXTEND a t 1000 JUSTTOKEN", "ERR wrong number of arguments for 'extend' command"},
		{"LOCK a 1000 TOKEN JUSTTOKEN", "ERR TOKEN lacks its value: JUSTTOKEN behind it is an option, and as a token it would let in all who leave theirs out"},
		{"LOCK a 1000 token justtoken", "ERR TOKEN lacks its value: JUSTTOKEN behind it"},
		{"MLOCK 1 a 1000 TOKEN FENCE", "ERR TOKEN lacks its value: FENCE behind it"},
		{"LOCK a 1000 TOKEN SHARED", "ERR TOKEN lacks its value: SHARED behind it"},
		{"LOCK a 1000 TOKEN HOLD", "ERR TOKEN lacks its value: HOLD behind it"},
		{"LOCK a 1000 HOLD TOKEN RELEASE", "ERR TOKEN lacks its value: RELEASE behind it"},
		{"LOCK a 1000 TOKEN WAIT 5s", "ERR syntax error: '5s' is no option of LOCK"},
		{"LOCK a 1000 TOKEN ~", "ERR the token is empty: 1 to 1024 bytes are needed"},
		{"LOCK a 1000 TOKEN LONG", "ERR the token has 1025 bytes, at most 1024 are possible"},
		{"LOCK ~ 1000", "ERR a resource name is empty: 1 to 1024 bytes are needed"},
		{"LOCK LONG 1000", "ERR a resource name has 1025 bytes, at most 1024 are possible"},
		{"LOCK redlockd:x 1000", "ERR resource names that begin with redlockd: are kept for redlockd itself"},
		{"UNLOCK a ~", "ERR the token is empty: 1 to 1024 bytes are needed"},
		{"UNLOCK redlockd:x t", "ERR resource names that begin with redlockd:"},
		{"MLOCK two a b 1000", "ERR numkeys 'two' is not an integer from 1 to 64"},
		{"MLOCK 0 a b 1000", "ERR numkeys '0' is not an integer from 1 to 64"},
		{"MLOCK 65 a b 1000", "ERR numkeys '65' is not an integer from 1 to 64"},
		{"MLOCK 3 a b 1000", "ERR syntax error: numkeys says 3, which does not fit the 3 arguments behind it: MLOCK numkeys resource [resource ...] ttl [TOKEN token] [WAIT ms] [FENCE]"},
		{"MLOCK 2 a a 1000", `ERR resource "a" is named twice`},
		{"MUNLOCK 1 a b t", "ERR syntax error: numkeys says 1, which does not fit the 3 arguments behind it"},
		{"MEXTEND 1 a t", "ERR wrong number of arguments for 'mextend' command: MEXTEND numkeys resource [resource ...] token ttl"},
		{"LOCKS MATCH *", "ERR syntax error: 'MATCH' is no option of LOCKS; ALL, BY HELD|WAITED|WAITERS|LOST, PATTERN glob and COUNT n are"},
		{"LOCKS BY age", "ERR BY 'age' is no order of LOCKS; HELD, WAITED, WAITERS and LOST are"},
		{"LOCKS BY", "ERR syntax error: BY lacks its value"},
		{"LOCKS COUNT 0", "ERR COUNT '0' is not an integer from 1 to 10000"},
		{"LOCKS PATTERN", "ERR syntax error: PATTERN lacks its value"},
		{"LOCKS PATTERN a PATTERN b", "ERR syntax error: PATTERN is given twice"},
	} {
		args := strings.Fields(strings.NewReplacer("LONG", long, "TOKEN LONG", "TOKEN "+long).Replace(test.command))
		for i := range args {
			if args[i] == "~" {
				args[i] = ""
			}
		}
		t.Run(test.command, func(t *testing.T) {
			c.t = t
			c.do(args...).err(test.want)
		})
	}
	c.t = t
	c.do("LOCKS").is("[]")
}

func TestLOCKINFO(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.do("LOCKINFO", "a").matches(`\["resource" "a" "held" :0 "validity-ms" :0 "token-digest" \$nil "votes" \[(.*)\] "fence" \$nil "mode" \$nil "readers" :0 "holders" \[\] "waiters" :0 "queue" \[\] "delay-ms" :0 "minority" \$nil\]`)

	c.do("LOCK", "a", "20000", "TOKEN", "mine").granted(1, 20000)
	waiting := srv.dial()
	waiting.send("LOCK", "a", "20000", "WAIT", "60000")
	srv.waiting(1)
	got := c.do("LOCKINFO", "a").matches(`\["resource" "a" "held" :1 "validity-ms" :1\d\d\d\d "token-digest" "([0-9a-f]{16})" "votes" \[(.*)\] "fence" \$nil "mode" "exclusive" "readers" :0 "holders" \[\["client" \$nil .*\]\] "waiters" :1 "queue" \[\[.*"mode" "exclusive"\]\] "delay-ms" :0 "minority" \$nil\]`)
	if n := strings.Count(got[1], `"token-digest" "`+got[0]+`" "ttl-ms" :`); n < 3 {
		t.Errorf("got %d votes for the digest, want a quorum:\n%s", n, got[1])
	}
	if strings.Contains(got[1], "mine") {
		t.Errorf("the token is shown: %s", got[1])
	}
}

func TestLOCKS(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.do("LOCKS").is("[]")
	c.do("LOCK", "invoice:1", "20000", "TOKEN", "mine").granted(1, 20000)
	c.do("LOCK", "invoice:2", "20000", "TOKEN", "mine").granted(1, 20000)
	c.do("MLOCK", "2", "order:1", "order:2", "20000", "TOKEN", "mine").granted(1, 20000)

	lease := func(resources string) string {
		return `\["resources" \[` + resources + `\] "token-digest" "[0-9a-f]{16}" "validity-ms" :1\d\d\d\d "bound" :0 "lost" :0 "mode" "exclusive" "holder" \["client" \$nil "addr" "127.0.0.1:\d+" "user" "default" "note" \$nil "since" :\d{10} "held-ms" :\d+\] "waiters" :0 "queue" \[\] "delay-ms" :0 "minority" \$nil\]`
	}
	c.do("LOCKS").matches(`\[` + lease(`"invoice:1"`) + " " + lease(`"invoice:2"`) + " " + lease(`"order:1" "order:2"`) + `\]`)
	c.do("LOCKS", "pattern", "invoice:[2-9]").matches(`\[` + lease(`"invoice:2"`) + `\]`)
	c.do("LOCKS", "COUNT", "1", "PATTERN", "*").matches(`\[` + lease(`"invoice:1"`) + `\]`)
	c.do("LOCKS", "PATTERN", "nothing").is("[]")
	c.do("LOCKS", "BY", "held", "COUNT", "1").matches(`\[` + lease(`"invoice:1"`) + `\]`)
	c.do("LOCKS", "BY", "HELD", "PATTERN", "*[12]", "COUNT", "9").matches(`\[` + lease(`"invoice:1"`) + " " + lease(`"invoice:2"`) + " " + lease(`"order:1" "order:2"`) + `\]`)
	c.do("LOCKS", "BY", "WAITED").is("[]")
	c.do("LOCKS", "BY", "LOST").is("[]")

	// The first of many readers, of whom LOCKINFO has a few.
	stuck := srv.dial()
	stuck.do("CLIENT", "SETNAME", "stuck").is("+OK")
	stuck.do("LOCK", "read", "20000", "SHARED", "TOKEN", "z").granted(1, 20000)
	for i := range 300 {
		c.do("LOCK", "read", "20000", "SHARED", "TOKEN", strconv.Itoa(i)).granted(1, 20000)
	}
	c.do("LOCKS", "BY", "HELD", "PATTERN", "read", "COUNT", "1").matches(`\[\["resources" \["read"\] .* "mode" "shared" "holder" \["client" "stuck" .*`)
}

// Goal: LOCKS takes a bounded time and amount of memory, waits for no other LOCKS without end, and its client is seen to leave meanwhile.
func TestLOCKSIsBounded(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		c := srv.dial()
		for i := range 40 {
			c.do("LOCK", strconv.Itoa(i)+strings.Repeat("x", 1000), "20000", "TOKEN", "mine").granted(1, 20000)
		}
		l := &listing{slot: slot{s: srv.clients()[0].session}}
		search := &leaseSearch{pattern: "*y", limit: locksDefault, deadline: time.Now().Add(-time.Hour), may: l.user.May}
		if leases := srv.opts.Engine.Leases(search.match, search.limit); len(leases) > 0 || !search.late {
			t.Errorf("behind the deadline: got %d leases, want that it is too late", len(leases))
		}
		long := func(int) fields {
			return srv.leaseFields(nil, redlock.LeaseInfo{Resources: []string{strings.Repeat("x", 1000)}})
		}
		l.appendLeases(10_000, long)
		if len(l.out) > locksBytesMax+2000 {
			t.Errorf("a list has %d bytes, want %d at most and one lease", len(l.out), locksBytesMax)
		}
		l.out, l.by = nil, redlock.ByHeld
		l.appendLeases(10_000, long)
		if listed := bytes.Count(l.out, []byte("minority")); len(l.out) > locksFit+10 || !bytes.HasPrefix(l.out, fmt.Appendf(nil, "*%d\r\n", listed)) || listed < 1000 {
			t.Errorf("LOCKS BY HELD lists %d leases in %d bytes, and begins with %.20q; want as many as fit into %d, and their number", listed, len(l.out), l.out, locksFit)
		}

		srv.listing <- struct{}{} // somebody else's
		leaving := srv.dial()
		leaving.raw(strings.Repeat(frameOf("LOCKS"), 100))
		eventually(t, "it waits", func() bool { return len(srv.clients()) == 2 && srv.clients()[1].order.waits() })
		c.do("CLIENT", "KILL", "ID", strconv.FormatInt(srv.clients()[1].id, 10)).is(":1")
		eventually(t, "it has gone", func() bool { return len(srv.clients()) == 1 })
		c.do("LOCKS").is("-ERR LOCKS waited 1s for other LOCKS: try again")
		<-srv.listing
		c.do("LOCKS", "PATTERN", "7x*").matches(`\[\["resources" \["7x+"\] .*`)

		// One search at a time, and none for a client that has gone.
		search = &leaseSearch{limit: locksDefault, deadline: time.Now().Add(patience), may: func(string) bool {
			if len(srv.listing) != cap(srv.listing) {
				t.Error("another search may run at the same time")
			}
			return true
		}}
		refusal := srv.listInTurn(search, func([]redlock.LeaseInfo) {
			if len(srv.listing) != cap(srv.listing) {
				t.Error("another list may be made at the same time")
			}
		})
		if refusal != nil {
			t.Error(refusal)
		}
		if leases, refusal := srv.findLeases(search); refusal != nil || len(leases) != 40 {
			t.Errorf("got %d leases and %v, want all 40", len(leases), refusal)
		}
		gone := srv.dial()
		eventually(t, "it is there", func() bool { return len(srv.clients()) == 2 })
		l = &listing{slot: slot{s: srv.clients()[1].session}, locksOptions: locksOptions{limit: locksDefault}, deadline: time.Now().Add(patience)}
		gone.conn.Close()
		eventually(t, "it has gone", func() bool { return len(srv.clients()) == 1 })
		if leases, refusal := srv.findLeases(l.search()); refusal != nil || len(leases) != 0 {
			t.Errorf("for a client that has gone: got %d leases and %v, want that nothing is compared", len(leases), refusal)
		}

		// A list that is too long is refused as a whole.
		for i := range locksBytesMax/redlock.MaxResources/1000 + 1 {
			args := []string{"MLOCK", strconv.Itoa(redlock.MaxResources)}
			for k := range redlock.MaxResources {
				args = append(args, fmt.Sprint(i, ":", k, strings.Repeat("y", 1000)))
			}
			c.do(append(args, "20000", "TOKEN", "mine")...).granted(1, 20000)
		}
		c.do("LOCKS", "COUNT", "1000").is("-ERR the list has more than 4194304 bytes: list fewer leases with COUNT, or others with PATTERN")
		c.do("LOCKS", "PATTERN", "7x*").matches(`\[\["resources" \["7x+"\] .*`)
		c.do("LOCKS", "BY", "HELD", "COUNT", "1000").matches(`\[\["resources" \["0x+"\] .*`) // as many as fit
	})
}

// A lease that the masters have forgotten is listed as lost: its holder believes in it until its next EXTEND.
func TestLOCKSTellsWhatIsLost(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.do("LOCK", "a", "20000", "TOKEN", "mine").granted(1, 20000)
	srv.crash(0, 1, 2)
	for _, m := range srv.masters[:3] {
		m.Restart()
	}
	eventually(t, "it is listed as lost", func() bool { return strings.Contains(c.do("LOCKS").text, `"lost" :1`) })
}

// Whether a resource is held is not known when the masters that are silent could hold it.
func TestLOCKINFOWithoutQuorum(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.do("LOCK", "a", "20000", "TOKEN", "mine").granted(1, 20000)
	for i, want := range []string{`held" :1`, `held" :1`, `held" \$nil`} {
		srv.masters[i].Crash(false)
		eventually(t, "it is down", func() bool { return srv.opts.Engine.Masters()[i].State == redlock.MasterDown })
		c.do("LOCKINFO", "a").matches(`.*"` + want + ` .*`)
	}
	c.do("LOCKINFO", "free").matches(`.*"held" \$nil .*`)
	srv.masters[0].Restart()
	eventually(t, "it is back", func() bool { return srv.opts.Engine.Masters()[0].State == redlock.MasterQuarantined })
	c.do("LOCKINFO", "free").matches(`.*"held" :0 .*`)
}
