package redlock

import (
	"time"

	"redlockd/redlock/quorum"
)

// What the client of a Holder may believe. KEEPALIVE answers until when all that is bound is held, for
// one command whatever the number of locks. The client counts the answer from the moment it sent
// KEEPALIVE, as it does for LOCK and EXTEND: so a server that is frozen, a connection that is half open
// and a client that was paused all end the belief in time. That a connection stands, and that a loss
// was not told, proves nothing: bytes lie in buffers.
//
// The answer comes from memory, from renewals of up to one TTL ago, so it would trust this machine's
// monotonic clock for that long; and a virtual machine that is paused or migrated may not count the
// pause. So KEEPALIVE is a round without a command (verbBarrier): a quorum of trailers that were asked
// for after the KEEPALIVE came, with clocks in step with ours, prove that our clock has not stood still
// since the renewals. A suspension that the system tells of costs the validity of all that was renewed
// before it.
//
// A loss needs no quorum: what has ended by our own clock, or was found lost, stays so whatever the
// masters say. So KEEPALIVE tells it also where they do not answer.

// Kept answers StartKeepAlive, beside Result.Validity.
type Kept struct {
	Bound int      // locks that are bound to the Holder
	Lost  []string // resources whose loss no KEEPALIVE has told before
}

// StartKeepAlive answers until when all locks that are bound to the Holder are held: Result.Held, Until
// and Validity, and Result.Kept. Held is false if nothing is bound, one of the locks may not be held,
// or a loss is told. Without a quorum it is a *NoQuorumError, unless something is lost, or nothing is
// bound: that is known all the same.
func (c *Client) StartKeepAlive(op *Op, h *Holder, to Completer) {
	d := c.enter()
	defer c.leave(d)
	op.to, op.holder = to, h
	if h.unheard {
		for _, b := range h.bindings {
			b.unheard = false
		}
		h.unheard = false
	}
	c.startLocked(op, 0, (*Client).beginKeepAliveLocked, d)
}

// SetSilence has locks of the Holder renewed only while its client has sent something within silence;
// 0: while the Holder lives.
func (c *Client) SetSilence(h *Holder, silence time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.silence = silence
}

// beginKeepAliveLocked launches the barrier.
func (c *Client) beginKeepAliveLocked(op *Op, d *deferred) {
	c.rounds.launch(&round{verb: verbBarrier, start: time.Now(), op: op}, quorum.All, d)
}

// keepAliveDecided answers from memory, behind the barrier.
func (c *Client) keepAliveDecided(r *round, o quorum.Outcome, v quorum.Votes, d *deferred) {
	c.own.Look() // whether this machine was suspended
	d.looked = true
	c.mu.Lock()
	defer c.mu.Unlock()
	op, h := r.op, r.op.holder
	c.holds.lapse(h, d)
	if o != quorum.Yes && len(h.bindings) > 0 && len(h.lost) == 0 { //mutant:no-barrier //mutant:a-known-loss-waits-for-a-quorum
		if c.stoppedByStepLocked(r) {
			c.beginAgainLocked(r, 0, (*Client).beginKeepAliveLocked, d)
			return
		}
		d.deliver(op, Result{Err: r.noQuorumError(v, r.view.Quorum(), 0)})
		return
	}
	result := Result{Kept: &Kept{Bound: len(h.bindings), Lost: h.lost}}
	if left := c.holds.left(h, d); left > 0 && len(h.lost) == 0 { //mutant:a-loss-is-told-beside-a-validity
		result.Held, result.Validity, result.Until = true, left, d.now.Add(left)
	}
	h.lost = nil
	d.deliver(op, result)
}

// lapse finds lost what is bound to the Holder and has ended by our own clock. It does not wait for
// renewHeld, which looks at each in its time.
func (s *holds) lapse(h *Holder, d *deferred) {
	if h.endsKnown && h.ends > s.own.At(d.now) { // for speed
		return
	}
	for i := len(h.bindings) - 1; i >= 0; i-- {
		if b := h.bindings[i]; b.until <= s.own.At(d.now) { //mutant:an-end-is-told-when-the-renewals-find-it
			s.lost(b, notRenewed, d)
		}
	}
}

// left is for how long all that is bound to the Holder is held. Masters' clocks have gone on during a
// suspension, so a renewal that began before one counts for nothing, and the next is due at once.
func (s *holds) left(h *Holder, d *deferred) time.Duration {
	if len(h.bindings) == 0 {
		return 0
	}
	if !h.endsKnown {
		h.endsKnown, h.ends, h.begun = true, h.bindings[0].until, h.bindings[0].begun
		for _, b := range h.bindings {
			h.ends = min(h.ends, b.until)
			if b.begun.Before(h.begun) {
				h.begun = b.begun
			}
		}
	}
	if woke := time.Duration(s.own.Woke.Load()); s.own.At(h.begun) <= woke { //mutant:held-over-a-suspension
		for _, b := range h.bindings {
			if s.own.At(b.begun) <= woke {
				s.lookAgain(b, d.now)
			}
		}
		return 0
	}
	return h.ends - s.own.At(d.now)
}
