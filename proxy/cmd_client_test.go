package proxy

import (
	"strings"
	"testing"

	"redlockd/proxy/access"
)

// idOf asks a client for its id.
func (c *client) id() string {
	c.t.Helper()
	return c.do("CLIENT", "ID").matches(`:(\d+)`)[0]
}

// Goal: CLIENT LIST and CLIENT INFO show what is known of a client. Method: make clients of all kinds, and read.
func TestCLIENTLIST(t *testing.T) {
	srv := serve(t)
	a, b, w := srv.dial(), srv.dial(), srv.dial()
	a.do("HELLO", "3", "SETNAME", "alpha")
	a.do("CLIENT", "SETINFO", "lib-name", "go").is("+OK")
	a.do("CLIENT", "SETINFO", "LIB-VER", "1.2").is("+OK")
	a.do("CLIENT", "INFO").matches(`"txt:id=1 addr=127.0.0.1:\d+ laddr=` + srv.addr + ` fd=-1 name=alpha age=\d+ idle=\d+ flags=N db=0 sub=0 psub=0 ssub=0 ` +
		`multi=-1 qbuf=0 .* omem=0 tot-mem=10 events=r cmd=client\|info user=default redir=-1 resp=3 lib-name=go lib-ver=1.2\\n"`)

	b.do("SUBSCRIBE", "x", "y")
	b.read()
	b.do("PSUBSCRIBE", "p*")
	w.do("LOCK", "a", "60000").granted(1, 60000)
	w.send("LOCK", "a", "60000", "WAIT", "60000")
	srv.waiting(1)

	a.do("CLIENT", "LIST").matches(`"txt:id=1 .*\\nid=2 .* flags=P db=0 sub=2 psub=1 .* cmd=psubscribe .*\\nid=3 .* flags=b .* cmd=lock .*\\n"`)
	a.do("CLIENT", "LIST", "TYPE", "PubSub").matches(`"txt:id=2 [^\\]*\\n"`)
	a.do("CLIENT", "LIST", "TYPE", "normal").matches(`"txt:id=1 [^\\]*\\nid=3 [^\\]*\\n"`)
	a.do("CLIENT", "LIST", "TYPE", "replica").is(`"txt:"`)
	a.do("CLIENT", "LIST", "ID", "3", "7", "2").matches(`"txt:id=3 [^\\]*\\nid=2 [^\\]*\\n"`)
}

// Goal: texts that would break the lines of CLIENT LIST are refused, and so are those that would fill the memory.
func TestCLIENTSETNAMERefusals(t *testing.T) {
	c := serve(t).dial()
	long := strings.Repeat("x", clientTextMax+1)
	for _, name := range []string{"a b", "a\n", "\x00", "ü", "a\x7f"} {
		c.do("CLIENT", "SETNAME", name).is("-ERR Client names cannot contain spaces, newlines or special characters.")
		c.do("HELLO", "2", "SETNAME", name).is("-ERR Client names cannot contain spaces, newlines or special characters.")
		c.do("CLIENT", "SETINFO", "LIB-NAME", name).is("-ERR LIB-NAME cannot contain spaces, newlines or special characters.")
	}
	c.do("CLIENT", "SETNAME", long).is("-ERR Client names cannot be longer than 1024 bytes.")
	c.do("CLIENT", "SETNAME", long[1:]).is("+OK")
	c.do("CLIENT", "SETINFO", "lib-ver", long).is("-ERR lib-ver cannot be longer than 1024 bytes.")
	c.do("CLIENT", "SETINFO", "lib-foo", "x").is("-ERR Unrecognized option 'lib-foo'")
	c.do("CLIENT", "SETINFO", "lib-ver", "").is("+OK")
}

// Goal: CLIENT KILL closes those that match, and only those. Method: each condition against three clients.
func TestCLIENTKILL(t *testing.T) {
	srv := serve(t, func(opts *Options) {
		opts.Users = []access.User{{Name: "default", Password: "d"}, {Name: "alice", Password: "a"}}
	})
	addrOf := func(c *client) string { return c.conn.LocalAddr().String() }
	for name, kill := range map[string]func(victim *client) []string{
		"ID":    func(v *client) []string { return []string{"ID", v.id()} },
		"ADDR":  func(v *client) []string { return []string{"ADDR", addrOf(v)} },
		"USER":  func(*client) []string { return []string{"USER", "alice"} },
		"TYPE":  func(*client) []string { return []string{"TYPE", "pubsub"} },
		"LADDR": func(v *client) []string { return []string{"LADDR", srv.addr, "user", "alice"} },
		"all": func(v *client) []string {
			return []string{"ADDR", addrOf(v), "ID", v.id(), "TYPE", "pubsub", "SKIPME", "no"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			killer, victim, other := srv.dial(), srv.dial(), srv.dial()
			killer.do("AUTH", "d")
			other.do("AUTH", "d")
			victim.do("HELLO", "3", "AUTH", "alice", "a")
			args := kill(victim)
			victim.do("SUBSCRIBE", "x")
			killer.do(append([]string{"CLIENT", "KILL"}, args...)...).is(":1")
			victim.closed()
			killer.do("PING").is("+PONG")
			other.do("QUIT").is("+OK")
			killer.do("QUIT").is("+OK")
			eventually(t, "all are gone", func() bool { return len(srv.clients()) == 0 })
		})
	}

	t.Run("old form", func(t *testing.T) {
		killer, victim := srv.dial(), srv.dial()
		killer.do("AUTH", "d")
		victim.do("AUTH", "d")
		killer.do("CLIENT", "KILL", addrOf(victim)).is("+OK")
		victim.closed()
		eventually(t, "the victim is gone", func() bool { return len(srv.clients()) == 1 })
		killer.do("CLIENT", "KILL", addrOf(victim)).is("-ERR No such client")
		killer.do("CLIENT", "KILL", addrOf(killer)).is("+OK") // oneself, too
		killer.closed()
	})
	t.Run("everybody else", func(t *testing.T) {
		eventually(t, "all are gone", func() bool { return len(srv.clients()) == 0 })
		killer, victims := srv.dial(), []*client{srv.dial(), srv.dial()}
		killer.do("AUTH", "d")
		for _, victim := range victims {
			victim.do("AUTH", "d")
		}
		killer.do("CLIENT", "KILL", "SKIPME", "yes").is(":2")
		for _, victim := range victims {
			victim.closed()
		}
		killer.do("PING").is("+PONG")
	})
	t.Run("oneself", func(t *testing.T) {
		c := srv.dial()
		c.do("AUTH", "d")
		c.do("CLIENT", "KILL", "ID", c.id()).is(":0")
		c.do("CLIENT", "KILL", "ID", c.id(), "SKIPME", "NO").is(":1")
		c.closed()
	})
}

// Goal: what cannot be kept is refused by words that say why.
func TestCLIENTPAUSE(t *testing.T) {
	c := serve(t).dial()
	c.do("CLIENT", "NO-TOUCH", "ON").is("+OK")
	c.do("CLIENT", "PAUSE", "100").err("ERR CLIENT PAUSE is not served: ")
	c.do("CLIENT", "UNPAUSE").err("ERR CLIENT UNPAUSE is not served: ")
}

// Goal: HELP has a line for every subcommand, and the last is about itself.
func TestCLIENTHELP(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	for _, name := range []string{"CLIENT", "CONFIG", "COMMAND"} {
		text := c.do(name, "HELP").text
		cmd := srv.table.named([]byte(name))
		if !strings.HasPrefix(text, "[+"+name+" <subcommand> [<arg> [value] [opt] ...]. Subcommands are: ") {
			t.Errorf("%s HELP begins with %.80s", name, text)
		}
		for _, sub := range cmd.subs {
			if want := " +" + strings.ToUpper(sub.name); !strings.Contains(text, want) {
				t.Errorf("%s HELP: got no %q in %s", name, want, text)
			}
		}
	}
}
