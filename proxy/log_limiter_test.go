package proxy

// Goal: what clients can cause as often as they like is in the log, and not more often than the disk can bear. Method: the clock by
// hand, then clients that are turned away as fast as they come.

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLogLimiter(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	var l logLimiter
	began := time.Now()
	for i := range 25 {
		l.log(log, slog.LevelWarn, began.Add(time.Duration(i)*logInterval/10), "again", "client", "1.2.3.4:5")
	}
	if got := text.String(); strings.Count(got, "\n") != 3 || strings.Count(got, "more_since_last=9 client=1.2.3.4:5\n") != 2 {
		t.Errorf("25 times in 2.4 s: got the log\n%s\nwant three lines, two of which tell of 9 more", got)
	}
}

func TestClientsThatAreTurnedAwayDoNotFloodTheLog(t *testing.T) {
	for _, c := range []struct {
		line  string
		visit func(srv *testServer)
	}{
		{"client refused", func(srv *testServer) {
			c := srv.dial()
			c.read().is("-ERR max number of clients reached")
			c.closed()
		}},
		{"protocol error", func(srv *testServer) {
			c := srv.dial()
			c.raw("POST / HTTP/1.1\r\n\r\n")
			c.read().err("ERR Protocol error")
			c.conn.Close()
		}},
	} {
		var text bytes.Buffer
		out := &locked{w: &text}
		srv := serve(t, func(opts *Options) {
			opts.MaxClients = 1
			opts.Logger = slog.New(slog.NewTextHandler(out, nil))
		})
		began := time.Now()
		if c.line == "client refused" {
			srv.dial().do("PING").is("+PONG")
		}
		for range 30 {
			c.visit(srv)
			eventually(t, "the visitor is gone", func() bool { return c.line == "client refused" || len(srv.clients()) == 0 })
		}
		out.mu.Lock()
		got := strings.Count(text.String(), c.line)
		out.mu.Unlock()
		if most := 1 + int(time.Since(began)/logInterval); got < 1 || got > most {
			t.Errorf("%s: %d lines of 30 visits in %v, want 1 to %d", c.line, got, time.Since(began), most)
		}
	}
}
