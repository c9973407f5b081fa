package redlock

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// wire speaks the Redis protocol (RESP2) for the batches of a lane, on the connection that go-redis has made, authenticated and
// vetted. go-redis builds and fills an object per command, which is the larger part of what a lock costs here; a batch needs a
// handful of commands and replies of known shapes. Everything that is not a batch goes through go-redis.
//
// go-redis gets its turn only while no batch is on its way, and a wire leaves no byte unread behind the last one: so the two never
// mix. One goroutine writes and one reads, which may be the same.
type wire struct {
	socket net.Conn
	out    []byte // commands that are not sent yet: of who writes
	in     []byte // received; in[read:] is not parsed yet: of who reads
	read   int
}

const (
	// replyMax bounds the bytes of one string in a reply: a longer one can only be a stranger's value, and is passed over.
	replyMax = 64 << 10
	// strangersMax bounds what is passed over: it is the most that a Redis takes in one command (proto-max-bulk-len).
	strangersMax = 512 << 20
	// wireKeep is how large a buffer stays between batches: enough for those of a thousand busy callers.
	wireKeep = 256 << 10
)

// array begins a command of n words.
func (w *wire) array(n int) {
	w.out = append(w.out, '*')
	w.out = strconv.AppendInt(w.out, int64(n), 10)
	w.out = append(w.out, '\r', '\n')
}

// bulk adds a word.
func (w *wire) bulk(word string) {
	w.out = append(w.out, '$')
	w.out = strconv.AppendInt(w.out, int64(len(word)), 10)
	w.out = append(w.out, '\r', '\n')
	w.out = append(w.out, word...)
	w.out = append(w.out, '\r', '\n')
}

// number adds a number as a word.
func (w *wire) number(n int64) {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], n, 10)
	w.out = append(w.out, '$')
	w.out = strconv.AppendInt(w.out, int64(len(text)), 10)
	w.out = append(w.out, '\r', '\n')
	w.out = append(w.out, text...)
	w.out = append(w.out, '\r', '\n')
}

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

// reply is one reply, or the head of an array, whose n elements follow. Its text is good until the next one is read.
type reply struct {
	kind byte  // '+', '-', ':', '$', '*'
	n    int64 // of ':' and '*'
	null bool  // of '$' and '*'
	text []byte
}

// masterError is what a master replied in the place of a result.
type masterError string

func (e masterError) Error() string { return string(e) }

// RedisError tells replied that it is the master's own word.
func (masterError) RedisError() {}

// err is the error that the master replied, or nil.
func (r reply) err() error {
	if r.kind == '-' {
		return masterError(shown(string(r.text)))
	}
	return nil
}

// is tells whether a string was replied, and this one.
func (r reply) is(text string) bool { return r.kind == '$' && !r.null && string(r.text) == text }

// number reads the number in a ':' or a string.
func (r reply) number() (int64, bool) {
	if r.kind == ':' {
		return r.n, true
	}
	n, err := strconv.ParseInt(string(r.text), 10, 64)
	return n, err == nil && r.kind == '$' && !r.null
}

// next reads one reply.
func (w *wire) next() (reply, error) {
	line, err := w.line()
	if err != nil {
		return reply{}, err
	}
	r := reply{kind: line[0], text: line[1:]}
	switch r.kind {
	case '+', '-':
		return r, nil
	case ':', '*', '$':
		if r.n, err = strconv.ParseInt(string(r.text), 10, 64); err != nil {
			return reply{}, senseless("%q", shown(string(line)))
		}
		r.text, r.null = nil, r.kind != ':' && r.n < 0
		switch {
		case r.null && r.n != -1 || r.kind == '*' && r.n > elementsMax || r.kind == '$' && r.n > strangersMax: //mutant:lengths-of-any-size
			return reply{}, senseless("a length of %d", r.n)
		case r.kind != '$' || r.null:
			return r, nil
		case r.n > replyMax:
			return reply{kind: '-', text: fmt.Appendf(nil, "ERR a value of %d bytes", r.n)}, w.skip(int(r.n) + 2)
		}
		r.text, err = w.body(int(r.n))
		return r, err
	}
	return reply{}, senseless("%q", shown(string(line)))
}

// line returns the bytes up to the next line end, at least one.
func (w *wire) line() ([]byte, error) {
	for scanned := w.read; ; {
		for i := scanned; i+1 < len(w.in); i++ {
			if w.in[i] == '\r' && w.in[i+1] == '\n' {
				line := w.in[w.read:i]
				w.read = i + 2
				if len(line) == 0 {
					return nil, senseless("an empty line")
				}
				return line, nil
			}
		}
		ahead := max(0, len(w.in)-1-w.read)
		if len(w.in) > w.read && !isKind(w.in[w.read]) {
			return nil, senseless("%q", shown(string(w.in[w.read:])))
		}
		if ahead > lineMax {
			return nil, senseless("a line without an end")
		}
		if err := w.more(); err != nil {
			return nil, err
		}
		scanned = w.read + ahead
	}
}

// isKind tells whether a reply begins so.
func isKind(b byte) bool { return b == '+' || b == '-' || b == ':' || b == '$' || b == '*' }

// body returns the n bytes of a string, and takes its line end.
func (w *wire) body(n int) ([]byte, error) {
	for len(w.in)-w.read < n+2 {
		if err := w.more(); err != nil {
			return nil, err
		}
	}
	text, end := w.in[w.read:w.read+n], w.in[w.read+n:]
	if end[0] != '\r' || end[1] != '\n' {
		return nil, senseless("a string that is longer than it says")
	}
	w.read += n + 2
	return text, nil
}

// skip passes over n bytes, which may be more than the buffer holds.
func (w *wire) skip(n int) error {
	for len(w.in)-w.read < n {
		n -= len(w.in) - w.read
		w.read = len(w.in)
		if err := w.more(); err != nil {
			return err
		}
	}
	w.read += n
	return nil
}

// more receives. What is not parsed yet moves to the front.
func (w *wire) more() error {
	left := copy(w.in, w.in[w.read:])
	w.in, w.read = w.in[:left], 0
	if left == 0 && cap(w.in) > wireKeep {
		w.in = nil
	}
	if cap(w.in)-left < 512 {
		grown := make([]byte, left, max(4<<10, 2*cap(w.in)))
		copy(grown, w.in)
		w.in = grown
	}
	n, err := w.socket.Read(w.in[left:cap(w.in)])
	w.in = w.in[:left+n]
	if n > 0 {
		return nil
	}
	if err == nil {
		err = errors.New("the master sends nothing")
	}
	return err
}

// drained tells whether all that came was read.
func (w *wire) drained() bool { return w.read == len(w.in) }
