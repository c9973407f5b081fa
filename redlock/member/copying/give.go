package copying

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
)

// What the learner is given. It takes it only while it shows the record that this client goes by, as a
// learner.

// copyWrite is what the learner is to be given. held is what it has shown; nil: it was not asked.
type copyWrite struct {
	keys   []copyKey
	orders []copyOrder
	held   []copyEntry
}

// settledOn is what the learner has to show to be written to: the record that this client goes by, if
// it lists the learner as one. "": it does not.
func (c *Copy) settledOn() string {
	r := c.Current()
	if s := r.Lists(c.learner.memory); s == nil || s.State != member.Learner { //mutant:a-copy-goes-on-to-a-voter
		return ""
	}
	return r.ShownBy(c.learner.memory)
}

// giveCommand has the learner hold what was decided; nil: nothing was, or it cannot be told at present.
func (c *Copy) giveCommand(ctx context.Context, pipe redis.Pipeliner, w *copyWrite) *redis.Cmd {
	settled := c.settledOn()
	if len(w.keys) == 0 || settled == "" {
		return nil
	}
	names, args := make([]string, 1, 1+len(w.keys)), make([]any, 1, 1+4*len(w.keys))
	names[0], args[0] = lua.MembersKey, settled
	for i := range w.keys {
		var learner *copyEntry
		if w.held != nil {
			learner = &w.held[i]
		}
		names = append(names, w.keys[i].name)
		args = append(args, w.orders[i].giveArgs(learner)...)
	}
	return conn.QueueScript(ctx, pipe, lua.CopyGive, names, args...)
}

// doneOf is what the learner replies that was given something; "": it does not show the membership that
// it was given it under.
func doneOf(cmd *redis.Cmd) (done string, err error) {
	switch done, err = cmd.Text(); {
	case conn.HasCode(err, "OOM"):
		return "", errors.New("its memory is full (maxmemory): it cannot be given all locks")
	case err != nil:
		return "", err
	}
	return done, nil
}

// written takes note of what the learner has done. What it holds otherwise by now is read again. Where
// it has done nothing, because it goes from one record to the next, or was not told, it is told until
// it does.
func (c *Copy) written(ctx context.Context, w *copyWrite, done string) error {
	if len(w.keys) == 0 {
		return nil
	}
	if done == "" {
		var err error
		if done, err = c.insist(ctx, func(pipe redis.Pipeliner) *redis.Cmd { return c.giveCommand(ctx, pipe, w) }); err != nil {
			return err
		}
	}
	if len(done) != len(w.keys) {
		return conn.ProtocolErrorf("%d replies for %d keys", len(done), len(w.keys))
	}
	for i, key := range w.keys {
		switch {
		case done[i] != '1':
			c.again = append(c.again, copyKey{key.name, key.tries + 1})
		case w.orders[i].do == copyGive:
			c.given.Add(1)
		}
	}
	return nil
}

func (c *Copy) writeReaders(ctx context.Context, name string, order *copyOrder) error {
	_, err := c.insist(ctx, func(pipe redis.Pipeliner) *redis.Cmd {
		settled := c.settledOn()
		if settled == "" {
			return nil
		}
		return conn.QueueScript(ctx, pipe, lua.CopyReaders, []string{lua.MembersKey, name}, append([]any{settled}, order.readersArgs()...)...)
	})
	if err == nil {
		c.given.Add(1)
	}
	return err
}

// insist sends the learner a command until it does it.
func (c *Copy) insist(ctx context.Context, command func(pipe redis.Pipeliner) *redis.Cmd) (done string, err error) {
	for began := time.Now(); time.Since(began) < c.Opts.ConnectTimeout; {
		answers, err := c.ask([]*Place{c.learner}, func(p *Place) (a copyAnswer, err error) {
			var cmd *redis.Cmd
			err = c.pipe(ctx, p, func(pipe redis.Pipeliner) { cmd = command(pipe) })
			if err == nil && cmd != nil {
				a.done, err = doneOf(cmd)
			}
			return a, err
		})
		if err != nil {
			return "", err
		}
		if done = answers[0].done; done != "" {
			return done, nil
		}
		select {
		case <-time.After(copyPause):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return "", errors.New("the learner was not told of the membership, or is none any more")
}
