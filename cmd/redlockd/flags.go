package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"redlockd/cmd/redlockd/config"
)

// flagHelp is one flag, for parsing and for the help text. A command line only collects texts. config.Load reads them, so that a wrong
// value gets the same error from whatever source it comes.
type flagHelp struct {
	name, arg, usage string   // arg empty: a switch
	words            []string // the values that are possible; nil: nobody can list them
	hidden           bool     // the command accepts and ignores it
}

// allFlags are those of the settings that its audience has, and the command's own.
func (c *command) allFlags() []flagHelp {
	all := []flagHelp{{name: config.FileFlag, arg: "file", usage: "read the settings in this file (config.toml documents all of them); without it, no file is read"}}
	for _, s := range config.Default().Settings {
		ofClient := s.Group() == "client"
		if s.Flag == "" || ofClient && c.audience != forClient {
			continue
		}
		h := flagHelp{name: s.Flag, arg: s.Arg, words: s.Words(), usage: fmt.Sprintf("%s (default %s)", s.Usage, s.Text())}
		switch c.audience {
		case forClient:
			h.hidden = !ofClient
		case forMasters:
			// Only serve uses these. The other commands accept them, so that all commands can be given the same flags.
			h.hidden = slices.Contains([]string{"server", "http", "log"}, s.Group())
			if s.Flag == "masters" {
				h.usage, _, _ = strings.Cut(s.Usage, ";") // the rest is about a server without masters
			}
		}
		all = append(all, h)
	}
	all = append(all, flagHelp{name: "print-config", usage: "print the settings in effect and where each comes from, and exit"})
	return append(all, c.flags...)
}

// on reports whether a switch was given.
func (c *call) on(name string) bool { return c.given[name] == "true" }

// duration reads a flag that is a duration from least to most. limits says why these are the bounds; it may be empty.
func (c *call) duration(name string, standard, least, most time.Duration, limits string) (d time.Duration, err error) {
	text, given := c.given[name]
	if d = standard; given {
		d, err = config.ParseDuration(text)
	}
	if err == nil && (d < least || d > most) {
		err = fmt.Errorf("%s is outside %s … %s%s", config.FormatDuration(d), config.FormatDuration(least), config.FormatDuration(most), limits)
	}
	if err != nil {
		return d, fmt.Errorf("--%s: %w", name, err)
	}
	return d, nil
}

// parse reads the command line. It returns flag.ErrHelp when help was asked for.
func (c *call) parse() error {
	if at := slices.Index(c.args, "--"); c.wraps && at >= 0 {
		c.args, c.wrapped = c.args[:at], c.args[at+1:]
	}
	set := flag.NewFlagSet(c.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	names := []string{"--help"}
	if c.audience == forServer {
		names = append(names, "--version") // see start
	}
	for _, h := range c.allFlags() {
		take := func(text string) error {
			c.given[h.name] = text
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
	err := set.Parse(c.args)
	c.args = set.Args()
	if c.form != "" && !c.wraps {
		for c.args = nil; err == nil && set.NArg() > 0; err = set.Parse(set.Args()[1:]) {
			c.args = append(c.args, set.Arg(0))
		}
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		text := err.Error()
		if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
			text = fmt.Sprintf("unknown flag --%s%s", name, config.DidYouMean("--"+name, names))
		} else if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
			text = fmt.Sprintf("--%s needs a value", name)
		}
		return c.misused("%s", text)
	case c.form != "" || len(c.args) == 0:
		return nil
	case slices.Contains(namesOf(c.all), c.args[0]):
		return usageError{fmt.Errorf("the command comes first: redlockd %s [flags]", c.args[0])}
	}
	return c.misused("unexpected argument %q", c.args[0])
}
