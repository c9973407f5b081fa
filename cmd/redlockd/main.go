// Command redlockd serves distributed locks over the Redis protocol; `redlockd help` says how it is
// used.
//
// This page puts its rooms together:
//
//	main → serve     the server as a process
//	     → masters   check, bootstrap, members: what talks to the masters
//	     → client    ping, locks, info, top, unlock, reload: what talks to a redlockd that runs
//	     → run       holds a lock while a command runs, by the masters or through client
//	        └ cli    flags, help, completion, exit codes, what commands print alike
//	           └ config   files, flags and the environment become the options of proxy and redlock
//
// No room on one floor knows another, but for run, which connects as client does. Tests that start the program as a process stand here.
package main

import (
	"os"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/client"
	"redlockd/cmd/redlockd/masters"
	"redlockd/cmd/redlockd/run"
	"redlockd/cmd/redlockd/serve"
)

// commands in the order of the help text. The first is the default: `redlockd --listen :6380` serves.
var commands = []cli.Command{serve.Command, masters.Check, masters.Bootstrap, masters.Members, run.Command, client.Ping, client.Locks, client.Info, client.Top, client.Unlock, client.Reload}

// version is set by the linker for releases: -ldflags "-X main.version=1.2.3". Empty: it was not.
var version string

func main() {
	os.Exit(cli.Run(cli.Process{Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr, Version: version}, commands, os.Args[1:]))
}
