package memmaster

// ranked is an element of a minHeap: it knows its order and keeps its place, so that it can be moved and removed in
// O(log n) without a search.
type ranked[T any] interface {
	before(T) bool
	heapIndexOf() *int // index in the heap; -1 while it is in none
}

// minHeap keeps its least element at index 0. The zero value is an empty heap.
type minHeap[T ranked[T]] struct{ items []T }

// push takes an element that is in no heap.
func (h *minHeap[T]) push(x T) {
	h.items = append(h.items, x)
	h.up(len(h.items) - 1)
}

// remove takes x out of the heap, wherever it is.
func (h *minHeap[T]) remove(x T) {
	i, last := *x.heapIndexOf(), len(h.items)-1
	h.items[i] = h.items[last]
	h.items[last] = *new(T) // lets go of the reference
	h.items = h.items[:last]
	*x.heapIndexOf() = -1
	if i < last {
		*h.items[i].heapIndexOf() = i
		h.fix(h.items[i])
	}
}

// fix restores the order after x has changed its rank.
func (h *minHeap[T]) fix(x T) {
	i := *x.heapIndexOf()
	h.up(i)
	if *x.heapIndexOf() == i {
		h.down(i)
	}
}

func (h *minHeap[T]) up(i int) {
	x := h.items[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !x.before(h.items[parent]) {
			break
		}
		h.items[i] = h.items[parent]
		*h.items[i].heapIndexOf() = i
		i = parent
	}
	h.items[i] = x
	*x.heapIndexOf() = i
}

func (h *minHeap[T]) down(i int) {
	x := h.items[i]
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.items[right].before(h.items[child]) {
			child = right
		}
		if !h.items[child].before(x) {
			break
		}
		h.items[i] = h.items[child]
		*h.items[i].heapIndexOf() = i
		i = child
	}
	h.items[i] = x
	*x.heapIndexOf() = i
}
