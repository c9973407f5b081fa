package run

import (
	"errors"
	"strings"

	"redlockd/cmd/redlockd/client"
	"redlockd/redlock"
)

// explain says why there is no lock. wrong: the command line or the settings must be changed, and
// asking again does not help.
func explain(err error) (text string, wrong bool) {
	refusal, replied := errors.AsType[client.ServerError](err)
	switch {
	case err == nil:
		return "", false
	case replied && strings.HasPrefix(string(refusal), "ERR unknown command"):
		return err.Error() + ": a Redis answers there, and no redlockd; name one with --server, or name the masters with --masters", true
	case replied:
		return err.Error(), !anotherMayDo(err)
	case errors.Is(err, redlock.ErrBadRequest):
		return err.Error(), true
	case errors.Is(err, redlock.ErrNoQuorum):
		return reasonOf(err) + "; redlockd check says more", false
	}
	return err.Error(), false
}

// reasonOf is the error in the words that a client of a server gets.
func reasonOf(err error) string {
	if errors.Is(err, redlock.ErrNoQuorum) {
		return "NOQUORUM " + err.Error()
	}
	return err.Error()
}
