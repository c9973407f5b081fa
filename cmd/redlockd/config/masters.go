package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"redlockd/redlock"
)

// masterSettings are the settings of one master: the second half of [master], which its own [[masters]]
// table can override.
type masterSettings struct {
	redlock.Master // TLS is made by resolveMasters

	passwordFile           string
	tls                    bool
	tlsCA, tlsCert, tlsKey string
	tlsServerName          string
}

// settings are the fields that masters may share. Their names begin with group.
func (m *masterSettings) settings(group string) []*Setting {
	all := []*Setting{
		{Name: "username", place: &m.Username, Usage: "log in as this user; empty: as the default user"},
		{Name: "password", place: &m.Password, Usage: "log in with this password; empty: do not log in", secret: true},
		{Name: "password_file", place: &m.passwordFile, Usage: "file that holds the password"},
		{Name: "db", place: &m.DB, Usage: "number of the database"},
		{Name: "tls", place: &m.tls, Usage: "encrypt the connection"},
		{Name: "tls_ca", place: &m.tlsCA, Usage: "file with the authorities that sign the certificate there; empty: those of the system"},
		{Name: "tls_cert", place: &m.tlsCert, Usage: "file with a certificate to show there"},
		{Name: "tls_key", place: &m.tlsKey, Usage: "file with the private key of tls_cert"},
		{Name: "tls_server_name", place: &m.tlsServerName, Usage: "name in the certificate there; empty: the host of the address"},
	}
	for _, s := range all {
		s.Name = group + s.Name
	}
	return all
}

// ownSettings are the fields of a [[masters]] table: addr and name, and those of settings.
func (m *masterSettings) ownSettings() []*Setting {
	return append([]*Setting{{Name: "addr", place: &m.Addr}, {Name: "name", place: &m.Name}}, m.settings("")...)
}

// masterTable is one [[masters]] table. A master that is named by its address alone is a table with
// addr.
type masterTable map[string]any

// masterList is the value of the setting masters.
type masterList []masterTable

// embedded stands in the place of addresses for masters inside the process.
const embedded = "embedded"

func (l masterList) embedded() bool { return len(l) == 1 && l[0]["addr"] == embedded }

// setText takes addresses or URLs with commas between them.
func (l *masterList) setText(text string) error {
	var tables []masterTable
	if trimmed := strings.ReplaceAll(text, ", ", ","); strings.ContainsAny(trimmed, " ;\t\"'") && !strings.Contains(text, "@") {
		return fmt.Errorf("%q is no list of addresses: write %s", text, addressesIn(strings.Trim(text, "[] ")))
	}
	for addr := range strings.SplitSeq(text, ",") {
		addr = strings.TrimSpace(addr)
		switch {
		case addr == "" && strings.Contains(text, "@"):
			return errors.New("an address is missing between two commas") // a password may stand in the others
		case addr == "":
			return fmt.Errorf("an address is missing in %q", text)
		}
		table, err := masterOf(addr)
		if err != nil {
			return err
		}
		tables = append(tables, table)
	}
	*l = tables
	return nil
}

const urlForm = "redis://user:password@host:port/db is the form, or rediss:// with TLS; what is special in a password is written as % and two digits (@ is %40)"

// masterOf reads host:port or the path of a unix socket, with /db at the end or without, or a URL. No
// error shows the text, because it may hold a password.
func masterOf(text string) (masterTable, error) {
	scheme, _, isURL := strings.Cut(text, "://")
	switch {
	case !isURL && strings.Contains(text, "@"):
		return nil, errors.New("an address has no @; of a URL, " + urlForm + ", and a comma %2C")
	case !isURL:
		table := masterTable{"addr": text}
		if addr, db, named := redlock.SplitAddr(text); named {
			table = masterTable{"addr": addr, "db": int64(db)}
		}
		return table, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("a URL cannot be read: " + urlForm)
	case u.Scheme != "redis" && u.Scheme != "rediss":
		return nil, fmt.Errorf("%q is no scheme of a master: %s", scheme, urlForm)
	case u.Hostname() == "":
		return nil, errors.New("a URL names no host: " + urlForm)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("a URL has something behind ? or #, which redlockd does not know: " + urlForm)
	}
	table := masterTable{"addr": net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379"))}
	if name := u.User.Username(); name != "" {
		table["username"] = name
	}
	if password, _ := u.User.Password(); password != "" {
		table["password"] = password
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		n, err := strconv.ParseUint(db, 10, 31)
		if err != nil {
			return nil, errors.New("the database in a URL is no number: " + urlForm)
		}
		table["db"] = int64(n)
	}
	if u.Scheme == "rediss" {
		table["tls"] = true
	}
	return table, nil
}

// setTOML takes a list of addresses, of tables, or of both; or the word embedded.
func (l *masterList) setTOML(v any) error {
	var tables []masterTable
	if v == embedded {
		v = []any{v}
	}
	meant := ""
	if _, isText := v.(string); isText {
		meant = meantMasters(v)
	}
	shape := fmt.Sprintf("masters = %s, or one [[masters]] for each", cmp.Or(meant, `["host:port", …]`))
	err := eachMember(v, shape, func(member any) error {
		switch m := member.(type) {
		case string:
			table, err := masterOf(m)
			tables = append(tables, table)
			return err
		case map[string]any:
			// This finds wrong keys and types. resolveMasters takes the values, on top of what all
			// masters share.
			tables = append(tables, m)
			return masterTable(m).overlay(new(masterSettings))
		default:
			return fmt.Errorf("an address or a table is needed, not %s", kindOf(member))
		}
	})
	if err == nil {
		*l = tables
	}
	return err
}

// meantMasters is the list that was probably meant by a value of the wrong kind, without passwords.
func meantMasters(v any) string {
	text, _ := v.(string)
	var l masterList
	if all, isList := v.([]any); (!isList || l.setTOML(all) != nil) && l.setText(addressesIn(text)) != nil {
		return `["host:port", …]`
	}
	return l.String()
}

// addressesIn has commas between addresses, in place of what else may stand between them.
func addressesIn(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", ;\t\"'", r) }), ",")
}

// overlay writes the table's values over those that all masters share.
func (table masterTable) overlay(m *masterSettings) error {
	// The table's password or password_file replaces both shared ones.
	_, own := table["password"]
	_, ownFile := table["password_file"]
	if own || ownFile {
		m.Password, m.passwordFile = "", ""
	}
	// With tls = false, the table does not use the shared files either.
	if on, ok := table["tls"].(bool); ok && !on {
		m.tlsCA, m.tlsCert, m.tlsKey, m.tlsServerName = "", "", "", ""
	}
	errs := []error{setFields(m.ownSettings(), table)}
	if own && ownFile {
		errs = append(errs, &partError{".password_file", errors.New("password is given too: one of them is enough")})
	}
	if _, _, hasDB := redlock.SplitAddr(m.Addr); hasDB || strings.Contains(m.Addr, "@") || strings.Contains(m.Addr, "://") {
		errs = append(errs, &partError{".addr", errors.New("host:port is needed, or the path of a unix socket; username, password, db and tls stand beside it")})
	}
	if errs[0] == nil && m.Addr == "" {
		errs = append(errs, &partError{"", errors.New("addr is missing")})
	}
	return errors.Join(errs...)
}

// setFields sets the fields that the table of a list has.
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
		errs = append(errs, inPart("."+key, fields[i].setTOML(v))...)
	}
	return errors.Join(errs...)
}

func (l *masterList) String() string {
	if l.embedded() {
		return TOML(embedded)
	}
	var all []string
	for _, table := range *l {
		var m masterSettings
		table.overlay(&m) // was checked when it was set
		if len(table) == 1 {
			all = append(all, TOML(m.Addr))
		} else {
			all = append(all, inlineTable(m.ownSettings(), func(_ int, s *Setting) bool { _, named := table[s.Name]; return named }))
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// inlineTable writes the fields that are wanted as TOML does on one line.
func inlineTable(fields []*Setting, wanted func(int, *Setting) bool) string {
	var all []string
	for i, s := range fields {
		if wanted(i, s) {
			all = append(all, s.Name+" = "+s.Text())
		}
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// resolveMasters fills Engine.Masters, unless they are embedded. It reads the files that the masters
// name.
func (c *Config) resolveMasters() error {
	if c.masters.embedded() {
		return nil
	}
	var errs []error
	add := func(err error) {
		// A fault of [master] comes up for every master. Report it once.
		if err != nil && !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
			errs = append(errs, err)
		}
	}
	seen := make(map[string]int)
	onCommandLine := c.Find("masters").source.kind == fromFlag
	for i, table := range c.masters {
		if _, has := table["password"]; has && onCommandLine {
			c.warn("--masters holds a password, and everybody on this machine can see it in the list of processes: name the masters in REDLOCKD_MASTERS or in a file")
		}
		name, m := fmt.Sprintf("masters[%d]", i), c.master
		table.overlay(&m) // was checked when it was set
		if first, twice := seen[m.Addr]; twice {
			add(c.errorAt(name, fmt.Errorf("%s is named twice, as number %d and %d: each vote must come from a master of its own", m.Addr, first+1, i+1)))
			continue
		}
		seen[m.Addr] = i
		host, err := hostOf(m.Addr, "6379")
		if err != nil {
			add(c.errorAt(name, err))
			continue
		}
		for _, err := range Flatten(c.readFilesOf(&m, host)) {
			fault := err.(*partError)
			at := "master." + fault.part
			if _, own := table[fault.part]; own {
				at = name + "." + fault.part
			}
			add(c.errorAt(at, fault.err))
		}
		c.Engine.Masters = append(c.Engine.Masters, m.Master)
	}
	if len(c.masters) > 0 {
		c.Engine.Common = c.commonMaster()
	}
	return errors.Join(errs...)
}

// commonMaster is what [master] says of a master that the list does not name. Where its files cannot be
// used, and no master of the list uses them, it has no credentials.
func (c *Config) commonMaster() redlock.Master {
	m := c.master
	if c.readFilesOf(&m, "any") != nil {
		return redlock.Master{DB: m.DB}
	}
	return m.Master
}

// readFilesOf reads the files that m names: the password, and what TLS needs to reach host. Its errors
// are of type *partError, with the name of the field.
func (c *Config) readFilesOf(m *masterSettings, host string) error {
	var passwordErr, tlsErr error
	if m.passwordFile != "" {
		if m.Password, passwordErr = c.readSecret(m.passwordFile); passwordErr != nil {
			passwordErr = &partError{"password_file", passwordErr}
		}
	} else if m.Username != "" && m.Password == "" {
		passwordErr = &partError{"username", fmt.Errorf("user %q has no password", m.Username)}
	}
	m.TLS, tlsErr = c.masterTLS(m, host)
	return errors.Join(passwordErr, tlsErr)
}

// hostOf is the host of an address host:port; it is empty for the path of a unix socket. usual is the
// port that an error proposes.
func hostOf(addr, usual string) (string, error) {
	if strings.HasPrefix(addr, "/") {
		return "", nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || strings.HasPrefix(addr, "unix:/") {
		meant := meantAddress(addr, usual, "127.0.0.1")
		if path, isSocket := SocketPath(addr); isSocket {
			meant = path
		}
		return "", fmt.Errorf("%q is no address: host:port is needed, or the path of a unix socket%s", addr, didYouMean(meant))
	}
	return host, checkPort(port)
}

// meantAddress is the address that was probably meant by one without a port, or of IPv6 without brackets.
// host stands for one that has only a port; "": none is known.
func meantAddress(addr, port, host string) string {
	at := strings.LastIndexByte(addr, ':')
	switch {
	case at > 0 && len(addr)-at > 4 && net.ParseIP(addr[:at]) != nil && checkPort(addr[at+1:]) == nil:
		return net.JoinHostPort(addr[:at], addr[at+1:])
	case net.ParseIP(addr) != nil:
		return net.JoinHostPort(addr, port)
	case checkPort(strings.TrimPrefix(addr, ":")) == nil:
		return host + ":" + strings.TrimPrefix(addr, ":")
	case hostName.MatchString(addr):
		return addr + ":" + port
	}
	return ""
}

var hostName = regexp.MustCompile(`^[[:alnum:]]([\w.-]*[[:alnum:]])?$`)

// didYouMean is DidYouMean for a text that is known.
func didYouMean(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", text)
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
		return "", unreadable(path, err)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	c.warn(exposedSecret(path, "a password"))
	return secret, nil
}

// warn adds a warning, unless it is there already or empty.
func (c *Config) warn(warning string) {
	if warning != "" && !slices.Contains(c.Warnings, warning) {
		c.Warnings = append(c.Warnings, warning)
	}
}
