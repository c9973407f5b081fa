package proxy

import "strings"

// Comparing arguments with the words of a command. Keywords have no case; keys, tokens, channels do.

// argument is one of a command that a client sends, in the read buffer, or that a script calls.
type argument interface{ []byte | string }

// equalFold compares an argument with a keyword, in any case. It does not allocate.
func equalFold[A argument](arg A, keyword string) bool {
	return len(arg) == len(keyword) && strings.EqualFold(string(arg), keyword)
}

// keyword is the one of words that an argument is, in any case, or "". The result is spelled as in
// words.
func keyword[A argument](arg A, words ...string) string {
	for _, word := range words {
		if equalFold(arg, word) {
			return word
		}
	}
	return ""
}

// appendLower appends an argument in lower case.
func appendLower(to, arg []byte) []byte {
	for _, b := range arg {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		to = append(to, b)
	}
	return to
}

// copyStrings copies arguments out of the read buffer, behind to. A handler that takes a slot must copy
// what it keeps.
func copyStrings(to []string, args [][]byte) []string {
	for _, arg := range args {
		to = append(to, string(arg))
	}
	return to
}

// isOneWord reports whether text has visible ASCII characters only, as Redis demands it: tools split
// CLIENT LIST at spaces.
func isOneWord(text []byte) bool {
	for _, b := range text {
		if b < '!' || b > '~' {
			return false
		}
	}
	return true
}
