// Package proxy serves the Redis protocol in front of a redlock.Client: any Redis client becomes a client of Redlock.
//
// # The walk of LOCK r 30000 WAIT 2000
//
//	read            readbuffer.go  bytes, in memory that is borrowed while there are some
//	  resp          redlock/resp   … become whole frames within limits, or a protocol error; redcon takes them apart
//	    dispatch    dispatch.go    row of the command table (commands.go), arity, login, permission (user.go), recover
//	      cmdLOCK   cmd_lock.go    arguments, a slot in the queue, StartLock
//	        engine                 package redlock
//	      Done                     the reply into its slot (slot.go)
//	    queue       slot.go        … and, when all before it are known, to what is to be sent
//	write           output.go      without blocking; a goroutine only where that does not do
//
// Redis commands by which libraries lock (SET NX, DEL, WATCH …) become readings and guarded commits: dropin.go. So do their
// scripts, which run on what their keys are assumed to hold (script_assume.go) or do hold: script_exchange.go, script_run.go and
// script_call.go, in the box of package sandbox. What a command does to its keys is the same whether a client sends it, queues it
// behind MULTI, or a script calls it: package keyspace.
//
// Messages (PUBLISH) find their subscribers in subscribers.go.
//
// connection.go has the loop around it, session.go finds the row of a command and runs its handler, server.go the life of connections, timeouts.go their timeouts, preauth.go what those may cost who
// have not logged in. The commands are in cmd_*.go; their table is in commands.go, which says how one is added; which error has which
// code, in errors.go. Those who watch come over HTTP: http.go, with metrics.go and http_status.go.
//
// # What is promised
//
//   - Replies are in the order of the commands. What was sent together is answered together, with one write.
//   - Operations reach the engine in the order in which one client sent them, and it keeps that order on every master.
//   - A LOCK with WAIT holds back what the same client sends behind it, until it is answered. It ends when the client leaves,
//     when CLIENT UNBLOCK comes, or when the server drains.
//   - A lock under a token made here is released at once when its grant cannot reach the client any more. One under a token of
//     the client's own stays until its TTL ends: the client may be back with it.
//   - No client, logged in or not, can make the server use more memory or time than the limits in Options allow it.
//   - A command that panics gets an error, and the server goes on.
//
// # Goroutines and locks
//
// A session has one goroutine, its reader; a second one, the writer, only while its client does not take its replies (or has
// no file descriptor: TLS, net.Pipe). One goroutine closes the connections of all clients that have timed out. The engine's goroutines complete slots and write
// without blocking. Server.mu and session.mu are never held together, and neither is held while the engine is called;
// subscribers.mu comes after session.mu. A script that needs another run has a goroutine for it.
//
// # Caveats
//
//   - A client that ends its stream and goes on reading (printf … | nc) looks like one that has gone for good. What it sent is
//     answered, but it is granted no lock that it would have to wait for or whose token it does not know.
//   - That a client left is noticed while it waits, unless it has sent more than 64 KiB of commands behind the one that waits.
//   - A grant that the kernel has taken counts as received. If the client dies in that moment, the lock ends with its TTL.
package proxy
