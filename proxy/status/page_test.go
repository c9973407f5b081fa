package status

// Goal: the page has what is to be looked at first, is rendered once for all who see the same, and is
// followed by few; the history notes what changes. Method: readings that no server has made.

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a-h/templ"

	"redlockd/redlock"
	"redlockd/redlock/redisproc"
)

// viewer sees some locks.
type viewer struct {
	name  string
	locks *Locks // nil: there is no list
}

func (v viewer) Name() string   { return v.name }
func (v viewer) Confined() bool { return v.name == "confined" }
func (v viewer) Known() bool    { return true }
func (v viewer) Locks() (Locks, error) {
	if v.locks == nil {
		return Locks{}, errors.New("there is none")
	}
	return *v.locks, nil
}

// Goal: who has no quorum reads how long it takes at most, where that follows from what masters wait for. Method: states of five masters.
func TestReadyTellsTheTimeLeft(t *testing.T) {
	const up, down, waits = redlock.MasterUp, redlock.MasterDown, redlock.MasterQuarantined
	for _, c := range []struct {
		states []redlock.MasterState
		left   []time.Duration
		want   string
	}{
		{[]redlock.MasterState{up, up, down, down, down}, []time.Duration{0, 0, 0, 0, 0}, "no quorum: 2 of 5 masters have a vote, and 3 are needed"},
		{[]redlock.MasterState{up, up, down, waits, waits}, []time.Duration{0, 0, 0, 50 * time.Second, 40500 * time.Millisecond},
			"no quorum: 2 of 5 masters have a vote, and 3 are needed; a lock can be granted in 41 s at most"},
		{[]redlock.MasterState{down, down, waits, waits, waits}, []time.Duration{0, 0, time.Second, 3 * time.Minute, time.Millisecond},
			"no quorum: 0 of 5 masters have a vote, and 3 are needed; a lock can be granted in 3 min 1 s at most"},
		{[]redlock.MasterState{up, waits, waits, waits, down}, []time.Duration{0, 0, 0, time.Second, 0}, "no quorum: 1 of 5 masters have a vote, and 3 are needed"}, // not known
	} {
		r := new(Reading)
		for i := range c.states {
			r.Masters = append(r.Masters, redlock.MasterStatus{State: c.states[i], Left: c.left[i], Addr: fmt.Sprint("m", i)})
		}
		if got := fmt.Sprint(r.Ready()); got != c.want {
			t.Errorf("%v: got %q, want %q", c.states, got, c.want)
		}
	}
	var body bytes.Buffer
	st := &Status{Source: Source{Reading: func() *Reading {
		return &Reading{Masters: []redlock.MasterStatus{{Addr: "m0", State: waits, Left: 1500 * time.Millisecond, Reason: "it is new"}}}
	}}}
	w := httptest.NewRecorder()
	w.Body = &body
	st.serveReady(w, nil)
	const want = "no quorum: 0 of 1 masters have a vote, and 1 are needed; a lock can be granted in 2 s at most\nm0 is quarantined, for 2 s at most: it is new\n"
	if w.Code != 503 || body.String() != want {
		t.Errorf("got %d %q, want 503 %q", w.Code, body.String(), want)
	}
}

// Goal: the list has the locks first that one looks for: those that were lost, those that most wait
// for. It is bounded, and says so.
func TestListHasTheWaitedForFirst(t *testing.T) {
	locks := Locks{Answered: []string{"a:1"}}
	add := func(l redlock.LeaseInfo) { locks.Leases = append(locks.Leases, Lease{"a:1", l}) }
	for i := range pageLocksMax + 5 {
		add(redlock.LeaseInfo{Resources: []string{fmt.Sprintf("a%03d", i)}, TokenDigest: "x"})
	}
	add(redlock.LeaseInfo{Resources: []string{"lost"}, Lost: true, TokenDigest: "x"})
	add(redlock.LeaseInfo{Resources: []string{"zebra"}, TokenDigest: "x", Waiters: pageWaitersMax + 1, Queue: make([]redlock.WaiterInfo, pageWaitersMax+1)})
	v := newLocksView(viewer{locks: &locks}).filtered("")
	if len(v.Rows) != pageLocksMax || v.Found != pageLocksMax+7 || v.Rows[0].Resources[0] != "lost" || v.Rows[0].Tone != toneBad || v.Rows[2].Resources[0] != "a000" {
		t.Errorf("got %+v", v)
	}
	if got, want := v.Count(), "100 of 107: the longest held, those with the longest waits and with most waiters, and those that were lost."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if row := v.Rows[1]; row.Resources[0] != "zebra" || row.Waiters != pageWaitersMax+1 || len(row.Queue) != pageWaitersMax {
		t.Errorf("got %+v, want the first %d of %d waiters", row, pageWaitersMax, pageWaitersMax+1)
	}
	if v := newLocksView(viewer{}); v.Problem != "there is none" {
		t.Errorf("got %+v, want a problem", v)
	}
}

// Goal: the lock that has been held for longest and the one with the longest wait are among those that are shown, however many others there are, lost
// or waited for by more, and wherever it stands by name.
func TestListHasTheLongestHeld(t *testing.T) {
	locks := Locks{Answered: []string{"a:1"}}
	since := time.Unix(1_000_000, 0)
	for i := range 3000 {
		locks.Leases = append(locks.Leases, Lease{"a:1", redlock.LeaseInfo{Resources: []string{fmt.Sprintf("a%04d", i)}, TokenDigest: "x", Since: since,
			Lost: i%2 == 0, Waiters: 2, Queue: []redlock.WaiterInfo{{Waited: 2}, {Waited: 1}}}})
	}
	locks.Leases = append(locks.Leases,
		Lease{"a:1", redlock.LeaseInfo{Resources: []string{"y"}, TokenDigest: "x", Since: since, Waiters: 1, Queue: []redlock.WaiterInfo{{Waited: 3}}}},
		Lease{"a:1", redlock.LeaseInfo{Resources: []string{"z"}, TokenDigest: "x", Since: since.Add(-time.Millisecond)}})
	for _, filter := range []string{"", "y", "z"} {
		found := make(map[string]bool)
		v := newLocksView(viewer{locks: &locks}).filtered(filter)
		for _, row := range v.Rows {
			found[row.Resources[0]] = true
		}
		if found["y"] != (filter != "z") || found["z"] != (filter != "y") || len(v.Rows) != min(v.Found, pageLocksMax) {
			t.Errorf("%q: %d of %d rows, y is there: %v, z is there: %v", filter, len(v.Rows), v.Found, found["y"], found["z"])
		}
	}
}

// Goal: a filter finds locks by each text that is shown of them, also those beyond pageLocksMax, and the
// list says how many there are in all.
func TestListIsFiltered(t *testing.T) {
	locks := Locks{Answered: []string{"a:1", "b:1"}}
	for i := range pageLocksMax + 50 {
		locks.Leases = append(locks.Leases, Lease{"a:1", redlock.LeaseInfo{Resources: []string{fmt.Sprintf("common:%03d", i)}, TokenDigest: "x"}})
	}
	locks.Leases = append(locks.Leases, Lease{"b:1", redlock.LeaseInfo{Resources: []string{"first", "Zebra"}, TokenDigest: "x",
		Note: &redlock.HolderNote{Text: "Nightly invoices", Client: "billing-7f9c", User: "ops", Addr: "10.0.0.7:5"}, Waiters: 1,
		Queue: []redlock.WaiterInfo{{Note: &redlock.HolderNote{Client: "next-one"}}, {}}}})
	list := newLocksView(viewer{locks: &locks})
	for _, filter := range []string{"ZEBRA", "nightly ", "billing-7", "ops", "10.0.0.7", "next-o"} {
		if v := list.filtered(filter); v.Found != 1 || len(v.Rows) != 1 || v.Rows[0].Redlockd != "b:1" {
			t.Errorf("%q finds %d", filter, v.Found)
		}
	}
	for _, c := range []struct {
		filter, want string
		more         bool
	}{
		{"", "100 of 151: the longest held, those with the longest waits and with most waiters, and those that were lost.", false},
		{"common", "100 of 150 that match, of 151: the longest held, those with the longest waits and with most waiters, and those that were lost.", false},
		{"common:00", "10 of 151.", false},
		{"lion", "None of 151 locks has “lion” in a name, a holder or a note.", false},
		{"zebra", "1 of more than 151.", true},
	} {
		list.More = c.more
		if got := list.filtered(c.filter).Count(); got != c.want {
			t.Errorf("%q: got %q, want %q", c.filter, got, c.want)
		}
	}
	for name, want := range map[string]string{"": "No locks.", "confined": "No locks on resources that this user may use."} {
		if got := newLocksView(viewer{name, new(Locks)}).filtered("").Count(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Goal: who waits at another redlockd is shown with the lock that it waits for, the longest first.
func TestWaitersOfOtherRedlockds(t *testing.T) {
	waits := func(times ...time.Duration) (queue []redlock.WaiterInfo) {
		for _, d := range times {
			queue = append(queue, redlock.WaiterInfo{Waited: d})
		}
		return queue
	}
	leases := withWaiters([]Lease{
		{"a:1", redlock.LeaseInfo{Resources: []string{"r"}, TokenDigest: "x", Waiters: 2, Queue: waits(3, 1)}},
		{"b:1", redlock.LeaseInfo{Resources: []string{"r"}, Waiters: 20, Queue: waits(2)}},
		{"b:1", redlock.LeaseInfo{Resources: []string{"s"}, Waiters: 1, Queue: waits(4)}},
		{"a:1", redlock.LeaseInfo{Resources: []string{"t"}, TokenDigest: "x", Shared: true, Waiters: 1, Queue: waits(5)}},
		{"a:1", redlock.LeaseInfo{Resources: []string{"t"}, TokenDigest: "y", Shared: true, Waiters: 1, Queue: waits(5)}},
		{"b:1", redlock.LeaseInfo{Resources: []string{"t"}, TokenDigest: "z", Shared: true, Waiters: 1, Queue: waits(6)}},
	})
	got := ""
	for _, l := range leases {
		got += fmt.Sprint(l.Resources, l.Waiters, " ")
		for _, w := range l.Queue {
			got += fmt.Sprint(int(w.Waited), " ")
		}
	}
	if want := "[r] 22 3 2 1 [s] 1 4 [t] 2 6 5 [t] 0 [t] 0 "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Goal: of a lock that is renewed, no end is shown; times below a minute have tenths.
func TestTimesOfALock(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		lease      redlock.LeaseInfo
		held, left string
	}{
		{redlock.LeaseInfo{TokenDigest: "x", Validity: 9_500 * time.Millisecond, Since: now.Add(-59_940 * time.Millisecond), Note: new(redlock.HolderNote)}, "59.9 s", "9.5 s"},
		{redlock.LeaseInfo{TokenDigest: "x", Validity: time.Second, Bound: true, Since: now.Add(-59_960 * time.Millisecond), Note: new(redlock.HolderNote)}, "1 min", "renewed"},
		{redlock.LeaseInfo{TokenDigest: "x", Validity: time.Second, Bound: true, Lost: true}, "–", "1.0 s"},
		{redlock.LeaseInfo{}, "–", "–"},
	} {
		if v := newLockView(Lease{LeaseInfo: c.lease}, now); v.Held != c.held || v.Left != c.left {
			t.Errorf("%+v: got held %q, left %q", c, v.Held, v.Left)
		}
	}
}

// Goal: all who look as the same user share one rendering, and few renderings are kept.
func TestPageIsRenderedOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		read := func() *Reading {
			made++
			return new(Reading)
		}
		st := New(Source{Reading: read, Log: slog.New(slog.DiscardHandler), Go: func(func()) bool { return false }})
		st.rendered(nil)
		if st.rendered(nil); made != 1 {
			t.Errorf("a page was made %d times within a second, want once", made)
		}
		time.Sleep(time.Until(st.pages.renderings[nil].until) + 1)
		if st.rendered(nil); made != 2 {
			t.Error("a page that is over was shown again")
		}
		for i := range 2 * renderingsMax {
			st.rendered(viewer{name: fmt.Sprint(i)})
		}
		if n := len(st.pages.renderings); n > renderingsMax {
			t.Errorf("%d renderings are kept, want %d at most", n, renderingsMax)
		}
	})
}

// Goal: page_templ.go is what templ, in the version of go.mod, makes of page.templ. Each test run compares
// the versions; one before a release runs the generator.
func TestPageIsGenerated(t *testing.T) {
	written, err := os.ReadFile("page_templ.go")
	if err != nil {
		t.Fatal(err)
	}
	if version := "// templ: version: " + templ.Version() + "\n"; !bytes.Contains(written, []byte(version)) {
		t.Errorf("page_templ.go has no line %q: run make generate", version)
	}
	redisproc.Release(t)
	check := exec.Command("go", "run", "github.com/a-h/templ/cmd/templ@"+templ.Version(), "generate", "-f", "page.templ", "-check")
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("page_templ.go is not what page.templ says: run make generate: %v\n%s", err, out)
	}
}

// Goal: one stream more than the bound ends the oldest of the address that has most.
func TestStreamsAreBounded(t *testing.T) {
	var p pages
	var ended []string
	enter := func(name, from string) *stream {
		s := &stream{netip.MustParsePrefix(from), func() { ended = append(ended, name) }}
		p.enter(s)
		return s
	}
	first := enter("first", "10.0.0.1/32")
	for i := range StreamsMax - 1 {
		enter(fmt.Sprint("many ", i), "10.0.0.2/32")
	}
	if ended != nil {
		t.Errorf("%q have ended, want none", ended)
	}
	enter("another", "10.0.0.3/32")
	p.leave(first)
	enter("a third", "10.0.0.3/32")
	enter("a fourth", "10.0.0.3/32")
	if len(ended) != 2 || ended[0] != "many 0" || ended[1] != "many 1" {
		t.Errorf("%q have ended, want the two oldest of those with most", ended)
	}
}

func TestWhatIsSaidOfALearner(t *testing.T) {
	for name, c := range map[string]struct {
		copying redlock.Copying
		want    string
	}{
		"nothing is known": {},
		"it is given locks": {redlock.Copying{From: "m1,m2", Given: 41200, Percent: 63},
			"It is being given what m1, m2 remember: 41\u202f200 locks so far (63 %). It votes when that is done."},
		"too few remember": {redlock.Copying{Problem: "1 of 2 masters that could give it its locks are there: m1, a=b cannot"},
			"Nothing is copied to it at present: 1 of 2 masters that could give it its locks are there: m1, a=b cannot."},
	} {
		if got := copyText(c.copying); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
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
		masters  []redlock.MasterStatus
		version  int64
		leaving  bool
		noQuorum time.Duration
		want     []string
	}{
		{masters(down, down, down), 0, false, 0, []string{"good redlockd has started"}},
		{masters(up, up, down), 4, false, 0, []string{"good m1 votes", "good m2 votes", "good there is a quorum: locks are granted"}},
		{masters(up, up, down), 4, false, 4 * time.Second, nil},
		{masters(up, up, down), 4, false, 5 * time.Second, []string{"bad all LOCKs end without a quorum, although 2 of 3 masters are up"}},
		{masters(up, up, down), 4, false, 9 * time.Second, nil},
		{masters(up, up, down), 4, false, 0, []string{"good a quorum answers LOCKs again, or nobody asks any more"}},
		{masters(up, quarantined, down), 4, false, 0, []string{"warn m2 has no vote: quarantined, it may have forgotten locks (reason)",
			"bad the quorum is lost: no locks are granted until 2 masters vote"}},
		{masters(up, up, down), 5, true, 0, []string{"good m2 votes", "good the membership was changed: it has version 5 now, and 0 masters that vote",
			"good there is a quorum: locks are granted", "warn this server was told to stop"}},
		{masters(up, up), 5, true, 0, nil},
		{masters(up, down), 5, true, 0, []string{"bad m2 has no vote: down (reason)", "bad the quorum is lost: no locks are granted until 2 masters vote"}},
	} {
		h.events = nil
		h.noteStatesLocked(now, &Reading{Masters: c.masters, Membership: redlock.Membership{Version: c.version}, Leaving: c.leaving, Locks: redlock.Stats{NoQuorumFor: c.noQuorum}})
		h.begun = true
		var got []string
		for _, e := range h.events {
			text := string(e.Tone) + " " + strings.TrimSpace(e.Master+" "+e.Text)
			if e.Why != "" {
				text += " (" + e.Why + ")"
			}
			got = append(got, text)
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%+v: got %q, want %q", c.masters, got, c.want)
		}
	}
	for i := range 3 * eventsMax {
		h.noteLocked(now, event{Text: fmt.Sprint(i)})
	}
	if _, events := h.last(); len(events) != eventsMax || events[0].Text != fmt.Sprint(3*eventsMax-1) {
		t.Errorf("%d events are kept, the newest is %q", len(events), events[0].Text)
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
	if len(events) != 2 || events[1].Text != "the masters have forgotten 2 locks that should still run" || events[0].Text != "1 lock was released by force" {
		t.Errorf("got %+v", events)
	}
	h.stats, h.pointAt = s, now
	for range historyPoints + 3 {
		h.addPointLocked(now.Add(10*time.Second), &s)
	}
	if points, _ = h.last(); len(points) != historyPoints || points[0].rates[0] != 0 || points[0].slow != 0 {
		t.Errorf("got %d points, the first is %+v", len(points), points[0])
	}
	if plots := plotsOf(points); !strings.HasPrefix(plots[0].Lines[0].Path, "M0 59L1 59") || plots[3].Most != "7" {
		t.Errorf("got %.300v", plots)
	}
}

// A verdict is green only if nothing says otherwise: neither the masters, nor what LOCKs have come to, nor their memory.
func TestVerdictIsNotFalselyGreen(t *testing.T) {
	up := redlock.MasterStatus{Addr: "m", State: redlock.MasterUp}
	low := up
	low.UsedMemory, low.MaxMemory = 80, 100
	for _, tt := range []struct {
		name    string
		reading Reading
		tone    tone
		verdict string
		ready   bool
	}{
		{"all is well", Reading{Masters: []redlock.MasterStatus{up, up, up}}, toneGood, "Locks are granted: 3 of 3", true},
		{"NOQUORUM for a moment", Reading{Masters: []redlock.MasterStatus{up, up, up}, Locks: redlock.Stats{NoQuorumFor: 4900 * time.Millisecond}}, toneGood, "Locks are granted", true},
		{"nothing but NOQUORUM", Reading{Masters: []redlock.MasterStatus{up, up, up}, Locks: redlock.Stats{NoQuorumFor: 5 * time.Second}}, toneBad,
			"No locks are granted here: no quorum: for 5 s all LOCKs have ended with NOQUORUM, although 3 of 3 masters are up", false},
		{"little memory", Reading{Masters: []redlock.MasterStatus{up, up, low}}, toneWarn, "Locks are granted", true},
	} {
		var v pageView
		v.verdict(&tt.reading)
		if v.Tone != tt.tone || !strings.HasPrefix(v.Verdict, tt.verdict) || (tt.reading.Ready() == nil) != tt.ready {
			t.Errorf("%s: got %s, %q, ready: %v, want %s, %q, %v", tt.name, v.Tone, v.Verdict, tt.reading.Ready(), tt.tone, tt.verdict, tt.ready)
		}
	}
}
