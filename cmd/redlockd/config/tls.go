package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"redlockd/proxy"
)

// serverTLS are the files of TLS on a port of this server. All empty: it uses no TLS.
type serverTLS struct{ cert, key, clientCA string }

// serverTLS makes the TLS configuration of a port; nil: it uses no TLS. Its errors are of type
// *partError, with the name of the field.
func (c *Config) serverTLS(s serverTLS) (*tls.Config, error) {
	if s == (serverTLS{}) {
		return nil, nil
	}
	if s.cert == "" && s.key == "" {
		return nil, &partError{"tls_client_ca", errors.New("tls_cert and tls_key are needed too: without them the server speaks no TLS")}
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	var errs []error
	pair, err := c.keyPair(s.cert, s.key)
	if err != nil {
		errs = append(errs, err)
	} else {
		t.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.get(), nil }
		c.warn(pair.endsSoon(time.Now()))
		c.warn(exposedSecret(s.key, "a private key"))
	}
	if s.clientCA != "" {
		clientCAs, err := newRenewed(c, func() (*x509.CertPool, error) { return readAuthorities(s.clientCA) }, nil, s.clientCA)
		if err != nil {
			errs = append(errs, &partError{"tls_client_ca", err})
		} else {
			t.ClientAuth = tls.RequireAndVerifyClientCert
			t.ClientCAs = clientCAs.get()
			t.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
				now := t.Clone()
				now.ClientCAs = clientCAs.get()
				return now, nil
			}
		}
	}
	return t, errors.Join(errs...)
}

// masterTLS makes the TLS configuration towards a master whose address has this host; nil: no TLS.
func (c *Config) masterTLS(m *masterSettings, host string) (*tls.Config, error) {
	if !m.tls {
		return nil, m.unusedTLS()
	}
	if m.tlsServerName == "" && host == "" {
		return nil, &partError{"tls", errors.New("tls_server_name is needed: an address that is a path names no host to compare the certificate with")}
	}
	// Without a name, who connects takes the host of the address, which may be NewAddr.
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: m.tlsServerName}
	var errs []error
	var err error
	if m.tlsCA != "" {
		// Read only now: crypto/tls has no hook for RootCAs, and authorities live for years.
		if t.RootCAs, err = readAuthorities(m.tlsCA); err != nil {
			errs = append(errs, &partError{"tls_ca", err})
		}
	}
	switch pair, err := c.keyPair(m.tlsCert, m.tlsKey); {
	case err != nil:
		errs = append(errs, err)
	case pair != nil:
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.get(), nil }
		c.warn(pair.endsSoon(time.Now()))
		c.warn(exposedSecret(m.tlsKey, "a private key"))
	}
	return t, errors.Join(errs...)
}

// unusedTLS refuses TLS files without tls = true: the operator would believe that the connections are
// encrypted.
func (m *masterSettings) unusedTLS() error {
	for _, s := range m.settings("") {
		if strings.HasPrefix(s.Name, "tls_") && s.unhidden() != `""` {
			return &partError{s.Name, errors.New("tls is not true: the connections would not be encrypted")}
		}
	}
	return nil
}

// keyPair reads a certificate and its key; nil: neither file is given. Masters with the same files
// share one pair.
func (c *Config) keyPair(cert, key string) (*renewed[tls.Certificate], error) {
	switch {
	case cert == "" && key == "":
		return nil, nil
	case key == "":
		return nil, &partError{"tls_cert", errors.New("tls_key is missing: they belong together")}
	case cert == "":
		return nil, &partError{"tls_key", errors.New("tls_cert is missing: they belong together")}
	}
	for _, pair := range c.keyPairs {
		if slices.Equal(pair.files, []string{cert, key}) {
			return pair, nil
		}
	}
	read := func() (*tls.Certificate, error) {
		certText, err := readPEM(cert)
		if err != nil {
			return nil, &partError{"tls_cert", err}
		}
		keyText, err := readPEM(key)
		if err != nil {
			return nil, &partError{"tls_key", err}
		}
		pair, err := tls.X509KeyPair(certText, keyText)
		if err != nil {
			return nil, &partError{"tls_cert", fmt.Errorf("%s with tls_key %s: %w", cert, key, err)}
		}
		return &pair, nil
	}
	pair, err := newRenewed(c, read, lifetimeOf, cert, key)
	if err == nil {
		c.keyPairs = append(c.keyPairs, pair)
	}
	return pair, err
}

func lifetimeOf(pair *tls.Certificate) (from, to time.Time) {
	return pair.Leaf.NotBefore, pair.Leaf.NotAfter
}

// pemMax bounds a file of certificates: those of all authorities of the system have some 200 KB.
const pemMax = 1 << 20

// readPEM reads a file of certificates or keys. It must be a regular file: a read of a FIFO or a
// terminal would wait for a writer, and only a regular file can be read again.
func readPEM(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // the open of a FIFO would wait, too
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, fmt.Errorf("%s is no regular file", path))
	}
	text, err := io.ReadAll(io.LimitReader(f, pemMax+1))
	if err == nil && len(text) > pemMax {
		err = fmt.Errorf("%s has more than %d bytes, the most for a file of certificates or keys", path, pemMax)
	}
	return text, err
}

func readAuthorities(path string) (*x509.CertPool, error) {
	text, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", path)
	}
	return pool, nil
}

// Certificates are those in use, for the metrics and the status page, each file once.
func (c *Config) Certificates() []proxy.Certificate {
	var all []proxy.Certificate
	for _, pair := range c.keyPairs {
		file := pair.files[0]
		if !slices.ContainsFunc(all, func(c proxy.Certificate) bool { return c.File == file }) {
			_, to := lifetimeOf(pair.get())
			all = append(all, proxy.Certificate{File: file, NotAfter: to, Warning: pair.warning(time.Now())})
		}
	}
	return all
}
