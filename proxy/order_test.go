package proxy

// Goal: many callers share one connection. What waits holds up what must stay behind it and nothing else, no caller sees his own commands
// executed in another order, and a client that leaves takes all with it that waits.
// Method: dialogues in virtual time with a server over masters in this process; random pipelines on one connection and on one for each caller.

import (
	"fmt"
	"math/rand/v2"
	"net"
	"redlockd/redlock"
	"redlockd/redlock/redisproc"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhatStaysBehind(t *testing.T) {
	keys := func(keys ...string) []string { return keys }
	waits := turn{keys: keys("k"), words: keys("a"), acquires: true, waits: true, queues: true}
	made := turn{keys: keys("k"), words: keys(""), acquires: true, waits: true, queues: true}
	script := turn{keys: keys("k", "l"), words: keys("a", "1000"), rounds: true}
	later := script
	later.starts = reread{}
	unlock := func(key, token string) turn { return turn{keys: keys(key), words: keys(token)} }
	for _, tt := range []struct {
		name    string
		t       turn
		earlier turn
		want    bool
	}{
		{"a LOCK behind a LOCK that waits", turn{keys: keys("other"), words: keys("b"), acquires: true}, waits, true},
		{"a LOCK with WAIT of the same resource", turn{keys: keys("k"), words: keys("b"), acquires: true, waits: true, queues: true}, waits, false},
		{"one of the same token, too", turn{keys: keys("k"), words: keys("a"), acquires: true, waits: true, queues: true}, waits, true},
		{"a reader, which does not queue", turn{keys: keys("k"), words: keys("b"), acquires: true, waits: true}, waits, true},
		{"two that make their tokens", made, made, false},
		{"a LOCK without WAIT of the same resource", turn{keys: keys("k"), words: keys("b"), acquires: true}, waits, true},
		{"one that waits for more", turn{keys: keys("k", "l"), words: keys("b"), acquires: true, waits: true}, waits, true},
		{"the UNLOCK of its token", unlock("k", "a"), waits, true},
		{"an UNLOCK of another token", unlock("k", "b"), waits, false},
		{"an UNLOCK of this token elsewhere", unlock("l", "a"), waits, false},
		{"of one of several keys", turn{keys: keys("l", "k"), words: keys("a")}, waits, true},
		{"an UNLOCK behind a LOCK that makes its token", unlock("k", "a"), made, false},
		{"a DEL, which names no token", turn{keys: keys("k"), rounds: true}, made, true},
		{"a read", turn{keys: keys("k"), reads: true}, waits, false},
		{"a read behind a script", turn{keys: keys("l"), reads: true}, script, true},
		{"a read behind a script that is postponed", turn{keys: keys("l"), reads: true}, later, true},
		{"any token behind a script", unlock("l", "b"), script, true},
		{"another token behind a script that is postponed", unlock("l", "b"), later, false},
		{"the token of a script that is postponed", unlock("l", "a"), later, true},
		{"other keys than those of a script", unlock("m", "a"), script, false},
		{"a LOCK behind a script elsewhere", turn{keys: keys("m"), words: keys("a"), acquires: true}, script, false},
		{"a script behind a LOCK that waits for its key", script, waits, true},
		{"a script of another token", turn{keys: keys("k"), words: keys("b"), rounds: true}, waits, false},
	} {
		if got := tt.t.behind(&tt.earlier); got != tt.want {
			t.Errorf("%s: stays behind: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Who waits for a lock, and who is to release it, share a connection.
func TestUnlockGoesAheadOfALockThatWaits(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		c := srv.dial()
		release := func(key, token string) []string { return []string{"EVAL", releaseScript, "1", key, token} }
		for _, releases := range [][]string{{"UNLOCK", "k", "a"}, {"MUNLOCK", "1", "k", "a"}, {"DELEX", "k", "IFEQ", "a"}, release("k", "a")} {
			began := time.Now()
			c.do("LOCK", "k", "60s", "TOKEN", "a").granted(1, 60000)
			c.raw(frameOf("LOCK", "k", "60s", "TOKEN", "b", "WAIT", "60s") + frameOf("EXTEND", "k", "a", "50s") + frameOf("HOLD", "other", "o", "40s") +
				frameOf("GET", "k") + frameOf("KEEPALIVE") + frameOf("LOCKINFO", "k") + frameOf(releases...) + frameOf("PING"))
			c.read().granted(1, 60000)
			c.read().within(49000, 50000)
			c.read().is("*nil")
			c.read().is(`"a"`)
			c.read().matches(`\["validity" :\d+ "held" :[01] .*`)
			c.read().matches(`.*"held" :1 .*`)
			c.read().is(":1")
			c.read().is("+PONG")
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("%s: the lock was handed over after %v, want at once", releases[0], took)
			}
			c.do("UNLOCK", "k", "b").is(":1")
		}
	})
}

// What may take a lock stays behind a LOCK that waits, whatever command takes it: its validity would run while its reply waits. So does what
// names the token of a LOCK that waits.
func TestWhatTakesALockStaysBehindALockThatWaits(t *testing.T) {
	redisproc.NotRaced(t)
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, func(o *Options) { o.DefaultTTL = time.Minute })
		srv.put("gate", "open", time.Hour, 0, 1, 2, 3, 4)
		c, other := srv.dial(), srv.dial()
		for name, takes := range map[string]struct{ command, reply string }{
			"LOCK":               {frameOf("LOCK", "l", "60s", "TOKEN", "mine"), `\["mine" :(59\d\d\d|60000)\]`},
			"LOCK SLOTS":         {frameOf("LOCK", "l", "60s", "TOKEN", "mine", "SLOTS", "3"), `\["mine" :(59\d\d\d|60000) "l#\d"\]`},
			"LOCK WAIT":          {frameOf("LOCK", "l", "60s", "TOKEN", "mine", "WAIT", "20s"), `\["mine" :(59\d\d\d|60000)\]`},
			"MLOCK":              {frameOf("MLOCK", "2", "l", "m", "60s", "TOKEN", "mine"), `\["mine" :(59\d\d\d|60000)\]`},
			"SET NX":             {frameOf("SET", "l", "mine", "NX", "PX", "60000"), `\+OK`},
			"SET NX GET":         {frameOf("SET", "l", "mine", "NX", "GET", "PX", "60000"), `[$_]nil`},
			"SETNX":              {frameOf("SETNX", "l", "mine"), ":1"},
			"MSETNX":             {frameOf("MSETNX", "l", "mine", "m", "mine"), ":1"},
			"INCR":               {frameOf("INCR", "l"), ":1"},
			"HSETNX":             {frameOf("HSETNX", "l", "f", "mine"), ":1"},
			"script, one round":  {frameOf("EVAL", "return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', 60000)", "1", "l", "mine"), `\+OK`},
			"script, two rounds": {frameOf(take("l", "mine")...), ":1"},
			"transaction":        {frameOf("MULTI") + frameOf("SET", "l", "mine", "NX", "PX", "60000") + frameOf("EXEC"), `\+OK`},
		} {
			other.do("LOCK", "k", "60s", "TOKEN", "a").granted(1, 60000)
			c.raw(frameOf("LOCK", "k", "60s", "TOKEN", "b", "WAIT", "50s") + takes.command + frameOf("UNLOCK", "k", "b") + frameOf("PING"))
			time.Sleep(30 * time.Second)
			synctest.Wait()
			other.do("EXISTS", "l", "l#0", "l#1", "l#2", "m").is(":0")
			other.do("GET", "k").is(`"a"`)
			other.do("UNLOCK", "k", "a").is(":1")
			c.read().granted(1, 60000)
			if name == "transaction" {
				c.read().is("+OK")
				c.read().is("+QUEUED")
				takes.reply = `\[` + takes.reply + `\]`
			}
			if text := c.read(); regexp.MustCompile("^"+takes.reply+"$").FindString(text.text) == "" {
				t.Errorf("%s: got %s, want %s", name, text.text, takes.reply)
			}
			c.read().is(":1")
			c.read().is("+PONG")
			for i := range srv.masters {
				for _, key := range []string{"l", "m", "l#0", "l#1", "l#2"} {
					srv.onMaster(i, "DEL", key)
				}
			}
			time.Sleep(2 * time.Minute) // nobody remembers
		}
	})
}

// The WAIT of a LOCK runs from when it came, and what is left of it when its turn comes counts.
func TestWaitOfAPostponedLock(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		c, other := srv.dial(), srv.dial()
		other.do("LOCK", "k", "60s", "TOKEN", "a").granted(1, 60000)
		other.do("LOCK", "l", "60s", "TOKEN", "a").granted(1, 60000)
		began := time.Now()
		c.raw(frameOf("LOCK", "k", "20s", "TOKEN", "b", "WAIT", "10s") + frameOf("LOCK", "l", "20s", "TOKEN", "b", "WAIT", "25s") +
			frameOf("LOCK", "l", "20s", "TOKEN", "c", "WAIT", "1s") + frameOf("LOCK", "m", "20s", "TOKEN", "b", "WAIT", "1s"))
		for i, want := range []time.Duration{10 * time.Second, 25 * time.Second, 25 * time.Second} {
			c.read().is("*nil")
			if took := time.Since(began).Round(time.Second); took != want {
				t.Errorf("LOCK %d was denied after %v, want %v", i, took, want)
			}
		}
		c.read().granted(1, 20000)
	})
}

// A reply with a validity that others keep back says what is left when it is sent.
func TestValidityOfAReplyThatWaits(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		c, other := srv.dial(), srv.dial()
		other.do("LOCK", "k", "60s", "TOKEN", "a").granted(1, 60000)
		c.do("LOCK", "l", "60s", "TOKEN", "a").granted(1, 60000)
		c.raw(frameOf("LOCK", "k", "20s", "TOKEN", "b", "WAIT", "10s") + frameOf("EXTEND", "l", "a", "15s") + frameOf("HOLD", "l", "a", "12s") +
			frameOf("EXTEND", "l", "a", "9s") + frameOf("EXTEND", "l", "wrong", "9s"))
		c.read().is("*nil")
		c.read().within(4500, 5000)
		c.read().granted(1500, 2000)
		c.read().is(":0")
		c.read().is(":0")
	})
}

// What is about the connection itself waits until nothing waits any more, and the client is seen to leave all the same.
func TestCommandsAboutTheConnectionStayBehind(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		other := srv.dial()
		other.do("LOCK", "k", "60s", "TOKEN", "a").granted(1, 60000)
		for _, command := range [][]string{{"HELLO", "3"}, {"RESET"}, {"CLIENT", "REPLY", "OFF"}, {"SUBSCRIBE", "ch"}, {"QUIT"}} {
			c := srv.dial()
			c.raw(frameOf("LOCK", "k", "60s", "WAIT", "60s") + frameOf(command...) + frameOf("PING"))
			srv.waiting(1)
			synctest.Wait()
			if conn := srv.clients()[1]; !conn.stopped || conn.inFlight.Load() != 1 {
				t.Errorf("%v was executed while a LOCK waits", command)
			}
			c.conn.Close()
			srv.waiting(0)
			synctest.Wait()
		}
	})
}

// A connection has a place for so many who wait; the next one is told so, releases go on, and a client that vanishes leaves nothing behind.
func TestThousandLocksThatWaitOnOneConnection(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		other := srv.dial()
		for _, end := range redisproc.Some(1, []string{"closes", "half-closes", "is killed", "is granted"}) {
			other.do("LOCK", "k", "60s", "TOKEN", "a").granted(1, 60000)
			c := srv.dial()
			id := c.id()
			go readOn(c, end == "is granted")
			var b strings.Builder
			for i := range acquiresMax {
				b.WriteString(frameOf("LOCK", []string{"k", "l"}[i/500], "60s", "TOKEN", fmt.Sprint("t", i), "WAIT", "60s"))
			}
			c.raw(b.String() + frameOf("LOCK", "l", "60s") + frameOf("SET", "l", "x", "NX", "PX", "60000") + strings.Repeat(frameOf("UNLOCK", "l", "x"), 500))
			synctest.Wait()
			conn := srv.clients()[1]
			if n := conn.inFlight.Load(); n != acquiresMax+502 {
				t.Fatalf("%d commands are in flight, want %d that wait, two that are refused and 500 that are done", n, acquiresMax)
			}
			if n := conn.order.waiting.Load(); n != acquiresMax {
				t.Errorf("%d wait, want %d", n, acquiresMax)
			}
			other.do("LOCKINFO", "k").matches(`.*"waiters" :500 .*`)
			switch end {
			case "closes":
				c.conn.Close()
			case "half-closes":
				c.conn.Close() // of a pipe there is no half
			case "is killed":
				other.do("CLIENT", "KILL", "ID", id).is(":1")
			case "is granted":
				other.do("UNLOCK", "k", "a").is(":1")
				time.Sleep(10 * time.Second)
				c.conn.Close()
			}
			eventually(t, "it is gone with all", func() bool { return len(srv.clients()) == 1 && srv.opts.Engine.Stats().Waiters == 0 })
			if n := conn.order.length.Load(); n != 0 {
				t.Errorf("%s: %d are still in the order", end, n)
			}
			if end != "is granted" {
				other.do("UNLOCK", "k", "a").is(":1")
			}
			time.Sleep(2 * time.Minute)
			other.do("LOCK", "k", "60s", "TOKEN", "next").granted(1, 60000)
			other.do("UNLOCK", "k", "next").is(":1")
		}
	})
}

// readOn reads what the server sends until it ends; of a client that releases what it is granted, it sends the UNLOCKs.
func readOn(c *client, releases bool) {
	for {
		text, err := readReply(c.r)
		if err != nil {
			return
		}
		if token, ok := strings.CutPrefix(text, `["`); ok && releases {
			if _, err := c.conn.Write([]byte(frameOf("UNLOCK", "k", token[:strings.Index(token, `"`)]))); err != nil {
				return
			}
		}
	}
}

// A client that has ended its stream is granted nothing, also of what waits for its turn.
func TestHalfClosedWithWhatIsPostponed(t *testing.T) {
	srv := serve(t)
	c, other := srv.dial(), srv.dial()
	other.do("LOCK", "k", "60s", "TOKEN", "a").granted(1, 60000)
	c.raw(frameOf("LOCK", "k", "60s", "TOKEN", "b", "WAIT", "60s") + frameOf("LOCK", "l", "60s") + frameOf("SET", "m", "x", "NX", "PX", "60000") +
		frameOf(take("n", "x")...) + frameOf("UNLOCK", "k", "b") + frameOf("PING"))
	srv.waiting(1)
	c.conn.(*net.TCPConn).CloseWrite()
	for range 3 {
		c.read().err("UNBLOCKED")
	}
	c.read() // the script: a look at its keys may come first
	c.read().is(":0")
	c.read().is("+PONG")
	c.closed()
	other.do("EXISTS", "l", "m", "n").is(":0")
	other.do("UNLOCK", "k", "a").is(":1")
}

// caller is one of those who share a connection.
type caller struct {
	commands []string
	replies  []string
}

// Random pipelines on one connection get the replies that each caller gets on one of his own: no command of a caller is executed in another order
// than he sent it in, and none is lost. Each caller has a token and keys of his own, and waits for keys that a stranger holds for a while.
func TestPipelinesOfManyCallers(t *testing.T) {
	for seed := range redisproc.SomeOf[uint64](8, 40) {
		inVirtualTime(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			callers := make([]caller, 1+random.IntN(8))
			for i := range callers {
				callers[i].commands = randomCommands(random, fmt.Sprint("c", i))
			}
			one := slices.Clone(callers)
			playPipelines(t, one, true, random)
			many := slices.Clone(callers)
			playPipelines(t, many, false, random)
			for i := range callers {
				for k := range callers[i].commands {
					if one[i].replies[k] != many[i].replies[k] {
						t.Fatalf("seed %d: caller %d, command %d, %q:\ngot  %s on the shared connection\nwant %s, as on one of his own\nafter %q",
							seed, i, k, callers[i].commands[k], one[i].replies[k], many[i].replies[k], callers[i].commands[:k])
					}
				}
			}
		})
	}
}

// randomCommands are those of one caller: he locks and releases in pairs, with commands between that find out whether the lock is there.
func randomCommands(random *rand.Rand, name string) (commands []string) {
	token := "token of " + name
	for range 1 + random.IntN(12) {
		key := fmt.Sprint(name, ":", random.IntN(2))
		wait := "50s"
		held := random.IntN(3) == 0
		if held {
			key = fmt.Sprint("held:", name)
		}
		locks := [][]string{
			{"LOCK", key, "60s", "TOKEN", token, "WAIT", wait}, {"LOCK", key, "60s", "TOKEN", token}, {"MLOCK", "2", key, name + ":m", "60s", "TOKEN", token, "WAIT", wait},
			{"SET", key, token, "NX", "PX", "60000"}, {"SET", key, token, "NX", "GET", "PX", "60000"},
			{"EVAL", "return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', 60000) and 1 or 0", "1", key, token},
			take(key, token),
		}
		tests := [][]string{
			{"EXTEND", key, token, "50s"}, {"PING"}, {"EVAL", slowExtend, "1", key, token, "1000"},
			{"EVAL", "return redis.call('get', KEYS[1]) == ARGV[1] and 1 or 0", "1", key, token}, {"INCR", name + ":counter"},
		}
		unlocks := [][]string{{"UNLOCK", key, token}, {"DELEX", key, "IFEQ", token}, {"EVAL", releaseScript, "1", key, token}}
		lock := locks[random.IntN(len(locks))]
		if held { // what does not wait is answered by when it comes
			lock = locks[0]
		}
		commands = append(commands, frameOf(lock...))
		for range random.IntN(4) {
			commands = append(commands, frameOf(tests[random.IntN(len(tests))]...))
		}
		if lock[0] == "MLOCK" {
			unlocks = [][]string{{"MUNLOCK", "2", key, name + ":m", token}}
		}
		commands = append(commands, frameOf(unlocks[random.IntN(len(unlocks))]...))
	}
	return commands
}

// numbers of validities differ by what others cost.
var validities = regexp.MustCompile(`:\d{4,}`)

// playPipelines sends the commands of all callers, in one or more writes, on one connection or on one for each of them.
func playPipelines(t *testing.T, callers []caller, shared bool, random *rand.Rand) {
	srv := serveWith(t, func(o *redlock.Options) { o.MaxTTL = time.Minute }, func(o *Options) { o.DefaultTTL = time.Hour })
	srv.put("gate", "open", time.Hour, 0, 1, 2, 3, 4)
	other := srv.dial()
	for i := range callers {
		other.do("LOCK", fmt.Sprint("held:c", i), "60s", "TOKEN", "stranger").granted(1, 60000)
	}
	clients := make([]*client, len(callers))
	for i := range clients {
		if clients[i] = srv.dial(); shared {
			clients[i] = clients[0]
		}
	}
	type sent struct{ caller, command int }
	var order []sent // of the replies on one connection
	next := make([]int, len(callers))
	for i := range callers {
		callers[i].replies = make([]string, len(callers[i].commands))
	}
	var input strings.Builder
	for left := true; left; {
		left = false
		for _, i := range random.Perm(len(callers)) {
			if k := next[i]; k < len(callers[i].commands) {
				left = true
				next[i]++
				order = append(order, sent{i, k})
				input.WriteString(callers[i].commands[k])
			}
		}
	}
	var readers sync.WaitGroup
	for i := range clients {
		if shared && i > 0 {
			break
		}
		readers.Go(func() {
			for _, s := range order {
				if shared || s.caller == i {
					text, err := readReply(clients[i].r) // a LOCK may wait longer than the patience of a test
					if err != nil {
						text = err.Error()
					}
					callers[s.caller].replies[s.command] = validities.ReplaceAllString(text, ":n")
				}
			}
		})
		if shared {
			clients[0].raw(input.String())
		} else {
			clients[i].raw(strings.Join(callers[i].commands, ""))
		}
	}
	time.Sleep(5 * time.Second)
	for i := range callers {
		other.do("UNLOCK", fmt.Sprint("held:c", i), "stranger").is(":1")
	}
	readers.Wait()
}

// mux is a connection that callers share, as the clients of today do: replies find their callers by their order.
type mux struct {
	*client
	mu      sync.Mutex
	waiting chan chan string
}

func (srv *testServer) dialShared() *mux {
	m := &mux{client: srv.dial(), waiting: make(chan chan string, 100)}
	srv.t.Cleanup(func() { close(m.waiting) })
	go func() {
		for to := range m.waiting {
			text, err := readReply(m.r)
			if err != nil {
				text = "closed: " + err.Error()
			}
			to <- text
		}
	}()
	return m
}

func (m *mux) call(args ...string) <-chan string {
	to := make(chan string, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting <- to
	if _, err := m.conn.Write([]byte(frameOf(args...))); err != nil {
		m.t.Error(err)
	}
	return to
}

// Callers share one connection to each of two servers, and masters stand still for a moment, now one and now three. No two hold a lock at the same
// time, whatever took it; nobody waits for longer than his WAIT and what was before it; and in the end all is free.
func TestCallersOfSharedConnectionsUnderFaults(t *testing.T) {
	const callers, ttl = 12, 20 * time.Second
	for seed := range redisproc.SomeOf[uint64](2, 8) {
		inVirtualTime(t, func(t *testing.T) {
			srv := serve(t)
			twin := srv.twin()
			shared := []*mux{srv.dialShared(), twin.dialShared()}
			var mu sync.Mutex
			until := map[string]time.Time{}
			owner := map[string]string{}
			granted := 0
			takes := func(key, token string) {
				mu.Lock()
				defer mu.Unlock()
				if time.Now().Before(until[key]) {
					t.Errorf("seed %d: %s is granted %s, which %s holds", seed, token, key, owner[key])
				}
				granted++
				until[key], owner[key] = time.Now().Add(ttl/2), token // less than the validity that remains of any grant
			}
			leaves := func(key, token string) {
				mu.Lock()
				defer mu.Unlock()
				if owner[key] == token {
					delete(until, key)
				}
			}
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(i)))
					for n := range 15 {
						conn := shared[i%len(shared)]
						key, token := fmt.Sprint("k", random.IntN(2)), fmt.Sprintf("t%d-%d", i, n)
						var lock []string
						switch random.IntN(5) {
						case 0:
							lock = []string{"LOCK", key, "20s", "TOKEN", token}
						case 1:
							lock = []string{"SET", key, token, "NX", "PX", "20000"}
						case 2:
							lock = []string{"EVAL", "return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', 20000) and 1 or 0", "1", key, token}
						default:
							lock = []string{"LOCK", key, "20s", "TOKEN", token, "WAIT", "10s"}
						}
						reply := <-conn.call(lock...)
						if held := reply == "+OK" || reply == ":1" || strings.HasPrefix(reply, "["); !held {
							if random.IntN(2) == 0 {
								<-conn.call("UNLOCK", key, token) // NOQUORUM: it may be held
							}
							time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
							continue
						}
						takes(key, token)
						time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
						release := [][]string{{"UNLOCK", key, token}, {"DELEX", key, "IFEQ", token}, {"EVAL", releaseScript, "1", key, token}}[random.IntN(3)]
						leaves(key, token)
						<-conn.call(release...)
					}
				})
			}
			stop := make(chan struct{})
			var faults sync.WaitGroup
			faults.Go(func() {
				random := rand.New(rand.NewPCG(seed, 99))
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(random.IntN(1500)) * time.Millisecond):
					}
					still := random.Perm(5)[:1+2*random.IntN(2)]
					for _, m := range still {
						srv.masters[m].Freeze()
					}
					time.Sleep(time.Duration(random.IntN(800)) * time.Millisecond)
					for _, m := range still {
						srv.masters[m].Thaw()
					}
				}
			})
			all.Wait()
			close(stop)
			faults.Wait()
			if granted < callers {
				t.Errorf("seed %d: %d grants, want more than one of each caller", seed, granted)
			}
			for _, server := range []*testServer{srv, twin} {
				for _, conn := range server.clients() {
					if n := conn.order.length.Load(); n != 0 {
						t.Errorf("seed %d: %d commands are still in the order", seed, n)
					}
				}
			}
			time.Sleep(time.Minute)
			last := srv.dial()
			last.do("LOCK", "k0", "20s").granted(1, 20000)
			last.do("LOCK", "k1", "20s").granted(1, 20000)
		})
	}
}

// A reader is let in beside others while a writer waits. Behind the writer's LOCK on the same connection it would hold a lock of which it cannot know.
func TestReaderStaysBehindAWriterThatWaits(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		c, other := srv.dial(), srv.dial()
		other.do("LOCK", "k", "20s", "SHARED", "TOKEN", "r").granted(1, 20000)
		c.raw(frameOf("LOCK", "k", "5s", "TOKEN", "w", "WAIT", "10s") + frameOf("LOCK", "k", "5s", "SHARED", "TOKEN", "mine", "WAIT", "10s") + frameOf("PING"))
		srv.waiting(1)
		other.do("UNLOCK", "k", "r").is(":1")
		c.read().granted(4000, 5000)
		c.send("UNLOCK", "k", "w")
		c.read().granted(4000, 5000)
		c.read().is("+PONG")
		c.read().is(":1")
	})
}
