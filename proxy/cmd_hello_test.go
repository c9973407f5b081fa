package proxy

import (
	"strings"
	"testing"

	"redlockd/proxy/access"
)

// Goal: HELLO tells all seven fields, as a map in RESP3 and flat in RESP2, and changes nothing when it fails.
// Method: dialogues. That the words are those of Redis is checked in differential_test.go.
func TestHELLO(t *testing.T) {
	c := serve(t).dial()
	c.do("HELLO").is(`["server" "redis" "version" "7.4.0" "proto" :2 "id" :1 "mode" "standalone" "role" "master" "modules" []]`)
	c.do("HELLO", "3").is(`{"server": "redis" "version": "7.4.0" "proto": :3 "id": :1 "mode": "standalone" "role": "master" "modules": []}`)

	// A HELLO that fails at its end has not renamed the connection and not changed the protocol.
	c.do("HELLO", "2", "SETNAME", "app", "FOO").err("ERR Syntax error in HELLO option 'FOO'")
	c.do("HELLO", "2", "SETNAME", "app", "AUTH", "nobody", "x").err("WRONGPASS")
	c.do("CLIENT", "GETNAME").is("_nil")

	c.do("HELLO", "2", "AUTH", "default", "any", "SETNAME", "app").matches(`\["server" .* "proto" :2 .*`)
	c.do("CLIENT", "GETNAME").is(`"app"`)
	c.do("HELLO", "3").matches(`\{.*\}`) // says nothing of a name, and leaves it
	c.do("CLIENT", "GETNAME").is(`"app"`)
}

// Goal: where users are configured, nothing but a login is possible without one, and a login that fails changes nothing.
func TestAUTH(t *testing.T) {
	srv := serve(t, func(opts *Options) {
		opts.Users = []access.User{{Name: "alice", Password: "wonder"}, {Name: "bob", Password: "builder"}}
	})
	c := srv.dial()
	for _, command := range [][]string{{"PING"}, {"LOCK", "a", "1000"}, {"INFO"}, {"CLIENT", "LIST"}, {"COMMAND"}, {"CLIENT", "KILL", "ID", "1"}} {
		c.do(command...).is("-NOAUTH Authentication required.")
	}
	c.do("AUTH", "wonder").err("WRONGPASS") // there is no user named default
	c.do("AUTH", "alice", "builder").err("WRONGPASS")
	c.do("AUTH", "Alice", "wonder").err("WRONGPASS")
	c.do("HELLO", "3").err("NOAUTH HELLO must be called with the client already authenticated")
	c.do("PING").err("NOAUTH")

	c.do("AUTH", "alice", "wonder").is("+OK")
	c.do("AUTH", "bob", "wrong").err("WRONGPASS")
	c.do("CLIENT", "INFO").matches(`".* user=alice .*"`)
	c.do("AUTH", "bob", "builder").is("+OK")
	c.do("CLIENT", "INFO").matches(`".* user=bob .*"`)

	c.do("RESET").is("+RESET")
	c.do("PING").err("NOAUTH")
	c.do("HELLO", "3", "AUTH", "alice", "wonder").matches(`\{"server": .*`)
	c.do("PING").is("+PONG")
}

// Goal: a login that fails is in the log, with who tried, without the password, and one of a second is enough. Method: logins over the wire.
func TestFailedLoginIsLogged(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		var log testLog
		srv := serve(t, log.keep, withUser)
		c := srv.dial()
		c.do("AUTH", "default", "secret").is("+OK")
		c.do("AUTH", "mallory\r\n", "guess").err("WRONGPASS")
		c.do("HELLO", "3", "AUTH", "default", "guess").err("WRONGPASS")
		addr := srv.clients()[0].addr
		srv.Close()
		want := `msg="a client could not log in" client=` + addr + ` user="mallory\r\n" to_do=`
		if got := log.String(); strings.Count(got, "could not log in") != 1 || !strings.Contains(got, want) || strings.Contains(got, "guess") {
			t.Errorf("got the log\n%s\nwant once %s", got, want)
		}
	})
}

func TestLongNameIsLoggedShort(t *testing.T) {
	var log testLog
	srv := serve(t, log.keep, withUser)
	srv.dial().do("AUTH", strings.Repeat("x", 1000), "secret").err("WRONGPASS")
	srv.Close()
	if got := log.String(); !strings.Contains(got, " user="+strings.Repeat("x", failedLoginName)+" ") {
		t.Errorf("got the log\n%s\nwant %d bytes of the name", got, failedLoginName)
	}
}

// Goal: RESET undoes all that a client has set. Method: set all of it, and look.
func TestRESET(t *testing.T) {
	c := serve(t).dial()
	c.do("HELLO", "3", "SETNAME", "app")
	c.do("CLIENT", "SETINFO", "LIB-NAME", "lib").is("+OK")
	c.do("SUBSCRIBE", "a").is(`>["subscribe" "a" :1]`)
	c.send("CLIENT", "REPLY", "OFF")
	c.do("RESET").is("+RESET")
	c.do("CLIENT", "INFO").matches(`".* name= .* flags=N .* sub=0 .* resp=2 lib-name=lib lib-ver=\\n"`)
}
