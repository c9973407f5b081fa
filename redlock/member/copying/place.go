package copying

import (
	"errors"
	"fmt"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/member"
)

// The masters that take part in a copy: each reply is judged by the clock, the beat and the memory behind
// it, as a vote is.

// Place is a master that takes part.
type Place struct {
	number int
	Name   string
	memory string
	f      *member.Report // its connection
	beat   int64
	// ring is what the clock has shown before the copy: every reading is compared with all of them.
	ring *clock.Ring
	// used is by how much the clock of a source has gained, as last read: so much of what its keys live
	// for longer than their locks may be used up.
	used time.Duration
	// ahead is by how much its clock is ahead of this machine's, as last read.
	ahead time.Duration
	// scanned: its SCAN is over, which goes on at cursor until then. scans counts its parts.
	scanned bool
	cursor  uint64
	scans   int64
}

// LeftOut is a source that a copy went on without.
type LeftOut struct {
	*Place
	Learner string
	Why     error
	At      time.Time
}

var (
	errForgotten = errors.New("it has forgotten, or another master has its address")
	errSlow      = errors.New("it answers far more slowly than the others")
	errEndless   = errors.New("its SCAN does not end: see whether it is a Redis")
)

// judge makes sure that the clock has ended no key early, and that the memory is the one that is meant, has
// settled on this record or a later one, so that no vote under an earlier one counts there any more, and
// did not go back.
func (p *Place) judge(end member.Trailer, under member.RecordID, now clock.Reading, d clock.Drift) (gained bool, err error) {
	shown, _ := member.ParseState(end.Shown)
	switch {
	case shown.Memory != p.memory: //mutant:a-source-that-has-forgotten-is-read-on
		return false, errForgotten
	case shown.Record != under && !shown.Record.NewerThan(under): //mutant:a-source-that-is-behind-is-read-on
		return false, errors.New("it shows an older membership than at the beginning")
	}
	if end.Beat < p.beat { //mutant:a-source-that-goes-back-in-time-is-read-on
		return false, fmt.Errorf("its beat went back from %d to %d: its memory is of an earlier time", p.beat, end.Beat)
	}
	p.beat = end.Beat
	if p.ring != nil {
		gain := p.ring.Gain(now, d.Rate())
		if gain > d.StepMax { //mutant:a-source-whose-clock-gains-is-read-on
			return true, errors.New(clock.OutOfStep(gain))
		}
		p.used = max(0, gain)
	}
	return false, nil
}

// Source is what is known of a master before a copy from it, or to it.
type Source struct {
	// Ring has the readings of its clock; nil: it is this process's clock.
	Ring *clock.Ring
	// Beat is the last one.
	Beat int64
	// Good tells that votes of the master count here: its clock is in step, and it evicts no keys.
	Good bool
	// Refused tells that redlockd refuses it although it is connected: it may evict keys, or has.
	Refused bool
	// Read tells that its clock is read.
	Read bool
}
