package resp

import "fmt"

// Kind says what a Value is.
type Kind uint8

// The kinds of values. Down to Array they are those of RESP2, and a script can make no others; RESP2
// has bulk strings and flat arrays in the place of what follows.
const (
	Nil Kind = iota
	Status
	Error
	Int
	Bulk
	Array
	Double // see NewDouble
	Map    // Elems are keys and values in turn
	Set
	Pairs // Elems are the parts of pairs in turn: an array of arrays of two
)

// Value is a whole reply as a tree: of a command to a script, of a script, or of a command on keys. The
// zero value is a null.
type Value struct {
	Kind Kind
	// Int is the number of an Int.
	Int int64
	// Text is that of a Status, an Error or a Bulk, or the digits of a Double.
	Text string
	// Elems are those of an Array, a Map, a Set or Pairs.
	Elems []Value
}

// NewDouble is a floating-point number. Its digits are those that Redis 7.0 prints.
func NewDouble(f float64) Value {
	var room [32]byte
	return Value{Kind: Double, Text: string(appendDigits(room[:0], f))}
}

// AppendTo writes the value in RESP2 or RESP3.
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
	case Double:
		if proto < 3 {
			return AppendBulkString(b, v.Text)
		}
		return append(append(append(b, ','), v.Text...), "\r\n"...)
	case Nil:
		return AppendNull(b, proto)
	}
	switch {
	case v.Kind == Map:
		b = AppendMap(b, proto, len(v.Elems)/2)
	case v.Kind == Set:
		b = AppendSet(b, proto, len(v.Elems))
	case v.Kind == Pairs && proto >= 3:
		b = AppendArray(b, len(v.Elems)/2)
	default:
		b = AppendArray(b, len(v.Elems))
	}
	for i, e := range v.Elems {
		if v.Kind == Pairs && proto >= 3 && i%2 == 0 {
			b = AppendArray(b, 2)
		}
		b = e.AppendTo(b, proto)
	}
	return b
}

// CutValue takes the value at the beginning of b apart, which a handler of ours has written in RESP2,
// and returns what follows it. It is not for what comes over a network: it has no bounds, and panics if
// b is not whole.
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
