package redlock

// A second opinion on the histories of the simulation: are they linearizable, that is, could a single lock that has no network have
// told everybody what they were told? porcupine (github.com/anishathalye/porcupine) looks for an order that could.
//
// The end of a lease has no caller, and no certain time. So every lease that was granted ends by one operation: released
// between the call and the return of an UNLOCK that said 1, and otherwise at any time from the end of its validity on, or
// from the call of an UNLOCK of which nobody knows what came of it. A LOCK that was denied constrains nothing.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

type simStepKind uint8

const (
	stepLock simStepKind = iota
	stepExtend
	stepEnd
)

// simStep is one operation on one resource, as its caller saw it. A lease is a token and how often it was granted anew.
type simStep struct {
	kind     simStepKind
	resource string
	lease    string
	fence    int64 // 0: not asked for
	shared   bool  // a reader's
}

// lockState is the lock of one resource as it should be.
type lockState struct {
	holder  string // a writer
	readers string // in order, each with a space behind it
	fence   int64  // the highest so far
}

// with and without are the state when a reader has come and gone.
func (s lockState) with(reader string) lockState {
	all := append(strings.Fields(s.readers), reader)
	slices.Sort(all)
	s.readers = strings.Join(all, " ") + " "
	return s
}

func (s lockState) without(reader string) lockState {
	s.readers = strings.Replace(s.readers, reader+" ", "", 1)
	return s
}

var lockModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byResource := map[string][]porcupine.Operation{}
		for _, op := range history {
			s := op.Input.(simStep)
			byResource[s.resource] = append(byResource[s.resource], op)
		}
		var parts [][]porcupine.Operation
		for _, r := range sortedKeys(byResource) {
			parts = append(parts, byResource[r])
		}
		return parts
	},
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		now, s := state.(lockState), input.(simStep)
		if s.shared {
			in := slices.Contains(strings.Fields(now.readers), s.lease)
			switch s.kind {
			case stepLock:
				return now.holder == "" && !in, now.with(s.lease)
			case stepExtend:
				return in, now
			}
			return in, now.without(s.lease)
		}
		switch s.kind {
		case stepLock:
			if now.holder != "" || now.readers != "" || s.fence != 0 && s.fence <= now.fence {
				return false, now
			}
			return true, lockState{holder: s.lease, fence: max(s.fence, now.fence)}
		case stepExtend:
			if now.holder != s.lease || s.fence != 0 && s.fence <= now.fence {
				return false, now
			}
			return true, lockState{holder: now.holder, fence: max(s.fence, now.fence)}
		}
		return now.holder == s.lease, lockState{fence: now.fence}
	},
	DescribeOperation: func(input, _ any) string {
		s := input.(simStep)
		return fmt.Sprintf("%s %s %s", [...]string{"LOCK", "EXTEND", "END"}[s.kind], s.resource, s.lease)
	},
}

// simRecord collects the steps of a simulation. The ledger's mutex guards it.
type simRecord struct{ ops []porcupine.Operation }

// add records a step of all resources of a lease. A zero time for the return means never. A lease in which its caller has not believed for a
// moment has no steps: it holds nobody up.
func (h *simRecord) add(w *world, caller int, s simStep, l *ledgerLease, call, ret time.Time) {
	if l.late {
		return
	}
	until := int64(math.MaxInt64)
	if !ret.IsZero() {
		until = int64(ret.Sub(w.began))
	}
	s.lease, s.shared = l.id(), l.shared
	for _, r := range l.resources {
		if s.kind != stepLock && slices.Contains(l.forced, r) {
			continue // its end is recorded, and what the caller still believes does not count
		}
		s.resource = r
		h.ops = append(h.ops, porcupine.Operation{ClientId: caller, Input: s, Call: int64(call.Sub(w.began)), Return: until})
	}
}

// endsSooner has the recorded end of a lease on a resource begin at that time, if it begins later.
func (h *simRecord) endsSooner(w *world, l *ledgerLease, resource string, at time.Time) {
	for i := range h.ops {
		if s := h.ops[i].Input.(simStep); s.kind == stepEnd && s.resource == resource && s.lease == l.id() {
			h.ops[i].Call = min(h.ops[i].Call, int64(at.Sub(w.began)))
		}
	}
}

// believed takes out what the caller of a lease on a resource was told from that time on: a force has ended it, and its redlockd did not know yet.
func (h *simRecord) believed(w *world, l *ledgerLease, resource string, from time.Time) {
	h.ops = slices.DeleteFunc(h.ops, func(op porcupine.Operation) bool {
		s := op.Input.(simStep)
		return s.kind == stepExtend && s.resource == resource && s.lease == l.id() && op.Return >= int64(from.Sub(w.began))
	})
}

// id is the lease in the record.
func (l *ledgerLease) id() string { return fmt.Sprint(cmp.Or(l.name, l.token), "#", l.session) }

// checkHistory records the end of every lease that has not been recorded yet, and asks whether all that could have been.
func (b *ledger) checkHistory() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed {
		return // with many readers the search for an order that is not there has no end
	}
	for _, l := range b.leases {
		b.endLocked(l, l.sent, time.Time{})
	}
	switch porcupine.CheckOperationsTimeout(lockModel, b.record.ops, time.Minute) {
	case porcupine.Illegal:
		b.w.Errorf("the history of the locks is not linearizable: no order explains\n%s", smallestIllegal(b.record.ops))
	case porcupine.Unknown:
		b.w.Errorf("porcupine found neither an order of the %d steps nor that there is none", len(b.record.ops))
	}
}

// smallestIllegal describes the fewest leases of one resource that no order explains.
func smallestIllegal(history []porcupine.Operation) string {
	var text strings.Builder
	for _, part := range lockModel.Partition(history) {
		if porcupine.CheckOperations(lockModel, part) {
			continue
		}
		leases := map[string]bool{}
		for _, op := range part {
			leases[op.Input.(simStep).lease] = true
		}
		for _, lease := range sortedKeys(leases) {
			without := slices.DeleteFunc(slices.Clone(part), func(op porcupine.Operation) bool { return op.Input.(simStep).lease == lease })
			if !porcupine.CheckOperations(lockModel, without) {
				part = without
			}
		}
		for _, op := range part {
			fmt.Fprintf(&text, "%s from %v to %v\n", lockModel.DescribeOperation(op.Input, nil), time.Duration(op.Call), time.Duration(op.Return))
		}
	}
	return text.String()
}

// endLocked records the end of a lease: released between call and ret, or, when these are zero, whenever after its validity.
func (b *ledger) endLocked(l *ledgerLease, call, ret time.Time) {
	if l.ended || l.late {
		return
	}
	l.ended = true
	if call.IsZero() || l.until.Before(call) {
		call, ret = l.until, time.Time{}
	}
	for _, r := range l.resources {
		one, call := *l, call
		one.resources = []string{r}
		for _, f := range b.forces[r] {
			if f.ended.IsZero() && f.began.Before(call) {
				call = f.began // it may have been that
			}
		}
		b.record.add(b.w, l.caller, simStep{kind: stepEnd}, &one, call, ret)
	}
}

// The model itself must tell good histories from bad ones.
func TestLockModel(t *testing.T) {
	op := func(kind simStepKind, lease string, fence, call, ret int64) porcupine.Operation {
		return porcupine.Operation{Input: simStep{kind: kind, resource: "r", lease: lease, fence: fence}, Call: call, Return: ret}
	}
	read := func(kind simStepKind, lease string, call, ret int64) porcupine.Operation {
		return porcupine.Operation{Input: simStep{kind: kind, resource: "r", lease: lease, shared: true}, Call: call, Return: ret}
	}
	for _, tt := range []struct {
		name string
		ops  []porcupine.Operation
		want bool
	}{
		{"one after the other", []porcupine.Operation{op(stepLock, "A", 1, 0, 10), op(stepEnd, "A", 0, 20, 30), op(stepLock, "B", 2, 25, 40), op(stepEnd, "B", 0, 90, 99)}, true},
		{"two at once", []porcupine.Operation{op(stepLock, "A", 0, 0, 10), op(stepEnd, "A", 0, 50, 60), op(stepLock, "B", 0, 20, 40), op(stepEnd, "B", 0, 90, 99)}, false},
		{"fences that go back", []porcupine.Operation{op(stepLock, "A", 5, 0, 10), op(stepEnd, "A", 0, 20, 30), op(stepLock, "B", 4, 35, 40), op(stepEnd, "B", 0, 90, 99)}, false},
		{"extended after another's grant", []porcupine.Operation{op(stepLock, "A", 0, 0, 10), op(stepEnd, "A", 0, 20, 99), op(stepLock, "B", 0, 35, 40), op(stepExtend, "A", 0, 45, 50), op(stepEnd, "B", 0, 60, 99)}, false},
		{"extended in time", []porcupine.Operation{op(stepLock, "A", 0, 0, 10), op(stepExtend, "A", 0, 15, 18), op(stepEnd, "A", 0, 20, 99), op(stepLock, "B", 0, 35, 40), op(stepEnd, "B", 0, 60, 99)}, true},
		{"readers at once", []porcupine.Operation{read(stepLock, "A", 0, 10), read(stepLock, "B", 12, 20), read(stepExtend, "A", 22, 25), read(stepEnd, "A", 30, 40), read(stepEnd, "B", 30, 40), op(stepLock, "C", 0, 32, 99)}, true},
		{"a writer beside a reader", []porcupine.Operation{read(stepLock, "A", 0, 10), op(stepLock, "C", 0, 12, 20), read(stepEnd, "A", 30, 40)}, false},
		{"a reader beside a writer", []porcupine.Operation{op(stepLock, "C", 0, 0, 10), read(stepLock, "A", 12, 20), op(stepEnd, "C", 0, 30, 40)}, false},
		{"a reader extended after a writer's grant", []porcupine.Operation{read(stepLock, "A", 0, 10), read(stepEnd, "A", 20, 99), op(stepLock, "C", 0, 35, 40), read(stepExtend, "A", 45, 50)}, false},
	} {
		if got := porcupine.CheckOperations(lockModel, tt.ops); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
