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
	// Source is what is known of a master's clock and beat before a copy.
	Source(place int) Source
	// Saw hands on a reading of the clock of the process with this run_id that shows a gain.
	Saw(place int, runID string, now clock.Reading)
	// OutOfStep says why a voter's clock keeps its votes from counting here for longer than a copy to it
	// would take, while a quorum of the others count; "": it does not.
	OutOfStep(place int) string
	// Copied says that the memory at a place was given what the others remember, by a copy that began at
	// that time.
	Copied(place int, memory string, began time.Time)
}

// Source is what is known of a master before a copy from it, or to it.
type Source struct {
	// Ring has the readings of its clock; nil: it is this process's clock.
	Ring *clock.Ring
	// Beat is the last one.
	Beat int64
	// Good tells that votes of the master count here: its clock is in step, and it evicts no keys.
	Good bool
	// Refused tells that redlockd refuses it although it is connected: it may evict keys, or has.
	Refused bool
	// Read tells that its clock is read.
	Read bool
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
