package redlock

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/quorum"
)

// readingsMax bounds the bytes of values that are kept of the replies to one batch. It is 16 KB for
// each of the most rounds.
const readingsMax = 16 << 20

// batch turns rounds into one pipeline and its replies into votes. One lane uses one batch over and
// over, with the memory in it: a pipeline of n acquisitions allocates next to nothing.
type batch struct {
	lane        *lane
	conn        *conn.Conn
	wire        *conn.Wire // of the conn
	rounds      []*round
	cost        int           // of rounds
	inFlight    int           // cost of all that was in flight when it departed, its own included
	votes       []quorum.Vote // of rounds, Unknown until the master has replied
	err         error         // the last error a master replied to an acquisition, extension or reading
	guardResult guardResult   // of its trailer, or of both where it took two pipelines
	closed      bool          // the trailer of the pipeline that was sent last was read
	// behindFinding tells that something was found in a batch before it, and that nobody has acted on it
	// yet.
	behindFinding bool
	sent          time.Time // when
	latestAt      int64     // see latestMs; 0: it was not asked for

	// Under lane.mu.
	abandoned bool // the watchdog has given it up, and reported its votes as unknown
	sealed    bool // it is complete, and is being sent: the reader may have it
	sentTick  int  // lane.ticks when it was sent

	commands []command // of the pipeline, in their order
	folded   []int32   // the rounds of commands that carry many, see command
	readings []reading // answers to verbRead
	bare     []int32   // the rounds that have no command

	// The segment under construction: releases go first, folded, then the others in their order.
	releases, prompt []int32 // those that may be executed late, and those that must not
	others           []int32
	touched          touched // by rounds other than those of readers that come or leave
	joined           touched // by those

	// The master's clock, as the pipeline tells it: see clockMark.
	unmarked int      // commands since the last mark; negative: there was none
	clockMs  int64    // as the last mark that was read told it
	open     int      // sets[open:] were read since that mark
	sets     []setKey // what attempts under tokens of callers have set

	// What was read of the replies to the pipeline that was sent last.
	kept    int     // bytes of the values in readings
	lost    []int32 // rounds whose script the master did not know
	refusal error   // of a release
}

// command is one command of a pipeline, or the group of commands of one reading.
type command struct {
	round int32 // its round; −1: it carries the releases folded[from:to]; readersFold: it carries those readers; or clockMark
	from  int32
	to    int32
	arms  bool // CLIENT CACHING YES goes before it
}

// clockMark is the round of a command that tells the master's clock. A pipeline has one before the
// first round that may have to be taken back, one after every clockMarkEvery commands, and the
// trailer: so it is known when such a round was executed.
const (
	readersFold    = -3
	clockMark      = -2
	clockMarkEvery = 64
)

// setKey is an attempt under a caller's token that has set its keys, and the latest time of the
// master's clock, in milliseconds since 1970, at which it did; 0: not known well enough.
type setKey struct {
	round int32
	at    int64
}

// reading is what the master answered to a verbRead.
type reading struct {
	round  *round
	answer answer
}

func newBatch(l *lane, conn *conn.Conn) *batch {
	seed := maphash.MakeSeed()
	return &batch{lane: l, conn: conn, wire: &conn.Wire, touched: touched{seed: seed}, joined: touched{seed: seed}}
}

// encode puts the rounds into the wire.
func (b *batch) encode() {
	b.votes, b.readings, b.kept, b.behindFinding = b.votes[:0], b.readings[:0], 0, false
	b.guardResult = guardResult{}
	b.sets = b.sets[:0]
	b.bare = b.bare[:0]
	b.begin()
	for i := range b.rounds {
		b.votes = append(b.votes, quorum.Unknown)
		b.add(int32(i))
	}
	b.emit()
}

// readReplies reads the replies and fills in the votes. An error means that the connection is of no
// more use: the votes that it left unknown, and the releases that were refused, have to be cleared
// up on the next one.
func (b *batch) readReplies() error {
	err := conn.RecoverPanic(func() error {
		err := b.readAll()
		if err == nil && len(b.lost) > 0 {
			err = b.repeatLost()
		}
		return err
	})
	if !b.closed { // nothing judges the votes that were read //mutant:votes-that-no-trailer-closes
		for i := range b.votes {
			b.votes[i] = quorum.Unknown
		}
		clear(b.readings)
		b.readings = b.readings[:0]
	}
	for i, r := range b.rounds {
		if !b.guardResult.counts || b.behindFinding || r.view.record != b.guardResult.record { //mutant:a-vote-counts-under-another-record
			if uncounted := verbs[r.verb].uncounted; uncounted != nil {
				b.votes[i] = uncounted(b.votes[i])
			}
		}
	}
	return err
}

// repeatLost is for a master that has lost our scripts (SCRIPT FLUSH). NOSCRIPT means that nothing
// was executed: load and repeat. With other batches on their way that would change the order of
// what the master executes: then the next connection loads them.
func (b *batch) repeatLost() error {
	if !b.lane.pause() {
		return errors.New("the master has lost its scripts (SCRIPT FLUSH?)")
	}
	defer b.lane.resume()
	if err := b.conn.LoadWithin(b.lane.fleet.opts.ConnectTimeout); err != nil {
		return fmt.Errorf("load scripts again: %w", err)
	}
	first, lost := b.guardResult, slices.Clone(b.lost)
	b.begin()
	for _, i := range lost {
		b.add(i)
	}
	b.emit()
	err := b.send()
	if err == nil {
		err = b.readAll()
	}
	b.guardResult = first.merge(b.guardResult) //mutant:a-second-pipeline-excuses-the-first
	if err == nil && len(b.lost) > 0 {
		err = errors.New("the master forgets scripts as soon as they are loaded")
	}
	return err
}

// begin starts a pipeline: the first of a batch, or the second one that repeats what needed a
// script.
func (b *batch) begin() {
	b.commands, b.folded, b.lost, b.refusal = b.commands[:0], b.folded[:0], b.lost[:0], nil
	b.unmarked, b.open, b.clockMs, b.latestAt, b.closed = -1, len(b.sets), 0, 0, false
	// The reader of a far master may read before the batch is sent: the deadline of the one before must be
	// gone by then. The watch gives the votes up after MasterTimeout; the connection gets longer, for a late
	// answer is better than a new one. If it has failed, the next write or read says so.
	b.wire.Socket.SetDeadline(time.Now().Add(b.lane.fleet.opts.ConnectTimeout))
}

// add puts a round into the segment.
func (b *batch) add(i int32) {
	r := b.rounds[i]
	if verbs[r.verb].bare {
		b.bare = append(b.bare, i)
		return
	}
	release := verbs[r.verb].release
	if len(b.rounds) > 1 { // else there is nothing to overtake
		b.order(r, release)
	}
	if release && len(r.keys) == 1 && b.conn.CompareAndDelete == conn.ScriptOnly {
		if r.timely() {
			b.prompt = append(b.prompt, i)
		} else {
			b.releases = append(b.releases, i)
		}
	} else {
		b.others = append(b.others, i)
	}
}

// order ends the segment if the round must not enter it. Releases are hoisted to the front of a
// segment, where they can be folded into one call; so a release whose key an earlier round of the
// segment touches must not enter it: it would overtake that round. Readers of one resource are in
// nobody's way: the release of one may overtake another's LOCK.
func (b *batch) order(r *round, release bool) {
	reader := (r.verb == verbJoin || release && len(r.keys) == 1) && r.ofReader()
	if release {
		for _, key := range r.keys {
			if b.meets(r, key, reader) { //mutant:a-release-overtakes
				b.emit()
				break
			}
		}
	}
	for _, key := range r.keys {
		if reader {
			b.joined.add(b.joined.hash(key))
			b.joined.add(b.joined.holder(key, r.token))
		} else {
			b.touched.add(b.touched.hash(key))
		}
	}
	if r.verb == verbSlot && r.attempt != nil { // a release of another slot that the token holds stays behind it, too
		b.touched.addSlots(r) //mutant:a-release-of-another-slot-overtakes
	}
}

// meets tells whether a release must not overtake what is in the segment.
func (b *batch) meets(r *round, key string, reader bool) bool {
	switch {
	case b.touched.has(key):
		return true
	case reader:
		return b.joined.hasHolder(key, r.token) //mutant:a-readers-release-overtakes
	}
	return b.joined.has(key) //mutant:a-writers-release-overtakes-readers
}

// emit turns the segment into commands.
func (b *batch) emit() {
	if len(b.releases)+len(b.prompt) > 0 {
		b.foldAll(b.releases)
		b.foldAll(b.prompt)
	}
	for n := 0; n < len(b.others); n++ {
		i := b.others[n]
		if b.rounds[i].verb == verbJoin {
			if readers := b.readersOfOne(b.others[n:]); len(readers) > 1 {
				b.foldReaders(readers)
				n += len(readers) - 1
				continue
			}
		}
		if r := b.rounds[i]; r.attempts() && (b.unmarked < 0 || b.unmarked >= clockMarkEvery) {
			b.commands = append(b.commands, command{round: clockMark})
			b.command("time")
			b.unmarked = 0
		}
		if b.unmarked >= 0 {
			b.unmarked++
		}
		b.commands = append(b.commands, command{round: i})
		row := &verbs[b.rounds[i].verb]
		if row.arms {
			b.arm()
		}
		row.write(b, b.rounds[i])
	}
	b.releases, b.prompt, b.others = b.releases[:0], b.prompt[:0], b.others[:0]
	b.touched.reset()
	b.joined.reset()
}

// readersOfOne are the rounds at the front that are LOCKs of readers of one resource. An attempt under
// a caller's token goes alone, for its place between two clock marks.
func (b *batch) readersOfOne(list []int32) []int32 {
	n := 0
	for ; n < min(len(list), foldMax); n++ {
		r := b.rounds[list[n]]
		if r.verb != verbJoin || r.attempts() || r.keys[0] != b.rounds[list[0]].keys[0] { //mutant:readers-of-two-resources-are-folded
			break
		}
	}
	return list[:n]
}

// carry adds the command that carries many rounds.
func (b *batch) carry(round int32, rounds []int32) {
	from := int32(len(b.folded))
	b.folded = append(b.folded, rounds...)
	b.commands = append(b.commands, command{round: round, from: from, to: int32(len(b.folded))})
}

// foldReaders makes one script call of many LOCKs of readers of one resource.
func (b *batch) foldReaders(readers []int32) {
	b.carry(readersFold, readers)
	if b.unmarked >= 0 {
		b.unmarked += len(readers)
	}
	b.script(lua.Join, 0, 1, 4*len(readers))
	b.wire.Bulk(b.rounds[readers[0]].keys[0])
	for _, i := range readers {
		b.joiner(b.rounds[i])
	}
}

// foldAll makes as few script calls of releases as the master bears.
func (b *batch) foldAll(releases []int32) {
	for start := 0; start < len(releases); start += foldMax {
		b.fold(releases[start:min(start+foldMax, len(releases))])
	}
}

// fold makes one script call of many releases, which all are timely, or none.
func (b *batch) fold(releases []int32) {
	b.carry(-1, releases)
	w := b.wire
	b.script(lua.Release, 0, len(releases), 1+len(releases))
	for _, i := range releases {
		w.Bulk(b.rounds[i].keys[0])
	}
	b.latest(b.rounds[releases[0]])
	for _, i := range releases {
		w.Bulk(b.rounds[i].token)
	}
}

// send writes the pipeline, closed by the checks.
func (b *batch) send() error {
	b.wire.Out = append(b.wire.Out, member.TrailerCommands...)
	b.sent = time.Now()
	if err := b.wire.Send(); err != nil {
		return b.timely(err)
	}
	return nil
}

// timely says in our words that the deadline of the connection has passed.
func (b *batch) timely(err error) error {
	if conn.IsTimeout(err) {
		return fmt.Errorf("no answer within %v", b.lane.fleet.opts.ConnectTimeout)
	}
	return err
}

// touched is a set of keys that may say yes by mistake, which costs a segment break, and never no
// by mistake.
type touched struct {
	seed maphash.Seed
	bits [64]uint64
	any  bool
}

// hash has a seed of its own, so that no client can choose keys that collide. Its lowest 12 bits are
// the place in bits.
func (t *touched) hash(key string) uint64 { return maphash.String(t.seed, key) }

// holder is the hash of a key together with a token.
func (t *touched) holder(key, token string) uint64 { return t.hash(key) ^ 31*t.hash(token) }

func (t *touched) add(hash uint64) {
	t.bits[hash>>6&63] |= 1 << (hash & 63)
	t.any = true
}

func (t *touched) has(key string) bool {
	if !t.any { //mutant:a-release-overtakes-random
		return false
	}
	return t.isSet(t.hash(key))
}

func (t *touched) hasHolder(key, token string) bool { return t.any && t.isSet(t.holder(key, token)) }

func (t *touched) isSet(hash uint64) bool {
	return t.bits[hash>>6&63]>>(hash&63)&1 != 0
}

func (t *touched) reset() {
	if t.any {
		t.bits, t.any = [64]uint64{}, false
	}
}

// The reading side of a batch: the replies to its pipeline, in order, become votes. An error means
// that the connection is of no more use.

// readAll reads the replies to the pipeline, and the votes in them.
func (b *batch) readAll() error {
	f := b.lane.fleet
	var err error
	for i := 0; err == nil && i < len(b.commands); i++ {
		err = b.readCommand(b.commands[i])
	}
	var end member.Trailer
	if err == nil {
		end, err = member.ReadTrailer(b.wire, b.lane.guard.shown)
	}
	if err == nil && !b.wire.In.Drained() && b.lane.last(b) {
		err = errors.New("the master replies more than it was asked")
	}
	if err != nil {
		return b.timely(err)
	}
	if b.open < len(b.sets) {
		b.marked(end.Clock.UnixMilli())
	}
	b.guardResult = b.lane.guard.judge(end, f.own.ReadingOf(b.sent, time.Now(), end.Clock), f)
	b.closed = true
	for _, i := range b.bare {
		b.votes[i] = quorum.Granted
	}
	return b.refusal
}

// readCommand reads the reply to a command, and turns it into votes. An error means that the
// connection is of no more use.
func (b *batch) readCommand(command command) error {
	switch command.round {
	case -1:
		return b.readFolded(b.folded[command.from:command.to])
	case readersFold:
		return b.readReaders(b.folded[command.from:command.to])
	case clockMark:
		clock, err := member.ReadTime(b.wire)
		b.marked(clock.UnixMilli())
		return err
	}
	i := command.round
	first, err := b.wire.ReadReply()
	armed, before := false, len(b.readings)
	if err == nil && command.arms {
		armed, first, err = b.readArmed(first)
	}
	if err != nil {
		return err
	}
	v, refused, err := verbs[b.rounds[i].verb].read(b, command, first)
	if err != nil {
		return err
	}
	if armed && len(b.readings) > before {
		b.readings[before].answer.armed = true
	}
	if r := b.rounds[i]; r.attempts() && (v == quorum.Granted || v == quorum.AsReader) { //mutant:a-failed-takeover-of-a-reader-stays
		b.sets = append(b.sets, setKey{round: i})
	}
	if refused != nil {
		b.note(i, v, refused)
	} else {
		b.votes[i] = v
	}
	return nil
}

// marked takes note of the master's clock. What was set since the last mark was set between the
// two. Where that is longer than endSlack, the undo is for what was set soon after the last mark,
// and leaves alone what was set later.
func (b *batch) marked(clockMs int64) {
	for i := b.open; i < len(b.sets); i++ {
		if clockMs >= b.clockMs { // else the clock was set back
			b.sets[i].at = min(clockMs, b.clockMs+endSlackMs) //mutant:the-undo-goes-by-the-trailer-alone
		}
	}
	b.open, b.clockMs = len(b.sets), clockMs
}

// note keeps the vote of a round. refused is the error that the master replied in the place of one.
func (b *batch) note(i int32, v quorum.Vote, refused error) {
	switch {
	case refused == nil:
		b.votes[i] = v
	case conn.IsNoScript(refused):
		b.lost = append(b.lost, i)
	case verbs[b.rounds[i].verb].release:
		// Never shed a release: the connection is given up, and the next one delivers it
		// (master_pending.go).
		b.votes[i], b.refusal = quorum.Abstained, fmt.Errorf("the master refuses a release: %w", refused)
	default:
		b.votes[i], b.err = quorum.Abstained, refused
	}
}

// readReaders reads the reply to a call that carries readers: what each of them would be answered
// alone.
func (b *batch) readReaders(rounds []int32) error {
	first, err := b.wire.ReadReply()
	if err != nil {
		return err
	}
	word := conn.ErrorIn(first)
	if word == nil && (first.Kind != '*' || first.N != int64(len(rounds))) {
		return conn.ProtocolError(first)
	}
	for _, i := range rounds {
		if word != nil {
			b.note(i, quorum.Unknown, word)
			continue
		}
		reply, err := b.wire.ReadReply()
		if err != nil {
			return err
		}
		v, refused, err := readAcquire(b, command{round: i}, reply)
		if err != nil {
			return err
		}
		b.note(i, v, refused)
	}
	return nil
}

// readArray reads the reply to a script that answers with an array of n elements. Their kinds are those
// of kinds, over and over, and each is given to element, whose error is that a bound does not allow it.
// refused is that, or the error that the master replied in the place of the array or of an element:
// what stands behind it is read all the same, because the next reply follows.
func (b *batch) readArray(first conn.Reply, n int, kinds string, element func(i int, r conn.Reply) error) (refused, err error) {
	switch {
	case first.Kind == '-':
		return conn.ErrorIn(first), nil
	case first.Kind != '*' || first.N != int64(n):
		return nil, conn.ProtocolError(first)
	}
	for i := range n {
		r, err := b.wire.ReadReply()
		var over error
		switch {
		case err != nil:
			return nil, err
		case r.Kind == '-':
			over = conn.ErrorIn(r)
		case r.Kind != kinds[i%len(kinds)]:
			return nil, conn.ProtocolError(r)
		default:
			over = element(i, r)
		}
		if over != nil {
			refused = over
		}
	}
	return refused, nil
}

// readFolded reads the reply to a folded call of releases.
func (b *batch) readFolded(rounds []int32) error {
	reply, err := b.wire.ReadReply()
	if err != nil {
		return err
	}
	word := conn.ErrorIn(reply)
	all := reply.Kind == ':' && reply.N == 1
	if word == nil && !all && (reply.Kind != '$' || len(reply.Text) != len(rounds)) {
		return conn.ProtocolError(reply)
	}
	for position, i := range rounds {
		switch {
		case word != nil:
			b.note(i, quorum.Unknown, word)
		case all:
			b.votes[i] = quorum.Granted
		default:
			if b.votes[i], err = releaseVote(reply.Text[position]); err != nil {
				return err
			}
		}
	}
	return nil
}

// releaseVote reads what lua.Release tells of one key.
func releaseVote(key byte) (quorum.Vote, error) {
	switch key {
	case '1':
		return quorum.Granted, nil
	case '0':
		return quorum.Denied, nil
	case '-':
		return quorum.Absent, nil
	case '.': // too late
		return quorum.Abstained, nil
	}
	return quorum.Unknown, conn.ProtocolError(conn.Reply{Kind: '$', Text: []byte{key}})
}
