package redlock

// Goal: whatever happens to masters, networks, clocks and proxies, no two leases of a resource are valid at the same time; and when it is
// over, everything is as if nothing had been. Method: a simulation in virtual time. Three redlockds (proxies), each a real server of
// package proxy over the real engine over the real go-redis, lock a few resources on five in-process masters, each over a network path of its
// own; callers speak RESP to them over networks of their own (sim_conn_test.go); a nemesis
// delays, holds, loses, freezes, crashes, flushes, evicts, steps clocks and kills proxies; a ledger watches (sim_ledger_test.go). When all is
// repaired, it must soon be as if nothing had been (sim_liveness_test.go).
//
// A failure prints its seed. REDLOCK_SIM_SEED=n runs one seed, REDLOCK_SIM_SEEDS=n so many from 1 on (50 in `make test-all`; from
// REDLOCK_SIM_FIRST, if that is set), REDLOCK_SIM_PROFILE=name of them those with this profile, REDLOCK_SIM_TRACE=1 prints what
// happens.
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
//	reading    a founding took over the child of a record that a master had accepted: masters       TestFoundingOverAnAcceptedChild
//	           that were new accepted it too, and nothing was founded any more                  (virtual_members_test.go, as the next ones)
//	directed   a master that had accepted a founding which came to nothing never voted again    TestFoundingThatCameToNothing
//	reading    a proxy that was cut off while three seats got other masters never found them    TestProxyThatMissedThreeReplacements
//	reading    a master that took no new connections kept the addresses of all others from      TestMasterThatTakesNoNewConnections
//	           being made sure of in time: with a short max_ttl no vote counted
//	reading    a change of the members was made long after its caller had given up; another     TestChangeThatWasGivenUpIsNotMade,
//	           one pushed it out; a founding was told to its caller as the change               TestTwoChangesThroughOneClient, TestFounding-
//	                                                                                            IsNotTheChange
//	trace      the time left of a quarantine was negative while fences were relearned           TestNoNegativeQuarantine
//	seed 419   after masters were removed no master got a heartbeat for as long as the client   TestHeartbeatsGoOnAfterARemoval
//	           had run before, times the part that was removed
//	seed 1446  a proxy that was records behind heard a machine of before, and kept the others   TestProxyThatIsBehindVetoesNothing
//	           from founding the membership anew, for ever
//	seed 1418  a record that few were told of, and that an acceptor which it replaced had       TestStepThatFewWereToldOf
//	           forgotten, was lost: a quorum remembered, and nobody found it
//	seed 13    a lock on a bare quorum that was being changed was told as absent, since one     TestMergeStates (op_commit_test.go)
//	           master had the old value, one the new one, and one was silent
//	directed   a release by force that masters executed late took away what its caller, who had chosen    TestForceSparesARepeatedLock
//	           the token, had locked again with it: two held the lock                           (op_force_test.go)
//	seed 57    a reader of a read-write lock of Redisson that left cut the lock short for another reader,   TestLeavingReaderCutsNobodyShort
//	           whose renewal some masters had missed: the others were not heard, and a writer came in  (proxy), TestSpreadOfAnEnd (op_commit_test.go)
//	seed 26    a rotation that a step made begin once more was denied by its own first round, which another     TestRotationInAStepThat-
//	           client had found before it was taken back: an RLock that was left once was left twice            SomebodyCountsOn

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
	if s := os.Getenv("REDLOCK_SIM_SEEDS"); s != "" {
		count, _ = strconv.Atoi(s)
	}
	if s := os.Getenv("REDLOCK_SIM_FIRST"); s != "" {
		first, _ = strconv.Atoi(s)
	}
	only := os.Getenv("REDLOCK_SIM_PROFILE")
	if s := os.Getenv("REDLOCK_SIM_SEED"); s != "" {
		first, _ = strconv.Atoi(s)
		count = 1
	}
	// One thread at a time: the nearest to a replay that goroutines allow.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var total tallies
	for seed := first; seed < first+count && !t.Failed(); seed++ {
		if only != "" && only != profileOf(uint64(seed)).name {
			continue
		}
		total.add(simulate(t, uint64(seed)))
	}
	t.Logf("%d seeds: %v", count, &total)
	if !t.Failed() && count >= 10 && only == "" {
		total.checkWorth(t, count)
	}
}

// tallies count what a simulation has gone through, so that one in which nothing happens is noticed.
type tallies struct {
	granted, denied, noQuorum, extended, lost, released, repeated, faults, restarts int
	fences                                                                          int
	slots, slotsFull                                                                int
	several, reserved, ordered                                                      int
	dropIn, dropInLater, rotated, read                                              int
	scripts, scriptsUnknown, counted, shared                                        int
	kept, takenOver, heldLost                                                       int
	reads, readsTogether, readsMoved, readsKeptOut, behindReaders                   int
	changed, moved, operators, stale                                                int
	evictions, elsewhere, unordered, probes, forced                                 int
	cameBack, copies                                                                int
	struck                                                                          map[string]int // faults that did something, by name
	refused                                                                         map[string]int // errors that callers got, by their first words
	unfair                                                                          float64        // the most grants of a caller ÷ the fewest, at the end
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
	a.slots += b.slots
	a.slotsFull += b.slotsFull
	a.several += b.several
	a.reserved += b.reserved
	a.ordered += b.ordered
	a.dropIn += b.dropIn
	a.dropInLater += b.dropInLater
	a.rotated += b.rotated
	a.read += b.read
	a.scripts += b.scripts
	a.scriptsUnknown += b.scriptsUnknown
	a.counted += b.counted
	a.shared += b.shared
	a.kept += b.kept
	a.takenOver += b.takenOver
	a.heldLost += b.heldLost
	a.reads += b.reads
	a.readsTogether += b.readsTogether
	a.readsMoved += b.readsMoved
	a.readsKeptOut += b.readsKeptOut
	a.behindReaders += b.behindReaders
	a.changed += b.changed
	a.moved += b.moved
	a.cameBack += b.cameBack
	a.copies += b.copies
	a.operators += b.operators
	a.stale += b.stale
	a.evictions += b.evictions
	a.elsewhere += b.elsewhere
	a.unordered += b.unordered
	a.probes += b.probes
	a.forced += b.forced
	if a.struck == nil {
		a.struck, a.refused = map[string]int{}, map[string]int{}
	}
	for fault, times := range b.struck {
		a.struck[fault] += times
	}
	for code, times := range b.refused {
		a.refused[code] += times
	}
	a.unfair = max(a.unfair, b.unfair)
	a.virtual += b.virtual
}

func (a *tallies) String() string {
	return fmt.Sprintf("%v virtual, %d faults, %d proxies restarted; LOCK %d granted (%d with a fence, %d of a slot, %d of them the last one, %d of several resources, %d have begun to reserve; %d in order of name, %d in another), %d denied, %d without quorum, %d repeated, %d of them elsewhere; EXTEND %d granted, %d lost; UNLOCK %d; libraries: %d locks, renewed %d, %d of them rotated, GET %d; %d scripts, %d of them not known, counted locks %d, shared ones %d; KEEPALIVE %d, HOLD %d, held locks lost %d; readers: %d granted, %d of them beside others, %d moved to another connection, %d denied while a writer waited behind others, %d writers granted behind readers; members: %d changes, %d names moved, %d masters came back, %d copies, %d operators killed, %d proxies with settings of before; faults: %v, errors: %v, %d times keys were evicted; %d locks released by force; at the end the luckiest caller had %.1f times the grants of the unluckiest",
		a.virtual.Round(time.Second), a.faults, a.restarts, a.granted, a.fences, a.slots, a.slotsFull, a.several, a.reserved, a.ordered, a.unordered, a.denied, a.noQuorum, a.repeated, a.elsewhere, a.extended, a.lost, a.released, a.dropIn, a.dropInLater, a.rotated, a.read, a.scripts, a.scriptsUnknown, a.counted, a.shared, a.kept, a.takenOver, a.heldLost, a.reads, a.readsTogether, a.readsMoved, a.readsKeptOut, a.behindReaders, a.changed, a.moved, a.cameBack, a.copies, a.operators, a.stale, a.struck, a.refused, a.evictions, a.forced, a.unfair)
}

// checkWorth fails a simulation that proves little, because hardly anything was granted or hardly anything broke.
func (a *tallies) checkWorth(t *testing.T, seeds int) {
	for name, n := range map[string]int{
		"LOCK granted": a.granted / 40, "LOCK denied": a.denied / 20, "LOCK without quorum": a.noQuorum / 5, "LOCK repeated": a.repeated, "LOCK repeated through another proxy": a.elsewhere * 2,
		"LOCK of a slot granted": a.slots / 5, "LOCK of the last slot granted": a.slotsFull,
		"LOCK of several resources granted": a.several, "LOCK has begun to reserve": a.reserved, "LOCKs in order of name": a.ordered, "LOCKs in another order": a.unordered * 10,
		"EXTEND granted": a.extended / 5, "UNLOCK": a.released / 20, "faults": a.faults / 30,
		"locks of libraries granted": a.dropIn / 5, "drop-in locks renewed": a.dropInLater / 3, "drop-in locks rotated": a.rotated, "drop-in locks read": a.read,
		"scripts": a.scripts / 20, "scripts that were not known": a.scriptsUnknown, "counted locks": a.counted / 3, "shared locks": a.shared / 2,
		"KEEPALIVE held": a.kept / 5, "HOLD": a.takenOver, "held locks lost": a.heldLost * 5,
		"readers granted": a.reads / 4, "readers beside others": a.readsTogether / 2, "held readers moved": a.readsMoved * 10,
		"readers denied while a writer waits": a.readsKeptOut / 3, "writers granted behind readers": a.behindReaders * 2,
		"changes of the members": a.changed, "names that moved": a.moved, "operators killed": a.operators * 2, "proxies with settings of before": a.stale * 2,
		"masters that came back": a.cameBack, "copies": a.copies,
		"evictions": a.evictions * 3, "locks as soon as all is repaired": a.probes / simProxies,
	} {
		if n < seeds {
			t.Errorf("%s: too few in %d seeds for the simulation to prove anything", name, seeds)
		}
	}
	if a.forced < seeds && seeds >= 3*len(profiles) {
		t.Errorf("locks released by force: too few in %d seeds for the simulation to prove anything", seeds)
	}
	for _, p := range profiles {
		for fault := range p.faults {
			if a.struck[fault] == 0 && seeds >= 2*len(profiles) {
				t.Errorf("the fault %q did not happen in %d seeds", fault, seeds)
			}
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
	over    atomic.Bool    // callers stop
	left    sync.WaitGroup // connections that their callers have left, and that have not ended yet
	trace   *traceRecorder // nil: nothing is recorded (sim_trace_test.go)

	mu      sync.Mutex
	proxies []*incarnation // the present ones
	tallies tallies

	// Owned by the test's goroutine.
	behind  []int          // which master stands behind each address
	spawned []*incarnation // all that ever were
	changes sync.WaitGroup // of the membership, under way
	walls   time.Duration  // by how much the clocks of all machines have stepped

	changing atomic.Int32 // how many changes are under way
}

// rng gives every actor a source of its own, so that what one draws does not depend on what others do.
func (w *world) rng(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(w.seed, actor)) }

const (
	simProxies = 3
	simCallers = 9
	simLength  = 12 * time.Second

	simHeartbeat = 60 * ms
)

var simResources = []string{"r0", "r1", "r2"}

func profileOf(seed uint64) profile { return profiles[int(seed)%len(profiles)] }

// simulate runs the world of a seed, after it was prepared.
func simulate(t *testing.T, seed uint64, prepare ...func(*world)) (done tallies) {
	t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
		profile := profileOf(seed)
		addresses, masters := 5, make([]memmaster.Options, 5)
		if profile.members {
			addresses, masters = 5+simSpares, make([]memmaster.Options, 5+simSpares+simNameless)
		}
		for i := range masters { // some seeds have masters that compare and delete without a script
			masters[i].IFEQ, masters[i].DELIFEQ = seed%3 == 1 && i%2 == 0, seed%3 == 2
		}
		onMasters(t, masters, func(s *stage) {
			w := &world{stage: s, seed: seed, profile: profile, began: time.Now(), tallies: tallies{struck: map[string]int{}, refused: map[string]int{}}}
			for i := range addresses {
				w.behind = append(w.behind, i)
			}
			s.named = 5
			rng := w.rng(0)
			w.maxTTL = []time.Duration{300 * ms, 600 * ms, time.Second}[rng.IntN(3)]
			if profile.long {
				w.maxTTL = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}[rng.IntN(3)] // of a caller's locks
			}
			timeout := []time.Duration{20 * ms, 50 * ms}[rng.IntN(2)]
			w.opts = func(o *Options) {
				o.MaxTTL, o.MasterTimeout, o.ConnectTimeout = w.maxTTL, timeout, 400*ms
				o.HandoverTime = 30 * ms // TTLs are short here, too, and checkStarvation is
				o.Heartbeat, o.ReconnectDelayMax, o.copyCount = simHeartbeat, 100*ms, 1
				o.ClockSkewMax = 25 * time.Second
				if profile.long {
					o.MaxTTL = time.Minute
				}
				if profile.members {
					o.FoundingWait = 2 * w.maxTTL // no max_ttl is longer
				}
				if profile.members && !profile.drift {
					o.ClockSkewMax = 100 * ms // so that a proxy which has just started knows whether a wait is over
				}
			}
			w.ledger = newLedger(w)
			for _, p := range prepare {
				p(w)
			}
			s.Cleanup(func() {
				if s.Failed() {
					w.ledger.printTrace()
					s.Logf("replay with REDLOCK_SIM_SEED=%d", seed)
				}
			})
			if profile.long { // else nothing would be granted before it ends
				w.found(w.opts)
			}
			for i := range simProxies {
				w.proxies = append(w.proxies, w.spawn(i))
			}
			time.Sleep(20 * ms)
			var callers sync.WaitGroup
			for i := range simCallers {
				c := &caller{w: w, id: i, rng: w.rng(100 + uint64(i))}
				callers.Go(c.run)
			}
			for i := range simHolders {
				h := &holder{&caller{w: w, id: simCallers + i, rng: w.rng(200 + uint64(i))}}
				callers.Go(h.run)
			}
			if w.operates() {
				c := &caller{w: w, id: simCallers + simHolders, rng: w.rng(300)}
				callers.Go(func() { w.operate(c) })
			}
			n := newNemesis(w)
			n.rage(simLength)
			n.heal()
			probed := w.probe()
			w.over.Store(true)
			callers.Wait()
			w.left.Wait()
			w.trace.end()
			probed()
			w.aftermath()
			for _, p := range w.spawned {
				w.tallies.copies += int(p.Stats().Copies)
			}
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
		for !w.agrees(p) {
			if time.Now().After(deadline) {
				for _, p := range w.proxies {
					for _, m := range p.Masters() {
						w.Logf("proxy %d, %s: %s %s", p.id, m.Addr, m.State, m.Reason)
					}
					w.Logf("proxy %d: %+v", p.id, p.Membership())
				}
				w.Fatalf("half a minute after the last fault not every master has its vote back")
			}
			time.Sleep(10 * ms)
		}
	}
	time.Sleep(max(2*w.maxTTL, w.maxTTL+intentLife))
	w.wantNoLocks()
	time.Sleep(w.maxTTL) // leases are remembered somewhat longer than their keys live
	for _, p := range w.proxies {
		if st := p.Stats(); st.Waiters != 0 || st.Leases != 0 || st.Bound != 0 {
			w.Errorf("proxy %d at the end: %d waiters, %d leases, %d of them bound, want none", p.id, st.Waiters, st.Leases, st.Bound)
		}
		for _, m := range p.Masters() {
			if m.PendingReleases != 0 || m.Queued != 0 {
				w.Errorf("proxy %d at the end: %d releases pending for %s, %d rounds queued, want none", p.id, m.PendingReleases, m.Addr, m.Queued)
			}
		}
		for _, r := range simResources {
			c := p.lock(one(r, p.MaxTTL()))
			if !c.Held {
				w.Errorf("LOCK %s through proxy %d at the end: got %+v, want held", r, p.id, c.Result)
				continue
			}
			if c := p.unlock(c.Token, r); !c.Held {
				w.Errorf("UNLOCK %s through proxy %d at the end: got %+v, want released", r, p.id, c.Result)
			}
		}
		w.checkSlots(p)
		for range 1000 { // each grant forgets two leases that have run out
			p.Client.mu.Lock()
			n := len(p.leases.all)
			p.Client.mu.Unlock()
			if n == 0 {
				break
			}
			p.unlock(p.lock(one(simResources[0], p.MaxTTL())).Token, simResources[0])
			time.Sleep(ms)
		}
		p.Client.mu.Lock()
		if n := len(p.leases.entries); n != 0 {
			w.Errorf("proxy %d at the end: remembers %d resources, want none", p.id, n)
		}
		p.Client.mu.Unlock()
	}
	w.checkHead()
	if w.seed/uint64(len(profiles))%3 == 0 { // it takes a tenth of a simulation's time
		w.checkStarvation()
	}
	w.checkReaders()
	// The last releases reach the masters that were not needed for the answer, and what readers have left ends.
	time.Sleep(w.maxTTL + intentLife)
	w.wantNoLocks()
}
