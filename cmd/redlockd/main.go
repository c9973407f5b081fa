// Command redlockd serves distributed locks over the Redis protocol; `redlockd help` says how it is used.
//
// This package knows signals, flags and exit codes, and has one file for each subcommand:
//
//	main → serve, check, bootstrap, members, run, completion, man, version, help   hold.go is the second half of run
//	     → ping, locks, info, top, unlock, reload   client.go is their connection to a redlockd that runs
//	        └ flags.go → config.Load: files, flags and the environment become the options of the packages below
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"redlockd/cmd/redlockd/config"
)

// Exit codes. `redlockd help` lists them.
const (
	exitOK      = 0
	exitFailed  = 1 // could not start, or failed while it ran; for check: no lock can be granted; for bootstrap: not admitted; for members: not changed; for clients: no answer, or refused
	exitUsage   = 2 // the command line or the configuration is wrong
	exitDropped = 3 // a second signal came while the server was draining

	// Of run, which otherwise returns the exit code of its command. The last three are as in shells.
	exitHeld      = 120 // the lock is held by another
	exitNoQuorum  = 121
	exitLost      = 122 // the lock was lost while the command ran
	exitCannotRun = 126
	exitNotFound  = 127
	exitSignal    = 128 // + the number of the signal that ended the command, or the wait for the lock; of members: the wait for the end of a change
)

// process is the environment and the output of a command. Tests give it their own.
type process struct {
	environ        []string // as os.Environ
	stdout, stderr io.Writer
}

// command is one subcommand.
type command struct {
	name    string
	summary string
	run     func(p process, args []string) int
	help    string
	flags   func() *flagSet // nil: it takes none
}

// commands in the order of the help text. The first is the default: `redlockd --listen :6380` serves.
func commands() []command {
	return []command{
		{"serve", "serve locks (this is what redlockd does without a command)", serve, serveHelp, serveFlags},
		{"check", "probe the masters and explain what is wrong with them", check, checkHelp, checkFlags},
		{"bootstrap", "admit brand-new masters at once, without waiting for max_ttl", bootstrap, bootstrapHelp, bootstrapFlags},
		{"members", "show who the masters are, replace, add or remove one, or set max_ttl", members, membersHelp, membersFlags},
		{"run", "hold a lock while a command runs", runWithLock, runHelp, runFlags},
		{"ping", "ask a redlockd that runs for a sign of life: the health check of a container", ping, pingHelp, pingFlags},
		{"locks", "list who holds which lock, and who waits for it", locks, locksHelp, locksFlags},
		{"info", "print what a redlockd that runs says of itself", info, infoHelp, infoFlags},
		{"top", "show what a redlockd that runs does, anew every second", top, topHelp, topFlags},
		{"unlock", "release a lock that another client holds, without its token", unlock, unlockHelp, unlockFlags},
		{"reload", "have a redlockd that runs read its settings again", reload, reloadHelp, reloadFlags},
		{"completion", "print what bash, zsh or fish needs to complete this command line", completion, completionHelp, nil},
		{"man", "print the manual page", manual, manHelp, nil},
		{"version", "print the version", printVersion, versionHelp, nil},
		{"help", "explain a command, or all settings", help, helpHelp, nil},
	}
}

func main() {
	os.Exit(run(process{os.Environ(), os.Stdout, os.Stderr}, os.Args[1:]))
}

func run(p process, args []string) int {
	all := commands()
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		// Before the flags of the default command: redlockd --help is the overview, redlockd serve --help is about serve.
		if len(args) == 1 {
			switch args[0] {
			case "-h", "-help", "--help":
				return help(p, nil)
			case "-v", "-version", "--version":
				return printVersion(p, nil)
			}
		}
		return all[0].run(p, args)
	}
	var names []string
	for _, c := range all {
		if c.name == args[0] {
			return c.run(p, args[1:])
		}
		names = append(names, c.name)
	}
	return p.usageError(fmt.Errorf("unknown command %q%s; the commands are %s", args[0], config.DidYouMean(args[0], names), strings.Join(names, ", ")))
}

// usageError prints what is wrong with the command line or the configuration, one line per fault, and returns the exit
// code for it.
func (p process) usageError(err error) int {
	for _, e := range config.Flatten(err) {
		fmt.Fprintf(p.stderr, "redlockd: %v\n", e)
	}
	return exitUsage
}

// failed prints why a command could not do its work, and returns the exit code for it.
func (p process) failed(err error) int {
	fmt.Fprintf(p.stderr, "redlockd: %v\n", err)
	return exitFailed
}
