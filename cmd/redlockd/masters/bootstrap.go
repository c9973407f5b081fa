package masters

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/redlock"
)

// A bootstrap connects to all masters at once, some times where it goes on with what a server has
// founded, so it may take this many times connect_timeout.
const bootstrapTimeoutFactor = 10

var Bootstrap = cli.Command{Name: "bootstrap", Summary: "admit brand-new masters at once, without waiting for max_ttl", Audience: cli.ForMasters, Run: runBootstrap,
	Flags: []cli.Flag{{Name: "anyway", Usage: "admit a majority where the others cannot be reached, or are not fit to vote"}},
	Help: `Usage: redlockd bootstrap [flags]

Admits brand-new masters at once: it founds their membership (see redlockd members), with the masters and the max_ttl of
the configuration. Without it, a server founds it, and the masters have no vote for somewhat longer than max_ttl and
founding_wait, because masters that are new look like masters that have forgotten every lock. It first looks at all
masters and prints what it found. Each of them must answer, be fit to vote (see redlockd check), be a Redis of its own,
hold no lock, and never have voted. If one of them is not like that, it changes nothing on any. A server or redlockd run
may already be waiting for the masters. If that has founded a membership while masters were missing, or with a list that
was wrong, in which nobody has ever voted, correct the list and run this: it goes on with the masters of the list.

With --anyway a majority is enough, if the others cannot be reached or are not fit to vote. Each of those votes soon
after it is there. If one never comes, put another in its place: redlockd members replace.

Use it only when no client can still hold an earlier lock, so not after masters have lost their data. Masters that
have all lost their data look new, and redlockd takes your word that no earlier lock is held.

Exit codes: 0 all masters are admitted, or with --anyway a majority; 1 they are not; 2 the command line or the configuration is wrong.
`}

// runBootstrap admits masters that are all new, and prints what it found.
func runBootstrap(call *cli.Call) error {
	if err := call.NeedMasters(); err != nil {
		return err
	}
	c := call.Settings
	ctx, cancel := context.WithTimeout(context.Background(), bootstrapTimeoutFactor*c.Engine.ConnectTimeout)
	defer cancel()
	reports, err := redlock.BootstrapAndReport(ctx, c.Engine, call.On("anyway"))
	if err := printBootstrap(call.Stdout, reports); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("%s\n%sredlockd: a server needs no bootstrap: it admits its masters by itself, somewhat later than max_ttl = %s and founding_wait = %s",
			cli.OneLine(err), whatNow(reports), config.FormatDuration(c.Engine.MaxTTL), config.FormatDuration(c.Engine.FoundingWait))
	}
	return nil
}

// whatNow says what an operator can do about what is in the way.
func whatNow(reports []redlock.BootstrapReport) string {
	missing, votes := 0, false
	for _, r := range reports {
		if r.Missing {
			missing++
		} else if r.Problem != nil {
			votes = true
		}
	}
	switch {
	case votes:
		return "redlockd: if the masters have a membership, redlockd members shows and changes it; one that is to be new must be empty: FLUSHALL\n"
	case missing > 0 && 2*missing < len(reports):
		return "redlockd: start the masters that are missing, or correct the list; redlockd bootstrap --anyway admits the others now\n"
	}
	return ""
}

func printBootstrap(w io.Writer, reports []redlock.BootstrapReport) error {
	if len(reports) == 0 {
		return nil
	}
	rows := [][]string{{"MASTER", "SERVER", "RUN ID", "MEMBERSHIP", "KEYS", "RESULT"}}
	admitted := 0
	for _, r := range reports {
		keys, result := "-", "new, left as it was"
		if r.Keys >= 0 {
			keys = strconv.FormatInt(r.Keys, 10)
		}
		switch {
		case r.Problem != nil:
			result = cli.OneLine(r.Problem)
		case r.Admitted:
			result = "admitted"
			admitted++
		}
		rows = append(rows, []string{r.Addr, cmp.Or(r.Version, "-"), cmp.Or(r.RunID, "-"), cmp.Or(r.Shows, "-"), keys, result})
	}
	var b strings.Builder
	cli.WriteTable(&b, rows)
	fmt.Fprintf(&b, "\n%d of %d masters admitted.\n", admitted, len(reports))
	if admitted > 0 && admitted < len(reports) {
		fmt.Fprintln(&b, "Each of the others votes soon after it is there. Another one takes its place with redlockd members replace.")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
