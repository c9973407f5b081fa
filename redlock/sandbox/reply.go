package sandbox

import (
	"strconv"
	"strings"
)

// Kind says what a Reply is.
type Kind uint8

// The kinds of replies.
const (
	Nil Kind = iota
	Status
	Error
	Int
	Bulk
	Array
)

// Reply is the answer to a command in a script, and of a script.
type Reply struct {
	Kind  Kind
	Int   int64   // Int
	Text  string  // Status, Error, Bulk
	Elems []Reply // Array
}

// AppendTo writes the reply in RESP2 or RESP3, which differ in what nothing is.
func (r Reply) AppendTo(b []byte, resp int) []byte {
	switch r.Kind {
	case Status:
		return appendLine(b, '+', r.Text)
	case Error:
		return appendLine(b, '-', r.Text)
	case Int:
		return appendHeader(b, ':', r.Int)
	case Bulk:
		b = appendHeader(b, '$', int64(len(r.Text)))
		return append(append(b, r.Text...), "\r\n"...)
	case Array:
		b = appendHeader(b, '*', int64(len(r.Elems)))
		for _, e := range r.Elems {
			b = e.AppendTo(b, resp)
		}
		return b
	}
	if resp < 3 {
		return append(b, "$-1\r\n"...)
	}
	return append(b, "_\r\n"...)
}

// appendLine writes text that must stay on its line.
func appendLine(b []byte, kind byte, text string) []byte {
	b = append(b, kind)
	if strings.ContainsAny(text, "\r\n") {
		text = strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
	}
	return append(append(b, text...), "\r\n"...)
}

func appendHeader(b []byte, kind byte, n int64) []byte {
	b = append(b, kind)
	b = strconv.AppendInt(b, n, 10)
	return append(b, "\r\n"...)
}
