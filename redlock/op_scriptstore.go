package redlock

import (
	"cmp"
	"slices"
	"time"
)

// The script store: the Lua scripts that clients have loaded, kept on the masters, so that a client
// can name a script by its SHA1 through any proxy. It is a cache. A script may be gone at any time,
// and the proxy that fetches one checks its SHA1.

// scriptPrefix begins the keys of stored scripts. All proxies of the same masters must agree on it.
const scriptPrefix = ReservedPrefix + "shared:"

// ScriptMax bounds the bytes of a stored script.
const ScriptMax = 16 << 10

// StoreScript stores a script under a name for ttl, on all masters that are up. It is counted in
// the given share, or in the Client's own where that is nil. Nobody waits for it. It does nothing
// for an empty name, a script above ScriptMax, or a ttl below 1 ms, and where the share has no
// room.
func (c *Client) StoreScript(of *Share, name, script string, ttl time.Duration) {
	if name == "" || len(name) > MaxResourceLen || len(script) > ScriptMax || ttl < time.Millisecond {
		return
	}
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	r := &round{verb: verbStoreScript, token: script, ttlMs: ttl.Milliseconds()}
	r.setKeys(scriptPrefix + name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.waitsForRoom() {
		c.beginReadingLocked(r, &d)
		return
	}
	// Where there is no room for it, clients send their script again.
	_ = c.enqueueLocked(nil, cmp.Or(of, &c.share), len(script), 1, func(d *deferred) { c.beginReadingLocked(r, d) })
}

// StartFetchScript asks all masters for the script under a name. Result.Scripts has each different
// text that a master holds, and is empty if none has one.
func (c *Client) StartFetchScript(op *Op, name string, to Completer) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	op.to = to
	r := &round{verb: verbFetchScript, op: op, answers: make([]answer, len(c.lanes))}
	r.setKeys(scriptPrefix + name)
	c.startReading(r, &d)
}

// scriptFetched reports every text that some master holds under the name. The caller picks the one
// whose SHA1 is right.
func (c *Client) scriptFetched(r *round, _ outcome, _ votes, d *deferred) {
	var result Result
	for i := range r.answers {
		if a := &r.answers[i]; a.err == nil && a.found && !slices.Contains(result.Scripts, a.value) {
			result.Scripts = append(result.Scripts, a.value)
		}
	}
	d.deliver(r.op, result)
}
