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
	want("before any failure", l.before(here, now), 0)
	for i := range 10 {
		want("a failure at the same time as others", l.failed(here, now), time.Duration(i+1)*failedLoginPause)
	}
	want("behind ten failures", l.before(here, now), 0)
	want("the next failure", l.failed(here, now), 11*failedLoginPause)
	want("behind eleven", l.before(here, now), failedLoginPause)
	want("elsewhere", l.before(there, now), 0)
	for range 1000 {
		l.failed(here, now)
	}
	want("behind a thousand", l.before(here, now), loginWaitMax)
	want("a failure behind a thousand", l.failed(here, now), loginWaitMax)
	now = now.Add(loginMemoryMax)
	want("half a minute later", l.before(here, now), 0)
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
	want("of an address that is not remembered", l.before(there, now), loginWaitMax)
	want("of one that is", l.before(here, now), 0)
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

// Connections share what their address has failed; nobody who knows the password is kept out.
func TestFailedLoginsOfAnAddress(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, withUser)
		const guessers = 40
		for range guessers {
			srv.dial().raw(frameOf("AUTH", "wrong"))
		}
		eventually(t, "all have failed", func() bool { return srv.counters[countLoginsFailed].Load() == guessers })
		origin := netip.MustParsePrefix("127.0.0.1/32")
		if got := srv.logins.before(origin, time.Now()); got == 0 {
			t.Error("the next login from there does not wait")
		}
		if got := srv.logins.before(netip.MustParsePrefix("127.0.0.2/32"), time.Now()); got != 0 {
			t.Errorf("one from elsewhere waits %v", got)
		}
		honest, leaving := srv.dial(), srv.dial()
		leaving.raw(frameOf("AUTH", "wrong"))
		start := time.Now()
		wait := srv.logins.before(origin, start)
		honest.do("AUTH", "secret").is("+OK")
		if got := time.Since(start); wait == 0 || got < wait {
			t.Errorf("the right password was answered after %v, want that it waits %v as a wrong one does", got, wait)
		}
		leaving.conn.Close()
		honest.do("LOCK", "r", "10000", "TOKEN", "x").granted(1, 10000)
	})
}
