package redlock

import (
	"sync/atomic"
	"time"
)

// limits are the options that SetOptions can change while the client runs. They do not change once they are stored.
type limits struct {
	maxHold, maxWait, handoverTime time.Duration
	maxWaiters, maxBound           int
}

func (o *Options) limits() *limits {
	return &limits{maxHold: o.MaxHold, maxWait: o.MaxWait, maxWaiters: o.MaxWaiters, maxBound: o.MaxBound, handoverTime: o.HandoverTime}
}

// bounds say what callers may ask for. They need no mutex.
type bounds struct {
	opts   *Options
	limits atomic.Pointer[limits] // in force
	fleet  *fleet                 // has the longest TTL
}

// SetOptions puts other limits into force: MaxHold, MaxWait, MaxWaiters, MaxBound and HandoverTime. It ignores the other options. If a limit
// is not valid together with the options in force it changes nothing, and returns the error of Validate. Zero is the default.
//
// Limits count for what comes: no LOCK stops waiting and no lock is lost because one is lower. But a lock that has been held for longer than
// the new MaxHold is not extended again.
//
// The others need a new client. MinTTL and DriftFactor must be those by which the validity of every lock was computed, MaxTTL is that of the
// membership, and the rest shapes the connections to masters.
func (c *Client) SetOptions(opts Options) error {
	next := c.opts
	next.MaxHold, next.MaxWait, next.MaxWaiters, next.MaxBound, next.HandoverTime = opts.MaxHold, opts.MaxWait, opts.MaxWaiters, opts.MaxBound, opts.HandoverTime
	next = next.withDefaults()
	if err := next.Validate(); err != nil {
		return err
	}
	c.bounds.limits.Store(next.limits())
	return nil
}

// Options returns the options in force, defaults filled in.
func (c *Client) Options() Options {
	o, l := c.opts, c.bounds.limits.Load()
	o.MaxHold, o.MaxWait, o.MaxWaiters, o.MaxBound, o.HandoverTime = l.maxHold, l.maxWait, l.maxWaiters, l.maxBound, l.handoverTime
	return o
}
