package serve

// Goal: the audit goes on where a tool has rotated its file. Method: files that are moved, and the
// writer alone. TestAuditFile runs the whole.

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A tool that rotates has moved the file, and made a new one in its place.
func TestAuditFileThatIsAnotherOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	file, err := openForAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	a := &auditFile{path: path, file: file, log: slog.New(slog.DiscardHandler)}
	defer func() { a.file.Close() }()
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(""), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write([]byte("{}\n")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{path: "{}\n", path + ".1": ""} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", filepath.Base(name), got, err, want)
		}
	}
}

// A file that cannot be made anew stays the old one, under its other name.
func TestAuditFileThatCannotBeOpenedAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "logs", "audit.log")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := openForAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	a := &auditFile{path: path, file: file, log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := errors.Join(os.Rename(filepath.Dir(path), filepath.Join(dir, "moved"))); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write([]byte("{}\n")); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "moved", "audit.log")); string(text) != "{}\n" {
		t.Errorf("the file that was moved: got %q", text)
	}
	if !strings.Contains(log.String(), "cannot be opened again") {
		t.Errorf("got the log %s", log.String())
	}
}
