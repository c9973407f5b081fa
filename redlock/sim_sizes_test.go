package redlock

// The sizes of a simulation. A bug may show only where many keys are copied at a time, where a lock is long against the tolerance of clocks, or where more
// marks were set than a master keeps. So each seed draws its sizes, and each axis has a source of its own: another value on one axis leaves the others as
// they are. The default of production is among the values of each axis, and some seeds have it on all of them.

import (
	"cmp"
	"math"
	"math/rand/v2"
	"time"
)

// sizes are what a seed draws. Zero is the default of Options.
type sizes struct {
	// masters is how many the membership is founded with.
	masters int
	// maxTTL is the longest TTL of most callers' locks. Hoarders have longer ones (sim_hoard_test.go).
	maxTTL time.Duration
	// heartbeat and masterTimeout are options of all proxies; stepMax and rates are about the masters' clocks.
	heartbeat, masterTimeout, stepMax time.Duration
	// reconnectMax and handover are options.
	reconnectMax, handover time.Duration
	// copied is how many keys a copy reads and writes at a time.
	copied int
	// marks, waiters, bound and queue bound what masters and proxies keep.
	marks, waiters, bound, queue int
	// briefHold: MaxHold is so short that callers reach it.
	briefHold bool
	// places multiplies what a user of a server may have: connections, locks, waiters. 1: so few that callers reach it; 0: nothing limits it.
	places int
	// rates are how clocks of masters run.
	rates clockRates
	// hoard is how many locks a hoarder keeps.
	hoard int
	// calm: faults are so many times as far apart as the profile says.
	calm time.Duration
}

// clockRates is how the clocks of masters run.
type clockRates int

const (
	rightRates clockRates = iota
	mixedRates            // each differs from the proxies' by up to 0.45 %
	fastRates             // all are as fast as clocks may be that count: 0.75 % (clock.Drift.Rate)
)

// rate draws how fast the clock of a master is, in millionths.
func (r clockRates) rate(rng *rand.Rand) float64 {
	switch r {
	case mixedRates:
		return float64(rng.IntN(9001) - 4500)
	case fastRates:
		return float64(7000 + rng.IntN(400))
	}
	return 0
}

// sizesOf draws the sizes of a seed.
func sizesOf(seed uint64, p *profile) (z sizes) {
	axis := uint64(5000)
	draw := func() *rand.Rand {
		axis++
		return rand.New(rand.NewPCG(seed, axis))
	}
	production := draw().IntN(6) == 0
	times := func(values ...time.Duration) (drawn time.Duration) {
		if drawn = values[draw().IntN(len(values))]; production {
			return 0
		}
		return drawn
	}
	numbers := func(values ...int) (drawn int) {
		if drawn = values[draw().IntN(len(values))]; production {
			return 0
		}
		return drawn
	}
	z.heartbeat = times(30*ms, simHeartbeat, simHeartbeat, 120*ms, 0)
	z.masterTimeout = times(simShortTimeout, simShortTimeout, 0)
	z.reconnectMax = times(100*ms, 100*ms, 0)
	z.handover = times(30*ms, 30*ms, 0)
	z.copied = numbers(1, 2, 3, 16, 0, 0)
	z.marks = numbers(1, 2, 16, 64, 0)
	z.waiters = numbers(5, 5, 20, 0)
	z.bound = numbers(2, 2, 8, 0)
	z.queue = numbers(16, 16, 64, 0)
	z.briefHold = numbers(1, 0, 0) > 0
	z.places = numbers(1, 1, 1, 1, 3, 0)
	if z.stepMax = 10*ms + upTo(draw(), 490*ms); production {
		z.stepMax = 0
	}
	z.masters = p.mastersOf(draw())
	z.maxTTL = p.maxTTLOf(draw())
	z.calm = []time.Duration{1, 4, 8}[draw().IntN(3)]
	rng := draw()
	switch {
	case !p.members && rng.IntN(2) == 0:
		// What a lock is longer for covers so much, and no more: where clocks may step far, that hides a TTL that is not padded.
		if z.rates = fastRates; rng.IntN(4) > 0 && !production {
			z.stepMax = 10*ms + upTo(rng, 20*ms)
		}
	case p.drift:
		z.rates = mixedRates
	}
	z.hoard = []int{3, 8, 40, 150, 300}[draw().IntN(5)]
	return z
}

// plainSizes are those of simulations that are recorded for a model: it knows few masters, and no limits.
func plainSizes(seed uint64, p *profile) sizes {
	z := sizesOf(seed, p)
	plain := sizes{masters: 5, maxTTL: []time.Duration{300 * ms, 600 * ms, time.Second}[seed%3], heartbeat: simHeartbeat, masterTimeout: []time.Duration{simShortTimeout, 50 * ms}[seed%2],
		stepMax: 10 * ms, reconnectMax: 100 * ms, handover: 30 * ms, copied: 1, places: 1, calm: z.calm}
	if p.drift {
		plain.rates = mixedRates
	}
	return plain
}

// mastersOf draws how many masters the membership is founded with. Changes of it come to the even numbers, too.
func (p *profile) mastersOf(rng *rand.Rand) int {
	switch all := []int{5, 3, 5, 1, 7, 5, 9, 3}; {
	case p.faults["lie"] > 0:
		return 5 // nobodyBelievesIt
	case p.members:
		return []int{5, 5, 5, 7}[rng.IntN(4)]
	case p.long:
		return []int{5, 5, 3, 7}[rng.IntN(4)]
	default:
		return all[rng.IntN(len(all))]
	}
}

func (p *profile) maxTTLOf(rng *rand.Rand) time.Duration {
	switch {
	case p.long:
		return []time.Duration{500 * ms, time.Second, 2 * time.Second}[rng.IntN(3)]
	case p.members:
		return []time.Duration{300 * ms, 600 * ms, time.Second}[rng.IntN(3)]
	}
	return []time.Duration{300 * ms, 600 * ms, time.Second, 2 * time.Second}[rng.IntN(4)]
}

// options are those of the proxies.
func (z *sizes) options(o *Options) {
	o.MaxTTL, o.MasterTimeout, o.ConnectTimeout = z.maxTTL, z.masterTimeout, 400*ms
	o.ClockStepMax, o.HandoverTime = z.stepMax, z.handover
	o.Heartbeat, o.ReconnectDelayMax, o.copyCount = z.heartbeat, z.reconnectMax, z.copied
	o.FenceMarks, o.MaxWaiters, o.MaxBound, o.QueueMax = z.marks, z.waiters, z.bound, z.queue
	if z.briefHold {
		o.MaxHold = max(time.Second, 2*z.maxTTL)
	}
	whole := o.withDefaults()
	z.heartbeat, z.stepMax = whole.Heartbeat, whole.ClockStepMax
}

// ttl draws the TTL of a caller's lock: mostly some part of the longest, and sometimes far less, from 50 ms on.
func (w *world) ttl(rng *rand.Rand) time.Duration {
	if rng.IntN(6) == 0 {
		return between(rng, 50*ms, w.maxTTL)
	}
	return w.maxTTL/3 + upTo(rng, w.maxTTL*2/3)
}

// between draws a duration, of which each order of magnitude is as likely as another.
func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	most = max(least, most)
	return cmp.Or(time.Duration(float64(least)*math.Pow(float64(most)/float64(least), rng.Float64())).Truncate(ms), least)
}
