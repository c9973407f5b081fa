package redlock

// Callers of the simulation that lock as Redisson does: RLock counts in a hash how often its owner has taken it, RReadWriteLock has a field for
// each holder and a key beside it for each hold of a reader. The engine sees none of that: package proxy/keyspace keeps a hash as one string with
// a version, and what a script does is a commit of one to four keys, guarded by what the script has read. So the callers here keep such strings,
// compute in Go what Redisson's scripts compute, and do with the engine what the server does with a script (proxy/exchange.go): assume or
// read, commit, and read again when a guard fails.
//
// What this cannot see, and which tests do: that the server notes as a guard all that a script has read (proxy/keyspace: TestOutcome, TestPure),
// makes a version for each value (TestVersion), answers as Redis does (TestSameAsRedis), and keeps the scripts of one client and of one key in order
// (proxy: cmd_eval_order_test.go, key_queue_test.go). Redisson itself runs in TestLibraries of cmd/redlockd.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// typedValue is a hash as the masters keep it: version, mode (of a read-write lock) and how often each owner holds it.
type typedValue struct {
	mode   string
	owners map[string]int
}

// typedMark begins such a value.
const typedMark = VersionMark + "h"

// encode makes the string of a value that replaces what was read, with a version of its own. It is empty for a hash without a field: the key is
// deleted.
func (v typedValue) encode(c *caller, st State) string {
	if len(v.owners) == 0 {
		return ""
	}
	c.count++
	was := ""
	if st.Found {
		was = st.Value
	}
	version := NextVersion([VersionLen]byte([]byte(fmt.Sprintf("%03d%04d  %03d%04d", c.id, c.count, c.id, c.count))), was)
	parts := []string{typedMark + string(version[:]), v.mode}
	for _, owner := range sortedKeys(v.owners) {
		parts = append(parts, fmt.Sprintf("%s=%d", owner, v.owners[owner]))
	}
	return strings.Join(parts, "|")
}

// decodeTyped reads what a key holds. ok is false for a value that is no hash, which excludes everybody here.
func decodeTyped(st State) (v typedValue, ok bool) {
	v.owners = map[string]int{}
	if !st.Found {
		return v, true
	}
	if !strings.HasPrefix(st.Value, typedMark) {
		return v, false
	}
	parts := strings.Split(st.Value, "|")
	v.mode = parts[1]
	for _, part := range parts[2:] {
		owner, depth, _ := strings.Cut(part, "=")
		v.owners[owner], _ = strconv.Atoi(depth)
	}
	return v, true
}

// plus is the value with so many holds more of an owner. The receiver stays as it is.
func (v typedValue) plus(owner string, n int) typedValue {
	sum := typedValue{mode: v.mode, owners: map[string]int{}}
	for other, depth := range v.owners {
		sum.owners[other] = depth
	}
	if sum.owners[owner] += n; sum.owners[owner] <= 0 {
		delete(sum.owners, owner)
	}
	return sum
}

// changeTo changes a key from what was read to a value; "" deletes it. The same value gets a new TTL.
func changeTo(key string, st State, value string, ttl time.Duration) Change {
	ch := Change{Resource: key, Was: WasAbsent, Do: Set, NewValue: value, TTL: ttl}
	if st.Found {
		ch.Was, ch.Value = WasValue, st.Value
	}
	switch value {
	case "":
		ch.Do, ch.TTL = Delete, 0
	case st.Value:
		ch.Do, ch.NewValue = Expire, ""
	}
	return ch
}

// comparedAll only compares keys with what was read.
func comparedAll(keys []string, states []State) (changes []Change) {
	for i, key := range keys {
		ch := Change{Resource: key, Was: WasAbsent}
		if states[i].Found {
			ch.Was, ch.Value = WasValue, states[i].Value
		}
		changes = append(changes, ch)
	}
	return changes
}

// A typedScript computes changes from what its keys hold, and what it answers. It has one change for each key, in their order.
type typedScript func(states []State) (changes []Change, answer string)

const typedUnknown = "unknown"

// typed runs a script through a proxy, as the server does. done hears the answer at the moment when it is known to be true. assumed may be nil.
// The answer is typedUnknown if nobody knows what came of it.
func (c *caller) typed(p *incarnation, what string, keys []string, assumed []State, script typedScript, done func(answer string, result Result)) (answer string) {
	c.w.ledger.note("caller %d: %s %v through %d …", c.id, what, keys, p.id)
	states := assumed
	for try := range 8 {
		if read := states == nil || try > 0; read {
			states = nil
			for range 10 {
				r := newRequest(p, func(Result) {})
				p.StartRead(&r.Op, keys, r)
				result := r.wait()
				if result.Err != nil {
					c.w.ledger.note("caller %d: %s %v through %d: reading: %v", c.id, what, keys, p.id, result.Err)
					return typedUnknown
				}
				if !slices.ContainsFunc(result.States, func(st State) bool { return st.Split }) {
					states = result.States
					break
				}
				c.sleep(4 * ms)
			}
			if states == nil {
				return typedUnknown
			}
		}
		changes, answer := script(states)
		if try > 0 || assumed == nil {
			sure := !slices.ContainsFunc(states, func(st State) bool { return st.Found && !st.Sure })
			if sure && !slices.ContainsFunc(changes, func(ch Change) bool { return ch.real() }) && !p.dead.Load() {
				done(answer, Result{})
				return answer
			}
		}
		r := newRequest(p, func(result Result) {
			if result.Held {
				done(answer, result)
			}
		})
		p.StartCommit(&r.Op, changes, r)
		switch result := r.wait(); {
		case result.Err != nil:
			c.w.ledger.note("caller %d: %s %v through %d: %v", c.id, what, keys, p.id, result.Err)
			if keys[0] == sharedKey {
				c.w.shared.unsettle()
			}
			return typedUnknown
		case result.Held:
			c.w.ledger.note("caller %d: %s %v through %d: %s", c.id, what, keys, p.id, answer)
			c.w.count(func(t *tallies) {
				t.typed++
				if len(changes) > 1 {
					t.typedSeveral++
				}
			})
			return answer
		}
		c.sleep(3 * ms)
	}
	return typedUnknown
}

// typedLatch is the key of one unlock, by which Redisson answers a repeated one the same.
func (c *caller) typedLatch() string {
	c.count++
	return fmt.Sprintf("latch:%d.%d", c.id, c.count)
}

// countedTurn is a turn of an RLock: it is taken, taken again, renewed by a watchdog beside that, left, and left for good. All lock the resources
// of the other callers, and the same ledger watches them.
func (c *caller) countedTurn() {
	w, rng := c.w, c.rng
	p := w.present(rng.IntN(simProxies))
	key := simResources[rng.IntN(len(simResources))]
	lease := (w.maxTTL/3 + upTo(rng, w.maxTTL*2/3)).Truncate(ms)
	c.count++
	owner := fmt.Sprintf("owner%d.%d", c.id, c.count)
	var l *ledgerLease
	value := "" // that the ledger knows

	// take is the script of lock: absent or mine, one more; otherwise nil.
	take := func(states []State) ([]Change, string) {
		v, ok := decodeTyped(states[0])
		if !ok || states[0].Found && v.owners[owner] == 0 {
			return comparedAll([]string{key}, states), "held by another"
		}
		value = v.plus(owner, 1).encode(c, states[0])
		return []Change{changeTo(key, states[0], value, lease)}, "taken"
	}
	free := []State{{Type: "none"}}
	for range 1 + rng.IntN(4) {
		began, losses := time.Now(), w.ledger.lossesSoFar()
		c.typed(p, "lock by "+owner, []string{key}, free, take, func(answer string, result Result) {
			if answer == "taken" {
				req := LockRequest{Resources: []string{key}, TTL: lease, Token: value, Wait: time.Since(began)}
				result.Validity = lease
				l = w.ledger.granted(c, p, req, result, began, losses)
			}
		})
		if l != nil {
			break
		}
		free = nil // a repetition may find what the first one has left, and that it is its own
		c.sleep(30 * ms)
		p = c.anyProxy(p)
	}
	if l == nil {
		return
	}
	w.count(func(t *tallies) { t.counted++ })

	// mine runs a script on the lock that the caller has. Without the owner in the hash it is lost.
	mine := func(c *caller, what string, latch []string, n int) (answer string) {
		p := c.anyProxy(p)
		began := time.Now()
		var assumed []State
		if n != 0 && c.rng.IntN(2) == 0 { // as a server does that has granted it
			assumed = append([]State{{Found: true, Type: "string", Value: l.token, TTL: lease}}, slices.Repeat([]State{{Type: "none"}}, len(latch))...)
		}
		w.ledger.shortened(l, began.Add(lease))
		if n != 0 {
			w.ledger.changing(l)
		}
		renewed := ""
		answer = c.typed(p, what+" by "+owner, append([]string{key}, latch...), assumed, func(states []State) ([]Change, string) {
			v, ok := decodeTyped(states[0])
			if !ok || v.owners[owner] == 0 {
				return comparedAll(append([]string{key}, latch...), states), "lost"
			}
			if renewed = states[0].Value; n != 0 {
				renewed = v.plus(owner, n).encode(c, states[0])
			}
			changes := []Change{changeTo(key, states[0], renewed, lease)}
			for i := range latch {
				changes = append(changes, changeTo(latch[i], states[i+1], "0", lease))
			}
			return changes, "done"
		}, func(answer string, result Result) {
			if answer == "lost" {
				w.ledger.lost(l, p, began)
				return
			}
			w.ledger.extended(l, p, result, began)
			if n != 0 {
				w.ledger.renamed(l, renewed)
			}
		})
		if answer == typedUnknown {
			w.ledger.excuse(l) // single masters may have the next value, and a reading finds neither
		}
		return answer
	}
	watchdog := &caller{w: w, id: 100 + c.id, rng: rand.New(rand.NewPCG(w.seed, rng.Uint64()))}
	watching := func() {
		if watchdog.rng.IntN(2) == 0 {
			watchdog.sleep(2 * ms)
			mine(watchdog, "watchdog", nil, 0)
		}
	}
	depth := 1 // at least
	for range rng.IntN(4) {
		c.work(lease / 2)
		var beside sync.WaitGroup
		beside.Go(watching)
		answer := ""
		if depth == 1 || rng.IntN(2) == 0 {
			if answer = mine(c, "lock again", nil, 1); answer == "done" {
				depth++
			}
		} else {
			answer = mine(c, "leave", []string{c.typedLatch()}, -1)
			depth-- // also where nobody knows
		}
		beside.Wait()
		if answer == "lost" {
			return
		}
	}
	c.work(lease / 2)
	if rng.IntN(15) == 0 {
		return // it forgets to
	}
	c.leaveForGood(c.anyProxy(p), l, key, owner, lease)
}

// leaveForGood is the last unlock, which is repeated with the same latch where nobody knows what came of it. Its depth does not matter.
func (c *caller) leaveForGood(p *incarnation, l *ledgerLease, key, owner string, lease time.Duration) {
	w := c.w
	w.ledger.releasing(l, p)
	latch := c.typedLatch()
	for try := range 3 {
		answer := c.typed(p, "unlock by "+owner, []string{key, latch}, nil, func(states []State) ([]Change, string) {
			v, ok := decodeTyped(states[0])
			if states[1].Found || !ok || v.owners[owner] == 0 {
				return comparedAll([]string{key, latch}, states), "not held"
			}
			return []Change{changeTo(key, states[0], "", 0), changeTo(latch, states[1], "1", lease)}, "released"
		}, func(answer string, result Result) {
			if result.Held = answer == "released"; result.Held || try == 0 {
				w.ledger.released(l, p, result)
			}
		})
		if answer != typedUnknown {
			break
		}
		p = c.anyProxy(p)
	}
	c.typed(p, "delete of the latch", []string{latch}, nil, func(states []State) ([]Change, string) {
		if !states[0].Found {
			return comparedAll([]string{latch}, states), "absent"
		}
		return []Change{changeTo(latch, states[0], "", 0)}, "deleted"
	}, func(string, Result) {})
}

// sharedKey is what the read-write locks are called. Nobody else locks it.
const sharedKey = "read-write"

// sharedHold is a reader or a writer as it knows itself.
type sharedHold struct {
	owner  string
	writes bool
	until  time.Time
	losses int // of the ledger
	// unsettled is that of the shared ledger when the hold began.
	unsettled int
}

// sharedLedger is the ledger of the read-write lock.
type sharedLedger struct {
	mu    sync.Mutex
	holds []*sharedHold
	// unsettled counts the changes of which nobody knows what came of them. A few of them can leave so many different values on the
	// masters that none has a quorum until they end: who holds it may lose it then, and nobody else gets it.
	unsettled int
}

func (b *sharedLedger) unsettledSoFar() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unsettled
}

func (b *sharedLedger) unsettle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unsettled++
}

// enters records a hold, and fails if another one runs that excludes it.
func (b *sharedLedger) enters(c *caller, h *sharedHold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.holds = slices.DeleteFunc(b.holds, func(other *sharedHold) bool { return !now.Before(other.until) })
	for _, other := range b.holds {
		if h.writes || other.writes {
			c.w.ledger.violated("%s (writes: %v) was granted, and %s (writes: %v) holds it for another %v", h.owner, h.writes, other.owner, other.writes, other.until.Sub(now))
		}
	}
	b.holds = append(b.holds, h)
}

func (b *sharedLedger) set(h *sharedHold, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h.until = until
}

func (b *ledger) violated(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failLocked(format, args...)
}

// sharedTurn is a turn of an RReadWriteLock. Several readers change one value, and how long that lives follows from keys that say how long each
// of them holds it.
func (c *caller) sharedTurn() {
	w, rng := c.w, c.rng
	p := w.present(rng.IntN(simProxies))
	lease := (w.maxTTL/3 + upTo(rng, w.maxTTL*2/3)).Truncate(ms)
	c.count++
	h := &sharedHold{owner: fmt.Sprintf("holder%d.%d", c.id, c.count), writes: rng.IntN(3) == 0, losses: w.ledger.lossesSoFar(), unsettled: w.shared.unsettledSoFar()}
	own := holdKey(h.owner)
	entered := false
	for range 1 + rng.IntN(4) {
		began := time.Now()
		c.typed(p, "shared lock by "+h.owner, []string{sharedKey, own}, nil, func(states []State) ([]Change, string) {
			v, _ := decodeTyped(states[0])
			if states[0].Found && v.owners[h.owner] == 0 && (h.writes || v.mode == "write") {
				return comparedAll([]string{sharedKey, own}, states), "held by another"
			}
			ttl := lease
			if v.mode = "write"; !h.writes {
				v.mode, ttl = "read", max(lease, states[0].TTL)
			}
			changes := []Change{changeTo(sharedKey, states[0], v.plus(h.owner, 1).encode(c, states[0]), ttl)}
			if !h.writes {
				changes = append(changes, changeTo(own, states[1], "1", lease))
			} else {
				changes = append(changes, comparedAll([]string{own}, states[1:])...)
			}
			return changes, "taken"
		}, func(answer string, result Result) {
			if entered = answer == "taken"; entered {
				h.until = began.Add(lease)
				w.shared.enters(c, h)
			}
		})
		if entered {
			break
		}
		c.sleep(30 * ms)
		p = c.anyProxy(p)
	}
	if !entered {
		return
	}
	w.count(func(t *tallies) { t.shared++ })
	for range rng.IntN(4) {
		c.work(lease / 2)
		if !c.sharedRenew(c.anyProxy(p), h, lease) {
			return
		}
	}
	c.work(lease / 2)
	if rng.IntN(15) > 0 {
		c.sharedLeave(c.anyProxy(p), h)
	}
}

func holdKey(owner string) string { return sharedKey + ":" + owner }

// sharedRenew is the watchdog. A new end of a value that several hold is a new value (keyspace.Space), so that who leaves at the same time, and has
// read the end before, does not set that again.
func (c *caller) sharedRenew(p *incarnation, h *sharedHold, lease time.Duration) (still bool) {
	still = true
	began := time.Now()
	c.w.shared.set(h, earlier(h.until, began.Add(lease)))
	keys := []string{sharedKey}
	if !h.writes {
		keys = append(keys, holdKey(h.owner))
	}
	c.typed(p, "watchdog of "+h.owner, keys, nil, func(states []State) ([]Change, string) {
		v, _ := decodeTyped(states[0])
		if v.owners[h.owner] == 0 || len(keys) > 1 && !states[1].Found {
			return comparedAll(keys, states), "lost"
		}
		changes := []Change{changeTo(sharedKey, states[0], v.encode(c, states[0]), max(lease, states[0].TTL))}
		if len(keys) > 1 {
			changes = append(changes, changeTo(keys[1], states[1], states[1].Value, lease))
		}
		return changes, "renewed"
	}, func(answer string, result Result) {
		if still = answer == "renewed"; still {
			c.w.shared.set(h, began.Add(lease))
			return
		}
		if b := c.w.ledger; time.Now().Before(h.until) && b.lossesSoFar() >= 0 && b.lossesSoFar() == h.losses && c.w.shared.unsettledSoFar() == h.unsettled {
			b.violated("%s is told that it holds %s no more, and nothing has happened that can lose it", h.owner, sharedKey)
		}
		c.w.shared.set(h, time.Time{})
	})
	return still
}

// sharedLeave is unlock. The value lives on for as long as the longest hold of the other readers.
func (c *caller) sharedLeave(p *incarnation, h *sharedHold) {
	c.w.shared.set(h, time.Time{})
	keys := []string{sharedKey, holdKey(h.owner)}
	for range 4 {
		var missing []string
		c.typed(p, "shared unlock by "+h.owner, keys, nil, func(states []State) ([]Change, string) {
			v, _ := decodeTyped(states[0])
			changes := comparedAll(keys, states)
			if v.owners[h.owner] == 0 {
				return changes, "not held"
			}
			rest, ttl := v.plus(h.owner, -1), time.Duration(0)
			for _, other := range sortedKeys(rest.owners) {
				at := slices.Index(keys, holdKey(other))
				if at < 0 {
					missing = append(missing, holdKey(other)) // it is read too, and the script run again
					continue
				}
				if states[at].Found {
					ttl = max(ttl, states[at].TTL+states[at].Spread)
				}
			}
			if len(missing) > 0 {
				return changes, "wants more keys"
			}
			value := rest.encode(c, states[0])
			if ttl == 0 { // nobody else holds it
				value = ""
			}
			changes[0] = changeTo(sharedKey, states[0], value, max(ttl, p.opts.MinTTL))
			if states[1].Found {
				changes[1] = changeTo(keys[1], states[1], "", 0)
			}
			return changes, "left"
		}, func(string, Result) {})
		if len(missing) == 0 {
			return
		}
		slices.Sort(missing)
		keys = append(keys, slices.Compact(missing)...)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
