package redlock

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// The reading side of a batch: the replies to its pipeline, in order, become votes. An error means that the connection is of no more use.

// hearAll reads the replies to the pipeline, and the votes in them.
func (b *batch) hearAll() error {
	c := b.lane.client
	var err error
	for i := 0; err == nil && i < len(b.commands); i++ {
		err = b.hearCommand(b.commands[i])
	}
	var end closing
	if err == nil {
		end, err = b.wire.hearClosing(b.lane.guard.epoch, c.fingerprint)
	}
	if err == nil && !b.wire.drained() && b.lane.last(b) {
		err = errors.New("the master replies more than it was asked")
	}
	if err == nil {
		b.marked(end.clock.UnixMilli())
		found := b.lane.guard.close(end, c, b.sent, time.Now())
		b.found = b.found.and(found)
		err = found.err
	}
	if err == nil {
		return b.refusal
	}
	// Votes that came over a connection that then failed do not count: nothing closed their batch.
	b.sets = b.sets[:0]
	for _, command := range b.commands {
		if command.round >= 0 {
			b.votes[command.round] = voteUnknown
		}
		for _, i := range b.folded[command.from:command.to] {
			b.votes[i] = voteUnknown
		}
	}
	return b.timely(err)
}

// hearCommand reads the reply to a command, and turns it into votes. An error means that the connection is of no more use.
func (b *batch) hearCommand(command command) error {
	switch command.round {
	case -1:
		return b.hearReleases(b.folded[command.from:command.to])
	case clockMark:
		clock, err := b.wire.hearClock()
		b.marked(clock.UnixMilli())
		return err
	}
	i := command.round
	r := b.rounds[i]
	if r.verb == verbRead {
		if command.arms {
			armed, err := b.wire.next()
			switch {
			case err != nil:
				return err
			case armed.kind != '+' && armed.kind != '-':
				return nonsense(armed)
			}
			command.arms = armed.kind == '+' // an ACL may refuse it
		}
		vote, word, err := b.hearReading(r)
		b.readings[len(b.readings)-1].answer.armed = command.arms
		b.note(i, vote, word)
		return err
	}
	reply, err := b.wire.next()
	switch {
	case err != nil:
		return err
	case reply.kind == '*' && r.verb == verbStates && reply.n == int64(3*len(r.keys)):
		vote, word, err := b.hearStates(r)
		b.note(i, vote, word)
		return err
	case reply.kind == '*':
		return nonsense(reply)
	}
	vote, word := voteUnknown, reply.err()
	switch {
	case r.verb == verbRelease && isWrongType(word): // of DELEX: a stranger's key, which does not hold the token
		vote, word = voteDenied, nil
	case word != nil:
	case r.verb == verbSet:
		vote, word = readSet(reply)
	case r.verb == verbPublish && reply.kind == ':' || r.verb == verbShare && reply.kind == '+':
		vote = voteGranted
	case r.verb == verbPublish || r.verb == verbShare:
		return nonsense(reply)
	default:
		vote, word = r.readScript(reply, b.lane.client.opts.ClockSkewMax)
		if vote == voteDenied && r.verb.acquires() && r.answers != nil {
			b.readings = append(b.readings, reading{round: r, answer: answer{denier: r.denier(reply)}})
		}
	}
	if isRefused(word) {
		return word
	}
	if vote == voteGranted && r.attempts() {
		b.sets = append(b.sets, setKey{round: i})
	}
	b.note(i, vote, word)
	return nil
}

// marked takes note of the master's clock. What was set since the last mark was set between the two. Where that is longer than endSlack,
// the undo is for what was set soon after the last mark, and leaves alone what was set later.
func (b *batch) marked(clockMs int64) {
	for i := b.open; i < len(b.sets); i++ {
		if clockMs >= b.clockMs { // else the clock was set back
			b.sets[i].at = min(clockMs, b.clockMs+endSlackMs) //mutant:the-undo-goes-by-the-trailer-alone
		}
	}
	b.open, b.clockMs = len(b.sets), clockMs
}

// note keeps the vote of a round. word is the error that the master replied in the place of one.
func (b *batch) note(i int32, v vote, word error) {
	switch {
	case word == nil:
		b.votes[i] = v
	case isNoScript(word):
		b.lost = append(b.lost, i)
	case b.rounds[i].verb == verbRelease:
		// Never shed a release: the connection is given up, and the next one delivers what is owed (master_pending.go).
		b.votes[i], b.refusal = voteAbstained, fmt.Errorf("the master refuses a release: %w", word)
	default:
		b.votes[i], b.err = voteAbstained, word
	}
}

// hearReleases reads the reply to a folded call.
func (b *batch) hearReleases(rounds []int32) error {
	reply, err := b.wire.next()
	if err != nil {
		return err
	}
	word := reply.err()
	all := reply.kind == ':' && reply.n == 1
	if word == nil && !all && (reply.kind != '$' || len(reply.text) != len(rounds)) {
		return nonsense(reply)
	}
	for position, i := range rounds {
		switch {
		case word != nil:
			b.note(i, voteUnknown, word)
		case all || reply.text[position] == '1':
			b.votes[i] = voteGranted
		case reply.text[position] == '0':
			b.votes[i] = voteDenied
		case reply.text[position] == '-':
			b.votes[i] = voteAbsent
		default:
			return nonsense(reply)
		}
	}
	return nil
}

func readSet(reply reply) (vote, error) {
	switch {
	case reply.kind == '+':
		return voteGranted, nil
	case reply.null:
		return voteDenied, nil
	}
	return voteUnknown, nonsense(reply)
}

// readScript turns the reply to a script of its own into the vote of the round.
func (r *round) readScript(reply reply, skew time.Duration) (vote, error) {
	if reply.kind != ':' {
		return voteUnknown, nonsense(reply)
	}
	if r.verb == verbUndo && reply.n >= 0 {
		return voteGranted, nil
	}
	switch reply.n {
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
	}
	if r.verb.acquires() && reply.n <= deniedBy {
		return voteDenied, nil
	}
	if r.verb == verbFence && reply.n >= r.fence && reply.n > highestBelieved(time.Now(), skew) { //mutant:any-mark-believed
		return voteUnknown, fmt.Errorf("its mark or floor, %d, is more than %v ahead of the clock here: see %s and %s on it", reply.n, fenceAheadMax-skew, floorKey, marksKey)
	}
	if r.verb == verbFence && reply.n >= r.fence {
		for seen := r.mark.Load(); seen < reply.n && !r.mark.CompareAndSwap(seen, reply.n); seen = r.mark.Load() {
		}
		return voteStale, nil
	}
	return voteUnknown, nonsense(reply)
}

// deniedBy is the reply to an acquisition that the first of its resources has kept from all; for the second it is one less, and so on.
const deniedBy = -3

// denier is the index of the resource that has kept a round from all.
func (r *round) denier(reply reply) int32 {
	return int32(min(max(deniedBy-reply.n, 0), int64(len(r.keys)-1)))
}

// hearReading reads value, TTL and mark of a key.
func (b *batch) hearReading(r *round) (v vote, word, err error) {
	// Not into the round yet: if the watch has given this batch up, the round is decided, and its answers are being read.
	b.readings = append(b.readings, reading{round: r})
	a := &b.readings[len(b.readings)-1].answer
	v, a.known = voteAbsent, true
	for _, what := range []string{"value", "ttl", "mark"} {
		reply, err := b.wire.next()
		switch {
		case err != nil:
			return voteUnknown, nil, err
		case reply.kind == '-':
			a.err = reply.err()
		case reply.kind != ':' && what == "ttl" || reply.kind != '$' && what != "ttl":
			return voteUnknown, nil, nonsense(reply)
		case what == "value":
			a.found = !reply.null
			a.value, a.err = b.keep(reply)
		case what == "ttl":
			a.ttl = time.Duration(reply.n) * time.Millisecond
			a.found = a.found && reply.n != -2
		case !reply.null:
			score, err := strconv.ParseFloat(string(reply.text), 64)
			mark, ok := fenceOf(score)
			if skew := b.lane.client.opts.ClockSkewMax; err != nil || !ok || mark > highestFence(time.Now(), skew) { //mutant:a-false-mark-shown
				a.err = errors.New(falseFences("mark in "+marksKey, shown(string(reply.text)), skew))
				continue
			}
			a.mark = mark
		}
	}
	if a.err != nil {
		return voteUnknown, a.err, nil
	}
	if a.found {
		v = voteGranted
	}
	return v, nil, nil
}

// keep makes a value that was read last, within the bound of a batch.
func (b *batch) keep(reply reply) (string, error) {
	if b.kept += len(reply.text); b.kept > readingsMax {
		return "", masterError(fmt.Sprintf("ERR the values that were asked for together have more than %d bytes", readingsMax))
	}
	return string(reply.text), nil
}

// nonsense is for a reply of a type or a length that the command cannot have. Replies may be out of step with commands, so none that
// follows on the connection can be believed either.
func nonsense(reply reply) error {
	return senseless("%c%d %q", reply.kind, reply.n, shown(string(reply.text)))
}
