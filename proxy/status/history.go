package status

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"redlockd/redlock"
)

// What the page shows of the last hour: rates, latencies, and events. One goroutine reads the counters
// and the states of masters, and only where a Status was made; nothing is counted for it anywhere
// else. What begins and ends between two readings is not seen.

const (
	// watchInterval is the time between two readings of the masters.
	watchInterval = time.Second
	// pointInterval is the time between two points of the plots.
	pointInterval = 10 * time.Second
	// historyPoints is an hour of points: some 20 KB.
	historyPoints = int(time.Hour / pointInterval)
	// eventsMax bounds the events that are remembered. The oldest is forgotten first.
	eventsMax = 60
)

// history is the last hour. Its zero value is empty and ready.
type history struct {
	mu sync.Mutex // guards what follows
	// points is a ring: point n is at n modulo its length.
	points [historyPoints]point
	// count is how many points there have ever been.
	count int
	// events are in the order of time.
	events []event

	// What the readings before have shown. Owned by the goroutine that reads.
	begun   bool
	pointAt time.Time // of stats
	stats   redlock.Stats
	quorum  bool
	version int64 // of the membership
	leaving bool
	failing bool
	states  map[string]redlock.MasterState // by the address of the master
}

// point is what happened within pointInterval. Rates are per second.
type point struct {
	// rates are those of Outcomes.
	rates [len(Outcomes)]float32
	// median and slow are upper bounds of half, and of 99 %, of the rounds of acquisition; 0: there was
	// none.
	median, slow time.Duration
	waiters      int
}

// event is one line of the page's list.
type event struct {
	At   time.Time
	Tone tone
	// Master is the address of the master that it is about; "": it is about none.
	Master string
	// Text follows the name of the master, if there is one. It names no master and no resource.
	Text string
	Why  string
}

// tone says how bad something is. It is the name of a shape and of a colour of the page.
type tone string

const (
	toneGood tone = "good"
	toneWarn tone = "warn"
	toneBad  tone = "bad"
)

// watch reads until the server is closed. It is the goroutine of the history.
func (st *Status) watch() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		st.history.observe(time.Now(), st.Reading())
		select {
		case <-tick.C:
		case <-st.Done:
			return
		}
	}
}

// observe takes one reading.
func (h *history) observe(now time.Time, r *Reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteStatesLocked(now, r)
	if !h.begun || now.Sub(h.pointAt) >= pointInterval {
		if h.begun {
			h.addPointLocked(now, &r.Locks)
		}
		h.stats, h.pointAt = r.Locks, now
	}
	h.begun = true
}

// noteLocked remembers an event.
func (h *history) noteLocked(now time.Time, e event) {
	e.At = now
	if len(h.events) == eventsMax {
		h.events = slices.Delete(h.events, 0, 1)
	}
	h.events = append(h.events, e)
}

// noteStatesLocked adds an event for each difference from the reading before. The first reading has
// none to compare with, except that a quorum is expected.
func (h *history) noteStatesLocked(now time.Time, r *Reading) {
	masters, membership, leaving := r.Masters, &r.Membership, r.Leaving || r.Draining
	add := func(e event) { h.noteLocked(now, e) }
	if !h.begun {
		add(event{Tone: toneGood, Text: "redlockd has started"})
	}
	states := make(map[string]redlock.MasterState, len(masters))
	for _, m := range masters {
		states[m.Addr] = m.State
		before, known := h.states[m.Addr]
		switch {
		case before == m.State, !known && m.State == redlock.MasterDown: // every master begins as down
		case m.State == redlock.MasterUp:
			add(event{Tone: toneGood, Master: m.Addr, Text: "votes"})
		default:
			add(event{Tone: toneOf(m.State), Master: m.Addr, Text: wordsOf(m.State), Why: m.Reason})
		}
	}
	h.states = states
	if v := membership.Version; v != h.version {
		if h.version != 0 {
			add(event{Tone: toneGood, Text: fmt.Sprintf("the membership was changed: it has version %d now, and %d masters that vote", v, membership.Voters())})
		}
		h.version = v
	}
	switch quorum := Voting(masters) >= Quorum(masters); {
	case quorum == h.quorum:
	case quorum:
		h.quorum = true
		add(event{Tone: toneGood, Text: "there is a quorum: locks are granted"})
	default:
		h.quorum = false
		add(event{Tone: toneBad, Text: fmt.Sprintf("the quorum is lost: no locks are granted until %d masters vote", Quorum(masters))})
	}
	switch failing := r.Locks.Failing(); {
	case failing && !h.failing:
		add(event{Tone: toneBad, Text: "all LOCKs end without a quorum, although " + fmt.Sprintf("%d of %d masters are up", Voting(masters), len(masters))})
	case !failing && h.failing:
		add(event{Tone: toneGood, Text: "a quorum answers LOCKs again, or nobody asks any more"})
	}
	h.failing = r.Locks.Failing()
	if leaving && !h.leaving {
		add(event{Tone: toneWarn, Text: "this server was told to stop"})
	}
	h.leaving = leaving
}

// addPointLocked compares with the counters of the point before.
func (h *history) addPointLocked(now time.Time, s *redlock.Stats) {
	if lost := s.Lost - h.stats.Lost; lost > 0 {
		h.noteLocked(now, event{Tone: toneWarn, Text: fmt.Sprintf("the masters have forgotten %d %s that should still run", lost, plural(int(lost), "lock", "locks"))})
	}
	if forced := s.Forced - h.stats.Forced; forced > 0 {
		h.noteLocked(now, event{Tone: toneWarn, Text: fmt.Sprintf("%d %s released by force", forced, plural(int(forced), "lock was", "locks were"))})
	}
	p := point{waiters: s.Waiters}
	for i, o := range Outcomes {
		p.rates[i] = float32(float64(o.Count(s)-o.Count(&h.stats)) / now.Sub(h.pointAt).Seconds())
	}
	rounds := s.Rounds
	for i := range rounds.Buckets {
		rounds.Buckets[i] -= h.stats.Rounds.Buckets[i]
	}
	p.median, p.slow = quantile(&rounds, 0.5), quantile(&rounds, 0.99)
	h.points[h.count%len(h.points)] = p
	h.count++
}

// quantile is the upper bound of the smallest durations that are this part of all; 0: there are none.
// Of those in the last bucket it is the lower bound, because they have no upper one.
func quantile(t *redlock.Times, part float64) time.Duration {
	var all, upTo uint64
	for _, n := range t.Buckets {
		all += n
	}
	if all == 0 {
		return 0
	}
	for i, n := range t.Buckets {
		if upTo += n; float64(upTo) >= part*float64(all) {
			return t.BucketMax(min(i, len(t.Buckets)-2))
		}
	}
	return 0
}

// last returns the points, the oldest first, and the events, the newest first.
func (h *history) last() (points []point, events []event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := max(0, h.count-len(h.points)); n < h.count; n++ {
		points = append(points, h.points[n%len(h.points)])
	}
	events = slices.Clone(h.events)
	slices.Reverse(events)
	return points, events
}

// toneOf is how bad a state of a master is.
func toneOf(state redlock.MasterState) tone {
	switch state {
	case redlock.MasterUp:
		return toneGood
	case redlock.MasterQuarantined, redlock.MasterDoubted:
		return toneWarn
	}
	return toneBad
}

// wordsOf says what a state of a master means for its vote.
func wordsOf(state redlock.MasterState) string {
	switch state {
	case redlock.MasterUp:
		return "votes"
	case redlock.MasterQuarantined:
		return "has no vote: quarantined, it may have forgotten locks"
	case redlock.MasterDoubted:
		return "has no vote: its clock is in doubt"
	case redlock.MasterRefused:
		return "has no vote: refused"
	}
	return "has no vote: down"
}

func plural(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}
