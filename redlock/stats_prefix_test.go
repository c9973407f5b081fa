package redlock

// Goal: wait times, hold times and rounds are counted once for each lock, under the prefix of its resource, whichever way the lock
// came and went. Method: virtual time, in which sums of durations are exact; a table of lives of a lock.

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimesByPrefix(t *testing.T) {
	const trip, held = 4 * ms, 700 * ms
	const v, w = "the value of one holder", "the value of the next one"
	minute := func(resource string) LockRequest { return one(resource, time.Minute) }
	for name, test := range map[string]struct {
		do   func(s *stage, p *proxy)
		want string // prefix: waits, holds, rounds; each with how many and their sum
	}{
		"UNLOCK": {func(s *stage, p *proxy) {
			token := p.lock(minute("billing:1")).Token
			time.Sleep(held - trip)
			p.unlock(token, "billing:1")
		}, "billing:*: 1 4ms, 1 700ms, 1 1"},
		"still held":        {func(s *stage, p *proxy) { p.lock(minute("billing:1")) }, "billing:*: 1 4ms, 0 0s, 1 1"},
		"the second prefix": {func(s *stage, p *proxy) { p.lock(minute("bill")) }, "b*: 1 4ms, 0 0s, 1 1"},
		"no prefix":         {func(s *stage, p *proxy) { p.lock(minute("invoices")) }, "other: 1 4ms, 0 0s, 1 1"},
		"denied, and released by one that does not hold it": {func(s *stage, p *proxy) {
			p.lock(minute("billing:1"))
			p.lock(minute("billing:1"))
			p.unlock(v, "billing:1")
		}, "billing:*: 1 4ms, 0 0s, 1 1"},
		"waited for": {func(s *stage, p *proxy) {
			first := p.lock(minute("billing:1"))
			next := p.begin(minute("billing:1").waits(time.Minute))
			time.Sleep(held - trip)
			p.unlock(first.Token, "billing:1")
			p.finish(next)
		}, "billing:*: 2 704ms, 1 700ms, 2 3"}, // 4 ms, and 696 ms with the hand-over of 4 ms; one round was denied
		"renewed": {func(s *stage, p *proxy) {
			token := p.lock(minute("billing:1")).Token
			for range 3 {
				p.extend(token, time.Minute, "billing:1")
			}
			time.Sleep(held - 4*trip)
			p.unlock(token, "billing:1")
		}, "billing:*: 1 4ms, 1 700ms, 1 1"},
		"asked for again under its token": {func(s *stage, p *proxy) {
			p.lock(minute("billing:1").as(v))
			p.lock(minute("billing:1").as(v))
			time.Sleep(held - 2*trip)
			p.unlock(v, "billing:1")
		}, "billing:*: 2 8ms, 1 700ms, 2 2"},
		"ended by its TTL": {func(s *stage, p *proxy) {
			p.lock(one("billing:1", 10*time.Second))
			time.Sleep(20 * time.Second)
		}, "billing:*: 1 4ms, 1 10s, 1 1"}, // the validity
		"ended by its TTL, and granted to another at once": {func(s *stage, p *proxy) {
			p.lock(one("billing:1", 10*time.Second))
			time.Sleep(padded(10*time.Second) + trip)
			p.lock(minute("billing:1"))
		}, "billing:*: 2 8ms, 1 10s, 2 2"},
		"released elsewhere": {func(s *stage, p *proxy) {
			other := s.open()
			began := time.Now()
			token := p.lock(minute("billing:1")).Token
			other.unlock(token, "billing:1")
			time.Sleep(held - time.Since(began) - trip)
			p.lock(minute("billing:1"))
		}, "billing:*: 2 8ms, 1 700ms, 2 2"}, // until it was found free
		"of several resources": {func(s *stage, p *proxy) {
			token := p.lock(several(time.Minute, "billing:2", "aaa", "billing:1")).Token
			time.Sleep(held - trip)
			p.unlock(token, "billing:1", "billing:2", "aaa")
		}, "other: 1 4ms, 1 700ms, 1 1"},
		"SET NX, PEXPIRE and DEL of a library": {func(s *stage, p *proxy) {
			p.commit(setNX("billing:1", v, time.Minute))
			p.commit(compareAndExpire("billing:1", v, time.Minute))
			time.Sleep(held - 2*trip)
			p.commit(compareAndDelete("billing:1", v))
		}, "billing:*: 1 4ms, 1 700ms, 1 1"},
		"under a value that changes": {func(s *stage, p *proxy) {
			p.commit(setNX("billing:1", v, time.Minute))
			p.commit(rotate("billing:1", v, w, time.Minute))
			time.Sleep(held - 2*trip)
			p.commit(compareAndDelete("billing:1", w))
		}, "billing:*: 1 4ms, 1 700ms, 1 1"},
		"of a reader": {func(s *stage, p *proxy) {
			req := minute("billing:1")
			req.Shared = true
			token := p.lock(req).Token
			time.Sleep(held - trip)
			p.unlock(token, "billing:1")
		}, "billing:*: 1 4ms, 1 700ms, 1 1"},
		"of a client that has gone": {func(s *stage, p *proxy) {
			c := p.lock(minute("billing:1"))
			time.Sleep(held - trip)
			p.Abandon(&c.Op)
			synctest.Wait()
		}, "billing:*: 1 4ms, 1 700ms, 1 1"},
		"found lost by EXTEND": {func(s *stage, p *proxy) {
			token := p.lock(minute("billing:1")).Token
			for _, m := range s.masters {
				outside(s, m, "DEL", "billing:1")
			}
			time.Sleep(held - trip)
			p.extend(token, time.Minute, "billing:1").want(s, "EXTEND", "no", trip)
		}, "billing:*: 1 4ms, 1 704ms, 1 1"},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open(func(o *Options) {
					o.Prefixes = []string{"billing:*", "b*"}
					o.RetryDelayMin, o.RetryDelayMax = 5*time.Second, 5*time.Second
					o.Heartbeat = 2 * time.Second // no lease is looked at meanwhile
				})
				p.delay(trip/2, trip/2, 0, 1, 2, 3, 4)
				test.do(s, p)
				var got []string
				for _, c := range p.Stats().ByPrefix {
					if waits, holds, rounds := total(c.Wait.Buckets[:]), total(c.Hold.Buckets[:]), total(c.Rounds.Buckets[:]); waits+holds+rounds > 0 {
						got = append(got, fmt.Sprintf("%s: %d %v, %d %v, %d %d", c.Prefix, waits, c.Wait.Sum, holds, c.Hold.Sum, rounds, c.Rounds.Sum))
					}
				}
				if got := strings.Join(got, "; "); got != test.want {
					s.Errorf("got  %s\nwant %s", got, test.want)
				}
			})
		})
	}
}

func total(buckets []uint64) (n uint64) {
	for _, b := range buckets {
		n += b
	}
	return n
}

func TestCounts(t *testing.T) {
	for n, bucket := range map[uint32]int{0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 256: 8, 257: 9, math.MaxUint32: 9} {
		var c Counts
		if c.add(n); c.Buckets[bucket] != 1 || c.Sum != uint64(n) {
			t.Errorf("%d: got %v, want it in bucket %d", n, c, bucket)
		}
	}
	for i, most := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256} {
		if got := (Counts{}).BucketMax(i); got != most {
			t.Errorf("bucket %d is up to %d, want %d", i, got, most)
		}
	}
}

// A hold that ends before it began, because a clock was set back, takes nothing off the sum.
func TestHoldOfNoLengthIsCounted(t *testing.T) {
	s := newByPrefix(nil)
	s.ended("r", -time.Second)
	s.ended("r", time.Second)
	if hold := s[0].Hold; hold.Sum != time.Second || total(hold.Buckets[:]) != 2 {
		t.Errorf("got %d holds of %v, want 2 of 1s", total(hold.Buckets[:]), hold.Sum)
	}
}

func TestPrefixesAreValidated(t *testing.T) {
	many := make([]string, prefixesMax+1)
	for i := range many {
		many[i] = fmt.Sprintf("%c*", 'a'+i)
	}
	for _, test := range []struct {
		prefixes []string
		want     string // "": they are right
	}{
		{nil, ""},
		{[]string{"billing:eu:*", "billing:*", "b*"}, ""},
		{many[:prefixesMax], ""},
		{many, "there are 17, at most 16 are possible, because each has metrics of its own: leave out those that nobody looks at"},
		{[]string{"billing:"}, `"billing:" is not a text with one * at its end: write "billing:*" for all resources that begin with billing:`},
		{[]string{"*"}, `"*" is not a text with one * at its end`},
		{[]string{"b*:*"}, `"b*:*" is not a text with one * at its end`},
		{[]string{"b?*"}, `"b?*" is not a text with one * at its end`},
		{[]string{"[ab]*"}, `"[ab]*" is not a text with one * at its end`},
		{[]string{strings.Repeat("b", prefixMax) + "*"}, "has 129 bytes, at most 128 are possible: shorten it"},
		{[]string{"\xff*"}, `"\xff*" is not UTF-8`},
		{[]string{"billing:*", "billing:eu:*"}, `"billing:eu:*" is never reached, because "billing:*" stands before it and matches the same resources: put the longer one first`},
		{[]string{"b*", "b*"}, `"b*" is never reached`},
	} {
		o := Options{Masters: []Master{{Addr: "a:1"}}, Prefixes: test.prefixes}
		err := o.Validate()
		e, named := errors.AsType[*OptionError](err)
		if test.want == "" && err != nil || test.want != "" && (!named || e.Option != "Prefixes" || !strings.Contains(e.Reason, test.want)) {
			t.Errorf("%q: got %v, want %q", test.prefixes, err, test.want)
		}
	}
}

// Goal: Masters shows how far a master's clock is ahead of this machine's, to the microsecond that TIME tells.
func TestClockOffset(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.masters[1].StepClock(300 * ms)
		s.masters[2].StepClock(-20 * ms)
		p := s.open()
		p.delay(2*ms, 2*ms, 0, 1, 2, 3, 4)
		time.Sleep(2 * p.opts.Heartbeat)
		for i, want := range []time.Duration{0, 300 * ms, -20 * ms, 0, 0} {
			if got := p.Masters()[i].ClockOffset; (got - want).Abs() > time.Microsecond {
				s.Errorf("master %d: got %v, want %v", i+1, got, want)
			}
			if !p.Masters()[i].Connected {
				s.Errorf("master %d is not connected", i+1)
			}
		}
		s.masters[1].Crash(false)
		s.until("a master is down", func() bool { return p.Masters()[1].State == MasterDown })
		if p.Masters()[1].Connected {
			s.Error("a master that is down is connected")
		}
	})
}
