// Package status answers over HTTP: for Prometheus, for load balancers and orchestrators, and for
// people. It only reads. What it shows without a login must be fit for anybody who can reach the port.
//
//	status.go   New, the health checks, and what the page may be asked for
//	login.go    the login of the page
//	page.go     renderings and streams; page.templ is how it looks,
//	            and page_templ.go is made from it
//	view.go     what the parts of the page show
//	history.go  the last hour
//	masters.go  what masters and outcomes are called, and counted as
package status

import (
	"errors"
	"fmt"
	"log/slog"
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

// Source is what a Status shows. Its functions are called from several goroutines.
type Source struct {
	// Reading reads all that the page, its history and the health checks show, so that it is of one
	// time. It never waits for a master.
	Reading func() *Reading
	// Metrics are those of /metrics, beside those of the process.
	Metrics prometheus.Collector
	// HasUsers reports whether somebody could log in.
	HasUsers func() bool
	// LogIn returns the user with this name and password; nil: there is none, or the client has left.
	// It waits for some seconds at most where many passwords are tried.
	LogIn func(r *http.Request, name, password string) Viewer
	// Hosts are further names under which the page may be asked for, see mayShowAs.
	Hosts func() []string
	Log   *slog.Logger
	// Go runs f on a goroutine that ends when Done is closed; not at all if it is closed.
	Go   func(f func()) bool
	Done <-chan struct{}
}

// Reading is what a server and its engine have counted, and what they are doing.
type Reading struct {
	Version string
	// Name is what other redlockds call this one, with its port; "": it does not listen yet.
	Name         string
	Certificates []Certificate
	Audit        Audit
	Up           time.Duration
	Embedded     bool // the masters end with this process
	// Leaving: the server will drain in a moment. Draining: it does.
	Leaving, Draining bool
	// Masters are in the order of their seats.
	Masters    []redlock.MasterStatus
	Membership redlock.Membership
	Locks      redlock.Stats
	// MaxWaiters and MaxClients bound Locks.Waiters and Clients.
	MaxWaiters, Clients, MaxClients int
	// Since the start.
	RepliesLost, Commands, Errors uint64
}

// Certificate is one in use.
type Certificate struct {
	File     string // that it was read from
	NotAfter time.Time
	// Warning says what an operator has to do, and why; "": nothing.
	Warning string
}

// Audit is whether there is a record of what users do, and what became of its lines since the start.
type Audit struct {
	On, Locks        bool // Locks: also of what becomes of locks
	Written, Dropped uint64
}

// Viewer is a user who has logged in to the page. Equal ones see the same.
type Viewer interface {
	Name() string
	// Confined: the user may use some resources only.
	Confined() bool
	// Known reports whether the user may go on seeing what it sees: no reload has taken something from
	// it.
	Known() bool
	// Locks asks all redlockds over the same masters for their leases, as the user may see them, which
	// takes some seconds at most. The text of its error is for people.
	Locks() (Locks, error)
}

// Locks are the leases of all redlockds over the same masters.
type Locks struct {
	// Leases has those on the same resource one after the other, who holds it before who waits for it.
	Leases []Lease
	// More: there are more leases than these.
	More bool
	// Answered are the names of the redlockds that have answered, this one first; Missing those of which
	// nothing is in Leases.
	Answered []string
	Missing  []Missing
}

// Lease is one that the redlockd of this name has granted, or a resource that is waited for there.
type Lease struct {
	Redlockd string
	redlock.LeaseInfo
}

// Missing is a redlockd that has not answered, and how long ago it was heard.
type Missing struct {
	Name   string
	Silent time.Duration
}

// Status serves the status page, the metrics and the health checks. Make one with New.
type Status struct {
	Source
	history history
	pages   pages
}

// LeasesMax bounds the leases of this redlockd that the page looks at. Others send fewer.
const LeasesMax = 10_000

// scrapesMax bounds the scrapes at one time; one more is answered with 503.
const scrapesMax = 4

// New begins to note what happens.
func New(source Source) *Status {
	st := &Status{Source: source}
	st.Go(st.watch)
	return st
}

// Handler serves the page for people (/, with /live for its script, /login and /logout), the metrics
// for Prometheus (/metrics), and /livez and /readyz for programs that start, stop and balance servers.
//
// /livez answers as long as the process runs, also without a quorum: to restart redlockd would bring no
// master back.
func (st *Status) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(st.Metrics, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: scrapesMax,
		Timeout:             5 * time.Second,
	}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", st.serveReady)
	mux.HandleFunc("GET /{$}", st.servePage)
	mux.HandleFunc("GET /live", st.serveLive)
	mux.HandleFunc("GET /login", st.serveLogin)
	// A browser forgets a password that is refused, and asks for another one; who cancels that is logged out.
	mux.HandleFunc("GET /logout", func(w http.ResponseWriter, _ *http.Request) { askForLogin(w, "you are logged out") })
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

// mayShowAs reports whether the status page may be shown to a request with this Host header.
//
// A page of another site can point a name of its own at this server, and then read what is here as if
// it were its own (DNS rebinding). It cannot do that with an IP address, with a name that nobody can
// register, or with one that the operator has listed. A request without a name comes from no browser.
func (st *Status) mayShowAs(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(host, ".") {
		return true
	}
	return slices.ContainsFunc(ownNames, func(end string) bool { return strings.HasSuffix(host, end) }) ||
		slices.ContainsFunc(st.Hosts(), func(name string) bool { return strings.EqualFold(name, host) })
}

// ForTrying is said of a server with embedded masters, wherever somebody may take it for another one.
const ForTrying = "for trying: locks end with this process"

// Ready returns nil if locks are available from this server, else the reason why not. A quorum of masters
// that are up is not enough: where all LOCKs end without a quorum all the same, something is wrong of
// which nobody knows. A server that has begun to leave is not ready although it grants locks, so that clients are sent elsewhere before it
// stops.
func (r *Reading) Ready() error {
	switch n := Voting(r.Masters); {
	case r.Draining:
		return errors.New("this server is draining: it grants no new locks")
	case r.Leaving:
		return errors.New("this server will drain in a moment: locks are still granted, but go to another one")
	case n < Quorum(r.Masters):
		return fmt.Errorf("no quorum: %d of %d masters have a vote, and %d are needed%s", n, len(r.Masters), Quorum(r.Masters),
			atMost("; a lock can be granted in ", quorumIn(r.Masters)))
	case r.Locks.Failing():
		return fmt.Errorf("no quorum: for %s all LOCKs have ended with NOQUORUM, although %d of %d masters are up: the replies, and redlockd check, say why",
			spanText(r.Locks.NoQuorumFor), n, len(r.Masters))
	}
	return nil
}

// serveReady answers 200 if locks are available, else 503. In both cases it lists the masters that have
// no vote, why, and for how long at most, where that is known.
func (st *Status) serveReady(w http.ResponseWriter, _ *http.Request) {
	reading := st.Reading()
	masters := reading.Masters
	var text strings.Builder
	if err := reading.Ready(); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(&text, err)
	} else {
		fmt.Fprintf(&text, "ready: %d of %d masters have a vote, and %d are needed; %d may fail\n", Voting(masters), len(masters), Quorum(masters), Standing(masters).MayFail())
	}
	if reading.Embedded {
		fmt.Fprintln(&text, ForTrying)
	}
	if problem := reading.Membership.Problem; problem != "" {
		fmt.Fprintf(&text, "membership: %s\n", problem)
	}
	for _, m := range masters {
		if m.State != redlock.MasterUp {
			fmt.Fprintf(&text, "%s is %s%s: %s\n", m.Addr, m.State, atMost(", for ", m.Left), m.Reason)
		}
	}
	w.Write([]byte(text.String()))
}
