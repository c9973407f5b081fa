package rawio

import (
	"net"
	"testing"
	"time"
)

func TestUnread(t *testing.T) {
	near, far := pair(t, "tcp")
	if Unread(near) {
		t.Error("nothing was sent: got unread bytes")
	}
	if _, err := far.Write([]byte("ab")); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !Unread(near); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("two bytes were sent: got none that are unread")
		}
	}
	var b [2]byte
	if n, err := New(near).Read(b[:1]); n != 1 || err != nil || !Unread(near) {
		t.Errorf("one of two was read: got %d, %v, unread %v", n, err, Unread(near))
	}
	if n, err := New(near).Read(b[:]); n != 1 || err != nil || b[0] != 'b' || Unread(near) {
		t.Errorf("both were read: got %q, %v, unread %v", b[:n], err, Unread(near))
	}
	pipe, other := net.Pipe()
	defer pipe.Close()
	defer other.Close()
	if Unread(pipe) {
		t.Error("a pipe has no buffer: got unread bytes")
	}
}
