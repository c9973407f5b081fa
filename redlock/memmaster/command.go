package memmaster

import (
	"fmt"
	"strings"
)

// command is one Redis command, or a subcommand. To add one: write its handler cmdNAME beside its kin,
// add a row to the table, and let the differential test send it with good, odd and wrong arguments.
type command struct {
	name  string // lower case; of a subcommand with its parent, "client|id"
	arity int    // number of arguments with the name; negative: at least so many
	flags commandFlags
	keys  keyPositions
	run   func(c *client, args [][]byte)
	sub   map[string]*command // a container: the subcommand is argument 1
}

type commandFlags uint8

const (
	flagWrite    commandFlags = 1 << iota // changes data: refused by a replica
	flagRead                              // reads keys, which client-side caching then tracks
	flagNoScript                          // refused in a script
	flagNoAuth                            // allowed before a login
	flagPubSub                            // allowed while subscribed
	flagGrows                             // refused while the memory is full
)

// keyPositions says which arguments are keys.
type keyPositions uint8

const (
	noKeys  keyPositions = iota
	oneKey               // the first behind the name
	allKeys              // all behind it
)

// on runs a command whose key must hold a value of this kind, or nothing. e is its entry.
func on(of kind, run func(c *client, e *entry, args [][]byte)) func(c *client, args [][]byte) {
	return func(c *client, args [][]byte) {
		if e, ok := c.lookup(args[1], of); ok {
			run(c, e, args)
		}
	}
}

// commands is the table, by lower-case name: what redlockd sends, from outside and from its scripts,
// and what its tests need to harm a master. It is filled by init because handlers read it.
var commands map[string]*command

func init() {
	commands = table("",
		// Strings.
		&command{"get", 2, flagRead, oneKey, on(isString, cmdGET), nil},
		&command{"mget", -2, flagRead, allKeys, cmdMGET, nil},
		&command{"set", -3, flagWrite | flagGrows, oneKey, cmdSET, nil},
		&command{"incr", 2, flagWrite | flagGrows, oneKey, on(isString, cmdINCR), nil},
		&command{"delex", 4, flagWrite, oneKey, cmdDELEX, nil},
		&command{"delifeq", 3, flagWrite, oneKey, cmdDELIFEQ, nil},

		// Sorted sets: the marks of fencing tokens, and the readers of a resource.
		&command{"zadd", -4, flagWrite | flagGrows, oneKey, cmdZADD, nil},
		&command{"zscore", 3, flagRead, oneKey, on(isZset, cmdZSCORE), nil},
		&command{"zcard", 2, flagRead, oneKey, on(isZset, cmdZCARD), nil},
		&command{"zpopmin", -2, flagWrite, oneKey, cmdZPOPMIN, nil},
		&command{"zrem", -3, flagWrite, oneKey, on(isZset, cmdZREM), nil},
		&command{"zremrangebyscore", 4, flagWrite, oneKey, cmdZREMRANGEBYSCORE, nil},
		&command{"zrevrange", -4, flagRead, oneKey, cmdZREVRANGE, nil},

		// Hashes: the membership.
		&command{"hget", 3, flagRead, oneKey, on(isHash, cmdHGET), nil},
		&command{"hmget", -3, flagRead, oneKey, on(isHash, cmdHMGET), nil},
		&command{"hgetall", 2, flagRead, oneKey, on(isHash, cmdHGETALL), nil},
		&command{"hkeys", 2, flagRead, oneKey, on(isHash, cmdHKEYS), nil},
		&command{"hset", -4, flagWrite | flagGrows, oneKey, cmdHSET, nil},
		&command{"hsetnx", 4, flagWrite | flagGrows, oneKey, on(isHash, cmdHSETNX), nil},
		&command{"hdel", -3, flagWrite, oneKey, on(isHash, cmdHDEL), nil},
		&command{"hincrby", 4, flagWrite | flagGrows, oneKey, cmdHINCRBY, nil},

		// Keys of any type.
		&command{"del", -2, flagWrite, allKeys, cmdDEL, nil},
		&command{"unlink", -2, flagWrite, allKeys, cmdDEL, nil},
		&command{"exists", -2, flagRead, allKeys, cmdEXISTS, nil},
		&command{"type", 2, flagRead, oneKey, cmdTYPE, nil},
		&command{"pttl", 2, flagRead, oneKey, cmdPTTL, nil},
		&command{"pexpire", 3, flagWrite, oneKey, cmdPEXPIRE, nil},
		&command{"scan", -2, flagRead, noKeys, cmdSCAN, nil},
		&command{"dbsize", 1, flagRead, noKeys, cmdDBSIZE, nil},
		&command{"flushdb", -1, flagWrite, noKeys, cmdFLUSHDB, nil},
		&command{"flushall", -1, flagWrite, noKeys, cmdFLUSHALL, nil},
		&command{"swapdb", 3, flagWrite, noKeys, cmdSWAPDB, nil},

		// Scripts and messages.
		&command{"eval", -3, flagNoScript, noKeys, cmdEVAL, nil},
		&command{"evalsha", -3, flagNoScript, noKeys, cmdEVALSHA, nil},
		container("script",
			&command{"load", 3, flagNoScript, noKeys, cmdSCRIPTLOAD, nil},
			&command{"flush", -2, flagNoScript, noKeys, cmdSCRIPTFLUSH, nil}),
		&command{"publish", 3, 0, noKeys, cmdPUBLISH, nil},
		&command{"subscribe", -2, flagNoScript | flagPubSub, noKeys, cmdSUBSCRIBE, nil},

		// The connection.
		&command{"ping", -1, flagPubSub, noKeys, cmdPING, nil},
		&command{"auth", -2, flagNoScript | flagNoAuth, noKeys, cmdAUTH, nil},
		&command{"select", 2, flagNoScript, noKeys, cmdSELECT, nil},
		&command{"hello", -1, flagNoScript | flagNoAuth, noKeys, cmdHELLO, nil},
		container("client",
			&command{"id", 2, flagNoScript, noKeys, cmdCLIENTID, nil},
			&command{"kill", 4, flagNoScript, noKeys, cmdCLIENTKILL, nil},
			&command{"caching", 3, flagNoScript, noKeys, cmdCLIENTCACHING, nil},
			&command{"tracking", -3, flagNoScript, noKeys, cmdCLIENTTRACKING, nil}),

		// The server.
		&command{"info", -1, 0, noKeys, cmdINFO, nil},
		&command{"time", 1, 0, noKeys, cmdTIME, nil},
		&command{"replicaof", 3, flagNoScript, noKeys, cmdREPLICAOF, nil},
		container("config",
			&command{"set", -4, flagNoScript, noKeys, cmdCONFIGSET, nil}),
	)
}

// table makes the rows findable, and gives subcommands their full names.
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

// container is a command that only has subcommands.
func container(name string, rows ...*command) *command {
	return &command{name, -2, flagNoScript, noKeys, nil, table(name, rows...)}
}

// lookup finds a command by its arguments; of a container the subcommand. found is false with cmd set
// when only the subcommand is unknown.
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

// find looks a name up in any case, without making a string of it.
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

// arityFits tells whether a call with n arguments, its name included, has enough and not too many.
func (cmd *command) arityFits(n int) bool {
	return n == cmd.arity || cmd.arity < 0 && n >= -cmd.arity
}

// keysOf lists a command's keys. Only for a call whose arity fits.
func (cmd *command) keysOf(args [][]byte) [][]byte {
	switch cmd.keys {
	case oneKey:
		return args[1:2]
	case allKeys:
		return args[1:]
	}
	return nil
}

// process executes a client's command, if it is known and allowed.
func (m *Master) process(c *client, args [][]byte) {
	m.readClock()
	m.data.sweep(sweepMax)
	cmd, found := m.lookup(args)
	if refusal := m.refusal(c, cmd, found, args); refusal != "" {
		c.fail(refusal)
		return
	}
	if c.db != 0 {
		m.data.selectOther()
		defer m.data.selectOther()
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
	case !c.authenticated && cmd.flags&flagNoAuth == 0:
		return "NOAUTH Authentication required."
	case cmd.flags&flagWrite != 0 && m.replicaOf != nil:
		return errReadOnly
	case cmd.flags&flagGrows != 0 && m.full:
		return errFull
	case len(c.channels) > 0 && cmd.flags&flagPubSub == 0:
		return "ERR Can't execute '" + cmd.name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
	}
	return ""
}

const (
	errReadOnly = "READONLY You can't write against a read only replica."
	errFull     = "OOM command not allowed when used memory > 'maxmemory'."
)

// unknownCommand is Redis's refusal, which shows at most 128 bytes of the name and of the arguments.
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

// call executes a command: its reply goes to c, its effects on caching to the caller, which differs
// from c in a script.
func (m *Master) call(c, caller *client, cmd *command, args [][]byte) {
	cmd.run(c, args)
	if t := caller.tracking; t.on && cmd.flags&flagRead != 0 && (!t.optIn || caller.caching > 0) {
		m.track(caller, cmd.keysOf(args))
	}
}

// is reports whether an argument is the given word in any case.
func is(arg []byte, word string) bool {
	return len(arg) == len(word) && strings.EqualFold(string(arg), word)
}
