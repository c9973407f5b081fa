package main

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestParseStatmRSS(t *testing.T) {
	page := int64(os.Getpagesize())
	for statm, want := range map[string]int64{"5432 1234 800 1 0 600 0": 1234 * page, "5432": 0, "5432 x": 0, "": 0} {
		got, err := parseStatmRSS(statm)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %d (%v), want %d", statm, got, err, want)
		}
	}
	if own, err := processRSS(os.Getpid()); err != nil || own < 1<<20 || own > 1<<34 {
		t.Errorf("this process: got %d bytes (%v), want some megabytes", own, err)
	}
}

// Goal: the CPU time of a process has that of all its threads, and of none that is not there. Method: burn CPU on several threads, hold it
// against getrusage; a child before and after its end.
func TestProcessCPU(t *testing.T) {
	usage := func() time.Duration {
		var u syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	var burning sync.WaitGroup
	for range 4 {
		burning.Go(func() {
			for start := time.Now(); time.Since(start) < 20*time.Millisecond; {
			}
		})
	}
	burning.Wait()
	before := usage()
	got := ownCPU()
	const exact = time.Millisecond // getrusage scales what it counts in ticks
	if after := usage(); got < before-exact || got > after+exact || got < 15*time.Millisecond {
		t.Errorf("got %v, want between %v and %v", got, before, after)
	}

	child := exec.Command("sh", "-c", "echo; read line")
	words, _ := child.StdinPipe()
	out, _ := child.StdoutPipe()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 1))
	if used, err := processCPU(child.Process.Pid); err != nil || used <= 0 || used > time.Second {
		t.Errorf("a shell that printed a line: got %v (%v), want some CPU time", used, err)
	}
	words.Close()
	child.Wait()
	for _, pid := range []int{child.Process.Pid, 0} { // 0: a master that was killed
		if used, err := processCPU(pid); err == nil {
			t.Errorf("process %d, which has ended: got %v, want an error", pid, used)
		}
	}
}

func TestCPUPerPair(t *testing.T) {
	got := serverCPU{redlockd: 2 * time.Millisecond, masters: 3 * time.Millisecond}.per(time.Millisecond, 1000)
	if want := (cpuSplit{ClientUs: 1, RedlockdUs: 2, RedisUs: 3}); got != want || got.totalUs() != 6 {
		t.Errorf("got %+v = %v, want %+v = 6", got, got.totalUs(), want)
	}
	if got := (serverCPU{redlockd: 1}).per(1, 0); got != (cpuSplit{}) {
		t.Errorf("without operations: got %+v, want zeros", got)
	}
}
