// Command redlockd serves distributed locks over the Redis protocol; `redlockd help` says how it is used.
//
//	main → serveCommand, check, bootstrap, members, run   hold.go is the second half of run
//	     → ping, locks, info, top, unlock, reload   client.go is their connection to a redlockd that runs
//	        └ command.go, flags.go → config.Load: files, flags and the environment become the options of the packages below
package main

import (
	"os"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/masters"
	"redlockd/cmd/redlockd/serve"
)

// commands in the order of the help text. The first is the default: `redlockd --listen :6380` serves.
var commands = []cli.Command{serve.Command, masters.Check, masters.Bootstrap, masters.Members, masters.Run, ping, locks, info, top, unlock, reload}

// version is set by the linker for releases: -ldflags "-X main.version=1.2.3". Empty: it was not.
var version string

func main() {
	os.Exit(cli.Run(cli.Process{Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr, Version: version}, commands, os.Args[1:]))
}
