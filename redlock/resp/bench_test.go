package resp

import (
	"strings"
	"testing"
)

// BenchmarkRequest finds one command and takes it apart.
func BenchmarkRequest(b *testing.B) {
	frame := []byte("*6\r\n$3\r\nSET\r\n$12\r\ninvoice:4711\r\n$20\r\n0123456789abcdef0123\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n30000\r\n")
	var s FrameScanner
	var args [][]byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if args, _, err = s.Scan(frame, &testLimits, args); err != nil || len(args) != 6 {
			b.Fatal(args, err)
		}
	}
}

// BenchmarkReply reads the replies of a batch: a status, a null, an integer and a string.
func BenchmarkReply(b *testing.B) {
	const text = "+OK\r\n$-1\r\n:1\r\n$20\r\n0123456789abcdef0123\r\n"
	r := readerOf("", 1<<20)
	batch := strings.Repeat(text, 64)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%64 == 0 {
			r.conn.rest = batch
		}
		for range 4 {
			if _, err := r.next(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
