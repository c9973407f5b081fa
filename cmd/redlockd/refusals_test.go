package main

import (
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"redlockd/cmd/redlockd/cli"
)

// Goal: a server that cannot start says in one sentence what is wrong and what to do, and exits with 2: systemd and people tell it from a
// server that has failed. Method: the program as a process.
func TestRefusals(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	writeFile(t, dir+"/file", "", 0o600)
	file := func(text string) []string { return []string{"--config", configFile(t, text)} }
	embedded := func(args ...string) []string {
		return append([]string{"--masters", "embedded", "--listen", "127.0.0.1:0"}, args...)
	}
	for _, c := range []struct {
		name, variable string
		args           []string
		want           string // of the whole text
	}{
		{"a flag and no masters", "", []string{"--listen", "127.0.0.1:0"}, `masters: none are named: give the addresses .* masters = "embedded" \(--masters embedded, REDLOCKD_MASTERS=embedded\)`},
		{"a file and no masters", "", file("masters = []"), `\S+/config.toml:1: masters: none are named: .*`},
		{"a variable and no masters", "REDLOCKD_LOG_LEVEL=info", nil, `masters: none are named: .*`},
		{"embedded masters for others", "", embedded("--listen", "0.0.0.0:0"), `--listen: embedded masters are for trying, .* listen on 127.0.0.1 or a unix socket, or name independent Redis masters`},
		{"HTTP of embedded masters for others", "", embedded("--http-listen", ":0"), `--http-listen: embedded masters are for trying, .*`},
		{"nobody logs in", "", []string{"--masters", "127.0.0.1:1", "--listen", ":0"}, `--listen: protected mode: .* Name users in \[auth\] .*`},
		{"an even number of masters", "REDLOCKD_MASTERS=a:1,b:1", nil, `REDLOCKD_MASTERS: 2 masters .*: name an odd number \(5 is usual\)`},
		{"a secret that is not there", "", file("masters = \"embedded\"\n[auth]\nusers = [{name = \"a\", password_file = \"/nowhere\"}]"),
			`\S+:3: auth.users\[0\]: password_file: /nowhere cannot be read: no such file or directory: correct its path`},
		{"a file that is not there", "REDLOCKD_CONFIG=/nowhere", nil, `the configuration file /nowhere cannot be read: no such file or directory: correct its path`},
		{"an unknown key", "", file("[locks]\nmax_tll = \"5s\""), `\S+/config.toml:2: unknown setting locks.max_tll \(did you mean max_ttl\?\)`},
		{"an unknown variable", "REDLOCKD_MASTER=a:1", nil, `REDLOCKD_MASTER names no setting \(did you mean REDLOCKD_MASTERS\?\): correct it or unset it; .*`},
		{"an unknown flag", "", []string{"--master", "a:1"}, `unknown flag --master \(did you mean --masters\?\); redlockd serve --help lists the flags`},
		{"a port that is taken", "", embedded("--listen", taken.Addr().String()), `\S+ \(--listen\) is in use by another process: end that one, or choose another address with --listen`},
		{"a port for HTTP that is taken", "", embedded("--http-listen", taken.Addr().String()), `\S+ \(--http-listen\) is in use by another process: .*`},
		{"a socket in the way", "", embedded("--listen", "unix:"+dir+"/file"), `listen on \S+ \(--listen\): there is a file that is no socket: redlockd does not replace it; remove it, or choose another path`},
		{"no file for the audit", "REDLOCKD_AUDIT_FILE=/nowhere/audit", embedded(), `audit.file \(REDLOCKD_AUDIT_FILE\): the audit cannot be written: let redlockd create and write the file, .*`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if name, value, ok := strings.Cut(c.variable, "="); ok {
				t.Setenv(name, value)
			}
			p := begin(t, append([]string{"serve", "--log-level", "error"}, c.args...)...)
			p.wantExit(cli.ExitUsage)
			if !regexp.MustCompile(`^redlockd: (` + c.want + `)$`).MatchString(p.log()) {
				t.Errorf("got\n%s\nwant %s", p.log(), c.want)
			}
		})
	}
	if _, err := os.Stat(dir + "/file"); err != nil {
		t.Errorf("the file in the way: %v", err)
	}
}
