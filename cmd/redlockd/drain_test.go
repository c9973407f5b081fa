package main

// Goal: a server that is told to stop says so to those who balance servers, lets its clients finish,
// and ends when it says. Method: the program as a process on its embedded masters, signals, and its
// HTTP pages.

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"redlockd/cmd/redlockd/cli"
	"redlockd/redlock/redisproc"
)

// SIGTERM: new locks are refused, waiters are told, who balances servers sees it over HTTP for as long
// as it lasts, and a lock that is held can be released; the last release ends the drain.
func TestSignalDrains(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		// Nobody else listens at this address when it does not.
		p := launch(t, "--drain-timeout", "1h", "--listen", redisproc.KeepAddr(t), "--http-listen", "127.0.0.1:0")
		holder, waiter := p.dial(), p.dial()
		holder.lock("r", "t1")
		waiter.send("LOCK r 30000 WAIT 60000")
		holder.eventually("LOCKINFO r", func(got string) bool { return strings.Contains(got, "waiters 1") })
		p.signal(signal)
		if got := waiter.reply(); !strings.HasPrefix(got, "LEAVING") {
			t.Errorf("%v: the waiter got %q, want LEAVING …", signal, got)
		}
		if got := holder.do("LOCK other 30000"); !strings.HasPrefix(got, "LEAVING") {
			t.Errorf("%v: a new LOCK got %q, want LEAVING …", signal, got)
		}
		if _, err := net.Dial("tcp", p.addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v: a new connection: got error %v, want it refused", signal, err)
		}
		if code, body := p.web().get("/readyz"); code != 503 || !strings.Contains(body, "draining") {
			t.Errorf("%v: /readyz: got %d %s, want 503 and that it drains", signal, code, body)
		}
		if line := p.waitLog("a second signal ends redlockd at once"); !strings.Contains(line, `"msg":"draining: no new locks are granted, and clients have up to 1h to release`) {
			t.Errorf("%v: got %s, want first what happens", signal, line)
		}
		holder.want("UNLOCK r t1", "1")
		p.wantExit(cli.ExitOK)
		if log := p.log(); !strings.Contains(log, `"msg":"drained"`) || !strings.Contains(log, `"msg":"stopped"`) {
			t.Errorf("%v: want drained and stopped in the log:\n%s", signal, log)
		}
	}
}

// With drain_delay, who balances servers is told first; clients notice nothing until then.
func TestDrainDelay(t *testing.T) {
	p := launch(t, "--drain-delay", "1h", "--drain-timeout", "1h", "--http-listen", "127.0.0.1:0")
	web := p.web()
	if code, body := web.get("/readyz"); code != 200 {
		t.Errorf("/readyz: got %d %s, want 200", code, body)
	}
	holder := p.dial()
	holder.lock("r", "t1")
	p.signal(syscall.SIGTERM)
	if line := p.waitLog("/readyz says 503"); !strings.Contains(line, `"msg":"locks are granted for 1h more`) {
		t.Errorf("got %s, want first that locks are granted", line)
	}
	if code, body := web.get("/readyz"); code != 503 || !strings.Contains(body, "this server will drain in a moment") {
		t.Errorf("/readyz: got %d %s, want 503 and the reason", code, body)
	}
	if _, body := web.get("/metrics"); !strings.Contains(body, "\nredlockd_ready 0\n") || !strings.Contains(body, "\nredlockd_draining 1\n") {
		t.Errorf("/metrics: want redlockd_ready 0 and redlockd_draining 1, got\n%s", body)
	}
	holder.lock("other", "t2")
	p.dial().lock("new", "t3")
	// A second signal does not wait.
	p.signal(syscall.SIGTERM)
	p.wantExit(cli.ExitDropped)

	p = launch(t, "--drain-delay", "1ms")
	p.signal(syscall.SIGTERM)
	p.waitLog(`"msg":"draining`)
	p.wantExit(cli.ExitOK)
}

func TestDrainTimeoutEndsTheDrain(t *testing.T) {
	p := launch(t, "--drain-timeout", "30ms")
	p.dial().lock("r", "t1")
	p.signal(syscall.SIGTERM)
	p.wantExit(cli.ExitOK)
	p.waitLog("drain_timeout is over")
}

// web is where a server is watched over HTTP.
type web struct {
	t    *testing.T
	addr string
}

func (p *program) web() web {
	p.t.Helper()
	return web{p.t, p.logged("status page and metrics")}
}

func (w web) get(path string) (int, string) {
	w.t.Helper()
	r, err := http.Get("http://" + w.addr + path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.StatusCode, string(body)
}
