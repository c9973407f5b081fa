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
	"gfind": stringGmatch, "gmatch": stringGmatch, "gsub": stringGsub, "match": stringFind, "rep": stringRep,
	"len":   func(c *call) int { return c.result(float64(len(c.argString(1)))) },
	"lower": stringMap(lowerASCII), "reverse": stringMap(slices.Reverse[[]byte]),
	"sub": stringSub, "upper": stringMap(upperASCII),
}

// fromBegin makes a distance from the end (negative) one from the begin; 1 is the first byte.
func fromBegin(i, length int) int {
	if i >= 0 {
		return i
	}
	return max(length+i+1, 0)
}

func stringByte(c *call) int {
	s := c.argString(1)
	i := fromBegin(c.optInt(2, 1), len(s))
	j := fromBegin(c.optInt(3, i), len(s))
	i, j = max(i, 1), min(j, len(s))
	if i > j {
		return 0
	}
	if j-i >= unpackMax {
		c.raise("string slice too long")
	}
	c.m.many(j - i + 1)
	for k := i; k <= j; k++ {
		c.push(float64(s[k-1]))
	}
	return j - i + 1
}

func stringChar(c *call) int {
	n := c.top()
	c.m.chargeString(n)
	b := make([]byte, n)
	for i := range b {
		n := c.argInt(i + 1)
		if n < 0 || n > 255 {
			c.badArgument(i+1, "invalid value")
		}
		b[i] = byte(n)
	}
	return c.result(string(b))
}

// stringMap is a function that makes a string of the same length.
func stringMap(f func(b []byte)) func(c *call) int {
	return func(c *call) int {
		s := c.argString(1)
		c.m.chargeString(len(s))
		b := []byte(s)
		f(b)
		return c.result(string(b))
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
	s, n := c.argString(1), c.argInt(2)
	if n <= 0 || s == "" {
		return c.result("")
	}
	if n > c.m.limits.Bytes {
		n = c.m.limits.Bytes + 1
	}
	c.m.chargeString(len(s) * n)
	return c.result(strings.Repeat(s, n))
}

func stringSub(c *call) int {
	s := c.argString(1)
	i, j := fromBegin(c.argInt(2), len(s)), fromBegin(c.optInt(3, -1), len(s))
	i, j = max(i, 1), min(j, len(s))
	if i > j {
		return c.result("")
	}
	return c.result(s[i-1 : j]) // shares the bytes of s
}

const patternSpecials = "^$*+?.([%-"

// stringFind is find, and match, which answers the captures only.
func stringFind(c *call) int {
	s, p := c.argString(1), c.argString(2)
	begin := fromBegin(c.optInt(3, 1), len(s)) - 1
	begin = min(max(begin, 0), len(s))
	c.m.step(len(p) / 16)
	if c.name == "find" && (truthy(c.get(4)) || !strings.ContainsAny(p, patternSpecials)) {
		c.m.step((len(s) - begin) / 16)
		if i := strings.Index(s[begin:], p); i >= 0 {
			return c.results(float64(begin+i+1), float64(begin+i+len(p)))
		}
		return c.result(nil)
	}
	f := finder{call: c, s: s}
	var anchored bool
	f.p, anchored = strings.CutPrefix(p, "^")
	for i := begin; i <= len(s); i++ {
		if end := f.start(i); end >= 0 {
			if c.name == "find" {
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
	return c.result(nil)
}

func stringGmatch(c *call) int {
	s, p := c.argString(1), c.argString(2)
	at := 0
	c.m.charge(2 * closureBytes)
	next := func(c *call) int {
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
	}
	return c.result(&function{native: &native{"gmatch", next}})
}

func stringGsub(c *call) int {
	s, p := c.argString(1), c.argString(2)
	with := c.get(3)
	switch v := with.(type) {
	case float64:
		with = numberString(v)
	case string, *table, *function:
	default:
		c.badArgument(3, "string/function/table expected")
	}
	most := c.optInt(4, len(s)+1)
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
			c.m.chargeString(len(b) - before)
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
	c.m.chargeString(len(b) + len(s) - i)
	return c.results(string(b)+s[i:], float64(n))
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
	format := c.argString(1)
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
		if arg++; arg > c.top() {
			c.badArgument(arg, "no value")
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
		before := len(b)
		b = formatOne(c, b, format[begin:min(i, len(format))], verb, arg)
		c.m.chargeString(len(b) - before)
	}
	c.m.chargeString(len(b))
	return c.result(string(b))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// formatOne appends one argument. Go's fmt has C's flags, widths and precisions, with these exceptions.
func formatOne(c *call, b []byte, spec string, verb byte, arg int) []byte {
	switch verb {
	case 'c':
		f, c := c.argNumber(arg), byte(0)
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
		return fmt.Appendf(b, "%"+spec+"d", truncate(c.argNumber(arg)))
	case 'u':
		return fmt.Appendf(b, "%"+spec+"d", unsigned(c.argNumber(arg)))
	case 'o', 'x', 'X':
		return fmt.Appendf(b, "%"+spec+string(verb), unsigned(c.argNumber(arg)))
	case 'e', 'E', 'f', 'g', 'G':
		f := c.argNumber(arg)
		if f-f != 0 { // infinite or not a number
			return fmt.Appendf(b, "%"+width(spec)+"s", appendNumber(nil, f, 14))
		}
		if (verb == 'g' || verb == 'G') && !strings.Contains(spec, ".") {
			spec += ".6"
		}
		return fmt.Appendf(b, "%"+spec+string(verb), f)
	case 'q':
		return c.m.quote(b, c.argString(arg))
	case 's':
		s := c.argString(arg)
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
