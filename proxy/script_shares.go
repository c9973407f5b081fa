package proxy

import (
	"runtime"
	"sync"
	"time"

	"redlockd/redlock/sandbox"
)

// Scripts are run, and compiled, a few at a time. Who waits for it waits in turns: one call of each user, of a user one of each
// connection. So a user or a connection with thousands of scripts holds up others by one run. LOCK and its kin run no script and
// never wait here.

// Bounds of what scripts take. A run of a lock script takes some µs, and some hundred instructions.
const (
	runInstructions = 50_000
	runTime         = 20 * time.Millisecond
	// runBytesMax bounds the memory of all runs together: there are no more at a time than have room in it, each with all it may take.
	runBytesMax = 64 << 20
)

// runsMax is how many scripts run at the same time, and how many Lua states are kept for the next ones. One processor, if there are more,
// is left to all else.
func runsMax() int {
	return max(1, min(runtime.GOMAXPROCS(0)-1, runBytesMax/sandbox.DefaultLimits.Bytes))
}

// Bounds of what scripts publish. One call may collect messagesMax messages, of messageBytesMax bytes together; all calls of a user
// messageRate bytes per second, and as many at once. Each message counts messageOverhead more than it has.
const (
	messagesMax     = 64
	messageBytesMax = 64 << 10
	messageRate     = 1 << 20
	messageOverhead = 256
)

// scriptShares share out the runs. Its methods may be called from any goroutine.
type scriptShares struct {
	mu      sync.Mutex
	max     int
	running int
	users   map[*account]*scriptUser
	waiting []*scriptUser // those with calls that wait, in the order of their turns. Empty while running < max
}

// scriptUser is the share of one user. There are no more than accounts.
type scriptUser struct {
	waiting     []*scriptConn // those with calls that wait, in the order of their turns
	connections map[int64]*scriptConn
	messages    int64     // bytes that may still be published at refilled
	refilled    time.Time // zero: nothing was published yet
}

// scriptConn are the calls of one connection that wait, each for its channel to be closed.
type scriptConn struct {
	id    int64
	calls []chan struct{}
}

func newScriptShares(max int) *scriptShares {
	return &scriptShares{max: max, users: make(map[*account]*scriptUser)}
}

func (sh *scriptShares) userLocked(u *account) *scriptUser {
	share := sh.users[u]
	if share == nil {
		share = &scriptUser{connections: make(map[int64]*scriptConn)}
		sh.users[u] = share
	}
	return share
}

// acquire waits until it is the turn of this connection of this user. What follows must end with release.
func (sh *scriptShares) acquire(u *account, connection int64) {
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

// release gives the turn to the next one.
func (sh *scriptShares) release() {
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

// publish takes so many bytes from what the user may publish, or tells why it must not.
func (sh *scriptShares) publish(u *account, n int, now time.Time) (refusal error) {
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

// compiled is the script of this source. What is not known yet is compiled when it is the turn of this session of the user.
func (s *session) compiled(u *account, source string) (*knownScript, error) {
	srv := s.server
	if len(source) <= sandbox.SourceMax { // else it takes no time to refuse it
		if known := srv.scripts.find([]byte(sandbox.SHA(source))); known != nil {
			return known, nil
		}
		srv.shares.acquire(u, s.conn.id)
		defer srv.shares.release()
	}
	return srv.scripts.add(source, srv.now())
}
