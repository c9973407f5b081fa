package resp

import "fmt"

// Kind says what a Value is.
type Kind uint8

// The kinds of values: those of RESP2. A script cannot make others.
const (
	Nil Kind = iota
	Status
	Error
	Int
	Bulk
	Array
)

// Value is a whole reply as a tree: of a command to a script, of a script, or of a command on keys. The zero value is a null.
type Value struct {
	Kind Kind
	// Int is the number of an Int.
	Int int64
	// Text is that of a Status, an Error or a Bulk.
	Text string
	// Elems are those of an Array.
	Elems []Value
}

// AppendTo writes the value in RESP2 or RESP3, which differ in what a null is.
func (v Value) AppendTo(b []byte, proto int) []byte {
	switch v.Kind {
	case Status:
		return AppendStatus(b, v.Text)
	case Error:
		return AppendError(b, v.Text)
	case Int:
		return AppendInt(b, v.Int)
	case Bulk:
		return AppendBulkString(b, v.Text)
	case Array:
		b = AppendArray(b, len(v.Elems))
		for _, e := range v.Elems {
			b = e.AppendTo(b, proto)
		}
		return b
	}
	return AppendNull(b, proto)
}

// CutValue takes the value at the beginning of b apart, which a handler of ours has written in RESP2, and returns what follows it. It is
// not for what comes over a network: it has no bounds, and panics if b is not whole.
func CutValue(b []byte) (v Value, rest []byte) {
	var r Reply
	size, err := CutReply(b, &r)
	rest = b[size:]
	switch {
	case size == 0:
		panic(fmt.Sprintf("resp: %.40q is no whole value: %v", b, err))
	case r.Null:
		return Value{}, rest
	case r.Kind == '+':
		return Value{Kind: Status, Text: string(r.Text)}, rest
	case r.Kind == '-':
		return Value{Kind: Error, Text: string(r.Text)}, rest
	case r.Kind == ':':
		return Value{Kind: Int, Int: r.N}, rest
	case r.Kind == '$':
		return Value{Kind: Bulk, Text: string(r.Text)}, rest
	}
	v = Value{Kind: Array, Elems: make([]Value, r.N)}
	for i := range v.Elems {
		v.Elems[i], rest = CutValue(rest)
	}
	return v, rest
}
