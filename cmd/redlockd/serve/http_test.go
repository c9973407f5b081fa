package serve

// Goal: clients that keep connections open over HTTP, are slow, or come often do not keep probes from their answers.
// Method: such clients against the server of the status page with a handler of the test's own; addresses of the loopback network stand
// for different machines.

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// webStage is the server for those who watch, over a handler that answers all but /hang.
type webStage struct {
	*testing.T
	listener *httpListener
	hanging  chan struct{} // has an element for each request that hangs
}

func newWebStage(t *testing.T) *webStage {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &webStage{T: t, listener: &httpListener{Listener: l}, hanging: make(chan struct{}, 100)}
	release := make(chan struct{})
	web := newWebServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			s.hanging <- struct{}{}
			<-release
		}
		fmt.Fprintln(w, "alive")
	}))
	// What a test leaves open must not end by itself meanwhile.
	web.ReadHeaderTimeout, web.ReadTimeout, web.IdleTimeout = time.Hour, time.Hour, time.Hour
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(s.listener) }()
	t.Cleanup(func() {
		close(release)
		web.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// dial connects from an address.
func (s *webStage) dial(from string) net.Conn {
	s.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

// ask sends a request on a connection, and returns what is wrong with the answer.
func ask(conn net.Conn, path string) error {
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		return err
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil && r.StatusCode != 200 {
		err = errors.New(r.Status)
	}
	return err
}

// wantAnswers has probes come from the address.
func (s *webStage) wantAnswers(from string) {
	s.Helper()
	for range 10 {
		conn := s.dial(from)
		if err := ask(conn, "/livez"); err != nil {
			s.Fatalf("a probe from %s: %v", from, err)
		}
		conn.Close()
	}
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	if n := len(s.listener.conns); n > httpConnsMax {
		s.Errorf("%d connections are open, want %d at most", n, httpConnsMax)
	}
}

func TestProbesAmongOthers(t *testing.T) {
	const crowd = httpConnsMax + 8
	for name, occupy := range map[string]func(s *webStage, conn net.Conn){
		"idle": func(s *webStage, conn net.Conn) {
			if err := ask(conn, "/"); err != nil {
				s.Fatal(err)
			}
		},
		"silent":       func(*webStage, net.Conn) {},
		"slow headers": func(_ *webStage, conn net.Conn) { conn.Write([]byte("GET / HTTP/1.1\r\nHost")) },
		"slow answers": func(s *webStage, conn net.Conn) {
			conn.Write([]byte("GET /hang HTTP/1.1\r\nHost: x\r\n\r\n"))
			<-s.hanging
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWebStage(t)
			for range crowd {
				occupy(s, s.dial("127.0.0.2"))
			}
			s.wantAnswers("127.0.0.1")
			s.wantAnswers("127.0.0.2")
		})
	}
}

// What a client can keep open by itself ends soon.
func TestHTTPIsNotWaitedForLong(t *testing.T) {
	web := newWebServer(nil)
	for name, limit := range map[string]time.Duration{
		"headers": web.ReadHeaderTimeout, "request": web.ReadTimeout, "answer": web.WriteTimeout, "idle": web.IdleTimeout,
	} {
		if limit <= 0 || limit > 10*time.Second {
			t.Errorf("%s: waited for %v, want 10s at most", name, limit)
		}
	}
}

// A scrape that comes again and again on one connection keeps it while others crowd in, and so does a request that is being answered.
func TestConnectionsThatAreKept(t *testing.T) {
	s := newWebStage(t)
	prometheus := s.dial("127.0.0.1")
	if err := ask(prometheus, "/metrics"); err != nil {
		t.Fatal(err)
	}
	slow := s.dial("127.0.0.2")
	slow.Write([]byte("GET /hang HTTP/1.1\r\nHost: x\r\n\r\n"))
	<-s.hanging
	for range 3 * httpConnsMax {
		if err := ask(s.dial("127.0.0.2"), "/"); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask(prometheus, "/metrics"); err != nil {
		t.Errorf("the next scrape: %v", err)
	}
	slow.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := slow.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("the request that is being answered: got %v, want that its connection stands", err)
	}
}
