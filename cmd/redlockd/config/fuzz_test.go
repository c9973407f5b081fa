package config

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// FuzzConfig: goal and method: whatever the file says, reading it does not panic or hang; every fault has a line that exists;
// and what is accepted can be printed and
// read again as the same, unless it holds a password: then not at all.
func FuzzConfig(f *testing.F) {
	text, err := os.ReadFile(shipped)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(text), filled, "", "masters = [\"a:1\", {addr = 'b:1', db = 3}]", "[[masters]]\naddr = \"a:1\"\n[[auth.users]]\nname = \"\"\"\nx\"\"\"\n",
		"[[0.0]]", "name = \"\xff\", password", "''=''", // found by this test
		"[locks]\nmax_ttl = 5\n[server", "a.\"b.c\".d = {e = [[1, 2], [\n]]}\n", "[master]\npassword = hunter2\n", "[log]\r\nlevel = \"debug\"\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := Default()
		err := c.readText("config.toml", text)
		for _, e := range Flatten(err) {
			var fault *fileError
			if !errors.As(e, &fault) {
				t.Fatalf("%v: not a fault of the file", e)
			}
			if last := strings.Count(text, "\n") + 1; fault.text == "" || fault.line < 0 || fault.line > last {
				t.Errorf("%v: on line %d of %d", e, fault.line, last)
			}
		}
		if err != nil {
			return
		}
		var printed strings.Builder
		c.Print(&printed)
		again := Default()
		err = again.readText("printed", printed.String())
		if secrets := strings.Contains(printed.String(), " = "+hidden); secrets != (err != nil) {
			t.Fatalf("printed as\n%s\nholds secrets: %v, read again: %v", &printed, secrets, err)
		}
		for i, s := range c.Settings {
			if got := again.Settings[i].Text(); err == nil && got != s.Text() {
				t.Errorf("%s: %s after printing and reading, %s before", s.Name, got, s.Text())
			}
		}
	})
}
