package main

// The checker of leases: does what clients believed contradict itself?

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// checkLeases finds leases that overlap, more holders of slots than there are slots, and fences that do not grow. slots says how many
// there are of each group; its leases are on "group#i".
func checkLeases(leases []*lease, slots map[string]int) (found []violation) {
	byResource := map[string][]*lease{}
	for _, l := range leases {
		byResource[l.resource] = append(byResource[l.resource], l)
	}
	for _, resource := range sortedKeys(byResource) {
		found = append(found, overlaps(byResource[resource])...)
		found = append(found, fencesBack(byResource[resource])...)
	}
	for _, group := range sortedKeys(slots) {
		found = append(found, slotsExceeded(leases, group, slots[group])...)
	}
	return found
}

// held is a span with the lease that it is of.
type held struct {
	span
	lease *lease
}

// heldInOrder are the spans of leases in the order of their beginnings.
func heldInOrder(leases []*lease) (all []held) {
	for _, l := range leases {
		for _, s := range l.spans {
			all = append(all, held{s, l})
		}
	}
	slices.SortFunc(all, func(a, b held) int { return cmp.Compare(a.from, b.from) })
	return all
}

const twoHolders = "two holders"

// overlaps finds two that believed to hold one resource at once, unless both are readers.
func overlaps(leases []*lease) (found []violation) {
	var open []held
	for _, h := range heldInOrder(leases) {
		open = slices.DeleteFunc(open, func(o held) bool { return o.to <= h.from })
		for _, o := range open {
			if o.lease != h.lease && !(o.lease.shared && h.lease.shared) {
				found = append(found, violation{h.from, h.lease.resource, fmt.Sprintf(twoHolders+": %s until %.3f ms after %s began",
					o.lease, float64(o.to-h.from)/1e6, h.lease)})
			}
		}
		open = append(open, h)
	}
	return found
}

func (l *lease) String() string {
	kind := ""
	if l.shared {
		kind = " shared"
	}
	return fmt.Sprintf("lease %d%s (%s, fence %d)", l.id, kind, l.who, l.fence)
}

// fencesBack finds a fence that is not above those of all grants that were known before it was asked for, and one that two leases have.
func fencesBack(leases []*lease) (found []violation) {
	type given struct {
		grant
		lease *lease
	}
	var byAsked []given
	owner := map[int64]*lease{}
	for _, l := range leases {
		for _, g := range l.grants {
			if g.fence == 0 {
				continue
			}
			if o := owner[g.fence]; o != nil && o != l {
				found = append(found, violation{g.granted, l.resource, fmt.Sprintf("one fence twice: %s and %s", o, l)})
			}
			owner[g.fence] = l
			byAsked = append(byAsked, given{g, l})
		}
	}
	byGranted := slices.Clone(byAsked)
	slices.SortFunc(byAsked, func(a, b given) int { return cmp.Compare(a.asked, b.asked) })
	slices.SortFunc(byGranted, func(a, b given) int { return cmp.Compare(a.granted, b.granted) })
	var highest given
	next := 0
	for _, g := range byAsked {
		for ; next < len(byGranted) && byGranted[next].granted < g.asked; next++ {
			if byGranted[next].fence > highest.fence {
				highest = byGranted[next]
			}
		}
		if highest.fence > g.fence {
			found = append(found, violation{g.granted, g.lease.resource, fmt.Sprintf("a stale fence: %d of %s was granted after %d of %s", g.fence, g.lease, highest.fence, highest.lease)})
		}
	}
	return found
}

// slotsExceeded finds moments with more holders than slots, and slots that are none.
func slotsExceeded(leases []*lease, group string, most int) (found []violation) {
	var of []*lease
	for _, l := range leases {
		name, slot, ok := strings.Cut(l.resource, "#")
		if !ok || name != group {
			continue
		}
		if len(slot) != 1 || slot[0] < '0' || int(slot[0]-'0') >= most {
			found = append(found, violation{l.grants[0].granted, group, fmt.Sprintf("%s is on %s, of %d slots", l, l.resource, most)})
		}
		of = append(of, l)
	}
	var open []held
	for _, h := range heldInOrder(of) {
		open = slices.DeleteFunc(open, func(o held) bool { return o.to <= h.from || o.lease == h.lease })
		open = append(open, h)
		if len(open) > most {
			found = append(found, violation{h.from, group, fmt.Sprintf("%d holders of %d slots, the last is %s", len(open), most, h.lease)})
		}
	}
	return found
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
