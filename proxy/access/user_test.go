package access

import (
	"testing"
	"time"
)

// Goal: a reload closes the connections of a user that may do less than before, and no others.
func TestLosses(t *testing.T) {
	full := User{Name: "u", Password: "p", CertCN: "cn", Resources: []string{"a", "b"}, Channels: []string{"c", "d"}, Commands: []string{"lock", "read"}}
	for _, c := range []struct {
		name   string
		change func(u *User)
		loses  bool
	}{
		{"nothing", func(*User) {}, false},
		{"limits", func(u *User) { u.MaxLocks, u.MaxTTL = 1, time.Second }, false},
		{"password", func(u *User) { u.Password = "q" }, true},
		{"certificate", func(u *User) { u.CertCN = "other" }, true},
		{"more resources", func(u *User) { u.Resources = []string{"c", "b", "a"} }, false},
		{"all resources", func(u *User) { u.Resources = nil }, false},
		{"fewer resources", func(u *User) { u.Resources = []string{"a"} }, true},
		{"more channels", func(u *User) { u.Channels = []string{"c", "d", "e"} }, false},
		{"fewer channels", func(u *User) { u.Channels = []string{"d"} }, true},
		{"the channels of resources", func(u *User) { u.Channels = nil }, true},
		{"more commands", func(u *User) { u.Commands = []string{"all"} }, false},
		{"the same commands", func(u *User) { u.Commands = nil }, false},
		{"fewer commands", func(u *User) { u.Commands = []string{"lock"} }, true},
	} {
		next := full
		c.change(&next)
		if got := full.LosesBy(&next); got != c.loses {
			t.Errorf("%s: loses something: %v, want %v", c.name, got, c.loses)
		}
	}
	root := User{Name: "u", Password: "p"}
	for name, next := range map[string]User{"resources": {Password: "p", Resources: []string{"*"}}, "channels": {Password: "p", Channels: []string{"*"}}} {
		if !root.LosesBy(&next) {
			t.Errorf("a user without bounds gets %s, and loses nothing", name)
		}
	}
}
