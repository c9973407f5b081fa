package redlock

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/clock"
)

// Share is what one user of a server may take of a Client. A server keeps one Share per user and names
// it in Op.Share before it starts an operation. One Share must not serve several Clients. An Op without
// a Share takes of the Client's own one, which has no limits.
//
//	limit        limited, per Share                                      at the bound
//	MaxLocks     resources that are locked                               new locks are refused with a *ShareError (LimitLocks)
//	MaxMemory    memory of each master, for locks                        what takes more is refused with a *ShareError (LimitMemory)
//	MaxWaiters   LOCKs that wait                                         the LOCK is refused with a *ShareError (LimitWaiters)
//	64 MiB       memory of what waits for room in the lanes (admission)  the operation is refused with a *ShareError (LimitBytes)
//
// The last one is a 64th of Options.MemoryLimit if that is less.
type Share struct {
	// Name is what the log calls the user.
	Name string
	// MaxLocks bounds the resources that are locked through this share at the same time. A lock of several
	// resources counts for each of them. A lock counts until it is released, or the masters no longer keep
	// it: its TTL, the Delay, and what the keys are kept for longer (Options.DriftFactor, ClockStepMax).
	// Only new locks are refused: never UNLOCK, EXTEND, or the repetition of a LOCK whose token still
	// holds the lock. Zero: no limit.
	MaxLocks int
	// MaxMemory bounds what the same locks take of the memory of each master, in bytes: names, values, and
	// some 160 for each. It is an estimate. What replaces a value by a longer one is refused, too, where
	// it takes an eighth more than the limit. Zero: no limit.
	MaxMemory int
	// MaxWaiters bounds the LOCKs of this share that wait at the same time. Zero: only Options.MaxWaiters
	// bounds them.
	MaxWaiters int
	// SetLimits changes the limits while the share is in use. Client.mu guards them from then on, and what
	// follows.

	// locks counts the resources of the leases that name this share, memory what they take of each master.
	locks, memory int
	// listed: the share is in leases.shares.
	listed bool
	// waiters counts the LOCKs that wait.
	waiters int
	// flows are those with something queued, in the order of their turns: see admission.
	flows turns[*Flow]
	// own is the flow of operations that name none.
	own Flow
	// queuedBytes is the memory of what is queued in flows.
	queuedBytes int
	debt        int // see turns
	// ends has the leases by the end of their keys, if there is a MaxLocks or MaxMemory. Leases that do not
	// name this share any more may be among them.
	ends endHeap
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
	// burst counts the operations in a row of which each was started within burstGap of the one before.
	burst  int
	lastAt time.Duration // when the last operation was started, on Client.own
	deepAt time.Duration // when the last was that came in a deep pipeline
	held   bool          // see admission.hold
}

const (
	// burstGap is more than there is between two commands of a pipeline, and less than the round trip that
	// is between two operations of a caller who waits for each.
	burstGap = 50 * time.Microsecond
	// deepBurst is from how many operations in a row on a pipeline is deep.
	deepBurst = 8
)

// deep tells whether the flow has been in a deep pipeline within crowdedFor.
func (f *Flow) deep(now time.Duration) bool { return f.deepAt > 0 && now-f.deepAt < crowdedFor }

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
	LimitMemory  = "max_memory"
	LimitWaiters = "max_waiters"
	// LimitBytes and LimitAllBytes are no settings: the bytes of the operations that wait until the
	// masters can take more, of one share and of all.
	LimitBytes    = "bytes that wait for the masters"
	LimitAllBytes = "bytes that wait for the masters, of all users"
)

// ShareError says which limit of its Share an operation would exceed. Nothing was granted. errors.Is
// finds ErrLimit, and of LimitWaiters also ErrTooManyWaiters.
type ShareError struct {
	Limit string // LimitLocks, LimitMemory, LimitWaiters, LimitBytes, LimitAllBytes
	Max   int
	Used  int    // of LimitMemory: how much of it is taken
	Share *Share // of LimitLocks, LimitMemory and LimitWaiters: whose limit it is, that of Op.Share or one of Terms.Waiters
}

func (e *ShareError) Error() string {
	switch e.Limit {
	case LimitLocks:
		return fmt.Sprintf("this user may lock %d resources at the same time (%s): release some first", e.Max, e.Limit)
	case LimitMemory:
		return fmt.Sprintf("the locks of this user take %d of the %d bytes that they may take of each master (%s): release some first", e.Used, e.Max, e.Limit)
	case LimitWaiters:
		return fmt.Sprintf("too many waiters: %d LOCKs of this user may wait at the same time (%s)", e.Max, e.Limit)
	}
	return fmt.Sprintf("overloaded: at most %d %s are possible", e.Max, e.Limit)
}

// Is makes errors.Is(err, ErrLimit) true.
func (e *ShareError) Is(target error) bool {
	return target == ErrLimit || target == ErrTooManyWaiters && e.Limit == LimitWaiters
}

// Usage is what a Share has taken.
type Usage struct {
	Locks   int // resources that are locked through it
	Memory  int // bytes of each master that their locks take; an estimate
	Waiters int // LOCKs that wait
}

// Usage tells what a Share has taken.
func (c *Client) Usage(s *Share) Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.uncountEnded(time.Now())
	return Usage{s.locks, s.memory, s.waiters}
}

// SetLimits gives a share other limits, which is allowed while operations use it. They count for what
// comes: nothing that is locked or waits ends because of them.
func (c *Client) SetLimits(s *Share, maxLocks, maxMemory, maxWaiters int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counted := s.MaxLocks != 0 || s.MaxMemory != 0
	s.MaxLocks, s.MaxMemory, s.MaxWaiters = maxLocks, maxMemory, maxWaiters
	switch {
	case maxLocks == 0 && maxMemory == 0:
		s.ends = nil
	case !counted: // count has put no lease into ends so far
		for _, l := range c.leases.all {
			if l.share == s {
				s.ends = append(s.ends, leaseEnd{c.leases.gone(l), l})
			}
		}
		heap.Init(&s.ends)
	}
}

// shareOf returns the share that an operation takes of.
func (a *admission) shareOf(op *Op) *Share {
	if op.Share != nil {
		return op.Share
	}
	return &a.share
}

// lockable returns an error if the operation must not get so many more locked resources, or so many more
// bytes of the masters' memory for them. It needs Client.mu.
func (c *Client) lockable(op *Op, locks, memory int, now time.Time) error {
	s := c.admission.shareOf(op)
	if s.beyond(locks, memory) != nil {
		s.uncountEnded(now)
	}
	if err := s.beyond(locks, memory); err != nil {
		return err
	}
	if locks > 0 && op.holder != nil {
		return c.holds.bindable(op.holder)
	}
	return nil
}

// beyond returns the limit that would be exceeded with so much more, or nil. An eighth of MaxMemory on top
// is for what locks no more resources than before: a holder that enters once more, or a release that leaves
// a key for a moment, must not fail because new locks have taken all.
func (s *Share) beyond(locks, memory int) error {
	mostMemory := s.MaxMemory
	if locks <= 0 { //mutant:at-the-limit-a-release-needs-room
		mostMemory += s.MaxMemory / 8
	}
	switch {
	case locks > 0 && s.MaxLocks != 0 && s.locks+locks > s.MaxLocks:
		return &ShareError{Limit: LimitLocks, Max: s.MaxLocks, Share: s}
	case memory > 0 && s.MaxMemory != 0 && s.memory+memory > mostMemory: //mutant:memory-is-not-limited
		return &ShareError{Limit: LimitMemory, Max: s.MaxMemory, Used: s.memory, Share: s}
	}
	return nil
}

// What a key takes of a master's memory, measured with Redis 7.0 (TestRealMemoryOfAShare).
const (
	// keyMemory is for a key with a TTL, beside its name and its value.
	keyMemory = 160
	// skipListMemory comes on top for a set of readers with a token of more than skipListFrom bytes.
	skipListMemory = 1000
	skipListFrom   = 60
)

// lockMemory is what the lock of these resources takes of each master under this token. Redis rounds a
// long text up to the next of its sizes.
func lockMemory(resources []string, token string, reader bool) (memory int) {
	for _, resource := range resources {
		memory += keyMemory + (len(resource)+len(token))*5/4
	}
	if reader && len(token) > skipListFrom {
		memory += skipListMemory * len(resources)
	}
	return memory
}

// newMemory is how much more the changes take of each master than before; negative: they free some.
func newMemory(changes []Change) (n int) {
	for i := range changes {
		ch := &changes[i]
		key := []string{ch.Resource}
		if ch.Was == WasValue && (ch.Do == Set || ch.Do == Delete) {
			n -= lockMemory(key, ch.Value, false)
		}
		if ch.Do == Set {
			n += lockMemory(key, ch.NewValue, false)
		}
	}
	return n
}

// waitable returns an error if one more waiter exceeds the limit. It needs Client.mu.
func (s *Share) waitable() error {
	if s.MaxWaiters == 0 || s.waiters < s.MaxWaiters {
		return nil
	}
	return &ShareError{Limit: LimitWaiters, Max: s.MaxWaiters, Share: s}
}

// count takes a lease into account, until uncount or the end of its keys, of which all tell when that is.
func (s *Share) count(counted *lease, all *leases) {
	counted.share = s
	s.locks += len(counted.keys)
	s.memory += lockMemory(counted.keys, counted.token, counted.reader)
	if s.MaxLocks == 0 && s.MaxMemory == 0 {
		return
	}
	// Leases that were uncounted stay in the heap until their keys would have ended. If they are most of it,
	// it is made anew.
	if len(s.ends) > 16+2*s.locks {
		s.ends = slices.DeleteFunc(s.ends, func(e leaseEnd) bool { return e.lease.share != s })
		heap.Init(&s.ends)
	}
	s.ends = append(s.ends, leaseEnd{all.gone(counted), counted})
	heap.Fix(&s.ends, len(s.ends)-1) // Push would allocate
}

// uncount is for a lease that is forgotten.
func (l *lease) uncount() {
	if s := l.share; s != nil {
		s.locks -= len(l.keys)
		s.memory -= lockMemory(l.keys, l.token, l.reader)
		l.share = nil
	}
}

// uncountEnded uncounts the leases whose keys have ended.
func (s *Share) uncountEnded(now time.Time) {
	for len(s.ends) > 0 && !now.Before(s.ends[0].at) {
		heap.Pop(&s.ends).(leaseEnd).lease.uncount()
	}
}

// leaseEnd is when the keys of a lease end on the masters.
type leaseEnd struct {
	at    time.Time
	lease *lease
}

// endHeap implements heap.Interface: the lease whose keys end first is on top.
type endHeap []leaseEnd

func (h endHeap) Len() int           { return len(h) }
func (h endHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h endHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *endHeap) Push(e any)        { *h = append(*h, e.(leaseEnd)) }

func (h *endHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = leaseEnd{}
	*h = (*h)[:last]
	return e
}

// largestShares names the shares that take most of the masters' memory, with its size, for the log.
func (all *leases) largestShares(now time.Time) string {
	all.shares = slices.DeleteFunc(all.shares, func(s *Share) bool {
		s.uncountEnded(now)
		s.listed = s.memory > 0
		return !s.listed
	})
	slices.SortFunc(all.shares, func(a, b *Share) int { return cmp.Compare(b.memory, a.memory) })
	var names []string
	for _, s := range all.shares[:min(len(all.shares), 3)] {
		names = append(names, fmt.Sprintf("%s: %d bytes", cmp.Or(s.Name, "clients of no user"), s.memory))
	}
	return strings.Join(names, ", ")
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
