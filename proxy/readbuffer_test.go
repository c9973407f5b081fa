package proxy

// Goal: a connection holds memory for what is unread and no more, and no byte is lost or doubled on the way through chunks,
// small pieces and growth.
// Method: random bytes over TCP and net.Pipe, in random pieces, taken in random pieces; what is held is looked at before
// each wait.

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
)

func TestReadBuffer(t *testing.T) {
	for _, kind := range []string{"TCP", "net.Pipe"} {
		t.Run(kind, func(t *testing.T) {
			near, far := net.Pipe()
			var raw syscall.RawConn
			if kind == "TCP" {
				near, far = tcpPair(t)
				raw, _ = far.(*net.TCPConn).SyscallConn()
			}
			random := rand.New(rand.NewPCG(1, 2))
			sent := make([]byte, 3<<20)
			for i := range sent {
				sent[i] = byte(random.Uint32())
			}
			go func() {
				rest := sent
				pieces := rand.New(rand.NewPCG(3, 4))
				for len(rest) > 0 {
					n := min(len(rest), 1+pieces.IntN(1<<pieces.IntN(18)))
					near.Write(rest[:n])
					rest = rest[n:]
				}
				near.Close()
			}()

			var r readBuffer
			r.init(far, raw)
			var got []byte
			for {
				// Now and then everything is taken, now and then much is left, as of a large command.
				if unread := r.unread(); random.IntN(3) > 0 || len(unread) > 300<<10 {
					n := len(unread) - min(len(unread), random.IntN(2)*random.IntN(3000))
					got = append(got, unread[:n]...)
					r.take(n)
				}
				_, err := r.fill()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			got = append(got, r.unread()...)
			if !bytes.Equal(got, sent) {
				t.Fatalf("got %d bytes that are not the %d that were sent", len(got), len(sent))
			}
			r.take(len(r.unread()))
			r.park()
			if r.c != nil || r.small != nil {
				t.Errorf("with nothing unread it holds a chunk (%v) or %d bytes", r.c != nil, cap(r.small))
			}
		})
	}
}

// Half a command costs what was sent of it; a large one gives its memory back.
func TestReadBufferHoldsWhatIsUnread(t *testing.T) {
	near, far := tcpPair(t)
	var r readBuffer
	raw, _ := far.(*net.TCPConn).SyscallConn()
	r.init(far, raw)
	near.Write(make([]byte, 100))
	r.fill()
	r.park()
	if r.c != nil || cap(r.small) < 100 || cap(r.small) > 256 {
		t.Errorf("for 100 bytes it holds a chunk (%v) or %d bytes", r.c != nil, cap(r.small))
	}
	go near.Write(make([]byte, 400<<10))
	for len(r.unread()) < 400<<10+100 {
		if _, err := r.fill(); err != nil {
			t.Fatal(err)
		}
	}
	if most := 1 << 20; cap(r.c.b) > most {
		t.Errorf("for 400 kB it holds %d bytes, want at most %d", cap(r.c.b), most)
	}
	r.take(400 << 10)
	r.park()
	if r.c != nil || cap(r.small) > 256 {
		t.Errorf("for the last 100 bytes it holds a chunk (%v) or %d bytes", r.c != nil, cap(r.small))
	}
}

// One large command must not make every later connection hold as much.
func TestLargeChunksAreNotKept(t *testing.T) {
	large := &chunk{b: make([]byte, 0, chunkSize+1)}
	large.put()
	if c := getChunk(); cap(c.b) != chunkSize {
		t.Errorf("got a chunk of %d bytes, want %d", cap(c.b), chunkSize)
	}
}

func tcpPair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		near.Close()
		far.Close()
	})
	return near, far
}
