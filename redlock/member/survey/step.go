package survey

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
	"redlockd/redlock/member"
)

// A step from a record to the next one is one instance of single-decree Paxos. The acceptors are the
// memories that the record lists; for a founding, those that the founding lists. A memory that has
// accepted a child has no vote until it is told what was chosen, so between the two there is nothing
// but one round trip.
//
// Source: Leslie Lamport, "Paxos Made Simple", section 2.2.

// ErrOutrun is a step that another proposer was ahead of.
var ErrOutrun = errors.New("somebody else changes the membership at the same time")

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
func (s *Masters) Step(ctx context.Context, parent, own *member.Record) (*member.Record, error) {
	acceptors, quorum := own.Among(s.Reports), own.Quorum() //mutant:a-founding-is-chosen-by-one
	if parent != nil {
		acceptors, quorum = s.Acceptors(parent), parent.Quorum() //mutant:a-step-is-chosen-by-strangers
	}
	var ask []*member.Report
	var settled []*member.Record // the children of parent that acceptors have settled on
	ballot := ""
	for _, a := range acceptors {
		if parent != nil && a.IsPast(parent) {
			settled = append(settled, a.Record)
			continue
		}
		ask = append(ask, a)
		ballot = max(ballot, a.State.Ballot)
		if p := a.Fields["p"]; member.IsBallot(p) { //mutant:a-promise-that-is-no-ballot-is-outbid
			ballot = max(ballot, p)
		}
	}
	ballot = member.NewBallot(ballot)
	// A master whose texts cannot be read counts as one that does not answer.
	ready, err := s.askEach(ask, quorum-len(settled), Grace, func(a *member.Report) error {
		if a.Unreadable != nil && parent != nil { //mutant:a-record-that-cannot-be-read-takes-part
			return fmt.Errorf("%s: %w", TextOfTheRecord, a.Unreadable)
		}
		reply, err := runOnMembers(ctx, a.Conn, lua.Prepare, a.State.Settled(), ballot)
		if err != nil || len(reply) != 4 || replyText(reply[1]) == "" {
			return err
		}
		if a.Accepted, err = member.RecordOf(replyText(reply[3]), replyText(reply[2])); err != nil {
			return fmt.Errorf("the field a of its %s, a change that it has accepted, cannot be read: %w", lua.MembersKey, err)
		}
		a.AcceptedBallot = replyText(reply[1])
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	child := own
	if parent != nil {
		child = member.ChildToPropose(parent, ready, settled, own)
		// Who has settled on something else has promised nothing.
		settled = slices.DeleteFunc(settled, func(r *member.Record) bool { return r.Digest != child.Digest }) //mutant:who-knows-another-child-accepts-this
		if have := len(ready) + len(settled); have < quorum {
			return nil, fmt.Errorf("prepare: %d of %d masters agreed, %d are needed", have, len(acceptors), quorum)
		}
	} else if child = member.FoundingToPropose(ready, own); child != own { //mutant:a-founding-of-others-is-chosen-by-strangers
		ready, quorum = child.Among(ready), max(quorum, child.Quorum()) //mutant:a-founding-of-others-needs-fewer
	}
	_, err = s.askEach(ready, quorum-len(settled), 0, func(a *member.Report) error { //mutant:a-minority-chooses
		_, err := runOnMembers(ctx, a.Conn, lua.Accept, a.State.Settled(), ballot, child.Digest, child.Text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	return child, nil
}

// askEach asks all masters at once, and returns those that agreed: when all have answered, or a quorum
// has agreed and grace is over. An error says why they are fewer.
func (s *Masters) askEach(masters []*member.Report, quorum int, grace time.Duration, ask func(f *member.Report) error) (agreed []*member.Report, err error) {
	type answer struct {
		f   *member.Report
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
			outrun = outrun || errors.Is(a.err, ErrOutrun)
			problems = append(problems, fmt.Sprintf("%s: %v", a.f.Master.Addr, conn.Shorten(a.err)))
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
		return nil, ErrOutrun
	}
	slices.Sort(problems)
	return nil, fmt.Errorf("%d of %d masters agreed, %d are needed: %s", len(agreed), len(masters), quorum, strings.Join(problems, "; "))
}

// Teach tells the masters of the record, which is known to be chosen. Who cannot be told learns it
// later.
func (s *Masters) Teach(ctx context.Context, masters []*member.Report, r *member.Record) {
	s.askEach(masters, len(masters), 0, func(f *member.Report) error {
		_, err := runOnMembers(ctx, f.Conn, lua.Learn, f.State.Memory, r.Generation, r.Lineage, r.Version, r.ShownBy(f.State.Memory), r.Text)
		f.Taught = err == nil
		return err
	})
}

// TeachUntaught tells the masters that r lists and that show an older record, and returns how many of
// them know it now. From then on they count as masters that show it. Nothing else may be asked of them
// meanwhile.
func (s *Masters) TeachUntaught(ctx context.Context, r *member.Record) (taught int) {
	list := s.Untaught(r)
	s.Teach(ctx, list, r)
	for _, f := range list {
		if f.Taught {
			f.State, f.Record, f.Child = member.State{Memory: f.State.Memory, Record: r.ID()}, r, nil
			taught++
		}
	}
	return taught
}

// TextOfTheRecord is what cannot be read where Report.Unreadable is set.
const TextOfTheRecord = "the field r of its " + lua.MembersKey + ", the text of the membership, cannot be read"

// RaiseFloor has a master refuse fences up to the floor, and gives it notes of followers, by their
// fields: what a voter must know.
func RaiseFloor(ctx context.Context, f *member.Report, floor int64, notes map[string]string) error {
	args := []any{f.State.String(), floor}
	for field, note := range notes {
		args = append(args, field, note)
	}
	raised, err := f.Conn.Redis.Eval(ctx, lua.AdmitFloor.Text, []string{lua.MembersKey, lua.FloorKey}, args...).Int()
	switch {
	case err == nil && raised == fence.Ahead:
		return ErrFloorAhead
	case err == nil && raised == 0:
		return ErrOutrun
	}
	return err
}

// ErrFloorAhead is a floor that a master does not take, because it is too far ahead of its clock.
var ErrFloorAhead = errors.New("the floor of fences is too far ahead of its clock")

// runOnMembers runs one of the scripts on the membership. ErrOutrun: the master shows something else by
// now.
func runOnMembers(ctx context.Context, conn *conn.Conn, s lua.Script, args ...any) ([]any, error) {
	reply, err := conn.Redis.Eval(ctx, s.Text, []string{lua.MembersKey}, args...).Slice()
	if err != nil {
		return nil, err
	}
	if n, ok := reply[0].(int64); !ok || n != 1 {
		return nil, ErrOutrun
	}
	return reply, nil
}

func replyText(reply any) string {
	s, _ := reply.(string)
	return s
}
