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
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/fence"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
)

// guard holds what is to be checked before the votes of one master count. Only the lane's goroutine
// writes it, under lane.mu; it lives as long as the lane, over all connections.
//
// Invariant: a vote counts only if the batch that carried it closed with the master showing exactly the
// record that the round was launched under, settled, with the memory that this record lists as a voter,
// and with a clock in step. The checks travel in the same pipeline, behind the last command, so
// whatever makes a master forget, and every step of the membership, is caught in the very reply that
// carries the vote. What only INFO tells, whether the master may evict keys and whether it is a
// replica, is asked with the heartbeat: up to one heartbeat late.
//
// Invariant: this client learns that a memory has become a voter only while none of its batches is in
// flight on that master. The order of fences rests on it. A master can execute another client's
// commands between two of a pipeline: a fence is compared with marks that the master has forgotten,
// another proxy raises its floor and makes it a voter, and then the checks at the end of the same
// pipeline show the new record. That vote must not count; it does not, because the client had not seen
// that record there when it sent the pipeline. So the record is never taken from those checks, although
// that would save a round trip (see verify).
//
// Invariant: a vote counts only if, within the last recheckWithin, a new connection to the master's
// address has reached the same process. A founding trusts addresses (member/founding.go) and rests on
// that.
type guard struct {
	// shown is what the master shows of the membership (member/state.go), as verify last read it. "": it
	// was not read.
	shown string
	// memory is the one in shown.
	memory string
	// record is the one under which votes count: the master has settled on it, and it lists the memory as
	// a voter. Nil: votes do not count.
	record *member.Record
	// forgotten are memories of this run that are lost. If one of them comes back, the master's memory
	// went back.
	forgotten []string
	// reason is why votes do not count, where record is nil.
	reason string
	// changing tells that they do not count only because the membership changes: the master has forgotten
	// nothing.
	changing bool
	// seenBy is the record in force by which shown was judged.
	seenBy *member.Record
	// voted tells that a master of this address has voted here: this one, or one before it.
	voted bool
	// logged tells that the log has why it does not vote.
	logged bool
	// confirmed is when the last connection was begun that has reached the same process, as a
	// time.Duration on clock.Own. The coordinator moves it.
	confirmed atomic.Int64
	// unreached is why the last connection since has reached none; nil: it did, or was not tried.
	unreached error
	// unreachedLogged: the log says that votes do not count because of unreached.
	unreachedLogged bool
	// recheckWithin is how long that holds under record (member.RecheckWithin).
	recheckWithin time.Duration

	// ahead is the most that the master's clock was ahead of clock.Own when that was last known to a
	// quarter of MasterTimeout, in nanoseconds; 0: it was never read.
	ahead atomic.Int64
	// clock says whether the master's clock is in step with ours (master_clock.go, master_trust.go).
	clock clockGuard
	// high is the highest fence the master knew at the last heartbeat, if it had a vote then.
	high int64
	// beat is the highest beat seen of the present memory. It falls only if the master's memory went back.
	beat int64

	// refusal is why the master has no vote although it is connected, as of the last heartbeat: it may
	// evict keys, or its fences are false. "": there is no such reason.
	refusal string
	// lockRefusal is why the master takes no new locks although it is connected, as of the last
	// heartbeat, which has tried: its memory is full, or its ACL does not allow SET. "": it takes them.
	// Its other votes count: it releases and extends the locks that it has.
	lockRefusal string
	// memory used and its limit, in bytes, as of the last heartbeat; 0: no limit.
	usedMemory, maxMemory int64
	// memoryLogged: the log says that little memory is left.
	memoryLogged bool
	// evicted counts the keys that the run has evicted, as of the last heartbeat; -1: not known.
	evicted int64
}

// guardResult is what the checks at the end of a pipeline have found.
type guardResult struct {
	// counts tells that the votes of the pipeline count, for rounds that were launched under record.
	counts bool
	record *member.Record
	// remembers tells that the master has forgotten nothing. Its votes count if its clock is good, too.
	remembers bool
	// suspicion is why the memory is lost: it may have forgotten locks. "": there is none.
	suspicion string
	// clock is what the clock has shown.
	clock clockResult
	// recheck tells that the master shows something else than before: verify has to read it again while
	// nothing is in flight.
	recheck bool
}

// unresolved tells whether there is something to see to before anything else is sent.
func (g guardResult) unresolved() bool {
	return g.recheck || g.suspicion != "" || g.clock.gain > 0 || g.clock.unwatched
}

// verdict is what decides whether votes of the master count, and whether it takes locks.
func (g *guard) verdict() (v struct {
	record               *member.Record
	refusal, lockRefusal string
	good                 bool
}) {
	v.record, v.refusal, v.lockRefusal, v.good = g.record, g.refusal, g.lockRefusal, g.clock.good
	return v
}

// merge is what two pipelines have found, one behind the other.
func (g guardResult) merge(later guardResult) guardResult {
	both := later
	both.counts = g.counts && later.counts && g.record == later.record
	both.recheck = g.recheck || later.recheck             //mutant:a-second-pipeline-hides-another-record
	both.suspicion = cmp.Or(g.suspicion, later.suspicion) //mutant:a-second-pipeline-hides-a-suspicion
	if g.clock.gain > 0 {
		both.clock.gain, both.clock.before = max(g.clock.gain, later.clock.gain), g.clock.before //mutant:a-second-pipeline-hides-a-gain
	}
	both.clock.unwatched = g.clock.unwatched || later.clock.unwatched //mutant:a-second-pipeline-hides-that-nobody-watched
	return both
}

// judge judges a pipeline by its trailer and the reading of the clock in it.
func (g *guard) judge(end member.Trailer, now clock.Reading, f *fleet) guardResult {
	result := g.judgeMemory(end, now.Received)
	if now.Received-now.Sent <= f.opts.MasterTimeout/4 || g.ahead.Load() == 0 { //mutant:a-slow-answer-tells-the-clock
		g.ahead.Store(int64(now.Offset.High))
	}
	result.clock = g.clock.judge(now, f.own, f.drift, f.view.Load().wait)
	result.counts = result.remembers && result.clock.counts //mutant:votes-of-a-doubted-clock-counted
	return result
}

// judgeMemory judges whether the master has forgotten anything, or knows another record.
func (g *guard) judgeMemory(end member.Trailer, now time.Duration) guardResult {
	switch {
	case end.Shown != g.shown || end.Shown == "": //mutant:the-record-is-not-compared
		return guardResult{recheck: true}
	case end.Beat < g.beat: //mutant:beat-not-compared
		return guardResult{suspicion: fmt.Sprintf("its beat went back from %d to %d: its memory is of an earlier time", g.beat, end.Beat)}
	}
	g.beat = end.Beat
	if g.record == nil || g.unconfirmed(now) > 0 { //mutant:an-address-is-not-made-sure-of
		return guardResult{}
	}
	return guardResult{
		record:    g.record,
		remembers: g.refusal == "", //mutant:a-master-that-may-evict-votes-until-it-is-connected-anew
	}
}

// unconfirmed is for how long no new connection has reached the master of the record, if that is too
// long for its votes to count; else 0.
func (g *guard) unconfirmed(now time.Duration) time.Duration {
	if ago := now - time.Duration(g.confirmed.Load()); ago > g.recheckWithin {
		return ago
	}
	return 0
}

// verify reads what the master shows while nothing is in flight, and acts on it. A memory that has no
// name gets one, and so does one that is lost: because it is of another process or of before, or
// because of a suspicion.
func (l *lane) verify(ctx context.Context, link *conn.Conn, suspicion string) error {
	g := &l.guard
	// Others may name it at the same time: the first is right.
	for range 8 {
		pipe := link.Redis.Pipeline()
		shows, why := pipe.HGet(ctx, lua.MembersKey, "v"), pipe.HGet(ctx, lua.MembersKey, "why")
		pipe.Exec(ctx)
		for _, cmd := range []*redis.StringCmd{shows, why} {
			if err := survey.AsMembersError(cmd.Err()); err != nil && err != redis.Nil {
				return fmt.Errorf("read %s: %w", lua.MembersKey, err)
			}
		}
		v := shows.Val()
		state, err := member.StateOf(v, l.identity.RunID)
		if err != nil {
			return err
		}
		if state.Memory != "" {
			switch {
			case slices.Contains(g.forgotten, state.Memory): //mutant:a-memory-of-before-votes
				suspicion = "its memory is one of before"
			case state.Memory != g.memory:
				suspicion = "" // it was about the one before
			}
			if suspicion == "" {
				l.shows(v, state, conn.Sanitize(why.Val()))
				return nil
			}
		}
		cause := cmp.Or(suspicion, member.Amnesia(v, g.voted))
		if err := survey.NameMemory(ctx, link, v, member.NewMemory(l.identity.RunID), cause); err != nil {
			return err
		}
	}
	return survey.ErrUnsteady
}

// forget records that a memory is lost.
func (l *lane) forget(memory string) {
	g := &l.guard
	if memory == "" || slices.Contains(g.forgotten, memory) {
		return
	}
	if g.forgotten = append(g.forgotten, memory); len(g.forgotten) > forgottenMax {
		g.forgotten = slices.Delete(g.forgotten, 0, 1)
	}
	l.client.audits.suspect()
}

// forgottenMax bounds the memories that are remembered of one run of a master. Each took a wait, unless
// the master lies.
const forgottenMax = 256

// shows records what the master shows, and decides whether its votes count. why is what has become of
// the memory before, as the master was told.
func (l *lane) shows(v string, state member.State, why string) {
	g, r := &l.guard, l.fleet.view.Load().record
	if state.Memory != g.memory { // of the same process: StateOf reads no other
		l.forget(g.memory)
	}
	var reason string
	var s *member.Seat
	if r != nil {
		s = r.Seat(l.index)
	}
	switch {
	case r == nil:
		reason = cmp.Or(why, "no membership is known yet")
	case s == nil || s.Memory != state.Memory: //mutant:the-listed-memory-is-not-compared
		reason = cmp.Or(r.WithoutVote(s, state, why), "the membership does not list what it remembers: it has forgotten, or another master stands at its address")
	case state.Record != r.ID():
		reason = fmt.Sprintf("it does not show version %d of the membership", r.Version)
	case state.Child != "": //mutant:votes-count-beside-an-accepted-child
		reason = "a change of the membership is under way"
	case s.State != member.Voter: //mutant:a-learner-votes
		reason = cmp.Or(r.WithoutVote(s, state, why), "it may have forgotten locks: it votes when it was given what the others remember, or the longest of them must have ended")
	}
	l.mu.Lock()
	if g.memory != state.Memory {
		g.beat, g.high = 0, 0
		g.clock.first, g.clock.stated = 0, 0 // these beats nobody counts any more
	}
	if (g.record == nil) != (reason != "") {
		l.since = time.Now()
	}
	g.changing = reason != "" && s != nil && s.Memory == state.Memory && s.State == member.Voter
	lost := g.record != nil && reason != "" && !g.changing
	g.shown, g.memory, g.record, g.reason, g.seenBy = v, state.Memory, nil, reason, r
	if reason == "" {
		g.record, g.recheckWithin, g.voted, g.logged = r, member.RecheckWithin(r.Wait), true, false
	}
	l.mu.Unlock()
	if reason != "" && (s == nil || s.State != member.Learner || !state.SettledOn(r, s)) {
		l.fleet.coordinator.Wake()
	}
	if lost {
		l.client.audits.suspect()
	}
	if s != nil && s.State == member.Learner && state.SettledOn(r, s) && !g.logged {
		g.logged = true
		l.logEvent(slog.LevelWarn, "master quarantined", "reason", reason, "for", l.fleet.coordinator.Left(l.index).Round(time.Millisecond),
			"to_do", "nothing, it votes again when it was given what the others remember, or after that; restart no other master until then")
	}
}

// confirm takes note that a connection which was begun at that time has reached the process with this
// run_id at the master's address. If the lane is connected to another one, that is the one of before:
// its connection ends.
func (l *lane) confirm(runID string, begun time.Time) {
	l.mu.Lock()
	up, same := l.state.takesWork(), l.identity.RunID == runID
	l.mu.Unlock()
	switch {
	case !up:
	case same:
		l.guard.confirmed.Store(int64(l.fleet.own.At(begun)))
		l.unreached(nil)
	default:
		l.disconnect(errMoved) //mutant:an-address-that-moved-is-not-followed
	}
}

// unreached takes note of why a new connection has reached no process at the master's address; nil: one
// has. The log has it once votes do not count because of that, and when they do again.
func (l *lane) unreached(why error) {
	l.mu.Lock()
	g := &l.guard
	g.unreached = why
	without := why != nil && l.state.takesWork() && g.record != nil && l.unconfirmedLocked() != ""
	changed := without != g.unreachedLogged && (without || why == nil)
	if changed {
		g.unreachedLogged = without
	}
	l.mu.Unlock()
	if changed {
		l.logState()
	}
}

// disconnect ends the connection; the lane makes another one.
func (l *lane) disconnect(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket != nil {
		l.brokenLocked(why)
		l.socket.Close()
	}
}

// heartbeat is sent every Options.Heartbeat, also when the lane is idle. It raises the beat, stamps the
// waits that run, and tells whose masters are heard here; it says what this client knows of the
// clock; it reads role, memory, memory policy, evictions, fences and clock, and tries whether the master takes new locks.
func (l *lane) heartbeat(ctx context.Context, link *conn.Conn) error {
	f := l.fleet
	if err := l.track(ctx, link); err != nil {
		return err
	}
	var beat, watch, follow, set *redis.Cmd
	var replication, memory, stats *redis.StringCmd
	var fields *redis.SliceCmd
	front, timed := redis.NewTimeCmd(ctx, "time"), redis.NewTimeCmd(ctx, "time")
	var floor *redis.StringCmd
	var top *redis.ZSliceCmd
	var sent time.Time
	l.mu.Lock()
	leaving := l.leaving
	l.mu.Unlock()
	args, first := l.watchArgs(leaving)
	view := f.view.Load()
	note := l.followArgs(view, leaving)
	err := link.Pipelined(ctx, func(pipe redis.Pipeliner) {
		pipe.BatchProcess(ctx, front)
		beat = conn.QueueScript(ctx, pipe, lua.MemberBeat, []string{lua.MembersKey}, view.beatArgs(l)...)
		watch = conn.QueueScript(ctx, pipe, lua.Watch, []string{lua.MembersKey}, args...)
		if note != nil {
			follow = conn.QueueScript(ctx, pipe, lua.Follow, []string{lua.MembersKey}, note...)
		}
		set = pipe.Do(ctx, "set", conn.NoKey, "", "xx", "px", 1)
		replication, memory, stats = pipe.Info(ctx, "replication"), pipe.Info(ctx, "memory"), pipe.Info(ctx, "stats")
		fields = pipe.HMGet(ctx, lua.MembersKey, "v", "beat")
		floor, top = fence.HighWaterCommands(ctx)
		pipe.BatchProcess(ctx, floor, top, timed)
		sent = time.Now()
	})
	received := time.Now()
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	info := conn.ParseInfo(replication.Val() + memory.Val())
	if reason := conn.Refusal(info); reason != conn.Evicts(info) { //mutant:an-evicting-master-is-not-asked-for-the-leases
		return &conn.RefusedError{Reason: reason}
	}
	// With its memory full it cannot count. It can still release.
	full := conn.HasCode(beat.Err(), "OOM")
	if full {
		beat.SetErr(nil)
		beat.SetVal([]any{l.guard.beat + 1})
	}
	for _, err := range []error{survey.AsMembersError(fields.Err()), front.Err(), timed.Err(), beat.Err(), replication.Err(), memory.Err(), stats.Err()} {
		if err != nil {
			return conn.AsRefusal(fmt.Errorf("heartbeat: %w", err))
		}
	}
	l.refuseLocks(set.Err()) //mutant:a-master-that-takes-no-locks-is-shown-as-up
	l.noteMemory(info)
	high, untrue, err := fence.ReadHighWater(floor, top, received, f.opts.ClockSkewMax)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	l.refuse(cmp.Or(conn.Evicts(info), untrue))
	n, err := firstOfBeat(beat)
	if err != nil {
		return err
	}
	before, k := l.guard.beat, &l.guard.clock
	counted, wait := n, f.view.Load().wait
	if full {
		counted = 0
	}
	atFront := f.own.ReadingOf(sent, received, front.Val())
	var found guardResult
	for _, seen := range append(l.takeReported(), atFront) {
		found = found.merge(guardResult{clock: k.judge(seen, f.own, f.drift, wait)}) //mutant:a-gain-is-from-the-heartbeat-that-shows-it
	}
	k.begin(atFront, counted, f.drift, wait)
	end := member.TrailerOf(fields.Val(), timed.Val())
	clockNow := f.own.ReadingOf(sent, received, end.Clock)
	result := found.merge(l.guard.judge(end, clockNow, f))
	k.beat(clockNow, f.own, f.drift)
	evicted, _ := strconv.ParseInt(conn.ParseInfo(stats.Val())["evicted_keys"], 10, 64)
	if more := evicted - l.guard.evicted; l.guard.evicted >= 0 && more > 0 {
		l.client.audits.suspect()
		// While it goes on evicting, its memory is lost once: when it may no longer, what it has evicted
		// since loses it again.
		if l.guard.refusal == "" || l.guard.record != nil {
			result.suspicion = fmt.Sprintf("it has evicted %d keys", more)
			l.guard.evicted = evicted
		}
	} else {
		l.guard.evicted = evicted
	}
	if result.remembers && high < l.guard.high { //mutant:fences-that-went-back
		result.suspicion = fmt.Sprintf("its fences went back from %d to %d: somebody deleted %s or %s", l.guard.high, high, lua.MarksKey, lua.FloorKey)
	}
	// It has raised the beat already, so that a memory that went back by one shows nowhere else.
	if _, ok := member.ParseState(end.Shown); result.suspicion == "" && ok && n <= before { //mutant:back-by-one-heartbeat //mutant:back-behind-a-new-connection
		result.suspicion = "its beat went back from " + strconv.FormatInt(before, 10) + " to " + strconv.FormatInt(n, 10) + ": its machine was rolled back to an earlier state"
	}
	l.mu.Lock()
	l.answeredLocked(nil, received.Sub(sent))
	switch {
	case result.remembers:
		l.guard.high = high
	case untrue == "": // what it says without a vote may be what is left after forgetting //mutant:fences-of-a-false-floor-forgotten
		l.guard.high = 0
	}
	l.toResolve = l.toResolve.merge(result)
	l.left = leaving
	l.mu.Unlock()
	if err := l.resolve(ctx, link); err != nil {
		return err
	}
	l.trustClock(readStatements(watch, first), counted)
	if follow != nil && !leaving && l.guard.record == view.record {
		if n, _ := follow.Int(); n == 1 {
			l.followed.Store(&followed{view.record, sent})
		}
	}
	if r := l.guard.record; r != nil { // else the next heartbeat that knows the wait does it
		changed, err := l.guard.clock.clamp.run(ctx, link, l.guard.shown, clockNow.Received, max(r.Wait, clock.QuarantineOf(r.Ceiling, f.drift)), f.opts.MasterTimeout/4)
		if changed {
			l.client.waiting.allInvalidated(l.index) //mutant:keys-that-are-shortened-say-nothing
		}
		return err
	}
	return nil
}

// firstOfBeat is the beat that a master has counted.
func firstOfBeat(reply *redis.Cmd) (int64, error) {
	values, err := reply.Slice()
	if len(values) > 0 {
		if n, ok := values[0].(int64); ok {
			return n, nil
		}
	}
	if err == nil {
		err = conn.ProtocolErrorf("%v for a beat", values)
	}
	return 0, fmt.Errorf("heartbeat: %w", err)
}

// refuse takes the vote from a master that may evict keys, or whose fences are false, until the reason
// is gone (""). The connection stays, because the master is asked which leases it has lost.
func (l *lane) refuse(reason string) {
	if l.guard.refusal == reason {
		return
	}
	l.mu.Lock()
	if (l.guard.refusal == "") != (reason == "") {
		l.since = time.Now()
	}
	l.guard.refusal = reason
	l.mu.Unlock()
	if reason != "" {
		l.client.audits.suspect() //mutant:leases-not-looked-at-when-a-master-may-evict
	}
}

// refuseLocks records whether the master takes new locks. err is its reply to a SET XX of a key that no
// master has: Redis looks at memory, disk, replicas and ACL before the key, as it does for a lock.
func (l *lane) refuseLocks(err error) {
	reason := ""
	if err != nil && err != redis.Nil {
		refused := conn.AsRefusal(err)
		if !conn.IsRefused(refused) {
			refused = &conn.RefusedError{Reason: "it refuses SET: " + conn.Shorten(err).Error()}
		}
		reason = strings.TrimPrefix(refused.Error(), conn.RefusedPrefix)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if (l.guard.lockRefusal == "") != (reason == "") {
		l.since = time.Now()
	}
	l.guard.lockRefusal = reason
}

// noteMemory records how much of its memory the master uses. The log has it when little is left, and when
// that is over.
func (l *lane) noteMemory(info map[string]string) {
	used, _ := strconv.ParseInt(info["used_memory"], 10, 64)
	limit, _ := strconv.ParseInt(info["maxmemory"], 10, 64)
	l.mu.Lock()
	g := &l.guard
	g.usedMemory, g.maxMemory = used, limit
	before, low := g.memoryLogged, conn.MemoryIsLow(used, limit)
	switch {
	case g.lockRefusal != "": // that has been said, and is worse
	case low, used < limit/4*3, limit == 0: // between the two it stays what it was: one line, not many
		g.memoryLogged = low
	}
	after := g.memoryLogged
	l.mu.Unlock()
	switch {
	case after && !before:
		l.fleet.gate.Lock()
		largest := l.client.leases.largestShares(time.Now())
		l.fleet.gate.Unlock()
		l.log(slog.LevelWarn, "little memory left on a master", "used", used, "maxmemory", limit, "locks_of", largest,
			"to_do", "when it is full, it takes no new locks: raise maxmemory there, lower max_memory of the users named in locks_of, or see what else fills it (redis-cli --bigkeys)")
	case before && !after:
		l.log(slog.LevelInfo, "enough memory on a master again", "used", used, "maxmemory", limit)
	}
}

// resolve does what was found, before the next batch.
//
// Invariant: a result is kept in toResolve until the lane has acted on it, over broken connections too.
// A gain of the clock is seen once: the next connection would find the membership as it was, and a
// clock that runs.
func (l *lane) resolve(ctx context.Context, link *conn.Conn) error {
	l.mu.Lock()
	result := l.toResolve
	l.mu.Unlock()
	if result.clock.gain > 0 || result.clock.unwatched {
		l.doubtClock(result.clock)
	}
	if result.recheck || result.suspicion != "" {
		if err := l.verify(ctx, link, result.suspicion); err != nil { //mutant:a-finding-forgotten-with-its-connection
			if l.guard.refusal != "" && (strings.Contains(err.Error(), "OOM ") || errors.Is(err, survey.ErrUnsteady)) {
				// Its memory is full, so it cannot be told that it has forgotten, or evicts what it is told. It has
				// no vote, and the reason that an operator can change comes first.
				return &conn.RefusedError{Reason: l.guard.refusal}
			}
			return err
		}
	}
	if result.unresolved() {
		l.mu.Lock()
		l.toResolve = guardResult{recheck: l.guard.seenBy != l.fleet.view.Load().record} //mutant:a-record-adopted-meanwhile-is-not-looked-at
		l.mu.Unlock()
	}
	return nil
}

// What others ask of a guard.

// recheck has the lane look at what its master shows.
func (l *lane) recheck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.toResolve.recheck = true
	l.wake.Signal()
}

// hasMemory tells whether the master takes work and has this memory.
func (l *lane) hasMemory(memory string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.takesWork() && memory != "" && l.guard.memory == memory
}

// inStep tells whether the master votes under the record, or does not only because of a step of the
// membership, for stepHold at most.
func (l *lane) inStep(r *member.Record) (votes, steps bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.state.takesWork() || !l.guard.clock.good || l.guard.refusal != "":
		return false, false
	case l.guard.record == r && !l.toResolve.recheck:
		return true, false
	}
	return false, l.guard.record != nil || l.guard.changing && time.Since(l.since) < stepHold*l.fleet.opts.MasterTimeout //mutant:a-step-holds-operations-up-for-ever
}
