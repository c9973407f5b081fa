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

// Nobody locks again with a token that was made here: its release is executed however late it comes.
func TestReleaseOfAMadeTokenMayBeLate(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		held := p.lock(one("r", 10*time.Second))
		time.Sleep(100 * ms)
		late := 2 * p.opts.MasterTimeout
		p.delay(late, 0, 0, 1, 2)
		c := p.startUnlock(held.Token, "r")
		time.Sleep(late + ms)
		s.wantSet("r", "00000")
		p.finish(c)
	})
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

// Which rounds a master must not execute late, and until when.
func TestRoundsThatMustBeTimely(t *testing.T) {
	version := versionOf("a", 3, "of a library")
	commits := func(changes ...Change) *round { return &round{commit: &commit{changes: changes}} }
	op := &Op{}
	for _, tt := range []struct {
		what string
		r    *round
		want bool
	}{
		{"a release of a token that a redlockd made", &round{token: madeToken, op: op}, false},
		{"of one that its caller chose", &round{token: "a caller's", op: op}, true},
		{"of one that its caller chose, for a master that was away", &round{token: "a caller's"}, true},
		{"of a version, for its caller", &round{token: version, op: op}, true},
		{"of a version, for a master that was away", &round{token: version}, false},
		{"a key that is set", commits(setNX("r", "a caller's", time.Second)), false},
		{"to a version", commits(setNX("r", version, time.Second)), true},
		{"a key that is removed", commits(compareAndDelete("r", "T")), true},
		{"one of several", commits(setNX("x", "T", time.Second), setNX("y", "T", time.Second), compareAndDelete("r", "T")), true},
		{"a key that is kept for longer", commits(compareAndExpire("r", "T", time.Second)), true},
		{"one that is compared", commits(Change{Resource: "r", Was: WasValue, Value: version}), false},
	} {
		if got := tt.r.mustBeTimely(); got != tt.want {
			t.Errorf("%s must be timely: got %v, want %v", tt.what, got, tt.want)
		}
	}
	b := standing(t, newMemMaster(t))
	r := &round{}
	for _, timely := range []bool{false, true} {
		r.flags.Store(^uint32(flagTimely))
		if timely {
			r.flags.Store(flagTimely)
		}
		if got := r.timely(); got != timely {
			t.Errorf("with the flags %b it is timely: got %v", r.flags.Load(), got)
		}
	}
	l := b.lane
	for _, tt := range []struct {
		what         string
		ahead        time.Duration
		before, want int64
	}{
		{"a clock that nobody has read", 0, 0, 0},
		{"a clock that is an hour ahead", time.Hour, 0, (time.Hour + l.fleet.opts.MasterTimeout*3/4).Milliseconds()},
		{"one that is behind", -time.Hour, 0, (l.fleet.opts.MasterTimeout*3/4 - time.Hour).Milliseconds()},
		{"the second one in a batch", time.Hour, 7, 7},
	} {
		l.guard.ahead.Store(int64(tt.ahead))
		if b.latestAt = tt.before; tt.before == 0 && tt.ahead != 0 {
			tt.want += l.fleet.own.At(time.Now()).Milliseconds()
		}
		if got := b.latestMs(); got < tt.want || got > tt.want+10_000 {
			t.Errorf("%s: got %d, want %d", tt.what, got, tt.want)
		}
		sent := len(b.wire.Out)
		if b.latest(r); string(b.wire.Out[sent:]) == "$1\r\n0\r\n" != (tt.want == 0) {
			t.Errorf("%s: it is sent as %q", tt.what, b.wire.Out[sent:])
		}
	}
	sent := len(b.wire.Out)
	if b.latest(&round{}); string(b.wire.Out[sent:]) != "$1\r\n0\r\n" {
		t.Errorf("what may be late is sent with %q", b.wire.Out[sent:])
	}
}
