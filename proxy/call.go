package proxy

import (
	"errors"

	"redlockd/redlock/resp"
)

// call is one command of one client while its handler runs. A handler runs on the connection's reader
// goroutine, in the order in which the client has sent its commands. It must not block. It does one of
// three things:
//
//   - it appends its reply to out, with reply, ok or resp.AppendX;
//   - it takes a slot, which keeps the reply's place, and completes it later, from any goroutine;
//   - it returns an error, which is the reply.
type call struct {
	// args are the command's name and arguments. They alias the read buffer and are valid until the
	// handler returns: copy what is kept.
	args [][]byte
	// out is where the handler appends its reply: exactly one, in the client's protocol version.
	out []byte
	// proto is the protocol version of this reply, 2 or 3.
	proto int

	// s is the session of the client. A handler may read and change it as its fields say.
	s *session
	// cmd is the command's row, or its subcommand's; nil when there is none, and then no handler runs.
	cmd *command
	// slot is set when the reply comes later.
	slot *slot
}

// newSlot takes the reply's place among the replies of this client, for a handler that cannot answer at
// once.
func (c *call) newSlot() *slot {
	sl := new(slot)
	c.takeSlot(sl)
	return sl
}

// takeSlot is newSlot for a slot that is part of an object of the caller's, which saves an allocation.
func (c *call) takeSlot(sl *slot) {
	c.slot = sl
	c.s.enqueue(sl, c.proto, false, nil, nil)
}

// takeBlockingSlot is takeSlot for a command behind which none is executed before the slot is complete.
func (c *call) takeBlockingSlot(sl *slot) {
	c.slot = sl
	c.s.enqueue(sl, c.proto, true, nil, nil)
}

// takeTurn takes the slot of a command, and starts it now or when its turn comes. A client that has gone
// is answered so, and nothing is started: nobody would know what it did. Called by the reader goroutine.
func (c *call) takeTurn(sl *slot, t turn, to starter) { c.takeTurnBlocking(sl, t, false, to) }

// takeTurnBlocking is takeTurn for a command that may block those behind it, see takeBlockingSlot.
func (c *call) takeTurnBlocking(sl *slot, t turn, blocks bool, to starter) {
	conn := c.s.conn
	if t.acquires && conn.order.acquiring.Load() >= acquiresMax {
		c.takeSlot(sl)
		flush(sl.fail(errorf("BUSYWAIT %d commands of this connection wait to take locks, which is the most: use another connection", acquiresMax)))
		return
	}
	c.slot = sl
	switch now := c.s.enqueue(sl, c.proto, blocks, &t, to); {
	case !now:
	case conn.closed.Load(): // it may have closed since executeUnread looked
		flush(sl.fail(errGone))
	default:
		to.start(false)
	}
}

// fail answers with an error.
func (c *call) fail(err error) {
	if refusal, ok := errors.AsType[*refusedError](err); ok {
		c.s.countRefused(refusal, c.cmd)
	}
	c.s.auditRefusal(c.s.user(), c.cmd, c.args, err)
	c.out = appendError(c.out, err)
}

// ok answers +OK. It returns nil, as reply does, so that a handler can end with it.
func (c *call) ok() error {
	c.out = resp.AppendOK(c.out)
	return nil
}

// reply answers with a structure, in the protocol version of the call. A slot's owner uses appendValue
// with slot.proto.
func (c *call) reply(value any) error {
	c.out = appendValue(c.out, c.proto, value)
	return nil
}
