package main

// The clocks of redlockds. They are Go programs without libc, which ask the kernel's vDSO for the time: no library that is loaded first can
// come between, as at the masters, and a time namespace only shifts what a process starts with. So redlockd is built with a changed
// runtime, which takes three numbers into account that this program writes into a file that both have mapped.
//
// Two things are not done. A wall clock that is wrong by more than clock_skew_max: together with masters that forget, fences are not promised
// to grow. And a monotonic clock that gains: it would shorten each wait, and no machine has one.

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// clockVariable names the file to redlockd.
const clockVariable = "TORTURE_CLOCK"

// clockEdits have a redlockd read its clocks through the file. goroot is Go's.
func clockEdits(goroot string) []edit {
	if runtime.GOARCH != "amd64" { // time.now is written in assembler there, and nowhere else on Linux
		return nil
	}
	library := filepath.Join(goroot, "src", "runtime")
	return []edit{
		{filepath.Join(library, "time_nofake.go"), "\treturn nanotime1()\n", "\treturn tortureMono(nanotime1())\n"},
		{filepath.Join(library, "time_linux_amd64.s"), "TEXT time·now<ABIInternal>", "TEXT ·tortureNow<ABIInternal>"},
		{filepath.Join(library, "timeasm.go"), "//go:linkname time_now time.now\nfunc time_now() ", "func tortureNow() "},
		{filepath.Join(library, "torture_linux_amd64.go"), "", `package runtime

import (
	"internal/runtime/atomic"
	_ "unsafe"
)

// The monotonic clock is not above the first, and behind by the second; the third is by how many seconds the wall clock is wrong.
//
//go:linkname tortureClock
var tortureClock *[3]int64

//go:nosplit
func tortureMono(now int64) int64 {
	if c := tortureClock; c != nil {
		most := atomic.Loadint64(&c[0]) // first: the other is changed before it
		now = min(now-atomic.Loadint64(&c[1]), most)
	}
	return now
}

//go:linkname time_now time.now
func time_now() (sec int64, nsec int32, mono int64) {
	sec, nsec, mono = tortureNow()
	if c := tortureClock; c != nil {
		ns := int64(nsec) + atomic.Loadint64(&c[2])
		sec += ns / 1e9
		if ns %= 1e9; ns < 0 {
			sec, ns = sec-1, ns+1e9
		}
		nsec = int32(ns)
	}
	return sec, nsec, tortureMono(mono)
}
`},
		{"cmd/redlockd/torture_clock.go", "", `package main

import (
	"os"
	"syscall"
	"unsafe"
)

//go:linkname tortureClock runtime.tortureClock
var tortureClock *[3]int64

func init() {
	path := os.Getenv("` + clockVariable + `")
	if path == "" {
		return
	}
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	page, err := syscall.Mmap(int(file.Fd()), 0, 24, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	tortureClock = (*[3]int64)(unsafe.Pointer(&page[0]))
}
`},
	}
}

// ownClock is that of one redlockd, over its restarts.
type ownClock struct {
	path string
	file *os.File

	mu   sync.Mutex
	lost time.Duration // by how much the monotonic clock is behind
	most int64         // while it stands still
}

func newOwnClock(dir, name string) (*ownClock, error) {
	path := filepath.Join(dir, "clock of "+name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the clock of %s: %w", name, err)
	}
	c := &ownClock{path: path, file: file}
	if err := c.write(2, 0); err != nil {
		return nil, err
	}
	if err := c.write(1, 0); err != nil {
		return nil, err
	}
	return c, c.write(0, math.MaxInt64)
}

func (c *ownClock) write(place int64, value int64) error {
	_, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(value)), 8*place)
	return err
}

// step sets the wall clock to so much past the true time.
func (c *ownClock) step(offset time.Duration) error { return c.write(2, int64(offset)) }

// stand has the monotonic clock stand still. It begins a moment later, so that it never goes back.
func (c *ownClock) stand() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = monotonic() - int64(c.lost) + int64(time.Millisecond)
	return c.write(0, c.most)
}

// goOn ends that: the clock goes on where it stood.
func (c *ownClock) goOn() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = time.Duration(monotonic() - c.most)
	if err := c.write(1, int64(c.lost)); err != nil {
		return err
	}
	return c.write(0, math.MaxInt64)
}
