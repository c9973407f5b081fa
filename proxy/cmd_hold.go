package proxy

import (
	"time"

	"redlockd/redlock"
)

// LOCK … HOLD, HOLD, MHOLD and KEEPALIVE: locks that the engine renews while the connection stands
// (redlock/hold.go). The end of the connection ends the renewals: the locks end with their TTLs, or are
// released if RELEASE was asked for and the client's side made the end.
//
// A loss reaches the client in its next KEEPALIVE. A client that has never sent one goes by its
// connection, so that is closed. Subscribers of redlockd:lost get the resource as a message.

// cmdHOLD is HOLD and MHOLD, which take a lock over by its token.
func cmdHOLD(s *session, c *call) error {
	resources, rest, refusal := c.resources(2, 6)
	if refusal != nil {
		return refusal
	}
	req := redlock.LockRequest{Token: string(rest[0])}
	if req.TTL, refusal = parseTime("ttl", rest[1]); refusal == nil {
		req.Holder, refusal = s.holder()
	}
	verb := &verbHold
	if refusal == nil {
		var justToken bool
		if justToken, refusal = s.parseLock(&req, "hold", rest[2:]); justToken {
			verb = &verbHoldToken
		}
	}
	if refusal != nil {
		return refusal
	}
	h := newLockCall(verb, resources)
	req.Resources, h.token[0], h.request = h.keys, req.Token, &req
	c.takeTurn(&h.slot, turn{keys: h.keys, words: h.token[:]}, h)
	return nil
}

// cmdKEEPALIVE is KEEPALIVE [silence-ms].
func cmdKEEPALIVE(s *session, c *call) error {
	var silence time.Duration
	if len(c.args) > 2 {
		return wrongArity(c.cmd)
	}
	if len(c.args) == 2 {
		var refusal error
		if silence, refusal = parseTime("silence", c.args[1]); refusal != nil {
			return refusal
		}
		if silence < time.Second || silence > silenceMax {
			return errorf("ERR a silence of %d ms is outside 1000 … %d ms", silence.Milliseconds(), silenceMax.Milliseconds())
		}
	}
	held := s.heldLocks()
	held.keptAlive.Store(true)
	if len(c.args) == 2 {
		s.server.opts.Engine.SetSilence(held.Holder, silence)
	}
	k := &operation{then: held.kept}
	c.takeSlot(&k.slot)
	k.startKeepAlive(&k.op, held.Holder, k)
	return nil
}

// silenceMax is the longest silence that KEEPALIVE takes.
const silenceMax = 24 * time.Hour

// kept answers KEEPALIVE. The client counts validity from when it sent that.
func (h *heldLocks) kept(k *operation, result redlock.Result) {
	h.unreported.Add(-int64(len(result.Kept.Lost)))
	srv := h.s.server
	k.out = appendValue(k.out, k.proto, fields{
		"validity", floorMs(result.Validity),
		"held", result.Kept.Bound,
		"lost", bulks(result.Kept.Lost),
		"leaving", srv.leaving.Load() || srv.draining.Load(),
	})
}
