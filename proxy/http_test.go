package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"redlockd/proxy/status"
	"redlockd/redlock"
)

// get asks the HTTP handler of the server.
func (srv *testServer) get(method, path string) (code int, header http.Header, body string) {
	srv.t.Helper()
	w := httptest.NewRecorder()
	request := httptest.NewRequest(method, path, nil)
	request.Host = "127.0.0.1:9121"
	srv.HTTPHandler().ServeHTTP(w, request)
	b, err := io.ReadAll(w.Result().Body)
	if err != nil {
		srv.t.Fatal(err)
	}
	return w.Code, w.Result().Header, string(b)
}

// metric is the value of one line of /metrics, as text.
func (srv *testServer) metric(line string) string {
	srv.t.Helper()
	_, _, body := srv.get("GET", "/metrics")
	found := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(line) + " (.*)$").FindStringSubmatch(body)
	if found == nil {
		srv.t.Fatalf("/metrics has no line %s", line)
	}
	return found[1]
}

// wantMetric fails the test unless a line of /metrics has this value.
func (srv *testServer) wantMetric(line, want string) {
	srv.t.Helper()
	if got := srv.metric(line); got != want {
		srv.t.Errorf("%s: got %s, want %s", line, got, want)
	}
}

// awaitUp waits until so many masters have a vote.
func (srv *testServer) awaitUp(n int) {
	srv.t.Helper()
	eventually(srv.t, "the masters are as they should be", func() bool { return status.Voting(srv.opts.Engine.Masters()) == n })
}

// Goal: the metrics count what happens, under the names and with the units that Prometheus recommends, and none of them tells what
// clients call their locks.
func TestMetrics(t *testing.T) {
	srv := serveWith(t, func(o *redlock.Options) {
		o.RetryDelayMin, o.RetryDelayMax = 10*time.Second, 10*time.Second
		o.Prefixes = []string{"secret-*"}
	}, func(opts *Options) { opts.Version = "9.8.7" })
	c, other := srv.dial(), srv.dial()
	token := c.do("LOCK", "secret-resource", "60000").granted(1, 60000)
	c.do("LOCK", "secret-resource", "60000").is("*nil")
	c.do("EXTEND", "secret-resource", token, "50000")
	c.do("EXTEND", "secret-resource", "another", "50000").is(":0")
	other.send("LOCK", "secret-resource", "60000", "WAIT", "60000")
	srv.waiting(1)
	c.settle() // it has been denied, and pauses: only then is the lock handed over
	waiting, longest := srv.metric("redlockd_waiters"), []string{srv.metric("redlockd_longest_hold_seconds"), srv.metric("redlockd_longest_wait_seconds")}
	c.do("UNLOCK", "secret-resource", token).is(":1")
	other.read().granted(1, 60000)
	c.do("UNLOCK", "secret-resource", token).is(":0")
	c.do("SET", "k", "a token of a drop-in client", "NX", "PX", "60000").is("+OK")
	c.do("nonsense")

	for line, want := range map[string]string{
		fmt.Sprintf(`redlockd_build_info{goversion="%s",revision="",version="9.8.7"}`, runtime.Version()): "1",

		`redlockd_ready`:                                                  "1",
		`redlockd_draining`:                                               "0",
		`redlockd_masters`:                                                "5",
		`redlockd_masters_voting`:                                         "5",
		`redlockd_quorum`:                                                 "3",
		`redlockd_membership_voters`:                                      "5",
		`redlockd_membership_learners`:                                    "0",
		`redlockd_membership_problem`:                                     "0",
		`redlockd_membership_differs`:                                     "0",
		`redlockd_membership_max_ttl_seconds`:                             "300",
		`redlockd_membership_wait_left_seconds`:                           "0",
		`redlockd_master_state{master="master-1:6379",state="up"}`:        "1",
		`redlockd_master_state{master="master-1:6379",state="down"}`:      "0",
		`redlockd_locks_total{outcome="granted"}`:                         "3",
		`redlockd_locks_total{outcome="denied"}`:                          "1",
		`redlockd_locks_total{outcome="noquorum"}`:                        "0",
		`redlockd_unlocks_total{outcome="released"}`:                      "1",
		`redlockd_unlocks_total{outcome="not_held"}`:                      "1",
		`redlockd_extends_total{outcome="granted"}`:                       "1",
		`redlockd_extends_total{outcome="lost"}`:                          "1",
		`redlockd_handovers_total`:                                        "1",
		`redlockd_leases`:                                                 "2",
		`redlockd_clients`:                                                "2",
		`redlockd_clients_max`:                                            "10000",
		`redlockd_waiters_max`:                                            "100000",
		`redlockd_longest_wait_seconds`:                                   "0",
		`redlockd_max_hold_seconds`:                                       "86400",
		`redlockd_max_wait_seconds`:                                       "3600",
		`redlockd_deferred`:                                               "0",
		`redlockd_connections_total`:                                      "2",
		`redlockd_error_replies_total{code="ERR"}`:                        "1",
		`redlockd_error_replies_total{code="BUSYWAIT"}`:                   "0",
		`redlockd_error_replies_total{code="other"}`:                      "0",
		`redlockd_lock_wait_seconds_count{prefix="secret-*"}`:             "2",
		`redlockd_lock_hold_seconds_count{prefix="secret-*"}`:             "1",
		`redlockd_lock_rounds_sum{prefix="secret-*"}`:                     "3",
		`redlockd_lock_rounds_count{prefix="secret-*"}`:                   "2",
		`redlockd_lock_wait_seconds_count{prefix="other"}`:                "1",
		`redlockd_lock_hold_seconds_count{prefix="other"}`:                "0",
		`redlockd_lock_round_seconds_bucket{le="+Inf"}`:                   srv.metric("redlockd_lock_round_seconds_count"),
		`redlockd_lock_round_seconds_count`:                               srv.metric("redlockd_lock_attempts_total"),
		`redlockd_master_quarantine_left_seconds{master="master-1:6379"}`: "0",
		`redlockd_master_timeouts_total{master="master-1:6379"}`:          "0",
		`redlockd_master_shed_total{master="master-1:6379"}`:              "0",
		`redlockd_master_pending_releases{master="master-1:6379"}`:        "0",
		`redlockd_locks_undelivered_total`:                                "0",
		`redlockd_protocol_errors_total`:                                  "0",
		`redlockd_connections_rejected_total`:                             "0",
	} {
		srv.wantMetric(line, want)
	}
	if waiting != "1" {
		t.Errorf("redlockd_waiters while one waits: got %s, want 1", waiting)
	}
	for _, seconds := range longest {
		if f, err := strconv.ParseFloat(seconds, 64); err != nil || f <= 0 || f > 60 {
			t.Errorf("the longest hold and wait while one holds and one waits: got %q, want less than the test takes", longest)
		}
	}
	_, _, body := srv.get("GET", "/metrics")
	for _, secret := range []string{"secret-resource", token, "drop-in", "127.0.0.1"} {
		if strings.Contains(body, secret) {
			t.Errorf("/metrics tells %q", secret)
		}
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds", `redlockd_master_clock_offset_seconds{master="master-1:6379"}`} {
		srv.metric(name)
	}
	// What an alert names must be there: Prometheus takes a metric that is not for one that is never above its bound.
	alerts, err := os.ReadFile("../docker/helm/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	descs := make(chan *prometheus.Desc, 1000)
	srv.Describe(descs)
	close(descs)
	all := ""
	for d := range descs {
		all += d.String()
	}
	for _, name := range regexp.MustCompile(`redlockd_\w+`).FindAllString(string(alerts), -1) {
		if !strings.Contains(all, `fqName: "`+strings.TrimSuffix(name, "_bucket")+`"`) {
			t.Errorf("docker/helm/alerts.yaml: there is no metric %s", name)
		}
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// Goal: the times that Prometheus gets are those that the engine has counted; its buckets count everything up to their bound.
func TestHistograms(t *testing.T) {
	var times redlock.Times
	times.Buckets[0], times.Buckets[2], times.Buckets[redlock.TimesBuckets-1] = 5, 3, 1
	times.Sum = 9 * time.Second
	var got dto.Metric
	for name, test := range map[string]struct {
		of     buckets
		counts []uint64
		bound  func(i int) time.Duration
		n      int // how many have a bound
	}{
		"as they are": {bucketsOfTimes(&times), []uint64{5, 5, 8, 8}, times.BucketMax, redlock.TimesBuckets - 1},
		"up to 4 s":   {bucketsOfTimes(&times).upTo(roundsBuckets), []uint64{5, 5, 8, 8}, times.BucketMax, roundsBuckets - 1},
		"halved":      {bucketsOfTimes(&times).halved(), []uint64{5, 8, 8}, func(i int) time.Duration { return times.BucketMax(2*i + 1) }, redlock.TimesBuckets/2 - 1},
	} {
		if err := test.of.metric(histogramTable[0].desc).Write(&got); err != nil {
			t.Fatal(err)
		}
		h := got.GetHistogram()
		if h.GetSampleCount() != 9 || h.GetSampleSum() != 9 || len(h.Bucket) != test.n {
			t.Fatalf("%s: got %v", name, h)
		}
		for i, want := range test.counts {
			if b := h.Bucket[i]; b.GetCumulativeCount() != want || b.GetUpperBound() != test.bound(i).Seconds() {
				t.Errorf("%s: bucket %d: got %v, want %d up to %v", name, i, b, want, test.bound(i))
			}
		}
		if last := h.Bucket[test.n-1]; last.GetCumulativeCount() != 8 {
			t.Errorf("%s: got %v below the largest bound, want 8", name, last)
		}
	}
}

// Goal: Prometheus gets the round trips of each master as a native histogram with the buckets that its own library would have made, if it asks for
// the format that has these; who asks for text gets text, with the sum and the count.
func TestRoundTripsAreANativeHistogram(t *testing.T) {
	theirs := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "theirs", NativeHistogramBucketFactor: 1.19, NativeHistogramZeroThreshold: redlock.RoundTrips{}.BucketMax(0)})
	var ours redlock.RoundTrips
	random := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		took := time.Duration(math.Exp(random.Float64() * math.Log(float64(50*time.Second))))
		theirs.Observe(took.Seconds())
		ours.Count, ours.Sum = ours.Count+1, ours.Sum+took
		i := 0
		for took.Seconds() > ours.BucketMax(i) {
			i++
		}
		ours.Buckets[i]++
	}
	var got, want dto.Metric
	if err := errors.Join(nativeHistogram(&ours, time.Now()).Write(&got), theirs.Write(&want)); err != nil {
		t.Fatal(err)
	}
	g, w := got.Histogram, want.Histogram
	if g.GetSchema() != w.GetSchema() || g.GetZeroCount() != w.GetZeroCount() || g.GetSampleCount() != 1000 || fmt.Sprint(g.PositiveSpan, g.PositiveDelta) != fmt.Sprint(w.PositiveSpan, w.PositiveDelta) {
		t.Errorf("got %v, want what Prometheus's library makes of the same times: %v", g, w)
	}

	srv := serve(t)
	srv.awaitUp(5)
	srv.dial().do("LOCK", "r", "60000").granted(1, 60000)
	families := func(accept string) (contentType string, histogram *dto.Histogram) {
		request := httptest.NewRequest("GET", "/metrics", nil)
		request.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		srv.HTTPHandler().ServeHTTP(w, request)
		decoder := expfmt.NewDecoder(w.Body, expfmt.ResponseFormat(w.Result().Header))
		for {
			var family dto.MetricFamily
			if err := decoder.Decode(&family); err != nil {
				t.Fatalf("%s: no round trips: %v", accept, err)
			}
			if family.GetName() == "redlockd_master_batch_seconds" {
				if len(family.Metric) != 5 || family.Metric[0].GetLabel()[0].GetValue() != "master-1:6379" {
					t.Errorf("got %v, want one for each master", family.Metric)
				}
				return w.Result().Header.Get("Content-Type"), family.Metric[0].Histogram
			}
		}
	}
	// What Prometheus 2.42 sends with native histograms, and without.
	const protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
	contentType, h := families(protobuf)
	if !strings.HasPrefix(contentType, "application/vnd.google.protobuf") || h.GetSchema() != redlock.RoundTripsSchema || len(h.Bucket) > 0 || len(h.PositiveSpan) == 0 || h.GetSampleCount() == 0 {
		t.Errorf("protobuf: got %s with %v, want a native histogram", contentType, h)
	}
	for _, accept := range []string{"", "*/*", "text/plain", "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"} {
		contentType, h := families(accept)
		if !strings.HasPrefix(contentType, "text/plain; version=0.0.4") || len(h.Bucket) != 1 || h.GetSampleCount() == 0 || h.GetSampleSum() <= 0 {
			t.Errorf("%q: got %s with %v, want text, with one bucket, the sum and the count", accept, contentType, h)
		}
	}
}

// Goal: errors are counted by their code for as long as the server runs, and a script cannot make up a label.
func TestErrorRepliesByCode(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	for _, text := range []string{"MADEUP by a script", "other by a script", "ERR by a script"} {
		c.do("EVAL", "return redis.error_reply(ARGV[1])", "0", text)
	}
	c.do("CONFIG", "RESETSTAT")
	c.do("SUBSCRIBE")
	c.do("EVALSHA", strings.Repeat("0", 40), "0")
	for code, want := range map[string]string{"ERR": "2", "other": "2", "NOSCRIPT": "1", "BUSYWAIT": "0", "NOQUORUM": "0"} {
		srv.wantMetric(`redlockd_error_replies_total{code="`+code+`"}`, want)
	}
	if _, _, body := srv.get("GET", "/metrics"); strings.Contains(body, "MADEUP") {
		t.Error("a script has made up a label")
	}
}

// Goal: load balancers and orchestrators learn whether locks are available, and people why not.
func TestReady(t *testing.T) {
	srv := serve(t)
	srv.awaitUp(5)
	ask := func(wantCode int, wantText ...string) {
		t.Helper()
		code, _, body := srv.get("GET", "/readyz")
		if code != wantCode {
			t.Errorf("/readyz: got %d, want %d", code, wantCode)
		}
		for _, text := range wantText {
			if !strings.Contains(body, text) {
				t.Errorf("/readyz: got %q, want %q in it", body, text)
			}
		}
		if code, _, body := srv.get("GET", "/livez"); code != 200 || body != "alive\n" {
			t.Errorf("/livez: got %d %q, want 200 alive", code, body)
		}
		ready := "0"
		if wantCode == 200 {
			ready = "1"
		}
		srv.wantMetric("redlockd_ready", ready)
	}
	ask(200, "ready: 5 of 5 masters have a vote, and 3 are needed; 2 may fail\n")
	srv.crash(0, 1)
	srv.awaitUp(3)
	ask(200, "ready: 3 of 5 masters", "master-1:6379 is down: ")
	srv.masters[2].Crash(false)
	srv.awaitUp(2)
	ask(503, "no quorum: 2 of 5 masters have a vote, and 3 are needed\n", "master-3:6379 is down: ")

	other := serve(t)
	other.awaitUp(5)
	other.draining.Store(true)
	srv = other
	ask(503, "draining")
	srv = serve(t, func(o *Options) { o.Embedded = true })
	srv.awaitUp(5)
	ask(200, "ready: 5 of 5 masters have a vote, and 3 are needed; 2 may fail\nfor trying: locks end with this process\n")
	srv.dial().do("INFO", "server").matches(`(?s).*embedded_masters:for trying: locks end with this process.*`)
	wants(t, srv.visit(visit{path: "/"}).Body.String(), []string{`data-tone="warn"`, "<title>for trying – redlockd", "This redlockd is for trying: locks end with this process."}, nil)
}

// Goal: other paths and methods are refused, with what there is.
func TestHTTPRefuses(t *testing.T) {
	srv := serve(t)
	for _, c := range []struct {
		method, path string
		code         int
		text         string
	}{
		{"GET", "/metric", 404, "there are / (status), /metrics, /livez and /readyz"},
		{"POST", "/", 405, ""},
		{"DELETE", "/metrics", 405, ""},
	} {
		if code, _, body := srv.get(c.method, c.path); code != c.code || !strings.Contains(body, c.text) {
			t.Errorf("%s %s: got %d %q, want %d %q", c.method, c.path, code, body, c.code, c.text)
		}
	}
}

// Goal: no page of another site can show the pages in a frame, or read the status under a name of its own; machines are answered under
// any name.
func TestBrowsersAreKeptToTheirSite(t *testing.T) {
	srv := newTestServer(t, func(o *Options) { o.HTTPHosts = []string{"Locks.example.com"} })
	for _, path := range []string{"/", "/metrics", "/livez", "/readyz", "/nothing"} {
		_, header, _ := srv.get("GET", path)
		for name, want := range map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
			"Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
		} {
			if got := header.Get(name); got != want {
				t.Errorf("%s %s: got %q, want %q", path, name, got, want)
			}
		}
		// The page allows its own script and style besides, see TestPageRunsItsOwnScriptAlone.
		if got := header.Get("Content-Security-Policy"); path != "/" && got != "default-src 'none'; frame-ancestors 'none'" {
			t.Errorf("%s: the policy is %q", path, got)
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave() // or a stream that is not refused would go on
	for host, want := range map[string]int{
		"127.0.0.1:9121": 200, "10.1.2.3": 200, "[::1]:9121": 200, "[fe80::1]": 200, "localhost:9121": 200, "LOCALHOST.": 200,
		"redlockd:9121": 200, "redlockd-0": 200, "redlockd.locks.svc": 200, "redlockd.locks.svc.cluster.local:80": 200, "": 200,
		"locks.example.com:9121": 200, "locks.EXAMPLE.com.": 200,
		"example.com": 421, "evil.locks.example.com": 421, "127.0.0.1.evil.com:9121": 421, "localhost.evil.com": 421, "x.local.evil.com": 421, "1.2.3": 421,
	} {
		wants := map[string]int{"/": want, "/metrics": 200, "/livez": 200, "/readyz": 200}
		if want == 421 {
			wants["/login"], wants["/live"] = 421, 421
		}
		for path, want := range wants {
			request := httptest.NewRequest("GET", path, nil)
			if request.Host = host; path == "/live" {
				request = request.WithContext(gone)
			}
			w := httptest.NewRecorder()
			srv.HTTPHandler().ServeHTTP(w, request)
			if w.Code != want {
				t.Errorf("%s under the name %q: got %d, want %d", path, host, w.Code, want)
			}
			if w.Code == 421 && !strings.Contains(w.Body.String(), "add it to hosts in [http]") {
				t.Errorf("%s under the name %q: got %q, want what to do", path, host, w.Body)
			}
		}
	}
}
