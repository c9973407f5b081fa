package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// etcdServer is one etcd process, a cluster of one node, with its data in a directory of its own.
type etcdServer struct {
	addr    string
	dir     string
	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended and was waited for
}

const etcdProgram = "etcd"

// etcdStart bounds the time until a fresh etcd answers.
const etcdStart = 15 * time.Second

// startEtcd returns when the server is healthy. What it prints goes to log.
func startEtcd(ctx context.Context, log *os.File) (*etcdServer, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return startEtcdAt(ctx, addr, log)
}

func startEtcdAt(ctx context.Context, addr string, log *os.File) (_ *etcdServer, err error) {
	e := &etcdServer{addr: addr, ended: make(chan struct{})}
	if e.dir, err = os.MkdirTemp("", "redlockd-bench-etcd-"); err != nil {
		return nil, fmt.Errorf("make a directory for etcd: %w", err)
	}
	peers, err := freeAddr()
	if err != nil {
		os.RemoveAll(e.dir)
		return nil, err
	}
	e.process = exec.Command(etcdProgram, "--name", "bench", "--data-dir", e.dir,
		"--listen-client-urls", "http://"+e.addr, "--advertise-client-urls", "http://"+e.addr,
		"--listen-peer-urls", "http://"+peers, "--initial-advertise-peer-urls", "http://"+peers,
		"--initial-cluster", "bench=http://"+peers, "--log-level", "error")
	e.process.Stdout, e.process.Stderr = log, log
	e.process.SysProcAttr = childAttributes()
	if err := e.process.Start(); err != nil {
		os.RemoveAll(e.dir)
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	go func() {
		e.process.Wait()
		close(e.ended)
	}()
	if err := e.awaitHealth(ctx); err != nil {
		e.close()
		return nil, fmt.Errorf("etcd at %s: %w; see %s", e.addr, err, log.Name())
	}
	return e, nil
}

func (e *etcdServer) awaitHealth(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, etcdStart)
	defer cancel()
	if err := awaitListening(ctx, e.process.Process.Pid, e.addr, e.ended); err != nil {
		return err
	}
	for !e.answers(ctx) {
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("not healthy within %v: %w", etcdStart, err)
		}
	}
	return nil
}

func (e *etcdServer) answers(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.addr+"/health", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// close ends the process, whose data nobody needs.
func (e *etcdServer) close() {
	e.process.Process.Kill()
	<-e.ended
	os.RemoveAll(e.dir)
}
