package resp

import (
	"math"
	"testing"
)

// Goal: what depends on the protocol version is encoded as the two specifications have it.
func TestAppendInBothVersions(t *testing.T) {
	for _, tc := range []struct {
		name         string
		encode       func(proto int) []byte
		resp2, resp3 string
	}{
		{"null", func(proto int) []byte { return AppendNull(nil, proto) }, "$-1\r\n", "_\r\n"},
		{"null array", func(proto int) []byte { return AppendNullArray(nil, proto) }, "*-1\r\n", "_\r\n"},
		{"map", func(proto int) []byte { return AppendMap([]byte("+x\r\n"), proto, 7) }, "+x\r\n*14\r\n", "+x\r\n%7\r\n"},
		{"set", func(proto int) []byte { return AppendSet(nil, proto, 100) }, "*100\r\n", "~100\r\n"},
		{"push", func(proto int) []byte { return AppendPush(nil, proto, 3) }, "*3\r\n", ">3\r\n"},
		{"text", func(proto int) []byte { return AppendVerbatim(nil, proto, "txt", "a\r\nb") }, "$4\r\na\r\nb\r\n", "=8\r\ntxt:a\r\nb\r\n"},
		{"no text", func(proto int) []byte { return AppendVerbatim(nil, proto, "txt", "") }, "$0\r\n\r\n", "=4\r\ntxt:\r\n"},
		{"true", func(proto int) []byte { return AppendBool(nil, proto, true) }, ":1\r\n", "#t\r\n"},
		{"false", func(proto int) []byte { return AppendBool(nil, proto, false) }, ":0\r\n", "#f\r\n"},
		{"double", func(proto int) []byte { return AppendDouble(nil, proto, 0.1) }, "$19\r\n0.10000000000000001\r\n", ",0.10000000000000001\r\n"},
		{"whole double", func(proto int) []byte { return AppendDouble(nil, proto, 1e17) }, "$5\r\n1e+17\r\n", ",1e+17\r\n"},
		{"infinity", func(proto int) []byte { return AppendDouble(nil, proto, math.Inf(-1)) }, "$4\r\n-inf\r\n", ",-inf\r\n"},
	} {
		if got := string(tc.encode(2)); got != tc.resp2 {
			t.Errorf("%s in RESP2: got %q, want %q", tc.name, got, tc.resp2)
		}
		if got := string(tc.encode(3)); got != tc.resp3 {
			t.Errorf("%s in RESP3: got %q, want %q", tc.name, got, tc.resp3)
		}
	}
}

// Goal: what has one form is encoded so, and no text can end its own line.
func TestAppend(t *testing.T) {
	for name, tc := range map[string]struct {
		got  []byte
		want string
	}{
		"OK":           {AppendOK(nil), "+OK\r\n"},
		"status":       {AppendStatus(nil, "a\nb"), "+a b\r\n"},
		"error":        {AppendError(nil, "ERR a\r\n:1"), "-ERR a  :1\r\n"},
		"integer":      {AppendInt(nil, math.MinInt64), ":-9223372036854775808\r\n"},
		"bulk":         {AppendBulk(nil, []byte("\r\n")), "$2\r\n\r\n\r\n"},
		"bulk string":  {AppendBulkString(nil, ""), "$0\r\n\r\n"},
		"bulk integer": {AppendBulkInt(nil, math.MinInt64), "$20\r\n-9223372036854775808\r\n"},
		"array":        {AppendArray(nil, 12), "*12\r\n"},
	} {
		if string(tc.got) != tc.want {
			t.Errorf("%s: got %q, want %q", name, tc.got, tc.want)
		}
	}
}

func TestParseInt(t *testing.T) {
	for _, test := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true}, {"7", 7, true}, {"-7", -7, true}, {"9223372036854775807", 9223372036854775807, true},
		{"-9223372036854775808", -9223372036854775808, true}, {"9223372036854775808", 0, false},
		{"-9223372036854775809", 0, false}, {"99999999999999999999", 0, false}, {"", 0, false}, {"-", 0, false},
		{"+1", 0, false}, {"01", 0, false}, {"-0", 0, false}, {" 1", 0, false}, {"1a", 0, false}, {"1.0", 0, false},
	} {
		if got, ok := ParseInt([]byte(test.in)); got != test.want || ok != test.ok {
			t.Errorf("ParseInt(%q): got %d, %v, want %d, %v", test.in, got, ok, test.want, test.ok)
		}
	}
}

// What C's strtod reads, compared with one; TestSameAsRedis of proxy/keyspace sends many more to a Redis.
func TestParseFloat(t *testing.T) {
	for _, test := range []struct {
		in        string
		want      float64
		exact, ok bool
	}{
		{"1.5", 1.5, true, true}, {"+5.", 5, true, true}, {"-.5e1", -5, true, true}, {"0x10", 16, true, true},
		{"0X1.8p1", 3, true, true}, {"-Infinity", math.Inf(-1), true, true}, {"0e9", 0, true, true},
		{"1e400", math.Inf(1), false, true}, {"1e-400", 0, false, true},
		{"", 0, false, false}, {"1_0", 0, false, false}, {"nan", 0, false, false}, {" 1", 0, false, false},
		{"0x", 0, false, false}, {"1e", 0, false, false}, {"--1", 0, false, false},
	} {
		if got, exact, ok := ParseFloat(test.in); got != test.want || exact != test.exact || ok != test.ok {
			t.Errorf("ParseFloat(%q): got %v, %v, %v, want %v, %v, %v", test.in, got, exact, ok, test.want, test.exact, test.ok)
		}
	}
}
