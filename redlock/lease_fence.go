package redlock

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/quorum"
)

// Fencing tokens. A resource that is written to under a lock cannot trust that the writer still
// holds it: the writer may have paused. It can compare tokens, and refuse one that is lower than
// the highest it has seen. A fence is an integer below 2^53 that strictly grows from one grant of a
// resource to the next.
//
// It is a hybrid logical clock: milliseconds since 2000 << 12, and their fraction or a counter; 53
// bits last until 2069. Every master remembers the highest fence it has accepted for each resource,
// its mark, and accepts only a higher one. Two grants have a master in common, since both have a
// quorum; so the later one is higher, whatever clocks and expiries do. Marks are bounded: the
// lowest are pushed out into one floor for all that is not remembered. A master that has forgotten
// gets a floor from a quorum that has not, before it votes again (see raiseFloors).
const (
	marksKey = ReservedPrefix + "marks" // sorted set: resource → mark
	floorKey = ReservedPrefix + "floor"

	fenceCounterBits = 12
	fenceOriginMs    = 946_684_800_000 // 2000-01-01 UTC, in milliseconds since 1970
	// fenceAheadMax is how far a fence may be ahead of a master's clock: a proxy whose clock is
	// years ahead would spend them. So no master holds a higher one, unless somebody has written it
	// by hand, or the master lies.
	//
	// A proxy believes a mark or a floor up to so far ahead of its own clock, less ClockSkewMax:
	// what it gives above it, masters whose clocks are behind still accept. It refuses a master
	// that shows more than that and ClockSkewMax: what a proxy whose clock is ahead may have given
	// is no reason to. Between the two the master abstains from fences, until the clocks have
	// passed. A floor within the bound that is false makes fences run ahead of the clocks by as
	// much; they grow all the same.
	fenceAheadMax = 24 * time.Hour
	// fenceRetries bounds the rounds of one attempt whose fence was too low.
	fenceRetries = 8
)

// fenceClock makes fences. Client.mu guards it.
//
// A proxy whose clock is behind needs a second round for a resource that another has just had. The
// mark that it is shown then tells by how much it is behind, so it keeps that much ahead from then
// on. Otherwise, where short holds go to and fro between proxies, every third grant takes two
// rounds when clocks differ by some milliseconds.
type fenceClock struct {
	last     int64
	ahead    int64 // of our own clock: as far as the fastest clock was seen to be
	aheadMax int64 // bounds it, so that a floor taken from clocks (raiseFloors) is above all fences
}

// fenceTime is a moment as a fence. The counter's bits hold the fraction of the millisecond, so
// that two proxies whose clocks agree make fences in the order of their grants.
func fenceTime(t time.Time) int64 {
	const perMs = int64(time.Millisecond)
	return (t.UnixMilli()-fenceOriginMs)<<fenceCounterBits + int64(t.Nanosecond())%perMs<<fenceCounterBits/perMs
}

// next makes a fence above all that this client has made or was shown. It is bounded by what
// masters accept: a clock that was far ahead is forgotten when it is right again.
func (f *fenceClock) next(now time.Time) int64 {
	if f.last > fenceTime(now.Add(fenceAheadMax)) { //mutant:a-clock-that-was-ahead-is-not-forgotten
		f.last = 0 // our clock was wrong. No master would accept more; their marks keep the order
	}
	f.last = max(f.last+1, fenceTime(now)+f.ahead)
	return f.last
}

// observe keeps the clock above a mark that some master held against a fence made at that time. The
// mark is older than the fence, or little younger, so it tells by how much our clock is behind at
// least.
func (f *fenceClock) observe(mark int64, made time.Time) {
	f.last = max(f.last, mark)
	f.ahead = min(max(f.ahead, mark-fenceTime(made)), f.aheadMax) //mutant:a-clock-that-is-behind-stays-behind
}

// fenceTooLowLocked tells whether an attempt failed because its fence was too low, for a clock is behind, and is to ask once more: the resource is
// not held by another. The next fence is above every mark that was seen. If the client has already sent UNLOCK, a retry must not grant the lock
// after it.
func (c *Client) fenceTooLowLocked(r *round, o quorum.Outcome, v quorum.Votes) bool {
	c.fences.observe(r.mark.Load(), r.start)
	op := r.op
	if o == quorum.No && v.Denied(r.view.Places).Count() <= r.view.Count-r.view.Quorum() && op.stale < fenceRetries && !r.released { //mutant:tried-again-behind-the-unlock
		op.stale++
		return true
	}
	return false
}

// fenceAhead is the reply of a script whose fence is too far ahead of the master's clock.
const fenceAhead = -2

// highWaterCommands read the floor and the highest mark in a heartbeat.
func highWaterCommands(ctx context.Context) (*redis.StringCmd, *redis.ZSliceCmd) {
	return redis.NewStringCmd(ctx, "get", floorKey), redis.NewZSliceCmd(ctx, "zrevrange", marksKey, 0, 0, "withscores")
}

// readHighWater returns the highest fence that the master has accepted, as far as it says, or why
// that cannot be true.
func readHighWater(floor *redis.StringCmd, top *redis.ZSliceCmd, now time.Time, skew time.Duration) (high int64, untrue string, err error) {
	if err := floor.Err(); err != nil && err != redis.Nil {
		if isWrongType(err) {
			return 0, falseFences(floorKey, "no string", skew), nil
		}
		return 0, "", fmt.Errorf("GET %s: %w", floorKey, err)
	}
	if err := top.Err(); err != nil {
		if isWrongType(err) {
			return 0, falseFences(marksKey, "no sorted set", skew), nil
		}
		return 0, "", fmt.Errorf("ZREVRANGE %s: %w", marksKey, err)
	}
	if text := floor.Val(); text != "" {
		if high, err = strconv.ParseInt(text, 10, 64); err != nil || high > highestFence(now, skew) { //mutant:a-false-floor-not-refused
			return 0, falseFences(floorKey, shown(text), skew), nil
		}
	}
	for _, z := range top.Val() {
		mark, ok := fenceOf(z.Score)
		if !ok || mark > highestFence(now, skew) { //mutant:a-false-mark-not-refused
			return 0, falseFences("highest mark in "+marksKey, strconv.FormatFloat(z.Score, 'f', 0, 64), skew), nil
		}
		high = max(high, mark)
	}
	return high, "", nil
}

// fenceOf is a score as a fence, if it can be one.
func fenceOf(score float64) (int64, bool) {
	if !(score >= 0 && score < 1<<53) {
		return 0, false
	}
	return int64(score), true
}

// highestFence is the highest that any proxy can have given.
func highestFence(now time.Time, skew time.Duration) int64 {
	return fenceTime(now.Add(fenceAheadMax + skew)) //mutant:fences-of-a-clock-that-is-a-little-ahead-refused
}

// highestBelieved is the highest that a proxy goes above because one master shows it.
func highestBelieved(now time.Time, skew time.Duration) int64 {
	return fenceTime(now.Add(fenceAheadMax - skew)) //mutant:a-mark-believed-that-no-master-accepts
}

// falseFences says what is wrong with what a key holds, and what to do. The membership goes too: without
// it the master waits for what it may have forgotten, and learns the true fences from the others.
func falseFences(key, value string, skew time.Duration) string {
	return fmt.Sprintf("its %s is %s, which no proxy has given: fences are at most %v ahead of the clock here. If this clock is right, "+
		"run DEL %s %s %s on it: it votes again after one max_ttl, with the fences that the others remember",
		key, value, fenceAheadMax+skew, floorKey, marksKey, membersKey)
}
