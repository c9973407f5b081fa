package proxy

// Goal: LOCKS ALL lists what every redlockd of the fleet has granted, says who has not answered, shows a confined user no more than its own,
// and costs a bounded amount, whatever others send. Method: servers over real masters, of which one stops without a word; and messages that
// no redlockd would send.

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/fleet"
	"redlockd/redlock"
)

// name is by which the other redlockds know the server. Its listener sets it.
func (srv *testServer) name() string {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return srv.fleet.Name()
}

func TestLOCKSALL(t *testing.T) {
	_, servers := serversOverMasters(t, 3, redlock.Options{MasterTimeout: 10 * time.Second})
	clients := make([]*client, len(servers))
	for i, srv := range servers {
		clients[i] = srv.dial()
		clients[i].do("CLIENT", "SETNAME", fmt.Sprint("client-", i)).is("+OK")
		clients[i].do("LOCK", fmt.Sprint("job:", i), "50s", "TOKEN", "mine").granted(1, 50_000)
		time.Sleep(2 * time.Millisecond) // so that BY HELD tells them apart: messages have milliseconds
	}
	clients[2].do("LOCK", "bin\xff\x00", "50s", "TOKEN", "mine").granted(1, 50_000)
	waiting := servers[2].dial()
	waiting.send("LOCK", "job:1", "50s", "WAIT", "1m")
	servers[2].waiting(1)

	name := func(i int) string { return regexp.QuoteMeta(servers[i].name()) }
	lease := func(i int) string {
		return fmt.Sprintf(`\["resources" \["job:%d"\] "token-digest" "[0-9a-f]{16}" "validity-ms" :4\d{4} .*"holder" \["client" "client-%d" "addr" "127[^"]*" "user" "default" .*\] .*"redlockd" "%s"\]`, i, i, name(i))
	}
	// The subscriptions of a redlockd that has just started may not stand yet.
	// And on a busy machine one may not answer in time: it is missing then, or not known yet.
	const noneMissing = `.* "missing" \[\]\]`
	all := clients[0].until(`.*("cut".*){3}`, "LOCKS", "ALL")
	all.matches(`\["locks" \[.*` + lease(0) + " " + lease(1) + `.* "waiters" :1 "queue" \[\["client" \$nil .*\]\] "delay-ms" :0 "minority" \$nil "redlockd" "` + name(2) + `"\] ` + lease(2) + `\] "answered" .* "missing" \[\]\]`)
	if !strings.Contains(all.text, "bin") {
		t.Errorf("got %s, want the resource whose name is no text", all.text)
	}
	clients[0].until(`.*"name" "`+name(2)+`" "leases" :1 "cut" :0 "total" :3\].*`, "LOCKS", "ALL", "COUNT", "1") // two, and one that is waited for
	clients[1].until(`\["locks" \[`+lease(2)+`\] `+noneMissing, "LOCKS", "ALL", "PATTERN", "job:2", "COUNT", "5")
	clients[1].until(`\["locks" \[\["resources" \["job:1"\] [^\]]*"waiters" :1 .*"redlockd" "`+name(2)+`"\]\] `+noneMissing, "LOCKS", "ALL", "BY", "WAITED")
	clients[1].until(`\["locks" \[`+lease(0)+" "+lease(1)+" "+lease(2)+` .*bin.*\] `+noneMissing, "LOCKS", "ALL", "BY", "HELD")
	for _, i := range []int{0, 1, 2} {
		if want := fmt.Sprintf(`"name" "%s" "leases"`, servers[i].name()); !strings.Contains(all.text, want) {
			t.Errorf("got %s, want %s", all.text, want)
		}
	}

	// A third one that is gone without a bye is missing, a bye is not.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	servers[2].opts.Engine.Close(ctx)
	servers[2].Close()
	clients[0].until(`\["locks" \[`+lease(0)+" "+lease(1)+`\] "answered" \[.*\] "missing" \[\["name" "`+name(2)+`" "silent-ms" :\d+\]\]\]`, "LOCKS", "ALL", "PATTERN", "job:*")
	servers[1].Close()
	clients[0].until(`.* "missing" \[\["name" "`+name(2)+`" "silent-ms" :\d+\]\]\]`, "LOCKS", "ALL", "PATTERN", "none")

	// Clients have no part in the messages.
	spy := servers[0].dial()
	spy.do("PSUBSCRIBE", "*").matches(".*")
	spy.do("SUBSCRIBE", fleet.Channel).matches(".*")
	clients[0].do("PUBLISH", fleet.Channel, "x").err("ERR channels that begin with redlockd:")
	clients[0].do("LOCKS", "ALL").matches(".*")
	clients[0].do("PUBLISH", "c", "behind").is(":1")
	spy.read().matches(`.*"behind".*`)
}

func TestLOCKSALLOptions(t *testing.T) {
	c := serve(t).dial()
	c.do("LOCKS", "ALL", "all").is("-ERR syntax error: all is given twice")
	c.do("LOCKS", "COUNT", "1001", "ALL").is("-ERR COUNT 1001 is above the most with ALL, 1000 leases of each redlockd")
	c.do("LOCKS", "ALL", "PATTERN").is("-ERR syntax error: PATTERN lacks its value")
	c.do("HELLO", "3").matches(".*")
	c.do("LOCKS", "ALL").matches(`{"locks": \[\] "answered": \[{"name": ".*:\d+" "leases": :0 "cut": :0 "total": :0}\] "missing": \[\]}`)
}

// What others send is shown to a confined user as far as it may see it, whether they have kept to the question or not.
func TestLOCKSALLConfined(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, confine)
		c := srv.dialAs("billing")
		c.do("LOCK", "billing:1", "50s").granted(1, 50_000)
		liar := func(resources ...string) string {
			var names [][]byte // JSON has them in base64
			for _, r := range resources {
				names = append(names, []byte(r))
			}
			text, _ := json.Marshal(names)
			return `{"resources":` + string(text) + `,"digest":"0123456789abcdef","validity_ms":1000,"since":1,"holder":{"client":"x","addr":"10.1.1.1:1","user":"root"}}`
		}
		answerWith(t, srv, `{"locks":[`+liar("orders:1", "billing:2")+","+liar("billing:3")+"]}")
		reply := c.do("LOCKS", "ALL")
		reply.matches(`\["locks" \[\["resources" \["billing:1"\] .*"redlockd" \$nil\] \["resources" \["billing:3"\] .*"holder" \$nil .*"redlockd" \$nil\]\] "answered" \[\["name" \$nil "leases" :1 "cut" :0 "total" :1\] \["name" \$nil "leases" :1 "cut" :0 "total" :1\]\] "missing" \[\]\]`)
		for _, secret := range []string{"orders", "10.1.1.1", "liar"} {
			if strings.Contains(reply.text, secret) {
				t.Errorf("a confined user is shown %s: %s", secret, reply.text)
			}
		}
		root := srv.dialAs("root")
		root.do("LOCKS", "ALL").matches(`.*"orders:1" "billing:2".*"10.1.1.1:1".*`)
	})
}

// answerWith has another member of the fleet answer each question with this text, until the end of the test.
func answerWith(t *testing.T, srv *testServer, text string) {
	engine := openEngine(t, srv.masters)
	head := func(rest string, args ...any) string {
		return fmt.Sprintf(`{"from":"%s","name":"liar:1",`+rest+"}\n", append([]any{engine.Mailbox()}, args...)...)
	}
	engine.OnMessage(func(_, payload string) {
		var ask struct{ Kind, Question string }
		if first, _, _ := strings.Cut(payload, "\n"); json.Unmarshal([]byte(first), &ask) != nil || ask.Kind != "ask" {
			return
		}
		half := len(text) / 2
		for i, piece := range []string{text[half:], text[half:], text[:half]} { // the last piece first, and twice
			srv.fleet.Receive(head(`"kind":"answer","question":"%s","piece":%d,"pieces":2`, ask.Question, max(0, 1-i/2)) + piece)
		}
	})
	srv.heard(2)
	srv.fleet.Receive(head(`"kind":"hello"`))
}

// Operators who ask at the same moment through several redlockds all get all answers.
func TestLOCKSALLOfSeveralOperators(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		servers := []*testServer{serve(t)}
		for range 3 {
			servers = append(servers, servers[0].twin())
		}
		servers[0].dial().do("LOCK", "r", "50s").granted(1, 50_000)
		time.Sleep(30 * time.Second) // each knows the others
		var operators []*client
		for _, srv := range servers {
			operators = append(operators, srv.dial())
		}
		for round := range 3 {
			for i, c := range operators {
				c.send("LOCKS", "ALL", "COUNT", fmt.Sprint(10+i*round)) // the first time they ask the same
			}
			for _, c := range operators {
				c.read().matches(`\["locks" \[\["resources" \["r"\] .*"answered" \[(\["name".*){4}\] "missing" \[\]\]`)
			}
		}
	})
}

// A user who asks on many connections has one turn among the users: everybody else is answered.
func TestLOCKSALLTakesTurnsByUser(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, threeUsers)
		time.Sleep(30 * time.Second) // it knows that it is alone, so no answer takes inquiryTime
		for range 40 {
			c := srv.dialAs("greedy")
			for range 3 {
				c.send("LOCKS", "ALL")
			}
		}
		eventually(t, "one asks and others wait", func() bool { return len(srv.asking) == 1 })
		for _, user := range []string{"modest", "admin"} {
			srv.dialAs(user).do("LOCKS", "ALL").matches(`\["locks" .*\]`)
		}
	})
}
