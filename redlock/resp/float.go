package resp

import (
	"math"
	"strconv"
	"strings"
)

// ParseFloat reads a number as C's strtod does if all of text is one: infinity too, but nothing that is
// not a number. exact is false for one beyond the range of floats, of which infinity or 0 is made.
// strconv reads 1_0, which C does not, and wants an exponent behind hexadecimal digits.
func ParseFloat(text string) (f float64, exact, ok bool) {
	if strings.IndexByte(text, '_') >= 0 {
		return 0, false, false
	}
	digits := strings.ToLower(strings.TrimLeft(text, "+-"))
	exponent := "e"
	if strings.HasPrefix(digits, "0x") {
		if exponent = "p"; !strings.Contains(digits, exponent) {
			text += "p0"
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	beyond := err != nil && math.IsInf(f, 0)
	if err != nil && !beyond || math.IsNaN(f) {
		return 0, false, false
	}
	mantissa, _, _ := strings.Cut(digits, exponent)
	vanished := f == 0 && strings.ContainsAny(mantissa, "123456789abcdef")
	return f, !beyond && !vanished, true
}
