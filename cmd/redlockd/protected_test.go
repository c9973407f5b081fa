package main

// Goal: redlockd does not serve other machines while nobody has to log in, unless it is told to, and
// says what to do. Method: the program as a process; and the rule by itself for addresses that a test
// should not open.

import (
	"net"
	"testing"

	"redlockd/cmd/redlockd/cli"
)

func TestProtectedMode(t *testing.T) {
	file := configFile(t, "masters = [\"127.0.0.1:1\"]\n[server]\nlisten = \"0.0.0.0:0\"\n")
	code, stdout, stderr := runBinary(t, "serve", "--config", file)
	want := "redlockd: " + file + ":3: server.listen: protected mode: other machines can reach 0.0.0.0:0, and nobody has to log in there. " +
		"Name users in [auth] (or tls_client_ca in [server], then clients must show certificates); or, if everybody who can reach it may take and release " +
		"every lock, set protected_mode = false in [server] (REDLOCKD_SERVER_PROTECTED_MODE=false)\n"
	if code != cli.ExitUsage || stdout != "" || stderr != want {
		t.Errorf("exit code %d, %q, %q; want %d, nothing, %q", code, stdout, stderr, cli.ExitUsage, want)
	}
	// Who does not serve reads the same file, and is not concerned.
	wantRun(t, cli.ExitOK, "0.0.0.0:0", "", "serve", "--config", file, "--print-config")
	_, addrs := startMasters(t, 1)
	wantRun(t, cli.ExitFailed, addrs, "", "check", "--config", file, "--masters", addrs)

	for _, way := range []struct{ name, value, greeting string }{
		{"REDLOCKD_SERVER_PROTECTED_MODE", "false", "PONG"},
		{"REDLOCKD_AUTH_USERS", "default:secret", "NOAUTH Authentication required."},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Setenv(way.name, way.value)
			p := begin(t, "serve", "--config", file, "--log-format", "json")
			_, port, _ := net.SplitHostPort(p.logged("listening"))
			p.addr = "127.0.0.1:" + port
			p.dial().want("PING", way.greeting)
		})
	}
}
