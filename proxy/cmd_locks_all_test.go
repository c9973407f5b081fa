package proxy

// Goal: LOCKS ALL lists what every redlockd of the fleet has granted, says who has not answered, shows a confined user no more than its own,
// and costs a bounded amount, whatever others send. Method: servers over real masters, of which one stops without a word; and messages that
// no redlockd would send.

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"redlockd/proxy/access"
	"redlockd/redlock"
)

// name is by which the other redlockds know the server. Its listener sets it.
func (srv *testServer) name() string {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return srv.fleet.name
}

func TestLOCKSALL(t *testing.T) {
	_, servers := serversOverMasters(t, 3, redlock.Options{MasterTimeout: 10 * time.Second})
	clients := make([]*client, len(servers))
	for i, srv := range servers {
		clients[i] = srv.dial()
		clients[i].do("CLIENT", "SETNAME", fmt.Sprint("client-", i)).is("+OK")
		clients[i].do("LOCK", fmt.Sprint("job:", i), "50s", "TOKEN", "mine").granted(1, 50_000)
	}
	clients[2].do("LOCK", "bin\xff\x00", "50s", "TOKEN", "mine").granted(1, 50_000)
	waiting := servers[2].dial()
	waiting.send("LOCK", "job:1", "50s", "WAIT", "1m")
	eventually(t, "one waits", func() bool { return servers[2].opts.Engine.Stats().Waiters == 1 })

	name := func(i int) string { return regexp.QuoteMeta(servers[i].name()) }
	lease := func(i int) string {
		return fmt.Sprintf(`\["resources" \["job:%d"\] "token-digest" "[0-9a-f]{16}" "validity-ms" :4\d{4} .*"holder" \["client" "client-%d" "addr" "127[^"]*" "user" "default" .*\] .*"redlockd" "%s"\]`, i, i, name(i))
	}
	// The subscriptions of a redlockd that has just started may not stand yet.
	// And on a busy machine one may not answer in time: it is missing then, or not known yet.
	const noneMissing = `.* "missing" \[\]\]`
	all := clients[0].until(`.*("cut".*){3}`, "LOCKS", "ALL")
	all.matches(`\["locks" \[.*` + lease(0) + " " + lease(1) + `.* "waiters" :1 "queue" \[\["client" \$nil .*\]\] "delay-ms" :0 "redlockd" "` + name(2) + `"\] ` + lease(2) + `\] "answered" .* "missing" \[\]\]`)
	if !strings.Contains(all.text, "bin") {
		t.Errorf("got %s, want the resource whose name is no text", all.text)
	}
	clients[1].until(`\["locks" \[`+lease(2)+`\] `+noneMissing, "LOCKS", "ALL", "PATTERN", "job:2", "COUNT", "5")
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
	eventually(t, "it has said goodbye", func() bool {
		servers[0].fleet.mu.Lock()
		defer servers[0].fleet.mu.Unlock()
		return len(servers[0].fleet.members) == 1
	})

	// Clients have no part in the messages.
	spy := servers[0].dial()
	spy.do("PSUBSCRIBE", "*").matches(".*")
	spy.do("SUBSCRIBE", fleetChannel).matches(".*")
	clients[0].do("PUBLISH", fleetChannel, "x").err("ERR channels that begin with redlockd:")
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
	c.do("LOCKS", "ALL").matches(`{"locks": \[\] "answered": \[{"name": ".*:\d+" "leases": :0 "cut": :0}\] "missing": \[\]}`)
}

// What others send is shown to a confined user as far as it may see it, whether they have kept to the question or not.
func TestLOCKSALLConfined(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, confine)
		c := srv.dial()
		c.do("AUTH", "billing", "b").is("+OK")
		c.do("LOCK", "billing:1", "50s").granted(1, 50_000)
		liar := redlock.LeaseInfo{TokenDigest: "0123456789abcdef", Validity: time.Second, Since: time.Now(), Note: &redlock.HolderNote{Client: "x", Addr: "10.1.1.1:1", User: "root"}}
		liar.Resources = []string{"orders:1", "billing:2"}
		other := liar
		other.Resources = []string{"billing:3"}
		answerWith(t, srv, fleetLocksOf([]redlock.LeaseInfo{liar, other}).text())
		reply := c.do("LOCKS", "ALL")
		reply.matches(`\["locks" \[\["resources" \["billing:1"\] .*"redlockd" \$nil\] \["resources" \["billing:3"\] .*"holder" \$nil .*"redlockd" \$nil\]\] "answered" \[\["name" \$nil "leases" :1 "cut" :0\] \["name" \$nil "leases" :1 "cut" :0\]\] "missing" \[\]\]`)
		for _, secret := range []string{"orders", "10.1.1.1", "liar"} {
			if strings.Contains(reply.text, secret) {
				t.Errorf("a confined user is shown %s: %s", secret, reply.text)
			}
		}
		root := srv.dial()
		root.do("AUTH", "root", "r").is("+OK")
		root.do("LOCKS", "ALL").matches(`.*"orders:1" "billing:2".*"10.1.1.1:1".*`)
	})
}

// answerWith has another member of the fleet answer each question with this text, until the end of the test.
func answerWith(t *testing.T, srv *testServer, text string) {
	const from = "00112233445566aa"
	done, ended := make(chan struct{}), make(chan struct{})
	srv.fleet.receive(fleetMessage{Kind: fleetHello, From: from, Name: "liar:1"}.text())
	go func() {
		defer close(ended)
		last := ""
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
			srv.fleet.mu.Lock()
			question := ""
			if srv.fleet.inquiry != nil {
				question = srv.fleet.inquiry.id
			}
			srv.fleet.mu.Unlock()
			if question == "" || question == last {
				continue
			}
			last = question
			half := len(text) / 2
			for i, piece := range []string{text[half:], text[half:], text[:half]} { // the last piece first, and twice
				srv.fleet.receive(fleetMessage{Kind: fleetAnswer, From: from, Name: "liar:1", Question: question, Piece: max(0, 1-i/2), Pieces: 2, body: piece}.text())
			}
		}
	}()
	t.Cleanup(func() {
		close(done)
		<-ended
	})
}

// Members that come and come are no more than membersMax, and pieces no more than answersMax.
func TestFleetIsBounded(t *testing.T) {
	srv := serve(t)
	for i := range 2 * membersMax {
		srv.fleet.receive(fleetMessage{Kind: fleetHello, From: fmt.Sprintf("%016x", i), Name: "a:1"}.text())
	}
	if n := len(srv.fleet.members); n != membersMax {
		t.Errorf("%d members are remembered, want %d", n, membersMax)
	}
	q := &inquiry{id: newQuestion(), answers: make(map[string]*assembly), changed: make(chan struct{}, 1)}
	srv.fleet.inquiry = q
	body := strings.Repeat("x", fleetPieceMax)
	for i := range 2 * answersMax / fleetPieceMax {
		srv.fleet.receive(fleetMessage{Kind: fleetAnswer, From: fmt.Sprintf("%016x", i/2), Name: "a:1", Question: q.id, Piece: i % 2, Pieces: 2, body: body}.text())
	}
	kept := 0
	for _, a := range q.answers {
		for _, piece := range a.pieces {
			kept += len(piece)
		}
	}
	if !q.full || kept > answersMax || len(q.answers) > membersMax {
		t.Errorf("kept %d bytes of %d answers, full: %v; want at most %d", kept, len(q.answers), q.full, answersMax)
	}
	for i := range 2 * questionsMax {
		srv.fleet.receive(fleetMessage{Kind: fleetAsk, From: fmt.Sprintf("%016x", i), Name: "a:1", Question: q.id, Count: 1 + i}.text())
	}
	srv.fleet.mu.Lock()
	if n := len(srv.fleet.questions); n > questionsMax {
		t.Errorf("%d questions wait, want at most %d", n, questionsMax)
	}
	srv.fleet.mu.Unlock()

	leases := make([]redlock.LeaseInfo, 3000)
	for i := range leases {
		leases[i].Resources = []string{strings.Repeat("y", 1000)}
	}
	cut := fleetLocksOf(leases)
	if n := len(cut.text()); n > fleetAnswerMax || n < fleetAnswerMax/2 || !cut.Cut || (n+fleetPieceMax-1)/fleetPieceMax > fleetPiecesMax {
		t.Errorf("an answer has %d bytes, cut: %v; want it cut below %d", n, cut.Cut, fleetAnswerMax)
	}
	longest := fleetMessage{Kind: fleetAnswer, From: strings.Repeat("f", fleetIDLen), Name: strings.Repeat("n", fleetNameMax), Question: newQuestion(),
		Piece: fleetPiecesMax - 1, Pieces: fleetPiecesMax, body: body}
	if n := len(longest.text()) + len(fleetChannel); n > redlock.MessageMax {
		t.Errorf("a piece with its head has %d bytes, a message at most %d", n, redlock.MessageMax)
	}
	ask := fleetMessage{Kind: fleetAsk, From: longest.From, Name: longest.Name, Question: longest.Question, Pattern: []byte(body[:access.PatternMax]), Count: fleetCountMax}
	for range access.ResourcesMax {
		ask.May = append(ask.May, []byte(body[:fleetAskMax/access.ResourcesMax]))
	}
	if n := len(ask.text()) + len(fleetChannel); n > redlock.MessageMax {
		t.Errorf("the longest question has %d bytes, a message at most %d", n, redlock.MessageMax)
	}
	if _, err := parseFleetMessage(ask.text()); err != nil {
		t.Errorf("the longest question: %v", err)
	}
}

// asker is a redlockd without clients, which asks and counts the answers.
type asker struct {
	to      *testServer
	mailbox string

	mu      sync.Mutex
	began   time.Time
	answers map[string]time.Duration // by question, when the last piece of the answer came
}

func newAsker(t *testing.T, srv *testServer) *asker {
	engine := openEngine(t, srv.masters)
	a := &asker{to: srv, mailbox: engine.Mailbox(), began: time.Now(), answers: make(map[string]time.Duration)}
	engine.OnMessage(func(_, payload string) {
		if m, err := parseFleetMessage(payload); err == nil && m.Kind == fleetAnswer {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.answers[m.Question] = time.Since(a.began)
		}
	})
	for i := range srv.masters {
		eventually(t, "both hear the master", func() bool { return srv.onMaster(i, "PUBLISH", "redlockd:messages", "no message").text == ":2" })
	}
	return a
}

// ask sends a question that a quorum of the masters has passed on.
func (a *asker) ask(question, pattern string, count int) {
	a.to.fleet.receive(fleetMessage{Kind: fleetAsk, From: a.mailbox, Name: "asker:1", Question: question, Pattern: []byte(pattern), Count: count}.text())
}

// answered are the moments of the answers, in order.
func (a *asker) answered() []time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Values(a.answers))
}

// However many questions come, one per answerEvery is answered.
func TestFloodOfQuestions(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		a := newAsker(t, srv)
		a.began = time.Now()
		for i := range 400 { // for 4 s, each with a pattern of its own
			a.ask(fmt.Sprintf("%016x", i), fmt.Sprint("r", i), 10)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		answered := a.answered()
		if n := len(answered); n < 16 || n > 20 {
			t.Errorf("%d questions were answered at %v, want one per %v for 4 s, and up to four behind it", n, answered, answerEvery)
		}
		for i := range len(answered) - 1 {
			if pause := answered[i+1] - answered[i]; pause < answerEvery-time.Millisecond {
				t.Errorf("two answers came %v apart, want %v", pause, answerEvery)
			}
		}
		srv.fleet.mu.Lock()
		defer srv.fleet.mu.Unlock()
		if n := len(srv.fleet.questions); n > 0 {
			t.Errorf("%d questions wait still, want none", n)
		}
	})
}

// Who asks the same at the same moment shares an answer, if it is short: what is sent is no more than one answer may have.
func TestAnswersAreShared(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		a := newAsker(t, srv)
		ask := func() (answered []time.Duration) {
			a.mu.Lock()
			a.began, a.answers = time.Now(), make(map[string]time.Duration)
			a.mu.Unlock()
			for i := range 10 {
				a.ask(fmt.Sprintf("%016x", i), "", 1000)
			}
			time.Sleep(5 * time.Second)
			return a.answered()
		}
		if answered := ask(); len(answered) != 10 || answered[9] > answerEvery+10*time.Millisecond {
			t.Errorf("ten that asked the same were answered at %v, want all by %v", answered, answerEvery)
		}
		c := srv.dial()
		for i := range 450 { // 600 KB of names in base64
			c.do("LOCK", fmt.Sprint(i, strings.Repeat("n", 1000)), "50s").granted(i+1, 50_000)
		}
		if answered := ask(); len(answered) != 4 || answered[3] < 3*answerEvery {
			t.Errorf("ten that asked for much were answered at %v, want one per %v for %v", answered, answerEvery, inquiryTime)
		}
	})
}

// Operators who ask at the same moment through several redlockds all get all answers.
func TestLOCKSALLOfSeveralOperators(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		servers := []*testServer{serve(t)}
		for range 3 {
			servers = append(servers, serve(t, func(o *Options) { o.Engine = openEngine(t, servers[0].masters) }))
		}
		servers[0].dial().do("LOCK", "r", "50s").granted(1, 50_000)
		time.Sleep(3 * helloEvery) // each knows the others
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

func TestFleetMessagesAreChecked(t *testing.T) {
	good := func() fleetMessage {
		return fleetMessage{Kind: fleetAnswer, From: "00112233445566aa", Name: "a:1", Question: "00112233445566bb", Piece: 1, Pieces: 2, body: "x"}
	}
	if _, err := parseFleetMessage(good().text()); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*fleetMessage){
		func(m *fleetMessage) { m.Kind = "other" },
		func(m *fleetMessage) { m.From = "00112233445566a" },
		func(m *fleetMessage) { m.From = "00112233445566aX" },
		func(m *fleetMessage) { m.Name = "" },
		func(m *fleetMessage) { m.Name = "a b" },
		func(m *fleetMessage) { m.Name = strings.Repeat("n", fleetNameMax+1) },
		func(m *fleetMessage) { m.Question = "" },
		func(m *fleetMessage) { m.Pieces = 0 },
		func(m *fleetMessage) { m.Pieces = fleetPiecesMax + 1 },
		func(m *fleetMessage) { m.Piece = -1 },
		func(m *fleetMessage) { m.Piece = 2 },
		func(m *fleetMessage) { m.body = "" },
		func(m *fleetMessage) { m.body = strings.Repeat("x", fleetPieceMax+1) },
		func(m *fleetMessage) { m.Kind = fleetAsk },
		func(m *fleetMessage) { m.Kind, m.Count = fleetAsk, fleetCountMax+1 },
		func(m *fleetMessage) { m.Kind, m.Count, m.Pattern = fleetAsk, 1, make([]byte, access.PatternMax+1) },
		func(m *fleetMessage) { m.Kind, m.Count, m.May = fleetAsk, 1, [][]byte{{}} },
		func(m *fleetMessage) { m.Kind, m.Count, m.May = fleetAsk, 1, make([][]byte, access.ResourcesMax+1) },
	} {
		m := good()
		change(&m)
		if got, err := parseFleetMessage(m.text()); err == nil {
			t.Errorf("%+v is accepted", got)
		}
	}
	for _, text := range []string{
		"", "{}", "[]", `{"locks":[{}]}`, `{"locks":[{"resources":[""]}]}`, `{"locks":[{"resources":["YQ=="],"validity_ms":-1}]}`,
		`{"locks":[{"resources":["YQ=="],"validity_ms":9223372036854775807}]}`, `{"locks":[{"resources":["YQ=="],"digest":"<b>"}]}`,
		`{"locks":[{"resources":["YQ=="],"holder":{"text":"\u001b[2J"}}]}`, `{"locks":[{"resources":["YQ=="],"holder":{"client":"a b"}}]}`,
		`{"locks":[{"resources":["YQ=="],"queue":[` + strings.Repeat("{},", redlock.WaitersShown) + `{}]}]}`,
		`{"locks":[` + strings.Repeat(`{"resources":["YQ=="]},`, fleetCountMax) + `{"resources":["YQ=="]}]}`,
	} {
		if a, err := parseFleetLocks(text); err == nil && len(a.Locks) > 0 {
			t.Errorf("%.80s is accepted", text)
		}
	}
}

// FuzzFleetMessage: what comes over the wire is refused, or within bounds.
func FuzzFleetMessage(f *testing.F) {
	f.Add(fleetMessage{Kind: fleetHello, From: "00112233445566aa", Name: "a:1"}.text())
	f.Add(fleetMessage{Kind: fleetAsk, From: "00112233445566aa", Name: "a:1", Question: "00112233445566bb", Pattern: []byte("*"), Count: 1, May: [][]byte{[]byte("a*")}}.text())
	f.Add(fleetMessage{Kind: fleetAnswer, From: "00112233445566aa", Name: "a:1", Question: "00112233445566bb", Pieces: 1,
		body: fleetLocksOf([]redlock.LeaseInfo{{Resources: []string{"a"}, Note: &redlock.HolderNote{User: "u"}, Queue: []redlock.WaiterInfo{{}}}}).text()}.text())
	f.Add(fleetMessage{Kind: fleetAnswer, From: "00112233445566aa", Name: "a:1", Question: "00112233445566bb", Pieces: 1,
		body: fleetLocksOf([]redlock.LeaseInfo{{Resources: []string{"a"}, Note: &redlock.HolderNote{Addr: "\x1b[2J"}}}).text()}.text())
	f.Fuzz(func(t *testing.T, payload string) {
		m, err := parseFleetMessage(payload)
		if err != nil {
			return
		}
		if m.Pieces > fleetPiecesMax || m.Count > fleetCountMax || len(m.Name) > fleetNameMax || m.Kind == fleetAnswer && m.Piece >= m.Pieces {
			t.Errorf("%+v is accepted", m)
		}
		m.may("a")
		locks, err := parseFleetLocks(m.body)
		if err != nil {
			return
		}
		for i := range locks.Locks {
			info := locks.Locks[i].info()
			if len(leaseFields(info)) == 0 || info.Validity < 0 || len(info.Queue) > redlock.WaitersShown {
				t.Errorf("%+v is accepted", info)
			}
			unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
			if n := info.Note; n != nil && strings.ContainsFunc(n.Client+n.Addr+n.Text, unprintable) {
				t.Errorf("%+v is accepted, which terminals cannot show", n)
			}
		}
	})
}

// A user who asks on many connections has one turn among the users: everybody else is answered.
func TestLOCKSALLTakesTurnsByUser(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, threeUsers)
		time.Sleep(3 * helloEvery) // it knows that it is alone, so no answer takes inquiryTime
		for range 40 {
			c := srv.dialAs("greedy")
			for range 3 {
				c.send("LOCKS", "ALL")
			}
		}
		eventually(t, "one asks and others wait", func() bool { return len(srv.fleet.asking) == 1 })
		for _, user := range []string{"modest", "admin"} {
			srv.dialAs(user).do("LOCKS", "ALL").matches(`\["locks" .*\]`)
		}
	})
}
