package redlock

// Goal: a master that sends what no Redis would is refused, and what it says is shown clipped. Method: directed replies.

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/conn"
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

func replies(text string, piece int) *conn.Wire {
	s := &source{piece: piece}
	s.Reset([]byte(text))
	return &conn.Wire{Socket: s}
}

// What no Redis sends refuses the master; package resp has the rules.
func TestWireRefusesNonsense(t *testing.T) {
	for _, text := range []string{"OK\r\n", "$9223372036854775807\r\n", "*16385\r\n", "$3\r\nabcd\r\n", strings.Repeat("+", 20_000)} {
		got, err := replies(text, 4096).ReadReply()
		if err == nil || !conn.IsRefused(err) {
			t.Errorf("%.20q: got %+v %v, want the master refused", text, got, err)
		}
	}
	if _, err := replies("+O", 4096).ReadReply(); err != io.EOF {
		t.Errorf("half a reply and the end: got %v, want %v", err, io.EOF)
	}
}

// What a master replies in the place of a result is shown in logs and to clients.
func TestWireClipsErrors(t *testing.T) {
	got, err := replies("-ERR \x1b[2J"+strings.Repeat("x", 2000)+"\r\n", 4096).ReadReply()
	if err != nil {
		t.Fatal(err)
	}
	if text := conn.ErrorIn(got).Error(); !strings.HasPrefix(text, "ERR ?[2Jxxx") || len(text) > conn.TextMax+len("…") {
		t.Errorf("got %q, want a short text", text)
	}
}
