package sandbox

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// programGenerator makes programs: one statement to a line, so that lines can be left out.
type programGenerator struct {
	*rand.Rand
	lines  []string
	vars   []programVar
	names  int
	loops  int
	vararg bool
	depth  int
	budget int
}

// programVar is a local variable and what it is most of the time.
type programVar struct {
	name string
	kind byte // n, s, t, f
}

func (g *programGenerator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g *programGenerator) line(format string, args ...any) {
	g.lines = append(g.lines, fmt.Sprintf(format, args...))
}

func (g *programGenerator) name(kind byte) string {
	g.names++
	return fmt.Sprintf("%c%d", kind, g.names)
}

// variable is one of this kind, or "".
func (g *programGenerator) variable(kind byte) string {
	var found []string
	for _, v := range g.vars {
		if v.kind == kind {
			found = append(found, v.name)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return g.pick(found...)
}

func (g *programGenerator) or(kind byte, otherwise string) string {
	if v := g.variable(kind); v != "" && g.IntN(4) > 0 {
		return v
	}
	return otherwise
}

func (g *programGenerator) number(depth int) string {
	if depth <= 0 || g.IntN(4) == 0 {
		return g.or('n', g.pick("0", "1", "2", "3", "-1", "7", "10", "0.5", "1.5", "-2.5", "1e3", "0x1F", ".25", "3.", "1e-2", "100", "255", "4294967296", "9007199254740993", "1e15", "123456789012345678", "1e300", "010"))
	}
	d := depth - 1
	switch g.IntN(22) {
	case 0, 1, 2, 3, 4:
		if g.IntN(5) == 0 { // never by zero, which may be -0 in Lua 5.1 where it is a constant
			return g.number(d) + " / (0.5 + " + g.number(d) + ")"
		}
		return g.number(d) + g.pick(" + ", " - ", " * ", " % ") + g.number(d)
	case 5:
		return "(" + g.number(d) + g.pick(" + ", " - ", " * ", " % ") + g.number(d) + ")"
	case 6:
		return g.pick("2", "-2", "0.5", "("+g.number(d)+")") + "^" + g.pick("2", "0", "0.5")
	case 7:
		return "- " + g.number(d)
	case 8:
		return "#" + g.or('s', "'abc'")
	case 9:
		return "#" + g.or('t', "{1, 2}")
	case 10:
		return "(tonumber(" + g.text(d) + g.pick("", "", ", 16", ", 36", ", 2") + ") or " + g.number(d) + ")"
	case 11:
		return g.pick("'10'", "' 5 '", "'0x10'", "'1e2'", "'x'", "''", g.text(d)) + g.pick(" + ", " * ", " - ", " % ") + g.number(d)
	case 12:
		return g.pick("math.floor", "math.ceil", "math.abs") + "(" + g.number(d) + ")"
	case 13:
		return g.pick("math.max", "math.min", "math.fmod") + "(" + g.number(d) + ", " + g.number(d) + ")"
	case 14:
		if g.vararg {
			return g.pick("select('#', ...)", "(... or 4)", "#{...}")
		}
		return "select('#', nil, " + g.text(d) + ", nil)"
	case 15:
		return "(" + g.condition(d) + " and " + g.number(d) + " or " + g.number(d) + ")"
	case 16:
		return "(" + g.or('t', "({5})") + "[ " + g.pick("1", "2", "#KEYS", g.number(d)) + "] or " + g.number(d) + ")"
	case 17:
		return "(" + g.or('t', "({x = 3})") + g.pick(".x", ".y", "['x']", "['1']") + " or " + g.number(d) + ")"
	case 18:
		if f := g.variable('f'); f != "" {
			return "(" + f + "(" + g.arguments(d) + "))"
		}
		return "(" + g.number(d) + ")"
	case 19:
		return g.pick("math.min", "math.max") + "(" + g.number(d) + ", " + g.pick("1", "3", "255", g.number(d)) + ")"
	case 20:
		return "(" + g.text(d) + "):" + g.pick("len()", "byte() or 0", "byte(-1) or 1", "find('a') or 2", "find('[%d]+') or 3")
	}
	return g.or('n', "4")
}

func (g *programGenerator) text(depth int) string {
	if depth <= 0 || g.IntN(4) == 0 {
		return g.or('s', g.pick("''", "'a'", "'abc'", `"x y"`, "'10'", "'0x1f'", `'\65\0b'`, `'tab\t\'q\''`, "[[long]]", "[==[a]]b]==]", "'-7'", "'%d'", "'Zebra'", "'1e1'"))
	}
	d := depth - 1
	switch g.IntN(18) {
	case 0, 1, 2:
		return g.text(d) + " .. " + g.text(d)
	case 3:
		return g.text(d) + " .. " + g.pick("nn("+g.number(d)+")", g.text(d)+" .. "+g.text(d))
	case 4:
		return "show(" + g.pick(g.number(d), g.text(d), "not "+g.condition(d)) + ")"
	case 5, 6:
		return "(" + g.text(d) + "):" + g.pick("upper()", "lower()", "reverse()", "rep(2)", "rep(2):sub(2)", "sub(2)", "sub(-2)", "sub(2, -2)", "sub("+g.number(d)+")", "sub("+g.number(d)+", "+g.number(d)+")")
	case 7:
		return "string.format(" + g.pick("'%d'", "'%5d|'", "'%-5d|'", "'%05d'", "'%x'", "'%5.2f'", "'%g'", "'%e'", "'%.3f'", "'%i'", "'%c'", "'%o'", "'%u'", "'%+d'", "'%.14g'", "'%.17g'") + ", nn(" + g.number(d) + "))"
	case 8:
		return "string.format(" + g.pick("'%s'", "'%10s|'", "'%-6s|'", "'%q'", "'%.2s'", "'%s%%'") + ", " + g.text(d) + ")"
	case 9:
		return "((" + g.text(d) + "):gsub(" + g.pick("'a', 'b'", "'%w', '%0%0'", "'[abc]', {a = 1, b = 'B'}", "'.', function(c) return c:upper() end", "'(%w)(%w)', '%2%1'", "'^%s*', ''", "'x*', '-'", "'%d+', '<%0>', 1") + "))"
	case 10:
		return "((" + g.text(d) + "):match(" + g.pick("'%a+'", "'(%d+)'", "'^(.)'", "'.$'", "'()b'", "'%b()'", "'[^a]+'", "'%f[%w]%w+'") + ") or 'none')"
	case 11:
		return "table.concat({" + g.text(d) + ", nn(" + g.number(d) + ")}, " + g.pick("','", "''", g.text(d)) + ")"
	case 12:
		return "(" + g.condition(d) + " and " + g.text(d) + " or " + g.text(d) + ")"
	case 13:
		return "type(" + g.any(d) + ")"
	case 14:
		return "string.char(" + g.pick("65", "97, 98", "48") + ")"
	case 15:
		return "(" + g.text(d) + " or " + g.text(d) + ")"
	case 16:
		return "cjson.encode(" + g.pick("{nn("+g.number(0)+")}", g.text(d), "{a = "+g.pick("1", "'x'", "true")+"}") + ")"
	}
	return g.or('s', "'s'")
}

func (g *programGenerator) condition(depth int) string {
	if depth <= 0 {
		return g.pick("true", "false", "nil", g.or('n', "1"), g.or('s', "'x'"), "not "+g.or('t', "nil"))
	}
	d := depth - 1
	switch g.IntN(12) {
	case 0, 1, 2:
		return g.number(d) + g.pick(" < ", " <= ", " > ", " >= ", " == ", " ~= ") + g.number(d)
	case 3:
		return g.text(d) + g.pick(" < ", " <= ", " > ", " == ", " ~= ") + g.text(d)
	case 4:
		return g.any(d) + g.pick(" == ", " ~= ") + g.any(d)
	case 5:
		return "not " + g.condition(d)
	case 6:
		return "not (" + g.condition(d) + ")"
	case 7, 8:
		return "(" + g.condition(d) + g.pick(" and ", " or ") + g.condition(d) + ")"
	case 9:
		return g.condition(d) + g.pick(" and ", " or ") + g.condition(d)
	case 10:
		return g.any(d)
	}
	return g.condition(0)
}

func (g *programGenerator) table(depth int) string {
	if depth <= 0 {
		return g.pick("{}", "{1, 2, 3}", "{x = 1}", "{'a'; 'b'}", "{5, x = 'y', 6}")
	}
	d := depth - 1
	var fields []string
	for range g.IntN(5) {
		switch g.IntN(6) {
		case 0:
			fields = append(fields, g.pick("x", "y", "z")+" = "+g.any(d))
		case 1:
			fields = append(fields, "["+g.pick("'x'", "'k' .. 1", "2.5", "'z'")+"] = "+g.any(d))
		default:
			fields = append(fields, g.value(d))
		}
	}
	if g.IntN(60) == 0 {
		fields = nil
		for i := range []int{49, 51, 77, 99, 101}[g.IntN(5)] { // behind 50 and 100 others a call or a field is refused
			fields = append(fields, strconv.Itoa(i))
		}
	}
	switch f := g.variable('f'); {
	case g.IntN(4) == 0 && g.vararg:
		fields = append(fields, "...")
	case g.IntN(4) == 0 && f != "":
		fields = append(fields, g.pick("", "x = ")+f+"("+g.arguments(d)+")")
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// value is a number or a string: nil makes holes, at whose length Lua guesses.
func (g *programGenerator) value(depth int) string {
	if g.IntN(2) == 0 {
		return g.number(depth)
	}
	return "(" + g.text(depth) + "):sub(1, 30)" // so that no program doubles a string again and again
}

func (g *programGenerator) any(depth int) string {
	switch g.IntN(9) {
	case 0:
		return g.pick("nil", "true", "false")
	case 1, 2:
		return "(" + g.condition(depth) + ")"
	case 3:
		return g.or('t', "{}")
	case 4, 5:
		return g.number(depth)
	case 6:
		if depth > 0 {
			return "(" + g.any(depth-1) + g.pick(" and ", " or ") + g.any(depth-1) + ")"
		}
	}
	return g.text(depth)
}

func (g *programGenerator) arguments(depth int) string {
	var list []string
	for range g.IntN(4) {
		list = append(list, g.value(depth))
	}
	if g.vararg && g.IntN(4) == 0 {
		list = append(list, "...")
	}
	return strings.Join(list, ", ")
}

// ofKind is an expression for a variable of that kind.
func (g *programGenerator) ofKind(kind byte, depth int) string {
	switch kind {
	case 'n':
		return g.number(depth)
	case 's':
		return "(" + g.text(depth) + "):sub(1, 30)"
	case 't':
		return g.table(depth)
	}
	return g.any(depth)
}

func (g *programGenerator) kind() byte { return "nnsst"[g.IntN(5)] }

// scope makes a block with variables of its own.
func (g *programGenerator) scope(f func()) {
	vars := len(g.vars)
	g.depth++
	f()
	g.depth--
	g.vars = g.vars[:vars]
}

func (g *programGenerator) block(statements int) {
	for range 1 + g.IntN(statements) {
		if g.budget--; g.budget < 0 {
			return
		}
		g.statement()
	}
}

// inFunction makes the body of a function, which may be nested.
func (g *programGenerator) inFunction(vararg bool, params []string, body func()) {
	loops, old := g.loops, g.vararg
	g.loops, g.vararg = 0, vararg
	g.scope(func() {
		for _, p := range params {
			g.vars = append(g.vars, programVar{p, "nns"[g.IntN(3)]})
		}
		body()
	})
	g.loops, g.vararg = loops, old
}

func (g *programGenerator) function(head, tail string) {
	var params []string
	for range g.IntN(3) {
		params = append(params, g.name('p'))
	}
	vararg := g.IntN(3) == 0
	list := append([]string{}, params...)
	if vararg {
		list = append(list, "...")
	}
	g.line("%s(%s) burn()", head, strings.Join(list, ", "))
	g.inFunction(vararg, params, func() {
		g.block(3)
		switch g.IntN(4) {
		case 0:
			g.line("return %s, %s", g.value(2), g.value(2))
		case 1:
			if vararg {
				g.line("return %s, ...", g.value(1))
			} else if f := g.variable('f'); f != "" {
				g.line("return %s(%s)", f, g.arguments(1))
			}
		default:
			g.line("return %s", g.value(2))
		}
	})
	g.line("end%s", tail)
}

func (g *programGenerator) targets() (list []string) {
	for range 1 + g.IntN(4) {
		switch t := g.variable('t'); {
		case t != "" && g.IntN(3) == 0:
			list = append(list, t+g.pick(".x", ".y", "[1]", "['z']", "[#"+t+" + 1]"))
		case t != "" && g.IntN(6) == 0 && g.variable('n') != "":
			list = append(list, t+"['k' .. nn("+g.variable('n')+")]")
		default:
			if v := g.variable("nns"[g.IntN(3)]); v != "" {
				list = append(list, v)
			}
		}
	}
	return list
}

func (g *programGenerator) statement() {
	nested := g.depth < 4
	switch n := g.IntN(32); {
	case n < 4:
		k := g.kind()
		name := g.name(k)
		value := g.ofKind(k, 3)
		if g.IntN(6) == 0 && g.variable(k) != "" {
			name = g.variable(k) // hides another
		}
		g.line("local %s = %s", name, value)
		g.vars = append(g.vars, programVar{name, k})
	case n < 6:
		var names, values []string
		var vars []programVar
		for range 1 + g.IntN(4) {
			k := g.kind()
			name := g.name(k)
			names, vars = append(names, name), append(vars, programVar{name, k})
			values = append(values, g.ofKind(k, 2))
		}
		if g.IntN(3) == 0 {
			values = values[:g.IntN(len(values))+1]
			if f := g.variable('f'); f != "" {
				values[len(values)-1] = f + "(" + g.arguments(1) + ")"
			} else if g.vararg {
				values[len(values)-1] = "..."
			}
		}
		g.line("local %s = %s", strings.Join(names, ", "), strings.Join(values, ", "))
		g.vars = append(g.vars, vars...)
	case n < 9:
		k := "nns"[g.IntN(3)]
		if v := g.variable(k); v != "" {
			switch g.IntN(3) {
			case 0:
				g.line("%s = %s and %s or %s", v, g.condition(2), v, g.ofKind(k, 2))
			case 1:
				g.line("%s = (%s %s %s) %s %s", v, g.or(k, "nil"), g.pick("and", "or"), g.ofKind(k, 1), g.pick("and", "or"), v)
			default:
				g.line("%s = %s", v, g.ofKind(k, 3))
			}
		}
	case n < 13:
		if list := g.targets(); len(list) > 0 {
			var values []string
			for range max(1, len(list)-1+g.IntN(3)+strings.Count(strings.Join(list, ""), "[")) {
				values = append(values, g.pick(g.value(2), g.or('n', "1"), g.or('s', "'v'")))
			}
			if f := g.variable('f'); f != "" && g.IntN(4) == 0 && !strings.Contains(strings.Join(list, ""), "[") {
				values[len(values)-1] = f + "(" + g.arguments(1) + ")"
			}
			g.line("%s = %s", strings.Join(list, ", "), strings.Join(values, ", "))
		}
	case n < 16:
		g.line("say(%s)", g.pick(g.any(3), g.value(3)+", "+g.any(2), g.or('t', "{}"), g.or('n', "0")+", "+g.or('s', "''"), g.condition(3)))
	case n == 16 && nested:
		g.line("if %s then", g.condition(3))
		g.scope(func() { g.block(3) })
		for range g.IntN(2) {
			g.line("elseif %s then", g.condition(2))
			g.scope(func() { g.block(2) })
		}
		if g.IntN(2) == 0 {
			g.line("else")
			g.scope(func() { g.block(2) })
		}
		g.line("end")
	case n == 17 && nested && g.loops < 2:
		i := g.name('n')
		g.line("for %s = %s do", i, g.pick("1, 3", "3, 1, -1", "1, 2, 0.5", "0, 1, 0.25", "1, '2'", "2, 1", "-1, 1", "0.1, 0.35, 0.1", "1, #"+g.or('t', "KEYS")))
		g.loop(programVar{i, 'n'})
	case n == 18 && nested && g.loops < 2:
		i, v := g.name('n'), g.name('n')
		t := g.or('t', "{4, 5, 6}")
		g.line("for %s, %s in %s do", i, v, g.pick("ipairs({unpack("+t+")})", "next, {7, 8}", "next, {'a'}, nil", "ipairs({10, 20, 30, 40})", "pairs({3, 2, 1})",
			"(function(s, c) if c < 3 then return c + 1, s end end), 'state', 0", "string.gmatch('k=1, j=2', '(%w)=(%w)')"))
		g.loop(programVar{i, 'n'})
	case n == 19 && nested && g.loops < 2:
		i := g.name('n')
		g.line("local %s = 0", i)
		g.line("while %s < 3 and (%s) do %s = %s + 1", i, g.pick("true", "true", g.condition(1)), i, i)
		g.loop()
	case n == 20 && nested && g.loops < 2:
		i, done := g.name('n'), g.name('b')
		g.line("local %s = 0", i)
		g.line("repeat %s = %s + 1", i, i)
		g.line("local %s = %s > %s", done, i, g.pick("2", "1", "0"))
		g.loops++
		g.scope(func() { g.block(3) })
		g.loops--
		g.line("until %s or %s > 3", done, i)
	case n == 21 && nested:
		g.line("do")
		g.scope(func() { g.block(4) })
		g.line("end")
	case n < 24 && nested:
		name := g.name('f')
		if g.IntN(2) == 0 {
			g.function("local function "+name, "")
		} else {
			g.function("local "+name+" = function", "")
		}
		g.vars = append(g.vars, programVar{name, 'f'})
	case n == 24 && nested:
		if t := g.variable('t'); t != "" {
			g.function("function "+t+g.pick(".m", ".x", ":m"), "")
			g.line("boom(pcall(%s.m, %s, %s))", t, t, g.value(1))
		}
	case n == 25:
		if v := g.variable(g.kind()); v != "" { // closures that share a variable
			get, set := g.name('f'), g.name('f')
			g.line("local %s, %s = function() return %s end, function(x) %s = x return %s end", get, set, v, v, v)
			g.vars = append(g.vars, programVar{get, 'f'}, programVar{set, 'f'})
		}
	case n == 26 && g.loops > 0:
		g.line("if %s then break end", g.condition(2))
	case n == 27 && nested:
		g.line("boom(pcall(function(...) burn()") // else recursion ends at the depth of pcall, which is not the same here and there
		g.inFunction(true, nil, func() {
			g.block(3)
			g.line(g.pick("error('boom', %s)", "error({boom = %s})", "return %s, ...", "local b = nil + %s", "say(nil .. %s)"), g.pick("1", "2", "0"))
		})
		g.line("end, %s))", g.value(2))
	case n == 28:
		if t := g.variable('t'); t != "" {
			g.line(g.pick("table.insert(%s, %s)", "table.insert(%s, 1, %s)", "say(table.remove(%s), %s)", "say(table.remove(%s, 1), %s)", "say(#%s, %s)", "say(unpack(%s), %s)", "say(%s, select(-1, 1, %s))"), t, g.value(1))
		}
	case n == 29:
		t, vararg := g.name('t'), g.vararg
		g.vararg = false
		g.line("local %s = setmetatable({%s}, {%s = function(a, b, c) say(type(a), type(b), type(c)) return %s end})", t, g.pick("", "1, 2", "x = 1"),
			g.pick("__index", "__newindex", "__add", "__concat", "__eq", "__lt", "__le", "__call", "__unm", "__len", "__mod", "__tostring"), g.value(1))
		g.line("boom(pcall(function() return %s end))", fmt.Sprintf(g.pick("%s.q", "%s[5]", "%s + 1", "'5' * %s", "%s .. 'x'", "1 .. %s", "%s == {}", "%s < 1", "%s < {}", "%s <= %[1]s", "%s(1, 2)", "-%s", "#%s", "%s %% 2", "type(tostring(%s))"), t))
		g.line("boom(pcall(function() %s.w, %s.v = 1, %s end))", t, t, g.value(1))
		g.vars, g.vararg = append(g.vars, programVar{t, 't'}), vararg
	case n == 30:
		list := g.name('t') // closures of loop variables
		g.line("local %s = {}", list)
		g.line("for i = 1, 3 do local v = nn(%s) do local w = i if %s then break end %s[#%s + 1] = function() v = i .. w return v end end end", g.value(1), g.condition(1), list, list)
		g.line("for _, f in ipairs(%s) do say(f()) end", list)
	case n == 31 && g.depth > 1:
		g.line("do return %s end", g.pick(g.value(2), g.value(1)+", "+g.value(1)))
	default:
		g.line("say(%s)", g.value(3))
	}
}

func (g *programGenerator) loop(vars ...programVar) {
	g.loops++
	g.scope(func() {
		g.vars = append(g.vars, vars...)
		g.block(3)
	})
	g.loops--
	g.line("end")
}

// program is the lines of one program.
func (g *programGenerator) program() []string {
	g.lines, g.vars, g.names, g.loops, g.depth, g.budget = nil, nil, 0, 0, 0, 8
	g.vararg = true
	g.line("run(function(...)")
	for range 3 + g.IntN(4) {
		g.statement()
	}
	g.line("say(%s)", strings.Join(append(namesOf(g.vars), "0"), ", "))
	g.line("end, 1, 'two')")
	return g.lines
}

func namesOf(vars []programVar) (names []string) {
	for _, v := range vars {
		names = append(names, v.name)
	}
	return names
}
