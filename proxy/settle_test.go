package proxy

// Goal: a hash that a library locks with, and that too few masters have changed, is free or held for all within a second of their return.
// Method: Redisson's scripts, masters that stand still while they are sent, and redlockds that end meanwhile; virtual time.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/status"
	"redlockd/redlock"
	"redlockd/redlock/redisproc"
)

// The scripts of Redisson's RLock, 4.7.
const (
	rLockScript   = `if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; return redis.call('pttl', KEYS[1]);`
	rUnlockScript = `local val = redis.call('get', KEYS[3]); if val ~= false then return tonumber(val);end; if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil;end; local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); ` +
		`if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); redis.call('set', KEYS[3], 0, 'px', ARGV[5]); return 0; else redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return 1; end; `

	rChannel = "redisson_lock__channel:{k}"
)

// settleWithin is the longest time from the return of the last master to the grant.
const settleWithin = time.Second

// once sends a command once: do repeats it where too few masters vote.
func (c *client) once(args ...string) reply {
	c.send(args...)
	return c.read()
}

func (c *client) rLock(owner string) reply {
	return c.once("EVAL", rLockScript, "1", "k", "30000", owner)
}

func (c *client) rUnlock(owner, latch string) reply {
	return c.once("EVAL", rUnlockScript, "3", "k", rChannel, "redisson_unlock_latch:{k}:"+latch, "0", "30000", owner, "publish", "13500")
}

// frozen has masters stand still while f runs, and until the time is over.
func (srv *testServer) frozen(masters []int, d time.Duration, f func()) {
	end := time.Now().Add(d)
	for _, i := range masters {
		srv.masters[i].Freeze()
	}
	f()
	if left := time.Until(end); left > 0 {
		time.Sleep(left)
	}
	for _, i := range masters {
		srv.masters[i].Thaw()
	}
}

// die ends a server and its engine. What it has to do still, it does not.
func (srv *testServer) die() {
	ended, cancel := context.WithCancel(srv.t.Context())
	cancel()
	srv.opts.Engine.Close(ended)
	srv.Close()
}

// shown is what masters hold, a letter for each value.
func (srv *testServer) shown(key string) string {
	var b strings.Builder
	letters := map[string]byte{}
	for _, m := range srv.masters {
		value, _, found := m.Get(key)
		switch letter, known := letters[value]; {
		case !found:
			b.WriteByte('.')
		case known:
			b.WriteByte(letter)
		default:
			letters[value] = byte('a' + len(letters))
			b.WriteByte(letters[value])
		}
	}
	return b.String()
}

// granted wants the lock for an owner, and tells how long that took.
func (c *client) grantedSoon(owner string) {
	c.t.Helper()
	began := time.Now()
	var got reply
	for time.Since(began) < settleWithin {
		if got = c.rLock(owner); got.text == "$nil" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(began); got.text != "$nil" || took > settleWithin {
		c.t.Errorf("lock for %s: got %s after %v, want it within %v", owner, got.text, took, settleWithin)
	}
}

// An unlock is sent while three masters stand still, and a lock while one does. Then the next one gets it, through the same redlockd or
// another one. Where the first has died, the unlock is repeated elsewhere, as Redisson does when its connection ends.
func TestUnlockBesideMastersThatStandStill(t *testing.T) {
	for _, through := range []string{"the same", "another", "another, and the first has died"} {
		for seed := range redisproc.SomeOf[uint64](4, 20) {
			t.Run(fmt.Sprint(through, "/", seed), func(t *testing.T) {
				inVirtualTime(t, func(t *testing.T) {
					rng := rand.New(rand.NewPCG(seed, 84))
					fast := func(o *redlock.Options) { o.MasterTimeout = 50 * time.Millisecond }
					srv := serveWith(t, fast)
					next := srv
					if through != "the same" {
						engine := openEngine(t, srv.masters, fast)
						next = serve(t, func(o *Options) { o.Engine = engine })
						next.masters = srv.masters
					}
					dies := strings.HasSuffix(through, "died")
					a, b := srv.dial(), next.dial()
					a.rLock("A").is("$nil")
					time.Sleep(time.Second)
					order := rng.Perm(5)
					wait := time.Duration(rng.IntN(200)) * time.Millisecond
					srv.frozen(order[:3], 300*time.Millisecond, func() {
						time.Sleep(wait)
						a.send("EVAL", rUnlockScript, "3", "k", rChannel, "redisson_unlock_latch:{k}:1", "0", "30000", "A", "publish", "13500")
						if dies {
							time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
							srv.die()
							return
						}
						a.read()
					})
					if dies {
						for range 20 {
							if got := b.rUnlock("A", "1").text; got == ":1" || got == "$nil" {
								break
							}
							time.Sleep(10 * time.Millisecond)
						}
					} else if rng.IntN(2) == 0 {
						srv.frozen(order[1:2], 300*time.Millisecond, func() {
							for again := range 2 {
								if got := a.rLock("A").text; got == "$nil" {
									time.Sleep(350 * time.Millisecond)
									a.rUnlock("A", fmt.Sprint("again ", again)).matches(":1|-NOQUORUM .*")
								}
							}
						})
					}
					b.grantedSoon("B")
					b.rUnlock("B", "3").is(":1")
				})
			})
		}
	}
}

// Those who wait for the message of a release get it when the release is made, although its caller was told NOQUORUM.
func TestLateReleaseIsPublished(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serveWith(t, func(o *redlock.Options) { o.MasterTimeout = 50 * time.Millisecond })
		a, b := srv.dial(), srv.dial()
		a.rLock("A").is("$nil")
		b.do("SUBSCRIBE", rChannel).is(`["subscribe" "` + rChannel + `" :1]`)
		time.Sleep(time.Second)
		srv.frozen([]int{0, 2, 4}, 300*time.Millisecond, func() {
			a.rUnlock("A", "1").matches("-NOQUORUM .*")
		})
		thawed := time.Now()
		b.read().is(`["message" "` + rChannel + `" "0"]`)
		if took := time.Since(thawed); took > settleWithin {
			t.Errorf("the message came %v after the masters, want it within %v", took, settleWithin)
		}
		a.grantedSoon("C")
	})
}

// A change whose redlockd has died is made on the masters that have missed it. Without that, none of its two values has a quorum.
func TestChangeOfADeadServerIsMade(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fast := func(o *redlock.Options) { o.MasterTimeout = 50 * time.Millisecond }
		srv := serveWith(t, fast)
		engine := openEngine(t, srv.masters, fast)
		next := serve(t, func(o *Options) { o.Engine = engine })
		a, b := srv.dial(), next.dial()
		a.rLock("A").is("$nil")
		time.Sleep(time.Second)
		srv.frozen([]int{0, 1, 2}, 300*time.Millisecond, func() {
			a.send("EVAL", rLockScript, "1", "k", "30000", "A")
			for began := time.Now(); srv.shown("k") != "aaabb" && time.Since(began) < settleWithin; {
				time.Sleep(time.Millisecond) // a master may be at a heartbeat
			}
			srv.die()
		})
		srv.onMaster(2, "DEL", "k").is(":1")
		if got := srv.shown("k"); got != "aa.bb" {
			t.Fatalf("masters hold %s, want aa.bb", got)
		}
		began := time.Now()
		for time.Since(began) < settleWithin && b.rLock("A").text != "$nil" {
		}
		got := srv.shown("k")
		most := max(strings.Count(got, "a"), strings.Count(got, "b"), strings.Count(got, "c")) // the first master may be one of those that have yet to get it
		if time.Since(began) > settleWithin || most < 3 {
			t.Errorf("masters hold %s after %v, want one value on a quorum within %v", got, time.Since(began), settleWithin)
		}
		for i, want := range []string{":0", ":0", ":1"} {
			b.rUnlock("A", fmt.Sprint("of ", i)).is(want)
		}
		b.grantedSoon("B")
	})
}

// A try that has changed nothing says so. It may be sent once more, by libraries that do so by themselves.
func TestScriptThatHasChangedNothing(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serveWith(t, func(o *redlock.Options) { o.MasterTimeout = 50 * time.Millisecond })
		c, other := srv.dial(), srv.dial()
		other.rLock("B").is("$nil")
		srv.frozen([]int{0, 1, 2}, time.Second, func() {
			c.once("GET", "plain").matches("-NOQUORUM .*")
			eventually(t, "three are known to be away", func() bool { return status.CountState(srv.opts.Engine.Masters(), redlock.MasterDown) == 3 })
			before := srv.shown("k")
			c.rLock("A").matches("-TRYAGAIN nothing was changed: [0-2] of 5 masters voted.*") // of those that answer each may have voted when it is decided
			if got := srv.shown("k"); got != before {
				t.Errorf("the masters hold %s, and %s before", got, before)
			}
			began := time.Now()
			other.once("EVAL", "return redis.call('hlen', KEYS[1])", "1", "k").matches("-TRYAGAIN nothing was changed: .*")
			if took := time.Since(began); took < quorumWaitMax || took > quorumWaitMax+200*time.Millisecond {
				t.Errorf("a script that only reads waited %v for a quorum, want %v", took, quorumWaitMax)
			}
			c.once("SET", "plain", "t", "NX", "PX", "20000").matches("-NOQUORUM .*")
			c.once("GET", "plain").matches("-NOQUORUM .*")
			other.rUnlock("B", "1").matches("-NOQUORUM .*")
		})
		c.grantedSoon("A")
	})
}
