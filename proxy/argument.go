package proxy

import "strings"

// argument is one of a command that a client sends, in the read buffer, or that a script calls.
type argument interface{ []byte | string }

// equalFold compares an argument with a keyword, in any case. It does not allocate.
func equalFold[A argument](arg A, keyword string) bool {
	return len(arg) == len(keyword) && strings.EqualFold(string(arg), keyword)
}

// parseInteger reads an argument as Redis does: decimal digits, perhaps with a minus before them; no plus, no space, no
// leading zero.
func parseInteger[A argument](arg A) (n int64, ok bool) {
	digits := arg
	negative := len(arg) > 0 && arg[0] == '-'
	if negative {
		digits = arg[1:]
	}
	if len(digits) == 0 || digits[0] == '0' && len(arg) > 1 {
		return 0, false
	}
	for i := range len(digits) {
		// n is kept negative, because there is one more negative number than there are positive ones.
		const lowest = -1 << 63
		d := digits[i]
		digit := int64(d) - '0'
		if d < '0' || d > '9' || n < lowest/10 || n*10 < lowest+digit {
			return 0, false
		}
		n = n*10 - digit
	}
	if negative {
		return n, true
	}
	return -n, n != -1<<63
}
