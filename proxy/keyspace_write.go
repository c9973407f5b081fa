package proxy

import (
	"strings"

	"redlockd/redlock/arguments"
	"redlockd/redlock/sandbox"
)

// The commands that change keys.

func runSET(ks *keyspace, args []string) (sandbox.Reply, error) {
	o, refusal := arguments.ReadSet(args[3:])
	if refusal != "" {
		return failure(refusal), nil
	}
	k, err := ks.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	if o.Word == "" || o.Word == "xx" { // a key of whomever
		ks.unconditional(k)
	}
	switch o.Word {
	case "nx", "xx":
		k.exists()
	case "ifeq", "ifne":
		k.readValue()
	}
	allowed := o.Met(k.held, k.value)
	if k.foreign() && (o.Get || allowed) {
		return sandbox.Reply{}, errWrongType // Redis would replace it, if it is not asked for the value
	}
	var old sandbox.Reply
	if o.Get {
		old = bulkOrNil(k.readValue())
	}
	if !allowed {
		return old, nil
	}
	if o.Lifetime == "keepttl" {
		ks.setKeepingEnd(k, args[2])
	} else {
		ks.set(k, args[2], o.End(ks.now))
	}
	if o.Get {
		return old, nil
	}
	return statusOK, nil
}

func runSETNX(ks *keyspace, args []string) (sandbox.Reply, error) {
	k, err := ks.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	if k.exists() {
		return integer(0), nil
	}
	ks.set(k, args[2], 0)
	return integer(1), nil
}

// runSETEX is SETEX and PSETEX.
func runSETEX(ks *keyspace, args []string) (sandbox.Reply, error) {
	command := strings.ToLower(args[0])
	when, refusal := arguments.ReadTTL(command, args[2])
	if refusal != "" {
		return failure(refusal), nil
	}
	k, err := ks.text(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	ks.unconditional(k)
	ks.set(k, args[3], when.End(ks.now))
	return statusOK, nil
}

func runGETSET(ks *keyspace, args []string) (sandbox.Reply, error) {
	k, err := ks.text(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	ks.unconditional(k)
	old := bulkOrNil(k.readValue())
	ks.set(k, args[2], 0)
	return old, nil
}

func runGETDEL(ks *keyspace, args []string) (sandbox.Reply, error) {
	k, err := ks.text(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	ks.unconditional(k)
	old := bulkOrNil(k.readValue())
	if k.held {
		k.remove()
	}
	return old, nil
}

func runGETEX(ks *keyspace, args []string) (sandbox.Reply, error) {
	o, refusal := arguments.ReadGetex(args[2:])
	if refusal == errSyntax {
		return failure(refusal), nil
	}
	k, err := ks.text(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	if o.Lifetime != "" {
		ks.unconditional(k)
	}
	old := bulkOrNil(k.readValue())
	if !k.held {
		return old, nil
	}
	if refusal != "" {
		return failure(refusal), nil
	}
	if o.Lifetime != "" {
		ks.expire(k, o.End(ks.now))
	}
	return old, nil
}

// pairs looks up the keys of MSET and MSETNX.
func (ks *keyspace) pairs(args []string) (keys []*keyState, err error) {
	for i := 1; i < len(args); i += 2 {
		k, err := ks.key(args[i])
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func runMSET(ks *keyspace, args []string) (sandbox.Reply, error) {
	if len(args)%2 == 0 {
		return failure("ERR wrong number of arguments for 'mset' command"), nil
	}
	keys, err := ks.pairs(args)
	if err != nil {
		return sandbox.Reply{}, err
	}
	for i, k := range keys {
		ks.unconditional(k)
		ks.set(k, args[2*i+2], 0)
	}
	return statusOK, nil
}

func runMSETNX(ks *keyspace, args []string) (sandbox.Reply, error) {
	if len(args)%2 == 0 {
		return failure("ERR wrong number of arguments for 'msetnx' command"), nil
	}
	keys, err := ks.pairs(args)
	if err != nil {
		return sandbox.Reply{}, err
	}
	for _, k := range keys {
		if k.exists() {
			return integer(0), nil
		}
	}
	for i, k := range keys {
		ks.set(k, args[2*i+2], 0)
	}
	return integer(1), nil
}

// runDEL is DEL and UNLINK.
func runDEL(ks *keyspace, args []string) (sandbox.Reply, error) {
	n := int64(0)
	for _, name := range args[1:] {
		k, err := ks.key(name)
		if err != nil {
			return sandbox.Reply{}, err
		}
		ks.unconditional(k)
		if k.exists() && !k.foreign() { // what is no lock is not this server's to remove
			k.remove()
			n++
		}
	}
	return integer(n), nil
}

func runDELEX(ks *keyspace, args []string) (sandbox.Reply, error) {
	switch condition, refusal := arguments.ReadDelex(args[2:]); {
	case refusal != "":
		return failure(refusal), nil
	case condition.Word == "":
		return runDEL(ks, args)
	default:
		return ks.deleteIf(args[1], condition)
	}
}

func runDELIFEQ(ks *keyspace, args []string) (sandbox.Reply, error) {
	return ks.deleteIf(args[1], arguments.Condition{Word: "ifeq", Match: args[2]})
}

func (ks *keyspace) deleteIf(name string, c arguments.Condition) (sandbox.Reply, error) {
	k, err := ks.key(name)
	if err != nil {
		return sandbox.Reply{}, err
	}
	value, held := k.readValue()
	met := held && c.Met(held, value)
	if met {
		k.remove()
	}
	return boolean(met), nil
}

// runEXPIRE is EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT.
func runEXPIRE(ks *keyspace, args []string) (sandbox.Reply, error) {
	o, refusal := arguments.ReadExpire(strings.ToLower(args[0]), args[2:])
	if refusal != "" {
		return failure(refusal), nil
	}
	k, err := ks.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	ks.unconditional(k)
	if !k.exists() || k.foreign() {
		return integer(0), nil
	}
	end := o.End(ks.now)
	if o.Conditional() && !o.Allows(end, k.endsAt()) {
		return integer(0), nil
	}
	if end <= ks.now { // 0 too, which is no end elsewhere
		k.remove()
	} else {
		ks.expire(k, end)
	}
	return integer(1), nil
}

func runPERSIST(ks *keyspace, args []string) (sandbox.Reply, error) {
	k, err := ks.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	ks.unconditional(k)
	if !k.exists() || k.foreign() || k.endsAt() == 0 {
		return integer(0), nil
	}
	ks.expire(k, 0)
	return integer(1), nil
}
