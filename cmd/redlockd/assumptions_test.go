package main

// Goal: what the section "What is not promised" of redlock/guarantees.md says of processes is true. Its other rows are in
// redlock/assumptions_test.go, which also holds the section against the tests that it names.

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

// A client that holds a lock while its connection stands, and never sends KEEPALIVE: its redlockd
// stands still, another one grants the lock, and the client is told when its redlockd goes on.
func TestAssumeHoldersSendKEEPALIVE(t *testing.T) {
	_, addrs := startMasters(t, 3)
	p := launch(t, "--masters", addrs, "--bootstrap")
	q := launch(t, "--masters", addrs)
	holder, other := p.dial(), q.dial()
	holder.grant("LOCK r 3s HOLD")
	p.signal(syscall.SIGSTOP)
	other.grant("LOCK r 50s WAIT 60s")
	holder.conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
	if got, err := holder.reader.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the first holder, while the second one has the lock: got %q, %v, want nothing", got, err)
	}
	p.signal(syscall.SIGCONT)
	holder.conn.SetDeadline(time.Now().Add(patience))
	if got, err := holder.reader.ReadByte(); err != io.EOF {
		t.Errorf("the first holder, when its redlockd goes on: got %q, %v, want the end of the connection", got, err)
	}
}
