// Package fleet is the redlockds over the same masters, as one of them knows the others, and what they
// say to each other:
//
//	hello   to all  every helloEvery: I am here, and this is my name
//	bye     to all  I end
//	ask     to all  which leases have you granted? (LOCKS ALL)
//	answer  to one  these, in pieces
//
// Messages travel over the masters (redlock/publish.go), and each needs a quorum of them. Nothing in a
// message is trusted: it is decoded within bounds, and no lock depends on one.
//
//	fleet.go    who is there, and answers to the questions of others
//	inquiry.go  a question of our own
//	message.go  the messages on the wire
//
// An answer may have answerMax bytes, and every master passes them on. So a redlockd answers one
// question per answerEvery, the oldest first. Others that ask the same share the answer, if what is
// sent to all of them is no more than one answer may have. A question that waits for inquiryTime is
// dropped: the one who asked has given up, and reports this redlockd as missing.
//
// A redlockd that is gone without a bye is remembered for memberForgotten, so that its answer is
// missed.
package fleet

import (
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"redlockd/redlock"
)

// Channel carries the messages. Clients can neither publish nor subscribe to it. Redlockds of all
// versions share it, so its value stays.
const Channel = redlock.ReservedPrefix + "fleet"

const (
	// helloEvery is the pause between two hellos. A message costs each master one PUBLISH.
	helloEvery = 10 * time.Second
	// memberForgotten is for how long a redlockd is remembered that is not heard any more.
	memberForgotten = time.Hour
	// membersMax bounds the redlockds that are remembered. Beyond it, the one that was heard longest ago
	// is forgotten.
	membersMax = 256
	// questionsMax bounds the questions that wait for an answer. Beyond it they are dropped, as messages
	// may be.
	questionsMax = 64
	// answerEvery is the least time between the answers to two questions, however many are asked.
	answerEvery = 250 * time.Millisecond
)

// Host is the redlockd that a Fleet speaks for. Its functions are called from several goroutines.
type Host struct {
	// Mailbox is where messages to this redlockd alone go.
	Mailbox string
	// Publish sends a message to all redlockds, Send to one. They do not block.
	Publish func(payload string)
	Send    func(mailbox, payload string)
	// Leases finds what this redlockd has granted, Count of total (redlock.RankLeases); an error: not by the deadline.
	Leases func(q *Question, deadline time.Time) (leases []redlock.LeaseInfo, total int, err error)
	// Done is closed when this redlockd ends.
	Done <-chan struct{}
}

// Fleet is the others. Make one with New.
type Fleet struct {
	host    Host
	started time.Time
	// asked has an element if questions may have one.
	asked chan struct{}

	mu        sync.Mutex
	name      string             // of this redlockd; "": it does not listen yet
	members   map[string]*Member // by mailbox; this redlockd is none of them
	inquiry   *inquiry           // ours, under way; nil: none
	questions []message          // of others, the oldest first; at most questionsMax
}

// Member is another redlockd, and when it was heard last.
type Member struct {
	Name  string
	Heard time.Time
}

// New makes a Fleet, which says nothing before Run.
func New(host Host) *Fleet {
	return &Fleet{host: host, started: time.Now(), asked: make(chan struct{}, 1)}
}

// Listens says where this redlockd can be reached: the others call it by that. Called once, before Run.
func (f *Fleet) Listens(addr net.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.name = nameOf(addr)
}

// Name is what the others call this redlockd; "": it does not listen yet.
func (f *Fleet) Name() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.name
}

// Receive takes a message of Channel from the engine. It must not block, and must not publish.
func (f *Fleet) Receive(payload string) {
	m, err := parseMessage(payload)
	if err != nil || m.From == f.host.Mailbox {
		return
	}
	f.heard(m, time.Now())
	switch m.Kind {
	case kindAnswer:
		f.answered(m)
	case kindAsk:
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.questions) < questionsMax {
			f.questions = append(f.questions, m)
			f.wakeLocked()
		}
	}
}

// wakeLocked has Run look at the questions.
func (f *Fleet) wakeLocked() {
	select {
	case f.asked <- struct{}{}:
	default:
	}
}

// heard remembers who has sent a message.
func (f *Fleet) heard(m message, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.Kind == kindBye {
		delete(f.members, m.From)
		return
	}
	for from, other := range f.members {
		if now.Sub(other.Heard) > memberForgotten {
			delete(f.members, from)
		}
	}
	if f.members[m.From] == nil && len(f.members) >= membersMax {
		oldest := ""
		for from, other := range f.members {
			if oldest == "" || other.Heard.Before(f.members[oldest].Heard) {
				oldest = from
			}
		}
		delete(f.members, oldest)
	}
	if f.members == nil {
		f.members = make(map[string]*Member)
	}
	f.members[m.From] = &Member{m.Name, now}
}

// heardLately is for how long a redlockd counts in Size after each message: two hellos may be lost. One that
// was silent for longer has sent nothing through a quorum of masters, and so has granted nothing either.
const heardLately = 3 * helloEvery

// Size is how many redlockds there are, as far as was heard lately: the others, and this one.
func (f *Fleet) Size(now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 1
	for _, other := range f.members {
		if now.Sub(other.Heard) <= heardLately {
			n++
		}
	}
	return n
}

// Run says hello and answers what others ask, one question per answerEvery, until the host is done.
func (f *Fleet) Run() {
	tick := time.NewTicker(helloEvery)
	defer tick.Stop()
	f.publish(message{Kind: kindHello})
	for {
		select {
		case <-f.asked:
			next := time.NewTimer(answerEvery)
			if !f.answer() {
				continue
			}
			select {
			case <-next.C:
			case <-f.host.Done:
			}
		case <-tick.C:
			f.publish(message{Kind: kindHello})
		case <-f.host.Done:
			f.publish(message{Kind: kindBye})
			return
		}
	}
}

// publish sends a message to all others.
func (f *Fleet) publish(m message) {
	m.From, m.Name = f.host.Mailbox, f.Name()
	f.host.Publish(m.text())
}

// nameOf is what others call the redlockd that listens there: the address, with the name of this
// machine where the address is one that other machines do not know it by.
func nameOf(addr net.Addr) string {
	machine, err := os.Hostname()
	if err != nil {
		machine = "?"
	}
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return word(machine + ":" + addr.String())
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() || ip.IsLoopback() {
		host = machine
	}
	return word(net.JoinHostPort(host, port))
}

// word makes a name that parseMessage takes.
func word(name string) string {
	return strings.Map(func(r rune) rune {
		if r < '!' || r > '~' {
			return '_'
		}
		return r
	}, name[:min(len(name), nameMax)])
}

// nextQuestion takes the oldest question that can still be answered in time.
func (f *Fleet) nextQuestion(now time.Time) (m message, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.questions = slices.DeleteFunc(f.questions, func(m message) bool { return now.Sub(m.received) >= inquiryTime })
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
func (f *Fleet) sameQuestions(first *message, most int) (same []message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.questions = slices.DeleteFunc(f.questions, func(m message) bool {
		if len(same) >= most || !m.asksTheSame(first) {
			return false
		}
		same = append(same, m)
		return true
	})
	return same
}

// answer sends the leases of this redlockd to the one that asked first, and to others that ask the
// same. It reports whether anybody has asked. If it cannot find the leases in time, it does not answer.
func (f *Fleet) answer() bool {
	first, ok := f.nextQuestion(time.Now())
	if !ok {
		return false
	}
	leases, total, err := f.host.Leases(&first.Question, first.received.Add(inquiryTime))
	if err != nil {
		return true
	}
	all := answerOf(first.Reason(), leases)
	all.Total = total
	body := []byte(all.text())
	pieces := slices.Collect(slices.Chunk(body, pieceMax))
	for _, m := range append([]message{first}, f.sameQuestions(&first, answerMax/len(body)-1)...) {
		for i, piece := range pieces {
			part := message{Kind: kindAnswer, From: f.host.Mailbox, Name: f.Name(), ID: m.ID, Piece: i, Pieces: len(pieces), body: string(piece)}
			f.host.Send(m.From, part.text())
		}
	}
	return true
}
