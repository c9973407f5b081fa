package cli

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

// Flag is one flag, for parsing and for the help text. A command line only collects texts. config.Load
// reads them, so that a wrong value gets the same error from whatever source it comes.
type Flag struct {
	Name, Arg, Usage string   // arg empty: a switch
	Short            string   // one letter that means the same; empty: none
	Words            []string // the values that are possible; nil: nobody can list them
	Hidden           bool     // the command accepts and ignores it
}

// AllFlags are those of the settings that its audience has, and the command's own.
func (c *Command) AllFlags() []Flag {
	all := []Flag{{Name: config.FileFlag, Arg: "file", Usage: "read the settings in this file (default /etc/redlockd/config.toml, if it exists)"}}
	for _, s := range config.Default().Settings {
		ofClient := s.Group() == "client"
		if s.Flag == "" || ofClient && c.Audience != ForClient && c.Audience != ForEither {
			continue
		}
		h := Flag{Name: s.Flag, Arg: s.Arg, Words: s.Words, Usage: fmt.Sprintf("%s (default %s)", s.Usage, s.Text())}
		switch c.Audience {
		case ForClient:
			h.Hidden = !ofClient
		case ForMasters, ForEither:
			// Only serve uses these. The other commands accept them, so that all commands can be given
			// the same flags.
			h.Hidden = slices.Contains([]string{"server", "http", "log"}, s.Group())
			if s.Flag == "masters" {
				h.Usage, _, _ = strings.Cut(s.Usage, ";") // the rest is about a server without masters
			}
		}
		all = append(all, h)
	}
	all = append(all, Flag{Name: "print-config", Usage: "print the settings in effect and where each comes from, and exit"})
	return append(all, c.Flags...)
}

// On reports whether a switch was given.
func (c *Call) On(name string) bool { return c.Given[name] == "true" }

// Duration reads a flag that is a duration from least to most. limits says why these are the bounds; it
// may be empty.
func (c *Call) Duration(name string, standard, least, most time.Duration, limits string) (d time.Duration, err error) {
	text, given := c.Given[name]
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
func (c *Call) parse() error {
	if at := slices.Index(c.Args, "--"); c.Wraps && at >= 0 {
		c.Args, c.Wrapped = c.Args[:at], c.Args[at+1:]
	}
	set := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	names := []string{"--help"}
	if c.Audience == ForServer {
		names = append(names, "--version") // see start
	}
	for _, h := range c.AllFlags() {
		take := func(text string) error {
			c.Given[h.Name] = text
			return nil
		}
		for _, name := range []string{h.Name, h.Short} {
			if name == "" {
				continue
			}
			if h.Arg == "" {
				set.BoolFunc(name, h.Usage, func(text string) error {
					on, err := strconv.ParseBool(text)
					if err != nil {
						return errors.New("neither true nor false")
					}
					return take(strconv.FormatBool(on))
				})
			} else {
				set.Func(name, h.Usage, take)
			}
		}
		names = append(names, "--"+h.Name)
	}
	err := set.Parse(c.Args)
	c.Args = set.Args()
	if c.Form != "" && !c.Wraps {
		for c.Args = nil; err == nil && set.NArg() > 0; err = set.Parse(set.Args()[1:]) {
			c.Args = append(c.Args, set.Arg(0))
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
		return c.Misused("%s", text)
	case c.Form != "" || len(c.Args) == 0:
		return nil
	case slices.Contains(namesOf(c.all), c.Args[0]):
		return Usage(fmt.Errorf("the command comes first: redlockd %s [flags]", c.Args[0]))
	}
	for name, text := range c.Given {
		if strings.HasSuffix(text, ",") {
			return c.Misused("unexpected argument %q: no space may stand behind a comma in the list of --%s", c.Args[0], name)
		}
	}
	return c.Misused("unexpected argument %q", c.Args[0])
}
