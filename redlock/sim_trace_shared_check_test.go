//go:build !race

package redlock

import (
	"fmt"
	"slices"
	"testing"

	"redlockd/redlock/redisproc"
)

// TestSharedTraceModel checks what some seeds with readers have recorded of locks, and traces by hand.
func TestSharedTraceModel(t *testing.T) {
	redisproc.Long(t)
	needTLC(t)
	if inRepeatable(t) {
		return
	}
	var traces []*trace
	for _, seed := range tracedSeeds(tracedProfiles, seedsToTrace(t, 2, 20)) {
		traces = append(traces, traceSeed(t, seed, mild, withReaders).sharedTraces()...)
	}
	for group := range slices.Chunk(traces, 8*len(simResources)) {
		checkAll(t, sharedModel, group)
	}
	joins, announcements := 0, 0
	for _, trace := range traces {
		for _, event := range trace.events {
			switch event[:5] {
			case `<<"J"`:
				joins++
			case `<<"A"`:
				announcements++
			}
		}
	}
	t.Logf("%d traces, %d times readers joined, %d times a writer said that it waits", len(traces), joins, announcements)
	if joins < 20*len(traces) || announcements < len(traces) {
		t.Error("these are too few to prove anything")
	}
}

// sharedModel checks what happened to one key that has readers.
var sharedModel = traceModel{
	modules:   []string{"SharedTrace", "Replay"},
	constants: func(*testing.T) string { return "" },
	byHand:    sharedTracesByHand,
	head:      "slack |-> 6",
}

// sharedTracesByHand are of readers 1 and 2 and of writer 3, on five masters.
var sharedTracesByHand = []handTrace{
	{"two readers", true, slices.Concat(joined3(1000, 1), granted3(1002, 1, 1), joined3(1010, 2, 1), granted3(1012, 2, 1))},
	{"a reader leaves, and the other stays", true, slices.Concat(joined3(1000, 1), joined3(1010, 2, 1), []string{`<<"O",1020000,1,1>>`, sharedHand("R", 1030, 1, "{1}", 0, 0, keyWith(2, 1310))})},
	{"a writer says that it waits", true, slices.Concat(joined3(1000, 1), []string{sharedHand("A", 1020, 1, "{}", 0, 1000, `[w |-> 0, r |-> {<<1,1300>>}, i |-> 2020, e |-> 2020]`)})},
	{"a reader is taken over", true, slices.Concat(joined3(1000, 1), []string{sharedHand("T", 1020, 1, "{2}", 1, 300, keyWith(2, 1320))})},

	{"a reader beside a writer", false, []string{sharedHand("W", 1000, 1, "{3}", 0, 300, keyOfWriter(1300)), sharedHand("J", 1010, 1, "{1}", 0, 300, keyWith(1, 1310))}},
	{"a writer beside a reader", false, slices.Concat(joined3(1000, 1), []string{sharedHand("W", 1010, 1, "{3}", 0, 300, keyOfWriter(1310))})},
	{"a reader that an intent keeps out", false, slices.Concat(joined3(1000, 1), []string{
		sharedHand("A", 1020, 1, "{}", 0, 1000, `[w |-> 0, r |-> {<<1,1300>>}, i |-> 2020, e |-> 2020]`),
		sharedHand("J", 1030, 1, "{2}", 0, 300, `[w |-> 0, r |-> {<<1,1300>>,<<2,1330>>}, i |-> 2020, e |-> 2020]`)})},
	{"a reader that leaves takes all with it", false, slices.Concat(joined3(1000, 1), joined3(1010, 2, 1), []string{`<<"O",1020000,1,1>>`,
		sharedHand("R", 1030, 1, "{1}", 0, 0, `[w |-> 0, r |-> {}, i |-> 0, e |-> 0]`)})},
	{"the key ends with the first reader", false, slices.Concat(joined3(1000, 1)[:1], []string{
		sharedHand("J", 1010, 1, "{2}", 0, 300, `[w |-> 0, r |-> {<<1,1300>>,<<2,1310>>}, i |-> 0, e |-> 1300]`)})},
	{"a reader's end comes nearer", false, slices.Concat(joined3(1000, 1), []string{sharedHand("E", 1010, 1, "{1}", 0, 100, keyWith(1, 1110))})},
	{"who takes the intent away takes a reader away", false, slices.Concat(joined3(1000, 1), []string{sharedHand("I", 1020, 1, "{}", 0, 0, `[w |-> 0, r |-> {}, i |-> 0, e |-> 0]`)})},
	{"a takeover brings the end nearer", false, slices.Concat(joined3(1000, 1), []string{sharedHand("T", 1020, 1, "{2}", 1, 100, keyWith(2, 1120))})},
	{"a takeover leaves the old reader", false, slices.Concat(joined3(1000, 1), []string{
		sharedHand("T", 1020, 1, "{2}", 1, 300, `[w |-> 0, r |-> {<<1,1300>>,<<2,1320>>}, i |-> 0, e |-> 1320]`)})},
	{"an undo of what another attempt counts on", false, slices.Concat(joined3(1000, 1), []string{
		sharedHand("J", 1010, 1, "{1}", 0, 300, keyWith(1, 1310)), sharedHand("U", 1020, 1, "{1}", 0, 0, `[w |-> 0, r |-> {}, i |-> 0, e |-> 0]`)})},
	{"a release of what a reader holds", false, slices.Concat(joined3(1000, 1), granted3(1002, 1, 1), []string{
		sharedHand("R", 1010, 1, "{1}", 0, 0, `[w |-> 0, r |-> {}, i |-> 0, e |-> 0]`)})},
	{"a vote too few", false, slices.Concat(joined3(1000, 1)[:2], []string{`<<"K",1002000,1,1,1,999000,{1,2},3>>`})},
	{"the votes of readers make a writer", false, slices.Concat(joined3(1000, 1), []string{`<<"K",1002000,1,1,0,999000,{1,2,3},3>>`})},
	{"a grant that nobody has decided", false, slices.Concat(joined3(1000, 1), []string{`<<"G",1002000,1,1,1,1280000>>`})},
	{"a lease that is longer than a key", false, slices.Concat(joined3(1000, 1), granted3(1002, 1, 1)[:1], []string{`<<"G",1002000,1,1,1,1299000>>`})},
	{"a key that nobody has written", false, slices.Concat(joined3(1000, 1), []string{sharedHand("X", 1010, 1, "{}", 0, 0, keyWith(2, 1310))})},
}

// sharedHand is what a master executed for proxy 1 at a time in ms, which its clock shows, too.
func sharedHand(kind string, at, master int, tokens string, from, ttl int, after string) string {
	return fmt.Sprintf(`<<"%s",%d,%d,1,%s,%d,%d,%d,1,0,%s>>`, kind, at*1000, master, tokens, from, at, ttl, after)
}

func keyWith(reader, ends int) string {
	return fmt.Sprintf("[w |-> 0, r |-> {<<%d,%d>>}, i |-> 0, e |-> %d]", reader, ends, ends)
}

func keyOfWriter(ends int) string {
	return fmt.Sprintf("[w |-> 3, r |-> {}, i |-> 0, e |-> %d]", ends)
}

// joined3 are the events by which a reader joins on three masters for 300 ms, after another one that has joined 10 ms before.
func joined3(at, token int, after ...int) (events []string) {
	for m := range 3 {
		key := keyWith(token, at+300)
		for _, other := range after {
			key = fmt.Sprintf("[w |-> 0, r |-> {<<%d,%d>>,<<%d,%d>>}, i |-> 0, e |-> %d]", other, at+290, token, at+300, at+300)
		}
		events = append(events, sharedHand("J", at, m+1, fmt.Sprintf("{%d}", token), 0, 300, key))
	}
	return events
}

// granted3 has that decided and its caller told.
func granted3(at, token, reader int) []string {
	return []string{fmt.Sprintf(`<<"K",%d,1,%d,%d,%d,{1,2,3},3>>`, at*1000, token, reader, at*1000-3000), fmt.Sprintf(`<<"G",%d,1,%d,%d,%d>>`, at*1000, token, reader, at*1000+270000)}
}
