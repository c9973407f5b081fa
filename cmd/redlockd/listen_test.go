package main

// Goal: redlockd listens on several addresses at one time, unix sockets among them, and takes over the
// file of a socket only if nobody uses it. Method: the program as a process, and the rule for the files
// of sockets by itself.

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"redlockd/cmd/redlockd/cli"
)

// dialSocket connects to a unix socket.
func (p *program) dialSocket(path string) *wire {
	p.t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		p.t.Fatal(err)
	}
	return newWire(p.t, conn)
}

func TestSeveralListeners(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/redlockd.sock"
	writeGoodCertificate(t, dir, 1)
	file := dir + "/redlockd.toml"
	writeFile(t, file, fmt.Sprintf(`masters = "embedded"
[server]
listen = ["127.0.0.1:0", "127.0.0.2:0", "unix:%s"]
socket_mode = "0660"
socket_owner = ":%d"
tls_cert = "%s/cert.pem"
tls_key = "%s/key.pem"
[auth]
users = [{name = "default", password = "p"}]
`, path, os.Getgid(), dir, dir), 0o600)
	p := begin(t, "serve", "--config", file, "--log-format", "json")
	for _, want := range []string{`"addr":"127.0.0.1:`, `"addr":"127.0.0.2:`} {
		var entry struct {
			Addr string
			TLS  bool
		}
		if err := json.Unmarshal([]byte(p.waitLog(want)), &entry); err != nil || !entry.TLS {
			t.Errorf("got %+v and error %v, want a listener with TLS", entry, err)
		}
		conn, err := tls.Dial("tcp", entry.Addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		newWire(t, conn).want("AUTH p", "OK")
	}
	p.waitLog(`"addr":"` + path + `","tls":false`)
	p.waitLog("quorum reached")
	w := p.dialSocket(path)
	w.want("PING", "NOAUTH Authentication required.") // who may open the file still has to log in
	w.want("AUTH wrong", "WRONGPASS invalid username-password pair or user is disabled.")
	w.want("AUTH p", "OK")
	w.lock("r", "t1")
	if got := w.do("CLIENT LIST"); !strings.Contains(got, "addr="+path+":0") || !strings.Contains(got, "flags=U") {
		t.Errorf("CLIENT LIST: got %s, want the path and the flag U", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != fs.ModeSocket|0o660 {
		t.Errorf("the file: got %v and error %v, want a socket of mode 0660", info.Mode(), err)
	}
	w.want("UNLOCK r t1", "1")
	// A second redlockd on the same path takes nothing away.
	second := begin(t, "serve", "--masters", "embedded", "--listen", "unix:"+path)
	second.wantExit(cli.ExitUsage)
	second.waitLog("unix:" + path + " (--listen) is in use by another process")
	p.dialSocket(path).want("AUTH p", "OK")
	p.signal(syscall.SIGTERM)
	p.wantExit(cli.ExitOK)
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}
