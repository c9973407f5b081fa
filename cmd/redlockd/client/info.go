package client

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"redlockd/cmd/redlockd/cli"
)

const infoForm = "redlockd info [flags] [section…]"

var Info = cli.Command{Name: "info", Summary: "print what a redlockd that runs says of itself", Audience: cli.ForClient, Form: infoForm, Run: runInfo,
	Flags: []cli.Flag{{Name: "json", Usage: "print an object for each section; lines like master0 are objects, too"}, timeoutFlag(clientTimeout)},
	Help: `Usage: ` + infoForm + `

Prints what a redlockd that runs says of itself, its clients, masters and locks: the command INFO. Sections are server, clients,
memory, stats, masters, locks, users, errorstats and more; without one, it prints all but commandstats; "all" prints that, too.

Exit codes: 0 done; 1 the server does not answer, or refuses; 2 the command line or the configuration is wrong.
`}

// runInfo prints INFO of a server.
func runInfo(c *cli.Call) error {
	return withServer(c, func(server *Connection) error {
		v, err := server.Do(append([]string{"INFO"}, c.Args...)...)
		switch {
		case err != nil:
			return err
		case len(c.Args) > 0 && v.Text == "":
			return fmt.Errorf("INFO has no section %s; redlockd info lists them", strings.Join(c.Args, ", "))
		case c.On("json"):
			return printInfoJSON(c.Stdout, infoOf(v.Text))
		}
		_, err = io.WriteString(c.Stdout, strings.ReplaceAll(v.Text, "\r\n", "\n"))
		return err
	})
}

// printInfoJSON prints an object of the sections.
func printInfoJSON(w io.Writer, sections map[string]map[string]string) error {
	all := make(map[string]map[string]any)
	for section, fields := range sections {
		all[section] = make(map[string]any)
		for name, text := range fields {
			all[section][name] = infoValue(text)
		}
	}
	return cli.PrintJSON(w, all)
}

// infoValue is a number, an object for name=value,…, or a text.
func infoValue(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	parts := make(map[string]any)
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return text
		}
		parts[name] = infoValue(value)
	}
	return parts
}
