package member

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/conn"
)

// Which learners are copied to (copy.go), from whom, and when that makes them voters. All of it belongs
// to the coordinator's goroutine.

// copyRetryMax bounds the pause after a copy that failed.
const copyRetryMax = 10 * time.Second

// recovery is what the coordinator knows of the copy to one seat.
type recovery struct {
	memory string // of the learner
	// copy is the one that runs here or has ended well; nil: there is none.
	copy *copier
	// next is when another one may begin, pause how long it has waited for that, and failed why the last
	// one failed, as the log has it.
	next   time.Time
	pause  time.Duration
	failed string
	// problem is why there is none; "": there is one, or nothing is known against it.
	problem string
	// noted is what another redlockd says of its own.
	noted *copyNote
}

// recover begins the copies that can begin, and ends those that are of no use any more. Every poll
// calls it.
func (m *Coordinator) recover(s *Survey, r *Record) {
	before, now := m.recoveries, make(map[int]*recovery)
	for seat := range r.seats() {
		if one := before[seat.Number]; one != nil && one.memory == seat.Memory && seat.State == Learner {
			now[seat.Number] = one
		} else if seat.State == Learner && !m.opts.NoCopy {
			now[seat.Number] = &recovery{memory: seat.Memory}
		}
	}
	for place, one := range before {
		if now[place] != one && one.copy != nil {
			one.copy.cancel()
		}
	}
	m.mu.Lock()
	m.recoveries = now
	m.mu.Unlock()
	for seat := range r.seats() {
		if one := now[seat.Number]; one != nil {
			m.recoverOne(s, r, seat, one)
		}
	}
}

// recoverOne does so for one learner.
func (m *Coordinator) recoverOne(s *Survey, r *Record, seat *Seat, one *recovery) {
	if c := one.copy; c != nil {
		select {
		case <-c.ended:
		default:
			return
		}
		m.takeLeftOut(c)
		switch {
		case errors.Is(c.err, errCopied):
			m.setRecovery(one, nil, "")
			one.next = s.Began.Add(m.opts.Heartbeat)
		case c.err != nil:
			if reason := c.err.Error(); reason != one.failed {
				one.failed = reason
				m.opts.Logger.Warn("a master cannot be given what the others remember", "master", conn.Sanitize(seat.Name), "reason", reason,
					"to_do", "nothing if the reason is gone by now: it is tried again; the master votes when its wait is over at the latest")
			}
			m.setRecovery(one, nil, c.err.Error())
			one.pause = min(max(2*one.pause, c.took, m.opts.Heartbeat), copyRetryMax)
			one.next = s.Began.Add(one.pause)
		default:
			if err := c.stillGood(s, r); err != nil && (err != errNotYet || s.Began.After(c.began.Add(c.took+copyNoteLife(m.opts)))) {
				m.setRecovery(one, nil, err.Error())
			}
		}
	}
	if one.copy != nil || s.Began.Before(one.next) {
		return
	}
	f := s.At(seat.Number)
	if !f.shows(r) {
		m.setRecovery(one, nil, "it is not reached, or was not told of the membership")
		return
	}
	if note, ok := f.copying(copyNoteLife(m.opts)); ok {
		m.mu.Lock()
		one.noted = &note
		m.mu.Unlock()
		return
	}
	if s.Began.Before(m.born.Add(copyNoteLife(m.opts))) { // who is gone in a moment had better leave it to others //mutant:who-looks-in-copies
		return
	}
	to := m.host.Source(seat.Number)
	if !to.Read {
		m.setRecovery(one, nil, "its clock was not read yet")
		return
	}
	var sources []*copyPlace
	var missing []string
	for voter := range r.seats() {
		if voter.State != Voter {
			continue
		}
		from := s.At(voter.Number)
		known := m.host.Source(voter.Number)
		left := from.shows(r) // every earlier record: so no vote under one counts there any more //mutant:a-source-is-read-before-it-has-left
		if !left || !known.Good {
			missing = append(missing, conn.Sanitize(voter.Name))
			continue
		}
		sources = append(sources, &copyPlace{number: voter.Number, name: voter.Name, memory: voter.Memory, ring: known.Ring, beat: known.Beat})
	}
	if len(sources) < r.Quorum() { //mutant:a-minority-is-copied
		problem := fmt.Sprintf("%d of %d masters that could give it its locks are there", len(sources), r.Quorum())
		if len(missing) > 0 {
			problem += ": " + strings.Join(missing, ", ") + " cannot"
		}
		m.setRecovery(one, nil, problem)
		return
	}
	m.setRecovery(one, m.startCopy(r, &copyPlace{number: seat.Number, name: seat.Name, memory: seat.Memory, ring: to.Ring, beat: to.Beat}, sources), "")
}

// setRecovery sets the copy, and why there is none.
func (m *Coordinator) setRecovery(one *recovery, c *copier, problem string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one.copy, one.problem, one.noted = c, problem, nil
}

// startCopy begins a copy over connections of its own.
func (m *Coordinator) startCopy(r *Record, learner *copyPlace, sources []*copyPlace) *copier {
	ctx, cancel := context.WithCancel(m.ending)
	c := &copier{host: m.host, own: m.own, opts: m.opts, record: m.current, id: Nonce(), learner: learner, quorum: r.Quorum(), under: r.ID(), began: time.Now(), logged: time.Now(), cancel: cancel, count: copyCount,
		seen: make(map[[2]uint64]struct{}), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, nobodys: RecoveredPrefix + Nonce(), minority: minorityLocks{named: make(map[string]MinorityLock)}, ended: make(chan struct{})}
	if n := m.opts.CopyCount; n > 0 {
		c.count = n
	}
	c.setSources(sources)
	places, all := make(map[int]conn.Master), m.opts.placesOf(r)
	for _, p := range append(slices.Clone(sources), learner) {
		places[p.number] = all[p.number]
	}
	m.running.Go(func() {
		c.run(ctx, places)
		m.Wake()
	})
	return c
}

// errNotYet is why a learner is not promoted in this poll, although it may be in the next.
var errNotYet = errors.New("the masters that have given it its locks are not reached")

// stillGood says why a copy that has ended makes no voter; nil: it does. Whatever a source has
// forgotten since it was first read, it shows another memory now; and what its clock has ended early,
// this client has seen.
func (c *copier) stillGood(s *Survey, r *Record) (why error) {
	good, unreached := 0, 0
	for _, one := range c.leftOut {
		if c.host.Source(one.number).Refused { //mutant:a-source-that-evicted-before-it-was-left-out-promotes
			return fmt.Errorf("%s, which was left out, is refused: it may have evicted keys before", conn.Sanitize(one.name))
		}
	}
	for _, p := range c.sources {
		f := s.At(p.number)
		seat := r.Lists(p.memory)
		known := c.host.Source(p.number)
		switch {
		case known.Refused: // what was read of it may have been too little
			return fmt.Errorf("%s is refused: it may have evicted keys while it was copied", conn.Sanitize(p.name))
		case !f.ok(): // and could not tell its fences
			unreached++
		case seat == nil || seat.State != Voter || !f.shows(r): //mutant:a-source-that-has-forgotten-promotes
			why = fmt.Errorf("%s has forgotten, or was replaced, while it was copied", conn.Sanitize(p.name))
		case !known.Good: //mutant:a-source-that-is-out-of-step-promotes
			why = fmt.Errorf("the votes of %s do not count here any more", conn.Sanitize(p.name))
		default:
			good++
		}
	}
	switch {
	case good >= c.quorum:
		return nil
	case good+unreached >= c.quorum:
		return errNotYet
	}
	return why
}

// recovered tells whether the learner of a seat has been given what it has to know, and how.
func (m *Coordinator) recovered(s *Survey, r *Record, seat *Seat) (how string, is bool) {
	one := m.recoveries[seat.Number]
	if one == nil || one.copy == nil || one.memory != seat.Memory {
		return "", false
	}
	c := one.copy
	select {
	case <-c.ended:
	default:
		return "", false //mutant:promoted-before-the-last-key
	}
	if c.err != nil || c.stillGood(s, r) != nil {
		return "", false
	}
	n := c.progress()
	return fmt.Sprintf("it was given %d locks by %s within %v", n.given, n.from, c.took.Round(time.Millisecond)), true
}

// takeLeftOut takes note of the sources that a copy was made without, and of those that it had.
func (m *Coordinator) takeLeftOut(c *copier) {
	for _, p := range c.sources {
		delete(m.leftOut, p.name)
	}
	for _, one := range c.leftOut {
		m.leftOut[one.name] = one
	}
}

// copyingOf is for people.
func (m *Coordinator) copyingOf(place int) *Copying {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch one := m.recoveries[place]; {
	case one == nil:
		return nil
	case one.copy != nil:
		n := one.copy.progress()
		return &Copying{Here: true, From: n.from, Given: n.given, Percent: n.done}
	case one.noted != nil:
		return &Copying{From: one.noted.from, Given: one.noted.given, Percent: one.noted.done}
	case one.problem != "":
		return &Copying{Problem: one.problem}
	}
	return nil
}
