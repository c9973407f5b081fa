package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"redlockd/redlock"
)

const (
	configFlag        = "config"
	configEnvironment = environmentPrefix + "CONFIG"
)

// configure is how every command that reads the configuration begins. Without a configuration the command is done, with
// this exit code: help or --print-config was asked for, or something is wrong and has been told.
func (p process) configure(flags *flagSet, args []string) (*config, int) {
	if err := flags.parse(args); errors.Is(err, flag.ErrHelp) {
		return nil, help(p, []string{flags.command})
	} else if err != nil {
		return nil, p.usageError(err)
	}
	c, err := load(flags.given, p.environ)
	if err != nil {
		return nil, p.usageError(err)
	}
	if flags.on("print-config") {
		p.warn(c.warnings)
		if flags.command == "serve" {
			p.warn(c.serverWarnings)
		}
		c.print(p.stdout)
		return nil, exitOK
	}
	return c, exitOK
}

// configureMasters is configure for a command that looks at masters and ends: it tells its warnings without a log, and does
// not make masters of its own.
func (p process) configureMasters(flags *flagSet, args []string) (*config, int) {
	c, code := p.configure(flags, args)
	if c == nil {
		return nil, code
	}
	p.warn(c.warnings)
	if len(c.engine.Masters) == 0 {
		return nil, p.usageError(fmt.Errorf(
			"%s needs masters, and none are configured (a server would start five inside its own process, where nobody else locks); name them with --masters or --config", flags.command))
	}
	return c, exitOK
}

// warn prints warnings for whoever has started the command.
func (p process) warn(warnings []string) {
	for _, warning := range warnings {
		fmt.Fprintf(p.stderr, "redlockd: warning: %s\n", warning)
	}
}

// load reads the configuration: flags win over the environment, that over the file, that over the defaults. Flags are
// the texts that were given, by the names of the flags. The error joins everything that is wrong, each with its place.
func load(flags map[string]string, environ []string) (*config, error) {
	c := newConfig()
	variables := ours(environ)
	path, given := flags[configFlag]
	if !given {
		path = variables[configEnvironment]
	}
	var errs []error
	if path != "" {
		if err := c.readFile(path); err != nil {
			// What other sources say is not looked at: most faults there would be echoes of this one.
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

// ours picks the variables that begin with our prefix. An empty variable counts as none: compose files and manifests
// set such.
func ours(environ []string) map[string]string {
	variables := make(map[string]string)
	for _, pair := range environ {
		name, text, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, environmentPrefix) && text != "" {
			variables[name] = text
		}
	}
	return variables
}

// Kubernetes sets REDLOCKD_SERVICE_HOST, REDLOCKD_PORT_6380_TCP and the like beside a service that is called redlockd.
var serviceLink = regexp.MustCompile(`_(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)$`)

func (c *config) readEnvironment(variables map[string]string) error {
	names := []string{configEnvironment}
	var errs []error
	for _, s := range c.settings {
		names = append(names, s.environment())
		if text, ok := variables[s.environment()]; ok {
			errs = append(errs, s.setFrom(source{fromEnvironment, s.environment()}, text))
		}
	}
	// Others may have a use for names that we do not know, so they are worth a warning, not an error.
	for name := range variables {
		if !slices.Contains(names, name) && !serviceLink.MatchString(name) {
			c.warnings = append(c.warnings, fmt.Sprintf("the environment variable %s names no setting%s: correct it or unset it; redlockd help settings lists them", name, didYouMean(name, names)))
		}
	}
	slices.Sort(c.warnings)
	return errors.Join(errs...)
}

func (c *config) readFlags(flags map[string]string) error {
	var errs []error
	for _, s := range c.settings {
		if text, ok := flags[s.flag]; ok && s.flag != "" {
			errs = append(errs, s.setFrom(source{fromFlag, "--" + s.flag}, text))
		}
	}
	return errors.Join(errs...)
}

func (s *setting) setFrom(from source, text string) error {
	if err := s.value.setText(text); err != nil {
		return fmt.Errorf("%s: %w", from.where, err)
	}
	s.source = from
	return nil
}

// resolve checks the settings against each other, reads the files that they name, and fills what the packages below need.
func (c *config) resolve() error {
	errs := []error{c.checkListen()}
	if c.drainDelay < 0 || c.drainDelay > time.Hour {
		errs = append(errs, c.errorAt("server.drain_delay", fmt.Errorf("%s is outside 0s … 1h", formatDuration(c.drainDelay))))
	}
	if c.drainTimeout < time.Millisecond || c.drainTimeout > time.Hour {
		errs = append(errs, c.errorAt("server.drain_timeout", fmt.Errorf("%s is outside 1ms … 1h", formatDuration(c.drainTimeout))))
	}
	var err error
	c.front.TLSConfig, err = c.frontTLS()
	for _, e := range flatten(err) {
		fault := e.(*partError)
		errs = append(errs, c.errorAt("server."+fault.part, fault.err))
	}
	errs = append(errs, c.chooseSharedPassword())
	mastersErr := c.resolveMasters()
	errs = append(errs, mastersErr, c.resolveUsers())

	masters := c.engine.Masters
	if mastersErr != nil || len(masters) == 0 {
		// Faults of the masters have been told; none means the embedded ones, which are known to be right.
		c.engine.Masters = []redlock.Master{{Addr: "embedded:0"}}
	}
	errs = append(errs, c.optionErrors(&c.engine, c.engine.Validate(), "masters"))
	c.engine.Masters = masters
	if ttl := c.front.DefaultTTL; ttl != 0 && (ttl < c.engine.MinTTL || ttl > c.engine.MaxTTL) {
		errs = append(errs, c.errorAt("compat.default_ttl", fmt.Errorf("%s is not from min_ttl = %s to max_ttl = %s",
			formatDuration(ttl), formatDuration(c.engine.MinTTL), formatDuration(c.engine.MaxTTL))))
	}
	c.front.Engine = new(redlock.Client) // is made later; here only the settings are looked at
	errs = append(errs, c.optionErrors(&c.front, c.front.Validate(), "auth.users"))
	c.front.Engine = nil
	return errors.Join(errs...)
}

// checkListen checks the addresses.
func (c *config) checkListen() error {
	if err := c.checkAddress("server.listen", c.listen); err != nil {
		return err
	}
	if c.httpListen == "" {
		return nil
	}
	return c.checkAddress("http.listen", c.httpListen)
}

// checkProtected refuses a server that other machines can reach and that asks nobody who it is: protected_mode, as Redis has it.
// Redis starts, and answers clients of other machines with -DENIED. redlockd does not start, so that whoever starts it reads
// the reason, and not whoever connects later. Client certificates count: without one that tls_client_ca has signed
// nobody gets to send a command. Only who serves asks for this; check and run read the same file and listen to nobody.
func (c *config) checkProtected() error {
	if !c.protected || len(c.userList.entries) > 0 || c.tls.clientCA != "" || onlyHere(c.listen) {
		return nil
	}
	return c.errorAt("server.listen", fmt.Errorf("protected mode: other machines can reach %s, and nobody has to log in there. "+
		"Name users in [auth] (or tls_client_ca in [server], then clients must show certificates); or, if everybody who can reach it may take and release "+
		"every lock, set protected_mode = false in [server] (%s=false)", c.listen, c.find("server.protected_mode").environment()))
}

// onlyHere tells whether an address to listen on can be reached from this machine alone.
func onlyHere(addr string) bool {
	host, _, _ := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return strings.HasPrefix(addr, "/") || host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c *config) checkAddress(setting, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return c.errorAt(setting, fmt.Errorf("%q is no address: host:port is needed, or :port for all addresses of this machine", addr))
	}
	if err := checkPort(port); err != nil {
		return c.errorAt(setting, err)
	}
	return nil
}

// chooseSharedPassword decides between master.password and master.password_file: the source that wins over the other.
func (c *config) chooseSharedPassword() error {
	password, file := c.find("master.password"), c.find("master.password_file")
	switch {
	case c.master.password == "" || c.master.passwordFile == "":
	case password.source.kind > file.source.kind:
		c.master.passwordFile = ""
	case password.source.kind < file.source.kind:
		c.master.password = ""
	default:
		c.master.passwordFile = "" // so that nobody complains of the file, too
		return c.errorAt("master.password_file", errors.New("master.password is given too: one of them is enough"))
	}
	return nil
}

// errorAt says where the setting, or the part of it, that the error is about has its value from. Name is that of a
// setting, with [n] behind it for a member of a list.
func (c *config) errorAt(name string, err error) error {
	whole, _, _ := strings.Cut(name, "[")
	s := c.find(whole)
	switch s.source.kind {
	case fromDefault:
		return fmt.Errorf("%s: %w", name, err)
	case fromFile:
		return &fileError{c.file, lineOf(c.lines, name), fmt.Sprintf("%s: %v", name, err)}
	default:
		return fmt.Errorf("%s: %w", s.source.where, err)
	}
}

// optionErrors says of each *redlock.OptionError where the settings that it is about have their values from. Options points to the
// options that were validated; list is the setting for a field that is made of a list.
func (c *config) optionErrors(options any, err error, list string) error {
	var errs []error
	for _, e := range flatten(err) {
		fault := e.(*redlock.OptionError)
		name, reason := list, fault.Reason
		if s := c.settingOf(options, fault.Option); s != nil {
			name = s.name
		}
		if other := c.settingOf(options, fault.Other); other != nil {
			reason = fmt.Sprintf("%s (%s: %s)", strings.ReplaceAll(reason, fault.Other, other.name), other.name, other.source.where)
		}
		errs = append(errs, c.errorAt(name, errors.New(reason)))
	}
	return errors.Join(errs...)
}

// settingOf finds the setting whose value is this field of options; nil: there is none.
func (c *config) settingOf(options any, field string) *setting {
	f := reflect.ValueOf(options).Elem().FieldByName(field)
	if !f.IsValid() {
		return nil
	}
	for _, s := range c.settings {
		if v, ok := s.value.(interface{ at() any }); ok && v.at() == f.Addr().Interface() {
			return s
		}
	}
	return nil
}
