package redlock

import (
	"errors"
	"fmt"
	"time"

	"redlockd/redlock/quorum"
)

// The reading side of a batch: the replies to its pipeline, in order, become votes. An error means
// that the connection is of no more use.

// readAll reads the replies to the pipeline, and the votes in them.
func (b *batch) readAll() error {
	c := b.lane.client
	var err error
	for i := 0; err == nil && i < len(b.commands); i++ {
		err = b.readCommand(b.commands[i])
	}
	var end trailer
	if err == nil {
		end, err = b.wire.readTrailer(b.lane.guard.shown)
	}
	if err == nil && !b.wire.in.Drained() && b.lane.last(b) {
		err = errors.New("the master replies more than it was asked")
	}
	if err == nil {
		if b.open < len(b.sets) {
			b.marked(end.clock.UnixMilli())
		}
		result := b.lane.guard.judge(end, c.readingOf(b.sent, time.Now(), end.clock), c)
		if b.judged {
			result = b.guardResult.merge(result)
		}
		b.guardResult, b.judged = result, true
		err = result.err
	}
	if err == nil {
		for _, i := range b.bare {
			b.votes[i] = quorum.Granted
		}
		return b.refusal
	}
	// Votes that came over a connection that then failed do not count: nothing closed their batch.
	b.sets = b.sets[:0]
	for _, command := range b.commands {
		if command.round >= 0 {
			b.votes[command.round] = quorum.Unknown
		}
		for _, i := range b.folded[command.from:command.to] {
			b.votes[i] = quorum.Unknown
		}
	}
	return b.timely(err)
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
		clock, err := b.wire.readTime()
		b.marked(clock.UnixMilli())
		return err
	}
	i := command.round
	first, err := b.wire.readReply()
	if err != nil {
		return err
	}
	v, refused, err := verbs[b.rounds[i].verb].read(b, command, first)
	if err != nil {
		return err
	}
	if r := b.rounds[i]; r.attempt != nil && r.attempts() && (v == quorum.Granted || v == quorum.AsReader) { //mutant:a-failed-takeover-of-a-reader-stays
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
	case isNoScript(refused):
		b.lost = append(b.lost, i)
	case verbs[b.rounds[i].verb].release:
		// Never shed a release: the connection is given up, and the next one delivers it
		// (master_pending.go).
		b.votes[i], b.refusal = quorum.Abstained, fmt.Errorf("the master refuses a release: %w", refused)
	default:
		b.votes[i], b.err = quorum.Abstained, refused
	}
}

// readReaders reads the reply to a call that carries readers: what each of them would be answered alone.
func (b *batch) readReaders(rounds []int32) error {
	first, err := b.wire.readReply()
	if err != nil {
		return err
	}
	word := errorIn(first)
	if word == nil && (first.Kind != '*' || first.N != int64(len(rounds))) {
		return nonsense(first)
	}
	for _, i := range rounds {
		if word != nil {
			b.note(i, quorum.Unknown, word)
			continue
		}
		reply, err := b.wire.readReply()
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

// readArray reads the reply to a script that answers with an array of n elements. Their kinds are those of kinds, over and over, and each is
// given to element, whose error is that a bound does not allow it. refused is that, or the error that the master replied in the place of the
// array or of an element: what stands behind it is read all the same, because the next reply follows.
func (b *batch) readArray(first reply, n int, kinds string, element func(i int, r reply) error) (refused, err error) {
	switch {
	case first.Kind == '-':
		return errorIn(first), nil
	case first.Kind != '*' || first.N != int64(n):
		return nil, nonsense(first)
	}
	for i := range n {
		r, err := b.wire.readReply()
		var over error
		switch {
		case err != nil:
			return nil, err
		case r.Kind == '-':
			over = errorIn(r)
		case r.Kind != kinds[i%len(kinds)]:
			return nil, nonsense(r)
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
	reply, err := b.wire.readReply()
	if err != nil {
		return err
	}
	word := errorIn(reply)
	all := reply.Kind == ':' && reply.N == 1
	if word == nil && !all && (reply.Kind != '$' || len(reply.Text) != len(rounds)) {
		return nonsense(reply)
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
	return quorum.Unknown, nonsense(reply{Kind: '$', Text: []byte{key}})
}
