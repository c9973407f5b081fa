package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"redlockd/redlock"
)

const (
	// inquiryTime bounds how long an inquiry waits for answers.
	inquiryTime = time.Second
	// AnswersMax bounds the bytes of all answers to one question.
	AnswersMax = 8 << 20
)

// Answer is what one redlockd has answered.
type Answer struct {
	Name   string
	Cut    bool // there were more leases than fit into an answer
	Total  int  // leases that it has, also those that it does not list; 0: an older redlockd, which does not say it
	Leases []redlock.LeaseInfo
}

// inquiry is a question to the fleet. Fleet.mu guards it.
type inquiry struct {
	id      string
	answers map[string]*assembly // by mailbox
	bytes   int                  // of the pieces
	full    bool                 // AnswersMax is reached: pieces were dropped
	changed chan struct{}        // has an element after a change
}

// assembly is an answer whose pieces come in, in any order.
type assembly struct {
	name   string
	pieces []string
	left   int
}

// Inquire asks all others, and waits until all that are known have answered, for a second at most. One
// inquiry runs at a time. missing are those that are known and have not answered; full: answers were
// dropped, because they have more than AnswersMax bytes. What was answered need not be true, nor what
// was asked for.
func (f *Fleet) Inquire(question Question) (answers []Answer, missing []Member, full bool) {
	ask := message{Kind: kindAsk, ID: newID(), Question: question}
	q := &inquiry{id: ask.ID, answers: make(map[string]*assembly), changed: make(chan struct{}, 1)}
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
	knowsAll := time.Since(f.started) > 2*helloEvery
	for waits := true; waits && !(knowsAll && q.complete(f)); {
		select {
		case <-q.changed:
		case <-end.C:
			waits = false
		case <-f.host.Done:
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
		locks, err := parseAnswer(strings.Join(a.pieces, ""))
		if err != nil {
			continue
		}
		names[a.name] = true
		answers = append(answers, Answer{a.name, locks.Cut, locks.Total, locks.leases()})
	}
	now := time.Now()
	for from, m := range f.members {
		// One that has started again at the same place has another mailbox, and takes the place of the
		// one that was there.
		if a := q.answers[from]; (a == nil || a.left > 0) && now.Sub(m.Heard) <= memberForgotten && !names[m.Name] {
			missing = append(missing, *m)
		}
	}
	slices.SortFunc(answers, func(a, b Answer) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(missing, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return answers, missing, q.full
}

// complete reports whether all that the fleet knows have answered.
func (q *inquiry) complete(f *Fleet) bool {
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
func (f *Fleet) answered(m message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.inquiry
	if q == nil || q.id != m.ID {
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
	if q.bytes += len(m.body); q.bytes > AnswersMax {
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
