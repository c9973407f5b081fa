package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
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
	Redlockd   string            `json:"redlockd"` // empty when no target uses it
	Settings   []string          `json:"redlockd_environment"`
	Modules    map[string]string `json:"modules"`
}

// clientModules are the libraries whose versions matter, by the names the report prints.
var clientModules = map[string]string{
	"github.com/go-redsync/redsync/v4": "redsync",
	"github.com/redis/go-redis/v9":     "go-redis",
	"github.com/redis/rueidis":         "rueidis",
}

// readEnvironment asks the machine and the programs. A fact that cannot be had reads "unknown": it spoils no figure.
func readEnvironment(flags []string, program *proxyProgram) environment {
	e := environment{
		Date:       time.Now().UTC().Truncate(time.Second),
		Flags:      flags,
		CPUModel:   fieldOf(readFile("/proc/cpuinfo"), "model name"),
		CPUs:       runtime.NumCPU(),
		Kernel:     readFile("/proc/sys/kernel/osrelease"),
		LoadBefore: loadAverage(),
		Go:         runtime.Version(),
		Redis:      outputOf(redisServer, "--version"),
		Modules:    map[string]string{},
	}
	if program != nil {
		e.Redlockd = outputOf(program.path, "version")
		e.Settings = program.environ
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if name, ok := clientModules[module.Path]; ok {
				e.Modules[name] = module.Version
			}
		}
	}
	return e
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

// redisServer is the program of the masters.
const redisServer = "redis-server"

// requireRedis explains how to get redis-server, before anything is started.
func requireRedis() error {
	if _, err := exec.LookPath(redisServer); err != nil {
		return fmt.Errorf("redis-server is not installed: the masters of this benchmark are real ones. On Debian: apt install redis-server (%w)", err)
	}
	return nil
}
