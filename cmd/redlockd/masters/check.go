// Package masters has the commands that talk to the masters themselves, and need no server.
//
//	Check     → check.go, library.go   what is wrong with the masters; what a lock library needs
//	Bootstrap → bootstrap.go           admits brand-new masters
//	Members   → members.go, refound.go shows the membership, and changes it
package masters

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/proxy"
	"redlockd/redlock"
)

// A probe makes some thirty round trips and may have to resolve a name, so it may take this many times
// connect_timeout.
const probeTimeoutFactor = 3

var Check = cli.Command{Name: "check", Summary: "probe the masters and explain what is wrong with them", Audience: cli.ForMasters, Run: runCheck,
	Flags: []cli.Flag{
		{Name: "json", Usage: "print the findings as JSON"},
		{Name: libraryFlag, Arg: "name", Words: libraryNames(), Usage: "print which uses of this lock library work, and what others need (laravel, shedlock, …)"},
	},
	Help: `Usage: redlockd check [flags]

Asks all masters at once whether they can vote. It prints what it found, which seats have no vote now, whether a quorum is
available, how many may fail now, what to fix, and whether the next master may be restarted. Of a learner, which
is given what the others remember before it votes, it says how far that is. It reads the same configuration as serve,
and asks the masters of the membership, which these lead to, so it finds what a server would find; it says where the
configuration differs. It lists the policies of the configuration, and which of them the membership's max_ttl cuts short.
It changes nothing on the masters. ROUND TRIP is the shortest and the longest of five within a second: where the longest is
not below master.timeout, the master is slow now and then, and may not vote in time.

With --library it prints which usual uses of a lock library work with these settings, what breaks in the others, and the
lines that config.toml lacks. The max_ttl of the membership counts, if masters are configured and one can be asked for it.

It tries every command that any part of redlockd sends to a master. A right that the user lacks keeps a master from giving
its locks to others, or from being given them, even where it votes.

Exit codes: 0 a lock can be granted now, and no right is lacking, or a library lacks nothing; 1 not so; 2 the command line or
the configuration is wrong.
`}

// libraryFlag has check print what a library needs.
const libraryFlag = "library"

// runCheck probes the masters and explains.
func runCheck(call *cli.Call) error {
	c := call.Settings
	if name, given := call.Given[libraryFlag]; given {
		call.Warn()
		return checkLibrary(call, name)
	}
	if err := call.NeedMasters(); err != nil {
		return err
	}
	reports, membership := probe(c)
	v := verdictOf(reports, c.Engine.MasterTimeout)
	v.compare(membership)
	v.judgePolicies(c.Front.Policies)
	var err error
	if call.On("json") {
		err = cli.PrintJSON(call.Stdout, v)
	} else {
		err = v.print(call.Stdout)
	}
	if err == nil && (!v.Quorum || v.lacks()) {
		err = cli.ExitCode(cli.ExitFailed)
	}
	return err
}

// probe asks all masters, until a signal.
func probe(c *config.Config) ([]redlock.MasterReport, redlock.Membership) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return redlock.ProbeAll(ctx, c.Engine, probeTimeoutFactor*c.Engine.ConnectTimeout)
}

// judgeRoundTrip adds a problem if the round trip to a master is long against master.timeout.
func judgeRoundTrip(r *redlock.MasterReport, timeout time.Duration) {
	problem := redlock.Problem{Fix: "raise master.timeout, or run redlockd nearer to its masters"}
	switch {
	case r.RTT >= timeout:
		problem.Severity = redlock.NoVote
		problem.Reason = fmt.Sprintf("its round trip of %v is not below master.timeout = %s: its votes come too late", cli.InMs(r.RTT), config.FormatDuration(timeout))
	case r.RTTWorst >= timeout:
		problem.Severity = redlock.Warning
		problem.Reason = fmt.Sprintf("a round trip took %v, which is not below master.timeout = %s: now and then its votes come too late", cli.InMs(r.RTTWorst), config.FormatDuration(timeout))
		problem.Fix = "see what stops it now and then (its disk, its memory, SLOWLOG), or " + problem.Fix
	case r.RTT > timeout/4:
		problem.Severity = redlock.Warning
		problem.Reason = fmt.Sprintf("its round trip of %v takes more than a quarter of master.timeout = %s: under load its votes come too late", cli.InMs(r.RTT), config.FormatDuration(timeout))
	default:
		return
	}
	r.Problems = append(r.Problems, problem)
}

// Verdict is what check found, in the shape of its JSON.
type Verdict struct {
	Quorum  bool `json:"quorum"` // enough masters vote: a lock can be granted now
	Restart bool `json:"safe_to_restart_next"`
	Needed  int  `json:"needed"`
	Voting  int  `json:"voting"`   // masters that are reached, and whose votes count now
	CanVote int  `json:"can_vote"` // also those that still have to wait for it
	MayFail int  `json:"may_fail"` // of those that vote, while locks are still granted
	// Membership is left out where none was found.
	Membership *membershipFinding `json:"membership,omitempty"`
	Masters    []masterFinding    `json:"masters"`
	// Policies are those of the configuration.
	Policies []policyFinding `json:"policies,omitempty"`
	standing redlock.Standing
	without  string // which seats do not vote now, and why
	allNew   bool   // all masters are new, so that a bootstrap may admit them
}

// membershipFinding is the membership that the masters show.
type membershipFinding struct {
	Version     int64  `json:"version"`
	Lineage     string `json:"lineage"`
	MaxTTLMs    int64  `json:"max_ttl_ms"`
	CeilingMs   int64  `json:"ceiling_ms"`
	WaitMs      int64  `json:"wait_ms"`
	Seats       int    `json:"seats"`
	Voters      int    `json:"voters"`    // seats that have a vote
	Unreached   int    `json:"unreached"` // of the voters
	Differences string `json:"differences,omitempty"`
	toDo        string // about the differences
}

// masterFinding is the report of one master. Times are in milliseconds, as the names say; what could
// not be read is left out or null.
type masterFinding struct {
	Addr            string           `json:"addr"`
	Votes           bool             `json:"votes"`
	Reachable       bool             `json:"reachable"`
	RTTMs           *float64         `json:"rtt_ms"` // the shortest of five
	RTTWorstMs      *float64         `json:"rtt_worst_ms,omitempty"`
	ClockDiffMs     *float64         `json:"clock_diff_ms"`
	ClockErrMs      *float64         `json:"clock_err_ms"`
	Version         string           `json:"version,omitempty"`
	OS              string           `json:"os,omitempty"`
	RunID           string           `json:"run_id,omitempty"`
	Role            string           `json:"role,omitempty"`
	ClusterNode     bool             `json:"cluster_node"`
	UsedMemoryBytes int64            `json:"used_memory_bytes"`
	MaxMemoryBytes  int64            `json:"maxmemory_bytes"`
	MaxMemoryPolicy string           `json:"maxmemory_policy,omitempty"`
	AOF             bool             `json:"aof"`
	AppendFsync     string           `json:"appendfsync,omitempty"`
	Save            string           `json:"save,omitempty"`
	Seat            string           `json:"seat,omitempty"`
	Member          string           `json:"member,omitempty"`
	Lacks           []string         `json:"lacks,omitempty"` // commands that its ACL does not allow
	Problems        []problemFinding `json:"problems"`
}

type problemFinding struct {
	Severity redlock.Severity `json:"severity"`
	Reason   string           `json:"reason"`
	Fix      string           `json:"fix,omitempty"`
}

// policyFinding is a policy as config.toml writes it, and what is wrong with it.
type policyFinding struct {
	Policy  string          `json:"policy"`
	Problem *problemFinding `json:"problem,omitempty"`
}

// judgePolicies lists the policies. Those that need a longer max_ttl than the membership has get a
// problem: config compares them with the settings alone.
func (v *Verdict) judgePolicies(policies []proxy.Policy) {
	for _, p := range policies {
		f := policyFinding{Policy: config.PolicyText(p)}
		if m := v.Membership; m != nil {
			most := time.Duration(m.MaxTTLMs) * time.Millisecond
			if longest := p.MaxTTL + p.LockDelay; longest > most || p.LockDelay == most {
				f.Problem = &problemFinding{redlock.Warning,
					fmt.Sprintf("its max_ttl and lock_delay are together %s, and the max_ttl of the membership is %s: longer locks are refused",
						config.FormatDuration(longest), config.FormatDuration(most)),
					"shorten them, or raise the other with redlockd members set max_ttl"}
			}
		}
		v.Policies = append(v.Policies, f)
	}
}

// verdictOf judges the reports for a server with this master.timeout.
func verdictOf(reports []redlock.MasterReport, masterTimeout time.Duration) Verdict {
	v := Verdict{allNew: true}
	for _, r := range reports {
		if r.Member != noMember {
			v.standing.Seats++
			v.allNew = v.allNew && r.New
		}
		judgeRoundTrip(&r, masterTimeout)
		f := masterFinding{
			Addr: r.Addr, Votes: r.Votes(), Reachable: r.Reachable,
			Version: r.Version, OS: r.OS, RunID: r.RunID, Role: r.Role, ClusterNode: r.ClusterNode,
			UsedMemoryBytes: r.UsedMemory, MaxMemoryBytes: r.MaxMemory, MaxMemoryPolicy: r.MaxMemoryPolicy,
			AOF: r.AOF, AppendFsync: r.AppendFsync, Save: r.Save, Seat: r.Seat, Member: r.Member, Lacks: r.Lacks,
			Problems: []problemFinding{},
		}
		if r.RTT > 0 {
			f.RTTMs, f.RTTWorstMs, f.ClockDiffMs, f.ClockErrMs = ms(r.RTT), ms(r.RTTWorst), ms(r.ClockDiff), ms(r.ClockErr)
		}
		for _, p := range r.Problems {
			f.Problems = append(f.Problems, problemFinding(p))
		}
		f.Votes = f.Votes && r.Member != noMember && r.Member != "leaving"
		if f.Votes {
			v.CanVote++
			if f.Member == string(redlock.SeatVoter) {
				v.standing.Voting++
			}
		}
		v.Masters = append(v.Masters, f)
	}
	v.Voting, v.Needed, v.MayFail = v.standing.Voting, v.standing.Needed(), v.standing.MayFail()
	v.Quorum, v.Restart = v.standing.Quorum(), v.MayFail > 0
	return v
}

// lacks tells whether the user lacks a right on some master that has a seat.
func (v *Verdict) lacks() bool {
	return slices.ContainsFunc(v.Masters, func(m masterFinding) bool { return m.Member != noMember && len(m.Lacks) > 0 })
}

// noMember is what a report says of a master that the settings name and that has no seat in the
// membership.
const noMember = "none"

// compare has the verdict show the membership.
func (v *Verdict) compare(m redlock.Membership) {
	if v.without = m.WithoutVote(); m.Known {
		v.Membership = &membershipFinding{Version: m.Version, Lineage: m.Lineage, MaxTTLMs: m.MaxTTL.Milliseconds(), CeilingMs: m.Ceiling.Milliseconds(), WaitMs: m.Wait.Milliseconds(),
			Seats: len(m.Seats), Voters: m.Voters(), Unreached: m.Unreached(), Differences: m.Differences, toDo: m.ToDo}
	}
}

// restartSentence tells an operator whether the next master may be restarted: a restarted master has no
// vote until it was given what the others remember, or for about max_ttl.
func (v *Verdict) restartSentence() string {
	switch {
	case v.allNew:
		return "No lock is granted yet: the masters look new. A redlockd that runs admits them after the wait (max_ttl, at least founding_wait, and a bit), " +
			"because masters that have just forgotten locks look the same; if no client can still hold a lock, redlockd bootstrap admits them at once."
	case !v.Quorum:
		return fmt.Sprintf("No lock is granted yet: %d vote, and locks need %d. The others vote after the wait, which begins when a redlockd has found them, and which redlockd members shows; restart none before.",
			v.Voting, v.Needed)
	case v.Restart:
		return fmt.Sprintf("The next master may be restarted: %d vote, and %d without it still are a quorum.", v.Voting, v.Voting-1)
	}
	return fmt.Sprintf("Restart no master now: %d vote, and locks need %d. One that has restarted votes again, if a redlockd runs, when it was given what the others remember, or after the wait: redlockd members shows how far that is.",
		v.Voting, v.Needed)
}

func ms(d time.Duration) *float64 {
	f := float64(d) / float64(time.Millisecond)
	return &f
}

// sentence says whether a quorum is available, how many masters may fail now, and which to fix.
func (v *Verdict) sentence() string {
	var out []string
	for _, m := range v.Masters {
		if !m.Votes && m.Member != noMember && m.Member != "leaving" {
			out = append(out, m.Addr)
		}
	}
	begin, counts, may := "A quorum is available", fmt.Sprintf("%d of %d masters vote, %d are needed", v.Voting, v.standing.Seats, v.Needed), v.MayFail
	if !v.Quorum { // it depends on those that can vote
		later := redlock.Standing{Seats: v.standing.Seats, Voting: v.CanVote}
		begin, counts, may = "Once they are admitted, a quorum is available", fmt.Sprintf("%d of %d masters can vote, %d are needed", v.CanVote, later.Seats, v.Needed), later.MayFail()
		if !later.Quorum() {
			text := fmt.Sprintf("No quorum is available: %s.", counts)
			if len(out) > 0 {
				text += " Fix " + cli.ListOf(out) + "."
			}
			return text
		}
	}
	fix, more := ".", ""
	if len(out) > 0 {
		fix, more = ". Fix "+cli.ListOf(out)+".", " more"
	}
	switch {
	case v.standing.Seats == 1:
		return strings.Replace(begin, "quorum", "quorum of one master", 1) + ": when it fails, no lock is granted, and when it forgets, locks are lost. Name five."
	case may == 0:
		return fmt.Sprintf("%s, but none may fail: %s%s", begin, counts, fix)
	}
	return fmt.Sprintf("%s: %s; %d%s may fail%s", begin, counts, may, more, fix)
}

// print writes the table of the masters, what is wrong with each, and the verdict.
func (v *Verdict) print(w io.Writer) error {
	var b strings.Builder
	rows := [][]string{{"MASTER", "MEMBER", "VOTE", "ROUND TRIP", "SERVER", "ROLE", "CLOCK", "MAXMEMORY-POLICY", "PERSISTENCE"}}
	for _, m := range v.Masters {
		rows = append(rows, m.row())
	}
	cli.WriteTable(&b, rows)
	list := func(title string, problems []problemFinding, leaveOut func(problemFinding) bool) {
		for _, p := range problems {
			if leaveOut(p) {
				continue
			}
			if title != "" {
				fmt.Fprintf(&b, "\n%s\n", title)
				title = ""
			}
			fmt.Fprintf(&b, "  %s: %s\n", p.Severity, p.Reason)
			if p.Fix != "" {
				fmt.Fprintf(&b, "    to fix it: %s\n", p.Fix)
			}
		}
	}
	for _, m := range v.Masters {
		list(m.Addr, m.Problems, v.ofAll)
	}
	list("all masters", v.Masters[0].Problems, func(p problemFinding) bool { return !v.ofAll(p) })
	if m := v.Membership; m != nil {
		fmt.Fprintf(&b, "\nThe membership has version %d, max_ttl %s, a ceiling of %s, and a wait of %s.", m.Version,
			config.FormatDuration(time.Duration(m.MaxTTLMs)*time.Millisecond), config.FormatDuration(time.Duration(m.CeilingMs)*time.Millisecond), config.FormatDuration(time.Duration(m.WaitMs)*time.Millisecond))
		if v.without != "" {
			fmt.Fprintf(&b, " Without a vote now: %s.", v.without)
		}
		if m.Differences != "" {
			fmt.Fprintf(&b, " It counts, and the settings differ: %s. To do: %s.", m.Differences, cmp.Or(m.toDo, "redlockd members shows the lines for config.toml"))
		}
		fmt.Fprintln(&b)
	}
	for i, p := range v.Policies {
		if i == 0 {
			fmt.Fprintln(&b, "\nPolicies of these settings; the first that matches a resource counts:")
		}
		fmt.Fprintf(&b, "  %s\n", p.Policy)
		if p.Problem != nil {
			fmt.Fprintf(&b, "    %s: %s\n    to fix it: %s\n", p.Problem.Severity, p.Problem.Reason, p.Problem.Fix)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", v.sentence())
	if v.Quorum && v.lacks() {
		fmt.Fprintln(&b, "But a right is lacking on a master, which the list above names: give it before it is needed.")
	}
	if v.CanVote >= v.Needed {
		fmt.Fprintln(&b, v.restartSentence())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ofAll tells whether several masters all have the problem. It is then printed once.
func (v *Verdict) ofAll(p problemFinding) bool {
	for _, m := range v.Masters {
		if !slices.Contains(m.Problems, p) {
			return false
		}
	}
	return len(v.Masters) > 1
}

func (m *masterFinding) row() []string {
	vote, rtt, clock, role := "yes", "-", "-", m.Role
	switch {
	case !m.Votes:
		vote = "no"
	case m.Member != "voter":
		vote = "not yet"
	}
	if m.RTTMs != nil {
		rtt = fmt.Sprintf("%.2f-%.2f ms", *m.RTTMs, *m.RTTWorstMs)
		clock = fmt.Sprintf("%+.1f ± %.1f ms", *m.ClockDiffMs, *m.ClockErrMs)
	}
	if m.ClusterNode {
		role += " (cluster)"
	}
	return []string{m.Addr, cmp.Or(m.Member, "-"), vote, rtt, cmp.Or(m.Version, "-"), cmp.Or(role, "-"), clock, cmp.Or(m.MaxMemoryPolicy, "-"), m.persistence()}
}

func (m *masterFinding) persistence() string {
	var kinds []string
	if m.AOF {
		kinds = append(kinds, strings.TrimSpace("aof "+m.AppendFsync))
	}
	if m.Save != "" {
		kinds = append(kinds, "snapshots")
	}
	switch {
	case len(kinds) > 0:
		return strings.Join(kinds, ", ")
	case m.Role == "":
		return "-"
	default:
		return "none"
	}
}
