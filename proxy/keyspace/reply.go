package keyspace

import "redlockd/redlock/resp"

// Reply is the answer to a command. Clients get it in their protocol version, scripts as a value of
// Lua.
type Reply = resp.Value

// OK is the reply of commands that have nothing to tell.
var OK = Reply{Kind: resp.Status, Text: "OK"}

var (
	null = Reply{}
	zero = integer(0)
	// wrongType answers a command for one type on a key that holds another.
	wrongType = failure(ErrWrongType)
	// foreign answers a command for hashes, sets or sorted sets on a key that cannot be read here.
	foreign = failure(ErrForeign)
)

// failure is an error reply. Its text begins with its code.
func failure(text string) Reply { return Reply{Kind: resp.Error, Text: text} }
func integer(n int64) Reply     { return Reply{Kind: resp.Int, Int: n} }
func bulk(text string) Reply    { return Reply{Kind: resp.Bulk, Text: text} }

// oneIf is 1 or 0.
func oneIf(yes bool) Reply {
	if yes {
		return integer(1)
	}
	return zero
}

// bulkOrNull is what commands answer of a value that may not be there.
func bulkOrNull(text string, ok bool) Reply {
	if !ok {
		return null
	}
	return bulk(text)
}
