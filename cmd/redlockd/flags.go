package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// flagSet is the command line of one command. It only collects texts: what they mean is up to load, so that a wrong
// value is told in the same words whatever source it comes from.
type flagSet struct {
	command string
	flags   []flagHelp
	given   map[string]string // by name
	// operands takes what stands behind the flags; nil: nothing may stand there.
	operands func(args []string) error
}

// flagHelp is one flag, for parsing and for the help text.
type flagHelp struct {
	name, arg, usage string // arg empty: a switch
}

// newFlagSet has the flags of all commands that read the configuration, and the command's own.
func newFlagSet(command string, own ...flagHelp) *flagSet {
	f := &flagSet{command: command, given: make(map[string]string)}
	f.flags = append(f.flags, flagHelp{configFlag, "file", "read the settings in this file (config.toml documents all of them); without it, no file is read"})
	for _, s := range newConfig().settings {
		if s.flag != "" {
			f.flags = append(f.flags, flagHelp{s.flag, s.arg, fmt.Sprintf("%s (default %s)", s.usage, s.text())})
		}
	}
	f.flags = append(f.flags, flagHelp{"print-config", "", "print the settings in effect and where each comes from, and exit"})
	f.flags = append(f.flags, own...)
	return f
}

// on reports whether a switch was given.
func (f *flagSet) on(name string) bool { return f.given[name] == "true" }

// parse reads the command line. It returns flag.ErrHelp when help was asked for.
func (f *flagSet) parse(args []string) error {
	set := flag.NewFlagSet(f.command, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	var names []string
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
	switch {
	case err != nil || f.operands != nil && f.on("print-config"):
	case f.operands != nil:
		err = f.operands(set.Args())
	case set.NArg() > 0:
		err = f.surplus(set.Arg(0))
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		err = fmt.Errorf("unknown flag --%s%s", name, didYouMean("--"+name, names))
	} else if name, ok := strings.CutPrefix(err.Error(), "flag needs an argument: -"); ok {
		err = fmt.Errorf("--%s needs a value", name)
	}
	return fmt.Errorf("%w; redlockd %s --help lists the flags", err, f.command)
}

func (f *flagSet) surplus(arg string) error {
	isCommand := func(c command) bool { return c.name == arg }
	if all := commands(); slices.ContainsFunc(all, isCommand) {
		return fmt.Errorf("the command comes first: redlockd %s [flags]", arg)
	}
	return fmt.Errorf("unexpected argument %q", arg)
}

// usage writes the flags.
func (f *flagSet) usage(w io.Writer) {
	for _, h := range f.flags {
		name := "--" + h.name
		if h.arg != "" {
			name += " " + h.arg
		}
		fmt.Fprintf(w, "  %-28s %s\n", name, h.usage)
	}
}
