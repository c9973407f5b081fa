package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"redlockd/cmd/redlockd/config"
)

var help = Command{Name: "help", Summary: "explain a command, or all settings", Run: explain, Help: `Usage: redlockd help [topic]

Prints the help of a command, or, as redlockd help settings, every setting with its default.
`}

// notHere says what was probably meant by a word that is none of those known here. Commands of the
// protocol are for clients.
func notHere(name string, known []string) string {
	if command := strings.ToUpper(name); slices.Contains([]string{"LOCK", "EXTEND", "MLOCK", "HOLD"}, command) {
		return fmt.Sprintf(" (%s is for clients of Redis: redis-cli -p 6380 LOCK name 30s; redlockd run holds a lock while a program runs)", command)
	}
	return config.DidYouMean(name, known)
}

// explain explains a topic: a command, or the settings.
func explain(c *Call) error {
	switch {
	case len(c.Args) == 0:
		helpOverview(c.Stdout, c.all)
	case len(c.Args) > 1:
		return Usage(errors.New("help takes one topic"))
	case c.Args[0] == "settings":
		helpSettings(c.Stdout)
	default:
		at := slices.Index(namesOf(c.all), c.Args[0])
		if at < 0 {
			topics := helpTopics(c.all)
			return Usage(fmt.Errorf("no help on %q%s; the topics are %s", c.Args[0], notHere(c.Args[0], topics), strings.Join(topics, ", ")))
		}
		c.all[at].writeHelp(c.Stdout)
	}
	return nil
}

// helpTopics are what help explains.
func helpTopics(all []Command) []string { return append([]string{"settings"}, namesOf(all)...) }

// writeHelp prints what the command does and its flags.
func (c *Command) writeHelp(w io.Writer) {
	fmt.Fprint(w, c.Help)
	if c.Audience == forNobody {
		fmt.Fprint(w, "\nExit codes: 0 done; 2 the command line is wrong.\n")
		return
	}
	fmt.Fprint(w, "\nFlags:\n")
	for _, h := range c.AllFlags() {
		if !h.Hidden {
			form := strings.TrimSuffix("--"+h.Name+" "+h.Arg, " ")
			if h.Short != "" {
				form += " (-" + h.Short + ")"
			}
			fmt.Fprintf(w, "  %-28s %s\n", form, h.Usage)
		}
	}
	fmt.Fprint(w, "\n"+helpSources)
}

func helpOverview(w io.Writer, all []Command) {
	fmt.Fprint(w, `redlockd serves distributed locks over the Redis protocol. A quorum of independent Redis masters grants them.

Usage:
  redlockd [flags]            serve locks
  redlockd command [flags]

Commands:
`)
	for _, c := range all {
		fmt.Fprintf(w, "  %-10s %s\n", c.Name, c.Summary)
	}
	fmt.Fprint(w, `
Try it, without any Redis:
  redlockd
  redis-cli -p 6380 LOCK invoices 30000

With masters:
  redlockd check --masters 10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379,10.0.0.4:6379,10.0.0.5:6379
  redlockd serve --config redlockd.toml
  redlockd run --masters … invoices -- ./send-invoices

`+helpSources+`
Exit codes:
  0  done; a server: a signal stopped it, and it has drained
  1  failed while it ran; check: no quorum is available, or a library lacks settings;
     bootstrap: the masters are not admitted; members: not changed; reload: not changed;
     unlock: not released; ping, locks, info, top: no answer
  2  the command line or the configuration is wrong, or a server cannot start with it
  3  a server: a second signal came while it was draining

`+RunExitCodes+`
redlockd help COMMAND or redlockd help settings says more.
`)
}

const helpSources = `You can give a setting as a flag, as an environment variable, or in the file that --config or REDLOCKD_CONFIG names;
if neither does, in /etc/redlockd/config.toml, which need not exist. A flag wins over a variable, and a variable over the file.
Every setting has a variable: max_ttl in the group [locks] of the file is REDLOCKD_LOCKS_MAX_TTL. --print-config shows the settings
in effect and where each comes from.
`

// helpSettings lists every setting by its three names.
func helpSettings(w io.Writer) {
	fmt.Fprint(w, helpSources)
	fmt.Fprint(w, "\nLists in variables: REDLOCKD_MASTERS=host:port,host:port,… and REDLOCKD_AUTH_USERS=name:password,name:password,…\nREDLOCKD_POLICY is written as in the file: [{prefix = \"billing:*\", max_ttl = \"30s\"}]\n")
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
