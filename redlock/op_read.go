package redlock

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/lua"
	"redlockd/redlock/quorum"
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
	// TTL is what a holder may still count on: what is left of the key, less the drift that it was padded
	// with (clock.Padded). At least 1 ms while the key is there. Negative: it lives for ever.
	TTL time.Duration
	// Spread is by how much longer than TTL a holder may count on the key. A reading may hear, of the
	// quorum that has extended it, only some masters, beside others that have missed it. Who sets how long
	// the key of several holders is to live, by what is read of each of them, must add it, or cuts short
	// who has been told that he holds it.
	Spread time.Duration
	// Ending is the longest that the key is still there, by the masters' clocks, if no time of that is
	// sure any more, because it is less than the drift: TTL is 1 ms then. 0: TTL is sure.
	//
	// It must never be told to a client as a TTL. The holder may be the one who asks, and a master's
	// clock may gain all of it in the next moment: then somebody else has the lock, while the holder
	// believes in it. Who waits for the end of the key waits for this, and reads again.
	Ending time.Duration
	// Hint is the string that most masters hold, also if these are too few for Found.
	Hint string
	// Split is true if the key is not found, and may not be absent either: with those that are silent,
	// so many masters hold something that it could be held, or nobody could be granted it. They hold
	// different things, because clients are changing the key, or have changed it and were cut off.
	Split bool
	// Seen is the answer to StartWatch; else nil.
	Seen Seen
}

// StartRead asks all masters what they know of the resources. The answer is Result.States. A quorum
// of masters with a vote must answer, or it is a *NoQuorumError. It does not wait for more answers
// than can change what it says.
func (c *Client) StartRead(op *Op, resources []string, to Completer) {
	op.keys, op.verb, op.onlyReleases, op.watches = resources, verbRead, false, false
	if op.Tracked {
		op.verb = verbReadTracked
	}
	c.start(op, to, checkResources(resources, MaxKeys), (*Client).beginReadingLocked)
}

// readAnswered tells the result once it is certain. Only cells of masters whose votes are in v are
// read: others may be being written.
func (c *Client) readAnswered(r *round, v quorum.Votes, d *deferred) {
	majority := r.view.Quorum()
	var all []*answer
	pending := 0
	for i := range r.view.Places {
		switch v.Of(i) {
		case quorum.Pending:
			pending++
		case quorum.Granted:
			all = append(all, &r.answers[i])
		}
	}
	var result Result
	var splits []int
	switch {
	case len(all)+pending < majority:
		result.Err = r.noQuorumError(v, majority, 0)
	case len(all) < majority:
		return
	default:
		result.States = make([]State, len(r.keys))
		for i := range r.keys {
			state, is := mergeStates(all, i, r.view.Count, pending, d.now.Sub(r.start), c.drift)
			if is == mergeUndecided {
				return
			}
			if is == mergeSplit { // as many answered as are needed, but the one that would tell did not
				result = Result{Err: r.noQuorumError(v, majority, 0)}
				break
			}
			if state.Found && pending > 0 && r.watches() { //mutant:a-slow-master-is-left-behind-by-watched-commits
				return
			}
			if state.Split && isVersion(state.Hint) {
				splits = append(splits, i)
			}
			state.capAt(r.view)
			c.capByLease(r.keys[i], &state, d.now)
			if r.watches() {
				state.Seen = r.seen(i)
			}
			result.States[i] = state
		}
	}
	if r.flags.Or(flagAnswered)&flagAnswered == 0 && (result.Err == nil || !c.readAgain(r, d)) {
		if len(splits) > 0 {
			c.mu.Lock()
			for _, i := range splits {
				c.settling.helpLocked(r, i, v, d)
			}
			c.mu.Unlock()
		}
		d.deliver(r.op, result)
	}
}

// seen is what the masters say in a reading of StartWatch, as far as they have answered when it is called.
// The token of the round has what they said in the first reading: 8 bytes for each place, for each key.
// The Op is not looked at, because it may be another's by then.
func (r *round) seen(key int) Seen {
	places := len(r.token) / 8 / len(r.keys)
	return func(place int) (ends int64) {
		if quorum.Votes(r.votes.Load()).Of(place) != quorum.Granted {
			return endUnknown
		}
		ends = r.answers[place].keys[key].ends
		at := 8 * (key*places + place)
		if places > 0 && (place >= places || int64(binary.BigEndian.Uint64([]byte(r.token[at:at+8]))) != ends) { //mutant:a-key-that-was-just-set-is-taken-for-an-old-one
			return endUnknown
		}
		return ends
	}
}

// readAgain has a reading begin once more that a step of the membership has stopped, and returns false
// if it is not so.
func (c *Client) readAgain(r *round, d *deferred) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stoppedByStepLocked(r) {
		return false
	}
	c.beginAgainLocked(r, 0, (*Client).beginReadingLocked, d)
	return true
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
// all has the answers of a quorum or more.
func mergeStates(all []*answer, key, masters, pending int, elapsed time.Duration, d clock.Drift) (State, merging) {
	type holding struct{ kind, value string }
	quorum, silent := quorum.Of(masters), masters-len(all)-pending
	held := make(map[holding][]time.Duration, 2)
	absent := 0
	for _, a := range all {
		one := &a.keys[key]
		if one.kind == "none" {
			absent++
			continue
		}
		ttl := one.ttl
		if ttl < 0 {
			ttl = math.MaxInt64
		}
		h := holding{one.kind, one.value}
		held[h] = append(held[h], ttl)
	}
	var most, hint holding
	possible := 0 // values that a quorum may hold
	for h, ttls := range held {
		if len(ttls)+silent+pending >= quorum { //mutant:a-silent-minority-hides-a-lock
			possible++
		}
		if len(ttls) > len(held[most]) {
			most = h
		}
		// In order, where two are held by as many: which it is depends on nothing else.
		if n, of := len(ttls), len(held[hint]); h.kind == "string" && (n > of || n == of && h.value < hint.value) { //mutant:another-type-hides-a-lock-that-is-being-changed
			hint = h
		}
	}
	s := State{Type: "none", Hint: hint.value, Sure: true}
	// Of a lock that is being changed, each master of its quorum holds one value or the next.
	s.Split = absent+silent+pending < quorum || len(all)-absent+silent+pending >= quorum //mutant:different-values-are-told-as-absent //mutant:a-lock-that-is-being-changed-is-told-as-absent
	switch {
	case len(held[most]) >= quorum:
	case possible == 0:
		return s, mergeDone
	case pending > 0:
		return s, mergeUndecided
	case possible > 1: //mutant:a-split-vote-is-told-as-held
		return s, mergeSplit
	}
	ttls := held[most]
	s.Found, s.Split, s.Type, s.Value, s.Sure = true, false, most.kind, most.value, len(ttls) >= quorum
	// As long as a quorum lasts: until the first of the quorum longest-lived keys ends. Where they are
	// no quorum, those without an answer are taken to last; and always for what a holder may count on.
	longest := nth(ttls, min(len(ttls)-1, len(ttls)+silent+pending-quorum))
	left := longest
	if len(ttls) >= quorum {
		left = nth(ttls, len(ttls)-quorum)
	}
	if left == math.MaxInt64 {
		s.TTL = -1
		return s, mergeDone
	}
	s.TTL = (left - elapsed - clock.DriftOf(left, d)).Truncate(time.Millisecond) //mutant:drift-told-as-validity
	if s.TTL < time.Millisecond {                                                //mutant:the-end-of-a-key-is-not-told
		// The longest-lived, because masters that were not waited for may have longer ones than left.
		// They may have answered at the end of elapsed, and PTTL rounds down.
		s.TTL, s.Ending = time.Millisecond, min(slices.Max(ttls), time.Hour)+time.Millisecond
	}
	if longest != math.MaxInt64 {
		s.Spread = max(0, (longest-elapsed-clock.DriftOf(longest, d)).Truncate(time.Millisecond)-s.TTL) //mutant:what-silent-masters-have-extended-is-forgotten
	}
	return s, mergeDone
}

// capAt takes back what moving the end of a key (moved_exactly.lua) has added to the longest TTL:
// nobody counts on it, and who sets an end by what was read would be refused. Not while locks of a
// longer max_ttl may live.
func (s *State) capAt(v *view) {
	over := s.TTL + s.Spread - v.ceiling
	if over <= 0 || over > 2*lua.EndMoveMs*time.Millisecond || v.lowering { //mutant:the-longest-ttl-is-told-with-its-moves //mutant:locks-of-a-longer-max_ttl-are-told-short
		return
	}
	s.TTL = min(s.TTL, v.ceiling)
	s.Spread = v.ceiling - s.TTL
}

// capByLease takes back what moving the end of a key has added to the TTL that the holder has asked
// for, if it asked here. No other redlockd knows of that: there the TTL is told with the moves, which
// is less than 2·endMove too much, and true.
func (c *Client) capByLease(resource string, s *State, now time.Time) {
	if !s.Found {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	lease := c.leases.entries[resource].leaseOf(s.Value)
	if lease == nil {
		return
	}
	left := c.leases.free(lease).Sub(now).Truncate(time.Millisecond)
	if over := s.TTL - left; left > 0 && over > 0 && over < 2*lua.EndMoveMs*time.Millisecond { //mutant:a-ttl-is-told-with-its-moves //mutant:a-ttl-that-was-extended-elsewhere-is-told-short
		s.TTL, s.Spread = left, s.Spread+over
	}
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
