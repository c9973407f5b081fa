package sandbox

import (
	"math"
	"strconv"
	"strings"
)

// Kind says what a Reply is.
type Kind uint8

// The kinds of replies. Those from Bool on exist in RESP3; for RESP2 they become what Redis makes of them.
const (
	Nil Kind = iota
	Status
	Error
	Int
	Bulk
	Array
	Bool
	Double
	Map
	Set
	BigNumber
	Verbatim
)

// Reply is the answer to a command in a script, and of a script.
type Reply struct {
	Kind  Kind
	Int   int64   // Int; of Bool 0 or 1
	Float float64 // Double
	Text  string  // Status, Error, Bulk, BigNumber; of Verbatim with its format, "txt:hello"
	Elems []Reply // Array, Set; of Map keys and values by turns
}

// AppendTo writes the reply in RESP2 or RESP3.
func (r Reply) AppendTo(b []byte, resp int) []byte {
	switch r.Kind {
	case Status:
		return appendLine(b, '+', r.Text)
	case Error:
		return appendLine(b, '-', r.Text)
	case Int:
		return appendHeader(b, ':', r.Int)
	case Bulk:
		return appendBulk(b, r.Text)
	case Array:
		return appendElems(appendHeader(b, '*', int64(len(r.Elems))), r.Elems, resp)
	}
	if resp < 3 {
		switch r.Kind {
		case Bool:
			return appendHeader(b, ':', r.Int)
		case Double:
			return appendBulk(b, string(appendDouble(nil, r.Float)))
		case Map, Set:
			return appendElems(appendHeader(b, '*', int64(len(r.Elems))), r.Elems, resp)
		case BigNumber:
			return appendBulk(b, r.Text)
		case Verbatim:
			return appendBulk(b, r.Text[4:])
		}
		return append(b, "$-1\r\n"...)
	}
	switch r.Kind {
	case Bool:
		if r.Int != 0 {
			return append(b, "#t\r\n"...)
		}
		return append(b, "#f\r\n"...)
	case Double:
		return append(appendDouble(append(b, ','), r.Float), "\r\n"...)
	case Map:
		return appendElems(appendHeader(b, '%', int64(len(r.Elems)/2)), r.Elems, resp)
	case Set:
		return appendElems(appendHeader(b, '~', int64(len(r.Elems))), r.Elems, resp)
	case BigNumber:
		return appendLine(b, '(', r.Text)
	case Verbatim:
		b = appendHeader(b, '=', int64(len(r.Text)))
		return append(append(b, r.Text...), "\r\n"...)
	}
	return append(b, "_\r\n"...)
}

func appendElems(b []byte, elems []Reply, resp int) []byte {
	for _, e := range elems {
		b = e.AppendTo(b, resp)
	}
	return b
}

// appendLine writes text that must stay on its line.
func appendLine(b []byte, kind byte, text string) []byte {
	b = append(b, kind)
	if strings.ContainsAny(text, "\r\n") {
		text = strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
	}
	return append(append(b, text...), "\r\n"...)
}

func appendBulk(b []byte, text string) []byte {
	b = appendHeader(b, '$', int64(len(text)))
	return append(append(b, text...), "\r\n"...)
}

func appendHeader(b []byte, kind byte, n int64) []byte {
	b = append(b, kind)
	b = strconv.AppendInt(b, n, 10)
	return append(b, "\r\n"...)
}

// appendDouble prints as Redis prints doubles in replies.
func appendDouble(b []byte, f float64) []byte {
	if math.IsNaN(f) {
		return append(b, "-nan"...)
	}
	return appendNumber(b, f, 17)
}
