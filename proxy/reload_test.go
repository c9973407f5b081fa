package proxy

// Goal: Reload puts all options into force or none; a connection keeps no right that its user has lost, and loses nothing else. Method:
// dialogues with clients of several users around a Reload, and logins that run against reloads.

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redlockd/proxy/access"
)

// staff are the users before a reload.
func staff() []access.User {
	return []access.User{
		{Name: "root", Password: "r"},
		{Name: "same", Password: "s"},
		{Name: "limited", Password: "l"},
		{Name: "wider", Password: "w", Resources: []string{"a:*"}},
		{Name: "free", Password: "f", Resources: []string{"a:*"}},
		{Name: "narrower", Password: "n", Resources: []string{"a:*", "b:*"}},
		{Name: "bound", Password: "b"},
		{Name: "changed", Password: "c"},
		{Name: "gone", Password: "g"},
	}
}

// reload reloads with these options, and returns how many connections were closed.
func (srv *testServer) reload(opts Options) int {
	srv.t.Helper()
	closed, err := srv.Reload(opts)
	if err != nil {
		srv.t.Fatalf("Reload: %v", err)
	}
	return closed
}

func TestReloadOfUsers(t *testing.T) {
	srv := serve(t, func(o *Options) { o.Users = staff() })
	clients := make(map[string]*client)
	for _, u := range staff() {
		clients[u.Name] = srv.dialAs(u.Name)
	}
	clients["limited"].do("LOCK", "held", "20000", "TOKEN", token).granted(1, 20000)
	clients["wider"].do("LOCK", "b:1", "20000").err("NOPERM")
	clients["narrower"].do("WATCH", "b:1").is("+OK")

	after := staff()[:8] // without gone
	after[2].MaxLocks, after[2].MaxTTL = 1, 30*time.Second
	after[3].Resources = []string{"b:*", "a:*"}
	after[4].Resources = nil
	after[5].Resources = []string{"a:*"}
	after[6].Resources = []string{"*"}
	after[7].Password = "x"
	after = append(after, access.User{Name: "new", Password: "n"})
	slices.Reverse(after)
	if closed := srv.reload(Options{Users: after}); closed != 4 {
		t.Errorf("got %d connections closed, want 4", closed)
	}
	for _, name := range []string{"narrower", "bound", "changed", "gone"} {
		clients[name].closed()
	}
	for _, name := range []string{"root", "same", "limited", "wider", "free"} {
		clients[name].do("PING").is("+PONG")
	}
	// What was locked before there was a limit counts in it.
	clients["limited"].do("LOCK", "second", "20000").err("ERR max number of locks of user limited reached (max_locks = 1 in [auth])")
	clients["limited"].do("EXTEND", "held", token, "31000").err("ERR ttl of 31000 ms is above the most, 30000 ms (max_ttl of user limited in [auth])")
	clients["limited"].do("UNLOCK", "held", token).is(":1")
	clients["limited"].do("LOCK", "second", "20000", "TOKEN", token).granted(1, 20000)
	clients["wider"].do("LOCK", "b:1", "20000", "TOKEN", token).granted(1, 20000)
	clients["free"].do("CLIENT", "LIST").matches(`(?s)".*"`)

	c := srv.dial()
	c.do("AUTH", "gone", "g").err("WRONGPASS")
	c.do("AUTH", "changed", "c").err("WRONGPASS")
	c.do("AUTH", "changed", "x").is("+OK")
	c.do("AUTH", "new", "n").is("+OK")
	c.do("AUTH", "narrower", "n").is("+OK")
	c.do("LOCK", "b:2", "20000").err("NOPERM")
	clients["root"].wantUser("limited", "refused_locks", "1")
}

// A user who loses something does not get its limits anew: what it holds and what was refused goes on counting.
func TestLesserUserGoesOnCounting(t *testing.T) {
	users := func(resources ...string) Options {
		return Options{Users: []access.User{{Name: "root", Password: "r"}, {Name: "app", Password: "a", MaxLocks: 1, Resources: resources}}}
	}
	srv := serve(t, func(o *Options) { o.Users = users("a", "b", "c").Users })
	c := srv.dialAs("app")
	c.do("LOCK", "a", "20000", "TOKEN", token).granted(1, 20000)
	c.do("LOCK", "b", "20000").err("ERR max number of locks")
	srv.reload(users("a", "b"))
	c.closed()
	c = srv.dialAs("app")
	c.do("LOCK", "b", "20000").err("ERR max number of locks")
	c.do("UNLOCK", "a", token).is(":1")
	root := srv.dialAs("root")
	for field, want := range map[string]string{"refused_locks": "2", "locks": "0", "connections": "1"} {
		root.wantUser("app", field, want)
	}
}

// The waiters of a user that is gone end, and leave no lock behind.
// What is kept of a user's scripts goes with the user: reloads that change users again and again must not fill the memory.
func TestReloadForgetsSharesOfScripts(t *testing.T) {
	srv := serve(t, func(o *Options) { o.Users = staff() })
	srv.shares.mu.Lock()
	for _, a := range srv.live().accounts {
		srv.shares.userLocked(a)
	}
	srv.shares.mu.Unlock()
	srv.reload(Options{Users: staff()[:2]})
	srv.shares.mu.Lock()
	defer srv.shares.mu.Unlock()
	for a := range srv.shares.users {
		if !srv.live().knows(a) {
			t.Errorf("%s is gone, and its share of the scripts is kept", a.user().Name)
		}
	}
	if n := len(srv.shares.users); n != 2 {
		t.Errorf("shares of scripts: got those of %d users, want those of the 2 that are left", n)
	}
}

func TestReloadEndsWaits(t *testing.T) {
	srv := serve(t, func(o *Options) { o.Users = staff() })
	root, gone := srv.dialAs("root"), srv.dialAs("gone")
	root.do("LOCK", "a", "20000", "TOKEN", token).granted(1, 20000)
	gone.send("LOCK", "a", "20000", "WAIT", "60000")
	srv.waiting(1)
	srv.reload(Options{Users: staff()[:8]})
	gone.closed()
	srv.waiting(0)
	root.do("UNLOCK", "a", token).is(":1")
	srv.noKeys()
}

func TestReloadAllOrNothing(t *testing.T) {
	srv := serve(t, func(o *Options) { o.Users = staff() })
	c := srv.dialAs("gone")
	for _, opts := range []Options{
		{Users: append(staff()[:8], access.User{Name: "nobody"})},
		{Users: staff()[:1], MaxClients: -1},
		{Users: staff()[:1], OutputTotal: 1 << 18},
	} {
		if closed, err := srv.Reload(opts); err == nil || closed != 0 {
			t.Errorf("%+v: got %d connections closed and error %v, want none and an error", opts, closed, err)
		}
	}
	c.do("PING").is("+PONG")
	c.do("CONFIG", "GET", "maxclients").is(`["maxclients" "10000"]`)
	srv.dialAs("same")
}

// The first users and the end of the last ones: nobody stays who came in by the old rule.
func TestReloadOfTheFirstUsers(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.do("LOCK", "a", "20000", "TOKEN", token).granted(1, 20000)
	if closed := srv.reload(Options{Users: staff()}); closed != 1 {
		t.Errorf("got %d connections closed, want 1", closed)
	}
	c.closed()
	eventually(t, "it has gone", func() bool { return len(srv.clients()) == 0 })
	c = srv.dial()
	c.do("PING").err("NOAUTH")
	c.do("AUTH", "root", "r").is("+OK")
	preauth := srv.dial()
	preauth.do("PING").err("NOAUTH")
	if closed := srv.reload(Options{}); closed != 2 {
		t.Errorf("got %d connections closed, want 2", closed)
	}
	c.closed()
	preauth.closed()
	srv.dial().do("UNLOCK", "a", token).is(":1")
}

func TestReloadOfLimits(t *testing.T) {
	srv := serve(t)
	c, other := srv.dial(), srv.dial()
	c.do("PING").is("+PONG")
	other.do("PING").is("+PONG")
	c.do("EVAL", "return 1", "0").is(":1")
	srv.reload(Options{MaxClients: 2, NoScripts: true, DefaultTTL: 5 * time.Second, AllowUnguarded: []string{"x*"}})
	srv.dial().read().is("-ERR max number of clients reached")
	c.do("EVAL", "return 1", "0").err("ERR EVAL is refused: scripts = false")
	c.do("SET", "x1", "v").is("+OK")
	c.do("SET", "y", token, "NX").is("+OK")
	srv.reload(Options{IdleTimeout: time.Millisecond})
	c.closed()
	other.closed()
}

// The client that asks for the reload gets its answer, also if it ends its own connection.
func TestCONFIGRELOAD(t *testing.T) {
	var served atomic.Pointer[Server]
	var fault atomic.Pointer[error]
	var next atomic.Pointer[Options]
	next.Store(&Options{Users: staff()})
	srv := serve(t, func(o *Options) {
		o.Users = staff()
		o.Reload = func() (string, error) {
			if err := fault.Load(); err != nil {
				return "", *err
			}
			closed, err := served.Load().Reload(*next.Load())
			return fmt.Sprint(closed, " closed"), err
		}
	})
	served.Store(srv.Server)
	root, gone, wider := srv.dialAs("root"), srv.dialAs("gone"), srv.dialAs("wider")
	root.do("CONFIG", "RELOAD").is(`"0 closed"`)
	root.do("CONFIG", "RELOAD", "now").is("-ERR wrong number of arguments for 'config|reload' command: CONFIG RELOAD")
	wider.do("CONFIG", "RELOAD").err("NOPERM this user has no permissions to run the 'config|reload' command")
	err := errors.Join(errors.New("config.toml:1: a"), errors.New("config.toml:2: b"))
	fault.Store(&err)
	root.do("CONFIG", "RELOAD").is("-ERR nothing was changed: config.toml:1: a; config.toml:2: b")
	fault.Store(nil)
	next.Store(&Options{Users: staff()[:8]})
	gone.do("CONFIG", "RELOAD").is(`"0 closed"`)
	gone.closed()
	root.do("PING").is("+PONG")
	serve(t).dial().do("CONFIG", "RELOAD").err("ERR CONFIG RELOAD is not served")
}

// Logins that run while their user is taken away: none of them is left afterwards.
func TestReloadAgainstLogins(t *testing.T) {
	srv := serve(t, func(o *Options) { o.Users = staff() })
	stop := make(chan struct{})
	var logins sync.WaitGroup
	for range 4 {
		logins.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				// One after another on a connection, as long as it stands. The user root never loses anything.
				c := srv.dial()
				for range 20 {
					frames := frameOf("AUTH", "root", "r") + frameOf("AUTH", "gone", "g")
					if _, err := io.WriteString(c.conn, frames); err != nil {
						break
					}
					if reply, err := readReply(c.r); err != nil || reply != "+OK" {
						break
					}
					if reply, err := readReply(c.r); err != nil || reply != "+OK" {
						break
					}
				}
				c.conn.Close()
			}
		})
	}
	for range 50 {
		srv.reload(Options{Users: staff()[:8]})
		gone := func() (n int) {
			for _, conn := range srv.clients() {
				if conn.session.username() == "gone" {
					n++
				}
			}
			return n
		}
		eventually(t, "nobody is left on a user that is gone", func() bool { return gone() == 0 })
		srv.reload(Options{Users: staff()})
	}
	close(stop)
	logins.Wait()
}

func TestPasswordDigests(t *testing.T) {
	const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" // of "test"
	cases := []struct{ configured, right string }{
		{"sha256:" + digest, "test"},
		{"sha256:" + strings.ToUpper(digest), "test"},
		{"#" + digest, "test"},
		{"#" + digest[1:], "#" + digest[1:]},
		{"#", "#"},
		{digest, digest},
		{"test", "test"},
	}
	var users []access.User
	for i, c := range cases {
		users = append(users, access.User{Name: fmt.Sprint("user", i), Password: c.configured})
	}
	srv := serve(t, func(o *Options) { o.Users = users })
	c := srv.dial()
	for i, pair := range cases {
		if pair.right != pair.configured {
			c.do("AUTH", users[i].Name, pair.configured).err("WRONGPASS") // a digest that has leaked is no password
		}
		c.do("AUTH", users[i].Name, pair.right).is("+OK")
	}
	// The same password in another form is no change.
	users[6].Password = "sha256:" + digest
	srv.reload(Options{Users: users})
	c.do("PING").is("+PONG")
}
