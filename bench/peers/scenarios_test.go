package peers

// What other Redlock libraries make of faults of masters, and of attacks that were made to break redlockd: a benchmark that prints the
// table of bench/README.md, and no test of ours (TestScenarios of redlock is). `make scenarios` runs it,
// `-run 'PeerScenarios/FLUSHALL'` a part of it. In each trial client A takes one lease, harm is done, and client B tries for the
// same resource until A's lease ends by A's own reckoning. Two holders: B got it before.
//
// The peers are used as their READMEs show, with one attempt per call; the caller tries again. etcd_test.go has the control.

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

const (
	peerTTL      = 3 * time.Second
	peerResource = "resource"
	stages       = 6 // trials at the same time: they mostly wait
)

// row is a scenario. Masters are numbered from 1.
type row struct {
	name    string
	args    []string     // of every redis-server
	had     []int        // the masters that A reaches when it locks; nil: all
	told    []int        // the masters that B's settings name; nil: all
	ready   func(*trial) // when A and B are connected, before A locks
	harm    func(*trial) // when A has locked; nil: none
	retry   bool         // A gets its lease from a second instance, under the token that it gave the first one
	refuses bool         // redlockd gives no lock
	assumes string       // what redlockd's exclusion depends on, beyond what doc.go of redlock promises
}

var three = []int{1, 2, 3} // a bare quorum

// rows are the faults, and then the directed attacks.
var rows = []row{
	{name: "no fault"},
	{name: "holder reached 3 of 5, one of them restarts empty", had: three, harm: restart(1)},
	{name: "all five restart, one after another, within one TTL", harm: restart(1, 2, 3, 4, 5)},
	{name: "AOF everysec, holder reached 3 of 5, one loses power", args: []string{"--appendonly", "yes", "--appendfsync", "everysec"}, had: three, ready: markAOF, harm: losePower},
	{name: "FLUSHALL on three", harm: onThree("FLUSHALL")},
	{name: "holder reached 3 of 5, failover of one to a lagging replica", had: three, ready: lagBehind, harm: failOver},
	{name: "clocks of three step by +10 s", harm: step(10, 1, 2, 3)},
	{name: "holder reached 3 of 5, clock of one steps by +10 s", had: three, harm: step(10, 1)},
	{name: "three that may evict (volatile-lru) run out of memory", ready: mayEvict, harm: evictLocks, refuses: true},
	{name: "holder reached 3 of 5, machine of one is rolled back to a snapshot", had: three, ready: saveMemory, harm: rollBack},
	{name: "holder reached 3 of 5, name of one comes to mean another Redis", had: three, harm: moveName},
	{name: "holder reached 3 of 5, settings of the other client name the wrong three", had: three, told: []int{3, 4, 5}},
	{name: "clocks of three run 8 % fast", harm: hurry(8, 1, 2, 3)},
	{name: "LOCK is sent again through a second instance, the first one hears late that it failed", harm: hearLate, retry: true},
	{name: "volatile-lru is switched on at three that are out of memory", harm: evictAtOnce, assumes: "memory is not full before a heartbeat has seen the policy"},
}

func TestPeerScenarios(t *testing.T) {
	trials, _ := strconv.Atoi(os.Getenv("REDLOCK_PEERS"))
	if trials == 0 {
		redisproc.Skip(t, "a benchmark: REDLOCK_PEERS is the number of trials")
	}
	redisproc.Need(t, "gcc")
	shim, err := redisproc.BuildClockShim(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var names, faults []string
	for _, peer := range peers {
		names = append(names, peer.name)
	}
	for _, row := range rows {
		faults = append(faults, row.name)
	}
	table := newScoreTable(faults, names)
	slots := make(chan struct{}, stages)
	var wg sync.WaitGroup
	for i, row := range rows {
		for j, peer := range peers {
			if _, err := os.Stat(nodePackages); peer.name == "node-redlock" && err != nil {
				continue
			}
			for range trials {
				wg.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					t.Run(row.name+" "+peer.name, func(t *testing.T) {
						table.add(i, j, (&trial{T: t, row: row, peer: peer}).run(shim))
					})
				})
			}
		}
	}
	wg.Wait()
	t.Logf("two holders, in so many leases\n\n%s", table)
	for i, row := range rows {
		ours := table.cells[i][0]
		if ours.trials > 0 && (ours.twice > 0 && row.assumes == "" || (ours.leases == 0) != row.refuses) {
			t.Errorf("%s: redlockd gave %d leases, and had two holders %d times", row.name, ours.leases, ours.twice)
		}
	}
}

// trialResult is what a trial has shown.
type trialResult string

const (
	oneHolder   trialResult = "one holder"
	twoHolders  trialResult = "two holders"
	noLock      trialResult = "no lock"      // A got none
	notPossible trialResult = "not possible" // or the harm came too late to prove anything
)

// scoreTable counts results, by row and column.
type scoreTable struct {
	rows, columns []string
	mu            sync.Mutex
	cells         [][]cell
}

type cell struct{ trials, leases, twice int }

func newScoreTable(rows, columns []string) *scoreTable {
	t := &scoreTable{rows: rows, columns: columns}
	for range rows {
		t.cells = append(t.cells, make([]cell, len(columns)))
	}
	return t
}

func (t *scoreTable) add(row, column int, result trialResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.cells[row][column]
	switch result {
	case notPossible:
		return
	case twoHolders:
		c.twice++
		c.leases++
	case oneHolder:
		c.leases++
	}
	c.trials++
}

// String is a table of the rows that were run.
func (t *scoreTable) String() string {
	var b strings.Builder
	b.WriteString("| fault |")
	for _, name := range t.columns {
		b.WriteString(" " + name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(t.columns)) + "\n")
	for i, row := range t.rows {
		if !slices.ContainsFunc(t.cells[i], func(c cell) bool { return c.trials > 0 }) {
			continue
		}
		b.WriteString("| " + row + " |")
		for _, c := range t.cells[i] {
			switch {
			case c.trials == 0:
				b.WriteString(" - |")
			case c.leases == 0:
				b.WriteString(" gives no lock |")
			case c.twice > 0:
				fmt.Fprintf(&b, " **%d of %d** |", c.twice, c.leases)
			default:
				fmt.Fprintf(&b, " 0 of %d |", c.leases)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
