package redlock

import "time"

// owedMax bounds the releases one master can be owed. Beyond it a key stays until its TTL: nobody is let in too early.
const owedMax = 1 << 20

// owed is what a master that is away has to be told before it gets new work: releases of keys it may hold. Without
// them, a key whose SET was answered by silence stays, and keeps everybody out of that master, until its TTL.
type owed map[debt]time.Time

// debt is one key that may hold one token.
type debt struct{ key, token string }

func (o owed) add(r *round) {
	for _, key := range r.keys {
		d := debt{key, r.token}
		if lapse, known := o[d]; known && lapse.IsZero() {
			continue // what never lapses still does not
		}
		if len(o) < owedMax {
			o[d] = r.lapse
		}
	}
}

// take returns up to n debts, and forgets those that have lapsed. They stay owed until paid is called.
func (o owed) take(n int, now time.Time) []debt {
	var some []debt
	for d, lapse := range o {
		if !lapse.IsZero() && now.After(lapse) {
			delete(o, d)
			continue
		}
		if some = append(some, d); len(some) == n {
			break
		}
	}
	return some
}

func (o owed) paid(some []debt) {
	for _, d := range some {
		delete(o, d)
	}
}
