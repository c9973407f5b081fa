package proxy

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// The login of the page: HTTP basic authentication as one of the users who may log in with AUTH. It is
// for resources and who holds them; what anybody may see needs none.
//
// A browser sends the password with every request, so a login without TLS is refused unless it stays on
// this machine. Guesses are slowed down together with those of the Redis protocol, see logins.

// loginRefusal says why nobody can log in by this request; "": a user can.
func (srv *Server) loginRefusal(r *http.Request) string {
	switch local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr); {
	case len(srv.live().Users) == 0:
		return "no users are configured: name them in [auth]"
	case r.TLS == nil && !isLoopback(local):
		return "a password needs TLS here: set tls_cert and tls_key in [http], or come from the same machine (ssh -L)"
	}
	return ""
}

// isLoopback reports whether only this machine can have connected to the address.
func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// pageLogin finds the user whose name and password the request has: nil if it has none. If it answers the
// request itself, with a refusal, it returns false. It keeps the goroutine of the request for some seconds at most.
func (srv *Server) pageLogin(w http.ResponseWriter, r *http.Request) (viewer *account, ok bool) {
	name, password, given := r.BasicAuth()
	if !given {
		return nil, true
	}
	if refusal := srv.loginRefusal(r); refusal != "" {
		http.Error(w, "nobody can log in: "+refusal, http.StatusForbidden)
		return nil, false
	}
	origin := originOfText(r.RemoteAddr)
	if !sleep(r, srv.logins.before(origin, time.Now())) {
		return nil, false
	}
	if viewer = srv.live().accountOf([]byte(name), []byte(password)); viewer != nil {
		return viewer, true
	}
	srv.counters[countLoginsFailed].Add(1)
	srv.failedLogins.Log(srv.log, slog.LevelWarn, time.Now(),
		"nobody was logged in to the status page: the name or the password is wrong", "client", r.RemoteAddr, "user", name[:min(len(name), failedLoginName)],
		"to_do", "compare the password with [auth]; if nobody knows the client, keep it from the port")
	if srv.audit.on.Load() {
		srv.audit.add(&auditRecord{User: clipped([]byte(name), failedLoginName), Addr: r.RemoteAddr, Command: "GET " + r.URL.Path, Outcome: "WRONGPASS"})
	}
	if sleep(r, srv.logins.failed(origin, time.Now())) {
		askForLogin(w, "the name or the password is wrong")
	}
	return nil, false
}

// askForLogin makes a browser ask for a name and a password.
func askForLogin(w http.ResponseWriter, why string) {
	w.Header().Set("WWW-Authenticate", `Basic realm="redlockd", charset="UTF-8"`)
	http.Error(w, fmt.Sprintf("%s: log in as one of the users of [auth] to see resources; / shows the rest", why), http.StatusUnauthorized)
}

// serveLogin brings a browser to ask for the password, and then back to the page. It sends the password to
// all pages beside this one from then on.
func (srv *Server) serveLogin(w http.ResponseWriter, r *http.Request) {
	if !srv.mayShow(w, r) {
		return
	}
	viewer, ok := srv.pageLogin(w, r)
	if !ok {
		return
	}
	refusal := srv.loginRefusal(r)
	switch {
	case viewer != nil:
		w.Header().Set("Location", "./") // relative: a balancer may serve it below another path
		w.WriteHeader(http.StatusSeeOther)
	case refusal != "":
		http.Error(w, "nobody can log in: "+refusal, http.StatusForbidden)
	default:
		askForLogin(w, "nobody is logged in")
	}
}

// sleep waits for so long. It returns false if the client has left.
func sleep(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// originOfText is originOf an address in the form of http.Request.RemoteAddr.
func originOfText(addr string) netip.Prefix {
	parsed, err := netip.ParseAddrPort(addr)
	if err != nil {
		return netip.Prefix{}
	}
	return originOf(net.TCPAddrFromAddrPort(parsed))
}
