package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"redlockd/cmd/redlockd/config"
)

// flagSet is the command line of one command. It only collects texts. config.Load reads them, so that a wrong value gets the same
// error from whatever source it comes.
type flagSet struct {
	command string
	flags   []flagHelp
	given   map[string]string // by name
	// operands takes the arguments after the flags; nil: there may be none.
	operands func(args []string) error
	// flagsBehind allows flags between and behind the operands.
	flagsBehind bool
}

// flagHelp is one flag, for parsing and for the help text.
type flagHelp struct {
	name, arg, usage string   // arg empty: a switch
	words            []string // the values that are possible; nil: nobody can list them
	hidden           bool     // the command accepts and ignores it
}

// newFlagSet has the flags of all commands that read the configuration, and the command's own.
func newFlagSet(command string, own ...flagHelp) *flagSet {
	f := &flagSet{command: command, given: make(map[string]string)}
	f.flags = append(f.flags, flagHelp{name: config.FileFlag, arg: "file", usage: "read the settings in this file (config.toml documents all of them); without it, no file is read"})
	for _, s := range config.Default().Settings {
		if s.Flag == "" {
			continue
		}
		h := flagHelp{name: s.Flag, arg: s.Arg, words: s.Words(), usage: fmt.Sprintf("%s (default %s)", s.Usage, s.Text())}
		switch ofClient := s.Group() == "client"; {
		case slices.Contains(clientCommands, command):
			h.hidden = !ofClient
		case ofClient:
			continue
		case command != "serve":
			// Only serve uses these. The other commands accept them, so that all commands can be given the same flags.
			h.hidden = slices.Contains([]string{"server", "http", "log"}, s.Group())
			if s.Flag == "masters" {
				h.usage, _, _ = strings.Cut(s.Usage, ";") // the rest is about a server without masters
			}
		}
		f.flags = append(f.flags, h)
	}
	f.flags = append(f.flags, flagHelp{name: "print-config", usage: "print the settings in effect and where each comes from, and exit"})
	f.flags = append(f.flags, own...)
	return f
}

// on reports whether a switch was given.
func (f *flagSet) on(name string) bool { return f.given[name] == "true" }

// parse reads the command line. It returns flag.ErrHelp when help was asked for.
func (f *flagSet) parse(args []string) error {
	set := flag.NewFlagSet(f.command, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	names := []string{"--help"}
	if f.command == "serve" {
		names = append(names, "--version") // see main
	}
	for _, h := range f.flags {
		take := func(text string) error {
			f.given[h.name] = text
			return nil
		}
		if h.arg == "" {
			set.BoolFunc(h.name, h.usage, func(text string) error {
				on, err := strconv.ParseBool(text)
				if err != nil {
					return errors.New("neither true nor false")
				}
				return take(strconv.FormatBool(on))
			})
		} else {
			set.Func(h.name, h.usage, take)
		}
		names = append(names, "--"+h.name)
	}
	err := set.Parse(args)
	operands := set.Args()
	if f.flagsBehind {
		for operands = nil; err == nil && set.NArg() > 0; err = set.Parse(set.Args()[1:]) {
			operands = append(operands, set.Arg(0))
		}
	}
	switch {
	case err != nil || f.operands != nil && f.on("print-config"):
	case f.operands != nil:
		err = f.operands(operands)
	case set.NArg() > 0:
		if isCommand(set.Arg(0)) {
			return fmt.Errorf("the command comes first: redlockd %s [flags]", set.Arg(0))
		}
		err = fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		err = fmt.Errorf("unknown flag --%s%s", name, config.DidYouMean("--"+name, names))
	} else if name, ok := strings.CutPrefix(err.Error(), "flag needs an argument: -"); ok {
		err = fmt.Errorf("--%s needs a value", name)
	}
	return fmt.Errorf("%w; redlockd %s --help lists the flags", err, f.command)
}

func isCommand(name string) bool {
	return slices.ContainsFunc(commands(), func(c command) bool { return c.name == name })
}

// usage writes the flags.
func (f *flagSet) usage(w io.Writer) {
	for _, h := range f.flags {
		if h.hidden {
			continue
		}
		name := "--" + h.name
		if h.arg != "" {
			name += " " + h.arg
		}
		fmt.Fprintf(w, "  %-28s %s\n", name, h.usage)
	}
}

// configure reads the configuration for a command. If it returns nil, the command is done, with this exit code: configure has printed
// the help or the settings that were asked for, or what is wrong.
func (p process) configure(flags *flagSet, args []string) (*config.Config, int) {
	if err := flags.parse(args); errors.Is(err, flag.ErrHelp) {
		return nil, help(p, []string{flags.command})
	} else if err != nil {
		return nil, p.usageError(err)
	}
	c, err := config.Load(flags.given, p.environ)
	if err != nil {
		return nil, p.usageError(err)
	}
	if flags.on("print-config") {
		p.warn(c.Warnings)
		c.Print(p.stdout)
		return nil, exitOK
	}
	return c, exitOK
}

// configureMasters is configure for a command that has no log and no embedded masters: it prints the warnings, and refuses a
// configuration without masters.
func (p process) configureMasters(flags *flagSet, args []string) (*config.Config, int) {
	c, code := p.configure(flags, args)
	if c == nil {
		return nil, code
	}
	if code := p.needMasters(flags, c); code != exitOK {
		return nil, code
	}
	return c, exitOK
}

// needMasters is what configureMasters does behind configure. If it does not return exitOK, the command is done.
func (p process) needMasters(flags *flagSet, c *config.Config) int {
	p.warn(c.Warnings)
	if len(c.Engine.Masters) == 0 {
		return p.usageError(fmt.Errorf(
			"%s needs masters, and none are configured (a server would start five inside its own process, where nobody else locks); name them with --masters or --config", flags.command))
	}
	return exitOK
}

// warn prints warnings to standard error.
func (p process) warn(warnings []string) {
	for _, warning := range warnings {
		fmt.Fprintf(p.stderr, "redlockd: warning: %s\n", warning)
	}
}
