package redlock

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"
)

// The epoch of a master stands in a key of the master itself. It changes whenever the master may have forgotten
// locks, and a vote counts only if the batch that carried it closed with the epoch that was admitted:
//
//	<run_id>:<nonce>      admitted: the master has been seen to remember everything for as long as a lock can live
//	q:<run_id>:<nonce>:<reason>
//	                      quarantined: it may have forgotten locks that still run; it gets every command and has no vote.
//	                      The reason is for people: other proxies show it
//
// A restart changes the run_id, FLUSHALL and SWAPDB remove the key, a failover or REPLICAOF brings another
// master's key: none of them leaves a value that begins with the master's present run_id. Values are exchanged
// by compare-and-set only, and a quarantine has a fresh nonce, so that a second one cannot be ended by a timer
// of the first.
//
// Source: "Performance, crash-recovery and fsync" (Distributed Locks with Redis): after a crash an instance
// must be made "unavailable for at least a bit more than the max TTL we use".
const (
	epochKey  = ReservedPrefix + "epoch"
	configKey = ReservedPrefix + "config"
	beatKey   = ReservedPrefix + "beat"
)

type epochKind uint8

const (
	epochForeign     epochKind = iota // missing, another run's, or nonsense
	epochQuarantined                  // by this run
	epochAdmitted                     // of this run
)

const (
	// epochMax bounds a value of the epoch key, in bytes: ours have some hundreds, with their reason.
	epochMax = 4 << 10
	// formerMax bounds the epochs of before that are remembered of one run of a master. Each took a quarantine,
	// unless the master lies.
	formerMax = 256
)

// readEpoch tells what the value of the epoch key says of a master with this run_id. A missing key is "".
func readEpoch(value, runID string) epochKind {
	switch {
	case runID == "" || len(value) > epochMax:
		return epochForeign
	case strings.HasPrefix(value, runID+":"):
		return epochAdmitted
	case strings.HasPrefix(value, "q:"+runID+":"):
		return epochQuarantined
	}
	return epochForeign //mutant:no-quarantine
}

func admittedEpoch(runID string) string { return runID + ":" + nonce() }

func quarantinedEpoch(runID, reason string) string {
	return "q:" + runID + ":" + nonce() + ":" + reason
}

// reasonNew is why a master is quarantined of which nobody knew anything. It may be brand-new: a bootstrap may
// admit it.
const reasonNew = "it has no epoch: it is new, has restarted without its data, or was flushed"

// looksNew tells whether the value of the epoch key is that of a master that nobody has ever admitted, as far
// as it and the proxies that have seen it can tell: it has none, or this run was quarantined because it had
// none.
func looksNew(value, runID string) bool {
	return value == "" || readEpoch(value, runID) == epochQuarantined && strings.HasSuffix(value, ":"+reasonNew) //mutant:bootstrap-over-any-quarantine
}

// quarantineReason is the reason in the value of a quarantine. A client that may write to the master can have written
// it, and it goes into logs and replies.
func quarantineReason(value string) string {
	parts := strings.SplitN(value, ":", 4)
	if len(parts) < 4 || parts[3] == "" {
		return "it gave no reason"
	}
	return shown(parts[3])
}

// nonceLen is the length of a nonce in hex.
const nonceLen = 16

func nonce() string {
	var b [nonceLen / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// quarantineOf is how long a master that may have forgotten locks has no vote: a bit more than the longest a
// lock can live on any clock that runs within the drift.
func quarantineOf(maxTTL time.Duration, d drift) time.Duration {
	return maxTTL + 2*(driftOf(maxTTL, d)-driftConstant) + 10*time.Millisecond //mutant:half-the-wait
}
