// Package conn is one connection to one Redis master: how it is made (go-redis, once, and never again
// behind our back), vetted, and given up. It knows nothing of locks, lanes or the membership.
//
// What a master sends is not trusted. Wire reads the replies to batches within bounds, and what
// go-redis reads is checked first; a master that sends what no Redis would gets a RefusedError;
// RecoverPanic makes that of a panic, too. Texts of masters are fit for logs and replies once they went
// through Sanitize or Shorten.
//
// Why a master cannot be used at first contact is said in one place, explain.go.
package conn

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"
)

// Conn is one connection to a master. It never reconnects by itself: what a broken connection leaves
// behind has to be cleared up first, so the lane makes a new one.
type Conn struct {
	// Client and Redis are go-redis on the connection, for everything that is not a batch.
	Client *redis.Client
	Redis  *redis.Conn
	// Socket is below both. Closing it breaks off a call that is under way.
	Socket net.Conn
	// Wire is on the socket, for batches.
	Wire Wire
	// checked is on the socket, for go-redis.
	checked *checkedConn
	// master is where the connection leads to.
	master Master
	// Stop ends the watch over the client's context that closes the socket; nil: there is none.
	Stop func() bool
	// CompareAndDelete is how this master deletes a key that holds a token, without a script: Redis from
	// 8.4 on, Valkey from 9 on. Where it can, a batch folds nothing, and all commands keep their order.
	CompareAndDelete NativeDelete
}

// NativeDelete is a command that compares and deletes, if there is one.
type NativeDelete uint8

const (
	ScriptOnly NativeDelete = iota
	Delex                   // DELEX key IFEQ token
	Delifeq                 // DELIFEQ key token
)

// BreakOff breaks off the call that is under way when ctx ends, and every later one. Its result ends the watch over ctx; it
// returns false where ctx was first. A deadline in the past would not do: go-redis sets another one with its next call.
func (l *Conn) BreakOff(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { l.Socket.Close() })
}

// Close ends the connection, and what would have closed it with the client.
func (l *Conn) Close() {
	if l.Stop != nil {
		l.Stop()
	}
	l.Redis.Close()
	l.Client.Close()
}
