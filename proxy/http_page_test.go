package proxy

// Goal: the page tells a person what is wrong, shows resources to those alone who may use them, and cannot be made to run anything or
// to cost much. Method: requests to the handler; streams over a real connection.

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/access"
	"redlockd/proxy/status"
)

// visit is a request for the page.
type visit struct {
	path, user, password string
	from                 string // default: 127.0.0.1:50000
	tls                  bool
	site                 string // Sec-Fetch-Site
}

// visit asks the handler, which listens on the host of from.
func (srv *testServer) visit(v visit) *httptest.ResponseRecorder {
	srv.t.Helper()
	if v.from == "" {
		v.from = "127.0.0.1:50000"
	}
	r := httptest.NewRequest("GET", v.path, nil)
	local := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(v.from))
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
	r.Host, r.RemoteAddr = "localhost", v.from
	if v.user != "" {
		r.SetBasicAuth(v.user, v.password)
	}
	if v.tls {
		r.TLS = new(tls.ConnectionState)
	}
	if v.site != "" {
		r.Header.Set("Sec-Fetch-Site", v.site)
	}
	w := httptest.NewRecorder()
	srv.HTTPHandler().ServeHTTP(w, r)
	return w
}

// wants checks which texts a page has and lacks.
func wants(t *testing.T, page string, has, lacks []string) {
	t.Helper()
	for _, text := range has {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q:\n%s", text, page)
		}
	}
	for _, text := range lacks {
		if strings.Contains(page, text) {
			t.Errorf("the page has %q:\n%s", text, page)
		}
	}
}

// again makes the next request see what is now, and not what the one before saw.
func (srv *testServer) again() {
	srv.HTTPHandler()
	srv.status = status.New(srv.source())
}

// guarded has two users: ops may do everything, billing what begins with billing:.
func guarded(o *Options) {
	o.Users = []access.User{{Name: "ops", Password: "right"}, {Name: "billing", Password: "bill", Resources: []string{"billing:*"}},
		{Name: "blind", Password: "b", Commands: []string{"lock"}}, {Name: "card", CertCN: "card"}}
}

// Goal: the page tells what is wrong with which master. Without a login it tells no resource.
func TestPage(t *testing.T) {
	srv := serve(t, func(opts *Options) { opts.Version = "<b>9" })
	srv.awaitUp(5)
	srv.dial().do("LOCK", "secret-resource", "60000")
	_, port, _ := net.SplitHostPort(srv.name())
	w := srv.visit(visit{path: "/"})
	if got := w.Header().Get("Content-Type"); w.Code != 200 || got != "text/html; charset=utf-8" {
		t.Errorf("got %d with %s", w.Code, got)
	}
	wants(t, w.Body.String(), []string{
		`data-tone="good"`, "<title>redlockd on ", ":" + port + "</title>", " UTC</div>", "<dt>audit</dt><dd>off</dd>", "Locks are granted: 5 of 5 masters have a vote, and 3 are needed.", "master-5:6379", "<dd>&lt;b&gt;9</dd>",
		" of the membership: max_ttl 5 min", "Nobody can log in here: no users are configured: name them in [auth].",
	}, []string{"secret-resource", `href="login"`})
	for i, c := range []struct {
		has []string
	}{
		{[]string{`data-tone="warn"`, "<title>4 of 5 – redlockd", "4 of 5 masters have a vote, and 3 are needed.", "has no vote: down", `<span class="bad">`}},
		{[]string{"3 of 5 masters", "If one more loses its vote, no locks are granted."}},
		{[]string{`data-tone="bad"`, "<title>no locks – redlockd", "No locks are granted here: no quorum: 2 of 5 masters have a vote, and 3 are needed.", "Bring back the masters"}},
	} {
		srv.masters[i].Crash(false)
		srv.awaitUp(4 - i)
		srv.again()
		wants(t, srv.visit(visit{path: "/"}).Body.String(), c.has, nil)
	}
	srv.leaving.Store(true)
	other := serve(t)
	other.awaitUp(5)
	other.leaving.Store(true)
	wants(t, other.visit(visit{path: "/"}).Body.String(), []string{`data-tone="warn"`, "Locks are granted, but not for long: this server will drain"}, nil)
	other.draining.Store(true)
	other.again()
	wants(t, other.visit(visit{path: "/"}).Body.String(), []string{`data-tone="bad"`, "No locks are granted here: this server is draining"}, nil)
}

// The path of a socket tells of the machine, and nobody needs it in a tab.
func TestPageShowsNoSocket(t *testing.T) {
	srv := newTestServer(t)
	path := filepath.Join(t.TempDir(), "private.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv.serveOn(l)
	eventually(t, "it listens", func() bool { return srv.name() != "" })
	host, _ := os.Hostname()
	wants(t, srv.visit(visit{path: "/"}).Body.String(), []string{"redlockd on " + host + "</title>"}, []string{"private.sock"})
}

// Goal: a user sees locks after a login, which needs TLS or the same machine. Who may use some resources only sees only these, and no
// names of masters.
func TestPageAfterALogin(t *testing.T) {
	srv := serve(t, guarded)
	srv.awaitUp(5)
	srv.HTTPHandler() // begins to note what happens
	noted := func(text string) func() bool {
		return func() bool {
			return strings.Contains(srv.visit(visit{path: "/", user: "ops", password: "right"}).Body.String(), text)
		}
	}
	eventually(t, "there is a first reading", noted("there is a quorum: locks are granted"))
	c := srv.dial()
	c.do("AUTH", "ops", "right").is("+OK")
	c.do("CLIENT", "SETNAME", "worker-7")
	c.do("LOCK", "billing:1", "60000", "NOTE", "the month of May")
	c.do("LOCK", "secret-resource", "60000", "NOTE", "another secret")
	srv.masters[0].Crash(false)
	srv.awaitUp(4)
	eventually(t, "the history has seen it", noted("<bdi>master-1:6379</bdi> has no vote"))
	eventually(t, "there is a list with the locks", noted("another secret"))
	for _, c := range []struct {
		visit
		code       int
		has, lacks []string
	}{
		{visit{path: "/"}, 200, []string{`href="login"`}, []string{"billing:1", "secret", "worker-7"}},
		{visit{path: "/", user: "ops", password: "right"}, 200, []string{"Logged in as <bdi>ops</bdi>", "billing:1", "secret-resource", "another secret", "worker-7",
			"master-1:6379", "2 in all."}, []string{`href="login"`}},
		{visit{path: "/", user: "ops", password: "right", from: "10.1.2.3:5", tls: true}, 200, []string{"secret-resource"}, nil},
		{visit{path: "/", user: "billing", password: "bill"}, 200, []string{"billing:1", "the month of May", "master-1:6379", "1 in all."},
			[]string{"secret"}}, // and what a stranger sees
		{visit{path: "/", user: "ops", password: "wrong"}, 401, []string{"the name or the password is wrong"}, []string{"billing", "secret"}},
		{visit{path: "/", user: "blind", password: "b"}, 200, []string{"There is no list: [auth] does not give this user commands = [&#34;read&#34;]"}, []string{"billing:1", "secret"}},
		{visit{path: "/", user: "card"}, 401, nil, []string{"billing", "secret"}},
		{visit{path: "/", user: "ops"}, 401, nil, []string{"billing", "secret"}},
		{visit{path: "/live", user: "ops", password: "wrong"}, 401, nil, []string{"data:"}},
		{visit{path: "/", user: "ops", password: "right", from: "10.1.2.3:5"}, 403, []string{"a password needs TLS here: set tls_cert and tls_key in [http]"}, []string{"secret"}},
		{visit{path: "/", from: "10.1.2.3:5"}, 200, []string{"Nobody can log in here: a password needs TLS here"}, []string{`href="login"`}},
		{visit{path: "/login"}, 401, []string{"nobody is logged in"}, nil},
		{visit{path: "/login", from: "10.1.2.3:5"}, 403, []string{"a password needs TLS here"}, nil},
		{visit{path: "/login", user: "ops", password: "right"}, 303, nil, nil},
		{visit{path: "/logout", user: "ops", password: "right"}, 401, []string{"you are logged out"}, nil},
		{visit{path: "/?filter=SECRET", user: "ops", password: "right"}, 200, []string{"secret-resource", "1 of 2.", `value="SECRET"`}, []string{"billing:1"}},
		{visit{path: "/?filter=%22%3E%3Cscript%3E", user: "ops", password: "right"}, 200, []string{"None of 2 locks has", `value="&#34;&gt;&lt;script&gt;"`}, []string{`"><script>`}},
		{visit{path: "/live", site: "cross-site"}, 403, nil, []string{"data:"}},
	} {
		w := srv.visit(c.visit)
		if w.Code != c.code {
			t.Errorf("%+v: got %d, want %d", c.visit, w.Code, c.code)
		}
		if asked := w.Header().Get("WWW-Authenticate") != ""; asked != (c.code == 401) {
			t.Errorf("%+v: the browser is asked for a password: %v", c.visit, asked)
		}
		wants(t, w.Body.String(), c.has, c.lacks)
	}
}

// Goal: a password that is tried here counts as one that is tried on the Redis port, and slows down the same address.
func TestPagePasswordsAreLimited(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		var record bytes.Buffer
		srv := serve(t, guarded, func(o *Options) { o.Audit = &record })
		origin := netip.MustParsePrefix("127.0.0.1/32")
		for range 2 {
			if w := srv.visit(visit{path: "/", user: "ops", password: "guess"}); w.Code != 401 {
				t.Errorf("got %d, want 401", w.Code)
			}
		}
		if n := srv.counters[countLoginsFailed].Load(); n != 2 {
			t.Errorf("%d failed logins are counted, want 2", n)
		}
		srv.audit.close()
		wants(t, record.String(), []string{`"user":"ops","addr":"127.0.0.1:50000","client":0,"command":"GET /","outcome":"WRONGPASS"`}, []string{"guess"})
		srv.logins.mu.Lock()
		until := srv.logins.until[origin]
		srv.logins.until[origin] = time.Now().Add(loginMemoryMax)
		srv.logins.mu.Unlock()
		if until.IsZero() {
			t.Error("the failures of the address are not remembered")
		}
		// Whoever knows the password gets in at once, and a guess is answered late.
		for password, want := range map[string]time.Duration{"right": 0, "guess": loginWaitMax} {
			start := time.Now()
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = "127.0.0.1:50001"
			viewer := srv.logInPage(r, "ops", password)
			if got := time.Since(start); got != want || (viewer != nil) != (want == 0) {
				t.Errorf("password %q was answered after %v, want %v", password, got, want)
			}
		}
	})
}

// Goal: nothing that a client chooses is taken for HTML or hides what stands beside it, and it is bounded.
func TestPageEscapes(t *testing.T) {
	srv := serve(t, guarded)
	c := srv.dial()
	c.do("AUTH", "ops", "right").is("+OK")
	const evil = "<script>alert(1)</script>"
	c.do("CLIENT", "SETNAME", evil).is("+OK")
	c.do("LOCK", evil+"\r\n\ndata: x", "60000", "NOTE", "<img src=x onerror=alert(2)>")
	c.do("LOCK", "right-to-left-\u202e-\x00\xff", "60000")
	c.do("LOCK", strings.Repeat("é", 500), "60000")
	page := srv.visit(visit{path: "/", user: "ops", password: "right"}).Body.String()
	wants(t, page, []string{
		`&lt;script&gt;alert(1)&lt;/script&gt;\r\n\ndata: x`, "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;</bdi>", "&lt;img src=x onerror=alert(2)&gt;",
		`right-to-left-\u202e-\x00\xff`, strings.Repeat("é", 128/2) + "…",
	}, []string{evil, "<img", "\u202e", strings.Repeat("é", 128/2+1)})
}

// Goal: the page may run its own script and style, and nothing else: the policy names a nonce that nobody can know.
func TestPageRunsItsOwnScriptAlone(t *testing.T) {
	srv := newTestServer(t)
	seen := make(map[string]bool)
	for range 2 {
		w := srv.visit(visit{path: "/"})
		tags := regexp.MustCompile(`<(?:script|style) nonce="([\w-]{22})">`).FindAllStringSubmatch(w.Body.String(), -1)
		if len(tags) != 2 || tags[0][1] != tags[1][1] || seen[tags[0][1]] {
			t.Fatalf("the nonces are %q", tags)
		}
		nonce := tags[0][1]
		seen[nonce] = true
		want := "default-src 'none'; style-src 'nonce-" + nonce + "'; script-src 'nonce-" + nonce + "'; img-src data:; connect-src 'self'; " +
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
		if got := w.Header().Get("Content-Security-Policy"); got != want {
			t.Errorf("the policy is %q, want %q", got, want)
		}
		if found := regexp.MustCompile(`(?i)<[^>]+\s(style|on\w+)=|(src|href)="?(https?:)?//`).FindString(w.Body.String()); found != "" {
			t.Errorf("the policy forbids %q", found)
		}
	}
}

// Goal: who waits is shown, the next one first; to a confined user only its own.
func TestPageShowsWhoWaits(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, guarded)
		c := srv.dial()
		c.do("AUTH", "ops", "right").is("+OK")
		c.do("LOCK", "zebra", "60000")
		for i := range 2 {
			w := srv.dial()
			w.do("AUTH", "ops", "right").is("+OK")
			w.do("CLIENT", "SETNAME", fmt.Sprint("waiter", i)).is("+OK")
			w.send("LOCK", "zebra", "60000", "WAIT", "60000", "NOTE", "the <next>")
			srv.waiting(1 + i)
		}
		viewer := pageViewer{srv.Server, newAccount(&access.User{}, nil)}
		if locks, err := viewer.Locks(); err != nil || len(locks.Leases) != 1 || locks.Leases[0].Waiters != 2 || len(locks.Leases[0].Queue) != 2 || locks.Leases[0].Queue[1].Note.Client != "waiter1" {
			t.Errorf("got %+v, %v, want two waiters", locks, err)
		}
		another := pageViewer{srv.Server, newAccount(&access.User{Name: "another", Resources: []string{"*"}}, nil)}
		if locks, err := another.Locks(); err != nil || locks.Leases[0].Waiters != 2 || len(locks.Leases[0].Queue) > 0 {
			t.Errorf("another user: got %+v, %v, want the number of waiters alone", locks, err)
		}
		if page := srv.visit(visit{path: "/", user: "ops", password: "right"}).Body.String(); !regexp.MustCompile(`(?s)<li><bdi>waiter0</bdi>.*the &lt;next&gt;</bdi></li><li><bdi>waiter1</bdi>`).MatchString(page) {
			t.Errorf("the page does not show the waiters: %s", page)
		}
		// Another list is being made, and is not done in time.
		srv.listing <- struct{}{}
		if _, err := viewer.Locks(); err == nil {
			t.Error("got no error, want one")
		}
		<-srv.listing
	})
}

// web serves the pages to the client that it returns, over net.Pipe, until the end of the test.
func (srv *testServer) web(change ...func(*http.Server)) *http.Client {
	l, web := newPipeListener(), &http.Server{Handler: srv.HTTPHandler()}
	for _, f := range change {
		f(web)
	}
	srv.t.Cleanup(func() { web.Close() })
	go web.Serve(l)
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return l.dial(), nil }}
	srv.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// follow opens a stream; with a user, as it.
func follow(t *testing.T, web *http.Client, user ...string) *bufio.Scanner {
	t.Helper()
	request, err := http.NewRequest("GET", "http://localhost/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(user) > 0 {
		request.SetBasicAuth(user[0], user[1])
	}
	response, err := web.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %s of %s", response.Status, response.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return lines
}

// liveMessage is an event of a stream.
type liveMessage struct {
	Title, Tone, End string
	Parts            map[string]string
}

// next is the next event; nil: the stream has ended.
func next(t *testing.T, lines *bufio.Scanner) *liveMessage {
	t.Helper()
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			m := new(liveMessage)
			if err := json.Unmarshal([]byte(text), m); err != nil {
				t.Fatal(err)
			}
			return m
		}
	}
	return nil
}

// Goal: a stream begins with all parts, then has those that change, and outlives the timeouts of one request.
func TestPageIsLive(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		srv.awaitUp(5)
		web := srv.web(func(s *http.Server) { s.ReadTimeout, s.WriteTimeout = 500*time.Millisecond, 500*time.Millisecond })
		lines := follow(t, web)
		m := next(t, lines)
		if m == nil || len(m.Parts) != 7 || m.Tone != "good" || !strings.Contains(m.Parts["verdict"], "5 of 5 masters") {
			t.Fatalf("got %+v", m)
		}
		srv.crash(0, 1, 2)
		quiet := false // an event had not all parts
		for m.Tone != "bad" || !quiet {
			if m = next(t, lines); m == nil {
				t.Fatal("the stream has ended")
			}
			quiet = quiet || len(m.Parts) < 7
		}
		if !strings.HasPrefix(m.Title, "no locks – redlockd") {
			t.Errorf("the title is %q", m.Title)
		}
	})
}

// Goal: streams are bounded, and who is ended is told so.
func TestPageStreamsAreBounded(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		web := newTestServer(t).web()
		lines := follow(t, web)
		for range HTTPStreamsMax {
			follow(t, web)
		}
		m := next(t, lines)
		for ; m != nil && m.End == ""; m = next(t, lines) {
		}
		if m == nil {
			t.Error("the stream has ended without a word")
		}
	})
}

// Goal: a page ends when its user may not see any more what it shows.
func TestPageOfARemovedUserEnds(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, guarded)
		web := srv.web()
		stays, lines := follow(t, web, "billing", "bill"), follow(t, web, "ops", "right")
		if m := next(t, lines); m == nil || m.Parts["locks"] == "" {
			t.Fatalf("got %+v, want locks", m)
		}
		var opts Options
		guarded(&opts)
		opts.Users = opts.Users[1:]
		if _, err := srv.Reload(opts); err != nil {
			t.Fatal(err)
		}
		m := next(t, lines)
		for ; m != nil && m.End == ""; m = next(t, lines) {
		}
		if m == nil || m.End != "Your user was changed or removed." || next(t, lines) != nil {
			t.Errorf("got %+v, want that the stream has ended", m)
		}
		for range 3 {
			if m := next(t, stays); m == nil || m.End != "" {
				t.Errorf("got %+v of a user who stays", m)
			}
		}
	})
}

// Goal: the page has the locks of all redlockds, and says whose it lacks. A confined user learns how many they are, and no names.
func TestPageHasAllRedlockds(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, guarded)
		c := srv.dial()
		c.do("AUTH", "ops", "right").is("+OK")
		c.do("LOCK", "billing:mine", "60000")
		answerWith(t, srv, `{"locks":[{"resources":["dGhlaXJz"],"digest":"0123456789abcdef","validity_ms":1000,"since":1,"holder":{"client":"worker-9","user":"root"}}]}`)
		srv.fleet.Receive(`{"kind":"hello","from":"0123456789abcdef","name":"silent:1"}` + "\n")
		for _, c := range []struct {
			visit
			has, lacks []string
		}{
			{visit{path: "/", user: "ops", password: "right"}, []string{"2 in all.", "Answered: this redlockd, liar:1.", "billing:mine", srv.name(), "theirs", "worker-9",
				"<bdi>silent:1</bdi> did not answer, and was heard ", " ago: what it has granted is not in the list."}, nil},
			{visit{path: "/", user: "billing", password: "bill"}, []string{"1 in all.", "2 redlockds have answered.", "A redlockd did not answer, and was heard"},
				[]string{"theirs", "worker-9", "silent:1", "liar:1", `data-name="redlockd"`}},
		} {
			wants(t, srv.visit(c.visit).Body.String(), c.has, c.lacks)
		}
	})
}

// Goal: the page shows when certificates end and what is wrong with them, and whether the audit is complete.
func TestPageShowsCertificatesAndAudit(t *testing.T) {
	ends := time.Date(2031, 2, 3, 4, 5, 6, 0, time.FixedZone("CET", 3600))
	srv := serve(t, func(o *Options) {
		o.Audit, o.AuditLocks = brokenWriter{}, true
		o.Certificates = func() []Certificate {
			return []Certificate{{File: "good.pem", NotAfter: ends}, {File: "bad.pem", NotAfter: ends, Warning: "bad.pem ends on Monday: renew it"}}
		}
	})
	srv.awaitUp(5)
	srv.dial().do("LOCK", "r", "60000")
	eventually(t, "a line of the audit is dropped", func() bool { _, dropped := srv.audit.counts(); return dropped == 1 })
	wants(t, srv.visit(visit{path: "/"}).Body.String(), []string{"0 lines, with locks, 1 dropped", "TLS: bad.pem ends on Monday: renew it.",
		"<dt>certificate good.pem</dt><dd>until 2031-02-03 03:05 UTC</dd>", `<dt>certificate bad.pem</dt><dd><span class="warn">`}, nil)
}

// brokenWriter is a full disk.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
