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
	t := turn{now: time.Now()}
	defer c.finish(&t)
	r := &round{verb: verbShare, token: text, ttlMs: ttl.Milliseconds()}
	r.setKeys(sharedPrefix + name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.waitsForRoom() {
		c.beginReadingLocked(r, &t)
		return
	}
	// It is a memory aid: where there is no room for it, clients send their script again.
	_ = c.enqueueLocked(nil, cmp.Or(of, &c.share), r.costs(), len(text), 1, func(t *turn) { c.beginReadingLocked(r, t) })
}

// StartShared asks all masters for the text under a name: Result.Shared is what the masters hold, each once, which is nothing if none
// has it.
func (c *Client) StartShared(op *Op, name string, to Completer) {
	t := turn{now: time.Now()}
	defer c.finish(&t)
	op.to = to
	r := &round{verb: verbRead, shared: true, op: op, answers: make([]answer, len(c.lanes))}
	r.setKeys(sharedPrefix + name)
	c.startReading(r, &t)
}

func (c *Client) sharedDecided(r *round, t *turn) {
	var result Result
	for i := range r.answers {
		if a := &r.answers[i]; a.err == nil && a.found && !slices.Contains(result.Shared, a.value) {
			result.Shared = append(result.Shared, a.value)
		}
	}
	t.tell(r.op, result)
}
