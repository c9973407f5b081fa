package proxy

import "testing"

// Goal: what depends on the protocol version is encoded as the two specifications have it.
func TestReplyEncoding(t *testing.T) {
	for _, tc := range []struct {
		name         string
		encode       func(proto int) []byte
		resp2, resp3 string
	}{
		{"null", func(proto int) []byte { return appendNull(nil, proto) }, "$-1\r\n", "_\r\n"},
		{"null array", func(proto int) []byte { return appendNullArray(nil, proto) }, "*-1\r\n", "_\r\n"},
		{"map", func(proto int) []byte { return appendMap([]byte("+x\r\n"), proto, 7) }, "+x\r\n*14\r\n", "+x\r\n%7\r\n"},
		{"set", func(proto int) []byte { return appendSet(nil, proto, 100) }, "*100\r\n", "~100\r\n"},
		{"push", func(proto int) []byte { return appendPush(nil, proto, 3) }, "*3\r\n", ">3\r\n"},
		{"text", func(proto int) []byte { return appendVerbatim(nil, proto, "a\r\nb") }, "$4\r\na\r\nb\r\n", "=8\r\ntxt:a\r\nb\r\n"},
		{"no text", func(proto int) []byte { return appendVerbatim(nil, proto, "") }, "$0\r\n\r\n", "=4\r\ntxt:\r\n"},
	} {
		if got := string(tc.encode(2)); got != tc.resp2 {
			t.Errorf("%s in RESP2: got %q, want %q", tc.name, got, tc.resp2)
		}
		if got := string(tc.encode(3)); got != tc.resp3 {
			t.Errorf("%s in RESP3: got %q, want %q", tc.name, got, tc.resp3)
		}
	}
}
