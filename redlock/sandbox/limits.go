package sandbox

import (
	"cmp"
	"time"

	"redlockd/redlock/resp"
)

// Limits are what one run may spend. Zero means the value of DefaultLimits.
type Limits struct {
	Instructions int           // of Lua; functions that do much for long arguments count as several
	Bytes        int           // allocated for strings, large tables and replies, whether still used or not
	Calls        int           // of redis.call and redis.pcall
	Time         time.Duration // by the process's clock, without most of what others took of it meanwhile
}

// DefaultLimits are those for scripts of strangers: a hundred times what a lock script needs.
var DefaultLimits = Limits{Instructions: 200_000, Bytes: 4 << 20, Calls: 1000, Time: 50 * time.Millisecond}

func (l Limits) orDefault() Limits {
	d := DefaultLimits
	return Limits{cmp.Or(l.Instructions, d.Instructions), cmp.Or(l.Bytes, d.Bytes), cmp.Or(l.Calls, d.Calls), cmp.Or(l.Time, d.Time)}
}

// Caller executes the commands of a script.
type Caller interface {
	// Call executes one command, with its name as args[0]. An error reply is a resp.Value. An error ends
	// the run at once, also inside pcall, and is what Run returns. The slice args is used again for the
	// next call, its strings may be kept. The run has paid for one copy of each.
	Call(args []string) (resp.Value, error)
}

// Run says what to run a script on.
type Run struct {
	Keys, Argv []string
	Caller     Caller
	Limits     Limits
	Seed       uint64         // of math.random: the same seed gives the same numbers
	Spent      *time.Duration // if not nil, gets what the run spent of Limits.Time
}
