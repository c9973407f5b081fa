package proxy

import (
	"strconv"
	"strings"

	"redlockd/redlock/sandbox"
)

// The commands that a script may call, on the mini state of script_state.go. Replies, errors and their words are those of
// Redis 7.0; SET IFEQ and IFNE, DELEX are those of Redis 8.4, DELIFEQ is Valkey's.
//
// To add one: a row, a function that notes what it reads and writes through the methods of stateKey, a line in the
// generator of script_differential_test.go.

// scriptCommand has an arity as in the command table, and runs on args whose number fits.
type scriptCommand struct {
	arity int
	run   func(st *scriptState, args []string) (sandbox.Reply, error)
}

var scriptCalls map[string]scriptCommand

func init() {
	scriptCalls = map[string]scriptCommand{
		"get":         {2, scriptGET},
		"mget":        {-2, scriptMGET},
		"strlen":      {2, scriptSTRLEN},
		"getrange":    {4, scriptGETRANGE},
		"substr":      {4, scriptGETRANGE},
		"exists":      {-2, scriptEXISTS},
		"type":        {2, scriptTYPE},
		"ttl":         {2, scriptLifetime(true, false)},
		"pttl":        {2, scriptLifetime(false, false)},
		"expiretime":  {2, scriptLifetime(true, true)},
		"pexpiretime": {2, scriptLifetime(false, true)},

		"set":    {-3, scriptSET},
		"setnx":  {3, scriptSETNX},
		"setex":  {4, scriptSETEX},
		"psetex": {4, scriptSETEX},
		"getset": {3, scriptGETSET},
		"getdel": {2, scriptGETDEL},
		"getex":  {-2, scriptGETEX},
		"mset":   {-3, scriptMSET},
		"msetnx": {-3, scriptMSETNX},

		"del":     {-2, scriptDEL},
		"unlink":  {-2, scriptDEL},
		"delex":   {-2, scriptDELEX},
		"delifeq": {3, scriptDELIFEQ},

		"expire":    {-3, scriptEXPIRE},
		"pexpire":   {-3, scriptEXPIRE},
		"expireat":  {-3, scriptEXPIRE},
		"pexpireat": {-3, scriptEXPIRE},
		"persist":   {2, scriptPERSIST},

		"time":    {1, scriptTIME},
		"publish": {3, scriptPUBLISH},
		"echo":    {2, scriptECHO},
		"ping":    {-1, scriptPING},
	}
}

// Call executes a command for the running script: the sandbox calls it.
func (st *scriptState) Call(args []string, resp int) (sandbox.Reply, error) {
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
	case st.readOnly && !readingCalls[name]:
		return failure("ERR Write commands are not allowed from read-only scripts."), nil
	}
	return cmd.run(st, args)
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

func failure(text string) sandbox.Reply { return sandbox.Reply{Kind: sandbox.Error, Text: text} }
func integer(n int64) sandbox.Reply     { return sandbox.Reply{Kind: sandbox.Int, Int: n} }
func bulk(text string) sandbox.Reply    { return sandbox.Reply{Kind: sandbox.Bulk, Text: text} }

var statusOK = sandbox.Reply{Kind: sandbox.Status, Text: "OK"}

func boolean(b bool) sandbox.Reply { return integer(int64(oneIf(b))) }

func bulkOrNil(text string, ok bool) sandbox.Reply {
	if !ok {
		return sandbox.Reply{}
	}
	return bulk(text)
}

func scriptTIME(st *scriptState, args []string) (sandbox.Reply, error) {
	st.readTime = true
	return sandbox.Reply{Kind: sandbox.Array, Elems: []sandbox.Reply{
		bulk(strconv.FormatInt(st.clock.Unix(), 10)),
		bulk(strconv.Itoa(st.clock.Nanosecond() / 1000)),
	}}, nil
}

// scriptPUBLISH answers that nobody heard it: who does is not known before the script has been committed.
func scriptPUBLISH(st *scriptState, args []string) (sandbox.Reply, error) {
	st.published = append(st.published, message{args[1], args[2]})
	return integer(0), nil
}

func scriptECHO(_ *scriptState, args []string) (sandbox.Reply, error) { return bulk(args[1]), nil }

func scriptPING(_ *scriptState, args []string) (sandbox.Reply, error) {
	switch len(args) {
	case 1:
		return sandbox.Reply{Kind: sandbox.Status, Text: "PONG"}, nil
	case 2:
		return bulk(args[1]), nil
	}
	return failure("ERR wrong number of arguments for 'ping' command"), nil
}
