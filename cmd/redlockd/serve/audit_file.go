package serve

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"redlockd/cmd/redlockd/config"
)

// auditStdout in the place of the name of the audit's file is standard output.
const auditStdout = "stdout"

// auditFile appends to the file of the audit. When the file at the path is another one, because a tool
// has rotated it, it goes on with that. The proxy calls it from one goroutine, which may wait for the
// disk.
type auditFile struct {
	path string
	file *os.File
	log  *slog.Logger
	// logged is why the file could not be opened again, as the log has it; empty: it could.
	logged string
}

// openAudit opens the audit that the configuration names: nil if it names none. Without it the server
// does not start, and a reload changes nothing: an operator who wants an audit wants to know at once
// that there is none.
func (s *server) openAudit(c *config.Config) (io.Writer, error) {
	switch c.AuditFile {
	case "":
		return nil, nil
	case auditStdout:
		return unclosed{s.call.Stdout}, nil
	}
	a := &auditFile{path: c.AuditFile, log: s.log}
	var err error
	if a.file, err = openForAudit(a.path); err != nil {
		return nil, auditError(c, err)
	}
	return a, nil
}

// checkAudit tells whether openAudit could open the file. It makes none: the user who asks may be
// another one than the server's.
func checkAudit(c *config.Config) error {
	if c.AuditFile == "" || c.AuditFile == auditStdout {
		return nil
	}
	err := unix.Access(c.AuditFile, unix.W_OK)
	if errors.Is(err, fs.ErrNotExist) {
		err = unix.Access(filepath.Dir(c.AuditFile), unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return auditError(c, err)
	}
	return nil
}

func auditError(c *config.Config, err error) error {
	return fmt.Errorf("audit.file (%s): the audit cannot be written: let redlockd create and write the file, or name another one: %w", c.Find("audit.file").Source(), err)
}

// unclosed is standard output, which stays open when a reload ends the audit there.
type unclosed struct{ io.Writer }

// Close closes the file. No Write follows.
func (a *auditFile) Close() error { return a.file.Close() }

// openForAudit opens a file at its end. Nobody but this user can read a new one. It does not wait for
// the reader of a pipe.
func openForAudit(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
}

// Write appends whole lines.
func (a *auditFile) Write(lines []byte) (int, error) {
	a.follow()
	return a.file.Write(lines)
}

// follow opens the file at the path if that is not the one that is open. If it cannot, the records go
// into the old one, which still has its other name.
func (a *auditFile) follow() {
	open, err := a.file.Stat()
	if err != nil {
		return // the write says why
	}
	if now, err := os.Stat(a.path); err == nil && os.SameFile(open, now) {
		return
	}
	next, err := openForAudit(a.path)
	if err != nil {
		if reason := err.Error(); reason != a.logged {
			a.logged = reason
			a.log.Warn("the file of the audit cannot be opened again", "file", a.path, "err", err,
				"to_do", "let redlockd create and write audit.file; until then the records go into the file that was moved")
		}
		return
	}
	a.file.Close()
	a.file, a.logged = next, ""
}
