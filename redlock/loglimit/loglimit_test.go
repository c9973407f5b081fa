package loglimit

// Goal: what repeats is logged as often as the limit allows, and nothing is left out silently. Method: the clock by hand.

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestBurstThenIntervals(t *testing.T) {
	l := Limiter{Interval: 10 * time.Second, Burst: 10}
	start := time.Now()
	logged := 0
	for now := start; now.Before(start.Add(time.Hour)); now = now.Add(100 * time.Millisecond) {
		if dropped, ok := l.Allow(now); ok {
			logged++
			if after := now.Sub(start); after > 2*l.Interval && dropped != 99 {
				t.Errorf("after %v: %d lines left out, want 99", after, dropped)
			}
		}
	}
	if most := l.Burst + int(time.Hour/l.Interval); logged < most-2 || logged > most {
		t.Errorf("%d lines an hour of 36000, want about %d", logged, most)
	}
	if later := start.Add(2 * time.Hour); !l.Behind(later) {
		t.Error("lines were left out, there is room again, and it is not behind")
	} else if l.Allow(later); l.Behind(later) {
		t.Error("the last line was logged, and it is behind")
	}
}

func TestLinesTellHowManyWereLeftOut(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	var l Limiter
	began := time.Now()
	for i := range 25 {
		l.Log(log, slog.LevelWarn, began.Add(time.Duration(i)*DefaultInterval/10), "again", "client", "1.2.3.4:5")
	}
	if got := text.String(); strings.Count(got, "\n") != 3 || strings.Count(got, "more_since_last=9 client=1.2.3.4:5\n") != 2 {
		t.Errorf("25 times in 2.4 s: got the log\n%s\nwant three lines, two of which tell of 9 more", got)
	}
}
