package sandbox

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
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
	b := c.appendJSON(nil, c.get(1), 0)
	return c.result(string(b))
}

func (c *call) appendJSON(b []byte, v value, depth int) []byte {
	c.m.step(1)
	switch v := v.(type) {
	case string:
		return c.m.appendJSONString(b, v)
	case float64:
		if math.IsInf(v, 0) || v != v {
			c.raise("Cannot serialise number: must not be NaN or Inf")
		}
		c.m.charge(24)
		return appendNumber(b, v, 14)
	case bool:
		return strconv.AppendBool(b, v)
	case nil:
		return append(b, "null"...)
	case *userdata:
		if v == null {
			return append(b, "null"...)
		}
	case *table:
		return c.appendJSONTable(b, v, depth+1)
	}
	c.raise("Cannot serialise %s: type not supported", typeName(v))
	return b
}

func (c *call) appendJSONTable(b []byte, t *table, depth int) []byte {
	m := c.m
	if depth > jsonDepthMax {
		c.raise("Cannot serialise, excessive nesting (%d)", depth)
	}
	if n := c.jsonArray(t); n > 0 {
		b = append(b, '[')
		for i := 1; i <= n; i++ {
			if i > 1 {
				b = append(b, ',')
			}
			b = c.appendJSON(b, t.at(i), depth)
			m.charge(4)
		}
		return append(b, ']')
	}
	b = append(b, '{')
	first := true
	m.each(t, func(k, v value) {
		if !first {
			b = append(b, ',')
		}
		first = false
		switch k := k.(type) {
		case string:
			b = m.appendJSONString(b, k)
		case float64:
			b = m.appendJSONString(b, numberString(k))
		default:
			c.raise("Cannot serialise %s: table key must be a number or string", typeName(k))
		}
		m.charge(4)
		b = append(b, ':')
		b = c.appendJSON(b, v, depth)
	})
	return append(b, '}')
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

func (m *machine) appendJSONString(b []byte, s string) []byte {
	m.chargeString(len(s) + 2)
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '/':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\t':
			b = append(b, `\t`...)
		case '\n':
			b = append(b, `\n`...)
		case '\f':
			b = append(b, `\f`...)
		case '\r':
			b = append(b, `\r`...)
		default:
			if c < ' ' || c == 0x7f {
				m.charge(6)
				b = fmt.Appendf(b, `\u%04x`, c)
			} else {
				b = append(b, c)
			}
		}
	}
	return append(b, '"')
}

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
		if f, ok := parseNumber(d.s[d.at:end]); ok {
			d.at = end
			return f
		}
		d.m.step(1 + (end-d.at)/16)
	}
	d.fail("value", "invalid number")
	return nil
}

// escapes are the characters that stand behind a backslash, and what they mean, by turns.
const escapes = "\"\"\\\\//b\bf\fn\nr\rt\t"

func (d *decoder) text() string {
	var b []byte
	for i := d.at + 1; i < len(d.s); i++ {
		switch c := d.s[i]; c {
		case '"':
			d.m.chargeString(len(b))
			d.at = i + 1
			return string(b)
		case '\\':
			if i++; i < len(d.s) && d.s[i] == 'u' {
				r, n := codePoint(d.s[i-1:])
				if n == 0 {
					d.at = i - 1
					d.fail("value", "invalid unicode escape code")
				}
				b = utf8.AppendRune(b, r)
				i += n - 2
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
			b = append(b, escapes[at|1])
		default:
			b = append(b, c)
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
