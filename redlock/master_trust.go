package redlock

import (
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/member"
	"redlockd/redlock/quorum"
)

// Who vouches for a master's clock: for the time before this client began to read it. A clock that has
// stepped meanwhile has ended keys of locks that are valid, and shows nothing of that now. That nobody
// has said so proves nothing. So votes count only where somebody who can know says now that the clock
// is in step:
//
//  1. This client has read it for one wait. Whatever the clock did before that ended no lock early that
//     may still be valid.
//  2. Another client says so, on that master, with its heartbeats (lua.Watch): that it was in step as of
//     a beat. If that beat was counted after our first reading, one watch passes into the next without a
//     gap. The other one has watched the clock itself, was told so, or goes by 4. It also says what the
//     clock has gained, for gains add up over the joint (clock.Ring.Tell).
//  3. This client has given the master what the others remember (member/copy.go), as a learner, since
//     its first reading. Then it does not matter what the clock did before.
//  4. Nobody can know: on a quorum of masters nobody says whether their clocks are in step. Then the
//     clock counts if it agrees with our wall clock and with a majority of all (clock.Vouched). That is
//     what guarantees.md asks for: while a lock is held, somebody watches. It is not enough for a clock
//     that this client has seen gain.
//
// Who has seen a clock gain says so, too, unless that may have been a pause of its own machine, as soon as
// all masters were asked: it would keep everybody out who starts then (stepped).
//
// A first reading, here, is the first one after the last gain or gap. A master is told of that by the
// beat that is counted behind it: TIME stands at the front of the heartbeat, the count behind that, and
// what is said of a beat is by a TIME behind its count.
//
// A voter that nobody vouches for although others could is no voter for long (outOfStep): a step of the
// membership makes it a learner, which is given what the others remember.

// keepSaid is for how long counts what a client says of a clock, in heartbeats, on the clock of who reads
// it: the master's may be what has stepped. forgetSaid is after how long it goes, by the master's.
const (
	keepSaid   = 2
	forgetSaid = time.Minute
)

// trusting is the part of clockGuard that is about who vouches for the clock.
type trusting struct {
	// first is a beat that was counted behind the first reading of fresh; 0: none yet.
	first int64
	// knows is the beat up to which this client knows the clock to be in step, and used what it has gained
	// by then, for the next heartbeat to say. knows is 0 where it does not; then used is what it has seen
	// the clock gain, if that was no pause.
	knows int64
	used  time.Duration
	// text is saidOfClock.text of the last heartbeat, and heard when it was first read.
	text  string
	heard time.Duration
	// hurried is when a heartbeat was last sent at once because another client asked.
	hurried time.Duration
	// own is our own wall clock, read with every heartbeat.
	own clock.Ring

	// lane.mu guards what follows.

	// given is when this client began to give the memory what others remember, on clock.Own.
	given       time.Duration
	givenMemory string
}

// saidOfClock is what other clients say of a master's clock.
type saidOfClock struct {
	// told: one that knows vouches for the time before the beat first, by which this client has asked. used
	// is what the clock has gained by its account.
	told  bool
	first int64
	used  time.Duration
	// speaks: one knows whether the clock is in step, or that cannot be told: the memory is full.
	speaks bool
	// asks: one wants to be told of a beat that is later than what this client has said it knows.
	asks bool
	// padding is that of one that knows, if it is not this client's; "": there is none.
	padding string
	// kept: what this client has said is there.
	kept bool
	// text is another one when one who knows has said something more; "": nobody has said anything.
	text string
}

// saidOf reads the reply to lua.Watch, which was asked with first. What cannot be read says that somebody
// may know, and tells nothing.
func saidOf(reply *redis.Cmd, first int64) saidOfClock {
	values, _ := reply.Slice()
	if len(values) != 5 {
		return saidOfClock{speaks: true}
	}
	number := func(i int) int64 {
		n, _ := values[i].(int64)
		return n
	}
	text, _ := values[1].(string)
	padding, _ := values[3].(string)
	return saidOfClock{
		told: number(0) >= 0, first: first, used: time.Duration(min(max(0, number(0)), math.MaxInt64/1000)) * time.Microsecond,
		speaks: number(4) == 0, text: text, asks: number(2) != 0, padding: conn.Sanitize(padding), kept: number(4) == 1,
	}
}

// paddingOf says how keys are padded, in one word.
func paddingOf(d clock.Drift) string {
	return fmt.Sprintf("clock_step_max=%v,drift_factor=%v", d.StepMax, d.Factor)
}

// watchArgs are the ARGV of lua.Watch. first is the beat above which this client wants to be told.
func (l *lane) watchArgs(leaving bool) (args []any, first int64) {
	k, f := &l.guard.clock, l.fleet
	knows := k.knows
	switch {
	case leaving:
		knows = -1
	case k.inStep:
	case k.first > 0:
		first = k.first
	default:
		first = -1
	}
	args = []any{f.id, knows, (k.used + time.Microsecond - 1).Microseconds(), first, paddingOf(f.drift), max(forgetSaid, keepSaid*f.opts.Heartbeat).Milliseconds()}
	return args, first
}

// leave has the lane tell its master that this client says nothing more of its clock, and tells whether
// that is done, or cannot be: a client that starts need not wait until it is forgotten.
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
// counted behind it; 0: it could not be.
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
// returns true if there is something new, so that another heartbeat should follow at once. said is what
// others say there. nobody: on a quorum of masters nobody says anything. alone: this machine's clock
// agrees with too few masters. enough: so many are connected that their clocks can be compared.
//
// Votes count only when the master has been told that this client knows its clock to be in step: else
// another one that starts then could think that nobody watches.
func (k *clockGuard) trust(said saidOfClock, memory string, nobody, alone, enough bool, now time.Time, own *clock.Own, drift clock.Drift, wait time.Duration) (again bool) {
	k.skew = 0
	switch given := memory != "" && k.givenMemory == memory && k.fresh.Began <= k.given; { //mutant:what-was-copied-before-vouches
	case k.good:
		return false
	case k.inStep && said.kept && k.knows > 0: //mutant:counted-before-others-are-told
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
	case said.told && said.first == k.first && said.used+k.fresh.Plain() <= drift.StepMax: //mutant:told-of-the-ring-before
		k.ring = k.fresh
		k.ring.Tell(said.used, k.last, drift.Rate(), wait)
	case given, !k.ring.Begun && nobody && !said.speaks && k.agrees: //mutant:a-clock-that-gained-is-vouched-for //mutant:silence-of-one-master-vouches
		k.ring = k.fresh
		k.ring.Vouch()
	default:
		k.doubts(said, alone, enough, now, own, drift, wait)
		return false
	}
	k.fresh, k.first, k.inStep = clock.Ring{}, 0, true
	return true
}

// doubts says why a clock is not good.
func (k *clockGuard) doubts(said saidOfClock, alone, enough bool, now time.Time, own *clock.Own, drift clock.Drift, wait time.Duration) {
	k.until = now.Add(k.left(drift, wait))
	if k.ring.Begun {
		return // doubt has said so
	}
	k.gained = 0
	skew := (k.last.Offset.Low+k.last.Offset.High)/2 - own.Wall(now)
	switch {
	case said.speaks:
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
func (l *lane) trustClock(said saidOfClock, beat int64) {
	k, f := &l.guard.clock, l.fleet
	if k.same {
		return
	}
	now, wait := time.Now(), f.view.Load().wait
	if at := f.own.At(now); said.text != k.text {
		k.text, k.heard = said.text, at
	} else if at-k.heard > keepSaid*f.opts.Heartbeat+2*(k.last.Received-k.last.Sent) { // who said it is gone; it may be as far as we are
		said.text, said.padding = "", "" //mutant:who-is-gone-is-waited-for
	}
	said.speaks = said.speaks || said.text != "" //mutant:what-a-step-has-aged-is-forgotten
	l.mu.Lock()
	k.wall, k.known, k.speaks, k.asked = k.last.Offset, true, said.speaks, k.last.Sent
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
	nobody, looks := false, []*lane(nil)
	if !k.good {
		nobody, looks = f.nobodySpeaks(l)
	}
	stepped := f.stepped(l, 1)
	l.mu.Lock()
	k.agrees, k.copiedBeat = agreeing.Has(l.index), l.guard.beat
	if k.trust(said, l.guard.memory, nobody, agreeing == 0, enough, now, f.own, f.drift, wait) {
		switch {
		case k.good:
			l.since = now
		case beat > 0 && k.knows == 0: // the next heartbeat has something new to say. A full memory keeps nothing of it
			l.heartbeatDue = true //mutant:what-is-known-is-told-a-heartbeat-later
		}
	}
	k.took, k.offset = k.last.Received-k.last.Sent, (k.last.Offset.Low+k.last.Offset.High)/2-f.own.Wall(now)
	k.copied, k.vouched = k.ring, k.inStep
	if !k.inStep {
		k.copied = k.fresh
	}
	k.knows, k.used = 0, 0
	if k.inStep {
		k.knows, k.used = beat, max(0, k.ring.Gain(k.last, f.drift.Rate()))
	} else if stepped || k.gained > 0 && k.last.Sent-k.found < 2*f.opts.Heartbeat { // by then all have been asked //mutant:a-gain-is-not-told-before-all-were-asked
		k.used = k.gained
	}
	if said.asks && k.knows > 0 && k.last.Sent-k.hurried >= f.opts.Heartbeat/5 { // it may be a client that starts //mutant:who-asks-waits-for-a-heartbeat
		l.heartbeatDue, k.hurried = true, k.last.Sent
	}
	l.mu.Unlock()
	if !k.good && !k.inStep && k.agrees {
		for _, other := range looks {
			other.requestHeartbeat()
		}
	}
	for _, other := range f.view.Load().masters {
		if other != l && agreeing.Has(other.index) && other.unvouched() {
			if nobody, _ := f.nobodySpeaks(other); nobody {
				other.requestHeartbeat()
			}
		}
	}
	if f.outOfStep(l) != "" {
		f.coordinator.Wake()
	}
}

// unvouched tells whether nobody vouches for the clock, and nobody who has watched it is there.
func (l *lane) unvouched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.guard.clock
	return !k.good && !k.vouched && !l.leaving && k.gained == 0 && !k.speaks
}

// askAgainLocked has the lane send a heartbeat sooner than others where somebody else may vouch for the
// clock. The watchdog calls it at every tick.
func (l *lane) askAgainLocked(now time.Time) {
	k := &l.guard.clock
	if l.state == laneIdle && !k.good && k.speaks && l.fleet.own.At(now)-k.asked >= l.fleet.opts.Heartbeat/5 {
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
func (l *lane) source() (s member.Source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.guard.clock
	s = member.Source{Beat: k.copiedBeat, Good: k.good && l.guard.refusal == "", Read: k.same || k.copied.Begun} //mutant:a-source-whose-clock-is-doubted
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

// nobodySpeaks tells whether nobody else says on a quorum of masters that it knows whether their clocks
// are in step, as of a moment after the first reading of this one's clock: who began to count its votes
// before would be heard by then. looks are the masters that have to be asked once more for that.
func (f *fleet) nobodySpeaks(of *lane) (nobody bool, looks []*lane) {
	began := of.clockView().began
	silent, v := 0, f.view.Load()
	for _, l := range v.masters {
		switch k := l.clockView(); {
		case !k.known || k.speaks:
		case l != of && k.asked < began: //mutant:an-old-look-says-that-nobody-watches
			looks = append(looks, l)
		default:
			silent++
		}
	}
	return silent >= v.Quorum(), looks //mutant:silence-of-a-minority-vouches
}

// stepped tells whether a clock that gained stepped, or runs too fast; false: as far as is known, this
// machine was paused. It was no pause if
//   - the clocks of so many other masters, witnesses, whose votes count here, did not gain meanwhile, and
//     were read fast enough to show it;
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
		if throughout && couldShow && other.mayVote() {      //mutant:a-pause-of-ours-takes-votes
			witnesses--
		}
	}
	intoAgreement := k.offset.Abs() <= f.opts.ClockSkewMax && (k.offset-k.gained).Abs() > f.opts.ClockSkewMax
	return witnesses <= 0 || intoAgreement || k.ownGain > clock.Noise //mutant:clocks-that-stepped-to-ours-are-not-told-of //mutant:clocks-that-stepped-with-ours-are-not-told-of
}

// outOfStepFor is how long votes must be without account because of a clock before a step of the
// membership ends that. A copy takes about a second.
const outOfStepFor = 2 * time.Second

// outOfStep says why the clock of a master keeps its votes from counting here, if that is for longer
// than a copy takes while the votes of a quorum of the others count; "": it does not. Either it gained,
// and a quorum of the others show that this machine was not paused; or nobody has spoken for it for a
// while. Then a step of the membership has it copied to. No lock depends on this decision, so any client
// may take it.
func (f *fleet) outOfStep(l *lane) string {
	k, now, v := l.clockView(), f.own.At(time.Now()), f.view.Load()
	good, left, reason := l.doubted()
	if good || left <= outOfStepFor || !k.known {
		return ""
	}
	others := 0
	for _, other := range v.masters {
		if other != l && other.mayVote() {
			others++
		}
	}
	switch {
	case others < v.Quorum(): //mutant:a-vote-that-is-needed-is-taken
		return ""
	case k.gained > 0 && f.stepped(l, v.Quorum()): //mutant:a-step-that-one-master-disproves-takes-a-vote
		return reason
	case k.gained == 0 && !k.speaks && now-k.began >= outOfStepFor: //mutant:a-clock-that-is-spoken-for-is-out-of-step
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
