package redlock

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"redlockd/redlock/clock"
)

// limits are the options that SetOptions can change while the client runs. They do not change once they
// are stored.
type limits struct {
	maxHold, maxWait, handoverTime time.Duration
	maxWaiters, maxBound           int
}

func (o *Options) limits() *limits {
	l := &limits{maxHold: o.MaxHold, maxWait: o.MaxWait, maxWaiters: o.MaxWaiters, maxBound: o.MaxBound, handoverTime: o.HandoverTime}
	if fits := o.MemoryLimit / memoryPart / waiterBytes; o.MemoryLimit > 0 && int64(l.maxWaiters) > fits {
		l.maxWaiters = int(max(1, fits))
		o.Logger.Warn("the limit of memory lowers how many LOCKs may wait", "memory_limit", o.MemoryLimit, "max_waiters", l.maxWaiters,
			"to_do", "give redlockd more memory (the container's limit, or GOMEMLIMIT), or lower max_waiters")
	}
	return l
}

const (
	// memoryPart is the part of the process's memory that waiters may take, and what is queued, as a
	// divisor. Both are far from the limit together: the garbage collector needs room.
	memoryPart = 16
	// waiterBytes is what a waiter takes, about. Measured: 0.4 KB.
	waiterBytes = 512
)

// shareQueues is how many times as much may be queued (admission) of all shares together as of one.
const shareQueues = 4

// ShareQueueBytes is how much memory the operations of one Share may take that wait for room in the lanes,
// in bytes: see Share.
func (o *Options) ShareQueueBytes() int {
	const most = 64 << 20
	if o.MemoryLimit <= 0 {
		return most
	}
	return int(max(256<<10, min(most, o.MemoryLimit/memoryPart/shareQueues)))
}

// bounds say what callers may ask for, before it costs a master anything. All errors are ErrBadRequest,
// and name the setting that bounds the value. They need no mutex.
type bounds struct {
	opts   *Options
	limits atomic.Pointer[limits] // in force
	maxTTL atomic.Int64           // the longest in force. The fleet changes it
}

// checkTTL bounds what a caller may ask for. MaxTTL is about the length of a quarantine, so no lock may
// live longer, its delay included.
func (b *bounds) checkTTL(ttl, delay time.Duration) error {
	most := time.Duration(b.maxTTL.Load())
	switch {
	case ttl < b.opts.MinTTL:
		meant := ""
		if ttl > 0 && ttl <= most/1000 {
			meant = "did you mean " + inMs(ttl) + "s? If not, "
		}
		return ttlTooShort("%s ms is below the least, %s ms (min_ttl): %sask for more, or lower min_ttl in [locks]", inMs(ttl), inMs(b.opts.MinTTL), meant)
	case ttl > most:
		more := ""
		if ttl.Milliseconds() == math.MaxInt64/int64(time.Millisecond) { // what callers make of a longer one
			more = " or more"
		}
		return ttlTooLong("%s ms%s is above the most, %s ms (max_ttl): %s", inMs(ttl), more, inMs(most), b.aboveMaxTTL(ttl))
	case ttl+delay > most: //mutant:a-delay-outlives-max_ttl
		return ttlTooLong("%s ms is above the most, %s ms, because the lock has a delay of %s ms, and both together may take %s ms (max_ttl): %s",
			inMs(ttl), inMs(most-delay), inMs(delay), inMs(most), b.aboveMaxTTL(ttl+delay))
	}
	return nil
}

// aboveMaxTTL says what to do about a TTL above the most. Masters inside this process have no membership
// that outlives it, so they get the TTL when it starts.
func (b *bounds) aboveMaxTTL(ttl time.Duration) string {
	switch {
	case !slices.ContainsFunc(b.opts.Masters, Master.Inside):
		return "ask for less, or raise it with redlockd members set max_ttl"
	case ttl > 24*time.Hour: // the most that max_ttl can be
		return "ask for less"
	}
	return "ask for less, or start redlockd with --masters embedded --max-ttl " + clock.Text((ttl + time.Second - 1).Truncate(time.Second))
}

// checkHoldTTL bounds the TTL of a held lock from below: it is renewed after a third of it, and two
// attempts must fit into the rest.
func (b *bounds) checkHoldTTL(ttl time.Duration) error {
	if least := 3 * b.opts.MasterTimeout; ttl < least {
		return ttlTooShort("%s ms is too short for a lock that is held: at least %s ms are needed, three times master.timeout", inMs(ttl), inMs(least))
	}
	return nil
}

// checkHolder validates what UNLOCK and EXTEND name.
func checkHolder(resources []string, token string) error {
	if err := checkResources(resources, MaxResources); err != nil {
		return err
	}
	return checkToken(token)
}

// checkToken bounds a caller's token. Any bytes will do.
func checkToken(token string) error {
	switch {
	case token == "":
		return badRequest("the token is empty: 1 to %d bytes are needed", MaxTokenLen)
	case len(token) > MaxTokenLen:
		return badRequest("the token has %d bytes, at most %d are possible", len(token), MaxTokenLen)
	}
	return nil
}

// checkResources bounds the names. No name may stand twice, because scripts change each key once.
func checkResources(resources []string, most int) error {
	if len(resources) == 0 {
		return badRequest("no resource is named")
	}
	if len(resources) > most {
		return badRequest("%d resources are named, at most %d are possible", len(resources), most)
	}
	for i, resource := range resources {
		switch {
		case resource == "":
			return badRequest("a resource name is empty: 1 to %d bytes are needed", MaxResourceLen)
		case len(resource) > MaxResourceLen:
			return badRequest("a resource name has %d bytes, at most %d are possible", len(resource), MaxResourceLen)
		case strings.HasPrefix(resource, ReservedPrefix):
			return badRequest("resource names that begin with %s are kept for redlockd itself", ReservedPrefix)
		}
		if slices.Contains(resources[:i], resource) {
			return badRequest("resource %q is named twice", resource)
		}
	}
	return nil
}

// inMs is a duration as the commands take it.
func inMs(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
