package keyspace

import (
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// Command is a command on keys whose arguments have been read. It may be executed on several Spaces.
type Command struct {
	definition *Definition
	// name is in lower case.
	name string
	// args stand behind the name.
	args []string

	// set has the options of SET, GETEX and DELEX, and the time of SETEX. Definition.read has found
	// them in args.
	set Set
	// expire has those of EXPIRE and its kin, likewise.
	expire expiry
	// start and end are those of GETRANGE and of ranges by rank.
	start, end int64
	// by is the increment of INCRBY and HINCRBY.
	by int64
	// zadd has what ZADD and ZINCRBY say.
	zadd zaddArgs
	// ranged has the range of a command on a part of a sorted set.
	ranged rangeArgs
	// refusal is the error of GETEX if its key exists: Redis looks at the time only then.
	refusal string

	// assumes is what the sender takes each key to hold; nil: nobody can tell.
	assumes *redlock.State
	// denied is the reply if the keys do not hold what is assumed; nil: it depends on what they hold.
	denied *Reply
}

// Definition is what is known of a command by its name.
type Definition struct {
	// Arity counts the arguments as Redis does: n is exact, -n is at least n, and the name counts.
	Arity int
	// Writes is true for a command that may change its keys.
	Writes bool
	// absent: the sender takes all keys to be absent. The command answers 0 if one is not.
	absent bool
	// keys says which arguments are keys.
	keys keyPositions
	// instead is what to use in the place of a command that could change another's lock, for the error.
	instead string
	// read reads the options of the command; nil: it has none.
	read func(c *Command) (refusal string)
	// on is the kind that the first key must hold if it holds anything: else the reply is WRONGTYPE.
	// nothing: any will do.
	on kind
	// run executes the command. Its keys stand in the order of Command.Keys.
	run func(s *Space, c *Command, keys []*key) Reply
}

// keyPositions says which arguments of a command are keys.
type keyPositions uint8

const (
	firstKey keyPositions = iota // the argument behind the name
	allKeys                      // all behind the name
	pairKeys                     // every other one: MSET key value key value
)

// What the refusals of commands that compare nothing recommend.
const (
	insteadOfSET    = "take a lock with SET key token NX PX ms or LOCK, extend it with SET key token IFEQ token PX ms or EXTEND, and keep cache entries at a Redis of its own"
	insteadOfDEL    = "release a lock with UNLOCK key token, DELEX key IFEQ token, or a script that compares first"
	insteadOfEXPIRE = "extend a lock with EXTEND key token ms, SET key token IFEQ token PX ms, or a script that compares first"
	insteadOfINCR   = "count under a name that is no lock's, from an INCR or a SET without NX and a TTL on"
	insteadOfZREM   = "remove members by their names, or those up to a score"
)

// definitions are the commands, by their names in lower case.
var definitions = map[string]*Definition{
	"get":         {Arity: 2, on: text, run: runGET},
	"mget":        {Arity: -2, run: runMGET, keys: allKeys},
	"strlen":      {Arity: 2, on: text, run: runSTRLEN},
	"getrange":    {Arity: 4, read: readGETRANGE, on: text, run: runGETRANGE},
	"substr":      {Arity: 4, read: readGETRANGE, on: text, run: runGETRANGE},
	"exists":      {Arity: -2, run: runEXISTS, keys: allKeys},
	"type":        {Arity: 2, run: runTYPE},
	"ttl":         {Arity: 2, run: runTTL},
	"pttl":        {Arity: 2, run: runTTL},
	"expiretime":  {Arity: 2, run: runTTL},
	"pexpiretime": {Arity: 2, run: runTTL},

	"set":    {Arity: -3, Writes: true, read: readSET, run: runSET, instead: insteadOfSET},
	"setnx":  {Arity: 3, Writes: true, absent: true, run: runMSETNX},
	"setex":  {Arity: 4, Writes: true, read: readSETEX, run: runSETEX, instead: insteadOfSET},
	"psetex": {Arity: 4, Writes: true, read: readSETEX, run: runSETEX, instead: insteadOfSET},
	"getset": {Arity: 3, Writes: true, on: text, run: runGETSET, instead: insteadOfSET},
	"getdel": {Arity: 2, Writes: true, on: text, run: runGETDEL, instead: insteadOfDEL},
	"getex":  {Arity: -2, Writes: true, read: readGETEX, on: text, run: runGETEX, instead: insteadOfEXPIRE},
	"mset":   {Arity: -3, Writes: true, read: readPairs, run: runMSET, keys: pairKeys, instead: insteadOfSET},
	"msetnx": {Arity: -3, Writes: true, absent: true, read: readPairs, run: runMSETNX, keys: pairKeys},

	"del":     {Arity: -2, Writes: true, run: runDEL, keys: allKeys, instead: insteadOfDEL},
	"unlink":  {Arity: -2, Writes: true, run: runDEL, keys: allKeys, instead: insteadOfDEL},
	"delex":   {Arity: -2, Writes: true, read: readDELEX, run: runDELEX, instead: insteadOfDEL},
	"delifeq": {Arity: 3, Writes: true, read: readDELIFEQ, run: runDELEX},

	"expire":    {Arity: -3, Writes: true, read: readEXPIRE, run: runEXPIRE, instead: insteadOfEXPIRE},
	"pexpire":   {Arity: -3, Writes: true, read: readEXPIRE, run: runEXPIRE, instead: insteadOfEXPIRE},
	"expireat":  {Arity: -3, Writes: true, read: readEXPIRE, run: runEXPIRE, instead: insteadOfEXPIRE},
	"pexpireat": {Arity: -3, Writes: true, read: readEXPIRE, run: runEXPIRE, instead: insteadOfEXPIRE},
	"persist":   {Arity: 2, Writes: true, run: runPERSIST, instead: insteadOfEXPIRE},

	"incr":   {Arity: 2, Writes: true, read: readINCR, on: text, run: runINCRBY, instead: insteadOfINCR},
	"decr":   {Arity: 2, Writes: true, read: readINCR, on: text, run: runINCRBY, instead: insteadOfINCR},
	"incrby": {Arity: 3, Writes: true, read: readINCR, on: text, run: runINCRBY, instead: insteadOfINCR},
	"decrby": {Arity: 3, Writes: true, read: readINCR, on: text, run: runINCRBY, instead: insteadOfINCR},

	"hget":    {Arity: 3, on: hash, run: runMember(valueOf)},
	"hmget":   {Arity: -3, on: hash, run: runMembers(valueOf)},
	"hexists": {Arity: 3, on: hash, run: runMember(isThere)},
	"hstrlen": {Arity: 3, on: hash, run: runMember(lengthOf)},
	"hlen":    {Arity: 2, on: hash, run: runCARD},
	"hkeys":   {Arity: 2, on: hash, run: runHGETALL},
	"hvals":   {Arity: 2, on: hash, run: runHGETALL},
	"hgetall": {Arity: 2, on: hash, run: runHGETALL},
	"hset":    {Arity: -4, Writes: true, read: readPairs, on: hash, run: runHSET},
	"hmset":   {Arity: -4, Writes: true, read: readPairs, on: hash, run: runHSET},
	"hsetnx":  {Arity: 4, Writes: true, on: hash, run: runHSETNX},
	"hincrby": {Arity: 4, Writes: true, read: readHINCRBY, on: hash, run: runHINCRBY},
	"hdel":    {Arity: -3, Writes: true, on: hash, run: runREM},

	"scard":      {Arity: 2, on: set, run: runCARD},
	"sismember":  {Arity: 3, on: set, run: runMember(isThere)},
	"smismember": {Arity: -3, on: set, run: runMembers(isThere)},
	"smembers":   {Arity: 2, on: set, run: runSMEMBERS},
	"sadd":       {Arity: -3, Writes: true, on: set, run: runSADD},
	"srem":       {Arity: -3, Writes: true, on: set, run: runREM},

	"zcard":            {Arity: 2, on: zset, run: runCARD},
	"zscore":           {Arity: 3, on: zset, run: runMember(scoreOf)},
	"zmscore":          {Arity: -3, on: zset, run: runMembers(scoreOf)},
	"zrank":            {Arity: 3, on: zset, run: runZRANK},
	"zrevrank":         {Arity: 3, on: zset, run: runZRANK},
	"zcount":           {Arity: 4, read: readByScore, on: zset, run: runZCOUNT},
	"zrange":           {Arity: -4, read: readZRANGE, on: zset, run: runZRANGE},
	"zrevrange":        {Arity: -4, read: readZRANGE, on: zset, run: runZRANGE},
	"zrangebyscore":    {Arity: -4, read: readZRANGE, on: zset, run: runZRANGE},
	"zrevrangebyscore": {Arity: -4, read: readZRANGE, on: zset, run: runZRANGE},
	"zadd":             {Arity: -4, Writes: true, read: readZADD, on: zset, run: runZADD},
	"zincrby":          {Arity: 4, Writes: true, read: readZADD, on: zset, run: runZADD},
	"zrem":             {Arity: -3, Writes: true, on: zset, run: runREM},
	"zremrangebyscore": {Arity: 4, Writes: true, read: readByScore, on: zset, run: runZREMRANGE, instead: insteadOfZREM},
	"zremrangebyrank":  {Arity: 4, Writes: true, read: readByRank, on: zset, run: runZREMRANGE, instead: insteadOfZREM},
}

// Lookup returns the definition of a command, by its name in lower case; nil if it is not a command on
// keys that is known here.
func Lookup(name string) *Definition { return definitions[name] }

// Parse reads a command that Lookup finds, with the arguments behind its name. The caller has compared
// their number with the command's Arity. refusal is an error reply in Redis's words, without its '-',
// and empty if the command can be executed. The arguments are kept.
func Parse(name string, args []string) (c *Command, refusal string) {
	c = new(Command)
	return c, c.parse(name, args)
}

// parse is Parse into a Command that may have been used before.
func (c *Command) parse(name string, args []string) (refusal string) {
	d := Lookup(name)
	*c = Command{definition: d, name: name, args: args}
	if d.absent {
		c.assumeAbsent(&zero)
	}
	if d.read == nil {
		return ""
	}
	return d.read(c)
}

// Always is a command without keys that answers the same each time.
func Always(reply Reply) *Command {
	return &Command{definition: &Definition{run: func(*Space, *Command, []*key) Reply { return reply }}}
}

// Keys are the keys that the command names, one as often as it stands there.
func (c *Command) Keys() []string {
	switch {
	case len(c.args) == 0 || c.definition.keys == allKeys:
		return c.args
	case c.definition.keys == firstKey:
		return c.args[:1]
	}
	keys := make([]string, 0, len(c.args)/2)
	for i := 0; i < len(c.args); i += 2 {
		keys = append(keys, c.args[i])
	}
	return keys
}

// Size is the number of bytes of the command's name and arguments.
func (c *Command) Size() int {
	n := len(c.name)
	for _, arg := range c.args {
		n += len(arg)
	}
	return n
}

// Writes reports whether the command may change its keys.
func (c *Command) Writes() bool { return c.definition.Writes }

// Assumed is what each of so many keys holds if all is as the command's sender expects: nothing for SET
// NX, the token for DELEX IFEQ. A run on that, if its commit succeeds, has spared the reading. It is
// nil if nobody can tell.
func (c *Command) Assumed(keys int) []redlock.State {
	if c.assumes == nil {
		return nil
	}
	states := make([]redlock.State, keys)
	for i := range states {
		states[i] = *c.assumes
	}
	return states
}

// Denied is the reply of a command whose keys do not hold what is assumed. It is nil if the reply
// depends on what they do hold.
func (c *Command) Denied() *Reply { return c.denied }

// AsksHolder is true for SET NX GET: if it does not get the lock, it wants the token that has it.
func (c *Command) AsksHolder() bool { return c.set.Word == "nx" && c.set.Get }

// Value is the value of a SET.
func (c *Command) Value() string { return c.args[1] }

// assumeAbsent notes that the sender takes its keys to be absent.
func (c *Command) assumeAbsent(denied *Reply) {
	c.assumes, c.denied = &absent, denied
}

// assumeHeld notes that the sender takes its key to hold a value. Its TTL is not known: a run that
// reads it proves nothing. A number may be there as that of a counter, which its envelope hides from a
// comparison: then the reply depends on what is read.
func (c *Command) assumeHeld(value string, denied *Reply) {
	if c.denied = denied; isNumber(value) {
		c.denied = nil
	}
	c.assumes = &redlock.State{Found: true, Type: "string", Value: value, TTL: assumedTTL}
}

// The functions of Definition.read. They find what the run needs, and what the sender assumes.

// readSET reads SET. With GET there is no reply for being denied: it has the token of the holder, which
// must be read.
func readSET(c *Command) (refusal string) {
	if c.set, refusal = ReadSet(c.args[2:]); refusal != "" {
		return refusal
	}
	denied := &null
	if c.set.Get {
		denied = nil
	}
	switch {
	case c.set.Word == "nx":
		c.assumeAbsent(denied)
	case c.set.Word == "ifeq" && c.set.Lifetime != "keepttl": // a TTL that it keeps must be read first
		c.assumeHeld(c.set.Match, denied)
	}
	return ""
}

// readGETRANGE reads GETRANGE and SUBSTR. Redis looks at the two integers before it looks at the key.
func readGETRANGE(c *Command) string { return readInts(&c.start, c.args[1], &c.end, c.args[2]) }

// readInts reads two integers.
func readInts(a *int64, arg1 string, b *int64, arg2 string) (refusal string) {
	var ok1, ok2 bool
	*a, ok1 = resp.ParseInt(arg1)
	*b, ok2 = resp.ParseInt(arg2)
	if !ok1 || !ok2 {
		return ErrNotInteger
	}
	return ""
}

// readSETEX reads SETEX and PSETEX, whose time stands before the value.
func readSETEX(c *Command) (refusal string) {
	c.set.Time, refusal = readPositive(c.name, c.name, c.args[1])
	return refusal
}

func readGETEX(c *Command) (refusal string) {
	if c.set, refusal = readSet("getex", c.args[1:], getexWords); refusal == ErrSyntax {
		return refusal
	}
	c.refusal = refusal
	return ""
}

// readPairs reads MSET, HSET and their kin: no key, and no field behind a key, may lack its value.
func readPairs(c *Command) string {
	pairs := c.args
	if c.definition.keys == firstKey {
		pairs = pairs[1:]
	}
	if len(pairs)%2 != 0 {
		return "ERR wrong number of arguments for '" + c.name + "' command"
	}
	return ""
}

// readDELEX reads DELEX key [IFEQ token | IFNE token]. Only IFEQ tells what the key must hold.
func readDELEX(c *Command) (refusal string) {
	if c.set.Condition, refusal = readDelex(c.args[1:]); c.set.Word == "ifeq" {
		c.assumeHeld(c.set.Match, &zero)
	}
	return refusal
}

// readDELIFEQ reads DELIFEQ key token, which is DELEX key IFEQ token.
func readDELIFEQ(c *Command) string {
	c.set.Condition = Condition{"ifeq", c.args[1]}
	c.assumeHeld(c.args[1], &zero)
	return ""
}

// readEXPIRE reads EXPIRE and its kin.
func readEXPIRE(c *Command) (refusal string) {
	c.expire, refusal = readExpire(c.name, c.args[1:])
	return refusal
}
