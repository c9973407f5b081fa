package sandbox

import (
	"math"
	"strconv"
	"strings"
)

// parseNumber reads a number as Lua 5.1 does, which is as C's strtod does. gopher-lua would take 010 for octal and 1_0 for 10.
func parseNumber(text string) (f float64, ok bool) {
	text = strings.Trim(text, " \t\n\v\f\r")
	if n := len(text); 0 < n && n < 16 {
		var i int64
		for j := 0; ; j++ {
			if j == n {
				return float64(i), true
			}
			digit := text[j] - '0'
			if digit > 9 {
				break
			}
			i = 10*i + int64(digit)
		}
	}
	sign, digits := 1.0, text
	if digits != "" && (digits[0] == '-' || digits[0] == '+') {
		if digits[0] == '-' {
			sign = -1
		}
		digits = digits[1:]
	}
	if len(digits) > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X') {
		if n, err := strconv.ParseUint(digits[2:], 16, 64); err == nil {
			return sign * float64(n), true
		}
		if !strings.ContainsAny(digits, "pP") {
			text += "p0"
		}
	}
	if strings.IndexByte(text, '_') >= 0 {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && err.(*strconv.NumError).Err != strconv.ErrRange {
		return 0, false
	}
	return f, true
}

// appendNumber prints a number as Lua does, C's %.14g, or as Redis prints one that becomes an argument, %.17g.
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

func numberString(f float64) string {
	var room [32]byte
	return string(appendNumber(room[:0], f, 14))
}

// truncate converts as C does on amd64: what does not fit becomes the least integer.
func truncate(f float64) int64 {
	const limit = 1 << 63
	if f >= -limit && f < limit {
		return int64(f)
	}
	return math.MinInt64
}
