package proxy

// Goal: those who change one value go on in the order in which they came, and nothing is left behind.
// Method: the type by itself.

import (
	"slices"
	"testing"
)

func TestKeyQueue(t *testing.T) {
	var queue keyQueue
	begun := make(chan int, 4)
	enter := func(i int, key string) bool { return queue.enter(key, func() { begun <- i }) }
	if !enter(0, "a") || enter(1, "a") || enter(2, "a") || !enter(3, "b") {
		t.Fatal("the first of each key goes on, and it alone")
	}
	var order []int
	for range 2 {
		queue.leave("a")
		order = append(order, <-begun)
	}
	if !slices.Equal(order, []int{1, 2}) {
		t.Errorf("got the order %v, want 1 2", order)
	}
	queue.leave("a")
	queue.leave("b")
	if len(queue.waiting) != 0 || len(begun) != 0 {
		t.Errorf("left behind: %v, %d begun", queue.waiting, len(begun))
	}
	if !enter(1, "a") {
		t.Error("a key that nobody changes any more is not free")
	}
}
