package redlock

import (
	"math"
	"math/bits"
	"strings"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/member"
)

// Stats are counters since Open, and gauges where the comment says so.
type Stats struct {
	// Granted, Denied, NoQuorum count LOCKs by outcome. A LOCK that waited counts once.
	Granted, Denied, NoQuorum uint64
	// NoQuorumFor is a gauge: for how long every LOCK that ended has ended without a quorum, as of the last
	// one. 0: a quorum has granted or denied one since, or none has ended for 30 s.
	NoQuorumFor time.Duration
	// Released, NotHeld, UnlockFail count UNLOCKs by outcome: 1, 0, NOQUORUM.
	Released, NotHeld, UnlockFail uint64
	// Extended, ExtendLost, ExtendFail count EXTENDs by outcome: granted, 0, NOQUORUM.
	Extended, ExtendLost, ExtendFail uint64
	// Forced counts resources that were released by force through this client.
	Forced uint64
	// Lost counts leases that the masters no longer had before their validity ended.
	Lost uint64
	// HeldLost counts held locks that were lost.
	HeldLost uint64
	// Handovers counts releases that were handed over to a waiter in the same batch.
	Handovers uint64
	// Wakeups counts pauses of waiters that ended because a quorum of masters sent invalidations.
	Wakeups uint64
	// Attempts counts rounds of acquisition: those of LOCKs that do not wait, retries of waiters, steps of
	// reservations.
	Attempts uint64
	// Copies counts the learners that were given here what they have to know (member/copying).
	Copies uint64
	// Audits counts leases that were read from the masters, to see whether they are still there.
	Audits uint64
	// Rounds are the durations of rounds of acquisition: from T1 to the decision.
	Rounds Times
	// Leases is a gauge: granted through this client and still running.
	Leases int
	// LongestHold is a gauge: how long ago the oldest lease was first granted whose validity has not ended;
	// 0: there is none.
	LongestHold time.Duration
	// Bound is a gauge: held locks.
	Bound int
	// Waiters is a gauge: LOCKs that wait.
	Waiters int
	// Deferred is a gauge: operations that have not begun, because the masters have as much to do as they
	// can answer in time.
	Deferred int
	// ByPrefix are wait times, hold times and rounds, in the order of Options.Prefixes, and behind them
	// those of all other resources.
	ByPrefix []PrefixStats
}

// failingAfter is for how long all LOCKs may end without a quorum before that is no accident of the moment.
const failingAfter = 5 * time.Second

// Failing tells whether no lock is granted, whatever is known of the masters: for 5 s and longer all LOCKs
// that ended have ended without a quorum.
func (s *Stats) Failing() bool { return s.NoQuorumFor >= failingAfter }

// Times counts durations by their size.
type Times struct {
	Buckets [TimesBuckets]uint64 // how many were at most BucketMax(i), and above BucketMax(i-1)
	Sum     time.Duration
}

// TimesBuckets is how many sizes Times tells apart. The last one has no upper bound.
const TimesBuckets = 28

// timesFirst is the longest duration of the first bucket of Times.
const timesFirst = 64 * time.Microsecond

// BucketMax is the longest duration of a bucket: 64 µs for the first, twice as much for each that
// follows, 72 min for the last but one.
func (Times) BucketMax(i int) time.Duration { return timesFirst << i }

func (t *Times) add(d time.Duration) {
	t.Buckets[min(bits.Len64(uint64(max(d-1, 0)/timesFirst)), TimesBuckets-1)]++
	t.Sum += d
}

// RoundTrips counts how long a master took to answer, in the buckets of a native histogram of Prometheus
// (its schema 2): four for each power of two. So a bound is 19 % above the one before it.
type RoundTrips struct {
	Addr string // of the master
	// Buckets[i] is how many took at most BucketMax(i), and more than BucketMax(i-1). The last one has no
	// upper bound.
	Buckets [RoundTripsBuckets]uint64
	Count   uint64
	Sum     time.Duration
}

const (
	// RoundTripsSchema is the exponent of the base: bounds are powers of 2^(2^-RoundTripsSchema) seconds.
	RoundTripsSchema = 2
	// RoundTripsFirst is the power that bounds the first bucket: 2^-18 s, 4 µs.
	RoundTripsFirst = -18 << RoundTripsSchema
	// RoundTripsBuckets is how many buckets there are. All but the last end at 54 s.
	RoundTripsBuckets = 24 << RoundTripsSchema
)

// roundTripsBounds are the bounds from 1/2 to 1, which is how far math.Frexp brings a number: 2^-1, 2^-3/4,
// 2^-1/2, 2^-1/4.
var roundTripsBounds = [1 << RoundTripsSchema]float64{0.5, 0.5946035575013605, 0.7071067811865476, 0.8408964152537145}

// BucketMax is the longest duration of a bucket, in seconds.
func (RoundTrips) BucketMax(i int) float64 {
	return math.Exp2(float64(i+RoundTripsFirst) / (1 << RoundTripsSchema))
}

// add counts one. It is called once for each batch, under the lock that the caller holds anyway.
func (t *RoundTrips) add(d time.Duration) {
	i := RoundTripsFirst
	if d > 0 {
		frac, exp := math.Frexp(d.Seconds()) // frac is in [1/2, 1)
		i = (exp - 1) << RoundTripsSchema
		for _, bound := range roundTripsBounds {
			if frac > bound {
				i++
			}
		}
	}
	t.Buckets[min(max(i-RoundTripsFirst, 0), RoundTripsBuckets-1)]++
	t.Count++
	t.Sum += d
}

// MasterStatus describes one master as this client sees it.
type MasterStatus struct {
	Addr   string
	State  MasterState
	Reason string        // why it is not up
	Since  time.Time     // of the present state
	Left   time.Duration // of the quarantine, or of the doubt
	// Connected tells that it is connected and answers in time, whether it votes or not.
	Connected bool
	Version   string // "Redis 7.0.15", "Valkey 8.1.1"; as of the last connection
	RunID     string
	// UsedMemory of MaxMemory, in bytes, as of the last heartbeat. MaxMemory 0: there is no limit.
	UsedMemory, MaxMemory int64

	Batches, Ops    uint64        // pipelines sent, operations in them
	Timeouts        uint64        // batches without an answer within MasterTimeout
	Shed            uint64        // acquisitions refused because the queue was full
	RTT             time.Duration // of the last batch
	ClockOffset     time.Duration // how far its clock was ahead of this machine's at the last heartbeat; negative: behind
	Queued          int           // gauge: operations waiting for the next batch
	PendingReleases int           // gauge: releases to deliver when the master is back
}

// MemoryIsLow tells whether the master uses 80 % of its memory, or more. When it is full, it takes no new
// locks.
func (m MasterStatus) MemoryIsLow() bool { return conn.MemoryIsLow(m.UsedMemory, m.MaxMemory) }

// LeaseInfo is one lease that was granted through this client, or a resource that is only waited for:
// that has no TokenDigest.
type LeaseInfo struct {
	Resources   []string
	TokenDigest string        // TokenDigest of its token
	Validity    time.Duration // left
	Delay       time.Duration // Terms.Delay of its grant: nobody gets the lock for so long when the Validity has ended without a release
	Free        time.Duration // left until then. A lease whose Validity is 0 is in its delay
	Since       time.Time     // when it was first granted to its token, as far as is known here; zero: it is no lease
	Bound       bool          // it is renewed while its connection stands
	Shared      bool          // it is a reader's
	Lost        bool          // the masters no longer have it: the holder's EXTEND will fail
	Note        *HolderNote   // who holds it; nil: that is not known
	Waiters     int           // on any of its resources, here
	Queue       []WaiterInfo  // the first of the waiters, WaitersShown at most, in order
}

// DelayLeft is what is left of the delay of a lease that is in it.
func (l *LeaseInfo) DelayLeft() time.Duration {
	if l.Validity > 0 {
		return 0
	}
	return l.Free
}

// WaitersShown bounds LeaseInfo.Queue and ResourceInfo.Queue, and ResourceInfo.Leases.
const WaitersShown = 16

// WaiterInfo is one LOCK that waits.
type WaiterInfo struct {
	Note   *HolderNote   // who waits; nil: that is not known
	Waited time.Duration // since its LOCK came
	Shared bool          // it is a reader's
}

// ResourceInfo is what the masters say of one resource, and who waits for it here.
type ResourceInfo struct {
	Resource    string
	Held        bool          // a quorum of masters holds the same token, or readers
	Shared      bool          // it is held by readers
	Readers     int           // the most that a master has; where masters differ, not all of them may be granted
	Unknown     bool          // not Held as far as masters answered, but those that did not could make it so
	Validity    time.Duration // what a holder may still count on, by quorum; 0 when not held, or about to end
	TokenDigest string        // as in LeaseInfo; empty when not held, or by readers
	Fence       int64         // the last one given, as far as the masters that answered remember it; 0: none
	Votes       []ResourceVote
	Leases      []LeaseInfo  // those granted here that hold it, WaitersShown at most, the oldest first; without their waiters
	Waiters     int          // here
	Queue       []WaiterInfo // as in LeaseInfo
	// Minority is what masters were given of it when they came back, and still hold, although fewer than a
	// quorum had it: it may be no lock.
	Minority []MinorityLock
}

// MinorityLock is what a master was given of a resource although fewer than a quorum had it.
type MinorityLock = member.MinorityLock

// ResourceVote is one master's answer about a resource.
type ResourceVote struct {
	Addr        string
	Err         error         // no answer, and why
	State       MasterState   // as in MasterError, where there is no answer
	TokenDigest string        // empty: the key is absent, or a set of readers
	Readers     int           // of such a set
	TTL         time.Duration // likewise, by this master; negative when the key has no TTL
}

// PrefixStats are times and counts of the locks whose resource begins with one text. A lock of several
// resources counts once, for the first of them by name, unless it was taken by a commit: there each
// resource is a lock of its own.
type PrefixStats struct {
	// Prefix is one of Options.Prefixes; PrefixOther: the resource matches none of them.
	Prefix string
	// Wait is how long LOCKs took that were granted, from their arrival to the grant. What a client does
	// between two LOCKs of its own is not in it.
	Wait Times
	// Hold is how long locks were held whose end this client has seen: from the first grant to the
	// release, to the end of the validity, or to the moment at which another holder was found. A lock that
	// changes its token goes on.
	Hold Times
	// Rounds are the rounds of acquisition that a grant took, retries of waiters and steps of reservations
	// included.
	Rounds Counts
}

// PrefixOther stands for all resources that match none of Options.Prefixes.
const PrefixOther = "other"

// prefixesMax bounds Options.Prefixes: every grant is compared with them, and each has some 45 series
// in Prometheus.
const prefixesMax = 16

// prefixMax bounds the bytes of one of them.
const prefixMax = 128

// Counts counts small numbers by their size.
type Counts struct {
	Buckets [CountsBuckets]uint64 // how many were at most BucketMax(i), and above BucketMax(i-1)
	Sum     uint64
}

// CountsBuckets is how many sizes Counts tells apart. The last one has no upper bound.
const CountsBuckets = 10

// BucketMax is the largest number of a bucket: 1 for the first, twice as much for each that follows.
func (Counts) BucketMax(i int) int { return 1 << i }

func (c *Counts) add(n uint32) {
	c.Buckets[min(bits.Len32(max(n, 1)-1), CountsBuckets-1)]++
	c.Sum += uint64(n)
}

// byPrefix counts by the prefix of the resource; the last element is of all others. Client.mu guards
// it. It is never empty.
type byPrefix []PrefixStats

func newByPrefix(prefixes []string) byPrefix {
	var s byPrefix
	for _, prefix := range append(prefixes[:len(prefixes):len(prefixes)], PrefixOther) {
		s = append(s, PrefixStats{Prefix: prefix})
	}
	return s
}

// of returns what is counted for a resource: by the first prefix that it begins with.
func (s byPrefix) of(resource string) *PrefixStats {
	last := len(s) - 1
	for i := range s[:last] {
		if prefix := s[i].Prefix; strings.HasPrefix(resource, prefix[:len(prefix)-1]) {
			return &s[i]
		}
	}
	return &s[last]
}

// granted counts a grant to an operation that came so long ago.
func (s byPrefix) granted(resource string, waited time.Duration, rounds uint32) {
	p := s.of(resource)
	p.Wait.add(waited)
	p.Rounds.add(rounds)
}

// ended counts the end of a lock that was held so long.
func (s byPrefix) ended(resource string, held time.Duration) { s.of(resource).Hold.add(max(0, held)) }
