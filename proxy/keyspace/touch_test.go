package keyspace

// Goal: what a key holds decides whether a command may change it, whatever the command is called. Method: every command of the table
// that writes, with random arguments that do not name what somebody holds, on keys that somebody holds.

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"redlockd/redlock"
)

// held are keys that somebody holds: by a token, one of which is a number, or by a member of a collection.
var held = map[string]string{
	"token":  "DuEPdX7bdjUbqXB1Z3s1WyCvraA.mwyddem5",
	"number": "7",
	"hash":   (&collection{kind: hash, members: []member{{name: "holder", value: "7"}}}).encode([redlock.VersionLen]byte{}),
	"set":    (&collection{kind: set, members: []member{{name: "holder"}, {name: "reader"}}}).encode([redlock.VersionLen]byte{}),
	"zset":   (&collection{kind: zset, members: []member{{name: "holder", score: 4e12}}}).encode([redlock.VersionLen]byte{}),
}

// words are what the arguments are made of. None is what somebody holds. Scores end below that of the holder.
var words = []string{"v", "mine", "1", "-1", "0", "5", "8", "5000", "100000", "1800000000", "1800000000000", "px", "ex", "pxat", "exat", "keepttl", "persist",
	"nx", "xx", "ifeq", "ifne", "get", "gt", "lt", "-inf", "+inf", "(5", "incr", "ch", "k"}

// randomArgs are arguments of a command on the key k, as many as it may have.
func randomArgs(r *rand.Rand, name string) []string {
	least := Lookup(name).Arity
	n := max(least, -least) - 2
	if least < 0 {
		n += r.IntN(4)
	}
	args := []string{"k"}
	for range n {
		args = append(args, words[r.IntN(len(words))])
	}
	return args
}

// stands reports whether a run leaves the holder what it has: the token, or the member, until the same end.
func stands(o *Outcome, value string) bool {
	for i := range o.Changes {
		ch := &o.Changes[i]
		if ch.Resource != "k" || ch.Do == redlock.Keep {
			continue
		}
		before, _ := decode(value)
		after, ok := decode(ch.NewValue)
		if ch.Do != redlock.Set || !ok || ch.TTL != 5*time.Second || after.kind != before.kind {
			return false
		}
		for _, m := range before.members {
			if !slices.Contains(after.members, m) {
				return false
			}
		}
	}
	return true
}

func TestAnothersLockStands(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := slices.Sorted(maps.Keys(definitions))
	for _, name := range names {
		if !Lookup(name).Writes {
			continue
		}
		executed, refused := 0, 0
		for kind, value := range held {
			for range 4000 {
				space := testSpace([]string{"k"}, redlock.State{Found: true, Type: "string", Value: value, TTL: 5 * time.Second})
				space.KeysMax, space.DefaultTTL = 8, 20*time.Second
				var lines [][]string
				if space.Unseen = r.IntN(2) == 0; space.Unseen { // behind MULTI, any commands can stand before it
					for range r.IntN(3) {
						other := names[r.IntN(len(names))]
						lines = append(lines, append([]string{other}, randomArgs(r, other)...))
					}
				}
				lines = append(lines, append([]string{name}, randomArgs(r, name)...))
				for _, line := range lines {
					reply, err := space.Call(line[0], line[1:])
					if err != nil {
						break
					}
					if reply.Text != ErrSyntax && reply.Text != ErrNotInteger {
						executed++
					}
				}
				o := space.Outcome()
				if len(o.Unguarded) > 0 {
					refused++
				} else if !stands(&o, value) {
					t.Fatalf("%s held by a %s: %q is not refused, and makes %+v", "k", kind, lines, o.Changes)
				}
			}
		}
		if executed < 100 {
			t.Errorf("%s: only %d runs came beyond its arguments", name, executed)
		}
		if d := Lookup(name); refused == 0 && d.instead != "" {
			t.Errorf("%s is never refused", name)
		}
	}
}

// Goal: a counter is everybody's to count in, and its key nobody's to end. Method: each way in which one begins, and what becomes of it.
func TestCounters(t *testing.T) {
	state := func(value string) redlock.State {
		return redlock.State{Found: true, Type: "string", Value: value, TTL: 5 * time.Second}
	}
	make := func(line string) string {
		space := testSpace([]string{"k"}, absent)
		space.DefaultTTL = 20 * time.Second
		run(t, space, line)
		return space.Outcome().Changes[0].NewValue
	}
	for line, counts := range map[string]bool{
		"incr k": true, "decrby k 4": true, "incr k; pexpire k 9": true, "set k 3": true, "mset k 3": true, "getset k 3": true, "set k 3; incr k": true,
		"set k 3 px 9": false, "set k 3 nx": false, "setnx k 3": false, "set k 3; pexpire k 9": false, "set k v": false, "set k 03": false, "setex k 9 3": false,
	} {
		value := make(line)
		shown, isText := Text(value)
		if IsEnvelope(value) != counts || !isText || shown == "" {
			t.Errorf("%s: the masters get %q, shown as %q, want a counter: %v", line, value, shown, counts)
		}
		space := testSpace([]string{"k"}, state(value))
		replies := run(t, space, "incr k; get k; type k; strlen k")
		if o := space.Outcome(); counts != (len(o.Unguarded) == 0) && replies[0].Int != 0 {
			t.Errorf("%s; incr k: refused: %+v, want %v", line, o.Unguarded, !counts)
		}
		if counts && (replies[1].Text != fmt.Sprint(replies[0].Int) || replies[2].Text != "string" || replies[3].Int != int64(len(replies[1].Text))) {
			t.Errorf("%s: got %+v", line, replies)
		}
	}
	counter := make("incrby k 41")
	for lines, want := range map[string]struct {
		refused bool
		value   string // what it is afterwards, shown; empty: nothing
		counts  bool
	}{
		"incr k":                         {false, "42", true},
		"incr k; pexpire k 900":          {false, "42", true}, // its reply shows a script what it holds
		"incr k; del k":                  {false, "", false},
		"get k; set k 0":                 {false, "0", true},
		"get k; set k 0 px 900":          {false, "0", true},
		"get k; set k v px 900":          {false, "v", false},
		"set k 9 ifeq 41 px 900":         {false, "9", true},
		"delex k ifeq 41":                {false, "", false},
		"delex k ifeq 42":                {false, "41", true},
		"set k 1 nx":                     {false, "41", true},
		"incrby k 0":                     {false, "41", true},
		"del k":                          {true, "", false},
		"pexpire k 1":                    {true, "41", true},
		"set k 0":                        {true, "0", true},
		"getset k 0":                     {true, "0", true},
		"del k; incr k":                  {true, "1", true},
		"delex k ifeq 41; set k v px 90": {false, "v", false},
	} {
		space := testSpace([]string{"k"}, state(counter))
		drawn := byte(0)
		space.Random = func(b []byte) (int, error) { drawn++; b[15] = drawn; return len(b), nil }
		space.DefaultTTL = 20 * time.Second
		run(t, space, lines)
		o := space.Outcome()
		ch := o.Changes[0]
		value := ""
		switch ch.Do {
		case redlock.Set:
			value = ch.NewValue
		case redlock.Keep, redlock.Expire:
			value = ch.Value
		}
		shown, _ := Text(value)
		if shown != want.value || IsEnvelope(value) != want.counts || (len(o.Unguarded) > 0) != want.refused || ch.Value != counter {
			t.Errorf("%s on 41: got %q (%q), refused %+v; want %+v", lines, shown, value, o.Unguarded, want)
		}
		if ch.Do == redlock.Set && value == counter {
			t.Errorf("%s: a change makes the same value", lines)
		}
	}
	// What imitates one is none.
	for _, number := range []string{"", "v", "01", " 1"} {
		c := counterOf(number)
		if _, ok := Text(c.encode([redlock.VersionLen]byte{})); ok {
			t.Errorf("an envelope of %q is taken for a counter", number)
		}
	}
	space := testSpace([]string{"k"}, state(counter))
	for _, line := range []string{"hset k f v", "sadd k m", "zadd k 1 m"} {
		if reply := run(t, space, line); reply[0].Text != ErrWrongType {
			t.Errorf("%s: got %+v", line, reply)
		}
	}
}
