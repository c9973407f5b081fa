package keyspace

// Goal: what commands of a client have done is committed as one, guarded by all that their replies tell. Method: tables.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redlockd/redlock"
)

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
		{"pexpire a 0", ":1", "a v delete"},
		{"del a; setnx a v", ":1 :1", "a v expire 20s"},
		{"setnx b w; del b", ":1 :1", ""},
		{"setnx b w; get a", ":1 $v", "b absent set w 20s"},
	} {
		space := New(keys, states, time.UnixMilli(1_700_000_000_123))
		space.KeepEnded, space.DefaultTTL = true, 20*time.Second
		var replies []string
		for _, line := range strings.Split(test.lines, "; ") {
			words := strings.Fields(line)
			command, refusal := Parse(words[0], words[1:])
			if refusal != "" {
				t.Fatalf("%s: %s", line, refusal)
			}
			r, err := space.Do(command)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			replies = append(replies, [...]string{"nil", "+", "-", fmt.Sprint(":", r.Int), "$" + r.Text}[r.Kind])
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
