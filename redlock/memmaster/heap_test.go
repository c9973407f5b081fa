// Goal: minHeap orders, and keeps places right under removal from the middle. Method: random operations against a
// sorted slice.
package memmaster

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMinHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h minHeap[*member]
	var all []*member
	for range 20_000 {
		switch n := len(all); {
		case n == 0 || n < 200 && r.IntN(2) == 0:
			m := &member{score: float64(r.IntN(50)), name: string(rune('a' + r.IntN(26)))}
			h.push(m)
			all = append(all, m)
		case r.IntN(2) == 0:
			i := r.IntN(n)
			h.remove(all[i])
			all = slices.Delete(all, i, i+1)
		default:
			m := all[r.IntN(n)]
			m.score = float64(r.IntN(50))
			h.fix(m)
		}
		if len(h.items) != len(all) {
			t.Fatalf("elements: got %d, want %d", len(h.items), len(all))
		}
		for i, m := range h.items {
			if *m.heapIndexOf() != i {
				t.Fatalf("place of element %d: got %d", i, *m.heapIndexOf())
			}
		}
		for _, m := range all {
			if m.before(h.items[0]) {
				t.Fatalf("least: got %+v, want %+v", h.items[0], m)
			}
		}
	}
}
