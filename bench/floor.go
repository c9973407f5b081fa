package main

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// floorText is a proxy of a hundred lines that only passes on what redlockd sends: what a LOCK costs at least here, with the same hops.
//
//go:embed floor/floor.c
var floorText []byte

const compiler = "cc"

// startFloor compiles it and has it pass on to the masters.
func startFloor(ctx context.Context, masters []string, log *os.File) (*proxy, error) {
	dir, err := os.MkdirTemp("", "redlockd-bench-floor-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // a program that runs needs its file no more
	text, program := filepath.Join(dir, "floor.c"), filepath.Join(dir, "floor")
	if err := os.WriteFile(text, floorText, 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, compiler, "-O2", "-o", program, text).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile floor.c: %w\n%s", err, out)
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	var ports []string
	for _, at := range append([]string{addr}, masters...) {
		_, port, err := net.SplitHostPort(at)
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return startProxy(ctx, exec.Command(program, ports...), addr, "", log)
}
