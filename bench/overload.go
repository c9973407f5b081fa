package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Overload: others ask for 1, 2, 10 and 100 times as many locks as the masters can grant, at fixed times and over 64 connections, whether
// they are answered or not. How much is granted all the same, how long do those wait who are answered, and how long does it take after
// the end of it until a LOCK is as fast as before?
const (
	overloadConnections = 64
	overloadDepth       = 32 // pairs under way on a connection, where the most that is possible is measured
	overloadTime        = 4 * time.Second
	overloadQuiet       = 2 * time.Second
	overloadRecovery    = 3 * time.Second // in which the recovery is looked for
	// overloadPatience is for how long something is still sent that was due and that the connection did not take.
	overloadPatience = time.Second
	// overloadWrite is how many pairs are written at once at most.
	overloadWrite = 128
	// recoveredAt is the ratio to the quiet median at which a LOCK is as fast as before, and recoveredOver of how many LOCKs the median is.
	recoveredAt   = 1.2
	recoveredOver = 10
)

// overloadWays are times the best, which is measured first; 0 stands for that.
var overloadWays = []int{0, 1, 2, 10, 100}

// overloadRound is one cell.
type overloadRound struct {
	AskedPerSec float64     `json:"asked_per_sec"` // pairs
	PairsPerSec float64     `json:"pairs_per_sec"` // granted and released
	ToBest      float64     `json:"to_best"`       // of the same round
	PairUs      percentiles `json:"pair_us"`       // from when they were sent
	Refused     int         `json:"refused"`       // LOCKs with an error or null
	Unsent      int         `json:"unsent"`        // pairs that the connections did not take in time
	UserUs      percentiles `json:"user_us"`       // LOCK of a user beside it, 50 a second
	QuietUs     percentiles `json:"quiet_us"`      // and before it
	RecoveryMs  float64     `json:"recovery_ms"`   // from the end of the load until the user's LOCK is as fast as before
	Text        string      `json:"text,omitempty"`
}

// overloadRow is one load; figures are medians of the rounds, counts are sums.
type overloadRow struct {
	Times int `json:"times"` // the best; 0: the best
	overloadRound
	Rounds []overloadRound `json:"rounds"`
}

func runOverload(ctx context.Context, b *bench, r *report) error {
	best := 0.0 // of the present round
	cells, err := hotRounds(b, scenarioOverload, overloadWays, func(i int) (overloadRound, error) {
		cell, err := runOverloadCell(ctx, b, float64(overloadWays[i])*best)
		if overloadWays[i] == 0 {
			best = cell.PairsPerSec
		}
		cell.ToBest = ratio(cell.PairsPerSec, best)
		return cell, err
	})
	for i, rounds := range cells {
		r.Overload = append(r.Overload, overloadRow{overloadWays[i], medians(rounds), rounds})
	}
	return err
}

// runOverloadCell measures one load of so many pairs a second; 0: as many as are possible.
func runOverloadCell(ctx context.Context, b *bench, rate float64) (r overloadRound, err error) {
	c, err := startCluster(ctx, masterCount, b.program)
	if err != nil {
		return r, err
	}
	defer c.close()
	u, err := newBesideUser(c.proxies[0].addr, "")
	if err != nil {
		return r, err
	}
	defer u.close()
	quiet, err := u.alone(ctx, overloadQuiet)
	if err != nil {
		return r, err
	}
	g, err := startGenerator(ctx, c.spec(loadSpec{Scenario: scenarioOverload, Callers: overloadConnections, Rate: int(rate), Duration: overloadTime}))
	if err != nil {
		return r, err
	}
	defer g.close()
	if err := g.say(sayGo); err != nil {
		return r, err
	}
	user, err := u.lockAtRate(ctx, overloadTime)
	if err != nil {
		return r, err
	}
	if err := g.await(ctx, sayDone, childGrace); err != nil {
		return r, err
	}
	ended := time.Now()
	if err := g.figures(ctx, &r); err != nil {
		return r, err
	}
	g.close()
	r.QuietUs, r.UserUs = percentilesOf(slices.Values(quiet)), percentilesOf(slices.Values(user))
	began := time.Now()
	after, err := u.lockAtRate(ctx, overloadRecovery)
	if err != nil {
		return r, err
	}
	r.RecoveryMs = float64((began.Sub(ended) + recovered(after, r.QuietUs.P50)).Milliseconds())
	return r, nil
}

// recovered is how long it took until the median of some LOCKs in a row was as low as before, counted in LOCKs at besideRate; all of
// the time if it never was.
func recovered(us []uint32, quiet float64) time.Duration {
	for i := range len(us) - recoveredOver + 1 {
		window := slices.Sorted(slices.Values(us[i : i+recoveredOver]))
		if float64(window[recoveredOver/2]) <= recoveredAt*quiet {
			return time.Duration(i) * time.Second / besideRate
		}
	}
	return time.Duration(len(us)) * time.Second / besideRate
}

// serveOverload is the load generator's part.
func serveOverload(p *parent, spec loadSpec) error {
	var lines []*overloadLine
	for i := range spec.Callers {
		c, err := dialBeside(spec.Redlockd, "")
		if err != nil {
			return err
		}
		defer c.Close()
		lines = append(lines, &overloadLine{besideClient: c, number: i, rate: float64(spec.Rate) / float64(spec.Callers), sent: make(chan time.Time, 1<<16),
			slots: make(chan struct{}, overloadDepth)})
	}
	if err := p.ready(); err != nil {
		return err
	}
	var running sync.WaitGroup
	start := time.Now()
	for _, l := range lines {
		l.start = start
		running.Go(l.write)
		running.Go(l.read)
	}
	time.Sleep(spec.Duration)
	r := overloadRound{AskedPerSec: float64(spec.Rate)}
	for _, l := range lines {
		r.PairsPerSec += float64(l.granted.Load()) / spec.Duration.Seconds()
	}
	for _, l := range lines {
		l.over.Store(true)
		l.Close()
	}
	running.Wait()
	var all []uint32
	for _, l := range lines {
		r.Refused += l.refused
		r.Unsent += l.unsent
		all = append(all, l.pairUs...)
		if l.text != "" {
			r.Text = l.text
		}
	}
	r.PairUs = percentilesOf(slices.Values(all))
	p.done()
	return json.NewEncoder(p.out).Encode(r)
}

// overloadLine is one connection of the load, with a goroutine that writes and one that reads.
type overloadLine struct {
	*besideClient
	number int
	rate   float64 // pairs a second; 0: overloadDepth of them are under way all the time
	start  time.Time
	over   atomic.Bool
	sent   chan time.Time // of the pairs that are not answered, in order
	slots  chan struct{}  // of those under way, where there is no rate

	granted atomic.Int64
	pairUs  []uint32
	refused int
	unsent  int
	text    string // of a refusal
}

// write sends what is due.
func (l *overloadLine) write() {
	defer close(l.sent)
	var b []byte
	for n := 0; !l.over.Load(); {
		send := 0
		if l.rate == 0 {
			l.slots <- struct{}{}
			for send = 1; send < overloadWrite; send++ {
				select {
				case l.slots <- struct{}{}:
					continue
				default:
				}
				break
			}
		} else {
			due := int(time.Since(l.start).Seconds() * l.rate)
			if late := due - n - int(l.rate*overloadPatience.Seconds()); late > 0 {
				l.unsent += late
				n += late
			}
			if send = min(due-n, overloadWrite); send <= 0 {
				time.Sleep(time.Millisecond)
				continue
			}
		}
		b = b[:0]
		for range send {
			resource := "bench:overload:" + strconv.Itoa(l.number) + ":" + strconv.Itoa(n)
			b = appendCommand(b, "LOCK", resource, strconv.FormatInt(lockTTL.Milliseconds(), 10), "TOKEN", "t")
			b = appendCommand(b, "UNLOCK", resource, "t")
			n++
		}
		now := time.Now()
		for range send {
			l.sent <- now
		}
		if _, err := l.Write(b); err != nil {
			return
		}
	}
}

// read takes the two replies to each pair.
func (l *overloadLine) read() {
	for sent := range l.sent {
		_, null, refusal := l.reply()
		if _, _, err := l.reply(); isBroken(refusal) || isBroken(err) {
			l.drain()
			return
		}
		switch {
		case refusal != nil:
			l.refused++
			l.text = refusal.Error()
		case null:
			l.refused++
		default:
			l.granted.Add(1)
			l.pairUs = append(l.pairUs, uint32(time.Since(sent).Microseconds()))
		}
		if l.rate == 0 {
			<-l.slots
		}
	}
}

// drain lets write end, whose connection is closed.
func (l *overloadLine) drain() {
	for {
		select {
		case _, open := <-l.sent:
			if !open {
				return
			}
		case <-l.slots:
		}
	}
}

func overloadTable(rows []overloadRow) table {
	t := table{
		title: fmt.Sprintf("Overload: LOCK and UNLOCK over %d connections, at fixed times and whether they are answered or not; times what is possible",
			overloadConnections),
		note: fmt.Sprintf("Medians of the rounds. Best: %d pairs under way on each connection. Pair: from when it was sent. User: LOCK beside it, 50 a second, from when it was due. "+
			"Recovery: from the end of the load until the median of %d LOCKs is at most %.1f × that before.", overloadDepth, recoveredOver, recoveredAt),
		head:   []string{"times", "asked pairs/s", "granted", "÷ best", "pair p50 µs", "p99", "refused", "not taken", "user alone p50 µs", "beside p50", "p99", "recovery ms"},
		left:   1,
		joined: true,
	}
	for _, r := range rows {
		name := "best"
		if r.Times > 0 {
			name = strconv.Itoa(r.Times)
		}
		t.add(name, r.AskedPerSec, r.PairsPerSec, fmt.Sprintf("%.2f", r.ToBest), r.PairUs.P50, r.PairUs.P99, r.Refused, r.Unsent, r.QuietUs.P50, r.UserUs.P50, r.UserUs.P99, r.RecoveryMs)
	}
	return t
}
