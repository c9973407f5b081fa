package copying

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
)

// What a copy is, and what others may ask of one that runs.

// Host is what copies need of the engine. The number of a seat is its place there.
type Host interface {
	// Source is what is known of a master's clock and beat before a copy.
	Source(place int) Source
	// Saw hands on a reading of the clock of the process with this run_id that shows a gain.
	Saw(place int, runID string, now clock.Reading)
	// Copied says that the memory at a place was given what the others remember, by a copy that began at
	// that time.
	Copied(place int, memory string, began time.Time)
}

// Copier makes the copies of one client.
type Copier struct {
	Host    Host
	Own     *clock.Own
	Opts    member.Options
	Current func() *member.Record // in force
	Ending  context.Context       // is over when the client is closed, which waits for running
	Running *sync.WaitGroup
	Wake    func() // is called when a copy has ended
}

// Copy gives one learner what the sources remember. The coordinator makes it; run is its goroutine.
// What is atomic is for others.
type Copy struct {
	*Copier

	id      string
	learner *Place
	// Sources are those that are left, and LeftOut those that have failed. At least quorum must be left.
	Sources []*Place
	LeftOut []LeftOut
	quorum  int
	under   member.RecordID // the record in force when the copy began
	survey  *survey.Masters // has the connections
	Began   time.Time
	Cancel  context.CancelFunc
	count   int // keys at a time

	// seen has the names of keys that are to be read on all sources, and those of locks that were.
	seen seenNames
	// again are the keys that are to be read once more.
	again   []copyKey
	nobodys string
	// minority are what too few held to be a lock for certain.
	minority minorityLocks
	// noted is when others were told last, logged when the log was.
	noted, logged time.Time

	given, looked, total atomic.Int64
	from                 atomic.Pointer[string] // the sources, for people
	// ended is closed when the goroutine has ended; Err and Took are set by then.
	ended chan struct{}
	Err   error
	Took  time.Duration
}

// Over tells whether the copy has ended. Then Err and Took are set.
func (c *Copy) Over() bool {
	select {
	case <-c.ended:
	default:
		return false //mutant:promoted-before-the-last-key
	}
	return true
}

// copyKey is a key that was read tries times already.
type copyKey struct {
	name  string
	tries int
}

// least is how many of n sources deny a lock that is valid.
func (c *Copy) least(n int) int { return n - c.quorum + 1 } //mutant:what-one-source-has-is-copied

// ErrCopied: another redlockd copies.
var ErrCopied = errors.New("another redlockd gives it what it has to know")

// NoteLife is for how long a note counts.
func NoteLife(o member.Options) time.Duration { return 4 * o.Heartbeat }

// Progress is how far the copy is.
func (c *Copy) Progress() member.CopyNote {
	n := member.CopyNote{By: c.id, Given: c.given.Load(), Done: int(100 * c.looked.Load() / max(1, c.total.Load()))}
	n.Done, n.From = min(n.Done, 99), *c.from.Load()
	return n
}

func (c *Copy) setSources(sources []*Place) {
	var names []string
	for _, p := range sources {
		names = append(names, p.Name)
	}
	from := strings.Join(names, ",")
	c.Sources = sources
	c.from.Store(&from)
}
