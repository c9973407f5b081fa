package sandbox

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

func (m *machine) stringFunctions() map[string]lua.LGFunction {
	gmatch := m.stringGmatch
	return map[string]lua.LGFunction{
		"byte": m.stringByte, "char": m.stringChar, "find": m.stringFind, "format": m.stringFormat,
		"gfind": gmatch, "gmatch": gmatch, "gsub": m.stringGsub, "len": stringLen,
		"lower": m.stringMap("lower", lowerASCII), "match": m.stringMatch, "rep": m.stringRep,
		"reverse": m.stringMap("reverse", slices.Reverse[[]byte]), "sub": m.stringSub, "upper": m.stringMap("upper", upperASCII),
	}
}

// fromBegin makes a distance from the end (negative) one from the begin; 1 is the first byte.
func fromBegin(i, length int) int {
	if i >= 0 {
		return i
	}
	return max(length+i+1, 0)
}

func (m *machine) stringByte(L *lua.LState) int {
	s := argString(L, 1, "byte")
	i := fromBegin(optInt(L, 2, "byte", 1), len(s))
	j := fromBegin(optInt(L, 3, "byte", i), len(s))
	i, j = max(i, 1), min(j, len(s))
	if i > j {
		return 0
	}
	if j-i >= unpackMax {
		L.RaiseError("string slice too long")
	}
	m.many(j - i + 1)
	for k := i; k <= j; k++ {
		L.Push(lua.LNumber(s[k-1]))
	}
	return j - i + 1
}

func (m *machine) stringChar(L *lua.LState) int {
	n := L.GetTop()
	m.chargeString(n)
	b := make([]byte, n)
	for i := range b {
		c := argInt(L, i+1, "char")
		if c < 0 || c > 255 {
			badArgument(L, i+1, "char", "invalid value")
		}
		b[i] = byte(c)
	}
	L.Push(lua.LString(b))
	return 1
}

func stringLen(L *lua.LState) int {
	L.Push(lua.LNumber(len(argString(L, 1, "len"))))
	return 1
}

// stringMap is a function that makes a string of the same length.
func (m *machine) stringMap(name string, f func(b []byte)) lua.LGFunction {
	return func(L *lua.LState) int {
		s := argString(L, 1, name)
		m.chargeString(len(s))
		b := []byte(s)
		f(b)
		L.Push(lua.LString(b))
		return 1
	}
}

func lowerASCII(b []byte) {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
}

func upperASCII(b []byte) {
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
}

func (m *machine) stringRep(L *lua.LState) int {
	s, n := argString(L, 1, "rep"), argInt(L, 2, "rep")
	if n <= 0 || s == "" {
		L.Push(lua.LString(""))
		return 1
	}
	if n > m.limits.Bytes {
		n = m.limits.Bytes + 1
	}
	m.chargeString(len(s) * n)
	L.Push(lua.LString(strings.Repeat(s, n)))
	return 1
}

func (m *machine) stringSub(L *lua.LState) int {
	s := argString(L, 1, "sub")
	i, j := fromBegin(argInt(L, 2, "sub"), len(s)), fromBegin(optInt(L, 3, "sub", -1), len(s))
	i, j = max(i, 1), min(j, len(s))
	if i > j {
		L.Push(lua.LString(""))
		return 1
	}
	L.Push(lua.LString(s[i-1 : j])) // shares the bytes of s
	return 1
}

const patternSpecials = "^$*+?.([%-"

func (m *machine) stringFind(L *lua.LState) int  { return m.find(L, "find") }
func (m *machine) stringMatch(L *lua.LState) int { return m.find(L, "match") }

func (m *machine) find(L *lua.LState, name string) int {
	s, p := argString(L, 1, name), argString(L, 2, name)
	begin := fromBegin(optInt(L, 3, name, 1), len(s)) - 1
	begin = min(max(begin, 0), len(s))
	m.work(len(p) / 16)
	if name == "find" && (lua.LVAsBool(L.Get(4)) || !strings.ContainsAny(p, patternSpecials)) {
		m.work((len(s) - begin) / 16)
		if i := strings.Index(s[begin:], p); i >= 0 {
			L.Push(lua.LNumber(begin + i + 1))
			L.Push(lua.LNumber(begin + i + len(p)))
			return 2
		}
		L.Push(lua.LNil)
		return 1
	}
	f := finder{m: m, s: s}
	var anchored bool
	f.p, anchored = strings.CutPrefix(p, "^")
	for i := begin; i <= len(s); i++ {
		if end := f.start(i); end >= 0 {
			if name == "find" {
				L.Push(lua.LNumber(i + 1))
				L.Push(lua.LNumber(end))
				return f.pushCaptures(i, end, false) + 2
			}
			return f.pushCaptures(i, end, true)
		}
		if anchored {
			break
		}
	}
	L.Push(lua.LNil)
	return 1
}

func (m *machine) stringGmatch(L *lua.LState) int {
	s, p := argString(L, 1, "gmatch"), argString(L, 2, "gmatch")
	at := 0
	m.charge(2 * closureBytes)
	L.Push(L.NewFunction(func(L *lua.LState) int {
		f := finder{m: m, s: s, p: p}
		for i := at; i <= len(s); i++ {
			if end := f.start(i); end >= 0 {
				if at = end; end == i {
					at++ // an empty match: go on behind it
				}
				return f.pushCaptures(i, end, true)
			}
		}
		at = len(s) + 1
		return 0
	}))
	return 1
}

func (m *machine) stringGsub(L *lua.LState) int {
	s, p := argString(L, 1, "gsub"), argString(L, 2, "gsub")
	with := L.Get(3)
	switch v := with.(type) {
	case lua.LNumber:
		with = lua.LString(numberString(float64(v)))
	case lua.LString, *lua.LTable, *lua.LFunction:
	default:
		badArgument(L, 3, "gsub", "string/function/table expected")
	}
	most := optInt(L, 4, "gsub", len(s)+1)
	f := finder{m: m, s: s}
	var anchored bool
	f.p, anchored = strings.CutPrefix(p, "^")
	var b []byte
	n, i := 0, 0
	for n < most {
		end := f.start(i)
		if end >= 0 {
			n++
			before := len(b)
			b = f.replacement(b, i, end, with)
			m.chargeString(len(b) - before)
		}
		if end > i {
			i = end
		} else if i < len(s) {
			b = append(b, s[i])
			i++
		} else {
			break
		}
		if anchored {
			break
		}
	}
	i = min(i, len(s))
	m.chargeString(len(b) + len(s) - i)
	L.Push(lua.LString(string(b) + s[i:]))
	L.Push(lua.LNumber(n))
	return 2
}

// replacement appends what gsub puts in place of s[i:end].
func (f *finder) replacement(b []byte, i, end int, with lua.LValue) []byte {
	L := f.m.lua
	var v lua.LValue
	switch w := with.(type) {
	case lua.LString:
		return f.template(b, i, end, string(w))
	case *lua.LTable:
		f.pushCapture(0, i, end)
		key := L.Get(-1)
		L.Pop(1)
		v = L.GetTable(w, key)
	case *lua.LFunction:
		L.Push(w)
		L.Call(f.pushCaptures(i, end, true), 1)
		v = L.Get(-1)
		L.Pop(1)
	}
	switch v := v.(type) {
	case lua.LString:
		f.m.charge(len(v))
		return append(b, v...)
	case lua.LNumber:
		return appendNumber(b, float64(v), 14)
	}
	if lua.LVAsBool(v) {
		L.RaiseError("invalid replacement value (a %s)", v.Type())
	}
	return append(b, f.s[i:end]...)
}

// template appends a replacement in which %1 is the first capture.
func (f *finder) template(b []byte, i, end int, with string) []byte {
	f.m.work(len(with) / 16)
	for k := 0; k < len(with); k++ {
		c := with[k]
		if c != '%' {
			b = append(b, c)
			continue
		}
		k++
		switch {
		case k == len(with):
			b = append(b, 0) // as C's string ends with it
		case with[k] == '0':
			b = append(b, f.s[i:end]...)
		case '1' <= with[k] && with[k] <= '9':
			f.pushCapture(int(with[k]-'1'), i, end)
			text, _ := concatText(f.m.lua.Get(-1))
			f.m.charge(len(text))
			b = append(b, text...)
			f.m.lua.Pop(1)
		default:
			b = append(b, with[k])
		}
	}
	return b
}

// stringFormat is string.format: widths and precisions have at most two digits, as in Lua.
func (m *machine) stringFormat(L *lua.LState) int {
	format := argString(L, 1, "format")
	var b []byte
	arg := 1
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b = append(b, format[i])
			continue
		}
		i++
		if i < len(format) && format[i] == '%' {
			b = append(b, '%')
			continue
		}
		begin := i
		for i < len(format) && strings.IndexByte("-+ #0", format[i]) >= 0 {
			i++
		}
		if i-begin > 5 {
			L.RaiseError("invalid format (repeated flags)")
		}
		for digits := 0; i < len(format) && isDigit(format[i]) && digits < 2; digits++ {
			i++
		}
		if i < len(format) && format[i] == '.' {
			i++
			for digits := 0; i < len(format) && isDigit(format[i]) && digits < 2; digits++ {
				i++
			}
		}
		if i < len(format) && isDigit(format[i]) {
			L.RaiseError("invalid format (width or precision too long)")
		}
		verb := byte(0)
		if i < len(format) {
			verb = format[i]
		}
		arg++
		before := len(b)
		b = m.formatOne(L, b, format[begin:min(i, len(format))], verb, arg)
		m.chargeString(len(b) - before)
	}
	m.chargeString(len(b))
	L.Push(lua.LString(b))
	return 1
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// formatOne appends one argument. Go's fmt has C's flags, widths and precisions, and differs where this departs.
func (m *machine) formatOne(L *lua.LState, b []byte, spec string, verb byte, arg int) []byte {
	switch verb {
	case 'c':
		f, c := argNumberValue(L, arg), byte(0)
		if math.Abs(f) < 1<<31 {
			c = byte(int(f))
		}
		if c == 0 { // ends C's string
			c = ' '
			text := fmt.Sprintf("%"+strings.Trim(spec, "0+ #")+"c", c)
			if strings.Contains(spec, "-") {
				return b
			}
			return append(b, text[:len(text)-1]...)
		}
		return fmt.Appendf(b, "%"+strings.Trim(spec, "0+ #")+"s", string([]byte{c}))
	case 'd', 'i':
		return fmt.Appendf(b, "%"+spec+"d", truncate(argNumberValue(L, arg)))
	case 'u':
		return fmt.Appendf(b, "%"+spec+"d", unsigned(argNumberValue(L, arg)))
	case 'o', 'x', 'X':
		return fmt.Appendf(b, "%"+spec+string(verb), unsigned(argNumberValue(L, arg)))
	case 'e', 'E', 'f', 'g', 'G':
		f := argNumberValue(L, arg)
		if f-f != 0 { // infinite or not a number
			return fmt.Appendf(b, "%"+width(spec)+"s", appendNumber(nil, f, 14))
		}
		if (verb == 'g' || verb == 'G') && !strings.Contains(spec, ".") {
			spec += ".6"
		}
		return fmt.Appendf(b, "%"+spec+string(verb), f)
	case 'q':
		return m.quote(b, argStringValue(L, arg))
	case 's':
		s := argStringValue(L, arg)
		if !strings.Contains(spec, ".") && len(s) >= 100 {
			return append(b, s...)
		}
		s, _, _ = strings.Cut(s, "\x00") // C's string ends there
		if _, precision, ok := strings.Cut(spec, "."); ok {
			n, _ := strconv.Atoi(precision) // none is 0
			s = s[:min(n, len(s))]          // bytes, where Go counts characters
		}
		n, _ := strconv.Atoi(strings.TrimLeft(width(spec), "-"))
		pad := strings.Repeat(" ", max(n-len(s), 0))
		if strings.Contains(spec, "-") {
			return append(append(b, s...), pad...)
		}
		return append(append(b, pad...), s...)
	}
	if verb == 0 {
		L.RaiseError("%s", "invalid option '%' to 'format'")
	}
	L.RaiseError("invalid option '%%%c' to 'format'", verb)
	return b
}

// width is a spec without its precision, and without flags but the minus.
func width(spec string) string {
	spec, _, _ = strings.Cut(spec, ".")
	minus := strings.Contains(spec, "-")
	spec = strings.TrimLeft(spec, "-+ #0")
	if minus {
		return "-" + spec
	}
	return spec
}

func unsigned(f float64) uint64 {
	if f < 0 {
		return uint64(truncate(f))
	}
	if f >= 1<<64 {
		return 0
	}
	return uint64(f)
}

func argNumberValue(L *lua.LState, i int) float64 {
	formatArgument(L, i)
	return argNumber(L, i, "format")
}

func argStringValue(L *lua.LState, i int) string {
	formatArgument(L, i)
	return argString(L, i, "format")
}

func formatArgument(L *lua.LState, i int) {
	if i > L.GetTop() {
		badArgument(L, i, "format", "no value")
	}
}

// quote is %q: a string that Lua reads back.
func (m *machine) quote(b []byte, s string) []byte {
	m.chargeString(len(s))
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '\n':
			b = append(b, '\\', c)
		case '\r':
			b = append(b, `\r`...)
		case 0:
			b = append(b, `\000`...)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
