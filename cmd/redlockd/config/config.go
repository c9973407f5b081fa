// Package config reads the settings of an operator and makes redlock.Options and proxy.Options of them.
// Flags win over the environment, the environment over the file, the file over the defaults. Each value
// knows its source, and each error names it.
//
//	Load → file.go, environment, flags     set the values of the settings (value.go)
//	     → resolve                         checks settings against each other
//	       → masters.go, users.go, policies.go, tls.go  read the files that settings name, and fill Config.Engine and Config.Front
//
// settings.go has the table of all settings. A new setting is added there. The values live in the
// options of the packages below, so that each setting has its default and its bounds in one place,
// there.
package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"redlockd/proxy"
	"redlockd/redlock"
)

// The flag and the variable that name the configuration file.
const (
	FileFlag     = "config"
	FileVariable = EnvironmentPrefix + "CONFIG"
)

// DefaultFile is read if it exists and no other file is named. Tests set another one; so can a build for
// a system with other paths (-ldflags "-X redlockd/cmd/redlockd/config.DefaultFile=…").
var DefaultFile = "/etc/redlockd/config.toml"

// Config is all settings, and the options that are made of them.
type Config struct {
	file  string         // path of the configuration file as it was given; empty: there is none
	named bool           // a file, a flag or a variable was given
	lines map[string]int // line of each key in the file, see keyLines
	// Settings in the order of config.toml. Their values point into the fields below.
	Settings []*Setting
	// Warnings are for the operator. redlockd runs all the same.
	Warnings []string

	Listen       []string      // host:port, or unix sockets, see SocketPath
	socketMode   string        // of the files of unix sockets
	SocketOwner  string        // of these files: user:group as chown takes it; empty: the user who runs redlockd
	protected    bool          // a listener beyond this machine needs users, see CheckServed
	HTTPListen   string        // empty: no HTTP
	HTTPTLS      *tls.Config   // nil: HTTP without TLS; filled by resolve
	DrainDelay   time.Duration // 0: none
	DrainTimeout time.Duration
	tls          serverTLS
	httpTLS      serverTLS
	LogLevel     string
	LogFormat    string
	AuditFile    string // empty: no audit

	masters masterList     // as they were named
	master  masterSettings // [master]: what holds for each master, unless its table says otherwise
	users   userList
	client  masterSettings // [client]

	// keyPairs are the certificates in use. looks are the functions that read replaced files again, see
	// renewed.
	keyPairs []*renewed[tls.Certificate]
	looks    []func(log *slog.Logger, now time.Time)

	Engine redlock.Options // Masters is filled by resolve; empty means the embedded ones
	Front  proxy.Options   // Users and TLSConfig are filled by resolve
}

// Load reads the configuration. flags has the text of each given flag by its name, environ is as
// os.Environ. The error joins everything that is wrong, each with its place.
func Load(flags map[string]string, environ []string) (*Config, error) {
	c := Default()
	variables := ownVariables(environ)
	path, given := flags[FileFlag]
	if !given {
		path = variables[FileVariable]
	}
	if _, err := os.Lstat(DefaultFile); path == "" && !given && !errors.Is(err, fs.ErrNotExist) {
		path = DefaultFile // also one that cannot be read: its settings count, and are not known
	}
	c.named = path != "" || len(flags)+len(variables) > 0
	var errs []error
	if path != "" {
		if err := c.readFile(path); err != nil {
			// Load stops here: most faults of other sources would follow from this one.
			return nil, err
		}
	} else if given {
		errs = append(errs, errors.New("--config: the path of a file is needed"))
	}
	errs = append(errs, c.readEnvironment(variables), c.readFlags(flags))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := c.resolve(); err != nil {
		return nil, err
	}
	return c, nil
}

// serviceLink matches what Kubernetes sets in every pod for a service whose name begins with redlockd:
// REDLOCKD_SERVICE_HOST=10.0.0.1, REDLOCKD_PORT=tcp://10.0.0.1:6380, REDLOCKD_PORT_6380_TCP_ADDR=10.0.0.1.
var serviceLink = regexp.MustCompile(`^\w+_(SERVICE_(HOST|PORT(_\w+)?)=|PORT=(tcp|udp|sctp)://|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?=)`)

// ownVariables picks the variables that begin with EnvironmentPrefix. It skips empty ones, because
// compose files and manifests set them, and those of Kubernetes.
func ownVariables(environ []string) map[string]string {
	variables := make(map[string]string)
	for _, pair := range environ {
		name, text, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, EnvironmentPrefix) && text != "" && !serviceLink.MatchString(pair) {
			variables[name] = text
		}
	}
	return variables
}

func (c *Config) readEnvironment(variables map[string]string) error {
	names := []string{FileVariable}
	var errs []error
	for _, s := range c.Settings {
		names = append(names, s.Environment())
		if text, ok := variables[s.Environment()]; ok {
			errs = append(errs, s.setFrom(source{fromEnvironment, s.Environment()}, text))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(removed)) {
		variable := (&Setting{Name: name}).Environment()
		if _, set := variables[variable]; set {
			errs = append(errs, fmt.Errorf("%s: %w", variable, errRemoved(name)))
			delete(variables, variable)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !slices.Contains(names, name) {
			errs = append(errs, fmt.Errorf("%s names no setting%s: correct it or unset it; redlockd help settings lists them", name, c.meantVariable(name, names)))
		}
	}
	return errors.Join(errs...)
}

// meantVariable asks whether a variable was meant to be another one: one that lacks its group, or the
// nearest.
func (c *Config) meantVariable(name string, names []string) string {
	var meant []string
	for _, s := range c.Settings {
		flag := EnvironmentPrefix + strings.ToUpper(strings.ReplaceAll(s.Flag, "-", "_"))
		if name == EnvironmentPrefix+strings.ToUpper(s.Key()) || s.Flag != "" && name == flag {
			meant = append(meant, s.Environment())
		}
	}
	if len(meant) > 0 {
		return " (did you mean " + strings.Join(meant, " or ") + "?)"
	}
	return DidYouMean(name, names)
}

func (c *Config) readFlags(flags map[string]string) error {
	var errs []error
	for _, s := range c.Settings {
		if text, ok := flags[s.Flag]; ok && s.Flag != "" {
			errs = append(errs, s.setFrom(source{fromFlag, "--" + s.Flag}, text))
		}
	}
	return errors.Join(errs...)
}

func (s *Setting) setFrom(from source, text string) error {
	if err := s.setText(text); err != nil {
		return fmt.Errorf("%s: %w", from.where, err)
	}
	s.source = from
	return nil
}

// resolve checks the settings against each other, reads the files that they name, and fills Engine and
// Front.
func (c *Config) resolve() error {
	errs := []error{c.checkListen()}
	if c.DrainDelay < 0 || c.DrainDelay > time.Hour {
		errs = append(errs, c.errorAt("server.drain_delay", fmt.Errorf("%s is outside 0s … 1h", FormatDuration(c.DrainDelay))))
	}
	if c.DrainTimeout < time.Millisecond || c.DrainTimeout > time.Hour {
		errs = append(errs, c.errorAt("server.drain_timeout", fmt.Errorf("%s is outside 1ms … 1h", FormatDuration(c.DrainTimeout))))
	}
	var err error
	for _, port := range []struct {
		table string
		files serverTLS
		to    **tls.Config
	}{{"server", c.tls, &c.Front.TLSConfig}, {"http", c.httpTLS, &c.HTTPTLS}} {
		*port.to, err = c.serverTLS(port.files)
		errs = append(errs, c.errorsAt(port.table, err))
	}
	c.warn(exposedAudit(c.AuditFile))
	errs = append(errs, c.chooseSharedPassword())
	mastersErr := c.resolveMasters()
	errs = append(errs, mastersErr, c.resolveUsers())

	masters := c.Engine.Masters
	if mastersErr != nil || len(masters) == 0 {
		// errs has the faults of the masters already; without masters, serve uses the embedded ones.
		// Either way, one that is right stands in here.
		c.Engine.Masters = []redlock.Master{{Addr: "embedded:0"}}
	}
	errs = append(errs, c.optionErrors(&c.Engine, c.Engine.Validate(), "masters"))
	c.Engine.Masters = masters
	if ttl := c.Front.DefaultTTL; ttl != 0 && (ttl < c.Engine.MinTTL || ttl > c.Engine.MaxTTL) {
		errs = append(errs, c.errorAt("compat.default_ttl", fmt.Errorf("%s is not from min_ttl = %s to max_ttl = %s",
			FormatDuration(ttl), FormatDuration(c.Engine.MinTTL), FormatDuration(c.Engine.MaxTTL))))
	}
	errs = append(errs, c.checkPolicies())
	c.Front.Engine = new(redlock.Client) // serve makes it later; Validate only wants one
	errs = append(errs, c.optionErrors(&c.Front, c.Front.Validate(), "auth.users"))
	c.Front.Engine = nil
	return errors.Join(errs...)
}

// chooseSharedPassword keeps master.password or master.password_file, whichever has the higher source.
func (c *Config) chooseSharedPassword() error {
	password, file := c.Find("master.password"), c.Find("master.password_file")
	switch {
	case c.master.Password == "" || c.master.passwordFile == "":
	case password.source.kind > file.source.kind:
		c.master.passwordFile = ""
	case password.source.kind < file.source.kind:
		c.master.Password = ""
	default:
		c.master.passwordFile = "" // one error is enough
		return c.errorAt("master.password_file", errors.New("master.password is given too: one of them is enough"))
	}
	return nil
}

// HTTPHosts are the names under which browsers may ask for the status page: those of http.hosts, the
// host of http.listen, and the name of this machine.
func (c *Config) HTTPHosts() []string {
	hosts := slices.Clone(c.Front.HTTPHosts)
	if host, _, err := net.SplitHostPort(c.HTTPListen); err == nil && host != "" {
		hosts = append(hosts, host)
	}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	return hosts
}

// errorAt adds to an error where the value of the setting comes from. name is that of a setting, or of
// a part of it: "masters[1].db".
func (c *Config) errorAt(name string, err error) error {
	whole, _, _ := strings.Cut(name, "[")
	s := c.Find(whole)
	switch s.source.kind {
	case fromDefault:
		return fmt.Errorf("%s: %w", name, err)
	case fromFile:
		return &fileError{c.file, lineOf(c.lines, name), fmt.Sprintf("%s: %v", name, err)}
	default:
		return fmt.Errorf("%s: %w", s.source.where, err)
	}
}

// errorsAt does so for the faults of settings of a group, each a *partError with the key of one.
func (c *Config) errorsAt(group string, err error) error {
	var errs []error
	for _, e := range Flatten(err) {
		fault := e.(*partError)
		errs = append(errs, c.errorAt(group+"."+fault.part, fault.err))
	}
	return errors.Join(errs...)
}

// optionErrors turns each *redlock.OptionError into an error that names settings and their sources.
// options points to the validated options. list is the setting for Masters or Users, which are made of
// a list.
func (c *Config) optionErrors(options any, err error, list string) error {
	var errs []error
	for _, e := range Flatten(err) {
		fault := e.(*redlock.OptionError)
		name, reason := list, fault.Reason
		option, part, inList := strings.Cut(fault.Option, "[")
		if s := c.settingOf(options, option); s != nil {
			if name = s.Name; inList {
				name += "[" + part
			}
		}
		if other := c.settingOf(options, fault.Other); other != nil {
			reason = fmt.Sprintf("%s (%s: %s)", strings.ReplaceAll(reason, fault.Other, other.Name), other.Name, other.source.where)
		}
		errs = append(errs, c.errorAt(name, errors.New(reason)))
	}
	return errors.Join(errs...)
}

// settingOf finds the setting whose value is this field of options, by its address; nil: there is none.
func (c *Config) settingOf(options any, field string) *Setting {
	f := reflect.ValueOf(options).Elem().FieldByName(field)
	if !f.IsValid() {
		return nil
	}
	for _, s := range c.Settings {
		if reflect.ValueOf(s.place).Pointer() == f.Addr().Pointer() {
			return s
		}
	}
	return nil
}

// Flatten takes apart what errors.Join put together, at any depth.
func Flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, Flatten(e)...)
	}
	return all
}
