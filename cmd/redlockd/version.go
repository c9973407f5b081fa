package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker for releases: -ldflags "-X main.version=1.2.3".
var version = "dev"

const versionHelp = `Usage: redlockd version

Prints the version, the compiler, and the revision of the source.
`

func printVersion(p process, args []string) int {
	if len(args) > 0 {
		return p.usageError(fmt.Errorf("version takes no arguments, got %q", args[0]))
	}
	fmt.Fprintf(p.stdout, "redlockd %s (%s)\n", version, buildDetails())
	return exitOK
}

// buildDetails tells what a report of a fault should name.
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
