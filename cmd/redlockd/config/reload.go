package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"redlockd/proxy"
)

// change says what becomes of a setting that is another one when a running server reads its settings
// again.
type change uint8

const (
	// changeAtStart: the server refuses the new settings, all of them, until it is restarted.
	changeAtStart change = iota
	// changeLive: the new value is in force at once.
	changeLive
	// changeMembership: the membership of the masters has the value in force, and the setting has none,
	// except for a first start.
	changeMembership
	// changeUnread: a server does not read it, only commands that ask one do.
	changeUnread
)

// Changes says what is different in next, which a running server has read to replace c: the names of
// the settings that can change, with those of the users. noted are settings that count again at the
// next start only. If any other setting differs, or the last user is gone, it returns an error that
// names each, and next must not be used.
func (c *Config) Changes(next *Config) (changed, noted []string, err error) {
	var errs []error
	for i, s := range c.Settings {
		other := next.Settings[i]
		switch {
		case s.change == changeUnread, c.sameValue(next, s, other):
		case s.change == changeMembership:
			noted = append(noted, s.Name)
		case s.change == changeAtStart:
			errs = append(errs, next.errorAt(s.Name, errors.New("this cannot change while redlockd runs: take the change back, or restart redlockd")))
		case s.Name == "auth.users" && len(next.Front.Users) == 0: // an empty file must not make everybody an administrator
			errs = append(errs, next.errorAt(s.Name, errors.New("the settings have no users any more: taking away the last login needs a restart; put a user back, or restart redlockd")))
		case s.Name == "auth.users":
			changed = append(changed, s.Name+" ("+strings.Join(userChanges(c.Front.Users, next.Front.Users), ", ")+")")
		default:
			changed = append(changed, s.Name)
		}
	}
	return changed, noted, errors.Join(errs...)
}

// sameValue compares a setting of c with that of next. What a password file holds counts as the value.
func (c *Config) sameValue(next *Config, s, other *Setting) bool {
	switch s.Name {
	case "auth.users":
		return reflect.DeepEqual(c.Front.Users, next.Front.Users)
	case "masters":
		return reflect.DeepEqual(c.masters, next.masters)
	case "master.password_file":
		if reflect.DeepEqual(c.masters, next.masters) {
			for i, m := range c.Engine.Masters {
				if m.Password != next.Engine.Masters[i].Password {
					return false
				}
			}
			if c.Engine.Common.Password != next.Engine.Common.Password {
				return false
			}
		}
	}
	return s.unhidden() == other.unhidden()
}

// userChanges names the users that were added, removed or changed.
func userChanges(before, after []proxy.User) (all []string) {
	indexIn := func(list []proxy.User, name string) int {
		return slices.IndexFunc(list, func(u proxy.User) bool { return u.Name == name })
	}
	for _, u := range before {
		if indexIn(after, u.Name) < 0 {
			all = append(all, fmt.Sprintf("%q removed", u.Name))
		}
	}
	for _, u := range after {
		if at := indexIn(before, u.Name); at < 0 {
			all = append(all, fmt.Sprintf("%q added", u.Name))
		} else if !reflect.DeepEqual(before[at], u) {
			all = append(all, fmt.Sprintf("%q changed", u.Name))
		}
	}
	if len(all) == 0 {
		all = append(all, "in another order")
	}
	return all
}
