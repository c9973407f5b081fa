package keyspace

// Goal: what commands of a client have done is committed as one, guarded by all that their replies tell. Method: tables.

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock"
)

const testNow = 1_700_000_000_123

// testSpace is a Space of keys whose versions are all the same.
func testSpace(keys []string, states ...redlock.State) *Space {
	space := New(keys, states, time.UnixMilli(testNow))
	space.Random = func(b []byte) (int, error) { return len(b), nil }
	return space
}

// run executes commands, which a semicolon separates.
func run(t *testing.T, space *Space, lines string) (replies []Reply) {
	t.Helper()
	for line := range strings.SplitSeq(lines, "; ") {
		words := strings.Fields(line)
		r, err := space.Call(words[0], words[1:])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		replies = append(replies, r)
	}
	return replies
}

func TestChanges(t *testing.T) {
	keys := []string{"a", "b", "n", "h"} // held, absent, held without a TTL, a hash
	states := []redlock.State{
		{Found: true, Type: "string", Value: "v", TTL: 5 * time.Second}, {Type: "none"}, {Found: true, Type: "string", Value: "v", TTL: -1}, {Found: true, Type: "hash", TTL: -1},
	}
	for _, test := range []struct{ lines, replies, want string }{
		{"get a", "$v", ""},
		{"exists a b h", ":2", ""},
		{"set b w px 1000", "+", "b absent set w 1s"},
		{"set a w keepttl", "+", "a v set w 5s"},
		{"set n w keepttl", "+", "n v set w 20s"},
		{"set a v px 1000", "+", "a v expire 1s"},
		{"set a v keepttl", "+", ""},
		{"set a v pxat 1", "+", "a v expire -472222h13m20.122s"},
		{"pexpire a 9223372036854775", ":1", "a v expire 2562047h47m16.854s"},
		{"getset n w", "$v", "n v set w 20s"},
		{"persist a", ":1", "a v expire 20s"},
		{"persist n", ":0", ""},
		{"del a h b", ":1", "a v delete"},
		{"mset a w h w", "-WRONGTYPE Operation against a key holding the wrong kind of value", ""},
		{"setex h 9 w", "-WRONGTYPE Operation against a key holding the wrong kind of value", ""},
		{"hset h f w", "-" + ErrForeign, ""},
		{"pexpire a 0", ":1", "a v delete"},
		{"del a; setnx a v", ":1 :1", "a v expire 20s"},
		{"setnx b w; del b", ":1 :1", ""},
		{"setnx b w; get a", ":1 $v", "b absent set w 20s"},
	} {
		space := testSpace(keys, states...)
		space.KeepEnded, space.DefaultTTL = true, 20*time.Second
		var replies []string
		for _, r := range run(t, space, test.lines) {
			replies = append(replies, [...]string{"nil", "+", "-" + r.Text, fmt.Sprint(":", r.Int), "$" + r.Text}[r.Kind])
		}
		o := space.Outcome()
		var done []string
		for _, ch := range o.Changes {
			was := [...]string{"any", "absent", ch.Value}[ch.Was]
			switch ch.Do {
			case redlock.Set:
				done = append(done, fmt.Sprint(ch.Resource, " ", was, " set ", ch.NewValue, " ", ch.TTL))
			case redlock.Expire:
				done = append(done, fmt.Sprint(ch.Resource, " ", was, " expire ", ch.TTL))
			case redlock.Delete:
				done = append(done, fmt.Sprint(ch.Resource, " ", was, " delete"))
			}
		}
		if got := strings.Join(done, ", "); got != test.want || o.Writes != (test.want != "") || strings.Join(replies, " ") != test.replies {
			t.Errorf("%s: got %s, changes %q, %v\nwant %s, %q", test.lines, replies, got, o.Writes, test.replies, test.want)
		}
	}
}

// Goal: what the policy and the commits rely on is told of a run, and nothing else. Method: a table of commands on a key that holds v,
// with what its Outcome says beside the changes; the run of a client, without a default TTL.
func TestOutcome(t *testing.T) {
	const (
		readTTL   = "ttl"
		blind     = "blind"
		unguarded = "unguarded"
		endless   = "endless"
	)
	for _, test := range []struct{ lines, held, absent string }{
		{"get a", "", ""},
		{"pttl a", readTTL, ""},
		{"set a w nx px 9", "", ""},
		{"set a w nx", "", endless},
		{"set a w ifeq v px 9", "", ""},
		{"set a w ifeq v", endless, ""},
		{"set a w ifeq v keepttl", readTTL, ""},
		{"set a w ifne x px 9", unguarded, ""}, // so does another's lock
		{"delex a ifne x", unguarded, ""},
		{"set a w px 9", blind + unguarded, blind},
		{"set a v px 9", blind, blind}, // who sets the value that is there knows whose the key is
		{"set a w xx px 9", blind + unguarded, blind},
		{"set a w px 9 get", blind + unguarded, blind},
		{"setnx a w", "", endless},
		{"getset a w", blind + unguarded + endless, blind + endless},
		{"getdel a", blind + unguarded, blind},
		{"getex a", "", ""},
		{"getex a px 9", blind + unguarded, blind},
		{"getex a persist", blind + unguarded + endless, blind},
		{"getex a; getdel a", "", ""},
		{"pexpire a 9; get a", blind + unguarded, blind}, // too late
		{"del a", blind + unguarded, blind},
		{"get a; del a", "", ""},
		{"exists a; del a", unguarded, ""},
		{"delex a ifeq v", "", ""},
		{"delifeq a x", "", ""},
		{"pexpire a 9", blind + unguarded, blind},
		{"get a; pexpire a 9 gt", readTTL, ""},
		{"get a; persist a", readTTL + endless, ""},
		{"set a w nx px 9; pexpire a 5", unguarded, ""},
		{"setnx a w; pexpire a 5", unguarded, ""},
		{"msetnx a w b w", "", endless},
		{"mset a w b w", blind + unguarded + endless, blind + endless},
		{"incr a", "", endless},
		{"incr a; pexpire a 9", unguarded, ""}, // that it is no number says nothing
		{"hset a f v", "", endless},
		{"hset a f v; pexpire a 9", unguarded, ""}, // of a wrong type nothing was read
		{"hget a f; del a", unguarded, ""},
		{"hdel a f", "", ""},
		{"zadd a 1 m", "", endless},
		{"sadd a m; pttl a", readTTL, readTTL + endless},
		{"mget a b; del a", "", ""},
		{"set a w get px 9; del a", blind + unguarded, blind},
		{"del a; setnx a v", blind + unguarded + endless, blind + endless},
		{"delex a ifeq v; set a w px 9; pexpire a 8", "", ""},
	} {
		for i, state := range []redlock.State{{Found: true, Type: "string", Value: "v", TTL: time.Second}, absent} {
			space := testSpace([]string{"a", "b"}, state, absent)
			run(t, space, test.lines)
			o, got := space.Outcome(), ""
			for _, flag := range []struct {
				name string
				set  bool
			}{{readTTL, o.ReadTTL}, {blind, o.Blind}, {unguarded, len(o.Unguarded) > 0}, {endless, o.Endless != nil}} {
				if flag.set {
					got += flag.name
				}
			}
			if want := []string{test.held, test.absent}[i]; got != want {
				t.Errorf("%s on %q: got %q, want %q", test.lines, state.Value, got, want)
			}
		}
	}
}

// Goal: a command that assumes what its key holds needs no reading. Method: on what it assumes, its run can be committed unread; on any
// other state it changes nothing and gives the reply that it has for being denied, or has none.
func TestAssumed(t *testing.T) {
	for line, want := range map[string]string{
		"set a w nx px 9": "absent", "set a w nx px 9 get": "absent", "set a w nx": "absent", "setnx a w": "absent", "msetnx a w": "absent",
		"set a w ifeq v px 9": "v", "set a w ifeq v px 9 get": "v", "delex a ifeq v": "v", "delifeq a v": "v",
		"set a w ifeq v keepttl": "", "set a w px 9": "", "set a w xx px 9": "", "set a w ifne v px 9": "", "setex a 9 w": "", "getset a w": "",
		"delex a": "", "delex a ifne v": "", "del a": "", "getdel a": "", "pexpire a 9": "", "persist a": "", "get a": "", "pttl a": "", "exists a": "",
	} {
		words := strings.Fields(line)
		c, refusal := Parse(words[0], words[1:])
		if refusal != "" {
			t.Fatalf("%s: %s", line, refusal)
		}
		assumed, got := c.Assumed(1), ""
		if assumed != nil {
			if got = assumed[0].Value; !assumed[0].Found {
				got = "absent"
			}
		}
		if got != want {
			t.Errorf("%s: assumes %q, want %q", line, got, want)
		}
		if assumed == nil {
			if c.Denied() != nil {
				t.Errorf("%s: assumes nothing, and has the reply %v for being denied", line, c.Denied())
			}
			continue
		}
		for _, state := range []redlock.State{assumed[0], absent, {Found: true, Type: "string", Value: "another", TTL: time.Second}} {
			space := testSpace(c.Keys(), state)
			space.DefaultTTL = time.Second
			reply, err := space.Do(c)
			o := space.Outcome()
			switch {
			case err != nil:
				t.Errorf("%s: %v", line, err)
			case state.Found == assumed[0].Found && state.Value == assumed[0].Value:
				if !o.Writes || o.ReadTTL || o.Blind || len(o.Unguarded) > 0 || o.Endless != nil {
					t.Errorf("%s on what it assumes: got %+v", line, o)
				}
			case o.Writes || c.Denied() != nil && !reflect.DeepEqual(*c.Denied(), reply):
				t.Errorf("%s on %+v: got %+v, %+v, want the reply %+v", line, state, reply, o, c.Denied())
			}
		}
	}
}

// Commands may name more keys than the run was given, up to a bound. These are taken to be absent, and listed.
func TestMissingKeys(t *testing.T) {
	space := testSpace([]string{"a"}, redlock.State{Found: true, Type: "string", Value: "v", TTL: time.Second})
	space.KeysMax = 3
	run(t, space, "exists b a c; set b w nx px 9; get b; msetnx c w a w")
	if got := space.Outcome().Missing; !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("missing: got %q, want b and c", got)
	}
	if reply, _ := space.Call("mget", []string{"c", "b", "a"}); len(reply.Elems) != 3 || reply.Elems[1].Text != "w" || reply.Elems[2].Text != "v" {
		t.Errorf("MGET: got %+v", reply)
	}
	_, err := space.Call("get", []string{"d"})
	if unknown := (*UnknownKeyError)(nil); !errors.As(err, &unknown) || unknown.Key != "d" {
		t.Errorf("a fourth key: got %v", err)
	}
}

// A name that is none of the run's keys ends the run, and changes nothing of it before.
func TestUnknownKey(t *testing.T) {
	space := testSpace([]string{"a"}, redlock.State{Found: true, Type: "string", Value: "v", TTL: time.Second})
	_, err := space.Call("del", []string{"a", "b"})
	if unknown := (*UnknownKeyError)(nil); !errors.As(err, &unknown) || unknown.Key != "b" || len(space.Outcome().Changes) != 0 {
		t.Errorf("got %v, %+v", err, space.Outcome())
	}
}
