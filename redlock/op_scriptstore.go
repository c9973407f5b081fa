package redlock

import (
	"cmp"
	"math"
	"slices"
	"time"

	"redlockd/redlock/quorum"
)

// The script store: the Lua scripts that clients have loaded, kept on the masters, so that a client
// can name a script by its SHA1 through any proxy. It is a cache. A script may be gone at any time,
// and the proxy that fetches one checks its SHA1.

// scriptPrefix begins the keys of stored scripts. All proxies of the same masters must agree on it.
const scriptPrefix = ReservedPrefix + "shared:"

// scriptsFlushedKey is on a master for as long as scripts may be there that were stored before the last
// FlushScripts. It was given the same TTL as they, so a script is older if it ends no later.
//
// Rejected: to find the stored scripts and delete them. That takes a SCAN over all locks, and misses
// masters that are away.
const scriptsFlushedKey = ReservedPrefix + "scripts-flushed"

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
	c.storeText(of, scriptPrefix+name, script, ttl)
}

// FlushScripts forgets all stored scripts, by whatever client: StartFetchScript finds none of them on
// any master if one of those that answer was up now. ttl must be the one that all scripts are stored
// for. Nobody waits for it; a fetch that this Client starts later comes behind it.
func (c *Client) FlushScripts(of *Share, ttl time.Duration) {
	c.storeText(of, scriptsFlushedKey, "1", ttl)
}

// storeText gives a key of the store a text, on all masters.
func (c *Client) storeText(of *Share, key, text string, ttl time.Duration) {
	begin := func(d *deferred) {
		r := &round{verb: verbStoreScript, token: text, ttlMs: ttl.Milliseconds(), start: d.now}
		r.setKeys(key)
		c.rounds.launch(r, quorum.All, d)
	}
	d := c.enter()
	defer c.leave(d)
	if c.admission.full.Load() {
		_ = c.admission.enqueue(nil, cmp.Or(of, &c.admission.share), len(text), begin) // where there is no room for it, clients send their script again
	} else {
		begin(d)
	}
}

// StartFetchScript asks all masters for the script under a name. Result.Scripts has each different
// text that a master holds, and is empty if none has one.
func (c *Client) StartFetchScript(op *Op, name string, to Completer) {
	op.keys, op.verb = []string{scriptPrefix + name, scriptsFlushedKey}, verbFetchScript
	c.start(op, to, nil, (*Client).beginReadingLocked)
}

// scriptFetched reports every text that some master holds under the name, and that was stored after the
// last flush that any master knows of. The caller picks the one whose SHA1 is right.
//
// What was stored in the millisecond of the flush counts as older: it is sent again.
func scriptFetched(_ *Client, r *round, _ quorum.Outcome, _ quorum.Votes, d *deferred) {
	var result Result
	flushed := time.Duration(math.MinInt64) // what is left of the flush
	for i := range r.answers {
		if a := r.answers[i].keys; a != nil && a[1].found {
			flushed = max(flushed, a[1].ttl)
		}
	}
	for i := range r.answers {
		if a := r.answers[i].keys; a != nil && a[0].kind == "string" && a[0].ttl > flushed && !slices.Contains(result.Scripts, a[0].value) {
			result.Scripts = append(result.Scripts, a[0].value)
		}
	}
	d.deliver(r.op, result)
}
