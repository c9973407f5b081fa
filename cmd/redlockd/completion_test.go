package main

// Goal: what a shell completes is what the command line takes. Method: the shells themselves, with the
// words that a user has typed; and of the manual page, that groff has nothing to complain about and
// that every command, flag and setting is in it.

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/redlock/redisproc"
)

// completed are the words that a shell offers behind those that are typed, of which the last one may be
// empty.
var completed = []struct {
	typed []string
	some  []string // these are offered
	none  []string // these are not
}{
	{[]string{"ch"}, []string{"check"}, []string{"serve", "run"}},
	{[]string{""}, []string{"serve", "check", "members", "run", "completion", "help"}, []string{"--no-wait"}},
	{[]string{"--li"}, []string{"--listen"}, []string{"--no-wait"}},
	{[]string{"check", "--"}, []string{"--masters", "--config", "--json", "--help"}, []string{"--listen", "--no-wait"}},
	{[]string{"serve", "--log-level", ""}, []string{"debug", "info", "warn", "error"}, []string{"json", "--listen"}},
	{[]string{"members", "re"}, []string{"replace", "remove"}, []string{"add"}},
	{[]string{"help", "se"}, []string{"serve", "settings"}, []string{"check"}},
	{[]string{"completion", ""}, []string{"bash", "zsh", "fish"}, []string{"serve"}},
}

// shell runs a script in a shell, with the completion of redlockd in the file $1.
func shell(t *testing.T, name, script string) string {
	t.Helper()
	redisproc.Need(t, name)
	file := t.TempDir() + "/completion"
	writeFile(t, file, helpOf(t, "completion", name), 0o600)
	args := []string{"--norc", "-c", script, "bash", file}
	switch name {
	case "zsh":
		args = []string{"-f", "-c", script, "zsh", file}
	case "fish":
		args = []string{"--no-config", "-c", script, file}
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary(t))+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s\n%s", name, err, script, out)
	}
	return string(out)
}

func quoteAll(words []string) string {
	var quoted []string
	for _, w := range words {
		quoted = append(quoted, "'"+w+"'")
	}
	return strings.Join(quoted, " ")
}

func wantOffered(t *testing.T, name string, typed, offered, some, none []string) {
	t.Helper()
	for _, word := range some {
		if !slices.Contains(offered, word) {
			t.Errorf("%s: redlockd %s: does not offer %s: %q", name, strings.Join(typed, " "), word, offered)
		}
	}
	for _, word := range none {
		if slices.Contains(offered, word) {
			t.Errorf("%s: redlockd %s: offers %s", name, strings.Join(typed, " "), word)
		}
	}
}

func TestCompletionBash(t *testing.T) {
	for _, c := range completed {
		out := shell(t, "bash", "source $1\nCOMP_WORDS=(redlockd "+quoteAll(c.typed)+"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_redlockd; printf '%s\\n' \"${COMPREPLY[@]}\"")
		wantOffered(t, "bash", c.typed, strings.Fields(out), c.some, c.none)
	}
	for script, want := range map[string]string{
		"COMP_WORDS=(redlockd serve --log-level = wa)":  "warn", // as bash splits --log-level=wa
		"COMP_WORDS=(redlockd serve --log-format =)":    "text json",
		"COMP_WORDS=(redlockd run r -- ech)":            "echo",
		"COMP_WORDS=(redlockd run r -- echo --)":        "",
		"COMP_WORDS=(redlockd serve --listen '')":       "",
		"COMP_WORDS=(redlockd check --config /etc/pas)": "/etc/passwd",
	} {
		out := shell(t, "bash", "source $1\n"+script+"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_redlockd; printf '%s\\n' \"${COMPREPLY[@]}\"")
		got := strings.Fields(out)
		slices.Sort(got)
		for _, word := range strings.Fields(want) {
			if !slices.Contains(got, word) {
				t.Errorf("%s: got %q, want %q", script, got, want)
			}
		}
		if want == "" && len(got) > 0 {
			t.Errorf("%s: got %q, want nothing", script, got)
		}
	}
}

func TestCompletionFish(t *testing.T) {
	for _, c := range completed {
		out := shell(t, "fish", "source $argv[1]; complete -C 'redlockd "+strings.Join(c.typed, " ")+"'")
		var offered []string
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			offered = append(offered, word)
		}
		wantOffered(t, "fish", c.typed, offered, c.some, c.none)
	}
}

// The functions of zsh's completion system work in an editor alone. Here they print what they are asked
// for.
func TestCompletionZsh(t *testing.T) {
	const stubs = "compdef() { }\n_describe() { print -rl -- ${(P)2} }\n_files() { print files }\n_normal() { print normal $CURRENT $words }\nsource $1\n"
	complete := func(words string) string {
		return shell(t, "zsh", stubs+"words=(redlockd "+words+"); CURRENT=$#words; _redlockd")
	}
	for _, c := range completed {
		var offered []string
		for line := range strings.Lines(complete(quoteAll(c.typed))) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), ":")
			offered = append(offered, word)
		}
		wantOffered(t, "zsh", c.typed, offered, c.some, c.none)
	}
	for words, want := range map[string]string{
		"serve --log-level=wa":    "--log-level=warn\n",
		"check --config ''":       "files\n",
		"run r -- echo --l":       "normal 2 echo --l\n",
		"check --library redisso": "redisson\n",
	} {
		if got := complete(words); got != want {
			t.Errorf("%s: got %q, want %q", words, got, want)
		}
	}
}

func TestCompletionIsRefused(t *testing.T) {
	for args, want := range map[string]string{
		"completion":      "redlockd: completion takes the name of a shell: bash, zsh, fish\n",
		"completion bsh":  "redlockd: no completion for \"bsh\" (did you mean bash?); there is one for bash, zsh, fish\n",
		"completion a b":  "redlockd: completion takes the name of a shell: bash, zsh, fish\n",
		"man -k redlockd": "redlockd: man takes no arguments, got \"-k\"\n",
	} {
		if code, stdout, stderr := runCommand(nil, strings.Fields(args)...); code != cli.ExitUsage || stdout != "" || stderr != want {
			t.Errorf("redlockd %s: got code %d, %q, errors %q; want %d, errors %q", args, code, stdout, stderr, cli.ExitUsage, want)
		}
	}
}

func TestManual(t *testing.T) {
	redisproc.Need(t, "groff")
	cmd := exec.CommandContext(t.Context(), "groff", "-man", "-ww", "-Kutf8", "-Tutf8", "-P-cbou", "-rLL=200n")
	cmd.Stdin = strings.NewReader(helpOf(t, "man"))
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil || problems.Len() > 0 {
		t.Errorf("groff: %v\n%s", err, problems.String())
	}
	page := strings.ReplaceAll(string(out), "‐", "-")
	has := func(what, pattern string) {
		t.Helper()
		if !regexp.MustCompile(`(?m)^ *` + pattern).MatchString(page) {
			t.Errorf("the page lacks %s", what)
		}
	}
	for _, c := range commands {
		has("redlockd "+c.Name, "redlockd "+c.Name+"$")
		for _, h := range c.VisibleFlags() {
			has("--"+h.Name, "--"+h.Name+`\b`)
		}
		for line := range strings.Lines(c.Help) {
			if line = strings.TrimSpace(line); !strings.Contains(page, line) {
				t.Errorf("redlockd %s: the page lacks the line %q", c.Name, line)
			}
		}
	}
	for _, s := range config.Default().Settings {
		has(s.Name, regexp.QuoteMeta(s.Key()+" = "))
	}
}
