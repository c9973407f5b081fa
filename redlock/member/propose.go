package member

import (
	"slices"
	"strings"
)

// ChildToPropose is the child of parent to propose: of those that were accepted, the one of the highest
// ballot that can have been chosen, and that a step may make; else own. ready are those that have
// promised, settled the children that the others have settled on.
//
// A child can have been chosen if those that show it and those that did not answer are a quorum: a
// master that has accepted a child shows it, or one that was proposed because of it. So what one master
// invents is not taken over while the others answer.
func ChildToPropose(parent *Record, ready []*Report, settled []*Record, own *Record) *Record {
	type accepted struct {
		ballot string
		child  *Record
	}
	var all []accepted
	shows := make(map[string]int)
	for _, a := range ready {
		if a.Accepted != nil {
			all = append(all, accepted{a.AcceptedBallot, a.Accepted})
			shows[a.Accepted.Digest]++
		}
	}
	for _, r := range settled {
		all = append(all, accepted{"~", r}) // above the digits of every ballot
		shows[r.Digest]++
	}
	silent := listedBy(parent) - len(ready) - len(settled)
	slices.SortStableFunc(all, func(a, b accepted) int { return strings.Compare(b.ballot, a.ballot) }) //mutant:the-child-of-a-lower-ballot-is-taken
	for _, a := range all {
		if shows[a.child.Digest]+silent >= parent.Quorum() && CheckChild(parent, a.child) == nil { //mutant:a-child-that-cannot-have-been-chosen-is-taken-over
			return a.child //mutant:an-accepted-child-is-ignored
		}
	}
	return own
}

// FoundingToPropose is the founding to propose: the one of the highest ballot that was accepted, if a
// quorum of what it lists is there and it can have been chosen, else own. One whose masters have forgotten
// since can never be chosen, and one that few have accepted may wait for less than is needed by now.
func FoundingToPropose(ready []*Report, own *Record) *Record {
	shows := make(map[string]int)
	for _, a := range ready {
		if a.Accepted != nil {
			shows[a.Accepted.Digest]++
		}
	}
	founding, highest := own, ""
	for _, a := range ready {
		if a.Accepted != nil && shows[a.Accepted.Digest]+listedBy(a.Accepted)-len(a.Accepted.Among(ready)) < a.Accepted.Quorum() { //mutant:a-founding-that-cannot-have-been-chosen-is-taken-over
			continue
		}
		if a.AcceptedBallot <= highest || !a.Accepted.founds() || len(a.Accepted.Among(ready)) < a.Accepted.Quorum() { //mutant:a-founding-of-lost-memories-is-in-the-way //mutant:a-founding-takes-over-a-child
			continue
		}
		highest, founding = a.AcceptedBallot, a.Accepted
	}
	return founding
}
