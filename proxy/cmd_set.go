package proxy

import (
	"time"

	"redlockd/proxy/keyspace"
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// cmdSET is SET key value [options]. Nearly all locks are taken with SET key token NX PX ttl, which has
// a way of its own.
func cmdSET(s *session, c *call) error {
	if !s.transaction.open { // behind MULTI it is queued as any command on keys
		o, refusal := keyspace.ReadSet(c.args[3:])
		if refusal == "" && o.Word == "nx" && !o.Get && o.Time != (keyspace.Time{}) && len(c.args[2]) <= redlock.MaxValueLen {
			startSetNX(c, o.Time)
			return nil
		}
	}
	return cmdKeys(s, c)
}

// setNX is a SET with NX and a TTL, without GET, in progress. Invariant: it does what an exchange of
// the same command does (dropin.go), with fewer allocations: with 64 pipelining clients an exchange
// costs a fifth more of redlockd's own CPU per command (measured: 5.1 µs instead of 4.2 µs).
type setNX struct {
	slot
	op redlock.Op
	// key and value are what it names, for its turn.
	key, value [1]string
	end        keyspace.Time
}

// startSetNX takes its turn.
func startSetNX(c *call, end keyspace.Time) {
	x := &setNX{end: end}
	x.key[0], x.value[0] = string(c.args[1]), string(c.args[2])
	c.takeTurn(&x.slot, turn{keys: x.key[:], words: x.value[:], acquires: true}, x)
}

// start implements starter. It commits the SET on the assumption that the key is absent. The engine
// copies the changes, so that they can be on the stack. An end that is given as a time of day (EXAT,
// PXAT) is turned into a TTL by this machine's clock.
func (x *setNX) start(bool) {
	var now time.Time
	if x.end.Absolute {
		now = time.Now()
	}
	changes := [1]redlock.Change{{Resource: x.key[0], Was: redlock.WasAbsent, Do: redlock.Set, NewValue: x.value[0], TTL: x.end.TTL(now)}}
	x.startCommit(&x.op, changes[:], x.key[:], x)
}

// Done implements redlock.Completer. A commit that finds the key held is the answer, null: nothing is
// read for it.
func (x *setNX) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	switch {
	case result.Err != nil:
		return x.fail(result.Err)
	case result.Held:
		x.notifyChanged(x.key[:], false)
		x.auditLock(result, "granted", "", x.key[:], result.Token)
		x.out = resp.AppendOK(x.out)
	default:
		x.out = resp.AppendNull(x.out, x.proto)
	}
	return x.complete()
}
