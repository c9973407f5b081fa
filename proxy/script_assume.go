package proxy

import (
	"slices"
	"time"

	"redlockd/redlock"
)

// An assumption is what all keys of a script are taken to hold before anybody has read them. A wrong
// one costs a round and never a wrong reply: the masters make the changes only if the keys hold what
// was assumed.
//
// Lock scripts are written for two states of a key: nobody holds it, or the caller does, whose token is
// among the arguments.
const (
	// assumesNothing: the keys were read.
	assumesNothing int32 = 0
	// assumesAbsent: no key exists.
	assumesAbsent int32 = 1
	// assumesHeld + i: all keys hold argument i.
	assumesHeld int32 = 2

	// assumedArgs is how many arguments are tried as the token. It is the first or second one in all
	// libraries that we know.
	assumedArgs = 4
)

// assume implements program. The keys are read if no assumption leads to a change: nothing but a commit
// would check the assumption.
func (x *scriptProgram) assume() bool {
	if x.readOnly {
		return false
	}
	known := x.s.server.opts.Engine.Known(x.oneState[:0], x.keys)
	for i := range known {
		if known[i].Found {
			// The masters most likely hold the lease of this redlockd. A script of somebody else changes
			// nothing then, and its keys must be read.
			x.states = known
			x.runFor(assumedInstructions)
			return x.committable()
		}
	}
	// The last one first: then the others are not run at all.
	last := x.script.lastAssumption.Load()
	if last != assumesNothing && x.try(last) {
		return true
	}
	// What a hash or a set holds is no argument.
	for a := assumesAbsent; a < assumesHeld+int32(min(len(x.argv), assumedArgs)) && !x.stopped() && !x.outcome.Collections && len(x.outcome.Missing) == 0; a++ {
		if a != last && x.try(a) {
			return true
		}
	}
	x.assumption = assumesNothing
	return false
}

// try runs the script on an assumption, and reports whether its outcome can be committed. It is then in
// x.outcome, and what was assumed in x.states.
func (x *scriptProgram) try(assumption int32) bool {
	switch {
	case assumption == assumesAbsent:
		x.states = x.all(redlock.State{Type: "none"})
	case int(assumption-assumesHeld) < len(x.argv):
		x.states = x.all(redlock.State{Found: true, Type: "string", Value: x.argv[assumption-assumesHeld], TTL: time.Second})
	default: // the last call of this script had more arguments
		return false
	}
	x.assumption = assumption
	x.runFor(assumedInstructions)
	return x.committable()
}

// all are the states of x.keys if all are in the same state. One key needs no allocation.
func (x *scriptProgram) all(state redlock.State) []redlock.State {
	states := x.oneState[:]
	if len(x.keys) != 1 {
		states = make([]redlock.State, len(x.keys))
	}
	for i := range states {
		states[i] = state
	}
	return states
}

// rightAssumption is the one that would have been right for these states. It is assumesNothing if keys
// differ, or one holds a value that is not among the arguments.
func (x *scriptProgram) rightAssumption(states []redlock.State) int32 {
	right := assumesNothing
	for i := range states {
		this := assumesAbsent
		if st := &states[i]; st.Found {
			arg := slices.Index(x.argv, st.Value)
			if arg < 0 || arg >= assumedArgs {
				return assumesNothing
			}
			this = assumesHeld + int32(arg)
		}
		if right != assumesNothing && right != this {
			return assumesNothing
		}
		right = this
	}
	return right
}

// rememberAssumption has the next call of the script try first what was right, or would have been. It
// matters to scripts that change something under several assumptions, as one that takes a lock or
// extends it.
func (x *scriptProgram) rememberAssumption() {
	right := x.assumption
	if right == assumesNothing && x.fromQuorum {
		right = x.rightAssumption(x.states)
	}
	if right != assumesNothing {
		x.script.lastAssumption.Store(right)
	}
}
