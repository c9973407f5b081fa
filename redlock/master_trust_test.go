package redlock

// Goal: what a client believes of a master's clock, and what it tells of that, follows from statements that are fresh, each by itself, and from nothing
// else. Method: the decisions alone, with readings and statements made here. virtual_trust_test.go has what they mean for locks.

import (
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/member/copying"
)

func TestWhoVouchesForAClock(t *testing.T) {
	const wait, at = time.Minute, 100 * time.Second
	drift := clock.Drift{Factor: 0.01, StepMax: 10 * ms}
	reading := func(sent time.Duration) clock.Reading { return clock.ReadingOf(sent, sent+ms, sent+ms) }
	begun := func(since time.Duration) (r clock.Ring) {
		r.Add(reading(since), drift.Rate(), wait)
		return r
	}
	covers := clockStatements{covered: true, first: 7, gain: 3 * ms, watched: true}
	with := func(said clockStatements, change func(*clockStatements)) clockStatements {
		change(&said)
		return said
	}
	type guard = clockGuard
	for name, tt := range map[string]struct {
		k             guard
		said          clockStatements
		memory        string
		nobody        bool
		good, inStep  bool // then
		again         bool
		ring, started bool // the ring has begun then; fresh and its beat are as before
		reason        string
	}{
		"it is good":                                {k: guard{good: true, inStep: true}, good: true, inStep: true, started: true},
		"what is stated of it is stored":            {k: guard{inStep: true, trusting: trusting{stated: 3}}, said: clockStatements{stored: true}, good: true, inStep: true, again: true},
		"it is not stored":                          {k: guard{inStep: true, trusting: trusting{stated: 3}}, inStep: true, again: true},
		"what is stored is of before":               {k: guard{inStep: true}, said: clockStatements{stored: true}, inStep: true, again: true},
		"it is in step again, another pads so":      {k: guard{inStep: true}, said: clockStatements{padding: "other"}, inStep: true, again: true},
		"another pads otherwise":                    {k: guard{fresh: begun(at - wait - ms)}, said: clockStatements{padding: "other"}, started: true, reason: "another redlockd has other"},
		"it was never read":                         {said: covers},
		"read for a wait":                           {k: guard{fresh: begun(at - wait - ms)}, inStep: true, again: true, ring: true},
		"read for less than a wait":                 {k: guard{fresh: begun(at - wait)}, said: clockStatements{watched: true}, started: true, reason: "has not said yet"},
		"another states it":                         {k: guard{fresh: begun(at - 5*ms)}, said: covers, inStep: true, again: true, ring: true},
		"with all of a step":                        {k: guard{fresh: begun(at - 5*ms)}, said: with(covers, func(s *clockStatements) { s.gain = drift.StepMax }), inStep: true, again: true, ring: true},
		"with more than a step":                     {k: guard{fresh: begun(at - 5*ms)}, said: with(covers, func(s *clockStatements) { s.gain = drift.StepMax + 1 }), started: true, reason: "has not said yet"},
		"of another beat":                           {k: guard{fresh: begun(at - 5*ms)}, said: with(covers, func(s *clockStatements) { s.first = 6 }), started: true, reason: "has not said yet"},
		"the other watches, and has said nothing":   {k: guard{fresh: begun(at - 5*ms)}, said: with(covers, func(s *clockStatements) { s.covered = false }), started: true, reason: "has not said yet"},
		"copied to, since it was read":              {k: guard{fresh: begun(at - 5*ms), trusting: trusting{givenMemory: "m", given: at - 4*ms}}, said: clockStatements{watched: true}, memory: "m", inStep: true, again: true, ring: true},
		"copied to, as it was read":                 {k: guard{fresh: begun(at - 5*ms), trusting: trusting{givenMemory: "m", given: at - 4*ms}}, said: clockStatements{watched: true}, memory: "m", inStep: true, again: true, ring: true},
		"copied to before":                          {k: guard{fresh: begun(at - 5*ms), trusting: trusting{givenMemory: "m", given: at - 4*ms - 1}}, said: clockStatements{watched: true}, memory: "m", started: true, reason: "has not said yet"},
		"a memory of before was copied to":          {k: guard{fresh: begun(at - 5*ms), trusting: trusting{givenMemory: "n", given: at}}, said: clockStatements{watched: true}, memory: "m", started: true, reason: "has not said yet"},
		"nothing was copied, and it has no memory":  {k: guard{fresh: begun(-time.Second), trusting: trusting{given: at}}, said: clockStatements{watched: true}, started: true, reason: "has not said yet"},
		"nobody watches, and it agrees":             {k: guard{fresh: begun(at - 5*ms), clockView: clockView{agrees: true}}, nobody: true, inStep: true, again: true, ring: true},
		"nobody watches, and it does not":           {k: guard{fresh: begun(at - 5*ms)}, nobody: true, started: true, reason: "its clock differs by"},
		"somebody watches elsewhere, and it agrees": {k: guard{fresh: begun(at - 5*ms), clockView: clockView{agrees: true}}, started: true, reason: "another redlockd watches other masters' clocks"},
		"somebody watches here, and it agrees":      {k: guard{fresh: begun(at - 5*ms), clockView: clockView{agrees: true}}, said: clockStatements{watched: true}, nobody: true, started: true, reason: "has not said yet"},
		"it has gained, nobody watches, it agrees":  {k: guard{ring: begun(at - 9*ms), fresh: begun(at - 5*ms), clockView: clockView{agrees: true}}, nobody: true, ring: true, started: true},
	} {
		k := tt.k
		if k.fresh.Begun && strings.HasPrefix(name, "nothing was copied") {
			k.fresh = begun(at - 5*ms)
		}
		k.last, k.first = reading(at), 7
		var own clock.Own
		again := k.trust(tt.said, tt.memory, tt.nobody, false, true, time.Now(), &own, drift, wait)
		started := k.fresh == tt.k.fresh && k.first == 7 || strings.HasPrefix(name, "nothing was copied") && k.first == 7
		if k.good != tt.good || k.inStep != tt.inStep || again != tt.again || k.ring.Begun != tt.ring || started != (tt.started || !tt.k.fresh.Begun && k.first == 7) || !strings.Contains(k.reason, tt.reason) || tt.reason == "" && k.reason != "" {
			t.Errorf("%s: good %t, in step %t, again %t, watched without a gap %t, fresh as before %t, because %q; want %+v", name, k.good, k.inStep, again, k.ring.Begun, started, k.reason, tt)
		}
	}
}

// Why a clock is not good, in the words of what can be done about it.
func TestWhyAClockIsNotGood(t *testing.T) {
	const wait = time.Minute
	drift := clock.Drift{Factor: 0.01, StepMax: 10 * ms}
	inVirtualTime(t, 3, func(s *stage) {
		now, own := time.Now(), &s.open().own
		for name, tt := range map[string]struct {
			said          clockStatements
			alone, enough bool
			agrees        bool
			reason        string
			skew          bool
		}{
			"another watches":           {clockStatements{watched: true}, true, true, true, "another redlockd watches its clock", false},
			"too few are connected":     {clockStatements{}, true, false, true, reasonUnwatched, false},
			"ours is wrong":             {clockStatements{}, true, true, true, "this machine's clock agrees with too few masters", true},
			"another watches elsewhere": {clockStatements{}, false, true, true, "another redlockd watches other masters' clocks", false},
			"the clock is wrong":        {clockStatements{}, false, true, false, "its clock differs by", true},
		} {
			k := clockGuard{clockView: clockView{agrees: tt.agrees, gained: 5 * time.Second}}
			k.last.Offset = clock.Interval{Low: own.Wall(now) + time.Hour, High: own.Wall(now) + time.Hour + 2*ms}
			k.explain(tt.said, tt.alone, tt.enough, now, own, drift, wait)
			wantSkew := map[bool]time.Duration{true: time.Hour + ms, false: 0}[tt.skew]
			if !strings.HasPrefix(k.reason, tt.reason) || k.skew != wantSkew || k.gained != 0 || k.until != now.Add(wait) {
				t.Errorf("%s: got %q, a skew of %v, a gain of %v, for %v; want %q, %v", name, k.reason, k.skew, k.gained, k.until.Sub(now), tt.reason, wantSkew)
			}
		}
		k := clockGuard{reason: "it gained", clockView: clockView{gained: time.Second}}
		k.ring.Begun = true
		if k.explain(clockStatements{watched: true}, true, true, now, own, drift, wait); k.reason != "it gained" || k.gained != time.Second {
			t.Errorf("a clock that has gained: got %q, and a gain of %v", k.reason, k.gained)
		}
	})
}

// views gives each lane what it has read of its master's clock; the first one's has gained.
func (p *proxy) views(gained time.Duration, change func(i int, k *clockView)) (first *lane) {
	for i, l := range p.fleet.view.Load().masters {
		l.mu.Lock()
		l.guard.clock.clockView = clockView{known: true, began: 50 * time.Second, asked: 102 * time.Second, took: ms}
		if i == 0 {
			l.guard.clock.clockView = clockView{known: true, gained: gained, before: 100 * time.Second, found: 101 * time.Second, offset: time.Hour}
		}
		change(i, &l.guard.clock.clockView)
		l.mu.Unlock()
	}
	return p.fleet.view.Load().masters[0]
}

// A clock that gained has stepped if others show that this machine was not paused meanwhile.
func TestClocksThatStepped(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		const gained = time.Second
		skewMax, stepMax := p.opts.ClockSkewMax, p.opts.ClockStepMax
		one := func(change func(k *clockView)) func(int, *clockView) { // master 2 alone has something to show
			return func(i int, k *clockView) {
				if i > 0 {
					k.known, k.asked = false, 0
				}
				if i == 1 {
					k.asked = 102 * time.Second
					change(k)
				}
			}
		}
		self := func(change func(k *clockView)) func(int, *clockView) { // no other master has
			return func(i int, k *clockView) {
				if i > 0 {
					k.asked = 0
				} else {
					change(k)
				}
			}
		}
		for name, tt := range map[string]struct {
			gained    time.Duration
			change    func(i int, k *clockView)
			witnesses int
			want      bool
		}{
			"it did not gain":                      {0, func(int, *clockView) {}, 1, false},
			"four witnesses":                       {gained, func(int, *clockView) {}, 4, true},
			"four, and five are needed":            {gained, func(int, *clockView) {}, 5, false},
			"one witness":                          {gained, one(func(*clockView) {}), 1, true},
			"it began to watch just before":        {gained, one(func(k *clockView) { k.began = 100*time.Second - 1 }), 1, true},
			"it began to watch then":               {gained, one(func(k *clockView) { k.began = 100 * time.Second }), 1, false},
			"it gained, too":                       {gained, one(func(k *clockView) { k.found = 100 * time.Second }), 1, false},
			"it gained before":                     {gained, one(func(k *clockView) { k.found = 100*time.Second - 1 }), 1, true},
			"it was asked just after":              {gained, one(func(k *clockView) { k.asked = 101*time.Second + 1 }), 1, true},
			"it was asked then":                    {gained, one(func(k *clockView) { k.asked = 101 * time.Second }), 1, false},
			"it is nearly too far away":            {gained, one(func(k *clockView) { k.took = (gained-stepMax)/2 - 1 }), 1, true},
			"it is too far away":                   {gained, one(func(k *clockView) { k.took = (gained - stepMax) / 2 }), 1, false},
			"it agrees with ours now":              {2*skewMax + 1, self(func(k *clockView) { k.offset = skewMax }), 1, true},
			"it agreed before":                     {2 * skewMax, self(func(k *clockView) { k.offset = skewMax }), 1, false},
			"it does not agree":                    {2*skewMax + 2, self(func(k *clockView) { k.offset = skewMax + 1 }), 1, false},
			"ours gained, too":                     {gained, self(func(k *clockView) { k.ownGain = clock.Noise + 1 }), 1, true},
			"ours gained as little as nothing":     {gained, self(func(k *clockView) { k.ownGain = clock.Noise }), 1, false},
			"ours, agreeing within noise, did not": {gained, self(func(*clockView) {}), 1, false},
		} {
			l := p.views(tt.gained, tt.change)
			if got := p.fleet.stepped(l, tt.witnesses); got != tt.want {
				s.Errorf("%s: stepped %t, want %t", name, got, tt.want)
			}
		}
	})
}

// A clock takes the vote of its master when it has kept votes from counting for longer than a copy takes, a quorum votes without it, and it stepped, or
// nobody speaks for it.
func TestClocksOutOfStep(t *testing.T) {
	const reason = "it is out of step"
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		time.Sleep(3 * time.Minute) // so that there is a time of before
		now := p.own.At(time.Now())
		for name, tt := range map[string]struct {
			gained time.Duration
			left   time.Duration
			change func(l *lane)
			others func(i int, l *lane)
			want   bool
		}{
			"it stepped":                 {gained: time.Second, left: time.Minute, want: true},
			"nobody speaks for it":       {left: time.Minute, want: true},
			"nobody has for two seconds": {left: time.Minute, change: func(l *lane) { l.guard.clock.began = now - outOfStepFor }, want: true},
			"nobody has for less":        {left: time.Minute, change: func(l *lane) { l.guard.clock.began = now - outOfStepFor + 1 }},
			"somebody watches it":        {left: time.Minute, change: func(l *lane) { l.guard.clock.watched = true }},
			"it is good":                 {gained: time.Second, left: time.Minute, change: func(l *lane) { l.guard.clock.good = true }},
			"it is down":                 {gained: time.Second, left: time.Minute, change: func(l *lane) { l.guard.clock.known = false }},
			"it is good again soon":      {gained: time.Second, left: outOfStepFor},
			"it is good again later":     {gained: time.Second, left: outOfStepFor + 1, want: true},
			"two others do not vote":     {gained: time.Second, left: time.Minute, others: func(i int, l *lane) { l.guard.clock.good = i > 2 }},
			"one other does not vote":    {gained: time.Second, left: time.Minute, others: func(i int, l *lane) { l.guard.clock.good = i > 1 }, want: true},
			"it gained, and two others with it": {gained: time.Second, left: time.Minute, others: func(i int, l *lane) {
				if i < 3 {
					l.guard.clock.found = now - 2*time.Second
				}
			}},
			"it gained, and one other with it": {gained: time.Second, left: time.Minute, others: func(i int, l *lane) {
				if i < 2 {
					l.guard.clock.found = now - 2*time.Second
				}
			}, want: true},
		} {
			l := p.views(tt.gained, func(i int, k *clockView) {
				k.began, k.asked = now-time.Minute, now
				if i == 0 && tt.gained > 0 {
					k.before, k.found, k.began = now-3*time.Second, now-2*time.Second, now-2*time.Second
				}
			})
			for i, other := range p.fleet.view.Load().masters {
				other.mu.Lock()
				if k := &other.guard.clock; i == 0 {
					k.good, k.reason, k.until = false, reason, time.Now().Add(tt.left)
					if tt.change != nil {
						tt.change(other)
					}
				} else if k.good = true; tt.others != nil {
					tt.others(i, other)
				}
				other.mu.Unlock()
			}
			if got := p.fleet.outOfStep(l); got != map[bool]string{true: reason}[tt.want] {
				s.Errorf("%s: got %q, want it %t", name, got, tt.want)
			}
		}
		for _, l := range p.fleet.view.Load().masters {
			l.mu.Lock()
			l.guard.clock.good = true
			l.mu.Unlock()
		}
	})
}

// Nobody watches if a quorum of masters, read since this one was first read, have no statement of another client.
func TestWhetherNobodyWatches(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		const began = 60 * time.Second
		for name, tt := range map[string]struct {
			change func(i int, k *clockView)
			nobody bool
			stale  int
		}{
			"no statement anywhere":   {func(int, *clockView) {}, true, 0},
			"statements on two":       {func(i int, k *clockView) { k.watched = i > 2 }, true, 0},
			"statements on three":     {func(i int, k *clockView) { k.watched = i > 1 }, false, 0},
			"two are not connected":   {func(i int, k *clockView) { k.known = i <= 2 }, true, 0},
			"three are not connected": {func(i int, k *clockView) { k.known = i <= 1 }, false, 0},
			"two were read before": {func(i int, k *clockView) {
				if i > 2 {
					k.asked = began - 1
				}
			}, true, 2},
			"three were read before": {func(i int, k *clockView) {
				if i > 1 {
					k.asked = began - 1
				}
			}, false, 3},
			"all were read as it was": {func(i int, k *clockView) { k.asked = began }, true, 0},
			"its own reading is of before": {func(i int, k *clockView) {
				if i != 1 && i != 2 {
					k.asked = began - 1
				}
			}, true, 2},
			"three of before, one with statements": {func(i int, k *clockView) {
				if i > 1 {
					k.asked = began - 1
				}
				k.watched = i == 4
			}, false, 2},
		} {
			l := p.views(0, func(i int, k *clockView) {
				if k.asked = began + 1; i == 0 {
					k.began = began
				}
				tt.change(i, k)
			})
			if nobody, stale := p.fleet.nobodyWatches(l); nobody != tt.nobody || len(stale) != tt.stale || slices.Contains(stale, l) {
				s.Errorf("%s: nobody watches %t, %d readings are stale; want %t and %d", name, nobody, len(stale), tt.nobody, tt.stale)
			}
		}
	})
}

// What a lane says of its clock to others.
func TestWhatALaneSaysOfItsClock(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		for name, tt := range map[string]struct {
			change    func(l *lane)
			unvouched bool
			asks      bool // again, early
			source    copying.Source
			good      bool
		}{
			"good":                  {change: func(l *lane) { l.guard.clock.good = true }, source: copying.Source{Good: true}, good: true},
			"nobody speaks for it":  {change: func(l *lane) {}, unvouched: true},
			"it is vouched for":     {change: func(l *lane) { l.guard.clock.vouched = true }},
			"it gained":             {change: func(l *lane) { l.guard.clock.gained = 1 }},
			"it is leaving":         {change: func(l *lane) { l.leaving = true }},
			"somebody watches it":   {change: func(l *lane) { l.guard.clock.watched = true }, asks: true},
			"watched, and good":     {change: func(l *lane) { l.guard.clock.watched, l.guard.clock.good = true, true }, source: copying.Source{Good: true}, good: true},
			"watched, asked lately": {change: func(l *lane) { l.guard.clock.watched = true; l.guard.clock.asked++ }},
			"watched, and busy":     {change: func(l *lane) { l.guard.clock.watched, l.state = true, laneWaiting }},
			"down":                  {change: func(l *lane) { l.state = laneBroken }, unvouched: true, good: true},
			"it may evict":          {change: func(l *lane) { l.guard.clock.good, l.guard.refusal = true, "it may evict" }, source: copying.Source{Refused: true}, good: true},
			"it was read":           {change: func(l *lane) { l.guard.clock.copied.Begun, l.guard.clock.copiedBeat = true, 8 }, unvouched: true, source: copying.Source{Beat: 8, Read: true}},
			"this process's":        {change: func(l *lane) { l.guard.clock.good, l.guard.clock.same = true, true }, source: copying.Source{Good: true, Read: true}, good: true},
		} {
			l := p.idleLane()
			l.guard.clock.good = false
			l.guard.clock.asked = p.own.At(time.Now()) - p.opts.Heartbeat/5
			tt.change(l)
			if l.askAgainLocked(time.Now()); l.heartbeatDue != tt.asks {
				s.Errorf("%s: asks again %t, want %t", name, l.heartbeatDue, tt.asks)
			}
			source := l.source()
			if ring := source.Ring; (ring == nil) != l.guard.clock.same || ring != nil && ring.Begun != tt.source.Read {
				s.Errorf("%s: got the readings %v", name, ring)
			}
			if source.Ring = nil; source != tt.source {
				s.Errorf("%s: as a source %+v, want %+v", name, source, tt.source)
			}
			if good, _, _ := l.doubted(); good != tt.good || l.unvouched() != tt.unvouched {
				s.Errorf("%s: good %t, unvouched %t; want %t and %t", name, good, l.unvouched(), tt.good, tt.unvouched)
			}
		}
	})
}

// What a heartbeat tells of a clock, and asks for: a statement up to a beat where it is in step, else one of others, above the first beat that was counted
// after the first reading.
func TestWhatAHeartbeatTellsOfAClock(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		for name, tt := range map[string]struct {
			k             clockGuard
			leaving       bool
			stated, first int64
		}{
			"in step":                   {clockGuard{inStep: true, trusting: trusting{stated: 9, first: 3}}, false, 9, 0},
			"not in step":               {clockGuard{trusting: trusting{first: 3}}, false, 0, 3},
			"its first beat is 1":       {clockGuard{trusting: trusting{first: 1}}, false, 0, 1},
			"there is no first reading": {clockGuard{}, false, 0, -1},
			"leaving":                   {clockGuard{inStep: true, trusting: trusting{stated: 9}}, true, -1, 0},
		} {
			l := p.idleLane()
			l.guard.clock = tt.k
			l.guard.clock.statedGain = 1500 * time.Nanosecond
			args, first := l.watchArgs(tt.leaving)
			if first != tt.first || args[1] != tt.stated || args[3] != tt.first || args[2] != int64(2) || args[5] != statementMax.Milliseconds() {
				s.Errorf("%s: got %v, first %d; want %d stated, with a gain of 2 µs, above %d", name, args, first, tt.stated, tt.first)
			}
		}
	})
}
