// Goal: replies and error texts are those of a real Redis 7.0. Method: the same scripts run there and
// here, and the replies are compared byte by byte; where only words differ, up to there.
package sandbox

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"redlockd/redlock/redisproc"
)

// scripts are run with KEYS k1 k2 and ARGV token 30000 on a database in which k1 is "token". A % in
// front compares only whether both fail.
var scripts = strings.Split(strings.TrimSpace(`
return 1
return 3.99
return -3.99
return {1, 2, nil, 3}
return {1/0, 0/0, 1e30, -1e30, 2^53}
return 'x'
return true
return false
return nil
return {true, false, 'x', {1, {2}}}
return {ok='fine'}
return {err='bad'}
return {err='two words'}
return {ok='fine', err='x y'}
return {ok=1}
return {err='line\r\nbreak'}
return {ok='line\nbreak'}
return {#KEYS, #ARGV, KEYS[1], ARGV[2], KEYS[3]}
return ARGV[2] + 1
return ARGV[2] .. 1
return tostring(ARGV[2] / 7)
return {tostring(1e15), tostring(1e14), tostring(123456789012345), tostring(0.1), tostring(-0.0), tostring(1/3)}
return {1 .. '', 1e20 .. '', 1.5 .. '', 2^63 .. ''}
return {tonumber('010'), tonumber('1e3'), tonumber(' 5 '), tonumber('0x1f'), tonumber('z', 36), tonumber('ff', 16), tonumber('-7')}
return {tonumber('5x') == nil, tonumber('') == nil, tonumber('1_0') == nil, tonumber('8', 8) == nil, tonumber({}) == nil}
return '010' + '0x10' + ' 1 '
return 010 + 1e1
for i = 1, '3' do if i == 3 then return i end end
return {pcall(function() return 'a' + 1 end) and 1 or 0}
return 7 % -3
return tostring(-7 % 3) .. tostring(5.5 % 2)
return 2 ^ 0.5 .. ''
return redis.call('get', KEYS[1])
return redis.call('GET', 'none')
return redis.call('set', KEYS[2], ARGV[1])
return {redis.call('get', 'none') == false, redis.call('set', 'k2', 'v').ok, type(redis.call('set', 'k2', 'v'))}
return redis.call('set', 'k2', 1.5) and redis.call('get', 'k2')
return redis.call('set', 'k2', 1e17) and redis.call('get', 'k2')
return redis.call('set', 'k2', 0.1) and redis.call('get', 'k2')
return redis.call('set', 'k2', 2^53) and redis.call('get', 'k2')
return redis.call('del', KEYS[1]) + 5
return redis.call()
return redis.call({})
return redis.call('get', nil)
return redis.call('nope')
return redis.pcall('nope')
return redis.pcall('nope').err
return {pcall(redis.call, 'nope')}
return redis.error_reply('foo')
return redis.error_reply('-foo bar')
return redis.error_reply('MY error')
return redis.status_reply('GOOD')
return redis.status_reply()
return redis.status_reply(1)
return redis.sha1hex('')
return redis.sha1hex(1)
return redis.sha1hex()
return redis.sha1hex(1e15)
return redis.sha1hex({})
return redis.log(redis.LOG_NOTICE, 'x')
return redis.log(1)
return redis.log('x', 'y')
return redis.log(9, 'y')
return redis.setresp(4)
return redis.setresp()
return redis.set_repl(redis.REPL_NONE)
return redis.set_repl(9)
return redis.set_repl()
return tostring(redis.replicate_commands())
return {redis.REDIS_VERSION_NUM, redis.REDIS_VERSION, redis.LOG_WARNING, redis.REPL_ALL}
return foo
return {type(rawget(_G, 'foo'))}
foo = 1
redis = 1
KEYS = 1
function foo() end
_G.foo = 1
_G.redis = nil
redis.call = 1
string.lower = 1
getmetatable('').__index = 1
rawset(string, 'x', 1)
rawset(_G, 'x', 1)
table.insert(string, 1)
table.remove(_G)
setmetatable(_G, {})
setmetatable(redis, {})
return tostring(getmetatable(redis))
return print
return type(os)
return debug
return newproxy
return getfenv
KEYS[1] = 'x' return KEYS[1]
local redis = {call = function(x) return x end} return redis.call('mine')
error('x')
error('x', 0)
error('x', 2)
error({err='My ERR'})
error(7)
return {pcall(error, {err='X y'})}
return {pcall(error, 'z')}
return {pcall(function() error('z') end)}
return {pcall(error)}
return {xpcall(function() error('z') end, function(e) return e .. '!' end)}
return {xpcall(function() return 1, 2 end, function(e) return e end)}
return {xpcall(function() redis.call('nope') end, function(e) return type(e) .. e.err end)}
return {xpcall(function() error({err='My ERR', n=5}) end, function(e) return e.n end)}
return {xpcall(function() error({n=5}) end, function(e) return e.n end)}
return {pcall(function() error({err='My ERR', n=5}) end)}
assert(false)
assert(nil, 'why')
return {assert(1, 2, 3)}
%local x = nil; return x.y
%local x = nil; return x()
return nil .. 'a'
return 'a' .. {}
return {} .. 'a'
%local x = {}; return x + 1
%return -{}
return #nil
return {} < 1
return 1 < 'x'
return {} < {}
return nil > 1
local t = {} t[nil] = 1
local t = {} t[0/0] = 1
local t = {[nil] = 1}
return ('x'):rep(3) .. ('x'):upper() .. ('X'):lower() .. ('abc'):reverse() .. ('abc'):len()
return {('hello'):sub(2, -2), ('hello'):sub(-3), ('hello'):sub(0), ('hello'):sub(4, 2), ('hello'):sub(-100, 2), ('hello'):sub(2, 100)}
return {('hello'):byte(1, -1)}
return {('hello'):byte(), ('hello'):byte(10), ('hello'):byte(-1)}
return string.char(104, 105)
return string.char(256)
return string.rep()
%return ('x'):rep({})
return ('x'):rep(-1)
return string.sub('x')
return {('a.b.c'):find('.', 1, true)}
return {('a.b.c'):find('%.', 3)}
return {('abc'):find('b')}
return {('abc'):find('')}
return {('abc'):find('', 10)}
return {('abc'):find('c', -1)}
return {('abc'):find('(b)(c)')}
return {('key = value'):match('^(%w+)%s*=%s*(%w+)$')}
return {('abc'):match('()b()')}
return {('abc'):match('x')}
return {('f(a(b)c)d'):match('%b()')}
return {('THE (quick) fox'):find('%((%a+)%)')}
return {('hello hello'):match('(%w+) %1')}
return {('THE (quick) fox'):gsub('%f[%a]%a+', 'x')}
return {('abc'):gsub('', '-')}
return {('abc'):gsub('%w', '%0%0', 2)}
return {('abc'):gsub('(a)(b)', '%2%1')}
return {('abc'):gsub('%w', {a='1', b=true})}
return {('abc'):gsub('%w', {a='1', b=false})}
return {('abc'):gsub('%w', function(c) if c == 'b' then return 'X' end end)}
return {('abc'):gsub('^a', 'x')}
return {('a,b,,c'):gsub(',', ';', 0)}
return {('abc'):gsub('b*', 'x')}
return {('aXb'):gsub('%u', '%%')}
local t = {} for w in ('one two  three'):gmatch('%a+') do t[#t+1] = w end return t
local t = {} for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do t[#t+1] = k .. v end return t
local t = {} for w in ('abc'):gmatch('') do t[#t+1] = w end return #t
return {('x-y_z'):match('[%w_-]+'), ('x]y'):match('[]]'), ('a-z'):match('[a%-z]+'), ('^x'):match('[%^x]+'), ('bcd'):match('[^a-c]')}
return {('a1 B2'):match('%l%d%s%u%x'), ('\0x'):match('%z(.)'), ('a.b'):match('%p'), ('ab'):match('%W') == nil}
return {('aaa'):match('a-'), ('aaa'):match('a-$'), ('aaab'):match('a*b'), ('ab'):match('a?b?c?')}
return string.find('abc', '[a')
return string.find('abc', '%')
return string.find('abc', '(a')
return string.find('abc', 'a)')
return string.find('abc', '%1')
return string.find('abc', '%f')
return string.gsub('abc', '(', 'x')
return string.gsub('abc', 'a', '%2')
return string.gsub('abc', 'a', true)
return string.gsub('abc', 'a', {a={}})
return string.format('%5.1s|%-5d|%05d|%+d|%x|%X|%o|%e|%g|%c|%i|%u', 'abc', 3, 4, 5, 255, 255, 8, 1.5, 1e20, 65, -3, 7)
return string.format('%s %d %5.2f %%', 'x', '12', 3.14159)
return string.format('%-10s|%10s|%.3s|%.0f|%.14g|%g|%g', 'ab', 'cd', 'abcdef', 2.5, 0.1, 100000, 1000000)
return string.format('%.3d|%5.3d|%#x|% d|%+.1e|%G', 5, 5, 255, 7, 12345, 1e-10)
return string.format('%q', 'x\n"\\')
return string.format('%d', 3.7)
return string.format('%x', -1)
return string.format('%5000d', 1)
return string.format('%y', 1)
return string.format('%d')
return string.format('%y')
return string.format('%0000000d')
return string.gfind()
return string.match('x')
return math.ldexp(1)
return table.sort({}, 1)
return string.format('%d', 'x')
return string.format('%s', nil)
return string.format('%s', {})
return table.concat({1, 2, 3}, ',')
return table.concat({1, 2, 3}, ',', 2, 3)
return table.concat({}, 'x')
return table.concat({1, {}, 3})
return table.concat({1}, ',', 1, 2)
local t = {3, 1, 2} table.sort(t) return t
local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t
table.sort({3, 1, 'x'})
local t = {1, 2} table.insert(t, 1, 0) table.insert(t, 9) return t
local t = {1, 2, 3} return {table.remove(t, 1), table.remove(t), #t}
return table.remove({}) == nil
return table.insert({}, 1, 2, 3)
return table.insert({})
return {table.getn({1, 2}), table.maxn({1, 2, [10] = 1})}
return {unpack({1, 2, 3}, 2)}
return {unpack({1, 2}, 1, 3)}
return unpack({}, 1, 1e8)
return {select('#', 1, nil, 3), select(2, 'a', 'b', 'c')}
return {select(-1, 'a', 'b')}
return select(0)
return next({}) == nil
return {next({5})}
return {rawequal('a', 'a') and 1, rawget({5}, 1), #rawset({}, 1, 2)}
return setmetatable(1, {})
return setmetatable({}, 1)
return setmetatable(setmetatable({}, {__metatable = 1}), {})
return getmetatable(setmetatable({}, {__metatable = 'mine'}))
return tostring(setmetatable({}, {__tostring = function() return 'me' end}))
return setmetatable({}, {__index = function(t, k) return k .. '!' end}).abc
return #setmetatable({}, {__newindex = function(t, k, v) rawset(t, k, v) end})
local t = setmetatable({}, {__call = function(self, x) return x end}) return t(5)
local t = setmetatable({}, {__eq = function() return true end}) return t == setmetatable({}, getmetatable(t))
return setmetatable({}, {__concat = function(a, b) return 'cat' end}) .. 'x'
return ipairs()
local n = 0 for i, v in ipairs({1, 2, nil, 4}) do n = n + v end return n
local n = 0 for k, v in pairs({1, 2, a = 3}) do n = n + v end return n
return tostring()
return type()
return {type(1), type('x'), type({}), type(nil), type(print == nil), type(type)}
return {math.floor(3.7), math.ceil(3.2), math.max(1, 5, 3), math.min(4, 2), math.abs(-3), math.fmod(7, 3), math.pow(2, 10)}
return tostring(math.huge) .. tostring(-math.huge) .. tostring(math.pi)
math.randomseed(42) return {math.random(1000), math.random(1000)}
return math.random(0)
return math.floor()
return math.max()
return cjson.encode({1, 2, 3, [10] = 5})
return cjson.encode({1, [30] = 5})
return cjson.encode({a = {b = {1, 'x', true, false, cjson.null}}})
return cjson.encode({}) .. cjson.encode('a"/\\\b\n\1\127é') .. cjson.encode(1.5) .. cjson.encode(1e20) .. cjson.encode(nil)
return cjson.encode({[1.5] = 1})
return cjson.encode({[true] = 1})
return cjson.encode(1/0)
return cjson.encode(print == nil and {} or {})
return cjson.encode(type)
return cjson.encode()
return {cjson.decode('[1, 2.5, "x", true, false, null, {"a": [1]}]')[3], cjson.decode('{"a": {"b": 7}}').a.b, cjson.decode('[null]')[1] == cjson.null and 1}
return cjson.decode('"\\u0041\\u00e9\\ud83d\\ude00\\n\\/"')
return cjson.decode('{a}')
return cjson.decode('[1,2')
return cjson.decode('')
return cjson.decode('[1,]')
return cjson.decode('{"a" 1}')
return cjson.decode('{"a":1 x')
return cjson.decode('1 2')
return cjson.decode('"a')
return cjson.decode('"\\q"')
return cjson.decode('tru')
return {cjson.decode('01'), cjson.decode('0x10'), cjson.decode('-5'), cjson.decode(' 7 ')}
return cjson.decode(string.rep('[', 1001) .. string.rep(']', 1001))
return {tostring(cjson.null), type(cjson.null)}
goto x
::x:: return 1
%return 1 +
%if x
%return return
%x =
%for
%'
%return 'a
%return [[a
local function f() return 1 + f() end return f()
local function f(...) return select('#', ...), ... end return {f(1, nil, 3)}
local function f(...) local a, b = ... return {b, a} end return f(1, 2, 3)
local function f(...) return (...) end return {f(1, 2)}
local function f(a, ...) return {arg == nil and 1 or #arg} end return f(1, 2, 3)
local t = {f = function(self, x) return x end} return t:f(3)
local t = {} function t.f(x) return x end function t:g(x) return self.f(x) end return t:g(4)
local a, b = 1 return {a, b == nil and 2}
local t = {1, 2} t[1], t[2] = t[2], t[1] return t
local i = 1 local t = {} i, t[i] = i + 1, 20 return {i, t[1], t[2]}
local s = '' for i = 3, 1, -1 do s = s .. i end return s
local n = 0 while true do n = n + 1 if n > 5 then break end end return n
local n = 0 repeat local done = n > 2 n = n + 1 until done return n
return 'a\065\n\'' .. [[long]] .. [==[x]]y]==]
return 1 == 1.0 and 'a' < 'b' and not nil and (nil or 5)
return ({10, 20, 30})[2]
return #{1, 2, 3, n = 1} .. #'abc'
return {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, unpack({21, 22})}
local x, y = 1, 2 x, y = y, x return {x, y}
local a, b = 'mine', 'other' a, b = b, a return a == b and 1 or 0
local a, b, c = 1, 2, 3 a, b, c = c, a, b return {a, b, c}
local a, t, u = 5, {} local function f() local l u, t.x, l = 3, a, 4 return l end return {f(), u, t.x}
local t, i = {}, 1 i, t[i] = i + 1, 20 return {i, t[1], t[2]}
local t = {f = 1} local s = t t.f, t = 2, {f = 3} return {s.f, t.f}
local t = {} local s = t local function f() t = {} return 1 end t.x, s.y = f(), 2 return {s.x or 0, t.x or 0}
local a, b = 1, 2 a, b = 3 return {a, b == nil}
local a, b = 1, 2 local function f() return 7, 8 end a, b = b, a, f() return {a, b}
local a, b = 1, 2 local function f() return a, b end b, a = f() return {a, b}
local a, b, x = 1, nil, 7 x = (a or b) and x return x
local function f(a) a = (tostring(a)) return a end return f('q')
local function f(a) a = a .. 'x' return a end return f('q')
local f = 1 local f = function() return f end return f()
local function f(n) return n == 0 and 'end' or f(n - 1) end return f(3)
local n, a, b, c = 0, 9, 9, 9 do local x, y, z = 5, 6, 7 end for k, v in next, {1, 2, 3} do n = n + v end return n
local function s() return nil, 1 end local n = 0 for k in next, {1, 2}, s() do n = n + k end return n
local fs = {} for i = 1, 3 do do local x = i fs[#fs+1] = function() return x end if i == 2 then break end end end local y, z, w, v, u = 9, 9, 9, 9, 9 return {fs[1](), fs[2]()}
local x = 1 local function get() return x end pcall(error, 'e') x = 2 return get()
local g pcall(function() local x = 5 g = function() return x end error('e') end) local a, b, c = 1, 2, 3 return g()
return #{1, x = tostring(5)}
return {tostring(1 % 0.1), tostring(5 % -math.huge), tostring(-5.5 % 2)}
return #setmetatable({1, 2}, {__len = function() return 9 end})
local s = 0 for i, v in ipairs({4, 5}) do i = (true or nil) and i or 7 s = s + i end return s
local n = 0 while not nil or n do if true or n then n = n + 1 end if n > 3 then break end end return n
local x = 1 local function f() x = 10 return 1 end return x + f()
local x = 1 local function f() x = 10 return 1 end return {(false and 2 or x) + f(), x}
local x = 1 local function f() x = 10 return 1 end return ((true and nil) or not 1 or x) + f()
local x = 1 local function f() x = 10 return 1 end return (not (false and 1) and x) + f()
return setmetatable({}, {__add = function(a, b) return type(b) end}) + '10'
return {tonumber('10\0x'), tonumber('11\0', 2)}
return {string.format('%s', 'a\0b'), string.format('%c', 0), #string.format('%s', ('x'):rep(100) .. '\0')}
return {tostring(tonumber('99999999999999999999', 16)), tonumber('99999999999999999999.', 16) == nil}
local t = {1, 2} table.insert(t, 0, 'x') return {t[0], t[2], t[3]}
return {1, 2.9, 'x', false, true, nil, 7}
return 1 .. 2 .. 1e15
return '010' + 1
return 010
local t = {} t[100] = 1 return #t .. (t[100])
local t = {[60000000] = 1} t[50000000], t[1e300] = 2, 3 rawset(t, 2^53, 4) table.insert(t, 40000000, 5) return {#t, t[40000000], t[60000000]}
local t = setmetatable({}, {__concat = function(a, b) return 'c' end}) return 'x' .. t .. 'y'
local redis = {call = function() return 'mine' end} return redis.call('get')
local function f(...) return select('#', ...) .. (...) end return f('a', 'b')
return {math.frexp(8)}
return {math.modf(3.7), math.modf(-1/0)}
return tostring(math.deg(1)) .. tostring(math.rad(90)) .. math.ldexp(1, 3)
return math.random(1, 2, 3)
return ('abc'):gsub('b', 5)
return ('abc'):gsub('b', 'x%')
return string.format('%5c|%-5c|', 65, 66)
return string.format('%5.1f|%g|%-6f|', 1/0, -1/0, 1/0)
return string.format('%q', 'a\rb\0c')
return string.format('%')
return string.format('%+++++++d', 1)
return string.find('abc', '%b')
return string.find('a', string.rep('()', 33))
return string.find('aba', '(a)b%1')
return {string.find('abc', '()%1')}
return string.find('abc', '((a)b)c)')
return {string.find('abab', '(a)(b)%1%2'), string.find('ab', '(a)%1') == nil}
return string.find('a\1', '%c')
return string.find('a-b', '%-')
return cjson.decode('}')
return cjson.decode('[1 : 2]')
return cjson.decode('[,]')
return cjson.decode('"\\u12"')
return cjson.decode('"\\uzzzz"')
return cjson.decode('"\\ud800"')
return cjson.decode('"\\udc00"')
return cjson.decode('"\\ud800\\u0041"')
return cjson.decode('"a\\')
return cjson.decode('-')
return cjson.decode('1x')
return cjson.encode('\f\r')
local t = {} for i = 1, 1001 do t = {t} end return cjson.encode(t)
return cjson.decode()
return cjson.encode(1, 2)
return tostring(tonumber('inf')) .. tostring(tonumber('-inf'))
return {tonumber('0x1p4'), tonumber('0X1F'), tonumber('1e400') == 1/0}
return {tonumber('1', 99)}
for i = {}, 2 do end
for i = 1, 'x' do end
for i = 1, 2, {} do end
return {select(5, 1), 'x'}
return next({}, 1)
local t = {} t.x = t return t
local a = {} setmetatable(a, {__index = a}) return a.x
local a = {} setmetatable(a, {__newindex = a}) a.x = 1
local x = {f = 1, [x] = 2} return x
return ...
function f() return ... end
return xpcall(1)
return redis.pcall()
return redis.log(redis.LOG_NOTICE)
return {cjson.decode('[]'), #cjson.decode('[]')}
return ({string.byte('abc', 1, 3)})[3]
`), "\n")

// shebangs are first lines, which a list by lines cannot have.
var shebangs = []string{"#!lua\nreturn 1", "#!lua name=x\nreturn 1", "#!lua flags=no-writes\nerror('x')", "#!lua flags=foo\nreturn 1", "#!lua foo=1\nreturn 1",
	"#!js\nreturn 1", "#!lua", "#!lua flags=no-writes,allow-oom\nreturn 2", "#!lua flags=\nreturn 3"}

// flushing are constructors in which C Lua stores elements before a field with the same key.
func flushing() []string {
	elements := strings.Repeat("0, ", 50)
	return []string{
		"local t = {" + elements + "[1] = 'x'} return {#t, t[1]}",
		"local t = {[1] = 'x', " + elements + "} return {#t, t[1]}",
		"return #{" + elements + "tostring(1)}",
		"local t = {" + elements[3:] + "x = tostring(1)} return {#t, t[1]}",
	}
}

func TestDifferential(t *testing.T) {
	server := redisproc.StartForTest(t, 1)[0]
	server.LeaveOutBefore(t, 7, 0, "errors that are tables, and globals that cannot be written,")
	redis := redisproc.DialWire(t, server.Addr)
	for _, resp := range []int{2, 3} {
		redis.Do("hello", strconv.Itoa(resp))
		for _, source := range slices.Concat(scripts, shebangs, flushing()) {
			source, loose := strings.CutPrefix(source, "%")
			// What names 7.0 itself, and os, which came back with 7.2.
			if !strings.HasPrefix(server.Version(), "Redis 7.0.") && (strings.Contains(source, "REDIS_VERSION") || source == "return type(os)" || strings.Contains(source, ".. e.err")) {
				t.Logf("%s: not %q: it says otherwise by right", server.Version(), source)
				continue
			}
			redis.Do("flushall")
			redis.Do("set", "k1", "token")
			real := redis.Do("eval", source, "2", "k1", "k2", "token", "30000")
			var ours string
			if script, err := Compile(source); err != nil {
				ours = "-" + err.Error() + "\r\n"
			} else {
				r, _ := script.Run(Run{Keys: []string{"k1", "k2"}, Argv: []string{"token", "30000"}, Caller: keyspace{"k1": "token"}, Limits: unhurried})
				ours = string(r.AppendTo(nil, resp))
			}
			if !server.Alike(ours, real) && !(loose && ours[0] == '-' && real[0] == '-') {
				t.Errorf("RESP%d %s\n ours %q\nRedis %q", resp, source, ours, real)
			}
		}
	}
}
