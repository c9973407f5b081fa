// Goal: only what cannot look into a token passes for a script that does not. Method: scripts of lock libraries, in our own words, and
// scripts that try to get at a token in ways that the rules do not name. That the rules are right is tested where shapes are
// made of them, in package proxy.
package sandbox

import (
	"fmt"
	"strings"
	"testing"
)

// String is "steers 2, tokens 1", or "outside".
func (s *Steering) String() string {
	if s == nil {
		return "outside"
	}
	list := func(set uint16) string {
		var all []string
		for i := range 16 {
			if set>>i&1 == 1 {
				all = append(all, fmt.Sprint(i+1))
			}
		}
		return strings.Join(all, " ")
	}
	return "steers " + list(s.Args) + ", tokens " + list(s.Tokens)
}

func TestSteering(t *testing.T) {
	const outside = "outside"
	for _, c := range []struct{ source, want string }{
		// Shapes of libraries.
		{compareAndDelete, "steers , tokens 1"},
		{`local v = redis.call('GET', KEYS[1]); if v and v == ARGV[1] then redis.call('DEL', KEYS[1]); return 1 end; return 0`, "steers , tokens 1"},
		{`local v = redis.call("GET", KEYS[1]) if v == ARGV[1] then return redis.call("UNLINK", KEYS[1]) elseif v == false then return -1 else return 0 end`, "steers , tokens 1"},
		{`local v = redis.call('get', KEYS[1]) if not v then return redis.status_reply('OK') end if v ~= ARGV[1] then return redis.error_reply('ERROR') end return redis.call('del', KEYS[1])`, "steers , tokens 1"},
		{`local key, token = KEYS[1], ARGV[1] if redis.call('get', key) == token then return redis.pcall('del', key) end return nil`, "steers , tokens 1"},
		{`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`, "steers 2, tokens 1"},
		{`if redis.call("get", KEYS[1]) == ARGV[1] then redis.call("pexpire", KEYS[1], tonumber(ARGV[2]) * 1000) return {ok = "OK"} end return nil`, "steers 2, tokens 1"},
		{`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("set", KEYS[1], ARGV[1], "XX", "PX", ARGV[2]) and 1 end return 0`, "steers 2, tokens 1"},
		{`if redis.call("exists", KEYS[1]) == 0 then return redis.call("set", KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) end return redis.call('get', KEYS[1])`, "steers 2, tokens 1"},
		{`if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end return redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[3], 'nx')`, "steers 3, tokens 1 2"},
		{`if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end if ARGV[3] == "0" then return redis.call('expire', KEYS[1], ARGV[2]) end return redis.call('del', KEYS[1])`, "steers 2 3, tokens 1"},
		{`return redis.call('delifeq', KEYS[1], ARGV[1])`, "steers , tokens 1"},

		// An argument that is looked into is no token.
		{`return tonumber(ARGV[1])`, "steers 1, tokens "},
		{`return ARGV[1] + 1`, "steers 1, tokens "},
		{`return -ARGV[1]`, "steers 1, tokens "},
		{`return ARGV[1] < ARGV[2]`, "steers 1 2, tokens "},
		{`return ARGV[1] == '1'`, "steers 1, tokens "},
		{`return (ARGV[1] or 'x') == ARGV[2]`, "steers 1 2, tokens "},
		{`return ARGV[1] == ARGV[2]`, "steers , tokens 1 2"},
		{`return ARGV[1]`, "steers , tokens "},
		{`return redis.error_reply(ARGV[1])`, "steers 1, tokens "},
		{`local x = ARGV[1] local y = x if y > 'a' then return 1 end`, "steers 1, tokens "},
		// Scopes.
		{`local x = ARGV[1] do local x = ARGV[2] end return x == '1'`, "steers 1, tokens "},
		{`local x = ARGV[1] if x then local x = ARGV[2] else return x == '1' end`, "steers 1, tokens "},
		{`local x, x = ARGV[1], ARGV[2] return x == '1'`, "steers 2, tokens "},
		{`local x, y = ARGV[1] return y == ARGV[2]`, "steers , tokens 2"},

		// Nor is one that is both.
		{`if redis.call('get', KEYS[1]) == ARGV[1] and ARGV[1] ~= '' then return 1 end`, outside},
		{`if redis.call('get', KEYS[1]) == ARGV[1] then return tonumber(ARGV[1]) end`, outside},
		{`local t = ARGV[1] or 'x' if redis.call('get', KEYS[1]) == t then return 1 end`, outside},
		{`redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[1])`, outside},
		{`redis.call('set', KEYS[1], ARGV[1], ARGV[2], ARGV[3])`, outside},
		{`redis.call('set', KEYS[1], ARGV[1], 'pxat', ARGV[2])`, outside},
		{`redis.call('set', KEYS[1], ARGV[1], 'px')`, outside},
		{`redis.call('set', KEYS[1], '1', 'nx', 'px', ARGV[1])`, outside},
		{`redis.call('set', KEYS[1], 1, 'nx', 'px', ARGV[1])`, outside},
		{`redis.call('set', KEYS[1])`, outside},

		// What keys hold, and their names.
		{`return redis.call('get', KEYS[1]) == '1'`, outside},
		{`return redis.call('get', KEYS[1]) == 1`, outside},
		{`return redis.call('set', KEYS[1], ARGV[1], 'get') == '1'`, outside},
		{`return redis.call('get', KEYS[1]) < 'x'`, outside},
		{`return redis.call('get', KEYS[1]) + 1`, outside},
		{`return #redis.call('get', KEYS[1])`, outside},
		{`return tonumber(redis.call('get', KEYS[1]))`, outside},
		{`return (redis.call('get', KEYS[1]) or '') == ARGV[1]`, outside},
		{`return (redis.call('get', KEYS[1]) or ''):sub(1, 1)`, outside},
		{`return KEYS[1] == ARGV[1]`, outside},
		{`return KEYS[1] == KEYS[2]`, outside},
		{`return KEYS[1] == nil`, outside},
		{`local k = KEYS[1] or ARGV[1] return redis.call('get', k)`, outside},
		{`return redis.call('get', ARGV[1])`, outside},
		{`return redis.call('get', 'k')`, outside},
		{`return redis.call('get', KEYS[1] or 5)`, outside},
		{`redis.call('set', KEYS[1], KEYS[2])`, outside},
		{`return redis.call('strlen', KEYS[1])`, outside},
		{`return redis.call('getrange', KEYS[1], 0, 1)`, outside},
		{`return redis.call('pttl', KEYS[1])`, outside},
		{`return redis.call('time')[1]`, outside},
		{`return redis.call('pexpireat', KEYS[1], ARGV[1])`, outside},
		{`return redis.call('publish', KEYS[1], ARGV[1])`, outside},
		{`return redis.call('echo', ARGV[1])`, outside},
		{`return redis.call(ARGV[1], KEYS[1])`, outside},
		{`return redis.call('get')`, outside},
		{`return redis.call()`, outside},
		{`return redis.setresp(3)`, outside},
		{`return redis.sha1hex(ARGV[1])`, outside},
		{`return redis[ARGV[1]]('get', KEYS[1])`, outside},

		// Ways into a text, and around the rules.
		{`return #ARGV[1]`, outside},
		{`return #ARGV`, outside},
		{`return ARGV[1] .. ''`, outside},
		{`return ARGV[1]:len()`, outside},
		{`return string.len(ARGV[1])`, outside},
		{`return tostring(ARGV[1])`, outside},
		{`return type(ARGV[1])`, outside},
		{`return table.concat(ARGV)`, outside},
		{`return unpack(ARGV)`, outside},
		{`return redis.call('del', unpack(KEYS))`, outside},
		{`return ARGV`, outside},
		{`return {ARGV}`, outside},
		{`return {{ARGV[1]}}`, outside},
		{`return ({ARGV[1]})[1] == '1'`, outside},
		{`local t = {ARGV[1]}`, outside},
		{`return {[ARGV[1]] = 1}`, outside},
		{`return ARGV[ARGV[1]]`, outside},
		{`return ARGV[1][1]`, outside},
		{`return ARGV['1']`, outside},
		{`return ARGV[0]`, outside},
		{`return ARGV[-1]`, outside},
		{`return ARGV[1.5]`, outside},
		{`return ARGV[1e0]`, outside},
		{`return ARGV[17]`, outside},
		{`return ARGV[18446744073709551617]`, outside},
		{`local a = ARGV return a[1]`, outside},
		{`local ARGV = KEYS return 1`, outside},
		{`local ARGV = 1 return ARGV[1]`, outside},
		{`local call = redis.call return call('get', KEYS[1])`, outside},
		{`local redis = redis return redis.call('get', KEYS[1])`, outside},
		{`local r = redis return r.call('get', KEYS[1])`, outside},
		{`local redis = nil return redis.call('get', KEYS[1])`, outside},
		{`local tonumber = nil return tonumber(1)`, outside},
		{`ARGV[1] = 'x' return redis.call('get', KEYS[1]) == ARGV[1]`, outside},
		{`local x = ARGV[1] x = ARGV[2]`, outside},
		{`x = ARGV[1]`, outside},
		{`for i = 1, ARGV[1] do end`, outside},
		{`for i, a in ipairs(ARGV) do end`, outside},
		{`while ARGV[1] do end`, outside},
		{`repeat local x = 1 until x`, outside},
		{`local function f() return ARGV[1] end return f()`, outside},
		{`return (function() return ARGV[1] end)()`, outside},
		{`function f() end`, outside},
		{`return pcall(redis.call, 'get', KEYS[1])`, outside},
		{`return ...`, outside},
		{`return cjson.encode(ARGV[1])`, outside},
		{`return math.random()`, outside},
		{`return _G`, outside},
		{`return redis.REDIS_VERSION`, outside},
		{`return tonumber`, outside},
		{strings.Repeat(`redis.call('get', KEYS[1]) `, 200), outside},
	} {
		s, err := Compile(c.source)
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		if got := s.Steering().String(); got != c.want {
			t.Errorf("%.300s\n got %s\nwant %s", c.source, got, c.want)
		}
	}
}
