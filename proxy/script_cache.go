package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"redlockd/redlock/sandbox"
)

// Bounds of the scripts that a server remembers. A client whose script was forgotten gets NOSCRIPT and sends it again, or it is found
// on the masters.
const (
	scriptsMax     = 1024
	scriptBytesMax = 32 << 20 // of their sources, and of what they are compiled to
	// sharedTTL is how long a script stays on the masters after its last use, sharedEvery how often its use is noted there, and
	// sharedMax how many are put there in that time: what strangers can take of the masters' memory.
	sharedTTL   = time.Hour
	sharedEvery = sharedTTL / 4
	sharedMax   = 256
)

// knownScript is a script that some client has sent.
type knownScript struct {
	*sandbox.Script
	source string
	// readOnly is the script as EVAL_RO runs it.
	readOnly *sandbox.Script
	// lastAssumption is the assumption that was right last, or assumesNothing.
	lastAssumption atomic.Int32
	shared         atomic.Int64 // when it was put on the masters last, on Server.now's clock; 0: never
	used           atomic.Int64 // likewise
}

// bytes is what it takes to remember the script.
func (s *knownScript) bytes() int { return len(s.source) + s.Script.Bytes }

// scriptCache are the scripts by SHA1.
type scriptCache struct {
	mu      sync.RWMutex
	scripts map[string]*knownScript
	bytes   int

	sharedSince int64 // the present period of sharedEvery
	sharedCount int
}

// find is nil when there is no such script. sha is in lower case.
func (c *scriptCache) find(sha []byte) *knownScript {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.scripts[string(sha)]
}

// add compiles a source, or finds it compiled. The text of its error is the error reply.
func (c *scriptCache) add(source string, now int64) (*knownScript, error) {
	if s := c.find([]byte(sandbox.SHA(source))); s != nil {
		return s, nil
	}
	compiled, err := sandbox.Compile(source)
	if err != nil {
		return nil, err
	}
	readOnly := *compiled
	readOnly.NoWrites = true
	s := &knownScript{Script: compiled, source: source, readOnly: &readOnly}
	s.used.Store(now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.scripts[s.SHA]; other != nil {
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

// forgetOldestLocked forgets the script whose last use is longest ago. That takes a look at all, and happens only at the bound.
func (c *scriptCache) forgetOldestLocked() {
	var oldest *knownScript
	for _, s := range c.scripts {
		if oldest == nil || s.used.Load() < oldest.used.Load() {
			oldest = s
		}
	}
	delete(c.scripts, oldest.SHA)
	c.bytes -= oldest.bytes()
}

func (c *scriptCache) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scripts, c.bytes = nil, 0
}

// due tells whether the script is to be put on the masters now, and counts it.
func (c *scriptCache) due(s *knownScript, now int64) bool {
	s.used.Store(now)
	last := s.shared.Load()
	if last != 0 && now-last < int64(sharedEvery) || !s.shared.CompareAndSwap(last, now) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now-c.sharedSince >= int64(sharedEvery) {
		c.sharedSince, c.sharedCount = now, 0
	}
	c.sharedCount++
	return c.sharedCount <= sharedMax
}
