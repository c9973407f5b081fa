package proxy

// Goal: the page tells a person what is wrong, shows resources to those alone who may use them, and cannot be made to run anything or
// to cost much. Method: requests to the handler; streams over a real connection.

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock"
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
	srv.pages.mu.Lock()
	defer srv.pages.mu.Unlock()
	clear(srv.pages.renderings)
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
	w := srv.visit(visit{path: "/"})
	if got := w.Header().Get("Content-Type"); w.Code != 200 || got != "text/html; charset=utf-8" {
		t.Errorf("got %d with %s", w.Code, got)
	}
	wants(t, w.Body.String(), []string{
		`data-tone="good"`, "<title>redlockd on ", "Locks are granted: 5 of 5 masters have a vote, and 3 are needed.", "master-5:6379", "<dd>&lt;b&gt;9<dt>",
		" of the membership: max_ttl 1 min; ", "Nobody can log in here: no users are configured: name them in [auth].",
	}, []string{"secret-resource", `<a href="login">`})
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

// Goal: a user sees locks after a login, which needs TLS or the same machine. Who may use some resources only sees only these, and no
// names of masters.
func TestPageAfterALogin(t *testing.T) {
	srv := serve(t, guarded)
	srv.awaitUp(5)
	srv.HTTPHandler() // begins to note what happens
	eventually(t, "there is a first reading", func() bool { _, events := srv.history.last(); return len(events) > 0 })
	c := srv.dial()
	c.do("AUTH", "ops", "right").is("+OK")
	c.do("CLIENT", "SETNAME", "worker-7")
	c.do("LOCK", "billing:1", "60000", "NOTE", "the month of May")
	c.do("LOCK", "secret-resource", "60000", "NOTE", "another secret")
	srv.masters[0].Crash(false)
	srv.awaitUp(4)
	eventually(t, "the history has seen it", func() bool {
		_, events := srv.history.last()
		return len(events) > 0 && events[0].master == "master-1:6379"
	})
	for _, c := range []struct {
		visit
		code       int
		has, lacks []string
	}{
		{visit{path: "/"}, 200, []string{`<a href="login">`}, []string{"billing:1", "secret", "worker-7"}},
		{visit{path: "/", user: "ops", password: "right"}, 200, []string{"Logged in as <bdi>ops</bdi>", "billing:1", "secret-resource", "another secret", "worker-7",
			"master-1:6379", "2 in all."}, []string{`<a href="login">`}},
		{visit{path: "/", user: "ops", password: "right", from: "10.1.2.3:5", tls: true}, 200, []string{"secret-resource"}, nil},
		{visit{path: "/", user: "billing", password: "bill"}, 200, []string{"billing:1", "the month of May", "master 1", "1 in all."},
			[]string{"secret", "master-1:6379", "connection refused"}},
		{visit{path: "/", user: "ops", password: "wrong"}, 401, []string{"the name or the password is wrong"}, []string{"billing", "secret"}},
		{visit{path: "/", user: "blind", password: "b"}, 200, []string{"There is no list: [auth] does not give this user commands = [&#34;read&#34;]"}, []string{"billing:1", "secret"}},
		{visit{path: "/", user: "card"}, 401, nil, []string{"billing", "secret"}},
		{visit{path: "/", user: "ops"}, 401, nil, []string{"billing", "secret"}},
		{visit{path: "/live", user: "ops", password: "wrong"}, 401, nil, []string{"data:"}},
		{visit{path: "/", user: "ops", password: "right", from: "10.1.2.3:5"}, 403, []string{"a password needs TLS here: set tls_cert and tls_key in [http]"}, []string{"secret"}},
		{visit{path: "/", from: "10.1.2.3:5"}, 200, []string{"Nobody can log in here: a password needs TLS here"}, []string{`<a href="login">`}},
		{visit{path: "/login"}, 401, []string{"nobody is logged in"}, nil},
		{visit{path: "/login", from: "10.1.2.3:5"}, 403, []string{"a password needs TLS here"}, nil},
		{visit{path: "/login", user: "ops", password: "right"}, 303, nil, nil},
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
		// One that leaves while it waits is not checked, and so not counted.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := httptest.NewRequest("GET", "/", nil).WithContext(context.WithValue(ctx, http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))
		r.RemoteAddr = "127.0.0.1:50001"
		r.SetBasicAuth("ops", "right")
		w := httptest.NewRecorder()
		srv.HTTPHandler().ServeHTTP(w, r)
		if n := srv.counters[countLoginsFailed].Load(); n != 2 || strings.Contains(w.Body.String(), "Logged in") {
			t.Errorf("who waited was checked: %d failed logins, %s", n, w.Body)
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
		`right-to-left-\u202e-\x00\xff`, strings.Repeat("é", pageTextMax/2) + "…",
	}, []string{evil, "<img", "\u202e", strings.Repeat("é", pageTextMax/2+1)})
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

// Goal: the list has the locks first that one looks for: those that were lost, those that most wait for. It is bounded.
func TestPageListsTheWaitedForFirst(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, guarded)
		c, other := srv.dial(), srv.dial()
		c.do("AUTH", "ops", "right").is("+OK")
		other.do("AUTH", "ops", "right").is("+OK")
		for i := range pageLocksMax + 5 {
			c.do("LOCK", fmt.Sprintf("a%03d", i), "60000")
		}
		c.do("LOCK", "zebra", "60000")
		other.send("LOCK", "zebra", "60000", "WAIT", "60000")
		eventually(t, "the other client waits", waiters(srv, 1))
		v := srv.locksView(&access.User{}, time.Now())
		if len(v.Rows) != pageLocksMax || v.Found != pageLocksMax+6 || !v.All || v.Rows[0].Resources[0] != "zebra" || v.Rows[0].Waiters != 1 || v.Rows[1].Resources[0] != "a000" {
			t.Errorf("got %+v", v)
		}
		// Who waits is shown, the next one first; to a confined user only its own.
		for i := range pageWaitersMax {
			w := srv.dial()
			w.do("AUTH", "ops", "right").is("+OK")
			w.do("CLIENT", "SETNAME", fmt.Sprint("waiter", i)).is("+OK")
			w.send("LOCK", "zebra", "60000", "WAIT", "60000", "NOTE", "the <next>")
			eventually(t, "it waits", waiters(srv, 2+i))
		}
		v = srv.locksView(&access.User{}, time.Now())
		if row := v.Rows[0]; row.Waiters != pageWaitersMax+1 || len(row.Queue) != pageWaitersMax || row.Queue[0].Note.Client != "" || row.Queue[1].Note.Client != "waiter0" || row.Queue[2].Note.Client != "waiter1" {
			t.Errorf("got %+v, want the first %d of %d waiters", row, pageWaitersMax, pageWaitersMax+1)
		}
		if row := srv.locksView(&access.User{Name: "another", Resources: []string{"*"}}, time.Now()).Rows[0]; row.Waiters != pageWaitersMax+1 || len(row.Queue) > 0 {
			t.Errorf("another user: got %+v, want the number of waiters alone", row)
		}
		if page := srv.visit(visit{path: "/", user: "ops", password: "right"}).Body.String(); !strings.Contains(page, "<li><div><bdi>the &lt;next&gt;</bdi></div>") || !strings.Contains(page, "waiter1") {
			t.Errorf("the page does not show the waiters: %s", page)
		}
		// Another list is being made, and is not done in time.
		srv.listing <- struct{}{}
		if v := srv.locksView(&access.User{}, time.Now().Add(-locksTime)); v.Problem == "" {
			t.Errorf("got %+v, want a problem", v)
		}
		<-srv.listing
	})
}

// Goal: all who look as the same user share one rendering, and few renderings are kept.
func TestPageIsRenderedOnceForAll(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := newTestServer(t)
		first := srv.rendered(nil)
		if second := srv.rendered(nil); &first.Parts[0] != &second.Parts[0] {
			t.Error("a page was made twice within a second")
		}
		time.Sleep(time.Until(srv.pages.renderings[nil].until) + 1)
		if third := srv.rendered(nil); &first.Parts[0] == &third.Parts[0] {
			t.Error("a page that is over was shown again")
		}
		for range 2 * renderingsMax {
			srv.rendered(newAccount(&access.User{Name: "x"}, nil))
		}
		if n := len(srv.pages.renderings); n > renderingsMax {
			t.Errorf("%d renderings are kept, want %d at most", n, renderingsMax)
		}
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
		if m == nil || len(m.Parts) != 7 || m.Tone != toneGood || !strings.Contains(string(m.Parts["verdict"]), "5 of 5 masters") {
			t.Fatalf("got %+v", m)
		}
		for _, master := range srv.masters[:3] {
			master.Crash(false)
		}
		quiet := false // an event had not all parts
		for m.Tone != toneBad || !quiet {
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

// Goal: streams are bounded. One more ends the oldest of the address that has most.
func TestPageStreamsAreBounded(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := newTestServer(t)
		var ended []string
		enter := func(name, from string) *stream {
			s := &stream{netip.MustParsePrefix(from), func() { ended = append(ended, name) }}
			srv.pages.enter(s)
			return s
		}
		first := enter("first", "10.0.0.1/32")
		for i := range HTTPStreamsMax - 1 {
			enter(fmt.Sprint("many ", i), "10.0.0.2/32")
		}
		if ended != nil {
			t.Errorf("%q have ended, want none", ended)
		}
		enter("another", "10.0.0.3/32")
		srv.pages.leave(first)
		enter("a third", "10.0.0.3/32")
		enter("a fourth", "10.0.0.3/32")
		if len(ended) != 2 || ended[0] != "many 0" || ended[1] != "many 1" {
			t.Errorf("%q have ended, want the two oldest of those with most", ended)
		}
		// Who is ended is told so.
		web := srv.web()
		lines := follow(t, web)
		for range HTTPStreamsMax {
			enter("more", "127.0.0.1/32")
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

// Goal: what changes between two readings becomes an event, once.
func TestHistoryNotesWhatChanges(t *testing.T) {
	masters := func(states ...redlock.MasterState) (all []redlock.MasterStatus) {
		for i, s := range states {
			all = append(all, redlock.MasterStatus{Addr: fmt.Sprint("m", i+1), State: s, Reason: "reason"})
		}
		return all
	}
	const up, down, quarantined = redlock.MasterUp, redlock.MasterDown, redlock.MasterQuarantined
	var h history
	now := time.Unix(0, 0)
	for _, c := range []struct {
		masters []redlock.MasterStatus
		version int64
		leaving bool
		want    []string
	}{
		{masters(down, down, down), 0, false, []string{"good redlockd has started"}},
		{masters(up, up, down), 4, false, []string{"good m1 votes", "good m2 votes", "good there is a quorum: locks are granted"}},
		{masters(up, up, down), 4, false, nil},
		{masters(up, quarantined, down), 4, false, []string{"warn m2 has no vote: quarantined, it may have forgotten locks (reason)",
			"bad the quorum is lost: no locks are granted until 2 masters vote"}},
		{masters(up, up, down), 5, true, []string{"good m2 votes", "good the membership was changed: it has version 5 now, and 0 masters that vote",
			"good there is a quorum: locks are granted", "warn this server was told to stop"}},
		{masters(up, up), 5, true, nil},
		{masters(up, down), 5, true, []string{"bad m2 has no vote: down (reason)", "bad the quorum is lost: no locks are granted until 2 masters vote"}},
	} {
		h.events = nil
		h.noteStatesLocked(now, c.masters, &redlock.Membership{Version: c.version}, c.leaving)
		h.begun = true
		var got []string
		for _, e := range h.events {
			text := string(e.tone) + " " + strings.TrimSpace(e.master+" "+e.text)
			if e.why != "" {
				text += " (" + e.why + ")"
			}
			got = append(got, text)
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%+v: got %q, want %q", c.masters, got, c.want)
		}
	}
	for i := range 3 * eventsMax {
		h.noteLocked(now, event{text: fmt.Sprint(i)})
	}
	if _, events := h.last(); len(events) != eventsMax || events[0].text != fmt.Sprint(3*eventsMax-1) {
		t.Errorf("%d events are kept, the newest is %q", len(events), events[0].text)
	}
}

// Goal: points are rates and quantiles of what came since the point before, and of the last hour.
func TestHistoryPoints(t *testing.T) {
	var h history
	now := time.Unix(0, 0)
	h.pointAt = now
	s := redlock.Stats{Granted: 50, Denied: 20, Waiters: 7, Lost: 2, Forced: 1}
	s.Rounds.Buckets[0], s.Rounds.Buckets[3], s.Rounds.Buckets[redlock.TimesBuckets-1] = 60, 38, 2
	h.addPointLocked(now.Add(10*time.Second), &s)
	points, events := h.last()
	last := s.Rounds.BucketMax(redlock.TimesBuckets - 2)
	if p := points[0]; len(points) != 1 || p.rates[0] != 5 || p.rates[1] != 2 || p.waiters != 7 || p.median != s.Rounds.BucketMax(0) || p.slow != last {
		t.Errorf("got %+v", points)
	}
	if len(events) != 2 || events[1].text != "the masters have forgotten 2 locks that should still run" || events[0].text != "1 lock was released by force" {
		t.Errorf("got %+v", events)
	}
	h.stats, h.pointAt = s, now
	for range historyPoints + 3 {
		h.addPointLocked(now.Add(10*time.Second), &s)
	}
	if points, _ = h.last(); len(points) != historyPoints || points[0].rates[0] != 0 || points[0].slow != 0 {
		t.Errorf("got %d points, the first is %+v", len(points), points[0])
	}
	if plots := plotsOf(points); !strings.HasPrefix(plots[0].Lines[0].Path, "M0 59L1 59") || plots[2].Most != "7" {
		t.Errorf("got %+v", plots)
	}
}
