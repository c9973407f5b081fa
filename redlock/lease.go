package redlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"redlockd/redlock/clock"
)

// Lease is a lock that was granted: resources, token, and until when. Validity and Until may be
// called by any goroutine, the rest by one at a time.
type Lease struct {
	// Resources are what is locked.
	Resources []string
	// Token signs the lock. A client that knows it can release or extend the lock.
	Token string

	// Fence is the fencing token that was asked for with LockRequest.Fence, else 0.
	Fence int64

	client    *Client
	ttl       time.Duration // as it was asked for first
	keepAlive func()        // ends the renewals; nil: nothing renews it

	mu        sync.Mutex // guards what follows
	until     time.Time
	suspended time.Duration // as suspended said before the masters were asked
}

// Until is the end of the validity, on this process's monotonic clock. Work that the lock protects
// must be over by then.
func (l *Lease) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// Validity is what is left of the validity, 0 or less when it is over. On Linux it shrinks also
// while the machine is suspended.
func (l *Lease) Validity() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.until) - (clock.Suspended() - l.suspended) //mutant:suspension-forgotten
}

// setUntil moves the end of the validity. before is suspended() from before the masters were asked,
// so that a suspension on the way makes the validity shorter, never longer.
func (l *Lease) setUntil(until time.Time, before time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until, l.suspended = until, before
}

// Lock waits until the resource is free and locks it for ttl. It waits as long as ctx allows, at
// most Options.MaxWait, also for a quorum of masters that is missing. The error is one of this
// package's, or ctx.Err().
func (c *Client) Lock(ctx context.Context, resource string, ttl time.Duration) (*Lease, error) {
	return c.Acquire(ctx, LockRequest{Resources: []string{resource}, TTL: ttl, Wait: c.bounds.limits.Load().maxWait})
}

// TryLock locks the resource for ttl, or returns ErrHeld at once.
func (c *Client) TryLock(ctx context.Context, resource string, ttl time.Duration) (*Lease, error) {
	return c.Acquire(ctx, LockRequest{Resources: []string{resource}, TTL: ttl})
}

// Acquire is Lock for several resources or one of several slots, with a token of the caller's own, or
// with a bounded wait. When the wait has run out it returns ErrHeld, or a *NoQuorumError if the last
// attempt found no quorum.
func (c *Client) Acquire(ctx context.Context, req LockRequest) (*Lease, error) {
	before := clock.Suspended()
	result, err := c.wait(ctx, func(op *Op, to Completer) { c.StartLock(op, req, to) })
	switch {
	case err != nil:
		return nil, err
	case !result.Held:
		return nil, ErrHeld
	}
	resources := slices.Clone(req.Resources)
	if result.Slot != "" {
		resources = []string{result.Slot}
	}
	lease := &Lease{Resources: resources, Token: result.Token, Fence: result.Fence, client: c, ttl: req.TTL}
	lease.setUntil(result.Until, before)
	return lease, nil
}

// Unlock ends KeepAlive and releases the lock. ErrNotHeld: it was not held any more. A
// *NoQuorumError: not known; if the token was made here, the release is delivered to the masters
// that did not answer as soon as they are back, and otherwise the lock ends there with its TTL.
func (l *Lease) Unlock(ctx context.Context) error {
	l.stopKeepAlive()
	return l.client.Unlock(ctx, l.Token, l.Resources...)
}

// Extend renews the lock: it ends ttl from now, and Until moves. ErrNotHeld: it is lost. A
// *NoQuorumError: not known; the lock as it was before runs on.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	before := clock.Suspended()
	result, err := l.client.extend(ctx, l.Token, ttl, l.Resources)
	if err != nil {
		return err
	}
	l.setUntil(result.Until, before)
	return nil
}

// Unlock releases what the token holds. Errors as Lease.Unlock.
func (c *Client) Unlock(ctx context.Context, token string, resources ...string) error {
	result, err := c.wait(ctx, func(op *Op, to Completer) { c.StartUnlock(op, resources, token, to) })
	if err == nil && !result.Held {
		err = ErrNotHeld
	}
	return err
}

// Extend gives what the token holds a new TTL, from now, and returns the new validity. Errors as
// Lease.Extend.
func (c *Client) Extend(ctx context.Context, token string, ttl time.Duration, resources ...string) (time.Duration, error) {
	result, err := c.extend(ctx, token, ttl, resources)
	return result.Validity, err
}

func (c *Client) extend(ctx context.Context, token string, ttl time.Duration, resources []string) (Result, error) {
	result, err := c.wait(ctx, func(op *Op, to Completer) { c.StartExtend(op, resources, token, ttl, to) })
	if err == nil && !result.Held {
		err = ErrNotHeld
	}
	return result, err
}

// Inspect asks all masters what they know of a resource.
func (c *Client) Inspect(ctx context.Context, resource string) (*ResourceInfo, error) {
	result, err := c.wait(ctx, func(op *Op, to Completer) { c.StartInspect(op, resource, to) })
	return result.Info, err
}

// ForceUnlock releases a resource without the token, see StartForce. ErrNotHeld: nobody does;
// Forced.Fence is valid all the same.
func (c *Client) ForceUnlock(ctx context.Context, resource string) (*Forced, error) {
	result, err := c.wait(ctx, func(op *Op, to Completer) { c.StartForce(op, resource, to) })
	if err == nil && !result.Held {
		err = ErrNotHeld
	}
	return result.Forced, err
}

// synchronous turns an operation into a call.
type synchronous struct {
	Op
	done chan Result
}

// Done implements Completer.
func (w *synchronous) Done(_ *Op, result Result) Flusher {
	w.done <- result
	return nil
}

// wait runs an operation to its end. When ctx is done, a wait ends at once; rounds that are on
// their way are waited for, because their outcome is known within a batch, and a lock must not be
// lost on the way to its caller.
func (c *Client) wait(ctx context.Context, start func(*Op, Completer)) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	w := &synchronous{done: make(chan Result, 1)}
	start(&w.Op, w)
	select {
	case result := <-w.done:
		return result, result.Err
	case <-ctx.Done():
		c.Unblock(&w.Op, ctx.Err())
		result := <-w.done
		return result, result.Err
	}
}
