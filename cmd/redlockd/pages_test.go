package main

// Goal: what the pages for people show is what happens. Method: README keeps to its size; every link of every page leads somewhere; the
// dialogues of README and proxy/commands.md are held with redis-cli. The recipes of README: recipes_test.go.

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestSizeOfREADME(t *testing.T) {
	const linesMax, columnsMax = 180, 110
	lines := strings.Split(strings.TrimSuffix(readPage(t, "README.md"), "\n"), "\n")
	if len(lines) > linesMax {
		t.Errorf("README.md has %d lines, at most %d: move what few need to the page that is about it", len(lines), linesMax)
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > columnsMax {
			t.Errorf("README.md:%d has %d columns, at most %d", i+1, n, columnsMax)
		}
	}
}

// readPage reads a file of the repository, by its path from the top.
func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anchors are the names of the sections of a page, as GitHub makes them of the headings.
func anchors(page string) map[string]bool {
	names := map[string]bool{}
	for _, heading := range regexp.MustCompile("(?m)^#+ (.*)$").FindAllStringSubmatch(page, -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, heading[1])
		names[name] = true
	}
	return names
}

func TestLinksOfPages(t *testing.T) {
	pages := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "build" || d.Name() == "node_modules" || d.Name() == "dist"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".md"):
			return nil
		}
		pages++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			to := link[1] + link[2]
			if strings.HasPrefix(to, "https://") {
				continue
			}
			file, section, _ := strings.Cut(to, "#")
			target := filepath.Join(filepath.Dir(path), file)
			if file == "" {
				target = path
			}
			if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: the link %s leads to no file", path, to)
			} else if section != "" {
				other, err := os.ReadFile(target)
				if err != nil {
					return err
				}
				if !anchors(string(other))[section] {
					t.Errorf("%s: the link %s leads to no section", path, to)
				}
			}
		}
		return nil
	})
	if err != nil || pages < 8 {
		t.Fatalf("%d pages, %v", pages, err)
	}
}

// TestDialoguesOfPages holds the dialogues of the pages with a redlockd. A line "> command" is sent by redis-cli, "2> command" by another
// one; what follows is its reply. A token, the number of a slot, a digest, and a number of four digits or more may be other ones, and "…" stands for the rest of a reply.
func TestDialoguesOfPages(t *testing.T) {
	_, addrs := startMasters(t, 3)
	p := launch(t, "--masters", addrs, "--bootstrap")
	held := 0
	for _, page := range []string{"README.md", "proxy/commands.md"} {
		section := ""
		for _, part := range regexp.MustCompile("(?ms)^## ([^\n]*)$|^```\n(.*?)^```$").FindAllStringSubmatch(readPage(t, page), -1) {
			if part[1] != "" {
				section = part[1]
			} else if regexp.MustCompile(`(?m)^\d?> `).MatchString(part[2]) {
				held++
				t.Run(section, func(t *testing.T) { holdDialogue(t, p, part[2]) })
			}
		}
	}
	if held < 12 {
		t.Errorf("the pages have %d dialogues", held)
	}
}

var (
	promptPattern = regexp.MustCompile(`^(\d?)> (.*)`)
	namePattern   = regexp.MustCompile(`"(?:[\w-]{27}\.\w{8}|\w+#\d+)"`) // a token or a slot
	digestPattern = regexp.MustCompile(`"[0-9a-f]{16}"`)
	numberPattern = regexp.MustCompile(`\d{4,}`)
	remarkPattern = regexp.MustCompile(`\s+<- .*`)
	tookPattern   = regexp.MustCompile(`^\(\d+\.\d\ds\)$`) // redis-cli says how long a slow reply took
)

func holdDialogue(t *testing.T, p *program, text string) {
	talk := &dialogue{t: t}
	t.Cleanup(talk.print)
	host, port, _ := strings.Cut(p.addr, ":")
	clients := map[string]*player{}
	names := map[string]string{} // those of the page, to those of this run
	var want, got []string
	compare := func() {
		for i, line := range want {
			line = remarkPattern.ReplaceAllString(line, "")
			switch {
			case line == "…":
				return
			case i >= len(got):
				t.Fatalf("got %q, want more: %q", got, want)
			}
			shown, real := namePattern.FindString(line), namePattern.FindString(got[i])
			if shown != "" && real != "" {
				if known := names[shown]; known != "" && known != real {
					t.Errorf("got %s, want %s", real, known)
				}
				names[shown] = real
			}
			if a, b := mask(got[i]), mask(line); a != b {
				t.Errorf("line %d: got %q, want %q", i+1, got[i], line)
			}
		}
		if len(got) > len(want) {
			t.Errorf("got %q, want %q only", got, want)
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		prompt := promptPattern.FindStringSubmatch(line)
		if prompt == nil {
			if len(clients) > 0 { // before, it starts redlockd
				want = append(want, line)
			}
			continue
		}
		compare()
		if clients[prompt[1]] == nil {
			clients[prompt[1]] = talk.start("redis-cli "+prompt[1], exec.Command("redis-cli", "-h", host, "-p", port, "--no-raw"))
		}
		var here []string
		for shown, real := range names {
			here = append(here, strings.Trim(shown, `"`), strings.Trim(real, `"`))
		}
		want, got = nil, askCLI(clients[prompt[1]], strings.NewReplacer(here...).Replace(prompt[2]))
	}
	compare()
	releaseAll(t, p)
}

// mask hides what differs from run to run.
func mask(line string) string {
	line = digestPattern.ReplaceAllString(namePattern.ReplaceAllString(line, `"name"`), `"digest"`)
	return numberPattern.ReplaceAllStringFunc(line, func(n string) string { return strings.Repeat("9", len(n)) })
}

// releaseAll releases what p's clients hold.
func releaseAll(t *testing.T, p *program) {
	named := false
	for line := range strings.Lines(redisCLI(t, p.addr, "LOCKS") + "\n") {
		switch name := strings.TrimSpace(line); {
		case name == "resources" || name == "token-digest":
			named = name == "resources"
		case named:
			redisCLI(t, p.addr, "UNLOCK", name, "FORCE", "the dialogue is over")
		}
	}
}

// askCLI has a redis-cli send the command, and returns the lines that it prints.
func askCLI(p *player, command string) (reply []string) {
	p.t.Helper()
	const end = `"end of the reply"`
	p.send(command)
	p.send("ECHO " + end)
	for {
		switch line := p.answer(); {
		case line == end:
			return reply
		case !tookPattern.MatchString(line):
			reply = append(reply, line)
		}
	}
}
