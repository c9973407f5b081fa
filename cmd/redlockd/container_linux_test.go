package main

// Goal: the image and compose.yaml do what docker/README.md says, in a real docker engine. Method: `make test-docker` runs these tests beside an engine of
// their own (docker/package/engine.sh), which has base images of this machine's Debian and Go. The real Dockerfile is built, and the real compose.yaml started,
// by both versions of Compose. Containers of the network "host" are this test's neighbours, so their masters can be its processes.

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// needEngine leaves the test to `make test-docker`.
func needEngine(t *testing.T) {
	t.Helper()
	redisproc.Release(t)
	if os.Getenv("DOCKER_HOST") == "" {
		t.Fatal("there is no docker engine: `make test-docker` starts one")
	}
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	return strings.TrimSpace(output(t, "../..", "docker", args...))
}

// builtImage is the name of the image, which the first test that needs it builds as the Dockerfile says.
const builtImage = "redlockd:tested"

var dockerBuild = sync.OnceValue(func() error {
	cmd := exec.Command("docker", "build", "-f", "docker/Dockerfile", "-t", builtImage, "--build-arg", "VERSION=1.2.0", "--build-arg", "REVISION=0123456789abcdef",
		"--build-arg", "SOURCE=https://example.org/redlockd", ".")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "DOCKER_BUILDKIT=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("docker build: %w\n%s", err, out)
	}
	return err
})

// needImage builds the image.
func needImage(t *testing.T) {
	t.Helper()
	needEngine(t)
	if err := dockerBuild(); err != nil {
		t.Fatal(err)
	}
}

// container is one that runs, and ends with the test.
type container struct {
	t    *testing.T
	id   string
	addr string // of its redlockd
}

// runContainer starts the image on the network of this test, and with the least rights that README.md promises to be enough. flags stand before the image,
// args behind it.
func runContainer(t *testing.T, flags, args []string) *container {
	t.Helper()
	flags = append([]string{"run", "--detach", "--network", "host", "--read-only", "--user", "12345:12345", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--health-interval", "1s", "-e", "REDLOCKD_LOG_FORMAT=json"}, flags...)
	c := &container{t: t, id: docker(t, slices.Concat(flags, []string{builtImage}, args)...)}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := exec.Command("docker", "logs", "--tail", "100", c.id).CombinedOutput()
			t.Logf("the end of the log of the container:\n%s", log)
		}
		if out, err := exec.Command("docker", "rm", "--force", "--volumes", c.id).CombinedOutput(); err != nil { // the context of the test is over
			t.Errorf("docker rm: %v, %s", err, out)
		}
	})
	return c
}

// inspect is a field of `docker inspect`, as a Go template.
func (c *container) inspect(field string) string {
	c.t.Helper()
	return docker(c.t, "inspect", "--format", "{{"+field+"}}", c.id)
}

func (c *container) log() string {
	c.t.Helper()
	return docker(c.t, "logs", c.id)
}

func (c *container) until(what string, done func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(2 * patience); !done(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("not within %v: %s; it is %s, health %s", 2*patience, what, c.inspect(".State.Status"), c.inspect("json .State.Health"))
		}
	}
}

func (c *container) waitHealth(want string) {
	c.t.Helper()
	c.until(want, func() bool { return c.inspect(".State.Health.Status") == want })
}

func (c *container) dial() *wire {
	c.t.Helper()
	var conn net.Conn
	c.until("its port is open", func() (ok bool) {
		var err error
		conn, err = net.Dial("tcp", c.addr)
		return err == nil
	})
	return newWire(c.t, conn)
}

// freeAddr is an address where nobody listens now.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestContainerImage(t *testing.T) {
	needImage(t)
	image := func(field string) string {
		return docker(t, "image", "inspect", "--format", "{{"+field+"}}", builtImage)
	}
	for name, want := range map[string]string{
		"title": "redlockd", "version": "1.2.0", "revision": "0123456789abcdef", "source": "https://example.org/redlockd",
		"licenses": "MIT AND Apache-2.0 AND BSD-2-Clause AND BSD-3-Clause", "description": "Distributed locks over the Redis protocol, on a majority of independent Redis masters",
	} {
		if got := image(`index .Config.Labels "org.opencontainers.image.` + name + `"`); got != want {
			t.Errorf("label %s: got %q, want %q", name, got, want)
		}
	}
	if got, want := image(".Config.User")+image(".Config.Entrypoint")+image(".Config.Healthcheck.Test"), "65532:65532[/redlockd][CMD /redlockd ping --inside]"; got != want {
		t.Errorf("got user, entry point and health check %s, want %s", got, want)
	}
	if size, _ := strconv.Atoi(image(".Size")); size > 22<<20 {
		t.Errorf("the image has %d bytes, and is one program of 16 MB, some certificates and licences", size)
	}
	c := docker(t, "create", builtImage)
	defer docker(t, "rm", c)
	dir := t.TempDir()
	docker(t, "export", "--output", dir+"/image.tar", c)
	files := output(t, dir, "tar", "-tf", "image.tar")
	for _, file := range []string{"redlockd\n", "licenses/redlockd\n", "etc/ssl/certs/ca-certificates.crt\n"} {
		if !strings.Contains(files, file) {
			t.Errorf("no %q in the image, which has\n%s", file, files)
		}
	}
	for _, file := range []string{"bin/sh", "usr/"} {
		if strings.Contains(files, file) {
			t.Errorf("%s is in the image:\n%s", file, files)
		}
	}
	if got := docker(t, "run", "--rm", builtImage, "version"); !strings.HasPrefix(got, "redlockd 1.2.0") {
		t.Errorf("version: got %q", got)
	}
	// By itself it starts nowhere without masters, and nowhere without users.
	for env, want := range map[string]string{"REDLOCKD_LOG_FORMAT=json": "masters: none are named", "REDLOCKD_MASTERS=a:1": "protected mode"} {
		out, err := exec.Command("docker", "run", "--rm", "-e", env, builtImage).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: got %v and %s, want it refused: %s", env, err, out, want)
		}
	}
}

// The health check finds the server whatever its settings are, and only while it answers.
func TestContainerIsHealthy(t *testing.T) {
	needImage(t)
	dir := t.TempDir()
	os.Chmod(dir, 0o755)
	writeGoodCertificate(t, dir, 1)
	for _, file := range []string{"cert.pem", "key.pem"} {
		if err := os.Chown(filepath.Join(dir, file), 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	users := filepath.Join(dir, "users.toml")
	writeFile(t, users, fmt.Sprintf("masters = \"embedded\"\n[auth]\nusers = [{name = \"a\", password = \"sha256:%x\", admin = false}]\n", sha256.Sum256([]byte("a"))), 0o644)
	files := []string{"--volume", dir + ":/files:ro"}
	secured := append(files, "-e", "REDLOCKD_SERVER_TLS_CERT=/files/cert.pem", "-e", "REDLOCKD_SERVER_TLS_KEY=/files/key.pem")
	for name, s := range map[string]struct{ flags, args []string }{
		"plain":                   {nil, nil},
		"TLS":                     {secured, nil},
		"client certificates":     {append(slices.Clone(secured), "-e", "REDLOCKD_SERVER_TLS_CLIENT_CA=/files/cert.pem"), nil},
		"a unix socket":           {[]string{"--tmpfs", "/run/redlockd:mode=1777"}, []string{"serve", "--listen", "unix:/run/redlockd/s"}},
		"another port, by a flag": {nil, []string{"serve", "--listen", freeAddr(t)}},
		"a file, by a flag":       {files, []string{"serve", "--config", "/files/users.toml"}},
		"no masters that answer":  {[]string{"-e", "REDLOCKD_MASTERS=127.0.0.1:1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			base := []string{"-e", "REDLOCKD_MASTERS=embedded", "-e", "REDLOCKD_SERVER_LISTEN=" + freeAddr(t)}
			c := runContainer(t, append(base, s.flags...), s.args)
			c.waitHealth("healthy")
		})
	}
	t.Run("one that hangs", func(t *testing.T) {
		c := runContainer(t, []string{"-e", "REDLOCKD_MASTERS=embedded", "-e", "REDLOCKD_SERVER_LISTEN=" + freeAddr(t)}, nil)
		c.waitHealth("healthy")
		docker(t, "kill", "--signal", "STOP", c.id)
		c.waitHealth("unhealthy")
		docker(t, "kill", "--signal", "CONT", c.id)
		c.waitHealth("healthy")
	})
}

// SIGTERM drains: who holds a lock may extend and release it, nobody gets a new one, and it exits with 0. What it logs are JSON lines.
func TestContainerDrains(t *testing.T) {
	needImage(t)
	addr := freeAddr(t)
	c := runContainer(t, []string{"-e", "REDLOCKD_MASTERS=embedded", "-e", "REDLOCKD_SERVER_LISTEN=" + addr, "-e", "REDLOCKD_SERVER_DRAIN_TIMEOUT=1m"}, nil)
	c.addr = addr
	holder := c.dial()
	holder.lock("r", "t1")
	other := c.dial()
	other.want("PING", "PONG")
	docker(t, "kill", "--signal", "TERM", c.id)
	c.until("it drains", func() bool { return strings.Contains(c.log(), `"msg":"draining`) })
	if got, err := strconv.Atoi(holder.do("EXTEND r t1 30000")); err != nil || got <= 0 {
		t.Errorf("EXTEND while it drains: got %d, %v, want a validity", got, err)
	}
	if got := other.do("LOCK s 30000"); !strings.HasPrefix(got, "LEAVING") {
		t.Errorf("LOCK while it drains: got %q, want LEAVING", got)
	}
	if out, err := exec.Command("docker", "exec", c.id, "/redlockd", "ping", "--inside").CombinedOutput(); err != nil {
		t.Errorf("ping --inside while it drains: %v, %s", err, out)
	}
	holder.want("UNLOCK r t1", "1")
	if code := docker(t, "wait", c.id); code != "0" {
		t.Errorf("exit code %s, want 0", code)
	}
	wantJSON(t, c.log(), "draining", "drained", "stopped")

	// With a lock that nobody releases it ends within the time that docker stop gives: 7 s of 10.
	c = runContainer(t, []string{"-e", "REDLOCKD_MASTERS=embedded", "-e", "REDLOCKD_SERVER_LISTEN=" + addr}, nil)
	c.addr = addr
	c.dial().lock("r", "t1")
	docker(t, "stop", c.id)
	if code := c.inspect(".State.ExitCode"); code != "0" || !strings.Contains(c.log(), "drain_timeout is over") {
		t.Errorf("docker stop beside a lock: exit code %s, want 0 and the end of drain_timeout in the log", code)
	}
}

// wantJSON checks that all lines of a log are JSON, and that those with these beginnings of messages are among them.
func wantJSON(t *testing.T, log string, messages ...string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var entry struct {
			Time       time.Time
			Level, Msg string
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time.IsZero() || entry.Level == "" || entry.Msg == "" {
			t.Errorf("no line of a log in JSON: %v, %q", err, line)
		}
		messages = slices.DeleteFunc(messages, func(m string) bool { return strings.HasPrefix(entry.Msg, m) })
	}
	if len(messages) > 0 {
		t.Errorf("no %q in the log\n%s", messages, log)
	}
}

// The kernel ends no container for its memory: redlockd knows the limit, in a container of any kind, and takes less.
func TestContainerHasLittleMemory(t *testing.T) {
	needImage(t)
	_, masters := startMasters(t, 3)
	half := []byte("*2\r\n$4\r\nECHO\r\n$20000\r\n" + strings.Repeat("x", 15_000))
	for _, namespace := range []string{"private", "host"} { // where /proc/self/cgroup shows the root, and where it shows the path on the host
		t.Run("control group namespace "+namespace, func(t *testing.T) {
			addr := freeAddr(t)
			c := runContainer(t, []string{"--cgroupns", namespace, "--memory", "64m", "--cpus", "0.5", "-e", "REDLOCKD_MASTERS=" + masters, "-e", "REDLOCKD_SERVER_LISTEN=" + addr,
				"-e", "REDLOCKD_MASTER_TIMEOUT=1s"}, []string{"serve", "--bootstrap"})
			c.addr = addr
			good := c.dial()
			good.lock("before", namespace)
			if log := c.log(); !strings.Contains(log, `"memory_limit":60`) || !strings.Contains(log, "the limit of memory lowers what clients may take") {
				t.Errorf("it does not know its limit of 64 MB:\n%s", log)
			}
			var clients sync.WaitGroup
			for range 3310 {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
				clients.Go(func() { conn.Write(half) })
			}
			good.lock("during", namespace)
			clients.Wait()
			good.lock("after", namespace)
			for _, r := range []string{"before", "during", "after"} {
				good.want("UNLOCK "+r+" "+namespace, "1")
			}
			// All that the clients have sent is read meanwhile.
			for range 500 {
				good.lock("again", namespace)
				good.want("UNLOCK again "+namespace, "1")
			}
			if got := c.inspect(".State.Status") + " " + c.inspect(".State.OOMKilled") + " " + c.inspect(".RestartCount"); got != "running false 0" {
				t.Errorf("status, ended for its memory, restarts: got %s, want running false 0", got)
			}
		})
	}
}

// composition is a compose.yaml that is up.
type composition struct {
	t    *testing.T
	with []string // docker compose, or docker-compose
}

// ports are where compose.yaml publishes its redlockds.
var ports = map[string]string{"redlockd": "127.0.0.1:6380", "redlockd2": "127.0.0.1:6381"}

func (c *composition) command(args ...string) *exec.Cmd {
	line := slices.Concat(c.with, []string{"-f", "../../docker/compose.yaml"}, args)
	return exec.Command(line[0], line[1:]...)
}

func (c *composition) run(args ...string) string {
	c.t.Helper()
	cmd := c.command(args...)
	var errs strings.Builder
	cmd.Stderr = &errs // Compose says there what it does
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("%s: %v\n%s%s", cmd.Args, err, out, errs.String())
	}
	return strings.TrimSpace(string(out))
}

// container is that of a service.
func (c *composition) container(service string) *container {
	return &container{t: c.t, id: c.run("ps", "-q", service), addr: ports[service]}
}

// compose brings compose.yaml up, until all masters vote.
func compose(t *testing.T, with ...string) *composition {
	t.Helper()
	t.Setenv("DOCKER_BUILDKIT", "1")
	c := &composition{t, with}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := c.command("logs", "--tail", "60").CombinedOutput()
			t.Logf("logs:\n%s", log)
		}
		if out, err := c.command("down", "--volumes").CombinedOutput(); err != nil {
			t.Errorf("down: %v, %s", err, out)
		}
	})
	c.run("build", "--build-arg", "VERSION=1.2.0")
	c.run("up", "--detach")
	c.waitVotes()
	return c
}

// waitVotes waits until both redlockds have the votes of all masters.
func (c *composition) waitVotes() {
	c.t.Helper()
	for service := range ports {
		w := c.container(service)
		w.until("all masters vote", func() bool {
			info, err := askOnce(w.addr, "INFO masters")
			return err == nil && strings.Contains(info, "masters_up:5\r\n") && strings.Contains(info, "membership_voters:5\r\n")
		})
	}
}

// askOnce sends a command over a connection of its own.
func askOnce(addr, command string) (reply string, err error) {
	conn, err := net.DialTimeout("tcp", addr, 2*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(3 * time.Second))
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	var read func() (string, error)
	read = func() (string, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		line = strings.TrimRight(line, "\r\n")
		n, _ := strconv.Atoi(line[1:])
		switch {
		case n < 0 && (line[0] == '$' || line[0] == '*'):
			return "null", nil
		case line[0] == '$':
			bulk := make([]byte, n+2)
			_, err := io.ReadFull(r, bulk)
			return string(bulk[:n]), err
		case line[0] == '*':
			all := make([]string, n)
			for i := range all {
				if all[i], err = read(); err != nil {
					return "", err
				}
			}
			return strings.Join(all, " "), nil
		}
		return line[1:], nil
	}
	return read()
}

// traffic takes and releases one lock through both redlockds all the time, and holds another one.
type traffic struct {
	t       *testing.T
	grants  atomic.Int64 // of "busy"
	inside  atomic.Int64 // who holds it now
	renewed atomic.Int64 // how often "kept" was extended
	stop    chan struct{}
	ended   sync.WaitGroup
}

func startTraffic(t *testing.T) *traffic {
	t.Helper()
	tr := &traffic{t: t, stop: make(chan struct{})}
	services := []string{ports["redlockd"], ports["redlockd2"]}
	if reply, err := askOnce(services[0], "LOCK kept 60000 TOKEN keeper"); err != nil || !strings.HasPrefix(reply, "keeper ") {
		t.Fatalf("LOCK kept: got %q, %v", reply, err)
	}
	for i := range 4 {
		tr.ended.Go(func() {
			for n := 0; !tr.over(10 * time.Millisecond); n++ {
				tr.contend(services[rand.IntN(2)], fmt.Sprintf("%d-%d", i, n))
			}
		})
	}
	tr.ended.Go(func() { tr.keep(services) })
	t.Cleanup(tr.end)
	return tr
}

// over waits, and tells whether the traffic has ended.
func (tr *traffic) over(pause time.Duration) bool {
	select {
	case <-tr.stop:
		return true
	case <-time.After(pause):
		return false
	}
}

func (tr *traffic) end() {
	select {
	case <-tr.stop:
	default:
		close(tr.stop)
	}
	tr.ended.Wait()
}

// contend takes and releases the busy lock. A holder counts as long as its lock is valid.
func (tr *traffic) contend(addr, token string) {
	sentAt := time.Now()
	reply, err := askOnce(addr, "LOCK busy 5000 TOKEN "+token+" WAIT 1000")
	ms, granted := strings.CutPrefix(reply, token+" ")
	validity, _ := strconv.Atoi(ms)
	end := sentAt.Add(time.Duration(validity) * time.Millisecond)
	if err != nil || !granted || time.Until(end) < 2*time.Second { // late: it may end while this test is paused
		return
	}
	if others := tr.inside.Add(1) - 1; others > 0 {
		tr.t.Errorf("%s has the lock through %s beside %d others", token, addr, others)
	}
	time.Sleep(5 * time.Millisecond)
	tr.inside.Add(-1)
	if time.Now().After(end) {
		tr.t.Error("the machine was paused for longer than a lock: the test says nothing")
	}
	tr.grants.Add(1)
	for _, addr := range []string{addr, ports["redlockd"], ports["redlockd2"]} {
		if _, err := askOnce(addr, "UNLOCK busy "+token); err == nil {
			return
		}
	}
}

// keep extends the kept lock through any redlockd, as its holder would, and has others try to take it.
func (tr *traffic) keep(services []string) {
	end := time.Now().Add(50 * time.Second)
	for !tr.over(500 * time.Millisecond) {
		for _, addr := range services {
			if reply, err := askOnce(addr, "LOCK kept 1000 TOKEN thief"); err == nil && strings.HasPrefix(reply, "thief ") {
				tr.t.Errorf("%s gives away a lock that is held", addr)
			}
			sentAt := time.Now()
			reply, err := askOnce(addr, "EXTEND kept keeper 60000")
			if ms, _ := strconv.Atoi(reply); err == nil && ms > 0 {
				end = sentAt.Add(time.Duration(ms) * time.Millisecond)
				tr.renewed.Add(1)
			} else if err == nil && reply == "0" {
				tr.t.Errorf("%s says that the kept lock is lost", addr)
				return
			}
		}
		if time.Now().After(end) {
			tr.t.Error("no redlockd extended the kept lock in time")
			return
		}
	}
}

// goesOn waits until locks have been granted and extended again, several times.
func (tr *traffic) goesOn(while string) {
	tr.t.Helper()
	grants, renewed := tr.grants.Load(), tr.renewed.Load()
	until(tr.t, while+": locks are granted and extended", func() bool { return tr.grants.Load() >= grants+5 && tr.renewed.Load() >= renewed+2 })
}

// The whole of compose.yaml, while locks are taken: each service is stopped, killed, paused and restarted.
func TestContainerFaults(t *testing.T) {
	needEngine(t)
	c := compose(t, "docker", "compose")
	for service := range ports {
		w := c.container(service)
		w.waitHealth("healthy")
		wantJSON(t, w.log(), "listening", "quorum reached")
		if out := docker(t, "exec", w.id, "/redlockd", "check"); !strings.Contains(out, "quorum") {
			t.Errorf("check in %s: got\n%s", service, out)
		}
	}
	tr := startTraffic(t)
	tr.goesOn("at first")
	var services []string
	for i := range 5 {
		services = append(services, fmt.Sprint("master", i+1))
	}
	services = append(services, "redlockd", "redlockd2")
	for _, service := range services {
		for _, fault := range []struct{ do, undo string }{{"stop", "start"}, {"kill", "start"}, {"pause", "unpause"}, {"restart", ""}} {
			what := fault.do + " " + service
			c.run(fault.do, service)
			tr.goesOn(what)
			if fault.undo != "" {
				c.run(fault.undo, service)
			}
			c.waitVotes()
			tr.goesOn("after " + what)
			if t.Failed() {
				t.Fatalf("it began with: %s", what)
			}
			t.Logf("%s: %d grants, %d extensions", what, tr.grants.Load(), tr.renewed.Load())
		}
	}

	// Two of five masters may be away; without a third, nobody gets a lock, and what is held stays held.
	c.run("pause", "master1", "master4")
	tr.goesOn("two masters are paused")
	c.run("pause", "master5")
	until(t, "three masters are paused: NOQUORUM", func() bool {
		reply, err := askOnce(ports["redlockd"], "LOCK other 1000")
		return err == nil && strings.HasPrefix(reply, "NOQUORUM")
	})
	c.run("unpause", "master1", "master4", "master5")
	c.waitVotes()
	tr.goesOn("all masters are back")

	// One redlockd after the other becomes a newer one, by the commands in compose.yaml.
	c.run("build", "--build-arg", "VERSION=1.3.0")
	for _, service := range []string{"redlockd", "redlockd2"} {
		c.run("up", "--detach", "--no-deps", service)
		tr.goesOn("upgrade of " + service)
		c.waitVotes()
		for _, other := range []string{"redlockd", "redlockd2"} {
			want := "1.3.0"
			if other == "redlockd2" && service == "redlockd" {
				want = "1.2.0"
			}
			if info, err := askOnce(ports[other], "INFO server"); err != nil || !strings.Contains(info, "\r\nredlockd_version:"+want+"\r\n") {
				t.Errorf("after the upgrade of %s, %s: got %v and %s, want version %s", service, other, err, info, want)
			}
		}
	}
	tr.end()
	if reply, err := askOnce(ports["redlockd2"], "UNLOCK kept keeper"); err != nil || reply != "1" {
		t.Errorf("UNLOCK of the kept lock: got %q, %v, want 1", reply, err)
	}
}

// docker-compose 1.29, which Debian 12 has, reads the same file.
func TestContainerOldCompose(t *testing.T) {
	needEngine(t)
	if got := output(t, ".", "docker-compose", "version", "--short"); !strings.HasPrefix(got, "1.") {
		t.Fatalf("docker-compose is %s, want 1: the tests of Compose 2 are others", got)
	}
	c := compose(t, "docker-compose")
	tr := startTraffic(t)
	tr.goesOn("at first")
	c.run("restart", "master2", "redlockd")
	c.waitVotes()
	tr.goesOn("after restarts")
	tr.end()
}

// The engine of these tests, and all that it has started, ends with its script, also when that is killed.
func TestContainerEngineEnds(t *testing.T) {
	needEngine(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		cmd := exec.Command("../../docker/package/engine.sh", "sh", "-c", "docker run --detach redis:7.2 && echo $DOCKER_HOST && sleep 1000")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		state := ""
		for lines := bufio.NewScanner(out); state == "" && lines.Scan(); {
			if host, ok := strings.CutPrefix(lines.Text(), "unix://"); ok {
				state = filepath.Dir(host)
			}
		}
		if n := processesOf(state); state == "" || n < 3 {
			t.Fatalf("the engine in %q has %d processes, want dockerd, containerd and a shim at least", state, n)
		}
		cmd.Process.Signal(sig)
		cmd.Wait()
		until(t, "nothing of the engine is left", func() bool { return processesOf(state) == 0 })
		if _, err := os.Stat(state); sig == syscall.SIGTERM && !os.IsNotExist(err) {
			t.Errorf("its folder is left: %v", err)
		}
		// What is killed leaves its files, and its control groups, which have no processes any more.
		os.RemoveAll(state)
		output(t, ".", "find", "/sys/fs/cgroup", "-depth", "-type", "d", "-path", "*/"+filepath.Base(state)+"*", "-exec", "rmdir", "{}", "+")
	}
}

// processesOf is how many processes have the path of an engine on their command line.
func processesOf(state string) (n int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), state) {
			n++
		}
	}
	return n
}
