// Goal: this master answers as a real Redis does. Method: the same commands, random from a seed or listed, go to both over
// raw RESP, and the replies are compared byte by byte; where Redis promises no order, or where time passes between the two,
// a comparison says so. MEMMASTER_SEED=n runs a failed seed again.
package memmaster

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"redlockd/redlock/redisproc"
)

// pair is one connection to each of the two servers.
type pair struct{ ours, real *wire }

// startPairs starts a server of each kind and opens n connections to it.
func startPairs(t *testing.T, n int) []pair {
	t.Helper()
	server := redisproc.StartForTest(t, 1)[0]
	addr := serve(t, newMaster(t, Options{}))
	pairs := make([]pair, n)
	for i := range pairs {
		pairs[i] = pair{dialSocket(t, addr), dialSocket(t, server.Addr)}
	}
	return pairs
}

func (p pair) do(args ...string) (ours, real string) {
	p.ours.send(args...)
	p.real.send(args...)
	return p.ours.reply(), p.real.reply()
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

// listed are commands with one reply each, separated by | or a new line: syntax and what is not sent at random.
const listed = `
	client | client foo | client foo bar | client id x | client getname | client setname | client setname é
	client setname ok | client getname | client no-evict on | client no-evict x
	client kill id 999 | client kill id abc | client kill id 0 | client kill id 1 2 | client kill 1.2.3.4:5
	client kill foo bar | client kill id 99 skipme no | client kill id 99 skipme x
	client tracking x | client tracking on redirect 999 | client tracking on noloop | get a | set a 1 | client tracking off
	script | script foo | script exists | script load | script flush foo | script flush sync | script flush async x
	script exists E0E1F9FABFC9D4800C877A703B823AC0578FF8DB x
	config foo | config get | config set a | config get nope | config set nope 1 | config get maxmemory
	config set maxmemory 100mb | config get maxmemory | config set maxmemory 3k
	config set maxmemory-policy nope | config set maxmemory-policy Volatile-LRU | config get maxmemory-policy
	config set maxmemory 0 maxmemory-policy noeviction | config resetstat
	select 16 | select x | select -1 | swapdb 0 16 | swapdb a 1 | swapdb 0 b | flushall foo | flushall sync x
	scan x | scan 0 count 0 | scan 0 count x | scan 0 match | scan 0 foo bar | keys | time x
	wait x 0 | wait 0 x | wait 0 -1 | wait 0 0 | cluster info | info cluster | INFO nosuchsection
	exec | discard | multi | multi | watch a | discard | unwatch | reset
	hello 1 | hello 4 | hello x | hello 2 foo | hello 2 auth a | hello 2 setname é | hello 2 auth a b
	auth x | auth a b | auth a b c | echo | ping a b
	subscribe a | get a | ping | ping hello | subscribe a | subscribe b | unsubscribe a | unsubscribe x | unsubscribe | unsubscribe
	get a
	multi | subscribe x | exec | unsubscribe | subscribe c | reset | get a
	flushall | dbsize | set a 1 | set b 1 px 100000 | dbsize | select 3 | dbsize | set c 1 | swapdb 0 3 | exists a b c
	select 0 | exists a b c | flushdb | dbsize | select 3 | exists a b c | flushall | select 0
	zadd z x a | zadd z 1 a 2 | zadd z 1 | zadd z incr 1 a 2 b | zadd z xx incr 1 a | zpopmin z 1 1 | zrevrange z 0 | zrevrange z 0 x | zrevrange z 0 0 y
	hset h a | hset h a 1 b | getex a ex 10 persist | getex a foo | set a 1 ex 10 keepttl | set a 1 nx xx
	eval return 0 | eval 0 1 | evalsha abc 0 | quit`

func TestDifferentialListed(t *testing.T) {
	p := startPairs(t, 1)[0]
	for _, command := range strings.FieldsFunc(listed, func(r rune) bool { return r == '|' || r == '\n' }) {
		if args := strings.Fields(command); len(args) > 0 {
			if ours, real := p.do(args...); ours != real {
				t.Errorf("%q\n ours %q\nRedis %q", args, ours, real)
			}
		}
	}
	p.ours.expectClosed()
	p.real.expectClosed()
}

func TestDifferentialRandom(t *testing.T) {
	for _, resp := range []string{"2", "3"} {
		t.Run("RESP"+resp, func(t *testing.T) {
			seed := rand.Uint64()
			if s := os.Getenv("MEMMASTER_SEED"); s != "" {
				var err error
				if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
					t.Fatal(err)
				}
			}
			pairs := startPairs(t, 2)
			for _, p := range pairs {
				p.do("hello", resp)
			}
			g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
			var history []string
			for range 6000 {
				who := g.IntN(len(pairs))
				for _, s := range g.steps() {
					ours, real := pairs[who].do(s.args...)
					history = append(history, fmt.Sprintf("%d: %q %.200q", who, s.args, real))
					if !s.agrees(ours, real) {
						history = history[max(0, len(history)-25):]
						t.Fatalf("MEMMASTER_SEED=%d: %q\n ours %q\nRedis %q\nbefore it:\n%s",
							seed, s.args, ours, real, strings.Join(history, "\n"))
					}
				}
			}
		})
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

// lifetime is far away, and never so near another that the moment of the command decides which is longer.
func (g *generator) lifetime() string {
	if g.IntN(8) == 0 {
		return pick(g, "0", "-1", "x", "9223372036854775807", "-9223372036854775808", "9223372036854775")
	}
	return strconv.Itoa(1e8 + g.IntN(1e9))
}

// moment is an absolute time, sometimes past; in milliseconds it is 1970 (past), in seconds far in the future.
func (g *generator) moment() string {
	if g.IntN(8) == 0 {
		return pick(g, "0", "1", "-5", "x", "9223372036854775807")
	}
	return strconv.Itoa(2e9 + g.IntN(1e9))
}

func (g *generator) momentMs() string {
	if g.IntN(4) == 0 {
		return g.moment()
	}
	return strconv.Itoa(2e12 + g.IntN(1e12))
}

// score leaves out -0, which Redis keeps or loses depending on how it encodes the set.
func (g *generator) score() string {
	return pick(g, "0", "1", "2", "-1", "1.5", "0.1", "3e20", "inf", "-inf", "nan", "x", "7205759403792793600", "1e17", "0.30000000000000004")
}

func (g *generator) word() string {
	return pick(g, "NX", "XX", "GET", "EX", "PX", "KEEPTTL", "GT", "LT", "CH", "INCR", "PERSIST", "10", "IFEQ", "MATCH", "*", "k1")
}

// expireOption is an option of SET or GETEX with its argument.
func (g *generator) expireOption() []string {
	switch g.IntN(4) {
	case 0:
		return []string{"EX", g.lifetime()}
	case 1:
		return []string{"px", g.lifetime() + "000"}
	case 2:
		return []string{"EXAT", g.moment()}
	}
	return []string{"PXAT", g.momentMs()}
}

func (g *generator) set() []string {
	args := []string{"SET", g.key(), g.value()}
	for range g.IntN(3) {
		switch g.IntN(4) {
		case 0, 1:
			args = append(args, pick(g, "NX", "xx", "GET", "KEEPTTL"))
		case 2:
			args = append(args, g.expireOption()...)
		case 3:
			args = append(args, g.word())
		}
	}
	return args
}

// plain is a command whose reply does not depend on time or order.
func (g *generator) plain() []string {
	field := func() string { return pick(g, "f1", "f2", "f3") }
	switch g.IntN(44) {
	case 0, 1, 2:
		return g.set()
	case 3, 4:
		return []string{"get", g.key()}
	case 5:
		return []string{"SETNX", g.key(), g.value()}
	case 6:
		return []string{pick(g, "setex", "PSETEX"), g.key(), g.lifetime(), g.value()}
	case 7:
		return []string{"GETDEL", g.key()}
	case 8:
		return append([]string{"getex", g.key()}, pick(g, g.expireOption(), []string{"PERSIST"}, nil, []string{g.word()})...)
	case 9:
		return append([]string{"mget"}, g.keys()...)
	case 10:
		return []string{pick(g, "MSET", "msetnx"), g.key(), g.value(), g.key(), g.value()}
	case 11:
		return append([]string{pick(g, "DEL", "unlink")}, g.keys()...)
	case 12:
		return append([]string{"exists"}, g.keys()...)
	case 13:
		return []string{"type", g.key()}
	case 14:
		return []string{"strlen", g.key()}
	case 15:
		return []string{pick(g, "INCR", "decr"), g.key()}
	case 16:
		return []string{pick(g, "INCRBY", "decrby"), g.key(), g.integer()}
	case 17:
		return []string{"append", g.key(), pick(g, "", "x", "1")}
	case 18:
		return []string{"getrange", g.key(), g.integer(), g.integer()}
	case 19, 20:
		return append([]string{pick(g, "EXPIRE", "pexpire"), g.key(), g.lifetime()}, g.expireFlags()...)
	case 21:
		return append([]string{"expireat", g.key(), g.moment()}, g.expireFlags()...)
	case 22:
		return append([]string{"PEXPIREAT", g.key(), g.momentMs()}, g.expireFlags()...)
	case 23:
		return []string{"persist", g.key()}
	case 24:
		return []string{"hset", g.key(), field(), g.value(), field(), g.value()}
	case 25:
		return []string{"hget", g.key(), field()}
	case 26:
		return []string{"hmget", g.key(), field(), field()}
	case 27:
		return []string{"hincrby", g.key(), field(), g.integer()}
	case 28:
		return []string{"hdel", g.key(), field(), field()}
	case 29, 30:
		args := []string{"zadd", g.key()}
		for range g.IntN(3) {
			args = append(args, pick(g, "NX", "XX", "gt", "LT", "CH", "INCR"))
		}
		args = append(args, g.score(), field())
		if g.IntN(2) == 0 {
			args = append(args, g.score(), field())
		}
		return args
	case 31:
		return []string{"zscore", g.key(), field()}
	case 32:
		return pick(g, []string{"zcard", g.key()},
			[]string{"zrevrange", g.key(), g.integer(), g.integer()}, []string{"zrevrange", g.key(), "0", "0", "withscores"})
	case 33:
		return append([]string{"zpopmin", g.key()}, pick(g, nil, []string{g.integer()}, []string{"2"})...)
	case 34:
		return []string{"zrem", g.key(), field(), field()}
	case 35:
		return []string{"echo", g.value()}
	case 36:
		return pick(g, []string{"PING"}, []string{"ping", g.value()}, []string{"ROLE"}, []string{"wait", "0", g.lifetime()})
	case 37:
		return []string{"nope", g.key(), "x"}
	case 38:
		return []string{"select", pick(g, "0", "0", "0", "1", "16", "-1", "x")}
	case 39:
		return []string{"publish", "channel", g.value()}
	case 40:
		if g.IntN(20) == 0 {
			return pick(g, []string{"FLUSHDB"}, []string{"flushall", pick(g, "async", "sync", "x")}, []string{"swapdb", "0", "1"})
		}
		return []string{"exists", g.key()}
	default:
		return g.eval()
	}
}

func (g *generator) expireFlags() []string {
	var flags []string
	for range g.IntN(3) {
		flags = append(flags, pick(g, "NX", "xx", "GT", "lt"))
	}
	return flags
}

// steps is one command, or a few that belong together.
func (g *generator) steps() []step {
	switch g.IntN(24) {
	case 0:
		return []step{{[]string{"pttl", g.key()}, within(30_000)}}
	case 1:
		return []step{{[]string{"ttl", g.key()}, within(30)}}
	case 2:
		return []step{{[]string{"pexpiretime", g.key()}, within(30_000)}}
	case 3:
		return []step{{[]string{"expiretime", g.key()}, within(30)}}
	case 4:
		return []step{{[]string{"hgetall", g.key()}, sameElements}}
	case 5:
		return []step{{[]string{"keys", pick(g, "*", "k[1-3]", "k?", "x*")}, sameElements},
			{[]string{"scan", "0", "match", pick(g, "*", "k[^1]"), "count", "1000"}, sameElements}}
	case 6:
		return g.transaction()
	case 7:
		return []step{{g.mutated(), sameElements}}
	}
	return []step{{g.plain(), nil}}
}

// mutated is a command with an argument too many or too few.
func (g *generator) mutated() []string {
	args := slices.Clone(g.plain())
	if i := 1 + g.IntN(len(args)); i < len(args) && g.IntN(2) == 0 {
		return slices.Delete(args, i, i+1)
	}
	if args[0] == "wait" || args[0] == "flushall" {
		return args
	}
	return append(args, g.word())
}

func (g *generator) transaction() []step {
	var steps []step
	add := func(args ...string) { steps = append(steps, step{args, nil}) }
	if g.IntN(2) == 0 {
		add("watch", g.key())
		if g.IntN(2) == 0 {
			steps = append(steps, step{g.plain(), nil})
		}
		if g.IntN(4) == 0 {
			add("unwatch")
		}
	}
	add("multi")
	for range g.IntN(4) {
		steps = append(steps, step{g.plain(), nil})
	}
	if g.IntN(5) == 0 {
		steps = append(steps, step{g.mutated(), nil})
	}
	add(pick(g, "exec", "exec", "exec", "discard"))
	return steps
}

// scripts that are run at random: those of locks, and odd ones.
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
	`return redis.call('set', KEYS[1], ARGV[1], 'GET')`,
	`return {redis.call('get', KEYS[1]), redis.call('type', KEYS[1])}`,
	`return redis.pcall('incr', KEYS[1])`,
	`return redis.call('incr', KEYS[1])`,
	`local r = redis.pcall('get', KEYS[1]); if type(r) == 'table' then return {'failed', r.err} end return r`,
	`local ok, e = pcall(redis.call, 'get', KEYS[1]); return {tostring(ok), e}`,
	`local ok, e = pcall(function() error({err = 'MINE is gone'}) end); return {tostring(ok), e}`,
	`return #redis.call('hgetall', KEYS[1])`,
	`return redis.call('zscore', KEYS[1], 'f1')`,
	`return tonumber(redis.call('zscore', KEYS[1], 'f1') or -1)`,
	`return redis.call('zpopmin', KEYS[1])`,
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
	`return redis.call('multi')`,
	`return {1, 2.9, -2.9, 'x', true, false, {3, {4, nil, 5}}, {ok = 'fine'}, {err = 'NOT fine'}, nil, 6}`,
	`return {1e15, 2^53, 2^63, -2^63, 1/0}`,
	`return redis.call('set', KEYS[1], 0.1)`,
	`return redis.call('set', KEYS[1], 2^53)`,
	`return redis.call('set', KEYS[1], 1e17)`,
	`return redis.error_reply('MY error')`,
	`return redis.error_reply('word')`,
	`return redis.status_reply('FINE')`,
	`error('boo')`,
	"local function f()\n error(redis.error_reply('MY error'))\nend\nf()",
	`return x`,
	`x = 1`,
	`return {#KEYS, #ARGV, KEYS[1], ARGV[1]}`,
	`return ARGV[2]`,
	`return tostring(tonumber(ARGV[1]))`,
	`return tostring(2^53) .. tostring(1e15) .. tostring(0.1) .. tostring(100)`,
	`return string.format('%.0f %d %s %5.2f', 2^53, 3, 'x', 1/3)`,
	`return redis.sha1hex(ARGV[1] or '')`,
	`return`,
	``,
}

func (g *generator) eval() []string {
	text := pick(g, scripts...)
	command := pick(g, "EVAL", "eval", "eval_ro")
	if strings.Contains(text, "2^63") {
		command = "eval"
	}
	keys := append(g.keys(), g.keys()[0])
	args := []string{command, text, strconv.Itoa(len(keys))}
	if g.IntN(10) == 0 {
		args[2] = g.integer()
	}
	args = append(args, keys...)
	for range keys {
		args = append(args, g.value())
	}
	if g.IntN(3) == 0 {
		// Known or not, both servers must agree.
		args[0] = pick(g, "evalsha", "EVALSHA", "evalsha_ro")
		args[1] = newSHA(text)
		if g.IntN(4) == 0 {
			args = pick(g, []string{"script", "exists", args[1], "x"}, []string{"SCRIPT", "load", text}, []string{"script", "flush"})
		}
	}
	return args
}

func newSHA(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
