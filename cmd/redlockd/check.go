package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"redlockd/cmd/redlockd/config"
	"redlockd/redlock"
)

// A probe makes some thirty round trips and may have to resolve a name, so it may take this many times connect_timeout.
const probeTimeoutFactor = 3

const checkHelp = `Usage: redlockd check [flags]

Asks all masters at once whether they can vote. It prints what it found, whether a quorum is available, and what to
fix. It reads the same configuration as serve, so it finds what a server would find. It changes nothing on the masters.

Exit codes: 0 a quorum is available, 1 it is not, 2 the command line or the configuration is wrong.
`

func checkFlags() *flagSet {
	return newFlagSet("check", flagHelp{name: "json", arg: "", usage: "print the findings as JSON"})
}

// check probes the masters and explains.
func check(p process, args []string) int {
	flags := checkFlags()
	c, code := p.configureMasters(flags, args)
	if c == nil {
		return code
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	reports := redlock.ProbeAll(ctx, c.Engine, probeTimeoutFactor*c.Engine.ConnectTimeout)
	v := verdictOf(reports, c.Engine.MasterTimeout)
	var err error
	if flags.on("json") {
		err = v.printJSON(p.stdout)
	} else {
		err = v.print(p.stdout)
	}
	if err != nil {
		return p.failed(err)
	}
	if !v.Quorum {
		return exitFailed
	}
	return exitOK
}

// judgeRoundTrip adds a problem if the round trip to a master is long against master.timeout.
func judgeRoundTrip(r *redlock.MasterReport, timeout time.Duration) {
	problem := redlock.Problem{Fix: "raise master.timeout, or run redlockd nearer to its masters"}
	switch {
	case r.RTT >= timeout:
		problem.Severity = redlock.NoVote
		problem.Reason = fmt.Sprintf("its round trip of %v is not below master.timeout = %s: its votes come too late", inMs(r.RTT), config.FormatDuration(timeout))
	case r.RTT > timeout/4:
		problem.Severity = redlock.Warning
		problem.Reason = fmt.Sprintf("its round trip of %v takes more than a quarter of master.timeout = %s: under load its votes come too late", inMs(r.RTT), config.FormatDuration(timeout))
	default:
		return
	}
	r.Problems = append(r.Problems, problem)
}

// verdict is what check found, in the shape of its JSON.
type verdict struct {
	Quorum  bool            `json:"quorum"` // one is available
	Restart bool            `json:"safe_to_restart_next"`
	Needed  int             `json:"needed"`
	Voting  int             `json:"voting"`
	Masters []masterFinding `json:"masters"`
	allNew  bool            // all masters are new, so that a bootstrap may admit them
}

// masterFinding is the report of one master. Times are in milliseconds, as the names say; what could not be read is left
// out or null.
type masterFinding struct {
	Addr            string           `json:"addr"`
	Votes           bool             `json:"votes"`
	Reachable       bool             `json:"reachable"`
	RTTMs           *float64         `json:"rtt_ms"`
	ClockDiffMs     *float64         `json:"clock_diff_ms"`
	ClockErrMs      *float64         `json:"clock_err_ms"`
	Version         string           `json:"version,omitempty"`
	OS              string           `json:"os,omitempty"`
	RunID           string           `json:"run_id,omitempty"`
	Role            string           `json:"role,omitempty"`
	ClusterNode     bool             `json:"cluster_node"`
	MaxMemoryBytes  int64            `json:"maxmemory_bytes"`
	MaxMemoryPolicy string           `json:"maxmemory_policy,omitempty"`
	AOF             bool             `json:"aof"`
	AppendFsync     string           `json:"appendfsync,omitempty"`
	Save            string           `json:"save,omitempty"`
	Epoch           string           `json:"epoch,omitempty"`
	Problems        []problemFinding `json:"problems"`
}

type problemFinding struct {
	Severity redlock.Severity `json:"severity"`
	Reason   string           `json:"reason"`
	Fix      string           `json:"fix,omitempty"`
}

// verdictOf judges the reports for a server with this master.timeout.
func verdictOf(reports []redlock.MasterReport, masterTimeout time.Duration) verdict {
	v := verdict{Needed: len(reports)/2 + 1, allNew: true}
	for _, r := range reports {
		v.allNew = v.allNew && r.New
		judgeRoundTrip(&r, masterTimeout)
		f := masterFinding{
			Addr: r.Addr, Votes: r.Votes(), Reachable: r.Reachable,
			Version: r.Version, OS: r.OS, RunID: r.RunID, Role: r.Role, ClusterNode: r.ClusterNode,
			MaxMemoryBytes: r.MaxMemory, MaxMemoryPolicy: r.MaxMemoryPolicy,
			AOF: r.AOF, AppendFsync: r.AppendFsync, Save: r.Save, Epoch: r.Epoch,
			Problems: []problemFinding{},
		}
		if r.RTT > 0 {
			f.RTTMs, f.ClockDiffMs, f.ClockErrMs = ms(r.RTT), ms(r.ClockDiff), ms(r.ClockErr)
		}
		for _, p := range r.Problems {
			f.Problems = append(f.Problems, problemFinding(p))
		}
		if f.Votes {
			v.Voting++
		}
		v.Masters = append(v.Masters, f)
	}
	v.Quorum = v.Voting >= v.Needed
	v.Restart = v.admitted() > v.Needed
	return v
}

// admitted counts the masters whose votes count now. A master that can vote may still be in quarantine.
func (v *verdict) admitted() int {
	n := 0
	for _, m := range v.Masters {
		if m.Votes && m.Epoch == "admitted" {
			n++
		}
	}
	return n
}

// restartSentence tells an operator whether the next master may be restarted: a restarted master has no vote for about max_ttl.
func (v *verdict) restartSentence() string {
	switch {
	case v.allNew:
		return "No lock is granted yet: the masters look new. A redlockd that runs admits them after about max_ttl, because masters that have just " +
			"forgotten locks look the same; if no client can still hold a lock, redlockd bootstrap admits them at once."
	case v.admitted() < v.Needed:
		return fmt.Sprintf("No lock is granted yet: %d are admitted, and locks need %d. The others are admitted about max_ttl after a redlockd has found them; restart none before.",
			v.admitted(), v.Needed)
	case v.Restart:
		return fmt.Sprintf("The next master may be restarted: %d are admitted, and %d without it still are a quorum.", v.admitted(), v.admitted()-1)
	}
	return fmt.Sprintf("Restart no master now: %d are admitted, and locks need %d. One that has restarted is admitted again after about max_ttl, if a redlockd runs.",
		v.admitted(), v.Needed)
}

func ms(d time.Duration) *float64 {
	f := float64(d) / float64(time.Millisecond)
	return &f
}

func inMs(d time.Duration) string { return fmt.Sprintf("%.2f ms", *ms(d)) }

func (v *verdict) printJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// sentence says whether a quorum is available, how many masters may fail, and which to fix.
func (v *verdict) sentence() string {
	counts := fmt.Sprintf("%d of %d masters can vote, %d are needed", v.Voting, len(v.Masters), v.Needed)
	var out []string
	for _, m := range v.Masters {
		if !m.Votes {
			out = append(out, m.Addr)
		}
	}
	switch spare := v.Voting - v.Needed; {
	case len(v.Masters) == 1 && v.Quorum:
		return "A quorum of one master is available: when it fails, no lock is granted, and when it forgets, locks are lost. Name five."
	case !v.Quorum:
		return fmt.Sprintf("No quorum is available: %s. Fix %s.", counts, listOf(out))
	case len(out) == 0:
		return fmt.Sprintf("A quorum is available: %s; %d may fail.", counts, spare)
	case spare == 0:
		return fmt.Sprintf("A quorum is available, but none may fail: %s. Fix %s.", counts, listOf(out))
	default:
		return fmt.Sprintf("A quorum is available: %s; %d more may fail. Fix %s.", counts, spare, listOf(out))
	}
}

// listOf writes "a, b and c".
func listOf(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// print writes the table of the masters, what is wrong with each, and the verdict.
func (v *verdict) print(w io.Writer) error {
	var b strings.Builder
	rows := [][]string{{"MASTER", "VOTE", "ROUND TRIP", "REDIS", "ROLE", "CLOCK", "MAXMEMORY-POLICY", "PERSISTENCE"}}
	for _, m := range v.Masters {
		rows = append(rows, m.row())
	}
	writeTable(&b, rows)
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
	fmt.Fprintf(&b, "\n%s\n", v.sentence())
	if v.Quorum {
		fmt.Fprintln(&b, v.restartSentence())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ofAll tells whether several masters all have the problem. It is then printed once.
func (v *verdict) ofAll(p problemFinding) bool {
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
	case m.Epoch != "admitted":
		vote = "not yet"
	}
	if m.RTTMs != nil {
		rtt = fmt.Sprintf("%.2f ms", *m.RTTMs)
		clock = fmt.Sprintf("%+.1f ± %.1f ms", *m.ClockDiffMs, *m.ClockErrMs)
	}
	if m.ClusterNode {
		role += " (cluster)"
	}
	return []string{m.Addr, vote, rtt, cmp.Or(m.Version, "-"), cmp.Or(role, "-"), clock, cmp.Or(m.MaxMemoryPolicy, "-"), m.persistence()}
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

// writeTable aligns the columns.
func writeTable(w io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	t.Flush()
}
