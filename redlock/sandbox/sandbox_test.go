// Goal: scripts answer as they would in Redis, within their limits, and leave nothing behind. Method:
// single scripts with a caller that keeps strings in a map; what Redis itself answers is in
// differential_test.go.
package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/resp"
)

// keyspace is a caller that knows GET, SET and DEL.
type keyspace map[string]string

var errRefused = errors.New("refused here")

func (k keyspace) Call(args []string) (resp.Value, error) {
	switch strings.ToUpper(args[0]) {
	case "GET":
		v, ok := k[args[1]]
		if !ok {
			return resp.Value{}, nil
		}
		return resp.Value{Kind: resp.Bulk, Text: v}, nil
	case "SET":
		k[args[1]] = args[2]
		return resp.Value{Kind: resp.Status, Text: "OK"}, nil
	case "DEL":
		_, ok := k[args[1]]
		delete(k, args[1])
		if ok {
			return resp.Value{Kind: resp.Int, Int: 1}, nil
		}
		return resp.Value{Kind: resp.Int}, nil
	}
	return resp.Value{Kind: resp.Error, Text: "ERR Unknown Redis command called from script"}, nil
}

// eval runs a script and returns its reply in RESP3, with | for the ends of lines.
func eval(t testing.TB, source string, limits Limits) (string, error) {
	t.Helper()
	limits.Time = cmp.Or(limits.Time, unhurried.Time)
	s, err := Compile(source)
	if err != nil {
		return "-" + err.Error(), nil
	}
	r, err := s.Run(Run{Keys: []string{"k1", "k2"}, Argv: []string{"token", "30000"}, Caller: keyspace{"k1": "token"}, Limits: limits})
	return strings.ReplaceAll(string(r.AppendTo(nil, 3)), "\r\n", "|"), err
}

// unhurried is for tests of something else than time: a busy machine may stop a goroutine for longer
// than the usual limit.
var unhurried = Limits{Time: time.Minute}

const compareAndDelete = `
if redis.call("get", KEYS[1]) == ARGV[1] then
	return redis.call("del", KEYS[1])
else
	return 0
end`

// TestLimits: each of these would take for ever, or gigabytes.
func TestLimits(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"while true do end", "instructions"},
		{"while true do pcall(function() while true do end end) end", "instructions"},
		{"local function f() return f() end return f()", "instructions"},
		{"local t = {} while true do t[#t+1] = {} end", "instructions"},
		{"local s = 'x' while true do s = s .. s end", "bytes"},
		{"local s = 'x' while true do pcall(function() s = s .. s end) end", "bytes"},
		{"return string.rep('x', 1e9)", "bytes"},
		{"return ('x'):rep(2e9)", "bytes"},
		{"local t = {} for i = 1, 7000 do t[i] = i end while true do t[#t+1] = {unpack(t)} end", "bytes"},
		{"local t = {} for i = 1, 7000 do t[i] = i end local function f(...) while true do t[#t+1] = {...} end end f(unpack(t))", "bytes"},
		{"local t = {} for i = 1, 40 do t = {t, t} end return t", "s"},
		{"local s = string.rep('a', 100000) return string.find(s, '.-.-.-.-b')", "instructions"},
		{"local s = string.rep('a', 100000) return s:gsub('(a*)*b', '')", "instructions"},
		{"local s = string.rep('a', 3000) return s:gsub('', s)", "s"},
		{"local s = string.rep('x', 10000) local t = {} for i = 1, 1000 do t[i] = s end return table.concat(t)", "bytes"},
		{"return cjson.encode(string.rep(string.char(1), 1000000))", "bytes"},
		{"local t = {} for i = 1, 20 do t = {t, t} end return cjson.encode(t)", "instructions"},
		{"while true do redis.call('get', KEYS[1]) end", "commands"},
		{"for i = 1, 1e9 do string.format('%99d', i) end", "s"},
		{"local s = string.rep('1', 1e5) for i = 1, 10 do tonumber(s) end", "instructions"},
		{"local s = string.rep(' ', 1e5) for i = 1, 10 do tonumber(s, 16) end", "instructions"},
		{"local s = string.rep('1', 1e5) for i = 1, 10 do local n = s + 1 end", "instructions"},
		{"local s = string.rep('1', 1e5) for i = 1, 10 do math.floor(s) end", "instructions"},
		{"local p = string.rep('x', 1e6) for i = 1, 10 do string.find('', p) end", "instructions"},
		{"local s, p = string.rep('x', 1e4), '%f[' .. string.rep('y', 1e5) .. ']' return s:find(p)", "instructions"},
		{"local s, t = string.rep('x', 1e5), {} while true do local _, e = pcall(function() error(s) end) t[#t+1] = e end", "bytes"},
		{"local s, t = string.rep('x', 1e5), {} while true do local _, e = pcall(function() assert(nil, s) end) t[#t+1] = e end", "bytes"},
		{"local s, t = string.rep('x', 1e5), {} while true do local _, e = pcall(function() return _G[s] end) t[#t+1] = e end", "bytes"},
		{"local s, t = string.rep('x', 1e5) .. ' attempt to compare x with x', {} while true do local _, e = pcall(function() local n return n[s] end) t[#t+1] = e end", "bytes"},
	} {
		begin := time.Now()
		got, err := eval(t, c.source, Limits{Time: time.Minute})
		var limit *LimitError
		if !errors.As(err, &limit) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(got, "-ERR ") {
			t.Errorf("%s\n got %.200q, %v\nwant a limit of %s", c.source, got, err, c.want)
		}
		t.Logf("%v %s", time.Since(begin), c.source)
	}
	_, err := eval(t, "while true do end", Limits{Time: time.Millisecond, Instructions: 1 << 40})
	if err == nil || err.Error() != "script stopped after 1ms" {
		t.Errorf("time: got %v", err)
	}
	if got, err := eval(t, "local function f() return 1 + f() end return f()", Limits{}); err != nil || !strings.Contains(got, "stack overflow") {
		t.Errorf("depth: got %q, %v", got, err)
	}
	if got, err := eval(t, "return '"+strings.Repeat("x", SourceMax)+"'", Limits{}); err != nil || !strings.Contains(got, "more than the limit") {
		t.Errorf("length: got %.200q, %v", got, err)
	}
}

// slow is a Caller that takes a while for each call, and counts them.
type slow struct {
	takes time.Duration
	calls int
}

func (s *slow) Call([]string) (resp.Value, error) {
	s.calls++
	time.Sleep(s.takes)
	return resp.Value{}, nil
}

// TestLongInstructions: time adds up also where a few instructions take long.
func TestLongInstructions(t *testing.T) {
	s, err := Compile("while true do redis.call('get', 'k') end")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		caller := slow{takes: 3 * time.Millisecond}
		if _, err := s.Run(Run{Caller: &caller}); err == nil || err.Error() != "script stopped after 50ms" {
			t.Errorf("got %v, want it stopped for its time", err)
		}
		if caller.calls > 50 { // some 20 until the first look, and then those that 45 ms have room for
			t.Errorf("it has called %d times, for 3 ms each, in 50 ms", caller.calls)
		}
	})
}

// TestStalls: a script that does little is not stopped because the process stands still.
func TestStalls(t *testing.T) {
	s, err := Compile("for i = 1, 5 do redis.call('get', 'k') for j = 1, 100 do end end return 'done'")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var spent time.Duration
		reply, err := s.Run(Run{Caller: &slow{takes: 30 * time.Millisecond}, Limits: Limits{Time: 100 * time.Millisecond}, Spent: &spent})
		if err != nil || reply.Text != "done" {
			t.Errorf("five stalls of 30 ms: got %v, %v after %v, want it done", reply, err, spent)
		}
		if spent != 5*betweenLooks {
			t.Errorf("five stalls of 30 ms: %v are counted, want %v of each", spent, betweenLooks)
		}
	})
}

// TestNesting: sources that are long within their limit, and deep.
func TestNesting(t *testing.T) {
	repeat := func(s string) string { return strings.Repeat(s, SourceMax/2/20) }
	for _, source := range []string{
		"return " + repeat("{") + repeat("}"),
		"return " + repeat("- ") + "1",
		"local x return x" + repeat("^x"),
		repeat("do ") + repeat("end "),
		repeat("(function() ") + repeat("end)()"),
		"local x return x" + repeat(" and x"),
		"local f = type return f" + repeat("()"),
	} {
		if got, err := eval(t, source, Limits{}); err != nil || !strings.Contains(got, ":1: chunk has too many syntax levels") {
			t.Errorf("%.60s…: got %.200q, %v", source, got, err)
		}
	}
	names := make([]string, upvaluesMax+1)
	for i := range names {
		names[i] = fmt.Sprint("v", i)
	}
	list := strings.Join(names, ", ")
	if _, err := Compile("local " + list + " return function() return " + list + " end"); err == nil || !strings.Contains(err.Error(), "more than 60 upvalues") {
		t.Errorf("61 upvalues: got %v", err)
	}
	deep := strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000) // leaves nothing in the syntax tree
	if got, err := eval(t, "return "+deep+strings.Repeat("+1", 200)+" .. 'x'"+strings.Repeat("..'y'", 200), Limits{}); err != nil || !strings.HasPrefix(got, "$204|201xy") {
		t.Errorf("got %.200q, %v", got, err)
	}
}

// TestMemoryIsCounted: scripts that keep what they make meet the limit of bytes before they have
// allocated twice as much, whatever they make.
func TestMemoryIsCounted(t *testing.T) {
	upvalues := ""
	for i := range 50 {
		upvalues += strings.Repeat("u", i+1) + ", "
	}
	upvalues = upvalues[:len(upvalues)-2]
	for _, source := range []string{
		"local t={} t[150000]=1 local k={} while true do local u={} setmetatable(t,{__newindex=u}) t[150001]=1 k[#k+1]=u end",
		"local k = {} while true do local u = {} local t = setmetatable({}, {__newindex = setmetatable({}, {__newindex = u})}) t[5000] = 1 k[#k+1] = u end",
		"local k = {} while true do k[#k+1] = {} end",
		"local k = {} while true do local t = {} t.x = 1 k[#k+1] = t end",
		"local k = {} while true do local t = {} t[1] = 1 k[#k+1] = t end",
		"local k = {} while true do k[#k+1] = {x = 1} end",
		"local k = {} while true do k[#k+1] = {[true] = 1, [1.5] = 2} end",
		"local k = {} while true do k[#k+1] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} end",
		"local k, n = {}, 0 while true do n = n + 1.5 k[n] = n end",
		"local k, n = {}, 0 while true do n = n + 1 rawset(k, n .. '', n) end",
		"local k = {} while true do k[#k+1] = function() return k end end",
		"local k = {} while true do local " + upvalues + " k[#k+1] = function() return " + upvalues + " end end",
		"local k = {} while true do k[#k+1] = redis.status_reply('x') end",
		"local k = {} while true do k[#k+1] = cjson.decode('[{\"a\":1},[1]]') end",
		"local k = {} while true do k[#k+1] = ('x'):gmatch('x') end",
		"local k = {} while true do local _, e = pcall(error, {}) k[#k+1] = e end",
		"local function f(n) pcall(f, n) end while true do f(1) end",
		"local function f() return 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 end local k = {} while true do k[#k+1] = {f()} end",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := eval(t, source, Limits{Instructions: 1 << 30, Time: time.Minute})
		runtime.ReadMemStats(&after)
		if _, ok := errors.AsType[*LimitError](err); !ok || !strings.Contains(err.Error(), "bytes") {
			t.Errorf("%.120s\n got %v, want the limit of bytes", source, err)
		}
		took := int(after.TotalAlloc - before.TotalAlloc)
		t.Logf("%.1f times: %.120s", float64(took)/float64(DefaultLimits.Bytes), source)
		if took > 2*DefaultLimits.Bytes {
			t.Errorf("%.120s\nallocated %d bytes, with a limit of %d", source, took, DefaultLimits.Bytes)
		}
	}
}

// callCounter refuses every command.
type callCounter int

func (n *callCounter) Call(args []string) (resp.Value, error) {
	*n++
	return resp.Value{}, errRefused
}

// TestRefused: what the caller refuses ends the run, also under pcall, and nothing runs after it.
func TestRefused(t *testing.T) {
	for _, source := range []string{
		"redis.call('refuse') redis.call('set', 'k1', 'x')",
		"redis.pcall('refuse') redis.call('set', 'k1', 'x')",
		"pcall(redis.call, 'refuse') redis.call('set', 'k1', 'x')",
		"pcall(function() pcall(redis.pcall, 'refuse') redis.call('set', 'k1', 'x') end) redis.call('set', 'k1', 'x')",
		"xpcall(function() redis.call('refuse') end, function() redis.call('set', 'k1', 'x') end)",
		"xpcall(function() redis.call('refuse') end, redis.pcall)",
		"pcall(xpcall, function() redis.call('refuse') end, redis.pcall)",
		"setmetatable({}, {__index = function() redis.call('refuse') end}).x = pcall(redis.call, 'refuse') or redis.call('set', 'k1', 'x')",
		"('x'):gsub('x', function() redis.pcall('refuse') end) redis.call('set', 'k1', 'x')",
		"table.sort({1, 2, 3}, function() redis.pcall('refuse') end) redis.call('set', 'k1', 'x')",
	} {
		s, err := Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		var calls callCounter
		_, err = s.Run(Run{Caller: &calls})
		if !errors.Is(err, errRefused) || calls != 1 {
			t.Errorf("%s\n got %v, %d calls\nwant %v and one call", source, err, calls, errRefused)
		}
	}
	for _, source := range []string{"return cmsgpack.pack(1)", "return pcall(function() return struct.pack('i', 1) end)", "coroutine.create(f)", "load(f)", "return bit.band(1, 1)"} {
		_, err := eval(t, source, Limits{})
		var unavailable *unavailableError
		if !errors.As(err, &unavailable) || !strings.HasPrefix(strings.TrimPrefix(source, "return "), unavailable.Name) && !strings.Contains(source, unavailable.Name) {
			t.Errorf("%s\n got %v\nwant an unavailableError", source, err)
		}
	}
	for _, source := range []string{"redis.setresp(3)", "return {double=1.5}", "return {1, {map={a=1}}}", "return {set={}}", "return {big_number='1'}", "return {verbatim_string={}}"} {
		if got, err := eval(t, source, Limits{}); err == nil || !strings.Contains(got, "is not available to scripts here") {
			t.Errorf("%s\n got %q, %v\nwant it refused", source, got, err)
		}
	}
}

// TestNothingLeft: each script tries to leave something behind; the probe afterwards, in the same
// state, finds nothing.
func TestNothingLeft(t *testing.T) {
	for _, source := range []string{
		"x = 1", "redis = nil", "KEYS = 1", "_G.x = 1", "_G.redis = nil", "rawset(_G, 'x', 1)", "string.lower = nil",
		"rawset(string, 'lower', nil)", "rawset(redis, 'call', nil)", "getmetatable('').__index = nil",
		"getmetatable('').__index.lower = nil", "rawset(getmetatable(''), '__index', nil)", "table.insert(redis, 1)",
		"table.remove(redis)", "table.sort(redis)", "setmetatable(redis, {})", "setmetatable(_G, {})", "setmetatable(string, {})",
		"for k, v in pairs(_G) do if type(v) == 'table' then v.x = 1 end end", "function string.lower() end", "function tostring() end",
		"local n = 0 while true do n = n + 1 end", "math.random() math.randomseed(7) math.random()", "redis.setresp(2)",
		"setmetatable(KEYS, {__index = 1}) KEYS.x = 1", "ARGV[7] = 1", "getmetatable(redis).__index = 1", "_G._G._G.x = 1",
		"rawget(_G, 'string').lower = nil", "next(_G)", "cjson.null = 1", "string.format = 1",
	} {
		s, err := Compile(source)
		if err != nil {
			t.Fatal(source, err)
		}
		probe, err := Compile(`assert(rawget(_G, 'x') == nil and type(redis.call) == 'function' and #KEYS == 1 and #ARGV == 0)
			assert(('X'):lower() == 'x' and tostring(1) == '1' and KEYS.x == nil and getmetatable(KEYS) == nil and math.random() < 0.2)
			assert(redis.call('get', 'none') == false and cjson.encode(cjson.null) == 'null' and rawget(redis, 'x') == nil)
			return 'clean'`)
		if err != nil {
			t.Fatal(err)
		}
		r1, _ := s.Run(Run{Caller: keyspace{}})
		if r, err := probe.Run(Run{Keys: []string{"k"}, Caller: keyspace{}, Limits: unhurried}); err != nil || r.Text != "clean" {
			t.Errorf("%s -> %v, then got %v, %v", source, r1, r, err)
		}
	}
}

// TestRunsAtOnce: one script runs many times at once, and each run sees its own KEYS, ARGV and
// closures. The race detector watches.
func TestRunsAtOnce(t *testing.T) {
	script, err := Compile(`local n, list = 0, {} local function add(x) n = n + 1 list[n] = x .. KEYS[1] return n end
		for i = 1, 20 do add(ARGV[1]) end pcall(error, 'x') KEYS[2], ARGV[2] = 'more', _G.KEYS[1] setmetatable(KEYS, {__index = list})
		return {n, list[20], KEYS[20], cjson.encode({ARGV[1], tostring(_G.ARGV[2])})}`)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 50 {
				key, arg := fmt.Sprint("key ", i), fmt.Sprint("arg ", j)
				want := fmt.Sprintf("[20 %[2]s%[1]s %[2]s%[1]s [\"%[2]s\",\"%[1]s\"]]", key, arg)
				reply, err := script.Run(Run{Keys: []string{key}, Argv: []string{arg}, Caller: keyspace{}, Limits: unhurried})
				if len(reply.Elems) != 4 || err != nil {
					t.Errorf("got %v, %v", reply, err)
					return
				}
				if got := fmt.Sprint([]any{reply.Elems[0].Int, reply.Elems[1].Text, reply.Elems[2].Text, reply.Elems[3].Text}); got != want {
					t.Errorf("got %s\nwant %s", got, want)
				}
			}
		})
	}
	group.Wait()
}

// fuzzSources are what FuzzRun begins with.
var fuzzSources = []string{compareAndDelete, "return ('x'):rep(3)", "local t = {} t[3] = {...} return cjson.encode(t)",
	"return string.format('%5.1f', 3)", "return ('a.b'):gsub('(%w+)%.', '%1')", "return cjson.decode('[1,{\"a\":null}]')",
	"#!lua flags=no-writes\nreturn {a=1}", "goto x ::x::", "return table.concat({1, 2}, ',')", "repeat local x = 1 until x == 1",
	"for k, v in pairs({1, a = 2}) do error({err = k}) end", "return 1 .. 2 .. nil", "return -'0x10' ^ 2 % 3"}

// FuzzRun: no source breaks the process, or takes more than its limits.
func FuzzRun(f *testing.F) {
	for _, source := range fuzzSources {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		begin := time.Now()
		limits := Limits{Instructions: 20_000, Bytes: 1 << 20, Time: 20 * time.Millisecond}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := eval(t, source, limits)
		runtime.ReadMemStats(&after)
		// Compiling and the written reply are in it too (TestCompileIsBounded).
		if took := int(after.TotalAlloc - before.TotalAlloc); took > 2*limits.Bytes+4*len(got)+1500*len(source)+1<<20 {
			t.Fatalf("allocated %d bytes, with a limit of %d", took, limits.Bytes)
		}
		// Far beyond what a busy machine adds; nothing that is unbounded stays below it.
		if took := time.Since(begin); took > 5*time.Second {
			t.Fatalf("took %v", took)
		}
		if err != nil && !strings.HasPrefix(got, "-") {
			t.Fatalf("%v, but the reply %q", err, got)
		}
		if len(got) > 8<<20 {
			t.Fatalf("reply of %d bytes", len(got))
		}
	})
}

func BenchmarkCompareAndDelete(b *testing.B) {
	s, err := Compile(compareAndDelete)
	if err != nil {
		b.Fatal(err)
	}
	keys, argv := []string{"lock:invoices"}, []string{"0123456789abcdef0123"}
	caller := keyspace{}
	b.ReportAllocs()
	for b.Loop() {
		caller["lock:invoices"] = "0123456789abcdef0123"
		if r, err := s.Run(Run{Keys: keys, Argv: argv, Caller: caller}); r.Int != 1 || err != nil {
			b.Fatal(r, err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(compareAndDelete); err != nil {
			b.Fatal(err)
		}
	}
}

func Example() {
	script, err := Compile("return {redis.call('get', KEYS[1]), ARGV[1] .. '!'}")
	if err != nil {
		panic(err)
	}
	reply, err := script.Run(Run{Keys: []string{"k"}, Argv: []string{"hello"}, Caller: keyspace{"k": "v"}, Limits: unhurried})
	fmt.Printf("%q %v\n", reply.AppendTo(nil, 2), err)
	// Output: "*2\r\n$1\r\nv\r\n$6\r\nhello!\r\n" <nil>
}

// A machine that is kept for the next run holds no text of the last one: the iterator of gmatch has its subject.
func TestMachineForgetsItsScript(t *testing.T) {
	script, err := Compile(`for w in string.gmatch(string.rep('a', 100000), 'b') do end return 1`)
	if err != nil {
		t.Fatal(err)
	}
	for seen := 0; seen == 0; {
		if _, err := script.Run(Run{Limits: unhurried}); err != nil {
			t.Fatal(err)
		}
		m := machines.Get().(*machine) // the pool may have given it away: then it has no idle calls
		for c := m.idle; c != nil; c = c.next {
			if seen++; c.native != nil {
				t.Errorf("a call that is idle has the function %q", c.native.name)
			}
		}
	}
}
