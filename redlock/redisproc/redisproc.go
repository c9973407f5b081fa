// Package redisproc runs real redis-server processes for tests and for the benchmark.
//
// Each server is a child of this process, listens on a free loopback port, keeps nothing on disk unless
// asked to, and is ended by Close. Nothing here ever touches a server that it did not start.
//
// The program is redis-server, or what REDLOCK_SERVERS lists, see programs.
package redisproc

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// startTimeout bounds the wait for the first PING to be answered. Machines are slow at times.
const startTimeout = time.Minute

// Server is one redis-server process.
type Server struct {
	// Addr is where it listens, host:port. It stays the same over Kill and Restart.
	Addr string

	dir     string
	program string // see programs
	env     []string
	args    []string
	clock   *os.File // what SetClock writes to; nil: the clock is the machine's
	place   *place   // keeps Addr

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended and was waited for
	out  *bytes.Buffer
}

// programs are the servers to start, each in its turn, so that masters of several versions make one
// fleet: the paths in the environment variable REDLOCK_SERVERS, separated by commas. Empty: redis-server.
var programs = sync.OnceValue(func() []string {
	return strings.Split(cmp.Or(os.Getenv("REDLOCK_SERVERS"), "redis-server"), ",")
})

var started atomic.Int64 // counts the servers

// start runs a redis-server without persistence on a free loopback port and waits until it answers. The
// args are appended to its command line ("--appendonly", "yes", …) and win over the defaults. shim is
// for its clock, see StartClocked; empty: it has that of the machine.
func start(shim string, args []string) (*Server, error) {
	dir, err := os.MkdirTemp("", "redisproc-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for redis-server: %w", err)
	}
	s := &Server{dir: dir, program: programs()[int(started.Add(1)-1)%len(programs())], args: args}
	if shim != "" {
		if err := s.addClock(shim); err != nil {
			os.RemoveAll(dir)
			return nil, fmt.Errorf("make the clock of a redis-server: %w", err)
		}
	}
	// Who does not keep addresses as we do can take the port before the server does: try another.
	for range 5 {
		if s.place, err = keepPlace(); err != nil {
			break
		}
		s.Addr = s.place.addr
		if err = s.Restart(); err == nil {
			return s, nil
		}
		s.place.leave()
		if errors.Is(err, exec.ErrNotFound) {
			break
		}
	}
	s.clock.Close()
	os.RemoveAll(dir)
	return nil, err
}

// StartN runs n servers, which keep nothing on disk unless the args say so; on an error it leaves none.
func StartN(n int, args ...string) ([]*Server, error) {
	var all []*Server
	for range n {
		s, err := start("", args)
		if err != nil {
			for _, s := range all {
				s.Close()
			}
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Addrs lists the addresses of the servers.
func Addrs(servers []*Server) []string {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.Addr
	}
	return addrs
}

// Restart starts the process again on the same port, after Kill or when it has ended by itself. Its
// data is what its persistence kept: nothing, by default.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		return fmt.Errorf("redis-server %s is already running", s.Addr)
	}
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return err
	}
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", s.dir}, s.args...)
	cmd := exec.Command(s.program, args...)
	cmd.Env = append(os.Environ(), s.env...)
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	// The kernel ends the server when this process dies, also by a signal that runs no deferred call.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s (%s; make servers has other versions): %w", s.program, toInstall("redis-server"), err)
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	if err := waitReady(s.Addr, cmd.Process.Pid, done); err != nil {
		cmd.Process.Kill()
		<-done
		return fmt.Errorf("%s %s: %w; it said: %s", filepath.Base(s.program), s.Addr, err, lastLine(out))
	}
	s.cmd, s.done, s.out = cmd, done, out
	return nil
}

// Pid is the process id while the server runs, else 0.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Kill ends the process, if it runs, with SIGKILL, and waits for its end.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Kill()
	<-s.done
	s.cmd = nil
}

// Freeze stops the process with SIGSTOP: its connections stay open and nothing is answered until Thaw.
func (s *Server) Freeze() error { return s.signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on. Whatever reached its sockets meanwhile is executed now.
func (s *Server) Thaw() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return fmt.Errorf("redis-server %s is not running", s.Addr)
	}
	return s.cmd.Process.Signal(sig)
}

// Close ends the process, removes its directory and gives its address away.
func (s *Server) Close() {
	s.Kill()
	s.place.leave()
	s.clock.Close() // nil: nothing
	os.RemoveAll(s.dir)
}

// Dir is the server's working directory, where its persistence files are.
func (s *Server) Dir() string { return filepath.Clean(s.dir) }

// waitReady polls until the server answers PING, its process ends, or startTimeout is over. A server
// that demands a password answers NOAUTH: it is ready too.
func waitReady(addr string, pid int, ended <-chan struct{}) error {
	deadline := time.Now().Add(startTimeout)
	for {
		if ready, err := answers(addr, pid); ready || err != nil {
			return err
		}
		select {
		case <-ended:
			return errors.New("ended at once")
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no answer within %v", startTimeout)
		}
	}
}

// answers asks whether the server is ready. Somebody else can have taken the port and answer in its
// place: that is an error.
func answers(addr string, pid int) (bool, error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false, nil
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\nINFO server\r\n")); err != nil {
		return false, nil
	}
	lines := bufio.NewScanner(conn)
	switch lines.Scan(); {
	case strings.HasPrefix(lines.Text(), "-NOAUTH"):
		return true, nil
	case lines.Text() != "+PONG":
		return false, nil
	}
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "process_id:"); ok {
			if id != strconv.Itoa(pid) {
				return false, fmt.Errorf("the port is taken by process %s", id)
			}
			return true, nil
		}
	}
	return false, nil
}

func lastLine(out *bytes.Buffer) string {
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[len(lines)-1]
}
