package redlock

import (
	"math"
	"time"
)

// State is what a quorum of masters says of a key.
type State struct {
	Found bool
	// Sure is false for a key that is found by fewer masters than a quorum: those without an answer
	// may hold it, or may not. That is enough for who wants the lock, and not for who is to be told
	// that he holds it.
	Sure  bool
	Value string // what it holds, if it is a string
	// Type as Redis names it: "none" when not found. Of a key that is no string nothing else is
	// known.
	Type string
	// TTL is for how long the key is still sure to be found, less the drift: what is left of the
	// TTL that a drop-in client was granted. At least 1 ms while the key is there. Negative: it
	// lives for ever.
	TTL time.Duration
	// Hint is the value that most masters hold, also if these are too few for Found.
	Hint string
}

// StartRead asks all masters what they know of the resources. The answer is Result.States. A quorum
// of masters with a vote must answer, or it is a *NoQuorumError. It does not wait for more answers
// than can change what it says.
func (c *Client) StartRead(op *Op, resources []string, to Completer) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	op.to = to
	if err := checkResources(resources); err != nil {
		d.deliver(op, Result{Err: err})
		return
	}
	r := &round{verb: verbRead, op: op, answers: make([]answer, len(c.lanes))}
	r.setKeys(resources...)
	c.startReading(r, &d)
}

// readAnswered tells the result once it is certain. Only cells of masters whose votes are in v are
// read: others may be being written.
func (c *Client) readAnswered(r *round, v votes, d *deferred) {
	n, quorum := len(c.lanes), quorumOf(len(c.lanes))
	var all []*answer
	pending := 0
	for i := range n {
		switch v.of(i) {
		case votePending:
			pending++
		case voteGranted:
			all = append(all, &r.answers[i])
		}
	}
	var result Result
	switch {
	case len(all)+pending < quorum:
		result.Err = c.noQuorumError(r.start, v, quorum, 0)
	case len(all) < quorum:
		return
	default:
		result.States = make([]State, len(r.keys))
		for i := range r.keys {
			state, is := mergeStates(all, i, n, pending, d.now.Sub(r.start), c.drift)
			if is == mergeUndecided {
				return
			}
			if is == mergeSplit { // as many answered as are needed, but the one that would tell did not
				result = Result{Err: c.noQuorumError(r.start, v, quorum, 0)}
				break
			}
			result.States[i] = state
		}
	}
	if r.answered.CompareAndSwap(false, true) {
		d.deliver(r.op, result)
	}
}

// merging is how far mergeStates has come.
type merging uint8

const (
	mergeUndecided merging = iota // masters whose answers are still to come can make a difference
	mergeDone
	mergeSplit // two values could be the one that a quorum holds
)

// mergeStates makes one state of what masters say of one key. A key is found if a quorum holds the
// same value, or could: masters without an answer may hold it. Where that is true of two values,
// nobody can tell: also not from the leases known here, for another client may have released them.
func mergeStates(all []*answer, key, masters, pending int, elapsed time.Duration, d drift) (State, merging) {
	type holding struct{ kind, value string }
	quorum, silent := quorumOf(masters), masters-len(all)-pending
	held := make(map[holding][]time.Duration, 2)
	for _, a := range all {
		one := &a.keys[key]
		if one.kind == "none" {
			continue
		}
		ttl := one.ttl
		if ttl < 0 {
			ttl = math.MaxInt64
		}
		h := holding{one.kind, one.value}
		held[h] = append(held[h], ttl)
	}
	var most holding
	possible := 0 // values that a quorum may hold
	for h, ttls := range held {
		if len(ttls)+silent+pending >= quorum { //mutant:a-silent-minority-hides-a-lock
			possible++
		}
		// In order, where two are held by as many: which it is depends on nothing else.
		if len(ttls) > len(held[most]) || len(ttls) == len(held[most]) && (h.value < most.value || h.value == most.value && h.kind < most.kind) {
			most = h
		}
	}
	s := State{Type: "none", Hint: most.value, Sure: true}
	switch {
	case len(held[most]) >= quorum:
	case possible == 0 && (pending == 0 || silent+pending < quorum):
		return s, mergeDone
	case pending > 0:
		return s, mergeUndecided
	case possible > 1: //mutant:a-split-vote-is-told-as-held
		return s, mergeSplit
	}
	ttls := held[most]
	s.Found, s.Type, s.Value, s.Sure = true, most.kind, most.value, len(ttls) >= quorum
	// As long as a quorum lasts: until the first of the quorum longest-lived keys ends. Those
	// without an answer are taken to last.
	left := nth(ttls, min(len(ttls)-1, max(0, len(ttls)+silent-quorum)))
	if len(ttls) >= quorum {
		left = nth(ttls, len(ttls)-quorum)
	}
	if left == math.MaxInt64 {
		s.TTL = -1
		return s, mergeDone
	}
	s.TTL = max(time.Millisecond, (left - elapsed - driftOf(left, d)).Truncate(time.Millisecond))
	return s, mergeDone
}

// Known appends to states what this client knows of resources by itself: the leases that it granted
// and that still run. It asks nobody, so it may be wrong both ways.
func (c *Client) Known(states []State, resources []string) []State {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range resources {
		state := State{Type: "none"}
		if e := c.leases.entries[resource]; e != nil && e.lease != nil && now.Before(e.lease.validUntil) {
			state = State{Found: true, Type: "string", Value: e.lease.token, TTL: e.lease.validUntil.Sub(now), Hint: e.lease.token}
		}
		states = append(states, state)
	}
	return states
}
