//go:build !race

package redlock

// Goal: every rule that keeps locks safe is held by a test that fails without it. Method: the rules are broken one at a time, and the
// test that is named must fail. All changes are compiled into one test binary per package (go test -overlay); each has a switch of its own, and an
// environment variable turns one on. So each package is compiled once, and with no switch on all these tests must pass.
//
// A mutant finds its place by a mark in the code, a comment //mutant:name, at the end of the line that it changes or in a line
// of its own above a declaration. Names and formatting around it may change; mutation_test.go has what a mutant can do there.

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
	{"elapsed-left-out", replace(`- elapsed`, `- pick(MUTANT, 0, elapsed)`), "TestLateReplies"},
	{"validity-not-checked", never, "TestLateReplies"},
	{"extended-without-validity", without(2), "TestExtend"},
	{"a-made-token-serves-two-attempts", when(`COND && op.token == ""`), "TestEachAttemptHasItsToken"},
	{"undo-skipped-for-the-silent", doBefore(`return v.Did(places)`), "TestLostReplies"},
	{"a-lease-of-other-parts-outlives-the-release", when(`COND && l == lease`), "TestReleaseInOtherParts"},
	{"a-lease-of-other-parts-is-not-inherited", when(`COND && sameKeys(before.keys, granted.keys)`), "TestLockAgainInOtherParts"},
	{"a-repetition-denied-by-a-minority", doAfter(`mayHold = 0`), "TestRepetitionIsNotDeniedByAMinority"},
	{"tried-again-behind-the-unlock", without(-1), "TestFenceIsNotTriedAgainBehindUnlock"},
	{"the-undo-does-not-look-at-the-end", script(`ends >= latest - early and ends <= latest + 1`, `true`), "TestUndoSparesWhatSomebodyCountsOn"},
	{"the-undo-does-not-compare-the-value", script(`held[i] == value`, `held[i]`), "TestLockScripts"},
	{"ends-are-not-moved-far-enough", script(`endMove = 8`, `endMove = 1`), "TestUndoSparesWhatSomebodyCountsOn"},
	{"a-commit-does-not-move-the-end", script(`what == '3' or what == '1' and held[i] == value`, `false`), "TestUndoSparesWhatSomebodyCountsOn"},
	{"moved-ends-run-away", script(`left > longest`, `false`), "TestEndsDoNotRunAway"},
	{"the-undo-goes-by-the-trailer-alone", replace(`endSlackMs`, `pick[int64](MUTANT, 1000, endSlackMs)`), "TestClockMarks"},
	{"an-attempt-that-failed-is-not-taken-back", never, "TestFailedAttemptIsTakenBack"},
	{"late-votes-are-not-taken-back", never, "TestFailedAttemptIsTakenBack"},
	{"a-vanished-callers-token-is-released-everywhere", never, "TestAbandonSparesTheRetry"},
	{"what-somebody-knows-of-is-abandoned", without(2), "TestAbandonSparesTheRetry"},
	{"undone-behind-unlock-and-lock", never, "TestLockAgainBehindUnlockOfADeniedLock"},
	{"a-later-grant-is-forgotten", never, "TestLockAgainBehindUnlock"},
	{"a-lease-outlives-its-loss", skip, "TestExtendOfALostLock"},
	{"a-lease-outlives-the-next", skip, "TestNextLockEndsTheLeases"},
	{"readers-outlive-the-next-writer", skip, "TestNextLockEndsTheLeases"},
	{"a-lock-outlives-the-unlock-behind-it", always, "TestHoldEndsWithUnlock"},
	{"an-extension-outlives-the-unlock-behind-it", always, "TestExtendDoesNotRefillWhatIsReleased"},
	{"a-takeover-outlives-the-unlock-behind-it", without(1), "TestHoldEndsWithUnlock"},
	{"a-commit-outlives-the-unlock-behind-it", always, "TestHoldEndsWithUnlock"},
	{"releases-of-callers-tokens-kept", doAfter(`known = true`), "TestRetryBehindAnUnlock"},
	{"releases-not-kept", skip, "TestUnlockIsOwed"},
	{"what-was-given-back-is-not-released", skip, "TestExtendFillsHoles"},
	{"a-commit-knows-all-holders", never, "TestReleaseOwedWhereAnotherHasLocked"},
	{"an-extension-knows-all-holders", skip, "TestReleaseOwedWhereAnotherHasLocked"},
	{"a-lost-script-is-a-failure", always, "TestScriptFlushCostsNoConnection"},
	{"a-lost-script-of-one-call-is-a-failure", always, "TestScriptFlushBeforeKeptReleases"},
	{"a-master-that-takes-no-locks-is-shown-as-up", skip, "TestRealFullMasterReleases"},
	{"a-quorum-that-has-answered-is-forgotten", skip, "TestOutcomes"},
	{"kept-releases-not-delivered", replace(`releases)`, `releases[:pick(MUTANT, 0, len(releases))])`), "TestUnlockIsOwed"},
	{"kept-releases-do-not-expire", never, "TestPendingReleasesAreBounded"},
	{"a-release-takes-what-others-hold", script(`held[i] == token`, `held[i]`), "TestLockScripts"},
	{"a-commit-does-not-look-at-the-end", script(`~= tonumber(ends)`, `== 0`), "TestLockScripts"},
	{"an-end-is-read-over-a-pause", script(`== before`, `> 0`), "TestEndsAreExact"},
	{"a-watched-key-is-compared-by-its-value", never, "TestWatchedKeys"},
	{"a-key-that-was-just-set-is-taken-for-an-old-one", never, "TestWatchedKeys"},
	{"a-slow-master-is-left-behind-by-watched-commits", never, "TestSlowMastersTakePart"},
	{"one-master-is-enough-to-release-what-is-watched", without(3), "TestWatchedKeys"},
	{"a-commit-does-not-compare", script(`held[i] ~= value`, `not held[i]`), "TestLockScripts"},
	{"a-fence-that-no-clock-reaches-is-taken", script(`return fence`, `return fence < 0 and fence`), "TestLockScripts"},
	{"what-comes-too-late-is-done", script(`clock() > tonumber(latest)`, `false`), "TestLockScripts"},
	{"a-forced-release-lowers-the-mark", script(`fence <= mark`, `false`), "TestLockScripts"},
	{"extends-what-others-hold", script(`if others then`, `if false then`), "TestLockScripts"},
	{"extend-shortens", script(`moved(redis.call('PTTL', KEYS[i]), ttl, longest)`, `ttl`), "TestShorterExtendWithoutQuorum"},
	{"lock-shortens", script(`moved(left, tonumber(ARGV[2]), tonumber(ARGV[3])))`, `ARGV[2])`), "TestShorterRepetitionWithoutQuorum"},
	{"late-grant-kept", never, "TestDropInLateGrantIsUndone"},
	{"rotation-leaves-the-old-value", never, "TestRotationClearsTheOldValue"},
	{"a-short-value-is-cleared", without(2), "TestRotationClearsTheOldValue"},
	{"what-was-released-is-cleared-again", replace(`v.Did(r.view.Places)`, `pick(MUTANT, 0, v.Did(r.view.Places))`), "TestReleaseOfSeveralSparesTheNextLock"},
	{"what-is-left-of-several-stays", never, "TestReleaseOfSeveralWhereOneIsLost"},
	{"what-is-left-of-several-is-told-late", never, "TestReleaseOfSeveralWhereOneIsLost"},
	{"a-failed-rotation-is-not-turned-back", when("COND || ch.rotates()"), "TestFailedRotationIsTurnedBack"},
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
	{"what-is-left-of-a-version-stays", skip, "TestHangingMasterKeepsNoVersion"},
	{"a-version-that-may-count-is-released", never, "TestVersionThatAQuorumMayHaveStays"},
	{"what-silent-masters-may-have-set-stays", skip, "TestVersionOfSilentMastersGoes"},
	{"a-failed-release-of-a-version-stays", replace(`o == quorum.NoQuorum`, `o == pick(MUTANT, quorum.Undecided, quorum.NoQuorum)`), "TestFailedChangeOfAVersionIsSettled"},
	{"versions-are-set-without-a-quorum", never, "TestVersionIsNotSetWithoutAQuorum"},
	{"who-comes-in-goes-forward", without(2), "TestFailedChangeOfAVersionIsSettled"},
	{"nobody-is-told-of-a-late-release", skip, "TestFailedChangeOfAVersionIsSettled"},
	{"nobody-is-told-of-a-change", skip, "TestOnChange"},
	{"what-was-released-is-found-again", skip, "TestReleaseThatGoesOnComesFirst"},
	{"made-in-the-place-of-any-value", never, "TestBegunChangeIsMadeByOthers"},
	{"a-version-goes-by-its-generation-alone", without(5), "TestBegunChangeIsMadeByOthers"},
	{"split-votes-are-forced-at-once", always, "TestForceOfSplitVotes"},
	{"a-split-that-was-renewed-is-forced", never, "TestForceOfSplitVotes"},
	{"what-is-left-of-a-changed-version-stays", skip, "TestHangingMasterKeepsNoVersion"},
	{"another-lineage-is-replaced", script(`string.sub(held, 12, 18) == string.sub(ARGV[1], 12, 18)`, `true`), "TestMissedChangesAreMadeUp"},
	{"a-later-version-is-replaced", script(`<= string.byte`, `> -string.byte`), "TestMissedChangesAreMadeUp"},
	{"masters-that-have-missed-changes-are-left-behind", never, "TestMissedChangesAreMadeUp"},
	{"holes-of-commits-not-filled", skip, "TestCommitOfSeveralKeysFillsHoles"},
	{"late-holes-of-commits-not-filled", skip, "TestCommitOfSeveralKeysFillsHoles"},
	{"max_hold-not-checked", always, "TestMaxHold"},

	// Renewal.
	{"work-outlives-the-validity", never, "TestKeepAlive"},
	{"a-lost-lock-is-kept-alive", never, "TestKeepAlive"},
	{"suspension-forgotten", without(2), "TestKeepAlive"},

	// Held locks.
	{"renewed-behind-the-unlock", always, "TestHoldEndsWithUnlock"},
	{"what-is-left-of-a-lock-is-renewed", never, "TestPartEndsTheWholeHold"},
	{"what-is-left-of-a-takeover-is-renewed", never, "TestPartEndsTheWholeHold"},
	{"what-is-left-elsewhere-is-no-loss", never, "TestPartEndsTheWholeHold"},
	{"a-lock-that-moved-is-told-as-lost", never, "TestWholeHoldThatEndsElsewhereIsNoLoss"},
	{"a-lock-that-moved-keeps-its-owner", instead(`s.unbind(b)`), "TestLockAgainMovesTheHold"},
	{"silence-ignored", never, "TestSilentHolderIsNotRenewed"},
	{"the-validity-of-a-renewal-is-counted-from-its-answer", doBefore(`until = time.Now().Add(b.ttl)`), "TestKeepAliveSaysNoMoreThanIsHeld"},
	{"a-loss-is-not-told", skip, "TestHoldLossIsTold"},
	{"a-loss-is-told-beside-a-validity", without(2), "TestHoldLossIsTold"},
	{"a-connection-that-broke-releases", without(2), "TestHoldLivesAsLongAsItsHolder"},
	{"a-drain-does-not-renew", skip, "TestRenewHeldRenewsAll"},
	{"a-takeover-without-an-answer-releases", without(3), "TestTakeoverIsReleasedOnceItIsHeard"},
	{"a-takeover-brings-the-end-nearer", never, "TestTakeoverForLessThanIsLeft"},
	{"a-takeover-keeps-the-token", doAfter(`fresh = token`), "TestTakeover"},
	{"a-takeover-of-unknown-age", skip, "TestTakeover"},
	{"a-loss-before-a-lock-again-is-not-told", never, "TestLossBeforeALockAgainIsTold"},
	{"the-end-of-a-released-lock-is-kept", skip, "TestRenewHeldOfALongerLock"},
	{"the-end-of-a-new-lock-is-not-looked-at", skip, "TestRenewHeldOfALongerLock"},
	{"renewed-twice", never, "TestRenewHeldDuringARenewal"},
	{"what-is-abandoned-stays-bound", skip, "TestAbandonSparesTheRetry"},
	{"no-barrier", never, "TestKeepAliveOverAPause"},
	{"a-known-loss-waits-for-a-quorum", without(3), "TestKeepAliveTellsALossWithoutAQuorum"},
	{"an-end-is-told-when-the-renewals-find-it", never, "TestKeepAliveTellsALossWithoutAQuorum"},
	{"held-over-a-suspension", never, "TestKeepAliveOverAPause"},

	// Readers and writers.
	{"a-strangers-set-is-taken-for-readers", script(`if not last or left < 0 then`, `last = last or 0; if left < 0 then`), "TestStrangersSetIsLeftAlone"},
	{"the-key-ends-with-the-first-reader", script(`if ends > last then`, `if ends < last then`), "TestReaderScripts"},
	{"a-reader-that-leaves-takes-all-with-it", script(`#top == 2 then`, `#top > 0 then`), "TestReaderScripts"},
	{"a-reader-does-not-look-at-the-writer", script(`held, now, last = kind == 'string'`, `held, now, last = redis.call('UNLINK', key) == 2`), "TestReadersAndWriters"},
	{"an-intent-outlives-the-waiter", skip, "TestIntentEndsWithTheWaiter"},
	{"who-takes-the-intent-away-takes-a-reader-away", script(`leave(KEYS[1], 'writer')`, `redis.call('UNLINK', KEYS[1])`), "TestIntentEndsWithTheWaiter"},
	{"an-intent-keeps-no-reader-out", script(`not intent or`, `true or`), "TestWaitingWriterIsNotStarved"},
	{"a-reader-shortens", script(`moved(mine - now, ttl, tonumber(ARGV[i + 2]))`, `ttl`), "TestReaderScripts"},
	{"a-writer-waits-for-intents", script(`if readers(key) == 0 then`, `if false then`), "TestReaderScripts"},
	{"fresh-intents-are-renewed", script(`now + tonumber(ARGV[2]) >`, `ends >`), "TestWaitersDoNotWakeEachOther"},
	{"intents-are-not-told-of", script(`return {'zset', -2}`, `return {'none', -2}`), "TestReadersOfAnotherClientLeave"},
	{"a-writer-does-not-look-at-readers", script(` and readers(KEYS[i]) == 0`, ``), "TestReadersAndWriters"},
	{"an-intent-keeps-writers-out", script(`free = axis(KEYS[i])`, `free = false and axis(KEYS[i])`), "TestReaderScripts"},
	{"a-refill-is-kept-out", instead(`b.wire.Bulk("0")`), "TestRefillOfAReader"},
	{"a-reader-of-elsewhere-is-not-found", replace(`lease == nil || lease.reader`, `(lease != nil || !MUTANT) && (lease == nil || lease.reader)`), "TestReaderIsReleasedElsewhere"},
	{"an-extension-counts-both-modes", doAfter(`granted = writer + reader`), "TestExtendOfATokenInBothModes"},
	{"a-strangers-key-is-shown-as-a-lock", never, "TestStrangersSetIsLeftAlone"},
	{"a-client-that-is-outrun-says-nothing", never, "TestClientThatIsFartherAwayIsNotStarved"},
	{"each-copy-has-a-window-left", never, "TestCopiesOfAMessageLeaveOneWindow"},
	{"a-window-is-left-to-one-that-waits-for-less", never, "TestWindowIsLeftToWhoWaitsForLongest"},
	{"who-waits-for-less-comes-before", never, "TestWindowIsLeftToWhoWaitsForLongest"},
	{"a-takeover-joins-the-readers", script(`now and redis.call('ZSCORE', KEYS[1], 'r:' .. value)`, `now and 0`), "TestReaderScripts"},
	{"a-takeover-shortens-a-reader", script(`math.max(tonumber(score), now + tonumber(ARGV[5]))`, `now + tonumber(ARGV[5])`), "TestReaderScripts"},
	{"a-takeover-leaves-the-old-reader", script(`redis.call('ZREM', KEYS[1], 'r:' .. value)`, `score = score`), "TestReaderScripts|TestHoldOfAReader"},
	{"a-failed-takeover-takes-the-reader-away", script(`score and what == '2'`, `false`), "TestReaderScripts|TestHoldOfAReaderThatFails"},
	{"a-failed-takeover-of-a-reader-stays", without(2, 2), "TestHoldOfAReaderThatFails"},
	{"a-readers-new-token-outlives-the-force", replace(`asReader(true)`, `asReader(!MUTANT)`), "TestForceOvertakesWhatIsUnderWay"},
	{"a-made-token-is-bound-twice", never, "TestMadeTokenIsBoundOnce"},
	{"each-reader-wakes-the-writer", never, "TestOnlyTheLastReaderWakesTheWriter"},
	{"readers-come-one-by-one", never, "TestReadersGoTogether"},
	{"a-readers-release-overtakes", replace(`b.joined`, `!MUTANT && b.joined`), "TestBatchOrder"},
	{"a-writers-release-overtakes-readers", replace(`b.joined`, `!MUTANT && b.joined`), "TestBatchOrder"},
	{"readers-of-two-resources-are-folded", without(2), "TestBatchOrder"},
	{"readers-pass-a-writer", without(2), "TestReadersGoTogether"},
	{"a-writer-does-not-say-that-it-waits", doAfter(`w.behindReaders = false`), "TestWaitingWriterIsNotStarved"},

	// Releases by force.
	{"a-forced-release-raises-no-mark", script(`redis.call('ZADD', KEYS[1], ARGV[1], key)`, `ms = ms`), "TestForceRaisesTheFence"},
	{"a-forced-release-does-not-look-at-the-end", script(`math.abs(ends - ARGV[2])`, `0`), "TestForceSparesARepeatedLock"},
	{"forced-without-a-quorum-of-marks", always, "TestForceNeedsAQuorumOfMarks"},
	{"an-attempt-under-way-is-forced", always, "TestForceSparesAttemptsUnderWay"},
	{"split-votes-are-told-as-nobody", never, "TestForceOfSplitVotes"},
	{"a-forced-release-is-not-published", skip, "TestForceElsewhereEndsAHeldLock"},
	{"one-master-ends-a-lock", without(2), "TestForgedForce"},
	{"all-holders-are-forced", never, "TestForgedForce"},
	{"a-force-with-another-text-counts", without(2), "TestForgedForce"},
	{"made-up-forces-push-out-true-ones", replace(`!known.applied`, `MUTANT || !known.applied`), "TestForgedForce"},
	{"what-was-given-back-outlives-the-force", skip, "TestForceGoesBehindRefills"},
	{"a-lock-under-way-outlives-the-force", never, "TestForceOvertakesWhatIsUnderWay"},
	{"an-extension-outlives-the-force", never, "TestForceOvertakesWhatIsUnderWay"},
	{"a-commit-outlives-the-force", never, "TestForceOvertakesWhatIsUnderWay"},
	{"what-was-forced-is-turned-back", never, "TestForceOvertakesWhatIsUnderWay"},
	{"granted-by-the-client-that-has-forced", skip, "TestForceOvertakesWhatIsUnderWay"},

	// Messages between redlockds.
	{"one-master-speaks-for-redlockds", skip, "TestOneMasterSpeaksForNoRedlockd"},
	{"copies-of-one-master-count-each", replace(`With(place)`, `With(pick(MUTANT, known.by.Count(), place))`), "TestOneMasterSpeaksForNoRedlockd"},
	{"each-copy-of-a-message-acts", never, "TestOneMasterSpeaksForNoRedlockd"},
	{"another-text-under-the-id-counts", replace(`maphash.Bytes(m.seed, text)`, `pick(MUTANT, 0, maphash.Bytes(m.seed, text))`), "TestAnotherTextUnderTheIDOfAMessage"},
	{"a-former-master-delivers-messages", without(2), "TestMessagesAcrossAChangeOfMembers"},
	{"copies-of-former-masters-count", replace(`& places`, `& (places | pick(MUTANT, quorum.All, 0))`), "TestMessagesAcrossAChangeOfMembers"},
	{"a-flood-has-all-messages-forgotten", replace(`[place]`, `[pick(MUTANT, 0, place)]`), "TestFloodOfMessages"},
	{"forgotten-messages-stay", skip, "TestFloodOfMessages"},

	// Drop-in.
	{"ttl-not-padded", doAfter(`padded = float64(ttl)`), "TestDropInTTL"},
	{"the-pad-of-a-key-is-shown", replace(`clock.DriftOf(a.ttl, c.drift)`, `pick(MUTANT, 0, clock.DriftOf(a.ttl, c.drift))`), "TestInspectReaders"},
	{"a-native-lock-is-not-padded", doInside(`return (op.ttl + op.delay()).Milliseconds()`), "TestSmallStepsStayInsideTheValidity"},
	{"the-drift-of-a-ttl-is-a-constant", replace(`1 - d.Factor`, `1 - pick(MUTANT, 0, d.Factor)`), "TestPaddedCoversTheDrift"},
	{"the-constant-of-the-drift-is-left-out", replace(`DriftConstant)`, `pick(MUTANT, 0, DriftConstant))`), "TestPaddedCoversTheDrift"},
	{"steps-not-padded", replace(`d.StepMax`, `pick(MUTANT, 0, d.StepMax)`), "TestSmallStepsStayInsideTheValidity"},
	{"a-commit-granted-late", always, "TestDropInLate"},
	{"a-commit-is-believed-from-its-answer", replace(`r.start.Add`, `pick(MUTANT, d.now, r.start).Add`), "TestDropInLate"},
	{"a-lease-of-a-commit-counts-from-its-answer", replace(`r.start.Add`, `pick(MUTANT, d.now, r.start).Add`), "TestDropInLate"},
	{"a-silent-minority-hides-a-lock", replace(`silent`, `pick(MUTANT, 0, silent)`), "TestMergeStates"},
	{"another-type-hides-a-lock-that-is-being-changed", replace(`h.kind == "string"`, `(MUTANT || h.kind == "string")`), "TestMergeStates"},
	{"what-silent-masters-have-extended-is-forgotten", doAfter(`s.Spread = 0`), "TestSpreadOfAnEnd"},
	{"the-longest-ttl-is-told-with-its-moves", always, "TestNoTTLBeyondTheLongest"},
	{"locks-of-a-longer-max_ttl-are-told-short", without(-1), "TestNoTTLBeyondTheLongest"},
	{"a-ttl-is-told-with-its-moves", never, "TestNoTTLBeyondWhatWasAskedFor"},
	{"a-ttl-that-was-extended-elsewhere-is-told-short", without(-1), "TestNoTTLBeyondWhatWasAskedFor"},
	{"a-split-vote-is-told-as-held", never, "TestMergeStates"},
	{"different-values-are-told-as-absent", replace(`pending < quorum`, `pending < pick(MUTANT, 0, quorum)`), "TestMergeStates"},
	{"a-release-elsewhere-is-told-as-lost", never, "TestWhatOthersEndIsNotLost"},
	{"what-a-release-elsewhere-left-stays", skip, "TestWhatOthersEndIsNotLost"},
	{"a-takeover-under-way-is-cleaned-up", skip, "TestAuditBesideATakeover"},
	{"a-commit-is-executed-late", never, "TestNothingIsTakenBackLate"},
	{"a-release-is-executed-late", instead("return false"), "TestNothingIsTakenBackLate"},
	{"a-slow-answer-tells-the-clock", always, "TestSlowAnswersSayNothingOfAClock"},
	{"a-late-grant-is-not-looked-at", skip, "TestReleaseThatOvertakesTheGrant"},
	{"a-release-that-overtook-is-the-last", skip, "TestReleaseThatOvertakesTheGrant"},
	{"a-lock-that-is-being-changed-is-told-as-absent", without(2), "TestMergeStates"},
	{"drift-told-as-validity", replace(`clock.DriftOf(left, d)`, `pick(MUTANT, 0, clock.DriftOf(left, d))`), "TestTTLOfAStateIsSureOrEnding"},
	{"the-end-of-a-key-is-not-told", never, "TestTTLOfAStateIsSureOrEnding"},
	{"the-birth-that-a-value-tells-ignored", never, "TestDropInMaxHold"},

	// Terms.
	{"a-lock-has-no-delay", replace(`op.delay()`, `pick(MUTANT, 0, op.delay())`), "TestDelayBehindALoss"},
	{"a-commit-has-no-delay", replace(`ch.Delay`, `pick(MUTANT, 0, ch.Delay)`), "TestDelayBehindALoss"},
	{"a-renewal-has-no-terms", replace(`b.terms`, `pick(MUTANT, nil, b.terms)`), "TestDelayBehindAHeldLock"},
	{"the-delay-is-told-as-validity", replace(`r.op.ttl`, `pick(MUTANT, r.op.ttl+r.op.delay(), r.op.ttl)`), "TestDelayBehindALoss"},
	{"a-delay-outlives-max_ttl", never, "TestTermsBound"},
	{"in-its-delay-a-lock-is-not-held", replace(`s.free(lease)`, `pick(MUTANT, lease.validUntil, s.free(lease))`), "TestHolderIsBackInTheDelay"},
	{"a-takeover-has-no-delay", replace(`op.delay()`, `pick(MUTANT, 0, op.delay())`), "TestDelayBehindALoss"},

	// Shares.
	{"locks-that-were-under-way-are-not-counted", never, "TestMaxLocksOfAShareUnderWay"},
	{"commits-that-were-under-way-are-not-counted", skip, "TestMaxLocksOfAShareUnderWay"},
	{"a-release-that-leaves-a-key-is-a-new-lock", never, "TestReleaseAtTheLimitOfAShare"},
	{"at-the-limit-a-release-needs-room", never, "TestReleaseAtTheLimitOfAShare"},
	{"memory-is-not-limited", never, "TestMaxMemoryOfAShare"},
	{"an-extended-lock-changes-its-share", skip, "TestMaxLocksOfAShare"},

	// Admission.
	{"nothing-waits-for-room", always, "TestOverloadSlowsDown"},
	{"a-lock-in-the-queue-begins-to-wait", replace(`max(0, `, `max(pick[time.Duration](MUTANT, -time.Hour, 0), `), "TestLockThatIsQueuedDoesNotWait"},
	{"the-limit-does-not-shrink", always, "TestOverloadSlowsDown"},
	{"the-last-come-of-a-share-begins-first", doAfter(`n := len(flow.queued) - 1; flow.queued[0], flow.queued[n] = flow.queued[n], flow.queued[0]`), "TestOrderOfWhatWaitsForRoom"},
	{"shares-take-no-turns", instead(`if len(share.flows) == 0 { STMT }`), "TestTurns"},
	{"flows-take-no-turns", instead(`if len(flow.queued) == 0 { STMT }`), "TestTurns"},
	{"turns-count-operations", instead(`*debt = 0`), "TestTurns"},
	{"who-logs-in-as-another-overtakes", without(3), "TestFlowOfTwoShares"},
	{"batches-are-large-in-a-crowd", never, "TestBatchesInACrowd"},
	{"a-crowd-leaves-no-room-for-who-comes", never, "TestBatchesInACrowd"},
	{"a-crowd-never-ends", always, "TestBatchesInACrowd"},
	{"needed-masters-are-given-up", never, "TestNeededMastersAreWaitedFor"},
	{"silent-masters-are-excused", without(2), "TestNeededMastersAreWaitedFor"},
	{"a-learner-is-waited-for", without(1), "TestNeededMastersAreWaitedFor"},
	{"a-learner-takes-the-place-of-a-voter", replace(`l.fleet.voters()`, `pick(MUTANT, l.fleet.up(), l.fleet.voters())`), "TestNeededMastersAreWaitedFor"},

	// Guards.
	{"half-the-wait", doBefore(`maxTTL /= 2`), "TestQuarantineHasItsTime"},
	{"votes-counted-in-quarantine", doInside(`return v`), "TestForgetfulMasterHasNoVote"},
	{"extension-counted-in-quarantine", replace(`quorum.Vote.Uncounted`, `pick[func(quorum.Vote) quorum.Vote](MUTANT, nil, quorum.Vote.Uncounted)`), "TestExtendDoesNotCountAQuarantinedMaster"},
	{"a-clock-that-gains-is-not-seen", replace(`k.ring.Gain(now, rate)`, `pick(MUTANT, 0, k.ring.Gain(now, rate))`), "TestClockThatStepsHasNoVote"},
	{"watched-since-it-was-asked", replace(`now.Received`, `pick(MUTANT, now.Sent, now.Received)`), "TestClockThatStepsBeforeALateAnswer"},
	{"each-reading-is-a-new-anchor", doAfter(`*slot, r.lowest, r.gained = ringSlot{begin: now.Sent, latest: now.Sent, level: level, gained: -levelNone, highest: -levelNone}, level, -levelNone`), "TestFastClocks"},
	{"the-ring-forgets-before-a-wait-has-passed", replace(`> wait`, `> pick(MUTANT, wait/2, wait)`), "TestRingKnowsEveryPair"},
	{"a-clock-that-goes-back-is-forgiven-what-it-gained", replace(`r.gained-A`, `pick(MUTANT, now.Offset.Low-r.lowest, r.gained)-A`), "TestRingKnowsEveryPair"},
	{"a-gain-is-not-handed-over", replace(`- gain`, `- pick(MUTANT, 0, gain)`), "TestRingInherits"},
	{"both-watches-allow-for-the-same-time", skip, "TestRingInherits"},
	{"a-reading-allows-before-the-next-one", replace(`now.Received`, `pick(MUTANT, r.Latest, now.Received)`), "TestRingKnowsEveryPair"},
	{"forgotten-since-the-reading-was-asked", replace(`now.Received`, `pick(MUTANT, r.Latest, now.Received)`), "TestClockThatStepsBeforeALateAnswer"},
	{"counted-before-it-is-stated", replace(`k.inStep && said.stored`, `(MUTANT || k.inStep && said.stored)`), "TestClockGuardTrusts"},
	{"a-gain-is-from-the-heartbeat-that-shows-it", doAfter(`found = guardResult{}`), "TestHeartbeatTakesTheGainOfACopy"},
	{"told-of-the-ring-before", without(2), "TestClockGuardTrusts"},
	{"what-is-left-of-a-standstill-is-a-gain", skip, "TestStandstillBesideAStep"},
	{"who-is-gone-is-waited-for", skip, "TestWhenAClientCountsVotes"},
	{"what-a-step-has-aged-is-forgotten", skip, "TestNewClientAfterAMajoritySteps"},
	{"a-gain-is-not-told-before-all-were-asked", replace(`k.gained > 0 &&`, `!MUTANT && k.gained > 0 &&`), "TestNewClientAfterAMajoritySteps"},
	{"what-is-known-is-told-a-heartbeat-later", skip, "TestWhenAClientCountsVotes"},
	{"an-old-look-says-that-nobody-watches", never, "TestNobodyWatches"},
	{"a-copy-has-the-padding-that-its-source-has-left", never, "TestCopyPadsAnew"},
	{"votes-of-a-doubted-clock-counted", without(2), "TestClockThatStepsHasNoVote"},
	{"first-sight-of-a-clock-believed", replace(`k.fresh.Watched(k.last.Sent, wait)`, `MUTANT || k.fresh.Watched(k.last.Sent, wait)`), "TestNewClientBelievesNoClockThatSteppedBeforeIt"},
	{"a-clock-that-gained-is-vouched-for", replace(`!k.ring.Begun`, `(MUTANT || !k.ring.Begun)`), "TestClockGuardTrusts"},
	{"silence-of-one-master-vouches", replace(`nobody &&`, `(MUTANT || nobody) &&`), "TestClockGuardTrusts"},
	{"what-was-copied-before-vouches", replace(`k.fresh.Began <= k.given`, `(MUTANT || k.fresh.Began <= k.given)`), "TestClockGuardTrusts"},
	{"who-pads-otherwise-is-believed", replace(`said.padding != ""`, `!MUTANT && said.padding != ""`), "TestDifferentPaddings"},
	{"who-asks-waits-for-a-heartbeat", never, "TestWhenAClientCountsVotes"},
	{"silence-of-a-minority-vouches", replace(`silent >= v.Quorum()`, `silent >= pick(MUTANT, 1, v.Quorum())`), "TestNobodyWatches"},
	{"what-was-said-long-ago-stays", script(`now - at > tonumber(ARGV[6])`, `false`), "TestWatchScript"},
	{"what-is-said-in-the-future-stays", script(`at - now > tonumber(ARGV[6])`, `false`), "TestWatchScript"},
	{"who-has-seen-a-gain-is-not-heard", script(`stated > 0 or gain > 0`, `stated > 0`), "TestWatchScript"},
	{"who-pads-otherwise-vouches", script(`pad ~= ARGV[5]`, `false`), "TestWatchScript"},
	{"told-of-an-earlier-beat", script(`stated > first`, `stated > first - 20`), "TestWatchScript"},
	{"a-full-master-says-that-nobody-watches", script(`== 'table' and 0`, `== 'never' and 0`), "TestFullMasterSaysThatSomebodyMayWatch"},
	{"a-vote-is-taken-that-a-quorum-needs", without(3), "TestPlanOfAClockOutOfStep"},
	{"a-clock-that-is-never-right-keeps-everybody-copying", without(2), "TestFastClockKeepsNobodyCopying"},
	{"a-source-that-is-out-of-step-promotes", never, "TestSourceThatHasForgotten"},
	{"clocks-vouched-for-by-a-minority", without(3), "TestVouched"},
	{"watched-without-a-connection", never, "TestClockThatNobodyWatched"},
	{"a-clock-that-gained-too-is-a-witness", replace(`o.began < k.before`, `(MUTANT || o.began < k.before)`), "TestWitnesses"},
	{"a-clock-that-was-not-asked-is-a-witness", replace(`o.asked > k.found`, `(MUTANT || o.asked > k.found)`), "TestWitnesses"},
	{"a-far-clock-is-a-witness", replace(`2*o.took`, `pick(MUTANT, 0, 2*o.took)`), "TestWitnesses"},
	{"a-vote-that-is-needed-is-taken", never, "TestWitnesses"},
	{"a-step-that-one-master-disproves-takes-a-vote", replace(`f.stepped(l, v.Quorum())`, `f.stepped(l, pick(MUTANT, 1, v.Quorum()))`), "TestWitnesses"},
	{"a-clock-that-is-spoken-for-is-out-of-step", replace(`!k.watched`, `(MUTANT || !k.watched)`), "TestWitnesses"},
	{"clocks-that-stepped-to-ours-are-not-told-of", without(2), "TestNewClientDoesNotVouchForCommonSteps"},
	{"clocks-that-stepped-with-ours-are-not-told-of", without(3), "TestNewClientDoesNotVouchForCommonSteps"},
	{"a-suspension-counts-as-a-step", replace(`o.Suspended()`, `pick(MUTANT, 0, o.Suspended())`), "TestSuspensionIsNoStep"},
	{"granted-over-a-suspension", never, "TestRoundOverASuspensionIsNotGranted"},
	{"a-suspension-is-not-looked-for", when(`true`), "TestRoundOverASuspensionIsNotGranted"},
	{"a-suspension-excuses-a-later-gain", skip, "TestSuspensionThatDidNotShow"},
	{"a-suspension-excuses-several-gains", skip, "TestSuspendedMachineGoesOn"},
	{"a-clock-of-our-own-is-doubted", never, "TestMastersOfThisProcessAreNotDoubted"},
	{"keys-shortened-while-their-locks-are-valid", replace(`now-k.back >= wait`, `(MUTANT || now-k.back >= wait)`), "TestClampWaitsForWhoDidNotWatch"},
	{"a-clock-set-back-lengthens-locks", never, "TestClockSetBackLengthensNoLock"},
	{"all-readers-ends-are-moved", script(`if tonumber(ends[m + 1]) <= most then`, `if true then`), "TestClampCutsNoReaderShort"},
	{"keys-shortened-too-much", replace(`wait.Milliseconds()`, `pick(MUTANT, wait/2, wait).Milliseconds()`), "TestClampCutsNoLockShort"},
	{"a-finding-forgotten-with-its-connection", doInside(`l.toResolve = guardResult{}`), "TestFindingOutlivesTheConnection"},
	{"beat-not-compared", never, "TestRollbackIsCaughtWithTheVote"},
	{"back-by-one-heartbeat", never, "TestRollbackByOneHeartbeat"},
	{"fences-that-went-back", never, "TestFindingOutlivesTheConnection"},
	{"back-behind-a-new-connection", when(`COND && !result.recheck`), "TestRollbackByOneHeartbeat"},
	{"the-past-forgotten-with-the-connection", always, "TestForgetfulMasterHasNoVote"},
	{"one-redis-votes-twice", never, "TestRefusedMasters"},
	{"a-replica-votes", never, "TestRefusedMasters"},
	{"eviction-not-seen", never, "TestRefusedMasters"},
	{"a-master-that-may-evict-votes-until-it-is-connected-anew", always, "TestRefusedMasters"},
	{"an-evicting-master-is-not-asked-for-the-leases", replace(`reason != conn.Evicts(info)`, `pick(MUTANT, reason != "", reason != conn.Evicts(info))`), "TestRealEvictedLeasesAreNoticed"},
	{"leases-not-looked-at-behind-a-new-connection", skip, "TestLeasesAreLookedAtWhenAVoteIsLost"},
	{"leases-not-looked-at-when-a-master-becomes-a-replica", skip, "TestLeasesAreLookedAtWhenAVoteIsLost"},
	{"leases-not-looked-at-when-a-master-may-evict", skip, "TestLeasesAreLookedAtWhenAVoteIsLost"},
	{"leases-not-looked-at-when-a-clock-steps", skip, "TestLeasesAreLookedAtWhenAVoteIsLost"},
	{"bootstrap-over-keys", never, "TestBootstrapRefusesWhatIsNotNew"},

	// The membership record.
	{"a-wait-shorter-than-max_ttl", never, "TestRecordsAreRefused"},
	{"one-memory-at-two-seats", never, "TestRecordsAreRefused"},
	{"the-wait-is-lowered-with-max_ttl", never, "TestStepsAreRefused"},
	{"a-seat-is-added-as-voter", never, "TestStepsAreRefused"},
	{"a-seat-is-removed-without-leaving", never, "TestStepsAreRefused"},
	{"reseated-as-voter", never, "TestStepsAreRefused"},
	{"the-timer-of-a-seat-does-not-start", never, "TestStepsAreRefused"},

	{"what-cannot-be-read-is-replaced", never, "TestStateOfANewerVersionIsRefused"},
	{"a-promise-that-is-no-ballot-is-outbid", always, "TestStepGoesOnWithoutWhatCannotBeRead"},
	{"a-record-that-cannot-be-read-takes-part", never, "TestStepGoesOnWithoutWhatCannotBeRead"},
	{"a-child-of-another-digest-is-proposed", never, "TestStepGoesOnWithoutWhatCannotBeRead"},
	{"a-record-of-another-digest-is-believed", never, "TestRecordThatCannotBeReadIsNamed"},
	{"a-memory-of-another-is-replaced", script(`v ~= ARGV[1]`, `false`), "TestMemberScripts"},
	{"promises-outlive-their-memory", script(`'UNLINK', KEYS[1])`, `'HDEL', KEYS[1], 'v')`), "TestMemberScripts"},
	{"a-ballot-for-another-parent-is-promised", script(`settled(v) ~= ARGV[1]`, `false`), "TestMemberScripts"},
	{"a-promise-is-lowered", script(`not below(promised, ARGV[2])`, `false`), "TestMemberScripts"},
	{"an-accepted-child-is-not-told", script(`if ballot then`, `if false then`), "TestMemberScripts"},
	{"a-child-of-another-parent-is-accepted", script(`settled(v) ~= ARGV[1]`, `false`), "TestMemberScripts"},
	{"a-promise-is-broken", script(`below(ARGV[2], promised)`, `false`), "TestMemberScripts"},
	{"an-accepted-ballot-is-no-promise", script(`, 'p', ARGV[2])`, `)`), "TestMemberScripts"},
	{"another-memory-learns", script(`memory ~= ARGV[1]`, `false`), "TestMemberScripts"},
	{"learn-goes-back-a-generation", script(`tonumber(generation) > tonumber(ARGV[2])`, `false`), "TestMemberScripts"},
	{"learn-goes-to-another-lineage", script(`lineage ~= ARGV[3]`, `false`), "TestMemberScripts"},
	{"learn-goes-back", script(`tonumber(version) >= tonumber(ARGV[4])`, `false`), "TestMemberScripts"},
	{"promises-outlive-their-record", script(`'a', 'p')`, `'a')`), "TestMemberScripts"},
	{"a-stamp-begins-anew", script(`age(redis.call('HGET', KEYS[1], ARGV[i]), now, ARGV[5])`, `false`), "TestMemberScripts"},
	{"a-stamp-of-the-future-stays", script(`at - now <= tonumber(skew)`, `true`), "TestMemberScripts"},
	{"a-stamp-that-is-no-number-stays", script(`string.match(stamp or '', '^%d+$')`, `stamp and stamp ~= '' and '0'`), "TestMemberScripts"},
	{"a-stamp-of-the-future-counts", without(2), "TestStampAge"},
	{"stamps-of-other-listings-stay", script(`not keep[field]`, `false`), "TestMemberScripts"},
	{"a-proxy-that-is-behind-drops-stamps", script(`settled(v) == ARGV[1]`, `true`), "TestMemberScripts"},
	{"a-floor-for-another-record", script(`shows() ~= ARGV[1]`, `false`), "TestAdmitFloor"},
	{"a-floor-is-lowered", script(`tonumber(redis.call('GET', KEYS[2]) or 0) < tonumber(ARGV[2])`, `true`), "TestAdmitFloor"},
	{"a-record-that-nobody-can-change", never, "TestRecordThatNobodyCouldChange"},
	{"a-witness-that-steps-has-shown-nothing", replace(`k.witnessed ||`, `k.witnessed && !MUTANT ||`), "TestNewClientAfterAllStepped"},
	{"a-clock-is-read-once-in-a-long-heartbeat", replace(`wait/3`, `wait/3*pick[time.Duration](MUTANT, 1000, 1)`), "TestWaitIsShorterThanAHeartbeat"},
	{"no-heartbeats-after-a-removal", when(`COND && len(lanes) >= len(c.opts.Masters)`), "TestHeartbeatsGoOnAfterARemoval"},
	{"a-proxy-that-is-behind-vetoes", never, "TestProxyThatIsBehindVetoesNothing"},
	{"versions-are-compared-without-digests", when(`COND || f.Record != nil && f.Record.Version == r.Version`), "TestAdoptedRecord"},
	{"the-newest-record-at-a-start", when(`match(r) && (best == nil || r.NewerThan(best.ID()))`), "TestAdoptedRecord"},
	{"a-minority-leads-to-another-fleet", without(2), "TestFleetOfAList"},
	{"a-start-is-judged-by-the-first-answers", never, "TestFarMastersOfTheSettings"},
	{"a-client-leaves-its-fleet", without(2, 2), "TestMajorityOfAnotherFleet"},
	{"silence-leads-to-another-fleet", without(2, 3), "TestSilenceLeadsToNoOtherFleet"},
	{"who-is-behind-counts-as-silent", never, "TestOneMasterInventsAChange"},
	{"a-child-that-cannot-have-been-chosen-is-taken-over", without(1), "TestStepBesideWhoKnowsTheChild"},
	{"a-step-moves-several-seats", never, "TestStepsAreRefused"},
	{"a-stray-is-judged-by-one-survey", always, "TestStepsDuringASurvey"},
	{"a-master-that-lies-keeps-everybody-busy", never, "TestMasterThatGoesOnLying"},
	{"a-wait-by-our-clock-alone", replace(`w.elapsed(s, r)`, `pick(MUTANT, s.Began.Sub(w.since), w.elapsed(s, r))`), "TestWhenAWaitIsOver"},
	{"stamps-by-a-clock-that-disagrees", script(`ARGV[2] == '1'`, `true`), "TestMemberScripts"},
	{"one-master-says-who-is-heard", without(2), "TestHeardElsewhere"},
	{"two-masters-of-one-name-are-not-told", never, "TestNameThatMeansTwoMasters"},
	{"a-memory-that-is-heard-is-replaced", replace(`within)`, `pick(MUTANT, -1, within))`), "TestNameThatMeansAnotherTakesNoVote"},
	{"a-proxy-that-was-cut-off-founds-with-its-own-wait", when(`base != nil`), "TestFoundingByAProxyThatWasCutOff"},
	{"keys-are-clamped-under-another-record", script(`shows() ~= ARGV[2]`, `false`), "TestClamp"},
	{"all-keys-are-clamped", script(`redis.call('PTTL', KEYS[i]) > tonumber(ARGV[1])`, `true`), "TestClamp"},

	{"a-record-of-a-minority-adopted", never, "TestAdoptedRecord"},
	{"a-memory-that-is-not-listed-supports", without(2), "TestAdoptedRecord"},
	{"a-seat-is-removed-before-the-wait", without(2), "TestNextRecord"},
	// Recovery by copying.
	{"of-two-values-one-is-copied", never, "TestOrderOf"},
	{"the-nearest-end-is-copied", replace(`max(held.left, e.left)`, `pick(MUTANT, e.left, max(held.left, e.left))`), "TestOrderOf"},
	{"the-end-of-a-reader-is-not-the-latest", replace(`max(held.readers[member], left, nobodys)`, `pick(MUTANT, left, max(held.readers[member], left, nobodys))`), "TestOrderOf"},
	{"a-change-that-is-broken-off-hides-a-lock", never, "TestOrderOf"},
	{"what-is-on-its-way-to-the-sources-is-removed", never, "TestOrderOf"},
	{"the-end-of-a-copied-key-is-not-moved", replace(`left+lua.EndMoveMs`, `pick(MUTANT, left, left+lua.EndMoveMs)`), "TestOrderOf"},
	{"sources-that-differ-are-not-read-again", never, "TestOrderOf"},
	{"a-copy-cuts-a-reader-short", replace(`max(left, learner.readers[member])`, `pick(MUTANT, left, max(left, learner.readers[member]))`), "TestOrderOf"},
	{"a-copy-cuts-a-key-short", replace(`max(held.left, learner.left)`, `pick(MUTANT, held.left, max(held.left, learner.left))`), "TestOrderOf"},
	{"a-key-without-an-end-is-copied", script(`left >= 0`, `left ~= -2`), "TestCopyScripts"},
	{"a-copy-is-written-to-a-voter", script(`settled(shows()) ~= ARGV[1]`, `false`), "TestLateCopyMeetsAVoter"},
	{"only-the-first-key-of-a-batch-is-given", script("if kind == '-' then", "if i > 2 then done = '1' elseif kind == '-' then"), "TestCopyOfManyKeys"},
	{"a-copy-does-not-compare", script(`kind == '=' and held ~= had`, `false`), "TestCopyScripts"},
	{"a-copy-shortens", script(`redis.call('PTTL', key) < tonumber(left)`, `true`), "TestCopyScripts"},
	{"readers-are-copied-to-a-voter", script(`settled(shows()) ~= ARGV[1]`, `false`), "TestCopyScripts"},
	{"what-was-said-in-the-future-is-fresh", replace(`within)`, `pick(MUTANT, f.Skew, within))`), "TestCopyNoteBehindTheCopy"},
	{"two-copy-at-the-same-time", script(`by ~= ARGV[1]`, `false`), "TestCopyScripts"},
	{"a-source-that-goes-back-in-time-is-read-on", never, "TestSourceIsJudged"},
	{"a-source-whose-clock-gains-is-read-on", never, "TestSourceStepsAheadAndBack"},
	{"who-looks-in-copies", never, "TestWhoLooksInDoesNotCopy"},
	{"a-gain-that-a-copy-has-seen-is-forgotten", skip, "TestSourceStepsAheadAndBack"},
	{"the-gain-of-a-process-that-is-gone-doubts-the-next", always, "TestGainOfASourceThatIsReplaced"},
	{"a-refused-process-confirms-nothing", replace(`f.RunID != ""`, `f.RunID != "" && !(MUTANT && f.Err != nil)`), "TestAddressThatMovesToARefusedMaster"},
	{"what-is-released-meanwhile-stays", instead(`return nil`), "TestReleasedWhileItIsCopied"},
	{"a-scan-is-not-finished", replace(`a.cursor == 0`, `(a.cursor == 0 || MUTANT)`), "TestRestartedMasterVotesAgainAtOnce"},
	{"a-copy-goes-on-to-a-voter", without(2), "TestCopyNamesTheRecordOfALearner"},
	{"a-source-whose-clock-is-doubted", replace(`k.good && l`, `(MUTANT || k.good) && l`), "TestAskedOfAGuard"},
	{"a-minority-is-copied", never, "TestNoCopyOfAMinority"},
	{"what-a-minority-held-is-not-told", never, "TestOrderOfAMinority"},
	{"a-learner-does-not-tell-of-a-minority", skip, "TestMinorityIsTold"},
	{"a-minority-is-told-of-for-ever", without(-1), "TestMinorityIsBounded"},
	{"what-one-source-has-is-copied", replace(`n - c.quorum + 1`, `pick(MUTANT, 1, n-c.quorum+1)`), "TestLeftoversDoNotSpread"},
	{"fewer-than-a-quorum-are-scanned", replace(`c.Sources[:c.quorum]`, `c.Sources[:pick(MUTANT, c.quorum-1, c.quorum)]`), "TestLastSourceNamesALock"},
	{"a-source-that-has-forgotten-is-read-on", never, "TestSourceIsJudged"},
	{"a-lock-on-a-bare-quorum-is-not-copied", when(`holders <= least`), "TestLeftoversDoNotSpread"},
	{"a-source-that-has-forgotten-promotes", never, "TestSourceThatHasForgotten"},
	{"a-learner-that-was-given-many-scans-for-ever", replace(`(c.total.Load()+c.given.Load())`, `pick(MUTANT, p.f.Keys, c.total.Load()+c.given.Load())`), "TestCopyOfManyKeys"},
	{"promoted-before-the-last-key", skip, "TestSlowCopy"},
	{"a-learner-votes-before-the-wait", always, "TestNextRecord"},
	{"the-wait-is-lowered-at-once", without(2), "TestNextRecord"},
	{"a-smaller-quorum-knows-no-fences", never, "TestNextRecord"},
	{"a-dead-voter-keeps-a-seat-that-leaves", never, "TestNextRecord"},
	{"a-quorum-that-was-not-told-of-fences", never, "TestNextRecord"},
	{"stamps-without-skew", replace(`2*o.ClockSkewMax`, `2*pick(MUTANT, 0, o.ClockSkewMax)`), "TestWhenAWaitIsOver"},
	{"stamps-of-a-minority", replace(`r.Quorum()`, `pick(MUTANT, 1, r.Quorum())`), "TestWhenAWaitIsOver"},
	{"stamps-of-clocks-that-disagree", without(2), "TestWhenAWaitIsOver"},
	{"stamps-of-another-listing", replace(`FormatInt(since, 10)`, `FormatInt(pick(MUTANT, 0, since), 10)`), "TestWhenAWaitIsOver"},
	{"the-record-is-not-compared", never, "TestForgetfulMasterHasNoVote"},
	{"the-listed-memory-is-not-compared", without(2), "TestMastersThatExchangeTheirAddresses"},
	{"votes-count-beside-an-accepted-child", never, "TestNoVoteBesideAnAcceptedChild"},
	{"a-learner-votes", never, "TestForgetfulMasterHasNoVote"},
	{"a-vote-counts-under-another-record", without(3), "TestVoteOfARoundOfAnotherRecord"},
	{"a-memory-of-before-votes", never, "TestMemoryOfBeforeDoesNotComeBack"},
	{"an-address-is-not-made-sure-of", without(2), "TestAddressThatCannotBeMadeSureOf"},
	{"an-address-that-moved-is-not-followed", skip, "TestAddressThatMoves"},
	{"a-lock-outlives-max_ttl", skip, "TestLockThatWaitedWhileMaxTTLWasLowered"},
	{"a-voter-that-knows-no-fences", replace(`ctx, f, floor,`, `ctx, f, pick(MUTANT, 0, floor),`), "TestFencesGrowOverARemoval"},

	// The ceiling.
	{"the-order-of-a-flow-is-lost-at-the-ceiling", never, "TestOrderOfAFlowAtTheCeiling"},
	{"a-wait-at-the-ceiling-does-not-end", never, "TestWaitAtTheCeilingEnds"},
	{"the-last-attempt-of-a-wait-waits-for-the-ceiling", never, "TestLastAttemptOfAWaitAtTheCeiling"},
	{"what-waits-for-the-ceiling-outlives-its-client", skip, "TestCloseWhileTheCeilingIsWaitedFor"},
	{"who-leaves-counts-on-its-note", never, "TestWhoLeavesFollowsNoMore"},
	{"a-note-on-one-master-counts", replace(`v.Quorum()`, `pick(MUTANT, 1, v.Quorum())`), "TestFollowedByAQuorum"},
	{"a-founding-under-way-is-forgotten", skip, "TestFounderTakesAnotherName"},
	{"a-founding-from-a-raised-wait-trusts-addresses", replace(`RecheckWithin(needs)`, `pick(MUTANT, 0, RecheckWithin(needs))`), "TestCeilingOfTheNextRecord"},
	{"a-ceiling-is-raised-over-who-does-not-know", always, "TestCeilingOfTheNextRecord"},
	{"a-follower-is-over-at-once", replace(`age >= life`, `pick(MUTANT, true, age >= life)`), "TestFollowers"},
	{"notes-of-learners-count", without(2), "TestFollowers"},
	{"notes-of-few-voters", never, "TestFollowers"},
	{"an-older-client-is-left-behind", never, "TestOlderClient"},
	{"notes-of-before-are-forgotten", never, "TestNotesForANewVoter"},
	{"a-note-is-handed-over-with-its-time", replace(`at, cmp`, `pick(MUTANT, n.at, at), cmp`), "TestNotesForANewVoter"},
	{"a-founding-that-cannot-have-been-chosen-is-taken-over", never, "TestFoundingThatFewHaveAccepted"},
	{"a-founding-trusts-a-ceiling-of-long-ago", skip, "TestFoundingAndTheCeiling"},
	{"a-note-counts-beside-a-step", script(`shows() ~= ARGV[2]`, `false`), "TestFollowScript"},
	{"a-note-is-deleted-at-once", script(`now - at > after`, `true`), "TestFollowScript"},
	{"a-founding-without-patience", never, "TestFoundingBesideOneThatIsBeingTold"},
	{"silence-is-taken-for-amnesia", never, "TestHangBesideARestart"},
	{"a-seat-that-leaves-comes-back", never, "TestAmnesiaOfAMajorityIsNoSilence"},
	{"who-remembers-is-not-counted", skip, "TestHangBesideARestart"},
	{"a-memory-that-is-gone-comes-back", never, "TestAmnesiaOfAMajorityIsNoSilence"},
	{"who-was-never-heard-is-given-up", never, "TestSilenceOfAMemory"},
	{"a-first-list-is-founded-by-a-majority", never, "TestFirstFoundingWantsAll"},
	{"refound-does-not-end-a-silence", never, "TestRefoundEndsTheSilence"},
	{"bootstrap-over-a-membership", never, "TestBootstrapRefusesWhatIsNotNew"},
	{"bootstrap-over-a-second-founding", without(1), "TestBootstrapOfMastersThatSomebodyWaitsFor"},
	{"bootstrap-where-a-quorum-may-have-voted", without(1), "TestIsNew"},
	{"a-step-is-chosen-by-strangers", replace(`s.Acceptors(parent)`, `pick(MUTANT, s.Reports, s.Acceptors(parent))`), "TestAnyReports"},

	{"an-accepted-child-is-ignored", skip, "TestStep"},
	{"who-knows-another-child-accepts-this", replace(`r.Digest != child.Digest`, `!MUTANT && r.Digest != child.Digest`), "TestStepBesideWhoKnowsTheChild"},
	{"a-founding-of-others-is-chosen-by-strangers", replace(`child != own`, `!MUTANT && child != own`), "TestFoundingOfOthersIsChosenByItsOwn"},
	{"a-founding-of-others-needs-fewer", replace(`child.Quorum()`, `pick(MUTANT, 0, child.Quorum())`), "TestFoundingOfOthersIsChosenByItsOwn"},
	{"the-child-of-a-lower-ballot-is-taken", instead(`slices.SortStableFunc(all, func(a, b accepted) int { return strings.Compare(a.ballot, b.ballot) })`), "TestStepTakesTheChildOfTheHighestBallot"},
	{"a-minority-chooses", replace(`quorum`, `pick(MUTANT, 1, quorum)`), "TestMinorityChoosesNothing"},
	{"a-founding-of-lost-memories-is-in-the-way", never, "TestFoundingOfLostMemories"},
	{"a-minority-founds", never, "TestFounding"},
	{"founded-over-a-quorum-that-remembers", never, "TestFounding"},
	{"a-founding-forgets-founding_wait", replace(`wholeMs(opts.FoundingWait)`, `pick(MUTANT, 0, wholeMs(opts.FoundingWait))`), "TestFounding"},
	{"a-founding-forgets-a-longer-wait", skip, "TestFounding"},
	{"a-founding-forgets-the-wait-of-a-child", never, "TestFounding"},
	{"a-founding-forgets-a-longer-max_ttl", skip, "TestFounding"},
	{"a-source-that-is-behind-is-read-on", never, "TestSourceIsJudged"},
	{"a-source-that-evicted-before-it-was-left-out-promotes", never, "TestSourceThatHasForgotten"},
	{"who-is-listed-anew-was-silent-before", skip, "TestSilenceOfAMemory"},
	{"who-is-heard-by-others-is-silent", never, "TestSilenceOfAMemory"},
	{"who-is-silent-for-days-was-never-heard", without(2), "TestSilenceOfAMemory"},
	{"a-master-fills-the-memory-of-who-was-heard", without(2), "TestHeardIsBounded"},
	{"check-takes-an-error-for-a-vote", never, "TestProbeCannotReadTheMembership"},
	{"who-has-gone-on-counts-as-staying", always, "TestRemovalBesideAMasterOutOfReach"},
	{"a-founding-before-is-forgotten", skip, "TestFounding"},
	{"a-founding-whose-text-is-gone-is-forgotten", skip, "TestFounding"},
	{"the-seats-of-an-older-founding", when(`f.OK() && r != nil && r.SeatOf(f.Master) != nil && (newest == nil || newest.Follows(r))`), "TestFounding"},
	{"a-founding-is-chosen-by-one", replace(`own.Quorum()`, `pick(MUTANT, 1, own.Quorum())`), "TestFoundingNeedsAQuorum"},
	{"a-founding-trusts-addresses-at-once", skip, "TestFounding"},
	{"a-founding-over-who-is-heard", never, "TestHeardElsewhere"},
	{"a-founding-takes-over-a-child", replace(`!a.Accepted.founds()`, `!MUTANT && !a.Accepted.founds()`), "TestFoundingOverAnAcceptedChild"},
	{"a-proxy-that-slept-does-not-search", always, "TestProxyThatMissedThreeReplacements"},
	{"no-second-round-after-a-step", never, "TestNoStepCostsAnAnswer"},
	{"a-step-is-followed-when-all-have-answered", never, "TestNoStepCostsAnAnswerBesideAMasterThatHangs"},
	{"begun-again-behind-the-unlock", without(1), "TestNotBegunAgainBehindTheUnlock"},
	{"a-rotation-is-denied-by-itself", replace(`op.againFrom != nil`, `!MUTANT && op.againFrom != nil`), "TestRotationInAStepThatSomebodyCountsOn"},
	{"a-deletion-is-begun-again", without(2), "TestCommitsInAStep"},
	{"a-commit-begins-again-behind-the-unlock", never, "TestCommitsInAStep"},
	{"a-step-holds-operations-up-for-ever", replace(`stepHold*l.fleet.opts.MasterTimeout`, `pick(MUTANT, time.Hour, stepHold*l.fleet.opts.MasterTimeout)`), "TestStepThatDoesNotEnd"},
	{"a-record-adopted-meanwhile-is-not-looked-at", replace(`l.guard.seenBy != l.fleet.view.Load().record`, `!MUTANT && l.guard.seenBy != l.fleet.view.Load().record`), "TestRecordAdoptedWhileALaneLooks"},
	{"a-name-means-two-machines", never, "TestSeatDoesNotReturnToItsName"},
	{"the-record-has-no-database", doBefore(`return addr`), "TestChangeNamesADatabase"},
	{"settings-with-another-database-join", never, "TestSettingsWithTwoDatabases"},
	{"two-fleets-in-one-redis", never, "TestSettingsWithAnotherDatabase|TestMasterWithAFleetInAnotherDatabaseIsNotSeated"},
	{"a-password-goes-where-the-membership-says", when(`COND || one.SeatName() == name`), "TestPasswordsStayAtTheAddressesOfTheSettings"},
	{"a-master-that-hangs-holds-up-the-others", replace(`member.RecheckWithin(wait) / 4`, `pick(MUTANT, time.Hour, member.RecheckWithin(wait)/4)`), "TestMasterThatTakesNoNewConnections"},
	{"a-change-that-was-given-up-is-made", never, "TestChangeThatWasGivenUpIsNotMade"},
	{"a-change-pushes-out-another", never, "TestTwoChangesThroughOneClient"},
	{"a-founding-is-taken-for-the-change", replace(`d.Asked`, `d.Asked || MUTANT && m.request != nil`), "TestFoundingIsNotTheChange"},

	// What an operator asks for.
	{"what-is-not-refounded-is-written-to", skip, "TestRefoundRefusals"},
	{"a-dry-run-refounds", without(3), "TestRefound"},
	{"refounded-and-nobody-is-told", never, "TestRefoundKilledAnywhere"},
	{"a-master-with-keys-is-refounded", never, "TestRefoundRefusals"},
	{"two-fleets-are-refounded-as-one", never, "TestRefoundRefusals"},
	{"refounded-over-what-a-member-shows", skip, "TestRefoundRefusals"},
	{"refounded-over-a-quorum-of-seats", never, "TestRefoundRefusals"},
	{"a-refounding-does-not-wait", doBefore(`for i := range f.Seats { f.Seats[i].State = member.Voter }; f = f.Seal()`), "TestRefound"},
	{"a-refounded-name-means-two-machines", skip, "TestRefoundGivesANameToAnotherMachine"},
	{"a-refounded-seat-returns-to-its-name", skip, "TestRefoundedSeatDoesNotReturnToItsName"},
	{"a-learner-is-counted-on", without(1), "TestChangesWhileMastersWait"},
	{"a-dead-voter-is-counted-on", when(`COND || one.State == Voter`), "TestChangesWithDeadMasters"},
	{"the-vote-that-is-given-up-is-counted-on", always, "TestChangesWithDeadMasters"},
	{"a-new-seat-does-not-count", replace(`child.Quorum()`, `pick(MUTANT, r, child).Quorum()`), "TestChangesWithDeadMasters"},
	{"a-change-is-judged-by-the-first-answers", never, "TestChangeWaitsForFarMasters"},
	{"check-counts-who-is-behind", never, "TestProbeOfMastersThatAreBehind"},
	{"a-removal-by-another-is-not-told", never, "TestChangeBesideAnotherOperator"},
	{"a-dry-run-names-the-memory", replace(`q.dryRun`, `q.dryRun && !MUTANT`), "TestDryRunWritesNothing"},
	{"a-dry-run-leaves-a-key", always, "TestDryRunWritesNothing"},
	{"the-probe-of-a-new-master-stays", skip, "TestDryRunWritesNothing"},
	{"a-master-of-another-fleet-is-seated", never, "TestMasterOfAnotherFleetIsNotSeated"},
	{"a-master-that-belonged-to-another-fleet-is-seated", never, "TestMasterOfAnotherFleetIsNotSeated"},

	// Waiting.
	{"barging", always, "TestNoBarging"},
	{"last-come-first-served", doBefore(`if q.tail != nil && q.tail != q.head { before, after = q.head, q.head.next }`), "TestFirstComeFirstServed"},
	{"who-moves-goes-to-the-end", doAfter(`after = nil`), "TestInsertByArrival"},
	{"waits-in-one-queue-for-ever", always, "TestSeveralStandInOneLine"},
	{"a-head-pauses-on-when-it-is-the-head-again", never, "TestDisplacedHeadAsksAgain"},
	{"never-reserves", always, "TestReservesAfterSomeDenials"},
	{"reserves-in-the-callers-order", doAfter(`w.keys = op.keys`), "TestReservationsMakeNoCircle"},
	{"reserves-for-ever", never, "TestReservationEndsWithItsPatience"},
	{"a-reservation-outlives-the-wait", never, "TestReservationEndsWithTheWait"},
	{"a-denied-step-leaves-its-resource", replace(`v.MayHold(r.view.Places)`, `pick(MUTANT, 0, v.MayHold(r.view.Places))`), "TestDeniedStepLeavesNothing"},
	{"a-denied-step-gives-all-back", replace(`w.reservation.held`, `pick(MUTANT, 0, w.reservation.held)`), "TestDeniedStepLeavesNothing"},
	{"a-reservation-is-in-its-own-way", skip, "TestLastAttemptTakesTheReservation"},
	{"a-reservation-takes-what-others-hold", script(`held and held == ARGV[6]`, `ARGV[6]`), "TestReservationEndsWithTheWait"},
	{"hand-over-not-in-the-same-batch", doAfter(`ws.pauseLocked(w.op, ws.opts.retryDelay(0)); return`), "TestHandOverInOneBatch"},
	{"hand-overs-are-forgotten-when-nobody-waits", doAfter(`f.since = 0`), "TestLongHoldsLeaveWindows"},
	{"who-waits-is-forgotten-when-nobody-waits", doAfter(`f.yield = nil`), "TestManyClientsTakeTurns"},
	{"windows-are-left-to-one-again-and-again", skip, "TestCopiesOfAMessageLeaveOneWindow"},
	{"hand-overs-without-end", never, "TestHandOversAreLimited"},
	{"the-distance-changes-while-votes-are-told", always, "TestDistanceStaysWhileVotesAreDelivered"},
	{"windows-that-nobody-is-told-of", skip, "TestTurnsOfTwoProxies"},
	{"no-invalidations-in-a-window", instead(`ws.pauseLocked(w.op, ws.windowLength())`), "TestTurnsOfTwoProxies"},
	{"tracked-for-a-subscription-of-before", when(`COND || l.trackingID != 0`), "TestUnsubscribedWaiterAsks"},
	{"an-unwanted-grant-is-kept", never, "TestUnblockUndoesTheAttemptInFlight"},
	{"the-first-attempt-decides", instead(`w.attempt, op.stale = nil, 0; if w.lastErr == nil { w.lastErr = err }`), "TestWaitRunsOut"},
	{"what-is-announced-before-the-reply-is-lost", doAfter(`k.changed = 0`), "TestChangeBeforeTheReplyWakes"},
	{"an-attempt-elsewhere-is-a-release", skip, "TestAttemptsOfOthersWakeNobody"},
	{"a-master-that-cannot-announce-it-is-awaited", doAfter(`if a.armed { k.awaited = k.awaited.With(i) }`), "TestHoldersThatCanSpeakWake"},
	{"a-master-that-promises-nothing-is-awaited", always, "TestUnsubscribedWaiterAsks"},
	{"announcements-wake-nobody", replace(`&^ k.changed`, `&^ pick(MUTANT, 0, k.changed)`), "TestReleaseByAnotherClientWakesTheHead"},
	{"a-connection-that-breaks-wakes-nobody", skip, "TestUnsubscribedWaiterAsks"},
	{"a-flush-wakes-nobody", skip, "TestFlushCountsAsAChange"},
	{"own-changes-are-not-counted", skip, "TestOwnRemovalIsNotReliedOn"},
	{"keys-that-are-shortened-say-nothing", skip, "TestKeysThatAreShortenedAreNotReliedOn"},
	{"a-silent-master-holds-the-key", instead(`if a.known { remaining = append(remaining, 0) }`), "TestKeyThatEndsBesideSilentMasters"},
	{"a-head-without-an-answer-is-a-denial", always, "TestWaitRunsOutBeforeTheHeadIsAnswered"},
	{"asks-without-a-quorum", always, "TestWaitersAskNobodyWithoutQuorum"},
	{"a-quorum-that-is-back-wakes-nobody", always, "TestWaitersAskNobodyWithoutQuorum"},
	{"all-wake-at-the-same-time", replace(`len(heads)`, `pick(MUTANT, 1, len(heads))`), "TestWaitersAskNobodyWithoutQuorum"},

	// Slots.
	{"a-token-takes-two-slots", script(`found > 0 or `, ``), "TestTokenNeverHoldsTwoSlots"},
	{"a-master-with-two-slots-of-a-token-gives-one", script(`found == wanted)`, `i == wanted)`), "TestMasterWithTwoSlotsOfAToken"},
	{"a-key-of-another-type-is-free", script(` and redis.call('EXISTS', KEYS[i]) == 0`, ``), "TestSlotsOverAMinority"},
	{"a-mask-is-a-vote", doBefore(`if told&(1<<r.slot) != 0 || told != 0 { return quorum.Granted, nil, nil }`), "TestSlots"},
	{"a-slot-that-was-split-is-kept", when(`COND && r.slots == 0`), "TestSplitSlotIsUndone"},
	{"a-repetition-guesses-anew", doAfter(`slot = int(c.rounds.launched) % s.count`), "TestRepeatedLockGetsItsSlot"},
	{"a-repetition-does-not-find-its-slot", never, "TestRepeatedLockGetsItsSlot"},
	{"a-repetition-is-denied-for-those-who-wait", never, "TestRepeatedLockBesideWaitersGetsItsSlot"},
	{"a-repetition-waits-behind-others", never, "TestRepeatedLockBesideWaitersGetsItsSlot"},
	{"another-slot-behind-the-unlock", without(-1), "TestUnlockBehindARepeatedLockOfASlot"},
	{"a-release-of-another-slot-overtakes", skip, "TestUnlockBehindARepeatedLockOfASlot"},
	{"the-wrong-slot-is-handed-over", doAfter(`s.next = (slot+1)%s.count + 1`), "TestSlotHandOverInOneBatch"},
	{"a-slot-beyond-its-k-is-handed-over", without(1), "TestHandOverKeepsToTheSlotsOfTheWaiter"},
	{"hand-overs-of-slots-without-end", never, "TestSlotHandOversAreLimited"},
	{"the-slot-of-a-window-is-forgotten", skip, "TestSlotsOfWindowsComeBack"},
	{"one-after-the-other", never, "TestWaitersOfAnIdleSemaphoreAskAtOnce"},
	{"slots-that-were-seen-free-are-not-taken", skip, "TestSlotsReleasedElsewhereAtOnce"},
	{"a-slot-is-free-on-one-master", when(`absentOn(of) > 0`), "TestSlotThatAMinorityHasLostIsNotAskedFor"},
	{"a-slot-that-no-quorum-is-free-of-is-asked-for", when(`free[i] < most`), "TestSlotsOverAMinority"},

	// Masters that are not what they should be.
	{"go-redis-reads-unchecked", doBefore(`return socket, nil`), "TestHostileReplyWhileConnecting"},
	{"a-panic-ends-the-process", doBefore(`return`), "TestPanicLosesOneMaster"},
	{"votes-that-no-trailer-closes", never, "TestHalfABatchCountsNoVote"},
	{"a-second-pipeline-excuses-the-first", skip, "TestSecondPipelineExcusesNothing"},
	{"a-second-pipeline-hides-a-suspicion", skip, "TestFindingsOfTwoPipelines"},
	{"a-second-pipeline-hides-another-record", skip, "TestFindingsOfTwoPipelines"},
	{"a-second-pipeline-hides-a-gain", skip, "TestFindingsOfTwoPipelines"},
	{"a-second-pipeline-hides-that-nobody-watched", skip, "TestFindingsOfTwoPipelines"},
	{"a-master-that-sends-nonsense-is-not-refused", never, "TestWireRefusesNonsense"},

	// Fences.
	{"fence-not-above-the-mark", script(`fence <= mark`, `false`), "TestOneMasterRemembersTheFence"},
	{"a-clock-that-is-behind-stays-behind", skip, "TestFenceTakesOneRound"},
	{"any-mark-believed", never, "TestFalseFencesAreNotBelieved"},
	{"a-false-floor-not-refused", without(2), "TestFalseFencesAreNotBelieved"},
	{"a-false-mark-not-refused", never, "TestFalseFencesAreNotBelieved"},
	{"fences-of-a-clock-that-is-a-little-ahead-refused", replace(`skew`, `pick(MUTANT, -skew, skew)`), "TestFloorOfAnotherClockIsNotRefused"},
	{"a-mark-believed-that-no-master-accepts", replace(`skew`, `pick(MUTANT, -skew, skew)`), "TestFloorOfAnotherClockIsNotRefused"},
	{"a-false-mark-shown", never, "TestFalseMarkIsNotShown"},
	{"fences-of-a-false-floor-forgotten", always, "TestFalseFloorDeletedWithoutTheMembership"},
	{"a-clock-that-was-ahead-is-not-forgotten", never, "TestFenceClockThatWasAhead"},
	{"cold-floor-too-low", replace(`2*`, `time.Duration(pick(MUTANT, 1, 2))*`), "TestColdFloorIsAboveEveryFence"},
	{"floor-not-relearned", doBefore(`floor = 0`), "TestFenceSurvivesAmnesia"},
	{"a-floor-that-no-clock-reaches-is-taken", script(`ahead(tonumber(ARGV[2]))`, `false`), "TestAdmitFloor"},
	{"one-clock-that-is-behind-keeps-all-from-voting", never, "TestOneClockThatIsBehindKeepsNobodyFromVoting"},
	{"one-voter-moves-all-floors", always, "TestFloorOfAMembership"},
	{"marks-pushed-out-without-a-floor", script(`out[#out]`, `0`), "TestForgottenMarksRaiseTheFloor"},
}

// hunted are the mutants that the simulation must find by itself, within huntSeeds.
var hunted = []string{
	"quorum-off-by-one", "votes-counted-in-quarantine",
	"the-undo-does-not-look-at-the-end", "fence-not-above-the-mark", "a-clock-that-gains-is-not-seen",
	"a-token-takes-two-slots",
	"a-takeover-keeps-the-token",
	"a-reader-does-not-look-at-the-writer", "the-key-ends-with-the-first-reader",
	"promoted-before-the-last-key", "a-lock-on-a-bare-quorum-is-not-copied",
	"a-refounding-does-not-wait",
	// These show only at sizes of production: where more marks were set than a master keeps, where several keys are copied at a time, and where a
	// lock is long against the tolerance of clocks.
	"marks-pushed-out-without-a-floor", "only-the-first-key-of-a-batch-is-given", "the-drift-of-a-ttl-is-a-constant",
}

const (
	huntSeeds   = 150              // a run ends with the first that finds it
	noneSeeds   = 5                // with no mutant on
	mutantLimit = time.Minute      // of the tests of one mutant: only one that hangs needs it
	huntLimit   = 10 * time.Minute // of the seeds of one mutant
	allLimit    = 15 * time.Minute // of all these tests, one after the other: some two minutes where nothing else runs
)

// mutantSwitch is added to each package in the binaries with the mutants.
const mutantSwitch = `package %s

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

// mutantScriptSwitch is added to the package lua: what replaceScript has put into a script becomes the one text or the other.
const mutantScriptSwitch = `package lua

import (
	"os"
	"regexp"
)

var mutated = regexp.MustCompile("\x01isMutant\\(\"(.*?)\"\\)\x02(.*?)\x02(.*?)\x03")

func readFile(name string) ([]byte, error) {
	text, err := files.ReadFile(name)
	return mutated.ReplaceAllFunc(text, func(text []byte) []byte {
		m := mutated.FindSubmatch(text)
		if string(m[1]) == os.Getenv("REDLOCK_MUTANT") {
			return m[2]
		}
		return m[3]
	}), err
}
`

// TestMutantMarks finds every mutant's place, and the tests that are to fail, without compiling anything.
func TestMutantMarks(t *testing.T) {
	mutatedSources(t)
	rooms := killerRooms(t)
	for _, m := range mutants {
		for killer := range strings.SplitSeq(m.killers, "|") {
			if _, ok := rooms[killer]; !ok {
				t.Errorf("mutant %q: there is no test %s", m.name, killer)
			} else if first, _, _ := strings.Cut(m.killers, "|"); rooms[killer] != rooms[first] {
				t.Errorf("mutant %q: %s and %s are tests of two packages", m.name, first, killer)
			}
		}
	}
}

// killerRooms tells in which room each test is.
func killerRooms(t *testing.T) map[string]string {
	t.Helper()
	rooms := map[string]string{}
	for _, name := range filesOf(t, "*_test.go") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			rooms[test[1]] = filepath.Dir(name)
		}
	}
	return rooms
}

// TestMutants runs one mutant with REDLOCK_TESTS=release and -run 'TestMutants$/^name$'.
func TestMutants(t *testing.T) {
	redisproc.Release(t)
	p := playMarked(t, mutants)
	t.Run("none in the simulation", func(t *testing.T) {
		t.Parallel()
		if output, err := runMutant(".", p.binaries["."], "none", "^TestSimulation$", noneSeeds, allLimit); err != nil {
			t.Errorf("with no mutant on, the simulation must pass: %v\n%s", err, output)
		}
	})
	for _, name := range hunted {
		p.survives(name+" in the simulation", name, "TestSimulation", huntSeeds, huntLimit)
	}
	refused := func(name, test string) {
		t.Run(name+" in its traces", func(t *testing.T) {
			t.Parallel()
			defer p.slot()()
			wantRefused(t, p.binaries["."], name, test)
		})
	}
	for _, name := range tracedMutants[:2] {
		refused(name, "TestTraceModel")
	}
	refused(tracedRecordMutants[0], "TestRecordTraceModel")
}

// markedRun is a run of mutants that are marked.
type markedRun struct {
	t        *testing.T
	rooms    map[string]string // of tests
	binaries map[string]string // of rooms
	slots    chan struct{}
}

// playMarked runs each of these mutants for the tests that must kill it. Without one these tests must pass.
func playMarked(t *testing.T, chosen []mutant) *markedRun {
	redisproc.Need(t, "redis-server", "redis-cli", "gcc") // as the tests that kill them
	p := &markedRun{t: t, rooms: killerRooms(t), slots: make(chan struct{}, 2)}
	all := map[string][]string{}
	for _, m := range chosen {
		first, _, _ := strings.Cut(m.killers, "|")
		all[p.rooms[first]] = append(all[p.rooms[first]], m.killers)
	}
	p.binaries = buildMutants(t, slices.Sorted(maps.Keys(all))...)
	for room, killers := range all {
		t.Run("none in "+room, func(t *testing.T) {
			t.Parallel()
			if output, err := runMutant(room, p.binaries[room], "none", "^("+strings.Join(killers, "|")+")$", 0, allLimit); err != nil {
				t.Errorf("with no mutant on, the tests must pass: %v\n%s", err, output)
			}
		})
	}
	for _, m := range chosen {
		p.survives(m.name, m.name, m.killers, 0, mutantLimit)
	}
	return p
}

// slot waits until a mutant may run, and returns what lets the next one run.
func (p *markedRun) slot() (free func()) {
	p.slots <- struct{}{}
	return func() { <-p.slots }
}

// survives fails the test if no killer fails with a mutant.
func (p *markedRun) survives(run, name, killers string, seeds int, limit time.Duration) {
	p.t.Run(run, func(t *testing.T) {
		t.Parallel()
		defer p.slot()()
		first, _, _ := strings.Cut(killers, "|")
		room := p.rooms[first]
		output, err := runMutant(room, p.binaries[room], name, "^("+killers+")$", seeds, limit)
		switch {
		case err == nil:
			t.Errorf("mutant %q survives %s", name, killers)
		case seeds > 0 && strings.Contains(output, "panic: test timed out"): // no hang: these seeds were not enough, or the machine too slow
			t.Errorf("mutant %q: %s has not found it within %v", name, killers, limit)
		case !strings.Contains(output, "--- FAIL") && !strings.Contains(output, "panic: ") && !strings.Contains(output, "fatal error: "):
			t.Errorf("mutant %q: %v, and no test has failed:\n%s", name, err, output)
		}
	})
}

// buildMutants compiles a test binary of each of these rooms, with all mutants in it.
func buildMutants(t *testing.T, rooms ...string) map[string]string {
	sources := mutatedSources(t)
	addSwitch(sources, mutantSwitch, mutantRooms)
	sources["lua/mutant_switch.go"] = mutantScriptSwitch
	return compileMutants(t, sources, rooms...)
}

// addSwitch adds a file to each of the packages.
func addSwitch(sources map[string]string, text string, rooms []string) {
	for _, room := range rooms {
		sources[filepath.Join(room, "mutant_switch.go")] = fmt.Sprintf(text, packageOf(room))
	}
}

// compileMutants compiles the test binaries with these files in the place of their own.
func compileMutants(t *testing.T, sources map[string]string, rooms ...string) map[string]string {
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	files, err := repeatableRuntime()
	if err != nil {
		t.Fatal(err)
	}
	for file, source := range sources {
		files[filepath.Join(here, file)] = source
	}
	overlay, err := writeOverlay(dir, files)
	if err != nil {
		t.Fatal(err)
	}
	binaries := map[string]string{}
	build := []string{"test", "-c", "-vet=off", "-overlay", overlay, "-ldflags", repeatableFlag, "-o", dir + "/"}
	for _, room := range rooms {
		binaries[room] = filepath.Join(dir, packageOf(room)+".test")
		build = append(build, "./"+room)
	}
	if output, err := exec.Command("go", build...).CombinedOutput(); err != nil {
		t.Fatalf("compile the mutants: %v\n%s", err, output)
	}
	return binaries
}

// packageOf is the name of the package of a room.
func packageOf(room string) string {
	if room == "." {
		return "redlock"
	}
	return filepath.Base(room)
}

// runMutant runs tests of a room with a mutant, in its folder: a test that does not find its files fails whatever the mutant.
func runMutant(room, binary, name, tests string, seeds int, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+10*time.Second)
	defer cancel()
	if limit == 0 {
		ctx = context.Background()
	}
	cmd := exec.CommandContext(ctx, binary, "-test.run", tests, "-test.timeout", limit.String())
	cmd.Dir = room
	cmd.Env = append(os.Environ(), "REDLOCK_MUTANT="+name, onProcessors)
	if seeds > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprint(simSeeds, "=", seeds), simFirst+"=1", simSeed+"=", simBriefly+"=1", simReport+"=")
	}
	output, err := cmd.CombinedOutput()
	return string(output), err
}
