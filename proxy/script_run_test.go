// Goal: scripts give, on every state of their key, the reply that their library expects, the writes that a lock needs, and
// what a commit must know of the run. Method: shapes of scripts on a key that is absent (A), held by the caller's token (M), and
// held by another's (O). Here are those of which a commit must know something; the others are libraryScripts, which are
// compared with a Redis.
package proxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/keyspace"
	"redlockd/redlock"
	"redlockd/redlock/resp"
	"redlockd/redlock/sandbox"
)

var scriptNow = time.UnixMilli(1_700_000_000_123)

// unhurried are the usual limits, and time for a machine that has much else to do.
var unhurried = sandbox.Limits{Time: time.Minute}

var scriptTable = newCommandTable(commandRows)

// scriptKey is what a script is run on: one of its KEYS, and the state that it is assumed to be in.
type scriptKey struct {
	name  string
	held  bool // the key exists, with value
	value string
	ttl   int64 // ms that are left; 0: no TTL
}

// runOnKeys runs a script on keys, which are its KEYS, and argv.
func runOnKeys(script *sandbox.Script, keys []scriptKey, argv []string, now time.Time) outcome {
	var names []string
	var states []redlock.State
	for _, k := range keys {
		st := redlock.State{Type: "none"}
		if k.held {
			st = redlock.State{Found: true, Type: "string", Value: k.value, TTL: -1}
			if k.ttl > 0 {
				st.TTL = time.Duration(k.ttl) * time.Millisecond
			}
		}
		names, states = append(names, k.name), append(states, st)
	}
	space := keyspace.New(names, states, now)
	space.Random, space.KeysMax = noNonce, scriptKeysMax
	return runScript(script, names, &scriptCaller{table: scriptTable, space: space, now: now}, argv, unhurried)
}

// noNonce makes all nonces the same, so that what is changed alike is the same.
func noNonce(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// collectionOf is what a key holds after one command, HSET or SADD or ZADD.
func collectionOf(name string, args ...string) string {
	space := keyspace.New([]string{"k"}, []redlock.State{{Type: "none"}}, scriptNow)
	space.Random = noNonce
	if r, err := space.Call(name, append([]string{"k"}, args...)); err != nil || r.Kind != resp.Int {
		panic(name)
	}
	return space.Outcome().Changes[0].NewValue
}

// runOn runs a source on keys and argv.
func runOn(t testing.TB, source string, keys []scriptKey, argv ...string) outcome {
	t.Helper()
	script, err := sandbox.Compile(source)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return runOnKeys(script, keys, argv, scriptNow)
}

// String shows the reply, the writes and what was learned, in short: "1 [del k] value".
func (o outcome) String() string {
	if o.refused != nil {
		return "refused: " + o.refused.Error()
	}
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(strings.ReplaceAll(string(o.reply.AppendTo(nil, 2)), "\r\n", " "), " "))
	for i := range o.Changes {
		ch := &o.Changes[i]
		if ch.Do == redlock.Keep {
			continue
		}
		fmt.Fprintf(&b, " [%s %s", map[redlock.Do]string{redlock.Set: "set", redlock.Delete: "del", redlock.Expire: "expire"}[ch.Do], ch.Resource)
		if ch.Do == redlock.Set {
			b.WriteString("=" + ch.NewValue)
		}
		if ch.TTL != 0 {
			fmt.Fprintf(&b, " %d", ch.TTL.Milliseconds())
		}
		if slices.ContainsFunc(o.Unguarded, func(u keyspace.Unguarded) bool { return u.Key == ch.Resource }) {
			b.WriteString(" unguarded")
		}
		if ch == o.Endless {
			b.WriteString(" endless")
		}
		b.WriteString("]")
	}
	for _, m := range o.published {
		fmt.Fprintf(&b, " <%s %s>", m.channel, m.payload)
	}
	if o.ReadTTL {
		b.WriteString(" ttl")
	}
	if o.Blind {
		b.WriteString(" blind")
	}
	return b.String()
}

func TestScriptShapes(t *testing.T) {
	const extendIfMine = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("%s", KEYS[1], ARGV[2]%s) else return 0 end`
	for _, c := range []struct {
		shape, source string
		argv          []string
		a, m, o       string // the reply and the writes when the key is absent, mine, another's
	}{
		{"R1 compare-and-delete", `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`, nil,
			":0", ":1 [del k]", ":0"},
		{"R5 with publish", `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('UNLINK', KEYS[1]) redis.call('PUBLISH', 'unlocked:' .. KEYS[1], ARGV[1]) return 1 end`, nil,
			"$-1", ":1 [del k] <unlocked:k mine>", "$-1"},

		{"E1 pexpire", fmt.Sprintf(extendIfMine, "pexpire", ""), []string{"5000"}, ":0", ":1 [expire k 5000]", ":0"},
		{"E1 pexpireat", fmt.Sprintf(extendIfMine, "pexpireat", ""), []string{"1700000005123"}, ":0", ":1 [expire k 5000]", ":0"},
		{"E1 GT", fmt.Sprintf(extendIfMine, "pexpire", `, "GT"`), []string{"50000"}, ":0", ":1 [expire k 50000] ttl", ":0"},
		{"E1 GT, too short", fmt.Sprintf(extendIfMine, "pexpire", `, "GT"`), []string{"5"}, ":0", ":0 ttl", ":0"},
		{"E1 with 0 releases", fmt.Sprintf(extendIfMine, "pexpire", ""), []string{"0"}, ":0", ":1 [del k]", ":0"},
		{"E5 tuple", `local v, left = redis.call('get', KEYS[1]), redis.call('pttl', KEYS[1]) if v ~= ARGV[1] then return {-1, left} end
			if left > tonumber(ARGV[3]) then return {0, left} end redis.call('pexpire', KEYS[1], ARGV[2]) return {1, left}`, []string{"5000", "60000"},
			"*2 :-1 :-2", "*2 :1 :20000 [expire k 5000] ttl", "*2 :-1 :20000 ttl"},
		{"E5 minimum", `local v, left = redis.call('get', KEYS[1]), redis.call('pttl', KEYS[1]) if v ~= ARGV[1] then return {-1, left} end
			if left > tonumber(ARGV[3]) then return {0, left} end redis.call('pexpire', KEYS[1], ARGV[2]) return {1, left}`, []string{"5000", "100"},
			"*2 :-1 :-2", "*2 :0 :20000 ttl", "*2 :-1 :20000 ttl"},
		{"E6 inverted", `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 1 elseif redis.call('ttl', KEYS[1]) < 0 then return 2 else redis.call('expire', KEYS[1], ARGV[2]) return 0 end`, []string{"5"},
			":1", ":0 [expire k 5000] ttl", ":1"},
		{"E7 persist when 0", `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end if tonumber(ARGV[2]) > 0 then return redis.call('expire', KEYS[1], ARGV[2]) else return redis.call('persist', KEYS[1]) end`, []string{"0"},
			":0", ":1 [expire k endless] ttl", ":0"},
		{"E8 without a token", `local left = redis.call('pttl', KEYS[1]) if left < 0 then return 0 end redis.call('pexpire', KEYS[1], left + tonumber(ARGV[2])) return 1`, []string{"1000"},
			":0", ":1 [expire k 21000 unguarded] ttl", ":1 [expire k 21000 unguarded] ttl"},

		{"A1 set nx px", `return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])`, []string{"5000"},
			"+OK [set k=mine 5000]", "$-1", "$-1"},
		{"A1 setex", `if redis.call('exists', KEYS[1]) < 1 then return redis.call('setex', KEYS[1], ARGV[2], ARGV[1]) end return nil`, []string{"5"},
			"+OK [set k=mine 5000]", "$-1", "$-1"},
		{"A1 with get", `local r = redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) if r then return r end return redis.call('get', KEYS[1]) and nil`, []string{"5000"},
			"+OK [set k=mine 5000]", "$-1", "$-1"},
		{"A2 prefix", `local n = tonumber(ARGV[3]) local v = redis.call('getrange', KEYS[1], 0, n - 1) if v == '' or v == string.sub(ARGV[1], 1, n) then return redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) end`, []string{"5000", "3"},
			"+OK [set k=mine 5000]", "+OK [expire k 5000]", "$-1"},

		{"F1 take over", `local r = redis.call('set', KEYS[1], ARGV[1], 'XX', 'PX', ARGV[2]) if not r then r = redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) end return r`, []string{"5000"},
			"+OK [set k=mine 5000] blind", "+OK [expire k 5000] blind", "+OK [set k=mine 5000 unguarded] blind"},
		{"F2 delete", `return redis.call('del', KEYS[1])`, nil, ":0 blind", ":1 [del k unguarded] blind", ":1 [del k unguarded] blind"},
		{"F2 of what exists", `if redis.call('exists', KEYS[1]) == 1 then redis.call('del', KEYS[1]) redis.call('publish', KEYS[1], '') return 1 end return 0`, nil,
			":0", ":1 [del k unguarded] <k >", ":1 [del k unguarded] <k >"},

		{"I1 value and ttl", `return {redis.call('get', KEYS[1]), redis.call('pttl', KEYS[1])}`, nil,
			"*2 $-1 :-2", "*2 $4 mine :20000 ttl", "*2 $5 other :20000 ttl"},
		{"I2 ttl if mine", `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('ttl', KEYS[1]) end return -3`, nil,
			":-3", ":20 ttl", ":-3"},
		{"P1 probe", `redis.call('SET', KEYS[1], 'x', 'PX', 1) return redis.call('EXISTS', KEYS[1])`, nil,
			":1 [set k=x 1] blind", ":1 [set k=x 1 unguarded] blind", ":1 [set k=x 1 unguarded] blind"},

		{"TIME", `local t = redis.call('time') return redis.call('pexpireat', KEYS[1], t[1] * 1000 + 500) .. t[2]`, nil,
			"$7 0123000 blind", "$7 1123000 [expire k 377 unguarded] blind", "$7 1123000 [expire k 377 unguarded] blind"},
		{"compare-and-set of 8.4", `return redis.call('set', KEYS[1], 'new', 'IFEQ', ARGV[1], 'PX', 5000)`, nil, "$-1", "+OK [set k=new 5000]", "$-1"},
		{"DELEX", `return redis.call('delex', KEYS[1], 'IFEQ', ARGV[1])`, nil, ":0", ":1 [del k]", ":0"},
		{"DELIFEQ", `return redis.call('delifeq', KEYS[1], ARGV[1])`, nil, ":0", ":1 [del k]", ":0"},
		{"SET KEEPTTL", `if redis.call('get', KEYS[1]) then return redis.call('set', KEYS[1], 'new', 'KEEPTTL') end`, nil,
			"$-1", "+OK [set k=new 20000] ttl", "+OK [set k=new 20000] ttl"},
		{"same TTL", `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 20000) end`, nil,
			"$-1", ":1 [expire k 20000]", "$-1"},
		{"set to a time that has passed", `return redis.call('set', KEYS[1], ARGV[1], 'PXAT', 1)`, nil,
			"+OK blind", "+OK [del k] blind", "+OK [del k unguarded] blind"},
		{"set and undone", `if redis.call('set', KEYS[1], ARGV[1], 'NX') then redis.call('del', KEYS[1]) return 1 end`, nil, ":1", "$-1", "$-1"},
	} {
		argv := append([]string{"mine"}, c.argv...)
		for _, state := range []struct {
			name, want string
			key        scriptKey
		}{
			{"absent", c.a, scriptKey{name: "k"}},
			{"mine", c.m, scriptKey{name: "k", held: true, value: "mine", ttl: 20000}},
			{"other", c.o, scriptKey{name: "k", held: true, value: "other", ttl: 20000}},
		} {
			if got := runOn(t, c.source, []scriptKey{state.key}, argv...).String(); got != state.want {
				t.Errorf("%s, %s:\n got %s\nwant %s", c.shape, state.name, got, state.want)
			}
		}
	}
}

// TestScriptGuards: what was learned of a key is compared, and nothing else.
func TestScriptGuards(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"return 1", ""},
		{"return redis.call('get', KEYS[1])", "k"},
		{"return redis.call('exists', KEYS[1])", "k"},
		{"return redis.call('pttl', KEYS[1])", "k ttl"},
		{"return redis.call('strlen', KEYS[2])", "l"},
		{"return redis.call('del', KEYS[1])", "k"},
		{"return redis.call('set', KEYS[1], 'x')", "k"},
		{"return redis.call('set', KEYS[1], 'x', 'NX')", "k"},
		{"return redis.call('mget', KEYS[2], KEYS[1])", "k l"},
	} {
		o := runOn(t, c.source, []scriptKey{{name: "k", held: true, value: "v"}, {name: "l"}})
		var got []string
		for _, ch := range o.Changes {
			got = append(got, ch.Resource)
		}
		if o.ReadTTL {
			got = append(got, "ttl")
		}
		if got := strings.Join(got, " "); got != c.want || o.refused != nil {
			t.Errorf("%s: got %s, %v, want %s", c.source, got, o.refused, c.want)
		}
	}
}

// TestScriptCommands: corners of single commands that scripts at random seldom meet. Redis's replies are known.
func TestScriptCommands(t *testing.T) {
	for _, c := range []struct{ call, want string }{
		{"'getrange', 'k', -2, -9", "$0"}, // not the first byte, where both would be cut off to
		{"'getrange', 'k', -9, -2", "$1 1"},
		{"'getrange', 'k', 1, 9", "$1 0"},
		{"'ttl', 'k'", ":2"}, // of 1500 ms
		{"'ttl', 'l'", ":1"}, // of 1499 ms
		{"'pttl', 'l'", ":1499"},
		{"'expiretime', 'k'", ":1700000002"},
		{"'pexpiretime', 'k'", ":1700000001623"},
	} {
		o := runOn(t, "return redis.call("+c.call+")", []scriptKey{{name: "k", held: true, value: "10", ttl: 1500}, {name: "l", held: true, ttl: 1499}})
		if got := strings.TrimSpace(strings.TrimSuffix(o.String(), " ttl")); got != c.want {
			t.Errorf("%s: got %q, want %q", c.call, got, c.want)
		}
	}
}

// EVAL refuses such keys before it, and this holds for every other caller that runs a script.
func TestScriptOnAReservedKey(t *testing.T) {
	if o := runOn(t, "return 1", []scriptKey{{name: "redlockd:epoch"}}); o.refused == nil || !strings.Contains(o.refused.Error(), "redlockd's own") {
		t.Errorf("got %v, want it refused", o)
	}
}

func BenchmarkScriptRelease(b *testing.B) {
	script, err := sandbox.Compile(`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`)
	if err != nil {
		b.Fatal(err)
	}
	const token = "0123456789abcdef0123"
	keys, argv := []string{"lock:invoices"}, []string{token}
	states := []redlock.State{{Found: true, Type: "string", Value: token, TTL: 30 * time.Second}}
	b.ReportAllocs()
	for b.Loop() {
		if o := runScript(script, keys, &scriptCaller{table: scriptTable, space: keyspace.New(keys, states, scriptNow), now: scriptNow}, argv, sandbox.Limits{}); o.reply.Int != 1 || o.refused != nil {
			b.Fatal(o)
		}
	}
}
