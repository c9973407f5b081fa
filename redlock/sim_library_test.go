package redlock

// Callers of the simulation that were written for one Redis: lock libraries, with their scripts as they are published, sent by EVALSHA first. They
// lock the same resources as the others, under tokens that are unique, long or short. They count their TTL from when they sent, and a TTL that is
// shorter than before from when they asked for it. The same ledger watches them. Those of Redisson: sim_redisson_test.go.

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"redlockd/redlock/resp"
)

// library is what a lock library sends. A string with $k is a command, with $k, $t and $ms for the key, the token and the TTL, or one in each line; another
// one is a script.
type library struct {
	name                 string
	lock, renew, release string
	several              bool     // it locks several keys at a time
	defaultTTL           bool     // a lock gets the TTL of the settings
	more                 []string // arguments behind the token and the TTL
}

var libraries = []library{
	{name: "by hand", lock: "SET $k $t NX PX $ms", renew: "SET $k $t IFEQ $t PX $ms", release: "DELEX $k IFEQ $t"},
	{name: "under WATCH", lock: "SET $k $t NX PX $ms", renew: "WATCH $k\nGET $k\nMULTI\nPEXPIRE $k $ms\nEXEC", release: "WATCH $k\nGET $k\nMULTI\nDEL $k\nEXEC"},
	{name: "SETNX", lock: "SETNX $k $t", defaultTTL: true, renew: "SET $k $t IFEQ $t PX $ms", release: "DELEX $k IFEQ $t"},
	{name: "redis-py 8.1 Lock", lock: "SET $k $t NX PX $ms", release: `
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('del', KEYS[1])
        return 1
    `, more: []string{"1"}, renew: `
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        local expiration = redis.call('pttl', KEYS[1])
        if not expiration then
            expiration = 0
        end
        if expiration < 0 then
            return 0
        end

        local newttl = ARGV[2]
        if ARGV[3] == "0" then
            newttl = ARGV[2] + expiration
        end
        redis.call('pexpire', KEYS[1], newttl)
        return 1
    `},
	{name: "redsync 4.18", lock: "SET $k $t PX $ms NX", renew: `
	if redis.call("GET", KEYS[1]) == ARGV[1] then
		return redis.call("PEXPIRE", KEYS[1], ARGV[2])
	else
		return 0
	end
`, release: `
	local val = redis.call("GET", KEYS[1])
	if val == ARGV[1] then
		return redis.call("DEL", KEYS[1])
	elseif val == false then
		return -1
	else
		return 0
	end
`},
	{name: "node-redlock 5", several: true, lock: `
  -- Return 0 if an entry already exists.
  for i, key in ipairs(KEYS) do
    if redis.call("exists", key) == 1 then
      return 0
    end
  end

  -- Create an entry for each provided key.
  for i, key in ipairs(KEYS) do
    redis.call("set", key, ARGV[1], "PX", ARGV[2])
  end

  -- Return the number of entries added.
  return #KEYS
`, renew: `
  -- Return 0 if an entry exists with a *different* lock value.
  for i, key in ipairs(KEYS) do
    if redis.call("get", key) ~= ARGV[1] then
      return 0
    end
  end

  -- Update the entry for each provided key.
  for i, key in ipairs(KEYS) do
    redis.call("set", key, ARGV[1], "PX", ARGV[2])
  end

  -- Return the number of entries updated.
  return #KEYS
`, release: `
  local count = 0
  for i, key in ipairs(KEYS) do
    -- Only remove entries for *this* lock value.
    if redis.call("get", key) == ARGV[1] then
      redis.pcall("del", key)
      count = count + 1
    end
  end

  -- Return the number of entries removed.
  return count
`},
	{name: "Spring Integration 7.1 RedisLockRegistry", lock: `
local lockClientId = redis.call('GET', KEYS[1])
if lockClientId == ARGV[1] then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return true
elseif not lockClientId then
	redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
	return true
end
return false
`, renew: `
if (redis.call('GET', KEYS[1]) == ARGV[1]) then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return true
end
return false
`, release: `
local lockClientId = redis.call('GET', KEYS[1])
if (lockClientId == ARGV[1] and redis.call('UNLINK', KEYS[1]) == 1) then
	redis.call('PUBLISH', ARGV[2], KEYS[1])
	return true
end
return false
`},
}

// eval runs a script as libraries do: by its digest, and by its text where that is not known.
func (s *simConn) eval(source string, keys []string, args ...string) (resp.Value, error) {
	sum := sha1.Sum([]byte(source))
	rest := slices.Concat([]string{strconv.Itoa(len(keys))}, keys, args)
	v, err := s.do(append([]string{"EVALSHA", hex.EncodeToString(sum[:])}, rest...)...)
	s.w.count(func(t *tallies) { t.scripts++ })
	if err == nil && v.Kind == resp.Error && strings.HasPrefix(v.Text, "NOSCRIPT ") {
		s.w.count(func(t *tallies) { t.scriptsUnknown++ })
		v, err = s.do(append([]string{"EVAL", source}, rest...)...)
	}
	return v, err
}

// call sends what a library sends, and returns what it learns. Held is for yes.
func (lib *library) call(s *simConn, what string, keys []string, token string, ttl time.Duration) (r Result) {
	began := time.Now()
	var v resp.Value
	var err error
	if strings.Contains(what, "$k") {
		v, err = s.doLines(strings.NewReplacer("$k", keys[0], "$t", token, "$ms", inText(ttl)).Replace(what), token)
	} else {
		v, err = s.eval(what, keys, append([]string{token, inText(ttl)}, lib.more...)...)
	}
	switch {
	case err != nil:
		r.Err = err
	case v.Kind == resp.Error:
		r.Err = simRefusal(v.Text)
	default:
		r.Held = v.Kind == resp.Status || v.Kind == resp.Int && v.Int == int64(len(keys))
	}
	r.Token, r.Validity, r.Until = token, ttl, began.Add(ttl)
	return r
}

// doLines sends the commands of some lines, and returns the reply to the last; of an EXEC, what its only command has done. It stops at an error, and at a GET
// that finds another token, and forgets what it has watched. An EXEC that answers null says that a watched key may have changed: as libraries do, it begins
// anew, and gives up after three times, when nobody knows.
func (s *simConn) doLines(lines, token string) (v resp.Value, err error) {
	for range 3 {
		var changed bool
		if v, changed, err = s.doLinesOnce(lines, token); !changed {
			return v, err
		}
	}
	return resp.Value{}, errNoAnswer
}

// doLinesOnce is doLines without beginning anew. changed: EXEC has answered null.
func (s *simConn) doLinesOnce(lines, token string) (v resp.Value, changed bool, err error) {
	forget, executed := "", false // forget: how to
	for line := range strings.Lines(lines) {
		args := strings.Fields(line)
		switch v, err = s.do(args...); args[0] {
		case "WATCH":
			forget = "UNWATCH"
		case "MULTI":
			forget = "DISCARD"
		case "EXEC":
			forget, executed = "", true
		}
		failed := err != nil || v.Kind == resp.Error
		another := !failed && args[0] == "GET" && v.Text != token
		if !failed && !another {
			continue
		}
		if forget != "" {
			s.do(forget)
		}
		if another {
			v = resp.Value{}
		}
		return v, false, err
	}
	if len(v.Elems) == 1 {
		s.w.count(func(t *tallies) { t.transactions++ })
		v = v.Elems[0]
	}
	return v, executed && v.Kind == resp.Nil, nil
}

// libraryTurn is a turn of such a caller.
func (c *caller) libraryTurn() {
	w, rng := c.w, c.rng
	lib := &libraries[rng.IntN(len(libraries))]
	p := w.present(rng.IntN(simProxies))
	req := LockRequest{Resources: []string{simResources[rng.IntN(len(simResources))]}, TTL: (w.maxTTL/3 + upTo(rng, w.maxTTL*2/3)).Truncate(ms), Token: c.newValue()}
	switch {
	case lib.several:
		i := rng.IntN(len(simResources))
		req.Resources = []string{simResources[i], simResources[(i+1)%len(simResources)]}
	case rng.IntN(10) == 0:
		req.Resources, req.TTL = []string{SimDelayed}, w.delayedTTL()
	case rng.IntN(30) == 0:
		req.Resources[0] = SimFenced // which is refused
	}
	if lib.defaultTTL {
		req.TTL = w.maxTTL / 2
	}
	var l *ledgerLease
	for range 1 + rng.IntN(4) {
		if l = c.libraryLock(lib, c.to(p), req); l != nil {
			break
		}
		c.sleep(30 * ms) // the same token again, as a library does that makes one per lock object; a balancer may choose another proxy
		if rng.IntN(2) == 0 || p.dead.Load() {
			p = w.present(rng.IntN(simProxies))
		}
	}
	if l == nil {
		return
	}
	for range rng.IntN(4) {
		c.work(req.TTL / 2)
		ttl := (w.maxTTL/3 + upTo(rng, w.maxTTL*2/3)).Truncate(ms)
		if l.resources[0] == SimDelayed {
			ttl = w.delayedTTL()
		}
		p = c.anyProxy(p)
		still := true
		switch rng.IntN(4) {
		case 0:
			still = c.checkRead(p, l)
		case 1:
			still = len(l.resources) > 1 || c.rotate(p, l, ttl)
		default:
			still = c.renew(lib.name, p, l, ttl, "", func(s *simConn) Result { return lib.call(s, lib.renew, l.resources, l.token, ttl) })
		}
		if !still {
			return
		}
	}
	c.work(req.TTL / 2)
	if rng.IntN(15) > 0 {
		s := c.to(c.anyProxy(p))
		w.ledger.releasing(l, s.p)
		w.ledger.released(l, s.p, lib.call(s, lib.release, l.resources, l.token, 0))
	}
}

// delayedTTL is one that the policy of SimDelayed allows.
func (w *world) delayedTTL() time.Duration { return (w.maxTTL * 2 / 3).Truncate(ms) }

// newValue is unique; only if it is long does it look so.
func (c *caller) newValue() string {
	c.count++
	value := fmt.Sprintf("v%d.%d", c.id, c.count)
	if c.rng.IntN(2) == 0 {
		value += ".and-that-is-unique"
	}
	return value
}

func (c *caller) libraryLock(lib *library, s *simConn, req LockRequest) *ledgerLease {
	w, began, losses := c.w, time.Now(), c.w.ledger.lossesSoFar()
	w.ledger.note("caller %d: lock of %s %v %s ttl %v through %d …", c.id, lib.name, req.Resources, short(req.Token), req.TTL, s.p.id)
	result := lib.call(s, lib.lock, req.Resources, req.Token, req.TTL)
	if !result.Held {
		w.ledger.note("caller %d: lock of %s %v %s through %d: %v", c.id, lib.name, req.Resources, short(req.Token), s.p.id, outcomeText(result))
		return nil
	}
	w.count(func(t *tallies) { t.dropIn++ })
	return w.ledger.granted(c, s.p, req, result, began, losses)
}

// renew does what has the caller believe in a TTL, perhaps under another token, and says whether it still believes. If nobody knows what came of it, the
// command may be under way for as long as masters are waited for, and shorten the TTL behind a later one.
func (c *caller) renew(what string, p *incarnation, l *ledgerLease, ttl time.Duration, token string, do func(*simConn) Result) (still bool) {
	w, s := c.w, c.to(p)
	w.ledger.note("caller %d: %s %v %s ttl %v through %d …", c.id, what, l.resources, short(l.token), ttl, p.id)
	began := time.Now()
	w.ledger.shortened(l, began.Add(ttl))
	switch result := do(s); {
	case result.Held:
		w.ledger.extended(l, p, result, began)
		w.count(func(t *tallies) { t.dropInLater++ })
		if token != "" {
			w.ledger.renamed(l, token)
			w.count(func(t *tallies) { t.rotated++ })
		}
	case result.Err == nil:
		w.ledger.lost(l, p, began)
		return false
	default:
		w.ledger.note("caller %d: %s %v %s through %d: %v", c.id, what, l.resources, short(l.token), p.id, result.Err)
		if token != "" {
			// Some masters may have the new token now: with the old one the lock may be found lost. Nobody else can have it.
			w.ledger.excuse(l)
		}
		time.Sleep(w.commandLife())
	}
	return true
}

// commandLife is for how long a command may go on whose caller has given it up.
func (w *world) commandLife() time.Duration { return 120 * ms }

// rotate gives the lock another token. If nobody knows what came of it, the caller goes on with the old one.
func (c *caller) rotate(p *incarnation, l *ledgerLease, ttl time.Duration) bool {
	value, key := c.newValue(), l.resources[0]
	c.w.ledger.changing(l)
	return c.renew("rotation to "+short(value), p, l, ttl, value, func(s *simConn) Result {
		began := time.Now()
		v, err := s.do("SET", key, value, "IFEQ", l.token, "PX", inText(ttl))
		result := resultOf(v, err, began)
		result.Held, result.Validity, result.Until = v.Kind == resp.Status, ttl, began.Add(ttl)
		return result
	})
}

// checkRead: as long as a lock is valid and nothing has happened that can lose it, a reading must find it. Two commands are sent together.
func (c *caller) checkRead(p *incarnation, l *ledgerLease) (still bool) {
	s := c.to(p)
	still = true
	for _, r := range l.resources {
		s.send("GET", r)
		s.send("PTTL", r)
		v, err := s.receive(0)
		left, err2 := s.receive(0)
		if err == nil && v.Kind != resp.Error && v.Text != l.token {
			c.w.ledger.notFound("GET", l, p, r, v.Text)
			still = false
		} else if err2 == nil && left.Kind == resp.Int && left.Int < 0 {
			c.w.ledger.notFound("PTTL", l, p, r, fmt.Sprint(left.Int))
			still = false
		}
		c.w.count(func(t *tallies) { t.read++ })
	}
	return still
}

// shortened: the caller believes in the TTL that it asks for from now on, if that is shorter.
func (b *ledger) shortened(l *ledgerLease, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until.Before(l.until) {
		l.until = until
	}
}

// changing: the caller asks for another token.
func (b *ledger) changing(l *ledgerLease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.changes = true
}

func (b *ledger) renamed(l *ledgerLease, token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.name == "" {
		l.name = l.token
	}
	b.w.trace.gaveUp(l)
	l.token = token
}

// notFound: a reading has not found the token of the lease.
func (b *ledger) notFound(what string, l *ledgerLease, p *incarnation, resource, found string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteLocked("caller %d: %s %s through %d: %q", l.caller, what, resource, p.id, found)
	if time.Now().Before(l.until) && b.nothingLostLocked(l) {
		b.failLocked("%s %s does not find %s of caller %d, and nothing has happened that can lose it", what, resource, short(l.token), l.caller)
	}
	l.over = true
	b.endLocked(l, time.Time{}, time.Time{})
}

// excuse: the lock may be found lost without a fault.
func (b *ledger) excuse(l *ledgerLease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.losses = -1
}
