package redlock

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/member"
	"redlockd/redlock/quorum"
)

// A step of the membership changes what the masters show. Until this client knows what was chosen, and
// has looked at its masters once more, no vote counts. That takes a few round trips. So that callers
// see nothing of it, an operation that finds no quorum because of a step begins once more, and what is
// to begin meanwhile is queued, as if the lanes were full (admission.go).
//
// A release does not begin once more, because its votes count in any case. A waiter does not either: it
// asks again when a quorum can vote (wait_quorum.go).
//
// Invariants:
//   - A second round is launched only when the first one is decided and its undo is launched. It stands
//     behind the undo in every lane.
//   - The undo of a rotation spares what another operation has found and counts on. So when the second
//     round is denied, it is not known whether the first one has made the change.
//   - It has its own T1. The caller counts from when it sent the request, which is earlier.
//   - An operation begins once more for each record at most, so it ends when the steps do.
//   - A step holds operations up for stepHold at most: somebody who is killed in the middle of one
//     leaves masters that show half of it, until another client finishes it.

// stepHold is for how many MasterTimeouts operations wait for the vote of a master that shows something
// else than this client knows.
const stepHold = 2

// stoppedByStepLocked tells whether a step of the membership may be why a round found no quorum, and
// its operation, which is no waiter, may begin once more.
func (c *Client) stoppedByStepLocked(r *round) bool {
	op := r.op
	if r.released || op.againFrom == r.view.record { //mutant:begun-again-behind-the-unlock
		return false
	}
	return r.view.record != c.fleet.view.Load().record || c.fleet.waitsForStep() || c.ranAheadLocked(r) //mutant:no-second-round-after-a-step
}

// ranAheadLocked tells whether a round was launched under a new record before all masters were told of
// it: they have done what it asks for, and so many that their votes would be a quorum. By now they may
// have been told.
func (c *Client) ranAheadLocked(r *round) bool {
	if r.start.Sub(r.view.since) > stepHold*c.opts.MasterTimeout {
		return false
	}
	return quorum.Votes(r.votes.Load()).Did(r.view.Places).Count() >= r.view.Quorum()
}

// beginAgainLocked has the operation of the round begin once more, as startLocked does.
func (c *Client) beginAgainLocked(r *round, bytes int, begin func(c *Client, op *Op, d *deferred), d *deferred) {
	r.op.againFrom = r.view.record
	if c.fleet.waitsForStep() {
		c.admission.full.Store(true)
	}
	c.startLocked(r.op, bytes, begin, d)
}

// ceiling holds operations whose locks would live for longer than may run, until the ceiling is raised
// (member/ceiling.go). That takes a few round trips, and later operations find it raised. What a flow
// begins behind such an operation is held with it, so the order of a flow is kept.
type ceiling struct {
	client *Client

	// Client.mu guards what follows.
	waits []aboveCeiling
	// used is when masters were last asked for locks that need a step of the ceiling.
	used map[time.Duration]time.Time
}

// aboveCeiling is one operation that waits.
type aboveCeiling struct {
	op    *Op
	ttl   time.Duration
	until time.Time // without a waiter, whose wait has an end of its own (waitTimedOut)
	// again begins the operation, or goes on with it.
	again func(d *deferred)
}

// ceilingHold is for how long an operation waits. One redlockd that was killed may keep the ceiling where
// it is for longer.
const ceilingHold = 2 * time.Second

// fits tells whether a lock of this TTL, which is above the ceiling, may be asked for all the same: the
// masters get no more than may run. If not, again is called when it may run.
func (s *ceiling) fits(op *Op, ttl time.Duration, d *deferred, again func(d *deferred)) bool {
	v := s.client.fleet.view.Load()
	if ttl > v.maxTTL || v.record == nil {
		return true
	}
	if waits := op.waiter; waits != nil {
		switch {
		case waits.last: //mutant:the-last-attempt-of-a-wait-waits-for-the-ceiling
			s.client.waiting.leaveQueueLocked(op, d)
			s.client.answerDenied(op, s.tooHigh(ttl), d)
			return false
		case waits.aboveCeiling:
			return false
		}
		waits.aboveCeiling = true
	}
	w := aboveCeiling{op, ttl, d.now.Add(ceilingHold), again}
	if w.holdsFlow() {
		s.client.admission.hold(op.Flow)
	}
	s.waits = append(s.waits, w)
	s.client.fleet.coordinator.Wake()
	return false
}

// take takes those that match out of those that wait, and goes on with each.
func (s *ceiling) take(match func(w *aboveCeiling) bool, goOn func(w *aboveCeiling)) {
	var taken []aboveCeiling
	s.waits = slices.DeleteFunc(s.waits, func(w aboveCeiling) bool {
		is := match(&w)
		if is {
			taken = append(taken, w)
		}
		return is
	})
	for i := range taken {
		w := &taken[i]
		if w.holdsFlow() {
			s.client.admission.resume(w.op.Flow)
		}
		if w.op.waiter != nil {
			w.op.waiter.aboveCeiling = false
		}
		goOn(w)
	}
}

// waits tells whether somebody still waits for it.
func (w *aboveCeiling) waits() bool { return w.op.waiter == nil || !w.op.waiter.answered }

// holdsFlow tells whether those that its flow begins later wait with it. A waiter has a queue of its own.
func (w *aboveCeiling) holdsFlow() bool { return w.op.waiter == nil && w.op.Flow != nil }

// goOnLocked goes on with what may run by now. The lanes have room, and show the record in force.
func (s *ceiling) goOnLocked(d *deferred) {
	v := s.client.fleet.view.Load()
	s.take(func(w *aboveCeiling) bool { return w.ttl <= v.ceiling || w.ttl > v.maxTTL }, func(w *aboveCeiling) { w.again(d) })
}

// giveUp ends what has waited for too long, and forgets waiters that are answered.
func (s *ceiling) giveUp(d *deferred) {
	c := s.client
	c.mu.Lock()
	v := c.fleet.view.Load()
	over := func(w *aboveCeiling) bool {
		return !w.waits() || w.op.waiter == nil && w.ttl > v.ceiling && !d.now.Before(w.until)
	}
	s.take(over, func(w *aboveCeiling) {
		switch {
		case w.op.waiter != nil:
		case w.op.kind != nil: // a LOCK
			c.answerDenied(w.op, s.tooHigh(w.ttl), d)
		default:
			d.deliver(w.op, Result{Err: s.tooHigh(w.ttl)})
		}
	})
	c.mu.Unlock()
	c.admit()
	c.runDeferred(d)
}

// tooHigh is the error of an operation that cannot wait for the ceiling any longer.
func (s *ceiling) tooHigh(ttl time.Duration) error {
	m, _ := s.client.fleet.coordinator.Membership()
	return &CeilingError{TTL: ttl, Ceiling: m.Ceiling, Why: cmp.Or(m.Behind, "redlockd members may say why; ask again in a moment")}
}

// use takes note that masters are asked for a lock of this TTL, which needs the ceiling.
func (s *ceiling) use(ttl time.Duration, v *view, now time.Time) {
	if s.used == nil {
		s.used = make(map[time.Duration]time.Time)
	}
	s.used[member.CeilingFor(ttl, v.maxTTL)] = now
}

// TTLs implements Host.
func (h host) TTLs(within time.Duration) (wanted, inUse time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.ceiling.waits {
		if w.waits() {
			wanted = max(wanted, w.ttl)
		}
	}
	for ttl, at := range h.ceiling.used {
		if time.Since(at) < within {
			inUse = max(inUse, ttl)
		}
	}
	return wanted, inUse
}

// WantedBy implements Host.
func (h host) WantedBy() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.ceiling.waits {
		if w.waits() {
			return fmt.Sprintf("%s asked for %s", w.op.Note.who(), clock.Text(w.ttl))
		}
	}
	return ""
}

// followed is when a lane last began to note on its master that this client goes by a record.
type followed struct {
	record *member.Record
	at     time.Time
}

// follower is the name of this client's notes.
func (f *fleet) follower() string { return fmt.Sprintf("%s-%d", f.id, f.followsAnew.Load()) }

// followedAt implements Host.FollowedAt: of the latest of the notes that a quorum of the voters has.
func (f *fleet) followedAt() time.Time {
	v := f.view.Load()
	var times []time.Time
	for _, l := range v.masters {
		if n := l.followed.Load(); n != nil && n.record == v.record {
			times = append(times, n.at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	if missing := len(times) - v.Quorum(); missing >= 0 { //mutant:a-note-on-one-master-counts
		return times[missing]
	}
	return time.Time{}
}

// followArgs are the ARGV of lua.Follow; nil: there is nothing to note, because the master does not vote
// under the record that this client goes by.
func (l *lane) followArgs(v *view, leaving bool) []any {
	r := l.guard.record
	if r == nil || r != v.record {
		return nil
	}
	text := ""
	if leaving { // from here on nobody waits for this client //mutant:who-leaves-counts-on-its-note
		l.followed.Store(nil)
	} else {
		_, inUse := host{l.client}.TTLs(v.wait)
		text = member.FollowerText(r, inUse)
	}
	return []any{l.fleet.follower(), r.ShownBy(l.guard.memory), text, member.NoteKept.Milliseconds()}
}
