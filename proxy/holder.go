package proxy

import "redlockd/redlock"

// Who holds a lock and who waits for it, as LOCKS and LOCKINFO show it.
//
// A confined user sees all of its own clients. Of a lock that another user holds on a resource that it
// may use, it sees what that user has written into the NOTE, with the names of client and user, because
// a NOTE is for others to read. It sees nothing of a holder that gave none, and of waiters of other users
// only their number.

// holderFields say who holds a lease; nil: that is not known, or not for this user.
func holderFields(lease *redlock.LeaseInfo, viewer *User) any {
	n := lease.Note
	if n == nil || n.Text == "" && !viewer.sees(n) {
		return nil
	}
	return append(noteFields(n, viewer), "since", lease.Since.Unix())
}

// queueFields are the first waiters, in order.
func queueFields(queue []redlock.WaiterInfo, viewer *User) array {
	shown := make(array, 0, len(queue))
	for _, w := range queue {
		if w.Note != nil && viewer.sees(w.Note) {
			shown = append(shown, append(noteFields(w.Note, viewer), "waited-ms", floorMs(w.Waited), "mode", modeOf(true, w.Shared)))
		}
	}
	return shown
}

// noteFields say who a client is. Another user's address is not for a confined user.
func noteFields(n *redlock.HolderNote, viewer *User) fields {
	var addr any
	if viewer.sees(n) {
		addr = n.Addr
	}
	return fields{"client", orNull(n.Client), "addr", addr, "user", n.User, "note", orNull(n.Text)}
}

// sees reports whether the user may see everything about a client: its own, or every one if it is not
// confined. A nil user is one where none are configured.
func (u *User) sees(n *redlock.HolderNote) bool { return !u.confined() || n.User == u.Name }
