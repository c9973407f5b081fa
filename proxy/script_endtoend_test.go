package proxy

// Goal: with nobody interfering, two redlockds in front of five masters cannot be told from one Redis: the same sequence of commands
// and scripts gets the same replies and leaves the same keys. Method: random sequences to both, with the scripts of
// script_differential_test.go and those of lock libraries among them, each step through one redlockd or the other. What one redlockd
// sends, every master does in its order; before it is the other's turn, all masters have done it. What redlockd refuses by right is
// listed; where it refuses, both start again without keys. SCRIPT_SEED=n runs a failed seed again.

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/redisproc"
	"redlockd/redlock/sandbox"
)

// refusedByRight are errors of redlockd where Redis has another answer.
var refusedByRight = regexp.MustCompile(`^-(` + strings.Join([]string{
	`ERR a lock without a TTL would be held for ever .*`,
	`ERR this asks for a counter without a TTL, .*`,
	`ERR a value that is set without NX and without a TTL asks for a cache entry, .*`,
	`ERR ttl of -?\d+ ms is (below the least|above the most), .*`,
}, "|") + `)$`)

// libraryScripts are scripts as lock libraries send them; their arguments are the token and a TTL in ms.
var libraryScripts = []string{
	acquireScript, releaseScript, extendScript,
	`local v = redis.call("GET", KEYS[1]) if v == ARGV[1] then return redis.call("DEL", KEYS[1]) elseif v == false then return -1 else return 0 end`,
	`for i, k in ipairs(KEYS) do if redis.call("get", k) ~= ARGV[1] then return nil end end redis.call("del", unpack(KEYS)) return redis.status_reply("OK")`,
	`local n = 0 for _, k in ipairs(KEYS) do if redis.call("get", k) == ARGV[1] then n = n + redis.pcall("del", k) end end return n`,
	`if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('UNLINK', KEYS[1]) redis.call('PUBLISH', 'unlocked:' .. KEYS[1], ARGV[1]) return 1 end`,
	`local v = redis.call('get', KEYS[1]) if not v then return redis.status_reply('OK') end if v ~= ARGV[1] then return redis.error_reply('ERROR') end return redis.call('del', KEYS[1])`,
	`if redis.call('get', KEYS[1]) ~= ARGV[1] then return 1 else redis.call('del', KEYS[1]) return 0 end`,
	`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("set", KEYS[1], ARGV[1], "XX", "PX", ARGV[2]) and 1 end return 0`,
	`local v = redis.call('get', KEYS[1]) if not v or v ~= ARGV[1] then return 0 end redis.call('pexpire', KEYS[1], ARGV[2] + math.max(0, redis.call('pttl', KEYS[1]))) return 1`,
	`for _, k in ipairs(KEYS) do if redis.call("get", k) ~= ARGV[1] then return 0 end end for _, k in ipairs(KEYS) do redis.call("set", k, ARGV[1], "PX", ARGV[2]) end return #KEYS`,
	`for i, k in ipairs(KEYS) do if redis.call("exists", k) == 1 then return 0 end end for _, k in ipairs(KEYS) do redis.call("set", k, ARGV[1], "PX", ARGV[2]) end return #KEYS`,
	`if redis.call('get', KEYS[1]) == ARGV[1] or redis.call('exists', KEYS[1]) == 0 then return redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) end`,
	`local ok = redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) if ok then return 1 end if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('pexpire', KEYS[1], ARGV[2]) return 1 end return 0`,
	`local v = redis.call('get', KEYS[1]) if not v or v == ARGV[1] then return redis.call('set', KEYS[1], ARGV[1] .. '2', 'px', ARGV[2]) end`,
	`for i, k in ipairs(KEYS) do if redis.call('set', k, ARGV[1], 'NX', 'PX', ARGV[2]) then return k end end`,
	`if redis.call('get', KEYS[1]) then return redis.call('set', KEYS[1], ARGV[1], 'KEEPTTL') end`,
	`if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) return redis.call('set', KEYS[2] or KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) end return false`,
	// Locks that are counted in a hash by their owners, semaphores and readers in sets: in the manner of Redisson, redis-semaphore,
	// Symfony and DistributedLock.
	reentrantScript, reentrantReleaseScript,
	`local held = {} for _, k in ipairs(KEYS) do if redis.call('hexists', k, ARGV[1]) == 1 then redis.call('pexpire', k, ARGV[2]) held[#held+1] = 1 else held[#held+1] = 0 end end return held`,
	`redis.call('zremrangebyscore', KEYS[1], '-inf', 5) if redis.call('zcard', KEYS[1]) < 2 then redis.call('zadd', KEYS[1], 7, ARGV[1]) redis.call('pexpire', KEYS[1], ARGV[2]) return 1 end return 0`,
	`if redis.call('zscore', KEYS[1], ARGV[1]) then redis.call('zadd', KEYS[1], 'XX', 'CH', ARGV[2], ARGV[1]) redis.call('pexpire', KEYS[1], ARGV[2]) return redis.call('zrange', KEYS[1], 0, -1, 'withscores') end`,
	`if redis.call('type', KEYS[1]).ok == 'zset' then return redis.call('zrem', KEYS[1], ARGV[1]) end return redis.call('type', KEYS[1])`,
	`if redis.call('exists', KEYS[1]) == 0 then redis.call('sadd', KEYS[1], ARGV[1]) redis.call('pexpire', KEYS[1], ARGV[2]) return 1 end
	return redis.call('sismember', KEYS[1], ARGV[1]) == 1 and redis.call('srem', KEYS[1], ARGV[1]) or redis.call('scard', KEYS[1])`,
	`if redis.call('get', KEYS[1]) == false then redis.call('set', KEYS[1], 5, 'px', ARGV[2]) end return redis.call('decrby', KEYS[1], 1)`,
}

// The locks of Redisson: a hash that counts by owner how often it was taken. The arguments are the owner and a TTL in ms.
const (
	reentrantScript = `if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
		redis.call('hincrby', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], ARGV[2]) return nil end
	return redis.call('pttl', KEYS[1]) > 0 and 'held' or 'free'`
	reentrantReleaseScript = `if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
	if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then redis.call('pexpire', KEYS[1], ARGV[2]) return 0 end
	redis.call('del', KEYS[1]) redis.call('publish', 'unlocked:' .. KEYS[1], ARGV[1]) return 1`
)

// sequence makes the commands of a run: a step is one command, or several that belong together.
type sequence struct{ scriptGenerator }

func (g *sequence) name() string  { return g.pick("ka", "ka", "ka", "kb", "kc") }
func (g *sequence) token() string { return g.pick("mine", "mine", "mine", "other", "new", "") }
func (g *sequence) px() string    { return strconv.Itoa((2*g.IntN(9) + 1) * 500_000) }

func (g *sequence) step() [][]string {
	k := g.name()
	one := func(args ...string) [][]string { return [][]string{args} }
	switch g.IntN(20) {
	case 16:
		return [][]string{{g.pick("HSET", "HINCRBY"), k, g.token(), "1"}, {"PEXPIRE", k, g.px()}, {"HLEN", k}}
	case 17:
		return [][]string{{"SADD", k, g.token()}, {"PEXPIRE", k, g.px()}, {"SCARD", k}}
	case 18:
		return [][]string{{"MULTI"}, {"ZADD", k, g.pick("1", "7.5"), g.token()}, {"PEXPIRE", k, g.px()}, {"ZRANGE", k, "0", "-1", "WITHSCORES"}, {"EXEC"}}
	case 19:
		return one(g.pick("HDEL", "SREM", "ZREM"), k, g.token())
	case 0, 1:
		return one("SET", k, g.token(), "NX", "PX", g.px())
	case 2:
		return one(append([]string{"SET", k, g.token()}, strings.Fields(g.pick("PX "+g.px(), "XX PX "+g.px(), "NX GET PX "+g.px(), "XX KEEPTTL", "XX GET KEEPTTL"))...)...)
	case 3:
		return one(g.pick("DEL", "UNLINK", "GETDEL"), k)
	case 4:
		return one("PEXPIRE", k, strconv.Itoa((2*g.IntN(9)+1)*500_000+250_000), g.pick("NX", "XX", "GT", "LT"))
	case 5:
		change := [][]string{{"DEL", k}, {"PEXPIRE", k, g.px()}, {"SET", k, g.token(), "PX", g.px()}, {"SET", k, g.token(), "NX", "PX", g.px()}}[g.IntN(4)]
		return [][]string{{"WATCH", k}, {"GET", k}, {"MULTI"}, change, {"EXISTS", k}, {g.pick("EXEC", "EXEC", "DISCARD")}}
	case 6:
		return one(g.pick("GET", "STRLEN", "TYPE", "EXISTS"), k)
	case 7, 8, 9:
		return one("EVAL", g.script(), "3", "ka", "kb", "kc", "mine", "new", "3")
	}
	source := libraryScripts[g.IntN(len(libraryScripts))]
	keys := [][]string{{k}, {k}, {"ka", "kb"}, {k, g.name()}, {"ka", "kb", "kc"}}[g.IntN(5)]
	args := append(append([]string{strconv.Itoa(len(keys))}, keys...), g.token(), g.px())
	if g.IntN(2) == 0 {
		return [][]string{{"SCRIPT", "LOAD", source}, append([]string{"EVALSHA", sandbox.SHA(source)}, args...)}
	}
	return one(append([]string{"EVAL", source}, args...)...)
}

func TestScriptEndToEnd(t *testing.T) {
	for _, seed := range []uint64{1, scriptSeed(t)} {
		t.Run(fmt.Sprint("SCRIPT_SEED=", seed), func(t *testing.T) { endToEnd(t, seed, redisproc.SomeOf(100, 600)) })
	}
}

func endToEnd(t *testing.T, seed uint64, steps int) {
	redis := startRedis(t)
	long := func(o *redlock.Options) { o.MaxTTL, o.MaxHold = 24*time.Hour, 100*24*time.Hour }
	engine, masters := startEngine(t, long)
	var servers []*client
	for _, engine := range []*redlock.Client{engine, openEngine(t, masters, long)} {
		servers = append(servers, serve(t, func(o *Options) { o.Engine, o.AllowUnguarded = engine, everyKey }).dial())
	}
	theirs := dialTo(t, redis.Addr)
	g := &sequence{scriptGenerator{Rand: rand.New(rand.NewPCG(seed, 0)), real: true}}
	names := []string{"ka", "kb", "kc"}
	var done []string // since both had no keys, to be shown
	compared, refused, slow, scripts := 0, 0, 0, 0
	ours := servers[0]
	for range steps {
		if next := servers[g.IntN(len(servers))]; next != ours {
			ours.settle()
			ours = next
		}
		for _, args := range g.step() {
			done = append(done, fmt.Sprintf("%q", args))
			ours.send(args...)
			theirs.send(args...)
			got, want := ours.read().text, theirs.read().text
			late := machineWasSlow(got)
			if late || refusedByRight.MatchString(got) {
				refused++
				done = nil
				ours.until(`:\d`, "DEL", names[0], names[1], names[2])
				theirs.do("FLUSHALL")
				if late {
					slow++
					theirs.do("UNWATCH")
					break // what belongs together is not complete
				}
				continue
			}
			if got != want {
				t.Fatalf("got  %s\nRedis %s\nafter\n%s", got, want, strings.Join(done, "\n"))
			}
			if compared++; strings.HasPrefix(args[0], "EVAL") {
				scripts++
			}
		}
		g.sameState(t, ours, theirs, names, done)
		done = done[max(0, len(done)-30):]
	}
	t.Logf("%d replies compared, %d of scripts, %d refused by right, and %d of these because the machine was slow", compared, scripts, refused, slow)
	if scripts < steps/3 {
		t.Errorf("the sequence does not say much")
	}
}

// sameState fails the test unless both have the same keys. TTLs are multiples of 250 s: one that differs by less is the same.
func (g *sequence) sameState(t *testing.T, ours, theirs *client, names, done []string) {
	t.Helper()
	for _, name := range names {
		got, want := "", ""
		for _, look := range looks(name) {
			got += ours.do(look...).text + "\n"
			want += theirs.do(look...).text + "\n"
		}
		left := func(c *client) int {
			n, _ := strconv.Atoi(c.do("PTTL", name).text[1:])
			return n
		}
		gotLeft, wantLeft := left(ours), left(theirs)
		if got != want || max(gotLeft-wantLeft, wantLeft-gotLeft) > 100_000 {
			t.Fatalf("%s: got %s for %d ms\nRedis  %s for %d ms\nafter\n%s", name, got, gotLeft, want, wantLeft, strings.Join(slices.Clone(done), "\n"))
		}
	}
}
