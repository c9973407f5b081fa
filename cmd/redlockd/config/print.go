package config

import (
	"fmt"
	"io"
	"strings"
)

// Print writes the settings in effect as config.toml would name them, each with its source. Passwords are replaced by a
// word that is no TOML, so that the output of a server with passwords cannot be loaded by mistake.
func (c *Config) Print(w io.Writer) {
	width := 0
	for _, s := range c.Settings {
		width = max(width, len(s.line()))
	}
	width = min(width, 40) // a long list of masters pushes only its own source aside
	group := ""
	for _, s := range c.Settings {
		if g := s.Group(); g != group {
			group = g
			fmt.Fprintf(w, "\n[%s]\n", g)
		}
		fmt.Fprintf(w, "%-*s  # %s\n", width, s.line(), s.source.where)
	}
}

func (s *Setting) line() string { return s.Key() + " = " + strings.ReplaceAll(s.Text(), "\n", " ") }
