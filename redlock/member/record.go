package member

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/quorum"
)

// The membership record says who the masters are: it is one line of text that stands on every master,
// it has a version, and only a majority of the masters that it lists can replace it. This file has the
// record itself. Its text is in text.go, and what one step from a record to the next may change in
// child.go.
//
//	record, version 7 ── digest ──┐        record, version 8
//	seat 0  m1  memory a  voter   │ parent seat 0  m1  memory a  voter
//	seat 1  m2  memory b  voter   └──────> seat 1  m2  memory b  voter
//	seat 2  m3  memory c  voter            seat 2  m3  memory d  learner  since 8     m3 was restarted
//
// A seat is a place among the masters. A memory is what one Redis process remembers without a gap; a
// restart, FLUSHALL or a failover ends it, and the seat then shows a memory of another name. A voter
// has a vote. A learner gets every command and has no vote. Every seat counts in the quorum, whatever
// its state is.
//
// Why two leases on a resource are never valid at once:
//
//  1. A vote counts under a record only if the batch that carried it ended with the master showing
//     exactly that record, no child of it that it has accepted, and the memory that the record lists
//     for the seat.
//  2. A child is chosen when a quorum of the memories that its parent lists have accepted it with one
//     ballot, and each of them has by then stopped showing the parent as settled, for ever.
//  3. So a parent has at most one chosen child: this is Paxos with the listed memories as acceptors,
//     and a memory that forgets is not listed any more, so that no acceptor forgets.
//  4. Two quorums of the parent share a seat. So once a child is chosen, no quorum of votes can be
//     counted under its parent, nor under any record before that.
//  5. Every lease of an old record therefore began before the child was chosen, and is over one ceiling of
//     the old record later.
//  6. A memory never becomes a voter in the step that lists it. It is a learner first, and becomes a
//     voter when a wait that is longer than the ceiling has passed since that step was seen chosen. A seat
//     goes in the same way: first its vote, and the seat after the wait. A learner that is given what a
//     quorum of voters remembers need not wait: package copying has the argument, which replaces 7 to 9.
//  7. If such a wait lies between two records, every lease of the first is over before a round of the
//     second begins.
//  8. If none does, each voter of the second record was listed in the first, with the same memory.
//  9. Then a quorum of votes under the first and one under the second have a memory in common: it has
//     accepted the key of both leases, and it lets the later one in only when the earlier key was
//     released or had expired.
//  10. A founding, which trusts addresses because no quorum of listed memories is left, begins a new
//      lineage with learners only, and lets them vote after the longest wait that anybody may still
//      have to wait for.
//
// testdata/tla has models of all this.

const (
	// RecordMax bounds the text of a record, in bytes.
	RecordMax = 4 << 10
	// recordForm begins the text of a record whose max_ttl is its ceiling, recordFormCeiling that of
	// another one. A redlockd that reads another form refuses it.
	recordForm, recordFormCeiling = "2", "3"
	// countMax bounds versions, generations and the other counts, so that Lua's numbers hold them exactly.
	countMax = 1_000_000_000_000_000
	// recordWaitMax bounds the times of a record. A day is the longest max_ttl, and a wait is at most
	// twice that and a quarter. A master that lies about its record can make a founding wait for so long.
	recordWaitMax = 3 * 24 * time.Hour
	// seatNameMax bounds a seat's name and its address each, in bytes.
	seatNameMax = 255
	// runIDMax bounds a run_id, in bytes. Redis's have 40.
	runIDMax = 64
	// DigestLen is the length of a record's digest: 128 bits, in hex.
	DigestLen = 32
)

// SeatState says whether a seat has a vote.
type SeatState string

// The states of a seat.
const (
	Voter   SeatState = "voter"
	Learner SeatState = "learner" // gets every command, and votes when it was given what the others remember, or after the wait
	Vacant  SeatState = "vacant"  // no master has been found at the address
	// Leaving is a seat that the operator has asked to remove: no memory, no vote, removed after the wait.
	// Nobody seats a memory there.
	Leaving SeatState = "leaving"
)

// seatLetters are the states in the text of a record.
var seatLetters = map[SeatState]string{Voter: "v", Learner: "l", Vacant: "-", Leaving: "x"}

// occupied tells whether the record lists a memory for a seat in this state.
func (s SeatState) occupied() bool { return s == Voter || s == Learner }

// Seat is a place among the masters.
type Seat struct {
	// Number is from 0 to quorum.MaxMasters-1 and fixed for the life of the seat. A removal leaves a hole.
	Number int
	// Name is fixed for the life of the seat.
	Name string
	Addr string
	// Memory is the listed memory, see NewMemory; "" where the seat is vacant or leaving.
	Memory string
	State  SeatState
	// Since is the version at which this memory was listed, or last lost its vote, or the seat became
	// vacant or leaving.
	Since int64
}

func (s *Seat) String() string { return fmt.Sprintf("seat %d (%s)", s.Number, conn.Sanitize(s.Name)) }

// Record is one version of the membership. It is not changed once it is sealed.
type Record struct {
	// Generation counts foundings.
	Generation int64
	// Lineage is 16 hex digits, new with each founding.
	Lineage string
	// Version is 0 at a founding and grows by one with each step.
	Version int64
	// Parent is the digest of the record before this one, "" at a founding.
	Parent string

	// MaxTTL is the longest TTL that may be asked for. It, Ceiling and Wait are whole milliseconds.
	MaxTTL time.Duration
	// Ceiling is the longest TTL that may run (ceiling.go).
	Ceiling time.Duration
	// Wait is what passes before a seat gains a vote or is removed. It is lowered to what Ceiling needs
	// when it has passed since TTLSince.
	Wait time.Duration
	// TTLSince is the version at which Ceiling was last lowered, or Wait raised alone; 0 at a founding.
	TTLSince int64

	// Roster counts the steps that added or removed seats.
	Roster int64
	// Seats are in ascending order of their numbers.
	Seats []Seat

	// Text and Digest are set by Seal and ParseRecord.
	Text, Digest string
}

// RecordID names a record. Its zero value is no record.
type RecordID struct {
	generation int64
	lineage    string
	Version    int64
	Digest     string
}

func (id RecordID) String() string {
	return fmt.Sprintf("%d-%s.%d %s", id.generation, id.lineage, id.Version, id.Digest)
}

// NewerThan tells whether a memory that shows o may go on to id. Of two lineages of one generation
// neither is newer.
func (id RecordID) NewerThan(o RecordID) bool {
	return o == RecordID{} || id.generation > o.generation || id.SameLineage(o) && id.Version > o.Version
}

func (id RecordID) SameLineage(o RecordID) bool {
	return id.generation == o.generation && id.lineage == o.lineage
}

// ID names the record.
func (r *Record) ID() RecordID {
	return RecordID{r.Generation, r.Lineage, r.Version, r.Digest}
}

// FleetLen is how many digits of a lineage name the fleet. They are drawn when the fleet is founded
// first, and later foundings keep them.
const FleetLen = NonceLen / 2

// Fleet names the record's fleet; "": it is no record.
func (id RecordID) Fleet() string { return id.lineage[:min(FleetLen, len(id.lineage))] }

// Fleet names the record's fleet.
func (r *Record) Fleet() string { return r.ID().Fleet() }

// founds tells whether the record begins a lineage.
func (r *Record) founds() bool { return r.Version == 0 }

func (r *Record) NewerThan(o RecordID) bool { return r.ID().NewerThan(o) }

// ShownBy is what a memory that has settled on r shows in the field v.
func (r *Record) ShownBy(memory string) string { return memory + " " + r.ID().String() }

// Quorum is how many of its seats grant.
func (r *Record) Quorum() int { return quorum.Of(len(r.Seats)) }

// Seat returns the seat with this number, or nil.
func (r *Record) Seat(number int) *Seat {
	return r.SeatWhere(func(s *Seat) bool { return s.Number == number })
}

// SeatNamed returns the seat with this name, or nil.
func (r *Record) SeatNamed(name string) *Seat {
	return r.SeatWhere(func(s *Seat) bool { return s.Name == name })
}

// Lists returns the seat that lists this memory, or nil.
func (r *Record) Lists(memory string) *Seat {
	return r.SeatWhere(func(s *Seat) bool { return memory != "" && s.Memory == memory })
}

func (r *Record) SeatWhere(match func(*Seat) bool) *Seat {
	for s := range r.EachSeat() {
		if match(s) {
			return s
		}
	}
	return nil
}

// EachSeat goes through them, in the order of their numbers.
func (r *Record) EachSeat() iter.Seq[*Seat] {
	return func(yield func(*Seat) bool) {
		for i := range r.Seats {
			if !yield(&r.Seats[i]) {
				return
			}
		}
	}
}

// listedBy is how many memories a record lists.
func listedBy(r *Record) (n int) {
	for s := range r.EachSeat() {
		if s.State.occupied() {
			n++
		}
	}
	return n
}

// Voters is how many of its seats vote.
func (r *Record) Voters() int {
	n := 0
	for s := range r.EachSeat() {
		if s.State == Voter {
			n++
		}
	}
	return n
}

// Child returns a copy of r that is the next version and not sealed. The caller changes it, seals it,
// and asks CheckChild.
func (r *Record) Child() *Record {
	c := *r
	c.Seats = slices.Clone(r.Seats)
	c.Version, c.Parent = r.Version+1, r.Digest
	c.Text, c.Digest = "", ""
	return &c
}

// Check tells what is wrong with a record by itself, whatever its parent is.
func (r *Record) Check() error {
	if n := len(r.print()); n > RecordMax {
		return fmt.Errorf("its text has %d bytes, at most %d are possible: shorten names and addresses of masters", n, RecordMax)
	}
	if !IsHex(r.Lineage, NonceLen) {
		return fmt.Errorf("%q is no lineage", conn.Sanitize(r.Lineage))
	}
	if r.Parent != "" && !IsHex(r.Parent, DigestLen) {
		return fmt.Errorf("%q is no digest of a record", conn.Sanitize(r.Parent))
	}
	if (r.Version == 0) != (r.Parent == "") {
		return fmt.Errorf("version %d with parent %q: only version 0, a founding, has none", r.Version, r.Parent)
	}
	for _, count := range []int64{r.Generation, r.Version, r.TTLSince, r.Roster} {
		if count < 0 || count > countMax {
			return fmt.Errorf("%d is no count from 0 to %d", count, int64(countMax))
		}
	}
	if err := r.checkTimes(); err != nil {
		return err
	}
	return r.checkSeats()
}

// Needed is the wait that Ceiling needs, by the drift of this client. Wait is longer while Ceiling is
// raised, after it was lowered, and after a founding.
func (r *Record) Needed(d clock.Drift) time.Duration {
	return wholeMs(clock.QuarantineOf(r.Ceiling, d))
}

// Quarantine is for how long a memory has no vote under r that may have forgotten locks: its wait, or
// longer where the drift of this client needs that.
func (r *Record) Quarantine(d clock.Drift) time.Duration {
	return max(r.Wait, clock.QuarantineOf(r.Ceiling, d))
}

func (r *Record) checkTimes() error {
	for _, d := range []time.Duration{r.MaxTTL, r.Ceiling, r.Wait} {
		if d <= 0 || d > recordWaitMax || d%time.Millisecond != 0 {
			return fmt.Errorf("%s is no time in whole milliseconds up to %s", d, recordWaitMax)
		}
	}
	switch {
	case r.Ceiling > r.MaxTTL:
		return fmt.Errorf("the ceiling %s is above max_ttl = %s", r.Ceiling, r.MaxTTL)
	case r.Wait < r.Ceiling: //mutant:a-wait-shorter-than-max_ttl
		return fmt.Errorf("the wait %s is shorter than the ceiling %s", r.Wait, r.Ceiling)
	case r.TTLSince > r.Version:
		return fmt.Errorf("the ceiling was lowered at version %d, after this version %d", r.TTLSince, r.Version)
	}
	return nil
}

func (r *Record) checkSeats() error {
	if n := len(r.Seats); n == 0 || n > quorum.MaxMasters {
		return fmt.Errorf("it has %d seats, 1 to %d are possible", n, quorum.MaxMasters)
	}
	numbers, names, addrs, memories := map[int]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range r.Seats {
		s := &r.Seats[i]
		switch {
		case s.Number < 0 || s.Number >= quorum.MaxMasters:
			return fmt.Errorf("a seat has the number %d, 0 to %d are possible", s.Number, quorum.MaxMasters-1)
		case numbers[s.Number]:
			return fmt.Errorf("two seats have the number %d", s.Number)
		case i > 0 && s.Number < r.Seats[i-1].Number:
			return fmt.Errorf("%s stands behind %s: seats are in the order of their numbers", s, &r.Seats[i-1])
		case s.Name == "" || len(s.Name) > seatNameMax:
			return fmt.Errorf("seat %d has a name of %d bytes, 1 to %d are possible", s.Number, len(s.Name), seatNameMax)
		case s.Addr == "" || len(s.Addr) > seatNameMax:
			return fmt.Errorf("%s has an address of %d bytes, 1 to %d are possible", s, len(s.Addr), seatNameMax)
		case names[s.Name]:
			return fmt.Errorf("two seats have the name %s: each needs its own", conn.Sanitize(s.Name))
		case addrs[s.Addr]:
			return fmt.Errorf("two seats have the address %s: each vote must come from a master of its own", conn.Sanitize(s.Addr))
		case s.State.occupied() && !isMemory(s.Memory):
			return fmt.Errorf("%s is a %s, and %q is no memory", s, s.State, conn.Sanitize(s.Memory))
		case !s.State.occupied() && s.Memory != "":
			return fmt.Errorf("%s is %s, and lists the memory %s", s, s.State, conn.Sanitize(s.Memory))
		case s.Memory != "" && memories[s.Memory]: //mutant:one-memory-at-two-seats
			return fmt.Errorf("two seats list the memory %s: it would vote twice", conn.Sanitize(s.Memory))
		case s.Since < 0 || s.Since > r.Version:
			return fmt.Errorf("%s is as it is since version %d, and this is version %d", s, s.Since, r.Version)
		}
		numbers[s.Number], names[s.Name], addrs[s.Addr] = true, true, true
		memories[s.Memory] = true
	}
	return nil
}

// SeatNames are the names of its seats, for people.
func SeatNames(r *Record) string {
	var names []string
	for s := range r.EachSeat() {
		names = append(names, conn.Sanitize(s.Name))
	}
	return strings.Join(names, ", ")
}

func wholeMs(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// IsNew tells whether nobody can have been granted anything under this record or one before it, as far
// as its founder knew: no seat votes, and those that have never voted leave no quorum to the others.
func (r *Record) IsNew() bool {
	never := 0
	for s := range r.EachSeat() {
		if r.neverVoted(s) {
			never++
		}
	}
	return never+r.Quorum() > len(r.Seats) && r.Voters() == 0 && r.Roster == 0 //mutant:bootstrap-where-a-quorum-may-have-voted
}

// neverVoted tells whether the record proves that no master has ever voted at the seat: it is what it
// was when the first founding named it, without a vote. A seat that loses its vote is something since a
// later version, and one that gets its vote is a voter. What follows from an earlier founding has a
// higher generation, unless its founder knew nothing of that.
func (r *Record) neverVoted(s *Seat) bool {
	return r.Generation == 1 && s.Since == 0 && (s.State == Learner || s.State == Vacant) //mutant:bootstrap-over-a-second-founding
}
