package proxy

import (
	"math"
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

func boolean(b bool) sandbox.Reply {
	if b {
		return integer(1)
	}
	return integer(0)
}

func bulkOrNil(text string, ok bool) sandbox.Reply {
	if !ok {
		return sandbox.Reply{}
	}
	return bulk(text)
}

func scriptGET(st *scriptState, args []string) (sandbox.Reply, error) {
	k, err := st.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	return bulkOrNil(k.readValue()), nil
}

func scriptMGET(st *scriptState, args []string) (sandbox.Reply, error) {
	r := sandbox.Reply{Kind: sandbox.Array}
	for _, name := range args[1:] {
		k, err := st.key(name)
		if err != nil {
			return sandbox.Reply{}, err
		}
		r.Elems = append(r.Elems, bulkOrNil(k.readValue()))
	}
	return r, nil
}

func scriptSTRLEN(st *scriptState, args []string) (sandbox.Reply, error) {
	k, err := st.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	value, _ := k.readValue()
	return integer(int64(len(value))), nil
}

func scriptGETRANGE(st *scriptState, args []string) (sandbox.Reply, error) {
	start, ok1 := parseInteger([]byte(args[2]))
	end, ok2 := parseInteger([]byte(args[3]))
	if !ok1 || !ok2 {
		return failure(errNotInteger), nil
	}
	k, err := st.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	value, _ := k.readValue()
	size := int64(len(value))
	if start < 0 && end < 0 && start > end {
		return bulk(""), nil
	}
	if start < 0 {
		start = max(start+size, 0)
	}
	if end < 0 {
		end = max(end+size, 0)
	}
	end = min(end, size-1)
	if start > end || size == 0 {
		return bulk(""), nil
	}
	return bulk(value[start : end+1]), nil
}

func scriptEXISTS(st *scriptState, args []string) (sandbox.Reply, error) {
	n := int64(0)
	for _, name := range args[1:] {
		k, err := st.key(name)
		if err != nil {
			return sandbox.Reply{}, err
		}
		if k.exists() {
			n++
		}
	}
	return integer(n), nil
}

func scriptTYPE(st *scriptState, args []string) (sandbox.Reply, error) {
	k, err := st.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	if k.exists() {
		return sandbox.Reply{Kind: sandbox.Status, Text: "string"}, nil
	}
	return sandbox.Reply{Kind: sandbox.Status, Text: "none"}, nil
}

// scriptLifetime makes TTL, PTTL and, with absolute times, EXPIRETIME and PEXPIRETIME.
func scriptLifetime(seconds, absolute bool) func(st *scriptState, args []string) (sandbox.Reply, error) {
	return func(st *scriptState, args []string) (sandbox.Reply, error) {
		k, err := st.key(args[1])
		if err != nil {
			return sandbox.Reply{}, err
		}
		if !k.exists() {
			return integer(-2), nil
		}
		ms := k.endsAt()
		if ms == 0 {
			return integer(-1), nil
		}
		if !absolute {
			ms -= st.now
		}
		if seconds {
			ms = ms/1000 + (ms%1000+500)/1000
		}
		return integer(ms), nil
	}
}

// setOptions are the options of SET and GETEX. A condition or a lifetime is the lower-case word that gave it, or "".
type setOptions struct {
	condition string // nx xx ifeq ifne
	match     string // the argument of ifeq and ifne
	lifetime  string // ex px exat pxat keepttl persist
	time      string // the argument of ex px exat pxat
	get       bool
}

// parseSetOptions reads the options of SET, or with getex set those of GETEX. The same option may come again and then
// counts; two conditions or two lifetimes exclude each other.
func parseSetOptions(args []string, getex bool) (o setOptions, ok bool) {
	for i := 0; i < len(args); i++ {
		word := strings.ToLower(args[i])
		slot, argument, allowed := &o.lifetime, &o.time, true
		switch word {
		case "get":
			if getex {
				return o, false
			}
			o.get = true
			continue
		case "nx", "xx":
			slot, argument, allowed = &o.condition, nil, !getex
		case "ifeq", "ifne":
			slot, argument, allowed = &o.condition, &o.match, !getex
		case "keepttl":
			argument, allowed = nil, !getex
		case "persist":
			argument, allowed = nil, getex
		case "ex", "px", "exat", "pxat":
		default:
			return o, false
		}
		if !allowed || *slot != "" && *slot != word || argument != nil && i+1 == len(args) {
			return o, false
		}
		*slot = word
		if argument != nil {
			i++
			*argument = args[i]
		}
	}
	return o, true
}

// end is the absolute time that the lifetime means, 0 for none, or the error.
func (o *setOptions) end(now int64, command string) (end int64, problem string) {
	switch o.lifetime {
	case "", "keepttl", "persist":
		return 0, ""
	}
	n, ok := parseInteger([]byte(o.time))
	seconds, absolute := o.lifetime[0] == 'e', len(o.lifetime) == 4
	switch {
	case !ok:
		return 0, errNotInteger
	case n <= 0 || seconds && n > math.MaxInt64/1000:
		return 0, invalidExpire(command)
	}
	if seconds {
		n *= 1000
	}
	if !absolute {
		if n > math.MaxInt64-now {
			return 0, invalidExpire(command)
		}
		n += now
	}
	return n, ""
}

func scriptSET(st *scriptState, args []string) (sandbox.Reply, error) {
	o, ok := parseSetOptions(args[3:], false)
	if !ok {
		return failure(errSyntax), nil
	}
	end, problem := o.end(st.now, "set")
	if problem != "" {
		return failure(problem), nil
	}
	k, err := st.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	allowed := true
	switch o.condition {
	case "nx":
		allowed = !k.exists()
	case "xx": // a key of whomever
		st.unconditional(k)
		allowed = k.exists()
	case "ifeq":
		value, held := k.readValue()
		allowed = held && value == o.match
	case "ifne":
		value, held := k.readValue()
		allowed = !held || value != o.match
	default:
		st.unconditional(k)
	}
	var old sandbox.Reply
	if o.get {
		old = bulkOrNil(k.readValue())
	}
	if !allowed {
		return old, nil
	}
	if o.lifetime == "keepttl" {
		k.setKeepingEnd(args[2])
	} else {
		k.set(args[2], end)
		k.expire(end, st.now)
	}
	if o.get {
		return old, nil
	}
	return statusOK, nil
}

func scriptSETNX(st *scriptState, args []string) (sandbox.Reply, error) {
	k, err := st.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	if k.exists() {
		return integer(0), nil
	}
	k.set(args[2], 0)
	return integer(1), nil
}

// scriptSETEX is SETEX and PSETEX.
func scriptSETEX(st *scriptState, args []string) (sandbox.Reply, error) {
	command := strings.ToLower(args[0])
	o := setOptions{lifetime: "ex", time: args[2]}
	if command == "psetex" {
		o.lifetime = "px"
	}
	end, problem := o.end(st.now, command)
	if problem != "" {
		return failure(problem), nil
	}
	k, err := st.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	st.unconditional(k)
	k.set(args[3], end)
	return statusOK, nil
}

func scriptGETSET(st *scriptState, args []string) (sandbox.Reply, error) {
	k, err := st.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	st.unconditional(k)
	old := bulkOrNil(k.readValue())
	k.set(args[2], 0)
	return old, nil
}

func scriptGETDEL(st *scriptState, args []string) (sandbox.Reply, error) {
	k, err := st.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	st.unconditional(k)
	old := bulkOrNil(k.readValue())
	if k.held {
		k.remove()
	}
	return old, nil
}

func scriptGETEX(st *scriptState, args []string) (sandbox.Reply, error) {
	o, ok := parseSetOptions(args[2:], true)
	if !ok {
		return failure(errSyntax), nil
	}
	k, err := st.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	if o.lifetime != "" {
		st.unconditional(k)
	}
	old := bulkOrNil(k.readValue())
	if !k.held {
		return old, nil
	}
	end, problem := o.end(st.now, "getex")
	if problem != "" {
		return failure(problem), nil
	}
	if o.lifetime != "" {
		k.expire(end, st.now)
	}
	return old, nil
}

// pairs looks up the keys of MSET and MSETNX.
func (st *scriptState) pairs(args []string) (keys []*stateKey, err error) {
	for i := 1; i < len(args); i += 2 {
		k, err := st.key(args[i])
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func scriptMSET(st *scriptState, args []string) (sandbox.Reply, error) {
	if len(args)%2 == 0 {
		return failure("ERR wrong number of arguments for 'mset' command"), nil
	}
	keys, err := st.pairs(args)
	if err != nil {
		return sandbox.Reply{}, err
	}
	for i, k := range keys {
		st.unconditional(k)
		k.set(args[2*i+2], 0)
	}
	return statusOK, nil
}

func scriptMSETNX(st *scriptState, args []string) (sandbox.Reply, error) {
	if len(args)%2 == 0 {
		return failure("ERR wrong number of arguments for 'msetnx' command"), nil
	}
	keys, err := st.pairs(args)
	if err != nil {
		return sandbox.Reply{}, err
	}
	for _, k := range keys {
		if k.exists() {
			return integer(0), nil
		}
	}
	for i, k := range keys {
		k.set(args[2*i+2], 0)
	}
	return integer(1), nil
}

// scriptDEL is DEL and UNLINK.
func scriptDEL(st *scriptState, args []string) (sandbox.Reply, error) {
	n := int64(0)
	for _, name := range args[1:] {
		k, err := st.key(name)
		if err != nil {
			return sandbox.Reply{}, err
		}
		st.unconditional(k)
		if k.exists() {
			k.remove()
			n++
		}
	}
	return integer(n), nil
}

func scriptDELEX(st *scriptState, args []string) (sandbox.Reply, error) {
	if len(args) == 2 {
		return scriptDEL(st, args)
	}
	if len(args) != 4 {
		return failure("ERR wrong number of arguments for 'delex' command"), nil
	}
	equal := strings.EqualFold(args[2], "ifeq")
	if !equal && !strings.EqualFold(args[2], "ifne") {
		return failure("ERR Invalid condition. Use IFEQ or IFNE"), nil
	}
	return st.deleteIf(args[1], args[3], equal)
}

func scriptDELIFEQ(st *scriptState, args []string) (sandbox.Reply, error) {
	return st.deleteIf(args[1], args[2], true)
}

func (st *scriptState) deleteIf(name, match string, equal bool) (sandbox.Reply, error) {
	k, err := st.key(name)
	if err != nil {
		return sandbox.Reply{}, err
	}
	value, held := k.readValue()
	met := held && (value == match) == equal
	if met {
		k.remove()
	}
	return boolean(met), nil
}

// scriptEXPIRE is EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT.
func scriptEXPIRE(st *scriptState, args []string) (sandbox.Reply, error) {
	command := strings.ToLower(args[0])
	var nx, xx, gt, lt bool
	for _, word := range args[3:] {
		switch strings.ToLower(word) {
		case "nx":
			nx = true
		case "xx":
			xx = true
		case "gt":
			gt = true
		case "lt":
			lt = true
		default:
			return failure("ERR Unsupported option " + word), nil
		}
	}
	switch {
	case nx && (xx || gt || lt):
		return failure("ERR NX and XX, GT or LT options at the same time are not compatible"), nil
	case gt && lt:
		return failure("ERR GT and LT options at the same time are not compatible"), nil
	}
	end, ok := parseInteger([]byte(args[2]))
	if !ok {
		return failure(errNotInteger), nil
	}
	if command[0] == 'e' {
		if end > math.MaxInt64/1000 || end < math.MinInt64/1000 {
			return failure(invalidExpire(command)), nil
		}
		end *= 1000
	}
	if !strings.HasSuffix(command, "at") {
		if end > math.MaxInt64-st.now {
			return failure(invalidExpire(command)), nil
		}
		end += st.now
	}
	k, err := st.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	st.unconditional(k)
	if !k.exists() {
		return integer(0), nil
	}
	if nx || xx || gt || lt {
		old := k.endsAt() // 0 is an end that never comes
		if nx && old != 0 || xx && old == 0 || gt && (old == 0 || end <= old) || lt && old != 0 && end >= old {
			return integer(0), nil
		}
	}
	if end <= st.now {
		k.remove()
	} else {
		k.expire(end, st.now)
	}
	return integer(1), nil
}

func scriptPERSIST(st *scriptState, args []string) (sandbox.Reply, error) {
	k, err := st.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	st.unconditional(k)
	if !k.exists() || k.endsAt() == 0 {
		return integer(0), nil
	}
	k.expire(0, st.now)
	return integer(1), nil
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
