package proxy

import (
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// PrintableJSON returns JSON with the same values, in which all characters can be printed. Names that
// clients choose may contain control characters of C1 and those that turn the direction of the text,
// which encoding/json leaves as they are: on a terminal they would change what an operator reads.
//
// Behind ASCII, JSON has characters in strings only, where each may be written as an escape.
func PrintableJSON(text []byte) []byte {
	var out []byte // nil: nothing was escaped so far
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		escape := r >= 0x7f && !unicode.IsPrint(r)
		if escape && out == nil {
			out = append(out, text[:i]...)
		}
		switch high, low := utf16.EncodeRune(r); {
		case escape && r > 0xffff:
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		case escape:
			out = fmt.Appendf(out, `\u%04x`, r)
		case out != nil:
			out = append(out, text[i:i+size]...)
		}
		i += size
	}
	if out == nil {
		return text
	}
	return out
}
