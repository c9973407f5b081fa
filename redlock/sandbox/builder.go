package sandbox

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// newString makes a text of bytes that are on the stack of Go.
func (m *machine) newString(b []byte) string {
	m.charge(stringBytes + len(b))
	return string(b)
}

// builder makes one text. Nothing but builder and newString makes texts while a script runs
// (charged_test.go). It charges what Go is about to take, so that a text that is too large ends the run
// before it is made.
type builder struct {
	m *machine
	b strings.Builder
}

// grow makes room for n more bytes.
func (b *builder) grow(n int) {
	if n > b.b.Cap()-b.b.Len() {
		b.double(n)
	}
}

// double is grow where there is no room. strings.Builder takes twice the old room and n bytes then.
func (b *builder) double(n int) {
	b.m.charge(stringBytes + 2*b.b.Cap() + n)
	b.b.Grow(n)
}

// string is the text. It shares the room of the builder.
func (b *builder) string() string { return b.b.String() }

func (b *builder) byte(c byte) {
	b.grow(1)
	b.b.WriteByte(c)
}

func (b *builder) rune(r rune) {
	b.grow(utf8.UTFMax)
	b.b.WriteRune(r)
}

func (b *builder) text(s string) {
	b.grow(len(s))
	b.b.WriteString(s)
}

// mapped writes what f makes of each byte of s.
func (b *builder) mapped(s string, f func(c byte) byte) {
	b.grow(len(s))
	for i := range len(s) {
		b.b.WriteByte(f(s[i]))
	}
}

// repeat writes s n times. len(s)*n must fit into an int.
func (b *builder) repeat(s string, n int) {
	begin, total := b.b.Len(), len(s)*n
	if total <= 0 {
		return
	}
	b.grow(total)
	b.b.WriteString(s)
	for done := len(s); done < total; done = b.b.Len() - begin {
		b.b.WriteString(b.b.String()[begin : begin+min(done, total-done)])
	}
}

// number writes a number as appendNumber does.
func (b *builder) number(f float64, digits int) {
	var room [32]byte
	digitsOf := appendNumber(room[:0], f, digits)
	b.grow(len(digitsOf))
	b.b.Write(digitsOf)
}

// value writes a string or a number, which Lua takes for each other, and tells whether it is one.
func (b *builder) value(v value) bool {
	switch v := v.(type) {
	case string:
		b.text(v)
	case float64:
		b.number(v, 14)
	default:
		return false
	}
	return true
}

// formatMax is the longest text that format makes: %.99f of the greatest number, with some to spare.
const formatMax = 512

// format writes what fmt makes of numbers and of at most one byte, with widths and precisions of at most
// two digits.
func (b *builder) format(format string, args ...any) {
	var room [formatMax]byte
	text := fmt.Appendf(room[:0], format, args...)
	b.grow(len(text))
	b.b.Write(text)
}

// position writes "user_script:1: " for a line of the script, and nothing for line 0.
func (b *builder) position(line int) {
	if line > 0 {
		b.text(chunkName + ":")
		b.number(float64(line), 14)
		b.text(": ")
	}
}
