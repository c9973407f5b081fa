package config

// Goal: the settings of a document are found on their lines, as config.toml writes them. Method: documents with the line of each.

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
		{"plain", "a = 1\n\n# c = 3\n[t] # here\n  b = 2", map[string]int{"a": 1, "t": 4, "t.b": 5}},
		{"carriage returns", "a = 1\r\n[t]\r\nb = 2\r\n", map[string]int{"a": 1, "t": 2, "t.b": 3}},
		{"dotted and quoted", "a.b = 1\n\"c\" = 2\n[ g.h ]\ni = 4\n", map[string]int{"a.b": 1, "c": 2, "g.h": 3, "g.h.i": 4}},
		{"lists of tables", "[[m]]\na = 1\n[[m]]\na = 2\n[n]\n", map[string]int{"m": 1, "m[0]": 1, "m[0].a": 2, "m[1]": 3, "m[1].a": 4, "n": 5}},
		{"what does not begin a line", "a = [\n  {b = 1},\n]\n", map[string]int{"a": 1}},
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
