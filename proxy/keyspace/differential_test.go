package keyspace

import (
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/redisproc"
	"redlockd/redlock/resp"
)

// Goal: commands answer and change keys here as they do in Redis. Method: random commands, a few in a row on the same keys, on random
// states; to a Space and to a real redis-server, comparing each reply and what the keys hold afterwards. KEYSPACE_SEED=n runs a failed
// seed again.
//
// TTLs are of different lengths, and far longer than the test takes: what is left of one tells which it is.
func TestSameAsRedis(t *testing.T) {
	redis := redisproc.StartForTest(t, 1)[0]
	conn, err := net.Dial("tcp", redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := new(resp.ReplyReader)

	seed := rand.Uint64()
	if text := os.Getenv("KEYSPACE_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	failed, wrote := 0, 0
	const rounds, commands = 3000, 6
	for range rounds {
		keys, states := []string{"a", "b", "c"}, make([]redlock.State, 3)
		lines := [][]string{{"flushall"}}
		for i, name := range keys {
			states[i] = g.state()
			switch st := states[i]; {
			case st.Found && st.TTL > 0:
				lines = append(lines, []string{"set", name, st.Value, "px", strconv.FormatInt(st.TTL.Milliseconds(), 10)})
			case st.Found:
				lines = append(lines, []string{"set", name, st.Value})
			default:
				lines = append(lines, []string{"ping"})
			}
		}
		prepared := len(lines)
		for range commands {
			lines = append(lines, g.command())
		}
		asked := len(lines)
		for _, name := range keys {
			lines = append(lines, []string{"get", name}, []string{"pttl", name})
		}
		replies := ask(t, conn, reader, lines)

		space := New(keys, states, time.Now())
		for i, line := range lines[prepared:asked] {
			reply := failure("ERR wrong number of arguments for '" + line[0] + "' command")
			if d := Lookup(line[0]); len(line) == d.Arity || d.Arity < 0 && len(line) >= -d.Arity {
				if reply, err = space.Call(line[0], line[1:]); err != nil {
					t.Fatal(err)
				}
			}
			got, want := string(reply.AppendTo(nil, 2)), replies[prepared+i]
			if got != want && !sameTimes(got, want) {
				t.Fatalf("KEYSPACE_SEED=%d: on %+v: %q: %q answers %q, Redis %q", seed, states, lines[prepared:asked], line, got, want)
			}
			if want[0] == '-' {
				failed++
			}
		}
		for i, st := range statesAfter(space.Outcome(), keys, states) {
			value, left := string(bulkOrNull(st.Value, st.Found).AppendTo(nil, 2)), leftMs(st)
			wantValue, wantLeft := replies[asked+2*i], replies[asked+2*i+1]
			wantMs, _ := resp.ParseInt(wantLeft[1 : len(wantLeft)-2])
			wantMs = min(wantMs, Duration(wantMs).Milliseconds()) // as long as a time.Duration goes
			if value != wantValue || left != wantMs && !sameTime(left, wantMs) {
				t.Fatalf("KEYSPACE_SEED=%d: on %+v: %q: key %s has %q and %d ms, in Redis %q and %d ms", seed, states, lines[prepared:asked], keys[i], value, left, wantValue, wantMs)
			}
		}
		if space.Outcome().Writes {
			wrote++
		}
	}
	t.Logf("%d of %d commands failed, %d of %d runs wrote", failed, rounds*commands, wrote, rounds)
	if failed > rounds*commands/4 || wrote < rounds/2 {
		t.Error("the commands do not say much")
	}
}

// sameTime reports whether two times, in seconds or ms, are of one moment: less than 5 s pass during a run, and in seconds not even one.
func sameTime(a, b int64) bool { return a > 60 && b > 60 && max(a-b, b-a) < 5_000 }

// sameTimes is sameTime for two replies.
func sameTimes(a, b string) bool {
	x, okX := resp.ParseInt(strings.Trim(a, ":\r\n"))
	y, okY := resp.ParseInt(strings.Trim(b, ":\r\n"))
	return okX && okY && sameTime(x, y)
}

func leftMs(st redlock.State) int64 {
	switch {
	case !st.Found:
		return -2
	case st.TTL < 0:
		return -1
	}
	return st.TTL.Milliseconds()
}

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

// ask sends lines to a Redis at once and returns its replies as they came, arrays with all their elements.
func ask(t *testing.T, conn net.Conn, reader *resp.ReplyReader, lines [][]string) (replies []string) {
	t.Helper()
	var out []byte
	for _, line := range lines {
		out = resp.AppendArray(out, len(line))
		for _, arg := range line {
			out = resp.AppendBulkString(out, arg)
		}
	}
	if _, err := conn.Write(out); err != nil {
		t.Fatal(err)
	}
	for range lines {
		raw := []byte(nil)
		for left := 1; left > 0; left-- {
			r, err := reader.ReadReply(conn)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case r.Kind == '*':
				raw = resp.AppendArray(raw, int(r.N))
				left += int(r.N)
			case r.Null:
				raw = resp.AppendNull(raw, 2)
			case r.Kind == '$':
				raw = resp.AppendBulk(raw, r.Text)
			case r.Kind == ':':
				raw = resp.AppendInt(raw, r.N)
			default:
				raw = append(append(append(raw, r.Kind), r.Text...), "\r\n"...)
			}
		}
		replies = append(replies, string(raw))
	}
	return replies
}

// generator makes random states and commands.
type generator struct {
	*rand.Rand
	lengths int64
}

func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }
func (g *generator) key() string                { return g.pick("a", "a", "a", "b", "c") }
func (g *generator) value() string              { return g.pick("v", "v", "w", "", "10", "a longer value") }

// seconds is a length of time that no other is near to.
func (g *generator) seconds() int64 {
	g.lengths++
	return 1000 * (1 + (g.lengths*7919)%5000)
}

func (g *generator) state() redlock.State {
	switch g.IntN(4) {
	case 0:
		return absent
	case 1:
		return redlock.State{Found: true, Type: "string", Value: g.value(), TTL: -1}
	}
	return redlock.State{Found: true, Type: "string", Value: g.value(), TTL: time.Duration(g.seconds()) * time.Second}
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
	switch g.IntN(16) {
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
