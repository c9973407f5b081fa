package proxy

import "redlockd/redlock/resp"

// call is one command of one client on its way through its handler. A handler runs on the session's reader goroutine, in
// the order in which the client sent its commands. It either appends its reply to out, or takes the reply's place with
// later (or takeSlot) and completes it afterwards from any goroutine. It must not block.
type call struct {
	// args are the command's name and arguments. They alias the session's read buffer and are valid until the handler
	// returns: copy what is kept.
	args [][]byte
	// out is where the handler appends its reply: exactly one, in the client's protocol version.
	out []byte
	// proto is the protocol version of this reply, 2 or 3.
	proto int

	s    *session
	cmd  *command // its row, or its subcommand's; nil when there is none
	slot *slot    // set when the reply comes later
}

// later takes the reply's place among the replies of this client, for a handler that cannot answer at once.
func (c *call) newSlot() *slot {
	sl := new(slot)
	c.takeSlot(sl)
	return sl
}

// takeSlot is later for a slot that is embedded in an object of the caller's.
func (c *call) takeSlot(sl *slot) {
	c.slot = sl
	c.s.enqueue(sl, c.proto, false)
}

// takeBlockingSlot is takeSlot for a command that may wait, as BLPOP does: no command behind it is executed before it
// is complete. Once the operation it waits for is started, session.waits must be told, so that the wait can be ended.
func (c *call) takeBlockingSlot(sl *slot) {
	c.slot = sl
	c.s.enqueue(sl, c.proto, true)
}

// fail answers with an error.
func (c *call) fail(err error) { c.out = appendError(c.out, err) }

// failf answers with an error whose text begins with its code.
func (c *call) failf(format string, args ...any) { c.fail(errorf(format, args...)) }

func (c *call) ok() { c.out = resp.AppendOK(c.out) }
