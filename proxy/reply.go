package proxy

import "redlockd/redlock/sandbox"

// isError tells whether a reply is an error.
func isError(reply []byte) bool { return len(reply) > 0 && reply[0] == '-' }

// Replies that scripts get.

func failure(text string) sandbox.Reply { return sandbox.Reply{Kind: sandbox.Error, Text: text} }
func integer(n int64) sandbox.Reply     { return sandbox.Reply{Kind: sandbox.Int, Int: n} }
func bulk(text string) sandbox.Reply    { return sandbox.Reply{Kind: sandbox.Bulk, Text: text} }

func oneIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
