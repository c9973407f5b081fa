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
	n := len(c.lanes)
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
		r := &round{verb: verbAudit, token: lease.token, start: d.now, answers: make([]answer, n)}
		r.setKeys(lease.keys[0])
		c.stats.Audits++
		c.launchLocked(r, allMasters(n), d)
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
	n := len(c.lanes)
	gone := 0
	for i := range n {
		if v.of(i) == voteAbsent || v.of(i) == voteGranted && r.answers[i].value != r.token {
			gone++
		}
	}
	if gone < n-quorumOf(n)+1 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.leases.entries[r.keys[0]]
	if e == nil || e.lease == nil {
		return
	}
	lease := e.lease
	// Granted or extended by a later round: the answers speak of the past.
	if lease.lost || lease.token != r.token || after(lease.launched, r.launched) || time.Now().After(lease.validUntil) {
		return
	}
	lease.lost = true
	c.stats.Lost++
	c.lostLog.Log(c.opts.Logger, slog.LevelWarn, time.Now(), "lease lost", "resource", lease.keys[0], "masters_without_it", gone,
		"validity_left", time.Until(lease.validUntil).Round(time.Millisecond), "to_do", lostToDo)
}

// suspect has all leases looked at soon: a master may have forgotten them.
func (c *Client) suspect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubts = len(c.leases.all)
}
