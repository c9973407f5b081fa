package redlock

// Goal: whatever the way to a master is, commands go it in batches: TLS with a certificate of one's own, a unix socket, a user with a
// password and another database. Method: real redis-servers, one for each way.

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

func TestWaysToAMaster(t *testing.T) {
	dir := t.TempDir()
	roots := selfSigned(t, dir)
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
			if vote.TokenDigest != TokenDigest(lease.Token) {
				t.Errorf("%s: got %+v, want the token", vote.Addr, vote)
			}
		}
		if err := lease.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// selfSigned writes cert.pem and key.pem for localhost, and returns who trusts them.
func selfSigned(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: certificate}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(certificate)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	return pool
}
