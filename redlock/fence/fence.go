// Package fence makes fencing tokens, and says which of those that a master shows can be believed. A
// resource that is written to under a lock cannot trust that the writer still holds it: the writer may
// have paused. It can compare tokens, and refuse one that is lower than the highest it has seen. A
// fence is an integer below 2^53 that strictly grows from one grant of a resource to the next.
//
// It is a hybrid logical clock: milliseconds since 2000 << 12, and their fraction or a counter; 53
// bits last until 2069. Every master remembers the highest fence it has accepted for each resource,
// its mark, and accepts only a higher one. Two grants have a master in common, since both have a
// quorum; so the later one is higher, whatever clocks and expiries do. Marks are bounded: the
// lowest are pushed out into one floor for all that is not remembered. A master that has forgotten
// gets a floor from a quorum that has not, before it votes again (raiseFloors of package member).
package fence

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
)

const (
	CounterBits = 12
	OriginMs    = 946_684_800_000 // 2000-01-01 UTC, in milliseconds since 1970
	// AheadMax is how far a fence may be ahead of a master's clock: a proxy whose clock is
	// years ahead would spend them. So no master holds a higher one, unless somebody has written it
	// by hand, or the master lies.
	//
	// A proxy believes a mark or a floor up to so far ahead of its own clock, less ClockSkewMax:
	// what it gives above it, masters whose clocks are behind still accept. It refuses a master
	// that shows more than that and ClockSkewMax: what a proxy whose clock is ahead may have given
	// is no reason to. Between the two the master abstains from fences, until the clocks have
	// passed. A floor within the bound that is false makes fences run ahead of the clocks by as
	// much; they grow all the same.
	AheadMax = 24 * time.Hour
)

// Clock makes fences. Client.mu guards it.
//
// A proxy whose clock is behind needs a second round for a resource that another has just had. The
// mark that it is shown then tells by how much it is behind, so it keeps that much ahead from then
// on. Otherwise, where short holds go to and fro between proxies, every third grant takes two
// rounds when clocks differ by some milliseconds.
type Clock struct {
	Last     int64
	Ahead    int64 // of our own clock: as far as the fastest clock was seen to be
	AheadMax int64 // bounds it, so that a floor taken from clocks (raiseFloors) is above all fences
}

// Time is a moment as a fence. The counter's bits hold the fraction of the millisecond, so
// that two proxies whose clocks agree make fences in the order of their grants.
func Time(t time.Time) int64 {
	const perMs = int64(time.Millisecond)
	return (t.UnixMilli()-OriginMs)<<CounterBits + int64(t.Nanosecond())%perMs<<CounterBits/perMs
}

// Next makes a fence above all that this client has made or was shown. It is bounded by what
// masters accept: a clock that was far ahead is forgotten when it is right again.
func (f *Clock) Next(now time.Time) int64 {
	if f.Last > Time(now.Add(AheadMax)) { //mutant:a-clock-that-was-ahead-is-not-forgotten
		f.Last = 0 // our clock was wrong. No master would accept more; their marks keep the order
	}
	f.Last = max(f.Last+1, Time(now)+f.Ahead)
	return f.Last
}

// Observe keeps the clock above a mark that some master held against a fence made at that time. The
// mark is older than the fence, or little younger, so it tells by how much our clock is behind at
// least.
func (f *Clock) Observe(mark int64, made time.Time) {
	f.Last = max(f.Last, mark)
	f.Ahead = min(max(f.Ahead, mark-Time(made)), f.AheadMax) //mutant:a-clock-that-is-behind-stays-behind
}

// Ahead is the reply of a script whose fence is too far ahead of the master's clock.
const Ahead = -2

// HighWaterCommands read the floor and the highest mark in a heartbeat.
func HighWaterCommands(ctx context.Context) (*redis.StringCmd, *redis.ZSliceCmd) {
	return redis.NewStringCmd(ctx, "get", lua.FloorKey), redis.NewZSliceCmd(ctx, "zrevrange", lua.MarksKey, 0, 0, "withscores")
}

// ReadHighWater returns the highest fence that the master has accepted, as far as it says, or why
// that cannot be true.
func ReadHighWater(floor *redis.StringCmd, top *redis.ZSliceCmd, now time.Time, skew time.Duration) (high int64, untrue string, err error) {
	if err := floor.Err(); err != nil && err != redis.Nil {
		if conn.IsWrongType(err) {
			return 0, FalseFences(lua.FloorKey, "no string", skew), nil
		}
		return 0, "", fmt.Errorf("GET %s: %w", lua.FloorKey, err)
	}
	if err := top.Err(); err != nil {
		if conn.IsWrongType(err) {
			return 0, FalseFences(lua.MarksKey, "no sorted set", skew), nil
		}
		return 0, "", fmt.Errorf("ZREVRANGE %s: %w", lua.MarksKey, err)
	}
	if text := floor.Val(); text != "" {
		if high, err = strconv.ParseInt(text, 10, 64); err != nil || high > Highest(now, skew) { //mutant:a-false-floor-not-refused
			return 0, FalseFences(lua.FloorKey, conn.Sanitize(text), skew), nil
		}
	}
	for _, z := range top.Val() {
		mark, ok := Of(z.Score)
		if !ok || mark > Highest(now, skew) { //mutant:a-false-mark-not-refused
			return 0, FalseFences("highest mark in "+lua.MarksKey, strconv.FormatFloat(z.Score, 'f', 0, 64), skew), nil
		}
		high = max(high, mark)
	}
	return high, "", nil
}

// Of is a score as a fence, if it can be one.
func Of(score float64) (int64, bool) {
	if !(score >= 0 && score < 1<<53) {
		return 0, false
	}
	return int64(score), true
}

// Highest is the highest that any proxy can have given.
func Highest(now time.Time, skew time.Duration) int64 {
	return Time(now.Add(AheadMax + skew)) //mutant:fences-of-a-clock-that-is-a-little-ahead-refused
}

// HighestBelieved is the highest that a proxy goes above because one master shows it.
func HighestBelieved(now time.Time, skew time.Duration) int64 {
	return Time(now.Add(AheadMax - skew)) //mutant:a-mark-believed-that-no-master-accepts
}

// FalseFences says what is wrong with what a key holds, and what to do. The membership goes too:
// without it the master waits for what it may have forgotten, and learns the true fences from the
// others.
func FalseFences(key, value string, skew time.Duration) string {
	return fmt.Sprintf("its %s is %s, which no proxy has given: fences are at most %v ahead of the clock here. If this clock is right, "+
		"run DEL %s %s %s on it: it votes again after one max_ttl, with the fences that the others remember",
		key, value, AheadMax+skew, lua.FloorKey, lua.MarksKey, lua.MembersKey)
}
