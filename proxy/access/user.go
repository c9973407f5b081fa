package access

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"redlockd/redlock"
)

// User may log in with AUTH or HELLO.
//
// Resources, Channels and Commands or Admin bound what it may do. Rules for single commands, as in
// Redis's ACL, there are not: a lock service has few commands, and each rule is one to get wrong.
type User struct {
	// Name must not be empty. "default" is the user of AUTH with a password alone.
	Name string
	// Password must not be empty, unless CertCN is given. It is the password itself, or its SHA-256
	// digest in hexadecimal digits: "sha256:9f86…", or "#9f86…" as in Redis's ACL. It is compared in
	// constant time, and never logged.
	Password string
	// CertCN logs in a client whose verified certificate has this common name (the CN of its subject)
	// as soon as its TLS handshake is done. Other names in a certificate do not count, and one with two
	// common names logs nobody in, so that each certificate names one user at most.
	CertCN string
	// Resources are patterns as LOCKS takes them (billing:*). The user may lock, release and look at
	// resources whose names match one of them. None: it may use every resource.
	Resources []string
	// Admin says whether the user is an administrator. One without Resources may send the commands that
	// administer the server (CLIENT KILL, CONFIG, SCRIPT FLUSH and the like), and every administrator
	// may end the locks of others with UNLOCK … FORCE, among its Resources if it has some. Nil: a user
	// without Resources is one, and a user with Resources is not. Only an administrator without
	// Resources sees the masters: errors, INFO and LOCKINFO tell others how many are out, but not their
	// names.
	Admin *bool
	// Channels are such patterns of the channels to which the user may publish and subscribe. None: it
	// has the patterns of Resources.
	Channels []string
	// Commands are the groups of commands that the user may run, in place of Admin: "lock" (take,
	// extend and release locks, scripts, PUBLISH), "read" (look at locks, INFO, subscribe; without "lock",
	// digests in the place of tokens), "admin" (all that administers the server; UNLOCK … FORCE needs
	// "lock", too), or "all" for the three.
	// Commands about the client's own connection are in no group. None: what Admin says.
	Commands []string

	// MaxConnections bounds the connections that are logged in as this user. AUTH refuses one more,
	// which stays what it was. 0: as many as the server takes.
	MaxConnections int
	// MaxLocks bounds the resources that are locked at one time by this user through this server.
	// EXTEND, UNLOCK and the repetition of a LOCK whose token holds the lock are never refused because
	// of it. 0: the engine's own limit.
	MaxLocks int
	// MaxMemory bounds what these locks take of the memory of each master, in bytes: their names, values,
	// and 160 bytes for each. It refuses as MaxLocks does, and also what gives a key a longer value. 0: a
	// share of the masters' memory, if there are several users.
	MaxMemory int
	// MaxWaiters bounds the LOCKs of this user that wait. 0: the engine's own limit.
	MaxWaiters int
	// MaxTTL is the longest TTL that this user may ask for, by whatever command. A lock that it takes
	// without a TTL gets no longer one either. 0: the engine's MaxTTL.
	MaxTTL time.Duration
}

// LoginMax bounds the name and the password of a user together, in bytes: a client that has not logged
// in may send no longer argument.
const LoginMax = 4 << 10

// certCNMax bounds User.CertCN: X.520 allows a common name 64 characters, and some authorities more.
const certCNMax = 256

// ResourcesMax bounds the patterns of one user for resources, and those for channels: every command is
// compared with all of them.
const ResourcesMax = 64

// Group is one of User.Commands, or several of them as bits.
type Group uint8

const (
	Lock Group = 1 << iota
	Read
	Admin
	groupAll = Lock | Read | Admin
)

// commandGroups are the words of User.Commands.
var commandGroups = map[string]Group{"lock": Lock, "read": Read, "admin": Admin, "all": groupAll}

// String is the word for one group.
func (g Group) String() string {
	for word, group := range commandGroups {
		if group == g {
			return word
		}
	}
	return ""
}

// Groups are the groups of commands that the user may run.
func (u *User) Groups() (all Group) {
	switch {
	case len(u.Commands) > 0:
		for _, word := range u.Commands {
			all |= commandGroups[word]
		}
		return all
	case u.Confined() || !u.MayForce():
		return Lock | Read
	}
	return groupAll
}

// ValidateUsers joins one error for each user that is not valid.
func ValidateUsers(users []User) error {
	var errs []error
	seen, certificates := make(map[string]bool, len(users)), make(map[string]bool)
	for i, u := range users {
		err := u.validate()
		switch {
		case err == nil && u.CertCN != "" && certificates[u.CertCN]:
			err = fmt.Errorf("user %q: cert_cn %q is that of another user", u.Name, u.CertCN)
		case u.Name == "":
			err = fmt.Errorf("user %d has no name (the user of AUTH with a password alone is \"default\")", i+1)
		case seen[u.Name]:
			err = fmt.Errorf("user %q is named twice", u.Name)
		}
		if err != nil {
			errs = append(errs, &redlock.OptionError{Option: "Users", Reason: err.Error()})
		}
		seen[u.Name], certificates[u.CertCN] = true, true
	}
	return errors.Join(errs...)
}

// validate returns what is wrong with the user, or nil.
func (u *User) validate() error {
	switch {
	case u.Password == "" && u.CertCN == "":
		return fmt.Errorf("user %q has no password", u.Name)
	case u.Admin != nil && len(u.Commands) > 0:
		return fmt.Errorf("user %q: admin and commands are both given: put \"admin\" into commands, or leave it out there", u.Name)
	case len(u.CertCN) > certCNMax:
		return fmt.Errorf("user %q: cert_cn has %d bytes, at most %d are possible", u.Name, len(u.CertCN), certCNMax)
	case len(u.Name)+len(u.Password) > LoginMax:
		return fmt.Errorf("the name and the password of user %.20q have %d bytes: AUTH takes %d", u.Name, len(u.Name)+len(u.Password), LoginMax)
	}
	for _, word := range u.Commands {
		if commandGroups[word] == 0 {
			return fmt.Errorf("user %q: commands has %.20q: its words are lock, read, admin and all", u.Name, word)
		}
	}
	if err := checkPassword(u.Password); err != nil {
		return fmt.Errorf("the password of user %q: %w", u.Name, err)
	}
	for _, n := range []struct {
		name       string
		value, max int
	}{
		{"max_connections", u.MaxConnections, 10_000_000},
		{"max_locks", u.MaxLocks, 100_000_000},
		{"max_memory", u.MaxMemory, 1 << 40},
		{"max_waiters", u.MaxWaiters, 10_000_000},
	} {
		if n.value < 0 || n.value > n.max {
			return fmt.Errorf("user %q: %s = %d is outside 0 … %d", u.Name, n.name, n.value, n.max)
		}
	}
	if u.MaxTTL < 0 || u.MaxTTL > 24*time.Hour {
		return fmt.Errorf("user %q: max_ttl = %v is outside 0s … 24h", u.Name, u.MaxTTL)
	}
	for _, l := range []struct {
		name     string
		patterns []string
	}{{"resources", u.Resources}, {"channels", u.Channels}} {
		if len(l.patterns) > ResourcesMax {
			return fmt.Errorf("user %q has %d patterns in %s, at most %d are possible", u.Name, len(l.patterns), l.name, ResourcesMax)
		}
		for _, pattern := range l.patterns {
			if pattern == "" || len(pattern) > redlock.MaxResourceLen {
				return fmt.Errorf("user %q: a pattern in %s has %d bytes, it must have 1 … %d", u.Name, l.name, len(pattern), redlock.MaxResourceLen)
			}
		}
	}
	return nil
}

// Confined reports whether the user may use some resources only. A nil user is one where none are
// configured.
func (u *User) Confined() bool { return u != nil && len(u.Resources) > 0 }

// SeesMasters reports whether the user may learn the names of masters and what these say: it may
// administer the server, and all of its resources. Others learn how many masters are out.
func (u *User) SeesMasters() bool { return u == nil || !u.Confined() && u.Groups()&Admin != 0 }

// SeesTokens reports whether a user may learn the tokens of the locks that it may look at. Each of them
// is the right to release its lock, so others see digests of them.
func SeesTokens(u *User) bool { return u == nil || u.Groups()&Lock != 0 }

// MayForce reports whether the user may release what others hold, if it may use the resource.
func (u *User) MayForce() bool {
	switch {
	case u == nil:
		return true
	case len(u.Commands) > 0:
		return u.Groups()&Admin != 0
	case u.Admin != nil:
		return *u.Admin
	}
	return !u.Confined()
}

// May reports whether the user may use the resource of this name.
func (u *User) May(name string) bool {
	return !u.Confined() || MatchesAny(u.Resources, name)
}

// AllChannels are the patterns of the channels that the user may use; none: all.
func (u *User) AllChannels() []string {
	switch {
	case u == nil:
		return nil
	case len(u.Channels) > 0:
		return u.Channels
	}
	return u.Resources
}

// MayChannel reports whether the user may use the channel of this name.
func (u *User) MayChannel(name string) bool {
	own := u.AllChannels()
	return len(own) == 0 || MatchesAny(own, name)
}

// MayMatch reports whether the user may use all channels that match the pattern. As in Redis, it may if
// the pattern is literally one of its own.
func (u *User) MayMatch(pattern string) bool {
	own := u.AllChannels()
	return len(own) == 0 || slices.Contains(own, pattern)
}

// LosesBy reports whether a connection of the user must not go on when the user becomes next: its
// password is another one, or next may do less. Limits are no rights: they bound what comes.
func (u *User) LosesBy(next *User) bool {
	return sumOf(u.Password) != sumOf(next.Password) || u.CertCN != next.CertCN || u.Groups()&^next.Groups() != 0 || u.MayForce() && !next.MayForce() ||
		!covers(next.Resources, u.Resources) || !covers(next.AllChannels(), u.AllChannels())
}

// covers reports whether each name that some pattern of before matches is matched by after. It knows
// only that a pattern covers itself. No pattern stands for all names.
func covers(after, before []string) bool {
	return len(after) == 0 || len(before) > 0 && containsAll(after, before)
}

// containsAll reports whether list has each of some.
func containsAll(list, some []string) bool {
	return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(list, one) })
}
