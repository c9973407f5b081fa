package redlock

import "time"

// A caller that learns nothing of its operation tries again, maybe through another client, and goes on
// by what that one tells it. What it sent before may still be under way to the masters, and must not
// take back what it was told since. Most commands cannot: tokens that were made here are used up, and
// locks and extensions leave a later end alone. Two kinds can:
//
//   - A release of a value that was not made here. Its caller may lock with it again: a library that
//     signs all locks of a process with one value does so each time. What is released for nobody is
//     over, if it is a version.
//   - A commit that gives a key a new end, which may be nearer than the one before, or that deletes it, or
//     that sets a version: on masters that have stood still together, it would be a lock of nobody's.
//
// So these carry the time of the master's clock behind which they must not be executed.
//
// Invariant: when the vote of such a command is given up, MasterTimeout or more after it was sent, the
// master does not execute it any more, unless its clock was set back meanwhile. What is known of the
// clock may be wrong by a quarter of MasterTimeout, so the command has three quarters.

// mustBeTimely tells whether the round, a commit or a release, is one of these.
func (r *round) mustBeTimely() bool {
	if r.commit == nil {
		return !madeHere(r.token) && (r.op != nil || !isVersion(r.token)) //mutant:a-release-is-executed-late
	}
	for i := range r.commit.changes {
		if what := r.commit.changes[i].Do; what == Expire || what == Delete || isVersion(r.commit.changes[i].NewValue) { //mutant:a-commit-is-executed-late
			return true
		}
	}
	return false
}

// timely tells whether it has flagTimely.
func (r *round) timely() bool { return r.flags.Load()&flagTimely != 0 }

// lateReply is what a script returns for one number if it was executed too late. It has changed
// nothing.
const lateReply = -2

// latest adds for the round the time behind which the master must not execute it; 0: there is none.
func (b *batch) latest(r *round) {
	if r.timely() {
		b.wire.Number(b.latestMs())
	} else {
		b.wire.Bulk("0")
	}
}

// latestMs is that time for what is being encoded.
func (b *batch) latestMs() int64 {
	l := b.lane
	if ahead := time.Duration(l.guard.ahead.Load()); b.latestAt == 0 && ahead != 0 {
		b.latestAt = (l.fleet.own.At(time.Now()) + ahead + l.fleet.opts.MasterTimeout*3/4).Milliseconds()
	}
	return b.latestAt
}
