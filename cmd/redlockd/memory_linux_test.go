package main

import (
	"crypto/tls"
	"fmt"
	"io"
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

// A redlockd that a container gives little memory lowers what clients may take, and lives through floods of all that it keeps for clients; others have their
// locks meanwhile.
func TestSmallContainer(t *testing.T) {
	path, check := inMemory(t, 64<<20)
	_, addrs := startMasters(t, 3)
	dir := t.TempDir()
	writeGoodCertificate(t, dir, 1)
	const users = "[auth]\nusers = [{name = \"flood\", password = \"f\"}, {name = \"good\", password = \"g\"}]\n"
	writeFile(t, dir+"/plain.toml", users, 0o600)
	writeFile(t, dir+"/tls.toml", fmt.Sprintf(users+"[server]\ntls_cert = \"%[1]s/cert.pem\"\ntls_key = \"%[1]s/key.pem\"\n", dir), 0o600)
	command := func(words ...string) string {
		text := fmt.Sprintf("*%d\r\n", len(words))
		for _, word := range words {
			text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
		}
		return text
	}
	many := func(n int, command func(i int) string) string {
		var all strings.Builder
		for i := range n {
			all.WriteString(command(i))
		}
		return all.String()
	}
	login := command("AUTH", "flood", "f")
	x := strings.Repeat("x", 20_000)
	for name, flood := range map[string]struct {
		clients int
		send    string
		config  string
	}{
		"half commands":      {3310, command("ECHO", x)[:15_000], "plain"},
		"unread replies":     {3000, strings.Repeat(command("ECHO", x), 60), "plain"},
		"many clients":       {6000, command("PING"), "plain"},
		"waits in pipelines": {1500, many(100, func(i int) string { return command("LOCK", "flood", "60s", "WAIT", "60s", "TOKEN", fmt.Sprint(i)) }), "plain"},
		"locks in pipelines": {1500, many(2000, func(i int) string { return command("LOCK", fmt.Sprint(i, x[:900]), "2s") }), "plain"},
		"queued commands":    {1500, command("MULTI") + strings.Repeat(command("SET", "k", x, "PX", "10000"), 48), "plain"},
		"channels":           {3000, many(60, func(i int) string { return command("SUBSCRIBE", fmt.Sprint(i, x[:1000])) }), "plain"},
		"scripts":            {500, command("EVAL", "local t = {} for i = 1, 1e6 do t[i] = string.rep('x' .. i, 1e5) end return #t", "0"), "plain"},
		"half handshakes":    {6000, "\x16\x03\x01\x3f\xff\x01\x00\x40\x00" + x[:15_000], "tls"}, // a record of 16 KB, whose end does not come
	} {
		t.Run(name, func(t *testing.T) {
			p := listen(t, path, "--config", dir+"/"+flood.config+".toml", "--masters", addrs, "--bootstrap")
			p.waitLog("quorum reached")
			if p.waitLog(`"msg":"memory is limited"`); !strings.Contains(p.log(), `"memory_limit":60`) {
				t.Errorf("the limit that it knows is not nine tenths of %d:\n%s", 64<<20, p.log())
			}
			p.waitLog(`"msg":"the limit of memory lowers what clients may take"`)
			conn, err := net.Dial("tcp", p.addr)
			if err != nil {
				t.Fatal(err)
			}
			if flood.config == "tls" {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			}
			good := newWire(t, conn)
			good.want("AUTH good g", "OK")
			good.lock("before", "x")
			var flooders sync.WaitGroup
			for range flood.clients {
				conn, err := net.Dial("tcp", p.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
				flooders.Go(func() {
					if flood.config == "plain" {
						io.WriteString(conn, login)
						conn.SetReadDeadline(time.Now().Add(2 * time.Second))
						conn.Read(make([]byte, 5))
					}
					io.WriteString(conn, flood.send)
				})
			}
			good.lock("during", "x")
			flooders.Wait()
			good.lock("after", "x")
			check(p)
		})
	}
}
