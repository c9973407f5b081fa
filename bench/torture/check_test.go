package main

// The checkers must tell good histories from bad ones: each is made by hand, and broken in one place.

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestCheckLeases(t *testing.T) {
	lock := func(resource string, fence, asked, granted, until int64) *lease {
		return &lease{who: "w", resource: resource, fence: fence, grants: []grant{{fence, asked, granted}}, spans: []span{{granted, until}}}
	}
	reader := func(asked, granted, until int64) *lease {
		l := lock("r", 0, asked, granted, until)
		l.shared = true
		return l
	}
	renewed := lock("r", 0, 0, 1, 10)
	renewed.believe(8, 9, 10)
	ended := lock("r", 0, 0, 1, 100)
	ended.end(10)
	again := lock("r", 1, 0, 1, 10)
	again.grant(answer{Start: 30, End: 31}, 3.0, 10)
	for _, tt := range []struct {
		name   string
		leases []*lease
		want   string // empty: nothing is wrong
	}{
		{"one after the other", []*lease{lock("r", 1, 0, 1, 10), lock("r", 2, 5, 10, 20)}, ""},
		{"two at once", []*lease{lock("r", 1, 0, 1, 10), lock("r", 2, 5, 9, 20)}, "two holders"},
		{"two at once on two resources", []*lease{lock("r", 1, 0, 1, 10), lock("s", 2, 5, 9, 20)}, ""},
		{"a short one within a long one", []*lease{lock("r", 0, 0, 1, 100), lock("r", 0, 5, 9, 10), lock("r", 0, 100, 101, 110)}, "two holders"},
		{"renewed", []*lease{renewed, lock("r", 0, 0, 11, 20)}, "two holders"},
		{"unlocked", []*lease{ended, lock("r", 0, 0, 11, 20)}, ""},
		{"readers", []*lease{reader(0, 1, 10), reader(0, 2, 9), lock("r", 1, 0, 10, 20)}, ""},
		{"a writer beside a reader", []*lease{reader(0, 1, 10), lock("r", 1, 0, 5, 20)}, "two holders"},
		{"a reader beside a writer", []*lease{lock("r", 1, 0, 5, 20), reader(0, 6, 10)}, "two holders"},
		{"a stale fence", []*lease{lock("r", 5, 0, 1, 2), lock("r", 4, 2, 3, 4)}, "a stale fence"},
		{"a fence below that of one who asked at the same time", []*lease{lock("r", 5, 0, 4, 5), lock("r", 4, 0, 2, 3)}, ""},
		{"a fence twice", []*lease{lock("r", 5, 0, 1, 2), lock("r", 5, 1, 3, 4)}, "one fence twice"},
		{"a token granted again after another", []*lease{again, lock("r", 2, 15, 16, 20)}, ""},
		{"all slots", []*lease{lock("jobs#0", 0, 0, 1, 10), lock("jobs#1", 0, 0, 1, 10), lock("jobs#1", 0, 0, 10, 20)}, ""},
		{"too many slots", []*lease{lock("jobs#0", 0, 0, 1, 10), lock("jobs#1", 0, 0, 1, 10), lock("jobs#1", 0, 0, 9, 20)}, "3 holders of 2 slots"},
		{"a slot that is none", []*lease{lock("jobs#2", 0, 0, 1, 10)}, "of 2 slots"},
	} {
		t.Run(tt.name, func(t *testing.T) { wantFound(t, checkLeases(tt.leases, map[string]int{"jobs": 2}), tt.want) })
	}
}

// A forced lease is worth nothing from the FORCE on, and only that one.
func TestApplyForces(t *testing.T) {
	const lineage = "0123456789abcdef"
	hold := func(token string, asked, granted, until int64) *lease {
		return &lease{who: "w", resource: "r", token: token, grants: []grant{{0, asked, granted}}, spans: []span{{granted, until}}}
	}
	force := func(from, to int64, tokens ...string) forced {
		f := forced{resource: "r", from: from, to: to, released: len(tokens) > 0}
		for _, token := range tokens {
			f.tokens = append(f.tokens, keyedDigest(lineage, token))
		}
		return f
	}
	extended := hold("a", 0, 1, 100)
	extended.renew(answer{Start: 30, End: 31}, 70)
	again := hold("a", 0, 1, 100)
	again.grant(answer{Start: 25, End: 26}, nil, 40)
	again.renew(answer{Start: 30, End: 31}, 70)
	marked := func(fence, from, to int64) forced {
		f := force(from, to, "a")
		f.fence = fence
		return f
	}
	fenced := func(token string, fence, asked, granted int64) *lease {
		l := hold(token, asked, granted, granted+1)
		l.fence, l.grants[0].fence = fence, fence
		return l
	}
	for _, tt := range []struct {
		name   string
		forces []forced
		leases []*lease
		want   string
	}{
		{"no FORCE", nil, []*lease{hold("a", 0, 1, 100), hold("b", 20, 25, 50)}, "two holders"},
		{"the holder is forced", []forced{force(20, 22, "a")}, []*lease{hold("a", 0, 1, 100), hold("b", 20, 25, 50)}, ""},
		{"another is forced", []forced{force(20, 22, "c")}, []*lease{hold("a", 0, 1, 100), hold("b", 20, 25, 50)}, "two holders"},
		{"another resource is forced", []forced{{resource: "s", from: 20, to: 22}}, []*lease{hold("a", 0, 1, 100), hold("b", 20, 25, 50)}, "two holders"},
		{"forced too late", []forced{force(26, 27, "a")}, []*lease{hold("a", 0, 1, 100), hold("b", 20, 25, 50)}, "two holders"},
		{"nobody knows whether it was forced", []forced{force(20, 22)}, []*lease{hold("a", 0, 1, 100), hold("b", 20, 25, 50)}, ""},
		{"a library's token is not known", []forced{force(20, 22, "a")}, []*lease{hold("", 0, 1, 100), hold("b", 20, 25, 50)}, ""},
		{"who comes next is not forced", []forced{force(20, 22, "a")}, []*lease{hold("a", 0, 1, 100), hold("b", 10, 25, 50), hold("c", 23, 30, 50)}, "two holders"},
		{"extended after FORCE", []forced{force(20, 22, "a")}, []*lease{extended}, "was extended"},
		{"locked again with its token, and extended", []forced{force(20, 22, "a")}, []*lease{again}, ""},
		{"a fence of FORCE that fits", []forced{marked(5, 20, 22)}, []*lease{fenced("a", 4, 0, 1), fenced("b", 6, 23, 24)}, ""},
		{"a fence below that of FORCE", []forced{marked(5, 20, 22)}, []*lease{fenced("b", 4, 23, 24)}, "a stale fence"},
		{"a FORCE below a fence", []forced{marked(5, 20, 22)}, []*lease{fenced("a", 6, 0, 1)}, "a stale fence"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			marks, found := applyForces(tt.leases, tt.forces, map[string]bool{lineage: true})
			wantFound(t, append(found, checkLeases(append(marks, tt.leases...), nil)...), tt.want)
		})
	}
}

// The register may refuse a holder only after FORCE, or after its validity.
func TestUnjustRefusals(t *testing.T) {
	l := &lease{resource: "r", grants: []grant{{1, 0, 1}}, spans: []span{{1, 100}}}
	refused := []refusal{{l, 50, 100}}
	wantFound(t, unjust(refused, nil, nil), "the register refused")
	wantFound(t, unjust(refused, []forced{{resource: "r", from: 40, to: 41}}, nil), "")
	wantFound(t, unjust(refused, []forced{{resource: "r", from: 60, to: 61}}, nil), "the register refused")
}

func TestCheckRegisters(t *testing.T) {
	update := func(fence int64, read, value string, call, done int64) access {
		return access{resource: "r", fence: fence, read: read, wrote: true, value: value, call: call, done: done}
	}
	unknown := func(a access) access {
		a.unknown = true
		return a
	}
	look := func(fence int64, read string, call, done int64) access {
		return access{resource: "r", fence: fence, read: read, call: call, done: done}
	}
	long := func(broken bool) (all []access) {
		for i := range int64(3 * registerWindow) {
			read := fmt.Sprint(i)
			if i == 0 {
				read = ""
			}
			all = append(all, update(i+1, read, fmt.Sprint(i+1), 10*i, 10*i+9))
		}
		if broken {
			all[2*registerWindow+5].read = "5"
		}
		return all
	}
	for _, tt := range []struct {
		name     string
		accesses []access
		want     string
	}{
		{"one after the other", []access{update(1, "", "a", 0, 1), update(2, "a", "b", 2, 3), look(2, "b", 4, 5), look(0, "b", 4, 9)}, ""},
		{"two writers", []access{update(1, "", "a", 0, 9), update(2, "", "b", 2, 5)}, "replaced twice"},
		{"a write that nobody finds", []access{update(1, "", "a", 0, 1), look(2, "", 2, 3)}, "not linearizable"},
		{"a stale fence", []access{update(2, "", "a", 0, 1), update(1, "a", "b", 2, 3)}, "not linearizable"},
		{"a stale fence that reads", []access{look(2, "", 0, 1), update(1, "", "b", 2, 3)}, "not linearizable"},
		{"a reader that sees the past", []access{update(1, "", "a", 0, 1), look(0, "", 2, 3)}, "not linearizable"},
		{"an unknown write that came to be", []access{unknown(update(1, "", "a", 0, 1)), look(2, "a", 8, 9)}, ""},
		{"an unknown write that did not", []access{unknown(update(1, "", "a", 0, 1)), update(2, "", "b", 8, 9)}, ""},
		{"an unknown write among others", []access{unknown(update(1, "", "a", 0, 1)), update(2, "", "b", 8, 9), look(3, "a", 10, 11)}, "not linearizable"},
		{"several windows", long(false), ""},
		{"several windows, broken in the last", long(true), "not linearizable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			done, found := checkRegisters(tt.accesses)
			wantFound(t, found, tt.want)
			if done.accesses != len(tt.accesses) || done.undecided != 0 {
				t.Errorf("checked %+v, want all of %d accesses", done, len(tt.accesses))
			}
		})
	}
}

func wantFound(t *testing.T, found []violation, want string) {
	t.Helper()
	if want == "" && len(found) > 0 {
		t.Errorf("found %v, want nothing", found)
	}
	if want != "" && (len(found) == 0 || !strings.Contains(fmt.Sprint(found), want)) {
		t.Errorf("found %v, want %q", found, want)
	}
}

func TestOutages(t *testing.T) {
	second := int64(time.Second)
	granted := []int64{0, second / 2, 3 * second, 3*second + 1}
	got := fmt.Sprint(outages(granted, 0, 5*second))
	if want := fmt.Sprint([]span{{second / 2, 3 * second}, {3*second + 1, 5 * second}}); got != want {
		t.Errorf("outages: got %s, want %s", got, want)
	}
}
