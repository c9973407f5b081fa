package resp

// Goal: whatever bytes come, and however they are cut, the scanner finds whole commands within the limits or gives an error that names
// the limit, and redcon reads each frame as the scanner does. Method: the packets that bring redcon down, and fuzzing against a plain
// reading of the rules.

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/redcon"
)

var testLimits = Limits{Args: 1024, Bulk: 512 << 10, Command: 1 << 20}

// readAll gives the bytes to a scanner in pieces of this size and returns the commands it finds, and the error that ended it.
func readAll(input []byte, piece int, limits *Limits) (commands [][]string, err error) {
	var s FrameScanner
	var args [][]byte
	buffer := []byte{}
	for len(input) > 0 {
		n := min(piece, len(input))
		buffer = append(buffer, input[:n]...)
		input = input[n:]
		for {
			var size int
			array := bytes.HasPrefix(buffer, []byte("*")) // the words of an inline command are made in its place
			if args, size, err = s.Scan(buffer, limits, args); err != nil {
				return commands, err
			}
			if size == 0 {
				break
			}
			if array && len(args) > 0 {
				if err = asRedcon(buffer[:size:size], args); err != nil {
					return commands, err
				}
			}
			if len(args) > 0 {
				command := []string{}
				for _, arg := range args {
					command = append(command, string(arg))
				}
				commands = append(commands, command)
			}
			buffer = buffer[size:]
		}
	}
	return commands, nil
}

// asRedcon returns an error if redcon reads another command than args in a frame. It is for arrays alone,
// because redcon does not quote as Redis does, and not for *0 and *-1, which redcon calls errors.
func asRedcon(frame []byte, args [][]byte) error {
	complete, theirs, _, rest, err := redcon.ReadNextCommand(frame, nil)
	if !complete || len(rest) != 0 || err != nil || !slices.EqualFunc(args, theirs, bytes.Equal) {
		return fmt.Errorf("redcon reads %q, complete %v, error %v, %d bytes left", theirs, complete, err, len(rest))
	}
	return nil
}

func TestScan(t *testing.T) {
	bulks := func(n int) string { return strings.Repeat("$1\r\nx\r\n", n) }
	tests := []struct {
		name  string
		input string
		want  [][]string
		err   string // what the error begins with, after "Protocol error: "
	}{
		{"command", "*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n", [][]string{{"ECHO", "hi"}}, ""},
		{"pipeline", "*1\r\n$4\r\nPING\r\nPING\r\n*1\r\n$4\r\nPING\r\n", [][]string{{"PING"}, {"PING"}, {"PING"}}, ""},
		{"empty argument", "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", [][]string{{"ECHO", ""}}, ""},
		{"empty name", "*1\r\n$0\r\n\r\n", [][]string{{""}}, ""},
		{"binary argument", "*2\r\n$4\r\nECHO\r\n$5\r\n\r\n*1\x00\r\n", [][]string{{"ECHO", "\r\n*1\x00"}}, ""},
		{"incomplete", "*2\r\n$4\r\nECHO\r\n$2\r\nh", nil, ""},

		// What Redis skips.
		{"no arguments", "*0\r\n*1\r\n$4\r\nPING\r\n", [][]string{{"PING"}}, ""},
		{"null array", "*-1\r\n*1\r\n$4\r\nPING\r\n", [][]string{{"PING"}}, ""},
		{"blank lines", "\r\n\n \r\n\r\nPING\r\n", [][]string{{"PING"}}, ""},

		// What brings redcon down: facts about v1.6.2.
		{"length near 2^63 panics", "*1\r\n$9223372036854775807\r\n", nil, "too big bulk length string"},
		{"count near 2^63 spins", "*9000000000000000000\r\n", nil, "too big multibulk length string"},
		{"count of 10^9 costs a second per packet", "*1000000000\r\n", nil, "invalid multibulk length: a number of more than 9 digits"},
		{"length that wraps to 4", "*1\r\n$18446744073709551620\r\nPING\r\n", nil, "too big bulk length string"},
		{"length of 2 GB is buffered", "*1\r\n$2000000000\r\n", nil, "invalid bulk length: a number of more than 9 digits"},
		{"length -2 panics in ReadNextCommand", "*1\r\n$-2\r\n", nil, "invalid bulk length"},
		{"length -1", "*1\r\n$-1\r\n", nil, "invalid bulk length"},
		{"inline of many words allocates 1 GB", strings.Repeat("a ", 32000) + "\r\n", nil, "too big inline request: the limit is 4096 bytes"},
		{"good command before garbage", "*1\r\n$4\r\nPING\r\n*1\r\n!", [][]string{{"PING"}}, `expected '$', got "!"`},
		{"20 000 arguments", "*20000\r\n" + bulks(20000), nil, "invalid multibulk length: 20000 arguments"},
		{"native form of redcon", "$4 PING\r\n", [][]string{{"$4", "PING"}}, ""},

		// Numbers.
		{"plus sign", "*+1\r\n$4\r\nPING\r\n", nil, "invalid multibulk length"},
		{"leading zero", "*01\r\n$4\r\nPING\r\n", nil, "invalid multibulk length"},
		{"minus zero", "*-0\r\n", nil, "invalid multibulk length"},
		{"no number", "*\r\n", nil, "invalid multibulk length"},
		{"minus alone", "*-\r\n", nil, "invalid multibulk length"},
		{"space in number", "*1 \r\n$4\r\nPING\r\n", nil, "invalid multibulk length"},
		{"length with leading zero", "*1\r\n$04\r\nPING\r\n", nil, "invalid bulk length"},
		{"length with plus", "*1\r\n$+4\r\nPING\r\n", nil, "invalid bulk length"},
		{"no length", "*1\r\n$\r\n", nil, "invalid bulk length"},
		{"LF alone", "*1\n$4\nPING\n", nil, "invalid multibulk length: the header line does not end in CR LF"},
		{"header without end", "*" + strings.Repeat(" ", 100), nil, "too big multibulk length string"},

		// Limits.
		{"most arguments", "*1024\r\n" + bulks(1024), [][]string{strings.Split(strings.Repeat("x", 1024), "")}, ""},
		{"one argument more", "*1025\r\n" + bulks(1025), nil, "invalid multibulk length: 1025 arguments, the limit is 1024"},
		{"largest argument", "*1\r\n$524288\r\n" + strings.Repeat("x", 512<<10) + "\r\n", [][]string{{strings.Repeat("x", 512<<10)}}, ""},
		{"one byte more", "*1\r\n$524289\r\n", nil, "invalid bulk length: 524289 bytes in one argument, the limit is 524288"},
		{"large arguments too many", "*3\r\n" + strings.Repeat("$500000\r\n"+strings.Repeat("x", 500000)+"\r\n", 3), nil, "invalid multibulk length: 1500037 bytes in one command, the limit is 1048576"},
		{"wrong end of argument", "*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", nil, "expected CR LF after an argument of 4 bytes"},
		{"longest line", strings.Repeat("x", 4095) + "\r\n", [][]string{{strings.Repeat("x", 4095)}}, ""},
		{"line too long", strings.Repeat("x", 4097), nil, "too big inline request"},

		// Inline commands, quoted as Redis has it.
		{"words", "  SET\tkey  value \r\n", [][]string{{"SET", "key", "value"}}, ""},
		{"line ending in LF", "PING\n", [][]string{{"PING"}}, ""},
		{"double quotes", `ECHO "a b\n\x41\"\\\q"` + "\r\n", [][]string{{"ECHO", "a b\nA\"\\q"}}, ""},
		{"single quotes", `ECHO 'a "b" \n \' c'` + "\r\n", [][]string{{"ECHO", `a "b" \n ' c`}}, ""},
		{"empty quotes", `ECHO ""` + "\r\n", [][]string{{"ECHO", ""}}, ""},
		{"quotes inside a word", `ECHO a"b c"` + "\r\n", [][]string{{"ECHO", "ab c"}}, ""},
		{"quotes not closed", `ECHO "abc` + "\r\n", nil, "unbalanced quotes in request"},
		{"quote closed inside a word", `ECHO "abc"d` + "\r\n", nil, "unbalanced quotes in request"},
		{"backslash before the end", `ECHO "abc\` + "\r\n", nil, "unbalanced quotes in request"},
		{"unfinished hex", `ECHO "\x4"` + "\r\n", [][]string{{"ECHO", "x4"}}, ""},

		// Other protocols.
		{"HTTP POST", "POST / HTTP/1.1\r\nHost: x\r\n\r\n*1\r\n$8\r\nSHUTDOWN\r\n", nil, "this looks like HTTP"},
		{"HTTP GET", "GET / HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n", [][]string{{"GET", "/", "HTTP/1.1"}}, "this looks like HTTP"},
		{"HTTP POST behind white space", " \t\v\fPOST / HTTP/1.1\r\nPING\r\n", nil, "this looks like HTTP"},
		{"host behind white space", " host: x\r\n", nil, "this looks like HTTP"},
		{"host in lower case", "host: x\r\n", nil, "this looks like HTTP"},
		{"a word that begins like one", "POSTER\r\n", [][]string{{"POSTER"}}, ""},
		{"binary", "PING a\x00b\r\n", nil, "a NUL in an inline request"},
		{"binary without end", "\x00", nil, "a NUL in an inline request"},
		{"TLS", "\x16\x03\x01\x02\x00\x01", nil, "this looks like TLS"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, piece := range []int{1, 2, 3, 7, 1000, 1 << 30} {
				got, err := readAll([]byte(test.input), piece, &testLimits)
				if !reflect.DeepEqual(got, test.want) {
					t.Fatalf("in pieces of %d: got %.200q, want %.200q", piece, got, test.want)
				}
				switch {
				case err == nil && test.err == "":
				case err == nil || test.err == "" || !strings.HasPrefix(err.Error(), "Protocol error: "+test.err):
					t.Fatalf("in pieces of %d: got error %v, want %q…", piece, err, test.err)
				}
				if strings.ContainsAny(fmt.Sprint(err), "\r\n") {
					t.Fatalf("the error is no single line: %q", err)
				}
			}
		})
	}
}

// Before AUTH a client gets no room for more than it takes to log in.
func TestLimitsBeforeAuth(t *testing.T) {
	beforeAuth := Limits{Args: 10, Bulk: 4 << 10, Command: 6 << 10, BeforeAuth: true}
	for _, test := range []struct{ name, input, err string }{
		{"arguments", "*11\r\n", "Protocol error: unauthenticated multibulk length: 11 arguments, the limit before AUTH is 10"},
		{"length", "*1\r\n$4097\r\n", "Protocol error: unauthenticated bulk length: 4097 bytes in one argument, the limit before AUTH is 4096"},
		{"all", "*2\r\n$4096\r\n" + strings.Repeat("x", 4096) + "\r\n$2048\r\n", "Protocol error: unauthenticated multibulk length: 6166 bytes in one command, the limit before AUTH is 6144"},
	} {
		if _, err := readAll([]byte(test.input), 1, &beforeAuth); err == nil || err.Error() != test.err {
			t.Errorf("%s: got %v, want %s", test.name, err, test.err)
		}
	}
	if got, err := readAll([]byte("*10\r\n"+strings.Repeat("$1\r\nx\r\n", 10)), 1, &beforeAuth); err != nil || len(got) != 1 {
		t.Errorf("10 arguments: got %v, %v", got, err)
	}
}

// A command that comes byte by byte is looked at once: the work is counted in bytes that a look begins with, and each
// look may go over one header again.
func TestScanDoesNotStartAnew(t *testing.T) {
	for _, input := range []string{"*1024\r\n" + strings.Repeat("$1\r\nx\r\n", 1024), strings.Repeat("x ", 2000) + "\n"} {
		var s FrameScanner
		size := 0
		for i := range input {
			again := i - s.looked
			var err error
			if _, size, err = s.Scan([]byte(input[:i+1]), &testLimits, nil); err != nil {
				t.Fatal(err)
			}
			if again > headerMax {
				t.Fatalf("%.20q…: at byte %d the scanner looks at %d bytes again, want at most a header", input, i, again)
			}
		}
		if size != len(input) {
			t.Fatalf("%.20q…: got a size of %d, want %d", input, size, len(input))
		}
	}
}

// FuzzRequest: whatever the bytes, and however they are cut, the scanner finds what a plain reading of the rules finds, and
// redcon reads each frame so too.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\nPING\r\n*0\r\n*-1\r\n\r\n", "*1\r\n$9223372036854775807\r\n", "*9000000000000000000\r\n",
		"*1\r\n$-2\r\n", "$4 PING\r\n", `ECHO "a\x41" 'b\''` + "\r\n", "*1\r\n$4\r\nPINGxx", "*01\r\n", "*3\r\n$1\r\na\r\n$0\r\n\r\n$2\r\nbc\r\n*",
	} {
		f.Add([]byte(seed), uint16(3))
	}
	limits := Limits{Args: 8, Bulk: 64, Command: 128}
	f.Fuzz(func(t *testing.T, input []byte, piece uint16) {
		want, wantErr := plainly(input, limits)
		got, err := readAll(bytes.Clone(input), int(piece)+1, &limits)
		if !reflect.DeepEqual(got, want) || (err == nil) != (wantErr == nil) {
			t.Fatalf("%q in pieces of %d:\ngot  %q, %v\nwant %q, %v", input, int(piece)+1, got, err, want, wantErr)
		}
		whole, wholeErr := readAll(bytes.Clone(input), len(input)+1, &limits)
		if !reflect.DeepEqual(got, whole) || fmt.Sprint(err) != fmt.Sprint(wholeErr) {
			t.Fatalf("%q:\nin pieces of %d %q, %v\nas a whole %q, %v", input, int(piece)+1, got, err, whole, wholeErr)
		}
	})
}

var errPlain = errors.New("protocol error")

// plainly reads all commands of the input, which is never continued, with no thought for speed.
func plainly(input []byte, limits Limits) (commands [][]string, err error) {
	line := func(b []byte) (text string, size int, err error) { // of a header
		end := bytes.IndexByte(b, '\n')
		if end < 0 || end >= headerMax {
			if len(b) >= headerMax {
				return "", 0, errPlain
			}
			return "", 0, nil
		}
		if b[end-1] != '\r' {
			return "", 0, errPlain
		}
		return string(b[1 : end-1]), end + 1, nil
	}
	number := func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || strconv.Itoa(n) != text || n > 999999999 || n < -999999999 {
			return 0, errPlain
		}
		return n, nil
	}
	for len(input) > 0 {
		if input[0] != '*' {
			end := bytes.IndexByte(input, '\n')
			first, _, _ := bytes.Cut(input, []byte("\n"))
			switch {
			case input[0] == 0x16, bytes.IndexByte(first, 0) >= 0, end > InlineMax, end < 0 && len(input) > InlineMax:
				return commands, errPlain
			case end < 0:
				return commands, nil
			}
			text := strings.TrimSuffix(string(input[:end]), "\r")
			word, _, _ := strings.Cut(strings.TrimLeft(strings.Map(func(r rune) rune {
				if r < 128 && isSpace(byte(r)) {
					return ' '
				}
				return r
			}, text), " "), " ")
			if strings.EqualFold(word, "POST") || strings.EqualFold(word, "Host:") {
				return commands, errPlain
			}
			args, err := splitInline([]byte(text), nil)
			if err != nil {
				return commands, err
			}
			command := []string{}
			for _, arg := range args {
				command = append(command, string(arg))
			}
			if len(command) > 0 {
				commands = append(commands, command)
			}
			input = input[end+1:]
			continue
		}
		text, at, err := line(input)
		if err != nil || at == 0 {
			return commands, err
		}
		count, err := number(text)
		if err != nil || count > limits.Args {
			return commands, errPlain
		}
		command := []string{}
		for range max(count, 0) {
			if at == len(input) {
				return commands, nil
			}
			if input[at] != '$' {
				return commands, errPlain
			}
			text, size, err := line(input[at:])
			if err != nil || size == 0 {
				return commands, err
			}
			length, err := number(text)
			at += size
			if err != nil || length < 0 || length > limits.Bulk || at+length+2 > limits.Command {
				return commands, errPlain
			}
			if at+length+2 > len(input) {
				return commands, nil
			}
			command = append(command, string(input[at:at+length]))
			at += length
			if string(input[at:at+2]) != "\r\n" {
				return commands, errPlain
			}
			at += 2
		}
		if len(command) > 0 {
			commands = append(commands, command)
		}
		input = input[at:]
	}
	return commands, nil
}
