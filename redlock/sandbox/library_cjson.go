package sandbox

import (
	"math"
	"strconv"
	"strings"
)

// The library cjson with the defaults of the one in Redis: nesting to 1000, numbers as %.14g, arrays
// with few holes.
const (
	jsonDepthMax  = 1000
	jsonSparseMin = 10 // an array may have any holes up to this index,
	jsonSparse    = 2  // and beyond it so many elements per one that there is
)

var null = &userdata{}

func cjsonEncode(c *call) int {
	if c.top() != 1 {
		c.badArgument(1, "expected 1 argument")
	}
	e := encoder{call: c, builder: builder{m: c.m}}
	e.value(c.get(1), 0)
	return c.result(e.string())
}

// encoder writes one value after another.
type encoder struct {
	*call
	builder
}

func (e *encoder) value(v value, depth int) {
	e.call.m.step(1)
	switch v := v.(type) {
	case string:
		e.quoted(v)
	case float64:
		if math.IsInf(v, 0) || v != v {
			e.raise("Cannot serialise number: must not be NaN or Inf")
		}
		e.number(v, 14)
	case bool:
		e.text(e.call.m.text(v))
	case nil:
		e.text("null")
	case *userdata: // cjson.null
		e.text("null")
	case *table:
		e.table(v, depth+1)
	default:
		e.raise("Cannot serialise %s: type not supported", typeName(v))
	}
}

func (e *encoder) table(t *table, depth int) {
	if depth > jsonDepthMax {
		e.raise("Cannot serialise, excessive nesting (%d)", depth)
	}
	if n := e.jsonArray(t); n > 0 {
		e.byte('[')
		for i := 1; i <= n; i++ {
			if i > 1 {
				e.byte(',')
			}
			e.value(t.at(i), depth)
		}
		e.byte(']')
		return
	}
	e.byte('{')
	first := true
	e.call.m.each(t, func(k, v value) {
		if !first {
			e.byte(',')
		}
		first = false
		switch k := k.(type) {
		case string:
			e.quoted(k)
		case float64:
			e.byte('"')
			e.number(k, 14)
			e.byte('"')
		default:
			e.raise("Cannot serialise %s: table key must be a number or string", typeName(k))
		}
		e.byte(':')
		e.value(v, depth)
	})
	e.byte('}')
}

// jsonArray is the length of an array, a table whose keys are all positive integers, and else 0.
func (c *call) jsonArray(t *table) int {
	greatest, elements, array := 0.0, 0.0, true
	c.m.each(t, func(k, _ value) {
		n, ok := k.(float64)
		if !ok || n < 1 || n != math.Floor(n) {
			array = false
		}
		greatest = max(greatest, n)
		elements++
	})
	if !array {
		return 0
	}
	if greatest > elements*jsonSparse && greatest > jsonSparseMin {
		c.raise("Cannot serialise table: excessively sparse array")
	}
	return int(greatest)
}

// quoted writes a string as JSON has it.
func (e *encoder) quoted(s string) {
	e.call.m.step(len(s) / 64)
	e.grow(len(s) + 2)
	e.byte('"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '/':
			e.byte('\\')
			e.byte(c)
		case '\b':
			e.text(`\b`)
		case '\t':
			e.text(`\t`)
		case '\n':
			e.text(`\n`)
		case '\f':
			e.text(`\f`)
		case '\r':
			e.text(`\r`)
		default:
			if c < ' ' || c == 0x7f {
				e.text(`\u00`)
				e.byte(hexDigits[c>>4])
				e.byte(hexDigits[c&15])
			} else {
				e.byte(c)
			}
		}
	}
	e.byte('"')
}

const hexDigits = "0123456789abcdef"

func cjsonDecode(c *call) int {
	if c.top() != 1 {
		c.badArgument(1, "expected 1 argument")
	}
	d := &decoder{call: c, s: c.argString(1)}
	c.m.step(len(d.s) / 8)
	v := d.value(0)
	if d.space() < len(d.s) {
		d.fail("the end", d.token())
	}
	return c.result(v)
}

// decoder reads one value after another from s.
type decoder struct {
	*call
	s  string
	at int
}

func (d *decoder) fail(expected, found string) {
	d.raise("Expected %s but found %s at character %d", expected, found, d.at+1)
}

// space goes behind white space, and returns where that is.
func (d *decoder) space() int {
	for d.at < len(d.s) && strings.IndexByte(" \t\n\f\r", d.s[d.at]) >= 0 {
		d.at++
	}
	return d.at
}

// skip goes behind white space and one of these characters, and returns that, or 0 for none.
func (d *decoder) skip(chars string) byte {
	if d.space() == len(d.s) || strings.IndexByte(chars, d.s[d.at]) < 0 {
		return 0
	}
	d.at++
	return d.s[d.at-1]
}

// token is what cjson calls what comes next.
func (d *decoder) token() string {
	if d.at == len(d.s) {
		return "T_END"
	}
	rest := d.s[d.at:]
	switch c := rest[0]; {
	case c == '{':
		return "T_OBJ_BEGIN"
	case c == '}':
		return "T_OBJ_END"
	case c == '[':
		return "T_ARR_BEGIN"
	case c == ']':
		return "T_ARR_END"
	case c == ':':
		return "T_COLON"
	case c == ',':
		return "T_COMMA"
	case c == '"':
		return "T_STRING"
	case c == '-' || isDigit(c):
		return "T_NUMBER"
	case strings.HasPrefix(rest, "true"), strings.HasPrefix(rest, "false"):
		return "T_BOOLEAN"
	case strings.HasPrefix(rest, "null"):
		return "T_NULL"
	}
	return "invalid token"
}

func (d *decoder) value(depth int) value {
	d.m.step(1)
	d.space()
	switch token := d.token(); token {
	case "T_STRING":
		return d.text()
	case "T_NUMBER":
		return d.number()
	case "T_BOOLEAN":
		isTrue := d.s[d.at] == 't'
		d.at += len("true")
		if !isTrue {
			d.at++
		}
		return isTrue
	case "T_NULL":
		d.at += len("null")
		return null
	case "T_OBJ_BEGIN", "T_ARR_BEGIN":
		if depth++; depth > jsonDepthMax {
			d.raise("Found too many nested data structures (%d) at character %d", depth, d.at+1)
		}
		d.at++
		t := d.m.table(0, 0)
		if token == "T_OBJ_BEGIN" {
			d.object(t, depth)
		} else {
			d.array(t, depth)
		}
		return t
	default:
		d.fail("value", token)
		return nil
	}
}

func (d *decoder) object(t *table, depth int) {
	for end := d.skip("}"); end != '}'; {
		d.space()
		if token := d.token(); token != "T_STRING" {
			d.fail("object key string", token)
		}
		key := d.text()
		if d.skip(":") == 0 {
			d.fail("colon", d.token())
		}
		t.set(d.m, key, d.value(depth))
		if end = d.skip(",}"); end == 0 {
			d.fail("comma or object end", d.token())
		}
	}
}

func (d *decoder) array(t *table, depth int) {
	for end := d.skip("]"); end != ']'; {
		t.append(d.m, d.value(depth))
		if end = d.skip(",]"); end == 0 {
			d.fail("comma or array end", d.token())
		}
	}
}

// number reads as far as C's strtod can.
func (d *decoder) number() value {
	end := d.at + 1
	for end < len(d.s) {
		if c := d.s[end]; !isDigit(c) && strings.IndexByte(".+-xX", c) < 0 && (c|0x20 < 'a' || c|0x20 > 'f') {
			break
		}
		end++
	}
	for ; end > d.at; end-- {
		d.m.step((end - d.at) / 16)
		d.m.charge(parseBytes * (end - d.at))
		if f, ok := parseNumber(d.s[d.at:end]); ok {
			d.at = end
			return f
		}
		d.m.step(1)
	}
	d.fail("value", "invalid number")
	return nil
}

// escapes are the characters that stand behind a backslash, and what they mean, by turns.
const escapes = "\"\"\\\\//b\bf\fn\nr\rt\t"

// text reads a string. One without escapes shares the bytes of s.
func (d *decoder) text() string {
	b := builder{m: d.m}
	begin := d.at + 1 // of what is not in b yet
	for i := begin; i < len(d.s); i++ {
		switch c := d.s[i]; c {
		case '"':
			d.at = i + 1
			if b.b.Len() == 0 {
				return d.s[begin:i]
			}
			b.text(d.s[begin:i])
			return b.string()
		case '\\':
			b.text(d.s[begin:i])
			if i++; i < len(d.s) && d.s[i] == 'u' {
				r, n := codePoint(d.s[i-1:])
				if n == 0 {
					d.at = i - 1
					d.fail("value", "invalid unicode escape code")
				}
				b.rune(r)
				i += n - 2
				begin = i + 1
				continue
			}
			at := -1
			if i < len(d.s) {
				at = strings.IndexByte(escapes, d.s[i])
			}
			if at < 0 || at%2 == 1 {
				d.at = i - 1
				d.fail("value", "invalid escape code")
			}
			b.byte(escapes[at|1])
			begin = i + 1
		}
	}
	d.at = len(d.s)
	d.fail("value", "unexpected end of string")
	return ""
}

// codePoint reads \u0041, or two of them that are a surrogate pair, at the start of s.
func codePoint(s string) (r rune, length int) {
	hex := func(s string) rune {
		if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(s[2:6], 16, 16)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	r = hex(s)
	switch {
	case r < 0 || r&0xfc00 == 0xdc00:
		return 0, 0
	case r&0xfc00 == 0xd800:
		low := hex(s[6:])
		if low < 0 || low&0xfc00 != 0xdc00 {
			return 0, 0
		}
		return 0x10000 + (r&0x3ff)<<10 + low&0x3ff, 12
	}
	return r, 6
}
