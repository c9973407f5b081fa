package redlock

import "time"

// Texts that all proxies share, kept on the masters: the scripts that clients have loaded, so that a client can name one by its SHA1
// through any proxy. They are a memory aid: a text may be gone at any time, and whoever reads one checks that it is what it
// asked for.

// sharedPrefix begins the keys of shared texts.
const sharedPrefix = ReservedPrefix + "shared:"

// SharedMax bounds a shared text, in bytes.
const SharedMax = 16 << 10

// Share keeps a text under a name for ttl, on all masters that are up. Nobody waits for it; an empty name, a longer text than
// SharedMax and a ttl below 1 ms are passed over.
func (c *Client) Share(name, text string, ttl time.Duration) {
	if name == "" || len(name) > MaxResourceLen || len(text) > SharedMax || ttl < time.Millisecond {
		return
	}
	t := turn{now: time.Now()}
	defer c.finish(&t)
	r := &round{verb: verbShare, token: text, ttlMs: ttl.Milliseconds(), start: t.now}
	r.setKeys(sharedPrefix + name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.launchLocked(r, allMasters(len(c.lanes)), &t)
}

// StartShared asks all masters for the text under a name: Result.Shared is what the masters hold, each once, which is nothing if none
// has it.
func (c *Client) StartShared(op *Op, name string, to Completer) {
	t := turn{now: time.Now()}
	defer c.finish(&t)
	op.to = to
	n := len(c.lanes)
	r := &round{verb: verbRead, shared: true, start: t.now, op: op, answers: make([]answer, n)}
	r.setKeys(sharedPrefix + name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.launchLocked(r, allMasters(n), &t)
}

func (c *Client) sharedDecided(r *round, t *turn) {
	var result Result
	for i := range r.answers {
		a := &r.answers[i]
		fresh := a.err == nil && a.found
		for _, text := range result.Shared {
			fresh = fresh && text != a.value
		}
		if fresh {
			result.Shared = append(result.Shared, a.value)
		}
	}
	t.tell(r.op, result)
}

// Known appends to states what this client knows of resources by itself: the leases that it granted and that still run. It asks
// nobody, so it may be wrong both ways.
func (c *Client) Known(states []State, resources []string) []State {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range resources {
		state := State{Type: "none"}
		if e := c.leases.entries[resource]; e != nil && e.lease != nil && now.Before(e.lease.validUntil) {
			state = State{Found: true, Type: "string", Value: e.lease.token, TTL: e.lease.validUntil.Sub(now), Hint: e.lease.token}
		}
		states = append(states, state)
	}
	return states
}
