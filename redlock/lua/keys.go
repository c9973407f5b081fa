package lua

// ReservedPrefix begins the names of the keys that redlockd keeps for itself on the masters.
const ReservedPrefix = "redlockd:"

// The keys that redlockd keeps.
const (
	MembersKey = ReservedPrefix + "members" // hash: what the master shows of the membership, and remembers for others
	MarksKey   = ReservedPrefix + "marks"   // sorted set: resource → the highest fence that was accepted
	FloorKey   = ReservedPrefix + "floor"   // the fence above which those are that MarksKey has forgotten
)

// EndMoveMs is by how much the end of a key is moved, in milliseconds, so that the undo of an attempt
// does not take it for the end that the attempt made.
const EndMoveMs = 8

// MaxResourceLen and MaxValueLen bound the names of locks and their values, in bytes.
const (
	MaxResourceLen = 1024
	MaxValueLen    = 16 << 10
)
