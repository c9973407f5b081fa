package proxy

import (
	"fmt"
	"time"

	"redlockd/redlock/resp"
)

// Replies with a structure: maps, arrays and sets whose form depends on the protocol version. Commands
// that are called often append theirs with resp.AppendX and allocate nothing.

// isError reports whether a reply is an error.
func isError(reply []byte) bool { return len(reply) > 0 && reply[0] == '-' }

// A value is nil (null), a string (bulk string), int or int64, bool (1 or 0: RESP2 has no
// booleans, and Redis sends integers in RESP3 too), simple (a simple string), an array, a set or
// fields.
type (
	simple string
	array  []any
	set    []any // in RESP2 an array
	fields []any // names and values in turn: a map, in RESP2 an array
)

// statuses is a set of simple strings, as flags are.
func statuses(texts []string) set {
	s := make(set, len(texts))
	for i, text := range texts {
		s[i] = simple(text)
	}
	return s
}

// bulks is an array of bulk strings.
func bulks(texts []string) array {
	a := make(array, len(texts))
	for i, text := range texts {
		a[i] = text
	}
	return a
}

// appendValue appends a reply with a structure, in the protocol version proto. It panics on a value of
// any other type, which is a mistake of the handler and not of the client.
func appendValue(out []byte, proto int, value any) []byte {
	elements := func(values []any) []byte {
		for _, v := range values {
			out = appendValue(out, proto, v)
		}
		return out
	}
	switch v := value.(type) {
	case nil:
		return resp.AppendNull(out, proto)
	case string:
		return resp.AppendBulkString(out, v)
	case int:
		return resp.AppendInt(out, int64(v))
	case int64:
		return resp.AppendInt(out, v)
	case bool:
		return resp.AppendInt(out, oneIf(v))
	case simple:
		return resp.AppendStatus(out, string(v))
	case array:
		out = resp.AppendArray(out, len(v))
		return elements(v)
	case set:
		out = resp.AppendSet(out, proto, len(v))
		return elements(v)
	case fields:
		out = resp.AppendMap(out, proto, len(v)/2)
		return elements(v)
	}
	panic(fmt.Sprintf("a reply of type %T", value))
}

// orNull is text as a value, null if it is empty: for what is not known, or not there.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// The replies of commands that scripts call.

// failure is an error that the script can catch. Its text begins with the code.
func failure(text string) resp.Value { return resp.Value{Kind: resp.Error, Text: text} }
func integer(n int64) resp.Value     { return resp.Value{Kind: resp.Int, Int: n} }
func bulk(text string) resp.Value    { return resp.Value{Kind: resp.Bulk, Text: text} }

// oneIf is Redis's boolean.
func oneIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// floorMs rounds down, so that a client never counts on more than what is left. What is over already is
// 0.
func floorMs(d time.Duration) int64 { return max(0, d.Milliseconds()) }
