package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// serverTLS are the files that make the server speak TLS; all empty: it does not.
type serverTLS struct{ cert, key, clientCA string }

// config is nil when the server speaks no TLS.
func (s serverTLS) config() (*tls.Config, error) {
	if s == (serverTLS{}) {
		return nil, nil
	}
	if s.cert == "" && s.key == "" {
		return nil, errors.New("tls_client_ca needs tls_cert and tls_key: without them the server speaks no TLS")
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	var errs []error
	var err error
	if t.Certificates, err = readCertificate(s.cert, s.key); err != nil {
		errs = append(errs, err)
	}
	if s.clientCA != "" {
		t.ClientAuth = tls.RequireAndVerifyClientCert
		if t.ClientCAs, err = readAuthorities(s.clientCA); err != nil {
			errs = append(errs, fmt.Errorf("tls_client_ca: %w", err))
		}
	}
	return t, errors.Join(errs...)
}

// readCertificate reads a certificate and its key; without either file there is none.
func readCertificate(cert, key string) ([]tls.Certificate, error) {
	switch {
	case cert == "" && key == "":
		return nil, nil
	case cert == "" || key == "":
		return nil, errors.New("tls_cert and tls_key belong together: one of them is missing")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls_cert %s with tls_key %s: %w", cert, key, err)
	}
	return []tls.Certificate{pair}, nil
}

// readAuthorities reads the certificates of a file, which is to hold one at least.
func readAuthorities(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", path)
	}
	return pool, nil
}
