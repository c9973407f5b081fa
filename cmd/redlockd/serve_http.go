package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// watchersMax bounds the connections of those who watch over HTTP.
const watchersMax = 32

// serveHTTP serves those who watch. They see the server as long as possible, its draining included: the caller ends it, with the
// function that it returns, when everything else has ended.
func (s *server) serveHTTP(l net.Listener) (end func()) {
	s.log.Info("status page and metrics", "addr", l.Addr().String(), "paths", "/ /metrics /livez /readyz")
	web := newWebServer(s.front.HTTPHandler())
	web.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := web.Serve(&watchers{Listener: l}); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("no status page and metrics any more", "err", err, "to_do", "restart redlockd; until then locks are granted as before")
		}
	}()
	return func() {
		web.Close()
		<-ended
	}
}

// newWebServer serves h on a listener of type watchers.
func newWebServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn := r.Context().Value(watcherKey{}).(*watcher)
			conn.serving(true)
			defer conn.serving(false)
			h.ServeHTTP(w, r)
		}),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, watcherKey{}, conn)
		},
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       10 * time.Second,
		MaxHeaderBytes:    8 << 10,
	}
}

// watchers is the listener for HTTP. At watchersMax connections one more has another one closed: of the address that has the most, one
// that waits for no answer, and of these the one that has been so for longest. So whoever keeps connections open, or sends
// headers slowly, takes places from itself alone, and a probe, which comes and asks at once, is answered.
type watchers struct {
	net.Listener

	mu    sync.Mutex
	conns []*watcher // in the order in which they were accepted or answered last
}

// watcher is one connection. watchers.mu guards busy.
type watcher struct {
	net.Conn
	all  *watchers
	host string
	busy bool // a request of it is being answered
}

// watcherKey is for the watcher in the context of its requests.
type watcherKey struct{}

// Accept implements net.Listener.
func (all *watchers) Accept() (net.Conn, error) {
	conn, err := all.Listener.Accept()
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	w := &watcher{Conn: conn, all: all, host: host}
	all.mu.Lock()
	all.conns = append(all.conns, w)
	var gone *watcher
	if len(all.conns) > watchersMax {
		gone = all.worstLocked()
		all.removeLocked(gone)
	}
	all.mu.Unlock()
	if gone != nil {
		gone.Conn.Close()
	}
	return w, nil
}

// worstLocked is the connection that makes room for another one.
func (all *watchers) worstLocked() *watcher {
	count := make(map[string]int)
	for _, w := range all.conns {
		count[w.host]++
	}
	older := all.conns[:len(all.conns)-1]                  // the one that has just come may ask at once
	return slices.MinFunc(older, func(a, b *watcher) int { // the first of those that are equal
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

func (all *watchers) removeLocked(w *watcher) {
	all.conns = slices.DeleteFunc(all.conns, func(other *watcher) bool { return other == w })
}

// serving notes that a request is being answered, or that it has been.
func (w *watcher) serving(busy bool) {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.busy = busy
	if before := len(w.all.conns); !busy {
		if w.all.removeLocked(w); len(w.all.conns) < before { // else it had to make room
			w.all.conns = append(w.all.conns, w)
		}
	}
}

// Close implements net.Conn.
func (w *watcher) Close() error {
	w.all.mu.Lock()
	w.all.removeLocked(w)
	w.all.mu.Unlock()
	return w.Conn.Close()
}
