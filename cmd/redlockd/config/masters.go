package config

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"redlockd/redlock"
)

// access is how a master is reached and what opens it: the second half of [master], and the part that a [[masters]]
// table of its own may say differently.
type access struct {
	username, password, passwordFile string
	db                               int
	tls                              bool
	tlsCA, tlsCert, tlsKey           string
	tlsServerName                    string
}

// settings are the fields of a, named without group.
func (a *access) settings() []*Setting {
	return []*Setting{
		{Name: "username", value: stringValue(&a.username), Usage: "log in as this user; empty: as the default user"},
		{Name: "password", value: stringValue(&a.password), Usage: "log in with this password; empty: do not log in", secret: true},
		{Name: "password_file", value: stringValue(&a.passwordFile), Usage: "file that holds the password"},
		{Name: "db", value: intValue(&a.db), Usage: "number of the database"},
		{Name: "tls", value: boolValue(&a.tls), Usage: "encrypt the connections"},
		{Name: "tls_ca", value: stringValue(&a.tlsCA), Usage: "file with the authorities of the masters' certificates; empty: those of the system"},
		{Name: "tls_cert", value: stringValue(&a.tlsCert), Usage: "file with a certificate to show the masters"},
		{Name: "tls_key", value: stringValue(&a.tlsKey), Usage: "file with the private key of tls_cert"},
		{Name: "tls_server_name", value: stringValue(&a.tlsServerName), Usage: "name in the masters' certificates; empty: the host of the address"},
	}
}

// masterEntry is one master as it is named: an address alone, or a table with more.
type masterEntry struct {
	addr  string
	name  string         // for all proxies, where they reach it by different addresses; empty: addr
	table map[string]any // nil: the address alone
}

// settings are the fields that no other master shares.
func (e *masterEntry) settings() []*Setting {
	return []*Setting{{Name: "addr", value: stringValue(&e.addr)}, {Name: "name", value: stringValue(&e.name)}}
}

// masterList is the value of the setting masters.
type masterList struct{ entries []masterEntry }

// setText takes addresses or URLs with commas between them.
func (l *masterList) setText(text string) error {
	var entries []masterEntry
	for addr := range strings.SplitSeq(text, ",") {
		addr = strings.TrimSpace(addr)
		switch {
		case addr == "" && strings.Contains(text, "@"):
			return errors.New("an address is missing between two commas") // a password may stand in the others
		case addr == "":
			return fmt.Errorf("an address is missing in %q", text)
		}
		e, err := masterOf(addr)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	l.entries = entries
	return nil
}

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

// setTOML takes a list of addresses, of tables, or of both.
func (l *masterList) setTOML(v any) error {
	var entries []masterEntry
	err := eachMember(v, `masters = ["host:port", …], or one [[masters]] for each`, func(member any) error {
		switch m := member.(type) {
		case string:
			e, err := masterOf(m)
			entries = append(entries, e)
			return err
		case map[string]any:
			e := masterEntry{table: m}
			// Wrong keys and types are found here; the values are taken by resolve, on top of what all masters share.
			err := e.overlay(new(access))
			entries = append(entries, e)
			return err
		default:
			return fmt.Errorf("an address or a table is needed, not %s", kindOf(member))
		}
	})
	if err == nil {
		l.entries = entries
	}
	return err
}

// overlay writes what the entry's own table says over what all masters share.
func (e *masterEntry) overlay(a *access) error {
	if e.table == nil {
		return nil
	}
	fields := append(e.settings(), a.settings()...)
	// Of two ways to name the password, the table's own replaces the shared one.
	_, own := e.table["password"]
	_, ownFile := e.table["password_file"]
	if own || ownFile {
		a.password, a.passwordFile = "", ""
	}
	// A table that says tls = false does without the shared files, too.
	if on, ok := e.table["tls"].(bool); ok && !on {
		a.tlsCA, a.tlsCert, a.tlsKey, a.tlsServerName = "", "", "", ""
	}
	errs := []error{setFields(fields, e.table)}
	if own && ownFile {
		errs = append(errs, &partError{".password_file", errors.New("password is given too: one of them is enough")})
	}
	if strings.Contains(e.addr, "@") || strings.Contains(e.addr, "://") {
		errs = append(errs, &partError{".addr", errors.New("host:port is needed, or the path of a unix socket; username, password, db and tls stand beside it")})
	}
	if errs[0] == nil && e.addr == "" {
		errs = append(errs, &partError{"", errors.New("addr is missing")})
	}
	return errors.Join(errs...)
}

// setFields sets the fields that a table in a list names.
func setFields(fields []*Setting, table map[string]any) error {
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	var errs []error
	for key, v := range table {
		i := slices.Index(names, key)
		if i < 0 {
			errs = append(errs, &partError{"." + key, fmt.Errorf("unknown setting%s; those of a table here are %s",
				DidYouMean(key, names), strings.Join(names, ", "))})
			continue
		}
		errs = append(errs, inPart("."+key, fields[i].value.setTOML(v))...)
	}
	return errors.Join(errs...)
}

func (l *masterList) String() string {
	var b strings.Builder
	b.WriteByte('[')
	for i, e := range l.entries {
		if i > 0 {
			b.WriteString(", ")
		}
		if e.table == nil {
			b.WriteString(quoteTOML(e.addr))
			continue
		}
		var own access
		e.overlay(&own) // was checked when it was set
		var fields []string
		for _, s := range append(e.settings(), own.settings()...) {
			if _, named := e.table[s.Name]; named {
				fields = append(fields, s.Name+" = "+s.Text())
			}
		}
		b.WriteString("{" + strings.Join(fields, ", ") + "}")
	}
	b.WriteByte(']')
	return b.String()
}

// resolveMasters makes the engine's masters of the list, reading the files that it names.
func (c *Config) resolveMasters() error {
	var errs []error
	add := func(err error) {
		// What is wrong with the shared part is wrong with every master; it is told once.
		if err != nil && !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
			errs = append(errs, err)
		}
	}
	seen := make(map[string]int)
	onCommandLine := c.Find("masters").source.kind == fromFlag
	for i, e := range c.masterList.entries {
		if _, has := e.table["password"]; has && onCommandLine {
			c.warn("--masters holds a password, and everybody on this machine can see it in the list of processes: name the masters in REDLOCKD_MASTERS or in a file")
		}
		name := fmt.Sprintf("masters[%d]", i)
		a := c.master
		e.overlay(&a) // was checked when it was set
		if first, twice := seen[e.addr]; twice {
			add(c.errorAt(name, fmt.Errorf("%s is named twice, as number %d and %d: each vote must come from a master of its own", e.addr, first+1, i+1)))
			continue
		}
		seen[e.addr] = i
		host, err := hostOf(e.addr)
		if err != nil {
			add(c.errorAt(name, err))
			continue
		}
		m := redlock.Master{Addr: e.addr, Name: e.name, Username: a.username, DB: a.db}
		m.Password, m.TLS, err = c.open(a, host)
		for _, err := range Flatten(err) {
			fault := err.(*partError)
			at := "master." + fault.part
			if _, own := e.table[fault.part]; own {
				at = name + "." + fault.part
			}
			add(c.errorAt(at, fault.err))
		}
		c.Engine.Masters = append(c.Engine.Masters, m)
	}
	return errors.Join(errs...)
}

// open reads the files that a names: the password, and what TLS needs to reach host. Its errors are of type *partError, with the
// name of the field.
func (c *Config) open(a access, host string) (password string, t *tls.Config, err error) {
	var errs []error
	password = a.password
	if a.passwordFile != "" {
		if password, err = c.readSecret(a.passwordFile); err != nil {
			errs = append(errs, &partError{"password_file", err})
		}
	} else if a.username != "" && password == "" {
		errs = append(errs, &partError{"username", fmt.Errorf("user %q has no password", a.username)})
	}
	if t, err = c.masterTLS(&a, host); err != nil {
		errs = append(errs, err)
	}
	return password, t, errors.Join(errs...)
}

// hostOf is the host of an address host:port; it is empty for the path of a unix socket.
func hostOf(addr string) (string, error) {
	if strings.HasPrefix(addr, "/") {
		return "", nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		return "", fmt.Errorf("%q is no address: host:port is needed, or the path of a unix socket", addr)
	}
	return host, checkPort(port)
}

func checkPort(port string) error {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n > 65535 {
		return fmt.Errorf("%q is no port: a number up to 65535 is needed", port)
	}
	return nil
}

// readSecret reads a password from a file, without the line end that editors leave there.
func (c *Config) readSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	c.warn(exposedSecret(path, "a password"))
	return secret, nil
}

// warn tells the operator, once however many masters it is about; "": nothing.
func (c *Config) warn(warning string) {
	if warning != "" && !slices.Contains(c.Warnings, warning) {
		c.Warnings = append(c.Warnings, warning)
	}
}
