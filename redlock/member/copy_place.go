package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
)

// The masters that take part in a copy (copy.go), and what is read of them: each reply is judged by the
// clock, the beat and the memory behind it, as a vote is.

// copyPlace is a master that takes part.
type copyPlace struct {
	number int
	name   string
	memory string
	f      *Report // its connection
	beat   int64
	// ring is what the clock has shown before the copy: every reading is compared with all of them.
	ring *clock.Ring
	// used is by how much the clock of a source has gained, as last read: so much of what its keys live
	// for longer than their locks may be used up.
	used time.Duration
	// ahead is by how much its clock is ahead of this machine's, as last read.
	ahead time.Duration
	// scanned: its keys were named, or it failed meanwhile.
	scanned bool
}

// leftOut is a source that a copy went on without.
type leftOut struct {
	*copyPlace
	learner string
	why     error
	at      time.Time
}

// copyAnswer is what a master has answered in a round.
type copyAnswer struct {
	place   *copyPlace
	entries []copyEntry // what it holds under the keys; nil: it was not asked
	done    string      // of what it was given
	names   []string    // by SCAN, and where that goes on
	cursor  uint64
	err     error
}

var (
	errForgotten = errors.New("it has forgotten, or another master has its address")
	errSlow      = errors.New("it answers far more slowly than the others")
	errEndless   = errors.New("its SCAN does not end: see whether it is a Redis")
)

// copySlower is how many times as long as those that a copy needs it waits for the others, and at least
// for surveyGrace.
const copySlower = 4

// pipe sends commands to a master, and judges it by what stands behind them, as is done with votes.
func (c *copier) pipe(ctx context.Context, p *copyPlace, fill func(pipe redis.Pipeliner)) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.ConnectTimeout)
	defer cancel()
	var fields *redis.SliceCmd
	var clock *redis.TimeCmd
	var sent time.Time
	err := p.f.Conn.Pipelined(ctx, func(pipe redis.Pipeliner) {
		fill(pipe)
		fields, clock = pipe.HMGet(ctx, lua.MembersKey, "v", "beat"), redis.NewTimeCmd(ctx, "time")
		pipe.BatchProcess(ctx, clock)
		sent = time.Now()
	})
	received := time.Now()
	for _, err := range []error{err, AsMembersError(fields.Err()), clock.Err()} {
		if err != nil {
			return conn.Explain(err)
		}
	}
	end := TrailerOf(fields, clock)
	p.ahead = end.Clock.Sub(received)
	now := c.own.ReadingOf(sent, received, end.Clock)
	under := c.under
	if p == c.learner {
		under = recordID{} // it is written to only where it shows what it has to
	}
	gained, err := p.judge(end, under, now, c.opts.Drift)
	if gained {
		c.host.Saw(p.number, p.f.runID, now) //mutant:a-gain-that-a-copy-has-seen-is-forgotten
	}
	return err
}

// judge makes sure that the clock has ended no key early, and that the memory is the one that is meant, has
// settled on this record or a later one, and did not go back.
func (p *copyPlace) judge(end Trailer, under recordID, now clock.Reading, d clock.Drift) (gained bool, err error) {
	shown, _ := ParseState(end.Shown)
	switch {
	case shown.Memory != p.memory: //mutant:a-source-that-has-forgotten-is-read-on
		return false, errForgotten
	case shown.Record != under && !shown.Record.newerThan(under): //mutant:a-source-that-is-behind-is-read-on
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

// ask asks masters all at once, and returns the answers, in their order. A source that fails, or is far
// slower than the others, is left out.
func (c *copier) ask(places []*copyPlace, ask func(p *copyPlace) (copyAnswer, error)) (got []copyAnswer, err error) {
	all, began := make(chan copyAnswer, len(places)), time.Now()
	for _, p := range places {
		c.survey.asking.Go(func() {
			var a copyAnswer
			a.err = conn.RecoverPanic(func() (err error) { a, err = ask(p); return err })
			a.place = p
			all <- a
		})
	}
	waiting := slices.Clone(places)
	var over <-chan time.Time
	for len(waiting) > 0 {
		select {
		case a := <-all:
			waiting = slices.DeleteFunc(waiting, func(p *copyPlace) bool { return p == a.place })
			if a.err == nil {
				got = append(got, a)
			} else if err := c.fails(a.place, a.err); err != nil {
				return nil, err
			}
		case <-over:
			for _, p := range waiting {
				if err := c.fails(p, errSlow); err != nil {
					return nil, err
				}
			}
			waiting = nil
		}
		if over == nil && len(c.sources)-len(waiting) >= c.quorum && !slices.Contains(waiting, c.learner) {
			over = time.After(max(surveyGrace, copySlower*time.Since(began)))
		}
	}
	slices.SortFunc(got, func(a, b copyAnswer) int { return slices.Index(places, a.place) - slices.Index(places, b.place) })
	return got, nil
}

// fails leaves a source out that has failed; an error: the copy cannot go on without it.
func (c *copier) fails(p *copyPlace, why error) error {
	why = conn.Shorten(why)
	left := slices.DeleteFunc(slices.Clone(c.sources), func(s *copyPlace) bool { return s == p })
	if p == c.learner || len(left) < c.quorum { // stillGood would make no voter of it
		return fmt.Errorf("%s: %w", conn.Sanitize(p.name), why)
	}
	if p.f != nil && p.f.Conn != nil {
		p.f.Conn.Socket.Close() // nothing waits for it any more
	}
	c.leftOut = append(c.leftOut, leftOut{p, c.learner.name, why, time.Now()})
	c.setSources(left)
	c.opts.Logger.Warn("a copy goes on without a source that fails", "master", conn.Sanitize(p.name), "learner", conn.Sanitize(c.learner.name), "reason", why.Error(),
		"to_do", "see `redlockd check`, which tries on every master every command that is needed there")
	return nil
}

func (c *copier) setSources(sources []*copyPlace) {
	var names []string
	for _, p := range sources {
		names = append(names, p.name)
	}
	from := strings.Join(names, ",")
	c.sources = sources
	c.from.Store(&from)
}

// readCommand asks a master what it holds under the keys. Without ends it does not tell when they end.
func (c *copier) readCommand(ctx context.Context, pipe redis.Pipeliner, names []string, ends bool) *redis.Cmd {
	told := 0
	if ends {
		told = 1
	}
	return conn.QueueScript(ctx, pipe, lua.CopyRead, names, lua.MaxValueLen, told)
}

// read asks masters what they hold under the keys.
func (c *copier) read(ctx context.Context, places []*copyPlace, names []string) (entries [][]copyEntry, err error) {
	answers, err := c.ask(places, func(p *copyPlace) (a copyAnswer, err error) {
		var cmd *redis.Cmd
		if err := c.pipe(ctx, p, func(pipe redis.Pipeliner) { cmd = c.readCommand(ctx, pipe, names, true) }); err != nil {
			return a, err
		}
		a.entries, err = c.entriesOf(p, cmd, len(names))
		return a, err
	})
	for _, a := range answers {
		entries = append(entries, a.entries)
	}
	return entries, err
}

// entriesOf reads a reply of CopyRead. What the clock of a source has gained is given back to its keys:
// on the learner, whose clock may gain, too, they need all that they live for longer than their locks.
func (c *copier) entriesOf(p *copyPlace, cmd *redis.Cmd, n int) ([]copyEntry, error) {
	entries, err := copyEntriesOf(cmd, n)
	for i := range entries {
		entries[i].master = p.name
	}
	if gained := (p.used + time.Millisecond - 1).Milliseconds(); gained > 0 && p != c.learner { //mutant:a-copy-has-the-padding-that-its-source-has-left
		for i := range entries {
			entries[i].lengthen(gained)
		}
	}
	return entries, err
}
