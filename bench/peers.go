package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os/exec"
	"path/filepath"
)

// peersMod names the file that stands in for go.mod where the peers are built: go.mod itself, and the modules that only
// they need. The product's list of modules stays as short as the product needs it.
const peersMod = "bench/peers.mod"

// buildPeers builds this program once more, with the tag peers, into the directory scratch, and returns its path. It serves
// as the load generator of the targets that are peers.
func buildPeers(ctx context.Context, scratch string) (string, error) {
	const hint = "build the peers bsm and etcd (run the bench inside its module, or leave them out of --targets)"
	top, err := moduleDir(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: %w", hint, err)
	}
	path := filepath.Join(scratch, "peers")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "peers", "-modfile", peersMod, "-o", path, "./bench")
	build.Dir = top
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", hint, err, out)
	}
	return path, nil
}

// moduleVersions are the versions of clientModules in a program on disk; none if it cannot be read.
func moduleVersions(path string) map[string]string {
	versions := map[string]string{}
	build, err := buildinfo.ReadFile(path)
	if err != nil {
		return versions
	}
	for _, module := range build.Deps {
		if name, ok := clientModules[module.Path]; ok {
			versions[name] = module.Version
		}
	}
	return versions
}
