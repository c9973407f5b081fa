package conn

import (
	"errors"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// deniedCommand finds the command in the master's sentence about an ACL.
var deniedCommand = regexp.MustCompile(`run the '([a-z|]+)' command`)

// CommandRefused says why a master that runs refuses a command that locks need, and what an operator
// does about it, both in the middle of a sentence. reason is "" if err is nil, or of another kind.
func CommandRefused(err error) (reason, fix string) {
	if err == nil {
		return "", ""
	}
	if word := redis.Error(nil); errors.As(err, &word) {
		err = word // what stands before it says where redlockd was
	}
	text := scriptFailed.ReplaceAllString(Sanitize(err.Error()), "")
	switch code, _, _ := strings.Cut(text, " "); {
	case code == "OOM":
		return "its memory is full (OOM), so it takes no new locks, only releases",
			"raise maxmemory (redis-cli CONFIG SET maxmemory, and in its redis.conf), or see what fills it (redis-cli --bigkeys)"
	case code == "MISCONF":
		return "it refuses all writes because it cannot write to its disk (MISCONF)",
			`make room there; a master of locks needs no persistence: redis-cli CONFIG SET save "" appendonly no, and the same in its redis.conf`
	case code == "NOREPLICAS":
		return "it refuses all writes because too few replicas are connected (NOREPLICAS)",
			"a master of locks needs none: redis-cli CONFIG SET min-replicas-to-write 0, and the same in its redis.conf"
	case code == "BUSY":
		return "it answers nothing because a script or function runs there for too long (BUSY)",
			"redis-cli SCRIPT KILL or FUNCTION KILL, or, if that is refused, SHUTDOWN NOSAVE; see who runs scripts on it"
	case code == "NOPERM" && strings.Contains(text, "keys"):
		return "its ACL does not allow redlockd's user all keys (" + text + ")",
			"redis-cli ACL SETUSER <user> allkeys; redlockd check tries all that is needed"
	case code == "NOPERM":
		denied := "a command that locks need"
		if found := deniedCommand.FindStringSubmatch(text); found != nil {
			denied = strings.ToUpper(strings.ReplaceAll(found[1], "|", " "))
		}
		return "its ACL does not allow redlockd's user " + denied + " (" + text + ")",
			"redis-cli ACL SETUSER <user> +<command>; redlockd check tries all that are needed"
	case strings.Contains(text, "executing the script can't run this command"), strings.Contains(text, "ACL failure in script"):
		return "its ACL does not allow redlockd's user a command of its scripts",
			"redlockd check tries all commands that are needed, and names it"
	}
	return "", ""
}

// MemoryIsLow tells whether a master uses 80 % of the memory that it may have, or more. maxMemory 0: it has no
// limit.
func MemoryIsLow(used, maxMemory int64) bool { return maxMemory > 0 && used >= maxMemory/5*4 }

// AsRefusal makes a RefusedError of an error that CommandRefused knows. Others stay as they are.
func AsRefusal(err error) error {
	if reason, fix := CommandRefused(err); reason != "" {
		return &RefusedError{reason + ": " + fix}
	}
	return err
}
