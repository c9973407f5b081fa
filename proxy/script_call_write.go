package proxy

import (
	"math"
	"strings"

	"redlockd/redlock/sandbox"
)

// The commands of scripts that change keys.

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
