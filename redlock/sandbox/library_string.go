package sandbox

import (
	"math"
	"strconv"
	"strings"
)

var stringFunctions = map[string]func(c *call) int{
	"byte": stringByte, "char": stringChar, "find": stringFind, "format": stringFormat,
	"gfind": stringGmatch, "gmatch": stringGmatch, "gsub": stringGsub, "match": stringFind, "rep": stringRep,
	"len":   func(c *call) int { return c.result(float64(len(c.argString(1)))) },
	"lower": stringMap(lowerASCII), "reverse": stringReverse,
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
	b := builder{m: c.m}
	b.grow(c.top())
	for i := range c.top() {
		n := c.argInt(i + 1)
		if n < 0 || n > 255 {
			c.badArgument(i+1, "invalid value")
		}
		b.byte(byte(n))
	}
	return c.result(b.string())
}

// stringMap is a function that replaces each byte.
func stringMap(f func(c byte) byte) func(c *call) int {
	return func(c *call) int {
		s := c.argString(1)
		c.m.step(len(s) / 64)
		b := builder{m: c.m}
		b.mapped(s, f)
		return c.result(b.string())
	}
}

func lowerASCII(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func upperASCII(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

func stringReverse(c *call) int {
	s := c.argString(1)
	c.m.step(len(s) / 64)
	b := builder{m: c.m}
	b.grow(len(s))
	for i := len(s) - 1; i >= 0; i-- {
		b.byte(s[i])
	}
	return c.result(b.string())
}

func stringRep(c *call) int {
	s, n := c.argString(1), c.argInt(2)
	if n <= 0 || s == "" {
		return c.result("")
	}
	if n > c.m.limits.Bytes {
		n = c.m.limits.Bytes + 1
	}
	b := builder{m: c.m}
	b.repeat(s, n)
	return c.result(b.string())
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
		with = c.m.numberString(v, 14)
	case string, *table, *function:
	default:
		c.badArgument(3, "string/function/table expected")
	}
	most := c.optInt(4, len(s)+1)
	f := finder{call: c, s: s}
	var anchored bool
	f.p, anchored = strings.CutPrefix(p, "^")
	b := builder{m: c.m}
	b.grow(len(s) + 16) // of a lock's name and what is put in it, enough
	n, i := 0, 0
	for n < most {
		end := f.start(i)
		if end >= 0 {
			n++
			c.m.step(1) // an empty pattern takes none
			f.replacement(&b, i, end, with)
		}
		if end > i {
			i = end
		} else if i < len(s) {
			b.byte(s[i])
			i++
		} else {
			break
		}
		if anchored {
			break
		}
	}
	i = min(i, len(s))
	b.text(s[i:])
	return c.results(b.string(), float64(n))
}

// replacement writes what gsub puts in place of s[i:end].
func (f *finder) replacement(b *builder, i, end int, with value) {
	var v value
	switch w := with.(type) {
	case string:
		f.template(b, i, end, w)
		return
	case *table:
		v = f.m.index(w, f.capture(0, i, end), f.line)
	case *function:
		v = f.invoke(w, f.pushCaptures(i, end, true))
	}
	switch {
	case b.value(v):
	case truthy(v):
		f.raise("invalid replacement value (a %s)", typeName(v))
	default:
		b.text(f.s[i:end])
	}
}

// template writes a replacement in which %1 is the first capture.
func (f *finder) template(b *builder, i, end int, with string) {
	f.m.step(len(with) / 16)
	for k := 0; k < len(with); k++ {
		c := with[k]
		if c != '%' {
			b.byte(c)
			continue
		}
		k++
		switch {
		case k == len(with):
			b.byte(0) // as C's string ends with it
		case with[k] == '0':
			b.text(f.s[i:end])
		case '1' <= with[k] && with[k] <= '9':
			if text, position := f.captured(int(with[k]-'1'), i, end); position > 0 {
				b.number(float64(position), 14)
			} else {
				b.text(text)
			}
		default:
			b.byte(with[k])
		}
	}
}

// stringFormat is string.format: widths and precisions have at most two digits, as in Lua.
func stringFormat(c *call) int {
	format := c.argString(1)
	b := builder{m: c.m}
	b.grow(len(format))
	arg := 1
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.byte(format[i])
			continue
		}
		i++
		if i < len(format) && format[i] == '%' {
			b.byte('%')
			continue
		}
		c.m.step(1)
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
		c.formatOne(&b, format[begin:min(i, len(format))], verb, arg)
	}
	return c.result(b.string())
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// formatOne writes one argument. Go's fmt has C's flags, widths and precisions, with these exceptions.
// What it takes beside the text, a spec for fmt, is charged first.
func (c *call) formatOne(b *builder, spec string, verb byte, arg int) {
	c.m.charge(specBytes)
	switch verb {
	case 'c':
		f, char := c.argNumber(arg), byte(0)
		if math.Abs(f) < 1<<31 {
			char = byte(int(f))
		}
		switch {
		case char != 0:
			b.padded(c.m.newString([]byte{char}), spec)
		case !strings.Contains(spec, "-"): // it ends C's string
			b.repeat(" ", columns(spec)-1)
		}
	case 'd', 'i':
		b.format("%"+spec+"d", truncate(c.argNumber(arg)))
	case 'u':
		b.format("%"+spec+"d", unsigned(c.argNumber(arg)))
	case 'o', 'x', 'X':
		b.format("%"+spec+string(verb), unsigned(c.argNumber(arg)))
	case 'e', 'E', 'f', 'g', 'G':
		f := c.argNumber(arg)
		switch {
		case f-f != 0: // infinite or not a number
			b.padded(c.m.numberString(f, 14), spec)
		case (verb == 'g' || verb == 'G') && !strings.Contains(spec, "."):
			b.format("%"+spec+".6"+string(verb), f)
		default:
			b.format("%"+spec+string(verb), f)
		}
	case 'q':
		b.quote(c.argString(arg))
	case 's':
		s := c.argString(arg)
		_, precision, ok := strings.Cut(spec, ".")
		if !ok && len(s) >= 100 {
			b.text(s)
			return
		}
		if ok {
			n, _ := strconv.Atoi(precision) // none is 0
			s = s[:min(n, len(s))]          // bytes, where Go counts characters
		}
		s, _, _ = strings.Cut(s, "\x00") // C's string ends there
		b.padded(s, spec)
	case 0:
		c.raise("%s", "invalid option '%' to 'format'")
	default:
		c.raise("invalid option '%%%c' to 'format'", verb)
	}
}

// specBytes is what a spec for fmt takes, and what fmt takes for an argument.
const specBytes = 64

// padded writes a text in as many columns as a spec says, on the right or, with a minus, on the left.
func (b *builder) padded(s, spec string) {
	left := strings.Contains(spec, "-")
	if left {
		b.text(s)
	}
	b.repeat(" ", columns(spec)-len(s))
	if !left {
		b.text(s)
	}
}

// columns is the width that a spec has, or 0.
func columns(spec string) int {
	width, _, _ := strings.Cut(spec, ".")
	n, _ := strconv.Atoi(strings.TrimLeft(width, "-+ #0"))
	return n
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
func (b *builder) quote(s string) {
	b.m.step(len(s) / 64)
	b.grow(len(s) + 2)
	b.byte('"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '\n':
			b.byte('\\')
			b.byte(c)
		case '\r':
			b.text(`\r`)
		case 0:
			b.text(`\000`)
		default:
			b.byte(c)
		}
	}
	b.byte('"')
}
