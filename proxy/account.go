package proxy

import (
	"fmt"
	"sync/atomic"
	"time"

	"redlockd/redlock"
)

// account is what one user takes of the server, over all of its connections, and how often one of its limits refused it more. Clients
// that have not logged in, and all clients where no users are configured, have one account together, which has no limits.
type account struct {
	user  *User          // nil in that account
	share *redlock.Share // of the engine; nil in that account

	connections atomic.Int64
	output      atomic.Int64 // memory of replies and messages that wait for its clients

	refusedConnections, refusedLocks, refusedWaiters, refusedTTLs atomic.Uint64
}

// newAccounts makes an account for each user, and one for those who are none.
func newAccounts(users []User) (accounts []*account, anonymous *account) {
	for i := range users {
		u := &users[i]
		accounts = append(accounts, &account{user: u, share: &redlock.Share{MaxLocks: u.MaxLocks, MaxWaiters: u.MaxWaiters}})
	}
	return accounts, &account{}
}

// enter counts a connection, or returns the error for one too many.
func (a *account) enter() (refusal error) {
	for {
		n := a.connections.Load()
		if a.user != nil && a.user.MaxConnections > 0 && n >= int64(a.user.MaxConnections) {
			a.refusedConnections.Add(1)
			return a.reached("ERR", "connections", a.user.MaxConnections)
		}
		if a.connections.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

// leave is for a connection that has entered and ends, or becomes another user's.
func (a *account) leave() { a.connections.Add(-1) }

// refuse counts what the engine has refused because of a limit, and returns the error.
func (a *account) refuse(limit *redlock.ShareError) error {
	switch limit.Limit {
	case redlock.LimitLocks:
		a.refusedLocks.Add(1)
		return a.reached("ERR", "locks", limit.Max)
	case redlock.LimitWaiters:
		a.refusedWaiters.Add(1)
		return a.reached("BUSYWAIT", "waiters", limit.Max)
	}
	return limit
}

// reached names the limit and the setting.
func (a *account) reached(code, what string, most int) error {
	return errorf("%s max number of %s of user %s reached (max_%s = %d in [auth])", code, what, a.user.Name, what, most)
}

// checkTTL refuses a TTL above the user's own limit. That of the server is left to the engine.
func (a *account) checkTTL(ttl time.Duration) error {
	if a.user == nil || a.user.MaxTTL == 0 || ttl <= a.user.MaxTTL {
		return nil
	}
	a.refusedTTLs.Add(1)
	return fmt.Errorf("ttl of %d ms is above the most, %d ms (max_ttl of user %s in [auth])",
		ttl.Milliseconds(), a.user.MaxTTL.Milliseconds(), a.user.Name)
}

// defaultTTL is what a lock gets that is taken without a TTL: no more than the user may have. 0: such a lock is refused.
func (a *account) defaultTTL(ofServer time.Duration) time.Duration {
	if a.user == nil || a.user.MaxTTL == 0 {
		return ofServer
	}
	return min(ofServer, a.user.MaxTTL)
}
