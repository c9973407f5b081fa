package proxy

// Goal: a user with a list of resources reaches these and no others, by whatever command, script or channel, and cannot administer the
// server; a user without one may do everything. Method: dialogues, and every command of the table with a foreign key in every place.

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"redlockd/proxy/access"
	"redlockd/proxy/status"
	"redlockd/redlock"
)

// confine has the users root, who may do everything, and billing, who may use billing:* and the resource "shared".
func confine(o *Options) {
	o.Users = []access.User{{Name: "root", Password: "r"}, {Name: "billing", Password: "b", Resources: []string{"billing:*", "shared"}}}
}

const noResource = "NOPERM this user has no permissions to access the resource 'orders:1': to user billing [auth] gives billing:*, shared"

func TestConfinedUser(t *testing.T) {
	srv := serve(t, confine)
	root, c := srv.dialAs("root"), srv.dialAs("billing")

	c.do("LOCK", "billing:1", "20000", "TOKEN", token).granted(1, 20000)
	c.do("LOCK", "shared", "20000", "TOKEN", token).granted(1, 20000)
	c.do("EVAL", releaseScript, "1", "shared", token).is(":1")
	c.do("LOCK", "orders:1", "20000").is("-" + noResource)
	c.do("EVAL", releaseScript, "1", "orders:1", token).err(noResource)
	c.do("EVAL", "return redis.call('get', 'orders:1')", "0").err("NOPERM this user has no permissions to access the resource 'orders:1'")
	c.do("MLOCK", "2", "billing:2", "orders:1", "20000").err(noResource)
	c.do("LOCK", "xbilling:1", "20000").err("NOPERM")

	root.do("LOCK", "orders:1", "20000", "TOKEN", token).granted(1, 20000)
	root.do("MLOCK", "2", "billing:3", "orders:3", "20000", "TOKEN", token).granted(1, 20000)
	c.do("LOCKINFO", "orders:1").err(noResource)
	c.do("UNLOCK", "orders:1", token).err(noResource)
	c.do("LOCKS").matches(`\[\["resources" \["billing:1"\] .*`)
	c.do("LOCKS", "PATTERN", "orders:*").is("[]")
	root.do("LOCKS").matches(`.*"billing:1".*"orders:3".*"orders:1".*`)

	// In a transaction: refused when it is queued, and then nothing is done.
	c.do("MULTI").is("+OK")
	c.do("DELEX", "billing:1", "IFEQ", token).is("+QUEUED")
	c.do("DELEX", "orders:1", "IFEQ", token).err(noResource)
	c.do("EXEC").err("EXECABORT")
	c.do("GET", "billing:1").is(`"` + token + `"`)

	// Another login is another user.
	c.do("AUTH", "root", "r").is("+OK")
	c.do("UNLOCK", "orders:1", token).is(":1")
	c.do("CLIENT", "LIST").matches(`(?s)".*"`)
}

func TestConfinedUserCannotAdminister(t *testing.T) {
	srv := serve(t, confine)
	c := srv.dialAs("billing")
	var administer []string
	for _, cmd := range srv.table.rows {
		if cmd.flags&flagAdmin == 0 {
			continue
		}
		administer = append(administer, cmd.fullName())
		args := strings.Split(cmd.fullName(), "|")
		for len(args) < max(cmd.arity, -cmd.arity) {
			args = append(args, "1")
		}
		c.do(args...).err("NOPERM this user has no permissions to run the '" + cmd.fullName() + "' command")
	}
	for name := range strings.FieldsSeq("client|kill client|list client|unblock config|get config|reload config|resetstat config|set script|flush") {
		if !slices.Contains(administer, name) {
			t.Errorf("%s is not for administrators alone", name)
		}
	}
	c.do("CLIENT", "SETNAME", "app").is("+OK")
	c.do("CLIENT", "INFO").matches(`".* name=app .* user=billing .*"`)
	c.do("INFO", "server").matches(`(?s)".*"`)
	c.do("COMMAND", "COUNT").matches(`:\d+`)
}

// A command that is added with keys and does not tell where they stand lets every user use every resource.
func TestConfinedUserWithEveryCommand(t *testing.T) {
	srv := serve(t, confine)
	c := srv.dialAs("billing")
	tried := 0
	for _, cmd := range srv.table.rows {
		hasKey := strings.Contains(fmt.Sprint(cmd.arguments), "key")
		if hasKey != (cmd.keys != keySpec{}) {
			t.Errorf("%s: its docs name keys: %v; its row says where: %v", cmd.fullName(), hasKey, cmd.keys != keySpec{})
			continue
		}
		if !hasKey {
			continue
		}
		// Three keys, or as many as there can be, each of them the foreign one once.
		args := []string{cmd.name, "billing:1", "billing:2", "billing:3", "billing:4", "billing:5", "billing:6"}
		args = args[:max(cmd.arity, min(-cmd.arity+3, len(args)))]
		if n := cmd.keys.numkeys; n > 0 {
			args[n] = "2"
		}
		keys, step, ok := cmd.keys.find(bytesOf(args))
		if !ok {
			t.Errorf("%s: no keys found in %q", cmd.name, args)
			continue
		}
		for i := 0; i < len(keys); i += step {
			foreign := slices.Clone(args)
			foreign[slices.IndexFunc(bytesOf(args), func(arg []byte) bool { return string(arg) == string(keys[i]) })] = "orders:1"
			c.do(foreign...).err(noResource)
			tried++
		}
	}
	if tried < 50 {
		t.Errorf("%d commands and places tried: are these all?", tried)
	}
	srv.noKeys()
}

func bytesOf(args []string) (list [][]byte) {
	for _, arg := range args {
		list = append(list, []byte(arg))
	}
	return list
}

// What a channel is called may be the name of a resource, and its messages are for those who wait for it.
func TestConfinedUserAndChannels(t *testing.T) {
	srv := serve(t, confine)
	root, c := srv.dialAs("root"), srv.dial()
	c.do("HELLO", "3", "AUTH", "billing", "b").matches(`\{.*\}`)
	const noChannel = "NOPERM this user has no permissions to access the channel 'orders:1': to user billing [auth] gives billing:*, shared"
	c.do("SUBSCRIBE", "billing:1", "orders:1").err(noChannel)
	c.do("PUBLISH", "orders:1", "x").err(noChannel)
	c.do("PSUBSCRIBE", "*").err("NOPERM this user has no permissions to access the channel '*'")
	c.do("PSUBSCRIBE", "billing:a*").err("NOPERM")
	publish := "redis.pcall('set', KEYS[1], ARGV[1], 'nx', 'px', 20000) redis.pcall('publish', ARGV[2], 'x') return 1"
	c.do("EVAL", publish, "1", "billing:1", token, "orders:1").err(noChannel)
	srv.noKeys()
	root.do("PUBLISH", "billing:1", "x").is(":0") // it has subscribed to nothing

	c.do("PSUBSCRIBE", "billing:*").matches(`>\["psubscribe" "billing:\*" :1\]`)
	other := srv.dialAs("billing")
	other.do("EVAL", publish, "1", "billing:1", token, "billing:1").is(":1")
	c.read().is(`>["pmessage" "billing:*" "billing:1" "x"]`)
}

// Who may not administer the server learns how many masters are out, and in which state, but not their names or what they say: by no
// command.
func TestOnlyAdministratorsLearnOfMasters(t *testing.T) {
	for name, u := range map[string]access.User{
		"resources":          {Resources: []string{"billing:*", "shared"}},
		"admin of resources": {Resources: []string{"billing:*", "shared"}, Admin: new(true)},
		"no admin":           {Admin: new(false)},
		"lock and read":      {Commands: []string{"lock", "read"}},
	} {
		t.Run(name, func(t *testing.T) {
			u.Name, u.Password = "billing", "b"
			learnsOfNoMasters(t, u)
		})
	}
}

func learnsOfNoMasters(t *testing.T, u access.User) {
	srv := serve(t, func(o *Options) { o.Users = []access.User{{Name: "root", Password: "r"}, u} })
	root, c := srv.dialAs("root"), srv.dialAs("billing")
	srv.crash(0, 1, 2)
	srv.masters[0].Restart()
	count := func(state redlock.MasterState) int { return status.CountState(srv.opts.Engine.Masters(), state) }
	eventually(t, "one is in quarantine, two are down", func() bool { return count(redlock.MasterQuarantined) == 1 && count(redlock.MasterDown) == 2 })

	const counts = `-NOQUORUM \d of 5 masters voted, 3 needed; out: 2 down, 1 quarantined(; \d more could not have made a quorum and were not waited for)?`
	c.do("LOCK", "billing:1", "20000").matches(counts)
	c.do("EVAL", releaseScript, "1", "billing:1", token).err("NOQUORUM")
	root.do("LOCK", "billing:1", "20000").matches(`-NOQUORUM \d of 5 masters voted, 3 needed; out: master-1:6379: quarantined: .*`)
	c.do("LOCKINFO", "billing:1").matches(`.*\["master" \$nil "token-digest" \$nil "ttl-ms" \$nil "error" "down" "readers" :0\].*`)
	root.do("LOCKINFO", "billing:1").matches(`.*\["master" "master-1:6379" .*`)
	got := c.info("masters")
	for name, want := range map[string]string{"masters": "5", "masters_up": "2", "masters_quarantined": "1", "masters_down": "2", "masters_refused": "0", "quorum": "3"} {
		if got[name] != want {
			t.Errorf("INFO masters: %s is %q, want %q", name, got[name], want)
		}
	}
	if _, tells := got["membership_problem"]; tells || got["membership_voters"] == "" {
		t.Errorf("INFO masters: got %v, want the membership without what names masters", got)
	}
	// The reply is for the user who sent the command.
	c.send("LOCK", "billing:1", "20000", "WAIT", "50")
	c.send("AUTH", "root", "r")
	c.read().matches(counts)
	c.read().is("+OK")
	c.do("AUTH", "billing", "b").is("+OK")

	tried, failed := 0, 0
	for _, cmd := range srv.table.rows {
		if cmd.name == "quit" || cmd.name == "multi" || cmd.name == "reset" || cmd.name == "subscribe" || cmd.name == "psubscribe" || cmd.fullName() == "client|reply" {
			continue // they change what the next one is answered
		}
		args := strings.Split(cmd.fullName(), "|")
		more := []string{"billing:1", "20000", "20000", "20000"}
		switch {
		case cmd.keys.numkeys == 1:
			more = []string{"1", "billing:1", "20000", "20000"}
		case cmd.keys.numkeys == 2:
			more = []string{releaseScript, "1", "billing:1", "20000"}
		}
		for len(args) < max(cmd.arity, -cmd.arity) {
			args, more = append(args, more[0]), more[1:]
		}
		reply := c.do(args...)
		if strings.Contains(reply.text, "master-") { // the port alone may be part of any number
			t.Errorf("%q tells the user of masters: %s", args, reply.text)
		}
		if tried++; strings.HasPrefix(reply.text, "-NOQUORUM") {
			failed++
		}
	}
	if tried < 60 || failed < 10 {
		t.Errorf("%d commands tried, %d of them with NOQUORUM: are these all?", tried, failed)
	}
}

// Goal: who logs in as a lesser user keeps nothing that this one could not have got.
func TestLoginAsALesserUser(t *testing.T) {
	srv := serve(t, confine)
	root, c := srv.dialAs("root"), srv.dial()
	c.do("HELLO", "3", "AUTH", "root", "r")
	c.do("WATCH", "orders:1", "billing:1").is("+OK")
	c.raw(frameOf("SUBSCRIBE", "orders:1", "billing:1") + frameOf("PSUBSCRIBE", "*", "billing:*") + frameOf("AUTH", "billing", "b"))
	for _, want := range []string{
		`>["subscribe" "orders:1" :1]`, `>["subscribe" "billing:1" :2]`, `>["psubscribe" "*" :3]`, `>["psubscribe" "billing:*" :4]`,
		`>["unsubscribe" "orders:1" :3]`, `>["punsubscribe" "*" :2]`, "+OK",
	} {
		c.read().is(want)
	}
	srv.heard(1)
	root.do("PUBLISH", "orders:1", "secret").is(":0")
	root.do("PUBLISH", "billing:1", "hello").is(":2")
	c.read().is(`>["message" "billing:1" "hello"]`)
	c.read().is(`>["pmessage" "billing:*" "billing:1" "hello"]`)

	c.do("MULTI").is("+OK")
	c.do("GET", "billing:1").is("+QUEUED")
	c.do("EXEC").is("-" + noResource)
	c.do("WATCH", "billing:1").is("+OK")
	c.do("MULTI").is("+OK")
	c.do("GET", "billing:1").is("+QUEUED")
	c.do("EXEC").is("[_nil]")
	c.do("AUTH", "root", "r").is("+OK") // who may do more keeps all
	root.do("PUBLISH", "billing:1", "again").is(":2")
	c.read().is(`>["message" "billing:1" "again"]`)
}
