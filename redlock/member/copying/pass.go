package copying

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
	"redlockd/redlock/quorum"
)

// The goroutine of a copy: in which order keys are read, and what is decided about them.

const (
	// copyPause is between two readings of keys that differ from one source to the next.
	copyPause = 2 * time.Millisecond
	// scanMost is how many SCANs a master is asked for at most, and as many for each of its keys that one
	// may name: its table may be far larger than what is in it.
	scanMost = 1000
	// copyLogEvery is how often the log tells how far a copy is.
	copyLogEvery = 10 * time.Second
)

// run copies, and says why it could not. places are the masters that take part.
func (c *Copy) run(ctx context.Context, places map[int]conn.Master) {
	defer close(c.ended)
	defer c.Cancel()
	c.survey = survey.Ask(ctx, places, survey.Patience{Enough: c.quorum + 1, Grace: survey.Grace}, c.Opts)
	defer c.survey.Close()
	for _, p := range append(slices.Clone(c.Sources), c.learner) {
		err := error(nil)
		switch p.f = c.survey.At(p.number); {
		case !p.f.OK():
			err = p.f.Err
		case p.f.State.Memory != p.memory:
			err = errForgotten
		default:
			c.total.Add(p.f.Keys)
			defer p.f.Conn.BreakOff(ctx)() // else a master that hangs holds up who closes the client
			continue
		}
		if c.Err = c.fails(p, err); c.Err != nil {
			return
		}
	}
	c.Err = c.copy(ctx)
	c.Took = time.Since(c.Began)
	if c.Err == nil {
		c.Host.Copied(c.learner.number, c.learner.memory, c.Began)
	}
}

func (c *Copy) copy(ctx context.Context) error {
	_, err := c.ask(append(slices.Clone(c.Sources), c.learner), func(p *Place) (a copyAnswer, err error) {
		return a, conn.Explain(p.f.Conn.Load(ctx))
	})
	if err == nil {
		err = c.note(ctx)
	}
	if err != nil {
		return err
	}
	// A key that least of the sources hold stands on at least one of any quorum of them.
	naming := func() []*Place { return c.Sources[:c.quorum] } //mutant:fewer-than-a-quorum-are-scanned
	if err := c.pass(ctx, naming, func() []*Place { return c.Sources }, true, c.give); err != nil {
		return err
	}
	// Of most keys as many sources as are needed confirm what the learner has.
	confirm := func() []*Place { return append(slices.Clone(c.Sources[:c.least(len(c.Sources))]), c.learner) }
	if err := c.pass(ctx, func() []*Place { return []*Place{c.learner} }, confirm, false, c.compare); err != nil { //mutant:what-is-released-meanwhile-stays
		return err
	}
	return c.tellMinority(ctx)
}

// pass goes through the keys that some masters name, all of them at the same time. SCAN names each key
// that stands there all the time. In one round all masters are asked at once: the readers read some keys,
// those that are scanned name the next, and the learner is given what was decided about earlier ones.
// Meanwhile judge decides about those that the round before has read, and returns what is to be written.
func (c *Copy) pass(ctx context.Context, naming, readers func() []*Place, ends bool, judge func(names []string, entries [][]copyEntry) copyWrite) error {
	var names, read []string
	var entries [][]copyEntry // what the masters hold under those that were read
	var write copyWrite
	for {
		batch := names[:min(len(names), c.count)] // SCAN may name more than asked for
		names = names[len(batch):]
		asked, scanning := []*Place(nil), []*Place(nil)
		if len(batch) > 0 {
			asked = slices.Clone(readers())
		}
		reads := len(asked)
		if len(names) == 0 {
			scanning = slices.DeleteFunc(slices.Clone(naming()), func(p *Place) bool { return p.scanned })
		}
		others := scanning
		if len(write.keys) > 0 {
			others = append(slices.Clone(scanning), c.learner)
		}
		for _, p := range others {
			if !slices.Contains(asked, p) {
				asked = append(asked, p)
			}
		}
		if len(asked) == 0 && len(read) == 0 {
			return c.settleAll(ctx)
		}
		answers := c.begin(asked, func(p *Place) (a copyAnswer, err error) {
			var read, give *redis.Cmd
			var scan *redis.ScanCmd
			err = c.pipe(ctx, p, func(pipe redis.Pipeliner) {
				if slices.Contains(asked[:reads], p) {
					read = c.readCommand(ctx, pipe, batch, ends)
				}
				if slices.Contains(scanning, p) {
					scan = pipe.Scan(ctx, p.cursor, "", int64(c.count))
				}
				if p == c.learner {
					give = c.giveCommand(ctx, pipe, &write)
				}
			})
			if err == nil && read != nil {
				a.entries, err = c.entriesOf(p, read, len(batch))
			}
			if err == nil && give != nil {
				a.done, err = doneOf(give)
			}
			if err == nil && scan != nil {
				a.names, a.cursor, err = scan.Result()
			}
			return a, err
		})
		var decided copyWrite
		if len(read) > 0 {
			decided = judge(read, entries)
		}
		got, err := answers()
		if err != nil {
			return err
		}
		done := ""
		read, entries = batch, nil
		for _, a := range got {
			if a.entries != nil {
				entries = append(entries, a.entries)
			}
			if a.place == c.learner {
				done = a.done
			}
			if slices.Contains(scanning, a.place) {
				if err := c.named(a); err != nil {
					return err
				}
				names = append(names, slices.DeleteFunc(a.names, func(name string) bool { return !c.toRead(name, a.place) })...)
			}
		}
		if err := c.written(ctx, &write, done); err != nil {
			return err
		}
		write = decided
		if err := c.note(ctx); err != nil {
			return err
		}
		for len(c.again) >= c.count {
			if err := c.settle(ctx); err != nil {
				return err
			}
		}
	}
}

// named takes note of how far the SCAN of a master is.
func (c *Copy) named(a copyAnswer) error {
	p := a.place
	p.cursor, p.scanned = a.cursor, a.cursor == 0 //mutant:a-scan-is-not-finished
	c.looked.Add(int64(len(a.names)))
	p.scans++
	if most := scanMost + scanMost*(c.total.Load()+c.given.Load())/int64(c.count); p.scans > most { // the learner has got its keys since //mutant:a-learner-that-was-given-many-scans-for-ever
		return c.fails(p, errEndless)
	}
	return nil
}

// toRead tells whether a name that a master has named is to be read: it can be that of a lock, and no
// source has named it, as far as that is remembered.
func (c *Copy) toRead(name string, by *Place) bool {
	if strings.HasPrefix(name, lua.ReservedPrefix) || len(name) > lua.MaxResourceLen {
		return false
	}
	if by == c.learner {
		return true
	}
	return c.seen.add(name)
}

// give is for keys that a source has named. Nearly always the sources agree, and the learner has
// nothing.
func (c *Copy) give(names []string, entries [][]copyEntry) (w copyWrite) {
	for i, name := range names {
		if !slices.ContainsFunc(entries, func(of []copyEntry) bool { return of[i].lock() }) {
			c.seen.remove(name) // it is on one source only, as a rule, and is not named again
		}
		order := c.order(&copyEntry{}, entries, i, 0)
		c.minority.decided(name, &order, time.Now())
		switch {
		case order.do == copyLeave:
		case order.do == copyAgain || order.readers != nil:
			c.again = append(c.again, copyKey{name: name})
		default:
			w.keys, w.orders = append(w.keys, copyKey{name: name}), append(w.orders, order)
		}
	}
	return w
}

// order decides about the key with this index.
func (c *Copy) order(learner *copyEntry, entries [][]copyEntry, i, tries int) copyOrder {
	of := make([]copyEntry, 0, quorum.MaxMasters)
	for _, source := range entries {
		of = append(of, source[i])
	}
	r := c.Current()
	return orderOf(learner, of, c.least(len(of)), tries, c.nobodys, clock.Padded(r.Ceiling, c.Opts.Drift).Milliseconds(), r.Quarantine(c.Opts.Drift).Milliseconds())
}

// compare is for keys that the learner has, whose entries are the last: what not all of these sources
// hold as it does is read once more on all.
func (c *Copy) compare(names []string, entries [][]copyEntry) copyWrite {
	for i, name := range names {
		learner := &entries[len(entries)-1][i]
		holders := 0
		for _, source := range entries[:len(entries)-1] {
			if learner.same(&source[i]) {
				holders++
			}
		}
		if learner.kind != copyNothing && (learner.kind != copyString || holders < len(entries)-1) {
			c.again = append(c.again, copyKey{name: name})
		}
	}
	return copyWrite{}
}

// settleAll reads keys until nothing is left to be read again.
func (c *Copy) settleAll(ctx context.Context) error {
	for len(c.again) > 0 {
		if err := c.settle(ctx); err != nil {
			return err
		}
		if err := c.note(ctx); err != nil {
			return err
		}
	}
	return nil
}

// settle reads some keys once more, first on the learner, then on all sources at once.
func (c *Copy) settle(ctx context.Context) error {
	n := min(len(c.again), c.count)
	keys := slices.Clone(c.again[:n])
	c.again = append(c.again[:0], c.again[n:]...)
	names := make([]string, n)
	repeated := false
	for i, key := range keys {
		names[i] = key.name
		repeated = repeated || key.tries > 0
	}
	if repeated {
		select {
		case <-time.After(copyPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	learner, err := c.read(ctx, []*Place{c.learner}, names)
	if err != nil {
		return err
	}
	entries, err := c.read(ctx, c.Sources, names)
	if err != nil {
		return err
	}
	var w copyWrite
	for i, key := range keys {
		order := c.order(&learner[0][i], entries, i, key.tries)
		c.minority.decided(key.name, &order, time.Now())
		switch {
		case order.do == copyLeave:
		case order.do == copyAgain:
			c.again = append(c.again, copyKey{key.name, key.tries + 1})
		case order.readers != nil:
			if err := c.writeReaders(ctx, key.name, &order); err != nil {
				return err
			}
		default:
			w.keys, w.orders, w.held = append(w.keys, key), append(w.orders, order), append(w.held, learner[0][i])
		}
	}
	return c.written(ctx, &w, "")
}

// note tells others, now and then, who copies, and how far that is.
func (c *Copy) note(ctx context.Context) error {
	if time.Since(c.noted) < c.Opts.Heartbeat/2 && !c.noted.IsZero() {
		return nil
	}
	c.noted = time.Now()
	if c.noted.Sub(c.logged) > copyLogEvery {
		c.logged = c.noted
		n := c.Progress()
		c.Opts.Logger.Info("a master is given what the others remember", "master", conn.Sanitize(c.learner.Name), "locks", n.Given, "percent", n.Done, "from", n.From)
	}
	_, err := c.ask([]*Place{c.learner}, func(p *Place) (a copyAnswer, err error) {
		n := c.Progress()
		reply, err := p.f.Conn.Call(ctx, lua.CopyNote, []string{lua.MembersKey}, c.id, n.Text(), NoteLife(c.Opts).Milliseconds()).Slice()
		switch {
		case conn.HasCode(err, "OOM"): // it is told by what is given
			return a, nil
		case err != nil:
			return a, conn.Explain(err)
		case len(reply) > 1:
			return a, ErrCopied
		}
		return a, nil
	})
	return err
}

// tellMinority has the learner tell of them, and the log. They are read once more before: what was on its
// way to all masters, or to none, has come by now.
func (c *Copy) tellMinority(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(c.minority.named)) {
		c.again = append(c.again, copyKey{name: name})
	}
	if err := c.settleAll(ctx); err != nil {
		return err
	}
	text := member.MinorityText(c.minority.named, c.learner.ahead)
	_, err := c.ask([]*Place{c.learner}, func(p *Place) (a copyAnswer, err error) {
		return a, c.pipe(ctx, p, func(pipe redis.Pipeliner) {
			if text == "" {
				pipe.HDel(ctx, lua.MembersKey, member.MinorityField)
			} else {
				pipe.HSet(ctx, lua.MembersKey, member.MinorityField, text) //mutant:a-learner-does-not-tell-of-a-minority
			}
		})
	})
	if n := len(c.minority.named) + c.minority.others; err == nil && n > 0 {
		c.Opts.Logger.Warn("a master was given what fewer than a quorum held", "master", conn.Sanitize(c.learner.Name), "locks", n, "resources", c.minority.sample(),
			"to_do", "nothing: it ends by itself; where nobody holds such a lock and somebody waits for it, LOCKINFO says so, and UNLOCK resource FORCE reason ends it")
	}
	return err
}
