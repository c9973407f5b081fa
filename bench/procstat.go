package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// processCPU is the CPU time (user and system, of all threads) that the processes have used since they started, to the nanosecond.
func processCPU(pids ...int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		var used unix.Timespec
		clock := int32(^pid<<3 | 2) // as clock_getcpuclockid(3) makes it; of 0 it would be our own
		if err := unix.ClockGettime(clock, &used); err != nil || pid <= 0 {
			return 0, fmt.Errorf("CPU time of process %d: there is no such process", pid)
		}
		sum += time.Duration(used.Nano())
	}
	return sum, nil
}

// processRSS is the resident memory of a process, in bytes.
func processRSS(pid int) (int64, error) {
	statm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return parseStatmRSS(string(statm))
}

// parseStatmRSS reads the second field of proc_pid_statm(5), which counts pages.
func parseStatmRSS(statm string) (int64, error) {
	fields := strings.Fields(statm)
	if len(fields) < 2 {
		return 0, fmt.Errorf("a statm line without a resident size: %q", statm)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("a statm line with an odd size: %w", err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration {
	used, _ := processCPU(os.Getpid()) // fails only for a process that has ended
	return used
}

// cpuSplit is CPU time in microseconds per pair (uncontended) or per acquisition (hot key), by process.
type cpuSplit struct {
	ClientUs   float64 `json:"client_us"`
	RedlockdUs float64 `json:"redlockd_us"`
	RedisUs    float64 `json:"redis_us"` // all the masters that the target uses, together
}

func (c cpuSplit) totalUs() float64 { return c.ClientUs + c.RedlockdUs + c.RedisUs }
