package main

// Goal: `redlockd ping --inside`, the health check of the image, says of a server with any settings that it is alive, of one that hangs that it is not, and
// gives nobody anything else. Method: servers in mount namespaces of their own, as containers have them. TestContainerIsHealthy asks a docker engine.

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/redlock/redisproc"
)

// beginContained starts a redlockd in a mount namespace of its own. Who is not root needs a user namespace around it.
func beginContained(t *testing.T, args ...string) *program {
	t.Helper()
	redisproc.Need(t, "unshare", "nsenter")
	flags := "-m"
	if os.Geteuid() != 0 {
		flags = "-rm"
	}
	if out, err := exec.Command("unshare", flags, "true").CombinedOutput(); err != nil {
		redisproc.LeaveOut(t, fmt.Sprintf("no mount namespace can be made here: %v, %s", err, out))
	}
	script := filepath.Join(t.TempDir(), "contained.sh")
	writeFile(t, script, fmt.Sprintf("#!/bin/sh\nexec unshare %s %s \"$@\"\n", flags, binary(t)), 0o700)
	return beginCommand(t, exec.Command(script, append([]string{"serve", "--log-format", "json"}, args...)...))
}

// pingInside runs `redlockd ping --inside` in the mount namespace of the program.
func (p *program) pingInside(args ...string) (code int, said string) {
	enter := []string{"-t", strconv.Itoa(p.cmd.Process.Pid), "-m"}
	if os.Geteuid() != 0 {
		enter = append(enter, "-U", "--preserve-credentials")
	}
	cmd := exec.Command("nsenter", slices.Concat(enter, []string{binary(p.t), "ping", "--inside"}, args)...)
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(out)
}

func (p *program) wantAlive(when string) {
	p.t.Helper()
	if code, said := p.pingInside("--timeout", "1m"); code != cli.ExitOK || !regexp.MustCompile(`^alive in \S+ ms\n$`).MatchString(said) {
		p.t.Errorf("%s: ping --inside: got code %d and %q, want alive", when, code, said)
	}
}

func TestHealthWithAnySettings(t *testing.T) {
	dir := t.TempDir()
	writeGoodCertificate(t, dir, 1)
	secured := fmt.Sprintf("[server]\nlisten = \"127.0.0.1:0\"\ntls_cert = \"%[1]s/cert.pem\"\ntls_key = \"%[1]s/key.pem\"\n", dir)
	for name, settings := range map[string]string{
		"plain":                    "[server]\nlisten = \"127.0.0.1:0\"\n",
		"TLS":                      secured,
		"TLS, client certificates": secured + fmt.Sprintf("tls_client_ca = \"%s/cert.pem\"\n", dir),
		"a unix socket alone":      fmt.Sprintf("[server]\nlisten = \"unix:%s/s\"\n", dir),
		"several listeners":        fmt.Sprintf("[server]\nlisten = [\"127.0.0.2:0\", \"127.0.0.1:0\", \"unix:%s/t\"]\n", dir),
		"digests of passwords":     fmt.Sprintf("[server]\nlisten = \"127.0.0.1:0\"\n[auth]\nusers = [{name = \"a\", password = \"sha256:%x\", admin = false}]\n", sha256.Sum256([]byte("a"))),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "redlockd.toml")
			writeFile(t, file, "masters = \"embedded\"\n"+settings, 0o600)
			p := beginContained(t, "--config", file)
			p.waitLog("quorum reached")
			p.wantAlive("it serves")
			// Somebody breaks the file: the server goes on.
			writeFile(t, file, "nonsense", 0o600)
			p.wantAlive("its file is broken")
		})
	}
}

func TestHealthOfOneServer(t *testing.T) {
	p := beginContained(t, "--listen", "127.0.0.1:0", "--masters", "embedded", "--max-clients", "10")
	p.addr = p.logged("listening")
	p.waitLog("quorum reached")
	holder := p.dial()
	holder.lock("r", "t1")
	var full *wire
	for i := 0; ; i++ {
		full = p.dial()
		if got := full.do("PING"); got != "PONG" {
			if !strings.HasPrefix(got, "ERR max number of clients reached") || i > 20 {
				t.Fatalf("client %d: got %q", i, got)
			}
			break
		}
	}
	p.wantAlive("no client has a place")

	// Whoever else connects gets the same line, whatever they ask, and no connection stays.
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		conn, err := net.Dial("unix", "@redlockd/health/"+namespace)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(patience))
		if got, err := io.ReadAll(conn); string(got) != "alive\n" || err != nil {
			t.Fatalf("got %q and error %v, want alive, and the end", got, err)
		}
		conn.Close()
	}
	stranger, err := net.Dial("unix", "@redlockd/health/"+namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	io.WriteString(stranger, "UNLOCK r t1\r\nPING\r\n")
	if got, _ := io.ReadAll(stranger); strings.Trim(string(got), "alive\n") != "" {
		t.Errorf("a command on the socket: got %q, want nothing but alive", got)
	}

	p.signal(syscall.SIGSTOP)
	if code, said := p.pingInside("--timeout", "200ms"); code != cli.ExitFailed || !strings.Contains(said, "ping: the redlockd in this container does not answer") {
		t.Errorf("one that hangs: got code %d and %q", code, said)
	}
	p.signal(syscall.SIGCONT)
	p.wantAlive("it goes on")
	p.signal(syscall.SIGTERM)
	p.waitLog("draining")
	p.wantAlive("it drains")
	holder.want("UNLOCK r t1", "1")
	p.wantExit(cli.ExitOK)
}

func TestHealthOfNoServer(t *testing.T) {
	redisproc.Need(t, "unshare")
	flags := "-m"
	if os.Geteuid() != 0 {
		flags = "-rm"
	}
	out, _ := exec.Command("unshare", flags, binary(t), "ping", "--inside").CombinedOutput()
	if want := "redlockd: ping: no redlockd runs in this container, or on this machine outside of containers\n"; string(out) != want {
		t.Errorf("got %q, want %q", out, want)
	}
	wantRun(t, cli.ExitUsage, "", "--timeout: 1ms is outside 10ms … 1m", "ping", "--inside", "--timeout", "1ms")
}
