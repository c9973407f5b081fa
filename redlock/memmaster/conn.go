package memmaster

import "time"

// client is what the master knows of one connection. Except in serve it is touched with Master.mu held only.
type client struct {
	m    *Master
	id   int64
	pipe *pipe // nil for the client that runs a script's commands

	name     string
	db       int
	resp     int    // protocol version, 2 or 3
	user     string // "" before AUTH where a password is demanded
	gone     bool   // closed: what it sent is not executed any more
	hangUp   bool   // close it after the replies of this batch
	channels map[string]struct{}
	tx       transaction
	tracking tracking
	caching  int // commands that CLIENT CACHING YES is still good for

	args  [][]byte // for the next command
	out   []byte   // replies of this batch
	after []byte   // messages to this client itself, which follow the running command's reply
}

func newClient(m *Master, id int64, p *pipe) *client {
	c := &client{m: m, id: id, pipe: p}
	c.forgetState()
	return c
}

// forgetState makes the connection as new: what RESET does.
func (c *client) forgetState() {
	c.unsubscribeAll()
	c.unwatch()
	c.name, c.db, c.resp, c.user = "", 0, 2, ""
	if c.m.options.Password == "" {
		c.user = defaultUser
	}
	c.tx, c.tracking = transaction{}, tracking{}
}

// serve is the connection's goroutine: it executes what arrives until the connection ends.
func (c *client) serve() {
	var frames frameReader
	for open := true; open; {
		n, err := c.pipe.streams[requests].read(frames.space())
		frames.added(n)
		open = err == nil
		for more := open; more; {
			more, open = c.m.execute(c, &frames)
			c.pipe.streams[replies].awaitRoom()
		}
	}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.drop(c)
}

// execute runs every whole command that has been read from a connection, with no other's in between, and sends the
// replies in one piece. If these pile up it stops early and reports more; without open the connection is to be closed.
func (m *Master) execute(c *client, frames *frameReader) (more, open bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passGate()
	defer m.leaveGate()
	m.awaitIdle()
	m.running = c
	more = true
	var cost time.Duration
	for more && !c.gone && !c.hangUp && len(c.out) < streamBytesMax {
		args, err := frames.next(c.args[:0])
		switch {
		case err != nil:
			c.fail("ERR " + err.Error())
			c.hangUp = true
		case args == nil:
			more = false
		default:
			c.args = args
			if m.cost != nil {
				cost += m.cost(args)
			}
			m.process(c, args)
		}
	}
	m.running = nil
	m.spend(cost)
	c.flush()
	open = !c.gone && !c.hangUp
	return more && open, open
}

// flush sends the replies of a batch.
func (c *client) flush() {
	if len(c.out) == 0 {
		return
	}
	c.pipe.streams[replies].send(c.out)
	c.out = c.out[:0]
	if cap(c.out) > keptBytesMax {
		c.out = nil
	}
}

// push sends a message that is no reply. To the client whose command is running it goes after that command's reply. A
// client that lets messages pile up is cut off, as by Redis's client-output-buffer-limit.
func (m *Master) push(to *client, message []byte) {
	if to == m.running {
		to.after = append(to.after, message...)
		return
	}
	if to.pipe.streams[replies].send(message) > streamBytesMax {
		m.drop(to)
	}
}
