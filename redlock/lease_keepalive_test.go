package redlock

// Goal: work that listens to KeepAlive's context never runs past the validity, and runs as long as it may. Method: in virtual time, all that can
// end a lease, and the time that is left of it when the context ends.

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lease is that of a resource which nobody holds.
func (p *proxy) lease(resource string, ttl time.Duration) *Lease {
	p.s.Helper()
	lease, err := p.TryLock(p.s.Context(), resource, ttl)
	if err != nil {
		p.s.Fatal(err)
	}
	return lease
}

func TestKeepAlive(t *testing.T) {
	const ttl = 3 * time.Second
	for _, tt := range []struct {
		name  string
		after func(s *stage, lease *Lease) // what happens behind ten TTLs
		want  func(cause error) bool
		least time.Duration // of the validity, when the context ends
		early time.Duration
	}{
		{"its keys are deleted", func(s *stage, _ *Lease) { s.doAll("DEL", "r") }, func(cause error) bool { return cause == ErrNotHeld }, ttl / 2, 0},
		{"no quorum answers", func(s *stage, _ *Lease) { s.freeze(0, 1, 2) },
			func(cause error) bool { return errors.Is(cause, ErrNoQuorum) }, 40 * ms, 0},
		{"no quorum answers, and the work needs a second to stop", func(s *stage, _ *Lease) { s.freeze(0, 1, 2) },
			func(cause error) bool { return errors.Is(cause, ErrNoQuorum) }, 940 * ms, time.Second},
		{"the machine is suspended for longer than the validity", func(_ *stage, lease *Lease) {
			lease.mu.Lock()
			defer lease.mu.Unlock()
			lease.suspended -= ttl
		}, func(cause error) bool { return cause == ErrLapsed }, -ttl, 0},
		{"it is unlocked", func(s *stage, lease *Lease) {
			if err := lease.Unlock(s.Context()); err != nil {
				s.Errorf("UNLOCK: got error %v", err)
			}
		}, func(cause error) bool { return cause == context.Canceled }, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open()
				lease := p.lease("r", ttl)
				renewed := 0
				held := lease.KeepAliveWith(s.Context(), KeepAliveOptions{Early: tt.early, OnRenewal: func(err error) {
					if err == nil {
						renewed++
					}
				}})
				time.Sleep(10 * ttl)
				synctest.Wait()
				if held.Err() != nil || renewed < 28 || renewed > 32 {
					s.Fatalf("after ten TTLs: got %v and %d renewals, want three per TTL", context.Cause(held), renewed)
				}
				tt.after(s, lease)
				select {
				case <-held.Done():
				case <-time.After(2 * ttl):
					s.Fatal("the context does not end")
				}
				if left := lease.Validity(); left < tt.least {
					s.Errorf("the context ended with a validity of %v left, want %v", left, tt.least)
				}
				if cause := context.Cause(held); !tt.want(cause) {
					s.Errorf("got the cause %v", cause)
				}
				synctest.Wait()
				renewed = 0
				time.Sleep(2 * ttl)
				if renewed > 0 {
					s.Errorf("the lock was renewed %d times after the context had ended", renewed)
				}
			})
		})
	}
}

// A lock that is held outlives its TTL, and who waits for it holds it when it is released.
func TestHold(t *testing.T) {
	const ttl = time.Second
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		lease, held, err := p.Hold(s.Context(), "r", ttl)
		if err != nil {
			s.Fatal(err)
		}
		if _, _, err := p.Hold(s.Context(), "", ttl); !errors.Is(err, ErrBadRequest) {
			s.Errorf("a resource without a name: got %v, want %v", err, ErrBadRequest)
		}
		next := make(chan *Lease)
		go func() {
			lease, _, err := p.Hold(s.Context(), "r", ttl)
			if err != nil {
				s.Errorf("the second: got %v", err)
			}
			next <- lease
		}()
		time.Sleep(5 * ttl)
		select {
		case <-next:
			s.Fatal("two hold it")
		case <-held.Done():
			s.Fatalf("it ended: %v", context.Cause(held))
		default:
		}
		lease.Unlock(s.Context())
		second := <-next
		time.Sleep(5 * ttl)
		if left := second.Validity(); left <= 0 {
			s.Errorf("the second: its validity is over since %v", -left)
		}
		second.Unlock(s.Context())
		s.wantNoLocks()
	})
}

// What the caller's context ends is the work and the renewal; the lock stays until it is released or its TTL is over.
func TestKeepAliveEndsWithItsContext(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		lease := p.lease("r", time.Second)
		ctx, cancel := context.WithCancel(s.Context())
		held := lease.KeepAlive(ctx)
		time.Sleep(5 * time.Second)
		cancel()
		<-held.Done()
		if _, err := p.TryLock(s.Context(), "r", time.Second); err != ErrHeld {
			s.Errorf("TryLock by another: got %v, want %v", err, ErrHeld)
		}
		time.Sleep(time.Second + 100*ms)
		s.wantNoLocks()
	})
}

// OnRenewal may block: the work's context ends in time all the same.
func TestKeepAliveWaitsForNobody(t *testing.T) {
	const ttl = 3 * time.Second
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		lease := p.lease("r", ttl)
		goOn := make(chan bool)
		held := lease.KeepAliveWith(s.Context(), KeepAliveOptions{OnRenewal: func(error) { <-goOn }})
		<-held.Done()
		if left := lease.Validity(); left <= 0 {
			s.Errorf("the context ended %v after the validity", -left)
		}
		close(goOn)
		lease.Unlock(s.Context())
	})
}

// The shortest locks lose more than a third of their TTL to drift: they are renewed in time, and not without a pause.
func TestKeepAliveOfTheShortestLock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		lease := p.lease("r", p.opts.MinTTL)
		renewed := 0
		held := lease.KeepAliveWith(s.Context(), KeepAliveOptions{OnRenewal: func(error) { renewed++ }})
		time.Sleep(100 * p.opts.MinTTL)
		synctest.Wait()
		if most := 100 * 12; held.Err() != nil || renewed > most {
			s.Errorf("after 100 TTLs: %v and %d renewals, want at most %d", context.Cause(held), renewed, most)
		}
		lease.Unlock(s.Context())
	})
}

// renewable is a lock whose renewals a test decides.
type renewable struct {
	ttl        time.Duration
	mu         sync.Mutex // guards validUntil
	validUntil time.Time
	began      time.Time
	at         []time.Duration // when it was to be renewed
	extend     func(n int) error
}

func (r *renewable) Validity() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.validUntil)
}

func (r *renewable) Extend(context.Context, time.Duration) error {
	r.at = append(r.at, time.Since(r.began))
	err := r.extend(len(r.at))
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.validUntil = time.Now().Add(r.ttl)
	}
	return err
}

// A lock is renewed when a third of its validity is over, soon again where that fails, and after that as before.
func TestWhenALockIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		lock := &renewable{ttl: ttl, began: time.Now(), validUntil: time.Now().Add(ttl)}
		lock.extend = func(n int) error {
			if n == 2 || n == 3 {
				return ErrNoQuorum
			}
			return nil
		}
		held, stop := KeepAlive(t.Context(), lock, ttl, KeepAliveOptions{})
		time.Sleep(time.Minute)
		if held.Err() != nil {
			t.Errorf("the context has ended: %v", context.Cause(held))
		}
		stop()
		want := []time.Duration{10 * time.Second, 20 * time.Second, 21 * time.Second, 22 * time.Second, 32 * time.Second, 42 * time.Second, 52 * time.Second}
		for i, at := range want {
			if i >= len(lock.at) || lock.at[i] < at || lock.at[i] > at+time.Second/4 {
				t.Fatalf("renewed after %v, want it after %v", lock.at, want)
			}
		}
		if len(lock.at) != len(want) {
			t.Errorf("renewed after %v, want it after %v", lock.at, want)
		}
	})
}

// Who stops the renewals waits for the one that is in flight, and nobody is told of it. The end of the context waits for nothing.
func TestStopWaitsForARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		lock := &renewable{ttl: ttl, began: time.Now(), validUntil: time.Now().Add(ttl)}
		answered := false
		lock.extend = func(int) error {
			time.Sleep(1500 * ms)
			answered = true
			return nil
		}
		told := 0
		held, stop := KeepAlive(t.Context(), lock, ttl, KeepAliveOptions{OnRenewal: func(error) { told++ }})
		time.Sleep(1500 * ms) // half of a renewal
		if stop(); !answered || held.Err() == nil || told != 0 {
			t.Errorf("stopped: the renewal is answered %t, the context has ended for %v, told of it %d times; want true, and none", answered, held.Err(), told)
		}
		lock.validUntil, lock.began, lock.at = time.Now().Add(ttl), time.Now(), nil
		_, stop = KeepAlive(t.Context(), lock, ttl, KeepAliveOptions{OnRenewal: func(error) { told++ }})
		time.Sleep(3 * time.Second)
		if stop(); told != 1 {
			t.Errorf("one renewal: told of %d", told)
		}
	})
}

// A second KeepAlive ends the first.
func TestKeepAliveAnew(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		lease := p.lease("r", 10*time.Second)
		first := lease.KeepAlive(s.Context())
		second := lease.KeepAlive(s.Context())
		if first.Err() == nil || second.Err() != nil {
			s.Errorf("the first has ended for %v, the second for %v; want only the first", first.Err(), second.Err())
		}
		lease.Unlock(s.Context())
	})
}
