package redlock

import "time"

// LockRequest asks for one lock over one or several resources, all or nothing.
type LockRequest struct {
	// Resources to lock, each once. The slice must stay as it is until the operation is done.
	Resources []string
	// Token that will hold the lock, any binary string of 1 to MaxTokenLen bytes. Empty: one is
	// made. The same request with the same token is granted again as long as the token holds the
	// lock, through any Client of the same masters: so it can be retried when its outcome is not
	// known. After Unlock, choose a new token.
	Token string
	// TTL after which the lock ends by itself. Between Options.MinTTL and Options.MaxTTL.
	TTL time.Duration
	// Fence asks for a fencing token: an integer that grows from one grant of a resource to the
	// next. Of two requests with one token that are under way at the same time, through two
	// Clients, the one that is answered last may have the lower fence.
	Fence bool
	// Wait is how long to wait for a lock that is held by another, or for a quorum of masters that
	// is missing. Zero: do not wait. A LOCK of several resources is granted in bounded time too,
	// see wait_reserve.go.
	Wait time.Duration
}

// Result is what is known at the end of an operation.
type Result struct {
	// Err is nil when the outcome is known: Held says which it is. Otherwise it is one of the
	// errors of this package.
	Err error
	// Held: LOCK granted, EXTEND granted, UNLOCK released a lock that the token held. Without Err,
	// false means: no.
	Held bool
	// Token that holds the lock (LOCK).
	Token string
	// Validity is what is left of the lock (LOCK, EXTEND): TTL - elapsed - drift. Count it from the
	// moment the request was sent, or, after a wait, from the receipt of the answer less a round
	// trip.
	Validity time.Duration
	// Fence is the fencing token (LOCK with Fence), below 2^53, else 0.
	Fence int64
	// Until is the end of the validity on this process's monotonic clock (LOCK, EXTEND).
	Until time.Time
	// Scripts answers StartFetchScript.
	Scripts []string
	// Info answers StartInspect.
	Info *ResourceInfo
	// States answers StartRead, in the order of its resources.
	States []State
}

// Completer gets the result of an operation, once, on a goroutine of the engine. Done must be quick
// and must not block. It may start other operations. When it has bytes to send it returns what
// sends them, and the engine calls that after it has delivered all results of the same batch, so
// that many results for one client cost one write.
type Completer interface {
	Done(op *Op, result Result) Flusher
}

// Flusher sends what completed operations left behind. Flush must not block.
type Flusher interface{ Flush() }
