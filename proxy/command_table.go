package proxy

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"redlockd/proxy/access"
	"redlockd/redlock/resp"
)

// The command table: what a row is, how one is made from a line of usage, and how the row of a command
// is found. The rows themselves, and how to add one, are in commands.go.
//
// A row is the only place that says how many arguments a command has, where its keys stand and who may
// send it. Permission, arity errors, COMMAND, HELP and redis-cli's hints are derived from it. Rejected:
// arity and key positions as numbers beside the usage, as Redis has them. A row then says each thing
// twice, and can contradict itself.

// command is one row of the command table, or one of its subcommands. Except for stats it does not
// change after newCommandTable, so that every goroutine may read it.
type command struct {
	// name is in lower case; of a subcommand, without that of its parent.
	name string
	// arity counts the name, too. Redis's convention: n is exactly n arguments, -n is n or more.
	arity int
	flags commandFlags
	keys  keySpec
	// handler executes the command, see type call. It is nil for a command that exists only through its
	// subcommands.
	handler func(s *session, c *call) error

	// group is one of Redis's: string, connection, server, generic, scripting, pubsub, transactions,
	// cluster.
	group string
	// since is the version of redlockd that has the command, or of Redis, if the command comes from there.
	since string
	// summary is one sentence without a full stop.
	summary string
	// arguments are what usage says. They are for the docs; the handler parses what comes.
	arguments []argDoc

	// form is the usage that errors about the arguments of redlockd's own commands show: LOCK resource
	// ttl [TOKEN token] … It is empty for the commands of Redis. Their errors have Redis's words and no
	// others, because redis-py compares the whole text.
	form string

	// permission is the group of commands that a user needs to run it, one bit; 0: none.
	permission access.Group

	// Set by newCommandTable.
	subs   []*command    // in the order of their rows
	parent *command      // of a subcommand; nil for others
	stats  *commandStats // counted by any goroutine
}

// commandFlags say how a command is treated. All but the last three are shown by COMMAND INFO under
// their names in Redis. Some are shown and have no effect here: "shown only".
type commandFlags uint16

const (
	// flagWrite, "write": needs the group access.Lock. What a script may write is in package keyspace.
	flagWrite commandFlags = 1 << iota
	// flagReadOnly, "readonly": EVAL_RO and EVALSHA_RO run scripts that must not write; shown only for
	// others.
	flagReadOnly
	// flagAdmin, "admin": for users with the commands "admin", see access.User.Groups.
	flagAdmin
	// flagPubSub, "pubsub": allowed to a subscribed RESP2 client, except PUBLISH.
	flagPubSub
	// flagNoScript, "noscript": shown only. What a script can call is in package keyspace and in
	// scriptCommands.
	flagNoScript
	// flagBlocking, "blocking": shown only. What a command keeps back, order.go says.
	flagBlocking
	// flagFast, "fast": shown only.
	flagFast
	// flagNoAuth, "no_auth": allowed before AUTH. Its handler runs for anybody, so it must cost little.
	flagNoAuth
	// flagMovable, "movablekeys": the keys stand behind a count. Set by row.
	flagMovable
	// flagLock: may grant a lock, so it is refused to a client that has ended its stream.
	flagLock
	// flagInMulti: may stand between MULTI and EXEC. The handler must queue it there, as cmdKeys does,
	// unless it is about the transaction or the connection itself.
	flagInMulti
	// flagNative: one of redlockd's own. Its errors show its usage, and an unknown name like it gets
	// "Did you mean".
	flagNative
)

// flagNames are the flags that COMMAND INFO shows, in the order of their bits.
var flagNames = []string{"write", "readonly", "admin", "pubsub", "noscript", "blocking", "fast", "no_auth", "movablekeys"}

// keySpec says where the keys of a command stand, for permissions, COMMAND INFO and COMMAND GETKEYS.
// Zero: there are none.
type keySpec struct {
	// first, last and step follow Redis's convention: positions are counted from the name, which is 0;
	// last -1 is the last argument.
	first, last, step int
	// numkeys is the position of the argument that counts the keys, which follow it. 0: the keys are at
	// first … last.
	numkeys int
}

// row makes a row of the command table. usage is the command's name and its arguments as syntax reads
// them; container|name makes it a subcommand. A bare ... at the end stands for further arguments that
// the docs do not show and that the handler checks. Arity and key positions follow from usage. It
// panics on a usage that cannot be right.
func row(usage string, handler func(*session, *call) error, flags commandFlags, group, since, summary string) command {
	name, line, _ := strings.Cut(usage, " ")
	line, more := strings.CutSuffix(line, "...")
	if more && line != "" && !strings.HasSuffix(line, " ") {
		line, more = line+"...", false // the last argument may be repeated
	}
	cmd := command{name: name, handler: handler, flags: flags, group: group, since: since, summary: summary, arguments: syntax(line)}
	least, most := 1+strings.Count(name, "|"), 0 // arguments of the whole command, its name or names among them
	most = least
	for i, arg := range cmd.arguments {
		if cmd.keys == (keySpec{}) {
			cmd.keys = keysAt(least, arg, i > 0 && cmd.arguments[i-1].name == "numkeys")
		}
		l, m := arg.count()
		least, most = least+l, most+m
	}
	if cmd.keys.numkeys > 0 {
		cmd.flags |= flagMovable
	}
	if handler == nil {
		least++ // its subcommand
	}
	if cmd.arity = least; more || most > least {
		cmd.arity = -least
	}
	cmd.permission = permissionOf(&cmd)
	if flags&flagNative != 0 {
		cmd.form = strings.TrimSpace(strings.ToUpper(strings.ReplaceAll(name, "|", " ")) + " " + hintOf(cmd.arguments, " "))
	}
	return cmd
}

// permissionOf is the group of a command. What is not known to be harmless belongs to access.Lock.
func permissionOf(cmd *command) access.Group {
	container, sub, _ := strings.Cut(cmd.name, "|")
	switch {
	case cmd.flags&flagAdmin != 0:
		return access.Admin
	case cmd.handler == nil || sub == "help" || container == "command" || cmd.flags&flagNoAuth != 0: // containers, documentation, logins
		return 0
	case cmd.flags&flagWrite != 0 || cmd.group == "scripting":
		return access.Lock
	case cmd.flags&flagReadOnly != 0 || cmd.keys != (keySpec{}) || cmd.name == "info" || cmd.flags&flagPubSub != 0 && cmd.name != "publish":
		return access.Read
	case cmd.group == "connection" || cmd.group == "transactions" || cmd.group == "cluster" || slices.Contains([]string{"time", "role", "wait"}, cmd.name):
		return 0
	}
	return access.Lock
}

// keysAt is the keySpec of an argument at this position, if it is a key or a block that begins with
// one.
func keysAt(position int, arg argDoc, counted bool) keySpec {
	step := 1
	if arg.kind == "block" {
		step = len(arg.arguments)
		arg.kind = arg.arguments[0].kind
	}
	switch {
	case arg.kind != "key":
		return keySpec{}
	case counted:
		return keySpec{numkeys: position - 1}
	case arg.multiple:
		return keySpec{first: position, last: -1, step: step}
	}
	return keySpec{first: position, last: position, step: step}
}

// fullName is how Redis names a command in errors and in COMMAND INFO: client|id for a subcommand.
func (cmd *command) fullName() string {
	if cmd.parent != nil {
		return cmd.parent.name + "|" + cmd.name
	}
	return cmd.name
}

// arityFits reports whether a command of n arguments, its name among them, is complete and not too
// long.
func arityFits(arity, n int) bool {
	if arity < 0 {
		return n >= -arity
	}
	return n == arity
}

// commandTable finds the row of a command by its name. It does not change once it is made.
type commandTable struct {
	// byName has no subcommands. Its keys are in lower case.
	byName map[string]*command
	// all is in order of name. Subcommands are in their rows.
	all []*command
	// rows is all with the subcommands of each command behind it.
	rows []*command
	// native has the names of redlockd's own commands, in capitals.
	native []string
}

// commandNameMax bounds the names that find looks for. A longer name is that of no command.
const commandNameMax = 32

// newCommandTable makes the table of rows. It panics on a table that cannot be right: rows are part of
// the program, and the first test finds it. It copies the rows, because each server counts for itself.
func newCommandTable(rows []command) *commandTable {
	t := &commandTable{byName: make(map[string]*command)}
	for _, cmd := range slices.Clone(rows) {
		if t.byName[cmd.name] != nil || len(cmd.name) > commandNameMax || cmd.arity == 0 {
			panic(fmt.Sprintf("command %q: two rows, too long a name, or no arity", cmd.name))
		}
		cmd.stats = new(commandStats)
		if container, sub, ok := strings.Cut(cmd.name, "|"); ok {
			cmd.name, cmd.parent = sub, t.byName[container]
			cmd.parent.subs = append(cmd.parent.subs, &cmd)
			continue
		}
		t.byName[cmd.name] = &cmd
		t.all = append(t.all, &cmd)
		if cmd.flags&flagNative != 0 {
			t.native = append(t.native, strings.ToUpper(cmd.name))
		}
	}
	slices.SortFunc(t.all, func(a, b *command) int { return cmp.Compare(a.name, b.name) })
	for _, cmd := range t.all {
		t.rows = append(append(t.rows, cmd), cmd.subs...)
	}
	return t
}

// find returns the row of a command, or of its subcommand; or nil, and the error to answer. A container
// without a subcommand is found itself, so that its arity or its handler answers.
func (t *commandTable) find(args [][]byte) (*command, error) {
	cmd := t.named(args[0])
	if cmd == nil {
		return nil, t.notServed(args)
	}
	if len(cmd.subs) == 0 || len(args) == 1 {
		return cmd, nil
	}
	if sub := cmd.sub(args[1]); sub != nil {
		return sub, nil
	}
	return nil, unknownSubcommand(args)
}

// goesAhead reports whether a command may be executed while others of its connection wait: those on keys
// have their turns, and these others are about nothing that a command before them could change. What is
// about the connection itself (QUIT, RESET, SUBSCRIBE, CLIENT REPLY) stays behind: it would change what
// the client is while its commands wait.
func (t *commandTable) goesAhead(args [][]byte) bool {
	cmd, _ := t.find(args)
	if cmd == nil || cmd.keys != (keySpec{}) { // the former is refused
		return true
	}
	switch cmd.group {
	case "scripting", "transactions":
		return cmd.flags&flagAdmin == 0
	}
	return slices.Contains([]string{"keepalive", "publish", "ping", "echo", "time", "info", "locks", "lockinfo"}, cmd.name) && cmd.parent == nil
}

// redisHas reports whether Redis, or this endpoint, has a command that scripts cannot call. The name is
// in lower case. All others get Redis's error for unknown commands, which a script may handle.
func (t *commandTable) redisHas(name string) bool {
	_, refused := refusalOf[name]
	return refused || t.byFullName([]byte(name)) != nil || name == "waitaof" // of Redis 7.2
}

// sub finds a subcommand by its name in any case; nil if there is none.
func (cmd *command) sub(name []byte) *command {
	for _, sub := range cmd.subs {
		if equalFold(name, sub.name) {
			return sub
		}
	}
	return nil
}

// named finds a command by its name in any case; nil if there is none. It does not allocate, because
// every command comes through here: the compiler makes no string for the look-up in a map.
func (t *commandTable) named(name []byte) *command {
	var lower [commandNameMax]byte
	if len(name) > len(lower) {
		return nil
	}
	return t.byName[string(appendLower(lower[:0], name))]
}

// notPermitted says why the user may not run this command, by what it is and the keys that it names, or
// nil. It is called before every handler, so a handler need not check keys. Channels are left to the
// commands on them. u may be nil.
func notPermitted(u *access.User, cmd *command, args [][]byte) error {
	if u == nil {
		return nil
	}
	if cmd.permission&^u.Groups() != 0 {
		return errorf("NOPERM this user has no permissions to run the '%s' command: to user %s [auth] does not give commands = [\"%s\"]",
			cmd.fullName(), u.Name, cmd.permission)
	}
	if !u.Confined() || cmd.keys == (keySpec{}) {
		return nil
	}
	keys, step, _ := cmd.keys.find(args) // what does not fit is refused by the handler, as a mistake
	for i := 0; i < len(keys); i += step {
		if !u.May(string(keys[i])) {
			return noPermission(u, "resource", string(keys[i]))
		}
	}
	return nil
}

// find returns the keys among the arguments of a command, whose name is args[0]: the first of keys, and
// each step-th behind it. The arguments between them (values, as in MSETNX) are returned with them,
// because keys is a part of args and nothing is copied.
//
// ok is false when the count of the keys does not fit the arguments. The number of arguments must fit
// the command's arity: otherwise find reads beyond the end.
func (spec keySpec) find(args [][]byte) (keys [][]byte, step int, ok bool) {
	// No more keys are taken than there are arguments. Whether the handler wants others behind them is
	// its own affair.
	if spec.numkeys > 0 {
		n, ok := resp.ParseInt(args[spec.numkeys])
		rest := args[spec.numkeys+1:]
		if !ok || n < 1 || n > int64(len(rest)) {
			return nil, 1, false
		}
		return rest[:n], 1, true
	}
	last := spec.last
	if last < 0 {
		last += len(args)
	}
	return args[spec.first : last+1], spec.step, true
}

// byFullName finds a command by the name that fullName gives it (client|list for a subcommand), in any
// case; nil if there is none.
func (t *commandTable) byFullName(name []byte) *command {
	container, sub, ok := bytes.Cut(name, []byte("|"))
	cmd := t.named(container)
	if !ok || cmd == nil {
		return cmd
	}
	return cmd.sub(sub)
}
