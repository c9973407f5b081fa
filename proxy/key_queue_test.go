package proxy

// Goal: those who change one value go on in the order in which they came, and nothing is left behind.
// Method: the type by itself.

import (
	"slices"
	"testing"
)

func TestKeyQueue(t *testing.T) {
	var queue keyQueue
	var slots [4]slot
	begun := make(chan int, len(slots))
	enter := func(i int, key string) bool { return queue.enter(&slots[i], key, func() { begun <- i }) }
	if !enter(0, "a") || enter(1, "a") || enter(2, "a") || !enter(3, "b") {
		t.Fatal("the first of each key goes on, and it alone")
	}
	if !enter(0, "a") {
		t.Error("who is first has to wait")
	}
	var order []int
	for range 2 {
		queue.leave("a")
		i := <-begun
		if order = append(order, i); slots[i].queuedKey != "a" {
			t.Errorf("%d has begun without being first", i)
		}
	}
	if !slices.Equal(order, []int{1, 2}) {
		t.Errorf("got the order %v, want 1 2", order)
	}
	queue.leave("a")
	queue.leave("b")
	if len(queue.waiting) != 0 || len(begun) != 0 {
		t.Errorf("left behind: %v, %d begun", queue.waiting, len(begun))
	}
	if slots[1].queuedKey = ""; !enter(1, "a") {
		t.Error("a key that nobody changes any more is not free")
	}
}
