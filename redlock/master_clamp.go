package redlock

import (
	"context"
	"fmt"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
)

// A clock that goes back costs no vote, because no key ends early. But the keys on that master live for as much longer,
// and nobody could lock them there. So they are shortened to one wait.
//
// Invariant: no lock's validity outlives one max_ttl from now, and a wait is longer. So anybody may shorten any lock's
// key to one wait at any time, also late, or twice.

// clamp shortens the keys that live for longer than a wait, after the clock went back. It works between two heartbeats'
// batches, so it stops after a part of MasterTimeout, and the next heartbeat goes on from where SCAN has come, also over
// another connection.
func (l *lane) clamp(ctx context.Context, conn *conn.Conn) error {
	k, f := &l.guard.clock, l.fleet
	if l.guard.record == nil {
		return nil // the next heartbeat that knows the wait does it
	}
	wait := max(l.guard.record.Wait, clock.QuarantineOf(l.guard.record.MaxTTL, f.drift))
	for began := time.Now(); k.clamp && time.Since(began) < f.opts.MasterTimeout/4; {
		keys, next, err := conn.Redis.Scan(ctx, k.cursor, "", foldMax).Result()
		if err != nil {
			return fmt.Errorf("SCAN after a clock that went back: %w", err)
		}
		// SCAN may return more keys than asked for.
		for len(keys) > 0 {
			n := min(len(keys), foldMax)
			if err := conn.Redis.EvalSha(ctx, lua.Clamp.SHA, append([]string{lua.MembersKey}, keys[:n]...), wait.Milliseconds(), l.guard.shown).Err(); err != nil { //mutant:keys-shortened-too-much
				return fmt.Errorf("shorten keys after a clock that went back: %w", err)
			}
			keys = keys[n:]
		}
		k.cursor, k.clamp = next, next != 0
	}
	return nil
}
