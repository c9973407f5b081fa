package redlock

// Goal: the scripts reply, and leave behind, to the millisecond what their heads say, also at the edge of each comparison. Method: in virtual time no
// millisecond passes. Each case fills a master in memory, runs one script, and compares all. It takes no time, so it is the first that a mutant meets.

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/lua"
	"redlockd/redlock/memmaster"
)

// exactTime stands in the cases for a time of the clock, in milliseconds: ~ now, ~-5 before.
var exactTime = regexp.MustCompile(`~([+-]\d+)?`)

func inExactTime(text string) string {
	return exactTime.ReplaceAllStringFunc(text, func(at string) string {
		offset, _ := strconv.ParseInt(at[1:], 10, 64)
		return fmt.Sprint(time.Now().UnixMilli() + offset)
	})
}

// exactly is what a master in memory holds: "k=v/500" a string that lives for 500 ms, "k=v" one that lives for ever, "k={A 300, B 500}/500" a sorted
// set, "k=[f v]" a hash.
func exactly(t *testing.T, m *memmaster.Master, client *redis.Client) string {
	ctx, found := t.Context(), []string{}
	for _, key := range slices.Sorted(slices.Values(m.Keys())) {
		is := ""
		switch client.Type(ctx, key).Val() {
		case "string":
			is = client.Get(ctx, key).Val()
		case "zset":
			var members []string
			for _, z := range client.ZRevRangeWithScores(ctx, key, 0, -1).Val() {
				members = append(members, fmt.Sprintf("%v %.0f", z.Member, z.Score))
			}
			slices.Reverse(members)
			is = "{" + strings.Join(members, ", ") + "}"
		default:
			var fields []string
			all := client.HGetAll(ctx, key).Val()
			for _, field := range slices.Sorted(slices.Values(client.HKeys(ctx, key).Val())) {
				fields = append(fields, field+" "+all[field])
			}
			is = "[" + strings.Join(fields, ", ") + "]"
		}
		if left := client.PTTL(ctx, key).Val(); left >= 0 {
			is += fmt.Sprint("/", left.Milliseconds())
		}
		found = append(found, key+"="+is)
	}
	return strings.Join(found, "; ")
}

type exactScript struct {
	what   string
	before string // commands, with "; " between them; FULL at the end: then the memory is full
	script lua.Script
	keys   string
	args   string // "_" is none
	reply  string
	after  string // "" as before
}

// exactReaders are commands for a set of readers, k, whose axis says 100 now: scores and members.
func exactReaders(members ...string) string {
	text := "ZADD k 600 redlockd:end; PEXPIRE k 500"
	for _, member := range members {
		text += "; ZADD k " + member
	}
	return text
}

// exactMarks are commands for n marks.
func exactMarks(n int) string {
	text := ""
	for i := range n {
		text += fmt.Sprintf("ZADD marks %d m%d; ", 100+i, 100+i)
	}
	return text
}

var exactScripts = []exactScript{
	// moved.lua
	{"an end is moved", "SET k a PX 500", lua.Extend, "k", "a 400 1000", "1", "k=a/508"},
	{"an end is moved from the same", "SET k a PX 500", lua.Extend, "k", "a 500 1000", "1", "k=a/508"},
	{"an end is moved from close by", "SET k a PX 500", lua.Extend, "k", "a 507 1000", "1", "k=a/508"},
	{"an end far enough away", "SET k a PX 500", lua.Extend, "k", "a 509 1000", "1", "k=a/509"},
	{"the longest TTL is moved", "SET k a PX 1000", lua.Extend, "k", "a 900 1000", "1", "k=a/1008"},
	{"a moved end is not moved", "SET k a PX 1001", lua.Extend, "k", "a 900 1000", "1", "k=a/1001"},
	// moved_exactly.lua
	{"exactly the same end", "SET k v PX 500", lua.Commit, "k", "2 v 3 _ 500 0", "1", "k=v/508"},
	{"exactly, a little later", "SET k v PX 500", lua.Commit, "k", "2 v 3 _ 507 0", "1", "k=v/508"},
	{"exactly, a little earlier", "SET k v PX 500", lua.Commit, "k", "2 v 3 _ 493 0", "1", "k=v/508"},
	{"exactly, earlier", "SET k v PX 500", lua.Commit, "k", "2 v 3 _ 492 0", "1", "k=v/492"},
	{"exactly, of what never ends", "SET k v", lua.Commit, "k", "2 v 3 _ 5 0", "1", "k=v/5"},
	{"exactly, of what ends now", "SET k v PX 1", lua.Commit, "k", "2 v 3 _ 5 0", "1", "k=v/9"},
	// commit.lua
	{"the same value again", "SET k v PX 500", lua.Commit, "k", "2 v 1 v 500 0", "1", "k=v/508"},
	{"another value", "SET k v PX 500", lua.Commit, "k", "2 v 1 n 500 0", "1", "k=n/500"},
	{"the same value for no less", "SET k v PX 500", lua.Commit, "k", "2 v 4 v 500 0", "1", "k=v/500"},
	{"an end that is met", "SET k v PX 500", lua.Commit, "k", "2@~+500 v 2 _ 0 0", "1", "-"},
	{"an end that is not met", "SET k v PX 500", lua.Commit, "k", "2@~+501 v 2 _ 0 0", "0", ""},
	{"in time", "SET k v PX 500", lua.Commit, "k", "2 v 2 _ 0 ~", "1", "-"},
	{"too late", "SET k v PX 500", lua.Commit, "k", "2 v 2 _ 0 ~-1", "-2", ""},
	{"a time of 1 is over", "SET k v PX 500", lua.Commit, "k", "2 v 2 _ 0 1", "-2", ""},
	// read.lua, ends.lua
	{"ends", "SET k v PX 500; SET l v; HSET m f v", lua.Read, "k l m n", "1", "[string v 500 ~+500 string v -1 -1 hash  -1 -1 none  -2 -2]", ""},
	// join.lua
	{"the first reader", "", lua.Join, "k", "A 500 900 0", "1", "k={r:A 500, redlockd:end 500}/500"},
	{"a reader for a millisecond", "", lua.Join, "k", "A 1 900 0", "1", "k={r:A 1, redlockd:end 1}/1"},
	{"readers of two lengths", "", lua.Join, "k", "A 500 900 0 B 700 900 0 C 700 900 0 D 500 900 0", "[1 1 1 1]", "k={r:A 500, r:D 500, r:B 700, r:C 700, redlockd:end 700}/700"},
	{"a reader once more", exactReaders("400 r:A"), lua.Join, "k", "A 200 900 0", "2", "k={r:A 408, redlockd:end 600}/500"},
	{"a reader once more, for longer", exactReaders("400 r:A"), lua.Join, "k", "A 700 900 0", "2", "k={r:A 800, redlockd:end 800}/700"},
	{"beside a writer", "SET k v PX 500", lua.Join, "k", "A 500 900 0", "-3", ""},
	{"beside an intent", exactReaders("400 r:A", "300 writer"), lua.Join, "k", "B 100 900 0 C 100 900 1", "[-3 1]", "k={r:C 200, writer 300, r:A 400, redlockd:end 600}/500"},
	// announce.lua
	{"an intent for longer than the readers", exactReaders("400 r:A"), lua.Announce, "k", "900 50", "[zset 300]", "k={r:A 400, redlockd:end 1000, writer 1000}/900"},
	{"an intent that lasts long enough", exactReaders("400 r:A", "150 writer"), lua.Announce, "k", "900 50", "[zset 300]", ""},
	{"an intent that does not", exactReaders("400 r:A", "150 writer"), lua.Announce, "k", "200 51", "[zset 300]", "k={writer 300, r:A 400, redlockd:end 600}/500"},
	{"the least intent", "ZADD k 500 redlockd:end; ZADD k 400 r:A; PEXPIRE k 500", lua.Announce, "k", "1 1", "[zset 400]", "k={writer 1, r:A 400, redlockd:end 500}/500"},
	// extend.lua
	{"mine beside another's", "SET k a PX 500; SET l b PX 500", lua.Extend, "k l", "a 500 1000", "4", ""},
	{"another's beside mine", "SET k b PX 500; SET l a PX 500", lua.Extend, "k l", "a 500 1000", "4", ""},
	{"a reader is extended", exactReaders("400 r:A"), lua.Extend, "k", "A 200 900", "3", "k={r:A 408, redlockd:end 600}/500"},
	// leave.lua, release.lua, undo.lua
	{"the last to end leaves", exactReaders("400 r:A", "550 r:B"), lua.Release, "k", "0 B", "1", "k={r:A 400, redlockd:end 400}/300"},
	{"who was not there leaves", exactReaders("400 r:A"), lua.Release, "k", "0 B", "-", ""},
	{"a failed lock is taken back", "SET k A PX 500; SET l A PX 500", lua.Undo, "k l", "A ~+500 1 _ A ~+500 1 _", "2", "-"},
	{"another's with the same end", "SET k B PX 500", lua.Undo, "k", "A ~+500 1 _", "0", ""},
	{"as early as it may be", "SET k A PX 494", lua.Undo, "k", "A ~+500 1 _", "1", "-"},
	{"earlier", "SET k A PX 493", lua.Undo, "k", "A ~+500 1 _", "0", ""},
	{"as late as it may be", "SET k A PX 501", lua.Undo, "k", "A ~+500 1 _", "1", "-"},
	{"later", "SET k A PX 502", lua.Undo, "k", "A ~+500 1 _", "0", ""},
	{"what never ends", "SET k A", lua.Undo, "k", "A ~ 1 _", "0", ""},
	{"what ends now", "SET k A PX 1", lua.Undo, "k", "A ~+1 1 _", "1", "-"},
	{"the value of before is put back", "SET k N PX 500", lua.Undo, "k", "N ~+500 2 A", "1", "k=A/500"},
	{"a failed reader leaves others", exactReaders("400 r:A", "600 r:N"), lua.Undo, "k", "N ~+500 1 _", "1", "k={r:A 400, redlockd:end 400}/300"},
	{"a failed takeover", exactReaders("600 r:N"), lua.Undo, "k", "N ~+500 2 A", "1", "k={r:A 600, redlockd:end 600}/500"},
	{"a failed takeover of a reader who has come back", exactReaders("400 r:N", "600 r:A"), lua.Undo, "k", "N ~+300 2 A", "1", "k={r:A 600, redlockd:end 600}/500"},
	// copy_read.lua, copy_readers.lua, copy_note.lua
	{"what is copied", "SET k v PX 500; SET l v; SET n too-long PX 500; " + strings.ReplaceAll(exactReaders("400 r:A"), " k ", " r "), lua.CopyRead, "k l m n r", "1 1",
		"[500 v -1 -1 -2 -2 500 -1 500 [redlockd:end 500 r:A 300]]", ""},
	{"what is copied, without ends", "SET k v PX 500; HSET h f v", lua.CopyRead, "h k m", "1 0", "[0 -1 0 v 0 -2]", ""},
	{"readers for who has none", "HSET M v this", lua.CopyReaders, "M k", "this 4 r:A 500 r:B 1", "1", "M=[v this]; k={r:B 1, r:A 500, redlockd:end 500}/500"},
	{"a reader for a millisecond is copied", "HSET M v this", lua.CopyReaders, "M k", "this 2 r:A 1", "1", "M=[v this]; k={r:A 1, redlockd:end 1}/1"},
	{"readers that go", "HSET M v this; " + exactReaders("400 r:A", "600 r:B"), lua.CopyReaders, "M k", "this 2 r:A 300 r:B r:X", "1", "M=[v this]; k={r:A 400, redlockd:end 400}/300"},
	{"another copies", "HSET M v this copy aa_~_far", lua.CopyNote, "M", "bb near 1", "[0 aa ~ far]", ""},
	{"another has copied", "HSET M v this copy aa_~-9_far", lua.CopyNote, "M", "bb near 9", "[1]", "M=[copy bb ~ near, v this]"},
	{"what says nothing of a copier", "HSET M v this copy aa", lua.CopyNote, "M", "bb near 9", "[1]", "M=[copy bb ~ near, v this]"},
	// stamp.lua, member_beat.lua
	{"a heartbeat without a membership", "", lua.MemberBeat, "M", "this 1 1 0 10 s:1", "[0]", ""},
	{"a heartbeat", "HSET M v this", lua.MemberBeat, "M", "this 1 1 1 10 s:1 h:1", "[1 this ~]", "M=[beat 1, h:1 ~, s:1 ~, v this]"},
	{"a stamp a little ahead", "HSET M v this s:1 ~+10", lua.MemberBeat, "M", "this 1 1 0 10 s:1", "[1 this ~+10]", "M=[beat 1, s:1 ~+10, v this]"},
	{"a stamp too far ahead", "HSET M v this s:1 ~+11", lua.MemberBeat, "M", "this 1 1 0 10 s:1", "[1 this ~]", "M=[beat 1, s:1 ~, v this]"},
	// states.lua
	{"a ballot that is longer", "HSET M v this p 12", lua.Prepare, "M", "this 123", "[1   ]", "M=[p 123, v this]"},
	{"a ballot that is shorter", "HSET M v this p 123", lua.Prepare, "M", "this 12", "[-1 123]", ""},
	{"a ballot that is the same", "HSET M v this p 12", lua.Prepare, "M", "this 12", "[-1 12]", ""},
	{"a ballot that is lower", "HSET M v this p 12", lua.Prepare, "M", "this 119", "[-1 12]", ""},
	// follow.lua
	{"notes that are as old as they may be", "HSET M v this f:a ~-9_x f:b ~+9_x", lua.Follow, "M", "me this note 9", "1", "M=[f:a ~-9 x, f:b ~+9 x, f:me ~ note, v this]"},
	{"notes that are older", "HSET M v this f:a ~-10_x f:b ~+10_x f:c x", lua.Follow, "M", "me this note 9", "1", "M=[f:me ~ note, v this]"},
	// admit_floor.lua, ahead.lua: a day has 353894400000 fences, and virtual time begins where fences do
	{"the least floor", "HSET M v this", lua.AdmitFloor, "M floor", "this 1", "1", "M=[v this]; floor=1"},
	{"a day ahead", "HSET M v this", lua.AdmitFloor, "M floor", "this 353894400000", "1", "M=[v this]; floor=353894400000"},
	{"more than a day ahead", "HSET M v this", lua.AdmitFloor, "M floor", "this 353894400001", "-2", ""},
	{"more than a day ahead, and there", "HSET M v this; SET floor 353894400001", lua.AdmitFloor, "M floor", "this 353894400001", "1", ""},
	// acquire.lua
	{"beside what is held already, a reservation", "SET k a PX 500; SET l w PX 100", lua.Acquire, "k l", "a 500 1000 0 0 w", "2", "k=a/508; l=a/500"},
	// bound_marks.lua
	{"as many marks as are bounded", exactMarks(73), lua.Acquire, "k marks floor", "a 500 1000 999 10", "1", "floor=163; k=a/500; marks={m164 164, m165 165, m166 166, m167 167, m168 168, m169 169, m170 170, m171 171, m172 172, k 999}"},
	// raise.lua
	{"a mark of what is not held", "", lua.Raise, "marks floor k", "5 10 3", "[1 none  0 -1  ~]", "marks={k 5}"},
	{"a mark of what never ends", "SET k v", lua.Raise, "marks floor k", "5 10 3", "[1 string v 0 -1  ~]", "k=v; marks={k 5}"},
	{"a mark of what ends now", "SET k v PX 1; ZADD marks 4 k", lua.Raise, "marks floor k", "5 10 3", "[1 string v ~+1 -1  ~]", "k=v/1; marks={k 5}"},
	{"a mark that is there", "ZADD marks 5 k", lua.Raise, "marks floor k", "5 10 3", "[5 none  0 -1  ~]", ""},
	{"a mark of readers", exactReaders("550 writer", "400 r:A", "300 r:B"), lua.Raise, "marks floor k", "5 10 1", "[1 zset  0 2 1:~+300:A ~]",
		"k={r:B 300, r:A 400, writer 550, redlockd:end 600}/500; marks={k 5}"},
	{"as many bytes as are listed", exactReaders("400 r:"+strings.Repeat("x", 59_978), "300 r:B"), lua.Raise, "marks floor k", "5 10 3",
		"[1 zset  0 2 59978:~+300:" + strings.Repeat("x", 59_978) + " ~]", "k={r:B 300, r:" + strings.Repeat("x", 59_978) + " 400, redlockd:end 600}/500; marks={k 5}"},
	{"a byte less", exactReaders("400 r:"+strings.Repeat("x", 59_977), "300 r:B"), lua.Raise, "marks floor k", "5 10 3",
		"[1 zset  0 2 59977:~+300:" + strings.Repeat("x", 59_977) + "1:~+200:B ~]", "k={r:B 300, r:" + strings.Repeat("x", 59_977) + " 400, redlockd:end 600}/500; marks={k 5}"},
	{"a mark more than are kept", exactMarks(73), lua.Raise, "marks floor k", "999 10 3", "[1 none  0 -1  ~]",
		"floor=163; marks={m164 164, m165 165, m166 166, m167 167, m168 168, m169 169, m170 170, m171 171, m172 172, k 999}"},
	// slot.lua
	{"free slots", "SET k A PX 500; HSET m f v", lua.Slot, "k l m n", "B 500 1000 0 0 0", "-20", ""},
	{"a slot that another holds", "SET k A PX 500", lua.Slot, "k l", "B 500 1000 0 0 1", "-12", ""},
	// watch.lua
	{"no beat is counted", "HSET M v this c:a ~_0_0_1_p", lua.Watch, "M", "me 0 0 0 p 9", "[-1  0  1]", "M=[c:a ~ 0 0 1 p, c:me ~ 0 0 0 p, v this]"},
	{"a beat that is no number", "HSET M v this beat x c:a ~_0_0_1_p", lua.Watch, "M", "me 0 0 0 p 9", "[-1  0  1]", "M=[beat x, c:a ~ 0 0 1 p, c:me ~ 0 0 0 p, v this]"},
	{"what is old", "HSET M v this beat 40 c:a ~-10_1_0_0_p c:b ~-9_0_0_0_p c:c ~+9_0_0_0_p c:d ~+10_1_0_0_p", lua.Watch, "M", "me 1 0 0 p 9", "[-1  0  1]",
		"M=[beat 40, c:b ~-9 0 0 0 p, c:c ~+9 0 0 0 p, c:me ~ 1 0 0 p, v this]"},
	{"the least beat, and no gain", "HSET M v this beat 40 c:a ~_1_0_0_p", lua.Watch, "M", "me 0 0 0 p 9", "[-1 ~ 0  1]", "M=[beat 40, c:a ~ 1 0 0 p, c:me ~ 0 0 0 p, v this]"},
	{"the least gain", "HSET M v this beat 40 c:a ~_0_1_0_p", lua.Watch, "M", "me 0 0 0 p 9", "[-1 ~ 0  1]", "M=[beat 40, c:a ~ 0 1 0 p, c:me ~ 0 0 0 p, v this]"},
	{"who does not watch pads otherwise", "HSET M v this beat 40 c:a ~_0_0_0_q", lua.Watch, "M", "me 0 0 0 p 9", "[-1  0  1]", "M=[beat 40, c:a ~ 0 0 0 q, c:me ~ 0 0 0 p, v this]"},
	{"who watches pads otherwise", "HSET M v this beat 40 c:a ~_1_0_0_q", lua.Watch, "M", "me 0 0 0 p 9", "[-1 ~ 0 q 1]", "M=[beat 40, c:a ~ 1 0 0 q, c:me ~ 0 0 0 p, v this]"},
	{"above the first beat", "HSET M v this beat 40 c:a ~_2_7_0_p", lua.Watch, "M", "me 0 0 1 p 9", "[7 ~ 0  1]", "M=[beat 40, c:a ~ 2 7 0 p, c:me ~ 0 0 1 p, v this]"},
	{"the last beat", "HSET M v this beat 40 c:a ~_40_7_40_p", lua.Watch, "M", "me 0 0 30 p 9", "[7 ~ 1  1]", "M=[beat 40, c:a ~ 40 7 40 p, c:me ~ 0 0 30 p, v this]"},
	{"a memory that is full", "HSET M v this beat 40; FULL", lua.Watch, "M", "me 0 0 0 p 9", "[-1  0  0]", ""},
	{"no gain is the least", "HSET M v this beat 40 c:a ~_31_0_1_p c:b ~_31_5_0_p", lua.Watch, "M", "me 0 0 30 p 9", "[0 1893369600000 1  1]",
		"M=[beat 40, c:a ~ 31 0 1 p, c:b ~ 31 5 0 p, c:me ~ 0 0 30 p, v this]"},
}

func TestScriptsExactly(t *testing.T) {
	for _, tc := range exactScripts {
		t.Run(tc.what, func(t *testing.T) {
			synctest.Test(t, tc.play)
		})
	}
}

func (tc *exactScript) play(t *testing.T) {
	m := newMemMaster(t)
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: m.Dial, Protocol: 2, DisableIdentity: true})
	defer client.Close()
	words := func(text string) (args []any) {
		for _, word := range strings.Fields(text) {
			args = append(args, strings.ReplaceAll(strings.TrimPrefix(inExactTime(word), "_"), "_", " "))
		}
		return args
	}
	for command := range strings.SplitSeq(tc.before, "; ") {
		if m.SetFull(command == "FULL"); command == "FULL" {
			break // from now on
		}
		if args := words(command); len(args) > 0 {
			if err := client.Do(t.Context(), args...).Err(); err != nil {
				t.Fatalf("%s: %v", command, err)
			}
		}
	}
	before := exactly(t, m, client)
	want := before
	switch tc.after {
	case "":
	case "-":
		want = ""
	default:
		want = inExactTime(tc.after)
	}
	reply, err := client.Eval(t.Context(), tc.script.Text, strings.Fields(tc.keys), words(tc.args)...).Result()
	if after := exactly(t, m, client); err != nil || fmt.Sprint(reply) != inExactTime(tc.reply) || after != want {
		t.Errorf("with %s\n%s %s %s\ngot  %v, %v, want %s\nthen %s\nwant %s", before, tc.script.Name, tc.keys, tc.args, reply, err, inExactTime(tc.reply), after, want)
	}
}
