package redlock

// Goal: a master that has forgotten votes again within a second, and whatever happens while it is copied to, nobody gets what another holds. Method:
// virtual time, one key at a time, and faults that strike at a certain command of the copy.

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/redisproc"
)

// restart has a master restart without its data.
func (s *stage) restart(i int) {
	s.masters[i].Crash(false)
	s.masters[i].Restart()
}

// votes waits until a master votes again, and returns how long that takes.
func (p *proxy) votes(i int) time.Duration {
	p.s.Helper()
	began := time.Now()
	p.s.until(fmt.Sprintf("master %d has lost its vote", i+1), func() bool { return p.states()[i] != 'u' })
	p.s.until(fmt.Sprintf("master %d votes", i+1), func() bool { return p.states()[i] == 'u' })
	return time.Since(began)
}

// strike has f called, in a goroutine of its own, when a master executes the n-th command of that name in the copy, which takes it for 20 ms then.
func (s *stage) strike(i int, name string, n int64, f func()) (struck *atomic.Bool) {
	struck = new(atomic.Bool)
	count := int64(0)
	s.masters[i].SetCost(func(args [][]byte) time.Duration {
		if !strings.EqualFold(string(args[0]), name) || name == "evalsha" && len(args) > 1 && string(args[1]) != lua.CopyRead.SHA && string(args[1]) != lua.CopyGive.SHA {
			return 0
		}
		if count++; count != n {
			return 0
		}
		struck.Store(true)
		go f()
		return 20 * ms
	})
	return struck
}

func oneKey(o *Options) { o.copyCount = 1 }

func TestRestartedMasterVotesAgainAtOnce(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inVirtualTime(t, n, func(s *stage) {
				p := s.open(maxTTL(24*time.Hour), func(o *Options) { o.copyCount = 3 })
				var tokens []string
				for i := range 20 {
					tokens = append(tokens, p.lock(one(fmt.Sprint("job", i), 12*time.Hour)).Token)
				}
				own := p.lock(one("own", time.Hour).as("chosen by its caller")).Token
				reader := p.lock(LockRequest{Resources: []string{"shared"}, TTL: time.Hour, Shared: true}).Token
				second := p.lock(LockRequest{Resources: []string{"shared"}, TTL: 2 * time.Hour, Shared: true}).Token
				slot := p.lock(LockRequest{Resources: []string{"sem"}, TTL: time.Hour, Slots: 2})
				p.commit(Change{Resource: "library", Was: WasAbsent, Do: Set, NewValue: "", TTL: time.Hour})
				fence := p.fenced("fenced")
				time.Sleep(time.Second) // who has just begun leaves it to others
				s.do(2, "SET", "no lock", "x")
				s.do(1, "HSET", "no lock either", "f", "v")
				for i := range n {
					s.restart(i)
					if took := p.votes(i); took > time.Second {
						t.Errorf("master %d votes again after %v, want within 1s", i+1, took)
					}
					for j, token := range tokens {
						s.wantOn(fmt.Sprint("job", j), token, strings.Repeat("1", n))
					}
					s.wantOn("own", own, strings.Repeat("1", n))
					s.wantOn("library", "", strings.Repeat("1", n))
					s.wantSet("shared", strings.Repeat("1", n))
					_, left, _ := s.masters[i].Get("job0")
					if want := padded(12*time.Hour) - time.Since(p.opened); left < want || left > want+time.Second {
						t.Errorf("job0 lives %v on master %d, want %v", left, i+1, want)
					}
					if keys := s.masters[i].Keys(); strings.Contains(fmt.Sprint(keys), "no lock") {
						t.Errorf("master %d got what is no lock: %q", i+1, keys)
					}
				}
				// Each master has forgotten once. Nobody gets what another holds, and who holds it is its holder still.
				p.lock(one("job7", time.Second)).want(s, "LOCK of a held one", "no", 0)
				p.lock(one("library", time.Second)).want(s, "LOCK of what a library holds", "no", 0)
				p.lock(one("shared", time.Second)).want(s, "LOCK of a writer", "no", 0)
				p.lock(one(slot.Slot, time.Second)).want(s, "LOCK of a slot", "no", 0)
				for j, token := range tokens {
					if c := p.extend(token, 12*time.Hour, fmt.Sprint("job", j)); !c.Held {
						t.Errorf("EXTEND of job%d: got %+v", j, c.Result)
					}
				}
				if c := p.extend(reader, time.Hour, "shared"); !c.Held {
					t.Errorf("EXTEND of a reader: got %+v", c.Result)
				}
				for _, token := range []string{reader, second} {
					if c := p.unlock(token, "shared"); !c.Held {
						t.Errorf("UNLOCK of a reader: got %+v", c.Result)
					}
				}
				p.lock(one("shared", time.Second)).want(s, "LOCK of a writer when the readers have left", "held", 0)
				if again := p.fenced("another"); again <= fence {
					t.Errorf("got the fence %d after %d", again, fence)
				}
				p.commit(Change{Resource: "library", Was: WasValue, Value: "", Do: Delete})
				s.wantSet("library", strings.Repeat("0", n))
			})
		})
	}
}

// A lock of 12 hours, and max_ttl of a day: five restarts cost seconds.
func TestDayLongLocks(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(24 * time.Hour))
		token := p.lock(one("nightly", 12*time.Hour)).Token
		began := time.Now()
		for i := range 5 {
			s.restart(i)
			p.votes(i)
			p.lock(one("nightly", time.Minute)).want(s, "LOCK of a held one", "no", 0)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("five restarts took %v, want seconds", took)
		}
		if c := p.extend(token, 12*time.Hour, "nightly"); !c.Held {
			t.Errorf("EXTEND: got %+v", c.Result)
		}
		for i := range 5 {
			if _, left, ok := s.masters[i].Get("nightly"); !ok || (left-padded(12*time.Hour)).Abs() > time.Second {
				t.Errorf("master %d holds it for %v, want %v", i+1, left, padded(12*time.Hour))
			}
		}
		p.unlock(token, "nightly")
		p.lock(one("nightly", time.Minute)).want(s, "LOCK when it is released", "held", 0)
	})
}

// As many masters as remember enough: of three two, of five three.
func TestCopyBesideDeadMasters(t *testing.T) {
	for _, test := range []struct{ n, down, restarted int }{{3, 0, 1}, {5, 1, 1}, {5, 0, 2}} {
		t.Run(fmt.Sprintf("%d of %d down, %d restarted", test.down, test.n, test.restarted), func(t *testing.T) {
			inVirtualTime(t, test.n, func(s *stage) {
				p := s.open(maxTTL(time.Hour))
				token := p.lock(one("r", time.Hour)).Token
				for i := range test.down {
					s.masters[test.n-1-i].Crash(true)
				}
				s.until("down", func() bool { return strings.Count(p.states(), "d") == test.down })
				began := time.Now()
				for i := range test.restarted {
					s.restart(i)
				}
				s.until("they have no vote", func() bool { return p.states()[0] != 'u' })
				s.until("they vote", func() bool { return strings.Count(p.states(), "u") == test.n-test.down })
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("they vote after %v", took)
				}
				for i := range test.restarted {
					if s.on("r", token)[i] != '1' {
						t.Errorf("master %d does not hold the lock", i+1)
					}
				}
			})
		})
	}
}

// With fewer than a quorum that remembers nobody can tell what was held: the wait.
func TestNoCopyOfAMinority(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(20*time.Second), oneKey)
		p.lock(one("r", 10*time.Second))
		forgot := time.Now()
		s.restart(0)
		s.restart(1)
		struck := s.strike(4, "scan", 1, func() { s.restart(2) })
		s.until("three have forgotten", struck.Load)
		s.until("a problem is told", func() bool {
			for _, seat := range p.Membership().Seats {
				if seat.Copying != nil && strings.Contains(seat.Copying.Problem, "2 of 3 masters that could give it its locks") {
					return true
				}
			}
			return strings.Count(p.states(), "q") == 5 // founded anew
		})
		for strings.Count(p.states(), "u") < 3 {
			time.Sleep(100 * ms)
		}
		if waited := time.Since(forgot); waited < 20*time.Second {
			t.Errorf("a quorum votes %v after three have forgotten, want not before 20s", waited)
		}
	})
}

// What happens to a source while it is read costs the copy, and no lock. Another copy follows.
func TestSourceFailsWhileItIsCopied(t *testing.T) {
	for name, fail := range map[string]func(s *stage, i int){
		"it forgets":            func(s *stage, i int) { s.do(i, "FLUSHALL") },
		"it restarts":           func(s *stage, i int) { s.restart(i) },
		"it freezes":            func(s *stage, i int) { s.freeze(i) },
		"its clock steps ahead": func(s *stage, i int) { s.masters[i].StepClock(time.Minute) },
		"its clock steps back":  func(s *stage, i int) { s.masters[i].StepClock(-time.Minute) },
		"its connections break": func(s *stage, i int) { s.masters[i].Cut() },
		"its keys are evicted": func(s *stage, i int) {
			s.masters[i].Evict(func(key string) bool { return !strings.HasPrefix(key, ReservedPrefix) })
		},
	} {
		for _, at := range redisproc.Some(1, []int64{4, 1, 9}) {
			t.Run(fmt.Sprintf("%s at %d", name, at), func(t *testing.T) {
				inVirtualTime(t, 5, func(s *stage) {
					p := s.open(maxTTL(time.Hour), oneKey)
					tokens := make(map[string]string)
					for i := range 6 {
						key := fmt.Sprint("job", i)
						// On a bare quorum, which the restarted master and the source that fails belong to.
						s.masters[4].SetReachable(true)
						tokens[key] = p.lock(one(key, time.Hour)).Token
						s.do(3, "DEL", key)
						s.do(4, "DEL", key)
					}
					struck := s.strike(1, "evalsha", at, func() { fail(s, 1) })
					s.restart(0)
					s.until("the source has failed", struck.Load)
					s.until("the restarted master votes, or waits", func() bool {
						return p.states()[0] == 'u' || time.Since(p.opened) > 20*time.Second
					})
					for key, token := range tokens {
						c := p.lock(one(key, time.Second))
						if c.Held {
							t.Errorf("%s was granted, and %q holds it; the masters: %s", key, token, p.states())
						}
					}
				})
			})
		}
	}
}

// One of four sources fails while it is read, and a quorum of sources is left: the copy goes on without it, and says so. max_ttl is a day: without
// that the restarted master would be without a vote for as long.
func TestCopyGoesOnWithoutASource(t *testing.T) {
	for name, fail := range map[string]func(s *stage, i int){
		"it forgets":  func(s *stage, i int) { s.do(i, "FLUSHALL") },
		"it restarts": func(s *stage, i int) { s.restart(i) },
		"it restarts again, and again": func(s *stage, i int) {
			for range 5 {
				s.restart(i)
				time.Sleep(100 * ms)
			}
		},
		"it freezes":              func(s *stage, i int) { s.freeze(i) },
		"its clock steps":         func(s *stage, i int) { s.masters[i].StepClock(time.Minute) },
		"its connections break":   func(s *stage, i int) { s.masters[i].Cut() },
		"it takes no connections": func(s *stage, i int) { s.masters[i].SetReachable(false); s.masters[i].Cut() },
		"it is slow": func(s *stage, i int) {
			s.masters[i].SetCost(func([][]byte) time.Duration { return 150 * ms })
		},
		"its key of the membership is another": func(s *stage, i int) { s.do(i, "DEL", lua.MembersKey); s.do(i, "SET", lua.MembersKey, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				var log journal
				p := s.open(maxTTL(24*time.Hour), oneKey, log.option)
				time.Sleep(time.Second) // who has just begun leaves it to others
				tokens := make(map[string]string)
				for i := range 6 {
					key := fmt.Sprint("job", i)
					tokens[key] = p.lock(one(key, 12*time.Hour)).Token // on a bare quorum, which the restarted master belongs to
					s.do(3, "DEL", key)
					s.do(4, "DEL", key)
				}
				struck := s.strike(1, "evalsha", 5, func() { fail(s, 1) })
				s.restart(0)
				began := time.Now()
				s.until("the restarted master votes", func() bool { return p.states()[0] == 'u' && struck.Load() })
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("it votes after %v, want two seconds at most", took)
				}
				if got := log.take("a copy goes on without a source that fails"); len(got) != 1 || !strings.Contains(got[0], "master=m2 learner=m1") {
					t.Errorf("got the lines %q, want one that names the source", got)
				}
				s.until("people are told", func() bool {
					problem := p.Membership().Problem
					return strings.Contains(problem, "m2 was left out when m1 was given what the others remember: ") || strings.Contains(problem, "m2 gets no vote: ")
				})
				for key, token := range tokens {
					if c := p.lock(one(key, time.Second)); c.Held {
						t.Errorf("%s was granted, and %q holds it; the masters: %s", key, token, p.states())
					}
				}
				time.Sleep(time.Second) // until the source has failed
			})
		})
	}
}

// The learner's own keys are gone through at the end: it has got more of them since than it had at the beginning. One by one they are more than a source had
// SCANs for, and many at a time it is given all of them.
func TestCopyOfManyKeys(t *testing.T) {
	for _, count := range []int{1, 0} {
		inVirtualTime(t, 3, func(s *stage) {
			var log journal
			p := s.open(maxTTL(time.Hour), log.option, func(o *Options) { o.copyCount = count })
			time.Sleep(time.Second) // who has just begun leaves it to others
			for i := range 3 {
				s.do(i, "EVAL", "for n = 1, 1200 do redis.call('SET', 'k' .. n, 'v', 'PX', 3000000) end", 0)
			}
			s.restart(0)
			p.votes(0)
			if got := len(s.masters[0].Keys()); got < 1200 {
				t.Errorf("it votes with %d keys", got)
			}
			if got := log.take("given"); len(got) != 2 || !strings.Contains(got[1], "it was given 1200 locks") { // each of which both others name
				t.Errorf("got the lines %q, want one that it is quarantined and one of one copy, of 1200 locks", got)
			}
		})
	}
}

// scansOn has no SCAN end.
type scansOn struct{ net.Conn }

func (c *scansOn) Read(b []byte) (n int, err error) {
	n, err = c.Conn.Read(b)
	copy(b, bytes.ReplaceAll(b[:n], []byte("*2\r\n$1\r\n0\r\n*"), []byte("*2\r\n$1\r\n7\r\n*")))
	return n, err
}

// A source that names keys for ever is left out, as one that fails in another way.
func TestCopyGoesOnWithoutASourceThatScansForEver(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		var log journal
		p := s.open(maxTTL(24*time.Hour), log.option, func(o *Options) {
			dial := o.Masters[1].Dialer
			o.Masters[1].Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				return &scansOn{conn}, err
			}
		})
		time.Sleep(time.Second) // who has just begun leaves it to others
		token := p.lock(one("r", time.Hour)).Token
		s.restart(0)
		p.votes(0)
		s.wantOn("r", token, "11111")
		if got := log.take("a copy goes on without a source that fails"); len(got) != 1 || !strings.Contains(got[0], "its SCAN does not end") {
			t.Errorf("got the lines %q, want one that says why", got)
		}
	})
}

// Of three masters the one that remembers a lock fails while it is read: the other one alone makes no voter.
func TestCopyNeedsAQuorumOfSources(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(maxTTL(time.Hour), oneKey)
		time.Sleep(time.Second) // who has just begun leaves it to others
		p.lock(one("r", time.Hour)).want(s, "LOCK", "held", 0)
		s.do(2, "DEL", "r")
		struck := s.strike(1, "evalsha", 1, func() { s.freeze(1) })
		s.restart(0)
		s.until("the source has failed", struck.Load)
		time.Sleep(5 * time.Second)
		if c := p.lock(one("r", time.Second)); c.Held {
			t.Errorf("the lock was granted again; the masters: %s", p.states())
		}
		s.thaw(1)
		p.allUp()
		if c := p.lock(one("r", time.Second)); c.Held {
			t.Errorf("the lock was granted again when all were back")
		}
	})
}

// Only so many sources are scanned that every lock is named: a lock on a bare quorum, too, whichever sources have it.
func TestLastSourceNamesALock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(time.Hour))
		time.Sleep(time.Second) // who has just begun leaves it to others
		token := p.lock(one("r", time.Hour)).Token
		s.do(1, "DEL", "r")
		s.do(2, "DEL", "r")
		s.restart(0)
		p.votes(0)
		s.wantOn("r", token, "10011")
	})
}

// Who copies may be killed at each step. Another one does it anew.
func TestCopierIsKilled(t *testing.T) {
	for at := int64(1); at <= 12; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			inVirtualTime(t, 3, func(s *stage) {
				p := s.open(maxTTL(time.Hour), oneKey)
				other := s.open(maxTTL(time.Hour), oneKey)
				var tokens []string
				for i := range 4 {
					tokens = append(tokens, p.lock(one(fmt.Sprint("job", i), time.Hour)).Token)
				}
				kill := func() {
					for _, one := range []*proxy{p, other} {
						if one.copiesHere() {
							one.vanish()
							one.cutOff.Store(true)
							return
						}
					}
				}
				s.strike(1, "evalsha", at, kill)
				s.restart(0)
				left := other
				s.until("the restarted master votes", func() bool {
					if other.cutOff.Load() {
						left = p
					}
					return left.states()[0] == 'u' && time.Since(p.opened) > time.Second
				})
				for i, token := range tokens {
					s.wantOn(fmt.Sprint("job", i), token, "111")
				}
			})
		})
	}
}

// vanish breaks all paths of a client: it changes nothing any more.
func (p *proxy) vanish() {
	for _, path := range p.paths {
		path.Partition()
		path.Cut()
	}
}

// The clock of a learner was ahead when its copier noted that it copies. The copier dies, and the clock is set right: another one does not wait until
// the clock is there again, however far clocks may be apart.
func TestCopyNoteOfTheFuture(t *testing.T) {
	for _, ahead := range []time.Duration{20 * time.Second, time.Hour} {
		inVirtualTime(t, 5, func(s *stage) {
			apart := func(o *Options) { o.ClockSkewMax = time.Minute }
			first := s.open(maxTTL(24*time.Hour), oneKey, apart)
			for i := range 20 {
				first.lock(one(fmt.Sprint("job", i), 12*time.Hour))
			}
			time.Sleep(2 * time.Second) // who has just begun leaves it to others
			s.masters[0].StepClock(ahead)
			s.masters[0].Crash(false)
			struck := s.strike(0, "evalsha", 10, first.vanish)
			s.masters[0].Restart()
			s.until("the copier is killed", struck.Load)
			first.kill()
			s.masters[0].StepClock(-ahead)
			next := s.start(maxTTL(24*time.Hour), apart)
			began := time.Now()
			s.until("master 1 votes", func() bool { return next.states()[0] == 'u' })
			if took := time.Since(began); took > 5*time.Second {
				s.Errorf("a clock that was %v ahead: master 1 votes after %v, want soon", ahead, took)
			}
		})
	}
}

// The note of a copy that is over stays behind, and the clock goes back. When the master is to be given its locks again, the note keeps nobody from that.
func TestCopyNoteBehindTheCopy(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		apart := func(o *Options) { o.MaxTTL, o.ClockStepMax, o.ClockSkewMax = 24*time.Hour, 500*ms, time.Minute }
		p, other := s.open(apart), s.open(apart) // who is alone cannot tell a gain from a pause of its own
		s.restart(0)
		p.votes(0)
		s.stepClocks(-20*time.Second, 0)
		time.Sleep(2 * p.opts.Heartbeat) // both see that
		s.stepClocks(5*time.Second, 0)
		if took := p.votes(0); took > 5*time.Second {
			s.Errorf("master 1 votes after %v, want soon", took)
		}
		other.allUp()
	})
}

// What is released while it is copied is gone everywhere, and what the restarted master remembers of an earlier time as well.
func TestReleasedWhileItIsCopied(t *testing.T) {
	for _, at := range redisproc.Some(2, []int64{3, 6, 1, 2, 4, 5, 7, 8}) {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open(maxTTL(time.Hour), oneKey)
				old := p.lock(one("of an earlier time", time.Hour)).Token
				snapshot := s.masters[0].Snapshot()
				p.unlock(old, "of an earlier time")
				for i := range 3 {
					p.lock(one(fmt.Sprint("job", i), time.Hour).as(fmt.Sprint("token", i)))
				}
				s.strike(1, "evalsha", at, func() {
					for i := range 3 {
						p.unlock(fmt.Sprint("token", i), fmt.Sprint("job", i))
					}
				})
				s.masters[0].Crash(true)
				s.masters[0].Rollback(snapshot)
				s.masters[0].Restart()
				p.votes(0)
				time.Sleep(time.Second)
				s.wantNoLocks()
			})
		})
	}
}

// A lock on a bare quorum is copied. What fewer masters have cannot be one: it would come to a quorum, one restart after the other.
func TestLeftoversDoNotSpread(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(time.Hour))
		token := p.lock(one("r", time.Hour)).Token
		s.do(3, "DEL", "r")
		s.do(4, "DEL", "r")
		s.do(1, "SET", "left", "of a failed attempt", "PX", 3_600_000)
		s.restart(0)
		p.votes(0)
		s.wantOn("r", token, "11100")
		s.wantSet("left", "01000")
		p.lock(one("r", time.Minute)).want(s, "LOCK of a held one", "no", 0)
	})
}

// What a copy had to give although too few held it is told of, by every client, until it is over: it may be no lock.
func TestMinorityIsTold(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		var log journal
		p, other := s.open(maxTTL(time.Hour), log.option), s.open(maxTTL(time.Hour), log.option)
		inspect := func(resource string) string {
			c := &call{began: time.Now()}
			other.StartInspect(&c.Op, resource, c)
			var told []string
			for _, m := range other.finish(c).Info.Minority {
				told = append(told, m.On+" "+m.By)
			}
			return strings.Join(told, ",")
		}
		p.lock(one("held", time.Hour))
		s.do(1, "SET", "left", "of a failed attempt", "PX", 3_600_000)
		s.do(2, "SET", "short", "of a failed attempt", "PX", 30_000)
		s.restart(0)
		p.votes(0)
		p.lock(one("left", time.Minute)).want(s, "LOCK of what a minority has", "no", 0)
		s.until("the other one has heard of it", func() bool { return len(Minority(other.Client, "left")) > 0 })
		for resource, want := range map[string]string{"held": "", "left": "m2 m1", "short": "m3 m1"} {
			if got := inspect(resource); got != want {
				s.Errorf("LOCKINFO %s: got %q, want %q", resource, got, want)
			}
		}
		if got := log.take("was given what fewer than a quorum held"); len(got) != 1 || !strings.Contains(got[0], `master=m1 locks=2 resources="left, short"`) {
			s.Errorf("got the lines %q, want one that names what it was given", got)
		}
		p.force("left")
		p.lock(one("left", time.Minute)).want(s, "LOCK after FORCE", "held", 0)
		if got := inspect("left"); got != "" {
			s.Errorf("LOCKINFO of a lock that was granted since: got %q", got)
		}
		s.do(1, "DEL", "left")
		s.do(2, "DEL", "left")
		s.restart(0)
		p.votes(0)
		s.until("nothing is left to tell of", func() bool { return len(Minority(other.Client, "left")) == 0 })
		time.Sleep(time.Minute)
		if got := len(Minority(other.Client, "short")); got > 0 {
			s.Errorf("what has ended is told of: %+v", Minority(other.Client, "short"))
		}
	})
}

// A lock on a bare quorum whose value is being changed, by a takeover or the commit of a library whose redlockd has died: each source that denies it holds
// one value or the other, and together they are as many as must deny it.
func TestHalfChangedLockIsCopied(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(time.Hour))
		p.lock(one("r", time.Hour).as("T"))
		reader := p.lock(LockRequest{Resources: []string{"shared"}, TTL: time.Hour, Shared: true}).Token
		for _, i := range []int{3, 4} {
			s.do(i, "DEL", "r", "shared")
		}
		s.do(1, "SET", "r", "behind T", "PX", 3_600_000)
		s.do(1, "ZREM", "shared", readerPrefix+reader)
		s.do(1, "ZADD", "shared", 3_600_000, readerPrefix+"behind the reader")
		s.restart(0)
		p.votes(0)
		p.lock(one("r", time.Minute)).want(s, "LOCK of a held one", "no", 0)
		p.lock(one("shared", time.Minute)).want(s, "LOCK of what is read", "no", 0)
	})
}

// A slow copier writes to no voter. Another one has finished meanwhile, because the slow one has not said for long how far it is.
func TestLateCopyMeetsAVoter(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		slow := s.open(maxTTL(time.Hour), oneKey, func(o *Options) { o.Heartbeat, o.ConnectTimeout = 10*time.Second, 30*time.Second })
		slow.lock(one("r", time.Hour).as("T"))
		slow.lock(one("other", time.Hour).as("X"))
		reading := s.strike(1, "evalsha", 1, func() { slow.paths[0].HoldRequests() }) // what it decides now comes late
		s.restart(0)
		s.until("it copies", reading.Load)
		p := s.open2(maxTTL(time.Hour), oneKey)
		s.until("it votes", func() bool { return p.states() == "uuu" })
		for _, key := range []string{"r", "other"} {
			p.unlock(map[string]string{"r": "T", "other": "X"}[key], key)
		}
		time.Sleep(time.Second)
		s.wantNoLocks()
		slow.paths[0].Heal()
		time.Sleep(3 * time.Second)
		s.wantNoLocks()
	})
}

// open2 opens a client beside masters that do not all vote.
func (s *stage) open2(change ...func(*Options)) *proxy {
	s.Helper()
	p := s.start(change...)
	s.until("a quorum", func() bool { return strings.Count(p.states(), "u") > len(s.masters)/2 })
	return p
}

// copiesHere tells whether this client copies.
func (p *proxy) copiesHere() bool {
	return slices.ContainsFunc(p.Membership().Seats, func(s Seat) bool { return s.Copying != nil && s.Copying.Here })
}

// Who has just begun, as a command does that is gone in a moment, leaves the copy to others at first.
func TestWhoLooksInDoesNotCopy(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(maxTTL(time.Hour), uncopied)
		time.Sleep(2 * time.Second)
		s.restart(0)
		s.until("it is a learner", func() bool { return p.fleet.view.Load().record.Seats[0].State == member.Learner })
		looker := s.start(maxTTL(time.Hour))
		for range 9 {
			time.Sleep(100 * ms)
			if looker.copiesHere() || looker.Stats().Copies > 0 {
				t.Fatalf("it copies %v after it has begun", time.Since(looker.opened))
			}
		}
		s.until("it copies in the end", func() bool { return p.states() == "uuu" })
	})
}

// Until the last key is copied it has no vote, and everybody is told how far it is.
func TestSlowCopy(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(time.Hour), oneKey)
		other := s.open(maxTTL(time.Hour), oneKey)
		for i := range 30 {
			p.lock(one(fmt.Sprint("job", i), time.Hour))
		}
		s.masters[1].SetCost(func(args [][]byte) time.Duration {
			if len(args) > 1 && string(args[1]) == lua.CopyRead.SHA {
				return 40 * ms // less than a lane waits
			}
			return 0
		})
		s.restart(0)
		seen := map[bool]bool{} // by whether the client copies itself
		probed := false
		s.until("it votes", func() bool {
			for _, one := range []*proxy{p, other} {
				if c := one.Membership().Seats[0].Copying; c != nil && c.Given > 5 && c.Percent > 0 && c.Percent < 100 && c.From == "m2,m3,m4,m5" {
					seen[c.Here] = true
				}
			}
			if !probed && seen[true] {
				reports, _ := ProbeAll(s.Context(), p.opts, time.Second)
				probed = slices.ContainsFunc(reports[0].Problems, func(problem Problem) bool {
					return strings.Contains(problem.Reason, " locks so far, ") && strings.Contains(problem.Reason, " %, from m2, m3, m4, m5)")
				})
			}
			return p.states()[0] == 'u' && time.Since(p.opened) > 2*time.Second
		})
		if !seen[true] || !seen[false] || !probed {
			t.Errorf("who copies, who does not, and a probe tell how far it is: got %v and %v, want all three", seen, probed)
		}
		for i := range 30 {
			s.wantSet(fmt.Sprint("job", i), "11111")
		}
		if c := p.Membership().Seats[0].Copying; c != nil {
			t.Errorf("of a voter: got %+v, want nothing", c)
		}
	})
}

// A clock that steps ahead and back again while keys are read has ended some of them.
func TestSourceStepsAheadAndBack(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(maxTTL(time.Hour), oneKey)
		for i := range 6 {
			p.lock(one(fmt.Sprint("job", i), time.Minute))
			s.do(2, "DEL", fmt.Sprint("job", i))
		}
		struck := s.strike(1, "evalsha", 2, func() {
			s.masters[1].StepClock(time.Hour)
			time.Sleep(60 * ms)
			s.masters[1].StepClock(-time.Hour)
		})
		s.restart(0)
		s.until("it has stepped", struck.Load)
		time.Sleep(5 * time.Second)
		for i := range 6 {
			if c := p.lock(one(fmt.Sprint("job", i), time.Second)); c.Held {
				t.Errorf("job%d was granted, and another holds it", i)
			}
		}
	})
}

// A master whose clock has gained may have ended keys early: it is no source.
func TestDoubtedClockIsNoSource(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(maxTTL(time.Hour))
		p.lock(one("r", time.Minute))
		s.do(3, "DEL", "r")
		s.do(4, "DEL", "r")
		s.masters[1].StepClock(time.Hour)
		s.until("doubted", func() bool { return p.states()[1] == 'o' })
		s.restart(0)
		p.votes(0)
		p.lock(one("r", time.Second)).want(s, "LOCK of a held one", "no", 0)
	})
}

// untold swallows what tells a master of the membership.
type untold struct{ net.Conn }

func (c *untold) Write(b []byte) (int, error) {
	if strings.Contains(string(b), lua.Learn.Text) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// A source that has not left the record of before may still vote under it.
func TestSourceThatHasNotLeft(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		patient := func(o *Options) {
			o.MaxTTL, o.MasterTimeout, o.ConnectTimeout = time.Hour, 9*time.Second, 10*time.Second
		}
		late := s.open(patient)
		p := s.open(maxTTL(time.Hour), func(o *Options) {
			dial := o.Masters[1].Dialer
			o.Masters[1].Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				return &untold{conn}, err
			}
		})
		for _, i := range []int{1, 3, 4} {
			late.paths[i].HoldRequests()
		}
		c := late.begin(one("r", time.Hour)) // on the first master and the third; the second will vote late
		s.until("two have voted", func() bool { return s.setOn("r") == "10100" })
		s.restart(0)
		s.until("the first one votes again, or cannot", func() bool { return p.states()[0] == 'u' && time.Since(p.opened) > 3*time.Second })
		late.paths[1].Heal()
		time.Sleep(time.Second)
		other := p.lock(one("r", time.Minute))
		if c.done.Load() && c.Held && other.Held {
			t.Errorf("two hold it: %+v and %+v", c.Result, other.Result)
		}
		if s.setOn("r")[0] != '1' {
			t.Error("the first master has not got what the third one has")
		}
	})
}

// setOn tells which masters hold the key.
func (s *stage) setOn(key string) (on string) {
	for _, m := range s.masters {
		held := "0"
		if slices.Contains(m.Keys(), key) {
			held = "1"
		}
		on += held
	}
	return on
}

// A copy sees the clock of a source gain, and by the time that it says so another process is at that place: nobody doubts that one.
func TestGainOfASourceThatIsReplaced(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(maxTTL(time.Hour))
		sees := host{p.Client}
		gone := p.Masters()[0].RunID
		gained := func() clock.Reading {
			now := p.own.At(time.Now())
			return clock.ReadingOf(now, now, now+p.own.Wall(time.Now())+time.Minute)
		}
		s.restart(0)
		s.until("it is a learner", func() bool { return p.states() == "quu" })
		p.allUp()
		sees.Saw(0, gone, gained())
		time.Sleep(3 * p.opts.Heartbeat)
		p.wantStates("uuu")
		sees.Saw(0, p.Masters()[0].RunID, gained())
		s.until("it has no vote", func() bool { return p.states() == "ouu" || p.states() == "quu" })
		p.allUp()
	})
}
