package coordinator

import (
	"errors"
	"fmt"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/member"
	"redlockd/redlock/member/copying"
)

// Which learners are copied to, and when that makes them voters. All of it belongs to the coordinator's
// goroutine.

// copyRetryMax bounds the pause after a copy that failed.
const copyRetryMax = 10 * time.Second

// recovery is what the coordinator knows of the copy to one seat.
type recovery struct {
	memory string // of the learner
	// copy is the one that runs here or has ended well; nil: there is none.
	copy *copying.Copy
	// next is when another one may begin, pause how long it has waited for that, and failed why the last
	// one failed, as the log has it.
	next   time.Time
	pause  time.Duration
	failed string
	// problem is why there is none; "": there is one, or nothing is known against it.
	problem string
	// noted is what another redlockd says of its own.
	noted *member.CopyNote
}

// recover begins the copies that can begin, and ends those that are of no use any more. Every poll
// calls it.
func (m *Coordinator) recover(s *member.Survey, r *member.Record) {
	before, now := m.recoveries, make(map[int]*recovery)
	for seat := range r.EachSeat() {
		if one := before[seat.Number]; one != nil && one.memory == seat.Memory && seat.State == member.Learner {
			now[seat.Number] = one
		} else if seat.State == member.Learner && !m.opts.NoCopy {
			now[seat.Number] = &recovery{memory: seat.Memory}
		}
	}
	for place, one := range before {
		if now[place] != one && one.copy != nil {
			one.copy.Cancel()
		}
	}
	m.mu.Lock()
	m.recoveries = now
	m.mu.Unlock()
	for seat := range r.EachSeat() {
		if one := now[seat.Number]; one != nil {
			m.recoverOne(s, r, seat, one)
		}
	}
}

// recoverOne does so for one learner.
func (m *Coordinator) recoverOne(s *member.Survey, r *member.Record, seat *member.Seat, one *recovery) {
	if c := one.copy; c != nil {
		if !c.Over() {
			return
		}
		m.takeLeftOut(c)
		switch {
		case errors.Is(c.Err, copying.ErrCopied):
			m.setRecovery(one, nil, "")
			one.next = s.Began.Add(m.opts.Heartbeat)
		case c.Err != nil:
			if reason := c.Err.Error(); reason != one.failed {
				one.failed = reason
				m.opts.Logger.Warn("a master cannot be given what the others remember", "master", conn.Sanitize(seat.Name), "reason", reason,
					"to_do", "nothing if the reason is gone by now: it is tried again; the master votes when its wait is over at the latest")
			}
			m.setRecovery(one, nil, c.Err.Error())
			one.pause = min(max(2*one.pause, c.Took, m.opts.Heartbeat), copyRetryMax)
			one.next = s.Began.Add(one.pause)
		default:
			if err := c.StillGood(s, r); err != nil && (err != copying.ErrNotYet || s.Began.After(c.Began.Add(c.Took+copying.NoteLife(m.opts)))) {
				m.setRecovery(one, nil, err.Error())
			}
		}
	}
	if one.copy != nil || s.Began.Before(one.next) {
		return
	}
	f := s.At(seat.Number)
	if !f.Shows(r) {
		m.setRecovery(one, nil, "it is not reached, or was not told of the membership")
		return
	}
	if note, ok := f.Copying(copying.NoteLife(m.opts)); ok {
		m.mu.Lock()
		one.noted = &note
		m.mu.Unlock()
		return
	}
	if s.Began.Before(m.born.Add(copying.NoteLife(m.opts))) { // who is gone in a moment had better leave it to others //mutant:who-looks-in-copies
		return
	}
	c, problem := m.copier.Start(s, r, seat)
	m.setRecovery(one, c, problem)
}

// setRecovery sets the copy, and why there is none.
func (m *Coordinator) setRecovery(one *recovery, c *copying.Copy, problem string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one.copy, one.problem, one.noted = c, problem, nil
}

// recovered tells whether the learner of a seat has been given what it has to know, and how.
func (m *Coordinator) recovered(s *member.Survey, r *member.Record, seat *member.Seat) (how string, is bool) {
	one := m.recoveries[seat.Number]
	if one == nil || one.copy == nil || one.memory != seat.Memory {
		return "", false
	}
	c := one.copy
	if !c.Over() || c.Err != nil || c.StillGood(s, r) != nil {
		return "", false
	}
	n := c.Progress()
	return fmt.Sprintf("it was given %d locks by %s within %v", n.Given, n.From, c.Took.Round(time.Millisecond)), true
}

// takeLeftOut takes note of the sources that a copy was made without, and of those that it has read. One
// that has failed may have read nothing.
func (m *Coordinator) takeLeftOut(c *copying.Copy) {
	for _, p := range c.Sources {
		if c.Err == nil {
			delete(m.leftOut, p.Name)
		}
	}
	for _, one := range c.LeftOut {
		m.leftOut[one.Name] = one
	}
}

// copyingOf is for people.
func (m *Coordinator) copyingOf(place int) *member.Copying {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch one := m.recoveries[place]; {
	case one == nil:
		return nil
	case one.copy != nil:
		n := one.copy.Progress()
		return &member.Copying{Here: true, From: n.From, Given: n.Given, Percent: n.Done}
	case one.noted != nil:
		return &member.Copying{From: one.noted.From, Given: one.noted.Given, Percent: one.noted.Done}
	case one.problem != "":
		return &member.Copying{Problem: one.problem}
	}
	return nil
}

// takeMinority takes note of what the masters tell of.
func (m *Coordinator) takeMinority(s *member.Survey, r *member.Record) {
	all := make(map[string][]member.MinorityLock)
	for _, f := range s.Reports {
		if f.Shows(r) {
			for _, one := range f.Minority() {
				all[one.Resource] = append(all[one.Resource], one)
			}
		}
	}
	m.mu.Lock()
	m.minority = all
	m.mu.Unlock()
}

// Minority is what the masters tell of a resource that fewer than a quorum of them held when one of them
// came back. What they were given may have ended since, or somebody else may hold the lock.
func (m *Coordinator) Minority(resource string) []member.MinorityLock {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.minority[resource]
}
