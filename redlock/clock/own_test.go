package clock

// Our own clocks, with faults, in virtual time.

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Faults{}
		f.Suspended.Store(int64(time.Minute)) // before the process began
		o := &Own{Faults: f}
		begin := time.Now()
		o.Start(begin)
		check := func(what string, got, want time.Duration) {
			t.Helper()
			if got != want {
				t.Errorf("%s: got %v, want %v", what, got, want)
			}
		}
		slept := func(what string, since time.Time, want time.Duration) {
			t.Helper()
			o.Look()
			check(what, o.SleptSince(since), want)
		}
		wall := o.Wall(begin)
		check("the zero", o.At(begin), 0)
		check("the wall clock", wall, time.Duration(begin.UnixNano())+time.Minute)
		check("the first reading", o.Reading(begin).Offset.Low, time.Duration(begin.UnixNano()))
		slept("nothing yet", begin.Add(-time.Second), 0)
		time.Sleep(time.Second)
		check("a second later", o.At(time.Now()), time.Second)
		check("the wall clock a second later", o.Wall(time.Now()), wall)
		slept("a second later", begin, 0)
		f.Ahead.Add(int64(5 * time.Second))
		slept("the wall clock steps", begin, 0)
		check("its step", o.Wall(time.Now()), wall+5*time.Second)
		check("its date", time.Until(o.Date(time.Now())), 5*time.Second)

		// The machine sleeps, and meanwhile the wall clock is set back by more.
		time.Sleep(time.Second)
		f.Suspended.Add(int64(2 * time.Second))
		f.StoodStill.Add(int64(2 * time.Second))
		f.Ahead.Add(-int64(7 * time.Second))
		asleep := time.Now()
		check("our clock stood still", o.At(asleep), 0)
		slept("a suspension", asleep, time.Minute+2*time.Second)
		check("the reading shows the step alone", o.Reading(asleep).Offset.High, time.Duration(begin.UnixNano())-2*time.Second)
		time.Sleep(time.Second)
		slept("a second behind it", asleep.Add(-time.Millisecond), time.Minute+2*time.Second)
		slept("since it", time.Now(), 0)

		// Differences of two clocks that are noise.
		f.Suspended.Add(int64(time.Millisecond - 1))
		slept("noise", time.Now(), 0)
		f.Ahead.Add(int64(time.Second)) // so that it looks
		slept("noise beside a step", time.Now(), 0)
		f.Suspended.Add(int64(2 * time.Millisecond))
		slept("a suspension of 3 ms", time.Now(), time.Duration(f.Suspended.Load()))

		// The clock stands still from a moment on.
		stood := o.At(time.Now())
		f.StandsAt.Store(int64(stood))
		check("a second before it stands", o.At(time.Now().Add(-time.Second)), stood-time.Second)
		time.Sleep(time.Second)
		check("a second later", o.At(time.Now()), stood)
		f.StandsAt.Store(0)
		check("it runs again", o.At(time.Now()), stood+time.Second)
	})
	var o Own
	begin := time.Now()
	o.Start(begin)
	if at, date := o.At(begin.Add(time.Second)), o.Date(begin); at != time.Second || date != begin {
		t.Errorf("without faults: got %v and %v, want 1s and %v", at, date, begin)
	}
	if got, want := o.Wall(begin.Add(time.Second)), time.Duration(begin.UnixNano()); got != want || (o.Suspended()-Suspended()).Abs() > time.Second {
		t.Errorf("without faults: got a wall clock of %v, want %v", got, want)
	}
}
