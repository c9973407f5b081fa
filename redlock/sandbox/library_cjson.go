package sandbox

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The library cjson with the defaults of the one in Redis: nesting to 1000, numbers as %.14g, arrays with few holes.
const (
	jsonDepthMax  = 1000
	jsonSparseMin = 10 // an array may have any holes up to this index,
	jsonSparse    = 2  // and beyond it so many elements per one that there is
)

var null = &userdata{}

func cjsonEncode(c *call) int {
	if c.top() != 1 {
		badArgument(c, 1, "encode", "expected 1 argument")
	}
	b := c.appendJSON(nil, c.get(1), 0)
	c.push(string(b))
	return 1
}

func (c *call) appendJSON(b []byte, v value, depth int) []byte {
	m := c.m
	m.step(1)
	switch v := v.(type) {
	case string:
		return m.appendJSONString(b, v)
	case float64:
		if math.IsInf(v, 0) || v != v {
			c.raise("Cannot serialise number: must not be NaN or Inf")
		}
		m.charge(24)
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
		c.raise("Cannot serialise, excessive depth (%d)", depth)
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

// jsonArray is the length of a table that is an array: all its keys are positive integers. Otherwise it is 0.
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
	m := c.m
	if c.top() != 1 {
		badArgument(c, 1, "decode", "expected 1 argument")
	}
	d := &decoder{call: c, s: argString(c, 1, "decode")}
	m.step(len(d.s) / 8)
	d.next()
	v := d.value(0)
	if d.next(); d.kind != tokenEnd {
		d.fail("the end")
	}
	c.push(v)
	return 1
}

// Kinds of tokens, by the names that errors give them.
const (
	tokenEnd       = "T_END"
	tokenObject    = "T_OBJ_BEGIN"
	tokenObjectEnd = "T_OBJ_END"
	tokenArray     = "T_ARR_BEGIN"
	tokenArrayEnd  = "T_ARR_END"
	tokenString    = "T_STRING"
	tokenNumber    = "T_NUMBER"
	tokenBoolean   = "T_BOOLEAN"
	tokenNull      = "T_NULL"
	tokenColon     = "T_COLON"
	tokenComma     = "T_COMMA"
	tokenInvalid   = "invalid token"
)

type decoder struct {
	*call
	s     string
	at    int
	kind  string // of the current token
	begin int
	v     value
}

func (d *decoder) fail(expected string) {
	d.raise("Expected %s but found %s at character %d", expected, d.kind, d.begin+1)
}

// next reads a token.
func (d *decoder) next() {
	for d.at < len(d.s) && (d.s[d.at] == ' ' || '\t' <= d.s[d.at] && d.s[d.at] <= '\r' && d.s[d.at] != '\v') {
		d.at++
	}
	d.begin = d.at
	if d.at == len(d.s) {
		d.kind = tokenEnd
		return
	}
	switch c := d.s[d.at]; {
	case c == '"':
		d.text()
		return
	case c == '-' || isDigit(c):
		d.number()
		return
	default:
		if kind, ok := map[byte]string{'{': tokenObject, '}': tokenObjectEnd, '[': tokenArray, ']': tokenArrayEnd,
			':': tokenColon, ',': tokenComma}[c]; ok {
			d.kind = kind
			d.at++
			return
		}
	}
	for _, word := range []struct {
		text, kind string
		v          value
	}{{"true", tokenBoolean, true}, {"false", tokenBoolean, false}, {"null", tokenNull, null}} {
		if strings.HasPrefix(d.s[d.at:], word.text) {
			d.kind, d.v = word.kind, word.v
			d.at += len(word.text)
			return
		}
	}
	d.kind = tokenInvalid
}

func (d *decoder) number() {
	end := d.at + 1
	for end < len(d.s) {
		if c := d.s[end]; !isDigit(c) && c != '.' && c != '+' && c != '-' && c|0x20 != 'x' && (c|0x20 < 'a' || c|0x20 > 'f') {
			break
		}
		end++
	}
	// C's strtod reads as far as it can.
	for ; end > d.at; end-- {
		if f, ok := parseNumber(d.s[d.at:end]); ok {
			d.kind, d.v, d.at = tokenNumber, float64(f), end
			return
		}
		d.m.step(1 + (end-d.at)/16)
	}
	d.kind = tokenInvalid
}

func (d *decoder) text() {
	var b []byte
	for i := d.at + 1; i < len(d.s); i++ {
		c := d.s[i]
		if c == '"' {
			d.m.chargeString(len(b))
			d.kind, d.v, d.at = tokenString, string(b), i+1
			return
		}
		if c != '\\' {
			b = append(b, c)
			continue
		}
		if i++; i == len(d.s) {
			break
		}
		switch c := d.s[i]; c {
		case '"', '\\', '/':
			b = append(b, c)
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			r, n := codePoint(d.s[i-1:])
			if n == 0 {
				d.kind, d.begin = "invalid unicode escape code", i-1
				return
			}
			b = utf8.AppendRune(b, r)
			i += n - 2
		default:
			d.kind, d.begin = "invalid escape code", i-1
			return
		}
	}
	d.kind, d.begin = "unexpected end of string", len(d.s)
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

// value reads the value whose first token is the current one.
func (d *decoder) value(depth int) value {
	d.m.step(1)
	switch d.kind {
	case tokenString, tokenNumber, tokenBoolean, tokenNull:
		return d.v
	case tokenObject, tokenArray:
		if depth++; depth > jsonDepthMax {
			d.raise("Found too many nested data structures (%d) at character %d", depth, d.begin+1)
		}
		if d.kind == tokenObject {
			return d.object(depth)
		}
		return d.array(depth)
	}
	d.fail("value")
	return nil
}

func (d *decoder) object(depth int) value {
	t := d.m.table(0, 0)
	if d.next(); d.kind == tokenObjectEnd {
		return t
	}
	for {
		if d.kind != tokenString {
			d.fail("object key string")
		}
		key := d.v
		if d.next(); d.kind != tokenColon {
			d.fail("colon")
		}
		d.next()
		t.set(d.m, key, d.value(depth))
		switch d.next(); d.kind {
		case tokenObjectEnd:
			return t
		case tokenComma:
			d.next()
		default:
			d.fail("comma or object end")
		}
	}
}

func (d *decoder) array(depth int) value {
	t := d.m.table(0, 0)
	if d.next(); d.kind == tokenArrayEnd {
		return t
	}
	for {
		t.append(d.m, d.value(depth))
		switch d.next(); d.kind {
		case tokenArrayEnd:
			return t
		case tokenComma:
			d.next()
		default:
			d.fail("comma or array end")
		}
	}
}
