package redlock

import (
	"fmt"
	"slices"
	"time"
)

// Share is what one user of a server may take of a Client. A server keeps one Share per user and names it in Op.Share before it starts an
// operation. One Share must not serve several Clients. An Op without a Share takes of the Client's own one, which has no limits.
type Share struct {
	// MaxLocks bounds the resources that are locked through this share at the same time; a lock of several resources counts for each of
	// them, a lock that has ended by its TTL for none. Only new locks are refused: never UNLOCK, EXTEND, or the repetition of a LOCK
	// whose token still holds the lock. Zero: no limit.
	MaxLocks int
	// MaxWaiters bounds the LOCKs of this share that wait at the same time. Zero: only Options.MaxWaiters bounds them.
	MaxWaiters int

	// Client.mu guards what follows.
	locks       int         // resources of leases that name this share
	waiters     int         // LOCKs that wait
	queued      []*queuedOp // operations that wait for room in the lanes, in order: see admission
	queuedBytes int         // their memory
	ends        []*lease    // with MaxLocks: a heap, the lease that ends first on top; among them are leases that do not name this share any more
}

// The limits that a ShareError can name, by the names of the settings.
const (
	LimitLocks   = "max_locks"
	LimitWaiters = "max_waiters"
	// LimitBytes and LimitAllBytes are no settings: the bytes of the operations that wait until the masters can take more, of one share and
	// of all.
	LimitBytes    = "bytes that wait for the masters"
	LimitAllBytes = "bytes that wait for the masters, of all users"
)

// ShareError says which limit of its Share an operation would exceed. Nothing was granted. errors.Is finds ErrLimit, and of LimitWaiters
// also ErrTooManyWaiters.
type ShareError struct {
	Limit string // LimitLocks, LimitWaiters, LimitBytes, LimitAllBytes
	Max   int
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

// shareOf returns the share that an operation takes of.
func (c *Client) shareOf(op *Op) *Share {
	if op.Share != nil {
		return op.Share
	}
	return &c.share
}

// lockable returns an error if n more locked resources exceed the limit. It needs Client.mu.
func (s *Share) lockable(n int, now time.Time) error {
	if s.MaxLocks == 0 || s.locks+n <= s.MaxLocks {
		return nil
	}
	if s.uncountEnded(now); s.locks+n <= s.MaxLocks {
		return nil
	}
	return &ShareError{LimitLocks, s.MaxLocks}
}

// waitable returns an error if one more waiter exceeds the limit. It needs Client.mu.
func (s *Share) waitable() error {
	if s.MaxWaiters == 0 || s.waiters < s.MaxWaiters {
		return nil
	}
	return &ShareError{LimitWaiters, s.MaxWaiters}
}

// count takes a lease into account, until uncount or the end of its validity.
func (s *Share) count(counted *lease) {
	counted.share = s
	s.locks += len(counted.keys)
	if s.MaxLocks == 0 {
		return
	}
	// Leases that were uncounted stay in the heap until they are on top. Where they are most of it, it is made anew.
	if len(s.ends) > 16 && len(s.ends) > 2*s.locks {
		s.ends = slices.DeleteFunc(s.ends, func(l *lease) bool { return l.share != s })
		slices.SortFunc(s.ends, func(a, b *lease) int { return a.validUntil.Compare(b.validUntil) })
	}
	s.ends = append(s.ends, counted)
	for i := len(s.ends) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s.ends[i].validUntil.Before(s.ends[parent].validUntil) {
			break
		}
		s.ends[i], s.ends[parent] = s.ends[parent], s.ends[i]
		i = parent
	}
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
		if s.ends[0].share == s {
			s.ends[0].uncount()
		}
		last := len(s.ends) - 1
		s.ends[0], s.ends[last] = s.ends[last], nil
		s.ends = s.ends[:last]
		for i := 0; ; {
			first := i
			for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
				if s.ends[child].validUntil.Before(s.ends[first].validUntil) {
					first = child
				}
			}
			if first == i {
				break
			}
			s.ends[i], s.ends[first] = s.ends[first], s.ends[i]
			i = first
		}
	}
}
