package config

import (
	"errors"
	"fmt"
	"strings"

	"redlockd/proxy"
)

// userEntry is one user as it is named.
type userEntry struct {
	proxy.User
	passwordFile string
}

func (u *userEntry) settings() []*Setting {
	return []*Setting{
		{Name: "name", place: &u.Name},
		{Name: "password", place: &u.Password, secret: true},
		{Name: "password_file", place: &u.passwordFile},
		{Name: "cert_cn", place: &u.CertCN},
		{Name: "resources", place: &u.Resources},
		{Name: "admin", place: &u.Admin},
		{Name: "channels", place: &u.Channels},
		{Name: "commands", place: &u.Commands},
		{Name: "max_connections", place: &u.MaxConnections},
		{Name: "max_locks", place: &u.MaxLocks},
		{Name: "max_memory", place: &u.MaxMemory},
		{Name: "max_waiters", place: &u.MaxWaiters},
		{Name: "max_ttl", place: &u.MaxTTL},
	}
}

// userList is the value of the setting auth.users.
type userList []userEntry

func (l *userList) setTOML(v any) error {
	return setTables((*[]userEntry)(l), v, (*userEntry).settings, "one [[auth.users]] for each", "name and password")
}

func (l *userList) String() string { return tablesText(*l, (*userEntry).settings) }

// setText takes name:password pairs with commas between them. Passwords with a comma, resources and
// limits need the file.
func (l *userList) setText(text string) error {
	var entries []userEntry
	for pair := range strings.SplitSeq(text, ",") {
		name, password, ok := strings.Cut(pair, ":")
		if !ok {
			return errors.New("name:password is needed for each user, with commas between them")
		}
		entries = append(entries, userEntry{User: proxy.User{Name: strings.TrimSpace(name), Password: password}})
	}
	*l = entries
	return nil
}

// resolveUsers fills Front.Users. It reads the password files, and leaves other checks of a user to
// proxy.Options.Validate.
func (c *Config) resolveUsers() error {
	var errs []error
	for i, u := range c.users {
		var err error
		switch {
		case u.Password != "" && u.passwordFile != "":
			err = errors.New("password and password_file are both given: one of them is enough")
		case u.Resources != nil && len(u.Resources) == 0:
			err = errors.New("resources is empty: leave it out for a user who may use everything, and name no user for one who may use nothing")
		case u.Channels != nil && len(u.Channels) == 0:
			err = errors.New("channels is empty: leave it out for the patterns of resources")
		case u.Commands != nil && len(u.Commands) == 0:
			err = errors.New("commands is empty: leave it out for those that a user of this kind has, or name some of lock, read, admin and all")
		case u.CertCN != "" && c.tls.clientCA == "":
			err = errors.New("cert_cn needs tls_client_ca in [server]: without it, clients show no certificates")
		case u.passwordFile != "":
			if u.Password, err = c.readSecret(u.passwordFile); err != nil {
				err = fmt.Errorf("password_file: %w", err)
			}
		}
		if ttl := u.MaxTTL; err == nil && ttl != 0 && (ttl < c.Engine.MinTTL || ttl > c.Engine.MaxTTL) {
			err = fmt.Errorf("max_ttl = %s of user %q is not from min_ttl = %s to max_ttl = %s in [locks]",
				FormatDuration(ttl), u.Name, FormatDuration(c.Engine.MinTTL), FormatDuration(c.Engine.MaxTTL))
		}
		if err != nil {
			errs = append(errs, c.errorAt(fmt.Sprintf("auth.users[%d]", i), err))
			u.Password = hidden // so that Validate does not report it a second time
		}
		c.Front.Users = append(c.Front.Users, u.User)
	}
	return errors.Join(errs...)
}
