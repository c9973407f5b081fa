package redlock

// Traces of the membership, for testdata/tla/RecordTrace.tla: what each master shows in the hash redlockd:members, whenever a command has changed that. From the
// same, traces of locks have under which record each master votes.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/memmaster"
)

// memberShown is what a master shows of the membership. Records are named by their digests.
type memberShown struct {
	memory          string
	record          string // settled
	ballot, child   string // accepted
	promised        string
	runID, unparsed string // of the process; and the field v, if it is not what redlockd writes
}

// memberEvent is a change of that.
type memberEvent struct {
	at     time.Duration
	master int // from 1
	shows  memberShown
}

// tracedRecords are the records that masters have shown.
type tracedRecords struct {
	all    []*member.Record // in the order in which they were shown first
	number map[string]int
	// masterOf tells at which master, from 1, a memory is.
	masterOf map[string]int
}

// add takes in the text of a record.
func (t *tracedRecords) add(text string) {
	if r, err := member.ParseRecord(text); err == nil && t.number[r.Digest] == 0 {
		t.all = append(t.all, r)
		t.number[r.Digest] = len(t.all)
	}
}

// shows reads what a master shows behind a command.
func (t *tracedRecords) shows(e *memmaster.Executed) (s memberShown) {
	v := e.HGet(lua.MembersKey, "v")
	state, ok := member.ParseState(v)
	switch {
	case v == "":
		return s
	case !ok:
		return memberShown{unparsed: v}
	}
	s = memberShown{memory: state.Memory, record: state.Record.Digest, ballot: state.Ballot, child: state.Child, promised: e.HGet(lua.MembersKey, "p"), runID: e.RunID}
	if s.record != "" && t.number[s.record] == 0 {
		t.add(e.HGet(lua.MembersKey, "r"))
	}
	if s.child != "" && t.number[s.child] == 0 {
		t.add(e.HGet(lua.MembersKey, "a"))
	}
	return s
}

// under is the number of the record under which who shows this has a vote; 0: it has none.
func (t *tracedRecords) under(s memberShown) int {
	number := t.number[s.record]
	if number == 0 || s.child != "" || !strings.HasPrefix(s.memory, s.runID+":") {
		return 0
	}
	if seat := t.all[number-1].Lists(s.memory); seat == nil || seat.State != member.Voter || seat.Name == "theirs" { // of another fleet (sim_trust_test.go)
		return 0
	}
	return number
}

// tla is what traces of locks need of the records.
func (t *tracedRecords) tla() string {
	var list []string
	for _, r := range t.all {
		var masters []string
		for _, s := range r.Seats {
			if at := t.masterOf[s.Memory]; at != 0 {
				masters = append(masters, strconv.Itoa(at))
			}
		}
		list = append(list, fmt.Sprintf("[quorum |-> %d, maxTTL |-> %d, masters |-> {%s}]", len(r.Seats)/2+1, r.Ceiling.Milliseconds(), strings.Join(masters, ", ")))
	}
	return "<<" + strings.Join(list, ", ") + ">>"
}

// recordTrace is the trace of the membership, in the notation of RecordTrace.tla.
func (r *traceRecorder) recordTrace() *trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	memories, processes, lineages, names := numbering{}, numbering{}, numbering{}, numbering{}
	var process []int
	memory := func(name string) int {
		number := memories.of(name)
		if number > len(process) {
			process = append(process, processes.of(member.State{Memory: name}.RunID()))
		}
		return number
	}
	var ballots []string
	for _, e := range r.members {
		memory(e.shows.memory) // they have their numbers in the order in which they came
		ballots = append(ballots, e.shows.ballot, e.shows.promised)
	}
	slices.Sort(ballots)
	ballots = slices.Compact(ballots)
	ballot := func(b string) int {
		if b == "" {
			return 0
		}
		n, _ := slices.BinarySearch(ballots, b)
		return n + 1
	}
	letters := map[member.SeatState]string{member.Voter: "v", member.Learner: "l", member.Vacant: "-", member.Leaving: "x"}
	var list []string
	for _, c := range r.records.all {
		var seats []string
		for _, s := range c.Seats {
			seats = append(seats, fmt.Sprintf(`[n |-> %d, name |-> %d, memory |-> %d, st |-> "%s", since |-> %d]`, s.Number, names.of(s.Name), memory(s.Memory), letters[s.State], s.Since))
		}
		list = append(list, fmt.Sprintf("[gen |-> %d, lineage |-> %d, v |-> %d, parent |-> %d, maxTTL |-> %d, wait |-> %d, ttlSince |-> %d, roster |-> %d,\n  seats |-> <<%s>>]",
			c.Generation, lineages.of(c.Lineage), c.Version, r.records.number[c.Parent], c.Ceiling.Milliseconds(), c.Wait.Milliseconds(),
			c.TTLSince, c.Roster, strings.Join(seats, ", ")))
	}
	t := &trace{name: fmt.Sprintf("seed %d (%s), the membership", r.w.seed, r.w.profile.name)}
	for _, e := range r.members {
		s, number := e.shows, memory(e.shows.memory)
		if s.unparsed != "" {
			number = -1
		}
		t.events = append(t.events, fmt.Sprintf("<<%d,%d,%d,%d,%d,%d,%d,%d>>", e.at.Microseconds(), e.master, number, r.records.number[s.record], ballot(s.ballot),
			r.records.number[s.child], ballot(s.promised), processes.of(s.runID)))
	}
	var copied []string
	for _, name := range sortedKeys(r.copied) {
		copied = append(copied, fmt.Sprint(memory(name)))
	}
	t.head = fmt.Sprintf("process |-> <<%s>>, copied |-> {%s}, records |-> <<\n%s>>", joined(process), strings.Join(copied, ", "), strings.Join(list, ",\n"))
	return t
}

// numbering gives names numbers, from 1; that of "" is 0.
type numbering map[string]int

func (n numbering) of(name string) int {
	if name != "" && n[name] == 0 {
		n[name] = len(n) + 1
	}
	return n[name]
}

func joined(numbers []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
}
