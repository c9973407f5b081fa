package redlock

import (
	"fmt"
	"time"

	"redlockd/redlock/quorum"
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
	// Slots above 0 asks for one of so many slots of the one resource: at most so many hold it at one
	// time, up to MaxSlots. Result.Slot says which one was granted. It is an ordinary resource, whose name
	// Unlock and Extend take. Zero: the resource itself is locked.
	Slots int
	// Shared asks for the lock of a reader: any number of readers hold a resource at one time, and no
	// other lock beside them. It is denied while another lock holds the resource, or waits for its readers
	// to end. Fence, Slots and several Resources are not possible with it. A token that is used for both
	// is two locks, of which it holds one at most.
	Shared bool
	// Holder has the lock renewed while the Holder stands. Nil: nothing renews it.
	Holder *Holder
	// Release has the lock released when its client ends the Holder; else it ends with its TTL then. It
	// needs a Holder, and a token that is made here: a client may repeat a LOCK with a token of its own
	// elsewhere, and the release would find that.
	Release bool
	// Note is shown beside the lock, or the wait for it, by Inspect and Leases of this Client, and in the
	// log where the lock is lost. It takes the place of Op.Note. Nil: that counts.
	Note *HolderNote
	// Wait is how long to wait for a lock that is held by another, or for a quorum of masters that
	// is missing. Zero: do not wait. A LOCK of several resources is granted in bounded time too,
	// see wait_reserve.go.
	Wait time.Duration
	// Waited is how much of Wait is over when the operation is started. If nothing is left, it does not wait.
	Waited time.Duration
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
	// Validity is what is left of the lock (LOCK, EXTEND): TTL - elapsed. Count it from the
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

// checkLock validates a LockRequest against the limits, and fills in nothing.
func (b *bounds) checkLock(op *Op, req *LockRequest) error {
	err := checkResources(req.Resources, MaxResources)
	if err == nil && req.Slots != 0 {
		err = checkSlots(req)
	}
	if err == nil && req.Shared {
		err = checkShared(req)
	}
	if err == nil && req.Token != "" {
		err = checkToken(req.Token)
	}
	if err != nil {
		return err
	}
	if most := b.limits.Load().maxWait; req.Wait < 0 || req.Wait > most {
		return badRequest("WAIT of %s is outside 0 … %s ms (max_wait)", inMs(req.Wait), inMs(most))
	}
	switch {
	case req.Release && req.Holder == nil:
		return badRequest("RELEASE needs HOLD")
	case req.Release && req.Token != "":
		return badRequest("RELEASE needs a token that is made here: leave TOKEN out")
	case req.Holder != nil && madeHere(req.Token): //mutant:a-made-token-is-bound-twice
		// It may be bound to another connection, whose end releases it.
		return badRequest("the token was made by redlockd: take the lock over with HOLD resource token ttl")
	}
	if err := b.checkTTL(req.TTL, op.delay()); err != nil || req.Holder == nil {
		return err
	}
	return b.checkHoldTTL(req.TTL)
}

// checkShared validates LockRequest.Shared.
func checkShared(req *LockRequest) error {
	switch {
	case len(req.Resources) != 1:
		return badRequest("SHARED is for one resource, and %d are named", len(req.Resources))
	case req.Slots != 0:
		return badRequest("SHARED and SLOTS do not go together: a slot has one holder")
	case req.Fence:
		return badRequest("SHARED and FENCE do not go together: readers write nothing that a fence would keep in order")
	}
	return nil
}

// checkHold bounds how long a lock that was born then may be extended: "the number of lock
// reacquisition attempts should be limited, otherwise one of the liveness properties is violated"
// ("Making the algorithm more reliable: Extending the lock").
func (b *bounds) checkHold(op *Op, born time.Time, ttl time.Duration, now time.Time) error {
	most, name := b.limits.Load().maxHold, ""
	if t := op.Terms; t != nil && t.MaxHold > 0 && t.MaxHold < most {
		most, name = t.MaxHold, t.Name
	}
	if now.Add(ttl).Sub(born) <= most { //mutant:max_hold-not-checked
		return nil
	}
	of := "max_hold"
	if name != "" {
		of += " of " + name
	}
	return &RequestError{Terms: name, Reason: fmt.Sprintf("the lock was first granted %v ago and may be held for %v in all (%s): release it, or ask for a shorter ttl",
		now.Sub(born).Round(time.Second), most, of)}
}

// deferred is the work that one entry into the engine leaves to do once Client.mu is free. It
// belongs to one goroutine. A lane keeps one for all its batches.
//
// Invariant: votes and results wait for Client.mu to be free, because both may launch rounds, which
// needs it.
type deferred struct {
	now         time.Time    // when the entry began, or when the replies to a batch were read
	looked      bool         // clock.Own.Look was called since
	abstentions []abstention // votes to count
	results     []delivery   // to hand to their Completers
	ended       []*binding   // whose owners are to be told
	flush       []Flusher    // what these return
}

// abstention is a round that some lanes would not take.
type abstention struct {
	round   *round
	masters quorum.Mask // that abstain
}

// delivery is the result of an operation on its way to the operation's Completer.
type delivery struct {
	op     *Op
	result Result
}

// deliver has the operation's Completer called with the result.
func (d *deferred) deliver(op *Op, result Result) {
	d.results = append(d.results, delivery{op, result})
}

// enter takes Client.mu, for calls of programs that start no operation, and for timers. leave follows.
func (c *Client) enter() *deferred {
	d := &deferred{now: time.Now()}
	c.mu.Lock()
	return d
}

// leave frees Client.mu, and does what was deferred.
func (c *Client) leave(d *deferred) {
	c.mu.Unlock()
	c.runDeferred(d)
}

// runDeferred does what was deferred, until nothing is left. It must be called without Client.mu.
func (c *Client) runDeferred(d *deferred) {
	for len(d.abstentions) > 0 || len(d.results) > 0 || len(d.ended) > 0 {
		for len(d.abstentions) > 0 {
			last := len(d.abstentions) - 1
			r := d.abstentions[last]
			d.abstentions = d.abstentions[:last]
			var word quorum.Votes
			for i := range r.round.view.Places {
				if r.masters.Has(i) {
					word += quorum.Cast(i, quorum.Abstained)
				}
			}
			c.vote(r.round, word, d)
		}
		// Done may start operations, which run what they defer themselves: take the list away
		// first.
		results := d.results
		d.results = d.results[len(d.results):]
		for i := range results {
			if f := results[i].op.to.Done(results[i].op, results[i].result); f != nil {
				d.flush = append(d.flush, f)
			}
		}
		clear(results)
		if len(d.results) == 0 {
			d.results = results[:0]
		}
		if ended := d.ended; len(ended) > 0 {
			d.ended = nil
			c.reportEnded(ended, d)
		}
	}
	for _, f := range d.flush {
		f.Flush()
	}
	clear(d.flush)
	d.flush = d.flush[:0]
}
