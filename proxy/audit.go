package proxy

import (
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock"
	"redlockd/redlock/loglimit"
)

// The audit is a list of who did what: one JSON object per line, to Options.Audit. It always has failed
// logins, commands that were refused for want of a permission (NOPERM), UNLOCK … FORCE, and the
// commands that administer the server; with Options.AuditLocks also what becomes of locks. It has no
// tokens, but their digests, as LOCKS shows them.
//
// Invariant: no client waits for the audit. A record is encoded where the event is known, and appended
// to memory; one goroutine writes that out. If the disk is full or slow, records beyond auditPendingMax
// are dropped and counted, and locks are granted as ever.

// audit is the audit of one server.
type audit struct {
	log *slog.Logger
	// on: there is an output. locks: what becomes of locks is recorded, too. Both are what setOutput
	// has set, for those who are about to make a record.
	on, locks atomic.Bool

	mu sync.Mutex
	// parts are what is not written yet, in the order of time: the last is that of the output in force,
	// and has none if nothing is recorded.
	parts []auditPart
	// pending is how many bytes they have, at most auditPendingMax.
	pending int
	// written and dropped count records. A record that a failed write may have cut counts as dropped.
	written, dropped uint64
	closed           bool

	wake chan struct{} // has an element while there is something to do
	done chan struct{} // closed when the goroutine has ended
	// outage limits the lines of the log about records that are dropped.
	outage loglimit.Outage
}

// auditPart is the records for one output.
type auditPart struct {
	out   io.Writer
	lines []byte
	n     uint64 // how many these are
}

const (
	// auditPendingMax bounds the records that wait to be written, in bytes.
	auditPendingMax = 4 << 20
	// auditFlushMax bounds how long the end of a server waits for the last records to be written.
	auditFlushMax = 2 * time.Second
	// auditTextMax bounds each text in a record but the names of resources, in bytes.
	auditTextMax = 256
	// auditBurst and auditInterval bound the refusals of one connection that are recorded: so many at
	// once, then one per interval. The next record says how many were left out.
	auditBurst    = 20
	auditInterval = 100 * time.Millisecond
)

// newAudit starts an audit. It records nothing if out is nil.
func newAudit(out io.Writer, locks bool, log *slog.Logger) *audit {
	a := &audit{log: log, parts: make([]auditPart, 1), wake: make(chan struct{}, 1), done: make(chan struct{})}
	a.setOutput(out, locks)
	go a.run()
	return a
}

// setOutput has what is recorded from now on written to out; nil: nothing is recorded. Everything
// before still goes to the output before, which is closed then if it can be. If that one hangs, the new
// one waits for it.
func (a *audit) setOutput(out io.Writer, locks bool) {
	a.mu.Lock()
	if last := a.parts[len(a.parts)-1]; last.out != out {
		if last.out == nil {
			a.parts[len(a.parts)-1].out = out // nothing was recorded
		} else {
			a.parts = append(a.parts, auditPart{out: out})
		}
	}
	a.on.Store(out != nil)
	a.locks.Store(out != nil && locks)
	a.mu.Unlock()
	a.wakeUp()
}

func (a *audit) wakeUp() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// auditRecord is one line. config.toml describes the fields.
type auditRecord struct {
	Time      string   `json:"time"`
	User      string   `json:"user"`
	Addr      string   `json:"addr"`
	Client    int64    `json:"client"`
	Name      string   `json:"name,omitempty"`
	Command   string   `json:"command"`
	Arguments []string `json:"arguments,omitempty"`
	Resources []string `json:"resources,omitempty"`
	Outcome   string   `json:"outcome"`
	Error     string   `json:"error,omitempty"`
	Tokens    []string `json:"tokens,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	More      int64    `json:"more_since_last,omitempty"`
}

// add records an event. It does not block.
func (a *audit) add(r *auditRecord) {
	r.Time = time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	line, err := json.Marshal(r)
	if err != nil { // no text is none that JSON cannot have
		return
	}
	line = PrintableJSON(line)
	a.mu.Lock()
	last := &a.parts[len(a.parts)-1]
	if last.out == nil { // since the caller has looked
		a.mu.Unlock()
		return
	}
	if a.pending+len(line)+1 > auditPendingMax || a.closed {
		a.dropped++
		a.mu.Unlock()
		a.logDropped("more records wait than can be written")
		return
	}
	last.lines = append(append(last.lines, line...), '\n')
	last.n++
	a.pending += len(line) + 1
	a.mu.Unlock()
	a.wakeUp()
}

// run writes what is pending, until close.
func (a *audit) run() {
	defer close(a.done)
	var spare []byte
	torn := false // the last write may have ended in the middle of a line
	for range a.wake {
		a.mu.Lock()
		parts, closed := a.parts, a.closed
		a.parts, a.pending = []auditPart{{out: parts[len(parts)-1].out, lines: spare[:0]}}, 0
		a.mu.Unlock()
		for i := range parts {
			p := &parts[i]
			if len(p.lines) > 0 {
				torn = a.write(p, torn)
			}
			if i == len(parts)-1 {
				spare = p.lines
			} else {
				torn = false
				if c, ok := p.out.(io.Closer); ok {
					c.Close()
				}
			}
		}
		if closed {
			return
		}
	}
}

// write writes a part and counts it. It returns whether the output may end in the middle of a line now;
// torn: it did so before.
func (a *audit) write(p *auditPart, torn bool) bool {
	lines := p.lines
	if torn {
		lines = append([]byte{'\n'}, lines...)
	}
	n, err := p.out.Write(lines)
	a.mu.Lock()
	if err == nil {
		a.written += p.n
	} else {
		a.dropped += p.n
	}
	a.mu.Unlock()
	if err != nil {
		a.logDropped(err.Error())
	} else if a.outage.Works() {
		_, dropped := a.counts()
		a.log.Info("records of the audit are written again", "dropped", dropped)
	}
	return err != nil && (torn && n == 0 || n > 0 && lines[n-1] != '\n')
}

func (a *audit) logDropped(why string) {
	if a.outage.Fails(time.Now()) {
		_, dropped := a.counts()
		a.log.Warn("records of the audit are dropped", "reason", why, "dropped", dropped,
			"to_do", "see that the disk of audit.file is not full and fast enough; locks are not affected")
	}
}

// counts is how many records were written and dropped since the start.
func (a *audit) counts() (written, dropped uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.written, a.dropped
}

// close has what is pending written, and ends the audit. It waits for that, but not for a disk that
// hangs.
func (a *audit) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.wakeUp()
	select {
	case <-a.done:
	case <-time.After(auditFlushMax):
		a.logDropped("they were not written in time at the end")
	}
}

// auditRecord is a record of this client. user is whose command it is.
func (s *session) auditRecord(user *access.User, command string) *auditRecord {
	r := &auditRecord{User: defaultUser, Addr: s.conn.addr, Client: s.conn.id, Command: command}
	if user != nil {
		r.User = user.Name
	} else if len(s.server.live().Users) > 0 {
		r.User = "" // nobody has logged in
	}
	s.conn.mu.Lock()
	r.Name = clipped(s.name, auditTextMax)
	s.conn.mu.Unlock()
	return r
}

// auditLogin records a login that failed. The password is not in it.
func (s *session) auditLogin(name []byte, command string) {
	if a := s.server.audit; a.on.Load() {
		r := s.auditRecord(nil, command)
		r.User, r.Outcome = clipped(name, failedLoginName), "WRONGPASS"
		a.add(r)
	}
}

// auditRefusal records an error if it is the refusal of a permission. args are those of the command,
// nil where they are not known any more.
func (s *session) auditRefusal(user *access.User, cmd *command, args [][]byte, err error) {
	a := s.server.audit
	if !a.on.Load() || cmd == nil {
		return
	}
	text := string(replyErrorOf(err))
	if !strings.HasPrefix(text, "NOPERM ") {
		return
	}
	more, ok := s.refusalsAudited().Allow(time.Now())
	if !ok {
		return
	}
	r := s.auditRecord(user, cmd.fullName())
	r.Outcome, r.Error, r.More = "NOPERM", clipped(text[len("NOPERM "):], auditTextMax), more
	if cmd.keys != (keySpec{}) && args != nil {
		keys, step, _ := cmd.keys.find(args)
		for i := 0; i < len(keys) && len(r.Resources) < redlock.MaxResources; i += step {
			r.Resources = append(r.Resources, string(keys[i][:min(len(keys[i]), redlock.MaxResourceLen)]))
		}
	}
	a.add(r)
}

// refusalsAudited limits the refusals of this client that are recorded.
func (s *session) refusalsAudited() *loglimit.Limiter {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.audited == nil {
		s.audited = &loglimit.Limiter{Interval: auditInterval, Burst: auditBurst}
	}
	return s.audited
}

// notAudited are the commands for administrators that only look.
var notAudited = map[string]bool{"client|list": true, "client|no-evict": true, "config|get": true}

// auditAdmin records a command that administers the server. reply is its answer.
func (s *session) auditAdmin(c *call, reply []byte) {
	a := s.server.audit
	if !a.on.Load() || notAudited[c.cmd.fullName()] {
		return
	}
	r := s.auditRecord(s.user(), c.cmd.fullName())
	r.Outcome = "done"
	if isError(reply) {
		text := strings.TrimRight(string(reply[1:min(len(reply), auditTextMax)]), "\r\n")
		r.Outcome, r.Error, _ = strings.Cut(text, " ")
	}
	step := 1
	if c.cmd.fullName() == "config|set" { // the values may be secrets
		step = 2
	}
	for i := 2; i < len(c.args) && len(r.Arguments) < 16; i += step {
		r.Arguments = append(r.Arguments, clipped(c.args[i], 64))
	}
	a.add(r)
}

// setOutcome says what is known: yes, no, or the code of the error.
func (r *auditRecord) setOutcome(result redlock.Result, yes, no string) {
	switch {
	case result.Err != nil:
		text := string(replyErrorOf(result.Err))
		r.Outcome, r.Error, _ = strings.Cut(text[:min(len(text), auditTextMax)], " ")
	case result.Held:
		r.Outcome = yes
	default:
		r.Outcome = no
	}
}

// auditLock records what became of a lock, if that is asked for. token is the one that holds it, or was
// to hold it; empty: it is not known.
func (sl *slot) auditLock(result redlock.Result, yes, no string, resources []string, token string) {
	a := sl.s.server.audit
	if !a.locks.Load() {
		return
	}
	r := sl.s.auditRecord(sl.account.user(), sl.cmd.fullName())
	r.Resources = resources
	if token != "" {
		r.Tokens = []string{redlock.TokenDigest(sl.s.server.opts.Engine, token)}
	}
	r.setOutcome(result, yes, no)
	a.add(r)
}

// auditChanges records what a command of a library or a script has changed.
func (sl *slot) auditChanges(changes []redlock.Change) {
	a := sl.s.server.audit
	if !a.locks.Load() {
		return
	}
	r := sl.s.auditRecord(sl.account.user(), sl.cmd.fullName())
	for i := range changes {
		if ch := &changes[i]; ch.Do != redlock.Keep {
			r.Resources = append(r.Resources, ch.Resource)
		}
	}
	if r.Outcome = "changed"; len(r.Resources) > 0 {
		a.add(r)
	}
}
