package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"redlockd/redlock"
)

// scrapesMax bounds the scrapes at one time; one more is answered with 503.
const scrapesMax = 4

// HTTPHandler answers those who watch the server: people (/), Prometheus (/metrics), and what starts, stops and balances servers
// (/livez, /readyz). There is no login: it tells no resources, no tokens and nothing of clients, and nothing can be changed.
func (srv *Server) HTTPHandler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(srv, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: scrapesMax,
		Timeout:             5 * time.Second,
	}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", srv.serveReady)
	mux.HandleFunc("GET /{$}", srv.serveStatus)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there are / (status), /metrics, /livez and /readyz", http.StatusNotFound)
	})
	return mux
}

func voting(masters []redlock.MasterStatus) int { return countState(masters, redlock.MasterUp) }

func countState(masters []redlock.MasterStatus, state redlock.MasterState) (n int) {
	for i := range masters {
		if masters[i].State == state {
			n++
		}
	}
	return n
}

func quorumOf(masters []redlock.MasterStatus) int { return len(masters)/2 + 1 }

// ready tells why no lock can be had from this server; nil: it can.
func (srv *Server) ready(masters []redlock.MasterStatus) error {
	switch n := voting(masters); {
	case srv.draining.Load():
		return fmt.Errorf("this server is draining: it grants no new locks")
	case srv.leaving.Load():
		return fmt.Errorf("this server will drain in a moment: locks are still granted, but go to another one")
	case n < quorumOf(masters):
		return fmt.Errorf("no quorum: %d of %d masters have a vote, and %d are needed", n, len(masters), quorumOf(masters))
	}
	return nil
}

// serveReady says 200 if locks can be had, else 503; and in both cases which masters have no vote, and why.
func (srv *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	masters := srv.opts.Engine.Masters()
	var text strings.Builder
	if err := srv.ready(masters); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(&text, err)
	} else {
		fmt.Fprintf(&text, "ready: %d of %d masters have a vote, and %d are needed\n", voting(masters), len(masters), quorumOf(masters))
	}
	for _, m := range masters {
		if m.State != redlock.MasterUp {
			fmt.Fprintf(&text, "%s is %s: %s\n", m.Addr, m.State, m.Reason)
		}
	}
	w.Write([]byte(text.String()))
}
