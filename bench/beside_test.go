package main

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// Goal: replies are told apart as a flood needs it. Method: a server that sends some.
func TestBesideReplies(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		far.Write([]byte("+PONG\r\n*2\r\n$5\r\ntoken\r\n:29000\r\n*-1\r\n-NOQUORUM why\r\n*0\r\n*1\r\n*2\r\n:1\r\n:2\r\n:7\r\n"))
		far.Close()
	}()
	c := &besideClient{Conn: near}
	for i, want := range []struct {
		text    string
		null    bool
		refusal string
	}{{"PONG", false, ""}, {"token", false, ""}, {"", true, ""}, {"", false, "NOQUORUM why"}, {"", false, ""}, {"", false, ""}, {"", false, ""}} {
		text, null, err := c.reply()
		if text != want.text || null != want.null || want.refusal == "" && err != nil || want.refusal != "" && (err == nil || err.Error() != want.refusal || isBroken(err)) {
			t.Errorf("reply %d: got %q, null %t, %v, want %+v", i+1, text, null, err, want)
		}
	}
	if _, _, err := c.reply(); !isBroken(err) {
		t.Errorf("at the end of the stream: got %v, want an error of the connection", err)
	}
}

// Every flood can be written, and no two of its commands lock the same resource.
func TestFloods(t *testing.T) {
	for _, f := range floods {
		if f.command == nil {
			if f.raw == "" {
				t.Errorf("%s: it sends nothing", f.name)
			}
			continue
		}
		one, other := f.command(1, 2), f.command(1, 3)
		if one[0] == "LOCK" && !strings.Contains(f.name, "refused") && one[1] == other[1] {
			t.Errorf("%s: %.40q is locked twice", f.name, one[1])
		}
	}
	if n := len(besideWays); n != 2*len(floods)-1 {
		t.Errorf("%d ways, want two for each of %d floods, and one for that which fills the masters", n, len(floods))
	}
}

// Goal: the recovery is counted to the first LOCKs in a row that are as fast as before.
func TestRecovered(t *testing.T) {
	us := func(slow, fast int) []uint32 {
		return slices.Concat(slices.Repeat([]uint32{900}, slow), slices.Repeat([]uint32{110}, fast))
	}
	for _, tt := range []struct {
		us   []uint32
		want time.Duration
	}{
		{us(0, 150), 0},
		{us(20, 130), 16 * 20 * time.Millisecond}, // five of ten are fast, from the sixteenth on
		{us(150, 0), 3 * time.Second},
		{us(5, 0), 100 * time.Millisecond},
	} {
		if got := recovered(tt.us, 100); got != tt.want {
			t.Errorf("%d LOCKs: got %v, want %v", len(tt.us), got, tt.want)
		}
	}
}
