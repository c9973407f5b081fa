package redlock

import (
	"math/rand/v2"
	"time"
)

// Waiting without a quorum. While fewer than a quorum of masters can vote, because they are down or quarantined, no attempt can succeed.
// So the head of a queue that was told NOQUORUM asks no more: it stalls. When a lane comes up or its master is admitted and a quorum
// can vote again, all stalled heads ask, spread over a short time. The end of a wait still makes a last attempt (waitTimedOut).

// stallSpread is the mean distance between the attempts of stalled heads when the quorum is back: 20 000 a second.
const stallSpread = 50 * time.Microsecond

// quorumCanVote tells whether a quorum of masters is up and admitted.
func (c *Client) quorumCanVote() bool {
	can := 0
	for _, l := range c.lanes {
		l.mu.Lock()
		if l.up && l.guard.epoch != "" {
			can++
		}
		l.mu.Unlock()
	}
	return can >= quorumOf(len(c.lanes))
}

// stallLocked has op wait for a quorum of masters that can vote, if there is none, and tells whether it does. The pause it sets ends
// with nothing but another look.
func (c *Client) stallLocked(op *Op) bool {
	if c.quorumCanVote() { //mutant:asks-without-a-quorum
		return false
	}
	c.stalled = true
	c.pauseForLocked(op, armedPatience*c.retryDelay(0))
	return true
}

// wakeStalled has the heads of lines that have stalled ask soon, if a quorum can vote. A lane calls it after every change of what it is
// good for; so no head that stalls before the change, under Client.mu, is missed.
func (c *Client) wakeStalled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stalled || !c.quorumCanVote() { //mutant:a-quorum-that-is-back-wakes-nobody
		return
	}
	c.stalled = false
	var heads []*Op
	for _, e := range c.leases.entries {
		if e.queue.head == nil {
			continue
		}
		if op := e.queue.head.op; op.waiter.lastErr != nil && op.waiter.retry != nil {
			heads = append(heads, op)
		}
	}
	for _, op := range heads {
		c.pauseForLocked(op, rand.N(time.Duration(len(heads))*stallSpread)) //mutant:all-wake-at-the-same-time
	}
}
