package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"redlockd/proxy"
)

// What commands print, in the same way.

// PrintJSON prints a value as the other commands do.
func PrintJSON(w io.Writer, value any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(proxy.PrintableJSON(text.Bytes()))
	return err
}

// WriteTable aligns the columns.
func WriteTable(w io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	t.Flush()
}

// ListOf writes "a, b and c".
func ListOf(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// InMs prints a duration in milliseconds.
func InMs(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// OneLine is an error that joins several, on one line.
func OneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// IsTerminal tells whether the file is our controlling terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}
