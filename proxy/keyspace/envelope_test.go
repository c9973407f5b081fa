package keyspace

// Goal: an envelope holds what was put into it, in one form only, and nothing else is taken for one. Method: every envelope that can be
// read is written again and must be the same bytes; a table of what is none; fuzzing.

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"redlockd/redlock"
)

var collections = []collection{
	{kind: hash, born: 1_700_000_000_123, members: []member{{name: "", value: "1"}, {name: "\x00\xff", value: "redlockd:"}, {name: "owner:1", value: ""}}},
	{kind: set, members: []member{{name: "a"}, {name: "ab"}}},
	{kind: zset, born: -1, members: []member{{name: "a", score: math.Inf(-1)}, {name: "b", score: 1700000000123.4}}},
}

func TestEnvelope(t *testing.T) {
	for _, c := range collections {
		envelope := c.encode([redlock.VersionLen]byte{15: 7})
		if got, ok := decode(envelope); !ok || !reflect.DeepEqual(got, c) || len(envelope) != c.size() {
			t.Errorf("%+v: got %+v, %v, %d bytes", c, got, ok, len(envelope))
		}
		for cut := range len(envelope) {
			if _, ok := decode(envelope[:cut]); ok && cut < headLen+2 {
				t.Errorf("%+v: the first %d bytes are taken for an envelope", c, cut)
			}
		}
	}
	a := collection{kind: hash, members: []member{{name: "a", value: "1"}}}
	head := strings.TrimSuffix(a.encode([redlock.VersionLen]byte{}), "\x00\x01a\x00\x011")
	for name, envelope := range map[string]string{
		"a token":                 "redlockd:h",
		"no members":              head,
		"another kind":            strings.Replace(a.encode([redlock.VersionLen]byte{}), ":h", ":l", 1),
		"no value":                head + "\x00\x01a",
		"a length without a text": head + "\x00\x02a",
		"a name twice":            head + strings.Repeat("\x00\x01a\x00\x011", 2),
		"names out of order":      head + "\x00\x01b\x00\x011\x00\x01a\x00\x011",
		"a byte too much":         a.encode([redlock.VersionLen]byte{}) + "x",
		"a score that is none":    strings.Replace(head, ":h", ":z", 1) + "\x00\x01a\x7f\xf8\x00\x00\x00\x00\x00\x00",
	} {
		if c, ok := decode(envelope); ok {
			t.Errorf("%s: got %+v, want no envelope", name, c)
		}
		// Whatever begins like one is nobody's string either, and cannot be changed.
		if _, isText := Text(envelope); isText != (name == "a token") {
			t.Errorf("%s: Text says %v", name, isText)
		}
		space := testSpace([]string{"k"}, redlock.State{Found: true, Type: "string", Value: envelope, TTL: time.Second})
		if r, err := space.Call("hset", []string{"k", "f", "v"}); name != "a token" && (err != nil || r.Text != ErrForeign || space.Outcome().Writes) {
			t.Errorf("%s: HSET answers %+v, %v, and changes %+v", name, r, err, space.Outcome().Changes)
		}
	}
}

func FuzzEnvelope(f *testing.F) {
	for _, c := range collections {
		f.Add(c.encode([redlock.VersionLen]byte{1}))
	}
	f.Add("token")
	f.Fuzz(func(t *testing.T, value string) {
		c, ok := decode(value)
		if !ok {
			return
		}
		version := [redlock.VersionLen]byte([]byte(value[len(envelopeMark)+1:]))
		if again := c.encode(version); again != value {
			t.Errorf("%q is read as %+v, which is written as %q", value, c, again)
		}
	})
}

// Goal: an envelope is new wherever its members are, and only there; and its version follows. Method: commands on a hash that holds {m: 1}
// since a while.
func TestVersion(t *testing.T) {
	was := collection{kind: hash, born: 1_600_000_000_000, members: []member{{name: "m", value: "1"}}}
	before := was.encode([redlock.VersionLen]byte{})
	for _, test := range []struct {
		lines string
		do    redlock.Do
		born  int64 // when the youngest of the fields joined, as the engine is told; 0: not
	}{
		{"hget k m", redlock.Keep, 0},
		{"hset k m 1", redlock.Keep, 0},
		{"hset k m 1; pexpire k 9000", redlock.Expire, was.born},
		{"hincrby k m 1", redlock.Set, was.born},
		{"hincrby k m 1; hincrby k m -1", redlock.Keep, 0},
		{"hset k n 1; pexpire k 9000", redlock.Set, testNow},
		{"hdel k m", redlock.Delete, 0},
		{"hdel k m; hset k m 1; pexpire k 9000", redlock.Expire, was.born},
		{"hdel k m; hset k m 2; pexpire k 9000", redlock.Set, was.born},
		{"hdel k m; sadd k m; pexpire k 9000", redlock.Set, testNow},
		{"hget k m; del k; set k v px 9000", redlock.Set, 0},
	} {
		space := testSpace([]string{"k"}, redlock.State{Found: true, Type: "string", Value: before, TTL: time.Second})
		drawn := byte(0)
		space.Random = func(b []byte) (int, error) { drawn++; b[15] = drawn; return len(b), nil }
		run(t, space, test.lines)
		o := space.Outcome()
		ch := o.Changes[0]
		born := ch.BornMs
		if ch.Do != test.do || ch.Was != redlock.WasValue || ch.Value != before || born != test.born || len(o.Unguarded) > 0 {
			t.Errorf("%s: got %+v, born %d, unguarded %+v, want %v, born %d", test.lines, ch, born, o.Unguarded, test.do, test.born)
		}
		if isNew := ch.Do == redlock.Set && strings.HasPrefix(ch.NewValue, envelopeMark); isNew != (drawn == 1) || drawn > 1 {
			t.Errorf("%s: %d versions for %q", test.lines, drawn, ch.NewValue)
		} else if version := redlock.NextVersion([redlock.VersionLen]byte{15: 1}, before); isNew && !strings.HasPrefix(ch.NewValue[len(envelopeMark)+1:], string(version[:])) {
			t.Errorf("%s: got %q, want the version behind that of %q", test.lines, ch.NewValue, before)
		}
	}
}

// Goal: who sets the end of a value from what it has read of it does not undo another's new end. Method: two runs on the same state, as
// through two redlockds: one renews the value, one removes a member and has the key end when the other key of the two does. Once the first
// is committed, the guard of the second must not hold. A value with one member is its owner's, and keeps its version.
func TestNewEndOfWhatSeveralHold(t *testing.T) {
	for _, holders := range [][]member{{{name: "a", value: "1"}}, {{name: "a", value: "1"}, {name: "b", value: "1"}}} {
		c := collection{kind: hash, members: holders}
		states := []redlock.State{{Found: true, Type: "string", Value: c.encode([redlock.VersionLen]byte{}), TTL: time.Second}, {Found: true, Type: "string", Value: "1", TTL: time.Second}}
		change := func(version byte, lines string) redlock.Change {
			space := testSpace([]string{"k", "k:b"}, states...)
			space.Random = func(b []byte) (int, error) { b[15] = version; return len(b), nil }
			run(t, space, lines)
			return space.Outcome().Changes[0]
		}
		renews := change(1, "hexists k b; pexpire k 30000; pexpire k:b 30000")
		leaves := change(2, "hdel k a; pttl k:b; pexpire k 1000")
		becomes := renews.Value
		if renews.Do == redlock.Set {
			becomes = renews.NewValue
		}
		if same, want := becomes == leaves.Value, len(holders) == 1; same != want {
			t.Errorf("%d members: the guard of the second run holds: %v, want %v", len(holders), same, want)
		}
	}
}

// The largest value that is possible can be written and read, and none beyond it.
func TestLargestCollections(t *testing.T) {
	fields := func(n, size int) (args []string) {
		for i := range n {
			args = append(args, strings.Repeat("x", size-1)+string(rune('0'+i)), "")
		}
		return args
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{fields(64, 200), ""},
		{fields(65, 200), `ERR key "k" would have 65 fields, at most 64 are possible`},
		{fields(1, envelopeMax-headLen-4), ""},
		{fields(1, envelopeMax-headLen-3), `ERR key "k" would take 16385 bytes with all its fields, at most 16384 are possible`},
	} {
		space := testSpace([]string{"k"}, absent)
		_, err := space.Call("hset", append([]string{"k"}, test.args...))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%d fields: got %v, want %s", len(test.args)/2, err, test.want)
		}
		if test.want == "" {
			value := space.Outcome().Changes[0].NewValue
			if c, ok := decode(value); !ok || len(c.members) != len(test.args)/2 || len(value) > redlock.MaxValueLen {
				t.Errorf("%d fields: %d bytes are read back as %d", len(test.args)/2, len(value), len(c.members))
			}
		}
	}
}
