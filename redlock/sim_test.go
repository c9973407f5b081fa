package redlock

// Goal: whatever happens to masters, networks, clocks and proxies, no two leases of a resource are valid at the same time; and when it is
// over, everything is as if nothing had been. Method: a simulation in virtual time. Three clients (proxies) of the real engine
// over the real go-redis lock a few resources on five in-process masters, each over a network path of its own; a nemesis
// delays, holds, loses, freezes, crashes, flushes, steps clocks and kills proxies; a ledger watches (sim_ledger_test.go).
//
// A failure prints its seed. REDLOCK_SIM_SEED=n runs one seed, REDLOCK_SIM_SEEDS=n so many from 1 on, REDLOCK_SIM_TRACE=1
// prints what happens.
//
// # Track record
//
// What the simulation has found, and the directed tests and the reading that came with writing it, and which test keeps it
// (in sim_found_test.go where no other file is named). A seed tells where the nemesis was; it repeats the plan of the faults and of the
// callers, and, since the engine's own pauses are random, not every step.
//
//	found by   bug                                                                              kept by
//	---------  -------------------------------------------------------------------------------  ------------------------------------------
//	seed 20    a step of a clock that a batch had found was found again with every heartbeat,   TestIdleMasterIsAdmittedAfterAStep
//	           as long as the lane was idle: the master was quarantined for ever, for all
//	directed   the undo of an attempt whose caller had left took away what a repetition with    TestRepetitionSurvivesTheUndoOfTheFirst
//	           the same token was granted: two held the lock
//	directed   the same with Abandon, with an attempt that failed, with an EXTEND that found    TestRepetitionSurvivesAbandon, …FailureOf-
//	           the lock lost                                                                    TheFirst, TestLockAgainWhileExtendFindsItLost
//	directed   a repetition that was refused while a master was silent released the lock that   TestContendedRepetitionKeepsTheLock
//	           its token held on a bare quorum
//	directed   an EXTEND or a repeated LOCK with a shorter TTL that found no quorum cut the     TestShorterExtendWithoutQuorum,
//	           lock short on the masters that had heard it: two held the lock                   TestShorterRepetitionWithoutQuorum
//	directed   a repeated LOCK forgot which masters held the key of the first one: the release  TestRepetitionRemembersWhoHolds
//	           was not kept for them
//	directed   a repeated LOCK began max_hold anew                                              TestRepetitionIsNoWayAroundMaxHold
//	directed   EXTEND filled a hole behind the UNLOCK that followed it, and listed the lock     TestExtendDoesNotRefillWhatIsReleased
//	directed   what a refused LOCK had left stayed, with an EXTEND of its token under way       TestFailedAttemptIsTakenBack (op_undo_test.go)
//	directed   a master that was just flushed counted among those that remember fences          TestFlushedMasterTeachesNoFence
//	directed   a clock that stepped while the only client that knew it was down was believed    TestClockStepBehindARestart
//	directed   a clock that was set back lengthened locks without limit                       TestClockSetBackLengthensNoLock
//	directed   a step that a batch had found was forgotten when the connection broke before     TestFindingOutlivesTheConnection
//	           the master was quarantined: it voted on
//	directed   keys were shortened after a clock was set back, when the master had a vote       TestLateRewindCutsNoLockShort
//	           again: two held a lock that had been extended
//	directed   Close outlived its context by connect_timeout when a master hung                 TestCloseEndsWithItsContext
//	property   the drift between asking for a clock and hearing of it was left out: a clock     TestClockTrackRaisesNoFalseAlarm
//	           at the edge of its rate was taken for one that had stepped                       (master_clock_test.go)
//	trace      the time left of a quarantine was negative while fences were relearned           TestNoNegativeQuarantine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redlockd/redlock/memmaster"
)

func TestSimulation(t *testing.T) {
	first, count := 1, simSeedsDefault
	if testing.Short() {
		count = min(count, 10)
	}
	if s := os.Getenv("REDLOCK_SIM_SEEDS"); s != "" {
		count, _ = strconv.Atoi(s)
	}
	if s := os.Getenv("REDLOCK_SIM_SEED"); s != "" {
		first, _ = strconv.Atoi(s)
		count = 1
	}
	// One thread at a time: the nearest to a replay that goroutines allow.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var total tallies
	for seed := first; seed < first+count && !t.Failed(); seed++ {
		total.add(simulate(t, uint64(seed)))
	}
	t.Logf("%d seeds: %v", count, &total)
	if !t.Failed() && count >= 10 {
		total.checkWorth(t, count)
	}
}

// tallies count what a simulation has gone through, so that one in which nothing happens is noticed.
type tallies struct {
	granted, denied, noQuorum, extended, lost, released, repeated, faults, restarts int
	fences                                                                          int
	several, reserved, ordered                                                      int
	dropIn, dropInLater, rotated, read                                              int
	virtual                                                                         time.Duration
}

func (a *tallies) add(b tallies) {
	a.granted += b.granted
	a.denied += b.denied
	a.noQuorum += b.noQuorum
	a.extended += b.extended
	a.lost += b.lost
	a.released += b.released
	a.repeated += b.repeated
	a.faults += b.faults
	a.restarts += b.restarts
	a.fences += b.fences
	a.several += b.several
	a.reserved += b.reserved
	a.ordered += b.ordered
	a.dropIn += b.dropIn
	a.dropInLater += b.dropInLater
	a.rotated += b.rotated
	a.read += b.read
	a.virtual += b.virtual
}

func (a *tallies) String() string {
	return fmt.Sprintf("%v virtual, %d faults, %d proxies restarted; LOCK %d granted (%d with a fence, %d of several resources, %d have begun to reserve; %d in order of name), %d denied, %d without quorum, %d repeated; EXTEND %d granted, %d lost; UNLOCK %d; drop-in: SET NX %d, renewed %d, %d of them rotated, GET %d",
		a.virtual.Round(time.Second), a.faults, a.restarts, a.granted, a.fences, a.several, a.reserved, a.ordered, a.denied, a.noQuorum, a.repeated, a.extended, a.lost, a.released, a.dropIn, a.dropInLater, a.rotated, a.read)
}

// checkWorth fails a simulation that proves little, because hardly anything was granted or hardly anything broke.
func (a *tallies) checkWorth(t *testing.T, seeds int) {
	for name, n := range map[string]int{
		"LOCK granted": a.granted / 40, "LOCK denied": a.denied / 20, "LOCK without quorum": a.noQuorum / 5, "LOCK repeated": a.repeated,
		"LOCK of several resources granted": a.several, "LOCK has begun to reserve": a.reserved, "LOCKs in order of name": a.ordered,
		"EXTEND granted": a.extended / 5, "UNLOCK": a.released / 20, "faults": a.faults / 30,
		"SET NX granted": a.dropIn / 5, "drop-in locks renewed": a.dropInLater / 3, "drop-in locks rotated": a.rotated, "drop-in locks read": a.read,
	} {
		if n < seeds {
			t.Errorf("%s: too few in %d seeds for the simulation to prove anything", name, seeds)
		}
	}
}

// world is one simulation.
type world struct {
	*stage
	seed    uint64
	profile profile
	opts    func(*Options)
	maxTTL  time.Duration
	began   time.Time
	ledger  *ledger
	over    atomic.Bool // callers stop

	mu      sync.Mutex
	proxies []*incarnation // the present ones
	tallies tallies
}

// rng gives every actor a source of its own, so that what one draws does not depend on what others do.
func (w *world) rng(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(w.seed, actor)) }

const (
	simProxies = 3
	simCallers = 9
	simLength  = 12 * time.Second
)

var simResources = []string{"r0", "r1", "r2"}

func simulate(t *testing.T, seed uint64) (done tallies) {
	t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
		masters := make([]memmaster.Options, 5)
		for i := range masters { // some seeds have masters that compare and delete without a script
			masters[i].IFEQ, masters[i].DELIFEQ = seed%3 == 1 && i%2 == 0, seed%3 == 2
		}
		onMasters(t, masters, func(s *stage) {
			w := &world{stage: s, seed: seed, profile: profiles[int(seed)%len(profiles)], began: time.Now()}
			rng := w.rng(0)
			w.maxTTL = []time.Duration{300 * ms, 600 * ms, time.Second}[rng.IntN(3)]
			timeout := []time.Duration{20 * ms, 50 * ms}[rng.IntN(2)]
			w.opts = func(o *Options) {
				o.MaxTTL, o.MasterTimeout, o.ConnectTimeout = w.maxTTL, timeout, 400*ms
				o.Heartbeat, o.ReconnectDelayMax = 60*ms, 100*ms
				o.ClockSkewMax = 25 * time.Second
			}
			w.ledger = newLedger(w)
			s.Cleanup(func() {
				if s.Failed() {
					w.ledger.printTrace()
					s.Logf("replay with REDLOCK_SIM_SEED=%d", seed)
				}
			})
			for i := range simProxies {
				w.proxies = append(w.proxies, w.spawn(i))
			}
			time.Sleep(20 * ms)
			var callers sync.WaitGroup
			for i := range simCallers {
				c := &caller{w: w, id: i, rng: w.rng(100 + uint64(i))}
				callers.Go(c.run)
			}
			n := newNemesis(w)
			n.rage(simLength)
			n.heal()
			w.over.Store(true)
			callers.Wait()
			w.aftermath()
			w.ledger.checkHistory()
			w.tallies.virtual = time.Since(w.began)
			s.Logf("%s: %v", w.profile.name, &w.tallies)
			done = w.tallies
		})
	})
	return done
}

// aftermath checks that nothing is left of all the faults: every master gets its vote back, every key ends within its TTL, nothing
// is pending, and everything can be locked.
func (w *world) aftermath() {
	deadline := time.Now().Add(30 * time.Second)
	for _, p := range w.proxies {
		for p.states() != "uuuuu" {
			if time.Now().After(deadline) {
				for _, m := range p.Masters() {
					w.Logf("proxy %d, %s: %s %s", p.id, m.Addr, m.State, m.Reason)
				}
				w.Fatalf("half a minute after the last fault not every master has its vote back")
			}
			time.Sleep(10 * ms)
		}
	}
	time.Sleep(w.maxTTL + w.maxTTL/50 + 20*ms)
	w.wantNoLocks()
	time.Sleep(w.maxTTL) // leases are remembered somewhat longer than their keys live
	for _, p := range w.proxies {
		if st := p.Stats(); st.Waiters != 0 || st.Leases != 0 {
			w.Errorf("proxy %d at the end: %d waiters, %d leases, want none", p.id, st.Waiters, st.Leases)
		}
		for _, m := range p.Masters() {
			if m.PendingReleases != 0 || m.Queued != 0 {
				w.Errorf("proxy %d at the end: %d releases pending for %s, %d rounds queued, want none", p.id, m.PendingReleases, m.Addr, m.Queued)
			}
		}
		for _, r := range simResources {
			c := p.lock(one(r, w.maxTTL))
			if !c.Held {
				w.Errorf("LOCK %s through proxy %d at the end: got %+v, want held", r, p.id, c.Result)
				continue
			}
			if c := p.unlock(c.Token, r); !c.Held {
				w.Errorf("UNLOCK %s through proxy %d at the end: got %+v, want released", r, p.id, c.Result)
			}
		}
		p.mu.Lock()
		if n := len(p.leases.entries); n != 0 {
			w.Errorf("proxy %d at the end: remembers %d resources, want none", p.id, n)
		}
		p.mu.Unlock()
	}
	time.Sleep(300 * ms) // the last releases reach the masters that were not needed for the answer
	w.wantNoLocks()
}
