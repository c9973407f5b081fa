package main

// The processes of TestLibraries, and what is said to them and by them.

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stepPatience bounds one answer of a program, its start included: a JVM on a busy machine takes its
// time.
const stepPatience = time.Minute

// dialogue is what was said in a trial, for the reader of a failed test.
type dialogue struct {
	t     *testing.T
	mu    sync.Mutex
	lines []string
}

func (d *dialogue) say(who, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, who+" "+text)
}

func (d *dialogue) stage(name string) { d.say("##", name) }

func (d *dialogue) print() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.t.Failed() {
		d.t.Logf("the dialogue:\n%s", strings.Join(d.lines, "\n"))
	}
}

// player is a running program that takes commands on its standard input, and answers each with a line:
// one with one lock of one library, or a redis-cli.
type player struct {
	*dialogue
	name    string
	cmd     *exec.Cmd
	stdin   *os.File
	answers chan string
	// patience bounds one answer.
	patience time.Duration

	complained chan struct{} // closed when its standard error has ended
}

// enter starts the program of a library and waits until it is connected.
func (d *dialogue) enter(name string, lib library, addr string) *player {
	d.t.Helper()
	dir, err := filepath.Abs(librariesDir)
	if err != nil {
		d.t.Fatal(err)
	}
	places := strings.NewReplacer("BUILD", filepath.Join(dir, "build", lib.language), "SOURCE", filepath.Join(dir, lib.language))
	args := strings.Fields(lib.command)
	for i := range args {
		args[i] = places.Replace(args[i])
	}
	args = append(args, strings.Split(addr, ":")...)
	args = append(args, lib.name)
	p := d.start(name, exec.Command(args[0], args[1:]...))
	if answer := p.answer(); !strings.HasPrefix(answer, "ready ") { // and the versions of its libraries
		d.t.Fatalf("%s: got %q, want ready …", name, answer)
	}
	return p
}

// start starts a program.
func (d *dialogue) start(name string, cmd *exec.Cmd) *player {
	d.t.Helper()
	p := &player{dialogue: d, name: name, cmd: cmd, patience: stepPatience, answers: make(chan string, 1), complained: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdinRead, stdin, err := os.Pipe()
	if err != nil {
		d.t.Fatal(err)
	}
	p.cmd.Stdin, p.stdin = stdinRead, stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		d.t.Fatalf("%s: %v", name, err)
	}
	stdinRead.Close()
	var readers sync.WaitGroup
	readers.Go(func() {
		defer close(p.complained)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			d.say(name+"!", lines.Text())
		}
	})
	readers.Go(func() {
		defer close(p.answers)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			d.say(name+"<", lines.Text())
			p.answers <- lines.Text()
		}
	})
	d.t.Cleanup(func() {
		stdin.Close()
		p.cmd.Process.Kill()
		for range p.answers { // so that the reader ends
		}
		readers.Wait()
		p.cmd.Wait()
	})
	return p
}

func (p *player) send(command string) {
	p.t.Helper()
	p.say(p.name+">", command)
	if _, err := fmt.Fprintln(p.stdin, command); err != nil {
		p.t.Fatalf("%s %s: %v", p.name, command, err)
	}
}

func (p *player) answer() string {
	p.t.Helper()
	select {
	case answer, ok := <-p.answers:
		if !ok {
			p.t.Fatalf("%s has ended", p.name)
		}
		return answer
	case <-time.After(p.patience):
		p.t.Fatalf("%s: no answer within %v", p.name, p.patience)
		return ""
	}
}

func (p *player) ask(command string) string {
	p.t.Helper()
	p.send(command)
	return p.answer()
}

// want ends the test on another answer: what follows would make no sense.
func (p *player) want(command, want string) {
	p.t.Helper()
	if got := p.ask(command); got != want {
		p.t.Fatalf("%s %s: got %q, want %q", p.name, command, got, want)
	}
}

func (p *player) wantAnswer(want string) {
	p.t.Helper()
	if got := p.answer(); got != want {
		p.t.Fatalf("%s: got %q, want %q", p.name, got, want)
	}
}

// wantNoAnswer waits for so long.
func (p *player) wantNoAnswer(within time.Duration) {
	p.t.Helper()
	select {
	case got := <-p.answers:
		p.t.Fatalf("%s: got %q while the lock is held, want no answer yet", p.name, got)
	case <-time.After(within):
	}
}

func (p *player) wantError(command, text string) {
	p.t.Helper()
	got := p.ask(command)
	if !strings.HasPrefix(got, "error ") || !strings.Contains(strings.ToLower(got), text) {
		p.t.Errorf("%s %s: got %q, want an error with %q in it", p.name, command, got, text)
	}
}

// eventually asks again until the answer is the wanted one.
func (p *player) eventually(command, want string) {
	p.t.Helper()
	until(p.t, p.name+" "+command+": "+want, func() bool { return p.ask(command) == want })
}

// wantKnown is want right behind a fault: it asks again while the answer is an error, which says that
// nobody knows who holds the lock.
func (p *player) wantKnown(command, want string) {
	p.t.Helper()
	got := p.ask(command)
	for end := time.Now().Add(stepPatience); strings.HasPrefix(got, "error ") && time.Now().Before(end); got = p.ask(command) {
		time.Sleep(50 * time.Millisecond)
	}
	if got != want {
		p.t.Fatalf("%s %s: got %q, want %q", p.name, command, got, want)
	}
}

func (p *player) freeze() { p.signal(syscall.SIGSTOP, "stands still") }

func (p *player) thaw() { p.signal(syscall.SIGCONT, "goes on") }

func (p *player) signal(signal syscall.Signal, what string) {
	p.t.Helper()
	p.say(p.name, what)
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}
