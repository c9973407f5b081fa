package member

import (
	"fmt"
	"strings"

	"redlockd/redlock/conn"
	"redlockd/redlock/quorum"
)

// What one step from a record to the next may change.

// CheckChild tells what the step from parent to child may not change. Both must be sealed. It does not
// know how long a wait has run: the client that proposes a child which gives a vote, removes a seat or
// lowers the wait makes sure of that.
func CheckChild(parent, child *Record) error {
	for _, err := range []error{child.Check(), checkDescent(parent, child), checkStepOfTimes(parent, child), checkStepOfSeats(parent, child)} {
		if err != nil {
			return fmt.Errorf("version %d of the membership: %w", child.Version, err)
		}
	}
	return nil
}

func checkDescent(parent, child *Record) error {
	switch {
	case !child.ID().SameLineage(parent.ID()):
		return fmt.Errorf("it is of lineage %d-%s, its parent of %d-%s: only a founding begins a lineage", child.Generation, child.Lineage, parent.Generation, parent.Lineage)
	case child.Version != parent.Version+1:
		return fmt.Errorf("it follows version %d: a step goes to the next version", parent.Version)
	case child.Parent != parent.Digest:
		return fmt.Errorf("it was made from another version %d: read the membership again, and repeat the change", parent.Version)
	}
	return nil
}

func checkStepOfTimes(parent, child *Record) error {
	ttlSince := parent.TTLSince
	if child.Ceiling < parent.Ceiling || child.Ceiling == parent.Ceiling && child.Wait > parent.Wait {
		ttlSince = child.Version
	}
	switch {
	case child.Ceiling < parent.Ceiling && child.Wait != parent.Wait: //mutant:the-wait-is-lowered-with-max_ttl
		return fmt.Errorf("the ceiling is lowered from %s to %s together with the wait: locks of the longer one still live", parent.Ceiling, child.Ceiling)
	case child.Ceiling > parent.Ceiling && child.Wait < parent.Wait:
		return fmt.Errorf("the ceiling rises from %s to %s, and the wait is lowered from %s to %s", parent.Ceiling, child.Ceiling, parent.Wait, child.Wait)
	case child.TTLSince != ttlSince:
		return fmt.Errorf("it says that the ceiling was last lowered at version %d, and that was version %d", child.TTLSince, ttlSince)
	}
	return nil
}

func checkStepOfSeats(parent, child *Record) error {
	// moved are the seats that the step adds or removes, and those that get another memory or another
	// address. A step that one master invents, and that has to be taken for chosen because too few others
	// answer, can name no other masters than the fleet has, but for one.
	var moved []string
	listed, roster := 0, parent.Roster
	for number := range quorum.MaxMasters {
		before, s := parent.Seat(number), child.Seat(number)
		switch {
		case before == nil && s == nil:
			continue
		case s == nil:
			moved, roster = append(moved, conn.Sanitize(before.Name)), parent.Roster+1
			if before.State != Leaving { //mutant:a-seat-is-removed-without-leaving
				return fmt.Errorf("%s is removed while it is %s: it has to leave first", before, before.State)
			}
			continue
		case before == nil:
			moved, roster = append(moved, conn.Sanitize(s.Name)), parent.Roster+1
			switch {
			case s.State != Learner && s.State != Vacant: //mutant:a-seat-is-added-as-voter
				return fmt.Errorf("%s is added as %s: it gets its vote after the wait", s, s.State)
			case s.Since != child.Version:
				return fmt.Errorf("%s is added, and its state says since version %d", s, s.Since)
			}
		default:
			if before.Memory != s.Memory || before.Addr != s.Addr {
				moved = append(moved, conn.Sanitize(s.Name))
			}
			if err := checkStepOfSeat(child.Version, before, s); err != nil {
				return err
			}
		}
		if s.State.occupied() {
			listed++
		}
	}
	switch {
	case len(moved) > 1: //mutant:a-step-moves-several-seats
		return fmt.Errorf("it changes who is at %s: a step changes that of one seat at most", strings.Join(moved, " and at "))
	case listed < child.Quorum(): //mutant:a-record-that-nobody-can-change
		return fmt.Errorf("it lists %d memories, and %d are needed to choose the next version: add a master first, or wait until a seat that leaves is removed",
			listed, child.Quorum())
	case child.Roster != roster:
		return fmt.Errorf("its roster is %d, and must be %d: it counts the steps that add or remove seats", child.Roster, roster)
	}
	return nil
}

// checkStepOfSeat judges what happens to a seat that stays.
func checkStepOfSeat(version int64, before, s *Seat) error {
	since := version
	switch {
	case s.Name != before.Name:
		return fmt.Errorf("%s gets the name %s: a seat keeps its name", before, conn.Sanitize(s.Name))
	case s.State == before.State && s.Memory == before.Memory:
		since = before.Since
	case before.State == Leaving:
		return fmt.Errorf("%s is leaving and becomes %s: nothing becomes of it but that it is removed", s, s.State)
	case before.State == Learner && s.State == Voter && s.Memory == before.Memory: // promoted, after the wait
		since = before.Since
	case s.State == Voter: //mutant:reseated-as-voter
		return fmt.Errorf("%s becomes a voter with another memory, and was %s: list a memory as a learner first", s, before.State)
	}
	// What is left: a voter is demoted, a memory is listed as a learner, or the seat becomes vacant or
	// leaving.
	if s.Since != since { //mutant:the-timer-of-a-seat-does-not-start
		return fmt.Errorf("%s is %s since version %d, and must say %d", s, s.State, s.Since, since)
	}
	return nil
}
