package proxy

import (
	"cmp"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"redlockd/redlock"
)

// The redlockds over the same masters, as this one knows them, and what they say to each other:
//
//	hello   to all  every helloEvery: I am here, and this is my name
//	bye     to all  I end
//	ask     to all  which leases have you granted? (LOCKS ALL, cmd_locks_all.go)
//	answer  to one  these, in pieces
//
// Messages travel over the masters (redlock/publish.go), and each needs a quorum of them. Clients can
// neither publish on fleetChannel nor subscribe to it. Nothing in a message is trusted: it is decoded
// within bounds (fleet_message.go), and no lock depends on one.
//
// An answer may have fleetAnswerMax bytes, and every master passes them on. So a redlockd answers one
// question per answerEvery, the oldest first. Others that ask the same share the answer, if what is sent
// to all of them is no more than one answer may have. A question that waits for inquiryTime is dropped:
// the one who asked has given up, and reports this redlockd as missing.
//
// A redlockd that is gone without a bye is remembered for memberForgotten, so that LOCKS ALL can say that its answer is missing.

// fleetChannel carries these messages. Redlockds of all versions share it, so its value stays.
const fleetChannel = redlock.ReservedPrefix + "fleet"

const (
	// helloEvery is the pause between two hellos. A message costs each master one PUBLISH.
	helloEvery = 10 * time.Second
	// memberForgotten is for how long a redlockd that is not heard any more is remembered.
	memberForgotten = time.Hour
	// membersMax bounds the redlockds that are remembered. Beyond it, the one that was heard longest ago is forgotten.
	membersMax = 256
	// questionsMax bounds the questions that wait for an answer. Beyond it they are dropped, as messages may be.
	questionsMax = 64
	// answerEvery is the least time between the answers to two questions, however many are asked.
	answerEvery = 250 * time.Millisecond
)

// redlockds are the others, as a server knows them.
type redlockds struct {
	srv  *Server
	name string // of this redlockd; set before the first message is sent
	// asked has an element if questions may have one.
	asked chan struct{}
	// asking holds an element while a LOCKS ALL is under way, and for askEvery at least.
	asking chan struct{}

	mu        sync.Mutex
	members   map[string]*member // by mailbox; this redlockd is none of them
	inquiry   *inquiry           // the LOCKS ALL under way; nil: none
	questions []fleetMessage     // of others, the oldest first; at most questionsMax
}

// member is another redlockd.
type member struct {
	name  string
	heard time.Time
}

// receive takes a message from the engine. It must not block, and must not publish.
func (f *redlockds) receive(payload string) {
	m, err := parseFleetMessage(payload)
	if err != nil || m.From == f.srv.opts.Engine.Mailbox() {
		return
	}
	f.heard(m, time.Now())
	switch m.Kind {
	case fleetAnswer:
		f.answered(m)
	case fleetAsk:
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.questions) < questionsMax {
			f.questions = append(f.questions, m)
			f.wakeLocked()
		}
	}
}

// wakeLocked has run look at the questions.
func (f *redlockds) wakeLocked() {
	select {
	case f.asked <- struct{}{}:
	default:
	}
}

// heard remembers who has sent a message.
func (f *redlockds) heard(m fleetMessage, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.Kind == fleetBye {
		delete(f.members, m.From)
		return
	}
	for from, other := range f.members {
		if now.Sub(other.heard) > memberForgotten {
			delete(f.members, from)
		}
	}
	if f.members[m.From] == nil && len(f.members) >= membersMax {
		oldest := ""
		for from, other := range f.members {
			if oldest == "" || other.heard.Before(f.members[oldest].heard) {
				oldest = from
			}
		}
		delete(f.members, oldest)
	}
	if f.members == nil {
		f.members = make(map[string]*member)
	}
	f.members[m.From] = &member{m.Name, now}
}

// run says hello and answers what others ask, one question per answerEvery, until the server is closed.
// It is started with the first listener, by which others know this redlockd.
func (f *redlockds) run() {
	tick := time.NewTicker(helloEvery)
	defer tick.Stop()
	f.publish(fleetMessage{Kind: fleetHello})
	for {
		select {
		case <-f.asked:
			next := time.NewTimer(answerEvery)
			if !f.answer() {
				continue
			}
			select {
			case <-next.C:
			case <-f.srv.done:
			}
		case <-tick.C:
			f.publish(fleetMessage{Kind: fleetHello})
		case <-f.srv.done:
			f.publish(fleetMessage{Kind: fleetBye})
			return
		}
	}
}

// publish sends a message to all others.
func (f *redlockds) publish(m fleetMessage) {
	m.From, m.Name = f.srv.opts.Engine.Mailbox(), f.name
	f.srv.publish(fleetChannel, m.text())
}

// fleetName is what others call the redlockd that listens there: the address, with the name of this machine where the address is one that
// other machines do not know it by.
func fleetName(addr net.Addr) string {
	machine, err := os.Hostname()
	if err != nil {
		machine = "?"
	}
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return fleetWord(machine + ":" + addr.String())
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() || ip.IsLoopback() {
		host = machine
	}
	return fleetWord(net.JoinHostPort(host, port))
}

// fleetWord makes a name that parseFleetMessage takes.
func fleetWord(name string) string {
	return strings.Map(func(r rune) rune {
		if r < '!' || r > '~' {
			return '_'
		}
		return r
	}, name[:min(len(name), fleetNameMax)])
}

const (
	// inquiryTime bounds how long LOCKS ALL waits for answers.
	inquiryTime = time.Second
	// askEvery is the least time between two questions of one redlockd, however often its clients send LOCKS ALL.
	askEvery = 250 * time.Millisecond
	// answersMax bounds the bytes of all answers to one question.
	answersMax = 8 << 20
)

// inquiry is a question to the fleet. fleet.mu guards it.
type inquiry struct {
	id      string
	answers map[string]*assembly // by mailbox
	bytes   int                  // of the pieces
	full    bool                 // answersMax is reached: pieces were dropped
	changed chan struct{}        // has an element after a change
}

// assembly is an answer whose pieces come in, in any order.
type assembly struct {
	name   string
	pieces []string
	left   int
}

// inquire asks all others, and waits until all that are known have answered, for inquiryTime at most. ask is all of the question but who asks.
func (f *redlockds) inquire(ask fleetMessage) (answers []fleetLocks, missing []member, full bool) {
	ask.Kind, ask.Question = fleetAsk, newQuestion()
	q := &inquiry{id: ask.Question, answers: make(map[string]*assembly), changed: make(chan struct{}, 1)}
	f.mu.Lock()
	f.inquiry = q
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.inquiry = nil
		f.mu.Unlock()
	}()
	end := time.NewTimer(inquiryTime)
	defer end.Stop()
	f.publish(ask)
	// A redlockd that has just started does not know yet who is there.
	knowsAll := time.Since(f.srv.started) > 2*helloEvery
	for waits := true; waits && !(knowsAll && f.complete(q)); {
		select {
		case <-q.changed:
		case <-end.C:
			waits = false
		case <-f.srv.done:
			waits = false
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make(map[string]bool)
	for _, a := range q.answers {
		if a.left > 0 {
			continue
		}
		locks, err := parseFleetLocks(strings.Join(a.pieces, ""))
		if err != nil {
			continue
		}
		locks.name = a.name
		names[a.name] = true
		answers = append(answers, locks)
	}
	now := time.Now()
	for from, m := range f.members {
		// One that has started again at the same place has another mailbox, and takes the place of the one that was there.
		if a := q.answers[from]; (a == nil || a.left > 0) && now.Sub(m.heard) <= memberForgotten && !names[m.name] {
			missing = append(missing, *m)
		}
	}
	slices.SortFunc(answers, func(a, b fleetLocks) int { return cmp.Compare(a.name, b.name) })
	slices.SortFunc(missing, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	return answers, missing, q.full
}

// complete reports whether all that are known have answered.
func (f *redlockds) complete(q *inquiry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for from := range f.members {
		if a := q.answers[from]; a == nil || a.left > 0 {
			return false
		}
	}
	return true
}

// answered takes a piece of an answer.
func (f *redlockds) answered(m fleetMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.inquiry
	if q == nil || q.id != m.Question {
		return
	}
	a := q.answers[m.From]
	if a == nil {
		if len(q.answers) >= membersMax {
			return
		}
		a = &assembly{name: m.Name, pieces: make([]string, m.Pieces), left: m.Pieces}
		q.answers[m.From] = a
	}
	if len(a.pieces) != m.Pieces || a.pieces[m.Piece] != "" {
		return
	}
	if q.bytes += len(m.body); q.bytes > answersMax {
		q.full = true
		return
	}
	a.pieces[m.Piece] = strings.Clone(m.body)
	a.left--
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// nextQuestion takes the oldest question that can still be answered in time.
func (f *redlockds) nextQuestion(now time.Time) (m fleetMessage, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.questions = slices.DeleteFunc(f.questions, func(m fleetMessage) bool { return now.Sub(m.received) >= inquiryTime })
	if len(f.questions) == 0 {
		return m, false
	}
	m = f.questions[0]
	f.questions = slices.Delete(f.questions, 0, 1)
	if len(f.questions) > 0 {
		f.wakeLocked() // for the next question
	}
	return m, true
}

// sameQuestions takes the questions that have the same answer, the oldest first, at most so many.
func (f *redlockds) sameQuestions(first *fleetMessage, most int) (same []fleetMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.questions = slices.DeleteFunc(f.questions, func(m fleetMessage) bool {
		if len(same) >= most || !m.asksTheSame(first) {
			return false
		}
		same = append(same, m)
		return true
	})
	return same
}

// answer sends the leases of this redlockd to the one that asked first, and to others that ask the same.
// It reports whether anybody has asked. If it cannot find the leases in time, it does not answer.
func (f *redlockds) answer() bool {
	srv := f.srv
	first, ok := f.nextQuestion(time.Now())
	if !ok {
		return false
	}
	search := leaseSearch{pattern: string(first.Pattern), limit: first.Count, deadline: first.received.Add(inquiryTime), may: first.may}
	leases, refusal := srv.findLeases(&search)
	if refusal != nil {
		return true
	}
	body := []byte(fleetLocksOf(leases).text())
	pieces := slices.Collect(slices.Chunk(body, fleetPieceMax))
	for _, m := range append([]fleetMessage{first}, f.sameQuestions(&first, fleetAnswerMax/len(body)-1)...) {
		for i, piece := range pieces {
			part := fleetMessage{Kind: fleetAnswer, From: srv.opts.Engine.Mailbox(), Name: f.name, Question: m.Question, Piece: i, Pieces: len(pieces), body: string(piece)}
			srv.send(m.From, fleetChannel, part.text())
		}
	}
	return true
}
