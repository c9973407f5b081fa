// Goal: whatever bytes come, frameReader neither panics nor spins nor grows beyond its bounds, and what it returns does not
// depend on how the bytes were cut into reads. Method: the packets known to kill or spin redcon's parser, and a fuzz
// target that feeds every input three ways.
package memmaster

import (
	"fmt"
	"strings"
	"testing"
)

// readAll feeds input in pieces of the given size and returns the commands, and the error that ended them.
func readAll(input string, piece int) (commands []string, err error) {
	var f frameReader
	var args [][]byte
	for len(input) > 0 {
		n := copy(f.space(), input[:min(piece, len(input))])
		f.added(n)
		input = input[n:]
		for {
			next, err := f.next(args[:0])
			if err != nil {
				return commands, err
			}
			if next == nil {
				break
			}
			commands = append(commands, fmt.Sprintf("%q", next))
		}
		if limit := 2*frameBytesMax + 4*readBytes; cap(f.buf) > limit {
			return commands, fmt.Errorf("buffer of %d bytes, limit %d", cap(f.buf), limit)
		}
	}
	return commands, nil
}

func TestFrames(t *testing.T) {
	const set = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n"
	for _, test := range []struct {
		name, input string
		want        string // commands, then the error
	}{
		{"pipeline", set + set, `["SET" "k" "\r\n"] ["SET" "k" "\r\n"]`},
		{"inline", "set k \"a b\"\r\nPING\n", `["set" "k" "a b"] ["PING"]`},
		{"nothing", "\r\n*0\r\n*-1\r\n  \r\nPING\r\n", `["PING"]`},
		{"unfinished", "*2\r\n$4\r\nECHO\r\n$3\r\nab", ``},
		{"good before bad", "PING\r\n*x\r\n", `["PING"] Protocol error: invalid multibulk length`},
		{"bulk length overflows", "*1\r\n$9223372036854775807\r\na\r\n", `Protocol error: invalid bulk length`},
		{"bulk length of 63 digits", "*1\r\n$1" + strings.Repeat("9", 62) + "\r\nabc\r\n", `Protocol error: too big bulk count string`},
		{"bulk length wraps", "*1\r\n$18446744073709551620\r\nPING\r\n", `Protocol error: invalid bulk length`},
		{"bulk length negative", "*1\r\n$-2\r\n", `Protocol error: invalid bulk length`},
		{"bulk length signed", "*1\r\n$+4\r\nPING\r\n", `Protocol error: invalid bulk length`},
		{"bulk too long", fmt.Sprintf("*1\r\n$%d\r\n", bulkBytesMax+1), `Protocol error: invalid bulk length`},
		{"bulk without end", "*1\r\n$4\r\nPINGxx", `Protocol error: invalid bulk length`},
		{"count spins", "*9000000000000000000\r\n", `Protocol error: invalid multibulk length`},
		{"count too large", fmt.Sprintf("*%d\r\n", argsMax+1), `Protocol error: invalid multibulk length`},
		{"count without CR", "*1\n$4\r\nPING\r\n", `Protocol error: invalid multibulk length`},
		{"count endless", "*" + strings.Repeat("1", headerBytesMax), `Protocol error: too big mbulk count string`},
		{"not a bulk", "*1\r\nPING\r\n", `Protocol error: expected '$', got 'P'`},
		{"tile38", "$4 PING\r\n", `Protocol error: expected '*', got '$'`},
		{"tile38 negative", "$-5 abc\r\n", `Protocol error: expected '*', got '$'`},
		{"inline endless", strings.Repeat("a ", inlineBytesMax/2), `Protocol error: too big inline request`},
		{"inline quotes", "set \"k\r\n", `Protocol error: unbalanced quotes in request`},
		{"frame too long", fmt.Sprintf("*%d\r\n", argsMax) + strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", bulkBytesMax, strings.Repeat("x", bulkBytesMax)), 4),
			`Protocol error: invalid bulk length`},
	} {
		for _, piece := range []int{len(test.input), 1, 7} {
			if piece < len(test.input) && len(test.input) > 1<<20 {
				continue // byte by byte it takes too long
			}
			commands, err := readAll(test.input, piece)
			if err != nil {
				commands = append(commands, err.Error())
			}
			if got := strings.Join(commands, " "); got != test.want {
				t.Errorf("%s in pieces of %d:\n got %s\nwant %s", test.name, piece, got, test.want)
			}
		}
	}
}

func TestFramesUnalignedTrafficStaysSmall(t *testing.T) {
	// A pipelining client whose reads never end at the end of a command must not make the buffer grow.
	var f frameReader
	command := "*2\r\n$3\r\nGET\r\n$1000\r\n" + strings.Repeat("k", 1000) + "\r\n"
	traffic := strings.Repeat(command, (20<<20)/len(command))
	for len(traffic) > 0 {
		n := copy(f.space(), traffic[:min(readBytes-1, len(traffic))])
		f.added(n)
		traffic = traffic[n:]
		for {
			args, err := f.next(nil)
			if err != nil {
				t.Fatal(err)
			}
			if args == nil {
				break
			}
		}
	}
	if limit := 4 * readBytes; cap(f.buf) > limit {
		t.Errorf("buffer after 20 MB: got %d bytes, want at most %d", cap(f.buf), limit)
	}
}

func TestParseInt(t *testing.T) {
	for _, test := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true}, {"7", 7, true}, {"-7", -7, true}, {"9223372036854775807", 9223372036854775807, true},
		{"-9223372036854775808", -9223372036854775808, true}, {"9223372036854775808", 0, false},
		{"-9223372036854775809", 0, false}, {"99999999999999999999", 0, false}, {"", 0, false}, {"-", 0, false},
		{"+1", 0, false}, {"01", 0, false}, {"-0", 0, false}, {" 1", 0, false}, {"1a", 0, false}, {"1.0", 0, false},
	} {
		if got, ok := parseInt([]byte(test.in)); got != test.want || ok != test.ok {
			t.Errorf("parseInt(%q): got %d, %v, want %d, %v", test.in, got, ok, test.want, test.ok)
		}
	}
}

func FuzzFrames(f *testing.F) {
	for _, seed := range []string{
		"*1\r\n$4\r\nPING\r\n", "PING\r\n\r\n*0\r\n*-1\r\n", "*1\r\n$9223372036854775807\r\na\r\n", "*9000000000000000000\r\n",
		"*1\r\n$-2\r\n", "$-5 abc\r\n", "set k \"a\\x\" 'b'\r\n", "*2\r\n$3\r\nGET\r\n$0\r\n\r\n*1\r\n", "\x00\xff*\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		whole, wholeErr := readAll(input, max(1, len(input)))
		for _, piece := range []int{1, 5} {
			pieces, err := readAll(input, piece)
			if got, want := strings.Join(pieces, " "), strings.Join(whole, " "); got != want {
				t.Errorf("%q in pieces of %d:\n got %s\nwant %s", input, piece, got, want)
			}
			if fmt.Sprint(err) != fmt.Sprint(wholeErr) {
				t.Errorf("%q in pieces of %d: got error %v, want %v", input, piece, err, wholeErr)
			}
		}
	})
}
