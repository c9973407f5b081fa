package main

import (
	"bufio"
	"bytes"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// Goal: however the bench ends early, none of its processes stays, and after Ctrl-C no file either. Method: the whole
// program in a directory of its own, a signal in the middle of a cell; a process that works below that directory afterwards is left over.
func TestInterruptedRunLeavesNothing(t *testing.T) {
	b := builtBench(t)
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, os.Kill} {
		t.Run(sig.String(), func(t *testing.T) {
			dir := t.TempDir()
			var stderr bytes.Buffer
			run := exec.Command(os.Args[0], wholeBench, "--redlockd", b.program.path, "--scenarios", "uncontended",
				"--targets", "redlockd", "--callers", "2", "--duration", "1m", "--out", t.TempDir())
			run.Dir, run.Env = dir, append(os.Environ(), "TMPDIR="+dir)
			out, err := run.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for lines.Scan() && !strings.Contains(lines.Text(), "[1/") {
				stderr.WriteString(lines.Text())
			}
			// The bench, five masters, redlockd and the load generator.
			await(t, "its processes run: "+stderr.String(), func() bool { return len(worksBelow(dir)) >= 8 })
			if err := run.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			for lines.Scan() {
				stderr.WriteString(lines.Text())
			}
			err = run.Wait()
			if sig == os.Kill {
				await(t, "the kernel ended its children", func() bool { return len(worksBelow(dir)) == 0 })
				return
			}
			if err == nil || !strings.Contains(stderr.String(), "interrupted, no report written") {
				t.Errorf("got %v, %q, want a failure that says interrupted", err, stderr.String())
			}
			if left := worksBelow(dir); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
			if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
				t.Errorf("left over: %v (%v)", files, err)
			}
		})
	}
}

// worksBelow lists the processes whose working directory is dir or below.
func worksBelow(dir string) []string {
	var found []string
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, dir) {
			found = append(found, readFile(filepath.Join(filepath.Dir(link), "comm")))
		}
	}
	return found
}

// await polls until the condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("20s passed, and not yet: %s", what)
		}
	}
}

// Goal: a port that somebody else has is refused, and its owner gets not one byte. Method: a listener of this test in
// the place of redlockd's, then of etcd's.
func TestBusyPortIsRefused(t *testing.T) {
	b := builtBench(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	visited := make(chan struct{})
	go func() {
		if conn, err := taken.Accept(); err == nil {
			conn.Close()
			close(visited)
		}
	}()
	c, err := startCluster(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	_, err = b.program.startAt(t.Context(), taken.Addr().String(), redisproc.Addrs(c.masters))
	wantErr(t, err, "another process listens on its port")
	if _, missing := exec.LookPath(etcdProgram); missing == nil {
		_, err = startEtcdAt(t.Context(), taken.Addr().String(), b.log)
		wantErr(t, err, "another process listens on its port")
	}
	select {
	case <-visited:
		t.Error("somebody connected to the listener that is not ours")
	default:
	}
}

func TestListenerAt(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:18EC 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000 100 0 0 10 0
   1: 0100007F:18ED 0100007F:18EC 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000 20 4 30 10 -1
`
	for at, want := range map[string]string{"127.0.0.1:6380": "4711", "127.0.0.1:6381": "", "127.0.0.2:6380": ""} {
		if got := listenerAt(table, netip.MustParseAddrPort(at)); got != want {
			t.Errorf("%s: got %q, want %q", at, got, want)
		}
	}
}
