package redlock

// Goal: whatever a master sends, the parser of replies ends with a reply or an error, in bounded memory. Method: directed replies
// through a pipe, and fuzzing.

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// source is a connection that only brings bytes, few at a time.
type source struct {
	net.Conn
	bytes.Reader
	piece int
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p[:min(s.piece, len(p))])
	return n, err
}
func (s *source) Write(p []byte) (int, error)      { return len(p), nil }
func (s *source) Close() error                     { return nil }
func (s *source) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (s *source) SetDeadline(time.Time) error      { return nil }
func (s *source) SetReadDeadline(time.Time) error  { return nil }
func (s *source) SetWriteDeadline(time.Time) error { return nil }

func replies(text string, piece int) *wire {
	s := &source{piece: piece}
	s.Reset([]byte(text))
	return &wire{socket: s}
}

func TestWireReadsReplies(t *testing.T) {
	const text = "+OK\r\n-ERR no\r\n:42\r\n:-1\r\n$3\r\na\r\n\r\n$-1\r\n$0\r\n\r\n*2\r\n*-1\r\n"
	want := []reply{
		{kind: '+', text: []byte("OK")}, {kind: '-', text: []byte("ERR no")}, {kind: ':', n: 42}, {kind: ':', n: -1},
		{kind: '$', n: 3, text: []byte("a\r\n")}, {kind: '$', n: -1, null: true}, {kind: '$', text: []byte{}},
		{kind: '*', n: 2}, {kind: '*', n: -1, null: true},
	}
	for piece := range 12 {
		w := replies(text, piece+1)
		for i, want := range want {
			got, err := w.next()
			if err != nil || got.kind != want.kind || got.n != want.n || got.null != want.null || !bytes.Equal(got.text, want.text) {
				t.Errorf("%d bytes at a time, reply %d: got %+v %v, want %+v", piece+1, i, got, err, want)
			}
		}
		if _, err := w.next(); err != io.EOF {
			t.Errorf("at the end: got %v, want %v", err, io.EOF)
		}
	}
}

// A value that only a stranger can have stored is passed over, and what follows is read as usual.
func TestWirePassesOverLongValues(t *testing.T) {
	w := replies("$1000000\r\n"+strings.Repeat("x", 1_000_000)+"\r\n:7\r\n", 4096)
	got, err := w.next()
	if err != nil || got.err() == nil || got.err().Error() != "ERR a value of 1000000 bytes" {
		t.Errorf("got %+v %v, want an error that says how long it is", got, err)
	}
	if after, err := w.next(); err != nil || after.n != 7 {
		t.Errorf("the reply behind: got %+v %v, want 7", after, err)
	}
	if cap(w.in) > 2*replyMax {
		t.Errorf("buffer of %d bytes, want at most %d", cap(w.in), 2*replyMax)
	}
}

func TestWireRefusesNonsense(t *testing.T) {
	for _, text := range []string{
		"\r\n", "OK\r\n", "O", ":x\r\n", "$99999999999999999999\r\n", "%2\r\n", strings.Repeat("+", lineMax+9000),
		"$9223372036854775807\r\n", "$9223372036854775806\r\n", "$536870913\r\n", "$-2\r\n", "*-2\r\n", "*9223372036854775807\r\n", "*16385\r\n",
		"$3\r\nabcd\r\n", "$3\r\nabc\n\n",
	} {
		w := replies(text, 4096)
		got, err := w.next()
		if err == nil || !isRefused(err) {
			t.Errorf("%.20q: got %+v %v, want the master refused", text, got, err)
		}
		if cap(w.in) > 2*replyMax {
			t.Errorf("%.20q: buffer of %d bytes, want at most %d", text, cap(w.in), 2*replyMax)
		}
	}
}

// What a master replies in the place of a result is shown in logs and to clients.
func TestWireClipsErrors(t *testing.T) {
	got, err := replies("-ERR \x1b[2J"+strings.Repeat("x", 2000)+"\r\n", 4096).next()
	if err != nil {
		t.Fatal(err)
	}
	if text := got.err().Error(); !strings.HasPrefix(text, "ERR ?[2Jxxx") || len(text) > shownMax+len("…") {
		t.Errorf("got %q, want a short text", text)
	}
}

func FuzzWire(f *testing.F) {
	for _, text := range []string{
		"+OK\r\n$3\r\nabc\r\n*2\r\n:1\r\n:2\r\n$-1\r\n", "$70000\r\nxx",
		// 63 bits and their edges.
		"$9223372036854775807\r\n", "$9223372036854775806\r\n", "$9223372036854775805\r\nxx\r\n", "$9223372036854775808\r\n", "$-9223372036854775808\r\n",
		"*9223372036854775807\r\n:1\r\n", "*-9223372036854775808\r\n", ":9223372036854775807\r\n:-9223372036854775808\r\n", "$4294967296\r\n", "$2147483647\r\n",
	} {
		f.Add([]byte(text), byte(0))
		f.Add([]byte(text), byte(200))
	}
	f.Fuzz(func(t *testing.T, text []byte, piece byte) {
		w := replies(string(text), int(piece)+1)
		for n := 0; ; n++ {
			if _, err := w.next(); err != nil {
				break
			}
			if n > len(text) {
				t.Fatal("more replies than bytes")
			}
		}
		if cap(w.in) > wireKeep {
			t.Fatalf("buffer of %d bytes for %d", cap(w.in), len(text))
		}
	})
}
