package redlock

import (
	"fmt"
	"slices"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/quorum"
)

// The membership record says who the masters are: it is one line of text that stands on every master, it has a version, and only a
// majority of the masters that it lists can replace it. This file has the record itself. Its text is in member_text.go, and what one step
// from a record to the next may change in member_child.go. All three are pure: no clock, no I/O.
//
//	record, version 7 ── digest ──┐        record, version 8
//	seat 0  m1  memory a  voter   │ parent seat 0  m1  memory a  voter
//	seat 1  m2  memory b  voter   └──────> seat 1  m2  memory b  voter
//	seat 2  m3  memory c  voter            seat 2  m3  memory d  learner  since 8     m3 was restarted
//
// A seat is a place among the masters. A memory is what one Redis process remembers without a gap; a restart, FLUSHALL or a failover
// ends it, and the seat then shows a memory of another name. A voter has a vote. A learner gets every command and has no vote. Every
// seat counts in the quorum, whatever its state is.
//
// Why two leases on a resource are never valid at once:
//
//  1. A vote counts under a record only if the batch that carried it ended with the master showing exactly that record, no child of it
//     that it has accepted, and the memory that the record lists for the seat.
//  2. A child is chosen when a quorum of the memories that its parent lists have accepted it with one ballot, and each of them has
//     by then stopped showing the parent as settled, for ever.
//  3. So a parent has at most one chosen child: this is Paxos with the listed memories as acceptors, and a memory that forgets is not
//     listed any more, so that no acceptor forgets.
//  4. Two quorums of the parent share a seat. So once a child is chosen, no quorum of votes can be counted under its parent, nor
//     under any record before that.
//  5. Every lease of an old record therefore began before the child was chosen, and is over one max_ttl later.
//  6. A memory never becomes a voter in the step that lists it. It is a learner first, and becomes a voter when a wait that is longer
//     than max_ttl has passed since that step was seen chosen. A seat goes in the same way: first its vote, and the seat after the wait.
//     A learner that is given what a quorum of voters remembers need not wait: member_copy.go has the argument, which replaces 7 to 9.
//  7. If such a wait lies between two records, every lease of the first is over before a round of the second begins.
//  8. If none does, each voter of the second record was listed in the first, with the same memory.
//  9. Then a quorum of votes under the first and one under the second have a memory in common: it has accepted the key of both leases,
//     and it lets the later one in only when the earlier key was released or had expired.
//  10. A founding, which trusts addresses because no quorum of listed memories is left, begins a new lineage with learners only, and
//     lets them vote after the longest wait that anybody may still have to wait for.
//
// testdata/tla has models of all this.

const (
	// recordMax bounds the text of a record, in bytes.
	recordMax = 4 << 10
	// recordForm begins the text of a record. A redlockd that reads another form refuses it.
	recordForm = "2"
	// countMax bounds versions, generations and the other counts, so that Lua's numbers hold them exactly.
	countMax = 1_000_000_000_000_000
	// recordWaitMax bounds the times of a record. A day is the longest max_ttl, and a wait is at most twice that and a quarter. A master that lies about
	// its record can make a founding wait for so long.
	recordWaitMax = 3 * 24 * time.Hour
	// seatNameMax bounds a seat's name and its address each, in bytes.
	seatNameMax = 255
	// runIDMax bounds a run_id, in bytes. Redis's have 40.
	runIDMax = 64
	// digestLen is the length of a record's digest: 128 bits, in hex.
	digestLen = 32
)

// seatState says whether a seat has a vote.
type seatState byte

const (
	seatVoter   seatState = 'v'
	seatLearner seatState = 'l' // gets every command, has no vote
	seatVacant  seatState = '-' // no memory
	// seatLeaving is a seat that the operator has asked to remove: no memory, no vote, removed after the wait. Nobody seats a memory there.
	seatLeaving seatState = 'x'
)

func (s seatState) String() string {
	switch s {
	case seatVoter:
		return "voter"
	case seatLearner:
		return "learner"
	case seatVacant:
		return "vacant"
	case seatLeaving:
		return "leaving"
	}
	return fmt.Sprintf("state %q", byte(s))
}

// occupied tells whether the record lists a memory for a seat in this state.
func (s seatState) occupied() bool { return s == seatVoter || s == seatLearner }

// seat is a place among the masters.
type seat struct {
	// number is from 0 to quorum.MaxMasters-1 and fixed for the life of the seat. A removal leaves a hole.
	number int
	// name is fixed for the life of the seat.
	name string
	addr string
	// memory is the listed memory, see newMemory; "" where the seat is vacant or leaving.
	memory string
	state  seatState
	// since is the version at which this memory was listed, or last lost its vote, or the seat became vacant or leaving.
	since int64
}

func (s *seat) String() string { return fmt.Sprintf("seat %d (%s)", s.number, conn.Sanitize(s.name)) }

// record is one version of the membership. It is not changed once it is sealed.
type record struct {
	// generation counts foundings.
	generation int64
	// lineage is 16 hex digits, new with each founding.
	lineage string
	// version is 0 at a founding and grows by one with each step.
	version int64
	// parent is the digest of the record before this one, "" at a founding.
	parent string

	// maxTTL and wait are whole milliseconds.
	maxTTL time.Duration
	// wait is what passes before a seat gains a vote or is removed. It is lowered to what maxTTL needs when it has passed since ttlSince.
	wait time.Duration
	// ttlSince is the version at which maxTTL was last lowered, 0 at a founding.
	ttlSince int64

	// roster counts the steps that added or removed seats.
	roster int64
	// seats are in ascending order of their numbers.
	seats []seat

	// text and digest are set by seal and parseRecord.
	text, digest string
}

// recordID names a record. Its zero value is no record.
type recordID struct {
	generation int64
	lineage    string
	version    int64
	digest     string
}

func (id recordID) String() string {
	return fmt.Sprintf("%d-%s.%d %s", id.generation, id.lineage, id.version, id.digest)
}

// newerThan tells whether a memory that shows o may go on to id. Of two lineages of one generation neither is newer.
func (id recordID) newerThan(o recordID) bool {
	return o == recordID{} || id.generation > o.generation || id.sameLineage(o) && id.version > o.version
}

func (id recordID) sameLineage(o recordID) bool {
	return id.generation == o.generation && id.lineage == o.lineage
}

func (r *record) recordID() recordID {
	return recordID{r.generation, r.lineage, r.version, r.digest}
}

// id is "<generation>-<lineage>.<version> <digest>", as the field v has it.
func (r *record) id() string { return r.recordID().String() }

// founds tells whether the record begins a lineage.
func (r *record) founds() bool { return r.version == 0 }

func (r *record) newerThan(o recordID) bool { return r.recordID().newerThan(o) }

// shownBy is what a memory that has settled on r shows in the field v.
func (r *record) shownBy(memory string) string { return memory + " " + r.id() }

func (r *record) quorum() int { return quorum.Of(len(r.seats)) }

// seat returns the seat with this number, or nil.
func (r *record) seat(number int) *seat {
	return r.seatWhere(func(s *seat) bool { return s.number == number })
}

// seatNamed returns the seat with this name, or nil.
func (r *record) seatNamed(name string) *seat {
	return r.seatWhere(func(s *seat) bool { return s.name == name })
}

// lists returns the seat that lists this memory, or nil.
func (r *record) lists(memory string) *seat {
	return r.seatWhere(func(s *seat) bool { return memory != "" && s.memory == memory })
}

func (r *record) seatWhere(match func(*seat) bool) *seat {
	for i := range r.seats {
		if match(&r.seats[i]) {
			return &r.seats[i]
		}
	}
	return nil
}

func (r *record) voters() int {
	n := 0
	for i := range r.seats {
		if r.seats[i].state == seatVoter {
			n++
		}
	}
	return n
}

// child returns a copy of r that is the next version and not sealed. The caller changes it, seals it, and asks checkChild.
func (r *record) child() *record {
	c := *r
	c.seats = slices.Clone(r.seats)
	c.version, c.parent = r.version+1, r.digest
	c.text, c.digest = "", ""
	return &c
}

// check tells what is wrong with a record by itself, whatever its parent is.
func (r *record) check() error {
	if n := len(r.print()); n > recordMax {
		return fmt.Errorf("its text has %d bytes, at most %d are possible: shorten names and addresses of masters", n, recordMax)
	}
	if !isHex(r.lineage, nonceLen) {
		return fmt.Errorf("%q is no lineage", conn.Sanitize(r.lineage))
	}
	if r.parent != "" && !isHex(r.parent, digestLen) {
		return fmt.Errorf("%q is no digest of a record", conn.Sanitize(r.parent))
	}
	if (r.version == 0) != (r.parent == "") {
		return fmt.Errorf("version %d with parent %q: only version 0, a founding, has none", r.version, r.parent)
	}
	for _, count := range []int64{r.generation, r.version, r.ttlSince, r.roster} {
		if count < 0 || count > countMax {
			return fmt.Errorf("%d is no count from 0 to %d", count, int64(countMax))
		}
	}
	if err := r.checkTimes(); err != nil {
		return err
	}
	return r.checkSeats()
}

// needed is the wait that maxTTL needs, by the drift of this client. wait is longer after maxTTL was lowered, and after a founding.
func (r *record) needed(d clock.Drift) time.Duration { return wholeMs(clock.QuarantineOf(r.maxTTL, d)) }

func (r *record) checkTimes() error {
	for _, d := range []time.Duration{r.maxTTL, r.wait} {
		if d <= 0 || d > recordWaitMax || d%time.Millisecond != 0 {
			return fmt.Errorf("%s is no time in whole milliseconds up to %s", d, recordWaitMax)
		}
	}
	switch {
	case r.wait < r.maxTTL: //mutant:a-wait-shorter-than-max_ttl
		return fmt.Errorf("the wait %s is shorter than max_ttl = %s", r.wait, r.maxTTL)
	case r.ttlSince > r.version:
		return fmt.Errorf("max_ttl was lowered at version %d, after this version %d", r.ttlSince, r.version)
	}
	return nil
}

func (r *record) checkSeats() error {
	if n := len(r.seats); n == 0 || n > quorum.MaxMasters {
		return fmt.Errorf("it has %d seats, 1 to %d are possible", n, quorum.MaxMasters)
	}
	numbers, names, addrs, memories := map[int]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range r.seats {
		s := &r.seats[i]
		switch {
		case s.number < 0 || s.number >= quorum.MaxMasters:
			return fmt.Errorf("a seat has the number %d, 0 to %d are possible", s.number, quorum.MaxMasters-1)
		case numbers[s.number]:
			return fmt.Errorf("two seats have the number %d", s.number)
		case i > 0 && s.number < r.seats[i-1].number:
			return fmt.Errorf("%s stands behind %s: seats are in the order of their numbers", s, &r.seats[i-1])
		case s.name == "" || len(s.name) > seatNameMax:
			return fmt.Errorf("seat %d has a name of %d bytes, 1 to %d are possible", s.number, len(s.name), seatNameMax)
		case s.addr == "" || len(s.addr) > seatNameMax:
			return fmt.Errorf("%s has an address of %d bytes, 1 to %d are possible", s, len(s.addr), seatNameMax)
		case names[s.name]:
			return fmt.Errorf("two seats have the name %s: each needs its own", conn.Sanitize(s.name))
		case addrs[s.addr]:
			return fmt.Errorf("two seats have the address %s: each vote must come from a master of its own", conn.Sanitize(s.addr))
		case s.state.occupied() && !isMemory(s.memory):
			return fmt.Errorf("%s is a %s, and %q is no memory", s, s.state, conn.Sanitize(s.memory))
		case !s.state.occupied() && s.state != seatVacant && s.state != seatLeaving:
			return fmt.Errorf("%s has an unknown %s", s, s.state)
		case !s.state.occupied() && s.memory != "":
			return fmt.Errorf("%s is %s, and lists the memory %s", s, s.state, conn.Sanitize(s.memory))
		case s.memory != "" && memories[s.memory]: //mutant:one-memory-at-two-seats
			return fmt.Errorf("two seats list the memory %s: it would vote twice", conn.Sanitize(s.memory))
		case s.since < 0 || s.since > r.version:
			return fmt.Errorf("%s is as it is since version %d, and this is version %d", s, s.since, r.version)
		}
		numbers[s.number], names[s.name], addrs[s.addr] = true, true, true
		memories[s.memory] = true
	}
	return nil
}

// changed is r with a change, sealed.
func (r *record) changed(change func(r *record)) *record {
	c := *r
	c.seats = slices.Clone(r.seats)
	change(&c)
	return c.seal()
}
