package redlock

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/fence"
	"redlockd/redlock/lua"
	"redlockd/redlock/quorum"
)

// The commands of all verbs: how a batch writes each of them, and what the master's reply to it
// means. A writer and its reader stand together; the table verbs says which verb uses which.
//
// Invariant: a reply of a type or a length that the command cannot have is nonsense, and ends the
// connection. Replies may be out of step with commands from there on, so that none of the later
// ones can be believed.

// command writes one whole command.
func (b *batch) command(words ...string) {
	b.wire.Array(len(words))
	for _, word := range words {
		b.wire.Bulk(word)
	}
}

// SET NX PX is what every client of one Redis sends. Its head is written in one piece, since it is
// the most frequent command.
func writeSet(b *batch, r *round) {
	w := b.wire
	w.Out = append(w.Out, "*6\r\n$3\r\nset\r\n"...)
	w.Bulk(r.keys[0])
	w.Bulk(r.token)
	w.Out = append(w.Out, "$2\r\nnx\r\n$2\r\npx\r\n"...)
	w.Number(r.ttlMs)
}

func readSet(_ *batch, _ command, reply conn.Reply) (v quorum.Vote, refused, err error) {
	switch {
	case reply.Kind == '+':
		return quorum.Granted, nil, nil
	case reply.Kind == '-':
		return quorum.Unknown, conn.ErrorIn(reply), nil
	case reply.Kind == '$' && reply.Null:
		return quorum.Denied, nil, nil
	}
	return quorum.Unknown, nil, conn.ProtocolError(reply)
}

// script begins a call of a script with so many keys of ours, resources, and arguments.
func (b *batch) script(s lua.Script, ours, resources, args int) {
	b.wire.Array(3 + ours + resources + args)
	b.wire.Bulk("evalsha")
	b.wire.Bulk(s.SHA)
	b.wire.Number(int64(ours + resources))
}

// resources adds the keys of a script call.
func (b *batch) resources(r *round) {
	for _, key := range r.keys {
		b.wire.Bulk(key)
	}
}

// readScript reads what most scripts answer.
func readScript(b *batch, cmd command, reply conn.Reply) (v quorum.Vote, refused, err error) {
	switch {
	case reply.Kind == '-':
		return quorum.Unknown, conn.ErrorIn(reply), nil
	case reply.Kind != ':':
	case reply.N == 1:
		return quorum.Granted, nil, nil
	case reply.N == 2:
		if v = verbs[b.rounds[cmd.round].verb].two; v != quorum.Pending {
			return v, nil, nil
		}
	case reply.N == 0:
		return quorum.Denied, nil, nil
	case reply.N == -1:
		return quorum.Absent, nil, nil
	case reply.N == lateReply:
		return quorum.Abstained, nil, nil
	}
	return quorum.Unknown, nil, conn.ProtocolError(reply)
}

// An acquisition by script tells apart what SET NX cannot: another's key, the same token's key, and
// which of several keys is in the way. It has a fence, or none.
func writeAcquire(b *batch, r *round) {
	reservation := r.reservation()
	b.script(lua.Acquire, r.fenceKeys(), len(r.keys), 5+min(len(reservation), 1))
	b.resources(r)
	b.acquisition(r)
	if reservation != "" {
		b.wire.Bulk(reservation)
	}
}

// acquisition adds what lua.Acquire and lua.Slot have after the resources. The marks and the floor are
// keys of the call, because a script may only touch keys that it names.
func (b *batch) acquisition(r *round) {
	w := b.wire
	if r.fence != 0 {
		w.Bulk(lua.MarksKey)
		w.Bulk(lua.FloorKey)
	}
	w.Bulk(r.token)
	w.Number(r.ttlMs)
	w.Number(b.lane.fleet.view.Load().longestMs)
	w.Number(r.fence)
	w.Number(int64(b.lane.fleet.opts.FenceMarks))
}

// fenceKeys is how many keys acquisition adds.
func (r *round) fenceKeys() int { return int(2 * min(r.fence, 1)) }

// A refill is an acquisition that grants nothing, of a writer's key or of a reader's place. A version
// also takes the place of those that are over: the script's last argument says so, and in the place of
// a reservation, which there is none of, stands the value itself.
func writeRefill(b *batch, r *round) {
	switch {
	case r.ofReader():
		writeJoin(b, r)
	case isVersion(r.token):
		b.script(lua.Acquire, 0, len(r.keys), 7)
		b.resources(r)
		b.acquisition(r)
		b.wire.Bulk(r.token)
		b.wire.Bulk("1")
	default:
		writeAcquire(b, r)
	}
}

// deniedBy is the reply to an acquisition that the first of its resources has kept from all; for
// the second it is one less, and so on.
const deniedBy = -3

// readAcquire keeps which resource denied the acquisition, where the waiter wants to know: it moves
// to the queue of that resource.
func readAcquire(b *batch, cmd command, reply conn.Reply) (v quorum.Vote, refused, err error) {
	r := b.rounds[cmd.round]
	switch {
	case r.fence != 0 && reply.Kind == ':' && (reply.N == fence.Ahead || reply.N >= r.fence):
		v, refused = b.fenceRefused(r, reply.N)
		return v, refused, nil
	case reply.Kind != ':' || reply.N > deniedBy:
		return readScript(b, cmd, reply)
	}
	if r.answers != nil {
		denier := min(deniedBy-reply.N, int64(len(r.keys)-1))
		b.readings = append(b.readings, reading{round: r, answer: answer{denier: int32(denier)}})
	}
	return quorum.Denied, nil, nil
}

// fenceRefused is the vote of a master that has refused the fence of the round: because of its clock
// (fence.Ahead), or of this mark. It raises round.mark to that, so that the next attempt is above all
// marks that were seen. A mark that no proxy can have made is not believed: one false master would push
// all fences ahead.
func (b *batch) fenceRefused(r *round, mark int64) (v quorum.Vote, refused error) {
	skew := b.lane.fleet.opts.ClockSkewMax
	switch {
	case mark == fence.Ahead:
		return quorum.Unknown, fmt.Errorf("the fence %d is more than %v ahead of the master's clock: a clock of this proxy, of another or of the master is wrong", r.fence, fence.AheadMax)
	case mark > fence.HighestBelieved(time.Now(), skew): //mutant:any-mark-believed
		return quorum.Unknown, fmt.Errorf("its mark or floor, %d, is more than %v ahead of the clock here: see %s and %s on it", mark, fence.AheadMax-skew, lua.FloorKey, lua.MarksKey)
	}
	for seen := r.mark.Load(); seen < mark && !r.mark.CompareAndSwap(seen, mark); seen = r.mark.Load() {
	}
	return quorum.Stale, nil
}

// An extension never brings the end of a key nearer, see moved.lua: so the longest TTL is an
// argument.
func writeExtend(b *batch, r *round) {
	b.script(lua.Extend, 0, len(r.keys), 3)
	b.resources(r)
	b.wire.Bulk(r.token)
	b.wire.Number(r.ttlMs)
	b.wire.Number(b.lane.fleet.view.Load().longestMs)
}

// readExtend keeps a reader's lock and a writer's apart: the caller of an EXTEND does not say which it
// is.
func readExtend(b *batch, cmd command, reply conn.Reply) (v quorum.Vote, refused, err error) {
	if reply.Kind == ':' {
		switch reply.N {
		case 3:
			return quorum.AsReader, nil, nil
		case 4, 5:
			b.rounds[cmd.round].flags.Or(flagPart)
			reply.N = 4 - reply.N
		}
	}
	return readScript(b, cmd, reply)
}

// writeRelease writes a release that is not folded with others, see batch.fold.
func writeRelease(b *batch, r *round) {
	switch native := b.conn.CompareAndDelete; {
	case len(r.keys) > 1 || native == conn.ScriptOnly || r.ofReader() || r.timely():
		b.script(lua.Release, 0, len(r.keys), 2)
		b.resources(r)
		b.latest(r)
		b.wire.Bulk(r.token)
	case native == conn.Delex:
		b.command("delex", r.keys[0], "ifeq", r.token)
	default:
		b.command("delifeq", r.keys[0], r.token)
	}
}

// readRelease reads the reply to DELEX, DELIFEQ or a script.
func readRelease(b *batch, cmd command, reply conn.Reply) (v quorum.Vote, refused, err error) {
	if reply.Kind == '$' && len(reply.Text) == len(b.rounds[cmd.round].keys) {
		v = quorum.Granted
		for _, key := range reply.Text {
			one, err := releaseVote(key)
			switch {
			case err != nil || one == quorum.Abstained:
				return one, nil, err
			case one != quorum.Granted:
				v = quorum.Denied
			}
		}
		return v, nil, nil
	}
	if conn.IsWrongType(conn.ErrorIn(reply)) { // of DELEX: another's key, which does not hold the token
		return quorum.Denied, nil, nil
	}
	return readScript(b, cmd, reply)
}

// The lane knows when its master set the keys, so every master gets an undo of its own: the end of
// the key on that master's clock is an argument.
func writeUndo(b *batch, r *round) {
	a, at := r.attempt.round, r.attempt.setAt[b.lane.index]
	b.script(lua.Undo, 0, len(a.keys), 4*len(a.keys))
	b.resources(a)
	for i := range a.keys {
		value, latest, what, before := a.token, at+a.ttlMs, int64(undoDelete), ""
		if a.commit != nil {
			value, latest, what, before = a.commit.changes[i].undo(at, b.lane.fleet.drift)
		}
		b.wire.Bulk(value)
		b.wire.Number(latest)
		b.wire.Number(what)
		b.wire.Bulk(before)
	}
}

// readUndo counts no keys: an undo that finds nothing to take back has done its work too.
func readUndo(_ *batch, _ command, reply conn.Reply) (v quorum.Vote, refused, err error) {
	switch {
	case reply.Kind == '-':
		return quorum.Unknown, conn.ErrorIn(reply), nil
	case reply.Kind == ':' && reply.N >= 0:
		return quorum.Granted, nil, nil
	}
	return quorum.Unknown, nil, conn.ProtocolError(reply)
}

// The arguments of a commit are five per key: what it must hold, what becomes of it, and for how
// long.
func writeCommit(b *batch, r *round) {
	b.script(lua.Commit, 0, len(r.keys), 5*len(r.keys)+1)
	b.resources(r)
	for i := range r.commit.changes {
		ch := &r.commit.changes[i]
		if ch.Seen != nil && ch.Was == WasValue { //mutant:a-watched-key-is-compared-by-its-value
			b.wire.Bulk(fmt.Sprintf("%d@%d", ch.Was, ch.Seen(b.lane.index)))
		} else {
			b.wire.Number(int64(ch.Was))
		}
		b.wire.Bulk(ch.Value)
		do := int64(ch.Do)
		if ch.Longer { //mutant:a-takeover-brings-the-end-nearer
			do = doSetLonger
		}
		b.wire.Number(do)
		b.wire.Bulk(ch.NewValue)
		b.wire.Number(ch.askedMs(b.lane.fleet.drift))
	}
	b.latest(r)
}

// A reading of several keys is one script call, so that one master's answer is of one moment.
func writeRead(b *batch, r *round) {
	asks := 0
	if r.watches() {
		asks = 1
	}
	b.script(lua.Read, 0, len(r.keys), asks)
	b.resources(r)
	if asks > 0 {
		b.wire.Bulk("1")
	}
}

// readRead reads the reply of lua.Read: an array of three elements for each key, or four.
func readRead(b *batch, cmd command, first conn.Reply) (v quorum.Vote, refused, err error) {
	r := b.rounds[cmd.round]
	keys := make([]answer, len(r.keys))
	kinds := "$$:"
	if r.watches() {
		kinds = "$$::"
	}
	n := len(kinds)
	refused, err = b.readArray(first, n*len(keys), kinds, func(i int, element conn.Reply) (over error) {
		a := &keys[i/n]
		switch i % n {
		case 0:
			a.kind = conn.Sanitize(string(element.Text))
		case 1:
			a.value, over = b.keep(element)
		case 3:
			a.ends = element.N
		default:
			a.lives(element)
			if !a.found {
				a.kind, a.value = "none", ""
			}
		}
		return over
	})
	if refused != nil || err != nil {
		return quorum.Unknown, refused, err
	}
	b.readings = append(b.readings, reading{round: r, answer: answer{keys: keys}})
	return quorum.Granted, nil, nil
}

// writeReading asks for value, TTL and mark of a key. Of a reader's lock, the value is its place in the
// set of readers.
func writeReading(b *batch, r *round) {
	if r.ofReader() {
		b.command("zscore", r.keys[0], readerPrefix+r.token)
	} else {
		b.command("get", r.keys[0])
	}
	b.command("pttl", r.keys[0])
	b.command("zscore", lua.MarksKey, r.keys[0])
}

// readReading reads all three replies also where the first ones are errors, so that the next
// command's reply is next.
func readReading(b *batch, cmd command, reply conn.Reply) (v quorum.Vote, refused, err error) {
	// Not into the round yet: if the watchdog has given this batch up, the round is decided, and its
	// answers are being read.
	b.readings = append(b.readings, reading{round: b.rounds[cmd.round]})
	a := &b.readings[len(b.readings)-1].answer
	v, a.known = quorum.Absent, true
	for i, what := range []string{"value", "ttl", "mark"} {
		if i > 0 {
			if reply, err = b.wire.ReadReply(); err != nil {
				return quorum.Unknown, nil, err
			}
		}
		switch {
		case reply.Kind == '-' && what == "value" && conn.IsWrongType(conn.ErrorIn(reply)): // readers, or a writer where one was looked for
			a.found = !b.readings[len(b.readings)-1].round.ofReader()
			a.ofReaders = a.found
		case reply.Kind == '-':
			a.err = conn.ErrorIn(reply)
		case reply.Kind != ':' && what == "ttl" || reply.Kind != '$' && what != "ttl":
			return quorum.Unknown, nil, conn.ProtocolError(reply)
		case what == "value":
			a.found = !reply.Null
			a.value, a.err = b.keep(reply)
		case what == "ttl":
			a.ttl = time.Duration(reply.N) * time.Millisecond
			a.found = a.found && reply.N != -2
		case !reply.Null:
			a.mark, a.err = b.markIn(reply.Text)
		}
	}
	if a.err != nil {
		return quorum.Unknown, a.err, nil
	}
	if a.found {
		v = quorum.Granted
	}
	return v, nil, nil
}

// LOCKINFO asks by a script, which also counts the readers.
func writeInspect(b *batch, r *round) {
	b.script(lua.Inspect, 0, 2, 0)
	b.wire.Bulk(lua.MarksKey)
	b.resources(r)
}

func readInspect(b *batch, cmd command, first conn.Reply) (v quorum.Vote, refused, err error) {
	a := answer{known: true}
	refused, err = b.readArray(first, 5, "$$:$:", func(i int, element conn.Reply) (over error) {
		switch i {
		case 0:
			a.kind = conn.Sanitize(string(element.Text))
		case 1:
			a.value, over = b.keep(element)
		case 2:
			a.lives(element)
		case 3:
			if len(element.Text) > 0 {
				a.mark, over = b.markIn(element.Text)
			}
		default:
			a.ofReaders, a.readers = element.N >= 0, int32(max(0, element.N))
		}
		return over
	})
	if a.found && !a.ofReaders && a.kind != "string" && refused == nil { //mutant:a-strangers-key-is-shown-as-a-lock
		refused = conn.Error("WRONGTYPE the resource is a " + a.kind + " that redlockd has not written")
	}
	switch {
	case refused != nil || err != nil:
		return quorum.Unknown, refused, err
	case a.found:
		v = quorum.Granted
	default:
		v = quorum.Absent
	}
	b.readings = append(b.readings, reading{round: b.rounds[cmd.round], answer: a})
	return v, nil, nil
}

// markIn is the mark of a resource's last fence.
func (b *batch) markIn(text []byte) (int64, error) {
	score, err := strconv.ParseFloat(string(text), 64)
	mark, ok := fence.Of(score)
	if skew := b.lane.fleet.opts.ClockSkewMax; err != nil || !ok || mark > fence.Highest(time.Now(), skew) { //mutant:a-false-mark-shown
		return 0, errors.New(fence.FalseFences("mark in "+lua.MarksKey, conn.Sanitize(string(text)), skew))
	}
	return mark, nil
}

// keep makes a string of the value that was read last, within the bound of a batch.
func (b *batch) keep(reply conn.Reply) (string, error) {
	if b.kept += len(reply.Text); b.kept > readingsMax {
		return "", conn.Error(fmt.Sprintf("ERR the values that were asked for together have more than %d bytes", readingsMax))
	}
	return string(reply.Text), nil
}

// An observation of a writer that waits for readers is one script call, which also announces it.
func writeAnnounce(b *batch, r *round) {
	b.script(lua.Announce, 0, 1, 2)
	b.resources(r)
	b.wire.Number(intentLife.Milliseconds())
	b.wire.Number(intentFresh.Milliseconds())
}

func writeWithdraw(b *batch, r *round) {
	b.script(lua.Withdraw, 0, 1, 0)
	b.resources(r)
}

func readAnnounce(b *batch, cmd command, first conn.Reply) (v quorum.Vote, refused, err error) {
	a := answer{known: true}
	refused, err = b.readArray(first, 2, "$:", func(i int, element conn.Reply) error {
		if i == 0 {
			a.kind = conn.Sanitize(string(element.Text))
		} else {
			a.lives(element)
		}
		return nil
	})
	if refused != nil || err != nil {
		return quorum.Unknown, refused, err
	}
	a.ofReaders = a.kind == "zset"
	b.readings = append(b.readings, reading{round: b.rounds[cmd.round], answer: a})
	return quorum.Granted, nil, nil
}

// arm has the master announce the next change of what the next command reads, where it can.
func (b *batch) arm() {
	if b.lane.tracks() {
		b.command("client", "caching", "yes")
		b.commands[len(b.commands)-1].arms = true
	}
}

// readArmed reads the reply to CLIENT CACHING, and returns the one behind it. Where it was refused, the
// waiter asks again by itself.
func (b *batch) readArmed(first conn.Reply) (armed bool, _ conn.Reply, err error) {
	if first.Kind != '+' && first.Kind != '-' {
		return false, conn.Reply{}, conn.ProtocolError(first)
	}
	armed = first.Kind == '+' // an ACL may refuse it
	first, err = b.wire.ReadReply()
	return armed, first, err
}

// A script is stored whether or not the name is taken: equal names mean equal scripts.
func writeStoreScript(b *batch, r *round) {
	b.command("set", r.keys[0], r.token, "px", strconv.FormatInt(r.ttlMs, 10))
}

// A message is published on every master. Receivers drop the copies, see publish.go.
func writePublish(b *batch, r *round) {
	b.command("publish", r.keys[0], r.token)
}

// readOnly reads the reply to a command that has only one kind of reply.
func readOnly(kind byte) func(b *batch, cmd command, reply conn.Reply) (v quorum.Vote, refused, err error) {
	return func(_ *batch, _ command, reply conn.Reply) (v quorum.Vote, refused, err error) {
		switch reply.Kind {
		case kind:
			return quorum.Granted, nil, nil
		case '-':
			return quorum.Unknown, conn.ErrorIn(reply), nil
		}
		return quorum.Unknown, nil, conn.ProtocolError(reply)
	}
}
