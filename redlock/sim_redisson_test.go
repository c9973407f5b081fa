package redlock

// Callers of the simulation that lock with the scripts of Redisson 4.7: RLock counts in a hash how often its owner has taken it, RReadWriteLock has a
// field for each holder, and a key beside the hash for each hold of a reader. All lock the resources of the other callers, and the same ledger
// watches them, by their owners: the value of the key changes, and nobody sees it.

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redlockd/redlock/resp"
)

// redisson is the scripts of one kind of lock.
type redisson struct{ lock, unlock, renew string }

var rLock = redisson{
	lock: "if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; return redis.call('pttl', KEYS[1]);",
	unlock: "local val = redis.call('get', KEYS[3]); if val ~= false then return tonumber(val);end; if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil;end; local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); " +
		"if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); redis.call('set', KEYS[3], 0, 'px', ARGV[5]); return 0; else redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return 1; end; ",
	renew: "local result = {} for i = 1, #KEYS, 1 do if (redis.call('hexists', KEYS[i], ARGV[i + 1]) == 1) then redis.call('pexpire', KEYS[i], ARGV[1]); table.insert(result, 1); else table.insert(result, 0); end; end; return result;",
}

var writeLock = redisson{
	lock: "local mode = redis.call('hget', KEYS[1], 'mode'); if (mode == false) then redis.call('hset', KEYS[1], 'mode', 'write'); redis.call('hset', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; " +
		"if (mode == 'write') then if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then redis.call('hincrby', KEYS[1], ARGV[2], 1); local currentExpire = redis.call('pttl', KEYS[1]); redis.call('pexpire', KEYS[1], currentExpire + ARGV[1]); return nil; end; end;return redis.call('pttl', KEYS[1]);",
	unlock: "local val = redis.call('get', KEYS[3]); if val ~= false then return tonumber(val);end; local mode = redis.call('hget', KEYS[1], 'mode'); if (mode == false) then redis.call(ARGV[4], KEYS[2], ARGV[1]); redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return nil; end;" +
		"if (mode == 'write') then local lockExists = redis.call('hexists', KEYS[1], ARGV[3]); if (lockExists == 0) then return nil;else local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); " +
		"if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); redis.call('set', KEYS[3], 0, 'px', ARGV[5]); return 0; else redis.call('hdel', KEYS[1], ARGV[3]); if (redis.call('hlen', KEYS[1]) == 1) then redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); " +
		"else redis.call('hset', KEYS[1], 'mode', 'read'); end; redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return 1; end; end; end; return nil;",
	renew: rLock.renew,
}

var readLock = redisson{
	lock: "local mode = redis.call('hget', KEYS[1], 'mode'); if (mode == false) then redis.call('hset', KEYS[1], 'mode', 'read'); redis.call('hset', KEYS[1], ARGV[2], 1); redis.call('set', KEYS[2] .. ':1', 1); redis.call('pexpire', KEYS[2] .. ':1', ARGV[1]); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; " +
		"if (mode == 'read') or (mode == 'write' and redis.call('hexists', KEYS[1], ARGV[3]) == 1) then local ind = redis.call('hincrby', KEYS[1], ARGV[2], 1); local key = KEYS[2] .. ':' .. ind;redis.call('set', key, 1); redis.call('pexpire', key, ARGV[1]); " +
		"local remainTime = redis.call('pttl', KEYS[1]); redis.call('pexpire', KEYS[1], math.max(remainTime, ARGV[1])); return nil; end;return redis.call('pttl', KEYS[1]);",
	unlock: "local val = redis.call('get', KEYS[5]); if val ~= false then return tonumber(val);end; local mode = redis.call('hget', KEYS[1], 'mode'); if (mode == false) then redis.call(ARGV[3], KEYS[2], ARGV[1]); redis.call('set', KEYS[5], 1, 'px', ARGV[4]); return nil; end; " +
		"local lockExists = redis.call('hexists', KEYS[1], ARGV[2]); if (lockExists == 0) then return nil;end; local counter = redis.call('hincrby', KEYS[1], ARGV[2], -1); if (counter == 0) then redis.call('hdel', KEYS[1], ARGV[2]); end;redis.call('del', KEYS[3] .. ':' .. (counter+1)); " +
		"if (redis.call('hlen', KEYS[1]) > 1) then local maxRemainTime = -3; local keys = redis.call('hkeys', KEYS[1]); for n, key in ipairs(keys) do counter = tonumber(redis.call('hget', KEYS[1], key)); if type(counter) == 'number' then for i=counter, 1, -1 do " +
		"local remainTime = redis.call('pttl', KEYS[4] .. ':' .. key .. ':rwlock_timeout:' .. i); maxRemainTime = math.max(remainTime, maxRemainTime);end; end; end; if maxRemainTime > 0 then redis.call('pexpire', KEYS[1], maxRemainTime); redis.call('set', KEYS[5], 0, 'px', ARGV[4]); return 0; end;" +
		"if mode == 'write' then redis.call('set', KEYS[5], 0, 'px', ARGV[4]); return 0;end; end; redis.call('del', KEYS[1]); redis.call(ARGV[3], KEYS[2], ARGV[1]); redis.call('set', KEYS[5], 1, 'px', ARGV[4]); return 1; ",
	renew: "local result = {} local argIdx = 2 for i = 1, #KEYS, 2 do local anyAlive = false; local lockNamesCount = tonumber(ARGV[argIdx]); argIdx = argIdx + 1; for k = 1, lockNamesCount do local counter = redis.call('hget', KEYS[i], ARGV[argIdx]); if (counter ~= false) then anyAlive = true; " +
		"for c=counter, 1, -1 do redis.call('pexpire', KEYS[i+1] .. ':' .. ARGV[argIdx] .. ':rwlock_timeout:' .. c, ARGV[1]); end; end; argIdx = argIdx + 1; end; if (anyAlive) then redis.call('pexpire', KEYS[i], ARGV[1]); table.insert(result, 1); else table.insert(result, 0); end; end; return result;",
}

// redissonLock is a lock object of one thread.
type redissonLock struct {
	*caller
	scripts redisson
	reader  bool
	key     string
	owner   string
	ttl     time.Duration
	l       *atomic.Pointer[ledgerLease] // the watchdog has it, too
}

func (r *redissonLock) braced() string  { return "{" + r.key + "}" }
func (r *redissonLock) channel() string { return "redisson_lock__channel:" + r.braced() }
func (r *redissonLock) holds() string   { return r.braced() + ":" + r.owner + ":rwlock_timeout" }

// run runs a script, and excuses losses if nobody knows what came of it: then masters have different values of the hash, and none may have a quorum
// until they end.
func (r *redissonLock) run(p *incarnation, what, source string, keys []string, args ...string) (v resp.Value, known bool) {
	r.w.ledger.note("caller %d: Redisson's %s of %s by %s through %d …", r.id, what, r.key, r.owner, p.id)
	v, err := r.to(p).eval(source, keys, args...)
	r.w.ledger.note("caller %d: Redisson's %s of %s by %s through %d: %v %q %d %v", r.id, what, r.key, r.owner, p.id, v.Kind, v.Text, v.Int, err)
	if known = err == nil && v.Kind != resp.Error; !known && !strings.HasPrefix(v.Text, "WRONGTYPE ") && !strings.HasPrefix(v.Text, "TRYAGAIN ") {
		r.w.ledger.unsettle(r.key)
	}
	return v, known
}

// take is lock. It tells whether the lock was taken; false also where nobody knows.
func (r *redissonLock) take(p *incarnation) bool {
	w, began, losses := r.w, time.Now(), r.w.ledger.lossesSoFar()
	keys, args := []string{r.key}, []string{inText(r.ttl), r.owner}
	if r.reader {
		keys, args = append(keys, r.holds()), append(args, r.owner+":write")
	}
	v, known := r.run(p, "lock", r.scripts.lock, keys, args...)
	if !known || v.Kind != resp.Nil {
		return false
	}
	result := Result{Held: true, Token: r.owner, Validity: r.ttl, Until: began.Add(r.ttl)}
	l := w.ledger.granted(r.caller, p, LockRequest{Resources: []string{r.key}, Token: r.owner, TTL: r.ttl, Shared: r.reader}, result, began, losses)
	r.l.Store(l)
	return true
}

// leave is unlock, once. The answer is that of a number, or nil if the lock was not held.
func (r *redissonLock) leave(p *incarnation, latch string) (v resp.Value, known bool) {
	if r.reader {
		return r.run(p, "unlock", r.scripts.unlock, []string{r.key, r.channel(), r.holds(), r.braced(), latch}, "0", r.owner, "publish", inText(r.ttl))
	}
	return r.run(p, "unlock", r.scripts.unlock, []string{r.key, r.channel(), latch}, "0", inText(r.ttl), r.owner, "publish", inText(r.ttl))
}

// latch is the key of one unlock, by which a repeated one is answered the same.
func (r *redissonLock) latch() string {
	r.count++
	return fmt.Sprintf("redisson_unlock_latch:%s:%s.%d", r.braced(), r.owner, r.count)
}

// renews is what the watchdog does.
func (r *redissonLock) renews(p *incarnation) (still bool) {
	began := time.Now()
	keys, args := []string{r.key}, []string{inText(r.ttl), r.owner}
	if r.reader {
		keys, args = append(keys, r.braced()), []string{inText(r.ttl), "1", r.owner}
	}
	v, known := r.run(p, "watchdog", r.scripts.renew, keys, args...)
	if r.reader && r.w.ledger.lapsed(r.l.Load()) { // the hash is renewed, but the key that keeps a reader in it is gone: on one Redis, too
		return true
	}
	return !known || r.heard(p, began, v.Elems[0].Int == 1)
}

// heard tells the ledger whether the lock is held.
func (r *redissonLock) heard(p *incarnation, began time.Time, held bool) bool {
	if held {
		r.w.ledger.extended(r.l.Load(), p, Result{Until: began.Add(r.ttl)}, began)
	} else {
		r.w.ledger.lost(r.l.Load(), p, began)
	}
	return held
}

// redissonTurn is a turn of an RLock, or of a read-write lock: it is taken, an RLock taken again and left, all renewed by a watchdog beside that, and
// left for good. On one Redis, too, an RLock does not exclude a read-write lock of the same name.
func (c *caller) redissonTurn(readWrite bool) {
	w, rng := c.w, c.rng
	c.count++
	r := &redissonLock{caller: c, scripts: rLock, key: simResources[rng.IntN(2)], owner: fmt.Sprintf("owner%d:%d", c.id, c.count), ttl: (w.maxTTL/3 + upTo(rng, w.maxTTL*2/3)).Truncate(ms), l: new(atomic.Pointer[ledgerLease])}
	if readWrite {
		r.key = []string{simResources[2], "read-write"}[min(1, rng.IntN(3))]
		r.ttl = (w.maxTTL * 2 / 3).Truncate(ms) // that of all: on one Redis, too, the watchdog of a reader sets the end of the whole lock
		if r.scripts, r.reader = readLock, rng.IntN(3) > 0; !r.reader {
			r.scripts, r.owner = writeLock, r.owner+":write"
		}
	}
	p := w.present(rng.IntN(simProxies))
	taken := r.take(p)
	for range rng.IntN(4) {
		if taken {
			break
		}
		c.sleep(30 * ms)
		p = c.anyProxy(p)
		taken = r.take(p)
	}
	if !taken {
		return
	}
	w.count(func(t *tallies) {
		if readWrite {
			t.shared++
		} else {
			t.counted++
		}
	})
	watchdog := *r
	watchdog.caller = c.beside()
	defer watchdog.hangUp()
	depth := 1 // at least
	for range rng.IntN(4) {
		c.work(r.ttl / 2)
		var beside sync.WaitGroup
		if rng.IntN(2) == 0 {
			q := c.anyProxy(p)
			beside.Go(func() {
				watchdog.sleep(2 * ms)
				watchdog.renews(q)
			})
		}
		still := true
		switch p, began := c.anyProxy(p), time.Now(); {
		case readWrite:
			still = r.renews(p)
		case depth == 1 || rng.IntN(2) == 0:
			before := r.l.Load()
			if r.take(p) {
				if depth++; r.l.Load() != before { // it was lost, or released by force, since
					depth = 1
				}
			}
		default:
			depth--
			w.ledger.mayBeLast(r.l.Load())
			v, known := r.leave(p, r.latch())
			if !known || v.Int == 1 {
				beside.Wait()
				r.leaveForGood(p)
				return
			}
			still = r.heard(p, began, v.Kind == resp.Int)
		}
		if beside.Wait(); !still || r.l.Load().over {
			return
		}
	}
	c.work(r.ttl / 2)
	if rng.IntN(15) == 0 {
		return // it forgets to
	}
	r.leaveForGood(c.anyProxy(p))
}

// leaveForGood unlocks until the lock is not held any more. What nobody knows the outcome of is repeated with the same latch.
func (r *redissonLock) leaveForGood(p *incarnation) {
	r.w.ledger.releasing(r.l.Load(), p)
	latch, repeated := r.latch(), false
	for range 6 {
		v, known := r.leave(p, latch)
		held := known && (v.Kind == resp.Nil || v.Int == 0 && !r.reader)
		if known && (!held || !repeated && v.Kind == resp.Nil) { // a reader's answer tells whether others hold the lock
			r.w.ledger.released(r.l.Load(), p, Result{Held: v.Kind == resp.Int})
		}
		if repeated = !known; known {
			if s := r.to(p); !s.ended {
				s.do("DEL", latch)
			}
			if v.Kind == resp.Nil || !held {
				return
			}
			latch = r.latch()
		}
		p = r.anyProxy(p)
	}
}

// unsettle notes that nobody knows what a change of the owners of a resource has come to.
func (b *ledger) unsettle(resource string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unsettled[resource] = time.Now()
}

// mayBeLast: the caller leaves its lock, and believes that it has taken it once more. If it was lost since, it was taken anew, and this ends it.
func (b *ledger) mayBeLast(l *ledgerLease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); !b.nothingLostLocked(l) && now.Before(l.until) {
		l.until = now
	}
}

// isOwner tells whether a token is the owner of a lock that the masters keep in a hash.
func isOwner(token string) bool { return strings.HasPrefix(token, "owner") }

// settledLocked tells whether no change of its hash was left open since the lease was asked for.
func (b *ledger) settledLocked(l *ledgerLease) bool {
	return !l.hash || !slices.ContainsFunc(l.resources, func(r string) bool { return !b.unsettled[r].Before(l.asked) })
}
