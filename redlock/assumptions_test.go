package redlock

// Goal: the section "What is not promised" of guarantees.md is true, and complete in what it says. Each assumption that somebody else has to keep is
// broken here on purpose, and the test shows what follows: mostly that two hold one lock. Where redlockd does find it, the test says when.
// Method: virtual time over in-process masters.

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/memmaster"
	"redlockd/redlock/redisproc"
)

// wantTwoHolders checks that both were granted what one of them should have, and still rely on it.
func (s *stage) wantTwoHolders(first, second *call) {
	s.Helper()
	for i, c := range []*call{first, second} {
		if !c.Held || time.Until(c.Until) <= 0 {
			s.Errorf("holder %d: got %+v, want that it holds the lock, which is what guarantees.md warns of", i+1, c.Result)
		}
	}
}

// grantedBeforeTheEnd tries until the lock is granted, and wants that before the first holder's lease ends.
func (p *proxy) grantedBeforeTheEnd(first *call, resource string) *call {
	p.s.Helper()
	for time.Now().Before(first.Until) {
		if c := p.lock(one(resource, time.Second)); c.Held {
			p.s.wantTwoHolders(first, c)
			return c
		}
		time.Sleep(5 * ms)
	}
	p.s.Fatal("nobody else was granted the lock, though guarantees.md warns of it")
	return nil
}

// behind are options that name other masters: those so many places further on.
func behind(places int) func(*Options) {
	return func(o *Options) {
		for i := range o.Masters {
			o.Masters[i].Addr = addrOf(i + places)
		}
	}
}

func TestAssumeSameMasters(t *testing.T) {
	withSpares(t, 3, 3, func(s *stage) {
		s.found(behind(3))
		s.found()
		here, there := s.start(), s.start(behind(3))
		here.allUp()
		there.allUp()
		first := here.lock(one("r", time.Minute))
		there.grantedBeforeTheEnd(first, "r")
	})
}

// Two names mean other machines to one client than to the other, for good, and each reaches only one of the masters that they share.
func TestAssumeOneMachinePerName(t *testing.T) {
	withSpares(t, 5, 2, func(s *stage) {
		s.found(briefly)
		stays, moved := s.open(briefly), s.open(briefly)
		moved.exchangePath(3, s.masters[5].Link()).Cut()
		moved.exchangePath(4, s.masters[6].Link()).Cut()
		stays.cut(2)
		moved.cut(0, 1)
		s.until("a second fleet is founded", func() bool { return moved.states() == "dduuu" })
		first := stays.lock(one("r", time.Second))
		moved.grantedBeforeTheEnd(first, "r")
	})
}

// Two machines that an operator gives up for lost, because nobody reaches them there, answer a redlockd with the list of before.
func TestAssumeLostMachinesStayAway(t *testing.T) {
	withSpares(t, 3, 2, func(s *stage) {
		before := s.open(briefly)
		before.cut(2)
		operator := s.proxy()
		operator.cut(0, 1)
		o := operator.options()
		briefly(&o)
		behind(2)(&o)
		if _, err := Refound(s.Context(), o, false); err != nil {
			s.Fatal(err)
		}
		after := s.start(briefly, behind(2))
		after.allUp()
		first := before.lock(one("r", time.Second))
		after.grantedBeforeTheEnd(first, "r")
	})
}

// One master is enough where the holder has a bare quorum: a Redis that forgets a key without restarting does the same.
func TestAssumeNobodyDeletesKeys(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(briefly), s.open(briefly)
		first := p.lock(one("r", 2*time.Second))
		s.doOn([]int{0, 1, 2}, "DEL", "r")
		other.lock(one("r", time.Second)).want(s, "LOCK after DEL on three masters", "held", 0)
		s.until("the first holder's redlockd has found it", func() bool { return p.Stats().Leases == 0 })
		if time.Until(first.Until) <= 0 {
			s.Error("it was found when the lease had ended by itself")
		}
	})
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(briefly), s.open(briefly)
		first := s.betrayed(p, "r")
		s.do(2, "DEL", "r")
		other.grantedBeforeTheEnd(first, "r")
	})
}

// Clocks gain while no redlockd runs that could have seen it: less than clock_skew_max, or as much as they were behind. Or one sees it, and cannot tell
// it from a pause of its own.
func TestAssumeClocksAreWatched(t *testing.T) {
	for _, tt := range []struct {
		name            string
		masters         int           // whose clocks step
		behind, own, by time.Duration // how far they were behind, how far that of the redlockd was, and by how much they step; that one steps to right
		stays           bool          // the redlockd watches
	}{
		{"less than clock_skew_max", 3, 0, 0, 800 * ms, false},
		{"into agreement", 3, 10 * time.Second, 0, 10 * time.Second, false},
		{"all clocks together", 5, 10 * time.Second, 10 * time.Second, 10 * time.Second, false},
		{"all masters, as after a pause", 5, 0, 0, 800 * ms, true},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			for _, m := range s.masters[:tt.masters] {
				m.StepClock(-tt.behind)
			}
			p := s.open(briefly, withFaults, func(o *Options) { o.clockFaults.Ahead.Store(-int64(tt.own)) })
			first := p.lock(one("r", 2*time.Second))
			first.want(s, tt.name+": LOCK", "held", 0)
			if !tt.stays {
				p.kill()
			}
			for _, m := range s.masters[:tt.masters] {
				m.StepClock(tt.by)
			}
			time.Sleep(600 * ms) // heartbeats
			s.start(briefly).grantedBeforeTheEnd(first, "r")
		})
	}
}

// A step of a master's clock looks like a request that took less long to get there. Where the replies take as long as the requests, the next holder
// is told so much later that the lease is over.
func TestAssumeStepsShowBehindTheNetwork(t *testing.T) {
	for _, reply := range redisproc.SomeRaced(1, []time.Duration{0, 40 * ms}) {
		inVirtualTime(t, 5, func(s *stage) {
			change := func(o *Options) { o.MasterTimeout = 200 * ms }
			p, far := s.open(change), s.open(change)
			far.delay(40*ms, reply, 0, 1, 2, 3, 4)
			time.Sleep(far.MaxTTL() + 10*time.Second) // the ring of its readings has none that was faster
			held := p.lock(one("r", time.Second))
			s.stepClocks(45*ms, 0, 1, 2, 3, 4)
			time.Sleep(time.Until(held.began.Add(padded(time.Second) - 45*ms + 3*ms - 40*ms))) // so that it arrives when the keys have just ended
			next := far.lock(one("r", time.Second))
			if early := held.Until.Sub(next.began.Add(next.took)); !next.Held || (early > 0) != (reply == 0) {
				s.Errorf("replies take %v: got %+v %v before the end of the lease before", reply, next.Result, early)
			}
		})
	}
}

// The clocks of a majority go back and forward again while a client is cut off from them: a lock that another client has taken in between has ended.
func TestAssumeNoClockGoesBackAndForwardUnseen(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, blind := s.open(briefly), s.open(briefly)
		for _, path := range blind.paths {
			path.Partition()
		}
		s.stepClocks(-time.Minute, 0, 1, 2)
		time.Sleep(600 * ms) // heartbeats
		held := p.lock(one("r", 2*time.Second))
		held.want(s, "LOCK on clocks that went back", "held", 0)
		s.stepClocks(time.Minute, 0, 1, 2)
		blind.heal(0, 1, 2, 3, 4)
		blind.grantedBeforeTheEnd(held, "r")
	})
}

// A client of the drop-in commands counts its TTL from the reply.
func TestAssumeClientsCountFromSending(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, other := s.open(), s.open()
		p.delay(0, 40*ms, 0, 1, 2)
		first := p.commit(setNX("r", longValue, time.Second))
		first.want(s, "SET NX", "held", 40*ms)
		believed := time.Now().Add(time.Second)
		if next := other.lock(one("r", time.Second).waits(2 * time.Second)); !next.Held || time.Until(believed) <= 0 {
			s.Errorf("LOCK behind it: got %+v %v before the first client's count ends, want held", next.Result, time.Until(believed))
		}
	})
}

// Masters go back to a memory that is younger than the last heartbeat, under the same process, or to an older one while no redlockd runs.
func TestAssumeMemoryStays(t *testing.T) {
	for _, older := range []time.Duration{0, 2 * time.Second} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(briefly), s.open(briefly)
			var before []*memmaster.Snapshot
			for i := range 3 {
				before = append(before, s.masters[i].Snapshot())
			}
			time.Sleep(older)
			first := p.lock(one("r", 4*time.Second))
			if older > 0 {
				p.kill()
				other.kill()
			}
			for i := range 3 {
				s.masters[i].Rollback(before[i])
			}
			if older > 0 {
				other = s.start(briefly)
			}
			other.grantedBeforeTheEnd(first, "r")
		})
	}
}

// Masters are allowed to evict, and do, before a heartbeat has seen it.
func TestAssumeEvictionIsSeenFirst(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(briefly), s.open(briefly)
		first := p.lock(one("r", 4*time.Second))
		for i := range 3 {
			s.do(i, "CONFIG", "SET", "maxmemory", "1000000", "maxmemory-policy", "volatile-lru")
			s.do(i, "DEL", "r") // what a Redis does that is out of memory
		}
		s.wantTwoHolders(first, other.lock(one("r", time.Second)))
		s.until("the next heartbeat", func() bool { return other.states() == "rrruu" })
		other.lock(one("other", time.Second)).want(s, "LOCK behind the heartbeat", "masters voted, 3 needed", 0)
		s.until("the loss is reported", func() bool { return p.Stats().Lost == 1 })
	})
}

// lockDirectly takes the lock on these masters as a library does that knows nothing of redlockd.
func (s *stage) lockDirectly(resource string, ttl time.Duration, masters ...int) {
	s.Helper()
	for _, i := range masters {
		if got := s.do(i, "SET", resource, "library", "NX", "PX", ttl.Milliseconds()); got != "OK" {
			s.Fatalf("SET NX on master %d: got %v, want OK", i+1, got)
		}
	}
}

// A library does not wait until a master that has forgotten may vote again.
func TestAssumeNoRestartBesideLibraries(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly)
		first := s.betrayed(p, "r")
		s.restart(0)
		s.lockDirectly("r", time.Second, 0, 3, 4)
		if time.Until(first.Until) <= 0 {
			s.Error("the lease had ended")
		}
	})
}

// A library's TTL is longer than max_ttl, and so than the wait of a master that has forgotten.
func TestAssumeLibrariesKeepToMaxTTL(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly, uncopied)
		s.lockDirectly("r", time.Minute, 0, 1, 2)
		s.restart(0)
		s.until("the restart is seen", func() bool { return p.states() == "quuuu" })
		p.allUp()
		p.lock(one("r", time.Second)).want(s, "LOCK of what a library holds for a minute", "held", 0)
	})
}

// Everybody forgets a max_ttl that was longer than founding_wait.
func TestAssumeFoundingWait(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		before := s.open(maxTTL(6 * time.Second))
		first := before.lock(one("r", 6*time.Second))
		before.kill()
		for _, m := range s.masters {
			m.Crash(false)
			m.Restart()
		}
		s.start(maxTTL(2*time.Second)).grantedBeforeTheEnd(first, "r")
	})
}

// Masters that have all forgotten look new.
func TestAssumeBootstrapOfNewMasters(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(briefly)
		first := p.lock(one("r", 4*time.Second))
		p.kill()
		for _, m := range s.masters {
			m.Crash(false)
			m.Restart()
		}
		s.found(briefly)
		s.open(briefly).grantedBeforeTheEnd(first, "r")
	})
}

// Two callers with one token are one holder.
func TestAssumeTokensAreUnique(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, other := s.open(), s.open()
		first := p.lock(one("r", time.Minute).as("T"))
		s.wantTwoHolders(first, other.lock(one("r", time.Minute).as("T")))
		other.unlock("T", "r").want(s, "UNLOCK by the second", "held", 0)
		p.extend("T", time.Minute, "r").want(s, "EXTEND by the first", "no", 0)
	})
}

// A caller uses its token again, behind an UNLOCK, within milliseconds of an attempt that failed and whose undo is late.
func TestAssumeNewTokenAfterUnlock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		s.doOn([]int{2, 3, 4}, "SET", "r", "another", "PX", 60_000)
		p.delay(0, 10*ms, 2, 3, 4)
		failed := p.begin(one("r", 10*time.Second).as("T"))
		time.Sleep(ms) // two masters have set it, and have said so
		p.holdRequests(0, 1)
		s.doOn([]int{2, 3, 4}, "DEL", "r")
		other.unlock("T", "r") // "no", if the three that have nothing of it answer first: no quorum can hold it
		other.cut(4)
		other.lock(one("r", 10*time.Second).as("T")).want(s, "LOCK with the same token", "held", 0)
		p.finish(failed).want(s, "first attempt", "no", 10*ms)
		p.heal(0, 1)
		time.Sleep(10 * ms)
		s.wantOn("r", "T", "00110") // its undo took two away, and left less than a quorum
	})
}

// One client says that three may hold the semaphore, another says one.
func TestAssumeOneNumberOfSlots(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, other := s.open(), s.open()
		p.fill("jobs", 1, time.Minute)
		p.lock(one("jobs", time.Minute).of(1)).want(s, "LOCK SLOTS 1 beside one holder", "no", 0)
		other.lock(one("jobs", time.Minute).of(3)).want(s, "LOCK SLOTS 3 beside one holder", "held", 0)
		other.lock(one("jobs", time.Minute).of(3)).want(s, "LOCK SLOTS 3 beside two holders", "held", 0)
		other.lock(one("jobs", time.Minute).of(3)).want(s, "LOCK SLOTS 3 beside three holders", "no", 0)
	})
}

// A waiter of the redlockd that grants gets the lock before one that has waited for longer at another.
func TestAssumeNoOrderAcrossServers(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, other := s.open(), s.open()
		holder := p.lock(one("r", time.Minute))
		earlier := other.begin(one("r", time.Minute).waits(30 * time.Second))
		time.Sleep(time.Second)
		later := p.begin(one("r", time.Minute).waits(30 * time.Second))
		p.unlock(holder.Token, "r").want(s, "UNLOCK", "held", 0)
		time.Sleep(time.Second)
		later.want(s, "LOCK that came later, at the redlockd that released", "held", time.Since(later.began)-time.Second)
		earlier.want(s, "LOCK that came earlier, at another", "under way", 0)
	})
}

// All masters forget the fences, and the clock of who gave the last one was further ahead than clock_skew_max.
func TestAssumeClocksOfFences(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, other := s.open(briefly), s.open(briefly)
		p.ahead(time.Hour)
		last := p.fenced("r")
		p.kill()
		s.doAll("FLUSHALL")
		s.until("found", func() bool { return other.states() == "qqq" })
		other.allUp()
		if got := other.fenced("r"); got >= last {
			s.Errorf("got the fence %d, not below %d: guarantees.md need not warn of it", got, last)
		}
	})
}

// A lock that is released by force while its holder works on has two holders: nothing but a fence stops the first one.
func TestAssumeForcedHolderHasStopped(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, admin := s.open(), s.open()
		first := p.lock(one("r", time.Minute))
		admin.wantForced("r", first.Token)
		s.wantTwoHolders(first, admin.grantedBeforeTheEnd(first, "r"))
	})
}

// The table of guarantees.md names a test for each assumption, and all of this file. All tests that the page names exist.
func TestAssumptionsInGuarantees(t *testing.T) {
	page, err := os.ReadFile("guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## What is not promised\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| ") {
			rows = append(rows, line)
		}
	}
	if !found || len(rows) < 2 {
		t.Fatal("guarantees.md has no section \"What is not promised\" with a table")
	}
	var there, here, named []string
	for _, pattern := range []string{"*_test.go", "member/*_test.go", "member/*/*_test.go", "../proxy/*_test.go", "../cmd/redlockd/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range regexp.MustCompile(`(?m)^func (Test\w+)\(t `).FindAllStringSubmatch(string(source), -1) {
				there = append(there, test[1])
				if filepath.Base(file) == "assumptions_test.go" && strings.HasPrefix(test[1], "TestAssume") {
					here = append(here, test[1])
				}
			}
		}
	}
	for _, row := range rows[1:] { // the first one is the head
		cells := strings.Split(strings.Trim(row, "| \n"), " | ")
		if len(cells) != 3 {
			t.Errorf("guarantees.md: %q has %d cells, want 3", row, len(cells))
			continue
		}
		tests := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(cells[2], -1)
		if len(tests) == 0 {
			t.Errorf("guarantees.md: no test shows what happens without %q", cells[0])
		}
		for _, test := range tests {
			named = append(named, test[1])
		}
	}
	for _, test := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(page), -1) {
		if !slices.Contains(there, test[1]) {
			t.Errorf("guarantees.md names %s, which does not exist", test[1])
		}
	}
	for _, test := range here {
		if !slices.Contains(named, test) {
			t.Errorf("guarantees.md does not name %s", test)
		}
	}
}
