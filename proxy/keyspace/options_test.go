package keyspace

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Goal: options and times are read as Redis reads them, from bytes and from strings. Method: tables; each line is read as both.

// readAs reads the words of a line, by read for []byte or by readScript for string, and compares.
func readAs[T comparable](t *testing.T, line string, read func([][]byte) (T, string), readScript func([]string) (T, string)) (T, string) {
	t.Helper()
	words := strings.Fields(strings.ReplaceAll(line, `""`, "\x00"))
	args := make([][]byte, len(words))
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "\x00", "")
		args[i] = []byte(words[i])
	}
	got, refusal := read(args)
	if ofScript, refusalOfScript := readScript(words); ofScript != got || refusalOfScript != refusal {
		t.Errorf("%s: a client's is %+v %q, a script's %+v %q", line, got, refusal, ofScript, refusalOfScript)
	}
	return got, refusal
}

func TestReadSet(t *testing.T) {
	const notInteger, invalid = ErrNotInteger, "ERR invalid expire time in 'set' command"
	type o = Set
	in := func(ms int64) Time { return Time{Ms: ms} }
	at := func(ms int64) Time { return Time{Ms: ms, Absolute: true} }
	for _, test := range []struct {
		line    string
		want    Set
		refusal string
	}{
		{line: ""},
		{line: "NX PX 30000", want: o{Condition: Condition{Word: "nx"}, Lifetime: "px", Time: in(30000)}},
		{line: "px 30000 nX", want: o{Condition: Condition{Word: "nx"}, Lifetime: "px", Time: in(30000)}},
		{line: "EX 30 GET XX", want: o{Condition: Condition{Word: "xx"}, Get: true, Lifetime: "ex", Time: in(30000)}},
		{line: "IFEQ tok KEEPTTL", want: o{Condition: Condition{"ifeq", "tok"}, Lifetime: "keepttl"}},
		{line: `ifne "" PXAT 5`, want: o{Condition: Condition{"ifne", ""}, Lifetime: "pxat", Time: at(5)}},
		{line: "EXAT 5 IFEQ NX", want: o{Condition: Condition{"ifeq", "NX"}, Lifetime: "exat", Time: at(5000)}},

		// The same again.
		{line: "NX NX GET GET", want: o{Condition: Condition{Word: "nx"}, Get: true}},
		{line: "KEEPTTL KEEPTTL XX XX", want: o{Condition: Condition{Word: "xx"}, Lifetime: "keepttl"}},
		{line: "PX x PX 7", want: o{Lifetime: "px", Time: in(7)}},
		{line: "IFEQ a IFEQ a", refusal: ErrSyntax},
		{line: "IFNE a IFNE b", refusal: ErrSyntax},

		// What excludes each other.
		{line: "NX XX", refusal: ErrSyntax},
		{line: "XX NX", refusal: ErrSyntax},
		{line: "NX IFEQ a", refusal: ErrSyntax},
		{line: "IFEQ a XX", refusal: ErrSyntax},
		{line: "IFEQ a IFNE a", refusal: ErrSyntax},
		{line: "PX 1 EX 1", refusal: ErrSyntax},
		{line: "PX 1 PXAT 1", refusal: ErrSyntax},
		{line: "EXAT 1 EX 1", refusal: ErrSyntax},
		{line: "KEEPTTL PX 1", refusal: ErrSyntax},
		{line: "EX 1 KEEPTTL", refusal: ErrSyntax},

		// What is missing, or no option.
		{line: "PX", refusal: ErrSyntax},
		{line: "NX EXAT", refusal: ErrSyntax},
		{line: "PX 1 PX", refusal: ErrSyntax},
		{line: "IFEQ", refusal: ErrSyntax},
		{line: "PERSIST", refusal: ErrSyntax},
		{line: `""`, refusal: ErrSyntax},
		{line: "NXX", refusal: ErrSyntax},
		{line: "PX 0 FOO", refusal: ErrSyntax}, // before the time is looked at

		// Times.
		{line: "PX 0", refusal: invalid},
		{line: "EX -1", refusal: invalid},
		{line: "PXAT 0", refusal: invalid},
		{line: "EXAT -9223372036854775808", refusal: invalid},
		{line: "PX 1", want: o{Lifetime: "px", Time: in(1)}},
		{line: "PX -0", refusal: notInteger},
		{line: "EX 1.5", refusal: notInteger},
		{line: `PX ""`, refusal: notInteger},
		{line: "EX NX", refusal: notInteger},
		{line: "PXAT 9223372036854775808", refusal: notInteger},
		{line: "PXAT 9223372036854775807", want: o{Lifetime: "pxat", Time: at(math.MaxInt64)}},
		{line: "PX 9223367638808264703", want: o{Lifetime: "px", Time: in(math.MaxInt64 - nowMax)}},
		{line: "PX 9223367638808264704", refusal: invalid},
		{line: "EXAT 9223372036854775", want: o{Lifetime: "exat", Time: at(9_223_372_036_854_775_000)}},
		{line: "EXAT 9223372036854776", refusal: invalid},
		{line: "EX 9223367638808264", want: o{Lifetime: "ex", Time: in(9_223_367_638_808_264_000)}},
		{line: "EX 9223367638808265", refusal: invalid},
		{line: "EX 9223372036854776", refusal: invalid},
	} {
		got, refusal := readAs(t, test.line,
			func(args [][]byte) (Set, string) { return ReadSet(args) },
			func(args []string) (Set, string) { return ReadSet(args) })
		if refusal != test.refusal || refusal == "" && got != test.want {
			t.Errorf("SET k v %s: got %+v %q, want %+v %q", test.line, got, refusal, test.want, test.refusal)
		}
	}

	const invalidGetex = "ERR invalid expire time in 'getex' command"
	for line, want := range map[string]string{
		"": "", "PERSIST": "", "persist Persist": "", "PX 5": "", "EXAT 5 EXAT 6": "",
		"PERSIST PX 5": ErrSyntax, "EX 5 PERSIST": ErrSyntax, "EX": ErrSyntax, "EX 5 PX 5": ErrSyntax,
		"NX": ErrSyntax, "GET": ErrSyntax, "KEEPTTL": ErrSyntax, "IFEQ a": ErrSyntax,
		"PX x": notInteger, "PX 0": invalidGetex, "EX 9223372036854775807": invalidGetex,
	} {
		_, refusal := readAs(t, line,
			func(args [][]byte) (Set, string) {
				return readSet("getex", args, getexWords)
			},
			func(args []string) (Set, string) {
				return readSet("getex", args, getexWords)
			})
		if refusal != want {
			t.Errorf("GETEX k %s: got %q, want %q", line, refusal, want)
		}
	}
}

func TestCondition(t *testing.T) {
	for _, test := range []struct {
		Condition
		absent, equal, other bool
	}{
		{Condition{}, true, true, true},
		{Condition{Word: "nx"}, true, false, false},
		{Condition{Word: "xx"}, false, true, true},
		{Condition{"ifeq", "tok"}, false, true, false},
		{Condition{"ifne", "tok"}, true, false, true},
	} {
		if absent, equal, other := test.Met(false, ""), test.Met(true, "tok"), test.Met(true, "x"); absent != test.absent || equal != test.equal || other != test.other {
			t.Errorf("%q: met by an absent key, by the value, by another: got %v %v %v, want %v %v %v", test.Word, absent, equal, other, test.absent, test.equal, test.other)
		}
	}
	if (Condition{"ifeq", ""}).Met(false, "") {
		t.Error("a key that is absent is taken for the empty token")
	}
}

func TestReadDelex(t *testing.T) {
	const arity = "ERR wrong number of arguments for 'delex' command"
	for _, test := range []struct {
		line    string
		want    Condition
		refusal string
	}{
		{line: ""},
		{line: "IFEQ tok", want: Condition{"ifeq", "tok"}},
		{line: `ifne ""`, want: Condition{"ifne", ""}},
		{line: "IFEQ", refusal: arity},
		{line: "IFEQ a IFEQ", refusal: arity},
		{line: "IFEQ a IFEQ a", refusal: arity},
		{line: "NX a", refusal: errCondition},
		{line: `"" ifeq`, refusal: errCondition},
	} {
		got, refusal := readAs(t, test.line, readDelex[[]byte], readDelex[string])
		if refusal != test.refusal || got != test.want {
			t.Errorf("DELEX k %s: got %+v %q, want %+v %q", test.line, got, refusal, test.want, test.refusal)
		}
	}
}

func TestReadExpire(t *testing.T) {
	const (
		mixed    = "ERR NX and XX, GT or LT options at the same time are not compatible"
		opposite = "ERR GT and LT options at the same time are not compatible"
		invalid  = "invalid"
	)
	type o = Expire
	for _, test := range []struct {
		line    string
		want    Expire
		refusal string
	}{
		{line: "expire 5", want: o{Time: Time{Ms: 5000}}},
		{line: "pexpire 5 NX nx", want: o{Time: Time{Ms: 5}, NX: true}},
		{line: "expireat 5 XX GT", want: o{Time: Time{5000, true}, XX: true, GT: true}},
		{line: "pexpireat 5 lt xx", want: o{Time: Time{5, true}, XX: true, LT: true}},
		{line: "expire 5 NX XX", refusal: mixed},
		{line: "expire 5 GT NX", refusal: mixed},
		{line: "expire 5 NX LT", refusal: mixed},
		{line: "expire 5 NX LT GT", refusal: mixed},
		{line: "expire 5 GT LT", refusal: opposite},
		{line: "expire x GT LT", refusal: opposite}, // before the time is looked at
		{line: "expire x NX XX FOO BAR", refusal: "ERR Unsupported option FOO"},
		{line: `expire 5 ""`, refusal: "ERR Unsupported option "},
		{line: "expire 5 " + strings.Repeat("x", 300), refusal: "ERR Unsupported option " + strings.Repeat("x", 300)},
		{line: "expire x", refusal: ErrNotInteger},
		{line: `pexpireat ""`, refusal: ErrNotInteger},

		// Those that are over mean now, however long.
		{line: "expire 0", want: o{}},
		{line: "pexpire -1", want: o{Time: Time{Ms: -1}}},
		{line: "pexpire -9223372036854775808", want: o{Time: Time{Ms: math.MinInt64}}},
		{line: "pexpireat -9223372036854775808", want: o{Time: Time{math.MinInt64, true}}},
		{line: "expire -9223372036854775", want: o{Time: Time{Ms: -9_223_372_036_854_775_000}}},
		{line: "expire -9223372036854776", refusal: invalid},
		{line: "expireat -9223372036854776", refusal: invalid},
		{line: "expireat 9223372036854775", want: o{Time: Time{9_223_372_036_854_775_000, true}}},
		{line: "expireat 9223372036854776", refusal: invalid},
		{line: "expire 9223367638808264", want: o{Time: Time{Ms: 9_223_367_638_808_264_000}}},
		{line: "expire 9223367638808265", refusal: invalid},
		{line: "pexpireat 9223372036854775807", want: o{Time: Time{math.MaxInt64, true}}},
		{line: "pexpire 9223367638808264703", want: o{Time: Time{Ms: math.MaxInt64 - nowMax}}},
		{line: "pexpire 9223367638808264704", refusal: invalid},
		{line: "pexpire 9223372036854775807", refusal: invalid},
	} {
		command, rest, _ := strings.Cut(test.line, " ")
		got, refusal := readAs(t, rest,
			func(args [][]byte) (Expire, string) { return readExpire(command, args) },
			func(args []string) (Expire, string) { return readExpire(command, args) })
		if test.refusal == invalid {
			test.refusal = "ERR invalid expire time in '" + command + "' command"
		}
		if refusal != test.refusal || refusal == "" && got != test.want {
			t.Errorf("%s: got %+v %q, want %+v %q", test.line, got, refusal, test.want, test.refusal)
		}
	}
	if _, refusal := readExpire("expire", []string{"5", "FOO\x00BAR"}); refusal != "ERR Unsupported option FOO" {
		t.Errorf("an option with a NUL: got %q", refusal)
	}
}

func TestExpireAllows(t *testing.T) {
	for _, test := range []struct {
		options                      string
		none, earlier, same, further bool // is what the key had
	}{
		{"", true, true, true, true},
		{"NX", true, false, false, false},
		{"XX", false, true, true, true},
		{"GT", false, true, false, false},
		{"LT", true, false, false, true},
		{"XX GT", false, true, false, false},
		{"XX LT", false, false, false, true},
	} {
		o, _ := readExpire("pexpire", append([]string{"100"}, strings.Fields(test.options)...))
		got := [4]bool{o.Allows(100, 0), o.Allows(100, 99), o.Allows(100, 100), o.Allows(100, 101)}
		if want := [4]bool{test.none, test.earlier, test.same, test.further}; got != want {
			t.Errorf("EXPIRE %s on none, an earlier, the same, a further end: got %v, want %v", test.options, got, want)
		}
	}
}

func TestTime(t *testing.T) {
	const (
		now  = 1_700_000_000_123
		most = math.MaxInt64 / time.Millisecond * time.Millisecond
	)
	for _, test := range []struct {
		e   Time
		end int64
		ttl time.Duration
	}{
		{Time{Ms: 5}, now + 5, 5 * time.Millisecond},
		{Time{Ms: -5}, now - 5, -5 * time.Millisecond},
		{Time{now + 5, true}, now + 5, 5 * time.Millisecond},
		{Time{now - 5, true}, now - 5, -5 * time.Millisecond},
		{Time{0, true}, 0, -now * time.Millisecond},
		// As long as a time.Duration goes.
		{Time{Ms: math.MaxInt64 - now}, math.MaxInt64, most},
		{Time{math.MaxInt64, true}, math.MaxInt64, most},
		{Time{Ms: math.MinInt64}, math.MinInt64 + now, -most},
		{Time{math.MinInt64, true}, math.MinInt64, -now * time.Millisecond},
	} {
		if end, ttl := test.e.End(now), test.e.TTL(time.UnixMilli(now)); end != test.end || ttl != test.ttl {
			t.Errorf("%+v: got the end %d and %v left, want %d and %v", test.e, end, ttl, test.end, test.ttl)
		}
	}
}

// A lock is taken with SET: to read its options costs no allocation.
func TestOptionsOfLocksCostNothing(t *testing.T) {
	for _, line := range []string{"NX PX 30000", "EX 30 nx", "PX 30000 GET NX"} {
		args := bytes.Fields([]byte(line))
		if n := testing.AllocsPerRun(100, func() { ReadSet(args) }); n != 0 {
			t.Errorf("%s: got %v allocations, want none", line, n)
		}
	}
}

// Goal: no argument makes a reader panic, what it accepts is what its caller may rely on, and bytes and strings are read alike.
// Method: fuzzing, with the words of all options as seeds; what was read is written again and must be read as the same.
func FuzzOptions(f *testing.F) {
	for _, line := range []string{"", "NX PX 30000", "px 1 get XX", "IFEQ a KEEPTTL", "IFNE NX PXAT 5", "EXAT 9 PERSIST", "5 NX GT", "-1 LT", "x", "PX 9223372036854775807"} {
		f.Add(strings.ReplaceAll(line, " ", "\x00"))
	}
	f.Fuzz(func(t *testing.T, joined string) {
		line := strings.Split(joined, "\x00") // so that an argument can be empty or have a space
		args := make([][]byte, len(line))
		for i := range line {
			args[i] = []byte(line[i])
		}
		for name, words := range map[string][]string{"set": setWords, "getex": getexWords} {
			o, refusal := readSet(name, line, words)
			if o2, refusal2 := readSet(name, args, words); o != o2 || refusal != refusal2 {
				t.Errorf("%s %q: as strings %+v %q, as bytes %+v %q", name, line, o, refusal, o2, refusal2)
			}
			if refusal != "" {
				continue
			}
			if timed := strings.HasPrefix(o.Lifetime, "ex") || strings.HasPrefix(o.Lifetime, "px"); timed != (o.Time.Ms > 0) || o.Compares() != (o.Word[:min(2, len(o.Word))] == "if") {
				t.Errorf("%s %q: got %+v", name, line, o)
			}
			if again, refusal := readSet(name, o.line(), words); again != o || refusal != "" {
				t.Errorf("%s %q: got %+v, and of %q %+v %q", name, line, o, o.line(), again, refusal)
			}
		}
		for _, name := range []string{"expire", "pexpire", "expireat", "pexpireat"} {
			o, refusal := readExpire(name, line)
			if o2, refusal2 := readExpire(name, args); o != o2 || refusal != refusal2 {
				t.Errorf("%s %q: as strings %+v %q, as bytes %+v %q", name, line, o, refusal, o2, refusal2)
			}
			if now := int64(1_700_000_000_123); refusal == "" && o.Ms > 0 && !o.Absolute && o.End(now) < now {
				t.Errorf("%s %q: %+v ends at %d", name, line, o, o.End(now))
			}
		}
		c, refusal := readDelex(line)
		if c2, refusal2 := readDelex(args); c != c2 || refusal != refusal2 || refusal == "" && len(line) == 2 && !c.Compares() {
			t.Errorf("delex %q: as strings %+v %q, as bytes %+v %q", line, c, refusal, c2, refusal2)
		}
	})
}

// line writes the options as a client does, with times in ms.
func (o *Set) line() (line []string) {
	if o.Word != "" {
		line = append(line, strings.ToUpper(o.Word))
	}
	if o.Compares() {
		line = append(line, o.Match)
	}
	if o.Get {
		line = append(line, "Get")
	}
	if o.Lifetime != "" {
		line = append(line, o.Lifetime)
	}
	if o.Time != (Time{}) {
		ms := o.Time.Ms
		if o.Lifetime[0] == 'e' {
			ms /= 1000
		}
		line = append(line, strconv.FormatInt(ms, 10))
	}
	return line
}
