package cli

import (
	"fmt"
	"io"
	"strings"
)

var manual = Command{Name: "man", Summary: "print the manual page", Help: `Usage: redlockd man

Prints the manual page: what the help texts say, with all settings. To read it: redlockd man | man -l -
`, Run: func(c *Call) error {
	if len(c.Args) > 0 {
		return Usage(fmt.Errorf("man takes no arguments, got %q", c.Args[0]))
	}
	writeManual(c.Stdout, c.all, c.CurrentVersion())
	return nil
}}

// roff is text that man prints as it is: a backslash, a minus, and a point or quote at the beginning of
// a line mean something to it.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// writeManual writes the page in the macros of man(7). Help texts keep their lines: they have tables.
func writeManual(w io.Writer, all []Command, version string) {
	asItIs := func(text string) { fmt.Fprintf(w, ".nf\n%s\n.fi\n", roff(strings.Trim(text, "\n"))) }
	var overview, settings strings.Builder
	helpOverview(&overview, all)
	helpSettings(&settings)

	fmt.Fprintf(w, ".TH REDLOCKD 1 \"\" \"redlockd %s\" \"User Commands\"\n", roff(version))
	fmt.Fprint(w, ".SH NAME\nredlockd \\- distributed locks over the Redis protocol\n")
	fmt.Fprint(w, ".SH SYNOPSIS\n.B redlockd\n.RI [ command ]\n.RI [ flags ]\n.SH DESCRIPTION\n")
	asItIs(overview.String())
	fmt.Fprint(w, ".SH COMMANDS\n")
	for _, c := range all {
		fmt.Fprintf(w, ".SS redlockd %s\n", c.Name)
		asItIs(c.Help)
		if c.Audience == forNobody {
			continue
		}
		fmt.Fprint(w, ".PP\nFlags:\n")
		for _, f := range c.VisibleFlags() {
			fmt.Fprintf(w, ".TP\n\\fB\\-\\-%s\\fR \\fI%s\\fR\n%s\n", roff(f.Name), roff(f.Arg), roff(f.Usage))
		}
	}
	fmt.Fprint(w, ".SH SETTINGS\n")
	asItIs(settings.String())
	fmt.Fprint(w, `.SH FILES
.TP
.I /etc/redlockd/config.toml
the settings, if no other file is named; every setting is explained in it
.SH SEE ALSO
.BR redis\-cli (1),
.BR redis\-server (1)
`)
}
