package proxy

import (
	"strconv"
	"strings"

	"redlockd/redlock/sandbox"
)

// The commands that a script may call, on a keyspace; those on keys are in keyspace_read.go and keyspace_write.go. Replies, errors and their words
// are those of Redis 7.0; SET IFEQ and IFNE, DELEX are those of Redis 8.4, DELIFEQ is Valkey's.
//
// To add one: a row, a function that notes what it reads and writes through the methods of keyspace and keyState, a line in the
// generator of script_differential_test.go.

// scriptCommand has an arity as in the command table, and runs on args whose number fits.
type scriptCommand struct {
	arity int
	run   keyCommand
}

var scriptCalls map[string]scriptCommand

func init() {
	scriptCalls = map[string]scriptCommand{
		"get":         {2, runGET},
		"mget":        {-2, runMGET},
		"strlen":      {2, runSTRLEN},
		"getrange":    {4, runGETRANGE},
		"substr":      {4, runGETRANGE},
		"exists":      {-2, runEXISTS},
		"type":        {2, runTYPE},
		"ttl":         {2, runTTL(true, false)},
		"pttl":        {2, runTTL(false, false)},
		"expiretime":  {2, runTTL(true, true)},
		"pexpiretime": {2, runTTL(false, true)},

		"set":    {-3, runSET},
		"setnx":  {3, runSETNX},
		"setex":  {4, runSETEX},
		"psetex": {4, runSETEX},
		"getset": {3, runGETSET},
		"getdel": {2, runGETDEL},
		"getex":  {-2, runGETEX},
		"mset":   {-3, runMSET},
		"msetnx": {-3, runMSETNX},

		"del":     {-2, runDEL},
		"unlink":  {-2, runDEL},
		"delex":   {-2, runDELEX},
		"delifeq": {3, runDELIFEQ},

		"expire":    {-3, runEXPIRE},
		"pexpire":   {-3, runEXPIRE},
		"expireat":  {-3, runEXPIRE},
		"pexpireat": {-3, runEXPIRE},
		"persist":   {2, runPERSIST},

		"time":    {1, runTIME},
		"publish": {3, runPUBLISH},
		"echo":    {2, runECHO},
		"ping":    {-1, runPING},
	}
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
	case len(args) != cmd.arity && (cmd.arity > 0 || len(args) < -cmd.arity):
		return failure("ERR Wrong number of args calling Redis command from script"), nil
	case ks.readOnly && !readingCalls[name]:
		return failure("ERR Write commands are not allowed from read-only scripts."), nil
	}
	return cmd.run(ks, args)
}

// readingCalls are those of scriptCalls that a read-only script may call.
var readingCalls = map[string]bool{
	"get": true, "mget": true, "strlen": true, "getrange": true, "substr": true, "exists": true, "type": true,
	"ttl": true, "pttl": true, "expiretime": true, "pexpiretime": true, "time": true, "echo": true, "ping": true,
}

// notForScripts are commands of Redis, and of this endpoint, that are no commands of a lock script. Those that clients are
// refused too are in refusalOf.
var notForScripts = map[string]bool{}

func init() {
	for name := range strings.FieldsSeq("acl asking auth client cluster command config discard eval eval_ro evalsha evalsha_ro exec " +
		"extend fcall fcall_ro flushall flushdb function hello info keys lock lockinfo locks mextend mlock multi munlock " +
		"psubscribe punsubscribe quit readonly readwrite reset role scan script select spublish ssubscribe subscribe " +
		"sunsubscribe unlock unsubscribe unwatch wait waitaof watch") {
		notForScripts[name] = true
	}
}

// redisHas tells whether Redis knows a command that is not in scriptCalls, by its name in lower case.
func redisHas(name string) bool {
	_, ok := refusalOf[name]
	return ok || notForScripts[name]
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
	ks.published = append(ks.published, message{args[1], args[2]})
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
