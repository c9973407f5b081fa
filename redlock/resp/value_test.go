package resp

import (
	"reflect"
	"testing"
)

// Goal: a value of every kind is written as the two versions have it, and what RESP2 has is read back as it was.
func TestValue(t *testing.T) {
	tree := Value{Kind: Array, Elems: []Value{
		{Kind: Status, Text: "OK"}, {Kind: Error, Text: "ERR no"}, {Kind: Int, Int: -7}, {Kind: Bulk, Text: "a\r\n"}, {}, {Kind: Array, Elems: []Value{}},
	}}
	const written = "*6\r\n+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*0\r\n"
	if got := string(tree.AppendTo(nil, 2)); got != written {
		t.Errorf("got %q, want %q", got, written)
	}
	if got, rest := CutValue([]byte(written + ":1")); !reflect.DeepEqual(got, tree) || string(rest) != ":1" {
		t.Errorf("read back: got %+v, %q, want %+v", got, rest, tree)
	}
	if got, want := string(Value{Kind: Array, Elems: []Value{{}}}.AppendTo(nil, 3)), "*1\r\n_\r\n"; got != want {
		t.Errorf("RESP3: got %q, want %q", got, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("half a value: got no panic")
		}
	}()
	CutValue([]byte("$3\r\nab"))
}
