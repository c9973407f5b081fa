// Goal: a script sees and does here what it sees and does in Redis, and what it is said to have learned is all that its
// doings depend on. Method: random scripts from a grammar of what lock scripts are made of, on random states; once against a
// real redis-server, comparing reply and state, and once against themselves on a state that differs only where nothing
// was read. SCRIPT_SEED=n runs a failed seed again.
package proxy

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/keyspace"
	"redlockd/redlock"
	"redlockd/redlock/redisproc"
	"redlockd/redlock/resp"
	"redlockd/redlock/sandbox"
)

func scriptSeed(t *testing.T) uint64 { return redisproc.Seed(t, "SCRIPT_SEED", rand.Uint64()) }

// scriptGenerator makes random scripts. Their TTLs are odd multiples of 500 s, and what they read of TTLs is divided by
// 1000 s, so that the moment of a run does not show.
type scriptGenerator struct {
	*rand.Rand
	real   bool // only what Redis 7.0 has
	locals int
}

func (g *scriptGenerator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g *scriptGenerator) key() string {
	return g.pick("KEYS[1]", "KEYS[1]", "KEYS[1]", "KEYS[2]", "KEYS[3]")
}

func (g *scriptGenerator) value() string {
	return g.pick("ARGV[1]", "ARGV[1]", "ARGV[2]", "'other'", "''", "1", "ARGV[1] .. 'x'", "KEYS[1]")
}

func (g *scriptGenerator) member() string { return g.pick("ARGV[1]", "ARGV[1]", "ARGV[2]", "'other'") }

// seconds is a TTL, an odd multiple of 500 s, and ms too.
func (g *scriptGenerator) seconds() string { return g.ttl("") }
func (g *scriptGenerator) ms() string      { return g.ttl("000") }

func (g *scriptGenerator) ttl(unit string) string {
	if g.IntN(12) == 0 {
		return g.pick("0", "-1", "'x'", "''", "9223372036854775807", "'9223372036854775807'", "'-9223372036854775808'", "1.5", "'01'")
	}
	return strconv.Itoa((2*g.IntN(9)+1)*500) + unit
}

// end is an absolute time in ms: past, or so far that no relative one reaches it.
func (g *scriptGenerator) end() string {
	return g.pick("1", "4000000500000", "5000000500000", "'x'", "0")
}

func (g *scriptGenerator) lifetime() string {
	switch g.IntN(6) {
	case 0:
		return "'EX', " + g.seconds()
	case 1:
		return g.pick("'PXAT', ", "'pxat', ") + g.end()
	case 2:
		return "'KEEPTTL'"
	default:
		return g.pick("'PX', ", "'px', ") + g.ms()
	}
}

func (g *scriptGenerator) set() string {
	args := []string{"'" + g.pick("SET", "set", "Set") + "'", g.key(), g.value()}
	var options []string
	for range g.IntN(4) {
		conditions := []string{"'NX'", "'nx'", "'XX'", "'GET'", "'NX'"}
		if !g.real {
			conditions = append(conditions, "'IFEQ', "+g.value(), "'IFNE', "+g.value())
		}
		options = append(options, g.pick(append(conditions, g.lifetime(), g.lifetime(), g.lifetime())...))
	}
	if g.IntN(25) == 0 {
		options = append(options, g.pick("'FOO'", "'PX'", "''", "5"))
	}
	return strings.Join(append(args, options...), ", ")
}

// command is the arguments of redis.call. What it answers does not depend on the moment.
func (g *scriptGenerator) command() string {
	k, v := g.key(), g.value()
	all := []string{
		"'get', " + k, "'GET', " + k, "'get', " + k, "'mget', " + k + ", " + g.key(), "'strlen', " + k, "'getrange', " + k + ", " + g.pick("0", "-2", "1", "'x'") + ", " + g.pick("-1", "2", "0", "-9"),
		"'substr', " + k + ", 0, 2", "'exists', " + k, "'exists', " + k + ", " + g.key(), "'type', " + k,
		g.set(), g.set(), g.set(), g.set(), "'setnx', " + k + ", " + v, "'setex', " + k + ", " + g.seconds() + ", " + v, "'psetex', " + k + ", " + g.ms() + ", " + v,
		"'getset', " + k + ", " + v, "'getdel', " + k, "'getex', " + k + ", " + g.pick(g.lifetime(), "'PERSIST'", "'persist', 'PX', 5"), "'getex', " + k,
		"'mset', " + k + ", " + v + ", " + g.key() + ", " + g.value(), "'msetnx', " + k + ", " + v + ", " + g.key() + ", " + g.value(), "'mset', " + k,
		"'del', " + k, "'DEL', " + k + ", " + g.key(), "'unlink', " + k, "'persist', " + k,
		"'pexpire', " + k + ", " + g.renewed("000"), "'PEXPIRE', " + k + ", " + g.ms(), "'expire', " + k + ", " + g.renewed(""),
		"'pexpireat', " + k + ", " + g.end() + g.expireOptions(), "'expireat', " + k + ", " + g.pick("1", "4000000500", "0", "-1") + g.expireOptions(),
		"'hset', " + k + ", " + g.member() + ", " + v, "'hget', " + k + ", " + g.member(), "'hexists', " + k + ", " + g.member(), "'hincrby', " + k + ", " + g.member() + ", " + g.pick("1", "-1", "'x'"),
		"'hdel', " + k + ", " + g.member(), "'hlen', " + k, "'sadd', " + k + ", " + g.member(), "'srem', " + k + ", " + g.member() + ", " + g.member(), "'sismember', " + k + ", " + g.member(), "'scard', " + k,
		"'zadd', " + k + ", " + g.pick("1", "1.5", "'x'", "ARGV[3]", "'INCR', 2", "'XX', 'CH', 9") + ", " + g.member(), "'zscore', " + k + ", " + g.member(), "'zincrby', " + k + ", 0.1, " + g.member(),
		"'zrem', " + k + ", " + g.member(), "'zremrangebyscore', " + k + ", '-inf', 1", "'zcard', " + k, "'zrange', " + k + ", 0, -1, 'WITHSCORES'", "'zrangebyscore', " + k + ", 0, '+inf'",
		g.pick("'incr', ", "'decr', ") + k, "'incrby', " + k + ", 3",
		"'publish', 'ch', " + v, "'echo', " + v, "'ping'", "'ping', " + v, "'nosuchcommand'", "'get'", "'get', " + k + ", 1",
	}
	if !g.real {
		all = append(all, "'delex', "+k+", 'IFEQ', "+v, "'delifeq', "+k+", "+v, "'delex', "+k, "'delex', "+k+", 'ifne', "+v)
	}
	return all[g.IntN(len(all))]
}

// renewed is a TTL and options. One that is compared (GT, LT) is no TTL of a state: between that and the run the clock moves.
func (g *scriptGenerator) renewed(unit string) string {
	ttl, options := g.ttl(unit), g.expireOptions()
	if n, err := strconv.Atoi(strings.TrimSuffix(ttl, unit)); err == nil && n >= 500 && n < 10_000 && options != "" {
		ttl = strconv.Itoa(n+250) + unit
	}
	return ttl + options
}

func (g *scriptGenerator) expireOptions() string {
	if g.IntN(3) > 0 {
		return ""
	}
	return ", " + g.pick("'NX'", "'XX'", "'GT'", "'lt'", "'XX', 'GT'", "'NX', 'GT'", "'GT', 'LT'", "'FOO'")
}

func (g *scriptGenerator) expr() string {
	switch g.IntN(12) {
	case 0:
		return "math.floor(redis.call('" + g.pick("pttl", "PTTL", "pexpiretime") + "', " + g.key() + ") / 1000000)"
	case 1:
		return "math.floor(redis.call('" + g.pick("ttl", "expiretime") + "', " + g.key() + ") / 1000)"
	case 2:
		return "#redis.call('time')"
	case 3:
		return "redis.pcall(" + g.command() + ")"
	case 4:
		if g.locals > 0 {
			return "v" + strconv.Itoa(g.IntN(g.locals))
		}
		return "tonumber(ARGV[3]) + 1"
	}
	return "redis.call(" + g.command() + ")"
}

func (g *scriptGenerator) condition() string {
	switch g.IntN(6) {
	case 0:
		return g.expr()
	case 1:
		return "not " + g.expr()
	case 2:
		return "redis.call('exists', " + g.key() + ") == " + g.pick("0", "1")
	case 3:
		return "(redis.call('get', " + g.key() + ") or ''):sub(1, 2) == 'mi'"
	}
	return "redis.call('get', " + g.key() + ") " + g.pick("==", "~=") + " " + g.value()
}

func (g *scriptGenerator) block(depth int) string {
	var b strings.Builder
	locals := g.locals
	for range 1 + g.IntN(3) {
		switch n := g.IntN(8); {
		case n == 0 && depth < 3:
			b.WriteString("if " + g.condition() + " then " + g.block(depth+1) + " else " + g.block(depth+1) + " end ")
		case n == 1 && depth < 3:
			b.WriteString("if " + g.condition() + " then " + g.block(depth+1) + " end ")
		case n == 2:
			e := g.expr()
			b.WriteString("local v" + strconv.Itoa(g.locals) + " = " + e + " ")
			g.locals++
		case n == 3 && depth < 2:
			b.WriteString("for i, k in ipairs(KEYS) do if redis.call('get', k) " + g.pick("==", "~=") + " ARGV[1] then r[#r+1] = redis.call(" +
				strings.ReplaceAll(g.command(), "KEYS[1]", "k") + ") or false end end ")
		case n == 4 && depth > 0:
			b.WriteString("do return " + g.pick(g.expr(), "r", "{ok='DONE'}", "redis.error_reply('NO way')", "nil", "0", "-1") + " end ")
		case n == 5:
			b.WriteString("r[#r+1] = " + g.expr() + " or 'no' ")
		default:
			b.WriteString("r[#r+1] = redis." + g.pick("call", "pcall", "pcall") + "(" + g.command() + ") or false ")
		}
	}
	g.locals = locals
	return b.String()
}

func (g *scriptGenerator) script() string {
	g.locals = 0
	return "local r = {} " + g.block(0) + "return r"
}

func (g *scriptGenerator) state() []scriptKey {
	keys := []scriptKey{{name: "ka"}, {name: "kb"}, {name: "kc"}}
	for i := range keys {
		g.change(&keys[i])
	}
	return keys
}

func (g *scriptGenerator) change(k *scriptKey) {
	k.held, k.value, k.ttl = g.IntN(3) > 0, "", 0
	if k.held {
		k.value = g.pick("mine", "mine", "mine", "mine", "other", "", "10", someHash, someHash, someSet, someZset)
		if g.IntN(4) > 0 {
			k.ttl = int64(2*g.IntN(9)+1)*500_000 + 100_000 // and never one that a script sets, as some ms of it pass there
		}
	}
}

// What keys hold that hold no string, as the masters have it.
var (
	someHash = collectionOf("hset", "mine", "1", "other", "x")
	someSet  = collectionOf("sadd", "mine")
	someZset = collectionOf("zadd", "1", "mine", "2.5", "other")
)

// making is the command that gives a Redis a key with this value.
func making(k scriptKey) []string {
	switch k.value {
	case someHash:
		return []string{"hset", k.name, "mine", "1", "other", "x"}
	case someSet:
		return []string{"sadd", k.name, "mine"}
	case someZset:
		return []string{"zadd", k.name, "1", "mine", "2.5", "other"}
	}
	return []string{"set", k.name, k.value}
}

// looks are what a key is looked at with after a run, in Redis and here: they tell all that it holds, but for the end of it.
func looks(k string) [][]string {
	return [][]string{{"type", k}, {"get", k}, {"hmget", k, "mine", "new", "other"}, {"smismember", k, "mine", "new", "other"}, {"zrange", k, "0", "-1", "withscores"},
		{"hlen", k}, {"scard", k}}
}

// after applies the writes of an outcome.
func after(keys []scriptKey, o outcome) []scriptKey {
	keys = slices.Clone(keys)
	for _, ch := range o.Changes {
		k := &keys[slices.IndexFunc(keys, func(k scriptKey) bool { return k.name == ch.Resource })]
		switch ch.Do {
		case redlock.Set:
			k.held, k.value, k.ttl = true, ch.NewValue, ch.TTL.Milliseconds()
		case redlock.Delete:
			k.held, k.value, k.ttl = false, "", 0
		case redlock.Expire:
			k.ttl = ch.TTL.Milliseconds()
		}
	}
	return keys
}

var differentialArgv = []string{"mine", "new", "3"}

func TestScriptDifferential(t *testing.T) {
	redis := dialTo(t, startRedis(t).Addr)
	seed := scriptSeed(t)
	g := &scriptGenerator{Rand: rand.New(rand.NewPCG(seed, 0)), real: true}
	refused, wrote, failed := 0, 0, 0
	rounds := redisproc.SomeOf(1000, 4000)
	for range rounds {
		source, keys := g.script(), g.state()
		script, err := sandbox.Compile(source)
		if err != nil {
			t.Fatalf("SCRIPT_SEED=%d: %s: %v", seed, source, err)
		}
		send := frameOf("flushall")
		for _, k := range keys {
			made, ends := frameOf("ping"), frameOf("ping")
			if k.held {
				made = frameOf(making(k)...)
			}
			if k.held && k.ttl != 0 {
				ends = frameOf("pexpire", k.name, strconv.FormatInt(k.ttl, 10))
			}
			send += made + ends
		}
		send += frameOf(append([]string{"eval", source, "3", "ka", "kb", "kc"}, differentialArgv...)...)
		for _, k := range keys {
			send += frameOf("pttl", k.name)
			for _, look := range looks(k.name) {
				send += frameOf(look...)
			}
		}
		perKey := 1 + len(looks(""))
		ask := func() []string {
			redis.raw(send)
			replies, err := readReplies(redis.r, 1+2*len(keys)+1+perKey*len(keys))
			if err != nil {
				t.Fatal(err)
			}
			return replies[1+2*len(keys):]
		}
		run := func() (o outcome, reply string) {
			if o = runOnKeys(script, keys, differentialArgv, time.Now()); o.refused != nil {
				return o, ""
			}
			reply, err := readReply(bufio.NewReader(bytes.NewReader(o.reply.AppendTo(nil, 2))))
			if err != nil {
				t.Fatal(err)
			}
			return o, reply
		}
		o, got := run()
		if o.refused != nil {
			refused++
			continue
		}
		if o.Writes {
			wrote++
		}
		if o.reply.Kind == resp.Error {
			failed++
		}
		replies := ask()
		// Redis 7.0 looks at the clock with every call: when a ms passes within the script, GT finds the same TTL a longer one. And a moment
		// in which a TTL ends, divided by 1000 s, may be another one there than here.
		for tries := 0; replies[0] != got && tries < 20; tries++ {
			o, got = run()
			replies = ask()
		}
		if want := replies[0]; got != want {
			t.Fatalf("SCRIPT_SEED=%d: on %+v:\n%s\n ours %q\nRedis %q", seed, keys, source, got, want)
		}
		for i, k := range after(keys, o) {
			left, state := int64(-2), redlock.State{Type: "none"}
			if k.held {
				state = redlock.State{Found: true, Type: "string", Value: k.value}
				if left = -1; k.ttl != 0 {
					left = k.ttl
				}
			}
			found := replies[1+perKey*i : 1+perKey*(i+1)]
			ms, _ := strconv.ParseInt(strings.TrimPrefix(found[0], ":"), 10, 64)
			if near := ms == left || ms > 0 && left > 0 && max(ms-left, left-ms) < 50_000; !near {
				t.Fatalf("SCRIPT_SEED=%d: on %+v:\n%s\nwrites %v\nkey %s\n ours %d ms\nRedis %d ms", seed, keys, source, o, k.name, left, ms)
			}
			space := keyspace.New([]string{k.name}, []redlock.State{state}, time.Now())
			for j, look := range looks(k.name) {
				reply, err := space.Call(look[0], look[1:])
				if err != nil {
					t.Fatal(err)
				}
				got, err := readReply(bufio.NewReader(bytes.NewReader(reply.AppendTo(nil, 2))))
				if err != nil || got != found[1+j] {
					t.Fatalf("SCRIPT_SEED=%d: on %+v:\n%s\nwrites %v\n%q\n ours %s\nRedis %s", seed, keys, source, o, look, got, found[1+j])
				}
			}
		}
	}
	t.Logf("%d scripts: %d wrote, %d failed, %d refused", rounds, wrote, failed, refused)
	if refused > 0 || wrote < rounds/4 || failed > rounds/2 {
		t.Errorf("the scripts do not say much")
	}
}

// TestScriptGuardsSuffice: a state that meets all guards of an outcome gives the same outcome. It is what lets a commit prove the run.
func TestScriptGuardsSuffice(t *testing.T) {
	seed := scriptSeed(t)
	g := &scriptGenerator{Rand: rand.New(rand.NewPCG(seed, 0))}
	changed, rounds := 0, redisproc.SomeOf(1000, 6000)
	for range rounds {
		source, keys := g.script(), g.state()
		script, err := sandbox.Compile(source)
		if err != nil {
			t.Fatalf("SCRIPT_SEED=%d: %s: %v", seed, source, err)
		}
		o := runOnKeys(script, keys, differentialArgv, scriptNow)
		others := slices.Clone(keys)
		for i := range others {
			old := others[i]
			g.change(&others[i])
			if slices.ContainsFunc(o.Changes, func(ch redlock.Change) bool { return ch.Resource == old.name }) {
				others[i].held, others[i].value = old.held, old.value
				if o.ReadTTL || !old.held {
					others[i].ttl = old.ttl
				}
			}
			if others[i] != old {
				changed++
			}
		}
		o2 := runOnKeys(script, others, differentialArgv, scriptNow)
		if got, want := o2.String(), o.String(); got != want {
			t.Fatalf("SCRIPT_SEED=%d:\n%s\non %+v\n-> %s\non %+v\n-> %s\nalthough the guards are the same: %+v", seed, source, keys, want, others, got, o.Changes)
		}
	}
	if changed < rounds {
		t.Errorf("only %d keys were in another state", changed)
	}
}
