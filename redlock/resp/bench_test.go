package resp

import "testing"

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
