package proxy

// Goal: what clients can tell a Redis by, its words and the shape of its replies, is the same here.
// Method: the same lines go to a real redis-server and to redlockd, and the replies are compared. What differs by right
// (ids, addresses, versions, times) is masked in both.

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock/redisproc"
)

// dialogues are lines that Redis 7.0 and redlockd must answer alike. A dialogue runs on a connection of its own, in RESP2
// and again behind a HELLO 3.
var dialogues = map[string]string{
	"ping": `
		PING
		PING hello
		PING ""
		PING a b
		ECHO
		ECHO "a b"
		ECHO a b`,
	"hello": `
		HELLO
		HELLO 2
		HELLO 3
		HELLO
		HELLO 4
		HELLO 1
		HELLO -3
		HELLO 03
		HELLO three
		HELLO 2 SETNAME
		HELLO 2 SETNAME "a b"
		HELLO 2 SETNAME app
		CLIENT GETNAME
		HELLO 3 SETNAME ""
		CLIENT GETNAME
		HELLO 3 AUTH
		HELLO 3 AUTH a
		HELLO 3 AUTH default anything
		HELLO 2 AUTH nobody anything
		HELLO
		HELLO 2 FOO
		hello 2 setname "two" auth default x
		CLIENT GETNAME`,
	"auth": `
		AUTH
		AUTH secret
		AUTH default secret
		AUTH nobody secret
		AUTH a b c`,
	"select": `
		SELECT 0
		SELECT 1
		SELECT 15
		SELECT 16
		SELECT -1
		SELECT x
		SELECT 01
		SELECT ""
		SELECT
		SELECT 0 0
		SELECT 9999999999
		SELECT 99999999999999999999`,
	"misc": `
		ROLE
		ROLE x
		TIME x
		WAIT 0 0
		WAIT 1 1
		WAIT x 0
		WAIT 0 x
		WAIT 0 -1
		WAIT 1
		READONLY
		READWRITE
		READONLY x
		ASKING
		CLUSTER INFO
		CLUSTER SLOTS
		CLUSTER NODES
		CLUSTER
		SENTINEL MASTERS
		QUIT`,
	"unknown": `
		FOO
		foo bar
		FOO "a\r\nb" c
		foo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b
		foo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b c d e f g h
		aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b
		""
		CLIENT
		CLIENT FOO
		CLIENT "a\nb"
		CLIENT|ID
		CONFIG
		CONFIG FOO
		COMMAND FOO
		CLIENT MAINT_NOTIFICATIONS ON`,
	"client": `
		CLIENT ID x
		CLIENT GETNAME
		CLIENT SETNAME app
		CLIENT GETNAME
		CLIENT GETNAME x
		CLIENT SETNAME "a b"
		CLIENT SETNAME "a\n"
		CLIENT GETNAME
		CLIENT SETNAME ""
		CLIENT GETNAME
		CLIENT SETNAME
		CLIENT LIST TYPE
		CLIENT LIST TYPE foo
		CLIENT LIST TYPE master
		CLIENT LIST TYPE replica
		CLIENT LIST ID
		CLIENT LIST ID x
		CLIENT LIST ID 999999
		CLIENT LIST FOO
		CLIENT LIST FOO BAR
		CLIENT KILL
		CLIENT KILL foo
		CLIENT KILL ""
		CLIENT KILL 127.0.0.1:1
		CLIENT KILL ID
		CLIENT KILL ID x
		CLIENT KILL ID 0
		CLIENT KILL ID -1
		CLIENT KILL ID 999999
		CLIENT KILL ADDR 127.0.0.1:1
		CLIENT KILL LADDR 127.0.0.1:1
		CLIENT KILL TYPE foo
		CLIENT KILL TYPE master
		CLIENT KILL TYPE pubsub USER nobody
		CLIENT KILL USER nobody
		CLIENT KILL SKIPME maybe
		CLIENT KILL SKIPME yes USER nobody
		CLIENT KILL ID 999999 FOO bar
		CLIENT KILL ID 999999 TYPE
		CLIENT KILL ID 999999 TYPE normal USER default SKIPME no
		CLIENT UNBLOCK
		CLIENT UNBLOCK x
		CLIENT UNBLOCK 999999
		CLIENT UNBLOCK 999999 TIMEOUT
		CLIENT UNBLOCK 999999 ERROR
		CLIENT UNBLOCK 999999 foo
		CLIENT UNBLOCK 999999 ERROR foo
		CLIENT REPLY
		CLIENT REPLY foo
		CLIENT REPLY ON
		CLIENT REPLY SKIP
		PING skipped
		PING
		CLIENT REPLY OFF
		PING skipped
		CLIENT REPLY SKIP
		CLIENT REPLY foo
		CLIENT REPLY ON
		CLIENT NO-EVICT ON
		CLIENT NO-EVICT OFF
		CLIENT NO-EVICT foo
		CLIENT NO-EVICT
		CLIENT TRACKING OFF
		CLIENT TRACKING foo
		CLIENT TRACKING ON foo
		CLIENT TRACKING ON REDIRECT
		CLIENT TRACKING ON REDIRECT x
		CLIENT TRACKING ON REDIRECT 999999
		CLIENT TRACKING ON OPTIN OPTOUT
		CLIENT CACHING NO
		CLIENT CACHING foo
		CLIENT TRACKING
		CLIENT TRACKINGINFO
		CLIENT TRACKINGINFO x
		CLIENT CACHING YES
		CLIENT CACHING
		CLIENT GETREDIR
		CLIENT PAUSE
		CLIENT UNPAUSE x
		CLIENT HELP x`,
	"pubsub": `
		SUBSCRIBE
		SUBSCRIBE a
		SUBSCRIBE a b a
		PSUBSCRIBE p* q*
		PING
		PING hello
		UNSUBSCRIBE b
		UNSUBSCRIBE nosuch
		ECHO hi
		PUBLISH other x
		CLIENT ID x
		UNSUBSCRIBE
		PING
		PUNSUBSCRIBE p*
		PUNSUBSCRIBE
		UNSUBSCRIBE
		PUNSUBSCRIBE
		PING
		SUBSCRIBE x
		RESET
		PING
		SUBSCRIBE x
		QUIT`,
	"messages to oneself": `
		PING
		SUBSCRIBE a
		PUBLISH a 1
		UNSUBSCRIBE a
		PSUBSCRIBE a*
		SUBSCRIBE a
		PING
		PUBLISH a 2
		PUBLISH a 3
		PUNSUBSCRIBE
		UNSUBSCRIBE a
		SET lock token NX PX 10000
		SUBSCRIBE a
		EVAL "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('publish', 'a', '4') return redis.call('del', KEYS[1]) end" 1 lock token
		UNSUBSCRIBE a
		SUBSCRIBE b
		PUBLISH b 5
		UNSUBSCRIBE
		SUBSCRIBE a b
		PUBLISH b 6`,
	"reset": `
		HELLO 3 SETNAME app
		CLIENT GETNAME
		RESET
		CLIENT GETNAME
		HELLO
		RESET x`,
	"config": `
		CONFIG GET
		CONFIG GET nosuchsetting
		CONFIG GET databases
		CONFIG GET timeout
		CONFIG GET replica-read-only
		CONFIG GET slave-read-only
		CONFIG GET maxmemory MaxMemory
		CONFIG GET appendonl?
		CONFIG GET "sav[e]"
		CONFIG GET MAXCLIENT? maxclients
		CONFIG GET maxmemory-policy MAXMEMORY-POLICY
		CONFIG SET
		CONFIG SET a
		CONFIG RESETSTAT
		CONFIG RESETSTAT x
		CONFIG REWRITE x`,
	"command": `
		COMMAND COUNT x
		COMMAND INFO nosuch
		COMMAND INFO nosuch client|foo ping|x
		COMMAND DOCS nosuch
		COMMAND GETKEYS
		COMMAND GETKEYS nosuch a
		COMMAND GETKEYS ping x
		COMMAND LIST x
		COMMAND LIST FILTERBY
		COMMAND LIST FILTERBY foo bar
		COMMAND LIST FILTERBY MODULE foo
		COMMAND LIST FILTERBY ACLCAT nosuch
		COMMAND LIST FILTERBY PATTERN client|get*
		COMMAND LIST FILTERBY PATTERN xyz*
		COMMAND HELP x`,
	"info": `
		INFO nosuch
		INFO cluster
		INFO CLUSTER keyspace
		INFO Cluster Keyspace nosuch`,
}

// masks hide what differs by right.
var masks = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`"id":? :\d+`), "ID"},
	{regexp.MustCompile(`"version":? "[0-9.]+"`), "VERSION"},
	{regexp.MustCompile(`HELLO AUTH <user>`), "HELLO <proto> AUTH <user>"},                             // as Redis 7.2 has it
	{regexp.MustCompile(`"client\|getredir" "client\|getname"`), `"client|getname" "client|getredir"`}, // in no order
}

func TestSameWordsAsRedis(t *testing.T) {
	redis := startRedis(t)
	ours := serve(t)
	compareAll(t, redis.Addr, ours.addr, dialogues)
}

// compareAll has both servers hold the dialogues, in both protocols.
func compareAll(t *testing.T, redis, ours string, dialogues map[string]string) {
	for name, lines := range dialogues {
		t.Run(name, func(t *testing.T) {
			t.Run("RESP2", func(t *testing.T) { compare(t, redis, ours, lines) })
			t.Run("RESP3", func(t *testing.T) { compare(t, redis, ours, "HELLO 3\n"+lines) })
		})
	}
}

// Goal: logging in is the same too, and what may be done before it. Method: as above, with users.
func TestSameLoginAsRedis(t *testing.T) {
	redis := startRedis(t, "--requirepass", "secret", "--user", "alice", "on", ">wonder", "~*", "&*", "+@all")
	ours := serve(t, func(opts *Options) {
		opts.Users = []access.User{{Name: "default", Password: "secret"}, {Name: "alice", Password: "wonder"}}
	})
	for name, lines := range map[string]string{
		"nobody": `
			PING
			FOO
			ECHO
			CLIENT FOO
			CLIENT ID
			SUBSCRIBE x
			HELLO
			HELLO 3
			HELLO 4
			HELLO 2 SETNAME app
			HELLO x
			AUTH
			AUTH a b c
			RESET
			QUIT`,
		"wrong": `
			AUTH wrong
			AUTH default wrong
			AUTH alice secret
			AUTH default wonder
			AUTH "" secret
			AUTH bob wonder
			HELLO 3 AUTH alice secret
			HELLO 3 AUTH alice ""
			PING`,
		"default": `
			AUTH secret
			PING
			AUTH wrong
			PING
			HELLO 3 AUTH alice wrong
			HELLO
			RESET
			PING`,
		"alice": `
			AUTH alice wonder
			CLIENT GETNAME
			CLIENT KILL USER nobody
			CLIENT KILL ID 999999 USER alice
			AUTH default secret
			PING`,
		"hello": `
			HELLO 3 AUTH alice wonder SETNAME app
			CLIENT GETNAME
			HELLO 2 AUTH default secret
			HELLO 3 SETNAME "a b" AUTH alice wrong
			PING`,
	} {
		t.Run(name, func(t *testing.T) { compare(t, redis.Addr, ours.addr, lines) })
	}
}

// Goal: what tools look for by name is there by that name, in CLIENT LIST and in INFO. Method: the names of a real
// redis-server. What we add is listed here, and nothing else may be new.
func TestSameFieldsAsRedis(t *testing.T) {
	redis := startRedis(t)
	ours := serve(t)
	names := func(addr, line, expression string) (all []string) {
		for _, groups := range regexp.MustCompile(expression).FindAllStringSubmatch(replies(t, addr, line)[0], -1) {
			all = append(all, groups[1])
		}
		return all
	}

	const clientField = `([a-z-]+)=`
	want := append(names(redis.Addr, "CLIENT INFO", clientField), "lib-name", "lib-ver") // these since Redis 7.2
	if got := names(ours.addr, "CLIENT INFO", clientField); !slices.Equal(got, want) {
		t.Errorf("CLIENT INFO: got the fields %q\nwant %q", got, want)
	}

	added := strings.Fields("redlockd_version go_version goroutines protocol_errors pubsub_clients output_bytes output_total memory_limit memory_limit_human audit_records audit_dropped")
	added = append(added, "acl_access_denied_auth", "client_output_buffer_limit_disconnections") // these since Redis 7.2
	for _, section := range infoSections {
		if section.name == "Masters" || section.name == "Locks" || section.name == "Users" || section.name == "Refusedstats" {
			continue // our own
		}
		const infoField = `\\n([a-z_]+):`
		known := append(names(redis.Addr, "INFO "+section.name, infoField), added...)
		for _, name := range names(ours.addr, "INFO "+section.name, infoField) {
			if !slices.Contains(known, name) && !strings.HasPrefix(name, "cmdstat_") && !strings.HasPrefix(name, "errorstat_") {
				t.Errorf("INFO %s: Redis has no field %s", section.name, name)
			}
		}
	}
}

func startRedis(t *testing.T, args ...string) *redisproc.Server {
	t.Helper()
	redis := redisproc.StartForTest(t, 1, args...)[0]
	return redis
}

// compare sends the same lines to both addresses and fails the test where their replies differ. Lines may ask for the
// seconds that are left of a TTL, which are rounded: that says the same in both as long as both take less than 200 ms,
// because the time of a reading counts here, besides the age of the key. On a machine that has much else to do the lines are
// sent again, also where masters had no vote for a moment, or a script was stopped for its time: here all scripts are short, or stopped for another reason.
func compare(t *testing.T, redis, ours, lines string) {
	t.Helper()
	var want, got []string
	for deadline := time.Now().Add(patience); ; {
		began := time.Now()
		want, got = replies(t, redis, lines), replies(t, ours, lines)
		now, late := time.Now(), slices.ContainsFunc(got, func(reply string) bool {
			return machineWasSlow(reply) || strings.Contains(reply, ": script stopped after ")
		})
		if slices.Equal(got, want) || !late && now.Sub(began) < 200*time.Millisecond || now.After(deadline) {
			break
		}
	}
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			t.Fatalf("reply %d: got none\nwant %s\nafter %s", i, want[i], got)
		case i >= len(want):
			t.Fatalf("reply %d: got  %s\nwant none\nafter %s", i, got[i], want)
		case got[i] != want[i]:
			t.Errorf("reply %d: got  %s\nwant %s\nafter %s", i, got[i], want[i], want[max(0, i-1):i])
		}
	}
}

// replies sends lines, one command each, and returns the masked replies. RESET at the end brings the connection into a
// state in which it answers, whatever the lines did; if it is closed before, the last reply says so.
func replies(t *testing.T, addr, lines string) []string {
	t.Helper()
	c := dialTo(t, addr)
	var input strings.Builder
	for line := range strings.Lines(lines + "\nRESET\nEND-OF-DIALOGUE") {
		if line = strings.TrimSpace(line); line != "" {
			input.WriteString(line + "\r\n")
		}
	}
	c.raw(input.String())
	var all []string
	for len(all) == 0 || !strings.Contains(all[len(all)-1], "END-OF-DIALOGUE") {
		c.conn.SetReadDeadline(time.Now().Add(patience))
		text, err := readReply(c.r)
		if err == io.EOF {
			return append(all, "closed")
		}
		if err != nil {
			t.Fatalf("after %q: %v", all, err)
		}
		for _, mask := range masks {
			text = mask.pattern.ReplaceAllString(text, mask.text)
		}
		all = append(all, text)
	}
	return all
}
