package memmaster

import (
	"time"

	"redlockd/redlock/resp"
)

// frameLimits bound what a client may send. redlockd folds up to a thousand locks of up to 1 KB into
// one command.
var frameLimits = resp.Limits{Args: 16384, Bulk: 1 << 20, Command: 4 << 20}

// client is what the master knows of one connection. Except for in and frames, which belong to the
// goroutine of serve, it is touched with Master.mu held only.
type client struct {
	m    *Master
	id   int64
	pipe *pipe // nil for the client that runs a script's commands

	// authenticated is true from the start where no password is asked for.
	authenticated bool
	// db is the database that it has selected, 0 or 1.
	db int
	// gone: the connection is closed, and what it has sent is not executed any more.
	gone bool
	// hangUp closes the connection after the replies of this batch.
	hangUp bool
	// channels are those that the client has subscribed to; see Master.channels.
	channels map[string]struct{}
	tracking tracking
	// caching counts the commands that CLIENT CACHING YES is still good for.
	caching int

	// in holds what has arrived and is not executed.
	in     resp.Buffer
	frames resp.FrameScanner
	// args is the running command. It aliases in.
	args [][]byte
	// out holds the replies of this batch, which are sent in one piece.
	out []byte
	// after holds messages to this client itself, which follow the running command's reply, as in Redis.
	after []byte
}

func newClient(m *Master, id int64, p *pipe) *client {
	return &client{m: m, id: id, pipe: p, authenticated: m.options.Password == ""}
}

// serve is the connection's goroutine: it executes what arrives until the connection ends.
func (c *client) serve() {
	// A frozen master's kernel goes on receiving: execute is what waits then, with what this read has
	// brought.
	for open := true; open; {
		n, err := c.pipe.streams[requests].read(c.in.Room())
		c.in.Added(n)
		open = err == nil
		for more := open; more; {
			more, open = c.m.execute(c)
			c.pipe.streams[replies].awaitRoom()
		}
	}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.drop(c)
}

// nextCommand returns the next command that has arrived as a whole, or nil. It is valid until the next
// read.
func (c *client) nextCommand() ([][]byte, error) {
	for {
		args, size, err := c.frames.Scan(c.in.Unread(), &frameLimits, c.args)
		if c.args = args; size == 0 || err != nil {
			return nil, err
		}
		// Without arguments it is an empty line or *0, which Redis ignores too.
		if c.in.Take(size); len(args) > 0 {
			return args, nil
		}
	}
}

// execute runs every whole command that has been read from a connection, with no other's in between,
// and sends the replies in one piece. If these pile up it stops early and reports more; without open
// the connection is to be closed.
func (m *Master) execute(c *client) (more, open bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.awaitThaw()
	defer m.wakeNextThawed()
	m.awaitIdle()
	m.running = c
	more = true
	var cost time.Duration
	for more && !c.gone && !c.hangUp && len(c.out) < streamBytesMax {
		args, err := c.nextCommand()
		switch {
		case err != nil:
			c.fail("ERR " + err.Error())
			c.hangUp = true
		case args == nil:
			more = false
		default:
			if m.cost != nil {
				cost += m.cost(args)
			}
			if m.observer != nil {
				m.observe(c, args)
			} else {
				m.process(c, args)
			}
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

// push sends a message that is no reply. To the client whose command is running it goes after that
// command's reply. A client that lets messages pile up is cut off, as by Redis's
// client-output-buffer-limit.
func (m *Master) push(to *client, message []byte) {
	if to == m.running {
		to.after = append(to.after, message...)
		return
	}
	if to.pipe.streams[replies].send(message) > streamBytesMax {
		m.drop(to)
	}
}
