package sandbox

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestLanguage: where Lua 5.1 is not what one would guess, and where an earlier build of this package, on the compiler of gopher-lua, was
// wrong. The answers are Redis's.
func TestLanguage(t *testing.T) {
	elements := strings.Repeat("0, ", 50)
	for name, c := range map[string]struct{ source, want string }{
		"swap":                            {"local x, y = 1, 2 x, y = y, x return {x, y}", "*2|:2|:1|"},
		"swap of a held token":            {"local a, b = 'mine', 'other' a, b = b, a return a == b and 1 or 0", ":0|"},
		"rotation":                        {"local a, b, c = 1, 2, 3 a, b, c = c, a, b return {a, b, c}", "*3|:3|:1|:2|"},
		"local, upvalue and field":        {"local a, t, u = 5, {} local function f() local l u, t.x, l = 3, a, 4 return l end return {f(), u, t.x}", "*3|:4|:3|:5|"},
		"order of the targets":            {"local t, i = {}, 1 i, t[i] = i + 1, 20 return {i, t[1], t[2]}", "*2|:2|:20|"},
		"table that is assigned too":      {"local t = {f = 1} local s = t t.f, t = 2, {f = 3} return {s.f, t.f}", "*2|:2|:3|"},
		"table that a value replaces":     {"local t = {} local s = t local function f() t = {} return 1 end t.x, s.y = f(), 2 return {s.x or 0, t.x or 0}", "*2|:0|:1|"},
		"more targets than values":        {"local a, b = 1, 2 a, b = 3 return {a, b == nil}", "*2|:3|:1|"},
		"more values than targets":        {"local a, b = 1, 2 local function f() return 7, 8 end a, b = b, a, f() return {a, b}", "*2|:2|:1|"},
		"values of a call":                {"local a, b = 1, 2 local function f() return a, b end b, a = f() return {a, b}", "*2|:2|:1|"},
		"and, or into an operand":         {"local a, b, x = 1, nil, 7 x = (a or b) and x return x", ":7|"},
		"call into the last parameter":    {"local function f(a) a = (tostring(a)) return a end return f('q')", "$1|q|"},
		"joined into the last parameter":  {"local function f(a) a = a .. 'x' return a end return f('q')", "$2|qx|"},
		"function that names itself":      {"local f = 1 local f = function() return f end return f()", ":1|"},
		"local function that does":        {"local function f(n) return n == 0 and 'end' or f(n - 1) end return f(3)", "$3|end|"},
		"next without a control":          {"local n, a, b, c = 0, 9, 9, 9 do local x, y, z = 5, 6, 7 end for k, v in next, {1, 2, 3} do n = n + v end return n", ":6|"},
		"generator and a call":            {"local function s() return nil, 1 end local n = 0 for k in next, {1, 2}, s() do n = n + k end return n", ":3|"},
		"variable of a block left":        {"local fs = {} for i = 1, 3 do do local x = i fs[#fs+1] = function() return x end if i == 2 then break end end end local y, z, w, v, u = 9, 9, 9, 9, 9 return {fs[1](), fs[2]()}", "*2|:1|:2|"},
		"variable around a pcall":         {"local x = 1 local function get() return x end pcall(error, 'e') x = 2 return get()", ":2|"},
		"variable in a pcall":             {"local g pcall(function() local x = 5 g = function() return x end error('e') end) local a, b, c = 1, 2, 3 return g()", ":5|"},
		"last field is a call":            {"return #{1, x = tostring(5)}", ":1|"},
		"field behind 50 elements":        {"local t = {" + elements + "[1] = 'x'} return {#t, t[1]}", "*2|:50|$1|x|"},
		"field within 50 elements":        {"local t = {[1] = 'x', " + elements + "} return {#t, t[1]}", "*2|:50|:0|"},
		"call behind 50 elements":         {"return #{" + elements + "tostring(1)}", ":51|"},
		"field behind 49 elements":        {"local t = {" + elements[3:] + "x = tostring(1)} return {#t, t[1]}", "*2|:49|:0|"},
		"modulo":                          {"return {tostring(1 % 0.1), tostring(5 % -math.huge), tostring(-5.5 % 2)}", "*3|$1|0|$4|-nan|$3|0.5|"},
		"length asks no metatable":        {"return #setmetatable({1, 2}, {__len = function() return 9 end})", ":2|"},
		"backwards to a jump":             {"local s = 0 for i, v in ipairs({4, 5}) do i = (true or nil) and i or 7 s = s + i end return s", ":3|"},
		"while a constant":                {"local n = 0 while not nil or n do if true or n then n = n + 1 end if n > 3 then break end end return n", ":4|"},
		"operand that the other changes":  {"local x = 1 local function f() x = 10 return 1 end return x + f()", ":11|"},
		"operand behind jumps":            {"local x = 1 local function f() x = 10 return 1 end return {(false and 2 or x) + f(), x}", "*2|:2|:10|"},
		"operand behind no jump":          {"local x = 1 local function f() x = 10 return 1 end return ((true and nil) or not 1 or x) + f()", ":11|"},
		"operand behind a jump and not":   {"local x = 1 local function f() x = 10 return 1 end return (not (false and 1) and x) + f()", ":2|"},
		"operand of a metatable":          {"return setmetatable({}, {__add = function(a, b) return type(b) end}) + '10'", "$6|string|"},
		"number that ends at a zero":      {"return {tonumber('10\\0x'), tonumber('11\\0', 2)}", "*2|:10|:3|"},
		"format that ends at a zero":      {"return {string.format('%s', 'a\\0b'), string.format('%c', 0), #string.format('%s', ('x'):rep(100) .. '\\0')}", "*3|$1|a|$0||:101|"},
		"digits that are too many":        {"return {tostring(tonumber('99999999999999999999', 16)), tonumber('99999999999999999999.', 16) == nil}", "*2|$18|1.844674407371e+19|:1|"},
		"insert in front of the elements": {"local t = {1, 2} table.insert(t, 0, 'x') return {t[0], t[2], t[3]}", "*3|$1|x|:1|:2|"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := eval(t, c.source, Limits{})
			if got != c.want || err != nil {
				t.Errorf("%s\n got %q, %v\nwant %q", c.source, got, err, c.want)
			}
		})
	}
	for name, c := range map[string]struct{ source, want string }{
		"upvalues": {func() string {
			var b strings.Builder
			for range 2 {
				b.WriteString("local " + strings.TrimSuffix(strings.Repeat("a, ", 100), ", ") + " = 1 ")
			}
			names := strings.Builder{}
			for i := range 61 {
				b.WriteString("local v" + strings.Repeat("x", i) + " = 1 ")
				names.WriteString("v" + strings.Repeat("x", i) + ", ")
			}
			return strings.ReplaceAll(b.String(), "local a, a", "local _, a")[600:] + "return function() return " + names.String() + "1 end"
		}(), "more than 60 upvalues"},
		"levels": {"return " + strings.Repeat("- ", 300) + "KEYS", "too many syntax levels"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Compile(c.source); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestMemoryIsCounted: scripts that keep what they make meet the limit of bytes before they have allocated several times as much,
// whatever they make.
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
		if took > 4*DefaultLimits.Bytes {
			t.Errorf("%.120s\nallocated %d bytes, with a limit of %d", source, took, DefaultLimits.Bytes)
		}
	}
}
