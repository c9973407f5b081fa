package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"redlockd/redlock/lua"
	"redlockd/redlock/rawio"
)

// masterConn is one connection to a master. It never reconnects by itself: what a broken connection leaves
// behind has to be cleared up first, so the lane makes a new one.
type masterConn struct {
	// client and redis are go-redis on the connection, for everything that is not a batch.
	client *redis.Client
	redis  *redis.Conn
	// socket is below both. Closing it breaks off a call that is under way.
	socket net.Conn
	// wire is on the socket, for batches.
	wire wire
	// stop ends the watch over the client's context that closes the socket; nil: there is none.
	stop func() bool
	// compareAndDelete is how this master deletes a key that holds a token, without a script: Redis from 8.4
	// on, Valkey from 9 on. Where it can, a batch folds nothing, and all commands keep their order.
	compareAndDelete nativeDelete
}

// nativeDelete is a command that compares and deletes, if there is one.
type nativeDelete uint8

const (
	scriptOnly nativeDelete = iota
	delex                   // DELEX key IFEQ token
	delifeq                 // DELIFEQ key token
)

// probeNative finds out which command the master offers, by sending both for a key that does not exist. A
// command that an ACL refuses counts as missing.
func (l *masterConn) probeNative(ctx context.Context) error {
	const key = "redlockd:none"
	pipe := l.redis.Pipeline()
	first, second := pipe.Do(ctx, "delex", key, "ifeq", ""), pipe.Do(ctx, "delifeq", key, "")
	if _, err := pipe.Exec(ctx); !replied(err) {
		return err
	}
	switch {
	case first.Err() == nil:
		l.compareAndDelete = delex
	case second.Err() == nil:
		l.compareAndDelete = delifeq
	}
	return nil
}

// dial connects to a master; timeout bounds each call. The connection is made here and not by go-redis, which would make another one
// behind our back when this one breaks.
func dial(ctx context.Context, m Master, timeout time.Duration) (*masterConn, error) {
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
		return nil, connectError(err)
	}
	// go-redis gets this connection once. When it asks for another one, this one is broken, and the lane has to
	// clear up first.
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
	return &masterConn{client: client, redis: client.Conn(), socket: conn, wire: wire{socket: rawio.New(conn)}}, nil
}

// errBroken is what go-redis gets in the place of a second connection.
var errBroken = errors.New("the connection is broken")

// identity is what a master says of itself on a new connection.
type identity struct {
	runID, version string
	clientID       int64 // of the lane's connection
}

// vet makes the connection, learns who the master is, and readies it: commands that an earlier connection of
// ours left unread at the same master are discarded, and the scripts are loaded.
func (l *masterConn) vet(ctx context.Context, before identity) (identity, error) {
	// The handshake (HELLO, AUTH, SELECT) runs with the first command. It gets the long deadline, not a batch's.
	pipe := l.redis.Pipeline()
	clientID := pipe.ClientID(ctx)
	info, replication, memory, cluster := pipe.Info(ctx, "server"), pipe.Info(ctx, "replication"), pipe.Info(ctx, "memory"), pipe.Info(ctx, "cluster")
	if _, err := pipe.Exec(ctx); err != nil {
		return identity{}, connectError(err)
	}
	fields := parseInfo(info.Val() + replication.Val() + memory.Val() + cluster.Val())
	if reason := refusal(fields); reason != "" {
		return identity{}, &refusedError{reason}
	}
	id := identity{runID: fields["run_id"], version: fields["redis_version"], clientID: clientID.Val()}
	if id.runID == "" {
		return identity{}, &refusedError{"its INFO has no run_id: see whether it is a Redis"}
	}

	// What the master has not read of our old connection must not be executed behind new commands. After a
	// restart the old id may belong to somebody else.
	if before.clientID != 0 && before.runID == id.runID { //mutant:the-old-connection-is-not-killed
		if err := l.redis.Process(ctx, redis.NewIntCmd(ctx, "client", "kill", "id", before.clientID)); err != nil {
			return identity{}, connectError(err)
		}
	}
	if err := l.probeNative(ctx); err != nil {
		return identity{}, connectError(err)
	}
	return id, connectError(l.load(ctx))
}

// loadWithin is load with a deadline.
func (l *masterConn) loadWithin(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return l.load(ctx)
}

// load loads the scripts.
func (l *masterConn) load(ctx context.Context) error {
	pipe := l.redis.Pipeline()
	var loads []*redis.StringCmd
	for _, s := range lua.Loaded {
		loads = append(loads, pipe.ScriptLoad(ctx, s.Text))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	for i, load := range loads {
		if load.Val() != lua.Loaded[i].SHA {
			return senseless("%q for the SHA1 of a script that is %s", shown(load.Val()), lua.Loaded[i].SHA)
		}
	}
	return nil
}

// close ends the connection, and what would have closed it with the client.
func (l *masterConn) close() {
	if l.stop != nil {
		l.stop()
	}
	l.redis.Close()
	l.client.Close()
}

// connectError trims what go-redis says of a failed connection to what an operator can use.
func connectError(err error) error {
	if err == nil {
		return nil
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		cause := op.Err
		// "connect: connection refused": of the two words for one thing ours stays.
		if call, ok := errors.AsType[*os.SyscallError](cause); ok {
			cause = call.Err
		}
		return fmt.Errorf("cannot connect: %w", cause)
	}
	if isTimeout(err) {
		return errors.New("no answer while connecting")
	}
	return err
}

// isTimeout tells whether err is a deadline that has passed, of a context or of the connection.
func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || (errors.As(err, &ne) && ne.Timeout())
}

// replied tells whether err is the master's own word, in contrast to a connection that failed.
func replied(err error) bool {
	var word redis.Error
	return err == nil || err == redis.Nil || errors.As(err, &word)
}

// isWrongType tells whether a key held something else than a string: somebody but a redlockd has written it.
func isWrongType(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") }

// isNoScript tells whether the master does not know a script: it has restarted, or SCRIPT FLUSH was sent. The
// script was not executed.
func isNoScript(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") }
