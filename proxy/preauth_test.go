package proxy

// Goal: who has not logged in gets no memory to speak of, no place that another needs, and no processor that locks need.
// Method: such clients against a server over masters in this process; where it is about processors, the test itself takes all places of
// the semaphore, so that nothing depends on time.

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/access"
)

func withUser(o *Options) { o.Users = []access.User{{Name: "default", Password: "secret"}} }

func (srv *testServer) dialTLS() *client {
	srv.t.Helper()
	conn, err := tls.Dial("tcp", srv.addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		srv.t.Fatal(err)
	}
	return newClient(srv.t, conn)
}

// hello is what a client of TLS sends first.
func hello(t *testing.T) string {
	near, far := net.Pipe()
	defer far.Close()
	go tls.Client(near, &tls.Config{InsecureSkipVerify: true}).Handshake()
	sent := make([]byte, 16<<10)
	n, err := far.Read(sent)
	if err != nil {
		t.Fatal(err)
	}
	return string(sent[:n])
}

func TestOldestPreauthIsEvicted(t *testing.T) {
	srv := serve(t, withUser, func(o *Options) { o.MaxClients = 3 })
	user := srv.dial()
	user.do("AUTH", "secret").is("+OK")
	first, second := srv.dial(), srv.dial()
	first.do("PING").is("-NOAUTH Authentication required.")
	second.do("PING").is("-NOAUTH Authentication required.")
	for range adminPlaces { // default is an administrator
		srv.dial().do("AUTH", "secret").is("+OK")
	}
	third := srv.dial()
	first.closed()
	third.do("AUTH", "secret").is("+OK")
	second.do("HELLO", "3", "AUTH", "default", "secret").matches("{.*}")
	refused := srv.dial()
	refused.read().is("-ERR max number of clients reached")
	refused.closed()

	third.do("RESET").is("+RESET") // and is preauth again
	fourth := srv.dial()
	third.closed()
	fourth.do("AUTH", "secret").is("+OK")
	for _, c := range []*client{user, second, fourth} {
		c.do("LOCKS").matches(".*")
	}
	for _, conn := range srv.clients() {
		conn.close("the test ends")
	}
	eventually(t, "all are forgotten", func() bool {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		return len(srv.connections) == 0 && srv.preauth.Len() == 0
	})
	if got := srv.counters[countRejected].Load(); got != 3 {
		t.Errorf("got %d clients refused, want 3", got)
	}
}

// Clients that take all places keep out no administrator who looks for them.
func TestPlacesForAdministrators(t *testing.T) {
	no := false
	srv := serve(t, func(o *Options) {
		o.MaxClients = 2
		o.Users = []access.User{{Name: "root", Password: "r"}, {Name: "service", Password: "s", Admin: &no}, {Name: "billing", Password: "b", Resources: []string{"billing:*"}}}
		for i := range o.Users {
			o.Users[i].MaxConnections = 10 // by default it would be half of MaxClients
		}
	})
	service, billing := srv.dialAs("service"), srv.dialAs("billing")
	full := func() {
		t.Helper()
		for _, user := range []string{"service", "billing"} {
			c := srv.dial()
			c.do("AUTH", user, user[:1]).is("-ERR max number of clients reached")
			c.closed()
		}
	}
	full()
	var admins []*client
	for range adminPlaces {
		admins = append(admins, srv.dialAs("root"))
		full()
		if len(admins) == adminPlaces-1 { // what has not logged in keeps no administrator out
			for range 2 * adminPlaces {
				srv.dial()
			}
		}
	}
	srv.dial().read().is("-ERR max number of clients reached")
	service.do("AUTH", "billing", "b").is("+OK") // a client that is there may become another one
	admins[0].do("CLIENT", "KILL", "USER", "billing").is(":2")
	billing.closed()
	for _, c := range admins[1:] {
		c.do("QUIT").is("+OK")
	}
	eventually(t, "the places are free", func() bool { return len(srv.clients()) == 1 })
	if got := srv.live().accounts[1].connections.Load(); got != 0 {
		t.Errorf("%d connections count for a user who has none", got)
	}
	srv.dialAs("service").do("PING").is("+PONG")
}

// Over TLS a client that finds no room learns it, too.
func TestFullOverTLS(t *testing.T) {
	config := selfSigned(t)
	srv := serve(t, func(o *Options) { o.MaxClients, o.TLSConfig = 1, config })
	c := srv.dialTLS()
	c.do("PING").is("+PONG")
	refused := srv.dialTLS()
	refused.read().is("-ERR max number of clients reached")
	refused.closed()
	c.do("PING").is("+PONG")
}

// Without users it is the handshake that makes a client one to be kept.
func TestHandshakesMakeRoom(t *testing.T) {
	config := selfSigned(t)
	srv := serve(t, func(o *Options) { o.MaxClients, o.TLSConfig, o.bounds.handshakeTimeout = 2, config, time.Minute })
	silent := srv.dial()
	c := srv.dialTLS()
	c.do("PING").is("+PONG")
	for range adminPlaces {
		srv.dial()
	}
	another := srv.dial()
	silent.closed()
	srv.dialTLS().do("PING").is("+PONG")
	for range adminPlaces {
		srv.dial()
	}
	another.closed()
	c.do("PING").is("+PONG")
}

// What has not logged in may send no argument that is longer than a name or a password can be.
func TestPreauthThatSendsMuch(t *testing.T) {
	c := serve(t, withUser).dial()
	c.raw("*2\r\n$4\r\nECHO\r\n$20000\r\n")
	c.read().is("-ERR Protocol error: unauthenticated bulk length: 20000 bytes in one argument, the limit before AUTH is 4096")
	c.closed()
}

func TestPreauthThatDoesNotRead(t *testing.T) {
	srv := serve(t, withUser, func(o *Options) { o.bounds.writeTimeout = 200 * time.Millisecond })
	c := srv.dial()
	c.do("PING").is("-NOAUTH Authentication required.")
	most := srv.flood(c, strings.Repeat(frameOf("LOCK", "r", "1000"), 100))
	if limit := preauthOutputMax + batchMax + 1000; most > limit {
		t.Errorf("%d bytes waited for the client, want at most %d", most, limit)
	}
}

// A ClientHello of the size that the library would take is not taken.
func TestHugeHello(t *testing.T) {
	config := selfSigned(t)
	srv := serve(t, func(o *Options) { o.TLSConfig, o.bounds.handshakeTimeout = config, time.Minute })
	c := srv.dial()
	message := "\x01\x00\xff\xff" + strings.Repeat("x", preauthReadMax+10)
	go func() {
		for len(message) > 0 {
			n := min(len(message), 16<<10)
			c.conn.Write([]byte("\x16\x03\x01" + string([]byte{byte(n >> 8), byte(n)}) + message[:n]))
			message = message[n:]
		}
	}()
	c.closed()
}

// Nor is as much of a message that belongs to TLS behind the handshake. Who sends commands is not counted, however long it goes on.
func TestHugeMessageBehindTheHandshake(t *testing.T) {
	srv := serve(t, withUser)
	near, far := net.Pipe()
	defer far.Close()
	go func() {
		for err := error(nil); err == nil; {
			_, err = far.Write(make([]byte, 1000))
		}
	}()
	conn := newConnection(srv.Server, near, 1)
	conn.tlsTransport = &tlsTransport{Conn: near, conn: conn}
	conn.in.init(conn.tlsTransport, nil)
	defer conn.in.release()
	for range 2 {
		if err := conn.read(); err != nil || conn.tlsTransport.left < preauthReadMax-1000 || conn.tlsTransport.left >= preauthReadMax {
			t.Fatalf("the bytes of a command: got %v, and %d bytes may follow, want less than %d", err, conn.tlsTransport.left, preauthReadMax)
		}
	}
	read, err := preauthReadMax-conn.tlsTransport.left, error(nil)
	for err == nil { // as the TLS library does until a message is complete
		var n int
		n, err = conn.tlsTransport.Read(make([]byte, 1000))
		read += n
	}
	if err != errPreauthReadMax || read > preauthReadMax+1000 {
		t.Errorf("one long message: got %v after %d bytes, want %v after %d", err, read, errPreauthReadMax, preauthReadMax)
	}
	conn.session.current.Store(srv.live().accounts[0])
	if err := conn.read(); err != nil || conn.tlsTransport.left <= 1<<30 {
		t.Errorf("behind the login: got %v, and %d bytes may follow, want no bound", err, conn.tlsTransport.left)
	}
}

// The same over TLS: many commands before the login, and a long one behind it.
func TestPreauthOverTLS(t *testing.T) {
	config := selfSigned(t)
	srv := serve(t, withUser, func(o *Options) { o.TLSConfig = config })
	large := strings.Repeat("x", 3*preauthReadMax)
	c := srv.dialTLS()
	for range 100 {
		c.do("PING", large[:1000]).is("-NOAUTH Authentication required.")
	}
	c.do("AUTH", "secret").is("+OK")
	c.do("ECHO", large).is(`"` + large + `"`)
}

// takeCPU takes all places of the semaphore, until the function that it returns is called.
func (srv *testServer) takeCPU() (open func()) {
	for range srv.cpu.size {
		srv.cpu.enter(semaphoreGroup{})
	}
	return func() {
		for range srv.cpu.size {
			srv.cpu.release()
		}
	}
}

func (srv *testServer) cpuIsFree() bool {
	srv.cpu.mu.Lock()
	defer srv.cpu.mu.Unlock()
	return srv.cpu.held == 0
}

// Handshakes, and commands of who has not logged in, have their turn in the semaphore; others do not need it.
func TestPreauthCPU(t *testing.T) {
	config := selfSigned(t)
	srv := serve(t, withUser, func(o *Options) { o.TLSConfig = config })
	user, preauth := srv.dialTLS(), srv.dialTLS()
	user.do("AUTH", "secret").is("+OK")
	preauth.do("PING").is("-NOAUTH Authentication required.")

	open := srv.takeCPU()
	preauth.send("AUTH", "secret")
	raw := srv.dial()
	shaken := make(chan error, 1)
	shaking := tls.Client(raw.conn, &tls.Config{InsecureSkipVerify: true})
	go func() { shaken <- shaking.Handshake() }()
	for range 10 {
		user.do("LOCK", "r", "10000", "TOKEN", "x").granted(1, 10000)
		user.do("UNLOCK", "r", "x").is(":1")
	}
	preauth.silent(100 * time.Millisecond)
	select {
	case err := <-shaken:
		t.Errorf("a handshake has ended outside the semaphore: %v", err)
	default:
	}
	open()
	preauth.read().is("+OK")
	if err := <-shaken; err != nil {
		t.Error(err)
	}
	preauth.do("LOCKS").is("[]")
	eventually(t, "nobody is in the semaphore", srv.cpuIsFree)
}

// A turn that comes after the end of handshake_timeout is not used.
func TestHandshakeThatWaitsTooLong(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	go far.Write([]byte("x"))
	srv := serve(t)
	conn := newConnection(srv.Server, near, 1)
	w := &tlsTransport{Conn: near, conn: conn, left: 1, deadline: time.Now().Add(-time.Millisecond)}
	if _, err := w.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading for a handshake whose time is over: got %v, want that it is", err)
	}
	conn.releaseCPU()
}

// Who has not logged in can release nothing and expects nothing: a server that stops does not wait for that.
func TestShutdownWithPreauth(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, withUser)
		holder := srv.dial()
		holder.do("AUTH", "secret").is("+OK")
		holder.do("LOCK", "r", "10000", "TOKEN", "a").granted(1, 10000)
		holder.conn.Close()
		eventually(t, "the holder has gone", func() bool { return len(srv.clients()) == 0 })
		preauth := srv.dial()
		preauth.do("PING").is("-NOAUTH Authentication required.")
		preauth.raw(strings.Repeat(frameOf("AUTH", "wrong"), 100)) // the answers take 10 s
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: got %v, want nil", err)
		}
		preauth.conn.Close()
	})
}

// Nobody stays in the semaphore who waits: for the rest of a hello, of a command, for a client that reads, or for the pause behind a wrong
// password.
func TestWaitingHoldsNoCPU(t *testing.T) {
	config := selfSigned(t)
	half := hello(t)[:100]
	for name, config := range map[string]*tls.Config{"TLS": config, "no TLS": nil} {
		t.Run(name, func(t *testing.T) {
			srv := serve(t, withUser, func(o *Options) {
				o.TLSConfig, o.bounds.writeTimeout, o.bounds.handshakeTimeout = config, time.Minute, time.Minute
			})
			dial := srv.dial
			if config != nil {
				dial = srv.dialTLS
			}
			for range srv.cpu.size {
				if config != nil {
					srv.dial().raw(half)
				}
				dial().raw(frameOf("PING") + "*1\r\n$4\r\nPI")
				go dial().sendWithoutEnd(strings.Repeat(frameOf("LOCK", "r", "1000"), 100))
			}
			full := func() (n int) {
				for _, conn := range srv.clients() {
					conn.mu.Lock()
					if conn.unsentLocked() > preauthOutputMax {
						n++
					}
					conn.mu.Unlock()
				}
				return n
			}
			eventually(t, "who does not read is waited for", func() bool { return full() == srv.cpu.size })
			wrong := dial()
			start := time.Now()
			wrong.raw(strings.Repeat(frameOf("AUTH", "wrong"), 10))
			dial().do("AUTH", "secret").is("+OK")
			for range 10 {
				wrong.read().is("-WRONGPASS invalid username-password pair or user is disabled.")
			}
			if got := time.Since(start); got < 10*failedLoginPause {
				t.Errorf("10 wrong passwords took %v, want %v at least", got, 10*failedLoginPause)
			}
			srv.Close() // so that who floods ends
		})
	}
}

func TestFailedHandshakesAreTold(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		var log testLog
		config := selfSigned(t)
		srv := serve(t, log.keep, func(o *Options) { o.TLSConfig = config })
		srv.dial().conn.Close() // a look whether somebody listens is worth no line
		eventually(t, "it has gone", func() bool { return srv.counters[countConnections].Load() == 1 && len(srv.clients()) == 0 })
		c := srv.dial()
		c.raw(frameOf("PING"))
		c.read().is("-ERR Protocol error: this port speaks TLS, and this does not look like it")
		c.closed()
		c = srv.dial()
		c.raw(frameOf("PING"))
		c.read().err("ERR Protocol error: this port speaks TLS")
		srv.Close()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 1 || !strings.Contains(lines[0], `level=INFO msg="TLS handshake failed" client=2 `) || !strings.Contains(lines[0], "does not look like a TLS handshake") {
			t.Errorf("the log: got %q, want one line of the first that failed", lines)
		}
	})
}
