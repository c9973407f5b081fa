package proxy

import (
	"crypto/tls"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// selfSigned is a TLS configuration with a certificate made for this test.
func selfSigned(t *testing.T) *tls.Config {
	cert, key := redisproc.MakeCertificate(t, 1, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}
