package member

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/conn"
)

// Silence says nothing of a master: it may hang, or the network may be broken, and it comes back with
// what it remembers. So a founding waits for those that are silent, for as long as it would take itself,
// the wait of the record: what hangs for less costs no more than that. Where so many have forgotten
// that the record can never have a quorum again, there is nobody to wait for.

// HeardAt is when memories, or masters that have none yet, were last heard.
type HeardAt map[string]time.Time

// heardMax bounds a HeardAt, of which only what the record lists is sure to stay: a master could show another memory
// each time it is asked. A memory that is dropped counts as never heard, so it is waited for longer.
const heardMax = 4096

func (h HeardAt) note(memory string, at time.Time) {
	if at.After(h[memory]) {
		h[memory] = at
	}
}

// Listed takes note of the memories that r lists, and before did not: somebody has heard them lately.
func (h HeardAt) Listed(r, before *Record, now time.Time) {
	for s := range r.EachSeat() {
		if s.State.occupied() && (before == nil || before.Lists(s.Memory) == nil) {
			h.note(s.Memory, now) //mutant:who-is-listed-anew-was-silent-before
		}
	}
}

// Shown takes note of the memories that masters show, and of those that others have heard, as the masters
// were told. What own does not list is dropped when it is old, or too much; nil: nothing is listed.
func (h HeardAt) Shown(s *Survey, own *Record) {
	for _, f := range s.Reports {
		if !f.OK() {
			continue
		}
		h.note(f.State.Memory, s.Began)
		if f.Record == nil {
			continue
		}
		for one := range f.Record.EachSeat() {
			if age, ok := f.stampAge(HeardField(one.Number)); ok && one.State.occupied() { //mutant:who-is-heard-by-others-is-silent
				h.note(one.Memory, s.Began.Add(-age))
			}
		}
	}
	for memory, at := range h {
		excess := s.Began.Sub(at) > recordWaitMax || len(h) > heardMax //mutant:a-master-fills-the-memory-of-who-was-heard
		if excess && (own == nil || own.Lists(memory) == nil) {        //mutant:who-is-silent-for-days-was-never-heard
			delete(h, memory)
		}
	}
}

// MayComeBack is for how long the masters that are silent may still come back to be, with those that
// remember it, a quorum of base, and who they are; 0: base is lost. Where first, base is what a first
// founding begins with: it has to name all masters, and it is for how long those may come that were not
// reached. wait is that of the founding.
func (h HeardAt) MayComeBack(s *Survey, base *Record, first bool, wait time.Duration) (left time.Duration, who string) {
	remember := 0
	var silent []string
	var ends []time.Duration
	for one := range base.EachSeat() {
		f := s.At(one.Number)
		switch {
		case !one.State.occupied() && !first: // has no memory //mutant:a-seat-that-leaves-comes-back
		case f.lists(base) && f.standsAt(base):
			remember++ //mutant:who-remembers-is-not-counted
		case f.OK(): // its address shows that the memory is gone //mutant:a-memory-that-is-gone-comes-back
		default:
			who := cmp.Or(one.Memory, one.Name)
			since, ok := h[who]
			if !ok { // it was never heard, so its silence begins now //mutant:who-was-never-heard-is-given-up
				since = s.Began
				h[who] = since
			}
			end := since.Add(wait).Sub(s.Began)
			if end <= 0 {
				continue
			}
			ends = append(ends, end)
			silent = append(silent, fmt.Sprintf("%s (since %s UTC)", conn.Sanitize(one.Name), since.UTC().Format("15:04:05")))
		}
	}
	slices.Sort(ends)
	who = strings.Join(silent, ", ")
	lost := remember + len(ends) - base.Quorum() + 1 // so many of them have to be given up
	if first {                                       //mutant:a-first-list-is-founded-by-a-majority
		lost = len(ends)
	}
	if lost <= 0 {
		return 0, ""
	}
	return ends[min(lost, len(ends))-1], who
}

// SilenceText says whom a founding waits for, and what ends that. How long it is follows.
func SilenceText(base *Record, who string) string {
	if base == nil {
		return "no membership yet, and not all masters that the settings name are there: start " + who +
			"; or correct the list; or, if no lock can be held, admit the others with `redlockd bootstrap --anyway`; else it is founded without them"
	}
	return "too few masters remember the membership, and some are silent that may: " + who +
		". If they are lost for good, `redlockd members refound` ends this at once; unless they come back, the membership is founded anew"
}
