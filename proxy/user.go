package proxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"redlockd/redlock"
)

// User may log in with AUTH or HELLO.
//
// There are two kinds: one with Resources may use these and cannot administer the server; one without
// may do everything. Rules for single commands, as in Redis's ACL, there are not: a lock service has
// few commands, and each rule is one to get wrong.
type User struct {
	// Name must not be empty. "default" is the user of AUTH with a password alone.
	Name string
	// Password must not be empty. It is compared in constant time, and never logged.
	Password string
	// Resources are patterns as LOCKS takes them (billing:*). The user may lock, release and look at
	// resources, and publish and subscribe to channels, whose names match one of them. It has no
	// commands that administer the server, and learns how many masters are out, but not their names.
	// None: it may do everything.
	Resources []string

	// MaxConnections bounds the connections that are logged in as this user. AUTH refuses one more,
	// which stays what it was. 0: as many as the server takes.
	MaxConnections int
	// MaxLocks bounds the resources that are locked at one time by this user through this server.
	// EXTEND, UNLOCK and the repetition of a LOCK whose token holds the lock are never refused because
	// of it. 0: the engine's own limit.
	MaxLocks int
	// MaxWaiters bounds the LOCKs of this user that wait. 0: the engine's own limit.
	MaxWaiters int
	// MaxTTL is the longest TTL that this user may ask for, by whatever command. A lock that it takes
	// without a TTL gets no longer one either. 0: the engine's MaxTTL.
	MaxTTL time.Duration
}

// resourcesMax bounds the patterns of one user: every command is compared with all of them.
const resourcesMax = 64

// validateUsers joins one error for each user that is not valid.
func validateUsers(users []User) error {
	var errs []error
	seen := make(map[string]bool, len(users))
	for i, u := range users {
		err := u.validate()
		switch {
		case u.Name == "":
			err = fmt.Errorf("user %d has no name (the user of AUTH with a password alone is \"default\")", i+1)
		case seen[u.Name]:
			err = fmt.Errorf("user %q is named twice", u.Name)
		}
		if err != nil {
			errs = append(errs, &redlock.OptionError{Option: "Users", Reason: err.Error()})
		}
		seen[u.Name] = true
	}
	return errors.Join(errs...)
}

// validate returns what is wrong with the user, or nil.
func (u *User) validate() error {
	switch {
	case u.Password == "":
		return fmt.Errorf("user %q has no password", u.Name)
	case len(u.Name)+len(u.Password) > preauthLimits.Bulk:
		return fmt.Errorf("the name and the password of user %.20q have %d bytes: AUTH takes %d", u.Name, len(u.Name)+len(u.Password), preauthLimits.Bulk)
	case len(u.Resources) > resourcesMax:
		return fmt.Errorf("user %q has %d patterns in resources, at most %d are possible", u.Name, len(u.Resources), resourcesMax)
	}
	for _, n := range []struct {
		name       string
		value, max int
	}{
		{"max_connections", u.MaxConnections, 10_000_000},
		{"max_locks", u.MaxLocks, 100_000_000},
		{"max_waiters", u.MaxWaiters, 10_000_000},
	} {
		if n.value < 0 || n.value > n.max {
			return fmt.Errorf("user %q: %s = %d is outside 0 … %d", u.Name, n.name, n.value, n.max)
		}
	}
	if u.MaxTTL < 0 || u.MaxTTL > 24*time.Hour {
		return fmt.Errorf("user %q: max_ttl = %v is outside 0s … 24h", u.Name, u.MaxTTL)
	}
	for _, pattern := range u.Resources {
		if pattern == "" || len(pattern) > redlock.MaxResourceLen {
			return fmt.Errorf("user %q: a pattern in resources has %d bytes, it must have 1 … %d", u.Name, len(pattern), redlock.MaxResourceLen)
		}
	}
	return nil
}

// confined reports whether the user may use some resources only. A nil user is one where none are configured.
func (u *User) confined() bool { return u != nil && len(u.Resources) > 0 }

// may reports whether the user may use the resource or the channel of this name.
func (u *User) may(name string) bool {
	return !u.confined() || slices.ContainsFunc(u.Resources, func(pattern string) bool { return globMatch(pattern, name) })
}

// mayMatch reports whether the user may use all channels that match the pattern. As in Redis, it may if
// the pattern is literally one of its own.
func (u *User) mayMatch(pattern string) bool {
	return !u.confined() || slices.Contains(u.Resources, pattern)
}

// notPermitted says why the user may not run this command, by what it is and the keys that it names, or
// nil. It is called before every handler, so a handler need not check keys. Channels are left to the commands
// on them. u may be nil.
func (u *User) notPermitted(cmd *command, args [][]byte) error {
	if !u.confined() {
		return nil
	}
	if cmd.flags&flagAdmin != 0 {
		return errorf("NOPERM this user has no permissions to run the '%s' command: it is for users to whom [auth] gives no list of resources", cmd.fullName())
	}
	if cmd.keys == (keySpec{}) {
		return nil
	}
	keys, step, _ := cmd.keys.find(args) // what does not fit is refused by the handler, as a mistake
	for i := 0; i < len(keys); i += step {
		if !u.may(string(keys[i])) {
			return u.refuse("resource", string(keys[i]))
		}
	}
	return nil
}

// refuse is the error for a name that the user may not use. It begins with Redis's words.
func (u *User) refuse(kind, name string) error {
	return errorf("NOPERM this user has no permissions to access the %s '%s': to user %s [auth] gives %s",
		kind, clipped(name, 128), u.Name, clipped(strings.Join(u.Resources, ", "), 256))
}
