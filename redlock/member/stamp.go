package member

import "time"

// StampAge is how old a stamp is that was read from a master, a time in milliseconds since 1970, when
// the master's own clock says now. Every stamp is read by this function, or in a script by
// lua/stamp.lua.
//
// ok is false for what is no such time, or is ahead of that clock by more than skew
// (Options.ClockSkewMax): the clock was wrong then, and has been corrected. Such a stamp counts as
// absent, and may be written over. What is ahead by less has no age yet.
func StampAge(text string, now time.Time, skew time.Duration) (age time.Duration, ok bool) {
	ms, ok := parseCount(text)
	age = now.Sub(time.UnixMilli(ms))
	if !ok || age < -skew { //mutant:a-stamp-of-the-future-counts
		return 0, false
	}
	return max(0, age), true
}

// saidWithin tells whether the stamp is of so long ago at most. One that is as far ahead of the master's
// clock is no fresh statement either: the clock has gone back since.
func (f *Report) saidWithin(stamp string, within time.Duration) bool {
	age, ok := StampAge(stamp, f.Clock, within) //mutant:what-was-said-in-the-future-is-fresh
	return ok && age < within
}

// stampAge is the age of a stamp in a field of the hash.
func (f *Report) stampAge(field string) (age time.Duration, ok bool) {
	return StampAge(f.Fields[field], f.Clock, f.Skew)
}
