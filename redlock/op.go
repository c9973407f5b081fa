package redlock

import (
	"log/slog"
	"time"
)

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
	// Slots above 0 asks for one of so many slots of the one resource: at most so many hold it at one time, up to MaxSlots. Result.Slot says
	// which one was granted. It is an ordinary resource, whose name Unlock and Extend take. Zero: the resource itself is locked.
	Slots int
	// Shared asks for the lock of a reader: any number of readers hold a resource at one time, and no other lock beside them. It is denied
	// while another lock holds the resource, or waits for its readers to end. Fence, Slots and several Resources are not possible with it. A
	// token that is used for both is two locks, of which it holds one at most.
	Shared bool
	// Holder has the lock renewed while the Holder stands. Nil: nothing renews it.
	Holder *Holder
	// Release has the lock released when its client ends the Holder; else it ends with its TTL then. It needs a Holder, and a token that is
	// made here: a client may repeat a LOCK with a token of its own elsewhere, and the release would find that.
	Release bool
	// Note is shown beside the lock, or the wait for it, by Inspect and Leases of this Client, and in the log where the lock is lost. It
	// takes the place of Op.Note. Nil: that counts.
	Note *HolderNote
	// Wait is how long to wait for a lock that is held by another, or for a quorum of masters that
	// is missing. Zero: do not wait. A LOCK of several resources is granted in bounded time too,
	// see wait_reserve.go.
	Wait time.Duration
}

// HolderNote says who holds a lock, or waits for one, and what for. It stays with the Client that granted the lock, and must not be changed. All
// operations of one caller can share one: then it costs a lease the pointer that it has anyway.
type HolderNote struct {
	Text string // what the lock is for, in the caller's words; "": it gave none
	// Client is the name of the caller, Addr its address and User whose account it uses.
	Client, Addr, User string
}

// noteOf is the note of a lock that its token is granted once more: a text stays until another one comes.
func noteOf(now, before *HolderNote) *HolderNote {
	switch {
	case now == nil:
		return before
	case before == nil || before.Text == "" || now.Text != "":
		return now
	}
	merged := *now
	merged.Text = before.Text
	return &merged
}

// attr is the note in the log, with the time since when the lock has been held; zero: that is not known.
func (n *HolderNote) attr(since time.Time) slog.Attr {
	if n == nil {
		return slog.Attr{}
	}
	var attrs []slog.Attr
	for _, a := range []slog.Attr{slog.String("note", n.Text), slog.String("client", n.Client), slog.String("addr", n.Addr), slog.String("user", n.User)} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	if !since.IsZero() {
		attrs = append(attrs, slog.Time("since", since.Round(time.Millisecond)))
	}
	return slog.Attr{Value: slog.GroupValue(attrs...)}
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
	// Slot is the resource that was locked (LOCK with Slots), else "".
	Slot string
	// Validity is what is left of the lock (LOCK, EXTEND): TTL - elapsed - drift. Count it from the
	// moment the request was sent, or, after a wait, from the receipt of the answer less a round
	// trip.
	Validity time.Duration
	// Fence is the fencing token (LOCK with Fence), below 2^53, else 0.
	Fence int64
	// Until is the end of the validity on this process's monotonic clock (LOCK, EXTEND).
	Until time.Time
	// Kept answers StartKeepAlive.
	Kept *Kept
	// Scripts answers StartFetchScript.
	Scripts []string
	// Info answers StartInspect.
	Info *ResourceInfo
	// Forced answers StartForce.
	Forced *Forced
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
