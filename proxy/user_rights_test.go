package proxy

// Goal: a user runs the commands of its groups and no others, has its own channels, and is logged in by its certificate. Method: every
// command of the table with users of each group; TLS clients with certificates of a test authority.

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/access"
)

// ungrouped are the commands that need no group: they are about the client's own connection, tell what commands there are, or do nothing.
var ungrouped = strings.Fields(`multi exec discard unwatch hello auth quit reset ping echo select time role wait cluster readonly readwrite asking
	client client|id client|getname client|setname client|setinfo client|info client|reply client|no-touch client|tracking client|trackinginfo
	client|caching client|getredir client|help command command|count command|docs command|getkeys command|info command|list command|help
	config config|help script`)

func TestCommandGroups(t *testing.T) {
	srv := serve(t, func(o *Options) {
		o.Users = []access.User{
			{Name: "lock", Password: "l", Commands: []string{"lock"}},
			{Name: "read", Password: "r", Commands: []string{"read"}},
			{Name: "admin", Password: "a", Commands: []string{"admin"}, Resources: []string{"a:*"}},
			{Name: "both", Password: "b", Commands: []string{"read", "lock"}},
			{Name: "every", Password: "e", Commands: []string{"all"}},
		}
	})
	group := func(cmd *command) string {
		if slices.Contains(ungrouped, cmd.fullName()) {
			return ""
		}
		return cmd.permission.String()
	}
	for name, groups := range map[string][]string{
		"lock": {"", "lock"}, "read": {"", "read"}, "admin": {"", "admin"}, "both": {"", "lock", "read"}, "every": {"", "lock", "read", "admin"},
	} {
		u := srv.live().accountNamed(name).user()
		for _, cmd := range srv.table.rows {
			g := group(cmd)
			if got := notPermitted(u, cmd, nil) == nil; got != slices.Contains(groups, g) {
				t.Errorf("user %s, command %s of group %q: permitted: %v", name, cmd.fullName(), g, got)
			}
			// What takes or ends locks, or reaches other clients, is never for somebody who only reads.
			if g == "read" && cmd.flags&(flagWrite|flagLock|flagAdmin) != 0 {
				t.Errorf("%s is in group read", cmd.fullName())
			}
		}
	}
	c := srv.dialAs("read")
	c.do("LOCK", "a", "20000").is(`-NOPERM this user has no permissions to run the 'lock' command: to user read [auth] does not give commands = ["lock"]`)
	c.do("EVAL", "return 1", "0").err("NOPERM")
	c.do("PUBLISH", "a", "x").err("NOPERM")
	c.do("CLIENT", "LIST").matches(`-NOPERM .* does not give commands = \["admin"\]`)
	c.do("LOCKINFO", "a").matches(`\[.*\]`)
	c.do("MULTI").is("+OK")
	c.do("SET", "a", token, "NX", "PX", "20000").err("NOPERM")
	c.do("EXEC").err("EXECABORT")
	c = srv.dialAs("lock")
	c.do("LOCK", "a", "20000", "TOKEN", token).granted(1, 20000)
	c.do("GET", "a").matches(`-NOPERM .* does not give commands = \["read"\]`)
	c.do("UNLOCK", "a", token).is(":1")
	c = srv.dialAs("admin")
	c.do("CLIENT", "LIST").matches(`(?s)".*"`)
	c.do("GET", "a:1").matches(`-NOPERM .* does not give commands = \["read"\]`)
}

func TestChannelsOfAUser(t *testing.T) {
	srv := serve(t, func(o *Options) {
		o.Users = []access.User{{Name: "app", Password: "a", Resources: []string{"a:*"}, Channels: []string{"news:*"}}, {Name: "free", Password: "f", Channels: []string{"free"}}}
	})
	c := srv.dialAs("app")
	const refusal = "NOPERM this user has no permissions to access the channel 'a:1': to user app [auth] gives news:*"
	c.do("PUBLISH", "a:1", "x").is("-" + refusal)
	c.do("PUBLISH", "news:1", "x").is(":0")
	c.do("EVAL", "return redis.call('publish', 'a:1', 'x')", "0").err(refusal)
	c.do("SUBSCRIBE", "a:1").is("-" + refusal)
	c.do("PSUBSCRIBE", "a:*").err("NOPERM")
	c.do("LOCK", "a:1", "20000", "TOKEN", token).granted(1, 20000)
	c.do("LOCK", "news:1", "20000").err("NOPERM")
	c.do("PSUBSCRIBE", "news:*").matches(`\["psubscribe" .*`)
	c = srv.dialAs("free")
	c.do("PUBLISH", "other", "x").err("NOPERM")
	c.do("LOCK", "b", "20000", "TOKEN", token).granted(1, 20000)
}

// authority signs certificates of clients.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// commonNames are the parts of a subject that has these common names, with "+" between them.
func commonNames(cn string) (names []pkix.AttributeTypeAndValue) {
	for one := range strings.SplitSeq(cn, "+") {
		names = append(names, pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: one})
	}
	return names
}

// issue makes a certificate with this common name, or several with "+" between them, signed by a; or by itself where a is nil.
func (a *authority) issue(t *testing.T, cn string, names ...string) (tls.Certificate, *authority) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{ExtraNames: commonNames(cn)}, DNSNames: names, NotAfter: time.Now().Add(time.Hour),
		IsCA: a == nil, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	parent := &authority{template, key}
	if a != nil {
		parent = a
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.cert, &key.PublicKey, parent.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, &authority{cert, key}
}

func TestLoginByCertificate(t *testing.T) {
	_, ca := (*authority)(nil).issue(t, "authority")
	config := selfSigned(t)
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	config.ClientCAs.AddCert(ca.cert)
	users := []access.User{
		{Name: "root", Password: "r"},
		{Name: "billing", CertCN: "billing.example", Resources: []string{"billing:*"}, MaxConnections: 1},
		{Name: "both", Password: "b", CertCN: "both"},
	}
	srv := serve(t, func(o *Options) { o.TLSConfig, o.Users = config, users })
	dial := func(cn string, names ...string) *client {
		t.Helper()
		cert, _ := ca.issue(t, cn, names...)
		conn, err := tls.Dial("tcp", srv.addr, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{cert}})
		if err != nil {
			t.Fatal(err)
		}
		return newClient(t, conn)
	}
	billing := dial("billing.example")
	billing.do("CLIENT", "INFO").matches(`".* user=billing .*"`)
	billing.do("LOCK", "orders:1", "20000").err("NOPERM")
	billing.do("LOCK", "billing:1", "20000", "TOKEN", token).granted(1, 20000)
	dial("billing.example").read().is("-ERR max number of connections of user billing reached (max_connections = 1 in [auth])")

	// RESET takes the client back to the user of its certificate, also if it has logged in as another meanwhile.
	billing.do("AUTH", "root", "r").is("+OK")
	billing.do("RESET").is("+RESET")
	billing.do("CLIENT", "INFO").matches(`".* user=billing .*"`)
	billing.do("RESET").is("+RESET")
	billing.do("UNLOCK", "billing:1", token).is(":1")

	// Another certificate is no login, also with the name in another place; and no password fits a user without one.
	for _, c := range []*client{dial("other", "billing.example"), dial(""), dial("BILLING.example"), dial("both+billing.example"), dial("billing.example+both")} {
		c.do("PING").err("NOAUTH")
		c.do("AUTH", "billing", "").err("WRONGPASS")
		c.do("AUTH", "both", "b").is("+OK")
	}
	both := dial("both")
	both.do("PING").is("+PONG")
	users[1].CertCN = "another"
	srv.reload(Options{Users: users})
	billing.closed()
	both.do("PING").is("+PONG")
	dial("another").do("PING").is("+PONG")
}
