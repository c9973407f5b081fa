package redlock

import (
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/member/copying"
	"redlockd/redlock/quorum"
)

// Who vouches for a master's clock: for the time before this client began to read it. A clock that has
// stepped meanwhile has ended keys of locks that are valid, and shows nothing of that now. That nobody
// has reported a step proves nothing. So votes count only with a positive, fresh statement that the
// clock was in step:
//
//  1. This client has read it for one wait. No step before that matters to a lock that may be valid.
//  2. Another client states it, on that master, with its heartbeats (lua.Watch): in step as of a beat. If
//     that beat was counted after our first reading, one watch passes into the next without a gap. The
//     other client has watched the clock itself, or goes by 2 to 4. It also states the gain that it has
//     seen, because gains add up over the joint (clock.Ring.Inherit).
//  3. This client has copied to the master (member/copying), as a learner, since its first reading. Then
//     earlier steps do not matter.
//  4. Nobody watches: on a quorum of masters there is no statement of another client. Then the clock
//     counts if it agrees with our wall clock and with a majority of all (clock.Vouched). That is what
//     guarantees.md asks for: while a lock is held, some client watches. It is not enough for a clock
//     that this client has seen gain.
//
// A client that has seen a clock gain states that, too, unless all clocks show that its own machine may
// have been paused (stepped): it would keep out every client that starts then.
//
// The first reading, here, is the first one after the last gain or gap. TIME stands at the front of a
// heartbeat, and the beat is counted after it; a statement about a beat is by a TIME after its count.
//
// A voter for which nobody vouches, though the clocks of a quorum count, loses its vote by a step of the
// membership (outOfStep): it becomes a learner, and is copied to.

// statementLife is for how many heartbeats a statement counts, on the clock of its reader: the master's
// clock may be the one that has stepped. statementMax is when it is deleted, by the master's clock.
const (
	statementLife = 2
	statementMax  = time.Minute
)

// trusting is the part of clockGuard that is about who vouches for the clock.
type trusting struct {
	// first is a beat that was counted after the first reading of fresh; 0: none yet.
	first int64
	// stated is the beat up to which this client states the clock to be in step, with the next heartbeat,
	// and statedGain what it has gained by then. stated is 0 where the clock is not in step; then
	// statedGain is what it has gained, if that was no pause.
	stated     int64
	statedGain time.Duration
	// witnessed: stepped has once been true of the gain that this client has seen. The masters that have
	// shown it may step later.
	witnessed bool
	// activity is clockStatements.activity of the last heartbeat, and activeAt when it was first read.
	activity string
	activeAt time.Duration
	// answeredAt is when a heartbeat was last sent early, because another client requested a statement.
	answeredAt time.Duration
	// own is our own wall clock, read with every heartbeat.
	own clock.Ring

	// lane.mu guards what follows.

	// given is when this client began to copy to the memory givenMemory, on clock.Own.
	given       time.Duration
	givenMemory string
}

// clockStatements are what other clients state of a master's clock.
type clockStatements struct {
	// covered: a statement is about a beat above first, the one that this client has requested. gain is what
	// the clock has gained, by that statement.
	covered bool
	first   int64
	gain    time.Duration
	// watched: another client watches the clock, or that is not known, because the memory is full.
	watched bool
	// requested: another client requests a statement about a later beat than this client has stated.
	requested bool
	// padding is that of a statement, if it is not this client's; "": there is none.
	padding string
	// stored: the statement of this client is stored.
	stored bool
	// activity changes with each statement of a client that watches; "": there is none.
	activity string
}

// readStatements reads the reply to lua.Watch, which had first as an argument. A reply that is malformed
// counts as one client that watches, and covers nothing.
func readStatements(reply *redis.Cmd, first int64) clockStatements {
	values, _ := reply.Slice()
	if len(values) != 5 {
		return clockStatements{first: first, watched: true}
	}
	number := func(i int) int64 {
		n, _ := values[i].(int64)
		return n
	}
	gain, stated := values[0].(int64)
	activity, _ := values[1].(string)
	padding, _ := values[3].(string)
	return clockStatements{
		covered: stated && gain >= 0, first: first, gain: time.Duration(min(max(0, gain), math.MaxInt64/1000)) * time.Microsecond,
		watched: number(4) == 0, activity: activity, requested: number(2) != 0, padding: conn.Sanitize(padding), stored: number(4) == 1,
	}
}

// paddingOf says how keys are padded, in one word.
func paddingOf(d clock.Drift) string {
	return fmt.Sprintf("clock_step_max=%v,drift_factor=%v", d.StepMax, d.Factor)
}

// watchArgs are the ARGV of lua.Watch. first is the beat above which this client requests a statement.
func (l *lane) watchArgs(leaving bool) (args []any, first int64) {
	k, f := &l.guard.clock, l.fleet
	stated := k.stated
	switch {
	case leaving:
		stated = -1
	case k.inStep:
	case k.first > 0:
		first = k.first
	default:
		first = -1
	}
	args = []any{f.id, stated, (k.statedGain + time.Microsecond - 1).Microseconds(), first, paddingOf(f.drift), max(statementMax, statementLife*f.opts.Heartbeat).Milliseconds()}
	return args, first
}

// leave has the lane delete this client's statement from its master, and tells whether that is done, or
// cannot be. So a client that starts then need not wait until the statement is stale.
func (l *lane) leave() (done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leaving && l.state.takesWork() {
		l.leaving, l.heartbeatDue = true, true
		l.wake.Signal()
	}
	return l.left || !l.state.takesWork()
}

// begin takes the reading at the front of a heartbeat, which judge has judged, and the beat that was
// counted after it; 0: it could not be.
func (k *clockGuard) begin(front clock.Reading, beat int64, drift clock.Drift, wait time.Duration) {
	if k.same || k.inStep {
		return
	}
	if !k.fresh.Begun {
		k.fresh.Add(front, drift.Rate(), wait)
		k.first = 0
	}
	if k.first == 0 {
		k.first = beat
	}
}

// trust decides at the end of a heartbeat whether the clock is good. If it is not, trust says why. It
// returns true if there is something new to state, so that another heartbeat should follow at once. said
// is what others state there. nobody: nobodyWatches. alone: this machine's clock
// agrees with too few masters. enough: so many are connected that their clocks can be compared.
//
// Votes count only when this client's own statement is stored on the master: else another client that
// starts then could find that nobody watches.
func (k *clockGuard) trust(said clockStatements, memory string, nobody, alone, enough bool, now time.Time, own *clock.Own, drift clock.Drift, wait time.Duration) (again bool) {
	k.skew = 0
	switch given := memory != "" && k.givenMemory == memory && k.fresh.Began <= k.given; { //mutant:what-was-copied-before-vouches
	case k.good:
		return false
	case k.inStep && said.stored && k.stated > 0: //mutant:counted-before-it-is-stated
		k.good, k.gained, k.reason, k.logged = true, 0, "", false
		k.fresh, k.first = clock.Ring{}, 0
		return true
	case k.inStep: // what it gained ends no lock early any more
	case said.padding != "": //mutant:who-pads-otherwise-is-believed
		k.reason = fmt.Sprintf("another redlockd has %s, and this one %s: they must agree, because each goes by how long the keys of the other live", said.padding, paddingOf(drift))
		k.until = now.Add(wait)
		return false
	case !k.fresh.Begun:
		return false
	case k.fresh.Watched(k.last.Sent, wait): //mutant:first-sight-of-a-clock-believed
		k.ring = k.fresh
	case said.covered && said.first == k.first && said.gain+k.fresh.Plain() <= drift.StepMax: //mutant:told-of-the-ring-before
		k.ring = k.fresh
		k.ring.Inherit(said.gain, k.last, drift.Rate(), wait)
	case given, !k.ring.Begun && nobody && !said.watched && k.agrees: //mutant:a-clock-that-gained-is-vouched-for //mutant:silence-of-one-master-vouches
		k.ring = k.fresh
		k.ring.Vouch()
	default:
		again = said.covered && said.first == k.first && said.gain+clock.Noise <= drift.StepMax
		if again { // what it gained since the first reading is in what others state from now on, or was a pause of ours
			k.fresh, k.first = clock.Ring{}, 0 //mutant:what-is-left-of-a-standstill-is-a-gain
		}
		k.explain(said, alone, enough, now, own, drift, wait)
		return again
	}
	k.fresh, k.first, k.inStep = clock.Ring{}, 0, true
	return true
}

// explain says why a clock is not good.
func (k *clockGuard) explain(said clockStatements, alone, enough bool, now time.Time, own *clock.Own, drift clock.Drift, wait time.Duration) {
	k.until = now.Add(k.left(drift, wait))
	if k.ring.Begun {
		return // doubt has said so
	}
	k.gained = 0
	skew := (k.last.Offset.Low+k.last.Offset.High)/2 - own.Wall(now)
	switch {
	case said.watched:
		k.reason = "another redlockd watches its clock, and has not said yet that it is in step"
	case !enough:
		k.reason = reasonUnwatched
	case alone:
		k.skew = skew
		k.reason = fmt.Sprintf("this machine's clock agrees with too few masters (clock_skew_max); from this one's it differs by %v", clock.Roughly(-skew))
	case k.agrees:
		k.reason = "another redlockd watches other masters' clocks, and not this one's"
	default:
		k.skew = skew
		k.reason = fmt.Sprintf("its clock differs by %v from this machine's, or from too many others (clock_skew_max), and nobody has watched whether it stepped", clock.Roughly(skew))
	}
}

// trustClock decides, at the end of a heartbeat, whether the master's clock is good, and has those
// lanes look again whose masters' clocks this one vouches for. beat is what the heartbeat has counted;
// 0: it could not.
func (l *lane) trustClock(said clockStatements, beat int64) {
	k, f := &l.guard.clock, l.fleet
	if k.same {
		return
	}
	now, wait := time.Now(), f.view.Load().wait
	if at := f.own.At(now); said.activity != k.activity {
		k.activity, k.activeAt = said.activity, at
	} else if at-k.activeAt > statementLife*f.opts.Heartbeat+2*(k.last.Received-k.last.Sent) { // stale, also of a client as far away as we are
		said.activity, said.padding = "", "" //mutant:who-is-gone-is-waited-for
	}
	said.watched = said.watched || said.activity != "" //mutant:what-a-step-has-aged-is-forgotten
	l.mu.Lock()
	k.wall, k.known, k.watched, k.asked = k.last.Offset, true, said.watched, k.last.Sent
	k.began = k.ring.Began
	if !k.inStep {
		if k.began = k.fresh.Began; !k.fresh.Begun {
			k.began = f.own.At(now)
		}
	}
	wall := f.own.Reading(now)
	k.ownGain = k.own.Gain(wall, 0)
	k.own.Add(wall, 0, wait)
	l.mu.Unlock()
	agreeing, enough := f.vouched(now)
	nobody, stale := false, []*lane(nil)
	if !k.good {
		nobody, stale = f.nobodyWatches(l)
	}
	stepped := k.witnessed || f.stepped(l, 1) //mutant:a-witness-that-steps-has-shown-nothing
	l.mu.Lock()
	k.agrees, k.copiedBeat = agreeing.Has(l.index), l.guard.beat
	if k.trust(said, l.guard.memory, nobody, agreeing == 0, enough, now, f.own, f.drift, wait) {
		switch {
		case k.good:
			l.since = now
		case beat > 0 && k.stated == 0: // there is a first statement. A full memory stores none, and is not asked again at once
			l.heartbeatDue = true //mutant:what-is-known-is-told-a-heartbeat-later
		}
	}
	k.witnessed = stepped && k.gained > 0
	k.took, k.offset = k.last.Received-k.last.Sent, (k.last.Offset.Low+k.last.Offset.High)/2-f.own.Wall(now)
	k.copied, k.vouched = k.ring, k.inStep
	if !k.inStep {
		k.copied = k.fresh
	}
	k.stated, k.statedGain = 0, 0
	if k.inStep {
		k.stated, k.statedGain = beat, max(0, k.ring.Gain(k.last, f.drift.Rate()))
	} else if stepped || k.gained > 0 && k.last.Sent-k.found < 2*f.opts.Heartbeat { // by then all masters have been asked //mutant:a-gain-is-not-told-before-all-were-asked
		k.statedGain = k.gained
	}
	if said.requested && k.stated > 0 && k.last.Sent-k.answeredAt >= f.opts.Heartbeat/5 { //mutant:who-asks-waits-for-a-heartbeat
		l.heartbeatDue, k.answeredAt = true, k.last.Sent
	}
	l.mu.Unlock()
	if !k.good && !k.inStep && k.agrees {
		for _, other := range stale {
			if other.clockView().asked < k.last.Sent { // else two lanes could ask each other without end
				other.requestHeartbeat()
			}
		}
	}
	for _, other := range f.view.Load().masters {
		if other != l && agreeing.Has(other.index) && other.unvouched() {
			if nobody, _ := f.nobodyWatches(other); nobody {
				other.requestHeartbeat()
			}
		}
	}
	if f.outOfStep(l) != "" {
		f.coordinator.Wake()
	}
}

// unvouched tells whether nobody vouches for the clock, and no other client watches it.
func (l *lane) unvouched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.guard.clock
	return !k.good && !k.vouched && !l.leaving && k.gained == 0 && !k.watched
}

// askAgainLocked has the lane send heartbeats more often while another client may vouch for the clock.
// The watchdog calls it at every tick.
func (l *lane) askAgainLocked(now time.Time) {
	k := &l.guard.clock
	if l.state == laneIdle && !k.good && k.watched && l.fleet.own.At(now)-k.asked >= l.fleet.opts.Heartbeat/5 {
		l.heartbeatDue = true
		l.wake.Signal()
	}
}

// doubtClock has the master's votes count no more, after a gain or a time in which nobody watched its
// clock. At a gain all masters are asked for their time: if all gained, this machine may have been
// paused.
func (l *lane) doubtClock(found clockResult) {
	k, f, now := &l.guard.clock, l.fleet, time.Now()
	l.mu.Lock()
	gained := k.doubt(found, now, f.own, f.drift, f.view.Load().wait)
	l.since = now
	l.heartbeatDue = true // the next one begins the fresh ring
	l.mu.Unlock()
	if gained {
		l.client.audits.suspect() //mutant:leases-not-looked-at-when-a-clock-steps
		for _, other := range f.view.Load().masters {
			other.requestHeartbeat()
		}
	}
}

// What the copies and steps of the membership ask.

// source is what is known of the master's clock before a copy: its readings, or nil if it is this
// process's clock, and the beat. good tells that its votes count here, and read that there are
// readings.
func (l *lane) source() (s copying.Source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.guard.clock
	s = copying.Source{Beat: k.copiedBeat, Good: k.good && l.guard.refusal == "", Refused: l.guard.refusal != "", Read: k.same || k.copied.Begun} //mutant:a-source-whose-clock-is-doubted
	if !k.same {
		copied := k.copied
		s.Ring = &copied
	}
	return s
}

// saw tells the lane of a reading of a copy that shows a gain of the process with this run_id. The next
// heartbeat acts on it. If another process is at the address by now, nobody counts what the gain has
// ended early, because that memory is gone.
func (l *lane) saw(runID string, now clock.Reading) {
	l.mu.Lock()
	same := l.identity.RunID == runID //mutant:the-gain-of-a-process-that-is-gone-doubts-the-next
	if k := &l.guard.clock; same && len(k.reported) < quorum.MaxMasters {
		k.reported = append(k.reported, now)
	}
	l.mu.Unlock()
	if same {
		l.requestHeartbeat()
	}
}

// takeReported are the readings of copies that no heartbeat has judged.
func (l *lane) takeReported() (readings []clock.Reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	readings, l.guard.clock.reported = l.guard.clock.reported, nil
	return readings
}

// gave tells the lane that this client has given the memory what others remember, beginning at that
// time on clock.Own.
func (l *lane) gave(memory string, since time.Duration) {
	l.mu.Lock()
	l.guard.clock.given, l.guard.clock.givenMemory = since, memory
	l.mu.Unlock()
	l.requestHeartbeat()
}

func (l *lane) clockView() clockView {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.guard.clock.clockView
}

// clockAgrees tells whether the master's clock agreed with ours and with a majority at the last
// heartbeat.
func (l *lane) clockAgrees() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.guard.clock.same || l.guard.clock.agrees
}

// vouched are the masters whose clocks agree with ours and a majority. enough tells that so many are
// connected that all that agree with our clock could be.
func (f *fleet) vouched(now time.Time) (good quorum.Mask, enough bool) {
	v := f.view.Load()
	offsets, known := make([]clock.Interval, v.Places), quorum.Mask(0)
	for _, l := range v.masters {
		if k := l.clockView(); k.known {
			offsets[l.index], known = k.wall, known.With(l.index)
		}
	}
	return clock.Vouched(f.own.Wall(now), offsets, known, v.Count, f.opts.ClockSkewMax), known.Count() >= v.Quorum()
}

// nobodyWatches tells whether there is no statement of another client on a quorum of masters, each read
// after the first reading of this master's clock: a client that counted its votes before that has its
// statement stored by then. stale are the masters whose statements were read too early.
func (f *fleet) nobodyWatches(of *lane) (nobody bool, stale []*lane) {
	began := of.clockView().began
	silent, v := 0, f.view.Load()
	for _, l := range v.masters {
		switch k := l.clockView(); {
		case !k.known || k.watched:
		case l != of && k.asked < began: //mutant:an-old-look-says-that-nobody-watches
			stale = append(stale, l)
		default:
			silent++
		}
	}
	return silent >= v.Quorum(), stale //mutant:silence-of-a-minority-vouches
}

// stepped tells whether a clock that gained stepped, or runs too fast; false: as far as is known, this
// machine was paused. It was no pause if
//   - the clocks of so many other masters, witnesses, did not gain meanwhile, and were read fast enough to
//     show it. That they had gained before does not matter, nor whether their votes count;
//   - our wall clock gained on our monotonic one, too: a pause stops both. So the clocks stepped, and
//     ours with them;
//   - the master's clock agrees with our wall clock now, and did not before: a pause would have left
//     ours behind.
//
// Where somebody sets the wall clock right after a pause, as tools of a hypervisor do, clocks that are
// right are taken for stepped. And a gain is taken for a pause if it is less than clock_skew_max, of all
// masters together, and our wall clock was right; or if it is so small that no other master answers
// fast enough.
func (f *fleet) stepped(l *lane, witnesses int) bool {
	k := l.clockView()
	if k.gained == 0 {
		return false
	}
	for _, other := range f.view.Load().masters {
		o := other.clockView()
		throughout := o.began < k.before && o.found < k.before && o.asked > k.found //mutant:a-clock-that-gained-too-is-a-witness //mutant:a-clock-that-was-not-asked-is-a-witness
		// A pause shows there as its length less what the answers took, now and before.
		couldShow := 2*o.took+f.opts.ClockStepMax < k.gained //mutant:a-far-clock-is-a-witness
		if throughout && couldShow {
			witnesses--
		}
	}
	intoAgreement := k.offset.Abs() <= f.opts.ClockSkewMax && (k.offset-k.gained).Abs() > f.opts.ClockSkewMax
	return witnesses <= 0 || intoAgreement || k.ownGain > clock.Noise //mutant:clocks-that-stepped-to-ours-are-not-told-of //mutant:clocks-that-stepped-with-ours-are-not-told-of
}

// outOfStepFor is for how long a clock must keep votes from counting before a step of the membership takes
// the vote. A copy takes about a second.
const outOfStepFor = 2 * time.Second

// outOfStep says why the clock of a master keeps its votes from counting here, if that is for longer
// than a copy takes while the votes of a quorum of the others count; "": it does not. Either it gained,
// and a quorum of the others show that this machine was not paused; or no other client watches it.
// Then a step of the membership has it copied to. No lock depends on this decision, so any client
// may take it.
func (f *fleet) outOfStep(l *lane) string {
	k, now, v := l.clockView(), f.own.At(time.Now()), f.view.Load()
	good, left, reason := l.doubted()
	if good || left <= outOfStepFor || !k.known {
		return ""
	}
	others := 0
	for _, other := range v.masters {
		if other.mayVote() { // l does not
			others++
		}
	}
	switch {
	case others < v.Quorum(): //mutant:a-vote-that-is-needed-is-taken
		return ""
	case f.stepped(l, v.Quorum()): //mutant:a-step-that-one-master-disproves-takes-a-vote
		return reason
	case k.gained == 0 && !k.watched && now-k.began >= outOfStepFor: //mutant:a-clock-that-is-spoken-for-is-out-of-step
		return reason
	}
	return ""
}

// doubted tells whether the clock is good, and else for how long it is not at most, and why.
func (l *lane) doubted() (good bool, left time.Duration, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.guard.clock
	return k.good || !l.state.takesWork(), time.Until(k.until), k.reason
}
