package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/member"
)

// What is said of one master.

// Severity says what a problem of a master means for its vote.
type Severity string

// The severities, the gravest first.
const (
	NoVote  Severity = "no vote" // it cannot vote until this is fixed
	Warning Severity = "warning" // it votes, and something else suffers
	Note    Severity = "note"    // worth knowing, nothing to fix
)

// Problem is one thing that a probe found.
type Problem struct {
	Severity Severity
	// Reason says what is wrong and why it matters; Fix, when not empty, what to do.
	Reason, Fix string
}

// MasterReport is what a probe learned of one master. Fields that could not be read are zero, and a
// Problem says why.
type MasterReport struct {
	Addr string
	// Reachable: something that speaks Redis's protocol answered, if only with an error.
	Reachable bool

	RTT       time.Duration // shortest of probeSamples round trips
	RTTWorst  time.Duration // longest of them
	ClockDiff time.Duration // the master's clock less this machine's, true within ± ClockErr
	ClockErr  time.Duration // half the round trip in which the clock was read

	Version     string // as conn.ServerVersion has it
	OS          string
	RunID       string // names the process: a restart changes it
	Role        string // "master", "slave"; "sentinel" for a Sentinel
	Replicas    int    // connected to it
	ClusterNode bool
	Loading     bool // it is still reading its data from the disk

	UsedMemory      int64  // bytes
	MaxMemory       int64  // bytes, 0 is no limit
	MaxMemoryPolicy string // what happens at the limit

	AOF         bool
	AppendFsync string // "always", "everysec", "no"; empty when CONFIG GET is not allowed
	Save        string // when snapshots are written, as in redis.conf; empty: never, or CONFIG GET is not allowed

	// Seat is the name of the master's seat in the membership; "": it has none, or no membership was
	// found.
	Seat string
	// Member says what the master is in the membership: "voter", "learner"; "forgotten" where it has lost
	// its memory since, or was never listed; "new" where nothing on it says that it ever was a member;
	// "foreign" where it belongs to another fleet; "behind" where it shows another version of the
	// membership than the one in force; "alone" where it shows a membership that a majority of its masters
	// does not show; "none" where the settings name it and the membership has no seat for it.
	Member string
	// New: nobody can have been granted a lock by it as a member, so a bootstrap may admit it.
	New bool
	// MembersVersion is the version of the membership that it shows.
	MembersVersion int64

	// shown is what a survey reads, too.
	shown member.Report

	// Lacks are the commands that the user may not run there, as ACL rules write them.
	Lacks []string
	// Problems in the order in which they are best fixed.
	Problems []Problem
}

// Votes reports whether nothing was found that keeps the master from voting.
func (r *MasterReport) Votes() bool {
	for _, p := range r.Problems {
		if p.Severity == NoVote {
			return false
		}
	}
	return true
}

func (r *MasterReport) add(s Severity, fix, format string, args ...any) {
	p := Problem{Severity: s, Reason: conn.Printable(fmt.Sprintf(format, args...), conn.ErrorTextMax), Fix: fix}
	if !slices.Contains(r.Problems, p) { // a full memory refuses many commands
		r.Problems = append(r.Problems, p)
	}
}

// unreachable fills in why nothing was learned.
func (r *MasterReport) unreachable(ctx context.Context, err error, timeout time.Duration) {
	refused, _ := errors.AsType[*conn.RefusedError](err)
	switch fix := conn.FixOf(err); {
	case refused != nil:
		r.add(NoVote, "", "%s", refused.Reason)
	case fix != "":
		r.add(NoVote, fix, "%v", err)
	case ctx.Err() != nil || conn.IsTimeout(err): // what broke then, broke because we closed it
		r.add(NoVote, "see whether it hangs", "gives no answer within %v", timeout)
	default:
		r.add(NoVote, "see whether it runs and listens on this address", "cannot be reached: %v", err)
	}
}

// refused records that the master answered a command with an error, and tells whether it is only
// about this command.
func (r *MasterReport) refused(command string, err error) (only bool) {
	text := err.Error()
	reason, fix := conn.CommandRefused(err)
	switch code, _, _ := strings.Cut(text, " "); {
	case conn.IsRefused(err):
		r.add(NoVote, "", "%s", strings.TrimPrefix(text, conn.RefusedPrefix))
	case code == "NOPERM":
		r.Lacks = append(r.Lacks, command)
		r.add(NoVote, permit(command), "its ACL does not allow %s: %s", command, text)
		return true
	case strings.HasPrefix(text, "ERR unknown command"):
		r.add(NoVote, "take the rename-command line out of its redis.conf, or name a Redis instead of what answers there",
			"does not know the command %s", command)
		return true
	case reason != "":
		r.add(NoVote, fix, "%s", reason)
	case code == "LOADING":
		r.add(NoVote, "wait", "is still loading its data from the disk")
	default:
		r.add(NoVote, "see that a Redis answers on this address, and that it takes this command from redis-cli", "refuses %s: %s", command, text)
	}
	return false
}

// broken says what became of a question that was not answered.
func (r *MasterReport) broken(ctx context.Context, err error, o member.Options, what string) {
	if ctx.Err() != nil {
		r.unreachable(ctx, err, o.ConnectTimeout)
		return
	}
	r.add(NoVote, "see its log, and what lies between it and this machine", "%s: %v", what, err)
}

// permit is how to give the user the right to a command.
func permit(command string) string {
	fix := "give the user this permission: redis-cli ACL SETUSER <user> +" + strings.ToLower(strings.ReplaceAll(command, " ", "|"))
	if command == "PUBLISH" || command == "SUBSCRIBE" {
		fix += " allchannels"
	}
	return fix
}
