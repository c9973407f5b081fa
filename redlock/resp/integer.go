package resp

// ParseInt reads an integer as strictly as Redis does: decimal digits, perhaps a minus before them; no
// plus, no space, no leading zero, and nothing beyond 64 bits. So no two readers of one frame can
// disagree on a length. It does not allocate.
func ParseInt[T []byte | string](text T) (n int64, ok bool) {
	digits := text
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		digits = text[1:]
	}
	if len(digits) == 0 || digits[0] == '0' && len(text) > 1 {
		return 0, false
	}
	for i := range len(digits) {
		// n is kept negative, because there is one more negative number than there are positive ones.
		const lowest = -1 << 63
		d := digits[i]
		digit := int64(d) - '0'
		if d < '0' || d > '9' || i >= 18 && (n < lowest/10 || n*10 < lowest+digit) { // 18 digits fit
			return 0, false
		}
		n = n*10 - digit
	}
	switch {
	case negative:
		return n, true
	case n == -1<<63: // its positive does not fit
		return 0, false
	}
	return -n, true
}
