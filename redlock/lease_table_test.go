package redlock

// Goal: what a client knows of its leases is found, replaced and forgotten by exactly their resources and their tokens, and none is kept for ever. Method:
// the table alone, with leases made here.

import (
	"slices"
	"testing"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/quorum"
)

// leaseTable is a table with a time that stands still.
type leaseTable struct {
	*testing.T
	leases
	share Share
	now   time.Time
}

func newLeaseTable(t *testing.T) *leaseTable {
	return &leaseTable{T: t, leases: newLeases(nil, clock.Drift{Factor: 0.01, StepMax: 10 * ms}), now: time.Now()}
}

// granted records a lease for ten seconds.
func (t *leaseTable) granted(token string, reader bool, delay time.Duration, keys ...string) *lease {
	l := &lease{keys: keys, token: token, reader: reader, born: t.now, validUntil: t.now.Add(10 * time.Second), ttlMs: 10_000, holders: 1}
	t.grant(l, &t.share, delay, t.now)
	return l
}

// want compares the leases that the table has.
func (t *leaseTable) want(what string, want ...*lease) {
	t.Helper()
	missing := func(l *lease) bool { return !slices.Contains(t.all, l) }
	if len(t.all) != len(want) || slices.ContainsFunc(want, missing) {
		t.Errorf("%s: the table has %d leases, want %d, or others", what, len(t.all), len(want))
	}
	locks := 0
	for i, l := range t.all {
		if locks += len(l.keys); int(l.index) != i {
			t.Errorf("%s: the lease at %d has index %d", what, i, l.index)
		}
		if e := t.entries[l.keys[0]]; e == nil || e.leaseOf(l.token) != l {
			t.Errorf("%s: the lease at %d is not found by its first key", what, i)
		}
	}
	if t.share.locks != locks {
		t.Errorf("%s: the share counts %d locks, want %d", what, t.share.locks, locks)
	}
}

func TestLeaseIsFoundByItsKeysAndToken(t *testing.T) {
	table := newLeaseTable(t)
	both := table.granted("T", false, 0, "a", "b")
	one := table.granted("U", false, 0, "c")
	reader := table.granted("R", true, 0, "d")
	for _, tt := range []struct {
		keys  []string
		token string
		want  *lease
	}{
		{[]string{"a", "b"}, "T", both}, {[]string{"b", "a"}, "T", both}, {[]string{"a"}, "T", nil}, {[]string{"a", "c"}, "T", nil}, {[]string{"a", "b"}, "U", nil},
		{[]string{"c"}, "U", one}, {[]string{"d"}, "R", reader}, {[]string{"d"}, "T", nil}, {[]string{"x"}, "T", nil},
	} {
		if got := table.findLease(tt.keys, tt.token); got != tt.want {
			t.Errorf("%v under %s: got %v, want %v", tt.keys, tt.token, got, tt.want)
		}
	}
	if got, want := table.keysEnd(one), one.validUntil.Add(clock.DriftOf(10*time.Second, table.drift)); got != want {
		t.Errorf("the keys end at %v, want %v", got, want)
	}
}

// A token holds its lock until the keys have ended for certain, its delay included.
func TestHeldOrDelayed(t *testing.T) {
	table := newLeaseTable(t)
	l := table.granted("T", false, 3*time.Second, "a")
	end := l.validUntil.Add(3*time.Second + clock.DriftConstant)
	for at, want := range map[time.Time]*lease{table.now: l, end.Add(-1): l, end: nil, end.Add(time.Second): nil} {
		if got := table.heldOrDelayed([]string{"a"}, "T", at); got != want {
			t.Errorf("%v before its end: got %v, want %v", end.Sub(at), got, want)
		}
	}
	if table.heldOrDelayed([]string{"a"}, "U", table.now) != nil {
		t.Error("another token holds it")
	}
}

func TestReadersThatRun(t *testing.T) {
	table := newLeaseTable(t)
	var none *entry
	l := table.granted("R", true, 0, "a")
	e := table.entries["a"]
	if none.hasReaders(table.now) || !e.hasReaders(l.validUntil.Add(-1)) || e.hasReaders(l.validUntil) {
		t.Errorf("got readers of nothing %t, of one that runs %t, of one that has ended %t", none.hasReaders(table.now), e.hasReaders(l.validUntil.Add(-1)), e.hasReaders(l.validUntil))
	}
}

// Who comes without waiting is sent away where somebody waits and was denied; who waits without an answer keeps nobody out.
func TestWhereSomebodyWaits(t *testing.T) {
	table := newLeaseTable(t)
	waits := func(name string, head *waiter, denied bool) {
		e := table.entry(name)
		e.queue.head, e.queue.denied = head, denied
	}
	waits("denied", &waiter{}, true)
	waits("asks", &waiter{}, false)
	waits("nobody", nil, true)
	for name, want := range map[string]bool{"denied": true, "asks": false, "nobody": false, "unknown": false} {
		if got := table.hasWaiters([]string{"unknown", name}); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
}

// A round is in the way of another one if it is to leave the same key with the same token, and was launched later.
func TestSupersededRounds(t *testing.T) {
	table := newLeaseTable(t)
	than := &round{launched: 5}
	set := func(launched uint32, token string, keys ...string) *round {
		return &round{launched: launched, token: token, keys: keys}
	}
	deletes := &round{launched: 9, keys: []string{"a"}, commit: &commit{changes: []Change{compareAndDelete("a", "T")}}}
	extends := &round{launched: 9, keys: []string{"b", "a"}, commit: &commit{changes: []Change{compareAndDelete("b", "T"), compareAndExpire("a", "T", time.Second)}}}
	for name, tt := range map[string]struct {
		inFlight *round
		lease    uint32 // when the lease of the token was launched; 0: there is none
		want     bool
	}{
		"nothing":                       {nil, 0, false},
		"a later one":                   {set(6, "T", "a"), 0, true},
		"an earlier one":                {set(4, "T", "a"), 0, false},
		"itself":                        {than, 0, false},
		"under another token":           {set(6, "U", "a"), 0, false},
		"with other keys beside":        {set(6, "T", "b", "a"), 0, true},
		"of other keys":                 {set(6, "T", "b"), 0, false},
		"one that deletes":              {deletes, 0, false},
		"one that extends, and deletes": {extends, 0, true},
		"it was granted later":          {nil, 6, true},
		"it was granted before":         {nil, 4, false},
	} {
		if tt.inFlight != nil {
			table.beginInflight(tt.inFlight, "a")
		}
		if tt.lease > 0 {
			table.granted("T", false, 0, "a").launched = tt.lease
		}
		if got := table.superseded(than, "a", "T"); got != tt.want {
			t.Errorf("%s: got %t, want %t", name, got, tt.want)
		}
		if tt.inFlight != nil {
			table.endInflight(tt.inFlight, "a")
		}
		table.release([]string{"a"}, "T", table.now)
		if len(table.inflight) != 0 {
			t.Errorf("%s: %d keys have rounds in flight", name, len(table.inflight))
		}
	}
}

// What is granted takes the place of what was known of its resources; the masters of a lease of the same token may hold it still.
func TestGrantTakesThePlaceOfLeases(t *testing.T) {
	table := newLeaseTable(t)
	first := table.granted("T", false, time.Second, "a", "b")
	table.want("the first", first)
	if table.delays[first] != time.Second || len(table.delays) != 1 {
		t.Errorf("delays: got %v", table.delays)
	}
	first.holders = quorum.Mask(0b110)
	part := table.granted("T", false, 0, "a")
	if table.want("a part of it", part); part.holders != 0b111 || len(table.delays) != 0 || table.entries["b"] != nil {
		t.Errorf("a part of it: held by %05b, %d delays, and b is known: %t", part.holders, len(table.delays), table.entries["b"] != nil)
	}
	other := table.granted("U", false, 0, "a")
	if table.want("another token", other); other.holders != 1 {
		t.Errorf("another token: held by %05b", other.holders)
	}
	r1, r2 := table.granted("R1", true, 0, "a"), table.granted("R2", true, 0, "a")
	table.want("readers behind a writer", r1, r2)
	if table.entries["a"].lease != nil {
		t.Error("readers behind a writer: its lease is there")
	}
	r1.holders = 0b100
	again := table.granted("R1", true, 0, "a")
	if table.want("a reader once more", again, r2); again.holders != 0b101 {
		t.Errorf("a reader once more: held by %05b", again.holders)
	}
	writer := table.granted("T", false, 0, "a")
	table.want("a writer behind readers", writer)
	if table.release([]string{"a"}, "U", table.now) != nil {
		t.Error("released under another token")
	}
	if table.release([]string{"a"}, "T", table.now) != writer {
		t.Error("the release does not find it")
	}
	if table.want("released"); len(table.entries) != 0 {
		t.Errorf("released: %d resources are known", len(table.entries))
	}
	reader := table.granted("R", true, 0, "a")
	if table.release([]string{"a"}, "R", table.now) != reader || len(table.entries) != 0 {
		t.Errorf("a reader released: %d resources are known", len(table.entries))
	}
	if !table.share.listed || len(table.shares) != 1 {
		t.Errorf("the share is listed %t, %d times, want once", table.share.listed, len(table.shares))
	}
}

// Each grant looks at two leases, the next ones in turn, and forgets those that have run out.
func TestLeasesThatRanOutAreForgotten(t *testing.T) {
	table := newLeaseTable(t)
	table.remember = time.Second
	var all []*lease
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		all = append(all, table.granted("T", false, 0, name))
	}
	runsOut := table.keysEnd(all[0]).Add(time.Second)
	if table.forgetSome(runsOut, 5); len(table.all) != 5 {
		t.Errorf("at the moment in which they run out %d are left, want 5", len(table.all))
	}
	for i := range 5 {
		all[i].validUntil = all[i].validUntil.Add(time.Duration(1-i%2) * time.Hour) // b and d run out
	}
	table.cursor = 0
	table.forgetSome(runsOut.Add(1), 1)
	table.want("the first one is looked at", all...)
	table.forgetSome(runsOut.Add(1), 1)
	table.want("the second one, which has run out", all[0], all[2], all[3], all[4])
	table.cursor = 4 // behind the last: it begins anew
	table.forgetSome(runsOut.Add(1), 4)
	table.want("those from the first on", all[0], all[2], all[4])
	table.now = runsOut.Add(1)
	for _, l := range all {
		l.validUntil = table.now.Add(-time.Hour)
	}
	table.cursor = 0
	f := table.granted("T", false, 0, "f")
	if len(table.all) != 2 || !slices.Contains(table.all, f) {
		t.Errorf("a grant beside three that ran out: %d are left, want one of them, and the new one", len(table.all))
	}
}

// Leases that run are counted piece by piece, and those that ran out are forgotten.
func TestRunningLeases(t *testing.T) {
	table := newLeaseTable(t)
	for i := range 2*leasesPiece + 1 {
		table.granted("T", false, 0, string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	table.all[3].born = table.now.Add(-time.Minute)
	table.all[4].born, table.all[4].validUntil = table.now.Add(-time.Hour), table.now // it has just ended, and its keys have not
	table.all[5].validUntil = table.now.Add(-time.Hour)
	table.all[6].validUntil = table.now.Add(-clock.DriftOf(10*time.Second, table.drift))
	table.all[7].validUntil = table.all[6].validUntil.Add(-1)
	table.remember = time.Second
	pauses := 0
	n, longest := table.running(table.now, func() { pauses++ })
	if n != 2*leasesPiece+1-2 || longest != time.Minute || pauses != 2 || len(table.all) != 2*leasesPiece {
		t.Errorf("%d run, the longest for %v, in %d pieces, and %d are kept; want %d, %v, 2 and %d", n, longest, pauses, len(table.all), 2*leasesPiece-1, time.Minute, 2*leasesPiece)
	}
	pauses = 0
	table.running(table.now, func() {
		if pauses++; pauses == 1 {
			for len(table.all) > 3 {
				table.forget(table.all[0])
			}
		}
	})
	if pauses != 1 {
		t.Errorf("most leases end in a pause: %d pauses, want 1", pauses)
	}
}
