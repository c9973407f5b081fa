package main

// Goal: a service manager hears when redlockd serves, reads its settings again, stops, and that it
// lives; and it can open the listeners. Method: the program as a process, with a socket of the test in
// the place of systemd's.

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/redlock/redisproc"
)

// serviceManager gets the messages of a process.
type serviceManager struct {
	*testing.T
	conn  *net.UnixConn
	heard []string
}

func newServiceManager(t *testing.T) *serviceManager {
	t.Helper()
	path := t.TempDir() + "/notify"
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return &serviceManager{t, conn, nil}
}

// hears waits for a message of this form, and takes it. Others are for later calls: which of two comes
// first is not always known.
func (m *serviceManager) hears(form string) {
	m.Helper()
	m.conn.SetReadDeadline(time.Now().Add(patience))
	wanted := regexp.MustCompile("^(" + form + ")$")
	for b := make([]byte, 4096); ; {
		if i := slices.IndexFunc(m.heard, wanted.MatchString); i >= 0 {
			m.heard = slices.Delete(m.heard, i, i+1)
			return
		}
		n, err := m.conn.Read(b)
		if err != nil {
			m.Fatalf("got %q and %v, want %s", slices.Compact(m.heard), err, form)
		}
		m.heard = append(m.heard, string(b[:n]))
	}
}

func TestServiceManagerHears(t *testing.T) {
	m := newServiceManager(t)
	t.Setenv("WATCHDOG_USEC", "100000")
	p := launch(t)
	m.hears("READY=1")
	m.hears("STATUS=locks are granted")
	m.hears("WATCHDOG=1")
	p.signal(syscall.SIGHUP)
	m.hears(`RELOADING=1\nMONOTONIC_USEC=\d+`)
	m.hears("READY=1")
	m.hears("WATCHDOG=1")
	p.signal(syscall.SIGTERM)
	m.hears("STOPPING=1")
	p.wantExit(cli.ExitOK)
}

// The service manager's ExecReload= is answered whatever a client needs to log in, says whether all of the file is in force, and so does the status.
func TestReloadForTheServiceManager(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("RUNTIME_DIRECTORY", dir+":/elsewhere")
	m := newServiceManager(t)
	const settings = "masters = \"embedded\"\n[auth]\nusers = [{name = \"default\", password = \"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"}]\n[server]\n"
	file := configFile(t, settings)
	p := launch(t, "--config", file)
	m.hears("STATUS=locks are granted")
	const socket = "reload.sock"
	if info, err := os.Stat(dir + "/" + socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want a socket for its user alone", info, err)
	}
	ask := []string{"reload", "--socket", dir + "/" + socket}
	reloads := func(wantCode int, wantOut, wantErr string) {
		t.Helper()
		code, stdout, stderr := runCommand([]string{"REDLOCKD_NONSENSE=1"}, ask...) // its own settings do not matter
		if code != wantCode || stdout != wantOut || stderr != wantErr {
			t.Errorf("got %d, %q, %q; want %d, %q, %q", code, stdout, stderr, wantCode, wantOut, wantErr)
		}
	}
	writeFile(t, file, settings+"max_clients = 100\n", 0o600)
	reloads(cli.ExitOK, "server.max_clients\n", "")

	writeFile(t, file, settings+"bogus = 1\n[log]\nlevel = \"loud\"\n", 0o600)
	fault := file + ":5: unknown setting server.bogus"
	reloads(cli.ExitFailed, "", "redlockd: reload: ERR nothing was changed: "+fault+"; "+file+":7: log.level: \"loud\" is none of debug, info, warn, error\n")
	m.hears("STATUS=locks are granted; the last reload failed, the settings before it are in force: " + fault + ` \(and 1 more in the log\)`)
	p.waitLog("redlockd serve --check-config with the same flags tries it without changing anything")

	writeFile(t, file, settings+"max_clients = 100\nsocket_mode = \"0666\"\n", 0o600)
	reloads(cli.ExitFailed, "nothing; not in force before a restart: server.socket_mode\n", "")
	m.hears("STATUS=locks are granted; settings not in force before a restart: server.socket_mode")

	writeFile(t, file, settings+"max_clients = 100\n\""+strings.Repeat("é", 2000)+"\" = 1\n", 0o600)
	if code, _, _ := runCommand(nil, ask...); code != cli.ExitFailed {
		t.Errorf("exit code %d, want %d", code, cli.ExitFailed)
	}
	m.hears("STATUS=locks are granted; the last reload failed.{100,1000}…") // systemd reads 4 KiB
	writeFile(t, file, settings+"max_clients = 100\n", 0o600)
	reloads(cli.ExitOK, "nothing\n", "")
	m.hears("STATUS=locks are granted")

	conn, err := net.Dial("unix", dir+"/"+socket)
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, conn)
	w.want("CONFIG REVEAL", "ERR only CONFIG RELOAD is taken here")
	p.dial().want("LOCK r 30s", "NOAUTH Authentication required.")

	p.signal(syscall.SIGTERM)
	p.wantExit(cli.ExitOK)
	reloads(cli.ExitFailed, "", "redlockd: reload: "+dir+"/"+socket+": no redlockd listens there. One that systemd starts with RuntimeDirectory= does; "+
		"if it is of an older version, restart it: systemctl restart redlockd\n")
	refused(t, cli.ExitUsage, `--socket: "reload.sock" is no absolute path`, nil, "reload", "--socket", socket)

	t.Setenv("RUNTIME_DIRECTORY", dir+"/none")
	launch(t, "--config", file).waitLog("systemctl reload will fail: its socket cannot be opened")
}

// passOn starts redlockd with these files as the descriptors of a service manager.
func passOn(t *testing.T, names string, files []*os.File, args ...string) *program {
	t.Helper()
	// Only the process itself knows the number that LISTEN_PID must have.
	cmd := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$@"`, "sh", binary(t), "serve", "--log-format", "json", "--master-timeout", "1s", "--masters", "embedded"}, args...)...)
	cmd.Env = append(os.Environ(), "LISTEN_FDS="+string(rune('0'+len(files))), "LISTEN_FDNAMES="+names)
	cmd.ExtraFiles = files
	return beginCommand(t, cmd)
}

func TestInheritedListeners(t *testing.T) {
	file := func(addr string) (*os.File, string) {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f, l.Addr().String()
	}
	clients, addr := file("127.0.0.1:0")
	web, webAddr := file("127.0.0.1:0")
	p := passOn(t, "redis:http", []*os.File{clients, web}, "--listen", "192.0.2.1:1") // which nobody has
	p.waitLog(`"msg":"listening","addr":"` + addr + `"`)
	p.waitLog(`"msg":"status page and metrics","addr":"` + webAddr + `"`)
	p.waitLog("quorum reached")
	p.addr = addr
	p.dial().lock("r", "t1")
	p.signal(syscall.SIGTERM)
	p.waitLog("draining")

	everywhere, _ := file("0.0.0.0:0")
	p = passOn(t, "", []*os.File{everywhere}, "--masters", "127.0.0.1:1")
	if code := p.exitCode(); code != cli.ExitUsage || !strings.Contains(p.log(), "protected mode: other machines can reach") {
		t.Errorf("exit code %d, want %d and protected mode:\n%s", code, cli.ExitUsage, p.log())
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p = passOn(t, "redis", []*os.File{null})
	if code := p.exitCode(); code != cli.ExitUsage || !strings.Contains(p.log(), "descriptor 3 (redis) of the service manager is no socket that accepts connections") {
		t.Errorf("exit code %d, want %d and the descriptor:\n%s", code, cli.ExitUsage, p.log())
	}
}

// systemd itself reads the unit.
func TestUnitIsValid(t *testing.T) {
	if runtime.GOOS != "linux" {
		redisproc.Skip(t, "systemd runs on Linux")
	}
	redisproc.Need(t, "systemd-analyze")
	unit := filepath.Join(t.TempDir(), "redlockd.service")
	writeFile(t, unit, strings.ReplaceAll(readDocker(t, "redlockd.service"), "/usr/local/bin/redlockd", binary(t)), 0o644)
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput(); err != nil || strings.Contains(string(out), "redlockd.service:") {
		t.Errorf("%v: %s", err, out)
	}
}
