// Package cli is the command line of redlockd: how its commands are called, what they read first, how
// they end, what they print alike, and how they are explained.
//
//	Run → command.go, flags.go     finds the Command, reads its flags and operands, loads the settings, runs it, and makes an exit code of its error
//	    → help.go, man.go, completion.go, version.go   the commands about commands
//	print.go                       what commands print alike
package cli

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
	ExitOK      = 0
	ExitFailed  = 1 // failed while it ran; for check: no lock can be granted, or a library lacks settings; for bootstrap: not admitted; for members: not changed; for clients: no answer, or refused
	ExitUsage   = 2 // the command line or the configuration is wrong, or a server cannot start with it
	ExitDropped = 3 // a second signal came while the server was draining

	// Of run, which otherwise returns the exit code of its command. The last three are as in shells.
	ExitHeld      = 120 // the lock is held by another
	ExitNoQuorum  = 121
	ExitLost      = 122 // the lock was lost while the command ran
	ExitCannotRun = 126
	ExitNotFound  = 127
	ExitSignal    = 128 // + the number of the signal that ended the command, or the wait for the lock; of members: the wait for the end of a change
)

// RunExitCodes are the codes of run, beside those of all commands.
const RunExitCodes = `Exit codes of run: that of the command, or
  120  the lock is held by another, also after --wait
  121  no quorum of masters: there is no lock, and the command was not run
  122  the lock was lost while the command ran
  126  the command cannot be run
  127  there is no such command
  128  + n: signal n ended the command, or the wait for the lock
`

// Process is the environment and the output of a command. Tests give it their own.
type Process struct {
	Environ        []string // as os.Environ
	Stdout, Stderr io.Writer
	Version        string // as the linker has set it, see CurrentVersion
}

// Command is one subcommand.
type Command struct {
	Name, Summary, Help string
	Audience            audience
	Flags               []Flag // its own, beside those of its audience
	// Form is how it is written, if it takes operands; flags can stand between and behind them. Empty:
	// it takes none.
	Form string
	// Wraps: what stands behind -- is the command line of another program, and no flag stands behind an
	// operand.
	Wraps bool
	// Words are those with which its operands can begin; nil: nobody can list them.
	Words []string
	// NoSettings is the flag with which it reads no settings; empty: there is none.
	NoSettings string
	// Run does the work. Its error is an ExitCode, of Usage, or the reason why the work failed.
	Run func(c *Call) error
}

// audience says which flags of settings a command has.
type audience uint8

const (
	forNobody  audience = iota // none: it takes its arguments as they are
	ForServer                  // all but those of [client]
	ForMasters                 // the same, but those that only a server uses are hidden
	ForClient                  // those of [client]; the others are hidden
	ForEither                  // those of ForMasters and of [client]
)

// Call is the command line of a command.
type Call struct {
	Process
	Command
	all      []Command         // of the program
	Given    map[string]string // flags by name
	Args     []string          // operands
	Wrapped  []string          // what stands behind --; nil: there is no --
	Settings *config.Config    // nil for forNobody, and with the flag NoSettings
}

// ExitCode is an error that needs no words: the command has said what there was to say.
type ExitCode int

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Usage marks an error as one of the command line or of the configuration.
func Usage(err error) error { return usageError{err} }

type usageError struct{ error }

// Run runs a command line and returns its exit code.
func Run(p Process, commands []Command, args []string) int {
	all := slices.Concat(commands, []Command{completion, manual, printVersion, help})
	all[len(all)-1].Words = helpTopics(all)
	err := start(p, all, args)
	var code ExitCode
	var usage usageError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		for _, e := range config.Flatten(usage.error) {
			fmt.Fprintf(p.Stderr, "redlockd: %v\n", e)
		}
		return ExitUsage
	}
	fmt.Fprintf(p.Stderr, "redlockd: %v\n", err)
	return ExitFailed
}

func start(p Process, all []Command, args []string) error {
	c := &Call{Process: p, all: all, Given: make(map[string]string)}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		c.Command, c.Args = all[0], args
		// Before the flags of the default command: redlockd --help is the overview, redlockd serve --help is
		// about serve.
		if len(args) == 1 {
			switch {
			case isHelp(args[0]):
				c.Command, c.Args = help, nil
			case slices.Contains([]string{"-v", "-version", "--version"}, args[0]):
				c.Command, c.Args = printVersion, nil
			}
		}
	} else {
		at := slices.Index(namesOf(all), args[0])
		if at < 0 {
			return Usage(fmt.Errorf("unknown command %q%s; the commands are %s", args[0], notHere(args[0], namesOf(all)), strings.Join(namesOf(all), ", ")))
		}
		c.Command, c.Args = all[at], args[1:]
	}
	switch {
	case c.Audience != forNobody:
		return c.configure()
	case len(c.Args) == 1 && isHelp(c.Args[0]):
		c.writeHelp(c.Stdout)
		return nil
	}
	return c.Run(c)
}

func isHelp(arg string) bool { return slices.Contains([]string{"-h", "-help", "--help"}, arg) }

// configure reads the command line and the configuration, and runs the command, unless help or the
// settings were asked for.
func (c *Call) configure() error {
	err := c.parse()
	if errors.Is(err, flag.ErrHelp) {
		c.writeHelp(c.Stdout)
		return nil
	}
	if err != nil {
		return err
	}
	if text, given := c.Given[c.NoSettings]; given && text != "false" {
		return c.Run(c)
	}
	if c.Settings, err = c.Load(); err != nil {
		return Usage(err)
	}
	if c.On("print-config") {
		c.Warn()
		c.Settings.Print(c.Stdout)
		return nil
	}
	return c.Run(c)
}

// Load reads the settings.
func (c *Call) Load() (*config.Config, error) { return config.Load(c.Given, c.Environ) }

// Misused says what is wrong with the operands.
func (c *Call) Misused(format string, args ...any) error {
	return Usage(fmt.Errorf(format+"; redlockd %s --help lists the flags", append(args, c.Name)...))
}

func namesOf(all []Command) (names []string) {
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

// NeedMasters is for a command that has no log and no embedded masters: it prints the warnings, and
// refuses a configuration without masters.
func (c *Call) NeedMasters() error {
	c.Warn()
	if len(c.Settings.Engine.Masters) > 0 {
		return nil
	}
	return Usage(fmt.Errorf(
		"%s needs masters outside of a server's process, and none are named: name them with --masters, or in the file of --config", c.Name))
}

// Warn prints the warnings of the configuration to standard error.
func (c *Call) Warn() {
	for _, warning := range c.Settings.Warnings {
		fmt.Fprintf(c.Stderr, "redlockd: warning: %s\n", warning)
	}
}
