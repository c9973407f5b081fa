package conn

import (
	"fmt"
	"net"
	"slices"

	"redlockd/redlock/resp"
)

// Wire writes and reads the batches of a lane, on the connection that go-redis has made, authenticated
// and vetted. It is ours because go-redis builds and fills an object per command, which would be the
// larger part of what a lock costs here; a batch needs a handful of commands, and replies of known
// shapes. Everything that is not a batch goes through go-redis.
//
// go-redis uses the connection only while no batch is on its way, and a wire leaves no byte unread
// behind the last one: so the two never mix. One goroutine writes and one reads, which may be the same.
type Wire struct {
	Socket net.Conn
	// Out holds commands that are not sent yet. It belongs to the goroutine that writes.
	Out []byte
	// In holds what has arrived and is not read yet. It belongs to the goroutine that reads.
	In resp.ReplyReader
}

// wireKeep is how large out stays between batches: enough for those of a thousand busy callers.
const wireKeep = 256 << 10

// Array begins a command of n words.
func (w *Wire) Array(n int) { w.Out = resp.AppendArray(w.Out, n) }

// Bulk adds a word.
func (w *Wire) Bulk(word string) { w.Out = resp.AppendBulkString(w.Out, word) }

// Number adds a number as a word.
func (w *Wire) Number(n int64) { w.Out = resp.AppendBulkInt(w.Out, n) }

// Send writes all commands. The deadline of Socket is the caller's to set, before anybody reads: where
// nothing was sent for long, that of before has passed.
func (w *Wire) Send() error {
	_, err := w.Socket.Write(w.Out)
	w.Out = w.Out[:0]
	if cap(w.Out) > wireKeep {
		w.Out = nil
	}
	return err
}

// Reply is one reply, or the head of an array, whose N elements follow. Its Text is valid until the
// next one is read.
type Reply = resp.Reply

// ReadReply waits for one reply.
func (w *Wire) ReadReply() (Reply, error) {
	r, err := w.In.ReadReply(w.Socket)
	return r, asRefusal(err)
}

// Head reads the head of an array of n.
func (w *Wire) Head(n int64) error {
	head, err := w.ReadReply()
	switch {
	case err != nil:
		return err
	case head.Kind == '-':
		return ErrorIn(head)
	case head.Kind != '*' || head.N != n:
		return ProtocolError(head)
	}
	return nil
}

// Error is what a master replied in the place of a result.
type Error string

func (e Error) Error() string { return string(e) }

// RedisError tells replied that it is the master's own word.
func (Error) RedisError() {}

// ErrorIn is the error that the master replied, or nil.
func ErrorIn(r Reply) error {
	if r.Kind == '-' {
		return Error(Sanitize(string(r.Text)))
	}
	return nil
}

// checkedConn is a connection to a master that go-redis reads, which allocates what a length announces.
// It fails at the first reply that no Redis would send, and go-redis gets nothing of what came with it.
//
// So a connection to a master, of which there are two, takes at most: what go-redis makes of
// resp.RepliesMax bytes and resp.ElementsMax elements, one megabyte of each; 256 KB in a wire; and on
// the lane's connection readingsMax for one batch.
type checkedConn struct {
	net.Conn
	check  resp.ReplyCheck
	failed error
	first  []byte // the beginning of what has arrived first; nil: nothing has
}

func (c *checkedConn) Read(p []byte) (int, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	n, err := c.Conn.Read(p)
	if c.first == nil && n > 0 {
		c.first = slices.Clone(p[:min(n, textMax)])
	}
	if c.failed = asRefusal(c.check.Check(p[:n])); c.failed != nil {
		return 0, c.failed
	}
	return n, err
}

// Write sends a request, which has an answer of its own. A master that has closed the connection may
// have said why before: that can still be read.
func (c *checkedConn) Write(p []byte) (int, error) {
	c.check.Request()
	n, err := c.Conn.Write(p)
	if err != nil && c.first == nil && !IsTimeout(err) {
		if _, said := c.Read(make([]byte, textMax)); said != nil && isAlert(said) {
			err = said
		}
	}
	return n, err
}

// asRefusal makes an error that refuses the master of what no Redis would have sent. Other errors stay
// as they are.
func asRefusal(err error) error {
	if nonsense, ok := err.(resp.ReplyError); ok { //mutant:a-master-that-sends-nonsense-is-not-refused
		return ProtocolErrorf("%s", nonsense)
	}
	return err
}

// ProtocolErrorf is why a connection is given up on which a master sends what no Redis would.
func ProtocolErrorf(format string, args ...any) error {
	return &RefusedError{"it sends " + fmt.Sprintf(format, args...) + ", which no Redis would here: see what answers at this address"}
}

// ProtocolError is the error that ends the connection.
func ProtocolError(reply Reply) error {
	return ProtocolErrorf("%c%d %q", reply.Kind, reply.N, Sanitize(string(reply.Text)))
}
