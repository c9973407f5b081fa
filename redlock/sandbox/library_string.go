package sandbox

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

var stringFunctions = map[string]func(c *call) int{
	"byte": stringByte, "char": stringChar, "find": stringFind, "format": stringFormat,
	"gfind": stringGmatch, "gmatch": stringGmatch, "gsub": stringGsub, "match": stringMatch, "rep": stringRep,
	"len":   func(c *call) int { c.push(float64(len(argString(c, 1, "len")))); return 1 },
	"lower": stringMap("lower", lowerASCII), "reverse": stringMap("reverse", slices.Reverse[[]byte]),
	"sub": stringSub, "upper": stringMap("upper", upperASCII),
}

// fromBegin makes a distance from the end (negative) one from the begin; 1 is the first byte.
func fromBegin(i, length int) int {
	if i >= 0 {
		return i
	}
	return max(length+i+1, 0)
}

func stringByte(c *call) int {
	m := c.m
	s := argString(c, 1, "byte")
	i := fromBegin(optInt(c, 2, "byte", 1), len(s))
	j := fromBegin(optInt(c, 3, "byte", i), len(s))
	i, j = max(i, 1), min(j, len(s))
	if i > j {
		return 0
	}
	if j-i >= unpackMax {
		c.raise("string slice too long")
	}
	m.many(j - i + 1)
	for k := i; k <= j; k++ {
		c.push(float64(s[k-1]))
	}
	return j - i + 1
}

func stringChar(c *call) int {
	m := c.m
	n := c.top()
	m.chargeString(n)
	b := make([]byte, n)
	for i := range b {
		n := argInt(c, i+1, "char")
		if n < 0 || n > 255 {
			badArgument(c, i+1, "char", "invalid value")
		}
		b[i] = byte(n)
	}
	c.push(string(b))
	return 1
}

// stringMap is a function that makes a string of the same length.
func stringMap(name string, f func(b []byte)) func(c *call) int {
	return func(c *call) int {
		s := argString(c, 1, name)
		c.m.chargeString(len(s))
		b := []byte(s)
		f(b)
		c.push(string(b))
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

func stringRep(c *call) int {
	m := c.m
	s, n := argString(c, 1, "rep"), argInt(c, 2, "rep")
	if n <= 0 || s == "" {
		c.push(string(""))
		return 1
	}
	if n > m.limits.Bytes {
		n = m.limits.Bytes + 1
	}
	m.chargeString(len(s) * n)
	c.push(string(strings.Repeat(s, n)))
	return 1
}

func stringSub(c *call) int {
	s := argString(c, 1, "sub")
	i, j := fromBegin(argInt(c, 2, "sub"), len(s)), fromBegin(optInt(c, 3, "sub", -1), len(s))
	i, j = max(i, 1), min(j, len(s))
	if i > j {
		c.push(string(""))
		return 1
	}
	c.push(string(s[i-1 : j])) // shares the bytes of s
	return 1
}

const patternSpecials = "^$*+?.([%-"

func stringFind(c *call) int  { return find(c, "find") }
func stringMatch(c *call) int { return find(c, "match") }

func find(c *call, name string) int {
	m := c.m
	s, p := argString(c, 1, name), argString(c, 2, name)
	begin := fromBegin(optInt(c, 3, name, 1), len(s)) - 1
	begin = min(max(begin, 0), len(s))
	m.step(len(p) / 16)
	if name == "find" && (truthy(c.get(4)) || !strings.ContainsAny(p, patternSpecials)) {
		m.step((len(s) - begin) / 16)
		if i := strings.Index(s[begin:], p); i >= 0 {
			c.push(float64(begin + i + 1))
			c.push(float64(begin + i + len(p)))
			return 2
		}
		c.push(nil)
		return 1
	}
	f := finder{call: c, s: s}
	var anchored bool
	f.p, anchored = strings.CutPrefix(p, "^")
	for i := begin; i <= len(s); i++ {
		if end := f.start(i); end >= 0 {
			if name == "find" {
				c.push(float64(i + 1))
				c.push(float64(end))
				return f.pushCaptures(i, end, false) + 2
			}
			return f.pushCaptures(i, end, true)
		}
		if anchored {
			break
		}
	}
	c.push(nil)
	return 1
}

func stringGmatch(c *call) int {
	m := c.m
	s, p := argString(c, 1, "gmatch"), argString(c, 2, "gmatch")
	at := 0
	m.charge(2 * closureBytes)
	c.push(&function{native: func(c *call) int {
		f := finder{call: c, s: s, p: p}
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
	}})
	return 1
}

func stringGsub(c *call) int {
	m := c.m
	s, p := argString(c, 1, "gsub"), argString(c, 2, "gsub")
	with := c.get(3)
	switch v := with.(type) {
	case float64:
		with = numberString(v)
	case string, *table, *function:
	default:
		badArgument(c, 3, "gsub", "string/function/table expected")
	}
	most := optInt(c, 4, "gsub", len(s)+1)
	f := finder{call: c, s: s}
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
	c.push(string(string(b) + s[i:]))
	c.push(float64(n))
	return 2
}

// replacement appends what gsub puts in place of s[i:end].
func (f *finder) replacement(b []byte, i, end int, with value) []byte {
	var v value
	switch w := with.(type) {
	case string:
		return f.template(b, i, end, w)
	case *table:
		v = f.m.index(w, f.capture(0, i, end), f.line)
	case *function:
		v = f.invoke(w, f.pushCaptures(i, end, true))
	}
	switch v := v.(type) {
	case string:
		f.m.charge(len(v))
		return append(b, v...)
	case float64:
		return appendNumber(b, v, 14)
	}
	if truthy(v) {
		f.raise("invalid replacement value (a %s)", typeName(v))
	}
	return append(b, f.s[i:end]...)
}

// template appends a replacement in which %1 is the first capture.
func (f *finder) template(b []byte, i, end int, with string) []byte {
	f.m.step(len(with) / 16)
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
			text, _ := concatText(f.capture(int(with[k]-'1'), i, end))
			f.m.charge(len(text))
			b = append(b, text...)
		default:
			b = append(b, with[k])
		}
	}
	return b
}

// stringFormat is string.format: widths and precisions have at most two digits, as in Lua.
func stringFormat(c *call) int {
	m := c.m
	format := argString(c, 1, "format")
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
			c.raise("invalid format (repeated flags)")
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
			c.raise("invalid format (width or precision too long)")
		}
		verb := byte(0)
		if i < len(format) {
			verb = format[i]
		}
		arg++
		before := len(b)
		b = formatOne(c, b, format[begin:min(i, len(format))], verb, arg)
		m.chargeString(len(b) - before)
	}
	m.chargeString(len(b))
	c.push(string(b))
	return 1
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// formatOne appends one argument. Go's fmt has C's flags, widths and precisions, and differs where this departs.
func formatOne(c *call, b []byte, spec string, verb byte, arg int) []byte {
	switch verb {
	case 'c':
		f, c := argNumberValue(c, arg), byte(0)
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
		return fmt.Appendf(b, "%"+spec+"d", truncate(argNumberValue(c, arg)))
	case 'u':
		return fmt.Appendf(b, "%"+spec+"d", unsigned(argNumberValue(c, arg)))
	case 'o', 'x', 'X':
		return fmt.Appendf(b, "%"+spec+string(verb), unsigned(argNumberValue(c, arg)))
	case 'e', 'E', 'f', 'g', 'G':
		f := argNumberValue(c, arg)
		if f-f != 0 { // infinite or not a number
			return fmt.Appendf(b, "%"+width(spec)+"s", appendNumber(nil, f, 14))
		}
		if (verb == 'g' || verb == 'G') && !strings.Contains(spec, ".") {
			spec += ".6"
		}
		return fmt.Appendf(b, "%"+spec+string(verb), f)
	case 'q':
		return c.m.quote(b, argStringValue(c, arg))
	case 's':
		s := argStringValue(c, arg)
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
		c.raise("%s", "invalid option '%' to 'format'")
	}
	c.raise("invalid option '%%%c' to 'format'", verb)
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

func argNumberValue(c *call, i int) float64 {
	formatArgument(c, i)
	return argNumber(c, i, "format")
}

func argStringValue(c *call, i int) string {
	formatArgument(c, i)
	return argString(c, i, "format")
}

func formatArgument(c *call, i int) {
	if i > c.top() {
		badArgument(c, i, "format", "no value")
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
