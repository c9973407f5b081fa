package config

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"

	"redlockd/proxy"
)

// Endpoint is a redlockd that runs, and how to log in there.
type Endpoint struct {
	Addr               string // host:port, or the path of a unix socket
	Username, Password string // Password empty: do not log in
	TLS                *tls.Config
}

// clientFlags are the flags of [client], with the words for their values.
var clientFlags = map[string][2]string{"username": {"user", "name"}, "password_file": {"password-file", "file"}, "tls": {"tls", ""}, "tls_ca": {"tls-ca", "file"}}

// clientSettings are the settings of [client]: those of one master, but for its database and its name.
func clientSettings(m *masterSettings) []*Setting {
	all := []*Setting{{Name: "client.server", place: &m.Addr, Flag: "server", Arg: "host:port,…", Usage: "the redlockd to ask, of several the first that answers; empty: the one at server.listen"}}
	for _, s := range m.settings("client.") {
		if s.Key() != "db" {
			s.Flag, s.Arg = clientFlags[s.Key()][0], clientFlags[s.Key()][1]
			all = append(all, s)
		}
	}
	for _, s := range all {
		s.change = changeUnread
	}
	return all
}

// Servers are the redlockds of which the commands for a running one ask the first that answers. It
// reads the files that [client] names. Only these commands call it, so that a server does not depend
// on files that only they need.
func (c *Config) Servers() (all []*Endpoint, err error) {
	for addr := range strings.SplitSeq(c.client.Addr, ",") {
		server, err := c.server(strings.TrimSpace(addr))
		if err != nil {
			return nil, err
		}
		all = append(all, server)
	}
	return all, nil
}

// ThroughServer reports whether a command that can ask either asks a server, and not the masters: one
// is named at least as directly as the masters are, or no masters are named.
func (c *Config) ThroughServer() bool {
	return len(c.Engine.Masters) == 0 || c.client.Addr != "" && c.Find("client.server").source.kind >= c.Find("masters").source.kind
}

// server is the redlockd at addr; "": the one of these settings.
func (c *Config) server(addr string) (*Endpoint, error) {
	m := c.client
	m.Addr = addr
	if m.Password != "" && m.passwordFile != "" {
		if c.Find("client.password").source.kind > c.Find("client.password_file").source.kind {
			m.passwordFile = ""
		} else {
			m.Password = ""
		}
	}
	own := m.Addr == ""
	if own {
		c.useOwn(&m)
	}
	host, err := hostOf(m.Addr, "6380")
	if err != nil {
		return nil, c.errorAt("client.server", err)
	}
	pinned := own && m.tls && c.tls.cert != "" && m.tlsCA == "" && m.tlsServerName == ""
	if pinned && host == "" {
		host = "localhost"
	}
	if err := c.errorsAt("client", c.readFilesOf(&m, host)); err != nil {
		return nil, err
	}
	if m.TLS != nil && m.TLS.ServerName == "" {
		m.TLS.ServerName = host
	}
	if pinned {
		if err := c.pinOwn(m.TLS); err != nil {
			return nil, err
		}
	}
	return &Endpoint{Addr: m.Addr, Username: m.Username, Password: m.Password, TLS: m.TLS}, nil
}

// useOwn fills in what leads to the server that these settings are for, and logs in as one of its
// users, who can do everything if there is such a one: its password stands here anyway.
func (c *Config) useOwn(m *masterSettings) {
	path, isSocket := SocketPath(c.Listen[0])
	if m.Addr = path; !isSocket {
		host, port, _ := net.SplitHostPort(c.Listen[0]) // was checked
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
			if ip != nil && ip.To4() == nil {
				host = "::1"
			}
		}
		m.Addr = net.JoinHostPort(host, port)
		m.tls = m.tls || c.tls.cert != ""
	}
	if m.Password != "" || m.passwordFile != "" || len(c.Front.Users) == 0 {
		return
	}
	at := slices.IndexFunc(c.Front.Users, func(u proxy.User) bool {
		return u.Password != "" && !u.Hashed() && (u.Name == m.Username || m.Username == "" && len(u.Resources) == 0)
	})
	if at < 0 && m.Username == "" {
		at = slices.IndexFunc(c.Front.Users, func(u proxy.User) bool { return u.Password != "" && !u.Hashed() })
	}
	if at >= 0 {
		m.Username, m.Password = c.Front.Users[at].Name, c.Front.Users[at].Password
	}
}

// pinOwn has the client accept the certificate of these settings and no other, whatever names it is
// for: nobody else has its key.
func (c *Config) pinOwn(t *tls.Config) error {
	pair, err := c.keyPair(c.tls.cert, c.tls.key)
	if err != nil {
		return c.errorAt("server.tls_cert", err)
	}
	t.InsecureSkipVerify = true // what follows verifies it
	t.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 || !bytes.Equal(state.PeerCertificates[0].Raw, pair.get().Leaf.Raw) {
			return fmt.Errorf("the server shows another certificate than %s: name it with --server, and its authority with --tls-ca", c.tls.cert)
		}
		return nil
	}
	return nil
}
