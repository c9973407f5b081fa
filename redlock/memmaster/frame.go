package memmaster

import (
	"bytes"
	"fmt"
	"math"

	"github.com/tidwall/redcon"
)

// What a client may send. redcon's parser has no limits of its own, and some lengths end the process or spin for ever:
// frameReader lets nothing near it that is not one whole frame within these bounds.
const (
	frameBytesMax  = 4 << 20 // one command with everything in it
	bulkBytesMax   = 1 << 20 // one argument
	argsMax        = 16384   // arguments of one command
	inlineBytesMax = 1 << 10 // one inline command (redcon's parser takes memory by the square of it)
	headerBytesMax = 32      // a line that announces a length

	readBytes = 16 << 10 // how much is read at once, at least
)

// protocolError is answered to the client, and its connection closed.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

// frameReader cuts what arrives on a connection into whole commands. It goes on where it stopped, so a command that
// trickles in costs no second scan. The zero value is ready.
type frameReader struct {
	buf   []byte
	start int // buf[start:] belongs to frames not returned yet
	pos   int // buf[start:pos] is checked
	left  int // arguments still missing in the frame at start; 0 before its first line
}

// space returns where to read into; added then says how much came. Frames returned before are overwritten.
func (f *frameReader) space() []byte {
	if f.start == len(f.buf) {
		f.start, f.pos, f.buf = 0, 0, f.buf[:0]
		if cap(f.buf) > keptBytesMax {
			f.buf = nil
		}
	}
	if cap(f.buf)-len(f.buf) < readBytes && f.start > 0 {
		f.buf = f.buf[:copy(f.buf, f.buf[f.start:])]
		f.pos -= f.start
		f.start = 0
	}
	if cap(f.buf)-len(f.buf) < readBytes {
		grown := make([]byte, len(f.buf), max(2*cap(f.buf), len(f.buf)+readBytes))
		copy(grown, f.buf)
		f.buf = grown
	}
	return f.buf[len(f.buf):cap(f.buf)]
}

func (f *frameReader) added(n int) { f.buf = f.buf[:len(f.buf)+n] }

// next returns the arguments of the next whole command, or none if it has not arrived. They are valid until the next
// call of space; args is used for the result. After an error the reader is of no more use.
func (f *frameReader) next(args [][]byte) ([][]byte, error) {
	for {
		whole, err := f.scan()
		if err != nil || !whole {
			return nil, err
		}
		frame := f.buf[f.start:f.pos]
		f.start = f.pos
		complete, args, _, left, err := redcon.ReadNextCommand(frame, args)
		if err != nil {
			return nil, err
		}
		if !complete || len(left) != 0 {
			return nil, protocolError(fmt.Sprintf("frame %.40q is not one command", frame))
		}
		if len(args) > 0 { // an empty line or *0 is ignored, as in Redis
			return args, nil
		}
	}
}

// scan moves pos to the end of the frame at start and reports true, or as far as what is there allows.
func (f *frameReader) scan() (whole bool, err error) {
	if f.left == 0 {
		whole, err = f.scanFirstLine()
		if err != nil || whole || f.left == 0 {
			return whole, err
		}
	}
	for ; f.left > 0; f.left-- {
		if ok, err := f.scanBulk(); !ok {
			return false, err
		}
	}
	return true, nil
}

func (f *frameReader) scanFirstLine() (whole bool, err error) {
	b := f.buf[f.pos:]
	switch {
	case len(b) == 0:
		return false, nil
	case b[0] == '$': // redcon would take it for a dialect that Redis does not speak
		return false, protocolError("expected '*', got '$'")
	case b[0] != '*':
		return f.scanInline(b)
	}
	n, size, err := header(b, "too big mbulk count string", "invalid multibulk length")
	if size == 0 || err != nil {
		return false, err
	}
	if n > argsMax {
		return false, protocolError("invalid multibulk length")
	}
	if n <= 0 {
		f.pos += size
		f.start = f.pos
		return f.scan()
	}
	f.pos += size
	f.left = int(n)
	return false, nil
}

func (f *frameReader) scanInline(b []byte) (whole bool, err error) {
	i := bytes.IndexByte(b[:min(len(b), inlineBytesMax)], '\n')
	if i < 0 {
		if len(b) >= inlineBytesMax {
			return false, protocolError("too big inline request")
		}
		return false, nil
	}
	f.pos += i + 1
	return true, nil
}

func (f *frameReader) scanBulk() (ok bool, err error) {
	b := f.buf[f.pos:]
	if len(b) == 0 {
		return false, nil
	}
	if b[0] != '$' {
		return false, protocolError(fmt.Sprintf("expected '$', got '%c'", b[0]))
	}
	n, size, err := header(b, "too big bulk count string", "invalid bulk length")
	if size == 0 || err != nil {
		return false, err
	}
	if n < 0 || n > bulkBytesMax || f.pos-f.start+size+int(n)+2 > frameBytesMax {
		return false, protocolError("invalid bulk length")
	}
	end := size + int(n) + 2
	if len(b) < end {
		return false, nil
	}
	if b[end-2] != '\r' || b[end-1] != '\n' {
		return false, protocolError("invalid bulk length")
	}
	f.pos += end
	return true, nil
}

// header reads a line like "*3\r\n": the number and the size of the line, 0 if it has not arrived.
func header(b []byte, tooLong, invalid string) (n int64, size int, err error) {
	i := bytes.IndexByte(b[:min(len(b), headerBytesMax)], '\n')
	if i < 0 {
		if len(b) >= headerBytesMax {
			return 0, 0, protocolError(tooLong)
		}
		return 0, 0, nil
	}
	n, ok := int64(0), i >= 2 && b[i-1] == '\r'
	if ok {
		n, ok = parseInt(b[1 : i-1])
	}
	if !ok {
		return 0, 0, protocolError(invalid)
	}
	return n, i + 1, nil
}

// parseInt reads an integer as strictly as Redis does: no space, no plus, no leading zero.
func parseInt(b []byte) (int64, bool) {
	if len(b) == 1 && b[0] == '0' {
		return 0, true
	}
	digits, negative := b, false
	if len(b) > 0 && b[0] == '-' {
		digits, negative = b[1:], true
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' {
		return 0, false
	}
	var n uint64 // 19 digits fit
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	switch {
	case negative && n <= -math.MinInt64:
		return -int64(n), true
	case !negative && n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}
