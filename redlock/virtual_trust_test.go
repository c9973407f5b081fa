package redlock

// Goal: one master, one clock or one wrong name in the settings never speaks for the fleet. Method: the real clients in virtual time. One
// master shows what nobody has chosen, written there from outside; or the settings name a master of another fleet; or a clock is wrong.
// The others are believed, and no lease begins while another one runs.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/member"
)

// forge writes into the membership of one master, as somebody else would.
func (s *stage) forge(master int, forged *member.Record) {
	s.Helper()
	s.do(master, "HSET", lua.MembersKey, "v", forged.ShownBy(s.memory(master)), "r", forged.Text)
}

// One of five masters shows a record that nobody has chosen, by which it is the whole fleet, or the newest one. Clients that run, clients that start
// and clients that were away go by what the others show, and the master starts anew.
func TestOneMasterSpeaksForNobody(t *testing.T) {
	alone := func(r *member.Record) { r.Seats = r.Seats[4:] }
	for _, tt := range []struct {
		name  string
		forge func(r *member.Record)
	}{
		{"the next version, of one seat", func(r *member.Record) { r.Version, r.Parent = r.Version+1, r.Digest; alone(r) }},
		{"a version far ahead, of one seat", func(r *member.Record) { r.Version, r.Parent = 99, r.Digest; alone(r) }},
		{"a version far ahead, of all seats", func(r *member.Record) { r.Version, r.Parent = 99, r.Digest }},
		{"a later founding, of one seat", func(r *member.Record) {
			r.Generation, r.Lineage, r.Version, r.Parent = 9, r.Fleet()+laterLineage[member.FleetLen:], 0, ""
			alone(r)
		}},
		{"another founding of the same time, of one seat", func(r *member.Record) {
			r.Lineage, r.Version, r.Parent = r.Fleet()+laterLineage[member.FleetLen:], 0, ""
			alone(r)
		}},
		{"the next version, with other addresses", func(r *member.Record) {
			r.Version, r.Parent = r.Version+1, r.Digest
			for i := range r.Seats {
				r.Seats[i].Addr = "elsewhere" + fmt.Sprint(i)
			}
		}},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			runs, away := s.open(briefly), s.open(briefly)
			away.cut(0, 1, 2, 3, 4)
			c := s.contest(time.Second)
			s.forge(4, changed(s.membership(4), tt.forge))
			starts := s.start(briefly)
			c.last(200*ms, runs, starts)
			away.heal(0, 1, 2, 3, 4)
			c.last(2*runs.wait(), runs, starts, away)
			for i, p := range []*proxy{runs, starts, away} {
				p.allUp()
				c.outlast()
				time.Sleep(100 * ms) // keys outlive their leases
				c.round(p)
				c.wantGrants(fmt.Sprintf("%s: client %d", tt.name, i), p)
				if got := p.Membership(); len(got.Seats) != 5 || !strings.HasPrefix(got.Lineage, "1-") || got.Version >= 99 || got.Seats[0].Addr != "m1" {
					s.Errorf("%s: client %d: got %+v, want the five seats of before", tt.name, i, got)
				}
			}
		})
	}
}

// One of five masters that the settings name belongs to another fleet. A client that starts joins the fleet of the other four, says that the fifth is no
// member, and grants nothing that they hold.
func TestOneWrongNameOfFive(t *testing.T) {
	for first := range 5 { // where the wrong one stands
		withSpares(t, 5, 3, func(s *stage) {
			s.found(briefly)
			production := s.open(briefly)
			staging := s.start(briefly, func(o *Options) {
				for i := range 3 {
					o.Masters[i].Addr = addrOf(5 + i)
				}
				o.Masters = o.Masters[:3]
			})
			staging.allUp()
			wrong := s.start(briefly, func(o *Options) { o.Masters[first].Addr = addrOf(5) })
			wrong.allUp()
			c := s.contest(time.Second)
			c.last(3*time.Second, production, wrong)
			c.outlast()
			time.Sleep(100 * ms) // keys outlive their leases
			c.round(wrong)
			c.wantGrants("the one with a wrong name", wrong)
			got := wrong.Membership()
			if got.Lineage != production.Membership().Lineage || !strings.Contains(got.Differences, "m6 is no member, the settings name it") {
				s.Errorf("wrong name %d of five: got %+v, want the fleet of the other four, and what differs", first+1, got)
			}
		})
	}
}

// Of five masters that a client knows two belong to another fleet, and no other one answers; of three, one does. That they are silent is no vote for the
// other fleet: a client that runs stays with its own, and one that starts goes by none, says so, and goes on when the others answer.
func TestSilenceLeadsToNoOtherFleet(t *testing.T) {
	withSpares(t, 5, 3, func(s *stage) {
		s.found(briefly)
		runs := s.open(briefly)
		ours := runs.Membership().Lineage
		staging := s.start(briefly, func(o *Options) {
			for i := range 3 {
				o.Masters[i].Addr = addrOf(5 + i)
			}
			o.Masters = o.Masters[:3]
		})
		staging.allUp()
		theirs := changed(s.membership(5), func(r *member.Record) {
			r.Seats = r.Seats[:2]
			for i := range r.Seats {
				r.Seats[i].Addr, r.Seats[i].Memory = addrOf(3+i), s.memory(3+i)
			}
		})
		s.forge(3, theirs)
		s.forge(4, theirs)
		s.freeze(0, 1, 2)
		starts := s.start(briefly, func(o *Options) { o.Masters[1].Addr, o.Masters = addrOf(5), o.Masters[:3] })
		time.Sleep(6 * runs.wait())
		if got := runs.Membership(); got.Lineage != ours || len(got.Seats) != 5 {
			s.Errorf("a client that reaches two seats, whose masters show another fleet: got %+v, want its own", got)
		}
		if got := starts.Membership(); got.Known || !strings.Contains(got.Problem, "without an answer: m1, m3") {
			s.Errorf("a client that starts, and reaches one master of another fleet: got %+v, want no membership, and who is silent", got)
		}
		runs.notHeld("a client that reaches two masters of another fleet")
		starts.notHeld("a client that starts beside one master of another fleet")
		s.thaw(0, 1, 2)
		s.until("both go by the fleet of the others", func() bool {
			return runs.Membership().Settled && starts.Membership().Lineage == ours && runs.Membership().Lineage == ours
		})
	})
}

// The settings name masters of several fleets, and none of these has more than half of them. The client goes by none, and says who belongs where.
func TestSettingsThatNameTwoFleets(t *testing.T) {
	withSpares(t, 3, 4, func(s *stage) {
		s.found(briefly)
		s.open(briefly)
		staging := s.start(briefly, func(o *Options) {
			for i := range 3 {
				o.Masters[i].Addr = addrOf(3 + i)
			}
		})
		staging.allUp()
		for _, named := range [][]int{{0, 3, 6}, {6, 0, 3}} {
			p := s.start(briefly, func(o *Options) {
				for i, master := range named {
					o.Masters[i].Addr = addrOf(master)
				}
			})
			time.Sleep(2 * p.wait())
			p.notHeld("settings that name two fleets")
			got := p.Membership()
			for _, want := range []string{"m1 to fleet ", "(m1, m2, m3)", "m4 to fleet ", "(m4, m5, m6)", "m7 to none"} {
				if got.Known || !strings.Contains(got.Problem, want) {
					s.Errorf("masters %v: got %+v, want no membership and a problem with %q", named, got, want)
				}
			}
		}
	})
}

// The masters of the settings that answer last belong to another fleet than the first ones. Nobody goes by the first answers, also where none of them
// tells of the others' fleet.
func TestFarMastersOfTheSettings(t *testing.T) {
	withSpares(t, 5, 4, func(s *stage) {
		far := func(o *Options) { o.MaxTTL, o.MasterTimeout, o.ConnectTimeout = 10*time.Second, 500*ms, 5*time.Second }
		s.found(far)
		staging := s.start(far, func(o *Options) {
			for i := range 3 {
				o.Masters[i].Addr = addrOf(5 + i)
			}
			o.Masters = o.Masters[:3]
		})
		s.until("the other fleet is founded", func() bool { return staging.Membership().Known })
		p := s.start(far, func(o *Options) {
			for i, master := range []int{5, 6, 0, 1, 2} {
				o.Masters[i].Addr = addrOf(master)
			}
		})
		p.delay(60*ms, 60*ms, 1, 2)
		s.until("it knows its membership", func() bool { return p.Membership().Known })
		if got := p.Membership(); len(got.Seats) != 5 {
			s.Errorf("got %+v, want the fleet of three of the five masters", got)
		}
		undecided := s.start(far, func(o *Options) {
			o.Masters = append(o.Masters, o.Masters[:2]...)
			for i, master := range []int{5, 6, 7, 8, 0, 1, 2} { // 8 belongs to nobody
				o.Masters[i].Addr = addrOf(master)
			}
		})
		undecided.delay(60*ms, 60*ms, 0, 1, 2)
		time.Sleep(2 * time.Second)
		if got := undecided.Membership(); got.Known {
			s.Errorf("with three masters of each fleet: got %+v, want none", got)
		}
	})
}

// A client was away while somebody emptied a majority of its masters and made another fleet of them. It goes by that one only when nobody shows its own
// fleet any more.
func TestMajorityOfAnotherFleet(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly)
		own := p.Membership().Lineage
		p.cut(0, 1, 2, 3, 4)
		other := changed(s.membership(0), func(r *member.Record) {
			r.Lineage, r.Version, r.Parent = laterLineage, 0, ""
			r.Seats = r.Seats[:3]
		})
		for i := range 3 {
			s.forge(i, other)
		}
		p.heal(0, 1, 2, 3, 4)
		time.Sleep(2 * p.wait())
		p.notHeld("with two of its five masters")
		if got := p.Membership(); got.Lineage != own || !strings.Contains(got.Problem, "m1, m2, m3: it belongs to another fleet") {
			s.Errorf("got %+v, want the lineage %s, and who belongs elsewhere", got, own)
		}
		s.do(3, "FLUSHALL")
		s.do(4, "FLUSHALL")
		s.until("it goes by the only fleet that is left", func() bool { return p.Membership().Lineage == other.LineageText() })
	})
}

// One of three masters shows a change that it says it has accepted, while another one has not been told of the record in force yet.
func TestOneMasterInventsAChange(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(briefly)
		before := s.membership(0)
		p.cut(0, 1, 2)
		current := before.Child().Seal()
		invented := changed(current, func(r *member.Record) {
			r.Version, r.Parent = r.Version+1, r.Digest
			r.Seats[1].State, r.Seats[1].Since = member.Learner, r.Version
		})
		s.forge(0, current)
		s.forge(2, current)
		s.do(2, "HSET", lua.MembersKey, "v", current.ShownBy(s.memory(2))+" ? 00000009.0000000000000000 "+invented.Digest, "a", invented.Text)
		p.heal(0, 1, 2)
		s.until("a step has ended it", func() bool { return p.Membership().Version > current.Version && p.Membership().Settled })
		if got := p.Membership(); got.Seats[1].State != member.Voter {
			s.Errorf("got %+v, want that nobody takes m2 its vote", got)
		}
	})
}

// One master shows what nobody has chosen, and again whenever it starts anew. That happens rarely, and the others grant locks meanwhile.
func TestMasterThatGoesOnLying(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly)
		invented, minted := changed(s.membership(4), func(r *member.Record) { r.Version, r.Parent = 99, r.Digest }), 0
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * ms) {
			if v := invented.ShownBy(s.memory(4)); s.do(4, "HGET", lua.MembersKey, "v") != v {
				minted++
				s.forge(4, invented)
			}
		}
		p.lockable("r")
		if minted > 10 {
			s.Errorf("it was told to start anew %d times within 5 s", minted)
		}
	})
}

// While a client asks the masters, another one makes two steps. The master that answers last shows a record that none of the others did: it is
// not told to start anew.
func TestStepsDuringASurvey(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		far := func(o *Options) { o.MaxTTL, o.MasterTimeout, o.ConnectTimeout = 10*time.Second, 500*ms, 5*time.Second }
		var log journal
		p := s.open(far, log.option)
		memory := s.memory(4)
		other := s.proposer()
		p.delay(15*ms, 15*ms, 4)
		for range 2 {
			p.fleet.coordinator.Wake()
			time.Sleep(40 * ms)
			for place := range 2 {
				other.look()
				child := other.demotes(place)
				if chosen, err := other.survey.Step(s.Context(), other.parent, child); err != nil || chosen.Digest != child.Digest {
					s.Fatalf("got %v, %v", chosen, err)
				}
				other.survey.Teach(s.Context(), other.found(), child)
			}
			p.allUp()
		}
		if got := s.memory(4); got != memory {
			s.Errorf("m5 has the memory %s, want the one of before, %s", got, memory)
		}
		if got := log.take("a majority of the masters does not know it"); len(got) > 0 {
			s.Errorf("the log accuses m5, want nothing of steps that were made during one survey:\n%s", got)
		}
	})
}

// What one master says of times to come counts for nothing: that a seat is heard which has restarted.
func TestOneMasterHearsForNobody(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly)
		s.do(3, "HSET", lua.MembersKey, "h:0", "9999999999999")
		s.restart(0)
		began := time.Now()
		s.until("the restarted master is seated", func() bool { return p.states() == "quuuu" && p.Membership().Seats[0].State == member.Learner })
		p.allUp()
		if took := time.Since(began); took > p.wait()+3*time.Second {
			s.Errorf("the restarted master votes after %v, want soon after the wait of %v", took, p.wait())
		}
	})
}

// The clocks of all masters are an hour behind while a redlockd sees new masters, notes when their wait began, and ends. Then they are put right. The next
// one must not take that for an hour that has passed.
func TestStampsOfClocksThatArePutRight(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.founded = true // by nobody
		waits := func(o *Options) { o.MaxTTL, o.FoundingWait = 20*time.Second, 20*time.Second }
		s.stepClocks(-time.Hour, 0, 1, 2, 3, 4)
		first := s.start(waits)
		s.until("the membership is founded", func() bool { return first.Membership().Known })
		founded := time.Now()
		time.Sleep(3 * time.Second)
		first.kill()
		s.stepClocks(time.Hour, 0, 1, 2, 3, 4)
		next := s.start(waits)
		next.lockable("r")
		if took := time.Since(founded); took < 20*time.Second {
			s.Errorf("a lock was granted %v after the founding, want not before 20 s", took)
		}
	})
}

// Nobody lives for as long as a wait, and one clock of five is wrong. It keeps nobody from anything.
func TestShortLivedProxiesBesideAWrongClock(t *testing.T) {
	for _, off := range []time.Duration{5 * time.Second, -5 * time.Second} {
		inVirtualTime(t, 5, func(s *stage) {
			s.founded = true // by nobody
			change := func(o *Options) { o.MaxTTL, o.ClockSkewMax, o.FoundingWait = 10*time.Second, 500*ms, 10*time.Second }
			s.masters[2].StepClock(off)
			for began := time.Now(); time.Since(began) < 30*time.Second; {
				p := s.start(change)
				c := p.lock(one("r", time.Second).waits(2 * time.Second))
				p.Close(s.Context())
				if c.Held {
					return
				}
			}
			s.Errorf("a clock is off by %v: nobody was granted the lock, want somebody to be after one wait", off)
		})
	}
}

// Locks so short that a fleet's wait is shorter than a heartbeat: each master's clock is read often enough all the same, and votes go on.
func TestWaitIsShorterThanAHeartbeat(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.start(func(o *Options) { o.MaxTTL, o.MasterTimeout, o.ClockStepMax = 60*ms, 20*ms, 10*ms })
		p.allUp()
		if whole := p.opts.Heartbeat; p.wait() >= whole {
			s.Fatalf("the wait is %v, want less than a heartbeat (%v)", p.wait(), whole)
		}
		for round := range 200 {
			time.Sleep(70 * ms)
			if got := p.states(); got != "uuuuu" {
				s.Fatalf("at look %d the masters are %q, want all up", round, got)
			}
		}
	})
}
