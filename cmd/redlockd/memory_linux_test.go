package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// inMemory returns a program that runs redlockd where the kernel gives it so many bytes, as a container's limit does: in a control group of either version.
// Where none can be made, GOMEMLIMIT is what redlockd would take from it. check compares the peak with the limit, and a quarter more: the kernel's group does
// not count pages of the program's file.
func inMemory(t *testing.T, limit int64) (path string, check func(*program)) {
	t.Helper()
	enter := func(dir string) (entered string, ok bool) {
		os.WriteFile(filepath.Join(filepath.Dir(dir), "cgroup.subtree_control"), []byte("+memory"), 0o644) // version 2
		if os.Mkdir(dir, 0o755) != nil {
			return "", false
		}
		t.Cleanup(func() { os.Remove(dir) })
		for _, name := range []string{"memory.max", "memory.limit_in_bytes"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return fmt.Sprintf("echo %d > %s/%s && echo $$ > %s/cgroup.procs", limit, dir, name, dir), true
			}
		}
		return "", false
	}
	set := fmt.Sprintf("export GOMEMLIMIT=%d", limit*9/10)
	for _, root := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"} {
		if entered, ok := enter(filepath.Join(root, fmt.Sprintf("redlockd-test-%d", os.Getpid()))); ok {
			set = entered
			break
		}
	}
	path = filepath.Join(t.TempDir(), "redlockd")
	writeFile(t, path, "#!/bin/sh\n"+set+" && exec "+binary(t)+" \"$@\"\n", 0o755)
	return path, func(p *program) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(status))
		if peak, _ := strconv.Atoi(fields[slices.Index(fields, "VmHWM:")+1]); int64(peak)<<10 > limit+limit/4 {
			t.Errorf("redlockd took %d KB, the limit is %d", peak, limit>>10)
		}
	}
}

// A redlockd that a container gives little memory lowers what clients may take, and lives through floods of clients; others have their locks meanwhile.
func TestSmallContainer(t *testing.T) {
	path, check := inMemory(t, 64<<20)
	_, addrs := startMasters(t, 3)
	half := "*2\r\n$4\r\nECHO\r\n$20000\r\n" + strings.Repeat("x", 15_000)
	echo := "*2\r\n$4\r\nECHO\r\n$20000\r\n" + strings.Repeat("x", 20_000) + "\r\n"
	var waits strings.Builder
	for i := range 100 {
		fmt.Fprintf(&waits, "LOCK flood 60s WAIT 60s TOKEN t%d\r\n", i)
	}
	for name, flood := range map[string]struct {
		clients int
		send    string
	}{
		"half commands":      {3310, half},
		"unread replies":     {3000, strings.Repeat(echo, 60)},
		"many clients":       {6000, "PING\r\n"},
		"waits in pipelines": {1500, waits.String()},
	} {
		t.Run(name, func(t *testing.T) {
			p := listen(t, path, "--masters", addrs, "--bootstrap")
			p.waitLog("quorum reached")
			if p.waitLog(`"msg":"memory is limited"`); !strings.Contains(p.log(), `"memory_limit":60`) {
				t.Errorf("the limit that it knows is not nine tenths of %d:\n%s", 64<<20, p.log())
			}
			p.waitLog(`"msg":"the limit of memory lowers what clients may take"`)
			good := p.dial()
			good.lock("before", "x")
			var flooders sync.WaitGroup
			for range flood.clients {
				conn, err := net.Dial("tcp", p.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
				flooders.Go(func() { conn.Write([]byte(flood.send)) })
			}
			good.lock("during", "x")
			flooders.Wait()
			good.lock("after", "x")
			check(p)
		})
	}
}
