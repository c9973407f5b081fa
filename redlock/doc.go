// Package redlock takes locks on a majority of independent Redis masters: the Redlock algorithm of the
// Redis documentation page "Distributed Locks with Redis".
//
// A Go program needs few names:
//
//   - Open makes a Client over the masters that Options name. Bootstrap admits masters that are new,
//     once.
//   - Client.Lock waits for a lock, Client.TryLock does not, Client.Acquire takes a LockRequest:
//     several resources, a fence, a wait.
//   - A Lease is a granted lock. Lease.KeepAlive renews it, and returns a context that ends before the
//     lock does; Client.Hold is Lock and that. Lease.Unlock releases it.
//   - ErrHeld, ErrNotHeld and ErrNoQuorum are what callers branch on.
//
// The examples have a cron job, a leader, and a fence with SQL.
//
// # For servers
//
// The Start methods (StartLock, StartUnlock, StartExtend, …) are the same operations without a
// goroutine per call; their Completer is told the Result. StartCommit and StartRead serve clients that
// were written for one Redis. Share bounds what one user may take, and Terms what one operation is
// granted; Flow keeps the order of one connection. Masters, Stats and Inspect are for monitoring.
//
// # What is promised
//
// While a Lease is valid, no other Lease on the same resource is, whichever client or proxy granted it,
// unless both are readers' (LockRequest.Shared), as long as
//   - all of them use the masters of one membership, and nobody else deletes or overwrites keys there,
//   - the clocks of the masters and of this process run at the same rate within DriftFactor, and
//   - a caller that chooses its tokens chooses a new one after each UNLOCK. Until then it may repeat
//     the LOCK with the same token, through any client of these masters (op_undo.go).
//
// That masters remember and that their clocks do not gain on ours is not taken for granted but checked
// with every batch (master_guard.go, master_clock.go). That they stay masters, take locks and evict nothing is
// checked with every heartbeat. A master in doubt has no vote until nothing that it may have forgotten
// can still be held.
//
// A master that sends what no Redis would (or an attacker on its connection) loses its own vote and
// nothing else. Package resp reads the replies to batches within bounds, and checks what go-redis is to
// read before go-redis sees it (conn/wire.go states the bounds of memory). A panic while a reply is
// read costs the connection (conn.RecoverPanic). What it makes up in the name of another redlockd is
// not acted on (publish.go).
//
// StartForce breaks this promise on purpose: the former holder may go on working until its validity
// ends. A holder that pauses past its validity and goes on working is outside this promise: check
// Lease.Validity, or better, let the resource check a fencing token.
//
// # What is known
//
// An operation ends with granted, denied, or unknown (ErrNoQuorum). Unknown is never reported as
// denied. A lock that may have been set although its caller was told otherwise is removed again,
// without making the caller wait. Under a token that was made here it is removed also from masters that
// are away, as soon as they are back (master_pending.go). Under a caller's own token it is removed
// where a master says that it was set, and ends with its TTL elsewhere (op_undo.go).
//
// # Words
//
// In the order in which a LOCK meets them. Each has this meaning in code, logs, metrics and README.
//
//   - resource: what is locked, a key on the masters. Token: the secret value that signs a lock; made
//     here, or the caller's own.
//   - TTL: what the caller asked for; the masters keep the keys for longer, by what clocks may drift and
//     step (clock.Padded). Validity: what is left of the TTL once granted, less the time that it took.
//   - kind: plain, several resources, a reader's (SHARED), or one slot of a semaphore (SLOTS).
//   - share: what the operations of one user may take. Terms: what one operation is granted.
//   - waiter: a LOCK that may wait. Queue: those for one resource here; its head asks the masters, the
//     others wait behind it.
//   - hand-over: a release that locks for the next waiter in the same batch. Window: a time that is
//     left to other clients.
//   - reservation: what a waiter for several resources already holds of them.
//   - attempt: what an acquisition sends, one round or a few. Undo: its removal where it failed.
//     Observation: a round that only reads.
//   - round: one command to all masters. Verb: what command. T1, T2: when it began, when it was
//     decided.
//   - master: one independent Redis. Lane: the goroutine, the queue and the connection to one.
//   - batch: what a lane sends as one pipeline. Fold: several commands as one script call. Inflight:
//     sent, not answered.
//   - trailer: what every batch ends with: record, beat, TIME.
//   - guard: what judges by the trailer whether the votes of a batch count. Suspicion: why it looks
//     again.
//   - vote: what one master said: granted, denied, absent, unknown … Uncounted: what is left of one
//     that does not count.
//   - quorum: more than half. Electorate: who votes. Outcome: yes, no, or no quorum.
//   - lease: a granted lock. Fence: a number that grows with each grant. Mark: the highest fence that a
//     master has accepted for a resource. Floor: a bound below which a master accepts no fence of a
//     resource whose mark it no longer keeps.
//   - pending release: one for a master that is away. Audit: a reading of leases that a master may have
//     lost.
//   - holder: a connection for which held locks are renewed. Keep-alive: the renewal that a client asks
//     for.
//   - membership, record, version: who the masters are. Seat: a place in it. Memory: what one process
//     remembers without a gap.
//   - voter, learner: whether a seat votes. A learner becomes a voter with a copy of what the voters
//     remember, or after its quarantine: a wait a bit longer than the longest TTL.
//   - survey, report: what all masters, or one, have just shown. Step: the choice of the next record.
//     Founding: one without a majority.
//   - beat: a number that each heartbeat raises, so that a memory that went back in time shows. Drift,
//     gain, doubt: how far clocks may part, by how much one has, and the time without its votes. To pad:
//     to have keys live longer by the drift. To vouch for a clock: to know that it was in step before.
//   - commit, reading: a guarded change, and a reading, for a client that was written for one Redis.
//
// # Rooms
//
// The engine (this package: operations, waiting, leases, lanes) is flat, because one order of locks
// holds it together. Below it, each in a package that knows nothing of it:
//
//	quorum    what votes come to                      pure
//	clock     how far clocks may part                 pure, but for reading our own
//	fence     fencing tokens, and which are believed  pure
//	lua       the scripts of the masters, a file each
//	conn      one connection to one master, and what is believed of what it sends
//	member    who the masters are                     pure; the rooms on top of it ask masters, and
//	          see the engine through coordinator.Host
//
// A Client is made of roles. Each is a field of it that has its own state and names what else it uses;
// Client.mu guards those below the line.
//
//	bounds     limits.go         what callers may ask for
//	fleet      fleet.go          the lanes, the view of who the masters are, and their clocks; it knows nothing of locks
//	messages   publish.go        what other clients have published
//	─────────
//	rounds     round.go          the way of every round into the lanes
//	admission  admission.go      what waits until the masters have room, by share and flow
//	leases     lease_table.go    what was granted here, and who waits for which resource
//	holds      hold.go           the leases that are renewed while a connection stands
//	waiting    wait_queue.go     when a waiter asks, and how it ends
//	audits     lease_audit.go    which leases the masters may have forgotten
//	forced     op_force_message.go  the releases by force of late
//
// The operations are methods of Client itself, because they lead through several of these. A method
// whose name ends in Locked needs Client.mu, or lane.mu if it is a lane's. Of leases, holds, forced and
// rounds all methods need Client.mu, and so does audits.look.
//
// resp, sandbox, rawio and loglimit serve package proxy as much as this one. memmaster and redisproc
// are masters to run.
//
// # The walk of a LOCK
//
//	StartLock           op_lock.go             checks (op.go, limits.go), makes the token (lease_token.go); start (admission.go) begins or queues it
//	  terms             share.go               by how much this operation is limited more than others, and how long the lock stays taken after its holder loses it
//	  share             share.go               what one user may take, and …
//	  admission         admission.go           … whose turn it is, while the masters have enough to do (master_limit.go)
//	  wait queue        wait_queue.go          if it may wait: only the head of a queue goes on (wait_attempt.go, wait_handover.go; several resources: wait_reserve.go)
//	  round             round.go               one command to all masters, T1; what its verb means: verbs.go
//	    kind            op_plain.go            what it asks for, and how it goes on (several resources: op_several.go):
//	    slot            op_slots.go            LOCK … SLOTS: for which of the slots the round asks (who waits for one: wait_slots.go)
//	    reader          op_shared.go           LOCK … SHARED: what is on the masters in the place of a token, and who waits
//	    lane ×N         master_lane.go         one queue, one goroutine, one connection per master (its states: master_state.go)
//	      batch         master_batch.go        what has queued becomes one pipeline …
//	        command     master_commands.go     each verb's command, and what the reply to it means (the scripts: lua/*.lua)
//	      inflight      master_inflight.go     … while others may be on their way …
//	      connection    conn/                  … on one that is vetted, written and read by conn.Wire
//	      trailer       member/trailer.go      … that ends with what the master shows of the membership, its beat and its clock. If the connection breaks before that, readAll (master_batch.go) makes all votes of the batch Unknown …
//	      guard         master_guard.go        … which say whether its votes count (its memory: member/state.go; its clock: clock/ring.go, master_clock.go; who vouches for that: master_trust.go)
//	    votes           quorum/                one word; the goroutine that adds the vote that decides calls what the verb's row says (round.go)
//	  decision          op_lock.go             acquisitionDecided: granted within the validity (clock/validity.go), or not; then once more, or not
//	  lease             lease_table.go         what this client remembers of what it granted
//	  or undo           op_lock.go             undoLocked removes a failed attempt from the masters (op_undo.go, master_pending.go)
//	Completer.Done                             the reply
//
// UNLOCK (op_unlock.go) and EXTEND (op_extend.go) walk the same way without the queue of waiters; what
// they come to is the same for every kind of lock. What a step of the membership has stopped begins
// once more (op_again.go), and leases that a master may have lost are read (lease_audit.go). UNLOCK …
// FORCE (op_force.go) reads the token from the masters, releases it, and the masters publish that to
// the other redlockds. Clients that were written for one Redis make guarded changes (StartCommit,
// op_commit.go) and readings (StartRead, op_read.go; StartWatch, op_watch.go). Messages between the clients of all proxies
// (publish.go) and the store of scripts (op_scriptstore.go) travel in the same batches, and have no
// votes. A lock that is held for a connection is renewed by the watchdog, with the round of EXTEND
// (hold.go); KEEPALIVE is a round without a command (hold_keepalive.go).
//
// # The membership
//
// Which masters there are, which of them vote, and how long a lock may live, is a record that the
// masters keep themselves (member/record.go, member/state.go, lua/states.lua). The coordinator of each
// client (member/coordinator) looks at all masters (member/survey), decides what follows
// (member/plan.go, member/waits.go), and has a majority choose the next record
// (member/survey/step.go). A master that has forgotten is given what the others remember, so that it
// votes again soon (member/copying). A round belongs to the record that was in force at its launch
// (fleet.go), and a vote counts only if the master shows that record behind it (master_guard.go, which
// also makes sure, again and again, that an old connection still leads to who is behind the address).
// What programs call is in membership.go: Client.Membership shows the record and what is wrong with it
// (member/coordinator/problem.go), Client.ChangeMembers changes it (member/coordinator/change.go),
// Bootstrap founds it at once (member/admin/bootstrap.go). What reaches the master of a seat is in
// member/address.go. Options.Masters and Options.MaxTTL are those of the first one.
//
// The walk of a master that was replaced, by another process at the same address:
//
//	poll          member/coordinator      connects to each address anew, within RecheckWithin, and reads the run_id
//	confirm       master_guard.go         another run_id: the lane drops its old connection. Without a confirmation in time votes do not count
//	ready         master_lane.go          forgets what the guard knew of the old process
//	shows         master_guard.go         the new one shows another memory than the record lists: its votes do not count
//	Next          member/plan.go          makes it a learner, and later a voter
//	copy or wait  member/copying          gives it what a quorum of voters remembers; without one it waits (member/waits.go)
//
// # What is ours, and why
//
//   - conn/wire.go writes and reads batches itself: go-redis fills an object per command, the larger
//     part of what a lock costs here.
//   - resp bounds what is read: redcon's parser can be crashed or spun by one packet, and go-redis
//     allocates what a length announces.
//   - rawio reads and writes sockets without telling Go's scheduler: 15 % less CPU per lock.
//     REDLOCK_RAWIO=off turns it off.
//   - memmaster is a master in memory, embedded and as a double: no other has faults, a clock of its
//     own and CLIENT TRACKING.
//   - redisproc runs real redis-servers for tests and for the benchmark.
//
// # Caveats
//
//   - What a proxy notices with its heartbeat (Options.Heartbeat), a proxy that starts within that time
//     does not know: a memory that was set back by SWAPDB or to a snapshot of the machine.
//   - A client that starts where no other one watches believes clocks that agree with its own. If they
//     stepped within the last MaxTTL, by less than ClockSkewMax or into agreement, nobody can know.
//   - A master that is allowed to evict keys while its memory is full (maxmemory-policy) throws locks
//     away until the next heartbeat finds it: up to one heartbeat long they may be granted again. Then
//     it has no vote, and the leases that are lost are reported.
//   - Locks are plain keys (key = resource, value = token, PX = TTL; of readers, a sorted set of
//     tokens), so that libraries that talk to the masters themselves and this package exclude each
//     other. That holds while no master forgets, for such a library counts its vote at once, and for
//     locks of the library with a TTL up to MaxTTL, because the quarantine is no longer than that.
//   - Waiting is fair among the waiters of one Client for one resource. Each client leaves it to others
//     after Options.HandoverTime; the masters decide which of them gets it, and one that is kept
//     waiting says so (wait_handover.go). A writer that waits keeps new readers out, but those that
//     extend their locks keep it waiting up to MaxHold.
//   - A LOCK of several resources that waits holds nothing, until it has missed them too often: then it
//     reserves them one after the other (wait_reserve.go), and the masters show a lock on them that
//     nobody was granted.
//   - While fewer than a quorum of masters can vote, waiters do not ask them (wait_quorum.go).
//   - The waiters of other clients learn of a release from the masters (wait_invalidations.go). Where too
//     few of those that hold the key can announce it, they ask after each Options.RetryDelayMax
//     (wait_tracked.go).
package redlock
