package proxy

// Goal: those who change one value take turns in the order in which they came, and nothing is left behind. Method: the type by itself.

import (
	"slices"
	"testing"
)

func TestKeyTurns(t *testing.T) {
	var turns keyTurns
	var slots [4]slot
	begun := make(chan int, len(slots))
	take := func(i int, key string) bool { return turns.take(&slots[i], key, func() { begun <- i }) }
	if !take(0, "a") || take(1, "a") || take(2, "a") || !take(3, "b") {
		t.Fatal("the first of each key has the turn, and it alone")
	}
	if !take(0, "a") {
		t.Error("who has the turn has to wait for it")
	}
	var order []int
	for range 2 {
		turns.pass("a")
		i := <-begun
		if order = append(order, i); slots[i].turn != "a" {
			t.Errorf("%d has begun without the turn", i)
		}
	}
	if !slices.Equal(order, []int{1, 2}) {
		t.Errorf("got the order %v, want 1 2", order)
	}
	turns.pass("a")
	turns.pass("b")
	if len(turns.waiting) != 0 || len(begun) != 0 {
		t.Errorf("left behind: %v, %d begun", turns.waiting, len(begun))
	}
	if slots[1].turn = ""; !take(1, "a") {
		t.Error("a key that nobody changes any more is not free")
	}
}
