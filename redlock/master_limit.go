package redlock

import "time"

// The limit of a lane: how much may be in flight to its master, in the cost of costOf. If more is in flight than a master can work off within
// MasterTimeout, it loses all its votes; if less, every operation costs more. So the limit follows the time that the last batches took, as
// a congestion window does: it shrinks by a quarter or a half when one took longer than the master's distance explains, and grows by an
// eighth when it was used and answered in time.
//
// At the limit, the queue of the lane grows. Once the next batch would be full, admission queues new operations (admission.go).
//
// Only a large batch shrinks the limit. If a small one takes long, there is another reason: the master, its machine or this one is short of
// CPU, and smaller batches would make it worse.

const (
	// costMax bounds the cost of one batch: as many rounds of short names.
	costMax = batchMax
	// costMin is the lowest limit: so little takes no master long.
	costMin = 32
	// costFirst is the limit before the master has answered a batch.
	costFirst = 128
	// workShare is the part of MasterTimeout that the work on a batch may take, as a divisor. The rest is for the moments when machines are
	// busy with something else.
	workShare = 8
	// costBytes is how many bytes cost a master as much as another key.
	costBytes = 256
)

// costOf is what a command with these keys, and so many bytes of values, costs a master. A SET of a short key costs 1.
func costOf(keys []string, bytes int) int {
	for _, key := range keys {
		bytes += len(key)
	}
	return len(keys) + bytes/costBytes
}

// costOfCommit is what a command costs that names also the values of a commit's changes.
func (r *round) costOfCommit() int {
	return costOf(r.keys, len(r.token)+changesBytes(r.commit.changes))
}

// inflightLimitMax bounds the limit: one full batch for a near master, one for each millisecond of the distance of a far one.
func (l *lane) inflightLimitMax() int {
	return costMax * int(min(max(l.rttMin/time.Millisecond, 1), inflightMax))
}

// queueLimit is how much may queue before the lane counts as full: what the next batch can take.
func (l *lane) queueLimit() int { return min(l.inflightLimit, costMax) }

// adjustLimitLocked takes in that a batch was answered after rtt. inFlight is the cost that was in flight when it was sent, its own included.
// A batch that was sent before the limit changed last says nothing about the new limit.
func (l *lane) adjustLimitLocked(inFlight int, sent time.Time, rtt time.Duration) {
	if 2*inFlight < l.inflightLimit || sent.Before(l.limitSetAt) {
		return
	}
	l.limitSetAt = sent.Add(rtt)
	timeout := l.fleet.opts.MasterTimeout
	took, may := rtt-l.rttMin, min(timeout/workShare, max(timeout-l.rttMin, 0)/2)
	switch {
	case took <= may: //mutant:the-limit-does-not-shrink
		l.inflightLimit = min(l.inflightLimitMax(), l.inflightLimit+l.inflightLimit/8)
	case took <= 2*may:
		l.inflightLimit = max(costMin, min(inFlight, l.inflightLimit)*3/4)
	default:
		l.inflightLimit = max(costMin, min(inFlight, l.inflightLimit)/2)
	}
}
