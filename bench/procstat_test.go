package main

import (
	"os"
	"testing"
	"time"
)

// Goal: CPU time is read from the right fields, whatever the program is called. Method: real and hostile stat lines.
func TestParseStatCPU(t *testing.T) {
	const times = " S 1 815 815 0 -1 4194560 2157 0 3 0 1234 766 0 0 20 0 5 0 8421 71651328 3254"
	for _, test := range []struct {
		name, stat string
		want       time.Duration
		wantErr    string
	}{
		{"plain", "815 (redis-server)" + times, 20 * time.Second, ""},
		{"blanks and parentheses in the name", "815 (a) 1 (b c) 9)" + times, 20 * time.Second, ""},
		{"empty", "", 0, "without utime"},
		{"cut off", "815 (redis-server) S 1 815 815 0 -1 4194560 2157 0 3 0 1234", 0, "without utime"},
		{"no number", "815 (x) S 1 815 815 0 -1 4194560 2157 0 3 0 12x4 766 0 0", 0, "odd times"},
	} {
		got, err := parseStatCPU(test.stat)
		if got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
		wantErr(t, err, test.wantErr)
	}
}

func TestParseStatmRSS(t *testing.T) {
	page := int64(os.Getpagesize())
	for statm, want := range map[string]int64{"5432 1234 800 1 0 600 0": 1234 * page, "5432": 0, "5432 x": 0, "": 0} {
		got, err := parseStatmRSS(statm)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %d (%v), want %d", statm, got, err, want)
		}
	}
	if own, err := processRSS(os.Getpid()); err != nil || own < 1<<20 || own > 1<<34 {
		t.Errorf("this process: got %d bytes (%v), want some megabytes", own, err)
	}
}

// Goal: the two clocks we compare count the same thing. Method: burn CPU in this process, read both.
func TestProcessCPUAgreesWithOwnCPU(t *testing.T) {
	for ownCPU() < 50*time.Millisecond {
	}
	before := ownCPU()
	got, err := processCPU([]int{os.Getpid()})
	after := ownCPU()
	const tick = time.Second / userHz
	if err != nil || got < before-2*tick || got > after+2*tick {
		t.Errorf("got %v (%v), want between %v and %v, to two ticks", got, err, before, after)
	}
}

func TestCPUPerPair(t *testing.T) {
	got := serverCPU{redlockd: 2 * time.Millisecond, masters: 3 * time.Millisecond}.per(time.Millisecond, 1000)
	if want := (cpuSplit{ClientUs: 1, RedlockdUs: 2, RedisUs: 3}); got != want || got.totalUs() != 6 {
		t.Errorf("got %+v = %v, want %+v = 6", got, got.totalUs(), want)
	}
	if got := (serverCPU{redlockd: 1}).per(1, 0); got != (cpuSplit{}) {
		t.Errorf("without operations: got %+v, want zeros", got)
	}
}
