package main

// Goal: the package for Debian has what it should, and its program runs with its configuration. Method:
// the package is made of the program that the tests build, and unpacked.

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"redlockd/cmd/redlockd/cli"
	"redlockd/redlock/redisproc"
)

func TestDebianPackage(t *testing.T) {
	redisproc.Need(t, "dpkg-deb", "jq")
	path := binary(t)
	dir := t.TempDir()
	t.Setenv("SOURCE_DATE_EPOCH", "1750000000")
	t.Setenv("COMPRESSION", "none") // xz takes ten seconds
	t.Setenv("MAINTAINER", "A. Packager <a@example.org>")
	build := func(version, file string) string {
		output(t, ".", filepath.Join(dockerDir, "package/deb.sh"), path, runtime.GOARCH, version, file)
		return file
	}
	deb := build("1.2.0-rc1-5-gabcdef", dir+"/a.deb")
	if got := output(t, dir, "dpkg-deb", "--field", deb, "Package", "Version", "Architecture", "Maintainer"); got !=
		"Package: redlockd\nVersion: 1.2.0~rc1+5.gabcdef\nArchitecture: "+runtime.GOARCH+"\nMaintainer: A. Packager <a@example.org>\n" {
		t.Errorf("got %s", got)
	}
	output(t, dir, "cmp", deb, build("1.2.0-rc1-5-gabcdef", dir+"/b.deb")) // the same bytes again

	output(t, dir, "dpkg-deb", "--raw-extract", deb, "root")
	root := dir + "/root"
	for line := range strings.Lines(output(t, dir, "dpkg-deb", "--contents", deb)) {
		if strings.HasPrefix(line, "d") && !strings.HasPrefix(line, "drwxr-xr-x root/root ") {
			t.Errorf("a directory that is not root's, or not open to all: %s", line)
		}
		if strings.HasSuffix(line, "config.toml\n") && !strings.HasPrefix(line, "-rw-r----- root/root ") {
			t.Errorf("passwords may stand in it, and others can read it: %s", line)
		}
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		output(t, dir, "sh", "-n", root+"/DEBIAN/"+script)
	}
	for file, want := range map[string]string{
		"usr/lib/systemd/system/redlockd.service":           "ExecStart=/usr/bin/redlockd serve --config /etc/redlockd/config.toml",
		"usr/share/bash-completion/completions/redlockd":    "complete -o default -F _redlockd redlockd",
		"usr/share/zsh/vendor-completions/_redlockd":        "#compdef redlockd",
		"usr/share/fish/vendor_completions.d/redlockd.fish": "complete -c redlockd",
		"usr/share/doc/redlockd/copyright":                  "Copyright (c) 2013 The github.com/redis/go-redis Authors.",
		"usr/share/doc/redlockd/examples/redis.conf":        "maxmemory-policy noeviction",
		"usr/share/doc/redlockd/examples/alerts.yaml":       "alert: RedlockdNoQuorum",
		"usr/share/doc/redlockd/examples/grafana.json":      "redlockd",
		"usr/lib/sysusers.d/redlockd.conf":                  "\nu redlockd - ",
		"DEBIAN/postinst":                                   "systemd-sysusers",
		"DEBIAN/conffiles":                                  "/etc/redlockd/config.toml\n",
	} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, want %q in it, got\n%s", file, err, want, text)
		}
	}
	if page := output(t, dir, "gzip", "-dc", root+"/usr/share/man/man1/redlockd.1.gz"); !strings.HasPrefix(page, ".TH REDLOCKD 1 ") {
		t.Errorf("the manual page begins with %.40q", page)
	}
	if log := output(t, dir, "gzip", "-dc", root+"/usr/share/doc/redlockd/changelog.gz"); !strings.Contains(log, "\n -- A. Packager <a@example.org>  Sun, 15 Jun 2025 15:06:40 +0000\n") {
		t.Errorf("the changelog is\n%s", log)
	}
	// Each module has its licence in the package, and its name in the list; each component of the list has one.
	licences := output(t, dir, "cat", root+"/usr/share/doc/redlockd/copyright")
	info, err := buildinfo.ReadFile(path)
	if err != nil || len(info.Deps) < 10 {
		t.Fatalf("the program has %+v, %v", info, err)
	}
	for _, module := range info.Deps {
		if !strings.Contains(licences, "\nFiles: "+module.Path+"/*\nCopyright: ") {
			t.Errorf("copyright says nothing of %s", module.Path)
		}
	}
	for _, part := range []string{"Files: *\nCopyright: Copyright (c) 2026 The redlockd authors\nLicense: MIT\n", "Files: std/*\n", "Redistributions in binary form must reproduce",
		"SoundCloud Ltd.", "/internal/github.com/golang/gddo/*\n", "\n\nLicense: Apache-2.0\n"} {
		if !strings.Contains(licences, part) {
			t.Errorf("copyright: no %q in\n%s", part, licences)
		}
	}
	if !strings.HasSuffix(licences, "/usr/share/common-licenses/Apache-2.0.\n") || strings.Contains(licences, "Grant of Copyright License") {
		t.Errorf("copyright: want the Apache License by its name, got\n%s", licences)
	}
	// The list of modules has each that is linked, and none that is there for tests.
	list := output(t, ".", filepath.Join(dockerDir, "package/sbom.sh"), path, "1.2.0")
	for module, linked := range map[string]bool{"pkg:golang/github.com/redis/go-redis/v9@v9.": true, "pkg:golang/std@1.": true, "github.com/anishathalye/porcupine": false} {
		if strings.Contains(list, module) != linked {
			t.Errorf("%s: want it in the list: %v, got\n%s", module, linked, list)
		}
	}
	for _, part := range []string{`"expression": "Apache-2.0 AND BSD-3-Clause"`, `"id": "BSD-2-Clause"`} {
		if !strings.Contains(list, part) {
			t.Errorf("no %s in the list\n%s", part, list)
		}
	}
	if all := output(t, ".", filepath.Join(dockerDir, "package/licenses.sh"), path); !strings.Contains(all, "\n\nLicense: Apache-2.0\n") || !strings.Contains(all, "Grant of Copyright License") {
		t.Errorf("an image has no Apache License elsewhere, so it must be here:\n%s", all)
	}
	config := root + "/etc/redlockd/config.toml"
	wantRun(t, cli.ExitUsage, "", ": masters: none are named", "serve", "--config", config)
	p := launchBinary(t, root+"/usr/bin/redlockd", "--config", config, "--masters", "embedded")
	w := p.dial()
	w.lock("r", "t1")
	w.want("UNLOCK r t1", "1")
}

// An installation leaves the file to root and the service, an upgrade where everybody can read it; and neither where the administrator wants
// another mode. It works also on a root that is none of a running system. TestPackage plays the rest.
func TestPostinstKeepsTheFileSecret(t *testing.T) {
	script, err := filepath.Abs(filepath.Join(dockerDir, "package/postinst"))
	if err != nil {
		t.Fatal(err)
	}
	const closed = "only root and the group redlockd can read /etc/redlockd/config.toml from now on"
	for _, c := range []struct {
		before      string // the version that was installed; empty: none
		mode        os.FileMode
		override    string // the exit code of dpkg-statoverride: 0 if it has the file
		want        os.FileMode
		wantMessage string
	}{
		{"", 0o640, "1", 0o640, ""},
		{"0.9", 0o644, "1", 0o640, closed},
		{"0.9", 0o600, "1", 0o600, ""},
		{"0.9", 0o644, "0", 0o644, ""},
	} {
		root, tools := t.TempDir(), t.TempDir()
		if err := os.MkdirAll(root+"/etc/redlockd", 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, root+"/etc/group", fmt.Sprintf("root:x:0:\nredlockd:x:%d:\n", os.Getgid()), 0o644)
		config := root + "/etc/redlockd/config.toml"
		writeFile(t, config, "", c.mode)
		if err := os.Chmod(config, c.mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
		writeFile(t, tools+"/systemd-sysusers", "#!/bin/sh\n[ \"$1\" = --root="+root+" ]\n", 0o755)
		writeFile(t, tools+"/dpkg-statoverride", "#!/bin/sh\nexit "+c.override+"\n", 0o755)
		writeFile(t, tools+"/systemctl", "#!/bin/sh\necho this system is none of its business\n", 0o755)
		cmd := exec.Command("sh", script, "configure", c.before)
		cmd.Env = append(os.Environ(), "DPKG_ROOT="+root, "PATH="+tools+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.wantMessage) || (len(out) > 0) != (c.wantMessage != "") {
			t.Errorf("%+v: %v, %s", c, err, out)
		}
		if info, err := os.Stat(config); err != nil || info.Mode() != c.want {
			t.Errorf("%+v: %v, %v", c, info.Mode(), err)
		}
	}
}
