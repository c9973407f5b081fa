package proxy

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"redlockd/proxy/access"
	"redlockd/proxy/status"
)

// HTTPStreamsMax bounds the pages that are followed at one time.
const HTTPStreamsMax = status.StreamsMax

// ForTrying is said of a server with embedded masters (Options.Embedded).
const ForTrying = status.ForTrying

// HTTPHandler serves the status page, the metrics and the health checks, see status.Status.Handler.
// Nothing can be changed by it. It shows resources, and who holds them, only to a user who has logged
// in over TLS or from the same machine, and tokens to nobody.
//
// A stream (/live) goes on as long as its client takes events, so the caller must bound connections,
// and give the listener timeouts. From the first call on, the server notes what happens, for the page.
func (srv *Server) HTTPHandler() http.Handler {
	srv.statusOnce.Do(func() { srv.status = status.New(srv.source()) })
	return srv.status.Handler()
}

// source is what the page shows of this server.
func (srv *Server) source() status.Source {
	return status.Source{
		Reading:  func() *status.Reading { return srv.reading().Reading },
		Metrics:  srv,
		HasUsers: func() bool { return len(srv.live().Users) > 0 },
		LogIn:    srv.logInPage,
		Hosts:    func() []string { return srv.live().HTTPHosts },
		Log:      srv.log,
		Go:       srv.begin,
		Done:     srv.done,
	}
}

// logInPage finds a user for the page. Guesses are slowed down together with those of the Redis
// protocol, see logins.
func (srv *Server) logInPage(r *http.Request, name, password string) status.Viewer {
	if a := srv.live().accountOf([]byte(name), []byte(password)); a != nil {
		return pageViewer{srv, a}
	}
	srv.counters[countLoginsFailed].Add(1)
	srv.failedLogins.Log(srv.log, slog.LevelWarn, time.Now(),
		"nobody was logged in to the status page: the name or the password is wrong", "client", r.RemoteAddr, "user", name[:min(len(name), failedLoginName)],
		"to_do", "compare the password with [auth]; if nobody knows the client, keep it from the port")
	if srv.audit.on.Load() {
		srv.audit.add(&auditRecord{User: clipped([]byte(name), failedLoginName), Addr: r.RemoteAddr, Command: "GET " + r.URL.Path, Outcome: "WRONGPASS"})
	}
	select {
	case <-time.After(srv.logins.failed(access.OriginOf(r.RemoteAddr), time.Now())):
	case <-r.Context().Done(): // the client has left
	}
	return nil
}

// pageViewer is a user who has logged in to the page. It implements status.Viewer.
type pageViewer struct {
	srv *Server
	*account
}

func (v pageViewer) Name() string   { return v.user().Name }
func (v pageViewer) Confined() bool { return v.user().Confined() }
func (v pageViewer) Known() bool    { return v.srv.live().knows(v.account) }

func (v pageViewer) Locks() (locks status.Locks, err error) {
	user := v.user()
	if user.Groups()&access.Read == 0 {
		return locks, errors.New(`[auth] does not give this user commands = ["read"]`)
	}
	refusal := askable(user)
	var list fleetList
	if refusal == nil {
		list, refusal = v.srv.listFleet(v.account, user, leaseSearch{limit: status.LeasesMax, may: user.May})
	}
	if refusal != nil {
		return locks, errors.New(strings.TrimPrefix(refusal.Error(), "ERR "))
	}
	locks.Leases = list.leases
	for _, m := range list.answered {
		locks.Answered, locks.More = append(locks.Answered, m.name), locks.More || m.cut || m.total > m.leases
	}
	for _, m := range list.missing {
		locks.Missing = append(locks.Missing, status.Missing{Name: m.Name, Silent: time.Since(m.Heard)})
	}
	return locks, nil
}
