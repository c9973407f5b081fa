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
	// Follower is the name of this client's notes (member/follower.go). FollowAnew has it take another one.
	Follower() string
	FollowAnew()
	// FollowedAt is when it last began to note on a quorum of the voters that it goes by the record in force;
	// zero: it has not done so under that record.
	FollowedAt() time.Time
	// TTLs are the longest that operations here wait for to be allowed, 0 for none, and the longest that was
	// asked for within so long.
	TTLs(within time.Duration) (wanted, inUse time.Duration)
	// WantedBy says, for people, who asks for more than may run; "": nobody does.
	WantedBy() string
	// OutOfStep says why a voter's clock keeps its votes from counting here for longer than a copy to it
	// would take, while a quorum of the others count; "": it does not.
	OutOfStep(place int) string
}
