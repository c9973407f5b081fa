package proxy

import (
	"slices"
	"time"

	"redlockd/redlock"
)

// guesses are numbered: 1 all keys are absent; 2+i they hold argument i.
const (
	noGuess     int32 = 0
	guessAbsent int32 = 1
	guessHeld   int32 = 2

	// guessedArgs is how many arguments are guessed to be the token.
	guessedArgs = 4
)

// first guesses. Without a right guess it looks.
func (x *scriptExchange) first() redlock.Flusher {
	switch {
	case len(x.keys) == 0:
		return x.settled()
	case x.readOnly:
		return x.look()
	}
	known := x.s.server.opts.Engine.Known(x.oneState[:0], x.keys)
	for i := range known {
		if known[i].Found {
			// A lease of this redlockd is most likely what the masters hold. Who is not its owner changes nothing, which wants a look.
			x.states = known
			if x.run(guessInstructions); x.committable() {
				return x.commit()
			}
			return x.look()
		}
	}
	if !x.script.guessing() {
		return x.look()
	}
	habit := x.script.habit.Load()
	if habit != noGuess && x.try(habit) {
		return x.commit()
	}
	for guess := guessAbsent; guess < guessHeld+int32(min(len(x.argv), guessedArgs)) && !x.stopped(); guess++ {
		if guess != habit && x.try(guess) {
			return x.commit()
		}
	}
	x.guess = noGuess
	x.script.missed()
	return x.look()
}

// try runs the script on a guess, and tells whether its outcome can be committed.
func (x *scriptExchange) try(guess int32) bool {
	switch {
	case guess == guessAbsent:
		x.states = x.all(redlock.State{Type: "none"})
	case int(guess-guessHeld) < len(x.argv):
		x.states = x.all(redlock.State{Found: true, Type: "string", Value: x.argv[guess-guessHeld], TTL: time.Second})
	default:
		return false
	}
	x.guess = guess
	x.run(guessInstructions)
	return x.committable()
}

// all are the states of keys that are all in the same.
func (x *scriptExchange) all(state redlock.State) []redlock.State {
	states := x.oneState[:]
	if len(x.keys) != 1 {
		states = make([]redlock.State, len(x.keys))
	}
	for i := range states {
		states[i] = state
	}
	return states
}

// guessOf is the guess that would have been right, or noGuess.
func (x *scriptExchange) guessOf(states []redlock.State) int32 {
	guess := noGuess
	for i := range states {
		this := guessAbsent
		if st := &states[i]; st.Found {
			arg := slices.Index(x.argv, st.Value)
			if arg < 0 || arg >= guessedArgs {
				return noGuess
			}
			this = guessHeld + int32(arg)
		}
		if guess != noGuess && guess != this {
			return noGuess
		}
		guess = this
	}
	return guess
}

// noted counts the guess that was wrong of a call that ends with no change, unless somebody else was in the way.
func (x *scriptExchange) noted() {
	if guess := x.guessOf(x.states); x.tries > 0 && guess >= guessHeld {
		x.script.found(guess, true)
	}
}

// learn remembers what would have been the right guess.
func (x *scriptExchange) learn() {
	switch {
	case x.guess != noGuess:
		x.script.guessed(x.guess)
	case x.asked:
		x.script.found(x.guessOf(x.states), x.tries > 0)
	}
}
