package serve

// Goal: a sign of life is given only to the service manager that asks for it.

import (
	"testing"
	"time"
)

// Without a service manager, or with one that watches another process, nothing is sent.
func TestWatchdogPause(t *testing.T) {
	for _, c := range []struct {
		us, pid string
		want    time.Duration
	}{
		{"", "", 0}, {"3000000", "", 1500 * time.Millisecond}, {"3000000", "1", 0}, {"x", "", 0}, {"0", "", 0}, {"-5", "", 0}, {"9223372036854775807", "", 0},
	} {
		t.Setenv("WATCHDOG_USEC", c.us)
		t.Setenv("WATCHDOG_PID", c.pid)
		if got := watchdogPause(); got != c.want {
			t.Errorf("WATCHDOG_USEC=%s WATCHDOG_PID=%s: got %v, want %v", c.us, c.pid, got, c.want)
		}
	}
}
