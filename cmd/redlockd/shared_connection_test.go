package main

// Goal: a service whose callers share one connection hands a lock on among them, as with a connection for each.
// Method: programs with the clients that share (testdata/libraries), through redlockd over five redis-servers. How long it takes is logged.

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCallersOfOneConnection(t *testing.T) {
	needLibraries(t)
	_, addrs := startMasters(t, 5)
	p := launch(t, "--masters", addrs, "--bootstrap")
	build, err := filepath.Abs(filepath.Join(librariesDir, "build"))
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range []struct{ name, command string }{
		{"ioredis", "BUILD/node/node BUILD/node/shared.js"},
		{"lettuce", "java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp BUILD/java/classes:BUILD/java/lib/* Shared"},
		{"redis-rs", "BUILD/rust/debug/locks"},
	} {
		t.Run(client.name, func(t *testing.T) {
			took := map[int]string{}
			for _, connections := range []int{1, 100} {
				args := strings.Fields(strings.ReplaceAll(client.command, "BUILD", build))
				args = append(append(args, strings.Split(p.addr, ":")...), "100", fmt.Sprint(connections))
				out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).Output()
				lines := strings.Split(strings.TrimSpace(string(out)), "\n")
				if err != nil || len(lines) != 2 || lines[0] != "100 callers, 1 at once" {
					t.Fatalf("over %d connections: got %q, %v; want 100 callers, 1 at once", connections, out, err)
				}
				took[connections] = lines[1]
			}
			t.Logf("a hundred callers hand a lock on in %s ms over one connection, %s ms over a hundred", took[1], took[100])
		})
	}
}
