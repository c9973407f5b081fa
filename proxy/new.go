package proxy

import (
	"net"
	"time"

	"redlockd/proxy/fleet"
	"redlockd/redlock"
)

// The top of the package: the one place that knows both the server and the commands that it serves.

// New makes a server. It reports what is wrong with the options. It makes itself the engine's receiver
// of messages, of which there is one only: two servers cannot share an engine.
func New(opts Options) (*Server, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	started, engine := time.Now(), opts.Engine.Options()
	srv := &Server{
		opts:        lastingOptions{opts.Engine, opts.Version, opts.Embedded, opts.TLSConfig, opts.Certificates, opts.Settings, opts.Reload, opts.MemoryLimit},
		log:         opts.Logger,
		table:       newCommandTable(commandRows),
		bounds:      opts.bounds,
		started:     started,
		queueMax:    engine.ShareQueueBytes(),
		stats:       newStats(started),
		shares:      newScriptShares(runsMax()),
		listing:     make(chan struct{}, 1),
		asking:      make(chan struct{}, 1),
		listeners:   make(map[net.Listener]struct{}),
		connections: make(map[int64]*connection),
		done:        make(chan struct{}),
		tracking:    tracking{max: trackedMax},
		cpu:         newSemaphore(),
		anonymous:   &account{asking: make(chan struct{}, 1)}, // of no user: it has no limits, and nothing is counted in it
	}
	srv.audit = newAudit(opts.Audit, opts.AuditLocks, opts.Logger)
	srv.fleet = fleet.New(fleet.Host{
		Mailbox: opts.Engine.Mailbox(),
		Publish: func(payload string) { srv.publish(fleet.Channel, payload) },
		Send:    func(mailbox, payload string) { srv.send(mailbox, fleet.Channel, payload) },
		Leases:  srv.leasesForFleet,
		Done:    srv.done,
	})
	live := newLiveOptions(opts, nil)
	srv.limitUsers(live, srv.memoryShare(live))
	srv.current.Store(live)
	redlock.OnChange(opts.Engine, srv.tracking.announced)
	opts.Engine.OnMessage(func(channel, payload string) {
		switch channel {
		case scriptFlushChannel:
			srv.scripts.forgetAll()
		case fleet.Channel:
			srv.fleet.Receive(payload)
		default:
			srv.subscribers.deliver(channel, payload)
		}
	})
	return srv, nil
}
