//go:build !race

// Goal: no run takes more than memoryMax times its limit of memory, or timeMax times its limit of time,
// whatever the script does. Method: scripts written to find a way around the account, the seeds of
// FuzzRun, and random programs run with the limits of EVAL. What Go has allocated for each is compared
// with its limit, and so is the processor time of its thread, so that other processes cannot fail the
// test. Half of the programs are those of a fixed seed, and half of one that is drawn. CEILING_SEED=n
// runs one seed, CEILING=n so many programs: 60 000 in make test-all, 4000 by default. The race
// detector takes memory and time of its own, so that test-engine in the Makefile runs these tests
// without it.
package sandbox

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"redlockd/redlock/redisproc"
)

const (
	memoryMax = 2
	timeMax   = 3
	// overhead is what a run takes beside what its script makes: a machine, frames and the last error.
	overhead = 128 << 10
)

// evalLimits are those of EVAL (proxy/script_shares.go).
var evalLimits = Limits{Instructions: 50_000, Bytes: DefaultLimits.Bytes, Time: 20 * time.Millisecond}

// threadTime is the processor time that this thread has taken.
func threadTime(t *testing.T) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}

// ceilingTester keeps the most that a run has taken.
type ceilingTester struct {
	*testing.T
	bytes int
	time  time.Duration
	// limited counts the runs that met a limit, and refused the sources that do not compile.
	limited, refused int
}

// run runs a source, and fails the test if that takes too much. What took too long runs twice more, and
// the shortest time counts: a cold cache is no fault of the sandbox.
func (t *ceilingTester) run(name, source string) {
	t.Helper()
	script, err := compile(source, len(source))
	if err != nil {
		t.refused++
		return
	}
	var before, after runtime.MemStats
	took := time.Duration(1 << 62)
	bytes := 0
	for range 3 {
		runtime.ReadMemStats(&before)
		begin := threadTime(t.T)
		_, err = script.Run(Run{Keys: []string{"k1", "k2"}, Argv: []string{"token", "30000"}, Caller: keyspace{"k1": "token"}, Limits: evalLimits})
		took = min(took, threadTime(t.T)-begin)
		runtime.ReadMemStats(&after)
		bytes = int(after.TotalAlloc - before.TotalAlloc)
		if took <= timeMax*evalLimits.Time {
			break
		}
	}
	if _, ok := err.(*LimitError); ok {
		t.limited++
	}
	if bytes > memoryMax*evalLimits.Bytes+overhead {
		t.Errorf("%s: a run allocated %d bytes, with a limit of %d (%v):\n%.3000s", name, bytes, evalLimits.Bytes, err, source)
	}
	if took > timeMax*evalLimits.Time {
		t.Errorf("%s: a run took %v, with a limit of %v (%v):\n%.3000s", name, took, evalLimits.Time, err, source)
	}
	t.bytes, t.time = max(t.bytes, bytes), max(t.time, took)
}

// locked runs f with a thread of its own, whose time is measured.
func (t *ceilingTester) locked(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f()
	t.Logf("%d runs met a limit, %d sources did not compile. The most that one took: %.2f times the limit of memory, %.2f times the limit of time",
		t.limited, t.refused, float64(t.bytes)/float64(evalLimits.Bytes), float64(t.time)/float64(evalLimits.Time))
}

// floods make as much as they can, each in another way.
var floods = strings.Split(strings.TrimSpace(`
local n = 20000 return string.gsub(string.rep('a', n), '.*', string.rep('%0', n))
local n = 20000 return string.gsub(string.rep('a', n), '(.*)', string.rep('%1', n))
local n = 20000 return string.gsub(string.rep('a', n), '()', string.rep('%1', n))
local n = 20000 return string.gsub(string.rep('a', n), '', string.rep('%1', n))
local n = 20000 while true do string.gsub('a', '(a)', string.rep('%1', n)) end
local n = 20000 return string.gsub(string.rep('a', n), '', string.rep('b', n))
local n = 20000 return string.gsub(string.rep('a', n), 'a', string.rep('%b', n))
local s = string.rep('a', 1e6) return string.gsub(s, '.', s)
local s = string.rep('a', 1e6) return string.gsub(s, '.', function() return s end)
local s = string.rep('a', 1e6) return string.gsub(s, '.', {a = s})
local s = string.rep('a', 1e6) return string.gsub(s, '.', setmetatable({}, {__index = function() return s end}))
local s = string.rep('a', 1e4) return string.gsub(s, '.', function(c) return s .. c end)
local s = string.rep('a', 1e4) return string.gsub(s, '.*', function(c) return string.gsub(c, '.', c) end)
local s = string.rep('a', 1e6) return string.gsub(s, '', '')
local s = string.rep('a', 1e6) while true do string.gsub(s, '', '', 10) end
local s = string.rep('a', 1e6) return string.gsub(s, 'b', '')
local s = string.rep('a', 1e6) return string.gsub(s, 'a', 1e15 / 7)
local s = string.rep('a', 1e6) return string.gsub(s, '()', function(i) return i + 0.5 end)
local s = string.rep('a', 1e6) return string.gsub(s, ('(a)'):rep(32), ('%1'):rep(100))
while true do string.rep('a', 1e5) end
while true do pcall(string.rep, 'a', 1e9) end
return string.rep(string.rep('a', 2e6), 2e9)
return #string.rep('ab', 2e6)
local s = 'a' while true do s = s .. s end
local s = 'a' while true do s = s .. 'a' end
local s = ('a'):rep(1e5) local t = {} while true do t[#t + 1] = s .. #t end
local n = 0.1 while true do n = n + 1 local s = n .. n .. n .. n end
local t = {} for i = 1, 5000 do t[i] = i / 7 end while true do table.concat(t) end
local t = {} for i = 1, 5000 do t[i] = 'abc' end while true do table.concat(t, ('x'):rep(1000)) end
local s = ('a'):rep(1e6) local t = {s, s, s, s, s, s} while true do table.concat(t) end
local s = ('a'):rep(1e6) return table.concat({}, s, 1, 0) .. table.concat({'', ''}, s) .. table.concat({1, 2, 3, 4, 5}, s)
local s = ('a'):rep(1e6) while true do string.format('%s%s%s', s, s, s) end
local s = ('a'):rep(1e6) while true do string.format('%.1s', s) end
local s = ('\0'):rep(1e6) while true do string.format('%q', s) end
local s = ('\0'):rep(1e6) return string.format('%q%q%q%q', s, s, s, s)
while true do string.format('%99d%99d%99d%99d%99d%99d%99d%99d', 1, 1, 1, 1, 1, 1, 1, 1) end
while true do string.format('%99.99f%99.99f%99.99f%99.99f', 1e308, 1e308, 1e308, 1e-308) end
local t = {} for i = 1, 7990 do t[i] = 1e308 end local f = ('%.99f'):rep(7990) while true do string.format(f, unpack(t)) end
local t = {} for i = 1, 7990 do t[i] = 1 end local f = ('%d'):rep(7990) while true do string.format(f, unpack(t)) end
local t = {} for i = 1, 7990 do t[i] = 1 end local f = ('%c'):rep(7990) while true do string.format(f, unpack(t)) end
local t = {} for i = 1, 7990 do t[i] = 1 end local f = ('%99c'):rep(7990) while true do string.format(f, unpack(t)) end
local t = {} for i = 1, 7990 do t[i] = '' end local f = ('%99s'):rep(7990) while true do string.format(f, unpack(t)) end
local t = {} for i = 1, 7990 do t[i] = 0/0 end local f = ('%g'):rep(7990) while true do string.format(f, unpack(t)) end
local f = ('x'):rep(1e6) while true do string.format(f) end
local f = ('%%'):rep(1e6) while true do string.format(f) end
while true do string.format(('x'):rep(1e5) .. '%') end
local s = ('\1'):rep(1e6) return cjson.encode(s)
local s = ('"'):rep(1e6) local t = {} for i = 1, 9 do t[i] = s end return cjson.encode(t)
local t = {} for i = 1, 1000 do t = {t} end while true do pcall(cjson.encode, t) end
local t = {} for i = 1, 20 do t = {t, t} end return cjson.encode(t)
local t = {} for i = 1, 5000 do t[i] = i / 7 end while true do cjson.encode(t) end
local t = {} for i = 1, 5000 do t[i * 1e9] = true end while true do cjson.encode(t) end
local t = {[('k'):rep(1e6)] = ('v'):rep(1e6)} while true do cjson.encode(t) end
local t = {} for i = 1, 5000 do t[i] = true end while true do cjson.encode(t) end
local s = '"' .. ('a'):rep(1e6) .. '"' while true do cjson.decode(s) end
local s = '"' .. ('\\n'):rep(1e6) .. '"' while true do cjson.decode(s) end
local s = '"' .. ('\\u0041'):rep(1e5) .. '"' while true do cjson.decode(s) end
local s = '[' .. ('1,'):rep(1e5) .. '1]' while true do cjson.decode(s) end
local s = '[' .. ('"a",'):rep(1e5) .. '1]' while true do cjson.decode(s) end
local s = '[' .. ('{},'):rep(1e5) .. '1]' while true do cjson.decode(s) end
local s = '[' .. ('[[]],'):rep(1e5) .. '1]' while true do cjson.decode(s) end
local s = '[' .. ('{"a":1},'):rep(1e5) .. '1]' while true do cjson.decode(s) end
local s = ('['):rep(1000) .. (']'):rep(1000) while true do cjson.decode(s) end
local s = ('['):rep(1e6) while true do pcall(cjson.decode, s) end
local s = ('1'):rep(1e4) .. ('-'):rep(1e4) while true do pcall(cjson.decode, s) end
local s = '0x' .. ('A'):rep(1e4) .. ('x'):rep(1e4) while true do pcall(cjson.decode, s) end
local s = ('-'):rep(1e3) while true do pcall(cjson.decode, s) end
local s = (' '):rep(1e6) while true do pcall(cjson.decode, s) end
local s = '"' .. ('a'):rep(1e6) while true do pcall(cjson.decode, s) end
local t = {} for i = 1, 5000 do t[i] = i * 7919 % 5003 end while true do table.sort(t) t[1], t[2500] = t[2500], t[1] end
local t = {} for i = 1, 5000 do t[i] = i * 7919 % 5003 end while true do table.sort(t, function(a, b) return a > b end) end
local t = {} for i = 1, 500 do t[i] = ('x'):rep(5000) .. i end while true do table.sort(t) end
local t = {} for i = 1, 500 do t[i] = ('x'):rep(5000) .. i end while true do table.sort(t, function(a, b) return a .. b < b .. a end) end
local t = {3, 1, 2} while true do pcall(table.sort, t, function(a, b) error(('x'):rep(1e5)) end) end
while true do tostring(1 / 3) end
while true do tostring({}) tostring(print) tostring(true) tostring(nil) end
local s = ('X'):rep(63) while true do tonumber(s) end
local s = '0x' .. ('F'):rep(61) while true do tonumber(s) end
local s = ('A'):rep(1e4) while true do tonumber(s) end
local s = ('1'):rep(1e6) while true do tonumber(s) end
local s = ('Z'):rep(1e4) while true do tonumber(s, 36) end
local t = {} for i = 1, 1e5 do t[i] = tostring(i / 7) end
error(('x'):rep(1e6))
error({err = ('x\n'):rep(1e6)})
return {err = ('x\n'):rep(1e6)}
return redis.error_reply(('x'):rep(1e6))
redis.call(('x'):rep(1e6))
return redis.call('set', ('k'):rep(1e6), ('v'):rep(1e6))
return assert(false, ('x'):rep(1e6))
return _G[('x'):rep(1e6)]
return nil + ('x'):rep(1e6)
return ('x'):rep(1e6) + 1
return ('x'):rep(1e6)()
local s, t = ('x'):rep(1e5), {} while true do t[#t + 1] = select(2, pcall(error, s)) end
local s, t = ('x'):rep(1e5), {} while true do t[#t + 1] = select(2, pcall(function() error(s) end)) end
local s, t = ('x'):rep(1e5), {} while true do t[#t + 1] = select(2, pcall(function() return s + 1 end)) end
local s, t = ('x'):rep(1e5), {} while true do t[#t + 1] = select(2, pcall(assert, nil, s)) end
local s, t = ('x'):rep(1e5), {} while true do t[#t + 1] = select(2, pcall(function() return _G[s] end)) end
local t = {} while true do t[#t + 1] = select(2, pcall(function() local n return n.x end)) end
while true do pcall(error) end
while true do pcall(pcall, pcall, pcall, error) end
while true do pcall(string.rep) end
while true do xpcall(error, function(e) return ('x'):rep(1e4) end) end
local function f(n) if n == 0 then error('x') end return (pcall(f, n - 1)) end while true do f(90) end
local s = ('x'):rep(7990) while true do s:byte(1, -1) end
local s = ('x'):rep(7990) while true do string.char(s:byte(1, -1)) end
local s = ('x'):rep(7990) local t = {} while true do t[#t + 1] = {s:byte(1, -1)} end
local t = {} for i = 1, 7990 do t[i] = i end local function f(n, ...) if n > 0 then return 1 + f(n - 1, unpack(t)) end return 0 end f(190)
local t = {} for i = 1, 7990 do t[i] = i end local function f(n, ...) return n > 0 and f(n - 1, ...) or 0 end while true do f(190, unpack(t)) end
local t = {} for i = 1, 7990 do t[i] = i end local function f(...) local n = select('#', ...) return ... end while true do f(unpack(t)) end
local t = {} for i = 1, 7990 do t[i] = i end local function f(...) return arg end while true do f(unpack(t)) end
local t = {} for i = 1, 7990 do t[i] = i / 7 end while true do redis.pcall('x', unpack(t)) end
local t = {} for i = 1, 7990 do t[i] = i / 7 end while true do math.max(unpack(t)) end
local t = {} for i = 1, 7990 do t[i] = i / 7 end while true do local u = {unpack(t)} end
local t = {} for i = 1, 7990 do t[i] = i / 7 end while true do local u = {unpack(t), unpack(t), unpack(t), unpack(t)} end
local s = ('a'):rep(1e5) return s:find('.-.-.-.-b')
local s = ('a'):rep(1e5) return s:find(('a?'):rep(30) .. ('a'):rep(30) .. 'b')
local s = ('a'):rep(1e5) return s:match('(a*)*b')
local s = ('('):rep(1e5) return s:find('%b()')
local s = ('a'):rep(1e5) while true do s:find('(a*)%1b') end
local s, p = ('a'):rep(1e5), '[' .. ('b'):rep(1e5) .. ']' return s:find(p)
local s, p = ('a'):rep(1e5), '%f[' .. ('b'):rep(1e5) .. ']' return s:find(p)
local s = ('a'):rep(1e6) while true do s:find('b', 1, true) end
local s, p = ('a'):rep(1e6), ('a'):rep(60) .. 'b' while true do s:find(p, 1, true) end
local s, p = ('a'):rep(1e6), ('a'):rep(1e5) .. 'b' while true do s:find(p, 1, true) end
local s = ('a'):rep(1e6) while true do s:find(s, 1, true) end
local s = ('a'):rep(1e6) while true do s:find(('()'):rep(32)) end
local s = ('a'):rep(1e6) while true do s:find(('(a)'):rep(32)) end
local s = ('a'):rep(1e6) for a, b, c in s:gmatch('(.)(.)(.)') do end
local s = ('a'):rep(1e6) for a in s:gmatch('') do end
while true do ('x'):gmatch('x') end
local s = ('a'):rep(1e6) while true do s:upper() end
local s = ('a'):rep(1e6) while true do s:reverse() end
local s = ('a'):rep(1e6) while true do s:sub(2, -2) end
local s = ('a'):rep(1e6) while true do local x = s:sub(1, 1) end
local s = ('a'):rep(1e6) while true do local x = s:sub(2) == s:sub(1, -2) end
local a, b = ('a'):rep(1e6), ('a'):rep(1e6) while true do local x = a == b end
local a, b = ('a'):rep(1e6), ('a'):rep(1e6) while true do local x = a < b end
local a, b = ('a'):rep(1e6), ('a'):rep(1e6) while true do local x = a <= b, a > b, a >= b end
local k, t = ('k'):rep(1e6), {} for i = 1, 20 do t[i / 7] = i end while true do t[k] = 1 end
local k, t = ('k'):rep(1e6), {} for i = 1, 20 do t[i / 7] = i end t[k] = 1 while true do for a in pairs(t) do end end
local k, t = ('k'):rep(1e6), {} t[k] = 1 k = ('k'):rep(1e6) while true do local x = t[k] end
local k, t = ('k'):rep(1e4), {} for i = 1, 200 do t[k .. i] = 1 end while true do local x = t[k .. 1] end
local k, t = ('k'):rep(1e4), {} while true do t[k .. #t] = 1 t[#t + 1] = 1 end
local t, n = {}, 0 while true do n = n + 1.5 t[n] = n end
local t, n = {}, 0 while true do n = n + 1 t[n] = n end
local t, n = {}, 0 while true do n = n + 1 t[n .. 'k'] = n end
local t = {} while true do table.insert(t, 1, t) end
local t = {} while true do table.insert(t, {}) end
local t = {} while true do t[#t + 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9} end
local t = {} while true do t[#t + 1] = {a = 1, b = 2, c = 3} end
local t = {} while true do t[#t + 1] = function() return t end end
local n = 0 while true do n = n + 1 end
for i = 1, 1e9 do local a, b, c = i + 1, i + 2, -i end
local t = {} for i = 1, 40 do t = {t, t} end return t
local t = {} for i = 1, 30000 do t[i] = i end return t
local s, t = ('x'):rep(1e5), {} for i = 1, 30000 do t[i] = s end return t
local s = ('x'):rep(1e6) while true do redis.sha1hex(s) end
while true do redis.sha1hex('') end
local s = ('x'):rep(1e6) while true do redis.status_reply(s) redis.error_reply(s) end
local s = ('x'):rep(1e6) while true do redis.log(redis.LOG_NOTICE, s) end
local s = ('x'):rep(1e6) while true do redis.pcall(s, s) end
local s = ('x'):rep(1e6) redis.call('set', 'k1', s) while true do redis.call('get', 'k1') end
local t = setmetatable({}, {__index = function(t, k) return k .. k end}) local s = 'x' while true do s = t[s] end
local t = setmetatable({}, {__concat = function(a, b) return ('x'):rep(1e5) end}) while true do local s = t .. t .. 'x' end
local t = setmetatable({}, {__tostring = function() return ('x'):rep(1e5) end}) while true do tostring(t) end
local t = setmetatable({}, {__lt = function() return ('x'):rep(1e5) end}) while true do local x = t < t end
local t = setmetatable({}, {__call = function(...) return ... end}) while true do t(1, 2, 3) end
local function f() return f() end return f()
local function f() return 1 + f() end while true do pcall(f) end
local function f(...) return f(1, ...) end return f()
local function f(...) return 1 + f(1, ...) end return f()
`), "\n")

func TestFloods(t *testing.T) {
	tester := ceilingTester{T: t}
	tester.locked(func() {
		for _, source := range floods {
			tester.run("flood", source)
		}
		for _, source := range fuzzSources {
			tester.run("seed of FuzzRun", source)
		}
		if tester.limited < len(floods)/2 {
			t.Errorf("%d of %d floods met a limit: the others do not say much", tester.limited, len(floods))
		}
	})
}

func TestCeiling(t *testing.T) {
	count := 4000
	if redisproc.All() {
		count = 60_000
	}
	if s := os.Getenv("CEILING"); s != "" {
		count, _ = strconv.Atoi(s)
	}
	seeds := []uint64{1, rand.Uint64()}
	if seed := redisproc.Seed(t, "CEILING_SEED", 0); seed != 0 {
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		name := fmt.Sprintf("CEILING_SEED=%d", seed)
		tester := ceilingTester{T: t}
		programs := &programGenerator{Rand: rand.New(rand.NewPCG(seed, 0))}
		flood := &floodGenerator{rand.New(rand.NewPCG(seed, 1))}
		tester.locked(func() {
			for i := 0; i < count/len(seeds) && !t.Failed(); i++ {
				source := flood.program()
				if i%2 == 0 {
					source = programPrelude + strings.Join(programs.program(), "\n") + "\n" + programsEnd
				}
				tester.run(name, source)
			}
		})
		t.Logf("%s: %d programs", name, count/len(seeds))
	}
}
