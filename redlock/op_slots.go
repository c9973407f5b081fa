package redlock

import (
	"hash/crc32"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/quorum"
)

// Slots. LOCK resource SLOTS k has at most k holders at one time: it locks one of the k ordinary
// resources resource#0 … resource#(k-1), its slots. At most one token holds a slot, so at most k hold.
// UNLOCK, EXTEND and all else take the name of the slot, and know nothing of this.
//
// Counting holders on each master is the tempting other way. It is wrong: N masters with k places each
// have room for ⌊N·k/quorum⌋ quorums, which is 3 for N = 5 and k = 2.
//
// An attempt asks all masters for one slot, the same one, with lua.Slot. A master that denies it also
// tells which slots are free there. So the next round asks for a slot that can be free on a quorum,
// chosen at random so that several clients do not split the votes again. After slotRounds rounds, or
// when no slot can be free on a quorum, the attempt is denied.
//
// Invariant: one token never holds two slots of a semaphore at one time, if all its LOCKs name the same
// k. A master denies every other slot while one holds the token, and any two quorums have a master in
// common. A master that holds two of them, one from a late round and one that a copy gave it, denies
// both. So a LOCK that is repeated with the caller's token finds the slot that it holds: the first
// guess is the same through every client, and if that is another slot, the masters name the right one.
// testdata/tla/Slots.tla is the model.
//
// The votes of a round are about its one slot. What a master tells of other slots is a hint where to
// ask next, never a vote.

// MaxSlots is the most holders that LOCK … SLOTS can have.
const MaxSlots = 32

// noSlot in the place of a slot's number asks for none: every master denies that, and tells what it
// knows.
const noSlot = 255

// slotRounds is how many slots one attempt asks for at most.
const slotRounds = 3

// slotSearch is the kind of lock that is one of several slots. Client.mu guards it.
type slotSearch struct {
	// resource is the semaphore's name, from which its slots have theirs.
	resource string
	// queue is the name of the queue of those who wait for a slot.
	queue string
	// count is how many slots there are, k.
	count int
	// look: the next round only looks for the slot that the token holds, for others wait who come first.
	look bool
	// next is the slot that the next round asks for, plus one; 0: the search guesses.
	next int
	// rounds of the present attempt, and the slots that they asked for, one bit each.
	rounds int
	tried  uint32
	// tracked is what the masters have promised to announce of each slot; nil: nothing was observed yet.
	tracked []tracked
}

// SlotName is the resource that is a slot of a semaphore, counted from 0: LOCK resource SLOTS k locks
// one of the first k.
func SlotName(resource string, slot int) string { return resource + "#" + strconv.Itoa(slot) }

// SlotNames are the names that slots of a semaphore can have; none, if its name is too long to have
// any.
func SlotNames(resource string) []string {
	names := slotNames(resource, MaxSlots)
	return slices.DeleteFunc(names, func(name string) bool { return len(name) > MaxResourceLen })
}

// slotNames are the first slots of a semaphore.
func slotNames(resource string, slots int) []string {
	names := make([]string, slots)
	for i := range names {
		names[i] = SlotName(resource, i)
	}
	return names
}

// SlotOf tells of which semaphore, and which of its slots, a resource is by its name.
func SlotOf(name string) (resource string, slot int, ok bool) {
	i := strings.LastIndexByte(name, '#')
	if i <= 0 || len(name) > i+3 {
		return "", 0, false
	}
	slot, _ = strconv.Atoi(name[i+1:]) // what is no number is written otherwise
	if slot < 0 || slot >= MaxSlots || strconv.Itoa(slot) != name[i+1:] {
		return "", 0, false
	}
	return name[:i], slot, true
}

// slotsQueuePrefix begins the name of the queue of a semaphore. No resource can have such a name, so
// those who wait for a lock on the resource itself have another queue.
const slotsQueuePrefix = ReservedPrefix + "slots:"

func slotsQueue(resource string) string { return slotsQueuePrefix + resource }

// shownQueue is the name under which a queue is listed: that of its resource, or resource#* for a
// semaphore.
func shownQueue(name string) string {
	if resource, ok := strings.CutPrefix(name, slotsQueuePrefix); ok {
		return resource + "#*"
	}
	return name
}

// checkSlots validates LockRequest.Slots.
func checkSlots(req *LockRequest) error {
	switch {
	case req.Slots < 1 || req.Slots > MaxSlots:
		return badRequest("SLOTS of %d is outside 1 … %d", req.Slots, MaxSlots)
	case len(req.Resources) != 1:
		return badRequest("SLOTS is for one resource, and %d are named", len(req.Resources))
	case len(SlotName(req.Resources[0], req.Slots-1)) > MaxResourceLen:
		return badRequest("the resource name has %d bytes, and its slots add %d: at most %d are possible",
			len(req.Resources[0]), len(SlotName("", req.Slots-1)), MaxResourceLen)
	}
	return nil
}

// aim decides for which slot the round asks. Without a hint it guesses one that nobody holds or asks
// for here, as far as is known. The first guess of a token is the same through every client.
func (s *slotSearch) aim(c *Client, r *round) {
	op, now := r.op, time.Now()
	slot := s.next - 1
	s.next = 0
	s.rounds++
	c.leases.slotted = true
	r.verb = verbSlot
	r.slots = uint8(s.count)
	if s.look {
		s.look = false
		r.setKeys(SlotName(s.resource, 0))
		r.slot = noSlot
		return
	}
	if slot < 0 {
		slot = int(crc32.ChecksumIEEE([]byte(op.token)) % uint32(s.count)) //mutant:a-repetition-guesses-anew
		asked := uint32(0)
		if op.waiter != nil {
			asked = op.waiter.entry.queue.asked(s.count)
		}
		for range s.count {
			e := c.leases.entries[SlotName(s.resource, slot)]
			leased := e != nil && e.lease != nil && e.lease.token != op.token && now.Before(e.lease.validUntil)
			if !leased && asked>>slot&1 == 0 {
				break
			}
			slot = (slot + 1) % s.count
		}
	}
	s.tried |= 1 << slot
	r.setKeys(SlotName(s.resource, slot))
	r.slot = uint8(slot)
}

// heldBy has the next round ask for the slot that the token holds here already, as far as is known.
func (s *slotSearch) heldBy(all *leases, op *Op, now time.Time) *lease {
	for i := range s.count {
		if held := all.heldOrDelayed([]string{SlotName(s.resource, i)}, op.token, now); held != nil {
			s.next = i + 1
			return held
		}
	}
	return nil
}

// lookFirst has the next round of a LOCK under a caller's token only look for the slot that the token
// holds, for others wait who come first. False: it asks for no slot, and there is no such round.
func (op *Op) lookFirst() bool {
	s, ok := op.kind.(*slotSearch)
	if !ok || !op.callerToken {
		return false
	}
	s.look = true
	return true
}

// beginInflight records the round under the queue, too: an UNLOCK of the token in any slot must find
// it.
func (s *slotSearch) beginInflight(all *leases, r *round) {
	all.beginInflight(r, r.keys[0], s.queue)
}

func (s *slotSearch) endInflight(all *leases, r *round) {
	all.endInflight(r, r.keys[0], s.queue)
}

// slotReleased is for an UNLOCK: rounds of the token that are under way for another slot must not ask
// for one more.
func (s *leases) slotReleased(resource, token string) {
	if semaphore, _, ok := SlotOf(resource); ok {
		for _, r := range s.inflight[slotsQueue(semaphore)] {
			r.unlocked = r.unlocked || r.token == token
		}
	}
}

// granted tells which slot it is.
func (*slotSearch) granted(_ *Client, _ *Op, l *lease, _ *deferred) (slot string) { return l.keys[0] }

// givenBack hands over a slot that nobody has taken.
func (*slotSearch) givenBack(c *Client, r *round, d *deferred) {
	c.waiting.handOverLocked(r.keys[0], d)
}

// denied tells how an attempt goes on after a round whose outcome is o and whose error is err. again:
// another slot can be asked for, which aim will choose. The error is another one if the token may hold
// a slot for which the attempt has no round left.
func (s *slotSearch) denied(r *round, tooLow bool, o quorum.Outcome, v quorum.Votes, err error) (again bool, _ error) {
	if tooLow { // the same slot again
		s.rounds--
		s.next = int(r.slot) + 1
		return true, err
	}
	defer func() {
		if !again { // the attempt is over
			s.rounds, s.tried = 0, 0
		}
	}()
	majority := r.view.Quorum()
	if o != quorum.No || r.released || r.unlocked { //mutant:another-slot-behind-the-unlock
		return false, err
	}
	var free, found [MaxSlots]int // on how many masters a slot is free, or holds the token
	open, silent := 0, 0          // masters on which any slot can be free, and those that have not answered
	for _, l := range r.view.masters {
		switch v.Of(l.index) {
		case quorum.Denied:
			a := &r.answers[l.index]
			for set := a.free; set != 0; set &= set - 1 {
				free[bits.TrailingZeros32(set)]++
			}
			if a.slot > 0 {
				found[a.slot-1]++
			}
		case quorum.Granted, quorum.AlreadyMine, quorum.Stale:
			open++
		case quorum.Pending:
			open++
			silent++
		default:
			silent++
		}
	}
	var best uint32 // the slots that are free on most masters
	most := 1
	for i := range s.count {
		switch {
		case s.tried>>i&1 != 0:
		case found[i] > 0 && found[i]+silent >= majority: //mutant:a-repetition-does-not-find-its-slot
			if s.rounds >= slotRounds {
				return false, r.noQuorumError(v, majority, 0)
			}
			s.next = i + 1
			return true, err
		case free[i] < most || free[i]+open < majority: //mutant:a-slot-that-no-quorum-is-free-of-is-asked-for
		case free[i] > most:
			best, most = 1<<i, free[i]
		default:
			best |= 1 << i
		}
	}
	if best == 0 || s.rounds >= slotRounds || r.slot == noSlot {
		return false, err
	}
	s.next = anySlot(best) + 1
	return true, err
}

// slotDenied is the reply of lua.Slot when no slot was set, less what it has to tell: one bit for each
// slot that is free there, and from slotFoundBit on the number, from 1 on, of another slot that holds
// the token.
const (
	slotDenied   = -10
	slotFoundBit = 32
)

func writeSlot(b *batch, r *round) {
	semaphore, slots := r.semaphore(), int(r.slots)
	b.script(lua.Slot, r.fenceKeys(), slots, 6)
	for i := range slots {
		addSlotName(b.wire, semaphore, i)
	}
	b.acquisition(r)
	b.wire.Number(int64(r.slot + 1)) // of noSlot it is 0
}

// addSlotName adds the name of a slot as a word.
func addSlotName(w *conn.Wire, resource string, slot int) {
	var digits [2]byte
	number := strconv.AppendInt(digits[:0], int64(slot), 10)
	w.Out = strconv.AppendInt(append(w.Out, '$'), int64(len(resource)+1+len(number)), 10)
	w.Out = append(append(append(w.Out, "\r\n"...), resource...), '#')
	w.Out = append(append(w.Out, number...), "\r\n"...)
}

// addSlots adds all slots of the semaphore.
func (t *touched) addSlots(r *round) {
	for _, name := range slotNames(r.semaphore(), int(r.slots)) {
		t.add(t.hash(name))
	}
}

// semaphore is the resource of which the round locks a slot.
func (r *round) semaphore() string { return r.keys[0][:strings.LastIndexByte(r.keys[0], '#')] }

// readSlot keeps what a denial tells of the other slots.
func readSlot(b *batch, cmd command, reply conn.Reply) (v quorum.Vote, refused, err error) {
	r := b.rounds[cmd.round]
	if reply.Kind != ':' || reply.N > slotDenied {
		return readAcquire(b, cmd, reply)
	}
	told := slotDenied - reply.N
	if told>>slotFoundBit > int64(r.slots) {
		return quorum.Unknown, nil, conn.ProtocolError(reply)
	}
	all := uint32(1<<r.slots - 1)
	b.readings = append(b.readings, reading{round: r, answer: answer{free: uint32(told) & all, slot: int8(told >> slotFoundBit)}})
	return quorum.Denied, nil, nil //mutant:a-mask-is-a-vote
}

// costOfSlots is what a command costs that names all the slots of a semaphore: reading a key is a part
// of what setting one is.
func (r *round) costOfSlots() int {
	return 1 + int(r.slots)/4 + (int(r.slots)*len(r.keys[0])+len(r.token))/costBytes
}
