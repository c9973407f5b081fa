package proxy

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"redlockd/redlock/sandbox"
)

// The commands that a script may call, on a keyspace; those on keys are in keyspace_read.go and keyspace_write.go. Replies,
// errors and their words are those of Redis 7.0; SET IFEQ and IFNE, DELEX are those of Redis 8.4, DELIFEQ is Valkey's.
//
// To add one: a row, a function that notes what it reads and writes through the methods of keyspace and keyState, a line in the
// generator of script_differential_test.go.

// scriptCommand has an arity as in the command table, and runs on args whose number fits.
type scriptCommand struct {
	arity  int
	writes bool // a read-only script may not call it
	run    keyCommand
}

const reads, writes = false, true

var scriptCalls = map[string]scriptCommand{
	"get":         {2, reads, runGET},
	"mget":        {-2, reads, runMGET},
	"strlen":      {2, reads, runSTRLEN},
	"getrange":    {4, reads, runGETRANGE},
	"substr":      {4, reads, runGETRANGE},
	"exists":      {-2, reads, runEXISTS},
	"type":        {2, reads, runTYPE},
	"ttl":         {2, reads, runTTL(true, false)},
	"pttl":        {2, reads, runTTL(false, false)},
	"expiretime":  {2, reads, runTTL(true, true)},
	"pexpiretime": {2, reads, runTTL(false, true)},

	"set":    {-3, writes, runSET},
	"setnx":  {3, writes, runSETNX},
	"setex":  {4, writes, runSETEX},
	"psetex": {4, writes, runSETEX},
	"getset": {3, writes, runGETSET},
	"getdel": {2, writes, runGETDEL},
	"getex":  {-2, writes, runGETEX},
	"mset":   {-3, writes, runMSET},
	"msetnx": {-3, writes, runMSETNX},

	"del":     {-2, writes, runDEL},
	"unlink":  {-2, writes, runDEL},
	"delex":   {-2, writes, runDELEX},
	"delifeq": {3, writes, runDELIFEQ},

	"expire":    {-3, writes, runEXPIRE},
	"pexpire":   {-3, writes, runEXPIRE},
	"expireat":  {-3, writes, runEXPIRE},
	"pexpireat": {-3, writes, runEXPIRE},
	"persist":   {2, writes, runPERSIST},

	"time":    {1, reads, runTIME},
	"publish": {3, writes, runPUBLISH},
	"echo":    {2, reads, runECHO},
	"ping":    {-1, reads, runPING},
}

// Call executes a command for the running script: the sandbox calls it.
func (ks *keyspace) Call(args []string, resp int) (sandbox.Reply, error) {
	name := strings.ToLower(args[0])
	cmd, ok := scriptCalls[name]
	switch {
	case !ok && redisHas(name):
		return sandbox.Reply{}, refuse("the script calls %s, and is refused as a whole: scripts here lock and release only, "+
			"with keys that hold one string (GET, SET, DEL, PEXPIRE and the like)", strings.ToUpper(name))
	case !ok:
		return failure("ERR Unknown Redis command called from script"), nil
	case !arityFits(cmd.arity, len(args)):
		return failure("ERR Wrong number of args calling Redis command from script"), nil
	case ks.readOnly && cmd.writes:
		return failure("ERR Write commands are not allowed from read-only scripts."), nil
	}
	return cmd.run(ks, args)
}

// redisHas tells whether Redis, or this endpoint, knows a command that is not in scriptCalls, by its name in lower case.
func redisHas(name string) bool {
	_, refused := refusalOf[name]
	isServed := func(row command) bool { return row.name == name }
	return refused || slices.ContainsFunc(commandRows, isServed) || name == "waitaof" // of Redis 7.2
}

func runTIME(ks *keyspace, args []string) (sandbox.Reply, error) {
	ks.readTime = true
	return sandbox.Reply{Kind: sandbox.Array, Elems: []sandbox.Reply{
		bulk(strconv.FormatInt(ks.clock.Unix(), 10)),
		bulk(strconv.Itoa(ks.clock.Nanosecond() / 1000)),
	}}, nil
}

// runPUBLISH answers that nobody heard it: who does is not known before the script has been committed.
func runPUBLISH(ks *keyspace, args []string) (sandbox.Reply, error) {
	if refusal := messageRefusal(args[1], args[2]); refusal != "" {
		return failure(refusal), nil
	}
	if !ks.user.may(args[1]) {
		return sandbox.Reply{}, &scriptRefusal{errors.New(ks.user.refuse("channel", args[1]))}
	}
	m := message{args[1], args[2]}
	ks.publishedBytes += m.size()
	if len(ks.published) == messagesMax || ks.publishedBytes > messageBytesMax {
		return sandbox.Reply{}, refuse("the script publishes more than %d messages, or %d bytes with %d for each message: one call can publish no more",
			messagesMax, messageBytesMax, messageOverhead)
	}
	ks.published = append(ks.published, m)
	return integer(0), nil
}

func runECHO(_ *keyspace, args []string) (sandbox.Reply, error) { return bulk(args[1]), nil }

func runPING(_ *keyspace, args []string) (sandbox.Reply, error) {
	switch len(args) {
	case 1:
		return sandbox.Reply{Kind: sandbox.Status, Text: "PONG"}, nil
	case 2:
		return bulk(args[1]), nil
	}
	return failure("ERR wrong number of arguments for 'ping' command"), nil
}
