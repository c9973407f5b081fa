package redlock

import (
	"cmp"
	"slices"
	"time"
)

// Texts that all proxies share, kept on the masters: the scripts that clients have loaded, so that a client can name one by its SHA1
// through any proxy. They are a memory aid: a text may be gone at any time, and whoever reads one checks that it is what it
// asked for.

// sharedPrefix begins the keys of shared texts.
const sharedPrefix = ReservedPrefix + "shared:"

// SharedMax bounds a shared text, in bytes.
const SharedMax = 16 << 10

// Share keeps a text under a name for ttl, on all masters that are up, and takes of the given share, or of the Client's own where that is
// nil. Nobody waits for it; an empty name, a longer text than SharedMax, a ttl below 1 ms, and what the share has no room for are passed over.
func (c *Client) Share(of *Share, name, text string, ttl time.Duration) {
	if name == "" || len(name) > MaxResourceLen || len(text) > SharedMax || ttl < time.Millisecond {
		return
	}
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	r := &round{verb: verbStoreScript, token: text, ttlMs: ttl.Milliseconds()}
	r.setKeys(sharedPrefix + name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.waitsForRoom() {
		c.beginReadingLocked(r, &d)
		return
	}
	// It is a memory aid: where there is no room for it, clients send their script again.
	_ = c.enqueueLocked(nil, cmp.Or(of, &c.share), len(text), 1, func(d *deferred) { c.beginReadingLocked(r, d) })
}

// StartShared asks all masters for the text under a name: Result.Shared is what the masters hold, each once, which is nothing if none
// has it.
func (c *Client) StartShared(op *Op, name string, to Completer) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	op.to = to
	r := &round{verb: verbFetchScript, op: op, answers: make([]answer, len(c.lanes))}
	r.setKeys(sharedPrefix + name)
	c.startReading(r, &d)
}

func (c *Client) scriptFetched(r *round, _ outcome, _ votes, d *deferred) {
	var result Result
	for i := range r.answers {
		if a := &r.answers[i]; a.err == nil && a.found && !slices.Contains(result.Shared, a.value) {
			result.Shared = append(result.Shared, a.value)
		}
	}
	d.deliver(r.op, result)
}
