// Package memmaster is a Redis master that lives in this process. It is what redlockd runs five of when
// no masters are configured, and the double for a real Redis in tests: of one command, and of whole
// simulations in virtual time (testing/synctest) with faults of the network, the process, the host and
// its clock.
//
// It is ours because no embeddable Redis has what these need: faults, a clock of its own, CLIENT
// TRACKING and CLIENT KILL, and scripts in a microsecond (miniredis needs 200, and milliseconds per
// command with 10 000 keys).
//
// It is reached through an ordinary Redis client that speaks RESP2 to it:
//
//	m := memmaster.New(memmaster.Options{})
//	defer m.Close()
//	c := redis.NewClient(&redis.Options{Dialer: m.Dial})
//
// A byte's way, and the files that see it:
//
//	client ── link.go ──> stream.go ──> conn.go ──────────────> command.go ──> commands_*.go ──> store.go
//	          Dial,       requests:     one goroutine,          known?         the reply         value_*.go
//	          faults      delay, hold   whole commands (resp)   allowed?       (reply.go)        expiry.go
//	client <───────────── stream.go <── conn.go <──────────────── all replies of one read at once ──┘
//
// script.go runs EVAL in the package sandbox and calls back into command.go; tracking.go tells who has
// read a key that it changed; faults.go has the faults of the master, link.go those of one network path
// to it, or to another server.
//
// Like Redis it executes one command at a time: Master.mu is its single thread, and all whole commands
// that one read of a connection brought are executed before any of another connection. Lock order:
// Master.mu, then Link.mu.
//
// Goroutines: one per connection. None ticks or polls, so a master that nobody talks to does not drive
// virtual time, and after Close none is left. A Master that is made in a synctest bubble must be used
// and closed in it; go-redis needs maintenance notifications off there, as it looks up a host name for
// them.
//
// # What it promises
//
// It serves the commands that redlockd sends, from outside and from its scripts, with the options that
// redlockd uses, and those by which tests harm a master. Their replies, errors and wording are those of
// Redis 7.0; a differential test compares them byte by byte. Keys expire by the master's wall clock,
// which starts in step with the process's, follows the process's monotonic clock and can be stepped and
// made to drift (StepClock, SetClockRate). A restart has what a restart of Redis has: a new run_id,
// client ids from 1, no script cache, no changes of CONFIG SET.
//
// # Caveats
//
//   - Memory is all it has: no persistence, no limit of memory (CONFIG maxmemory is only reported; see
//     Evict), no replication, no cluster. REPLICAOF makes a replica without a master, for tests of
//     clients that must notice one.
//   - Strings, sorted sets and hashes only. No RESP3, no transactions, one user. Of databases there are
//     0 and 1.
//   - SCAN takes longer the more keys there are. DBSIZE never counts expired keys.
//   - CLIENT TRACKING knows REDIRECT, NOLOOP and OPTIN, not BCAST and OPTOUT.
//   - Scripts run in the package sandbox, whose caveats are this master's too. Their limits are wide:
//     an endless loop ends after two million instructions, and one script can take 256 MB.
package memmaster
