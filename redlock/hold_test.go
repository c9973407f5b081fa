package redlock

// Goal: a held lock lives as long as its holder and ends with it, its owner is told of each loss, and KEEPALIVE never says more than what
// is held. Method: virtual time; the owner writes down what it is told.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/quorum"
)

// testOwner is an Owner that writes down what it is told.
type testOwner struct {
	*Holder
	p    *proxy
	idle atomic.Int64
	mu   sync.Mutex
	told []string

	flushed atomic.Int64 // how often what LockLost has left behind was sent
}

func (p *proxy) holder() *testOwner {
	o := &testOwner{p: p}
	o.Holder = NewHolder(o)
	return o
}

func (o *testOwner) LockLost(resources []string) Flusher {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, resources...)
	return o
}

func (o *testOwner) Flush() { o.flushed.Add(1) }

func (o *testOwner) Idle() time.Duration { return time.Duration(o.idle.Load()) }

func (r LockRequest) heldBy(o *testOwner) LockRequest { r.Holder = o.Holder; return r }
func (r LockRequest) released() LockRequest           { r.Release = true; return r }

// keepAlive is a KEEPALIVE that is run to its end.
func (o *testOwner) keepAlive() *call {
	o.p.s.Helper()
	c := &call{began: time.Now()}
	o.p.StartKeepAlive(&c.Op, o.Holder, c)
	return o.p.finish(c)
}

// wantKept compares what a KEEPALIVE says: whether all is held, how many are bound, and what is told as lost.
func (o *testOwner) wantKept(held bool, bound int, lost ...string) (validity time.Duration) {
	o.p.s.Helper()
	c := o.keepAlive()
	if c.Err != nil {
		o.p.s.Fatalf("KEEPALIVE: %v", c.Err)
	}
	if c.Held != held || c.Kept.Bound != bound || !slices.Equal(c.Kept.Lost, lost) {
		o.p.s.Errorf("KEEPALIVE: got held %v, %d bound, lost %q; want %v, %d, %q", c.Held, c.Kept.Bound, c.Kept.Lost, held, bound, lost)
	}
	return c.Validity
}

func (o *testOwner) wantTold(want ...string) {
	o.p.s.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.told, want) {
		o.p.s.Errorf("told as lost: got %q, want %q", o.told, want)
	}
}

// hold is a HOLD that is run to its end.
func (o *testOwner) hold(token string, ttl time.Duration, release bool, resources ...string) *call {
	o.p.s.Helper()
	c := &call{began: time.Now()}
	o.p.StartHold(&c.Op, LockRequest{Resources: resources, Token: token, TTL: ttl, Holder: o.Holder, Release: release}, c)
	return o.p.finish(c)
}

const holdTTL = 600 * ms

func TestHoldLivesAsLongAsItsHolder(t *testing.T) {
	for _, tt := range []struct {
		name              string
		release, byClient bool
		after             string // on the masters, when the holder has ended
	}{
		{"ends with its TTL", false, true, "11111"},
		{"released", true, true, "00000"},
		{"the connection broke", true, false, "11111"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			o := p.holder()
			req := several(holdTTL, "a", "b").heldBy(o)
			req.Release = tt.release
			c := p.lock(req)
			time.Sleep(7 * holdTTL)
			s.wantOn("a", c.Token, "11111")
			s.wantOn("b", c.Token, "11111")
			if v := o.wantKept(true, 1); v < holdTTL/2 || v > holdTTL {
				s.Errorf("%s: KEEPALIVE says %v of %v", tt.name, v, holdTTL)
			}
			if n := p.Stats().Bound; n != 1 {
				s.Errorf("%s: %d bound, want 1", tt.name, n)
			}
			p.EndHolder(o.Holder, tt.byClient)
			s.wantOn("a", c.Token, tt.after)
			s.wantOn("b", c.Token, tt.after)
			time.Sleep(holdTTL + 20*ms)
			s.wantNoLocks()
			o.wantTold()
			if n := p.Stats().Bound; n != 0 {
				s.Errorf("%s: %d bound at the end, want none", tt.name, n)
			}
			if c := p.lock(one("a", holdTTL).heldBy(o)); !c.Held || p.Stats().Bound != 0 {
				s.Errorf("%s: a lock for a holder that has ended: %+v, %d bound, want it granted and not bound", tt.name, c.Result, p.Stats().Bound)
			}
		})
	}
}

func TestHoldEndsWithUnlock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, q := s.open(), s.open()
		o := p.holder()
		c := p.lock(one("a", holdTTL).heldBy(o))
		d := p.lock(several(holdTTL, "b", "c").heldBy(o))
		// Nothing answers, so the UNLOCK finds no quorum: what the masters still hold must end with its TTL.
		s.freeze(0, 1, 2, 3, 4)
		p.startUnlock(c.Token, "a")
		p.StartUnlock(&Op{}, []string{"c", "b"}, d.Token, &call{})
		synctest.Wait()
		s.thaw(0, 1, 2, 3, 4)
		time.Sleep(10 * ms)
		extended := p.Stats().Extended + p.Stats().ExtendLost + p.Stats().ExtendFail
		time.Sleep(2 * holdTTL)
		if n := p.Stats().Extended + p.Stats().ExtendLost + p.Stats().ExtendFail; n != extended {
			s.Errorf("%d renewals behind the UNLOCK, want none", n-extended)
		}
		o.wantKept(false, 0)
		o.wantTold()
		s.wantNoLocks()

		// Through another client, the loss is found.
		c = p.lock(one("a", holdTTL).heldBy(o))
		q.unlock(c.Token, "a")
		time.Sleep(holdTTL)
		o.wantTold("a")
		o.wantKept(false, 0, "a")

		// Behind what is under way: what that is granted is gone already.
		p.delay(ms, 2*ms, 0, 1, 2, 3, 4)
		for name, begin := range map[string]func(){
			"LOCK": func() { p.startLock(one("d", holdTTL).as("mine").heldBy(o)) },
			"HOLD": func() {
				p.lock(one("d", holdTTL).as("mine"))
				p.StartHold(&Op{}, LockRequest{Resources: []string{"d"}, Token: "mine", TTL: holdTTL, Holder: o.Holder}, &call{})
			},
		} {
			begin()
			time.Sleep(2 * ms)
			token, _, _ := s.masters[0].Get("d")
			c := p.unlock(token, "d")
			if st := p.Stats(); !c.Held || st.Bound+st.Leases != 0 {
				s.Errorf("UNLOCK behind %s: got %+v, %d bound and %d leases, want held, and none", name, c.Result, st.Bound, st.Leases)
			}
		}
	})
}

func TestHoldLossIsTold(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, q := s.open(), s.open()
		o := p.holder()
		var mu sync.Mutex
		var heard []string
		q.OnMessage(func(channel, payload string) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, channel+" "+payload)
		})
		p.lock(one("a", holdTTL).heldBy(o))
		p.lock(several(holdTTL, "b", "c").heldBy(o))
		s.doOn([]int{0, 1, 2}, "DEL", "b")
		time.Sleep(holdTTL / 2)
		o.wantTold("b", "c")
		mu.Lock()
		if want := []string{"redlockd:lost b", "redlockd:lost c"}; !slices.Equal(heard, want) {
			s.Errorf("messages: got %q, want %q", heard, want)
		}
		mu.Unlock()
		o.wantKept(false, 1, "b", "c")
		o.wantKept(true, 1)
		if n := p.Stats().HeldLost; n != 1 {
			s.Errorf("%d held locks lost, want 1", n)
		}
	})
}

func TestHoldWithoutQuorumIsLostInTime(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		o := p.holder()
		p.lock(one("a", holdTTL).heldBy(o))
		time.Sleep(holdTTL)
		v := o.wantKept(true, 1)
		var heard atomic.Value // the receivers of this client need no master to be told
		p.OnMessage(func(channel, payload string) { heard.Store(channel + " " + payload) })
		s.freeze(0, 1, 2)
		time.Sleep(v - 30*ms)
		o.wantTold()
		time.Sleep(60 * ms)
		o.wantTold("a")
		if got := heard.Load(); got != "redlockd:lost a" || o.flushed.Load() != 1 {
			s.Errorf("got the message %v, and what the owner has left behind was sent %d times, want that a is lost, once", got, o.flushed.Load())
		}
		s.thaw(0, 1, 2)
	})
}

// A renewal that had no quorum is tried again as soon as the masters are back, and not only when the lock has ended.
func TestFailedRenewalIsTriedAgain(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		o := p.holder()
		const ttl = 5 * holdTTL
		ends := time.Now().Add(p.lock(one("a", ttl).heldBy(o)).Validity)
		s.freeze(0, 1, 2)
		time.Sleep(ttl / 2) // it was due at a third, when the masters had been away for long
		s.thaw(0, 1, 2)
		time.Sleep(time.Until(ends) + 100*ms)
		o.wantKept(true, 1)
		o.wantTold()
	})
}

// What is known to be lost is told by KEEPALIVE also where no quorum answers: the client would wait for an answer that cannot change it.
func TestKeepAliveTellsALossWithoutAQuorum(t *testing.T) {
	for _, voted := range []quorum.Mask{0, 0b11} { // by none, and by two of five
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			o, other := p.holder(), p.holder()
			p.lock(one("a", holdTTL).heldBy(o))
			p.lock(one("b", 5*holdTTL).heldBy(o))
			ends := time.Now().Add(p.lock(one("c", holdTTL).heldBy(other)).Validity)
			other.wantKept(true, 1)
			third := p.holder() // who asks when it has a lock that lives for longer, and then takes one
			p.lock(one("d", 5*holdTTL).heldBy(third))
			third.wantKept(true, 1)
			p.lock(one("e", holdTTL).heldBy(third))
			for i := range 5 {
				if !voted.Has(i) {
					s.freeze(i)
				}
			}
			unknown := func(when string) {
				if c := o.keepAlive(); !errors.Is(c.Err, ErrNoQuorum) {
					s.Errorf("KEEPALIVE %s: got held %v, error %v, want that there is no quorum", when, c.Held, c.Err)
				}
			}
			unknown("while nothing is known to be lost")
			// Its own clock tells, also before the renewals have looked at it.
			time.Sleep(time.Until(ends))
			other.wantKept(false, 0, "c")
			other.wantTold("c")
			third.wantKept(false, 1, "e")
			other.wantKept(false, 0) // what has nothing holds nothing, whatever the masters say
			time.Sleep(200 * ms)
			o.wantTold("a")
			o.wantKept(false, 1, "a")
			unknown("about what may be held")
			for i := range 5 {
				if !voted.Has(i) {
					s.thaw(i)
				}
			}
			s.until("KEEPALIVE says that the other lock is held", func() bool { return o.keepAlive().Held })
			o.wantKept(true, 1)
		})
	}
}

// A takeover that fails puts the token back, and nothing that happens meanwhile may cost the lock: its client goes by what it was told before.
func TestFailedTakeoverBesideAnExtension(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, q := s.open(), s.open()
		before, after := p.holder(), p.holder()
		held := p.lock(one("r", 10*time.Second).heldBy(before))
		s.do(3, "DEL", "r")
		s.do(4, "DEL", "r")
		s.freeze(2)
		s.until("it is given up", func() bool { return p.states() == "uuduu" })
		took, extended := &call{began: time.Now()}, &call{began: time.Now()}
		p.StartHold(&took.Op, LockRequest{Resources: []string{"r"}, Token: held.Token, TTL: 10 * time.Second, Holder: after.Holder}, took)
		p.StartExtend(&extended.Op, []string{"r"}, held.Token, 10*time.Second, extended)
		p.finish(extended).want(s, "EXTEND while the token is exchanged", "no", extended.took)
		if p.finish(took); took.Err == nil {
			s.Errorf("HOLD: got %+v, want an error", took.Result)
		}
		s.thaw(2)
		q.allUp()
		if c := q.lock(one("r", time.Second)); c.Held {
			s.Error("it was granted to another, within the validity of before")
		}
		s.wantOn("r", held.Token, "11100")
	})
}

// A takeover for a shorter time, of which the client learns nothing, does not end the lock before what it was told before.
func TestTakeoverForLessThanIsLeft(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, q := s.open(), s.open()
		before, after := p.holder(), q.holder()
		held := p.lock(one("r", 10*time.Second).heldBy(before))
		p.EndHolder(before.Holder, false)
		q.delay(0, 10*time.Second, 0, 1, 2, 3, 4) // the masters get the command, and the answers come too late
		if c := after.hold(held.Token, 300*ms, false, "r"); c.Err == nil {
			s.Errorf("HOLD: got %+v, want no quorum", c.Result)
		}
		s.wantOn("r", held.Token, "00000")
		time.Sleep(3 * time.Second)
		if c := p.lock(one("r", time.Second)); c.Held || c.Err != nil {
			s.Errorf("LOCK by another within the validity: got %+v, want no", c.Result)
		}
	})
}

// A client that closes its connection before it has heard of the takeover goes by what it was told before.
func TestTakeoverIsReleasedOnceItIsHeard(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, q := s.open(), s.open()
		token := p.lock(one("r", holdTTL).heldBy(p.holder())).Token
		for _, heard := range []bool{false, true} {
			after := q.holder()
			token = after.hold(token, holdTTL, true, "r").Token
			if heard {
				after.wantKept(true, 1)
			}
			q.EndHolder(after.Holder, true)
			synctest.Wait()
			s.wantOn("r", token, map[bool]string{false: "11111", true: "00000"}[heard])
		}
	})
}

// What was locked, and what was taken over and heard of, is released with the connection, whatever else it has taken over without hearing of it.
func TestReleaseBesideATakeover(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, q := s.open(), s.open()
		before := p.holder()
		first, second := p.lock(one("a", holdTTL).heldBy(before)).Token, p.lock(one("b", holdTTL).heldBy(before)).Token
		o := q.holder()
		o.hold(first, holdTTL, true, "a").want(s, "HOLD of a", "held", 0)
		q.lock(one("c", holdTTL).heldBy(o).released())
		o.wantKept(true, 2)
		o.hold(second, holdTTL, true, "b").want(s, "HOLD of b", "held", 0)
		q.lock(one("d", holdTTL).heldBy(o).released())
		q.EndHolder(o.Holder, true)
		synctest.Wait()
		for resource, on := range map[string]string{"a": "00000", "b": "11111", "c": "00000", "d": "00000"} {
			s.wantSet(resource, on)
		}
	})
}

// What cannot be taken over stays with its holder.
func TestTakeoverIsRefused(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		before, o := p.holder(), p.holder()
		token := p.lock(one("a", holdTTL).heldBy(before)).Token
		o.hold(token, holdTTL, false, "").want(s, "HOLD of no name", "a resource name is empty", 0)
		o.hold("", holdTTL, false, "a").want(s, "HOLD of no token", "token", 0)
		o.hold(token, 149*ms, false, "a").want(s, "HOLD for less than the least", "too short", 0)
		p.Drain()
		o.hold(token, holdTTL, false, "a").want(s, "HOLD while the server drains", ErrDraining.Error(), 0)
		before.wantKept(true, 1)
		before.wantTold()
	})
}

// Who extends a part of what is held does not count on more for the rest.
func TestPartThatIsExtendedIsNotTheHold(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		o := p.holder()
		c := p.lock(several(holdTTL, "a", "b").heldBy(o))
		p.extend(c.Token, 50*time.Second, "a").want(s, "EXTEND of a part", "held", 0)
		if left := o.wantKept(true, 1); left > holdTTL {
			s.Errorf("KEEPALIVE says %v, and the rest is held for %v", left, holdTTL)
		}
	})
}

// Who locks again what was lost is told of the loss, and holds the new lock.
func TestLockAgainTellsTheLoss(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		o := p.holder()
		p.lock(one("a", holdTTL).heldBy(o))
		s.doAll("DEL", "a")
		p.lock(one("a", holdTTL).heldBy(o)).want(s, "LOCK again", "held", 0)
		o.wantTold("a")
		o.wantKept(false, 1, "a")
		o.wantKept(true, 1)
	})
}

// RenewHeld waits for each lock once: one that is renewed and then released, or that is bound meanwhile, stands for no other.
func TestRenewHeldCountsEachLockOnce(t *testing.T) {
	s := &holds{awaited: 2, noneAwaited: make(chan struct{})}
	renewed, slow, later := &binding{awaited: true}, &binding{awaited: true}, &binding{}
	for _, b := range []*binding{renewed, renewed, later} {
		s.arrived(b)
	}
	select {
	case <-s.noneAwaited:
		t.Fatal("one was renewed, then released, and another one came: got that none is awaited, want the slow one")
	default:
	}
	s.arrived(slow)
	select {
	case <-s.noneAwaited:
	default:
		t.Error("both are renewed: got that one is awaited")
	}
}

// RenewHeld waits for no lock that has been released meanwhile, and for each other one.
func TestRenewHeldBesideAnUnlock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		o := p.holder()
		released := p.lock(one("a", holdTTL).heldBy(o)).Token
		p.lock(one("b", holdTTL).heldBy(o))
		time.Sleep(10 * ms)
		p.delay(0, 15*ms, 0, 1, 2, 3, 4)
		began := time.Now()
		done := make(chan time.Duration, 1)
		go func() {
			p.RenewHeld(s.Context())
			done <- time.Since(began)
		}()
		synctest.Wait()
		p.finish(p.startUnlock(released, "a"))
		if took := <-done; took < 15*ms || took > 50*ms {
			s.Errorf("RenewHeld took %v, want as long as the renewal of the other lock", took)
		}
	})
}

// A lock is renewed when a third of its TTL is over, and no more often.
func TestRenewalsAreOnTime(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		o := p.holder()
		p.lock(one("a", 6*time.Second).heldBy(o))
		for range 600 {
			time.Sleep(100 * ms)
			if left := o.wantKept(true, 1); left < 3800*ms {
				s.Fatalf("KEEPALIVE says %v of 6 s: the renewal is late", left)
			}
		}
		if n := p.Stats().Extended; n < 28 || n > 36 {
			s.Errorf("%d renewals in a minute, want one in 2 s or a little less", n)
		}
	})
}

// Locks that were taken together drift apart: each renewal comes a little earlier than after a third of the TTL.
func TestNextRenewal(t *testing.T) {
	now := time.Now()
	seen := map[time.Duration]bool{}
	for range 1000 {
		in := nextRenewal(now, 24*time.Second).Sub(now)
		if seen[in] = true; in < 7*time.Second || in > 8*time.Second {
			t.Fatalf("a lock with a TTL of 24s is renewed after %v, want 7s to 8s", in)
		}
	}
	if len(seen) < 900 {
		t.Errorf("%d moments in 1000 renewals, want nearly as many", len(seen))
	}
}

// A token that is bound to one connection, whose end releases it, is not bound to another one: a takeover gives it a new name.
func TestMadeTokenIsBoundOnce(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, q, third := s.open(), s.open(), s.open()
		before, after := p.holder(), q.holder()
		held := p.lock(one("r", 3*time.Second).heldBy(before).released())
		if c := q.lock(one("r", 3*time.Second).as(held.Token).heldBy(after)); c.Held {
			p.EndHolder(before.Holder, true)
			third.lock(one("r", time.Second)).want(s, "LOCK beside a holder that was told that it holds", "no", 0)
		}
		before.wantKept(true, 1)
	})
}

func TestTakeover(t *testing.T) {
	for _, elsewhere := range []bool{true, false} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			q := p.orElse(elsewhere)
			before, after := p.holder(), q.holder()
			own := p.lock(one("own", holdTTL).as("a token of the caller's own"))
			born := time.Now()
			c := p.lock(several(holdTTL, "a", "b").heldBy(before).released())
			time.Sleep(holdTTL)
			h := after.hold(c.Token, holdTTL, true, "a", "b")
			if !h.Held || h.Token == c.Token || h.Validity <= 0 {
				s.Fatalf("HOLD: got %+v, want held under a new token", h.Result)
			}
			if at, _ := tokenBirth(h.Token); at.After(born) {
				s.Errorf("the new token was born %v after the lock", at.Sub(born))
			}
			if !elsewhere {
				before.wantTold("a", "b")
			}
			// The connection of before ends, with RELEASE, minutes later.
			p.EndHolder(before.Holder, true)
			time.Sleep(5 * holdTTL)
			s.wantOn("a", h.Token, "11111")
			s.wantOn("b", h.Token, "11111")
			after.wantKept(true, 1)
			after.wantTold()
			if no := after.hold(c.Token, holdTTL, true, "a", "b"); no.Held || no.Err != nil {
				s.Errorf("HOLD by the old token: got %+v, want no", no.Result)
			}
			again := after.hold(h.Token, holdTTL, true, "a", "b")
			after.wantTold()
			after.wantKept(true, 1)
			if c := q.hold2(after, own.Token, "own"); !c.Held || c.Token == own.Token {
				s.Errorf("HOLD by a token of the caller's own: got %+v, want held under a new token", c.Result)
			}
			after.wantKept(true, 2)
			q.EndHolder(after.Holder, true)
			s.wantOn("a", again.Token, "00000")
			s.wantNoLocks()
			foreign := p.lock(one("foreign", holdTTL).as("of a lock that is known elsewhere"))
			if h := after.hold(foreign.Token, holdTTL, true, "foreign"); !h.Held || !madeHere(h.Token) {
				s.Errorf("HOLD of a lock whose age is not known: got %+v, want held under a token with a time", h.Result)
			}
		})
	}
}

// A takeover does not begin max_hold anew, also where the age of the lock does not stand in its token.
func TestTakeoverIsNoWayAroundMaxHold(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxTTL, o.MaxHold = time.Second, 3*time.Second })
		h := p.holder()
		p.lock(one("r", time.Second).as("a token of the caller's own").heldBy(h))
		time.Sleep(2 * time.Second)
		h.hold("a token of the caller's own", time.Second, true, "r").want(s, "HOLD", "held", 0)
		time.Sleep(1500 * ms)
		p.lock(one("r", 100*ms)).want(s, "LOCK after max_hold", "held", 0)
	})
}

// hold2 takes a lock over that may have ended meanwhile: it is locked again first.
func (p *proxy) hold2(o *testOwner, token, resource string) *call {
	p.lock(one(resource, holdTTL).as(token))
	return o.hold(token, holdTTL, true, resource)
}

// A renewal finds that the lock was lost. A LOCK with the same token behind it does not hide that: another client may have had it in between.
func TestLossBeforeALockAgainIsTold(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		o := p.holder()
		p.lock(one("a", holdTTL).as("the token").heldBy(o))
		p.delay(10*ms, 10*ms, 0, 1, 2, 3, 4)
		s.doAll("DEL", "a")
		s.until("a renewal is under way", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.holds.byKey[heldKey{key: "a"}].renewing
		})
		again := p.startLock(one("a", holdTTL).as("the token"))
		p.finish(again).want(s, "LOCK again", "held", again.took)
		o.wantTold("a")
	})
}

// Whose connection is not the latest is told, and its end does nothing.
func TestLockAgainMovesTheHold(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		before, after := p.holder(), p.holder()
		p.lock(one("a", holdTTL).as("the token").heldBy(before))
		p.lock(one("a", holdTTL).as("the token").heldBy(after))
		before.wantTold("a")
		p.EndHolder(before.Holder, true)
		time.Sleep(3 * holdTTL)
		s.wantOn("a", "the token", "11111")
		after.wantKept(true, 1)
		p.lock(one("a", holdTTL).as("the token").heldBy(after))
		after.wantKept(true, 1)
		after.wantTold()
	})
}

func TestKeepAliveSaysNoMoreThanIsHeld(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MasterTimeout = 200 * ms })
		o := p.holder()
		for i := range 4 {
			p.lock(one(fmt.Sprint("r", i), holdTTL+time.Duration(i)*200*ms).heldBy(o))
			time.Sleep(37 * ms)
		}
		for range 100 {
			p.delay(20*ms, 60*ms, 0, 1, 2, 3, 4) // each renewal takes 80 ms
			time.Sleep(31 * ms)
			p.delay(0, 0, 0, 1, 2, 3, 4)
			sent := time.Now()
			c := o.keepAlive()
			// The first of the keys to end, on a quorum of masters.
			for i := range 4 {
				ends := 0
				for _, m := range s.masters {
					if _, left, ok := m.Get(fmt.Sprint("r", i)); ok && !time.Now().Add(left).Before(sent.Add(c.Validity)) {
						ends++
					}
				}
				if c.Err != nil || !c.Held || ends < 3 {
					s.Fatalf("KEEPALIVE says %v (%v), and r%d is held for so long by %d masters", c.Validity, c.Err, i, ends)
				}
			}
		}
	})
}

// A clock that stood still, as that of a machine which is paused, says that much is left of a lock that has ended. The masters' clocks
// show it.
func TestKeepAliveOverAPause(t *testing.T) {
	for _, told := range []bool{false, true} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(withFaults)
			o := p.holder()
			p.lock(one("a", 50*time.Second).heldBy(o))
			time.Sleep(10 * time.Second)
			if told {
				p.suspend(9 * time.Second)
			} else {
				p.pauseClock(9 * time.Second)
			}
			o.keepAlive().want(s, "KEEPALIVE behind a pause", "0 of 5 masters voted, 3 needed", 0)
			if told { // then the masters' clocks are in step again, and what was granted before counts for nothing, also beside what was granted behind it
				time.Sleep(ms)
				p.lock(one("b", 50*time.Second).heldBy(o)).want(s, "LOCK behind a pause", "held", 0)
				o.wantKept(false, 2)
				s.until("the lock is renewed", func() bool { return o.keepAlive().Held })
			}
		})
	}
}

// A suspension of 5 ms does not show in the masters' clocks. KEEPALIVE looks for it, and has what was granted before it renewed at once, and nothing else.
func TestKeepAliveOverAShortSuspension(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(withFaults)
		o := p.holder()
		first := p.lock(one("a", 50*time.Second).heldBy(o))
		p.lock(one("b", 50*time.Second).heldBy(o))
		time.Sleep(10 * ms)
		p.suspend(5 * ms)
		o.wantKept(false, 2)
		time.Sleep(100 * ms)
		o.wantKept(true, 2)
		p.suspend(5 * ms)
		p.lock(one("other", time.Second)).want(s, "LOCK, which finds the suspension", "held", 0)
		time.Sleep(ms)
		p.extend(first.Token, 50*time.Second, "a").want(s, "EXTEND of the first", "held", 0)
		o.wantKept(false, 2)
		time.Sleep(100 * ms)
		o.wantKept(true, 2)
		if n := p.Stats().Extended; n != 4 {
			s.Errorf("%d extensions, want two renewals, the EXTEND, and the renewal of the other lock", n)
		}
	})
}

// After a suspension the end of a renewal counts, also where the lock had been extended beyond it before.
func TestRenewalAfterASuspensionCounts(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(withFaults)
		o := p.holder()
		held := p.lock(one("a", 10*time.Second).heldBy(o))
		p.extend(held.Token, 50*time.Second, "a").want(s, "EXTEND", "held", 0)
		time.Sleep(10 * ms)
		p.suspend(5 * ms)
		o.wantKept(false, 1)
		time.Sleep(100 * ms)
		if left := o.wantKept(true, 1); left > 10*time.Second {
			s.Errorf("got a validity of %v, want that of the renewal, 10 s at most", left)
		}
	})
}

func TestSilentHolderIsNotRenewed(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		o := p.holder()
		p.lock(one("a", holdTTL).heldBy(o))
		o.idle.Store(int64(time.Hour)) // which nobody has asked to look at
		time.Sleep(4 * holdTTL)
		o.wantKept(true, 1)
		p.SetSilence(o.Holder, time.Second)
		o.idle.Store(int64(900 * ms))
		time.Sleep(4 * holdTTL)
		o.wantKept(true, 1)
		o.idle.Store(int64(1100 * ms))
		time.Sleep(holdTTL + 50*ms)
		o.wantTold("a")
		s.wantNoLocks()
	})
}

func TestHoldEndsWithMaxHold(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxTTL, o.MaxHold = time.Second, 3*time.Second })
		o := p.holder()
		c := p.lock(one("a", holdTTL).heldBy(o))
		time.Sleep(2 * time.Second)
		c = o.hold(c.Token, holdTTL, false, "a")
		if !c.Held {
			s.Fatalf("HOLD: %+v", c.Result)
		}
		o.wantTold()
		time.Sleep(time.Second + holdTTL)
		o.wantTold("a")
		s.wantNoLocks()
	})
}

func TestHoldsAreBounded(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxBound = 3 })
		o := p.holder()
		for i := range 3 {
			p.lock(one(fmt.Sprint("r", i), holdTTL).heldBy(o))
		}
		c := p.lock(one("r", holdTTL))
		for what, c := range map[string]*call{"LOCK": p.lock(one("more", holdTTL).heldBy(o)), "HOLD": o.hold(c.Token, holdTTL, false, "r")} {
			if !errors.Is(c.Err, ErrBadRequest) || !strings.Contains(c.Err.Error(), "max_bound") {
				s.Errorf("%s: got %+v, want it refused", what, c.Result)
			}
		}
		full := &Holder{bindings: make([]*binding, BoundMax-1)}
		unbounded := s.open()
		if err := unbounded.holds.bindable(full); err != nil {
			s.Errorf("one lock below the bound of a connection: %v", err)
		}
		full.bindings = append(full.bindings, nil)
		if err := unbounded.holds.bindable(full); err == nil || !strings.HasPrefix(err.Error(), "10000 locks are held by this connection") {
			s.Errorf("at the bound of a connection: got %v", err)
		}
		// The bound is looked at again when a lock is granted.
		p.EndHolder(o.Holder, true)
		time.Sleep(2 * holdTTL)
		o = p.holder()
		var calls []*call
		p.delay(5*ms, 5*ms, 0, 1, 2, 3, 4)
		for i := range 5 {
			calls = append(calls, p.begin(one(fmt.Sprint("r", i), holdTTL).heldBy(o)))
		}
		held := 0
		for _, c := range calls {
			if p.finish(c).Held {
				held++
			}
		}
		if held != 3 || p.Stats().Bound != 3 {
			s.Errorf("%d granted, %d bound, want 3", held, p.Stats().Bound)
		}
		for what, req := range map[string]LockRequest{
			"RELEASE needs HOLD":      one("x", holdTTL).released(),
			"too short":               one("x", 149*ms).heldBy(o),
			"leave TOKEN out":         one("x", holdTTL).as("mine").heldBy(o).released(),
			"take the lock over with": one("x", holdTTL).as(calls[0].Token).heldBy(o),
		} {
			if c := p.lock(req); c.Err == nil || !strings.Contains(c.Err.Error(), what) {
				s.Errorf("got %+v, want %q", c.Result, what)
			}
		}
	})
}

func TestRenewHeldRenewsAll(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		o := p.holder()
		for i := range 2000 {
			p.lock(one(fmt.Sprint("r", i), time.Minute).heldBy(o).released())
		}
		time.Sleep(15 * time.Second)
		ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
		defer cancel()
		p.RenewHeld(ctx)
		if v := o.wantKept(true, 2000); v < 58*time.Second {
			s.Errorf("%v is left behind RenewHeld, want nearly a minute", v)
		}
		p.EndHolder(o.Holder, false)
		s.wantSet("r0", "11111")
	})
}

// A lock whose holder has given it a longer TTL by EXTEND counts as renewed, too.
func TestRenewHeldOfALongerLock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		o := p.holder()
		c := p.lock(one("a", 10*time.Second).heldBy(o))
		p.extend(c.Token, time.Minute, "a").want(s, "EXTEND", "held", 0)
		time.Sleep(20 * ms)
		began := time.Now()
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		p.RenewHeld(ctx)
		if took := time.Since(began); took > 100*ms {
			s.Errorf("RenewHeld took %v, want one round", took)
		}
		if v := o.wantKept(true, 1); v < 59*time.Second {
			s.Errorf("%v is left of a minute", v)
		}
		short := p.lock(one("short", time.Second).heldBy(o))
		if v := o.wantKept(true, 2); v > short.Validity {
			s.Errorf("KEEPALIVE says %v beside a lock for %v", v, short.Validity)
		}
		p.unlock(short.Token, "short")
		if v := o.wantKept(true, 1); v < 59*time.Second {
			s.Errorf("KEEPALIVE says %v when the short lock is released", v)
		}
	})
}

// A lock whose renewal is under way is waited for no longer than that takes; where no lock is held, nothing is waited for.
func TestRenewHeldDuringARenewal(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		o := p.holder()
		renewAll := func(within time.Duration) {
			s.Helper()
			began := time.Now()
			ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
			defer cancel()
			p.RenewHeld(ctx)
			if took := time.Since(began); took > within {
				s.Errorf("RenewHeld took %v, want %v at most", took, within)
			}
		}
		renewAll(0)
		p.lock(one("a", 3*time.Second).heldBy(o))
		p.delay(10*ms, 20*ms, 0, 1, 2, 3, 4)
		s.until("a renewal is under way", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.holds.byKey[heldKey{key: "a"}].renewing
		})
		time.Sleep(5 * ms)
		renewAll(40 * ms)
		if v := o.wantKept(true, 1); v < 2600*ms {
			s.Errorf("%v is left behind RenewHeld, want nearly 3 s", v)
		}
		if n := p.Stats().Extended; n != 1 {
			s.Errorf("%d renewals, want the one that was under way", n)
		}
	})
}
