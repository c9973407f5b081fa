package memmaster

import (
	"fmt"
	"strings"
)

// command is one Redis command, or a subcommand. To add one: write its handler cmdNAME beside its kin, add a row to the
// table, and let the differential test send it with good, odd and wrong arguments.
type command struct {
	name  string // lower case; of a subcommand with its parent, "client|id"
	arity int    // number of arguments with the name; negative: at least so many
	flags commandFlags
	keys  keySpec
	run   func(c *client, args [][]byte)
	sub   map[string]*command // a container: the subcommand is argument 1
}

type commandFlags uint8

const (
	flagWrite    commandFlags = 1 << iota // changes data: refused by a replica and by EVAL_RO
	flagRead                              // reads keys, which client-side caching then tracks
	flagNoScript                          // refused in a script
	flagNoAuth                            // allowed before AUTH
	flagPubSub                            // allowed while subscribed in RESP2
	flagNoMulti                           // executed at once inside MULTI
)

// keySpec says which arguments are keys: from first to last (negative: counted from the end), every step-th.
type keySpec struct{ first, last, step int }

var (
	oneKey     = keySpec{1, 1, 1}
	allKeys    = keySpec{1, -1, 1}
	everyOther = keySpec{1, -1, 2}
)

// commands is the table, by lower-case name. It is filled by init because handlers read it.
var commands map[string]*command

func init() {
	commands = table("",
		// Strings.
		&command{"get", 2, flagRead, oneKey, cmdGET, nil},
		&command{"set", -3, flagWrite, oneKey, cmdSET, nil},
		&command{"setnx", 3, flagWrite, oneKey, cmdSETNX, nil},
		&command{"setex", 4, flagWrite, oneKey, cmdSETEX, nil},
		&command{"psetex", 4, flagWrite, oneKey, cmdPSETEX, nil},
		&command{"getdel", 2, flagWrite, oneKey, cmdGETDEL, nil},
		&command{"getex", -2, flagWrite, oneKey, cmdGETEX, nil},
		&command{"mget", -2, flagRead, allKeys, cmdMGET, nil},
		&command{"mset", -3, flagWrite, everyOther, cmdMSET, nil},
		&command{"msetnx", -3, flagWrite, everyOther, cmdMSETNX, nil},
		&command{"strlen", 2, flagRead, oneKey, cmdSTRLEN, nil},
		&command{"append", 3, flagWrite, oneKey, cmdAPPEND, nil},
		&command{"getrange", 4, flagRead, oneKey, cmdGETRANGE, nil},
		&command{"incr", 2, flagWrite, oneKey, cmdINCR, nil},
		&command{"decr", 2, flagWrite, oneKey, cmdDECR, nil},
		&command{"incrby", 3, flagWrite, oneKey, cmdINCRBY, nil},
		&command{"decrby", 3, flagWrite, oneKey, cmdDECRBY, nil},
		&command{"delex", -2, flagWrite, oneKey, cmdDELEX, nil},
		&command{"delifeq", 3, flagWrite, oneKey, cmdDELIFEQ, nil},

		// Keys of any type.
		&command{"del", -2, flagWrite, allKeys, cmdDEL, nil},
		&command{"unlink", -2, flagWrite, allKeys, cmdDEL, nil},
		&command{"exists", -2, flagRead, allKeys, cmdEXISTS, nil},
		&command{"type", 2, flagRead, oneKey, cmdTYPE, nil},
		&command{"keys", 2, flagRead, keySpec{}, cmdKEYS, nil},
		&command{"scan", -2, flagRead, keySpec{}, cmdSCAN, nil},
		&command{"dbsize", 1, flagRead, keySpec{}, cmdDBSIZE, nil},
		&command{"flushdb", -1, flagWrite, keySpec{}, cmdFLUSHDB, nil},
		&command{"flushall", -1, flagWrite, keySpec{}, cmdFLUSHALL, nil},
		&command{"swapdb", 3, flagWrite, keySpec{}, cmdSWAPDB, nil},

		// Expiry.
		&command{"ttl", 2, flagRead, oneKey, cmdTTL, nil},
		&command{"pttl", 2, flagRead, oneKey, cmdPTTL, nil},
		&command{"expiretime", 2, flagRead, oneKey, cmdEXPIRETIME, nil},
		&command{"pexpiretime", 2, flagRead, oneKey, cmdPEXPIRETIME, nil},
		&command{"expire", -3, flagWrite, oneKey, cmdEXPIRE, nil},
		&command{"pexpire", -3, flagWrite, oneKey, cmdPEXPIRE, nil},
		&command{"expireat", -3, flagWrite, oneKey, cmdEXPIREAT, nil},
		&command{"pexpireat", -3, flagWrite, oneKey, cmdPEXPIREAT, nil},
		&command{"persist", 2, flagWrite, oneKey, cmdPERSIST, nil},

		// Hashes and sorted sets.
		&command{"hget", 3, flagRead, oneKey, cmdHGET, nil},
		&command{"hmget", -3, flagRead, oneKey, cmdHMGET, nil},
		&command{"hgetall", 2, flagRead, oneKey, cmdHGETALL, nil},
		&command{"hset", -4, flagWrite, oneKey, cmdHSET, nil},
		&command{"hdel", -3, flagWrite, oneKey, cmdHDEL, nil},
		&command{"hincrby", 4, flagWrite, oneKey, cmdHINCRBY, nil},
		&command{"zadd", -4, flagWrite, oneKey, cmdZADD, nil},
		&command{"zscore", 3, flagRead, oneKey, cmdZSCORE, nil},
		&command{"zcard", 2, flagRead, oneKey, cmdZCARD, nil},
		&command{"zrem", -3, flagWrite, oneKey, cmdZREM, nil},
		&command{"zpopmin", -2, flagWrite, oneKey, cmdZPOPMIN, nil},
		&command{"zrevrange", -4, flagRead, oneKey, cmdZREVRANGE, nil},

		// Transactions, scripts, messages.
		&command{"multi", 1, flagNoScript | flagNoMulti, keySpec{}, cmdMULTI, nil},
		&command{"exec", 1, flagNoScript | flagNoMulti, keySpec{}, cmdEXEC, nil},
		&command{"discard", 1, flagNoScript | flagNoMulti, keySpec{}, cmdDISCARD, nil},
		&command{"watch", -2, flagNoScript | flagNoMulti, allKeys, cmdWATCH, nil},
		&command{"unwatch", 1, flagNoScript, keySpec{}, cmdUNWATCH, nil},
		&command{"eval", -3, flagNoScript, keySpec{}, cmdEVAL, nil},
		&command{"evalsha", -3, flagNoScript, keySpec{}, cmdEVALSHA, nil},
		&command{"eval_ro", -3, flagNoScript, keySpec{}, cmdEVALRO, nil},
		&command{"evalsha_ro", -3, flagNoScript, keySpec{}, cmdEVALSHARO, nil},
		container("script", flagNoScript,
			&command{"load", 3, flagNoScript, keySpec{}, cmdSCRIPTLOAD, nil},
			&command{"exists", -3, flagNoScript, keySpec{}, cmdSCRIPTEXISTS, nil},
			&command{"flush", -2, flagNoScript, keySpec{}, cmdSCRIPTFLUSH, nil}),
		&command{"publish", 3, 0, keySpec{}, cmdPUBLISH, nil},
		&command{"subscribe", -2, flagNoScript | flagPubSub, keySpec{}, cmdSUBSCRIBE, nil},
		&command{"unsubscribe", -1, flagNoScript | flagPubSub, keySpec{}, cmdUNSUBSCRIBE, nil},

		// The connection.
		&command{"ping", -1, flagPubSub, keySpec{}, cmdPING, nil},
		&command{"echo", 2, 0, keySpec{}, cmdECHO, nil},
		&command{"hello", -1, flagNoScript | flagNoAuth, keySpec{}, cmdHELLO, nil},
		&command{"auth", -2, flagNoScript | flagNoAuth, keySpec{}, cmdAUTH, nil},
		&command{"select", 2, 0, keySpec{}, cmdSELECT, nil},
		&command{"quit", -1, flagNoScript | flagNoAuth | flagPubSub | flagNoMulti, keySpec{}, cmdQUIT, nil},
		&command{"reset", 1, flagNoScript | flagNoAuth | flagPubSub | flagNoMulti, keySpec{}, cmdRESET, nil},
		container("client", flagNoScript,
			&command{"id", 2, flagNoScript, keySpec{}, cmdCLIENTID, nil},
			&command{"getname", 2, flagNoScript, keySpec{}, cmdCLIENTGETNAME, nil},
			&command{"setname", 3, flagNoScript, keySpec{}, cmdCLIENTSETNAME, nil},
			&command{"setinfo", 4, flagNoScript, keySpec{}, cmdCLIENTSETINFO, nil},
			&command{"no-evict", 3, flagNoScript, keySpec{}, cmdCLIENTNOEVICT, nil},
			&command{"kill", -3, flagNoScript, keySpec{}, cmdCLIENTKILL, nil},
			&command{"caching", 3, flagNoScript, keySpec{}, cmdCLIENTCACHING, nil},
			&command{"tracking", -3, flagNoScript, keySpec{}, cmdCLIENTTRACKING, nil}),

		// The server.
		&command{"info", -1, 0, keySpec{}, cmdINFO, nil},
		&command{"time", 1, 0, keySpec{}, cmdTIME, nil},
		&command{"role", 1, flagNoScript, keySpec{}, cmdROLE, nil},
		&command{"replicaof", 3, flagNoScript, keySpec{}, cmdREPLICAOF, nil},
		&command{"wait", 3, flagNoScript, keySpec{}, cmdWAIT, nil},
		container("config", flagNoScript,
			&command{"get", -3, flagNoScript, keySpec{}, cmdCONFIGGET, nil},
			&command{"set", -4, flagNoScript, keySpec{}, cmdCONFIGSET, nil},
			&command{"resetstat", 2, flagNoScript, keySpec{}, cmdCONFIGRESETSTAT, nil}),
		&command{"command", -1, 0, keySpec{}, cmdCOMMAND, table("command",
			&command{"count", 2, 0, keySpec{}, cmdCOMMANDCOUNT, nil},
			&command{"docs", -2, 0, keySpec{}, cmdCOMMANDDOCS, nil},
			&command{"info", -2, 0, keySpec{}, cmdCOMMANDINFO, nil})},
		&command{"cluster", -2, 0, keySpec{}, cmdCLUSTER, nil},
	)
}

func table(parent string, rows ...*command) map[string]*command {
	t := map[string]*command{}
	for _, cmd := range rows {
		t[cmd.name] = cmd
		if parent != "" {
			cmd.name = parent + "|" + cmd.name
		}
	}
	return t
}

func container(name string, flags commandFlags, rows ...*command) *command {
	return &command{name, -2, flags, keySpec{}, nil, table(name, rows...)}
}

// lookup finds a command by its arguments; of a container the subcommand. found is false with cmd set when only the
// subcommand is unknown.
func (m *Master) lookup(args [][]byte) (cmd *command, found bool) {
	cmd = find(commands, args[0])
	if cmd == nil || cmd.name == "delex" && !m.options.IFEQ || cmd.name == "delifeq" && !m.options.DELIFEQ {
		return nil, false
	}
	if cmd.sub == nil || len(args) < 2 {
		return cmd, true
	}
	if sub := find(cmd.sub, args[1]); sub != nil {
		return sub, true
	}
	return cmd, false
}

func find(t map[string]*command, name []byte) *command {
	var room [wordSize]byte
	return t[string(lower(&room, name))]
}

// wordSize is more than the longest name of a command or an option.
const wordSize = 16

// lower copies a word in lower case into room. One that is too long to be any name becomes empty.
func lower(room *[wordSize]byte, word []byte) []byte {
	if len(word) > len(room) {
		return nil
	}
	for i, b := range word {
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		room[i] = b
	}
	return room[:len(word)]
}

func (cmd *command) arityFits(n int) bool {
	return n == cmd.arity || cmd.arity < 0 && n >= -cmd.arity
}

// keysOf lists a command's keys. Only for a call whose arity fits.
func (cmd *command) keysOf(args [][]byte) [][]byte {
	k := cmd.keys
	if k.first == 0 {
		return nil
	}
	last := k.last
	if last < 0 {
		last += len(args)
	}
	if k.step == 1 {
		return args[k.first : last+1]
	}
	var keys [][]byte
	for i := k.first; i <= last; i += k.step {
		keys = append(keys, args[i])
	}
	return keys
}

// process is a client's command on its way to the handler: known, allowed, and now or at EXEC?
func (m *Master) process(c *client, args [][]byte) {
	m.readClock()
	m.data.sweep(sweepMax)
	cmd, found := m.lookup(args)
	if refusal := m.refusal(c, cmd, found, args); refusal != "" {
		c.tx.broken = true // EXEC of a transaction that has begun will fail
		c.fail(refusal)
		return
	}
	if c.tx.open && cmd.flags&flagNoMulti == 0 {
		c.enqueue(cmd, args)
		return
	}
	m.call(c, c, cmd, args)
	c.caching = max(0, c.caching-1)
	c.out = append(c.out, c.after...)
	c.after = c.after[:0]
}

// refusal is the error that keeps a command from being executed, or "".
func (m *Master) refusal(c *client, cmd *command, found bool, args [][]byte) string {
	switch {
	case cmd == nil:
		return unknownCommand(args)
	case !found:
		return fmt.Sprintf("ERR unknown subcommand '%.128s'. Try %s HELP.", args[1], strings.ToUpper(cmd.name))
	case !cmd.arityFits(len(args)) || cmd.run == nil:
		return "ERR wrong number of arguments for '" + cmd.name + "' command"
	case c.user == "" && cmd.flags&flagNoAuth == 0:
		return "NOAUTH Authentication required."
	case cmd.flags&flagWrite != 0 && m.replicaOf != nil:
		return errReadOnly
	case len(c.channels) > 0 && c.resp == 2 && cmd.flags&flagPubSub == 0:
		return "ERR Can't execute '" + cmd.name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
	}
	return ""
}

const errReadOnly = "READONLY You can't write against a read only replica."

func unknownCommand(args [][]byte) string {
	const shown = 128
	var b strings.Builder
	for _, arg := range args[1:] {
		if b.Len() >= shown {
			break
		}
		fmt.Fprintf(&b, "'%.*s' ", shown-b.Len(), arg)
	}
	return fmt.Sprintf("ERR unknown command '%.128s', with args beginning with: %s", args[0], b.String())
}

// call executes a command: its reply goes to c, its effects on caching to the caller, which differs from c in a script.
func (m *Master) call(c, caller *client, cmd *command, args [][]byte) {
	m.executed++
	cmd.run(c, args)
	if t := caller.tracking; t.on && cmd.flags&flagRead != 0 && (!t.optIn || caller.caching > 0) {
		m.track(caller, cmd.keysOf(args))
	}
}

// is reports whether an argument is the given word in any case.
func is(arg []byte, word string) bool {
	return len(arg) == len(word) && strings.EqualFold(string(arg), word)
}
