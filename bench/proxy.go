package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// proxyProgram is a redlockd binary and how to run it.
type proxyProgram struct {
	path    string
	environ []string // on top of ours: GOMAXPROCS, GOGC; see settingsOf
	log     *os.File // what its processes print, one after another
	login   string   // name of a user whose password is "secret"; empty: nobody has to log in
}

// findProxy takes the redlockd that the flags name, or builds the one beside this bench into the directory scratch. It builds it
// in redlockd's own module: in this one, another version of a dependency could be in it than in what users run.
func findProxy(ctx context.Context, o options, scratch string, log *os.File) (*proxyProgram, error) {
	program := &proxyProgram{path: o.redlockd, log: log}
	if o.gomaxprocs != "" {
		program.environ = append(program.environ, "GOMAXPROCS="+o.gomaxprocs)
	}
	if o.gogc != "" {
		program.environ = append(program.environ, "GOGC="+o.gogc)
	}
	if program.path != "" {
		return program, nil
	}
	program.path = filepath.Join(scratch, "redlockd")
	top, err := productDir(ctx)
	if err != nil {
		return nil, fmt.Errorf("find redlockd's module (run the bench in its directory, or give --redlockd): %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", program.path, "./cmd/redlockd")
	build.Dir = top
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build redlockd: %w\n%s", err, out)
	}
	return program, nil
}

// productDir is the directory of redlockd's module.
func productDir(ctx context.Context) (string, error) {
	top, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "redlockd").Output()
	return strings.TrimSpace(string(top)), err
}

// proxy is one redlockd process, or the floor in the place of one.
type proxy struct {
	addr    string
	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended and was waited for
}

// proxyStart bounds the time until a fresh redlockd grants its first lock.
const proxyStart = 15 * time.Second

// vouch says that the masters are new, and which settings hold there. Otherwise the first redlockd over them would wait for as long as
// a lock that they have forgotten could live.
func (p *proxyProgram) vouch(ctx context.Context, masters []string) error {
	process := exec.CommandContext(ctx, p.path, "bootstrap", "--masters", strings.Join(masters, ","))
	process.Env = append(os.Environ(), p.environ...)
	if output, err := process.CombinedOutput(); err != nil {
		return fmt.Errorf("redlockd bootstrap: %w: %s", err, bytes.TrimSpace(output))
	}
	return nil
}

// with is the same program with more variables, "NAME=value", in its environment.
func (p *proxyProgram) with(environ ...string) *proxyProgram {
	other := *p
	other.environ = slices.Concat(p.environ, environ)
	return &other
}

// start runs redlockd over masters that were vouched for and returns when it grants locks.
func (p *proxyProgram) start(ctx context.Context, masters []string) (*proxy, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return p.startAt(ctx, addr, masters)
}

func (p *proxyProgram) startAt(ctx context.Context, addr string, masters []string) (*proxy, error) {
	process := exec.Command(p.path, "--listen", addr+",unix:"+socketOf(addr), "--masters", strings.Join(masters, ","))
	process.Env = append(os.Environ(), p.environ...)
	return startProxy(ctx, process, addr, p.login, p.log)
}

// socketOf is the unix socket of the redlockd that listens at addr.
func socketOf(addr string) string {
	return filepath.Join(os.TempDir(), "redlockd-bench-"+addr[strings.LastIndexByte(addr, ':')+1:]+".sock")
}

// startProxy returns when the program that listens at addr grants locks. What it prints goes to log.
func startProxy(ctx context.Context, process *exec.Cmd, addr, login string, log *os.File) (*proxy, error) {
	name := filepath.Base(process.Path)
	process.Stdout, process.Stderr = log, log
	process.SysProcAttr = childAttributes()
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	started := &proxy{addr: addr, process: process, ended: make(chan struct{})}
	go func() {
		process.Wait()
		close(started.ended)
	}()
	if err := started.awaitGrant(ctx, login); err != nil {
		started.close()
		return nil, fmt.Errorf("%s at %s: %w; its log, %s, ends with: %s", name, addr, err, log.Name(), lastLine(log.Name()))
	}
	return started, nil
}

// awaitGrant locks and unlocks until it works: that the port answers is not yet that the masters were admitted.
func (p *proxy) awaitGrant(ctx context.Context, login string) error {
	ctx, cancel := context.WithTimeout(ctx, proxyStart)
	defer cancel()
	if err := awaitListening(ctx, p.pid(), p.addr, p.ended); err != nil {
		return err
	}
	t := newRedlockdTarget(p.addr, 1, false, login)
	defer t.close()
	c := t.newCaller()
	for {
		err := c.acquire(ctx, "bench:ready")
		if err == nil {
			err = c.release(ctx)
		}
		select {
		case <-p.ended:
			return errors.New("it ended at once")
		default:
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no lock granted within %v, the last answer was: %w", proxyStart, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// close asks it to end, and makes it after three seconds.
func (p *proxy) close() {
	p.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(3 * time.Second):
		p.process.Process.Kill()
		<-p.ended
	}
}

func (p *proxy) pid() int { return p.process.Process.Pid }

// lastLine of a text file.
func lastLine(path string) string {
	lines := strings.Split(readFile(path), "\n")
	return lines[len(lines)-1]
}

func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer ln.Close()
	return "127.0.0.1:" + strconv.Itoa(ln.Addr().(*net.TCPAddr).Port), nil
}
