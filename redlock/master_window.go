package redlock

import "time"

// The pace of a lane: how much may be in flight to its master. More than a master can work off within MasterTimeout loses all its votes; too
// little costs every operation more. So the limit follows the time that the last batches took, as a congestion window does: it
// shrinks by a part when one took longer than the master's distance explains, and grows by a smaller part when it was used and
// answered in time.
//
// Only what was large shrinks the limit. When little takes long, the reason is another: the master, its machine or this one is short of
// CPU, and smaller batches would make it worse.

const (
	// costMax is the most that one batch may cost, see costOf: so many rounds of short names.
	costMax = batchMax
	// costMin is the least limit: as little takes no master long.
	costMin = 32
	// costFirst is the limit before anything is known of the master.
	costFirst = 128
	// paceShare is the part of MasterTimeout that the work may take. The rest is for the moments when machines are busy with something else.
	paceShare = 8
)

// limitMax is the most that may be in flight: a batch to a near master, a batch for each millisecond of the distance to a far one.
func (l *lane) limitMax() int {
	return costMax * int(min(max(l.rttMin/time.Millisecond, 1), inflightMax))
}

// queueLimit is how much may queue before the lane counts as full: what the next batch can take.
func (l *lane) queueLimit() int { return min(l.limit, costMax) }

// paceLocked takes in that a batch was answered after rtt, before which so much was in flight, itself included.
func (l *lane) paceLocked(inFlight int, sent time.Time, rtt time.Duration) {
	timeout := l.client.opts.MasterTimeout
	took, may := rtt-l.rttMin, min(timeout/paceShare, max(timeout-l.rttMin, 0)/2)
	if 2*inFlight < l.limit || sent.Before(l.paced) { // or it was on its way already when the limit changed
		return
	}
	l.paced = sent.Add(rtt)
	switch {
	case took <= may: //mutant:the-pace-does-not-slow-down
		l.limit = min(l.limitMax(), l.limit+l.limit/8)
	case took <= 2*may:
		l.limit = max(costMin, min(inFlight, l.limit)*3/4)
	default:
		l.limit = max(costMin, min(inFlight, l.limit)/2)
	}
}
