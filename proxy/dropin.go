package proxy

import (
	"slices"
	"time"

	"redlockd/proxy/keyspace"
	"redlockd/redlock"
)

// The Redis commands on keys by which libraries lock that were written for one instance. Package
// keyspace says what a command does to its keys; exchange.go executes it.
//
// A command is executed in order behind those before it from the same client: the lanes of the engine
// keep single rounds in order; of a command that may take several, order.go says what stays behind it.

// cmdKeys executes any command of package keyspace, or queues it behind MULTI.
func cmdKeys(s *session, c *call) error {
	command, text := keyspace.Parse(c.cmd.name, copyStrings(make([]string, 0, len(c.args)-1), c.args[1:]))
	keys := command.Keys()
	var refusal error
	switch {
	case text != "":
		refusal = replyError(text)
	case len(keys) > redlock.MaxResources: // one that comes again counts: it is answered again
		refusal = errorf("ERR %d resources are named, at most %d are possible", len(keys), redlock.MaxResources)
	}
	switch {
	case refusal != nil:
		return s.transaction.refuse(refusal)
	case s.transaction.open:
		return s.transaction.queue(c, command)
	}
	x := &keysProgram{command: command}
	x.program, x.keys = x, distinct(keys)
	x.enter(c, turnOf(command), !command.Writes() || command.AsksHolder())
	return nil
}

// turnOf is the turn of a command on keys. One that assumes what its keys hold, and has its answer if
// they do not hold that, takes one round.
func turnOf(command *keyspace.Command) turn {
	t := turn{reads: !command.Writes(), rounds: command.Writes() && command.Denied() == nil}
	if assumed := command.Assumed(1); assumed != nil {
		t.acquires, t.words = !assumed[0].Found, []string{assumed[0].Value}
		if t.acquires {
			t.words = nil
		}
	}
	return t
}

// keysProgram is a command on keys in progress.
type keysProgram struct {
	exchange
	command *keyspace.Command
}

// assume implements program. If a lease of this redlockd most likely holds the key of a SET NX GET, a
// commit would most likely be denied, and the client asks for the holder's token: reading first saves a
// round.
func (x *keysProgram) assume() bool {
	x.states = x.command.Assumed(len(x.keys))
	if x.states == nil || x.command.AsksHolder() && x.s.server.opts.Engine.Known(nil, x.keys)[0].Found {
		return false
	}
	x.run()
	return true
}

// run implements program.
func (x *keysProgram) run() {
	space := x.space(time.Now())
	reply, err := space.Do(x.command)
	x.ran(space, reply, err)
}

// committed implements program.
func (x *keysProgram) committed(held bool) bool {
	if denied := x.command.Denied(); !held && denied != nil {
		x.outcome.reply, held = *denied, true
	}
	return held
}

// recheck implements program. The client of SET NX GET takes itself for the holder if it is answered
// its own token. That must not be what the failed commit has set on single masters, and is being
// undone: see scriptProgram.seesItself.
func (x *keysProgram) recheck() (wait, end bool) {
	st := &x.states[0]
	switch {
	case !x.command.AsksHolder() || st.Hint == "":
	case st.Hint == x.command.Value():
		return true, false
	case !st.Found:
		text, ok := keyspace.Text(st.Hint)
		if x.outcome.reply = bulk(text); !ok {
			x.outcome.refused = replyError(keyspace.ErrWrongType)
		}
		return false, true
	}
	return false, false
}

// distinct returns the keys in their order, each once. It returns the same slice if there is at most
// one.
func distinct(keys []string) []string {
	if len(keys) <= 1 {
		return keys
	}
	once := make([]string, 0, len(keys))
	for _, key := range keys {
		if !slices.Contains(once, key) {
			once = append(once, key)
		}
	}
	return once
}
