package main

// Goal: what redlockd check --library prints is enough for the library, is TOML, and is what
// libraries.md shows. Method: the document against the table in the code; a redlockd without and one
// with the lines of each library, and the commands of the library.

import (
	"slices"
	"strings"
	"testing"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/masters"
)

// knownLibraries are the libraries that check --library knows.
func knownLibraries() []string {
	at := slices.IndexFunc(masters.Check.Flags, func(f cli.Flag) bool { return f.Name == "library" })
	return masters.Check.Flags[at].Words
}

// Every library that the tests run has a row, under its name or that of the package.
func TestLibrariesAreInTheTable(t *testing.T) {
	for _, lib := range libraries {
		known := slices.ContainsFunc(knownLibraries(), func(name string) bool {
			return lib.name == name || strings.HasPrefix(lib.name, name+"-") || strings.TrimRight(lib.name, "0123456789") == name
		})
		switch lib.name {
		case "semaphore": // of redis-semaphore
		case "python-redis-lock": // does not work
		default:
			if !known {
				t.Errorf("%s has no row in libraryTable", lib.name)
			}
		}
	}
}

// libraryCommands are commands of the libraries that redlockd refuses without the settings of the
// library.
var libraryCommands = map[string][]string{
	"celery-once":      {"SET qo_tasks.add t PX 3600000 NX", "DEL qo_tasks.add"},
	"celery-singleton": {"SETNX SINGLETONLOCK_a id", "SET SINGLETONLOCK_b id NX EX 3600", "DEL SINGLETONLOCK_a"},
	"django":           {"SET :1:report t NX"},
	"laravel":          {"SETNX laravel_cache_report t"},
	"redis-py":         {"SET report t NX"},
	"rq":               {"SET rq:scheduler-lock:default 1 NX EX 61", "EXPIRE rq:scheduler-lock:default 61", "DEL rq:scheduler-lock:default"},
	"shedlock":         {"DEL job-lock:default:report"},
	"symfony":          {"SET report t NX PX 300000"},
}

func TestLinesForALibraryAreEnough(t *testing.T) {
	bare := launch(t)
	without := bare.dial()
	for _, name := range knownLibraries() {
		t.Run(name, func(t *testing.T) {
			commands := libraryCommands[name]
			code, lines, stderr := runCommand(nil, "check", "--library", name)
			if needsNone := strings.Contains(lines, "# It needs no settings.\n"); needsNone != (len(commands) == 0) {
				t.Fatalf("%d commands to try; want some in libraryCommands, if it needs settings, which is not so: %v", len(commands), needsNone)
			}
			if len(commands) == 0 {
				return
			}
			if code != cli.ExitOK || stderr != "" {
				t.Fatalf("exit code %d, errors %q", code, stderr)
			}
			t.Chdir(t.TempDir())
			writeFile(t, "config.toml", lines, 0o600)
			p := launch(t, "--config", "config.toml")
			with := p.dial()
			for _, command := range commands {
				if got := without.do(command); !strings.HasPrefix(got, "ERR ") {
					t.Errorf("without the lines, %s: got %s, want it refused", command, got)
				}
				if got := with.do(command); strings.HasPrefix(got, "ERR ") || got == "null" {
					t.Errorf("with the lines, %s: got %s, want it served. The lines:\n%s", command, got, lines)
				}
			}
		})
	}
}

func TestCheckLibrary(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "some.toml", "[locks]\nmax_ttl = \"10m\"\n[compat]\nallow_unguarded = [\"job-lock:*\", \"latch:*\"]\ndefault_ttl = \"30s\"\n", 0o600)
	writeFile(t, "all.toml", "[compat]\nallow_unguarded = true\n", 0o600)
	for _, c := range []struct{ args, want string }{
		{"--library Symfony", `# symfony
# Lines for config.toml. Under each group, each of them takes the place of the line that is there.

[locks]
# its store takes a lock for 300 s first, and for the lock's own TTL behind that.
max_ttl = "5m"
# Masters that serve already need besides: redlockd members set max_ttl 5m. If a majority of them forgets, no lock is granted for so long.

# At the library: or give the store a shorter time: ` + "`new RedisStore($redis, 30)`" + `; then it needs nothing.
`},
		{"--library redsync", "# redsync\n# It needs no settings.\n"},
		{"--library celery-once --config some.toml", `# celery-once
# Lines for config.toml. Under each group, each of them takes the place of the line that is there.

[locks]
# a task is locked for 1 h, or for its own timeout.
max_ttl = "1h"
# Masters that serve already need besides: redlockd members set max_ttl 1h. If a majority of them forgets, no lock is granted for so long.

[compat]
# the worker deletes the lock without comparing.
allow_unguarded = ["job-lock:*", "latch:*", "qo_*"]
`},
		{"--library laravel --config some.toml", "# laravel\n# The settings in effect are enough for it.\n\n# At the library: `forceRelease` deletes without comparing: " +
			"it needs the names of its locks, with all prefixes, in allow_unguarded.\n"},
		{"--library shedlock --config all.toml", "# shedlock\n# The settings in effect are enough for it.\n\n# At the library: better use `safeUpdate(true)`: then it needs " +
			"nothing. `lockAtMostFor` must not be above max_ttl.\n"},
	} {
		if code, stdout, stderr := runCommand(nil, append([]string{"check"}, strings.Fields(c.args)...)...); code != cli.ExitOK || stdout != c.want || stderr != "" {
			t.Errorf("check %s: exit code %d, errors %q, got\n%s\nwant code %d and\n%s", c.args, code, stderr, stdout, cli.ExitOK, c.want)
		}
	}
}
