package proxy

// Goal: what clients can cause as often as they like is in the log, and not more often than the disk can bear. Method: clients that
// are turned away as fast as they come.

import (
	"strings"
	"testing"
	"time"

	"redlockd/redlock/loglimit"
)

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
		var log testLog
		srv := serve(t, log.keep, func(opts *Options) { opts.MaxClients = 1 })
		began := time.Now()
		if c.line == "client refused" {
			srv.dial().do("PING").is("+PONG")
		}
		for range 30 {
			c.visit(srv)
			eventually(t, "the visitor is gone", func() bool { return c.line == "client refused" || len(srv.clients()) == 0 })
		}
		got := strings.Count(log.String(), c.line)
		if most := 1 + int(time.Since(began)/loglimit.DefaultInterval); got < 1 || got > most {
			t.Errorf("%s: %d lines of 30 visits in %v, want 1 to %d", c.line, got, time.Since(began), most)
		}
	}
}
