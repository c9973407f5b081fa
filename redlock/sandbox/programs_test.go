// Goal: the language is Lua 5.1: statements, scopes, closures, varargs, loops, coercions, metatables,
// libraries. Method: programs at random, each of which writes down what it sees; some are sent together
// as one script, to a real redis-server and to us, and what they have written must be the same. A
// program that differs is made shorter as long as it does, and printed. The seeds are fixed, so that a
// change is judged by what it does and not by luck. PROGRAMS_SEED=n runs another seed,
// PROGRAMS_SEED=random (make fuzz) one that nobody has tried, PROGRAMS=n as many programs of each:
// 25600 in make test-release, 2048 by default. What a random seed finds becomes a line of scripts, in
// differential_test.go.
package sandbox

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// programPrelude is in front of the programs of a script. In Lua 5.1 a constant 0 may be -0, if the
// function has that too, and the sign of what is not a number depends on C's library.
const programPrelude = `local trace = {}
local function show(v, deep)
  local kind = type(v)
  if kind == 'number' then return v == 0 and '0' or v ~= v and 'nan' or tostring(v) end
  if kind == 'string' then return '"' .. v .. '"' end
  if kind == 'function' or kind == 'table' and deep then return kind end
  if kind ~= 'table' then return tostring(v) end
  local list = {}
  for i, x in ipairs(v) do list[i] = show(x, true) end
  local names = {}
  for k, x in pairs(v) do if type(k) == 'string' then names[#names + 1] = k .. '=' .. show(x, true) end end
  table.sort(names)
  return '{' .. table.concat(list, ',') .. ';' .. table.concat(names, ',') .. '}'
end
local function say(...)
  for i = 1, select('#', ...) do trace[#trace + 1] = show((select(i, ...))) end
end
local function boom(ok, e, ...)
  if ok then say(ok, e, ...) else say(ok, type(e) == 'string' and e:find('boom', 1, true) and e or type(e)) end
end
local function nn(n) return n == n and n ~= 0 and n or 0 end
local fuel = 0
local function burn()
  fuel = fuel - 1
  if fuel < 0 then error('out of fuel') end
end
local function run(p, ...)
  fuel = 40
  trace[#trace + 1] = '\n'
  boom(pcall(p, ...))
end
`

const programsEnd = "return table.concat(trace, ' ')\n"

// programLimits are wide: what is compared is what ends.
var programLimits = Limits{Instructions: 1 << 24, Bytes: 1 << 30, Calls: 1 << 20, Time: time.Minute}

type programTester struct {
	t     *testing.T
	redis *redisproc.Wire
}

func (p *programTester) send(source string) { p.redis.Send("eval", source, "0") }

// ours is what a script answers here.
func ours(source string) string {
	script, err := compile(source, len(source))
	if err != nil {
		return "-" + err.Error() + "\r\n"
	}
	reply, _ := script.Run(Run{Caller: keyspace{}, Limits: programLimits})
	return string(reply.AppendTo(nil, 2))
}

// differs tells whether one program has different answers.
func (p *programTester) differs(lines []string) (real, here string, differs bool) {
	source := programPrelude + strings.Join(lines, "\n") + "\n" + programsEnd
	p.send(source)
	real, here = p.redis.Reply(), ours(source)
	return real, here, real != here && real[0] == '$'
}

// shrunk leaves out lines, many at a time and then few, as long as the answers differ.
func (p *programTester) shrunk(lines []string) []string {
	for size := len(lines) / 2; size > 0; {
		smaller := false
		for at := 0; at+size <= len(lines); at++ {
			less := append(append([]string{}, lines[:at]...), lines[at+size:]...)
			if _, _, differs := p.differs(less); differs {
				lines, smaller = less, true
				break
			}
		}
		if !smaller {
			size /= 2
		}
	}
	return lines
}

func TestPrograms(t *testing.T) {
	seeds, count := []uint64{1, 2, 3, 4}, 2048
	if seed := redisproc.Seed(t, "PROGRAMS_SEED", 0); seed != 0 {
		seeds = []uint64{seed}
	}
	if s := os.Getenv("PROGRAMS"); s != "" {
		count, _ = strconv.Atoi(s)
	}
	redis := redisproc.DialWire(t, redisproc.StartForTest(t, 1)[0].Addr)
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			(&programTester{t, redis}).compare(seed, count)
		})
	}
}

// compare runs so many programs of a seed here and there.
func (p *programTester) compare(seed uint64, count int) {
	t := p.t
	g := &programGenerator{Rand: rand.New(rand.NewPCG(seed, 0))}
	// Scripts of some programs; Redis runs these while we run them.
	const programs, pipeline = 16, 16
	refused, failed, wrote, found := 0, 0, 0, 0
	done := 0
	for ; done < count && found < 5; done += programs * pipeline {
		var scripts [pipeline]string
		var lists [pipeline][programs][]string
		for i := range scripts {
			var b strings.Builder
			b.WriteString(programPrelude)
			for j := range programs {
				lists[i][j] = g.program()
				b.WriteString(strings.Join(lists[i][j], "\n") + "\n")
			}
			b.WriteString(programsEnd)
			scripts[i] = b.String()
			p.send(scripts[i])
		}
		p.redis.Send("script", "flush") // Redis keeps all that it has seen
		var answers, replies [pipeline]string
		for i, source := range scripts {
			if answers[i] = ours(source); strings.Contains(answers[i], "script stopped") {
				for _, program := range lists[i] {
					if strings.Contains(ours(programPrelude+strings.Join(program, "\n")+"\n"+programsEnd), "script stopped") {
						t.Fatalf("PROGRAMS_SEED=%d: a program does not end:\n%s", seed, strings.Join(program, "\n"))
					}
				}
			}
		}
		for i := range scripts {
			replies[i] = p.redis.Reply()
		}
		p.redis.Reply()
		for i, source := range scripts {
			here, real := answers[i], replies[i]
			wrote += len(real)
			failed += strings.Count(real, "\n false")
			if here == real {
				continue
			}
			if real[0] != '$' {
				t.Fatalf("PROGRAMS_SEED=%d:\n%s\nRedis %q", seed, source, real)
			}
			if strings.Contains(here, "Error compiling") {
				refused++
				if strings.Contains(here, "script has more than 100 functions") {
					continue
				}
			}
			for _, program := range lists[i] {
				if _, _, differs := p.differs(program); differs {
					program = p.shrunk(program)
					theirs, here, _ := p.differs(program)
					t.Errorf("PROGRAMS_SEED=%d:\n%s\n ours %q\nRedis %q", seed, strings.Join(program, "\n"), here, theirs)
					found++
					break
				}
			}
			if found == 0 && !strings.Contains(here, "Error compiling") {
				t.Fatalf("PROGRAMS_SEED=%d: together only:\n%s\n ours %q\nRedis %q", seed, source, here, real)
			}
		}
	}
	t.Logf("%d programs wrote %d bytes, %d of them failed, %d scripts were refused", done, wrote, failed, refused)
	if found == 0 && (wrote < 20*count || failed > count/3 || refused > count/programs/100) {
		t.Errorf("the programs do not say much")
	}
}
