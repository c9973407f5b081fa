// Package conn is one connection to one Redis master: how it is made (go-redis, once, and never again
// behind our back), vetted, and given up. It knows nothing of locks, lanes or the membership.
//
// What a master sends is not trusted. Wire reads the replies to batches within bounds, and what
// go-redis reads is checked first; a master that sends what no Redis would gets a RefusedError;
// RecoverPanic makes that of a panic, too. Texts of masters are fit for logs and replies once they went
// through Sanitize or Shorten.
package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"redlockd/redlock/rawio"
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

// Dial connects to a master; timeout bounds each call. The connection is made here and not by go-redis,
// which would make another one behind our back when this one breaks.
func Dial(ctx context.Context, m Master, timeout time.Duration) (*Conn, error) {
	o := &redis.Options{
		Network: "tcp", Addr: m.Addr, Username: m.Username, Password: m.Password, DB: m.DB, TLSConfig: m.TLS,
		Protocol:   2,                       // replies are read without a look for pushed messages
		MaxRetries: -1,                      // a replayed SET NX answers nil although we hold the lock
		PoolSize:   1, PipelinePoolSize: -1, // one ordered connection, not a second pool for pipelines
		DialerRetries: 1, // the lane has a back-off of its own
		DialTimeout:   timeout,
		// Every call brings its deadline in its context.
		ContextTimeoutEnabled:    true,
		ReadTimeout:              timeout,
		WriteTimeout:             timeout,
		PoolTimeout:              timeout,
		ConnMaxIdleTime:          -1,
		ConnMaxLifetime:          -1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if strings.HasPrefix(m.Addr, "/") {
		o.Network = "unix"
	}
	dialer := m.Dialer
	if dialer == nil {
		dialer = redis.NewDialer(o)
	}
	conn, err := dialer(ctx, o.Network, o.Addr)
	if err != nil {
		return nil, ConnectError(err)
	}
	// go-redis gets this connection once. When it asks for another one, this one is broken, and the lane
	// has to clear up first.
	unused := conn
	o.Dialer = func(context.Context, string, string) (net.Conn, error) {
		if unused == nil {
			return nil, errBroken
		}
		c := unused
		unused = nil
		return &checkedConn{Conn: c}, nil //mutant:go-redis-reads-unchecked
	}
	client := redis.NewClient(o)
	return &Conn{Client: client, Redis: client.Conn(), Socket: conn, Wire: Wire{Socket: rawio.New(conn)}}, nil
}

// errBroken is what go-redis gets in the place of a second connection.
var errBroken = errors.New("the connection is broken")

// Close ends the connection, and what would have closed it with the client.
func (l *Conn) Close() {
	if l.Stop != nil {
		l.Stop()
	}
	l.Redis.Close()
	l.Client.Close()
}

// ConnectError trims what go-redis says of a failed connection to what an operator can use.
func ConnectError(err error) error {
	if err == nil {
		return nil
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && !errors.Is(err, context.Canceled) {
		cause := op.Err
		// "connect: connection refused": of the two words for one thing ours stays.
		if call, ok := errors.AsType[*os.SyscallError](cause); ok {
			cause = call.Err
		}
		return fmt.Errorf("cannot connect: %w", cause)
	}
	if IsTimeout(err) || errors.Is(err, context.Canceled) { // who asks has waited for long enough
		return errors.New("no answer while connecting")
	}
	return err
}

// IsTimeout tells whether err is a deadline that has passed, of a context or of the connection.
func IsTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || (errors.As(err, &ne) && ne.Timeout())
}

// Replied tells whether err is the master's own word, in contrast to a connection that failed.
func Replied(err error) bool {
	var word redis.Error
	return err == nil || err == redis.Nil || errors.As(err, &word)
}

// scriptFailed is how Redis up to 6.2 wraps the error of a command that a script has called.
var scriptFailed = regexp.MustCompile(`^ERR Error running script \(call to f_\w+\): @user_script:\d+: (@user_script: \d+: )?-?`)

// HasCode tells whether err is a master's with this code, also from within a script.
func HasCode(err error, code string) bool {
	return err != nil && strings.HasPrefix(scriptFailed.ReplaceAllString(err.Error(), ""), code+" ")
}

// IsWrongType tells whether a key held something else than a string: somebody but a redlockd has
// written it.
func IsWrongType(err error) bool { return HasCode(err, "WRONGTYPE") }

// IsNoScript tells whether the master does not know a script: it has restarted, or SCRIPT FLUSH was
// sent. The script was not executed.
func IsNoScript(err error) bool { return HasCode(err, "NOSCRIPT") }
