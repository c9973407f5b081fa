package main

import (
	"io/fs"
	"os"
	"strings"
	"testing"
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
