package main

// Goal: what redlockd check --library prints is enough for the library, is TOML, and is what libraries.md shows. Method: the document
// against the table in the code; a redlockd without and one with the lines of each library, and the commands of the library.

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/proxy"
)

// documentRow is the library as libraries.md shows it.
func (l *libraryNeeds) documentRow() string {
	var settings []string
	for _, need := range l.settings {
		alone := libraryNeeds{settings: []libraryNeed{need}}
		for _, line := range alone.missing(config.Default()) {
			settings = append(settings, fmt.Sprintf("`%s`: %s", line.text, need.why))
		}
	}
	return strings.TrimRight(fmt.Sprintf("| %s | %s | %s", l.name, strings.Join(settings, "<br>"), l.client), " ") + " |"
}

func TestLibrariesInTheDocument(t *testing.T) {
	text, err := os.ReadFile("libraries.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, nothing, got []string
	for i := range libraryTable {
		if l := &libraryTable[i]; len(l.settings) == 0 && l.client == "" {
			nothing = append(nothing, l.name)
		} else {
			want = append(want, l.documentRow())
		}
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| `--library`") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("libraries.md does not have the table of libraryTable, which is\n%s\n\ngot\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
	if sentence := "These need no settings: " + strings.Join(nothing, ", ") + "."; !strings.Contains(strings.Join(strings.Fields(string(text)), " "), sentence) {
		t.Errorf("libraries.md does not say: %s", sentence)
	}
	if !slices.IsSortedFunc(libraryTable, func(a, b libraryNeeds) int { return strings.Compare(a.name, b.name) }) {
		t.Error("libraryTable is not in the order of the names")
	}
}

// Every library that the tests run has a row, under its name or that of the package.
func TestLibrariesAreInTheTable(t *testing.T) {
	for _, lib := range libraries {
		known := slices.ContainsFunc(libraryTable, func(l libraryNeeds) bool {
			return lib.name == l.name || strings.HasPrefix(lib.name, l.name+"-") || strings.TrimRight(lib.name, "0123456789") == l.name
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

// libraryCommands are commands of the libraries that redlockd refuses without the settings of the library.
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
	bare.waitLog("quorum reached")
	without := bare.dial()
	for i := range libraryTable {
		l := &libraryTable[i]
		if len(l.settings) == 0 {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			commands := libraryCommands[l.name]
			if len(commands) == 0 {
				t.Fatal("no commands to try: libraryCommands has none")
			}
			code, lines, stderr := runCommand(nil, "check", "--library", l.name)
			if code != cli.ExitOK || stderr != "" {
				t.Fatalf("exit code %d, errors %q", code, stderr)
			}
			t.Chdir(t.TempDir())
			writeFile(t, "config.toml", lines, 0o600)
			p := launch(t, "--config", "config.toml")
			p.waitLog("quorum reached")
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

// The document's table says what each setting alone would be; together they must be in bounds.
func TestLibraryNeedsAreInBounds(t *testing.T) {
	for i := range libraryTable {
		for _, need := range libraryTable[i].settings {
			given := 0
			for _, is := range []bool{need.maxTTL > 0, need.defaultTTL > 0, len(need.unguarded) > 0} {
				if is {
					given++
				}
			}
			if given != 1 || need.why == "" || need.maxTTL > 0 && need.maxTTL <= config.Default().Engine.MaxTTL || need.maxTTL > 24*time.Hour {
				t.Errorf("%s: %+v: want one value, which the defaults do not allow, and its reason", libraryTable[i].name, need)
			}
		}
	}
	if config.Default().Front.DefaultTTL != 0 || len(proxy.DefaultOptions().AllowUnguarded) != 0 {
		t.Error("the defaults are not those that libraryTable is about")
	}
}
