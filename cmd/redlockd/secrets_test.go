package main

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"redlockd/cmd/redlockd/cli"
)

// A private key that others can read is told of when the server starts. It starts all the same.
func TestServeWarnsOfExposedSecrets(t *testing.T) {
	dir := t.TempDir()
	writeGoodCertificate(t, dir, 1)
	writeFile(t, dir+"/password", secret+"\n", 0o640)
	writeFile(t, dir+"/redlockd.toml", `
[server]
tls_cert = "`+dir+`/cert.pem"
tls_key = "`+dir+`/key.pem"
[auth]
users = [{name = "a", password_file = "`+dir+`/password"}]
`, 0o644) // it holds no password itself
	for _, mode := range []fs.FileMode{0o644, 0o600} {
		for _, name := range []string{"/key.pem", "/password"} {
			if err := os.Chmod(dir+name, mode); err != nil {
				t.Fatal(err)
			}
		}
		p := launch(t, "--config", dir+"/redlockd.toml")
		for file, what := range map[string]string{"/key.pem": "a private key", "/password": "a password"} {
			warning := dir + file + " holds " + what + ", and everybody on this machine can read or change it: chmod go= " + dir + file
			if told := strings.Contains(p.log(), warning); told != (mode == 0o644) {
				t.Errorf("mode %#o: %q in the log: %v:\n%s", mode, warning, told, p.log())
			}
		}
		if strings.Contains(p.log(), "redlockd.toml holds") || strings.Contains(p.log(), "cert.pem holds") {
			t.Errorf("got %s, want no word of files that hold no secret", p.log())
		}
	}
}

// The same is told of every private key that the settings name, by whatever command.
func TestExposedKeysAreTold(t *testing.T) {
	dir := t.TempDir()
	writeGoodCertificate(t, dir, 1)
	key, err := os.ReadFile(dir + "/key.pem")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"server", "http", "master", "masters"}
	for _, name := range names {
		writeFile(t, dir+"/"+name+".pem", string(key), 0o644)
	}
	writeFile(t, dir+"/redlockd.toml", strings.ReplaceAll(`
[server]
tls_cert = "DIR/cert.pem"
tls_key = "DIR/server.pem"
[http]
tls_cert = "DIR/cert.pem"
tls_key = "DIR/http.pem"
[master]
tls = true
tls_cert = "DIR/cert.pem"
tls_key = "DIR/master.pem"
[[masters]]
addr = "127.0.0.1:1"
[[masters]]
addr = "127.0.0.1:2"
tls_key = "DIR/masters.pem"
[[masters]]
addr = "127.0.0.1:3"
`, "DIR", dir), 0o600)
	for _, mode := range []fs.FileMode{0o644, 0o600} {
		for _, name := range names {
			if err := os.Chmod(dir+"/"+name+".pem", mode); err != nil {
				t.Fatal(err)
			}
		}
		code, _, stderr := runCommand(nil, "--config", dir+"/redlockd.toml", "--print-config")
		if code != cli.ExitOK {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		for _, name := range names {
			if told := strings.Contains(stderr, dir+"/"+name+".pem holds a private key"); told != (mode == 0o644) {
				t.Errorf("mode %#o: the key of [%s] is told of: %v:\n%s", mode, name, told, stderr)
			}
		}
	}
}
