package redlock

import (
	"slices"
	"time"

	"redlockd/redlock/quorum"
)

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
	asking    bool          // a round is under way
	next      time.Time     // when masters are asked again
	expiresAt time.Time     // what goes has ended by then
}

// found is a change that this client finds begun: from and to are the values on masters.
type found struct {
	from, to string
	since    time.Time
}

// settling is what this client has to settle. Client.mu guards it.
type settling struct {
	all   []*unsettled // the oldest first
	found map[string]found
}

const (
	// unsettledMax bounds settling.all. The oldest gives way, and ends with its TTL.
	unsettledMax = 1 << 12
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

// goesForward tells whether a change that has failed is made all the same.
func goesForward(changes []Change) bool {
	comes := func(ch Change) bool { return ch.setsNew() && isVersion(ch.NewValue) && !ch.Leaves }
	return slices.ContainsFunc(changes, func(ch Change) bool { return ch.leaves() }) && !slices.ContainsFunc(changes, comes) //mutant:who-comes-in-goes-forward
}

// add has a change settled on these masters. answered are those that hold it no more.
func (s *settling) add(u *unsettled) {
	if len(s.all) >= unsettledMax {
		s.all = slices.Delete(s.all, 0, 1)
	}
	s.all = append(s.all, u)
}

// goForwardLocked has a failed change that only takes holders out made on the masters that have not
// answered.
func (c *Client) goForwardLocked(k *commit, keys []string, op *Op, places int, v quorum.Votes, d *deferred) {
	u := &unsettled{commit: k, keys: keys, forward: true, expiresAt: d.now.Add(c.fleet.keyLifeMax())}
	u.to, _ = op.to.(LateCompleter)
	u.count(v, places)
	u.open = c.fleet.view.Load().Masters &^ u.answered
	c.settling.add(u)
}

// count takes in votes.
func (u *unsettled) count(v quorum.Votes, places int) {
	did := v.Did(places)
	u.made = u.made || did != 0
	u.answered |= did | v.Lost(places) | v.Denied(places)
	u.open &^= u.answered
}

// late takes in votes for the first round of a change that goes forward.
func (s *settling) late(k *commit, v quorum.Votes, places int) {
	for _, u := range s.all {
		if u.commit == k {
			u.count(v, places)
		}
	}
}

// takeBackLocked is for a failed change: versions that it may have set on these masters, whose answers
// are missing, are to go.
func (s *settling) takeBackLocked(c *Client, r *round, silent quorum.Mask, d *deferred) {
	if silent == 0 || !slices.ContainsFunc(r.commit.changes, func(ch Change) bool { return ch.setsNew() && isVersion(ch.NewValue) }) {
		return
	}
	if i := slices.IndexFunc(s.all, func(u *unsettled) bool { return u.commit == r.commit }); i >= 0 {
		s.all[i].open |= silent
		return
	}
	s.add(&unsettled{commit: r.commit, keys: r.keys, open: silent, expiresAt: d.now.Add(c.fleet.keyLifeMax())}) //mutant:what-silent-masters-may-have-set-stays
}

// settleAgain asks masters that are open again. The watchdog calls it at every tick.
func (c *Client) settleAgain(d *deferred) {
	c.mu.Lock()
	s := &c.settling
	if len(s.all) > 0 {
		masters := c.fleet.view.Load().Masters
		s.all = slices.DeleteFunc(s.all, func(u *unsettled) bool {
			return !u.asking && (u.open&masters == 0 || d.now.After(u.expiresAt))
		})
		if len(s.all) == 0 {
			s.all = nil
		}
		for _, u := range s.all {
			if !u.asking && d.now.After(u.next) {
				c.askUnsettledLocked(u, d)
			}
		}
	}
	c.mu.Unlock()
	c.runDeferred(d)
}

func (c *Client) askUnsettledLocked(u *unsettled, d *deferred) {
	u.asking, u.next = true, d.now.Add(c.opts.MasterTimeout)
	if u.forward {
		r := settleRound(u, u.commit.changes, d.now)
		c.rounds.launch(r, u.open, d)
		return
	}
	r := &round{verb: verbSettleRead, start: d.now, commit: &commit{settles: u}}
	r.setKeys(u.keys...)
	c.rounds.launch(r, quorum.All, d)
}

// settleRound makes changes for nobody.
func settleRound(u *unsettled, changes []Change, now time.Time) *round {
	r := &round{verb: verbSettle, start: now, commit: &commit{changes: changes, settles: u}}
	for i := range changes {
		r.keys = append(r.keys, changes[i].Resource)
	}
	return r
}

// settleDecided takes in what masters say when they are asked again.
func (c *Client) settleDecided(r *round, _ quorum.Outcome, v quorum.Votes, _ *deferred) {
	u := r.commit.settles
	if u == nil {
		return // it was made to help
	}
	c.mu.Lock()
	u.asking = false
	u.count(v, r.view.Places)
	var tell LateCompleter
	if u.forward && u.made && u.answered.Count() >= r.view.Quorum() {
		tell, u.to = u.to, nil
	}
	c.mu.Unlock()
	if tell != nil {
		tell.DoneLate() //mutant:nobody-is-told-of-a-late-release
	}
}

// settleRead takes a version back from masters that may have set it, once no quorum can have it.
func (c *Client) settleRead(r *round, _ quorum.Outcome, v quorum.Votes, d *deferred) {
	u, places := r.commit.settles, r.view.Places
	c.mu.Lock()
	defer c.mu.Unlock()
	u.asking = false
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
				back[0].Do, back[0].NewValue, back[0].Longer, back[0].TTL = Set, ch.Value, true, time.Millisecond
			}
			cleared &^= holders
			u.asking = true
			c.rounds.launch(settleRound(u, back, d.now), holders&u.open, d)
		}
	}
	u.open &^= cleared
}

// helpLocked makes changes that masters show begun, whose client has gone: one version is on some
// masters, and the very value that it was made of on others. Nobody waits for it.
func (c *Client) helpLocked(r *round, key int, v quorum.Votes, d *deferred) {
	resource := r.keys[key]
	on := make(map[string]quorum.Mask)
	ttl := make(map[string]time.Duration)
	for i := range r.view.Places {
		if v.Of(i) != quorum.Granted {
			continue
		}
		if a := &r.answers[i].keys[key]; a.found && isVersion(a.value) && a.ttl > 0 {
			on[a.value] = on[a.value].With(i)
			ttl[a.value] = max(ttl[a.value], a.ttl)
		}
	}
	var from, to string
	for next := range on {
		for before := range on {
			if !follows(next, before) { //mutant:made-in-the-place-of-any-value
				continue
			}
			if n, most := on[next].Count(), on[to].Count(); n > most || n == most && next < to {
				from, to = before, next
			}
		}
	}
	s := &c.settling
	before, known := s.found[resource]
	switch {
	case to == "":
		delete(s.found, resource)
	case !known || before.from != from || before.to != to:
		if s.found == nil || len(s.found) >= foundMax {
			s.found = make(map[string]found)
		}
		s.found[resource] = found{from, to, d.now}
	case d.now.Sub(before.since) >= helpAfter*c.opts.MasterTimeout:
		delete(s.found, resource)
		help := []Change{{Resource: resource, Was: WasValue, Value: from, Do: Set, NewValue: to, Longer: true, TTL: ttl[to]}}
		c.rounds.launch(settleRound(nil, help, d.now), on[from], d)
	}
}
