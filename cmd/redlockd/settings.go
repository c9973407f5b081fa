package main

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"time"

	"redlockd/proxy"
	"redlockd/redlock"
)

// config is every setting, and what is made of them.
type config struct {
	// file is the path of the configuration file as it was given; empty when there is none. lines are those of its keys.
	file  string
	lines map[string]int
	// settings in the order of config.toml. Their values point into the fields below.
	settings []*setting
	// warnings are for the operator: nothing of them keeps redlockd from running.
	warnings []string
	// serverWarnings are for who serves only.
	serverWarnings []string

	listen       string
	protected    bool          // a listener beyond this machine needs users, see checkProtected
	httpListen   string        // empty: no HTTP
	drainDelay   time.Duration // 0: none
	drainTimeout time.Duration
	tls          serverTLS
	logLevel     string
	logFormat    string

	masterList masterList // as named, in the file or elsewhere
	master     access     // what holds for each master that does not say otherwise
	userList   userList

	// What was read from files that may be replaced, see renewable.
	keyPairs []*renewable[tls.Certificate]
	pools    []*renewable[x509.CertPool]

	engine redlock.Options // Masters is filled by resolve; empty means the embedded ones
	front  proxy.Options   // Users and TLSConfig are filled by resolve
}

// setting is one line of config.toml.
//
// To add one: a field in the options of the package that uses it, with default and bounds; a row in newConfig; and
// its lines in config.toml, with the reason for the default. Tests say which of them was forgotten.
type setting struct {
	// name is group.key, or the key alone for the settings above the first group. The environment variable follows from it.
	name  string
	value value
	// flag is the name of its flag without dashes; empty: it has none.
	flag string
	// arg and usage are for the help text.
	arg, usage string
	// secret values are never printed.
	secret bool
	source source
}

// source says where a value comes from. The higher kind wins.
type source struct {
	kind sourceKind
	// where is "config.toml:12", "REDLOCKD_LOG_LEVEL", "--log-level", or "default".
	where string
}

type sourceKind int

const (
	fromDefault sourceKind = iota
	fromFile
	fromEnvironment
	fromFlag
)

const environmentPrefix = "REDLOCKD_"

// environment is the name of the setting's variable: REDLOCKD_LOCKS_MAX_TTL for locks.max_ttl.
func (s *setting) environment() string {
	return environmentPrefix + strings.ToUpper(strings.ReplaceAll(s.name, ".", "_"))
}

// key is the name without its group.
func (s *setting) key() string { return s.name[strings.LastIndexByte(s.name, '.')+1:] }

// group is what stands in brackets above the setting in the file; empty for the first ones.
func (s *setting) group() string {
	group, _, found := strings.Cut(s.name, ".")
	if !found {
		return ""
	}
	return group
}

// text is the value as config.toml writes it. A secret is replaced by a word without quotes, which TOML does not take:
// nobody can load the output with the replacement for a password.
func (s *setting) text() string {
	text := s.value.String()
	if s.secret && text != `""` {
		return hidden
	}
	return text
}

const hidden = "(hidden)"

// newConfig returns the defaults.
func newConfig() *config {
	c := &config{
		listen:       "127.0.0.1:6380",
		protected:    true,
		drainTimeout: 5 * time.Second,
		logLevel:     "info",
		logFormat:    "text",
		engine:       redlock.DefaultOptions(),
		front:        proxy.DefaultOptions(),
	}
	front, engine := &c.front, &c.engine
	c.settings = []*setting{
		{name: "masters", value: &c.masterList, flag: "masters", arg: "host:port,…", usage: "the independent Redis masters, an odd number, or their URLs; none: five inside this process"},

		{name: "server.listen", value: stringValue(&c.listen), flag: "listen", arg: "host:port", usage: "where clients connect"},
		{name: "server.protected_mode", value: boolValue(&c.protected), usage: "refuse to serve other machines while nobody has to log in"},
		{name: "server.max_clients", value: intValue(&front.MaxClients), flag: "max-clients", arg: "n", usage: "connections at one time"},
		{name: "server.idle_timeout", value: durationValue(&front.IdleTimeout), usage: "close a connection without commands after so long; 0s: never"},
		{name: "server.command_timeout", value: durationValue(&front.CommandTimeout), usage: "close a connection whose command is not complete after so long"},
		{name: "server.handshake_timeout", value: durationValue(&front.HandshakeTimeout), usage: "of TLS"},
		{name: "server.write_timeout", value: durationValue(&front.WriteTimeout), usage: "close a connection that takes no replies for so long"},
		{name: "server.pipeline_max", value: intValue(&front.PipelineMax), usage: "commands of one connection that are not answered yet"},
		{name: "server.output_max", value: intValue(&front.OutputMax), usage: "bytes of replies that wait for one client"},
		{name: "server.output_total", value: intValue(&front.OutputTotal), usage: "bytes of replies and messages that wait for all clients together"},
		{name: "server.input_total", value: intValue(&front.InputTotal), usage: "bytes of commands that are not complete, of all clients together"},
		{name: "server.args_max", value: intValue(&front.ArgsMax), usage: "arguments of one command"},
		{name: "server.bulk_max", value: intValue(&front.BulkMax), usage: "bytes of one argument"},
		{name: "server.command_max", value: intValue(&front.CommandMax), usage: "bytes of one command"},
		{name: "server.drain_delay", value: durationValue(&c.drainDelay), flag: "drain-delay", arg: "duration", usage: "how long a stopping server goes on as before, but for /readyz, so that a balancer notices"},
		{name: "server.drain_timeout", value: durationValue(&c.drainTimeout), flag: "drain-timeout", arg: "duration", usage: "how long a stopping server lets clients finish"},
		{name: "server.tls_cert", value: stringValue(&c.tls.cert), usage: "file with the certificate; empty: no TLS"},
		{name: "server.tls_key", value: stringValue(&c.tls.key), usage: "file with the private key of tls_cert"},
		{name: "server.tls_client_ca", value: stringValue(&c.tls.clientCA), usage: "file with the authorities of client certificates; empty: none are asked for"},

		{name: "auth.users", value: &c.userList, usage: "who may log in; none: everybody, without a password"},

		{name: "http.listen", value: stringValue(&c.httpListen), flag: "http-listen", arg: "host:port", usage: "where the status page, /metrics, /livez and /readyz are; empty: nowhere"},
		{name: "http.hosts", value: &nameList{&front.HTTPHosts}, usage: "further names under which browsers may ask for the status page"},

		{name: "log.level", value: choice(&c.logLevel, "debug", "info", "warn", "error"), flag: "log-level", arg: "level", usage: "debug, info, warn or error"},
		{name: "log.format", value: choice(&c.logFormat, "text", "json"), flag: "log-format", arg: "format", usage: "text or json"},

		{name: "locks.min_ttl", value: durationValue(&engine.MinTTL), usage: "shortest TTL that a client may ask for"},
		{name: "locks.max_ttl", value: durationValue(&engine.MaxTTL), flag: "max-ttl", arg: "duration", usage: "longest TTL that a client may ask for"},
		{name: "locks.max_hold", value: durationValue(&engine.MaxHold), usage: "how long one lock can be prolonged, from its birth"},
		{name: "locks.drift_factor", value: floatValue(&engine.DriftFactor), usage: "part of a TTL by which clocks may drift apart"},
		{name: "locks.max_wait", value: durationValue(&engine.MaxWait), usage: "longest WAIT of one LOCK"},
		{name: "locks.max_waiters", value: intValue(&engine.MaxWaiters), usage: "LOCKs that wait at one time"},
		{name: "locks.retry_delay_min", value: durationValue(&engine.RetryDelayMin), usage: "shortest pause between two attempts of a waiter"},
		{name: "locks.retry_delay_max", value: durationValue(&engine.RetryDelayMax), usage: "longest pause between two attempts of a waiter"},
		{name: "locks.max_handovers", value: intValue(&engine.MaxHandovers), usage: "releases in a row that pass a lock to the next waiter here"},

		{name: "compat.allow_unguarded", value: boolValue(&front.AllowUnguarded), usage: "serve DEL, SET without NX, EXPIRE and their kin: any client can then end another's lock"},
		{name: "compat.scripts", value: unlessValue(&front.NoScripts), usage: "run the scripts of lock libraries (EVAL, EVALSHA); false: they are refused"},
		{name: "compat.default_ttl", value: durationValue(&front.DefaultTTL), usage: "TTL of a lock that is taken without one; 0s: it is refused"},

		{name: "fence.always", value: boolValue(&engine.FenceAlways), usage: "give every lock a fence, asked for or not"},
		{name: "fence.marks", value: intValue(&engine.FenceMarks), usage: "resources whose last fence a master remembers"},

		{name: "master.timeout", value: durationValue(&engine.MasterTimeout), flag: "master-timeout", arg: "duration", usage: "how long one master may take over one batch"},
		{name: "master.connect_timeout", value: durationValue(&engine.ConnectTimeout), usage: "of making and vetting a connection"},
		{name: "master.reconnect_delay_max", value: durationValue(&engine.ReconnectDelayMax), usage: "longest pause between two attempts to connect"},
		{name: "master.heartbeat", value: durationValue(&engine.Heartbeat), usage: "pause between two looks at a master that is idle"},
		{name: "master.clock_step_max", value: durationValue(&engine.ClockStepMax), usage: "how far a master's clock may step and still be believed"},
		{name: "master.clock_skew_max", value: durationValue(&engine.ClockSkewMax), usage: "how far the clocks of masters and redlockds may differ"},
		{name: "master.queue_max", value: intValue(&engine.QueueMax), usage: "acquisitions that wait for one master"},
	}
	for _, s := range c.settings {
		if v, ok := s.value.(interface{ refuseZero() }); ok {
			v.refuseZero()
		}
	}
	for _, s := range c.master.settings() {
		s.name = "master." + s.name
		c.settings = append(c.settings, s)
	}
	for _, s := range c.settings {
		s.source = source{fromDefault, "default"}
	}
	return c
}

// find returns the setting of that name, or nil.
func (c *config) find(name string) *setting {
	for _, s := range c.settings {
		if s.name == name {
			return s
		}
	}
	return nil
}

// frontSettings are the answers to CONFIG GET, by the names of config.toml.
func (c *config) frontSettings() []proxy.Setting {
	var all []proxy.Setting
	for _, s := range c.settings {
		all = append(all, proxy.Setting{Name: s.name, Value: strings.Trim(s.text(), `"`)})
	}
	return all
}
