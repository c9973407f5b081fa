package proxy

import (
	"maps"
	"runtime"
	"sync"
	"time"

	"redlockd/redlock/sandbox"
)

// A few scripts are run or compiled at a time. The others wait in rotation at two levels: users take
// turns, and within a user its connections do. So a user or a connection with thousands of scripts
// delays each of the others by one run. LOCK and its kin run no script, and never wait here.
//
// Rejected: one type for this and for semaphore.go. That one has a single level, and admits the last to
// come first, because a client whose handshake waited long has given up. Calls of scripts wait for a
// reply, so the first to come is served first.

// Bounds of what scripts take. A run of a lock script takes a few µs, and some hundred instructions.
const (
	runInstructions = 50_000
	runTime         = 20 * time.Millisecond
	// runBytesMax bounds the memory of all runs together: no more are made at a time than have room in
	// it, each with all that it may take.
	runBytesMax = 64 << 20
)

// runsMax is how many scripts run at the same time. If there are more processors than one, one is left
// to everything else.
func runsMax() int {
	return max(1, min(runtime.GOMAXPROCS(0)-1, runBytesMax/sandbox.DefaultLimits.Bytes))
}

// Bounds of what scripts publish.
const (
	// messagesMax and messageBytesMax bound the messages of one call.
	messagesMax     = 64
	messageBytesMax = 64 << 10
	// messageRate bounds the bytes per second of all calls of a user. A user may publish as many at once.
	messageRate = 1 << 20
	// messageOverhead is what each message counts beside its bytes.
	messageOverhead = 256
)

// scriptShares share out the runs. Its methods may be called from any goroutine.
type scriptShares struct {
	mu sync.Mutex
	// max is how many runs there may be at a time.
	max int
	// running is how many there are. A run that is passed on to a call that waits goes on counting.
	running int
	// users has those that had to wait for a run, or have published by a script.
	users map[*account]*scriptUser
	// waiting has the users with calls that wait, in order of turn; empty while running < max.
	waiting []*scriptUser
}

// scriptUser is the share of one user. There are no more of them than accounts, but for some that a
// reload has replaced while calls of theirs waited.
type scriptUser struct {
	// waiting has the connections with calls that wait, in the order of their turns.
	waiting []*scriptConn
	// connections has the same by number.
	connections map[int64]*scriptConn
	// messages is how many bytes could still be published at refilled.
	messages int64
	// refilled is when messages was computed. Zero: nothing was published yet.
	refilled time.Time
}

// scriptConn has the calls of one connection that wait, each for its channel to be closed.
type scriptConn struct {
	id    int64
	calls []chan struct{} // the first to come is the first
}

// newScriptShares allows max runs at a time.
func newScriptShares(max int) *scriptShares {
	return &scriptShares{max: max, users: make(map[*account]*scriptUser)}
}

// userLocked is the share of a user, made when the user first needs one.
func (sh *scriptShares) userLocked(u *account) *scriptUser {
	share := sh.users[u]
	if share == nil {
		share = &scriptUser{connections: make(map[int64]*scriptConn)}
		sh.users[u] = share
	}
	return share
}

// keepUsers forgets the users for whom keep returns false, unless calls of theirs wait.
func (sh *scriptShares) keepUsers(keep func(*account) bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	maps.DeleteFunc(sh.users, func(a *account, u *scriptUser) bool { return !keep(a) && len(u.waiting) == 0 })
}

// acquireRun waits until it is the turn of this connection of this user. The caller runs or compiles
// one script then, and calls releaseRun in any case. It may hold no mutex meanwhile: the wait can be as
// long as the runs of all other users together.
func (sh *scriptShares) acquireRun(u *account, connection int64) {
	sh.mu.Lock()
	if sh.running < sh.max {
		sh.running++
		sh.mu.Unlock()
		return
	}
	share := sh.userLocked(u)
	conn := share.connections[connection]
	if conn == nil {
		conn = &scriptConn{id: connection}
		share.connections[connection] = conn
		if share.waiting = append(share.waiting, conn); len(share.waiting) == 1 {
			sh.waiting = append(sh.waiting, share)
		}
	}
	turn := make(chan struct{})
	conn.calls = append(conn.calls, turn)
	sh.mu.Unlock()
	<-turn
}

// releaseRun ends what acquireRun has begun. The run passes to the first connection of the first user
// that waits, without becoming free in between, so that a later call cannot take it.
func (sh *scriptShares) releaseRun() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(sh.waiting) == 0 {
		sh.running--
		return
	}
	user := sh.waiting[0]
	sh.waiting = sh.waiting[1:]
	conn := user.waiting[0]
	user.waiting = user.waiting[1:]
	close(conn.calls[0])
	if conn.calls = conn.calls[1:]; len(conn.calls) > 0 {
		user.waiting = append(user.waiting, conn)
	} else {
		delete(user.connections, conn.id)
	}
	if len(user.waiting) > 0 {
		sh.waiting = append(sh.waiting, user)
	}
}

// chargeMessages takes n bytes from what the user may publish, or returns why it must not. The share
// fills up again with time.
func (sh *scriptShares) chargeMessages(u *account, n int, now time.Time) (refusal error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	share := sh.userLocked(u)
	since := now.Sub(share.refilled)
	if share.refilled.IsZero() || since > time.Second {
		since = time.Second
	}
	share.messages = min(share.messages+int64(since)*messageRate/int64(time.Second), messageRate)
	share.refilled = now
	if int64(n) > share.messages {
		return errorf("ERR the scripts of this user publish too much: at most %d bytes per second, with %d for each message. Nothing was changed: try again later",
			messageRate, messageOverhead)
	}
	share.messages -= int64(n)
	return nil
}
