package resp

import (
	"math"
	"strconv"

	"github.com/tidwall/redcon"
)

// The writer. Every function appends to b and returns the result, as append does. Where RESP2 and RESP3
// differ, proto is the version that the reader has asked for with HELLO; 0 means 2.

// AppendOK appends the status OK.
func AppendOK(b []byte) []byte { return redcon.AppendOK(b) }

// AppendStatus appends a simple string. A line end in text becomes a space, because the reader would
// take the rest for a reply of its own.
func AppendStatus(b []byte, text string) []byte { return redcon.AppendString(b, text) }

// AppendError appends an error, which begins with its code ("ERR …"). A line end in text becomes a
// space.
func AppendError(b []byte, text string) []byte { return redcon.AppendError(b, text) }

// AppendInt appends an integer.
func AppendInt(b []byte, n int64) []byte { return redcon.AppendInt(b, n) }

// AppendBulk appends a bulk string, which may hold any bytes.
func AppendBulk(b, text []byte) []byte { return redcon.AppendBulk(b, text) }

// AppendBulkString appends a bulk string, which may hold any bytes.
func AppendBulkString(b []byte, text string) []byte { return redcon.AppendBulkString(b, text) }

// AppendBulkInt appends an integer as a bulk string, which is how a command carries a number.
func AppendBulkInt(b []byte, n int64) []byte {
	var digits [20]byte // room for the lowest int64: no allocation
	return redcon.AppendBulk(b, strconv.AppendInt(digits[:0], n, 10))
}

// AppendArray begins an array: its n elements are appended next.
func AppendArray(b []byte, n int) []byte { return redcon.AppendArray(b, n) }

// AppendNull appends the null of a reply that is otherwise a bulk string.
func AppendNull(b []byte, proto int) []byte {
	if proto >= 3 {
		return append(b, "_\r\n"...)
	}
	return redcon.AppendNull(b)
}

// AppendNullArray appends the null of a reply that is otherwise an array.
func AppendNullArray(b []byte, proto int) []byte {
	if proto >= 3 {
		return append(b, "_\r\n"...)
	}
	return append(b, "*-1\r\n"...)
}

// AppendMap begins a map of n pairs: in RESP2 it is an array of 2n elements.
func AppendMap(b []byte, proto, n int) []byte {
	if proto >= 3 {
		return appendHeader(b, '%', n)
	}
	return redcon.AppendArray(b, 2*n)
}

// AppendSet begins a set of n elements: in RESP2 it is an array.
func AppendSet(b []byte, proto, n int) []byte {
	if proto >= 3 {
		return appendHeader(b, '~', n)
	}
	return redcon.AppendArray(b, n)
}

// AppendPush begins an out-of-band message of n elements: in RESP2 it is an array.
func AppendPush(b []byte, proto, n int) []byte {
	if proto >= 3 {
		return appendHeader(b, '>', n)
	}
	return redcon.AppendArray(b, n)
}

// AppendVerbatim appends text with its format, three letters ("txt", "mkd"): in RESP2 it is a bulk
// string without the format.
func AppendVerbatim(b []byte, proto int, format, text string) []byte {
	if proto < 3 {
		return redcon.AppendBulkString(b, text)
	}
	b = appendHeader(b, '=', len(format)+1+len(text))
	b = append(append(b, format...), ':')
	return append(append(b, text...), "\r\n"...)
}

// AppendBool appends a truth value: in RESP2 it is 1 or 0.
func AppendBool(b []byte, proto int, yes bool) []byte {
	switch {
	case proto >= 3 && yes:
		return append(b, "#t\r\n"...)
	case proto >= 3:
		return append(b, "#f\r\n"...)
	case yes:
		return redcon.AppendInt(b, 1)
	}
	return redcon.AppendInt(b, 0)
}

// AppendDouble appends a floating-point number: in RESP2 it is a bulk string. The digits are those that
// Redis prints (C's %.17g).
func AppendDouble(b []byte, proto int, f float64) []byte {
	var room [32]byte
	digits := appendDigits(room[:0], f)
	if proto < 3 {
		return redcon.AppendBulk(b, digits)
	}
	return append(append(append(b, ','), digits...), "\r\n"...)
}

// appendDigits appends a number as C's %.17g does, and those without digits as Redis names them.
func appendDigits(b []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(b, "inf"...)
	case math.IsInf(f, -1):
		return append(b, "-inf"...)
	case math.IsNaN(f):
		return append(b, "-nan"...) // the sign that 0/0 has on amd64, where Redis was compared
	}
	return strconv.AppendFloat(b, f, 'g', 17, 64)
}

// appendHeader appends the first line of an aggregate that redcon does not know.
func appendHeader(b []byte, kind byte, n int) []byte {
	mark := len(b)
	b = redcon.AppendArray(b, n)
	b[mark] = kind
	return b
}
