package proxy

import (
	"sync/atomic"
	"time"

	"redlockd/redlock"
)

// What a script publishes. It is paid for before the script changes its keys, and sent behind that.

// payMessages has the user's share pay for what a script publishes, or returns the refusal. A later
// round of the same call pays only for what is more.
func (x *exchange) payMessages() (refusal error) {
	n := 0
	for _, m := range x.outcome.published {
		n += m.size()
	}
	if n <= x.chargedBytes {
		return nil
	}
	if refusal = x.s.server.shares.chargeMessages(x.account, n-x.chargedBytes, time.Now()); refusal == nil {
		x.chargedBytes = n
	}
	return refusal
}

// scriptPublication sends the messages of a script. The script is answered behind the last of them, so
// that a client that publishes by script is slowed down like one that sends PUBLISH.
type scriptPublication struct {
	x    *exchange
	ops  []redlock.Op
	left atomic.Int32
}

// Done implements redlock.Completer. The script has changed its keys already, so a message that finds
// no room is lost, as it may be in Redis. The run has refused those that are too long.
func (p *scriptPublication) Done(*redlock.Op, redlock.Result) redlock.Flusher {
	p.x.s.afterPublish(p.x.account)
	if p.left.Add(-1) > 0 {
		return nil
	}
	return p.x.reply()
}
