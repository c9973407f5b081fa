package fleet

// Goal: what redlockds send each other costs a bounded amount, and is taken within bounds, whatever comes. Method: one fleet with a host that
// notes what is sent; and messages that no redlockd would send. LOCKS ALL of several redlockds is tested in package proxy.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"redlockd/proxy/access"
	"redlockd/redlock"
)

// asker is the redlockd that asks one other, and counts the answers.
type asker struct {
	to *Fleet

	mu      sync.Mutex
	leases  []redlock.LeaseInfo // of the one that is asked
	began   time.Time
	answers map[string]time.Duration // by question, when the last piece of the answer came
}

// newAsker starts a Fleet, until the end of the test, and what asks it.
func newAsker(t *testing.T) *asker {
	a := &asker{}
	done, ended := make(chan struct{}), make(chan struct{})
	a.to = New(Host{
		Mailbox: "00112233445566cc",
		Publish: func(string) {},
		Send: func(_, payload string) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if m, err := parseMessage(payload); err == nil && m.Kind == kindAnswer {
				a.answers[m.ID] = time.Since(a.began)
			}
		},
		Leases: func(*Question, time.Time) ([]redlock.LeaseInfo, int, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.leases, len(a.leases), nil
		},
		Done: done,
	})
	a.to.name = "asked:1"
	go func() {
		defer close(ended)
		a.to.Run()
	}()
	t.Cleanup(func() {
		close(done)
		<-ended
	})
	a.begin()
	return a
}

// begin forgets the answers so far.
func (a *asker) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began, a.answers = time.Now(), make(map[string]time.Duration)
}

// ask sends a question that a quorum of the masters has passed on.
func (a *asker) ask(id, pattern string, count int) {
	m := message{Kind: kindAsk, From: "00112233445566aa", Name: "asker:1", ID: id, Question: Question{Pattern: []byte(pattern), Count: count}}
	a.to.Receive(m.text())
}

// answered are the moments of the answers, in order.
func (a *asker) answered() []time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Values(a.answers))
}

// However many questions come, one per answerEvery is answered.
func TestFloodOfQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(t)
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
		a.to.mu.Lock()
		defer a.to.mu.Unlock()
		if n := len(a.to.questions); n > 0 {
			t.Errorf("%d questions wait still, want none", n)
		}
	})
}

// Who asks the same at the same moment shares an answer, if it is short: what is sent is no more than one answer may have.
func TestAnswersAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(t)
		ask := func() (answered []time.Duration) {
			a.begin()
			for i := range 10 {
				a.ask(fmt.Sprintf("%016x", i), "", 1000)
			}
			time.Sleep(5 * time.Second)
			return a.answered()
		}
		if answered := ask(); len(answered) != 10 || answered[9] > answerEvery+10*time.Millisecond {
			t.Errorf("ten that asked the same were answered at %v, want all by %v", answered, answerEvery)
		}
		for i := range 450 { // 600 KB of names in base64
			a.leases = append(a.leases, redlock.LeaseInfo{Resources: []string{fmt.Sprint(i, strings.Repeat("n", 1000))}})
		}
		if answered := ask(); len(answered) != 4 || answered[3] < 3*answerEvery {
			t.Errorf("ten that asked for much were answered at %v, want one per %v for %v", answered, answerEvery, inquiryTime)
		}
	})
}

// Members that come and come are no more than membersMax, and pieces no more than AnswersMax.
func TestFleetIsBounded(t *testing.T) {
	f := New(Host{})
	for i := range 2 * membersMax {
		f.Receive(message{Kind: kindHello, From: fmt.Sprintf("%016x", i), Name: "a:1"}.text())
	}
	if n := len(f.members); n != membersMax {
		t.Errorf("%d members are remembered, want %d", n, membersMax)
	}
	q := &inquiry{id: newID(), answers: make(map[string]*assembly), changed: make(chan struct{}, 1)}
	f.inquiry = q
	body := strings.Repeat("x", pieceMax)
	for i := range 2 * AnswersMax / pieceMax {
		f.Receive(message{Kind: kindAnswer, From: fmt.Sprintf("%016x", i/2), Name: "a:1", ID: q.id, Piece: i % 2, Pieces: 2, body: body}.text())
	}
	kept := 0
	for _, a := range q.answers {
		for _, piece := range a.pieces {
			kept += len(piece)
		}
	}
	if !q.full || kept > AnswersMax || len(q.answers) > membersMax {
		t.Errorf("kept %d bytes of %d answers, full: %v; want at most %d", kept, len(q.answers), q.full, AnswersMax)
	}
	for i := range 2 * questionsMax {
		f.Receive(message{Kind: kindAsk, From: fmt.Sprintf("%016x", i), Name: "a:1", ID: q.id, Question: Question{Count: 1 + i}}.text())
	}
	if n := len(f.questions); n > questionsMax {
		t.Errorf("%d questions wait, want at most %d", n, questionsMax)
	}

	leases := make([]redlock.LeaseInfo, 3000)
	for i := range leases {
		leases[i].Resources = []string{strings.Repeat("y", 1000)}
	}
	cut := answerOf(redlock.ByAny, leases)
	if n := len(cut.text()); n > answerMax || n < answerMax/2 || !cut.Cut || (n+pieceMax-1)/pieceMax > piecesMax {
		t.Errorf("an answer has %d bytes, cut: %v; want it cut below %d", n, cut.Cut, answerMax)
	}
	leases = append(leases, redlock.LeaseInfo{Resources: []string{"z"}, Since: time.Now()})
	if first := answerOf(redlock.ByAny, leases).Locks[0]; string(first.Resources[0]) != "z" {
		t.Errorf("an answer without room for all begins with %s, want what has been held for longest", first.Resources[0])
	}
	if held := answerOf(redlock.ByHeld, leases).Locks; len(held) != 1 || string(held[0].Resources[0]) != "z" {
		t.Errorf("an answer by what is held has %d leases, want the only one that anybody holds", len(held))
	}
	longest := message{Kind: kindAnswer, From: strings.Repeat("f", idLen), Name: strings.Repeat("n", nameMax), ID: newID(),
		Piece: piecesMax - 1, Pieces: piecesMax, body: body}
	if n := len(longest.text()) + len(Channel); n > redlock.MessageMax {
		t.Errorf("a piece with its head has %d bytes, a message at most %d", n, redlock.MessageMax)
	}
	ask := message{Kind: kindAsk, From: longest.From, Name: longest.Name, ID: longest.ID, Question: Question{Pattern: []byte(body[:access.PatternMax]), Count: CountMax}}
	for range access.ResourcesMax {
		ask.May = append(ask.May, []byte(body[:PatternsMax/access.ResourcesMax]))
	}
	if n := len(ask.text()) + len(Channel); n > redlock.MessageMax {
		t.Errorf("the longest question has %d bytes, a message at most %d", n, redlock.MessageMax)
	}
	if _, err := parseMessage(ask.text()); err != nil {
		t.Errorf("the longest question: %v", err)
	}
}

func TestMessagesAreChecked(t *testing.T) {
	good := func() message {
		return message{Kind: kindAnswer, From: "00112233445566aa", Name: "a:1", ID: "00112233445566bb", Piece: 1, Pieces: 2, body: "x"}
	}
	if _, err := parseMessage(good().text()); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*message){
		func(m *message) { m.Kind = "other" },
		func(m *message) { m.From = "00112233445566a" },
		func(m *message) { m.From = "00112233445566aX" },
		func(m *message) { m.Name = "" },
		func(m *message) { m.Name = "a b" },
		func(m *message) { m.Name = strings.Repeat("n", nameMax+1) },
		func(m *message) { m.ID = "" },
		func(m *message) { m.Pieces = 0 },
		func(m *message) { m.Pieces = piecesMax + 1 },
		func(m *message) { m.Piece = -1 },
		func(m *message) { m.Piece = 2 },
		func(m *message) { m.body = "" },
		func(m *message) { m.body = strings.Repeat("x", pieceMax+1) },
		func(m *message) { m.Kind = kindAsk },
		func(m *message) { m.Kind, m.Count = kindAsk, CountMax+1 },
		func(m *message) { m.Kind, m.Count, m.Pattern = kindAsk, 1, make([]byte, access.PatternMax+1) },
		func(m *message) { m.Kind, m.Count, m.May = kindAsk, 1, [][]byte{{}} },
		func(m *message) { m.Kind, m.Count, m.May = kindAsk, 1, make([][]byte, access.ResourcesMax+1) },
	} {
		m := good()
		change(&m)
		if got, err := parseMessage(m.text()); err == nil {
			t.Errorf("%+v is accepted", got)
		}
	}
	for _, text := range []string{
		"", "{}", "[]", `{"locks":[{}]}`, `{"locks":[{"resources":[""]}]}`, `{"locks":[{"resources":["YQ=="],"validity_ms":-1}]}`,
		`{"locks":[{"resources":["YQ=="],"validity_ms":9223372036854775807}]}`, `{"locks":[{"resources":["YQ=="],"digest":"<b>"}]}`,
		`{"locks":[{"resources":["YQ=="],"holder":{"text":"\u001b[2J"}}]}`, `{"locks":[{"resources":["YQ=="],"holder":{"client":"a b"}}]}`,
		`{"locks":[{"resources":["YQ=="],"queue":[` + strings.Repeat("{},", redlock.WaitersShown) + `{}]}]}`,
		`{"locks":[` + strings.Repeat(`{"resources":["YQ=="]},`, CountMax) + `{"resources":["YQ=="]}]}`,
	} {
		if a, err := parseAnswer(text); err == nil && len(a.Locks) > 0 {
			t.Errorf("%.80s is accepted", text)
		}
	}
}

// FuzzMessage: what comes over the wire is refused, or within bounds.
func FuzzMessage(f *testing.F) {
	f.Add(message{Kind: kindHello, From: "00112233445566aa", Name: "a:1"}.text())
	f.Add(message{Kind: kindAsk, From: "00112233445566aa", Name: "a:1", ID: "00112233445566bb", Question: Question{Pattern: []byte("*"), Count: 1, May: [][]byte{[]byte("a*")}}}.text())
	f.Add(message{Kind: kindAnswer, From: "00112233445566aa", Name: "a:1", ID: "00112233445566bb", Pieces: 1,
		body: answerOf(redlock.ByAny, []redlock.LeaseInfo{{Resources: []string{"a"}, Note: &redlock.HolderNote{User: "u"}, Queue: []redlock.WaiterInfo{{}}}}).text()}.text())
	f.Add(message{Kind: kindAnswer, From: "00112233445566aa", Name: "a:1", ID: "00112233445566bb", Pieces: 1,
		body: answerOf(redlock.ByAny, []redlock.LeaseInfo{{Resources: []string{"a"}, Note: &redlock.HolderNote{Addr: "\x1b[2J"}}}).text()}.text())
	f.Fuzz(func(t *testing.T, payload string) {
		m, err := parseMessage(payload)
		if err != nil {
			return
		}
		if m.Pieces > piecesMax || m.Count > CountMax || len(m.Name) > nameMax || m.Kind == kindAnswer && m.Piece >= m.Pieces {
			t.Errorf("%+v is accepted", m)
		}
		m.Permits("a")
		locks, err := parseAnswer(m.body)
		if err != nil {
			return
		}
		for _, info := range locks.leases() {
			if info.Validity < 0 || len(info.Queue) > redlock.WaitersShown {
				t.Errorf("%+v is accepted", info)
			}
			unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
			if n := info.Note; n != nil && strings.ContainsFunc(n.Client+n.Addr+n.Text, unprintable) {
				t.Errorf("%+v is accepted, which terminals cannot show", n)
			}
		}
	})
}
