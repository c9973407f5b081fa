package redlock

import (
	"context"
	"fmt"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
)

// A clock that goes back costs no vote, because no key ends early. But the keys on that master live for
// as much longer, and nobody could lock them there. So they are shortened to one wait, one wait later:
// a redlockd that was cut off, and has seen the clock go neither back nor forward, finds valid locks.
//
// Invariant: no key of a lock from before is shortened while it is valid. No validity outlives one
// max_ttl, and a wait is longer. So any redlockd may shorten keys, also late, or twice.

// clamp is the shortening of keys after the clock of a master went back.
type clamp struct {
	due    bool
	back   time.Duration // when the clock was found to have gone back, on clock.Own
	cursor uint64        // how far SCAN has come
}

// run shortens the keys that live for longer than a wait. It works between two heartbeats' batches, so
// it stops after the budget, and the next heartbeat goes on from where SCAN has come, also over another
// connection. shown is what the master shows of the membership, now the time on clock.Own. It tells
// whether it may have changed keys.
func (k *clamp) run(ctx context.Context, conn *conn.Conn, shown string, now, wait, budget time.Duration) (changed bool, err error) {
	for began := time.Now(); k.due && now-k.back >= wait && time.Since(began) < budget; { //mutant:keys-shortened-while-their-locks-are-valid
		keys, next, err := conn.Redis.Scan(ctx, k.cursor, "", foldMax).Result()
		if err != nil {
			return changed, fmt.Errorf("SCAN after a clock that went back: %w", err)
		}
		// SCAN may return more keys than asked for.
		for len(keys) > 0 {
			n := min(len(keys), foldMax)
			changed = true
			if err := conn.Call(ctx, lua.Clamp, append([]string{lua.MembersKey}, keys[:n]...), wait.Milliseconds(), shown).Err(); err != nil { //mutant:keys-shortened-too-much
				return changed, fmt.Errorf("shorten keys after a clock that went back: %w", err)
			}
			keys = keys[n:]
		}
		k.cursor, k.due = next, next != 0
	}
	return changed, nil
}
