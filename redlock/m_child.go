package redlock

import (
	"fmt"
	"strings"

	"redlockd/redlock/conn"
)

// What one step from a record to the next may change.

// checkChild tells what the step from parent to child may not change. Both must be sealed. It does not know how long a wait has run:
// the client that proposes a child which gives a vote, removes a seat or lowers the wait makes sure of that.
func checkChild(parent, child *record) error {
	if err := child.check(); err != nil {
		return fmt.Errorf("version %d of the membership: %w", child.version, err)
	}
	switch {
	case child.generation != parent.generation || child.lineage != parent.lineage:
		return stepError(child, "it is of lineage %d-%s, its parent of %d-%s: only a founding begins a lineage",
			child.generation, child.lineage, parent.generation, parent.lineage)
	case child.version != parent.version+1:
		return stepError(child, "it follows version %d: a step goes to the next version", parent.version)
	case child.parent != parent.digest:
		return stepError(child, "it was made from another version %d: read the membership again, and repeat the change", parent.version)
	}
	if err := checkStepOfTimes(parent, child); err != nil {
		return err
	}
	return checkStepOfSeats(parent, child)
}

func stepError(child *record, format string, args ...any) error {
	return fmt.Errorf("version %d of the membership: %s", child.version, fmt.Sprintf(format, args...))
}

func checkStepOfTimes(parent, child *record) error {
	ttlSince := parent.ttlSince
	switch {
	case child.maxTTL < parent.maxTTL:
		ttlSince = child.version
		if child.wait != parent.wait { //mutant:the-wait-is-lowered-with-max_ttl
			return stepError(child, "max_ttl is lowered from %s to %s together with the wait %s: locks of the longer max_ttl still live, lower the wait when it has passed",
				parent.maxTTL, child.maxTTL, parent.wait)
		}
	case child.maxTTL > parent.maxTTL && child.wait < parent.wait:
		return stepError(child, "max_ttl rises from %s to %s, and the wait is lowered from %s to %s", parent.maxTTL, child.maxTTL, parent.wait, child.wait)
	}
	if child.ttlSince != ttlSince {
		return stepError(child, "it says that max_ttl was last lowered at version %d, and that was version %d", child.ttlSince, ttlSince)
	}
	return nil
}

func checkStepOfSeats(parent, child *record) error {
	if moved := seatsMoved(parent, child); len(moved) > 1 { //mutant:a-step-moves-several-seats
		return stepError(child, "it changes who is at %s: a step changes that of one seat at most", strings.Join(moved, " and at "))
	}
	changed := false // the roster
	for i := range child.seats {
		s := &child.seats[i]
		before := parent.seat(s.number)
		if before == nil {
			changed = true
			switch {
			case s.state != seatLearner && s.state != seatVacant: //mutant:a-seat-is-added-as-voter
				return stepError(child, "%s is added as %s: add it as a learner or vacant, it gets its vote after the wait", s, s.state)
			case s.since != child.version:
				return stepError(child, "%s is added, and its state says since version %d", s, s.since)
			}
			continue
		}
		if err := checkStepOfSeat(child, before, s); err != nil {
			return err
		}
	}
	for i := range parent.seats {
		s := &parent.seats[i]
		if child.seat(s.number) != nil {
			continue
		}
		changed = true
		if s.state != seatLeaving { //mutant:a-seat-is-removed-without-leaving
			return stepError(child, "%s is removed while it is %s: let it leave first, and remove it after the wait", s, s.state)
		}
	}
	roster := parent.roster
	if changed {
		roster++
	}
	listed := 0
	for i := range child.seats {
		if child.seats[i].state.occupied() {
			listed++
		}
	}
	if listed < child.quorum() { //mutant:a-record-that-nobody-can-change
		return stepError(child, "it lists %d memories, and %d are needed to choose the next version: add a master first, or wait until a seat that leaves is removed",
			listed, child.quorum())
	}
	if child.roster != roster {
		return stepError(child, "its roster is %d, and must be %d: it counts the steps that add or remove seats", child.roster, roster)
	}
	return nil
}

// seatsMoved names the seats that the step adds or removes, and those that get another memory or another address. A step that one master
// invents, and that has to be taken for chosen because too few others answer, can name no other masters than the fleet has, but for one.
func seatsMoved(parent, child *record) (names []string) {
	for i := range child.seats {
		s := &child.seats[i]
		if before := parent.seat(s.number); before == nil || before.memory != s.memory || before.addr != s.addr {
			names = append(names, conn.Sanitize(s.name))
		}
	}
	for i := range parent.seats {
		if s := &parent.seats[i]; child.seat(s.number) == nil {
			names = append(names, conn.Sanitize(s.name))
		}
	}
	return names
}

// checkStepOfSeat judges what happens to a seat that stays.
func checkStepOfSeat(child *record, before, s *seat) error {
	if s.name != before.name {
		return stepError(child, "%s gets the name %s: a seat keeps its name, remove it and add another one", before, conn.Sanitize(s.name))
	}
	since := child.version
	switch {
	case s.state == before.state && s.memory == before.memory:
		since = before.since
	case before.state == seatLeaving:
		return stepError(child, "%s is leaving and becomes %s: nothing becomes of it but that it is removed", s, s.state)
	case before.state == seatLearner && s.state == seatVoter && s.memory == before.memory: // promoted, after the wait
		since = before.since
	case s.state == seatVoter: //mutant:reseated-as-voter
		return stepError(child, "%s becomes a voter with the memory %s, and was %s: list a memory as a learner first, it gets its vote after the wait",
			s, conn.Sanitize(s.memory), before.state)
	}
	// What is left: a voter is demoted, a memory is listed as a learner, or the seat becomes vacant or leaving.
	if s.since != since { //mutant:the-timer-of-a-seat-does-not-start
		return stepError(child, "%s is %s since version %d, and must say %d", s, s.state, s.since, since)
	}
	return nil
}
