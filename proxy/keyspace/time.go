package keyspace

import (
	"math"
	"strings"
	"time"

	"redlockd/redlock/resp"
)

// Time is a point in time as a command names it. The zero Time means that the command named none.
type Time struct {
	// Ms is in milliseconds, counted from the execution of the command, or from 1970 if Absolute.
	Ms int64
	// Absolute is true for EXAT, PXAT, EXPIREAT and PEXPIREAT.
	Absolute bool
}

// nowMax bounds the clocks that a relative time is added to: now is below it until the year 2109, so a
// sum does not overflow.
const nowMax = 1 << 42 // ms

// End is the point in time in ms since 1970, for a command that is executed at now.
func (t Time) End(now int64) int64 {
	if t.Absolute {
		return t.Ms
	}
	return t.Ms + now
}

// TTL is what is left until then, negative if it has passed.
func (t Time) TTL(now time.Time) time.Duration {
	ms := t.Ms
	if t.Absolute {
		ms = max(ms, 0) - now.UnixMilli()
	}
	return Duration(ms)
}

// Duration converts milliseconds. It returns the longest Duration of whole milliseconds, or its
// negative, where ms is out of range.
func Duration(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}

// readPositive is readTime for a command that gives a key a value: its time must be positive.
func readPositive[A argument](command, unit string, arg A) (t Time, refusal string) {
	if t, refusal = readTime(command, unit, arg); refusal == "" && t.Ms <= 0 {
		refusal = invalidExpire(command)
	}
	return t, refusal
}

// readTime reads a time, which may have passed. The unit is a word that begins with p if the time is in
// ms, and ends in at if it is absolute: px, exat, psetex, expireat.
func readTime[A argument](command, unit string, arg A) (t Time, refusal string) {
	n, ok := resp.ParseInt(arg)
	if !ok {
		return t, ErrNotInteger
	}
	if unit[0] != 'p' {
		if n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
			return t, invalidExpire(command)
		}
		n *= 1000
	}
	t = Time{n, strings.HasSuffix(unit, "at")}
	if !t.Absolute && n > math.MaxInt64-nowMax {
		return t, invalidExpire(command)
	}
	return t, ""
}

// invalidExpire is the error of a time that is out of range. It names the command in lower case.
func invalidExpire(command string) string {
	return "ERR invalid expire time in '" + command + "' command"
}
