package coordinator

import (
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/member"
	"redlockd/redlock/member/copying"
)

// Host is what the coordinator needs of the engine. The number of a seat is its place there.
type Host interface {
	copying.Host
	// Places are the masters in use.
	Places() map[int]conn.Master
	// Answering is how many of them answer in time.
	Answering() int
	// Adopt makes a record the one in force. Votes count by it from then on.
	Adopt(r *member.Record)
	// Recheck has all connections look at what their masters show.
	Recheck()
	// Confirm says which process was behind the address of a place, on a connection that was begun at that
	// time.
	Confirm(place int, runID string, at time.Time)
	// Unreached says why a new connection to the address of a place has found no process.
	Unreached(place int, why error)
	// OutOfStep says why a voter's clock keeps its votes from counting here for longer than a copy to it
	// would take, while a quorum of the others count; "": it does not.
	OutOfStep(place int) string
}
