package resp

// Goal: whatever a master sends, its replies are read within bounds, or refused, however they are cut into packets; and both readers
// refuse the same. Method: directed replies in pieces of several sizes, and fuzzing.

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

// pieces brings bytes, few at a time.
type pieces struct {
	rest string
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.rest == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(p.size, len(b))], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// reading is a reader with what it reads.
type reading struct {
	ReplyReader
	conn pieces
}

func readerOf(text string, size int) *reading { return &reading{conn: pieces{text, size}} }

func (r *reading) next() (Reply, error) { return r.ReadReply(&r.conn) }

func TestReadReply(t *testing.T) {
	const text = "+OK\r\n-ERR no\r\n:42\r\n:-1\r\n$3\r\na\r\n\r\n$-1\r\n$0\r\n\r\n*2\r\n*-1\r\n+\r\n"
	want := []Reply{
		{Kind: '+', Text: []byte("OK")}, {Kind: '-', Text: []byte("ERR no")}, {Kind: ':', N: 42}, {Kind: ':', N: -1},
		{Kind: '$', N: 3, Text: []byte("a\r\n")}, {Kind: '$', N: -1, Null: true}, {Kind: '$', Text: []byte{}},
		{Kind: '*', N: 2}, {Kind: '*', N: -1, Null: true}, {Kind: '+', Text: []byte{}},
	}
	for size := range 12 {
		r := readerOf(text, size+1)
		for i, want := range want {
			got, err := r.next()
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%d bytes at a time, reply %d: got %+v %v, want %+v", size+1, i, got, err, want)
			}
		}
		if _, err := r.next(); err != io.EOF || !r.Drained() {
			t.Errorf("at the end: got %v, want %v", err, io.EOF)
		}
	}
}

// A value that only a stranger can have stored is passed over, and what follows is read as usual.
func TestReadReplyPassesOverLongStrings(t *testing.T) {
	for _, size := range []int{100, 4096, 2_000_000} {
		r := readerOf("$1000000\r\n"+strings.Repeat("x", 1_000_000)+"\r\n:7\r\n", size)
		got, err := r.next()
		if err != nil || got.Kind != '-' || string(got.Text) != "ERR a value of 1000000 bytes" {
			t.Errorf("got %+v %v, want an error that says how long it is", got, err)
		}
		if after, err := r.next(); err != nil || after.N != 7 {
			t.Errorf("the reply behind: got %+v %v, want 7", after, err)
		}
		if cap(r.in.b) > bufferKeep {
			t.Errorf("buffer of %d bytes, want at most %d", cap(r.in.b), bufferKeep)
		}
	}
}

func TestReplyMethods(t *testing.T) {
	null, text, number := Reply{Kind: '$', N: -1, Null: true}, Reply{Kind: '$', N: 2, Text: []byte("42")}, Reply{Kind: ':', N: 7}
	if null.Is("") || !text.Is("42") || number.Is("7") {
		t.Errorf("Is: got %v, %v, %v, want false, true, false", null.Is(""), text.Is("42"), number.Is("7"))
	}
	for _, tt := range []struct {
		reply Reply
		n     int64
		ok    bool
	}{{null, 0, false}, {text, 42, true}, {number, 7, true}, {Reply{Kind: '+', Text: []byte("1")}, 1, false}} {
		if n, ok := tt.reply.Int(); ok != tt.ok || ok && n != tt.n {
			t.Errorf("%+v: got %d, %v, want %d, %v", tt.reply, n, ok, tt.n, tt.ok)
		}
	}
}

// What no Redis sends is refused by both readers.
func TestRepliesOfNoRedis(t *testing.T) {
	many := strings.Repeat
	for _, tt := range []struct {
		text string
		want string // in the error
	}{
		{"\r\n", `a reply that begins with '\r'`},
		{"OK\r\n", "a reply that begins with 'O'"},
		{"O", "a reply that begins with 'O'"},
		{"%1\r\n", "a reply that begins with '%'"},
		{">1\r\n", "a reply that begins with '>'"},
		{"_\r\n", "a reply that begins with '_'"},
		{"HTTP/1.1 400", "a reply that begins with 'H'"},
		{":x\r\n", "an integer that is no number"},
		{":\r\n", "an integer that is no number"},
		{":9223372036854775808\r\n", "an integer that is no number"},
		{"$-2\r\n", "a length that is no number"},
		{"*-2\r\n", "a length that is no number"},
		{"$--1\r\n", "a length that is no number"},
		{"$-\r\n", "a length that is no number"},
		{"$-01\r\n", "a length that is no number"},
		{"$\r\n", "a length that is no number"},
		{"$+1\r\n", "a length that is no number"},
		{"$1x\r\n", "a length that is no number"},
		{"$99999999999999999999\r\n", "a length that is no number"},
		{"*?\r\n", "a length that is no number"},
		{"$9223372036854775807\r\n", "a string of more than"},
		{"$9223372036854775806\r\n", "a string of more than"},
		{"$536870913\r\n", "a string of more than"},
		{"*9223372036854775807\r\n", "more than 16384 elements"},
		{"*16385\r\n", "more than 16384 elements"},
		{"$3\r\nabcd\r\n", "a string that is longer than it says"},
		{"$3\r\nabc\r\r", "a string that is longer than it says"},
		{"$3\r\nabc\n\n", "a string that is longer than it says"},
		{"-ERR\n", "a line without an end"},
		{"+a\rb\r\n", "a line without an end"},
		{"+" + many("x", LineMax+1) + "\r\n", "a line without an end"},
		{many("+", LineMax+9000), "a line without an end"},
		{"$" + many("0", LineMax+2), "a line without an end"},
	} {
		for _, size := range []int{1, 2, 3, 5, 7, 4096, 1 << 21} {
			r := readerOf(tt.text, size)
			got, err := r.next()
			if !isReplyError(err) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%.40q, %d bytes at a time: read %+v, %v, want %q", tt.text, size, got, err, tt.want)
			}
			if cap(r.in.b) > 2*TextMax {
				t.Errorf("%.40q: buffer of %d bytes, want at most %d", tt.text, cap(r.in.b), 2*TextMax)
			}
			if err := checkAll(tt.text, size); !isReplyError(err) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%.40q, %d bytes at a time: check says %v, want %q", tt.text, size, err, tt.want)
			}
		}
	}
}

func isReplyError(err error) bool {
	_, ok := errors.AsType[ReplyError](err)
	return ok
}

// checkAll has a check go over the text in pieces of this size.
func checkAll(text string, size int) error {
	var c ReplyCheck
	for ; text != ""; text = text[min(size, len(text)):] {
		if err := c.Check([]byte(text[:min(size, len(text))])); err != nil {
			return err
		}
	}
	return nil
}

// A check has bounds of its own, for what answers one request.
func TestReplyCheck(t *testing.T) {
	many := func(n int, text string) string { return strings.Repeat(text, n) }
	for _, tt := range []struct {
		text string
		want string // in the error; empty: it passes
	}{
		{"+OK\r\n-ERR no\r\n:1\r\n:-1\r\n$3\r\na\r\n\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n*2\r\n*1\r\n:1\r\n$1\r\nx\r\n+OK\r\n", ""},
		{"+\r\n", ""},
		{many(DepthMax, "*1\r\n") + ":1\r\n+OK\r\n", ""},
		{many(DepthMax+1, "*1\r\n"), "arrays in more than 8 arrays"},
		{"*2\r\n" + many(DepthMax-1, "*1\r\n") + ":1\r\n" + many(DepthMax-1, "*1\r\n") + ":1\r\n", ""},
		{"*16383\r\n" + many(16383, ":1\r\n"), ""},
		{"*16383\r\n" + many(16383, ":1\r\n") + ":1\r\n", "more than 16384 elements"},
		{many(16384, ":1\r\n"), ""},
		{many(16385, ":1\r\n"), "more than 16384 elements"},
		{many(5, "*4000\r\n"), "more than 16384 elements"},
		{"$1048576\r\n" + many(1<<20-20, "x"), ""},
		{"$1048576\r\n" + many(1<<20, "x"), "more than 1048576 bytes in answer to one request"},
		{"$1048577\r\n", "a string of more than 1048576 bytes"},
		{"*0\r\n:1\r\n$9223372036854775800\r\n", "a string of more than"},
		{"+" + many(LineMax, "x") + "\r\n", ""},
	} {
		for _, size := range []int{1, 2, 3, 5, 7, 4096, 1 << 21} {
			err := checkAll(tt.text, size)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("%.40q, %d bytes at a time: got %v, want no error", tt.text, size, err)
			case tt.want != "" && (!isReplyError(err) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%.40q, %d bytes at a time: got %v, want %q", tt.text, size, err, tt.want)
			}
		}
	}
}

// FuzzReply: what is read does not depend on how the bytes were cut, takes bounded memory, and what the reader refuses the check
// refuses too.
func FuzzReply(f *testing.F) {
	for _, text := range []string{
		"+OK\r\n$3\r\nabc\r\n*2\r\n:1\r\n:2\r\n$-1\r\n", "$70000\r\nxx",
		// 63 bits and their edges.
		"$9223372036854775807\r\n", "$9223372036854775806\r\n", "$9223372036854775805\r\nxx\r\n", "$9223372036854775808\r\n", "$-9223372036854775808\r\n",
		"*9223372036854775807\r\n:1\r\n", "*-9223372036854775808\r\n", ":9223372036854775807\r\n:-9223372036854775808\r\n", "$4294967296\r\n", "$2147483647\r\n",
		"*0\r\n:1\r\n$9223372036854775800\r\n", "%1000000000\r\n", "|9223372036854775807\r\n", strings.Repeat("*2\r\n", 9), "-ERR unknown command\r\n+OK\r\n",
	} {
		f.Add([]byte(text), byte(0))
		f.Add([]byte(text), byte(200))
	}
	f.Fuzz(func(t *testing.T, text []byte, size byte) {
		read := func(size int) (replies []Reply, err error) {
			r := readerOf(string(text), size)
			for {
				reply, err := r.next()
				if cap(r.in.b) > bufferKeep {
					t.Fatalf("buffer of %d bytes for %d", cap(r.in.b), len(text))
				}
				if err != nil {
					return replies, err
				}
				if reply.Text != nil {
					reply.Text = bytes.Clone(reply.Text)
				}
				if replies = append(replies, reply); len(replies) > len(text) {
					t.Fatal("more replies than bytes")
				}
			}
		}
		whole, wholeErr := read(len(text) + 1)
		got, err := read(int(size) + 1)
		if !reflect.DeepEqual(got, whole) || err != wholeErr {
			t.Fatalf("%q\nin pieces of %d %+v, %v\nas a whole %+v, %v", text, int(size)+1, got, err, whole, wholeErr)
		}
		if err := checkAll(string(text), int(size)+1); isReplyError(wholeErr) && !isReplyError(err) {
			t.Fatalf("%q: the reader says %v, the check %v", text, wholeErr, err)
		}
	})
}
