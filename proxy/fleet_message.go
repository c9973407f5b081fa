package proxy

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
	"redlockd/proxy/status"
	"redlockd/redlock"
)

// The messages of a fleet on the wire: a head in JSON, a line end, and in an answer a piece of a text that is JSON, too. Names of resources
// and patterns are any bytes, so they are []byte, which JSON has in base64. A redlockd of another version may send fields that are not
// known here: they are passed over.

// The kinds of messages.
const (
	fleetHello  = "hello"
	fleetBye    = "bye"
	fleetAsk    = "ask"
	fleetAnswer = "answer"
)

const (
	// fleetNameMax bounds the name of a redlockd, in bytes.
	fleetNameMax = 128
	// fleetIDLen is the length of a mailbox and of the id of a question, in hex digits.
	fleetIDLen = 16
	// fleetCountMax bounds the leases of one answer.
	fleetCountMax = 1000
	// fleetAnswerMax bounds the bytes of one answer: it lists as many leases as fit.
	fleetAnswerMax = 1 << 20
	// fleetPieceMax bounds the bytes of one piece of it. With its head it is below redlock.MessageMax.
	fleetPieceMax = redlock.MessageMax - 1<<10
	// fleetPiecesMax bounds the pieces of one answer.
	fleetPiecesMax = fleetAnswerMax/fleetPieceMax + 1
	// fleetAskMax bounds the bytes of patterns in one question.
	fleetAskMax = 16 << 10
)

// fleetMessage is one message.
type fleetMessage struct {
	Kind string `json:"kind"`
	From string `json:"from"` // mailbox
	Name string `json:"name"`

	// Of a question and its answers.
	Question string `json:"question,omitempty"`

	// Of a question. May are the patterns of the user who asks, if it has a list of resources.
	Pattern []byte   `json:"pattern,omitempty"`
	Count   int      `json:"count,omitempty"`
	May     [][]byte `json:"may,omitempty"`

	// Of an answer.
	Piece  int `json:"piece,omitempty"`
	Pieces int `json:"pieces,omitempty"`
	body   string

	received time.Time
}

// text is the message on the wire.
func (m fleetMessage) text() string {
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

// newQuestion is an id that no other question has.
func newQuestion() string {
	var b [fleetIDLen / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// parseFleetMessage reads a message, within the bounds above. The body aliases the payload.
func parseFleetMessage(payload string) (m fleetMessage, err error) {
	head, body, _ := strings.Cut(payload, "\n")
	if err := json.Unmarshal([]byte(head), &m); err != nil {
		return m, err
	}
	m.body, m.received = body, time.Now()
	switch {
	case len(payload) > redlock.MessageMax:
		return m, errors.New("the message is too long")
	case !isFleetID(m.From):
		return m, fmt.Errorf("%.32q is no mailbox", m.From)
	case m.Name == "" || len(m.Name) > fleetNameMax || !isOneWord([]byte(m.Name)):
		return m, fmt.Errorf("%.32q is no name", m.Name)
	}
	switch m.Kind {
	case fleetHello, fleetBye:
		return m, nil
	case fleetAsk:
		return m, m.checkQuestion()
	case fleetAnswer:
		if !isFleetID(m.Question) || m.Pieces < 1 || m.Pieces > fleetPiecesMax || m.Piece < 0 || m.Piece >= m.Pieces || body == "" || len(body) > fleetPieceMax {
			return m, errors.New("a piece that is none")
		}
		return m, nil
	}
	return m, fmt.Errorf("%.32q is no kind of message", m.Kind)
}

func (m *fleetMessage) checkQuestion() error {
	if !isFleetID(m.Question) || m.Count < 1 || m.Count > fleetCountMax || len(m.May) > access.ResourcesMax {
		return errors.New("a question that is none")
	}
	if len(m.Pattern) > 0 {
		if err := patternRefusal(m.Pattern); err != nil {
			return err
		}
	}
	for _, pattern := range m.May {
		if len(pattern) == 0 || len(pattern) > redlock.MaxResourceLen {
			return errors.New("a pattern that is none")
		}
	}
	return nil
}

// asksTheSame reports whether two questions have the same answer.
func (m *fleetMessage) asksTheSame(other *fleetMessage) bool {
	return m.Count == other.Count && bytes.Equal(m.Pattern, other.Pattern) && slices.EqualFunc(m.May, other.May, bytes.Equal)
}

// isFleetID reports whether the text can be a mailbox, or the id of a question.
func isFleetID(text string) bool {
	return len(text) == fleetIDLen && strings.Trim(text, "0123456789abcdef") == ""
}

// may reports whether the user who asks may use the resource.
func (m *fleetMessage) may(resource string) bool {
	if len(m.May) == 0 {
		return true
	}
	for _, pattern := range m.May {
		if access.Match(string(pattern), resource) {
			return true
		}
	}
	return false
}

// fleetLocks is the text of an answer.
type fleetLocks struct {
	name  string       // of the redlockd, which the message says
	Cut   bool         `json:"cut,omitempty"` // there were more leases than fit
	Locks []fleetLease `json:"locks"`
}

// fleetLease is a redlock.LeaseInfo.
type fleetLease struct {
	Resources   [][]byte      `json:"resources"`
	TokenDigest string        `json:"digest,omitempty"`
	ValidityMs  int64         `json:"validity_ms,omitempty"`
	DelayMs     int64         `json:"delay_ms,omitempty"` // left of its delay, if it is in it
	Since       int64         `json:"since,omitempty"`    // Unix time in s
	Bound       bool          `json:"bound,omitempty"`
	Shared      bool          `json:"shared,omitempty"`
	Lost        bool          `json:"lost,omitempty"`
	Holder      *fleetNote    `json:"holder,omitempty"`
	Waiters     int           `json:"waiters,omitempty"`
	Queue       []fleetWaiter `json:"queue,omitempty"`
}

type fleetWaiter struct {
	fleetNote
	WaitedMs int64 `json:"waited_ms,omitempty"`
	Shared   bool  `json:"shared,omitempty"`
}

// fleetNote is a redlock.HolderNote.
type fleetNote struct {
	Text   string `json:"text,omitempty"`
	Client string `json:"client,omitempty"`
	Addr   string `json:"addr,omitempty"`
	User   string `json:"user,omitempty"`
}

// fleetLocksOf takes as many of the leases as fit into one answer.
func fleetLocksOf(leases []redlock.LeaseInfo) fleetLocks {
	answer := fleetLocks{Locks: []fleetLease{}}
	room := fleetAnswerMax - len(`{"cut":true,"locks":[]}`)
	for i := range leases {
		l := fleetLeaseOf(leases[i])
		if room -= len(marshal(l)) + len(","); room < 0 {
			answer.Cut = true
			break
		}
		answer.Locks = append(answer.Locks, l)
	}
	return answer
}

func (a fleetLocks) text() string { return string(marshal(a)) }

func fleetLeaseOf(l redlock.LeaseInfo) fleetLease {
	lease := fleetLease{TokenDigest: l.TokenDigest, ValidityMs: floorMs(l.Validity), DelayMs: floorMs(status.DelayLeft(l)), Since: max(0, l.Since.Unix()),
		Bound: l.Bound, Shared: l.Shared, Lost: l.Lost, Holder: (*fleetNote)(l.Note), Waiters: l.Waiters}
	for _, r := range l.Resources {
		lease.Resources = append(lease.Resources, []byte(r))
	}
	for _, w := range l.Queue {
		waiter := fleetWaiter{WaitedMs: floorMs(w.Waited), Shared: w.Shared}
		if w.Note != nil {
			waiter.fleetNote = fleetNote(*w.Note)
		}
		lease.Queue = append(lease.Queue, waiter)
	}
	return lease
}

// parseFleetLocks reads the text of an answer. One lease that cannot be is an error for all: no redlockd sends it.
func parseFleetLocks(text string) (a fleetLocks, err error) {
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return a, err
	}
	if len(a.Locks) > fleetCountMax {
		return a, fmt.Errorf("%d leases", len(a.Locks))
	}
	for i := range a.Locks {
		if err := a.Locks[i].check(); err != nil {
			return a, err
		}
	}
	return a, nil
}

// fleetTimeMax bounds the times in an answer: 100 years in milliseconds, so that no arithmetic overflows.
const fleetTimeMax = 100 * 366 * 24 * 3600 * 1000

func (l *fleetLease) check() error {
	switch {
	case len(l.Resources) == 0 || len(l.Resources) > redlock.MaxResources:
		return fmt.Errorf("a lease of %d resources", len(l.Resources))
	case len(l.TokenDigest) > fleetIDLen || strings.Trim(l.TokenDigest, "0123456789abcdef") != "":
		return errors.New("a digest that is none")
	case l.ValidityMs < 0 || l.ValidityMs > fleetTimeMax || l.DelayMs < 0 || l.DelayMs > fleetTimeMax || l.Since < 0 || l.Since > fleetTimeMax || l.Waiters < 0 || l.Waiters > fleetTimeMax:
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
		if w.WaitedMs < 0 || w.WaitedMs > fleetTimeMax || !w.valid() {
			return errors.New("a waiter that is none")
		}
	}
	return nil
}

// valid reports whether the texts are those of a client, which terminals can show.
func (n *fleetNote) valid() bool {
	printable := func(text string) bool {
		return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
	}
	return len(n.Text) <= noteMax && printable(n.Text) && len(n.Client) <= noteNameMax && isOneWord([]byte(n.Client)) &&
		len(n.Addr) <= fleetNameMax && printable(n.Addr) && len(n.User) <= preauthLimits.Bulk
}

// info is the lease as the engine would describe it.
func (l *fleetLease) info() redlock.LeaseInfo {
	info := redlock.LeaseInfo{TokenDigest: l.TokenDigest, Validity: time.Duration(l.ValidityMs) * time.Millisecond, Free: time.Duration(l.ValidityMs+l.DelayMs) * time.Millisecond,
		Since: time.Unix(l.Since, 0), Bound: l.Bound, Shared: l.Shared, Lost: l.Lost, Note: (*redlock.HolderNote)(l.Holder), Waiters: l.Waiters}
	for _, r := range l.Resources {
		info.Resources = append(info.Resources, string(r))
	}
	for i := range l.Queue {
		w := &l.Queue[i]
		info.Queue = append(info.Queue, redlock.WaiterInfo{Note: (*redlock.HolderNote)(&w.fleetNote), Waited: time.Duration(w.WaitedMs) * time.Millisecond, Shared: w.Shared})
	}
	return info
}
