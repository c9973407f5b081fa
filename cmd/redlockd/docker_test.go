package main

// Goal: what docker/ says of redlockd and of its masters is true. Method: a real master with redis.conf
// is checked, with and without the user that its comment proposes; every variable, flag and setting in
// the other files must exist, and the command that asks a master whether it is Ready is run on real
// ones. Docker and Kubernetes themselves are not tried here.

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/redlock"
	"redlockd/redlock/redisproc"
)

const dockerDir = "../../docker"

func readDocker(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dockerDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDockerMastersCanVote(t *testing.T) {
	path, err := filepath.Abs(filepath.Join(dockerDir, "helm", "redis.conf"))
	if err != nil {
		t.Fatal(err)
	}
	servers, addrs := startMasters(t, 1, "--include", path, "--bind", "127.0.0.1")
	user := regexp.MustCompile(`(?m)^#\s+user (\S+ on >password .*)$`).FindStringSubmatch(readDocker(t, "helm/redis.conf"))
	if user == nil {
		t.Fatal("redis.conf proposes no user")
	}
	redisCLI(t, servers[0].Addr, append([]string{"ACL", "SETUSER"}, strings.Fields(user[1])...)...)
	for _, m := range []redlock.Master{{Addr: addrs}, {Addr: addrs, Username: strings.Fields(user[1])[0], Password: "password"}} {
		reports, _ := redlock.ProbeAll(t.Context(), redlock.Options{Masters: []redlock.Master{m}}, patience)
		r := reports[0]
		if !r.Votes() || r.MaxMemory != 256<<20 || r.MaxMemoryPolicy != "noeviction" || r.AOF || r.Save != "" {
			t.Errorf("user %q: got %+v, want a vote, 256 MB, noeviction, no persistence", m.Username, r)
		}
		for _, p := range r.Problems {
			if !strings.HasPrefix(p.Reason, "no server has admitted it") {
				t.Errorf("user %q: %s: %s", m.Username, p.Severity, p.Reason)
			}
		}
	}
}

// ownAddress is an address of this machine that a Redis takes for another machine's; loopback where there is none.
func ownAddress() string {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}

// A stranger copies redis.conf to a machine that others can reach: as it stands it serves that machine
// alone, and by its advice nobody without the password. compose.yaml opens it in a network of its own;
// in Kubernetes a password is demanded (TestKubernetesMastersGetAPassword).
func TestRedisConfIsSafeWhereItIsCopied(t *testing.T) {
	path, err := filepath.Abs(filepath.Join(dockerDir, "helm", "redis.conf"))
	if err != nil {
		t.Fatal(err)
	}
	text, host := readDocker(t, "helm/redis.conf"), ownAddress()
	servers, addr := startMasters(t, 1, "--include", path)
	for name, want := range map[string]string{"bind": "127.0.0.1", "protected-mode": "yes"} {
		if got := redisCLI(t, addr, "CONFIG", "GET", name); got != name+"\n"+want {
			t.Errorf("as it stands: got %q, want %s %s", got, name, want)
		}
	}
	servers[0].Close()
	at := func(addr string) string {
		_, port, _ := net.SplitHostPort(addr)
		return net.JoinHostPort(host, port)
	}
	votes := func(m redlock.Master) (bool, []redlock.Problem) {
		reports, _ := redlock.ProbeAll(t.Context(), redlock.Options{Masters: []redlock.Master{m}}, patience)
		return reports[0].Votes(), reports[0].Problems
	}
	for _, c := range []struct {
		advice []string // lines of the comment that replace those at the end
		master redlock.Master
	}{
		{[]string{"bind", "requirepass"}, redlock.Master{Password: "a-long-random-one"}},
		{[]string{"bind", "user default", "user redlockd"}, redlock.Master{Username: "redlockd", Password: "password"}},
	} {
		conf := regexp.MustCompile(`(?m)^(bind|protected-mode) .*$`).ReplaceAllString(text, "")
		for _, begin := range c.advice {
			line := regexp.MustCompile(`(?m)^#   (` + begin + ` .*)$`).FindStringSubmatch(text)
			if line == nil {
				t.Fatalf("redis.conf has no advice that begins with %s", begin)
			}
			conf += strings.Replace(line[1], "10.0.0.1", host, 1) + "\n"
		}
		file := filepath.Join(t.TempDir(), "redis.conf")
		writeFile(t, file, conf, 0o600)
		servers, addr := startMasters(t, 1, "--include", file)
		stranger := redlock.Master{Addr: at(addr)}
		if ok, why := votes(stranger); ok || !strings.Contains(fmt.Sprint(why), "NOAUTH") {
			t.Errorf("%s: without a password: votes %v, %v; want NOAUTH", c.advice, ok, why)
		}
		c.master.Addr = at(addr)
		if ok, why := votes(c.master); !ok {
			t.Errorf("%s: got %v, want a vote", c.advice, why)
		}
		servers[0].Close()
	}

	if want := `command: ["redis-server", "/etc/redis.conf", "--bind", "*", "-::*", "--protected-mode", "no"]`; !strings.Contains(readDocker(t, "compose.yaml"), want) {
		t.Errorf("compose.yaml has no %s", want)
	}
	_, addr = startMasters(t, 1, "--include", path, "--bind", "*", "-::*", "--protected-mode", "no")
	if ok, why := votes(redlock.Master{Addr: at(addr)}); !ok {
		t.Errorf("as compose.yaml starts it: got %v, want a vote", why)
	}
}

func TestDockerNamesExist(t *testing.T) {
	variables := []string{config.FileVariable}
	for _, s := range config.Default().Settings {
		variables = append(variables, s.Environment())
	}
	var flags []string
	for _, c := range commands {
		for _, f := range c.AllFlags() {
			flags = append(flags, "--"+f.Name)
		}
	}
	// Flags of docker, kubectl, helm and their files, and of redis-server.
	flags = append(flags, "--bind", "--now", "--since", "--enable-feature", "--protected-mode", "--from", "--mount", "--rm", "--build-arg", "--build", "--no-deps", "--memory", "--network", "--from-file", "--from-literal", "--replicas", "--set")
	entries, err := os.ReadDir(dockerDir)
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"README.md", "proxy/commands.md", "redlock/guarantees.md", "cmd/redlockd/libraries.md"}
	for _, e := range entries {
		if !e.IsDir() { // scripts, which have flags of many programs
			files = append(files, "docker/"+e.Name())
		}
	}
	for _, file := range files {
		text := readPage(t, file)
		for _, name := range regexp.MustCompile(`\bREDLOCKD_\w+`).FindAllString(text, -1) {
			if !slices.Contains(variables, name) {
				t.Errorf("%s: there is no variable %s", file, name)
			}
		}
		for _, name := range regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(text, -1) {
			if !slices.Contains(flags, name) {
				t.Errorf("%s: there is no flag %s", file, name)
			}
		}
	}
	if !strings.Contains(readDocker(t, "Dockerfile"), "-X main.version=") {
		t.Error("Dockerfile: does not set main.version")
	}
}

// kubernetesConfig is the configuration in the Kubernetes manifest as redlockd would read it; other
// files stand in for its secrets.
func kubernetesConfig(t *testing.T) *config.Config {
	t.Helper()
	_, block, found := strings.Cut(readDocker(t, "kubernetes.yaml"), "  config.toml: |\n")
	block, _, ended := strings.Cut(block, "\n---\n")
	if !found || !ended {
		t.Fatal("kubernetes.yaml has no config.toml")
	}
	dir := t.TempDir()
	writeFile(t, dir+"/password", "x", 0o600)
	text := regexp.MustCompile(`password_file = "[^"]*"`).ReplaceAllString(strings.ReplaceAll("\n"+block, "\n    ", "\n"), `password_file = "`+dir+`/password"`)
	writeFile(t, dir+"/config.toml", text, 0o600)
	return mustLoad(t, map[string]string{"config": dir + "/config.toml"})
}

func TestKubernetesStopsInTime(t *testing.T) {
	c := kubernetesConfig(t)
	if stop, patience := c.DrainDelay+c.DrainTimeout+2*time.Second, 30*time.Second; c.DrainDelay == 0 || stop >= patience {
		t.Errorf("drain_delay %v; to stop takes %v at most, Kubernetes kills after %v", c.DrainDelay, stop, patience)
	}
	if part := "\n    matchLabels: {app: redlockd}\n"; !strings.Contains(readDocker(t, "kubernetes.yaml"), part) {
		t.Errorf("kubernetes.yaml: no %q: redlockd has no budget of its own", part)
	}
}

// readinessOf runs the command with which Kubernetes asks a master whether it is Ready. On a pod the
// master has redis-cli's own port. It logs in with the password of the pod's environment; empty: it has
// none, and so has the master.
func readinessOf(t *testing.T, addr, password string) (ready bool) {
	t.Helper()
	block := regexp.MustCompile(`readinessProbe:\n(?: +#.*\n)* +exec:\n +command:\n +- sh\n +- -c\n +- \|\n((?: {18}\S.*\n)+)`).FindStringSubmatch(readDocker(t, "kubernetes.yaml"))
	if block == nil {
		t.Fatal("kubernetes.yaml: no command asks a master whether it is Ready")
	}
	path, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	_, port, _ := net.SplitHostPort(addr)
	writeFile(t, dir+"/redis-cli", fmt.Sprintf("#!/bin/sh\nexec %s -p %s \"$@\"\n", path, port), 0o700)
	cmd := exec.Command("sh", "-c", block[1])
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "REDISCLI_AUTH="+password)
	out, err := cmd.CombinedOutput()
	if status, _ := errors.AsType[*exec.ExitError](err); err != nil && status == nil {
		t.Fatalf("%v: %s", err, out)
	}
	return err == nil
}

// Maintenance must not take the quorum away: a master is Ready when it votes, so that a rolling update
// waits for it, and the PodDisruptionBudget counts it as missing until then. One that is new or has
// forgotten is not Ready before a redlockd has come.
func TestKubernetesMastersAreReadyWhenTheyVote(t *testing.T) {
	s, addrs := startMembers(t, 3, 1)
	for i, want := range []bool{true, true, true, false} {
		if got := readinessOf(t, s[i].Addr, ""); got != want {
			t.Errorf("master %d of three members and a new one: ready %v, want %v", i, got, want)
		}
	}
	v, r := redisCLI(t, s[0].Addr, "HGET", "redlockd:members", "v"), redisCLI(t, s[0].Addr, "HGET", "redlockd:members", "r")
	memory, _, _ := strings.Cut(v, " ")
	other, _, _ := strings.Cut(redisCLI(t, s[1].Addr, "HGET", "redlockd:members", "v"), " ")
	for name, c := range map[string]struct {
		v, r string
		want bool
	}{
		"a voter":                            {v, r, true},
		"one that has accepted the next one": {v + " ? 00000001.0123456789abcdef 0123456789abcdef0123456789abcdef", r, true},
		"a learner":                          {v, strings.Replace(r, ","+memory+",v,", ","+memory+",l,", 1), false},
		"one whose memory is not listed":     {v, strings.Replace(r, ","+memory+",v,", ","+other+",v,", 1), false},
		"one that has forgotten":             {strings.Replace(memory, ":", ":f", 1) + " -", r, false},
		"one without a memory":               {"", r, false},
		"one without a membership":           {v, "", false},
	} {
		redisCLI(t, s[3].Addr, "HSET", "redlockd:members", "v", c.v, "r", c.r)
		if got := readinessOf(t, s[3].Addr, ""); got != c.want {
			t.Errorf("%s: ready %v, want %v", name, got, c.want)
		}
	}
	s[0].Kill()
	if readinessOf(t, s[0].Addr, "") {
		t.Error("a dead master is Ready")
	}
	if err := s[0].Restart(); err != nil {
		t.Fatal(err)
	}
	if readinessOf(t, s[0].Addr, "") {
		t.Error("a master that was just restarted is Ready")
	}
	launch(t, "--masters", addrs)
	until(t, "a master that was restarted is Ready when a redlockd has found it", func() bool { return readinessOf(t, s[0].Addr, "") })
}

// A fleet that runs without a password gets one as README says: first redlockds know it, then the masters
// that restart, one after the other, demand it. Locks are granted all the time, and none is lost. The
// readiness logs in, too: without it, the rolling update of the masters would wait for the first one for
// ever.
func TestKubernetesMastersGetAPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "redis.conf")
	writeFile(t, file, "", 0o600)
	t.Setenv("REDLOCKD_MASTER_FOUNDING_WAIT", "10ms")
	s, addrs := startMasters(t, 3, "--include", file)
	wantRun(t, cli.ExitOK, "admitted", "", "bootstrap", "--masters", addrs)
	before := launch(t, "--masters", addrs).dial()
	t.Setenv("REDLOCKD_MASTER_PASSWORD", "secret")
	after := launch(t, "--masters", addrs).dial()
	granted := func(who string, c *wire) {
		t.Helper()
		if got := c.do("LOCK r 1000 TOKEN t"); !strings.HasPrefix(got, "[t ") {
			t.Errorf("LOCK through %s: got %q, want it granted", who, got)
		}
	}
	granted("a redlockd without the password, beside masters without one", before)
	granted("a redlockd with the password, beside masters without one", after)
	if got := after.do("LOCK held 1m TOKEN h"); !strings.HasPrefix(got, "[h ") {
		t.Fatalf("got %q, want a lock to be held meanwhile", got)
	}

	writeFile(t, file, "requirepass secret\n", 0o600)
	for i, master := range s {
		until(t, "a redlockd with the password counts all masters", func() bool { return strings.Contains(after.do("INFO masters"), "masters_up:3") })
		master.Kill()
		granted("a redlockd with the password, while a master restarts", after)
		if err := master.Restart(); err != nil {
			t.Fatal(err)
		}
		until(t, fmt.Sprintf("master %d, which demands the password now, is Ready", i), func() bool { return readinessOf(t, master.Addr, "secret") })
		if readinessOf(t, master.Addr, "") || readinessOf(t, master.Addr, "another") {
			t.Errorf("master %d shows its membership without the password", i)
		}
		granted("a redlockd with the password, beside masters with and without one", after)
	}
	if got := after.do("UNLOCK held h"); got != "1" {
		t.Errorf("a lock that was held meanwhile: UNLOCK: got %q, want 1", got)
	}
	if got := before.do("LOCK r 1000"); !strings.HasPrefix(got, "NOQUORUM") {
		t.Errorf("a redlockd without the password, beside masters with one: got %q, want NOQUORUM …", got)
	}
}

// The kernel ends a pod at its limit, and with it the locks of its connections (HOLD). So redlockd lowers what clients may take to what
// fits: with the limit that is shipped it has nothing to lower, also with TLS.
func TestKubernetesMemoryFits(t *testing.T) {
	manifest, c := readDocker(t, "kubernetes.yaml"), kubernetesConfig(t)
	_, deployment, _ := strings.Cut(manifest, "\nkind: Deployment\n")
	found := regexp.MustCompile(`limits:\n +memory: (\d+)Gi`).FindStringSubmatch(deployment)
	if found == nil {
		t.Fatal("kubernetes.yaml: the Deployment has no limit of memory in Gi")
	}
	n, _ := strconv.Atoi(found[1])
	if limit := n << 30 / 10 * 9; c.Front.MaxClients*16<<10 > limit/4 || c.Front.OutputTotal > limit/8 {
		t.Errorf("%d clients and %d bytes of output are more than a quarter and an eighth of nine tenths of the limit, %d GiB", c.Front.MaxClients, c.Front.OutputTotal, n)
	}
}

// Everybody who reaches the port of the metrics sees the masters, without a login.
func TestKubernetesMetricsAreForPrometheus(t *testing.T) {
	for _, part := range []string{
		"\n    - ports: [{port: 6380}]\n    - from:\n        - namespaceSelector:\n            matchLabels: {kubernetes.io/metadata.name: monitoring}\n      ports: [{port: 9121}]\n",
		"\n  selector: {app: redlockd}\n  ports: [{name: redis, port: 6380}]\n",
		"\n  selector: {app: redlockd}\n  ports: [{name: metrics, port: 9121}]\n",
		"\n    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}",
	} {
		if manifest := readDocker(t, "kubernetes.yaml"); !strings.Contains(manifest, part) {
			t.Errorf("kubernetes.yaml: no %q", part)
		}
	}
}

func TestKubernetesConfigurationIsRead(t *testing.T) {
	c := kubernetesConfig(t)
	if err := c.CheckServed(c.Listen, c.HTTPListen); err != nil {
		t.Error(err)
	}
	if len(c.Engine.Masters) != 5 || len(c.Front.Users) != 1 || !slices.Equal(c.Listen, []string{":6380"}) {
		t.Errorf("got %d masters, %d users, listen %s; want 5, 1, :6380", len(c.Engine.Masters), len(c.Front.Users), c.Listen)
	}
}

// Nobody serves a network without users by accident: the image alone does not start, and compose.yaml
// says that it wants it so, and publishes its port to this machine alone.
func TestDockerSaysWhoMayConnect(t *testing.T) {
	image := regexp.MustCompile(`(?m)^ENV (REDLOCKD_\w+=\S+)$`).FindStringSubmatch(readDocker(t, "Dockerfile"))
	if image == nil {
		t.Fatal("Dockerfile sets no variable")
	}
	if c := mustLoad(t, nil, image[1], "REDLOCKD_MASTERS=a:1"); c.CheckServed(c.Listen, c.HTTPListen) == nil {
		t.Errorf("the image alone, with %s: got no error, want it refused", image[1])
	}
	environ := []string{image[1]}
	compose := readDocker(t, "compose.yaml")
	for _, pair := range regexp.MustCompile(`(?m)^ +(REDLOCKD_\w+): "?([^"\n]+?)"?$`).FindAllStringSubmatch(compose, -1) {
		environ = append(environ, pair[1]+"="+pair[2])
	}
	composed := mustLoad(t, nil, environ...)
	if err := composed.CheckServed(composed.Listen, composed.HTTPListen); err != nil {
		t.Errorf("compose.yaml, with %q: %v", environ, err)
	}
	// It is for trying out, so it grants locks from its first second on: TestBootstrapBeforeTheMasters
	// tries the flag.
	if !strings.Contains(compose, `command: ["serve", "--bootstrap"]`) {
		t.Error("compose.yaml does not admit its new masters at once")
	}
	ports := regexp.MustCompile(`(?m)^ +ports: (.*)$`).FindAllStringSubmatch(compose, -1)
	if len(ports) != 2 || ports[0][1] != `["127.0.0.1:6380:6380"]` || ports[1][1] != `["127.0.0.1:6381:6380"]` {
		t.Errorf("compose.yaml needs no password, and publishes %q: want 6380 and 6381, to this machine alone", ports)
	}
}

// The image says what it is, and asks for its health in a way that no setting can break: TestHealthWithAnySettings tries that, and TestContainerImage the built one.
func TestDockerfileSaysWhatItIs(t *testing.T) {
	text := readDocker(t, "Dockerfile")
	for _, want := range []string{
		`org.opencontainers.image.title="redlockd"`, `org.opencontainers.image.version="${VERSION}"`,
		`org.opencontainers.image.revision="${REVISION}"`, `org.opencontainers.image.source="${SOURCE}"`,
		"\nHEALTHCHECK CMD [\"/redlockd\", \"ping\", \"--inside\"]\n", "\nUSER 65532:65532\n", "\nENTRYPOINT [\"/redlockd\"]\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("Dockerfile has no %q", want)
		}
	}
	// The licences in the label are those of all that is linked.
	redisproc.Need(t, "bash")
	var named []string
	for _, l := range regexp.MustCompile(`(?m)^License: (.+)$`).FindAllStringSubmatch(output(t, ".", filepath.Join(dockerDir, "package/licenses.sh"), binary(t)), -1) {
		named = append(named, l[1])
	}
	slices.Sort(named)
	label := regexp.MustCompile(`org.opencontainers.image.licenses="(.*)"`).FindStringSubmatch(text)
	if label == nil {
		t.Fatal("Dockerfile names no licences")
	}
	labelled := strings.Split(label[1], " AND ")
	slices.Sort(labelled)
	if named = slices.Compact(named); !slices.Equal(labelled, named) {
		t.Errorf("Dockerfile names the licences %q, and the program has %q", labelled, named)
	}
}
