package redisproc

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed testdata/clockshim.c
var clockShim string

// BuildClockShim compiles, into dir, the library that moves the wall clock of a server, and returns its
// path. It needs gcc and the headers of libc (Debian's packages gcc and libc6-dev).
func BuildClockShim(dir string) (string, error) {
	shim := filepath.Join(dir, "clockshim.so")
	gcc := exec.Command("gcc", "-O2", "-Wall", "-Werror", "-fPIC", "-shared", "-o", shim, "-x", "c", "-")
	gcc.Stdin = strings.NewReader(clockShim)
	if out, err := gcc.CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc (`make tools` installs it) builds what moves the clocks of masters: %w\n%s", err, out)
	}
	return shim, nil
}

// StartClocked starts a server whose clock SetClock moves, with what BuildClockShim has built.
func StartClocked(shim string, args ...string) (*Server, error) { return start(shim, args) }

// addClock has the server read its clock through the shim.
func (s *Server) addClock(shim string) (err error) {
	path := filepath.Join(s.dir, "clock")
	if err := os.WriteFile(path, make([]byte, 8), 0o600); err != nil {
		return err
	}
	s.env = []string{"LD_PRELOAD=" + shim, "CLOCKSHIM=" + path}
	s.clock, err = os.OpenFile(path, os.O_WRONLY, 0)
	return err
}

// SetClock sets the wall clock of the server to so much past the true time, at once.
func (s *Server) SetClock(offset time.Duration) error {
	_, err := s.clock.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(offset)), 0)
	return err
}
