package redlock

// Goal: callers who ask for more than the masters can do are slowed down, and nobody loses a quorum to them; what waits for room has not
// begun, and keeps its order. Method: in virtual time, masters whose commands have a price (memmaster.SetCost) and callers who
// always have many operations under way; and, for the order, lanes that a frozen majority keeps full.

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/memmaster"
	"redlockd/redlock/redisproc"
)

// priced gives the commands of all masters a price: so much each, and so much for every 1000 bytes.
func (s *stage) priced(each, perThousand time.Duration) {
	for _, m := range s.masters {
		m.SetCost(func(args [][]byte) time.Duration {
			n := 0
			for _, arg := range args {
				n += len(arg)
			}
			return each + time.Duration(n)*perThousand/1000
		})
	}
}

// flood are operations of one kind. It is their Completer.
type flood struct {
	again func(i int, to Completer) // starts another one with each result, until the flood is stopped; nil: does not

	mu                               sync.Mutex
	started, ended, answered, failed int
	stopped                          bool
	firstErr                         error
}

func (f *flood) Done(_ *Op, r Result) Flusher {
	f.mu.Lock()
	f.ended++
	switch {
	case r.Err != nil:
		f.failed++
		f.firstErr = cmp.Or(f.firstErr, r.Err)
	default:
		f.answered++
	}
	i, again := f.started, f.again != nil && !f.stopped && r.Err == nil
	if again {
		f.started++
	}
	f.mu.Unlock()
	if again {
		f.again(i, f)
	}
	return nil
}

// begin starts n operations.
func (f *flood) begin(n int, start func(i int, to Completer)) {
	for range n {
		f.mu.Lock()
		i := f.started
		f.started++
		f.mu.Unlock()
		start(i, f)
	}
}

// end stops the flood and waits for what is under way.
func (f *flood) end(s *stage) {
	s.Helper()
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	s.until("the end of the flood", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.ended == f.started
	})
}

// victims are locked and released one after the other by another share. It returns the longest time that one took.
func (s *stage) victims(u of, n int) (longest time.Duration) {
	s.Helper()
	for i := range n {
		c := u.begin(one(fmt.Sprint("victim:", i), time.Minute))
		u.finish(c)
		if c.Err != nil || !c.Held {
			s.Fatalf("LOCK %d of another share: got %v, %v", i, c.Held, c.Err)
		}
		longest = max(longest, c.took)
		free := &call{Op: Op{Share: u.share}, began: time.Now()}
		u.StartUnlock(&free.Op, []string{fmt.Sprint("victim:", i)}, c.Token, free)
		if u.finish(free); free.Err != nil || !free.Held {
			s.Fatalf("UNLOCK %d of another share: got %v, %v", i, free.Held, free.Err)
		}
		longest = max(longest, free.took)
	}
	return longest
}

func TestOverloadSlowsDown(t *testing.T) {
	long := strings.Repeat("x", 1000)
	type testCase struct {
		name     string
		underWay int
		distance time.Duration
		bursts   int // in place of a new operation for each result
		start    func(p *proxy, op *Op, i int, to Completer)
		longest  time.Duration // that a LOCK of another share may take
	}
	for _, tt := range redisproc.Some(2, []testCase{
		{"LOCK of short names", 4096, 100 * time.Microsecond, 0, func(p *proxy, op *Op, i int, to Completer) {
			p.StartLock(op, one(fmt.Sprint("k", i), time.Minute), to)
		}, 40 * ms},
		{"LOCK at far masters", 4096, 10 * ms, 0, func(p *proxy, op *Op, i int, to Completer) {
			p.StartLock(op, one(fmt.Sprint("k", i), time.Minute), to)
		}, 80 * ms},
		{"LOCK FENCE of long names and tokens", 4096, 100 * time.Microsecond, 0, func(p *proxy, op *Op, i int, to Completer) {
			req := one(fmt.Sprint("k", i, long), time.Minute).as(fmt.Sprint("t", i, long))
			req.Fence = true
			p.StartLock(op, req, to)
		}, 40 * ms},
		{"UNLOCK of what is not held", 4096, 100 * time.Microsecond, 0, func(p *proxy, op *Op, i int, to Completer) {
			p.StartUnlock(op, []string{fmt.Sprint("k", i)}, "token", to)
		}, 40 * ms},
		{"PUBLISH of 30 KB", 1000, 100 * time.Microsecond, 5, func(p *proxy, op *Op, i int, to Completer) {
			p.StartPublish(op, "channel", strings.Repeat(long, 30), to)
		}, 40 * ms},
	}) {
		ok := t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p, share, f := s.open(), &Share{}, &flood{}
				p.delay(tt.distance/2, tt.distance/2, 0, 1, 2, 3, 4)
				time.Sleep(time.Second) // the distance is known
				start := func(i int, to Completer) { tt.start(p, &Op{Share: share}, i, to) }
				s.priced(50*time.Microsecond, 20*time.Microsecond) // 1024 short ones take a master more than 51 ms
				if tt.bursts == 0 {
					f.again = start
				}
				f.begin(tt.underWay, start)
				for range max(tt.bursts, 1) {
					if longest := s.victims(of{p, &Share{}}, 40); longest > tt.longest {
						s.Errorf("a LOCK of another share took %v", longest)
					}
					if tt.bursts > 0 {
						s.until("half of the burst was sent", func() bool {
							f.mu.Lock()
							defer f.mu.Unlock()
							return f.started-f.ended <= tt.underWay/2
						})
						f.begin(tt.underWay, start)
					}
				}
				time.Sleep(200 * ms)
				f.end(s)
				if f.failed > 0 || f.answered < 1000 {
					s.Errorf("of the flood %d were answered and %d failed, with %v", f.answered, f.failed, f.firstErr)
				}
				p.wantStates("uuuuu")
				for i, m := range p.Masters() {
					if m.Timeouts > 0 {
						s.Errorf("master %d was given up %d times", i+1, m.Timeouts)
					}
				}
				if got := p.Stats().Deferred; got != 0 {
					s.Errorf("%d operations wait", got)
				}
			})
		})
		if !ok {
			return // one that fails takes long
		}
	}
}

// crowd has all masters but some silent for a moment, and starts LOCKs of the share until the next one would wait for room.
func (p *proxy) crowd(share *Share) (calls []*call) {
	p.s.Helper()
	p.s.freeze(0, 1, 2, 3, 4)
	for i := 0; ; i++ {
		p.mu.Lock()
		full := p.admission.full.Load()
		p.mu.Unlock()
		if full {
			return calls
		}
		calls = append(calls, of{p, share}.begin(one(fmt.Sprint("crowd:", i), time.Minute)))
		if i == 0 {
			synctest.Wait() // it departs alone
		}
	}
}

// What waits for room keeps its order, within its share.
func TestOrderOfWhatWaitsForRoom(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		share := &Share{}
		u := of{p, share}
		crowd := p.crowd(share)
		old := &call{Op: Op{Share: share}, began: time.Now()}
		lock := u.begin(one("r", time.Minute).as("token"))
		p.StartUnlock(&old.Op, []string{"r"}, "token", old)
		again := u.begin(one("r", time.Minute).as("token"))
		deleted := &call{Op: Op{Share: share}, began: time.Now()}
		p.StartCommit(&deleted.Op, []Change{compareAndDelete("r", "token")}, deleted)
		set := &call{Op: Op{Share: share}, began: time.Now()}
		p.StartCommit(&set.Op, []Change{setNX("r", "other", time.Minute)}, set)
		extended := &call{Op: Op{Share: share}, began: time.Now()}
		p.StartExtend(&extended.Op, []string{"r"}, "other", time.Minute, extended)
		read := &call{Op: Op{Share: share}, began: time.Now()}
		p.StartRead(&read.Op, []string{"r"}, read)
		if got := p.Stats(); got.Deferred != 7 || got.Attempts != uint64(len(crowd)) {
			s.Errorf("%d operations wait and %d attempts were made, want 7 and %d", got.Deferred, got.Attempts, len(crowd))
		}
		time.Sleep(ms)
		s.thaw(0, 1, 2, 3, 4)
		for _, c := range crowd {
			p.finish(c).want(s, "LOCK of the crowd", "held", c.took)
		}
		for i, c := range []*call{lock, old, again, deleted, set, extended} {
			p.finish(c).want(s, fmt.Sprint("operation ", i), "held", c.took)
		}
		if p.finish(read); len(read.States) != 1 || read.States[0].Value != "other" {
			s.Errorf("at the end r reads as %+v", read.States)
		}
		s.wantOn("r", "other", "11111")
	})
}

// Shares have their turns, and so have the flows of one share, by cost and whatever one of them has waiting.
func TestTurns(t *testing.T) {
	for _, tt := range []struct {
		name   string
		modest Op
	}{
		{"shares", Op{Share: &Share{}}},
		{"flows", Op{Flow: &Flow{}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open()
				greedy := Op{Share: &Share{}, Flow: &Flow{}}
				if tt.modest.Share == nil {
					tt.modest.Share = greedy.Share
				}
				begin := func(as *Op, req LockRequest) *call {
					c := &call{Op: Op{Share: as.Share, Flow: as.Flow}, began: time.Now()}
					p.StartLock(&c.Op, req, c)
					return c
				}
				p.crowd(greedy.Share)
				var order []string // a master gets them in the order in which they have begun; answers come in any order
				s.masters[0].SetObserver(func(e *memmaster.Executed) {
					for _, name := range []string{"greedy", "modest"} {
						if slices.ContainsFunc(e.Args, func(arg []byte) bool { return bytes.HasPrefix(arg, []byte(name)) }) {
							order = append(order, name)
						}
					}
				})
				for i := range 1000 { // each costs as much as eight of the modest one
					begin(&greedy, one(fmt.Sprint("greedy:", i, strings.Repeat("x", 900)), time.Minute).as(strings.Repeat("t", 1000)))
				}
				for i := range 10 {
					begin(&tt.modest, one(fmt.Sprint("modest:", i), time.Minute))
				}
				// A client that is gone, and a release that takes turns with all the others.
				gone := begin(&Op{Share: tt.modest.Share, Flow: &Flow{}}, one("gone", time.Minute).waits(time.Minute))
				if !p.Unblock(&gone.Op, errors.New("gone")) || !gone.done.Load() || p.Unblock(&gone.Op, nil) {
					s.Errorf("Unblock of what waits for room: got %v", gone.Err)
				}
				unlock := &call{Op: Op{Share: greedy.Share, Flow: &Flow{}}, began: time.Now()}
				deferred := p.Stats().Deferred
				p.StartUnlock(&unlock.Op, []string{"r"}, "token", unlock)
				if got := p.Stats().Deferred; got != deferred+1 {
					s.Errorf("an UNLOCK does not wait for room: %d wait, before %d", got, deferred)
				}
				time.Sleep(ms)
				s.thaw(0, 1, 2, 3, 4)
				s.until("all have reached the master", func() bool { return len(order) >= 1010 })
				before := 0
				for i, modests := 0, 0; modests < 10 && i < len(order); i++ {
					if order[i] == "modest" {
						modests++
					} else {
						before++
					}
				}
				if len(order) != 1010 || before > 2 {
					s.Errorf("of %d, %d of the greedy one have begun before the last of the modest one, want 2 at most", len(order), before)
				}
				s.wantOn("gone", "", "00000")
				if a := &p.admission; a.flows != 0 || a.count != 0 || a.bytes != 0 || len(a.turns) != 0 || greedy.Share.queuedBytes != 0 || len(greedy.Share.flows) != 0 {
					s.Errorf("at the end something is counted as queued: %d flows, %d operations, %d bytes, %d shares", a.flows, a.count, a.bytes, len(a.turns))
				}
			})
		})
	}
}

// A client that logs in as another user while something waits for room: what it sends then takes the turns of the other share, and what
// it has sent before those of the first.
func TestFlowOfTwoShares(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		before, after, flow := &Share{}, &Share{}, &Flow{}
		p.crowd(&Share{})
		begin := func(share *Share, resource string) *call {
			c := &call{Op: Op{Share: share, Flow: flow}, began: time.Now()}
			p.StartLock(&c.Op, one(resource, time.Minute), c)
			return c
		}
		first, second, third := begin(before, "a"), begin(after, "b"), begin(before, "c")
		if len(before.flows) != 1 || len(after.flows) != 1 || before.flows[0] != flow || len(flow.queued) != 2 || after.flows[0] != &after.own {
			s.Errorf("one flow has %d operations, the first share %d flows, the second %d", len(flow.queued), len(before.flows), len(after.flows))
		}
		s.thaw(0, 1, 2, 3, 4)
		for _, c := range []*call{first, second, third} {
			p.finish(c).want(s, "LOCK", "held", c.took)
		}
		p.crowd(&Share{})
		if begin(after, "d"); flow.share != after || len(flow.queued) != 1 {
			s.Errorf("once nothing of it is queued elsewhere, the flow is not in the share of its client")
		}
		s.thaw(0, 1, 2, 3, 4)
	})
}

// While others wait beside the deep pipelines of one share, batches are small, but no smaller than one operation of each; and what comes last
// is in the next batch, because queues are filled just before it departs.
func TestBatchesInACrowd(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		a, l := &p.admission, p.fleet.view.Load().masters[0]
		ofShare := &Share{}
		begin := func(flow *Flow, n int) {
			for range n {
				c := &call{Op: Op{Share: ofShare, Flow: flow}, began: time.Now()}
				p.StartLock(&c.Op, one(fmt.Sprint("r", p.Stats().Attempts, p.Stats().Deferred), time.Minute), c)
			}
		}
		wants := func(what string, turn int) {
			s.Helper()
			if got := int(a.turn.Load()); got != turn {
				s.Errorf("%s: a batch may cost %d, want %d", what, got, turn)
			}
		}
		wants("nobody waits", costMax)
		p.crowd(ofShare)
		deep := []*Flow{{}, {}, {}}
		for _, flow := range deep {
			begin(flow, 1)
		}
		s.thaw(0, 1, 2, 3, 4)
		s.until("nobody waits", func() bool { return p.Stats().Deferred == 0 })
		time.Sleep(2 * crowdedFor)
		for _, flow := range deep {
			begin(flow, deepBurst)
		}
		p.crowd(ofShare)
		for _, flow := range deep {
			begin(flow, 100)
		}
		wants("three deep pipelines wait", costMax)
		begin(&Flow{}, 1)
		wants("and a caller beside them", costTurn)
		roomAt := func(cost int) (room bool) {
			l.mu.Lock()
			queued := l.queueCost
			l.queueCost = cost
			l.mu.Unlock()
			_, room = l.room()
			l.mu.Lock()
			l.queueCost = queued
			l.mu.Unlock()
			return room
		}
		if !roomAt(0) || !roomAt(costTurn/aheadShare-1) || roomAt(costTurn/aheadShare) {
			s.Errorf("behind a batch in flight there is room for other than an eighth of the next one")
		}
		for range 400 {
			begin(&Flow{}, 1)
		}
		wants("404 flows wait", 404)
		s.thaw(0, 1, 2, 3, 4)
		s.until("nobody waits", func() bool { return p.Stats().Deferred == 0 })
		time.Sleep(2 * crowdedFor)
		begin(deep[0], deepBurst)
		p.crowd(ofShare)
		begin(deep[0], 10)
		wants("long after that, one pipeline waits", costMax)
		ofShare = &Share{}
		begin(deep[1], 2*deepBurst)
		wants("and one of another user", costTurn)
		s.thaw(0, 1, 2, 3, 4)
	})
}

// A LOCK that came while somebody was about to begin what is queued does not wait for the lock because of that: his clock was read before.
func TestLockThatIsQueuedDoesNotWait(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		held := p.lock(one("r", time.Minute))
		begin := func(req LockRequest) *call {
			synctest.Wait() // a batch that departs meanwhile would begin what is queued
			p.admission.full.Store(true)
			c := p.startLock(req)
			p.Client.mu.Lock()
			defer p.Client.mu.Unlock()
			d := deferred{now: time.Now().Add(-time.Microsecond)}
			p.admission.next().begin(&d)
			p.admission.full.Store(false)
			return c
		}
		synctest.Wait()
		attempts := p.Stats().Attempts
		c := begin(one("r", time.Minute))
		waits := begin(one("r", time.Minute).waits(100 * ms))
		if got := p.Stats(); got.Waiters != 1 || got.Attempts != attempts+2 {
			s.Errorf("got %d waiters and %d attempts, want 1 waiter and 2 attempts", got.Waiters, got.Attempts-attempts)
		}
		p.finish(c).want(s, "LOCK", "no", 0)
		p.finish(waits).want(s, "LOCK with WAIT", "no", 100*ms)
		p.unlock(held.Token, "r")
	})
}

// A LOCK that waits for room spends its WAIT there too, and what has not begun ends with the client.
func TestWaitForRoomEnds(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		held := p.lock(one("held", time.Minute))
		share := &Share{}
		p.crowd(share)
		late := of{p, share}.begin(one("held", time.Minute).waits(20 * ms))
		longer := of{p, share}.begin(one("held", time.Minute).waits(100 * ms))
		time.Sleep(30 * ms)
		s.thaw(0, 1, 2, 3, 4)
		p.finish(late).want(s, "LOCK whose WAIT has run out", "no", 30*ms)
		p.finish(longer).want(s, "LOCK whose WAIT runs on", "no", 100*ms)
		p.unlock(held.Token, "held")

		p.align()
		p.crowd(share)
		lock := of{p, share}.begin(one("r", time.Minute))
		p.finish(lock)
		if !errors.Is(lock.Err, ErrNoQuorum) || lock.took > giveUpNeeded+20*ms {
			s.Errorf("LOCK that waits for room on masters that stay silent: got %v after %v", lock.Err, lock.took)
		}
	})
}

func TestBytesThatWaitForRoom(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		shareBytesMax := p.admission.shareMax
		share := &Share{}
		p.crowd(share)
		large := func(i int) LockRequest {
			var names []string
			for k := range MaxResources {
				names = append(names, fmt.Sprint(strings.Repeat("n", 1000), i, ":", k))
			}
			return several(time.Minute, names...)
		}
		each := stringsBytes(large(1000).Resources) + queuedOpBytes
		var calls []*call
		for i := range 2 * shareBytesMax / each {
			c := of{p, share}.begin(large(i))
			calls = append(calls, c)
			switch fits := (i+1)*each < shareBytesMax; {
			case fits && c.done.Load():
				s.Fatalf("LOCK %d: got %v", i, c.Err)
			case !fits && i > shareBytesMax/each+20:
				c.want(s, "one too many", "overloaded: at most 67108864 bytes that wait for the masters are possible", 0)
				if _, ok := errors.AsType[*ShareError](c.Err); !ok || !errors.Is(c.Err, ErrLimit) {
					s.Fatalf("one too many: got %v", c.Err)
				}
			}
		}
		set := &call{Op: Op{Share: share}, began: time.Now()}
		var changes []Change
		for i := range MaxKeys {
			changes = append(changes, setNX(fmt.Sprint(i), strings.Repeat("v", MaxValueLen), time.Minute))
		}
		p.StartCommit(&set.Op, changes, set)
		set.want(s, "SET NX, one too many", "overloaded: at most 67108864 bytes that wait for the masters are possible", 0)
		release := &call{Op: Op{Share: share}, began: time.Now()}
		p.StartUnlock(&release.Op, []string{"r1"}, "token", release)
		other := of{p, &Share{}}.begin(one("of another share", time.Minute))
		messages := &Share{} // a message counts with all of its bytes
		published := &call{Op: Op{Share: messages}, began: time.Now()}
		p.StartPublish(&published.Op, "c", strings.Repeat("m", MessageMax-1), published)
		p.mu.Lock()
		if got, want := messages.queuedBytes, MessageMax+queuedOpBytes; got != want {
			s.Errorf("a message that waits counts %d bytes, want %d", got, want)
		}
		p.mu.Unlock()
		if release.done.Load() || other.done.Load() {
			s.Errorf("UNLOCK: got %v; LOCK of another share: got %v", release.Err, other.Err)
		}
		for _, c := range calls {
			p.Unblock(&c.Op, nil)
		}
		s.thaw(0, 1, 2, 3, 4)
		p.finish(release).want(s, "UNLOCK", "no", release.took)
		p.finish(other).want(s, "LOCK of another share", "held", other.took)
		p.finish(published).want(s, "message", "held", published.took)
	})
}

// Also together the shares have a bound, and a release goes beyond both.
func TestBytesOfAllShares(t *testing.T) {
	c := new(Client)
	c.admission.shareMax = 4 << 20
	shareBytesMax := c.admission.shareMax
	fill := func(share *Share, releases bool) *ShareError {
		for {
			if err := c.admission.enqueue(&Op{onlyReleases: releases}, share, 1<<20-queuedOpBytes, nil); err != nil {
				return err.(*ShareError)
			}
		}
	}
	var shares [5]Share
	for i := range shares {
		refusal, want := fill(&shares[i], false), ShareError{Limit: LimitBytes, Max: shareBytesMax}
		if i == 4 {
			want = ShareError{Limit: LimitAllBytes, Max: shareQueues * shareBytesMax}
		}
		if *refusal != want {
			t.Errorf("share %d, with %d MiB of %d MiB: got %+v, want %+v", i, shares[i].queuedBytes>>20, c.admission.bytes>>20, *refusal, want)
		}
	}
	if refusal := fill(&shares[0], true); refusal.Limit != LimitBytes || shares[0].queuedBytes != 2*shareBytesMax {
		t.Errorf("releases of a share: got %+v with %d MiB, want room for as many once more", *refusal, shares[0].queuedBytes>>20)
	}
	if refusal := fill(&shares[4], true); refusal.Limit != LimitBytes {
		t.Errorf("releases of a share without anything queued: got %+v, want its own bound", *refusal)
	}
	if next := c.admission.next(); next != nil || c.admission.bytes != 0 || c.admission.count != 0 {
		t.Errorf("when all has left its queue, %d bytes of %d operations are counted", c.admission.bytes, c.admission.count)
	}
}

// A master without which there is no quorum is waited for longer, up to a limit. One that is not needed, because there is a quorum without
// it or because its vote does not count, is not.
func TestNeededMastersAreWaitedFor(t *testing.T) {
	for _, tt := range []struct {
		name    string
		down    []int // killed before
		learns  []int // have forgotten before
		frozen  []int
		thaw    time.Duration
		want    string
		took    time.Duration
		givenUp string
	}{
		{"all", nil, nil, []int{0, 1, 2, 3, 4}, 102 * ms, "held", 102 * ms, "[1 1 0 0 0]"},
		{"all, for too long", nil, nil, []int{0, 1, 2, 3, 4}, time.Second, "0 of 5 masters voted", giveUpNeeded, "[1 1 1 1 1]"},
		{"two", nil, nil, []int{0, 1}, 102 * ms, "held", 0, "[1 1 0 0 0]"},
		{"one of three that are left", []int{3, 4}, nil, []int{0}, 102 * ms, "held", 102 * ms, "[0 0 0 0 0]"},
		{"one of three that vote", []int{4}, []int{3}, []int{0}, 102 * ms, "held", 102 * ms, "[0 0 0 0 0]"},
		{"one that does not vote beside three that do", []int{4}, []int{3}, []int{3}, 102 * ms, "held", 0, "[0 0 0 1 0]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open(uncopied)
				for _, i := range tt.down {
					s.masters[i].Crash(false)
				}
				for _, i := range tt.learns {
					s.do(i, "FLUSHALL")
				}
				time.Sleep(time.Second) // until that is known
				p.align()
				s.freeze(tt.frozen...)
				c := p.begin(one("r", time.Minute))
				time.AfterFunc(tt.thaw, func() { s.thaw(tt.frozen...) })
				p.finish(c).want(s, "LOCK", tt.want, tt.took)
				time.Sleep(80 * ms)
				var givenUp []uint64
				for _, m := range p.Masters() {
					givenUp = append(givenUp, m.Timeouts)
				}
				if got := fmt.Sprint(givenUp); got != tt.givenUp {
					s.Errorf("how often masters were given up: got %s, want %s", got, tt.givenUp)
				}
				time.Sleep(2 * time.Second)
			})
		})
	}
}

// Who has begun something that costs more lets turns pass, but pays only while others wait; who has nothing left owes nothing.
func TestTurnsOfThree(t *testing.T) {
	a, b, c := &Share{Name: "a"}, &Share{Name: "b"}, &Share{Name: "c"}
	all := turns[*Share]{a, b, c}
	for i, tt := range []struct {
		cost int
		left bool
		next string // who had the turn
		debt [3]int // then
	}{
		{1, true, "a", [3]int{0, 0, 0}},
		{3, true, "b", [3]int{0, 2, 0}},
		{2, true, "c", [3]int{0, 2, 1}},
		{1, true, "a", [3]int{0, 2, 1}},
		{2, true, "a", [3]int{1, 1, 0}}, // b and c let one turn pass each
		{1, true, "c", [3]int{1, 0, 0}},
		{9, true, "b", [3]int{0, 8, 0}},
		{9, false, "c", [3]int{0, 8, 0}},
		{5, false, "a", [3]int{0, 8, 0}},
		{4, true, "b", [3]int{0, 3, 0}},
		{4, false, "b", [3]int{0, 0, 0}},
	} {
		before := b.debt
		next := all.next()
		if next.Name != tt.next || len(all) == 1 && b.debt != before {
			t.Fatalf("turn %d: got %s, who owes %d, want %s", i, next.Name, b.debt, tt.next)
		}
		if all.served(tt.cost, tt.left); [3]int{a.debt, b.debt, c.debt} != tt.debt {
			t.Fatalf("turn %d: they owe %d, %d and %d, want %v", i, a.debt, b.debt, c.debt, tt.debt)
		}
	}
	if len(all) != 0 {
		t.Errorf("%d have turns, want nobody", len(all))
	}
}
