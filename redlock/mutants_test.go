//go:build !race

package redlock

// Goal: every rule that keeps locks safe is held by a test that fails without it. Method: the rules are broken one at a time, and the
// test that is named must fail. All changes are compiled into one test binary (go test -overlay); each has a switch of its own, and an
// environment variable turns one on. So the package is compiled once, and with no switch on all these tests must pass.
//
// A mutant finds its place by a mark in the code, a comment //mutant:name, at the end of the line that it changes or in a line
// of its own above a declaration. Names and formatting around it may change; mutation_test.go has what a mutant can do there.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// mutant breaks one rule where the code has its mark.
type mutant struct {
	name    string
	change  mutation
	killers string // tests that must fail, as for go test -run; at least one of them
}

var mutants = []mutant{
	// Rounds and votes.
	{"quorum-off-by-one", without(2), "TestSplitVotesAreUndone"},
	{"drift-left-out", without(3), "TestExpiry"},
	{"elapsed-left-out", doInside(`elapsed = 0`), "TestLateReplies"},
	{"validity-not-checked", never, "TestLateReplies"},
	{"undo-skipped-for-the-silent", doBefore(`return v.did(masters)`), "TestLostReplies"},
	{"a-lease-of-other-parts-outlives-the-release", when(`COND && e.lease == lease`), "TestReleaseInOtherParts"},
	{"a-lease-of-other-parts-is-not-inherited", when(`COND && sameKeys(before.keys, granted.keys)`), "TestLockAgainInOtherParts"},
	{"a-repetition-denied-by-a-minority", doAfter(`mayHold = 0`), "TestRepetitionIsNotDeniedByAMinority"},
	{"tried-again-behind-the-unlock", without(-1), "TestFenceIsNotTriedAgainBehindUnlock"},
	{"the-undo-does-not-look-at-the-end", lua(`ends >= latest - %d and ends <= latest + 1`, `%d`), "TestUndoSparesWhatSomebodyCountsOn"},
	{"ends-are-not-moved-far-enough", replace(`, endMoveMs)`, `, pick(MUTANT, 1, endMoveMs))`), "TestUndoSparesWhatSomebodyCountsOn"},
	{"a-commit-does-not-move-the-end", lua(`what == '3' or what == '1' and held[i] == value`, `false`), "TestUndoSparesWhatSomebodyCountsOn"},
	{"moved-ends-run-away", lua(`left > longest`, `false`), "TestEndsDoNotRunAway"},
	{"the-undo-goes-by-the-trailer-alone", replace(`endSlackMs`, `pick[int64](MUTANT, 1000, endSlackMs)`), "TestClockMarks"},
	{"an-attempt-that-failed-is-not-taken-back", never, "TestFailedAttemptIsTakenBack"},
	{"late-votes-are-not-taken-back", never, "TestFailedAttemptIsTakenBack"},
	{"a-vanished-callers-token-is-released-everywhere", never, "TestAbandonSparesTheRetry"},
	{"undone-behind-unlock-and-lock", never, "TestLockAgainBehindUnlockOfADeniedLock"},
	{"cleared-behind-a-later-grant", never, "TestLockAgainBehindUnlock"},
	{"releases-of-callers-tokens-kept", doAfter(`known = true`), "TestRetryBehindAnUnlock"},
	{"releases-not-kept", skip, "TestUnlockIsOwed"},
	{"kept-releases-not-delivered", replace(`releases)`, `releases[:pick(MUTANT, 0, len(releases))])`), "TestUnlockIsOwed"},
	{"kept-releases-do-not-expire", never, "TestPendingReleasesAreBounded"},
	{"extend-shortens", lua(`moved(redis.call('PTTL', KEYS[i]), tonumber(ARGV[2]), tonumber(ARGV[3])))`, `ARGV[2])`), "TestShorterExtendWithoutQuorum"},
	{"lock-shortens", lua(`moved(left, tonumber(ARGV[2]), tonumber(ARGV[3])))`, `ARGV[2])`), "TestShorterRepetitionWithoutQuorum"},
	{"remains-of-a-lost-lock-kept", skip, "TestExtendOfALostLockReleasesTheRemains"},
	{"late-grant-kept", never, "TestDropInLateGrantIsUndone"},
	{"rotation-leaves-the-old-value", never, "TestRotationClearsTheOldValue"},
	{"a-failed-rotation-is-not-turned-back", without(2, 2), "TestFailedRotationIsTurnedBack"},
	{"a-silent-master-is-waited-for", never, "TestSilentMasters"},
	{"late-votes-counted-twice", never, "TestLateVoteIsNotCountedAgain"},
	{"an-answer-buys-time-for-what-was-sent-behind", doAfter(`l.oldestSentTick = l.ticks`), "TestTricklingFarMasters"},
	{"only-the-oldest-batch-is-given-up", replace(`l.out`, `l.out[:pick(MUTANT, 1, len(l.out))]`), "TestSilentFarMasters"},
	{"votes-behind-a-finding-counted", always, "TestNoVoteCountsBehindAFinding"},
	{"the-callers-slice-kept", doAfter(`r.keys = keys`), "TestSliceOfResourcesIsTheCallers"},

	// Release and extension.
	{"the-old-connection-is-not-killed", never, "TestOldConnectionIsKilled"},
	{"a-release-overtakes", never, "TestBatchOrder"},
	{"a-release-overtakes-random", always, "TestBatchEqualsOneByOne"},
	{"releases-shed", without(2), "TestQueueMaxShedsAcquisitionsOnly"},
	{"holes-not-filled", never, "TestExtendFillsHoles"},
	{"late-holes-filled-after-the-release", always, "TestExtendFillsLateHoles"},
	{"max_hold-not-checked", always, "TestMaxHold"},

	// Renewal.
	{"work-outlives-the-validity", never, "TestKeepAlive"},
	{"a-lost-lock-is-kept-alive", never, "TestKeepAlive"},
	{"suspension-forgotten", without(2), "TestKeepAlive"},

	// Drop-in.
	{"ttl-not-padded", doAfter(`padded = float64(ttl)`), "TestDropInTTL"},
	{"steps-not-counted-in-short-ttls", replace(`d.stepMax`, `pick(MUTANT, 0, d.stepMax)`), "TestSmallStepsStayInsideTheValidity"},
	{"steps-not-counted-in-short-ttls-of-drop-in-clients", replace(`d.stepMax`, `pick(MUTANT, 0, d.stepMax)`), "TestSmallStepsStayInsideTheValidity"},
	{"a-commit-granted-late", always, "TestDropInLate"},
	{"a-silent-minority-hides-a-lock", replace(`silent`, `pick(MUTANT, 0, silent)`), "TestMergeStates"},
	{"a-split-vote-is-told-as-held", never, "TestMergeStates"},

	// Shares.
	{"locks-that-were-under-way-are-not-counted", always, "TestMaxLocksOfAShareUnderWay"},

	// Admission.
	{"nothing-waits-for-room", never, "TestOverloadSlowsDown"},
	{"the-limit-does-not-shrink", always, "TestOverloadSlowsDown"},
	{"an-unlock-overtakes-the-lock", never, "TestOrderOfWhatWaitsForRoom"},
	{"a-compare-and-delete-overtakes-the-lock", without(2, 2), "TestOrderOfWhatWaitsForRoom"},
	{"the-last-come-of-a-share-begins-first", doAfter(`n := len(share.queued) - 1; share.queued[0], share.queued[n] = share.queued[n], share.queued[0]`), "TestOrderOfWhatWaitsForRoom"},
	{"no-turns", never, "TestTurnsOfShares"},
	{"overloaded-masters-are-given-up", never, "TestOverloadedMastersAreNotGivenUp"},
	{"silent-masters-are-excused", without(3), "TestOverloadedMastersAreNotGivenUp"},

	// Guards.
	{"no-quarantine", doBefore(`return epochAdmitted`), "TestForgetfulMasterHasNoVote"},
	{"half-the-wait", doBefore(`maxTTL /= 2`), "TestQuarantineHasItsTime"},
	{"timer-of-the-first-episode", instead(`if time.Since(l.guard.until) > 0 { STMT }`), "TestSecondEpisode"},
	{"epoch-not-compared", without(2), "TestForgetfulMasterHasNoVote"},
	{"votes-counted-in-quarantine", doInside(`return v`), "TestForgetfulMasterHasNoVote"},
	{"extension-counted-in-quarantine", replace(`vote.uncounted`, `pick[func(vote) vote](MUTANT, nil, vote.uncounted)`), "TestExtendDoesNotCountAQuarantinedMaster"},
	{"configuration-not-compared", never, "TestDisagreement"},
	{"step-forward-not-seen", never, "TestForgetfulMasterHasNoVote"},
	{"step-backward-not-seen", never, "TestStepIsCaughtWithTheVote"},
	{"drift-between-asking-and-receiving-forgotten", replace(`true, sent`, `true, pick(MUTANT, received, sent)`), "TestClockTrackRaisesNoFalseAlarm"},
	{"first-sight-of-a-clock-believed", never, "TestClockStepBehindARestart"},
	{"a-clock-set-back-lengthens-locks", never, "TestClockSetBackLengthensNoLock"},
	{"a-finding-forgotten-with-its-connection", doInside(`l.toResolve = guardResult{}`), "TestFindingOutlivesTheConnection"},
	{"keys-shortened-late", lua(`redis.call('GET', KEYS[1]) ~= ARGV[1]`, `false`), "TestLateRewindCutsNoLockShort"},
	{"beat-not-compared", never, "TestRollbackIsCaughtWithTheVote"},
	{"a-quarantine-ends-with-an-epoch-of-before", without(3, 2), "TestSecondEpisode"},
	{"the-past-forgotten-with-the-connection", always, "TestForgetfulMasterHasNoVote"},
	{"one-redis-votes-twice", never, "TestRefusedMasters"},
	{"a-replica-votes", never, "TestRefusedMasters"},
	{"eviction-not-seen", never, "TestRefusedMasters"},
	{"a-master-that-may-evict-votes-until-it-is-connected-anew", always, "TestRefusedMasters"},
	{"an-evicting-master-is-not-asked-for-the-leases", without(2), "TestRealEvictedLeasesAreNoticed"},
	{"leases-not-looked-at-when-a-master-becomes-a-replica", skip, "TestLeasesAreLookedAtWhenAMasterBecomesAReplica"},
	{"bootstrap-over-an-epoch", never, "TestBootstrapRefusesWhatIsNotNew"},
	{"bootstrap-over-any-quarantine", without(2, 2), "TestBootstrapOfMastersThatSomebodyWaitsFor"},
	{"amnesia-that-others-take-for-newness", never, "TestBootstrapOfMastersThatSomebodyWaitsFor"},
	{"bootstrap-of-twins", never, "TestBootstrapRefusesWhatIsNotNew"},
	{"bootstrap-over-keys", never, "TestBootstrapRefusesWhatIsNotNew"},

	// Waiting.
	{"barging", never, "TestNoBarging"},
	{"last-come-first-served", doBefore(`if q.tail != nil && q.tail != q.head { before, after = q.head, q.head.next }`), "TestFirstComeFirstServed"},
	{"who-moves-goes-to-the-end", doAfter(`after = nil`), "TestInsertByArrival"},
	{"waits-in-one-queue-for-ever", always, "TestSeveralStandInOneLine"},
	{"a-head-pauses-on-when-it-is-the-head-again", never, "TestDisplacedHeadAsksAgain"},
	{"never-reserves", always, "TestSeveralAreGrantedBesideSingleOnes"},
	{"reserves-in-the-callers-order", doAfter(`w.keys = op.keys`), "TestReservationsMakeNoCircle"},
	{"reserves-for-ever", never, "TestReservationEndsWithItsPatience"},
	{"a-reservation-outlives-the-wait", when(`COND || w.answered`), "TestReservationEndsWithTheWait"},
	{"a-denied-step-leaves-its-resource", replace(`v.mayHold(len(c.lanes))`, `pick(MUTANT, 0, v.mayHold(len(c.lanes)))`), "TestDeniedStepLeavesNothing"},
	{"a-denied-step-gives-all-back", replace(`w.reservation.held`, `pick(MUTANT, 0, w.reservation.held)`), "TestDeniedStepLeavesNothing"},
	{"a-reservation-is-in-its-own-way", skip, "TestLastAttemptTakesTheReservation"},
	{"a-reservation-takes-what-others-hold", lua(`not held or held ~= ARGV[4]`, `not ARGV[4]`), "TestReservationEndsWithTheWait"},
	{"hand-over-not-in-the-same-batch", doAfter(`c.pauseLocked(w.op, c.retryDelay(0)); return`), "TestHandOverInOneBatch"},
	{"hand-overs-without-end", never, "TestHandOversAreLimited"},
	{"windows-never-rarer", skip, "TestHandOversInARow"},
	{"the-distance-changes-while-votes-are-told", always, "TestDistanceStaysWhileVotesAreDelivered"},
	{"a-short-window-was-not-used", skip, "TestShortTurnsAreTaken"},
	{"windows-that-nobody-is-told-of", skip, "TestTurnsOfTwoProxies"},
	{"no-invalidations-in-a-window", instead(`c.pauseLocked(w.op, c.windowLength())`), "TestTurnsOfTwoProxies"},
	{"windows-stay-rare", skip, "TestHandOversInARow"},
	{"an-unwanted-grant-is-kept", doAfter(`if !wanted { return }`), "TestUnblockUndoesTheAttemptInFlight"},
	{"the-first-attempt-decides", instead(`w.attempt, op.stale = nil, 0; if w.lastErr == nil { w.lastErr = err }`), "TestWaitRunsOut"},
	{"asks-without-a-quorum", always, "TestWaitersAskNobodyWithoutQuorum"},
	{"a-quorum-that-is-back-wakes-nobody", always, "TestWaitersAskNobodyWithoutQuorum"},
	{"all-wake-at-the-same-time", replace(`len(heads)`, `pick(MUTANT, 1, len(heads))`), "TestWaitersAskNobodyWithoutQuorum"},

	// Masters that are not what they should be.
	{"go-redis-reads-unchecked", doBefore(`return c, nil`), "TestHostileReplyWhileConnecting"},
	{"a-panic-ends-the-process", doBefore(`return`), "TestPanicLosesOneMaster"},
	{"votes-of-a-batch-that-panicked", never, "TestPanicInABatchCountsNoVote"},
	{"a-master-that-sends-nonsense-is-not-refused", never, "TestWireRefusesNonsense"},

	// Fences.
	{"fence-not-above-the-mark", lua(`fence <= mark`, `false`), "TestOneMasterRemembersTheFence"},
	{"a-clock-that-is-behind-stays-behind", skip, "TestFenceTakesOneRound"},
	{"any-mark-believed", never, "TestFalseFencesAreNotBelieved"},
	{"a-false-floor-not-refused", without(2), "TestFalseFencesAreNotBelieved"},
	{"a-false-mark-not-refused", never, "TestFalseFencesAreNotBelieved"},
	{"fences-of-a-clock-that-is-a-little-ahead-refused", replace(`skew`, `pick(MUTANT, -skew, skew)`), "TestFloorOfAnotherClockIsNotRefused"},
	{"a-mark-believed-that-no-master-accepts", replace(`skew`, `pick(MUTANT, -skew, skew)`), "TestFloorOfAnotherClockIsNotRefused"},
	{"a-false-mark-shown", never, "TestFalseMarkIsNotShown"},
	{"fences-of-a-false-floor-forgotten", always, "TestFalseFloorDeletedWithoutTheEpoch"},
	{"a-clock-that-was-ahead-is-not-forgotten", never, "TestFenceClockThatWasAhead"},
	{"an-admission-learned-with-a-batch-in-flight", doBefore(`if epoch != "" && !strings.HasPrefix(epoch, "q:") { g.epoch = epoch }`), "TestFenceComparedBeforeTheAdmission"},
	{"cold-floor-too-low", replace(`2*`, `time.Duration(pick(MUTANT, 1, 2))*`), "TestColdFloorIsAboveEveryFence"},
	{"floor-not-relearned", doBefore(`floor = 0`), "TestFenceSurvivesAmnesia"},
	{"marks-pushed-out-without-a-floor", lua(`out[#out]`, `0`), "TestForgottenMarksRaiseTheFloor"},
}

// hunted are the mutants that the simulation must find by itself, within huntSeeds.
var hunted = []string{
	"quorum-off-by-one", "votes-counted-in-quarantine", "no-quarantine", "epoch-not-compared", "a-release-overtakes",
	"the-undo-does-not-look-at-the-end", "fence-not-above-the-mark", "step-forward-not-seen",
}

const (
	huntSeeds   = 150             // a run ends with the first that finds it; replay is not exact, so the number has room
	mutantLimit = 2 * time.Minute // of one test process: only a mutant that hangs needs it
)

// mutantSwitch is added to the package in the binary with the mutants.
const mutantSwitch = `package redlock

import "os"

var mutantOn = os.Getenv("REDLOCK_MUTANT")

func isMutant(name string) bool { return mutantOn == name }

func pick[T any](mutant bool, yes, no T) T {
	if mutant {
		return yes
	}
	return no
}
`

// TestMutantMarks finds every mutant's place, and the tests that are to fail, without compiling anything.
func TestMutantMarks(t *testing.T) {
	mutatedSources(t)
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(text)
	}
	for _, m := range mutants {
		for killer := range strings.SplitSeq(m.killers, "|") {
			if !strings.Contains(tests.String(), "\nfunc "+killer+"(") {
				t.Errorf("mutant %q: there is no test %s", m.name, killer)
			}
		}
	}
}

func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package")
	}
	redisproc.Need(t, "redis-server", "redis-cli", "gcc") // as the tests that kill them
	binary := buildMutants(t)

	var all []string
	for _, m := range mutants {
		all = append(all, m.killers)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if output, err := runMutant(binary, "none", "^("+strings.Join(all, "|")+")$", 0); err != nil {
			t.Errorf("with no mutant on, the tests must pass: %v\n%s", err, output)
		}
	})
	slots := make(chan struct{}, 2)
	survives := func(name, killers string, seeds int) {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			output, err := runMutant(binary, name, "^("+killers+")$", seeds)
			switch {
			case err == nil:
				t.Errorf("mutant %q survives %s", name, killers)
			case !strings.Contains(output, "--- FAIL") && !strings.Contains(output, "panic: ") && !strings.Contains(output, "fatal error: "):
				t.Errorf("mutant %q: %v, and no test has failed:\n%s", name, err, output)
			}
		})
	}
	for _, m := range mutants {
		survives(m.name, m.killers, 0)
	}
	for _, name := range hunted {
		survives(name, "TestSimulation", huntSeeds)
	}
	wg.Wait()
}

// buildMutants compiles a test binary with all mutants in it.
func buildMutants(t *testing.T) string {
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	sources := mutatedSources(t)
	sources["mutant_switch_test.go"] = mutantSwitch
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, source := range sources {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(here, file)] = path
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	overlayFile, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutants.test")
	if err := os.WriteFile(overlayFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlayFile, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("compile the mutants: %v\n%s", err, output)
	}
	return binary
}

func runMutant(binary, name, tests string, seeds int) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), mutantLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run", tests, "-test.timeout", "1m")
	cmd.Env = append(os.Environ(), "REDLOCK_MUTANT="+name)
	if seeds > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprint("REDLOCK_SIM_SEEDS=", seeds), "REDLOCK_SIM_SEED=")
	}
	output, err := cmd.CombinedOutput()
	return string(output), err
}
