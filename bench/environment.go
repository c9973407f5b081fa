package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// environment is what a figure depends on besides the code.
type environment struct {
	Date       time.Time         `json:"date"`
	Flags      []string          `json:"flags"`
	CPUModel   string            `json:"cpu_model"`
	CPUs       int               `json:"cpus"`
	Kernel     string            `json:"kernel"`
	LoadBefore string            `json:"load_average_before"` // over 1, 5 and 15 minutes
	LoadAfter  string            `json:"load_average_after"`
	Go         string            `json:"go"`
	Redis      string            `json:"redis_server"`
	Etcd       string            `json:"etcd,omitempty"`
	Redlockd   string            `json:"redlockd"` // empty when it is not measured
	Settings   []string          `json:"redlockd_environment"`
	Modules    map[string]string `json:"modules"`
	Rounds     []roundLoad       `json:"rounds"`
}

// roundLoad is how busy the machine was when a round began: what else ran on it is in every figure.
type roundLoad struct {
	Scenario string `json:"scenario"`
	Load     string `json:"load_average"`
}

// clientModules are the libraries whose versions matter, by the names the report prints.
var clientModules = map[string]string{
	"github.com/go-redsync/redsync/v4": "redsync",
	"github.com/redis/go-redis/v9":     "go-redis",
	"github.com/redis/rueidis":         "rueidis",
	"github.com/bsm/redislock":         "bsm/redislock",
	"go.etcd.io/etcd/client/v3":        "etcd client",
}

// readEnvironment asks the machine and the programs. A fact that cannot be had reads "unknown": it spoils no figure.
func readEnvironment(flags []string, program *proxyProgram, etcd bool) environment {
	e := environment{
		Date:       time.Now().UTC().Truncate(time.Second),
		Flags:      flags,
		CPUModel:   fieldOf(readFile("/proc/cpuinfo"), "model name"),
		CPUs:       runtime.NumCPU(),
		Kernel:     readFile("/proc/sys/kernel/osrelease"),
		LoadBefore: loadAverage(),
		Go:         runtime.Version(),
		Redis:      outputOf(redisServer, "--version"),
		Modules:    moduleVersions(),
	}
	if program != nil {
		e.Redlockd = outputOf(program.path, "version")
		e.Settings = settingsOf(slices.Concat(os.Environ(), program.environ))
	}
	if etcd {
		e.Etcd = outputOf(etcdProgram, "--version")
	}
	return e
}

// moduleVersions are the versions of clientModules in this program.
func moduleVersions() map[string]string {
	versions := map[string]string{}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if name, ok := clientModules[module.Path]; ok {
				versions[name] = module.Version
			}
		}
	}
	return versions
}

// redlockdVariable matches the variables that change how redlockd runs.
var redlockdVariable = regexp.MustCompile(`^(REDLOCKD_\w+|GOMAXPROCS|GOGC|GOMEMLIMIT|GODEBUG)=`)

// settingsOf are the variables in an environment that change how redlockd runs: it inherits ours. What may hold a password is named only.
func settingsOf(environ []string) []string {
	settings := keep((&exec.Cmd{Env: environ}).Environ(), redlockdVariable.MatchString) // of a name, the last
	for i, s := range settings {
		if name, _, _ := strings.Cut(s, "="); strings.Contains(name, "AUTH") || strings.Contains(name, "PASSWORD") {
			settings[i] = name + "=…"
		}
	}
	return settings
}

const unknown = "unknown"

// readFile is a small file of the system as one trimmed text.
func readFile(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return unknown
	}
	return strings.TrimSpace(string(text))
}

// fieldOf finds the first "name : value" line.
func fieldOf(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}

func loadAverage() string {
	if fields := strings.Fields(readFile("/proc/loadavg")); len(fields) >= 3 {
		return strings.Join(fields[:3], " ")
	}
	return unknown
}

// outputOf is the first line that a program prints.
func outputOf(program string, args ...string) string {
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		return unknown
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return first
}

// The programs that are not ours.
const (
	redisServer    = "redis-server"
	redisBenchmark = "redis-benchmark"
)

// requirePrograms explains how to get what a run needs, before anything is started.
func requirePrograms(o options) error {
	needs := []struct {
		program, why, pkg string
		needed            bool
	}{
		{redisServer, "the masters of this benchmark are real ones", "redis-server", true},
		{redisBenchmark, "the scenario limit loads the masters with it", "redis-tools", slices.Contains(o.scenarios, scenarioLimit)},
		{etcdProgram, "it is one of the targets", "etcd-server", o.needs(targetEtcd)},
		{compiler, "the target floor is a program in C", "gcc", o.needs(targetFloor)},
	}
	for _, need := range needs {
		if !need.needed {
			continue
		}
		if _, err := exec.LookPath(need.program); err != nil {
			return fmt.Errorf("%s is not installed: %s. On Debian: apt install %s (%w)", need.program, need.why, need.pkg, err)
		}
	}
	return nil
}
