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
	// changeAtStart: the new value is in force after a restart.
	changeAtStart change = iota
	// changeLive: the new value is in force at once.
	changeLive
	// changeMembership: the membership of the masters has the value in force, and the setting has none,
	// except for a first start.
	changeMembership
	// changeUnread: a server does not read it, only commands that ask one do.
	changeUnread
)

// NotInForce begins each part of the reply to CONFIG RELOAD that names settings whose new value is not
// in force.
const NotInForce = "; not in force"

// Changes says what is different in next, which a running server has read to replace c: the names of
// the settings that can change, with those of the users; those whose new value is in force after a
// restart; and those that the membership of the masters has. next shows the value of c for the last
// two. If the last user is gone, it returns an error, and next must not be used.
func (c *Config) Changes(next *Config) (changed, atStart, membership []string, err error) {
	for i, s := range c.Settings {
		other := next.Settings[i]
		switch {
		case s.change == changeUnread, c.sameValue(next, s, other):
		case s.change == changeMembership:
			membership, next.Settings[i] = append(membership, s.Name), s
		case s.change == changeAtStart:
			atStart, next.Settings[i] = append(atStart, s.Name), s
		case s.Name == "auth.users" && len(next.Front.Users) == 0: // an empty file must not make everybody an administrator
			err = next.errorAt(s.Name, errors.New("the settings have no users any more: taking away the last login needs a restart; put a user back, or restart redlockd"))
		case s.Name == "auth.users":
			changed = append(changed, s.Name+" ("+strings.Join(userChanges(c.Front.Users, next.Front.Users), ", ")+")")
		default:
			changed = append(changed, s.Name)
		}
	}
	return changed, atStart, membership, err
}

// Keep has c keep what a reload cannot change, as before has it. It is called after Changes.
func (c *Config) Keep(before *Config) {
	c.Listen, c.HTTPListen = before.Listen, before.HTTPListen
	c.masters, c.Engine.Masters, c.Engine.Common = before.masters, before.Engine.Masters, before.Engine.Common
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
