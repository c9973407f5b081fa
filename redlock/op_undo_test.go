package redlock

// Goal: a caller may repeat its LOCK with its own token through any client of the masters, and no attempt that is taken back elsewhere
// takes the lock away. Method: virtual time, two proxies, and ways to the masters that hold back what is to arrive late.

import (
	"fmt"
	"testing"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/lua"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/quorum"
	"redlockd/redlock/redisproc"
)

// asks are the ways in which a caller takes a lock under its own token.
var asks = map[string]func(p *proxy, ttl time.Duration) *call{
	"LOCK TOKEN": func(p *proxy, ttl time.Duration) *call { return p.begin(one("r", ttl).as(longValue)) },
	"LOCK TOKEN FENCE": func(p *proxy, ttl time.Duration) *call {
		req := one("r", ttl).as(longValue)
		req.Fence = true
		return p.begin(req)
	},
	"MLOCK TOKEN": func(p *proxy, ttl time.Duration) *call { return p.begin(several(ttl, "r", "s").as(longValue)) },
	"SET NX":      func(p *proxy, ttl time.Duration) *call { return p.beginCommit(setNX("r", longValue, ttl)) },
	"script": func(p *proxy, ttl time.Duration) *call {
		return p.beginCommit(setNX("r", longValue, ttl), setNX("s", longValue, ttl))
	},
}

// A proxy is cut from three masters and answers NOQUORUM. The caller's retry through another proxy is granted. When the first one reaches
// the masters again, the lock stays.
func TestRetryThroughAnotherProxy(t *testing.T) {
	for name, ask := range asks {
		for _, lose := range []struct {
			name string
			cut  func(p *proxy, i int)
		}{
			{"cut", func(p *proxy, i int) { p.paths[i].Partition() }},
			{"answers lost", func(p *proxy, i int) { p.paths[i].HoldReplies() }},
			{"late", func(p *proxy, i int) { p.paths[i].HoldRequests() }},
		} {
			for _, away := range redisproc.Some(1, []time.Duration{100 * ms, 0, 3 * time.Second}) {
				t.Run(fmt.Sprintf("%s/%s/%v", name, lose.name, away), func(t *testing.T) {
					inVirtualTime(t, 5, func(s *stage) {
						p, other := s.open(), s.open()
						p.align()
						for i := 2; i < 5; i++ {
							lose.cut(p, i)
						}
						p.finish(ask(p, 10*time.Second)).want(s, "first attempt", "2 of 5 masters voted", giveUpNeeded)
						time.Sleep(ms)
						retry := other.finish(ask(other, 10*time.Second))
						if lose.name != "answers lost" || name == "LOCK TOKEN" || name == "LOCK TOKEN FENCE" || name == "MLOCK TOKEN" {
							retry.want(s, "retry through another proxy", "held", 0)
						}
						time.Sleep(away)
						for i := 2; i < 5; i++ {
							p.paths[i].Cut()
							p.paths[i].Heal()
						}
						p.allUp()
						time.Sleep(100 * ms)
						if retry.Held {
							p.lock(one("r", time.Second)).want(s, "LOCK of another", "no", 0)
							other.extend(longValue, 10*time.Second, "r").want(s, "EXTEND", "held", 0)
						}
					})
				})
			}
		}
	}
}

// The undo of an attempt that was denied is held back on its way to two masters. Meanwhile the caller is granted the lock through another
// proxy, or renews what it holds, and counts on these two: the undo leaves their keys alone, whatever TTL was asked for.
func TestUndoSparesWhatSomebodyCountsOn(t *testing.T) {
	ttls := redisproc.Some(2, []time.Duration{10 * time.Second, 10*time.Second + ms, 10*time.Second - 5*ms, 2 * time.Second, 20 * time.Second})
	for name, ask := range asks {
		if name == "SET NX" || name == "script" {
			continue // a client that finds its value there is denied, and does not count on it
		}
		for _, ttl := range ttls {
			t.Run(fmt.Sprintf("%s again for %v", name, ttl), func(t *testing.T) {
				s1 := func(s *stage, p, other *proxy) *call { return other.finish(ask(other, ttl)) }
				undoHeldBack(t, ask, s1, ttl)
			})
		}
	}
	for name, ask := range asks {
		for _, ttl := range ttls {
			t.Run(fmt.Sprintf("%s, EXTEND for %v", name, ttl), func(t *testing.T) {
				undoHeldBack(t, ask, func(s *stage, p, other *proxy) *call {
					s.doOn([]int{2, 3, 4}, "SET", "r", longValue, "PX", 60_000)
					return other.extend(longValue, ttl, "r")
				}, ttl)
			})
			t.Run(fmt.Sprintf("%s, PEXPIRE %v", name, ttl), func(t *testing.T) {
				undoHeldBack(t, ask, func(s *stage, p, other *proxy) *call {
					s.doOn([]int{2, 3, 4}, "SET", "r", longValue, "PX", 60_000)
					return other.commit(compareAndExpire("r", longValue, ttl))
				}, ttl)
			})
		}
	}
}

func undoHeldBack(t *testing.T, ask func(*proxy, time.Duration) *call, count func(s *stage, p, other *proxy) *call, ttl time.Duration) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		s.doOn([]int{2, 3, 4}, "SET", "r", "another", "PX", 60_000)
		p.delay(0, 10*ms, 2, 3, 4)
		failed := ask(p, 10*time.Second)
		time.Sleep(5 * ms) // two masters have set it, and have said so
		s.wantOn("r", longValue, "11000")
		p.holdRequests(0, 1)
		s.doOn([]int{2, 3, 4}, "DEL", "r")
		granted := count(s, p, other)
		granted.want(s, "what counts on the keys", "held", 0)
		p.finish(failed).want(s, "first attempt", "no", 10*ms)
		time.Sleep(ms)
		p.heal(0, 1)
		time.Sleep(10 * ms)
		s.wantOn("r", longValue, "11111")
		time.Sleep(ttl - 100*ms)
		s.wantOn("r", longValue, "11111")
	})
}

// Nobody counts on what a failed attempt has set: it is taken back at once from the masters that have told so, also by those that tell it late,
// and ends with its TTL elsewhere.
func TestFailedAttemptIsTakenBack(t *testing.T) {
	for name, ask := range asks {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open()
				s.doOn([]int{2, 3, 4}, "SET", "r", "another", "PX", 60_000)
				p.delay(0, 20*ms, 1)
				p.finish(ask(p, 10*time.Second)).want(s, "attempt", "no", 0)
				time.Sleep(ms)
				s.wantOn("r", longValue, "01000")
				time.Sleep(20 * ms)
				s.wantOn("r", longValue, "00000")
				s.wantSet("s", "00000")

				p.paths[0].HoldReplies()
				p.finish(ask(p, 10*time.Second)).want(s, "attempt", "no", 0)
				time.Sleep(time.Second)
				s.wantOn("r", longValue, "10000")
				time.Sleep(10 * time.Second)
				s.wantOn("r", longValue, "00000")
			})
		})
	}
}

// A client that vanishes before its LOCK is answered may have its retry granted elsewhere already.
func TestAbandonSparesTheRetry(t *testing.T) {
	for _, retried := range []bool{true, false} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(), s.open()
			req := one("r", 10*time.Second).as(longValue)
			gone := p.lock(req)
			gone.want(s, "LOCK", "held", 0)
			want := "00000"
			if retried {
				other.lock(req).want(s, "LOCK through another proxy", "held", 0)
				want = "11111"
			}
			p.Abandon(&gone.Op)
			time.Sleep(ms)
			s.wantOn("r", longValue, want)

			gone = p.lock(one("other", 10*time.Second))
			p.extend(gone.Token, 10*time.Second, "other") // somebody knows of it
			p.Abandon(&gone.Op)
			s.wantOn("other", gone.Token, "11111")

			gone = p.lock(one("held", 10*time.Second).heldBy(p.holder()))
			if p.Abandon(&gone.Op); p.Stats().Bound != 0 {
				s.Error("a lock that was abandoned is still bound")
			}
		})
	}
}

// A value that was set is taken back, and where it is in the place of another that one comes back: a reader whose takeover has failed would be out of the set of readers
// otherwise, and writers would be let in. What was deleted, extended or compared stays as it is.
func TestWhatIsTakenBackOfAChange(t *testing.T) {
	const at = 1_800_000_000_000
	asked := clock.Padded(time.Minute, fleettest.Drift).Milliseconds()
	for _, tt := range []struct {
		name   string
		change Change
		want   string // the value, when it ends, what is done, the value of before
	}{
		{"set", setNX("r", "new", time.Minute), fmt.Sprintf("new %d %d ", at+asked, undoDelete)},
		{"rotation", rotate("r", "old", "new", time.Minute), fmt.Sprintf("new %d %d old", at+asked, undoPutBack)},
		{"set of the same", rotate("r", "old", "old", time.Minute), " 0 0 "},
		{"delete", compareAndDelete("r", "old"), " 0 0 "},
		{"expire", compareAndExpire("r", "old", time.Minute), " 0 0 "},
	} {
		value, latest, what, before := tt.change.undo(at, fleettest.Drift)
		if got := fmt.Sprint(value, " ", latest, " ", what, " ", before); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestAttemptHasRoomForAllMasters(t *testing.T) {
	for _, n := range []int{1, 5, 6, quorum.MaxMasters} {
		if got := len(newAttempt(&round{}, n).setAt); got != n {
			t.Errorf("%d masters: got room for %d", n, got)
		}
	}
}

// Many attempts in one pipeline are each taken back, although the master's clock moves while it works them off.
func TestClockMarks(t *testing.T) {
	for _, tt := range []struct {
		name  string
		marks []int64 // the master's clock; between two of them one attempt sets its keys
		want  []int64
	}{
		{"at once", []int64{1000, 1000}, []int64{1000}},
		{"the latest", []int64{1000, 1003, 1007}, []int64{1003, 1007}},
		{"longer than endSlackMs", []int64{1000, 1006, 1020}, []int64{1005, 1011}},
		{"set back", []int64{1000, 900, 902}, []int64{0, 902}},
	} {
		b := unsentBatch()
		b.begin()
		for i, mark := range tt.marks {
			b.marked(mark)
			if i < len(tt.marks)-1 {
				b.sets = append(b.sets, setKey{round: int32(i)})
			}
		}
		for i, want := range tt.want {
			if got := b.sets[i].at; got != want {
				t.Errorf("%s: attempt %d: got %d, want %d", tt.name, i, got, want)
			}
		}
	}
}

// An end that is moved again and again does not run away: a key lives for little longer than the longest TTL.
func TestEndsDoNotRunAway(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.lock(one("r", p.Options().MaxTTL).as(longValue)).want(s, "LOCK", "held", 0)
		for range 1000 {
			p.extend(longValue, time.Second, "r").want(s, "EXTEND", "held", 0)
			p.lock(one("r", time.Second).as(longValue)).want(s, "LOCK again", "held", 0)
		}
		if left := s.do(0, "PTTL", "r").(int64); left > p.fleet.view.Load().longestMs+2*lua.EndMoveMs {
			t.Errorf("the key lives for %d ms, want no more than %d", left, p.fleet.view.Load().longestMs+2*lua.EndMoveMs)
		}
	})
}

// A caller sends UNLOCK through a proxy that cannot reach three masters, and locks again with the same token through another one. Nothing is
// kept of the UNLOCK that could take the lock away.
func TestRetryBehindAnUnlock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.lock(one("r", 10*time.Second).as(longValue)).want(s, "LOCK", "held", 0)
		for i := 2; i < 5; i++ {
			p.paths[i].Partition()
		}
		p.align()
		p.unlock(longValue, "r").want(s, "UNLOCK", "2 of 5 masters voted, 3 needed", giveUpNeeded)
		other.lock(one("r", 10*time.Second).as(longValue)).want(s, "LOCK through another proxy", "held", 0)
		for i := 2; i < 5; i++ {
			p.paths[i].Cut()
			p.paths[i].Heal()
		}
		p.allUp()
		time.Sleep(100 * ms)
		s.wantOn("r", longValue, "11111")
	})
}

// Releases for masters that stay away are bounded, the oldest give way, and all are forgotten when their keys must have ended.
func TestPendingReleasesAreBounded(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		p.cut(0, 1, 2)
		s.until("down", func() bool { return p.states() == "ddd" })
		for i := range pendingMax + 10 {
			p.startUnlock(madeToken, fmt.Sprintf("r%d", i))
		}
		if got := p.Masters()[0].PendingReleases; got != pendingMax {
			s.Errorf("kept releases: got %d, want %d", got, pendingMax)
		}
		p.fleet.view.Load().lanes[0].mu.Lock()
		if got := p.fleet.view.Load().lanes[0].pending[0].key; got != "r10" {
			s.Errorf("the oldest that is kept: got %q, want r10", got)
		}
		p.fleet.view.Load().lanes[0].mu.Unlock()
		time.Sleep(p.fleet.keyLifeMax() - time.Second)
		if got := p.Masters()[0].PendingReleases; got != pendingMax {
			s.Errorf("kept releases before the keys have ended: got %d, want %d", got, pendingMax)
		}
		time.Sleep(2 * time.Second)
		if got := p.Masters()[0].PendingReleases; got != 0 {
			s.Errorf("kept releases when the keys have ended: got %d, want none", got)
		}
	})
}
