package redlock

// Goal: whatever the way to a master is, commands go it in batches: TLS with a certificate of one's own, a unix socket, a user with a
// password and another database. Method: real redis-servers, one for each way.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

func TestWaysToAMaster(t *testing.T) {
	dir := t.TempDir()
	cert, key := redisproc.MakeCertificate(t, 1, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	for name, text := range map[string]string{"cert.pem": cert, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(cert))
	start := func(args ...string) *redisproc.Server {
		return redisproc.StartForTest(t, 1, args...)[0]
	}
	socket := filepath.Join(dir, "redis.sock")
	tlsAddr := redisproc.KeepAddr(t)
	_, tlsPort, _ := net.SplitHostPort(tlsAddr)
	start("--tls-port", tlsPort, "--tls-cert-file", filepath.Join(dir, "cert.pem"), "--tls-key-file", filepath.Join(dir, "key.pem"),
		"--tls-ca-cert-file", filepath.Join(dir, "cert.pem"), "--tls-auth-clients", "no")
	start("--unixsocket", socket)
	user := start("--user", "locker", "on", ">secret", "~*", "&*", "+@all")
	o := Options{Masters: []Master{
		{Addr: tlsAddr, TLS: &tls.Config{RootCAs: roots, ServerName: "localhost"}},
		{Addr: socket},
		{Addr: user.Addr, Username: "locker", Password: "secret", DB: 3},
	}, ConnectTimeout: 10 * time.Second}
	patient(&o)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // of all below
	defer cancel()
	if err := Bootstrap(ctx, o); err != nil {
		t.Fatal(err)
	}
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	eventually(t, "all masters up", func() error {
		for _, m := range c.Masters() {
			if m.State != MasterUp {
				return fmt.Errorf("%s: %s", m.Addr, m.Reason)
			}
		}
		return nil
	})
	for range 50 {
		lease, err := c.TryLock(ctx, "r", 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Extend(ctx, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		info, err := c.Inspect(ctx, "r")
		if err != nil {
			t.Fatal(err)
		}
		for _, vote := range info.Votes {
			if vote.TokenDigest != TokenDigest(c, lease.Token) {
				t.Errorf("%s: got %+v, want the token", vote.Addr, vote)
			}
		}
		if err := lease.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
