package config

import (
	"strconv"
	"strings"
)

// keyLines finds the line on which each key of a TOML document stands, by its full name: "locks.max_ttl",
// "masters[1].addr" for tables in lists, "masters[1]" for the members of a list themselves. The toml library tells
// positions of syntax errors only, so the faults that we find ourselves are located here.
//
// The document must be one that the library has accepted. On anything else the result is incomplete, never a panic.
func keyLines(document string) map[string]int {
	s := &keyScanner{text: document, line: 1, lines: make(map[string]int), members: make(map[string]int)}
	s.document()
	return s.lines
}

type keyScanner struct {
	text    string
	at      int // byte offset of what comes next
	line    int // its line, counted from 1
	lines   map[string]int
	members map[string]int // of each list of tables so far
}

// document reads headings and statements to the end.
func (s *keyScanner) document() {
	table := ""
	for {
		s.skipBlank(true)
		switch start := s.at; {
		case s.at >= len(s.text):
			return
		case s.take("[["):
			list := s.inside(s.keyPath())
			table = list + "[" + strconv.Itoa(s.members[list]) + "]"
			s.members[list]++
			s.note(table)
			s.take("]]")
		case s.take("["):
			table = s.inside(s.keyPath())
			s.take("]")
		default:
			s.statement(table)
			if s.at == start {
				return // not TOML
			}
		}
	}
}

// inside notes and completes a heading's path: below a list of tables, it means the list's last member so far.
func (s *keyScanner) inside(path []string) string {
	name := ""
	for i, part := range path {
		name = join(name, part)
		s.note(name)
		if n := s.members[name]; n > 0 && i < len(path)-1 {
			name += "[" + strconv.Itoa(n-1) + "]"
		}
	}
	return name
}

// statement reads key = value.
func (s *keyScanner) statement(table string) {
	name := table
	for _, part := range s.keyPath() {
		name = join(name, part)
		s.note(name)
	}
	s.skipBlank(false)
	if s.take("=") {
		s.skipBlank(false)
		s.value(name)
	}
}

// value skips a value and notes the keys in it.
func (s *keyScanner) value(name string) {
	switch {
	case s.at >= len(s.text):
	case s.take(`"""`):
		s.skipString(`"""`, true)
	case s.take(`'''`):
		s.skipString(`'''`, false)
	case s.take(`"`):
		s.skipString(`"`, true)
	case s.take(`'`):
		s.skipString(`'`, false)
	case s.take("["):
		for i := 0; s.nextMember("]"); i++ {
			member := name + "[" + strconv.Itoa(i) + "]"
			s.note(member)
			s.value(member)
		}
	case s.take("{"):
		for start := -1; s.nextMember("}") && s.at > start; {
			start = s.at
			s.statement(name)
		}
	default:
		for s.at < len(s.text) && !strings.ContainsRune(",]}#\r\n", rune(s.text[s.at])) {
			s.at++
		}
	}
}

// nextMember skips to the next member of a list or an inline table; false: it ended, or nothing came that we understand.
func (s *keyScanner) nextMember(end string) bool {
	s.skipBlank(true)
	if s.take(",") {
		s.skipBlank(true)
	}
	if s.at >= len(s.text) || s.take(end) {
		return false
	}
	return !strings.ContainsRune("]}=,", rune(s.text[s.at]))
}

// skipString skips to behind the end mark. An escaped quote does not end a basic string.
func (s *keyScanner) skipString(mark string, escapes bool) {
	for s.at < len(s.text) {
		switch {
		case escapes && s.text[s.at] == '\\':
			s.step()
			s.step()
		case s.take(mark):
			// The text of a multi-line string may itself end in one or two quotes: """ she said "no""""".
			for len(mark) == 3 && s.take(mark[:1]) {
			}
			return
		default:
			s.step()
		}
	}
}

// keyPath reads a dotted key.
func (s *keyScanner) keyPath() []string {
	var path []string
	for {
		s.skipBlank(false)
		start := s.at
		switch {
		case s.take(`"`):
			s.skipString(`"`, true)
			path = append(path, strings.Trim(s.text[start:s.at], `"`))
		case s.take(`'`):
			s.skipString(`'`, false)
			path = append(path, strings.Trim(s.text[start:s.at], `'`))
		default:
			for s.at < len(s.text) && !strings.ContainsRune(" \t.=]\r\n\"'#,{}[", rune(s.text[s.at])) {
				s.at++
			}
			if s.at == start {
				return path
			}
			path = append(path, s.text[start:s.at])
		}
		s.skipBlank(false)
		if !s.take(".") {
			return path
		}
	}
}

// skipBlank skips spaces and, with newlines, comments and line ends.
func (s *keyScanner) skipBlank(newlines bool) {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == ' ' || c == '\t' || c == '\r':
			s.at++
		case c == '\n' && newlines:
			s.step()
		case c == '#' && newlines:
			for s.at < len(s.text) && s.text[s.at] != '\n' {
				s.at++
			}
		default:
			return
		}
	}
}

// step goes over one byte and counts lines.
func (s *keyScanner) step() {
	if s.at >= len(s.text) {
		return
	}
	if s.text[s.at] == '\n' {
		s.line++
	}
	s.at++
}

func (s *keyScanner) take(token string) bool {
	if !strings.HasPrefix(s.text[s.at:], token) {
		return false
	}
	s.at += len(token)
	return true
}

// note keeps the first line on which a name stands.
func (s *keyScanner) note(name string) {
	if s.lines[name] == 0 {
		s.lines[name] = s.line
	}
}

func join(table, key string) string {
	if table == "" {
		return key
	}
	return table + "." + key
}

// lineOf is the line of a name, or of the nearest thing around it whose line is known; 0 when there is none.
func lineOf(lines map[string]int, name string) int {
	for name != "" {
		if line := lines[name]; line > 0 {
			return line
		}
		name = name[:max(strings.LastIndexAny(name, ".["), 0)]
	}
	return lines[""] // TOML allows an empty key
}
