package proxy

import (
	"github.com/prometheus/client_golang/prometheus"

	"redlockd/redlock"
)

// The metrics that Prometheus scrapes from /metrics (http.go). Nothing is counted for them: a scrape
// reads the counters that INFO shows, so that a server which nobody scrapes does no work for it.
//
// No metric has a label that clients could multiply: no resource, no token, no address of a client.
// Labels are masters and users, of which the configuration has a number, and words of this file.
//
// To add a metric: give it a row in metricTable. Names follow Prometheus's "Metric and label naming": a
// counter ends in _total, a unit (seconds, bytes) stands in the name. A name is never changed without
// docker/alerts.yaml and the dashboard; a test compares the names in docker/alerts.yaml with the table.
//
// Rejected: counters of the Prometheus library in place of our own. INFO shows the same numbers, and a
// program cannot simply read such a counter back.

// reading is what one scrape has read, so that all its metrics are of one time.
type reading struct {
	srv *Server
	// front has the server's own counters, since its start.
	front totals
	// clients is the number of connections, those that have not logged in among them.
	clients int
	// locks has the engine's counters.
	locks redlock.Stats
	// masters are in the order of the configuration.
	masters []redlock.MasterStatus
}

// emit gives the value of a metric, for these values of its labels, in the order of its description.
type emit func(value float64, labels ...string)

// metric is one row of the table below.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	// read calls emit once for each combination of labels. Scrapes run at the same time: read must not
	// change anything.
	read func(r *reading, emit emit)
}

// newMetric makes a row. name is what stands behind redlockd_ in the metric's name. The functions below
// make the common kinds of rows, those without labels first.
func newMetric(kind prometheus.ValueType, name, help string, labels []string, read func(r *reading, emit emit)) metric {
	return metric{prometheus.NewDesc("redlockd_"+name, help, labels, nil), kind, read}
}

// counter is a number that only grows while the process runs.
func counter(name, help string, read func(r *reading) uint64) metric {
	return newMetric(prometheus.CounterValue, name, help, nil, func(r *reading, emit emit) { emit(float64(read(r))) })
}

// counted is a counter of the server itself, by its counterID.
func counted(name, help string, id counterID) metric {
	return counter(name, help, func(r *reading) uint64 { return r.front[id] })
}

// gauge is a number that rises and falls.
func gauge(name, help string, read func(r *reading) int) metric {
	return newMetric(prometheus.GaugeValue, name, help, nil, func(r *reading, emit emit) { emit(float64(read(r))) })
}

// outcomes is a counter of an operation by what is known of it: done, not done, or unknown. These three
// are kept apart everywhere, because an alert on "unknown" says that masters are out, and one on "not
// done" only that locks are contended.
func outcomes(name, help string, done, not string, read func(n *redlock.Stats) (done, not, unknown uint64)) metric {
	return newMetric(prometheus.CounterValue, name, help, []string{"outcome"}, func(r *reading, emit emit) {
		d, n, u := read(&r.locks)
		emit(float64(d), done)
		emit(float64(n), not)
		emit(float64(u), "noquorum")
	})
}

// ofMasters has a value for each master, with its address as the label.
func ofMasters(kind prometheus.ValueType, name, help string, read func(m *redlock.MasterStatus) float64) metric {
	return newMetric(kind, "master_"+name, help, []string{"master"}, func(r *reading, emit emit) {
		for i := range r.masters {
			emit(read(&r.masters[i]), r.masters[i].Addr)
		}
	})
}

// metricTable has all metrics but the histogram of rounds, which is not one number (roundsMetric).
var metricTable = []metric{
	// The server as a whole.
	newMetric(prometheus.GaugeValue, "info", "1, with the version of this redlockd.", []string{"version"},
		func(r *reading, emit emit) { emit(1, r.srv.opts.Version) }),
	gauge("ready", "1 if a quorum of masters has a vote and this server is not draining, else 0.",
		func(r *reading) int { return int(oneIf(r.srv.ready(r.masters) == nil)) }),
	gauge("draining", "1 while this server is stopping: it grants no new locks, or will not in a moment (drain_delay).",
		func(r *reading) int { return int(oneIf(r.srv.leaving.Load() || r.srv.draining.Load())) }),

	newMetric(prometheus.GaugeValue, "certificate_expiration_timestamp_seconds", "When a TLS certificate in use ends, in seconds since 1970.", []string{"file"},
		func(r *reading, emit emit) {
			if list := r.srv.opts.Certificates; list != nil {
				for _, c := range list() {
					emit(float64(c.NotAfter.Unix()), c.File)
				}
			}
		}),

	// Masters. All four states are emitted for each, with 0 or 1, so that an alert sees a state end.
	gauge("masters", "Masters that are configured.", func(r *reading) int { return len(r.masters) }),
	gauge("masters_voting", "Masters that are up, so that their votes count.", func(r *reading) int { return voting(r.masters) }),
	gauge("quorum", "Votes that a lock needs.", func(r *reading) int { return quorumOf(r.masters) }),
	newMetric(prometheus.GaugeValue, "master_state", "1 for the state that the master is in: up, quarantined, refused or down.", []string{"master", "state"},
		func(r *reading, emit emit) {
			for _, m := range r.masters {
				for _, state := range []redlock.MasterState{redlock.MasterUp, redlock.MasterQuarantined, redlock.MasterRefused, redlock.MasterDown} {
					emit(float64(oneIf(m.State == state)), m.Addr, string(state))
				}
			}
		}),
	ofMasters(prometheus.GaugeValue, "quarantine_left_seconds", "What is left of the master's quarantine.",
		func(m *redlock.MasterStatus) float64 { return m.Left.Seconds() }),
	ofMasters(prometheus.GaugeValue, "round_trip_seconds", "Round trip of the last batch of commands.",
		func(m *redlock.MasterStatus) float64 { return m.RTT.Seconds() }),
	ofMasters(prometheus.GaugeValue, "queued", "Operations that wait for the next batch.",
		func(m *redlock.MasterStatus) float64 { return float64(m.Queued) }),
	ofMasters(prometheus.GaugeValue, "pending_releases", "Releases to deliver when the master is back.",
		func(m *redlock.MasterStatus) float64 { return float64(m.PendingReleases) }),
	ofMasters(prometheus.CounterValue, "batches_total", "Batches of commands that were sent.",
		func(m *redlock.MasterStatus) float64 { return float64(m.Batches) }),
	ofMasters(prometheus.CounterValue, "operations_total", "Operations in these batches.",
		func(m *redlock.MasterStatus) float64 { return float64(m.Ops) }),
	ofMasters(prometheus.CounterValue, "timeouts_total", "Batches without an answer within master.timeout.",
		func(m *redlock.MasterStatus) float64 { return float64(m.Timeouts) }),
	ofMasters(prometheus.CounterValue, "shed_total", "Acquisitions that were not sent because master.queue_max were waiting.",
		func(m *redlock.MasterStatus) float64 { return float64(m.Shed) }),

	// Locks. "Their like" are the Redis commands and scripts by which libraries lock (dropin.go).
	outcomes("locks_total", "LOCKs and their like by outcome; one that waited counts once.", "granted", "denied",
		func(n *redlock.Stats) (_, _, _ uint64) { return n.Granted, n.Denied, n.NoQuorum }),
	outcomes("unlocks_total", "UNLOCKs and their like by outcome.", "released", "not_held",
		func(n *redlock.Stats) (_, _, _ uint64) { return n.Released, n.NotHeld, n.UnlockFail }),
	outcomes("extends_total", "EXTENDs and their like by outcome.", "granted", "lost",
		func(n *redlock.Stats) (_, _, _ uint64) { return n.Extended, n.ExtendLost, n.ExtendFail }),
	counter("lock_attempts_total", "Acquisition rounds, retries of waiters included.", func(r *reading) uint64 { return r.locks.Attempts }),
	counted("locks_undelivered_total", "Locks that were released again because their client had gone before the reply.", countRepliesLost),
	counter("leases_lost_total", "Leases that the masters no longer had before their validity ended.", func(r *reading) uint64 { return r.locks.Lost }),
	counter("handovers_total", "Releases that were passed on to the next waiter in the same batch.", func(r *reading) uint64 { return r.locks.Handovers }),
	counter("wakeups_total", "Pauses of waiters that ended because the masters sent invalidations: another client may have released the resource.", func(r *reading) uint64 { return r.locks.Wakeups }),
	gauge("leases", "Locks granted here that still run.", func(r *reading) int { return r.locks.Leases }),
	gauge("deferred", "Operations that have not begun because the masters have as much to do as they can answer in time.",
		func(r *reading) int { return r.locks.Deferred }),
	gauge("waiters", "LOCKs that wait.", func(r *reading) int { return r.locks.Waiters }),
	gauge("waiters_max", "LOCKs that locks.max_waiters allows to wait.", func(r *reading) int { return r.srv.opts.Engine.Options().MaxWaiters }),

	// Clients. A gauge stands beside its bound, so that an alert needs no number of its own.
	gauge("clients", "Connections of clients.", func(r *reading) int { return r.clients }),
	gauge("clients_max", "Connections that server.max_clients allows.", func(r *reading) int { return r.srv.opts.MaxClients }),
	counted("connections_total", "Connections that were accepted.", countConnections),
	counted("connections_rejected_total", "Connections that were refused because of server.max_clients.", countRejected),
	gauge("output_bytes", "Memory of replies and messages that wait for clients to read them.", func(r *reading) int { return int(r.srv.output.Load()) }),
	gauge("output_bytes_max", "What server.output_total allows of it.", func(r *reading) int { return r.srv.opts.OutputTotal }),
	newMetric(prometheus.CounterValue, "slow_clients_closed_total", "Clients that were closed because they read too slowly, by the setting that bounds what waits for them.", []string{"limit"},
		func(r *reading, emit emit) {
			emit(float64(r.front[countOutputLimited]), "output_max")
			emit(float64(r.front[countEvicted]), "output_total")
		}),
	counted("commands_total", "Commands that were executed.", countCommands),
	counted("error_replies_total", "Commands that were answered with an error.", countErrors),
	counted("protocol_errors_total", "Connections that were ended because what came was no command.", countProtocolErrors),
	counted("logins_failed_total", "AUTH and HELLO with a wrong name or password.", countLoginsFailed),
	counted("tls_handshakes_failed_total", "TLS handshakes that were begun and failed.", countHandshakesFailed),
	counted("received_bytes_total", "Bytes from clients.", countBytesIn),
	// Users, where any are configured.
	ofUsers(prometheus.GaugeValue, "user_clients", "Connections that are logged in as the user.", func(_ *reading, a *account) float64 { return float64(a.connections.Load()) }),
	ofUsers(prometheus.GaugeValue, "user_output_bytes", "Memory of replies and messages that wait for the user's clients.", func(_ *reading, a *account) float64 { return float64(a.output.Load()) }),
	ofUsers(prometheus.GaugeValue, "user_locks", "Resources that the user has locked through this server.", func(r *reading, a *account) float64 {
		locks, _ := r.srv.opts.Engine.Usage(a.share)
		return float64(locks)
	}),
	ofUsers(prometheus.GaugeValue, "user_waiters", "LOCKs of the user that wait.", func(r *reading, a *account) float64 {
		_, waiters := r.srv.opts.Engine.Usage(a.share)
		return float64(waiters)
	}),
	newMetric(prometheus.CounterValue, "user_refused_total", "What was refused because of a limit of the user, by the setting.", []string{"user", "limit"},
		func(r *reading, emit emit) {
			for _, a := range r.srv.accounts {
				emit(float64(a.refusedConnections.Load()), a.user.Name, "max_connections")
				emit(float64(a.refusedLocks.Load()), a.user.Name, "max_locks")
				emit(float64(a.refusedWaiters.Load()), a.user.Name, "max_waiters")
				emit(float64(a.refusedTTLs.Load()), a.user.Name, "max_ttl")
			}
		}),
	counted("sent_bytes_total", "Bytes to clients.", countBytesOut),
}

// ofUsers has a value for each user, with its name as the label. Without users the metric is there and
// has no value.
func ofUsers(kind prometheus.ValueType, name, help string, read func(r *reading, a *account) float64) metric {
	return newMetric(kind, name, help, []string{"user"}, func(r *reading, emit emit) {
		for _, a := range r.srv.accounts {
			emit(read(r, a), a.user.Name)
		}
	})
}

// roundsDesc describes the one histogram. Its buckets are the engine's own, see redlock.Times.
var roundsDesc = prometheus.NewDesc("redlockd_lock_round_seconds", "How long acquisition rounds took, from the first byte to the decision.", nil, nil)

// reading reads all that one scrape shows. It takes each mutex once and briefly, and never waits for a master.
func (srv *Server) reading() *reading {
	srv.mu.Lock()
	clients := len(srv.connections)
	srv.mu.Unlock()
	engine := srv.opts.Engine
	return &reading{srv, srv.totals(), clients, engine.Stats(), engine.Masters()}
}

// Describe implements prometheus.Collector. It is called once, when the registry is made.
func (srv *Server) Describe(descs chan<- *prometheus.Desc) {
	for i := range metricTable {
		descs <- metricTable[i].desc
	}
	descs <- roundsDesc
}

// Collect implements prometheus.Collector. It is called for each scrape, up to scrapesMax at the same time.
func (srv *Server) Collect(out chan<- prometheus.Metric) {
	r := srv.reading()
	for i := range metricTable {
		m := &metricTable[i]
		m.read(r, func(value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
		})
	}
	out <- roundsMetric(&r.locks.Rounds)
}

// roundsMetric makes a histogram of what the engine has counted: that of Prometheus counts everything
// up to each bound.
func roundsMetric(t *redlock.Times) prometheus.Metric {
	upTo, count := make(map[float64]uint64), uint64(0)
	for i, n := range t.Buckets {
		count += n
		if i < len(t.Buckets)-1 {
			upTo[t.BucketMax(i).Seconds()] = count
		}
	}
	return prometheus.MustNewConstHistogram(roundsDesc, count, t.Sum.Seconds(), upTo)
}
