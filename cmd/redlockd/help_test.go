package main

// Goal: the help texts suffice to use redlockd. Method: every flag, setting, command and exit code must stand in them.

import (
	"cmp"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
)

func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := runCommand(nil, args...)
	if code != cli.ExitOK || stderr != "" {
		t.Fatalf("redlockd %v: exit code %d, errors %q; want 0, none", args, code, stderr)
	}
	return stdout
}

func TestHelpCoversEveryFlag(t *testing.T) {
	for _, c := range commands {
		command := c.Name
		text := helpOf(t, command, "--help")
		for _, f := range c.AllFlags() {
			if f.Hidden {
				if command == "serve" || strings.Contains(text, "--"+f.Name) {
					t.Errorf("redlockd %s --help: --%s is for a server alone", command, f.Name)
				}
				continue
			}
			if !strings.Contains(text, "  --"+f.Name+" ") || f.Usage == "" {
				t.Errorf("redlockd %s --help: --%s is missing, or has no text", command, f.Name)
			}
		}
		if serves := command == "serve"; strings.Contains(text, "five inside this process") != serves || strings.Contains(text, "--listen") != serves {
			t.Errorf("redlockd %s --help: got\n%s\nwant what a server alone can do there only for serve", command, text)
		}
		if same := helpOf(t, "help", command); same != text {
			t.Errorf("redlockd help %s differs from redlockd %s --help", command, command)
		}
		if short := helpOf(t, command, "-h"); short != text {
			t.Errorf("redlockd %s -h differs from redlockd %s --help", command, command)
		}
	}
}

func TestHelpCoversEverySetting(t *testing.T) {
	text := helpOf(t, "help", "settings")
	for _, s := range config.Default().Settings {
		if !strings.Contains(text, fmt.Sprintf("\n  %s = %s\n      %s\n", s.Key(), s.Text(), s.Usage)) || s.Usage == "" {
			t.Errorf("redlockd help settings: %s is missing, or has no text", s.Name)
		}
		if !regexp.MustCompile(`\b` + s.Environment() + `\b`).MatchString(text) {
			t.Errorf("redlockd help settings: %s is missing", s.Environment())
		}
	}
}

func TestHelpCoversEveryCommandAndExitCode(t *testing.T) {
	text := helpOf(t, "--help")
	for _, c := range commands {
		if !strings.Contains(text, "\n  "+c.Name+" ") || !strings.Contains(text, c.Summary) {
			t.Errorf("redlockd --help: the command %s is missing", c.Name)
		}
	}
	_, list, _ := strings.Cut(text, "\nCommands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		name := strings.Fields(line)[0]
		help := helpOf(t, name, "--help")
		if n := len(regexp.MustCompile(`(?m)^Exit codes( of run)?: .*$`).FindAllString(help, -1)); n != 1 {
			t.Errorf("redlockd %s --help has %d lines of exit codes, want one", name, n)
		}
		if name != "run" && !regexp.MustCompile(`(?m)^Exit codes: 0 .*; 2 .*the (command line|configuration)`).MatchString(help) && name != "serve" {
			t.Errorf("redlockd %s --help does not say what 0 and 2 are", name)
		}
	}
	for _, code := range []int{cli.ExitOK, cli.ExitFailed, cli.ExitUsage, cli.ExitDropped, cli.ExitHeld, cli.ExitNoQuorum, cli.ExitLost, cli.ExitCannotRun, cli.ExitNotFound, cli.ExitSignal} {
		if !strings.Contains(text, fmt.Sprintf("\n  %d  ", code)) {
			t.Errorf("redlockd --help: exit code %d is missing", code)
		}
	}
	if same := helpOf(t, "help"); same != text {
		t.Error("redlockd help differs from redlockd --help")
	}
}

// Lines that wrap in a terminal of usual width are not read.
func TestHelpFitsATerminal(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"help", "serve"}, {"help", "check"}, {"help", "bootstrap"}, {"help", "members"}, {"help", "run"}, {"help", "ping"}, {"help", "locks"}, {"help", "info"}, {"help", "top"}, {"help", "unlock"}, {"help", "reload"}, {"help", "settings"}} {
		for line := range strings.Lines(helpOf(t, args...)) {
			if n := len([]rune(line)); n > 140 {
				t.Errorf("redlockd %s: %d letters in a line: %s", strings.Join(args, " "), n, line)
			}
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := make(map[string]string)
	for _, s := range config.Default().Settings {
		for _, name := range []string{"setting " + s.Name, "variable " + s.Environment(), "flag " + cmp.Or(s.Flag, "none of "+s.Name)} {
			if other, twice := seen[name]; twice {
				t.Errorf("the %s stands for %s and for %s", name, other, s.Name)
			}
			seen[name] = s.Name
		}
	}
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}, {"-v"}} {
		if got := helpOf(t, args...); !regexp.MustCompile(`^redlockd (dev|v\S+) \(go1\.\S+, \w+/\w+.*\)\n$`).MatchString(got) {
			t.Errorf("redlockd %s: got %q, want the version, the compiler, the system", args[0], got)
		}
	}
}

// A release sets the version at link time; the name of the variable must stay the one that the Dockerfile uses.
func TestVersionCanBeSetByTheLinker(t *testing.T) {
	out, err := exec.Command("go", "run", "-ldflags", "-X main.version=1.2.3", ".", "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "redlockd 1.2.3 (") {
		t.Errorf("got %q (%v), want redlockd 1.2.3", out, err)
	}
}

func TestDidYouMean(t *testing.T) {
	known := []string{"max_ttl", "min_ttl", "listen", "drain_timeout", "db"}
	for name, want := range map[string]string{
		"max_tll":      " (did you mean max_ttl?)",
		"maxttl":       " (did you mean max_ttl?)",
		"MAX_TTL":      " (did you mean max_ttl?)",
		"lsiten":       " (did you mean listen?)",
		"draintimeout": " (did you mean drain_timeout?)",
		"password":     "",
		"":             "",
		"x":            "",
	} {
		if got := config.DidYouMean(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
