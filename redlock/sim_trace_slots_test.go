//go:build !race

package redlock

// Traces of a semaphore, for testdata/tla/SlotsTrace.tla: the events of all its slots, which traces of locks have one by one (sim_trace_test.go).

import (
	"fmt"
	"slices"
	"testing"
)

// slotsTrace is the trace of the semaphore, in the notation of SlotsTrace.tla. Slots and tokens are numbers, from 1.
func (r *traceRecorder) slotsTrace() *trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &trace{name: fmt.Sprintf("seed %d (%s), the slots of %s", r.w.seed, r.w.profile.name, simSemaphore), head: fmt.Sprintf("slots |-> %d", simSlots)}
	slots, tokens := slotNames(simSemaphore, simSlots), numbering{}
	for _, e := range r.events {
		slot, token := 1+slices.Index(slots, e.key), tokens.of(e.token)
		var values []any
		kind := e.kind
		switch e.kind {
		case traceForget:
			values = []any{e.master}
		case traceVote:
			values = []any{e.master, e.proxy, slot, token, e.clock, e.ends, e.among}
		case traceRelease, traceUndo, traceCleared:
			kind, values = traceRelease, []any{e.master, slot, token}
		case traceCopy:
			values = []any{e.master, slot, token, e.ends}
		case traceDecision:
			values = []any{e.proxy, slot, token, e.start.Microseconds(), "{" + joined(e.by) + "}"}
		case traceGrant:
			values = []any{e.proxy, slot, token, e.until.Microseconds()}
		case traceGiveUp, traceLoss:
			kind, values = traceGiveUp, []any{slot, token}
		case traceAdmit, traceMark:
			continue
		}
		if slot == 0 && e.kind != traceForget {
			continue
		}
		text := fmt.Sprintf(`<<"%s",%d`, kind, e.at.Microseconds())
		for _, value := range values {
			text += fmt.Sprintf(",%v", value)
		}
		t.events = append(t.events, text+">>")
	}
	return t
}

// slotsTraces checks what happened to a semaphore.
var slotsTraces = traceModel{
	modules:   []string{"SlotsTrace", "Replay"},
	constants: func(*testing.T) string { return "" },
	byHand:    slotsTracesByHand,
	head:      "slots |-> 2",
}

// slotsTracesByHand are of token 1 in slot 1, mostly: three masters have set it for proxy 1.
var slotsTracesByHand = []handTrace{
	{"one token after another", true, slices.Concat(slotGranted(1, 1, 1), []string{`<<"O",1100000,1,1>>`, `<<"R",1101000,1,1,1>>`, `<<"R",1101000,2,1,1>>`, `<<"R",1101000,3,1,1>>`},
		[]string{`<<"V",1102000,1,2,1,2,1102,1402,2>>`})},
	{"two tokens in two slots", true, slices.Concat(slotGranted(1, 1, 1), slotGranted(2, 2, 2))},
	{"what was lost is set again, beside another slot", true, slices.Concat(slotGranted(1, 1, 1), []string{`<<"V",1102000,1,2,2,1,1102,1402,0>>`})},
	{"a round that is decided behind the release, and told to nobody", true, slices.Concat(slotGranted(1, 1, 1)[:3], []string{`<<"O",1000500,1,1>>`}, slotGranted(1, 1, 1)[3:4],
		[]string{`<<"R",1001000,1,1,1>>`})},
	{"a round that began before the release, and is told", false, slices.Concat(slotGranted(1, 1, 1)[:3], []string{`<<"O",1000500,1,1>>`}, slotGranted(1, 1, 1)[3:])},
	{"a round that began behind the release", true, slices.Concat([]string{`<<"O",999999,1,1>>`}, slotGranted(1, 1, 1))},
	{"a token gets two slots of a master", false, slices.Concat(slotGranted(1, 1, 1), []string{`<<"V",1102000,1,2,2,1,1102,1402,2>>`})},
	{"a token holds two slots", false, slices.Concat(slotGranted(1, 1, 1), []string{`<<"F",1003000,1>>`, `<<"F",1003000,2>>`, `<<"F",1003000,3>>`}, slotGranted(2, 2, 1))},
	{"two tokens hold a slot", false, slices.Concat(slotGranted(1, 1, 1), []string{`<<"F",1003000,1>>`, `<<"F",1003000,2>>`, `<<"F",1003000,3>>`}, slotGranted(2, 1, 2))},
	{"a slot of another", false, slices.Concat(slotGranted(1, 1, 1), []string{`<<"V",1102000,1,2,1,2,1102,1402,2>>`})},
	{"the votes for another slot", false, slices.Concat(slotGranted(1, 1, 1)[:3], []string{`<<"K",1001000,1,2,1,1000000,{1,2,3}>>`})},
	{"a master that has set nothing", false, slices.Concat(slotGranted(1, 1, 1)[:3], []string{`<<"K",1001000,1,1,1,1000000,{1,2,4}>>`})},
	{"another slot than the decided one", false, slices.Concat(slotGranted(1, 1, 1)[:4], []string{`<<"G",1001000,1,2,1,1286500>>`})},
}

// slotGranted are the events by which a token gets a slot of three masters, through a proxy.
func slotGranted(proxy, slot, token int) (events []string) {
	at := 1000 * (1000 + 10*(proxy-1))
	for m := range 3 {
		events = append(events, fmt.Sprintf(`<<"V",%d,%d,%d,%d,%d,%d,%d,2>>`, at, m+1, proxy, slot, token, at/1000, at/1000+300))
	}
	return append(events, fmt.Sprintf(`<<"K",%d,%d,%d,%d,%d,{1,2,3}>>`, at+1000, proxy, slot, token, at), fmt.Sprintf(`<<"G",%d,%d,%d,%d,%d>>`, at+1000, proxy, slot, token, at+286500))
}
