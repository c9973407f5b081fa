package redlock

// Goal: behind a lock that was lost without a release, nobody gets the resource for its delay, whichever way it was taken and renewed, through
// whichever client; the holder is told nothing of the delay, and a release ends it. Method: virtual time, two clients.

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/redisproc"
)

const (
	delayTTL = 10 * time.Second
	theDelay = 5 * time.Second
)

// under starts operations under terms.
type under struct {
	*proxy
	terms *Terms
}

func (u under) call() *call { return &call{Op: Op{Terms: u.terms}, began: time.Now()} }

func (u under) begin(req LockRequest) *call {
	c := u.call()
	u.StartLock(&c.Op, req, c)
	synctest.Wait()
	return c
}

func (u under) lock(req LockRequest) *call { return u.finish(u.begin(req)) }

func (u under) extend(token string, ttl time.Duration, resources ...string) *call {
	c := u.call()
	u.StartExtend(&c.Op, resources, token, ttl, c)
	return u.finish(c)
}

// wantLeft checks for how long the first master keeps the key.
func (s *stage) wantLeft(what, key string, least, most time.Duration) {
	s.Helper()
	synctest.Wait()
	if left := time.Duration(s.do(0, "PTTL", key).(int64)) * ms; left < least || left > most {
		s.Errorf("%s: the master keeps %s for %v, want %v … %v", what, key, left, least, most)
	}
}

// waysToLock are all ways to take a lock. The resource is "r", or the slot "r#0".
var waysToLock = []struct {
	name string
	key  string
	lock func(u under) *call
}{
	{"LOCK", "r", func(u under) *call { return u.lock(one("r", delayTTL)) }},
	{"LOCK TOKEN", "r", func(u under) *call { return u.lock(one("r", delayTTL).as("mine")) }},
	{"LOCK WAIT", "r", func(u under) *call { return u.lock(one("r", delayTTL).waits(time.Second)) }},
	{"LOCK FENCE", "r", func(u under) *call { return u.lock(LockRequest{Resources: []string{"r"}, TTL: delayTTL, Fence: true}) }},
	{"LOCK SHARED", "r", func(u under) *call { return u.lock(one("r", delayTTL).sharing()) }},
	{"LOCK SLOTS", "r#0", func(u under) *call { return u.lock(LockRequest{Resources: []string{"r"}, TTL: delayTTL, Slots: 1}) }},
	{"MLOCK", "r", func(u under) *call { return u.lock(several(delayTTL, "r", "s")) }},
	{"EXTEND", "r", func(u under) *call {
		c := u.proxy.lock(one("r", time.Second)) // without a delay
		return u.extend(c.Token, delayTTL, "r")
	}},
	{"HOLD", "r", func(u under) *call {
		c, h := u.proxy.lock(one("r", time.Second)), u.call()
		o := u.holder()
		u.StartHold(&h.Op, LockRequest{Resources: []string{"r"}, Token: c.Token, TTL: delayTTL, Holder: o.Holder}, h)
		defer u.EndHolder(o.Holder, false)
		return u.finish(h)
	}},
	{"SET NX", "r", func(u under) *call {
		ch := setNX("r", "a value that is unique", delayTTL)
		ch.Delay = u.terms.Delay
		return u.commit(ch)
	}},
	{"PEXPIRE", "r", func(u under) *call {
		u.commit(setNX("r", "a value that is unique", time.Second))
		ch := compareAndExpire("r", "a value that is unique", delayTTL)
		ch.Delay = u.terms.Delay
		return u.commit(ch)
	}},
}

func TestDelayBehindALoss(t *testing.T) {
	for _, way := range redisproc.Some(1, waysToLock) {
		t.Run(way.name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p, q := s.open(), s.open()
				u := under{p, &Terms{Delay: theDelay}}
				began := time.Now()
				c := way.lock(u)
				if c.Held = c.Held && c.Validity <= delayTTL && c.Validity > delayTTL*98/100; !c.Held {
					s.Fatalf("got %+v, want the validity of the TTL alone", c.Result)
				}
				s.wantLeft("granted", way.key, delayTTL+theDelay, (delayTTL+theDelay)*102/100)
				others, here := q.begin(one(way.key, delayTTL).waits(time.Minute)), p.begin(one(way.key, delayTTL).waits(time.Minute))
				time.Sleep(delayTTL + theDelay - 100*ms - time.Since(began))
				q.lock(one(way.key, delayTTL)).want(s, "LOCK in the delay", "no", 0)
				for who, w := range map[string]*call{"another client": others, "the same client": here} {
					w.want(s, "WAIT of "+who+" in the delay", "under way", 0)
				}
				asked := q.Stats().Attempts
				s.until("somebody who waits has the lock", func() bool { return others.done.Load() || here.done.Load() })
				if after := time.Since(began) - delayTTL - theDelay; after > time.Second {
					s.Errorf("those who wait have noticed the end of the delay %v after it", after)
				}
				if asked > 60 { // who waits for readers says so now and then
					s.Errorf("the waiter has asked %d times until then, want a few times", asked)
				}
			})
		})
	}
}

func TestReleaseEndsTheDelay(t *testing.T) {
	for _, way := range redisproc.Some(1, waysToLock) {
		for _, after := range []time.Duration{time.Second, delayTTL + time.Second} {
			t.Run(way.name+" "+after.String(), func(t *testing.T) {
				inVirtualTime(t, 5, func(s *stage) {
					p, q := s.open(), s.open()
					keys := []string{way.key}
					if way.name == "MLOCK" {
						keys = append(keys, "s")
					}
					c := way.lock(under{p, &Terms{Delay: theDelay}})
					time.Sleep(after)
					p.unlock(c.Token, keys...).want(s, "UNLOCK", "held", 0)
					q.lock(one(way.key, delayTTL)).want(s, "LOCK behind the UNLOCK", "held", 0)
				})
			})
		}
	}
}

// In the delay nobody else can have had the lock, so its token still holds it.
func TestHolderIsBackInTheDelay(t *testing.T) {
	terms := &Terms{Delay: theDelay}
	for what, again := range map[string]func(u under) *call{
		"LOCK": func(u under) *call { return u.lock(one("r", delayTTL).as("mine")) },
		"LOCK behind a waiter": func(u under) *call {
			u.proxy.begin(one("r", delayTTL).waits(time.Minute))
			return u.lock(one("r", delayTTL).as("mine"))
		},
		"EXTEND": func(u under) *call { return u.extend("mine", delayTTL, "r") },
	} {
		t.Run(what, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				u := under{s.open(), terms}
				u.lock(one("r", delayTTL).as("mine"))
				time.Sleep(delayTTL + time.Second)
				again(u).want(s, what, "held", 0)
				s.wantLeft(what, "r", padded(delayTTL+theDelay), padded(delayTTL+theDelay)+20*ms)
			})
		})
	}
}

// What is in its delay counts as before, and is no new lock when its token is back.
func TestMaxLocksOfAHolderThatIsBack(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		share := &Share{MaxLocks: 1}
		lock := func(resource, token string) *call {
			c := &call{Op: Op{Share: share, Terms: &Terms{Delay: theDelay}}, began: time.Now()}
			p.StartLock(&c.Op, one(resource, delayTTL).as(token), c)
			return p.finish(c)
		}
		lock("r", "mine").want(s, "LOCK", "held", 0)
		time.Sleep(delayTTL + time.Second)
		lock("other", "mine").want(s, "LOCK in the delay of the first", "(max_locks)", 0)
		lock("r", "mine").want(s, "LOCK of the first again", "held", 0)
		p.unlock("mine", "r").want(s, "UNLOCK", "held", 0)
		lock("other", "mine").want(s, "LOCK when it is released", "held", 0)
	})
}

// What the masters keep includes the delay after each renewal, and KEEPALIVE says nothing of it.
func TestDelayBehindAHeldLock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		o := p.holder()
		c := under{p, &Terms{Delay: theDelay}}.lock(one("r", delayTTL).heldBy(o))
		for range 50 {
			time.Sleep(time.Second)
			validity := o.wantKept(true, 1)
			if validity > delayTTL {
				s.Errorf("KEEPALIVE: got %v, want no more than the TTL", validity)
			}
			s.wantLeft("held", "r", padded(validity+theDelay)-ms, padded(delayTTL+theDelay)+20*ms)
		}
		p.EndHolder(o.Holder, false)
		time.Sleep(delayTTL)
		s.wantOn("r", c.Token, "11111")
	})
}

// LOCKS and LOCKINFO list a lock that is in its delay.
func TestLeasesInTheDelay(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		under{p, &Terms{Delay: theDelay}}.lock(one("r", delayTTL))
		all := func([]string) bool { return true }
		look := func() LeaseInfo {
			s.Helper()
			list := p.Leases(all, 10)
			if len(list) != 1 {
				s.Fatalf("got %+v, want one lease", list)
			}
			return list[0]
		}
		if l := look(); l.Delay != theDelay || l.Free-l.Validity != theDelay || l.Validity > delayTTL {
			s.Errorf("granted: got %+v", l)
		}
		time.Sleep(delayTTL + time.Second)
		if l := look(); l.Validity != 0 || l.Free > theDelay-time.Second || l.Free == 0 {
			s.Errorf("in the delay: got %+v", l)
		}
		time.Sleep(theDelay)
		if list := p.Leases(all, 10); len(list) > 0 {
			s.Errorf("after the delay: got %+v, want none", list)
		}
		for i := range 100 { // leases are forgotten with others that come
			time.Sleep(time.Second)
			p.lock(one(string(rune('a'+i%20)), 100*ms))
		}
		if n := len(p.leases.delays); n > 0 {
			s.Errorf("%d delays are kept of leases that are forgotten", n)
		}
	})
}

// Masters that forget a lock forget its delay.
func TestNoDelayWhereMastersForgot(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		under{p, &Terms{Delay: theDelay}}.lock(one("r", delayTTL))
		s.doAll("DEL", "r")
		p.lock(one("r", delayTTL)).want(s, "LOCK", "held", 0)
	})
}

func TestTermsBound(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxTTL, o.MaxWait = 20*time.Second, time.Minute })
		delayed := under{p, &Terms{Delay: theDelay}}
		const tooLong = "ttl of 16000 ms is above the most, 15000 ms, because the lock has a delay of 5000 ms, and both together may take 20000 ms (max_ttl)"
		delayed.lock(one("a", 16*time.Second)).want(s, "LOCK", tooLong, 0)
		c := delayed.lock(one("a", 15*time.Second))
		delayed.extend(c.Token, 16*time.Second, "a").want(s, "EXTEND", tooLong, 0)
		ch := setNX("b", "v", 16*time.Second)
		ch.Delay = theDelay
		p.commit(ch).want(s, "SET", tooLong, 0)

		short := under{p, &Terms{Name: "these", MaxHold: 30 * time.Second}}
		c = short.lock(one("c", 15*time.Second))
		time.Sleep(12 * time.Second)
		short.extend(c.Token, 15*time.Second, "c").want(s, "EXTEND within max_hold", "held", 0)
		time.Sleep(5 * time.Second)
		short.extend(c.Token, 15*time.Second, "c").want(s, "EXTEND beyond it", "may be held for 30s in all (max_hold of these)", 0)
		o := p.holder()
		began := time.Now()
		short.lock(one("held", 15*time.Second).heldBy(o))
		s.until("the held lock is lost", func() bool { o.mu.Lock(); defer o.mu.Unlock(); return len(o.told) > 0 })
		if took := time.Since(began); took > 30*time.Second {
			s.Errorf("it was renewed for %v", took)
		}

		few := &Share{MaxWaiters: 2}
		waiting := under{p, &Terms{Waiters: []*Share{few}}}
		p.lock(one("w", 15*time.Second))
		p.lock(one("x", 15*time.Second))
		first := waiting.begin(one("w", time.Second).waits(time.Minute))
		waiting.begin(several(time.Second, "w", "x").waits(time.Minute))
		third := waiting.begin(one("x", time.Second).waits(time.Minute))
		third.want(s, "the third", "too many waiters", 0)
		if !strings.Contains(third.Err.Error(), "too many") || third.Err.(*ShareError).Share != few {
			s.Errorf("the error does not say whose limit it is: %+v", third.Err)
		}
		p.begin(one("w", time.Second).waits(time.Minute)).want(s, "others wait", "under way", 0)
		p.Unblock(&first.Op, nil)
		waiting.begin(one("x", time.Second).waits(time.Minute)).want(s, "when one has gone", "under way", 0)
	})
}

func TestStrictestTerms(t *testing.T) {
	a, b := &Share{}, &Share{}
	x, y := &Terms{Name: "x", Delay: 2, MaxHold: 5, Waiters: []*Share{a}}, &Terms{Name: "y", Delay: 3, Waiters: []*Share{a, b}}
	for _, both := range []*Terms{x.Strictest(y), y.Strictest(x)} {
		if both.Delay != 3 || both.MaxHold != 5 || both.Name != "x" || len(both.Waiters) != 2 {
			t.Errorf("got %+v", both)
		}
	}
	for _, tt := range []struct {
		t, other time.Duration
		want     string
	}{{0, 0, "t 0s"}, {0, 1, "other 1ns"}, {5, 0, "t 5ns"}, {5, 4, "other 4ns"}, {5, 5, "t 5ns"}, {5, 6, "t 5ns"}} {
		both := (&Terms{Name: "t", MaxHold: tt.t}).Strictest(&Terms{Name: "other", MaxHold: tt.other})
		if got := fmt.Sprint(both.Name, " ", both.MaxHold); got != tt.want {
			t.Errorf("max_hold of %v and %v: got %s, want %s", tt.t, tt.other, got, tt.want)
		}
	}
	if x.Strictest(nil) != x || (*Terms)(nil).Strictest(x) != x || x.Strictest(x) != x || len(x.Waiters) != 1 {
		t.Error("the strictest of one is another one")
	}
}

// Each of the limits of terms bounds those who wait, whatever the others say.
func TestWaitersOfTerms(t *testing.T) {
	free, full, endless := &Share{MaxWaiters: 2, waiters: 1}, &Share{MaxWaiters: 2, waiters: 2}, &Share{waiters: 1000}
	for name, tt := range map[string]struct {
		waiters []*Share
		full    bool
	}{
		"no limits": {nil, false}, "room": {[]*Share{free, endless}, false}, "the first is full": {[]*Share{full, free}, true},
		"the second is full": {[]*Share{free, full}, true},
	} {
		err, _ := (&Terms{Waiters: tt.waiters}).waitable().(*ShareError)
		if (err != nil) != tt.full || err != nil && (err.Share != full || err.Max != 2 || err.Limit != LimitWaiters) {
			t.Errorf("%s: got %+v, want it full: %t", name, err, tt.full)
		}
	}
}
