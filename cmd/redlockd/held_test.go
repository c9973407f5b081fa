package main

// Goal: a lock under HOLD lives as long as the process that holds it, and no process believes in one
// that another may have. Method: the program and real redis-servers as processes; clients and servers
// are stopped and killed.

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/redlock/redisproc"
)

// startCLI starts a redis-cli that stays connected. It answers with the lines of a reply.
func (p *program) startCLI() *player {
	p.t.Helper()
	redisproc.Need(p.t, "redis-cli")
	_, port, _ := strings.Cut(p.addr, ":")
	return (&dialogue{t: p.t}).start("redis-cli", exec.Command("redis-cli", "-p", port))
}

// info is a number of INFO.
func (w *wire) info(name string) int {
	w.t.Helper()
	_, rest, ok := strings.Cut(w.do("INFO"), "\n"+name+":")
	text, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.Atoi(text)
	if !ok || err != nil {
		w.t.Fatalf("INFO has no number %s: %q", name, text)
	}
	return n
}

// until waits until the number of INFO is what is wanted.
func (w *wire) until(name string, ok func(n int) bool) {
	w.t.Helper()
	until(w.t, "another "+name, func() bool { return ok(w.info(name)) })
}

// eventually sends a command again until the reply is what is wanted.
func (w *wire) eventually(command string, ok func(got string) bool) {
	w.t.Helper()
	until(w.t, "another reply to "+command, func() bool { return ok(w.do(command)) })
}

func TestHeldByAProcessThatStops(t *testing.T) {
	p := launch(t)
	stopped, killed, other := p.startCLI(), p.startCLI(), p.dial()
	if token := stopped.ask("LOCK stopped 3s HOLD RELEASE"); token == "" {
		t.Fatalf("LOCK: got no token")
	}
	killed.ask("LOCK killed 50s HOLD")
	// The client does nothing, for longer than the TTL.
	stopped.cmd.Process.Signal(syscall.SIGSTOP)
	before := other.info("extends_granted")
	other.until("extends_granted", func(n int) bool { return n >= before+4 })
	other.want("LOCK stopped 3s", "null")
	// kill -9. With RELEASE the lock is free at once, without it the lock ends with its TTL.
	stopped.cmd.Process.Kill()
	other.grant("LOCK stopped 30s WAIT 60s")
	killed.cmd.Process.Kill()
	other.until("bound", func(n int) bool { return n == 0 })
	other.want("LOCK killed 3s", "null")
}

// toldOfLoss sends KEEPALIVE until it says that the lock is lost. It never says that the lock is valid.
func (w *wire) toldOfLoss(resource string) {
	w.t.Helper()
	w.eventually("KEEPALIVE", func(got string) bool {
		if !strings.HasPrefix(got, "[validity 0 ") && !strings.HasPrefix(got, "NOQUORUM") {
			w.t.Fatalf("KEEPALIVE behind the stop: %s", got)
		}
		return strings.Contains(got, "lost ["+resource+"]")
	})
}

// A client that sends KEEPALIVE stops in time, when the server that it is connected to stops.
func TestServerOfAHolderStops(t *testing.T) {
	_, addrs := startMasters(t, 3)
	p := launch(t, "--masters", addrs, "--bootstrap")
	q := launch(t, "--masters", addrs)
	holder, other := p.dial(), q.dial()
	holder.grant("LOCK r 3s HOLD")
	sent := time.Now()
	validity, _ := strconv.Atoi(strings.Fields(holder.do("KEEPALIVE"))[1])
	believed := sent.Add(time.Duration(validity) * time.Millisecond)
	if validity <= 0 {
		t.Fatalf("KEEPALIVE: a validity of %d", validity)
	}
	p.signal(syscall.SIGSTOP)
	other.grant("LOCK r 50s WAIT 60s")
	if early := time.Until(believed); early > 0 {
		t.Errorf("the lock was granted %v before the end of what its holder believed", early)
	}
	p.signal(syscall.SIGCONT)
	holder.toldOfLoss("r")
}

// Locks survive a restart of every server, one after the other.
func TestHeldOverADrain(t *testing.T) {
	_, addrs := startMasters(t, 3)
	p := launch(t, "--masters", addrs, "--bootstrap", "--drain-timeout", "1h")
	q := launch(t, "--masters", addrs)
	old, next, other := p.dial(), q.dial(), q.dial()
	token := strings.Trim(strings.Fields(old.do("LOCK r 50s HOLD RELEASE"))[0], "[")
	p.signal(syscall.SIGTERM)
	old.eventually("KEEPALIVE", func(got string) bool { return strings.HasSuffix(got, "leaving 1]") })
	got := next.do("HOLD r " + token + " 50s RELEASE")
	fresh := strings.Trim(strings.Fields(got)[0], "[")
	if !strings.HasPrefix(got, "[") || fresh == token {
		t.Fatalf("HOLD: got %s, want another token than %s", got, token)
	}
	old.conn.Close() // with RELEASE of the old token
	p.wantExit(cli.ExitOK)
	other.want("LOCK r 3s", "null")
	next.want("UNLOCK r "+fresh, "1")
}
