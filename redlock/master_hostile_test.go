package redlock

// Goal: a panic over a reply, or a reply that no Redis would send, costs one master and nothing else. Method: connections that panic, and connections
// that answer nonsense.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redlockd/redlock/quorum"
	"redlockd/redlock/redisproc"
)

// Panics are the second line of defence, for whatever the checks have missed. Two reads panic: one of a connection that stands, and one of
// those that make the next.
func TestPanicLosesOneMaster(t *testing.T) {
	for _, distance := range []time.Duration{0, ms} { // batch after batch, and several on their way
		testPanics(t, distance, redisproc.Some(4, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}))
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

// Votes that were read before a panic, or before the connection fails, are not closed by the checks at the end of their batch.
func TestHalfABatchCountsNoVote(t *testing.T) {
	for want, fail := range map[string]func() error{
		"redlockd failed on what it sends: enough": func() error { panic("enough") },
		"the way is cut": func() error { return errors.New("the way is cut") },
	} {
		b := standing(t, newMemMaster(t))
		b.wire.Socket = &pieces{b.wire.Socket, fail}
		b.rounds = []*round{newRound(verbSet, "T", time.Second, "a"), newRound(verbInspect, "", 0, "b")}
		if err := b.exec(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if b.votes[0] != quorum.Unknown || b.votes[1] != quorum.Unknown || len(b.readings) > 0 {
			t.Errorf("%s: got the votes %v and %d readings, want none known", want, b.votes, len(b.readings))
		}
	}
}

// pieces brings few bytes at a time, and fails when the reply to SET and the value of GET are read.
type pieces struct {
	net.Conn
	fail func() error
}

func (c *pieces) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:5])
	if string(p[:n]) == ":-2\r\n" {
		return 0, c.fail()
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
