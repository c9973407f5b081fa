package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"
)

// recoveryEvery is how often each of the other clients locks and releases. It is a moderate rate: with all the CPU taken by clients, the figures would
// be those of a machine that is too small.
const recoveryEvery = 10 * time.Millisecond

// lockSample is one LOCK of the other clients.
type lockSample struct {
	// at is when it was due, since the beginning of the quiet phase. Negative: in the warm-up.
	at      time.Duration
	took    time.Duration // from when it was due to the reply
	outcome lockOutcome
}

type lockOutcome byte

const (
	lockGranted lockOutcome = iota
	lockRefused             // NOQUORUM, or null
	lockFailed              // any other error
)

// otherClients lock and release resources of their own, that nobody else wants, over a connection each.
type otherClients struct {
	began    time.Time // of the quiet phase
	failures failureLog

	target  *redlockdTarget
	cancel  context.CancelFunc
	running sync.WaitGroup
	samples [][]lockSample // per client, owned by its goroutine until running is done
}

// startOthers starts n clients; the quiet phase begins after the warm-up. Stop them in any case.
func startOthers(addr string, n int, warmup time.Duration) *otherClients {
	ctx, cancel := context.WithCancel(context.Background())
	o := &otherClients{
		began:   time.Now().Add(warmup),
		target:  newRedlockdTarget(addr, n, false, ""),
		cancel:  cancel,
		samples: make([][]lockSample, n),
	}
	for i := range n {
		first := time.Now().Add(time.Duration(i) * recoveryEvery / time.Duration(n)) // they are spread over the period
		o.running.Go(func() { o.samples[i] = o.run(ctx, "bench:others:"+strconv.Itoa(i)+":", first) })
	}
	return o
}

// stop ends the clients and returns the samples. It may be called again.
func (o *otherClients) stop() (all []lockSample) {
	o.cancel()
	o.running.Wait()
	o.target.close()
	for _, mine := range o.samples {
		all = append(all, mine...)
	}
	return all
}

// run is one client. Where the pair before outlasts the time at which a LOCK is due, its latency counts from then, see latency.go. Where the client itself
// wakes up late, that is nobody's latency, and the next LOCK is due a period later.
func (o *otherClients) run(ctx context.Context, prefix string, due time.Time) (mine []lockSample) {
	c := o.target.newCaller()
	for n := 0; ctx.Err() == nil; n++ {
		if early := time.Until(due); early > 0 {
			if sleep(ctx, early) != nil {
				break
			}
			due = time.Now()
		}
		err := c.acquire(context.WithoutCancel(ctx), prefix+strconv.Itoa(n))
		mine = append(mine, lockSample{at: due.Sub(o.began), took: time.Since(due), outcome: outcomeOf(err)})
		if err == nil {
			err = c.release(context.WithoutCancel(ctx))
		}
		if err != nil {
			o.failures.add(err)
		}
		due = due.Add(recoveryEvery)
	}
	return mine
}

func outcomeOf(err error) lockOutcome {
	switch {
	case err == nil:
		return lockGranted
	case errors.Is(err, errGaveUp), isNoQuorum(err):
		return lockRefused
	}
	return lockFailed
}

// latencyStep is one step of a time line, of the LOCKs that were due in it. The percentiles are those of the granted ones, 0 when there were none.
type latencyStep struct {
	P50Us   float64 `json:"p50_us"`
	P99Us   float64 `json:"p99_us"`
	Refused int     `json:"refused"`
}

// analyze splits the LOCKs of the others at the first kill and at the last vote, by when they were due. Refusals count from the beginning of the quiet
// phase to the end.
func (r *recoveryRound) analyze(samples []lockSample, from, to time.Duration) {
	var quiet, restarts []lockSample
	var steps [][]lockSample // granted
	for _, s := range samples {
		if s.at < 0 {
			continue
		}
		step := int(s.at / timelineStep)
		for len(steps) <= step {
			steps, r.Timeline = append(steps, nil), append(r.Timeline, latencyStep{})
		}
		switch s.outcome {
		case lockRefused:
			r.Refused++
			r.Timeline[step].Refused++
		case lockGranted:
			steps[step] = append(steps[step], s)
			if s.at < from {
				quiet = append(quiet, s)
			} else if s.at < to {
				restarts = append(restarts, s)
			}
		}
	}
	took := func(s lockSample) uint32 { return uint32(s.took.Microseconds()) }
	r.QuietPerSec, r.RestartPerSec = ratio(float64(len(quiet)), from.Seconds()), ratio(float64(len(restarts)), (to-from).Seconds())
	r.QuietUs, r.RestartUs = percentilesOf(eachOf(quiet, took)), percentilesOf(eachOf(restarts, took))
	for i, step := range steps {
		us := percentilesOf(eachOf(step, took))
		r.Timeline[i].P50Us, r.Timeline[i].P99Us = us.P50, us.P99
	}
}
