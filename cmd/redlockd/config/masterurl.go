package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

const urlForm = "redis://user:password@host:port/db is the form, or rediss:// with TLS; what is special in a password is written as % and two digits (@ is %40)"

// masterOf reads a master as it is named in one word: host:port, the path of a unix socket, or a URL, which becomes a table. No error
// shows the word: a password may stand in it.
func masterOf(text string) (masterEntry, error) {
	scheme, _, isURL := strings.Cut(text, "://")
	switch {
	case !isURL && strings.Contains(text, "@"):
		return masterEntry{}, errors.New("an address has no @; of a URL, " + urlForm + ", and a comma %2C")
	case !isURL:
		return masterEntry{addr: text}, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return masterEntry{}, errors.New("a URL cannot be read: " + urlForm)
	case u.Scheme != "redis" && u.Scheme != "rediss":
		return masterEntry{}, fmt.Errorf("%q is no scheme of a master: %s", scheme, urlForm)
	case u.Hostname() == "":
		return masterEntry{}, errors.New("a URL names no host: " + urlForm)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return masterEntry{}, errors.New("a URL has something behind ? or #, which redlockd does not know: " + urlForm)
	}
	table := map[string]any{"addr": net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379"))}
	if name := u.User.Username(); name != "" {
		table["username"] = name
	}
	if password, _ := u.User.Password(); password != "" {
		table["password"] = password
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		n, err := strconv.ParseUint(db, 10, 31)
		if err != nil {
			return masterEntry{}, errors.New("the database in a URL is no number: " + urlForm)
		}
		table["db"] = int64(n)
	}
	if u.Scheme == "rediss" {
		table["tls"] = true
	}
	e := masterEntry{table: table}
	if err := e.overlay(new(access)); err != nil {
		return masterEntry{}, err
	}
	if len(table) == 1 {
		e.table = nil // the address alone
	}
	return e, nil
}
