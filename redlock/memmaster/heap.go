package memmaster

import "container/heap"

// ranked is an element of a minHeap: it knows its order and keeps its place, so that it can be moved
// and removed in O(log n) without a search.
type ranked[T any] interface {
	before(T) bool
	heapIndexOf() *int // index in the heap; -1 while it is in none
}

// minHeap keeps its least element at index 0. The zero value is an empty heap.
type minHeap[T ranked[T]] struct{ items []T }

// push takes an element that is in no heap.
func (h *minHeap[T]) push(x T) { heap.Push(h, x) }

// remove takes x out of the heap, wherever it is.
func (h *minHeap[T]) remove(x T) { heap.Remove(h, *x.heapIndexOf()) }

// fix restores the order after x has changed its rank.
func (h *minHeap[T]) fix(x T) { heap.Fix(h, *x.heapIndexOf()) }

// The methods that container/heap calls.

func (h *minHeap[T]) Len() int           { return len(h.items) }
func (h *minHeap[T]) Less(i, j int) bool { return h.items[i].before(h.items[j]) }

func (h *minHeap[T]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	*h.items[i].heapIndexOf(), *h.items[j].heapIndexOf() = i, j
}

func (h *minHeap[T]) Push(x any) {
	item := x.(T)
	*item.heapIndexOf() = len(h.items)
	h.items = append(h.items, item)
}

func (h *minHeap[T]) Pop() any {
	last := len(h.items) - 1
	item := h.items[last]
	h.items[last] = *new(T) // lets go of the reference
	h.items = h.items[:last]
	*item.heapIndexOf() = -1
	return item
}
