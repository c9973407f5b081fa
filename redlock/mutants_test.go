package redlock

// Goal: every rule that keeps locks safe is held by a test that fails without it. Method: the rules are broken one at a time, and the
// test that is named must fail. All changes are compiled into one test binary (go test -overlay); each has a switch of its own, and an
// environment variable turns one on. So the package is compiled once, and with no switch on all these tests must pass.

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
)

// mutant breaks one rule: in the named file, old becomes new. Old must occur exactly once; in new, MUTANT is the
// switch, a bool expression, and lines may not be added or taken away so that failures name the right ones.
type mutant struct {
	name, file, old, new string
	killers              string // tests that must fail, as for go test -run; at least one of them
}

var mutants = []mutant{
	// Rounds and votes.
	{"quorum off by one", "quorum.go", `return masters/2 + 1 }`, `if MUTANT { return masters / 2 }; return masters/2 + 1 }`, "TestSplitVotesAreUndone"},
	{"drift left out", "validity.go", `return ttl - elapsed - drift`, `if MUTANT { drift = 0 }; return ttl - elapsed - drift`, "TestExpiry"},
	{"elapsed left out", "validity.go", `func validityOf(ttl, elapsed, drift time.Duration) time.Duration {`, `func validityOf(ttl, elapsed, drift time.Duration) time.Duration { if MUTANT { elapsed = 0 };`, "TestLateReplies"},
	{"validity not checked", "op_lock.go", `case o == yes && validity <= 0:`, `case !MUTANT && o == yes && validity <= 0:`, "TestLateReplies"},
	{"undo skipped for the silent", "quorum.go", `return v.where(masters, 1<<votePending|1<<voteGranted|1<<voteMine|1<<voteUnknown|1<<voteDone)`, `if MUTANT { return v.did(masters) }; return v.where(masters, 1<<votePending|1<<voteGranted|1<<voteMine|1<<voteUnknown|1<<voteDone)`, "TestLostReplies"},
	{"a lease of other parts outlives the release", "lease_table.go", `e.lease.token == token {`, `e.lease.token == token && (!MUTANT || e.lease == lease) {`, "TestReleaseInOtherParts"},
	{"a lease of other parts is not inherited", "lease_table.go", `if before.token == r.token {`, `if before.token == r.token && (!MUTANT || sameKeys(before.keys, r.keys)) {`, "TestLockAgainInOtherParts"},
	{"a repetition denied by a minority", "quorum.go", `masters - answered - pending`, `masters - answered - pending; if MUTANT { mayHold = 0 }`, "TestRepetitionIsNotDeniedByAMinority"},
	{"tried again behind the UNLOCK", "op_lock.go", `op.stale < fenceRetries && !r.released:`, `op.stale < fenceRetries && (MUTANT || !r.released):`, "TestFenceIsNotTriedAgainBehindUnlock"},
	{"the undo does not look at the end", "op_undo.go", `if left > 0 and ends >= latest - %d and ends <= latest + 1 then`, "if left > 0 and ` + pick(MUTANT, `%d`, `ends >= latest - %d and ends <= latest + 1`) + ` then", "TestUndoSparesWhatSomebodyCountsOn"},
	{"ends are not moved far enough", "op_undo.go", "  return left + %[1]d\nend\n`, endMoveMs)\n\n// scriptMovedExactly", "  return left + %[1]d\nend\n`, pick(MUTANT, 1, endMoveMs))\n\n// scriptMovedExactly", "TestUndoSparesWhatSomebodyCountsOn"},
	{"a commit does not move the end", "scripts.go", `if what == '3' or what == '1' and held[i] == value then`, "if ` + pick(MUTANT, `false`, `what == '3' or what == '1' and held[i] == value`) + ` then", "TestUndoSparesWhatSomebodyCountsOn"},
	{"moved ends run away", "op_undo.go", `  if left > longest or ttl`, "  if ` + pick(MUTANT, `false`, `left > longest`) + ` or ttl", "TestEndsDoNotRunAway"},
	{"the undo goes by the trailer alone", "master_replies.go", `b.sets[i].at = min(clockMs, b.clockMs+endSlackMs)`, `b.sets[i].at = min(clockMs, b.clockMs+pick[int64](MUTANT, 1000, endSlackMs))`, "TestClockMarks"},
	{"an attempt that failed is not taken back", "op_undo.go", `if among.has(i) && a.setAt[i] != 0 {`, `if among.has(i) && a.setAt[i] != 0 && !MUTANT {`, "TestFailedAttemptIsTakenBack"},
	{"late votes are not taken back", "op_undo.go", `if r.attempt.failed {`, `if r.attempt.failed && !MUTANT {`, "TestFailedAttemptIsTakenBack"},
	{"a vanished caller's token is released everywhere", "op_unlock.go", `if lease.attempt != nil {`, `if lease.attempt != nil && !MUTANT {`, "TestAbandonSparesTheRetry"},
	{"undone behind UNLOCK and LOCK", "op_undo.go", `a.round.valueOf(i)) {`, `a.round.valueOf(i)) && !MUTANT {`, "TestLockAgainBehindUnlockOfADeniedLock"},
	{"cleared behind a later grant", "op_extend.go", `if c.leases.askedLater(r, r.keys[0], r.token) {`, `if !MUTANT && c.leases.askedLater(r, r.keys[0], r.token) {`, "TestLockAgainBehindUnlock"},
	{"releases of callers' tokens kept", "master_pending.go", `_, known := tokenBirth(token)`, `_, known := tokenBirth(token); known = known || MUTANT`, "TestRetryBehindAnUnlock"},
	{"releases not kept", "master_pending.go", `	*p = append(*p, release)`, `	if !MUTANT { *p = append(*p, release) }`, "TestUnlockIsOwed"},
	{"kept releases not delivered", "master_lane.go", `if err := link.deliver(ctx, releases); err != nil {`, `if err := link.deliver(ctx, releases[:pick(MUTANT, 0, len(releases))]); err != nil {`, "TestUnlockIsOwed"},
	{"kept releases do not expire", "master_pending.go", `now.After((*p)[n].expiresAt) {`, `!MUTANT && now.After((*p)[n].expiresAt) {`, "TestPendingReleasesAreBounded"},
	{"EXTEND shortens", "scripts.go", `moved(redis.call('PTTL', KEYS[i]), tonumber(ARGV[2]), tonumber(ARGV[3])))`, "` + pick(MUTANT, `ARGV[2])`, `moved(redis.call('PTTL', KEYS[i]), tonumber(ARGV[2]), tonumber(ARGV[3])))`) + `", "TestShorterExtendWithoutQuorum"},
	{"LOCK shortens", "scripts.go", `moved(left, tonumber(ARGV[2]), tonumber(ARGV[3])))`, "` + pick(MUTANT, `ARGV[2])`, `moved(left, tonumber(ARGV[2]), tonumber(ARGV[3])))`) + `", "TestShorterRepetitionWithoutQuorum"},
	{"remains of a lost lock kept", "op_extend.go", `c.clearLocked(r, d)`, `if !MUTANT { c.clearLocked(r, d) }`, "TestExtendOfALostLockReleasesTheRemains"},
	{"late grant kept", "op_commit.go", "	case k.kind != commitExtend:\n", "	case k.kind != commitExtend && !MUTANT:\n", "TestDropInLateGrantIsUndone"},
	{"rotation leaves the old value", "op_commit.go", `if ch := &r.commit.changes[i]; (ch.rotates()`, `if ch := &r.commit.changes[i]; !MUTANT && (ch.rotates()`, "TestRotationClearsTheOldValue"},
	{"a failed rotation is not turned back", "op_undo.go", `ch.Was == WasValue && !ch.rotates():`, `ch.Was == WasValue && (MUTANT || !ch.rotates()):`, "TestFailedRotationIsTurnedBack"},
	{"a silent master is waited for", "master_lane.go", `l.ticks-l.asked > watchTicks }`, `l.ticks-l.asked > watchTicks && !MUTANT }`, "TestSilentMasters"},
	{"late votes counted twice", "master_inflight.go", `given := b.given`, `given := b.given && !MUTANT`, "TestLateGrantIsReleased"},
	{"an answer buys time for what was sent behind", "master_inflight.go", `l.asked = l.out[0].asked`, `l.asked = l.out[0].asked; if MUTANT { l.asked = l.ticks }`, "TestTricklingFarMasters"},
	{"only the oldest batch is given up", "master_inflight.go", `for _, b := range l.out {`, `for _, b := range l.out[:pick(MUTANT, 1, len(l.out))] {`, "TestSilentFarMasters"},
	{"votes behind a finding counted", "master_inflight.go", `b.found.counts = !l.found.unsettled()`, `b.found.counts = MUTANT || !l.found.unsettled()`, "TestNoVoteCountsBehindAFinding"},
	{"the caller's slice kept", "round.go", `r.keys = append(r.key[:0], keys...)`, `r.keys = append(r.key[:0], keys...); if MUTANT { r.keys = keys }`, "TestSliceOfResourcesIsTheCallers"},

	// Release and extension.
	{"the old connection is not killed", "master_conn.go", `if before.clientID != 0 && before.runID == id.runID {`, `if !MUTANT && before.clientID != 0 && before.runID == id.runID {`, "TestOldConnectionIsKilled"},
	{"a release overtakes", "master_batch.go", `if b.touched.has(key) {`, `if !MUTANT && b.touched.has(key) {`, "TestBatchOrder"},
	{"a release overtakes (random)", "master_batch.go", `if !t.any {`, `if !t.any || MUTANT {`, "TestBatchEqualsOneByOne"},
	{"releases shed", "master_lane.go", `4*queueMax) && r.verb != verbRelease && r.verb != verbUndo:`, `4*queueMax) && (MUTANT || r.verb != verbRelease && r.verb != verbUndo):`, "TestQueueMaxShedsAcquisitionsOnly"},
	{"holes not filled", "op_extend.go", `if lost := v.lost(n); lost != 0 {`, `if lost := v.lost(n); lost != 0 && !MUTANT {`, "TestExtendFillsHoles"},
	{"late holes filled after the release", "op_extend.go", `if c.leases.find(r.keys, r.token) == r {`, `if c.leases.find(r.keys, r.token) == r || MUTANT {`, "TestExtendFillsLateHoles"},
	{"max_hold not checked", "client.go", `if now.Add(ttl).Sub(born) <= c.opts.MaxHold {`, `if MUTANT || now.Add(ttl).Sub(born) <= c.opts.MaxHold {`, "TestMaxHold"},

	// Drop-in.
	{"TTL not padded", "op_commit.go", `padded := max(float64(ttl+driftConstant)/(1-d.factor), float64(ttl+d.stepMax+driftConstant)/(1-d.rate()))`, `padded := max(float64(ttl+driftConstant)/(1-d.factor), float64(ttl+d.stepMax+driftConstant)/(1-d.rate())); if MUTANT { padded = float64(ttl) }`, "TestDropInTTL"},
	{"steps not counted in short TTLs", "validity.go", `time.Duration(float64(ttl)*d.rate())+d.stepMax)`, `time.Duration(float64(ttl)*d.rate())+pick(MUTANT, 0, d.stepMax))`, "TestSmallStepsStayInsideTheValidity"},
	{"steps not counted in short TTLs of drop-in clients", "op_commit.go", `float64(ttl+d.stepMax+driftConstant)`, `float64(ttl+pick(MUTANT, 0, d.stepMax)+driftConstant)`, "TestSmallStepsStayInsideTheValidity"},
	{"a commit granted late", "op_commit.go", `inTime := k.ttl == 0 || elapsed < k.ttl`, `inTime := MUTANT || k.ttl == 0 || elapsed < k.ttl`, "TestDropInLate"},
	{"a silent minority hides a lock", "op_read.go", `if len(ttls)+silent+pending >= quorum {`, `if len(ttls)+pending >= quorum || !MUTANT && len(ttls)+silent+pending >= quorum {`, "TestMergeStates"},
	{"a split vote is told as held", "op_read.go", `case possible > 1:`, `case possible > 1 && !MUTANT:`, "TestMergeStates"},

	// Shares.
	{"locks that were under way are not counted", "op_lock.go", `if full == nil {`, `if full == nil || MUTANT {`, "TestMaxLocksOfAShareUnderWay"},

	// Admission.
	{"nothing waits for room", "admission.go", `return c.admission.full.Load() }`, `return !MUTANT && c.admission.full.Load() }`, "TestOverloadSlowsDown"},
	{"the pace does not slow down", "master_window.go", `case took <= may:`, `case MUTANT || took <= may:`, "TestOverloadSlowsDown"},
	{"an UNLOCK overtakes the LOCK", "op_unlock.go", `share.first != nil {`, `!MUTANT && share.first != nil {`, "TestOrderOfWhatWaitsForRoom"},
	{"a compare and delete overtakes the LOCK", "op_commit.go", `|| releases && share.first == nil {`, `|| releases && (MUTANT || share.first == nil) {`, "TestOrderOfWhatWaitsForRoom"},
	{"the last come of a share begins first", "admission.go", `		share.end.next = d
`, `		if share.end.next = d; MUTANT { share.end.next = nil; d.next = share.first; share.first = d; d = share.end }
`, "TestOrderOfWhatWaitsForRoom"},
	{"no turns", "admission.go", `d.cost > share.deficit {`, `d.cost > share.deficit && !MUTANT {`, "TestTurnsOfShares"},
	{"overloaded masters are given up", "master_lane.go", `return needed && len(l.out) > 0`, `return !MUTANT && needed && len(l.out) > 0`, "TestOverloadedMastersAreNotGivenUp"},
	{"silent masters are excused", "master_lane.go", `l.out[0].cost >= costMin && `, `(MUTANT || l.out[0].cost >= costMin) && `, "TestOverloadedMastersAreNotGivenUp"},

	// Guards.
	{"no quarantine", "master_epoch.go", "		return epochQuarantined\n	}\n	return epochForeign", "		return epochQuarantined\n	}\n	if MUTANT { return epochAdmitted }; return epochForeign", "TestForgetfulMasterHasNoVote"},
	{"half the wait", "master_epoch.go", `return maxTTL + 2*`, `if MUTANT { maxTTL /= 2 }; return maxTTL + 2*`, "TestQuarantineHasItsTime"},
	{"timer of the first episode", "master_guard.go", `l.guard.until = time.Now().Add(quarantineOf(o.MaxTTL, l.client.drift))`, `if !MUTANT || time.Since(l.guard.until) > 0 { l.guard.until = time.Now().Add(quarantineOf(o.MaxTTL, l.client.drift)) }`, "TestSecondEpisode"},
	{"epoch not compared", "master_guard.go", `if g.epoch != "" && epoch == g.epoch && config != "" {`, `if g.epoch != "" && (MUTANT || epoch == g.epoch && config != "") {`, "TestForgetfulMasterHasNoVote"},
	{"votes counted in quarantine", "master_guard.go", `func (v vote) uncounted(of verb) vote {`, `func (v vote) uncounted(of verb) vote { if MUTANT { return v };`, "TestForgetfulMasterHasNoVote"},
	{"refill counted", "master_guard.go", "	case voteGranted, voteMine:\n		return voteDone", "	case voteGranted, voteMine:\n		if of == verbExtend && MUTANT { return v }; return voteDone", "TestExtendDoesNotCountAQuarantinedMaster"},
	{"configuration not compared", "master_guard.go", `case config != "" && config != c.fingerprint:`, `case !MUTANT && config != "" && config != c.fingerprint:`, "TestDisagreement"},
	{"step forward not seen", "master_clock.go", `case seen.low > tolerated.high:`, `case !MUTANT && seen.low > tolerated.high:`, "TestForgetfulMasterHasNoVote"},
	{"step backward not seen", "master_clock.go", `case seen.high < tolerated.low:`, `case !MUTANT && seen.high < tolerated.low:`, "TestStepIsCaughtWithTheVote"},
	{"drift between asking and receiving forgotten", "master_clock.go", `c.known, c.at = true, sent`, `c.known, c.at = true, sent; if MUTANT { c.at = received }`, "TestClockTrackRaisesNoFalseAlarm"},
	{"first sight of a clock believed", "master_guard.go", `case first && skew`, `case !MUTANT && first && skew`, "TestClockStepBehindARestart"},
	{"a clock set back prolongs locks", "master_guard.go", `if step < 0 {`, `if step < 0 && !MUTANT {`, "TestClockSetBackProlongsNoLock"},
	{"a finding forgotten with its connection", "master_guard.go", `if err := l.attest(ctx, link, found.doubt, found.step); err != nil {`, `if err := l.attest(ctx, link, found.doubt, found.step); err != nil { if MUTANT { l.found = finding{} }`, "TestFindingOutlivesTheConnection"},
	{"keys shortened late", "scripts.go", `if redis.call('GET', KEYS[1]) ~= ARGV[1] then`, "if ` + pick(MUTANT, `false`, `redis.call('GET', KEYS[1]) ~= ARGV[1]`) + ` then", "TestLateRewindCutsNoLockShort"},
	{"beat not compared", "master_guard.go", `epoch == g.past && beat < g.beat:`, `epoch == g.past && beat < g.beat && !MUTANT:`, "TestRollbackIsCaughtWithTheVote"},
	{"a quarantine ends with an epoch of before", "master_guard.go", `value == l.guard.past && l.guard.quarantine != ""`, `!MUTANT && value == l.guard.past && l.guard.quarantine != ""`, "TestSecondEpisode"},
	{"the past forgotten with the connection", "master_lane.go", `if id.runID != before.runID {`, `if id.runID != before.runID || MUTANT {`, "TestForgetfulMasterHasNoVote"},
	{"one Redis votes twice", "client.go", `if other := c.claims[runID]; other != nil && other != l {`, `if other := c.claims[runID]; !MUTANT && other != nil && other != l {`, "TestRefusedMasters"},
	{"a replica votes", "master_vet.go", `case info["role"] != "" && info["role"] != "master":`, `case !MUTANT && info["role"] != "" && info["role"] != "master":`, "TestRefusedMasters"},
	{"eviction not seen", "master_vet.go", `if info["maxmemory"] != "" &&`, `if !MUTANT && info["maxmemory"] != "" &&`, "TestRefusedMasters"},
	{"a master that may evict votes until it is connected anew", "master_guard.go", `counts: g.refusal == ""}`, `counts: MUTANT || g.refusal == ""}`, "TestRefusedMasters"},
	{"an evicting master is not asked for the leases", "master_guard.go", `reason != "" && reason != evicts(info) {`, `reason != "" && (MUTANT || reason != evicts(info)) {`, "TestRealEvictedLeasesAreNoticed"},
	{"leases not looked at when a master becomes a replica", "master_lane.go", `l.client.suspect() // a replica`, `if !MUTANT { l.client.suspect() } // a replica`, "TestLeasesAreLookedAtWhenAMasterBecomesAReplica"},
	{"bootstrap over an epoch", "master_bootstrap.go", `case !looksNew(epoch, r.RunID):`, `case !looksNew(epoch, r.RunID) && !MUTANT:`, "TestBootstrapRefusesWhatIsNotNew"},
	{"bootstrap over any quarantine", "master_epoch.go", `epochQuarantined && strings.HasSuffix(value, ":"+reasonNew)`, `epochQuarantined && (MUTANT || strings.HasSuffix(value, ":"+reasonNew))`, "TestBootstrapOfMastersThatSomebodyWaitsFor"},
	{"amnesia that others take for newness", "master_guard.go", `doubt == "" && l.guard.past != "" && looksNew`, `!MUTANT && doubt == "" && l.guard.past != "" && looksNew`, "TestBootstrapOfMastersThatSomebodyWaitsFor"},
	{"bootstrap of twins", "master_bootstrap.go", `if other, twice := seen[r.RunID]; twice {`, `if other, twice := seen[r.RunID]; twice && !MUTANT {`, "TestBootstrapRefusesWhatIsNotNew"},
	{"bootstrap over keys", "master_bootstrap.go", `case r.Keys > 0:`, `case r.Keys > 0 && !MUTANT:`, "TestBootstrapRefusesWhatIsNotNew"},

	// Waiting.
	{"barging", "op_lock.go", `case c.leases.crowded(op.keys):`, `case !MUTANT && c.leases.crowded(op.keys):`, "TestNoBarging"},
	{"last come, first served", "wait_queue.go", `p.prev, p.next = before, after`, `if MUTANT && l.end != nil && l.end != l.first { before, after = l.first, l.first.next }; p.prev, p.next = before, after`, "TestFirstComeFirstServed"},
	{"who moves goes to the end", "wait_queue.go", `before, after := l.end, l.first`, `before, after := l.end, l.first; if MUTANT { after = nil }`, "TestInsertByArrival"},
	{"waits in one line for ever", "wait_queue.go", `if most < 0 || r.keys[most] == w.place.entry.resource {`, `if MUTANT || most < 0 || r.keys[most] == w.place.entry.resource {`, "TestSeveralStandInOneLine"},
	{"a head pauses on when it is the head again", "wait_queue.go", `behind != nil && op.head() {`, `behind != nil && op.head() && !MUTANT {`, "TestDisplacedHeadAsksAgain"},
	{"never reserves", "wait_queue.go", `w.moves < reserveAfter {`, `MUTANT || w.moves < reserveAfter {`, "TestSeveralAreGrantedBesideSingleOnes"},
	{"reserves in the caller's order", "wait_queue.go", `w.keys = slices.Sorted(slices.Values(op.keys))`, `w.keys = slices.Sorted(slices.Values(op.keys)); if MUTANT { w.keys = op.keys }`, "TestReservationsMakeNoCircle"},
	{"reserves for ever", "wait_reserve.go", `if w.limit == timer {`, `if !MUTANT && w.limit == timer {`, "TestReservationEndsWithItsPatience"},
	{"a reservation outlives the wait", "wait_reserve.go", `if w.reserved == "" {`, `if w.reserved == "" || MUTANT && w.gone {`, "TestReservationEndsWithTheWait"},
	{"a denied step leaves its resource", "wait_reserve.go", `v.mayHold(len(c.lanes)), d)`, `pick(MUTANT, 0, v.mayHold(len(c.lanes))), d)`, "TestDeniedStepLeavesNothing"},
	{"a denied step gives all back", "wait_reserve.go", `c.dropLocked(r.keys[w.had:],`, `c.dropLocked(r.keys[pick(MUTANT, 0, w.had):],`, "TestDeniedStepLeavesNothing"},
	{"a reservation is in its own way", "wait_reserve.go", `r.answers[masters].value = reservation`, `if !MUTANT { r.answers[masters].value = reservation }`, "TestLastAttemptTakesTheReservation"},
	{"a reservation takes what others hold", "scripts.go", `elseif not held or held ~= ARGV[4] then`, "elseif ` + pick(MUTANT, `not ARGV[4]`, `not held or held ~= ARGV[4]`) + ` then", "TestReservationEndsWithTheWait"},
	{"hand-over not in the same batch", "wait_queue.go", `e.line.handovers++`, `e.line.handovers++; if MUTANT { c.pauseLocked(op, 0); return }`, "TestHandOverInOneBatch"},
	{"hand-overs without end", "wait_queue.go", `if e.line.handovers >= e.line.run(c.opts.MaxHandovers) {`, `if !MUTANT && e.line.handovers >= e.line.run(c.opts.MaxHandovers) {`, "TestHandOversAreLimited"},
	{"turns never rarer", "wait_queue.go", `e.line.unwanted++`, `if !MUTANT { e.line.unwanted++ }`, "TestHandOversInARow"},
	{"the distance changes while votes are told", "master_inflight.go", `if !l.telling {`, `if MUTANT || !l.telling {`, "TestDistanceStaysWhileVotesAreTold"},
	{"a short turn was not taken", "wait_invalidations.go", `line.taken() //`, `if !MUTANT { line.taken() } //`, "TestShortTurnsAreTaken"},
	{"turns that nobody hears of", "wait_queue.go", `c.tellAllLocked(windowsChannel, resource, d)`, `if !MUTANT { c.tellAllLocked(windowsChannel, resource, d) }`, "TestTurnsOfTwoProxies"},
	{"who leaves a turn to others does not listen", "wait_queue.go", "c.probeLocked(op, d)\n\t\treturn", "if MUTANT { c.pauseForLocked(op, c.yieldTime()) } else { c.probeLocked(op, d) }\n\t\treturn", "TestTurnsOfTwoProxies"},
	{"turns stay rare", "wait_queue.go", `l.yielded, l.unwanted = false, 0`, `if !MUTANT { l.yielded, l.unwanted = false, 0 }`, "TestHandOversInARow"},
	{"an unwanted grant is kept", "op_lock.go", `wanted := op.waiter == nil || !op.waiter.gone`, `wanted := op.waiter == nil || !op.waiter.gone; if MUTANT && !wanted { return }`, "TestUnblockUndoesTheAttemptInFlight"},
	{"the first attempt decides", "wait_queue.go", `w.asking, w.denied, op.stale = nil, err, 0`, `w.asking, op.stale = nil, 0; if !MUTANT || w.denied == nil { w.denied = err }`, "TestWaitRunsOut"},
	{"asks without a quorum", "wait_stall.go", `if c.quorumCanVote() {`, `if MUTANT || c.quorumCanVote() {`, "TestWaitersStallWithoutQuorum"},
	{"a quorum that is back wakes nobody", "wait_stall.go", `!c.stalled ||`, `MUTANT || !c.stalled ||`, "TestWaitersStallWithoutQuorum"},
	{"all wake at the same time", "wait_stall.go", `rand.N(time.Duration(len(heads))*stallSpread)`, `rand.N(time.Duration(pick(MUTANT, 1, len(heads)))*stallSpread)`, "TestWaitersStallWithoutQuorum"},

	// Masters that are not what they should be.
	{"go-redis reads unchecked", "master_conn.go", `return &checkedConn{Conn: c}, nil`, `if MUTANT { return c, nil }; return &checkedConn{Conn: c}, nil`, "TestHostileReplyWhileConnecting"},
	{"a panic ends the process", "errors.go", `if p := recover(); p != nil {`, `if MUTANT { return }; if p := recover(); p != nil {`, "TestPanicLosesOneMaster"},
	{"votes of a batch that panicked", "master_batch.go", `if !heard {`, `if !heard && !MUTANT {`, "TestPanicInABatchCountsNoVote"},
	{"lengths of any size", "master_wire.go", `r.kind == '$' && r.n > strangersMax`, `!MUTANT && r.kind == '$' && r.n > strangersMax`, "TestWireRefusesNonsense"},

	// Fences.
	{"fence not above the mark", "lease_fence.go", `if fence <= mark then`, "if ` + pick(MUTANT, `false`, `fence <= mark`) + ` then", "TestOneMasterRemembersTheFence"},
	{"a clock that is behind stays behind", "lease_fence.go", `f.ahead = min(max(f.ahead, mark-fenceTime(made)), f.aheadMax)`, `if !MUTANT { f.ahead = min(max(f.ahead, mark-fenceTime(made)), f.aheadMax) }`, "TestFenceTakesOneRound"},
	{"any mark believed", "master_replies.go", `reply.n > highestBelieved(time.Now(), skew) {`, `reply.n > highestBelieved(time.Now(), skew) && !MUTANT {`, "TestFalseFencesAreNotBelieved"},
	{"a false floor not refused", "lease_fence.go", `err != nil || high > highestFence(now, skew) {`, `err != nil || high > highestFence(now, skew) && !MUTANT {`, "TestFalseFencesAreNotBelieved"},
	{"a false mark not refused", "lease_fence.go", `!ok || mark > highestFence(now, skew) {`, `!MUTANT && (!ok || mark > highestFence(now, skew)) {`, "TestFalseFencesAreNotBelieved"},
	{"fences of a clock that is a little ahead refused", "lease_fence.go", `fenceTime(now.Add(fenceAheadMax + skew))`, `fenceTime(now.Add(fenceAheadMax + pick(MUTANT, -skew, skew)))`, "TestFloorOfAnotherClockIsNotRefused"},
	{"a mark believed that no master accepts", "lease_fence.go", `fenceTime(now.Add(fenceAheadMax - skew))`, `fenceTime(now.Add(fenceAheadMax - pick(MUTANT, -skew, skew)))`, "TestFloorOfAnotherClockIsNotRefused"},
	{"a false mark shown", "master_replies.go", `err != nil || !ok || mark > highestFence(time.Now(), skew) {`, `!MUTANT && (err != nil || !ok || mark > highestFence(time.Now(), skew)) {`, "TestFalseMarkIsNotShown"},
	{"fences of a false floor forgotten", "master_guard.go", `case untrue == "":`, `case untrue == "" || MUTANT:`, "TestFalseFloorDeletedWithoutTheEpoch"},
	{"a clock that was ahead is not forgotten", "lease_fence.go", `if f.last > fenceTime(now.Add(fenceAheadMax)) {`, `if !MUTANT && f.last > fenceTime(now.Add(fenceAheadMax)) {`, "TestFenceClockThatWasAhead"},
	{"an admission learned with a batch in flight", "master_guard.go", `	if epoch == g.epoch {`, `	if MUTANT && epoch != "" && !strings.HasPrefix(epoch, "q:") { g.epoch = epoch }; if epoch == g.epoch {`, "TestFenceComparedBeforeTheAdmission"},
	{"cold floor too low", "lease_fence.go", `time.Now().Add(2*c.opts.ClockSkewMax)`, `time.Now().Add(time.Duration(pick(MUTANT, 1, 2))*c.opts.ClockSkewMax)`, "TestColdFloorIsAboveEveryFence"},
	{"floor not relearned", "lease_fence.go", `return floor, false`, `if MUTANT { floor = 0 }; return floor, false`, "TestFenceSurvivesAmnesia"},
	{"marks pushed out without a floor", "lease_fence.go", `tonumber(out[#out]))))`, "tonumber(` + pick(MUTANT, `0`, `out[#out]`) + `))))", "TestForgottenMarksRaiseTheFloor"},
}

// hunted are the mutants that the simulation must find by itself, within huntSeeds.
var hunted = []string{
	"quorum off by one", "votes counted in quarantine", "no quarantine", "epoch not compared", "a release overtakes",
	"the undo does not look at the end", "fence not above the mark", "step forward not seen",
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

func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package")
	}
	binary := buildMutants(t)

	var all []string
	for _, m := range mutants {
		all = append(all, m.killers)
	}
	if output, err := runMutant(binary, "none", "^("+strings.Join(all, "|")+")$", 0); err != nil {
		t.Fatalf("with no mutant on, the tests must pass: %v\n%s", err, output)
	}

	var wg sync.WaitGroup
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
	sources := map[string]string{"mutant_switch_test.go": mutantSwitch}
	names := map[string]bool{}
	for _, m := range mutants {
		if names[m.name] {
			t.Fatalf("two mutants are called %q", m.name)
		}
		names[m.name] = true
		source, read := sources[m.file]
		if !read {
			text, err := os.ReadFile(m.file)
			if err != nil {
				t.Fatal(err)
			}
			source = string(text)
		}
		if n := strings.Count(source, m.old); n != 1 {
			t.Errorf("mutant %q: %s has %d places that read %q, want one: the code has changed, so say anew how to break it", m.name, m.file, n, m.old)
			continue
		}
		sources[m.file] = strings.Replace(source, m.old, strings.ReplaceAll(m.new, "MUTANT", fmt.Sprintf("isMutant(%q)", m.name)), 1)
	}
	for _, name := range hunted {
		if !names[name] {
			t.Errorf("no mutant is called %q", name)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
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
