package config

// Goal: certificates are renewed without a restart, and nothing that stands in a file for a moment, or is wrong, takes away what worked.
// Method: TLS handshakes with the configuration that redlockd makes, over files that are replaced between them; the test looks instead of
// waiting.

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// makeGoodCertificate makes a certificate that does not end soon, and its key.
func makeGoodCertificate(t *testing.T, serial int64) (cert, key string) {
	t.Helper()
	return redisproc.MakeCertificate(t, serial, time.Now().Add(-time.Hour), time.Now().Add(90*24*time.Hour))
}

// writeCertificate makes cert.pem and key.pem.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	cert, key := makeGoodCertificate(t, 1)
	writeFile(t, dir+"/cert.pem", cert, 0o600)
	writeFile(t, dir+"/key.pem", key, 0o600)
}

// renewal is a configuration whose files are replaced.
type renewal struct {
	*testing.T
	dir    string
	config *Config
	logged bytes.Buffer
}

// newRenewal loads text, in which DIR stands for a directory with cert.pem and key.pem.
func newRenewal(t *testing.T, text string) *renewal {
	t.Helper()
	r := &renewal{T: t, dir: t.TempDir()}
	writeCertificate(t, r.dir)
	os.Symlink(".", r.dir+"/link")
	os.Symlink("cert.pem", r.dir+"/ca.pem")
	var err error
	if r.config, err = loadText(t, strings.ReplaceAll(text, "DIR", r.dir), nil); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *renewal) write(name, text string) {
	r.Helper()
	replaceFile(r.T, r.dir+"/"+name, text)
}

// replaceFile puts another file in the place of one: the clock of files may not have moved on, and the sizes may be the same.
func replaceFile(t *testing.T, name, text string) {
	t.Helper()
	writeFile(t, name+".new", text, 0o600)
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// look has the files looked at.
func (r *renewal) look() {
	log := slog.New(slog.NewTextHandler(&r.logged, nil))
	for _, look := range r.config.looks {
		look(log, time.Now())
	}
}

// wantLog takes the lines that were logged since the last call, and compares them: each has one of the texts in it, in this order.
func (r *renewal) wantLog(texts ...string) {
	r.Helper()
	got := strings.Split(strings.TrimSuffix(r.logged.String(), "\n"), "\n")
	if r.logged.Len() == 0 {
		got = nil
	}
	r.logged.Reset()
	for i, text := range texts {
		if i >= len(got) || !strings.Contains(got[i], text) {
			r.Errorf("the log: got %q, want lines with %q", got, texts)
			return
		}
	}
	if len(got) > len(texts) {
		r.Errorf("the log: got %q, want %d lines", got, len(texts))
	}
}

// shake has a client and a server make a TLS connection, and returns what each saw of the other.
func (r *renewal) shake(client, server *tls.Config) (clientSaw, serverSaw tls.ConnectionState, err error) {
	r.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	defer l.Close()
	var serverErr error
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := l.Accept()
		if err != nil {
			serverErr = err
			return
		}
		defer conn.Close()
		s := tls.Server(conn, server)
		if serverErr = s.Handshake(); serverErr == nil {
			serverSaw = s.ConnectionState()
			s.Write([]byte("x")) // with TLS 1.3 the client knows only now
		}
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), client)
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		clientSaw = conn.ConnectionState()
		conn.Close()
	} else {
		l.Close()
	}
	<-served
	if err == nil || err == io.EOF {
		err = serverErr
	}
	return clientSaw, serverSaw, err
}

// wantServed makes a connection to the front and compares the serial number of what it shows.
func (r *renewal) wantServed(serial int64) {
	r.Helper()
	saw, _, err := r.shake(&tls.Config{InsecureSkipVerify: true}, r.config.Front.TLSConfig)
	if err != nil {
		r.Fatal(err)
	}
	if got := saw.PeerCertificates[0].SerialNumber.Int64(); got != serial {
		r.Errorf("the server shows certificate %d, want %d", got, serial)
	}
}

const ofServer = `
	[server]
	tls_cert = "DIR/cert.pem"
	tls_key = "DIR/key.pem"
`

func TestServerCertificateIsRenewed(t *testing.T) {
	r := newRenewal(t, ofServer)
	// wantWarning compares what the status page warns of.
	wantWarning := func(want string) {
		t.Helper()
		if all := r.config.Certificates(); len(all) != 1 || !strings.Contains(all[0].Warning, want) || want == "" && all[0].Warning != "" {
			t.Errorf("got %+v, want the warning %q", all, want)
		}
	}
	r.look()
	r.wantServed(1)
	r.wantLog()
	wantWarning("")

	cert2, key2 := makeGoodCertificate(t, 2)
	r.write("key.pem", key2)
	r.look()
	r.wantServed(1) // half replaced
	wantWarning("files were replaced and cannot be used, so what they held before stays in use (")
	r.wantLog(`stays in use" reason="tls_cert: `)
	r.look()
	r.wantServed(1)
	r.wantLog() // is told once
	r.write("cert.pem", cert2)
	r.look()
	r.wantServed(2)
	r.wantLog(`msg="files of TLS were replaced: what they hold now is in use" files="` + r.dir + "/cert.pem " + r.dir + `/key.pem" not_after=20`)
	wantWarning("")
	r.look()
	r.wantServed(2)
	r.wantLog()

	for _, garbage := range []string{"", "garbage", cert2[:len(cert2)/2], key2} {
		r.write("cert.pem", garbage)
		r.look()
		r.wantServed(2)
	}
	os.Remove(r.dir + "/cert.pem")
	r.look()
	r.wantServed(2)
	// Half a certificate is to the library what none is.
	r.wantLog("failed to find any PEM data", "failed to find", "no such file")
	r.write("cert.pem", cert2)
	r.look()
	r.wantServed(2)
	r.wantLog("in use")
}

// A file that is replaced by one of the same size and time is another all the same, and one that could not be read is read as soon
// as it can be, although its time has not changed.
func TestReplacedFileOfTheSameSizeAndTime(t *testing.T) {
	r := newRenewal(t, ofServer)
	before, err := os.Stat(r.dir + "/cert.pem")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"new.pem": "garbage", "other.pem": "GARBAGE"} {
		r.write(name, text)
		if err := os.Chtimes(r.dir+"/"+name, before.ModTime(), before.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	pair := r.config.keyPairs[0]
	read := 0
	pair.read = func() (*tls.Certificate, error) {
		read++
		v := pair.current.Load()
		if read == 3 {
			return nil, os.ErrPermission
		}
		return v, nil
	}
	look := func(want int) {
		t.Helper()
		r.look()
		if read != want {
			t.Fatalf("the files were read %d times, want %d", read, want)
		}
	}
	look(0)
	os.Rename(r.dir+"/new.pem", r.dir+"/cert.pem")
	look(1)
	os.Rename(r.dir+"/other.pem", r.dir+"/cert.pem")
	look(2)
	look(2)
	r.write("key.pem", "another")
	look(3)
	look(4)
	look(4)
}

// Kubernetes writes a new directory and turns a link to it.
func TestSecretOfKubernetesIsRenewed(t *testing.T) {
	r := newRenewal(t, strings.ReplaceAll(ofServer, "DIR", "DIR/link"))
	if err := os.Mkdir(r.dir+"/second", 0o700); err != nil {
		t.Fatal(err)
	}
	cert2, key2 := makeGoodCertificate(t, 2)
	r.write("second/cert.pem", cert2)
	r.write("second/key.pem", key2)
	os.Symlink("second", r.dir+"/new-link")
	if err := os.Rename(r.dir+"/new-link", r.dir+"/link"); err != nil {
		t.Fatal(err)
	}
	r.look()
	r.wantServed(2)
	r.wantLog("in use")
}

// Who was let in by authorities that are none any more is not let in again, not even by a ticket of an earlier session. The authorities
// and the certificate do not wait for each other.
func TestClientAuthoritiesAreRenewed(t *testing.T) {
	r := newRenewal(t, ofServer+`tls_client_ca = "DIR/ca.pem"`)
	clientOf := func(cert, key string) *tls.Config {
		pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}, ClientSessionCache: tls.NewLRUClientSessionCache(1), ServerName: "localhost"}
	}
	cert1, key1 := makeGoodCertificate(t, 11)
	cert2, key2 := makeGoodCertificate(t, 12)
	first, second := clientOf(cert1, key1), clientOf(cert2, key2)
	want := func(client *tls.Config, name string, welcome bool) {
		t.Helper()
		if _, _, err := r.shake(client, r.config.Front.TLSConfig); (err == nil) != welcome {
			t.Errorf("%s client: got %v, want that it is let in: %v", name, err, welcome)
		}
	}
	os.Remove(r.dir + "/ca.pem") // the link
	r.write("ca.pem", cert1)
	r.look()
	want(first, "first", true)
	want(second, "second", false)
	if _, saw, _ := r.shake(first, r.config.Front.TLSConfig); !saw.DidResume {
		t.Error("the first client has no ticket, so this test says nothing about tickets")
	}
	r.wantLog("ca.pem")

	r.write("ca.pem", "garbage")
	cert3, key3 := makeGoodCertificate(t, 3)
	r.write("cert.pem", cert3)
	r.write("key.pem", key3)
	r.look()
	want(clientOf(cert1, key1), "another first", true)
	saw, _, err := r.shake(clientOf(cert1, key1), r.config.Front.TLSConfig)
	if err != nil || saw.PeerCertificates[0].SerialNumber.Int64() != 3 {
		t.Errorf("got %v, want the renewed certificate", err)
	}
	if log := r.logged.String(); !strings.Contains(log, "ca.pem holds no certificate") || !strings.Contains(log, "in use") {
		t.Errorf("the log: got %s, want that the one is in use and the other is not", log)
	}
	r.logged.Reset()

	r.write("ca.pem", cert2)
	r.look()
	want(second, "second", true)
	want(first, "first", false)
	r.wantLog("ca.pem")
}

func TestCertificateForMastersIsRenewed(t *testing.T) {
	r := newRenewal(t, `
		masters = ["localhost:1", "localhost:2", "localhost:3"]
		[master]
		tls = true
		tls_ca = "DIR/cert.pem"
		tls_cert = "DIR/cert.pem"
		tls_key = "DIR/key.pem"
	`)
	master, err := tls.LoadX509KeyPair(r.dir+"/cert.pem", r.dir+"/key.pem")
	if err != nil {
		t.Fatal(err)
	}
	want := func(serial int64) {
		t.Helper()
		for _, m := range r.config.Engine.Masters {
			named := m.TLS.Clone()
			named.ServerName = "localhost" // as crypto/tls does for the address
			_, saw, err := r.shake(named, &tls.Config{Certificates: []tls.Certificate{master}, ClientAuth: tls.RequireAnyClientCert})
			if err != nil {
				t.Fatal(err)
			}
			if got := saw.PeerCertificates[0].SerialNumber.Int64(); got != serial {
				t.Errorf("master %s was shown certificate %d, want %d", m.Addr, got, serial)
			}
		}
	}
	want(1)
	cert2, key2 := makeGoodCertificate(t, 2)
	r.write("cert.pem", cert2)
	r.look()
	want(1)
	r.write("key.pem", key2)
	r.look()
	want(2)
	r.wantLog("cannot be used", "in use") // once, however many masters there are
}

func TestEndOfACertificate(t *testing.T) {
	const hour, day = time.Hour, 24 * time.Hour
	now := time.Now()
	for _, test := range []struct {
		since, left time.Duration
		want        string
	}{
		{60 * day, 30 * day, ""},
		{75 * day, 15 * day, ""},
		{77 * day, 13 * day, "ends on"},
		{3000 * day, 13*day + 59*time.Second, now.Add(13*day+59*time.Second).UTC().Format("2006-01-02 15:04") + " UTC, in 312h1m0s: renew it"},
		{3000 * day, 15 * day, ""},
		{18 * hour, 6 * hour, ""}, // of those that live for a day
		{20 * hour, 4 * hour, "ends on"},
		{90 * day, -hour, "has ended on"},
	} {
		cert, key := redisproc.MakeCertificate(t, 1, now.Add(-test.since), now.Add(test.left))
		pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil {
			t.Fatal(err)
		}
		r := &renewed[tls.Certificate]{files: []string{"cert.pem"}, lifetime: lifetimeOf}
		r.current.Store(&pair)
		got := r.endsSoon(now)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%v old, %v left: got %q, want %q", test.since, test.left, got, test.want)
		}
	}
}

// The end is told at the start to those who use the certificate, then once a day, and of a new one anew.
func TestCertificateThatEndsSoonIsTold(t *testing.T) {
	dir := t.TempDir()
	day := 24 * time.Hour
	write := func(serial int64, left time.Duration) {
		cert, key := redisproc.MakeCertificate(t, serial, time.Now().Add(-90*day), time.Now().Add(left))
		replaceFile(t, dir+"/cert.pem", cert)
		replaceFile(t, dir+"/key.pem", key)
	}
	write(1, 3*day)
	c, err := loadText(t, strings.ReplaceAll("masters = ['a:1', 'b:1', 'c:1']\n[master]\ntls = true\ntls_cert = 'DIR/cert.pem'\ntls_key = 'DIR/key.pem'", "DIR", dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], dir+"/cert.pem ends on ") {
		t.Errorf("of a certificate for masters: got %q, want one warning for all", c.Warnings)
	}
	if c, err = loadText(t, strings.ReplaceAll(ofServer, "DIR", dir), nil); err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], dir+"/cert.pem ends on ") {
		t.Errorf("of a server's certificate: got %q, want one warning", c.Warnings)
	}
	r := &renewal{T: t, dir: dir, config: c}
	pair := c.keyPairs[0]
	look := r.look
	look()
	r.wantLog()
	pair.warned = pair.warned.Add(-warnEvery)
	look()
	look()
	r.wantLog("ends on")
	write(2, 2*day)
	look()
	look()
	r.wantLog("in use", "ends on")
}

// Goal: a file that cannot be read to its end keeps nobody waiting: handshakes go on with what was read before. Method: a look that
// hangs until the test lets it go.
func TestFileThatHangs(t *testing.T) {
	r := newRenewal(t, ofServer)
	hanging, release, looked := make(chan struct{}), make(chan struct{}), make(chan struct{})
	r.config.keyPairs[0].read = func() (*tls.Certificate, error) {
		close(hanging)
		<-release
		return nil, os.ErrDeadlineExceeded
	}
	r.write("cert.pem", "another")
	go func() {
		r.look()
		close(looked)
	}()
	<-hanging
	r.wantServed(1)
	close(release)
	<-looked
}

// Goal: what is no regular file, or far too long for certificates, is refused with a word, and opening a FIFO does not wait for a writer.
func TestFilesThatAreNoCertificates(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir)
	if err := syscall.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir+"/long.pem", strings.Repeat("\n", pemMax+1), 0o600)
	for file, want := range map[string]string{
		"fifo":     dir + "/fifo is no regular file",
		"":         dir + "/ is no regular file",
		"long.pem": dir + "/long.pem has more than 1048576 bytes, the most for a file of certificates or keys",
	} {
		for _, setting := range []string{"cert.pem", "key.pem", "ca.pem"} {
			text := "[server]\ntls_cert = 'DIR/cert.pem'\ntls_key = 'DIR/key.pem'\ntls_client_ca = 'DIR/ca.pem'"
			text = strings.ReplaceAll(strings.Replace(text, setting, file, 1), "ca.pem", "cert.pem")
			if _, err := loadText(t, strings.ReplaceAll(text, "DIR", dir), nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q in place of %s: got %v, want %q", file, setting, err, want)
			}
		}
	}
}
