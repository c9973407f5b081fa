package member

import (
	"log/slog"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
)

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

	// ReadOnly has a survey name no memory.
	ReadOnly bool

	// FirstCeiling is for tests; 0: the one of this package.
	FirstCeiling time.Duration
}
