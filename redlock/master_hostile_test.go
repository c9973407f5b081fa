package redlock

// Goal: go-redis gets nothing to read but what a Redis could send, so that no reply takes the process, or more memory than a bound.
// Method: directed replies, in pieces of every size; fuzzing, with the real go-redis behind the check; and connections that panic.

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"redlockd/redlock/conn"
	"redlockd/redlock/quorum"
	"redlockd/redlock/resp"
)

// The bounds are for one request, and a failed connection stays so.
func TestReplyCheckOfAConnection(t *testing.T) {
	s := &source{piece: 1 << 20}
	s.Reset([]byte(strings.Repeat(":1\r\n", 3*resp.ElementsMax) + "%"))
	c := &conn.CheckedConn{Conn: s}
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
		if n, err := c.Read(reply); n != 0 || !conn.IsRefused(err) {
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
					return nil, conn.ErrBroken
				}
				dialed = true
				return &conn.CheckedConn{Conn: s}, nil
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
			if err := link.Do(ctx, "x").Err(); !conn.Replied(err) {
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

// Panics are the second line of defence, for whatever the checks have missed. Two reads panic: one of a connection that stands, and one of
// those that make the next.
func TestPanicLosesOneMaster(t *testing.T) {
	for _, distance := range []time.Duration{0, ms} { // batch after batch, and several on their way
		testPanics(t, distance, some(4, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}))
	}
}

func testPanics(t *testing.T, distance time.Duration, which []int64) {
	inVirtualTime(t, 3, func(s *stage) {
		reads := &atomic.Int64{}
		var panics [2]atomic.Int64
		var log journal
		p := s.start(log.option, func(o *Options) {
			dial := o.Masters[2].Dialer
			o.Masters[2].Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				return &panicking{conn, reads, &panics}, err
			}
		})
		p.delay(distance, distance, 0, 1, 2)
		p.allUp()
		for _, n := range which {
			time.Sleep(logBurst * logInterval) // the log has room again
			log.take("")
			now := reads.Load()
			panics[1].Store(now + 3 + n)
			panics[0].Store(now + 2)
			s.until("both reads panic", func() bool {
				c := p.lock(one("r", time.Second))
				if !c.Held {
					s.Fatalf("LOCK while reads panic: got %+v, want held", c.Result)
				}
				p.unlock(c.Token, "r")
				return reads.Load() > now+3+n
			})
			told := false
			for _, line := range log.take("redlockd failed on what it sends") {
				told = told || strings.Contains(line, "unexpected") && strings.Contains(line, "panicking).Read, line ")
			}
			if !told {
				s.Errorf("read %d: the log does not say that it panicked", n)
			}
			p.allUp()
		}
		s.wantNoLocks()
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
		if err := conn.RecoverPanic(f); err == nil || !strings.Contains(err.Error(), "unread).Read, line ") {
			t.Errorf("got %v, want the name of the function that has panicked first", err)
		}
	}
}

// unread panics when it is read.
type unread struct{ net.Conn }

func (*unread) Read([]byte) (int, error) { panic("unread") }

// Votes that were read before the panic are not closed by the checks at the end of their batch.
func TestPanicInABatchCountsNoVote(t *testing.T) {
	b := standing(t, newMemMaster(t))
	b.wire.Socket = &pieces{b.wire.Socket}
	b.rounds = []*round{newRound(verbSet, "T", time.Second, "a"), newRound(verbInspect, "", 0, "b")}
	if err := b.exec(); err == nil || !strings.Contains(err.Error(), "redlockd failed on what it sends: enough") {
		t.Errorf("got %v, want that redlockd has failed", err)
	}
	if b.votes[0] != quorum.Unknown || b.votes[1] != quorum.Unknown || len(b.readings) > 0 {
		t.Errorf("got the votes %v and %d readings, want none known", b.votes, len(b.readings))
	}
}

// pieces brings few bytes at a time, and panics when the reply to SET and the value of GET are read.
type pieces struct{ net.Conn }

func (c *pieces) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:5])
	if string(p[:n]) == ":-2\r\n" {
		panic("enough")
	}
	return n, err
}

// A reply that go-redis would panic on, or run out of memory, while a connection is made: it does not come to that.
func TestHostileReplyWhileConnecting(t *testing.T) {
	for _, reply := range []string{"*0\r\n:1\r\n$9223372036854775800\r\n", "*10000000000\r\n", "$100000000\r\n", "%3\r\n"} {
		inVirtualTime(t, 3, func(s *stage) {
			p := s.start(func(o *Options) {
				dial := o.Masters[2].Dialer
				o.Masters[2].Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := dial(ctx, network, addr)
					return &answering{conn, reply}, err
				}
			})
			s.until("refused", func() bool { return p.states() == "uur" })
			if reason := p.Masters()[2].Reason; !strings.Contains(reason, "which no Redis would here") {
				s.Errorf("%q: the reason is %q", reply, reason)
			}
			c := p.lock(one("r", time.Second))
			if !c.Held {
				s.Fatalf("%q: LOCK: got %+v, want held", reply, c.Result)
			}
			p.unlock(c.Token, "r")
		})
	}
}

// answering answers each request alike.
type answering struct {
	net.Conn
	text string
}

func (c *answering) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		return n, err
	}
	return copy(p, c.text), nil
}

// panicking panics with the reads of the given numbers.
type panicking struct {
	net.Conn
	reads  *atomic.Int64
	panics *[2]atomic.Int64
}

func (c *panicking) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if count := c.reads.Add(1); count == c.panics[0].Load() || count == c.panics[1].Load() {
		panic(fmt.Sprintf("unexpected %q", p[:min(n, 8)]))
	}
	return n, err
}
