package redlock

// Goal: the cost of what is in flight to a master follows how fast it works, within bounds. Method: the window alone.

import (
	"strings"
	"testing"
	"time"
)

// The limit rises by an eighth while the work on a batch takes no more than its part of the timeout, and falls where it takes longer.
func TestWindowFollowsTheMaster(t *testing.T) {
	const timeout = 80 * ms // the work may take 10 ms
	began := time.Now()
	for name, tt := range map[string]struct {
		limit, inFlight int
		sent            time.Duration // behind the last change
		rtt, distance   time.Duration
		want            int // the limit of before: nothing is said of it
	}{
		"at once":                            {limit: 400, inFlight: 400, rtt: 0, want: 450},
		"just in time":                       {limit: 400, inFlight: 400, rtt: 10 * ms, want: 450},
		"late":                               {limit: 400, inFlight: 400, rtt: 10*ms + 1, want: 300},
		"nearly very late":                   {limit: 400, inFlight: 400, rtt: 20 * ms, want: 300},
		"very late":                          {limit: 400, inFlight: 400, rtt: 20*ms + 1, want: 200},
		"late, with less":                    {limit: 400, inFlight: 240, rtt: 11 * ms, want: 180},
		"very late, with less":               {limit: 400, inFlight: 240, rtt: 21 * ms, want: 120},
		"late, with more":                    {limit: 400, inFlight: 900, rtt: 11 * ms, want: 300},
		"very late, with more":               {limit: 400, inFlight: 900, rtt: 21 * ms, want: 200},
		"half of it":                         {limit: 400, inFlight: 200, rtt: 0, want: 450},
		"less than half of it":               {limit: 400, inFlight: 199, rtt: 0, want: 400},
		"very late, and nearly the least":    {limit: costMin + 2, inFlight: costMin + 2, rtt: 30 * ms, want: costMin},
		"late, and nearly the least":         {limit: costMin + 2, inFlight: costMin + 2, rtt: 11 * ms, want: costMin},
		"sent before the last change":        {limit: 400, inFlight: 400, sent: -1, rtt: 0, want: 400},
		"sent with it":                       {limit: 400, inFlight: 400, sent: 0, rtt: 0, want: 450},
		"as much as one batch":               {limit: costMax - 1, inFlight: costMax, rtt: 0, want: costMax},
		"far away, and in time":              {limit: 400, inFlight: 400, rtt: 30 * ms, distance: 20 * ms, want: 450},
		"far away, and late":                 {limit: 400, inFlight: 400, rtt: 31 * ms, distance: 20 * ms, want: 300},
		"half of what the distance leaves":   {limit: 400, inFlight: 400, rtt: 75 * ms, distance: 70 * ms, want: 450},
		"more than half of that":             {limit: 400, inFlight: 400, rtt: 76 * ms, distance: 70 * ms, want: 300},
		"farther than the timeout":           {limit: 400, inFlight: 400, rtt: 90 * ms, distance: 90 * ms, want: 450},
		"farther than the timeout, and late": {limit: 400, inFlight: 400, rtt: 91 * ms, distance: 90 * ms, want: 200},
		"far away, several batches":          {limit: 3 * costMax, inFlight: 3 * costMax, rtt: 3 * ms, distance: 3 * ms, want: 3 * costMax},
	} {
		w := window{limit: tt.limit, setAt: began}
		sent := began.Add(tt.sent)
		w.adjust(tt.inFlight, sent, tt.rtt, tt.distance, timeout)
		if w.limit != tt.want {
			t.Errorf("%s: the limit is %d, want %d", name, w.limit, tt.want)
		}
		says := 2*tt.inFlight >= tt.limit && tt.sent >= 0
		if want := map[bool]time.Time{true: sent.Add(tt.rtt), false: began}[says]; w.setAt != want {
			t.Errorf("%s: set at %v behind the last change, want %v", name, w.setAt.Sub(began), want.Sub(began))
		}
	}
	w := window{}
	for distance, want := range map[time.Duration]int{0: costMax, ms - 1: costMax, 2 * ms: 2 * costMax, 20*ms + 1: 20 * costMax, time.Second: inflightMax * costMax} {
		if got := w.most(distance); got != want {
			t.Errorf("%v away: at most %d, want %d", distance, got, want)
		}
	}
}

func TestCostOfKeysAndValues(t *testing.T) {
	long := strings.Repeat("k", costBytes)
	for _, tt := range []struct {
		keys        []string
		bytes, want int
	}{{[]string{"a"}, 0, 1}, {[]string{"a", "b"}, 0, 2}, {[]string{"a"}, costBytes - 2, 1}, {[]string{"a"}, costBytes - 1, 2}, {[]string{long}, 0, 2}, {[]string{long, long}, costBytes, 5}} {
		if got := costOf(tt.keys, tt.bytes); got != tt.want {
			t.Errorf("%d keys and %d bytes: got %d, want %d", len(tt.keys), tt.bytes, got, tt.want)
		}
	}
}
