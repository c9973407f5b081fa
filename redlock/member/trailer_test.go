package member

import (
	"net"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/conn"
)

// answering is a wire on which these replies come, and then the end.
func answering(t *testing.T, replies string) *conn.Wire {
	ours, theirs := net.Pipe()
	go func() {
		theirs.Write([]byte(replies))
		theirs.Close()
	}()
	t.Cleanup(func() { ours.Close() })
	return &conn.Wire{Socket: ours}
}

// A trailer says what the master shows, or is an error. Nothing of a part of it counts.
func TestTrailer(t *testing.T) {
	const whole = "*2\r\n$4\r\nr:m \r\n$2\r\n17\r\n*2\r\n$10\r\n1800000000\r\n$3\r\n250\r\n"
	want := Trailer{Shown: "r:m ", Beat: 17, Clock: time.Unix(1_800_000_000, 250_000)}
	for _, shown := range []string{"r:m ", "before "} {
		if got, err := ReadTrailer(answering(t, whole), shown); got != want || err != nil {
			t.Errorf("where %q was shown before: got %+v, %v, want %+v", shown, got, err, want)
		}
	}
	if got, err := ReadTrailer(answering(t, "*2\r\n$-1\r\n$-1\r\n"+whole[strings.LastIndex(whole, "*"):]), "before "); got != (Trailer{Clock: want.Clock}) || err != nil {
		t.Errorf("without a membership: got %+v, %v, want the clock alone", got, err)
	}
	for n := range len(whole) {
		if _, err := ReadTrailer(answering(t, whole[:n]), "r:m "); err == nil {
			t.Errorf("%q, and then the end: got no error", whole[:n])
		}
	}
	for old, bad := range map[string]string{"*2\r\n$4": "*3\r\n$4", "*2\r\n$10": "*3\r\n$10", "$10\r\n1800000000": "$10\r\n18000x0000", "$3\r\n250": "-ERR no"} {
		if got, err := ReadTrailer(answering(t, strings.Replace(whole, old, bad, 1)), "r:m "); err == nil {
			t.Errorf("%q for %q: got %+v, and no error", bad, old, got)
		}
	}
}
