package main

import (
	"slices"
	"testing"
	"time"
)

// Goal: the referee measures what it says. Method: a script of events at given milliseconds, no clock.
func TestReferee(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	const a, b, c = 0, 1, 2
	for _, test := range []struct {
		name                string
		events              func(r *referee)
		handOversMs         []uint32
		across              int // of them; a and c are clients of one proxy, b of the other
		acquisitions        []int
		violations, gaveUps int
	}{
		{"from the release's call when somebody waits", func(r *referee) {
			r.wants(a, at(0))
			r.granted(a, at(1))
			r.wants(b, at(2))
			r.releases(a, at(5))
			r.granted(b, at(8))
		}, []uint32{3}, 1, []int{1, 1, 0}, 0, 0},
		{"from the first arrival when nobody waits", func(r *referee) {
			r.wants(a, at(0))
			r.granted(a, at(1))
			r.releases(a, at(5))
			r.wants(b, at(20))
			r.wants(c, at(21))
			r.granted(c, at(24))
		}, []uint32{4}, 0, []int{1, 0, 1}, 0, 0},
		{"to the same client is none", func(r *referee) {
			r.wants(a, at(0))
			r.granted(a, at(1))
			r.wants(b, at(2))
			r.releases(a, at(5))
			r.wants(a, at(6))
			r.granted(a, at(7))
			r.releases(a, at(8))
			r.granted(b, at(9))
		}, []uint32{1}, 1, []int{2, 1, 0}, 0, 0},
		{"two holders are a violation", func(r *referee) {
			r.wants(a, at(0))
			r.wants(b, at(0))
			r.granted(a, at(1))
			r.granted(b, at(2))
			r.releases(a, at(3))
			r.releases(b, at(4))
		}, nil, 0, []int{1, 1, 0}, 1, 0},
		{"who gives up wants no longer", func(r *referee) {
			r.wants(a, at(0))
			r.granted(a, at(1))
			r.wants(b, at(2))
			r.releases(a, at(3))
			r.goesWithout(true) // b
			r.wants(c, at(50))
			r.granted(c, at(51))
		}, []uint32{1}, 0, []int{1, 0, 1}, 0, 1},
		{"after the end only waits and violations count", func(r *referee) {
			r.wants(a, at(0))
			r.granted(a, at(99))
			r.wants(b, at(99))
			r.granted(b, at(101))
		}, nil, 0, []int{1, 0, 0}, 1, 0},
	} {
		r := newReferee(3, 2, at(100))
		test.events(r)
		var handOversMs []uint32
		for _, us := range r.handOvers {
			handOversMs = append(handOversMs, us/1000)
		}
		if !slices.Equal(handOversMs, test.handOversMs) {
			t.Errorf("%s: got hand-overs of %v ms, want %v", test.name, handOversMs, test.handOversMs)
		}
		if len(r.across) != test.across {
			t.Errorf("%s: got %d hand-overs to the other proxy, want %d", test.name, len(r.across), test.across)
		}
		if !slices.Equal(r.acquisitions, test.acquisitions) {
			t.Errorf("%s: got acquisitions %v, want %v", test.name, r.acquisitions, test.acquisitions)
		}
		if r.violations != test.violations || r.gaveUp != test.gaveUps {
			t.Errorf("%s: got %d violations and %d gave up, want %d and %d", test.name, r.violations, r.gaveUp, test.violations, test.gaveUps)
		}
	}
}

func TestRefereeFigures(t *testing.T) {
	r := &referee{proxies: 2, acquisitions: []int{4, 2, 3}, handOvers: []uint32{100, 300}, across: []uint32{300}, waits: []uint32{5}, violations: 1, gaveUp: 2}
	got := r.figures(3 * time.Second)
	if got.AcquisitionsPerSec != 3 || got.fairness() != 0.5 || got.HandOverUs.Mean != 200 || got.HandOvers != 2 || got.Violations != 1 || got.GaveUp != 2 ||
		got.AcrossUs.Mean != 300 || got.ProxyMin != 2 || got.ProxyMax != 7 || got.Grants != 1 {
		t.Errorf("got %+v, want 3 acquisitions/s, fairness 0.5, 2 hand-overs of 200 µs, 1 violation, 2 gave up, 1 of 300 µs to another proxy, 7 and 2 by proxy, 1 grant", got)
	}
}

// Goal: the clients that still wait at the end are in the price and in what it is divided by. Method: 2 grants within the time, 4 in all.
func TestHotKeyCPUCountsAllGrants(t *testing.T) {
	f := hotKeyFigures{AcquisitionsPerSec: 2, Grants: 4, CPU: 4 * time.Millisecond}
	got := f.perGrant(serverCPU{redlockd: 8 * time.Millisecond, masters: 12 * time.Millisecond})
	if want := (cpuSplit{ClientUs: 1000, RedlockdUs: 2000, RedisUs: 3000}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
