package copying

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
)

// How masters are asked, all at once. A source that fails is left out.

// copyAnswer is what a master has answered in a round.
type copyAnswer struct {
	place   *Place
	entries []copyEntry // what it holds under the keys; nil: it was not asked
	done    string      // of what it was given
	names   []string    // by SCAN, and where that goes on
	cursor  uint64
	err     error
}

// copySlower is how many times as long as those that a copy needs it waits for the others, and at least
// for Grace.
const copySlower = 4

// pipe sends commands to a master, and judges it by what stands behind them, as is done with votes.
func (c *Copy) pipe(ctx context.Context, p *Place, fill func(pipe redis.Pipeliner)) error {
	ctx, cancel := context.WithTimeout(ctx, c.Opts.ConnectTimeout)
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
	for _, err := range []error{err, survey.AsMembersError(fields.Err()), clock.Err()} {
		if err != nil {
			return conn.Explain(err)
		}
	}
	end := member.TrailerOf(fields.Val(), clock.Val())
	p.ahead = end.Clock.Sub(received)
	now := c.Own.ReadingOf(sent, received, end.Clock)
	under := c.under
	if p == c.learner {
		under = member.RecordID{} // it is written to only where it shows what it has to
	}
	gained, err := p.judge(end, under, now, c.Opts.Drift)
	if gained {
		c.Host.Saw(p.number, p.f.RunID, now) //mutant:a-gain-that-a-copy-has-seen-is-forgotten
	}
	return err
}

// ask asks masters all at once, and returns the answers, in their order. A source that fails, or is far
// slower than the others, is left out.
func (c *Copy) ask(places []*Place, ask func(p *Place) (copyAnswer, error)) ([]copyAnswer, error) {
	return c.begin(places, ask)()
}

// begin is ask, whose answers the caller waits for when it calls answers.
func (c *Copy) begin(places []*Place, ask func(p *Place) (copyAnswer, error)) (answers func() ([]copyAnswer, error)) {
	all, began := make(chan copyAnswer, len(places)), time.Now()
	for _, p := range places {
		c.survey.Go(func() {
			var a copyAnswer
			a.err = conn.RecoverPanic(func() (err error) { a, err = ask(p); return err })
			a.place = p
			all <- a
		})
	}
	return func() (got []copyAnswer, err error) {
		waiting := slices.Clone(places)
		var over <-chan time.Time
		for len(waiting) > 0 {
			select {
			case a := <-all:
				waiting = slices.DeleteFunc(waiting, func(p *Place) bool { return p == a.place })
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
			if over == nil && len(c.Sources)-len(waiting) >= c.quorum && !slices.Contains(waiting, c.learner) {
				over = time.After(max(survey.Grace, copySlower*time.Since(began)))
			}
		}
		slices.SortFunc(got, func(a, b copyAnswer) int { return slices.Index(places, a.place) - slices.Index(places, b.place) })
		return got, nil
	}
}

// fails leaves a source out that has failed; an error: the copy cannot go on without it.
func (c *Copy) fails(p *Place, why error) error {
	why = conn.Shorten(why)
	left := slices.DeleteFunc(slices.Clone(c.Sources), func(s *Place) bool { return s == p })
	if p == c.learner || len(left) < c.quorum { // StillGood would make no voter of it
		return fmt.Errorf("%s: %w", conn.Sanitize(p.Name), why)
	}
	if p.f != nil && p.f.Conn != nil {
		p.f.Conn.Socket.Close() // nothing waits for it any more
	}
	c.LeftOut = append(c.LeftOut, LeftOut{p, c.learner.Name, why, time.Now()})
	c.setSources(left)
	c.Opts.Logger.Warn("a copy goes on without a source that fails", "master", conn.Sanitize(p.Name), "learner", conn.Sanitize(c.learner.Name), "reason", why.Error(),
		"to_do", "see `redlockd check`, which tries on every master every command that is needed there")
	return nil
}

// readCommand asks a master what it holds under the keys. Without ends it does not tell when they end.
func (c *Copy) readCommand(ctx context.Context, pipe redis.Pipeliner, names []string, ends bool) *redis.Cmd {
	told := 0
	if ends {
		told = 1
	}
	return conn.QueueScript(ctx, pipe, lua.CopyRead, names, lua.MaxValueLen, told)
}

// read asks masters what they hold under the keys.
func (c *Copy) read(ctx context.Context, places []*Place, names []string) (entries [][]copyEntry, err error) {
	answers, err := c.ask(places, func(p *Place) (a copyAnswer, err error) {
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
func (c *Copy) entriesOf(p *Place, cmd *redis.Cmd, n int) ([]copyEntry, error) {
	entries, err := copyEntriesOf(cmd, n)
	for i := range entries {
		entries[i].master = p.Name
	}
	if gained := (p.used + time.Millisecond - 1).Milliseconds(); p != c.learner { //mutant:a-copy-has-the-padding-that-its-source-has-left
		for i := range entries {
			entries[i].lengthen(gained)
		}
	}
	return entries, err
}
