package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/loglimit"
	"redlockd/redlock/quorum"
)

// coordinator keeps the membership of a client: it finds out which record is in force, tells masters that do not know it, and brings about
// the steps that are due. It is one goroutine, which looks at all masters again and again (look): when a lane has found something, when a wait
// ends, and twice within the time in which every address must be made sure of. All clients of the same masters do the same, and any of
// them may be killed at any point: what it has begun another one finishes.
type coordinator struct {
	host Host
	opts memberOptions
	own  *clock.Own
	log  loglimit.Limiter // of lines about the membership
	// ending is over when the client is closed, which waits for running.
	ending  context.Context
	running *sync.WaitGroup
	// poked is signalled by poke, to have the coordinator look soon.
	poked    chan struct{}
	requests chan *memberRequest
	born     time.Time // of the client

	// Owned by the goroutine.
	pauses    map[int]reseatPause
	foundable time.Time      // since when a founding is allowed; zero: it is not
	quorumAt  time.Time      // when a quorum of the masters last showed the record in force
	strays    map[int]string // what masters showed at the last look that a majority did not know, by place
	elsewhere time.Time      // since when a listed memory is heard by others and another one is found here; zero: it is not so
	request   *memberRequest

	// recoveries are the copies to learners, by the number of the seat. mu guards what others read.
	recoveries map[int]*recovery

	// mu guards what follows. Only the goroutine writes.
	mu sync.Mutex
	// record is the one in force, as far as is known here. Nil: none.
	record *record
	// settled: since it was adopted, a quorum has shown nothing newer, and nothing that is not finished.
	settled bool
	// watches are the waits that run under the record, by the names of their timers.
	watches map[string]*watch
	// due is when a wait is over, as the last survey found, by the name of the timer.
	due map[string]time.Time
	// problem is why the membership is not as it should be; "": it is, or nothing is known against it.
	problem string
	// problemEnds is when it is over, if nothing else happens; zero: not known.
	problemEnds time.Time
}

// reseatPause keeps a master that restarts again and again from changing the record each time.
type reseatPause struct {
	until time.Time
	next  time.Duration
}

// Host is what the coordinator needs of the engine. The number of a seat is its place there.
type Host interface {
	// Places are the masters in use.
	Places() map[int]conn.Master
	// Answering is how many of them answer in time.
	Answering() int
	// Adopt makes a record the one in force. Votes count by it from then on.
	Adopt(r *record)
	// Recheck has all connections look at what their masters show.
	Recheck()
	// Confirm says which process was behind the address of a place, on a connection that was begun at that time.
	Confirm(place int, runID string, at time.Time)
	// Source is what is known of the clock of a voter, and its beat, before it is copied from; a nil ring: its clock is this process's. ok is false if
	// its votes do not count here because of the clock, or because it may evict keys.
	Source(place int) (ring *clock.Ring, beat int64, ok bool)
	// Gained says that the clock of a source has gained so much since a time on clock.Own.
	Gained(place int, gain, before time.Duration)
	// Copied counts a copy that was made.
	Copied()
}

func newCoordinator(host Host, opts memberOptions, own *clock.Own, ending context.Context, running *sync.WaitGroup) *coordinator {
	return &coordinator{host: host, opts: opts, own: own, log: loglimit.Limiter{Interval: opts.LogInterval, Burst: opts.LogBurst}, ending: ending, running: running, poked: make(chan struct{}, 1), requests: make(chan *memberRequest), born: time.Now(),
		pauses: make(map[int]reseatPause), recoveries: make(map[int]*recovery), watches: make(map[string]*watch), due: make(map[string]time.Time)}
}

// poke has the coordinator look soon.
func (m *coordinator) poke() {
	select {
	case m.poked <- struct{}{}:
	default:
	}
}

// run is the goroutine.
func (m *coordinator) run() {
	ctx := m.ending
	timer := time.NewTimer(leastTimer)
	defer timer.Stop()
	for {
		requests := m.requests
		if m.request != nil { //mutant:a-change-pushes-out-another
			requests = nil // one after the other
		}
		select {
		case <-timer.C:
		case <-m.poked:
		case m.request = <-requests:
		case <-ctx.Done():
			return
		}
		if m.request != nil && m.request.caller.Err() != nil { //mutant:a-change-that-was-given-up-is-made
			m.request = nil // nobody must be surprised by it later
		}
		again := m.look(ctx)
		// What a look has changed, lanes ask it to look at. They need not be told one by one.
		select {
		case <-time.After(lookPause):
		case <-ctx.Done():
			return
		}
		timer.Reset(max(again-lookPause, leastTimer))
	}
}

// heardWithin is for how many heartbeats a memory counts as heard by another client.
const heardWithin = 2

// lookPause is the least time between two looks at the masters.
const lookPause = 5 * time.Millisecond

// leastTimer is the shortest time that the goroutine's timer is set to. With 0 the timer would be due at once, and with Go 1.26 two
// goroutines that find that at the same moment of testing/synctest crash the race detector.
const leastTimer = time.Nanosecond

// places are the masters to ask, by place.
func (m *coordinator) places() map[int]conn.Master {
	return m.host.Places()
}

// placesOf are the masters of a record.
func (m *coordinator) placesOf(r *record) map[int]conn.Master {
	places := make(map[int]conn.Master)
	for i := range r.seats {
		places[r.seats[i].number] = m.opts.masterAt(r.seats[i].name, r.seats[i].addr)
	}
	return places
}

// look asks all masters, does what follows, and returns when to look again.
func (m *coordinator) look(ctx context.Context) time.Duration {
	o := m.opts
	needed, wait := quorum.Of(len(o.Masters)), clock.QuarantineOf(o.MaxTTL, o.Drift)
	if r := m.record; r != nil {
		needed, wait = r.quorum(), max(r.wait, clock.QuarantineOf(r.maxTTL, o.Drift))
	}
	places := m.places()
	// A master that stays connected but takes no new connection must not keep the addresses of the others from being made sure of in time.
	patience := patience{enough: max(needed, m.host.Answering()), grace: surveyGrace, fewer: needed, late: recheckWithin(wait) / 4} //mutant:a-master-that-hangs-holds-up-the-others
	if m.request != nil {                                                                                                           //mutant:a-change-is-judged-by-the-first-answers
		patience.enough = len(places) // the votes that a change leaves are counted
	}
	if m.record == nil { //mutant:a-start-is-judged-by-the-first-answers
		patience.enough, patience.fewer = len(places), 0 // who answers last may belong to another fleet than the first
	}
	patience.answered = func(s *survey, f *found) (done bool) {
		m.confirm(s, f)
		if m.record == nil {
			_, most := s.best(func(*record) bool { return true })
			return 2*most > len(places)
		}
		return s.successor(m.record) != nil // until it is followed, no vote counts //mutant:a-step-is-followed-when-all-have-answered
	}
	s := surveyMasters(ctx, places, patience, o)
	defer s.close()
	next, wrong := m.follow(ctx, s)
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if next != nil {
		m.adopt(next, nil)
		for _, timer := range timersOf(next, m.opts.Drift) {
			m.left(s, timer)
		}
		return 0
	}
	if wrong != "" {
		m.foundable = time.Time{}
		return m.foundLater(wrong)
	}
	r := m.record
	if r == nil || !s.inForce(r) {
		if r != nil {
			if s.teachUntaught(ctx, r) > 0 {
				return 0
			}
		}
		base := s.remains(r)
		if base != r {
			s.close()
			s = surveyMasters(ctx, m.placesOf(base), patienceForAll(base), o)
			defer s.close()
		}
		return m.found(ctx, s, base)
	}
	m.foundable, m.quorumAt = time.Time{}, s.began
	if s.teachUntaught(ctx, r) > 0 { // who is behind cannot promise anything, and would count as silent //mutant:who-is-behind-counts-as-silent
		m.host.Recheck()
	}
	acceptors := s.acceptors(r)
	if s.unfinished(r) {
		// Where there is nothing to finish, because what was accepted cannot have been chosen, a child without a change ends it.
		return m.propose(ctx, s, r, acceptors, r.quorum(), decision{child: r.child().seal()})
	}
	m.settle()
	strays := m.repeatedStrays(s, r)
	for _, f := range strays {
		if s.began.Before(m.pauses[f.place].until) { //mutant:a-master-that-lies-keeps-everybody-busy
			continue
		}
		m.pauseReseat(f.place, r.wait)
		if nameMemory(ctx, f.conn, f.v, newMemory(f.runID), "it showed "+f.state.record.String()+", which a majority does not know") == nil {
			return 0
		}
	}
	m.recover(s, r)
	n := &situation{record: r, survey: s, left: func(timer string) time.Duration { return m.left(s, timer) },
		recovered: func(one *seat) (string, bool) { return m.recovered(s, r, one) },
		patience:  heardWithin * o.Heartbeat, paused: func(place int) bool { return s.began.Before(m.pauses[place].until) },
		wall: m.own.Date(time.Now()), skew: o.ClockSkewMax, drift: m.opts.Drift}
	d := n.next()
	problem := d.problem
	if m.request != nil {
		if asked, done := m.request.decide(ctx, n); done {
			m.request = nil
		} else if asked.child != nil {
			d, d.asked = asked, true
		}
	}
	m.setProblem(cmp.Or(problem, m.complaint(s, r, strays)))
	if d.child == nil {
		return m.pause(n)
	}
	d.child.seal()
	if err := checkChild(r, d.child); err != nil {
		m.setProblem(err.Error())
		m.refuseRequest(err)
		return m.pause(n)
	}
	if !m.raiseFloors(ctx, n, &d) {
		return o.Heartbeat
	}
	return m.propose(ctx, s, r, acceptors, r.quorum(), d)
}

// repeatedStrays are the strays that showed the same at the survey before. One survey proves nothing: steps
// may be made while it runs. What a master shows in two was not chosen between them, because the others have
// accepted nothing.
func (m *coordinator) repeatedStrays(s *survey, r *record) (list []*found) {
	before := m.strays
	m.strays = make(map[int]string)
	for _, f := range s.strays(r) {
		m.strays[f.place] = f.v
		if before[f.place] == f.v { //mutant:a-stray-is-judged-by-one-survey
			list = append(list, f)
		}
	}
	return list
}

// follow returns the record to go on to; nil: there is none, and this client stays with the one that it has, if any. wrong says why it must not
// go by any.
func (m *coordinator) follow(ctx context.Context, s *survey) (next *record, wrong string) {
	own := m.record
	if own != nil {
		if next := s.successor(own); next != nil || s.inForce(own) { //mutant:a-proxy-that-slept-does-not-search
			return next, ""
		}
	}
	next, wrong = m.join(ctx, s)
	if own == nil && next != nil {
		if wrong = m.opts.otherDB(next); wrong != "" {
			next = nil
		}
	}
	return next, wrong
}

// join finds the record in force as a client does that starts: what the masters show that are known here leads to it. The masters that
// those records name are asked, for the settings, or the record that this client has seen last, may be older than the membership.
//
// A client that has a record keeps to its fleet as long as one master shows that. Where all have forgotten it, and another client has founded
// another one with them, this client follows.
func (m *coordinator) join(ctx context.Context, s *survey) (best *record, wrong string) {
	o, own, most := m.opts, m.record, 0
	fleet, wrong := s.fleet(o)
	leads := s.settled()
	var match func(r *record) bool
	if own != nil && (fleet == "" || fleet == own.fleet() || s.shows(own.fleet())) { //mutant:a-client-leaves-its-fleet
		match, most = func(r *record) bool { return r.follows(own) }, len(s.acceptors(own))
		named := surveyMasters(ctx, o.places(), patience{enough: len(o.Masters), grace: surveyGrace}, o)
		leads = append(leads, named.settled()...)
		named.close()
	} else if fleet == "" {
		return nil, wrong
	} else {
		match = func(r *record) bool { return r.fleet() == fleet }
		if best, most = s.best(match); 2*most > len(s.found) {
			return best, ""
		}
	}
	asked := make(map[string]bool)
	for _, r := range leads {
		if asked[r.digest] || !match(r) {
			continue
		}
		asked[r.digest] = true
		wider := surveyMasters(ctx, m.placesOf(r), patienceForAll(r), o)
		if one, n := wider.best(match); n > most {
			best, most = one, n
		}
		wider.close()
	}
	return best, ""
}

// patienceForAll is for a survey of the masters of a record.
func patienceForAll(r *record) patience { return patience{enough: r.quorum(), grace: surveyGrace} }

// places are the masters that the options name, in their order.
func (o memberOptions) places() map[int]conn.Master {
	places := make(map[int]conn.Master)
	for i, m := range o.Masters {
		places[i] = m
	}
	return places
}

// pause is how long nothing has to be done, as far as is known now.
func (m *coordinator) pause(n *situation) time.Duration {
	pause := recheckWithin(n.record.wait) / 2
	for _, timer := range timersOf(n.record, n.drift) {
		if left := m.left(n.survey, timer); left > 0 {
			pause = min(pause, left-time.Since(n.survey.began))
		} else {
			pause = min(pause, m.opts.Heartbeat) // what it waits for is not reached, or paused
		}
	}
	for i := range n.record.seats {
		s := &n.record.seats[i]
		if f := n.survey.at(s.number); s.state != seatLeaving && f != nil && f.ok() && f.state.memory != s.memory {
			pause = min(pause, m.opts.Heartbeat)
		}
	}
	for _, one := range m.recoveries {
		if one.copy == nil { // who copies to it may stop, or what stands in the way be gone
			pause = min(pause, 2*m.opts.Heartbeat)
		}
	}
	if m.request != nil {
		pause = min(pause, m.opts.Heartbeat)
	}
	return pause
}

// watch is a wait that this client watches.
type watch struct {
	// since is when this client knew that the wait had begun.
	since time.Time
	// clocks are what the masters' clocks said, by memory.
	clocks map[string]clockWatch
}

// clockWatch is what a clock said first, and last. When it goes back, first goes back with it: the time that has passed stays.
type clockWatch struct{ first, last time.Time }

// elapsed is how much time has passed, since this client watches the wait, by the clocks of a quorum of the listed memories, each by itself.
func (w *watch) elapsed(s *survey, r *record) time.Duration {
	var ages []time.Duration
	for _, f := range s.found {
		if !f.shows(r) || s.began.Before(w.since) {
			continue
		}
		k, known := w.clocks[f.state.memory]
		switch {
		case !known:
			k.first = f.clock
		case f.clock.Before(k.last):
			k.first = k.first.Add(f.clock.Sub(k.last))
		}
		k.last = f.clock
		w.clocks[f.state.memory] = k
		ages = append(ages, k.last.Sub(k.first))
	}
	return quorumOfAges(ages, r)
}

// quorumOfAges is the age that a quorum of the record's seats reach; 0: they are too few.
func quorumOfAges(ages []time.Duration, r *record) time.Duration {
	slices.Sort(ages)
	if missing := len(ages) - r.quorum(); missing >= 0 { //mutant:stamps-of-a-minority
		return ages[missing]
	}
	return 0
}

// left is how much of a wait is left at the time of the survey. It is over when it has passed both on the monotonic clock of this process and on
// the clocks of a quorum of the listed memories, since this client knows of it. So neither a clock here that runs fast ends it early, nor
// masters' clocks that step.
//
// A process that has just started need not wait again where a quorum of the listed memories was told of the wait so long ago, by their own
// stamps. Those count only where the clocks agree with each other and with ours: who disagrees is left out. Stamps are written by clients
// whose clock agreed, too (trustClock).
func (m *coordinator) left(s *survey, timer string) time.Duration {
	r, o := m.record, m.opts
	wait := max(r.wait, clock.QuarantineOf(r.maxTTL, m.opts.Drift))
	w, known := m.watches[timer]
	if !known {
		return wait
	}
	left := wait - min(s.began.Sub(w.since), w.elapsed(s, r)) //mutant:a-wait-by-our-clock-alone
	agreeing := s.agreeing(o.ClockSkewMax)
	var ages []time.Duration
	for _, f := range s.found {
		at, ok := f.stamp(timer)
		if ok && f.shows(r) && agreeing.Has(f.place) && !at.After(f.clock) { //mutant:stamps-of-clocks-that-disagree
			ages = append(ages, f.clock.Sub(at))
		}
	}
	left = max(0, min(left, wait+2*o.ClockSkewMax-quorumOfAges(ages, r))) //mutant:stamps-without-skew
	m.mu.Lock()
	m.due[timer] = s.began.Add(left)
	m.mu.Unlock()
	return left
}

// agreeing are the masters whose clocks agree now with ours and with a majority of all clocks.
func (s *survey) agreeing(skew time.Duration) quorum.Mask {
	var offset [quorum.MaxMasters]clock.Interval
	var known quorum.Mask
	for _, f := range s.found {
		if f.ok() {
			offset[f.place] = clock.Interval{Low: f.clock.Sub(f.received), High: f.clock.Add(time.Microsecond).Sub(f.sent)}
			known = known.With(f.place)
		}
	}
	return clock.Vouched(0, offset[:], known, len(s.found), skew)
}

// leftOf is how much of a wait is left, as far as is known.
func (m *coordinator) leftOf(r *record, timer string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if due, known := m.due[timer]; known {
		return max(0, time.Until(due))
	}
	if w, known := m.watches[timer]; known {
		return max(0, time.Until(w.since.Add(max(r.wait, clock.QuarantineOf(r.maxTTL, m.opts.Drift)))))
	}
	return 0
}

// confirm tells the lane of the place whether it is connected to who stands behind its address now. One that is connected to another process
// loses its connection.
func (m *coordinator) confirm(s *survey, f *found) {
	if f.runID != "" {
		m.host.Confirm(f.place, f.runID, s.began)
	}
}

// raiseFloors has the seats that will vote, or vote in a smaller quorum, know the fences of before. It drops from the decision those that
// cannot be told, and returns false if nothing of it is left to do.
func (m *coordinator) raiseFloors(ctx context.Context, n *situation, d *decision) bool {
	if len(d.raise) == 0 {
		return true
	}
	floor, cold := n.floor()
	for _, place := range d.raise {
		f := n.survey.at(place)
		if f == nil || !f.ok() {
			return false
		}
		if err := f.raiseFloor(ctx, floor); err != nil { //mutant:a-voter-that-knows-no-fences
			if err == errFloorAhead {
				m.setProblem(n.tooFarBehind(f))
			}
			return false
		}
	}
	if cold {
		// Masters that have all forgotten look like new ones. There is something to do only where it is known that they have.
		log, attrs := m.opts.Logger.Info, []any{"floor", floor}
		if n.record.generation > 1 || n.record.version > 0 {
			log = m.opts.Logger.Warn
			attrs = append(attrs, "to_do", "nothing if fences are not used; else see that clocks here and on the masters differ by less than clock_skew_max")
		}
		log("fences trust clocks once: too few masters remember the last ones", attrs...)
	}
	return true
}

// propose has the acceptors choose what follows parent, or a founding (parent is nil), and goes on with what they chose.
func (m *coordinator) propose(ctx context.Context, s *survey, parent *record, acceptors []*found, quorum int, d decision) time.Duration {
	o := m.opts
	chosen, err := s.step(ctx, parent, acceptors, quorum, d.child)
	if err != nil {
		m.setProblem("the membership cannot be changed at present: " + err.Error())
		if errors.Is(err, errOutrun) {
			return jitter(o.Heartbeat)
		}
		return o.Heartbeat
	}
	ours := chosen.digest == d.child.digest
	if !ours {
		d = decision{child: chosen}
	}
	for i := range chosen.seats {
		one := &chosen.seats[i]
		if one.state == seatLearner && one.since == chosen.version && m.record != nil {
			m.pauseReseat(one.number, m.record.wait)
		}
	}
	m.adopt(chosen, d.changes)
	s.teach(ctx, chosen.among(s.found), chosen)
	m.host.Recheck()
	if ours && d.asked { //mutant:a-founding-is-taken-for-the-change
		m.request.chosen(chosen)
		m.request = nil
	}
	return 0
}

// reseatPauseMax bounds the pause between two changes of one seat. A copy takes less for most masters, so one that restarts now and then is not kept waiting.
const reseatPauseMax = 8 * time.Second

// pauseReseat makes the next change of a seat wait: a second at first, twice as long each time, until it has been quiet for long enough.
func (m *coordinator) pauseReseat(place int, wait time.Duration) {
	p, now, most := m.pauses[place], time.Now(), min(wait, reseatPauseMax)
	if now.After(p.until.Add(most)) {
		p.next = time.Second
	}
	p.until, p.next = now.Add(p.next), min(2*p.next, most)
	m.pauses[place] = p
}

// found founds the membership anew, where that is allowed. base is as for founding.
func (m *coordinator) found(ctx context.Context, s *survey, base *record) time.Duration {
	o := m.opts
	since := m.foundable
	if since.IsZero() {
		since = s.began
	}
	// Somebody may have raised max_ttl meanwhile, and all masters have forgotten that, too.
	if base != nil && base == m.record && since.Sub(m.quorumAt) <= recheckWithin(base.wait) { //mutant:a-proxy-that-was-cut-off-founds-with-its-own-wait
		o.FoundingWait = 0
	}
	f, why := s.founding(base, o)
	if f == nil {
		m.foundable = time.Time{}
		return m.foundLater(why)
	}
	if m.foundable.IsZero() {
		m.foundable = s.began
	}
	patience := recheckWithin(f.wait)
	if s.count((*found).ok) == len(f.seats) {
		patience = heardWithin * o.Heartbeat // nobody else can come back, and what this client has heard itself is too old by then
	}
	if left := patience - s.began.Sub(m.foundable); left > 0 { //mutant:a-founding-without-patience
		m.setProblemFor(left, "too few masters remember the membership: unless more of them come back, it is founded anew")
		return min(left, o.Heartbeat)
	}
	if base != nil {
		if name := s.heardElsewhere(base, heardWithin*o.Heartbeat); name != "" {
			return m.foundLater(meansTwo(name))
		}
	}
	d := decision{child: f, changes: []string{"founded: the masters are new, or too many have forgotten"}}
	if why != "" {
		d.changes = append(d.changes, why)
	}
	return m.propose(ctx, s, nil, f.among(s.found), f.quorum(), d)
}

// foundLater says why the membership cannot be founded anew at present.
func (m *coordinator) foundLater(why string) time.Duration {
	m.setProblem(why)
	m.refuseRequest(errors.New("too few masters are reached to change anything: " + why))
	return m.opts.Heartbeat
}

// among are the masters whose memory the record lists.
func (r *record) among(all []*found) (list []*found) {
	for _, f := range all {
		if f.lists(r) {
			list = append(list, f)
		}
	}
	return list
}

// adopt makes the record the one in force. It is known to be chosen.
func (m *coordinator) adopt(r *record, changes []string) {
	now := time.Now()
	m.mu.Lock()
	before := m.record
	watches := make(map[string]*watch)
	for _, timer := range timersOf(r, m.opts.Drift) {
		watches[timer] = m.watches[timer]
		if watches[timer] == nil {
			watches[timer] = &watch{since: now, clocks: make(map[string]clockWatch)}
		}
	}
	m.record, m.settled, m.watches, m.problem, m.problemEnds = r, false, watches, "", time.Time{}
	maps.DeleteFunc(m.due, func(timer string, _ time.Time) bool { return watches[timer] == nil })
	m.mu.Unlock()
	attrs := []any{"version", r.version, "lineage", fmt.Sprintf("%d-%s", r.generation, r.lineage), "voters", r.voters(), "masters", len(r.seats)}
	if len(changes) > 0 {
		attrs = append(attrs, "change", strings.Join(changes, "; "))
	}
	m.opts.Logger.Info("membership", attrs...)
	m.compareFile(r, before)
	m.host.Adopt(r)
}

// current is the record in force.
func (m *coordinator) current() *record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record
}

// settle says that no child of the record in force had been chosen when this look began. A quorum would have accepted it, and one of those would
// have shown it now.
func (m *coordinator) settle() {
	m.mu.Lock()
	m.settled = true
	m.mu.Unlock()
}

// seatLeft is how much is left of the wait of a seat.
func (m *coordinator) seatLeft(place int) time.Duration {
	m.mu.Lock()
	r := m.record
	m.mu.Unlock()
	if r == nil {
		return 0
	}
	s := r.seat(place)
	if s == nil || s.state != seatLearner {
		return 0
	}
	return m.leftOf(r, r.stampField(s))
}
