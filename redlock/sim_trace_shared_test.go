package redlock

// Traces of locks with readers, for testdata/tla/SharedTrace.tla: what each command made of a master's key, a writer's token or a set of readers, and the decisions and
// the callers as in traces of locks (sim_trace_test.go), with the mode. A world with readers is traced for these alone.

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/memmaster"
	"redlockd/redlock/quorum"
)

// sharedKey is what a master holds. Moments are by its clock, in ms since the world began.
type sharedKey struct {
	writer  string
	readers map[string]int64 // when each ends
	intent  int64            // 0: there is none
	ends    int64            // the key itself
}

// sharedEvent is one event. Its kinds are those of SharedTrace.tla.
type sharedEvent struct {
	kind          string
	at            time.Duration
	key           string
	master, proxy int
	clock, ttl    int64
	tokens        []string
	from          string // of a takeover and what turns it back: the token that goes
	free          bool   // of a reader that joins: it was one before, and an intent does not keep it out
	counts        bool   // of a vote
	after         sharedKey
	reader        bool
	start, until  time.Duration
	by            []int
	quorum        int
}

// sharedRecorder records them. traceRecorder.mu guards it. Its methods do nothing when it is nil.
type sharedRecorder struct {
	events   []sharedEvent
	masters  []map[string]sharedKey
	unclosed map[net.Conn][]int
	shown    []string // what each master shows of the membership; a vote counts if that is the same behind it
	votes    map[int]string
}

// withReaders has a world that is traced have readers.
func withReaders(w *world) {
	r := &sharedRecorder{unclosed: map[net.Conn][]int{}, votes: map[int]string{}, shown: make([]string, len(w.masters))}
	for range w.masters {
		r.masters = append(r.masters, map[string]sharedKey{})
	}
	w.trace.shared = r
}

// noReaders tells whether a world is traced that has no readers.
func (r *traceRecorder) noReaders() bool { return r != nil && r.shared == nil }

func (s *sharedRecorder) add(r *traceRecorder, e sharedEvent) {
	if !r.ended {
		e.at = time.Since(r.w.began)
		s.events = append(s.events, e)
	}
}

// decided: the votes of a quorum are yes. Those of a round that extends say in which mode they found the token.
func (s *sharedRecorder) decided(r *traceRecorder, d *round, v quorum.Votes, e *traceEvent) {
	if s == nil || d.view.record == nil {
		return
	}
	k := sharedEvent{kind: "K", key: e.key, proxy: e.proxy, tokens: []string{e.token}, start: e.start, by: e.by, quorum: d.view.record.Quorum(), reader: d.ofReader()}
	if readers := v.Where(d.view.Places, 1<<quorum.AsReader); readers.Count() >= k.quorum {
		k.reader, k.by = true, nil
		for _, s := range d.view.record.Seats {
			if readers.Has(s.Number) {
				k.by = append(k.by, r.records.masterOf[s.Memory])
			}
		}
	}
	s.add(r, k)
}

func (s *sharedRecorder) caller(r *traceRecorder, e *traceEvent) {
	if s == nil {
		return
	}
	s.add(r, sharedEvent{kind: string(e.kind), key: e.key, proxy: e.proxy, tokens: []string{e.token}, until: e.until, reader: e.reader})
}

// keyOf is what a master holds now. What has ended is left out.
func (r *traceRecorder) keyOf(e *memmaster.Executed, key string, clock int64) (k sharedKey) {
	began := r.w.began.UnixMilli()
	value, ends, ok := e.Get(key)
	if ok && ends-began > clock {
		return sharedKey{writer: value, ends: ends - began}
	}
	scores, ends := e.ZSet(key)
	if ok || ends-began <= clock {
		return k
	}
	k = sharedKey{ends: ends - began, readers: map[string]int64{}}
	for member, score := range scores {
		at := k.ends - int64(scores["redlockd:end"]-score)
		token, is := strings.CutPrefix(member, readerPrefix)
		switch {
		case at <= clock:
		case is:
			k.readers[token] = at
		case member == "writer":
			k.intent = at
		}
	}
	return k
}

func (k *sharedKey) same(o *sharedKey) bool {
	return k.writer == o.writer && k.intent == o.intent && k.ends == o.ends && maps.Equal(k.readers, o.readers)
}

// executed notes what a command has made of the keys.
func (s *sharedRecorder) executed(r *traceRecorder, i int, e *memmaster.Executed, clock int64) {
	if s == nil {
		return
	}
	v := e.HGet(lua.MembersKey, "v")
	if v == "" && s.shown[i] != "" || strings.EqualFold(string(e.Args[0]), "flushall") {
		s.masters[i] = map[string]sharedKey{}
		for _, key := range simResources {
			s.add(r, sharedEvent{kind: "F", key: key, master: i + 1})
		}
	}
	s.shown[i] = v
	if strings.EqualFold(string(e.Args[0]), "hmget") && string(e.Args[1]) == lua.MembersKey {
		for _, n := range s.unclosed[e.Conn] {
			s.events[n].counts = s.votes[n] == v
		}
		delete(s.unclosed, e.Conn)
	}
	did := readShared(e)
	for _, key := range simResources {
		before := s.masters[i][key]
		event, is := did[key]
		after := r.keyOf(e, key, clock)
		if before.same(&after) && !is {
			continue
		}
		s.masters[i][key] = after
		if !is && (after.writer == "" || after.writer == before.writer && after.ends == before.ends) && after.intent == before.intent && sharedOnlyEnded(&before, &after, clock) {
			continue // something has run out
		}
		if !is {
			event.kind, event.from = "X", fmt.Sprintf("%q", e.Args)
		}
		event.key, event.master, event.proxy, event.clock, event.after = key, i+1, r.proxies[e.Conn], clock, after
		if !r.ended && strings.Contains("J W E T", event.kind) {
			s.votes[len(s.events)] = v
			s.unclosed[e.Conn] = append(s.unclosed[e.Conn], len(s.events))
		}
		s.add(r, event)
	}
}

// sharedOnlyEnded tells whether after is before, less what has ended by then.
func sharedOnlyEnded(before, after *sharedKey, clock int64) bool {
	for token, ends := range before.readers {
		if ends > clock && after.readers[token] != ends {
			return false
		}
	}
	return len(after.readers) <= len(before.readers) && (before.writer == "" || before.writer == after.writer || before.ends <= clock) && (before.intent <= clock || after.intent == before.intent)
}

// readShared reads a command and its reply. It returns what was done to each key.
func readShared(e *memmaster.Executed) map[string]sharedEvent {
	args := make([]string, len(e.Args))
	for i, arg := range e.Args {
		args[i] = string(arg)
	}
	reply := strings.TrimSuffix(string(e.Reply), "\r\n")
	did := map[string]sharedEvent{}
	number := func(text string) int64 { n, _ := strconv.ParseInt(text, 10, 64); return n }
	switch name := strings.ToLower(args[0]); {
	case name == "set" && len(args) > 5 && reply == "+OK":
		did[args[1]] = sharedEvent{kind: "W", tokens: args[2:3], ttl: number(args[5])}
	case name == "delex" && len(args) == 4 && reply == ":1":
		did[args[1]] = sharedEvent{kind: "R", tokens: args[3:4]}
	case name == "delifeq" && len(args) == 3 && reply == ":1":
		did[args[1]] = sharedEvent{kind: "R", tokens: args[2:3]}
	}
	if !strings.EqualFold(args[0], "evalsha") {
		return did
	}
	n, _ := strconv.Atoi(args[2])
	keys, argv := args[3:3+n], args[3+n:]
	done := reply == ":1" || reply == ":2" || reply == ":3"
	switch sha := args[1]; {
	case sha == lua.Join.SHA:
		replies := strings.Split(reply, "\r\n")
		if strings.HasPrefix(reply, "*") {
			replies = replies[1:]
		}
		var joins sharedEvent
		for i := 0; i < len(argv); i += 4 {
			if vote := replies[i/4]; vote == ":1" || vote == ":2" {
				joins.kind, joins.ttl = "J", number(argv[i+1])
				joins.tokens = append(joins.tokens, argv[i])
				joins.free = joins.free || argv[i+3] == "1"
			}
		}
		if joins.kind != "" {
			did[keys[0]] = joins
		}
	case sha == lua.Acquire.SHA && done:
		if argv[3] != "0" {
			keys = keys[:len(keys)-2]
		}
		for _, key := range keys {
			did[key] = sharedEvent{kind: "W", tokens: argv[:1], ttl: number(argv[1]), from: append(argv, "")[5]}
		}
	case sha == lua.Extend.SHA && done:
		for _, key := range keys {
			did[key] = sharedEvent{kind: "E", tokens: argv[:1], ttl: number(argv[1])}
		}
	case sha == lua.Commit.SHA && done:
		for i, key := range keys {
			if argv[5*i] == "2" && argv[5*i+2] == "4" {
				did[key] = sharedEvent{kind: "T", tokens: []string{argv[5*i+3]}, from: argv[5*i+1], ttl: number(argv[5*i+4])}
			}
		}
	case sha == lua.Release.SHA:
		for i, key := range keys {
			release := did[key]
			release.kind = "R"
			release.tokens = append(release.tokens, argv[min(i+1, len(argv)-1)])
			did[key] = release
		}
	case sha == lua.Undo.SHA && reply != ":0":
		for i, key := range keys {
			if argv[4*i+2] == strconv.Itoa(undoPutBack) {
				did[key] = sharedEvent{kind: "B", tokens: []string{argv[4*i+3]}, from: argv[4*i]}
			} else {
				undo := did[key]
				undo.kind, undo.tokens = "U", append(undo.tokens, argv[4*i])
				did[key] = undo
			}
		}
	case sha == lua.Announce.SHA:
		did[keys[0]] = sharedEvent{kind: "A", ttl: number(argv[0])}
	case sha == lua.Withdraw.SHA:
		did[keys[0]] = sharedEvent{kind: "I"}
	case sha == lua.CopyGive.SHA, sha == lua.CopyReaders.SHA:
		for _, key := range keys[1:] {
			did[key] = sharedEvent{kind: "C"}
		}
	}
	return did
}

// sharedTraces are the traces of the resources, in the notation of SharedTrace.tla. Tokens are numbers, from 1.
func (r *traceRecorder) sharedTraces() (traces []*trace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range simResources {
		t := &trace{name: fmt.Sprintf("seed %d (%s), %s with readers", r.w.seed, r.w.profile.name, key), head: "slack |-> " + strconv.Itoa(endSlackMs+1)}
		tokens := numbering{}
		for i := range r.shared.events {
			if e := &r.shared.events[i]; e.key == key {
				t.events = append(t.events, e.tla(tokens))
				t.steps = append(t.steps, traceEvent{what: e.from})
			}
		}
		traces = append(traces, t)
	}
	return traces
}

func (e *sharedEvent) tla(tokens numbering) string {
	var numbers []int
	for _, token := range e.tokens {
		numbers = append(numbers, tokens.of(token))
	}
	slices.Sort(numbers)
	list, flag := "{"+joined(slices.Compact(numbers))+"}", func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	var values []any
	switch e.kind {
	case "K":
		values = []any{e.proxy, numbers[0], flag(e.reader), e.start.Microseconds(), "{" + joined(e.by) + "}", e.quorum}
	case "G":
		values = []any{e.proxy, numbers[0], flag(e.reader), e.until.Microseconds()}
	case "O", "L":
		values = []any{numbers[0], flag(e.reader)}
	case "F":
		values = []any{e.master}
	case "J", "W", "E", "T", "B", "R", "U", "A", "I", "C", "X":
		var readers []string
		for _, token := range slices.Sorted(maps.Keys(e.after.readers)) {
			readers = append(readers, fmt.Sprintf("<<%d,%d>>", tokens.of(token), e.after.readers[token]))
		}
		from := 0
		if e.kind != "X" {
			from = tokens.of(e.from)
		}
		values = []any{e.master, e.proxy, list, from, e.clock, e.ttl, flag(e.counts), flag(e.free),
			fmt.Sprintf("[w |-> %d, r |-> {%s}, i |-> %d, e |-> %d]", tokens.of(e.after.writer), strings.Join(readers, ","), e.after.intent, e.after.ends)}
	}
	text := fmt.Sprintf(`<<"%s",%d`, e.kind, e.at.Microseconds())
	for _, value := range values {
		text += fmt.Sprintf(",%v", value)
	}
	return text + ">>"
}
