package config

import (
	"crypto/tls"
	"errors"
	"time"
)

// serverTLS are the files that make the server speak TLS; all empty: it does not.
type serverTLS struct{ cert, key, clientCA string }

// frontTLS is nil when the server speaks no TLS.
func (c *Config) frontTLS() (*tls.Config, error) {
	s := c.tls
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
		if warning := pair.endsSoon(time.Now()); warning != "" {
			c.ServerWarnings = append(c.ServerWarnings, warning)
		}
		if warning := exposedSecret(s.key, "a private key"); warning != "" {
			c.ServerWarnings = append(c.ServerWarnings, warning)
		}
	}
	if s.clientCA != "" {
		clientCAs, err := c.authorities(s.clientCA)
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
