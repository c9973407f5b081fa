package redlock

import (
	"log/slog"
	"time"

	"redlockd/redlock/loglimit"
	"redlockd/redlock/quorum"
)

// A lease can be lost before its validity ends: masters restart or are flushed. The holder learns it
// with its next EXTEND; everybody else should not have to wait for that. So with every heartbeat a few
// leases are read from the masters, and all of them soon after a master was quarantined or connected
// to, was found to evict keys, or became a replica.
//
// A lease can also end without this client: another one released it or took it over, or somebody
// deleted the key. Nobody is told of that, for nobody can tell these apart. What the token has left on
// a minority is removed, for it would keep others out.
const (
	auditPerBeat  = 16
	auditInDoubt  = 512 // per heartbeat, until all leases were looked at once
	auditMinAlive = 50 * time.Millisecond
)

// audits looks for leases that are lost. Client.mu guards it. It reads leases through the client.
type audits struct {
	client *Client
	// last is an index in leases.all: the audit has read the leases before it lately.
	last int
	// doubts counts the leases that the audit has to read soon.
	doubts int
	// log limits the lines about leases that are lost.
	log loglimit.Limiter
}

// next looks at the next leases in turn.
func (a *audits) next(d *deferred) {
	a.client.mu.Lock()
	count := auditPerBeat
	if a.doubts > 0 {
		count = auditInDoubt
		a.doubts -= min(a.doubts, count)
	}
	all := a.client.leases.all
	for range min(count, len(all)) {
		if a.last++; a.last >= len(all) {
			a.last = 0
		}
		lease := all[a.last]
		// One that is about to end, or was just granted and may not have reached every master, proves
		// nothing.
		if lease.lost || d.now.Add(auditMinAlive).After(lease.validUntil) || d.now.Sub(lease.born) < auditMinAlive {
			continue
		}
		a.look(lease, d)
	}
	a.client.mu.Unlock()
	if a.log.Behind(d.now) {
		a.log.Log(a.client.opts.Logger, slog.LevelWarn, d.now, "leases lost", "to_do", lostToDo)
	}
	a.client.runDeferred(d)
}

// look reads a lease from the masters.
func (a *audits) look(lease *lease, d *deferred) {
	r := &round{verb: verbAudit, token: lease.token, start: d.now}
	r.setKeys(lease.keys[0])
	a.client.stats.Audits++
	a.client.rounds.launch(r.asReader(lease.reader), quorum.All, d)
}

// lookAtAttempt reads the lease of an attempt under a caller's token that a master has done long after
// it was granted: another client may have released it meanwhile, and that master had nothing to
// release. A release through this client is behind the attempt on every master.
func (a *audits) lookAtAttempt(r *round, d *deferred) {
	granted := time.Duration(r.attempt.granted.Load())
	if granted == 0 || a.client.own.At(d.now)-granted < a.client.opts.MasterTimeout/4 {
		return
	}
	a.client.mu.Lock()
	defer a.client.mu.Unlock()
	if lease := a.client.leases.entries[r.keys[0]].leaseOf(r.valueOf(0)); lease != nil && lease.attempt == r.attempt {
		a.look(lease, d) //mutant:a-late-grant-is-not-looked-at
	}
}

const lostToDo = "find out which masters were restarted or flushed, or may evict keys; its holder learns of it with EXTEND"

// auditDecided judges what the masters answered about a lease. Where those that remember suffice to say
// that the token does not hold it, it was released, or taken over, through another client, and is
// forgotten here. It is lost where that takes masters that have forgotten.
func (c *Client) auditDecided(r *round, _ quorum.Outcome, v quorum.Votes, d *deferred) {
	gone, forgotten, moved := quorum.Mask(0), quorum.Mask(0), false
	for i := range r.view.Places {
		a := &r.answers[i]
		another := !r.ofReader() && a.value != r.token
		switch kind := v.Of(i); {
		case kind == quorum.Absent:
			gone = gone.With(i)
		case kind == quorum.Granted && another:
			gone = gone.With(i)
			moved = moved || mayTakeOver(a.value, r.token) //mutant:a-takeover-under-way-is-cleaned-up
		case kind == quorum.Hole, kind == quorum.Done && another:
			forgotten = forgotten.With(i)
		}
	}
	if (gone | forgotten).Count() < r.view.Needed() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	lease := c.leases.entries[r.keys[0]].leaseOf(r.token)
	// Granted or extended by a later round: the answers speak of the past.
	if lease == nil || lease.lost || launchedAfter(lease.launched, r.launched) || now.After(lease.validUntil) {
		return
	}
	if b := c.holds.of(lease.keys, lease.token); b != nil {
		c.holds.lookAgain(b, now) // its renewal makes sure
	}
	if gone.Count() >= r.view.Needed() { //mutant:a-release-elsewhere-is-told-as-lost
		if moved {
			c.leases.forget(lease)
			return
		}
		c.leases.end(lease, now)
		switch {
		case lease.attempt != nil: // its caller may lock with the token again
			c.undoAttemptLocked(lease.attempt, d)
		case madeHere(r.token) && !r.ofReader():
			c.rounds.drop(r.keys, r.token, r.view.Masters&^gone, false, d) //mutant:what-a-release-elsewhere-left-stays
		}
		return
	}
	lease.lost = true
	delete(c.leases.delays, lease) // the masters have forgotten that, too
	c.stats.Lost++
	c.audits.log.Log(c.opts.Logger, slog.LevelWarn, now, "lease lost", "resource", lease.keys[0], "masters_that_forgot_it", forgotten.Count(),
		"validity_left", lease.validUntil.Sub(now).Round(time.Millisecond), "to_do", lostToDo, lease.note.attr(lease.born))
}

// mayTakeOver tells whether the value may have come in the place of the token by a takeover, or by the
// commit of a library. That may still fail, and put the token back. A takeover keeps the birth.
func mayTakeOver(value, token string) bool {
	born, made := tokenBirth(value)
	before, known := tokenBirth(token)
	return !made || !known || born.Equal(before)
}

// suspect has all leases looked at soon: a master may have forgotten them.
func (a *audits) suspect() {
	a.client.mu.Lock()
	defer a.client.mu.Unlock()
	a.doubts = len(a.client.leases.all)
}
