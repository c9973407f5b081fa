package main

// Goal: the audit is in its file, by whatever means that is rotated, and a disk that takes nothing
// stops no lock. Method: the program as a process; the file is moved, copied and truncated, or is one
// that is always full.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"redlockd/cmd/redlockd/cli"
)

// auditLines waits until the file has so many lines, and returns them.
func auditLines(t *testing.T, path string, n int) (records []map[string]any) {
	t.Helper()
	var text []byte
	until(t, fmt.Sprintf("%s has %d lines", path, n), func() bool {
		text, _ = os.ReadFile(path)
		return bytes.Count(text, []byte("\n")) >= n && bytes.HasSuffix(text, []byte("\n"))
	})
	for line := range strings.Lines(string(text)) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		records = append(records, record)
	}
	return records
}

func TestAuditFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	p := launch(t, "--config", configFile(t, "masters = \"embedded\"\n[auth]\nusers = [{name = \"default\", password = \"secret\"}]\n[audit]\nfile = \""+path+"\"\nlocks = true\n"))
	c := p.dial()
	for _, command := range []string{"AUTH wrong", "AUTH secret", "LOCK r 30s TOKEN t", "UNLOCK r FORCE stuck"} {
		c.do(command)
	}
	records := auditLines(t, path, 3)
	for i, want := range []string{"WRONGPASS", "granted", "released"} {
		if got := records[i]["outcome"]; got != want {
			t.Errorf("line %d: got the outcome %v, want %s: %v", i+1, got, want, records[i])
		}
	}
	if records[2]["reason"] != "stuck" || records[2]["user"] != "default" {
		t.Errorf("got %v, want the reason and the user", records[2])
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the file: got %v, %v, want 0600", info.Mode(), err)
	}
	// Moved away, and truncated.
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	c.do("LOCK a 30s TOKEN t")
	auditLines(t, path, 1)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	c.do("LOCK b 30s TOKEN t")
	if r := auditLines(t, path, 1); len(r) != 1 || !strings.Contains(toJSON(t, r[0]), `"b"`) {
		t.Errorf("got %v, want the record of b alone", r)
	}
	// What is pending is written when the server ends.
	c.do("UNLOCK a t")
	c.do("UNLOCK b t")
	p.signal(syscall.SIGTERM)
	if code := p.exitCode(); code != cli.ExitOK {
		t.Errorf("got the exit code %d", code)
	}
	auditLines(t, path, 3)
	if text, _ := os.ReadFile(path + ".1"); bytes.Contains(text, []byte("secret")) || bytes.Contains(text, []byte("wrong")) {
		t.Errorf("the audit has a password: %s", text)
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAuditFileThatCannotBeWritten(t *testing.T) {
	p := begin(t, "serve", "--listen", "127.0.0.1:0", "--config", auditConfig(t, filepath.Join(t.TempDir(), "nowhere", "audit.log")))
	p.wantExit(cli.ExitUsage)
	if log := p.log(); !strings.Contains(log, "audit.file (") || !strings.Contains(log, "no such file or directory") {
		t.Errorf("got %s, want the setting, its place and the reason", log)
	}
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Fatal(err)
	}
	full := launch(t, "--config", auditConfig(t, "/dev/full"))
	c := full.dial()
	c.grant("LOCK r 30s TOKEN t")
	full.waitLog("records of the audit are dropped")
	if got := c.do("INFO stats"); !strings.Contains(got, "audit_dropped:") || strings.Contains(got, "audit_dropped:0") {
		t.Errorf("got %s, want records dropped", got)
	}
}

func auditConfig(t *testing.T, file string) string {
	return configFile(t, "masters = \"embedded\"\n[audit]\nfile = \""+file+"\"\nlocks = true\n")
}
