package main

// The masters, the redlockds and the register, each on a host of its own.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/redisproc"
)

const (
	masterCount   = 5 // that vote, except while the membership is changed
	spareCount    = 2
	redlockdCount = 3
	redlockdPort  = "6380"
	maxTTL        = 4 * time.Second // also about the length of a quarantine
	maxTTLLow     = 3 * time.Second // more than any TTL of the workload
)

// master is a real redis-server. Its clock is stepped through a shim.
type master struct {
	host   *host
	server *redisproc.Server
	admin  *redis.Client // over a unix socket: no fault of the network is in its way
	addr   string
}

func startMaster(h *host, shim string) (*master, error) {
	server, err := startServer(h, shim, "--enable-debug-command", "yes")
	if err != nil {
		return nil, err
	}
	admin := redis.NewClient(&redis.Options{Network: "unix", Addr: filepath.Join(server.Dir(), "redis.sock"), MaxRetries: -1, PoolSize: 2,
		ReadTimeout: 20 * time.Second}) // DEBUG SLEEP answers late
	return &master{host: h, server: server, admin: admin, addr: onHost(h, server)}, nil
}

// startServer starts a redis-server on a host.
func startServer(h *host, shim string, args ...string) (s *redisproc.Server, err error) {
	args = append([]string{"--bind", "127.0.0.1", h.addr.String(), "--protected-mode", "no", "--unixsocket", "redis.sock"}, args...)
	err = h.do(func() error {
		s, err = redisproc.StartClocked(shim, args...)
		return err
	})
	return s, err
}

func onHost(h *host, s *redisproc.Server) string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return net.JoinHostPort(h.addr.String(), port)
}

func (m *master) restart() error { return m.host.do(m.server.Restart) }

func (m *master) close() {
	m.admin.Close()
	m.server.Close()
}

// command runs one at the master.
func (m *master) command(ctx context.Context, args ...any) error {
	return m.admin.Do(ctx, args...).Err()
}

// redlockd is one process, which faults end and start again at its address.
type redlockd struct {
	host    *host
	cluster *cluster
	log     io.Writer
	addr    string
	clock   *ownClock // nil: the machine's

	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{}
}

func (r *redlockd) start() error {
	process, err := r.cluster.redlockdCommand("--listen", r.addr)
	if err != nil {
		return err
	}
	process.Stdout, process.Stderr = r.log, r.log
	if r.clock != nil {
		process.Env = append(process.Env, clockVariable+"="+r.clock.path)
	}
	if err := r.host.do(process.Start); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		process.Wait()
		close(ended)
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process, r.ended = process, ended
	return nil
}

// redlockdCommand is redlockd with the settings of the torture. The masters are in a file, as operators are told to do: a seat that was given another
// master keeps its name, and the masters of a plain list would be called by their addresses.
func (c *cluster) redlockdCommand(args ...string) (*exec.Cmd, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.redlockdOver(c.listed, "config.toml", args...)
}

// redlockdOver is redlockd with settings that name these masters, in a file of that name.
func (c *cluster) redlockdOver(seats []seat, file string, args ...string) (*exec.Cmd, error) {
	var settings strings.Builder
	for _, s := range seats {
		fmt.Fprintf(&settings, "[[masters]]\nname = %q\naddr = %q\n", s.name, s.master.addr)
	}
	path := filepath.Join(c.scratch, file)
	if err := os.WriteFile(path+".new", []byte(settings.String()), 0o644); err != nil {
		return nil, err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return nil, err
	}
	command := exec.Command(c.program, append(slices.Clone(args), "--config", path)...)
	command.Env = append(os.Environ(), "REDLOCKD_LOCKS_MAX_TTL="+maxTTL.String(), "REDLOCKD_LOCKS_MIN_TTL=20ms",
		"REDLOCKD_MASTER_FOUNDING_WAIT=10ms", // the wait follows from max_ttl, which is the longest that is ever in force
		"REDLOCKD_SERVER_PROTECTED_MODE=false", "REDLOCKD_LOG_LEVEL=warn")
	command.SysProcAttr = childAttributes()
	return command, nil
}

func (r *redlockd) signal(s syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return errors.New(r.host.name + " does not run")
	}
	return r.process.Process.Signal(s)
}

// wait reports whether the process has ended within d.
func (r *redlockd) wait(d time.Duration) bool {
	r.mu.Lock()
	ended := r.ended
	r.mu.Unlock()
	if ended == nil {
		return true
	}
	select {
	case <-ended:
		return true
	case <-time.After(d):
		return false
	}
}

// cluster is all that runs.
type cluster struct {
	network   *network
	scratch   string
	program   string // redlockd
	log       *os.File
	redlockds []*redlockd
	register  *redisproc.Server
	clients   []*client
	operator  *host // no fault reaches it
	shim      string
	clocked   bool // redlockds have clocks that faults move

	mu     sync.Mutex
	seats  []seat    // the members
	spares []*master // take seats of others
	listed []seat    // what the settings name: the seats, when their number was odd last
	strays []string  // names of seats whose masters are gone
	named  int       // how many names seats have had
	// lineages are those that the membership has had, as far as noteLineages has seen.
	lineages map[string]bool
}

// startCluster starts everything and returns when each redlockd grants locks.
func startCluster(ctx context.Context, o options, scratch string, log *os.File) (c *cluster, err error) {
	c = &cluster{scratch: scratch, log: log, lineages: map[string]bool{}}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	top, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "redlockd").Output()
	if err != nil {
		return c, fmt.Errorf("find redlockd's module (run this in the directory bench): %w", err)
	}
	module := strings.TrimSpace(string(top))
	if c.program = o.redlockd; c.program == "" {
		edits := clockEdits(goroot())
		c.clocked = len(edits) > 0
		if o.planted != nil {
			edits = append(edits, o.planted.edit)
		}
		if c.program, err = buildRedlockd(ctx, module, scratch, edits); err != nil {
			return c, err
		}
	}
	if c.shim, err = redisproc.BuildClockShim(scratch); err != nil {
		return c, err
	}
	var names []string
	for i := range masterCount + spareCount {
		names = append(names, fmt.Sprint("master", i+1))
	}
	for i := range redlockdCount {
		names = append(names, fmt.Sprint("redlockd", i+1))
	}
	names = append(append(names, o.languages...), "register", "operator")
	if c.network, err = newNetwork(names, o.seed); err != nil {
		return c, err
	}
	c.operator = c.network.host("operator")
	for i := range masterCount + spareCount {
		m, err := startMaster(c.network.hosts[i], c.shim)
		if err != nil {
			return c, err
		}
		if i >= masterCount {
			c.spares = append(c.spares, m)
			continue
		}
		c.seats = append(c.seats, seat{c.newName(), m})
	}
	c.listed = slices.Clone(c.seats)
	if _, err = c.operate(ctx, "bootstrap"); err != nil {
		return c, err
	}
	if c.register, err = startServer(c.network.host("register"), ""); err != nil {
		return c, err
	}
	var addrs []string
	for i := range redlockdCount {
		h := c.network.host(fmt.Sprint("redlockd", i+1))
		r := &redlockd{host: h, cluster: c, log: log, addr: net.JoinHostPort(h.addr.String(), redlockdPort)}
		if c.clocked {
			if r.clock, err = newOwnClock(scratch, h.name); err != nil {
				return c, err
			}
		}
		if err := r.start(); err != nil {
			return c, err
		}
		c.redlockds, addrs = append(c.redlockds, r), append(addrs, r.addr)
	}
	addrs = append(addrs, onHost(c.network.host("register"), c.register))
	commands, err := clientCommands(o.languages, module, scratch, strings.Join(addrs, ","))
	if err != nil {
		return c, err
	}
	for _, language := range o.languages {
		client := &client{host: c.network.host(language), command: commands[language], log: log}
		if err := client.start(); err != nil {
			return c, err
		}
		c.clients = append(c.clients, client)
	}
	return c, c.awaitLocks(ctx, 40*time.Second)
}

// awaitLocks waits until every resource can be locked through every redlockd. An error has what the last attempts met.
func (c *cluster) awaitLocks(ctx context.Context, atMost time.Duration) error {
	began := time.Now()
	deadline := began.Add(atMost)
	var met []string
	for _, r := range c.redlockds {
		conn := c.connect(r)
		defer conn.Close()
		for i := 0; i < resources; {
			name := fmt.Sprint("r", i)
			parts, err := conn.Do(ctx, "LOCK", name, 1000, "WAIT", 1000).Slice()
			granted := err == nil && len(parts) > 0
			if granted {
				err = conn.Do(ctx, "UNLOCK", name, parts[0]).Err()
			}
			if granted && err == nil {
				i++
				continue
			}
			why := "held by another"
			if err != nil && !errors.Is(err, redis.Nil) {
				why = clip(err.Error(), 400)
			}
			if entry := fmt.Sprintf("%s through %s: %s", name, r.host.name, why); len(met) == 0 || !strings.HasSuffix(met[len(met)-1], entry) {
				met = append(met, fmt.Sprintf("%.1f s: %s", time.Since(began).Seconds(), entry))
			}
			if time.Now().After(deadline) || ctx.Err() != nil {
				return fmt.Errorf("%s cannot be locked through %s within %v: %s", name, r.host.name, atMost, strings.Join(met[max(0, len(met)-10):], "; "))
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}

// dump writes into the log who holds what, and who is connected, for people who ask why a lock cannot be taken.
func (c *cluster) dump(ctx context.Context) {
	for _, r := range c.redlockds {
		conn := c.connect(r)
		defer conn.Close()
		for _, command := range [][]any{{"LOCKS", "ALL"}, {"CLIENT", "LIST"}} {
			said, err := conn.Do(ctx, command...).Result()
			fmt.Fprintf(c.log, "%s: %v: %v %v\n", r.host.name, command, said, err)
		}
	}
}

// connect is an operator's connection to a redlockd.
func (c *cluster) connect(r *redlockd) *redis.Client {
	return redis.NewClient(&redis.Options{
		Dialer: func(_ context.Context, _, addr string) (conn net.Conn, err error) {
			err = c.operator.do(func() error {
				conn, err = net.DialTimeout("tcp", addr, time.Second)
				return err
			})
			return conn, err
		},
		Addr: r.addr, MaxRetries: -1, Protocol: 2,
	})
}

// keysLeft waits until no master has a lock left, and says which has.
func (c *cluster) keysLeft(ctx context.Context, atMost time.Duration) error {
	deadline := time.Now().Add(atMost)
	for _, m := range c.allMasters() {
		for {
			var left []string
			keys, err := m.admin.Keys(ctx, "*").Result()
			for _, key := range keys {
				if !strings.HasPrefix(key, "redlockd:") {
					left = append(left, key)
				}
			}
			if err == nil && len(left) == 0 {
				break
			}
			if time.Now().After(deadline) || ctx.Err() != nil {
				return fmt.Errorf("%s still has the keys %v: %v", m.host.name, left, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}

// close ends everything.
func (c *cluster) close() {
	for _, client := range c.clients {
		client.kill()
	}
	for _, r := range c.redlockds {
		r.signal(syscall.SIGKILL)
		r.wait(10 * time.Second)
	}
	for _, m := range c.allMasters() {
		m.close()
	}
	if c.register != nil {
		c.register.Close()
	}
	if c.network != nil {
		c.network.close()
	}
}
