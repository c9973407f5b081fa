package memmaster

// Expiry as in Redis: a key carries an absolute time of the master's wall clock, so a clock that steps
// forward ends locks early and one that steps back makes them last longer. A key goes when a command
// touches it after that time, or when a command of anybody finds it at the head of the heap. Nothing
// happens while no command comes: no goroutine ticks here, and invalidation messages of expired keys
// can be as late as those of Redis.

// sweepMax bounds how many expired keys one command removes besides its own.
const sweepMax = 16

// expired follows Redis in that a key lives through the millisecond of its expiry.
func (s *store) expired(e *entry) bool { return e.expireAt != 0 && s.now > e.expireAt }

func (s *store) sweep(limit int) {
	for range limit {
		if len(s.due.items) == 0 || !s.expired(s.due.items[0]) {
			return
		}
		s.remove(s.due.items[0])
	}
}

// expireAt sets the absolute time of a key's end.
func (s *store) expireAt(e *entry, at int64) {
	e.expireAt = at
	if e.dueIndex < 0 {
		s.due.push(e)
	} else {
		s.due.fix(e)
	}
}

// persist takes the expiry away.
func (s *store) persist(e *entry) {
	if e.dueIndex >= 0 {
		s.due.remove(e)
	}
	e.expireAt = 0
}

// ttl is how many milliseconds a key has left, never below 0; only for a key that expires.
func (s *store) ttl(e *entry) int64 { return max(e.expireAt-s.now, 0) }
