package proxy

import (
	"slices"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock"
)

// Who holds a lock and who waits for it, as LOCKS, LOCKINFO and the status page show it.
//
// A confined user sees all of its own clients. Of a lock that another user holds on a resource that it
// may use, it sees what that user has written into the NOTE, with the names of client and user, because
// a NOTE is for others to read. It sees nothing of a holder that gave none, and of waiters of other
// users only their number.

// shownTo is a lease as the user may see it.
func shownTo(u *access.User, lease redlock.LeaseInfo) redlock.LeaseInfo {
	lease.Queue = queueShownTo(u, lease.Queue)
	switch n := lease.Note; {
	case n == nil || seesClient(u, n):
	case n.Text == "":
		lease.Note = nil
	default:
		lease.Note = &redlock.HolderNote{Text: n.Text, Client: n.Client, User: n.User}
	}
	return lease
}

// queueShownTo are the waiters that the user may see, in order.
func queueShownTo(u *access.User, queue []redlock.WaiterInfo) []redlock.WaiterInfo {
	return slices.DeleteFunc(slices.Clone(queue), func(w redlock.WaiterInfo) bool { return w.Note == nil || !seesClient(u, w.Note) })
}

// seesClient reports whether the user may see everything about a client: its own, or every one if it is
// not confined. A nil user is one where none are configured.
func seesClient(u *access.User, n *redlock.HolderNote) bool { return !u.Confined() || n.User == u.Name }

// holderFields say who holds a lease; nil: that is not known.
func holderFields(lease redlock.LeaseInfo) any {
	if lease.Note == nil {
		return nil
	}
	return append(noteFields(lease.Note), "since", lease.Since.Unix(), "held-ms", floorMs(time.Since(lease.Since)))
}

// queueFields are the first waiters, in order.
func queueFields(queue []redlock.WaiterInfo) array {
	shown := make(array, len(queue))
	for i, w := range queue {
		shown[i] = append(noteFields(w.Note), "waited-ms", floorMs(w.Waited), "mode", modeOf(true, w.Shared))
	}
	return shown
}

// noteFields say who a client is.
func noteFields(n *redlock.HolderNote) fields {
	return fields{"client", orNull(n.Client), "addr", orNull(n.Addr), "user", n.User, "note", orNull(n.Text)}
}
