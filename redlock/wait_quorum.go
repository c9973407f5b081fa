package redlock

import (
	"math/rand/v2"
	"time"
)

// Waiting for a quorum. While fewer than a quorum of masters can vote, because they are down or
// quarantined, no attempt can succeed. So the head of a queue that was told NOQUORUM does not ask
// again. When a lane comes up or its master is admitted, and a quorum can vote again, all these heads
// ask, spread over a short time. The end of a wait still makes a last attempt (waitTimedOut).
//
// Without this, 100 000 waiters would send 100 000 rounds each retry delay to masters that have just
// come back.

// quorumRetrySpread is the mean distance between the attempts of heads when the quorum is back: 20 000
// attempts a second.
const quorumRetrySpread = 50 * time.Microsecond

// waitForQuorumLocked has op wait until a quorum of masters can vote, and returns false if one can. The
// long pause that it sets is only a safeguard: when it ends, the head looks again.
func (ws *waiting) waitForQuorumLocked(op *Op) bool {
	if ws.fleet.quorumCanVote() { //mutant:asks-without-a-quorum
		return false
	}
	ws.quorumAwaited = true
	ws.pauseLocked(op, invalidationPatience*ws.opts.retryDelay(0))
	return true
}

// wakeQuorumWaiters has the heads that wait for a quorum ask soon, if a quorum can vote. A lane calls
// it after every change of its state. No head is missed: one that looked before the change has set
// quorumAwaited by the time this gets Client.mu.
func (ws *waiting) wakeQuorumWaiters() {
	ws.client.mu.Lock()
	defer ws.client.mu.Unlock()
	if !ws.quorumAwaited || !ws.fleet.quorumCanVote() { //mutant:a-quorum-that-is-back-wakes-nobody
		return
	}
	ws.quorumAwaited = false
	var heads []*waiter
	for _, e := range ws.leases.entries {
		if w := e.queue.head; w != nil && w.lastErr != nil && w.retry != nil {
			heads = append(heads, w)
		}
	}
	ws.spreadLocked(heads)
}

// spreadLocked has many heads ask soon, and not all at the same time.
func (ws *waiting) spreadLocked(heads []*waiter) {
	for _, w := range heads {
		ws.pauseLocked(w.op, rand.N(time.Duration(len(heads))*quorumRetrySpread)) //mutant:all-wake-at-the-same-time
	}
}
