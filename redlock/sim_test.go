package redlock

// Goal: whatever happens to masters, networks, clocks and proxies, no two leases of a resource are valid at the same time; and when it is
// over, everything is as if nothing had been. Method: a simulation in virtual time. Three redlockds (proxies), each a real server of
// package proxy over the real engine over the real go-redis, lock a few resources on one to nine in-process masters, each over a network path of its
// own; callers speak RESP to them over networks of their own (sim_conn_test.go); a nemesis
// delays, holds, loses, freezes, crashes, flushes, evicts, steps clocks and kills proxies; a ledger watches (sim_ledger_test.go). When all is
// repaired, it must soon be as if nothing had been (sim_liveness_test.go). Each seed draws its sizes (sim_sizes_test.go), and at its end masters forget and
// are lost for good (sim_finale_test.go).
//
// A play of a seed repeats to the byte (sim_play_test.go). A failure leaves out faults until few are left that fail, and prints the command that
// plays it again. REDLOCK_SIM_SEED=n plays one seed, REDLOCK_SIM_FAULTS=3,17 only these of its faults, and REDLOCK_SIM_HISTORY=file keeps all that
// happens; REDLOCK_SIM_REPLAY=file plays the history of a file again and compares. REDLOCK_SIM_SEEDS=n plays so many seeds (50 in `make test-all`)
// from REDLOCK_SIM_FIRST=n on, usually 1, or one that is drawn if it says random; if it says half, half of them from 1 on and half from
// one that is drawn. REDLOCK_SIM_PROFILE=name plays those of them with this profile. Each change of the code gives each seed another story; the same code
// has the same, so that a failure of a seed, drawn or not, is there for everybody who plays it.
//
// # Track record
//
// What the simulation has found, and the directed tests and the reading that came with writing it, and which test keeps it
// (in sim_found_test.go where no other file is named). Plays of seeds that are named here did not repeat yet.
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
//	seed 2000  an unlock of Redisson was told that the lock is not held, because of what it had left itself in      TestLatchOfAMinority (proxy)
//	           its latch on one master: the lock had been taken again through another redlockd

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"time"

	"redlockd/redlock/memmaster"
)

// These variables choose what TestSimulation plays.
const (
	simSeed    = "REDLOCK_SIM_SEED"
	simFaults  = "REDLOCK_SIM_FAULTS"
	simHistory = "REDLOCK_SIM_HISTORY"
	simSeeds   = "REDLOCK_SIM_SEEDS"
	simFirst   = "REDLOCK_SIM_FIRST"
	simProfile = "REDLOCK_SIM_PROFILE"
	simReplay  = "REDLOCK_SIM_REPLAY"
	simReport  = "REDLOCK_SIM_REPORT"  // the file that says what a soak has come to (sim_soak_test.go)
	simCover   = "REDLOCK_SIM_COVER"   // the file that says what no seed has entered (sim_cover_test.go)
	simHunts   = "REDLOCK_SIM_HUNTS"   // in how many seeds at most a soak looks for each marked bug
	simBriefly = "REDLOCK_SIM_BRIEFLY" // a failure is not made shorter
)

// faultsText is what parseFaults reads.
func faultsText(faults []int) string {
	switch {
	case faults == nil:
		return "all"
	case len(faults) == 0:
		return "none"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(faults), " ", ","), "[]")
}

// repeatable is the version of Go whose runtime this binary has changed; empty: it is an ordinary one. The linker sets it (sim_runtime_test.go).
var repeatable string

// storyLines are those of a history that a failure prints.
const storyLines = 150

// simSeedMax keeps seeds short for people.
const simSeedMax = 1_000_000

// simWanted is what the variables choose.
type simWanted struct {
	first   uint64 // of the consecutive seeds, or of those that are drawn
	fixed   int    // how many are played from 1 on, before them
	count   int    // how many in all
	drawn   bool   // some of them are others each time
	faults  []int
	history string
	profile string
}

// wantedSeeds reads the variables. An error is a sentence that says what is wrong with one.
func wantedSeeds(variable func(name string) string) (w simWanted, err error) {
	number := func(name string, usual uint64, others string) uint64 {
		text := variable(name)
		if text == "" {
			return usual
		}
		n, wrong := strconv.ParseUint(text, 10, 63)
		if wrong != nil {
			err = cmp.Or(err, fmt.Errorf("%s=%s: want a number from 0 on%s", name, text, others))
		}
		return n
	}
	w = simWanted{count: int(number(simSeeds, 8, "")), history: variable(simHistory), profile: variable(simProfile)}
	switch first := variable(simFirst); first {
	case "random", "half":
		w.first, w.drawn = simSeedMax/10+rand.Uint64N(simSeedMax), true
		if first == "half" {
			w.fixed = (w.count + 1) / 2
		}
	default:
		w.first = number(simFirst, 1, ", or random, or half")
	}
	if variable(simSeed) != "" {
		w.first, w.fixed, w.count = number(simSeed, 0, ""), 0, 1
	}
	if err == nil && w.count < 1 {
		err = fmt.Errorf("%s=%s: want how many seeds to play, 1 or more", simSeeds, variable(simSeeds))
	}
	if w.profile != "" && !slices.ContainsFunc(profiles, func(p profile) bool { return p.name == w.profile }) {
		var names []string
		for _, p := range profiles {
			names = append(names, p.name)
		}
		err = cmp.Or(err, fmt.Errorf("%s=%s: there are the profiles %s", simProfile, w.profile, strings.Join(names, ", ")))
	}
	faults, wrong := parseFaults(cmp.Or(variable(simFaults), "all"))
	if w.faults = faults; wrong != nil {
		err = cmp.Or(err, fmt.Errorf("%s=%s: %w", simFaults, variable(simFaults), wrong))
	}
	if w.count > 1 && (w.faults != nil || w.history != "") {
		err = cmp.Or(err, fmt.Errorf("%s and %s are about one seed: %s says which", simFaults, simHistory, simSeed))
	}
	return w, err
}

// What chooses seeds is read as it is meant, and what cannot be meant is refused with a sentence.
func TestWantedSeeds(t *testing.T) {
	for _, tt := range []struct{ variables, want string }{
		{"", "[1 2 3 4 5 6 7 8]"},
		{simSeeds + "=3", "[1 2 3]"},
		{simSeeds + "=2 " + simFirst + "=77", "[77 78]"},
		{simSeed + "=5 " + simSeeds + "=9", "[5]"},
		{simSeeds + "=3 " + simFirst + "=half", "[1 2 drawn]"},
		{simSeeds + "=2 " + simFirst + "=random", "[drawn drawn]"},
		{simSeeds + "=many", simSeeds + "=many: want a number from 0 on"},
		{simSeeds + "=0", simSeeds + "=0: want how many seeds to play, 1 or more"},
		{simFirst + "=-1", simFirst + "=-1: want a number from 0 on, or random, or half"},
		{simSeed + "=one", simSeed + "=one: want a number from 0 on"},
		{simSeed + "=1 " + simFaults + "=x", simFaults + `=x: "x" is no number of a fault: want such as 3,17, or all, or none`},
		{simFaults + "=1", simFaults + " and " + simHistory + " are about one seed: " + simSeed + " says which"},
	} {
		values := map[string]string{}
		for variable := range strings.FieldsSeq(tt.variables) {
			name, value, _ := strings.Cut(variable, "=")
			values[name] = value
		}
		w, err := wantedSeeds(func(name string) string { return values[name] })
		got := fmt.Sprint(w.seeds())
		if err != nil {
			got = err.Error()
		} else if drawn := w.first >= simSeedMax/10; drawn {
			var all []string
			for _, seed := range w.seeds() {
				if seed >= simSeedMax/10 {
					all = append(all, "drawn")
				} else {
					all = append(all, fmt.Sprint(seed))
				}
			}
			got = fmt.Sprint(all)
		}
		if got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.variables, got, tt.want)
		}
	}
}

// seeds are those that are played, in order.
func (w *simWanted) seeds() (all []uint64) {
	for i := range w.count {
		seed := w.first + uint64(i-w.fixed)
		if i < w.fixed {
			seed = uint64(1 + i)
		}
		if w.profile == "" || w.profile == profileOf(seed).name {
			all = append(all, seed)
		}
	}
	return all
}

// String says which seeds are played, and how to play them again.
func (w *simWanted) String() string {
	drawn := fmt.Sprintf("%d from %d on (%s=%d %s=%d plays these again)", w.count-w.fixed, w.first, simFirst, w.first, simSeeds, w.count-w.fixed)
	if w.fixed > 0 {
		return fmt.Sprintf("seeds: %d from 1 on, which are always the same, and %s", w.fixed, drawn)
	}
	return "seeds: " + drawn
}

// parseFaults reads numbers of faults with commas between them, "none", or "all", which is nil.
func parseFaults(text string) (faults []int, err error) {
	switch faults = []int{}; text {
	case "all":
		return nil, nil
	case "none":
		return faults, nil
	}
	for number := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no number of a fault: want such as 3,17, or all, or none", number)
		}
		faults = append(faults, n)
	}
	return faults, nil
}

// tallies count what a simulation has gone through, so that one in which nothing happens is noticed.
type tallies struct {
	granted, denied, noQuorum, extended, lost, released, repeated, faults, restarts int
	fences                                                                          int
	slots, slotsFull                                                                int
	several, reserved, ordered                                                      int
	dropIn, dropInLater, rotated, read                                              int
	transactions, looked, unblocked                                                 int
	scripts, scriptsUnknown, counted, shared                                        int
	kept, takenOver, heldLost                                                       int
	reads, readsTogether, readsMoved, readsKeptOut, behindReaders                   int
	changed, moved, operators, stale, refounded                                     int
	evictions, elsewhere, unordered, probes, forced                                 int
	cameBack, copies, wakes                                                         int
	hoarded, coveted, marks                                                         int
	founded, together, staleOperators, late, readsCopied                            int
	struck                                                                          map[string]int // faults that did something, by name
	refused                                                                         map[string]int // errors that callers got, by their first words
	unfair                                                                          float64        // the most grants of a caller ÷ the fewest, at the end
	virtual                                                                         time.Duration
}

// counts are the numbers by the names of their fields.
func (a *tallies) counts() map[string]int {
	counts := map[string]int{}
	for field, v := range reflect.ValueOf(*a).Fields() {
		if v.Kind() == reflect.Int {
			counts[field.Name] = int(v.Int())
		}
	}
	for code, n := range a.refused {
		counts[code] = n
	}
	return counts
}

// world is one simulation.
type world struct {
	*stage
	seed    uint64
	profile profile
	opts    func(*Options)
	maxTTL  time.Duration
	sizes   sizes
	clocks  clocksAxis
	calm    time.Duration // faults are so many times as far apart as the profile says
	began   time.Time
	ledger  *ledger
	faults  []int          // the numbers of those that are inflicted; nil: all
	strikes int            // how many the nemesis has drawn
	over    atomic.Bool    // callers stop
	prompt  atomic.Bool    // no message takes longer than usual
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
	finales int            // how often something was held in the finale

	changing  atomic.Int32 // how many changes are under way
	refounded atomic.Pointer[refounded]
}

// rng gives every actor a source of its own, so that what one draws does not depend on what others do.
func (w *world) rng(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(w.seed, actor)) }

const (
	simProxies = 3
	simCallers = 14
	simLength  = 20 * time.Second

	simHeartbeat    = 60 * ms // of most seeds
	simShortTimeout = 20 * ms // the shorter MasterTimeout
)

var simResources = []string{"r0", "r1", "r2", "r3"}

func profileOf(seed uint64) profile { return profiles[int(seed)%len(profiles)] }

// simulate runs the world of a seed, after it was prepared.
func simulate(t *testing.T, seed uint64, prepare ...func(*world)) {
	profile := profileOf(seed)
	simulateSizes(t, seed, sizesOf(seed, &profile), prepare...)
}

// simulateSizes is simulate, with other sizes than those of the seed.
func simulateSizes(t *testing.T, seed uint64, sizes sizes, prepare ...func(*world)) {
	t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		profile := profileOf(seed)
		named := sizes.masters
		addresses, masters := named, make([]memmaster.Options, named)
		if profile.members {
			addresses, masters = named+simSpares, make([]memmaster.Options, named+simSpares+simNameless)
		}
		for i := range masters { // some seeds have masters that compare and delete without a script
			masters[i].IFEQ, masters[i].DELIFEQ = seed%3 == 1 && i%2 == 0, seed%3 == 2
		}
		onMasters(t, masters, func(s *stage) {
			w := &world{stage: s, seed: seed, profile: profile, sizes: sizes, began: time.Now(), tallies: tallies{struck: map[string]int{}, refused: map[string]int{}}}
			for i := range addresses {
				w.behind = append(w.behind, i)
			}
			s.named = named
			w.calm, w.maxTTL = sizes.calm, sizes.maxTTL
			w.clocks = clocksOf(&profile, w.rng(4))
			if profile.long || w.clocks.long() { // by far most of such a play would be heartbeats
				w.sizes.heartbeat = 0
			}
			w.opts = func(o *Options) {
				w.sizes.options(o)
				o.ClockSkewMax = 25 * time.Second
				if profile.long {
					o.MaxTTL, o.MaxHold = time.Minute, time.Hour
				}
				w.clocks.options(o)
				if seed%4 == 0 && o.MaxTTL == w.maxTTL {
					o.firstCeiling = (w.maxTTL / 3).Truncate(ms) + ms // locks above it have it raised, and it falls again
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
				if s.Failed() && repeatable == "" {
					s.Logf("seed %d:\n%s", seed, strings.Join(w.ledger.story[max(0, len(w.ledger.story)-storyLines):], "\n"))
				}
			})
			if w.trace != nil {
				w.clocks = clocksAxis{}
			}
			if profile.long || w.clocks.long() { // else nothing would be granted before it ends
				w.found(w.opts)
			} else {
				w.tallies.founded++
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
			if w.sizes.hoard > 0 {
				w.hoards(callers.Go)
			}
			n := newNemesis(w)
			length := simLength
			if w.trace != nil {
				length /= 3 // hundreds of grants are enough for the models, and their checker needs memory
			}
			n.rage(length)
			n.heal()
			probed := w.probe()
			w.over.Store(true)
			callers.Wait()
			w.left.Wait()
			w.trace.end()
			probed()
			w.aftermath()
			w.finale()
			for _, p := range w.spawned {
				w.tallies.copies += int(p.Stats().Copies)
			}
			w.ledger.checkHistory()
			w.tallies.virtual = time.Since(w.began)
		})
	})
}

// keepCeiling raises the ceiling as far as it goes, and keeps it there: what follows is measured in round trips. Behind a proxy that was killed that takes
// half a minute.
func (w *world) keepCeiling() {
	for _, p := range w.proxies {
		p.Client.mu.Lock()
		p.ceiling.used = map[time.Duration]time.Time{p.MaxTTL() + ms: time.Now().Add(time.Hour)} // no use of now takes its place
		p.Client.mu.Unlock()
		w.until("the ceiling has risen", func() bool {
			c := p.lock(one("ceiling", p.MaxTTL()))
			if c.Held {
				p.unlock(c.Token, "ceiling")
			}
			return c.Held
		})
	}
}

// aftermath checks that nothing is left of all the faults: every master gets its vote back, every key ends within its TTL, nothing
// is pending, and everything can be locked.
func (w *world) aftermath() {
	deadline := time.Now().Add(repairWithin)
	for _, p := range w.proxies {
		for !w.agrees(p) {
			within := deadline
			if strings.Contains(p.states(), "o") {
				within = within.Add(p.Membership().Wait) // a clock that has gained is doubted for so long at most
			}
			if time.Now().After(within) {
				for _, p := range w.proxies {
					for _, m := range p.Masters() {
						w.Logf("proxy %d, %s: %s %s", p.id, m.Addr, m.State, m.Reason)
					}
					w.Logf("proxy %d: %+v", p.id, p.Membership())
					for _, seat := range p.Membership().Seats {
						if seat.Copying != nil {
							w.Logf("proxy %d, %s: %+v", p.id, seat.Name, *seat.Copying)
						}
					}
				}
				w.Fatalf("%v after the last fault not every master has its vote back", repairWithin)
			}
			time.Sleep(10 * ms)
		}
	}
	w.forgetLong()
	time.Sleep(max(2*w.maxTTL, w.maxTTL+intentLife) + w.sizes.stepMax)
	w.wantNoLocks()
	w.keepCeiling()
	time.Sleep(w.maxTTL + w.sizes.stepMax) // leases are remembered somewhat longer than their keys live
	for _, p := range w.proxies {
		if st := p.Stats(); st.Waiters != 0 || st.Leases != 0 && !w.keepsLong() || st.Bound != 0 { // leases of simDay and of hoarders last longer
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
		for name := range p.leases.entries {
			if !w.keepsLong() || name != simDay && !strings.HasPrefix(name, simHoard) { // such a lease may have been lost, and is remembered until its validity is over
				w.Errorf("proxy %d at the end: remembers %s, want nothing", p.id, name)
			}
		}
		p.Client.mu.Unlock()
	}
	w.checkHead()
	w.checkWakes()
	w.checkSettles()
	if w.seed/uint64(len(profiles))%3 == 0 { // it takes a tenth of a simulation's time
		w.checkStarvation()
	}
	w.checkReaders()
	// The last releases reach the masters that were not needed for the answer, and what readers have left ends.
	time.Sleep(w.maxTTL + intentLife + w.sizes.stepMax)
	w.wantNoLocks()
}
