package redlock

// Traces of the simulation, for testdata/tla/Trace.tla: what masters did to the keys of single locks, what they forgot and when they got their votes back, by
// whose votes proxies decided, and what callers were told. The masters are observed where they execute commands, the callers at the ledger. Of the engine
// a trace has what it sends, and which votes it counts. sim_trace_check_test.go has TLC check them.

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/copying"
	"redlockd/redlock/memmaster"
	"redlockd/redlock/quorum"
)

// traceKind is what has happened. The letters are those of Trace.tla.
type traceKind string

const (
	traceVote     traceKind = "V" // a master has set the key for a token, or made it live on
	traceRelease  traceKind = "R" // a release has deleted it
	traceUndo     traceKind = "U" // an undo has deleted it
	traceTakeover traceKind = "T" // a takeover has put a new token in the place of the old one
	tracePutBack  traceKind = "B" // an undo has put the old one back
	traceForget   traceKind = "F" // a master has forgotten everything
	traceAdmit    traceKind = "A" // it votes under another record than before, or votes no more
	traceMark     traceKind = "M" // a master knows of another fence, and has not voted with that
	traceDecision traceKind = "K" // a proxy has the votes of a quorum
	traceGrant    traceKind = "G" // a caller was told that it holds the lock
	traceGiveUp   traceKind = "O" // a caller believes in it no more
	traceLoss     traceKind = "L" // so it is, too, and it may lock with its token again
	traceGone     traceKind = "N" // the token is not in the trace any more
	traceCopy     traceKind = "C" // a copy has given a master without a vote the key of a token
	traceCleared  traceKind = "D" // a copy has deleted it there
	traceStrange  traceKind = "X" // the key has changed, and nobody knows why
)

// traceEvent is one event. The others of its fields are of those kinds that have them.
type traceEvent struct {
	kind          traceKind
	at            time.Duration // since the world began
	key, token    string        // "": a traceForget or traceAdmit, which all keys share
	master, proxy int           // from 1
	clock, ends   int64         // the master's clock and the end of the key by it, in ms since the world began
	ttl           int64         // in ms
	from          string        // of a traceTakeover or tracePutBack: the token that the key held before
	until         time.Duration
	what          string        // of a traceStrange
	record        int           // of a traceAdmit; 0: it has no vote. Of a traceDecision: the votes are of its masters
	shown         string        // of a traceVote: what the master showed of the membership
	counts        bool          // of a traceVote: the batch has ended with the master showing the same
	reader        bool          // what a caller is told, or does, is about a lock that it has as a reader
	among         int           // of a traceVote: at how many slots of a semaphore the master has looked; 0: it is no LOCK of a slot
	fence         int64         // 0: none. In a trace its number
	start         time.Duration // of a traceDecision: when the round began
	by            []int         // of a traceDecision: whose votes it counts
	number, was   int           // in a trace: those of token and from
}

// traceRecorder records the events of one world. All its methods do nothing when it is nil.
type traceRecorder struct {
	w *world

	mu      sync.Mutex
	ended   bool
	events  []traceEvent
	copied  map[string]bool  // the memories to which somebody has begun to copy
	proxies map[net.Conn]int // whose connection it is, from 1
	masters []tracedMaster
	records tracedRecords
	members []memberEvent
	// chosen are the tokens that callers have chosen.
	chosen map[string]bool
	// unclosed are the votes of the batches whose trailers have not been executed.
	unclosed map[net.Conn][]int
	shared   *sharedRecorder // nil: the world has no readers
}

// tracedMaster is what the recorder knows of a master: what it showed behind the last command.
type tracedMaster struct {
	runID string
	v     string // of the membership
	shown memberShown
	under int
	keys  map[string]tracedKey
	marks map[string]int64
}

type tracedKey struct {
	token string
	ends  int64
}

// traceFrom has the recorder observe the masters of a world that has just begun.
func traceFrom(w *world) *traceRecorder {
	r := &traceRecorder{w: w, copied: map[string]bool{}, proxies: map[net.Conn]int{}, records: tracedRecords{number: map[string]int{}, masterOf: map[string]int{}}, chosen: map[string]bool{}, unclosed: map[net.Conn][]int{}}
	for i, m := range w.masters {
		r.masters = append(r.masters, tracedMaster{keys: map[string]tracedKey{}, marks: map[string]int64{}})
		m.SetObserver(func(e *memmaster.Executed) { r.executed(i, e) })
	}
	return r
}

// opened has the recorder observe by whose votes a proxy decides.
func (r *traceRecorder) opened(p *incarnation) {
	if r != nil {
		p.onQuorum = func(d *round, v quorum.Votes) { r.decided(p, d, v) }
	}
}

// decided: the votes of a quorum are yes.
func (r *traceRecorder) decided(p *incarnation, d *round, v quorum.Votes) {
	switch d.verb {
	case verbSet, verbAcquire, verbSlot, verbJoin, verbReserve, verbExtend, verbCommitReplace:
	default:
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.dead.Load() {
		return
	}
	e := traceEvent{kind: traceDecision, proxy: p.id + 1, token: d.token, start: d.start.Sub(r.w.began), fence: d.fence}
	if record := d.view.record; record != nil { // else no vote counts
		e.record = r.records.number[record.Digest]
		counted := v.Where(d.view.Places, 1<<quorum.Granted|1<<quorum.AlreadyMine|1<<quorum.AsReader)
		for _, s := range record.Seats {
			if counted.Has(s.Number) {
				e.by = append(e.by, r.records.masterOf[s.Memory])
			}
		}
	}
	for _, e.key = range d.keys {
		r.addLocked(e)
		r.shared.decided(r, d, v, &e)
	}
}

// dialed notes which proxy a connection belongs to.
func (r *traceRecorder) dialed(conn net.Conn, p *incarnation) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.proxies[conn] = p.id + 1
	}
}

// granted: a caller was told that it holds a lock.
func (r *traceRecorder) granted(p *incarnation, resources []string, shared bool, result Result) {
	r.caller(traceEvent{kind: traceGrant, token: result.Token, fence: result.Fence, reader: shared}, p, resources, result.Until)
}

// believes: a caller was told that it holds a lock until then. What is over already is nothing to believe in.
func (r *traceRecorder) believes(p *incarnation, l *ledgerLease, until time.Time) {
	r.caller(traceEvent{kind: traceGrant, token: l.token, reader: l.shared}, p, l.resources, until)
}

// gaveUp: a caller sends UNLOCK, or has another token now.
func (r *traceRecorder) gaveUp(l *ledgerLease) {
	if r != nil {
		r.caller(traceEvent{kind: traceGiveUp, token: l.token, reader: l.shared}, nil, l.resources, r.w.began)
	}
}

// lost: a caller was told that it has lost the lock. A token that it has chosen it may lock with again; a proxy's serves no more.
func (r *traceRecorder) lost(l *ledgerLease) {
	if r == nil {
		return
	}
	r.mu.Lock()
	chosen := r.chosen[l.token]
	r.mu.Unlock()
	if !chosen {
		r.gaveUp(l)
		return
	}
	r.caller(traceEvent{kind: traceLoss, token: l.token, reader: l.shared}, nil, l.resources, r.w.began)
}

func (r *traceRecorder) caller(e traceEvent, p *incarnation, resources []string, until time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.until = until.Sub(r.w.began); p != nil {
		e.proxy = p.id + 1
	}
	for _, e.key = range resources {
		r.addLocked(e)
		r.shared.caller(r, &e)
	}
}

// choose notes that a token is a caller's.
func (r *traceRecorder) choose(token string) {
	if r != nil && token != "" {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.chosen[token] = true
	}
}

// end stops recording.
func (r *traceRecorder) end() {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended = true
	}
}

func (r *traceRecorder) addLocked(e traceEvent) {
	if !r.ended {
		e.at = time.Since(r.w.began)
		r.events = append(r.events, e)
	}
}

// executed observes one command of a master.
func (r *traceRecorder) executed(i int, e *memmaster.Executed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.membershipLocked(i, e)
	clock := e.UnixMilli - r.w.began.UnixMilli()
	r.shared.executed(r, i, e, clock)
	changes := readTraced(e, func(key string) string { return r.masters[i].keys[key].token })
	for _, key := range tracedKeys {
		r.keyLocked(i, key, changes[key], clock, e)
		r.markLocked(i, key, e)
	}
}

// markLocked notes that a master knows of another fence than the one that it has voted with.
func (r *traceRecorder) markLocked(i int, key string, e *memmaster.Executed) {
	text, _, _ := e.Get(lua.FloorKey)
	floor, _ := strconv.ParseInt(text, 10, 64)
	mark, known := max(floor, int64(e.ZScore(lua.MarksKey, key))), r.masters[i].marks
	if mark != known[key] {
		known[key] = mark
		r.addLocked(traceEvent{kind: traceMark, master: i + 1, key: key, fence: mark})
	}
}

// keyLocked notes what has become of a key.
func (r *traceRecorder) keyLocked(i int, key string, change tracedChange, clock int64, e *memmaster.Executed) {
	known := &r.masters[i]
	before, was := known.keys[key]
	token, ends, is := e.Get(key)
	after := tracedKey{token, ends - r.w.began.UnixMilli()}
	event := traceEvent{kind: change.kind, master: i + 1, proxy: r.proxies[e.Conn], key: key, token: change.token, clock: clock, ttl: change.ttl, ends: after.ends, fence: change.fence, among: change.among}
	switch change.kind {
	case traceVote:
		if !is || token != change.token {
			event.kind = traceStrange
		} else if was && before.token != token && before.token == change.from {
			r.addLocked(traceEvent{kind: traceRelease, master: i + 1, key: key, token: before.token})
		}
	case traceCopy:
		if !is || token != change.token || was && before == after {
			event.kind = ""
		}
	case traceCleared:
		if event.token = before.token; is || !was {
			event.kind = ""
		}
	case traceTakeover, tracePutBack:
		event.from = change.from
		if !was || before.token != change.from || !is || token != change.token {
			event.kind = ""
		}
	default:
		if is || !was || before.token != change.token || before.ends <= clock {
			event.kind = ""
		}
	}
	switch {
	case event.kind != "":
	case is == was && (!is || before == after), !is && before.ends <= clock: // the same, or it has run out
		return
	default:
		event.kind = traceStrange
	}
	if event.kind == traceStrange {
		event.token, event.what = token, fmt.Sprintf("%q: %+v becomes %+v", e.Args, before, after)
	}
	if is {
		known.keys[key] = after
	} else {
		delete(known.keys, key)
	}
	if (event.kind == traceVote || event.kind == traceTakeover) && !r.ended {
		event.shown = known.v
		if change.fence > 0 {
			known.marks[key] = change.fence
		}
		r.unclosed[e.Conn] = append(r.unclosed[e.Conn], len(r.events))
	}
	r.addLocked(event)
}

// membershipLocked notes what a master shows of the membership, that it has forgotten everything, and under which record it votes.
func (r *traceRecorder) membershipLocked(i int, e *memmaster.Executed) {
	known := &r.masters[i]
	v := e.HGet(lua.MembersKey, "v")
	flushed := strings.EqualFold(string(e.Args[0]), "flushall")
	if v == "" && (known.v != "" || known.runID != e.RunID) || flushed {
		known.keys, known.marks, known.under = map[string]tracedKey{}, map[string]int64{}, 0
		r.addLocked(traceEvent{kind: traceForget, master: i + 1})
	}
	known.v, known.runID = v, e.RunID
	if state, ok := member.ParseState(v); ok {
		r.records.masterOf[state.Memory] = i + 1
		if e.HGet(lua.MembersKey, "copy") != "" {
			r.copied[state.Memory] = true
		}
	}
	if shows := r.records.shows(e); shows != known.shown {
		known.shown = shows
		if !r.ended {
			r.members = append(r.members, memberEvent{time.Since(r.w.began), i + 1, shows})
		}
	}
	if under := r.records.under(known.shown); under != known.under {
		known.under = under
		r.addLocked(traceEvent{kind: traceAdmit, master: i + 1, record: under})
	}
	if strings.EqualFold(string(e.Args[0]), "hmget") && string(e.Args[1]) == lua.MembersKey {
		for _, n := range r.unclosed[e.Conn] {
			r.events[n].counts = r.events[n].shown == known.v
		}
		delete(r.unclosed, e.Conn)
	}
}

// tracedChange is what a command that was executed may have done to a key, as far as its reply tells.
type tracedChange struct {
	kind  traceKind
	token string
	ttl   int64
	// from is the token in whose place the new one may have come: that of a reservation, or of a lock that is taken over.
	from  string
	fence int64 // 0: none
	among int   // slots; 0: none
}

// readTraced reads a command and its reply. It returns what was done to each key; nil: nothing. held tells what a key of the master held before.
func readTraced(e *memmaster.Executed, held func(key string) string) map[string]tracedChange {
	args := make([]string, len(e.Args))
	for i, arg := range e.Args {
		args[i] = string(arg)
	}
	reply := string(e.Reply)
	done := strings.HasPrefix(reply, ":1\r") || strings.HasPrefix(reply, ":2\r")
	switch name := strings.ToLower(args[0]); {
	case name == "set" && len(args) > 5 && strings.HasPrefix(reply, "+OK"):
		return tracedVotes(args[1:2], args[2], args[5], "", "0")
	case name == "delex" && len(args) == 4:
		return map[string]tracedChange{args[1]: {kind: traceRelease, token: args[3]}}
	case name == "delifeq" && len(args) == 3:
		return map[string]tracedChange{args[1]: {kind: traceRelease, token: args[2]}}
	case name != "evalsha":
		return nil
	}
	n, _ := strconv.Atoi(args[2])
	keys, argv := args[3:3+n], args[3+n:]
	changes := map[string]tracedChange{}
	switch sha := args[1]; {
	case sha == lua.Acquire.SHA && done:
		if argv[3] != "0" { // the marks and the floor
			keys = keys[:len(keys)-2]
		}
		return tracedVotes(keys, argv[0], argv[1], append(argv, "")[5], argv[3])
	case sha == lua.Extend.SHA && done:
		return tracedVotes(keys, argv[0], argv[1], "", "0")
	case sha == lua.Slot.SHA && done:
		slot, _ := strconv.Atoi(argv[5])
		if argv[3] != "0" { // the marks and the floor
			keys = keys[:len(keys)-2]
		}
		for key, change := range tracedVotes(keys[slot-1:slot], argv[0], argv[1], "", argv[3]) {
			change.among = len(keys)
			changes[key] = change
		}
	case sha == lua.Commit.SHA && done:
		for i, key := range keys {
			if was, do := argv[5*i], argv[5*i+2]; was == "2" && do == "4" { // the others are of drop-in clients
				ttl, _ := strconv.ParseInt(argv[5*i+4], 10, 64)
				changes[key] = tracedChange{kind: traceTakeover, token: argv[5*i+3], from: argv[5*i+1], ttl: ttl}
			}
		}
	case sha == lua.CopyGive.SHA:
		_, done, _ := strings.Cut(strings.TrimSuffix(reply, "\r\n"), "\r\n")
		for i := range done {
			if key, value, left := keys[i+1], argv[4*i+3], argv[4*i+4]; done[i] == '1' && left != "0" {
				changes[key] = tracedChange{kind: traceCopy, token: value}
			} else if done[i] == '1' {
				changes[key] = tracedChange{kind: traceCleared}
			}
		}
	case sha == lua.Undo.SHA:
		for i, key := range keys {
			if argv[4*i+2] == strconv.Itoa(undoPutBack) {
				changes[key] = tracedChange{kind: tracePutBack, token: argv[4*i+3], from: argv[4*i]}
			} else {
				changes[key] = tracedChange{kind: traceUndo, token: argv[4*i]}
			}
		}
	case sha == lua.Release.SHA:
		for i, key := range keys {
			// A key may be there more than once. Of its tokens the one is meant that is on the master.
			token := argv[min(i+1, len(argv)-1)] // after the time; one may be for all
			if token == held(key) || changes[key].token == "" {
				changes[key] = tracedChange{kind: traceRelease, token: token}
			}
		}
	}
	return changes
}

func tracedVotes(keys []string, token, ttl, from, fence string) map[string]tracedChange {
	ms, _ := strconv.ParseInt(ttl, 10, 64)
	number, _ := strconv.ParseInt(fence, 10, 64)
	changes := map[string]tracedChange{}
	for _, key := range keys {
		changes[key] = tracedChange{kind: traceVote, token: token, ttl: ms, from: from, fence: number}
	}
	return changes
}

// traceOf is the trace of one key, in the notation of Trace.tla. Tokens become numbers, which are used again when a token is gone: own from 1 on,
// those that callers have chosen from 1 on, too, in a set of their own.
func (r *traceRecorder) traceOf(key string) *trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &trace{name: fmt.Sprintf("seed %d (%s), %s", r.w.seed, r.w.profile.name, key)}
	shortest := r.w.maxTTL
	for _, record := range r.records.all {
		shortest = min(shortest, record.Ceiling)
	}
	t.head = fmt.Sprintf("longest |-> %d, records |-> %s", shortest.Milliseconds(), r.records.tla())
	// A token that no master has set, and that nobody was granted, is left out.
	last := map[string]int{}
	for n, e := range r.events {
		if e.key == key {
			last[e.token] = n
			if e.from != "" {
				last[e.from] = n
			}
		}
	}
	granted := map[string]bool{}
	for _, e := range r.events {
		if e.key == key && (e.kind == traceVote || e.kind == traceTakeover || e.kind == traceGrant || e.kind == traceCopy) {
			granted[e.token] = true
		}
	}
	// A token is gone behind its last event, as soon as no master has its key.
	type leaving struct {
		at    time.Duration
		token string
	}
	var leave []leaving
	fences := r.fencesLocked(key)
	number, used := map[string]int{}, map[int]bool{}
	keys := make([]tracedEnd, len(r.masters)) // what the masters have
	until := map[string]time.Duration{}
	for n, e := range r.events {
		for len(leave) > 0 && leave[0].at < e.at {
			gone := number[leave[0].token]
			t.steps = append(t.steps, traceEvent{kind: traceGone, at: leave[0].at, number: gone})
			used[gone] = false
			leave = leave[1:]
		}
		if e.key != "" && (e.key != key || !granted[e.token] && e.kind != traceStrange && e.kind != traceMark) {
			continue
		}
		for _, token := range []string{e.token, e.from} {
			if token == "" || number[token] != 0 {
				continue
			}
			first, most := 1, &t.own
			if r.chosen[token] {
				first, most = callersFrom+1, &t.callers
			}
			i := first
			for used[i] {
				i++
			}
			number[token], used[i] = i, true
			*most = max(*most, i-first+1)
		}
		e.number, e.was = number[e.token], number[e.from]
		fence, _ := slices.BinarySearch(fences, e.fence)
		e.fence = int64(fence)
		t.steps = append(t.steps, e)
		switch e.kind {
		case tracePutBack:
			keys[e.master-1].token = e.token
		case traceVote, traceTakeover, traceCopy:
			left := time.Duration(e.ends-e.clock) * time.Millisecond
			keys[e.master-1] = tracedEnd{e.token, e.at + left + left/50 + 2*time.Millisecond} // no clock of a traced world is slower
		case traceRelease, traceUndo, traceForget, traceCleared:
			keys[e.master-1] = tracedEnd{}
		case traceGrant:
			until[e.token] = max(until[e.token], e.until)
		case traceGiveUp, traceLoss:
			until[e.token] = 0
		}
		for _, token := range []string{e.token, e.from} {
			if token == "" || last[token] != n {
				continue
			}
			at := max(e.at, until[token])
			for _, k := range keys {
				if k.token == token {
					at = max(at, k.at)
				}
			}
			leave = append(leave, leaving{at, token})
			slices.SortStableFunc(leave, func(a, b leaving) int { return cmp.Compare(a.at, b.at) })
		}
	}
	t.events = inTLA(t.steps)
	return t
}

// fencesLocked are the fences of a key, 0 in front. In its trace they have the numbers of their places here.
func (r *traceRecorder) fencesLocked(key string) []int64 {
	fences := []int64{0}
	for _, e := range r.events {
		if e.key == key {
			fences = append(fences, e.fence)
		}
	}
	slices.Sort(fences)
	return slices.Compact(fences)
}

// tracedEnd is a key on a master, and when it has ended at the latest.
type tracedEnd struct {
	token string
	at    time.Duration
}

// callersFrom is the number before that of the first token that a caller has chosen.
const callersFrom = 1000

func inTLA(steps []traceEvent) (events []string) {
	for i := range steps {
		events = append(events, steps[i].tla())
	}
	return events
}

// tla is the event in the notation of Trace.tla.
func (e *traceEvent) tla() string {
	is := func(condition bool) int {
		if condition {
			return 1
		}
		return 0
	}
	var values []any
	switch e.kind {
	case traceVote:
		values = []any{e.master, e.proxy, e.number, e.clock, e.ttl, e.ends, is(e.counts), e.fence}
	case traceTakeover:
		values = []any{e.master, e.proxy, e.number, e.clock, e.ttl, e.ends, is(e.counts), e.fence, e.was}
	case tracePutBack:
		values = []any{e.master, e.proxy, e.number, e.was}
	case traceCopy:
		values = []any{e.master, e.number, e.ends, is(strings.HasPrefix(e.token, copying.RecoveredPrefix))}
	case traceRelease, traceCleared:
		values = []any{e.master, e.number}
	case traceUndo:
		values = []any{e.master, e.proxy, e.number}
	case traceForget:
		values = []any{e.master}
	case traceAdmit:
		values = []any{e.master, e.record}
	case traceMark:
		values = []any{e.master, e.fence}
	case traceDecision:
		values = []any{e.proxy, e.number, e.start.Microseconds(), e.record, e.fence, "{" + joined(e.by) + "}"}
	case traceGrant:
		values = []any{e.proxy, e.number, e.until.Microseconds(), e.fence}
	case traceGiveUp, traceLoss, traceGone:
		values = []any{e.number}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<<"%s",%d`, e.kind, e.at.Microseconds())
	for _, value := range values {
		fmt.Fprintf(&b, ",%v", value)
	}
	return b.String() + ">>"
}

// trace is what has happened to one key, or to the membership.
type trace struct {
	name         string
	head         string       // what the module needs besides the events
	steps        []traceEvent // of one key
	events       []string     // the same in the notation of the module
	changes      []traceChange
	own, callers int // the most tokens at one time
}

// traceChange is a change of a trace: in the place of so many events from one on there are others.
type traceChange struct {
	kind     string
	at, drop int
	with     []string
	accepted bool // by the model
}

// tla is the change in the notation of Replay.tla.
func (c *traceChange) tla() string {
	return fmt.Sprintf("[at |-> %d, drop |-> %d, events |-> <<%s>>]", c.at+1, c.drop, strings.Join(c.with, ", "))
}

// tracedKeys are the keys of locks in a traced world.
var tracedKeys = append(slices.Clone(simResources), slotNames(simSemaphore, simSlots)...)

// tracesTLA is the module that Trace.tla and RecordTrace.tla read.
func tracesTLA(traces []*trace) string {
	var b strings.Builder
	own, callers := 1, 1
	b.WriteString("---- MODULE Traces ----\nEXTENDS Integers\n")
	for i, t := range traces {
		own, callers = max(own, t.own), max(callers, t.callers)
		var changes []string
		for i := range t.changes {
			changes = append(changes, t.changes[i].tla())
		}
		fmt.Fprintf(&b, "\\* %s\nT%d == [%s, events |-> <<\n%s>>,\n  changes |-> <<%s>>]\n", t.name, i+1, t.head, strings.Join(t.events, ",\n"), strings.Join(changes, ",\n"))
	}
	names := make([]string, len(traces))
	for i := range names {
		names[i] = fmt.Sprintf("T%d", i+1)
	}
	fmt.Fprintf(&b, "Traces == <<%s>>\nOwnTokens == 1..%d\nCallersTokens == %d..%d\n====\n", strings.Join(names, ", "), own, callersFrom+1, callersFrom+callers)
	return b.String()
}
