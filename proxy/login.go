package proxy

import (
	"maps"
	"net/netip"
	"sync"
	"time"
)

// logins slows down clients that try passwords. Every failed login waits for its answer, also that of a
// client that has logged in before. All clients of one address (see access.OriginOf) share what they
// have failed: beyond loginFree, each further login from there waits before it is checked, whether it
// is right or wrong, so that the time does not show which.
//
// Nobody is refused. A client behind the same NAT as the guesser, or on the same machine, gets in with
// the right password within loginWaitMax. A guess occupies a connection for loginWaitMax, so one
// address can try half of MaxClients passwords per second, if it holds all connections. Passwords that
// are in no list of common ones withstand that.
type logins struct {
	mu sync.Mutex
	// until says, for each origin, when its failures are forgotten: each adds failedLoginPause.
	until map[netip.Prefix]time.Time
}

const (
	// failedLoginPause is how long a failed login waits at least, and what it costs its address.
	failedLoginPause = 100 * time.Millisecond
	// loginFree is how much of that an address may have before all of its logins wait: ten failures at
	// one time.
	loginFree = time.Second
	// loginWaitMax bounds each wait, before a login is checked and behind one that failed: client
	// libraries give up after 3 s to 5 s.
	loginWaitMax = 2 * time.Second
	// loginMemoryMax bounds how long the failures of an address are remembered. More failures add nothing.
	loginMemoryMax = 30 * time.Second
	// loginOriginsMax bounds the addresses that are remembered. All others count as one.
	loginOriginsMax = 10_000
)

// before is how long a login from an origin waits until it is checked.
func (l *logins) before(origin netip.Prefix, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, ok := l.until[origin]
	if !ok && len(l.until) >= loginOriginsMax {
		until = l.until[netip.Prefix{}]
	}
	if until.Before(now) { // or the zero time, which Sub could not take
		return 0
	}
	return min(max(0, until.Sub(now)-loginFree), loginWaitMax)
}

// failed counts a failed login, and returns how long its answer waits.
func (l *logins) failed(origin netip.Prefix, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.until[origin]; !ok && len(l.until) >= loginOriginsMax {
		maps.DeleteFunc(l.until, func(_ netip.Prefix, until time.Time) bool { return !until.After(now) })
		if len(l.until) >= loginOriginsMax {
			origin = netip.Prefix{}
		}
	}
	if l.until == nil {
		l.until = make(map[netip.Prefix]time.Time)
	}
	until := l.until[origin]
	if until.Before(now) {
		until = now
	}
	until = until.Add(failedLoginPause)
	if most := now.Add(loginMemoryMax); until.After(most) {
		until = most
	}
	l.until[origin] = until
	return min(until.Sub(now), loginWaitMax)
}

// pause keeps the reader goroutine, and no CPU place, for so long. It returns false if the connection
// is closed.
func (conn *connection) pause(d time.Duration) (alive bool) {
	defer withoutCPU(conn)()
	over := false
	timer := time.AfterFunc(d, func() {
		conn.mu.Lock()
		over = true
		conn.changed.Signal()
		conn.mu.Unlock()
	})
	defer timer.Stop()
	return conn.await(func() bool { return over }) == nil
}

// failedLoginName is how many bytes of a wrong name the log shows. A client may have sent its password
// as the name.
const failedLoginName = 64
