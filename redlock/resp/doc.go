// Package resp reads and writes RESP, the protocol of Redis, for every connection of redlockd: the
// clients of the proxy, the connections to the masters, and the in-memory masters.
//
// It writes with the codec of redcon, and reads by itself, because the parser of redcon v1.6.2 has no
// bounds: one packet of 31 bytes makes it panic (a length near 2^63), one of 25 bytes makes it spin for
// ever (a count near 2^63), and a line of many words makes it allocate a gigabyte. Tests compare what
// the two parsers read. This is the only package that imports redcon.
//
//	requests   frame.go, inline.go    bytes → the arguments of commands, within Limits
//	replies    reply.go               bytes of a master → Reply by Reply, within bounds
//	           replycheck.go          … the same rules for what go-redis reads
//	values     value.go               a whole reply as a tree, as scripts and commands on keys have it
//	the writer append.go              both versions of the protocol
//
// An error names the thing, how big it is, and the limit.
//
// # Caveats
//
//   - Replies are read in RESP2 only, because redlockd asks its masters for nothing else. They are
//     written in both versions.
//   - What is returned aliases the buffer it was read from, until the next read into that buffer.
//     Nothing is copied.
package resp
