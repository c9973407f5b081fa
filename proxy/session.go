package proxy

import (
	"runtime/debug"
	"sync/atomic"

	"redlockd/proxy/access"
	"redlockd/redlock"
	"redlockd/redlock/loglimit"
)

// session is what one client is to the commands: who it is, its protocol version, transaction and
// subscriptions. Its connection calls dispatch for each command, in order, on the reader goroutine.
// Handlers run there too.
//
// It knows nothing of bytes and sockets: a handler gets arguments and appends a reply (call), and the
// connection does the rest. RESET takes a session back to its beginning; the connection goes on.
type session struct {
	server *Server
	conn   *connection

	// Owned by the reader goroutine. An operation that completes writes to transaction while it blocks
	// the connection.

	// flow has what the client asks of the masters begin in order.
	flow redlock.Flow
	// call is the command that is executed: one object for all, so that a command allocates none.
	call        call
	replyMode   replyMode
	transaction transaction
	// caching: CLIENT CACHING came for the next command, or for the transaction that begins with it.
	caching bool
	// tracker is nil while tracking is off. Written with tracking.mu held, which others need to read it.
	tracker *tracker

	// Read and written by any goroutine.

	// mustSlowDown: the client has published while its user's clients lag behind, see slowDown.
	mustSlowDown atomic.Bool
	// asksForReload: the client waits for the reply of CONFIG RELOAD, so Reload leaves it open.
	asksForReload atomic.Bool
	// lastCommand is for CLIENT LIST; nil before the first.
	lastCommand atomic.Pointer[command]
	// caller says who this client is, for what it locks, see slot.note. nil: nobody has asked since it was
	// named or logged in last. Written with conn.mu held.
	caller atomic.Pointer[redlock.HolderNote]

	// current is the account, never nil: the shared one until the client has authenticated, and where
	// no users are configured. Written by the reader goroutine with conn.mu held.
	current atomic.Pointer[account]

	// Written by the reader goroutine with conn.mu held, and read by it without; other goroutines read
	// them with conn.mu held.
	proto         int    // 2 or 3, by HELLO
	name          string // by CLIENT SETNAME
	libName       string // by CLIENT SETINFO
	libVer        string // likewise
	subscriptions subscriptions

	// held is what held locks are bound to; nil: none were.
	held *heldLocks
	// audited limits the refusals that the audit records; nil before the first.
	audited *loglimit.Limiter
}

// replyMode is what CLIENT REPLY asked for. It drops replies, not commands: a LOCK is executed all the
// same.
type replyMode uint8

const (
	replyOn       replyMode = iota
	replyOff                // CLIENT REPLY OFF
	replySkipNext           // CLIENT REPLY SKIP: the next command gets no reply
	replySkipping           // this command gets none
)

// account is the one on which the client's commands count.
func (s *session) account() *account { return s.current.Load() }

// authenticated reports whether the client may send any command.
func (s *session) authenticated() bool { return s.user() != nil || len(s.server.live().Users) == 0 }

// user is whose the session is, with the rights that this user has now; nil until it has authenticated,
// and always where no users are configured.
func (s *session) user() *access.User { return s.account().user() }

// memory is about what the session keeps for its client, beside what every one takes. What is tracked ends
// within trackedMax, and does not count. Called by the reader goroutine or a WATCH that blocks it, with the
// connection's mu held.
func (s *session) memory() int {
	return s.transaction.memory() + s.subscriptions.bytes + len(s.name) + len(s.libName) + len(s.libVer)
}

// silent reports whether the command that is executed gets no reply.
func (s *session) silent() bool { return s.replyMode == replyOff || s.replyMode == replySkipping }

// dispatch executes one command and puts its reply in its place: behind all replies of earlier
// commands. args[0] is the name. Called by the reader goroutine, in a batch.
func (s *session) dispatch(args [][]byte) {
	if s.replyMode == replySkipNext {
		s.replyMode = replySkipping
	}
	conn := s.conn
	mark := len(conn.batch.b)
	c := &s.call
	*c = call{args: args, out: conn.batch.b, proto: s.proto, s: s}
	s.execute(c)
	if c.slot == nil {
		if isError(c.out[mark:]) {
			s.server.countError(s.account(), c.out[mark:])
		}
		conn.batch.b = c.out
		if s.silent() {
			conn.batch.b = c.out[:mark]
		}
		conn.queueReply(mark)
	}
	if s.replyMode == replySkipping {
		s.replyMode = replyOn
	}
	if s.caching && !s.transaction.open && (c.cmd == nil || c.cmd.parent == nil || c.cmd.parent.name != "client") {
		s.caching = false
	}
}

// execute finds the command, refuses it if it must not run, and calls its handler. A command that is
// refused behind MULTI makes EXEC fail, as in Redis: the client wants all of its commands executed, or
// none.
func (s *session) execute(c *call) {
	defer s.recovered(c, len(c.out))
	cmd, refusal := s.server.table.find(c.args)
	if cmd != nil {
		c.cmd = cmd
		s.lastCommand.Store(cmd)
		if refusal = s.refusal(cmd, c.args); refusal == nil {
			refusal = s.notQueued(cmd)
		}
	} else if off := s.server.scriptsOff(c.args[0]); off != nil {
		refusal = off
	}
	if refusal != nil {
		s.transaction.aborted = s.transaction.open
		if cmd != nil {
			cmd.stats.count(s.account().own, commandRejected)
		}
		c.fail(refusal)
		return
	}
	cmd.stats.count(s.account().own, commandCalls)
	mark := len(c.out)
	if err := cmd.handler(s, c); err != nil {
		c.fail(err)
	}
	if c.slot == nil && isError(c.out[mark:]) {
		cmd.stats.count(s.account().own, commandFailed)
	}
	if cmd.flags&flagAdmin != 0 {
		s.auditAdmin(c, c.out[mark:])
	}
}

// refusal says why this command must not be executed now, or returns nil. The order is that of Redis: a
// wrong number of arguments is answered before NOAUTH.
func (s *session) refusal(cmd *command, args [][]byte) error {
	switch {
	case !arityFits(cmd.arity, len(args)):
		return wrongArity(cmd)
	case cmd.flags&flagNoAuth == 0 && !s.authenticated():
		return replyError("NOAUTH Authentication required.")
	case !s.allowedWhileSubscribed(cmd):
		return notWhileSubscribed(cmd)
	case cmd.flags&flagLock != 0 && s.conn.halfClosed:
		return errGone
	}
	if off := s.server.scriptsOff(args[0]); off != nil {
		return off
	}
	return notPermitted(s.user(), cmd, args)
}

// recovered keeps a command that panics from taking the server down: its client gets an error, the log
// gets the stack. What the handler had appended behind mark is dropped, because half a reply would
// shift all later ones.
func (s *session) recovered(c *call, mark int) {
	p := recover()
	if p == nil {
		return
	}
	name := "?"
	if c.cmd != nil {
		name = c.cmd.fullName()
	}
	s.server.log.Error("panic in a command", "command", name, "client", s.conn.id, "panic", p, "stack", string(debug.Stack()),
		"to_do", "report this line to the developers of redlockd; other clients are not affected")
	if c.slot == nil {
		c.out = appendError(c.out[:mark], errInternal)
		return
	}
	// The reply was to come later. It may never come, or come at this moment. Only closing is right in
	// all cases.
	s.conn.close("panic in a command")
}

// becomeLocked makes the session one of the account, which it has entered, and takes it out of the one
// before. What waits for the client to read it goes along. Operations that are on their way stay with
// the account that began them (slot.account). Called by the reader goroutine.
func (s *session) becomeLocked(a *account) {
	s.account().leave()
	s.account().output.Add(int64(-s.conn.counted))
	a.output.Add(int64(s.conn.counted))
	s.current.Store(a)
	s.caller.Store(nil)
}

// username is the name that CLIENT LIST shows.
func (s *session) username() string { return usernameOf(s.user()) }

// allowedWhileSubscribed reports whether a client that has subscriptions may send this command. In
// RESP2 it takes every array for a message, so it may send only what is answered as one; in RESP3
// messages are pushes, and all is allowed.
func (s *session) allowedWhileSubscribed(cmd *command) bool {
	if s.proto >= 3 || s.subscriptions.count() == 0 || cmd.flags&flagPubSub != 0 && cmd.name != "publish" {
		return true
	}
	switch cmd.name {
	case "ping", "quit", "reset":
		return cmd.parent == nil
	}
	return false
}

// notWhileSubscribed is the error for a command that is not allowedWhileSubscribed.
func notWhileSubscribed(cmd *command) error {
	return errorf("ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
		cmd.fullName())
}
