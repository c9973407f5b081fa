package proxy

import (
	"strings"

	"redlockd/redlock"
	"redlockd/redlock/resp"
	"redlockd/redlock/sandbox"
)

// The commands of scripts: EVAL, EVALSHA and SCRIPT. They read arguments and find the script;
// exchange.go executes it.
//
//	cmd_eval.go         which script, which keys
//	script_cache.go     scripts by their SHA1, here and on the masters
//	script_shares.go    whose turn it is to run or compile
//	exchange.go         assume, run, commit; or read, run, commit
//	script_program.go   the runs of one call
//	key_queue.go        who changes a value that many write
//	script_assume.go    what to assume
//	script_run.go       one run in the sandbox (redlock/sandbox)
//	script_call.go      what redis.call does in it

// errNoScript has Redis's words: client libraries send EVAL when they read the code.
const errNoScript replyError = "NOSCRIPT No matching script. Please use EVAL."

// cmdEVAL is EVAL and EVAL_RO. A source that does not compile is answered at once, in the place of the
// call.
func cmdEVAL(s *session, c *call) error {
	x, refusal := newScriptProgram(c)
	if refusal != nil {
		return refusal
	}
	defer withoutCPU(s.conn)() // scripts have turns of their own
	script, err := s.compiled(s.account(), string(c.args[1]))
	if err != nil {
		return err
	}
	x.script = script
	x.enterScript(c)
	return nil
}

// cmdEVALSHA is EVALSHA and EVALSHA_RO. A script that is not known here is fetched from the masters,
// where another redlockd may have stored it. Commands behind this one wait until that is known, because
// they may be for the same keys.
func cmdEVALSHA(s *session, c *call) error {
	if len(c.args[1]) != 40 {
		return errNoScript
	}
	x, refusal := newScriptProgram(c)
	if refusal != nil {
		return refusal
	}
	var room [40]byte
	lower := appendLower(room[:0], c.args[1]) // as the cache knows it
	if x.script = s.server.scripts.lookupSHA(lower); x.script != nil {
		defer withoutCPU(s.conn)()
		x.enterScript(c)
		return nil
	}
	// No script has this name: the masters need not be asked.
	if strings.Trim(string(lower), "0123456789abcdef") != "" {
		return errNoScript
	}
	x.sha = string(lower)
	x.enterScript(c)
	return nil
}

// haveSource goes on with what the masters hold under a SHA1. Only a source with that SHA1 is executed,
// so a master that holds something else under it can do no harm. The engine calls haveSource, so
// another goroutine does the compiling.
func (x *scriptProgram) haveSource(result redlock.Result) redlock.Flusher {
	for _, source := range result.Scripts {
		if sandbox.SHA(source) != x.sha {
			continue
		}
		return x.onGoroutine(func() redlock.Flusher {
			script, err := x.s.compiled(x.account, source)
			if err != nil {
				return x.fail(errNoScript)
			}
			x.script = script
			return x.begin()
		})
	}
	return x.fail(errNoScript)
}

// newScriptProgram reads numkeys, the keys and the arguments. Its errors are in Redis's words. The
// number of keys is bounded, as each one is a guard that every master compares.
func newScriptProgram(c *call) (*scriptProgram, error) {
	n, ok := resp.ParseInt(c.args[2])
	rest := c.args[3:]
	switch {
	case !ok:
		return nil, errNotInteger
	case n > int64(len(rest)):
		return nil, replyError("ERR Number of keys can't be greater than number of args")
	case n < 0:
		return nil, replyError("ERR Number of keys can't be negative")
	case n > scriptKeysMax:
		return nil, errorf("ERR the script has %d keys: scripts here can have %d", n, scriptKeysMax)
	}
	x := &scriptProgram{readOnly: c.cmd.flags&flagReadOnly != 0}
	x.program = x
	x.declared = copyStrings(x.oneKey[:0], rest[:n])
	x.argv = copyStrings(x.fewArgs[:0], rest[n:])
	x.keys = distinct(x.declared)
	return x, nil
}

// enterScript executes the call in its turn. From the moment it takes its slot, later commands with its
// keys stay behind it.
func (x *scriptProgram) enterScript(c *call) {
	x.enter(c, turn{words: x.argv, reads: x.readOnly, rounds: true}, true)
}

// start implements starter.
func (x *scriptProgram) start(postponed bool) {
	switch {
	case x.script == nil:
		x.startFetchScript(&x.op, x.sha, completer(x.haveSource))
	case postponed:
		flush(x.onGoroutine(x.begin))
	default:
		flush(x.begin())
	}
}

// cmdSCRIPTLOAD also stores the script on the masters: a client may load it through one redlockd and
// call it through another.
func cmdSCRIPTLOAD(s *session, c *call) error {
	defer withoutCPU(s.conn)()
	script, err := s.compiled(s.account(), string(c.args[2]))
	if err != nil {
		return err
	}
	s.server.share(script, s.account(), s.server.now())
	return c.reply(script.SHA)
}

// cmdSCRIPTEXISTS answers for this redlockd alone. A client that sends the source of a script for a 0
// loses nothing but the bytes.
func cmdSCRIPTEXISTS(s *session, c *call) error {
	c.out = resp.AppendArray(c.out, len(c.args)-2)
	for _, sha := range c.args[2:] {
		known := s.server.scripts.lookupSHA([]byte(strings.ToLower(string(sha)))) != nil
		c.out = resp.AppendInt(c.out, oneIf(known))
	}
	return nil
}

// scriptFlushChannel carries SCRIPT FLUSH to the other redlockds. Clients cannot publish on it, as on
// no channel of redlockd's own.
const scriptFlushChannel = redlock.ReservedPrefix + "script-flush"

// cmdSCRIPTFLUSH forgets at once, whichever option is given: what this redlockd knows, what the masters
// have stored, and what the other redlockds know. Of these, one that no quorum of the masters reaches
// keeps what it knows, as no message is promised: EVALSHA finds it there, and that is all.
func cmdSCRIPTFLUSH(s *session, c *call) error {
	if len(c.args) > 3 || len(c.args) == 3 && !equalFold(c.args[2], "SYNC") && !equalFold(c.args[2], "ASYNC") {
		return errorf("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	}
	s.server.scripts.forgetAll() // also for what the client has sent behind this
	s.server.opts.Engine.FlushScripts(s.account().share, storedTTL)
	f := &operation{then: func(f *operation, _ redlock.Result) { f.out = resp.AppendOK(f.out) }}
	c.takeSlot(&f.slot)
	f.startPublish(&f.op, scriptFlushChannel, "", f)
	return nil
}

// cmdSCRIPTKILL has nothing to kill: runTime ends every run.
func cmdSCRIPTKILL(_ *session, c *call) error {
	return errorf("NOTBUSY No scripts in execution right now.")
}

// compiled is the script of this source. A source that is not known yet is compiled when it is the turn
// of this session of the user, because a stranger's source takes as long as a run.
func (s *session) compiled(u *account, source string) (*knownScript, error) {
	srv := s.server
	if n := len(source); n > sandbox.SourceMax {
		what := "scripts of locks are shorter"
		why := reasonScript
		if scriptAsks(source) {
			what, why = reasonQueue.asks(), reasonQueue
		}
		return nil, refusedf(why, "ERR the script has %d bytes, more than the limit of %d: %s", n, sandbox.SourceMax, what)
	}
	if known := srv.scripts.lookupSHA([]byte(sandbox.SHA(source))); known != nil {
		return known, nil
	}
	srv.shares.acquireRun(u, s.conn.id)
	defer srv.shares.releaseRun()
	known, err := srv.scripts.addSource(source, srv.now())
	if err != nil {
		err = replyError(err.Error()) // in Redis's words, with the code
	}
	return known, err
}
