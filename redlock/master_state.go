package redlock

// laneState says what a lane does with its connection.
//
//	          ┌───────────> connecting ── client closed ──> closed
//	          │                 │
//	          │                 │ vetted, kept releases delivered
//	          │                 v            batch taken            written
//	          │    ┌────────> idle ─────────────────────> sending ──────────> waiting
//	all votes │    │          │   ^                         ^                   │ │
//	delivered │    │ done     │   │                         └── next batch, ────┘ │
//	          │    │          │   │                             far master only   │
//	          │    │          │   └────────────────────────── all answered ───────┘
//	          │    │          │ heartbeat or recheck due
//	          │    └───── maintaining
//	          │
//	          │    timed out <── no answer within MasterTimeout ── sending, waiting, maintaining
//	          │      │    └───── answered late, maintained ──> idle
//	          │      v
//	        broken <── connection failed ── idle, sending, waiting, maintaining, timed out
//
// In idle, sending, waiting and maintaining the lane takes work: rounds.launch puts rounds into its
// queue. In the other states its master abstains, and releases are kept for it (master_pending.go).
//
// Three things are not part of the state, because they change beside it:
//   - What the guard knows of the master (master_guard.go): whether votes count. It outlives the
//     connection, and a quarantined master gets every command.
//   - inflight.pipelined and inflight.delivering: a second goroutine reads the replies of a far master
//     and delivers its votes while the first one sends.
//   - heartbeatDue: a request that waits until the lane is idle.
type laneState uint8

const (
	// laneConnecting: there is no vetted connection. It is being made, or the pause before the next
	// attempt runs.
	laneConnecting laneState = iota
	// laneIdle: nothing is in flight.
	laneIdle
	// laneSending: the lane's goroutine writes a batch. With a far master, others may be in flight.
	laneSending
	// laneWaiting: at least one batch is in flight, and all of it is written.
	laneWaiting
	// laneMaintaining: maintain has the connection, and nothing is in flight.
	laneMaintaining
	// laneTimedOut: the master has not answered within MasterTimeout. The connection stands, and the
	// answer may still come.
	laneTimedOut
	// laneBroken: the connection is of no more use. Batches that were in flight are still being delivered,
	// without votes.
	laneBroken
	// laneClosed: the client has closed. Nothing follows.
	laneClosed

	laneStates // how many there are
)

var laneStateNames = [laneStates]string{"connecting", "idle", "sending", "waiting", "maintaining", "timed out", "broken", "closed"}

func (s laneState) String() string { return laneStateNames[s] }

// takesWork tells whether a lane in this state has a vetted connection and a master that answers in
// time.
func (s laneState) takesWork() bool {
	switch s {
	case laneIdle, laneSending, laneWaiting, laneMaintaining:
		return true
	}
	return false
}

// laneTransitions are all changes of state, and what makes them. TestLaneTransitions walks every one.
var laneTransitions = [...]struct {
	from, to laneState
	why      string
}{
	{laneConnecting, laneIdle, "the connection is vetted, and the releases that were kept for the master are delivered"},
	{laneConnecting, laneClosed, "the client closed"},

	{laneIdle, laneSending, "the queue became a batch"},
	{laneSending, laneWaiting, "the batch is written"},
	{laneSending, laneIdle, "the reader of a far master had all answers before the write had returned"},
	{laneWaiting, laneSending, "another batch goes to a far master"},
	{laneWaiting, laneIdle, "the last batch in flight is answered"},
	{laneIdle, laneMaintaining, "a heartbeat is due, or the guard wants to look at the master"},
	{laneMaintaining, laneIdle, "the heartbeat is answered"},

	{laneSending, laneTimedOut, "the master does not take the batch, or has not answered an earlier one"},
	{laneWaiting, laneTimedOut, "the oldest batch is not answered within MasterTimeout"},
	{laneMaintaining, laneTimedOut, "the heartbeat is not answered within MasterTimeout"},
	{laneTimedOut, laneIdle, "the master has answered after all, and got its heartbeat and the releases that were kept for it"},

	{laneIdle, laneBroken, "the client closes"},
	{laneSending, laneBroken, "the reader of a far master found the connection broken"},
	{laneWaiting, laneBroken, "writing or reading a batch failed, or its trailer showed that the connection is of no use"},
	{laneMaintaining, laneBroken, "the heartbeat failed, or showed that the master is refused"},
	{laneTimedOut, laneBroken, "the master has not answered within ConnectTimeout either"},
	{laneBroken, laneConnecting, "the votes of all batches in flight are delivered"},
}

// allowedFrom is laneTransitions by state: the set of states that may follow.
var allowedFrom = func() (sets [laneStates]uint16) {
	for _, t := range laneTransitions {
		sets[t.from] |= 1 << t.to
	}
	return sets
}()
