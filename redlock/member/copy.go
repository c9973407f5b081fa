package member

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/quorum"
)

// Recovery by copying. A master that has forgotten is a learner, and waits until the longest lock must
// have ended, unless enough others remember: then it is given what it has to know, and votes in a
// moment. What follows is why that is safe.
//
// A memory denies a lease as long as it holds the lease's key, or another value in its place that
// nobody releases, until the lease's validity is over.
//
// Invariant: of every lease that is valid, and every record that is no older than its last grant, fewer
// than a quorum of the voters do not deny it. So every quorum of voters contains one that denies it,
// and nobody else is granted it.
//
//   - At the grant a quorum of voters holds the key. With ℓ seats that have no vote, at most N - ℓ -
//     quorum of them do not: fewer than a quorum, and still so when all ℓ are promoted.
//   - A voter that forgets is listed anew, as a learner. The number does not grow.
//   - The copy begins under a record that lists the learner: its sources are a quorum of the voters of
//     that record, or more. Each is read only after it has shown that record, or a later one. Since
//     then no vote under an earlier one can count there. So of a lease that was granted earlier the
//     votes were cast before the reading began, and by the invariant all of the sources but fewer than
//     a quorum deny it. Its key stands there from then on, because an extension only lengthens it: SCAN
//     names it, every reading shows it, and the learner denies it when it is promoted.
//   - A source that fails is left out, as long as a quorum of voters is left. What was decided with it
//     stays: a key that too few of the sources held then is not that of a lease, and never becomes that of
//     one that was granted earlier.
//   - Of a lease that is granted under that record or a later one, while the learner has no vote, the
//     first argument holds.
//   - EXTEND is a grant in all this.
//
// It takes for granted what every vote does: a source forgets nothing while it shows the listed memory,
// and its clock is good, which this client can tell (Host.Source): at the beginning, with every reply, and
// when the promotion is proposed. A memory has a name that is used once: what a source shows then
// (recover.go) tells of all the time before. Fences are relearned as after the wait (raiseFloors).
//
// The clock of the learner is read before, too, and with every reply. So this client can vouch for it
// from the copy on, whatever it did before (Host.Copied).
//
// The learner gets every command meanwhile. What is released while it is copied may come too late to
// it: so at the end all that it holds is compared with the sources once more, which also removes what
// it remembers of an earlier time. None of that is needed for safety: it keeps others out.
//
// Who copies? Every redlockd may, also at the same time; a note on the learner has the others wait
// (lua.CopyNote). Nothing of it outlives the process that copies: another one starts anew.
//
// testdata/tla/Copy.tla is the model.

const (
	// copyCount is how many keys are read and written at a time. A master serves nobody else meanwhile,
	// some 0.2 ms: with 512 the slowest of a hundred LOCKs took four times as long as without a copy, and
	// all took a quarter less time to copy.
	copyCount = 128
	// copySeenMax bounds the names of locks that a copy remembers, so as not to read keys again that
	// several sources have: 40 bytes each. Those beyond it are read for each source.
	copySeenMax = 1 << 21
	// copyPause is between two readings of keys that differ from one source to the next.
	copyPause = 2 * time.Millisecond
	// scanMost is how many SCANs a master is asked for at most, and as many for each of its keys that one
	// may name: its table may be far larger than what is in it.
	scanMost = 1000
	// copyLogEvery is how often the log tells how far a copy is.
	copyLogEvery = 10 * time.Second
)

// copier gives one learner what the sources remember. The coordinator makes it; run is its goroutine.
// What is atomic is for others.
type copier struct {
	host   Host
	own    *clock.Own
	opts   Options
	record func() *Record // that is in force

	id      string
	learner *copyPlace
	// sources are those that are left, and leftOut those that have failed. At least quorum must be left.
	sources []*copyPlace
	leftOut []leftOut
	quorum  int
	under   recordID // the record in force when the copy began
	survey  *Survey  // has the connections
	began   time.Time
	cancel  context.CancelFunc
	count   int // keys at a time

	// seen has the names of locks that were read on all sources.
	seen  map[[2]uint64]struct{}
	seeds [2]maphash.Seed
	// again are the keys that are to be read once more.
	again   []copyKey
	nobodys string
	// minority are what too few held to be a lock for certain.
	minority minorityLocks
	// noted is when others were told last, logged when the log was.
	noted, logged time.Time

	given, looked, total atomic.Int64
	from                 atomic.Pointer[string] // the sources, for people
	// ended is closed when the goroutine has ended; err and took are set by then.
	ended chan struct{}
	err   error
	took  time.Duration
}

// copyKey is a key that was read tries times already.
type copyKey struct {
	name  string
	tries int
}

// least is how many of n sources deny a lock that is valid.
func (c *copier) least(n int) int { return n - c.quorum + 1 } //mutant:what-one-source-has-is-copied

// run copies, and says why it could not. places are the masters that take part.
func (c *copier) run(ctx context.Context, places map[int]conn.Master) {
	defer close(c.ended)
	defer c.cancel()
	c.survey = SurveyMasters(ctx, places, Patience{Enough: c.quorum + 1, Grace: surveyGrace}, c.opts)
	defer c.survey.Close()
	for _, p := range append(slices.Clone(c.sources), c.learner) {
		err := error(nil)
		switch p.f = c.survey.At(p.number); {
		case !p.f.ok():
			err = p.f.err
		case p.f.State.Memory != p.memory:
			err = errForgotten
		default:
			c.total.Add(p.f.keys)
			defer p.f.Conn.BreakOff(ctx)() // else a master that hangs holds up who closes the client
			continue
		}
		if c.err = c.fails(p, err); c.err != nil {
			return
		}
	}
	c.err = c.copy(ctx)
	c.took = time.Since(c.began)
	if c.err == nil {
		c.host.Copied(c.learner.number, c.learner.memory, c.began)
	}
}

func (c *copier) copy(ctx context.Context) error {
	_, err := c.ask(append(slices.Clone(c.sources), c.learner), func(p *copyPlace) (a copyAnswer, err error) {
		return a, conn.Explain(p.f.Conn.Load(ctx))
	})
	if err == nil {
		err = c.note(ctx)
	}
	if err != nil {
		return err
	}
	// A key that least of the sources hold stands on at least one of any quorum of them.
	for scanned := 0; scanned < c.quorum; { //mutant:fewer-than-a-quorum-are-scanned
		from := c.sources[slices.IndexFunc(c.sources, func(p *copyPlace) bool { return !p.scanned })]
		whole, err := c.pass(ctx, from, func() []*copyPlace { return c.sources }, true, c.give)
		if err != nil {
			return err
		}
		if from.scanned = true; whole {
			scanned++
		}
	}
	// Of most keys as many sources as are needed confirm what the learner has.
	confirm := func() []*copyPlace { return append(slices.Clone(c.sources[:c.least(len(c.sources))]), c.learner) }
	if _, err = c.pass(ctx, c.learner, confirm, false, c.compare); err != nil { //mutant:what-is-released-meanwhile-stays
		return err
	}
	return c.tellMinority(ctx)
}

// pass goes through the keys of one master. SCAN names each key that stands there all the time. In one
// round all masters are asked at once: the readers read some keys, the one that is scanned names the
// next, and the learner is given what was decided about the last. judge decides, and returns what is to
// be written. whole is false where the master was left out meanwhile.
func (c *copier) pass(ctx context.Context, from *copyPlace, readers func() []*copyPlace, ends bool, judge func(names []string, entries [][]copyEntry) copyWrite) (whole bool, err error) {
	var names []string
	var write copyWrite
	scans := scanMost + scanMost*from.f.keys/int64(c.count)
	for cursor, more := uint64(0), true; more || len(names) > 0 || len(write.keys) > 0; {
		batch := names[:min(len(names), c.count)] // SCAN may name more than asked for
		names = names[len(batch):]
		asked := []*copyPlace(nil)
		if len(batch) > 0 {
			asked = readers()
		}
		reads := len(asked)
		scanning, at := more && len(names) == 0, cursor
		if scanning && !slices.Contains(asked, from) {
			asked = append(asked, from)
		}
		if len(write.keys) > 0 && !slices.Contains(asked, c.learner) {
			asked = append(asked, c.learner)
		}
		answers, err := c.ask(asked, func(p *copyPlace) (a copyAnswer, err error) {
			var read, give *redis.Cmd
			var scan *redis.ScanCmd
			err = c.pipe(ctx, p, func(pipe redis.Pipeliner) {
				if slices.Contains(asked[:reads], p) {
					read = c.readCommand(ctx, pipe, batch, ends)
				}
				if p == from && scanning {
					scan = pipe.Scan(ctx, at, "", int64(c.count))
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
		if err != nil {
			return false, err
		}
		done := ""
		var entries [][]copyEntry
		for _, a := range answers {
			if a.entries != nil {
				entries = append(entries, a.entries)
			}
			if a.place == c.learner {
				done = a.done
			}
			if a.place == from && scanning {
				cursor, more, names = a.cursor, a.cursor != 0, append(names, a.names...) //mutant:a-scan-is-not-finished
				c.looked.Add(int64(len(a.names)))
			}
		}
		if err := c.written(ctx, &write, done); err != nil {
			return false, err
		}
		write = copyWrite{}
		if len(batch) > 0 {
			write = judge(batch, entries)
		}
		if scanning {
			names = slices.DeleteFunc(names, func(name string) bool {
				return strings.HasPrefix(name, lua.ReservedPrefix) || len(name) > lua.MaxResourceLen || from != c.learner && c.known(name)
			})
			if scans--; scans < 0 {
				if err := c.fails(from, errEndless); err != nil {
					return false, err
				}
			}
		}
		if from != c.learner && !slices.Contains(c.sources, from) { // others name its keys
			more, names = false, nil
		}
		if err := c.note(ctx); err != nil {
			return false, err
		}
		for len(c.again) >= c.count {
			if err := c.settle(ctx); err != nil {
				return false, err
			}
		}
	}
	return from == c.learner || slices.Contains(c.sources, from), c.settleAll(ctx)
}

// copyWrite is what the learner is to be given. held is what it has shown; nil: it was not asked.
type copyWrite struct {
	keys   []copyKey
	orders []copyOrder
	held   []copyEntry
}

// known tells whether the name was read already, as far as that is remembered.
func (c *copier) known(name string) bool {
	_, known := c.seen[c.hashOf(name)]
	return known
}

func (c *copier) hashOf(name string) [2]uint64 {
	return [2]uint64{maphash.String(c.seeds[0], name), maphash.String(c.seeds[1], name)}
}

// give is for keys that a source has named. Nearly always the sources agree, and the learner has
// nothing.
func (c *copier) give(names []string, entries [][]copyEntry) (w copyWrite) {
	for i, name := range names {
		// What is no lock is on one source only, as a rule, and is not named again.
		if len(c.seen) < copySeenMax && slices.ContainsFunc(entries, func(of []copyEntry) bool { return of[i].lock() }) {
			c.seen[c.hashOf(name)] = struct{}{}
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
func (c *copier) order(learner *copyEntry, entries [][]copyEntry, i, tries int) copyOrder {
	of := make([]copyEntry, 0, quorum.MaxMasters)
	for _, source := range entries {
		of = append(of, source[i])
	}
	r := c.record()
	return orderOf(learner, of, c.least(len(of)), tries, c.nobodys, clock.Padded(r.MaxTTL, c.opts.Drift).Milliseconds(), r.Quarantine(c.opts.Drift).Milliseconds())
}

// compare is for keys that the learner has, whose entries are the last: what not all of these sources
// hold as it does is read once more on all.
func (c *copier) compare(names []string, entries [][]copyEntry) copyWrite {
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
func (c *copier) settleAll(ctx context.Context) error {
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
func (c *copier) settle(ctx context.Context) error {
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
	learner, err := c.read(ctx, []*copyPlace{c.learner}, names)
	if err != nil {
		return err
	}
	entries, err := c.read(ctx, c.sources, names)
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

// settledOn is what the learner has to show to be written to: the record that this client goes by, if
// it lists the learner as one. "": it does not.
func (c *copier) settledOn() string {
	r := c.record()
	if s := r.Lists(c.learner.memory); s == nil || s.State != Learner { //mutant:a-copy-goes-on-to-a-voter
		return ""
	}
	return r.ShownBy(c.learner.memory)
}

// giveCommand has the learner hold what was decided; nil: nothing was, or it cannot be told at present.
func (c *copier) giveCommand(ctx context.Context, pipe redis.Pipeliner, w *copyWrite) *redis.Cmd {
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
func (c *copier) written(ctx context.Context, w *copyWrite, done string) error {
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

func (c *copier) writeReaders(ctx context.Context, name string, order *copyOrder) error {
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
func (c *copier) insist(ctx context.Context, command func(pipe redis.Pipeliner) *redis.Cmd) (done string, err error) {
	for began := time.Now(); time.Since(began) < c.opts.ConnectTimeout; {
		answers, err := c.ask([]*copyPlace{c.learner}, func(p *copyPlace) (a copyAnswer, err error) {
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

// errCopied: another redlockd copies.
var errCopied = errors.New("another redlockd gives it what it has to know")

// note tells others, now and then, who copies, and how far that is.
func (c *copier) note(ctx context.Context) error {
	if time.Since(c.noted) < c.opts.Heartbeat/2 && !c.noted.IsZero() {
		return nil
	}
	c.noted = time.Now()
	if c.noted.Sub(c.logged) > copyLogEvery {
		c.logged = c.noted
		n := c.progress()
		c.opts.Logger.Info("a master is given what the others remember", "master", conn.Sanitize(c.learner.name), "locks", n.given, "percent", n.done, "from", n.from)
	}
	_, err := c.ask([]*copyPlace{c.learner}, func(p *copyPlace) (a copyAnswer, err error) {
		n := c.progress()
		reply, err := p.f.Conn.Call(ctx, lua.CopyNote, []string{lua.MembersKey}, c.id, n.text(), copyNoteLife(c.opts).Milliseconds()).Slice()
		switch {
		case conn.HasCode(err, "OOM"): // it is told by what is given
			return a, nil
		case err != nil:
			return a, conn.Explain(err)
		case len(reply) > 1:
			return a, errCopied
		}
		return a, nil
	})
	return err
}

// copyNoteLife is for how long a note counts.
func copyNoteLife(o Options) time.Duration { return 4 * o.Heartbeat }

// progress is how far the copy is.
func (c *copier) progress() copyNote {
	n := copyNote{by: c.id, given: c.given.Load(), done: int(100 * c.looked.Load() / max(1, c.total.Load()))}
	n.done, n.from = min(n.done, 99), *c.from.Load()
	return n
}
