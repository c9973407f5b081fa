package memmaster

import "slices"

// transaction is a connection's MULTI, and the keys it watches.
type transaction struct {
	open    bool
	broken  bool // a command could not be queued: EXEC fails
	touched bool // a watched key has changed: EXEC does nothing
	queue   []queued
	watched []watched
}

type queued struct {
	cmd  *command
	args [][]byte
}

// watched is one key that WATCH named.
type watched struct {
	db  int
	key string
}

// queueMax bounds the commands of one transaction.
const queueMax = 1 << 16

func (c *client) enqueue(cmd *command, args [][]byte) {
	if len(c.tx.queue) == queueMax {
		c.tx.broken = true
		c.fail("ERR too many commands in this transaction")
		return
	}
	kept := make([][]byte, len(args))
	for i, arg := range args {
		kept[i] = slices.Clone(arg)
	}
	c.tx.queue = append(c.tx.queue, queued{cmd, kept})
	c.status("QUEUED")
}

func cmdMULTI(c *client, args [][]byte) {
	if c.tx.open {
		c.fail("ERR MULTI calls can not be nested")
		return
	}
	c.tx.open, c.tx.broken = true, false
	c.ok()
}

func cmdEXEC(c *client, args [][]byte) {
	if !c.tx.open {
		c.fail("ERR EXEC without MULTI")
		return
	}
	for _, w := range c.tx.watched { // one that has expired unnoticed is touched now
		c.m.data.lookup(w.db, []byte(w.key))
	}
	tx := c.tx
	c.endTransaction()
	switch {
	case tx.broken:
		c.fail("EXECABORT Transaction discarded because of previous errors.")
	case tx.touched:
		c.nullArray()
	default:
		c.array(len(tx.queue))
		for _, q := range tx.queue {
			c.m.call(c, c, q.cmd, q.args)
		}
	}
}

func cmdDISCARD(c *client, args [][]byte) {
	if !c.tx.open {
		c.fail("ERR DISCARD without MULTI")
		return
	}
	c.endTransaction()
	c.ok()
}

func (c *client) endTransaction() {
	c.unwatch()
	c.tx = transaction{}
}

func cmdWATCH(c *client, args [][]byte) {
	if c.tx.open {
		c.fail("ERR WATCH inside MULTI is not allowed")
		return
	}
	for _, key := range args[1:] {
		c.m.data.lookup(c.db, key) // if it has expired, that is no change after WATCH
		w := watched{c.db, string(key)}
		if !slices.Contains(c.tx.watched, w) {
			c.tx.watched = append(c.tx.watched, w)
			c.m.watching[w] = append(c.m.watching[w], c)
		}
	}
	c.ok()
}

func cmdUNWATCH(c *client, args [][]byte) {
	c.unwatch()
	c.ok()
}

func (c *client) unwatch() {
	for _, w := range c.tx.watched {
		rest := slices.DeleteFunc(c.m.watching[w], func(other *client) bool { return other == c })
		if len(rest) == 0 {
			delete(c.m.watching, w)
		} else {
			c.m.watching[w] = rest
		}
	}
	c.tx.watched, c.tx.touched = nil, false
}

// keyChanged is told of every change of a key by the store.
func (m *Master) keyChanged(db int, key string) {
	if len(m.watching) > 0 {
		for _, c := range m.watching[watched{db, key}] {
			c.tx.touched = true
		}
	}
	if len(m.tracked) > 0 {
		m.invalidate(key)
	}
}
