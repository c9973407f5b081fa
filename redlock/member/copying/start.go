package copying

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/member"
)

// When a copy can begin, and whether one that has ended makes a voter.

// copyCount is how many keys are read and written at a time. A master serves nobody else meanwhile, some
// 0.2 ms: with 512 the slowest of a hundred LOCKs took four times as long as without a copy, and all took
// a quarter less time to copy.
const copyCount = 128

// Start begins a copy to the learner of a seat of r, which s has found in force. Nil: it is not
// possible at present, and why says what is missing.
func (all *Copier) Start(s *member.Survey, r *member.Record, seat *member.Seat) (c *Copy, why string) {
	to := all.Host.Source(seat.Number)
	if !to.Read {
		return nil, "its clock was not read yet"
	}
	place := func(seat *member.Seat, known Source) *Place {
		return &Place{number: seat.Number, Name: seat.Name, memory: seat.Memory, ring: known.Ring, beat: known.Beat}
	}
	var sources []*Place
	var missing []string
	for voter := range r.EachSeat() {
		if voter.State != member.Voter {
			continue
		}
		known := all.Host.Source(voter.Number)
		if !s.At(voter.Number).Shows(r) || !known.Good { // judge would leave it out
			missing = append(missing, conn.Sanitize(voter.Name))
			continue
		}
		sources = append(sources, place(voter, known))
	}
	if len(sources) < r.Quorum() { //mutant:a-minority-is-copied
		why = fmt.Sprintf("%d of %d masters that could give it its locks are there", len(sources), r.Quorum())
		if len(missing) > 0 {
			why += ": " + strings.Join(missing, ", ") + " cannot"
		}
		return nil, why
	}
	ctx, cancel := context.WithCancel(all.Ending)
	now := time.Now()
	c = &Copy{Copier: all, id: member.Nonce(), learner: place(seat, to), quorum: r.Quorum(), under: r.ID(), Began: now, logged: now, Cancel: cancel, count: copyCount,
		seen: newSeenNames(), nobodys: RecoveredPrefix + member.Nonce(),
		minority: minorityLocks{named: make(map[string]member.MinorityLock)}, ended: make(chan struct{})}
	if n := all.Opts.CopyCount; n > 0 {
		c.count = n
	}
	c.setSources(sources)
	masters := all.Opts.PlacesOf(r)
	maps.DeleteFunc(masters, func(number int, _ conn.Master) bool {
		return number != seat.Number && !slices.ContainsFunc(sources, func(p *Place) bool { return p.number == number })
	})
	all.Running.Go(func() {
		c.run(ctx, masters)
		all.Wake()
	})
	return c, ""
}

// StillGood says why a copy that has ended makes no voter; nil: it does. Whatever a source has
// forgotten since it was first read, it shows another memory now; and what its clock has ended early,
// this client has seen.
func (c *Copy) StillGood(s *member.Survey, r *member.Record) (why error) {
	good, unreached := 0, 0
	for _, one := range c.LeftOut {
		if c.Host.Source(one.number).Refused { //mutant:a-source-that-evicted-before-it-was-left-out-promotes
			return fmt.Errorf("%s, which was left out, is refused: it may have evicted keys before", conn.Sanitize(one.Name))
		}
	}
	for _, p := range c.Sources {
		f := s.At(p.number)
		seat := r.Lists(p.memory)
		known := c.Host.Source(p.number)
		switch {
		case known.Refused: // what was read of it may have been too little
			return fmt.Errorf("%s is refused: it may have evicted keys while it was copied", conn.Sanitize(p.Name))
		case !f.OK(): // and could not tell its fences
			unreached++
		case seat == nil || seat.State != member.Voter || !f.Shows(r): //mutant:a-source-that-has-forgotten-promotes
			why = fmt.Errorf("%s has forgotten, or was replaced, while it was copied", conn.Sanitize(p.Name))
		case !known.Good: //mutant:a-source-that-is-out-of-step-promotes
			why = fmt.Errorf("the votes of %s do not count here any more", conn.Sanitize(p.Name))
		default:
			good++
		}
	}
	switch {
	case good >= c.quorum:
		return nil
	case good+unreached >= c.quorum:
		return ErrNotYet
	}
	return why
}

// ErrNotYet is why a learner is not promoted in this poll, although it may be in the next.
var ErrNotYet = errors.New("the masters that have given it its locks are not reached")
