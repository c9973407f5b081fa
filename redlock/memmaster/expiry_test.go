// Goal: a key goes when a command touches it after its end, or bit by bit when any command comes, never
// by itself; and the heap of ends stays in step with the keys. Method: the clock by hand.
package memmaster

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

func newStore(now int64) (s *store, changed *[]string) {
	changed = new([]string)
	s = &store{now: now, changed: func(key string) { *changed = append(*changed, key) }}
	s.reset()
	return s, changed
}

func TestLazyExpiry(t *testing.T) {
	s, changed := newStore(1000)
	s.expireAt(s.setString([]byte("a"), "1"), 1500)
	*changed = nil
	s.now = 1500
	if e := s.lookup([]byte("a")); e.kind == none || s.ttl(e) != 0 {
		t.Errorf("in the millisecond of its end: got %+v, want it there with a TTL of 0", e)
	}
	s.now = 1501
	if keys := s.keys(); len(keys) != 0 {
		t.Errorf("keys after its end: got %q, want none", keys)
	}
	if len(*changed) != 0 {
		t.Errorf("changes before anything touched it: got %q, want none", *changed)
	}
	if e := s.lookup([]byte("a")); e.kind != none {
		t.Errorf("after its end: got %+v, want none", e)
	}
	if len(*changed) != 1 || (*changed)[0] != "a" {
		t.Errorf("changes: got %q, want a", *changed)
	}
}

func TestSweepIsBounded(t *testing.T) {
	s, _ := newStore(1000)
	for i := range 100 {
		s.expireAt(s.setString([]byte(strconv.Itoa(i)), ""), int64(2000+i))
	}
	s.setString([]byte("stays"), "")
	s.now = 2050 // 0 to 49 have expired
	s.sweep(16)
	if got := len(s.entries); got != 101-16 {
		t.Errorf("keys after a sweep: got %d, want %d", got, 101-16)
	}
	for _, gone := range []string{"0", "15"} {
		if s.entries[gone] != nil {
			t.Errorf("key %s is there: the soonest must go first", gone)
		}
	}
	s.sweep(1000)
	if got := len(s.entries); got != 51 {
		t.Errorf("keys after all sweeps: got %d, want 51", got)
	}
}

func TestHeapFollowsKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	s, _ := newStore(1000)
	for range 20_000 {
		s.now += int64(r.IntN(3))
		key := []byte(strconv.Itoa(r.IntN(50)))
		switch e := s.lookup(key); r.IntN(6) {
		case 0:
			s.setString(key, "")
		case 1:
			s.expireAt(s.setString(key, ""), s.now+int64(r.IntN(100)))
		case 2:
			if e.kind != none {
				s.expireAt(e, s.now+int64(r.IntN(100)))
			}
		case 3:
			if e.kind != none {
				s.persist(e)
			}
		case 4:
			if e.kind != none {
				s.remove(e)
			}
		case 5:
			s.sweep(1)
		}
	}
	expire := 0
	for _, e := range s.entries {
		if e.expireAt != 0 {
			expire++
		}
		if (e.expireAt != 0) != (e.dueIndex >= 0) || e.dueIndex >= 0 && s.due.items[e.dueIndex] != e {
			t.Errorf("key %s: expires at %d, place in the heap %d", e.key, e.expireAt, e.dueIndex)
		}
	}
	if got := len(s.due.items); got != expire {
		t.Errorf("heap: got %d keys, want the %d that expire", got, expire)
	}
}
