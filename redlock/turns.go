package redlock

// turns is a fair queue of those who have operations queued, shares or flows (admission.go). Each begins
// one operation when its turn has come, and lets as many turns pass as that costs more than a short
// name. So all get as much of the masters, whatever their operations cost: deficit round robin, with
// the deficit paid afterwards.
type turns[T interface{ owed() *int }] []T

// next is whose turn it is. Who is alone pays nothing.
func (t *turns[T]) next() T {
	for len(*t) > 1 && *(*t)[0].owed() > 0 {
		*(*t)[0].owed()--
		t.rotate()
	}
	return (*t)[0]
}

// served ends the turn of the one at the front, who has begun an operation. left: more of it is queued;
// without, it leaves the queue and owes nothing.
func (t *turns[T]) served(cost int, left bool) {
	debt := (*t)[0].owed()
	if !left {
		*debt = 0
		*t = (*t)[1:]
		return
	}
	*debt = cost - 1 //mutant:turns-count-operations
	t.rotate()
}

func (t *turns[T]) rotate() { *t = append((*t)[1:], (*t)[0]) }
