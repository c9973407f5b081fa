package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"redlockd/cmd/redlockd/config"
)

func help(p process, args []string) int {
	topics := []string{"settings"}
	for _, c := range commands() {
		topics = append(topics, c.name)
	}
	switch {
	case len(args) > 1:
		return p.usageError(errors.New("help takes one topic"))
	case len(args) == 0:
		helpOverview(p.stdout)
	case args[0] == "serve":
		helpServe(p.stdout)
	case args[0] == "check":
		helpCheck(p.stdout)
	case args[0] == "bootstrap":
		helpBootstrap(p.stdout)
	case args[0] == "run":
		helpRun(p.stdout)
	case args[0] == "version":
		fmt.Fprintf(p.stdout, "Usage: redlockd version\n\nPrints the version, the compiler, and the revision of the source.\n")
	case args[0] == "help":
		fmt.Fprintf(p.stdout, "Usage: redlockd help [topic]\n\nThe topics are %s.\n", strings.Join(topics, ", "))
	case args[0] == "settings":
		helpSettings(p.stdout)
	default:
		return p.usageError(fmt.Errorf("no help on %q%s; the topics are %s", args[0], config.DidYouMean(args[0], topics), strings.Join(topics, ", ")))
	}
	return exitOK
}

func helpOverview(w io.Writer) {
	fmt.Fprint(w, `redlockd gives distributed locks over the Redis protocol, granted by a quorum of independent Redis masters.

Usage:
  redlockd [flags]            serve locks
  redlockd command [flags]

Commands:
`)
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-10s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, `
Try it, without any Redis:
  redlockd
  redis-cli -p 6380 LOCK invoices 30000

With masters:
  redlockd check --masters 10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379,10.0.0.4:6379,10.0.0.5:6379
  redlockd serve --config /etc/redlockd/config.toml
  redlockd run --masters … invoices -- ./send-invoices

`)
	helpSources(w)
	fmt.Fprint(w, `
Exit codes:
  0  done; a server: stopped when it was told to, after draining
  1  failed: could not start, or failed while it ran; check: no quorum is available;
     bootstrap: the masters are not admitted
  2  the command line or the configuration is wrong
  3  a server: a second signal came while it was draining

`+runExitCodes+`
redlockd help serve, check, bootstrap, run or settings says more.
`)
}

func helpSources(w io.Writer) {
	fmt.Fprint(w, `Settings come from flags, which win over environment variables, which win over the file that --config or
REDLOCKD_CONFIG names, which wins over the defaults. Every setting has a variable: max_ttl in the group [locks] of the
file is REDLOCKD_LOCKS_MAX_TTL. --print-config shows what is in effect, and where it comes from.
`)
}

func helpServe(w io.Writer) {
	fmt.Fprint(w, `Usage: redlockd [serve] [flags]

Serves locks until SIGTERM or SIGINT. Then /readyz says 503, and after drain_delay (0s) it drains: no new lock is granted,
waiting clients are told so, and locks that were granted here can be prolonged and released, until none is left or
drain_timeout is over; a second signal ends it at once.

It starts also while masters are down: until a quorum of them is reached, commands are answered with NOQUORUM.
Logs go to standard error. SIGHUP changes nothing: settings are read when it starts, and certificates whenever
their files are replaced.

Flags:
`)
	serveFlags().usage(w)
	fmt.Fprintln(w)
	helpSources(w)
	fmt.Fprint(w, `
The Go runtime's own variables hold too: GOGC (400 unless it is set), GOMEMLIMIT,
GOMAXPROCS (half of the processors, but two if there are two, unless it is set).
`)
}

func helpCheck(w io.Writer) {
	fmt.Fprint(w, `Usage: redlockd check [flags]

Asks every master at once whether it can vote, prints what it found, and says whether a quorum is available and what to
fix. It reads the same configuration as serve, so what it finds is what a server would find. It changes nothing on the
masters.

Exit codes: 0 a quorum is available, 1 it is not, 2 the command line or the configuration is wrong.

Flags:
`)
	checkFlags().usage(w)
	fmt.Fprintln(w)
	helpSources(w)
}

func helpBootstrap(w io.Writer) {
	fmt.Fprint(w, `Usage: redlockd bootstrap [flags]

Admits brand-new masters at once. Without it, a server waits for one max_ttl until they get their vote, because masters that
are new look like masters that have forgotten every lock. It looks at all masters first, and prints what it found: each must
answer, be fit to vote (as redlockd check says), be a Redis of its own, hold no lock, and never have been admitted. If one is not
like that, nothing is changed on any. A server or redlockd run that waits for the masters already does not matter.

Use it only when no client can still hold a lock from before: not after masters have lost their data. Masters that have all lost
their data look new. That no lock from before is held is then your word alone.

Exit codes: 0 all masters are admitted, 1 they are not, 2 the command line or the configuration is wrong.

Flags:
`)
	bootstrapFlags().usage(w)
	fmt.Fprintln(w)
	helpSources(w)
}

// runExitCodes are those of run, beside those of all commands.
const runExitCodes = `Exit codes of run: that of the command, or
  120  the lock is held by another, also after --wait
  121  no quorum of masters: there is no lock, and the command was not run
  122  the lock was lost while the command ran
  126  the command cannot be run
  127  there is no such command
  128  + n: signal n ended the command, or the wait for the lock
`

func helpRun(w io.Writer) {
	fmt.Fprint(w, `Usage: `+runForm+`

Locks the resource, runs the command, and releases the lock when the command has ended. It asks the masters itself, so it needs the
same masters and max_ttl as the servers over them, but no server. A master that is new, or has restarted, gets its vote from a
redlockd that runs for about max_ttl: where there are only short commands, keep a server running as well, or use bootstrap.

The command gets standard input, output and errors as they are, and LOCK_RESOURCE, LOCK_TOKEN and, with --fence, LOCK_FENCE in its
environment. It does not get redlockd's own variables (REDLOCKD_…), because passwords stand in them, except REDLOCKD_CONFIG: a
command that calls redlockd in turn finds its settings in that file. INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to it and to
what it has started (its process group). If standard input is a terminal, it stays in the group of the terminal instead: Ctrl-C and
Ctrl-Z work as without redlockd, and signals that redlockd sends reach the command alone.

While the command runs, the lock is prolonged every third of its TTL, until max_hold. The command does not outlive it: when the lock
cannot be prolonged, for there is no quorum of masters, or max_hold is reached, the command gets SIGTERM at the end of the validity
less --grace, and SIGKILL just before the end. When the lock is gone (deleted, forgotten by the masters), it gets them
now and after --grace. When redlockd was suspended until the validity was over, the command is killed at once when it wakes up: only
a fence protects from what it did before. When redlockd itself is killed, the kernel kills the command on Linux, but not what it has
started; elsewhere the command runs on, and the lock ends with its TTL. A command with more rights than redlockd (sudo)
cannot be killed: run redlockd with these rights.

`+runExitCodes+`    2  the command line or the configuration is wrong; 1  failed otherwise

Flags:
`)
	runFlags().usage(w)
	fmt.Fprintln(w)
	helpSources(w)
}

// helpSettings lists every setting by its three names.
func helpSettings(w io.Writer) {
	helpSources(w)
	fmt.Fprint(w, "\nLists in variables: REDLOCKD_MASTERS=host:port,host:port,… and REDLOCKD_AUTH_USERS=name:password,name:password,…\n")
	group := "-"
	for _, s := range config.Default().Settings {
		if g := s.Group(); g != group {
			group = g
			if g != "" {
				fmt.Fprintf(w, "\n[%s]\n", g)
			} else {
				fmt.Fprintln(w)
			}
		}
		names := s.Environment()
		if s.Flag != "" {
			names += ", --" + s.Flag
		}
		fmt.Fprintf(w, "  %s = %s\n      %s\n      %s\n", s.Key(), s.Text(), s.Usage, names)
	}
}
