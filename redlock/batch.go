package redlock

import (
	"context"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/redis/go-redis/v9"
)

// foldMax bounds the releases folded into one script call: Lua's unpack has a limit, and the master serves nobody else while
// it runs one.
const foldMax = 256

// batch turns rounds into one pipeline and its replies into votes. One lane uses one batch over and over, with the command
// objects in it: a pipeline of n acquisitions costs a few allocations, not n.
type batch struct {
	lane   *lane
	link   *link
	rounds []*round
	votes  []vote  // of rounds, voteUnknown until the master has replied
	err    error   // the last error a master replied to an acquisition, extension or reading
	found  finding // by the checks that closed the pipeline

	ctx     deadline
	closing closing
	cmds    []redis.Cmder
	refs    []ref // where the reply to each round is

	sets        []*setCommand
	scripts     []*scriptCommand
	readings    []reading // answers to verbRead
	setsUsed    int
	scriptsUsed int
	foldArgs    []any

	// The segment under construction: releases go first, folded, then the others in their order.
	releases, others []int32
	touched          touched
}

// reading is what the master answered to a verbRead.
type reading struct {
	round  *round
	answer answer
}

// ref says that the reply to a round is in command cmd of the pipeline, and, of a folded release, at which position.
type ref struct{ cmd, position int32 }

func newBatch(l *lane, link *link) *batch {
	b := &batch{lane: l, link: link, ctx: deadline{Context: context.Background()}, touched: touched{seed: maphash.MakeSeed()}}
	b.closing = newClosing(&b.ctx)
	return b
}

// exec sends the rounds and fills in the votes. An error means that the connection is of no more use: the votes that it left
// unknown, and the releases that were refused, have to be cleared up on the next one.
func (b *batch) exec() error {
	b.votes, b.refs, b.readings, b.found = b.votes[:0], b.refs[:0], b.readings[:0], finding{counts: true}
	defer func() {
		if !b.found.counts {
			for i, r := range b.rounds {
				b.votes[i] = b.votes[i].uncounted(r.verb)
			}
		}
	}()
	for range b.rounds {
		b.votes = append(b.votes, voteUnknown)
		b.refs = append(b.refs, ref{})
	}
	b.begin()
	for i := range b.rounds {
		b.add(int32(i))
	}
	lost, err := b.send(nil)
	if err != nil || len(lost) == 0 {
		return err
	}
	// The master has lost our scripts (SCRIPT FLUSH). NOSCRIPT means that nothing was executed: load and repeat.
	b.ctx.at = time.Now().Add(b.lane.client.opts.ConnectTimeout)
	if err := b.link.load(&b.ctx); err != nil {
		return fmt.Errorf("load scripts again: %w", err)
	}
	b.begin()
	for _, i := range lost {
		b.add(i)
	}
	if lost, err = b.send(lost); err == nil && len(lost) > 0 {
		err = fmt.Errorf("the master forgets scripts as soon as they are loaded")
	}
	return err
}

func (b *batch) begin() {
	b.cmds = b.cmds[:0]
	b.setsUsed, b.scriptsUsed = 0, 0
	b.foldArgs = b.foldArgs[:0]
}

// add puts a round into the segment. Releases are hoisted to its front, where they can be folded into one call; so a release
// whose key an earlier round of the segment touches must not enter it: it would overtake that round.
func (b *batch) add(i int32) {
	r := b.rounds[i]
	if r.verb == verbRelease {
		for _, key := range r.keys {
			if b.touched.has(key) {
				b.emit()
				break
			}
		}
	}
	for _, key := range r.keys {
		b.touched.add(key)
	}
	if r.verb == verbRelease && len(r.keys) == 1 {
		b.releases = append(b.releases, i)
	} else {
		b.others = append(b.others, i)
	}
}

// emit turns the segment into commands.
func (b *batch) emit() {
	for start := 0; start < len(b.releases); start += foldMax {
		b.fold(b.releases[start:min(start+foldMax, len(b.releases))])
	}
	for _, i := range b.others {
		b.refs[i].cmd = int32(len(b.cmds))
		b.single(b.rounds[i])
	}
	b.releases, b.others = b.releases[:0], b.others[:0]
	b.touched.reset()
}

// fold makes one script call of many releases. The arguments point into the rounds, which stay as they are while in flight.
func (b *batch) fold(releases []int32) {
	start := len(b.foldArgs)
	b.foldArgs = append(b.foldArgs, "evalsha", scriptRelease.sha, len(releases))
	for position, i := range releases {
		b.refs[i] = ref{int32(len(b.cmds)), int32(position)}
		b.foldArgs = append(b.foldArgs, &b.rounds[i].keys[0])
	}
	for _, i := range releases {
		b.foldArgs = append(b.foldArgs, &b.rounds[i].token)
	}
	b.cmds = append(b.cmds, redis.NewStringCmd(&b.ctx, b.foldArgs[start:len(b.foldArgs):len(b.foldArgs)]...))
}

func (b *batch) single(r *round) {
	switch {
	case r.verb == verbSet:
		if b.setsUsed == len(b.sets) {
			b.sets = append(b.sets, newSetCommand(&b.ctx))
		}
		b.cmds = append(b.cmds, b.sets[b.setsUsed].ready(r))
		b.setsUsed++
	case r.verb == verbRead:
		b.cmds = append(b.cmds,
			redis.NewStringCmd(&b.ctx, "get", &r.keys[0]),
			redis.NewIntCmd(&b.ctx, "pttl", &r.keys[0]),
			redis.NewFloatCmd(&b.ctx, "zscore", marksKey, &r.keys[0]))
	case len(r.keys) == 1 && r.verb != verbFence:
		if b.scriptsUsed == len(b.scripts) {
			b.scripts = append(b.scripts, newScriptCommand(&b.ctx))
		}
		b.cmds = append(b.cmds, b.scripts[b.scriptsUsed].ready(r))
		b.scriptsUsed++
	default:
		args := make([]any, 0, 5+len(r.keys)+4)
		args = append(args, "evalsha", r.script().sha)
		if r.verb == verbFence {
			args = append(args, 2+len(r.keys), marksKey, floorKey)
		} else {
			args = append(args, len(r.keys))
		}
		for i := range r.keys {
			args = append(args, &r.keys[i])
		}
		args = append(args, &r.token, &r.ttlMs)
		if r.verb == verbFence {
			args = append(args, &r.fence, b.lane.client.opts.FenceMarks)
		}
		b.cmds = append(b.cmds, redis.NewIntCmd(&b.ctx, args...))
	}
}

// script is the one that carries out the round where it takes one of its own.
func (r *round) script() script {
	switch r.verb {
	case verbAcquire:
		return scriptAcquire
	case verbFence:
		return scriptFence
	case verbExtend:
		return scriptExtend
	}
	return scriptRelinquish
}

// send runs the pipeline and reads the votes of the rounds in only, or of all when that is nil. It returns the rounds
// whose script the master did not know.
func (b *batch) send(only []int32) (lost []int32, err error) {
	b.emit()
	// The watch gives the votes up after MasterTimeout; the connection gets longer, for a late answer is better than a new one.
	b.ctx.at = time.Now().Add(b.lane.client.opts.ConnectTimeout)
	pipe := b.link.conn.Pipeline()
	b.cmds = b.closing.appendTo(b.cmds)
	pipe.BatchProcess(&b.ctx, b.cmds...)
	sent := time.Now()
	pipe.Exec(&b.ctx)
	// go-redis stamps a failure of the connection on every command, also on those that were answered before it. Votes that
	// came over a connection that then failed do not count: nothing closed their batch.
	if err := b.closing.time.Err(); !replied(err) {
		if isTimeout(err) {
			err = fmt.Errorf("no answer within %v", b.lane.client.opts.ConnectTimeout)
		}
		return nil, err
	}
	found := b.lane.guard.close(&b.closing, b.lane.client, sent, time.Now())
	if b.found.counts {
		b.found = found
	}
	if found.err != nil {
		return nil, found.err
	}
	read := func(i int32) {
		r := b.rounds[i]
		vote, e := b.read(r, b.refs[i])
		switch {
		case isNoScript(e):
			lost = append(lost, i)
		case e != nil && r.verb == verbRelease:
			// Never shed a release: the connection is given up, and the next one delivers it.
			vote, err = voteAbstained, fmt.Errorf("the master refuses a release: %w", e)
		case e != nil:
			vote, b.err = voteAbstained, e
		}
		b.votes[i] = vote
	}
	if only == nil {
		for i := range b.rounds {
			read(int32(i))
		}
	}
	for _, i := range only {
		read(i)
	}
	return lost, err
}

// read turns the reply to a round into a vote, or returns the error that the master replied.
func (b *batch) read(r *round, at ref) (vote, error) {
	cmd := b.cmds[at.cmd]
	if r.verb == verbRead {
		return b.readAnswer(r, cmd.(*redis.StringCmd), b.cmds[at.cmd+1].(*redis.IntCmd), b.cmds[at.cmd+2].(*redis.FloatCmd))
	}
	if err := cmd.Err(); err != nil {
		return voteUnknown, err
	}
	switch cmd := cmd.(type) {
	case *redis.BoolCmd:
		if cmd.Val() {
			return voteGranted, nil
		}
		return voteDenied, nil
	case *redis.StringCmd:
		if reply := cmd.Val(); int(at.position) < len(reply) {
			switch reply[at.position] {
			case '1':
				return voteGranted, nil
			case '0':
				return voteDenied, nil
			case '-':
				return voteAbsent, nil
			}
		}
	case *redis.IntCmd:
		switch reply := cmd.Val(); reply {
		case 1:
			return voteGranted, nil
		case 2:
			return voteMine, nil
		case 0:
			return voteDenied, nil
		case -1:
			return voteAbsent, nil
		case -2:
			return voteUnknown, fmt.Errorf("the fence %d is more than %v ahead of the master's clock: a clock of this proxy, of another or of the master is wrong", r.fence, fenceAheadMax)
		default:
			if r.verb == verbFence && reply >= r.fence {
				for seen := r.mark.Load(); seen < reply && !r.mark.CompareAndSwap(seen, reply); seen = r.mark.Load() {
				}
				return voteStale, nil
			}
		}
	}
	return voteUnknown, fmt.Errorf("the master's reply to a script makes no sense: %v", cmd)
}

func (b *batch) readAnswer(r *round, value *redis.StringCmd, ttl *redis.IntCmd, mark *redis.FloatCmd) (vote, error) {
	// Not into the round yet: if the watch has given this batch up, the round is decided, and its answers are being read.
	b.readings = append(b.readings, reading{round: r})
	a := &b.readings[len(b.readings)-1].answer
	if a.err = mark.Err(); a.err != nil && a.err != redis.Nil {
		return voteUnknown, a.err
	}
	a.mark = int64(mark.Val())
	if a.err = value.Err(); a.err != nil && a.err != redis.Nil {
		return voteUnknown, a.err
	}
	if a.err = ttl.Err(); a.err != nil {
		return voteUnknown, a.err
	}
	switch ms := ttl.Val(); {
	case value.Err() == redis.Nil || ms == -2:
		return voteAbsent, nil
	default:
		a.found, a.value, a.ttl = true, value.Val(), time.Duration(ms)*time.Millisecond
		return voteGranted, nil
	}
}

// setCommand is a SET NX PX that is used again and again. go-redis keeps the arguments by reference.
type setCommand struct {
	*redis.BoolCmd
	key, token string
	ttlMs      int64
}

func newSetCommand(ctx context.Context) *setCommand {
	c := new(setCommand)
	c.BoolCmd = redis.NewBoolCmd(ctx, "set", &c.key, &c.token, "nx", "px", &c.ttlMs)
	return c
}

func (c *setCommand) ready(r *round) redis.Cmder {
	c.key, c.token, c.ttlMs = r.keys[0], r.token, r.ttlMs
	c.SetErr(nil)
	c.SetVal(false)
	return c.BoolCmd
}

// scriptCommand is an EVALSHA over one key that is used again and again.
type scriptCommand struct {
	*redis.IntCmd
	sha, key, token string
	ttlMs           int64
}

func newScriptCommand(ctx context.Context) *scriptCommand {
	c := new(scriptCommand)
	c.IntCmd = redis.NewIntCmd(ctx, "evalsha", &c.sha, 1, &c.key, &c.token, &c.ttlMs)
	return c
}

func (c *scriptCommand) ready(r *round) redis.Cmder {
	c.sha, c.key, c.token, c.ttlMs = r.script().sha, r.keys[0], r.token, r.ttlMs
	c.SetErr(nil)
	c.SetVal(0)
	return c.IntCmd
}

// touched is a set of keys that may say yes by mistake, which costs a segment break, and never no by mistake.
type touched struct {
	seed maphash.Seed
	bits [64]uint64
	any  bool
}

func (t *touched) slot(key string) (word, bit uint64) {
	h := maphash.String(t.seed, key) & 4095
	return h >> 6, 1 << (h & 63)
}

func (t *touched) add(key string) {
	word, bit := t.slot(key)
	t.bits[word] |= bit
	t.any = true
}

func (t *touched) has(key string) bool {
	if !t.any {
		return false
	}
	word, bit := t.slot(key)
	return t.bits[word]&bit != 0
}

func (t *touched) reset() {
	if t.any {
		t.bits, t.any = [64]uint64{}, false
	}
}

// deadline is a context that only carries a deadline: go-redis turns it into a deadline of the connection. Unlike one of
// package context it can be used again for every batch, and needs no timer.
type deadline struct {
	context.Context
	at time.Time
}

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }
