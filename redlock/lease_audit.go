package redlock

import (
	"log/slog"
	"time"
)

// A lease can be lost before its validity ends: masters restart or are flushed, somebody deletes
// the key. The holder learns it with its next EXTEND; everybody else should not have to wait for
// that. So with every heartbeat a few leases are read from the masters, and all of them soon after
// a master was quarantined, was found to evict keys, or became a replica.
const (
	auditPerBeat  = 16
	auditInDoubt  = 512 // per heartbeat, until all leases were looked at once
	auditMinAlive = 50 * time.Millisecond
)

// audit looks at the next leases in turn.
func (c *Client) audit(d *deferred) {
	c.mu.Lock()
	count := auditPerBeat
	if c.doubts > 0 {
		count = auditInDoubt
		c.doubts -= min(c.doubts, count)
	}
	all := c.leases.all
	for range min(count, len(all)) {
		if c.audited++; c.audited >= len(all) {
			c.audited = 0
		}
		lease := all[c.audited]
		// One that is about to end, or was just granted and may not have reached every master,
		// proves nothing.
		if lease.lost || d.now.Add(auditMinAlive).After(lease.validUntil) || d.now.Sub(lease.born) < auditMinAlive {
			continue
		}
		r := &round{verb: verbAudit, token: lease.token, start: d.now}
		r.setKeys(lease.keys[0])
		c.stats.Audits++
		c.launchLocked(r.asReader(lease.ofReader()), toAll, d)
	}
	c.mu.Unlock()
	if c.lostLog.Behind(d.now) {
		c.lostLog.Log(c.opts.Logger, slog.LevelWarn, d.now, "leases lost", "to_do", lostToDo)
	}
	c.runDeferred(d)
}

const lostToDo = "find out which masters were restarted or flushed, or who deletes keys there; its holder learns of it with EXTEND"

// auditDecided judges what the masters answered about a lease: it is lost when those without the
// token leave no quorum with it.
func (c *Client) auditDecided(r *round, _ outcome, v votes, _ *deferred) {
	gone, changed := 0, 0
	for i := range r.view.places {
		switch {
		case v.of(i) == voteAbsent:
			gone++
		case v.of(i) == voteGranted && !r.ofReader() && r.answers[i].value != r.token:
			gone++
			changed++
		}
	}
	if gone < r.view.needed() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	lease := c.leases.entries[r.keys[0]].leaseOf(r.token)
	// Granted or extended by a later round: the answers speak of the past.
	if lease == nil || lease.lost || after(lease.launched, r.launched) || time.Now().After(lease.validUntil) {
		return
	}
	if lease.kind == leaseSeveral && changed >= r.view.needed() { //mutant:what-others-have-changed-is-told-as-lost
		c.leases.forget(lease) // another holder has changed the value, through another client
		return
	}
	lease.lost = true
	delete(c.leases.delays, lease) // the masters have forgotten that, too
	c.stats.Lost++
	if b := c.leases.holds.of(lease.keys, lease.token); b != nil {
		c.lookAgainLocked(b, time.Now()) // its renewal makes sure
	}
	c.lostLog.Log(c.opts.Logger, slog.LevelWarn, time.Now(), "lease lost", "resource", lease.keys[0], "masters_without_it", gone,
		"validity_left", time.Until(lease.validUntil).Round(time.Millisecond), "to_do", lostToDo, lease.note.attr(lease.born))
}

// suspect has all leases looked at soon: a master may have forgotten them.
func (c *Client) suspect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubts = len(c.leases.all)
}
