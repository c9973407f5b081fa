package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"redlockd/redlock"
)

// verdict is what check found, in the shape of its JSON.
type verdict struct {
	Quorum  bool            `json:"quorum"` // can be had
	Restart bool            `json:"safe_to_restart_next"`
	Needed  int             `json:"needed"`
	Voting  int             `json:"voting"`
	Masters []masterFinding `json:"masters"`
	allNew  bool            // a bootstrap may admit them
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

// verdictOf judges reports for a server that gives each master so long.
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

// admitted counts the masters whose votes count now. One that could vote may be in quarantine yet.
func (v *verdict) admitted() int {
	n := 0
	for _, m := range v.Masters {
		if m.Votes && m.Epoch == "admitted" {
			n++
		}
	}
	return n
}

// restartSentence is for who restarts the masters one by one: a restarted one has no vote for about max_ttl.
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

// sentence is the verdict.
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
		return "A quorum can be had, of one master: when it fails, no lock can be had, and when it forgets, locks are lost. Name five."
	case !v.Quorum:
		return fmt.Sprintf("No quorum can be had: %s. Mend %s.", counts, listOf(out))
	case len(out) == 0:
		return fmt.Sprintf("A quorum can be had: %s; %d may fail.", counts, spare)
	case spare == 0:
		return fmt.Sprintf("A quorum can be had, but none may fail: %s. Mend %s.", counts, listOf(out))
	default:
		return fmt.Sprintf("A quorum can be had: %s; %d more may fail. Mend %s.", counts, spare, listOf(out))
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
