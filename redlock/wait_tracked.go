package redlock

import "redlockd/redlock/quorum"

// Which masters will announce that a waiter's resource is free. The head of a queue may pause for long
// only while enough masters must announce a change before the resource can be free on a quorum:
//
//   - A master counts if, by the head's last observation, it holds the key, and has promised in the same
//     reply to announce the next change of it. A master that was silent, that promises nothing, or on
//     which the key is absent, does not.
//   - It counts no more when it has announced a change since the launch of that observation, or when the
//     connection broke on which it would announce one. A change that is announced before the reply counts
//     too: the key may have changed right after the master had read it.
//   - The key can be free on a quorum only where a quorum of masters does not count. So the head pauses
//     for long while more than N - quorum masters count, whatever the others do meanwhile: stop, go on,
//     restart. When no more than that are left, it asks.
//   - While so few count, it asks after each retry delay, and when a master announces a change that may
//     have held the key. Where the key was absent, a change says that somebody has tried to take it.
//   - A client's own changes are not announced to it (NOLOOP), and a master forgets its promise by any
//     change, also if the key stays: a lock is extended, a key is shortened (master_clamp.go). So they
//     count as announced when they are launched.
//
// testdata/tla/Wake.tla is the model.

// tracked is what the masters have promised to announce of one key. Client.mu guards it.
type tracked struct {
	// awaited are the masters that count, also if they have announced a change since. From the launch of
	// an observation until its answers are in, all do.
	awaited quorum.Mask
	// absent are the masters on which the key was absent.
	absent quorum.Mask
	// changed are the masters that have announced a change, or can announce none any more, since the last
	// observation was launched.
	changed quorum.Mask
}

// begin forgets what was known, because an observation is launched.
func (k *tracked) begin() { *k = tracked{awaited: quorum.All} }

// bound tells whether one of the masters must announce a change before the key can be free on a quorum.
func (k *tracked) bound(v *quorum.Electorate) bool {
	return (k.awaited &^ k.changed & v.Masters).Count() > v.Count-v.Quorum() //mutant:announcements-wake-nobody
}

// mayBeFree tells whether a master that may have held the key has announced a change, and the key may be
// free on a quorum now.
func (k *tracked) mayBeFree(v *quorum.Electorate) bool {
	return k.changed&^k.absent != 0 && !k.bound(v)
}

// change takes note that a master has announced a change, and tells whether the waiter is to ask.
func (k *tracked) change(master int, v *quorum.Electorate) (ask bool) {
	k.changed = k.changed.With(master)
	return !k.absent.Has(master) && !k.bound(v)
}
