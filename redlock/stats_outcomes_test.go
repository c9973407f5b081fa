package redlock

import (
	"testing"
	"time"
)

// Only LOCKs that end without a quorum, and nothing else, for some time: that is told, from the arrival of the first until a quorum answers, or
// nobody asks.
func TestOutcomes(t *testing.T) {
	const s = time.Second
	type ended struct {
		quorum      bool // has answered
		arrived, at time.Duration
	}
	for _, tt := range []struct {
		name string
		all  []ended
		now  time.Duration
		want time.Duration
	}{
		{"nothing", nil, 100 * s, 0},
		{"one that is answered at once", []ended{{false, 50 * s, 50 * s}}, 52 * s, 0},
		{"one that has waited", []ended{{false, 50 * s, 60 * s}}, 61 * s, 10 * s},
		{"many", []ended{{false, 50 * s, 50 * s}, {false, 53 * s, 54 * s}, {false, 56 * s, 57 * s}}, 58 * s, 7 * s},
		{"a quorum has answered since", []ended{{false, 50 * s, 57 * s}, {true, 57 * s, 58 * s}}, 58 * s, 0},
		{"a quorum has answered meanwhile", []ended{{true, 54 * s, 55 * s}, {false, 50 * s, 57 * s}}, 58 * s, 2 * s},
		{"after a quorum has answered", []ended{{false, 40 * s, 50 * s}, {true, 50 * s, 51 * s}, {false, 52 * s, 58 * s}}, 59 * s, 6 * s},
		{"30 s ago", []ended{{false, 50 * s, 60 * s}}, 90 * s, 10 * s},
		{"30 s ago, and now", []ended{{false, 50 * s, 60 * s}, {false, 90 * s, 90 * s}}, 90 * s, 40 * s},
		{"long ago", []ended{{false, 50 * s, 60 * s}}, 91 * s, 0},
		{"long ago, and now", []ended{{false, 50 * s, 60 * s}, {false, 100 * s, 100 * s}}, 100 * s, 0},
	} {
		var o outcomes
		for _, e := range tt.all {
			if e.quorum {
				o.ended(nil, e.arrived, e.at)
			} else {
				o.ended(ErrNoQuorum, e.arrived, e.at)
			}
		}
		if got := o.noQuorumFor(tt.now); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What LOCK, SET NX of a library, and a LOCK that waits come to is told. A quorum that denies is one.
func TestNoQuorumForOfLocks(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MasterTimeout = time.Second })
		for range 2 {
			held := p.lock(one("held", time.Minute))
			s.freeze(0, 1, 2)
			began := time.Now()
			for time.Since(began) < 6*time.Second {
				if c := p.lock(one("r", time.Minute)); c.Err == nil {
					s.Fatalf("LOCK without a quorum: got %+v", c.Result)
				}
				if c := p.commit(Change{Resource: "library", Was: WasAbsent, Do: Set, NewValue: "v", TTL: time.Second}); c.Err == nil {
					s.Fatalf("SET NX without a quorum: got %+v", c.Result)
				}
				time.Sleep(100 * ms)
			}
			if got, most := p.Stats().NoQuorumFor, time.Since(began); got < 5*time.Second || got > most {
				s.Errorf("got %v, want 5s to %v", got, most)
			}
			s.thaw(0, 1, 2)
			p.allUp()
			p.lock(one("held", time.Minute)).want(s, "LOCK of a held one", "no", 0)
			if got := p.Stats().NoQuorumFor; got != 0 {
				s.Errorf("after a quorum has denied: got %v, want 0", got)
			}
			p.unlock(held.Token, "held")
		}
		s.freeze(0, 1, 2)
		waiting := p.begin(one("r", time.Minute).waits(8 * time.Second))
		p.finish(waiting)
		if got := p.Stats().NoQuorumFor; got < 8*time.Second {
			s.Errorf("after a LOCK that has waited without a quorum: got %v, want 8s", got)
		}
		s.thaw(0, 1, 2)
		p.allUp()
		p.commit(Change{Resource: "library", Was: WasAbsent, Do: Set, NewValue: "v", TTL: time.Second})
		if got := p.Stats().NoQuorumFor; got != 0 {
			s.Errorf("after a SET NX: got %v, want 0", got)
		}
	})
}
