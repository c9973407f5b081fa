package redlock

import (
	"cmp"
	"container/heap"
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/loglimit"
)

// A held lock is bound to a Holder, which stands for one connection of a client. The Client renews it
// every third of its TTL until the Holder ends, so a client process that pauses loses nothing. The TTL
// is for how long the lock outlives its holder. What the client may believe meanwhile,
// hold_keepalive.go says. testdata/tla/Hold.tla is the model.
//
// Invariants:
//   - Nothing is renewed after an UNLOCK, the end of the Holder, or a takeover has passed Client.mu
//     here.
//   - A lock of several resources ends as a whole. Whoever releases or takes over one of them,
//     wherever, ends the renewal of all: its owner, who knows only that the lock is held or not, is
//     told that all are lost.
//   - The end of a Holder releases only what is bound to this very Holder, and only if its client has
//     ended it. A connection that broke proves nothing about the client: its locks end with their TTLs.
//   - A takeover (StartHold) puts a new token in the place of the old one, so that a release or a
//     renewal of the earlier holder, however late, finds nothing. The new token keeps the birth of the
//     old one for MaxHold. A reader's token is exchanged in the set of readers, also while a writer
//     waits for these to end.
//   - Each end that the owner has not asked for is told to the owner, once. Subscribers and the log are
//     told of losses alone: nothing was lost where the whole lock was released or taken over through
//     another client.
//
// Renewal is the round of EXTEND, launched by the watchdog: no goroutine and no timer per lock, and
// what is due at one tick goes to each master in one batch.

// Owner is whose connection a Holder stands for.
type Owner interface {
	// LockLost tells that these resources, which were locked together, are not held any more. It is called
	// once per lock, without locks held, and must not block. It returns what sends what it left behind, or
	// nil, as Done does.
	LockLost(resources []string) Flusher
	// Idle is for how long the client has sent nothing. It is called with Client.mu held, and must not
	// take a mutex.
	Idle() time.Duration
}

// BoundMax bounds the locks that are bound to one Holder. Options.MaxBound bounds those of all.
const BoundMax = 10_000

// LostChannel is the channel on which the receivers of all clients (OnMessage) get each resource whose
// held lock is lost. Those of other clients get it if a quorum of the masters carries it (publish.go).
const LostChannel = ReservedPrefix + "lost"

// Holder is what held locks are bound to. It serves one Client.
type Holder struct {
	owner Owner

	// Client.mu guards what follows.

	bindings []*binding
	// lost are resources whose loss no KEEPALIVE has told yet.
	lost []string
	// silence is for how long the client may send nothing and its locks are still renewed. 0: as long as
	// the Holder lives.
	silence time.Duration
	// unheard: some binding is.
	unheard bool
	// ended: EndHolder was called. Nothing is bound any more.
	ended bool
	// ends and begun are the least until and begun of the bindings, if endsKnown.
	ends      time.Duration
	begun     time.Time
	endsKnown bool
}

// NewHolder makes a Holder that nothing is bound to.
func NewHolder(owner Owner) *Holder { return &Holder{owner: owner} }

// binding is one lock that is bound to a Holder. It is the Completer of its own renewals. Client.mu
// guards it.
type binding struct {
	op      Op // of the renewal under way
	client  *Client
	holder  *Holder
	share   *Share
	terms   *Terms // under which it was bound
	keys    []string
	token   string
	note    *HolderNote
	ttl     time.Duration
	reader  bool // a reader's
	release bool // it is released when the client ends the Holder
	// unheard: it was taken over, and the client has sent no KEEPALIVE since. It may have given up waiting
	// for the answer and closed the connection, and go by what it was told before on another one. So it is
	// not released.
	unheard bool
	// until is the end of the validity, on clock.Own.
	until time.Duration
	// begun is when the round began that gave the validity.
	begun time.Time
	// due is when to look at it again: to renew it, or to find it lost.
	due      time.Time
	renewing bool
	awaited  bool // by RenewHeld: it is neither renewed nor lost since
	lost     bool // it has ended by a loss
	place    int  // in holder.bindings
	index    int  // in holds.due; -1: it is not bound any more
}

// holds are the held locks of a Client. Client.mu guards it. It tells owners and the log of what has
// ended, and launches nothing.
type holds struct {
	client *Client // each binding has it, for the answers to its renewals
	own    *clock.Own
	bounds *bounds
	logger *slog.Logger
	// log limits the lines about held locks that are lost.
	log loglimit.Limiter
	// losses counts them.
	losses uint64

	byKey map[heldKey]*binding
	due   dueHeap
	// awaited counts the bindings that RenewHeld waits for, and noneAwaited is closed when they are none.
	awaited     int
	noneAwaited chan struct{}
}

// heldKey is what a binding is found by: a key has one holder, or many readers.
type heldKey struct{ key, reader string }

// heldKey is what the binding is found by under one of its keys.
func (b *binding) heldKey(key string) heldKey { return heldKeyOf(key, b.token, b.reader) }

func heldKeyOf(key, token string, reader bool) heldKey {
	if reader {
		return heldKey{key, token}
	}
	return heldKey{key: key}
}

// dueHeap implements heap.Interface: the binding that is due first is on top.
type dueHeap []*binding

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *dueHeap) Push(b any) {
	b.(*binding).index = len(*h)
	*h = append(*h, b.(*binding))
}

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	b := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	b.index = -1
	return b
}

// of returns the binding of exactly these resources under this token, or nil.
func (s *holds) of(keys []string, token string) *binding {
	if b := s.ofKey(keys[0], token); b != nil && sameKeys(b.keys, keys) {
		return b
	}
	return nil
}

// ofKey returns the binding of the key, and maybe of others, under this token, or nil.
func (s *holds) ofKey(key, token string) *binding {
	if b := s.byKey[heldKey{key: key}]; b != nil && b.token == token {
		return b
	}
	return s.byKey[heldKey{key, token}]
}

// unbind ends renewal. It tells nobody.
func (s *holds) unbind(b *binding) {
	for _, key := range b.keys {
		delete(s.byKey, b.heldKey(key))
	}
	heap.Remove(&s.due, b.index)
	h := b.holder
	last := len(h.bindings) - 1
	h.bindings[b.place] = h.bindings[last]
	h.bindings[b.place].place = b.place
	h.bindings[last] = nil
	h.bindings = h.bindings[:last]
	h.endsKnown = false //mutant:the-end-of-a-released-lock-is-kept
	s.arrived(b)
}

// arrived has RenewHeld wait no longer for this binding.
func (s *holds) arrived(b *binding) {
	if !b.awaited {
		return
	}
	b.awaited = false
	if s.awaited--; s.awaited == 0 {
		close(s.noneAwaited)
	}
}

// released is for an UNLOCK of these resources by this token.
func (s *holds) released(resources []string, token string, d *deferred) {
	for _, resource := range resources {
		switch b := s.ofKey(resource, token); {
		case b == nil: //mutant:renewed-behind-the-unlock
		case b.isPart(resources): //mutant:what-is-left-of-a-lock-is-renewed
			s.lost(b, partLost, d)
		default:
			s.unbind(b)
		}
	}
}

// Why a lock is lost: its validity has ended, or a part of it.
const (
	notRenewed = "it could not be renewed"
	partLost   = "one of its resources was released or taken over alone"
)

// isPart tells whether these resources are only a part of what is bound.
func (b *binding) isPart(resources []string) bool {
	return slices.ContainsFunc(b.keys, func(key string) bool { return !slices.Contains(resources, key) })
}

// bindable returns an error if one more lock cannot be bound.
func (s *holds) bindable(h *Holder) error {
	if len(h.bindings) >= BoundMax {
		return badRequest("%d locks are held by this connection, the most that are possible: use another connection", BoundMax)
	}
	if most := s.bounds.limits.Load().maxBound; len(s.due) >= most {
		return badRequest("%d locks are held through this server, and it renews %d at most (max_bound)", len(s.due), most)
	}
	return nil
}

// bind binds a lock that was just granted to the Holder of its operation. What is bound under the same
// keys is not any more: it is the same lock, or one that was lost.
func (s *holds) bind(op *Op, r *round, token string, until time.Time, d *deferred) {
	h := op.holder
	reader := r.ofReader()
	for _, key := range r.keys {
		s.moved(s.byKey[heldKeyOf(key, token, reader)], r.keys, token, h, d)
	}
	if h.ended {
		return
	}
	if s.byKey == nil {
		s.byKey = make(map[heldKey]*binding)
	}
	b := &binding{client: s.client, holder: h, share: op.Share, terms: op.Terms, keys: slices.Clone(r.keys), token: token, note: op.Note, ttl: op.ttl, release: op.release,
		reader: reader, until: s.own.At(until), begun: r.start, due: nextRenewal(d.now, op.ttl), place: len(h.bindings), unheard: r.commit != nil}
	h.unheard = h.unheard || b.unheard
	for _, key := range b.keys {
		s.byKey[b.heldKey(key)] = b
	}
	heap.Push(&s.due, b)
	h.bindings = append(h.bindings, b)
	h.endsKnown = false //mutant:the-end-of-a-new-lock-is-not-looked-at
}

// moved is for what is bound to one of these resources, which are about to be bound to the Holder h
// under this token, or to hold another token than this.
func (s *holds) moved(b *binding, resources []string, token string, h *Holder, d *deferred) {
	switch {
	case b == nil:
	case b.isPart(resources): //mutant:what-is-left-of-a-takeover-is-renewed
		s.lost(b, partLost, d)
	case b.holder == h && b.token == token:
		s.unbind(b)
	default:
		s.ended(b, d) //mutant:a-lock-that-moved-keeps-its-owner
	}
}

// nextRenewal is when a lock that was granted or renewed now is to be renewed next: a little earlier
// than after a third of its TTL, so that locks which were taken together are not renewed together for
// ever.
func nextRenewal(now time.Time, ttl time.Duration) time.Time {
	return now.Add(ttl/3 - rand.N(ttl/24+1))
}

// renewalsPerTick bounds the renewals that are launched at one tick of the watchdog.
const renewalsPerTick = 512

// renewHeld renews the held locks that are due, and finds those lost whose validity is over.
func (c *Client) renewHeld(d *deferred) {
	c.mu.Lock()
	s := &c.holds
	for range renewalsPerTick {
		if len(s.due) == 0 || d.now.Before(s.due[0].due) {
			break
		}
		b := s.due[0]
		left := b.until - c.own.At(d.now)
		switch h := b.holder; {
		case left <= 0:
			c.holds.lost(b, notRenewed, d)
			continue
		case b.renewing: //mutant:renewed-twice
		case h.silence > 0 && h.owner.Idle() > h.silence: //mutant:silence-ignored
		default:
			b.renewing = true
			b.op = Op{Share: b.share, Terms: b.terms, to: b, keys: b.keys, token: b.token, ttl: b.ttl} //mutant:a-renewal-has-no-terms
			c.beginExtendLocked(&b.op, d)
		}
		// Where nothing comes of it, soon again.
		c.holds.lookAgain(b, d.now.Add(min(max(c.opts.Heartbeat, b.ttl/30), left)))
	}
	c.mu.Unlock()
	c.runDeferred(d)
}

// lookAgain has renewHeld look at a binding then.
func (s *holds) lookAgain(b *binding, due time.Time) {
	b.due = due
	heap.Fix(&s.due, b.index)
}

// Done implements Completer, of a renewal. Where the outcome is unknown, renewHeld tries again until
// the validity is over. So it does once MaxHold is used up.
func (b *binding) Done(_ *Op, result Result) Flusher {
	c := b.client
	d := c.enter()
	defer c.leave(d)
	b.renewing = false
	switch {
	case b.index < 0: // not bound any more
	case result.Held:
		c.holds.arrived(b)
		c.holds.lookAgain(b, nextRenewal(d.now, b.ttl))
	case result.Err == nil: //mutant:a-loss-before-a-lock-again-is-not-told
		c.holds.ended(b, d)
	}
	return nil
}

// renewedLocked is for a lock that was extended, by its renewal or by its holder, with a round that
// began then. The latest end counts, and after a suspension the new one.
func (b *binding) renewedLocked(begun, until time.Time) {
	if at := b.client.own.At(until); at > b.until || b.client.own.SleptSince(b.begun) > 0 { //mutant:the-validity-of-a-renewal-is-counted-from-its-answer
		b.until, b.begun = at, begun
		b.holder.endsKnown = false
	}
}

// ended ends a binding whose lock its Holder has no more, and has the owner told.
func (s *holds) ended(b *binding, d *deferred) {
	s.unbind(b)
	b.holder.lost = append(b.holder.lost, b.keys...)
	d.ended = append(d.ended, b) //mutant:a-loss-is-not-told
}

// deniedLocked ends a binding of which the masters that remember have said that its token does not hold
// it. None of them has forgotten it, so the lock was released or taken over; if that is so of a part
// alone, the rest is lost.
func (b *binding) deniedLocked(r *round, d *deferred) {
	if r.flags.Load()&flagPart != 0 { //mutant:what-is-left-elsewhere-is-no-loss
		b.client.holds.lost(b, partLost, d)
	} else {
		b.client.holds.ended(b, d)
	}
}

// lost is ended for a lock that is lost, of which everybody is told.
func (s *holds) lost(b *binding, why string, d *deferred) {
	s.ended(b, d)
	b.lost = true
	s.losses++
	heldSince, _ := tokenBirth(b.token)
	s.log.Log(s.logger, slog.LevelWarn, d.now, "held lock lost", "resource", b.keys[0], "resources", len(b.keys), "why", why,
		"to_do", "its client is told by the next KEEPALIVE, or is disconnected; if masters were restarted or flushed, or nobody can reach a quorum, see the lines about them", b.note.attr(heldSince))
}

// reportEnded tells owners that their locks have ended, and subscribers of losses. It must be called
// without Client.mu.
func (c *Client) reportEnded(ended []*binding, d *deferred) {
	for _, b := range ended {
		if f := b.holder.owner.LockLost(b.keys); f != nil {
			d.flush = append(d.flush, f)
		}
	}
	c.mu.Lock()
	for _, b := range ended {
		if !b.lost { //mutant:a-lock-that-moved-is-told-as-lost
			continue
		}
		for _, key := range b.keys {
			c.publishMessageLocked(LostChannel, key, d)
		}
	}
	c.mu.Unlock()
	c.messages.receiveOwn()
}

// EndHolder ends the renewal of all that is bound to the Holder: these locks end with their TTLs. If
// byClient, those that were asked for with Release are released. byClient may be true only if the
// client itself has ended its connection.
func (c *Client) EndHolder(h *Holder, byClient bool) {
	d := c.enter()
	defer c.leave(d)
	h.ended, h.lost = true, nil
	for len(h.bindings) > 0 {
		b := h.bindings[len(h.bindings)-1]
		if b.release && byClient && !b.unheard { //mutant:a-connection-that-broke-releases //mutant:a-takeover-without-an-answer-releases
			c.releaseLocked(nil, b.keys, b.token, d)
		} else {
			c.holds.unbind(b)
		}
	}
}

// Bound is how many locks are bound to the Holder.
func (c *Client) Bound(h *Holder) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(h.bindings)
}

// RenewHeld renews every held lock once, to its whole TTL, and waits until all are renewed or lost, or
// ctx is done. A renewal that is under way counts. A server that ends calls it last, once, so that
// clients have the time to take their locks over elsewhere.
func (c *Client) RenewHeld(ctx context.Context) {
	now, none := time.Now(), make(chan struct{})
	c.mu.Lock()
	s := &c.holds
	s.awaited, s.noneAwaited = len(s.due), none
	for _, b := range s.due {
		b.awaited = true
		b.due = now //mutant:a-drain-does-not-renew
	} // any order is right where all are due at once
	if s.awaited == 0 {
		close(none)
	}
	c.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}

// StartHold takes a lock over by req.Token: it is extended to the TTL, gets a new token, which is
// Result.Token, and is bound to the Holder. Result.Held is false if the token does not hold it. Where
// the outcome is not known, StartHold may be repeated with the old token; if it is denied then, the
// lock ends with its TTL. Release counts from the first StartKeepAlive behind the answer. Wait, Fence,
// Slots and Shared of the request mean nothing here.
func (c *Client) StartHold(op *Op, req LockRequest, to Completer) {
	d := deferred{now: time.Now()}
	changes, err := c.takeover(op, req.Resources, req.Token, req.TTL, req.Holder, d.now)
	if err != nil {
		op.to = to
		d.deliver(op, Result{Err: err})
		c.runDeferred(&d)
		return
	}
	op.holder, op.ttl, op.release, op.Note = req.Holder, req.TTL, req.Release, cmp.Or(req.Note, op.Note)
	c.StartCommit(op, changes, to)
}

// takeover are the changes that put a new token in the place of the old one. The new one is as old as
// the lock.
func (c *Client) takeover(op *Op, resources []string, token string, ttl time.Duration, h *Holder, now time.Time) ([]Change, error) {
	if err := checkHolder(resources, token); err != nil {
		return nil, err
	}
	if err := c.bounds.checkHoldTTL(ttl); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return nil, ErrDraining
	}
	if err := c.holds.bindable(h); err != nil {
		return nil, err
	}
	born, known := c.leases.birth(resources, token)
	if !known {
		born = now //mutant:a-takeover-of-unknown-age
	}
	fresh := c.tokens.make(born) //mutant:a-takeover-keeps-the-token
	changes := make([]Change, len(resources))
	for i, resource := range resources {
		changes[i] = Change{Resource: resource, Was: WasValue, Value: token, Do: Set, NewValue: fresh, TTL: ttl, Delay: op.delay(), Longer: true} //mutant:a-takeover-has-no-delay
	}
	return changes, nil
}
