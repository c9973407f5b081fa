package member

import (
	"fmt"
	"strings"

	"redlockd/redlock/conn"
)

// What one step from a record to the next may change.

// CheckChild tells what the step from parent to child may not change. Both must be sealed. It does not know how long a wait has run:
// the client that proposes a child which gives a vote, removes a seat or lowers the wait makes sure of that.
func CheckChild(parent, child *Record) error {
	if err := child.Check(); err != nil {
		return fmt.Errorf("version %d of the membership: %w", child.Version, err)
	}
	switch {
	case child.Generation != parent.Generation || child.Lineage != parent.Lineage:
		return stepError(child, "it is of lineage %d-%s, its parent of %d-%s: only a founding begins a lineage",
			child.Generation, child.Lineage, parent.Generation, parent.Lineage)
	case child.Version != parent.Version+1:
		return stepError(child, "it follows version %d: a step goes to the next version", parent.Version)
	case child.Parent != parent.Digest:
		return stepError(child, "it was made from another version %d: read the membership again, and repeat the change", parent.Version)
	}
	if err := checkStepOfTimes(parent, child); err != nil {
		return err
	}
	return checkStepOfSeats(parent, child)
}

func stepError(child *Record, format string, args ...any) error {
	return fmt.Errorf("version %d of the membership: %s", child.Version, fmt.Sprintf(format, args...))
}

func checkStepOfTimes(parent, child *Record) error {
	ttlSince := parent.TTLSince
	switch {
	case child.MaxTTL < parent.MaxTTL:
		ttlSince = child.Version
		if child.Wait != parent.Wait { //mutant:the-wait-is-lowered-with-max_ttl
			return stepError(child, "max_ttl is lowered from %s to %s together with the wait %s: locks of the longer max_ttl still live, lower the wait when it has passed",
				parent.MaxTTL, child.MaxTTL, parent.Wait)
		}
	case child.MaxTTL > parent.MaxTTL && child.Wait < parent.Wait:
		return stepError(child, "max_ttl rises from %s to %s, and the wait is lowered from %s to %s", parent.MaxTTL, child.MaxTTL, parent.Wait, child.Wait)
	}
	if child.TTLSince != ttlSince {
		return stepError(child, "it says that max_ttl was last lowered at version %d, and that was version %d", child.TTLSince, ttlSince)
	}
	return nil
}

func checkStepOfSeats(parent, child *Record) error {
	if moved := seatsMoved(parent, child); len(moved) > 1 { //mutant:a-step-moves-several-seats
		return stepError(child, "it changes who is at %s: a step changes that of one seat at most", strings.Join(moved, " and at "))
	}
	changed := false // the roster
	for i := range child.Seats {
		s := &child.Seats[i]
		before := parent.Seat(s.Number)
		if before == nil {
			changed = true
			switch {
			case s.State != Learner && s.State != Vacant: //mutant:a-seat-is-added-as-voter
				return stepError(child, "%s is added as %s: add it as a learner or vacant, it gets its vote after the wait", s, s.State)
			case s.Since != child.Version:
				return stepError(child, "%s is added, and its state says since version %d", s, s.Since)
			}
			continue
		}
		if err := checkStepOfSeat(child, before, s); err != nil {
			return err
		}
	}
	for i := range parent.Seats {
		s := &parent.Seats[i]
		if child.Seat(s.Number) != nil {
			continue
		}
		changed = true
		if s.State != Leaving { //mutant:a-seat-is-removed-without-leaving
			return stepError(child, "%s is removed while it is %s: let it leave first, and remove it after the wait", s, s.State)
		}
	}
	roster := parent.Roster
	if changed {
		roster++
	}
	listed := 0
	for i := range child.Seats {
		if child.Seats[i].State.occupied() {
			listed++
		}
	}
	if listed < child.Quorum() { //mutant:a-record-that-nobody-can-change
		return stepError(child, "it lists %d memories, and %d are needed to choose the next version: add a master first, or wait until a seat that leaves is removed",
			listed, child.Quorum())
	}
	if child.Roster != roster {
		return stepError(child, "its roster is %d, and must be %d: it counts the steps that add or remove seats", child.Roster, roster)
	}
	return nil
}

// seatsMoved names the seats that the step adds or removes, and those that get another memory or another address. A step that one master
// invents, and that has to be taken for chosen because too few others answer, can name no other masters than the fleet has, but for one.
func seatsMoved(parent, child *Record) (names []string) {
	for i := range child.Seats {
		s := &child.Seats[i]
		if before := parent.Seat(s.Number); before == nil || before.Memory != s.Memory || before.Addr != s.Addr {
			names = append(names, conn.Sanitize(s.Name))
		}
	}
	for i := range parent.Seats {
		if s := &parent.Seats[i]; child.Seat(s.Number) == nil {
			names = append(names, conn.Sanitize(s.Name))
		}
	}
	return names
}

// checkStepOfSeat judges what happens to a seat that stays.
func checkStepOfSeat(child *Record, before, s *Seat) error {
	if s.Name != before.Name {
		return stepError(child, "%s gets the name %s: a seat keeps its name, remove it and add another one", before, conn.Sanitize(s.Name))
	}
	since := child.Version
	switch {
	case s.State == before.State && s.Memory == before.Memory:
		since = before.Since
	case before.State == Leaving:
		return stepError(child, "%s is leaving and becomes %s: nothing becomes of it but that it is removed", s, s.State)
	case before.State == Learner && s.State == Voter && s.Memory == before.Memory: // promoted, after the wait
		since = before.Since
	case s.State == Voter: //mutant:reseated-as-voter
		return stepError(child, "%s becomes a voter with the memory %s, and was %s: list a memory as a learner first, it gets its vote after the wait",
			s, conn.Sanitize(s.Memory), before.State)
	}
	// What is left: a voter is demoted, a memory is listed as a learner, or the seat becomes vacant or leaving.
	if s.Since != since { //mutant:the-timer-of-a-seat-does-not-start
		return stepError(child, "%s is %s since version %d, and must say %d", s, s.State, s.Since, since)
	}
	return nil
}
