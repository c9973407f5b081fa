package main

// The driver's side of a client program. There is one program for each language, on a host of its own. It carries out
// calls and says how they ended, each with CLOCK_MONOTONIC before and after: one line of JSON down, one line of JSON up. What is called
// and when is decided in workload.go, for all languages alike.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// callTimeout is the patience of a client with one call.
const callTimeout = 3 * time.Second

// call is one call of a session. To is the index of a server in the list that the program got.
type call struct {
	ID      int64    `json:"id"`
	Session int      `json:"session"`
	To      int      `json:"to"`
	Op      string   `json:"op"` // do: a command; obtain, extend, release: those of the lock library; close: the connection
	Args    []string `json:"args"`
}

// answer is how a call ended. Without a reply and an error: null. Without an End: nobody knows, the program is gone.
type answer struct {
	ID    int64  `json:"id"`
	Start int64  `json:"start"`
	End   int64  `json:"end"`
	Reply any    `json:"reply,omitempty"`
	Error string `json:"error,omitempty"`
}

func (a answer) gone() bool { return a.End == 0 }

// client is a client program, which a fault may kill and start again.
type client struct {
	host    *host
	command []string
	log     io.Writer
	ready   string // what it says about its libraries
	nextID  atomic.Int64

	mu      sync.Mutex
	process *exec.Cmd // nil: killed
	stdin   io.WriteCloser
	waiting map[int64]chan answer
	ended   chan struct{}
}

// start runs the program and returns when it is ready.
func (c *client) start() error {
	process := exec.Command(c.command[0], c.command[1:]...)
	process.Stderr = c.log
	process.SysProcAttr = childAttributes()
	stdin, err := process.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.host.do(process.Start); err != nil {
		return fmt.Errorf("start the client %s: %w", c.host.name, err)
	}
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	var hello struct{ Ready string }
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &hello) != nil || hello.Ready == "" {
		process.Process.Kill()
		process.Wait()
		return fmt.Errorf("the client %s said %q, want that it is ready; servers.log may have more", c.host.name, lines.Text())
	}
	ended := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready, c.process, c.stdin, c.waiting, c.ended = hello.Ready, process, stdin, map[int64]chan answer{}, ended
	go func() {
		defer close(ended)
		for lines.Scan() {
			var a answer
			if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
				fmt.Fprintf(c.log, "client %s: %v: %s\n", c.host.name, err, lines.Text())
				continue
			}
			c.mu.Lock()
			reply := c.waiting[a.ID]
			delete(c.waiting, a.ID)
			c.mu.Unlock()
			if reply != nil {
				reply <- a
			}
		}
		process.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.process == process {
			c.process = nil
		}
		for _, reply := range c.waiting {
			reply <- answer{}
		}
		c.waiting = nil
	}()
	return nil
}

// call has the program carry out a call and waits for its end, however long the program stands still.
func (c *client) call(l call) answer {
	l.ID = c.nextID.Add(1)
	reply := make(chan answer, 1)
	line, _ := json.Marshal(l)
	c.mu.Lock()
	if c.process == nil || c.waiting == nil {
		c.mu.Unlock()
		return answer{}
	}
	c.waiting[l.ID] = reply
	c.stdin.Write(append(line, '\n')) // if it is gone, its end answers
	c.mu.Unlock()
	return <-reply
}

func (c *client) signal(s syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return errors.New(c.host.name + " does not run")
	}
	return c.process.Process.Signal(s)
}

// kill ends the program and waits until it has ended.
func (c *client) kill() {
	c.mu.Lock()
	ended := c.ended
	if c.process != nil {
		c.process.Process.Kill()
	}
	c.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// childAttributes: Ctrl-C reaches this program alone, and the kernel ends a child when this program ends without a word.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// languages are those of the clients, a program each.
var languages = []string{"go", "python", "node", "java"}

// clientCommands are the programs of some languages, or an error that says what is missing. scratch is for what is compiled.
func clientCommands(wanted []string, top, scratch, addresses string) (map[string][]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	installed, scripts := top+"/cmd/redlockd/testdata/libraries/build/", top+"/bench/torture/"
	for _, language := range wanted {
		if _, err := os.Stat(installed + language + "/stamp"); language != "go" && err != nil {
			return nil, fmt.Errorf("the client in %s is not installed: run `make bench-libraries` (%w)", language, err)
		}
	}
	ms := fmt.Sprint(callTimeout.Milliseconds())
	jars := installed + "java/lib/*"
	if slices.Contains(wanted, "java") {
		// Each process of an hour would compile it again.
		compile := exec.Command("javac", "-proc:none", "-d", scratch, "-cp", jars, scripts+"Client.java")
		if out, err := compile.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("compile the client in java: %w\n%s", err, out)
		}
	}
	return map[string][]string{
		"go":     {self, clientCommand, addresses, ms},
		"python": {installed + "python/current/bin/python", scripts + "client.py", addresses, ms},
		"node":   {installed + "node/node", scripts + "client.js", installed + "node", addresses, ms},
		"java":   {"java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", scratch + ":" + jars, "Client", addresses, ms},
	}, nil
}
