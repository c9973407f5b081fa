package config

// Goal: every key of a document is found on its line, however it is written. Method: documents with the line of each key in
// its name.

import (
	"maps"
	"testing"
)

func TestKeyLines(t *testing.T) {
	for _, c := range []struct {
		name, document string
		want           map[string]int
	}{
		{"empty", "", map[string]int{}},
		{"plain", "a = 1\n\n# c = 3\n[t] # here\nb = 2", map[string]int{"a": 1, "t": 4, "t.b": 5}},
		{"carriage returns", "a = 1\r\n[t]\r\nb = 2\r\n", map[string]int{"a": 1, "t": 2, "t.b": 3}},
		{"dotted and quoted", "a.b = 1\n\"c d\" = 2\n'e' . f = 3\n[ g . \"h\" ]\ni = 4\n", map[string]int{"a": 1, "a.b": 1, "c d": 2, "e": 3, "e.f": 3, "g": 4, "g.h": 4, "g.h.i": 5}},
		{"strings with everything", "a = \"x # = [ \\\" \"\nb = 'y \\'\nc = 3\n", map[string]int{"a": 1, "b": 2, "c": 3}},
		{"strings over lines", "a = \"\"\"\nb = 1\n\"\"quoted\"\" \\\"\"\" \n\"\"\"\nc = '''\n[t]\nsays 'no''''\nd = 4\n", map[string]int{"a": 1, "c": 5, "d": 8}},
		{"lists over lines", "a = [\n  1, # b = 2\n  [2, \"]\"],\n  3\n]\nb = []\nc = 1\n", map[string]int{"a": 1, "a[0]": 2, "a[1]": 3, "a[1][0]": 3, "a[1][1]": 3, "a[2]": 4, "b": 6, "c": 7}},
		{"inline tables", "a = {b = 1, c.d = \"}\"}\ne = [{f = 1},\n {f = 2}]\n", map[string]int{"a": 1, "a.b": 1, "a.c": 1, "a.c.d": 1, "e": 2, "e[0]": 2, "e[0].f": 2, "e[1]": 3, "e[1].f": 3}},
		{"lists of tables", "[[m]]\na = 1\n[m.s]\nb = 1\n[[m]]\na = 2\n[m.s]\nb = 2\n[n]\n", map[string]int{"m": 1, "m[0]": 1, "m[0].a": 2, "m[0].s": 3, "m[0].s.b": 4, "m[1]": 5, "m[1].a": 6, "m[1].s": 7, "m[1].s.b": 8, "n": 9}},
		{"dates and numbers", "a = 1979-05-27T07:32:00Z # x\nb = -1_000\nc = 1e5\nd = true\n", map[string]int{"a": 1, "b": 2, "c": 3, "d": 4}},
	} {
		if got := keyLines(c.document); !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestLineOf(t *testing.T) {
	lines := map[string]int{"masters": 3, "masters[1]": 5, "masters[1].db": 7}
	for name, want := range map[string]int{"masters[1].db": 7, "masters[1].tls": 5, "masters[2].tls": 3, "masters": 3, "locks.max_ttl": 0, "": 0} {
		if got := lineOf(lines, name); got != want {
			t.Errorf("%q: got line %d, want %d", name, got, want)
		}
	}
}
