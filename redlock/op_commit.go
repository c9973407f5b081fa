package redlock

import (
	"slices"
	"sync/atomic"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/quorum"
)

// A client that was written for one Redis takes a lock with SET NX PX, and gives it back or extends
// it by comparing what the key holds and changing it. A commit is any such step over the masters:
// changes of some keys, guarded by what the keys held before.
//
// Invariants:
//   - On each master a commit happens as a whole or not at all. It is done when a quorum of masters
//     has done it.
//   - Such a client counts its TTL from the moment it sent the command and knows of no drift. So
//     does LOCK: the masters are asked for more (clock.Padded).
//   - A key that holds the very same value already is held, as for Redis: SET NX is denied by it.
//     That is not so for LOCK.
//   - A commit of versions that failed is settled: op_undo.go.
//   - Any other that failed is taken back as an attempt under a caller's token is (op_undo.go):
//     where a vote says that this very commit set the value, and nobody has moved the end of its
//     key since. The values of such clients are often not unique ("1", a host name, nothing), and
//     their retries may go through other clients of the masters. What else is left ends with its
//     TTL: that keeps others out, and lets nobody in.
//   - What a commit has replaced or deleted is also released where another key's guard kept it, if
//     the value is long enough to be unique.

// commit is what a round of changes is about.
type commit struct {
	committed atomic.Bool // a quorum did it, in time. Set under Client.mu

	// Guarded by Client.mu.
	outcome quorum.Outcome // what the votes came to, or No where a forced release ended it; Undecided before
	again   bool           // it begins once more when every master has voted
	seen    quorum.Mask    // masters whose votes were acted on

	changes []Change
	one     [1]Change     // backs changes when there is one
	ttl     time.Duration // the shortest TTL that the caller counts on; 0: none
	longest time.Duration // longestOf the changes
	born    time.Time     // first grant of what is extended or rotated; zero: not known
}

// setsOne tells whether the commit sets one key that was absent, and does nothing else.
func (k *commit) setsOne() bool { return len(k.changes) == 1 && k.changes[0].locks() }

// rotates tells whether a change puts another value in the place of one.
func (k *commit) rotates() bool {
	return slices.ContainsFunc(k.changes, func(ch Change) bool { return ch.rotates() })
}

// checkCommit checks changes. It tells by which verb they are made, and the shortest TTL that the
// caller counts on; 0: none.
func (b *bounds) checkCommit(changes []Change) (v verb, ttl time.Duration, err error) {
	var few [4]string
	resources := few[:0]
	for i := range changes {
		resources = append(resources, changes[i].Resource)
	}
	if err := checkResources(resources, MaxKeys); err != nil {
		return 0, 0, err
	}
	deletes, sets, compares, keeps := false, false, false, false // keeps: also what must not have changed
	for i := range changes {
		ch := &changes[i]
		switch {
		case ch.Was < WasAbsent || ch.Was > WasValue || ch.Do > Expire:
			return 0, 0, badRequest("there is no such change of %q", ch.Resource)
		case ch.Was == WasAbsent && (ch.Do == Delete || ch.Do == Expire):
			return 0, 0, badRequest("%q cannot be absent and be deleted or extended", ch.Resource)
		case max(len(ch.Value), len(ch.NewValue)) > MaxValueLen:
			return 0, 0, badRequest("the value has %d bytes, at most %d are possible", max(len(ch.Value), len(ch.NewValue)), MaxValueLen)
		}
		if ch.lives() {
			if err := b.checkTTL(ch.TTL, ch.Delay); err != nil {
				return 0, 0, err
			}
			if ttl == 0 || ch.TTL < ttl {
				ttl = ch.TTL
			}
		}
		deletes = deletes || ch.Do == Delete
		sets = sets || ch.setsNew()
		compares = compares || ch.Was == WasValue
		keeps = keeps || ch.Do == Keep || ch.Seen != nil //mutant:one-master-is-enough-to-release-what-is-watched
	}
	first := &changes[0]
	switch {
	case len(changes) == 1 && first.locks() && !isVersion(first.NewValue): // a version must not be set late
		return verbCommitSet, ttl, nil
	case sets && !compares: // what is deleted is compared
		return verbCommitAcquire, ttl, nil
	case sets || deletes && (ttl > 0 || keeps):
		// Also where a key that is deleted stands beside one that is only compared: one master that
		// deletes is enough for a release, and is none for what the comparison is to prove.
		return verbCommitReplace, ttl, nil
	case deletes:
		return verbCommitRelease, ttl, nil
	}
	return verbCommitExtend, ttl, nil
}

// StartCommit makes all the changes if all their guards hold, and none otherwise: Result.Held
// tells. Validity and Until are what the caller believes in: its TTL, from the start. It never
// blocks; to.Done is called exactly once. The changes are copied.
func (c *Client) StartCommit(op *Op, changes []Change, to Completer) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	op.to, op.keys, op.againFrom, op.arrived, op.rounds = to, nil, nil, c.own.At(d.now), 0
	v, ttl, err := c.bounds.checkCommit(changes)
	if err != nil {
		d.deliver(op, Result{Err: err})
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	op.onlyReleases = v == verbCommitRelease // as UNLOCK does
	if c.admission.arrives(op) {
		c.beginCommitLocked(op, v, ttl, changes, &d)
		return
	}
	kept, bytes := slices.Clone(changes), changesBytes(changes)
	for i := range kept {
		bytes += len(kept[i].Resource)
	}
	err = c.admission.enqueue(op, c.admission.shareOf(op), bytes, func(d *deferred) { c.beginCommitLocked(op, v, ttl, kept, d) })
	if err != nil {
		d.deliver(op, Result{Err: err})
	}
}

// beginCommitLocked begins a commit for which there is room.
func (c *Client) beginCommitLocked(op *Op, v verb, ttl time.Duration, changes []Change, d *deferred) {
	if c.draining && v.commitAcquires() {
		d.deliver(op, Result{Err: ErrDraining})
		return
	}
	if longest := longestOf(changes); longest > c.fleet.view.Load().ceiling {
		kept := slices.Clone(changes) // the caller's slice may change
		if !c.ceiling.fits(op, longest, d, func(d *deferred) { c.beginCommitLocked(op, v, ttl, kept, d) }) {
			return
		}
	}
	born, err := c.leases.checkHeld(&c.bounds, op, changes, d.now)
	if err != nil {
		d.deliver(op, Result{Err: err})
		return
	}
	first := &changes[0]
	if len(changes) == 1 && first.Do == Delete && v == verbCommitRelease {
		c.releaseLocked(op, []string{first.Resource}, first.Value, d)
		return
	}
	if err := c.lockable(op, newKeys(changes), newMemory(changes), d.now); err != nil {
		d.deliver(op, Result{Err: err})
		return
	}
	if anyChange(changes, (*Change).comes) && !c.fleet.quorumCanVote() { //mutant:versions-are-set-without-a-quorum
		// What cannot be made is not begun on a minority: it would have to be taken back from there.
		w := c.fleet.view.Load()
		err := w.noQuorumError(d.now, w.Gaps, w.Quorum(), 0)
		err.Unchanged = true
		d.deliver(op, Result{Err: err})
		return
	}
	r := commitRound(v, changes, d.now, c.drift, c.fleet.view.Load().Places)
	r.op, r.commit.ttl, r.commit.born = op, ttl, born
	changes = r.commit.changes
	if v == verbCommitRelease { // all are deletions
		for i := range changes {
			c.deletedLocked(r, i, d)
		}
	}
	for i := range changes {
		if ch := &changes[i]; ch.lives() {
			c.leases.beginInflight(r, ch.Resource)
		}
	}
	c.settling.firstLocked(r.keys, d)
	if v.commitAcquires() {
		c.stats.Attempts++
		op.rounds++
	}
	c.rounds.launch(r, quorum.All, d)
	if v == verbCommitRelease {
		for i := range changes {
			c.waiting.handOverLocked(changes[i].Resource, d)
		}
	}
}

// commitRound is the round of a commit.
func commitRound(v verb, changes []Change, now time.Time, d clock.Drift, places int) *round {
	both := &struct {
		round  round
		commit commit
	}{round: round{verb: v, start: now}}
	r, kept := &both.round, &both.commit
	r.commit, kept.changes = kept, append(kept.one[:0], changes...)
	first := &kept.changes[0]
	r.token, r.ttlMs, kept.longest = first.becomes(), first.askedMs(d), longestOf(changes)
	r.keys = r.key[:0]
	for i := range changes {
		r.keys = append(r.keys, changes[i].Resource)
		if ch := &changes[i]; r.attempt == nil && ch.setsNew() {
			r.attempt = newAttempt(r, places)
		}
	}
	return r
}

// longestOf is for how long the changes have keys live, the delays included; 0: for no longer than now.
func longestOf(changes []Change) (longest time.Duration) {
	for i := range changes {
		if ch := &changes[i]; ch.lives() {
			longest = max(longest, ch.TTL+ch.Delay)
		}
	}
	return longest
}

// checkHeld bounds how long what the changes extend or hand to another value may be held.
// born is when the first of that was first granted; zero: not known.
func (s *leases) checkHeld(b *bounds, op *Op, changes []Change, now time.Time) (born time.Time, err error) {
	for i := range changes {
		ch := &changes[i]
		if ch.Was != WasValue || !ch.lives() {
			continue
		}
		one, known := s.birth([]string{ch.Resource}, ch.Value)
		if ch.BornMs != 0 { //mutant:the-birth-that-a-value-tells-ignored
			one, known = time.UnixMilli(ch.BornMs), true
		}
		if !known {
			continue
		}
		if err := b.checkHold(op, one, ch.TTL, now); err != nil {
			return born, err
		}
		if born.IsZero() || one.Before(born) {
			born = one
		}
	}
	return born, nil
}

// commitDecided carries out the decision. Votes that came since the one that decided are taken in
// here, those that come later by commitLate; commit.seen keeps them apart.
func (c *Client) commitDecided(r *round, o quorum.Outcome, _ quorum.Votes, d *deferred) {
	k, n, op := r.commit, r.view.Places, r.op
	elapsed := c.elapsed(r, d)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.leases.endCommit(r)
	v := quorum.Votes(r.votes.Load())
	k.seen = v.Voted(n)
	forced := c.forced.ended(r, d.now) //mutant:a-commit-outlives-the-force
	if forced && o == quorum.Yes {
		o = quorum.No
	}
	k.outcome = o
	inTime := k.ttl == 0 || elapsed < k.ttl //mutant:a-commit-granted-late
	committed := o == quorum.Yes && inTime
	var full error
	if committed && r.verb.commitAcquires() {
		full = c.lockable(op, newKeys(k.changes), newMemory(k.changes), d.now) // others of its share were granted while it was under way //mutant:commits-that-were-under-way-are-not-counted
		committed = full == nil
	}
	r.asReader(v.Tally(n).Of(quorum.AsReader) >= r.view.Quorum()) // a takeover of a reader
	k.committed.Store(committed)
	var result Result
	switch {
	case committed:
		result = Result{Held: true, Token: r.token}
		if k.ttl > 0 {
			result.Until, result.Validity = r.start.Add(k.ttl), k.ttl-elapsed //mutant:a-commit-is-believed-from-its-answer
		}
	case full != nil:
		result.Err = full
	case o == quorum.Yes:
		result.Err = r.noQuorumError(v, r.view.Quorum(), elapsed)
	case o == quorum.NoQuorum, op.againFrom != nil && k.rotates(): //mutant:a-rotation-is-denied-by-itself
		// What denies a second round may be the value that its own first round has set: the undo of that
		// spares a value which another operation counts on. So it is not known whether the change was made.
		result.Err = r.noQuorumError(v, r.view.Quorum(), 0)
	}
	deletes := slices.ContainsFunc(k.changes, func(ch Change) bool { return ch.Do == Delete })
	k.again = o == quorum.NoQuorum && !deletes && c.stoppedByStepLocked(r) //mutant:a-deletion-is-begun-again
	forward := o == quorum.NoQuorum && !k.again && goesForward(k.changes)  //mutant:a-failed-release-of-a-version-stays
	switch {
	case r.verb == verbCommitRelease:
		if o != quorum.No { //mutant:what-is-left-of-several-stays
			c.clearRemainsLocked(r, v, k.seen, d)
		}
		if forward {
			c.settling.forwardLocked(k, r.keys, op, n, v, d)
		}
	case committed:
		c.committedLocked(r, c.admission.shareOf(op), v, d)
		r.op = nil                           // the attempt, which a lease keeps, must not keep the caller's memory
		if !r.released && op.holder != nil { //mutant:a-takeover-outlives-the-unlock-behind-it
			c.holds.bind(op, r, r.token, result.Until, d)
		}
		c.clearRemainsLocked(r, v, k.seen, d)
		c.refillKeysLocked(r, v, k.seen, d) //mutant:holes-of-commits-not-filled
	case forced && k.rotates(): //mutant:what-was-forced-is-turned-back
		c.dropForcedLocked(r, d)
	case forward:
		for i := range k.changes {
			if ch := &k.changes[i]; ch.leaves() {
				c.deletedLocked(r, i, d)
			}
		}
		c.settling.forwardLocked(k, r.keys, op, n, v, d)
	case r.verb == verbCommitExtend:
		if o == quorum.No && len(k.changes) == 1 && k.changes[0].lives() { // of several keys it is not known which was lost
			c.lostByExtensionLocked(r, d)
		}
	default:
		c.takeBackCommitLocked(r, k.seen, d)
	}
	if k.again {
		c.commitAgainLocked(r, d)
		return
	}
	if (r.verb != verbCommitExtend || k.ttl > 0) && full == nil { // not those that only compare
		counts := r.verb
		if !slices.ContainsFunc(k.changes, func(ch Change) bool { return ch.Do != Delete }) {
			counts = verbCommitRelease
		}
		c.stats.countCommit(counts, result, elapsed)
		if counts != verbCommitRelease && counts != verbCommitExtend {
			c.outcomes.ended(result.Err, op.arrived, c.own.At(d.now))
		}
	}
	d.deliver(op, result)
}

// endCommit takes a commit out of those that are in flight, unless it begins once more.
func (s *leases) endCommit(r *round) {
	if r.commit.again {
		return
	}
	for i := range r.commit.changes {
		if ch := &r.commit.changes[i]; ch.lives() {
			s.endInflight(r, ch.Resource)
		}
	}
}

// commitAgainLocked has a commit begin once more, when every master has voted: what it has set would
// deny its second round, and only then is all of it being taken back. It need not wait long, for a
// quorum of the lanes has nothing in flight when a step has ended; but the vote of one that is read may
// still be on its way here.
func (c *Client) commitAgainLocked(r *round, d *deferred) {
	k := r.commit
	if k.seen != r.view.Masters {
		return
	}
	k.again = false
	if r.released { // meanwhile //mutant:a-commit-begins-again-behind-the-unlock
		d.deliver(r.op, Result{Err: r.noQuorumError(quorum.Votes(r.votes.Load()), r.view.Quorum(), 0)})
		return
	}
	c.beginAgainLocked(r, stringsBytes(r.keys)+changesBytes(k.changes), func(c *Client, op *Op, d *deferred) { c.beginCommitLocked(op, r.verb, k.ttl, k.changes, d) }, d)
}

// commitLate acts on votes that came after the decision.
func (c *Client) commitLate(r *round, word quorum.Votes, d *deferred) {
	k, n := r.commit, r.view.Places
	if k.committed.Load() && word.Did(n) == word.Voted(n) {
		if k.setsOne() {
			c.audits.lookAtAttempt(r, d)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	late := word.Voted(n) &^ k.seen
	if k.outcome == quorum.Undecided {
		return // the deciding vote takes them in
	}
	k.seen |= late
	switch {
	case r.verb == verbCommitRelease:
		if k.outcome != quorum.No { //mutant:what-is-left-of-several-is-told-late
			c.clearRemainsLocked(r, word, late, d)
		}
	case k.committed.Load():
		c.clearRemainsLocked(r, word, late, d)
		c.refillKeysLocked(r, word, late, d) //mutant:late-holes-of-commits-not-filled
	case c.settling.late(k, word, n):
	case r.verb != verbCommitExtend: //mutant:late-grant-kept
		c.takeBackCommitLocked(r, late, d)
	}
	if k.again {
		c.commitAgainLocked(r, d)
		c.leases.endCommit(r)
	}
}

// takeBackCommitLocked undoes a failed commit on those masters among these that have made it. Versions
// go also where the answer is missing.
func (c *Client) takeBackCommitLocked(r *round, among quorum.Mask, d *deferred) {
	c.takeBackLocked(r.attempt, among, d)
	silent := quorum.Votes(r.votes.Load()).Where(r.view.Places, 1<<quorum.Unknown)
	c.settling.takeBackLocked(r, silent&among, d)
}

// countCommit counts a commit as the native command that does the same: LOCK, UNLOCK or
// EXTEND.
func (s *Stats) countCommit(v verb, result Result, elapsed time.Duration) {
	one := func(done, not, unknown *uint64) {
		switch {
		case result.Held:
			*done++
		case result.Err == nil:
			*not++
		default:
			*unknown++
		}
	}
	switch v {
	case verbCommitRelease:
		one(&s.Released, &s.NotHeld, &s.UnlockFail)
	case verbCommitExtend:
		one(&s.Extended, &s.ExtendLost, &s.ExtendFail)
	default:
		one(&s.Granted, &s.Denied, &s.NoQuorum)
		s.Rounds.add(elapsed)
	}
}

// committedLocked makes leases of what a commit has set or extended, and forgets those it has
// ended.
func (c *Client) committedLocked(r *round, share *Share, v quorum.Votes, d *deferred) {
	k, n := r.commit, r.view.Places
	if i := slices.IndexFunc(k.changes, func(ch Change) bool { return ch.locks() }); i >= 0 {
		c.leases.byPrefix.granted(k.changes[i].Resource, c.own.At(d.now)-r.op.arrived, r.op.rounds)
	}
	for i := range k.changes {
		ch := &k.changes[i]
		key := r.keys[i : i+1]
		switch {
		case ch.Do == Delete:
			c.deletedLocked(r, i, d)
			c.waiting.handOverLocked(ch.Resource, d)
			continue
		case !ch.lives():
			continue
		}
		// Each key is a lease of its own: it can be released and extended alone.
		before := c.leases.findLease(key, ch.becomes())
		lease := &lease{token: ch.becomes(), ttlMs: uint32(ch.askedMs(c.drift)), validUntil: r.start.Add(ch.TTL), born: r.start, //mutant:a-lease-of-a-commit-counts-from-its-answer
			launched: r.launched, holders: v.MayHold(n), reader: r.ofReader()}
		lease.keys = append(lease.key[:0], ch.Resource)
		if k.setsOne() {
			lease.attempt = r.attempt
			r.attempt.granted.Store(int64(c.own.At(d.now)))
		}
		if !k.born.IsZero() && ch.Was == WasValue {
			lease.born = k.born
		}
		if lease.note = r.op.Note; before != nil {
			lease.note = noteOf(lease.note, before.note)
		}
		if before == nil && ch.Was == WasValue && !ch.rotates() { //mutant:a-commit-knows-all-holders
			lease.holders = r.view.Masters // granted by another client: any master may hold it
		}
		counted := share
		if before != nil && before.share != nil {
			counted = before.share //mutant:an-extended-lock-changes-its-share
		}
		if ch.rotates() {
			if b := c.holds.ofKey(ch.Resource, ch.Value); b != nil {
				c.holds.moved(b, k.ends(ch.Value), ch.Value, r.op.holder, d)
			}
			if old := c.leases.findLease(key, ch.Value); old != nil {
				c.leases.forget(old) // the lock has not ended: it goes on under the new value
			}
			c.leases.release(key, ch.Value, d.now) // also for an extension of the old value that is still under way
		}
		if !r.released { //mutant:a-commit-outlives-the-unlock-behind-it
			c.leases.grant(lease, counted, ch.Delay, d.now)
		}
	}
}

// deletedLocked forgets what is known of a key that a commit deletes.
func (c *Client) deletedLocked(r *round, i int, d *deferred) {
	ch := &r.commit.changes[i]
	c.leases.release(r.keys[i:i+1], ch.Value, d.now)
	if b := c.holds.ofKey(ch.Resource, ch.Value); b != nil {
		c.holds.released(r.commit.ends(ch.Value), ch.Value, d)
	}
}

// ends are the resources that the token does not hold any more when the commit is done.
func (k *commit) ends(token string) (resources []string) {
	for i := range k.changes {
		if ch := &k.changes[i]; ch.Value == token && (ch.Do == Delete || ch.rotates()) {
			resources = append(resources, ch.Resource)
		}
	}
	return resources
}

// missed are the masters that have not done the commit because they have lost a key. Where a version
// was changed, they are also those that hold something else: it may be a version from before a change
// that they have missed. They would miss all that follow, and the lock would be without reserve: one
// more master that is late, and no value has a quorum until the key ends.
func (k *commit) missed(v quorum.Votes, places int) quorum.Mask {
	missed := v.Lost(places)
	if slices.ContainsFunc(k.changes, func(ch Change) bool { return ch.Was == WasValue && ch.lives() && isVersion(ch.becomes()) }) { //mutant:masters-that-have-missed-changes-are-left-behind
		missed |= v.Denied(places)
	}
	return missed
}

// refillKeysLocked gives the keys that a commit has set or extended back to those masters among these
// that have missed it: they have done nothing of it, for each master does all of a commit or nothing.
// Otherwise a lock of several keys that is only ever renewed by commits would not outlive a restart
// of the masters one after another. It runs behind clearRemainsLocked: a key that is rotated may
// still hold its old value there. Each key is given back as a lease of its own, and only while it is
// the one of this commit: what was released or changed since is left alone.
func (c *Client) refillKeysLocked(r *round, v quorum.Votes, among quorum.Mask, d *deferred) {
	lost := r.commit.missed(v, r.view.Places) & among
	if lost == 0 {
		return
	}
	for i := range r.commit.changes {
		if lease := c.leases.leaseOf(r, r.keys[i:i+1], r.commit.changes[i].becomes()); lease != nil {
			c.refillLocked(lease, lost, d)
		}
	}
}

// clearRemainsLocked removes values that a commit which was done, or a release of which nobody
// knows, was to replace or delete, from the masters among these that have not done it: a guard
// failed there because of another key, or the answer is missing. Values that may not be unique, or
// that somebody sets anew, or was granted since, are left to their TTL.
func (c *Client) clearRemainsLocked(r *round, v quorum.Votes, among quorum.Mask, d *deferred) {
	targets := among &^ v.Did(r.view.Places) //mutant:what-was-released-is-cleared-again
	if targets == 0 {
		return
	}
	for i := range r.commit.changes {
		ch := &r.commit.changes[i]
		if (ch.rotates() || ch.Do == Delete) && unique(ch.Value) && !c.leases.superseded(r, ch.Resource, ch.Value) { //mutant:rotation-leaves-the-old-value //mutant:a-short-value-is-cleared
			old := &round{verb: verbRelease, keys: r.keys[i : i+1], token: ch.Value, start: d.now}
			if isVersion(ch.Value) && r.commit.committed.Load() {
				old.keepFor = targets //mutant:what-is-left-of-a-changed-version-stays
			}
			c.rounds.launch(old.asReader(r.ofReader()), targets, d)
		}
	}
}

// costOfCommit is what a command costs that names also the values of a commit's changes.
func (r *round) costOfCommit() int {
	return costOf(r.keys, len(r.token)+changesBytes(r.commit.changes))
}
