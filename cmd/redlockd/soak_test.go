package main

// Mutual exclusion as users see it: three redlockd processes over five real masters, clients that lock a few resources through
// all of them, and a nemesis that kills, freezes, flushes and restarts masters and redlockds. What the clients believed is
// written down and judged afterwards: two of them must never have believed to hold the same resource at once.
//
// REDLOCK_SOAK=10m runs it for so long, with progress; the default is short. The nemesis follows a seed, which a failure
// prints; REDLOCK_SOAK_SEED repeats it (its timing is that of real processes, so a repetition is only similar).

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

const (
	soakResources = 4
	soakClients   = 12
	soakLeast     = 20          // grants, for a judgement
	soakMaxTTL    = time.Second // also about the length of a quarantine
)

// hold is one lock as its client saw it: from the reply to LOCK until it sent UNLOCK, or until the validity, counted from
// when it sent LOCK, was over. To be within that is what a client may rely on.
type hold struct {
	resource, token string
	from, to        time.Time
}

type soak struct {
	t       *testing.T
	binary  string
	servers []*redisproc.Server
	proxies []*soakProxy
	start   time.Time

	mu    sync.Mutex
	holds []hold

	granted, denied, failed, lost atomic.Int64
}

func TestSoakThreeProxiesUnderFaults(t *testing.T) {
	redisproc.Long(t)
	length := 12 * time.Second
	if asked := os.Getenv("REDLOCK_SOAK"); asked != "" {
		var err error
		if length, err = time.ParseDuration(asked); err != nil {
			t.Fatalf("REDLOCK_SOAK: %v", err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	if asked := os.Getenv("REDLOCK_SOAK_SEED"); asked != "" {
		var err error
		if seed, err = strconv.ParseUint(asked, 10, 64); err != nil {
			t.Fatalf("REDLOCK_SOAK_SEED: %v", err)
		}
	}
	t.Logf("REDLOCK_SOAK=%v REDLOCK_SOAK_SEED=%d", length, seed)

	s := &soak{t: t, binary: binary(t), start: time.Now()}
	s.servers = redisproc.StartForTest(t, 5)
	for i := range 3 {
		s.proxies = append(s.proxies, s.startProxy(i))
	}
	s.waitAllLockable("at the start")

	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range soakClients {
		clients.Go(func() { s.client(i, rand.New(rand.NewPCG(seed, uint64(i))), stop) })
	}
	s.nemesis(rand.New(rand.NewPCG(seed, 1<<32)), time.Now().Add(length))
	close(stop)
	clients.Wait()

	s.waitAllLockable("after healing")
	s.noKeysLeft()
	s.judge()
	t.Logf("granted %d, denied %d, no quorum or connection lost %d, lost while held %d", s.granted.Load(), s.denied.Load(), s.failed.Load(), s.lost.Load())
	if s.granted.Load() < soakLeast {
		t.Errorf("granted %d: too few for a judgement", s.granted.Load())
	}
}

// client locks a random resource through a random proxy, holds it for a while, extends it sometimes, and releases it.
func (s *soak) client(n int, random *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		proxy := s.proxies[random.IntN(len(s.proxies))]
		conn, err := dialRESP(proxy.addr)
		if err != nil {
			s.failed.Add(1)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		for range 20 {
			if !s.cycle(conn, random) {
				break
			}
		}
		conn.Close()
	}
}

func (s *soak) cycle(conn *respConn, random *rand.Rand) bool {
	resource := "soak:" + strconv.Itoa(random.IntN(soakResources))
	ttl := 100 + random.IntN(900)
	args := []string{"LOCK", resource, strconv.Itoa(ttl)}
	if random.IntN(2) == 0 {
		args = append(args, "WAIT", strconv.Itoa(1+random.IntN(500)))
	}
	sent := time.Now()
	reply, err := conn.do(args...)
	answered := time.Now()
	if err != nil {
		s.failed.Add(1)
		return isReplyError(err) // else the connection is gone
	}
	if len(reply) == 0 {
		s.denied.Add(1)
		time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
		return true
	}
	validity, _ := strconv.Atoi(reply[1])
	h := hold{resource: resource, token: reply[0], from: answered, to: sent.Add(time.Duration(validity) * time.Millisecond)}
	s.granted.Add(1)
	time.Sleep(time.Duration(random.IntN(validity+1)) * time.Millisecond)
	if random.IntN(4) == 0 && time.Now().Before(h.to) {
		sent := time.Now()
		reply, err := conn.do("EXTEND", resource, h.token, strconv.Itoa(ttl))
		switch {
		case err == nil && reply[0] != "0":
			validity, _ := strconv.Atoi(reply[0])
			h.to = sent.Add(time.Duration(validity) * time.Millisecond)
		case err == nil:
			s.lost.Add(1)
		case !isReplyError(err):
			s.record(h)
			return false
		}
		time.Sleep(time.Duration(random.IntN(ttl)) * time.Millisecond)
	}
	if now := time.Now(); now.Before(h.to) {
		h.to = now
	}
	if random.IntN(10) == 0 {
		s.record(h) // gone without a word: the TTL has to end it
		return true
	}
	_, err = conn.do("UNLOCK", resource, h.token)
	s.record(h)
	return err == nil || isReplyError(err)
}

func (s *soak) record(h hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = append(s.holds, h)
}

// nemesis does one harm after another until the end, then heals all.
func (s *soak) nemesis(random *rand.Rand, end time.Time) {
	down := map[*redisproc.Server]bool{}
	frozen := map[*redisproc.Server]bool{}
	progress := time.Now()
	longer := end.Add(time.Minute) // where the faults have left too few quorums
	for time.Now().Before(end) || s.granted.Load() < soakLeast && time.Now().Before(longer) {
		time.Sleep(time.Duration(200+random.IntN(700)) * time.Millisecond)
		if time.Since(progress) > 10*time.Second {
			progress = time.Now()
			s.t.Logf("%v: granted %d, denied %d, failed %d", time.Since(s.start).Round(time.Second), s.granted.Load(), s.denied.Load(), s.failed.Load())
		}
		server := s.servers[random.IntN(len(s.servers))]
		switch harm := random.IntN(10); {
		case down[server]:
			if err := server.Restart(); err != nil {
				s.t.Error(err)
			}
			delete(down, server)
		case frozen[server]:
			server.Thaw()
			delete(frozen, server)
		case harm < 3 && len(down) < 2:
			server.Kill()
			down[server] = true
		case harm < 4:
			// Faster than anybody can look, and a quorum of them: what every lock was granted by has forgotten it.
			for _, i := range random.Perm(len(s.servers))[:1+random.IntN(3)] {
				if server := s.servers[i]; !down[server] && !frozen[server] {
					server.Kill()
					if err := server.Restart(); err != nil {
						s.t.Error(err)
					}
				}
			}
		case harm < 6 && len(frozen) < 2:
			server.Freeze()
			frozen[server] = true
		case harm < 7:
			if conn, err := dialRESP(server.Addr); err == nil {
				conn.do("FLUSHALL")
				conn.Close()
			}
		case harm < 8:
			proxy := s.proxies[random.IntN(len(s.proxies))]
			proxy.stop(syscall.SIGKILL)
			s.proxies[proxy.index].restart(s)
		case harm < 9:
			proxy := s.proxies[random.IntN(len(s.proxies))]
			proxy.cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
			proxy.cmd.Process.Signal(syscall.SIGCONT)
		}
	}
	for server := range frozen {
		server.Thaw()
	}
	for server := range down {
		if err := server.Restart(); err != nil {
			s.t.Error(err)
		}
	}
}

// judge looks for two holds of one resource that overlap.
func (s *soak) judge() {
	byResource := map[string][]hold{}
	for _, h := range s.holds {
		if h.to.After(h.from) {
			byResource[h.resource] = append(byResource[h.resource], h)
		}
	}
	for resource, holds := range byResource {
		slices.SortFunc(holds, func(a, b hold) int { return a.from.Compare(b.from) })
		longest := holds[0]
		for _, h := range holds[1:] {
			if h.from.Before(longest.to) && h.token != longest.token {
				s.t.Errorf("two holders of %s: %s until %v, and %s from %v on: %v too early", resource,
					longest.token, longest.to.Sub(s.start), h.token, h.from.Sub(s.start), longest.to.Sub(h.from))
			}
			if h.to.After(longest.to) {
				longest = h
			}
		}
	}
}

// waitAllLockable waits until every resource can be locked and released through every proxy.
func (s *soak) waitAllLockable(when string) {
	s.t.Helper()
	deadline := time.Now().Add(2 * patience)
	for _, proxy := range s.proxies {
		for i := range soakResources {
			for {
				err := lockOnce(proxy.addr, "soak:"+strconv.Itoa(i))
				if err == nil {
					break
				}
				if time.Now().After(deadline) {
					s.t.Fatalf("%s, soak:%d cannot be locked through %s: %v\n%s", when, i, proxy.addr, err, proxy.log)
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
}

func lockOnce(addr, resource string) error {
	conn, err := dialRESP(addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	reply, err := conn.do("LOCK", resource, "500", "WAIT", "500")
	if err != nil {
		return err
	}
	if len(reply) == 0 {
		return errors.New("held by another")
	}
	_, err = conn.do("UNLOCK", resource, reply[0])
	return err
}

// noKeysLeft waits until no master holds a lock: those that nobody released end with their TTL.
func (s *soak) noKeysLeft() {
	s.t.Helper()
	for _, server := range s.servers {
		until(s.t, "no keys are left on "+server.Addr, func() bool { return redisCLI(s.t, server.Addr, "KEYS", "soak:*") == "" })
	}
}

// soakProxy is one redlockd process. It keeps its address over restarts.
type soakProxy struct {
	index int
	addr  string
	cmd   *exec.Cmd
	log   *lockedBuffer
}

func (s *soak) startProxy(index int) *soakProxy {
	p := &soakProxy{index: index, addr: redisproc.KeepAddr(s.t), log: new(lockedBuffer)}
	p.restart(s)
	s.t.Cleanup(func() { p.stop(syscall.SIGKILL) })
	return p
}

func (p *soakProxy) restart(s *soak) {
	p.cmd = exec.Command(s.binary, "--listen", p.addr, "--masters", strings.Join(redisproc.Addrs(s.servers), ","), "--max-ttl", soakMaxTTL.String())
	p.cmd.Stderr = p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// With the default of 50 ms for each master, a busy machine grants few locks to judge.
	p.cmd.Env = append(os.Environ(), "REDLOCKD_MASTER_FOUNDING_WAIT=10ms", "REDLOCKD_MASTER_TIMEOUT=250ms")
	if err := p.cmd.Start(); err != nil {
		s.t.Error(err)
	}
}

func (p *soakProxy) stop(sig syscall.Signal) {
	p.cmd.Process.Signal(sig)
	p.cmd.Wait()
}

// lockedBuffer keeps the last part of what a process logs.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.buf.Len() > 64<<10 {
		b.buf.Next(b.buf.Len() - 32<<10)
	}
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// respConn is the least that speaks RESP 2 to redlockd: commands out, flat replies in.
type respConn struct {
	net.Conn
	in *bufio.Reader
}

func dialRESP(addr string) (*respConn, error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	return &respConn{Conn: conn, in: bufio.NewReader(conn)}, nil
}

// replyError is an error that the server replied.
type replyError string

func (e replyError) Error() string { return string(e) }

func isReplyError(err error) bool {
	var reply replyError
	return errors.As(err, &reply)
}

// do returns the elements of the reply as text; none for null.
func (c *respConn) do(args ...string) ([]string, error) {
	c.SetDeadline(time.Now().Add(patience))
	command := fmt.Sprintf("*%d\r\n", len(args))
	for _, arg := range args {
		command += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(c, command); err != nil {
		return nil, err
	}
	return c.reply()
}

func (c *respConn) reply() ([]string, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, text := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '-':
		return nil, replyError(text)
	case '+', ':':
		return []string{text}, nil
	case '$', '*':
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, err
		}
		if kind == '$' {
			data := make([]byte, n+2)
			if _, err := io.ReadFull(c.in, data); err != nil {
				return nil, err
			}
			return []string{string(data[:n])}, nil
		}
		var all []string
		for range n {
			one, err := c.reply()
			if err != nil {
				return nil, err
			}
			all = append(all, one...)
		}
		return all, nil
	}
	return nil, fmt.Errorf("unexpected reply %q", line)
}
