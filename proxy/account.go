package proxy

import (
	"fmt"
	"sync/atomic"
	"time"
)

// account is what one user takes of the server, over all of its connections, and how often one of its limits refused it more. Clients
// that have not logged in, and all clients where no users are configured, have one account together, which has no limits.
type account struct {
	user *User // nil in that account

	connections atomic.Int64
	output      atomic.Int64 // memory of replies and messages that wait for its clients

	refusedConnections, refusedTTLs atomic.Uint64
}

// newAccounts makes an account for each user, and one for those who are none.
func newAccounts(users []User) (accounts []*account, anonymous *account) {
	for i := range users {
		accounts = append(accounts, &account{user: &users[i]})
	}
	return accounts, &account{}
}

// enter counts a connection, or returns the error for one too many.
func (a *account) enter() (refusal string) {
	for {
		n := a.connections.Load()
		if a.user != nil && a.user.MaxConnections > 0 && n >= int64(a.user.MaxConnections) {
			a.refusedConnections.Add(1)
			return fmt.Sprintf("ERR max number of connections of user %s reached (max_connections = %d in [auth])",
				a.user.Name, a.user.MaxConnections)
		}
		if a.connections.CompareAndSwap(n, n+1) {
			return ""
		}
	}
}

// leave is for a connection that has entered and ends, or becomes another user's.
func (a *account) leave() { a.connections.Add(-1) }

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
