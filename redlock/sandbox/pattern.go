package sandbox

import "strings"

// Patterns of Lua 5.1 (Reference Manual, section 5.4.1). A short one can run for ever: each step counts
// as an instruction.

const (
	patternCapturesMax = 32  // as in Lua
	patternDepthMax    = 200 // nested attempts; C Lua allows as many
)

// A capture's length while it has none.
const (
	captureOpen     = -1
	capturePosition = -2 // () captures where it stands
)

// finder matches one pattern at positions of one string.
type finder struct {
	*call
	s, p     string
	depth    int
	captures int
	begin    [patternCapturesMax]int
	length   [patternCapturesMax]int
}

// start matches at s[i] and returns where the match ends, or -1.
func (f *finder) start(i int) int {
	f.captures, f.depth = 0, 0
	return f.match(i, 0)
}

// match matches s[i:] with p[j:].
func (f *finder) match(i, j int) int {
	if f.depth++; f.depth > patternDepthMax {
		f.raise("pattern too complex")
	}
	defer func() { f.depth-- }()
	for j < len(f.p) {
		f.m.step(1)
		switch c := f.p[j]; {
		case c == '(':
			if j+1 < len(f.p) && f.p[j+1] == ')' {
				return f.open(i, j+2, capturePosition)
			}
			return f.open(i, j+1, captureOpen)
		case c == ')':
			return f.close(i, j+1)
		case c == '$' && j+1 == len(f.p):
			if i == len(f.s) {
				return i
			}
			return -1
		case c == '%' && j+1 < len(f.p) && f.p[j+1] == 'b':
			if i = f.balance(i, j+2); i < 0 {
				return -1
			}
			j += 4
			continue
		case c == '%' && j+1 < len(f.p) && f.p[j+1] == 'f':
			j += 2
			if j >= len(f.p) || f.p[j] != '[' {
				f.raise("missing '[' after '%%f' in pattern")
			}
			end := f.classEnd(j)
			if f.set(f.at(i-1), j, end-1) || !f.set(f.at(i), j, end-1) {
				return -1
			}
			j = end
			continue
		case c == '%' && j+1 < len(f.p) && isDigit(f.p[j+1]):
			if i = f.back(i, f.p[j+1]); i < 0 {
				return -1
			}
			j += 2
			continue
		}
		end := f.classEnd(j)
		if end < len(f.p) {
			switch f.p[end] {
			case '?':
				if f.single(i, j, end) {
					if r := f.match(i+1, end+1); r >= 0 {
						return r
					}
				}
				j = end + 1
				continue
			case '*':
				return f.longest(i, j, end)
			case '+':
				if !f.single(i, j, end) {
					return -1
				}
				return f.longest(i+1, j, end)
			case '-':
				return f.shortest(i, j, end)
			}
		}
		if !f.single(i, j, end) {
			return -1
		}
		i, j = i+1, end
	}
	return i
}

// at is the byte at i, 0 at the ends.
func (f *finder) at(i int) byte {
	if i < 0 || i >= len(f.s) {
		return 0
	}
	return f.s[i]
}

// classEnd is the end of the single character class at p[j].
func (f *finder) classEnd(j int) int {
	c, begin := f.p[j], j
	j++
	switch c {
	case '%':
		if j >= len(f.p) {
			f.raise("malformed pattern (ends with '%%')")
		}
		return j + 1
	case '[':
		if j < len(f.p) && f.p[j] == '^' {
			j++
		}
		for first := true; first || j >= len(f.p) || f.p[j] != ']'; first = false {
			if j >= len(f.p) {
				f.raise("malformed pattern (missing ']')")
			}
			if f.p[j] == '%' {
				j++
			}
			j++
		}
		f.m.step((j - begin) / 8)
		return j + 1
	}
	return j
}

// single tells whether the class p[j:end] has s[i].
func (f *finder) single(i, j, end int) bool {
	if i >= len(f.s) {
		return false
	}
	c := f.s[i]
	switch f.p[j] {
	case '.':
		return true
	case '%':
		return inClass(c, f.p[j+1])
	case '[':
		f.m.step((end - j) / 8)
		return f.set(c, j, end-1)
	}
	return f.p[j] == c
}

// set tells whether the set p[j:end], from its [ to before its ], has c.
func (f *finder) set(c byte, j, end int) bool {
	j++
	has := true
	if j < end && f.p[j] == '^' {
		has = false
		j++
	}
	for ; j < end; j++ {
		switch {
		case f.p[j] == '%' && j+1 < end:
			j++
			if inClass(c, f.p[j]) {
				return has
			}
		case j+2 < end && f.p[j+1] == '-':
			if f.p[j] <= c && c <= f.p[j+2] {
				return has
			}
			j += 2
		case f.p[j] == c:
			return has
		}
	}
	return !has
}

// inClass is %a, %d and so on; a capital is the rest. Of what is no class it is the character itself.
func inClass(c, class byte) bool {
	lower := class | 0x20
	letter := 'a' <= c|0x20 && c|0x20 <= 'z'
	graphic := ' ' < c && c < 0x7f
	var in bool
	switch lower {
	case 'a':
		in = letter
	case 'c':
		in = c < ' ' || c == 0x7f
	case 'd':
		in = isDigit(c)
	case 'l':
		in = 'a' <= c && c <= 'z'
	case 'p':
		in = graphic && !letter && !isDigit(c)
	case 's':
		in = c == ' ' || '\t' <= c && c <= '\r'
	case 'u':
		in = 'A' <= c && c <= 'Z'
	case 'w':
		in = letter || isDigit(c)
	case 'x':
		in = isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f'
	case 'z':
		in = c == 0
	default:
		return c == class
	}
	if 'A' <= class && class <= 'Z' {
		return !in
	}
	if class < 'a' { // a sign that only looks like a class with that bit set
		return c == class
	}
	return in
}

// longest is class*: as many as there are, then fewer.
func (f *finder) longest(i, j, end int) int {
	n := 0
	for f.single(i+n, j, end) {
		f.m.step(1)
		n++
	}
	for ; n >= 0; n-- {
		if r := f.match(i+n, end+1); r >= 0 {
			return r
		}
	}
	return -1
}

// shortest is class-.
func (f *finder) shortest(i, j, end int) int {
	for {
		if r := f.match(i, end+1); r >= 0 {
			return r
		}
		if !f.single(i, j, end) {
			return -1
		}
		i++
	}
}

// balance is %bxy, with xy at p[j].
func (f *finder) balance(i, j int) int {
	if j+1 >= len(f.p) {
		f.raise("unbalanced pattern")
	}
	open, shut := f.p[j], f.p[j+1]
	if i >= len(f.s) || f.s[i] != open {
		return -1
	}
	depth := 1
	for k := i + 1; k < len(f.s); k++ {
		f.m.step(1)
		switch f.s[k] {
		case shut:
			if depth--; depth == 0 {
				return k + 1
			}
		case open:
			depth++
		}
	}
	return -1
}

func (f *finder) open(i, j, length int) int {
	if f.captures >= patternCapturesMax {
		f.raise("too many captures")
	}
	f.begin[f.captures], f.length[f.captures] = i, length
	f.captures++
	r := f.match(i, j)
	if r < 0 {
		f.captures--
	}
	return r
}

func (f *finder) close(i, j int) int {
	for k := f.captures - 1; k >= 0; k-- {
		if f.length[k] != captureOpen {
			continue
		}
		f.length[k] = i - f.begin[k]
		r := f.match(i, j)
		if r < 0 {
			f.length[k] = captureOpen
		}
		return r
	}
	f.raise("invalid pattern capture")
	return -1
}

// back is %1: the text of a capture again.
func (f *finder) back(i int, digit byte) int {
	k := int(digit) - '1'
	if k < 0 || k >= f.captures || f.length[k] == captureOpen {
		f.raise("invalid capture index")
	}
	if f.length[k] == capturePosition {
		return -1
	}
	text := f.s[f.begin[k] : f.begin[k]+f.length[k]]
	f.m.step(len(text) / 16)
	if !strings.HasPrefix(f.s[i:], text) {
		return -1
	}
	return i + len(text)
}

// captured is the text of a capture, or its position, from 1. Where there are none, the first is the
// whole match s[i:end].
func (f *finder) captured(k, i, end int) (text string, position int) {
	switch {
	case k >= f.captures && k == 0:
		return f.s[i:end], 0
	case k >= f.captures:
		f.raise("invalid capture index")
	case f.length[k] == captureOpen:
		f.raise("unfinished capture")
	case f.length[k] == capturePosition:
		return "", f.begin[k] + 1
	}
	return f.s[f.begin[k] : f.begin[k]+f.length[k]], 0
}

// capture is captured as a value.
func (f *finder) capture(k, i, end int) value {
	text, position := f.captured(k, i, end)
	if position > 0 {
		return float64(position)
	}
	return text
}

// pushCaptures pushes all captures, and the whole match if there are none and it is wanted.
func (f *finder) pushCaptures(i, end int, whole bool) int {
	n := f.captures
	if n == 0 && whole {
		n = 1
	}
	for k := range n {
		f.push(f.capture(k, i, end))
	}
	return n
}
