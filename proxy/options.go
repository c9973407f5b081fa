package proxy

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"redlockd/proxy/access"
	"redlockd/proxy/status"
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// User, Policy and Certificate are those of other packages, which Options name.
type (
	User        = access.User
	Policy      = access.Policy
	Certificate = status.Certificate
)

// FenceAlways is the word of Policy.Fence.
const FenceAlways = access.FenceAlways

// Setting is one line of CONFIG GET.
type Setting struct{ Name, Value string }

// Options configure a Server. Zero values stand for the defaults, as DefaultOptions returns them,
// except where a comment says otherwise. Engine has no default.
type Options struct {
	// Engine is the lock client that the server stands in front of. The server does not close it.
	Engine *redlock.Client
	// Logger gets the server's events; nil discards them. Tokens and passwords are never logged.
	Logger *slog.Logger
	// Embedded: the masters end with this process. INFO, the status page and /readyz say so.
	Embedded bool
	// Version of redlockd, for INFO (redlockd_version). Default "dev".
	Version string

	// Users may log in. Empty: no authentication is asked for.
	Users []access.User
	// TLSConfig, when not nil, encrypts every connection that Serve accepts, except those of unix sockets.
	TLSConfig *tls.Config
	// Certificates lists those in use, here and towards masters, for the metrics and the status page; nil
	// lists none. It is called from several goroutines.
	Certificates func() []Certificate
	// Settings lists what CONFIG GET shows; nil: nothing. It is called from several goroutines.
	Settings func() []Setting

	// Reload reads the settings again for CONFIG RELOAD, puts them into force, and says what has
	// changed, in one line. After an error nothing has changed. nil: CONFIG RELOAD is refused. It is
	// called from several goroutines.
	Reload func() (changed string, err error)

	// Policies limit what clients may ask for some resources, see Policy. The first one that matches a
	// resource counts. Default: none.
	Policies []access.Policy
	// AllowUnguarded has patterns of keys, as LOCKS takes them. Clients and scripts may change keys
	// that match one of them without comparing what these hold: with DEL, SET without NX or IFEQ,
	// EXPIRE, INCR and their kin. Any client can then release or extend another's lock under such a key. "*"
	// allows it for every key. Default: none. Keys that libraries keep beside their locks are always
	// allowed, see helperKeys.
	AllowUnguarded []string
	// NoScripts refuses EVAL and its kin, SCRIPT and FCALL. Default false: scripts of lock libraries
	// are served.
	NoScripts bool
	// DefaultTTL is given to a lock that is taken without a TTL (SET NX, SETNX). It must be within the
	// engine's MinTTL and MaxTTL. Default 0: such a command is refused, for its lock would never end by
	// itself.
	DefaultTTL time.Duration

	// Audit gets a record of what users did, one JSON object per line (audit.go). It is written to by
	// one goroutine, and may be slow: records that it cannot take in time are dropped. Close waits up
	// to 2 s for the last ones. Nil: none is kept. When Reload replaces one that is an io.Closer, that
	// is closed once it has the records before.
	Audit io.Writer
	// AuditLocks has the audit also record what becomes of locks: each LOCK, UNLOCK, EXTEND and HOLD,
	// and what commands and scripts of libraries change. Default false.
	AuditLocks bool

	// HTTPHosts are further names under which the status page may be asked for, see package status.
	// Default: none.
	HTTPHosts []string

	// MaxClients bounds the connections at one time. One more takes the place of the one that has not
	// logged in for longest; if all have, it gets an error and is closed. Users who are administrators
	// have three places more. Default 10 000.
	MaxClients int
	// IdleTimeout closes a connection on which no command came for so long. A client that waits in LOCK
	// … WAIT is not idle. Default 0: never.
	IdleTimeout time.Duration
	// OutputTotal bounds what is kept for all clients together: replies and messages that wait for them,
	// what they send that is not complete or not answered yet, TLS handshakes, transactions and
	// subscriptions. It is at least 2 MiB, which the longest command takes while it comes. Beyond it,
	// connections are closed: of the user with most, the connection with most. While half of it is kept
	// for clients of one user, those that publish are slowed down; those with many commands in flight from
	// a quarter on, or from half of it for all clients (flightMax). Default 64 MiB.
	OutputTotal int

	// MemoryLimit is what the process may take, in bytes: OutputTotal is at most an eighth of it, and
	// MaxClients as many as take a quarter of it, at 8 KiB each, or 16 KiB with TLS. Default 0: it is not
	// known, and bounds nothing.
	MemoryLimit int64

	// bounds is for tests.
	bounds bounds
}

// bounds are what one connection may take of the server. No operator could choose them better: only
// tests have others than the defaults of withDefaults, which zero values stand for. They never change.
type bounds struct {
	// commandTimeout closes a connection on which a command has begun and is not complete after so
	// long, whatever IdleTimeout is: the memory of half a command is not held for ever. No network
	// delays the rest of a command for longer than the 30 s that it has.
	commandTimeout time.Duration
	// handshakeTimeout bounds the TLS handshake. It is short, because the client has not logged in yet,
	// and several round trips of any network.
	handshakeTimeout time.Duration
	// writeTimeout closes a connection whose client takes none of the replies that wait for it for so
	// long.
	writeTimeout time.Duration
	// pipelineMax bounds the commands of one connection that are executed and not answered yet. At the
	// bound the server reads no more from that client until one is answered. One connection alone can
	// fill a batch to each master.
	pipelineMax int
	// outputMax bounds the bytes of replies that wait for one client to read them, and of its commands
	// that are not answered yet, with slotCost for each; before AUTH, where users are configured, they are
	// 16 KiB at most. At the bound the server executes no more commands of that client; writeTimeout ends it.
	outputMax int
	// command bounds one command: the longest MLOCK needs some 70 arguments, EVAL of a library's script
	// some KB. A client that exceeds it gets an error and is closed. Before AUTH, where users are
	// configured: preauthLimits.
	command resp.Limits
}

// outputTotalMin is the least OutputTotal: the longest command has room while it comes, in a chunk that
// grows by doubling.
func (b *bounds) outputTotalMin() int { return max(b.outputMax, 2*b.command.Command) }

// DefaultOptions returns the options with every default filled in, and no engine.
func DefaultOptions() Options {
	return Options{}.withDefaults()
}

func (o Options) withDefaults() Options {
	o.Version = cmp.Or(o.Version, "dev")
	o.MaxClients = cmp.Or(o.MaxClients, 10_000)
	o.OutputTotal = cmp.Or(o.OutputTotal, 64<<20)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	b := &o.bounds
	b.commandTimeout = cmp.Or(b.commandTimeout, 30*time.Second)
	b.handshakeTimeout = cmp.Or(b.handshakeTimeout, 5*time.Second)
	b.writeTimeout = cmp.Or(b.writeTimeout, 10*time.Second)
	b.pipelineMax = cmp.Or(b.pipelineMax, 2048)
	b.outputMax = cmp.Or(b.outputMax, 1<<20)
	b.command = cmp.Or(b.command, resp.Limits{Args: 1024, Bulk: 512 << 10, Command: 1 << 20})
	return o
}

// Validate reports every option that is out of bounds, and every pair of options that contradict each
// other, as *redlock.OptionError. Zero values stand for their defaults. New calls it.
func (o Options) Validate() error {
	o = o.withDefaults()
	errs := []error{
		access.ValidateUsers(o.Users),
		access.ValidatePolicies(o.Policies),
		validateUnguarded(o.AllowUnguarded),
		redlock.CheckBounds("DefaultTTL", o.DefaultTTL, 0, 365*24*time.Hour),
		redlock.CheckBounds("IdleTimeout", o.IdleTimeout, 0, 365*24*time.Hour),
		redlock.CheckBounds("MaxClients", o.MaxClients, 1, 10_000_000),
		redlock.CheckBounds("OutputTotal", o.OutputTotal, o.bounds.outputTotalMin(), 1<<30),
	}
	if o.Engine == nil {
		errs = append(errs, &redlock.OptionError{Option: "Engine", Reason: "none is given"})
	}
	return errors.Join(errs...)
}

// unguardedMax bounds the patterns of AllowUnguarded: every unguarded change is compared with all of
// them.
const unguardedMax = 64

// validateUnguarded returns what is wrong with the patterns of AllowUnguarded, or nil.
func validateUnguarded(patterns []string) error {
	fault := func(format string, args ...any) error {
		return &redlock.OptionError{Option: "AllowUnguarded", Reason: fmt.Sprintf(format, args...)}
	}
	if len(patterns) > unguardedMax {
		return fault("there are %d patterns, at most %d are possible", len(patterns), unguardedMax)
	}
	for _, pattern := range patterns {
		if pattern == "" || len(pattern) > access.PatternMax {
			return fault("a pattern has %d bytes, it must have 1 … %d", len(pattern), access.PatternMax)
		}
	}
	return nil
}

// mayChangeUnguarded reports whether a key may be changed by who does not compare the value that it
// holds.
func (o *Options) mayChangeUnguarded(key, value string) bool {
	return access.MatchesAny(o.AllowUnguarded, key) || isHelperKey(key) && helperValue(value)
}
