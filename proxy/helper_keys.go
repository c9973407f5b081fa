package proxy

import (
	"strings"

	"redlockd/proxy/access"
)

// Helper keys are keys that lock libraries keep beside a lock, and set, extend and delete without
// comparing what they hold. Scripts and commands may do so with the keys that match helperKeys, whatever
// Options.AllowUnguarded says: without it the library gets its lock, and cannot release it.
//
//	*:rwlock_timeout:*       Redisson: one hold of one reader. Its end tells when the lock of the readers that stay may end
//	redisson_unlock_latch:*  Redisson: the answer of one unlock, for its repetition
//
// None of this lets a client end another's lock:
//   - The lock itself has another name. The scripts that change helper keys compare it, in the same
//     commit: who does not hold it changes nothing of it.
//   - A name that matches may be that of a lock, for names are free. But a helper holds helperValue,
//     and a lock holds the token of its holder: what holds anything else is changed by nobody who does
//     not compare it. Who locks such a name under the token "1" has nothing to compare himself.
//   - Without the key of its hold, a reader does not count when another one leaves, so who may use the
//     name of the key may cut this lock short. As with every key, users with Resources may use only
//     what these match.
//
// To add one: a pattern that no lock has, the library's values, and the argument for it here.
var helperKeys = []string{"*:rwlock_timeout:*", latchPrefix + "*"}

// latchPrefix begins the name of a latch. A client keeps a latch for as long as it may repeat an
// unlock, which follows from its timeouts and not from its lock: a TTL that is too long would be
// refused at the unlock, when the lock is held. So it is shortened. A repetition that comes later is
// answered that the lock is not held, which is true. The hold of a reader gets the TTL that the lock
// gets in the same script. Shortened alone it would be gone before the lock that it stands for, so it
// is refused with that, when the lock is taken.
const latchPrefix = "redisson_unlock_latch:"

func isHelperKey(key string) bool { return access.MatchesAny(helperKeys, key) }

func isLatch(key string) bool { return strings.HasPrefix(key, latchPrefix) }

// helperValue reports whether a helper key may hold this: no token is so short.
func helperValue(value string) bool { return value == "0" || value == "1" }
