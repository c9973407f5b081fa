package redlock

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unicode"
)

// What callers branch on. Compare with errors.Is.
var (
	// ErrHeld: a quorum of masters answered, and the resource is held by another token. Known: nothing was granted.
	ErrHeld = errors.New("the resource is held by another token")
	// ErrNotHeld: a quorum of masters answered, and the token does not hold the resource (expired, released, never held).
	ErrNotHeld = errors.New("the token does not hold the resource")
	// ErrNoQuorum: fewer than a quorum of masters voted in time. The outcome is unknown or no; a lock that may have
	// been set anyway is being released. The error is a *NoQuorumError.
	ErrNoQuorum = errors.New("no quorum of masters")
	// ErrBadRequest: an argument is outside its limits. The error is a *RequestError; nothing was sent to a master.
	ErrBadRequest = errors.New("bad request")
	// ErrDraining: the client is closing and takes no new work. Nothing was granted.
	ErrDraining = errors.New("draining: no new work is taken")
	// ErrTooManyWaiters: as many LOCKs wait as Options.MaxWaiters allows, or as Share.MaxWaiters does.
	ErrTooManyWaiters = errors.New("too many waiters")
	// ErrLimit: the operation would exceed what its Share may take. The error is a *ShareError; nothing was granted.
	ErrLimit = errors.New("the limit of this user is reached")
)

// RequestError says which argument is refused, which limit it breaks, and which setting moves the limit.
type RequestError struct{ Reason string }

func (e *RequestError) Error() string { return e.Reason }

// Is makes errors.Is(err, ErrBadRequest) true.
func (e *RequestError) Is(target error) bool { return target == ErrBadRequest }

func badRequest(format string, args ...any) error {
	return &RequestError{Reason: fmt.Sprintf(format, args...)}
}

// NoQuorumError says how many masters voted in a round, how many were needed, and what is wrong with the others. A master in quarantine
// answers and has no vote.
type NoQuorumError struct {
	Voted, Needed, Masters int
	// Late is set when enough masters granted, but so late that nothing of the TTL was left: the time it took. TTL is the one that was
	// asked for, where that is known.
	Late, TTL time.Duration
	// Out lists the masters that gave no vote, with what is known of each.
	Out []MasterError
	// Pending is how many masters were not waited for: whatever they would have said, there was no quorum.
	Pending int
}

// MasterError is one master that gave no vote, and why.
type MasterError struct {
	Addr string
	Err  error
	// State is the master's at the moment of the error, where a round tells it. MasterUp: it answered too late, or with an error.
	State MasterState
}

func (e MasterError) Error() string { return e.Addr + ": " + e.Err.Error() }

func (e *NoQuorumError) Error() string {
	return e.text(func(b *strings.Builder) {
		for i, m := range e.Out {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(m.Error())
		}
	})
}

// Counts is Error for those who must not learn the names of the masters or what these say: how many are out in each state.
func (e *NoQuorumError) Counts() string {
	return e.text(func(b *strings.Builder) {
		counts := make(map[MasterState]int)
		for _, m := range e.Out {
			counts[m.State]++
		}
		sep := ""
		for _, state := range []MasterState{MasterDown, MasterQuarantined, MasterRefused, MasterUp} {
			if n := counts[state]; n > 0 {
				word := string(state)
				if state == MasterUp {
					word = "late or failing"
				}
				fmt.Fprintf(b, "%s%d %s", sep, n, word)
				sep = ", "
			}
		}
	})
}

// text is the error, with the masters that gave no vote as out writes them.
func (e *NoQuorumError) text(out func(b *strings.Builder)) string {
	var b strings.Builder
	switch {
	case e.Late > 0:
		fmt.Fprintf(&b, "a quorum granted only after %v, when nothing was left of the TTL", e.Late.Round(time.Microsecond))
		if e.TTL > 0 {
			fmt.Fprintf(&b, " of %v", e.TTL)
		}
	case e.Voted >= e.Needed: // EXTEND finds the lock on two of five, on two others it is gone, and the fifth is silent
		fmt.Fprintf(&b, "%d of %d masters voted and disagree, %d must agree", e.Voted, e.Masters, e.Needed)
	default:
		fmt.Fprintf(&b, "%d of %d masters voted, %d needed", e.Voted, e.Masters, e.Needed)
	}
	if len(e.Out) > 0 {
		b.WriteString("; out: ")
		out(&b)
	}
	if e.Pending > 0 {
		fmt.Fprintf(&b, "; %d more could not have made a quorum and were not waited for", e.Pending)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrNoQuorum) true.
func (e *NoQuorumError) Is(target error) bool { return target == ErrNoQuorum }

const (
	// shownMax bounds what logs and replies show of one text that a master has sent, in bytes.
	shownMax = 200
	// conciseMax bounds the text of an error that is kept of a master. It has room for what the error says about such a text.
	conciseMax = 5 * shownMax
)

// shown is a text that a master has sent, fit for logs and replies: short, and without what a terminal would obey.
func shown(text string) string { return printable(text, shownMax) }

func printable(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, text)
}

// concise is the error with a text that is fit for logs and replies. In those of go-redis there can be all that a master has sent.
func concise(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if short := printable(text, conciseMax); short != text {
		return &conciseError{short, err}
	}
	return err
}

// conciseError is an error with another text.
type conciseError struct {
	text string
	err  error
}

func (e *conciseError) Error() string { return e.text }
func (e *conciseError) Unwrap() error { return e.err }

// survive runs f, which reads what a master sends, and makes an error of a panic: one master is lost then, and not the process with all
// its locks. It is the second line of defence. The first are the bounds of what is read (package resp), for memory that has run
// out cannot be recovered from.
//
// Invariant: f holds no lock where it reads. What it has half done must not count when it returns an error.
func survive(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil { //mutant:a-panic-ends-the-process
			if bug, ours := p.(laneBug); ours {
				panic(bug)
			}
			err = &refusedError{fmt.Sprintf("redlockd failed on what it sends: %v, in %s: please report this", p, panicked())}
		}
	}()
	return f()
}

// panicked is the function that has panicked. It must be called by the deferred function that recovers.
func panicked() string {
	var calls [32]uintptr
	frames := runtime.CallersFrames(calls[:runtime.Callers(3, calls[:])])
	for {
		frame, more := frames.Next()
		if !more || !strings.HasPrefix(frame.Function, "runtime.") {
			return fmt.Sprintf("%s, line %d", frame.Function, frame.Line)
		}
	}
}
