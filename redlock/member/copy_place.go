package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
}

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
	now := c.own.ReadingOf(sent, received, end.Clock)
	gained, err := p.judge(end, now, c.opts.Drift)
	if gained {
		c.host.Saw(p.number, p.f.runID, now) //mutant:a-gain-that-a-copy-has-seen-is-forgotten
	}
	return err
}

// judge makes sure that the clock has ended no key early, and that the memory did not go back.
func (p *copyPlace) judge(end Trailer, now clock.Reading, d clock.Drift) (gained bool, err error) {
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

// each asks masters all at once, and returns the first error, in their order.
func (c *copier) each(places []*copyPlace, ask func(i int, p *copyPlace) error) error {
	errs := make([]error, len(places))
	var asked sync.WaitGroup
	for i, p := range places {
		asked.Go(func() { errs[i] = conn.RecoverPanic(func() error { return ask(i, p) }) })
	}
	asked.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("%s: %w", conn.Sanitize(places[i].name), conn.Shorten(err))
		}
	}
	return nil
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
func (c *copier) read(ctx context.Context, places []*copyPlace, names []string) ([][]copyEntry, error) {
	entries := make([][]copyEntry, len(places))
	err := c.each(places, func(i int, p *copyPlace) error {
		var cmd *redis.Cmd
		if err := c.pipe(ctx, p, func(pipe redis.Pipeliner) { cmd = c.readCommand(ctx, pipe, names, true) }); err != nil {
			return err
		}
		var err error
		entries[i], err = c.entriesOf(p, cmd, len(names))
		return err
	})
	return entries, err
}

// entriesOf reads a reply of CopyRead. What the clock of a source has gained is given back to its keys:
// on the learner, whose clock may gain, too, they need all that they live for longer than their locks.
func (c *copier) entriesOf(p *copyPlace, cmd *redis.Cmd, n int) ([]copyEntry, error) {
	entries, err := copyEntriesOf(cmd, n)
	if gained := (p.used + time.Millisecond - 1).Milliseconds(); gained > 0 && p != c.learner { //mutant:a-copy-has-the-padding-that-its-source-has-left
		for i := range entries {
			entries[i].lengthen(gained)
		}
	}
	return entries, err
}
