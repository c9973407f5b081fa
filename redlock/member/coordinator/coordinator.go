package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/loglimit"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/copying"
	"redlockd/redlock/member/survey"
	"redlockd/redlock/quorum"
)

// Coordinator keeps the membership of a client: it finds out which record is in force, tells masters
// that do not know it, and brings about the steps that are due. It is one goroutine, which looks at all
// masters again and again (poll): when a lane has found something, when a wait ends, and twice within
// the time in which every address must be made sure of. All clients of the same masters do the same,
// and any of them may be killed at any point: what it has begun another one finishes.
type Coordinator struct {
	host Host
	opts member.Options
	own  *clock.Own
	log  loglimit.Limiter // of lines about the membership
	// ending is over when the client is closed.
	ending context.Context
	// woken is signalled by Wake, to have the coordinator look soon.
	woken    chan struct{}
	requests chan *memberRequest
	born     time.Time // of the client

	// Owned by the goroutine.
	pauses         map[int]reseatPause
	foundable      time.Time      // since when a founding is allowed; zero: it is not
	strays         map[int]string // what masters showed at the last look that a majority did not know, by place
	heard          member.HeardAt
	followers      member.Followers
	ceilingSince   time.Time                  // since when the ceiling has been what it is, as far as is known here
	ceilingWanted  time.Time                  // since when a higher one is wanted; zero: none is
	leftOut        map[string]copying.LeftOut // sources that the last copy went on without, by name
	splitSeenSince time.Time                  // since when a listed memory is heard by others and another one is found here; zero: it is not so
	copier         *copying.Copier
	request        *memberRequest
	problemLogged  string // the problem that the log has; "": it has none, or its end

	// mu guards what follows. Only the goroutine writes.
	mu sync.Mutex
	// record is the one in force, as far as is known here. Nil: none.
	record *member.Record
	// settled: since it was adopted, a quorum has shown nothing newer, and nothing that is not finished.
	settled bool
	// waits run under the record. Others read when they are due.
	waits member.Waits
	// recoveries are the copies to learners, by the number of the seat.
	recoveries map[int]*recovery
	// minority is what masters tell of locks that fewer than a quorum held, by resource.
	minority map[string][]member.MinorityLock
	// problem is why the membership is not as it should be; "": it is, or nothing is known against it.
	problem string
	// behind and raisedBy are those of member.Membership.
	behind, raisedBy string
	// problemEnds is when it is over, if nothing else happens; zero: not known.
	problemEnds time.Time
}

// reseatPause keeps a master that restarts again and again from changing the record each time.
type reseatPause struct {
	until time.Time
	next  time.Duration
}

// New makes the coordinator of a client. Its Run is to be called on a goroutine of its own, which ends
// with ending; other goroutines are counted in running.
func New(host Host, opts member.Options, own *clock.Own, ending context.Context, running *sync.WaitGroup) *Coordinator {
	m := &Coordinator{host: host, opts: opts, own: own, log: loglimit.Limiter{Interval: opts.LogInterval, Burst: opts.LogBurst}, ending: ending, woken: make(chan struct{}, 1), requests: make(chan *memberRequest), born: time.Now(),
		pauses: make(map[int]reseatPause), heard: make(member.HeardAt), leftOut: make(map[string]copying.LeftOut)}
	m.copier = &copying.Copier{Host: host, Own: own, Opts: opts, Current: m.current, Ending: ending, Running: running, Wake: m.Wake}
	return m
}

// Wake has the coordinator look soon.
func (m *Coordinator) Wake() {
	select {
	case m.woken <- struct{}{}:
	default:
	}
}

// Run is the goroutine.
func (m *Coordinator) Run() {
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
		case <-m.woken:
		case m.request = <-requests:
		case <-ctx.Done():
			return
		}
		if m.request != nil && m.request.caller.Err() != nil { //mutant:a-change-that-was-given-up-is-made
			m.request = nil // nobody must be surprised by it later
		}
		again := m.poll(ctx)
		// What a look has changed, lanes ask it to look at. They need not be told one by one.
		select {
		case <-time.After(pollPause):
		case <-ctx.Done():
			return
		}
		timer.Reset(max(again-pollPause, leastTimer))
	}
}

// heardWithin is for how many heartbeats a memory counts as heard by another client.
const heardWithin = 2

// pollPause is the least time between two surveys of the masters.
const pollPause = 5 * time.Millisecond

// leastTimer is the shortest time that the goroutine's timer is set to. With 0 the timer would be due
// at once, and with Go 1.26 two goroutines that find that at the same moment of testing/synctest crash
// the race detector.
const leastTimer = time.Nanosecond

// poll asks all masters, does what follows, and returns when to look again.
func (m *Coordinator) poll(ctx context.Context) time.Duration {
	o := m.opts
	needed, wait := quorum.Of(len(o.Masters)), clock.QuarantineOf(o.MaxTTL, o.Drift)
	if r := m.record; r != nil {
		needed, wait = r.Quorum(), r.Quarantine(o.Drift)
	}
	places := m.host.Places()
	// A master that stays connected but takes no new connection must not keep the addresses of the others
	// from being made sure of in time.
	patience := survey.Patience{Enough: max(needed, m.host.Answering()), Grace: survey.Grace, Fewer: needed, Late: member.RecheckWithin(wait) / 4} //mutant:a-master-that-hangs-holds-up-the-others
	if m.request != nil {                                                                                                                          //mutant:a-change-is-judged-by-the-first-answers
		patience.Enough = len(places) // the votes that a change leaves are counted
	}
	if m.record == nil { //mutant:a-start-is-judged-by-the-first-answers
		patience.Enough, patience.Fewer = len(places), 0 // who answers last may belong to another fleet than the first
	}
	patience.Answered = func(s *member.Survey, f *member.Report) (done bool) {
		// Also where the process is refused: a lane that is connected to another one loses its connection.
		if f.RunID != "" { //mutant:a-refused-process-confirms-nothing
			m.host.Confirm(f.Place, f.RunID, s.Began)
		} else {
			m.host.Unreached(f.Place, f.Err)
		}
		if m.record == nil {
			_, most := s.Best(func(*member.Record) bool { return true })
			return 2*most > len(places)
		}
		return s.Successor(m.record) != nil // until it is followed, no vote counts //mutant:a-step-is-followed-when-all-have-answered
	}
	s := survey.Ask(ctx, places, patience, o)
	defer s.Close()
	m.heard.Shown(s.Survey, m.record)
	next, wrong := m.follow(ctx, s.Survey)
	ctx, cancel := context.WithTimeout(ctx, member.StepTimeout)
	defer cancel()
	if next != nil {
		m.adopt(next, nil)
		for timer := range m.waits {
			m.left(s.Survey, timer)
		}
		return 0
	}
	if wrong != "" {
		m.foundable = time.Time{}
		return m.foundLater(wrong)
	}
	r := m.record
	if r == nil || !s.InForce(r) {
		if r != nil && s.TeachUntaught(ctx, r) > 0 {
			return 0
		}
		base := s.Remains(r)
		if base != r {
			s.Close()
			s = survey.Ask(ctx, m.opts.PlacesOf(base), patienceForAll(base), o)
			defer s.Close()
			m.heard.Shown(s.Survey, m.record)
		}
		return m.found(ctx, s, base)
	}
	return m.advance(ctx, s, r)
}

// advance does what is due under the record in force, and returns when to look again.
func (m *Coordinator) advance(ctx context.Context, s *survey.Masters, r *member.Record) time.Duration {
	o := m.opts
	m.foundable = time.Time{}
	if s.TeachUntaught(ctx, r) > 0 { // who is behind cannot promise anything, and would count as silent //mutant:who-is-behind-counts-as-silent
		m.host.Recheck()
	}
	if s.Unfinished(r) {
		// Where there is nothing to finish, because what was accepted cannot have been chosen, a child
		// without a change ends it.
		return m.propose(ctx, s, r, member.Decision{Child: r.Child().Seal()})
	}
	// No child of the record in force had been chosen when this poll began: a quorum would have accepted it,
	// and one of those would have shown it now.
	m.mu.Lock()
	m.settled = true
	m.mu.Unlock()
	strays := m.repeatedStrays(s.Survey, r)
	for _, f := range strays {
		if s.Began.Before(m.pauses[f.Place].until) { //mutant:a-master-that-lies-keeps-everybody-busy
			continue
		}
		m.pauseReseat(f.Place, min(r.Wait, reseatPauseMax))
		if survey.NameMemory(ctx, f.Conn, f.V, member.NewMemory(f.RunID), "it showed "+f.State.Record.String()+", which a majority does not know") == nil {
			return 0
		}
	}
	m.recover(s.Survey, r)
	m.takeMinority(s.Survey, r)
	m.followers.Shown(s.Survey)
	n := &member.Situation{Record: r, Survey: s.Survey, Left: func(timer string) time.Duration { return m.left(s.Survey, timer) },
		Recovered: func(one *member.Seat) (string, bool) { return m.recovered(s.Survey, r, one) },
		OutOfStep: m.host.OutOfStep, Patience: heardWithin * o.Heartbeat,
		Paused: func(place int) bool { return s.Began.Before(m.pauses[place].until) },
		Wall:   m.own.Date(time.Now()), Skew: o.ClockSkewMax, Drift: m.opts.Drift, FirstCeiling: o.LowestCeiling()}
	m.weighCeiling(n)
	if o.NoCopy {
		n.OutOfStep = nil
	}
	d := n.Next()
	problem := d.Problem
	if m.request != nil {
		if asked := m.request.decide(ctx, n); asked != nil {
			d = *asked
		} else {
			m.request = nil
		}
	}
	m.setProblem(cmp.Or(problem, m.complaint(s.Survey, r, strays)), 0)
	if d.Child == nil {
		return m.pause(n)
	}
	d.Child.Seal()
	if err := member.CheckChild(r, d.Child); err != nil {
		m.setProblem(err.Error(), 0)
		m.refuseRequest(err)
		return m.pause(n)
	}
	if d.Demoted != nil { // for people: the step goes on without it
		d.Demoted.Conn.Redis.HSet(ctx, lua.MembersKey, "why", d.Why)
	}
	if by := m.host.WantedBy(); by != "" && d.Child.Ceiling > r.Ceiling {
		for _, f := range member.VotersOf(s.Survey, r) {
			f.Conn.Redis.HSet(ctx, lua.MembersKey, member.RaisedField, conn.Sanitize(by))
		}
	}
	if !m.raiseFloors(ctx, n, d.Raise) {
		return o.Heartbeat
	}
	return m.propose(ctx, s, r, d)
}

// repeatedStrays are the strays that showed the same at the survey before. One survey proves nothing:
// steps may be made while it runs. What a master shows in two was not chosen between them, because the
// others have accepted nothing.
func (m *Coordinator) repeatedStrays(s *member.Survey, r *member.Record) (list []*member.Report) {
	before := m.strays
	m.strays = make(map[int]string)
	for _, f := range s.Strays(r) {
		m.strays[f.Place] = f.V
		if before[f.Place] == f.V { //mutant:a-stray-is-judged-by-one-survey
			list = append(list, f)
		}
	}
	return list
}

// follow returns the record to go on to; nil: there is none, and this client stays with the one that it
// has, if any. wrong says why it must not go by any.
func (m *Coordinator) follow(ctx context.Context, s *member.Survey) (next *member.Record, wrong string) {
	own := m.record
	if own != nil {
		if next := s.Successor(own); next != nil || s.InForce(own) { //mutant:a-proxy-that-slept-does-not-search
			return next, ""
		}
	}
	next, wrong = m.join(ctx, s)
	if own == nil && next != nil {
		if wrong = m.opts.OtherDB(next); wrong != "" {
			next = nil
		}
	}
	return next, wrong
}

// join finds the record in force as a client does that starts: what the masters show that are known
// here leads to it. The masters that those records name are asked, for the settings, or the record that
// this client has seen last, may be older than the membership.
//
// A client that has a record keeps to its fleet as long as one master shows that, or half of them show no
// other one: those that are silent may still remember. Where all have forgotten it, and another client
// has founded another one with them, this client follows.
func (m *Coordinator) join(ctx context.Context, s *member.Survey) (best *member.Record, wrong string) {
	o, own, most := m.opts, m.record, 0
	fleet, wrong := s.Fleet(o)
	leads := s.Settled()
	var match func(r *member.Record) bool
	if own != nil && (fleet == "" || s.Showing(own.Fleet()) > 0 || 2*s.Showing(fleet) <= len(s.Reports)) { //mutant:a-client-leaves-its-fleet //mutant:silence-leads-to-another-fleet
		match = func(r *member.Record) bool { return r.Follows(own) }
		named := survey.Ask(ctx, o.Places(), survey.Patience{Enough: len(o.Masters)}, o)
		leads = append(leads, named.Settled()...)
		named.Close()
	} else if fleet == "" {
		return nil, wrong
	} else {
		match = func(r *member.Record) bool { return r.Fleet() == fleet }
		if best, most = s.Best(match); 2*most > len(s.Reports) {
			return best, ""
		}
	}
	asked := make(map[string]bool)
	for _, r := range leads {
		if asked[r.Digest] || !match(r) {
			continue
		}
		asked[r.Digest] = true
		wider := survey.Ask(ctx, m.opts.PlacesOf(r), patienceForAll(r), o)
		if one, n := wider.Best(match); n > most && (own == nil || n > s.Stay(own, one)) {
			best, most = one, n
		}
		wider.Close()
	}
	return best, ""
}

// patienceForAll is for a survey of the masters of a record.
func patienceForAll(r *member.Record) survey.Patience {
	return survey.Patience{Enough: r.Quorum(), Grace: survey.Grace}
}

// pause is how long nothing has to be done, as far as is known now.
func (m *Coordinator) pause(n *member.Situation) time.Duration {
	pause := member.RecheckWithin(n.Record.Wait) / 2
	if n.Wanted > n.Record.Ceiling {
		// Those who follow the record before note this one within a heartbeat. Who was killed does not.
		pause = min(pause, m.opts.Heartbeat)
		if time.Since(m.ceilingWanted) < 2*m.opts.Heartbeat {
			pause = min(pause, m.opts.Heartbeat/8)
		}
	}
	for timer := range m.waits {
		if left := m.left(n.Survey, timer); left > 0 {
			pause = min(pause, left-time.Since(n.Survey.Began))
		} else {
			pause = min(pause, m.opts.Heartbeat) // what it waits for is not reached, or paused
		}
	}
	for s := range n.Record.EachSeat() {
		if f := n.Survey.At(s.Number); s.State != member.Leaving && f.OK() && f.State.Memory != s.Memory {
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

// left is how much of a wait is left at the time of the survey.
func (m *Coordinator) left(s *member.Survey, timer string) time.Duration {
	w := m.waits[timer]
	left := w.Left(s, m.record, timer, m.opts)
	m.mu.Lock()
	w.Due = s.Began.Add(left)
	m.mu.Unlock()
	return left
}

// leftOf is how much of a wait is left, as far as is known; 0: there is none.
func (m *Coordinator) leftOf(timer string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.waits[timer]; w != nil {
		return max(0, time.Until(w.Due))
	}
	return 0
}

// raiseFloors has the seats that will vote, or vote in a smaller quorum, know the fences of before, and who
// follows the membership. It returns false if one of them cannot be told: then nothing is proposed.
func (m *Coordinator) raiseFloors(ctx context.Context, n *member.Situation, places []int) bool {
	if len(places) == 0 {
		return true
	}
	floor, cold := n.Floor()
	for _, place := range places {
		f := n.Survey.At(place)
		if !f.OK() {
			return false
		}
		if err := survey.RaiseFloor(ctx, f, floor, m.followers.Notes(n.Survey, n.Record, m.opts, f.Clock)); err != nil { //mutant:a-voter-that-knows-no-fences
			if err == survey.ErrFloorAhead {
				m.setProblem(n.TooFarBehind(f), 0)
			}
			return false
		}
	}
	if cold {
		// Masters that have all forgotten look like new ones. There is something to do only where it is known
		// that they have.
		log, attrs := m.opts.Logger.Info, []any{"floor", floor}
		if n.Record.Generation > 1 || n.Record.Version > 0 {
			log = m.opts.Logger.Warn
			attrs = append(attrs, "to_do", "nothing if fences are not used; else see that clocks here and on the masters differ by less than clock_skew_max")
		}
		log("fences trust clocks once: too few masters remember the last ones", attrs...)
	}
	return true
}

// propose has the masters choose what follows parent, or a founding (parent is nil), and goes on with
// what they chose.
func (m *Coordinator) propose(ctx context.Context, s *survey.Masters, parent *member.Record, d member.Decision) time.Duration {
	o := m.opts
	chosen, err := s.Step(ctx, parent, d.Child)
	if err != nil {
		m.setProblem("the membership cannot be changed at present: "+err.Error(), 0)
		if errors.Is(err, survey.ErrOutrun) {
			return rand.N(o.Heartbeat) + 1 // not all at the same moment
		}
		return o.Heartbeat
	}
	if chosen.Digest != d.Child.Digest {
		d = member.Decision{Child: chosen}
	}
	for one := range chosen.EachSeat() {
		if one.State == member.Learner && one.Since == chosen.Version && m.record != nil {
			most := min(m.record.Wait, reseatPauseMax)
			if before := m.record.Seat(one.Number); before != nil && before.Memory == one.Memory { // its clock may be wrong for ever
				most = m.record.Wait
			}
			m.pauseReseat(one.Number, most)
		}
	}
	m.adopt(chosen, d.Changes)
	s.Teach(ctx, chosen.Among(s.Reports), chosen)
	m.host.Recheck()
	if d.Asked { //mutant:a-founding-is-taken-for-the-change
		m.request.reply(m.request.what, nil)
		m.request = nil
	}
	return 0
}

// reseatPauseMax bounds the pause between two changes of one seat. A copy takes less for most masters,
// so one that restarts now and then is not kept waiting.
const reseatPauseMax = 8 * time.Second

// pauseReseat makes the next change of a seat wait: a second at first, twice as long each time, until
// it has been quiet for as long as the longest pause, most.
func (m *Coordinator) pauseReseat(place int, most time.Duration) {
	p, now := m.pauses[place], time.Now()
	if now.After(p.until.Add(most)) {
		p.next = time.Second
	}
	p.until, p.next = now.Add(p.next), min(2*p.next, most)
	m.pauses[place] = p
}

// found founds the membership anew, where that is allowed. base is as for founding.
func (m *Coordinator) found(ctx context.Context, s *survey.Masters, base *member.Record) time.Duration {
	o := m.opts
	// Somebody may have raised the ceiling since this client was last noted to follow the record, and all
	// masters have forgotten that, too.
	at := m.host.FollowedAt()
	m.own.Look()
	if base == m.record && !at.IsZero() && time.Since(at)+m.own.SleptSince(at) <= member.FollowedFor(base.Wait) { //mutant:a-proxy-that-was-cut-off-founds-with-its-own-wait
		o.FoundingWait = 0
	}
	f, why := s.Founding(base, o)
	if f == nil {
		m.foundable = time.Time{}
		return m.foundLater(why)
	}
	if m.foundable.IsZero() {
		m.foundable = s.Began
	}
	silentIn := base
	if base == nil {
		silentIn = member.Vacated(nil, o)
	}
	wait := silentIn.Wait
	if base == nil {
		wait = max(wait, o.FoundingWait)
	}
	if left, who := m.heard.MayComeBack(s.Survey, silentIn, base == nil, wait); left > 0 { //mutant:silence-is-taken-for-amnesia
		m.setProblem(member.SilenceText(base, who), left)
		return min(left, o.Heartbeat)
	}
	// Somebody may be about to tell the masters what they have chosen, and what this client has heard itself
	// must not count as heard by others.
	if left := heardWithin*o.Heartbeat - s.Began.Sub(m.foundable); left > 0 { //mutant:a-founding-without-patience
		m.setProblem("too few masters remember the membership: unless more of them come back, it is founded anew", left)
		return min(left, o.Heartbeat)
	}
	if base != nil {
		if name := s.HeardElsewhere(base, heardWithin*o.Heartbeat); name != "" {
			return m.foundLater(s.HeardOnlyElsewhere(base, name))
		}
	}
	if o.FoundingWait == 0 {
		// It may be chosen later, without a reply. This client's notes stay as they are until that is over.
		m.host.FollowAnew() //mutant:a-founding-under-way-is-forgotten
	}
	d := member.Decision{Child: f, Changes: []string{"founded: the masters are new, or too many have forgotten"}}
	if why != "" {
		d.Changes = append(d.Changes, why)
	}
	return m.propose(ctx, s, nil, d)
}

// weighCeiling finds what the ceiling of the next record depends on. As long as the present one was not
// watched for one wait, all of it counts as in use.
func (m *Coordinator) weighCeiling(n *member.Situation) {
	s, r, own := n.Survey, n.Record, m.host.Follower()
	within := r.Quarantine(m.opts.Drift)
	wanted, inUse := m.host.TTLs(within)
	n.Wanted = max(wanted, min(r.MaxTTL, n.FirstCeiling))
	n.InUse = max(inUse, m.followers.InUse(s, r, own, m.opts))
	if time.Since(m.ceilingSince) < within {
		n.InUse = r.Ceiling
	}
	behind := ""
	if n.Wanted <= r.Ceiling {
		m.ceilingWanted = time.Time{}
	} else {
		behind = m.followers.Behind(s, r, own, m.opts)
		if m.ceilingWanted.IsZero() {
			m.ceilingWanted = time.Now()
		}
	}
	n.Behind, n.OlderClient = behind != "", member.OlderClient(s, r, own)
	m.mu.Lock()
	m.behind, m.raisedBy = behind, member.RaisedBy(s, r)
	m.mu.Unlock()
}

// foundLater says why the membership cannot be founded anew at present.
func (m *Coordinator) foundLater(why string) time.Duration {
	m.setProblem(why, 0)
	m.refuseRequest(errors.New("too few masters are reached to change anything: " + why))
	return m.opts.Heartbeat
}

// adopt makes the record the one in force. It is known to be chosen.
func (m *Coordinator) adopt(r *member.Record, changes []string) {
	if m.record == nil || m.record.Ceiling != r.Ceiling {
		m.ceilingSince = time.Now()
	}
	m.mu.Lock()
	before := m.record
	m.record, m.settled, m.waits, m.problem, m.problemEnds = r, false, m.waits.Under(r, m.opts.Drift, time.Now()), "", time.Time{}
	m.mu.Unlock()
	attrs := []any{"version", r.Version, "lineage", r.LineageText(), "voters", r.Voters(), "masters", len(r.Seats)}
	if len(changes) > 0 {
		attrs = append(attrs, "change", strings.Join(changes, "; "))
	}
	m.opts.Logger.Info("membership", attrs...)
	m.compareFile(r, before)
	m.heard.Listed(r, before, time.Now())
	m.host.Adopt(r)
}

// current is the record in force.
func (m *Coordinator) current() *member.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record
}

// Membership is what is known here of the membership, and the places of its seats.
func (m *Coordinator) Membership() (all member.Membership, places []int) {
	m.mu.Lock()
	r, settled, problem, behind, raisedBy := m.record, m.settled, m.problem, m.behind, m.raisedBy
	if !m.problemEnds.IsZero() {
		problem += fmt.Sprintf(", in %v", max(0, time.Until(m.problemEnds)).Round(time.Millisecond))
	}
	m.mu.Unlock()
	if r == nil {
		return member.Membership{MaxTTL: m.opts.MaxTTL, Ceiling: min(m.opts.MaxTTL, m.opts.LowestCeiling()), Problem: problem}, nil
	}
	all = r.Membership(m.opts)
	all.Settled, all.Problem, all.Behind, all.WaitLeft = settled, problem, behind, m.leftOf(r.TTLStampField())
	if all.Ceiling > m.opts.LowestCeiling() {
		all.RaisedBy = raisedBy
	}
	for i := range r.Seats {
		s, shown := &r.Seats[i], &all.Seats[i]
		shown.Left = m.leftOf(r.StampField(s))
		if s.State == member.Learner {
			shown.Copying = m.copyingOf(s.Number)
		}
		places = append(places, s.Number)
	}
	return all, places
}

// Left is how much is left of the wait of a learner.
func (m *Coordinator) Left(place int) time.Duration {
	if r := m.current(); r != nil {
		if s := r.Seat(place); s != nil && s.State == member.Learner {
			return m.leftOf(r.StampField(s))
		}
	}
	return 0
}
