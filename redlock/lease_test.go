package redlock

// Goal: a call that waits for its answer returns what the operation came to. Method: in virtual time, each call where the caller holds the lock, where
// another does, and where the resource is free.

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// A release by force returns whom it released and the fence that is above theirs, and ErrNotHeld, with a fence, where there is nobody.
func TestForceUnlockByACall(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		lease, err := p.Acquire(s.Context(), LockRequest{Resources: []string{"r"}, TTL: time.Minute, Fence: true})
		if err != nil {
			s.Fatal(err)
		}
		forced, err := p.ForceUnlock(s.Context(), "r")
		if err != nil || !slices.Equal(forced.Tokens, []string{TokenDigest(p.Client, lease.Token)}) || forced.Fence <= lease.Fence {
			s.Errorf("of a lock with the fence %d: got %+v, %v", lease.Fence, forced, err)
		}
		if err := lease.Unlock(s.Context()); err != ErrNotHeld {
			s.Errorf("UNLOCK behind it: got %v, want %v", err, ErrNotHeld)
		}
		again, err := p.ForceUnlock(s.Context(), "r")
		if err != ErrNotHeld || again == nil || len(again.Tokens) != 0 || again.Fence <= forced.Fence {
			s.Errorf("once more: got %+v, %v, want %v, and a fence above %d", again, err, ErrNotHeld, forced.Fence)
		}
		s.freeze(0, 1)
		if forced, err := p.ForceUnlock(s.Context(), "r"); !errors.Is(err, ErrNoQuorum) {
			s.Errorf("without a quorum: got %+v, %v", forced, err)
		}
	})
}

// A lease of a slot is of that slot alone: who extends or releases it does so to no other.
func TestLeaseOfASlot(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		request := LockRequest{Resources: []string{"r"}, TTL: 30 * time.Second, Slots: 2}
		one, err := p.Acquire(s.Context(), request)
		if err != nil {
			s.Fatal(err)
		}
		other, err := p.Acquire(s.Context(), request)
		if err != nil {
			s.Fatal(err)
		}
		if got := slices.Sorted(slices.Values(slices.Concat(one.Resources, other.Resources))); !slices.Equal(got, []string{"r#0", "r#1"}) {
			s.Errorf("got %q, want r#0 and r#1", got)
		}
		if _, err := p.Acquire(s.Context(), request); err != ErrHeld {
			s.Errorf("a third: got %v, want %v", err, ErrHeld)
		}
		if err := one.Extend(s.Context(), 40*time.Second); err != nil || one.Validity() <= 30*time.Second {
			s.Errorf("EXTEND: got %v, and a validity of %v", err, one.Validity())
		}
		if err := one.Unlock(s.Context()); err != nil {
			s.Errorf("UNLOCK: got %v", err)
		}
		if err := other.Extend(s.Context(), 30*time.Second); err != nil {
			s.Errorf("EXTEND of the other: got %v", err)
		}
	})
}

// An UNLOCK ends the renewals before it asks a master: none comes behind it, and none tells the work that the lock is lost.
func TestUnlockEndsKeepAlive(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		lease := p.lease("r", time.Second)
		renewals := 0
		held := lease.KeepAliveWith(s.Context(), KeepAliveOptions{OnRenewal: func(error) { renewals++ }})
		time.Sleep(5 * time.Second)
		if err := lease.Unlock(s.Context()); err != nil || renewals == 0 {
			s.Errorf("UNLOCK behind %d renewals: got %v", renewals, err)
		}
		before := renewals
		if held.Err() == nil {
			s.Error("the work is not told that the lock is released")
		}
		time.Sleep(5 * time.Second)
		if renewals != before {
			s.Errorf("%d renewals behind the UNLOCK", renewals-before)
		}
	})
}

// Who names the same resources in another order has the same lock; who names fewer, more or others has not.
func TestSameKeys(t *testing.T) {
	for _, c := range []struct {
		a, b []string
		want bool
	}{
		{[]string{"a"}, []string{"a"}, true},
		{[]string{"a"}, []string{"b"}, false},
		{[]string{"a", "b"}, []string{"a", "b"}, true},
		{[]string{"a", "b"}, []string{"b", "a"}, true},
		{[]string{"a", "b"}, []string{"a", "c"}, false},
		{[]string{"a", "b"}, []string{"c", "b"}, false},
		{[]string{"a"}, []string{"a", "b"}, false},
		{[]string{"a", "b"}, []string{"a"}, false},
	} {
		if got := sameKeys(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: got %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
