package redlock

// Goal: what a caller has sent through one client, and got no answer to, changes nothing of what it was told by another one since. Method:
// virtual time; the masters stop reading the commands of one client for a while, and it is given up there.

import (
	"slices"
	"testing"
	"time"

	"redlockd/redlock/memmaster"
)

func TestNothingIsTakenBackLate(t *testing.T) {
	const constant = "one value of a process, for all its locks"
	again := func(s *stage, other *proxy) {
		other.lock(one("r", 10*time.Second).as(constant)).want(s, "LOCK elsewhere", "held", 0)
	}
	lengthened := func(s *stage, other *proxy) {
		other.commit(compareAndExpire("r", constant, 10*time.Second)).want(s, "PEXPIRE elsewhere", "held", 0)
	}
	released := func(s *stage, other *proxy) {
		other.unlock(constant, "r").want(s, "UNLOCK elsewhere", "held", 0)
		again(s, other)
	}
	for _, tt := range []struct {
		name  string
		begin func(p *proxy, op *Op, to Completer)
		then  func(s *stage, other *proxy)
	}{
		{"PEXPIRE", func(p *proxy, op *Op, to Completer) {
			p.StartCommit(op, []Change{compareAndExpire("r", constant, 300*ms)}, to)
		}, lengthened},
		{"UNLOCK", func(p *proxy, op *Op, to Completer) { p.StartUnlock(op, []string{"r"}, constant, to) }, released},
		{"UNLOCK of several", func(p *proxy, op *Op, to Completer) { p.StartUnlock(op, []string{"r", "x"}, constant, to) }, released},
		{"a deletion", func(p *proxy, op *Op, to Completer) {
			p.StartCommit(op, []Change{compareAndDelete("r", constant), compareAndDelete("x", constant)}, to)
		}, released},
	} {
		for _, o := range []memmaster.Options{{}, {IFEQ: true}} {
			onMasters(t, slices.Repeat([]memmaster.Options{o}, 5), func(s *stage) {
				p, other := s.open(), s.open()
				p.lock(one("r", 10*time.Second).as(constant))
				p.lock(one("x", 10*time.Second).as(constant))
				time.Sleep(100 * ms)
				late := 2 * p.opts.MasterTimeout
				p.delay(late, 0, 0, 1, 2)
				c := &call{began: time.Now()}
				tt.begin(p, &c.Op, c)
				if p.finish(c); c.Err == nil {
					s.Errorf("%s without an answer of three: got %+v, want no quorum", tt.name, c.Result)
				}
				tt.then(s, other)
				time.Sleep(late)
				s.wantOn("r", constant, "11111")
				time.Sleep(time.Second)
				s.wantOn("r", constant, "11111")
			})
		}
	}
}

// How far a master's clock is ahead is taken from answers that came soon: others would have it execute what is late.
func TestSlowAnswersSayNothingOfAClock(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		before := p.fleet.view.Load().lanes[0].guard.ahead.Load()
		p.delay(20*ms, 0, 0, 1, 2)
		p.lock(one("r", time.Second)).want(s, "LOCK", "held", 20*ms)
		if after := p.fleet.view.Load().lanes[0].guard.ahead.Load(); after > before {
			s.Errorf("ahead: got %v, want no more than before, %v", time.Duration(after), time.Duration(before))
		}
	})
}
