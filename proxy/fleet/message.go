package fleet

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"redlockd/proxy/access"
	"redlockd/redlock"
)

// The messages on the wire: a head in JSON, a line end, and in an answer a piece of a text that is
// JSON, too. Names of resources and patterns are any bytes, so they are []byte, which JSON has in
// base64. A redlockd of another version may send fields that are not known here: they are passed over.

// The kinds of messages.
const (
	kindHello  = "hello"
	kindBye    = "bye"
	kindAsk    = "ask"
	kindAnswer = "answer"
)

const (
	// nameMax bounds the name of a redlockd, and that of a client, in bytes.
	nameMax = 128
	// NoteMax bounds the text of a note, in bytes.
	NoteMax = 200
	// idLen is the length of a mailbox and of the id of a question, in hex digits.
	idLen = 16
	// CountMax bounds the leases of one answer, and Question.Count.
	CountMax = 1000
	// answerMax bounds the bytes of one answer: it lists as many leases as fit.
	answerMax = 1 << 20
	// pieceMax bounds the bytes of one piece of it. With its head it is below redlock.MessageMax.
	pieceMax = redlock.MessageMax - 1<<10
	// piecesMax bounds the pieces of one answer.
	piecesMax = answerMax/pieceMax + 1
	// PatternsMax bounds the bytes of Question.May together.
	PatternsMax = 16 << 10
)

// Question is which leases somebody asks for.
type Question struct {
	// Pattern is a glob that one resource of a lease must match; empty: any does.
	Pattern []byte `json:"pattern,omitempty"`
	// By is the name of a redlock.Reason: which leases are listed, the first to list first; empty: all. A
	// redlockd that does not know it lists all.
	By string `json:"by,omitempty"`
	// Count is how many leases each redlockd lists at most, 1 to CountMax.
	Count int `json:"count,omitempty"`
	// May are the patterns of the resources that the one who asks may use; none: all.
	May [][]byte `json:"may,omitempty"`
}

// message is one message.
type message struct {
	Kind string `json:"kind"`
	From string `json:"from"` // mailbox
	Name string `json:"name"`

	ID string `json:"question,omitempty"` // of a question, and of its answers
	Question

	// Of an answer.
	Piece  int `json:"piece,omitempty"`
	Pieces int `json:"pieces,omitempty"`
	body   string

	received time.Time
}

// text is the message on the wire.
func (m message) text() string {
	return string(marshal(m)) + "\n" + m.body
}

// marshal is for values of this file, which have none that JSON lacks.
func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// newID is an id that no other question has.
func newID() string {
	var b [idLen / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// parseMessage reads a message, within the bounds above. The body aliases the payload.
func parseMessage(payload string) (m message, err error) {
	head, body, _ := strings.Cut(payload, "\n")
	if err := json.Unmarshal([]byte(head), &m); err != nil {
		return m, err
	}
	m.body, m.received = body, time.Now()
	switch {
	case len(payload) > redlock.MessageMax:
		return m, errors.New("the message is too long")
	case !isID(m.From):
		return m, fmt.Errorf("%.32q is no mailbox", m.From)
	case m.Name == "" || word(m.Name) != m.Name:
		return m, fmt.Errorf("%.32q is no name", m.Name)
	}
	switch m.Kind {
	case kindHello, kindBye:
		return m, nil
	case kindAsk:
		return m, m.checkQuestion()
	case kindAnswer:
		if !isID(m.ID) || m.Pieces < 1 || m.Pieces > piecesMax || m.Piece < 0 || m.Piece >= m.Pieces || body == "" || len(body) > pieceMax {
			return m, errors.New("a piece that is none")
		}
		return m, nil
	}
	return m, fmt.Errorf("%.32q is no kind of message", m.Kind)
}

func (m *message) checkQuestion() error {
	if _, ok := redlock.ReasonOf(m.By); !ok || !isID(m.ID) || m.Count < 1 || m.Count > CountMax || len(m.Pattern) > access.PatternMax || len(m.May) > access.ResourcesMax {
		return errors.New("a question that is none")
	}
	for _, pattern := range m.May {
		if len(pattern) == 0 || len(pattern) > redlock.MaxResourceLen {
			return errors.New("a pattern that is none")
		}
	}
	return nil
}

// asksTheSame reports whether two questions have the same answer.
func (m *message) asksTheSame(other *message) bool {
	return m.By == other.By && m.Count == other.Count && bytes.Equal(m.Pattern, other.Pattern) && slices.EqualFunc(m.May, other.May, bytes.Equal)
}

// isID reports whether the text can be a mailbox, or the id of a question.
func isID(text string) bool {
	return len(text) == idLen && strings.Trim(text, "0123456789abcdef") == ""
}

// Permits reports whether the one who asks may use the resource.
func (q *Question) Permits(resource string) bool {
	return len(q.May) == 0 ||
		slices.ContainsFunc(q.May, func(pattern []byte) bool { return access.Match(string(pattern), resource) })
}

// answerJSON is the text of an answer.
type answerJSON struct {
	Cut   bool        `json:"cut,omitempty"` // there were more leases than fit
	Total int         `json:"total,omitempty"`
	Locks []leaseJSON `json:"locks"`
}

// leaseJSON is a redlock.LeaseInfo.
type leaseJSON struct {
	Resources   [][]byte     `json:"resources"`
	TokenDigest string       `json:"digest,omitempty"`
	ValidityMs  int64        `json:"validity_ms,omitempty"`
	DelayMs     int64        `json:"delay_ms,omitempty"` // left of its delay, if it is in it
	Since       int64        `json:"since,omitempty"`    // Unix time in s
	SinceMs     int64        `json:"since_ms,omitempty"` // and ms of that second; an older redlockd does not say it
	Bound       bool         `json:"bound,omitempty"`
	Shared      bool         `json:"shared,omitempty"`
	Lost        bool         `json:"lost,omitempty"`
	Holder      *noteJSON    `json:"holder,omitempty"`
	Waiters     int          `json:"waiters,omitempty"`
	Queue       []waiterJSON `json:"queue,omitempty"`
}

type waiterJSON struct {
	noteJSON
	WaitedMs int64 `json:"waited_ms,omitempty"`
	Shared   bool  `json:"shared,omitempty"`
}

// noteJSON is a redlock.HolderNote.
type noteJSON struct {
	Text   string `json:"text,omitempty"`
	Client string `json:"client,omitempty"`
	Addr   string `json:"addr,omitempty"`
	User   string `json:"user,omitempty"`
}

// Reason is By, of a question that was checked.
func (q *Question) Reason() redlock.Reason {
	by, _ := redlock.ReasonOf(q.By)
	return by
}

// answerOf takes as many of the leases as fit into one answer, the first to list first.
func answerOf(by redlock.Reason, leases []redlock.LeaseInfo) answerJSON {
	answer := answerJSON{Locks: []leaseJSON{}}
	room := answerMax - len(`{"cut":true,"total":9223372036854775807,"locks":[]}`)
	for _, i := range redlock.RankLeases(by, len(leases), len(leases), func(i int) *redlock.LeaseInfo { return &leases[i] }) {
		l := leaseOf(leases[i])
		if room -= len(marshal(l)) + len(","); room < 0 {
			answer.Cut = true
			break
		}
		answer.Locks = append(answer.Locks, l)
	}
	return answer
}

func (a answerJSON) text() string { return string(marshal(a)) }

func leaseOf(l redlock.LeaseInfo) leaseJSON {
	lease := leaseJSON{TokenDigest: l.TokenDigest, ValidityMs: msOf(l.Validity), DelayMs: msOf(l.DelayLeft()), Since: max(0, l.Since.Unix()), SinceMs: l.Since.UnixMilli() % 1000,
		Bound: l.Bound, Shared: l.Shared, Lost: l.Lost, Holder: (*noteJSON)(l.Note), Waiters: l.Waiters}
	for _, r := range l.Resources {
		lease.Resources = append(lease.Resources, []byte(r))
	}
	for _, w := range l.Queue {
		waiter := waiterJSON{WaitedMs: msOf(w.Waited), Shared: w.Shared}
		if w.Note != nil {
			waiter.noteJSON = noteJSON(*w.Note)
		}
		lease.Queue = append(lease.Queue, waiter)
	}
	return lease
}

// parseAnswer reads the text of an answer. One impossible lease is an error for all.
func parseAnswer(text string) (a answerJSON, err error) {
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return a, err
	}
	if len(a.Locks) > CountMax || !inTime(int64(a.Total)) {
		return a, fmt.Errorf("%d leases of %d", len(a.Locks), a.Total)
	}
	for i := range a.Locks {
		if err := a.Locks[i].check(); err != nil {
			return a, err
		}
	}
	return a, nil
}

// inTime bounds the numbers in an answer to 100 years in milliseconds, so that no arithmetic overflows.
func inTime(n int64) bool { return n >= 0 && n <= 100*366*24*3600*1000 }

// msOf is a time in whole milliseconds, 0 if it is over.
func msOf(d time.Duration) int64 { return max(0, d.Milliseconds()) }

func (l *leaseJSON) check() error {
	switch {
	case len(l.Resources) == 0 || len(l.Resources) > redlock.MaxResources:
		return fmt.Errorf("a lease of %d resources", len(l.Resources))
	case len(l.TokenDigest) > idLen || strings.Trim(l.TokenDigest, "0123456789abcdef") != "":
		return errors.New("a digest that is none")
	case !inTime(l.ValidityMs) || !inTime(l.DelayMs) || !inTime(l.Since) || !inTime(l.SinceMs) || !inTime(int64(l.Waiters)):
		return errors.New("a number out of bounds")
	case len(l.Queue) > redlock.WaitersShown:
		return fmt.Errorf("a queue of %d", len(l.Queue))
	}
	for _, r := range l.Resources {
		if len(r) == 0 || len(r) > redlock.MaxResourceLen+4 { // a queue of a semaphore is shown as name#*
			return errors.New("a name of a resource that is none")
		}
	}
	if l.Holder != nil && !l.Holder.valid() {
		return errors.New("a holder that is none")
	}
	for _, w := range l.Queue {
		if !inTime(w.WaitedMs) || !w.valid() {
			return errors.New("a waiter that is none")
		}
	}
	return nil
}

// valid reports whether the texts are those of a client, which terminals can show.
func (n *noteJSON) valid() bool {
	printable := func(text string) bool {
		return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
	}
	return len(n.Text) <= NoteMax && printable(n.Text) && word(n.Client) == n.Client &&
		len(n.Addr) <= nameMax && printable(n.Addr) && len(n.User) <= access.LoginMax
}

// leases are those of an answer.
func (a answerJSON) leases() []redlock.LeaseInfo {
	leases := make([]redlock.LeaseInfo, len(a.Locks))
	for i := range a.Locks {
		leases[i] = a.Locks[i].info()
	}
	return leases
}

// info is the lease as the engine would describe it.
func (l *leaseJSON) info() redlock.LeaseInfo {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	info := redlock.LeaseInfo{TokenDigest: l.TokenDigest, Validity: ms(l.ValidityMs), Free: ms(l.ValidityMs + l.DelayMs), Since: time.UnixMilli(1000*l.Since + l.SinceMs),
		Bound: l.Bound, Shared: l.Shared, Lost: l.Lost, Note: (*redlock.HolderNote)(l.Holder), Waiters: l.Waiters}
	for _, r := range l.Resources {
		info.Resources = append(info.Resources, string(r))
	}
	for i := range l.Queue {
		w := &l.Queue[i]
		info.Queue = append(info.Queue, redlock.WaiterInfo{Note: (*redlock.HolderNote)(&w.noteJSON), Waited: ms(w.WaitedMs), Shared: w.Shared})
	}
	return info
}
