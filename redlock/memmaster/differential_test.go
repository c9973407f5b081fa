// Goal: this master answers as a real Redis does. Method: the same commands, random from a seed or
// listed, go to both over raw RESP, and the replies are compared byte by byte; where Redis promises no
// order, or where time passes between the two, a comparison says so. The seed is fixed, so that a
// change is judged by what it does and not by luck. MEMMASTER_SEED=n runs another one, and
// MEMMASTER_SEED=random (make fuzz) one that nobody has tried.
package memmaster

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"redlockd/redlock/redisproc"
	"redlockd/redlock/sandbox"
)

// pair is one connection to each of the two servers.
type pair struct {
	ours, real *redisproc.Wire
	server     *redisproc.Server
}

// startPairs starts a server of each kind and opens n connections to it.
func startPairs(t *testing.T, n int) []pair {
	t.Helper()
	server := redisproc.StartForTest(t, 1)[0]
	master := newMaster(t, Options{})
	pairs := make([]pair, n)
	for i := range pairs {
		pairs[i] = pair{dial(t, master).Wire, redisproc.DialWire(t, server.Addr), server}
	}
	return pairs
}

// otherwise tells why a server of another version than 7.0 does a command otherwise by right, or "". Such a command is not sent.
func (p pair) otherwise(args []string) string {
	command := strings.ToLower(strings.Join(args, " "))
	for _, d := range []struct {
		before [2]int // {}: any but 7.0
		match  string // the command, in lower case
		why    string
	}{
		{[2]int{}, "info keyspace", "later versions tell more of a database"},
		{[2]int{}, "0x10", "Redis 8.0 and Valkey 9.1 read no hexadecimal scores"},
		{[2]int{7, 0}, "client kill id 0", "it is no error before 7.0"},
		{[2]int{7, 0}, "config set maxmemory 0 maxmemory-policy", "CONFIG SET takes one setting before 7.0"},
		{[2]int{7, 0}, `pcall\(`, "a caught error is a text before 7.0"},
		{[2]int{7, 0}, "^zpopmin .* (0|-.*)$", "it looks at the number before the type before 7.0"},
		{[2]int{6, 2}, "script flush .", "SCRIPT FLUSH takes no option before 6.2"},
		{[2]int{6, 2}, "922337203685477", "before 6.2 SET takes a lifetime that overflows"},
		{[2]int{6, 0}, "client tracking", "it came with 6.0"},
	} {
		if !strings.HasPrefix(p.server.Version(), "Redis 7.0.") && regexp.MustCompile(d.match).MatchString(command) && (d.before == [2]int{} || p.server.Before(d.before[0], d.before[1])) {
			return d.why
		}
	}
	return ""
}

func (p pair) do(args ...string) (ours, real string) {
	p.ours.Send(args...)
	p.real.Send(args...)
	return p.ours.Reply(), p.real.Reply()
}

// step is one command and how its replies are compared.
type step struct {
	args    []string
	compare func(ours, real string) bool // nil: byte by byte
}

func (s step) agrees(ours, real string) bool {
	return ours == real || s.compare != nil && s.compare(ours, real)
}

// sameElements compares replies whose elements have no order.
func sameElements(ours, real string) bool {
	a, b := strings.Split(ours, "\r\n"), strings.Split(real, "\r\n")
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// within compares integers that depend on the time of the command.
func within(tolerance int64) func(ours, real string) bool {
	return func(ours, real string) bool {
		a, err1 := strconv.ParseInt(strings.Trim(ours, ":\r\n"), 10, 64)
		b, err2 := strconv.ParseInt(strings.Trim(real, ":\r\n"), 10, 64)
		// Below 0 are answers, not times.
		return err1 == nil && err2 == nil && a >= 0 && b >= 0 && max(a-b, b-a) <= tolerance
	}
}

// listed are commands with one reply each, separated by | or a new line, which are not sent at random.
const listed = `
	client foo | client foo bar | client id x | client kill id 999 | client kill id 0
	client tracking x | client tracking on redirect 999 | client tracking off
	script foo | script load | script flush foo | script flush sync | script flush async x | config foo | config set a
	config set maxmemory 100000000 | config set maxmemory 0 maxmemory-policy noeviction
	flushall foo | flushall sync x | time x | info cluster | INFO nosuchsection
	scan x | scan 0 count 0 | scan 0 count x | scan 0 match | scan 0 foo bar
	auth x | auth default x y | hello 1 | hello 4 | hello 2 foo | hello 2 auth a | ping a b
	flushall | dbsize | set a 1 | set b 1 px 100000 | dbsize | swapdb 0 1 | exists a b | dbsize | set c 1 | swapdb 0 1 | exists a b c
	swapdb 0 1 | exists a b c | flushdb | dbsize | flushall
	set a 1 | select 1 | get a | set a 2 px 100000 | set b 1 | swapdb 0 1 | get a | pttl b | select 0 | mget a b | flushdb | dbsize | info keyspace | select 1 | get a | flushdb | select 0
	set a 0 | select 1 | flushall | select 0 | dbsize | select x | select 16 | select -1
	zadd z x a | zadd z 1 a | zadd z 1 | zadd z xx 2 a | zadd y xx 1 a | zpopmin z 1 1 | zrevrange z 0 | zrevrange z 0 0
	zadd z 1 a | zadd z 1 b | zadd z 2 c | zrevrange z 0 1 withscores | zrem z | zrem z x | zremrangebyscore z -inf (1 | zremrangebyscore z -inf 1 | zrem z c c | exists z | zrem z c | zremrangebyscore z -inf 9
	zadd z 1 a | pexpire z 100000 | zrem z a | exists z
	hset h f | hset h f 1 g | hset h f 1 f 2 | hsetnx h f 3 | hsetnx h g 3 4 | hget h f | hmget h | hmget h f x g | hincrby h f 9223372036854775807 | hincrby h f -9223372036854775808
	type h | get h | incr h | zcard h | mget h | set h 1 nx | hdel h | hdel h f f g x | exists h | hkeys h | hget h f | hmget h f | hdel h f | hincrby h n x | hincrby h n 0 | hkeys h
	hset h n 9223372036854775807 | hincrby h n 1 | hset h n -9223372036854775808 | hincrby h n -1 | hset h n 01 | hincrby h n 1 | pexpire h 100000 | hset h n 1 | set h 1 | hset h n 1 | hkeys h | hdel h n | del h
	set a 1 px 10 ex | set a 1 px 10 ex 20 | set a 1 ex 10 px 20 | set a 1 ex 9223372036854775 | set a 1 ex 9223372036854776 | set a 1 nx nx | set a 1 px 10 px 20000
	set a 1 xx | get a | set a 1 | set a 2 xx px 20000 | get a | set a 3 nx xx | set a 3 xx nx | set a 3 xx xx | get a | hset h f v | set h 1 xx | type h
	eval return 0 | eval 0 1 | evalsha abc 0
	set a 1 | replicaof 127.0.0.1 1 | get a | set a 2 | eval return{redis.call('del',KEYS[1])} 1 a | replicaof no one | set a 2
	subscribe a | get a | ping | ping hello | subscribe a | subscribe b`

func TestDifferentialListed(t *testing.T) {
	p := startPairs(t, 1)[0]
	for _, command := range strings.FieldsFunc(listed, func(r rune) bool { return r == '|' || r == '\n' }) {
		args := strings.Fields(command)
		if why := p.otherwise(args); why != "" {
			t.Logf("%s: not %q: %s", p.server.Version(), args, why)
		} else if len(args) > 0 {
			if ours, real := p.do(args...); !p.server.Alike(ours, real) {
				t.Errorf("%q\n ours %q\nRedis %q", args, ours, real)
			}
		}
	}
}

func TestDifferentialRandom(t *testing.T) {
	seed := redisproc.Seed(t, "MEMMASTER_SEED", 1)
	pairs := startPairs(t, 2)
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	var history []string
	for range 10_000 {
		who := g.IntN(len(pairs))
		s := g.step()
		if pairs[who].otherwise(s.args) != "" {
			continue
		}
		ours, real := pairs[who].do(s.args...)
		history = append(history, fmt.Sprintf("%d: %q %.200q", who, s.args, real))
		if !pairs[who].server.Alike(ours, real) && !s.agrees(ours, real) {
			history = history[max(0, len(history)-25):]
			t.Fatalf("MEMMASTER_SEED=%d: %q\n ours %q\nRedis %q\nbefore it:\n%s", seed, s.args, ours, real, strings.Join(history, "\n"))
		}
	}
}

// generator makes random commands on few keys, so that they meet.
type generator struct{ *rand.Rand }

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) key() string { return "k" + strconv.Itoa(g.IntN(5)) }

func (g *generator) keys() []string {
	keys := make([]string, 1+g.IntN(3))
	for i := range keys {
		keys[i] = g.key()
	}
	return keys
}

func (g *generator) value() string {
	return pick(g, "", "a", "token-1", "token-2", "10", "-3", "0", "9223372036854775807", "-9223372036854775808", "3.5", "007", " 1",
		"\x00\xff\r\n$1", strings.Repeat("long", 30))
}

func (g *generator) integer() string {
	return pick(g, "0", "1", "-1", "2", "5", "100", "-7", "9223372036854775807", "-9223372036854775808",
		"9223372036854775808", "x", "", "1.5", "+1", "01")
}

// lifetime is far away, and never so near another that the moment decides which is longer.
func (g *generator) lifetime() string {
	if g.IntN(8) == 0 {
		return pick(g, "0", "-1", "x", "9223372036854775807", "-9223372036854775808", "9223372036854775")
	}
	return strconv.Itoa(1e8 + g.IntN(1e9))
}

// score leaves out -0, which Redis keeps or loses depending on how it encodes the set.
func (g *generator) score() string {
	return pick(g, "0", "1", "2", "-1", "1.5", "0.1", "3e20", "inf", "-inf", "nan", "x", "7205759403792793600", "1e17", "0.30000000000000004", "1e400", "1e-400", "0x10", "1_0")
}

func (g *generator) word() string {
	return pick(g, "NX", "PX", g.lifetime(), "MATCH", "*", "k1")
}

func (g *generator) set() []string {
	args := []string{"SET", g.key(), g.value()}
	for range g.IntN(3) {
		switch g.IntN(3) {
		case 0:
			args = append(args, pick(g, "NX", "nx", "XX"))
		case 1:
			args = append(args, pick(g, []string{"px", g.lifetime() + "000"}, []string{"EX", g.lifetime()})...)
		case 2:
			args = append(args, pick(g, g.lifetime(), "k1", "PX"))
		}
	}
	return args
}

// plain is a command whose reply does not depend on time or order.
func (g *generator) plain() []string {
	member := func() string { return pick(g, "f1", "f2", "f3") }
	switch g.IntN(32) {
	case 0, 1, 2:
		return g.set()
	case 3, 4:
		return []string{"get", g.key()}
	case 5:
		return append([]string{"mget"}, g.keys()...)
	case 6:
		return append([]string{pick(g, "DEL", "unlink")}, g.keys()...)
	case 7:
		return append([]string{"exists"}, g.keys()...)
	case 8:
		return []string{"type", g.key()}
	case 9:
		return []string{"INCR", g.key()}
	case 10, 11:
		return []string{"pexpire", g.key(), g.lifetime()}
	case 12, 13, 14:
		return []string{"zadd", g.key(), g.score(), member()}
	case 15:
		return []string{"zadd", g.key(), pick(g, "XX", "NX"), g.score(), member()}
	case 16:
		return []string{"zscore", g.key(), member()}
	case 17:
		return pick(g, []string{"zcard", g.key()}, []string{"zrevrange", g.key(), "0", pick(g, "0", "1", "2")}, []string{"zrevrange", g.key(), "0", pick(g, "0", "1", "2"), "withscores"},
			[]string{"zrem", g.key(), member()}, []string{"zrem", g.key(), member(), member()}, []string{"zremrangebyscore", g.key(), "-inf", pick(g, "", "(") + g.score()})
	case 18:
		return append([]string{"zpopmin", g.key()}, pick(g, nil, []string{g.integer()}, []string{"2"})...)
	case 19:
		return pick(g, []string{"PING"}, []string{"ping", g.value()}, []string{"nope", g.key(), "x"})
	case 20:
		return []string{"publish", "channel", g.value()}
	case 21:
		if g.IntN(20) == 0 {
			return pick(g, []string{"FLUSHDB"}, []string{"flushall", pick(g, "async", "sync", "x")})
		}
		return []string{"exists", g.key()}
	case 22:
		return pick(g, []string{"hset", g.key(), member(), g.value()}, []string{"HSET", g.key(), "f1", g.value(), member(), g.value()})
	case 23:
		return pick(g, []string{"hget", g.key(), member()}, []string{"hmget", g.key(), member(), member()})
	case 24:
		return pick(g, []string{"hdel", g.key(), member()}, []string{"hdel", g.key(), member(), member()}, []string{"hsetnx", g.key(), member(), g.value()})
	case 25:
		return []string{"hincrby", g.key(), member(), g.integer()}
	}
	return g.eval()
}

func (g *generator) step() step {
	switch g.IntN(25) {
	case 0:
		return step{[]string{"pttl", g.key()}, within(30_000)}
	case 1:
		return step{[]string{"scan", "0", "count", "1000"}, sameElements}
	case 2:
		return step{g.mutated(), sameElements}
	case 3:
		return step{[]string{[]string{"hkeys", "hgetall"}[g.IntN(2)], g.key()}, sameElements}
	}
	return step{g.plain(), nil}
}

// mutated is a command with an argument too many or too few, without what this master does not know.
func (g *generator) mutated() []string {
	args := g.plain()
	switch strings.ToLower(args[0]) {
	case "set", "zadd", "hset", "hmget", "hdel", "pexpire", "flushall", "flushdb", "zrevrange", "zremrangebyscore":
		return args[:1+g.IntN(min(2, len(args)))]
	}
	if i := 1 + g.IntN(len(args)); i < len(args) && g.IntN(2) == 0 {
		return slices.Delete(slices.Clone(args), i, i+1)
	}
	return append(slices.Clone(args), g.word())
}

// scripts that are run at random: those of locks, and odd ones. What the language says by itself is compared in package sandbox.
var scripts = []string{
	// compare-and-delete, compare-and-pexpire
	`if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`,
	`if redis.call('GET', KEYS[1]) == ARGV[1] then
	   return redis.call('PEXPIRE', KEYS[1], 1000000000)
	 end
	 return 0`,
	// folded release
	`local held, gone, reply = redis.call('MGET', unpack(KEYS)), {}, {}
	 for i = 1, #KEYS do
	   if held[i] == ARGV[i] then gone[#gone + 1] = KEYS[i]; reply[i] = '1' else reply[i] = held[i] and '0' or '-' end
	 end
	 if #gone > 0 then redis.call('DEL', unpack(gone)) end
	 return table.concat(reply)`,
	// set-if-all-absent
	`for i = 1, #KEYS do if redis.call('EXISTS', KEYS[i]) == 1 then return 0 end end
	 for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[1], 'PX', 1000000000) end
	 return #KEYS`,
	`return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 1000000000)`,
	`return {redis.call('get', KEYS[1]), redis.call('type', KEYS[1])}`,
	`return redis.pcall('incr', KEYS[1])`,
	`return redis.call('incr', KEYS[1])`,
	`local r = redis.pcall('get', KEYS[1]); if type(r) == 'table' then return {'failed', r.err} end return r`,
	`local ok, e = pcall(redis.call, 'get', KEYS[1]); return {tostring(ok), e}`,
	`local ok, e = pcall(function() error({err = 'MINE is gone'}) end); return {tostring(ok), e}`,
	`return redis.call('zscore', KEYS[1], 'f1')`,
	`return tonumber(redis.call('zscore', KEYS[1], 'f1') or -1)`,
	`return redis.call('zpopmin', KEYS[1])`,
	`return {redis.call('hget', KEYS[1], 'f1'), redis.call('hincrby', KEYS[1], 'f2', 1), redis.call('hsetnx', KEYS[1], 'f3', ARGV[1])}`,
	`local all = {}; for _, field in ipairs(redis.call('hkeys', KEYS[1])) do all[#all + 1] = field end table.sort(all) return all`,
	// fence: numbers near 2^53 through a sorted set and back
	`local mark = math.max(1, tonumber(redis.call('ZSCORE', KEYS[1], 'f1') or 0))
	 redis.call('ZADD', KEYS[1], 7353219731111937, 'f1')
	 if redis.call('ZCARD', KEYS[1]) > 2 then
	   local out = redis.call('ZPOPMIN', KEYS[1], 2)
	   return {mark, out, string.format('%.0f', math.max(mark, tonumber(out[#out])))}
	 end
	 return mark`,
	`return redis.call('nope')`,
	"local x = 1\nreturn redis.call('get')",
	`return redis.call('get', KEYS[1], nil, true)`,
	`return redis.call()`,
	`return redis.call('subscribe')`,
	`return redis.call('eval', 'return 1', 0)`,
	`error('boo')`,
	"local function f()\n error(redis.error_reply('MY error'))\nend\nf()",
	`x = 1`,
	`return {#KEYS, #ARGV, KEYS[1], ARGV[1]}`,
	`return ARGV[2]`,
	`return tostring(tonumber(ARGV[1]))`,
	`return redis.sha1hex(ARGV[1] or '')`,
	`return`,
	``,
}

func (g *generator) eval() []string {
	text := pick(g, scripts...)
	keys := append(g.keys(), g.keys()[0])
	args := []string{pick(g, "EVAL", "eval"), text, strconv.Itoa(len(keys))}
	if g.IntN(10) == 0 {
		args[2] = g.integer()
	}
	args = append(args, keys...)
	for range keys {
		args = append(args, g.value())
	}
	if g.IntN(3) == 0 {
		// Known or not, both servers must agree.
		args[0] = pick(g, "evalsha", "EVALSHA")
		args[1] = sandbox.SHA(text)
		if g.IntN(4) == 0 {
			args = pick(g, []string{"SCRIPT", "load", text}, []string{"script", "flush"})
		}
	}
	return args
}
