// Package serve is the server as a process: it opens what clients connect to, starts the engine and the
// front, and ends them in order.
//
//	Command → serve.go   listen, start, run until a signal, drain
//	        → listen.go, systemd.go   addresses, unix sockets, and the sockets and messages of a service manager
//	        → http.go                 the port of the status page, metrics and probes
//	        → health.go               the socket of ping --inside
//	        → quorum.go               what the log says of the quorum
//	        → reload.go, audit_file.go   what SIGHUP and CONFIG RELOAD change; the file of the audit
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/proxy"
	"redlockd/redlock"
	"redlockd/redlock/memmaster"
)

// closeTimeout bounds the delivery of pending releases when the engine closes, after the front has
// drained. The keys on a master that is down end with their TTL.
const closeTimeout = 2 * time.Second

var Command = cli.Command{Name: "serve", Summary: "serve locks (this is what redlockd does without a command)", Audience: cli.ForServer, Run: runServer,
	Flags: []cli.Flag{{Name: "bootstrap", Usage: "admit brand-new masters at once, without waiting for max_ttl: only where no client can still hold a lock"},
		{Name: "check-config", Usage: "say what is wrong with the configuration, as a start would, and exit: nothing is opened or asked"}},
	Help: `Usage: redlockd [serve] [flags]

Serves locks until SIGTERM or SIGINT. Then /readyz answers 503, and after drain_delay (0s by default) the server drains:
it grants no new locks and tells waiting clients so; clients can still extend and release the locks they hold. The
server stops when none is left or when drain_timeout is over. A second signal stops it at once.

The server also starts while masters are down. Until it reaches a quorum of them, it answers commands with NOQUORUM.
It logs to standard error. On SIGHUP, or when a client sends CONFIG RELOAD, it reads the file and the password files
again and takes over users and their limits, the limits of clients and of locks, the log level, the audit and other
settings (config.toml says which). If a setting is wrong or cannot change while the server runs, it changes nothing and says why. It reads
certificates whenever their files are replaced.

Exit codes: 0 a signal stopped it; 1 it failed while it ran; 2 it cannot start, and says why; 3 a second signal came while it drained.

Under systemd (docker/redlockd.service is a unit) it says when it serves, reloads and stops, gives signs of life for
WatchdogSec=, and takes over the sockets of a .socket unit in place of --listen, one with FileDescriptorName=http for HTTP.
With RuntimeDirectory=, redlockd reload --socket /run/redlockd/reload.sock needs no password.

The Go runtime's variables apply: GOGC (400 by default), GOMEMLIMIT (nine tenths of what the container or the control
group may take), and GOMAXPROCS (by default half of the processors, but two if there are two). max_clients,
output_total and max_waiters are lowered to what fits into GOMEMLIMIT. REDLOCK_RAWIO=off makes it read and write its
sockets in the ordinary way, with more CPU per lock: try that if you suspect the kernel, or a sandbox of system calls.
`}

// runServer runs the server until a signal ends it. It opens the listener before it connects to
// masters. An address in use is the only fault that Load cannot find, and a server that cannot listen
// must change nothing on the masters.
func runServer(call *cli.Call) error {
	c := call.Settings
	if call.On("check-config") {
		call.Warn()
		if err := errors.Join(c.CheckServed(c.Listen, c.HTTPListen), checkAudit(c)); err != nil {
			return cli.Usage(err)
		}
		return nil
	}
	level := new(slog.LevelVar)
	log := newLogger(call.Stderr, c, level)
	for _, warning := range c.Warnings {
		log.Warn(warning)
	}
	limit := tuneRuntime(log, call.Environ)
	c.Front.MemoryLimit, c.Engine.MemoryLimit = limit, limit

	// From here on a signal drains the server, also while it starts.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	passed, err := inheritListeners()
	if err != nil {
		return cli.Usage(err)
	}
	listeners, web := passed.clients, passed.web // web is nil: no HTTP
	addrs := passed.addrs()
	if len(listeners) == 0 {
		addrs = c.Listen
	}
	webAddr := c.HTTPListen
	if web != nil {
		webAddr = web.Addr().String()
	}
	if err := c.CheckServed(addrs, webAddr); err != nil {
		return cli.Usage(err)
	}
	if len(listeners) == 0 {
		if listeners, err = openListeners(c); err != nil {
			return cli.Usage(err)
		}
	}
	defer closeListeners(listeners)
	if web == nil && c.HTTPListen != "" {
		if web, err = listen(c, "http.listen", c.HTTPListen); err != nil {
			return cli.Usage(err)
		}
	}
	if web != nil {
		defer web.Close()
	}
	warnOfFewFiles(log, c)
	s := &server{call: call, passed: passed.addrs(), config: c, log: log, level: level}
	if s.audit, err = s.openAudit(c); err != nil {
		return cli.Usage(err)
	}
	s.current.Store(c)
	if err := s.open(call.On("bootstrap")); err != nil {
		return cli.Usage(err)
	}
	defer s.serveHealth()()
	if web != nil {
		defer s.serveHTTP(web)()
	}
	return s.run(listeners, signals, hangups)
}

// server is what runs between start and end.
type server struct {
	call          *cli.Call
	config        *config.Config // as it was at the start: those of it that a reload can change are in current
	log           *slog.Logger
	level         *slog.LevelVar // of log
	engine        *redlock.Client
	front         *proxy.Server
	audit         io.Writer // nil: none is kept; reload replaces it
	closeEmbedded func()    // ends the embedded masters, if there are any
	bootstraps    bool      // masters are still missing for the bootstrap that was asked for

	passed    []string // addresses for clients that the service manager has opened; none: those of server.listen count
	status    statusText
	reloading sync.Mutex                    // held by reload
	current   atomic.Pointer[config.Config] // the settings in force
}

func (s *server) open(bootstrap bool) error {
	engine, front := s.config.Engine, s.config.Front
	engine.Logger = s.log
	s.closeEmbedded = func() {}
	if s.embedded() {
		front.Embedded = true
		s.log.Warn(proxy.ForTrying+": its five masters are inside it",
			"to_do", "name independent Redis masters: --masters host:port,… or masters = […] in the configuration file")
		s.closeEmbedded = embed(&engine)
		bootstrap = true // nobody can know masters that have just been made
	}
	if bootstrap {
		_, done := s.bootstrap(context.Background(), engine)
		s.bootstraps = !done
	}
	var err error
	if s.engine, err = redlock.Open(engine); err != nil {
		s.closeEmbedded()
		return err
	}
	front.Engine, front.Logger, front.Version, front.Settings = s.engine, s.log, s.call.CurrentVersion(), s.settings
	front.Audit = s.audit
	front.Certificates, front.HTTPHosts, front.Reload = s.config.Certificates, s.config.HTTPHosts(), s.reload
	if s.front, err = proxy.New(front); err != nil {
		s.end()
		return err
	}
	return nil
}

const embeddedMasters = 5

// embedded tells whether the masters are inside this process.
func (s *server) embedded() bool { return len(s.config.Engine.Masters) == 0 }

// settings are those that CONFIG GET shows. max_ttl is the one in force: that of the membership.
func (s *server) settings() []proxy.Setting {
	all := s.current.Load().ForCONFIG()
	for i := range all {
		if all[i].Name == "locks.max_ttl" {
			all[i].Value = config.FormatDuration(s.engine.MaxTTL())
		}
	}
	return all
}

// embed starts masters inside this process and names them in the options. They are the in-memory
// masters that the tests use; pipes connect them to the engine. The returned function ends them.
func embed(o *redlock.Options) (end func()) {
	var masters []*memmaster.Master
	for i := range embeddedMasters {
		m := memmaster.New(memmaster.Options{})
		masters = append(masters, m)
		o.Masters = append(o.Masters, redlock.Master{Addr: fmt.Sprintf("embedded-%d", i+1), Dialer: m.Dial, SameClock: true})
	}
	return func() {
		for _, m := range masters {
			m.Close()
		}
	}
}

// run serves until a signal comes, then drains. A second signal ends the process at once.
func (s *server) run(listeners []net.Listener, signals, hangups <-chan os.Signal) error {
	for _, l := range listeners {
		s.log.Info("listening", "addr", l.Addr().String(), "tls", s.config.Front.TLSConfig != nil && l.Addr().Network() != "unix", "version", s.call.CurrentVersion(), "pid", os.Getpid())
	}
	starting, started := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.watchQuorum(starting, listeners[0].Addr()) })
	if s.bootstraps {
		running.Go(func() { s.awaitMasters(starting) })
	}
	s.config.WatchFiles(starting, s.log)
	failed := make(chan error, len(listeners))
	running.Go(func() {
		s.awaitQuorum(starting)
		for _, l := range listeners {
			running.Go(func() { failed <- s.front.Serve(l) })
		}
		notify("READY=1")
	})
	running.Go(func() { s.feedWatchdog(starting) })
	defer s.end()
	defer running.Wait()
	defer started()
	go s.reloadOn(starting, hangups)
	if l := s.listenForReloads(); l != nil {
		defer l.Close()
		go s.answerReloads(l) // nobody waits for it, as for reloadOn
	}

	var told os.Signal
	for told == nil {
		select {
		case err := <-failed:
			s.log.Error("cannot accept connections any more", "err", err, "to_do", "restart redlockd; locks that are held stay on the masters")
			s.front.Close()
			return cli.ExitCode(cli.ExitFailed)
		case told = <-signals:
		}
	}
	go func() {
		sig := <-signals
		s.log.Warn("stopped at once by a second signal", "signal", sig.String(),
			"to_do", "nothing; locks that are held stay on the masters until their TTL, and any redlockd can release them")
		os.Exit(cli.ExitDropped)
	}()
	notify("STOPPING=1")
	if delay := s.current.Load().DrainDelay; delay > 0 {
		s.front.Leave()
		s.log.Info("locks are granted for "+config.FormatDuration(delay)+" more, and /readyz says 503, so that balancers notice: then it drains",
			"signal", told.String(), "to_do", toEndAtOnce)
		time.Sleep(delay)
	}
	s.drain(told)
	return nil
}

const toEndAtOnce = "nothing; a second signal ends redlockd at once, and leaves the locks to their TTL"

// drain ends the front in order. Locks may outlive it: the masters keep them until their TTL ends, and
// another redlockd over the same masters can extend and release them.
func (s *server) drain(told os.Signal) {
	timeout := s.current.Load().DrainTimeout
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	s.log.Info("draining: no new locks are granted, and clients have up to "+config.FormatDuration(timeout)+" to release those they hold",
		"signal", told.String(), "leases", s.engine.Stats().Leases, "to_do", toEndAtOnce)
	if err := s.front.Shutdown(ctx); err != nil {
		s.log.Warn("drain_timeout is over: the connections that are left are cut", "leases", s.engine.Stats().Leases,
			"to_do", "nothing; locks that are held stay on the masters until their TTL, and any redlockd can release them")
		return
	}
	s.log.Info("drained")
}

// end closes the engine and the embedded masters. The caller has closed the front, so nothing calls the
// engine any more.
func (s *server) end() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := s.engine.Close(ctx); err != nil {
		s.log.Warn("some releases could not be delivered to all masters: they end with their TTL", "masters", missing(s.engine.Masters()),
			"to_do", "nothing; these locks are free when their TTL is over")
	}
	s.closeEmbedded()
	s.log.Info("stopped")
}

// newLogger sets level to that of the configuration. A later change of it changes the level of the
// logger.
func newLogger(to io.Writer, c *config.Config, level *slog.LevelVar) *slog.Logger {
	level.UnmarshalText([]byte(c.LogLevel)) // the setting admits only words that it knows
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		// The JSON handler writes durations as bare nanoseconds.
		options.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr {
			if a.Value.Kind() == slog.KindDuration {
				a.Value = slog.StringValue(config.FormatDuration(a.Value.Duration()))
			}
			return a
		}
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// tuneRuntime sets defaults for GOGC, GOMEMLIMIT and GOMAXPROCS, unless the environment has them. It
// returns GOMEMLIMIT in bytes; 0: none is known.
//
// GOGC 400: the heap may grow to five times the live data between two collections. The live data are
// small (a few KB per connection), and parsing makes much garbage. A collector that ran a quarter as
// often gave more throughput in every measurement.
//
// GOMEMLIMIT: nine tenths of what the control group may take, because the kernel ends a process beyond
// that, and with it the connections that hold locks. The rest is for what is not Go's: sockets, pages of
// the program.
//
// GOMAXPROCS: half of the processors, but two if there are two. A few processors serve more locks than
// the masters can grant, and more of them mostly wake each other up. Measured on two processors shared
// with five masters and the clients, at 64 callers: one processor for redlockd instead of two gave 10 %
// fewer pairs a second to plain clients, and took 15 % less of redlockd's CPU per pair of pipelining
// clients.
func tuneRuntime(log *slog.Logger, environ []string) (memoryLimit int64) {
	isSet := func(name string) bool {
		return slices.ContainsFunc(environ, func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
	}
	if !isSet("GOGC") {
		debug.SetGCPercent(400)
	}
	if !isSet("GOMEMLIMIT") {
		switch limit, err := memlimit.FromCgroup(); {
		case err == nil && limit < math.MaxInt64:
			debug.SetMemoryLimit(int64(limit / 10 * 9))
		case err != nil && !errors.Is(err, memlimit.ErrNoLimit):
			log.Debug("no limit of memory is known of a control group", "err", err)
		}
	}
	if !isSet("GOMAXPROCS") {
		all := runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(max((all+1)/2, min(all, 2)))
	}
	if memoryLimit = debug.SetMemoryLimit(-1); memoryLimit == math.MaxInt64 {
		return 0
	}
	log.Info("memory is limited", "memory_limit", memoryLimit)
	return memoryLimit
}

// warnOfFewFiles warns when the system allows fewer open files than max_clients needs. The Go runtime
// has already raised the soft limit to the hard one.
func warnOfFewFiles(log *slog.Logger, c *config.Config) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < filesNeeded(c) {
		log.Warn("the limit of open files is too low for server.max_clients",
			"limit", limit.Cur, "needed", filesNeeded(c), "to_do", "raise the limit (ulimit -n, LimitNOFILE=), or lower max_clients")
	}
}

// filesNeeded is the number of open files when max_clients are connected.
func filesNeeded(c *config.Config) uint64 {
	const spare = 64 // masters, the listeners, the log
	return uint64(c.Front.MaxClients) + spare + httpConnsMax
}
