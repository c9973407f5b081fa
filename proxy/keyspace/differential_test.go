package keyspace

import (
	"bufio"
	crand "crypto/rand"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/redisproc"
	"redlockd/redlock/resp"
)

// Goal: commands answer and change keys here as they do in Redis. Method: random commands, a few in a
// row on the same keys, on random states of every type; to a Space and to a real redis-server, in both
// versions of the protocol, comparing each reply and what the keys hold afterwards. KEYSPACE_SEED=n
// runs a failed seed again.
//
// TTLs differ, and are far longer than the test takes: what is left of one tells which it is.
func TestSameAsRedis(t *testing.T) {
	for _, proto := range []int{2, 3} {
		t.Run(strconv.Itoa(proto), func(t *testing.T) { sameAsRedis(t, proto) })
	}
}

func sameAsRedis(t *testing.T, proto int) {
	redis := redisproc.DialWire(t, redisproc.StartForTest(t, 1)[0].Addr)
	redis.Do("hello", strconv.Itoa(proto))
	seed := redisproc.Seed(t, "KEYSPACE_SEED", rand.Uint64())
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	failed, wrote := 0, 0
	const rounds, commands = 3000, 6
	for range rounds {
		keys, states := []string{"a", "b", "c"}, make([]redlock.State, 3)
		lines := [][]string{{"flushall"}}
		for i, name := range keys {
			var seeding [][]string
			states[i], seeding = g.state(name)
			lines = append(lines, seeding...)
		}
		prepared := len(lines)
		for range commands {
			lines = append(lines, g.command())
		}
		asked := len(lines)
		for _, name := range keys {
			for _, look := range looks {
				lines = append(lines, []string{look, name})
			}
			lines = append(lines, []string{"zrange", name, "0", "-1", "withscores"})
		}
		replies := ask(t, redis, lines)

		space := New(keys, states, time.Now())
		space.Random = crand.Read
		run := func(space *Space, i int) {
			t.Helper()
			line := lines[i]
			reply := failure("ERR wrong number of arguments for '" + line[0] + "' command")
			if d := Lookup(line[0]); len(line) == d.Arity || d.Arity < 0 && len(line) >= -d.Arity {
				var err error
				if reply, err = space.Call(line[0], line[1:]); err != nil {
					t.Fatal(err)
				}
			}
			raw := readRaw(t, bufio.NewReader(strings.NewReader(string(reply.AppendTo(nil, proto)))))
			if got, want := raw.in(line[0]), replies[i].in(line[0]); got != want && !sameTimes(got, want) {
				t.Fatalf("KEYSPACE_SEED=%d: on %+v: %q: %q answers %q, Redis %q", seed, states, lines[prepared:asked], line, got, want)
			}
			if replies[i].head[0] == '-' {
				failed++
			}
		}
		for i := prepared; i < asked; i++ {
			run(space, i)
		}
		// What the keys hold is what the same looks find, there and here after the changes.
		before := failed
		after := New(keys, statesAfter(space.Outcome(), keys, states), time.Now())
		for i := asked; i < len(lines); i++ {
			run(after, i)
		}
		failed = before
		if space.Outcome().Writes {
			wrote++
		}
	}
	t.Logf("%d of %d commands failed, %d of %d runs wrote", failed, rounds*commands, wrote, rounds)
	if failed > rounds*commands/3 || wrote < rounds/2 {
		t.Error("the commands do not say much")
	}
}

// sameTime reports whether two times, in seconds or ms, are of one moment: less than 5 s pass during a
// run, and in seconds not even one. Those that are too long for a time.Duration are the same.
func sameTime(a, b int64) bool {
	a, b = Duration(a).Milliseconds(), Duration(b).Milliseconds()
	return a > 60 && b > 60 && max(a-b, b-a) < 5_000
}

// sameTimes is sameTime for two replies.
func sameTimes(a, b string) bool {
	x, okX := resp.ParseInt(strings.Trim(a, ":\r\n"))
	y, okY := resp.ParseInt(strings.Trim(b, ":\r\n"))
	return okX && okY && sameTime(x, y)
}

// looks are commands that together tell what a key holds.
var looks = []string{"type", "pttl", "get", "hgetall", "smembers"}

// statesAfter is what the keys hold when the changes are made.
func statesAfter(o Outcome, keys []string, states []redlock.State) []redlock.State {
	states = slices.Clone(states)
	for _, ch := range o.Changes {
		st := &states[slices.Index(keys, ch.Resource)]
		ttl := ch.TTL
		if ttl == 0 {
			ttl = -1
		}
		switch ch.Do {
		case redlock.Set:
			*st = redlock.State{Found: true, Type: "string", Value: ch.NewValue, TTL: ttl}
		case redlock.Expire:
			st.TTL = ttl
		case redlock.Delete:
			*st = redlock.State{Type: "none"}
		}
	}
	return states
}

// rawReply is a reply as it came.
type rawReply struct {
	head string // its first line, and the text of a bulk string
	all  []rawReply
}

// in is the reply to a command, in the order of its elements if that means something.
func (r rawReply) in(command string) string {
	groups, width := []string(nil), 1
	if command == "hgetall" {
		width = 2
	}
	for i, element := range r.all {
		if i%width == 0 {
			groups = append(groups, "")
		}
		groups[len(groups)-1] += element.in("")
	}
	if slices.Contains([]string{"hgetall", "hkeys", "hvals", "smembers"}, command) {
		slices.Sort(groups)
	}
	return r.head + strings.Join(groups, "")
}

// readRaw reads a reply of either version of the protocol.
func readRaw(t *testing.T, r *bufio.Reader) (raw rawReply) {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	raw.head = line
	n, _ := strconv.Atoi(line[1 : len(line)-2])
	switch line[0] {
	case '%':
		n *= 2
		fallthrough
	case '*', '~':
		for range n {
			raw.all = append(raw.all, readRaw(t, r))
		}
	case '$':
		if n >= 0 {
			text := make([]byte, n+2)
			if _, err := io.ReadFull(r, text); err != nil {
				t.Fatal(err)
			}
			raw.head += string(text)
		}
	}
	return raw
}

// ask sends lines to a Redis at once and returns its replies.
func ask(t *testing.T, redis *redisproc.Wire, lines [][]string) (replies []rawReply) {
	t.Helper()
	var out strings.Builder
	for _, line := range lines {
		out.WriteString(redisproc.Frame(line...))
	}
	if _, err := io.WriteString(redis.Conn, out.String()); err != nil {
		t.Fatal(err)
	}
	for range lines {
		replies = append(replies, readRaw(t, redis.In))
	}
	return replies
}

// generator makes random states and commands.
type generator struct {
	*rand.Rand
	lengths int64
	kinds   map[string]kind // of the keys at the beginning
}

func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }
func (g *generator) key() string                { return g.pick("a", "a", "a", "b", "c") }
func (g *generator) value() string              { return g.pick("v", "v", "w", "", "10", "a longer value") }

// seconds is a length of time that no other is near to.
func (g *generator) seconds() int64 {
	g.lengths++
	return 1000 * (1 + (g.lengths*7919)%5000)
}

// state is a random state of a key, and the commands that make it in a Redis.
func (g *generator) state(name string) (st redlock.State, lines [][]string) {
	if g.kinds == nil {
		g.kinds = map[string]kind{}
	}
	of := kind(g.IntN(int(zset) + 1))
	g.kinds[name] = of
	st = redlock.State{Found: true, Type: "string", TTL: -1}
	c, line := collection{kind: of, born: 1}, []string{"", name}
	switch of {
	case nothing:
		return absent, nil
	case text:
		st.Value = g.value()
		line = []string{"set", name, st.Value}
	default:
		line[0] = [...]string{hash: "hset", set: "sadd", zset: "zadd"}[of]
		for range 1 + g.IntN(4) {
			m := member{name: g.member()}
			at, ok := c.find(m.name)
			switch {
			case ok:
				continue
			case of == hash:
				m.value = g.value()
				line = append(line, m.name, m.value)
			case of == set:
				line = append(line, m.name)
			default:
				m.score = g.pickScore() + 0
				line = append(line, strconv.FormatFloat(m.score, 'g', -1, 64), m.name)
			}
			c.members = slices.Insert(c.members, at, m)
		}
		st.Value = c.encode([redlock.VersionLen]byte{1})
	}
	lines = append(lines, line)
	if g.IntN(3) > 0 {
		st.TTL = time.Duration(g.seconds()) * time.Second
		lines = append(lines, []string{"pexpire", name, strconv.FormatInt(st.TTL.Milliseconds(), 10)})
	}
	return st, lines
}

func (g *generator) member() string {
	return g.pick("m", "m", "n", "o", "", "10", "-3", "M\x00\xff", "a longer name")
}

func (g *generator) pickScore() float64 {
	return [...]float64{0, 1, 1, 2, -1, 1.5, 1700000000123.4, 1e300, math.Inf(1), math.Inf(-1), 1e17, -1e-7, math.Copysign(0, -1)}[g.IntN(13)]
}

// score is one, or now and then what only looks like one.
func (g *generator) score() string {
	if g.IntN(8) == 0 {
		return g.pick("", "x", "1x", "nan", "-nan", " 1", "1_0", "0x10", "0X1P4", "0x", "1e", "1e400", "-1e400", "1e-400", "+5", ".5", "5.", "Infinity", "+inf", "1 ", "0x1.8", "--1", "1\x002")
	}
	return strconv.FormatFloat(g.pickScore(), g.pick("g", "f")[0], -1, 64)
}

// end is one end of a range of scores.
func (g *generator) end() string {
	return g.pick("", "", "", "(") + g.pick("-inf", "+inf", g.score(), g.score())
}

func (g *generator) integer() string {
	if g.IntN(10) == 0 {
		return g.pick("x", "", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1.5", "01", "+1")
	}
	return strconv.Itoa(g.IntN(9) - 4)
}

// collectionCommand is a command on a hash, a set or a sorted set.
func (g *generator) collectionCommand(k string, of kind) (line []string) {
	m := g.member
	switch of {
	case hash:
		switch g.IntN(7) {
		case 0:
			return []string{g.pick("hget", "hexists", "hstrlen"), k, m()}
		case 1:
			return []string{g.pick("hlen", "hkeys", "hvals", "hgetall"), k}
		case 2:
			return []string{g.pick("hdel", "hmget"), k, m(), m()}
		case 3, 4:
			line = []string{g.pick("hset", "hset", "hmset"), k, m(), g.value(), m(), g.value()}
			return line[:len(line)-g.IntN(8)/6]
		case 5:
			return []string{"hsetnx", k, m(), g.value()}
		}
		return []string{"hincrby", k, m(), g.integer()}
	case set:
		switch g.IntN(4) {
		case 0:
			return []string{g.pick("scard", "smembers"), k}
		case 1:
			return []string{"sismember", k, m()}
		case 2:
			return []string{"sadd", k, m(), m()}
		}
		return []string{g.pick("srem", "smismember"), k, m(), m()}
	}
	switch g.IntN(9) {
	case 0, 1:
		line = []string{"zadd", k}
		for range g.IntN(3) {
			line = append(line, g.pick("NX", "xx", "GT", "LT", "CH", "ch", "INCR", "FOO"))
		}
		line = append(line, g.score(), m(), g.score(), m())
		return line[:len(line)-g.IntN(4)]
	case 2:
		return []string{"zincrby", k, g.score(), m()}
	case 3:
		return []string{g.pick("zscore", "zrank", "zrevrank"), k, m()}
	case 4:
		return []string{g.pick("zrem", "zmscore"), k, m(), m()}
	case 5:
		return []string{g.pick("zcount", "zremrangebyscore"), k, g.end(), g.end()}
	case 6:
		return []string{g.pick("zremrangebyrank", "zremrangebyrank", "zcard"), k, g.integer(), g.integer()}[:2+2*g.IntN(2)]
	}
	name := g.pick("zrange", "zrange", "zrevrange", "zrangebyscore", "zrevrangebyscore")
	line = []string{name, k, g.integer(), g.integer()}
	if strings.HasSuffix(name, "byscore") || g.IntN(8) == 0 {
		line = []string{name, k, g.end(), g.end()}
	}
	for range g.IntN(4) {
		switch g.IntN(5) {
		case 0:
			line = append(line, "WITHSCORES")
		case 1:
			line = append(line, "LIMIT", g.integer(), g.pick("-1", "1", "0", "2", g.integer()))
		case 2:
			line = append(line, g.pick("REV", "rev", "FOO", "limit"))
		default:
			if name == "zrange" {
				line = append(line[:2], append([]string{g.end(), g.end(), "byscore"}, line[4:]...)...)
			}
		}
	}
	return line
}

// time is a time in a unit, of which "0" or "000" makes ms; now and then one that is refused or over.
func (g *generator) time(ms bool, absolute bool) string {
	if g.IntN(10) == 0 {
		return g.pick("0", "-1", "x", "", "01", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "9223372036854775")
	}
	n := g.seconds()
	if absolute {
		n += time.Now().Unix()
	}
	if ms {
		n *= 1000
	}
	return strconv.FormatInt(n, 10)
}

func (g *generator) option() []string {
	switch g.IntN(9) {
	case 0:
		return []string{g.pick("NX", "nx")}
	case 1:
		return []string{"XX"}
	case 2:
		return []string{"GET"}
	case 3:
		return []string{"KEEPTTL"}
	case 4:
		return []string{"EX", g.time(false, false)}
	case 5:
		return []string{"EXAT", g.time(false, true)}
	case 6:
		return []string{g.pick("pxat", "PXAT"), g.pick(g.time(true, true), g.time(true, true), "1")}
	case 7:
		if g.IntN(8) == 0 {
			return []string{g.pick("PERSIST", "FOO", "", "PX")}
		}
		fallthrough
	default:
		return []string{"PX", g.time(true, false)}
	}
}

func (g *generator) command() []string {
	k := g.key()
	of := g.kinds[k]
	if g.IntN(6) == 0 {
		of = kind(g.IntN(int(zset) + 1))
	}
	if of > text && g.IntN(4) > 0 {
		return g.collectionCommand(k, of)
	}
	switch g.IntN(18) {
	case 16:
		return []string{g.pick("incr", "decr"), k}
	case 17:
		return []string{g.pick("incrby", "decrby"), k, g.integer()}
	case 0, 1, 2, 3:
		line := []string{"set", k, g.value()}
		for range g.IntN(4) {
			line = append(line, g.option()...)
		}
		return line
	case 4:
		return []string{g.pick("get", "strlen", "type", "ttl", "pttl", "expiretime", "pexpiretime", "getdel", "persist", "getex"), k}
	case 5:
		return []string{g.pick("mget", "exists", "del", "unlink"), k, g.key(), g.key()}
	case 6:
		return []string{g.pick("getrange", "substr"), k, g.pick("0", "-2", "1", "x", "-9"), g.pick("-1", "2", "0", "-9", "99")}
	case 7:
		return []string{"setex", k, g.time(false, false), g.value()}
	case 8:
		return []string{"psetex", k, g.time(true, false), g.value()}
	case 9:
		return []string{g.pick("setnx", "getset"), k, g.value()}
	case 10:
		line := []string{g.pick("mset", "msetnx"), k, g.value(), g.key(), g.value()}
		return line[:len(line)-g.IntN(8)/7]
	case 11:
		return append([]string{"getex", k}, g.option()...)
	}
	name := g.pick("expire", "pexpire", "expireat", "pexpireat")
	line := []string{name, k, g.time(name[0] == 'p', strings.HasSuffix(name, "at"))}
	for range g.IntN(8) / 5 {
		line = append(line, g.pick("NX", "xx", "GT", "LT", "FOO"))
	}
	return line
}
