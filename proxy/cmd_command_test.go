package proxy

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"redlockd/redlock/redisproc"
)

// Goal: a syntax line becomes arguments that redis-cli shows as that line. Method: there and back; hint is redis-cli's
// own way of writing arguments.
func TestSyntax(t *testing.T) {
	for _, tc := range []struct{ line, hint string }{
		{"", ""},
		{"resource:key ttl:integer [TOKEN token] [WAIT ms:integer] [FENCE]", "resource ttl [TOKEN token] [WAIT ms] [FENCE]"},
		{"numkeys:integer resource:key... token", "numkeys resource [resource ...] token"},
		{"[protover:integer [AUTH username password] [SETNAME clientname]]", "[protover [AUTH username password] [SETNAME clientname]]"},
		{"<ON | OFF | SKIP>", "ON|OFF|SKIP"},
		{"id:integer [TIMEOUT|ERROR]", "id [TIMEOUT|ERROR]"},
		{"[TYPE <NORMAL | PUBSUB> | ID id:integer...]", "[TYPE NORMAL|PUBSUB|ID id [id ...]]"},
		{"<parameter value>...", "parameter value [parameter value ...]"},
		{"[channel...]", "[channel [channel ...]]"},
	} {
		if got := hintOf(syntax(tc.line), " "); got != tc.hint {
			t.Errorf("syntax(%q): got %q, want %q", tc.line, got, tc.hint)
		}
	}
	for _, line := range []string{"[a", "a]", "<a|b", "[]", "a:blob", "a | b", "[a>"} {
		if err := panicOf(func() { syntax(line) }); err == nil {
			t.Errorf("syntax(%q): got no panic, want one", line)
		}
	}
}

func panicOf(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}

// commands.md has a section for each command of redlockd's own, and every option of it.
func TestCommandsPage(t *testing.T) {
	page := readFile(t, "commands.md")
	table := serve(t).table
	for _, name := range table.native {
		if !regexp.MustCompile(`(?m)^## .*\b`+name+`\b`).MatchString(page) && name != "MHOLD" { // in the section of HOLD
			t.Errorf("commands.md has no section for %s", name)
		}
		for _, word := range regexp.MustCompile(`[A-Z]{2,}`).FindAllString(table.byName[strings.ToLower(name)].form, -1) {
			if !regexp.MustCompile(`\b` + word + `\b`).MatchString(page) {
				t.Errorf("commands.md does not have %s of %s", word, name)
			}
		}
	}
}

// Goal: rows whose names Redis knows have Redis's arity and Redis's key positions, and every row is described.
// Method: the COMMAND of a real redis-server is the judge.
func TestCommandTable(t *testing.T) {
	redis := startRedis(t)
	ours := serve(t)
	ask := func(addr, name string) (arity, keys string, known bool) {
		reply := replies(t, addr, "COMMAND INFO "+name)
		groups := regexp.MustCompile(`^\[\["[^"]*" (:-?\d+) \[.*?\] (:-?\d+ :-?\d+ :-?\d+) `).FindStringSubmatch(reply[0])
		if groups == nil {
			return "", "", false
		}
		return groups[1], groups[2], true
	}
	newer := regexp.MustCompile(`^client\|(setinfo|no-touch)$|^command\|getkeys$`) // changed in Redis 7.2
	for _, row := range ours.table.rows {
		name := row.fullName()
		if row.summary == "" || row.since == "" || row.group == "" {
			t.Errorf("%s: docs are incomplete", name)
		}
		if strings.HasSuffix(row.summary, ".") {
			t.Errorf("%s: the summary ends in a full stop; COMMAND HELP adds one", name)
		}
		if row.handler == nil && row.subs == nil {
			t.Errorf("%s: no handler", name)
		}
		arity, keys, known := ask(ours.addr, name)
		if !known {
			t.Fatalf("%s: COMMAND INFO does not know it", name)
		}
		wantArity, wantKeys, known := ask(redis.Addr, name)
		if known && (arity != wantArity || keys != wantKeys) && !newer.MatchString(name) {
			t.Errorf("%s: got arity %s and keys at %s, want %s and %s", name, arity, keys, wantArity, wantKeys)
		}
	}
}

// Goal: no command of Redis 7.0 is unknown here, no name is refused that Redis does not have, and none both refused and
// served. Method: COMMAND LIST of a real redis-server.
func TestRefusals(t *testing.T) {
	redis := startRedis(t)
	c := serve(t).dial()
	list := replies(t, redis.Addr, "COMMAND LIST")[0]
	inRedis := make(map[string]bool)
	for _, name := range strings.Fields(strings.Trim(list, "[]")) {
		name = strings.Trim(name, `"`)
		if strings.Contains(name, "|") {
			continue
		}
		inRedis[name] = true
		if got := c.do(name).text; strings.Contains(got, "unknown command") {
			t.Errorf("%s: got %s", name, got)
		}
		if name == "quit" {
			c = serve(t).dial()
		}
		c.do("RESET")
	}
	if len(inRedis) < 200 {
		t.Fatalf("COMMAND LIST of Redis has %d commands only", len(inRedis))
	}
	served := newCommandTable(commandRows)
	for name := range refusalOf {
		if !inRedis[name] {
			t.Errorf("%s is refused by name, but Redis has no such command", name)
		}
		if served.byName[name] != nil {
			t.Errorf("%s is both served and refused", name)
		}
	}

	c.do("fcall", "f", "0").is("-ERR FCALL is not served: this endpoint serves locks only; send the script itself with EVAL; LOCK, EXTEND and UNLOCK do in one command what lock libraries do in a script")
	c.do("LPUSH", "l", "v").is("-ERR LPUSH is not served: it asks for a queue, and redlockd keeps locks only: point only the connection for locks at it, and keep the rest at a Redis of its own; a queue of waiters is LOCK with WAIT, a semaphore LOCK with SLOTS")
}

// Goal: what COMMAND says of a lock command, in both protocol versions, is what client libraries expect of Redis 7.
func TestCOMMANDINFO(t *testing.T) {
	c := serve(t).dial()
	c.do("COMMAND", "INFO", "LOCK", "nosuch").is(`[["lock" :-3 [+write +noscript +blocking] :1 :1 :1 [] [] [] []] $nil]`)
	c.do("COMMAND", "DOCS", "unlock", "nosuch").matches(`\["unlock" \["summary" "Release .*" "since" "1.0.0" "group" "generic" ` +
		`"arguments" \[\["name" "resource" "type" "key" "display_text" "resource"\] \["name" "token_reason" "type" "oneof" "arguments" .*\]\]\]\]`)
	c.do("COMMAND", "LIST", "FILTERBY", "PATTERN", "*UNLOCK").is(`["munlock" "unlock"]`)
	c.do("COMMAND", "LIST", "FILTERBY", "ACLCAT", "blocking").is(`[]`)

	c.do("HELLO", "3")
	c.do("COMMAND", "INFO", "mlock").matches(`\[\["mlock" :-4 ~\[.*\+movablekeys\] :\d :\d :\d ~\[\] ~\[\] ~\[\] \[\]\]\]`)
	c.do("COMMAND", "DOCS", "client|reply").matches(`\{"client\|reply": \{"summary": .* "arguments": ` +
		`\[\{"name": "on_off_skip" "type": "oneof" "arguments": \[\{"name": "on" "type": "pure-token" "display_text": "on" "token": "ON"\} .*\]\}\]\}\}`)
	c.do("COMMAND", "DOCS", "client").matches(`\{"client": \{.* "subcommands": \{"client\|id": \{"summary": .*\}\}\}\}`)
}

// Goal: COMMAND GETKEYS finds the keys of every lock command, and says so where it cannot.
func TestCOMMANDGETKEYS(t *testing.T) {
	c := serve(t).dial()
	for _, tc := range []struct{ command, want string }{
		{"LOCK a 1000 WAIT 5", `["a"]`},
		{"unlock a t", `["a"]`},
		{"MLOCK 2 a b 1000", `["a" "b"]`},
		{"MUNLOCK 1 a t", `["a"]`},
		{"MEXTEND 3 a b c t 1000", `["a" "b" "c"]`},
		{"LOCK a", "-ERR Invalid number of arguments specified for command"},
		{"MLOCK 9 a b 1000", "-ERR Invalid arguments specified for command"},
		{"MLOCK 0 a b 1000", "-ERR Invalid arguments specified for command"},
		{"MLOCK -1 a b 1000", "-ERR Invalid arguments specified for command"},
		{"MLOCK x a b 1000", "-ERR Invalid arguments specified for command"},
		{"PING a", "-ERR The command has no key arguments"},
		{"CLIENT ID", "-ERR The command has no key arguments"},
		{"SET a b NX PX 1000", `["a"]`},
		{"MSETNX a 1 b 2", `["a" "b"]`},
		{"DEL a b", `["a" "b"]`},
		{"LPUSH a b", "-ERR Invalid command specified"},
	} {
		c.do(append([]string{"COMMAND", "GETKEYS"}, strings.Fields(tc.command)...)...).is(tc.want)
	}
	got := c.do("COMMAND").text
	count := c.do("COMMAND", "COUNT").matches(`:(\d+)`)[0]
	if n := strings.Count(c.do("COMMAND", "DOCS").text, `"subcommands"`); n != 4 {
		t.Errorf("COMMAND DOCS: got %d commands with subcommands, want CLIENT, COMMAND, CONFIG and SCRIPT", n)
	}
	if info := c.do("COMMAND", "INFO").text; info != got || count == "0" {
		t.Errorf("COMMAND INFO without names: got another answer than COMMAND")
	}
}

// Goal: people find the commands in redis-cli. Method: its own help, which it makes from COMMAND DOCS as it makes its
// hints from it.
func TestRedisCLIHelp(t *testing.T) {
	redisproc.Need(t, "redis-cli")
	srv := serve(t)
	_, port, _ := strings.Cut(srv.addr, ":")
	for _, protocol := range []string{"-2", "-3"} {
		for name, want := range map[string]string{
			"LOCK":  "LOCK resource ttl [TOKEN token] [WAIT ms] [FENCE] [SHARED] [SLOTS k] [HOLD] [RELEASE] [NOTE text] [JUSTTOKEN]",
			"MLOCK": "MLOCK numkeys resource [resource ...] ttl [TOKEN token] [WAIT ms] [FENCE] [HOLD] [RELEASE] [NOTE text] [JUSTTOKEN]",
			"HELLO": "HELLO [protover [AUTH username password] [SETNAME clientname]]",
		} {
			out, err := exec.Command("redis-cli", protocol, "-p", port, "help", name).CombinedOutput()
			if err != nil {
				t.Fatalf("redis-cli (Debian's package redis-tools has it): %v: %s", err, out)
			}
			colours := regexp.MustCompile("\x1b\\[[0-9;]*m")
			if got := colours.ReplaceAllString(string(out), ""); !strings.Contains(got, want+"\r\n") || strings.Contains(got, "Unknown") {
				t.Errorf("redis-cli %s help %s: got %s\nwant %s", protocol, name, got, want)
			}
		}
	}
	if out, err := exec.Command("redis-cli", "-p", port, "lock", "cli", "20000").CombinedOutput(); err != nil || !strings.Contains(string(out), "\n1") {
		t.Errorf("redis-cli lock cli 20000: got %s %v, want a token and a validity", out, err)
	}
}
