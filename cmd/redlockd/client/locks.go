package client

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/redlock/resp"
)

const locksForm = "redlockd locks [flags] [pattern]"

var Locks = cli.Command{Name: "locks", Summary: "list who holds which lock, and who waits for it", Audience: cli.ForClient, Form: locksForm, Run: runLocks,
	Flags: []cli.Flag{
		{Name: "all", Usage: "list the leases of all redlockds over the same masters"},
		byFlag,
		{Name: "json", Usage: "print the list as JSON; times are milliseconds"},
		{Name: "count", Arg: "n", Usage: "list so many leases: from 1 to 10000, with --all to 1000 of each redlockd (default 100)"},
		timeoutFlag(clientTimeout),
	},
	Help: `Usage: ` + locksForm + `

Lists who holds which lock, since when and for how long yet, and who waits for it, in order: the leases that a redlockd which runs has
granted (the command LOCKS). A pattern selects resources: * is any text, ? any character, [ab] one of them. Quote it for your shell.

HOLDER is the name that the client has given itself (CLIENT SETNAME), ADDRESS where it has connected from. HELD is how long it has had
the lock, LEFT what is left of the validity now, unless the client extends it. "renewed": redlockd renews the lock while its client is
connected (HOLD). LOST: the masters do not have the lock any more, and its holder has not noticed yet. The first 16 waiters of a lock
have a line each, and HELD says how long they have waited. If there are more leases than --count, it lists the longest held, those with
the longest waits and with most waiters, and lost ones, in order of name.

--by held lists the leases that have been held for longest, the longest held first; --by waited those with the longest waits, --by waiters
those with most waiters, --by lost those that are LOST. The server puts them in order, however many there are.

--all lists the leases of every redlockd over the same masters, with the name of the redlockd that granted each, and says which
redlockds answered, and which were heard within the last hour and did not answer.

Exit codes: 0 done; 1 the server does not answer, or refuses; 2 the command line or the configuration is wrong.
`}

// runLocks lists the leases of a server.
func runLocks(c *cli.Call) (err error) {
	if len(c.Args) > 1 {
		return c.Misused("one pattern is possible, in quotes: %s", locksForm)
	}
	ask := locksRequest{pattern: strings.Join(c.Args, ""), all: c.On("all")}
	if ask.by, err = orderOf(c); err != nil {
		return err
	}
	most := 10_000
	if ask.all {
		most = 1000
	}
	if text, given := c.Given["count"]; given {
		if ask.count, err = strconv.Atoi(text); err != nil || ask.count < 1 || ask.count > most {
			return c.Misused("--count: %q is not a number from 1 to %d", text, most)
		}
	}
	return withServer(c, func(server *Connection) error {
		list, err := ask.of(server)
		if err != nil {
			return err
		}
		hint := "A pattern selects others"
		if ask.count < most {
			hint = fmt.Sprintf("--count %d lists more, and a pattern selects others", most)
		}
		what := ": the longest held, those with the longest waits and with most waiters, and lost ones"
		if ask.by != "" {
			what = ", by what --by " + ask.by + " says"
		}
		if len(list.Locks) == cmp.Or(ask.count, locksDefault) && !ask.all {
			// LOCKS does not say how many there are. An error: those do not fit into a reply.
			ask.count = most
			if whole, err := ask.of(server); err == nil {
				list.Total = int64(len(whole.Locks))
			}
			list.OrMore = list.Total == 0 || list.Total == int64(most)
		}
		list.Total = max(list.Total, int64(len(list.Locks)))
		if c.On("json") {
			return cli.PrintJSON(c.Stdout, list)
		}
		return list.print(c.Stdout, what+". "+hint)
	})
}

// locksDefault is how many leases LOCKS lists by itself.
const locksDefault = 100

// orders are what LOCKS BY takes.
var orders = []string{"held", "waited", "waiters", "lost"}

var byFlag = cli.Flag{Name: "by", Arg: "order", Usage: "list the first by held or waited (for longest), waiters (most), or those that are lost"}

// orderOf is the value of --by; "": it is not given.
func orderOf(c *cli.Call) (by string, err error) {
	by, given := c.Given["by"]
	if given && !slices.Contains(orders, by) {
		return "", c.Misused("--by: %q is none of %s", by, cli.ListOf(orders))
	}
	return by, nil
}

// locksRequest is what is asked of LOCKS.
type locksRequest struct {
	pattern string // "": all
	by      string // one of orders; "": in order of name
	count   int    // 0: as many as LOCKS lists by itself
	all     bool   // of all redlockds
}

// LockList is the answer, in the shape of its JSON. decode fills it by the names there.
type LockList struct {
	Locks []lockEntry `json:"locks"`
	// Total counts also the leases that are not listed. OrMore: there may be more than that.
	Total  int64 `json:"total"`
	OrMore bool  `json:"or_more,omitempty"`
	// Answered and Missing are the redlockds, if all were asked.
	Answered []redlockdEntry `json:"answered,omitempty"`
	Missing  []redlockdEntry `json:"missing,omitempty"`
}

// redlockdEntry is one redlockd. The server names none to a user with a list of resources.
type redlockdEntry struct {
	Name     string `json:"name,omitempty"`
	Leases   int64  `json:"leases,omitempty"`    // that are listed; of one that answered
	Total    int64  `json:"total,omitempty"`     // that it has
	Cut      bool   `json:"cut,omitempty"`       // it has more than fit into its answer
	SilentMs int64  `json:"silent_ms,omitempty"` // of one that is missing
}

// lockEntry is one lease, or a resource that is only waited for. Times are in milliseconds, as the
// names say.
type lockEntry struct {
	Resources   []string      `json:"resources"`
	Mode        string        `json:"mode,omitempty"` // exclusive or shared; left out: nobody is known to hold it
	Holder      *clientEntry  `json:"holder"`
	ValidityMs  int64         `json:"validity_ms"`
	DelayMs     int64         `json:"delay_ms,omitempty"` // left of the delay behind its end, if it is in it
	Bound       bool          `json:"bound"`
	Lost        bool          `json:"lost"`
	TokenDigest string        `json:"token_digest,omitempty"`
	Waiters     int64         `json:"waiters"`
	Queue       []clientEntry `json:"queue"`
	Minority    string        `json:"minority,omitempty"` // of one that is only waited for: too few masters had it to be sure that somebody holds it
	Redlockd    string        `json:"redlockd,omitempty"` // that granted it, if all were asked
}

// clientEntry is a holder or a waiter.
type clientEntry struct {
	Client   string `json:"client,omitempty"`
	Addr     string `json:"addr,omitempty"`
	User     string `json:"user"`
	Note     string `json:"note,omitempty"`
	Since    int64  `json:"since,omitempty"`     // Unix time in seconds; of a holder
	HeldMs   int64  `json:"held_ms,omitempty"`   // of a holder
	WaitedMs int64  `json:"waited_ms,omitempty"` // of a waiter
	Mode     string `json:"mode,omitempty"`      // of a waiter
}

// of asks a server.
func (r locksRequest) of(c *Connection) (*LockList, error) {
	args := []string{"LOCKS"}
	if r.all {
		args = append(args, "ALL")
	}
	if r.by != "" {
		args = append(args, "BY", r.by)
	}
	if r.pattern != "" {
		args = append(args, "PATTERN", r.pattern)
	}
	if r.count != 0 {
		args = append(args, "COUNT", strconv.Itoa(r.count))
	}
	v, err := c.Do(args...)
	if err != nil {
		return nil, err
	}
	if !r.all {
		v = resp.Value{Elems: []resp.Value{{Text: "locks"}, v}}
	}
	list := new(LockList)
	decode(v, reflect.ValueOf(list).Elem())
	for _, a := range list.Answered {
		if r.by != "" && a.Leases < int64(cmp.Or(r.count, locksDefault)) {
			list.Total += a.Leases // it has no more of this kind
			continue
		}
		list.Total += max(a.Total, a.Leases)
	}
	return list, nil
}

// print writes the table. hint says which leases are in it, if not all are, and what lists others.
func (l *LockList) print(w io.Writer, hint string) error {
	var b strings.Builder
	rows := [][]string{{"RESOURCE", "MODE", "HOLDER", "ADDRESS", "USER", "HELD", "LEFT", "NOTE"}}
	for i := range l.Locks {
		rows = append(rows, l.Locks[i].rows()...)
	}
	if len(l.Answered) > 0 {
		rows[0] = append(rows[0], "REDLOCKD")
	}
	if len(l.Locks) == 0 {
		fmt.Fprintln(&b, "No locks.")
	} else {
		cli.WriteTable(&b, rows)
	}
	if n := len(l.Locks); l.OrMore || l.Total > int64(n) {
		of := strconv.FormatInt(l.Total, 10)
		if l.OrMore {
			of += " or more"
		}
		fmt.Fprintf(&b, "\n%d of %s leases are listed%s.\n", n, of, hint)
	}
	b.WriteString(l.redlockds())
	_, err := io.WriteString(w, b.String())
	return err
}

// redlockds says who answered, if all were asked.
func (l *LockList) redlockds() string {
	var answered, missing []string
	for _, r := range l.Answered {
		text := cmp.Or(r.Name, "one")
		if r.Cut {
			text += " (it has more than fit: give a pattern)"
		}
		answered = append(answered, text)
	}
	for _, r := range l.Missing {
		missing = append(missing, fmt.Sprintf("%s (heard %s ago)", cmp.Or(r.Name, "one"), shortMs(r.SilentMs)))
	}
	switch {
	case len(answered) == 0:
		return ""
	case len(missing) == 0:
		return fmt.Sprintf("\nAnswered: %s.\n", cli.ListOf(answered))
	}
	return fmt.Sprintf("\nAnswered: %s.\nMissing: %s. What these have granted is not in the list.\n", cli.ListOf(answered), cli.ListOf(missing))
}

// rows are the lease and those who wait for it.
func (e *lockEntry) rows() [][]string {
	var names []string
	for _, r := range e.Resources {
		names = append(names, shown(r))
	}
	row := []string{strings.Join(names, " "), cmp.Or(e.Mode, "-"), "-", "-", "-", "-", "-", ""}
	if h := e.Holder; h != nil {
		copy(row[2:], h.columns())
		row[5], row[7] = tenths(h.HeldMs), shown(h.Note)
	}
	if e.Minority != "" {
		row[7] = shown(e.Minority)
	}
	switch {
	case e.Lost:
		row[6] = "LOST"
	case e.DelayMs > 0:
		row[6] = "delay " + shortMs(e.DelayMs)
	case e.Bound:
		row[6] = "renewed"
	case e.TokenDigest != "":
		row[6] = shortMs(e.ValidityMs)
	}
	if e.Redlockd != "" {
		row = append(row, e.Redlockd)
	}
	rows := [][]string{row}
	for i, w := range e.Queue {
		mode := "waits"
		if w.Mode == "shared" {
			mode = "waits, shared"
		}
		rows = append(rows, append(append([]string{fmt.Sprintf("  waiter %d", i+1), mode}, w.columns()...), tenths(w.WaitedMs), "", shown(w.Note)))
	}
	if more := e.Waiters - int64(len(e.Queue)); more > 0 {
		rows = append(rows, []string{fmt.Sprintf("  and %d more", more), "waits", "", "", "", "", "", ""})
	}
	return rows
}

// columns are HOLDER, ADDRESS and USER.
func (e *clientEntry) columns() []string {
	return []string{cmp.Or(shown(e.Client), "-"), cmp.Or(shown(e.Addr), "-"), cmp.Or(shown(e.User), "-")}
}

// shown is a text of a client as a terminal may get it, in one line: what cannot be printed is written
// as in Go.
func shown(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(text)
	}
	return text
}

// tenths is a time with tenths of seconds, and from a minute on as shortTime writes it.
func tenths(ms int64) string {
	if ms < time.Minute.Milliseconds() {
		return fmt.Sprintf("%d.%ds", ms/1000, ms/100%10)
	}
	return shortMs(ms)
}

func shortMs(ms int64) string { return shortTime(time.Duration(ms) * time.Millisecond) }

// shortTime is a time in two figures or three, as 340ms, 12s, 3m5s, 2h10m; what is over is 0s.
func shortTime(d time.Duration) string {
	unit := time.Minute
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		unit = time.Millisecond
	case d < 10*time.Second:
		unit = 100 * time.Millisecond
	case d < time.Hour:
		unit = time.Second
	}
	return config.FormatDuration(d.Truncate(unit))
}
