// Package keyspace says what Redis commands do to keys. A command goes in with what its keys hold; a
// reply comes out, with the changes that the masters must make for the reply to be true:
//
//	command, refusal := keyspace.Parse("delex", []string{"invoices", "IFEQ", "token"})
//	space := keyspace.New(command.Keys(), states, now)
//	reply, err := space.Do(command)
//	outcome := space.Outcome()
//
// Nothing has happened then. The caller commits outcome.Changes, each guarded by what the key held in
// states, as one operation of package redlock. If the guards hold on a quorum, the command was executed
// on the truth, and its reply is the reply. If they do not, the caller reads the keys and executes the
// command again.
//
// What a client sends, what it queues behind MULTI and what a script calls goes through the same
// functions. A client's command is a Space with one Do, a transaction is one with several, a script is
// one whose Do is redis.call.
//
//	command.go           the table of commands; Parse
//	options.go, time.go  the options of SET, GETEX, DELEX and EXPIRE, and times
//	space.go             the keys of one run, and the ways in which commands touch them
//	read.go, write.go    the commands on strings and on keys of any type
//	counter.go, hash.go, set.go, zset.go, score.go    those on counters, hashes, sets and sorted sets
//	envelope.go          how hashes, sets and sorted sets are stored on the masters
//	outcome.go           what the run has learned and changed
//
// # How to add a command, or a type of values
//
// Write its function in the file of its type, and give it a row in command.go. The function may touch
// keys only through the methods of key and Space, because these note what the guards must compare, and
// whether the command has compared whose the key is (Space.touch): if it did not, it is refused on a key
// that somebody holds. A new command that says nothing is refused there. Add
// it to the tables of keyspace_test.go and to the generator of script_differential_test.go in package
// proxy. Scripts can call it then. A keysRow in the proxy's command table (commands.go)
// serves it to clients. A type of values needs a file of its own, a kind, and a letter in
// envelope.go.
//
// # What is promised
//
// The package is pure: it asks no clock (now is an argument), draws no random numbers (Space.Random is
// given), does no I/O, keeps nothing between runs and starts no goroutine. It takes from package
// redlock what keys hold and how they are to change (State and Change), never a Client. A test checks
// that.
//
// Replies, errors and their words are those of Redis 7.0. SET IFEQ and IFNE, and DELEX, are those of
// Redis 8.4; DELIFEQ is Valkey's.
//
// # Caveats
//
// What the masters hold as another type than string was written there by another client. It can be
// neither changed nor compared. DEL counts it as absent. A SET that Redis would let replace it is
// answered with WRONGTYPE.
//
// A hash, a set or a sorted set has at most 64 members, and 16 KB with all of them. A command that
// would make more of it ends the run with an error. HGETALL and its kin, which promise no order, answer
// in the order of names. ZRANGE has no BYLEX.
//
// Redis refuses a relative time that its clock cannot add to now. Here a time is refused if it would
// overflow in the year 2109. That differs from Redis for times of 292 million years.
package keyspace
