package keyspace

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Goal: options and times are read as Redis reads them. Method: most of that is in TestSameAsRedis,
// which sends random options to a real one. Here are conditions on values, which Redis 7.0 does not
// have, the bounds of times, and what no command shows.

func TestReadSet(t *testing.T) {
	const invalid = "ERR invalid expire time in 'set' command"
	type o = Set
	for _, test := range []struct {
		line    string
		want    Set
		refusal string
	}{
		{line: "px 30000 nX", want: o{Condition: Condition{Word: "nx"}, Lifetime: "px", Time: Time{Ms: 30000}}},
		{line: "IFEQ tok KEEPTTL", want: o{Condition: Condition{"ifeq", "tok"}, Lifetime: "keepttl"}},
		{line: `ifne "" PXAT 5`, want: o{Condition: Condition{"ifne", ""}, Lifetime: "pxat", Time: Time{5, true}}},
		{line: "EXAT 5 IFEQ NX", want: o{Condition: Condition{"ifeq", "NX"}, Lifetime: "exat", Time: Time{5000, true}}},
		{line: "IFEQ a IFEQ a", refusal: ErrSyntax}, // one value to compare with
		{line: "IFNE a IFNE b", refusal: ErrSyntax},
		{line: "IFEQ a IFNE a", refusal: ErrSyntax},
		{line: "NX IFEQ a", refusal: ErrSyntax},
		{line: "IFEQ a XX", refusal: ErrSyntax},
		{line: "IFEQ", refusal: ErrSyntax},
		{line: "PX 9223367638808264703", want: o{Lifetime: "px", Time: Time{Ms: math.MaxInt64 - nowMax}}},
		{line: "PX 9223367638808264704", refusal: invalid},
		{line: "EX 9223367638808264", want: o{Lifetime: "ex", Time: Time{Ms: 9_223_367_638_808_264_000}}},
		{line: "EX 9223367638808265", refusal: invalid},
		{line: "EXAT 9223372036854775", want: o{Lifetime: "exat", Time: Time{9_223_372_036_854_775_000, true}}},
		{line: "EXAT 9223372036854776", refusal: invalid},
		{line: "PXAT 9223372036854775807", want: o{Lifetime: "pxat", Time: Time{math.MaxInt64, true}}},
	} {
		got, refusal := ReadSet(fields(test.line))
		if refusal != test.refusal || refusal == "" && got != test.want {
			t.Errorf("SET k v %s: got %+v %q, want %+v %q", test.line, got, refusal, test.want, test.refusal)
		}
	}
}

// fields are the words of a line, of which "" is an empty one.
func fields(line string) []string {
	words := strings.Fields(line)
	for i := range words {
		words[i] = strings.Trim(words[i], `"`)
	}
	return words
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
		got := [3]bool{test.Met(false, ""), test.Met(true, "tok"), test.Met(true, "x")}
		if want := [3]bool{test.absent, test.equal, test.other}; got != want {
			t.Errorf("%q: met by an absent key, by the value, by another: got %v, want %v", test.Word, got, want)
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
		{line: "NX a", refusal: errCondition},
		{line: `"" ifeq`, refusal: errCondition},
	} {
		got, refusal := readDelex(fields(test.line))
		if refusal != test.refusal || got != test.want {
			t.Errorf("DELEX k %s: got %+v %q, want %+v %q", test.line, got, refusal, test.want, test.refusal)
		}
	}
}

func TestReadExpire(t *testing.T) {
	const (
		invalid = "invalid"
		mixed   = "ERR NX and XX, GT or LT options at the same time are not compatible"
	)
	for _, test := range []struct {
		line    string
		want    Time
		refusal string
	}{
		{line: "expire x GT LT", refusal: "ERR GT and LT options at the same time are not compatible"}, // before the time
		{line: "expire 5 NX XX", refusal: mixed},
		{line: "expire 5 GT NX", refusal: mixed},
		{line: "expire 5 NX LT", refusal: mixed},
		{line: "expire x NX XX FOO BAR", refusal: "ERR Unsupported option FOO"},
		{line: "expire 5 FOO\x00BAR", refusal: "ERR Unsupported option FOO"},

		// Those that are over mean now, however long.
		{line: "pexpire -9223372036854775808", want: Time{Ms: math.MinInt64}},
		{line: "pexpireat -9223372036854775808", want: Time{math.MinInt64, true}},
		{line: "expire -9223372036854775", want: Time{Ms: -9_223_372_036_854_775_000}},
		{line: "expire -9223372036854776", refusal: invalid},
		{line: "expireat -9223372036854776", refusal: invalid},
		{line: "expireat 9223372036854775", want: Time{9_223_372_036_854_775_000, true}},
		{line: "expireat 9223372036854776", refusal: invalid},
		{line: "expire 9223367638808264", want: Time{Ms: 9_223_367_638_808_264_000}},
		{line: "expire 9223367638808265", refusal: invalid},
		{line: "pexpireat 9223372036854775807", want: Time{math.MaxInt64, true}},
		{line: "pexpire 9223367638808264703", want: Time{Ms: math.MaxInt64 - nowMax}},
		{line: "pexpire 9223367638808264704", refusal: invalid},
	} {
		words := fields(test.line)
		got, refusal := readExpire(words[0], words[1:])
		if test.refusal == invalid {
			test.refusal = "ERR invalid expire time in '" + words[0] + "' command"
		}
		if refusal != test.refusal || refusal == "" && got.Time != test.want {
			t.Errorf("%s: got %+v %q, want %+v %q", test.line, got, refusal, test.want, test.refusal)
		}
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
		o, _ := readExpire("pexpire", append([]string{"100"}, fields(test.options)...))
		got := [4]bool{o.allows(100, 0), o.allows(100, 99), o.allows(100, 100), o.allows(100, 101)}
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

// Goal: no argument makes a reader panic, and what it accepts is what its caller may rely on. Method:
// fuzzing, with the words of all options as seeds; what was read is written again and must be read as
// the same.
func FuzzOptions(f *testing.F) {
	for _, line := range []string{"", "NX PX 30000", "px 1 get XX", "IFEQ a KEEPTTL", "IFNE NX PXAT 5", "EXAT 9 PERSIST", "5 NX GT", "-1 LT", "x", "PX 9223372036854775807"} {
		f.Add(strings.ReplaceAll(line, " ", "\x00"))
	}
	f.Fuzz(func(t *testing.T, joined string) {
		line := strings.Split(joined, "\x00") // so that an argument can be empty or have a space
		for name, words := range map[string][]string{"set": setWords, "getex": getexWords} {
			o, refusal := readSet(name, line, words)
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
			if now := int64(1_700_000_000_123); refusal == "" && o.Ms > 0 && !o.Absolute && o.End(now) < now {
				t.Errorf("%s %q: %+v ends at %d", name, line, o, o.End(now))
			}
		}
		if c, refusal := readDelex(line); refusal == "" && len(line) == 2 && !c.Compares() {
			t.Errorf("delex %q: got %+v", line, c)
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
