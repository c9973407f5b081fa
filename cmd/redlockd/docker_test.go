package main

// Goal: what docker/ says of redlockd and of its masters is true. Method: a real master with redis.conf is checked, with and
// without the user that its comment proposes; every variable, flag and setting in the other files must exist. Docker and
// Kubernetes themselves are not tried here.

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/cmd/redlockd/config"
	"redlockd/redlock"
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
	cli(t, servers[0].Addr, append([]string{"ACL", "SETUSER"}, strings.Fields(user[1])...)...)
	for _, m := range []redlock.Master{{Addr: addrs}, {Addr: addrs, Username: strings.Fields(user[1])[0], Password: "password"}} {
		r := redlock.Probe(t.Context(), m, patience)
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

func TestDockerNamesExist(t *testing.T) {
	variables := []string{config.FileVariable}
	for _, s := range config.Default().Settings {
		variables = append(variables, s.Environment())
	}
	var flags []string
	for _, f := range slices.Concat(serveFlags().flags, checkFlags().flags, membersFlags().flags) {
		flags = append(flags, "--"+f.name)
	}
	// Flags of docker, kubectl, helm and their files.
	flags = append(flags, "--from", "--mount", "--rm", "--build-arg", "--build", "--from-file", "--from-literal", "--replicas", "--set")
	entries, err := os.ReadDir(dockerDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			continue // scripts, which have flags of many programs
		}
		text := readDocker(t, e.Name())
		for _, name := range regexp.MustCompile(`\bREDLOCKD_\w+`).FindAllString(text, -1) {
			if !slices.Contains(variables, name) {
				t.Errorf("%s: there is no variable %s", e.Name(), name)
			}
		}
		for _, name := range regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(text, -1) {
			if !slices.Contains(flags, name) {
				t.Errorf("%s: there is no flag %s", e.Name(), name)
			}
		}
	}
	if !strings.Contains(readDocker(t, "Dockerfile"), "-X main.version=") {
		t.Error("Dockerfile: does not set main.version")
	}
}

// kubernetesConfig is the configuration in the Kubernetes manifest as redlockd would read it; other files stand in for its secrets.
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

// Maintenance must not take the quorum away: a master in quarantine is not Ready, so that the PodDisruptionBudget counts it as missing.
func TestKubernetesWaitsForTheQuarantine(t *testing.T) {
	manifest, c := readDocker(t, "kubernetes.yaml"), kubernetesConfig(t)
	delay := regexp.MustCompile(`(?m)^ +initialDelaySeconds: (\d+)$`).FindStringSubmatch(manifest)
	if delay == nil {
		t.Fatal("kubernetes.yaml: no initialDelaySeconds")
	}
	seconds, _ := strconv.Atoi(delay[1])
	// The quarantine begins when a redlockd has found the restarted master, and ends with its next look.
	o := c.Engine
	longest := o.MaxTTL + time.Duration(2*o.DriftFactor*float64(o.MaxTTL)) + o.ReconnectDelayMax + o.ConnectTimeout + 2*o.Heartbeat
	if ready := time.Duration(seconds) * time.Second; ready < longest || ready > 2*longest {
		t.Errorf("a master is Ready after %v, its quarantine may take until %v", ready, longest)
	}
	if stop, patience := c.DrainDelay+c.DrainTimeout+closeTimeout, 30*time.Second; c.DrainDelay == 0 || stop >= patience {
		t.Errorf("drain_delay %v; to stop takes %v at most, Kubernetes kills after %v", c.DrainDelay, stop, patience)
	}
	for _, part := range []string{
		"\n  publishNotReadyAddresses: true\n", // else redlockd does not reach it meanwhile
		"\n    matchLabels: {app: redlockd}\n", // a budget of redlockd's own
		"\n  podManagementPolicy: Parallel\n",  // else five masters start one after the other, each after its quarantine
	} {
		if !strings.Contains(manifest, part) {
			t.Errorf("kubernetes.yaml: no %q", part)
		}
	}
}

// The kernel ends a pod at its limit, and with it the locks of its connections (HOLD): Go must collect garbage before that, and what clients
// can take must fit below.
func TestKubernetesMemoryFits(t *testing.T) {
	manifest, c := readDocker(t, "kubernetes.yaml"), kubernetesConfig(t)
	_, deployment, _ := strings.Cut(manifest, "\nkind: Deployment\n")
	mebibytes := func(pattern string) int {
		found := regexp.MustCompile(pattern).FindStringSubmatch(deployment)
		if found == nil {
			t.Fatalf("kubernetes.yaml: the Deployment has no %s", pattern)
		}
		n, _ := strconv.Atoi(found[1])
		return n
	}
	limit, garbage := mebibytes(`limits:\n +memory: (\d+)Mi`), mebibytes(`name: GOMEMLIMIT, value: (\d+)MiB`)
	clients := 120 + (c.Front.OutputTotal+c.Front.InputTotal)>>20
	if clients > garbage || garbage > limit*9/10 {
		t.Errorf("clients may take %d MiB, GOMEMLIMIT is %d MiB, the limit %d MiB: want each well below the next", clients, garbage, limit)
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
	if err := c.CheckProtected(c.Listen); err != nil {
		t.Error(err)
	}
	if len(c.Engine.Masters) != 5 || len(c.Front.Users) != 1 || !slices.Equal(c.Listen, []string{":6380"}) {
		t.Errorf("got %d masters, %d users, listen %s; want 5, 1, :6380", len(c.Engine.Masters), len(c.Front.Users), c.Listen)
	}
}

// Nobody serves a network without users by accident: the image alone does not start, and compose.yaml says that it wants it so, and
// publishes its port to this machine alone.
func TestDockerSaysWhoMayConnect(t *testing.T) {
	image := regexp.MustCompile(`(?m)^ENV (REDLOCKD_\w+=\S+)$`).FindStringSubmatch(readDocker(t, "Dockerfile"))
	if image == nil {
		t.Fatal("Dockerfile sets no variable")
	}
	if c := mustLoad(t, nil, image[1]); c.CheckProtected(c.Listen) == nil {
		t.Errorf("the image alone, with %s: got no error, want it refused", image[1])
	}
	environ := []string{image[1]}
	compose := readDocker(t, "compose.yaml")
	for _, pair := range regexp.MustCompile(`(?m)^ +(REDLOCKD_\w+): "?([^"\n]+?)"?$`).FindAllStringSubmatch(compose, -1) {
		environ = append(environ, pair[1]+"="+pair[2])
	}
	composed := mustLoad(t, nil, environ...)
	if err := composed.CheckProtected(composed.Listen); err != nil {
		t.Errorf("compose.yaml, with %q: %v", environ, err)
	}
	// It is for trying out, so it grants locks from its first second on: TestBootstrapBeforeTheMasters tries the flag.
	if !strings.Contains(compose, `command: ["serve", "--bootstrap"]`) {
		t.Error("compose.yaml does not admit its new masters at once")
	}
	if !strings.Contains(compose, `ports: ["127.0.0.1:6380:6380"]`) {
		t.Error("compose.yaml needs no password, and publishes its port to others than this machine")
	}
}
