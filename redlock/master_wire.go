package redlock

import (
	"fmt"
	"net"
	"time"

	"redlockd/redlock/resp"
)

// wire writes and reads the batches of a lane, on the connection that go-redis has made, authenticated and
// vetted. It is ours because go-redis builds and fills an object per command, which would be the larger part of
// what a lock costs here; a batch needs a handful of commands, and replies of known shapes. Everything that is
// not a batch goes through go-redis.
//
// go-redis uses the connection only while no batch is on its way, and a wire leaves no byte unread behind the
// last one: so the two never mix. One goroutine writes and one reads, which may be the same.
type wire struct {
	socket net.Conn
	// out holds commands that are not sent yet. It belongs to the goroutine that writes.
	out []byte
	// in holds what has arrived and is not read yet. It belongs to the goroutine that reads.
	in resp.ReplyReader
}

// wireKeep is how large out stays between batches: enough for those of a thousand busy callers.
const wireKeep = 256 << 10

// array begins a command of n words.
func (w *wire) array(n int) { w.out = resp.AppendArray(w.out, n) }

// bulk adds a word.
func (w *wire) bulk(word string) { w.out = resp.AppendBulkString(w.out, word) }

// number adds a number as a word.
func (w *wire) number(n int64) { w.out = resp.AppendBulkInt(w.out, n) }

// send writes all commands. Until the replies are read too, nothing may take longer than the deadline.
func (w *wire) send(deadline time.Time) error {
	if err := w.socket.SetDeadline(deadline); err != nil {
		return err
	}
	_, err := w.socket.Write(w.out)
	w.out = w.out[:0]
	if cap(w.out) > wireKeep {
		w.out = nil
	}
	return err
}

// reply is one reply, or the head of an array, whose N elements follow. Its Text is valid until the next one is
// read.
type reply = resp.Reply

// readReply waits for one reply.
func (w *wire) readReply() (reply, error) {
	r, err := w.in.ReadReply(w.socket)
	return r, refuseNonsense(err)
}

// head reads the head of an array of n.
func (w *wire) head(n int64) error {
	head, err := w.readReply()
	switch {
	case err != nil:
		return err
	case head.Kind == '-':
		return errorIn(head)
	case head.Kind != '*' || head.N != n:
		return nonsense(head)
	}
	return nil
}

// masterError is what a master replied in the place of a result.
type masterError string

func (e masterError) Error() string { return string(e) }

// RedisError tells replied that it is the master's own word.
func (masterError) RedisError() {}

// errorIn is the error that the master replied, or nil.
func errorIn(r reply) error {
	if r.Kind == '-' {
		return masterError(shown(string(r.Text)))
	}
	return nil
}

// checkedConn is a connection to a master that go-redis reads, which allocates what a length announces. It
// fails at the first reply that no Redis would send, and go-redis gets nothing of what came with it.
//
// So a connection to a master, of which there are two, takes at most: what go-redis makes of resp.RepliesMax
// bytes and resp.ElementsMax elements, one megabyte of each; 256 KB in a wire; and on the lane's connection
// readingsMax for one batch.
type checkedConn struct {
	net.Conn
	check  resp.ReplyCheck
	failed error
}

func (c *checkedConn) Read(p []byte) (int, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	n, err := c.Conn.Read(p)
	if c.failed = refuseNonsense(c.check.Check(p[:n])); c.failed != nil {
		return 0, c.failed
	}
	return n, err
}

// Write sends a request, which has an answer of its own.
func (c *checkedConn) Write(p []byte) (int, error) {
	c.check.Request()
	return c.Conn.Write(p)
}

// refuseNonsense makes an error that refuses the master of what no Redis would have sent. Other errors stay as
// they are.
func refuseNonsense(err error) error {
	if nonsense, ok := err.(resp.ReplyError); ok { //mutant:a-master-that-sends-nonsense-is-not-refused
		return senseless("%s", nonsense)
	}
	return err
}

// senseless is why a connection is given up on which a master sends what no Redis would.
func senseless(format string, args ...any) error {
	return &refusedError{"it sends " + fmt.Sprintf(format, args...) + ", which no Redis would here: see what answers at this address"}
}

// nonsense is the error that ends the connection.
func nonsense(reply reply) error {
	return senseless("%c%d %q", reply.Kind, reply.N, shown(string(reply.Text)))
}
