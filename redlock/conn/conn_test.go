package conn

// Goal: a master that sends what no Redis would is refused, and what it says is shown clipped; go-redis gets nothing to read but what a Redis could
// send, so that no reply takes the process, or more memory than a bound. Method: directed replies, in pieces of every size; fuzzing, with the real
// go-redis behind the check.

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"redlockd/redlock/resp"
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

func replies(text string, piece int) *Wire {
	s := &source{piece: piece}
	s.Reset([]byte(text))
	return &Wire{Socket: s}
}

// What no Redis sends refuses the master; package resp has the rules.
func TestWireRefusesNonsense(t *testing.T) {
	for _, text := range []string{"OK\r\n", "$9223372036854775807\r\n", "*16385\r\n", "$3\r\nabcd\r\n", strings.Repeat("+", 20_000)} {
		got, err := replies(text, 4096).ReadReply()
		if err == nil || !IsRefused(err) {
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
	if text := ErrorIn(got).Error(); !strings.HasPrefix(text, "ERR ?[2Jxxx") || len(text) > textMax+len("…") {
		t.Errorf("got %q, want a short text", text)
	}
}

// The bounds are for one request, and a failed connection stays so.
func TestReplyCheckOfAConnection(t *testing.T) {
	s := &source{piece: 1 << 20}
	s.Reset([]byte(strings.Repeat(":1\r\n", 3*resp.ElementsMax) + "%"))
	c := &checkedConn{Conn: s}
	reply := make([]byte, 4*resp.ElementsMax)
	for range 3 {
		if _, err := c.Write([]byte("request")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, reply); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if n, err := c.Read(reply); n != 0 || !IsRefused(err) {
			t.Errorf("got %d bytes, %v, want none and the master refused", n, err)
		}
	}
}

// FuzzReplyCheck has go-redis read what passes.
func FuzzReplyCheck(f *testing.F) {
	for _, text := range []string{
		"*0\r\n:1\r\n$9223372036854775800\r\n", "$9223372036854775807\r\n", "$100000000000\r\n", "*10000000000\r\n", "%1000000000\r\n", "|9223372036854775807\r\n",
		"*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:5\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n" +
			":5\r\n$14\r\n# Server\r\na:1\r\n\r\n*3\r\n$-1\r\n$-1\r\n$1\r\n1\r\n*2\r\n$1\r\n1\r\n$1\r\n2\r\n*2\r\n$1\r\nk\r\n$1\r\n1\r\n*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n",
		"-ERR unknown command\r\n+OK\r\n", strings.Repeat("*2\r\n", 9), "$-1\r\n*-1\r\n",
	} {
		f.Add([]byte(text), byte(0))
		f.Add([]byte(text), byte(255))
	}
	f.Fuzz(func(t *testing.T, text []byte, piece byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s := &source{piece: int(piece) + 1}
		s.Reset(text)
		dialed := false
		client := redis.NewClient(&redis.Options{Protocol: 2, MaxRetries: -1, PoolSize: 1, PipelinePoolSize: -1, DialerRetries: 1, DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				if dialed {
					return nil, errBroken
				}
				dialed = true
				return &checkedConn{Conn: s}, nil
			}})
		defer client.Close()
		link := client.Conn()
		defer link.Close()
		ctx := context.Background()
		pipe := link.Pipeline()
		pipe.ClientID(ctx)
		pipe.Info(ctx)
		pipe.MGet(ctx, "a", "b", "c")
		pipe.Time(ctx)
		pipe.ZRevRangeWithScores(ctx, "a", 0, 0)
		pipe.Scan(ctx, 0, "", 1)
		pipe.EvalSha(ctx, "", nil)
		pipe.ConfigGet(ctx, "save")
		pipe.Exec(ctx)
		for n := 0; ; n++ {
			if err := link.Do(ctx, "x").Err(); !Replied(err) {
				break
			}
			if n > len(text) {
				t.Fatal("more replies than bytes")
			}
		}
		runtime.ReadMemStats(&after)
		// A buffer for each direction, the bounds of a request, and what replies make of their bytes.
		if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20+256*uint64(len(text)) {
			t.Fatalf("%d bytes were allocated for %d", took, len(text))
		}
	})
}

// A function on the way that recovers, cleans up and panics again, as go-redis has one, is not the one that is named.
func TestPanicIsToldWhereItBegan(t *testing.T) {
	again := func() error {
		defer func() { panic(recover()) }()
		_, err := (&unread{}).Read(nil)
		return err
	}
	for _, f := range []func() error{again, func() error { defer func() { panic(recover()) }(); return again() }} {
		if err := RecoverPanic(f); err == nil || !strings.Contains(err.Error(), "unread).Read, line ") {
			t.Errorf("got %v, want the name of the function that has panicked first", err)
		}
	}
}

// unread panics when it is read.
type unread struct{ net.Conn }

func (*unread) Read([]byte) (int, error) { panic("unread") }

func TestParseInfo(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       map[string]string
	}{
		{"nothing", "", map[string]string{}},
		{"sections", "# Server\r\nredis_version:7.0.15\r\n\r\n# Memory\r\nmaxmemory:0\r\n", map[string]string{"redis_version": "7.0.15", "maxmemory": "0"}},
		{"bare newlines, no last one", "role:master\nconnected_slaves:0", map[string]string{"role": "master", "connected_slaves": "0"}},
		{"colons in the value", "listener0:name=tcp,bind=::1,port=6379\r\n", map[string]string{"listener0": "name=tcp,bind=::1,port=6379"}},
		{"empty value", "maxmemory_policy:\r\n", map[string]string{"maxmemory_policy": ""}},
		{"no colon, no field", "hello\r\n:5\r\n", map[string]string{"": "5"}},
		{"twice", "a:1\r\na:2\r\n", map[string]string{"a": "2"}},
		{"a heading with a colon", "# Server: here\r\n", map[string]string{}},
		{"spaces are kept", "os:Linux 6.1 x86_64 \r\n", map[string]string{"os": "Linux 6.1 x86_64 "}},
	} {
		if got := ParseInfo(c.text); !maps.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// What INFO says of the server, as real ones do; of Redict and Dragonfly as their sources have it.
func TestServerVersion(t *testing.T) {
	for _, c := range []struct {
		text, want string
		tooOld     bool
	}{
		{"redis_version:7.0.15\r\nredis_mode:standalone", "Redis 7.0.15", false},
		{"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nserver_mode:standalone", "Valkey 8.1.1", false},
		{"redis_version:7.2.4\r\nredict_version:7.3.6", "Redict 7.3.6", false},
		{"redis_version:7.4.0\r\ndragonfly_version:df-v1.21.4", "Dragonfly df-v1.21.4", false},
		{"redis_version:4.0.14", "Redis 4.0.14", true},
		{"redis_version:4.0.14\r\nvalkey_version:", "Redis 4.0.14", true},
		{"redis_version:10.0.1", "Redis 10.0.1", false},
		{"redis_version:unstable", "Redis unstable", false},
		{"valkey_version:\x1b[2J" + strings.Repeat("8", 1000), "Valkey ?[2J" + strings.Repeat("8", 28) + "…", false},
		{"role:master", "", false},
	} {
		got := ServerVersion(ParseInfo(c.text))
		if got != c.want || TooOld(got) != c.tooOld {
			t.Errorf("%.80q: got %q, too old: %v, want %q, %v", c.text, got, TooOld(got), c.want, c.tooOld)
		}
	}
}

func TestHasCode(t *testing.T) {
	for _, c := range []struct {
		text, code string
		want       bool
	}{
		{"OOM command not allowed when used memory > 'maxmemory'.", "OOM", true},
		// Redis 5, of a command that a script has called.
		{"ERR Error running script (call to f_31b4bd4920ea84cedf86423669ae1164504e06c9): @user_script:28: @user_script: 28: -OOM command not allowed when used memory > 'maxmemory'. ", "OOM", true},
		{"ERR Error running script (call to f_f74ea4264e99d77722cf8e8f7ccbe463d999e875): @user_script:1: WRONGTYPE Operation against a key holding the wrong kind of value ", "WRONGTYPE", true},
		{"ERR Error running script (call to f_31b4): @user_script:1: user_script:1: boo", "WRONGTYPE", false},
		{"OOMPH", "OOM", false},
		{"ERR the value is -OOM ", "OOM", false},
	} {
		if got := HasCode(errors.New(c.text), c.code); got != c.want {
			t.Errorf("%q: got %v, want %v", c.text, got, c.want)
		}
	}
	if HasCode(nil, "OOM") {
		t.Error("no error has a code")
	}
}

// endless is a connection that brings the same bytes again and again.
type endless struct {
	net.Conn
	bytes string
	at    int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.bytes[e.at:])
	e.at = (e.at + n) % len(e.bytes)
	return n, nil
}

// BenchmarkReplies is the parser: all replies to a batch.
func BenchmarkReplies(b *testing.B) {
	const closing = "*3\r\n$61\r\n0123456789012345678901234567890123456789:01234567890123456789\r\n$8\r\n01234567\r\n$5\r\n12345\r\n" +
		"*2\r\n$10\r\n1763712345\r\n$6\r\n123456\r\n"
	for _, bm := range []struct{ name, replies string }{
		{"SET", strings.Repeat("+OK\r\n", 64)},
		{"denied", strings.Repeat("$-1\r\n", 64)},
		{"release", "$64\r\n" + strings.Repeat("1", 64) + "\r\n"},
		{"read", strings.Repeat("$36\r\nlyxqp5mBW7nQwTkQYLr3F_WfVx0.mwpqrck8\r\n:29000\r\n$-1\r\n", 64)},
	} {
		b.Run("replies="+bm.name+"/n=64", func(b *testing.B) {
			text := bm.replies + closing
			count := 0
			for w := replies(text, len(text)); ; count++ {
				if _, err := w.ReadReply(); err != nil {
					break
				}
			}
			w := Wire{Socket: &endless{bytes: text}}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				for range count {
					if _, err := w.ReadReply(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
