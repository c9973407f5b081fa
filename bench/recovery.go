package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/redisproc"
)

// Recovery: masters that keep nothing on disk are killed and started again, each as soon as the one before it votes, while many locks are held and
// other clients lock and release. A master that has forgotten may vote when a redlockd has copied to it what a quorum of the voters remember.
// How long does that take, what do the other clients notice of it, and is every lock still held by its holder alone?
const (
	// recoveryMaxTTL is also the TTL of the held locks. A master to which nothing is copied waits for longer than this, and so for longer than
	// recoveryVoteMax: a vote that is measured was copied for.
	recoveryMaxTTL  = 10 * time.Minute
	recoveryVoteMax = 2 * time.Minute
	// recoveryPoll is how often the record of a restarted master is read. redlockd's INFO tells it too, but costs much with many leases.
	recoveryPoll = 10 * time.Millisecond
	// recoveryAfter is how long the other clients go on when the last master votes.
	recoveryAfter = time.Second
	// recoveryHeldMax is what can be taken and checked within recoveryMaxTTL.
	recoveryHeldMax = 2_000_000
)

// membersKey is the hash in which a master keeps what redlockd knows of the membership.
const membersKey = ownKeys + "members"

// recoveryFigures are the measurements of one cell.
type recoveryFigures struct {
	// VoteMs is, for each restarted master, the time from the start of its new process to its vote.
	VoteMs []float64 `json:"vote_ms"`
	// Keys is how many keys each of them has when it votes.
	Keys []float64 `json:"keys"`
	// TotalMs is the time from the first kill to the last vote.
	TotalMs float64 `json:"total_ms"`

	QuietPerSec   float64     `json:"quiet_per_sec"` // LOCKs of the others, before the first kill
	RestartPerSec float64     `json:"restart_per_sec"`
	QuietUs       percentiles `json:"quiet_lock_us"`
	RestartUs     percentiles `json:"restart_lock_us"` // from the first kill to the last vote

	Refused  int      `json:"refused"`  // LOCKs of the others with NOQUORUM or null, each for a resource that nobody else wants
	Failures failures `json:"failures"` // the refused ones, and everything else that went wrong for the others

	Checked int `json:"checked"` // held locks, at the end
	Lost    int `json:"lost"`    // those of them that their holder could not extend
	Twice   int `json:"twice"`   // those of them that another token was granted
}

// slowerP99 is the p99 during the restarts ÷ that of the quiet phase.
func (f recoveryFigures) slowerP99() float64 { return ratio(f.RestartUs.P99, f.QuietUs.P99) }

// recoveryRound is one cell, with its course: times count from the beginning of the quiet phase.
type recoveryRound struct {
	recoveryFigures
	Votes    []voteChange  `json:"votes"`
	Timeline []latencyStep `json:"timeline"` // LOCKs of the others, per timelineStep
}

// voteChange says how many masters vote from a time on.
type voteChange struct {
	AtMs  float64 `json:"at_ms"`
	Votes int     `json:"votes"`
}

// recoveryRow is one number of held locks; figures are medians of the rounds, counts are sums.
type recoveryRow struct {
	Held     int `json:"held"`
	Restarts int `json:"restarts"` // masters that are restarted

	recoveryFigures
	SlowerP99 float64         `json:"slower_p99"`
	Rounds    []recoveryRound `json:"rounds"`
}

func runRecovery(ctx context.Context, b *bench, r *report) error {
	rows := column(b.recoveryHeld, func(held int) *recoveryRow { return &recoveryRow{Held: held, Restarts: b.recoveryRestarts} })
	for round := range b.recoveryRounds {
		b.progress.round(scenarioRecovery)
		for _, row := range rows {
			b.progress.step("recovery, round %d of %d: %d locks held", round+1, b.recoveryRounds, row.Held)
			cell, err := runRecoveryCell(ctx, b, row.Held)
			if err != nil {
				return fmt.Errorf("%d locks held: %w", row.Held, err)
			}
			row.Rounds = append(row.Rounds, cell)
		}
	}
	r.Recovery = summarizeRecovery(rows)
	return nil
}

func summarizeRecovery(rows []*recoveryRow) []recoveryRow {
	return summarize(rows, func(row *recoveryRow) {
		row.recoveryFigures = medians(column(row.Rounds, func(r recoveryRound) recoveryFigures { return r.recoveryFigures }))
		row.SlowerP99 = medianOf(row.Rounds, func(r recoveryRound) float64 { return r.slowerP99() })
	})
}

// runRecoveryCell measures on servers of its own. The clients are in this process, since no CPU is measured.
func runRecoveryCell(ctx context.Context, b *bench, held int) (r recoveryRound, err error) {
	c, err := startCluster(ctx, masterCount, b.program.with(leaveAtOnce, "REDLOCKD_LOCKS_MAX_TTL="+recoveryMaxTTL.String()))
	if err != nil {
		return r, err
	}
	defer c.close()
	locks := newHeldLocks(c.proxies[0].addr, held)
	defer locks.close()
	if err := locks.take(ctx); err != nil {
		return r, err
	}
	others := startOthers(c.proxies[0].addr, b.recoveryClients, b.warmup)
	defer others.stop()
	began := others.began
	if err := sleep(ctx, time.Until(began)+b.recoveryQuiet); err != nil {
		return r, err
	}
	from := time.Since(began)
	if err := c.restartInTurn(ctx, b.recoveryRestarts, began, &r); err != nil {
		return r, err
	}
	to := time.Since(began)
	if err := sleep(ctx, recoveryAfter); err != nil {
		return r, err
	}
	samples := others.stop()
	r.TotalMs = milliseconds(to - from)
	r.analyze(samples, from, to)
	r.Failures = others.failures.count()
	r.Checked, r.Lost, r.Twice, err = locks.check(ctx)
	return r, err
}

// restartInTurn kills the first n masters and starts them again, each when the one before it votes.
func (c *cluster) restartInTurn(ctx context.Context, n int, began time.Time, r *recoveryRound) error {
	voters := len(c.masters)
	note := func(votes int) { r.Votes = append(r.Votes, voteChange{milliseconds(time.Since(began)), votes}) }
	r.Votes = []voteChange{{0, voters}}
	for i, m := range c.masters[:n] {
		note(voters - 1)
		m.Kill()
		again, err := restart(ctx, m)
		if err != nil {
			return fmt.Errorf("restart master %d of %d: %w", i+1, n, err)
		}
		voters = again.voters
		note(voters)
		r.VoteMs = append(r.VoteMs, milliseconds(again.took))
		r.Keys = append(r.Keys, float64(again.keys))
	}
	return nil
}

// restarted is a master that votes again.
type restarted struct {
	took   time.Duration // from the start of its process to its vote
	voters int           // in its record
	keys   int64
}

// restart starts a master that was killed, and returns when it votes.
func restart(ctx context.Context, m *redisproc.Server) (r restarted, err error) {
	started := time.Now()
	if err := m.Restart(); err != nil {
		return r, err
	}
	client := redis.NewClient(&redis.Options{Addr: m.Addr, PoolSize: 1, MaxRetries: -1})
	defer client.Close()
	if r.voters, err = awaitVote(ctx, client); err != nil {
		return r, fmt.Errorf("redis-server %s: %w", m.Addr, err)
	}
	r.took = time.Since(started)
	if r.keys, err = client.DBSize(ctx).Result(); err != nil {
		return r, fmt.Errorf("count the keys of redis-server %s: %w", m.Addr, err)
	}
	return r, nil
}

// awaitVote returns when the master votes by its own record, and how many seats have a vote in that.
func awaitVote(ctx context.Context, master *redis.Client) (voters int, err error) {
	deadline := time.Now().Add(recoveryVoteMax)
	for {
		fields, err := master.HMGet(ctx, membersKey, "v", "r").Result()
		if err != nil {
			return 0, fmt.Errorf("read its membership: %w", err)
		}
		shown, _ := fields[0].(string)
		record, _ := fields[1].(string)
		voters, votes := votesOf(shown, record)
		if votes {
			return voters, nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("it does not vote %v after its restart; it shows %q and has the record %q", recoveryVoteMax, shown, record)
		}
		if err := sleep(ctx, recoveryPoll); err != nil {
			return 0, err
		}
	}
}

// votesOf reads the fields v and r of membersKey: how many voters the record lists, and whether the memory that the master shows is one of them. In a
// record, the last of the nine fields has the seats, number,name,addr,memory,state,since; see redlock/member/text.go and member/state.go.
func votesOf(shown, record string) (voters int, votes bool) {
	memory, _, _ := strings.Cut(shown, " ")
	fields := strings.Split(record, ";")
	if len(fields) != 9 || memory == "" {
		return 0, false
	}
	for seat := range strings.SplitSeq(fields[8], "|") {
		parts := strings.Split(seat, ",")
		if len(parts) != 6 || parts[4] != "v" {
			continue
		}
		voters++
		votes = votes || parts[3] == memory
	}
	return voters, votes
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
