package redlock

// Goal: the scripts of locks do on a redis-server what they do on a master in memory, and what their heads
// say. Method: each case fills a master, runs one script, and compares its reply and what the master holds
// then. TestReaderScripts, TestMemberScripts and TestCopyScripts have the other scripts.

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/fence"
	"redlockd/redlock/lua"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/redisproc"
)

// A number that stands in a script and in the Go code is the same in both.
func TestNumbersInScripts(t *testing.T) {
	ahead := fmt.Sprintf("(clock() - %d + %d) * %d\n", fence.OriginMs, fence.AheadMax.Milliseconds(), 1<<fence.CounterBits)
	for _, tc := range []struct {
		script lua.Script
		want   string
	}{
		{lua.Acquire, fmt.Sprintf(`string.sub(held, 1, %d) == '\000%s' and #held >= %d`, len(VersionMark), VersionMark[1:], versionEnd)},
		{lua.Acquire, fmt.Sprintf("string.sub(held, %d, %d) == string.sub(ARGV[1], %[1]d, %[2]d)", lineageAt+1, generationAt)},
		{lua.Acquire, fmt.Sprintf("string.byte(held, %d) * 256 + string.byte(held, %d)", generationAt+1, generationAt+2)},
		{lua.Acquire, fmt.Sprintf("local endMove = %d\n", lua.EndMoveMs)},
		{lua.Commit, fmt.Sprintf("local endMove = %d\n", lua.EndMoveMs)},
		{lua.Undo, fmt.Sprintf("local early = %d\n", endSlackMs+1)},
		{lua.Slot, fmt.Sprintf("return %d - free - found * 2 ^ %d\n", slotDenied, slotFoundBit)},
		{lua.Acquire, ahead},
		{lua.Raise, ahead},
		{lua.AdmitFloor, ahead},
		{lua.AdmitFloor, fmt.Sprintf("return %d\n", fence.Ahead)},
		{lua.Clamp, fmt.Sprintf("string.sub(KEYS[i], 1, %d) == '%s'", len(ReservedPrefix), ReservedPrefix)},
	} {
		if !strings.Contains(tc.script.Text, tc.want) {
			t.Errorf("%s.lua: there is no %q in it", tc.script.Name, tc.want)
		}
	}
}

// fillMaster has the master hold what the text says, and nothing else. "; " stands between two keys:
//
//	a: A 4           a string that lives for 4 minutes, or for ever without a number
//	a: r:A 4, redlockd:end 4
//	                 readers, with the minutes to their ends
//	a: {b 7, c 9}    a sorted set of another kind: marks
//	a: #             a hash
func fillMaster(t *testing.T, client *redis.Client, text string) {
	t.Helper()
	ctx := context.Background()
	must := func(args ...any) {
		t.Helper()
		if err := client.Do(ctx, args...).Err(); err != nil {
			t.Fatal(args, err)
		}
	}
	must("FLUSHALL")
	for entry := range strings.SplitSeq(text, "; ") {
		key, what, found := strings.Cut(entry, ": ")
		if !found {
			continue
		}
		value, minutes, ends := strings.Cut(what, " ")
		switch {
		case what == "#":
			must("HSET", key, "f", "v")
		case strings.Contains(what, "redlockd:end"), what[0] == '{':
			for member := range strings.SplitSeq(strings.Trim(what, "{}"), ", ") {
				name, number, _ := strings.Cut(member, " ")
				score, _ := strconv.Atoi(number)
				if what[0] != '{' {
					score *= 60_000
				}
				must("ZADD", key, score, name)
				if name == "redlockd:end" {
					must("PEXPIRE", key, score)
				}
			}
		case ends:
			life, _ := strconv.Atoi(minutes)
			must("SET", key, value, "PX", 60_000*life)
		default:
			must("SET", key, value)
		}
	}
}

// heldByMaster is what the master holds, in the words of fillMaster.
func heldByMaster(t *testing.T, client *redis.Client) string {
	t.Helper()
	ctx := context.Background()
	var entries []string
	keys, _ := client.Scan(ctx, 0, "", 1000).Val()
	for _, key := range keys {
		what := readersSet(t, client, key)
		left := client.PTTL(ctx, key).Val()
		switch {
		case what == "string":
			if what = client.Get(ctx, key).Val(); left >= 0 {
				what += fmt.Sprint(" ", int(left.Round(time.Minute).Minutes()))
			}
		case what == "hash":
			what = "#"
		case left < 0:
			var members []string
			for _, z := range client.ZRevRangeWithScores(ctx, key, 0, -1).Val() {
				members = append(members, fmt.Sprintf("%v %.0f", z.Member, z.Score))
			}
			slices.Sort(members)
			what = "{" + strings.Join(members, ", ") + "}"
		}
		entries = append(entries, key+": "+what)
	}
	slices.Sort(entries)
	return strings.Join(entries, "; ")
}

// endOf is an argument: when a key, or a reader in it, ends by the master's clock, and so many milliseconds.
type endOf struct {
	key, reader string
	later       int
	watched     bool // as a guard of commit.lua has it: 2@…
}

// runScript runs a script. With an endOf, the clock stands still meanwhile, so that nobody has to be quick: an
// old redis-server reads its clock anew for each TIME and PTTL. Numbers that are milliseconds are shown as
// minutes, those from now on and those since 1970.
func runScript(client *redis.Client, s lua.Script, keys []string, args []any) string {
	const still = `local KEYS, ARGV, call, known = KEYS, {unpack(ARGV)}, redis.call, {}
		local redis = {call = function(name, ...)
			local key = ... or ''
			if name ~= 'TIME' and name ~= 'PTTL' then
				return call(name, ...)
			end
			known[key] = known[key] or call(name, ...)
			return known[key]
		end}
		local now = redis.call('TIME')
		now = now[1] * 1000 + math.floor(now[2] / 1000)
	`
	before := ""
	args = slices.Clone(args)
	for i, arg := range args {
		if end, ok := arg.(endOf); ok {
			args[i], before = 0, cmp.Or(before, still)
			before += fmt.Sprintf("ARGV[%d] = now + redis.call('PTTL', '%s') + %d\n", i+1, end.key, end.later)
			if end.reader != "" {
				before += fmt.Sprintf("ARGV[%d] = ARGV[%[1]d] + redis.call('ZSCORE', '%s', 'r:%s') - redis.call('ZSCORE', '%[2]s', 'redlockd:end')\n", i+1, end.key, end.reader)
			}
			before += fmt.Sprintf("ARGV[%d] = string.format('%%.0f', ARGV[%[1]d])\n", i+1)
			if end.watched {
				before += fmt.Sprintf("ARGV[%d] = '2@' .. ARGV[%[1]d]\n", i+1)
			}
		}
	}
	reply, err := client.Eval(context.Background(), before+s.Text, keys, args...).Result()
	if err != nil {
		return err.Error()
	}
	return regexp.MustCompile(`-?\b\d+\b`).ReplaceAllStringFunc(fmt.Sprint(reply), func(text string) string {
		n, _ := strconv.ParseInt(text, 10, 64)
		switch {
		case n >= 1e12 && n < 1e13:
			return fmt.Sprintf("now+%d", int(time.Until(time.UnixMilli(n)).Round(time.Minute).Minutes()))
		case n >= 30_000 && n < 1e8:
			return fmt.Sprint((n+30_000)/60_000, "min")
		}
		return text
	})
}

func TestLockScripts(t *testing.T) {
	const longest = 3_600_000
	minutes := func(n int) int { return 60_000 * n }
	// acquire makes the arguments of acquire and slot; of slot the one that follows is the slot.
	acquire := func(token string, ttl int, more ...any) []any {
		return append([]any{token, minutes(ttl), longest, 0, 100}, more...)
	}
	fenced := func(token string, ttl int, fence int64, more ...any) []any {
		return append([]any{token, minutes(ttl), longest, fence, 100}, more...)
	}
	version := func(lineage string, generation uint16) string { // as short as one may be
		return VersionMark + "h" + lineage + string([]byte{byte(generation >> 8), byte(generation)}) + "......."
	}
	ahead, behind := fence.Time(time.Now().Add(fence.AheadMax+time.Hour)), fence.Time(time.Now().Add(fence.AheadMax-time.Hour))
	many := func(marks int) string { // marks of resources r101, r102, … with these marks
		var members []string
		for i := range marks {
			members = append(members, fmt.Sprintf("r%d %[1]d", 101+i))
		}
		return "{" + strings.Join(members, ", ") + "}"
	}
	cases := []struct {
		name, before string
		script       lua.Script
		keys         string
		args         []any
		reply, after string // after "": as before; "-": nothing
	}{
		{"set", "", lua.Acquire, "a b", acquire("A", 4), "1", "a: A 4; b: A 4"},
		{"set again", "a: A 4", lua.Acquire, "a b", acquire("A", 2), "2", "a: A 4; b: A 2"},
		{"set again for longer", "a: A 4", lua.Acquire, "a", acquire("A", 9), "2", "a: A 9"},
		{"denied by the first", "a: B 4", lua.Acquire, "a b", acquire("A", 2), "-3", ""},
		{"denied by the second", "b: B 4", lua.Acquire, "a b", acquire("A", 2), "-4", ""},
		{"denied by another type", "a: #", lua.Acquire, "a", acquire("A", 2), "-3", ""},
		{"denied by a stranger's set", "a: {x 1}", lua.Acquire, "a", acquire("A", 2), "-3", ""},
		{"denied by a reader", "a: r:A 4, redlockd:end 4", lua.Acquire, "a", acquire("A", 2), "-3", ""},
		{"an intent is nobody", "a: redlockd:end 4, writer 4", lua.Acquire, "a", acquire("A", 2), "1", "a: A 2"},
		{"a reservation", "a: R 4", lua.Acquire, "a b", acquire("A", 2, "R"), "1", "a: A 2; b: A 2"},
		{"set again, beside a reservation", "a: A 4; b: R 4", lua.Acquire, "a b", acquire("A", 9, "R"), "2", "a: A 9; b: A 9"},
		{"another's reservation", "a: S 4", lua.Acquire, "a b", acquire("A", 2, "R"), "-3", ""},
		{"a version that is over", "a: " + version("lineage", 1) + " 4", lua.Acquire, "a", acquire(version("lineage", 2), 2, "-", "1"), "1", "a: " + version("lineage", 2) + " 2"},
		{"set again, beside a version that is over", "a: " + version("lineage", 2) + " 4; b: " + version("lineage", 1) + " 4", lua.Acquire, "a b",
			acquire(version("lineage", 2), 9, "-", "1"), "2", "a: " + version("lineage", 2) + " 9; b: " + version("lineage", 2) + " 9"},
		{"a version of the same generation", "a: " + version("lineage", 2) + "x 4", lua.Acquire, "a", acquire(version("lineage", 2), 2, "-", "1"), "1", "a: " + version("lineage", 2) + " 2"},
		{"a version that is over, by two bytes", "a: " + version("lineage", 0xff) + " 4", lua.Acquire, "a", acquire(version("lineage", 0x100), 2, "-", "1"), "1", "a: " + version("lineage", 0x100) + " 2"},
		{"a later version, by two bytes", "a: " + version("lineage", 0x100) + " 4", lua.Acquire, "a", acquire(version("lineage", 0xff), 2, "-", "1"), "-3", ""},
		{"too short for a version", "a: " + version("lineage", 1)[:26] + " 4", lua.Acquire, "a", acquire(version("lineage", 2), 2, "-", "1"), "-3", ""},
		{"not marked as a version", "a: x" + version("lineage", 1)[1:] + " 4", lua.Acquire, "a", acquire(version("lineage", 2), 2, "-", "1"), "-3", ""},
		{"a later version", "a: " + version("lineage", 3) + " 4", lua.Acquire, "a", acquire(version("lineage", 2), 2, "-", "1"), "-3", ""},
		{"a version of another lineage", "a: " + version("another", 1) + " 4", lua.Acquire, "a", acquire(version("lineage", 2), 2, "-", "1"), "-3", ""},
		{"a version that nobody takes for over", "a: " + version("lineage", 1) + " 4", lua.Acquire, "a", acquire(version("lineage", 2), 2), "-3", ""},

		{"a fence", "", lua.Acquire, "a b m f", fenced("A", 2, 7), "1", "a: A 2; b: A 2; m: {a 7, b 7}"},
		{"a fence above the mark", "m: {a 6}; f: 6", lua.Acquire, "a b m f", fenced("A", 2, 7), "1", "a: A 2; b: A 2; f: 6; m: {a 7, b 7}"},
		{"a fence of one that holds", "a: A 4; m: {a 6}", lua.Acquire, "a m f", fenced("A", 2, 7), "2", "a: A 4; m: {a 7}"},
		{"a fence as high as the mark", "m: {b 7}", lua.Acquire, "a b m f", fenced("A", 2, 7), "7", ""},
		{"a fence as high as the floor", "f: 7", lua.Acquire, "a m f", fenced("A", 2, 7), "7", ""},
		{"a fence of a reservation", "a: R 4", lua.Acquire, "a m f", fenced("A", 2, 7, "R"), "1", "a: A 2; m: {a 7}"},
		{"a fence, and denied", "b: B 4; m: {a 6}", lua.Acquire, "a b m f", fenced("A", 2, 7), "-4", ""},
		{"a fence a day ahead", "", lua.Acquire, "a m f", fenced("A", 2, ahead), "-2", ""},
		{"a fence not quite a day ahead", "", lua.Acquire, "a m f", fenced("A", 2, behind), "1", fmt.Sprintf("a: A 2; m: {a %d}", behind)},
		{"a few marks too many", "m: " + many(162), lua.Acquire, "r101 m f", fenced("A", 2, 999), "1", "m: " + strings.Replace(many(162), "r101 101", "r101 999", 1) + "; r101: A 2"},
		{"too many marks", "f: 1; m: " + many(164), lua.Acquire, "r264 m f", fenced("A", 2, 999), "1", "f: 164; m: {" + strings.SplitN(strings.Replace(many(164), "r264 264", "r264 999", 1), "r164 164, ", 2)[1] + "; r264: A 2"},

		{"a slot", "a#0: B 4", lua.Slot, "a#0 a#1 a#2", acquire("A", 2, 2), "1", "a#0: B 4; a#1: A 2"},
		{"a slot again", "a#1: A 4", lua.Slot, "a#0 a#1 a#2", acquire("A", 2, 2), "2", ""},
		{"a slot that is held", "a#1: B 4", lua.Slot, "a#0 a#1 a#2", acquire("A", 2, 2), "-15", ""}, // 1 and 3 are free
		{"a slot of another type", "a#1: #", lua.Slot, "a#0 a#1 a#2", acquire("A", 2, 2), "-15", ""},
		{"a second slot", "a#2: A 4", lua.Slot, "a#0 a#1 a#2", acquire("A", 2, 1), fmt.Sprint(-10 - 3 - int64(3)<<slotFoundBit), ""},
		{"no slot", "a#2: B 4", lua.Slot, "a#0 a#1 a#2", acquire("A", 2, 0), "-13", ""},
		{"a slot with a fence", "a#0: B 4; m: {a#1 6}", lua.Slot, "a#0 a#1 m f", fenced("A", 2, 7, 2), "1", "a#0: B 4; a#1: A 2; m: {a#1 7}"},
		{"a slot with a fence that is too low", "m: {a#1 7}", lua.Slot, "a#0 a#1 m f", fenced("A", 2, 7, 2), "7", ""},
		{"a slot that is held, and a fence", "a#1: B 4", lua.Slot, "a#0 a#1 m f", fenced("A", 2, 7, 2), "-11", ""},

		{"extend", "a: A 4; b: A 2", lua.Extend, "a b", []any{"A", minutes(3), longest}, "1", "a: A 4; b: A 3"},
		{"extend another's", "a: B 4", lua.Extend, "a", []any{"A", minutes(9), longest}, "0", ""},
		{"extend another type", "a: #", lua.Extend, "a", []any{"A", minutes(9), longest}, "0", ""},
		{"extend what is absent", "", lua.Extend, "a b", []any{"A", minutes(9), longest}, "-1", ""},
		{"extend a part, the rest is another's", "a: A 4; b: B 4", lua.Extend, "a b", []any{"A", minutes(9), longest}, "4", ""},
		{"extend a part, what comes before is another's", "a: B 4; b: A 4", lua.Extend, "a b", []any{"A", minutes(9), longest}, "4", ""},
		{"extend a part, the rest is of another type", "a: A 4; b: #", lua.Extend, "a b", []any{"A", minutes(9), longest}, "4", ""},
		{"extend a part, what comes before is of another type", "a: #; b: A 4", lua.Extend, "a b", []any{"A", minutes(9), longest}, "4", ""},
		{"extend what is absent beside another type", "b: #", lua.Extend, "a b", []any{"A", minutes(9), longest}, "0", ""},
		{"extend a part, the rest is a stranger's set", "a: A 4; b: {x 1}", lua.Extend, "a b", []any{"A", minutes(9), longest}, "4", ""},
		{"extend a part, the rest has other readers", "a: A 4; b: r:B 5, redlockd:end 5", lua.Extend, "a b", []any{"A", minutes(9), longest}, "5", ""},
		{"extend a part, the rest is absent", "a: A 4", lua.Extend, "a b", []any{"A", minutes(9), longest}, "5", ""},
		{"extend a reader and a writer", "a: A 4; b: r:A 2, r:B 5, redlockd:end 5", lua.Extend, "a b", []any{"A", minutes(9), longest}, "3", "a: A 9; b: r:A 9, r:B 5, redlockd:end 9"},

		{"release", "a: A 4; b: B 4; c: C 4", lua.Release, "a b", []any{0, "A", "B"}, "1", "c: C 4"},
		{"release what is absent or another's", "a: A 4; b: C 4; d: #", lua.Release, "a b c d", []any{0, "A", "B", "C", "D"}, "10--", "b: C 4; d: #"},
		{"release one twice", "a: B 4", lua.Release, "a a", []any{0, "A", "B"}, "01", "-"},
		{"release readers and writers", "a: A 4; b: r:A 2, r:B 5, redlockd:end 5", lua.Release, "a b b", []any{0, "A", "B", "C"}, "11-", "b: r:A 2, redlockd:end 2"},
		{"release too late", "a: A 4; b: B 4", lua.Release, "a b", []any{1, "A", "B"}, "..", ""},
		{"release in time", "a: A 4; b: B 4", lua.Release, "a b", []any{endOf{key: "a"}, "A", "B"}, "1", "-"},
		{"release of one token", "a: A 4; b: A 4", lua.Release, "a b", []any{0, "A"}, "1", "-"},
		{"release of one token that has not all", "a: A 4; b: B 4", lua.Release, "a b c", []any{0, "A"}, "10-", "b: B 4"},
		{"release of one token too late", "a: A 4; b: A 4", lua.Release, "a b", []any{1, "A"}, "..", ""},

		{"commit", "a: A 4; b: B 4; c: C 4", lua.Commit, "a b c d", []any{2, "A", 1, "N", minutes(9), 2, "B", 2, "", 0, 2, "C", 3, "", minutes(2), 1, "", 1, "D", minutes(5), 0}, "1", "a: N 9; c: C 2; d: D 5"},
		{"commit of what is another's", "a: A 4; b: B 4", lua.Commit, "a b", []any{2, "A", 2, "", 0, 2, "C", 2, "", 0, 0}, "0", ""},
		{"commit of what is not absent", "a: #", lua.Commit, "a", []any{1, "", 1, "N", minutes(9), 0}, "0", ""},
		{"commit of what is absent", "a: A 4", lua.Commit, "a b", []any{2, "A", 2, "", 0, 2, "B", 2, "", 0, 0}, "-1", ""},
		{"commit too late", "a: A 4", lua.Commit, "a", []any{2, "A", 2, "", 0, 1}, "-2", ""},
		{"commit for no less", "a: A 4", lua.Commit, "a", []any{2, "A", doSetLonger, "N", minutes(2), 0}, "1", "a: N 4"},
		{"commit for longer", "a: A 4", lua.Commit, "a", []any{2, "A", doSetLonger, "N", minutes(6), 0}, "1", "a: N 6"},
		{"commit for no less, of another's", "a: B 4", lua.Commit, "a", []any{2, "A", doSetLonger, "N", minutes(6), 0}, "0", ""},
		{"commit for no less, of another type", "a: #", lua.Commit, "a", []any{2, "A", doSetLonger, "N", minutes(6), 0}, "0", ""},
		{"commit for no less, of nobody", "", lua.Commit, "a", []any{2, "A", doSetLonger, "N", minutes(6), 0}, "-1", ""},
		{"takeover of a reader", "a: r:A 4, r:B 5, redlockd:end 5", lua.Commit, "a", []any{2, "A", doSetLonger, "N", minutes(9), 0}, "2", "a: r:B 5, r:N 9, redlockd:end 9"},
		{"takeover of a reader for less than is left", "a: r:A 4, r:B 5, redlockd:end 5", lua.Commit, "a", []any{2, "A", doSetLonger, "N", minutes(2), 0}, "2", "a: r:B 5, r:N 4, redlockd:end 5"},
		{"takeover of a reader who is not there", "a: r:B 5, redlockd:end 5", lua.Commit, "a", []any{2, "A", doSetLonger, "N", minutes(9), 0}, "-1", ""},
		{"takeover of a reader beside another key", "a: r:A 4, redlockd:end 4; b: B 4", lua.Commit, "a b", []any{2, "A", doSetLonger, "N", minutes(9), 2, "B", doSetLonger, "N", minutes(9), 0}, "0", ""},
		{"commit of a reader that is no takeover", "a: r:A 4, redlockd:end 4", lua.Commit, "a", []any{2, "A", 3, "", minutes(9), 0}, "0", ""},
		{"commit of what ends when it did", "a: A 4; b: B", lua.Commit, "a b", []any{endOf{key: "a", watched: true}, "A", 2, "", 0, "2@-1", "B", 2, "", 0, 0}, "1", "-"},
		{"commit of what ends later", "a: A 4; b: B 4", lua.Commit, "a b", []any{2, "A", 2, "", 0, endOf{key: "b", later: -1, watched: true}, "B", 2, "", 0, 0}, "0", ""},
		{"commit of what ends earlier", "a: A 4", lua.Commit, "a", []any{endOf{key: "a", later: 1, watched: true}, "A", 0, "", 0, 0}, "0", ""},
		{"commit of what may have changed", "a: A 4", lua.Commit, "a", []any{fmt.Sprint("2@", endUnknown), "A", 2, "", 0, 0}, "0", ""},
		{"commit of what never ends and may have changed", "a: A", lua.Commit, "a", []any{fmt.Sprint("2@", endUnknown), "A", 2, "", 0, 0}, "0", ""},
		{"commit of a watched key that is another's", "a: A 4", lua.Commit, "a", []any{endOf{key: "a", watched: true}, "B", 2, "", 0, 0}, "0", ""},
		{"commit of a watched key that is absent", "b: B 4", lua.Commit, "a", []any{endOf{key: "b", watched: true}, "A", 2, "", 0, 0}, "-1", ""},

		{"read with ends", "a: A 4; b: B; c: #; d: r:A 2, redlockd:end 2", lua.Read, "a b c d e", []any{1}, "[string A 4min now+4 string B -1 -1 hash  -1 -1 zset  2min now+2 none  -2 -2]", ""},
		{"read", "a: A 4; b: B; c: #; d: r:A 2, redlockd:end 2", lua.Read, "a b c d e", nil, "[string A 4min string B -1 hash  -1 zset  2min none  -2]", ""},
		{"inspect", "a: A 4; m: {a 7}", lua.Inspect, "m a", nil, "[string A 4min 7 -1]", ""},
		{"inspect readers", "a: r:A 4, r:B 2, redlockd:end 4, writer 1", lua.Inspect, "m a", nil, "[zset  4min  2]", ""},

		{"raise", "a: A 4; m: {a 6}", lua.Raise, "m f a", []any{7, 100, 10}, "[1 string A now+4 -1  now+0]", "a: A 4; m: {a 7}"},
		{"raise of nobody", "", lua.Raise, "m f a", []any{7, 100, 10}, "[1 none  0 -1  now+0]", "m: {a 7}"},
		{"raise of what never ends", "a: A; f: 6", lua.Raise, "m f a", []any{7, 100, 10}, "[1 string A 0 -1  now+0]", "a: A; f: 6; m: {a 7}"},
		{"raise of readers", "a: r:A 4, r:BB 2, redlockd:end 4, writer 3", lua.Raise, "m f a", []any{7, 100, 10}, "[1 zset  0 2 1:now+4:A2:now+2:BB now+0]", "a: r:A 4, r:BB 2, redlockd:end 4, writer 3; m: {a 7}"},
		{"raise below the mark", "a: A 4; m: {a 8}", lua.Raise, "m f a", []any{7, 100, 10}, "[8 string A now+4 -1  now+0]", ""},
		{"raise a day ahead", "a: A 4", lua.Raise, "m f a", []any{ahead, 100, 10}, "[-2 string A now+4 -1  now+0]", ""},

		{"force", "a: A 4", lua.Force, "a", []any{"A", endOf{key: "a", later: 3}}, "1", "-"},
		{"force at another time", "a: A 4", lua.Force, "a", []any{"A", endOf{key: "a", later: 4}}, "2", ""},
		{"force of another", "a: B 4", lua.Force, "a", []any{"A", endOf{key: "a"}}, "0", ""},
		{"force of nobody", "", lua.Force, "a", []any{"A", 0}, "-1", ""},
		{"force of a reader", "a: r:A 4, r:B 2, redlockd:end 4", lua.Force, "a", []any{"A", endOf{key: "a", reader: "A", later: -3}}, "1", "a: r:B 2, redlockd:end 2"},
		{"force of a reader at another time", "a: r:A 4, r:B 2, redlockd:end 4", lua.Force, "a", []any{"B", endOf{key: "a", reader: "A"}}, "2", ""},

		{"undo", "a: A 4; b: B 4", lua.Undo, "a b", []any{"A", endOf{key: "a", later: 6}, 1, "", "B", endOf{key: "b", later: -1}, 1, ""}, "2", "-"},
		{"undo of what was moved", "a: A 4; b: B 4", lua.Undo, "a b", []any{"A", endOf{key: "a", later: 7}, 1, "", "B", endOf{key: "b", later: -2}, 1, ""}, "0", ""},
		{"undo of another's", "a: B 4; b: #", lua.Undo, "a b c", []any{"A", endOf{key: "a"}, 1, "", "A", endOf{key: "a"}, 1, "", "A", endOf{key: "a"}, 1, ""}, "0", ""},
		{"undo puts back", "a: N 4", lua.Undo, "a", []any{"N", endOf{key: "a"}, undoPutBack, "A"}, "1", "a: A 4"},
		{"undo of a reader", "a: r:A 4, r:B 2, redlockd:end 4", lua.Undo, "a", []any{"A", endOf{key: "a"}, undoDelete, ""}, "1", "a: r:B 2, redlockd:end 2"},
		{"undo of what never ends", "a: A", lua.Undo, "a", []any{"A", endOf{key: "a"}, undoDelete, ""}, "0", ""},
		{"undo of a reader that ends before others", "a: r:A 2, r:B 4, redlockd:end 4", lua.Undo, "a", []any{"A", endOf{key: "a", reader: "A"}, undoDelete, ""}, "1", "a: r:B 4, redlockd:end 4"},
		{"undo puts a reader back", "a: r:A 4, r:N 4, redlockd:end 4", lua.Undo, "a", []any{"N", endOf{key: "a", reader: "N"}, undoPutBack, "B"}, "1", "a: r:A 4, r:B 4, redlockd:end 4"},

		{"withdraw", "a: r:A 2, redlockd:end 4, writer 4", lua.Withdraw, "a", nil, "1", "a: r:A 2, redlockd:end 2"},
		{"withdraw the last", "a: redlockd:end 4, writer 4", lua.Withdraw, "a", nil, "1", "-"},
	}
	fleettest.OnBothMasters(t, func(t *testing.T, client *redis.Client) {
		for _, tc := range cases {
			fillMaster(t, client, tc.before)
			switch tc.after {
			case "":
				tc.after = tc.before
			case "-":
				tc.after = ""
			}
			if got := runScript(client, tc.script, strings.Fields(tc.keys), tc.args); got != tc.reply {
				t.Errorf("%s: reply:\n got %s\nwant %s", tc.name, got, tc.reply)
			}
			if got := heldByMaster(t, client); got != tc.after {
				t.Errorf("%s: the master holds then:\n got %q\nwant %q", tc.name, got, tc.after)
			}
		}
	})
}

// A reader that is extended gives the others no time: the ends of all are on one axis, which goes by the end of the key.
func TestExtensionOfOneReader(t *testing.T) {
	fleettest.OnBothMasters(t, func(t *testing.T, client *redis.Client) {
		fillMaster(t, client, "a: r:A 4, r:B 5, redlockd:end 5")
		const times = 100
		for range times {
			if got := client.Eval(t.Context(), lua.Extend.Text, []string{"a"}, "A", 540_000, 3_600_000).Val(); got != int64(3) {
				t.Fatalf("got %v, want 3", got)
			}
		}
		left := client.PTTL(t.Context(), "a").Val().Milliseconds() - int64(client.ZScore(t.Context(), "a", "redlockd:end").Val()-client.ZScore(t.Context(), "a", "r:B").Val())
		if left > 300_000 {
			t.Errorf("the other one has %d ms after %d extensions, and had 300000", left, times)
		}
	})
}

func TestClamp(t *testing.T) {
	fleettest.OnBothMasters(t, func(t *testing.T, client *redis.Client) {
		ctx := context.Background()
		client.FlushAll(ctx)
		const long, bound, short = 10 * time.Hour, 5 * time.Hour, time.Hour
		keys := []string{lua.MembersKey, "long", "short", "forever", "absent", ReservedPrefix + "long"}
		client.HSet(ctx, lua.MembersKey, "v", "this")
		for i, life := range []time.Duration{long, short, 0, -1, long} {
			if life >= 0 {
				client.Set(ctx, keys[i+1], "token", life)
			}
		}
		for member, ends := range map[string]float64{"r:long": 36e6, "redlockd:end": 36e6, "r:short": 36e5} {
			client.ZAdd(ctx, "readers", redis.Z{Score: ends, Member: member})
		}
		client.PExpire(ctx, "readers", long)
		keys = append(keys, "readers")
		for i, want := range []int{0, 2, 0} { // late is never, and twice is once
			v := []string{"another", "this", "this"}[i]
			if got, err := client.Eval(ctx, lua.Clamp.Text, keys, bound.Milliseconds(), v).Int(); got != want || err != nil {
				t.Errorf("time %d: got %d, %v, want %d", i+1, got, err, want)
			}
		}
		scores := func(member string) float64 { return client.ZScore(ctx, "readers", member).Val() }
		if end := scores("redlockd:end"); scores("r:short") != 36e5 || scores("r:long") != end || end < 18e6 || end > 18.1e6 {
			t.Errorf("ends of readers: got %v, %v and %v, want the first as it was, the others shortened by five hours", scores("r:short"), scores("r:long"), end)
		}
		keys = keys[1:]
		for i, want := range []time.Duration{bound, short, -1, -2, long, bound} {
			got := client.PTTL(ctx, keys[i]).Val()
			// What is left is at most want, and above the next shorter of the lives.
			if want < 0 && got != want || want > 0 && (got > want || got < want-30*time.Minute) {
				t.Errorf("%s: lives %v, want %v", keys[i], got, want)
			}
		}
	})
}

// A key that nobody changes ends at one millisecond, whenever that is read. Method: between TIME and PTTL the clock goes on a few times, as
// where a master up to Redis 7.0 is paused there.
func TestEndsAreExact(t *testing.T) {
	const paused = `local call, now, first, pauses = redis.call, 1700000000000, tonumber(ARGV[2]), tonumber(ARGV[3])
		local redis = {call = function(name, ...)
			if name == 'TIME' then
				return {'1700000000', tostring((now - 1700000000000) * 1000)}
			elseif name ~= 'PTTL' then
				return call(name, ...)
			end
			first = first - 1
			if first < 1 and pauses > 0 then
				pauses, now = pauses - 1, now + 3
			end
			return 1700000060000 - now
		end}
	`
	fleettest.OnBothMasters(t, func(t *testing.T, client *redis.Client) {
		ctx := context.Background()
		client.Set(ctx, "k", "v", time.Minute)
		client.Eval(ctx, lua.Read.Text, []string{"k"}, "1") // so that mutants of the script know this test: the text of the others is another
		// The first PTTL is not about the end, and five at most are. A pause at a later one is no matter where an earlier one was read without.
		for first := range 7 {
			for pauses := range 5 {
				reply, err := client.Eval(ctx, paused+lua.Read.Text, []string{"k"}, "1", first, pauses).Slice()
				if err != nil || len(reply) != 4 || reply[3] != int64(1700000060000) {
					t.Errorf("%d pauses, from PTTL %d on: got %v, %v, want the end 1700000060000", pauses, first, reply, err)
				}
			}
		}
	})
}

// What clients say of a clock to each other, and for how long it counts.
func TestWatchScript(t *testing.T) {
	const pad, keep = "clock_step_max=500ms,drift_factor=0.01", 1000
	fleettest.OnBothMasters(t, func(t *testing.T, client *redis.Client) {
		ctx := context.Background()
		for _, tt := range []struct {
			what         string
			others       []string // what they have said, ago milliseconds before
			beat         int
			gain         int
			first        int
			said         string // by this one, without the time
			told         int
			speaks       int // how many of the others
			asks         int
			padding      string
			kept, remain int
		}{
			{"nobody is there", nil, 0, 0, -1, "0 0 40 " + pad, -1, 0, 0, "", 1, 0},
			{"one starts, too", []string{"10 0 0 39 " + pad}, 0, 0, -1, "0 0 40 " + pad, -1, 0, 1, "", 1, 1},
			{"one knows of an earlier beat", []string{"10 30 7 0 " + pad}, 0, 0, 30, "0 0 30 " + pad, -1, 1, 0, "", 1, 1},
			{"one knows", []string{"10 31 7 0 " + pad}, 0, 0, 30, "0 0 30 " + pad, 7, 1, 0, "", 1, 1},
			{"three know", []string{"10 31 7 0 " + pad, "20 33 5 0 " + pad, "20 33 6 0 " + pad}, 0, 0, 30, "0 0 30 " + pad, 5, 3, 0, "", 1, 3},
			{"it does not ask", []string{"10 31 7 0 " + pad}, 39, 8, 0, "39 8 0 " + pad, -1, 1, 0, "", 1, 1},
			{"one has seen a gain", []string{"10 0 9 38 " + pad}, 0, 0, 30, "0 0 30 " + pad, -1, 1, 1, "", 1, 1},
			{"one asks for what it has said", []string{"10 0 0 38 " + pad}, 38, 0, 0, "38 0 0 " + pad, -1, 0, 0, "", 1, 1},
			{"one asks for more", []string{"10 0 0 39 " + pad}, 38, 0, 0, "38 0 0 " + pad, -1, 0, 1, "", 1, 1},
			{"one asks for what is not counted", []string{"10 0 0 41 " + pad}, 38, 0, 0, "38 0 0 " + pad, -1, 0, 0, "", 1, 1},
			{"one knows of what is not counted", []string{"10 41 7 0 " + pad}, 0, 0, 30, "0 0 30 " + pad, -1, 1, 0, "", 1, 1},
			{"one pads otherwise", []string{"10 31 7 0 more"}, 0, 0, 30, "0 0 30 " + pad, -1, 1, 0, "more", 1, 1},
			{"long ago", []string{"1500 31 7 39 " + pad}, 39, 0, 0, "39 0 0 " + pad, -1, 0, 0, "", 1, 0},
			{"in the future", []string{"-1500 31 7 39 " + pad}, 39, 0, 0, "39 0 0 " + pad, -1, 0, 0, "", 1, 0},
			{"long ago, and nobody who knows is there", []string{"1500 31 7 30 " + pad}, 0, 0, 30, "0 0 30 " + pad, 7, 1, 1, "", 1, 1},
			{"nonsense", []string{"10 x y z", "10 -31 7 0 " + pad, "", "10 31 7 0 two words"}, 0, 0, 30, "0 0 30 " + pad, -1, 0, 0, "", 1, 0},
			{"it leaves", []string{"10 31 7 0 " + pad}, -1, 0, 0, "", -1, 1, 0, "", -1, 1},
		} {
			client.FlushAll(ctx)
			client.HSet(ctx, lua.MembersKey, "v", "shown", "beat", 40, "c:me", "1 2 3 4 5")
			now := client.Time(ctx).Val().UnixMilli()
			sum := int64(0)
			for i, said := range tt.others {
				ago, rest, _ := strings.Cut(said, " ")
				ms, _ := strconv.ParseInt(ago, 10, 64)
				client.HSet(ctx, lua.MembersKey, fmt.Sprint("c:", i), fmt.Sprint(now-ms, " ", rest))
				sum += now - ms
			}
			text := ""
			if tt.speaks > 0 {
				text = fmt.Sprint(sum)
			}
			reply := fmt.Sprint(client.Eval(ctx, lua.Watch.Text, []string{lua.MembersKey}, "me", tt.beat, tt.gain, tt.first, pad, keep).Val())
			_, said, _ := strings.Cut(client.HGet(ctx, lua.MembersKey, "c:me").Val(), " ")
			if want := fmt.Sprint([]any{tt.told, text, tt.asks, tt.padding, tt.kept}); reply != want || said != tt.said {
				t.Errorf("%s: got %s, and it has said %q, want %s, %q", tt.what, reply, said, want, tt.said)
			}
			left := len(client.HKeys(ctx, lua.MembersKey).Val()) - 2
			if tt.said != "" {
				left--
			}
			if left != tt.remain {
				t.Errorf("%s: %d others have said something, want %d", tt.what, left, tt.remain)
			}
		}
		client.FlushAll(ctx)
		if reply := client.Eval(ctx, lua.Watch.Text, []string{lua.MembersKey}, "me", 7, 0, 0, pad, keep); fmt.Sprint(reply.Val()) != "[-1  0  -1]" || client.Exists(ctx, lua.MembersKey).Val() != 0 {
			t.Errorf("without a membership: got %v", reply)
		}
	})
}

// A master whose memory is full keeps nothing of what a client says. It may not have kept what others said either: that nobody has said anything
// there means nothing.
func TestFullMasterSaysThatSomebodyMayWatch(t *testing.T) {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: redisproc.StartForTest(t, 1)[0].Addr, Protocol: 2, DisableIdentity: true})
	defer client.Close()
	client.HSet(ctx, lua.MembersKey, "v", "shown", "beat", 40)
	watch := func() clockStatements {
		return readStatements(client.Eval(ctx, lua.Watch.Text, []string{lua.MembersKey}, "me", 0, 0, 30, "pad", 1000), 30)
	}
	if said := watch(); said != (clockStatements{first: 30, stored: true}) {
		t.Errorf("with room: got %+v", said)
	}
	client.ConfigSet(ctx, "maxmemory", "1")
	if said := watch(); said != (clockStatements{first: 30, watched: true}) {
		t.Errorf("without room: got %+v", said)
	}
	for _, tt := range []struct {
		reply any
		want  clockStatements
	}{
		{nil, clockStatements{first: 30, watched: true}},
		{[]any{int64(-1), "", int64(0)}, clockStatements{first: 30, watched: true}},
		{[]any{int64(-1), "", int64(0), "", int64(1), int64(1)}, clockStatements{first: 30, watched: true}},
		{[]any{"x", nil, 1.5, int64(7), nil}, clockStatements{first: 30, watched: true}},
		{[]any{int64(0), "", int64(0), "", int64(1)}, clockStatements{covered: true, first: 30, stored: true}},
		{[]any{int64(-1), "", int64(0), "", int64(-1)}, clockStatements{first: 30}},
		{[]any{int64(5), "7", int64(1), "a", int64(1)}, clockStatements{covered: true, first: 30, gain: 5 * time.Microsecond, activity: "7", requested: true, padding: "a", stored: true}},
		{[]any{int64(1) << 62, "7", int64(1), "a\nb", int64(0)}, clockStatements{covered: true, first: 30, gain: math.MaxInt64 / 1000 * time.Microsecond, watched: true, activity: "7", requested: true, padding: "a?b"}},
	} {
		cmd := redis.NewCmd(ctx)
		cmd.SetVal(tt.reply)
		if said := readStatements(cmd, 30); said != tt.want {
			t.Errorf("%v: got %+v, want %+v", tt.reply, said, tt.want)
		}
	}
}
