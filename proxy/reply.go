package proxy

import "redlockd/redlock/sandbox"

// isError tells whether a reply is an error.
func isError(reply []byte) bool { return len(reply) > 0 && reply[0] == '-' }

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
