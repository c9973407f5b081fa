package proxy

// Goal: the right to look at locks is no right to end them: a user without the group "lock" is shown no token, and cannot find one out by guessing.
// Method: every command of the table that such a user may run, on whatever can hold a token; the bytes of all replies are searched.

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock"
	"redlockd/redlock/redisproc"
)

// lookers are users that may look, with one that may lock beside them.
func lookers(o *Options) {
	o.Users = []access.User{
		{Name: "owner", Password: "o", Commands: []string{"all"}},
		{Name: "app", Password: "a", Commands: []string{"lock", "read"}, Resources: []string{"*"}},
		{Name: "reader", Password: "r", Commands: []string{"read"}},
		{Name: "confined", Password: "c", Commands: []string{"read"}, Resources: []string{"*"}},
		{Name: "operator", Password: "o", Commands: []string{"read", "admin"}},
	}
}

func TestReaderGetsNoToken(t *testing.T) {
	srv := serve(t, lookers)
	owner, reader, app := srv.dialAs("owner"), srv.dialAs("reader"), srv.dialAs("app")
	owner.do("SET", "r", token, "NX", "PX", "20000").is("+OK")
	got := strings.Trim(reader.do("GET", "r").text, `"`)
	app.do("UNLOCK", "r", got).is(":0")
	app.do("HOLD", "r", got, "20000").is("*nil")
	// It is what LOCKINFO shows of a lock, so that the two can be compared.
	if want := redlock.TokenDigest(srv.opts.Engine, token); got != want {
		t.Errorf("GET answers %s, want the digest %s", got, want)
	}
	reader.do("LOCKINFO", "r").matches(`\["resource" "r" .* "token-digest" "` + got + `" "votes" .*`)
	for _, user := range []string{"confined", "operator"} {
		srv.dialAs(user).do("GET", "r").is(`"` + got + `"`)
	}
	app.do("GET", "r").is(`"` + token + `"`)
	reader.do("MULTI").is("+OK")
	reader.do("MGET", "r", "free").is("+QUEUED")
	reader.do("EXEC").is(`[["` + got + `" $nil]]`)
	app.do("UNLOCK", "r", token).is(":1")
}

// What a reply says of a guess would do as well as the token: a length, whether a hash has this field, what rank a member has.
func TestReaderLearnsNothingByGuessing(t *testing.T) {
	srv := serve(t, lookers)
	owner, reader := srv.dialAs("owner"), srv.dialAs("reader")
	long := strings.Repeat("x", 100)
	owner.do("SET", "string", long, "PX", "20000", "NX").is("+OK")
	owner.do("EVAL", "redis.call('hset', KEYS[1], ARGV[1], '1', 'owner', ARGV[1]) redis.call('pexpire', KEYS[1], 20000)", "1", "hash", long).is("$nil")
	owner.do("EVAL", "redis.call('sadd', KEYS[1], ARGV[1]) redis.call('pexpire', KEYS[1], 20000)", "1", "set", long).is("$nil")
	owner.do("EVAL", "redis.call('zadd', KEYS[1], 7, ARGV[1]) redis.call('pexpire', KEYS[1], 20000)", "1", "zset", long).is("$nil")
	owner.do("EVAL", "redis.call('incr', KEYS[1]) redis.call('pexpire', KEYS[1], 20000)", "1", "counter").is("$nil")
	digest := func(text string) string { return redlock.TokenDigest(srv.opts.Engine, text) }
	for _, tc := range []struct {
		command     []string
		owner, want string
	}{
		{[]string{"STRLEN", "string"}, ":100", ":16"},
		{[]string{"HSTRLEN", "hash", "owner"}, ":100", ":0"},
		{[]string{"HSTRLEN", "hash", digest("owner")}, ":0", ":16"},
		{[]string{"HEXISTS", "hash", long}, ":1", ":0"},
		{[]string{"HGET", "hash", long}, `"1"`, "$nil"},
		{[]string{"HGET", "hash", digest(long)}, "$nil", `"` + digest("1") + `"`},
		{[]string{"SISMEMBER", "set", long}, ":1", ":0"},
		{[]string{"SMISMEMBER", "set", long, "y"}, "[:1 :0]", "[:0 :0]"},
		{[]string{"ZSCORE", "zset", long}, `"7"`, "$nil"},
		{[]string{"ZSCORE", "zset", digest(long)}, "$nil", `"7"`},
		{[]string{"ZRANK", "zset", long}, ":0", "$nil"},
		// What tells of no token stays.
		{[]string{"HLEN", "hash"}, ":2", ":2"},
		{[]string{"SCARD", "set"}, ":1", ":1"},
		{[]string{"ZCOUNT", "zset", "6", "8"}, ":1", ":1"},
		{[]string{"EXISTS", "string", "hash"}, ":2", ":2"},
		{[]string{"TYPE", "hash"}, "+hash", "+hash"},
		{[]string{"GET", "counter"}, `"1"`, `"1"`},
	} {
		owner.do(tc.command...).is(tc.owner)
		reader.do(tc.command...).is(tc.want)
	}
	owner.do("SET", "redisson_unlock_latch:x", "0", "PX", "20000", "NX").is("+OK") // a helper of Redisson
	reader.do("GET", "redisson_unlock_latch:x").is(`"0"`)
	owner.do("SET", "other", "0", "PX", "20000", "NX").is("+OK")
	reader.do("GET", "other").is(`"` + digest("0") + `"`)
}

func TestEveryCommandOfAReaderShowsNoToken(t *testing.T) {
	redisproc.NotRaced(t)
	const secret = "Secret-of-the-owner-4711"
	srv := serve(t, lookers)
	owner := srv.dialAs("owner")
	keys := []string{"string", "slots", "slots#0", "held", "mlocked", "field", "value", "member", "scored", "shared"}
	owner.do("SET", "string", secret, "PX", "50000", "NX").is("+OK")
	owner.do("LOCK", "slots", "50000", "TOKEN", secret, "SLOTS", "3").matches(`\["` + secret + `" :\d+ "slots#0"\]`)
	owner.do("LOCK", "held", "50000", "TOKEN", secret+"2", "HOLD", "NOTE", "the note").granted(1, 60000)
	owner.do("MLOCK", "2", "mlocked", "mlocked2", "50000", "TOKEN", secret).granted(1, 50000)
	owner.do("LOCK", "shared", "50000", "TOKEN", secret, "SHARED").granted(1, 50000)
	for _, script := range []string{
		"redis.call('hset', 'field', ARGV[1], '1') redis.call('pexpire', 'field', 50000)",
		"redis.call('hset', 'value', '0', ARGV[1]) redis.call('pexpire', 'value', 50000)",
		"redis.call('sadd', 'member', ARGV[1]) redis.call('pexpire', 'member', 50000)",
		"redis.call('zadd', 'scored', 0, ARGV[1]) redis.call('pexpire', 'scored', 50000)",
	} {
		owner.do("EVAL", script, "0", secret).is("$nil")
	}
	waiter := srv.dialAs("owner")
	waiter.send("LOCK", "string", "50000", "TOKEN", secret+"3", "WAIT", "50000")
	srv.waiting(1)

	// all is what a server sends for these commands, each on a connection of its own, with pushes.
	all := func(user string, proto string, commands ...[]string) string {
		c := srv.dialAs(user)
		c.do("HELLO", proto)
		frames := ""
		for _, command := range append(commands, []string{"QUIT"}) {
			frames += frameOf(command...)
		}
		c.raw(frames)
		c.conn.SetReadDeadline(time.Now().Add(patience))
		b, err := io.ReadAll(c.r)
		if err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatalf("%q: %v", commands, err)
		}
		return string(b)
	}
	var shown []string // the commands that show tokens to who may lock
	for _, cmd := range srv.table.rows {
		name := cmd.fullName()
		u := srv.live().accountNamed("reader").user()
		if cmd.handler == nil || notPermitted(u, cmd, nil) != nil || slices.Contains([]string{"client|reply", "hello", "auth"}, name) { // about the connection itself
			continue
		}
		of := keys
		if cmd.keys == (keySpec{}) {
			of = keys[:1]
		}
		for _, key := range of {
			for _, options := range []bool{false, true} {
				args := arguments(cmd, key, options)
				for _, proto := range []string{"2", "3"} {
					tries := [][][]string{{args}, {{"CLIENT", "TRACKING", "ON"}, args}, {{"PSUBSCRIBE", "*"}, args}, {{"MULTI"}, args, {"EXEC"}}, {{"WATCH", key}, {"MULTI"}, args, {"EXEC"}}}
					for i, commands := range tries {
						if i > 0 && key != "string" {
							break
						}
						for _, user := range []string{"reader", "operator"} {
							if out := all(user, proto, commands...); strings.Contains(out, "ecret") {
								t.Errorf("%s, RESP%s, on %s: %q shows the token:\n%q", user, proto, key, commands, out)
							}
						}
					}
				}
				if out := all("owner", "3", args); strings.Contains(out, secret) && !slices.Contains(shown, name) {
					shown = append(shown, name)
				}
			}
		}
	}
	want := []string{"get", "hgetall", "hget", "hkeys", "hmget", "hvals", "mget", "smembers", "zrange", "zrangebyscore", "zrevrange", "zrevrangebyscore"}
	if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(shown)), want) {
		t.Errorf("who may lock sees tokens by %q, want %q: else this test tries nothing", shown, want)
	}
}

// arguments are some for the command, made of its docs.
func arguments(cmd *command, key string, options bool) []string {
	// What "0" leads to no reply in the place of.
	likely := map[string]string{"stop": "-1", "min": "-inf", "max": "+inf", "channel": "*", "pattern": "*", "glob": "*", "section": "everything", "numkeys": "1"}
	args := strings.Split(cmd.fullName(), "|")
	var add func(list []argDoc)
	add = func(list []argDoc) {
		for _, arg := range list {
			if arg.optional && !options && arg.name != "section" {
				continue
			}
			if arg.token != "" {
				args = append(args, arg.token)
			}
			value, known := likely[arg.name]
			switch {
			case arg.kind == "pure-token":
			case arg.kind == "oneof":
				add(arg.arguments[:1])
			case arg.kind == "block":
				add(arg.arguments)
			case arg.kind == "key":
				args = append(args, key)
			case known:
				args = append(args, value)
			default:
				args = append(args, "0")
			}
		}
	}
	add(cmd.arguments)
	return args
}

// The key of the digests is in the membership, which stands on the masters under names that only redlockd uses.
func TestNobodyReadsTheMembership(t *testing.T) {
	srv := serve(t, lookers)
	c := srv.dialAs("owner")
	for _, command := range [][]string{{"GET", "redlockd:members"}, {"HGETALL", "redlockd:members"}, {"TYPE", "redlockd:members"}, {"WATCH", "redlockd:members"},
		{"EVAL", "return redis.call('hgetall', KEYS[1])", "1", "redlockd:members"}, {"EVAL", "return redis.call('hgetall', 'redlockd:members')", "0"}} {
		c.do(command...).matches("-ERR .*names that begin with redlockd: are (kept for redlockd itself|redlockd's own)")
	}
	lineage, _ := strings.CutPrefix(srv.opts.Engine.Membership().Lineage, "1-")
	for i := range srv.masters {
		if text := srv.onMaster(i, "HGET", "redlockd:members", "v").text; !strings.Contains(text, " 1-") || strings.Contains(text, lineage) {
			t.Errorf("a master shows the membership %s, and people are shown the lineage %s: want that the former does not have the latter", text, lineage)
		}
	}
}
