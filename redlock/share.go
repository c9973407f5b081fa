package redlock

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"redlockd/redlock/clock"
)

// Share is what one user of a server may take of a Client. A server keeps one Share per user and names
// it in Op.Share before it starts an operation. One Share must not serve several Clients. An Op without
// a Share takes of the Client's own one, which has no limits.
//
//	limit        limited, per Share                                      at the bound
//	MaxLocks     resources that are locked                               new locks are refused with a *ShareError (LimitLocks)
//	MaxWaiters   LOCKs that wait                                         the LOCK is refused with a *ShareError (LimitWaiters)
//	64 MiB       memory of what waits for room in the lanes (admission)  the operation is refused with a *ShareError (LimitBytes)
type Share struct {
	// MaxLocks bounds the resources that are locked through this share at the same time. A lock of several
	// resources counts for each of them, a lock that has ended by its TTL for none. Only new locks are
	// refused: never UNLOCK, EXTEND, or the repetition of a LOCK whose token still holds the lock. Zero:
	// no limit.
	MaxLocks int
	// MaxWaiters bounds the LOCKs of this share that wait at the same time. Zero: only Options.MaxWaiters
	// bounds them.
	MaxWaiters int
	// SetLimits changes both while the share is in use. Client.mu guards them from then on, and what
	// follows.

	// locks counts the resources of the leases that name this share.
	locks int
	// waiters counts the LOCKs that wait.
	waiters int
	// flows are those with something queued, in the order of their turns: see admission.
	flows turns[*Flow]
	// own is the flow of operations that name none.
	own Flow
	// queuedBytes is the memory of what is queued in flows.
	queuedBytes int
	debt        int // see turns
	// ends has the leases by their end, if there is a MaxLocks. Leases that do not name this share any
	// more may be among them.
	ends leaseHeap
}

func (s *Share) owed() *int { return &s.debt }

// Flow is one stream of operations of a Share, those of one connection for example. While they wait for
// room in the lanes (admission), the operations of a flow begin in the order in which they were started,
// and the flows of a share take turns. A server keeps one Flow per connection and names it in Op.Flow
// before it starts an operation. Operations of a Share without one are a flow together. The zero value
// is ready.
type Flow struct {
	share  *Share // in whose turns it is, while something is queued. Client.mu guards all fields
	queued []*queuedOp
	debt   int // see turns
}

func (f *Flow) owed() *int { return &f.debt }

// flowOf returns the flow of an operation of the share; op may be nil. While operations of another
// share are queued in its own flow, because its client has just logged in as another user, it is in
// that of the share.
func (s *Share) flowOf(op *Op) *Flow {
	if op == nil || op.Flow == nil || len(op.Flow.queued) > 0 && op.Flow.share != s { //mutant:who-logs-in-as-another-overtakes
		return &s.own
	}
	return op.Flow
}

// The limits that a ShareError can name, by the names of the settings.
const (
	LimitLocks   = "max_locks"
	LimitWaiters = "max_waiters"
	// LimitBytes and LimitAllBytes are no settings: the bytes of the operations that wait until the
	// masters can take more, of one share and of all.
	LimitBytes    = "bytes that wait for the masters"
	LimitAllBytes = "bytes that wait for the masters, of all users"
)

// ShareError says which limit of its Share an operation would exceed. Nothing was granted. errors.Is
// finds ErrLimit, and of LimitWaiters also ErrTooManyWaiters.
type ShareError struct {
	Limit string // LimitLocks, LimitWaiters, LimitBytes, LimitAllBytes
	Max   int
	Share *Share // of LimitLocks and LimitWaiters: whose limit it is, that of Op.Share or one of Terms.Waiters
}

func (e *ShareError) Error() string {
	switch e.Limit {
	case LimitLocks:
		return fmt.Sprintf("this user may lock %d resources at the same time (%s): release some first", e.Max, e.Limit)
	case LimitWaiters:
		return fmt.Sprintf("too many waiters: %d LOCKs of this user may wait at the same time (%s)", e.Max, e.Limit)
	}
	return fmt.Sprintf("overloaded: at most %d %s are possible", e.Max, e.Limit)
}

// Is makes errors.Is(err, ErrLimit) true.
func (e *ShareError) Is(target error) bool {
	return target == ErrLimit || target == ErrTooManyWaiters && e.Limit == LimitWaiters
}

// Usage is what a Share has taken: resources that are locked through it, and LOCKs that wait.
func (c *Client) Usage(s *Share) (locks, waiters int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.uncountEnded(time.Now())
	return s.locks, s.waiters
}

// SetLimits gives a share other limits, which is allowed while operations use it. They count for what
// comes: nothing that is locked or waits ends because of them.
func (c *Client) SetLimits(s *Share, maxLocks, maxWaiters int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case maxLocks == 0:
		s.ends = nil
	case s.MaxLocks == 0: // count has put no lease into ends so far
		for _, l := range c.leases.all {
			if l.share == s {
				s.ends = append(s.ends, l)
			}
		}
		heap.Init(&s.ends)
	}
	s.MaxLocks, s.MaxWaiters = maxLocks, maxWaiters
}

// shareOf returns the share that an operation takes of.
func (a *admission) shareOf(op *Op) *Share {
	if op.Share != nil {
		return op.Share
	}
	return &a.share
}

// lockable returns an error if the operation must not get n more locked resources. It needs Client.mu.
func (c *Client) lockable(op *Op, n int, now time.Time) error {
	if n == 0 {
		return nil
	}
	s := c.admission.shareOf(op)
	if s.MaxLocks != 0 && s.locks+n > s.MaxLocks {
		if s.uncountEnded(now); s.locks+n > s.MaxLocks {
			return &ShareError{Limit: LimitLocks, Max: s.MaxLocks, Share: s}
		}
	}
	if op.holder != nil {
		return c.holds.bindable(op.holder)
	}
	return nil
}

// waitable returns an error if one more waiter exceeds the limit. It needs Client.mu.
func (s *Share) waitable() error {
	if s.MaxWaiters == 0 || s.waiters < s.MaxWaiters {
		return nil
	}
	return &ShareError{Limit: LimitWaiters, Max: s.MaxWaiters, Share: s}
}

// count takes a lease into account, until uncount or the end of its validity.
func (s *Share) count(counted *lease) {
	counted.share = s
	s.locks += len(counted.keys)
	if s.MaxLocks == 0 {
		return
	}
	// Leases that were uncounted stay in the heap until they are on top. If they are most of it, it is
	// made anew.
	if len(s.ends) > 16 && len(s.ends) > 2*s.locks {
		s.ends = slices.DeleteFunc(s.ends, func(l *lease) bool { return l.share != s })
		heap.Init(&s.ends)
	}
	heap.Push(&s.ends, counted)
}

// uncount is for a lease that is forgotten.
func (l *lease) uncount() {
	if s := l.share; s != nil {
		s.locks -= len(l.keys)
		l.share = nil
	}
}

// uncountEnded uncounts the leases that have run out.
func (s *Share) uncountEnded(now time.Time) {
	for len(s.ends) > 0 && (s.ends[0].share != s || !now.Before(s.ends[0].validUntil)) {
		if ended := heap.Pop(&s.ends).(*lease); ended.share == s {
			ended.uncount()
		}
	}
}

// leaseHeap implements heap.Interface: the lease that ends first is on top.
type leaseHeap []*lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].validUntil.Before(h[j].validUntil) }
func (h leaseHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *leaseHeap) Push(l any)        { *h = append(*h, l.(*lease)) }

func (h *leaseHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return l
}

// Terms bound what one operation is granted more strictly than Options do. A server makes them of its
// rules for some resources and names them in Op.Terms. They must not change while an operation or a
// lock has them, but for the limits of Waiters (SetLimits).
type Terms struct {
	// Name says in errors whose MaxHold it is.
	Name string
	// Delay is for how long, at least, nobody gets the lock when its TTL has ended without a release. The
	// masters are asked for the TTL and the Delay, and the caller is told the validity of the TTL alone.
	// So the delay needs no state: every renewal includes it, a release ends it with the lock, and a
	// master that forgets the lock forgets the delay. The token holds the lock until the Delay is over: it
	// can still extend or release it. TTL and Delay together are bounded by MaxTTL. The masters' clocks
	// count it. A StartCommit goes by Change.Delay instead. Zero: none.
	Delay time.Duration
	// MaxHold is as Options.MaxHold, where it is shorter. Zero: Options.MaxHold counts.
	MaxHold time.Duration
	// Waiters count the LOCKs that wait, beside Op.Share, and MaxWaiters of each bounds them. They count
	// nothing else.
	Waiters []*Share
}

// delay is Op.Terms.Delay.
func (op *Op) delay() time.Duration {
	if op.Terms == nil {
		return 0
	}
	return op.Terms.Delay
}

// askedMs is for how many milliseconds the masters are asked to keep the keys of a LOCK or an EXTEND: for
// the TTL, and the Delay behind it.
func (op *Op) askedMs(d clock.Drift) int64 { //mutant:a-native-lock-is-not-padded
	return clock.Padded(op.ttl+op.delay(), d).Milliseconds() //mutant:a-lock-has-no-delay
}

// waitable returns an error if one more LOCK under these terms must not wait. It needs Client.mu.
func (t *Terms) waitable() error {
	for _, s := range t.Waiters {
		if err := s.waitable(); err != nil {
			return err
		}
	}
	return nil
}

// countWaiter counts a LOCK that begins (1) or ends (-1) its wait.
func (ws *waiting) countWaiter(op *Op, n int) {
	ws.count += n
	ws.client.admission.shareOf(op).waiters += n
	if op.Terms != nil {
		for _, s := range op.Terms.Waiters {
			s.waiters += n
		}
	}
}

// Strictest returns the terms that keep both. Nil has none.
func (t *Terms) Strictest(other *Terms) *Terms {
	switch {
	case t == nil || t == other:
		return other
	case other == nil:
		return t
	}
	both := &Terms{Name: t.Name, Delay: max(t.Delay, other.Delay), MaxHold: t.MaxHold, Waiters: slices.Clone(t.Waiters)}
	if other.MaxHold > 0 && (t.MaxHold == 0 || other.MaxHold < t.MaxHold) {
		both.Name, both.MaxHold = other.Name, other.MaxHold
	}
	for _, s := range other.Waiters {
		if !slices.Contains(both.Waiters, s) {
			both.Waiters = append(both.Waiters, s)
		}
	}
	return both
}
