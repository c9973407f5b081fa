package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"redlockd/proxy"
)

// httpConnsMax bounds the connections over HTTP: those of pages that are followed, and 32 others.
const httpConnsMax = proxy.HTTPStreamsMax + 32

// serveHTTP serves the status page, metrics and probes. They must be there while the server drains: the
// caller ends them last, with the function that serveHTTP returns.
func (s *server) serveHTTP(l net.Listener) (end func()) {
	s.log.Info("status page and metrics", "addr", l.Addr().String(), "tls", s.config.HTTPTLS != nil, "paths", "/ /metrics /livez /readyz")
	web := newWebServer(s.front.HTTPHandler())
	web.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var serving net.Listener = &httpListener{Listener: l}
		if s.config.HTTPTLS != nil {
			serving = tls.NewListener(serving, s.config.HTTPTLS) // speaks HTTP/1.1, so httpListener knows what each connection does
		}
		if err := web.Serve(serving); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("no status page and metrics any more", "err", err, "to_do", "restart redlockd; until then locks are granted as before")
		}
	}()
	return func() {
		web.Close()
		<-ended
	}
}

// newWebServer serves h on an httpListener.
func newWebServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn := r.Context().Value(httpConnKey{}).(*httpConn)
			conn.serving(true)
			defer conn.serving(false)
			h.ServeHTTP(w, r)
		}),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			if encrypted, ok := conn.(*tls.Conn); ok {
				conn = encrypted.NetConn()
			}
			return context.WithValue(ctx, httpConnKey{}, conn)
		},
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       10 * time.Second,
		MaxHeaderBytes:    8 << 10,
	}
}

// httpListener accepts httpConnsMax connections. A further one closes another: it chooses the address
// with the most connections, there one that waits for no answer, and of these the one that has waited
// longest. So a client that keeps connections open, or sends headers slowly, takes places from itself
// alone, and a probe, which connects and asks at once, gets its answer.
type httpListener struct {
	net.Listener

	mu    sync.Mutex
	conns []*httpConn // in the order in which they were accepted or answered last
}

// httpConn is one connection. httpListener.mu guards busy.
type httpConn struct {
	net.Conn
	all  *httpListener
	host string
	busy bool // the handler is answering a request of this connection
}

// httpConnKey is the key of the httpConn in the context of its requests.
type httpConnKey struct{}

// Accept implements net.Listener.
func (all *httpListener) Accept() (net.Conn, error) {
	conn, err := all.Listener.Accept()
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	w := &httpConn{Conn: conn, all: all, host: host}
	all.mu.Lock()
	all.conns = append(all.conns, w)
	var gone *httpConn
	if len(all.conns) > httpConnsMax {
		gone = all.worstLocked()
		all.removeLocked(gone)
	}
	all.mu.Unlock()
	if gone != nil {
		gone.Conn.Close()
	}
	return w, nil
}

// worstLocked is the connection that httpListener closes for a new one.
func (all *httpListener) worstLocked() *httpConn {
	count := make(map[string]int)
	for _, w := range all.conns {
		count[w.host]++
	}
	older := all.conns[:len(all.conns)-1]                   // never the new one
	return slices.MinFunc(older, func(a, b *httpConn) int { // of equal ones the first, which has waited longest
		switch {
		case count[a.host] != count[b.host]:
			return count[b.host] - count[a.host]
		case a.busy == b.busy:
			return 0
		case a.busy:
			return 1
		}
		return -1
	})
}

func (all *httpListener) removeLocked(w *httpConn) {
	all.conns = slices.DeleteFunc(all.conns, func(other *httpConn) bool { return other == w })
}

// serving notes that the handler begins to answer a request, or has answered it.
func (w *httpConn) serving(busy bool) {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.busy = busy
	if before := len(w.all.conns); !busy {
		if w.all.removeLocked(w); len(w.all.conns) < before { // else the listener has closed it
			w.all.conns = append(w.all.conns, w)
		}
	}
}

// Close implements net.Conn.
func (w *httpConn) Close() error {
	w.all.mu.Lock()
	w.all.removeLocked(w)
	w.all.mu.Unlock()
	return w.Conn.Close()
}
