package redlock

import (
	"context"
	"errors"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/member"
	"redlockd/redlock/member/admin"
	"redlockd/redlock/member/coordinator"
	"redlockd/redlock/quorum"
)

// The membership, as programs see it. The coordinator keeps it.

// What the membership is made of, and what a probe, a bootstrap and a founding tell.
type (
	Membership      = member.Membership
	Seat            = member.SeatInfo
	SeatState       = member.SeatState
	Copying         = member.Copying
	MemberChange    = coordinator.Change
	MasterReport    = admin.MasterReport
	Problem         = admin.Problem
	Severity        = admin.Severity
	BootstrapReport = admin.BootstrapReport
	Refounding      = admin.Refounding
	Standing        = quorum.Standing
)

// The states of a seat.
const (
	SeatVoter   = member.Voter
	SeatLearner = member.Learner
	SeatVacant  = member.Vacant
	SeatLeaving = member.Leaving
)

// The severities of a Problem, the gravest first.
const (
	NoVote  = admin.NoVote
	Warning = admin.Warning
	Note    = admin.Note
)

// ErrMembersChanged is returned where another change of the membership was chosen while this one was
// being made.
var ErrMembersChanged = coordinator.ErrMembersChanged

// SplitAddr splits an address as the membership has it: "10.0.0.3:6379" is database 0 there, and
// "10.0.0.3:6379/3" database 3. named is false where the text names no database.
func SplitAddr(text string) (addr string, db int, named bool) { return conn.SplitAddr(text) }

// Membership returns what this client knows of the membership.
func (c *Client) Membership() Membership {
	all, places := c.fleet.coordinator.Membership()
	lanes := c.fleet.view.Load().lanes
	for i, place := range places {
		if place < len(lanes) && lanes[place] != nil {
			status := lanes[place].status()
			all.Seats[i].Reason, all.Seats[i].Reached = status.Reason, status.Connected || status.State == MasterRefused
			all.Seats[i].Votes = status.State == MasterUp
		}
	}
	return all
}

// MaxTTL is the longest TTL that may be asked for: that of the membership, or of the options as long as
// none is known.
func (c *Client) MaxTTL() time.Duration { return c.fleet.view.Load().maxTTL }

// ChangeMembers has the masters choose a record with the change, and returns when they have: a new
// master is a learner by then, and votes when it was given what the others remember, or after the wait,
// which Membership shows. It is safe to repeat, and to break off at any point. With dryRun nothing is
// changed. what says what is changed, or would be; "" where everything is so already.
func (c *Client) ChangeMembers(ctx context.Context, change MemberChange, dryRun bool) (what string, err error) {
	if change.Addr != "" {
		change.Addr = c.opts.members().SeatAddrOf(change.Replace+change.Add, change.Addr)
	}
	if err := checkChange(change, c.opts); err != nil {
		return "", err
	}
	what, err = c.fleet.coordinator.Change(ctx, change, dryRun)
	if errors.Is(err, coordinator.ErrMembersClosed) {
		err = ErrDraining
	}
	return what, err
}

// checkChange says what is wrong with a change by itself.
func checkChange(m MemberChange, o Options) error {
	kinds := 0
	for _, set := range []bool{m.Replace != "", m.Add != "", m.Remove != "", m.SetMaxTTL != 0} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return errors.New("name one change: replace, add, remove, or a new max_ttl")
	}
	if m.Replace != "" || m.Add != "" {
		one := o.members().MasterAt(m.Replace+m.Add, m.Addr)
		if err := validateMasters([]Master{one}); err != nil {
			return err
		}
	}
	if m.SetMaxTTL != 0 {
		o.MaxTTL = m.SetMaxTTL
		if o.MaxHold < o.MaxTTL {
			o.MaxHold = o.MaxTTL // that is no matter of the membership
		}
		if m.SetMaxTTL%time.Millisecond != 0 {
			return errors.New("max_ttl is in whole milliseconds")
		}
		return o.Validate()
	}
	return nil
}

// Refound founds the membership anew with the masters that the options name, in the place of one whose
// majority is lost for good. It changes nothing, and says why, where a quorum of the seats of before
// can be reached, or fewer than a quorum of the masters that are named, where those belong to two
// fleets, or to none. It is safe to repeat, and to break off at any point. With dryRun it only reads.
//
// Use it only if the masters that are given up never answer again with what they remember.
func Refound(ctx context.Context, opts Options, dryRun bool) (*Refounding, error) {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	return admin.Refound(ctx, opts.members(), dryRun)
}

// Bootstrap is BootstrapAndReport of all masters, without the reports.
func Bootstrap(ctx context.Context, opts Options) error {
	_, err := BootstrapAndReport(ctx, opts, false)
	return err
}

// BootstrapAndReport founds the membership of a brand-new set of masters, all of which vote at once.
// Otherwise it would look as if all of them had just forgotten everything, and they would have no vote
// for one wait (Options.FoundingWait). It does so only if all of them can be reached, are different,
// may have a vote, have never voted and hold no key; otherwise it changes nothing, and the error says
// what is in the way. With anyway, it is enough that a majority is so and none of the others is reached
// or fit to vote: the seat of such a one waits for its master. Use it only where no client can still
// hold a lock from before. The reports are in the order of the masters; there are none if the options
// are out of bounds.
//
// Masters that a redlockd has founded by itself, and that wait, count as new, also if it did so while
// some of them were missing: then those are seated, in the place of seats that opts do not name any
// more. Masters that have all forgotten look the same. Where a redlockd runs that knew one of them
// before, the founding is not the first one, and the bootstrap refuses.
func BootstrapAndReport(ctx context.Context, opts Options, anyway bool) ([]BootstrapReport, error) {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	return admin.Bootstrap(ctx, opts.members(), anyway)
}

// ProbeAll probes all masters of the membership at the same time, each within timeout, and compares
// them with each other, with the membership and with o. The masters that o names lead to the
// membership; where they show none, they are the ones to probe. The reports are in the order of the
// seats. Behind them are masters that o names and that are no members.
func ProbeAll(ctx context.Context, o Options, timeout time.Duration) ([]MasterReport, Membership) {
	return admin.ProbeAll(ctx, o.withDefaults().members(), timeout)
}
