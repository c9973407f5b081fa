package resp

import (
	"bytes"
	"fmt"
	"io"
)

// Replies of a master, in RESP2. Nothing in them is trusted: a master may be another program, or
// somebody else on its wire.
//
// They are read in two places with the same rules. A ReplyReader reads those of a lane's batches.
// Everything else is read by go-redis, which allocates what a length announces: a ReplyCheck goes over
// the bytes before go-redis sees them.
const (
	// LineMax bounds a status, an error or a number, in bytes. The error of a Redis in protected mode
	// has a thousand.
	LineMax = 8 << 10
	// ElementsMax bounds the elements of an array, and with those of arrays in it what answers one
	// request of go-redis.
	ElementsMax = 16 << 10
	// DepthMax bounds arrays within arrays. HELLO has four: its modules have arguments.
	DepthMax = 8
	// TextMax bounds the bytes of one string that a ReplyReader returns. It passes over a longer one,
	// which only a stranger can have stored.
	TextMax = 64 << 10
	// StrangersMax bounds the strings that a ReplyReader passes over: the most that a Redis takes in
	// one command (proto-max-bulk-len).
	StrangersMax = 512 << 20
	// RepliesMax bounds the bytes that answer one request or pipeline of go-redis. Those that answer us
	// have some KB; SCAN after a clock was set back has up to 256 keys.
	RepliesMax = 1 << 20
)

// ReplyError says what no Redis would have sent: the connection is to be given up.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

func replyErrorf(format string, args ...any) error { return ReplyError(fmt.Sprintf(format, args...)) }

// Reply is one reply, or the head of an array, whose N elements follow. Its Text is valid until the
// next reply is read.
type Reply struct {
	// Kind is '+', '-', ':', '$' or '*'.
	Kind byte
	// N is the value of ':', and the length of '$' and '*'.
	N int64
	// Null: it is the null of '$' or '*'.
	Null bool
	// Text is that of '+', '-' and '$'.
	Text []byte
}

// Is reports whether a bulk string was replied, and this one.
func (r Reply) Is(text string) bool { return r.Kind == '$' && !r.Null && string(r.Text) == text }

// Int returns the number in a ':' or in a bulk string.
func (r Reply) Int() (int64, bool) {
	if r.Kind == ':' {
		return r.N, true
	}
	n, ok := ParseInt(r.Text)
	return n, ok && r.Kind == '$' && !r.Null
}

// CutReply takes the reply at the beginning of b apart into r; of an array only its head. It returns
// what the reply takes of b, 0 if it is not complete; then a bulk string has its Kind and N already if
// its length has arrived.
func CutReply(b []byte, r *Reply) (size int, err error) {
	size, err = parseLine(b, r)
	if size == 0 || r.Kind != '$' || r.Null {
		return size, err
	}
	// r.N+2 does not overflow, because parseLine allows at most StrangersMax.
	rest := b[size:]
	if int64(len(rest)) < r.N+2 {
		return 0, nil
	}
	if rest[r.N] != '\r' || rest[r.N+1] != '\n' {
		return 0, ReplyError("a string that is longer than it says")
	}
	r.Text = rest[:r.N]
	return size + int(r.N) + 2, nil
}

// parseLine reads the first line of a reply. It returns its size with its end, 0 if it is not complete.
//
// All rules for what a master may send are here and in lineEnd, because both readers must refuse the
// same: what only the check refused would take down go-redis's connections, and what only the reader
// refused would reach go-redis's allocations.
func parseLine(b []byte, r *Reply) (size int, err error) {
	*r = Reply{}
	if len(b) == 0 {
		return 0, nil
	}
	if !isKind(b[0]) {
		return 0, replyErrorf("a reply that begins with %q", b[0])
	}
	end, err := lineEnd(b)
	if end == 0 {
		return 0, err
	}
	text := b[1:end]
	if r.Kind = b[0]; r.Kind == '+' || r.Kind == '-' {
		r.Text = text
		return end + 2, nil
	}
	n, ok := ParseInt(text)
	switch {
	case !ok && r.Kind == ':':
		return 0, ReplyError("an integer that is no number")
	case r.Kind == ':':
	case !ok || n < -1:
		return 0, ReplyError("a length that is no number")
	case r.Kind == '*' && n > ElementsMax:
		return 0, replyErrorf("an array of more than %d elements", ElementsMax)
	case n > StrangersMax:
		return 0, replyErrorf("a string of more than %d bytes", StrangersMax)
	}
	r.N, r.Null = n, n < 0 && r.Kind != ':'
	return end + 2, nil
}

// lineEnd finds the CR LF of the line at the beginning of b, 0 if it has not arrived. A CR or LF by
// itself is no part of a line. A loop is faster than bytes.IndexByte: most lines are short.
func lineEnd(b []byte) (int, error) {
	for i, c := range b[:min(len(b), LineMax+2)] {
		if c != '\r' && c != '\n' {
			continue
		}
		switch {
		case c == '\n' || i+1 < len(b) && b[i+1] != '\n':
			return 0, ReplyError("a line without an end")
		case i+1 < len(b):
			return i, nil
		}
	}
	if len(b) > LineMax+2 {
		return 0, ReplyError("a line without an end")
	}
	return 0, nil
}

// isKind reports whether a reply can begin so in RESP2. The kinds of RESP3 are refused, because we have
// not asked for it.
func isKind(b byte) bool { return b == '+' || b == '-' || b == ':' || b == '$' || b == '*' }

// ReplyReader reads the replies of one connection. One goroutine uses it. The zero value is ready.
type ReplyReader struct{ in Buffer }

// ReadReply waits for a reply on conn. A string of more than TextMax bytes is passed over; an error of
// the kind '-' stands for it.
func (r *ReplyReader) ReadReply(conn io.Reader) (reply Reply, err error) {
	for {
		size, err := CutReply(r.in.Unread(), &reply)
		switch {
		case err != nil:
			return Reply{}, err
		// size may be 0 or not: a long string is passed over whether it has arrived as a whole or not.
		case reply.N > TextMax && reply.Kind == '$':
			return Reply{Kind: '-', Text: fmt.Appendf(nil, "ERR a value of %d bytes", reply.N)}, r.skipString(conn, int(reply.N))
		case size > 0:
			r.in.start += size
			return reply, nil
		}
		if err := r.in.Fill(conn); err != nil {
			return Reply{}, err
		}
	}
}

// skipString passes over a string of n bytes, which may be more than the buffer holds. Its length has
// arrived.
func (r *ReplyReader) skipString(conn io.Reader, n int) error {
	n += bytes.IndexByte(r.in.Unread(), '\n') + 1 + 2 // with the line of its length, and its own end
	for {
		taken := min(n, len(r.in.Unread()))
		r.in.Take(taken)
		if n -= taken; n == 0 {
			return nil
		}
		if err := r.in.Fill(conn); err != nil {
			return err
		}
	}
}

// Drained reports whether all that has arrived was read.
func (r *ReplyReader) Drained() bool { return len(r.in.Unread()) == 0 }
