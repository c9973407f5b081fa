package proxy

// Goal: passwords cannot be tried by the thousand, over however many connections, and a client that knows the password gets in all the same.
// Method: the arithmetic with times of the test's own; dialogues in virtual time.

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestLoginsArithmetic(t *testing.T) {
	var l logins
	here, there := netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("2001:db8::/64")
	now := time.Now()
	want := func(what string, got, want time.Duration) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	for i := range 10 {
		want("a failure at the same time as others", l.failed(here, now), time.Duration(i+1)*failedLoginPause)
	}
	want("elsewhere", l.failed(there, now), failedLoginPause)
	for range 1000 {
		l.failed(here, now)
	}
	want("a failure behind a thousand", l.failed(here, now), loginWaitMax)
	now = now.Add(loginMemoryMax)
	want("a failure half a minute later", l.failed(here, now), failedLoginPause)

	// The table is full of addresses that owe something: all others are one.
	ip := netip.MustParseAddr("10.1.0.0")
	for len(l.until) < loginOriginsMax {
		ip = ip.Next()
		l.failed(netip.PrefixFrom(ip, 32), now)
	}
	for range 30 {
		ip = ip.Next()
		l.failed(netip.PrefixFrom(ip, 32), now)
	}
	want("of an address that is not remembered", l.failed(netip.PrefixFrom(ip.Next(), 32), now), loginWaitMax)
	want("of one that is", l.failed(here, now), 2*failedLoginPause)
	if len(l.until) > loginOriginsMax+1 {
		t.Errorf("%d addresses are remembered, want %d at most", len(l.until), loginOriginsMax+1)
	}
	now = now.Add(loginMemoryMax)
	l.failed(there, now)
	if len(l.until) != 1 {
		t.Errorf("%d addresses are remembered when nothing is owed any more, want the one that failed", len(l.until))
	}
}

// Every failed login waits, also those behind the first that succeeds, and of several that are sent at once; they are counted.
func TestFailedLoginsWait(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, withUser)
		c := srv.dial()
		c.do("AUTH", "secret").is("+OK")
		start := time.Now()
		const n = 5
		c.raw(strings.Repeat(frameOf("AUTH", "wrong"), n) + frameOf("HELLO", "3", "AUTH", "default", "wrong") + frameOf("PING"))
		for range n + 1 {
			c.read().is("-" + string(errWrongPass))
		}
		c.read().is("+PONG") // it stays who it was
		if got := time.Since(start); got != (n+1)*failedLoginPause {
			t.Errorf("%d wrong passwords took %v, want %v", n+1, got, (n+1)*failedLoginPause)
		}
		srv.wantMetric("redlockd_logins_failed_total", "6")
		c.do("INFO", "stats").matches(`(?s).*acl_access_denied_auth:6\\r.*`)
	})
}

// Connections share what their address has failed: guesses from there are answered late, also on new connections. A client of the same
// address that knows its password is answered at once, in the midst of them.
func TestFailedLoginsOfAnAddress(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, withUser)
		origin := netip.MustParsePrefix("127.0.0.1/32")
		failed := uint64(0)
		flood := func(n int, leave bool) {
			t.Helper()
			for range n {
				c := srv.dial()
				c.raw(frameOf("AUTH", "wrong"))
				failed++
				eventually(t, "it has failed", func() bool { return srv.counters[countLoginsFailed].Load() == failed })
				if leave { // rather than wait for the answer
					c.conn.Close()
				}
			}
		}
		for round := range 20 {
			flood(20, round%2 == 0)
			honest := srv.dial()
			start := time.Now()
			honest.do("AUTH", "secret").is("+OK")
			honest.do("HELLO", "3", "AUTH", "default", "secret").matches("{.*}")
			if got := time.Since(start); got != 0 {
				t.Fatalf("after %d failures of its address, the right password was answered after %v, want at once", failed, got)
			}
			honest.do("LOCK", "r", "10000", "TOKEN", "x").granted(1, 10000)
			honest.do("UNLOCK", "r", "x").is(":1")
		}
		guesser := srv.dial()
		start := time.Now()
		guesser.do("AUTH", "wrong").is("-" + string(errWrongPass))
		if got := time.Since(start); got != loginWaitMax {
			t.Errorf("after %d failures of its address, a wrong password was answered after %v, want %v", failed, got, loginWaitMax)
		}
		start = time.Now()
		guesser.raw(frameOf("AUTH", "wrong") + frameOf("AUTH", "secret")) // a connection tries one at a time
		guesser.read().is("-" + string(errWrongPass))
		guesser.read().is("+OK")
		if got := time.Since(start); got != loginWaitMax {
			t.Errorf("the password after a wrong one was answered after %v, want %v", got, loginWaitMax)
		}
		if got := srv.logins.failed(netip.MustParsePrefix("127.0.0.2/32"), time.Now()); got != failedLoginPause {
			t.Errorf("a failure of another address is answered after %v, want %v", got, failedLoginPause)
		}
		if n := len(srv.logins.until); n != 2 || !srv.logins.until[origin].After(time.Now()) {
			t.Errorf("%d addresses are remembered, want 2", n)
		}
	})
}
