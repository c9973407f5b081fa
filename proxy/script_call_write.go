package proxy

import (
	"strings"

	"redlockd/redlock/sandbox"
)

// The commands of scripts that change keys.

func scriptSET(st *scriptState, args []string) (sandbox.Reply, error) {
	o, refusal := parseSetOptions("set", args[3:], setWords, st.time)
	if refusal != "" {
		return failure(refusal), nil
	}
	k, err := st.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	if o.word == "" || o.word == "xx" { // a key of whomever
		st.unconditional(k)
	}
	switch o.word {
	case "nx", "xx":
		k.exists()
	case "ifeq", "ifne":
		k.readValue()
	}
	allowed := o.met(k.held, k.value)
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
		end := o.end(st.now)
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
	when, refusal := parseLifetime(command, command, args[2], st.time)
	if refusal != "" {
		return failure(refusal), nil
	}
	k, err := st.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	st.unconditional(k)
	k.set(args[3], when.end(st.now))
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
	o, refusal := parseSetOptions("getex", args[2:], getexWords, st.time)
	if refusal == errSyntax {
		return failure(refusal), nil
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
	if refusal != "" {
		return failure(refusal), nil
	}
	if o.lifetime != "" {
		k.expire(o.end(st.now), st.now)
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
	switch condition, refusal := parseDelex(args[2:]); {
	case refusal != "":
		return failure(refusal), nil
	case condition.word == "":
		return scriptDEL(st, args)
	default:
		return st.deleteIf(args[1], condition)
	}
}

func scriptDELIFEQ(st *scriptState, args []string) (sandbox.Reply, error) {
	return st.deleteIf(args[1], condition{"ifeq", args[2]})
}

func (st *scriptState) deleteIf(name string, c condition) (sandbox.Reply, error) {
	k, err := st.key(name)
	if err != nil {
		return sandbox.Reply{}, err
	}
	value, held := k.readValue()
	met := held && c.met(held, value)
	if met {
		k.remove()
	}
	return boolean(met), nil
}

// scriptEXPIRE is EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT.
func scriptEXPIRE(st *scriptState, args []string) (sandbox.Reply, error) {
	o, refusal := parseExpire(strings.ToLower(args[0]), args[2:], st.time)
	if refusal != "" {
		return failure(refusal), nil
	}
	k, err := st.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	st.unconditional(k)
	if !k.exists() {
		return integer(0), nil
	}
	end := o.end(st.now)
	if o.nx || o.xx || o.gt || o.lt {
		if old := k.endsAt(); !o.allows(end, old, old != 0) { // 0 is an end that never comes
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
