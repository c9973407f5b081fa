package redlock

import (
	"context"
	"sync"
	"testing"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/member/coordinator"
)

// Goal: no TTL is told of which no time is sure. Method: what one master of one says, by how much of the key is left there.
func TestTTLOfAStateIsSureOrEnding(t *testing.T) {
	d := clock.Drift{Factor: 0.01, StepMax: 10 * time.Millisecond}
	for _, tt := range []struct{ left, elapsed, ttl, ending time.Duration }{
		{left: 60 * time.Second, ttl: 59388 * ms},
		{left: 60 * time.Second, elapsed: 5 * ms, ttl: 59383 * ms},
		{left: padded(time.Minute), ttl: time.Minute}, // no more than was asked for
		{left: 619 * ms, ttl: 600 * ms},               // the TTL of 60 s is over: what remains is padding, and most of it is sure
		{left: 14 * ms, ttl: 1 * ms},
		{left: 13 * ms, ttl: 1 * ms, ending: 14 * ms},
		{left: 12 * ms, ttl: 1 * ms, ending: 13 * ms},
		{left: 100 * ms, elapsed: 95 * ms, ttl: 1 * ms, ending: 101 * ms},
		{left: 3 * ms, elapsed: 50 * ms, ttl: 1 * ms, ending: 4 * ms},
		{left: -1 * ms, ttl: -1},
	} {
		a := &answer{keys: []answer{{kind: "string", value: "v", found: true, ttl: tt.left}}}
		s, is := mergeStates([]*answer{a}, 0, 1, 0, tt.elapsed, d)
		if is != mergeDone || !s.Found || s.TTL != tt.ttl || s.Ending != tt.ending {
			t.Errorf("%v left, %v elapsed: got TTL %v ending %v, want %v ending %v", tt.left, tt.elapsed, s.TTL, s.Ending, tt.ttl, tt.ending)
		}
	}
}

// A key may end between the two commands of a script that tell its type and its TTL: it is gone, as the latter says.
func TestKeyThatEndsWhileItIsRead(t *testing.T) {
	for pttl, want := range map[int64]bool{-2: false, -1: true, 0: true, 5: true} {
		a := answer{kind: "string", value: "v"}
		if a.lives(conn.Reply{Kind: ':', N: pttl}); a.found != want || a.ttl != time.Duration(pttl)*ms {
			t.Errorf("a string with a PTTL of %d: got %+v, want it found: %v", pttl, a, want)
		}
	}
}

// Moving the end of a key gives it some milliseconds more than the longest TTL has. Nobody counts on these, and who gives a lock the end that was
// read must not be refused. A lock of a max_ttl that was lowered since is told in full.
func TestNoTTLBeyondTheLongest(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		longest := p.MaxTTL()
		p.commit(setNX("r", "v", longest)).want(s, "SET NX", "held", 0)
		p.commit(compareAndExpire("r", "v", longest)).want(s, "EXPIRE, which moves the end", "held", 0)
		for range 2 {
			read := p.states1("r").States[0]
			if got := read.TTL + read.Spread; read.Value != "v" || got > longest || got < longest-10*ms {
				s.Errorf("got %+v, want v with %v and nothing beyond", read, longest)
			}
			p.commit(compareAndExpire("r", "v", read.TTL+read.Spread)).want(s, "EXPIRE with what was read", "held", 0)
		}
		s.doAll("PEXPIRE", "r", (longest + time.Minute).Milliseconds())
		if read := p.states1("r").States[0]; read.TTL < longest+50*time.Second {
			s.Errorf("of a library with a longer TTL: got %+v, want its TTL", read)
		}

		p.commit(setNX("longer", "v", longest)).want(s, "SET NX", "held", 0)
		began := time.Now()
		p.change(coordinator.Change{SetMaxTTL: longest / 2})
		time.Sleep(time.Until(began.Add(longest/2 + 300*ms))) // the key lives for as long as its padding is more
		if read := p.states1("longer").States[0]; read.TTL <= longest/2 || read.TTL > longest/2+10*ms {
			s.Errorf("of a longer max_ttl: got %+v, want more than %v, and up to 10 ms", read, longest/2)
		}
	})
}

// A TTL that is asked for once more within endMove moves the end beyond it. The client is told no more than it asked for last, where that is
// known; what others have set is told as it is.
func TestNoTTLBeyondWhatWasAskedFor(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		const ttl = 5 * time.Second
		told := func(p *proxy, most time.Duration) {
			t.Helper()
			if st := p.states1("r").States[0]; st.TTL > most || st.TTL < most-ms {
				t.Errorf("got %+v, want a TTL of %v", st, most)
			}
		}
		p.commit(setNX("r", "v", ttl)).want(s, "SET NX", "held", 0)
		told(p, ttl)
		for range 5 {
			p.commit(compareAndExpire("r", "v", ttl)).want(s, "PEXPIRE", "held", 0)
			told(p, ttl)
			time.Sleep(ms)
		}
		told(p, ttl-ms)
		other.commit(compareAndExpire("r", "v", 2*ttl)).want(s, "PEXPIRE elsewhere", "held", 0)
		told(p, 2*ttl)
		other.commit(Change{Resource: "r", Was: WasValue, Value: "v", Do: Expire, TTL: ttl, Delay: ttl}).want(s, "PEXPIRE with a delay", "held", 0)
		told(other, 2*ttl)
	})
}

// A caller who keeps what he has read is told when another client changes it, by each master that holds it; who does not keep it is not.
func TestOnChange(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.allUp()
		var mu sync.Mutex
		told := map[string]int{}
		OnChange(p.Client, func(resource string) {
			mu.Lock()
			defer mu.Unlock()
			told[resource]++
		})
		other.commit(setNX("kept", "v", 20*time.Second)).want(s, "SET NX", "held", 0)
		other.commit(setNX("read", "v", 20*time.Second)).want(s, "SET NX", "held", 0)
		for _, kept := range []bool{true, false} {
			name := map[bool]string{true: "kept", false: "read"}[kept]
			if _, err := p.Client.wait(context.Background(), func(op *Op, to Completer) {
				op.Tracked = kept
				p.StartRead(op, []string{name}, to)
			}); err != nil {
				s.Fatal(err)
			}
			time.Sleep(100 * ms)
			other.commit(compareAndDelete(name, "v")).want(s, "DELEX", "held", 0)
		}
		time.Sleep(100 * ms)
		mu.Lock()
		defer mu.Unlock()
		if told["kept"] != 5 || len(told) != 1 {
			s.Errorf("told of %v, want 5 times of the one that is kept", told)
		}
	})
}
