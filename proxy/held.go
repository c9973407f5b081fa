package proxy

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"redlockd/proxy/fleet"
	"redlockd/redlock"
)

// What is held for a connection (LOCK … HOLD, HOLD, MHOLD): its end, and how a loss reaches the client.
// The commands are in cmd_hold.go.

// heldLocks is what the locks of a session are bound to. It implements redlock.Owner.
type heldLocks struct {
	*redlock.Holder
	s *session
	// keptAlive: the client has sent KEEPALIVE.
	keptAlive atomic.Bool
	// unreported counts the resources whose loss no KEEPALIVE has reported.
	unreported atomic.Int64
}

// holder is what locks of this client are bound to, or the refusal to hold a lock for a client that
// will not learn of it. Called by the reader goroutine.
func (s *session) holder() (*redlock.Holder, error) {
	if s.silent() {
		return nil, errorf("ERR HOLD needs a reply: without it the client knows neither the token nor a loss, and CLIENT REPLY is off")
	}
	return s.heldLocks().Holder, nil
}

func (s *session) heldLocks() *heldLocks {
	if s.held != nil {
		return s.held
	}
	h := &heldLocks{s: s}
	h.Holder = redlock.NewHolder(h)
	s.conn.mu.Lock()
	s.held = h
	closed := s.conn.closed.Load()
	s.conn.mu.Unlock()
	if closed { // close has not seen it
		s.server.opts.Engine.EndHolder(h.Holder, false)
	}
	return h
}

// endHold ends what is held, without a release, for a client that becomes another one. Called by the
// reader goroutine.
func (s *session) endHold() {
	if h := s.held; h != nil {
		s.conn.mu.Lock()
		s.held = nil
		s.conn.mu.Unlock()
		s.server.opts.Engine.EndHolder(h.Holder, false)
	}
}

// Idle implements redlock.Owner. A client of which a command waits is not idle: it may be one that sends
// nothing before the reply.
func (h *heldLocks) Idle() time.Duration {
	if h.s.conn.order.waits() {
		return 0
	}
	return h.s.conn.idle()
}

// LockLost implements redlock.Owner.
func (h *heldLocks) LockLost(resources []string) redlock.Flusher {
	why := "a held lock was lost, or released or taken over elsewhere, and this client sends no KEEPALIVE"
	if h.keptAlive.Load() {
		if h.unreported.Add(int64(len(resources))) <= redlock.BoundMax {
			return nil
		}
		why = "too many held locks were lost since the last KEEPALIVE"
	}
	h.s.server.log.Info("client closed", "client", h.s.conn.id, "addr", h.s.conn.addr, "why", why)
	h.s.conn.close(why)
	return nil
}

// noteMax bounds the text of a NOTE, and the reason of FORCE, in bytes.
const noteMax = fleet.NoteMax

// noteNameMax is how many bytes of a client's name, which is ASCII (checkWord), go into its notes.
const noteNameMax = 128

// note makes the note of a lock. Its text is shown to people, so it is text.
func (s *session) note(text []byte) (*redlock.HolderNote, error) {
	if refusal := checkText("note", text); refusal != nil {
		return nil, refusal
	}
	return &redlock.HolderNote{Text: string(text), Client: s.name[:min(len(s.name), noteNameMax)], Addr: s.conn.addr, User: s.username()}, nil
}

// checkText bounds a text that is for people: a note, or the reason of FORCE.
func checkText(what string, text []byte) error {
	switch {
	case len(text) == 0 || len(text) > noteMax:
		return errorf("ERR the %s has %d bytes, it must have 1 … %d", what, len(text), noteMax)
	case !utf8.Valid(text) || bytes.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errorf("ERR the %s has characters that cannot be printed", what)
	}
	return nil
}

// drainRenewMax bounds how long the end of a drain waits for the last renewals.
const drainRenewMax = time.Second

// renewHeld renews every held lock once more, so that its client has the whole TTL to take it over
// through another redlockd.
func (srv *Server) renewHeld() {
	ctx, cancel := context.WithTimeout(context.Background(), drainRenewMax)
	defer cancel()
	srv.opts.Engine.RenewHeld(ctx)
	if n := srv.opts.Engine.Stats().Bound; n > 0 {
		srv.log.Log(ctx, slog.LevelInfo, "held locks are left to their clients", "locks", n,
			"to_do", "nothing: each runs for its ttl, in which its client takes it over with HOLD through another redlockd")
	}
}

// bound is how many locks are bound to this client. It must be called without conn.mu.
func (s *session) bound() int {
	s.conn.mu.Lock()
	h := s.held
	s.conn.mu.Unlock()
	if h == nil {
		return 0
	}
	return s.server.opts.Engine.Bound(h.Holder)
}
