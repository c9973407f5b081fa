package sandbox

import (
	"cmp"
	"sync"
	"time"
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
	// Call executes one command, with its name as args[0]. An error reply is a Reply. An error ends the run at once, also
	// inside pcall, and is what Run returns. resp is 2, or 3 after redis.setresp(3). The slice args is used again
	// for the next call, its strings may be kept.
	Call(args []string, resp int) (Reply, error)
}

// Run says what to run a script on.
type Run struct {
	Keys, Argv []string
	Caller     Caller
	Limits     Limits
	Seed       uint64         // of math.random: the same seed gives the same numbers
	Spent      *time.Duration // if not nil, gets what the run spent of Limits.Time
}

// Pool keeps Lua states for the next runs: making one takes a hundred times as long as a short run. Its methods can be
// called by many goroutines at a time.
type Pool struct {
	mu   sync.Mutex
	free []*machine
	max  int
}

// NewPool makes a pool that keeps at most so many idle states, of some 150 KB each. It does not limit how many run at a time.
func NewPool(max int) *Pool { return &Pool{max: max} }

// Run runs a script and returns its reply, which is of the kind Error when the script failed. When a limit or the
// Caller ended the run the error says why, and the reply has it too, as Redis words errors. Nobody can tell then what
// the script would have answered.
func (p *Pool) Run(s *Script, run Run) (Reply, error) {
	m := p.take()
	if m == nil {
		m = newMachine()
	}
	reply, err, clean := m.run(s, run)
	if clean {
		p.put(m)
	}
	return reply, err
}

// take is nil when none is idle.
func (p *Pool) take() *machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		m := p.free[n-1]
		p.free[n-1] = nil
		p.free = p.free[:n-1]
		return m
	}
	return nil
}

func (p *Pool) put(m *machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < p.max {
		p.free = append(p.free, m)
	}
}
