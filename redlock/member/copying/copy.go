package copying

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
	"redlockd/redlock/quorum"
)

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

// Copy gives one learner what the sources remember. The coordinator makes it; run is its goroutine.
// What is atomic is for others.
type Copy struct {
	*Copier

	id      string
	learner *Place
	// Sources are those that are left, and LeftOut those that have failed. At least quorum must be left.
	Sources []*Place
	LeftOut []LeftOut
	quorum  int
	under   member.RecordID // the record in force when the copy began
	survey  *survey.Masters // has the connections
	Began   time.Time
	Cancel  context.CancelFunc
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
	// ended is closed when the goroutine has ended; Err and Took are set by then.
	ended chan struct{}
	Err   error
	Took  time.Duration
}

// Host is what copies need of the engine. The number of a seat is its place there.
type Host interface {
	// Source is what is known of a master's clock and beat before a copy.
	Source(place int) Source
	// Saw hands on a reading of the clock of the process with this run_id that shows a gain.
	Saw(place int, runID string, now clock.Reading)
	// Copied says that the memory at a place was given what the others remember, by a copy that began at
	// that time.
	Copied(place int, memory string, began time.Time)
}

// Copier makes the copies of one client.
type Copier struct {
	Host    Host
	Own     *clock.Own
	Opts    member.Options
	Current func() *member.Record // in force
	Ending  context.Context       // is over when the client is closed, which waits for running
	Running *sync.WaitGroup
	Wake    func() // is called when a copy has ended
}

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
		seen: make(map[[2]uint64]struct{}), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, nobodys: RecoveredPrefix + member.Nonce(),
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

// Over tells whether the copy has ended. Then Err and Took are set.
func (c *Copy) Over() bool {
	select {
	case <-c.ended:
	default:
		return false //mutant:promoted-before-the-last-key
	}
	return true
}

// copyKey is a key that was read tries times already.
type copyKey struct {
	name  string
	tries int
}

// least is how many of n sources deny a lock that is valid.
func (c *Copy) least(n int) int { return n - c.quorum + 1 } //mutant:what-one-source-has-is-copied

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
	for scanned := 0; scanned < c.quorum; { //mutant:fewer-than-a-quorum-are-scanned
		from := c.Sources[slices.IndexFunc(c.Sources, func(p *Place) bool { return !p.scanned })]
		whole, err := c.pass(ctx, from, func() []*Place { return c.Sources }, true, c.give)
		if err != nil {
			return err
		}
		if from.scanned = true; whole {
			scanned++
		}
	}
	// Of most keys as many sources as are needed confirm what the learner has.
	confirm := func() []*Place { return append(slices.Clone(c.Sources[:c.least(len(c.Sources))]), c.learner) }
	if _, err = c.pass(ctx, c.learner, confirm, false, c.compare); err != nil { //mutant:what-is-released-meanwhile-stays
		return err
	}
	return c.tellMinority(ctx)
}

// pass goes through the keys of one master. SCAN names each key that stands there all the time. In one
// round all masters are asked at once: the readers read some keys, the one that is scanned names the
// next, and the learner is given what was decided about the last. judge decides, and returns what is to
// be written. whole is false where the master was left out meanwhile.
func (c *Copy) pass(ctx context.Context, from *Place, readers func() []*Place, ends bool, judge func(names []string, entries [][]copyEntry) copyWrite) (whole bool, err error) {
	var names []string
	var write copyWrite
	scans := scanMost + scanMost*(c.total.Load()+c.given.Load())/int64(c.count) // the learner has got its keys since //mutant:a-learner-that-was-given-many-scans-for-ever
	for cursor, more := uint64(0), true; more || len(names) > 0 || len(write.keys) > 0; {
		batch := names[:min(len(names), c.count)] // SCAN may name more than asked for
		names = names[len(batch):]
		asked := []*Place(nil)
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
		answers, err := c.ask(asked, func(p *Place) (a copyAnswer, err error) {
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
		if from != c.learner && !slices.Contains(c.Sources, from) { // others name its keys
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
	return from == c.learner || slices.Contains(c.Sources, from), c.settleAll(ctx)
}

// copyWrite is what the learner is to be given. held is what it has shown; nil: it was not asked.
type copyWrite struct {
	keys   []copyKey
	orders []copyOrder
	held   []copyEntry
}

// known tells whether the name was read already, as far as that is remembered.
func (c *Copy) known(name string) bool {
	_, known := c.seen[c.hashOf(name)]
	return known
}

func (c *Copy) hashOf(name string) [2]uint64 {
	return [2]uint64{maphash.String(c.seeds[0], name), maphash.String(c.seeds[1], name)}
}

// give is for keys that a source has named. Nearly always the sources agree, and the learner has
// nothing.
func (c *Copy) give(names []string, entries [][]copyEntry) (w copyWrite) {
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
func (c *Copy) order(learner *copyEntry, entries [][]copyEntry, i, tries int) copyOrder {
	of := make([]copyEntry, 0, quorum.MaxMasters)
	for _, source := range entries {
		of = append(of, source[i])
	}
	r := c.Current()
	return orderOf(learner, of, c.least(len(of)), tries, c.nobodys, clock.Padded(r.MaxTTL, c.Opts.Drift).Milliseconds(), r.Quarantine(c.Opts.Drift).Milliseconds())
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

// ErrCopied: another redlockd copies.
var ErrCopied = errors.New("another redlockd gives it what it has to know")

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

// NoteLife is for how long a note counts.
func NoteLife(o member.Options) time.Duration { return 4 * o.Heartbeat }

// Progress is how far the copy is.
func (c *Copy) Progress() member.CopyNote {
	n := member.CopyNote{By: c.id, Given: c.given.Load(), Done: int(100 * c.looked.Load() / max(1, c.total.Load()))}
	n.Done, n.From = min(n.Done, 99), *c.from.Load()
	return n
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
