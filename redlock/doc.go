// Package redlock takes locks on a majority of independent Redis masters: the Redlock algorithm of the Redis documentation
// page "Distributed Locks with Redis".
//
// A Client is an engine over one set of masters. Lock, TryLock and Acquire grant a Lease; a Lease ends with Unlock, or by
// itself with its TTL. The Start methods are the same operations without a goroutine per call, for servers.
//
// # What is promised
//
// While a Lease is valid, no other Lease on the same resource is, whichever client or proxy granted it, as long as
//   - all of them use the same masters,
//   - the clocks of the masters and of this process run at the same rate within DriftFactor, and do not jump, and
//   - no more than a minority of masters loses its data within one TTL.
//
// A holder that pauses past its validity and goes on working is outside this promise: check Lease.Validity, or better, let the
// resource check a fencing token.
//
// # What is known
//
// An operation ends with granted, denied, or unknown (ErrNoQuorum). Unknown is never reported as denied. A lock that
// may have been set although its caller was told otherwise is removed again, without making the caller wait: also from
// masters that are away, as soon as they are back.
//
// # The walk of a LOCK
//
//	StartLock            lock.go     checks, makes the token (token.go)
//	  line               line.go     if it may wait: only the head of a line goes on
//	  round              round.go    one command to all masters, T1
//	    lane ×N          lane.go     one queue, one goroutine, one connection per master
//	      batch          batch.go    what has queued becomes one pipeline …
//	      link           link.go     … on one vetted connection
//	    votes            quorum.go   one word; the vote that decides carries out the decision
//	  lease or undo      leases.go   granted within the validity (validity.go), or released wherever it may be
//	Completer.Done                   the reply
//
// UNLOCK (unlock.go) and EXTEND (extend.go) walk the same way without the line.
//
// # Caveats
//
//   - Locks are plain keys (key = resource, value = token, PX = TTL), so that libraries that talk to the masters themselves and
//     this package exclude each other.
//   - Waiting is fair among the waiters of one Client. Between clients the masters decide.
//   - Clients of other proxies are not told of a release; they notice it with their next attempt (Options.RetryDelayMin).
package redlock
