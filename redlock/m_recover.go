package redlock

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

// Which learners are copied to (member_copy.go), from whom, and when that makes them voters. All of it belongs to the coordinator's goroutine.

// copyRetryMax bounds the pause after a copy that failed.
const copyRetryMax = 10 * time.Second

// recovery is what the coordinator knows of the copy to one seat.
type recovery struct {
	memory string // of the learner
	// copy is the one that runs here or has ended well; nil: there is none.
	copy *copying
	// next is when another one may begin, pause how long it has waited for that, and failed why the last one failed, as the log has it.
	next   time.Time
	pause  time.Duration
	failed string
	// problem is why there is none; "": there is one, or nothing is known against it.
	problem string
	// noted is what another redlockd says of its own.
	noted *copyNote
}

// recover begins the copies that can begin, and ends those that are of no use any more. Every look calls it.
func (m *coordinator) recover(s *survey, r *record) {
	for place, one := range m.recoveries {
		if seat := r.lists(one.memory); seat == nil || seat.number != place || seat.state != seatLearner {
			m.abandonCopy(one)
			m.mu.Lock()
			delete(m.recoveries, place)
			m.mu.Unlock()
		}
	}
	if m.opts.NoCopy {
		return
	}
	for i := range r.seats {
		seat := &r.seats[i]
		if seat.state != seatLearner {
			continue
		}
		one := m.recoveries[seat.number]
		if one == nil {
			one = &recovery{memory: seat.memory}
			m.mu.Lock()
			m.recoveries[seat.number] = one
			m.mu.Unlock()
		}
		m.recoverOne(s, r, seat, one)
	}
}

// recoverOne does so for one learner.
func (m *coordinator) recoverOne(s *survey, r *record, seat *seat, one *recovery) {
	if c := one.copy; c != nil {
		select {
		case <-c.ended:
		default:
			return
		}
		switch {
		case errors.Is(c.err, errCopied):
			m.setRecovery(one, nil, "")
			one.next = s.began.Add(m.opts.Heartbeat)
		case c.err != nil:
			if reason := c.err.Error(); reason != one.failed {
				one.failed = reason
				m.opts.Logger.Warn("a master cannot be given what the others remember", "master", conn.Sanitize(seat.name), "reason", reason,
					"to_do", "nothing if the reason is gone by now: it is tried again; the master votes when its wait is over at the latest")
			}
			m.setRecovery(one, nil, c.err.Error())
			one.pause = min(max(2*one.pause, c.took, m.opts.Heartbeat), copyRetryMax)
			one.next = s.began.Add(one.pause)
		default:
			if err := m.stillGood(s, r, c); err != nil && (err != errNotYet || s.began.After(c.began.Add(c.took+copyNoteLife(m.opts)))) {
				m.setRecovery(one, nil, err.Error())
			}
		}
	}
	if one.copy != nil || s.began.Before(one.next) {
		return
	}
	f := s.at(seat.number)
	if f == nil || !f.shows(r) {
		m.setRecovery(one, nil, "it is not reached, or was not told of the membership")
		return
	}
	if note, ok := parseCopyNote(f.fields["copy"]); ok && f.clock.UnixMilli()-note.at < copyNoteLife(m.opts).Milliseconds() {
		m.mu.Lock()
		one.noted = &note
		m.mu.Unlock()
		return
	}
	if s.began.Before(m.born.Add(copyNoteLife(m.opts))) { // who is gone in a moment had better leave it to others //mutant:who-looks-in-copies
		return
	}
	var sources []*copyPlace
	var missing []string
	for i := range r.seats {
		voter := &r.seats[i]
		if voter.state != seatVoter {
			continue
		}
		from := s.at(voter.number)
		ring, beat, ok := m.host.Source(voter.number)
		left := from != nil && from.shows(r) // every earlier record: so no vote under one counts there any more //mutant:a-source-is-read-before-it-has-left
		if !left || !ok {
			missing = append(missing, conn.Sanitize(voter.name))
			continue
		}
		sources = append(sources, &copyPlace{number: voter.number, name: voter.name, memory: voter.memory, ring: ring, beat: beat})
	}
	if len(sources) < r.quorum() { //mutant:a-minority-is-copied
		problem := fmt.Sprintf("%d of %d masters that could give it its locks are there", len(sources), r.quorum())
		if len(missing) > 0 {
			problem += ": " + strings.Join(missing, ", ") + " cannot"
		}
		m.setRecovery(one, nil, problem)
		return
	}
	m.setRecovery(one, m.startCopy(r, *seat, sources), "")
}

// setRecovery sets the copy, and why there is none.
func (m *coordinator) setRecovery(one *recovery, c *copying, problem string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one.copy, one.problem, one.noted = c, problem, nil
}

func (m *coordinator) abandonCopy(one *recovery) {
	if one.copy != nil {
		one.copy.cancel()
	}
}

// startCopy begins a copy over connections of its own.
func (m *coordinator) startCopy(r *record, learner seat, sources []*copyPlace) *copying {
	ctx, cancel := context.WithCancel(m.ending)
	c := &copying{by: m, opts: m.opts, id: nonce(), seat: learner, sources: sources, began: time.Now(), logged: time.Now(), cancel: cancel, count: copyCount,
		seen: make(map[[2]uint64]struct{}), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, nobodys: recoveredPrefix + nonce(), ended: make(chan struct{})}
	if n := m.opts.CopyCount; n > 0 {
		c.count = n
	}
	c.learner = &copyPlace{number: learner.number, name: learner.name, memory: learner.memory}
	c.least = len(sources) - r.quorum() + 1 //mutant:what-one-source-has-is-copied
	c.all = append(slices.Clone(sources), c.learner)
	places, all := make(map[int]conn.Master), m.placesOf(r)
	for _, p := range c.all {
		places[p.number] = all[p.number]
	}
	m.running.Go(func() {
		c.run(ctx, places)
		m.poke()
	})
	return c
}

// errNotYet is why a learner is not promoted in this look, although it may be in the next.
var errNotYet = errors.New("the masters that have given it its locks are not reached")

// stillGood says why a copy that has ended makes no voter; nil: it does. Whatever a source has forgotten since it was first read, it shows another
// memory now.
func (m *coordinator) stillGood(s *survey, r *record, c *copying) error {
	for _, p := range c.sources {
		f := s.at(p.number)
		seat := r.lists(p.memory)
		switch {
		case f == nil || !f.ok(): // and could not tell its fences
			return errNotYet
		case seat == nil || seat.state != seatVoter || !f.shows(r): //mutant:a-source-that-has-forgotten-promotes
			return fmt.Errorf("%s has forgotten, or was replaced, while it was copied", conn.Sanitize(p.name))
		}
	}
	return nil
}

// recovered tells whether the learner of a seat has been given what it has to know, and how.
func (m *coordinator) recovered(s *survey, r *record, seat *seat) (how string, is bool) {
	one := m.recoveries[seat.number]
	if one == nil || one.copy == nil || one.memory != seat.memory {
		return "", false
	}
	c := one.copy
	select {
	case <-c.ended:
	default:
		return "", false //mutant:promoted-before-the-last-key
	}
	if c.err != nil || m.stillGood(s, r, c) != nil {
		return "", false
	}
	n := c.progress()
	return fmt.Sprintf("it was given %d locks by %s within %v", n.given, n.from, c.took.Round(time.Millisecond)), true
}

// Copying is how a learner is given what it has to know.
type Copying struct {
	// Here: this client copies. Else another one does.
	Here bool
	// From names the seats that remember, with commas between them.
	From string
	// Given is how many locks the learner has got so far; Percent is how much of all keys was looked at.
	Given   int64
	Percent int
	// Problem is why nothing is copied at present; "": it is. The seat votes when its wait is over.
	Problem string
}

// copyingOf is for people.
func (m *coordinator) copyingOf(place int) *Copying {
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
