package sandbox

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// floodGenerator makes programs that make long texts and large tables of one another, and hand them to
// all functions there are.
type floodGenerator struct{ *rand.Rand }

func (g *floodGenerator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g *floodGenerator) number() string {
	return g.pick("0", "1", "2", "3", "7", "-1", "-2", "16", "99", "100", "1e3", "4e3", "7990", "1e4", "2e4", "1e5", "1e6", "4e6",
		"1e9", "2^31", "2^53", "1/7", "0/0", "#s", "#t", "n")
}

func (g *floodGenerator) pattern() string {
	return g.pick("'.'", "'.*'", "''", "'a'", "'(a)'", "'()'", "'(a*)(b*)'", "'[a-z]'", "'%w+'", "'.-'", "'.-b'", "'%b()'", "'^a'", "'(.)(.)'",
		"'%f[%w]'", "'(a*)%1'", "('(.)'):rep(32)", "('a?'):rep(20) .. ('a'):rep(20)", "'[' .. "+g.text(0)+" .. ']'", g.text(0))
}

func (g *floodGenerator) replacement(depth int) string {
	return g.pick("('%0'):rep("+g.number()+")", "('%1'):rep("+g.number()+")", "'<%0>'", "''", g.text(depth), "{a = "+g.text(depth)+"}", "t", g.number(),
		"function(c) n = n + 1 return "+g.text(depth)+" end", "function(c) return c .. c end", "setmetatable({}, {__index = function(_, k) return k .. s end})")
}

func (g *floodGenerator) format(depth int) string {
	spec := "%" + g.pick("", "-", "+", "0", "#", " ") + g.pick("", "", "5", "99") + g.pick("", "", ".0", ".5", ".99")
	switch g.IntN(3) {
	case 0:
		return fmt.Sprintf("('%sd'):format(%s)", spec, g.number())
	case 1:
		return fmt.Sprintf("('%s%s'):rep(%s):format(unpack(t))", spec, g.pick("d", "x", "c", "g", "f", "e", "s", "q"), g.pick("1", "3", "100", "#t"))
	}
	return fmt.Sprintf("('%s%s'):format(%s)", spec, g.pick("s", "q"), g.text(depth))
}

func (g *floodGenerator) text(depth int) string {
	if depth <= 0 {
		return g.pick("s", "s", "'a'", "''", "'%0'", "'\\0'", `'"\\'`, "'ab(c)'", "'1'", "'0xFF'", "'[1,2]'", "('x'):rep("+g.number()+")")
	}
	d := depth - 1
	switch g.IntN(16) {
	case 0, 1:
		return "(" + g.text(d) + "):rep(" + g.number() + ")"
	case 2, 3:
		return "(" + g.text(d) + " .. " + g.pick(g.text(d), g.number()) + ")"
	case 4, 5, 6:
		return "((" + g.text(d) + "):gsub(" + g.pattern() + ", " + g.replacement(d) + g.pick("", "", ", "+g.number()) + "))"
	case 7:
		return "(" + g.text(d) + "):" + g.pick("upper()", "lower()", "reverse()", "sub(2, -2)", "sub(1, 100)", "sub(-1000)")
	case 8, 9:
		return g.format(d)
	case 10:
		return "table.concat(" + g.table(d) + ", " + g.text(d) + ")"
	case 11:
		return "cjson.encode(" + g.any(d) + ")"
	case 12:
		return "tostring(" + g.any(d) + ")"
	case 13:
		return "((" + g.text(d) + "):match(" + g.pattern() + ") or '')"
	case 14:
		return "string.char((" + g.text(d) + "):byte(1, " + g.number() + "))"
	}
	return g.pick("redis.sha1hex("+g.text(d)+")", "type("+g.any(d)+")", "(redis.error_reply("+g.text(d)+").err)")
}

func (g *floodGenerator) table(depth int) string {
	if depth <= 0 {
		return g.pick("t", "t", "{}", "{1, 2, 3}", "{a = 1}", "{s, s}")
	}
	d := depth - 1
	return g.pick("{"+g.any(d)+", "+g.any(d)+"}", "{["+g.text(d)+"] = "+g.any(d)+"}", "{unpack(t)}", "{("+g.text(d)+"):byte(1, "+g.number()+")}",
		"cjson.decode('[' .. ("+g.pick("'1,'", "'{},'", "'\"a\",'", "'[[]],'", "'{\"a\":[]},'")+"):rep("+g.number()+") .. '1]')", "{("+g.text(d)+"):find("+g.pattern()+")}",
		"{pcall(cjson.decode, "+g.text(d)+")}", "{redis.pcall("+g.text(d)+", unpack(t))}", "redis.status_reply("+g.text(d)+")")
}

func (g *floodGenerator) any(depth int) string {
	switch g.IntN(4) {
	case 0:
		return g.table(depth)
	case 1:
		return g.number()
	case 2:
		return g.pick("nil", "true", "cjson.null", "f", "n", "tonumber("+g.text(depth)+")",
			"#"+g.text(depth), g.text(depth)+" < "+g.text(depth), g.text(depth)+" == "+g.text(depth))
	}
	return g.text(depth)
}

func (g *floodGenerator) statement(depth int) string {
	switch n := g.IntN(18); {
	case n < 3:
		return "s = " + g.text(2)
	case n < 5:
		return "t[#t + 1] = " + g.any(2)
	case n == 5:
		return "t[" + g.text(1) + "] = " + g.any(1)
	case n == 6:
		return "t = " + g.table(2)
	case n == 7:
		return "table.sort(t" + g.pick("", ", function(a, b) return tostring(a) .. s < tostring(b) end", ", function(a, b) return #tostring(a) < #tostring(b) end") + ")"
	case n == 8:
		return g.pick("table.insert(t, 1, s)", "table.insert(t, s)", "table.remove(t, 1)", "n = n + 1", "n = #t", "local u = {unpack(t)}")
	case n == 9:
		return "t[#t + 1] = select(2, pcall(" + g.pick("error, ", "assert, nil, ", "cjson.decode, ", "tonumber, ",
			"string.rep, ", "table.concat, ", "redis.call, ", "_G.nothing, ") + g.any(1) + "))"
	case n == 10:
		return "for w in (" + g.text(1) + "):gmatch(" + g.pattern() + ") do " + g.statement(depth-1) + " end"
	case n == 11:
		return "for k, v in " + g.pick("pairs", "ipairs") + "(" + g.table(1) + ") do s = tostring(v) end"
	case n == 12:
		return "redis.call('set', 'k1', " + g.text(1) + ") s = redis.call('get', 'k1')"
	case n == 13:
		return "f(" + g.number() + ", " + g.any(1) + ")"
	case n == 14:
		return "setmetatable(t, {__index = function(_, k) return " + g.text(1) + " end, __concat = function() return s end, __tostring = function() return s end})"
	case n < 17 && depth > 0:
		var body []string
		for range 1 + g.IntN(3) {
			body = append(body, g.statement(depth-1))
		}
		block := strings.Join(body, " ")
		return g.pick("while true do "+block+" end", "for i = 1, "+g.number()+" do "+block+" end", "pcall(function() "+block+" end)")
	}
	return "local x = " + g.any(2)
}

// program is one program: some statements, over and over again, of which most may fail.
func (g *floodGenerator) program() string {
	lines := []string{"local s, t, n = ('ab'):rep(" + g.pick("50", "1e4", "1e5") + "), {'a', 'b', 1}, 0",
		"local function f(d, ...) if d > 0 and d < 150 then return 1, f(d - 1, ...) end return ... end", g.pick("do", "for i = 1, 10 do", "while true do")}
	for range 1 + g.IntN(4) {
		line := g.statement(2)
		if g.IntN(4) > 0 {
			line = "do local ok, e = pcall(function() " + line + " end) t[#t + 1] = e end"
		}
		lines = append(lines, line)
	}
	return strings.Join(append(lines, "end", g.pick("return s", "return t", "return {t, s}", "error(s)", "error({err = s})", "return cjson.encode(t)")), "\n")
}
