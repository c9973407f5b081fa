package proxy

import (
	"github.com/tidwall/redcon"

	"redlockd/redlock/sandbox"
)

// Replies that redcon cannot encode, because it knows RESP2 only: they depend on the protocol version.

// appendNull appends the null of a reply that is otherwise a bulk string.
func appendNull(out []byte, proto int) []byte {
	if proto >= 3 {
		return append(out, "_\r\n"...)
	}
	return append(out, "$-1\r\n"...)
}

// appendNullArray appends the null of a reply that is otherwise an array.
func appendNullArray(out []byte, proto int) []byte {
	if proto >= 3 {
		return append(out, "_\r\n"...)
	}
	return append(out, "*-1\r\n"...)
}

// appendMap begins a map of n pairs: in RESP2 it is an array of 2n elements.
func appendMap(out []byte, proto, n int) []byte {
	if proto >= 3 {
		return appendHeader(out, '%', n)
	}
	return redcon.AppendArray(out, 2*n)
}

// appendSet begins a set of n elements: in RESP2 it is an array.
func appendSet(out []byte, proto, n int) []byte {
	if proto >= 3 {
		return appendHeader(out, '~', n)
	}
	return redcon.AppendArray(out, n)
}

// appendPush begins an out-of-band message of n elements: in RESP2 it is an array.
func appendPush(out []byte, proto, n int) []byte {
	if proto >= 3 {
		return appendHeader(out, '>', n)
	}
	return redcon.AppendArray(out, n)
}

// appendVerbatim appends text as INFO answers it: a verbatim string in RESP3, a bulk string in RESP2.
func appendVerbatim(out []byte, proto int, text string) []byte {
	if proto < 3 {
		return redcon.AppendBulkString(out, text)
	}
	out = appendHeader(out, '=', len(text)+4)
	out = append(out, "txt:"...)
	out = append(out, text...)
	return append(out, '\r', '\n')
}

// isError tells whether a reply is an error.
func isError(reply []byte) bool { return len(reply) > 0 && reply[0] == '-' }

// appendHeader appends a RESP header line: a type and a count.
func appendHeader(out []byte, kind byte, n int) []byte {
	mark := len(out)
	out = redcon.AppendArray(out, n)
	out[mark] = kind
	return out
}

// The replies of commands on keys, which scripts get too.

func failure(text string) sandbox.Reply { return sandbox.Reply{Kind: sandbox.Error, Text: text} }
func integer(n int64) sandbox.Reply     { return sandbox.Reply{Kind: sandbox.Int, Int: n} }
func bulk(text string) sandbox.Reply    { return sandbox.Reply{Kind: sandbox.Bulk, Text: text} }

var statusOK = sandbox.Reply{Kind: sandbox.Status, Text: "OK"}

func boolean(b bool) sandbox.Reply { return integer(oneIf(b)) }

func bulkOrNil(text string, ok bool) sandbox.Reply {
	if !ok {
		return sandbox.Reply{}
	}
	return bulk(text)
}

func oneIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
