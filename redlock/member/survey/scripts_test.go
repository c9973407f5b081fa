package survey

// Goal: a master keeps its promises and never goes back, whatever is sent to it twice, late, or by a proxy that is behind. Method: each
// case fills the hash, runs one script, and compares its reply and what the hash holds then; all of it on a master in memory and on a
// real redis-server.

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/fence"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/fleettest"
)

type hashFields = map[string]string

// readHash reads the membership of a master.
func readHash(t *testing.T, client *redis.Client) hashFields {
	t.Helper()
	ctx := context.Background()
	names, err := client.HKeys(ctx, lua.MembersKey).Result()
	if err != nil {
		t.Fatal(err)
	}
	h := hashFields{}
	for _, name := range names {
		h[name] = client.HGet(ctx, lua.MembersKey, name).Val()
	}
	return h
}

func writeHash(t *testing.T, client *redis.Client, h hashFields) {
	t.Helper()
	ctx := context.Background()
	if err := client.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	for name, value := range h {
		if err := client.HSet(ctx, lua.MembersKey, name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// with returns h with other fields; one that is "" goes.
func with(h hashFields, pairs ...string) hashFields {
	h = maps.Clone(h)
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = pairs[i+1]
		if pairs[i+1] == "" {
			delete(h, pairs[i])
		}
	}
	return h
}

func TestMemberScripts(t *testing.T) {
	const lineage, other = "0123456789abcdef", "fedcba9876543210"
	low, middle, high := "00000001.aa00000000000000", "00000001.ab00000000000000", "00000002.0000000000000000"
	digest := strings.Repeat("d1", member.DigestLen/2)
	memory := "run:0000000000000007"
	settled := memory + " 3-" + lineage + ".7 " + digest
	fresh := memory + " -"
	child := strings.Repeat("c4", member.DigestLen/2)
	accepted := settled + " ? " + middle + " " + child
	acceptedFresh := fresh + " ? " + middle + " " + child

	base := hashFields{"v": settled, "r": "record 7", "beat": "5"}
	held := with(base, "v", accepted, "a", "child 8", "p", middle) // it has accepted a child
	promised := with(base, "p", middle)

	learn := func(generation int, of string, version int) []any {
		v := fmt.Sprintf("%s %d-%s.%d %s", memory, generation, of, version, child)
		return []any{memory, generation, of, version, v, "record new"}
	}
	learned := func(generation int, of string, version int) hashFields {
		return with(base, "v", learn(generation, of, version)[4].(string), "r", "record new")
	}

	cases := []struct {
		name   string
		script lua.Script
		before hashFields
		args   []any
		reply  string     // of fmt.Sprint
		after  hashFields // nil: as before
	}{
		{"mint on nothing", lua.Mint, nil, []any{"", "b:1", "y"}, "[1 b:1 -]", hashFields{"v": "b:1 -", "why": "y", "beat": "0"}},
		{"mint again", lua.Mint, hashFields{"v": "b:1 -", "why": "y", "beat": "0"}, []any{"", "b:1", "y"}, "[0 b:1 -]", nil},
		{"mint over what is shown", lua.Mint, with(held, "s:x", "1", "h:1", "2"), []any{accepted, "b:1", "y"}, "[1 b:1 -]", hashFields{"v": "b:1 -", "why": "y", "beat": "0", "r": "record 7"}},
		{"mint over another", lua.Mint, base, []any{fresh, "b:1", "y"}, "[0 " + settled + "]", nil},
		{"mint over what was nothing", lua.Mint, base, []any{"", "b:1", "y"}, "[0 " + settled + "]", nil},
		{"mint over what is nothing now", lua.Mint, nil, []any{settled, "b:1", "y"}, "[0 ]", nil},

		{"prepare", lua.Prepare, base, []any{settled, low}, "[1   ]", with(base, "p", low)},
		{"prepare on fresh", lua.Prepare, hashFields{"v": fresh}, []any{fresh, low}, "[1   ]", hashFields{"v": fresh, "p": low}},
		{"prepare on nothing", lua.Prepare, nil, []any{settled, low}, "[0 ]", nil},
		{"prepare of another record", lua.Prepare, base, []any{fresh, high}, "[0 " + settled + "]", nil},
		{"prepare of what has an accepted child", lua.Prepare, base, []any{accepted, high}, "[0 " + settled + "]", nil},
		{"prepare below the promise", lua.Prepare, promised, []any{settled, low}, "[-1 " + middle + "]", nil},
		{"prepare at the promise", lua.Prepare, promised, []any{settled, middle}, "[-1 " + middle + "]", nil},
		{"prepare above the promise", lua.Prepare, promised, []any{settled, high}, "[1   ]", with(base, "p", high)},
		{"prepare tells the accepted child", lua.Prepare, held, []any{settled, high}, "[1 " + middle + " " + child + " child 8]", with(held, "p", high)},
		{"prepare tells an accepted founding", lua.Prepare, hashFields{"v": acceptedFresh, "a": "founding", "p": middle}, []any{fresh, high},
			"[1 " + middle + " " + child + " founding]", hashFields{"v": acceptedFresh, "a": "founding", "p": high}},
		{"prepare below the accepted child", lua.Prepare, held, []any{settled, low}, "[-1 " + middle + "]", nil},

		{"accept", lua.Accept, base, []any{settled, middle, child, "child 8"}, "[1 " + accepted + "]", held},
		{"accept as promised", lua.Accept, promised, []any{settled, middle, child, "child 8"}, "[1 " + accepted + "]", held},
		{"accept again", lua.Accept, held, []any{settled, middle, child, "child 8"}, "[1 " + accepted + "]", held},
		{"accept on fresh", lua.Accept, hashFields{"v": fresh}, []any{fresh, middle, child, "founding"}, "[1 " + acceptedFresh + "]",
			hashFields{"v": acceptedFresh, "a": "founding", "p": middle}},
		{"accept on nothing", lua.Accept, nil, []any{settled, middle, child, "child 8"}, "[0 ]", nil},
		{"accept of another record", lua.Accept, base, []any{fresh, high, child, "child 8"}, "[0 " + settled + "]", nil},
		{"accept below the promise", lua.Accept, promised, []any{settled, low, child, "child 8"}, "[-1 " + middle + "]", nil},
		{"accept below the accepted child", lua.Accept, held, []any{settled, low, digest, "child of low"}, "[-1 " + middle + "]", nil},
		{"accept above", lua.Accept, held, []any{settled, high, digest, "child of high"}, "[1 " + settled + " ? " + high + " " + digest + "]",
			with(base, "v", settled+" ? "+high+" "+digest, "a", "child of high", "p", high)},

		{"learn the next version", lua.Learn, held, learn(3, lineage, 8), "[1 " + learn(3, lineage, 8)[4].(string) + "]", learned(3, lineage, 8)},
		{"learn a later version", lua.Learn, promised, learn(3, lineage, 10), "[1 " + learn(3, lineage, 10)[4].(string) + "]", learned(3, lineage, 10)},
		{"learn a founding", lua.Learn, held, learn(4, other, 0), "[1 " + learn(4, other, 0)[4].(string) + "]", learned(4, other, 0)},
		{"learn on fresh", lua.Learn, with(base, "v", fresh), learn(0, other, 0), "[1 " + learn(0, other, 0)[4].(string) + "]", learned(0, other, 0)},
		{"learn on fresh that accepted", lua.Learn, with(held, "v", acceptedFresh), learn(0, other, 0), "[1 " + learn(0, other, 0)[4].(string) + "]", learned(0, other, 0)},
		{"learn on nothing", lua.Learn, nil, learn(3, lineage, 8), "[0 ]", nil},
		{"learn in another memory", lua.Learn, with(base, "v", "b:0000000000000007"+" -"), learn(3, lineage, 8), "[0 " + "b:0000000000000007" + " -]", nil},
		{"learn the same version", lua.Learn, held, learn(3, lineage, 7), "[0 " + accepted + "]", nil},
		{"learn the version before", lua.Learn, base, learn(3, lineage, 6), "[0 " + settled + "]", nil},
		{"learn a version with fewer digits", lua.Learn, with(base, "v", strings.Replace(settled, ".7 ", ".10 ", 1)), learn(3, lineage, 9),
			"[0 " + strings.Replace(settled, ".7 ", ".10 ", 1) + "]", nil},
		{"learn a founding of before", lua.Learn, base, learn(2, other, 99), "[0 " + settled + "]", nil},
		{"learn another founding of the same generation", lua.Learn, base, learn(3, other, 99), "[0 " + settled + "]", nil},
		{"learn over nonsense", lua.Learn, with(base, "v", memory+" nonsense"), learn(3, lineage, 8), "[0 " + memory + " nonsense]", nil},

		{"beat on nothing", lua.MemberBeat, nil, member.BeatArgs(settled, true, time.Second, []string{"s:x"}, []int{1}, []int{1}), "[0]", nil},
		{"beat alone", lua.MemberBeat, base, member.BeatArgs(settled, true, time.Second, nil, nil, nil), "[6 " + settled + "]", with(base, "beat", "6")},
		{"beat with stamps", lua.MemberBeat, with(base, "s:old", "1", "h:1", "2", "h:2", "3", "h:9", "4"), member.BeatArgs(settled, true, time.Second, []string{"s:old", "s:new"}, []int{1}, []int{1, 2}),
			"[6 " + settled + " 1 now]", with(base, "beat", "6", "s:old", "1", "s:new", "now", "h:1", "now", "h:2", "3")},
		{"beat with stamps that are none, or lie in the future", lua.MemberBeat, with(base, "s:late", "9999999999999", "s:huge", strings.Repeat("9", 400), "s:minus", "-5", "s:word", "x"),
			member.BeatArgs(settled, true, time.Second, []string{"s:late", "s:huge", "s:minus", "s:word"}, nil, nil),
			"[6 " + settled + " now now now now]", with(base, "beat", "6", "s:late", "now", "s:huge", "now", "s:minus", "now", "s:word", "now")},
		{"beat of a clock that disagrees", lua.MemberBeat, with(base, "s:old", "1"), member.BeatArgs(settled, false, time.Second, []string{"s:old", "s:new"}, nil, nil),
			"[6 " + settled + " 1 ]", with(base, "beat", "6", "s:old", "1")},
		{"beat drops stamps", lua.MemberBeat, with(held, "s:old", "1", "h:1", "2"), member.BeatArgs(settled, true, time.Second, nil, nil, []int{1}),
			"[6 " + accepted + "]", with(held, "beat", "6", "h:1", "2")},
		{"beat of a proxy that is behind", lua.MemberBeat, with(base, "s:old", "1", "h:9", "2"), member.BeatArgs(fresh, true, time.Second, []string{"s:old", "s:new"}, []int{1}, []int{1}),
			"[6 " + settled + " 1 ]", with(base, "beat", "6", "s:old", "1", "h:9", "2")},
	}
	fleettest.OnBothMasters(t, func(t *testing.T, client *redis.Client) {
		for _, tc := range cases {
			if tc.after == nil {
				tc.after = with(tc.before)
			}
			writeHash(t, client, tc.before)
			began := fleettest.MasterMs(t, client)
			reply, err := client.Eval(context.Background(), tc.script.Text, []string{lua.MembersKey}, tc.args...).Slice()
			ended := fleettest.MasterMs(t, client)
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
				continue
			}
			// A time between the two is now.
			now := func(value string) string {
				if ms, err := strconv.ParseInt(value, 10, 64); err == nil && began <= ms && ms <= ended {
					return "now"
				}
				return value
			}
			for i, part := range reply {
				if text, ok := part.(string); ok {
					reply[i] = now(text)
				}
			}
			after := readHash(t, client)
			for name, value := range after {
				after[name] = now(value)
			}
			if got := fmt.Sprint(reply); got != tc.reply {
				t.Errorf("%s: reply:\n got %s\nwant %s", tc.name, got, tc.reply)
			}
			if !maps.Equal(after, tc.after) {
				t.Errorf("%s: the hash then:\n got %q\nwant %q", tc.name, after, tc.after)
			}
		}
	})
}

// A stamp that is ahead of the master's clock by less than clock_skew_max stays.
func TestStampWithinTheSkewStays(t *testing.T) {
	fleettest.OnBothMasters(t, func(t *testing.T, client *redis.Client) {
		shows := "run:0000000000000007 -"
		stamp := fmt.Sprint(fleettest.MasterMs(t, client) + time.Minute.Milliseconds())
		writeHash(t, client, hashFields{"v": shows, "s:x": stamp})
		if err := client.Eval(context.Background(), lua.MemberBeat.Text, []string{lua.MembersKey}, member.BeatArgs(shows, true, time.Hour, []string{"s:x"}, nil, nil)...).Err(); err != nil {
			t.Fatal(err)
		}
		if got := readHash(t, client)["s:x"]; got != stamp {
			t.Errorf("got %q, want %q", got, stamp)
		}
	})
}

func TestMemberScriptsLeaveAKeyOfAnotherTypeAlone(t *testing.T) {
	fleettest.OnBothMasters(t, func(t *testing.T, client *redis.Client) {
		ctx := context.Background()
		client.FlushAll(ctx)
		client.Set(ctx, lua.MembersKey, "somebody's", 0)
		for _, s := range []lua.Script{lua.Mint, lua.Prepare, lua.Accept, lua.Learn, lua.MemberBeat, lua.AdmitFloor} {
			err := client.Eval(ctx, s.Text, []string{lua.MembersKey, lua.FloorKey}, "", 0, 0, 0, 0, 0, 0).Err()
			if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
				t.Errorf("%s: got %v, want WRONGTYPE", s.Name, err)
			}
		}
		if got := client.Get(ctx, lua.MembersKey).Val(); got != "somebody's" {
			t.Errorf("the key is %q", got)
		}
	})
}

func TestFollowScript(t *testing.T) {
	fleettest.OnBothMasters(t, func(t *testing.T, client *redis.Client) {
		const shows = "run:0000000000000007 3-0123456789abcdef.7 5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"
		now := fleettest.MasterMs(t, client)
		lately, longAgo, ahead := fmt.Sprint(now-1000, " d 0"), fmt.Sprint(now-7_200_000, " d 0"), fmt.Sprint(now+7_200_000, " d 0")
		others := hashFields{"f:b": lately, "f:c": longAgo, "f:d": ahead, "f:e": "x", "s:f": "1"}
		for _, tc := range []struct {
			name, v, text string
			reply         int
			after         hashFields // besides v; a value of "now" is one of now, with the text
		}{
			{"noted", shows, "digest 5", 1, hashFields{"f:a": "now", "f:b": lately, "s:f": "1"}},
			{"deleted", shows, "", 1, hashFields{"f:b": lately, "s:f": "1"}},
			{"a child is accepted", shows + " ? 00000001-x child", "digest 5", 0, others},
			{"another record is shown", "run:0000000000000007 -", "digest 5", 0, others},
			{"nothing is shown", "", "digest 5", 0, others},
		} {
			before := maps.Clone(others)
			if tc.v != "" {
				before["v"], tc.after = tc.v, maps.Clone(tc.after)
				tc.after["v"] = tc.v
			}
			writeHash(t, client, before)
			got, err := client.Eval(context.Background(), lua.Follow.Text, []string{lua.MembersKey}, "a", shows, tc.text, time.Hour.Milliseconds()).Int()
			if err != nil || got != tc.reply {
				t.Errorf("%s: got %d, %v, want %d", tc.name, got, err, tc.reply)
			}
			after := readHash(t, client)
			if at, rest, _ := strings.Cut(after["f:a"], " "); rest == "digest 5" && len(at) == len(fmt.Sprint(now)) {
				after["f:a"] = "now"
			}
			if !maps.Equal(after, tc.after) {
				t.Errorf("%s: the hash then:\n got %q\nwant %q", tc.name, after, tc.after)
			}
		}
	})
}

func TestAdmitFloor(t *testing.T) {
	fleettest.OnBothMasters(t, func(t *testing.T, client *redis.Client) {
		ctx := context.Background()
		began := time.UnixMilli(fleettest.MasterMs(t, client))
		ahead := func(d time.Duration) string { return strconv.FormatInt(fence.Time(began.Add(d)), 10) }
		for _, tc := range []struct {
			name, shows, before, v, floor string
			want                          int
			after                         string
		}{
			{"no floor yet", "v", "", "v", "7", 1, "7"},
			{"raised", "v", "6", "v", "10", 1, "10"},
			{"as high", "v", "7", "v", "7", 1, "7"},
			{"not lowered", "v", "10", "v", "7", 1, "10"},
			{"nearly a day ahead", "v", "6", "v", ahead(fence.AheadMax - time.Hour), 1, ahead(fence.AheadMax - time.Hour)},
			{"more than a day ahead", "v", "6", "v", ahead(fence.AheadMax + time.Hour), fence.Ahead, "6"},
			{"more than a day ahead, and no floor yet", "v", "", "v", ahead(fence.AheadMax + time.Hour), fence.Ahead, ""},
			{"no more than was there", "v", "9007199254740991", "v", "9007199254740990", 1, "9007199254740991"},
			{"another record", "w", "6", "v", "7", 0, "6"},
			{"with an accepted child", "v ? b d", "6", "v", "7", 0, "6"},
		} {
			writeHash(t, client, hashFields{"v": tc.shows})
			if tc.before != "" {
				client.Set(ctx, lua.FloorKey, tc.before, 0)
			}
			got, err := client.Eval(ctx, lua.AdmitFloor.Text, []string{lua.MembersKey, lua.FloorKey}, tc.v, tc.floor).Int()
			if after := client.Get(ctx, lua.FloorKey).Val(); err != nil || got != tc.want || after != tc.after {
				t.Errorf("%s: got %d, %v, floor %q, want %d, floor %q", tc.name, got, err, after, tc.want, tc.after)
			}
		}
	})
}
