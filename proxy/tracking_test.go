package proxy

// Goal: a client that tracks is told once of each read that is not true any more, behind the reply of that read, at the latest with the
// key's end; and what it can have tracked is bounded. Method: dialogues; then readers that keep a cache as a client would, against
// writers through the same server.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"redlockd/proxy/access"
)

// serveTracking is serve with reads that stay tracked until the key ends, so that an invalidation comes of a change.
func serveTracking(t testing.TB) *testServer {
	t.Helper()
	srv := newTestServer(t)
	srv.tracking.max = time.Hour
	srv.serveClients()
	return srv
}

// tracks dials a client that tracks.
func (srv *testServer) tracks(options ...string) *client {
	srv.t.Helper()
	c := srv.dial()
	c.do("HELLO", "3")
	c.do(append([]string{"CLIENT", "TRACKING", "ON"}, options...)...).is("+OK")
	return c
}

func (c *client) invalidated(keys ...string) {
	c.t.Helper()
	c.read().is(`>["invalidate" ["` + strings.Join(keys, `" "`) + `"]]`)
}

func TestTrackingTellsOfChanges(t *testing.T) {
	srv := serveTracking(t)
	c, other := srv.tracks(), srv.dial()
	release := `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`
	for _, change := range []struct {
		command []string
		want    string
	}{
		{[]string{"SET", "k", "v", "NX", "PX", "20000"}, `\+OK`},
		{[]string{"SET", "k", "w", "IFEQ", "v", "PX", "20000"}, `\+OK`},
		{[]string{"EXTEND", "k", "w", "30000"}, `:\d+`},
		{[]string{"DELEX", "k", "IFEQ", "w"}, ":1"},
		{[]string{"LOCK", "k", "20000", "TOKEN", "t"}, `\["t" :\d+\]`},
		{[]string{"UNLOCK", "k", "t"}, ":1"},
		{[]string{"EVAL", `return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', 20000)`, "1", "k", "s"}, `\+OK`},
		{[]string{"EVAL", release, "1", "k", "s"}, ":1"},
		{[]string{"MLOCK", "2", "k", "k2", "20000", "TOKEN", "t"}, `\["t" :\d+\]`},
		{[]string{"MEXTEND", "2", "k", "k2", "t", "20000"}, `:\d+`},
		{[]string{"MUNLOCK", "2", "k", "k2", "t"}, ":1"},
	} {
		c.do("GET", "k")
		t.Log(change.command) // the last one shows what was not told
		other.do(change.command...).matches(change.want)
		c.invalidated("k")
	}
	// Nothing is tracked now, so a change is not told.
	other.do("SET", "k", "v", "NX", "PX", "20000").is("+OK")
	c.do("PING").is("+PONG")
	// What changes nothing is not told either: waiters would wake each other without end.
	c.do("GET", "k").is(`"v"`)
	other.do("SET", "k", "x", "NX", "PX", "20000").is("$nil")
	other.do("UNLOCK", "k", "wrong").is(":0")
	c.do("PING").is("+PONG")
}

// Nobody changes the keys: what was read is told all the same, with the key's end or after a second.
func TestTrackedReadsEnd(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		c, other := srv.tracks(), srv.dial()
		other.do("SET", "short", "v", "NX", "PX", "100").is("+OK")
		other.do("SET", "long", "v", "NX", "PX", "30000").is("+OK")
		c.do("GET", "long").is(`"v"`)
		c.do("GET", "short").is(`"v"`)
		c.invalidated("short")
		c.invalidated("long")
		c.do("GET", "absent").is("_nil")
		c.invalidated("absent")
		eventually(t, "nothing is tracked", func() bool {
			srv.tracking.mu.Lock()
			defer srv.tracking.mu.Unlock()
			return len(srv.tracking.keys) == 0
		})
	})
}

func TestOwnChanges(t *testing.T) {
	srv := serveTracking(t)
	c, quiet := srv.tracks(), srv.tracks("NOLOOP")
	for _, c := range []*client{c, quiet} {
		loop := c != quiet
		c.do("GET", "k").is("_nil")
		c.do("SET", "k", "v", "NX", "PX", "20000").is("+OK")
		if loop {
			c.invalidated("k")
		}
		c.do("GET", "k").is(`"v"`)
		c.do("EXTEND", "k", "v", "20000").matches(`:\d+`) // its own extension is not told
		c.do("EVAL", `local v = redis.call('get', KEYS[1]); redis.call('pexpire', KEYS[1], 20000); return v`, "1", "k").is(`"v"`)
		c.do("EVAL", `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 20000) end`, "1", "k", "v").is(":1")
		// A script sees its own change, so that what it has read stays tracked.
		c.do("EVAL", `redis.call('set', KEYS[1], ARGV[2], 'px', 20000, 'ifeq', ARGV[1]); return redis.call('get', KEYS[1])`, "1", "k", "v", "w").is(`"w"`)
		if loop {
			c.invalidated("k") // what was read before
		}
		srv.dial().do("UNLOCK", "k", "w").is(":1")
		c.invalidated("k")
		c.do("PING").is("+PONG")
	}
}

func TestTrackingModes(t *testing.T) {
	srv := serveTracking(t)
	in, out, other := srv.tracks("OPTIN"), srv.tracks("OPTOUT"), srv.dial()
	set := func(value string) {
		t.Helper()
		other.do("UNLOCK", "k", "v")
		other.do("LOCK", "k", "20000", "TOKEN", value)
		other.do("UNLOCK", "k", value).is(":1")
	}
	in.do("GET", "k").is("_nil")
	out.do("CLIENT", "CACHING", "NO").is("+OK")
	out.do("GET", "k").is("_nil")
	set("a")
	in.do("PING").is("+PONG")
	out.do("PING").is("+PONG")

	in.do("CLIENT", "CACHING", "YES").is("+OK")
	in.do("GET", "k").is("_nil")
	in.do("GET", "k2").is("_nil") // CACHING was for the command before
	out.do("GET", "k").is("_nil")
	other.do("LOCK", "k2", "20000", "TOKEN", "t").granted(1, 20000)
	set("b")
	in.invalidated("k")
	out.invalidated("k")

	// As rueidis does.
	in.do("CLIENT", "CACHING", "YES").is("+OK")
	in.do("MULTI").is("+OK")
	in.do("PTTL", "k").is("+QUEUED")
	in.do("GET", "k").is("+QUEUED")
	in.do("EXEC").is("[:-2 _nil]")
	set("c")
	in.invalidated("k")
	in.do("GET", "k").is("_nil")
	set("d")
	in.do("PING").is("+PONG")
	in.do("CLIENT", "TRACKINGINFO").is(`{"flags": ~["on" "optin"] "redirect": :0 "prefixes": []}`)
	in.do("CLIENT", "GETREDIR").is(":0")

	in.do("CLIENT", "CACHING", "YES").is("+OK")
	in.do("GET", "k").is("_nil")
	in.do("CLIENT", "TRACKING", "OFF").is("+OK")
	in.do("CLIENT", "GETREDIR").is(":-1")
	set("e")
	in.do("PING").is("+PONG")
	out.do("GET", "k").is("_nil")
	out.do("RESET").is("+RESET")
	set("f")
	out.do("PING").is("+PONG")
	other.do("INFO", "clients").matches(`(?s).*tracking_clients:0.*`)
}

func TestTrackingRedirected(t *testing.T) {
	srv := serveTracking(t)
	c, target, other := srv.dial(), srv.dial(), srv.dial()
	id := target.id()
	c.do("CLIENT", "TRACKING", "ON", "REDIRECT", id).is("+OK") // RESP2
	c.do("CLIENT", "GETREDIR").is(":" + id)
	c.do("GET", "k").is("$nil")
	other.do("SET", "k", "v", "NX", "PX", "20000").is("+OK") // not subscribed yet: lost, as in Redis
	target.do("SUBSCRIBE", "__redis__:invalidate").is(`["subscribe" "__redis__:invalidate" :1]`)
	c.do("GET", "k").is(`"v"`)
	other.do("UNLOCK", "k", "v").is(":1")
	target.read().is(`["message" "__redis__:invalidate" ["k"]]`)

	push, resp3 := srv.dial(), srv.dial()
	push.do("HELLO", "3")
	resp3.do("HELLO", "3")
	resp3.do("CLIENT", "TRACKING", "ON", "REDIRECT", push.id()).is("+OK")
	resp3.do("GET", "k").is("_nil")
	other.do("SET", "k", "v", "NX", "PX", "20000").is("+OK")
	push.invalidated("k")
	gone := push.id()
	resp3.do("GET", "k").is(`"v"`)
	push.conn.Close()
	eventually(t, "the target has left", func() bool { return other.do("CLIENT", "LIST", "ID", gone).text == `""` })
	other.do("UNLOCK", "k", "v").is(":1")
	resp3.read().is(`>["tracking-redir-broken" :` + gone + `]`)
	resp3.do("CLIENT", "TRACKINGINFO").is(`{"flags": ~["on" "broken_redirect"] "redirect": :` + gone + ` "prefixes": []}`)
}

func TestTrackingRefusals(t *testing.T) {
	srv := serveTracking(t)
	c := srv.dial()
	c.do("CLIENT", "TRACKING", "ON").err("ERR CLIENT TRACKING needs RESP3 (HELLO 3), or REDIRECT ")
	c.do("CLIENT", "CACHING", "YES").err("ERR CLIENT CACHING can be called only when ")
	c.do("HELLO", "3")
	for _, refused := range []struct{ options, want string }{
		{"BCAST", "ERR CLIENT TRACKING with BCAST or PREFIX is not served: "},
		{"PREFIX lock:", "ERR CLIENT TRACKING with BCAST or PREFIX is not served: "},
		{"REDIRECT 999999", "ERR The client ID you want redirect to does not exist"},
		{"REDIRECT x", "ERR value is not an integer"},
		{"OPTIN OPTOUT", "ERR You can't specify both"},
		{"LOOP", "ERR syntax error"},
	} {
		c.do(append([]string{"CLIENT", "TRACKING", "ON"}, strings.Fields(refused.options)...)...).err(refused.want)
		c.do("CLIENT", "GETREDIR").is(":-1")
	}
	c.do("CLIENT", "TRACKING", "ON", "OPTIN").is("+OK")
	c.do("CLIENT", "TRACKING", "ON", "OPTOUT").err("ERR You can't switch OPTIN/OPTOUT mode")
	c.do("CLIENT", "CACHING", "NO").err("ERR CLIENT CACHING NO is only valid")
	c.do("CLIENT", "CACHING", "PERHAPS").err("ERR syntax error")
	c.do("CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP").is("+OK")
}

// An invalidation never comes before the reply that it is about, and none is missing: what a client has in its cache once all changes
// are answered is what the keys hold.
func TestTrackedCacheIsTrue(t *testing.T) {
	srv := serveTracking(t)
	const keys, readers, writers = 3, 3, 3
	rounds := 15
	caches, clients := make([]cacheOf, readers), make([]*client, readers)
	for i := range readers {
		caches[i], clients[i] = make(cacheOf), srv.tracks()
	}
	key := func() string { return "k" + strconv.Itoa(rand.IntN(keys)) }
	kept := 0
	for round := range rounds {
		var all sync.WaitGroup
		for i := range readers {
			all.Go(func() {
				c := clients[i]
				for range 10 {
					var asked []string
					var frames strings.Builder
					for range 1 + rand.IntN(8) {
						asked = append(asked, key())
						frames.WriteString(frameOf("GET", asked[len(asked)-1]))
					}
					c.raw(frames.String())
					for len(asked) > 0 {
						reply := c.read()
						if !caches[i].invalidate(reply.text) {
							caches[i][asked[0]] = reply.text
							asked = asked[1:]
						}
					}
				}
			})
		}
		for w := range writers {
			all.Go(func() {
				c := srv.dial()
				for n := range 5 {
					k, token := key(), fmt.Sprint(round, ".", w, ".", n)
					if c.do("SET", k, token, "NX", "PX", "30000").text == "+OK" && rand.IntN(4) > 0 {
						c.do("UNLOCK", k, token)
					} else if held := c.do("GET", k).text; held[0] == '"' {
						c.do("DELEX", k, "IFEQ", strings.Trim(held, `"`))
					}
				}
			})
		}
		all.Wait()
		truth := make(cacheOf)
		plain := srv.dial()
		plain.do("HELLO", "3")
		for n := range keys {
			k := "k" + strconv.Itoa(n)
			truth[k] = plain.do("GET", k).text
		}
		for i, c := range clients {
			c.send("PING")
			for reply := c.read(); reply.text != "+PONG"; reply = c.read() {
				if !caches[i].invalidate(reply.text) {
					t.Fatalf("got %s, want an invalidation", reply.text)
				}
			}
			for k, v := range caches[i] {
				kept++
				if v != truth[k] {
					t.Fatalf("round %d: reader %d has %s = %s in its cache, the key holds %s", round, i, k, v, truth[k])
				}
			}
		}
	}
	if kept == 0 {
		t.Error("no cache had anything in it: nothing was compared")
	}
}

// cacheOf is what a client keeps of what it has read.
type cacheOf map[string]string

// invalidate takes the keys of an invalidation out, and returns false if the text is something else.
func (c cacheOf) invalidate(text string) bool {
	names, ok := strings.CutPrefix(text, `>["invalidate" [`)
	if !ok {
		return false
	}
	for _, name := range strings.Fields(strings.TrimSuffix(names, "]]")) {
		delete(c, strings.Trim(name, `"`))
	}
	return true
}

// Goal: a client cannot fill the memory with tracked keys: beyond the bound it is told at once, and what it had is forgotten with it.
func TestTrackedKeysAreBounded(t *testing.T) {
	srv := serveTracking(t)
	c := srv.tracks()
	name := strings.Repeat("x", 1000)
	most := trackedBytesMax/(len(name)+trackedCost) + 10
	told := 0
	for i := range most {
		c.do("GET", strconv.Itoa(1000+i)+name).is("_nil")
		c.send("PING")
		for c.read().text != "+PONG" {
			told++
		}
	}
	if told < 9 {
		t.Errorf("told of %d of %d keys at once, want those beyond %d bytes", told, most, trackedBytesMax)
	}
	srv.tracking.mu.Lock()
	n := len(srv.tracking.keys)
	srv.tracking.mu.Unlock()
	if n*(len(name)+trackedCost) > trackedBytesMax+len(name) {
		t.Errorf("%d keys of %d bytes are tracked", n, len(name))
	}
	c.do("GET", "k").is("_nil")
	c.conn.Close()
	eventually(t, "all is forgotten", func() bool {
		srv.tracking.mu.Lock()
		defer srv.tracking.mu.Unlock()
		return len(srv.tracking.keys) == 0 && srv.tracking.clients.Load() == 0
	})
}

// trackingByHand is serveTracking with commands whose replies come when the test says so: READ name key reads the key, REPLY name answers it
// with its name, CHANGE key is a change.
func trackingByHand(t *testing.T) *testServer {
	t.Helper()
	srv := newTestServer(t)
	srv.tracking.max = time.Hour
	var mu sync.Mutex
	reads := make(map[string]*slot)
	srv.table = newCommandTable(append(slices.Clone(commandRows),
		command{name: "read", arity: 3, handler: func(_ *session, c *call) error {
			sl := c.newSlot()
			sl.track([]string{string(c.args[2])})
			mu.Lock()
			reads[string(c.args[1])] = sl
			mu.Unlock()
			return nil
		}},
		command{name: "reply", arity: 2, handler: func(_ *session, c *call) error {
			name := string(c.args[1])
			mu.Lock()
			sl := reads[name]
			mu.Unlock()
			if sl == nil {
				return errorf("ERR not read yet")
			}
			sl.out = append(append(append(sl.out, '+'), name...), "\r\n"...)
			sl.saw(nil, nil, nil)
			flush(sl.complete())
			return c.ok()
		}},
		command{name: "change", arity: 2, handler: func(_ *session, c *call) error {
			sl := c.newSlot()
			sl.notifyChanged([]string{string(c.args[1])}, false)
			sl.out = append(sl.out, "+OK\r\n"...)
			flush(sl.complete())
			return nil
		}}))
	srv.serveClients()
	return srv
}

// A change comes while a read is in progress: the client is told behind the reply, which may have the old value.
func TestChangeDuringARead(t *testing.T) {
	srv := trackingByHand(t)
	c, twin, other := srv.tracks(), srv.tracks(), srv.dial()
	c.send("READ", "first", "k")
	c.send("READ", "second", "k")
	twin.send("READ", "third", "k")
	eventually(t, "all are in progress", func() bool { return srv.readsOf("k") == 3 })
	other.do("CHANGE", "k").is("+OK")
	other.do("REPLY", "first").is("+OK")
	c.read().is("+first")
	c.invalidated("k")
	other.do("REPLY", "second").is("+OK")
	c.read().is("+second")
	c.invalidated("k")
	other.do("REPLY", "third").is("+OK")
	twin.read().is("+third")
	twin.invalidated("k")
	// The change is over: what is read now is tracked.
	c.send("READ", "fourth", "k")
	eventually(t, "it is in progress", func() bool { return srv.readsOf("k") == 1 })
	other.do("REPLY", "fourth").is("+OK")
	c.read().is("+fourth")
	c.do("PING").is("+PONG")
	other.do("CHANGE", "k").is("+OK")
	c.invalidated("k")
}

// A change comes while the reply of the read waits behind another: the client is told behind its reply.
func TestChangeWhileTheReplyWaits(t *testing.T) {
	srv := trackingByHand(t)
	c, other := srv.tracks(), srv.dial()
	c.send("READ", "first", "x")
	c.send("READ", "second", "k")
	eventually(t, "both are in progress", func() bool { return srv.readsOf("k") == 1 })
	other.do("REPLY", "second").is("+OK")
	other.do("CHANGE", "k").is("+OK")
	other.do("REPLY", "first").is("+OK")
	c.read().is("+first")
	c.read().is("+second")
	c.invalidated("k")
	c.do("PING").is("+PONG")
}

// A client whose LOCK waits is told all the same.
func TestChangeWhileTheClientWaits(t *testing.T) {
	srv := serveTracking(t)
	c, other := srv.tracks(), srv.dial()
	other.do("LOCK", "r", "20000", "TOKEN", "t").granted(1, 20000)
	c.do("GET", "k").is("_nil")
	id := c.id()
	c.send("LOCK", "r", "20000", "WAIT", "60000")
	srv.waiting(1)
	other.do("SET", "k", "v", "NX", "PX", "20000").is("+OK")
	c.invalidated("k")
	other.do("CLIENT", "UNBLOCK", id).is(":1")
	c.read().is("_nil")
}

// readsOf counts the reads of a key that are in progress.
func (srv *testServer) readsOf(key string) (n int) {
	srv.tracking.mu.Lock()
	defer srv.tracking.mu.Unlock()
	for _, k := range srv.tracking.keys[key] {
		n += k.reads
	}
	return n
}

// rueidislock waits for nothing but invalidations.
func TestRueidislockWakesUp(t *testing.T) {
	srv := serveTracking(t)
	ctx := t.Context() // rueidislock would make the TTL end with a deadline
	var lockers [2]rueidislock.Locker
	for i := range lockers {
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{srv.addr}},
			KeyValidity:  time.Minute, // longer than the test: nobody wakes up because a key has ended
			TryNextAfter: patience,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer locker.Close()
		lockers[i] = locker
	}
	_, release, err := lockers[0].WithContext(ctx, "r")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := lockers[1].TryWithContext(ctx, "r"); !errors.Is(err, rueidislock.ErrNotLocked) {
		t.Fatalf("a lock that is held: got %v, want ErrNotLocked", err)
	}
	evals := srv.table.named([]byte("EVALSHA")).stats
	before := evals[commandCalls].Load()
	granted := make(chan error, 1)
	go func() {
		_, release, err := lockers[1].WithContext(ctx, "r")
		if err == nil {
			release()
		}
		granted <- err
	}()
	eventually(t, "the other one has tried", func() bool { return evals[commandCalls].Load() > before })
	release()
	select {
	case err := <-granted:
		if err != nil {
			t.Errorf("the lock that was released: %v", err)
		}
	case <-time.After(patience):
		t.Error("who waits was not woken")
	}
}

// A user with a list of resources can have its invalidations sent to a connection of its own, and to nobody else's.
func TestTrackingOfAConfinedUser(t *testing.T) {
	srv := serve(t, func(opts *Options) {
		opts.Users = []access.User{{Name: "alice", Password: "a", Resources: []string{"a:*"}}, {Name: "bob", Password: "b"}}
	})
	c, target, bob := srv.dialAs("alice"), srv.dialAs("alice"), srv.dialAs("bob")
	c.do("CLIENT", "TRACKING", "ON", "REDIRECT", bob.id()).err("ERR The client ID you want redirect to does not exist")
	id := target.id()
	target.do("SUBSCRIBE", "other").err("NOPERM ")
	target.do("SUBSCRIBE", "__redis__:invalidate").is(`["subscribe" "__redis__:invalidate" :1]`)
	c.do("CLIENT", "TRACKING", "ON", "REDIRECT", id).is("+OK")
	c.do("GET", "a:k").is("$nil")
	bob.do("SET", "a:k", "v", "NX", "PX", "20000").is("+OK")
	target.read().is(`["message" "__redis__:invalidate" ["a:k"]]`)
}

// What another redlockd changes, or who talks to the masters himself, is told within a moment: those who wait for a lock by it (rueidislock) are woken.
// Masters that stand still meanwhile do not change that.
func TestTrackingTellsOfChangesElsewhere(t *testing.T) {
	for _, still := range [][]int{{}, {0}, {3, 4}} {
		inVirtualTime(t, func(t *testing.T) {
			srv := serveTracking(t)
			c, other := srv.tracks(), srv.twin().dial()
			for _, change := range [][]string{
				{"SET", "k", "v", "NX", "PX", "20000"}, {"EXTEND", "k", "v", "30000"}, {"DELEX", "k", "IFEQ", "v"},
				{"LOCK", "k", "20000", "TOKEN", "t"}, {"UNLOCK", "k", "t"},
			} {
				c.do("MGET", "k", "l")
				for _, m := range still {
					srv.masters[m].Freeze()
				}
				began := time.Now()
				other.do(change...)
				c.invalidated("k")
				if took := time.Since(began); took > 50*time.Millisecond {
					t.Errorf("%s, masters %v stand still: told after %v, want 50 ms at most", change[0], still, took)
				}
				for _, m := range still {
					srv.masters[m].Thaw()
				}
				time.Sleep(3 * time.Second) // their votes count again
				c.do("PING").is("+PONG")
			}
		})
	}
}
