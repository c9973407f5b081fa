package proxy

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Inline commands and frames are read as a real Redis reads them.
func TestFramesAsRedis(t *testing.T) {
	redis, ours := startRedis(t), serve(t)
	for _, input := range []string{
		`ECHO a"b c"d`, `ECHO "a b"`, `ECHO 'a b'`, `ECHO "\x41\x4a\x4A\n\r\t\b\a\\\"\'\q"`, `ECHO '\x41\n\'\q'`, `ECHO "" ''`, `ECHO ""`,
		`ECHO "a`, `ECHO 'a`, `ECHO "a"b`, `ECHO 'a'b`, `ECHO "\`, `ECHO "\x4`, "ECHO\ta\vb\f", `ECHO a'b'"c"`, `echo "\x4g"`, ` "PING" `, `"" a`,
		"*0", "*-1", "*-7", "*1\r\n$4\r\nPING\r\n*0\r\n*1\r\n$4\r\nPING", "*2\r\n$4\r\nECHO\r\n$0\r\n",
		"$4\r\nPING", "+PING", "PING\nPING",
	} {
		// A reader that has stopped at a wrong frame answers neither of the commands behind it.
		got, want := answersTo(t, ours.addr, input), answersTo(t, redis.Addr, input)
		if got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", input, got, want)
		}
	}
	// Wrong in Redis too, but we say more.
	for _, input := range []string{"*x", "*1\r\n$x", "*1\r\n$-1", "*1\r\n:1", "*+1", "*01", "*1\r\n$01\r\na", "*9223372036854775807", "*1\r\n$9223372036854775807"} {
		const wrong = "-ERR Protocol error: "
		got, want := answersTo(t, ours.addr, input), answersTo(t, redis.Addr, input)
		if !strings.HasPrefix(got, wrong) || !strings.HasPrefix(want, wrong) {
			t.Errorf("%q:\ngot  %s\nwant %s, or another error", input, got, want)
		}
	}
}

// answersTo sends the input, and two commands behind it, and returns the replies until the second is answered or the
// connection is closed.
func answersTo(t *testing.T, addr, input string) string {
	t.Helper()
	c := dialTo(t, addr)
	c.raw(input + "\r\nECHO behind\r\n*2\r\n$4\r\nECHO\r\n$3\r\nend\r\n")
	var all []string
	for !slices.Contains(all, `"end"`) {
		c.conn.SetReadDeadline(time.Now().Add(patience))
		text, err := readReply(c.r)
		if err != nil {
			all = append(all, "closed")
			break
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}
