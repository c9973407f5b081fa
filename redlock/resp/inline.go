package resp

import "bytes"

// Inline commands: what somebody types into telnet or nc, and what health checks of load balancers
// send.

// splitInline splits a line into words with Redis's rules (sdssplitargs): words are divided by white
// space; "…" may contain \n \r \t \b \a \xHH and \ before any other character, '…' only \'. Words are
// made in place, because what is unquoted takes less room than what is quoted.
func splitInline(line []byte, args [][]byte) ([][]byte, error) {
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return args, nil
		}
		word := line[i:i]
		for i < len(line) && !endsWord(line[i]) {
			if line[i] != '"' && line[i] != '\'' {
				word = append(word, line[i])
				i++
				continue
			}
			var ok bool
			if word, i, ok = unquote(line, i, word); !ok {
				return args[:0], ProtocolError("unbalanced quotes in request")
			}
		}
		args = append(args, word)
	}
}

// unquote appends to word what stands between the quote at line[i] and its end, and returns the
// position behind that. A closing quote must be followed by white space or the end of the line.
func unquote(line []byte, i int, word []byte) ([]byte, int, bool) {
	quote := line[i]
	// The order of the cases matters: \xHH is tried before \x, which is an x.
	for i++; i < len(line); i++ {
		c := line[i]
		switch {
		case c == quote:
			return word, i + 1, i+1 == len(line) || isSpace(line[i+1])
		case c == '\\' && quote == '\'' && i+1 < len(line) && line[i+1] == '\'':
			i++
			c = '\''
		case c == '\\' && quote == '"' && i+3 < len(line) && line[i+1] == 'x' && isHex(line[i+2]) && isHex(line[i+3]):
			c = unhex(line[i+2])<<4 | unhex(line[i+3])
			i += 3
		case c == '\\' && quote == '"' && i+1 < len(line):
			i++
			c = unescape(line[i])
		}
		word = append(word, c)
	}
	return word, i, false
}

// unescape is what a backslash before c means in double quotes: the character itself, unless C gives it
// a meaning.
func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

// beginsWith reports whether the first word of line is the given one, in any case, as HTTP would have
// it.
func beginsWith(line []byte, word string) bool {
	for len(line) > 0 && isSpace(line[0]) {
		line = line[1:]
	}
	return len(line) >= len(word) && bytes.EqualFold(line[:len(word)], []byte(word)) &&
		(len(line) == len(word) || isSpace(line[len(word)]))
}

// isSpace is C's isspace.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// endsWord is less than isSpace: to Redis a form feed is white space before a word and behind a quote,
// but not in a word.
func endsWord(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// unhex is the value of a hexadecimal digit.
func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}
