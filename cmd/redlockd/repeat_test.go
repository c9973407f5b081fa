package main

// Goal: libraries.md says which library sends a command once more by which error, and that is safe. Method: each library, as published, behind a
// relay that answers its first command for the lock with the error, without executing it.

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"redlockd/redlock/redisproc"
)

// relay passes commands on to a server, but answers the next one of a lock with refusal, if that is not empty.
type relay struct {
	net.Listener
	server  string
	refusal atomic.Pointer[string]
	locks   atomic.Int32 // how often a command of a lock was passed on or refused
}

func newRelay(t *testing.T, server string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, server: server}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return r
}

func (r *relay) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		io.Copy(client, server)
		client.Close()
	}()
	for in := bufio.NewReader(client); ; {
		name, whole, err := readCommand(in)
		if err != nil {
			return
		}
		if name = strings.ToLower(name); name == "set" || name == "eval" || name == "evalsha" {
			r.locks.Add(1)
			if refusal := r.refusal.Swap(nil); refusal != nil {
				fmt.Fprintf(client, "-%s\r\n", *refusal)
				continue
			}
		}
		if _, err := server.Write(whole); err != nil {
			return
		}
	}
}

// readCommand reads an array of strings.
func readCommand(in *bufio.Reader) (name string, whole []byte, err error) {
	line := func(kind byte) (n int, err error) {
		text, err := in.ReadBytes('\n')
		if err != nil || text[0] != kind {
			return 0, fmt.Errorf("%q: %w", text, err)
		}
		whole = append(whole, text...)
		return strconv.Atoi(strings.TrimSpace(string(text[1:])))
	}
	count, err := line('*')
	for i := 0; i < count && err == nil; i++ {
		var length int
		if length, err = line('$'); err != nil {
			break
		}
		text := make([]byte, length+2)
		if _, err = io.ReadFull(in, text); i == 0 {
			name = string(text[:length])
		}
		whole = append(whole, text...)
	}
	return name, whole, err
}

func TestLibrariesThatRepeat(t *testing.T) {
	redisproc.Release(t)
	needLibraries(t, "go", "node", "python", "java", "php")
	page, err := os.ReadFile("libraries.md")
	if err != nil {
		t.Fatal(err)
	}
	talk := &dialogue{t: t}
	on := startFleet(t, nil)
	for _, tt := range []struct{ name, tryagain, noquorum string }{
		{"redisson", "repeats it", "raises it"},
		{"go-redis", "repeats it", "raises it"},
		{"redislock", "repeats it", "raises it"},
		{"ioredis5", "raises it", "raises it"},
		{"node-redis", "raises it", "raises it"},
		{"redis-py", "raises it", "raises it"},
		{"jedis", "raises it", "raises it"},
		{"lettuce", "raises it", "raises it"},
		{"phpredis", "raises it", "raises it"},
		{"symfony", "raises it", "raises it"},
	} {
		if row := fmt.Sprintf("| %s | %s | %s |\n", tt.name, tt.tryagain, tt.noquorum); !strings.Contains(string(page), row) {
			t.Errorf("libraries.md has no row %s", row)
		}
		i := indexOfLibrary(tt.name)
		r := newRelay(t, on.addr)
		p := talk.enter(tt.name, libraries[i], r.Addr().String())
		for code, want := range map[string]string{"TRYAGAIN nothing was changed: 2 of 5 masters voted, 3 needed": tt.tryagain, "NOQUORUM 2 of 5 masters voted, 3 needed": tt.noquorum} {
			before := r.locks.Load()
			r.refusal.Store(&code)
			answer := p.ask(fmt.Sprintf("try repeated:%s 20000", tt.name))
			got := answer
			switch tries := r.locks.Load() - before; {
			case answer == "ok" && tries > 1:
				got = "repeats it"
			case strings.HasPrefix(answer, "error ") && tries == 1:
				got = "raises it"
			}
			if got != want {
				t.Errorf("%s behind %s: got %q with %d commands, want that it %s", tt.name, code, answer, r.locks.Load()-before, want)
			}
			if answer == "ok" {
				p.ask("release")
			}
		}
	}
	t.Cleanup(talk.print)
}

func indexOfLibrary(name string) int {
	for i := range libraries {
		if libraries[i].name == name {
			return i
		}
	}
	panic(name)
}
