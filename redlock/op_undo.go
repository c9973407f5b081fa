package redlock

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/quorum"
)

// A caller that chose its token may repeat its LOCK through any client of the masters, because a
// reply was lost or took too long, while an earlier attempt is still being decided or taken back
// elsewhere. On the masters nothing but the end of a key's life tells the attempts apart. So a
// failed attempt under a caller's token is taken back like this:
//
//   - Nothing is kept for masters that are away, and nothing is sent where the vote is unknown:
//     what is left there ends with its TTL.
//   - The undo goes only to masters whose vote says that this very attempt set the key. The batch
//     reads the master's clock before and after (clockMark), so the lane knows within endSlack when
//     the key must end.
//   - The undo deletes a key only if it holds the token and ends then.
//   - An operation that finds its token on a master and counts on it (a repeated LOCK, EXTEND, a commit
//     that keeps the value) moves the end of the key by at least endMove, and LOCK and EXTEND never
//     bring it nearer. So the undo of another attempt leaves the key alone.
//
// Invariant: endMove (lua/moved.lua, 8 ms) is more than endSlack and the 2 ms by which a script can
// misread the end of a key, for old masters read their clock anew for PTTL and TIME.
// testdata/tla/Lock.tla is the model of this, with the mutants that break it.
//
// What is left is a caller that does what it is asked not to do: it sends UNLOCK and locks again
// with the same token through another client within endSlack of a failed attempt, and asks for the
// same TTL. Through the same client that is safe too (superseded).
//
// A token that redlockd made serves one attempt, and nobody knows it before it is granted: releases
// of it need no such care, and are kept for masters that are away (master_pending.go).
const (
	endSlackMs = 5
)

// What lua.Undo does with a key.
const (
	undoDelete  = 1
	undoPutBack = 2
)

// attempt is what is known of keys that a round has set under a caller's token.
type attempt struct {
	round *round
	// setAt is for each master the time of its clock at which it set the keys for this attempt, as
	// setKey tells it. 0: it did not set them, or nobody knows. The master's lane writes it before
	// it votes.
	setAt  []int64
	few    [5]int64    // backs setAt where there are few masters
	failed atomic.Bool // it was not granted, or its caller is gone: what it has set is taken back
	// granted is when it was, on clock.Own. 0: it was not, or not yet.
	granted atomic.Int64
}

// newAttempt makes the record for a round that is not launched yet. Up to five masters it is one
// allocation.
func newAttempt(r *round, masters int) *attempt {
	a := &attempt{round: r}
	if a.setAt = a.few[:min(masters, len(a.few))]; masters > len(a.few) {
		a.setAt = make([]int64, masters)
	}
	return a
}

// attempts tells whether the round sets keys under a caller's token.
func (r *round) attempts() bool { return r.attempt != nil && r.verb != verbUndo }

// setOn are the masters among these that have set the keys for this very attempt, as far as is
// known. Their votes must be in.
func (a *attempt) setOn(among quorum.Mask) (m quorum.Mask) {
	for i := range a.setAt {
		if among.Has(i) && a.setAt[i] != 0 { //mutant:an-attempt-that-failed-is-not-taken-back
			m = m.With(i)
		}
	}
	return m
}

// takeBackLocked undoes a failed attempt under a caller's token on those masters among these that
// have set the keys for it. Nobody waits for it. It may be repeated.
func (c *Client) takeBackLocked(a *attempt, among quorum.Mask, d *deferred) {
	if a == nil {
		return // a commit that sets nothing
	}
	for i, key := range a.round.keys {
		// If the caller has sent UNLOCK and LOCK behind this attempt, the key of the second LOCK
		// may end where that of the first would.
		if c.leases.superseded(a.round, key, a.round.valueOf(i)) { //mutant:undone-behind-unlock-and-lock
			return
		}
	}
	if targets := a.setOn(among); targets != 0 {
		c.rounds.launch(&round{verb: verbUndo, keys: a.round.keys, token: a.round.token, start: d.now, attempt: a}, targets, d)
	}
}

// undoAttemptLocked takes back what votes say that the attempt has set. lateAttempt does so with
// votes that are still to come: it counts a vote before it looks whether the attempt has failed, so
// each vote is seen by one of the two.
func (c *Client) undoAttemptLocked(a *attempt, d *deferred) {
	a.failed.Store(true)
	c.takeBackLocked(a, quorum.Votes(a.round.votes.Load()).Voted(a.round.view.Places), d)
}

// lateAttempt takes back what votes that came after the decision say that a failed LOCK has set. Of one
// that was granted it looks at the lease.
func (c *Client) lateAttempt(r *round, word quorum.Votes, d *deferred) {
	switch {
	case r.attempt == nil:
	case r.attempt.failed.Load(): //mutant:late-votes-are-not-taken-back
		c.mu.Lock()
		defer c.mu.Unlock()
		c.takeBackLocked(r.attempt, word.Voted(r.view.Places), d)
	default:
		c.audits.lookAtAttempt(r, d)
	}
}

// undo says what takes the change back that a master has made at this time of its clock: arguments
// of lua.Undo. Only a value that is new is taken back; what was deleted, extended or compared stays as
// it is, for no key ends at 0.
func (ch *Change) undo(at int64, d clock.Drift) (value string, latest, what int64, before string) {
	if !ch.setsNew() { //mutant:a-failed-rotation-is-not-turned-back
		return "", 0, 0, ""
	}
	if what = undoDelete; ch.rotates() {
		what, before = undoPutBack, ch.Value // its owner may still count on it
	}
	return ch.NewValue, at + ch.askedMs(d), what, before
}

// A change of a version (version.go) that too few masters have made leaves them with different values:
// none may have a quorum, and then nobody can take, change or release the lock until they end. So the
// client that has sent the change goes on with it when its caller has been told NOQUORUM:
//
//   - Forward, where the change takes holders out and lets none in: it is made on every master that has
//     not answered, whenever that takes work, until all have answered. Its caller wanted that, and the
//     change is open all the while, as if the first round took so long. When the value cannot have a
//     quorum any more, the caller is told (LateCompleter): messages that others wait for follow.
//   - Back, where it lets somebody in, or another end is set: what votes say that it has set is undone
//     at once (op_undo.go). Where the answer is missing, the masters are read, and the value goes as soon
//     as it is certain that no quorum has it. Otherwise somebody may have been told of it since.
//
// If this client has gone, others that find such values make the change (helpLocked), but never take
// one back, nor delete anything: only the client that has sent it knows that nobody counts on it.
//
// Invariants (Versions.tla):
//   - Nothing is replaced or deleted but the version that the change was made for, or that it has set.
//   - No master makes a change when its vote was given up (master_late.go), unless it is sent once more.
//   - Others make a change only in the place of the very value that it was made of. A value of the same
//     lineage whose generation is lower may be one that counts, beside what came of one that did not.

// LateCompleter is a Completer that is told what becomes of its commit later.
type LateCompleter interface {
	Completer
	// DoneLate is called once, some time after Done with ErrNoQuorum, if the commit is made after all. It
	// must be quick.
	DoneLate()
}

// unsettled is a change that has failed, until all masters have settled it.
type unsettled struct {
	commit    *commit
	keys      []string
	forward   bool
	to        LateCompleter // who is told; nil: nobody, or it is done
	open      quorum.Mask   // masters that have not answered: they may hold what goes
	answered  quorum.Mask   // forward: masters that hold it no more
	made      bool          // forward: some master has made it
	asking    int           // rounds that are under way
	next      time.Time     // when masters are asked again
	expiresAt time.Time     // what goes has ended by then
}

// found is a change that this client finds begun: the value that it sets, which tells what it was made of.
type found struct {
	to    string
	since time.Time
}

// settling is what this client has to settle. Client.mu guards it.
type settling struct {
	client *Client
	all    []*unsettled // the oldest first
	rounds map[*round]*unsettled
	found  map[string]found
}

const (
	// unsettledMax bounds settling.all. The oldest gives way, and ends with its TTL.
	unsettledMax = 1 << 10
	// foundMax bounds settling.found. When there are more, all are forgotten: they are found again.
	foundMax = 1 << 10
	// helpAfter is for how long a change has been found begun before others make it, in times of
	// MasterTimeout: its own client has decided by then.
	helpAfter = 4
)

// leaves: what the key holds as a version, or a holder in it, is to go, and nobody comes in.
func (ch *Change) leaves() bool {
	return isVersion(ch.Value) && (ch.Do == Delete || ch.Leaves)
}

// comes: a version is set, in which somebody may be who was not in the one before.
func (ch *Change) comes() bool { return ch.setsNew() && isVersion(ch.NewValue) && !ch.Leaves }

// anyChange tells whether one of the changes is so.
func anyChange(changes []Change, so func(*Change) bool) bool {
	return slices.ContainsFunc(changes, func(ch Change) bool { return so(&ch) })
}

// goesForward tells whether a change that has failed is made all the same.
func goesForward(changes []Change) bool {
	return anyChange(changes, (*Change).leaves) && !anyChange(changes, (*Change).comes) //mutant:who-comes-in-goes-forward
}

// add has a change settled on these masters. answered are those that hold it no more.
func (s *settling) add(u *unsettled) {
	if len(s.all) >= unsettledMax {
		s.all = slices.Delete(s.all, 0, 1)
	}
	s.all = append(s.all, u)
}

// forwardLocked has a failed change that only takes holders out made on the masters that have not
// answered.
func (s *settling) forwardLocked(k *commit, keys []string, op *Op, places int, v quorum.Votes, d *deferred) {
	u := &unsettled{commit: k, keys: keys, forward: true, expiresAt: d.now.Add(s.client.fleet.keyLifeMax())}
	u.to, _ = op.to.(LateCompleter)
	u.count(v, places)
	u.open = s.client.fleet.view.Load().Masters &^ u.answered
	s.add(u)
}

// count takes in votes.
func (u *unsettled) count(v quorum.Votes, places int) {
	did := v.Did(places)
	u.made = u.made || did != 0
	u.answered |= did | v.Lost(places) | v.Denied(places)
	u.open &^= u.answered
}

// late takes in votes for the first round of a change that goes forward, and returns false for any other.
func (s *settling) late(k *commit, v quorum.Votes, places int) bool {
	i := slices.IndexFunc(s.all, func(u *unsettled) bool { return u.commit == k && u.forward })
	if i >= 0 {
		s.all[i].count(v, places)
	}
	return i >= 0
}

// takeBackLocked is for a failed change: versions that it may have set on these masters, whose answers
// are missing, are to go.
func (s *settling) takeBackLocked(r *round, silent quorum.Mask, d *deferred) {
	if silent == 0 || !slices.ContainsFunc(r.commit.changes, func(ch Change) bool { return ch.setsNew() && isVersion(ch.NewValue) }) {
		return
	}
	if i := slices.IndexFunc(s.all, func(u *unsettled) bool { return u.commit == r.commit }); i >= 0 {
		s.all[i].open |= silent
		return
	}
	s.add(&unsettled{commit: r.commit, keys: r.keys, open: silent, expiresAt: d.now.Add(s.client.fleet.keyLifeMax())}) //mutant:what-silent-masters-may-have-set-stays
}

// again asks masters that are open again. The watchdog calls it at every tick.
func (s *settling) again(d *deferred) {
	c := s.client
	c.mu.Lock()
	masters := c.fleet.view.Load().Masters
	s.all = slices.DeleteFunc(s.all, func(u *unsettled) bool { return u.open&masters == 0 || d.now.After(u.expiresAt) })
	for _, u := range s.all {
		if u.asking == 0 && d.now.After(u.next) {
			s.askLocked(u, d)
		}
	}
	c.mu.Unlock()
	c.runDeferred(d)
}

// firstLocked has masters asked about keys that are to go before what is launched next finds them: an
// owner that has released a lock, and takes it again, would take it twice.
func (s *settling) firstLocked(keys []string, d *deferred) {
	for _, u := range s.all {
		if u.forward && slices.ContainsFunc(u.keys, func(key string) bool { return slices.Contains(keys, key) }) {
			s.askLocked(u, d) //mutant:what-was-released-is-found-again
		}
	}
}

func (s *settling) askLocked(u *unsettled, d *deferred) {
	u.asking, u.next = u.asking+1, d.now.Add(s.client.opts.MasterTimeout/2)
	if u.forward {
		s.launch(u, u.commit.changes, u.open, d)
		return
	}
	r := &round{verb: verbSettleRead, start: d.now}
	r.setKeys(u.keys...)
	s.rounds[r] = u
	s.client.rounds.launch(r, quorum.All, d)
}

// launch makes changes for nobody. u: it is settled by that; nil: another client's change is.
func (s *settling) launch(u *unsettled, changes []Change, targets quorum.Mask, d *deferred) {
	r := &round{verb: verbSettle, start: d.now, commit: &commit{changes: changes}}
	for i := range changes {
		r.keys = append(r.keys, changes[i].Resource)
	}
	s.rounds[r] = u
	s.client.rounds.launch(r, targets, d)
}

// answeredLocked returns whose round is decided; nil: nobody's.
func (s *settling) answeredLocked(r *round) *unsettled {
	u := s.rounds[r]
	if delete(s.rounds, r); u != nil {
		u.asking--
	}
	return u
}

// settleDecided takes in what masters say when they are asked again.
func settleDecided(c *Client, r *round, _ quorum.Outcome, v quorum.Votes, _ *deferred) {
	c.mu.Lock()
	u := c.settling.answeredLocked(r)
	if u != nil {
		u.count(v, r.view.Places)
	}
	var tell LateCompleter
	if u != nil && u.made && u.answered.Count() >= r.view.Quorum() {
		tell, u.to = u.to, nil
	}
	c.mu.Unlock()
	if tell != nil {
		tell.DoneLate() //mutant:nobody-is-told-of-a-late-release
	}
}

// settleRead takes a version back from masters that may have set it, once no quorum can have it.
func settleRead(c *Client, r *round, _ quorum.Outcome, v quorum.Votes, d *deferred) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u, places := c.settling.answeredLocked(r), r.view.Places
	silent := r.view.Masters &^ v.Where(places, 1<<quorum.Granted|1<<quorum.Done)
	cleared := u.open &^ silent
	for i := range u.commit.changes {
		ch := &u.commit.changes[i]
		if !ch.setsNew() || !isVersion(ch.NewValue) {
			continue
		}
		var holders quorum.Mask
		for _, l := range r.view.masters {
			if !silent.Has(l.index) && r.answers[l.index].keys[i].value == ch.NewValue {
				holders = holders.With(l.index)
			}
		}
		switch {
		case holders.Count() >= r.view.Quorum(): // it is made, as far as anybody knows
		case holders.Count()+silent.Count() >= r.view.Quorum(): //mutant:a-version-that-may-count-is-released
			cleared &^= holders // not known yet
		case holders&u.open != 0:
			back := []Change{{Resource: ch.Resource, Was: WasValue, Value: ch.NewValue, Do: Delete}}
			if ch.rotates() {
				back[0].Do, back[0].NewValue, back[0].Longer = Set, ch.Value, true
			}
			cleared &^= holders
			u.asking++
			c.settling.launch(u, back, holders&u.open, d)
		}
	}
	u.open &^= cleared
}

// helpLocked makes changes that masters show begun, whose client has gone: one version is on some
// masters, and the very value that it was made of on others. Nobody waits for it.
func (s *settling) helpLocked(r *round, key int, v quorum.Votes, d *deferred) {
	resource := r.keys[key]
	on := make(map[string]quorum.Mask)
	ttl := make(map[string]time.Duration)
	for i := range r.view.Places {
		if v.Of(i) != quorum.Granted {
			continue
		}
		if a := &r.answers[i].keys[key]; isVersion(a.value) {
			on[a.value] = on[a.value].With(i)
			ttl[a.value] = max(ttl[a.value], a.ttl)
		}
	}
	var from, to string
	for _, next := range slices.Sorted(maps.Keys(on)) { // in order: all clients make the same of two
		for before := range on {
			if !follows(next, before) { //mutant:made-in-the-place-of-any-value
				continue
			}
			if on[next].Count() > on[to].Count() {
				from, to = before, next
			}
		}
	}
	before := s.found[resource]
	switch {
	case to == "":
		delete(s.found, resource)
	case before.to != to:
		if len(s.found) >= foundMax {
			clear(s.found)
		}
		s.found[resource] = found{to, d.now}
	case d.now.Sub(before.since) >= helpAfter*s.client.opts.MasterTimeout:
		delete(s.found, resource)
		help := []Change{{Resource: resource, Was: WasValue, Value: from, Do: Set, NewValue: to, Longer: true, TTL: ttl[to]}}
		s.launch(nil, help, on[from], d)
	}
}
