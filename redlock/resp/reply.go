package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Replies of a master, in RESP2. Nothing in them is trusted: a master may be another program, or somebody else on its wire.
//
// They are read in two places with the same rules. A ReplyReader reads those of a lane's batches. Everything else is read by go-redis,
// which allocates what a length announces: a ReplyCheck goes over the bytes before go-redis sees them.
const (
	// LineMax bounds a status, an error or a number, in bytes. The error of a Redis in protected mode has a thousand.
	LineMax = 8 << 10
	// ElementsMax bounds the elements of an array, and with those of arrays in it what answers one request of go-redis.
	ElementsMax = 16 << 10
	// DepthMax bounds arrays within arrays. HELLO has four: its modules have arguments.
	DepthMax = 8
	// TextMax bounds the bytes of one string that a ReplyReader returns. It passes over a longer one, which only a stranger can
	// have stored.
	TextMax = 64 << 10
	// StrangersMax bounds the strings that a ReplyReader passes over: the most that a Redis takes in one command
	// (proto-max-bulk-len).
	StrangersMax = 512 << 20
	// RepliesMax bounds the bytes that answer one request or pipeline of go-redis. Those that answer us have some KB; SCAN after
	// a clock was set back has up to 256 keys.
	RepliesMax = 1 << 20
)

// ReplyError says what no Redis would have sent: the connection is to be given up.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

func replyErrorf(format string, args ...any) error { return ReplyError(fmt.Sprintf(format, args...)) }

// Reply is one reply, or the head of an array, whose N elements follow. Its Text is valid until the next reply is read.
type Reply struct {
	Kind byte   // '+', '-', ':', '$', '*'
	N    int64  // the value of ':', the length of '$' and '*'
	Null bool   // of '$' and '*'
	Text []byte // of '+', '-', '$'
}

// Is tells whether a bulk string was replied, and this one.
func (r Reply) Is(text string) bool { return r.Kind == '$' && !r.Null && string(r.Text) == text }

// Int returns the number in a ':' or in a bulk string.
func (r Reply) Int() (int64, bool) {
	if r.Kind == ':' {
		return r.N, true
	}
	n, ok := ParseInt(r.Text)
	return n, ok && r.Kind == '$' && !r.Null
}

// CutReply takes the reply at the beginning of b apart; of an array only its head. size is what the reply takes of b, 0 if it is not
// complete; then a bulk string has its Kind and N already if its length has arrived.
func CutReply(b []byte) (r Reply, size int, err error) {
	if len(b) == 0 {
		return Reply{}, 0, nil
	}
	end := bytes.IndexByte(b[:min(len(b), LineMax+3)], '\n')
	if end < 0 {
		return Reply{}, 0, checkHalfLine(b)
	}
	if r, err = parseLine(b[:end+1]); err != nil || r.Kind != '$' || r.Null {
		return r, end + 1, err
	}
	rest := b[end+1:]
	if int64(len(rest)) < r.N+2 {
		return r, 0, nil
	}
	if rest[r.N] != '\r' || rest[r.N+1] != '\n' {
		return r, 0, ReplyError("a string that is longer than it says")
	}
	r.Text = rest[:r.N]
	return r, end + 1 + int(r.N) + 2, nil
}

// parseLine reads the first line of a reply, with its line end.
func parseLine(line []byte) (r Reply, err error) {
	if !isKind(line[0]) {
		return Reply{}, replyErrorf("a reply that begins with %q", line[0])
	}
	text := line[1 : len(line)-1]
	if len(text) == 0 || bytes.IndexByte(text, '\r') != len(text)-1 || len(text) > LineMax+1 {
		return Reply{}, ReplyError("a line without an end")
	}
	r = Reply{Kind: line[0], Text: text[:len(text)-1]}
	if r.Kind == '+' || r.Kind == '-' {
		return r, nil
	}
	n, ok := ParseInt(r.Text)
	switch {
	case r.Kind == ':':
		if !ok {
			return Reply{}, ReplyError("an integer that is no number")
		}
	case !ok || n < -1:
		return Reply{}, ReplyError("a length that is no number")
	case r.Kind == '*' && n > ElementsMax:
		return Reply{}, replyErrorf("an array of more than %d elements", ElementsMax)
	case n > StrangersMax:
		return Reply{}, replyErrorf("a string of more than %d bytes", StrangersMax)
	}
	r.N, r.Null, r.Text = n, r.Kind != ':' && n < 0, nil
	return r, nil
}

// checkHalfLine tells whether a line whose end has not arrived can still become a reply.
func checkHalfLine(b []byte) error {
	switch {
	case !isKind(b[0]):
		return replyErrorf("a reply that begins with %q", b[0])
	case len(b) > LineMax+2:
		return ReplyError("a line without an end")
	}
	return nil
}

func isKind(b byte) bool { return b == '+' || b == '-' || b == ':' || b == '$' || b == '*' }

// ReplyReader reads the replies of one connection. One goroutine uses it. It holds at most one read more than the longest reply.
type ReplyReader struct {
	Conn io.Reader
	in   Buffer
}

// ReadReply waits for a reply. A string of more than TextMax bytes is passed over; an error of the kind '-' stands for it.
func (r *ReplyReader) ReadReply() (Reply, error) {
	for {
		reply, size, err := CutReply(r.in.Unread())
		switch {
		case err != nil:
			return Reply{}, err
		case reply.Kind == '$' && reply.N > TextMax:
			return Reply{Kind: '-', Text: fmt.Appendf(nil, "ERR a value of %d bytes", reply.N)}, r.skipString(int(reply.N))
		case size > 0:
			r.in.Take(size)
			return reply, nil
		}
		if err := r.receive(); err != nil {
			return Reply{}, err
		}
	}
}

// skipString passes over a string of n bytes, which may be more than the buffer holds. Its length has arrived.
func (r *ReplyReader) skipString(n int) error {
	n += bytes.IndexByte(r.in.Unread(), '\n') + 1 + 2
	for {
		taken := min(n, len(r.in.Unread()))
		r.in.Take(taken)
		if n -= taken; n == 0 {
			return nil
		}
		if err := r.receive(); err != nil {
			return err
		}
	}
}

func (r *ReplyReader) receive() error {
	n, err := r.Conn.Read(r.in.Room())
	r.in.Added(n)
	switch {
	case n > 0:
		return nil // an error comes again with the next read
	case err == nil:
		return errors.New("the master sends nothing")
	}
	return err
}

// Drained tells whether all that has arrived was read.
func (r *ReplyReader) Drained() bool { return len(r.in.Unread()) == 0 }
