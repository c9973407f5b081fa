package proxy

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"redlockd/proxy/access"
)

// Goal: globs match as Redis's own do, also those that nobody would write by hand: sets that do not
// end, ranges without an end, a lone backslash. Method: random patterns and names of the bytes that
// matter; KEYS of a real redis-server says what matches.
func TestGlobMatchesAsRedis(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func(bytes string, most int) string {
		b := make([]byte, r.IntN(most+1))
		for i := range b {
			b[i] = bytes[r.IntN(len(bytes))]
		}
		return string(b)
	}
	names, mset := make(map[string]bool), []string{"MSET"}
	for len(names) < 400 {
		name := text("aabbc-^]*\\", 5)
		if name != "" && !names[name] { // KEYS has * match the empty name, and ** not: see TestGlobMatch
			names[name] = true
			mset = append(mset, name, "1")
		}
	}
	redis := dialTo(t, startRedis(t).Addr)
	redis.do(mset...).is("+OK")
	for range 5000 {
		pattern := text("aabbc--^^]][[**??\\", 9)
		want, got := redis.do("KEYS", pattern).text, []string{}
		n := 0
		for name := range names {
			if access.Match(pattern, name) {
				n++
				if !strings.Contains(want, strconv.Quote(name)) {
					got = append(got, name)
				}
			}
		}
		if inRedis := len(regexp.MustCompile(`"(\\.|[^"\\])*"`).FindAllString(want, -1)); n != inRedis || len(got) > 0 {
			t.Errorf("%q matches %d names, in Redis %d; %q match here alone", pattern, n, inRedis, got)
		}
	}
}

// Goal: no client makes the server compare a pattern longer than a name can be.
func TestPatternsAreBounded(t *testing.T) {
	c := serve(t).dial()
	long := strings.Repeat("*", access.PatternMax+1)
	for _, args := range [][]string{
		{"LOCKS", "PATTERN", long}, {"PSUBSCRIBE", long}, {"CONFIG", "GET", "port", long}, {"COMMAND", "LIST", "FILTERBY", "PATTERN", long},
	} {
		c.do(args...).is("-ERR the pattern has 1025 bytes, at most 1024 are possible")
		args[len(args)-1] = long[1:]
		c.do(args...).matches(`[^-].*`)
		c.do("RESET").is("+RESET")
	}
	c.do(append([]string{"CONFIG", "GET"}, strings.Fields(strings.Repeat("a ", 65))...)...).is("-ERR CONFIG GET has 65 patterns, at most 64 are possible")
}
