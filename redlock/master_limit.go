package redlock

import "time"

// The limit of a lane: how much may be in flight to its master, in the cost of costOf. If more is in
// flight than a master can work off within MasterTimeout, it loses all its votes; if less, every
// operation costs more. So the limit follows the time that the last batches took, as a congestion
// window does: it shrinks by a quarter or a half when one took longer than the master's distance
// explains, and grows by an eighth when it was used and answered in time.
//
// At the limit, the queue of the lane grows. Once the next batch would be full, admission queues new
// operations (admission.go). While several flows wait there, smaller batches than a master bears let
// all of them have their turns sooner: see admission.turn.
//
// Only a large batch shrinks the limit. If a small one takes long, there is another reason: the master,
// its machine or this one is short of CPU, and smaller batches would make it worse.

const (
	// batchMax bounds the rounds in one pipeline. A master serves nobody else while it works a pipeline
	// off, and a broken connection leaves at most inflightMax such batches unknown.
	batchMax = 1024
	// foldMax bounds the releases, or the readers, folded into one script call: Lua's unpack has a limit,
	// and the master serves nobody else while it runs one.
	foldMax = 256
	// spacing is how many batches are sent in one round trip to a far master. A round waits for half of
	// the gap between two of them on average. spacingMin is the least gap: it keeps batches large.
	spacing    = 16
	spacingMin = 250 * time.Microsecond
	// inflightMax bounds the batches in flight. More than spacing are there only when a master is slower
	// than usual.
	inflightMax = 2 * spacing

	// costMax bounds the cost of one batch: as many rounds of short names.
	costMax = batchMax
	// costMin is the lowest limit: so little takes no master long.
	costMin = 32
	// costFirst is the limit before the master has answered a batch.
	costFirst = 128
	// workShare is the part of MasterTimeout that the work on a batch may take, as a divisor. The rest is
	// for the moments when machines are busy with something else.
	workShare = 8
	// costTurn is what a batch may cost while several flows wait for room. Measured: twice as much gives
	// a flood 10 to 25 % more, and a LOCK beside it waits half as long again, and twice as long at p99.
	costTurn = 128
	// aheadShare is the part of that which queues before the batch in flight is answered, as a divisor:
	// enough to be worked on meanwhile.
	aheadShare = 8
	// costBytes is how many bytes cost a master as much as another key.
	costBytes = 256
)

// costOf is what a command with these keys, and so many bytes of values, costs a master. A SET of a
// short key costs 1.
func costOf(keys []string, bytes int) int {
	for _, key := range keys {
		bytes += len(key)
	}
	return len(keys) + bytes/costBytes
}

// window bounds the cost of what is in flight to one master.
type window struct {
	limit int
	setAt time.Time // when the last batch that changed it was answered
}

// most bounds the limit: one full batch for a near master, one for each millisecond of the distance of
// a far one.
func (w *window) most(distance time.Duration) int {
	return costMax * int(min(max(distance/time.Millisecond, 1), inflightMax))
}

// adjust takes in that a batch was answered after rtt by a master that is so far away. inFlight is the
// cost that was in flight when it was sent, its own included. A batch that was sent before the limit
// changed last says nothing about the new limit.
func (w *window) adjust(inFlight int, sent time.Time, rtt, distance, timeout time.Duration) {
	if 2*inFlight < w.limit || sent.Before(w.setAt) {
		return
	}
	w.setAt = sent.Add(rtt)
	took, may := rtt-distance, min(timeout/workShare, max(timeout-distance, 0)/2)
	switch {
	case took <= may: //mutant:the-limit-does-not-shrink
		w.limit = min(w.most(distance), w.limit+w.limit/8)
	case took <= 2*may:
		w.limit = max(costMin, min(inFlight, w.limit)*3/4)
	default:
		w.limit = max(costMin, min(inFlight, w.limit)/2)
	}
}
