package status

import (
	"fmt"
	"net"
	"net/http"
)

// The login of the page: HTTP basic authentication as one of the users who may log in with AUTH. It is
// for resources and who holds them; what anybody may see needs none.
//
// A browser sends the password with every request, so a login without TLS is refused unless it stays on
// this machine.

// loginRefusal says why nobody can log in by this request; "": a user can.
func (st *Status) loginRefusal(r *http.Request) string {
	switch local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr); {
	case !st.HasUsers():
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

// logIn finds the user whose name and password the request has: nil if it has none. If it answers the
// request itself, with a refusal, it returns false: so it does, too, if the page must not be shown under
// the name by which it is asked for.
func (st *Status) logIn(w http.ResponseWriter, r *http.Request) (viewer Viewer, ok bool) {
	if !st.mayShowAs(r.Host) {
		http.Error(w, fmt.Sprintf("this page is not shown under the name %s: if that is a name of this server, add it to hosts in [http]",
			r.Host[:min(len(r.Host), 128)]), http.StatusMisdirectedRequest)
		return nil, false
	}
	name, password, given := r.BasicAuth()
	if !given {
		return nil, true
	}
	if refusal := st.loginRefusal(r); refusal != "" {
		http.Error(w, "nobody can log in: "+refusal, http.StatusForbidden)
		return nil, false
	}
	if viewer = st.LogIn(r, name, password); viewer != nil {
		return viewer, true
	}
	if r.Context().Err() == nil {
		askForLogin(w, "the name or the password is wrong")
	}
	return nil, false
}

// askForLogin makes a browser ask for a name and a password.
func askForLogin(w http.ResponseWriter, why string) {
	w.Header().Set("WWW-Authenticate", `Basic realm="redlockd", charset="UTF-8"`)
	http.Error(w, fmt.Sprintf("%s: log in as one of the users of [auth] to see resources; / shows the rest", why), http.StatusUnauthorized)
}

// serveLogin brings a browser to ask for the password, and then back to the page. It sends the password
// to all pages beside this one from then on.
func (st *Status) serveLogin(w http.ResponseWriter, r *http.Request) {
	viewer, ok := st.logIn(w, r)
	if !ok {
		return
	}
	refusal := st.loginRefusal(r)
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
