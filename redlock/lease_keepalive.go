package redlock

import (
	"context"
	"errors"
	"time"
)

// ErrLapsed is the cause of the end of KeepAlive's context when nothing is known against the lock, and
// yet its validity is over or about to be.
var ErrLapsed = errors.New("this process or its machine was suspended, or too slow to renew it, until the validity was over")

// KeepAliveOptions change what Lease.KeepAliveWith does. The zero value is what Lease.KeepAlive does.
type KeepAliveOptions struct {
	// Early is how long before the end of the validity the context ends: the time that the work needs to
	// stop. Zero: a twentieth of the TTL, at most 100 ms.
	Early time.Duration
	// OnRenewal is called after each attempt to renew the lock, with its error. The next attempt waits for
	// it, the end of the context does not. It must not call Unlock or KeepAlive of the lease, which wait
	// for it. nil: nobody is called.
	OnRenewal func(error)
}

// Hold is Lock and KeepAlive in one: it waits until the resource is free, locks it, and renews it. The
// context is for the work that the lock protects, and ends before the lock does.
//
//	lease, held, err := client.Hold(ctx, "invoices", 30*time.Second)
//	if err != nil { … }
//	err = sendInvoices(held)
//	lease.Unlock(ctx)
func (c *Client) Hold(ctx context.Context, resource string, ttl time.Duration) (*Lease, context.Context, error) {
	lease, err := c.Lock(ctx, resource, ttl)
	if err != nil {
		return nil, nil, err
	}
	return lease, lease.KeepAlive(ctx), nil
}

// KeepAlive renews the lock every third of its TTL, and returns a context for the work that the lock
// protects. The context ends when the lock is lost, and shortly before the validity ends if renewal
// fails until then. context.Cause says why: ErrNotHeld, a *NoQuorumError, ErrLapsed, or a bad request
// once Options.MaxHold is used up. Renewal stops when ctx is done or Unlock is called; both end the
// context, and only Unlock releases the lock. A second call ends the first.
//
//	held := lease.KeepAlive(ctx)
//	if err := work(held); err != nil { … }
//	lease.Unlock(ctx)
func (l *Lease) KeepAlive(ctx context.Context) context.Context {
	return l.KeepAliveWith(ctx, KeepAliveOptions{})
}

// KeepAliveWith is KeepAlive with options.
func (l *Lease) KeepAliveWith(ctx context.Context, o KeepAliveOptions) context.Context {
	l.stopKeepAlive()
	held, stop := KeepAlive(ctx, l, l.ttl, o)
	l.keepAlive = stop
	return held
}

// stopKeepAlive ends renewal, and waits for an EXTEND that is in flight: an UNLOCK comes behind it, and
// nothing after the UNLOCK.
func (l *Lease) stopKeepAlive() {
	if l.keepAlive != nil {
		l.keepAlive()
	}
}

// Renewable is a lock that somebody can keep alive: a Lease, or one that is held through a server.
// Validity is called while Extend runs.
type Renewable interface {
	// Validity is what is left of the validity, 0 or less when it is over.
	Validity() time.Duration
	// Extend renews the lock for ttl. ErrNotHeld: it is lost. Any other error: not known; the validity
	// stays what it was.
	Extend(ctx context.Context, ttl time.Duration) error
}

// KeepAlive is Lease.KeepAliveWith for whatever can be renewed. stop ends the renewals, and waits for
// the one that is in flight.
func KeepAlive(ctx context.Context, lock Renewable, ttl time.Duration, o KeepAliveOptions) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	k := &keepAlive{lock: lock, cancel: cancel, done: make(chan struct{}), ttl: ttl, early: o.Early, onRenewal: o.OnRenewal}
	if k.early == 0 {
		k.early = min(ttl/20, 100*time.Millisecond)
	}
	go k.run(held)
	return held, func() {
		cancel(context.Canceled)
		<-k.done
	}
}

// keepAlive is the renewal of one lock.
type keepAlive struct {
	lock      Renewable
	cancel    context.CancelCauseFunc // of the context that the caller has
	done      chan struct{}           // closed when run has returned
	ttl       time.Duration
	early     time.Duration
	onRenewal func(error)
}

// run renews the lock until the context is done, and ends the context in time.
//
// Invariant: the context ends before the validity does, unless this process does not run then. So run
// never waits for the masters: EXTEND has a goroutine of its own. And it looks at the clock often
// instead of setting one timer, because timers stand still while the machine is suspended, and Validity
// does not.
func (k *keepAlive) run(held context.Context) {
	defer close(k.done)
	ticks := time.NewTicker(min(k.ttl/100, 50*time.Millisecond))
	defer ticks.Stop()
	extended := make(chan error, 1)
	extending := false
	defer func() {
		if extending {
			<-extended
		}
	}()
	extendAt := k.lock.Validity() * 2 / 3 // what is left of the validity when the lock is to be renewed
	var failed error
	for {
		left := k.lock.Validity()
		if left <= k.early { //mutant:work-outlives-the-validity
			if failed == nil {
				failed = ErrLapsed
			}
			k.cancel(failed)
			return
		}
		if !extending && left <= extendAt {
			extending = true
			go func() { extended <- k.extend(held) }()
		}
		select {
		case <-held.Done():
			return
		case <-ticks.C:
		case err := <-extended:
			extending = false
			extendAt = k.lock.Validity() * 2 / 3
			if failed = err; failed != nil {
				extendAt = k.lock.Validity() - k.ttl/30
			}
		}
	}
}

// extend tries once to renew the lock, and ends the context where the lock is lost: somebody else may
// hold it already.
func (k *keepAlive) extend(held context.Context) error {
	err := k.lock.Extend(held, k.ttl)
	stopped := held.Err() != nil
	if errors.Is(err, ErrNotHeld) { //mutant:a-lost-lock-is-kept-alive
		k.cancel(err)
	}
	if k.onRenewal != nil && !stopped {
		k.onRenewal(err)
	}
	return err
}
