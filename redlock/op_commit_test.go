package redlock

// Goal: clients that were written for one Redis get from the quorum what they would get from one Redis, and neither hurt the locks of
// others, native or not, nor leave anything behind. Method: tables for the rules; virtual time over in-process masters for the
// rest; at the end real redis-servers, two of five stopped.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/quorum"
	"redlockd/redlock/redisproc"
)

// madeToken has the form of the tokens that redlockd makes.
const madeToken = "lyxqp5mBW7nQwTkQYLr3F_WfVx0.mwpqrck8"

const longValue, otherValue = "a value that is unique", "another unique value"

func setNX(resource, value string, ttl time.Duration) Change {
	return Change{Resource: resource, Was: WasAbsent, Do: Set, NewValue: value, TTL: ttl}
}

func compareAndDelete(resource, value string) Change {
	return Change{Resource: resource, Was: WasValue, Value: value, Do: Delete}
}

func compareAndExpire(resource, value string, ttl time.Duration) Change {
	return Change{Resource: resource, Was: WasValue, Value: value, Do: Expire, TTL: ttl}
}

func rotate(resource, old, value string, ttl time.Duration) Change {
	return Change{Resource: resource, Was: WasValue, Value: old, Do: Set, NewValue: value, TTL: ttl}
}

// commit is a commit that is run to its end.
func (p *proxy) commit(changes ...Change) *call {
	p.s.Helper()
	return p.finish(p.beginCommit(changes...))
}

func (p *proxy) beginCommit(changes ...Change) *call {
	c := &call{began: time.Now()}
	p.StartCommit(&c.Op, changes, c)
	synctest.Wait()
	return c
}

func (p *proxy) states1(resource string) *call {
	p.s.Helper()
	c := &call{began: time.Now()}
	p.StartRead(&c.Op, []string{resource}, c)
	return p.finish(c)
}

// A commit that deletes one key and sets another hands the deleted one over in the batch that deletes it, and is an UNLOCK for the one that waits there.
func TestCommitHandsOverWhatItDeletes(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.commit(setNX("r", longValue, 30*time.Second)).want(s, "SET NX", "held", 0)
		waits := p.begin(one("r", time.Second).waits(time.Minute))
		time.Sleep(100 * ms)
		moved := p.beginCommit(compareAndDelete("r", longValue), setNX("other", otherValue, 30*time.Second))
		if n := p.Stats().Handovers; n != 1 {
			s.Errorf("got %d hand-overs behind the commit, want 1", n)
		}
		p.finish(moved).want(s, "the commit", "held", 0)
		p.finish(waits).want(s, "who waits for what it deletes", "held", 100*ms)
	})
}

// What says for how long no LOCK has had a quorum counts commits that lock or rotate, not those that release or extend; and those that
// only release are accepted when a share has no room for others.
func TestWhichCommitsCountAsLocks(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.commit(setNX("r", longValue, time.Minute)).want(s, "SET NX", "held", 0)
		p.commit(setNX("q", otherValue, time.Minute)).want(s, "SET NX", "held", 0)
		s.freeze(0, 1, 2)
		s.until("no quorum can vote", func() bool { return !p.fleet.quorumCanVote() })
		for _, tt := range []struct {
			what    string
			changes []Change
			counts  bool
		}{
			{"an extension", []Change{compareAndExpire("r", longValue, time.Minute)}, false},
			{"a release", []Change{compareAndDelete("r", longValue), compareAndDelete("q", otherValue)}, false},
			{"a rotation", []Change{rotate("r", longValue, otherValue, time.Minute)}, true},
		} {
			p.commit(tt.changes...)
			time.Sleep(ms)
			c := p.commit(tt.changes...)
			if c.Held || c.Err == nil {
				s.Errorf("%s without a quorum: got %+v", tt.what, c.Result)
			}
			if got := p.Stats().NoQuorumFor > 0; got != tt.counts {
				s.Errorf("%s without a quorum: it counts as a LOCK: %v, want %v", tt.what, got, tt.counts)
			}
			if got, want := c.onlyReleases, tt.what == "a release"; got != want {
				s.Errorf("%s only releases: %v, want %v", tt.what, got, want)
			}
		}
	})
}

func TestCommitVerbs(t *testing.T) {
	keep := Change{Resource: "k", Was: WasValue, Value: "v"}
	absent := Change{Resource: "k", Was: WasAbsent}
	for _, tt := range []struct {
		name    string
		changes []Change
		want    verb
	}{
		{"SET NX beside a guard before it", []Change{keep, setNX("a", "v", time.Second)}, verbCommitReplace},
		{"DEL beside a guard before it", []Change{keep, compareAndDelete("a", "v")}, verbCommitReplace},
		{"EXPIRE beside a key that must be absent", []Change{compareAndExpire("a", "v", time.Second), absent}, verbCommitExtend},
		{"comparison with nothing", []Change{absent}, verbCommitExtend},
		{"SET NX", []Change{setNX("a", "v", time.Second)}, verbCommitSet},
		{"several", []Change{setNX("a", "v", time.Second), setNX("b", "w", time.Second)}, verbCommitAcquire},
		{"SET NX beside a guard", []Change{setNX("a", "v", time.Second), keep}, verbCommitReplace},
		{"rotation", []Change{rotate("a", "v", "w", time.Second)}, verbCommitReplace},
		{"SET of the same value", []Change{rotate("a", "v", "v", time.Second)}, verbCommitExtend},
		{"EXPIRE", []Change{compareAndExpire("a", "v", time.Second)}, verbCommitExtend},
		{"comparison", []Change{keep}, verbCommitExtend},
		{"DEL", []Change{compareAndDelete("a", "v")}, verbCommitRelease},
		{"DEL beside a guard", []Change{compareAndDelete("a", "v"), keep}, verbCommitReplace},
		{"several DEL", []Change{compareAndDelete("a", "v"), compareAndDelete("b", "v")}, verbCommitRelease},
		{"DEL and SET", []Change{compareAndDelete("a", "v"), setNX("b", "v", time.Second)}, verbCommitReplace},
		{"DEL and EXPIRE", []Change{compareAndDelete("a", "v"), compareAndExpire("b", "v", time.Second)}, verbCommitReplace},
	} {
		c := idleClient()
		v, _, err := c.bounds.checkCommit(tt.changes)
		if err != nil || v != tt.want {
			t.Errorf("%s: got verb %d, %v, want %d", tt.name, v, err, tt.want)
		}
	}
	// Who asks for several TTLs counts on the shortest.
	for _, ttls := range [][]time.Duration{{time.Second, 2 * time.Second}, {2 * time.Second, time.Second}} {
		c := idleClient()
		if _, ttl, _ := c.bounds.checkCommit([]Change{setNX("a", "v", ttls[0]), setNX("b", "v", ttls[1]), compareAndDelete("c", "v")}); ttl != time.Second {
			t.Errorf("TTLs %v: got %v, want 1s", ttls, ttl)
		}
	}
}

// A master that has lost a key gets it back. One that holds something else gets what was made of a version: it may have missed the change before. Anybody else's value
// stays.
func TestWhoHasMissedACommit(t *testing.T) {
	votes := quorum.Cast(0, quorum.Granted) | quorum.Cast(1, quorum.Absent) | quorum.Cast(2, quorum.Denied) | quorum.Cast(3, quorum.Hole) | quorum.Cast(4, quorum.Unknown)
	lost := quorum.Mask(0).With(1).With(3)
	one, two := versionOf("lineage", 1, "one"), versionOf("lineage", 2, "two")
	for _, tt := range []struct {
		name   string
		change Change
		want   quorum.Mask
	}{
		{"a version of a version", rotate("r", one, two, time.Second), lost.With(2)},
		{"a version that is extended", compareAndExpire("r", one, time.Second), lost.With(2)},
		{"a version that is set first", setNX("r", one, time.Second), lost},
		{"a version that is deleted", compareAndDelete("r", one), lost},
		{"a value that is extended", compareAndExpire("r", longValue, time.Second), lost},
		{"a value of a value", rotate("r", longValue, otherValue, time.Second), lost},
	} {
		k := &commit{changes: []Change{setNX("a", "v", time.Second), tt.change}}
		if got := k.missed(votes, 5); got != tt.want {
			t.Errorf("%s: got %05b, want %05b", tt.name, got, tt.want)
		}
	}
}

// The values of a commit weigh on a master as much as its keys do.
func TestCostOfACommit(t *testing.T) {
	long := strings.Repeat("v", 10*costBytes)
	for _, tt := range []struct {
		name   string
		change Change
		want   int
	}{
		{"set", setNX("r", long, time.Second), 1 + 2*10}, // the token of the round, and the value
		{"rotation", rotate("r", long, long, time.Second), 1 + 3*10},
		{"short", setNX("r", "v", time.Second), 1},
	} {
		if got := commitRound(verbCommitReplace, []Change{tt.change}, time.Now(), fleettest.Drift, 5).costOfCommit(); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

// What a round costs a master goes by its verb, where the keys alone do not tell it.
func TestCostByVerb(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		long := strings.Repeat("v", 10*costBytes)
		for what, tt := range map[string]struct {
			r    *round
			want uint16
		}{
			"a LOCK":   {&round{verb: verbSet, keys: []string{"r"}, token: "T"}, 1},
			"a slot":   {&round{verb: verbSlot, keys: []string{"r"}, token: "T", slots: MaxSlots}, 1 + MaxSlots/4},
			"a commit": {commitRound(verbCommitReplace, []Change{rotate("r", long, long, time.Second)}, time.Now(), p.drift, 3), 1 + 3*10},
		} {
			d := deferred{now: time.Now()}
			p.mu.Lock()
			p.rounds.launch(tt.r, 0, &d)
			p.mu.Unlock()
			if tt.r.cost != tt.want {
				s.Errorf("%s costs %d, want %d", what, tt.r.cost, tt.want)
			}
		}
	})
}

// A master that tells late that it has released nothing, because it has lost one of the keys, is cleared of the others, also where nobody knows whether the release
// was done.
func TestLateAnswerToAReleaseOfSeveral(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.commit(setNX("a", longValue, 10*time.Second), setNX("b", longValue, 10*time.Second)).want(s, "SET NX", "held", 0)
		s.doOn([]int{0, 1}, "DEL", "b")
		p.delay(0, 10*ms, 0, 1)
		p.holdReplies(2, 3, 4)
		c := p.beginCommit(compareAndDelete("a", longValue), compareAndDelete("b", longValue))
		for _, i := range []int{2, 3, 4} {
			p.paths[i].Cut()
		}
		p.finish(c).want(s, "DEL whose answers are lost", "of 5 masters voted", c.took)
		time.Sleep(30 * ms)
		s.wantOn("a", longValue, "00000")
	})
}

func TestCommitRefuses(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		for _, tt := range []struct {
			change Change
			want   string
		}{
			{setNX("", "v", time.Second), "a resource name is empty"},
			{setNX("redlockd:epoch", "v", time.Second), "kept for redlockd itself"},
			{setNX("a", strings.Repeat("v", MaxValueLen+1), time.Second), "the value has 16385 bytes, at most 16384 are possible"},
			{setNX("a", "v", 9*ms), "ttl of 9 ms is below the least, 20 ms (min_ttl): did you mean 9s? If not, ask for more, or lower min_ttl in [locks]"},
			{setNX("a", "v", time.Hour), "above the most, 60000 ms (max_ttl)"},
			{compareAndExpire("a", "v", time.Hour), "above the most, 60000 ms (max_ttl)"},
			{Change{Resource: "a", Do: Delete}, "no such change"},
			{Change{Resource: "a", Was: WasAbsent, Do: Delete}, "cannot be absent"},
			{Change{Resource: "a", Was: WasAbsent, Do: Expire, TTL: time.Second}, "cannot be absent"},
			{Change{Resource: "a", Was: WasValue, Do: Expire + 1}, "no such change"},
			{Change{Resource: "a", Was: WasValue + 1, Do: Delete}, "no such change"},
		} {
			c := p.commit(tt.change)
			c.want(s, fmt.Sprintf("%+v", tt.change), tt.want, 0)
			if !errors.Is(c.Err, ErrBadRequest) {
				s.Errorf("%+v: got %v, want ErrBadRequest", tt.change, c.Err)
			}
		}
		s.wantNoLocks()
		p.commit(setNX("a", strings.Repeat("v", MaxValueLen), time.Second)).want(s, "SET NX of the longest value", "held", 0)
	})
}

// What became of a commit is told to its caller, counted as that of the native command that does the same, and known of the leases.
func TestWhatBecameOfACommit(t *testing.T) {
	keep := Change{Resource: "a", Was: WasValue, Value: longValue}
	for _, tt := range []struct {
		name                   string
		changes                []Change
		held, denied, unknown  string
		ofHeld, ofDenied, left int // leases
	}{
		{"SET NX", []Change{setNX("new", longValue, time.Second)}, "attempts 1 granted 1 rounds 1", "attempts 1 denied 1 rounds 1", "attempts 1 no quorum 1 rounds 1", 3, 2, 2},
		{"SET NX of two", []Change{setNX("new", longValue, time.Second), setNX("new2", longValue, time.Second)},
			"attempts 1 granted 1 rounds 1", "attempts 1 denied 1 rounds 1", "attempts 1 no quorum 1 rounds 1", 4, 2, 2},
		{"rotation", []Change{rotate("a", longValue, otherValue, time.Second)}, "granted 1 rounds 1", "denied 1 rounds 1", "no quorum 1 rounds 1", 2, 2, 2},
		{"DEL beside SET", []Change{compareAndDelete("a", longValue), setNX("new", longValue, time.Second)}, "attempts 1 granted 2 rounds 2", "denied 1 rounds 1", "no quorum 1 rounds 1", 3, 2, 2},
		{"DEL of both", []Change{compareAndDelete("a", longValue), compareAndDelete("b", longValue)}, "attempts 1 granted 1 released 1 rounds 1", "not held 1", "unlock fail 1", 1, 0, 0},
		{"EXPIRE", []Change{compareAndExpire("a", longValue, time.Second)}, "extended 1", "extend lost 1", "extend fail 1", 2, 1, 2},
		{"EXPIRE of both", []Change{compareAndExpire("a", longValue, time.Second), compareAndExpire("b", longValue, time.Second)}, "extended 1", "extend lost 1", "extend fail 1", 2, 2, 2},
		{"EXPIRE beside a comparison", []Change{compareAndExpire("a", longValue, time.Second), {Resource: "c", Was: WasValue, Value: otherValue}}, "extended 1", "extend lost 1", "extend fail 1", 2, 2, 2},
		{"comparison", []Change{keep}, "", "", "", 2, 2, 2},
	} {
		for _, want := range []string{"held", "no", "masters voted"} {
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open()
				p.commit(setNX("a", longValue, 10*time.Second), setNX("b", longValue, 10*time.Second)).want(s, "SET NX before", "held", 0)
				s.doAll("SET", "c", otherValue, "PX", 5000)
				waiting := &call{}
				if want == "held" {
					waiting = p.begin(one("a", time.Minute).waits(time.Minute))
					time.Sleep(10 * ms)
				}
				before, counted, leases := p.Stats(), tt.held, tt.ofHeld
				switch want {
				case "no":
					counted, leases = tt.denied, tt.ofDenied
					s.doAll("SET", tt.changes[0].Resource, "of another", "PX", 5000)
				case "masters voted":
					counted, leases = tt.unknown, tt.left
					p.holdReplies(2, 3, 4)
				}
				p.delay(0, 5*ms, 0, 1, 2, 3, 4)
				c := p.commit(tt.changes...)
				c.want(s, tt.name, want, c.took)
				ttl := max(tt.changes[0].TTL, tt.changes[len(tt.changes)-1].TTL)
				if until, left := c.Until, c.Validity; want == "held" && ttl > 0 && (!until.Equal(c.began.Add(ttl)) || left != ttl-5*ms) {
					s.Errorf("%s: got a validity of %v until %v after it was sent, want %v and %v", tt.name, left, until.Sub(c.began), ttl-5*ms, ttl)
				} else if (want != "held" || ttl == 0) && (!until.IsZero() || left != 0) {
					s.Errorf("%s, %s: got a validity of %v until %v, want none", tt.name, want, left, until)
				}
				ends := want == "held" && tt.changes[0].Do == Delete
				if ends {
					p.finish(waiting).want(s, "LOCK of who waited for it", "held", waiting.took)
				}
				after := p.Stats()
				if got := countedBetween(before, after); got != counted {
					s.Errorf("%s, %s: got the counts %q, want %q", tt.name, want, got, counted)
				}
				if after.Leases != leases {
					s.Errorf("%s, %s: got %d leases, want %d", tt.name, want, after.Leases, leases)
				}
			})
		}
	}
}

// countedBetween tells the counts of operations that have grown.
func countedBetween(before, after Stats) string {
	var grown []string
	rounds := func(t Times) (n uint64) {
		for _, of := range t.Buckets {
			n += of
		}
		return n
	}
	for _, count := range []struct {
		name          string
		before, after uint64
	}{
		{"attempts", before.Attempts, after.Attempts}, {"granted", before.Granted, after.Granted}, {"denied", before.Denied, after.Denied},
		{"no quorum", before.NoQuorum, after.NoQuorum}, {"released", before.Released, after.Released}, {"not held", before.NotHeld, after.NotHeld},
		{"unlock fail", before.UnlockFail, after.UnlockFail}, {"extended", before.Extended, after.Extended},
		{"extend lost", before.ExtendLost, after.ExtendLost}, {"extend fail", before.ExtendFail, after.ExtendFail}, {"rounds", rounds(before.Rounds), rounds(after.Rounds)},
	} {
		if count.after != count.before {
			grown = append(grown, fmt.Sprint(count.name, " ", count.after-count.before))
		}
	}
	return strings.Join(grown, " ")
}

// Who drains takes no new locks, and serves those that are held.
func TestDropInDrain(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.commit(setNX("a", longValue, 10*time.Second), setNX("b", longValue, 10*time.Second)).want(s, "SET NX before", "held", 0)
		p.Drain()
		p.commit(setNX("r", "v", 10*time.Second)).want(s, "SET NX", ErrDraining.Error(), 0)
		p.commit(setNX("r", "v", 10*time.Second), setNX("s", "v", 10*time.Second)).want(s, "SET NX of several", ErrDraining.Error(), 0)
		p.commit(compareAndExpire("a", longValue, 20*time.Second)).want(s, "EXPIRE", "held", 0)
		p.commit(rotate("a", longValue, otherValue, 10*time.Second)).want(s, "rotation", "held", 0)
		p.commit(compareAndDelete("a", otherValue), compareAndDelete("b", longValue)).want(s, "DEL of several", "held", 0)
		s.wantNoLocks()
	})
}

// A share whose locks are at their limit gets no new one, and goes on with those that it has.
func TestDropInMaxLocks(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		u := of{p, &Share{MaxLocks: 2}}
		commit := func(changes ...Change) *call {
			c := &call{Op: Op{Share: u.share}, began: time.Now()}
			p.StartCommit(&c.Op, changes, c)
			return p.finish(c)
		}
		tooMany := (&ShareError{Limit: LimitLocks, Max: 2, Share: u.share}).Error()
		commit(setNX("a", longValue, 10*time.Second), setNX("b", longValue, 10*time.Second)).want(s, "SET NX of two", "held", 0)
		attempts := p.Stats().Attempts
		commit(setNX("c", longValue, 10*time.Second)).want(s, "SET NX of a third", tooMany, 0)
		commit(rotate("a", longValue, otherValue, 10*time.Second), setNX("c", longValue, 10*time.Second)).want(s, "rotation beside a third", tooMany, 0)
		commit(rotate("a", longValue, otherValue, 10*time.Second)).want(s, "rotation", "held", 0)
		commit(compareAndExpire("a", otherValue, 10*time.Second), compareAndExpire("b", longValue, 10*time.Second)).want(s, "EXPIRE of both", "held", 0)
		s.wantOn("c", longValue, "00000")
		commit(compareAndExpire("a", otherValue, 10*time.Second), Change{Resource: "c", Was: WasAbsent}).want(s, "EXPIRE beside a key that is to be absent", "held", 0)
		u.share.MaxLocks = 1 // as a reload does
		commit(compareAndExpire("a", otherValue, 10*time.Second)).want(s, "EXPIRE beyond a lower limit", "held", 0)
		u.share.MaxLocks = 2
		commit(compareAndDelete("a", otherValue), compareAndDelete("b", longValue)).want(s, "DEL of both", "held", 0)
		if got := p.Stats().Attempts; got != attempts {
			s.Errorf("attempts: got %d since the first SET NX, want none: nothing asked for a new lock", got-attempts)
		}
		commit(setNX("c", longValue, 10*time.Second)).want(s, "SET NX then", "held", 0)
		if got := p.Stats().Attempts; got != attempts+1 {
			s.Errorf("attempts: got %d, want 1", got-attempts)
		}
		// What has ended for its holder counts as long as the masters hold it, and can be extended.
		time.Sleep(10*time.Second + 10*ms)
		commit(setNX("a", longValue, 10*time.Second), setNX("b", longValue, 10*time.Second)).want(s, "SET NX of two others", "(max_locks)", 0)
		commit(compareAndExpire("c", longValue, 10*time.Second)).want(s, "EXPIRE of what has just ended", "held", 0)
		time.Sleep(padded(10*time.Second) + ms)
		commit(setNX("a", longValue, 10*time.Second), setNX("b", longValue, 10*time.Second)).want(s, "SET NX of two others then", "held", 0)
		if u.share.locks != 2 {
			s.Errorf("%d locks are counted, want 2", u.share.locks)
		}
	})
}

// The deletion of one key is an UNLOCK: it releases a reader, too.
func TestDeletionOfOneIsUnlock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		reader := p.lock(one("r", 10*time.Second).sharing())
		p.commit(compareAndDelete("r", reader.Token)).want(s, "DEL of a reader's lock", "held", 0)
		s.wantNoLocks()
	})
}

// A change that is denied ends no lease, also where it would have deleted a key beside.
func TestDeniedDeletionEndsNothing(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.commit(setNX("a", longValue, 10*time.Second)).want(s, "SET NX", "held", 0)
		s.doOn([]int{0, 1, 2, 3, 4}, "SET", "b", "of another", "PX", 5000)
		p.commit(compareAndDelete("a", longValue), setNX("b", longValue, 10*time.Second)).want(s, "DEL beside SET NX of what is held", "no", 0)
		if n := p.Stats().Leases; n != 1 {
			s.Errorf("leases: got %d, want 1", n)
		}
	})
}

// Who waits for one of several keys gets it in the batch that deletes them.
func TestDeletionOfSeveralHandsOver(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.commit(setNX("a", longValue, 10*time.Second), setNX("b", longValue, 10*time.Second)).want(s, "SET NX", "held", 0)
		waiting := p.begin(one("b", time.Minute).waits(time.Minute))
		time.Sleep(10 * ms)
		p.delay(ms, ms, 0, 1, 2, 3, 4)
		deleted := p.beginCommit(compareAndDelete("a", longValue), compareAndDelete("b", longValue))
		p.finish(deleted).want(s, "DEL of both", "held", 2*ms)
		p.finish(waiting).want(s, "LOCK that waits", "held", 12*ms)
	})
}

// What a change takes while it waits for room is counted with its names and values, and a change that only deletes waits as well.
func TestDropInWaitsForRoom(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.commit(setNX("old", longValue, time.Minute), setNX("old2", longValue, time.Minute)).want(s, "SET NX before", "held", 0)
		p.crowd(&Share{})
		share := &Share{}
		start := func(changes ...Change) *call {
			c := &call{Op: Op{Share: share}, began: time.Now()}
			p.StartCommit(&c.Op, changes, c)
			return c
		}
		deleted := start(compareAndDelete("old", longValue), compareAndDelete("old2", longValue))
		before := share.queuedBytes
		set := start(setNX("a", longValue, time.Minute), rotate("bc", "12345", "123", time.Minute))
		if got, want := share.queuedBytes-before, queuedOpBytes+len("a"+longValue+"bc"+"12345"+"123"); got != want {
			s.Errorf("a change that waits takes %d bytes, want %d", got, want)
		}
		start(compareAndDelete("bc", "12345"))
		if got := p.Stats().Deferred; got != 3 {
			s.Errorf("%d operations wait for room, want all 3", got)
		}
		time.Sleep(ms)
		s.thaw(0, 1, 2, 3, 4)
		p.finish(deleted).want(s, "DEL of both", "held", deleted.took)
		p.finish(set).want(s, "SET NX beside a wrong guard", "no", set.took)
	})
}

// A reading need not hear all masters that have extended a key. What its holder counts on is within the spread of the ends.
func TestSpreadOfAnEnd(t *testing.T) {
	const all = 5
	for _, tt := range []struct {
		ends    []int // in seconds, of the masters that have answered
		pending int
		ttl     int
		spread  int
	}{
		{[]int{9, 9, 9, 9, 9}, 0, 9, 0}, {[]int{9, 9, 9, 1, 1}, 0, 9, 0}, {[]int{9, 9, 1, 1, 1}, 0, 1, 0},
		{[]int{9, 9, 1, 1}, 0, 1, 8}, {[]int{9, 9, 1, 1}, 1, 1, 8}, {[]int{9, 1, 1, 1}, 0, 1, 0}, {[]int{9, 5, 1}, 2, 1, 8}, {[]int{9, 5, 1}, 0, 1, 8},
		{[]int{9, 5}, 0, 9, 0}, // found by less than a quorum: nothing is sure anyway
	} {
		var answers []*answer
		for _, end := range tt.ends {
			answers = append(answers, &answer{keys: []answer{{kind: "string", value: "v", found: true, ttl: time.Duration(end) * time.Second}}})
		}
		s, is := mergeStates(answers, 0, all, tt.pending, 0, clock.Drift{})
		ttl := (s.TTL + clock.DriftConstant).Round(time.Second)
		if is != mergeDone || ttl != time.Duration(tt.ttl)*time.Second || s.Spread != time.Duration(tt.spread)*time.Second {
			t.Errorf("%v s, %d pending: got a TTL of %v and a spread of %v, want %d s and %d s", tt.ends, tt.pending, ttl, s.Spread, tt.ttl, tt.spread)
		}
	}
}

func TestMergeStates(t *testing.T) {
	// One letter per master: a value, . absent, h a hash, ? pending, x silent. All TTLs are 1000 ms, 2000, … in order.
	for _, tt := range []struct{ masters, want string }{
		{"vvv??", "v"}, {"vv???", "unsettled"}, {"...??", "absent"}, {"vv.??", "unsettled"}, {"vv..?", "unsettled"}, {"vv...", "absent, v"},
		{"vvvxx", "v"}, {"vv.xx", "v perhaps"}, {"v..xx", "v perhaps"}, {"v...x", "absent, v"}, {"...xx", "absent"}, {"vw.xx", "split"}, {"v..wx", "absent, v, split"}, {"vw..?", "absent, v, split"}, {"vw..", "absent, v, split"}, {"v...", "absent, v"}, {"vv.wx", "v perhaps"},
		{"vvww?", "unsettled"}, {"vvwwx", "split"}, {"vvww.", "absent, v, split"}, {"vvw..", "absent, v, split"}, {"hhh??", "hash"}, {"hhvv.", "absent, v, split"}, {"hhvww", "absent, w, split"}, {"hhhvw", "hash"}, {"hh...", "absent, "}, {"v", "v"}, {".", "absent"},
	} {
		var all []*answer
		pending := 0
		for i, letter := range tt.masters {
			a := answer{kind: "string", value: string(letter), found: true, ttl: time.Duration(i+1) * time.Second}
			switch letter {
			case '.':
				a = answer{kind: "none"}
			case 'h':
				a.kind, a.value = "hash", ""
			case '?':
				pending++
				continue
			case 'x':
				continue
			}
			all = append(all, &answer{keys: []answer{a}})
		}
		s, is := mergeStates(all, 0, len(tt.masters), pending, 0, clock.Drift{Factor: 0.01})
		got := "absent"
		switch {
		case is == mergeUndecided:
			got = "unsettled"
		case is == mergeSplit:
			got = "split"
		case s.Found && s.Type == "string":
			got = s.Value
			if !s.Sure {
				got += " perhaps"
			}
		case !s.Sure && !s.Found && is == mergeDone:
			got = "nonsense"
		case s.Found:
			got = s.Type
		case s.Type != "none":
			got = "nonsense"
		case s.Hint != "" || strings.ContainsAny(tt.masters, "vh"):
			got += ", " + s.Hint
		}
		if s.Split && is == mergeDone {
			got += ", split"
		}
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.masters, got, tt.want)
		}
	}
}

// A client counts its TTL from when it sent the command: it must be protected for all of it, and PTTL must not say more.
func TestDropInTTL(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		sent := time.Now()
		c := p.commit(setNX("r", "v", 10*time.Second))
		c.want(s, "SET NX", "held", 0)
		if !c.Until.Equal(sent.Add(10*time.Second)) || c.Validity != 10*time.Second {
			s.Errorf("validity: got %v until %v, want 10 s from the start", c.Validity, c.Until.Sub(sent))
		}
		_, left, _ := s.masters[0].Get("r")
		if left != 10114*ms {
			s.Errorf("TTL on a master: got %v, want 10.114s: 10 s, a step of 10 ms and 2 ms are 99 %% of it", left)
		}
		time.Sleep(10*time.Second - ms)
		p.lock(one("r", time.Second)).want(s, "LOCK just before the end", "no", 0)
		if st := p.states1("r").States[0]; !st.Found || st.TTL < ms || st.TTL > 102*ms {
			s.Errorf("state just before the end: got %+v, want found for 1 … 102 ms", st)
		}
		time.Sleep(padded(10*time.Second) - 10*time.Second + 2*ms)
		p.lock(one("r", time.Second)).want(s, "LOCK behind the end", "held", 0)
	})
}

func TestDropInLate(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.delay(20*ms, 20*ms, 0, 1, 2, 3, 4)
		p.commit(setNX("r", longValue, 40*ms)).want(s, "SET NX", "a quorum granted only after 40ms", 40*ms)
		time.Sleep(100 * ms)
		s.wantNoLocks()
		c := p.commit(setNX("r", longValue, 41*ms))
		c.want(s, "SET NX", "held", 40*ms)
		lease := p.Leases(func([]string) bool { return true }, 9)[0]
		if !c.Until.Equal(c.began.Add(41*ms)) || lease.Validity != ms {
			s.Errorf("got until %v after it was sent, and a lease for another %v, want 41 ms and 1 ms", c.Until.Sub(c.began), lease.Validity)
		}
	})
}

// One of each step, and what the native commands make of it.
func TestDropInSteps(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		for _, value := range []string{longValue, "1", ""} {
			p.commit(setNX("r", value, time.Second)).want(s, "SET NX", "held", 0)
			p.commit(setNX("r", otherValue, time.Second)).want(s, "SET NX of another", "no", 0)
			p.commit(setNX("r", value, time.Second)).want(s, "SET NX of the same", "no", 0)
			p.lock(one("r", time.Second)).want(s, "LOCK", "no", 0)
			if st := p.states1("r").States[0]; !st.Found || st.Value != value || st.TTL <= 990*ms || st.TTL > time.Second {
				s.Errorf("state: got %+v, want %q for nearly a second", st, value)
			}
			// The caller that chooses among them may take its time: nobody waits for it.
			if got := p.Leases(func([]string) bool { return p.Stats().Leases == 1 }, 9); len(got) != 1 || got[0].TokenDigest != TokenDigest(p.Client, value) {
				s.Errorf("leases: got %+v, want one", got)
			}
			p.commit(compareAndDelete("r", otherValue)).want(s, "DEL of another", "no", 0)
			p.commit(compareAndExpire("r", otherValue, time.Second)).want(s, "EXPIRE of another", "no", 0)
			p.commit(compareAndExpire("r", value, 2*time.Second)).want(s, "EXPIRE", "held", 0)
			p.commit(compareAndExpire("r", value, 500*ms)).want(s, "shorter EXPIRE", "held", 0)
			if st := p.states1("r").States[0]; st.TTL > 500*ms {
				s.Errorf("state after a shorter EXPIRE: got %+v, want at most 500 ms", st)
			}
			p.commit(Change{Resource: "r", Was: WasValue, Value: value}).want(s, "comparison", "held", 0)
			waiting := p.begin(one("r", time.Second).as("next").waits(time.Second))
			p.commit(compareAndDelete("r", value)).want(s, "DEL", "held", 0)
			p.finish(waiting).want(s, "LOCK that waited", "held", 0)
			p.unlock("next", "r")
			p.commit(compareAndDelete("r", value)).want(s, "DEL again", "no", 0)
			if st := p.states1("r").States[0]; st.Found || st.Type != "none" {
				s.Errorf("state at the end: got %+v, want not found", st)
			}
			s.wantNoLocks()
			if got := p.Leases(func([]string) bool { return true }, 9); len(got) != 0 {
				s.Errorf("leases at the end: got %+v, want none", got)
			}
		}
	})
}

// A key of another type is something else, and no error.
func TestDropInOtherTypes(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doAll("ZADD", "h", "1", "v")
		for _, change := range []Change{setNX("h", "v", time.Second), compareAndDelete("h", "v"), compareAndExpire("h", "v", time.Second), rotate("h", "v", "w", time.Second)} {
			p.commit(change).want(s, fmt.Sprintf("%+v", change), "no", 0)
			p.commit(change, Change{Resource: "other", Was: WasAbsent}).want(s, fmt.Sprintf("%+v and another", change), "no", 0)
		}
		if st := p.states1("h").States[0]; !st.Found || st.Type != "zset" || st.TTL >= 0 {
			s.Errorf("state: got %+v, want a sorted set for ever", st)
		}
	})
}

// Contenders that all use the same value must not take anything from the holder, and a holder of a bare quorum keeps it.
func TestSameValueNeverErodes(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.delay(ms, ms, 0, 1, 2, 3, 4)
		other.delay(ms, ms, 3, 4) // so that its attempts are decided with these two pending
		s.do(1, "SET", "r", otherValue, "PX", 2000)
		p.commit(setNX("r", "1", 10*time.Second)).want(s, "SET NX", "held", 2*ms)
		for range 20 {
			other.commit(setNX("r", "1", 10*time.Second))
			p.commit(setNX("r", "1", 10*time.Second)).want(s, "SET NX again", "no", 2*ms)
			time.Sleep(3 * ms)
			s.wantOn("r", "1", "10111")
		}
		p.commit(compareAndDelete("r", "1")).want(s, "DEL", "held", 2*ms)
	})
}

// A grant that comes after the attempt has failed is undone when it comes, and not before.
func TestDropInLateGrantIsUndone(t *testing.T) {
	for _, value := range []string{"1", longValue} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			s.doOn([]int{0, 1, 2}, "SET", "r", otherValue, "PX", 2000)
			p.delay(0, 20*ms, 3, 4)
			p.commit(setNX("r", value, 10*time.Second)).want(s, "SET NX", "no", 0)
			time.Sleep(10 * ms)
			s.wantOn("r", value, "00011")
			time.Sleep(20 * ms)
			s.wantOn("r", value, "00000")
		})
	}
}

// The answers of three masters are lost. What the SET may have left there ends with its TTL: the client may have been granted the value
// elsewhere meanwhile.
func TestDropInUnknown(t *testing.T) {
	for _, value := range []string{"1", longValue} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			p.holdReplies(2, 3, 4)
			p.commit(setNX("r", value, 30*time.Second)).want(s, "SET NX", "2 of 5 masters voted", giveUpNeeded)
			time.Sleep(100 * ms)
			p.heal(2, 3, 4)
			p.allUp()
			s.wantOn("r", value, "00111")
			time.Sleep(31 * time.Second)
			s.wantNoLocks()
		})
	}
}

// An attempt that failed cannot be undone on two masters, for the way to them is cut. Until it is mended another client is granted the
// same value there, through another proxy: nobody releases that.
func TestShortValueIsNotOwed(t *testing.T) {
	for _, answered := range []bool{true, false} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(), s.open()
			s.doOn([]int{2, 3, 4}, "SET", "r", otherValue, "PX", 300)
			p.delay(0, 10*ms, 2, 3, 4)
			if !answered {
				p.holdReplies(0, 1)
			}
			failed := p.beginCommit(setNX("r", "1", 100*ms))
			for i := range 2 {
				p.paths[i].Partition()
			}
			p.finish(failed).want(s, "SET NX", "no", 10*ms)
			for i := range 2 {
				p.paths[i].Cut()
			}
			time.Sleep(500 * ms)
			for i := 3; i < 5; i++ {
				other.paths[i].Partition()
			}
			other.commit(setNX("r", "1", 10*time.Second)).want(s, "SET NX through another proxy", "held", 0)
			p.heal(0, 1)
			p.allUp()
			s.wantOn("r", "1", "11100")
			p.commit(setNX("r", "2", 10*time.Second)).want(s, "SET NX of another value", "no", 10*ms)
		})
	}
}

// An extension that is decided behind a rotation of what it has extended makes no lease: the old value is held by nobody.
func TestExtensionUnderWayBesideARotation(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.commit(setNX("r", longValue, 10*time.Second)).want(s, "SET NX", "held", 0)
		s.do(2, "DEL", "r")
		p.delay(0, 10*ms, 3, 4)
		extended := p.startExtend(longValue, 10*time.Second, "r")
		synctest.Wait()
		s.do(2, "SET", "r", longValue, "PX", 10000)
		p.commit(rotate("r", longValue, otherValue, 10*time.Second)).want(s, "rotation", "held", 0)
		p.finish(extended)
		if got := p.Leases(func([]string) bool { return true }, 9); len(got) != 1 || got[0].TokenDigest != TokenDigest(p.Client, otherValue) {
			s.Errorf("leases: got %+v, want that of the new value", got)
		}
	})
}

// A vote that comes between the one that decides and the decision is left to the decision.
func TestVoteBeforeTheDecision(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		r := commitRound(verbCommitSet, []Change{setNX("r", longValue, time.Second)}, time.Now(), p.drift, 5)
		r.view = p.fleet.view.Load()
		var all quorum.Votes
		for i := range 5 {
			all |= quorum.Votes(quorum.Granted) << (4 * i)
		}
		p.commitLate(r, all, &deferred{})
		if r.commit.seen != 0 {
			s.Errorf("votes of the masters %b were acted on", r.commit.seen)
		}
	})
}

// While an attempt fails another one of the same value is granted: the undo leaves it alone.
func TestDropInUndoSparesTheNext(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doOn([]int{0, 1, 2}, "SET", "r", otherValue, "PX", 5000)
		p.delay(0, 20*ms, 3, 4)
		p.commit(setNX("r", longValue, 10*time.Second)).want(s, "SET NX", "no", 0)
		s.doOn([]int{0, 1, 2}, "DEL", "r")
		p.commit(setNX("r", longValue, 10*time.Second)).want(s, "SET NX again", "held", 0)
		time.Sleep(50 * ms)
		s.wantOn("r", longValue, "11111")
		p.commit(compareAndDelete("r", longValue))
		time.Sleep(50 * ms)
		s.wantNoLocks()
	})
}

func TestRotationClearsTheOldValue(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.commit(setNX("r", longValue, 10*time.Second))
		s.freeze(4)
		s.do(3, "DEL", "r")
		p.commit(rotate("r", longValue, otherValue, 5*time.Second)).want(s, "rotation", "held", 0)
		s.wantOn("r", otherValue, "11110") // the hole is filled
		p.commit(compareAndDelete("r", longValue)).want(s, "DEL of the old value", "no", 0)
		p.commit(compareAndDelete("r", otherValue)).want(s, "DEL", "held", 0)
		time.Sleep(100 * ms)
		s.thaw(4)
		p.allUp()
		s.wantSet("r", "00001") // it ends with its TTL
		time.Sleep(11 * time.Second)
		s.wantNoLocks()
		// A guard that fails on one master leaves the old value of another key there: that makes room for the new one, unless it is so short that
		// somebody else may hold the same.
		for i, old := range []string{strings.Repeat("v", uniqueMin), strings.Repeat("v", uniqueMin-1)} {
			a, b := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)
			p.commit(setNX(a, old, 10*time.Second), setNX(b, otherValue, 10*time.Second)).want(s, "both", "held", 0)
			s.do(0, "DEL", b)
			p.commit(rotate(a, old, "the third value, unique", 10*time.Second), Change{Resource: b, Was: WasValue, Value: otherValue}).want(s, "one", "held", 0)
			s.wantOn(a, old, []string{"00000", "10000"}[i])
			s.wantOn(a, "the third value, unique", []string{"11111", "01111"}[i])
		}
	})
}

// Nothing is kept for a master that is away of a value that was replaced there: a caller who holds the same value again, through another redlockd, would lose it there when
// the master comes back.
func TestReplacedValueIsNotOwed(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, q := s.open(), s.open()
		p.commit(setNX("r", longValue, 30*time.Second)).want(s, "SET NX", "held", 0)
		p.paths[4].Partition()
		p.commit(rotate("r", longValue, otherValue, 30*time.Second)).want(s, "rotation", "held", 0)
		p.paths[4].Cut()
		time.Sleep(time.Second)
		q.commit(rotate("r", otherValue, longValue, 30*time.Second)).want(s, "back, through another redlockd", "held", 0)
		p.heal(4)
		p.allUp()
		time.Sleep(100 * ms)
		s.wantOn("r", longValue, "11111")
	})
}

// What is cleared behind a release goes to masters that have not done it. On the others the caller may hold the same value again.
func TestReleaseOfSeveralSparesTheNextLock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.commit(setNX("a", longValue, 10*time.Second), setNX("b", longValue, 10*time.Second)).want(s, "SET NX", "held", 0)
		p.delay(0, 10*ms, 0, 1, 2, 3, 4)
		c := p.beginCommit(compareAndDelete("a", longValue), compareAndDelete("b", longValue))
		p.delay(20*ms, 0, 0, 1, 2, 3, 4)
		p.finish(c).want(s, "DEL", "held", 10*ms)
		other.commit(setNX("a", longValue, 10*time.Second)).want(s, "SET NX through another client", "held", 0)
		time.Sleep(50 * ms)
		s.wantOn("a", longValue, "11111")
	})
}

// A master that has lost one of the keys has released none. The others go there, too, whenever it answers.
func TestReleaseOfSeveralWhereOneIsLost(t *testing.T) {
	for _, far := range [][]int{{0}, {1, 2, 3, 4}} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			p.commit(setNX("a", longValue, 10*time.Second), setNX("b", longValue, 10*time.Second)).want(s, "SET NX", "held", 0)
			s.do(0, "DEL", "b")
			p.delay(0, 10*ms, far...)
			if c := p.commit(compareAndDelete("a", longValue), compareAndDelete("b", longValue)); !c.Held {
				s.Errorf("DEL: got %+v, want held", c.Result)
			}
			time.Sleep(20 * ms)
			s.wantNoLocks()

			// Who holds one of them again, under the same value, keeps it where the vote comes behind that.
			p.delay(0, 0, far...)
			p.commit(setNX("a", longValue, 10*time.Second), setNX("b", longValue, 10*time.Second)).want(s, "SET NX", "held", 0)
			s.do(0, "DEL", "b")
			p.delay(0, 10*ms, 0)
			p.commit(compareAndDelete("a", longValue), compareAndDelete("b", longValue)).want(s, "DEL where the master that is far has lost one", "held", 0)
			p.commit(setNX("a", longValue, 10*time.Second)).want(s, "SET NX again", "held", 0)
			time.Sleep(20 * ms)
			s.wantOn("a", longValue, "11111")
		})
	}
}

// Where nobody knows whether a release was done, what a master is known not to have released goes all the same.
func TestReleaseOfSeveralOfWhichNobodyKnows(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.commit(setNX("a", longValue, 10*time.Second), setNX("b", longValue, 10*time.Second)).want(s, "SET NX", "held", 0)
		s.doOn([]int{0, 1}, "DEL", "b")
		s.freeze(2, 3, 4)
		c := p.commit(compareAndDelete("a", longValue), compareAndDelete("b", longValue))
		c.want(s, "DEL without three masters", "of 5 masters voted", c.took)
		s.wantOn("a", longValue, "00111")
	})
}

// A value that others may use as well is not given back to a master that held something else: behind a release through another
// redlockd nobody would release it there.
func TestShortValueIsNotGivenBackBehindItsRelease(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, q := s.open(), s.open()
		s.do(4, "SET", "r", "of another", "PX", 5)
		p.delay(0, 10*ms, 4)
		p.commit(setNX("r", "1", 10*time.Second)).want(s, "SET NX", "held", 0)
		q.commit(compareAndDelete("r", "1")).want(s, "DEL through another redlockd", "held", 0)
		time.Sleep(20 * ms)
		s.wantNoLocks()
	})
}

// A release of several keys of which one is another's releases none, on no master, however late it answers.
func TestDeniedReleaseOfSeveralReleasesNothing(t *testing.T) {
	for _, far := range [][]int{{}, {3, 4}} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			p.commit(setNX("a", longValue, 10*time.Second)).want(s, "SET NX", "held", 0)
			s.doAll("SET", "b", otherValue, "PX", 5000)
			p.delay(0, 10*ms, far...)
			p.commit(compareAndDelete("a", longValue), compareAndDelete("b", longValue)).want(s, "DEL of both", "no", 0)
			time.Sleep(20 * ms)
			s.wantOn("a", longValue, "11111")
		})
	}
}

func TestFailedRotationIsTurnedBack(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.commit(setNX("r", longValue, 10*time.Second), setNX("kept", longValue, 10*time.Second))
		s.doOn([]int{0, 1, 2}, "SET", "b", "of another", "PX", 5000)
		kept := rotate("kept", longValue, longValue, 20*time.Second) // its owner counts on it: only the rotation is turned back
		p.commit(rotate("r", longValue, otherValue, 8*time.Second), setNX("b", otherValue, 8*time.Second), kept).want(s, "rotation", "no", 0)
		s.wantOn("r", longValue, "11111")
		s.wantOn("kept", longValue, "11111")
		s.wantOn("b", otherValue, "00000")
		if _, left, _ := s.masters[4].Get("r"); left < 7*time.Second {
			s.Errorf("TTL of what was put back: got %v, want that of the rotation at least", left)
		}
	})
}

func TestSeveralKeysAllOrNothing(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		both := func(ttl time.Duration) []Change {
			return []Change{setNX("a", longValue, ttl), setNX("b", otherValue, ttl)}
		}
		s.doOn([]int{0, 1, 2}, "SET", "b", "of another", "PX", 1000)
		p.commit(both(time.Second)...).want(s, "both", "no", 0)
		s.wantOn("a", longValue, "00000")
		s.wantOn("b", otherValue, "00000")
		s.doOn([]int{0, 1, 2}, "DEL", "b")
		p.commit(both(time.Second)...).want(s, "both", "held", 0)
		p.commit(compareAndExpire("a", longValue, 2*time.Second), compareAndExpire("b", "wrong", 2*time.Second)).want(s, "EXPIRE with a wrong value", "no", 0)
		p.commit(compareAndExpire("a", longValue, 2*time.Second), compareAndExpire("b", otherValue, 2*time.Second)).want(s, "EXPIRE", "held", 0)
		if n := p.Stats().Leases; n != 2 {
			s.Errorf("leases: got %d, want 2", n)
		}
		p.commit(compareAndDelete("a", longValue), Change{Resource: "b", Was: WasValue, Value: "wrong"}).want(s, "DEL beside a wrong guard", "no", 0)
		s.do(0, "DEL", "b") // there the guard fails: what remains is cleared
		p.commit(compareAndDelete("a", longValue), compareAndDelete("b", otherValue)).want(s, "DEL", "held", 0)
		s.wantNoLocks()
		if n := p.Stats().Leases; n != 0 {
			s.Errorf("leases: got %d, want 0", n)
		}
	})
}

// A commit of several keys gives them back to the masters that have lost one of them, each as a lease of its own, also where the vote
// comes after the decision. There a value that was rotated makes room for the new one first, and what is only compared stays away.
func TestCommitOfSeveralKeysFillsHoles(t *testing.T) {
	const third, guard = "the third value, unique", "a guard that is unique"
	for _, tt := range []struct {
		slow []int // to answer
		took time.Duration
	}{{[]int{0, 1}, 0}, {[]int{2, 3, 4}, ms}} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			p.delay(0, ms, tt.slow...)
			p.commit(setNX("a", longValue, 10*time.Second), setNX("b", otherValue, 10*time.Second), setNX("c", "1", 10*time.Second), setNX("guard", guard, 10*time.Second)).want(s, "all", "held", tt.took)
			time.Sleep(2 * ms)
			s.do(0, "DEL", "a", "b")
			s.do(1, "DEL", "b")
			p.commit(compareAndExpire("a", longValue, 20*time.Second), compareAndExpire("b", otherValue, 20*time.Second)).want(s, "EXPIRE", "held", tt.took)
			time.Sleep(4 * ms)
			s.wantOn("a", longValue, "11111")
			s.wantOn("b", otherValue, "11111")
			if _, left, _ := s.masters[1].Get("a"); left < 15*time.Second {
				s.Errorf("TTL of a key beside one that was lost: got %v, want that of the EXPIRE", left)
			}
			s.do(0, "DEL", "b", "c")
			s.do(1, "DEL", "b", "c")
			p.commit(rotate("a", longValue, third, 10*time.Second), compareAndExpire("b", otherValue, 10*time.Second), setNX("d", otherValue, 10*time.Second),
				Change{Resource: "c", Was: WasValue, Value: "1"}, Change{Resource: "guard", Was: WasValue, Value: guard}).want(s, "rotation", "held", tt.took)
			time.Sleep(4 * ms)
			s.wantOn("guard", guard, "11111")
			s.wantOn("a", third, "11111")
			s.wantOn("b", otherValue, "11111")
			s.wantOn("d", otherValue, "11111")
			s.wantOn("c", "1", "00111")
			// Who has released it meanwhile does not get it back.
			s.do(0, "DEL", "a")
			expire := p.beginCommit(compareAndExpire("a", third, 10*time.Second), compareAndExpire("b", otherValue, 10*time.Second))
			if c := p.commit(compareAndDelete("a", third)); !c.Held {
				s.Errorf("DEL: got %+v, want held", c.Result)
			}
			p.finish(expire)
			time.Sleep(4 * ms)
			s.wantOn("a", third, "00000")
		})
	}
}

// A lock of two keys that is only ever renewed as such outlives a restart of all masters, one after another.
func TestSeveralKeysOutliveRestarts(t *testing.T) {
	redisproc.NotRaced(t)
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.commit(setNX("a", longValue, 10*time.Second), setNX("b", otherValue, 10*time.Second)).want(s, "both", "held", 0)
		for i := range s.masters {
			s.restart(i)
			for range 20 {
				time.Sleep(5 * time.Second)
				p.commit(compareAndExpire("a", longValue, 10*time.Second), compareAndExpire("b", otherValue, 10*time.Second)).want(s, "EXPIRE", "held", 0)
			}
			p.allUp()
		}
	})
}

func TestDropInFrozenMinority(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.freeze(3, 4)
		p.commit(setNX("r", longValue, 10*time.Second)).want(s, "SET NX", "held", 0)
		if c := p.states1("r"); c.took != 0 || !c.States[0].Found {
			s.Errorf("reading: got %+v after %v, want found at once", c.Result, c.took)
		}
		p.commit(compareAndExpire("r", longValue, 10*time.Second)).want(s, "EXPIRE", "held", 0)
		p.commit(setNX("a", longValue, 10*time.Second), setNX("b", longValue, 10*time.Second)).want(s, "two", "held", 0)
		p.commit(compareAndDelete("a", longValue), compareAndDelete("b", longValue)).want(s, "DEL of two", "held", 0)
		p.commit(compareAndDelete("r", longValue)).want(s, "DEL", "held", 0)
		time.Sleep(100 * ms)
		s.thaw(3, 4)
		p.allUp()
		time.Sleep(11 * time.Second) // what was executed late ends with its TTL
		s.wantNoLocks()
		s.freeze(2, 3, 4)
		for _, change := range []Change{setNX("r", longValue, time.Second), compareAndDelete("r", longValue), compareAndExpire("r", longValue, time.Second)} {
			p.commit(change)
			if c := p.commit(change); !errors.Is(c.Err, ErrNoQuorum) {
				s.Errorf("%+v with three masters frozen: got %+v, want ErrNoQuorum", change, c.Result)
			}
		}
		if c := p.states1("r"); !errors.Is(c.Err, ErrNoQuorum) {
			s.Errorf("reading with three masters frozen: got %+v, want ErrNoQuorum", c.Result)
		}
	})
}

// Masters in quarantine do what they are told, and have no vote.
func TestDropInQuarantine(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.commit(setNX("held", longValue, 50*time.Second))
		for i := range 3 {
			s.restart(i)
		}
		s.until("quarantine", func() bool { return p.states() == "qqquu" })
		p.commit(setNX("r", "1", time.Second)).want(s, "SET NX", "of 5 masters voted", 0)
		s.wantOn("r", "1", "00000") // the quarantined ones too: it is known that they did it
		p.commit(setNX("held", otherValue, time.Second)).want(s, "SET NX of a held one", "of 5 masters voted", 0)
		p.commit(compareAndExpire("held", longValue, time.Second)).want(s, "EXPIRE", "of 5 masters voted", 0)
		if c := p.states1("held"); !errors.Is(c.Err, ErrNoQuorum) {
			s.Errorf("reading: got %+v, want ErrNoQuorum", c.Result)
		}
		p.commit(compareAndDelete("held", longValue)) // yes or no: three masters, which are enough to say so, have forgotten it
		s.wantOn("held", longValue, "00000")
	})
}

func TestDropInMaxHold(t *testing.T) {
	redisproc.NotRaced(t)
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxHold = 90 * time.Second })
		p.commit(setNX("r", longValue, time.Minute))
		time.Sleep(45 * time.Second)
		p.commit(compareAndExpire("r", longValue, 30*time.Second)).want(s, "EXPIRE", "held", 0)
		p.commit(compareAndExpire("r", longValue, time.Minute)).want(s, "EXPIRE beyond max_hold", "(max_hold)", 0)
		p.commit(rotate("r", longValue, otherValue, time.Minute)).want(s, "rotation beyond max_hold", "(max_hold)", 0)
		p.commit(rotate("r", longValue, otherValue, 30*time.Second)).want(s, "rotation", "held", 0)
		time.Sleep(20 * time.Second)
		p.commit(compareAndExpire("r", otherValue, 30*time.Second)).want(s, "EXPIRE of what was rotated", "(max_hold)", 0)
		// A value that says who holds it since when: its caller knows better, both ways.
		young, old := compareAndExpire("r", otherValue, 30*time.Second), compareAndExpire("r", otherValue, 20*time.Second)
		young.BornMs, old.BornMs = time.Now().UnixMilli(), time.Now().Add(-80*time.Second).UnixMilli()
		p.commit(old).want(s, "EXPIRE of what is older", "(max_hold)", 0)
		p.commit(young).want(s, "EXPIRE of what is younger", "held", 0)

		// Of several that are extended each is as old as the oldest, in whatever order they are named, and what is locked beside them is new.
		old, young = compareAndExpire("old", longValue, 30*time.Second), compareAndExpire("young", longValue, 30*time.Second)
		for i, both := range [][]Change{{old, young}, {young, old}} {
			p.commit(setNX("old", longValue, 60*time.Second))
			time.Sleep(30 * time.Second)
			p.commit(setNX("young", longValue, 60*time.Second))
			p.commit(append(both, setNX(fmt.Sprint("new", i), longValue, time.Minute))...).want(s, "EXPIRE of both beside SET NX", "held", 0)
			time.Sleep(29 * time.Second)
			for _, resource := range []string{"old", "young"} {
				p.commit(compareAndExpire(resource, longValue, 32*time.Second)).want(s, "EXPIRE of "+resource+" beyond max_hold", "(max_hold)", 0)
			}
			p.commit(compareAndExpire(fmt.Sprint("new", i), longValue, time.Minute)).want(s, "EXPIRE of the new one", "held", 0)
			p.commit(compareAndDelete("old", longValue), compareAndDelete("young", longValue)).want(s, "DEL", "held", 0)
		}
		// What is locked is not as old as what an empty value has held before, and what is deleted may be of any age.
		p.commit(setNX("r2", "", time.Minute), setNX("r3", longValue, time.Minute)).want(s, "SET NX of nothing", "held", 0)
		time.Sleep(50 * time.Second)
		s.doAll("DEL", "r2")
		p.commit(setNX("r2", "1", time.Minute)).want(s, "SET NX after somebody has deleted the key", "held", 0)
		p.bounds.limits.Store(&limits{maxHold: 10 * time.Second})
		p.commit(compareAndDelete("r3", longValue), setNX("r4", "1", 5*time.Second)).want(s, "DEL of what is older than max_hold", "held", 0)
	})
}

// Two of five masters are stopped: everything works, and when they go on no key is left behind anywhere.
func TestRealDropIn(t *testing.T) {
	servers, c := openFive(t, patient)
	commit := func(changes ...Change) bool {
		t.Helper()
		result, err := c.wait(context.Background(), func(op *Op, to Completer) { c.StartCommit(op, changes, to) })
		if err != nil {
			t.Fatalf("%+v: %v", changes, err)
		}
		return result.Held
	}
	round := func() {
		t.Helper()
		for _, value := range []string{longValue, "1", ""} {
			for i, step := range []struct {
				changes []Change
				want    bool
			}{
				{[]Change{setNX("r", value, 30*time.Second)}, true},
				{[]Change{setNX("r", value, 30*time.Second)}, false},
				{[]Change{compareAndExpire("r", value, 20*time.Second)}, true},
				{[]Change{rotate("r", value, otherValue, 20*time.Second)}, true},
				{[]Change{compareAndDelete("r", value)}, false},
				{[]Change{setNX("s", value, 30*time.Second), setNX("r", value, 30*time.Second)}, false},
				{[]Change{setNX("s", value, 30*time.Second), {Resource: "r", Was: WasValue, Value: otherValue}}, true},
				{[]Change{compareAndDelete("s", value), compareAndDelete("r", otherValue)}, true},
			} {
				if got := commit(step.changes...); got != step.want {
					t.Errorf("step %d with %q: got %v, want %v", i+1, value, got, step.want)
				}
			}
		}
	}
	round()
	noKeys(t, servers)
	result, err := c.wait(context.Background(), func(op *Op, to Completer) { c.StartRead(op, []string{"r", "s"}, to) })
	if err != nil || len(result.States) != 2 || result.States[0].Found || result.States[1].Type != "none" {
		t.Errorf("reading: got %+v, %v, want nothing found", result.States, err)
	}
	for _, server := range servers[3:] {
		server.Freeze()
	}
	for _, value := range []string{longValue, "another one that is unique"} {
		if !commit(setNX("r", value, 30*time.Second)) || !commit(compareAndDelete("r", value)) {
			t.Errorf("with two masters stopped: SET NX or DEL of %q refused", value)
		}
	}
	for _, server := range servers[3:] {
		server.Thaw()
	}
	allUp(t, c)
	noKeys(t, servers)
}

// By which verb changes are made, for how long their keys live, and which masters have missed them.
func TestWhatACommitIs(t *testing.T) {
	version, next, token := versionOf("a", 7, "held"), versionOf("a", 8, "next"), longValue
	short, longer := 5*time.Second, 7*time.Second
	delayed := setNX("r", token, short)
	delayed.Delay = 3 * time.Second
	expired := compareAndDelete("r", version)
	expired.TTL = time.Minute // of a deletion it says nothing
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		for name, tt := range map[string]struct {
			changes []Change
			verb    verb
			ttl     time.Duration
			longest time.Duration
			setsOne bool
			missed  string // of votes GDAOG
		}{
			"a token is set":           {[]Change{setNX("r", token, short)}, verbCommitSet, short, short, true, "00110"},
			"a version is set":         {[]Change{setNX("r", version, short)}, verbCommitAcquire, short, short, true, "00110"},
			"two tokens are set":       {[]Change{setNX("r", token, longer), setNX("s", token, short)}, verbCommitAcquire, short, longer, false, "00110"},
			"one is kept for longer":   {[]Change{delayed}, verbCommitSet, short, 8 * time.Second, true, "00110"},
			"a token takes its place":  {[]Change{rotate("r", token, "another "+token, short)}, verbCommitReplace, short, short, false, "00110"},
			"a version changes":        {[]Change{rotate("r", version, next, short)}, verbCommitReplace, short, short, false, "01110"},
			"a version is extended":    {[]Change{compareAndExpire("r", version, short)}, verbCommitExtend, short, short, false, "01110"},
			"a version is deleted":     {[]Change{expired}, verbCommitRelease, 0, 0, false, "00110"},
			"one deleted, another set": {[]Change{expired, setNX("s", version, short)}, verbCommitReplace, short, short, false, "00110"},
		} {
			v, ttl, err := p.bounds.checkCommit(tt.changes)
			k := &commit{changes: tt.changes}
			if v != tt.verb || ttl != tt.ttl || err != nil || longestOf(tt.changes) != tt.longest || k.setsOne() != tt.setsOne || k.missed(votesOf("GDAOG"), 5) != maskOf(tt.missed) {
				s.Errorf("%s: by verb %d for %v (%v), lives for %v, sets one %t, missed by %05b; want %+v", name, v, ttl, err, longestOf(tt.changes), k.setsOne(), k.missed(votesOf("GDAOG"), 5), tt)
			}
		}
	})
}

// Only what takes a lock counts as an acquisition that found no quorum, and only what does nothing but release is let in where others are not.
func TestWhatACommitCountsAs(t *testing.T) {
	for name, tt := range map[string]struct {
		changes           []Change
		acquires, release bool
	}{
		"SET NX":              {[]Change{setNX("r", longValue, time.Second)}, true, false},
		"DEL of one":          {[]Change{compareAndDelete("held", longValue)}, false, true},
		"DEL of two":          {[]Change{compareAndDelete("held", longValue), compareAndDelete("too", longValue)}, false, true},
		"EXPIRE":              {[]Change{compareAndExpire("held", longValue, time.Second)}, false, false},
		"a change of a value": {[]Change{rotate("held", longValue, "another "+longValue, time.Second)}, true, false},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			p.commit(setNX("held", longValue, 30*time.Second), setNX("too", longValue, 30*time.Second)).want(s, "SET NX of two", "held", 0)
			s.freeze(0, 1, 2)
			c := p.commit(tt.changes...)
			c.want(s, name, "masters voted", c.took)
			time.Sleep(ms)
			if got := p.Stats().NoQuorumFor > 0; got != tt.acquires || c.onlyReleases != tt.release {
				s.Errorf("%s: counts as an acquisition without a quorum %t, as a release %t; want %t and %t", name, got, c.onlyReleases, tt.acquires, tt.release)
			}
		})
	}
}

// A release that goes on without a quorum has ended the lock here: nobody lists it as held.
func TestLeaseOfAReleaseThatGoesOn(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		version := versionOf("a", 7, "held")
		p.commit(setNX("r", version, 30*time.Second)).want(s, "SET NX", "held", 0)
		s.freeze(0, 1, 2)
		c := p.commit(setNX("latch", "1", time.Second), compareAndDelete("r", version))
		c.want(s, "DEL beside a latch", "masters voted", c.took)
		if list := p.Leases(func([]string) bool { return true }, 9); len(list) != 0 {
			s.Errorf("got %+v, want no lease", list)
		}
	})
}
