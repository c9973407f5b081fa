// Package copying is recovery by copying. A master that has forgotten is a learner, and waits until the
// longest lock must have ended, unless enough others remember: then it is given what it has to know, and
// votes in a moment.
//
//	start.go      when a copy can begin, and whether one that has ended makes a voter
//	pass.go       its goroutine: in which order keys are read, and what is decided about them
//	give.go       what the learner is given
//	ask.go        how masters are asked, and who is left out
//	copy.go       what a copy is
//	place.go      one master that takes part, and how its replies are judged
//	key.go        what becomes of one key
//	seen.go       the names that need not be read again
//	minority.go   what too few held to be a lock for certain
//	command.go    the scripts of a copy, and their replies
//
// What follows is why that is safe.
//
// A memory denies a lease as long as it holds the lease's key, or another value in its place that
// nobody releases, until the lease's validity is over.
//
// Invariant: of every lease that is valid, and every record that is no older than its last grant, fewer
// than a quorum of the voters do not deny it. So every quorum of voters contains one that denies it,
// and nobody else is granted it.
//
//   - At the grant a quorum of voters holds the key. With ℓ seats that have no vote, at most N - ℓ -
//     quorum of them do not: fewer than a quorum, and still so when all ℓ are promoted.
//   - A voter that forgets is listed anew, as a learner. The number does not grow.
//   - The copy begins under a record that lists the learner: its sources are a quorum of the voters of
//     that record, or more. Each is read only after it has shown that record, or a later one. Since
//     then no vote under an earlier one can count there. So of a lease that was granted earlier the
//     votes were cast before the reading began, and by the invariant all of the sources but fewer than
//     a quorum deny it. Its key stands there from then on, because an extension only lengthens it: SCAN
//     names it, every reading shows it, and the learner denies it when it is promoted.
//   - A source that fails is left out, as long as a quorum of voters is left. What was decided with it
//     stays: a key that too few of the sources held then is not that of a lease, and never becomes that of
//     one that was granted earlier.
//   - Of a lease that is granted under that record or a later one, while the learner has no vote, the
//     first argument holds.
//   - EXTEND is a grant in all this.
//
// It takes for granted what every vote does: a source forgets nothing while it shows the listed memory,
// and its clock is good, which this client can tell (Host.Source): at the beginning, with every reply, and
// when the promotion is proposed. A memory has a name that is used once: what a source shows then
// (StillGood) tells of all the time before. Fences are relearned as after the wait (coordinator.raiseFloors).
//
// The clock of the learner is read before, too, and with every reply. So this client can vouch for it
// from the copy on, whatever it did before (Host.Copied).
//
// The learner gets every command meanwhile. What is released while it is copied may come too late to
// it: so at the end all that it holds is compared with the sources once more, which also removes what
// it remembers of an earlier time. None of that is needed for safety: it keeps others out.
//
// Who copies? Every redlockd may, also at the same time; a note on the learner has the others wait
// (lua.CopyNote). Nothing of it outlives the process that copies: another one starts anew.
//
// testdata/tla/Copy.tla is the model.
package copying
