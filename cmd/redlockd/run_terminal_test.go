package main

// Goal: on a terminal, redlockd run does not stand between the terminal and the command. Method: a
// pseudo-terminal, written to as its user would type.

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal returns what the user holds, and what programs see.
func openTerminal(t *testing.T) (user, terminal *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return user, terminal
}

// startOn starts a command on a terminal, and kills it where it does not end.
func startOn(t *testing.T, terminal *os.File, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timeout := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	t.Cleanup(func() { timeout.Stop() })
}

func TestRunOnATerminal(t *testing.T) {
	_, run := runMasters(t)
	user, terminal := openTerminal(t)
	cmd := patient(exec.Command(binary(t), with(run, "r", "--", "sh", "-c",
		`trap 'n=$((n+1)); echo INT $n' INT; trap 'echo USR1' USR1; trap 'echo TERM; exit 6' TERM; read line; echo "read $line"; while :; do sleep 0.01; done`)...))
	startOn(t, terminal, cmd)
	terminal.Close()
	lines := bufio.NewScanner(user)
	var said []string
	wait := func(text string) {
		t.Helper()
		for lines.Scan() {
			said = append(said, strings.TrimSpace(lines.Text()))
			if said[len(said)-1] == text {
				return
			}
		}
		t.Fatalf("the terminal is closed, without %q; it said %q", text, said)
	}
	const ctrlC = "\x03"
	// A command in the background could not read.
	user.WriteString("hello\n")
	wait("read hello")
	// The terminal sends it to both, so redlockd does not pass it on: not when what came after it is
	// passed on.
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Process.Signal(syscall.SIGUSR1)
	wait("USR1")
	user.WriteString(ctrlC)
	wait("^CINT 1")
	cmd.Process.Signal(syscall.SIGTERM)
	wait("TERM")
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 6 {
		t.Errorf("got %v, want exit status 6", cmd.ProcessState)
	}
}
