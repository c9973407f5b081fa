package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"redlockd/cmd/redlockd/client"
	"redlockd/cmd/redlockd/config"
	"redlockd/redlock"
	"redlockd/redlock/clock"
)

// servers is the way through redlockds that run, for a machine that cannot reach the masters. Each is
// as good as another: they lock on the same masters.
type servers struct {
	all  []*config.Endpoint
	note string // what LOCKS shows as the purpose of the lock
}

// serverLock is a lock that a server holds for our connection (LOCK … HOLD): it stays held while this
// process stands still and its command does not. If that server leaves, fails or loses its quorum, the
// lock moves to another one, or to the same one after its restart, by its token.
//
// Invariant: until only moves to what a server has said of a question that was sent after the lock was
// asked for. So the validity is right, whatever becomes of a reply.
//
// Unlike HOLD, a move keeps the token, which the command knows. EXTEND comes before LOCK, so that a lock
// that was lost is not taken anew. The server before it may renew the lock until it sees that our
// connection has ended, and never after UNLOCK, because renewing needs the token on the masters.
type serverLock struct {
	way             *servers
	resource, token string
	fence           int64
	ttl             time.Duration
	shared          bool
	at              int                // the server in way.all that holds it
	conn            *client.Connection // to that server; nil: none stands
	sent            bool               // a LOCK was sent, so masters may know the token

	mu        sync.Mutex // guards what follows
	until     time.Time
	suspended time.Duration // clock.Suspended from before the server was asked
}

// answerIn bounds the connection to a server, and the answer to each command.
const answerIn = 5 * time.Second

// serversPause is the time between two rounds through the servers.
const serversPause = 100 * time.Millisecond

func (s *servers) take(ctx context.Context, o *runOptions) (lock, error) {
	l := &serverLock{way: s, resource: o.resource, token: rand.Text(), ttl: o.ttl, shared: o.shared}
	for until, again := time.Now().Add(o.wait), false; ; again = true {
		err := s.ask(ctx, 0, answerIn, func(at int, conn *client.Connection) error { return l.lock(at, conn, o, time.Until(until)) })
		if err == nil {
			return l, nil
		}
		// A LOCK without a reply may have been granted: the token finds out.
		if !anotherMayDo(err) || ctx.Err() != nil || time.Until(until) <= 0 && (again || !l.sent) {
			if l.sent && anotherMayDo(err) {
				l.forget()
			}
			return nil, err
		}
		pause(ctx, serversPause)
	}
}

func (s *servers) obstacle() string {
	var names []string
	for _, to := range s.all {
		names = append(names, to.Addr)
	}
	return "through " + strings.Join(names, ", ")
}

func (s *servers) close(context.Context) {}

// ask has talk speak with the servers, from the one at first on, until one has said what another one
// would say as well. talk keeps the connection if it returns nil, and only then. When ctx is done, the
// connection ends.
func (s *servers) ask(ctx context.Context, first int, within time.Duration, talk func(at int, conn *client.Connection) error) (err error) {
	for i := range s.all {
		at := (first + i) % len(s.all)
		standing, end := context.WithCancel(context.Background()) // as long as the connection
		keep := context.AfterFunc(ctx, end)
		conn, failed := client.Connect(standing, s.all[at], within)
		if failed == nil {
			if failed = talk(at, conn); failed != nil {
				conn.Close()
			}
		}
		if failed == nil {
			keep()
			return nil
		}
		end()
		if err = failed; ctx.Err() != nil || !anotherMayDo(err) {
			return err
		}
	}
	return err
}

// lock asks for the lock, with what is left of the wait.
func (l *serverLock) lock(at int, conn *client.Connection, o *runOptions, wait time.Duration) error {
	words := []string{"LOCK", o.resource, ms(o.ttl), "TOKEN", l.token, "HOLD", "NOTE", l.way.note}
	if wait > 0 {
		words = append(words, "WAIT", ms(wait))
	}
	if o.fence {
		words = append(words, "FENCE")
	}
	if o.shared {
		words = append(words, "SHARED")
	}
	if o.slots > 0 {
		words = append(words, "SLOTS", strconv.Itoa(o.slots))
	}
	asked, suspended := time.Now(), clock.Suspended()
	l.sent = true
	conn.Timeout = max(wait, 0) + answerIn
	v, err := conn.Do(words...)
	conn.Timeout = answerIn
	if err != nil {
		return err
	}
	switch {
	case client.IsNull(v):
		return redlock.ErrHeld
	case len(v.Elems) < 2 || !client.IsInt(v.Elems[1]):
		return noAnswer(conn, "LOCK")
	}
	l.setUntil(asked.Add(l.within(v.Elems[1].Int)), suspended)
	for _, e := range v.Elems[2:] {
		if e.Text != "" {
			l.resource = e.Text // the slot
		} else {
			l.fence = e.Int
		}
	}
	if time.Since(asked) > l.ttl/10 { // after a wait, little of that may be left
		if err := l.extend(conn, l.ttl); err != nil {
			return err
		}
	}
	l.conn, l.at = conn, at
	return nil
}

// Extend asks the server for how long it holds the lock. It has another one hold it where this one
// cannot.
func (l *serverLock) Extend(ctx context.Context, ttl time.Duration) error {
	if l.conn == nil {
		return l.move(ctx)
	}
	stop := context.AfterFunc(ctx, l.conn.Close)
	defer stop()
	l.conn.Timeout = min(answerIn, ttl/6)
	asked, suspended := time.Now(), clock.Suspended()
	v, err := l.conn.Do("KEEPALIVE")
	validity := client.Field(v, "validity")
	held := l.within(validity.Int)
	switch {
	case err == nil && !client.IsInt(validity):
		err = noAnswer(l.conn, "KEEPALIVE")
	case err == nil && held == 0:
		return redlock.ErrNotHeld
	case err == nil:
		l.setUntil(asked.Add(held), suspended)
		if held < ttl/2 { // the server does not renew it: EXTEND says why
			err = l.extend(l.conn, ttl)
		}
		if err == nil && client.Field(v, "leaving").Int == 1 && errors.Is(l.move(ctx), redlock.ErrNotHeld) {
			return redlock.ErrNotHeld
		} // any other error: it is held here for as long as this server is there
	}
	_, replied := errors.AsType[client.ServerError](err)
	if err == nil || !anotherMayDo(err) || replied && len(l.way.all) == 1 {
		return err
	}
	if !replied { // a late reply must not count for a later question
		l.conn.Close()
		l.conn = nil
	}
	return l.move(ctx)
}

// move has another server hold the lock, or this one on another connection.
func (l *serverLock) move(ctx context.Context) error {
	return l.way.ask(ctx, l.at+1, min(answerIn, l.ttl/6), func(at int, conn *client.Connection) error {
		if err := l.extend(conn, l.ttl); err != nil {
			return err
		}
		words := []string{"LOCK", l.resource, ms(l.ttl), "TOKEN", l.token, "HOLD", "NOTE", l.way.note}
		if l.shared {
			words = append(words, "SHARED")
		}
		v, err := conn.Do(words...)
		switch {
		case err != nil:
			return err
		case client.IsNull(v):
			return redlock.ErrNotHeld
		case len(v.Elems) < 2:
			return noAnswer(conn, "LOCK")
		}
		if l.conn != nil {
			l.conn.Close()
		}
		l.conn, l.at = conn, at
		return nil
	})
}

// extend gives the lock a new TTL. ErrNotHeld: it is lost.
func (l *serverLock) extend(conn *client.Connection, ttl time.Duration) error {
	asked, suspended := time.Now(), clock.Suspended()
	v, err := conn.Do("EXTEND", l.resource, l.token, ms(ttl))
	switch {
	case err == nil && !client.IsInt(v):
		err = noAnswer(conn, "EXTEND")
	case err == nil && v.Int == 0:
		err = redlock.ErrNotHeld
	}
	if err == nil {
		l.setUntil(asked.Add(l.within(v.Int)), suspended)
	}
	return err
}

// within is a validity as a server says it, in ms: no more than was asked for, whatever answers there.
func (l *serverLock) within(n int64) time.Duration {
	return time.Duration(min(max(n, 0), l.ttl.Milliseconds())) * time.Millisecond
}

// setUntil moves the end of the validity. suspended is from before the server was asked, so that a
// suspension on the way makes the validity shorter, never longer.
func (l *serverLock) setUntil(until time.Time, suspended time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until, l.suspended = until, suspended
}

func (l *serverLock) Validity() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.until) - (clock.Suspended() - l.suspended)
}

func (l *serverLock) name() (resource, token string, fence int64) {
	return l.resource, l.token, l.fence
}

// Unlock releases the lock, at another server where this one does not answer, and ends the connection.
func (l *serverLock) Unlock(ctx context.Context) error {
	if l.conn != nil {
		stop := context.AfterFunc(ctx, l.conn.Close)
		defer stop()
		defer l.conn.Close()
		if err := l.release(l.conn); err == nil || !anotherMayDo(err) {
			return err
		}
	}
	return l.way.ask(ctx, l.at, answerIn, func(_ int, conn *client.Connection) error {
		defer conn.Close()
		return l.release(conn)
	})
}

func (l *serverLock) release(conn *client.Connection) error {
	v, err := conn.Do("UNLOCK", l.resource, l.token)
	switch {
	case err == nil && !client.IsInt(v):
		err = noAnswer(conn, "UNLOCK")
	case err == nil && v.Int == 0:
		err = redlock.ErrNotHeld
	}
	return err
}

// forget releases what a LOCK without a reply may have locked.
func (l *serverLock) forget() {
	ctx, cancel := context.WithTimeout(context.Background(), endIn)
	defer cancel()
	l.Unlock(ctx)
}

// noAnswer is what a reply counts as that no redlockd gives: nothing is known by it, least of all that
// the lock is another's.
func noAnswer(conn *client.Connection, command string) error {
	return fmt.Errorf("%s answers %s with something that no redlockd says", conn.Addr(), command)
}

// anotherMayDo reports whether another server, or the same one later, may do what failed: this one gave
// no reply, leaves, or has no quorum of masters, which may be because of where it stands.
func anotherMayDo(err error) bool {
	if errors.Is(err, redlock.ErrHeld) || errors.Is(err, redlock.ErrNotHeld) {
		return false
	}
	refusal, _ := errors.AsType[client.ServerError](err)
	code, _, _ := strings.Cut(string(refusal), " ")
	switch code {
	case "", "LEAVING", "NOQUORUM", "TRYAGAIN", "BUSYWAIT", "LOADING", "UNBLOCKED":
		return true
	}
	return strings.HasPrefix(string(refusal), "ERR max number of clients reached")
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// ms is a time as a command has it.
func ms(d time.Duration) string { return fmt.Sprint(max(1, d.Milliseconds())) }
