package config

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"redlockd/proxy"
	"redlockd/redlock"
)

// Setting is one line of config.toml.
//
// To add one: a field in the options of the package that uses it, with default and bounds; a row in
// Default; and its lines in config.toml, with the reason for the default. Tests say which of them was
// forgotten.
//
// To take one away: the reason for the default moves to the option, which says "No setting" then; and a
// row in removed (file.go) says what holds instead.
type Setting struct {
	// Name is group.key, or the key alone for settings above the first group. Environment makes the
	// name of the variable of it.
	Name string
	// place points to the value. Its type says how the setting is read and printed, see value.go.
	place any
	// Flag is the name of its flag without dashes; empty: it has none.
	Flag string
	// Arg and Usage are for the help text.
	Arg, Usage string
	// Words are the strings that are possible; nil: any.
	Words []string
	// notZero: zero is an error. The packages below take it for the default, and an operator who writes
	// 0 means something else.
	notZero bool
	// secret: the value is never printed.
	secret bool
	// change says what a running server does when the value is another one.
	change change
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

const EnvironmentPrefix = "REDLOCKD_"

// Environment is the name of the setting's variable: REDLOCKD_LOCKS_MAX_TTL for locks.max_ttl.
func (s *Setting) Environment() string {
	return EnvironmentPrefix + strings.ToUpper(strings.ReplaceAll(s.Name, ".", "_"))
}

// Key is the name without its group.
func (s *Setting) Key() string { return s.Name[strings.LastIndexByte(s.Name, '.')+1:] }

// Group is what stands in brackets above the setting in the file; empty for the first ones.
func (s *Setting) Group() string { return s.Name[:max(strings.LastIndexByte(s.Name, '.'), 0)] }

// Source says where the value comes from: "config.toml:12", "REDLOCKD_LOG_LEVEL", "--log-level", or
// "default".
func (s *Setting) Source() string { return s.source.where }

// Text is the value as config.toml writes it. In place of a secret stands a word without quotes. It is
// no TOML, so nobody can load it as a password by mistake.
func (s *Setting) Text() string {
	text := s.unhidden()
	if s.secret && text != `""` {
		return hidden
	}
	return text
}

const hidden = "(hidden)"

// Default returns the defaults.
func Default() *Config {
	c := &Config{
		Listen:       []string{"127.0.0.1:6380"},
		socketMode:   "0600",
		protected:    true,
		DrainTimeout: 5 * time.Second,
		LogLevel:     "info",
		LogFormat:    "text",
		Engine:       redlock.DefaultOptions(),
		Front:        proxy.DefaultOptions(),
	}
	front, engine := &c.Front, &c.Engine
	// A caller of package redlock writes a time.Duration, and has 20 ms there. On the wire LOCK r 30 is
	// 30 ms, mostly of somebody who means seconds and would lose the lock at once.
	engine.MinTTL = time.Second
	c.Settings = slices.Concat([]*Setting{
		{Name: "masters", place: &c.masters, change: changeMembership, Flag: "masters", Arg: "host:port,…", Usage: "the independent Redis masters, an odd number, or their URLs; embedded: five inside this process"},
		{Name: "policy", place: (*policyList)(&front.Policies), change: changeLive, Usage: "limits for resources whose names match a pattern, one [[policy]] for each; none: [locks] and [auth] alone limit"},

		{Name: "server.listen", place: (*oneOrMore)(&c.Listen), Flag: "listen", Arg: "host:port,…", Usage: "where clients connect: addresses, or unix:/path of sockets"},
		{Name: "server.socket_mode", place: &c.socketMode, Usage: "mode of the files of unix sockets"},
		{Name: "server.socket_owner", place: &c.SocketOwner, Usage: "user, user:group or :group of these files; empty: the user who runs redlockd"},
		{Name: "server.protected_mode", place: &c.protected, change: changeLive, Usage: "refuse to serve other machines while nobody has to log in"},
		{Name: "server.max_clients", place: &front.MaxClients, change: changeLive, Flag: "max-clients", Arg: "n", Usage: "connections at one time"},
		{Name: "server.idle_timeout", place: &front.IdleTimeout, change: changeLive, Usage: "close a connection without commands after so long; 0s: never"},
		{Name: "server.output_total", place: &front.OutputTotal, change: changeLive, Usage: "bytes that are kept for all clients: unread replies, unfinished commands, subscriptions"},
		{Name: "server.drain_delay", place: &c.DrainDelay, change: changeLive, Flag: "drain-delay", Arg: "duration", Usage: "how long a stopping server goes on as before, but for /readyz, so that a balancer notices"},
		{Name: "server.drain_timeout", place: &c.DrainTimeout, change: changeLive, Flag: "drain-timeout", Arg: "duration", Usage: "how long a stopping server lets clients finish"},
		{Name: "server.tls_cert", place: &c.tls.cert, Usage: "file with the certificate; empty: no TLS"},
		{Name: "server.tls_key", place: &c.tls.key, Usage: "file with the private key of tls_cert"},
		{Name: "server.tls_client_ca", place: &c.tls.clientCA, Usage: "file with the authorities of client certificates; empty: none are asked for"},

		{Name: "auth.users", place: &c.users, change: changeLive, Usage: "who may log in; none: everybody, without a password"},

		{Name: "http.listen", place: &c.HTTPListen, Flag: "http-listen", Arg: "host:port", Usage: "where the status page, /metrics, /livez and /readyz are; empty: nowhere"},
		{Name: "http.hosts", place: &front.HTTPHosts, change: changeLive, Usage: "further names under which browsers may ask for the status page"},
		{Name: "http.tls_cert", place: &c.httpTLS.cert, Usage: "file with the certificate; empty: no TLS"},
		{Name: "http.tls_key", place: &c.httpTLS.key, Usage: "file with the private key of tls_cert"},

		{Name: "metrics.prefixes", place: &engine.Prefixes, Usage: "beginnings of resources that have wait times, hold times and rounds of their own in /metrics"},

		{Name: "log.level", place: &c.LogLevel, change: changeLive, Words: []string{"debug", "info", "warn", "error"}, Flag: "log-level", Arg: "level", Usage: "debug, info, warn or error"},
		{Name: "log.format", place: &c.LogFormat, Words: []string{"text", "json"}, Flag: "log-format", Arg: "format", Usage: "text or json"},

		{Name: "audit.file", place: &c.AuditFile, change: changeLive, Usage: "file to which a record of what users did is appended, stdout for standard output; empty: no audit"},
		{Name: "audit.locks", place: &front.AuditLocks, change: changeLive, Usage: "record what becomes of locks, too"},
	}, clientSettings(&c.client), []*Setting{
		{Name: "locks.min_ttl", place: &engine.MinTTL, Usage: "shortest TTL that a client may ask for"},
		{Name: "locks.max_ttl", place: &engine.MaxTTL, change: changeMembership, Flag: "max-ttl", Arg: "duration", Usage: "longest TTL that a client may ask for"},
		{Name: "locks.max_hold", place: &engine.MaxHold, change: changeLive, Usage: "how long one lock can be extended, from its first grant"},
		{Name: "locks.drift_factor", place: &engine.DriftFactor, Usage: "part of a TTL by which clocks may drift apart"},
		{Name: "locks.max_wait", place: &engine.MaxWait, change: changeLive, Usage: "longest WAIT of one LOCK"},
		{Name: "locks.max_waiters", place: &engine.MaxWaiters, change: changeLive, Usage: "LOCKs that wait at one time"},
		{Name: "locks.max_bound", place: &engine.MaxBound, change: changeLive, Usage: "locks that are renewed for connections (HOLD) at one time"},
		{Name: "locks.handover_time", place: &engine.HandoverTime, change: changeLive, Usage: "for how long releases pass a lock on to waiters here before others get a chance"},

		{Name: "compat.allow_unguarded", place: (*patterns)(&front.AllowUnguarded), change: changeLive, Usage: "keys for which DEL, SET without NX, EXPIRE and their kin are served: any client can then end another's lock"},
		{Name: "compat.scripts", place: (*unless)(&front.NoScripts), change: changeLive, Usage: "run the scripts of lock libraries (EVAL, EVALSHA); false: they are refused"},
		{Name: "compat.default_ttl", place: &front.DefaultTTL, change: changeLive, Usage: "TTL of a lock that is taken without one; 0s: it is refused"},

		{Name: "fence.always", place: &engine.FenceAlways, Usage: "give every lock a fence, asked for or not"},

		{Name: "master.timeout", place: &engine.MasterTimeout, Flag: "master-timeout", Arg: "duration", Usage: "how long one master may take over one batch"},
		{Name: "master.connect_timeout", place: &engine.ConnectTimeout, Usage: "of making and vetting a connection"},
		{Name: "master.clock_step_max", place: &engine.ClockStepMax, Usage: "how far a master's clock may gain on this machine's and be believed"},
		{Name: "master.clock_skew_max", place: &engine.ClockSkewMax, Usage: "how far the clocks of masters and redlockds may differ"},
		{Name: "master.founding_wait", place: &engine.FoundingWait, Usage: "how long, at least, masters that are all new or have all forgotten have no vote"},
	}, c.master.settings("master."))
	for _, s := range c.Settings {
		s.source = source{fromDefault, "default"}
		switch s.place.(type) {
		case *int, *float64, *time.Duration:
			s.notZero = !reflect.ValueOf(s.place).Elem().IsZero()
		}
	}
	return c
}

// Find returns the setting of that name, or nil.
func (c *Config) Find(name string) *Setting {
	for _, s := range c.Settings {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// ForCONFIG are the settings that CONFIG GET shows, by their names in config.toml.
func (c *Config) ForCONFIG() []proxy.Setting {
	var all []proxy.Setting
	for _, s := range c.Settings {
		all = append(all, proxy.Setting{Name: s.Name, Value: strings.Trim(s.Text(), `"`)})
	}
	return all
}

// Print writes the settings in effect as config.toml would, each with its source, and secrets as in
// Text.
func (c *Config) Print(w io.Writer) {
	width := 0
	for _, s := range c.Settings {
		width = max(width, len(s.line()))
	}
	width = min(width, 40) // a long list of masters pushes only its own source aside
	group := ""
	for _, s := range c.Settings {
		if g := s.Group(); g != group {
			group = g
			fmt.Fprintf(w, "\n[%s]\n", g)
		}
		fmt.Fprintf(w, "%-*s  # %s\n", width, s.line(), s.source.where)
	}
}

func (s *Setting) line() string { return s.Key() + " = " + strings.ReplaceAll(s.Text(), "\n", " ") }

// DidYouMean returns a suffix for an error about an unknown name: the known name that was probably
// meant, or "".
func DidYouMean(name string, known []string) string {
	if nearest := proxy.Nearest(name, known); nearest != "" {
		return " (did you mean " + nearest + "?)"
	}
	return ""
}
