package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/fence"
	"redlockd/redlock/lua"
)

// A step from a record to the next one is one instance of single-decree Paxos. The acceptors are the
// memories that the record lists; for a founding, those that the founding lists. A memory that has
// accepted a child has no vote until it is told what was chosen, so between the two there is nothing
// but one round trip.
//
// Source: Leslie Lamport, "Paxos Made Simple", section 2.2.

// errOutrun is a step that another proposer was ahead of.
var errOutrun = errors.New("somebody else changes the membership at the same time")

// Step has the acceptors, a quorum of them, choose the record that follows parent, or, where that is
// nil, a founding or the first record of a bootstrap. own is what to propose where none of them has
// accepted another one already. It returns the record that was chosen.
//
// The acceptors are the memories of the survey that parent lists and that stand at it; where parent is
// nil, those that own lists. What the survey says of other masters is of no account.
//
// A step takes over an accepted child of its own kind only. A founding must not take over a child of a
// record: too few of those that could choose it are there. It need not, because it waits until
// everything that the child may have allowed is over. And a child of a record need not take over a
// founding: one that was chosen leaves no quorum for it.
//
// It holds what Paxos asks for: ballots are never used twice (they have a nonce), an acceptor that has
// promised a ballot takes no lower one, and a proposer that finds an accepted child that can have been
// chosen proposes that instead of its own.
//
// An acceptor that has settled on a child already has accepted it, at a ballot above all others: it was
// told that this one is chosen. It promises nothing, because it accepts nothing else.
func (s *Survey) Step(ctx context.Context, parent, own *Record) (*Record, error) {
	acceptors, quorum := own.Among(s.Reports), own.Quorum() //mutant:a-founding-is-chosen-by-one
	if parent != nil {
		acceptors, quorum = s.Acceptors(parent), parent.Quorum() //mutant:a-step-is-chosen-by-strangers
	}
	var ask []*Report
	var settled []*Record // the children of parent that acceptors have settled on
	ballot := ""
	for _, a := range acceptors {
		if parent != nil && a.isPast(parent) {
			settled = append(settled, a.record)
			continue
		}
		ask = append(ask, a)
		ballot = max(ballot, a.State.Ballot)
		if p := a.fields["p"]; isBallot(p) { //mutant:a-promise-that-is-no-ballot-is-outbid
			ballot = max(ballot, p)
		}
	}
	ballot = newBallot(ballot)
	// A master whose texts cannot be read counts as one that does not answer.
	ready, err := s.askEach(ask, quorum-len(settled), surveyGrace, func(a *Report) error {
		if a.unreadable != nil && parent != nil { //mutant:a-record-that-cannot-be-read-takes-part
			return fmt.Errorf("%s: %w", textOfTheRecord, a.unreadable)
		}
		reply, err := runOnMembers(ctx, a.Conn, lua.Prepare, a.State.Settled(), ballot)
		if err != nil || len(reply) != 4 || replyText(reply[1]) == "" {
			return err
		}
		if a.accepted, err = recordOf(replyText(reply[3]), replyText(reply[2])); err != nil {
			return fmt.Errorf("the field a of its %s, a change that it has accepted, cannot be read: %w", lua.MembersKey, err)
		}
		a.acceptedBallot = replyText(reply[1])
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	child := own
	if parent != nil {
		child = childToPropose(parent, ready, settled, own)
		// Who has settled on something else has promised nothing.
		settled = slices.DeleteFunc(settled, func(r *Record) bool { return r.Digest != child.Digest }) //mutant:who-knows-another-child-accepts-this
		if have := len(ready) + len(settled); have < quorum {
			return nil, fmt.Errorf("prepare: %d of %d masters agreed, %d are needed", have, len(acceptors), quorum)
		}
	} else if child = foundingToPropose(ready, own); child != own { //mutant:a-founding-of-others-is-chosen-by-strangers
		ready, quorum = child.Among(ready), max(quorum, child.Quorum()) //mutant:a-founding-of-others-needs-fewer
	}
	_, err = s.askEach(ready, quorum-len(settled), 0, func(a *Report) error { //mutant:a-minority-chooses
		_, err := runOnMembers(ctx, a.Conn, lua.Accept, a.State.Settled(), ballot, child.Digest, child.Text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	return child, nil
}

// childToPropose is the child of parent to propose: of those that were accepted, the one of the highest
// ballot that can have been chosen, and that a step may make; else own. ready are those that have
// promised, settled the children that the others have settled on.
//
// A child can have been chosen if those that show it and those that did not answer are a quorum: a
// master that has accepted a child shows it, or one that was proposed because of it. So what one master
// invents is not taken over while the others answer.
func childToPropose(parent *Record, ready []*Report, settled []*Record, own *Record) *Record {
	type accepted struct {
		ballot string
		child  *Record
	}
	var all []accepted
	shows := make(map[string]int)
	for _, a := range ready {
		if a.accepted != nil {
			all = append(all, accepted{a.acceptedBallot, a.accepted})
			shows[a.accepted.Digest]++
		}
	}
	for _, r := range settled {
		all = append(all, accepted{"~", r}) // above the digits of every ballot
		shows[r.Digest]++
	}
	silent := -len(ready) - len(settled)
	for s := range parent.seats() {
		if s.State.occupied() {
			silent++
		}
	}
	slices.SortStableFunc(all, func(a, b accepted) int { return strings.Compare(b.ballot, a.ballot) }) //mutant:the-child-of-a-lower-ballot-is-taken
	for _, a := range all {
		if shows[a.child.Digest]+silent >= parent.Quorum() && CheckChild(parent, a.child) == nil { //mutant:a-child-that-cannot-have-been-chosen-is-taken-over
			return a.child //mutant:an-accepted-child-is-ignored
		}
	}
	return own
}

// foundingToPropose is the founding to propose: the one of the highest ballot that was accepted, if a
// quorum of what it lists is there, else own. One whose masters have forgotten since can never be
// chosen.
func foundingToPropose(ready []*Report, own *Record) *Record {
	founding, highest := own, ""
	for _, a := range ready {
		if a.acceptedBallot <= highest || !a.accepted.founds() || len(a.accepted.Among(ready)) < a.accepted.Quorum() { //mutant:a-founding-of-lost-memories-is-in-the-way //mutant:a-founding-takes-over-a-child
			continue
		}
		highest, founding = a.acceptedBallot, a.accepted
	}
	return founding
}

// askEach asks all masters at once, and returns those that agreed: when all have answered, or a quorum
// has agreed and grace is over. An error says why they are fewer.
func (s *Survey) askEach(masters []*Report, quorum int, grace time.Duration, ask func(f *Report) error) (agreed []*Report, err error) {
	type answer struct {
		f   *Report
		err error
	}
	answers := make(chan answer, len(masters))
	for _, f := range masters {
		s.asking.Go(func() { answers <- answer{f, conn.RecoverPanic(func() error { return ask(f) })} })
	}
	var problems []string
	var enough <-chan time.Time
	outrun := false
	for range masters {
		var a answer
		select {
		case a = <-answers:
		case <-enough:
			return agreed, nil
		}
		if a.err != nil {
			outrun = outrun || errors.Is(a.err, errOutrun)
			problems = append(problems, fmt.Sprintf("%s: %v", a.f.master.Addr, conn.Shorten(a.err)))
			continue
		}
		if agreed = append(agreed, a.f); len(agreed) >= quorum {
			if grace == 0 {
				return agreed, nil
			}
			if enough == nil {
				enough = time.After(grace)
			}
		}
	}
	switch {
	case len(agreed) >= quorum:
		return agreed, nil
	case outrun:
		return nil, errOutrun
	}
	slices.Sort(problems)
	return nil, fmt.Errorf("%d of %d masters agreed, %d are needed: %s", len(agreed), len(masters), quorum, strings.Join(problems, "; "))
}

// Teach tells the masters of the record, which is known to be chosen. Who cannot be told learns it
// later.
func (s *Survey) Teach(ctx context.Context, masters []*Report, r *Record) {
	s.askEach(masters, len(masters), 0, func(f *Report) error {
		_, err := runOnMembers(ctx, f.Conn, lua.Learn, f.State.Memory, r.Generation, r.Lineage, r.Version, r.ShownBy(f.State.Memory), r.Text)
		f.taught = err == nil
		return err
	})
}

// teachUntaught tells the masters that r lists and that show an older record, and returns how many of
// them know it now. From then on they count as masters that show it. Nothing else may be asked of them
// meanwhile.
func (s *Survey) teachUntaught(ctx context.Context, r *Record) (taught int) {
	list := s.untaught(r)
	s.Teach(ctx, list, r)
	for _, f := range list {
		if f.taught {
			f.State, f.record, f.child = State{Memory: f.State.Memory, Record: r.ID()}, r, nil
			taught++
		}
	}
	return taught
}

// textOfTheRecord is what cannot be read where Report.unreadable is set.
const textOfTheRecord = "the field r of its " + lua.MembersKey + ", the text of the membership, cannot be read"

// raiseFloor has a master refuse fences up to the floor.
func (f *Report) raiseFloor(ctx context.Context, floor int64) error {
	raised, err := f.Conn.Redis.Eval(ctx, lua.AdmitFloor.Text, []string{lua.MembersKey, lua.FloorKey}, f.State.String(), floor).Int()
	switch {
	case err == nil && raised == fence.Ahead:
		return errFloorAhead
	case err == nil && raised == 0:
		return errOutrun
	}
	return err
}

// errFloorAhead is a floor that a master does not take, because it is too far ahead of its clock.
var errFloorAhead = errors.New("the floor of fences is too far ahead of its clock")

// runOnMembers runs one of the scripts on the membership. errOutrun: the master shows something else by
// now.
func runOnMembers(ctx context.Context, conn *conn.Conn, s lua.Script, args ...any) ([]any, error) {
	reply, err := conn.Redis.Eval(ctx, s.Text, []string{lua.MembersKey}, args...).Slice()
	if err != nil {
		return nil, err
	}
	if n, ok := reply[0].(int64); !ok || n != 1 {
		return nil, errOutrun
	}
	return reply, nil
}

func replyText(reply any) string {
	s, _ := reply.(string)
	return s
}

// stepTimeout bounds a step, and what belongs to it.
const stepTimeout = 2 * time.Second
