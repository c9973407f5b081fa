package redlock

import (
	"fmt"
	"net"
)

// What a master sends is read in two places, and neither may trust it. Batches are read by master_wire.go, which has its bounds itself. All
// else is read by go-redis, which has none: it allocates what a length announces. So go-redis reads through a replyCheck.
//
// Bounds of memory, per connection to a master, of which there are two: what go-redis makes of repliesMax bytes and elementsMax
// elements, one megabyte of each; 256 KB in a wire; and of the lane's connection readingsMax for one batch.
const (
	// repliesMax bounds the bytes that answer one request or pipeline of go-redis. Those that answer us have some KB; SCAN after a
	// clock was set back has up to 256 keys.
	repliesMax = 1 << 20
	// elementsMax bounds the replies in them, with the elements of arrays.
	elementsMax = 16 << 10
	// depthMax bounds arrays within arrays. HELLO has four: its modules have arguments.
	depthMax = 8
	// lineMax bounds a status, an error or a number, in bytes. The error of a Redis in protected mode has a thousand.
	lineMax = 8 << 10
)

// checkedConn is a connection to a master that go-redis reads. It fails at the first byte that no Redis would send, and go-redis gets
// nothing of what came with it.
type checkedConn struct {
	net.Conn
	check  replyCheck
	failed error
}

func (c *checkedConn) Read(p []byte) (int, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	n, err := c.Conn.Read(p)
	if c.failed = c.check.pass(p[:n]); c.failed != nil {
		return 0, c.failed
	}
	return n, err
}

// Write sends a request, which has an answer of its own.
func (c *checkedConn) Write(p []byte) (int, error) {
	c.check.bytes, c.check.elements = 0, 0
	return c.Conn.Write(p)
}

// replyCheck follows the replies of RESP2 in a stream of bytes. It keeps none of them.
type replyCheck struct {
	bytes    int // since the last request
	elements int // since the last request

	state  replyState
	kind   byte          // of the reply that has begun
	length int           // bytes of its line so far
	n      int           // of '$' and '*': the number so far
	null   bool          // of '$' and '*': the number is negative
	left   int           // bytes of a string that are still to come, with its line end
	open   [depthMax]int // elements that are still to come of the arrays that have begun
	depth  int           // of open
}

type replyState uint8

const (
	atKind replyState = iota // a reply begins
	inLine
	atLF // after the CR of a line
	inString
)

// pass checks the bytes that follow those of before.
func (c *replyCheck) pass(p []byte) error {
	if c.bytes += len(p); c.bytes > repliesMax {
		return senseless("more than %d bytes in answer to one request", repliesMax)
	}
	for len(p) > 0 {
		if c.state == inString {
			n := min(c.left, len(p))
			if c.left-n < 2 && !c.endsString(p[:n]) {
				return senseless("a string that is longer than it says")
			}
			c.left, p = c.left-n, p[n:]
			if c.left == 0 {
				c.ended()
			}
			continue
		}
		if err := c.next(p[0]); err != nil {
			return err
		}
		p = p[1:]
	}
	return nil
}

// endsString tells whether those of the bytes that are the line end of a string are one.
func (c *replyCheck) endsString(p []byte) bool {
	for i, b := range p {
		switch c.left - i {
		case 2:
			if b != '\r' {
				return false
			}
		case 1:
			if b != '\n' {
				return false
			}
		}
	}
	return true
}

// next checks a byte outside of strings.
func (c *replyCheck) next(b byte) error {
	switch c.state {
	case atKind:
		if !isKind(b) {
			return senseless("a reply that begins with %q", b)
		}
		if c.depth == 0 { // the others are counted with their array
			if c.elements++; c.elements > elementsMax {
				return tooManyElements()
			}
		}
		c.state, c.kind, c.length, c.n, c.null = inLine, b, 0, 0, false
		return nil
	case atLF:
		if b != '\n' {
			return senseless("a line without an end")
		}
		return c.lineEnded()
	}
	switch {
	case b == '\r':
		c.state = atLF
		return nil
	case b == '\n' || c.length == lineMax:
		return senseless("a line without an end")
	}
	c.length++
	if c.kind != '$' && c.kind != '*' {
		return nil
	}
	switch {
	case b == '-' && c.length == 1:
		c.null = true
	case b < '0' || b > '9':
		return senseless("a length that is no number")
	default:
		c.n = 10*c.n + int(b-'0')
	}
	switch {
	case c.kind == '$' && c.n > repliesMax:
		return senseless("a string of more than %d bytes", repliesMax)
	case c.kind == '*' && c.n > elementsMax:
		return tooManyElements()
	}
	return nil
}

// lineEnded is for a line that is complete.
func (c *replyCheck) lineEnded() error {
	if c.kind != '$' && c.kind != '*' {
		c.ended()
		return nil
	}
	switch {
	case c.length == 0 || c.null && (c.length != 2 || c.n != 1):
		return senseless("a length that is no number")
	case c.null || c.kind == '*' && c.n == 0:
		c.ended()
	case c.kind == '$':
		c.state, c.left = inString, c.n+2
	case c.depth == depthMax:
		return senseless("arrays in more than %d arrays", depthMax)
	default:
		if c.elements += c.n; c.elements > elementsMax {
			return tooManyElements()
		}
		c.open[c.depth] = c.n
		c.depth++
		c.state = atKind
	}
	return nil
}

// ended is for a reply that is complete, which may complete the arrays that it is the last element of.
func (c *replyCheck) ended() {
	c.state = atKind
	for ; c.depth > 0; c.depth-- {
		last := &c.open[c.depth-1]
		if *last--; *last > 0 {
			return
		}
	}
}

func tooManyElements() error {
	return senseless("more than %d elements in answer to one request", elementsMax)
}

// senseless is why a connection is given up on which a master sends what no Redis would.
func senseless(format string, args ...any) error {
	return &refusedError{"it sends " + fmt.Sprintf(format, args...) + ", which no Redis would here: see what answers at this address"}
}
