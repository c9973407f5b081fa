package redlock

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"
	"unicode/utf8"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/loglimit"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/quorum"
)

// Limits that are not settings: they bound the memory a single operation can take here and on every
// master.
const (
	// MaxMasters is the largest number of masters: the votes of a round are packed into one machine word
	// (quorum.Votes).
	MaxMasters = quorum.MaxMasters
	// MaxResourceLen and MaxTokenLen bound the names, in bytes.
	MaxResourceLen = lua.MaxResourceLen
	MaxTokenLen    = 1024
	// MaxValueLen bounds the values of a commit, in bytes. They can be more than a token: all holders of a
	// lock, say.
	MaxValueLen = lua.MaxValueLen
	// MaxResources is how many resources one operation may name, and MaxKeys how many a commit or a
	// reading may.
	MaxResources = 64
	MaxKeys      = 128
	// ReservedPrefix begins the names of the keys that redlockd keeps for itself on the masters. No
	// resource may use it.
	ReservedPrefix = lua.ReservedPrefix
)

// Master says how one of the independent Redis masters is reached.
type Master = conn.Master

// minTTLMin is the least MinTTL. If the key of an attempt under a caller's token has ended, another
// attempt under the same token may set it anew; the new key must end so much later that the undo of the
// first (op_undo.go) leaves it alone, too.
const minTTLMin = (lua.EndMoveMs + 2) * time.Millisecond

// Options configure a Client. The zero value of a field means its default, as DefaultOptions returns
// it; Masters has none. The command redlockd keeps the default where a comment says "No setting": no
// operator could choose it better.
type Options struct {
	// Masters are the independent Redis masters: an odd number, up to MaxMasters. They found the first
	// membership, which the masters keep themselves from then on. Later they lead to it: more than half of
	// those that answer must belong to one fleet. Where they differ, the membership counts
	// (Client.Membership). Libraries that lock on the masters themselves must use those of the membership.
	Masters []Master
	// Common says how a master is reached at an address that Masters does not name: Username, Password,
	// TLS, and DB where an operator names an address without one. The rest does not count.
	Common Master

	// MasterTimeout is how long one master may take over one batch before its silence counts as no answer.
	// A master without which there is no quorum may take four times as long, up to ConnectTimeout. Default
	// 50 ms.
	MasterTimeout time.Duration
	// ConnectTimeout bounds making and vetting a connection, off the path of requests. Default 1 s.
	ConnectTimeout time.Duration
	// ReconnectDelayMax is the longest pause between two attempts to reach a master that is down.
	// Pauses start at 10 ms, double, and are shortened by a random part. Default 1 s: an attempt costs
	// next to nothing, and a master that is back votes within that. No setting.
	ReconnectDelayMax time.Duration

	// DriftFactor is the part of a TTL by which clocks may drift apart while it runs. Three quarters of it
	// are for the rates of this client's clock and a master's, a quarter for those of two clients. The masters are
	// asked to keep keys for longer by this part, ClockStepMax and 2 ms: it costs no validity. Default 0.01.
	DriftFactor float64
	// ClockStepMax is how far a master's clock may gain on ours, beyond three quarters of DriftFactor, and
	// still be believed: more, and the master's votes do not count here until it was given what the others
	// remember, or for up to about MaxTTL. It and DriftFactor must be the same for all clients. Default
	// 500 ms.
	ClockStepMax time.Duration
	// Heartbeat is the pause between two looks at a master: at its role and memory policy, and, where
	// no batch has done so meanwhile, at its clock and what it shows of the membership. Default 250 ms:
	// an idle master has four small commands per second. It is a third of a wait at most, where MaxTTL and
	// ClockStepMax are so short. No setting.
	Heartbeat time.Duration
	// MinTTL and MaxTTL bound what a caller may ask for. Default 20 ms (1 s in the command redlockd) and
	// 5 min. MaxTTL is that of the first membership; later the membership counts (Client.MaxTTL). How long a
	// master has no vote that may have forgotten locks follows from the longest that may run, the ceiling
	// (Membership.Ceiling): a minute, and a step more where longer locks are asked for. It follows from
	// MaxTTL only where neither a majority of the masters nor this client remembers the ceiling.
	MinTTL, MaxTTL time.Duration
	// MaxHold bounds how long one lock may be extended by EXTEND, counted from its birth. Default 24 h.
	MaxHold time.Duration

	// FenceAlways gives every lock a fence, also those whose LOCK does not ask for one. Needed where only
	// some clients ask, and the resource is to be protected from the others too.
	FenceAlways bool
	// FenceMarks bounds how many resources a master remembers the last fence of. For the others it
	// remembers one common floor. A mark takes 120 bytes and the name, which Redis 7.0 rounds up to a size
	// of its allocator. Default 16 000: 2.5 MB of a master's memory with names of 30 bytes, and 22 MB with
	// the longest. Forgetting is safe, because a fence must be above the floor. As long as fewer than
	// 16 000 resources get a fence within ClockSkewMax, every clock that is right gives such fences at
	// once. No setting.
	FenceMarks int
	// FoundingWait is how long masters that remember no membership have no vote, where that is more than
	// the wait that follows from MaxTTL (1.02 × MaxTTL + 1.01 s by default): brand-new masters (unless
	// Bootstrap admits them), or all that have forgotten at once. Up to 3 s come on top. It must be no
	// less than any MaxTTL that was in force before, for nobody else remembers that. Default 1 min.
	FoundingWait time.Duration
	// ClockSkewMax is how far the wall clocks of this process, of other proxies and of the masters may
	// differ. A client that has just started counts the clocks that another client watches. Where none
	// does, it counts a master's clock if it, its own, and a majority of all lie within this. And when fewer
	// than a quorum of masters remember the fences they gave, the next one is twice this ahead of the clock.
	// Default 1 s.
	ClockSkewMax time.Duration

	// MaxWait bounds how long one LOCK may wait. Default 1 h.
	MaxWait time.Duration
	// MaxWaiters bounds the LOCKs that wait at the same time, over all resources. Default 100 000.
	MaxWaiters int
	// MaxBound bounds the locks that are held for connections (LockRequest.Holder) at the same time.
	// Default 100 000.
	MaxBound int
	// RetryDelayMin and RetryDelayMax bound the random pause between two attempts of the waiter at the
	// head of a queue. It is much longer while masters must send an invalidation before the resource can
	// be free. Choose them large against a round trip to the masters. Default 20 ms and 50 ms. No settings:
	// they count only while too few masters send invalidations.
	RetryDelayMin, RetryDelayMax time.Duration
	// HandoverTime bounds for how long released locks are handed over here, from one waiter to the next.
	// Then waiters of other proxies get a window of 5 ms plus three round trips, or of a retry delay if
	// the masters send no invalidations. Default 250 ms.
	HandoverTime time.Duration

	// QueueMax bounds the acquisitions that wait for one master while its previous batch is in flight.
	// One more counts as not answered by that master; a release is never dropped. Default 16 384: more
	// than a master answers within MasterTimeout. No setting.
	QueueMax int
	// MemoryLimit is what the process may take, in bytes. MaxWaiters are at most as many as take a sixteenth
	// of it, at 512 bytes each, and what waits for room at the masters (LimitAllBytes) takes as much at most.
	// Default 0: it is not known, and bounds nothing.
	MemoryLimit int64

	// Prefixes are the beginnings of resources for which Stats counts wait times, hold times and rounds
	// apart from those of all others: texts with a * at the end. The first one that matches counts, so a
	// longer one stands before a shorter one. At most 16, of 128 bytes each. Default: none.
	Prefixes []string

	// Logger gets the engine's events; nil discards them. Tokens are never logged.
	Logger *slog.Logger

	clockFaults *clock.Faults                        // for tests: of this machine's clocks
	onLaneState func(master int, from, to laneState) // for tests: called with the lane's mutex held
	noCopy      bool                                 // for tests of the wait: no learner is copied to
	copyCount   int                                  // for tests: in the place of the constant

	firstCeiling time.Duration // for tests; 0: member.FirstCeiling
}

// DefaultOptions returns the options with every default filled in, and no masters.
func DefaultOptions() Options {
	return Options{}.withDefaults()
}

func (o Options) withDefaults() Options {
	o.MasterTimeout = cmp.Or(o.MasterTimeout, 50*time.Millisecond)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, time.Second)
	o.ReconnectDelayMax = cmp.Or(o.ReconnectDelayMax, time.Second)
	o.DriftFactor = cmp.Or(o.DriftFactor, 0.01)
	o.ClockStepMax = cmp.Or(o.ClockStepMax, 500*time.Millisecond)
	o.Heartbeat = cmp.Or(o.Heartbeat, 250*time.Millisecond)
	o.MinTTL = cmp.Or(o.MinTTL, 20*time.Millisecond)
	o.MaxTTL = cmp.Or(o.MaxTTL, 5*time.Minute)
	o.MaxHold = cmp.Or(o.MaxHold, 24*time.Hour)
	o.FenceMarks = cmp.Or(o.FenceMarks, 16_000)
	o.FoundingWait = cmp.Or(o.FoundingWait, time.Minute)
	o.ClockSkewMax = cmp.Or(o.ClockSkewMax, time.Second)
	o.MaxWait = cmp.Or(o.MaxWait, time.Hour)
	o.MaxWaiters = cmp.Or(o.MaxWaiters, 100_000)
	o.MaxBound = cmp.Or(o.MaxBound, 100_000)
	o.RetryDelayMin = cmp.Or(o.RetryDelayMin, 20*time.Millisecond)
	o.RetryDelayMax = cmp.Or(o.RetryDelayMax, 50*time.Millisecond)
	o.HandoverTime = cmp.Or(o.HandoverTime, 250*time.Millisecond)
	o.QueueMax = cmp.Or(o.QueueMax, 16_384)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// OptionError says why an option cannot be used. Validate, here and in package proxy, joins one for
// each fault.
type OptionError struct {
	// Option is the field of Options, "MaxTTL" for example; of package proxy also a setting of one of a
	// list, "Policies[0].max_ttl".
	Option string
	// Reason is what is wrong, with the values: "48h is outside 10ms … 24h".
	Reason string
	// Other is the field that Option contradicts, and Reason names it with its value. Empty: Option is
	// wrong by itself.
	Other string
}

func (e *OptionError) Error() string { return e.Option + ": " + e.Reason }

// CheckBounds returns an *OptionError if the value of an option is below least or above most, else nil.
func CheckBounds[T int | time.Duration](option string, value, least, most T) error {
	if value >= least && value <= most {
		return nil
	}
	return &OptionError{Option: option, Reason: fmt.Sprintf("%s is outside %s … %s", clock.Text(value), clock.Text(least), clock.Text(most))}
}

// Validate reports every option that is out of bounds, and every pair of options that contradict each
// other, as *OptionError. Zero values stand for their defaults. Open calls it.
func (o Options) Validate() error {
	o = o.withDefaults()
	errs := []error{
		validateMasters(o.Masters),
		validatePrefixes(o.Prefixes),
		CheckBounds("MasterTimeout", o.MasterTimeout, time.Millisecond, 10*time.Second),
		CheckBounds("ConnectTimeout", o.ConnectTimeout, 10*time.Millisecond, time.Minute),
		CheckBounds("ReconnectDelayMax", o.ReconnectDelayMax, 10*time.Millisecond, time.Minute),
		CheckBounds("ClockStepMax", o.ClockStepMax, 10*time.Millisecond, 10*time.Second),
		CheckBounds("Heartbeat", o.Heartbeat, 10*time.Millisecond, 10*time.Second),
		CheckBounds("MinTTL", o.MinTTL, minTTLMin, 24*time.Hour),
		CheckBounds("MaxTTL", o.MaxTTL, 10*time.Millisecond, 24*time.Hour),
		CheckBounds("MaxHold", o.MaxHold, time.Second, 10*365*24*time.Hour),
		CheckBounds("ClockSkewMax", o.ClockSkewMax, time.Millisecond, time.Hour),
		CheckBounds("FoundingWait", o.FoundingWait, 10*time.Millisecond, 24*time.Hour),
		CheckBounds("MaxWait", o.MaxWait, time.Millisecond, 24*time.Hour),
		CheckBounds("RetryDelayMin", o.RetryDelayMin, time.Millisecond, time.Minute),
		CheckBounds("RetryDelayMax", o.RetryDelayMax, time.Millisecond, time.Minute),
		CheckBounds("MaxWaiters", o.MaxWaiters, 1, 10_000_000),
		CheckBounds("MaxBound", o.MaxBound, 1, 10_000_000),
		CheckBounds("HandoverTime", o.HandoverTime, time.Millisecond, 10*time.Second),
		CheckBounds("FenceMarks", o.FenceMarks, 1, 100_000_000),
		CheckBounds("QueueMax", o.QueueMax, 16, 1_000_000),
	}
	bad := func(option, other, format string, args ...any) {
		for i, arg := range args {
			args[i] = clock.Text(arg)
		}
		errs = append(errs, &OptionError{option, fmt.Sprintf(format, args...), other})
	}
	if !(o.DriftFactor > 0 && o.DriftFactor <= 0.5) {
		bad("DriftFactor", "", "%v is outside 0 … 0.5: it is the part of a TTL by which clocks may drift", o.DriftFactor)
	}
	if o.MinTTL > o.MaxTTL {
		bad("MinTTL", "MaxTTL", "%s is above MaxTTL = %s", o.MinTTL, o.MaxTTL)
	}
	if o.MaxHold < o.MaxTTL {
		bad("MaxHold", "MaxTTL", "%s is below MaxTTL = %s", o.MaxHold, o.MaxTTL)
	}
	if o.RetryDelayMin > o.RetryDelayMax {
		bad("RetryDelayMin", "RetryDelayMax", "%s is above RetryDelayMax = %s", o.RetryDelayMin, o.RetryDelayMax)
	}
	if o.MasterTimeout > o.MaxTTL/2 {
		bad("MasterTimeout", "MaxTTL", "%s is not small against MaxTTL = %s: a master that hangs would use up the lock", o.MasterTimeout, o.MaxTTL)
	}
	return errors.Join(errs...)
}

func validateMasters(masters []Master) error {
	n := len(masters)
	bad := func(format string, args ...any) error {
		return &OptionError{Option: "Masters", Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case n == 0:
		return bad("no masters are named")
	case n > MaxMasters:
		return bad("%d masters are named, at most %d are possible", n, MaxMasters)
	case n%2 == 0:
		return bad("%d masters tolerate no more failures than %d: name an odd number (5 is usual)", n, n-1)
	}
	seen, named := make(map[string]int, n), make(map[string]int, n)
	for i, m := range masters {
		if m.Addr == "" {
			return bad("master %d has no address", i+1)
		}
		if m.Addr[0] != '/' && m.Dialer == nil {
			if _, _, err := net.SplitHostPort(m.Addr); err != nil {
				return bad("master %d: %v (host:port, or the path of a unix socket, is needed)", i+1, err)
			}
		}
		if m.DB < 0 {
			return bad("master %s: database number %d is negative", m.Addr, m.DB)
		}
		for _, text := range []string{m.Addr, m.SeatName()} {
			if _, db, is := conn.SplitAddr(text); is {
				return bad("master %d: the /%d at the end of %s is the number of a database: give it as such", i+1, db, text)
			}
		}
		if first, twice := seen[m.Addr]; twice {
			return bad("%s is named twice, as number %d and %d: each vote must come from a master of its own", m.Addr, first, i+1)
		}
		seen[m.Addr] = i + 1
		if first, twice := named[m.SeatName()]; twice {
			return bad("masters %d and %d have the same name, %s", first, i+1, m.SeatName())
		}
		named[m.SeatName()] = i + 1
	}
	return nil
}

func (o *Options) drift() clock.Drift {
	return clock.Drift{Factor: o.DriftFactor, StepMax: o.ClockStepMax}
}

// validatePrefixes returns what is wrong with Options.Prefixes, or nil.
func validatePrefixes(prefixes []string) error {
	fault := func(format string, args ...any) error {
		return &OptionError{Option: "Prefixes", Reason: fmt.Sprintf(format, args...)}
	}
	if len(prefixes) > prefixesMax {
		return fault("there are %d, at most %d are possible, because each has metrics of its own: leave out those that nobody looks at", len(prefixes), prefixesMax)
	}
	for i, prefix := range prefixes {
		text, star := strings.CutSuffix(prefix, "*")
		switch {
		case !star || text == "" || strings.ContainsAny(text, "*?[\\"):
			return fault("%q is not a text with one * at its end: write \"billing:*\" for all resources that begin with billing:", prefix)
		case len(prefix) > prefixMax:
			return fault("%q has %d bytes, at most %d are possible: shorten it", prefix, len(prefix), prefixMax)
		case !utf8.ValidString(prefix):
			return fault("%q is not UTF-8, which labels of metrics have to be", prefix)
		}
		for _, before := range prefixes[:i] {
			if strings.HasPrefix(text, before[:len(before)-1]) {
				return fault("%q is never reached, because %q stands before it and matches the same resources: put the longer one first", prefix, before)
			}
		}
	}
	return nil
}

// members are the options that matter to the membership.
func (o Options) members() member.Options {
	return member.Options{Masters: o.Masters, Common: o.Common, ConnectTimeout: o.ConnectTimeout, Heartbeat: o.Heartbeat, MaxTTL: o.MaxTTL, FirstCeiling: o.firstCeiling,
		FoundingWait: o.FoundingWait, ClockSkewMax: o.ClockSkewMax, Drift: o.drift(), Logger: o.Logger, LogInterval: logInterval, LogBurst: logBurst, NoCopy: o.noCopy, CopyCount: o.copyCount}
}

// What the log says of a master, and of leases, is limited per subject: ten lines in a row, then one in
// ten seconds.
const (
	logBurst    = 10
	logInterval = 10 * time.Second
)

func newLogLimiter() loglimit.Limiter {
	return loglimit.Limiter{Interval: logInterval, Burst: logBurst}
}
