package proxy

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"redlockd/redlock"
)

// The HTTP side: for Prometheus, for load balancers and orchestrators, and for people. It only reads.
// What it shows without a login (http_login.go) must be fit for anybody who can reach the port. A listener
// of its own is given by the caller, with timeouts.

// scrapesMax bounds the scrapes at one time; one more is answered with 503.
const scrapesMax = 4

// HTTPHandler serves the status page for people (/, with /live for its script and /login), the metrics
// for Prometheus (/metrics), and /livez and /readyz for programs that start, stop and balance servers.
// Nothing can be changed by it. It shows resources, and who holds them, only to a user who has logged in
// over TLS or from the same machine, and tokens to nobody.
//
// A stream (/live) goes on as long as its client takes events, so the caller must bound connections. From
// the first call on, the server notes what happens, for the page.
//
// /livez answers as long as the process runs, also without a quorum: to restart redlockd would bring no
// master back.
func (srv *Server) HTTPHandler() http.Handler {
	srv.watchOnce.Do(func() { srv.begin(srv.watch) })
	registry := prometheus.NewRegistry()
	registry.MustRegister(srv, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: scrapesMax,
		Timeout:             5 * time.Second,
	}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", srv.serveReady)
	mux.HandleFunc("GET /{$}", srv.servePage)
	mux.HandleFunc("GET /live", srv.serveLive)
	mux.HandleFunc("GET /login", srv.serveLogin)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there are / (status), /metrics, /livez and /readyz", http.StatusNotFound)
	})
	return withoutFrames(mux)
}

// withoutFrames forbids browsers to show a page inside one of another site, and to guess its type.
func withoutFrames(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'") // servePage allows what the page has
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// ownNames are the ends of names that no stranger can register.
var ownNames = []string{".localhost", ".local", ".internal", ".svc", ".lan", ".home.arpa"}

// mayShowStatus reports whether the status page may be shown to a request with this Host header.
//
// A page of another site can point a name of its own at this server, and then read what is here as if
// it were its own (DNS rebinding). It cannot do that with an IP address, with a name that nobody can
// register, or with one that the operator has listed. A request without a name comes from no browser.
func (srv *Server) mayShowStatus(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(host, ".") {
		return true
	}
	return slices.ContainsFunc(ownNames, func(end string) bool { return strings.HasSuffix(host, end) }) ||
		slices.ContainsFunc(srv.live().HTTPHosts, func(name string) bool { return strings.EqualFold(name, host) })
}

// voting counts the masters whose votes count.
func voting(masters []redlock.MasterStatus) int { return countState(masters, redlock.MasterUp) }

func countState(masters []redlock.MasterStatus, state redlock.MasterState) (n int) {
	for i := range masters {
		if masters[i].State == state {
			n++
		}
	}
	return n
}

// quorumOf is N/2+1 of the masters that are configured, whether they have a vote or not.
func quorumOf(masters []redlock.MasterStatus) int { return len(masters)/2 + 1 }

// ready returns nil if locks are available from this server, else the reason why not. A server that has
// begun to leave is not ready although it grants locks, so that clients are sent elsewhere before it
// stops.
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

// serveReady answers 200 if locks are available, else 503. In both cases it lists the masters that have
// no vote, and why.
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
