package run

import (
	"context"
	"slices"
	"time"

	"redlockd/redlock"
)

// masters is the way without a server: this process asks the masters.
type masters struct{ client *redlock.Client }

// mastersLock is a lock that this process renews at the masters.
type mastersLock struct{ *redlock.Lease }

func (m masters) take(ctx context.Context, o *runOptions) (lock, error) {
	options := m.client.Options()
	ready, cancel := context.WithTimeout(ctx, options.ConnectTimeout)
	defer cancel()
	if m.client.Ready(ready) == nil {
		// A lock on all masters outlives more of them than one on those that were there first.
		out := func(s redlock.MasterStatus) bool { return s.State != redlock.MasterUp }
		for began := time.Now(); time.Since(began) < options.MasterTimeout && ready.Err() == nil && slices.ContainsFunc(m.client.Masters(), out); {
			time.Sleep(2 * time.Millisecond)
		}
	} // else LOCK says what is missing, or waits for it
	lease, err := m.client.Acquire(ctx, redlock.LockRequest{Resources: []string{o.resource}, TTL: o.ttl, Wait: o.wait, Fence: o.fence, Shared: o.shared, Slots: o.slots})
	if err != nil {
		return nil, err
	}
	return mastersLock{lease}, nil
}

func (m masters) obstacle() string {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.client.Ready(now); err != nil {
		return reasonOf(err)
	}
	return "it is held by another"
}

func (m masters) close(ctx context.Context) { m.client.Close(ctx) }

func (l mastersLock) name() (resource, token string, fence int64) {
	return l.Resources[0], l.Token, l.Fence
}
