package redlock

import (
	"redlockd/redlock/conn"
	"redlockd/redlock/quorum"
)

// verb says what a round asks of every master, and what its votes then mean. All that a verb
// decides stands in its row of the table verbs.
//
// To add a verb:
//  1. Name it below, and give it a row in verbs. TestVerbs says what a row must have.
//  2. Write its command and read the reply: a pair of functions in master_commands.go, next to
//     those that it resembles. A verb that sends what another one sends shares them. A new script
//     stands in the package lua.
//  3. Say which outcome rule decides it (package quorum). A rule that none of these covers belongs
//     there, with its table test.
//  4. Start it, and carry out its decision, in an op_*.go of its own.
//  5. If it leaves keys on the masters, say what undoes it when it fails (op_undo.go, and
//     keepReleaseLocked of master_lane.go), what isFor tells of it (lease_table.go), and have a vote
//     that does not count become one that mayHold includes.
//  6. A command that no other verb sends also stands in commandsNeeded (member/admin/permission.go), so that
//     `redlockd check` finds a missing permission.
type verb uint8

const (
	verbSet           verb = iota // LOCK of one resource under a token made here, which no master can know yet: SET NX PX
	verbAcquire                   // LOCK otherwise, by a script: all keys or none. Keys that hold the token already are refreshed
	verbSlot                      // LOCK of one of several slots, with a fence or without (op_slots.go)
	verbJoin                      // LOCK of a reader (op_shared.go)
	verbReserve                   // a waiter's reservation of its next resource, which grants nothing (wait_reserve.go)
	verbRefill                    // gives a lease's keys back to masters that have lost them
	verbExtend                    // EXTEND: compares the token and sets a new TTL; several keys: all or none
	verbRelease                   // UNLOCK, and what releases for nobody: compares the token and deletes
	verbUndo                      // takes back what a failed attempt under a caller's token has set (op_undo.go)
	verbRaise                     // UNLOCK … FORCE, first round: raises the mark of a resource, and tells who holds it (op_force.go)
	verbForce                     // UNLOCK … FORCE, second round: UNLOCK with the token that the masters have shown
	verbForceCallers              // the same for a token that a caller chose, and may lock with again: compares when the key ends, too
	verbCommitSet                 // a commit that sets one absent key: SET NX PX. Commits stand in op_commit.go
	verbCommitAcquire             // a commit whose guards are all WasAbsent: it is decided as a LOCK is
	verbCommitReplace             // a commit that changes what somebody holds
	verbCommitExtend              // a commit that only sets new TTLs, or only compares
	verbCommitRelease             // a commit that only deletes
	verbSettle                    // a commit that nobody waits for (op_undo.go)
	verbSettleRead                // what masters hold that may have made a commit
	verbRead                      // type, value and TTL of several keys: what a drop-in client reads (op_read.go)
	verbReadTracked               // verbRead for a caller who keeps the answer. The master is asked to announce a change
	verbInspect                   // token, TTL and mark of one key, for LOCKINFO
	verbObserve                   // token, TTL and mark of one key, for a waiter. The master is asked to announce a change
	verbAnnounce                  // verbObserve of a writer that waits for readers, and who learn from it that it does
	verbWithdraw                  // takes back what verbAnnounce said
	verbObserveSlots              // verbObserve of all slots of a semaphore, for a waiter for one
	verbAudit                     // token and TTL of the key of a lease: is it still there?
	verbFetchScript               // value and TTL of a stored script, and whether it was flushed (op_scriptstore.go)
	verbStoreScript               // stores a script: SET PX
	verbPublish                   // a message; its channel is the key, its payload the token
	verbBarrier                   // no command: the trailer of its batch is the answer (hold_keepalive.go)

	verbCount
)

// verbRow is what one verb means. Functions that are nil have nothing to do.
type verbRow struct {
	// write adds the command to the batch's pipeline.
	write func(b *batch, r *round)
	// read turns the replies to the command, of which one is read already, into a vote. refused is
	// the error that the master replied in the place of an answer. err means that the connection is
	// of no more use.
	read func(b *batch, cmd command, first conn.Reply) (v quorum.Vote, refused, err error)
	// two is the vote where its script replies 2. Zero: it never does.
	two quorum.Vote
	// cost is what the command costs a master, in the price of a SET of a short key.
	cost func(r *round) int

	// outcome is the rule by which the votes decide. Nil: nobody waits for them, and they decide
	// nothing.
	outcome func(v quorum.Votes, masters int) quorum.Outcome
	// decided carries out the decision. It runs once, on the goroutine that counts the vote that
	// decides, without Client.mu.
	decided func(c *Client, r *round, o quorum.Outcome, v quorum.Votes, d *deferred)
	// late acts on votes that come after the decision. It may run before decided does.
	late func(c *Client, r *round, word quorum.Votes, d *deferred)
	// answered takes the place of the three above where what the masters answer decides, and not
	// how many of them do.
	answered func(c *Client, r *round, v quorum.Votes, d *deferred)

	// uncounted is what a vote becomes that must not count, for the master may have forgotten
	// locks. Nil: the vote counts all the same, since it says what the master did, or is only
	// reported.
	uncounted func(v quorum.Vote) quorum.Vote

	// answers: the masters tell more than a vote, see round.answers.
	answers bool
	// changes: the command may change or remove keys that exist, so that a master forgets what it has
	// promised to announce of them (wait_tracked.go).
	changes bool
	// arms: the master is asked to announce the next change of what the command reads, where it can.
	arms bool
	// release marks UNLOCK's verb: releases of one key are folded into one call, are kept for
	// masters that are away, and a master that refuses one loses its connection, for nothing else
	// may be sent before the release.
	release bool
	// bare: there is no command, and the vote is granted if the batch is answered. write and read are not
	// called.
	bare bool
	// neverShed: the command is queued also where a lane's queue is full, for it removes what
	// others wait for.
	neverShed bool
}

// verbs is the table. It is filled in by init because the functions in it lead back to the table.
var verbs [verbCount]verbRow

// A row that resembles another one begins as its copy: what is stated for it is what differs.
func init() {
	lock := verbRow{write: writeAcquire, read: readAcquire, two: quorum.AlreadyMine,
		outcome: quorum.Acquisition, decided: (*Client).acquisitionDecided, late: (*Client).lateAttempt, uncounted: quorum.Vote.Uncounted, changes: true}
	reading := verbRow{write: writeReading, read: readReading, outcome: quorum.Reading, answers: true}
	commit := verbRow{write: writeCommit, read: readScript, two: quorum.AsReader, cost: (*round).costOfCommit,
		outcome: quorum.Extension, decided: (*Client).commitDecided, late: (*Client).commitLate, uncounted: quorum.Vote.Uncounted, changes: true}

	set, slot, join, reserve, refill := lock, lock, lock, lock, lock
	set.write, set.read, set.late, set.changes = writeSet, readSet, nil, false // SET NX
	slot.write, slot.read, slot.cost, slot.answers = writeSlot, readSlot, (*round).costOfSlots, true
	join.write = writeJoin
	reserve.decided, reserve.late = (*Client).reservationDecided, nil
	refill.write = writeRefill
	refill.outcome, refill.decided, refill.late = nil, nil, nil

	inspect, observe, audit, fetchScript := reading, reading, reading, reading
	read := verbRow{write: writeRead, read: readRead, answered: (*Client).readAnswered, uncounted: quorum.Vote.Abstains, answers: true}
	readTracked := read
	readTracked.arms = true
	inspect.write, inspect.read, inspect.decided = writeInspect, readInspect, (*Client).inspectionDecided
	observe.arms, observe.decided = true, (*Client).observationDecided
	announce, observeSlots := observe, observe
	announce.write, announce.read = writeAnnounce, readAnnounce
	observeSlots.write, observeSlots.read = writeRead, readRead
	audit.decided, audit.uncounted = (*Client).auditDecided, quorum.Vote.Uncounted
	fetchScript.write, fetchScript.read, fetchScript.decided = writeRead, readRead, scriptFetched

	commitSet, commitAcquire, commitExtend, commitRelease := commit, commit, commit, commit
	commitSet.write, commitSet.read, commitSet.outcome, commitSet.changes = writeSet, readSet, quorum.Acquisition, false
	commitAcquire.outcome = quorum.Acquisition
	commitRelease.outcome, commitRelease.uncounted = quorum.Release, nil

	settle, settleReading := commit, reading
	settle.outcome, settle.decided, settle.late, settle.uncounted, settle.neverShed = quorum.Reading, settleDecided, nil, nil, true
	settleReading.write, settleReading.read, settleReading.decided = writeRead, readRead, settleRead

	release := verbRow{write: writeRelease, read: readRelease,
		outcome: quorum.Release, decided: (*Client).releaseDecided, release: true, changes: true, neverShed: true}
	force := release
	force.outcome, force.decided = quorum.Reading, (*Client).forceDecided

	verbs = [verbCount]verbRow{
		verbSet:     set,
		verbAcquire: lock,
		verbSlot:    slot,
		verbJoin:    join,
		verbReserve: reserve,
		verbRefill:  refill,
		verbExtend: {write: writeExtend, read: readExtend,
			outcome: quorum.Extension, decided: (*Client).extensionDecided, late: (*Client).refillLate, uncounted: quorum.Vote.Uncounted, changes: true}, //mutant:extension-counted-in-quarantine
		verbRelease: release,
		verbRaise: {write: writeRaise, read: readRaise,
			outcome: quorum.Reading, decided: (*Client).markRaised, uncounted: quorum.Vote.Uncounted, answers: true},
		verbForce:         force,
		verbForceCallers:  {write: writeForceCallers, read: readScript, two: quorum.Renewed, outcome: quorum.Reading, decided: (*Client).forceDecided, changes: true, neverShed: true},
		verbUndo:          {write: writeUndo, read: readUndo, changes: true, neverShed: true},
		verbCommitSet:     commitSet,
		verbCommitAcquire: commitAcquire,
		verbCommitReplace: commit,
		verbCommitExtend:  commitExtend,
		verbCommitRelease: commitRelease,
		verbSettle:        settle,
		verbSettleRead:    settleReading,
		verbRead:          read,
		verbReadTracked:   readTracked,
		verbInspect:       inspect,
		verbObserve:       observe,
		verbAnnounce:      announce,
		verbWithdraw:      {write: writeWithdraw, read: readScript, changes: true},
		verbObserveSlots:  observeSlots,
		verbAudit:         audit,
		verbFetchScript:   fetchScript,
		verbStoreScript:   {write: writeStoreScript, read: readOnly('+')},
		verbPublish:       {write: writePublish, read: readOnly(':')},
		verbBarrier:       {bare: true, outcome: quorum.Acquisition, decided: (*Client).keepAliveDecided, uncounted: quorum.Vote.Abstains},
	}
}

// commitAcquires tells whether the verb is of a commit that locks, and changes nothing that
// somebody holds.
func (v verb) commitAcquires() bool { return v == verbCommitSet || v == verbCommitAcquire }
