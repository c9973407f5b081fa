package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker for releases: -ldflags "-X main.version=1.2.3". Empty: it was not, see currentVersion.
var version string

// currentVersion is what the linker set, else the version of the module that go install has built, else dev.
func currentVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && version == "" && info.Main.Version != "(devel)" {
		return cmp.Or(info.Main.Version, "dev")
	}
	return cmp.Or(version, "dev")
}

const versionHelp = `Usage: redlockd version

Prints the version, the compiler, and the revision of the source.
`

func printVersion(p process, args []string) int {
	if len(args) > 0 {
		return p.usageError(fmt.Errorf("version takes no arguments, got %q", args[0]))
	}
	fmt.Fprintf(p.stdout, "redlockd %s (%s)\n", currentVersion(), buildDetails())
	return exitOK
}

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
