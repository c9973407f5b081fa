package main

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"redlockd/cmd/redlockd/cli"
)

// Every private key and password file that the settings name is told of if others can read it, by
// whatever command. A server starts all the same, and has it in its log.
func TestExposedSecretsAreTold(t *testing.T) {
	dir := t.TempDir()
	writeGoodCertificate(t, dir, 1)
	key, err := os.ReadFile(dir + "/key.pem")
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{"server.pem": "a private key", "http.pem": "a private key", "master.pem": "a private key", "masters.pem": "a private key", "password": "a password"}
	for name := range secrets {
		writeFile(t, dir+"/"+name, string(key), 0o640)
	}
	writeFile(t, dir+"/redlockd.toml", strings.ReplaceAll(`
[server]
tls_cert = "DIR/cert.pem"
tls_key = "DIR/server.pem"
[auth]
users = [{name = "a", password_file = "DIR/password"}]
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
`, "DIR", dir), 0o644) // it holds no password itself
	for _, mode := range []fs.FileMode{0o644, 0o600} {
		for name := range secrets {
			if err := os.Chmod(dir+"/"+name, mode); err != nil {
				t.Fatal(err)
			}
		}
		code, _, stderr := runCommand(nil, "--config", dir+"/redlockd.toml", "--print-config")
		if code != cli.ExitOK {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		log := listen(t, binary(t), "--config", dir+"/redlockd.toml").log()
		for name, what := range secrets {
			warning := dir + "/" + name + " holds " + what + ", and everybody on this machine can read or change it: chmod go= " + dir + "/" + name
			for _, told := range []string{stderr, log} {
				if strings.Contains(told, warning) != (mode == 0o644) {
					t.Errorf("mode %#o: got\n%s\nwant in it %q: %v", mode, told, warning, mode == 0o644)
				}
			}
		}
		if strings.Contains(log, "redlockd.toml holds") || strings.Contains(log, "cert.pem holds") {
			t.Errorf("got %s, want no word of files that hold no secret", log)
		}
	}
}
