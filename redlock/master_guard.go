package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// guard holds what is to be checked before the votes of one master count. Only the lane's goroutine writes it,
// under lane.mu; it lives as long as the lane, over all connections.
//
// Invariant: a vote counts only if the batch that carried it closed with the epoch that this client has
// admitted, with the configuration that all proxies share, and with a clock in step. The checks travel in the
// same pipeline, behind the last command, so whatever makes a master forget is caught in the very reply that
// carries the vote. What only INFO tells, whether the master may evict keys and whether it is a replica, is
// asked with the heartbeat: up to one heartbeat late.
//
// Invariant: this client learns of an admission (epoch) only while none of its batches is in flight on that
// master. The order of fences rests on it. A master can execute another client's commands between two of a
// pipeline: a fence is compared with marks that the master has forgotten, another proxy admits the master and
// raises its floor, and then the checks at the end of the same pipeline show the new epoch. That vote must not
// count; it does not, because the client had not admitted that epoch when it sent the pipeline. So the epoch is
// never taken from those checks, although that would save a round trip (see verifyEpoch).
type guard struct {
	// epoch is the one that this client has admitted: votes count. "": they do not.
	epoch string
	// past is the epoch that was admitted last. Once the master was quarantined it must not come back either.
	past string
	// former are the epochs of this run that were admitted before past. If one of them comes back, the master's
	// memory went back.
	former []string

	// quarantine is the value of the epoch key under which the master is quarantined; "": it is not. It is kept
	// over reconnects.
	quarantine string
	// until is the end of the quarantine, on our monotonic clock.
	until time.Time
	// reason is why the master is quarantined.
	reason string
	// setBack is by how much the master's clock was set back, where that is the reason; 0 once the keys are
	// shortened by it.
	setBack time.Duration

	// clock follows the difference between the master's clock and ours.
	clock clockTrack
	// high is the highest fence the master knew at the last heartbeat, if it had a vote then.
	high highWater
	// beat is the highest value of the beat key seen under the present epoch. It falls only if the master's
	// memory went back.
	beat int64

	// refusal is why the master has no vote although it is connected, as of the last heartbeat: it may evict
	// keys, or its fences are false. "": there is no such reason.
	refusal string
	// evicted counts the keys that the run has evicted, as of the last heartbeat; -1: not known.
	evicted int64
}

// guardResult is what the checks at the end of a pipeline have found.
type guardResult struct {
	// counts tells that the votes of the pipeline count.
	counts bool
	// epoch is the value of the epoch key.
	epoch string
	// suspicion is why the master must be quarantined: it may have forgotten locks, or its clock misjudged
	// them. "": there is none.
	suspicion string
	// step is by how much its clock stepped.
	step time.Duration
	// recheck tells that the epoch is not the admitted one: verifyEpoch has to read it again while nothing is
	// in flight.
	recheck bool
	// err is why the connection is of no use; nil: it is.
	err error
}

// unresolved tells whether there is something to see to before anything else is sent.
func (g guardResult) unresolved() bool { return g.recheck || g.suspicion != "" }

// merge is what two pipelines have found, one behind the other.
func (g guardResult) merge(later guardResult) guardResult {
	both := later
	both.counts = g.counts && later.counts
	both.recheck = g.recheck || later.recheck
	if g.suspicion != "" {
		both.suspicion = g.suspicion
		both.step = min(g.step, 0) + min(later.step, 0) // only what was set back has to be taken back
	}
	return both
}

// judge judges a pipeline that was sent and received at these times of our clock.
func (g *guard) judge(end trailer, c *Client, sent, received time.Time) guardResult {
	epoch, config, beat := end.epoch, end.config, end.beat
	first := !g.clock.known
	step := g.clock.sample(sent.Sub(c.began), received.Sub(c.began), time.Duration(end.clock.UnixNano()), c.drift.rate(), c.drift.stepMax)
	skew := end.clock.Sub(received)
	switch {
	case step != 0:
		return guardResult{epoch: epoch, step: step, suspicion: fmt.Sprintf("its clock stepped by %v", step.Round(time.Millisecond))}
	case first && skew.Abs() > c.opts.ClockSkewMax+received.Sub(sent): //mutant:first-sight-of-a-clock-believed
		// Nobody may have watched it until now.
		return guardResult{epoch: epoch, suspicion: fmt.Sprintf("its clock differs by %v from the clock here (clock_skew_max): it may have stepped while nobody watched", skew.Round(time.Millisecond))}
	case config != "" && config != c.fingerprint: //mutant:configuration-not-compared
		return guardResult{err: &refusedError{disagreement(c.opts, config, "") + ": " + toAgree}} // the next connection finds out what differs
	case epoch != "" && epoch == g.past && beat < g.beat: //mutant:beat-not-compared
		return guardResult{epoch: epoch, suspicion: fmt.Sprintf("its beat went back from %d to %d: its memory is of an earlier time", g.beat, beat)}
	}
	if epoch == g.epoch { //mutant:an-admission-learned-with-a-batch-in-flight
		g.beat = max(g.beat, beat)
	}
	if g.epoch != "" && epoch == g.epoch && config != "" { //mutant:epoch-not-compared
		return guardResult{
			epoch:  epoch,
			counts: g.refusal == "", //mutant:a-master-that-may-evict-votes-until-it-is-connected-anew
		}
	}
	return guardResult{epoch: epoch, recheck: config == "" || epoch == "" || epoch != g.quarantine}
}

// refusedError is a reason for which a master gets no vote and no commands until it goes away.
type refusedError struct{ reason string }

const refusedPrefix = "refused: "

func (e *refusedError) Error() string { return refusedPrefix + e.reason }

// verifyEpoch reads the epoch of the master while nothing is in flight, and acts on it: the master is admitted
// if the epoch is admitted, stays quarantined if it is quarantined, and is quarantined under a fresh nonce
// otherwise, or if there is a suspicion. step is that of its clock, where the suspicion is about one.
func (l *lane) verifyEpoch(ctx context.Context, conn *masterConn, suspicion string, step time.Duration) error {
	// Others may exchange the value at the same time; every exchange makes it more settled.
	for range 8 {
		value, err := conn.redis.Get(ctx, epochKey).Result()
		if err != nil && err != redis.Nil {
			return fmt.Errorf("GET %s: %w", epochKey, err)
		}
		kind := readEpoch(value, l.identity.runID)
		switch {
		case suspicion == "" && kind == epochAdmitted && (slices.Contains(l.guard.former, value) || value == l.guard.past && l.guard.quarantine != ""): //mutant:a-quarantine-ends-with-an-epoch-of-before
			suspicion = "its epoch is one of before: its memory is of an earlier time"
			continue
		case suspicion == "" && kind == epochAdmitted:
			l.admitted(value)
			return nil
		case kind == epochQuarantined && suspicion == "" && l.guard.past != "" && looksNew(value, l.identity.runID): //mutant:amnesia-that-others-take-for-newness
			// Who has quarantined it does not know that it was admitted before. It has forgotten, and must not
			// look new to a bootstrap.
			suspicion = l.amnesia("")
		case kind == epochQuarantined && (suspicion == "" || value != l.guard.quarantine):
			// Another proxy was first. Its reason may be older than our suspicion, but its nonce is new to us,
			// so our own wait for it begins now.
			l.quarantined(value, cmp.Or(suspicion, "another proxy has quarantined it: "+quarantineReason(value)))
			return nil
		}
		if suspicion == "" {
			suspicion = l.amnesia(value)
		}
		fresh := quarantinedEpoch(l.identity.runID, suspicion)
		swapped, err := conn.swap(ctx, epochKey, value, fresh)
		if err != nil {
			return err
		}
		if swapped {
			l.quarantined(fresh, suspicion)
			// The proxy that wins the exchange takes it back from the keys for all; the others do nothing.
			if step < 0 { //mutant:a-clock-set-back-lengthens-locks
				l.guard.setBack = -step
			}
			return nil
		}
	}
	return errors.New("its redlockd:epoch changes faster than it can be read")
}

// amnesia says what a value of the epoch key that is not of this run tells about the past.
func (l *lane) amnesia(value string) string {
	switch {
	case value == "" && l.guard.past == "":
		return reasonNew
	case value == "":
		return "its epoch is gone: it has restarted without its data, or was flushed"
	}
	return "its epoch is of another run: it has restarted or was replaced, and may have lost the latest locks"
}

// admitted records that the master has a vote under this epoch. The epoch that was admitted before must not
// come back.
func (l *lane) admitted(epoch string) {
	l.mu.Lock()
	before := l.guard.past
	l.guard.epoch, l.guard.past, l.guard.quarantine, l.guard.reason = epoch, epoch, "", ""
	if before != epoch {
		if before != "" {
			l.guard.former = append(l.guard.former, before)
			if len(l.guard.former) > formerMax {
				l.guard.former = slices.Delete(l.guard.former, 0, 1)
			}
		}
		l.guard.beat = 0
		l.since = time.Now()
	}
	l.mu.Unlock()
}

// quarantined records that the master has no vote. The wait for a value begins when this client first sees it:
// the clock of the proxy that wrote it is not trusted.
func (l *lane) quarantined(value, reason string) {
	o := l.client.opts
	l.mu.Lock()
	fresh := l.guard.quarantine != value
	l.guard.epoch = ""
	l.guard.beat = 0
	if fresh {
		l.since = time.Now()
		l.guard.quarantine, l.guard.reason, l.guard.setBack = value, reason, 0
		l.guard.until = time.Now().Add(quarantineOf(o.MaxTTL, l.client.drift)) //mutant:timer-of-the-first-episode
	}
	left := time.Until(l.guard.until)
	l.mu.Unlock()
	if fresh {
		l.client.suspect()
		l.logEvent(slog.LevelWarn, "master quarantined", "reason", reason, "for", left.Round(time.Millisecond),
			"to_do", "nothing, it votes again after that; restart no other master until then")
	}
}

// takeBack shortens the keys by what a clock that was set back has added to their life. If the connection
// breaks, it begins anew on the next one while the quarantine lasts. After that the keys stay as they are,
// which lets nobody in too early.
func (l *lane) takeBack(conn *masterConn) error {
	if l.guard.setBack == 0 || l.guard.quarantine == "" || time.Now().After(l.guard.until) {
		return nil
	}
	if err := conn.rewind(l.client, l.guard.quarantine, l.guard.setBack); err != nil {
		return err
	}
	l.guard.setBack = 0
	return nil
}

// admitDue ends a quarantine whose time is over, unless the master forgot again meanwhile, or another proxy was
// faster.
func (l *lane) admitDue(ctx context.Context, conn *masterConn) error {
	if l.guard.quarantine == "" || time.Now().Before(l.guard.until) || l.guard.refusal != "" {
		return nil
	}
	floor, cold := l.client.recoverFloor(l, l.guard.until)
	if grace := 2*l.client.opts.Heartbeat + l.client.opts.ConnectTimeout; cold && time.Since(l.guard.until) < grace {
		return nil // the others may still be on their way to tell
	}
	fresh := admittedEpoch(l.identity.runID)
	admitted, err := conn.redis.EvalSha(ctx, scriptAdmit.sha, []string{epochKey, floorKey}, l.guard.quarantine, fresh, floor).Int()
	if err != nil {
		return fmt.Errorf("admit: %w", err)
	}
	if admitted == 0 {
		return l.verifyEpoch(ctx, conn, "", 0)
	}
	if cold {
		// Masters that have all forgotten look like new ones. There is something to do only where it is known
		// that this one has.
		log, attrs := l.client.opts.Logger.Info, []any{"master", l.master.Addr, "floor", floor}
		if l.guard.past != "" {
			log = l.client.opts.Logger.Warn
			attrs = append(attrs, "to_do", "nothing if fences are not used; else see that clocks here and on the masters differ by less than clock_skew_max")
		}
		log("fences trust clocks once: too few masters remember the last ones", attrs...)
	}
	l.admitted(fresh)
	return nil
}

// heartbeat is sent every Options.Heartbeat, also when the lane is idle. It raises the beat and keeps the
// shared configuration alive on the master; it reads role, memory policy, evictions, fences and clock; and it
// ends a quarantine that is over.
func (l *lane) heartbeat(ctx context.Context, conn *masterConn) error {
	c := l.client
	if err := l.track(ctx, conn); err != nil {
		return err
	}
	pipe := conn.redis.Pipeline()
	beat := pipe.EvalSha(ctx, scriptBeat.sha, []string{beatKey, configKey, settingsKey}, c.fingerprint, quarantineOf(c.opts.MaxTTL, c.drift).Milliseconds(), agreedSettingsOf(c.opts).text())
	replication, memory, stats := pipe.Info(ctx, "replication"), pipe.Info(ctx, "memory"), pipe.Info(ctx, "stats")
	keys, clock := pipe.MGet(ctx, epochKey, configKey, beatKey), redis.NewTimeCmd(ctx, "time")
	floor, top := highWaterCommands(ctx)
	pipe.BatchProcess(ctx, floor, top, clock)
	sent := time.Now()
	pipe.Exec(ctx)
	received := time.Now()
	// With its memory full it cannot count. It can still release.
	full := beat.Err() != nil && strings.HasPrefix(beat.Err().Error(), "OOM ")
	if full {
		beat.SetErr(nil)
		beat.SetVal(l.guard.beat + 1)
	}
	for _, cmd := range []redis.Cmder{clock, keys, beat, replication, memory, stats} {
		if err := cmd.Err(); err != nil {
			return fmt.Errorf("heartbeat: %w", err)
		}
	}
	info := parseInfo(replication.Val() + memory.Val())
	if reason := refusal(info); reason != "" && reason != evicts(info) { //mutant:an-evicting-master-is-not-asked-for-the-leases
		return &refusedError{reason}
	}
	high, untrue, err := readHighWater(floor, top, received, c.opts.ClockSkewMax)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	l.refuse(cmp.Or(evicts(info), untrue))
	n, err := beat.Int64()
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	before := l.guard.beat
	end := trailerOf(keys, clock)
	result := l.guard.judge(end, c, sent, received)
	if result.err != nil {
		return l.disagreed(ctx, conn, end.config)
	}
	evicted, _ := strconv.ParseInt(parseInfo(stats.Val())["evicted_keys"], 10, 64)
	if more := evicted - l.guard.evicted; l.guard.evicted >= 0 && more > 0 {
		c.suspect()
		// While it goes on evicting, one quarantine is enough: when it may no longer, what it has evicted since
		// brings the next one.
		if l.guard.refusal == "" || l.guard.quarantine == "" {
			result.suspicion = fmt.Sprintf("it has evicted %d keys", more)
			l.guard.evicted = evicted
		}
	} else {
		l.guard.evicted = evicted
	}
	if result.counts && high < l.guard.high.fence {
		result.suspicion = fmt.Sprintf("its fences went back from %d to %d: somebody deleted %s or %s", l.guard.high.fence, high, marksKey, floorKey)
	}
	if result.suspicion == "" && result.epoch != "" && result.epoch == l.guard.past && n <= before {
		result.suspicion = "its beat went back from " + strconv.FormatInt(before, 10) + " to " + strconv.FormatInt(n, 10) + ": its machine was rolled back to an earlier state"
	} else if !full {
		l.guard.beat = max(l.guard.beat, n)
	}
	l.mu.Lock()
	l.answeredLocked(nil, received.Sub(sent))
	switch {
	case result.counts:
		l.guard.high = highWater{high, sent}
	case untrue == "": // what it says without a vote may be what is left after forgetting //mutant:fences-of-a-false-floor-forgotten
		l.guard.high = highWater{}
	}
	if result.unresolved() {
		l.toResolve = l.toResolve.merge(result)
	}
	l.mu.Unlock()
	if err := l.resolve(ctx, conn); err != nil {
		return err
	}
	return l.admitDue(ctx, conn)
}

// refuse takes the vote from a master that may evict keys, or whose fences are false, until the reason is gone
// (""). The connection stays, because the master is asked which leases it has lost.
func (l *lane) refuse(reason string) {
	if l.guard.refusal == reason {
		return
	}
	l.mu.Lock()
	l.guard.refusal = reason
	l.mu.Unlock()
	if reason != "" {
		l.client.suspect()
		l.logState()
	}
}

// resolve does what was found, before the next batch.
//
// Invariant: a result is kept in toResolve until the lane has acted on it, over broken connections too. A step
// of the clock is seen once: the next connection would find the epoch as it was admitted, and a clock that
// runs.
func (l *lane) resolve(ctx context.Context, conn *masterConn) error {
	l.mu.Lock()
	result := l.toResolve
	l.mu.Unlock()
	if result.unresolved() {
		if err := l.verifyEpoch(ctx, conn, result.suspicion, result.step); err != nil { //mutant:a-finding-forgotten-with-its-connection
			if l.guard.refusal != "" && strings.Contains(err.Error(), "OOM ") {
				// Its memory is full, so it cannot be told of its quarantine. It has no vote, and the reason
				// that an operator can change comes first.
				return &refusedError{l.guard.refusal}
			}
			return err
		}
		l.mu.Lock()
		l.toResolve = guardResult{}
		l.mu.Unlock()
	}
	return l.takeBack(conn)
}
