package conn

import (
	"context"
	"errors"
	"net"
	"os"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// errBroken is what go-redis gets in the place of a second connection.
var errBroken = errors.New("the connection is broken")

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

// isAlert tells whether err is the master's own word in the protocol of TLS.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// rootCause is the error below those that repeat what was done and with which ports.
func rootCause(err error) error {
	for below := err; below != nil; below = errors.Unwrap(below) {
		err = below
	}
	return err
}
