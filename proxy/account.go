package proxy

import (
	"sync/atomic"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock"
)

// account counts what one user takes of the server, over all of its connections, and what its own
// limits have refused.
//
// Clients that have not logged in share one account without limits, as do all clients where no users
// are configured.
//
// A limit is a bound between users of one server, not between servers: each redlockd counts for itself.
//
// An account outlives a reload as long as its user may do all that it could before. A user who lost
// something gets another account, and the connections that are on the old one are closed. So a
// connection may stay exactly if liveOptions has its account.
type account struct {
	// current is the user with its present rights and limits, which a reload can replace at any time;
	// nil in the shared account.
	current atomic.Pointer[access.User]
	// share bounds what the user takes of the engine: locks, waiters, and its part of the work under
	// load. nil in the shared account: then the engine's own share is used.
	share *redlock.Share
	// asking holds an element while a LOCKS ALL of the user waits for its turn or runs.
	asking chan struct{}

	connections atomic.Int64
	output      atomic.Int64 // what is kept for its clients, see memoryLocked

	stored storedScripts // scripts that were put on the masters for the user

	// refused counts refusals by the limits of the user, for INFO and metrics.
	refused *accountRefusals
	// own are the statistics that INFO shows a confined user; nil: it sees those of the server.
	own *ownStats
}

// accountRefusals counts what an account has refused, by its limit.
type accountRefusals struct{ connections, locks, memory, waiters, ttls atomic.Uint64 }

// newAccount makes the account of a user. If the user lost something by a reload, before is its account
// until then, else nil: the locks that it has taken go on counting, and what was refused stays counted.
func newAccount(u *access.User, before *account) *account {
	a := &account{asking: make(chan struct{}, 1), refused: new(accountRefusals),
		share: &redlock.Share{Name: u.Name}}
	a.current.Store(u)
	if before != nil {
		a.share, a.refused, a.own = before.share, before.refused, before.own
	}
	if u.Confined() && a.own == nil {
		a.own = newOwnStats()
	}
	return a
}

// user is the user with its present rights and limits, or nil in the shared account. Two calls can
// return different ones.
func (a *account) user() *access.User { return a.current.Load() }

// leave is called for a connection that has entered, when it ends or becomes another user's.
func (a *account) leave() { a.connections.Add(-1) }

// refuse counts an operation that the engine has refused because of a limit of the user, and returns
// the error. Its code is ERR for too many locks, and for locks that take too much memory. It is BUSYWAIT
// for too many waiters, as when the engine's own bound of waiters is reached.
func (a *account) refuse(limit *redlock.ShareError) error {
	switch limit.Limit {
	case redlock.LimitLocks:
		a.refused.locks.Add(1)
		return a.reached("ERR", "locks", limit.Max)
	case redlock.LimitMemory:
		a.refused.memory.Add(1)
		return errorf("ERR the locks of user %s take %d of the %d bytes that they may take of each master (max_memory in [auth]): release some first, or use shorter names",
			a.user().Name, limit.Used, limit.Max)
	case redlock.LimitWaiters:
		a.refused.waiters.Add(1)
		return a.reached("BUSYWAIT", "waiters", limit.Max)
	}
	return limit
}

// reached is the error for a limit of the user. It names the setting that raises it.
func (a *account) reached(code, what string, most int) error {
	return errorf("%s max number of %s of user %s reached (max_%s = %d in [auth])", code, what, a.user().Name, what, most)
}

// checkTTL refuses a TTL above the user's own limit. The engine checks its own MaxTTL.
func (a *account) checkTTL(ttl time.Duration) error {
	u := a.user()
	if u == nil || u.MaxTTL == 0 || ttl <= u.MaxTTL {
		return nil
	}
	a.refused.ttls.Add(1)
	return refusedf(reasonTTLTooLong, "ERR ttl of %d ms is above the most, %d ms (max_ttl of user %s in [auth])",
		ttl.Milliseconds(), u.MaxTTL.Milliseconds(), u.Name)
}

// defaultUser is the name for a login with a password alone. Where no users are configured, every
// client has it.
const defaultUser = "default"

// usernameOf is the name of a user; nil is a client that has not logged in.
func usernameOf(u *access.User) string {
	if u == nil {
		return defaultUser
	}
	return u.Name
}
