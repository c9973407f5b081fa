package copying

// Goal: a learner gets what a valid lock needs, and nothing that none has. Method: the rule for one key in a table; the scripts on a master in memory
// and on a real redis-server.

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/fleettest"
)

func TestOrderOf(t *testing.T) {
	nothing, foreign := copyEntry{}, copyEntry{kind: copyForeign, left: -1}
	v := func(value string, left int64) copyEntry {
		return copyEntry{kind: copyString, value: value, left: left}
	}
	nobody := func(left int64) copyEntry { return v(RecoveredPrefix+"x", left) }
	readers := func(list map[string]int64) copyEntry { // the key lives as long as the last of them
		return copyEntry{kind: copyReaders, left: slices.Max(slices.Collect(maps.Values(list))), readers: list}
	}
	type ends = map[string]int64
	give := func(value string, left int64) copyOrder {
		return copyOrder{do: copyGive, value: value, left: left}
	}
	const longest, most = 1000, 1500
	for _, test := range []struct {
		name    string
		learner copyEntry
		sources []copyEntry
		least   int
		tries   int
		want    copyOrder
	}{
		{"all hold it: the latest end, moved", nothing, []copyEntry{v("a", 100), v("a", 300), v("a", 200)}, 1, 0, give("a", 308)},
		{"one of as many as are needed", nothing, []copyEntry{nothing, v("a", 300), nothing}, 1, 0, give("a", 308)},
		{"one of four where two would have to", nothing, []copyEntry{nothing, v("a", 300), nothing, nothing}, 2, 0, copyOrder{do: copyLeave}},
		{"two of four", nothing, []copyEntry{nothing, v("a", 300), nothing, v("a", 1)}, 2, 0, give("a", 308)},
		{"beside what too few have", nothing, []copyEntry{v("b", 900), v("a", 300), nothing, v("a", 1)}, 2, 0, give("a", 308)},
		{"at the longest TTL it is moved", nothing, []copyEntry{v("a", 1000)}, 1, 0, give("a", 1008)},
		{"above the longest TTL it is not moved", nothing, []copyEntry{v("a", 1001)}, 1, 0, give("a", 1001)},
		{"nothing lives longer than a lock", nothing, []copyEntry{v("a", 9999)}, 1, 0, give("a", most)},
		{"whatever the learner has", v("old", 900), []copyEntry{v("a", 300)}, 1, 0, give("a", 308)},
		{"the learner has it for longer", v("a", 900), []copyEntry{v("a", 300)}, 1, 0, give("a", 908)},
		{"a value that is empty", nothing, []copyEntry{v("", 300)}, 1, 0, give("", 308)},
		{"no lock is copied", nothing, []copyEntry{foreign, foreign}, 1, 0, copyOrder{do: copyLeave}},
		{"what is no lock stays", foreign, []copyEntry{nothing}, 1, 3, copyOrder{do: copyLeave}},
		{"only the learner has it: perhaps it is on its way", v("a", 300), []copyEntry{nothing, nothing}, 1, 0, copyOrder{do: copyAgain}},
		{"only the learner has it", v("a", 300), []copyEntry{nothing, nothing}, 1, 1, copyOrder{do: copyRemove}},
		{"too few others have it", v("a", 300), []copyEntry{v("a", 300), nothing, nothing, nothing}, 2, 1, copyOrder{do: copyRemove}},
		{"only the learner has it, and it changes all the time", v("a", 300), []copyEntry{nothing}, 1, copyTries - 1, copyOrder{do: copyLeave}},
		{"two values", nothing, []copyEntry{v("a", 100), v("b", 300)}, 1, 0, copyOrder{do: copyAgain}},
		{"two values, again and again", v("a", 100), []copyEntry{v("a", 100), v("b", 300)}, 1, copyTries - 1,
			copyOrder{do: copyGive, value: "nobody", left: 308, whatever: true}},
		{"it changes on the learner all the time", v("c", 100), []copyEntry{v("a", 100)}, 1, copyTries - 1,
			copyOrder{do: copyGive, value: "a", left: 108, whatever: true}},
		{"a value that nobody owns is in the place of any", nothing, []copyEntry{nobody(500), v("a", 100), nothing, nothing}, 2, 0, give("a", 508)},
		{"enough values that nobody owns", nothing, []copyEntry{nobody(500), v(RecoveredPrefix+"y", 600), nothing, nothing}, 2, 0, give(RecoveredPrefix+"x", 608)},
		{"so many that the lock may be hidden", nothing, []copyEntry{nobody(500), nobody(500), v("a", 9), nothing}, 2, 0, give(RecoveredPrefix+"x", 508)},
		{"a value that is being changed", nothing, []copyEntry{v("a", 100), v("b", 300), nothing, nothing}, 2, 0, give("a", 108)},
		{"two values of three", nothing, []copyEntry{v("a", 100), v("b", 300), v("c", 200), nothing}, 2, 0, copyOrder{do: copyAgain}},
		{"two values of three, again and again", nothing, []copyEntry{v("a", 100), v("b", 300), v("c", 200), nothing}, 2, copyTries - 1,
			copyOrder{do: copyGive, value: "nobody", left: 308, whatever: true}},
		{"an empty value, and readers", nothing, []copyEntry{v("", 100), readers(ends{"r:a": 100})}, 1, 0, copyOrder{do: copyAgain}},
		{"two values, again and again, beside what is no lock", nothing, []copyEntry{v("a", 100), v("b", 300), {kind: copyForeign, left: 900}}, 1, copyTries - 1,
			copyOrder{do: copyGive, value: "nobody", left: 308, whatever: true}},
		{"two values that nobody owns, where one would do", nothing, []copyEntry{nobody(500), v(RecoveredPrefix+"y", 600)}, 1, 0, give(RecoveredPrefix+"x", 608)},
		{"as many others as must deny", nothing, []copyEntry{v("a", 100), v("a", 300), v("b", 200), v("c", 200)}, 2, 0, copyOrder{do: copyAgain}},
		{"one such value of four", nothing, []copyEntry{nobody(500), nothing, nothing, nothing}, 2, 0, copyOrder{do: copyLeave}},
		{"readers", nothing, []copyEntry{readers(ends{"r:a": 100, "r:b": 50}), readers(ends{"r:a": 200})}, 1, 0,
			copyOrder{do: copyGive, left: 208, readers: ends{"r:a": 208, "r:b": 58}}},
		{"readers one of whom moves to another connection", nothing, []copyEntry{readers(ends{"r:a": 100, "r:b": 50}), readers(ends{"r:a": 200}), nothing, nothing}, 2, 0,
			copyOrder{do: copyGive, left: 208, readers: ends{"r:a": 208, "r:b": 58}}},
		{"readers on too few", nothing, []copyEntry{readers(ends{"r:a": 100}), nothing, nothing, nothing}, 2, 0, copyOrder{do: copyLeave}},
		{"readers beside a value that nobody owns", nothing, []copyEntry{readers(ends{"r:a": 100}), nobody(500), nothing, nothing}, 2, 0,
			copyOrder{do: copyGive, left: 508, readers: ends{"r:a": 508}}},
		{"the learner has a reader for longer", readers(ends{"r:a": 900}), []copyEntry{readers(ends{"r:a": 100})}, 1, 0,
			copyOrder{do: copyGive, left: 108, readers: ends{"r:a": 908}}},
		{"a reader whom only the learner has", readers(ends{"r:b": 900}), []copyEntry{readers(ends{"r:a": 100})}, 1, 0, copyOrder{do: copyAgain}},
		{"a reader whom only the learner has, again", readers(ends{"r:b": 900}), []copyEntry{readers(ends{"r:a": 100})}, 1, 1,
			copyOrder{do: copyGive, left: 108, readers: ends{"r:a": 108}, gone: []string{"r:b"}}},
		{"readers and a writer", nothing, []copyEntry{readers(ends{"r:a": 100}), v("a", 100)}, 1, 0, copyOrder{do: copyAgain}},
		{"readers and a writer, again and again", nothing, []copyEntry{readers(ends{"r:a": 400}), v("a", 100)}, 1, copyTries - 1,
			copyOrder{do: copyGive, value: "nobody", left: 408, whatever: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := orderOf(&test.learner, test.sources, test.least, test.tries, "nobody", longest, most)
			got.minority, got.on = false, nil // TestOrderOfAMinority
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// What is given although fewer than a quorum hold it, or nobody can tell, is told with those that hold it.
func TestOrderOfAMinority(t *testing.T) {
	for _, test := range []struct {
		name    string
		sources string // what each holds under the key: a value, R readers, - nothing
		least   int
		learner string
		tries   int
		on      string // "": a quorum holds it
	}{
		{"both of three", "aa", 1, "-", 0, ""},
		{"one of three", "-a", 1, "-", 0, "m1"},
		{"one of three, and the learner, which was given it", "-a", 1, "a", 0, "m1"},
		{"one of three, and the learner has something else", "-a", 1, "b", 0, "m1"},
		{"three of five", "aaa-", 2, "-", 0, ""},
		{"two of five", "a-a-", 2, "-", 0, "m0 m2"},
		{"two of five, one source is left out", "a-a", 1, "-", 0, "m0 m2"},
		{"two of five, and another value", "aba-", 2, "-", 0, "m0 m2"},
		{"two values, again and again", "ab", 1, "-", copyTries - 1, "m0 m1"},
		{"two values, again and again, and one has nothing", "a-b", 1, "-", copyTries - 1, "m0 m2"},
		{"readers of both", "RR", 1, "-", 0, ""},
		{"readers of one", "R-", 1, "-", 0, "m0"},
	} {
		entry := func(name string, value rune) copyEntry {
			switch value {
			case '-':
				return copyEntry{master: name}
			case 'R':
				return copyEntry{master: name, kind: copyReaders, left: 100, readers: map[string]int64{"r:x": 100}}
			}
			return copyEntry{master: name, kind: copyString, value: string(value), left: 100}
		}
		var sources []copyEntry
		for i, value := range test.sources {
			sources = append(sources, entry(fmt.Sprint("m", i), value))
		}
		learner := entry("learner", rune(test.learner[0]))
		got := orderOf(&learner, sources, test.least, test.tries, "nobody", 1000, 1500)
		on := ""
		if got.minority {
			on = strings.Join(got.on, " ")
		}
		if got.do != copyGive || on != test.on {
			t.Errorf("%s: got %+v, want it given, and %q", test.name, got, test.on)
		}
	}
}

// What is told of a key is what was decided last. The log names few, and counts all.
func TestMinorityIsCounted(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	all := minorityLocks{named: make(map[string]member.MinorityLock)}
	give := copyOrder{do: copyGive, value: "v", left: 5000, minority: true, on: []string{"m1", "m2"}}
	for i := range minorityRead + 10 {
		all.decided(fmt.Sprint("r", i), &give, now)
	}
	all.decided("r0", &copyOrder{do: copyGive, value: "v", left: 5000}, now) // a quorum has it now
	all.decided("a", &copyOrder{do: copyGive, left: 1000, readers: map[string]int64{"r:x": 1000}, minority: true, on: []string{"m1"}}, now)
	if got, want := all.sample(), fmt.Sprintf("a, r1, r10, r100, r1000, r1001, r1002, r1003 and %d more", minorityRead+10-minorityLogged); got != want {
		t.Errorf("for the log: got %s, want %s", got, want)
	}
	if len(all.named) != minorityRead {
		t.Errorf("%d are to be read once more, want %d", len(all.named), minorityRead)
	}
	for n, want := range map[int]string{minorityLogged: "a?, b0, b1, b2, b3, b4, b5, b6", minorityLogged + 1: "a?, b0, b1, b2, b3, b4, b5, b6 and 1 more"} {
		few := minorityLocks{named: map[string]member.MinorityLock{"a\n": {}}}
		for i := range n - 1 {
			few.named[fmt.Sprint("b", i)] = member.MinorityLock{}
		}
		if got := few.sample(); got != want {
			t.Errorf("%d for the log: got %q, want %q", n, got, want)
		}
	}
	if got, want := all.named["a"], (member.MinorityLock{Resource: "a", Digest: "-", On: "m1", Ends: now.Add(time.Second)}); got != want {
		t.Errorf("readers: got %+v, want %+v", got, want)
	}
	if got, want := all.named["r1"], (member.MinorityLock{Resource: "r1", Digest: conn.Digest("v"), On: "m1,m2", Ends: now.Add(5 * time.Second)}); got != want {
		t.Errorf("a lock: got %+v, want %+v", got, want)
	}
}

const shownByLearner = "run:0123456789abcdef 1-0123456789abcdef.7 0123456789abcdef0123456789abcdef"

func TestCopyScripts(t *testing.T) {
	fleettest.OnBothMasters(t, func(t *testing.T, client *redis.Client) {
		ctx := context.Background()
		eval := func(s lua.Script, keys []string, args ...any) any {
			t.Helper()
			reply, err := client.Eval(ctx, s.Text, keys, args...).Result()
			if err != nil {
				t.Fatal(err)
			}
			return reply
		}
		must := func(args ...any) any {
			t.Helper()
			reply, err := client.Do(ctx, args...).Result()
			if err != nil && err != redis.Nil {
				t.Fatal(args, err)
			}
			return reply
		}
		fresh := func() {
			must("FLUSHALL")
			must("HSET", lua.MembersKey, "v", shownByLearner)
		}
		near := func(what string, got any, want int64) {
			t.Helper()
			if ms, ok := got.(int64); !ok || ms > want || ms < want-5_000 {
				t.Errorf("%s: got %v, want %d at most, and not much less", what, got, want)
			}
		}

		t.Run("read", func(t *testing.T) {
			fresh()
			must("SET", "string", "v", "PX", 60_000)
			must("SET", "empty", "", "PX", 60_000)
			must("SET", "for ever", "v")
			must("SET", "long", strings.Repeat("x", lua.MaxValueLen+1), "PX", 60_000)
			must("HSET", "hash", "f", "v")
			must("PEXPIRE", "hash", 60_000)
			must("ZADD", "stranger", 1, "m")
			must("PEXPIRE", "stranger", 60_000)
			must("ZADD", "readers", 60_000, "redlockd:end")
			must("ZADD", "readers", 60_000, "r:a")
			must("ZADD", "readers", 30_000, "r:b")
			must("PEXPIRE", "readers", 60_000)
			keys := []string{"string", "empty", "absent", "for ever", "long", "hash", "stranger", "readers"}
			for _, ends := range []int{1, 0} {
				cmd := client.Eval(ctx, lua.CopyRead.Text, keys, lua.MaxValueLen, ends)
				entries, err := copyEntriesOf(cmd, len(keys))
				if err != nil {
					t.Fatal(err)
				}
				kinds := ""
				for _, e := range entries {
					kinds += fmt.Sprint(e.kind)
				}
				want := "11033332"
				if ends == 0 {
					want = "11013332" // when it ends is not asked for
				}
				if kinds != want {
					t.Errorf("ends %d: got kinds %s, want %s", ends, kinds, want)
				}
				if entries[0].value != "v" || entries[1].value != "" {
					t.Errorf("got the values %q and %q", entries[0].value, entries[1].value)
				}
				near("r:a", entries[7].readers["r:a"], 60_000)
				near("r:b", entries[7].readers["r:b"], 30_000)
				if len(entries[7].readers) != 2 {
					t.Errorf("got readers %v", entries[7].readers)
				}
				if ends == 1 {
					near("end", entries[0].left, 60_000)
				}
			}
			if _, err := copyEntriesOf(client.Eval(ctx, lua.CopyRead.Text, keys, lua.MaxValueLen, 1), len(keys)+1); err == nil {
				t.Error("a reply for fewer keys than were asked for: got no error")
			}
		})

		t.Run("give", func(t *testing.T) {
			fresh()
			must("SET", "same", "v", "PX", 60_000)
			must("SET", "other", "old", "PX", 60_000)
			must("SET", "changed", "new", "PX", 60_000)
			must("SET", "gone", "old", "PX", 60_000)
			must("SET", "kept", "new", "PX", 60_000)
			must("ZADD", "readers", 1, "m")
			keys := []string{lua.MembersKey, "absent", "same", "other", "changed", "gone", "kept", "readers", "forced"}
			args := []any{shownByLearner,
				"-", "", "v", 50_000, // absent
				"=", "v", "v", 50_000, // same: no nearer end
				"=", "old", "v", 50_000, // other
				"=", "old", "v", 50_000, // changed
				"=", "old", "", 0, // gone
				"=", "old", "", 0, // kept
				"*", "", "v", 50_000, // readers
				"*", "", "", 50_000, // forced: an empty value
			}
			for _, late := range []string{"another memory 1-0123456789abcdef.7 0123456789abcdef0123456789abcdef", strings.Replace(shownByLearner, ".7", ".8", 1)} {
				args[0] = late
				if got := eval(lua.CopyGive, keys, args...); got != "" {
					t.Errorf("under another record: got %q, want nothing done", got)
				}
			}
			if got := must("EXISTS", "absent"); got != int64(0) {
				t.Error("under another record: a key was written")
			}
			args[0] = shownByLearner
			must("HSET", lua.MembersKey, "v", shownByLearner+" ? 00000001.0123456789abcdef 0123456789abcdef0123456789abcdef") // has accepted a child
			if got := eval(lua.CopyGive, keys, args...); got != "11101011" {
				t.Errorf("got %q, want 11101011", got)
			}
			for key, want := range map[string]any{"absent": "v", "same": "v", "other": "v", "changed": "new", "gone": nil, "kept": "new", "readers": "v", "forced": ""} {
				if got := must("GET", key); got != want {
					t.Errorf("%s: got %v, want %v", key, got, want)
				}
			}
			near("same", must("PTTL", "same"), 60_000)
			near("other", must("PTTL", "other"), 50_000)
			must("SET", "absent", "another", "PX", 60_000)
			if got := eval(lua.CopyGive, []string{lua.MembersKey, "absent"}, shownByLearner, "-", "", "v", 50_000); got != "0" {
				t.Errorf("where something stands by now: got %q, want 0", got)
			}
			if got := eval(lua.CopyGive, []string{lua.MembersKey, "same"}, shownByLearner, "=", "v", "v", 90_000); got != "1" {
				t.Errorf("got %q, want 1", got)
			}
			near("a later end", must("PTTL", "same"), 90_000)
		})

		t.Run("readers", func(t *testing.T) {
			fresh()
			must("SET", "was a writer's", "w", "PX", 1000)
			for _, key := range []string{"absent", "was a writer's"} {
				order := copyOrder{readers: map[string]int64{"r:a": 60_000, "r:b": 30_000}}
				args := append([]any{strings.Replace(shownByLearner, ".7", ".8", 1)}, order.readersArgs()...)
				if got := eval(lua.CopyReaders, []string{lua.MembersKey, key}, args...); got != "" {
					t.Errorf("under another record: got %q, want nothing done", got)
				}
				args[0] = shownByLearner
				if got := eval(lua.CopyReaders, []string{lua.MembersKey, key}, args...); got != "1" {
					t.Errorf("got %q, want 1", got)
				}
				near("the key", must("PTTL", key), 60_000)
				order = copyOrder{readers: map[string]int64{"r:b": 20_000, "r:c": 90_000}, gone: []string{"r:a", "r:absent"}}
				eval(lua.CopyReaders, []string{lua.MembersKey, key}, append([]any{shownByLearner}, order.readersArgs()...)...)
				entries, err := copyEntriesOf(client.Eval(ctx, lua.CopyRead.Text, []string{key}, lua.MaxValueLen, 1), 1)
				if err != nil || len(entries[0].readers) != 2 {
					t.Fatalf("got %+v, %v, want two readers", entries, err)
				}
				near("b is not cut short", entries[0].readers["r:b"], 30_000)
				near("c", entries[0].readers["r:c"], 90_000)
				near("the key", must("PTTL", key), 90_000)
			}
		})

		t.Run("note", func(t *testing.T) {
			fresh()
			one, other := "0000000000000001", "0000000000000002"
			note := member.CopyNote{Given: 12, Done: 34, From: "m 1,m2"}
			says := func(by string, life int) []any {
				return eval(lua.CopyNote, []string{lua.MembersKey}, by, note.Text(), life).([]any)
			}
			if got := says(one, 60_000); len(got) != 1 {
				t.Errorf("the first: got %v", got)
			}
			if got := says(one, 60_000); len(got) != 1 {
				t.Errorf("the same again: got %v", got)
			}
			got := says(other, 60_000)
			if len(got) != 2 {
				t.Fatalf("another one: got %v, want the note of the first", got)
			}
			shown := &member.Report{Clock: time.UnixMilli(fleettest.MasterMs(t, client)), Fields: map[string]string{"copy": got[1].(string)}}
			n, ok := shown.Copying(time.Minute)
			if !ok || n.By != one || n.Given != 12 || n.Done != 34 || n.From != "m 1,m2" {
				t.Errorf("got %+v, %v", n, ok)
			}
			time.Sleep(3 * time.Millisecond)
			if got := says(other, 1); len(got) != 1 {
				t.Errorf("when the note is old: got %v", got)
			}
			soon := fmt.Sprint(one, " ", fleettest.MasterMs(t, client)+500_000, " ", note.Text())
			must("HSET", lua.MembersKey, "copy", soon)
			if got := says(other, 60_000); len(got) != 1 {
				t.Errorf("when the note lies in the future: got %v", got)
			}
			must("HSET", lua.MembersKey, "copy", soon)
			if got := says(other, 3_600_000); len(got) != 2 {
				t.Errorf("when the note is ahead by less than it counts: got %v, want the note", got)
			}
			must("FLUSHALL")
			says(one, 1)
			if got := must("EXISTS", lua.MembersKey); got != int64(0) {
				t.Error("a note on a master that has no membership makes one")
			}
		})
	})
}

// memory names one by a letter of its process and a digit.
func memory(name string) string { return fmt.Sprintf("run%s:%016s", name[:1], name[1:]) }

// votersOf is version 7 of these memories.
func votersOf(memories ...string) *member.Record {
	r := &member.Record{Generation: 3, Lineage: "0123456789abcdef", Version: 7, Parent: strings.Repeat("5a", member.DigestLen/2), MaxTTL: 2 * time.Second, Ceiling: 2 * time.Second, Wait: 3 * time.Second}
	for i, name := range memories {
		r.Seats = append(r.Seats, member.Seat{Number: i, Name: fmt.Sprint("m", i), Addr: fmt.Sprint("m", i), Memory: memory(name), State: member.Voter})
	}
	return r.Seal()
}

// What a copier writes names the record that lists the learner as one.
func TestCopyNamesTheRecordOfALearner(t *testing.T) {
	r := votersOf("a1", "b1", "c1")
	c := &Copy{Copier: &Copier{Current: func() *member.Record { return r }}, learner: &Place{memory: memory("a1")}}
	if got := c.settledOn(); got != "" {
		t.Errorf("the record that lists it as a voter: got %q, want none", got)
	}
	r.Seats[0].State = member.Learner
	r.Seal()
	if got, want := c.settledOn(), r.ShownBy(memory("a1")); got != want {
		t.Errorf("a learner: got %q, want %q", got, want)
	}
	r.Seats[0].Memory = memory("a2")
	r.Seal()
	if got := c.settledOn(); got != "" {
		t.Errorf("the memory of before: got %q, want none", got)
	}
}

// countedSources is a host by which the votes of some places count.
type countedSources struct {
	Host
	places map[int]bool
}

func (c countedSources) Source(place int) Source {
	good, known := c.places[place]
	return Source{Good: good, Refused: !known, Read: true}
}

// A source that shows another memory than at the beginning has forgotten, whatever it has replied meanwhile.
func TestSourceThatHasForgotten(t *testing.T) {
	r := votersOf("a1", "b1", "c1")
	sources := map[int]bool{1: true, 2: true}
	c := &Copy{Copier: &Copier{Host: countedSources{places: sources}}, quorum: 2}
	s := &member.Survey{}
	show := func(place int, name string) {
		s.Reports[place].State, _ = member.ParseState(r.ShownBy(memory(name)))
	}
	for i, seat := range r.Seats {
		s.Reports = append(s.Reports, &member.Report{Place: i, Record: r})
		if show(i, []string{"a1", "b1", "c1"}[i]); i > 0 {
			c.Sources = append(c.Sources, &Place{number: i, Name: seat.Name, memory: seat.Memory})
		}
	}
	wants := func(what, want string) {
		t.Helper()
		if err := c.StillGood(s, r); fmt.Sprint(err) != want && (want == "<nil>" || err == nil || err == ErrNotYet || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", what, err, want)
		}
	}
	wants("nothing has happened", "<nil>")
	c.LeftOut = []LeftOut{{Place: &Place{number: 0, Name: "m0"}}}
	wants("one that was left out may have evicted keys before", "m0, which was left out, is refused")
	sources[0] = false
	wants("one that was left out has another clock", "<nil>")
	sources[2] = false
	wants("the clock of one is out of step", "the votes of m2 do not count here")
	sources[2] = true
	show(2, "c2")
	wants("one has forgotten", "m2 has forgotten")
	show(2, "c1")
	s.Reports[1].Err = fleettest.ErrAway
	wants("one is not reached", ErrNotYet.Error())
	c.quorum = 1
	wants("one is not reached, and a quorum is good without it", "<nil>")
}

// A source is judged with every reply.
func TestSourceIsJudged(t *testing.T) {
	ring := clock.Ring{}
	at := func(sent time.Duration, ahead time.Duration) clock.Reading {
		return clock.ReadingOf(sent, sent+time.Millisecond, sent+ahead)
	}
	ring.Add(at(0, time.Hour), fleettest.Drift.Rate(), time.Minute)
	p := &Place{beat: 10, ring: &ring, memory: memory("a1")}
	version := func(n int64) *member.Record {
		r := votersOf("a1", "b1", "c1")
		r.Version = n
		return r.Seal()
	}
	for _, test := range []struct {
		memory string
		record *member.Record
		beat   int64
		now    clock.Reading
		want   string
	}{
		{"a1", version(7), 11, at(time.Second, time.Hour), ""},
		{"a1", version(8), 10, at(time.Second, time.Hour), "its beat went back from 11 to 10"},
		{"a1", version(8), 12, at(2*time.Second, time.Hour+time.Second), "its clock gained"},
		{"a2", version(8), 12, at(2*time.Second, time.Hour), "it has forgotten"},
		{"a1", version(6), 12, at(2*time.Second, time.Hour), "it shows an older membership"},
		{"a1", version(7), 12, at(2*time.Second, 0), ""},
		{"a1", version(7), 12, at(2*time.Second, time.Hour+8*time.Millisecond), ""},
	} {
		gained, err := p.judge(member.Trailer{Shown: test.record.ShownBy(memory(test.memory)), Beat: test.beat}, version(7).ID(), test.now, fleettest.Drift)
		got := fmt.Sprint(err)
		if gained != strings.Contains(test.want, "gained") {
			t.Errorf("beat %d: got a gain: %v", test.beat, gained)
		}
		if test.want == "" && got != "<nil>" || !strings.Contains(got, test.want) {
			t.Errorf("beat %d: got %s, want %q", test.beat, got, test.want)
		}
	}
	if p.used <= 0 || p.used > fleettest.Drift.StepMax {
		t.Errorf("its clock may have gained a little: got that keys have used up %v of what they live for longer", p.used)
	}
	if _, err := p.judge(member.Trailer{Shown: version(7).ShownBy(memory("a1")), Beat: 12}, version(7).ID(), at(3*time.Second, 0), fleettest.Drift); err != nil || p.used != 0 {
		t.Errorf("its clock has lost an hour: got %v, and that keys have used up %v", err, p.used)
	}
	p.ring = nil // it is this process's clock
	if _, err := p.judge(member.Trailer{Shown: version(7).ShownBy(memory("a1")), Beat: 12}, version(7).ID(), at(3*time.Second, 0), fleettest.Drift); err != nil {
		t.Errorf("a clock that nobody compares: got %v", err)
	}
}

// What a master replies is read as it was written, and what no script of ours replies is refused: of a key whose end or holder nobody has read right, the learner would
// have less than the lock needs.
func TestRepliesOfCopies(t *testing.T) {
	for _, tt := range []struct {
		left, value any
		want        string // the entry, or the error
	}{
		{int64(5), "v", "{ 1 v 5 map[]}"},
		{int64(5), "", "{ 1  5 map[]}"},
		{int64(-2), int64(0), "{ 0  -2 map[]}"},
		{int64(-1), int64(-1), "{ 3  -1 map[]}"},
		{int64(5), []any{"redlockd:end", "9", "r:a", "1", "r:b", "0", "r:c", "-3"}, "{ 2  5 map[r:a:1]}"},
		{int64(5), []any{"r:a", "1", "r:b"}, "{ 2  5 map[r:a:1]}"},
		{int64(5), []any{"r:a", "1", "r:b", "soon"}, "[r:b soon] for a reader"},
		{int64(5), []any{"", "1"}, "[ 1] for a reader"},
		{int64(5), []any{int64(7), "1"}, "[7 1] for a reader"},
		{"5", "v", "5 for the time that a key lives"},
		{int64(5), nil, "<nil> for a key"},
	} {
		e, err := copyEntryOf(tt.left, tt.value)
		if got := fmt.Sprint(e); err == nil && got != tt.want || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, %v: got %s, %v, want %s", tt.left, tt.value, got, err, tt.want)
		}
	}
	cmd := redis.NewCmd(t.Context())
	cmd.SetVal([]any{int64(5), "v", int64(5), nil})
	if got, err := copyEntriesOf(cmd, 2); err == nil {
		t.Errorf("one of two cannot be read: got %v", got)
	}
	cmd.SetErr(fleettest.ErrAway)
	if _, err := copyEntriesOf(cmd, 2); err != fleettest.ErrAway {
		t.Errorf("no reply: got %v, want %v", err, fleettest.ErrAway)
	}
}

// The learner is given a key only while it holds what it has shown, so that a lock that has come there meanwhile stays.
func TestWhatALearnerIsGiven(t *testing.T) {
	give, remove := copyOrder{do: copyGive, value: "v", left: 7}, copyOrder{do: copyRemove, value: "v", left: 7}
	whatever := give
	whatever.whatever = true
	for _, tt := range []struct {
		order   copyOrder
		learner *copyEntry
		want    string // what it has to hold: - nothing, = a value, * whatever; the value; what it gets, for how long
	}{
		{give, nil, "[-  v 7]"},
		{give, &copyEntry{}, "[-  v 7]"},
		{give, &copyEntry{kind: copyString, value: "old"}, "[= old v 7]"},
		{give, &copyEntry{kind: copyReaders}, "[*  v 7]"},
		{whatever, &copyEntry{kind: copyString, value: "old"}, "[*  v 7]"},
		{remove, &copyEntry{kind: copyString, value: "v"}, "[= v  0]"},
	} {
		if got := fmt.Sprint(tt.order.giveArgs(tt.learner)); got != tt.want {
			t.Errorf("%+v for %+v: got %s, want %s", tt.order, tt.learner, got, tt.want)
		}
	}
}

// How far a copy is: it says that it is whole only by its end. A lock that is valid is denied by as many of the sources as a quorum leaves at most, and one more.
func TestProgressOfACopy(t *testing.T) {
	c := &Copy{id: "one", ended: make(chan struct{}), quorum: 3}
	c.setSources([]*Place{{Name: "m1"}, {Name: "m2"}})
	c.given.Store(5)
	for _, tt := range []struct {
		looked, total int64
		done          int
	}{{0, 0, 0}, {1, 0, 99}, {1, 4, 25}, {99, 100, 99}, {100, 100, 99}, {300, 100, 99}} {
		c.looked.Store(tt.looked)
		c.total.Store(tt.total)
		if got, want := c.Progress(), (member.CopyNote{By: "one", Given: 5, Done: tt.done, From: "m1,m2"}); got != want {
			t.Errorf("%d of %d: got %+v, want %+v", tt.looked, tt.total, got, want)
		}
	}
	if len(c.Sources) != 2 || c.Over() {
		t.Errorf("got %d sources, and that it is over: %v", len(c.Sources), c.Over())
	}
	if close(c.ended); !c.Over() {
		t.Error("it has ended: got that it is not over")
	}
	for n, want := range map[int]int{3: 1, 4: 2, 5: 3} {
		if got := c.least(n); got != want {
			t.Errorf("a quorum of 3, and %d sources: %d of them deny a lock that is valid, want %d", n, got, want)
		}
	}
	if got := NoteLife(member.Options{Heartbeat: time.Second}); got != 4*time.Second {
		t.Errorf("a note counts for %v, want 4 heartbeats", got)
	}
}

// What the clock of a source has gained, up to now, is given back to its keys: the learner may gain as much.
func TestCopyPadsAnew(t *testing.T) {
	source, learner := &Place{used: 1500 * time.Microsecond}, &Place{used: 300 * time.Millisecond}
	c := &Copy{learner: learner}
	for _, tt := range []struct {
		place *Place
		want  string
	}{
		{source, "[1002 -1 -2 2002 map[r:A:502 r:B:2002]]"},
		{learner, "[1000 -1 -2 2000 map[r:A:500 r:B:2000]]"},
		{&Place{}, "[1000 -1 -2 2000 map[r:A:500 r:B:2000]]"},
	} {
		cmd := redis.NewCmd(t.Context())
		cmd.SetVal([]any{int64(1000), "T", int64(-1), int64(-1), int64(-2), int64(0), int64(2000), []any{"redlockd:end", "2000", "r:A", "500", "r:B", "2000"}})
		entries, err := c.entriesOf(tt.place, cmd, 4)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint([]any{entries[0].left, entries[1].left, entries[2].left, entries[3].left, entries[3].readers}); got != tt.want {
			t.Errorf("a clock that gained %v: got %s, want %s", tt.place.used, got, tt.want)
		}
	}
}
