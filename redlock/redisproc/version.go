package redisproc

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// What tests go by where servers of several versions differ (programs).

// said are the versions of programs, as they say them: "Redis 7.0.15", "Valkey 8.1.8".
var said sync.Map

// Version is what the server calls itself: "Redis 7.0.15", "Valkey 8.1.8".
func (s *Server) Version() string {
	if version, ok := said.Load(s.program); ok {
		return version.(string)
	}
	out, err := exec.Command(s.program, "--version").Output()
	m := regexp.MustCompile(`^(\w+) server v=([0-9.]+)`).FindStringSubmatch(string(out))
	if m == nil {
		panic(fmt.Sprintf("%s --version: %v, %q", s.program, err, out))
	}
	said.Store(s.program, m[1]+" "+m[2])
	return m[1] + " " + m[2]
}

// Before tells whether the server is a Redis before this version. A Valkey never is: it began as 7.2.
func (s *Server) Before(major, minor int) bool {
	text, redis := strings.CutPrefix(s.Version(), "Redis ")
	parts := strings.Split(text, ".")
	is := make([]int, 2)
	for i := range is {
		is[i], _ = strconv.Atoi(parts[i])
	}
	return redis && slices.Compare(is, []int{major, minor}) < 0
}

// LeaveOutBefore skips a test that needs what the server lacks, because it came with a later Redis, and says so.
func (s *Server) LeaveOutBefore(t testing.TB, major, minor int, what string) {
	t.Helper()
	if s.Before(major, minor) {
		leaveOut(t, fmt.Sprintf("%s: %s came with Redis %d.%d", s.Version(), what, major, minor))
	}
}

// leaveOut skips a test that a server of another version cannot pass by right.
func leaveOut(t testing.TB, why string) {
	t.Helper()
	line := t.Name() + ": left out on " + why
	say(line + "\n")
	Skip(t, line)
}

// Alike compares a reply with that of the server. What we imitate are the words of Redis 7.0. Of another version an error
// may have other words, also ERR in the place of a code; and a number other digits, if its value is the same.
func (s *Server) Alike(ours, real string) bool {
	if ours == real || strings.HasPrefix(s.Version(), "Redis 7.0.") {
		return ours == real
	}
	if ours[0] == '-' && real[0] == '-' {
		code, _, _ := strings.Cut(ours[1:], " ")
		return code == "ERR" || strings.Contains(real, "ERR ") || strings.Contains(real, code+" ")
	}
	return slices.EqualFunc(strings.Split(ours, "\r\n"), strings.Split(real, "\r\n"), func(a, b string) bool {
		x, err1 := strconv.ParseFloat(a, 64)
		y, err2 := strconv.ParseFloat(b, 64)
		lengths := a != "" && b != "" && a[0] == '$' && b[0] == '$'
		return a == b || err1 == nil && err2 == nil && x == y || lengths || strings.HasPrefix(a, "ERR ") && strings.HasPrefix(b, "ERR ")
	})
}
