package main

// The redlockd of the torture: that of this repository, or, with --planted, one in which a rule is broken. A torture that finds nothing proves
// nothing until it finds what is there.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// edit replaces what must stand in a file exactly once. Nothing old: the file is new. The path is from the top of the module, or absolute.
type edit struct{ file, old, new string }

func (e edit) path(root string) string {
	if filepath.IsAbs(e.file) {
		return e.file
	}
	return filepath.Join(root, e.file)
}

// planted is a bug that the torture must find, as two holders of one resource.
type planted struct {
	name, what string
	edit
}

var plants = []planted{
	{"quorum", "two of five masters are taken for a majority",
		edit{"redlock/quorum/quorum.go", "return masters/2 + 1 }", "return masters / 2 }"}},
	{"token", "UNLOCK ends a lock without a look at its token",
		edit{"redlock/lua/release.lua", "all = all and held[i] == (ARGV[i + 1] or ARGV[2])", "all = all and held[i]"}},
	{"memory", "votes of masters that may have forgotten count",
		edit{"redlock/quorum/quorum.go", "func (v Vote) Uncounted() Vote { //mutant:votes-counted-in-quarantine\n", "func (v Vote) Uncounted() Vote {\n\tif v != Pending {\n\t\treturn v\n\t}\n"}},
}

// plantNames are those that --planted takes.
func plantNames() (names []string) {
	for _, p := range plants {
		names = append(names, p.name)
	}
	return names
}

// apply makes the text of the file with the edit.
func (e edit) apply(root string) (string, error) {
	if e.old == "" {
		return e.new, nil
	}
	text, err := os.ReadFile(e.path(root))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), e.old); n != 1 {
		return "", fmt.Errorf("%s has %q %d times, want once: tell bench/torture/program.go where that is now", e.file, e.old, n)
	}
	return strings.Replace(string(text), e.old, e.new, 1), nil
}

// goroot is where Go's library is.
func goroot() string {
	out, _ := exec.Command("go", "env", "GOROOT").Output()
	return strings.TrimSpace(string(out))
}

// buildRedlockd builds it from the module into scratch, with edits of its files and of Go's.
func buildRedlockd(ctx context.Context, module, scratch string, edits []edit) (program string, err error) {
	program = filepath.Join(scratch, "redlockd")
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for i, e := range edits {
		text, err := e.apply(module)
		if err != nil {
			return "", err
		}
		copied := filepath.Join(scratch, fmt.Sprint(i, "-", filepath.Base(e.file)))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[e.path(module)] = copied
	}
	list, _ := json.Marshal(overlay)
	path := filepath.Join(scratch, "overlay.json")
	if err := os.WriteFile(path, list, 0o600); err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-overlay", path, "-o", program, "./cmd/redlockd")
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build redlockd: %w\n%s", err, out)
	}
	return program, nil
}
