package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// currentVersion is what the linker set, else the version of the module that go install has built, else dev.
func (p *process) currentVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && p.version == "" && info.Main.Version != "(devel)" {
		return cmp.Or(info.Main.Version, "dev")
	}
	return cmp.Or(p.version, "dev")
}

var printVersion = command{name: "version", summary: "print the version", help: `Usage: redlockd version

Prints the version, the compiler, and the revision of the source.
`, run: func(c *call) error {
	if len(c.args) > 0 {
		return usageError{fmt.Errorf("version takes no arguments, got %q", c.args[0])}
	}
	fmt.Fprintf(c.stdout, "redlockd %s (%s)\n", c.currentVersion(), buildDetails())
	return nil
}}

// buildDetails are the facts that a bug report should have.
func buildDetails() string {
	details := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return details
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			details += ", revision " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			details += " with changes"
		}
	}
	return details
}
