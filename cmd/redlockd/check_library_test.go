package main

// Goal: what redlockd check --library prints is enough for the library, is TOML, and tells what is in
// force; what libraries.md quotes is what redlockd answers. Method: a redlockd without and one with the
// lines of each library, and the commands of the library; masters with another max_ttl; the document.

import (
	"os"
	"regexp"
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
		if !known && lib.name != "semaphore" { // of redis-semaphore
			t.Errorf("%s has no row in libraryTable", lib.name)
		}
	}
}

// libraryCommands are commands of the libraries that redlockd refuses without the settings of the
// library.
var libraryCommands = map[string][]string{
	"celery-once":      {"SET qo_tasks.add t PX 3600000 NX", "DEL qo_tasks.add"},
	"celery-singleton": {"SETNX SINGLETONLOCK_a id", "SET SINGLETONLOCK_b id NX EX 3600", "DEL SINGLETONLOCK_a"},
	"django-redis":     {"SET :1:report t NX", "SET :1:report2 t NX PX 300000", "SET :1:feed-lock-1 t NX PX 600000", "DEL :1:feed-lock-1"},
	"huey":             {"SET huey.r.locks.locks.lock.report 1 NX", "DEL huey.r.locks.locks.lock.report"},
	"laravel": {"SET laravel-database-laravel-cache-report t EX 120 NX", "SETNX laravel-database-laravel-cache-report2 t",
		"SET laravel-database-laravel-cache-framework/schedule-1f1200 t EX 3600 NX", "SET laravel-database-laravel-cache-framework/schedule-1f t EX 86400 NX",
		"DEL laravel-database-laravel-cache-framework/schedule-1f", "DEL laravel-database-laravel-cache-framework/command-send",
		"SETNX laravel-database-laravel-cache-laravel_unique_job:Job: t", "DEL laravel-database-laravel-cache-laravel_unique_job:Job:"},
	"redis-py": {"SET report t NX"},
	"rq":       {"EVAL \"if redis.call('set', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then return 1 end return 0\" 1 rq:scheduler-lock:3 t 61", "SET rq:scheduler-lock:default 1 NX EX 61", "EXPIRE rq:scheduler-lock:default 61", "DEL rq:scheduler-lock:default"},
	"shedlock": {"SET job-lock:default:report t NX PX 600000", "SET job-lock:default:report t XX PX 60000", "DEL job-lock:default:report"},
	"symfony":  {"SET report t NX PX 300000"},
}

// Of the libraries that the tests do not run, commands that redlockd serves with the defaults.
func TestCommandsServedByDefault(t *testing.T) {
	p := launch(t)
	client := p.dial()
	release := ` EVAL "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0" 1 `
	for _, c := range []struct{ command, want string }{
		{"SET laravel-cache-report t EX 60 NX", "OK"}, // laravel
		{release + "laravel-cache-report t", "1"},
		{"SET php-malkusch-lock:report t NX PX 30001", "OK"}, // malkusch-lock
		{release + "php-malkusch-lock:report t", "1"},
		{"SET lock_report t NX EX 4", "OK"},
		{`EVAL "if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then redis.call('expire', KEYS[1], ARGV[2]) return 1 end return 0" 1 sherlock t 60`, "1"},
		{release + "sherlock t", "1"},
		{"SET :1:report t NX PX 30000", "OK"}, // django-redis
		{release + ":1:report t", "1"},
		{"SET huey.r.locks.locks.lock.report 1 NX EX 30", "OK"},
	} {
		if got := client.do(strings.TrimSpace(c.command)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.command, got, c.want)
		}
	}
}

func TestLinesForALibraryAreEnough(t *testing.T) {
	bare := launch(t)
	without := bare.dial()
	for _, name := range knownLibraries() {
		t.Run(name, func(t *testing.T) {
			commands := libraryCommands[name]
			code, lines, stderr := runCommand(nil, "check", "--library", name)
			wantCode := cli.ExitOK
			if len(commands) > 0 {
				wantCode = cli.ExitFailed
			}
			if code != wantCode || stderr != "" {
				t.Fatalf("exit code %d, errors %q, and %d commands to try; want code %d. A library that needs settings has commands in libraryCommands", code, stderr, len(commands), wantCode)
			}
			t.Chdir(t.TempDir())
			writeFile(t, "config.toml", lines, 0o600)
			if code, again, stderr := runCommand(nil, "check", "--library", name, "--config", "config.toml"); code != cli.ExitOK || stderr != "" || strings.Contains(again, "#   needs ") || strings.Contains(again, "Lines for config.toml") {
				t.Errorf("with the lines: exit code %d, errors %q, got\n%s\nwant nothing needed", code, stderr, again)
			}
			if len(commands) == 0 {
				return
			}
			p := launch(t, "--config", "config.toml", "--masters", "embedded")
			with := p.dial()
			for _, command := range commands {
				if words := strings.Fields(command); slices.Contains([]string{"DEL", "EXPIRE"}, words[0]) || slices.Contains(words, "XX") {
					without.do("LOCK " + words[1] + " 50s") // what it would change somebody must hold
				}
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
	writeFile(t, "some.toml", "[locks]\nmax_ttl = \"30s\"\n[compat]\nallow_unguarded = [\"job-lock:*\", \"latch:*\"]\nscripts = false\n", 0o600)
	writeFile(t, "all.toml", "[locks]\nmax_ttl = \"10m\"\n[compat]\nallow_unguarded = true\n", 0o600)
	price := "The price: if a majority of them forgets, no lock is granted for so long.\n"
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--library Symfony", cli.ExitFailed, `# symfony, with a max_ttl of 1m (of the settings):
#   works: ` + "`new RedisStore($redis, 30)` and `createLock($name, 30)`" + `: 30 s
#   needs max_ttl = "5m": ` + "`createLock($name)`, with a store from `redis://…`" + `: 300 s
#     Without: ` + "`acquire()`" + ` throws LockAcquiringException.
# At the library: both the store and ` + "`createLock`" + ` ask for 300 s by default; a shorter TTL for one of them is not enough.
#
# Lines for config.toml, for all these uses. Under each group, each of them takes the place of the line that is there.

[locks]
# 5m for ` + "`createLock($name)`, with a store from `redis://…`" + `
max_ttl = "5m"

# Masters that serve already need: redlockd members set max_ttl 5m. ` + price},
		{"--library go-redis", cli.ExitOK, "# go-redis, with a max_ttl of 1m (of the settings):\n#   works: any lock with a TTL up to max_ttl\n"},
		{"--library huey --config some.toml", cli.ExitFailed, `
# Warning: scripts = false is in force: most libraries release with a script, and then cannot.
`},
		// A default_ttl above max_ttl would not load.
		{"--library redis-py --config some.toml", cli.ExitFailed, "\n[compat]\n# for `lock(name)`\ndefault_ttl = \"30s\"\n"},
		{"--library rq --config some.toml", cli.ExitFailed, `
[compat]
# rq:scheduler-lock:* for the scheduler's lock, versions 1 and 2
allow_unguarded = ["job-lock:*", "latch:*", "rq:scheduler-lock:*"]
`},
		{"--library shedlock --config all.toml", cli.ExitOK, "#   works: `lockAtMostFor = \"10m\"` without `safeUpdate`: 10 min, deleted and extended without comparing\n# At the library: use"},
		{"--library malkusch-lock", cli.ExitOK, "\n#   refused: `new RedisMutex($redis, $name)`, version 3\n#     it asks for a TTL of 1000 years"},
		{"--library redsync --json", cli.ExitOK, `{
  "library": "redsync",
  "max_ttl_ms": 60000,
  "max_ttl_of": "the settings",
  "uses": [
    {
      "use": "` + "`NewMutex(name)`" + `: 8 s",
      "works": true
    }
  ]
}
`},
	} {
		code, stdout, stderr := runCommand(nil, append([]string{"check"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stdout, c.want) || stderr != "" {
			t.Errorf("check %s: exit code %d, errors %q, got\n%s\nwant code %d and in it\n%s", c.args, code, stderr, stdout, c.code, c.want)
		}
	}
}

// The max_ttl of the membership counts, not that of the settings.
func TestCheckLibraryAsksTheMembership(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	t.Setenv("REDLOCKD_MASTERS", addrs)
	if code, _, stderr := runCommand(os.Environ(), "bootstrap", "--max-ttl", "2m"); code != cli.ExitOK {
		t.Fatalf("bootstrap: exit code %d, %s", code, stderr)
	}
	check := func(wantCode int, want string, args ...string) {
		t.Helper()
		code, stdout, stderr := runCommand(os.Environ(), append([]string{"check", "--library", "symfony"}, args...)...)
		if code != wantCode || !strings.Contains(stdout, want) || stderr != "" {
			t.Errorf("check %q: exit code %d, errors %q, got\n%s\nwant code %d and in it\n%s", args, code, stderr, stdout, wantCode, want)
		}
	}
	check(cli.ExitFailed, "max_ttl of 2m (of the membership)", "--max-ttl", "5m")
	check(cli.ExitFailed, "redlockd members set max_ttl 5m", "--max-ttl", "5m")
	if code, _, stderr := runCommand(os.Environ(), "members", "set", "max_ttl", "5m"); code != cli.ExitOK {
		t.Fatalf("members set: exit code %d, %s", code, stderr)
	}
	// What is too short in the file only is no obstacle, but the file counts when all masters forget.
	check(cli.ExitOK, "max_ttl of 5m (of the membership)")
	check(cli.ExitOK, "\nmax_ttl = \"5m\"\n")
	for _, s := range servers {
		s.Kill()
	}
	check(cli.ExitFailed, "max_ttl of 1m (of the settings, for the membership cannot be read)")
}

// libraries.md quotes each refusal behind the commands that get it. Other quotations are among these.
func TestRefusalsInTheDocument(t *testing.T) {
	text, err := os.ReadFile("libraries.md")
	if err != nil {
		t.Fatal(err)
	}
	_, addrs := startMasters(t, 3) // embedded ones have other advice
	p := launch(t, "--masters", addrs, "--bootstrap")
	quoted := regexp.MustCompile("`([^`]+)`")
	answers, rest := []string{}, ""
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 || !strings.HasPrefix(cells[1], "`ERR ") {
			rest += line
			continue
		}
		client, got := p.dial(), ""
		client.do("LOCK held 20s")
		for _, command := range quoted.FindAllStringSubmatch(cells[0], -1) {
			got = client.do(command[1])
		}
		if want := strings.Trim(cells[1], "`"); got != want {
			t.Errorf("libraries.md has %s\ngot  %s\nwant %s", cells[0], got, want)
		}
		answers = append(answers, got)
	}
	if len(answers) < 5 {
		t.Errorf("%d refusals are quoted in a table; want more", len(answers))
	}
	for _, quotation := range quoted.FindAllStringSubmatch(rest, -1) {
		if begin := strings.TrimSuffix(quotation[1], "…"); strings.HasPrefix(begin, "ERR ") &&
			!slices.ContainsFunc(answers, func(answer string) bool { return strings.HasPrefix(answer, begin) }) {
			t.Errorf("libraries.md quotes %q, which its table of refusals does not have", begin)
		}
	}
}
