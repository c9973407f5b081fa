package memmaster

import "net"

// Executed is a command that a client has sent and that was executed, as an observer sees it. It is
// valid until the observer returns.
type Executed struct {
	// Conn is the client's end of the connection, as Dial returned it.
	Conn net.Conn
	// Args is the command.
	Args [][]byte
	// Reply is what the client will read.
	Reply []byte
	// UnixMilli is the time by the master's clock.
	UnixMilli int64
	// RunID names the process.
	RunID string

	data *store
}

// SetObserver has a function called after each command of a client, in the order in which the master
// executes them. It is called with the master's lock held, so it must not call the master's methods.
// Nil, as at first: nobody is told.
func (m *Master) SetObserver(observe func(*Executed)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observer = observe
}

// Get returns a string and when it ends by the master's clock, in milliseconds since 1970, 0 if it
// never does. ok is false if the key is absent, has expired, or holds no string.
func (e *Executed) Get(key string) (value string, endsAt int64, ok bool) {
	found := e.data.entries[key]
	if found == nil || found.kind != isString || e.data.expired(found) {
		return "", 0, false
	}
	return found.str, found.expireAt, true
}

// HGet returns a field of a hash, "" if there is none.
func (e *Executed) HGet(key, field string) string {
	if found := e.data.entries[key]; found != nil && !e.data.expired(found) {
		return found.hash[field]
	}
	return ""
}

// ZScore returns the score of a member of a sorted set, 0 if it is none.
func (e *Executed) ZScore(key, member string) float64 {
	if found := e.data.entries[key]; found != nil && found.kind == isZset && found.zset.members[member] != nil {
		return found.zset.members[member].score
	}
	return 0
}

// ZSet returns the members of a sorted set by their scores, and when it ends, as Get does; nil if it is
// none, or has expired.
func (e *Executed) ZSet(key string) (scores map[string]float64, endsAt int64) {
	if found := e.data.entries[key]; found != nil && found.kind == isZset && !e.data.expired(found) {
		scores, endsAt = map[string]float64{}, found.expireAt
		for name, m := range found.zset.members {
			scores[name] = m.score
		}
	}
	return scores, endsAt
}

// observe executes a client's command and tells the observer.
func (m *Master) observe(c *client, args [][]byte) {
	before := len(c.out)
	m.process(c, args)
	m.observer(&Executed{Conn: &c.pipe.client, Args: args, Reply: c.out[before:], UnixMilli: m.data.now, RunID: m.runID, data: &m.data})
}
