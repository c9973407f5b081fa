package main

// What happened, as the clients saw it: the leases that they believed in, and what they read and wrote under them.

import (
	"fmt"
	"sync"
)

// span is a time in which a client believed to hold: from the reply that says so, until its validity, counted from when the
// client sent the command, is over. Nanoseconds of CLOCK_MONOTONIC.
type span struct{ from, to int64 }

// lease is one lock that a client was granted. Several resources have a lease each.
type lease struct {
	id       int
	who      string // the session, and what it did
	resource string
	shared   bool
	token    string // empty: a library's, which keeps it to itself
	fence    int64  // the latest; 0: not asked for
	grants   []grant
	renewals []grant // replies to EXTEND that say extended; without a fence
	spans    []span
}

// grant is one reply to LOCK that says granted. A token may be granted again, with another fence.
type grant struct {
	fence          int64
	asked, granted int64 // when LOCK was sent, and when its reply was there
}

// grant adds what the reply to a LOCK says. The fence is as JSON has it; nil: none.
func (l *lease) grant(a answer, fence any, valid int64) {
	l.fence = int64(number(fence))
	l.grants = append(l.grants, grant{l.fence, a.Start, a.End})
	l.believe(a.Start, a.End, valid)
}

// believe adds what a reply says: valid for some ns from the moment when the command was sent.
func (l *lease) believe(sent, answered, valid int64) {
	if sent+valid > answered {
		l.spans = append(l.spans, span{answered, sent + valid})
	}
}

// renew adds what a reply to EXTEND says.
func (l *lease) renew(a answer, valid int64) {
	l.renewals = append(l.renewals, grant{0, a.Start, a.End})
	l.believe(a.Start, a.End, valid)
}

// end cuts what the client believed: it has sent UNLOCK, or was told that the lock is lost.
func (l *lease) end(at int64) {
	var left []span
	for _, s := range l.spans {
		if s.to = min(s.to, at); s.to > s.from {
			left = append(left, s)
		}
	}
	l.spans = left
}

func (l *lease) until() (until int64) {
	for _, s := range l.spans {
		until = max(until, s.to)
	}
	return until
}

// access is what a holder did with the register of a resource: read v and, if wrote, put w in its place.
type access struct {
	lease      int
	who        string
	resource   string
	fence      int64 // 0: a reader's, which has none
	read       string
	wrote      bool
	unknown    bool // nobody knows what became of the write
	value      string
	call, done int64
}

// history collects what all sessions saw.
type history struct {
	mu       sync.Mutex
	leases   []*lease
	accesses []access
	byKind   map[string]int // leases
	errors   map[string]int // what else LOCK and the like ended with, by its code
	calls    int
	refused  int       // writes that the register refused: their fence was too low
	refusals []refusal // those before the end of the holder's validity
	forces   []forced
	byForce  map[string]int // what operators were told
	found    []violation
}

// violation is something that must not happen. At is CLOCK_MONOTONIC.
type violation struct {
	at       int64
	resource string
	text     string
}

func newHistory() *history {
	return &history{byKind: map[string]int{}, errors: map[string]int{}, byForce: map[string]int{}}
}

func (h *history) grant(l *lease, kind string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.id = len(h.leases)
	h.leases = append(h.leases, l)
	h.byKind[kind]++
}

func (h *history) access(a access) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.accesses = append(h.accesses, a)
}

func (h *history) count(what map[string]int, key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	what[key]++
}

func (h *history) report(at int64, resource, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found = append(h.found, violation{at, resource, fmt.Sprintf(format, args...)})
}
