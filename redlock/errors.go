package redlock

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// What callers branch on: compare with errors.Is. Where facts travel with an error, errors.AsType finds
// its type.
//
//	error              type            what is known
//	ErrHeld                            denied
//	ErrNotHeld                         denied: the token holds nothing
//	ErrNoQuorum        *NoQuorumError  unknown; a LOCK: not granted, what may have been set is being removed
//	                   *CeilingError   denied, nothing was sent
//	ErrBadRequest      *RequestError   denied, nothing was sent
//	ErrDraining                        denied
//	ErrTooManyWaiters  (*ShareError)   denied, nothing was sent
//	ErrLimit           *ShareError     denied, what was set is being removed
var (
	// ErrHeld: a quorum of masters answered, and the resource is held by another token. Known: nothing was
	// granted.
	ErrHeld = errors.New("the resource is held by another token")
	// ErrNotHeld: a quorum of masters answered, and the token does not hold the resource (expired,
	// released, never held).
	ErrNotHeld = errors.New("the token does not hold the resource")
	// ErrNoQuorum: fewer than a quorum of masters voted in time. The outcome is unknown or no; a lock that
	// may have been set anyway is being released. The error is a *NoQuorumError.
	ErrNoQuorum = errors.New("no quorum of masters")
	// ErrBadRequest: an argument is outside its limits. The error is a *RequestError; nothing was sent to
	// a master.
	ErrBadRequest = errors.New("bad request")
	// ErrDraining: the client is closing and takes no new work. Nothing was granted.
	ErrDraining = errors.New("draining: no new work is taken")
	// ErrTooManyWaiters: as many LOCKs wait as Options.MaxWaiters allows, or as Share.MaxWaiters does.
	ErrTooManyWaiters = errors.New("too many waiters")
	// ErrLimit: the operation would exceed what its Share may take. The error is a *ShareError; nothing
	// was granted.
	ErrLimit = errors.New("the limit of this user is reached")
)

// RequestError says which argument is refused, which limit it breaks, and which setting moves the
// limit.
type RequestError struct {
	Reason string
	Terms  string // Terms.Name, if it is the limit of these; else empty
	TTL    bool   // the TTL is shorter or longer than callers may ask for
	// TooShort is for TTL: it is the shorter.
	TooShort bool
}

func (e *RequestError) Error() string { return e.Reason }

// Is makes errors.Is(err, ErrBadRequest) true.
func (e *RequestError) Is(target error) bool { return target == ErrBadRequest }

func badRequest(format string, args ...any) error {
	return &RequestError{Reason: fmt.Sprintf(format, args...)}
}

func ttlTooShort(format string, args ...any) error {
	return &RequestError{Reason: fmt.Sprintf("ttl of "+format, args...), TTL: true, TooShort: true}
}

func ttlTooLong(format string, args ...any) error {
	return &RequestError{Reason: fmt.Sprintf("ttl of "+format, args...), TTL: true}
}

// NoQuorumError says how many masters voted in a round, how many were needed, and what is wrong with
// the others. A master in quarantine answers and has no vote.
type NoQuorumError struct {
	// Voted is how many masters gave a vote that counts.
	Voted int
	// Needed is the quorum.
	Needed int
	// Masters is how many there are.
	Masters int
	// Late is how long the round took, if a quorum granted so late that nothing of the TTL was left; else
	// 0.
	Late time.Duration
	// TTL that was asked for, if there is a Late and it is known; else 0.
	TTL time.Duration
	// Out lists the masters that gave no vote, with what is known of each.
	Out []MasterError
	// Pending is how many masters were not waited for: whatever they would have said, there was no quorum.
	// Of a LOCK whose wait was ended before its first answer, how many have not answered yet.
	Pending int
	// Unchanged: nothing was sent to any master.
	Unchanged bool
}

// CeilingError is an operation whose TTL is above what may run at present, where the masters did not agree
// in time to let longer locks run. Nothing was granted.
type CeilingError struct {
	TTL, Ceiling time.Duration
	// Why is what stands in the way, and what to do.
	Why string
}

func (e *CeilingError) Error() string {
	return fmt.Sprintf("ttl of %s ms is above what may run at present, %s ms, and the masters have not agreed to more yet: %s", inMs(e.TTL), inMs(e.Ceiling), e.Why)
}

// Is makes errors.Is(err, ErrNoQuorum) true: what it needs is a quorum.
func (e *CeilingError) Is(target error) bool { return target == ErrNoQuorum }

// MasterState is what a master is good for at the moment.
type MasterState string

// The states of a master.
const (
	MasterUp          MasterState = "up"          // gets every command and has a vote
	MasterQuarantined MasterState = "quarantined" // gets every command and has no vote: it may have forgotten locks
	MasterDoubted     MasterState = "doubted"     // gets every command and has no vote here: its clock and this machine's are out of step
	MasterRefused     MasterState = "refused"     // has no vote for new locks: what it is or says rules it out, or it refuses what locks need; where it is connected, releases go on
	MasterDown        MasterState = "down"        // no connection
)

// MasterError is one master that gave no vote, and why.
type MasterError struct {
	// Addr as in Options.Masters.
	Addr string
	// Err is the reason.
	Err error
	// State of the master at that moment, in the errors of rounds. MasterUp: it answered too late, or with
	// an error.
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

// Counts is Error for those who must not learn the names of the masters or what these say: how many are
// out in each state.
func (e *NoQuorumError) Counts() string {
	return e.text(func(b *strings.Builder) {
		counts := make(map[MasterState]int)
		for _, m := range e.Out {
			counts[m.State]++
		}
		sep := ""
		for _, state := range []MasterState{MasterDown, MasterQuarantined, MasterDoubted, MasterRefused, MasterUp} {
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
	case e.Voted >= e.Needed: // for example, EXTEND finds the lock on two of five masters, it is gone on two others, and the fifth is silent
		fmt.Fprintf(&b, "%d of %d masters voted and disagree, %d must agree", e.Voted, e.Masters, e.Needed)
	default:
		fmt.Fprintf(&b, "%d of %d masters voted, %d needed", e.Voted, e.Masters, e.Needed)
	}
	if len(e.Out) > 0 {
		b.WriteString("; out: ")
		out(&b)
	}
	switch {
	case e.Pending > 0 && e.Voted < e.Needed && e.Voted+e.Pending >= e.Needed: // the wait was ended before that
		fmt.Fprintf(&b, "; %d more have not answered yet", e.Pending)
	case e.Pending > 0:
		fmt.Fprintf(&b, "; %d more could not have made a quorum and were not waited for", e.Pending)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrNoQuorum) true.
func (e *NoQuorumError) Is(target error) bool { return target == ErrNoQuorum }
