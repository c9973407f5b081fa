package proxy

import "runtime/debug"

// dispatch executes one command and puts its reply in its place.
func (s *session) dispatch(args [][]byte) {
	if s.replyMode == replySkipNext {
		s.replyMode = replySkipping
	}
	mark := len(s.batch.b)
	c := &s.call
	*c = call{args: args, out: s.batch.b, proto: s.proto, s: s}
	s.run(c)
	if c.slot == nil {
		if isError(c.out[mark:]) {
			s.server.stats.countError(c.out[mark:])
		}
		s.batch.b = c.out
		if s.replyMode == replyOff || s.replyMode == replySkipping {
			s.batch.b = c.out[:mark]
		}
		s.behindQueue(mark)
	}
	if s.replyMode == replySkipping {
		s.replyMode = replyOn
	}
}

// run finds the command, refuses what must not run, and calls the handler.
func (s *session) run(c *call) {
	defer s.recovered(c, len(c.out))
	cmd, refusal := s.server.table.find(c.args)
	if cmd != nil {
		c.cmd = cmd
		s.lastCommand.Store(cmd)
		if refusal = s.refusal(cmd, c.args); refusal == "" {
			refusal = s.notQueued(cmd)
		}
	} else if off := s.server.scriptsOff(c.args[0]); off != "" {
		refusal = off
	}
	if refusal != "" {
		s.transaction.aborted = s.transaction.open
		if cmd != nil {
			cmd.stats.rejected.Add(1)
		}
		c.fail(refusal)
		return
	}
	cmd.stats.calls.Add(1)
	mark := len(c.out)
	cmd.handler(s, c)
	if c.slot == nil && isError(c.out[mark:]) {
		cmd.stats.failed.Add(1)
	}
}

// refusal says why this command must not be executed now, or nothing.
func (s *session) refusal(cmd *command, args [][]byte) string {
	switch {
	case !arityFits(cmd.arity, len(args)):
		return wrongArity(cmd)
	case cmd.flags&flagNoAuth == 0 && !s.authenticated():
		return "NOAUTH Authentication required."
	case !s.allowedWhileSubscribed(cmd):
		return notWhileSubscribed(cmd)
	case cmd.flags&flagLock != 0 && s.gone:
		return coded(errGone)
	}
	if off := s.server.scriptsOff(args[0]); off != "" {
		return off
	}
	return s.user.notPermitted(cmd, args)
}

// recovered keeps a command that panics from taking the server down: its client gets an error, the log gets the stack.
func (s *session) recovered(c *call, mark int) {
	p := recover()
	if p == nil {
		return
	}
	name := "?"
	if c.cmd != nil {
		name = c.cmd.fullName()
	}
	s.server.log.Error("panic in a command", "command", name, "client", s.id, "panic", p, "stack", string(debug.Stack()),
		"to_do", "report this line to the developers of redlockd; other clients are not affected")
	if c.slot == nil {
		c.out = appendError(c.out[:mark], errInternal)
		return
	}
	// The reply was to come later, and now perhaps never will; or it has come, or comes at this moment. Only closing is
	// right in all cases.
	s.die("panic in a command")
}
