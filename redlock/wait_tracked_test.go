package redlock

// Goal: a waiter that is alone gets what it waits for at once when it is free on a quorum, whatever masters came and went while it waited. Method:
// two clients in virtual time; masters are stopped, continued, killed, restarted and cut off between LOCK, the wait and UNLOCK.

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/quorum"
	"redlockd/redlock/redisproc"
)

// wakeWithin is what passes at most from the moment when a quorum of masters is free of what a waiter waits for, beside two round trips.
const wakeWithin = 50 * ms

// waitKind is something that a waiter waits for: how another client holds it, and releases it.
type waitKind struct {
	name    string
	keys    []string
	hold    func(p *proxy) (release func())
	request LockRequest
}

// releases is a holder's LOCK and its UNLOCK.
func releases(req LockRequest) func(p *proxy) func() {
	return func(p *proxy) func() {
		p.s.Helper()
		c := p.lock(req)
		if !c.Held {
			p.s.Fatalf("LOCK of the holder: got %+v, want held", c.Result)
		}
		return func() { p.startUnlock(c.Token, cmp.Or(c.Slot, req.Resources[len(req.Resources)-1])) }
	}
}

// waitKinds are all kinds of waits for one job that is held for ttl.
func waitKinds(ttl time.Duration) []waitKind {
	const k = 3
	return []waitKind{
		{"plain", []string{"job"}, releases(one("job", ttl)), one("job", ttl)},
		{"several", []string{"a", "job", "z"}, releases(one("job", ttl)), several(ttl, "a", "job", "z")},
		{"a slot", []string{"job#0", "job#1", "job#2"}, func(p *proxy) func() {
			var release func()
			for range k {
				release = releases(one("job", ttl).of(k))(p)
			}
			return release
		}, one("job", ttl).of(k)},
		{"a reader", []string{"job"}, releases(one("job", ttl)), one("job", ttl).sharing()},
		{"after a reader", []string{"job"}, releases(one("job", ttl).sharing()), one("job", ttl)},
		{"after SET NX", []string{"job"}, func(p *proxy) func() {
			if c := p.commit(setNX("job", longValue, ttl)); !c.Held {
				p.s.Fatalf("SET NX: got %+v, want set", c.Result)
			}
			return func() { p.beginCommit(compareAndDelete("job", longValue)) }
		}, one("job", ttl)},
	}
}

// wantWoken has the holder release, and checks that the waiter is granted in time.
func (s *stage) wantWoken(what string, waiter *proxy, c *call, release func()) {
	s.Helper()
	if c.done.Load() {
		s.Fatalf("%s: got %+v before the release, want nothing", what, c.Result)
	}
	began := time.Now()
	release()
	waiter.finish(c)
	if took := c.began.Add(c.took).Sub(began); !c.Held || took > wakeWithin {
		s.Errorf("%s: got %+v %v after the release, want it within %v", what, c.Result, took, wakeWithin)
	}
}

// A lock is on three masters, of which one stops for good while somebody waits: the two others are fewer than a quorum, and tell it all the same.
// Another one may stop right before the release: then one of the three is enough.
func TestHoldersThatCanSpeakWake(t *testing.T) {
	for _, kind := range slices.Concat(waitKinds(50*time.Second), waitKinds(51*time.Second)) {
		t.Run(kind.name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p, other := s.open(), s.open()
				p.subscribed()
				s.freeze(3, 4)
				time.Sleep(600 * ms) // it is known of both, so they are not asked
				release := kind.hold(other)
				time.Sleep(200 * ms)
				s.thaw(3, 4)
				time.Sleep(time.Second)
				s.freeze(2)
				time.Sleep(3 * time.Second) // its connections are given up
				c := p.begin(kind.request.waits(40 * time.Second))
				time.Sleep(3 * time.Second)
				if kind.request.TTL > 50*time.Second {
					s.freeze(1)
				}
				s.wantWoken("the waiter", p, c, release)
			})
		})
	}
}

// partlyHeld has a lock of another client on the first masters, three or two of which can speak: it was taken while m4 and m5 stood still.
func (s *stage) partlyHeld(speak int) (p, other *proxy, held *call) {
	s.Helper()
	p, other = s.open(), s.open()
	p.subscribed()
	s.freeze(3, 4)
	time.Sleep(600 * ms) // it is known of both, so they are not asked
	held = other.lock(one("r", time.Minute))
	s.thaw(3, 4)
	time.Sleep(time.Second)
	if speak == 2 {
		s.freeze(2)
		time.Sleep(3 * time.Second) // its connections are given up
	}
	s.wantOn("r", held.Token, "11100")
	return p, other, held
}

// What a master announces between its answer and the moment when all have answered is not lost.
func TestChangeBeforeTheReplyWakes(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, _, _ := s.partlyHeld(3)
		p.delay(0, 20*ms, 1, 2, 3, 4) // the lanes; m1 answers and announces at once
		c := p.begin(one("r", time.Minute).waits(30 * time.Second))
		time.Sleep(25 * ms) // denied after 20 ms, and observing
		s.do(0, "DEL", "r") // free on m1, m4, m5
		began := time.Now()
		p.finish(c)
		if took := time.Since(began); !c.Held || took > wakeWithin+2*20*ms {
			s.Errorf("got %+v %v after the change, want held within 50ms and two round trips of 20ms", c.Result, took)
		}
	})
}

// A master that was silent may be free of the key: the end of the key on one other is then enough.
func TestKeyThatEndsBesideSilentMasters(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, _, _ := s.partlyHeld(3)
		s.freeze(3, 4)
		time.Sleep(600 * ms)
		s.do(0, "PEXPIRE", "r", 2040)
		ends := time.Now().Add(2040 * ms)
		c := p.begin(one("r", time.Minute).waits(30 * time.Second))
		time.Sleep(time.Second)
		s.thaw(3, 4)
		p.finish(c)
		// The next heartbeat has m1 announce the end, too, but that is later.
		if late := c.began.Add(c.took).Sub(ends); !c.Held || late > 5*ms {
			s.Errorf("got %+v %v after the end, want held at once", c.Result, late)
		}
	})
}

// A master that was flushed announces nothing of what it has shown before.
func TestFlushCountsAsAChange(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, _, _ := s.partlyHeld(3)
		p.begin(one("r", time.Minute).waits(30 * time.Second))
		before := p.Stats().Wakeups
		s.do(0, "FLUSHALL")
		time.Sleep(2 * ms)
		if got := p.Stats().Attempts; got < 2 || p.Stats().Wakeups != before {
			s.Errorf("FLUSHALL of a master that is relied on: %d attempts, want a second one", got)
		}
	})
}

// What the waiter's own client removes is not announced to it: here the second release of a lock whose UNLOCK had overtaken its LOCK.
func TestOwnRemovalIsNotReliedOn(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.subscribed()
		p.align()
		other.holdRequests(3, 4)
		p.unlock(other.lock(one("r", time.Minute)).Token, "r")
		s.doOn([]int{0, 1}, "SET", "r", "another", "PX", 60_000)
		s.freeze(2)
		other.heal(3, 4) // the LOCK comes
		c := p.begin(one("r", time.Minute).waits(30 * time.Second))
		s.wantSet("r", "11011")
		time.Sleep(time.Second)
		s.wantSet("r", "11000")
		s.do(0, "DEL", "r") // free on m1, m4, m5
		began := time.Now()
		p.finish(c)
		if took := time.Since(began); !c.Held || took > wakeWithin {
			s.Errorf("got %+v %v after the release, want held within %v", c.Result, took, wakeWithin)
		}
	})
}

// Where the key is absent, others try to take it: that is no release, and wakes nobody.
func TestAttemptsOfOthersWakeNobody(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, _, _ := s.partlyHeld(2)
		p.begin(one("r", time.Minute).waits(30 * time.Second))
		before := p.Stats()
		const length = 2 * time.Second
		for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(ms) {
			s.do(3, "SET", "r", "another")
			s.do(3, "DEL", "r")
		}
		after := p.Stats()
		if woken, asked := after.Wakeups-before.Wakeups, after.Attempts-before.Attempts; woken > 0 || asked > uint64(length/p.opts.RetryDelayMin) {
			s.Errorf("%d wake-ups and %d attempts in %v of attempts of others, want none, and one after each retry delay", woken, asked, length)
		}
	})
}

// Waiters of several clients, none of which has enough to rely on, do not drive each other.
func TestWaitersWithoutAQuorumOfHoldersAskSeldom(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		proxies := []*proxy{s.open(), s.open(), s.open()}
		_, other, held := s.partlyHeld(2)
		var calls []*call
		for _, p := range proxies {
			calls = append(calls, p.begin(one("r", time.Minute).waits(40*time.Second)))
		}
		time.Sleep(10 * time.Second)
		for i, p := range proxies {
			s.Logf("client %d: %d attempts in 10 s, %d wake-ups", i, p.Stats().Attempts, p.Stats().Wakeups)
			if got := p.Stats().Attempts; got > uint64(10*time.Second/p.opts.RetryDelayMin) {
				s.Errorf("client %d: %d attempts in 10 s, want at most one in %v", i, got, p.opts.RetryDelayMin)
			}
		}
		began := time.Now()
		other.unlock(held.Token, "r")
		s.until("one of them has it", func() bool {
			return calls[0].done.Load() || calls[1].done.Load() || calls[2].done.Load()
		})
		if took := time.Since(began); took > wakeWithin {
			s.Errorf("the first of three waiters: granted %v after the release, want it within %v", took, wakeWithin)
		}
	})
}

// trouble has masters come and go.
type trouble struct {
	*stage
	rng      *rand.Rand
	proxies  []*proxy
	members  []int // which of the masters they are, in the order of Client.Masters
	restarts bool  // also without their data
	down     map[int]bool
	patience time.Duration // for how long a master may be doubted
	story    string
}

func (t *trouble) note(format string, args ...any) { t.story += fmt.Sprintf(format+"; ", args...) }

// change has some masters stop or go on, and leaves a quorum.
func (t *trouble) change() {
	for range 1 + t.rng.IntN(3) {
		at := t.rng.IntN(len(t.members))
		i := t.members[at]
		switch m := t.masters[i]; {
		case t.down[i]:
			m.Thaw()
			delete(t.down, i)
			t.note("m%d goes on", i+1)
		case t.rng.IntN(4) == 0:
			t.proxies[0].fleet.view.Load().masters[at].closeInvalidations()
			t.note("m%d cuts a subscription off", i+1)
		case t.rng.IntN(4) == 0:
			m.Cut()
			t.note("m%d cuts all connections", i+1)
		case len(t.down) >= len(t.members)-quorum.Of(len(t.members)):
		case t.restarts && len(t.down) == 0 && t.rng.IntN(4) == 0:
			m.Crash(t.rng.IntN(2) == 0)
			m.Restart()
			t.note("m%d restarts", i+1)
			time.Sleep(100 * ms) // until it is noticed
			t.settle()
		default:
			m.Freeze()
			t.down[i] = true
			t.note("m%d stops", i+1)
		}
	}
	pause := time.Duration(t.rng.Int64N(int64(400 * ms)))
	t.note("%v", pause)
	time.Sleep(pause)
}

// settle waits until all masters vote that do not stand still.
func (t *trouble) settle() {
	defer func() {
		if t.Failed() {
			t.Log(t.story)
			for _, m := range t.proxies[0].Masters() {
				t.Logf("%s: %s %s", m.Addr, m.State, m.Reason)
			}
		}
	}()
	t.untilIn(t.patience, "masters that go on vote, and will for a while", func() bool {
		for _, p := range t.proxies {
			lanes := p.fleet.view.Load().masters
			for i, state := range p.states() {
				if !t.down[t.members[i]] && (state != 'u' || lanes[i].unconfirmedIn(2*wakeWithin)) {
					return false
				}
			}
		}
		return true
	})
	t.proxies[0].align()
}

// unconfirmedIn tells whether the vote of a master counts no more after so long, or a third of that for which it counts, unless a new connection reaches it.
func (l *lane) unconfirmedIn(ahead time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.guard.unconfirmed(l.fleet.own.At(time.Now())+min(ahead, l.guard.recheckWithin/3)) > 0
}

// A hundred such stories for each kind.
func TestWaitersAreWokenWhateverMastersDo(t *testing.T) {
	drawn := make([]uint64, 100)
	for i := range drawn {
		drawn[i] = uint64(i)
	}
	for _, kind := range waitKinds(time.Minute) {
		t.Run(kind.name, func(t *testing.T) {
			for _, seed := range redisproc.Some(10, drawn) {
				inVirtualTime(t, 5, func(s *stage) {
					p, other := s.open(), s.open()
					p.subscribed()
					m := &trouble{stage: s, rng: rand.New(rand.NewPCG(seed, 1)), proxies: []*proxy{p, other}, members: []int{0, 1, 2, 3, 4}, restarts: true, down: map[int]bool{}, patience: time.Minute}
					m.change()
					m.settle()
					release := kind.hold(other)
					m.note("LOCK")
					m.change()
					c := p.begin(kind.request.waits(50 * time.Second))
					m.note("LOCK WAIT")
					for range m.rng.IntN(4) {
						m.change()
					}
					m.settle()
					time.Sleep(time.Duration(m.rng.Int64N(int64(2 * time.Second))))
					s.wantWoken(fmt.Sprintf("seed %d: %s", seed, m.story), p, c, release)
					s.thaw(0, 1, 2, 3, 4)
					synctest.Wait()
				})
			}
		})
	}
}

// A master forgets what it has promised to announce of a key as soon as the key is changed. It does not announce what the waiter's own client changes, also
// where the key stays: the lock is extended through the redlockd at which others wait for it, and released through another one.
func TestOwnChangeIsNotReliedOn(t *testing.T) {
	const ttl = 50 * time.Second
	mine := one("job", ttl)
	mine.Token = longValue
	const waiters, other = 0, 1
	for _, test := range []struct {
		name   string
		holder int // where it was locked
		change func(s *stage, p *proxy)
	}{
		{"EXTEND", other, func(s *stage, p *proxy) { p.extend(longValue, ttl, "job") }},
		{"EXPIRE", other, func(s *stage, p *proxy) { p.commit(compareAndExpire("job", longValue, ttl)) }},
		{"LOCK again", waiters, func(s *stage, p *proxy) { p.lock(mine) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				proxies := []*proxy{s.open(), s.open()}
				p := proxies[waiters]
				p.subscribed()
				proxies[test.holder].lock(mine)
				c := p.begin(one("job", ttl).waits(5 * time.Minute))
				time.Sleep(200 * ms) // it has observed the key
				test.change(s, p)
				time.Sleep(10 * ms)
				s.wantWoken("the waiter", p, c, func() { proxies[other].startUnlock(longValue, "job") })
			})
		})
	}
}

// What the masters have answered to an observation, each by itself: what is tracked, on how many the key is absent, and when a quorum is free of it. A
// master that sent an error has said nothing, and may be free of the key.
func TestWhatAnObservationShows(t *testing.T) {
	held := func(ttl time.Duration) answer { return answer{known: true, found: true, ttl: ttl} }
	armed := answer{known: true, found: true, ttl: time.Second, armed: true}
	free, silent := answer{known: true, ttl: -2}, answer{}
	failed := answer{known: true, err: ErrNoQuorum}
	half := answer{known: true, found: true, ttl: 9 * time.Second, armed: true, err: ErrNoQuorum} // it has the key, and an error came for its TTL
	for _, tt := range []struct {
		answers         []answer
		absent, awaited quorum.Mask
		absentOn        int
		freeIn          time.Duration
	}{
		{[]answer{held(5), held(4), held(3), held(2), held(1)}, 0, 0, 0, 3},
		{[]answer{held(5), held(4), held(3), free, free}, 0b11000, 0, 2, 3},
		{[]answer{held(5), held(4), held(3), silent, failed}, 0, 0, 0, 3},
		{[]answer{held(5), held(4), held(3), half, silent}, 0, 0, 0, 3},
		{[]answer{held(5), held(4), free, half, failed}, 0b100, 0, 1, 0},
		{[]answer{held(0), held(7), held(8), held(-1), held(-1)}, 0, 0, 0, 8},
		{[]answer{held(7), held(8), held(-1), held(-1), held(-1)}, 0, 0, 0, 0},
		{[]answer{armed, held(1), armed, free, half}, 0b01000, 0b00101, 1, 1},
		{[]answer{free, free, free, armed, armed}, 0b00111, 0b11000, 3, 0},
	} {
		k := tracked{awaited: quorum.All, changed: 0b10}
		k.observe(tt.answers)
		if want := (tracked{awaited: tt.awaited, absent: tt.absent, changed: 0b10}); k != want {
			t.Errorf("%+v: tracked: got %+v, want %+v", tt.answers, k, want)
		}
		if n, in := absentOn(tt.answers), freeByQuorum(tt.answers, 3); n != tt.absentOn || in != tt.freeIn {
			t.Errorf("%+v: absent on %d, free in %d ns, want %d and %d", tt.answers, n, in, tt.absentOn, tt.freeIn)
		}
	}
}

// How long a head pauses after an observation. It asks soon where the key is free and the votes were split; late where masters must announce the end; and
// no later than the end of the keys.
func TestPauseAfterAnObservation(t *testing.T) {
	const delay = 30 * ms
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.RetryDelayMin, o.RetryDelayMax = delay, delay })
		v := p.fleet.view.Load()
		pause := func(w *waiter, absent bool, free time.Duration) time.Duration {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.waiting.pauseAfter(w, v, absent, free)
		}
		waits := func(awaited, changed quorum.Mask) *waiter {
			return &waiter{op: &Op{kind: plainLock{}}, entry: &entry{}, tracked: [1]tracked{{awaited: awaited, changed: changed}}}
		}
		for splits, most := range map[int]time.Duration{0: ms, 1: 2 * ms, 4: 16 * ms, 5: delay, 40: delay} {
			longest := time.Duration(0)
			for range 200 {
				w := waits(0, 0)
				w.splits = splits
				if longest = max(longest, pause(w, true, 0)); w.splits != splits+1 {
					t.Fatalf("the votes were split %d times before: %d now", splits, w.splits)
				}
			}
			if longest > most || longest < most*8/10 {
				t.Errorf("the votes were split %d times before: the longest pause of 200 is %v, want nearly %v", splits, longest, most)
			}
		}
		for _, tt := range []struct {
			what             string
			awaited, changed quorum.Mask
			free, want       time.Duration
		}{
			{"three must announce it", 0b111, 0, 0, invalidationPatience * delay},
			{"three must announce it, before the keys end", 0b111, 0, time.Second, time.Second + ms},
			{"which is now", 0b111, 0, 1, ms + 1},
			{"two promise to announce it", 0b11, 0, 0, delay},
			{"two promise to announce it, before the keys end", 0b11, 0, 5 * ms, 6 * ms},
			{"the keys end later", 0b11, 0, time.Minute, delay},
			{"one of three has announced it", 0b111, 1, 0, 0},
		} {
			w := waits(tt.awaited, tt.changed)
			w.splits, w.entry.queue.fairness.windowOpen = 3, true
			if got := pause(w, false, tt.free); got != tt.want || w.splits != 0 || w.entry.queue.fairness.windowOpen {
				t.Errorf("%s: a pause of %v, %d splits in a row, a window %v; want %v, none and none", tt.what, got, w.splits, w.entry.queue.fairness.windowOpen, tt.want)
			}
			if tt.changed != 0 && w.tracked[0] != (tracked{awaited: quorum.All}) {
				t.Errorf("%s: tracked: got %+v, want it anew", tt.what, w.tracked[0])
			}
		}
		w := waits(0, 0)
		search := &slotSearch{count: 3, tracked: []tracked{{awaited: 0b111}, {awaited: 0b111}, {awaited: 0b111, changed: 1}}}
		w.op.kind = search
		if got := pause(w, false, time.Second); got != 0 || search.next != 2+1 {
			t.Errorf("the third slot may be free: a pause of %v, and the next attempt is for slot %d, want none, for the third", got, search.next)
		}
		for _, free := range []time.Duration{0, 1, ms, time.Minute} {
			want := delay
			if free > 0 {
				want = min(delay, free+ms)
			}
			if got := p.opts.retryDelay(free); got != want {
				t.Errorf("the delay of a retry while the keys live for %v: got %v, want %v", free, got, want)
			}
		}
	})
}

// Nor does it announce that it has shortened keys after clocks went back.
func TestKeysThatAreShortenedAreNotReliedOn(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.subscribed()
		s.doAll("SET", "job", "a library", "PX", 10*time.Hour.Milliseconds())
		c := p.begin(one("job", time.Minute).waits(5 * time.Minute))
		s.stepClocks(-2*time.Second, 0, 1, 2, 3, 4)
		for i := range s.masters {
			for s.do(i, "PTTL", "job").(int64) > time.Hour.Milliseconds() {
				time.Sleep(10 * ms)
			}
		}
		time.Sleep(wakeWithin) // it may have asked, if it does not rely on them
		s.wantWoken("the waiter", p, c, func() { s.doAll("DEL", "job") })
	})
}
