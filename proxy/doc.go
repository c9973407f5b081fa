// Package proxy serves the Redis protocol in front of a redlock.Client: any Redis client becomes a
// client of Redlock.
//
// # The path of LOCK r 30000 WAIT 2000 through the files
//
//	client
//	  │ bytes
//	new.go              has made the server and its table of commands
//	server.go           accepts the connection; preauth.go and login.go bound what it may cost before it has authenticated
//	  vanished.go       has the kernel notice that its client is gone without a word
//	connection.go       the reader goroutine: read, execute, send, in a loop
//	  readbuffer.go     holds the bytes, in memory from a pool while there are some
//	  redlock/resp      cuts them into commands within limits, or finds a protocol error
//	session.go          dispatch: finds the command's row, refuses what must not run, recovers from a panic
//	  command_table.go  arity and key positions; commands.go has the rows
//	  access/           permission for the resource
//	  call.go           what a handler gets, and the three ways in which it answers
//	cmd_lock.go         cmdLOCK parses the arguments and takes a slot, which keeps the reply's place
//	engine.go           enters the engine on the account of the user (account.go), within the policies of the resource (policy.go)
//	  │ redlock.Client.StartLock …
//	  │ … Done, on a goroutine of the engine
//	cmd_lock.go         Done appends the reply to its slot, or an error (errors.go)
//	slot.go             moves the reply to what is to be sent, when all replies before it are known
//	output.go           writes without blocking; a goroutine of its own only where that is not possible
//	  │ bytes
//	client
//
// # Other paths
//
//   - Redis commands by which libraries lock (SET NX, DEL, WATCH …), transactions and scripts become
//     readings and guarded commits: exchange.go. Its programs are dropin.go, cmd_transaction.go and
//     script_program.go. Package keyspace has what a command does to its keys. Scripts: cmd_eval.go,
//     script_assume.go, script_run.go, script_call.go; where an assumption was wrong, exchange.go reads
//     the keys and runs the script again.
//   - What users may do, and what policies say of resources, is package access. account.go and
//     policy.go count and refuse by it.
//   - Messages find their subscribers in subscribers.go; cmd_pubsub.go has the commands.
//   - LOCKS and LOCKINFO say who holds what: cmd_locks.go, holder.go. LOCKS ALL (cmd_locks_all.go) asks
//     the other redlockds by messages: package fleet.
//   - Clients that keep what they have read are notified of changes by tracking.go (CLIENT TRACKING, in
//     cmd_tracking.go).
//   - Locks under HOLD are renewed by the engine, and end with the connection: cmd_hold.go, held.go.
//   - Other users and limits come in while the server runs: live.go, reload.go.
//   - timeouts.go closes connections that have used up their time, output_total.go those for which too
//     much waits.
//   - Package status answers over HTTP: the status page, the metrics, health. http.go gives it what it
//     shows, metrics.go the metrics, whose table INFO (cmd_info.go) reads, too. stats.go counts,
//     and own_stats.go what a confined user sees.
//
// commands.go begins with the checklist for a new command. errors.go has the codes of errors.
//
// # Floors
//
// Calls go down. A file knows none of a floor above it:
//
//	new.go, commands.go     which commands there are
//	cmd_*.go, exchange.go   what each of them does, and the programs on keys (dropin.go, script_*.go); http.go and
//	                        metrics.go, which show the same to others
//	server.go, session.go   who is connected, what comes in and goes out, and what belongs to one client: connection.go,
//	                        slot.go, output.go, engine.go, tracking.go, subscribers.go, held.go, transaction.go, audit.go …
//	errors.go, reply.go     words and data: account.go, argument.go, key_queue.go, order.go, readbuffer.go, script_cache.go,
//	                        script_shares.go, semaphore.go
//
// A handler is reached by its row in the command table alone, so that a command is added and removed
// without the floors below.
//
// # What is promised
//
//   - Replies are in the order of the commands. What was sent together is answered together, with one
//     write.
//   - Operations reach the engine in the order in which one client sent them, except past a LOCK that
//     waits, for other tokens (order.go). The engine keeps that order on every master.
//   - The wait of a LOCK ends when the client leaves, when CLIENT UNBLOCK comes, or when the server
//     drains.
//   - A lock under a token made here is released at once when its grant cannot reach the client any
//     more. One under a token of the client's own stays until its TTL ends, because the client may be
//     back with that token.
//   - No client, logged in or not, can make the server use more memory or time than the limits in
//     Options and bounds allow it.
//   - A command that panics gets an error, and the server goes on.
//
// # Goroutines and locks
//
// A connection has one goroutine, its reader. It has a second one, the writer, only while its client
// does not take its replies or while the connection cannot be written without blocking (TLS, net.Pipe).
// One goroutine serves the timeouts of all connections. Where HTTP is served, one keeps the history of
// the status page. The engine's goroutines complete slots and write without blocking. A script that has
// to run again runs on a goroutine of its own.
//
// connection.mu guards the connection and the fields of its session that other goroutines read.
// Server.mu and connection.mu are never held together, and neither is held while the engine is called.
// subscribers.mu and tracking.mu are taken after connection.mu; no lock is taken after them.
//
// # Caveats
//
//   - A client that ends its stream and goes on reading (printf … | nc) looks like one that has gone
//     for good. What it sent is answered, but it is granted no lock that it would have to wait for or
//     whose token it does not know.
//   - The server notices that a client has left while it waits, unless the client has sent more than
//     64 KiB of commands behind the one that waits.
//   - A grant that the kernel has taken counts as received. If the client dies in that moment, the
//     lock ends with its TTL.
package proxy
