package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// generator is the parent's side of one load generator process. See load.go for what the two say to each other.
type generator struct {
	process *exec.Cmd
	words   io.WriteCloser
	lines   chan string // what the child says, closed at its end
	stderr  bytes.Buffer
}

// childGrace is what a child gets on top of its own duration before it counts as stuck.
const childGrace = 30 * time.Second

// startGenerator starts a load generator and returns when it is connected and warmed up. Close it in any case.
// The end of ctx kills it.
func startGenerator(ctx context.Context, spec loadSpec) (*generator, error) {
	program, arguments := spec.program, spec.arguments
	if len(arguments) == 0 {
		arguments = []string{loadCommand}
	}
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program to start its load generator: %w", err)
		}
		program = self
	}
	g := &generator{process: exec.CommandContext(ctx, program, arguments...), lines: make(chan string, 4)}
	g.process.SysProcAttr = childAttributes()
	g.process.Stderr = &g.stderr
	var err error
	if g.words, err = g.process.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start the load generator: %w", err)
	}
	stdout, err := g.process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the load generator: %w", err)
	}
	if err := g.process.Start(); err != nil {
		return nil, fmt.Errorf("start the load generator: %w", err)
	}
	go func() {
		defer close(g.lines)
		scanner := bufio.NewScanner(stdout)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			g.lines <- scanner.Text()
		}
	}()
	if err := json.NewEncoder(g.words).Encode(spec); err != nil {
		g.close()
		return nil, fmt.Errorf("give the load generator its spec: %w%s", err, g.lastWords())
	}
	if err := g.await(ctx, sayReady, spec.Warmup+childGrace); err != nil {
		g.close()
		return nil, fmt.Errorf("warming up: %w", err)
	}
	return g, nil
}

// childAttributes puts a child into a process group of its own, so that Ctrl-C reaches the bench alone and the bench
// ends its children in order; and has the kernel end the child when the bench dies without a word.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// say sends the child a word.
func (g *generator) say(word string) error {
	if _, err := fmt.Fprintln(g.words, word); err != nil {
		return fmt.Errorf("tell the load generator %q: %w%s", word, err, g.lastWords())
	}
	return nil
}

// await returns when the child says the word; an error when it says another, ends, or takes longer than atMost.
func (g *generator) await(ctx context.Context, word string, atMost time.Duration) error {
	line, err := g.next(ctx, atMost)
	if err != nil {
		return err
	}
	if line != word {
		return fmt.Errorf("load generator: it said %q, want %q", line, word)
	}
	return nil
}

// figures reads what the child measured.
func (g *generator) figures(ctx context.Context, into any) error {
	line, err := g.next(ctx, childGrace)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(line), into); err != nil {
		return fmt.Errorf("read the load generator's figures: %w", err)
	}
	return nil
}

func (g *generator) next(ctx context.Context, atMost time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	select {
	case line, open := <-g.lines:
		if !open {
			return "", fmt.Errorf("load generator: it ended too early%s", g.lastWords())
		}
		return line, nil
	case <-ctx.Done():
		return "", fmt.Errorf("load generator: it said nothing for %v: %w", atMost, ctx.Err())
	}
}

// lastWords is what the child wrote to stderr, ready to be appended to an error. It ends the child: only then is the
// text complete.
func (g *generator) lastWords() string {
	g.close()
	if text := strings.TrimSpace(g.stderr.String()); text != "" {
		return ": " + text
	}
	return ""
}

// close ends the child and waits for its end. It may be called again.
func (g *generator) close() {
	if g.process.ProcessState != nil {
		return
	}
	g.words.Close()
	g.process.Process.Kill()
	for range g.lines { // a reader must have taken everything before Wait closes the pipe
	}
	g.process.Wait()
}
