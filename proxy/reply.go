package proxy

import "redlockd/redlock/resp"

// isError tells whether a reply is an error.
func isError(reply []byte) bool { return len(reply) > 0 && reply[0] == '-' }

// Replies that scripts get.

func failure(text string) resp.Value { return resp.Value{Kind: resp.Error, Text: text} }
func integer(n int64) resp.Value     { return resp.Value{Kind: resp.Int, Int: n} }
func bulk(text string) resp.Value    { return resp.Value{Kind: resp.Bulk, Text: text} }

func oneIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
