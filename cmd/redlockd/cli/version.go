package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// CurrentVersion is what the linker set, else the version of the module that go install has built, else
// dev.
func (p *Process) CurrentVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && p.Version == "" && info.Main.Version != "(devel)" {
		return cmp.Or(info.Main.Version, "dev")
	}
	return cmp.Or(p.Version, "dev")
}

var printVersion = Command{Name: "version", Summary: "print the version", Help: `Usage: redlockd version

Prints the version, the compiler, and the revision of the source.
`, Run: func(c *Call) error {
	if len(c.Args) > 0 {
		return Usage(fmt.Errorf("version takes no arguments, got %q", c.Args[0]))
	}
	fmt.Fprintf(c.Stdout, "redlockd %s (%s)\n", c.CurrentVersion(), buildDetails())
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
