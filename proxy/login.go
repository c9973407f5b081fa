package proxy

import (
	"maps"
	"net/netip"
	"sync"
	"time"
)

// logins slows down clients that try passwords. Every password is checked at once, and a right one is
// answered at once. The answer to a wrong one is delayed, also for a client that has logged in before:
// by failedLoginPause, and up to loginWaitMax when its address (see access.OriginOf) has failed often.
// The delay blocks the commands behind it, so a connection tries one password at a time.
//
// A client behind the same NAT as a guesser, or on the same machine, is not slowed down. That is why
// nothing waits before the check: until then its login looks like a guess, so whatever delays guesses
// there delays the client as much.
//
// The time shows which password was right. A guesser can take 10 ms of silence for "wrong", leave, and
// connect again. So each guess costs it a connection, and with TLS a handshake; accepting (acceptBurst)
// and the CPU for clients before their login (semaphore) allow some thousand of these per second. If
// each login waited before the check, MaxClients connections at a time would still try half of
// MaxClients passwords per second, and would evict honest clients while these wait. Passwords that are
// in no list of common ones withstand either rate.
type logins struct {
	mu sync.Mutex
	// until says, for each origin, when its failures are forgotten: each adds failedLoginPause.
	until map[netip.Prefix]time.Time
}

const (
	// failedLoginPause is how long the answer to a failed login waits at least, and what each failure
	// adds to the waits of its address.
	failedLoginPause = 100 * time.Millisecond
	// loginWaitMax bounds each wait: client libraries give up after 3 s to 5 s.
	loginWaitMax = 2 * time.Second
	// loginMemoryMax bounds how long the failures of an address are remembered. More failures add nothing.
	loginMemoryMax = 30 * time.Second
	// loginOriginsMax bounds the addresses that are remembered. All others count as one.
	loginOriginsMax = 10_000
)

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

// failedLoginName is how many bytes of a wrong name the log shows. A client may have sent its password
// as the name.
const failedLoginName = 64
