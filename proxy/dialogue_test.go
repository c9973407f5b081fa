package proxy

// A dialogue with a server, for tests that read like one: do("LOCK", "a", "1000") … Is(…). Every failure is reported at the
// line of the test that asked.

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/memmaster"
)

// patience is how long a test waits for something that must happen at once, on a machine that has much else to do. It is never slept.
// What must not end by itself meanwhile has a TTL beyond it: 60 s are the most.
const patience = 30 * time.Second

// inVirtualTime runs a test in a bubble of testing/synctest. Time passes there only while everybody waits for it, so that TTLs and timeouts
// may be short and durations are exact, however busy the machine is. A server in it is reached over net.Pipe: the bubble's time would
// stand still while somebody waits for the network.
func inVirtualTime(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// inBubble reports whether time is virtual, which begins with the year 2000.
func inBubble() bool { return time.Now().Year() == 2000 }

// testServer is a server over an engine with masters in this process.
type testServer struct {
	*Server
	t       testing.TB
	addr    string
	pipes   *pipeListener // in virtual time, in the place of addr
	masters []*memmaster.Master
}

// serve starts a server with these changes to its options, and closes everything at the end of the test.
func serve(t testing.TB, change ...func(*Options)) *testServer {
	t.Helper()
	srv := newTestServer(t, change...)
	srv.serveClients()
	return srv
}

// serveClients serves a free port until the end of the test; in virtual time, clients of net.Pipe.
func (srv *testServer) serveClients() {
	srv.t.Helper()
	if inBubble() {
		srv.pipes = newPipeListener()
		srv.serveOn(srv.pipes)
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		srv.t.Fatal(err)
	}
	srv.addr = l.Addr().String()
	srv.serveOn(l)
}

// serveOn serves a listener until the end of the test.
func (srv *testServer) serveOn(l net.Listener) {
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	srv.t.Cleanup(func() {
		srv.Close()
		if err := <-served; err != nil {
			srv.t.Errorf("Serve: got %v, want nil after Close", err)
		}
	})
}

// newTestServer is serve without a listener.
func newTestServer(t testing.TB, change ...func(*Options)) *testServer {
	t.Helper()
	opts := Options{bounds: bounds{handshakeTimeout: time.Minute}} // a slow test machine is no slow client
	for _, f := range change {
		f(&opts)
	}
	srv := &testServer{t: t}
	if opts.Engine == nil {
		opts.Engine, srv.masters = startEngine(t)
	}
	var err error
	if srv.Server, err = New(opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	return srv
}

// serveWith is serve with these changes to the options of the engine.
func serveWith(t testing.TB, engine func(*redlock.Options), change ...func(*Options)) *testServer {
	t.Helper()
	client, masters := startEngine(t, engine)
	srv := serve(t, append(change, func(o *Options) { o.Engine = client })...)
	srv.masters = masters
	return srv
}

// twin starts another server over the same masters.
func (srv *testServer) twin(change ...func(*Options)) *testServer {
	srv.t.Helper()
	engine := openEngine(srv.t, srv.masters)
	twin := serve(srv.t, append(change, func(o *Options) { o.Engine = engine })...)
	twin.masters = srv.masters
	return twin
}

// startEngine starts five masters and a client of them, which all are up.
func startEngine(t testing.TB, change ...func(*redlock.Options)) (*redlock.Client, []*memmaster.Master) {
	t.Helper()
	var masters []*memmaster.Master
	for range 5 {
		m := memmaster.New(memmaster.Options{})
		t.Cleanup(func() { m.Close() })
		masters = append(masters, m)
	}
	opts := engineOptions(masters, change...)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := redlock.Bootstrap(ctx, opts); err != nil {
		t.Fatal(err)
	}
	return openEngine(t, masters, change...), masters
}

// openEngine starts a client of masters that are admitted, and waits for all of them. With a quorum alone it could serve, and what it
// does then is as good; but what it leaves on a master that comes up in the middle of a test is not the same each time.
func openEngine(t testing.TB, masters []*memmaster.Master, change ...func(*redlock.Options)) *redlock.Client {
	t.Helper()
	opts := engineOptions(masters, change...)
	engine, err := redlock.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, m := range engine.Masters() {
			if t.Failed() && m.Timeouts > 0 {
				t.Logf("%s was given up %d times: %+v", m.Addr, m.Timeouts, m)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		engine.Close(ctx)
	})
	allUp(t, engine)
	return engine
}

// allUp waits for all masters: an engine is ready with a quorum of them.
func allUp(t testing.TB, engine *redlock.Client) {
	t.Helper()
	eventually(t, "all masters are up", func() bool {
		return !slices.ContainsFunc(engine.Masters(), func(m redlock.MasterStatus) bool { return m.State != redlock.MasterUp })
	})
}

func engineOptions(masters []*memmaster.Master, change ...func(*redlock.Options)) redlock.Options {
	opts := redlock.Options{MasterTimeout: 2 * time.Second, ConnectTimeout: patience} // a slow test machine is no hung master
	for i, m := range masters {
		opts.Masters = append(opts.Masters, redlock.Master{Addr: fmt.Sprintf("master-%d:6379", i+1), Dialer: m.Dial})
	}
	for _, f := range change {
		f(&opts)
	}
	return opts
}

// testLog is what a server has logged so far.
type testLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// keep has a server log to it.
func (l *testLog) keep(o *Options) { o.Logger = slog.New(slog.NewTextHandler(l, nil)) }

func (l *testLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// client speaks to a server.
type client struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

// dial connects a client.
func (srv *testServer) dial() *client {
	srv.t.Helper()
	if srv.pipes != nil {
		return newClient(srv.t, srv.pipes.dial())
	}
	return dialTo(srv.t, srv.addr)
}

// dialTo connects a client to any server.
func dialTo(t testing.TB, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, conn)
}

func newClient(t testing.TB, conn net.Conn) *client {
	t.Cleanup(func() { conn.Close() })
	return &client{t: t, conn: conn, r: bufio.NewReader(conn)}
}

// do sends a command and reads its reply. Where masters had no vote for a moment because this process was short of CPU, it sends it again.
func (c *client) do(args ...string) reply {
	c.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c.send(args...)
		if r := c.read(); !machineWasSlow(r.text) || time.Now().After(deadline) {
			return r
		}
	}
}

// machineWasSlow reports whether a reply says that the addresses of masters could not be made sure of for seconds. That is the rule, and in these tests
// it means that the process got no CPU: the tests of the engine have masters that take no connections, in virtual time.
func machineWasSlow(reply string) bool {
	return strings.HasPrefix(reply, "-NOQUORUM ") && strings.Contains(reply, "no new connection has reached it for ")
}

// send sends a command.
func (c *client) send(args ...string) {
	c.t.Helper()
	c.raw(frameOf(args...))
}

// raw sends bytes.
func (c *client) raw(s string) {
	c.t.Helper()
	c.conn.SetWriteDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c.conn, s); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// frameOf is the command as clients send it.
func frameOf(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

// read reads one reply.
func (c *client) read() reply {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(patience))
	text, err := readReply(c.r)
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	return reply{c.t, text}
}

// closed fails the test unless the server closes the connection, without another reply.
func (c *client) closed() {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(patience))
	rest, err := io.ReadAll(c.r)
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		c.t.Fatal("the connection is open, want it closed")
	}
	if len(rest) > 0 {
		c.t.Fatalf("got %q, want the connection closed", rest)
	}
}

// silent fails the test if the server has sent something.
func (c *client) silent(d time.Duration) {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(d))
	if b, err := c.r.Peek(1); err == nil {
		c.r.Peek(64)
		rest, _ := c.r.Peek(c.r.Buffered())
		c.t.Fatalf("got %q… (%d bytes), want nothing yet", rest, len(b))
	}
}

// readReply reads a reply and writes it on one line: +simple, -error, :integer, "bulk", [array], {map}, ~[set], and the
// three nulls $nil, *nil and _nil.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	head, ok := strings.CutSuffix(line, "\r\n")
	if !ok || head == "" {
		return "", fmt.Errorf("%q is no reply", line)
	}
	kind, rest := head[0], head[1:]
	switch kind {
	case '+', '-', ':', '#', ',':
		return head, nil
	case '_':
		return "_nil", nil
	}
	n, err := strconv.Atoi(rest)
	if err != nil {
		return "", fmt.Errorf("%q is no reply", line)
	}
	switch {
	case n < 0:
		return string(kind) + "nil", nil
	case kind == '$' || kind == '=':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return "", err
		}
		return strconv.Quote(string(b[:n])), nil
	case kind == '*', kind == '~', kind == '>':
		items, err := readReplies(r, n)
		return strings.TrimPrefix(string(kind), "*") + "[" + strings.Join(items, " ") + "]", err
	case kind == '%':
		items, err := readReplies(r, 2*n)
		if err != nil {
			return "", err
		}
		for i := 0; i < len(items); i += 2 {
			items[i] += ":"
		}
		return "{" + strings.Join(items, " ") + "}", nil
	}
	return "", fmt.Errorf("%q is no reply", line)
}

func readReplies(r *bufio.Reader, n int) ([]string, error) {
	items := make([]string, n)
	for i := range items {
		var err error
		if items[i], err = readReply(r); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// reply is one reply as readReply writes it.
type reply struct {
	t    testing.TB
	text string
}

// is fails the test unless this is the reply.
func (r reply) is(want string) reply {
	r.t.Helper()
	if r.text != want {
		r.t.Fatalf("got  %s\nwant %s", r.text, want)
	}
	return r
}

// err fails the test unless the reply is an error that begins with this.
func (r reply) err(prefix string) reply {
	r.t.Helper()
	if !strings.HasPrefix(r.text, "-"+prefix) {
		r.t.Fatalf("got  %s\nwant -%s…", r.text, prefix)
	}
	return r
}

// matches fails the test unless the whole reply matches the expression, and returns what its groups matched.
func (r reply) matches(expression string) []string {
	r.t.Helper()
	groups := regexp.MustCompile("^(?:" + expression + ")$").FindStringSubmatch(r.text)
	if groups == nil {
		r.t.Fatalf("got  %s\nwant %s", r.text, expression)
	}
	return groups[1:]
}

// granted fails the test unless the reply grants a lock with a validity of least to most ms. It returns the token.
func (r reply) granted(least, most int) string {
	r.t.Helper()
	groups := r.matches(`\["([^"]+)" :(\d+)\]`)
	if ms, _ := strconv.Atoi(groups[1]); ms < least || ms > most {
		r.t.Fatalf("got a validity of %d ms, want %d … %d", ms, least, most)
	}
	return groups[0]
}

// within fails the test unless the reply is an integer from least to most.
func (r reply) within(least, most int) {
	r.t.Helper()
	if n, _ := strconv.Atoi(r.matches(`:(\d+)`)[0]); n < least || n > most {
		r.t.Fatalf("got %d, want %d … %d", n, least, most)
	}
}

// eventually fails the test unless the condition becomes true.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// waiting waits until so many LOCKs wait.
func (srv *testServer) waiting(n int) {
	srv.t.Helper()
	eventually(srv.t, fmt.Sprint(n, " waiters"), func() bool { return srv.opts.Engine.Stats().Waiters == n })
}

// heard waits until so many servers hear what each of the masters passes on: a message before that may be lost.
func (srv *testServer) heard(servers int) {
	srv.t.Helper()
	for i := range srv.masters {
		eventually(srv.t, fmt.Sprint(servers, " servers hear the master"), func() bool {
			return srv.onMaster(i, "PUBLISH", "redlockd:messages", "no message").text == fmt.Sprint(":", servers)
		})
	}
}
