package member

import (
	"log/slog"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
)

// What the engine gives to this package: options, and a host.

// Host is what the coordinator needs of the engine. The number of a seat is its place there.
type Host interface {
	// Places are the masters in use.
	Places() map[int]conn.Master
	// Answering is how many of them answer in time.
	Answering() int
	// Adopt makes a record the one in force. Votes count by it from then on.
	Adopt(r *Record)
	// Recheck has all connections look at what their masters show.
	Recheck()
	// Confirm says which process was behind the address of a place, on a connection that was begun at that
	// time.
	Confirm(place int, runID string, at time.Time)
	// Unreached says why a new connection to the address of a place has found no process.
	Unreached(place int, why error)
	// Source is what is known of the clock of a voter, and its beat, before it is copied from; a nil ring:
	// its clock is this process's. ok is false if its votes do not count here because of the clock, or
	// because it may evict keys.
	Source(place int) (ring *clock.Ring, beat int64, ok bool)
	// Gained says that the clock of a source, the process with this run_id, has gained so much since a
	// time on clock.Own.
	Gained(place int, runID string, gain, before time.Duration)
	// Copied counts a copy that was made.
	Copied()
}

// Options are those of the client that matter here; redlock.Options explains them.
type Options struct {
	Masters []conn.Master
	Common  conn.Master

	ConnectTimeout, Heartbeat, MaxTTL, FoundingWait, ClockSkewMax time.Duration

	Drift  clock.Drift
	Logger *slog.Logger
	// LogInterval and LogBurst limit the lines of the log about the membership, as those about a master.
	LogInterval time.Duration
	LogBurst    int

	// NoCopy and CopyCount are for tests: no learner is copied to, or so many keys at a time.
	NoCopy    bool
	CopyCount int

	// readOnly has a survey name no memory.
	readOnly bool
}
