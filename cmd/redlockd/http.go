package main

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// watchersMax bounds the connections of those who watch over HTTP; one more waits in the listener's queue.
const watchersMax = 32

// serveHTTP serves those who watch. They see the server as long as possible, its draining included: the caller ends it, with the
// function that it returns, when everything else has ended.
func (s *server) serveHTTP(l net.Listener) (end func()) {
	s.log.Info("status page and metrics", "addr", l.Addr().String(), "paths", "/ /metrics /livez /readyz")
	web := &http.Server{
		Handler:           s.front.HTTPHandler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := web.Serve(netutil.LimitListener(l, watchersMax)); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("no status page and metrics any more", "err", err)
		}
	}()
	return func() {
		web.Close()
		<-ended
	}
}
