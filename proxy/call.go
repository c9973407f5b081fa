package proxy

import "redlockd/redlock/resp"

// command is one row of the command table (commands.go). To add a command: write its handler cmdNAME in a file cmd_*.go
// and give it a row there, with its docs; the table's test checks names, arity and docs against each other.
type command struct {
	name    string // lower case, as COMMAND INFO shows it
	arity   int    // Redis's convention: n is exact, -n is at least n; the name counts (and the subcommand's name)
	flags   commandFlags
	keys    keySpec
	docs    commandDocs
	subs    []command // subcommands (CLIENT ID, …). A row that has some is called only for the name alone, where arity allows it
	handler func(s *session, c *call)

	// form is how a command of redlockd's own is called, for errors about its arguments: LOCK resource ttl [TOKEN token] …
	// It is empty for the commands of Redis, whose errors have Redis's words and no others: redis-py compares the whole text.
	form string

	// Set by newCommandTable.
	parent *command // of a subcommand
	stats  *commandStats
}

// fullName is how Redis names a command in errors and in COMMAND INFO: client|id for a subcommand.
func (cmd *command) fullName() string {
	if cmd.parent != nil {
		return cmd.parent.name + "|" + cmd.name
	}
	return cmd.name
}

// arityFits tells whether a command of n arguments, its name among them, is complete and not too long.
func arityFits(arity, n int) bool {
	if arity < 0 {
		return n >= -arity
	}
	return n == arity
}

// commandFlags say how a command is treated, and what COMMAND INFO says of it.
type commandFlags uint16

const (
	flagNoAuth   commandFlags = 1 << iota // allowed before AUTH ("no_auth")
	flagLock                              // may grant a lock: not to a client that has ended its stream
	flagWrite                             // "write"
	flagReadOnly                          // "readonly"
	flagFast                              // "fast"
	flagBlocking                          // "blocking": may wait
	flagNoScript                          // "noscript"
	flagAdmin                             // "admin"
	flagPubSub                            // "pubsub"
	flagStale                             // "stale"
	flagLoading                           // "loading"
	flagMovable                           // "movablekeys": the keys stand behind a count
)

// keySpec says where the keys of a command stand, for COMMAND INFO and COMMAND GETKEYS. Zero: no keys.
type keySpec struct {
	first, last, step int // Redis's convention: positions counted from the name at 0; last -1 is the last argument
	numkeys           int // position of the argument that counts the keys, which follow it; 0: the keys are at first … last
}

var (
	oneKey  = keySpec{first: 1, last: 1, step: 1}
	allKeys = keySpec{first: 1, last: -1, step: 1}
)

// commandDocs are what COMMAND DOCS says, so that redis-cli can show hints.
type commandDocs struct {
	summary    string
	since      string // version of redlockd (or of Redis, for a command taken from there)
	group      string // one of Redis's groups: string, connection, server, generic, scripting, pubsub
	complexity string
	arguments  []argDoc
}

// What the commands on locks cost.
const (
	roundComplexity  = "O(M) where M is the number of masters, all asked at once"
	multiComplexity  = "O(N*M) where N is the number of resources and M that of masters, all asked at once"
	scriptComplexity = "That of the script, and O(M) where M is the number of masters, all asked at once"
)

// argDoc describes one argument of a command.
type argDoc struct {
	name      string
	kind      string // string, integer, key, pattern, unix-time, pure-token, oneof, block
	token     string // the keyword before it, or the keyword itself (pure-token)
	optional  bool
	multiple  bool
	arguments []argDoc // of oneof and block
}

// call is one command of one client on its way through its handler. A handler runs on the session's reader goroutine, in
// the order in which the client sent its commands. It either appends its reply to out, or takes the reply's place with
// later (or takePlace) and completes it afterwards from any goroutine. It must not block.
type call struct {
	// args are the command's name and arguments. They alias the session's read buffer and are valid until the handler
	// returns: copy what is kept.
	args [][]byte
	// out is where the handler appends its reply: exactly one, in the client's protocol version.
	out []byte
	// proto is the protocol version of this reply, 2 or 3.
	proto int

	s    *session
	cmd  *command // its row, or its subcommand's; nil when there is none
	slot *slot    // set when the reply comes later
}

// later takes the reply's place among the replies of this client, for a handler that cannot answer at once.
func (c *call) later() *slot {
	sl := new(slot)
	c.takePlace(sl)
	return sl
}

// takePlace is later for a slot that is embedded in an object of the caller's.
func (c *call) takePlace(sl *slot) {
	c.slot = sl
	c.s.enqueue(sl, c.proto, false)
}

// takePlaceAndHold is takePlace for a command that may wait, as BLPOP does: no command behind it is executed before it
// is complete. Once the operation it waits for is started, session.waits must be told, so that the wait can be ended.
func (c *call) takePlaceAndHold(sl *slot) {
	c.slot = sl
	c.s.enqueue(sl, c.proto, true)
}

// fail answers with an error: its text begins with its code.
func (c *call) fail(text string) { c.out = appendError(c.out, text) }

func (c *call) ok() { c.out = resp.AppendOK(c.out) }
