package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"redlockd/redlock/sandbox"
)

// Bounds of the scripts that a server remembers. A forgotten script is found on the masters. If it is
// not there either, its client gets NOSCRIPT, and sends it again.
const (
	scriptsMax = 1024
	// scriptBytesMax bounds their sources and what they are compiled to.
	scriptBytesMax = 32 << 20

	// storedTTL is how long a script stays on the masters after its last use.
	storedTTL = time.Hour
	// storedEvery is how often a script that is in use is stored again, so that its TTL does not end.
	storedEvery = storedTTL / 4
	// storedMax and storedBytesMax are how many scripts of one user are put there per storedEvery, and
	// how many bytes. They bound what one user can take of the masters' memory, 5 MB per redlockd, and no
	// user's scripts are left out because of another user.
	storedMax      = 256
	storedBytesMax = 1 << 20
)

// knownScript is a script that some client has sent.
type knownScript struct {
	*sandbox.Script
	source string
	// readOnly is the script as EVAL_RO runs it.
	readOnly *sandbox.Script
	// lastAssumption is the assumption that was right last, or assumesNothing.
	lastAssumption atomic.Int32
	// storedAt is when the script was put on the masters last, on the clock of Server.now; 0: never.
	storedAt atomic.Int64
	// usedAt is when a client used the script last, on the same clock.
	usedAt atomic.Int64
}

// bytes is what it takes to remember the script.
func (s *knownScript) bytes() int { return len(s.source) + s.Script.Bytes }

// scriptCache remembers scripts by their SHA1. Its methods may be called from any goroutine.
type scriptCache struct {
	mu sync.RWMutex
	// scripts has no key in upper case.
	scripts map[string]*knownScript
	// bytes is the sum over scripts, and at most scriptBytesMax if there is more than one.
	bytes int
}

// storedScripts counts the scripts of one user that were put on the masters. scriptCache.mu guards it.
type storedScripts struct {
	// since is when the present period of storedEvery began, on the clock of Server.now.
	since int64
	// count and bytes are how many scripts were to be stored in it, and their length.
	count, bytes int
}

// lookupSHA is nil when there is no such script. sha is in lower case.
func (c *scriptCache) lookupSHA(sha []byte) *knownScript {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.scripts[string(sha)]
}

// addSource compiles a source, or finds it compiled. The text of its error is the error reply.
func (c *scriptCache) addSource(source string, now int64) (*knownScript, error) {
	if s := c.lookupSHA([]byte(sandbox.SHA(source))); s != nil {
		return s, nil
	}
	compiled, err := sandbox.Compile(source)
	if err != nil {
		return nil, err
	}
	readOnly := *compiled
	readOnly.NoWrites = true
	s := &knownScript{Script: compiled, source: source, readOnly: &readOnly}
	s.usedAt.Store(now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.scripts[s.SHA]; other != nil { // another client has been faster
		return other, nil
	}
	if c.scripts == nil {
		c.scripts = make(map[string]*knownScript)
	}
	for len(c.scripts) >= scriptsMax || len(c.scripts) > 0 && c.bytes+s.bytes() > scriptBytesMax {
		c.forgetOldestLocked()
	}
	c.scripts[s.SHA] = s
	c.bytes += s.bytes()
	return s, nil
}

// forgetOldestLocked forgets the script whose last use is longest ago. It looks at all scripts, and is
// called only at the bound.
func (c *scriptCache) forgetOldestLocked() {
	var oldest *knownScript
	for _, s := range c.scripts {
		if oldest == nil || s.usedAt.Load() < oldest.usedAt.Load() {
			oldest = s
		}
	}
	delete(c.scripts, oldest.SHA)
	c.bytes -= oldest.bytes()
}

// count is how many scripts are remembered.
func (c *scriptCache) count() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.scripts)
}

// forgetAll forgets what is remembered here. The masters keep what is stored there.
func (c *scriptCache) forgetAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scripts, c.bytes = nil, 0
}

// storeDue reports whether the script is to be put on the masters now, for a user who has stored these,
// and counts it.
func (c *scriptCache) storeDue(s *knownScript, stored *storedScripts, now int64) bool {
	s.usedAt.Store(now)
	last := s.storedAt.Load()
	if last != 0 && now-last < int64(storedEvery) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now-stored.since >= int64(storedEvery) {
		*stored = storedScripts{since: now}
	}
	// Without room it is not due: the next user of the script stores it.
	if stored.count == storedMax || stored.bytes+len(s.source) > storedBytesMax || !s.storedAt.CompareAndSwap(last, now) {
		return false
	}
	stored.count++
	stored.bytes += len(s.source)
	return true
}
