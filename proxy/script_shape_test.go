// Goal: a shape answers what a run would have answered, for every script, call and state. Method: random scripts from a grammar
// of what may pass the analysis, and of what almost does, called with names that are often the same, and again with other names; what
// a call gets is compared with a run of the script. SCRIPT_SEED=n runs a failed seed again.
package proxy

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/sandbox"
)

// shapeGenerator makes scripts. What its expressions are made of is mostly what a shape can follow, sometimes what it must not.
type shapeGenerator struct {
	*rand.Rand
	locals int
}

func (g *shapeGenerator) pick(from ...string) string { return from[g.IntN(len(from))] }

// odd is true now and then.
func (g *shapeGenerator) odd() bool { return g.IntN(25) == 0 }

func (g *shapeGenerator) local() string { return "v" + strconv.Itoa(g.IntN(g.locals+1)) }

func (g *shapeGenerator) key() string {
	if g.odd() {
		return g.pick("KEYS[1] or ARGV[1]", "'ka'", g.local(), "KEYS[3]")
	}
	return g.pick("KEYS[1]", "KEYS[1]", "KEYS[1]", "KEYS[2]")
}

func (g *shapeGenerator) token() string {
	if g.odd() {
		return g.pick("ARGV[1] .. ''", "'mine'", "''", "10", "ARGV[1] or 'mine'", "KEYS[1]", "ARGV[2]", "ARGV[9]", "tostring(ARGV[1])")
	}
	return g.pick("ARGV[1]", "ARGV[1]", "ARGV[1]", "ARGV[3]", "("+g.pick("ARGV[1]", "nil")+" or ARGV[3])", g.local())
}

// number is what steers.
func (g *shapeGenerator) number() string {
	if g.odd() {
		return g.pick("ARGV[1]", "#ARGV[1]", "redis."+g.command(), "tonumber(ARGV[1])", "#ARGV", "redis.call('pttl', KEYS[1])", "redis.call('strlen', KEYS[1])", "9223372036854775000", "'x'")
	}
	return g.pick("ARGV[2]", "ARGV[2]", "tonumber(ARGV[2])", "5000", "ARGV[2] * 2", "-ARGV[2]", "0")
}

func (g *shapeGenerator) command() string {
	k := g.key()
	return g.pick("call", "call", "call", "pcall") + "(" + g.pick("'get', "+k, "'GET', "+k, "'get', "+k, "'exists', "+k+", "+g.key(), "'exists', "+k, "'del', "+k, "'del', "+k, "'unlink', "+k+", "+g.key(),
		"'pexpire', "+k+", "+g.number(), "'pexpire', "+k+", "+g.number(), "'expire', "+k+", "+g.number()+g.pick("", "", ", 'GT'", ", 'nx'"),
		"'set', "+k+", "+g.token()+g.setOptions(), "'set', "+k+", "+g.token()+g.setOptions(), "'SET', "+k+", "+g.token()+g.setOptions(),
		"'setnx', "+k+", "+g.token(), "'delifeq', "+k+", "+g.token(),
		g.pick("'get', "+k, "'get', "+k, "'get', "+k, "'pexpireat', "+k+", 4000000000000", "'time'", "'echo', ARGV[1]", "'publish', 'c', ARGV[1]", "'persist', "+k, "'getdel', "+k)) + ")"
}

func (g *shapeGenerator) setOptions() string {
	var b strings.Builder
	for range 1 + g.IntN(3) {
		b.WriteString(", " + g.pick("'nx'", "'XX'", "'PX', "+g.number(), "'px', "+g.number(), "'ex', "+g.number(), "'ifeq', "+g.token(), "'get'"))
	}
	if g.odd() {
		b.WriteString(", " + g.pick("'pxat', 4000000000000", "'keepttl'", "ARGV[1], 5", "'px', 9223370000000000000"))
	}
	return b.String()
}

func (g *shapeGenerator) value() string {
	switch g.IntN(8) {
	case 0:
		return g.token()
	case 1:
		return g.number()
	case 2:
		return g.local()
	case 3:
		return g.pick("nil", "false", "true", "0", "1", "'mine'")
	case 4:
		return "(" + g.value() + g.pick(" and ", " or ") + g.value() + ")"
	}
	return "redis." + g.command()
}

func (g *shapeGenerator) condition() string {
	switch g.IntN(14) {
	case 0:
		return g.value()
	case 1:
		return "not " + g.value()
	case 2:
		return g.value() + g.pick(" == ", " ~= ") + g.value()
	case 3:
		return g.number() + g.pick(" < ", " >= ") + g.pick("0", "5000", "tonumber(ARGV[2])")
	case 4:
		return "redis.call('exists', " + g.key() + ") == " + g.pick("0", "1")
	case 5:
		return "ARGV[2]" + g.pick(" == ", " ~= ") + "'5000'"
	case 6:
		return g.pick("ARGV[1] == ARGV[3]", "ARGV[1] ~= ''", "ARGV[1] < ARGV[3]", "KEYS[1] == ARGV[1]", "KEYS[1] == KEYS[2]", "redis.call('get', KEYS[1]) == 'mine'", "redis.call('get', KEYS[1]) == redis.call('get', KEYS[2])")
	case 7:
		return "(" + g.condition() + g.pick(" and ", " or ") + g.condition() + ")"
	}
	return "redis.call('get', " + g.key() + ")" + g.pick(" == ", " == ", " ~= ") + g.token()
}

func (g *shapeGenerator) block(depth int) string {
	var b strings.Builder
	locals := g.locals
	for range 1 + g.IntN(2) {
		switch n := g.IntN(7); {
		case n < 3 && depth < 3:
			b.WriteString("if " + g.condition() + " then " + g.block(depth+1) + g.pick("", " else "+g.block(depth+1), " elseif "+g.condition()+" then "+g.block(depth+1)) + " end ")
		case n == 3:
			name := "v" + strconv.Itoa(g.locals+1)
			if g.odd() {
				name = g.pick("ARGV", "KEYS", "redis", "tonumber", g.local())
			}
			b.WriteString("local " + name + " = " + g.pick(g.value(), g.value(), "KEYS[1]", "ARGV[1]") + " ")
			g.locals++
		case n == 4 && g.odd():
			b.WriteString(g.pick("ARGV[1] = 'mine' ", g.local()+" = ARGV[1] ", "for i = 1, 2 do "+g.block(depth+1)+" end ", "local a = ARGV ", "redis.setresp(3) "))
		default:
			b.WriteString("redis." + g.command() + " ")
		}
	}
	if depth > 0 && g.IntN(2) == 0 {
		b.WriteString("do return " + g.result() + " end ")
	}
	g.locals = locals
	return b.String()
}

func (g *shapeGenerator) result() string {
	return g.pick("0", "1", "nil", "false", "{ok = 'OK'}", "{1, "+g.value()+"}", "redis.status_reply('OK')", "redis.error_reply('NO way')", g.value(), g.value(), "{ok = "+g.value()+"}", g.condition())
}

func (g *shapeGenerator) script() string {
	g.locals = 0
	return "local v0 = " + g.pick("ARGV[1]", "redis.call('get', KEYS[1])", "nil") + " " + g.block(0) + "return " + g.result()
}

// shapeNames are tokens, and what keys hold.
var shapeNames = []string{"mine", "other", "", "10", "5000", "OK", "ka", "0", "1", "-7", "x", strangers[0] + " 0"}

func (g *shapeGenerator) name() string { return shapeNames[g.IntN(4)] }

// renamed is the same call with other names, of which the same are equal.
func (g *shapeGenerator) renamed(x *scriptExchange) *scriptExchange {
	order := g.Perm(len(shapeNames))
	rename := func(name string) string {
		if i := slices.Index(shapeNames, name); i >= 0 {
			return shapeNames[order[i]]
		}
		return name
	}
	y := &scriptExchange{slot: x.slot, script: x.script, declared: x.declared, keys: x.keys}
	for i, arg := range x.argv {
		if i != 1 {
			arg = rename(arg)
		}
		y.argv = append(y.argv, arg)
	}
	for _, st := range x.states {
		if st.Found {
			st.Value = rename(st.Value)
		}
		y.states = append(y.states, st)
	}
	return y
}

// call is a random call of the script.
func (g *shapeGenerator) call(srv *Server, script *knownScript) *scriptExchange {
	x := &scriptExchange{slot: slot{s: &session{server: srv}, account: new(account)}, script: script, declared: []string{"ka", "kb"}[:1+g.IntN(2)]}
	if g.IntN(20) == 0 {
		x.declared = []string{g.name(), g.pick("kb", "redlockd:k", "")}
	}
	x.keys = distinct(x.declared)
	for range g.IntN(2) + g.IntN(2) + g.IntN(2) + 1 {
		arg := g.name()
		if len(x.argv) == 1 {
			arg = g.pick("5000", "5000", "1", "0", "-1", "x", "", "9223372036854775807", "4000000000000")
		}
		x.argv = append(x.argv, arg)
	}
	for range x.keys {
		st := redlock.State{Type: "none"}
		if g.IntN(3) > 0 {
			st = redlock.State{Found: true, Type: "string", Value: g.name(), TTL: time.Duration(g.IntN(3)*5000-5000) * time.Millisecond}
		}
		x.states = append(x.states, st)
	}
	return x
}

// shapesKnown counts the shapes of a script, and the kinds that make none.
func shapesKnown(script *knownScript) (made, none int) {
	if all := script.shapes.known.Load(); all != nil {
		for _, k := range *all {
			if k.shape != nil {
				made++
			} else {
				none++
			}
		}
	}
	return made, none
}

// boxOnly is a server as far as runs need one.
func boxOnly() *Server { return &Server{boxes: scriptPool, shares: newScriptShares(1)} }

func addScript(t *testing.T, source string) *knownScript {
	t.Helper()
	script, err := new(scriptCache).add(source, 1)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return script
}

// ran is the outcome of a run of x's script on what x is about to be run on.
func ran(x *scriptExchange) outcome {
	box := *x
	box.runInBox(0, nil)
	return box.outcome
}

// words shows all of an outcome.
func words(o outcome) string {
	if o.reply.Kind == sandbox.Error {
		o.reply.Text, _, _ = strings.Cut(o.reply.Text, " table: 0x")
	}
	return fmt.Sprintf("%s, reads %v, writes %v, reply %+v", o, o.reads, o.writes, o.reply)
}

func TestShapeAnswersAsARun(t *testing.T) {
	seed := scriptSeed(t)
	g := &shapeGenerator{Rand: rand.New(rand.NewPCG(seed, 0))}
	srv := boxOnly()
	inside, answered, wrote := 0, 0, 0
	const scripts, calls = 1000, 30
	for range scripts {
		script := addScript(t, g.script())
		if script.Steering() == nil {
			continue
		}
		inside++
		x := g.call(srv, script)
		for i := range calls {
			if x = g.renamed(x); i%6 == 0 {
				x = g.call(srv, script)
			}
			var n names
			sh, _ := script.shapes.find(x.kind(nil, &n))
			if sh != nil {
				answered++
				if len(sh.writes) > 0 {
					wrote++
				}
			}
			want := ran(x)
			x.run(0)
			if strings.Contains(words(want)+words(x.outcome), "script stopped after") {
				continue // the machine is busy
			}
			if got, want := words(x.outcome), words(want); got != want {
				t.Fatalf("SCRIPT_SEED=%d:\n%s\n%v, keys %q, argv %q, on %+v\n got %s\nwant %s", seed, script.source, script.Steering(), x.keys, x.argv, x.states, got, want)
			}
		}
		if made, none := shapesKnown(script); made+none > shapesMax {
			t.Fatalf("%d shapes, %d others:\n%s", made, none, script.source)
		}
	}
	t.Logf("of %d scripts %d can have shapes, which answered %d of %d calls, with writes %d", scripts, inside, answered, calls*inside, wrote)
	if inside < scripts/4 || answered < calls*inside/4 || wrote < answered/20 {
		t.Errorf("the shapes do not say much")
	}
}

// The scripts of libraries, as their calls come: after the first of a kind the VM has nothing to do.
func TestShapesOfLibraries(t *testing.T) {
	srv := boxOnly()
	for _, source := range []string{
		releaseScript,
		`local v = redis.call('GET', KEYS[1]); if v and v == ARGV[1] then redis.call('DEL', KEYS[1]); return 1 end; return 0`,
		`local v = redis.call("GET", KEYS[1]) if v == ARGV[1] then return redis.call("UNLINK", KEYS[1]) elseif v == false then return -1 else return 0 end`,
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`,
		`if redis.call("get", KEYS[1]) == ARGV[1] then redis.call("expire", KEYS[1], tonumber(ARGV[2])) return {ok = "OK"} end return nil`,
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("set", KEYS[1], ARGV[1], "XX", "PX", ARGV[2]) end`,
		`if redis.call("get", KEYS[1]) == ARGV[1] then redis.call("del", KEYS[1]) end return redis.call("set", KEYS[1], ARGV[3], "px", ARGV[2], "nx")`,
	} {
		script := addScript(t, source)
		for i := range 20 {
			token := "token " + strconv.Itoa(i)
			for kind, st := range []redlock.State{{Type: "none"}, {Found: true, Type: "string", Value: token, TTL: time.Second}, {Found: true, Type: "string", Value: "another's", TTL: time.Second}} {
				x := &scriptExchange{slot: slot{s: &session{server: srv}, account: new(account)}, script: script, declared: []string{"key " + strconv.Itoa(i)}, argv: []string{token, "5000", "new " + token}, states: []redlock.State{st}}
				x.keys = x.declared
				var n names
				if sh, _ := script.shapes.find(x.kind(nil, &n)); (sh != nil) != (i > 0) {
					t.Errorf("call %d of kind %d has the shape %+v:\n%s", i, kind, sh, source)
				}
				want := ran(x)
				x.run(0)
				if got, want := words(x.outcome), words(want); got != want {
					t.Errorf("call %d of kind %d:\n%s\n got %s\nwant %s", i, kind, source, got, want)
				}
			}
		}
	}
}

// Calls whose argument that steers is another each time fill the shapes; the VM answers then, and later there is room again.
func TestShapesAreBounded(t *testing.T) {
	srv := boxOnly()
	script := addScript(t, `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`)
	call := func(ttl int) {
		t.Helper()
		x := &scriptExchange{slot: slot{s: &session{server: srv}, account: new(account)}, script: script, declared: []string{"k"}, argv: []string{"t", strconv.Itoa(ttl)}, states: []redlock.State{{Found: true, Type: "string", Value: "t"}}}
		x.keys = x.declared
		x.run(0)
		if want := []keyWrite{{key: "k", kind: writeExpire, ttl: int64(ttl)}}; !reflect.DeepEqual(x.outcome.writes, want) {
			t.Fatalf("writes %v, want %v", x.outcome.writes, want)
		}
	}
	for ttl := range 100 {
		call(1000 + ttl)
	}
	if made, none := shapesKnown(script); made != shapesMax || none != 0 {
		t.Errorf("%d shapes and %d others, want %d", made, none, shapesMax)
	}
	for range shapesStale {
		call(5000)
	}
	if made, _ := shapesKnown(script); made != 1 {
		t.Errorf("%d shapes, want that of the calls that come", made)
	}
	call(123456789012345678) // too long to be kept
	if made, _ := shapesKnown(script); made != 1 {
		t.Errorf("%d shapes, want 1", made)
	}
}
