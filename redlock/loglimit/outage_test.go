package loglimit

import (
	"slices"
	"testing"
	"time"
)

// Something that fails and works by turns is logged twice in a pause, which grows.
func TestOutageThatFlaps(t *testing.T) {
	var o Outage
	start := time.Now()
	var failed, worked []int // seconds since start
	for i := range 400 {
		now := start.Add(time.Duration(i) * time.Second)
		if o.Fails(now) {
			failed = append(failed, i)
		}
		if o.Works() {
			worked = append(worked, i)
		}
	}
	if want := []int{0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363}; !slices.Equal(failed, want) || !slices.Equal(worked, want) {
		t.Errorf("got %v and %v, want %v for both", failed, worked, want)
	}
	if o.Works() {
		t.Error("it works, and that is logged once more")
	}
	if later := start.Add(time.Hour); !o.Fails(later) || o.Fails(later.Add(999*time.Millisecond)) || !o.Fails(later.Add(time.Second)) {
		t.Error("after an hour without a failure, want a line at once and the next one after a second")
	}
}
