package redlock

// Goal: a held lock of several resources ends as a whole, and its owner is told of all of it, whichever of them is released or taken over,
// and wherever. Method: virtual time; each way to end a part, at the holder's client and at another one.

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/redisproc"
)

func TestPartEndsTheWholeHold(t *testing.T) {
	for _, tt := range []struct {
		name  string
		end   func(p *proxy, o *testOwner, resource, token string)
		bound bool // what was ended is bound to o again
	}{
		{"UNLOCK", func(p *proxy, _ *testOwner, resource, token string) { p.unlock(token, resource) }, false},
		{"compare-and-delete", func(p *proxy, _ *testOwner, resource, token string) {
			p.commit(Change{Resource: resource, Was: WasValue, Value: token, Do: Delete})
		}, false},
		{"compare-and-delete beside another", func(p *proxy, _ *testOwner, resource, token string) {
			p.lock(one("other", holdTTL).as("the other's"))
			p.commit(Change{Resource: "other", Was: WasValue, Value: "the other's", Do: Delete},
				Change{Resource: resource, Was: WasValue, Value: token, Do: Delete})
		}, false},
		{"compare-and-delete beside a comparison", func(p *proxy, _ *testOwner, resource, token string) {
			next := nextPart(resource)
			p.commit(compareAndDelete(resource, token), Change{Resource: next, Was: WasValue, Value: token}, Change{Resource: nextPart(next), Was: WasValue, Value: token})
		}, false},
		{"compare-and-delete beside what was overwritten", func(p *proxy, _ *testOwner, resource, token string) {
			next := nextPart(resource)
			p.s.doAll("SET", next, "another's", "PX", 5000)
			p.commit(compareAndDelete(resource, token), compareAndDelete(next, "another's"), compareAndDelete(nextPart(next), token))
		}, false},
		{"HOLD", func(p *proxy, o *testOwner, resource, token string) {
			if p != o.p {
				o = p.holder()
			}
			o.hold(token, holdTTL, false, resource)
		}, true},
		{"HOLD for another connection", func(p *proxy, _ *testOwner, resource, token string) {
			p.holder().hold(token, holdTTL, false, resource)
		}, false},
		{"LOCK … HOLD", func(p *proxy, o *testOwner, resource, token string) {
			if p != o.p {
				o = p.holder()
			}
			p.lock(one(resource, holdTTL).as(token).heldBy(o))
		}, true},
	} {
		for _, elsewhere := range []bool{false, true} {
			for _, resource := range redisproc.Some(1, []string{"b", "a", "c"}) {
				inVirtualTime(t, 5, func(s *stage) {
					p := s.open()
					q := p.orElse(elsewhere)
					var mu sync.Mutex
					var heard []string
					p.OnMessage(func(channel, payload string) {
						mu.Lock()
						defer mu.Unlock()
						heard = append(heard, channel+" "+payload)
					})
					o := p.holder()
					req := several(holdTTL, "a", "b", "c").heldBy(o)
					if strings.Contains(tt.name, "overwritten") && elsewhere {
						return // then the masters hold none of them, which is no loss
					}
					if tt.name == "LOCK … HOLD" {
						if elsewhere {
							return // a lock of one with this token is granted beside it, and both are renewed
						}
						req = req.as("the caller's")
					}
					token := p.lock(req).Token
					time.Sleep(holdTTL)
					o.wantKept(true, 1)
					tt.end(q, o, resource, token)
					if elsewhere {
						time.Sleep(holdTTL/3 + 50*ms)
					}
					synctest.Wait()
					o.wantTold("a", "b", "c")
					bound := 0
					if tt.bound && !elsewhere {
						bound = 1
					}
					o.wantKept(false, bound, "a", "b", "c")
					mu.Lock()
					if want := []string{"redlockd:lost a", "redlockd:lost b", "redlockd:lost c"}; !slices.Equal(heard, want) {
						s.Errorf("%s of %s, elsewhere %v: messages: got %q, want %q", tt.name, resource, elsewhere, heard, want)
					}
					mu.Unlock()
					time.Sleep(holdTTL + 20*ms)
					for _, other := range []string{"a", "b", "c"} {
						if other != resource {
							s.wantOn(other, token, "00000") // it ends with its TTL
						}
					}
					o.wantTold("a", "b", "c")
				})
			}
		}
	}
}

// nextPart is another part of what TestPartEndsTheWholeHold holds.
func nextPart(resource string) string {
	return map[string]string{"a": "b", "b": "c", "c": "a"}[resource]
}

// A release or a takeover of all is no loss, in whatever order they are named, and beside others.
func TestWholeHoldEndsWithoutALoss(t *testing.T) {
	for name, end := range map[string]func(p *proxy, o *testOwner, token string){
		"MUNLOCK":           func(p *proxy, _ *testOwner, token string) { p.unlock(token, "b", "a") },
		"MUNLOCK with more": func(p *proxy, _ *testOwner, token string) { p.unlock(token, "x", "b", "a") },
		"compare-and-delete": func(p *proxy, _ *testOwner, token string) {
			p.commit(Change{Resource: "a", Was: WasValue, Value: token, Do: Delete}, Change{Resource: "b", Was: WasValue, Value: token, Do: Delete})
		},
		"MHOLD": func(p *proxy, o *testOwner, token string) { o.hold(token, holdTTL, false, "b", "a") },
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			o := p.holder()
			token := p.lock(several(holdTTL, "a", "b").heldBy(o)).Token
			end(p, o, token)
			time.Sleep(2 * holdTTL)
			o.wantTold()
			s.wantOn("a", token, "00000")
			p.wantNoLoss(name)
		})
	}
}

// A change of several that is denied may be so because of a key that is not held: what is held stays so.
func TestDeniedChangeEndsNoHold(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		o := p.holder()
		token := p.lock(several(holdTTL, "a", "b").heldBy(o)).Token
		p.commit(compareAndExpire("a", token, holdTTL), Change{Resource: "b", Was: WasValue, Value: "another's"}).want(s, "EXPIRE beside a wrong comparison", "no", 0)
		o.wantKept(true, 1)
	})
}

// Nor is it where that happens through another client, or for another connection. The owner is told that it holds nothing any more, and nobody else is told
// anything: subscribers and the log would speak of a loss that nobody had.
func TestWholeHoldThatEndsElsewhereIsNoLoss(t *testing.T) {
	for name, end := range map[string]func(q *proxy, token string){
		"MUNLOCK": func(q *proxy, token string) { q.unlock(token, "b", "a") },
		"MHOLD":   func(q *proxy, token string) { q.holder().hold(token, holdTTL, false, "b", "a") },
		"both": func(q *proxy, token string) {
			q.unlock(q.holder().hold(token, holdTTL, false, "b", "a").Token, "a", "b")
		},
	} {
		for _, elsewhere := range []bool{false, true} {
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open()
				if !elsewhere && name == "MUNLOCK" {
					return
				}
				q := p.orElse(elsewhere)
				p.OnMessage(func(channel, payload string) { s.Errorf("%s: %s told of %s, want no message", name, channel, payload) })
				o := p.holder()
				token := p.lock(several(holdTTL, "a", "b").heldBy(o)).Token
				end(q, token)
				time.Sleep(holdTTL)
				o.wantTold("a", "b")
				o.wantKept(false, 0, "a", "b")
				p.wantNoLoss(name)
			})
		}
	}
}

// A client that extends its lock and is told that it does not hold it is told of the end as well, and not only when the next renewal is due.
func TestExtendFindsTheEndOfAHold(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, q := s.open(), s.open()
		o := p.holder()
		token := p.lock(several(time.Minute, "a", "b").heldBy(o)).Token
		q.unlock(token, "a", "b")
		p.extend(token, time.Minute, "a", "b").want(s, "EXTEND", "no", 0)
		o.wantTold("a", "b")
		o.wantKept(false, 0, "a", "b")
		p.wantNoLoss("MUNLOCK through another redlockd")
	})
}

func (p *proxy) wantNoLoss(name string) {
	p.s.Helper()
	if st := p.Stats(); st.HeldLost != 0 || st.Lost != 0 {
		p.s.Errorf("%s: %d leases and %d held locks lost, want none", name, st.Lost, st.HeldLost)
	}
}
