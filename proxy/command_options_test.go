package proxy

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Goal: options and times are read as Redis reads them, from a client's arguments and from a script's. Method: tables; each line
// is read as both.

// optionsNow is the clock of these tables: 1 700 000 000 123 ms.
func optionsNow() time.Time { return scriptNow }

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

func TestParseSetOptions(t *testing.T) {
	const notInteger, invalid = errNotInteger, "ERR invalid expire time in 'set' command"
	type o = setOptions
	in := func(ms int64) expiry { return expiry{ms: ms} }
	at := func(ms int64) expiry { return expiry{ms: ms, absolute: true} }
	for _, test := range []struct {
		line    string
		want    setOptions
		refusal string
	}{
		{line: ""},
		{line: "NX PX 30000", want: o{condition: condition{word: "nx"}, lifetime: "px", when: in(30000)}},
		{line: "px 30000 nX", want: o{condition: condition{word: "nx"}, lifetime: "px", when: in(30000)}},
		{line: "EX 30 GET XX", want: o{condition: condition{word: "xx"}, get: true, lifetime: "ex", when: in(30000)}},
		{line: "IFEQ tok KEEPTTL", want: o{condition: condition{"ifeq", "tok"}, lifetime: "keepttl"}},
		{line: `ifne "" PXAT 5`, want: o{condition: condition{"ifne", ""}, lifetime: "pxat", when: at(5)}},
		{line: "EXAT 5 IFEQ NX", want: o{condition: condition{"ifeq", "NX"}, lifetime: "exat", when: at(5000)}},

		// The same again.
		{line: "NX NX GET GET", want: o{condition: condition{word: "nx"}, get: true}},
		{line: "KEEPTTL KEEPTTL XX XX", want: o{condition: condition{word: "xx"}, lifetime: "keepttl"}},
		{line: "PX x PX 7", want: o{lifetime: "px", when: in(7)}},
		{line: "IFEQ a IFEQ a", refusal: errSyntax},
		{line: "IFNE a IFNE b", refusal: errSyntax},

		// What excludes each other.
		{line: "NX XX", refusal: errSyntax},
		{line: "XX NX", refusal: errSyntax},
		{line: "NX IFEQ a", refusal: errSyntax},
		{line: "IFEQ a XX", refusal: errSyntax},
		{line: "IFEQ a IFNE a", refusal: errSyntax},
		{line: "PX 1 EX 1", refusal: errSyntax},
		{line: "PX 1 PXAT 1", refusal: errSyntax},
		{line: "EXAT 1 EX 1", refusal: errSyntax},
		{line: "KEEPTTL PX 1", refusal: errSyntax},
		{line: "EX 1 KEEPTTL", refusal: errSyntax},

		// What is missing, or no option.
		{line: "PX", refusal: errSyntax},
		{line: "NX EXAT", refusal: errSyntax},
		{line: "PX 1 PX", refusal: errSyntax},
		{line: "IFEQ", refusal: errSyntax},
		{line: "PERSIST", refusal: errSyntax},
		{line: `""`, refusal: errSyntax},
		{line: "NXX", refusal: errSyntax},
		{line: "PX 0 FOO", refusal: errSyntax}, // before the time is looked at

		// Times.
		{line: "PX 0", refusal: invalid},
		{line: "EX -1", refusal: invalid},
		{line: "PXAT 0", refusal: invalid},
		{line: "EXAT -9223372036854775808", refusal: invalid},
		{line: "PX 1", want: o{lifetime: "px", when: in(1)}},
		{line: "PX -0", refusal: notInteger},
		{line: "EX 1.5", refusal: notInteger},
		{line: `PX ""`, refusal: notInteger},
		{line: "EX NX", refusal: notInteger},
		{line: "PXAT 9223372036854775808", refusal: notInteger},
		{line: "PXAT 9223372036854775807", want: o{lifetime: "pxat", when: at(math.MaxInt64)}},
		{line: "PX 9223370336854775684", want: o{lifetime: "px", when: in(math.MaxInt64 - 1_700_000_000_123)}},
		{line: "PX 9223370336854775685", refusal: invalid},
		{line: "EXAT 9223372036854775", want: o{lifetime: "exat", when: at(9_223_372_036_854_775_000)}},
		{line: "EXAT 9223372036854776", refusal: invalid},
		{line: "EX 9223370336854775", want: o{lifetime: "ex", when: in(9_223_370_336_854_775_000)}},
		{line: "EX 9223370336854776", refusal: invalid},
		{line: "EX 9223372036854776", refusal: invalid},
	} {
		got, refusal := readAs(t, test.line,
			func(args [][]byte) (setOptions, string) { return parseSetOptions("set", args, setWords, optionsNow) },
			func(args []string) (setOptions, string) { return parseSetOptions("set", args, setWords, optionsNow) })
		if refusal != test.refusal || refusal == "" && got != test.want {
			t.Errorf("SET k v %s: got %+v %q, want %+v %q", test.line, got, refusal, test.want, test.refusal)
		}
	}

	const invalidGetex = "ERR invalid expire time in 'getex' command"
	for line, want := range map[string]string{
		"": "", "PERSIST": "", "persist Persist": "", "PX 5": "", "EXAT 5 EXAT 6": "",
		"PERSIST PX 5": errSyntax, "EX 5 PERSIST": errSyntax, "EX": errSyntax, "EX 5 PX 5": errSyntax,
		"NX": errSyntax, "GET": errSyntax, "KEEPTTL": errSyntax, "IFEQ a": errSyntax,
		"PX x": notInteger, "PX 0": invalidGetex, "EX 9223372036854775807": invalidGetex,
	} {
		_, refusal := readAs(t, line,
			func(args [][]byte) (setOptions, string) {
				return parseSetOptions("getex", args, getexWords, optionsNow)
			},
			func(args []string) (setOptions, string) {
				return parseSetOptions("getex", args, getexWords, optionsNow)
			})
		if refusal != want {
			t.Errorf("GETEX k %s: got %q, want %q", line, refusal, want)
		}
	}
}

func TestCondition(t *testing.T) {
	for _, test := range []struct {
		condition
		absent, equal, other bool
	}{
		{condition{}, true, true, true},
		{condition{word: "nx"}, true, false, false},
		{condition{word: "xx"}, false, true, true},
		{condition{"ifeq", "tok"}, false, true, false},
		{condition{"ifne", "tok"}, true, false, true},
	} {
		if absent, equal, other := test.met(false, ""), test.met(true, "tok"), test.met(true, "x"); absent != test.absent || equal != test.equal || other != test.other {
			t.Errorf("%q: met by an absent key, by the value, by another: got %v %v %v, want %v %v %v", test.word, absent, equal, other, test.absent, test.equal, test.other)
		}
	}
	if (condition{"ifeq", ""}).met(false, "") {
		t.Error("a key that is absent is taken for the empty token")
	}
}

func TestParseDelex(t *testing.T) {
	const arity = "ERR wrong number of arguments for 'delex' command"
	for _, test := range []struct {
		line    string
		want    condition
		refusal string
	}{
		{line: ""},
		{line: "IFEQ tok", want: condition{"ifeq", "tok"}},
		{line: `ifne ""`, want: condition{"ifne", ""}},
		{line: "IFEQ", refusal: arity},
		{line: "IFEQ a IFEQ", refusal: arity},
		{line: "IFEQ a IFEQ a", refusal: arity},
		{line: "NX a", refusal: errCondition},
		{line: `"" ifeq`, refusal: errCondition},
	} {
		got, refusal := readAs(t, test.line, parseDelex[[]byte], parseDelex[string])
		if refusal != test.refusal || got != test.want {
			t.Errorf("DELEX k %s: got %+v %q, want %+v %q", test.line, got, refusal, test.want, test.refusal)
		}
	}
}

func TestParseExpire(t *testing.T) {
	const (
		mixed    = "ERR NX and XX, GT or LT options at the same time are not compatible"
		opposite = "ERR GT and LT options at the same time are not compatible"
		invalid  = "invalid"
	)
	type o = expireOptions
	for _, test := range []struct {
		line    string
		want    expireOptions
		refusal string
	}{
		{line: "expire 5", want: o{expiry: expiry{ms: 5000}}},
		{line: "pexpire 5 NX nx", want: o{expiry: expiry{ms: 5}, nx: true}},
		{line: "expireat 5 XX GT", want: o{expiry: expiry{5000, true}, xx: true, gt: true}},
		{line: "pexpireat 5 lt xx", want: o{expiry: expiry{5, true}, xx: true, lt: true}},
		{line: "expire 5 NX XX", refusal: mixed},
		{line: "expire 5 GT NX", refusal: mixed},
		{line: "expire 5 NX LT", refusal: mixed},
		{line: "expire 5 NX LT GT", refusal: mixed},
		{line: "expire 5 GT LT", refusal: opposite},
		{line: "expire x GT LT", refusal: opposite}, // before the time is looked at
		{line: "expire x NX XX FOO BAR", refusal: "ERR Unsupported option FOO"},
		{line: `expire 5 ""`, refusal: "ERR Unsupported option "},
		{line: "expire 5 " + strings.Repeat("x", 300), refusal: "ERR Unsupported option " + strings.Repeat("x", 300)},
		{line: "expire x", refusal: errNotInteger},
		{line: `pexpireat ""`, refusal: errNotInteger},

		// Those that are over mean now, however long.
		{line: "expire 0", want: o{}},
		{line: "pexpire -1", want: o{expiry: expiry{ms: -1}}},
		{line: "pexpire -9223372036854775808", want: o{expiry: expiry{ms: math.MinInt64}}},
		{line: "pexpireat -9223372036854775808", want: o{expiry: expiry{math.MinInt64, true}}},
		{line: "expire -9223372036854775", want: o{expiry: expiry{ms: -9_223_372_036_854_775_000}}},
		{line: "expire -9223372036854776", refusal: invalid},
		{line: "expireat -9223372036854776", refusal: invalid},
		{line: "expireat 9223372036854775", want: o{expiry: expiry{9_223_372_036_854_775_000, true}}},
		{line: "expireat 9223372036854776", refusal: invalid},
		{line: "expire 9223370336854775", want: o{expiry: expiry{ms: 9_223_370_336_854_775_000}}},
		{line: "expire 9223370336854776", refusal: invalid},
		{line: "pexpireat 9223372036854775807", want: o{expiry: expiry{math.MaxInt64, true}}},
		{line: "pexpire 9223370336854775684", want: o{expiry: expiry{ms: math.MaxInt64 - 1_700_000_000_123}}},
		{line: "pexpire 9223370336854775685", refusal: invalid},
		{line: "pexpire 9223372036854775807", refusal: invalid},
	} {
		command, rest, _ := strings.Cut(test.line, " ")
		got, refusal := readAs(t, rest,
			func(args [][]byte) (expireOptions, string) { return parseExpire(command, args, optionsNow) },
			func(args []string) (expireOptions, string) { return parseExpire(command, args, optionsNow) })
		if test.refusal == invalid {
			test.refusal = "ERR invalid expire time in '" + command + "' command"
		}
		if refusal != test.refusal || refusal == "" && got != test.want {
			t.Errorf("%s: got %+v %q, want %+v %q", test.line, got, refusal, test.want, test.refusal)
		}
	}
	if _, refusal := parseExpire("expire", []string{"5", "FOO\x00BAR"}, optionsNow); refusal != "ERR Unsupported option FOO" {
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
		o, _ := parseExpire("pexpire", append([]string{"100"}, strings.Fields(test.options)...), optionsNow)
		got := [4]bool{o.allows(100, 0, false), o.allows(100, 99, true), o.allows(100, 100, true), o.allows(100, 101, true)}
		if want := [4]bool{test.none, test.earlier, test.same, test.further}; got != want {
			t.Errorf("EXPIRE %s on none, an earlier, the same, a further end: got %v, want %v", test.options, got, want)
		}
	}
}

func TestExpiry(t *testing.T) {
	const now = 1_700_000_000_123
	for _, test := range []struct {
		e   expiry
		end int64
		ttl time.Duration
	}{
		{expiry{ms: 5}, now + 5, 5 * time.Millisecond},
		{expiry{ms: -5}, now - 5, -5 * time.Millisecond},
		{expiry{now + 5, true}, now + 5, 5 * time.Millisecond},
		{expiry{now - 5, true}, now - 5, -5 * time.Millisecond},
		{expiry{0, true}, 0, -now * time.Millisecond},
		// As long as a time.Duration goes.
		{expiry{ms: math.MaxInt64 - now}, math.MaxInt64, time.Duration(msMax) * time.Millisecond},
		{expiry{math.MaxInt64, true}, math.MaxInt64, time.Duration(msMax) * time.Millisecond},
		{expiry{ms: math.MinInt64}, math.MinInt64 + now, -time.Duration(msMax) * time.Millisecond},
		{expiry{math.MinInt64, true}, math.MinInt64, -now * time.Millisecond},
	} {
		if end, ttl := test.e.end(now), test.e.ttl(scriptNow); end != test.end || ttl != test.ttl {
			t.Errorf("%+v: got the end %d and %v left, want %d and %v", test.e, end, ttl, test.end, test.ttl)
		}
	}
}

// A lock is taken with SET, and the clock costs as much as the rest of reading its options.
func TestOptionsOfLocksCostNothing(t *testing.T) {
	for _, line := range []string{"NX PX 30000", "EX 30 nx", "PX 30000 GET NX"} {
		args := [][]byte{}
		for _, word := range strings.Fields(line) {
			args = append(args, []byte(word))
		}
		noClock := func() time.Time { t.Error(strconv.Quote(line), "asks the clock"); return time.Time{} }
		if n := testing.AllocsPerRun(100, func() { parseSetOptions("set", args, setWords, noClock) }); n != 0 {
			t.Errorf("%s: got %v allocations, want none", line, n)
		}
	}
}
