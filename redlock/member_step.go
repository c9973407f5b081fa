package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A step from a record to the next one is one instance of single-decree Paxos. The acceptors are the memories that the record lists; for a
// founding, those that the founding lists. A memory that has accepted a child has no vote until it is told what was chosen, so between the
// two there is nothing but one round trip.
//
// Source: Leslie Lamport, "Paxos Made Simple", section 2.2.

// errOutrun is a step that another proposer was ahead of.
var errOutrun = errors.New("somebody else changes the membership at the same time")

// step has the acceptors, a quorum of them, choose the record that follows the one that they show, or a founding. own is what to propose where none
// of them has accepted another one already. It returns the record that was chosen.
//
// A step takes over an accepted child of its own kind only. A founding must not take over a child of a record: masters that this does not list
// would accept it. It need not, because it waits until everything that the child may have allowed is over. And a child of a record need not take
// over a founding: one that was chosen leaves no quorum for it.
//
// It holds what Paxos asks for: ballots are never used twice (they have a nonce), an acceptor that has promised a ballot takes no lower one,
// and a proposer that finds an accepted child proposes that instead of its own.
func (s *survey) step(ctx context.Context, acceptors []*found, quorum int, own *record) (*record, error) {
	ballot := ""
	for _, a := range acceptors {
		ballot = max(ballot, a.state.ballot)
		if p := a.fields["p"]; isBallot(p) { //mutant:a-promise-that-is-no-ballot-is-outbid
			ballot = max(ballot, p)
		}
	}
	ballot = newBallot(ballot)
	// A master whose texts cannot be read counts as one that does not answer.
	ready, err := s.askEach(acceptors, quorum, surveyGrace, func(a *found) error {
		if a.unreadable != nil && !own.founds() { //mutant:a-record-that-cannot-be-read-takes-part
			return fmt.Errorf("%s: %w", textOfTheRecord, a.unreadable)
		}
		reply, err := a.conn.members(ctx, scriptPrepare, a.state.settled(), ballot)
		if err != nil || len(reply) != 4 || text(reply[1]) == "" {
			return err
		}
		if a.accepted, err = recordOf(text(reply[3]), text(reply[2])); err != nil {
			return fmt.Errorf("the field a of its %s, a change that it has accepted, cannot be read: %w", membersKey, err)
		}
		a.acceptedBallot = text(reply[1])
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	child, highest := own, ""
	for _, a := range ready {
		if a.acceptedBallot <= highest { //mutant:an-accepted-child-is-ignored
			continue
		}
		accepted := a.accepted
		if accepted.founds() != own.founds() { //mutant:a-founding-takes-over-a-child
			continue
		}
		// A founding whose masters have forgotten since can never be chosen.
		if accepted.founds() && len(accepted.among(ready)) < accepted.quorum() { //mutant:a-founding-of-lost-memories-is-in-the-way
			continue
		}
		highest, child = a.acceptedBallot, accepted //mutant:the-child-of-a-lower-ballot-is-taken
	}
	if child.founds() {
		ready, quorum = child.among(ready), max(quorum, child.quorum())
	}
	_, err = s.askEach(ready, quorum, 0, func(a *found) error { //mutant:a-minority-chooses
		_, err := a.conn.members(ctx, scriptAccept, a.state.settled(), ballot, child.digest, child.text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	return child, nil
}

// askEach asks all masters at once, and returns those that agreed: when all have answered, or a quorum has agreed and grace is over. An
// error says why they are fewer.
func (s *survey) askEach(masters []*found, quorum int, grace time.Duration, ask func(f *found) error) (agreed []*found, err error) {
	type answer struct {
		f   *found
		err error
	}
	answers := make(chan answer, len(masters))
	for _, f := range masters {
		s.asking.Go(func() { answers <- answer{f, survive(func() error { return ask(f) })} })
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
			problems = append(problems, fmt.Sprintf("%s: %v", a.f.master.Addr, concise(a.err)))
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

// teach tells the masters of the record, which is known to be chosen, and returns whether all know it now. Who cannot be told learns it later.
func (s *survey) teach(ctx context.Context, masters []*found, r *record) bool {
	_, err := s.askEach(masters, len(masters), 0, func(f *found) error {
		_, err := f.conn.members(ctx, scriptLearn, f.state.memory, r.generation, r.lineage, r.version, r.shownBy(f.state.memory), r.text)
		return err
	})
	return err == nil
}

// textOfTheRecord is what cannot be read where found.unreadable is set.
const textOfTheRecord = "the field r of its " + membersKey + ", the text of the membership, cannot be read"

// raiseFloor has a master refuse fences up to the floor.
func (f *found) raiseFloor(ctx context.Context, floor int64) error {
	raised, err := f.conn.redis.Eval(ctx, scriptAdmitFloor.text, []string{membersKey, floorKey}, f.state.String(), floor).Int()
	switch {
	case err == nil && raised == fenceAhead:
		return errFloorAhead
	case err == nil && raised == 0:
		return errOutrun
	}
	return err
}

// errFloorAhead is a floor that a master does not take, because it is too far ahead of its clock.
var errFloorAhead = errors.New("the floor of fences is too far ahead of its clock")

// members runs one of the scripts on the membership. errOutrun: the master shows something else by now.
func (l *masterConn) members(ctx context.Context, s script, args ...any) ([]any, error) {
	reply, err := l.redis.Eval(ctx, s.text, []string{membersKey}, args...).Slice()
	if err != nil {
		return nil, err
	}
	if n, ok := reply[0].(int64); !ok || n != 1 {
		return nil, errOutrun
	}
	return reply, nil
}

func text(reply any) string {
	s, _ := reply.(string)
	return s
}

// stepTimeout bounds a step, and what belongs to it.
const stepTimeout = 2 * time.Second
