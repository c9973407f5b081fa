package proxy

// Goal: the limits of a user hold, by whatever command it would go beyond them; a refusal names the user, the limit and the setting, and
// is counted. Method: dialogues with a user whose limits are low, beside one who has none.

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock"
)

// limited has the users root, who has no limits, and app, who has these.
func limited(app access.User) func(*Options) {
	app.Name, app.Password = "app", "a"
	return func(o *Options) {
		o.Users = []access.User{{Name: "root", Password: "r"}, app}
	}
}

// dialAs connects a client that is logged in.
func (srv *testServer) dialAs(name string) *client {
	srv.t.Helper()
	c := srv.dial()
	c.do("AUTH", name, name[:1]).is("+OK")
	return c
}

// infoField is a field of a user's line in INFO users, as this client sees it.
func (c *client) userField(user, field string) string {
	c.t.Helper()
	for _, line := range c.info("users") {
		name, fields, _ := strings.Cut(line, ",")
		if name != "name="+user {
			continue
		}
		for pair := range strings.SplitSeq(fields, ",") {
			if value, ok := strings.CutPrefix(pair, field+"="); ok {
				return value
			}
		}
	}
	c.t.Fatalf("INFO users has no %s of %s: %v", field, user, c.info("users"))
	return ""
}

// wantUser fails the test unless the field has this value.
func (c *client) wantUser(user, field, want string) {
	c.t.Helper()
	if got := c.userField(user, field); got != want {
		c.t.Fatalf("INFO users: %s of %s is %s, want %s", field, user, got, want)
	}
}

func TestConnectionsOfOneUser(t *testing.T) {
	srv := serve(t, limited(access.User{MaxConnections: 2}))
	root := srv.dialAs("root")
	connections := func(app string) {
		t.Helper()
		eventually(t, "app has "+app+" connections", func() bool { return root.userField("app", "connections") == app })
	}
	const refusal = "-ERR max number of connections of user app reached (max_connections = 2 in [auth])"
	first, second := srv.dialAs("app"), srv.dialAs("app")
	third := srv.dial()
	third.do("AUTH", "app", "a").is(refusal)
	third.do("HELLO", "3", "AUTH", "app", "a").is(refusal)
	third.do("PING").err("NOAUTH")
	third.do("AUTH", "app", "wrong").err("WRONGPASS")
	root.do("AUTH", "app", "a").is(refusal)
	root.do("CLIENT", "INFO").matches(`".* user=root .*"`)
	connections("2")
	root.wantUser("app", "refused_connections", "3")
	// To log in again is no new connection; to log in as another is none any more. Neither is RESET, or the end.
	second.do("AUTH", "app", "a").is("+OK")
	connections("2")
	second.do("AUTH", "root", "r").is("+OK")
	connections("1")
	third.do("AUTH", "app", "a").is("+OK")
	third.do("RESET").is("+RESET")
	third.do("RESET").is("+RESET")
	connections("1")
	third.do("HELLO", "2", "AUTH", "app", "a").matches(`\[.*\]`)
	connections("2")
	third.conn.Close()
	first.conn.Close()
	connections("0")
	root.wantUser("root", "connections", "2")
	if got := srv.anonymous.connections.Load(); got != 0 {
		t.Errorf("got %d connections of nobody, want 0", got)
	}
}

// Users without limits of their own: one alone takes half, and two together leave a part to the others.
func TestPlacesOfUsers(t *testing.T) {
	users := []access.User{{Name: "root", Password: "r"}}
	for _, name := range []string{"app", "batch", "cron", "web"} {
		users = append(users, access.User{Name: name, Password: name[:1], Resources: []string{"*"}})
	}
	srv := serve(t, func(o *Options) { o.Users, o.MaxClients = users, 40 })
	fill := func(name string) (n int) {
		for {
			c := srv.dial()
			reply := c.do("AUTH", name, name[:1])
			if reply.text != "+OK" {
				reply.err("ERR max number of ")
				c.conn.Close()
				return n
			}
			n++
		}
	}
	for _, tt := range []struct {
		user string
		want int
	}{{"app", 20}, {"batch", 15}, {"cron", 5}} { // batch: until an eighth is left
		if n := fill(tt.user); n != tt.want {
			t.Errorf("%s has %d connections, want %d", tt.user, n, tt.want)
		}
	}
	root := srv.dialAs("root")
	root.wantUser("app", "connections", "20")
	root.wantUser("app", "max_connections", "20")
	root.wantUser("app", "refused_connections", "1")
}

// What the locks of one user take of the masters' memory, by whatever command: by its own limit, or by its share.
func TestMemoryOfOneUser(t *testing.T) {
	long := strings.Repeat("n", 1000)
	srv := serve(t, limited(access.User{MaxMemory: 6000}))
	root, c := srv.dialAs("root"), srv.dialAs("app")
	const refusal = "ERR the locks of user app take 5320 of the 6000 bytes that they may take of each master (max_memory in [auth])"
	c.do("LOCK", "a"+long[1:], "30s", "TOKEN", long).granted(1, 30000)
	c.do("SET", "b"+long[1:], long, "NX", "PX", "30000").is("+OK")
	for _, command := range [][]string{
		{"LOCK", "c" + long[1:], "30s", "TOKEN", long},
		{"SET", "c" + long[1:], long, "NX", "PX", "30000"},
		{"MLOCK", "2", "c" + long[400:], "d" + long[400:], "30s"},
		{"LOCK", "c" + long[1:], "30s", "SHARED"},
		{"EVAL", "return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', 30000)", "1", "c" + long[1:], long},
	} {
		c.do(command...).err(refusal)
	}
	root.wantUser("app", "memory", "5320")
	root.wantUser("app", "max_memory", "6000")
	root.wantUser("app", "refused_memory", "5")
	root.do("LOCK", "c"+long[1:], "30s", "TOKEN", long).granted(1, 30000)
	c.do("LOCK", "short", "30s", "TOKEN", token).granted(1, 30000)
	c.do("EXTEND", "a"+long[1:], long, "30s").matches(`.*`)
	c.do("UNLOCK", "a"+long[1:], long).is(":1")
	c.do("LOCK", "c", "30s", "TOKEN", long).granted(1, 30000)
	root.wantUser("root", "max_memory", strconv.Itoa(memoryAssumed/2))
}

func TestMemoryShare(t *testing.T) {
	for _, tt := range []struct {
		redlockds int
		masters   []int64 // their maxmemory; -1: not said yet
		want      int64
	}{
		{1, []int64{100}, 50},
		{2, []int64{100, 0, 60}, 25},
		{1, []int64{1, 2, 600, 800, 700}, 300}, // two of five are no quorum
		{1, []int64{1, 200, 600, 800}, 100},    // a quorum of four is three
		{5, []int64{0, 0, 0}, memoryAssumed / 10},
		{1, []int64{-1, 100, -1}, 50},
		{1, []int64{-1, -1}, memoryAssumed / 2},
		{1, nil, memoryAssumed / 2},
		{9, []int64{1}, 1}, // 0 would be no limit
	} {
		var masters []redlock.MasterStatus
		for _, m := range tt.masters {
			masters = append(masters, redlock.MasterStatus{MaxMemory: max(m, 0), UsedMemory: min(m, 0) + 1})
		}
		if got := memoryShare(tt.redlockds, masters); got != tt.want {
			t.Errorf("%d redlockds, maxmemory %v: got %d, want %d", tt.redlockds, tt.masters, got, tt.want)
		}
	}
	srv := serve(t, func(o *Options) { o.Users = []access.User{{Name: "root", Password: "r"}} })
	srv.dialAs("root").wantUser("root", "max_memory", "0") // alone
}

// A user's scripts are stored on the masters within bounds, and do not take the room of another's.
func TestStoredScriptsOfOneUser(t *testing.T) {
	var c scriptCache
	store := func(user *storedScripts, n int, now int64) (stored int) {
		for i := range n {
			s, err := c.addSource("return '"+strconv.Itoa(i)+strings.Repeat("x", 10_000)+strconv.FormatInt(now, 10)+"'", now)
			if err != nil {
				t.Fatal(err)
			}
			if c.storeDue(s, user, now) {
				stored++
			}
		}
		return stored
	}
	var a, b storedScripts
	if n := store(&a, 300, 1); n < storedBytesMax/10_100 || n > storedBytesMax/10_000 {
		t.Errorf("stored %d scripts of 10 KB, want what %d bytes allow", n, storedBytesMax)
	}
	if n := store(&b, 50, 2); n != 50 {
		t.Errorf("stored %d scripts of another user, want 50", n)
	}
	s, err := c.addSource("return 'used by both'"+strings.Repeat(" ", 10_000), 2)
	if err != nil {
		t.Fatal(err)
	}
	if c.storeDue(s, &a, 2) || !c.storeDue(s, &b, 2) {
		t.Error("a script that a user without room has run first: want it stored by the next user, and by no other")
	}
	if n := store(&a, 50, 2+int64(storedEvery)); n != 50 {
		t.Errorf("stored %d scripts in the next period, want 50", n)
	}
}

// Where no users are configured there is nothing to limit, and nothing to show.
func TestNoUsers(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.do("AUTH", "default", "x").is("+OK")
	if got := c.info("users"); got["users"] != "0" || len(got) != 2 {
		t.Errorf("INFO users: got %v", got)
	}
	if got := srv.anonymous.connections.Load(); got != 1 {
		t.Errorf("got %d connections, want 1", got)
	}
}

// Every command that gives a lock a TTL, by each way in which it reaches the engine.
func TestTTLOfOneUser(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, limited(access.User{MaxTTL: 10 * time.Second}), func(o *Options) { o.AllowUnguarded = everyKey })
		root, c := srv.dialAs("root"), srv.dialAs("app")
		const refusal = "ERR ttl of 20000 ms is above the most, 10000 ms (max_ttl of user app in [auth])"
		c.do("LOCK", "held", "10000", "TOKEN", token).granted(1, 10000)
		refused := 0
		commands := [][]string{
			{"LOCK", "a", "20s", "WAIT", "1000"},
			{"LOCK", "a", "20000", "TOKEN", token, "FENCE"},
			{"SET", "a", token, "NX", "EX", "20"},
			{"SET", "held", token, "IFEQ", token, "PX", "20000"},
			{"SET", "a", token, "PX", "20000"},
			{"SET", "held", token, "XX", "PX", "20000"},
			{"SETEX", "a", "20", token},
			{"PSETEX", "a", "20000", token},
			{"EXPIRE", "held", "20"},
			{"EVAL", "redis.call('setex', KEYS[1], 20, ARGV[1]) return 1", "1", "a", token},
			{"EVAL", "return redis.call('getex', KEYS[1], 'px', 20000)", "1", "held"},
		}
		for _, tt := range ttlCommands {
			key := "a"
			if tt.held {
				key = "held"
			}
			commands = append(commands, tt.command(key, "20000"))
		}
		for _, command := range commands {
			if got := c.do(command...); got.text != "-"+refusal {
				t.Errorf("%s:\ngot  %s\nwant -%s", command, got.text, refusal)
			}
			refused++
		}
		c.do("WATCH", "held").is("+OK")
		c.do("MULTI").is("+OK")
		c.do("PEXPIRE", "held", "20000").is("+QUEUED")
		c.do("EXEC").err(refusal)
		refused++
		// A time of the clock is some ms less when it arrives.
		at := time.Now().Add(30 * time.Second)
		for _, command := range [][]string{
			{"SET", "a", token, "NX", "PXAT", strconv.FormatInt(at.UnixMilli(), 10)},
			{"EXPIREAT", "held", strconv.FormatInt(at.Unix(), 10)},
			{"PEXPIREAT", "held", strconv.FormatInt(at.UnixMilli(), 10)},
		} {
			c.do(command...).matches(`-ERR ttl of \d+ ms is above the most, 10000 ms \(max_ttl of user app in \[auth\]\)`)
			refused++
		}
		c.wantUser("app", "refused_ttls", strconv.Itoa(refused))
		c.do("EXISTS", "a", "b").is(":0")

		// What is allowed is, and others are asked for no less.
		c.do("EXTEND", "held", token, "10000").matches(`:(9\d{3}|10000)`)
		c.do("SET", "a", token, "NX", "PX", "10000").is("+OK")
		root.do("LOCK", "b", "20000").granted(10_001, 20000)
	})
}

// A script of several rounds belongs to the user who sent it.
func TestLoginInTheMiddle(t *testing.T) {
	srv := serve(t, limited(access.User{MaxTTL: 10 * time.Second}), func(o *Options) { o.AllowUnguarded = everyKey })
	c := srv.dialAs("app")
	const script = "return redis.call('set', KEYS[1], ARGV[1], 'px', 20000)" // compares nothing, so it takes a look first
	for range 20 {
		c.raw(frameOf("EVAL", script, "1", "a", token) + frameOf("AUTH", "root", "r"))
		c.read().err("ERR ttl of 20000 ms is above the most, 10000 ms (max_ttl of user app in [auth])")
		c.read().is("+OK")
		c.do("AUTH", "app", "a").is("+OK")
	}
}

// A lock that is taken without a TTL gets no longer one than its owner may ask for.
func TestDefaultTTLOfOneUser(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, limited(access.User{MaxTTL: 10 * time.Second}), func(o *Options) { o.DefaultTTL = 20 * time.Second })
		root, c := srv.dialAs("root"), srv.dialAs("app")
		for i, command := range [][]string{
			{"SET", "0", token, "NX"},
			{"SETNX", "1", token},
			{"EVAL", "return redis.call('setnx', KEYS[1], ARGV[1])", "1", "2", token},
			{"MSETNX", "3", token},
		} {
			c.do(command...).matches(`\+OK|:1`)
			c.do("PTTL", strconv.Itoa(i)).is(":10000")
		}
		root.do("SETNX", "4", token).is(":1")
		root.do("PTTL", "4").is(":20000")
	})
}

// A confined user sees itself alone.
func TestINFOOfConfinedUser(t *testing.T) {
	srv := serve(t, confine)
	root, c := srv.dialAs("root"), srv.dialAs("billing")
	if got := root.info("users"); got["users"] != "2" || !strings.HasPrefix(got["user0"], "name=root,connections=1,") || !strings.HasPrefix(got["user1"], "name=billing,connections=1,") {
		t.Errorf("INFO users of root: got %v", got)
	}
	if got := c.info("users"); got["users"] != "1" || !strings.HasPrefix(got["user0"], "name=billing,") || len(got) != 3 {
		t.Errorf("INFO users of billing: got %v", got)
	}
}

// Goal: no operation enters the engine past the limits of its user. Method: the source, for nobody would miss a check in a dialogue that
// was not written.
func TestOperationsStartInOnePlace(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	started := regexp.MustCompile(`(?i)engine\.(Start\w+|Lock|Unlock|Extend)\(`)
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		switch calls := started.FindAllString(string(text), -1); {
		case file == "engine.go":
			found = len(calls)
		case len(calls) > 0 && !strings.HasSuffix(file, "_test.go"):
			t.Errorf("%s calls %s: want it in engine.go alone", file, calls)
		}
	}
	if found < 7 {
		t.Errorf("engine.go has %d calls, want all", found)
	}
}

// What a user holds counts, by whatever command it was locked, until it is unlocked or ends.
func TestLocksOfOneUser(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, limited(access.User{MaxLocks: 3}), func(o *Options) { o.DefaultTTL, o.AllowUnguarded = 20*time.Second, everyKey })
		root, c := srv.dialAs("root"), srv.dialAs("app")
		const refusal = "ERR max number of locks of user app reached (max_locks = 3 in [auth])"
		usage := func(locks, refused int) {
			t.Helper()
			root.wantUser("app", "locks", strconv.Itoa(locks))
			c.wantUser("app", "refused_locks", strconv.Itoa(refused))
		}
		c.do("LOCK", "a", "20000", "TOKEN", token).granted(1, 20000)
		c.do("SET", "b", token, "NX", "PX", "20000").is("+OK")
		c.do("MLOCK", "2", "c", "d", "20000").is("-" + refusal)
		usage(2, 1)
		c.do("EVAL", acquireScript, "1", "c", token, "20000").matches(`\+OK|:1`)
		usage(3, 1)
		for i, command := range [][]string{
			{"LOCK", "d", "20000"},
			{"LOCK", "d", "20000", "TOKEN", token, "FENCE"},
			{"LOCK", "d", "20000", "WAIT", "10000"},
			{"MLOCK", "1", "d", "20000"},
			{"SET", "d", token, "NX", "PX", "20000"},
			{"SET", "d", token, "NX", "GET", "PX", "20000"},
			{"SET", "d", token, "PX", "20000"},
			{"SETEX", "d", "20", token},
			{"SETNX", "d", token},
			{"MSETNX", "d", token},
			{"EVAL", acquireScript, "1", "d", token, "20000"},
		} {
			if got := c.do(command...); got.text != "-"+refusal {
				t.Errorf("%s:\ngot  %s\nwant -%s", command, got.text, refusal)
			}
			usage(3, 2+i)
		}
		c.do("WATCH", "d").is("+OK")
		c.do("MULTI").is("+OK")
		c.do("SET", "d", token, "NX", "PX", "20000").is("+QUEUED")
		c.do("EXEC").is("-" + refusal)
		usage(3, 13)
		c.do("EXISTS", "d").is(":0")

		// What is held already is not refused, and nobody else is.
		c.do("LOCK", "a", "20000", "TOKEN", token).granted(1, 20000)
		c.do("EXTEND", "a", token, "20000").matches(`:(1\d{4}|20000)`)
		c.do("EVAL", extendScript, "1", "b", token, "20000").is(":1")
		root.do("LOCK", "d", "20000", "TOKEN", token).granted(1, 20000)
		root.do("UNLOCK", "d", token).is(":1")
		usage(3, 13)

		// Each end of a lock makes room.
		c.do("UNLOCK", "a", token).is(":1")
		usage(2, 13)
		c.do("LOCK", "d", "20000", "TOKEN", token).granted(1, 20000)
		c.do("EVAL", releaseScript, "1", "b", token).is(":1")
		c.do("DELEX", "c", "IFEQ", token).is(":1")
		usage(1, 13)
		c.do("MLOCK", "2", "e", "f", "50").granted(30, 50)
		eventually(t, "they end", func() bool { return root.userField("app", "locks") == "1" })
		eventually(t, "the masters' keys have ended too", func() bool { return c.do("MLOCK", "2", "e", "f", "20000").text != "*nil" })
		usage(3, 13)
		c.do("LOCK", "g", "20000").is("-" + refusal)
	})
}

func TestWaitersOfOneUser(t *testing.T) {
	srv := serve(t, limited(access.User{MaxWaiters: 2}))
	root := srv.dialAs("root")
	root.do("LOCK", "a", "60000", "TOKEN", token).granted(1, 60_000)
	first, second, third := srv.dialAs("app"), srv.dialAs("app"), srv.dialAs("app")
	first.send("LOCK", "a", "20000", "WAIT", "60000")
	second.send("MLOCK", "2", "a", "b", "20000", "WAIT", "60000")
	srv.waiting(2)
	const refusal = "-BUSYWAIT max number of waiters of user app reached (max_waiters = 2 in [auth])"
	third.do("LOCK", "a", "20000", "WAIT", "60000").is(refusal)
	third.do("LOCK", "c", "20000", "WAIT", "60000").is(refusal)
	third.do("LOCK", "c", "20000", "TOKEN", token).granted(1, 20000)
	other := srv.dialAs("root")
	other.send("LOCK", "a", "20000", "WAIT", "60000")
	srv.waiting(3)
	if waiting, refused := third.userField("app", "waiters"), third.userField("app", "refused_waiters"); waiting != "2" || refused != "2" {
		t.Errorf("INFO users: got waiters=%s, refused_waiters=%s, want 2 and 2", waiting, refused)
	}
	second.conn.Close()
	srv.waiting(2)
	third.send("LOCK", "a", "20000", "WAIT", "60000")
	srv.waiting(3)
	root.do("UNLOCK", "a", token).is(":1")
	first.read().granted(1, 20000)
}
