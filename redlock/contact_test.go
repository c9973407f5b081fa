package redlock

// Goal: a master that cannot be used at first contact says why: its own sentence, or the cause, and the setting that mends it. A check, a
// bootstrap, the state of a running client and its log say the same. Method: one fleet in which each master has another fault. They are
// real redis-servers, but for one that hangs up, and one in protected mode where this machine has no address but loopback; a name
// server that answers for one name only.

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// serveBytes listens, and writes the text to each client before it hangs up.
func serveBytes(t *testing.T, text string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, text)
			c.Close()
		}
	}()
	return l.Addr().String()
}

// protectedMode is what Redis 7.0.15 writes to clients from elsewhere, before it hangs up.
const protectedMode = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. " +
	"If you want to connect from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same host the server is running, " +
	"however MAKE SURE Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the Redis configuration file, and setting the protected mode option to 'no', and then restarting the server. " +
	"3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Setup a an authentication password for the default user. NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.\r\n"

// ownAddress is an address of this machine that is not loopback; "": it has none.
func ownAddress() string {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	return ""
}

// useNameServer has this process ask a name server that knows no name, and does not answer for those in slow.example.
func useNameServer(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		packet := make([]byte, 1500)
		for {
			n, from, err := l.ReadFrom(packet)
			if err != nil {
				return
			}
			if !strings.Contains(string(packet[:n]), "\x04slow\x07example\x00") {
				packet[2], packet[3] = 0x81, 0x83 // a response: there is no such name
				l.WriteTo(packet[:n], from)
			}
		}
	}()
	usual := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Resolver: usual}).DialContext(ctx, "udp", l.LocalAddr().String())
	}}
	t.Cleanup(func() { net.DefaultResolver = usual; l.Close() })
}

func TestFirstContact(t *testing.T) {
	useNameServer(t)
	dir := t.TempDir()
	certificate := func(name string, from, to time.Duration) (args []string, roots *x509.CertPool, pair tls.Certificate) {
		now := time.Now()
		cert, key := redisproc.MakeCertificate(t, 1, now.Add(from), now.Add(to))
		files := []string{filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")}
		for i, text := range []string{cert, key} {
			if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		roots = x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(cert))
		pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil {
			t.Fatal(err)
		}
		return []string{"--tls-cert-file", files[0], "--tls-key-file", files[1], "--tls-ca-cert-file", files[0], "--tls-auth-clients"}, roots, pair
	}
	withTLS := func(clients string, args []string) string {
		addr := redisproc.KeepAddr(t)
		_, port, _ := net.SplitHostPort(addr)
		redisproc.StartForTest(t, 1, append([]string{"--tls-port", port}, append(args, clients)...)...)
		return addr
	}
	good, goodRoots, _ := certificate("good", -time.Hour, time.Hour)
	_, otherRoots, otherPair := certificate("other", -time.Hour, time.Hour)
	expired, expiredRoots, _ := certificate("expired", -2*time.Hour, -time.Hour)
	plain := redisproc.StartForTest(t, 1)[0].Addr
	full := redisproc.StartForTest(t, 1, "--maxclients", "1")[0].Addr
	eventually(t, "the one client that fits", func() error {
		c, err := net.Dial("tcp", full)
		if err != nil {
			return err
		}
		io.WriteString(c, "PING\r\n")
		if line, _ := bufio.NewReader(c).ReadString('\n'); line != "+PONG\r\n" {
			c.Close()
			return fmt.Errorf("got %q", line)
		}
		t.Cleanup(func() { c.Close() })
		return nil
	})

	const inMaster = ` in \[master\], or in its own \[\[masters\]\] table`
	const denied = `it admits clients of its own machine only \(DENIED Redis is running in protected mode because protected mode is enabled.*\): ` +
		`set requirepass in its redis.conf, and the same as password` + inMaster + `; or protected-mode no, if nobody but redlockd can reach it`
	localhost := func(roots *x509.CertPool) *tls.Config { return &tls.Config{RootCAs: roots, ServerName: "localhost"} }
	cases := []struct {
		name   string
		master Master
		state  MasterState
		want   string // the reason, a regular expression
		fix    string // in a check and in the log, where the reason names none
	}{
		{"protected mode", Master{Addr: serveBytes(t, protectedMode)}, MasterRefused, denied, ""},
		{"protected mode, with a password here", Master{Addr: serveBytes(t, protectedMode), Password: "x"}, MasterRefused, denied, ""},
		{"TLS on its port", Master{Addr: withTLS("no", good)}, MasterRefused,
			`its port speaks TLS: set tls = true` + inMaster + ` \(in a URL: rediss://\), or name its port without TLS`, ""},
		{"no TLS on its port", Master{Addr: plain, TLS: localhost(goodRoots)}, MasterRefused,
			`its port speaks no TLS: set tls = false` + inMaster + `, or name its port of TLS`, ""},
		{"protected mode, asked by TLS", Master{Addr: serveBytes(t, protectedMode), TLS: localhost(goodRoots)}, MasterRefused,
			`its port speaks no TLS: set tls = false.*`, ""},
		{"an authority that the system does not know", Master{Addr: withTLS("no", good), TLS: localhost(nil)}, MasterRefused,
			`its certificate is signed by no authority of this system: set tls_ca` + inMaster + `, to the file of the authority CN=localhost`, ""},
		{"another authority", Master{Addr: withTLS("no", good), TLS: localhost(otherRoots)}, MasterRefused,
			`its certificate is signed by no authority in tls_ca: set tls_ca` + inMaster + `, to the file of the authority CN=localhost`, ""},
		{"another name", Master{Addr: withTLS("no", good), TLS: &tls.Config{RootCAs: goodRoots}}, MasterRefused,
			`its certificate is for localhost, and not for 127.0.0.1: name the master so in the list of masters, or set tls_server_name` + inMaster, ""},
		{"a certificate that has ended", Master{Addr: withTLS("no", expired), TLS: localhost(expiredRoots)}, MasterRefused,
			`its certificate has expired on \d+-\d\d-\d\d \d\d:\d\d:\d\d UTC: give the master a new one`, ""},
		{"no certificate to show", Master{Addr: withTLS("yes", good), TLS: localhost(goodRoots)}, MasterRefused,
			`it demands a certificate \(certificate required\): set tls_cert and tls_key` + inMaster, ""},
		{"another certificate to show", Master{Addr: withTLS("yes", good), TLS: &tls.Config{RootCAs: goodRoots, ServerName: "localhost", Certificates: []tls.Certificate{otherPair}}}, MasterRefused,
			`it refuses the certificate of redlockd \(unknown certificate authority\): set tls_cert and tls_key` + inMaster + `, to one of an authority in its tls-ca-cert-file`, ""},
		{"full", Master{Addr: full}, MasterDown, `it has no room for another connection: ERR max number of clients reached`, "raise maxclients in its redis.conf"},
		{"hangs up", Master{Addr: serveBytes(t, "")}, MasterDown, `it closes the connection|it breaks the connection: (connection reset by peer|broken pipe)`, "see its log"},
		{"a name that is not answered for", Master{Addr: "lock.slow.example:6379"}, MasterDown,
			`its name was not answered by the name service within 2s: lookup lock.slow.example.*`, "see the name service of this machine"},
		{"a name that is not known", Master{Addr: "lock.other.example:6379"}, MasterDown,
			`its name cannot be resolved: lookup lock.other.example.*: no such host`, "correct the name in the list of masters"},
	}
	if host := ownAddress(); host != "" { // the bytes above are then compared with those of the system's Redis
		s := redisproc.StartForTest(t, 1, "--bind", "127.0.0.1 "+host, "--protected-mode", "yes")[0]
		_, port, _ := net.SplitHostPort(s.Addr)
		cases[1].master = Master{Addr: net.JoinHostPort(host, port), Password: "x"}
	}

	var log journal
	o := Options{ConnectTimeout: 2 * time.Second}
	log.option(&o)
	for _, tt := range cases {
		o.Masters = append(o.Masters, tt.master)
	}
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for i, tt := range cases {
		reason := regexp.MustCompile(`^(` + tt.want + `)$`)
		eventually(t, tt.name, func() error {
			if m := c.Masters()[i]; m.State != tt.state || !reason.MatchString(m.Reason) {
				return fmt.Errorf("got %s: %q\nwant %s: %q", m.State, m.Reason, tt.state, tt.want)
			}
			return nil
		})
	}
	reports, _ := ProbeAll(t.Context(), o, o.ConnectTimeout)
	admitted, err := BootstrapAndReport(t.Context(), o, false)
	if err == nil {
		t.Error("bootstrap: got no error")
	}
	logged := log.take("master=")
	for i, tt := range cases {
		reason := regexp.MustCompile(`^(refused: )?(` + tt.want + `)$`)
		if got := reports[i].Problems; len(got) == 0 || got[0].Severity != "no vote" || !reason.MatchString(got[0].Reason) || !strings.Contains(got[0].Fix, tt.fix) {
			t.Errorf("%s: check: got %+v\nwant %q, %q", tt.name, got, tt.want, tt.fix)
		}
		if got := admitted[i].Problem; got == nil || !reason.MatchString(got.Error()) {
			t.Errorf("%s: bootstrap: got %v\nwant %q", tt.name, got, tt.want)
		}
		if line := regexp.MustCompile(`reason="?(` + tt.want + `)"? to_do=.*` + tt.fix); !slices.ContainsFunc(logged, func(got string) bool {
			return strings.Contains(got, "master="+tt.master.Addr+" ") && line.MatchString(got)
		}) {
			t.Errorf("%s: log: got %q\nwant %q", tt.name, logged, line)
		}
	}
}
