package proxy

import (
	"fmt"
	"strings"

	"redlockd/redlock"
	"redlockd/redlock/resp"
	"redlockd/redlock/sandbox"
)

const (
	// scriptKeysMax is how many keys a script may use: those that it declares, and others.
	scriptKeysMax = redlock.MaxKeys
	// scriptReplyMax bounds a script's reply, in bytes: what all its keys can hold, and as much again. One
	// client can have a thousand scripts on their way.
	scriptReplyMax = 128 << 10
)

// scriptRefusal ends a script that is not one of a lock, also inside pcall. Its text is that of the
// error reply.
type scriptRefusal struct{ error }

func (e *scriptRefusal) Unwrap() error { return e.error }

// refuse makes a scriptRefusal.
func refuse(format string, args ...any) error {
	return &scriptRefusal{fmt.Errorf("ERR "+format, args...)}
}

// runScript runs a script on the keys of caller, which are those of declared, and argv. It asks nobody,
// changes nothing and keeps nothing, so that it may be repeated.
func runScript(script *sandbox.Script, declared []string, caller *scriptCaller, argv []string, limits sandbox.Limits) outcome {
	if refusal := refuseReserved(declared); refusal != nil {
		return outcome{refused: refusal}
	}
	caller.readOnly = script.NoWrites
	seed := uint64(caller.now.UnixNano()) // a run that is repeated with the same time draws the same random numbers
	reply, err := script.Run(sandbox.Run{Keys: declared, Argv: argv, Caller: caller, Limits: limits, Seed: seed, Spent: &caller.spent})
	if err != nil {
		if _, ok := err.(*scriptRefusal); !ok {
			err = refuse("the script cannot run here: %w", err)
		}
		return outcome{refused: err, spent: caller.spent}
	}
	if n := replyBytes(&reply); n > scriptReplyMax {
		return outcome{refused: refuse("the script's reply takes %d bytes, at most %d are possible", n, scriptReplyMax), spent: caller.spent}
	}
	o := outcome{Outcome: caller.space.Outcome(), reply: reply, published: caller.published, spent: caller.spent}
	if refusal := caller.refuseMissing(o.Missing); refusal != nil {
		return outcome{refused: refusal, spent: caller.spent}
	}
	return o
}

// refuseReserved is the refusal of keys that are redlockd's own, or nil.
func refuseReserved(names []string) error {
	for _, name := range names {
		if strings.HasPrefix(name, redlock.ReservedPrefix) {
			return refuse("the script uses the key %.200q: names that begin with %s are redlockd's own", name, redlock.ReservedPrefix)
		}
	}
	return nil
}

// refuseMissing is the refusal of keys that the script has not declared, so that nobody has looked
// whether the user may touch them; or nil.
func (caller *scriptCaller) refuseMissing(names []string) error {
	for _, name := range names {
		if !caller.user.May(name) {
			return &scriptRefusal{noPermission(caller.user, "resource", name)}
		}
	}
	return refuseReserved(names)
}

// replyBytes is what a reply takes here until it is sent.
func replyBytes(r *resp.Value) int {
	n := 64 + len(r.Text)
	for i := range r.Elems {
		n += replyBytes(&r.Elems[i])
	}
	return n
}
