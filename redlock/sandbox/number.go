package sandbox

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"redlockd/redlock/resp"
)

// parseNumber reads a number as Lua 5.1 does, which is as C's strtod does.
func parseNumber(text string) (f float64, ok bool) {
	text, _, _ = strings.Cut(text, "\x00") // C's string ends there
	text = strings.Trim(text, " \t\n\v\f\r")
	if n, ok := resp.ParseInt(text); ok {
		return float64(n), true
	}
	if f, _, ok = resp.ParseFloat(text); ok {
		return f, true
	}
	switch {
	case strings.EqualFold(text, "nan"), strings.EqualFold(text, "+nan"):
		return math.NaN(), true
	case strings.EqualFold(text, "-nan"):
		return math.Copysign(math.NaN(), -1), true
	}
	return 0, false
}

// parseUnsigned reads digits as C's strtoul does: what is too much is the greatest there is.
func parseUnsigned(digits string, base int) (u uint64, ok bool) {
	for i := range len(digits) {
		d := uint64(36)
		switch c := digits[i]; {
		case '0' <= c && c <= '9':
			d = uint64(c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			d = uint64(c|0x20-'a') + 10
		}
		if d >= uint64(base) {
			return 0, false
		}
		if high, low := bits.Mul64(u, uint64(base)); high > 0 || low > math.MaxUint64-d {
			u = math.MaxUint64
		} else if u != math.MaxUint64 {
			u = low + d
		}
	}
	return u, digits != ""
}

// appendNumber prints a number as Lua does, C's %.14g, or as Redis prints an argument, %.17g.
func appendNumber(b []byte, f float64, digits int) []byte {
	switch {
	case f == math.Trunc(f) && math.Abs(f) < 1e14 && (f != 0 || !math.Signbit(f)):
		return strconv.AppendInt(b, int64(f), 10)
	case math.IsInf(f, 1):
		return append(b, "inf"...)
	case math.IsInf(f, -1):
		return append(b, "-inf"...)
	case math.IsNaN(f):
		if math.Signbit(f) {
			return append(b, "-nan"...)
		}
		return append(b, "nan"...)
	}
	return strconv.AppendFloat(b, f, 'g', digits, 64)
}

func (m *machine) numberString(f float64, digits int) string {
	var room [32]byte
	return m.newString(appendNumber(room[:0], f, digits))
}

// truncate converts as C does on amd64: what does not fit becomes the least integer.
func truncate(f float64) int64 {
	const limit = 1 << 63
	if f >= -limit && f < limit {
		return int64(f)
	}
	return math.MinInt64
}

// asC gives a result that is not a number the sign that it has in C on amd64: that of the argument that
// is none, or a minus. Go's functions have none.
func asC(result, a, b float64) float64 {
	switch {
	case result == result:
		return result
	case a != a:
		return a
	case b != b:
		return b
	}
	return math.Copysign(result, -1)
}
