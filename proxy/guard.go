package proxy

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tidwall/redcon"
)

// The guard stands between the network and redcon's parser. redcon v1.6.2 has no limits: one small packet makes it panic
// (a length near 2^63), spin for ever (a count near 2^63), or allocate without bound (a line of many words), and its
// low-level ReadNextCommand, which we use, does not even check that a length is positive. So redcon gets to see a frame
// only after the guard has found that it is whole, well-formed and within limits; and inline commands, which redcon
// does not quote as Redis does, it never sees.

// frameLimits bound one command. See Options.
type frameLimits struct {
	args, bulk, command int
	beforeAuth          bool // the limits of a client that has not logged in yet, and the error says so
}

const (
	// inlineMax bounds the line of an inline command, in bytes without its end.
	inlineMax = 4 << 10
	// headerMax bounds a header line: its type, a number of at most digitsMax digits, CR LF, and some room to tell a
	// long number from no number.
	headerMax = 16
	// digitsMax keeps numbers within 32 bits. A number of more digits is above any limit.
	digitsMax = 9
)

// limitsBeforeAuth are for a client before AUTH. Redis allows it as many arguments, but of 16 KB each, and that is memory that
// nobody has given it.
var limitsBeforeAuth = frameLimits{args: 10, bulk: 4 << 10, command: 6 << 10, beforeAuth: true}

// protocolError is what the client is told before its connection is closed.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

func protocolErrorf(format string, args ...any) error {
	return protocolError(fmt.Sprintf(format, args...))
}

var errUnbalancedQuotes = protocolError("unbalanced quotes in request")

// guard finds frames in the bytes of one connection. It remembers how far it has looked, so that a command that comes
// byte by byte costs no more than one that comes at once. The zero value is ready for the first frame.
type guard struct {
	looked int // bytes of the frame that need no second look
	left   int // arguments still to come; 0 while the header of the array is not complete
}

// next returns the size of the frame at the beginning of b, or 0 when it is not complete; then the next call must get
// the same bytes and more. An error is final. What next decides depends on the bytes alone, not on how they were cut
// into packets.
func (g *guard) next(b []byte, limits *frameLimits) (size int, err error) {
	switch {
	case len(b) == 0:
		return 0, nil
	case b[0] == '*':
		size, err = g.nextArray(b, limits)
	default:
		size, err = g.nextInline(b)
	}
	if size > 0 {
		*g = guard{}
	}
	return size, err
}

// nextArray looks for the end of a command in the form that clients use: *2\r\n$6\r\nUNLOCK\r\n…
func (g *guard) nextArray(b []byte, limits *frameLimits) (int, error) {
	if g.left == 0 {
		count, n, err := header(b, "multibulk length", true)
		if n == 0 || err != nil {
			return 0, err
		}
		if count <= 0 {
			return n, nil // *0 and *-1 are no commands, and no errors in Redis either
		}
		if count > limits.args {
			return 0, tooBig("multibulk length", "arguments", count, limits.args, "args_max", limits)
		}
		g.looked, g.left = n, count
	}
	for {
		if g.looked == len(b) {
			return 0, nil
		}
		rest := b[g.looked:]
		if rest[0] != '$' {
			return 0, protocolErrorf("expected '$', got %q", rest[:1])
		}
		length, n, err := header(rest, "bulk length", false)
		if n == 0 || err != nil {
			return 0, err
		}
		if length > limits.bulk {
			return 0, tooBig("bulk length", "bytes in one argument", length, limits.bulk, "bulk_max", limits)
		}
		end := g.looked + n + length + 2
		if end > limits.command {
			return 0, tooBig("multibulk length", "bytes in one command", end, limits.command, "command_max", limits)
		}
		if len(b) < end {
			return 0, nil // the header is looked at again when more has come: at most headerMax bytes
		}
		if b[end-2] != '\r' || b[end-1] != '\n' {
			return 0, protocolErrorf("expected CR LF after an argument of %d bytes", length)
		}
		g.looked = end
		if g.left--; g.left == 0 {
			return end, nil
		}
	}
}

// header reads the header line at the beginning of b: its number, and its size or 0 when it is not complete.
// Redis's rules for a number hold: digits without a sign, without leading zeros; so no two parsers can disagree on it.
func header(b []byte, what string, negative bool) (value, size int, err error) {
	line := b[:min(len(b), headerMax)]
	end := bytes.IndexByte(line, '\n')
	if end < 0 {
		if len(line) < headerMax {
			return 0, 0, nil
		}
		return 0, 0, protocolErrorf("too big %s string: a header line is at most %d bytes", what, headerMax)
	}
	digits := line[1:end]
	if len(digits) == 0 || digits[len(digits)-1] != '\r' {
		return 0, 0, protocolErrorf("invalid %s: the header line does not end in CR LF", what)
	}
	digits = digits[:len(digits)-1]
	sign := 1
	if negative && len(digits) > 1 && digits[0] == '-' && digits[1] != '0' {
		sign, digits = -1, digits[1:]
	}
	if len(digits) > digitsMax {
		return 0, 0, protocolErrorf("invalid %s: a number of more than %d digits", what, digitsMax)
	}
	if len(digits) == 0 || digits[0] == '0' && len(digits) > 1 {
		return 0, 0, protocolErrorf("invalid %s", what)
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, 0, protocolErrorf("invalid %s", what)
		}
		value = value*10 + int(c-'0')
	}
	return sign * value, end + 1, nil
}

// tooBig names the thing, how big it is, the limit, and the setting that moves it.
func tooBig(length, what string, got, limit int, setting string, limits *frameLimits) error {
	if limits.beforeAuth {
		return protocolErrorf("unauthenticated %s: %d %s, the limit before AUTH is %d", length, got, what, limit)
	}
	return protocolErrorf("invalid %s: %d %s, the limit is %d (%s)", length, got, what, limit, setting)
}

// nextInline looks for the end of a command that somebody types into telnet or nc: a line of words.
func (g *guard) nextInline(b []byte) (int, error) {
	if b[0] == 0x16 {
		return 0, protocolError("this looks like TLS, and this port does not speak it")
	}
	rest := b[g.looked:min(len(b), inlineMax+1)]
	end := bytes.IndexByte(rest, '\n')
	if end >= 0 {
		rest = rest[:end]
	}
	if bytes.IndexByte(rest, 0) >= 0 {
		return 0, protocolError("a NUL in an inline request")
	}
	if end < 0 && len(b) > inlineMax {
		return 0, protocolErrorf("too big inline request: the limit is %d bytes", inlineMax)
	}
	if end < 0 {
		g.looked = len(b)
		return 0, nil
	}
	end += g.looked
	line := trimSpace(b[:end]) // as Redis does before the first word
	if hasWord(line, "POST") || hasWord(line, "Host:") {
		// A web page can make its visitor's browser send a POST here, with commands in its body. What is an inline
		// command to us is the request's first lines; nothing behind them may be executed.
		return 0, protocolError("this looks like HTTP, and this port speaks the Redis protocol; the connection is closed to be safe")
	}
	return end + 1, nil
}

// trimSpace is line without the white space before its first word.
func trimSpace(line []byte) []byte {
	for len(line) > 0 && isSpace(line[0]) {
		line = line[1:]
	}
	return line
}

// hasWord tells whether line begins with the word, in any case, as HTTP would have it.
func hasWord(line []byte, word string) bool {
	return len(line) >= len(word) && bytes.EqualFold(line[:len(word)], []byte(word)) &&
		(len(line) == len(word) || isSpace(line[len(word)]))
}

// split takes a frame that next has found apart. The arguments alias the frame, whose bytes may be changed by it.
// No arguments: there is nothing to execute.
func split(frame []byte, args [][]byte) ([][]byte, error) {
	args = args[:0]
	if frame[0] != '*' {
		return splitInline(bytes.TrimSuffix(frame[:len(frame)-1], []byte("\r")), args)
	}
	if frame[1] == '-' || frame[1] == '0' {
		return args, nil
	}
	complete, args, _, rest, err := redcon.ReadNextCommand(frame, args)
	if !complete || len(rest) != 0 || err != nil {
		return args[:0], errors.New("the guard and redcon disagree on a frame") // the fuzz test looks for one
	}
	return args, nil
}

// splitInline splits a line into words with Redis's rules (sdssplitargs): words are divided by white space; "…" may
// contain \n \r \t \b \a \xHH and \ before any other character, '…' only \'. What is unquoted takes less room than what is quoted,
// so words are made in place.
func splitInline(line []byte, args [][]byte) ([][]byte, error) {
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return args, nil
		}
		word := line[i:i]
		for i < len(line) && !endsWord(line[i]) {
			if line[i] != '"' && line[i] != '\'' {
				word = append(word, line[i])
				i++
				continue
			}
			var ok bool
			if word, i, ok = unquote(line, i, word); !ok {
				return args[:0], errUnbalancedQuotes
			}
		}
		args = append(args, word)
	}
}

// unquote appends to word what stands between the quote at line[i] and its end, and returns the position behind that.
// A closing quote must be followed by white space or the end of the line.
func unquote(line []byte, i int, word []byte) ([]byte, int, bool) {
	quote := line[i]
	for i++; i < len(line); i++ {
		c := line[i]
		switch {
		case c == quote:
			return word, i + 1, i+1 == len(line) || isSpace(line[i+1])
		case c == '\\' && quote == '\'' && i+1 < len(line) && line[i+1] == '\'':
			i++
			c = '\''
		case c == '\\' && quote == '"' && i+3 < len(line) && line[i+1] == 'x' && isHex(line[i+2]) && isHex(line[i+3]):
			c = unhex(line[i+2])<<4 | unhex(line[i+3])
			i += 3
		case c == '\\' && quote == '"' && i+1 < len(line):
			i++
			c = unescape(line[i])
		}
		word = append(word, c)
	}
	return word, i, false
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// endsWord is less than isSpace: to Redis a form feed is white space before a word and behind a quote, but not in a word.
func endsWord(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}
