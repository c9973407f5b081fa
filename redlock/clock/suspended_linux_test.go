package clock

// Goal: what the system says of suspensions is the difference of its two clocks. Method: the same clocks, asked around it.

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSuspended(t *testing.T) {
	ask := func(clock int32) time.Duration {
		var now unix.Timespec
		if err := unix.ClockGettime(clock, &now); err != nil {
			t.Fatal(err)
		}
		return time.Duration(now.Nano())
	}
	least := ask(unix.CLOCK_BOOTTIME) - ask(unix.CLOCK_MONOTONIC) // the second is asked later
	got := Suspended()
	if most := ask(unix.CLOCK_BOOTTIME) - ask(unix.CLOCK_MONOTONIC) + time.Minute; got < least || got > most {
		t.Errorf("got %v, want %v at least", got, least)
	}
	for range 1_000_000 { // the clocks are not asked at the same moment
		if Suspended() != 0 {
			return
		}
	}
	t.Error("got 0 each time: the clocks are not asked")
}
