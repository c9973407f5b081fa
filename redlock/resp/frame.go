package resp

import (
	"bytes"
	"fmt"
)

// Requests. A FrameScanner cuts what has arrived into commands, and these into arguments.

// Limits bound one command of a client.
type Limits struct {
	Args    int // arguments, the name of the command included
	Bulk    int // bytes of one argument
	Command int // bytes of the whole frame

	// BeforeAuth says in errors that these limits end when the client logs in.
	BeforeAuth bool
}

// Limits that no setting moves.
const (
	// InlineMax bounds the line of an inline command, in bytes without its end.
	InlineMax = 4 << 10
	// headerMax bounds a header line: its type, a number of at most lengthDigitsMax digits, CR LF, and
	// some room to tell a long number from no number.
	headerMax = 16
	// lengthDigitsMax keeps lengths within 32 bits. A length of more digits is above any limit.
	lengthDigitsMax = 9
	lengthMax       = 999_999_999
)

// ProtocolError is the last reply before a connection is closed: what the client sent is no command.
type ProtocolError string

func (e ProtocolError) Error() string { return "Protocol error: " + string(e) }

func protocolErrorf(format string, args ...any) error {
	return ProtocolError(fmt.Sprintf(format, args...))
}

// FrameScanner finds the commands in the bytes of one connection. It remembers how far it has looked,
// so that a command that comes byte by byte costs at most twice what one costs that comes at once. The
// zero value is ready for the first command.
type FrameScanner struct {
	// looked is the number of bytes of the frame that need no second look.
	looked int
	// left is the number of arguments still to come; 0 while the header of the array is not complete.
	left int
}

// Scan takes apart the command at the beginning of b, and returns its arguments and the size of its
// frame. The arguments alias b, whose bytes Scan may change, and take the place of room, which the
// caller has from the call before. Without arguments there is nothing to execute, as in Redis after *0
// or an empty line.
//
// A size of 0 says that the command is not complete; then the next call must get the same bytes and
// more. An error is final. The result depends on the bytes alone, not on how they were cut into
// packets.
func (s *FrameScanner) Scan(b []byte, limits *Limits, room [][]byte) (args [][]byte, size int, err error) {
	room = room[:0]
	switch {
	case len(b) == 0:
		return room, 0, nil
	case b[0] == '*':
		args, size, err = s.scanArray(b, limits, room)
	default:
		args, size, err = s.scanInline(b, room)
	}
	if size > 0 {
		*s = FrameScanner{}
	}
	return args, size, err
}

// scanArray looks for a command in the form that clients use: *2\r\n$6\r\nUNLOCK\r\n…
func (s *FrameScanner) scanArray(b []byte, limits *Limits, args [][]byte) ([][]byte, int, error) {
	again := s.left > 0 // some arguments were seen, where b stood before
	// The first line. It is read again as long as it is not complete, which is headerMax bytes at most.
	if !again {
		count, n, err := scanHeader(b, "multibulk length", true)
		if n == 0 || err != nil {
			return args, 0, err
		}
		if count <= 0 {
			return args, n, nil // *0 and *-1 are no commands, and no errors in Redis either
		}
		if count > limits.Args {
			return args, 0, limits.tooBig("multibulk length", "arguments", count, limits.Args)
		}
		s.looked, s.left = n, count
	}
	// One argument after the other. What is before s.looked is not looked at again until all is there, so
	// that a command of many small packets does not cost the square of its length.
	for {
		if s.looked == len(b) {
			return args, 0, nil
		}
		rest := b[s.looked:]
		if rest[0] != '$' {
			return args, 0, protocolErrorf("expected '$', got %q", rest[:1])
		}
		length, n, err := scanHeader(rest, "bulk length", false)
		if n == 0 || err != nil {
			return args, 0, err
		}
		// A length is refused as soon as it is announced, before anybody makes room for it.
		if length > limits.Bulk {
			return args, 0, limits.tooBig("bulk length", "bytes in one argument", length, limits.Bulk)
		}
		// This cannot overflow: all three are bounded, and the frame so far is within limits.Command.
		begin := s.looked + n
		end := begin + length + 2
		if end > limits.Command {
			return args, 0, limits.tooBig("multibulk length", "bytes in one command", end, limits.Command)
		}
		if len(b) < end {
			return args, 0, nil // the header is looked at again when more has come: at most headerMax bytes
		}
		if b[end-2] != '\r' || b[end-1] != '\n' {
			return args, 0, protocolErrorf("expected CR LF after an argument of %d bytes", length)
		}
		if !again {
			args = append(args, b[begin:end-2:end-2])
		}
		s.looked = end
		if s.left--; s.left == 0 {
			if again { // b may have moved since the first arguments were seen: with left 0, all are read anew
				return s.scanArray(b[:end], limits, args)
			}
			return args, end, nil
		}
	}
}

// scanHeader reads the header line at the beginning of b, "*3\r\n" or "$5\r\n": its number, and its
// size or 0 when it is not complete. what names the number in errors.
//
// ParseInt accepts no second spelling of a number. A proxy in front of redlockd that reads "+4" or "04"
// in another way could be made to see other commands than we do (request smuggling).
func scanHeader(b []byte, what string, negative bool) (value, size int, err error) {
	line := b[:min(len(b), headerMax)]
	end := bytes.IndexByte(line, '\n')
	switch {
	case end < 0 && len(line) < headerMax:
		return 0, 0, nil
	case end < 0:
		return 0, 0, protocolErrorf("too big %s string: a header line is at most %d bytes", what, headerMax)
	case line[end-1] != '\r':
		return 0, 0, protocolErrorf("invalid %s: the header line does not end in CR LF", what)
	}
	n, ok := ParseInt(line[1 : end-1])
	if !ok || n < 0 && !negative {
		return 0, 0, protocolErrorf("invalid %s", what)
	}
	if n > lengthMax || n < -lengthMax {
		return 0, 0, protocolErrorf("invalid %s: a number of more than %d digits", what, lengthDigitsMax)
	}
	return int(n), end + 1, nil
}

// tooBig names the thing, how big it is, and the limit. Before AUTH it is in Redis's words.
func (l *Limits) tooBig(length, what string, got, limit int) error {
	if l.BeforeAuth {
		return protocolErrorf("unauthenticated %s: %d %s, the limit before AUTH is %d", length, got, what, limit)
	}
	return protocolErrorf("invalid %s: %d %s, the limit is %d", length, got, what, limit)
}

// scanInline looks for a command that somebody types into telnet or nc: a line of words.
func (s *FrameScanner) scanInline(b []byte, args [][]byte) ([][]byte, int, error) {
	if b[0] == 0x16 {
		return args, 0, ProtocolError("this looks like TLS, and this port does not speak it")
	}
	// What was looked at before has no line end and no NUL.
	rest := b[s.looked:min(len(b), InlineMax+1)]
	end := bytes.IndexByte(rest, '\n')
	if end >= 0 {
		rest = rest[:end]
	}
	switch {
	case bytes.IndexByte(rest, 0) >= 0:
		return args, 0, ProtocolError("a NUL in an inline request")
	case end < 0 && len(b) > InlineMax:
		return args, 0, protocolErrorf("too big inline request: the limit is %d bytes", InlineMax)
	case end < 0:
		s.looked = len(b)
		return args, 0, nil
	}
	end += s.looked
	line := b[:end]
	if beginsWith(line, "POST") || beginsWith(line, "Host:") {
		// A web page can make its visitor's browser send a POST here, with commands in its body. The
		// first lines of the request look like inline commands; nothing behind them may be executed.
		return args, 0, ProtocolError("this looks like HTTP, and this port speaks the Redis protocol; the connection is closed to be safe")
	}
	args, err := splitInline(bytes.TrimSuffix(line, []byte("\r")), args)
	if err != nil {
		return args, 0, err
	}
	return args, end + 1, nil
}
