package redlock

// Goal: a forced release ends the lock of those who hold it and of nobody else, the holder's client stops at once, and fences
// keep the old holder's writes apart from the next one's. Method: virtual time, several clients of the same masters.

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/fence"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/memmaster"
	"redlockd/redlock/quorum"
)

// force is an UNLOCK … FORCE that is run to its end.
func (p *proxy) force(resource string) *call {
	p.s.Helper()
	c := &call{began: time.Now()}
	p.StartForce(&c.Op, resource, c)
	return p.finish(c)
}

// wantForced is a force that finds these tokens.
func (p *proxy) wantForced(resource string, tokens ...string) *Forced {
	p.s.Helper()
	c := p.force(resource)
	if c.Err != nil || c.Held != (len(tokens) > 0) || c.Forced == nil {
		p.s.Fatalf("force %s: got %+v, want %d tokens", resource, c.Result, len(tokens))
	}
	var digests []string
	slices.Sort(tokens)
	for _, token := range tokens {
		digests = append(digests, TokenDigest(p.Client, token))
	}
	if !slices.Equal(c.Forced.Tokens, digests) {
		p.s.Fatalf("force %s: got the tokens %q, want %q", resource, c.Forced.Tokens, digests)
	}
	return c.Forced
}

func TestForceReleasesEveryHolder(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, admin := s.open(), s.open()
		if f := admin.wantForced("free"); f.Gone != 5 || f.Fence == 0 {
			s.Errorf("nobody holds it: got %+v, want 5 masters and a fence", f)
		}
		held := p.lock(one("r", 5*time.Second))
		if f := admin.wantForced("r", held.Token); f.Gone != 5 || f.Masters != 5 || f.Another != 0 {
			s.Errorf("got %+v, want gone on 5 of 5", f)
		}
		p.extend(held.Token, 5*time.Second, "r").want(s, "EXTEND behind a force", "no", 0)
		p.unlock(held.Token, "r").want(s, "UNLOCK behind a force", "no", 0)

		several := p.lock(several(5*time.Second, "a", "b"))
		admin.wantForced("b", several.Token)
		p.extend(several.Token, 5*time.Second, "a", "b").want(s, "EXTEND of both", "no", 0)
		s.wantSet("a", "11111") // ends with its TTL
		p.unlock(several.Token, "a")

		slot := p.lock(LockRequest{Resources: []string{"jobs"}, TTL: 5 * time.Second, Slots: 2})
		admin.wantForced(slot.Slot, slot.Token)

		readers := []*call{p.lock(one("books", 5*time.Second).sharing()), admin.lock(one("books", 5*time.Second).sharing()), p.lock(one("books", 5*time.Second).sharing().as("reader"))}
		admin.wantForced("books", readers[0].Token, readers[1].Token, "reader")
		for i, r := range readers {
			p.extend(r.Token, 5*time.Second, "books").want(s, fmt.Sprintf("EXTEND of reader %d", i+1), "no", 0)
		}
		value := "an envelope: " + strings.Repeat("x", 9000)
		p.commit(Change{Resource: "typed", Was: WasAbsent, Do: Set, NewValue: value, TTL: 5 * time.Second}).want(s, "SET NX of a value", "held", 0)
		admin.wantForced("typed", value)
		s.wantNoLocks()
	})
}

func TestForceOfManyReaders(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, admin := s.open(), s.open()
		const readers = forceReadersMax + 40
		for i := range readers {
			p.lock(one("r", 5*time.Second).sharing().as(fmt.Sprintf("reader %d", i))).want(s, "a reader's LOCK", "held", 0)
		}
		left := readers
		for range 3 {
			f := admin.force("r").Forced
			left -= len(f.Tokens)
			if f.Readers != left {
				s.Errorf("got %d readers left, want %d", f.Readers, left)
			}
			if left == 0 {
				break
			}
		}
		s.wantNoLocks()
	})
}

// A resource that is told of the fence of a forced release refuses the old holder, and every later grant is above it.
func TestForceRaisesTheFence(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, admin, late := s.open(), s.open(), s.open()
		p.ahead(500 * ms)
		held := p.lock(LockRequest{Resources: []string{"r"}, TTL: 5 * time.Second, Fence: true})
		admin.ahead(900 * ms)
		f := admin.wantForced("r", held.Token)
		if f.Fence <= held.Fence {
			s.Errorf("the fence of the forced release is %d, want more than the holder's, %d", f.Fence, held.Fence)
		}
		if next := late.fenced("r"); next <= f.Fence {
			s.Errorf("the next fence is %d, want more than that of the forced release, %d", next, f.Fence)
		}
		admin.fences = fence.Clock{AheadMax: admin.fences.AheadMax} // its clock is behind
		last := admin.wantForced("r").Fence
		if before := f.Fence; last <= before {
			s.Errorf("the fence of the second forced release is %d, want more than %d", last, before)
		}
	})
}

// Masters whose votes do not count may have forgotten marks: while a quorum of them is such, nothing is released.
func TestForceNeedsAQuorumOfMarks(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, admin := s.open(), s.open()
		held := p.lock(one("r", 30*time.Second))
		s.stepClocks(5*time.Second, 0, 1, 2)
		s.until("three masters are doubted", func() bool { return admin.states() == "ooouu" })
		admin.delay(5*ms, 5*ms, 0, 1, 2, 3, 4)
		c := admin.force("r")
		c.want(s, "a force with two votes", "2 of 5 masters voted", 10*ms) // a higher mark would not get more
		s.wantOn("r", held.Token, "11111")
		s.masters[3].Crash(false)
		s.masters[4].Crash(false)
		if c = admin.force("r"); c.Err == nil {
			s.Errorf("a force without any vote: got %+v, want an error", c.Result)
		}
	})
}

// A mark that is too low for some masters is followed by a higher one: fenceRetries times in all, for each reading of what masters hold, and where a
// quorum answers.
func TestForceOfMarksThatRise(t *testing.T) {
	for _, tt := range []struct {
		what  string
		rises int  // how often other clients raise the marks before the next one of the force comes
		split bool // different tokens hold the resource, so it is read twice, and the marks rise beside the second reading
		want  string
		took  time.Duration
	}{
		{"the last try", fenceRetries - 1, false, "held", fenceRetries*10*ms + 10*ms},
		{"one more", fenceRetries, false, "3 of 5 masters voted", fenceRetries * 10 * ms},
		{"the last try of the second reading", fenceRetries - 1, true, "held", fenceRetries*10*ms + 20*ms},
	} {
		t.Run(tt.what, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				admin := s.open(func(o *Options) { o.Heartbeat = 10 * time.Second }) // no heartbeat takes its time between two rounds
				all := []int{0, 1, 2, 3, 4}
				if s.doOn(all[:2], "set", "r", "one", "px", "20000"); tt.split {
					s.doOn(all[2:4], "set", "r", "two", "px", "20000")
					tt.took += admin.opts.splitAfter()
				} else {
					s.do(2, "set", "r", "one", "px", "20000")
					s.freeze(3, 4)
					s.until("two masters are away", func() bool { return admin.states() == "uuudd" })
					all = all[:3]
				}
				admin.delay(5*ms, 5*ms, 0, 1, 2, 3, 4)
				c := &call{began: time.Now()}
				admin.StartForce(&c.Op, "r", c)
				if tt.split {
					time.Sleep(10*ms + admin.opts.splitAfter())
				}
				time.Sleep(3 * ms)
				mark := fence.Time(time.Now())
				for range tt.rises {
					mark += 1 << 30
					s.doOn(all, "zadd", lua.MarksKey, fmt.Sprint(mark), "r")
					time.Sleep(10 * ms)
				}
				admin.finish(c).want(s, "a force", tt.want, tt.took)
				if held := tt.want == "held"; !held {
					s.wantOn("r", "one", "11100")
				}
			})
		})
	}
}

// What fewer than a quorum of masters shows may be an attempt under way elsewhere, whose votes count there already.
func TestForceSparesAttemptsUnderWay(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, admin, other := s.open(), s.open(), s.open()
		held := p.lock(one("r", 5*time.Second))
		other.delay(0, 20*ms, 0, 1, 2, 3, 4)
		s.do(3, "del", "r")
		s.do(4, "del", "r")
		attempt := other.begin(one("r", 5*time.Second)) // has masters 4 and 5, and is denied by the others
		admin.wantForced("r", held.Token)
		s.wantSet("r", "00011")
		other.finish(attempt).want(s, "the attempt", "no", 20*ms)
		s.until("the attempt is taken back", func() bool { return s.on("r", "") == "00000" && len(locksOn(s.masters[4])) == 0 })
		s.wantNoLocks()
	})
}

// Nobody can lock what different masters hold for different tokens. A force releases that, when it has been there for as long as an attempt
// can take to be decided.
func TestForceOfSplitVotes(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		admin, other := s.open(), s.open()
		set := func(token, ttl string, masters ...int) { s.doOn(masters, "set", "r", token, "px", ttl) }
		const changing = "Nothing was released, because clients are changing it: try again"
		version := versionOf("a", 3, "of a library")
		set("one", "20000", 0, 1)
		set(version, "30000", 2, 3)
		admin.lock(one("r", 5*time.Second)).want(s, "LOCK", "no", 0)
		time.Sleep(time.Second)
		began := time.Now()
		c := &call{began: began}
		admin.StartForce(&c.Op, "r", c)
		time.Sleep(admin.opts.splitAfter() - ms)
		s.wantSet("r", "11110")
		admin.finish(c).want(s, "a force of 2 + 2 masters", "held", admin.opts.splitAfter())
		if f := c.Forced; f == nil || len(f.Tokens) != 2 || f.Gone != 5 || f.Another != 0 || f.Renewed != 0 {
			s.Errorf("a force of 2 + 2 masters: got %+v, want both tokens gone", f)
		}
		s.wantNoLocks()
		held := other.lock(one("r", 5*time.Second))
		held.want(s, "LOCK then", "held", 0)
		other.unlock(held.Token, "r")

		// What changes all the while stays.
		set("one", "20000", 0, 1)
		set(version, "30000", 2, 3)
		c = &call{began: time.Now()}
		admin.StartForce(&c.Op, "r", c)
		for !c.done.Load() {
			time.Sleep(admin.opts.splitAfter() / 2)
			s.doOn([]int{0, 1}, "pexpire", "r", "20000")
		}
		c.want(s, "a force of what is renewed", "free on only 1 of 5 masters: 2 hold", c.took)
		if c.Err == nil || !strings.Contains(c.Err.Error(), changing) {
			s.Errorf("a force of what is renewed: got %v, want %q", c.Err, changing)
		}
		s.wantSet("r", "11110")

		// So are readers' tokens, beside what redlockd has not written and a master that is away.
		s.freeze(4)
		s.until("the master is away", func() bool { return admin.states() == "uuuud" })
		s.doOn([]int{0, 1, 2, 3}, "del", "r")
		set("one", "20000", 0)
		s.do(1, "zadd", "r", "20000", "r:another")
		s.do(1, "zadd", "r", "20000", "redlockd:end")
		s.do(1, "pexpire", "r", "20000")
		s.do(2, "hset", "r", "field", "1")
		c = admin.force("r")
		c.want(s, "a force of 1 + 1 masters beside a hash", "held", admin.opts.splitAfter())
		s.wantSet("r", "00100")
		s.do(2, "del", "r")
		s.thaw(4)
		s.until("the master is back", func() bool { return admin.states() == "uuuuu" })
		if f := admin.wantForced("r"); f.Gone != 5 {
			s.Errorf("three masters are free: got %+v, want that nobody holds it", f)
		}

		// What its holder renews between the last reading and the release is spared, and so is a token that a redlockd made.
		for _, token := range []string{"two", madeToken} {
			set("one", "20000", 0, 1)
			set(token, "20000", 2, 3)
			admin.delay(0, 10*ms, 0, 1, 2, 3, 4)
			c = &call{began: time.Now()}
			admin.StartForce(&c.Op, "r", c)
			time.Sleep(admin.opts.splitAfter() + 15*ms)
			admin.delay(0, 0, 0, 1, 2, 3, 4)
			s.doOn([]int{2, 3}, "pexpire", "r", "40000")
			admin.finish(c).want(s, "a force of what is renewed last", "held", admin.opts.splitAfter()+20*ms)
			if c.Forced == nil || c.Forced.Renewed != 2 {
				s.Errorf("a force of what is renewed last: got %+v, want that it was renewed on 2 masters", c.Forced)
			}
			s.wantOn("r", token, "00110")
			s.wantSet("r", "00110")
			s.doAll("del", "r")
		}

		// What never ends cannot be renewed.
		s.doOn([]int{0, 1}, "set", "r", "one")
		s.doOn([]int{2, 3}, "set", "r", "two")
		admin.force("r").want(s, "a force of what never ends", "held", admin.opts.splitAfter())
		s.wantNoLocks()
	})
}

// The holder's client is another one: it renews no more, and says so.
func TestForceElsewhereEndsAHeldLock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, admin := s.open(), s.open()
		o := p.holder()
		p.lock(one("other", 30*time.Second).heldBy(o))
		held := p.lock(one("r", 30*time.Second).heldBy(o))
		waits := p.begin(one("r", 5*time.Second).waits(time.Minute))
		admin.wantForced("r", held.Token)
		o.wantTold("r")
		o.wantKept(false, 1, "r")
		p.finish(waits).want(s, "the next in line", "held", 0)
		if len(p.Leases(func([]string) bool { return true }, 10)) != 2 {
			s.Errorf("got %+v, want the leases of other and of the next in line", p.Leases(func([]string) bool { return true }, 10))
		}
		o.wantKept(true, 1)
		// The same where the holder is of the client that forces, and of a reader.
		reader := p.lock(one("books", 30*time.Second).sharing().heldBy(o))
		waits = p.begin(one("books", 5*time.Second).waits(time.Minute))
		p.wantForced("books", reader.Token)
		p.finish(waits).want(s, "the next in line", "held", 0)
		if n := p.Stats().Handovers; n != 1 {
			s.Errorf("got %d hand-overs, want that the next in line asks right behind the release", n)
		}
		o.wantTold("r", "books")
		o.wantKept(false, 1, "books")
		for range 20 {
			time.Sleep(3 * time.Second)
			o.wantKept(true, 1)
		}
		s.wantSet("books", "00000")
	})
}

// A message that fewer masters than a quorum have sent is one that false masters have made up. Of others' tokens it says nothing.
func TestForgedForce(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		var log journal
		p := s.open(log.option)
		o := p.holder()
		held := p.lock(one("r", 30*time.Second).heldBy(o))
		publish := func(f *forcedRelease, masters ...int) { s.doOn(masters, "publish", windowsChannel, f.text()) }
		another := &forcedRelease{id: member.Nonce(), resource: "r", digests: []string{conn.Digest("another")}}
		publish(another, 0, 1, 2, 3, 4)
		f := &forcedRelease{id: member.Nonce(), resource: "r", digests: []string{conn.Digest("another"), conn.Digest(held.Token)}}
		publish(f, 0, 1)
		publish(f, 1)
		for range 2 * forcedMax {
			publish(&forcedRelease{id: member.Nonce(), resource: "r", digests: f.digests}, 0)
		}
		s.doAll("publish", windowsChannel, forcedPrefix+"no-id-at-all "+conn.Digest(held.Token)+" r")
		o.wantTold()
		o.wantKept(true, 1)
		synctest.Wait()
		if n := len(p.forced.all); n > forcedMax {
			s.Errorf("%d forced releases are remembered, want at most %d", n, forcedMax)
		}
		// One master puts another text in the place of a true message. That ends no lock, and keeps the true message out of none.
		other := &forcedRelease{id: member.Nonce(), resource: "of nobody here", digests: []string{conn.Digest("another")}}
		f.id = other.id
		publish(f, 0)
		publish(other, 1, 2, 3, 4)
		o.wantTold()
		o.wantKept(true, 1)
		publish(f, 1, 2)
		o.wantTold("r")
		if lines := log.take("released by force through another redlockd"); len(lines) != 1 {
			s.Errorf("got the lines %q, want one", lines)
		}
		for range 2 * forcedMax {
			publish(&forcedRelease{id: member.Nonce(), resource: "r", digests: f.digests}, 0)
		}
		synctest.Wait()
		if !slices.ContainsFunc(p.forced.all, func(known *forcedRelease) bool { return known.id == f.id && known.applied }) {
			s.Error("one master's messages have a forced release forgotten that a quorum has sent")
		}
		s.wantNoLocks()
		if tokens := p.leases.tokensOf("what nobody has locked here"); len(tokens) != 0 {
			s.Errorf("got the tokens %q of what nobody has locked here", tokens)
		}
	})
}

// A forced release is applied once, to what it names. A lock that was granted here since is left alone: also under the same token, which its caller had
// chosen, when a late master sends the message.
func TestForceIsAppliedOnce(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		first, second := p.holder(), p.holder()
		publish := func(f *forcedRelease, masters ...int) { s.doOn(masters, "publish", windowsChannel, f.text()) }
		req := one("r", 30*time.Second).as("a caller's own token")
		p.lock(req.heldBy(first)).want(s, "LOCK", "held", 0)
		f := &forcedRelease{id: member.Nonce(), resource: "r", digests: []string{conn.Digest(req.Token)}}
		publish(f, 0, 1, 2)
		first.wantTold("r")
		p.lock(req.heldBy(second)).want(s, "LOCK again", "held", 0)
		publish(f, 3, 4)
		second.wantTold()
		second.wantKept(true, 1)

		// What was forced is still bound to its holder here when the lock is the next one's already. On the last master it is still there.
		held := p.lock(one("s", 30*time.Second).heldBy(first))
		s.doAll("del", "s")
		next := p.lock(one("s", 30*time.Second))
		next.want(s, "LOCK by the next one", "held", 0)
		s.do(4, "set", "s", held.Token, "px", "20000")
		publish(&forcedRelease{id: member.Nonce(), resource: "s", digests: []string{conn.Digest(held.Token)}}, 0, 1, 2)
		first.wantTold("r", "s")
		s.wantOn("s", next.Token, "11110")
		s.wantSet("s", "11110")
		p.unlock(next.Token, "s").want(s, "UNLOCK by the next one", "held", 0)

		// The next in line asks as soon as the message has released the lock.
		held = p.lock(one("t", 30*time.Second).heldBy(first))
		waits := p.begin(one("t", 5*time.Second).waits(time.Minute))
		publish(&forcedRelease{id: member.Nonce(), resource: "t", digests: []string{conn.Digest(held.Token)}}, 0, 1, 2)
		p.finish(waits).want(s, "the next in line", "held", 0)
		if n := p.Stats().Handovers; n != 1 {
			s.Errorf("got %d hand-overs, want that the next in line asks right behind the release", n)
		}
	})
}

// What the holder's client has under way when the lock is forced neither says that it is held nor brings it back.
func TestForceOvertakesWhatIsUnderWay(t *testing.T) {
	type underWay struct {
		name    string
		rotates bool
		shared  bool
		start   func(p *proxy, held *call) *call
	}
	takeOver := func(p *proxy, held *call) *call {
		c := &call{began: time.Now()}
		p.StartHold(&c.Op, LockRequest{Resources: []string{"r"}, Token: held.Token, TTL: 20 * time.Second, Holder: p.holder().Holder}, c)
		return c
	}
	for _, what := range []underWay{
		{"EXTEND", false, false, func(p *proxy, held *call) *call {
			c := p.startExtend(held.Token, 20*time.Second, "r")
			return c
		}},
		{"PEXPIRE", false, false, func(p *proxy, held *call) *call {
			return p.beginCommit(compareAndExpire("r", held.Token, 20*time.Second))
		}},
		{"LOCK again", false, false, func(p *proxy, held *call) *call { return p.begin(one("r", 20*time.Second).as(held.Token)) }},
		{"a commit that puts another value in the place", true, false, func(p *proxy, held *call) *call {
			return p.beginCommit(Change{Resource: "r", Was: WasValue, Value: held.Token, Do: Set, NewValue: "a value that is long enough", TTL: 20 * time.Second})
		}},
		{"HOLD", true, false, takeOver},
		{"HOLD of a reader's lock", true, true, takeOver},
	} {
		t.Run(what.name, func(t *testing.T) {
			masters := make([]memmaster.Options, 5)
			for i := range masters {
				masters[i].IFEQ = what.shared // a release that is not for readers is no script there
			}
			onMasters(t, masters, func(s *stage) {
				p, admin := s.open(), s.open()
				req := one("r", 10*time.Second).as("a caller's own token")
				req.Shared = what.shared
				held := p.lock(req)
				all := []int{0, 1, 2, 3, 4}
				if what.rotates {
					// Three masters have put the new value in the place of the token when the admin's client, which has seen the token on all of
					// them, releases it. The answers come behind the message.
					p.delay(10*ms, 30*ms, 0, 1, 2)
					p.delay(35*ms, 0, 3, 4)
					c := what.start(p, held)
					synctest.Wait()
					admin.delay(0, 20*ms, all...)
					force := &call{began: time.Now()}
					admin.StartForce(&force.Op, "r", force)
					time.Sleep(15 * ms)
					p.delay(0, 0, all...)
					admin.finish(force).want(s, "the force", "held", 40*ms)
					if another := force.Forced.Another; another != 3 && !what.shared { // in a set, another token is not in the way
						s.Errorf("got %+v, want another token on 3 masters", force.Forced)
					}
					p.finish(c).want(s, what.name, "no", 40*ms)
				} else {
					// The masters have executed it, and the answers are on their way when the lock is forced.
					p.delay(0, 30*ms, all...)
					c := what.start(p, held)
					synctest.Wait()
					p.delay(0, 0, all...)
					admin.wantForced("r", held.Token)
					p.finish(c).want(s, what.name, "no", 30*ms)
				}
				if n := p.Stats().Leases; n != 0 {
					s.Errorf("%s: %d leases are left, want none", what.name, n)
				}
				time.Sleep(100 * ms)
				s.wantNoLocks()
			})
		})
	}
	t.Run("SET NX that some masters get behind the release", func(t *testing.T) {
		inVirtualTime(t, 5, func(s *stage) {
			p, admin := s.open(), s.open()
			all := []int{0, 1, 2, 3, 4}
			p.delay(10*ms, 30*ms, 0, 1, 2)
			p.delay(35*ms, 0, 3, 4)
			c := p.beginCommit(setNX("r", longValue, 20*time.Second))
			time.Sleep(12 * ms)
			admin.delay(0, 10*ms, all...)
			force := &call{began: time.Now()}
			admin.StartForce(&force.Op, "r", force)
			time.Sleep(10 * ms)
			p.delay(0, 0, all...)
			admin.finish(force).want(s, "the force", "held", 20*ms)
			p.finish(c).want(s, "SET NX", "no", 40*ms)
			time.Sleep(100 * ms)
			s.wantNoLocks()
		})
	})
	t.Run("a commit that puts a value that others may use in the place, and locks another key", func(t *testing.T) {
		inVirtualTime(t, 5, func(s *stage) {
			p, admin := s.open(), s.open()
			held := p.lock(one("r", 10*time.Second))
			p.delay(10*ms, 30*ms, 0, 1, 2)
			p.delay(10*ms, 40*ms, 3, 4) // these vote when it is decided
			short := Change{Resource: "r", Was: WasValue, Value: held.Token, Do: Set, NewValue: "short", TTL: 20 * time.Second}
			c := p.beginCommit(setNX("x", longValue, 20*time.Second), short)
			admin.delay(0, 20*ms, 0, 1, 2, 3, 4)
			force := &call{began: time.Now()}
			admin.StartForce(&force.Op, "r", force)
			time.Sleep(15 * ms)
			p.delay(0, 0, 0, 1, 2, 3, 4)
			admin.finish(force).want(s, "the force", "changed hands", 40*ms)
			p.finish(c).want(s, "the commit", "no", 40*ms)
			time.Sleep(200 * ms)
			// It may be of others since, and ends with its TTL. What was released does not come back.
			s.wantOn("r", "short", "11111")
			s.wantOn("x", longValue, "11111")
		})
	})
	t.Run("EXTEND through the client that forces", func(t *testing.T) {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.openFar(func(o *Options) { o.Heartbeat = 10 * time.Second })
			held := p.lock(one("r", 10*time.Second))
			force := &call{began: time.Now()}
			p.StartForce(&force.Op, "r", force)
			time.Sleep(5 * ms) // the masters execute it between the two rounds of the force
			c := p.startExtend(held.Token, 20*time.Second, "r")
			p.finish(force).want(s, "the force", "held", 40*ms)
			p.finish(c).want(s, "EXTEND", "no", 20*ms)
			s.wantNoLocks()
		})
	})
}

// A refill that a master gets late does not outlive the forced release: the client that has sent it releases behind it.
func TestForceGoesBehindRefills(t *testing.T) {
	for _, shared := range []bool{false, true} {
		masters := make([]memmaster.Options, 5)
		for i := range masters {
			masters[i].IFEQ = shared // a release that is not for readers is no script there
		}
		onMasters(t, masters, func(s *stage) {
			p, admin := s.open(), s.open()
			req := one("r", 20*time.Second)
			req.Shared = shared
			held := p.lock(req)
			s.do(4, "del", "r")
			p.delay(20*ms, 0, 4)
			p.extend(held.Token, 20*time.Second, "r").want(s, "EXTEND", "held", 0)
			time.Sleep(21 * ms) // the master has said that the key is absent, and the refill is on its way
			admin.wantForced("r", held.Token)
			time.Sleep(60 * ms)
			s.wantNoLocks()
		})
	}
}

// A master that is away keeps a token that a redlockd made no longer than until it is back.
func TestForceIsKeptForMastersThatAreAway(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, admin := s.open(), s.open()
		held := p.lock(one("r", 30*time.Second))
		s.doAll("set", "of a redlockd that has gone", madeToken, "px", "30000")
		s.freeze(3, 4)
		if f := admin.wantForced("of a redlockd that has gone", madeToken); f.Gone != 3 {
			s.Errorf("of a redlockd that has gone: got %+v, want gone on 3 masters", f)
		}
		if f := admin.wantForced("free"); f.Gone != 3 || f.Masters != 5 {
			s.Errorf("nobody holds it: got %+v, want that 3 masters of 5 have said so", f)
		}
		if f := admin.wantForced("r", held.Token); f.Gone != 3 {
			s.Errorf("got %+v, want gone on 3 masters", f)
		}
		s.thaw(3, 4)
		s.until("the masters that were away have released it", func() bool { return s.on("r", held.Token) == "00000" })
		s.wantSet("of a redlockd that has gone", "00000")
		held = p.lock(one("r", 30*time.Second))
		s.freeze(2, 3, 4)
		if c := admin.force("r"); c.Err == nil || c.Held {
			s.Errorf("a force with two masters: got %+v, want an error", c.Result)
		}
		s.thaw(2, 3, 4)
		time.Sleep(time.Second)
		s.wantOn("r", held.Token, "11111")
	})
}

// What redlockd has not written is left alone.
func TestForceOfAStrangersKey(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		admin := s.open()
		for i := range s.masters {
			s.do(i, "hset", "h", "field", "1")
			s.do(i, "zadd", "z", "1", "member")
		}
		s.do(0, "zadd", "on two", "1", "member")
		s.do(2, "hset", "on two", "field", "1")
		for _, tt := range []struct{ key, kind, on string }{{"h", "hash", "111"}, {"z", "zset", "111"}, {"on two", "zset", "101"}} {
			admin.force(tt.key).want(s, "a force of "+tt.key, fmt.Sprintf("%q is a %s on the masters that redlockd has not written: nothing was released", tt.key, tt.kind), 0)
			s.wantSet(tt.key, tt.on)
		}
		admin.force(ReservedPrefix+"marks").want(s, "a force of our own key", "kept for redlockd itself", 0)
	})
}

// While masters are away, what the others hold may have a quorum with them, or nobody can tell what keeps the resource from being locked. Nothing is
// released then, at once or later, and no client is told of a release.
func TestForceThatFindsNoHolder(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		admin := s.open()
		s.freeze(4)
		s.doOn([]int{0, 1}, "hset", "h", "field", "1")
		s.until("a master is away", func() bool { return admin.states() == "uuuud" })
		const hash = "1 holds a hash that redlockd has not written: remove it there by hand; "
		admin.force("h").want(s, "a force of a key that is another's on two masters", "free on only 2 of 5 masters: "+hash+hash+"1 has not answered. Nothing was released", 0)
		s.wantSet("h", "11000")

		s.freeze(3)
		s.until("two masters are away", func() bool { return admin.states() == "uuudd" })
		s.doOn([]int{0, 1}, "set", "r", "one", "px", "20000")
		c := admin.force("r")
		var few *NoQuorumError
		if !errors.As(c.Err, &few) || few.Voted != 3 || few.Late != 0 || c.took != 0 {
			s.Errorf("a force of what a quorum may hold: got %+v in %v, want that 3 masters of 5 have answered", c.Result, c.took)
		}
		time.Sleep(splitReadings * admin.opts.splitAfter())
		s.wantOn("r", "one", "11000")
		if len(admin.forced.all) != 0 {
			s.Errorf("got %d messages of forced releases, want none", len(admin.forced.all))
		}
		s.thaw(3, 4)
		s.until("the masters are back", func() bool { return admin.states() == "uuuuu" })
		s.do(2, "set", "r", "two", "px", "20000")
		s.do(3, "set", "r", "three", "px", "20000")
		s.do(4, "set", "r", "four", "px", "20000")
		admin.force("r").want(s, "a force of four tokens", "held", admin.opts.splitAfter())
		s.wantSet("r", "00000")
		if len(admin.forced.all) != 1 {
			s.Errorf("got %d messages of a forced release that has read twice, want one", len(admin.forced.all))
		}
	})
}

// A token that changes hands between the two rounds is the next one's.
func TestForceOfALockThatChangesHands(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, admin := s.open(), s.open()
		held := p.lock(one("r", 5*time.Second))
		admin.delay(0, 20*ms, 0, 1, 2)
		c := &call{began: time.Now()}
		admin.StartForce(&c.Op, "r", c)
		time.Sleep(ms)
		p.unlock(held.Token, "r")
		next := p.lock(one("r", 5*time.Second))
		admin.finish(c).want(s, "the force", "changed hands", 40*ms)
		s.wantOn("r", next.Token, "111")
	})
}

// A caller that chose its token does not know of the force, and repeats its LOCK through another proxy. What the force still has on its way to slow
// masters leaves that lock alone, of a writer and of a reader.
func TestForceSparesARepeatedLock(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%t", shared), func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p, admin, other := s.open(), s.open(), s.open()
				req := one("r", 10*time.Second).as("a caller's own token")
				req.Shared = shared
				p.lock(req).want(s, "LOCK", "held", 0)
				time.Sleep(time.Second)
				admin.delay(0, 10*ms, 0, 1, 2, 3, 4)
				force := &call{began: time.Now()}
				admin.StartForce(&force.Op, "r", force)
				time.Sleep(ms) // the masters have told who holds it
				admin.delay(0, 0, 0, 1)
				admin.delay(30*ms, 0, 2, 3, 4)
				other.paths[0].Partition()
				other.paths[1].Partition()
				time.Sleep(10 * ms)
				s.wantSet("r", "00111")
				other.lock(req).want(s, "LOCK again, through another proxy", "held", 0)
				admin.finish(force).want(s, "the force", "was renewed", 40*ms)
				time.Sleep(100 * ms)
				s.wantSet("r", "00111")
				admin.wantForced("r", req.Token)
				time.Sleep(100 * ms)
				s.wantNoLocks()
			})
		})
	}
}

func FuzzForced(f *testing.F) {
	f.Add("0123456789abcdef 0123456789abcdef,0123456789abcdef r", "1:a3:b:c")
	f.Fuzz(func(t *testing.T, text, list string) {
		if release, ok := parseForced(text); ok && release.text() != forcedPrefix+text {
			t.Errorf("%q is read as %q", text, release.text())
		}
		readers, err := readersIn(list)
		again := ""
		for _, r := range readers {
			again += fmt.Sprintf("%d:%s", len(r.value), r.value)
		}
		if err == nil && len(again) > len(list) {
			t.Errorf("%q is read as %q", list, again)
		}
	})
}

// Of what masters say of forced releases, only what a redlockd would publish is read.
func TestTextsThatAreNoForcedReleases(t *testing.T) {
	const id, digest = "0123456789abcdef", "fedcba9876543210"
	digests := func(n int) string { return strings.TrimSuffix(strings.Repeat(digest+",", n), ",") }
	for name, tt := range map[string]struct {
		text string
		want bool
	}{
		"one token":               {id + " " + digest + " r", true},
		"a name with blanks":      {id + " " + digest + "  r r", true},
		"as many as possible":     {id + " " + digests(forceReadersMax+2) + " r", true},
		"one more":                {id + " " + digests(forceReadersMax+3) + " r", false},
		"the longest name":        {id + " " + digest + " " + strings.Repeat("r", MaxResourceLen), true},
		"a name too long":         {id + " " + digest + " " + strings.Repeat("r", MaxResourceLen+1), false},
		"no name":                 {id + " " + digest + " ", false},
		"no name, and no blank":   {id + " " + digest, false},
		"no digest":               {id + "  r", false},
		"an invalid digest":       {id + " " + digest[1:] + "g r", false},
		"a short digest":          {id + " " + digest[1:] + " r", false},
		"an invalid one in front": {id + " " + digest[1:] + "," + digest + " r", false},
		"an invalid one behind":   {id + " " + digest + "," + digest[1:] + " r", false},
		"an invalid id":           {"g" + id[1:] + " " + digest + " r", false},
		"a short id":              {id[1:] + " " + digest + " r", false},
		"nothing":                 {"", false},
	} {
		if f, ok := parseForced(tt.text); ok != tt.want || ok && f.text() != forcedPrefix+tt.text {
			t.Errorf("%s: %q is read: %t, %+v; want %t", name, tt.text, ok, f, tt.want)
		}
	}
}

// A forced release is remembered for forcedLife, and where there are too many the oldest gives way, first of those that are not applied.
func TestHowLongAForceIsRemembered(t *testing.T) {
	now := time.Now()
	release := func(id int, resource string) *forcedRelease {
		return &forcedRelease{id: fmt.Sprintf("%016x", id), resource: resource, digests: []string{conn.Digest("T")}}
	}
	var fs forcedReleases
	first := fs.remember(release(1, "r"), now)
	if fs.remember(release(1, "r"), now.Add(forcedLife)) != first {
		t.Error("a copy at the end of its life: it counts as another one")
	}
	if fs.remember(release(1, "s"), now) == first || fs.remember(release(2, "r"), now) == first {
		t.Error("of another resource, or by another id: it counts as the same one")
	}
	if again := fs.remember(release(1, "r"), now.Add(forcedLife+1)); again == first || !slices.Equal(fs.all, []*forcedRelease{again}) || !again.since.Equal(now.Add(forcedLife+1)) {
		t.Errorf("a copy after its life: %d are remembered, want the copy alone", len(fs.all))
	}
	for _, tt := range []struct{ pending, gone int }{{-1, 0}, {0, 0}, {1, 1}, {7, 7}} { // the place of the first that is not applied, and of the one that gives way
		fs = forcedReleases{}
		for i := range forcedMax {
			f := fs.remember(release(i, "r"), now)
			f.applied = i != tt.pending
		}
		want := append(slices.Delete(slices.Clone(fs.all), tt.gone, tt.gone+1), release(forcedMax, "r"))
		want[forcedMax-1] = fs.remember(want[forcedMax-1], now)
		if !slices.Equal(fs.all, want) {
			t.Errorf("one too many, and the one at %d is not applied: want the one at %d to give way", tt.pending, tt.gone)
		}
	}
}

// What masters show of a resource, counted: who holds it on a quorum, whether somebody may beside those that are silent, and what is not a lock.
func TestKeyHolders(t *testing.T) {
	holds := func(token string, ends int64, left time.Duration) answer {
		return answer{known: true, kind: "string", value: token, ends: ends, ttl: left}
	}
	readers := func(n int32, tokens ...string) answer {
		a := answer{known: true, kind: "zset", readers: n}
		for i, token := range tokens {
			a.keys = append(a.keys, answer{value: token, ends: int64(100 + i), ttl: time.Second})
		}
		return a
	}
	silent, free, hash := answer{}, answer{known: true, kind: "none", readers: -1}, answer{known: true, kind: "hash", readers: -1}
	emptied := answer{known: true, kind: "zset"} // it had readers
	b := standing(t, newMemMaster(t))
	client := b.lane.client
	of := func(token string) string { return TokenDigest(client, token) }
	for _, tt := range []struct {
		what     string
		answers  []answer
		all      []keyHolder
		readers  int
		free     int
		silent   int
		possible bool
		split    string
	}{
		{what: "three hold it", answers: []answer{holds("t", 7, time.Second), free, holds("t", 9, 3*time.Second), emptied, holds("t", 8, 2*time.Second)}, all: []keyHolder{{"t", false}}, free: 2,
			split: "3 hold the token " + of("t") + ", which ends in 3s"},
		{what: "two and one, and two are silent", answers: []answer{holds("t", 0, -1), holds("t", 0, -1), holds("u", 9, 4*time.Second), silent, silent}, silent: 2, possible: true,
			split: "2 hold the token " + of("t") + ", which does not end: remove it there by hand; 1 holds the token " + of("u") + ", which ends in 4s; 2 have not answered"},
		{what: "two and two, and one is silent", answers: []answer{holds("t", 7, 0), holds("u", 7, time.Second), holds("u", 7, 0), holds("t", 7, 0), silent}, silent: 1, possible: true,
			split: "2 hold the token " + of("u") + ", which ends in 1s; 2 hold the token " + of("t") + ", which ends in 0s; 1 has not answered"},
		{what: "two and two, and one is free", answers: []answer{holds("t", 7, time.Second), holds("t", 7, time.Second), holds("u", 7, 0), holds("u", 7, 0), free}, free: 1,
			split: "2 hold the token " + of("t") + ", which ends in 1s; 2 hold the token " + of("u") + ", which ends in 0s"},
		{what: "readers", answers: []answer{readers(2, "b", "a"), readers(2, "b", "a"), readers(3, "b", "a", "c"), readers(1, "c"), hash}, all: []keyHolder{{"a", true}, {"b", true}}, readers: 3,
			split: "3 hold the reader's token " + of("a") + ", which ends in 1s; 3 hold the reader's token " + of("b") + ", which ends in 1s; 2 hold the reader's token " + of("c") +
				", which ends in 1s; 1 holds a hash that redlockd has not written: remove it there by hand"},
		{what: "as many as are shown", answers: []answer{readers(8, "a", "b", "c", "d", "e", "f", "g", "h"), free, free, free, free}, readers: 8, free: 4, split: "1 holds the reader's token " + of("a")},
		{what: "one more", answers: []answer{readers(9, "a", "b", "c", "d", "e", "f", "g", "h", "i"), free, free, free, free}, readers: 9, free: 4, split: "1 token is left out here"},
		{what: "two more", answers: []answer{readers(9, "a", "b", "c", "d", "e", "f", "g", "h", "i"), holds("j", 1, time.Minute), free, free, free}, readers: 9, free: 3, split: "2 tokens are left out here"},
	} {
		v := &view{Electorate: quorum.Electorate{Places: 5, Count: 5, Masters: quorum.All >> 10}}
		for i := range tt.answers {
			v.masters = append(v.masters, &lane{index: i})
		}
		r := &round{view: v, answers: tt.answers}
		h := r.keyHolders()
		if !slices.Equal(h.all, tt.all) || h.readers != tt.readers || h.free != tt.free || h.silent != tt.silent || h.possible != tt.possible {
			t.Errorf("%s: got %+v, want %+v", tt.what, h, tt)
		}
		got := h.split(client)
		if whole := !strings.Contains(tt.what, "more") && !strings.Contains(tt.what, "shown"); whole && got != tt.split || !strings.Contains(got, tt.split) {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.what, got, tt.split)
		}
		if strings.Contains(tt.what, "shown") && strings.Contains(got, "left out") {
			t.Errorf("%s: got %s", tt.what, got)
		}
		for holder, s := range h.found {
			for i, a := range tt.answers {
				want := int64(0)
				for _, key := range append([]answer{a}, a.keys...) {
					if key.value == holder.token {
						want = key.ends
					}
				}
				if s.ends[i] != want {
					t.Errorf("%s: %q ends at %d on master %d, want %d", tt.what, holder.token, s.ends[i], i, want)
				}
			}
		}
	}
}

// Whether two readings of split votes show the same, and how long a key lives that a master tells the end of.
func TestSightings(t *testing.T) {
	at := func(masters int, ends ...int64) *sighting {
		s := &sighting{masters: masters}
		copy(s.ends[:], ends)
		return s
	}
	for _, tt := range []struct {
		a, b *sighting
		want bool
	}{
		{at(2, 100, 200), at(2, 100, 200), true},
		{at(2, 100, 200), at(2, 100, 200+endSlackMs), true},
		{at(2, 100, 200), at(2, 100, 200-endSlackMs), true},
		{at(2, 100, 200), at(2, 100, 201+endSlackMs), false},
		{at(2, 100, 200), at(2, 100, 199-endSlackMs), false},
		{at(2, 100, 200), at(3, 100, 200), false},
	} {
		if got := tt.a.same(tt.b); got != tt.want {
			t.Errorf("%+v and %+v are the same: got %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
	for _, tt := range []struct {
		ends int64
		want time.Duration
	}{{0, -1}, {5000, 2 * time.Second}, {2000, -time.Second}, {1, -2999 * ms}} {
		a := answer{ends: tt.ends}
		if a.endsIn(3000); a.ttl != tt.want {
			t.Errorf("a key that ends at %d, read at 3000: got %v left, want %v", tt.ends, a.ttl, tt.want)
		}
	}
}

// Readers as lua.Raise lists them, and what no redlockd lists so.
func TestReadersIn(t *testing.T) {
	long := strings.Repeat("x", MaxTokenLen+1)
	many := func(n int) string { return strings.Repeat("1:7:a", n) }
	for _, tt := range []struct {
		text string
		want []answer // nil: refused
	}{
		{"1:5:a", []answer{{value: "a", ends: 5}}},
		{"3:7:abc2:0:xy", []answer{{value: "abc", ends: 7}, {value: "xy"}}},
		{fmt.Sprintf("%d:7:%s", MaxTokenLen, long[1:]), []answer{{value: long[1:], ends: 7}}},
		{fmt.Sprintf("%d:7:%s%s", MaxTokenLen+1, long, long), nil},
		{"x", nil}, {":5:a", nil}, {"1:5", nil}, {"1::a", nil}, {"1:x:a", nil}, {"0:5:", nil}, {"0:5:a", nil}, {"99999999999999999999:5:a", nil}, {"-99999999999999999999:5:a", nil}, {"1x:5:a", nil}, {"-1:5:a", nil}, {"2:5:a", nil}, {"1:5:ab", nil},
		{many(forceReadersMax + 3), nil},
	} {
		got, err := readersIn(tt.text)
		if !slices.EqualFunc(got, tt.want, func(a, b answer) bool { return a.value == b.value && a.ends == b.ends }) || (err == nil) != (tt.want != nil) {
			t.Errorf("%.40q: got %d readers, %v, want %d", tt.text, len(got), err, len(tt.want))
		}
	}
	if got, err := readersIn(many(forceReadersMax + 2)); err != nil || len(got) != forceReadersMax+2 {
		t.Errorf("as many readers as a master lists: got %d, %v", len(got), err)
	}
	if _, err := readersIn(long); err == nil || !strings.HasSuffix(err.Error(), " "+long[:32]) {
		t.Errorf("got %v, want an error with the first 32 bytes", err)
	}
}

// What a master replies to the first round: a vote, and what it holds; why it has refused; or that the connection is of no more use.
func TestRepliesToTheFirstRound(t *testing.T) {
	b := standing(t, newMemMaster(t))
	const last = ":3000\r\n" // its clock
	text := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	reply := func(raised int64, kind, value string, ends, readers int64, list string) string {
		return fmt.Sprintf("*7\r\n:%d\r\n%s%s:%d\r\n:%d\r\n%s", raised, text(kind), text(value), ends, readers, text(list)) + last
	}
	held := answer{known: true, kind: "string", value: "t", ends: 5000, readers: -1, ttl: 2 * time.Second}
	reader := answer{known: true, kind: "zset", readers: 1, ttl: -1, keys: []answer{{value: "a", ends: 5000, ttl: 2 * time.Second}}}
	for _, tt := range []struct {
		what    string
		reply   string
		kept    int // bytes that the batch has kept before
		vote    quorum.Vote
		mark    int64   // that is known then
		reading *answer // nil: none
		refused string
		err     string
	}{
		{what: "the mark is raised", reply: reply(1, "string", "t", 5000, -1, ""), vote: quorum.Granted, reading: &held},
		{what: "the same, and the value just fits", reply: reply(1, "string", "t", 5000, -1, ""), kept: readingsMax - 1, vote: quorum.Granted, reading: &held},
		{what: "a reader", reply: reply(1, "zset", "", 0, 1, "1:5000:a"), vote: quorum.Granted, reading: &reader},
		{what: "a reader, and the list just fits", reply: reply(1, "zset", "", 0, 1, "1:5000:a"), kept: readingsMax - 8, vote: quorum.Granted, reading: &reader},
		{what: "a list that does not fit", reply: reply(1, "zset", "", 0, 1, "1:5000:a"), kept: readingsMax - 7, refused: "ERR the values that were asked for together"},
		{what: "a list that no redlockd makes", reply: reply(1, "zset", "", 0, 1, "a"), refused: "ERR the readers are listed as no redlockd lists them: a"},
		{what: "a value that does not fit", reply: reply(1, "string", "t", 5000, -1, ""), kept: readingsMax, refused: "ERR the values that were asked for together"},
		{what: "the mark is as high", reply: reply(100, "string", "t", 5000, -1, ""), vote: quorum.Stale, mark: 100, reading: &held},
		{what: "the mark is higher", reply: reply(101, "string", "t", 5000, -1, ""), vote: quorum.Stale, mark: 101, reading: &held},
		{what: "a mark that is lower refuses nothing", reply: reply(99, "string", "t", 5000, -1, ""), err: `:99 ""`},
		{what: "a day ahead of the master's clock", reply: reply(fence.Ahead, "string", "t", 5000, -1, ""), reading: &held, refused: "ahead of the master's clock"},
		{what: "the master refuses", reply: "-OOM command not allowed\r\n", refused: "OOM command not allowed"},
		{what: "the connection breaks in the reply", reply: strings.TrimSuffix(reply(1, "string", "t", 5000, -1, ""), last), err: "EOF"},
		{what: "a reply of another kind", reply: strings.Replace(reply(1, "string", "t", 5000, -1, ""), last, text("3000"), 1), err: "which no Redis would here"},
	} {
		r := newRound(verbRaise, "", 0, "r")
		r.fence, r.view = 100, b.lane.fleet.view.Load()
		b.rounds, b.readings, b.kept = []*round{r}, nil, tt.kept
		b.wire = &conn.Wire{Socket: saying{Reader: strings.NewReader(tt.reply)}}
		first, err := b.wire.ReadReply()
		if err != nil {
			t.Fatalf("%s: %v", tt.what, err)
		}
		vote, refused, err := readRaise(b, command{}, first)
		if want := cmp.Or(tt.vote, quorum.Unknown); vote != want || r.mark.Load() != tt.mark {
			t.Errorf("%s: got the vote %d, and the mark %d, want %d and %d", tt.what, vote, r.mark.Load(), want, tt.mark)
		}
		for what, is := range map[string]struct {
			got  error
			want string
		}{"refusal": {refused, tt.refused}, "error": {err, tt.err}} {
			if (is.got != nil) != (is.want != "") || is.got != nil && !strings.Contains(is.got.Error(), is.want) {
				t.Errorf("%s: got the %s %v, want %q", tt.what, what, is.got, is.want)
			}
		}
		var want []reading
		if tt.reading != nil {
			want = []reading{{round: r, answer: *tt.reading}}
		}
		if !reflect.DeepEqual(b.readings, want) {
			t.Errorf("%s: got %+v, want %+v", tt.what, b.readings, want)
		}
	}
}

// saying is a connection from which a text is read, and nothing more.
type saying struct {
	nowhere
	io.Reader
}

// What the votes of the second round come to, one round for each token: who holds it no more, whether something was released, and the error of the round
// that failed.
func TestVotesOfTheSecondRound(t *testing.T) {
	const changed, renewed = "has changed hands meanwhile, and nothing was released", "was renewed meanwhile, and is still held on %d masters"
	votes := map[rune]quorum.Vote{'g': quorum.Granted, 'd': quorum.Denied, 'r': quorum.Renewed, 'a': quorum.Absent, 'x': quorum.Unknown}
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		for _, tt := range []struct {
			rounds string // the votes of each: granted, denied, renewed, absent, or x: not known
			held   bool
			want   Forced
			err    string
		}{
			{"ggggg", true, Forced{Gone: 5}, ""},
			{"ggggg aaaaa", true, Forced{Gone: 5}, ""},
			{"aaaaa ggggg", true, Forced{Gone: 5}, ""},
			{"aaaaa", false, Forced{Gone: 5}, ""},
			{"ggaxx ggggg", true, Forced{Gone: 3}, ""},
			{"gggrr", true, Forced{Gone: 3, Renewed: 2}, ""},
			{"ggggr gggrr ggggg", true, Forced{Gone: 3, Renewed: 2}, ""},
			{"ggrrr", true, Forced{Gone: 2, Renewed: 3}, fmt.Sprintf(renewed, 3)},
			{"ggrxx", true, Forced{Gone: 2, Renewed: 1}, fmt.Sprintf(renewed, 1)},
			{"ggxxx", true, Forced{Gone: 2}, "2 of 5 masters voted"},
			{"grxxx", true, Forced{Gone: 1, Renewed: 1}, "2 of 5 masters voted"},
			{"ggxxx ggggg", true, Forced{Gone: 2}, "2 of 5 masters voted"},
			{"ggrrr ggggg", true, Forced{Gone: 2, Renewed: 3}, fmt.Sprintf(renewed, 3)},
			{"rrrrr ddddd", false, Forced{Another: 5, Renewed: 5}, fmt.Sprintf(renewed, 5)},
			{"ddddd", false, Forced{Gone: 5, Another: 5}, changed},
			{"dddxx", false, Forced{Gone: 3, Another: 3}, changed},
			{"ddaxx", false, Forced{Gone: 3, Another: 2}, ""},
			{"gdddd", true, Forced{Gone: 5, Another: 4}, ""},
		} {
			c := &call{began: time.Now()}
			c.Op.to = c
			rounds := strings.Fields(tt.rounds)
			f := &force{caller: &c.Op, resource: "r", pending: len(rounds), result: Forced{Gone: 5}}
			f.op.force = f
			before := p.Stats().Forced
			for i, letters := range rounds {
				if c.done.Load() {
					t.Errorf("%s: reported behind %d rounds", tt.rounds, i)
				}
				r := &round{verb: verbForce, op: &f.op, start: time.Now(), view: p.fleet.view.Load()}
				var v quorum.Votes
				for place, letter := range letters {
					v += quorum.Cast(place, votes[letter])
				}
				d := &deferred{now: time.Now()}
				p.forceDecided(r, quorum.Yes, v, d)
				p.runDeferred(d)
			}
			if !c.done.Load() || c.Held != tt.held || !reflect.DeepEqual(c.Forced, &tt.want) || (c.Err != nil) != (tt.err != "") || c.Err != nil && !strings.Contains(c.Err.Error(), tt.err) {
				t.Errorf("%s: got %+v, %+v, want held %v, %+v and the error %q", tt.rounds, c.Result, c.Forced, tt.held, tt.want, tt.err)
			}
			if few, ok := errors.AsType[*NoQuorumError](c.Err); ok && few.Late != 0 {
				t.Errorf("%s: got an error of a grant that came late: %v", tt.rounds, c.Err)
			}
			want := before
			if tt.held && tt.err == "" {
				want++
			}
			if got := p.Stats().Forced; got != want {
				t.Errorf("%s: %d forced releases are counted, want %d", tt.rounds, got-before, want-before)
			}
		}
	})
}

// Which rounds a forced release has ended: those that were launched before it, for what it has released.
func TestForcedReleaseEndsRounds(t *testing.T) {
	now := time.Now()
	of := func(launched uint32, token string, keys ...string) *round {
		return &round{launched: launched, token: token, keys: keys}
	}
	changing := func(ch Change) *round {
		return &round{launched: 10, keys: []string{"x", ch.Resource}, commit: &commit{changes: []Change{setNX("x", "unforced", time.Second), ch}}}
	}
	for _, tt := range []struct {
		what    string
		r       *round
		pending bool // too few masters have told of it
		late    time.Duration
		want    bool
	}{
		{what: "before it", r: of(9, "T", "r"), want: true},
		{what: "the last one before it", r: of(10, "T", "r"), want: true},
		{what: "behind it", r: of(11, "T", "r")},
		{what: "of several resources", r: of(10, "T", "x", "r"), want: true},
		{what: "of another resource", r: of(10, "T", "x")},
		{what: "of another token", r: of(10, "U", "r")},
		{what: "before a quorum has told of it", r: of(10, "T", "r"), pending: true},
		{what: "for as long as it is remembered", r: of(10, "T", "r"), late: forcedLife, want: true},
		{what: "later", r: of(10, "T", "r"), late: forcedLife + 1},
		{what: "a new value", r: changing(setNX("r", "T", time.Second)), want: true},
		{what: "another new value", r: changing(setNX("r", "U", time.Second))},
		{what: "what puts another value in its place", r: changing(rotate("r", "T", "U", time.Second)), want: true},
		{what: "what puts its value in another's place", r: changing(rotate("r", "U", "T", time.Second)), want: true},
		{what: "a rotation of others", r: changing(rotate("r", "U", "V", time.Second))},
		{what: "what removes it", r: changing(compareAndDelete("r", "T")), want: true},
	} {
		other := &forcedRelease{resource: "another", digests: []string{conn.Digest("T")}, applied: true, launched: 10, since: now}
		f := &forcedRelease{resource: "r", digests: []string{conn.Digest("of a reader"), conn.Digest(""), conn.Digest("T")}, applied: !tt.pending, launched: 10, since: now}
		fs := &forcedReleases{all: []*forcedRelease{other, f}}
		if got := fs.ended(tt.r, now.Add(tt.late)); got != tt.want {
			t.Errorf("%s: it is ended: got %v, want %v", tt.what, got, tt.want)
		}
	}
}
