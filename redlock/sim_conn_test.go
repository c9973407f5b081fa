package redlock

// The connections of the simulation's callers. Each has a network of its own to a real server of package proxy (sim_server_test.go), and speaks
// RESP2 or RESP3. Connections break in the middle of a command, keep replies back, and are given up: then nobody knows what came of the command.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"redlockd/redlock/memmaster"
	"redlockd/redlock/resp"
)

// SimServer is a server in front of a Client.
type SimServer interface {
	Serve(net.Listener) error
	Leave()
	Shutdown(context.Context) error
	Close() error
	// Reload puts other settings into force; edition says which.
	Reload(edition int) error
}

// NewSimServer makes a server. It is set by a file that may import package proxy.
var NewSimServer func(engine *Client, maxTTL time.Duration, places int, log *slog.Logger) (SimServer, error)

// What the policies of the servers are for.
const (
	SimDelayed   = "delayed" // has a lock_delay, and a shorter max_ttl
	SimLockDelay = 40 * ms
	SimFenced    = "fenced" // each LOCK of it gets a fence
)

// serve has the proxy serve clients.
func (i *incarnation) serve(log *slog.Logger, maxTTL time.Duration, places int) {
	server, err := NewSimServer(i.Client, maxTTL, places, log)
	if err != nil {
		i.s.Fatal(err)
	}
	i.server, i.listener = server, &simListener{made: make(chan net.Conn, 64), closed: make(chan struct{})}
	go server.Serve(i.listener)
}

// simListener is where a server accepts connections.
type simListener struct {
	made   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// link is a new path to the server. What it connects when the listener is closed ends at once.
func (l *simListener) link() *memmaster.Link {
	return memmaster.LinkTo(func(conn net.Conn) {
		select {
		case <-l.closed:
			conn.Close()
		case l.made <- conn:
		}
	})
}

func (l *simListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	case conn := <-l.made:
		return conn, nil
	}
}

func (l *simListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *simListener) Addr() net.Addr { return &net.UnixAddr{Name: "simulation"} }

// strikeServer does something to a server that loses no lock.
func (n *nemesis) strikeServer(fault string, p *incarnation, d time.Duration) {
	if p.edition++; fault == "reload" {
		n.note("proxy %d: CONFIG RELOAD, edition %d", p.id, p.edition)
		if err := p.server.Reload(p.edition); err != nil {
			n.w.Errorf("reload: %v", err)
		}
		return
	}
	n.note("proxy %d is stopped for %v", p.id, d)
	p.mu.Lock()
	clients := slices.Clone(p.links)
	p.mu.Unlock()
	for _, link := range append(clients, p.paths...) {
		link.Partition()
		n.later(d, link.Heal)
	}
}

// simConn is a connection of a caller. One goroutine uses it, and any may break it.
type simConn struct {
	p     *incarnation
	w     *world
	rng   *rand.Rand
	link  *memmaster.Link
	conn  net.Conn
	proto int
	// late: what was sent may be executed long after the caller has given up.
	late bool
	// releases: what it holds is released if it looks as if the client had ended it.
	releases bool
	in       []byte // has arrived
	// calm: nothing happens to it.
	calm bool
	// ended: it is broken, or the caller has given it up.
	ended bool
}

var errNoAnswer = errors.New("nobody knows")

// connect makes a connection, and logs in. One that does not come about has ended.
func (c *caller) connect(p *incarnation, releases bool) *simConn {
	s := &simConn{p: p, w: c.w, rng: c.rng, calm: c.calm, link: p.listener.link(), proto: 2 + c.rng.IntN(2), releases: releases}
	base, rng := upTo(c.rng, 300*time.Microsecond), rand.New(rand.NewPCG(c.rng.Uint64(), 0))
	delay := func() time.Duration { return base + upTo(rng, base) }
	s.link.SetDelay(delay, delay)
	conn, err := s.link.Dial(context.Background(), "", "")
	if s.ended = err != nil; s.ended {
		return s
	}
	s.conn = conn
	p.mu.Lock()
	dead := p.dead.Load()
	p.links = append(p.links, s.link)
	p.mu.Unlock()
	if dead {
		s.link.Cut()
	}
	user := "app"
	if c.id%3 == 0 {
		user = "batch"
	}
	if c.operates {
		user = "root"
	}
	login := []string{"AUTH", user, user}
	if s.proto == 3 {
		login = []string{"HELLO", "3", "AUTH", user, user}
	}
	s.send(login...)
	if v, err := s.receive(0); err == nil && v.Kind == resp.Error {
		s.close()
	}
	return s
}

// to is the caller's connection to a proxy. It makes a new one now and then.
func (c *caller) to(p *incarnation) *simConn {
	s := c.conns[p.id]
	if s == nil || s.p != p || s.ended || c.rng.IntN(20) == 0 {
		if s != nil {
			s.giveUp()
		}
		if c.conns == nil {
			c.conns = map[int]*simConn{}
		}
		s = c.connect(p, false)
		c.conns[p.id] = s
	}
	return s
}

// hangUp closes the caller's connections.
func (c *caller) hangUp() {
	for id := range simProxies {
		if s := c.conns[id]; s != nil {
			s.giveUp()
		}
	}
}

// close is what a client does that has no more to say: what it has sent arrives.
func (s *simConn) close() {
	if s.ended = true; s.conn != nil {
		s.conn.Close()
	}
}

// giveUp ends the connection. What was sent and has not arrived is lost, unless it may be late.
func (s *simConn) giveUp() {
	if s.ended = true; s.conn == nil || s.releases {
		return
	}
	s.conn.Close()
	if !s.late {
		s.link.Cut()
	}
}

// send sends a command. Now and then something happens to the connection.
func (s *simConn) send(args ...string) {
	if s.ended {
		return
	}
	frame := resp.AppendArray(nil, len(args))
	for _, arg := range args {
		frame = resp.AppendBulkString(frame, arg)
	}
	d := upTo(s.rng, 150*ms)
	switch mishap := s.rng.IntN(150); {
	case s.calm, mishap < 2 && s.releases:
	case mishap == 0:
		frame = frame[:s.rng.IntN(len(frame))]
		defer s.link.Cut()
	case mishap == 1: // the reply may be lost
		time.AfterFunc(upTo(s.rng, 5*ms), s.link.Cut)
	case mishap == 2:
		s.link.HoldReplies()
		time.AfterFunc(d, s.link.Heal)
	case mishap == 3:
		s.link.HoldRequests()
		time.AfterFunc(d, s.link.Heal)
	case mishap == 4: // until the caller has given up
		s.link.Partition()
		time.AfterFunc(simPatience+d, s.link.Heal)
	}
	s.conn.Write(frame)
}

// simPatience is for how long a caller waits for a reply behind the WAIT of its command.
const simPatience = 400 * ms

// receive waits for the reply to the next command that has none. An error means that nobody knows what came of it, now and later.
func (s *simConn) receive(wait time.Duration) (resp.Value, error) {
	if s.ended {
		return resp.Value{}, errNoAnswer
	}
	s.conn.SetReadDeadline(time.Now().Add(wait + simPatience))
	for {
		v, size := cutReply(s.in)
		if size > 0 {
			s.in = s.in[size:]
			if v.Kind == resp.Error {
				s.w.refused(v.Text)
			}
			return v, nil
		}
		if len(s.in) == cap(s.in) {
			s.in = append(make([]byte, 0, 2*len(s.in)+512), s.in...)
		}
		n, err := s.conn.Read(s.in[len(s.in):cap(s.in)])
		s.in = s.in[:len(s.in)+n]
		if err != nil {
			s.giveUp()
			return resp.Value{}, errNoAnswer
		}
	}
}

// do sends a command and waits for its reply.
func (s *simConn) do(args ...string) (resp.Value, error) {
	s.send(args...)
	return s.receive(0)
}

// cutReply reads a reply at the beginning of b, and returns what it takes of that; 0: it is not complete.
func cutReply(b []byte) (v resp.Value, size int) {
	end := bytes.Index(b, []byte("\r\n"))
	if end < 0 {
		return v, 0
	}
	text := string(b[1:end])
	size = end + 2
	n, err := strconv.ParseInt(text, 10, 64)
	switch kind := b[0]; {
	case kind == '+':
		return resp.Value{Kind: resp.Status, Text: text}, size
	case kind == '-':
		return resp.Value{Kind: resp.Error, Text: text}, size
	case kind == '_' || (kind == '$' || kind == '*') && n == -1:
		return resp.Value{}, size
	case kind == ',':
		return resp.Value{Kind: resp.Double, Text: text}, size
	case err != nil:
		panic(fmt.Sprintf("no reply: %q", b))
	case kind == ':':
		return resp.Value{Kind: resp.Int, Int: n}, size
	case kind == '$':
		if len(b) < size+int(n)+2 {
			return v, 0
		}
		return resp.Value{Kind: resp.Bulk, Text: string(b[size : size+int(n)])}, size + int(n) + 2
	case kind == '%':
		n *= 2
	case kind != '*' && kind != '~':
		panic(fmt.Sprintf("no reply: %q", b))
	}
	v = resp.Value{Kind: resp.Array, Elems: make([]resp.Value, n)}
	for i := range v.Elems {
		var more int
		if v.Elems[i], more = cutReply(b[size:]); more == 0 {
			return v, 0
		}
		size += more
	}
	return v, size
}

// field is what a map has under a name.
func field(v resp.Value, name string) (value resp.Value) {
	for i := 0; i+1 < len(v.Elems); i += 2 {
		if v.Elems[i].Text == name {
			return v.Elems[i+1]
		}
	}
	panic(fmt.Sprintf("%+v has no %s", v, name))
}

// simErrors are all errors that callers may get. proxy/commands.md says what each means.
var simErrors = regexp.MustCompile(`^(NOQUORUM |TRYAGAIN nothing was changed: |LEAVING |BUSYWAIT |UNBLOCKED |NOSCRIPT |WRONGTYPE |` +
	`ERR max number of (clients|(locks|connections) of user \w+) reached|` +
	`ERR the locks of user \w+ take \d+ of the \d+ bytes|` +
	`ERR ttl of \d+ ms is above the most, \d+ ms \(max_ttl[ )]|ERR WAIT of \d+ ms is above the most|` +
	`ERR the lock was first granted \S+ ago and may be held for \S+ in all \(max_hold\)|ERR \d+ locks are held through this server, and it renews \d+ at most \(max_bound\)|` +
	`ERR this command takes a lock without a fence|ERR the server is closed|ERR the keys? (of the script )?changed \d+ times)`)

// refused counts an error. One that is not documented is a failure.
func (w *world) refused(text string) {
	if !simErrors.MatchString(text) {
		w.ledger.violated("a caller got the error %q, which is not documented", text)
	}
	if words := strings.Fields(text); words[0] != "ERR" {
		text = words[0]
	} else {
		text = strings.Join(words[:min(len(words), 5)], " ")
		if words[1] == "ttl" {
			text = "ERR ttl"
		}
	}
	w.count(func(t *tallies) { t.refused[text]++ })
}

// simRefusal is an error reply.
type simRefusal string

func (e simRefusal) Error() string { return string(e) }

func (e simRefusal) Is(target error) bool {
	return target == ErrNoQuorum && strings.HasPrefix(string(e), "NOQUORUM ")
}

// resultOf is what a caller knows by the reply to a command that it has sent at that time. It counts validity from then.
func resultOf(v resp.Value, err error, sent time.Time) (r Result) {
	switch {
	case err != nil:
		r.Err = err
	case v.Kind == resp.Error:
		r.Err = simRefusal(v.Text)
	case v.Kind == resp.Int: // EXTEND, and UNLOCK
		r.Held, r.Validity = v.Int > 0, time.Duration(v.Int)*ms
	case v.Kind == resp.Array:
		r.Held, r.Token, r.Validity = true, v.Elems[0].Text, time.Duration(v.Elems[1].Int)*ms
		for _, more := range v.Elems[2:] {
			if more.Kind == resp.Bulk {
				r.Slot = more.Text
			} else {
				r.Fence = more.Int
			}
		}
	}
	r.Until = sent.Add(r.Validity)
	return r
}

func inText(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// commandFor begins a command for one resource or for several.
func commandFor(name string, resources []string) []string {
	if len(resources) == 1 {
		return []string{name, resources[0]}
	}
	return append([]string{"M" + name, strconv.Itoa(len(resources))}, resources...)
}

// lockCommand is the LOCK of a request; hold: it is to be held by the connection.
func lockCommand(req LockRequest, hold bool) []string {
	args := append(commandFor("LOCK", req.Resources), inText(req.TTL))
	option := func(given bool, words ...string) {
		if given {
			args = append(args, words...)
		}
	}
	option(req.Token != "", "TOKEN", req.Token)
	option(req.Wait >= ms, "WAIT", inText(req.Wait))
	option(req.Fence, "FENCE")
	option(req.Shared, "SHARED")
	option(req.Slots > 0, "SLOTS", strconv.Itoa(req.Slots))
	option(hold, "HOLD")
	option(req.Release, "RELEASE")
	return args
}
