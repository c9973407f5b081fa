package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// userHz is the unit of the times in /proc/PID/stat, ticks per second. It is 100 for every program on every Linux,
// whatever the kernel's own clock runs at.
const userHz = 100

// processCPU is the CPU time (user and system) that the processes have used since they started.
func processCPU(pids []int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
		used, err := parseStatCPU(string(stat))
		if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
		sum += used
	}
	return sum, nil
}

// parseStatCPU reads utime + stime, fields 14 and 15 of proc_pid_stat(5). The second field is the program's name in
// parentheses, and the name may hold blanks and parentheses itself: we count from the last one.
func parseStatCPU(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // fields[0] is field 3, the state
	if len(fields) < 13 {
		return 0, fmt.Errorf("a stat line without utime and stime: %q", stat)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("a stat line with odd times: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / userHz, nil
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

// ownCPU is the CPU time (user and system) of this process, to the microsecond.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // fails only for a wrong argument
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// cpuSplit is CPU time in microseconds per pair (uncontended) or per acquisition (hot key), by process.
type cpuSplit struct {
	ClientUs   float64 `json:"client_us"`
	RedlockdUs float64 `json:"redlockd_us"`
	RedisUs    float64 `json:"redis_us"` // all the masters that the target uses, together
}

func (c cpuSplit) totalUs() float64 { return c.ClientUs + c.RedlockdUs + c.RedisUs }

// medianCPU takes the median of each part over the rounds that measured any.
func medianCPU[T any](rounds []T, of func(T) cpuSplit) cpuSplit {
	rounds = keep(rounds, func(r T) bool { return of(r) != cpuSplit{} })
	return cpuSplit{
		ClientUs:   medianOf(rounds, func(r T) float64 { return of(r).ClientUs }),
		RedlockdUs: medianOf(rounds, func(r T) float64 { return of(r).RedlockdUs }),
		RedisUs:    medianOf(rounds, func(r T) float64 { return of(r).RedisUs }),
	}
}
