package main

// Goal: the program as it is shipped starts, serves, drains, fails and checks as its help says. Method:
// build it, run it as a process, speak to its socket, send it signals, read its log and its exit code;
// masters are real redis-server processes, or the embedded ones.

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/cmd/redlockd/masters"
	"redlockd/redlock/redisproc"
)

// patience bounds every wait for something that must happen. It is long: machines are slow at times.
// What must not be taken for it, such as the end of a drain by its timeout, is set to an hour.
const patience = time.Minute

// binaryDir has the program; "": no test needed it.
var binaryDir string

// buildOnce builds the program once for all tests.
var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "redlockd-test-")
	if err != nil {
		return "", err
	}
	binaryDir = dir
	path := filepath.Join(dir, "redlockd")
	// The file of this machine is none of the tests' business.
	if out, err := exec.Command("go", "build", "-ldflags", "-X redlockd/cmd/redlockd/config.DefaultFile=", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
})

// binary is the path of the program.
func binary(t *testing.T) string {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMain(m *testing.M) {
	config.DefaultFile = ""
	// Under nohup, or in the background of a script, the tests ignore these signals, and so would what
	// they start. What is handled here is not ignored there.
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // which the tests themselves go on ignoring
		}
	}
	code := m.Run()
	os.RemoveAll(binaryDir) // nothing, if it is ""
	os.Exit(code)
}

// until waits for what must happen.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// program is a running redlockd.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr string // where it listens

	mu    sync.Mutex
	lines []string      // of its log
	more  chan struct{} // closed and made anew with every line
	ended chan struct{} // closed when the log has ended
}

// launch starts a server on a free port with its log as JSON, and waits until it grants locks.
func launch(t *testing.T, args ...string) *program {
	t.Helper()
	return launchBinary(t, binary(t), args...)
}

func launchBinary(t *testing.T, path string, args ...string) *program {
	t.Helper()
	p := listen(t, path, args...)
	p.waitLog("quorum reached")
	return p
}

// listen starts a server as launch does, and waits until it listens. Unless its masters are named, or a
// file that may do so, it has embedded ones.
func listen(t *testing.T, path string, args ...string) *program {
	t.Helper()
	if !slices.Contains(args, "--masters") && !slices.Contains(args, "--config") {
		args = append(args, "--masters", "embedded")
	}
	// A slow test machine is no hung master.
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--master-timeout", "1s"}, args...)
	p := beginCommand(t, exec.Command(path, args...))
	p.addr = p.logged("listening")
	return p
}

// logged waits for a line with this message, and returns the address in it.
func (p *program) logged(msg string) string {
	p.t.Helper()
	var entry struct{ Addr string }
	if err := json.Unmarshal([]byte(p.waitLog(`"msg":"`+msg+`"`)), &entry); err != nil {
		p.t.Fatal(err)
	}
	return entry.Addr
}

func begin(t *testing.T, args ...string) *program {
	t.Helper()
	return beginCommand(t, exec.Command(binary(t), args...))
}

// patient gives a command more time for each master, unless the test has set that: a slow test machine
// is no hung master.
func patient(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = append([]string{"REDLOCKD_MASTER_TIMEOUT=1s"}, cmd.Environ()...) // the last one counts
	return cmd
}

func beginCommand(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: patient(cmd), more: make(chan struct{}), ended: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.readLog(stderr)
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		p.cmd.Wait()
		if t.Failed() {
			t.Logf("the end of the log of %q:\n%s", cmd.Args, strings.Join(p.lines[max(0, len(p.lines)-200):], "\n"))
		}
	})
	return p
}

func (p *program) readLog(from io.Reader) {
	defer close(p.ended)
	for lines := bufio.NewScanner(from); lines.Scan(); {
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
}

// waitLog waits for a line of the log with this text.
func (p *program) waitLog(text string) string {
	p.t.Helper()
	deadline := time.After(patience)
	for seen := 0; ; {
		p.mu.Lock()
		lines, more := p.lines, p.more
		p.mu.Unlock()
		for ; seen < len(lines); seen++ {
			if strings.Contains(lines[seen], text) {
				return lines[seen]
			}
		}
		select {
		case <-more:
		case <-p.ended:
			p.mu.Lock()
			complete := len(p.lines) == len(lines)
			p.mu.Unlock()
			if complete {
				p.t.Fatalf("the log has ended without %q:\n%s", text, p.log())
			}
		case <-deadline:
			p.t.Fatalf("no %q in the log within %v:\n%s", text, patience, p.log())
		}
	}
}

func (p *program) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exitCode waits for the end.
func (p *program) exitCode() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("still running after %v:\n%s", patience, p.log())
	}
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// wire is a client without a library.
type wire struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

func (p *program) dial() *wire {
	p.t.Helper()
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	return newWire(p.t, conn)
}

func newWire(t *testing.T, conn net.Conn) *wire {
	t.Cleanup(func() { conn.Close() })
	return &wire{t, conn, bufio.NewReader(conn)}
}

func (w *wire) send(command string) {
	w.t.Helper()
	w.conn.SetDeadline(time.Now().Add(2 * patience)) // commands that wait for a lock do so for one patience at most
	if _, err := io.WriteString(w.conn, command+"\r\n"); err != nil {
		w.t.Fatalf("%s: %v", command, err)
	}
}

// do sends an inline command and returns the reply: its text, or [a b] for an array.
func (w *wire) do(command string) string {
	w.t.Helper()
	w.send(command)
	return w.reply()
}

func (w *wire) reply() string {
	w.t.Helper()
	line, err := w.reader.ReadString('\n')
	if err != nil {
		w.t.Fatalf("read a reply: %v", err)
	}
	line = strings.TrimRight(line, "\r\n")
	n, _ := strconv.Atoi(line[1:])
	switch line[0] {
	case '$':
		if n < 0 {
			return "null"
		}
		bulk := make([]byte, n+2)
		if _, err := io.ReadFull(w.reader, bulk); err != nil {
			w.t.Fatalf("read a reply: %v", err)
		}
		return string(bulk[:n])
	case '*':
		if n < 0 {
			return "null"
		}
		all := make([]string, n)
		for i := range all {
			all[i] = w.reply()
		}
		return fmt.Sprint(all)
	default:
		return line[1:]
	}
}

// ask sends a command again while the reply is that of a machine that was slow.
func (w *wire) ask(command string) string {
	w.t.Helper()
	got := w.do(command)
	for deadline := time.Now().Add(patience); machineWasSlow(got) && time.Now().Before(deadline); got = w.do(command) {
		time.Sleep(10 * time.Millisecond)
	}
	return got
}

// machineWasSlow tells whether a refusal comes from a pause of redlockd, of masters or of both: a
// master then has no vote until it is heard of again. With a max_ttl of some seconds, a pause of a
// second is enough, and half a second ends a heartbeat or the making of a connection.
func machineWasSlow(refusal string) bool {
	return strings.HasPrefix(refusal, "NOQUORUM") && slownessIn.MatchString(refusal)
}

var slownessIn = regexp.MustCompile(`no new connection has reached it for |no answer within |no answer while connecting|heartbeat: .*i/o timeout`)

// lock takes a lock for 30 s under a token. The reply says how long it is valid: less than that, and
// how much less depends on the machine.
func (w *wire) lock(resource, token string) {
	w.t.Helper()
	got := w.ask("LOCK " + resource + " 30000 TOKEN " + token)
	validity, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(got, "["+token+" "), "]"))
	if validity <= 0 || validity >= 30000 {
		w.t.Fatalf("LOCK %s: got %s, want [%s …] with a validity below 30000", resource, got, token)
	}
}

// grant takes a lock, under the token that the command names if it does.
func (w *wire) grant(command string) {
	w.t.Helper()
	_, token, _ := strings.Cut(command+" ", " TOKEN ")
	token, _, _ = strings.Cut(token, " ")
	if got := w.ask(command); !strings.HasPrefix(got, "["+token) {
		w.t.Fatalf("%s: got %q, want it granted", command, got)
	}
}

func (w *wire) want(command, want string) {
	w.t.Helper()
	if got := w.do(command); got != want {
		w.t.Errorf("%s: got %q, want %q", command, got, want)
	}
}

// ended waits until the server has closed the connection.
func (w *wire) ended() {
	w.t.Helper()
	w.conn.SetDeadline(time.Now().Add(patience))
	if rest, err := io.ReadAll(w.reader); err != nil || len(rest) > 0 {
		w.t.Errorf("got %q and error %v, want the connection closed", rest, err)
	}
}

func TestServeOnEmbeddedMasters(t *testing.T) {
	p := launch(t)
	p.waitLog("for trying: locks end with this process: its five masters are inside it")
	if got := p.waitLog("quorum reached: locks are granted"); !strings.Contains(got, `"masters":5`) {
		t.Errorf("got %s, want five masters", got)
	}
	a, b := p.dial(), p.dial()
	a.want("PING", "PONG")
	a.lock("invoices", "t1")
	b.want("LOCK invoices 30000", "null")
	b.want("UNLOCK invoices guess", "0")
	a.want("UNLOCK invoices t1", "1")
	b.lock("invoices", "t2")
	b.want("UNLOCK invoices t2", "1")
	a.want("CONFIG GET locks.max_ttl", "[locks.max_ttl 5m]")

	// Advice is for who has no file, and no masters that redlockd members could ask.
	_, port, _ := net.SplitHostPort(p.addr)
	p.waitLog("type this, to try it: redis-cli -p " + port + " LOCK invoices 30s")
	a.want("LOCK invoices 10m", "ERR ttl of 600000 ms is above the most, 300000 ms (max_ttl): ask for less, or start redlockd with --masters embedded --max-ttl 10m")
	a.want("LOCK invoices 25h", "ERR ttl of 90000000 ms is above the most, 300000 ms (max_ttl): ask for less")
	t.Setenv("PATH", "")
	longer := launch(t, "--masters", "embedded", "--max-ttl", "10m")
	longer.dial().grant("LOCK invoices 10m")
	longer.waitLog("redis-cli is not installed: apt-get install redis-tools")

	p.signal(syscall.SIGTERM)
	p.wantExit(cli.ExitOK)
	for line := range strings.Lines(p.log()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON in the log: %s", line)
		}
	}
}

func TestAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, flag := range []string{"--listen", "--http-listen"} {
		p := begin(t, "--masters", "embedded", "--listen", "127.0.0.1:0", flag, taken.Addr().String())
		p.wantExit(cli.ExitUsage)
		want := fmt.Sprintf("redlockd: %s (%s) is in use by another process: end that one, or choose another address with %s", taken.Addr(), flag, flag)
		if got := p.log(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func startMasters(t *testing.T, n int, args ...string) ([]*redisproc.Server, string) {
	t.Helper()
	servers := redisproc.StartForTest(t, n, args...)
	return servers, strings.Join(redisproc.Addrs(servers), ",")
}

// A master that is down does not stop the start; without a quorum, clients are told; as soon as there
// is one, it is used.
func TestServeBeforeItsMasters(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	servers[1].Kill()
	servers[2].Kill()
	t.Setenv("REDLOCKD_MASTER_FOUNDING_WAIT", "10ms")
	p := listen(t, binary(t), "--masters", addrs, "--max-ttl", "2s")
	missing := p.waitLog("no quorum of masters yet")
	for _, down := range servers[1:] {
		if !strings.Contains(missing, down.Addr) {
			t.Errorf("got %s, want %s named in it", missing, down.Addr)
		}
	}
	client := p.dial()
	if got := client.do("LOCK r 2000"); !strings.HasPrefix(got, "NOQUORUM") {
		t.Errorf("LOCK with one of three masters: got %q, want NOQUORUM …", got)
	}
	if err := servers[1].Restart(); err != nil {
		t.Fatal(err)
	}
	p.waitLog("founded: the masters are new, or too many have forgotten")
	p.waitLog("quorum reached")
	if left := p.waitLog("not all masters can vote"); !strings.Contains(left, servers[2].Addr) || strings.Contains(left, servers[1].Addr) {
		t.Errorf("got %s, want %s named in it alone", left, servers[2].Addr)
	}
	client.grant("LOCK r 2000 TOKEN t") // with two of three masters

	// Later it may be lost, and come back.
	servers[0].Kill()
	if lost := p.waitLog("quorum lost"); !strings.Contains(lost, `"level":"ERROR"`) || !strings.Contains(lost, servers[0].Addr+" (down") {
		t.Errorf("got %s, want an error that says who is down", lost)
	}
	if err := servers[0].Restart(); err != nil {
		t.Fatal(err)
	}
	p.waitLog("quorum is back")
}

// Masters that are started together with redlockd may come a moment later, and are admitted by
// --bootstrap all the same.
func TestBootstrapBeforeTheMasters(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	servers[1].Kill()
	away, err := net.Listen("tcp", servers[1].Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer away.Close()
	p := begin(t, "serve", "--listen", "127.0.0.1:0", "--masters", addrs, "--max-ttl", "1h", "--bootstrap")
	conn, err := away.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn.Close() // so it has found one of them away
	away.Close()
	if err := servers[1].Restart(); err != nil {
		t.Fatal(err)
	}
	p.waitLog("quorum reached") // not in an hour
	if log := p.log(); strings.Contains(log, "no bootstrap") {
		t.Errorf("want no complaint:\n%s", log)
	}
}

// A server that still waits for its masters can be stopped.
func TestSignalWithoutMasters(t *testing.T) {
	servers, addrs := startMasters(t, 1)
	servers[0].Kill()
	p := listen(t, binary(t), "--masters", addrs)
	p.waitLog("no quorum of masters yet")
	p.signal(syscall.SIGTERM)
	p.wantExit(cli.ExitOK)
}

func TestBootstrap(t *testing.T) {
	_, addrs := startMasters(t, 3)
	p := launch(t, "--masters", addrs, "--max-ttl", "1h", "--bootstrap") // grants long before max_ttl is over
	p.dial().lock("r", "t1")
	p.signal(syscall.SIGTERM)
	p.waitLog("draining")
	p.signal(syscall.SIGINT) // a second signal does not wait for the lock
	p.wantExit(cli.ExitDropped)

	// The same masters are not new any more; they are admitted, though, so nobody has to wait.
	p = launch(t, "--masters", addrs, "--max-ttl", "1h", "--bootstrap")
	if got := p.waitLog("no bootstrap"); !strings.Contains(got, "it has a membership") {
		t.Errorf("got %s, want the reason in it", got)
	}
	p.dial().want("LOCK r 30000", "null")
}

func TestServeTLSAndUsers(t *testing.T) {
	dir := t.TempDir()
	writeGoodCertificate(t, dir, 1)
	writeFile(t, dir+"/config.toml", strings.ReplaceAll(`
		masters = "embedded"
		[server]
		tls_cert = "DIR/cert.pem"
		tls_key = "DIR/key.pem"
		[auth]
		users = [{name = "default", password = "hunter2"}]
		[http]
		listen = "127.0.0.1:0"
		tls_cert = "DIR/cert.pem"
		tls_key = "DIR/key.pem"
		`, "DIR", dir), 0o600)
	p := launch(t, "--config", dir+"/config.toml")
	trust := func() *tls.Config {
		text, err := os.ReadFile(dir + "/cert.pem")
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(text)
		return &tls.Config{RootCAs: roots, ServerName: "localhost"}
	}
	dial := func() (net.Conn, error) { return tls.Dial("tcp", p.addr, trust()) }
	conn, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, conn)
	w.want("LOCK r 30000", "NOAUTH Authentication required.")
	w.want("AUTH "+secret, "OK")
	w.lock("r", "t1")
	if strings.Contains(p.log(), secret) {
		t.Errorf("the password is in the log:\n%s", p.log())
	}

	// A renewed certificate is taken by a server that runs, and leaves connections as they are.
	to := time.Now().Add(50 * 24 * time.Hour)
	cert, key := redisproc.MakeCertificate(t, 2, time.Now().Add(-time.Hour), to)
	writeFile(t, dir+"/cert.pem", cert, 0o600)
	writeFile(t, dir+"/key.pem", key, 0o600)
	until(t, "the renewed certificate is shown", func() bool {
		renewed, err := dial()
		if err == nil {
			renewed.Close()
		}
		return err == nil
	})
	p.waitLog("files of TLS were replaced: what they hold now is in use")
	w.want("LOCK r 30000", "null")

	// HTTP has the same certificate here, and the users may see resources.
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: trust()}}
	defer browser.CloseIdleConnections()
	get := func(path string) (body string) {
		t.Helper()
		request, _ := http.NewRequest("GET", "https://"+p.web().addr+path, nil)
		request.SetBasicAuth("default", secret)
		resp, err := browser.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return string(text)
	}
	if page := get("/"); !strings.Contains(page, "<bdi>r</bdi>") || strings.Contains(page, secret) {
		t.Errorf("the page does not show the lock, or shows the password:\n%s", page)
	}
	body := get("/metrics")
	line := fmt.Sprintf("redlockd_certificate_expiration_timestamp_seconds{file=%q} ", dir+"/cert.pem")
	_, value, _ := strings.Cut(string(body), line)
	value, _, _ = strings.Cut(value, "\n")
	if got, _ := strconv.ParseFloat(value, 64); int64(got) != to.Unix() {
		t.Errorf("/metrics: got %q behind %q, want %d", value, line, to.Unix())
	}
}

// runBinary runs the program to its end.
func runBinary(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	path := binary(t)
	var out, errs strings.Builder
	cmd := patient(exec.CommandContext(t.Context(), path, args...))
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatal(err)
		}
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// wantRun runs the program to its end, compares its exit code, and looks for a text in its output and
// one in its errors. If the text is "", nothing may stand there. It returns the output.
func wantRun(t *testing.T, wantCode int, wantOut, wantErr string, args ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := runBinary(t, args...)
	has := func(got, want string) bool { return strings.Contains(got, want) && (got == "") == (want == "") }
	if code != wantCode || !has(stdout, wantOut) || !has(stderr, wantErr) {
		t.Errorf("redlockd %q: exit code %d, output\n%s\nerrors\n%s\nwant %d, %q and %q", args, code, stdout, stderr, wantCode, wantOut, wantErr)
	}
	return stdout
}

func TestCheck(t *testing.T) {
	servers, addrs := startMasters(t, 5)
	check := func(wantCode int, wantVerdict string, args ...string) string {
		t.Helper()
		return wantRun(t, wantCode, "\n"+wantVerdict+"\n", "", append([]string{"check", "--masters", addrs}, args...)...)
	}
	check(cli.ExitFailed, "Once they are admitted, a quorum is available: 5 of 5 masters can vote, 3 are needed; 2 may fail.")

	servers[1].Kill()
	redisCLI(t, servers[3].Addr, "REPLICAOF", "127.0.0.1", "1")
	fix := fmt.Sprintf("Fix %s and %s.", servers[1].Addr, servers[3].Addr)
	text := check(cli.ExitFailed, "Once they are admitted, a quorum is available, but none may fail: 3 of 5 masters can vote, 3 are needed. "+fix)
	for _, want := range []string{
		"\n" + servers[1].Addr + "\n  no vote: cannot connect: connection refused\n    to fix it: see whether Redis runs there",
		"\n" + servers[3].Addr + "\n  no vote: is a replica: it takes no writes, and its data belong to another master\n    to fix it: ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant in it %q", text, want)
		}
	}

	v := checkJSON(t, cli.ExitFailed, addrs)
	if v.Quorum || v.Needed != 3 || v.Voting != 0 || v.CanVote != 3 || len(v.Masters) != 5 {
		t.Errorf("got %+v; want no quorum, 3 needed, none voting, 3 that can, 5 masters", v)
	}
	for i, m := range v.Masters {
		votes, reachable := i != 1 && i != 3, i != 1
		if m.Addr != servers[i].Addr || m.Votes != votes || m.Reachable != reachable || (m.RTTMs != nil) != reachable {
			t.Errorf("master %d: got %+v, want votes %v, reachable %v", i, m, votes, reachable)
		}
	}
}

// checkJSON is what check finds.
func checkJSON(t *testing.T, wantCode int, addrs string) (v masters.Verdict) {
	t.Helper()
	if err := json.Unmarshal([]byte(wantRun(t, wantCode, "{", "", "check", "--masters", addrs, "--json")), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// redisCLI runs redis-cli, and returns what it prints.
func redisCLI(t *testing.T, addr string, args ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("redis-cli", append([]string{"-h", host, "-p", port}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// A redlockd whose list of masters, or max_ttl, is another than the membership's follows the
// membership, and is ready: in Kubernetes a rollout with other settings must end. Its log, and check,
// say what differs.
func TestAnotherListOfMasters(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	replacement, addr := startMasters(t, 1)
	launch(t, "--masters", addrs, "--bootstrap")
	changed := strings.Replace(addrs, servers[2].Addr, replacement[0].Addr, 1)
	for _, want := range []string{servers[2].Addr + " (" + servers[2].Addr + ") is a member, the settings do not name it", addr + " is no member, the settings name it"} {
		p := launch(t, "--masters", changed, "--max-ttl", "10m", "--http-listen", "127.0.0.1:0")
		if line := p.waitLog("the settings differ from the membership"); !strings.Contains(line, want) {
			t.Errorf("got %s, want %q in it", line, want)
		}
		p.dial().lock("r", "t1")
		p.dial().want("CONFIG GET locks.max_ttl", "[locks.max_ttl 5m]")
		if code, body := p.web().get("/readyz"); code != 200 {
			t.Errorf("/readyz: got %d %s, want 200", code, body)
		}
		wantRun(t, cli.ExitOK, want, "", "check", "--masters", changed)
	}
}

// Where a redlockd is named in the place of a master, check and a server say so.
func TestCheckOfARedlockd(t *testing.T) {
	front := launch(t)
	stdout := wantRun(t, cli.ExitFailed, "no vote: is a redlockd, not a Redis\n    to fix it: name the Redis masters behind it\n", "", "check", "--masters", front.addr)
	if strings.Count(stdout, "no vote: ") != 1 {
		t.Errorf("got\n%s\nwant only that it is a redlockd", stdout)
	}
	wantRun(t, cli.ExitNoQuorum, "", "refused: it is a redlockd, not a Redis: name the masters behind it", "run", "--masters", front.addr, "r", "--", "true")
}
