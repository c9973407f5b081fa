package main

// Goal: each command in the runbook of an alert works as it stands there, and its output tells what the line promises. Method: a shell types it, with
// the settings of a redlockd whose fleet is in the state that the alert is about. The journal is played by a script that searches the log of that
// redlockd, because a test runs under no systemd.

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// operator types the commands of runbooks.
type operator struct {
	t *testing.T
	// commands are those of each alert, in order; typed are those that were tried.
	commands map[string][]string
	typed    map[string]bool
	environ  []string
}

// newOperator reads the runbooks. dir is where the operator keeps programs.
func newOperator(t *testing.T, dir string) *operator {
	t.Helper()
	o := &operator{t: t, commands: make(map[string][]string), typed: make(map[string]bool)}
	for _, rule := range strings.Split(readDocker(t, "helm/alerts.yaml"), "- alert: ")[1:] {
		alert, _, _ := strings.Cut(rule, "\n")
		_, runbook, ok := strings.Cut(rule, "\n          runbook: |\n")
		for line := range strings.Lines(runbook) {
			line, indented := strings.CutPrefix(line, "            ")
			if !indented {
				break
			}
			command := regexp.MustCompile("^`([^`]+)`: [^:].*\\.\n$").FindStringSubmatch(line)
			if command == nil {
				t.Errorf("%s: a line of its runbook is a command in backquotes, and what its output tells: %s", alert, line)
				continue
			}
			o.commands[alert] = append(o.commands[alert], command[1])
		}
		if !ok || len(o.commands[alert]) == 0 {
			t.Errorf("%s: its runbook names no command", alert)
		}
	}
	if err := errors.Join(os.Mkdir(dir+"/bin", 0o700), os.Symlink(binary(t), dir+"/bin/redlockd")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir+"/bin/journalctl", `#!/bin/sh
[ "$1 $2 $3 $4 $5 $6 $7" = "-u redlockd -o cat --since -15min -g" ] && [ $# = 8 ] && grep -E "$8" `+dir+"/log\n", 0o700)
	o.environ = append(os.Environ(), "PATH="+dir+"/bin:"+os.Getenv("PATH"), "REDISCLI_AUTH=hunter2")
	return o
}

// tells types the n-th command of the alert, with these words in the place of others, until its output has what the pattern says.
func (o *operator) tells(alert string, n int, pattern string, words ...string) {
	o.t.Helper()
	if n >= len(o.commands[alert]) {
		o.t.Errorf("%s: there is no command %d", alert, n)
		return
	}
	command := o.commands[alert][n]
	o.typed[alert+strconv.Itoa(n)] = true
	wanted := regexp.MustCompile("(?s)" + pattern)
	var out []byte
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		shell := patient(exec.Command("sh", "-c", strings.NewReplacer(words...).Replace(command)))
		shell.Env = append(o.environ, shell.Env[0])
		out, _ = shell.CombinedOutput()
		if wanted.Match(out) {
			return
		}
		if time.Now().After(deadline) {
			o.t.Errorf("%s: %s\ngot\n%s\nwant %s", alert, command, out, pattern)
			return
		}
	}
}

func TestRunbooks(t *testing.T) {
	redisproc.Need(t, "gcc", "redis-cli", "openssl")
	dir := t.TempDir()
	shim, err := redisproc.BuildClockShim(dir)
	if err != nil {
		t.Fatal(err)
	}
	masters := redisproc.StartForTest(t, 2)
	clocked, err := redisproc.StartClocked(shim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(clocked.Close)
	masters = append(masters, clocked)
	writeGoodCertificate(t, dir, 1)
	addr, web := redisproc.KeepAddr(t), redisproc.KeepAddr(t)
	settings := strings.NewReplacer("DIR", dir, "MASTERS", strings.Join(redisproc.Addrs(masters), `", "`), "ADDR", addr, "WEB", web).Replace(`
		masters = ["MASTERS"]
		[server]
		listen = ["ADDR"]
		[auth]
		users = [{name = "default", password = "hunter2"}, {name = "app", password = "app", max_waiters = 1}]
		[http]
		listen = "WEB"
		tls_cert = "DIR/cert.pem"
		tls_key = "DIR/key.pem"
		[audit]
		file = "DIR/audit"
		`)
	writeFile(t, dir+"/config.toml", settings, 0o600)
	writeFile(t, dir+"/other.toml", settings+"[locks]\nmax_ttl = \"10m\"\n", 0o600)
	if err := os.Symlink("/dev/full", dir+"/audit"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("REDLOCKD_MASTER_TIMEOUT", "300ms") // below the second after which a connection is given up, so that late answers are counted
	o := newOperator(t, dir)
	o.environ = append(o.environ, "REDLOCKD_CONFIG="+dir+"/config.toml")
	p := begin(t, "serve", "--config", dir+"/config.toml", "--bootstrap")
	p.waitLog("quorum reached")
	p.addr = addr
	login := func(user, password string) *wire {
		t.Helper()
		w := p.dial()
		w.want("AUTH "+user+" "+password, "OK")
		return w
	}
	_, port, _ := strings.Cut(addr, ":")
	// log puts what the server has logged where the journal is searched, when it has the text.
	log := func(text string) {
		t.Helper()
		p.waitLog(text)
		writeFile(t, dir+"/log", p.log(), 0o600)
	}

	// It serves: what cannot be reached is its HTTP port.
	o.tells("RedlockdGone", 0, `: PONG in `)
	o.tells("RedlockdAllGone", 0, `: PONG in `)

	// A stuck holder before, by time, and behind, by name, many others; locks that are waited for.
	holder, worker := login("default", "hunter2"), login("default", "hunter2")
	holder.want("CLIENT SETNAME cron-7", "OK")
	worker.want("CLIENT SETNAME worker", "OK")
	holder.grant("LOCK z-stuck 60s TOKEN mine")
	holder.grant("LOCK y-waited 60s TOKEN mine")
	holder.grant("LOCK x-crowded 60s TOKEN mine")
	for i := range 300 {
		worker.grant(fmt.Sprintf("LOCK job:%03d 60s TOKEN mine", i))
	}
	first := login("app", "app")
	first.send("LOCK y-waited 60s WAIT 60s")
	worker.until("waiters", func(n int) bool { return n == 1 })
	login("default", "hunter2").send("LOCK x-crowded 60s WAIT 60s")
	login("default", "hunter2").send("LOCK x-crowded 60s WAIT 60s")
	if got := login("app", "app").do("LOCK x-crowded 60s WAIT 60s"); !strings.HasPrefix(got, "BUSYWAIT") {
		t.Errorf("the second LOCK of app that waits: got %s, want BUSYWAIT", got)
	}
	const crowded = `\nWAITERS +LONGEST +HOLDER +HELD +LEFT +RESOURCE\n2 +\S+ +cron-7 +\S+ +\S+ +x-crowded\n1 `
	o.tells("RedlockdWaitersNearLimit", 0, crowded)
	o.tells("RedlockdWaitersRefused", 0, crowded)
	o.tells("RedlockdWaitersRefused", 1, `name=app,[^\n]*,waiters=1,max_waiters=1,[^\n]*,refused_waiters=1,`)
	o.tells("RedlockdLongWait", 0, `\nWAITERS +LONGEST +HOLDER +HELD +LEFT +RESOURCE\n1 +\d\S* +cron-7 +\S+ +\S+ +y-waited\n`)
	o.tells("RedlockdLongHold", 0, `\nHOLDER +HELD +LEFT +RESOURCE\ncron-7 +\d\S* +\d+s +z-stuck\n`)
	o.tells("RedlockdLongHold", 1, `z-stuck`, "RESOURCE", "z-stuck", "REASON", "'cron-7 hangs'")
	holder.want("UNLOCK z-stuck mine", "0")
	o.tells("RedlockdLongWait", 1, `y-waited`, "RESOURCE", "y-waited", "REASON", "'cron-7 hangs'")
	if got := first.reply(); !strings.Contains(got, "59") {
		t.Errorf("the waiter behind the holder that was ended: got %s, want the lock", got)
	}

	// Clients.
	o.tells("RedlockdClientsNearLimit", 0, `connected_clients:\d+\n.*maxclients:10000\n.*name=default,connections=\d+`)
	o.tells("RedlockdClientsNearLimit", 1, `^ +\d+  addr=127\.0\.0\.1\n$`, "6380", port)
	if got := p.dial().do("AUTH app guessed"); !strings.HasPrefix(got, "WRONGPASS") {
		t.Errorf("a wrong password: got %s", got)
	}
	log("a client could not log in")
	o.tells("RedlockdLoginsFail", 0, `client=127\.0\.0\.1:\d+ user=app`)
	log("records of the audit are dropped")
	o.tells("RedlockdAuditDropped", 0, `records of the audit are dropped.*reason=.*no space left`)
	o.tells("RedlockdAuditDropped", 1, `audit_dropped:[1-9]`)

	// Certificates, by the label of the metric.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // the test is not about certificates
	reply, err := client.Get("https://" + web + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	metrics, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	file := regexp.MustCompile(`redlockd_certificate_expiration_timestamp_seconds\{file="([^"]+)"\}`).FindSubmatch(metrics)
	if file == nil {
		t.Fatalf("/metrics has no certificate:\n%s", metrics)
	}
	for _, alert := range []string{"RedlockdCertificateExpires", "RedlockdCertificateAboutToExpire"} {
		o.tells(alert, 0, `^subject=.*\nnotAfter=`, "{{ $labels.file }}", string(file[1]))
	}

	// Masters that vote, and are not well.
	o.tells("RedlockdRoundsSlow", 0, `ROUND TRIP .*`+masters[0].Addr+` +voter +yes +\d+\.\d\d-\d+\.\d\d ms`)
	if err := clocked.SetClock(300 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	o.tells("RedlockdClockOffset", 0, clocked.Addr+` .* \+(29\d|30\d)\.\d ± `)
	if err := clocked.SetClock(0); err != nil {
		t.Fatal(err)
	}
	redisCLI(t, masters[1].Addr, "CONFIG", "SET", "maxmemory", "50mb")
	redisCLI(t, masters[1].Addr, "SETRANGE", "large", "40000000", "x")
	o.tells("RedlockdMasterMemory", 0, masters[1].Addr+`\n[^\n]*uses 8\d % of its maxmemory.*raise maxmemory there`)
	redisCLI(t, masters[1].Addr, "CONFIG", "SET", "maxmemory", "0")
	redisCLI(t, masters[1].Addr, "DEL", "large")
	serves := o.environ
	o.environ = append(slices.Clone(serves), "REDLOCKD_CONFIG="+dir+"/other.toml")
	o.tells("RedlockdSettingsDifferFromMembership", 0, `\[locks\]\nmax_ttl = "5m"`)
	o.environ = serves

	late := regexp.MustCompile(`addr=` + masters[1].Addr + `,[^\n]*,timeouts=[1-9]`)
	until(t, "an answer that comes too late is counted", func() bool {
		if err := masters[1].Freeze(); err != nil {
			t.Fatal(err)
		}
		worker.grant("LOCK late 2s TOKEN mine")
		time.Sleep(500 * time.Millisecond)
		if err := masters[1].Thaw(); err != nil {
			t.Fatal(err)
		}
		return late.MatchString(worker.do("INFO masters"))
	})
	o.tells("RedlockdLocksWithoutQuorum", 0, `addr=`+masters[1].Addr+`,state=\w+,reason=[^\n]*,timeouts=[1-9]`)

	// One forgets, and is given what the others remember. Then it is down.
	masters[0].Kill()
	if err := masters[0].Restart(); err != nil {
		t.Fatal(err)
	}
	o.tells("RedlockdMastersForgetAgainAndAgain", 0, `SINCE .*`+masters[0].Addr+` +voter +[1-9] .*`+masters[1].Addr+` +voter +0 `)
	masters[0].Kill()
	o.tells("RedlockdMasterHasNoVote", 0, masters[0].Addr+` +voter .* no .*cannot connect: connection refused`)
	o.tells("RedlockdNoMasterToSpare", 0, masters[0].Addr+`\n  no vote: cannot connect.*to fix it: .*but none may fail.* Fix `+masters[0].Addr)
	holder.grant("LOCK gone 60s TOKEN mine")
	holder.grant("LOCK kept 3s TOKEN mine HOLD")
	if err := masters[1].Freeze(); err != nil {
		t.Fatal(err)
	}
	if got := worker.do("LOCK another 60s"); !strings.HasPrefix(got, "NOQUORUM") {
		t.Errorf("LOCK with one of three masters: got %s, want NOQUORUM", got)
	}
	log("held lock lost")
	o.tells("RedlockdBoundLocksLost", 0, `held lock lost.*resource=kept .*why=.*cron-7`)
	o.tells("RedlockdNoQuorum", 0, masters[1].Addr+`\n  no vote: .*No quorum is available: `)
	o.tells("RedlockdNoQuorum", 1, `addr=`+masters[0].Addr+`,state=down,reason=cannot connect`)
	if err := masters[0].Restart(); err != nil {
		t.Fatal(err)
	}
	o.tells("RedlockdMembershipProblem", 0, `membership_problem:[^\n]+`)

	// A second one forgets: the locks of before are lost.
	masters[1].Kill()
	if err := masters[1].Restart(); err != nil {
		t.Fatal(err)
	}
	o.tells("RedlockdLeasesLost", 0, `\ngone +exclusive +cron-7 .* LOST`)
	log("lease lost")
	o.tells("RedlockdLeasesLost", 1, `lease lost" resource=\S+ masters_that_forgot_it=2 [^\n]*client=(worker|cron-7)`)

	p.signal(os.Kill)
	p.exitCode()
	o.tells("RedlockdGone", 0, `no redlockd listens there`)
	for alert, commands := range o.commands {
		for n, command := range commands {
			if !o.typed[alert+strconv.Itoa(n)] {
				t.Errorf("%s: nothing has tried %s", alert, command)
			}
		}
	}
}
