package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"redlockd/cmd/redlockd/config"
)

// Exit codes. `redlockd help` lists them.
const (
	exitOK      = 0
	exitFailed  = 1 // could not start, or failed while it ran; for check: no lock can be granted; for bootstrap: not admitted; for members: not changed; for clients: no answer, or refused
	exitUsage   = 2 // the command line or the configuration is wrong
	exitDropped = 3 // a second signal came while the server was draining

	// Of run, which otherwise returns the exit code of its command. The last three are as in shells.
	exitHeld      = 120 // the lock is held by another
	exitNoQuorum  = 121
	exitLost      = 122 // the lock was lost while the command ran
	exitCannotRun = 126
	exitNotFound  = 127
	exitSignal    = 128 // + the number of the signal that ended the command, or the wait for the lock; of members: the wait for the end of a change
)

// runExitCodes are the codes of run, beside those of all commands.
const runExitCodes = `Exit codes of run: that of the command, or
  120  the lock is held by another, also after --wait
  121  no quorum of masters: there is no lock, and the command was not run
  122  the lock was lost while the command ran
  126  the command cannot be run
  127  there is no such command
  128  + n: signal n ended the command, or the wait for the lock
`

// process is the environment and the output of a command. Tests give it their own.
type process struct {
	environ        []string // as os.Environ
	stdout, stderr io.Writer
	version        string // as the linker has set it, see currentVersion
}

// command is one subcommand.
type command struct {
	name, summary, help string
	audience            audience
	flags               []flagHelp // its own, beside those of its audience
	// form is how it is written, if it takes operands; flags can stand between and behind them. Empty: it takes none.
	form string
	// wraps: what stands behind -- is the command line of another program, and no flag stands behind an operand.
	wraps bool
	// words are those with which its operands can begin; nil: nobody can list them.
	words []string
	// run does the work. Its error is an exitCode, a usageError, or the reason why the work failed.
	run func(c *call) error
}

// audience says which flags of settings a command has.
type audience uint8

const (
	forNobody  audience = iota // none: it takes its arguments as they are
	forServer                  // all but those of [client]
	forMasters                 // the same, but those that only a server uses are hidden
	forClient                  // those of [client]; the others are hidden
)

// call is the command line of a command.
type call struct {
	process
	command
	all      []command         // of the program
	given    map[string]string // flags by name
	args     []string          // operands
	wrapped  []string          // what stands behind --; nil: there is no --
	settings *config.Config    // nil for forNobody
}

// exitCode is an error that needs no words: the command has said what there was to say.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageError says that the command line or the configuration is wrong.
type usageError struct{ error }

// run runs a command line and returns its exit code.
func run(p process, commands []command, args []string) int {
	all := slices.Concat(commands, []command{completion, manual, printVersion, help})
	all[len(all)-1].words = helpTopics(all)
	err := start(p, all, args)
	var code exitCode
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		for _, e := range config.Flatten(usage.error) {
			fmt.Fprintf(p.stderr, "redlockd: %v\n", e)
		}
		return exitUsage
	}
	fmt.Fprintf(p.stderr, "redlockd: %v\n", err)
	return exitFailed
}

func start(p process, all []command, args []string) error {
	c := &call{process: p, all: all, given: make(map[string]string)}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		c.command, c.args = all[0], args
		// Before the flags of the default command: redlockd --help is the overview, redlockd serve --help is about serve.
		if len(args) == 1 {
			switch args[0] {
			case "-h", "-help", "--help":
				c.command, c.args = help, nil
			case "-v", "-version", "--version":
				c.command, c.args = printVersion, nil
			}
		}
	} else {
		at := slices.Index(namesOf(all), args[0])
		if at < 0 {
			return usageError{fmt.Errorf("unknown command %q%s; the commands are %s", args[0], config.DidYouMean(args[0], namesOf(all)), strings.Join(namesOf(all), ", "))}
		}
		c.command, c.args = all[at], args[1:]
	}
	if c.audience == forNobody {
		return c.run(c)
	}
	return c.configure()
}

// configure reads the command line and the configuration, and runs the command, unless help or the settings were asked for.
func (c *call) configure() error {
	err := c.parse()
	if errors.Is(err, flag.ErrHelp) {
		c.writeHelp(c.stdout)
		return nil
	}
	if err != nil {
		return err
	}
	if c.settings, err = c.load(); err != nil {
		return usageError{err}
	}
	if c.on("print-config") {
		c.warn()
		c.settings.Print(c.stdout)
		return nil
	}
	return c.run(c)
}

// load reads the settings.
func (c *call) load() (*config.Config, error) { return config.Load(c.given, c.environ) }

// misused says what is wrong with the operands.
func (c *call) misused(format string, args ...any) error {
	return usageError{fmt.Errorf(format+"; redlockd %s --help lists the flags", append(args, c.name)...)}
}

func namesOf(all []command) (names []string) {
	for _, c := range all {
		names = append(names, c.name)
	}
	return names
}

// needMasters is for a command that has no log and no embedded masters: it prints the warnings, and refuses a configuration without masters.
func (c *call) needMasters() error {
	c.warn()
	if len(c.settings.Engine.Masters) > 0 {
		return nil
	}
	return usageError{fmt.Errorf(
		"%s needs masters, and none are configured (a server would start five inside its own process, where nobody else locks); name them with --masters or --config", c.name)}
}

// warn prints the warnings of the configuration to standard error.
func (c *call) warn() {
	for _, warning := range c.settings.Warnings {
		fmt.Fprintf(c.stderr, "redlockd: warning: %s\n", warning)
	}
}
