package masters

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/redlock"
)

// refoundIn bounds a refounding, in units of connect_timeout: each survey waits for masters that are
// dead.
const refoundIn = 10

// refound founds the membership anew, when the operator has read what that does and has agreed.
func (m *memberCommand) refound(c *config.Config, signals <-chan os.Signal) error {
	run := func(dryRun bool) (*redlock.Refounding, error) {
		ctx, cancel := context.WithTimeout(context.Background(), refoundIn*c.Engine.ConnectTimeout)
		defer cancel()
		go func() {
			select {
			case <-signals:
				cancel()
			case <-ctx.Done():
			}
		}()
		plan, err := redlock.Refound(ctx, c.Engine, dryRun)
		if err != nil {
			err = fmt.Errorf("members: %w", err)
		}
		return plan, err
	}
	plan, err := run(true)
	if err != nil {
		return err
	}
	if plan.Already {
		fmt.Fprintln(m.Stdout, "Nothing to refound: the membership has these masters, and a majority of them can be reached. A redlockd with this list goes on with it.")
		return nil
	}
	m.printRefounding(plan)
	switch {
	case m.On("dry-run"):
		fmt.Fprintln(m.Stdout, "\nNothing was changed.")
		return nil
	case m.On("yes"):
	case !cli.IsTerminal(os.Stdin):
		return errors.New("members: refound: nothing was changed: it asks first, and there is no terminal; with --yes it does what it says above")
	default:
		fmt.Fprint(m.Stderr, "\nAre the masters that are given up gone for good? Type yes to refound the membership: ")
		line := make(chan string, 1)
		go func() {
			text, _ := bufio.NewReader(os.Stdin).ReadString('\n')
			line <- strings.TrimSpace(text)
		}()
		select {
		case text := <-line:
			if text == "yes" {
				break
			}
			return errors.New("members: refound: nothing was changed")
		case sig := <-signals:
			return fmt.Errorf("members: refound: stopped by %v: nothing was changed", sig)
		}
	}
	if plan, err = run(false); err != nil {
		return err
	}
	fmt.Fprintf(m.Stdout, "\nRefounded. Locks are granted again %s after a redlockd has seen it; redlockd members shows the time left.\n"+
		"Put this list of masters into config.toml of every redlockd. One that runs follows by itself if it reaches a master that was a member before; restart the others.\n",
		roundSeconds(plan.Wait))
	return nil
}

// printRefounding says what is about to happen.
func (m *memberCommand) printRefounding(plan *redlock.Refounding) {
	rows := [][]string{{"SEAT", "ADDRESS", "BECOMES", "REASON"}}
	for _, s := range plan.Members {
		rows = append(rows, []string{s.Name, s.Addr, string(s.State), cmp.Or(s.Reason, "-")})
	}
	var lost []string
	for _, s := range plan.Lost {
		one := s.Name
		if s.Addr != s.Name {
			one += " (" + s.Addr + ")"
		}
		lost = append(lost, one)
	}
	var b strings.Builder
	b.WriteString("The membership is founded anew with these masters:\n\n")
	cli.WriteTable(&b, rows)
	fmt.Fprintf(&b, "\nGiven up for lost: %s.\nThey must never answer again with what they remember: to a redlockd with the old list they would be a second fleet.\n"+
		"No lock is granted for %s then: no lock of before lives longer.\n", strings.Join(lost, ", "), roundSeconds(plan.Wait))
	fmt.Fprint(m.Stdout, b.String())
}
